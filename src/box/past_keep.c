/*
 * past_keep.c: which steps prune and gc must leave because merges may need them.
 *
 * A merge needs the best common pasts of the two states it begins at. Which states merges will begin at nobody knows, but all that can come
 * is made of what is there: the past of a later state is what the heads of some living boxes have, without some of what can be undone
 * and with some of what was undone and can come back. So it is put together from the pasts of these *starts*:
 *
 * - the heads of the living boxes, and old states that somebody has open;
 * - of each living box, whose edges can be undone from some step on: the state below that step, and what the edges from there on lead to.
 *   (An undo that can be undone can bring its target back, so the step is at or below that, too);
 * - of the box that is pruned, what keeps a name, as one may fork from that.
 *
 * A best common past of two pasts that are put together is one of two of their parts: what is in no other's past in the whole is in no
 * other's past in a part. So the best common pasts of all pairs of starts are all that is ever needed, and what is needed after the next
 * prune is among them. Of the box that is pruned, steps that go may lie among its own edges that count: they are starts of their own, as
 * far as the next edge.
 *
 * Edges that were not made in order, of stores of an earlier format whose clock went back, and more living boxes than fit, between
 * different edges: then every step stays that an edge leads to, or that lies below a restore.
 */
#include "box/past.h"
#include "box/past_meet.h"

#include <stdlib.h>

/* ---- edges in memory ---- */

static cb_code take_edge(void *context, const store_edge *e, cb_error *err)
{
	return buf_append(context, e, sizeof(*e), err);
}

static int sorted_compare(const void *a, const void *b)
{
	const past_edge_at *x = a, *y = b;
	if (x->box != y->box) return x->box < y->box ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

void past_edges_done(past_edges *p)
{
	buf_done(&p->edges);
	free(p->by);
	free(p->to);
	buf_done(&p->needs.spots);
	buf_done(&p->needs.points);
	*p = (past_edges){0};
}

static const store_edge *edge_at(const past_edges *p, size_t i)
{
	return (const store_edge *)(const void *)p->edges.bytes + i;
}

cb_code past_edges_read(past_edges *p, cb_store *cs, cb_error *err)
{
	size_t known = p->count;
	uint64_t after = known ? edge_at(p, known - 1)->order : 0;
	if (!p->edges.max_size) p->edges = BUF_INIT(SIZE_MAX);
	CB_TRY(store_edge_list(cs->s, after, take_edge, &p->edges, err));
	size_t count = p->edges.size / sizeof(store_edge);
	if (count == known && p->by) return CB_OK;
	p->needs.found = false;
	free(p->by);
	free(p->to);
	p->by = mem_alloc((count + 1) * sizeof(*p->by));
	p->to = mem_alloc((count + 1) * sizeof(*p->to));
	if (!p->by || !p->to) return cb_err_nomem(err);
	for (size_t i = 0; i < count; i++) {
		const store_edge *e = edge_at(p, i);
		p->by[i] = (past_edge_at){e->box, e->seq, i};
		p->to[i] = (past_edge_at){e->other_box, e->other_seq, i};
	}
	if (count) qsort(p->by, count, sizeof(*p->by), sorted_compare);
	if (count) qsort(p->to, count, sizeof(*p->to), sorted_compare);
	p->count = count;
	return CB_OK;
}

/* ---- where merges begin ---- */

/* A living box. */
typedef struct line {
	uint64_t box, head;
	uint64_t least; /* its edges from here on may be undone, or come back; UINT64_MAX: none yet */
	bool ended;     /* no older one may */
} line;

typedef struct gathering {
	cb_store *cs;
	const past_edges *p;
	uint64_t box;    /* that is pruned; 0: none */
	uint64_t recent; /* its steps from here on stay, and may be undone */
	buf starts;      /* past_start */
	buf lines;       /* line, sorted */
} gathering;

static void gathering_done(gathering *g)
{
	buf_done(&g->starts);
	buf_done(&g->lines);
}

static size_t start_count(const gathering *g)
{
	return g->starts.size / sizeof(past_start);
}

/* Has anybody else a step of a box? */
static bool is_led_to(const past_edges *p, uint64_t box)
{
	size_t at = past_sorted_below(p->to, p->count, box, 0);
	return at < p->count && p->to[at].box == box;
}

/* A box that was forked, and is in nobody's past, has in common with others what its fork point has. So thousands of forks are as few
 * starts as there are spots they came from. */
static cb_code add_state(gathering *g, past_point at, cb_error *err)
{
	size_t anchor = past_anchor(g->p, at);
	while (anchor < g->p->count && edge_at(g->p, anchor)->kind == STORE_EDGE_FORK && !is_led_to(g->p, at.box)) {
		at = (past_point){edge_at(g->p, anchor)->other_box, edge_at(g->p, anchor)->other_seq};
		anchor = past_anchor(g->p, at);
	}
	return buf_append(&g->starts, &(past_start){.at = at}, sizeof(past_start), err);
}

static cb_code add_start(gathering *g, uint64_t box, uint64_t seq, bool ends, cb_error *err)
{
	return buf_append(&g->starts, &(past_start){{box, seq}, ends}, sizeof(past_start), err);
}

static cb_code take_head(void *context, const store_box *row, cb_error *err)
{
	gathering *g = context;
	line l = {.box = row->id, .head = row->head.seq, .least = UINT64_MAX};
	CB_TRY(buf_append(&g->lines, &l, sizeof(l), err));
	return add_state(g, (past_point){row->id, row->head.seq}, err);
}

static cb_code take_pin(void *context, const store_pin *pin, cb_error *err)
{
	return pin->seq == KEPT_ALL_STEPS ? CB_OK : add_state(context, (past_point){pin->box, pin->seq}, err);
}

static int line_compare(const void *a, const void *b)
{
	const line *x = a, *y = b;
	return x->box < y->box ? -1 : x->box > y->box;
}

/* The heads of the living, and old states that somebody has open. */
static cb_code gather_states(gathering *g, cb_error *err)
{
	AUTO_BUF buf uses = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(g->cs->s, false, take_head, g, err));
	CB_TRY(kept_uses(g->cs, &uses, err));
	const store_used *used = (const store_used *)(const void *)uses.bytes;
	for (size_t i = 0; i < uses.size / sizeof(*used); i++)
		if (used[i].seq != KEPT_ALL_STEPS) CB_TRY(add_state(g, (past_point){used[i].box, used[i].seq}, err));
	CB_TRY(store_pins_list(g->cs->s, 0, take_pin, g, err));
	if (g->lines.size) qsort(g->lines.bytes, g->lines.size / sizeof(line), sizeof(line), line_compare);
	return CB_OK;
}

