/*
 * past_meet.h: the best common pasts of any two of many states, in one walk over the edges in memory (see past_keep.c, which asks).
 */
#ifndef BOX_PAST_MEET_H
#define BOX_PAST_MEET_H

#include "box/past.h"

typedef struct past_start {
	past_point at;
	bool ends; /* only the plain steps down to the next edge, not what that leads to */
} past_start;

enum { PAST_STARTS_MAX = 4096 }; /* that lie between different edges */

/* How many of the edges sorted by (box, seq), or by what they lead to, lie before a step. */
size_t past_sorted_below(const past_edge_at *all, size_t count, uint64_t box, uint64_t seq);

/* The edge of a box at or before a step, by its place in p->edges; p->count: none. */
size_t past_anchor(const past_edges *p, past_point at);

/* Appends past_points to out, each once. Of starts between the same two edges the two uppermost are asked about; the others are in out.
 * CB_LIMIT: too many; CB_UNSUPPORTED: the edges are not in the order in which they were made. */
cb_code past_meet(const past_edges *p, const past_start *starts, size_t count, buf *out, cb_error *err);

/* past_points, each once. */
void past_points_sort(buf *points);

#endif
