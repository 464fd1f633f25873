/*
 * past_keep.c: which steps of a box prune must leave because merges may need them.
 *
 * The common past of two living boxes A and B in a box X is the older of "the newest step of X in A's past" and the same for B. Where X
 * was restored its line has branches: a box may have several such steps, and two of them come from a step that was restored. So those are
 * kept (see keep_partings), and for every living box the newest steps of X in its past. They are found in one pass over all edges from the
 * oldest on: what an edge's step has of X is what the step before it had, and what the step it leads to had. A fork so has what its origin
 * had when it was forked, for as long as it lives, whatever its origin merges later.
 *
 * Of a deleted box X nothing is kept where all that others have of it came to them through one box (see ways_find), by steps that
 * cannot be undone any more: one of those steps is in the past of any two that have some of X, and is the better base. Nor where only one
 * state that merges may begin at has any of it, and no undo changes that (see undo_may_change).
 */
#include "base/id_set.h"
#include "box/past.h"

#include <stdlib.h>

typedef struct past_edge_at {
	uint64_t box, seq;
	size_t at; /* position in edges */
} sorted;

/* A set of steps of X, none in the line of another, is a chain of these: most sets are the one before with a step more. */
typedef struct top {
	uint64_t seq;
	size_t branch; /* that it lies on */
	size_t next;   /* 1 + position in tops; 0: the last */
	uint64_t mark;
} top;

/* Steps of X from a restore to the next one. They come from a step of an earlier branch, also where that was restored from another box:
 * then it is the newest step of X that the other one had. */
typedef struct branch {
	uint64_t start, from;
	bool across; /* it came through another box */
	size_t up;   /* the branch of `from`; its own number: none, or nobody can say */
	size_t jump; /* a branch further up, so that any of them is reached in few jumps */
	size_t depth;
} branch;