/* The steps of the box that is pruned which have names, the newest first, as many as there is room for. */
static cb_code gather_named(gathering *g, const buf *seqs, size_t most, cb_error *err)
{
	const uint64_t *all = (const uint64_t *)(const void *)seqs->bytes;
	AUTO_BUF buf copy = BUF_INIT(SIZE_MAX);
	CB_TRY(buf_append(&copy, all, seqs->size, err));
	all = (const uint64_t *)(const void *)copy.bytes;
	size_t count = copy.size / sizeof(*all), last = g->p->count + 1;
	if (count) qsort(copy.bytes, count, sizeof(*all), u64_compare);
	for (size_t i = count; i > 0 && most; i--) {
		past_point at = {g->box, all[i - 1]};
		size_t anchor = past_anchor(g->p, at);
		if (anchor == last) continue; /* the one above it stands for it */
		CB_TRY(add_start(g, at.box, at.seq, false, err));
		last = anchor;
		most--;
	}
	return CB_OK;
}

static cb_code is_there(const gathering *g, uint64_t box, uint64_t seq, bool *out, cb_error *err)
{
	uint64_t state_id;
	cb_error why;
	cb_code code = step_exists(g->cs, box, seq, &state_id, cb_err_aside(&why));
	*out = code == CB_OK;
	return code == CB_OK || code == CB_NOTFOUND || code == CB_STALE ? CB_OK : cb_err_pass(err, code, &why);
}

/* A step can be undone while it is there. (Not one that stays for merges alone, with what was around it gone: such would stay for one
 * another. So of the box that is pruned those count that the rules keep, and of others those that have the next one.) */
static cb_code may_be_undone(const gathering *g, const line *l, uint64_t seq, bool *out, cb_error *err)
{
	*out = seq >= g->recent;
	if (l->box == g->box) return CB_OK;
	CB_TRY(is_there(g, l->box, seq, out, err));
	return *out && seq < l->head ? is_there(g, l->box, seq + 1, out, err) : CB_OK;
}

/* What the undo of an edge, or of that undo, lays bare or takes along. */
static cb_code gather_edge(gathering *g, line *l, const store_edge *e, cb_error *err)
{
	if (e->seq < l->least) l->least = e->seq;
	if (e->kind == STORE_EDGE_UNDO && e->other_seq < l->least) l->least = e->other_seq;
	if (e->kind != STORE_EDGE_UNDO) CB_TRY(add_start(g, e->other_box, e->other_seq, false, err));
	return l->box == g->box && e->seq <= g->recent ? add_start(g, e->box, e->seq - 1, true, err) : CB_OK;
}

