/*
 * past_keep.c: which steps of a box prune must leave because merges may need them.
 *
 * The common past of two living boxes A and B in a box X is the older of "the newest step of X in A's past" and the same for B. So it is
 * enough to keep, for every living box, the newest steps of X in its past (several, where X was restored: its line then has branches).
 * They are found in one pass over all edges from the oldest on: what an edge's step has of X is what the step before it had, and what the
 * step it leads to had. A fork so has what its origin had when it was forked, for as long as it lives, whatever its origin merges later.
 *
 * Of a deleted box X nothing is kept where all that others have of it came to them through one box (see is_dominated), by steps that
 * cannot be undone any more: one of those steps is in the past of any two that have some of X, and is the better base.
 */
#include "box/past.h"

#include <stdlib.h>

/* Sets of steps of X, by edge: a slice of one array. */
typedef struct tops {
	size_t first, count;
} tops;

typedef struct past_edge_at {
	uint64_t box, seq;
	size_t at; /* position in edges */
} sorted;

typedef struct keeping {
	cb_store *cs;
	uint64_t box; /* X */
	const past_edges *p;
	const sorted *by; /* p's */
	size_t count;
	tops *of;      /* by position in edges: what its step has of X */
	buf steps;     /* uint64_t: what tops are slices of */
	bool branched; /* X was restored: its steps are no line */
} keeping;

/* ---- edges in memory ---- */

static cb_code take_edge(void *context, const store_edge *e, cb_error *err)
{
	return buf_append(context, e, sizeof(*e), err);
}

static int sorted_compare(const void *a, const void *b)
{
	const sorted *x = a, *y = b;
	if (x->box != y->box) return x->box < y->box ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

void past_edges_done(past_edges *p)
{
	buf_done(&p->edges);
	free(p->by);
	free(p->to);
	*p = (past_edges){0};
}

static cb_code edges_read(past_edges *p, cb_store *cs, cb_error *err)
{
	size_t known = p->count;
	const store_edge *all = (const store_edge *)(const void *)p->edges.bytes;
	uint64_t after = known ? all[known - 1].order : 0;
	if (!p->edges.max_size) p->edges = BUF_INIT(SIZE_MAX);
	CB_TRY(store_edge_list(cs->s, after, take_edge, &p->edges, err));
	size_t count = p->edges.size / sizeof(store_edge);
	if (count == known && p->by) return CB_OK;
	free(p->by);
	free(p->to);
	p->by = mem_alloc((count + 1) * sizeof(*p->by));
	p->to = mem_alloc((count + 1) * sizeof(*p->to));
	if (!p->by || !p->to) return cb_err_nomem(err);
	all = (const store_edge *)(const void *)p->edges.bytes;
	for (size_t i = 0; i < count; i++) {
		p->by[i] = (sorted){all[i].box, all[i].seq, i};
		p->to[i] = (sorted){all[i].other_box, all[i].other_seq, i};
	}
	if (count) qsort(p->by, count, sizeof(*p->by), sorted_compare);
	if (count) qsort(p->to, count, sizeof(*p->to), sorted_compare);
	p->count = count;
	return CB_OK;
}

/* How many of the sorted ones lie before a step. */
static size_t sorted_below(const sorted *all, size_t count, uint64_t box, uint64_t seq)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (all[mid].box < box || (all[mid].box == box && all[mid].seq < seq)) low = mid + 1;
		else high = mid;
	}
	return low;
}

/* ---- what a step has of X ---- */

static const store_edge *edge_at(const keeping *k, size_t i)
{
	return (const store_edge *)(const void *)k->p->edges.bytes + i;
}

/* The last of the edges sorted by (box, seq) that is at or before a step; count: none. */
static size_t sorted_before(const keeping *k, uint64_t box, uint64_t seq)
{
	size_t above = sorted_below(k->by, k->count, box, seq + 1);
	return above == 0 || k->by[above - 1].box != box ? k->count : above - 1;
}

/* Is step `low` of X in the line of step `high`? Only a restore leaves steps out. */
static bool in_line(const keeping *k, uint64_t high, uint64_t low)
{
	if (low > high) return false;
	if (!k->branched) return true;
	for (size_t at = sorted_before(k, k->box, high); at < k->count;) {
		const store_edge *e = edge_at(k, k->by[at].at);
		if (e->box != k->box || e->seq <= low) return true;
		if (e->kind == STORE_EDGE_RESTORE) return false; /* perhaps: then it is kept though it need not be */
		if (at-- == 0) return true;
	}
	return true;
}

