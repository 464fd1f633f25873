/*
 * merge.h: what the files of the merge share. merge_conflicts.c keeps conflicts and their answers, merge.c finds and decides,
 * merge_numbers.c knows what is one file under several numbers, merge_folders.c finds folders that were made again, merge_settle.c what a
 * conflict decides besides, merge_place.c deletes, moves and adds, merge_fields.c merges what both sides have, merge_answers.c sees that
 * the answers were kept. See merge.c for the idea and the order of work.
 */
#ifndef BOX_MERGE_H
#define BOX_MERGE_H

#include "box/internal.h"

#include <stdio.h>

/* One inode as one side sees it. */
typedef struct unit {
	bool present;
	inode node;
	place *places; /* sorted by (parent, name) */
	size_t count;
	bool unsorted; /* one of them was put first */
} unit;

/*
 * A conflict about a name that was settled for one side decides about both files that wanted it: the loser's is where the winner has it, as
 * if the loser had not moved it. What that was is known only once the conflict is met; so it is noted, and the merge is made once more.
 */
typedef enum settling {
	SETTLED_NOT,
	SETTLED_OURS,  /* it stays where ours has it */
	SETTLED_THEIRS /* it goes where theirs has it */
} settling;

typedef enum fate { FATE_FIELDS, FATE_ADD, FATE_DELETE, FATE_DONE } fate;

/*
 * One file, link or folder on all three sides. Its identity is its inode number; but a file that one side replaced (a new file where the
 * base had it, the old one gone) is still the same file: then that side's unit is the new file's, under another number. So a side's own
 * number is asked for by merge_ino_here and merge_ino_there.
 */
typedef struct item {
	uint64_t ino; /* in the base, or where it was made */
	unit base, ours, theirs;
	unit was; /* the base with its own names, where what was settled gave `base` others; else not present */
	fate fate;
	bool replaced_here, replaced_there;
	bool written_here, written_there; /* in a strict merge: its data, with whatever bytes */
	bool aside;                       /* one side replaced it; the other moved it aside and has a new file in its place too */
	bool disputed;                    /* it has no base: the common pasts conflict in it, or have it not though both sides do */
	bool brought;                     /* ours took it away, and a decision about the whole of it brings it back */
	bool parked;                      /* put aside in this pass, whatever became of it */
	bool moving;                      /* still is; wants theirs' place, */
	bool waits_to_last;               /* which lies below itself */
	settling settled;                 /* by an earlier conflict: whose names it has */
	bool busy;                        /* being placed: guards against going round in circles */
	uint64_t into;                    /* where theirs' inode lives in the result: itself, another one, or 0 when dropped */
	uint64_t stands_for; /* of what theirs made: the item whose place it took, and where it is decided about; 0: none */
} item;

static inline uint64_t merge_ino_here(const item *it)
{
	return it->ours.present ? it->ours.node.rec.ino : it->ino;
}

static inline uint64_t merge_ino_there(const item *it)
{
	return it->theirs.present ? it->theirs.node.rec.ino : it->ino;
}

/* The names that it has in the base, whatever was settled. */
static inline const unit *merge_old_names(const item *it)
{
	return it->was.present ? &it->was : &it->base;
}

/* A folder of the base that a side removed and made again, and the number it has in this merge, which is ours' (merge_folders.c). */
typedef struct remade {
	uint64_t old, number;
	uint64_t here, there; /* what stands for it; 0: nothing */
} remade;

typedef struct merge {
	txn *t;
	const tree_view *base, *ours, *theirs; /* base and theirs with ours' numbers of remade folders */
	tree_view base_here, theirs_here;      /* those, where there are any */
	pmap base_delta, theirs_delta;         /* of these */
	buf remade;                            /* remade */
	pmap judged;                           /* folders of the base that were looked at for it */
	merge_conflicts *conflicts;
	const merge_disputed *disputed; /* NULL: none */
	const pmap *written;            /* by theirs; NULL: nobody noted it */
	merge_disputed *left;           /* collects what stays in conflict; NULL: nobody asks */
	bool back;                      /* a step is taken back: what theirs has and the base has not, the step took away */
	bool again;                     /* gathered once: key-values are done */
	buf inos;                       /* uint64_t, sorted, unique */
	item *items;                    /* one per ino */
	size_t count;
	pmap successors;    /* new files that were taken for the ones they replaced: inode keys, and the number of the item */
	pmap settled;       /* settling, by inode keys */
	pmap kept;          /* of ours, by inode keys: what theirs took away and a decision keeps */
	pmap data_for;      /* of the result, by inode keys: for whom a conflict about its data was settled, as settling */
	buf contradictions; /* paths, each with its NUL, about which the answers contradict each other */
	bool gave_way;      /* something was removed for what theirs has there */
	bool unsettled;     /* something was settled that this pass did not know when it began: it is made once more */
	bool last;          /* all else is placed and settled: merge_place_last */
	unsigned nesting;   /* of place_way */
} merge;

