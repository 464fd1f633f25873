/* history.h: what the history files share: steps as owned rows, and the search for those that touched a file. */
#ifndef BOX_HISTORY_H
#define BOX_HISTORY_H

#include "box/past.h"

/*
 * Inside a write transaction: a fork lets go of its origin. Its step 0 gets a root of its own, its head stands on its own roots, and its
 * row names no origin any more. What its past has in common with others is in the edges, and stays.
 */
cb_code fork_part(cb_store *cs, const store_box *fork, cb_error *err);
/* Inside a write transaction: the head is written anew on the nearest root that is kept. */
cb_code head_settle(cb_store *cs, uint64_t box, cb_error *err);

/*
 * Inside a write transaction, before steps go: those that a deleted fork (store_box; they are sorted) came from stay, or it lets go of
 * them. going: the steps, uint64_t, the newest first. Where that are more than `most` steps of forks, too, the older ones are taken off the
 * list, and *limit is set above them. edges: past_keepers was asked about the box.
 */
cb_code forks_let_go(cb_store *cs, const past_edges *edges, buf *forks, size_t most, buf *going, uint64_t *limit, cb_error *err);

/* Inside a write transaction: of a deleted box whose steps go. */
cb_code checkpoints_forget(cb_store *cs, uint64_t box, cb_error *err);

/* A step's row with strings of its own. row.kind, row.who and the row's spans are empty: use the fields here. */
typedef struct step_row {
	store_step row;
	char *kind, *who, *params, *result;
	size_t params_size, result_size;
	buf changes; /* when asked for */
} step_row;

cb_code step_row_load(cb_store *cs, uint64_t box, uint64_t seq, bool with_changes, step_row *out, cb_error *err);
void step_row_done(step_row *r);
#define AUTO_STEP_ROW ATTR_CLEANUP(step_row_done)
/* Up to max rows from a step downwards, without changes; step_row_done() each. *out_count 0: none left. */
cb_code step_page_load(cb_store *cs, uint64_t box, uint64_t from, step_row *rows, size_t max, size_t *out_count, cb_error *err);

/* The newest step at or before max_seq that touched one of the subjects; 0: none. Step 0 is never given. *gap becomes true when steps were
 * passed that cannot be asked, because they were pruned. */
cb_code step_last_touch(cb_store *cs, uint64_t box, const uint64_t *subjects, size_t count, uint64_t max_seq, uint64_t *out,
                        bool *gap, cb_error *err);

/* A folder whose entries changed has a new record, which differs in times and version only: that is its entries' history, not its own,
 * and nobody's to take back. So has one whose attributes, tags or metadata changed, or to which somebody gave times: the former are its
 * own, and told by their keys, of which the caller must think. */
cb_code step_is_dir_touch(span key_bytes, span old_value, span new_value, bool *out, cb_error *err);

/* What undo and redo choose from, one walk down the steps of a box (undo_choice.c). */
typedef struct choosing {
	cb_box *b;
	cb_store *cs;
	uint64_t box;
	uint64_t next;      /* the step to look at; the head at first */
	buf cancelled;      /* uint64_t: undos that were redone, steps that were undone, as far as the walk has not passed them */
	uint64_t passed_to; /* changes above it were passed by undos that stand; 0: none */
	bool passed_hidden; /* a change that this handle does not see */
	bool passed_redo;   /* it may have passed undos of which nothing was left */
	bool passed;        /* something of which nothing was left: by undos that stand, and by the caller, who sets it */
} choosing;
/* For undo: the last change that stands. For redo: the last undo that stands, if nothing new came. Called again: the one before.
 * CB_NOTHING: there is none. */
cb_code undo_choose(choosing *c, bool redo, uint64_t *out, cb_error *err);
/* Is it one that can be taken back? One without a change of its own can, if it moved the past. */
bool undo_has_effect(const step_row *r);
/* Would taking back the step change nothing of what stands? */
cb_code undo_is_done(cb_box *b, uint64_t seq, bool *out, cb_error *err);
/* Does t, which had nothing at `before`, change something that can be seen: names, bytes, modes, marks, times of files, times that were
 * given to a folder, which names are one file? Versions, change times and numbers of inodes cannot (restore.c). Costs what it changes. */
cb_code txn_shows(txn *t, const txn_point *before, bool *out, cb_error *err);

/* Follows one path back through the steps of a box. */
typedef struct trail {
	cb_box *b; /* whose rules hold */
	cb_store *cs;
	uint64_t box;
	uint64_t seq; /* the next step to look at, downwards */
	key entry;    /* where the file is at that time */
	uint64_t ino;
	bool known;  /* ino is known */
	bool is_dir; /* it is a folder's */
	bool gap;    /* it passed steps of which nobody knows whether they touched it: they were pruned */
	/* 0, or: while seq is at or above it, the past is that of the place, whatever was moved there meanwhile. */
	uint64_t stays;
} trail;
/* Starts at a path of a view (which belongs to (box, seq)). CB_NOTFOUND when no folder on the way exists. */
cb_code trail_start(trail *t, cb_box *b, const tree_view *v, const char *path, cb_error *err);
/* The next older step that touched the file; *out 0: none left in this box. Afterwards the trail stands before that step: renames are
 * followed. */
cb_code trail_next(trail *t, uint64_t *out, cb_error *err);

/* What an undo, redo or restore brought back: the file that had its path in the state that was gone back to (came_back.c). */
typedef struct came_back {
	bool found;
	bool same; /* bytes as it has now */
	kept_state at;
	key entry; /* the file's place in it */
	uint64_t ino;
} came_back;
/* Of the file that a step left in a place. came_back_done() it, also after an error. */
cb_code came_back_find(cb_box *b, uint64_t box, uint64_t seq, const key *came_to, came_back *out, cb_error *err);
void came_back_done(came_back *c);

#endif