/* From the newest on, as many as there is room for. */
static cb_code gather_edges(gathering *g, size_t most, cb_error *err)
{
	enum { OF_EDGE = 4 }; /* starts for one, at most */
	size_t before = start_count(g), of_lines = 0;
	for (size_t i = g->p->count; i > 0 && start_count(g) - before + 2 * of_lines + OF_EDGE <= most; i--) {
		const store_edge *e = edge_at(g->p, i - 1);
		line *l = g->lines.size ? bsearch(&(line){.box = e->box}, g->lines.bytes, g->lines.size / sizeof(line),
		                                  sizeof(line), line_compare)
		                        : NULL;
		if (!l || l->ended) continue;
		bool may = e->seq >= l->least;
		if (e->kind != STORE_EDGE_FORK && !may) CB_TRY(may_be_undone(g, l, e->seq, &may, err));
		l->ended = e->kind == STORE_EDGE_FORK || !may;
		of_lines += !l->ended && l->least == UINT64_MAX;
		if (!l->ended) CB_TRY(gather_edge(g, l, e, err));
	}
	line *all = (line *)(void *)g->lines.bytes;
	for (size_t i = 0; i < g->lines.size / sizeof(*all); i++) {
		if (all[i].least == UINT64_MAX || all[i].least == 0) continue;
		CB_TRY(add_start(g, all[i].box, all[i].least - 1, false, err));
		if (all[i].box == g->box && all[i].least < g->recent) CB_TRY(add_start(g, g->box, g->recent - 1, true, err));
	}
	return CB_OK;
}

/* ---- what is needed ---- */

/* Where a start lies: below which edge, and if others lie there too, at which step. What is needed goes with that. */
typedef struct spot {
	uint64_t box;
	size_t anchor;
	uint64_t seq; /* 0: it is the only one */
} spot;

static int spot_compare(const void *a, const void *b)
{
	const spot *x = a, *y = b;
	if (x->box != y->box) return x->box < y->box ? -1 : 1;
	if (x->anchor != y->anchor) return x->anchor < y->anchor ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static bool same_place(const spot *a, const spot *b)
{
	return a->box == b->box && a->anchor == b->anchor;
}

/* *colors: how many starts past_meet tells apart. */
static cb_code spots_of(const gathering *g, buf *out, size_t *colors, cb_error *err)
{
	const past_start *starts = (const past_start *)(const void *)g->starts.bytes;
	size_t count = start_count(g);
	out->size = *colors = 0;
	for (size_t i = 0; i < count; i++) {
		spot s = {starts[i].at.box, past_anchor(g->p, starts[i].at), starts[i].at.seq};
		CB_TRY(buf_append(out, &s, sizeof(s), err));
	}
	spot *all = (spot *)(void *)out->bytes;
	if (count) qsort(all, count, sizeof(*all), spot_compare);
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count && same_place(&all[to], &all[from]); to++) continue;
		if (to == from + 1) all[from].seq = 0;
		*colors += to == from + 1 ? 1 : 2;
	}
	return CB_OK;
}

/* Is what was found before enough? It may be more than is needed by now. */
static bool needs_hold(const past_needs *n, const gathering *g, const buf *spots)
{
	const spot *all = (const spot *)(const void *)spots->bytes;
	if (!n->found || n->box != g->box || n->recent != g->recent) return false;
	for (size_t i = 0; i < spots->size / sizeof(*all); i++)
		if (!bsearch(&all[i], n->spots.bytes, n->spots.size / sizeof(*all), sizeof(*all), spot_compare)) return false;
	return true;
}

static cb_code meet_starts(const gathering *g, buf *out, bool *told, cb_error *err)
{
	cb_error why;
	cb_code code = past_meet(g->p, (const past_start *)(const void *)g->starts.bytes, start_count(g), out, cb_err_aside(&why));
	*told = code == CB_OK;
	return code == CB_LIMIT || code == CB_UNSUPPORTED || code == CB_OK ? CB_OK : cb_err_pass(err, code, &why);
}

/* What is found is asked about once more, beside the starts: where there are several best common pasts, these are merged by what they have
 * in common in turn. No further: boxes that merge each other crosswise, round after round, would keep all of them. */
static cb_code needs_meet(gathering *g, past_needs *n, cb_error *err)
{
	AUTO_BUF buf below = BUF_INIT(SIZE_MAX);
	bool told = false;
	n->found = false;
	if (!n->points.max_size) n->points = BUF_INIT(SIZE_MAX);
	n->points.size = 0;
	CB_TRY(meet_starts(g, &n->points, &told, err));
	n->all = !told;
	const past_point *all = (const past_point *)(const void *)n->points.bytes;
	for (size_t i = 0; i < n->points.size / sizeof(*all); i++) CB_TRY(add_start(g, all[i].box, all[i].seq, false, err));
	if (told) CB_TRY(meet_starts(g, &below, &told, err));
	if (told) CB_TRY(buf_append(&n->points, below.bytes, below.size, err));
	past_points_sort(&n->points);
	n->found = true;
	n->box = g->box;
	n->recent = g->recent;
	return CB_OK;
}