static inline bool merge_is_strict(const merge *m)
{
	return m->conflicts->strict;
}

/* A strict merge takes a file that was written or replaced for changed, also when its bytes are as before: who did it was told that it is
 * there, and relies on it. */
static inline bool merge_renewed_here(const merge *m, const item *it)
{
	return merge_is_strict(m) && (it->replaced_here || it->written_here);
}

static inline bool merge_renewed_there(const merge *m, const item *it)
{
	return merge_is_strict(m) && (it->replaced_there || it->written_there);
}

/* Does what ours took away and theirs changed come into the result? When common pasts are merged into a base, also if nobody decided: it is
 * in dispute, and only where the base has it are new files under its name seen to stand for it. */
static inline bool merge_brings(const merge *m, bool theirs_wins)
{
	return theirs_wins || m->left != NULL;
}

/* A place of the result, and who sits there. */
typedef struct slot {
	uint64_t parent;
	bool taken;
	inode occupant;
} slot;

/* ---- merge_conflicts.c ---- */

/* merge_decide for a file by its path in ours, else in theirs, else in the base: about what it holds. *theirs_wins: the caller does what
 * theirs wants. */
cb_code merge_conflict_at(merge *m, const item *it, const char *reason, bool *theirs_wins, cb_error *err);
/* The same about where it is, and whether. */
cb_code merge_conflict_where(merge *m, const item *it, const char *reason, bool *theirs_wins, cb_error *err);
/* The same for one name in a folder of theirs: who has it. it and other (0: none) are in dispute. */
cb_code merge_conflict_name(merge *m, const item *it, uint64_t other, const place *at, const char *reason, bool *theirs_wins,
                            cb_error *err);
/* The same about what the file under that name holds. */
cb_code merge_conflict_under(merge *m, const item *it, uint64_t other, const place *at, const char *reason, bool *theirs_wins,
                             cb_error *err);
/* When common pasts are merged into a base: under a name that one of them gave a file in dispute the base may have what another has there.
 * That is in dispute too: a side without it did not take it away, but has the name's other file. */
cb_code merge_dispute_names(merge *m, cb_error *err);
bool merge_disputes_ino(const merge_disputed *d, uint64_t ino);
bool merge_disputes_name(const merge_disputed *d, const place *at);
/*
 * Answers for several paths may contradict each other: what one drives from where ours has it, another keeps from where theirs has it, or
 * what one decides another takes away (merge_check_answers). Then none of them is right, and the conflict stays open. Noted, since the next
 * pass may know better; told at the end of the last, unless something is open anyway.
 */
cb_code merge_contradicts_at(merge *m, const item *it, cb_error *err);
cb_code merge_contradicts_name(merge *m, const place *at, cb_error *err); /* in a folder of theirs */
cb_code merge_contradicts_ino(merge *m, uint64_t ino, cb_error *err);     /* of ours */
cb_code merge_check_placed(merge *m, cb_error *err); /* what both sides have is in the result, or it contradicts */
cb_code merge_tell_contradictions(merge *m, cb_error *err);
/* The last look before a commit: whatever was moved lies below the root. It should always; but what lies in a cycle could not be reached by
 * any call, and no call could mend it. So that is refused: CB_INTERNAL. Cost: what was moved, and how deep it lies. */
cb_code merge_check_moved(merge *m, cb_error *err);

/* ---- merge_answers.c ---- */

/* A conflict about the data of a file of the result was settled. *kept false: another was before, under another of its names, for the other
 * side. */
cb_code merge_settle_data(merge *m, uint64_t ino, bool theirs_wins, bool *kept, cb_error *err);
/* Every path in conflict shows what the side has there that was answered for, or it contradicts. */
cb_code merge_check_answers(merge *m, cb_error *err);

