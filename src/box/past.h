/*
 * past.h: what lies in the past of a state, and the common past of two.
 *
 * A step follows the step before it; step 0 of a fork follows the step it was forked from; a merge also follows the step it merged; a
 * restore of a whole state follows its source instead of the step before it; and a merge or restore that was undone counts as if it had
 * not been, until the undo is redone. What does not follow from the numbers is kept in rows of its own (store_edge), so that no
 * step is read here, and pruned steps are no less in the past.
 */
#ifndef BOX_PAST_H
#define BOX_PAST_H

#include "box/internal.h"

typedef struct past_point {
	uint64_t box, seq;
} past_point;

enum {
	PAST_BASES_MAX = 8, /* common pasts of two states that are merged into one */
	PAST_JOINS_MAX = 32 /* of common pasts, of their common pasts, and so on, for one merge; each may take 1 KiB of stack */
};

/* The best common pasts of two sets of states: those that are in no other's past. Appends past_points to out. Cost: edges since them. */
cb_code past_common(cb_store *cs, const past_point *a, size_t a_count, const past_point *b, size_t b_count, buf *out,
                    cb_error *err);

/* The same of two states for a merge into b, which is in a call: its handle remembers the run of undone edges that was passed, so that
 * "merge, look, undo" over and over costs what was done since the last. */
cb_code past_common_of(cb_box *b, past_point ours, past_point theirs, buf *out, cb_error *err);

/*
 * Does ours know all that theirs comes from, but for merges of what it knows? Asked where theirs has nothing to bring: a merge says then
 * only that the one box has what another has, and boxes that merge each other in turn come to rest. plain: the other steps of theirs
 * changed nothing; otherwise ours does not know them. false also where too much would have to be asked.
 */
cb_code past_knows(cb_store *cs, past_point ours, past_point theirs, bool plain, bool *out, cb_error *err);

/* Inside the write transaction that puts a step: its edge, when it has one. box is where the step is, not a foreign number. CB_STALE when
 * what it comes from was pruned. */
cb_code past_record(cb_store *cs, const store_step *step, cb_error *err);
/* Is the last edge among the steps (after, to] of a box a merge? */
cb_code past_ends_in_merge(cb_store *cs, uint64_t box, uint64_t after, uint64_t to, bool *out, cb_error *err);

/* Would the past of a step be another one if the edge of an earlier step of its box did not count? Cost: edges of the box between them. */
cb_code past_needs_edge(cb_store *cs, past_point of, uint64_t seq, bool *out, cb_error *err);

/* What merges of living boxes may need, as far as it was found (past_keep.c). */
typedef struct past_needs {
	bool found;
	uint64_t box, recent; /* for whom */
	buf spots;            /* where merges may begin */
	buf points;           /* past_point, sorted */
	bool all;             /* everything: it could not be told */
} past_needs;

/* All edges, in memory, for who asks about many boxes. They are read on, not again: it must not outlive a sweep of edges. */
typedef struct past_edge_at {
	uint64_t box, seq;
	size_t at; /* position in edges */
} past_edge_at;

typedef struct past_edges {
	buf edges; /* store_edge, the oldest first */
	size_t count;
	past_edge_at *by; /* those of a box: by (box, seq) */
	past_edge_at *to; /* those that lead to a step: by (other_box, other_seq) */
	past_needs needs;
} past_edges;
/* What is new; p begins zeroed. */
cb_code past_edges_read(past_edges *p, cb_store *cs, cb_error *err);
void past_edges_done(past_edges *p);

/* Finds what merges of living boxes may need, unless what was found before is enough. Reads edges on. It holds as long as the write
 * transaction that it is called in. Called outside of one it is a preparation: the walk over the edges may take long. */
cb_code past_needs_read(cb_store *cs, past_edges *edges, cb_error *err);

/* Begins a write transaction that frees, after `find` (one of the calls here) has prepared it, again if something was merged meanwhile;
 * after some lost races all is found under the writer lock. */
cb_code past_lock(cb_store *cs, past_edges *edges, cb_code (*find)(void *context, cb_error *err), void *context, cb_error *err);

/* After past_needs_read: the steps of a box that they need, appended to seqs as uint64_t. */
cb_code past_needed(const past_edges *edges, uint64_t box, buf *seqs, cb_error *err);

/* Both, for a box that is pruned: what of it has a name is in seqs already. recent: from this step on all stay. */
cb_code past_keepers(cb_store *cs, past_edges *edges, const store_box *row, uint64_t recent, buf *seqs, cb_error *err);

/* After that, in the same transaction: may they need any step of another box, a deleted one? */
bool past_is_needed(const past_edges *edges, uint64_t box);

#endif