/* named: steps of the box that is pruned. */
static cb_code needs_find(gathering *g, past_needs *n, const buf *named, cb_error *err)
{
	AUTO_BUF buf spots = BUF_INIT(SIZE_MAX);
	size_t colors = 0;
	CB_TRY(gather_states(g, err));
	CB_TRY(spots_of(g, &spots, &colors, err));
	if (g->box && colors < PAST_STARTS_MAX) {
		CB_TRY(gather_named(g, named, (PAST_STARTS_MAX - colors) / 2, err));
		CB_TRY(spots_of(g, &spots, &colors, err));
	}
	if (needs_hold(n, g, &spots)) return CB_OK;
	CB_TRY(gather_edges(g, colors < PAST_STARTS_MAX ? PAST_STARTS_MAX - colors : 0, err));
	CB_TRY(needs_meet(g, n, err));
	buf_done(&n->spots);
	n->spots = spots;
	spots = BUF_INIT(SIZE_MAX);
	return CB_OK;
}

/* All that any merge may need of a box. */
static cb_code needs_all(const past_edges *p, uint64_t box, buf *seqs, cb_error *err)
{
	for (size_t i = past_sorted_below(p->to, p->count, box, 0); i < p->count && p->to[i].box == box; i++)
		CB_TRY(buf_append(seqs, &p->to[i].seq, sizeof(uint64_t), err));
	for (size_t i = past_sorted_below(p->by, p->count, box, 1); i < p->count && p->by[i].box == box; i++) {
		uint64_t below = p->by[i].seq - 1;
		if (edge_at(p, p->by[i].at)->kind == STORE_EDGE_RESTORE) CB_TRY(buf_append(seqs, &below, sizeof(below), err));
	}
	return CB_OK;
}

static size_t points_below(const buf *points, uint64_t box)
{
	const past_point *all = (const past_point *)(const void *)points->bytes;
	size_t low = 0, high = points->size / sizeof(*all);
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (all[mid].box < box) low = mid + 1;
		else high = mid;
	}
	return low;
}

static cb_code needs_read(cb_store *cs, past_edges *edges, uint64_t box, uint64_t recent, const buf *named, cb_error *err)
{
	CB_TRY(past_edges_read(edges, cs, err));
	ATTR_CLEANUP(gathering_done)
	gathering g = {
		.cs = cs, .p = edges, .box = box, .recent = recent, .starts = BUF_INIT(SIZE_MAX), .lines = BUF_INIT(SIZE_MAX)};
	return needs_find(&g, &edges->needs, named, err);
}

cb_code past_needs_read(cb_store *cs, past_edges *edges, cb_error *err)
{
	return needs_read(cs, edges, 0, UINT64_MAX, NULL, err);
}

cb_code past_lock(cb_store *cs, past_edges *edges, cb_code (*find)(void *context, cb_error *err), void *context, cb_error *err)
{
	enum { RACES_MAX = 3 };
	for (int lost = 0;; lost++) {
		if (lost < RACES_MAX) CB_TRY(find(context, err));
		size_t known = edges->count;
		CB_TRY(store_write_begin_as(cs->s, STORE_FREES, err));
		cb_code code = past_edges_read(edges, cs, err);
		if (code == CB_OK && (edges->count == known || lost == RACES_MAX)) return CB_OK;
		CB_TRY(store_write_end(cs->s, code, false, err));
	}
}

cb_code past_needed(const past_edges *edges, uint64_t box, buf *seqs, cb_error *err)
{
	if (edges->needs.all) return needs_all(edges, box, seqs, err);
	const past_point *all = (const past_point *)(const void *)edges->needs.points.bytes;
	size_t count = edges->needs.points.size / sizeof(*all);
	for (size_t i = points_below(&edges->needs.points, box); i < count && all[i].box == box; i++)
		CB_TRY(buf_append(seqs, &all[i].seq, sizeof(uint64_t), err));
	return CB_OK;
}

cb_code past_keepers(cb_store *cs, past_edges *edges, const store_box *row, uint64_t recent, buf *seqs, cb_error *err)
{
	CB_TRY(needs_read(cs, edges, row->deleted ? 0 : row->id, recent, seqs, err));
	return past_needed(edges, row->id, seqs, err);
}

bool past_is_needed(const past_edges *edges, uint64_t box)
{
	const past_point *all = (const past_point *)(const void *)edges->needs.points.bytes;
	size_t at = points_below(&edges->needs.points, box);
	if (!edges->needs.found || edges->needs.all) return true;
	return at < edges->needs.points.size / sizeof(*all) && all[at].box == box;
}