/* ---- merge.c ---- */

/* free() its places. */
cb_code merge_unit_load(const tree_view *v, uint64_t ino, unit *out, cb_error *err);
cb_code merge_is_present(const tree_view *v, uint64_t ino, bool *out, cb_error *err);
/* Has ours, or theirs, what the base has, but for times? */
cb_code merge_is_as_before(merge *m, const item *it, bool here, bool *out, cb_error *err);
/* The same, wherever it is. Both have it. */
cb_code merge_holds_as_before(merge *m, const item *it, bool here, bool *out, cb_error *err);
bool merge_places_equal(const unit *a, const unit *b);
bool merge_place_in(const unit *u, const place *p);
/* At most one name on every side: it moves, instead of gaining and losing names. */
bool merge_single_place(const item *it);
/* Do two records hold the same bytes? Not files and links: true. */
cb_code merge_data_same(merge *m, const tree_view *va, const record *a, const tree_view *vb, const record *b, bool *out,
                        cb_error *err);
uint64_t merge_item_number(const merge *m, uint64_t ino); /* of the item for which a new file stands, else its own */
item *merge_item_find(merge *m, uint64_t ino);            /* NULL: theirs did not change it */
/* The file of a view at a place of another, when its folder is the same there. *found false: none, or no file. */
cb_code merge_file_at(const tree_view *v, const place *at, inode *out, bool *found, cb_error *err);

/* A file of ours at that place which neither base nor theirs knows, and which stands for no other than the one that was there; 0: none. */
cb_code merge_new_file_here(merge *m, const place *at, uint64_t *out, cb_error *err);
/* Theirs has a new file, it, and ours another, `mine`, under one of its names. Does one of the two stand, under a further name, for
 * another file of the base, in whose place the other side has a third? Then they are not one: which names are one file would depend on
 * the direction. */
cb_code merge_new_files_cross(merge *m, const item *it, uint64_t mine, bool *out, cb_error *err);

/* ---- merge_numbers.c ---- */

/* When common pasts are merged into a base: it has theirs' file or folder under another number. */
cb_code merge_note_number(merge *m, uint64_t number, uint64_t there, cb_error *err);
/* What a side has that the base has under `number`, which the side does not have; 0: nothing. */
cb_code merge_other_number(const merge *m, const tree_view *side, uint64_t number, uint64_t *out, cb_error *err);
/* Does the base have it, under whatever number? */
cb_code merge_base_knows(const merge *m, uint64_t ino, bool *out, cb_error *err);

/* ---- merge_folders.c ---- */

/* Looks for folders that were made again, around m->inos. *found: base and theirs are other views now. */
cb_code merge_find_remade(merge *m, bool *found, cb_error *err);
const remade *merge_remade_of(const merge *m, uint64_t number); /* NULL: it is none */

/* ---- merge_settle.c ---- */

/* A name no path can hold. */
static inline size_t merge_parked_name(uint64_t ino, char out[32])
{
	return (size_t)snprintf(out, 32, "/%llx", (unsigned long long)ino);
}

/* Notes for the next pass whose names a file has, unless that is known. */
cb_code merge_settle(merge *m, uint64_t ino, settling how, cb_error *err);
/* A folder that only one side has stays or comes, with what is in it that this side did not change. */
cb_code merge_settle_below(merge *m, uint64_t dir, settling how, cb_error *err);
/* The side whose names it does not have did not change them: the base had the same. */
cb_code merge_settle_names(merge *m, item *it, cb_error *err);
/* The loser had moved it to where the base has another file: where the winner still has that there, it stays. */
cb_code merge_settle_covered(merge *m, const item *it, bool theirs_wins, cb_error *err);
/* Both sides took this name from a file. Where the winner has nothing there, what the loser moved there goes back; what it made goes. */
cb_code merge_settle_empty(merge *m, const place *at, bool theirs_wins, cb_error *err);
/* In a strict merge: both sides took a name of a file away. Where both have the file still, it has the names that the winner gave it. */
cb_code merge_settle_lost_name(merge *m, const item *it, const place *at, bool *theirs_wins, cb_error *err);
/* Would a folder come to lie in itself, in folder `dir` of the result? */
cb_code merge_lies_below(merge *m, uint64_t dir, uint64_t ino, bool *out, cb_error *err);
/* Theirs moves a folder to below itself, since both sides moved some: what the loser moved of those between goes back, and the folder too
 * if theirs is the loser. All of them, also when the next pass has no other between: so it is the same in both directions. */
