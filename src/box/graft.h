/*
 * graft.h: a box built from outside, step by step, that nobody sees before it is whole.
 *
 * The rows of the new box are those of a deleted one until graft_publish, and belong to an owner: gc leaves them while the builder lives,
 * and takes them when it died. What is put in is not trusted: after each step the same invariants hold as fsck checks, or the step is
 * CB_CORRUPT. Only what changed is looked at, so the cost is that of the changes.
 *
 * Keys and values handed in are decodable and name contents that are there (the caller has decoded them); how they fit together is
 * checked here.
 *
 *   graft_open
 *   graft_hold                           takes the writer lock; what follows is made under as many holds as the caller likes:
 *   graft_begin
 *   ( graft_step_begin  [ graft_put ... graft_cut ]  graft_put ...  graft_step_end ) ...
 *   graft_publish                        under the last one
 *   graft_let_go                         commits what was done under the hold; graft_abort forgets it
 *   graft_close                          outside; takes away what was not published
 *
 * However large a step is, others wait for some milliseconds: keys and nodes are written in short transactions of their own, one after the
 * other, and whole trees are looked at without the lock. So whatever is done between graft_hold and graft_let_go may be committed before.
 */
#ifndef BOX_GRAFT_H
#define BOX_GRAFT_H

#include "box/history.h"

/* A second parent that is not in this store: names no box, but a setting of the step's own box that holds its name. Number 0 is the box
 * itself: such a step is known by name only too, because nobody has proved that it did what it says (see restore.c). */
#define FOREIGN_BOX ((uint64_t)1 << 40)
#define FOREIGN_PREFIX "cowbox.foreign."
/* The builder's owner, while the box is being built. */
#define GRAFT_OWNER_SETTING "cowbox.graft-owner"

typedef struct graft {
	cb_store *cs;
	unsigned era; /* (entry.h) in which it was opened: in a child of fork() the box and its owner are the parent's */
	uint64_t owner;
	store_box row; /* id 0: not begun */
	bool stored;   /* a row that was committed */
	bool published;
	int64_t held_since_ns; /* the writer lock */
	tree_nodes nodes;      /* the store's, with a breath after each one that was put */

	/* The state so far: a tree and the changes since it was written. */
	uint64_t root;
	pmap overlay;
	uint64_t weight; /* of the steps since root */
	uint64_t root_seq;

	/* The newest finished step. */
	bool has_step;
	uint64_t seq, state;
	uint64_t steps;
	uint64_t indexed; /* the last step in the index of steps */

	/* The step under way. */
	bool in_step;
	bool gap;              /* steps before it were pruned */
	uint64_t step_seq;     /* its number */
	uint64_t step_state;   /* the state it leads to, if it changes anything */
	uint64_t before_state; /* with a gap: stands for the states that were pruned before it */
	pmap delta;            /* what it changes */
	bool spilled;          /* delta grew large: `root` is the tree before the step and `spill` the one with part of it */
	uint64_t spill;
	uint64_t cut_weight; /* keys changed in the gap */
	buf touches;         /* of a large step: its row of the index of steps */
} graft;

cb_code graft_open(graft *g, cb_store *cs, cb_error *err);
void graft_close(graft *g);
cb_code graft_hold(graft *g, cb_error *err);
cb_code graft_let_go(graft *g, cb_error *err);
void graft_abort(graft *g);
/* Under a hold that has lasted long enough: lets others write. */
cb_code graft_breathe(graft *g, cb_error *err);
/* A hidden box of that name. CB_EXISTS when a living one has it. */
cb_code graft_begin(graft *g, const char *name, int64_t created_ns, cb_error *err);

/* seq 0 first, then upwards; a number that is not the next one makes a gap. */
cb_code graft_step_begin(graft *g, uint64_t seq, cb_error *err);
/* new_value.bytes NULL deletes. Both are copied. */
cb_code graft_put(graft *g, span key_bytes, span new_value, cb_error *err);
/* What was put so far is what happened in the gap; what follows is the step's own. */
cb_code graft_cut(graft *g, cb_error *err);
typedef struct graft_header {
	const char *kind, *who;
	span params, result;
	int64_t started_ns, ended_ns;
	uint64_t target, other_box, other_seq;
	bool unknown; /* after a gap: the step changed something, but what cannot be told apart from what happened in the gap */
} graft_header;
cb_code graft_step_end(graft *g, const graft_header *header, cb_error *err);
/* Of the newest state. */
cb_code graft_counters(const graft *g, counters *out, cb_error *err);
/* row: quotas and retention are taken from it. CB_EXISTS when the name was taken meanwhile. */
cb_code graft_publish(graft *g, const store_box *row, cb_error *err);

/* graft_check.c: the invariants, where a step touched them. `next` gives every key that differs between the two views. */
typedef struct graft_check graft_check;
cb_code graft_check_create(graft_check **out, cb_error *err);
void graft_check_destroy(graft_check *c);
/* Starts on the way from one state to the next; the views live to the end. */
void graft_check_begin(graft_check *c, const tree_view *before, const tree_view *after);
cb_code graft_check_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err); /* a tree_diff_visit */
cb_code graft_check_end(graft_check *c, uint64_t *out_keys, cb_error *err);

/* For gc: what a deleted box is. */
typedef enum graft_stage {
	GRAFT_NONE,   /* a whole box that somebody deleted */
	GRAFT_LIVING, /* it is being built */
	GRAFT_DEAD,   /* its builder is gone: it was never whole */
} graft_stage;
cb_code graft_stage_of(cb_store *cs, const store_box *row, graft_stage *out, cb_error *err);
/* The name of a box to who looks from `asking`: "" when it is gone or deleted, since another may have its name by now. A box that was
 * deleted under an open handle goes on having its name there. */
void box_live_name(cb_store *cs, uint64_t asking, uint64_t box, char out[CB_NAME_MAX + 1]);
/* The same of a step's second parent; "" also when it is not known. */
void step_other_name(cb_store *cs, uint64_t box, uint64_t other_box, char out[CB_NAME_MAX + 1]);
/* Is that a box of the store that the step was packed in, of which nothing but the name is known? */
bool step_other_is_foreign(uint64_t other_box);

#endif
