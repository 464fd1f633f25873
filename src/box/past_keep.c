/*
 * past_keep.c: which steps of a box prune must leave because merges may need them.
 *
 * The common past of two living boxes A and B in a box X is the older of "the newest step of X in A's past" and the same for B. Where X
 * was restored its line has branches: a box may have several such steps, and two of them come from a step that was restored. So those are
 * kept, and for every living box the newest steps of X in its past. They are found in one pass over all edges from the oldest on: what an
 * edge's step has of X is what the step before it had, and what the step it leads to had. A fork so has what its origin had when it was
 * forked, for as long as it lives, whatever its origin merges later.
 *
 * Of a deleted box X nothing is kept where all that others have of it came to them through one box (see ways_find), by steps that
 * cannot be undone any more: one of those steps is in the past of any two that have some of X, and is the better base.
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

/* Steps of X from a restore to the next one. They come from a step of an earlier branch. */
typedef struct branch {
	uint64_t start, from;
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
	size_t *of;              /* by position in edges: what its step has of X, 1 + the first in tops; 0: nothing */
	buf tops;                /* top */
	buf branches;            /* branch */
	uint64_t mark;
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

/* Of a restore that was undone the steps behind it have two pasts, and which is meant depends on when: it counts as neither. */
static cb_code branches_find(keeping *k, cb_error *err)
{
	branch first = {0};
	CB_TRY(buf_append(&k->branches, &first, sizeof(first), err));
	for (size_t i = sorted_below(k->by, k->count, k->box, 0); i < k->count && k->by[i].box == k->box; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		size_t number = k->branches.size / sizeof(branch);
		if (e->kind != STORE_EDGE_RESTORE) continue;
		branch b = {.start = e->seq, .up = number, .jump = number};
		if (e->other_box == k->box && e->other_seq < e->seq && !was_undone(k, e)) {
			b.from = e->other_seq;
			b.up = branch_of(k, b.from);
			const branch *up = branch_at(k, b.up), *far = branch_at(k, up->jump);
			bool even = up->depth - far->depth == far->depth - branch_at(k, far->jump)->depth;
			b.jump = even ? far->jump : b.up;
			b.depth = up->depth + 1;
		}
		CB_TRY(buf_append(&k->branches, &b, sizeof(b), err));
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

static cb_code fill_tops(keeping *k, cb_error *err)
{
	const sorted *to = k->p->to;
	size_t start = k->count; /* the oldest edge that leads to X: those before it have nothing of it */
	for (size_t i = sorted_below(to, k->count, k->box, 0); i < k->count && to[i].box == k->box; i++)
		if (to[i].at < start) start = to[i].at;
	for (size_t i = start; i < k->count; i++) { /* from the oldest on: what an edge leads to is done */
		size_t set = 0;
		CB_TRY(edge_tops(k, sorted_before(k, edge_at(k, i)->box, edge_at(k, i)->seq), &set, err));
		k->of[i] = set;
	}
	return CB_OK;
}

static cb_code take_head(void *context, const store_box *row, cb_error *err)
{
	past_point p = {row->id, row->head.seq};
	return buf_append(context, &p, sizeof(p), err);
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

/* May the step of an edge be undone yet? A step can be while it is there and its box is. */
static cb_code may_be_undone(const keeping *k, const store_edge *edge, bool *out, cb_error *err)
{
	store_box row;
	uint64_t state_id;
	cb_error why;
	*out = false;
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

/* Does every way to a box lead through X, as to a fork of X that was merged back into it? Nobody is there, nor in those on the way. */
static cb_code lies_within(const keeping *k, uint64_t box, bool *out, cb_error *err)
{
	enum { MOST = 32 };
	uint64_t boxes[MOST] = {box};
	const sorted *to = k->p->to;
	for (size_t at = 0, count = 1; at < count; at++) {
		CB_TRY(nobody_is_at(k, boxes[at], out, err));
		if (!*out) return CB_OK;
		for (size_t i = sorted_below(to, k->count, boxes[at], 0); i < k->count && to[i].box == boxes[at]; i++) {
			uint64_t from = edge_at(k, to[i].at)->box;
			bool known = from == k->box;
			for (size_t n = 0; n < count && !known; n++) known = boxes[n] == from;
			if (known) continue;
			*out = count < MOST;
			if (!*out) return CB_OK;
			boxes[count++] = from;
		}
	}
	return CB_OK;
}

/* How states outside of X came to have something of it. */
typedef struct ways {
	uint64_t through; /* the box whose edges lead to X; 0: none does */
	size_t count;
	uint64_t newest; /* of the steps there */
	uint64_t to;     /* the step of X that the last of them leads to */
	bool one_line;   /* all are steps of one line of one box, and none was undone */
	bool undoable;   /* some may be undone yet */
} ways;

/*
 * Can no two states outside of X have a step of X as a best common past? Not while one_line holds, and never if undoable is false, too.
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
 *
 * Edges from a box that lies within X do not count: whoever has something of that box came to it through X.
 */
static cb_code ways_find(const keeping *k, bool look_within, ways *out, cb_error *err)
{
	const sorted *to = k->p->to;
	*out = (ways){.one_line = true};
	for (size_t i = sorted_below(to, k->count, k->box, 0); i < k->count && to[i].box == k->box; i++) {
		const store_edge *e = edge_at(k, to[i].at);
		bool within = e->box == k->box;
		if (!within && look_within) CB_TRY(lies_within(k, e->box, &within, err));
		if (within) continue;
		if (out->through && out->through != e->box && !look_within) return ways_find(k, true, out, err);
		out->one_line = (!out->through || out->through == e->box) && (e->kind == STORE_EDGE_FORK || !was_undone(k, e));
		if (!out->one_line) return CB_OK;
		if (e->kind != STORE_EDGE_FORK && !out->undoable) CB_TRY(may_be_undone(k, e, &out->undoable, err));
		out->through = e->box;
		out->to = e->other_seq;
		if (out->newest < e->seq) out->newest = e->seq;
		out->count++;
	}
	for (size_t i = sorted_below(k->by, k->count, out->through, 0);
	     out->count > 1 && i < k->count && k->by[i].box == out->through; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		if (e->kind == STORE_EDGE_RESTORE || e->kind == STORE_EDGE_UNDO) out->one_line = false;
	}
	return CB_OK;
}

/* What the living boxes have of X. */
static cb_code keep_tops(keeping *k, buf *seqs, cb_error *err)
{
	AUTO_BUF buf heads = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(k->cs->s, false, take_head, &heads, err));
	const past_point *all = (const past_point *)(const void *)heads.bytes;
	for (size_t i = 0; i < heads.size / sizeof(past_point); i++) {
		size_t set = 0;
		CB_TRY(point_tops(k, all[i].box, all[i].seq, &set, err));
		for (; set; set = top_at(k, set)->next) CB_TRY(buf_append(seqs, &top_at(k, set)->seq, sizeof(uint64_t), err));
	}
	return CB_OK;
}

/* Where branches of X part. */
static cb_code keep_restored(const keeping *k, buf *seqs, cb_error *err)
{
	for (size_t i = sorted_below(k->by, k->count, k->box, 0); i < k->count && k->by[i].box == k->box; i++) {
		const store_edge *e = edge_at(k, k->by[i].at);
		if (e->kind == STORE_EDGE_RESTORE && e->other_box == k->box)
			CB_TRY(buf_append(seqs, &e->other_seq, sizeof(e->other_seq), err));
	}
	return CB_OK;
}

/* nobody_starts_here: no merge will ever begin at a state of X. */
static cb_code keep_run(keeping *k, bool nobody_starts_here, ways *w, buf *seqs, cb_error *err)
{
	size_t before = seqs->size;
	*w = (ways){0};
	if (nobody_starts_here) CB_TRY(ways_find(k, false, w, err));
	if (w->one_line && !w->undoable) return CB_OK;
	/* One merge: without a look at all the edges since, which are many where forks are merged and deleted, one after the other. */
	if (w->one_line && w->count == 1) return buf_append(seqs, &w->to, sizeof(w->to), err);
	k->of = mem_alloc_zeroed((k->count + 1) * sizeof(*k->of));
	if (!k->of) return cb_err_nomem(err);
	CB_TRY(branches_find(k, err));
	CB_TRY(fill_tops(k, err));
	CB_TRY(keep_tops(k, seqs, err));
	const uint64_t *all = (const uint64_t *)(const void *)(seqs->bytes + before);
	bool several = false;
	for (size_t i = 1; i < (seqs->size - before) / sizeof(*all); i++) several = several || all[i] != all[0];
	return several || !nobody_starts_here ? keep_restored(k, seqs, err) : CB_OK;
}

static keeping keeping_of(cb_store *cs, const past_edges *edges, uint64_t box, const past_going *going)
{
	return (keeping){.cs = cs,
	                 .box = box,
	                 .p = edges,
	                 .by = edges->by,
	                 .count = edges->count,
	                 .going = going,
	                 .tops = BUF_INIT(SIZE_MAX),
	                 .branches = BUF_INIT(SIZE_MAX)};
}

static void keeping_done(keeping *k)
{
	free(k->of);
	buf_done(&k->tops);
	buf_done(&k->branches);
}

cb_code past_keepers(cb_store *cs, past_edges *edges, const store_box *row, bool in_use, buf *seqs, cb_error *err)
{
	CB_TRY(edges_read(edges, cs, err));
	ways ignored;
	keeping k = keeping_of(cs, edges, row->id, NULL);
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