/* Adds a step of X to the set that is being built at the end of k->steps from `first` on. */
static cb_code top_add(keeping *k, size_t first, uint64_t seq, cb_error *err)
{
	uint64_t *all = (uint64_t *)(void *)k->steps.bytes;
	size_t count = k->steps.size / sizeof(uint64_t);
	for (size_t i = first; i < count; i++)
		if (in_line(k, all[i], seq)) return CB_OK;
	for (size_t i = first; i < count;) {
		if (in_line(k, seq, all[i])) all[i] = all[--count];
		else i++;
	}
	k->steps.size = count * sizeof(uint64_t);
	return buf_append(&k->steps, &seq, sizeof(seq), err);
}

static cb_code tops_add(keeping *k, size_t first, tops more, cb_error *err)
{
	for (size_t i = 0; i < more.count; i++)
		CB_TRY(top_add(k, first, ((const uint64_t *)(const void *)k->steps.bytes)[more.first + i], err));
	return CB_OK;
}

/* What a step has of X, its own number when it is one of X. Edges above it in `of` must be done. */
static cb_code point_tops(keeping *k, uint64_t box, uint64_t seq, size_t first, cb_error *err)
{
	if (box == k->box) CB_TRY(top_add(k, first, seq, err));
	size_t at = sorted_before(k, box, seq);
	return at < k->count ? tops_add(k, first, k->of[k->by[at].at], err) : CB_OK;
}

/* Walks down one box where edges may have been taken back. */
static cb_code line_tops(keeping *k, size_t at, size_t first, cb_error *err)
{
	AUTO_BUF buf undone = BUF_INIT(SIZE_MAX);
	uint64_t box = edge_at(k, k->by[at].at)->box;
	for (;; at--) {
		const store_edge *e = edge_at(k, k->by[at].at);
		if (e->box != box) return CB_OK;
		const uint64_t *all = (const uint64_t *)(const void *)undone.bytes;
		bool counts = true;
		for (size_t i = 0; i < undone.size / sizeof(uint64_t); i++) counts = counts && all[i] != e->seq;
		if (counts && e->kind == STORE_EDGE_UNDO) CB_TRY(buf_append(&undone, &e->other_seq, sizeof(uint64_t), err));
		if (counts && e->kind != STORE_EDGE_UNDO) CB_TRY(point_tops(k, e->other_box, e->other_seq, first, err));
		if (at == 0 || (counts && (e->kind == STORE_EDGE_FORK || e->kind == STORE_EDGE_RESTORE))) return CB_OK;
	}
}

static cb_code fill_tops(keeping *k, cb_error *err)
{
	const sorted *to = k->p->to;
	size_t start = k->count; /* the oldest edge that leads to X: those before it have nothing of it */
	for (size_t i = sorted_below(to, k->count, k->box, 0); i < k->count && to[i].box == k->box; i++)
		if (to[i].at < start) start = to[i].at;
	for (size_t i = start; i < k->count; i++) { /* from the oldest on: what an edge leads to is done */
		const store_edge *e = edge_at(k, i);
		size_t first = k->steps.size / sizeof(uint64_t), at = sorted_before(k, e->box, e->seq);
		bool plain = e->kind == STORE_EDGE_MERGE || e->kind == STORE_EDGE_FORK;
		if (plain) {
			const sorted *below = at > 0 ? &k->by[at - 1] : NULL;
			CB_TRY(point_tops(k, e->other_box, e->other_seq, first, err));
			if (below && below->box == e->box) CB_TRY(tops_add(k, first, k->of[below->at], err));
		} else {
			CB_TRY(line_tops(k, at, first, err));
		}
		k->of[i] = (tops){first, k->steps.size / sizeof(uint64_t) - first};
	}
	return CB_OK;
}

static cb_code take_head(void *context, const store_box *row, cb_error *err)
{
	past_point p = {row->id, row->head.seq};
	return buf_append(context, &p, sizeof(p), err);
}