typedef struct keeping {
	cb_store *cs;
	uint64_t box; /* X */
	const past_edges *p;
	const sorted *by; /* p's */
	size_t count;
	const past_going *going; /* NULL: none */
	uint64_t recent;         /* from this step of X on all stay; UINT64_MAX: none */
	size_t *of;              /* by position in edges: what its step has of X, 1 + the first in tops; 0: nothing */
	buf tops;                /* top */
	buf branches;            /* branch */
	uint64_t mark;
	size_t linked; /* of the branches: the newest that is joined to the one it comes from */
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
	free(p->back);
	*p = (past_edges){0};
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

/* After which edge of its box do the same ones count as after an undo? After the one below the step that it takes back, when nothing that
 * counts lies between them. So the thousandth merge that was undone costs what the first did. */
static void find_back(past_edges *p)
{
	const store_edge *all = (const store_edge *)(const void *)p->edges.bytes;
	for (size_t i = 0; i < p->count; i++) {
		const store_edge *e = &all[p->by[i].at];
		p->back[i] = i;
		if (e->kind != STORE_EDGE_UNDO || i == 0 || p->by[i - 1].box != e->box) continue;
		size_t target = sorted_below(p->by, i, e->box, e->other_seq);
		if (target == i || p->by[target].seq != e->other_seq || p->back[target] != p->back[i - 1]) continue;
		p->back[i] = target > 0 && p->by[target - 1].box == e->box ? p->back[target - 1] : p->count;
	}
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
	free(p->back);
	p->by = mem_alloc((count + 1) * sizeof(*p->by));
	p->to = mem_alloc((count + 1) * sizeof(*p->to));
	p->back = mem_alloc((count + 1) * sizeof(*p->back));
	if (!p->by || !p->to || !p->back) return cb_err_nomem(err);
	all = (const store_edge *)(const void *)p->edges.bytes;
	for (size_t i = 0; i < count; i++) {
		p->by[i] = (sorted){all[i].box, all[i].seq, i};
		p->to[i] = (sorted){all[i].other_box, all[i].other_seq, i};
	}
	if (count) qsort(p->by, count, sizeof(*p->by), sorted_compare);
	if (count) qsort(p->to, count, sizeof(*p->to), sorted_compare);
	p->count = count;
	find_back(p);
	return CB_OK;
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

static const branch *branch_at(const keeping *k, size_t i)
{
	return (const branch *)(const void *)k->branches.bytes + i;
}

/* The one that a step lies on. */
static size_t branch_of(const keeping *k, uint64_t seq)
{
	size_t low = 0, high = k->branches.size / sizeof(branch);
	while (high - low > 1) {
		size_t mid = (low + high) / 2;
		if (branch_at(k, mid)->start <= seq) low = mid;
		else high = mid;
	}
	return low;
}

static bool was_undone(const keeping *k, const store_edge *e)
{
	const sorted *to = k->p->to;
	for (size_t i = sorted_below(to, k->count, e->box, e->seq); i < k->count && to[i].box == e->box && to[i].seq == e->seq; i++)
		if (edge_at(k, to[i].at)->kind == STORE_EDGE_UNDO) return true; /* of its own box, as all undos are */
	return false;
}

static cb_code branches_find(keeping *k, cb_error *err)
{
	branch first = {0};
	CB_TRY(buf_append(&k->branches, &first, sizeof(first), err));
	for (size_t i = sorted_below(k->by, k->count, k->box, 0); i < k->count && k->by[i].box == k->box; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		size_t number = k->branches.size / sizeof(branch);
		branch b = {.start = e->seq, .up = number, .jump = number};
		if (e->kind == STORE_EDGE_RESTORE) CB_TRY(buf_append(&k->branches, &b, sizeof(b), err));
	}
	return CB_OK;
}

/* Is `low` in the line of `high`? A false "no" only keeps what need not be. */
static bool in_line(const keeping *k, const top *high, const top *low)
{
	if (low->seq > high->seq) return false;
	if (high->branch == low->branch) return true;
	const branch *at = branch_at(k, high->branch);
	size_t depth = branch_at(k, low->branch)->depth;
	if (at->depth <= depth) return false;
	while (at->depth > depth + 1) {
		const branch *far = branch_at(k, at->jump);
		at = far->depth > depth ? far : branch_at(k, at->up);
	}
	return at->up == low->branch && at->from >= low->seq;
}

static top *top_at(const keeping *k, size_t number)
{
	return (top *)(void *)k->tops.bytes + (number - 1);
}

static cb_code top_push(keeping *k, size_t *set, top t, cb_error *err)
{
	t.next = *set;
	CB_TRY(buf_append(&k->tops, &t, sizeof(t), err));
	*set = k->tops.size / sizeof(top);
	return CB_OK;
}

static cb_code top_add(keeping *k, size_t *set, top t, cb_error *err)
{
	size_t all = *set, stays = *set; /* of the chain, from there on */
	for (size_t n = all; n; n = top_at(k, n)->next) {
		if (in_line(k, top_at(k, n), &t)) return CB_OK;
		if (in_line(k, &t, top_at(k, n))) stays = top_at(k, n)->next;
	}
	*set = stays;
	for (size_t n = all; n != stays; n = top_at(k, n)->next)
		if (!in_line(k, &t, top_at(k, n))) CB_TRY(top_push(k, set, *top_at(k, n), err));
	return top_push(k, set, t, err);
}

static cb_code tops_add(keeping *k, size_t *set, size_t more, cb_error *err)
{
	if (*set == 0) *set = more;
	k->mark++;
	for (size_t n = *set; n; n = top_at(k, n)->next) top_at(k, n)->mark = k->mark;
	for (; more && top_at(k, more)->mark != k->mark; more = top_at(k, more)->next)
		CB_TRY(top_add(k, set, *top_at(k, more), err));
	return CB_OK;
}

/* What a step has of X, its own number when it is one of X. Edges above it in `of` must be done. */
static cb_code point_tops(keeping *k, uint64_t box, uint64_t seq, size_t *set, cb_error *err)
{
	size_t at = sorted_before(k, box, seq);
	if (at < k->count) CB_TRY(tops_add(k, set, k->of[k->by[at].at], err));
	return box == k->box ? top_add(k, set, (top){.seq = seq, .branch = branch_of(k, seq)}, err) : CB_OK;
}

/* Walks down one box where edges may have been taken back. */
static cb_code line_tops(keeping *k, size_t at, size_t *set, cb_error *err)
{
	AUTO_ID_SET id_set undone = {0};
	uint64_t box = edge_at(k, k->by[at].at)->box;
	for (;; at--) {
		const store_edge *e = edge_at(k, k->by[at].at);
		if (e->box != box) return CB_OK;
		bool was, counts = !id_set_has(&undone, e->seq);
		if (counts && e->kind == STORE_EDGE_UNDO) CB_TRY(id_set_add(&undone, e->other_seq, &was, err));
		if (counts && e->kind != STORE_EDGE_UNDO) CB_TRY(point_tops(k, e->other_box, e->other_seq, set, err));
		if (at == 0 || (counts && (e->kind == STORE_EDGE_FORK || e->kind == STORE_EDGE_RESTORE))) return CB_OK;
	}
}

/* What the step of an edge has, the one at `at` of the sorted ones. */
static cb_code edge_tops(keeping *k, size_t at, size_t *set, cb_error *err)
{
	const store_edge *e = edge_at(k, k->by[at].at);
	size_t back = k->p->back[at];
	if (back != at) {
		*set = back < k->count ? k->of[k->by[back].at] : 0;
		return CB_OK;
	}
	if (e->kind != STORE_EDGE_MERGE && e->kind != STORE_EDGE_FORK) return line_tops(k, at, set, err);
	if (at > 0 && k->by[at - 1].box == e->box) *set = k->of[k->by[at - 1].at];
	return point_tops(k, e->other_box, e->other_seq, set, err);
}

/* Joins the branch that begins with a restore of X to where it comes from. set: what its source has of X; of several, the newest is taken,
 * and the others stand for themselves. Of a restore that was undone the steps behind it have two pasts, and which is meant depends on
 * when: it counts as neither. */
static void branch_join(keeping *k, const store_edge *e, size_t set)
{
	bool across = e->other_box != k->box;
	size_t number = branch_of(k, e->seq);
	uint64_t from = across ? 0 : e->other_seq;
	for (size_t n = across ? set : 0; n; n = top_at(k, n)->next)
		if (top_at(k, n)->seq > from) from = top_at(k, n)->seq;
	/* The older ones are joined first: depths of those that come from them count on it. */
	if (!set || from >= e->seq || number <= k->linked || was_undone(k, e)) return;
	branch *b = (branch *)(void *)k->branches.bytes + number;
	b->from = from;
	b->across = across;
	b->up = branch_of(k, from);
	const branch *up = branch_at(k, b->up), *far = branch_at(k, up->jump);
	bool even = up->depth - far->depth == far->depth - branch_at(k, far->jump)->depth;
	b->jump = even ? far->jump : b->up;
	b->depth = up->depth + 1;
	k->linked = number;
}

static cb_code fill_tops(keeping *k, cb_error *err)
{
	const sorted *to = k->p->to;
	size_t start = k->count; /* the oldest edge that leads to X: those before it have nothing of it */
	for (size_t i = sorted_below(to, k->count, k->box, 0); i < k->count && to[i].box == k->box; i++)
		if (to[i].at < start) start = to[i].at;
	for (size_t i = start; i < k->count; i++) { /* from the oldest on: what an edge leads to is done */
		const store_edge *e = edge_at(k, i);
		size_t set = 0;
		CB_TRY(edge_tops(k, sorted_before(k, e->box, e->seq), &set, err));
		k->of[i] = set;
		if (e->box == k->box && e->kind == STORE_EDGE_RESTORE) branch_join(k, e, set);
	}
	return CB_OK;
}

static int newest_first(const void *a, const void *b)
{
	return u64_compare(b, a);
}

bool past_goes(const past_going *g, uint64_t box, uint64_t seq)
{
	return box == g->box && g->seqs.size &&
	       bsearch(&seq, g->seqs.bytes, g->seqs.size / sizeof(uint64_t), sizeof(uint64_t), newest_first) != NULL;
}

/* May the step of an edge be undone yet? A step can be while it is there and its box is. (Of X, which is pruned, those that the rules keep:
 * were others counted, which stay for what is found here, some would stay for one another.) */
static cb_code may_be_undone(const keeping *k, const store_edge *edge, bool *out, cb_error *err)
{
	store_box row;
	uint64_t state_id;
	cb_error why;
	*out = edge->box == k->box && edge->seq >= k->recent;
	if (edge->box == k->box) return CB_OK;
	if (k->going && past_goes(k->going, edge->box, edge->seq)) return CB_OK;
	cb_code code = store_box_get(k->cs->s, edge->box, &row, cb_err_aside(&why));
	if (code == CB_OK && row.deleted) code = CB_NOTFOUND;
	if (code == CB_OK) code = step_exists(k->cs, edge->box, edge->seq, &state_id, cb_err_aside(&why));
	*out = code == CB_OK;
	return code == CB_OK || code == CB_NOTFOUND || code == CB_STALE ? CB_OK : cb_err_pass(err, code, &why);
}

/* Is it gone, or deleted, with nobody who has a state of it open? Then nobody ever starts at one. */
static cb_code nobody_is_at(const keeping *k, uint64_t box, bool *out, cb_error *err)
{
	AUTO_BUF buf used = BUF_INIT(SIZE_MAX);
	store_box row;
	bool whole = false;
	cb_error why;
	cb_code code = store_box_get(k->cs->s, box, &row, cb_err_aside(&why));
	*out = code == CB_NOTFOUND;
	if (*out) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	if (!row.deleted) return CB_OK;
	CB_TRY(kept_keepers(k->cs, box, &used, &whole, err));
	*out = !whole && !used.size;
	return CB_OK;
}

/* How states outside of X came to have something of it. */
typedef struct ways {
	uint64_t through; /* the box whose edges lead to X, or to boxes behind which it lies; 0: none does */
	size_t count;
	uint64_t oldest, newest; /* of the steps there */
	past_point to;           /* that the last of them leads to */
	bool one_line;           /* all are steps of one line of one box, and none was undone */
	bool undoable;           /* some may be undone yet */
} ways;

/* X and the boxes that lie between it and where others came from, in which nobody is. */
typedef struct inner {
	id_set boxes, doors; /* doors: boxes that have edges to these, or had when they were not yet among them */
	buf edges;           /* size_t: of the doors to these boxes, by position */
	buf waiting;         /* uint64_t: doors that may become inner boxes */
	size_t open;         /* doors that are no inner boxes, waiting or not */
	uint64_t held;       /* the one that cannot become one: somebody is there */
} inner;

static void inner_done(inner *in)
{
	id_set_done(&in->boxes);
	id_set_done(&in->doors);
	buf_done(&in->edges);
	buf_done(&in->waiting);
}

static cb_code inner_add(const keeping *k, inner *in, uint64_t box, cb_error *err)
{
	const sorted *to = k->p->to;
	size_t before = in->waiting.size;
	bool was;
	CB_TRY(id_set_add(&in->boxes, box, &was, err));
	CB_TRY(id_set_add(&in->doors, box, &was, err));
	for (size_t i = sorted_below(to, k->count, box, 0); i < k->count && to[i].box == box; i++) {
		uint64_t from = edge_at(k, to[i].at)->box;
		if (id_set_has(&in->boxes, from)) continue;
		CB_TRY(buf_append(&in->edges, &to[i].at, sizeof(to[i].at), err));
		CB_TRY(id_set_add(&in->doors, from, &was, err));
		if (was) continue;
		in->open++;
		CB_TRY(buf_append(&in->waiting, &from, sizeof(from), err));
	}
	/* The youngest is taken first: forks of a box are younger than the one into which it and they were merged. */
	if (in->waiting.size > before)
		qsort(in->waiting.bytes + before, (in->waiting.size - before) / sizeof(box), sizeof(box), u64_compare);
	return CB_OK;
}

/* The edges of the one door. */
static cb_code ways_of_door(const keeping *k, const inner *in, ways *out, cb_error *err)
{
	const size_t *all = (const size_t *)(const void *)in->edges.bytes;
	*out = (ways){.one_line = true, .oldest = UINT64_MAX};
	for (size_t i = 0; i < in->edges.size / sizeof(*all); i++) {
		const store_edge *e = edge_at(k, all[i]);
		if (id_set_has(&in->boxes, e->box)) continue;
		out->one_line = e->kind == STORE_EDGE_FORK || !was_undone(k, e);
		if (!out->one_line) return CB_OK;
		if (e->kind != STORE_EDGE_FORK && !out->undoable) CB_TRY(may_be_undone(k, e, &out->undoable, err));
		out->through = e->box;
		out->to = (past_point){e->other_box, e->other_seq};
		if (out->oldest > e->seq) out->oldest = e->seq;
		if (out->newest < e->seq) out->newest = e->seq;
		out->count++;
	}
	if (out->count < 2) return CB_OK;
	for (size_t i = sorted_below(k->by, k->count, out->through, out->oldest + 1);
	     i < k->count && k->by[i].box == out->through && k->by[i].seq <= out->newest; i++)
		if (edge_at(k, k->by[i].at)->kind == STORE_EDGE_RESTORE) out->one_line = false;
	return CB_OK;
}

/*
 * Can no two states outside of X have a step of X as a best common past? Not while one_line holds, and never if undoable is false, too.
 *
 * One edge, from step s of another box Y to X: whoever has anything of X has it by this edge, and so came to Y at s or later, on a way that
 * is still plain at s. Two such states have a step of Y in common, the older one of those they came to, which is s or later too; its past
 * has the edge, and all of X that they have. Restores of Y do not matter: they lead a way past s, or not. An undo of s does, also one
 * that is made later: a step of Y above the undo, common to both, has s below it, but undone, and what both have of X by other ways, around
 * the undo, is then in the past of no step they have in common. So while a merge can be undone, what was merged is kept.
 *
 * Several edges, all from Y: the same, as long as the steps of Y from the first to the last are one line, in which the older of two has all
 * that both have. A restore among them ends that: X may have come in twice, on two lines, with nothing else in common since. (One that is
 * made later does no harm: nothing of X comes in any more. Nor does the undo of anything else: these edges count with it as without.)
 *
 * The same holds for X and other boxes together: where nobody is at one that has something of X (a fork of X; deleted), it is enough that
 * all ways to it and to X come from Y. Then what two states have in common there, both have by edges of Y.
 */
static cb_code ways_look(const keeping *k, inner *in, ways *out, cb_error *err)
{
	*out = (ways){.one_line = true};
	CB_TRY(inner_add(k, in, k->box, err));
	while (in->open) {
		if (in->open == 1) CB_TRY(ways_of_door(k, in, out, err));
		if (in->open == 1 && out->one_line) return CB_OK;
		out->one_line = false;
		if (!in->waiting.size) return CB_OK;
		uint64_t box = ((const uint64_t *)(const void *)(in->waiting.bytes + in->waiting.size))[-1];
		bool empty = false;
		in->waiting.size -= sizeof(box);
		CB_TRY(nobody_is_at(k, box, &empty, err));
		if (!empty && in->held) return CB_OK;
		if (!empty) in->held = box;
		if (!empty) continue;
		in->open--;
		CB_TRY(inner_add(k, in, box, err));
		*out = (ways){.one_line = true};
	}
	return CB_OK;
}

static cb_code ways_find(const keeping *k, ways *out, cb_error *err)
{
	ATTR_CLEANUP(inner_done) inner in = {.edges = BUF_INIT(SIZE_MAX), .waiting = BUF_INIT(SIZE_MAX)};
	return ways_look(k, &in, out, err);
}

/* ---- where merges begin ---- */

static cb_code take_head(void *context, const store_box *row, cb_error *err)
{
	past_point p = {row->id, row->head.seq};
	return buf_append(context, &p, sizeof(p), err);
}

static cb_code take_pin(void *context, const store_pin *pin, cb_error *err)
{
	past_point p = {pin->box, pin->seq};
	return pin->seq == KEPT_ALL_STEPS ? CB_OK : buf_append(context, &p, sizeof(p), err);
}

static int point_compare(const void *a, const void *b)
{
	const past_point *x = a, *y = b;
	if (x->box != y->box) return x->box < y->box ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The heads of the living, and old states that somebody has open. */
static cb_code starts_read(cb_store *cs, buf *points, cb_error *err)
{
	AUTO_BUF buf uses = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(cs->s, false, take_head, points, err));
	CB_TRY(store_removal_begin(cs->s, &uses, err));
	const store_used *used = (const store_used *)(const void *)uses.bytes;
	for (size_t i = 0; i < uses.size / sizeof(*used); i++) {
		past_point p = {used[i].box, used[i].seq};
		if (p.seq != KEPT_ALL_STEPS) CB_TRY(buf_append(points, &p, sizeof(p), err));
	}
	CB_TRY(store_pins_list(cs->s, 0, take_pin, points, err));
	past_point *all = (past_point *)(void *)points->bytes;
	size_t count = points->size / sizeof(*all), kept = 0;
	if (count) qsort(all, count, sizeof(*all), point_compare);
	for (size_t i = 0; i < count; i++)
		if (!kept || point_compare(&all[i], &all[kept - 1]) != 0) all[kept++] = all[i];
	points->size = kept * sizeof(*all);
	return CB_OK;
}

/* What the states that merges begin at have of X. *who: of those that have some, how many, and the box of the last. */
typedef struct havers {
	size_t count;
	uint64_t box;
} havers;

static cb_code keep_tops(keeping *k, buf *seqs, havers *who, cb_error *err)
{
	AUTO_BUF buf starts = BUF_INIT(SIZE_MAX);
	CB_TRY(starts_read(k->cs, &starts, err));
	const past_point *all = (const past_point *)(const void *)starts.bytes;
	for (size_t i = 0; i < starts.size / sizeof(*all); i++) {
		size_t set = 0;
		CB_TRY(point_tops(k, all[i].box, all[i].seq, &set, err));
		who->count += set != 0;
		if (set) who->box = all[i].box;
		for (; set; set = top_at(k, set)->next) CB_TRY(buf_append(seqs, &top_at(k, set)->seq, sizeof(uint64_t), err));
	}
	return CB_OK;
}

static bool same_tops(const keeping *k, size_t a, size_t b)
{
	size_t of_a = 0, of_both = 0, of_b = 0;
	if (a == b) return true;
	for (size_t n = b; n; n = top_at(k, n)->next) of_b++;
	for (; a; a = top_at(k, a)->next, of_a++)
		for (size_t n = b; n; n = top_at(k, n)->next) of_both += top_at(k, n)->seq == top_at(k, a)->seq;
	return of_a == of_b && of_both == of_b;
}

/* Has the source of a restore step `least` of the restored box, or a later one, by an edge of its own? */
static bool comes_from(const keeping *k, const store_edge *e, uint64_t least)
{
	if (e->other_box == e->box) return e->other_seq >= least;
	for (size_t i = sorted_below(k->by, k->count, e->other_box, 0); i < k->count && k->by[i].box == e->other_box; i++) {
		const store_edge *x = edge_at(k, k->by[i].at);
		if (x->seq <= e->other_seq && x->other_box == e->box && x->other_seq >= least && x->kind != STORE_EDGE_UNDO &&
		    !was_undone(k, x))
			return true;
	}
	return false;
}

/*
 * Only the head of Y has anything of X. All that merges will ever begin at comes from there, and two of these have a step of Y in common,
 * the head or a later one. Is what they have of X in its past? Where all later steps of Y have the same of X, it is. A later step has less,
 * or more, only by the undo of one that changed what Y has of X.
 *
 * While a restore can be undone, steps that it left aside may be there, and be forked from. They have a step in common with the head where
 * the two parted: that must have the same, too.
 */
static cb_code undo_may_change(const keeping *k, uint64_t box, bool *out, cb_error *err)
{
	size_t before = 0, first = sorted_below(k->by, k->count, box, 0);
	uint64_t changed = 0;
	*out = false;
	for (size_t i = first; i < k->count && k->by[i].box == box; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		size_t set = k->of[k->by[i].at];
		if (!same_tops(k, before, set)) {
			changed = e->seq;
			if (e->kind != STORE_EDGE_FORK) CB_TRY(may_be_undone(k, e, out, err));
		}
		if (*out) return CB_OK;
		before = set;
	}
	for (size_t i = first; i < k->count && k->by[i].box == box; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		if (e->kind != STORE_EDGE_RESTORE || e->seq <= changed || comes_from(k, e, changed)) continue;
		CB_TRY(may_be_undone(k, e, out, err));
		if (*out) return CB_OK;
	}
	return CB_OK;
}

/* ---- where branches part ---- */

static bool any_between(const buf *seqs, uint64_t low, uint64_t high)
{
	const uint64_t *all = (const uint64_t *)(const void *)seqs->bytes;
	size_t from = 0, to = seqs->size / sizeof(*all), count = to;
	while (from < to) {
		size_t mid = (from + to) / 2;
		if (all[mid] <= low) from = mid + 1;
		else to = mid;
	}
	return from < count && all[from] < high;
}

/*
 * Where branches of X part. A step of X that was restored stays. One that X came back to by a restore from another box is needed where
 * something that the restore left aside stays: a step between the two, which a living box has, or that has a name, or that prune's rules
 * keep. From the newest branch on: of two steps that stay, the one on the older branch lies before the restore that the newer one comes
 * from. So that keeps the step where it began, if it is the newer of the two; and so on, down to where they part.
 */
static cb_code keep_partings(const keeping *k, buf *seqs, cb_error *err)
{
	AUTO_BUF buf stay = BUF_INIT(SIZE_MAX);
	size_t count = k->branches.size / sizeof(branch);
	uint64_t lowest = UINT64_MAX; /* of the partings that stay */
	for (size_t i = sorted_below(k->by, k->count, k->box, 0); i < k->count && k->by[i].box == k->box; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		if (e->kind == STORE_EDGE_RESTORE && e->other_box == k->box)
			CB_TRY(buf_append(seqs, &e->other_seq, sizeof(e->other_seq), err));
	}
	CB_TRY(buf_append(&stay, seqs->bytes, seqs->size, err));
	if (stay.size) qsort(stay.bytes, stay.size / sizeof(uint64_t), sizeof(uint64_t), u64_compare);
	for (size_t i = count; i > 0; i--) {
		const branch *b = branch_at(k, i - 1);
		if (!b->across) continue;
		uint64_t next = b->from + 1 > k->recent ? b->from + 1 : k->recent;
		if (next >= b->start && !any_between(&stay, b->from, b->start) && (lowest <= b->from || lowest >= b->start))
			continue;
		if (b->from < lowest) lowest = b->from;
		CB_TRY(buf_append(seqs, &b->from, sizeof(b->from), err));
	}
	return CB_OK;
}

/* nobody_starts_here: no merge will ever begin at a state of X. */
static cb_code keep_run(keeping *k, bool nobody_starts_here, ways *w, buf *seqs, cb_error *err)
{
	size_t before = seqs->size;
	havers who = {0};
	bool alone = false;
	*w = (ways){0};
	if (nobody_starts_here) CB_TRY(ways_find(k, w, err));
	if (w->one_line && !w->undoable) return CB_OK;
	/* One merge: without a look at all the edges since, which are many where forks are merged and deleted, one after the other. */
	if (w->one_line && w->count == 1 && w->to.box == k->box) return buf_append(seqs, &w->to.seq, sizeof(w->to.seq), err);
	k->of = mem_alloc_zeroed((k->count + 1) * sizeof(*k->of));
	if (!k->of) return cb_err_nomem(err);
	CB_TRY(branches_find(k, err));
	CB_TRY(fill_tops(k, err));
	CB_TRY(keep_tops(k, seqs, &who, err));
	if (who.count == 1) CB_TRY(undo_may_change(k, who.box, &alone, err));
	alone = who.count == 1 && !alone;
	if (alone) seqs->size = before;
	const uint64_t *all = (const uint64_t *)(const void *)(seqs->bytes + before);
	bool several = false;
	for (size_t i = 1; i < (seqs->size - before) / sizeof(*all); i++) several = several || all[i] != all[0];
	return several || !nobody_starts_here ? keep_partings(k, seqs, err) : CB_OK;
}

static keeping keeping_of(cb_store *cs, const past_edges *edges, uint64_t box, const past_going *going)
{
	return (keeping){.cs = cs,
	                 .box = box,
	                 .p = edges,
	                 .by = edges->by,
	                 .count = edges->count,
	                 .going = going,
	                 .recent = UINT64_MAX,
	                 .tops = BUF_INIT(SIZE_MAX),
	                 .branches = BUF_INIT(SIZE_MAX)};
}

static void keeping_done(keeping *k)
{
	free(k->of);
	buf_done(&k->tops);
	buf_done(&k->branches);
}

cb_code past_keepers(cb_store *cs, past_edges *edges, const store_box *row, bool in_use, uint64_t recent, buf *seqs, cb_error *err)
{
	CB_TRY(edges_read(edges, cs, err));
	ways ignored;
	keeping k = keeping_of(cs, edges, row->id, NULL);
	k.recent = recent;
	cb_code code = keep_run(&k, row->deleted && !in_use, &ignored, seqs, err);
	keeping_done(&k);
	return code;
}

cb_code past_need_of(cb_store *cs, past_edges *edges, const store_box *row, const past_going *going, past_need *out, cb_error *err)
{
	AUTO_BUF buf seqs = BUF_INIT(SIZE_MAX);
	ways w;
	CB_TRY(edges_read(edges, cs, err));
	keeping k = keeping_of(cs, edges, row->id, going);
	cb_code code = keep_run(&k, true, &w, &seqs, err);
	keeping_done(&k);
	if (code != CB_OK) return code;
	bool recent = w.through == going->box && w.newest >= going->recent;
	*out = !seqs.size ? PAST_NEEDS_NOTHING : w.one_line && !recent ? PAST_NEEDS_STEPS : PAST_NEEDS_ORIGIN;
	return CB_OK;
}
