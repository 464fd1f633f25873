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

/* All edges, in memory, for who asks about many boxes (past_keep.c). They are read on, not again: it must not outlive a sweep of edges. */
typedef struct past_edges {
	buf edges; /* store_edge, the oldest first */
	size_t count;
	struct past_edge_at *by; /* those of a box: by (box, seq) */
	struct past_edge_at *to; /* those that lead to a step: by (other_box, other_seq) */
	size_t *back;            /* by position in `by`: after which of them the same ones count; count: none */
} past_edges;
void past_edges_done(past_edges *p);

/* The steps of a box that may be a common past of two living boxes, appended to seqs as uint64_t; what stays for other reasons is there
 * already. in_use: of a deleted box, somebody has a state of it open, and can still merge that. recent: from this step on all stay
 * (UINT64_MAX: none). Reads what is new into edges, which begins zeroed. */
cb_code past_keepers(cb_store *cs, past_edges *edges, const store_box *row, bool in_use, uint64_t recent, buf *seqs, cb_error *err);

/* Steps of a box that go in the transaction that asks: they count as gone. */
typedef struct past_going {
	uint64_t box;
	buf seqs;        /* uint64_t, the newest first */
	uint64_t recent; /* from this step on the prune leaves all: undoing them shall find what it needs */
} past_going;
bool past_goes(const past_going *g, uint64_t box, uint64_t seq);

/*
 * What of a deleted fork, which nobody has open, merges of living boxes may need. A box that was merged by steps of one line is no common
 * past unless a merge is undone: until then nobody asks what it has in common with another one, which is where it came from.
 */
typedef enum past_need { PAST_NEEDS_NOTHING, PAST_NEEDS_STEPS, PAST_NEEDS_ORIGIN } past_need;
cb_code past_need_of(cb_store *cs, past_edges *edges, const store_box *row, const past_going *going, past_need *out, cb_error *err);

#endif