/* Was the step of an edge ever undone, or may it be yet? A step can be while it is there and its box is. */
static cb_code may_be_undone(const keeping *k, const store_edge *edge, bool *out, cb_error *err)
{
	*out = true;
	const sorted *to = k->p->to;
	for (size_t i = sorted_below(to, k->count, edge->box, edge->seq);
	     i < k->count && to[i].box == edge->box && to[i].seq == edge->seq; i++)
		if (edge_at(k, to[i].at)->kind == STORE_EDGE_UNDO) return CB_OK; /* of its own box, as all undos are */
	store_box row;
	uint64_t state_id;
	cb_error why;
	cb_code code = store_box_get(k->cs->s, edge->box, &row, cb_err_aside(&why));
	if (code == CB_OK && row.deleted) code = CB_NOTFOUND;
	if (code == CB_OK) code = step_exists(k->cs, edge->box, edge->seq, &state_id, cb_err_aside(&why));
	*out = code == CB_OK;
	return code == CB_OK || code == CB_NOTFOUND || code == CB_STALE ? CB_OK : cb_err_pass(err, code, &why);
}

/*
 * Can no two states outside of X have a step of X as a best common past, now or ever?
 *
 * One edge, from step s of another box Y to X: whoever has anything of X has it by this edge, and so came to Y at s or later, on a way that
 * is still plain at s. Two such states have a step of Y in common, the older one of those they came to, which is s or later too; its past
 * has the edge, and all of X that they have. Restores of Y do not matter: they lead a way past s, or not. An undo of s does, also one
 * that is made later: a step of Y above the undo, common to both, has s below it, but undone, and what both have of X by other ways, around
 * the undo, is then in the past of no step they have in common. So while a merge can be undone, what was merged is kept.
 *
 * Several edges, all from Y: the same, as long as the steps of Y are one line, in which the older of two has all that both have. A restore
 * ends that: X may have come in twice, on two lines, with nothing else in common since. (One that is made later does no harm: nothing of
 * X comes in any more.)
 */
static cb_code is_dominated(const keeping *k, bool *out, cb_error *err)
{
	uint64_t through = 0;
	size_t ways = 0;
	*out = false;
	const sorted *to = k->p->to;
	for (size_t i = sorted_below(to, k->count, k->box, 0); i < k->count && to[i].box == k->box; i++) {
		const store_edge *e = edge_at(k, to[i].at);
		bool undone = false;
		if (e->box == k->box) continue;
		if (through && through != e->box) return CB_OK;
		if (e->kind != STORE_EDGE_FORK) CB_TRY(may_be_undone(k, e, &undone, err));
		if (undone) return CB_OK;
		through = e->box;
		ways++;
	}
	for (size_t i = sorted_below(k->by, k->count, through, 0); ways > 1 && i < k->count && k->by[i].box == through; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		if (e->kind == STORE_EDGE_RESTORE || e->kind == STORE_EDGE_UNDO) return CB_OK;
	}
	*out = true;
	return CB_OK;
}

/* nobody_starts_here: no merge will ever begin at a state of X. */
static cb_code keep_run(keeping *k, bool nobody_starts_here, buf *seqs, cb_error *err)
{
	bool dominated = false;
	if (nobody_starts_here) CB_TRY(is_dominated(k, &dominated, err));
	if (dominated) return CB_OK;
	k->of = mem_alloc((k->count + 1) * sizeof(*k->of));
	if (!k->of) return cb_err_nomem(err);
	for (size_t i = 0; i < k->count; i++) {
		k->of[i] = (tops){0, 0};
		k->branched = k->branched || (edge_at(k, i)->box == k->box && edge_at(k, i)->kind == STORE_EDGE_RESTORE);
	}
	CB_TRY(fill_tops(k, err));
	AUTO_BUF buf heads = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(k->cs->s, false, take_head, &heads, err));
	const past_point *all = (const past_point *)(const void *)heads.bytes;
	for (size_t i = 0; i < heads.size / sizeof(past_point); i++) {
		size_t start = k->steps.size;
		CB_TRY(point_tops(k, all[i].box, all[i].seq, start / sizeof(uint64_t), err));
		if (k->steps.size > start) CB_TRY(buf_append(seqs, k->steps.bytes + start, k->steps.size - start, err));
		k->steps.size = start;
	}
	return CB_OK;
}

cb_code past_keepers(cb_store *cs, past_edges *edges, const store_box *row, bool in_use, buf *seqs, cb_error *err)
{
	CB_TRY(edges_read(edges, cs, err));
	keeping k = {.cs = cs, .box = row->id, .p = edges, .by = edges->by, .count = edges->count, .steps = BUF_INIT(SIZE_MAX)};
	cb_code code = keep_run(&k, row->deleted && !in_use, seqs, err);
	free(k.of);
	buf_done(&k.steps);
	return code;
}
