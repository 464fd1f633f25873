/* merge_base.h: the base of a merge: a state, or several merged into one in memory. */
#ifndef BOX_MERGE_BASE_H
#define BOX_MERGE_BASE_H

#include "box/past.h"

typedef struct merge_base {
	state *first;            /* the base, or the oldest of several, */
	kept_state kept;         /* from before it was read */
	txn *t;                  /* several: what leads from first to all of them. NULL: one, or none */
	merge_disputed disputed; /* in which they conflict */
	size_t lent;             /* texts of t */
} merge_base;

/* The common past of two states, for a merge that one handle makes. CB_INVALID: there is none. CB_STALE: it was pruned. CB_LIMIT: there are
 * more than PAST_BASES_MAX. Nothing is written. */
cb_code merge_base_find(cb_box *b, const state *ours, const state *theirs, merge_base *out, cb_error *err);
tree_view merge_base_view(const cb_store *cs, const merge_base *base);
/* Texts of a base that exists in memory only are lent to the transaction of the merge while it runs, and taken back before its commit. */
void merge_base_lend(merge_base *base, txn *t);
void merge_base_return(merge_base *base, txn *t);
void merge_base_done(merge_base *base);

#endif