cb_code merge_settle_between(merge *m, const item *it, uint64_t parent, bool theirs_wins, cb_error *err);
/* Theirs wins a place: what is there goes with all that is below it, but for what theirs has as well. When there is such, the pass ends as
 * if it had been put aside: what else it finds is to be as true as it can. */
cb_code merge_give_way(merge *m, uint64_t parent, span name, const inode *occupant, cb_error *err);
/* What theirs took away stays, by a decision. */
cb_code merge_keep(merge *m, uint64_t ino, cb_error *err);
/* Is nothing in a folder of ours but what was kept so, and folders that theirs took away too? Then it stays with that. */
cb_code merge_holds_kept(merge *m, uint64_t dir, bool *out, cb_error *err);
/* Did an earlier conflict settle that it stays where ours has it? */
bool merge_stays(merge *m, uint64_t ino);
/* Did a side take a name away that the base has? */
bool merge_took_away(const unit *base, const unit *side);

/* ---- merge_place.c, in the order of work ---- */

/* The folder of the result that stands for theirs' folder `ino`; 0: dropped. Places it first. */
cb_code merge_result_dir(merge *m, uint64_t ino, uint64_t *out, cb_error *err);
cb_code merge_delete_files(merge *m, cb_error *err);
cb_code merge_park_moves(merge *m, cb_error *err);
cb_code merge_drop_links(merge *m, item *it, cb_error *err);
cb_code merge_delete_empty_dirs(merge *m, cb_error *err);
cb_code merge_place_all(merge *m, cb_error *err);
/* Names that theirs gave to a file which ours has too. */
cb_code merge_add_links(merge *m, item *it, cb_error *err);
cb_code merge_delete_other_dirs(merge *m, cb_error *err);
/* Folders that were moved into each other. After all else: another conflict may take one of them out, and who meets whom first depends on
 * which side is merged into the other. */
cb_code merge_place_last(merge *m, cb_error *err);

/* ---- merge_fields.c ---- */

/* Both sides made it: one inode, ours, with the attributes of both and the later times. */
cb_code merge_unite(merge *m, item *it, const inode *mine, cb_error *err);
/* In a strict merge: which side wrote it? */
cb_code merge_note_written(merge *m, item *it, cb_error *err);
/* Attributes, data, mode and times of an inode that both have. */
cb_code merge_fields(merge *m, item *it, cb_error *err);
/* Of what is in its place, once all entries are: they move them on. */
cb_code merge_folder_times(merge *m, item *it, cb_error *err);
/* Theirs changed the file, and under a name of it ours has a new file in its place (the old one has other names, or was moved aside as a
 * backup): the change is meant for that too. */
cb_code merge_successors_here(merge *m, item *it, cb_error *err);
/* Is `mine` a new file of ours, and it a new one of theirs, in the place of one that the base had at `at`? Then the two are one, ours,
 * it->into: data by lines, mode and attributes. *done false: it is not so, or their lines conflict, and nothing happened. */
cb_code merge_successors(merge *m, item *it, const place *at, inode *mine, bool *done, cb_error *err);
/* Has a side's new file in the place of one of the base nothing that this one had not? Attributes that it lost nobody took away. */
cb_code merge_is_renewed_alike(merge *m, const record *old, const tree_view *side, const record *made, bool *out, cb_error *err);
/* Theirs put a new file, it, where the base had `old`, which ours changed (`here`) and which lives on elsewhere: what ours changed besides
 * the data is meant for the new one too. It was placed. */
cb_code merge_carry_fields(merge *m, item *it, const place *at, const inode *old, const inode *here, cb_error *err);
/* Three texts: what leads from base to theirs, put into node, which holds ours' data and is not saved. *done false: they are no texts,
 * or changed the same lines, and nothing happened. *changed becomes true when node got other data. */
typedef struct merge_texts {
	const tree_view *base_view, *ours_view, *theirs_view;
	const record *base, *ours, *theirs;
} merge_texts;
cb_code merge_text(merge *m, const merge_texts *x, inode *node, bool *done, bool *changed, cb_error *err);

#endif
