/*
 * past.c: the common past of two states, by walking the edges of history from the newest down.
 *
 * A walker stands at a step of a box. Its *anchor* is the newest edge of that box at or before it: down to there the past is plain. Walkers
 * of two colours start at the two sides; the one with the newest anchor goes on first, and as an edge only leads to what is older, all
 * walkers that will ever come to an anchor stand there when its turn comes. Where both colours meet is a common past. From there a third
 * colour starts, which paints what lies in the past of one already found: no walker needs to go on where that one goes too. It ends when
 * one side has no walkers left: cost in proportion to the edges since the common past, not to the length of history.
 *
 * A box that seldom merges has old anchors, and who merges it often would be walked through all of them first. So it also ends when every
 * walker of one side stands at an anchor with one of the other side, and no further one of that side can bring more of the box: the states
 * they stand at are no newer than that one's. Where one of several that are found so lies in the past of another, that may not go where it
 * goes: then the search is made again to its end.
 *
 * Whether a merge counts depends on where one looks from. So a walker remembers the steps that undos on its way have taken back, as far as
 * they lie in its box at or below it. Its way on is a function of its anchor and that set, and of nothing else: an edge counts if it is
 * not in the set; one that counts and is an undo puts its target there; a merge that counts is followed, as is a restore, which ends the
 * line. The past of a state is all steps that a walker passes which starts there with an empty set.
 *
 * A larger set does not mean a shorter way: where an undo was undone, the merge it took back counts. Two walkers with different sets may
 * each come to what the other does not. So the invariant is: a walker of a side is left out only where one of the third colour stands at
 * the same anchor with an equal set. That one goes wherever it would have gone; all of that lies in the past of a common past already
 * found, so no best one is among it (stop_leave). For the same reason walkers of one colour are one when anchor and set are equal
 * (walker_add). What lies above a walker is dropped from its set, so sets become equal again once that in which they differ was passed.
 *
 * What was undone at once, by the next edge of its box, leads nowhere: a walker that stands alone at such an undo, with an empty set,
 * goes on below what it took back, in one turn over a whole run of these (pass_undone), as long as no other walker can come to the
 * stops in between: all others stand at older anchors. A run never changes, so a handle remembers the last one.
 *
 * The order of edges that were made from an older format is that of the clock; where that went backwards, an anchor may have its turn
 * twice. So what colours have been there is remembered, and if it happened, results that lie in another's past are removed in the end.
 * (Where a run was passed it is not: then the search is made again without that.)
 */
#include "box/past.h"
#include "box/graft.h"

typedef enum color { COLOR_A, COLOR_B, COLOR_FOUND, COLORS } color;

typedef struct walker {
	past_point at;
	color color;
	bool has_anchor;
	store_edge anchor;
	uint64_t state; /* of its step, once asked for; 0: not yet, UINT64_MAX: pruned */
	buf undone;     /* uint64_t: steps of the box whose edges do not count for this walker */
} walker;

typedef struct visit {
	uint64_t order, box;
	uint64_t newest[COLORS]; /* seq + 1; 0: not been there */
} visit;

/* Edges of a box, read ahead: the newest at or below `top`, the newest first. One at first, then twice as many as before, so that reading
 * costs what is walked. */
enum { AHEAD_MAX = 256 };
typedef struct ahead {
	uint64_t box, top;
	size_t wanted, count;
	store_edge edges[AHEAD_MAX];
} ahead;

typedef struct search {
	cb_store *cs;
	buf aheads;          /* ahead *, one per box; edges below a step never change */
	buf walkers, visits; /* walker, visit */
	past_run *known;     /* of known_box; NULL: nothing is remembered */
	uint64_t known_box;
	bool passes, passed; /* runs of what was undone may be passed, and were */
	bool ends, ended;    /* it may end early, and did, with several */
	bool disorder;
	buf *out;
} search;

static walker *walkers_of(const search *s)
{
	return (walker *)(void *)s->walkers.bytes;
}

static size_t walker_count(const search *s)
{
	return s->walkers.size / sizeof(walker);
}

static bool is_undone(const walker *w, uint64_t seq)
{
	const uint64_t *all = (const uint64_t *)(const void *)w->undone.bytes;
	for (size_t i = 0; i < w->undone.size / sizeof(uint64_t); i++)
		if (all[i] == seq) return true;
	return false;
}

static bool same_stop(const walker *a, const walker *b)
{
	return a->at.box == b->at.box && a->has_anchor == b->has_anchor && (!a->has_anchor || a->anchor.order == b->anchor.order);
}

/* At one stop: do they go the same way from here? No step stands in a set twice, so equal sizes and one in the other make them equal. */
static bool same_way(const walker *a, const walker *b)
{
	const uint64_t *all = (const uint64_t *)(const void *)b->undone.bytes;
	if (a->undone.size != b->undone.size) return false;
	for (size_t i = 0; i < b->undone.size / sizeof(uint64_t); i++)
		if (!is_undone(a, all[i])) return false;
	return true;
}

static uint64_t order_of(const walker *w)
{
	return w->has_anchor ? w->anchor.order : 0;
}

static cb_code ahead_take(search *s, uint64_t box, ahead **out, cb_error *err)
{
	ahead **all = (ahead **)(void *)s->aheads.bytes;
	for (size_t i = s->aheads.size / sizeof(ahead *); i > 0; i--) {
		*out = all[i - 1];
		if ((*out)->box == box) return CB_OK;
	}
	ahead *made = mem_alloc(sizeof(*made));
	if (!made) return cb_err_nomem(err);
	made->box = box;
	made->top = made->wanted = made->count = 0;
	*out = made;
	cb_code code = buf_append(&s->aheads, &made, sizeof(made), err);
	if (code != CB_OK) free(made);
	return code;
}

/* As store_edge_before. */
static cb_code edge_before(search *s, past_point at, store_edge *out, bool *found, cb_error *err)
{
	ahead *a = NULL;
	CB_TRY(ahead_take(s, at.box, &a, err));
	size_t low = 0, high = at.seq <= a->top ? a->count : 0;
	while (low < high) { /* the first at or below the step */
		size_t mid = (low + high) / 2;
		if (a->edges[mid].seq > at.seq) low = mid + 1;
		else high = mid;
	}
	bool known = at.seq <= a->top && (low < a->count || a->count < a->wanted);
	if (!known) {
		a->wanted = a->wanted == 0 ? 1 : a->wanted * 2 < AHEAD_MAX ? a->wanted * 2 : AHEAD_MAX;
		a->top = at.seq;
		low = a->count = 0;
		CB_TRY(store_edges_before(s->cs->s, at.box, at.seq, a->edges, a->wanted, &a->count, err));
	}
	*found = low < a->count;
	if (*found) *out = a->edges[low];
	return CB_OK;
}

/* A new walker; takes over undone. One that stands there already in the same colour and goes as far is only moved up. */
static cb_code walker_add(search *s, past_point at, color c, buf *undone, cb_error *err)
{
	walker w = {.at = at, .color = c, .undone = *undone};
	*undone = BUF_INIT(SIZE_MAX);
	cb_code code = edge_before(s, at, &w.anchor, &w.has_anchor, err);
	walker *all = walkers_of(s);
	for (size_t i = 0; code == CB_OK && i < walker_count(s); i++) {
		if (all[i].color != c || !same_stop(&all[i], &w) || !same_way(&all[i], &w)) continue;
		if (all[i].at.seq < at.seq) all[i].state = 0;
		if (all[i].at.seq < at.seq) all[i].at.seq = at.seq;
		buf_done(&w.undone);
		return CB_OK;
	}
	if (code == CB_OK) code = buf_append(&s->walkers, &w, sizeof(w), err);
	if (code != CB_OK) buf_done(&w.undone);
	return code;
}

static cb_code walker_start(search *s, past_point at, color c, cb_error *err)
{
	buf none = BUF_INIT(SIZE_MAX);
	return walker_add(s, at, c, &none, err);
}

/* What was undone, for a walker that goes on in the same box, at steps up to `most`, without the step `but`. */
static cb_code undone_copy(const walker *w, uint64_t most, uint64_t but, buf *out, cb_error *err)
{
	const uint64_t *all = (const uint64_t *)(const void *)w->undone.bytes;
	*out = BUF_INIT(SIZE_MAX);
	for (size_t i = 0; i < w->undone.size / sizeof(uint64_t); i++)
		if (all[i] <= most && all[i] != but) CB_TRY(buf_append(out, &all[i], sizeof(uint64_t), err));
	return CB_OK;
}

/* From an anchor to what it follows. */
static cb_code walker_go(search *s, const walker *w, cb_error *err)
{
	if (!w->has_anchor) return CB_OK; /* the box began below */
	const store_edge *e = &w->anchor;
	past_point other = {e->other_box, e->other_seq}, before = {e->box, e->seq - 1};
	bool counts = !is_undone(w, e->seq);
	AUTO_BUF buf undone = BUF_INIT(SIZE_MAX);
	size_t known = walker_count(s);
	if (e->kind == STORE_EDGE_FORK || (counts && e->kind == STORE_EDGE_MERGE)) CB_TRY(walker_start(s, other, w->color, err));
	if (counts && e->kind == STORE_EDGE_RESTORE) {
		if (other.box == e->box) CB_TRY(undone_copy(w, other.seq, 0, &undone, err));
		CB_TRY(walker_add(s, other, w->color, &undone, err));
	} else if (e->kind != STORE_EDGE_FORK && e->seq > 0) {
		CB_TRY(undone_copy(w, before.seq, e->seq, &undone, err));
		if (counts && e->kind == STORE_EDGE_UNDO && !is_undone(w, e->other_seq))
			CB_TRY(buf_append(&undone, &e->other_seq, sizeof(uint64_t), err));
		CB_TRY(walker_add(s, before, w->color, &undone, err));
	}
	for (size_t i = known; i < walker_count(s); i++)
		if (order_of(&walkers_of(s)[i]) >= e->order) s->disorder = true;
	return CB_OK;
}

static cb_code visit_take(search *s, const walker *w, visit **out, cb_error *err)
{
	visit *all = (visit *)(void *)s->visits.bytes;
	size_t count = s->visits.size / sizeof(visit);
	for (size_t i = count; i > 0; i--) { /* in order, the one wanted is the last or not there */
		if (all[i - 1].order == order_of(w) && all[i - 1].box == w->at.box) {
			*out = &all[i - 1];
			return CB_OK;
		}
		if (!s->disorder && all[i - 1].order > order_of(w)) break;
	}
	visit v = {.order = order_of(w), .box = w->at.box};
	CB_TRY(buf_append(&s->visits, &v, sizeof(v), err));
	*out = (visit *)(void *)s->visits.bytes + count;
	return CB_OK;
}

/* All walkers at one anchor have their turn; they leave the list. */
static cb_code stop_meet(search *s, const walker *first, buf *here, cb_error *err)
{
	visit *v = NULL;
	walker at = *first; /* the list moves */
	CB_TRY(visit_take(s, &at, &v, err));
	for (size_t i = 0; i < walker_count(s);) {
		walker *w = &walkers_of(s)[i];
		if (!same_stop(w, &at)) {
			i++;
			continue;
		}
		if (v->newest[w->color] < w->at.seq + 1) v->newest[w->color] = w->at.seq + 1;
		CB_TRY(buf_append(here, w, sizeof(*w), err));
		*w = walkers_of(s)[walker_count(s) - 1];
		s->walkers.size -= sizeof(walker);
	}
	uint64_t a = v->newest[COLOR_A], b = v->newest[COLOR_B], both = a < b ? a : b;
	if (both == 0 || both <= v->newest[COLOR_FOUND]) return CB_OK;
	past_point found = {at.at.box, both - 1};
	walker painter = {
		.at = found, .color = COLOR_FOUND, .has_anchor = at.has_anchor, .anchor = at.anchor, .undone = BUF_INIT(SIZE_MAX)};
	v->newest[COLOR_FOUND] = both;
	CB_TRY(buf_append(s->out, &found, sizeof(found), err));
	return buf_append(here, &painter, sizeof(painter), err);
}

/* The run that begins at a walker's anchor: *out 0: none. others: the newest order of the other walkers. */
static cb_code run_find(search *s, const walker *w, uint64_t others, past_run *out, cb_error *err)
{
	const store_edge *e = &w->anchor;
	store_edge target;
	bool found = false;
	*out = (past_run){0};
	if (!w->has_anchor || e->kind != STORE_EDGE_UNDO) return CB_OK;
	if (s->known && s->known_box == e->box && s->known->from == e->seq && s->known->order > others) {
		*out = *s->known;
		return CB_OK;
	}
	CB_TRY(edge_before(s, (past_point){e->box, e->seq - 1}, &target, &found, err));
	if (!found || target.seq != e->other_seq || target.seq == 0 || target.order >= e->order || target.order <= others)
		return CB_OK;
	*out = (past_run){e->seq, target.seq - 1, target.order};
	return CB_OK;
}

/* From an undo, where w stands alone with an empty set, over all that was undone at once. *passed false: there is nothing such. */
static cb_code pass_undone(search *s, const walker *w, bool *passed, cb_error *err)
{
	uint64_t others = 0;
	buf none = BUF_INIT(SIZE_MAX);
	past_run run, all = {.from = w->anchor.seq};
	walker at = *w;
	bool remembers = s->known && s->known_box == w->at.box, longer = remembers && !s->known->from;
	*passed = false;
	for (size_t i = 0; i < walker_count(s); i++)
		if (order_of(&walkers_of(s)[i]) > others) others = order_of(&walkers_of(s)[i]);
	for (;;) {
		CB_TRY(run_find(s, &at, others, &run, err));
		longer = longer || !run.from || (remembers && run.from == s->known->from);
		if (!run.from) break;
		*passed = s->passed = true;
		all.to = at.at.seq = run.to;
		all.order = run.order;
		CB_TRY(edge_before(s, at.at, &at.anchor, &at.has_anchor, err));
		if (order_of(&at) >= run.order) s->disorder = true;
		if (s->disorder || order_of(&at) <= others) break;
	}
	/* One that ends at the others' anchors may go on there: what is known below is worth more. */
	if (*passed && remembers && longer) *s->known = all;
	return *passed ? walker_add(s, at.at, at.color, &none, err) : CB_OK;
}

static cb_code stop_leave(search *s, const buf *here, cb_error *err)
{
	const walker *all = (const walker *)(const void *)here->bytes;
	size_t count = here->size / sizeof(walker);
	bool passed = false;
	if (s->passes && count == 1 && all[0].undone.size == 0) CB_TRY(pass_undone(s, &all[0], &passed, err));
	if (passed) return CB_OK;
	for (size_t i = 0; i < count; i++) {
		bool covered = false;
		for (size_t k = 0; k < count && all[i].color != COLOR_FOUND; k++)
			covered = covered || (all[k].color == COLOR_FOUND && same_way(&all[i], &all[k]));
		if (!covered) CB_TRY(walker_go(s, &all[i], err));
	}
	return CB_OK;
}

/* ---- ending early ---- */

static cb_code state_of(search *s, walker *w, uint64_t *out, cb_error *err)
{
	if (!w->state) {
		cb_error why = {0};
		cb_code code = step_exists(s->cs, w->at.box, w->at.seq, &w->state, &why);
		if (code == CB_STALE || code == CB_NOTFOUND) w->state = UINT64_MAX;
		else if (code != CB_OK) {
			if (err) *err = why;
			return code;
		}
	}
	*out = w->state;
	return CB_OK;
}

/* Was the state of a walker made after its anchor? A step that changes nothing has the state before it, which may be older than what it
 * merged; of a fork that is as it was made, so may its origin's be. */
static cb_code is_dated(search *s, const walker *w, bool *out, cb_error *err)
{
	uint64_t before = 0;
	*out = !w->has_anchor;
	if (*out) return CB_OK;
	cb_error why;
	uint64_t seq = w->anchor.seq ? w->anchor.seq - 1 : 0;
	cb_code code = step_exists(s->cs, w->at.box, seq, &before, cb_err_aside(&why));
	if (code != CB_OK && code != CB_STALE && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	*out = code == CB_OK && before != w->state;
	return CB_OK;
}

/* Can another walker of w's colour come to the box of w with a newer step? States are numbered as they were made, and so are edges: one
 * that is older than w's anchor leads to nothing that came after it. */
static cb_code is_newest(search *s, walker *w, bool *out, cb_error *err)
{
	uint64_t mine = 0, other = 0;
	bool dated = false;
	*out = false;
	CB_TRY(state_of(s, w, &mine, err));
	if (mine == UINT64_MAX) return CB_OK;
	for (size_t i = 0; i < walker_count(s); i++) {
		walker *x = &walkers_of(s)[i];
		if (x->color != w->color || x == w || order_of(x) < order_of(w)) continue;
		CB_TRY(state_of(s, x, &other, err));
		if (other > mine) return CB_OK;
		CB_TRY(is_dated(s, x, &dated, err));
		if (!dated) return CB_OK;
	}
	*out = true;
	return CB_OK;
}

/* Does every walker of colour `mine` stand with one of the other side, at a common past that is final? Appends these to points. */
static cb_code all_meet(search *s, color mine, buf *points, bool *out, cb_error *err)
{
	color others = mine == COLOR_A ? COLOR_B : COLOR_A;
	*out = false;
	points->size = 0;
	for (size_t i = 0; i < walker_count(s); i++) {
		walker *w = &walkers_of(s)[i], *with = NULL;
		if (w->undone.size) return CB_OK;
		if (w->color != mine) continue;
		for (size_t k = 0; k < walker_count(s) && !with; k++) {
			walker *x = &walkers_of(s)[k];
			if (x->color == others && same_stop(x, w)) with = x;
		}
		if (!with) return CB_OK;
		bool final = w->at.seq <= with->at.seq;
		if (!final) CB_TRY(is_newest(s, with, &final, err));
		if (!final) return CB_OK;
		past_point common = w->at.seq <= with->at.seq ? w->at : with->at;
		CB_TRY(buf_append(points, &common, sizeof(common), err));
	}
	*out = points->size > 0;
	return CB_OK;
}

/* Only before anything was found: then the walkers are all there is. */
static cb_code ends_early(search *s, bool *out, cb_error *err)
{
	AUTO_BUF buf points = BUF_INIT(SIZE_MAX);
	*out = false;
	if (!s->ends || s->out->size || s->disorder) return CB_OK;
	CB_TRY(all_meet(s, COLOR_A, &points, out, err));
	if (!*out) CB_TRY(all_meet(s, COLOR_B, &points, out, err));
	if (!*out) return CB_OK;
	s->ended = points.size > sizeof(past_point);
	return buf_append(s->out, points.bytes, points.size, err);
}

/* ---- the whole ---- */

static void walkers_done(buf *list)
{
	walker *all = (walker *)(void *)list->bytes;
	for (size_t i = 0; i < list->size / sizeof(walker); i++) buf_done(&all[i].undone);
	buf_done(list);
}

static cb_code search_run(search *s, cb_error *err)
{
	for (;;) {
		const walker *newest = NULL, *all = walkers_of(s);
		bool left[COLORS] = {false};
		for (size_t i = 0; i < walker_count(s); i++) {
			left[all[i].color] = true;
			if (!newest || order_of(&all[i]) > order_of(newest)) newest = &all[i];
		}
		if (!left[COLOR_A] && !left[COLOR_B]) return CB_OK;
		/* One side alone meets nobody new, unless an anchor had its turn too early. */
		if ((!left[COLOR_A] || !left[COLOR_B]) && !s->disorder) return CB_OK;
		bool ended = false;
		CB_TRY(ends_early(s, &ended, err));
		if (ended) return CB_OK;
		buf here = BUF_INIT(SIZE_MAX);
		cb_code code = stop_meet(s, newest, &here, err);
		if (code == CB_OK) code = stop_leave(s, &here, err);
		walkers_done(&here);
		if (code != CB_OK) return code;
	}
}

typedef struct sides {
	const past_point *a, *b;
	size_t a_count, b_count;
	cb_box *into; /* whose handle remembers; NULL: none */
} sides;

/* How a search is made, and what came of it. */
typedef struct manner {
	bool passes, ends;
	bool disorder, passed, ended;
} manner;

static cb_code search_once(cb_store *cs, const sides *x, manner *how, buf *out, cb_error *err)
{
	search s = {.cs = cs,
	            .aheads = BUF_INIT(SIZE_MAX),
	            .walkers = BUF_INIT(SIZE_MAX),
	            .visits = BUF_INIT(SIZE_MAX),
	            .passes = how->passes,
	            .ends = how->ends,
	            .out = out};
	cb_code code = CB_OK;
	if (x->into) s.known = &x->into->undone;
	if (x->into) s.known_box = x->into->id;
	for (size_t i = 0; code == CB_OK && i < x->a_count; i++) code = walker_start(&s, x->a[i], COLOR_A, err);
	for (size_t i = 0; code == CB_OK && i < x->b_count; i++) code = walker_start(&s, x->b[i], COLOR_B, err);
	if (code == CB_OK) code = search_run(&s, err);
	ahead **aheads = (ahead **)(void *)s.aheads.bytes;
	for (size_t i = 0; i < s.aheads.size / sizeof(ahead *); i++) free(aheads[i]);
	buf_done(&s.aheads);
	walkers_done(&s.walkers);
	buf_done(&s.visits);
	how->disorder = s.disorder;
	how->passed = s.passed;
	how->ended = s.ended;
	return code;
}

/* In *how: whether what was found may lie in one another's past. */
static cb_code search_all(cb_store *cs, const sides *x, manner *how, buf *out, cb_error *err)
{
	size_t before = out->size;
	how->passes = true;
	CB_TRY(search_once(cs, x, how, out, err));
	if (!how->disorder || !how->passed) return CB_OK;
	out->size = before;
	how->passes = false;
	return search_once(cs, x, how, out, err);
}

/* Removes what lies in another one's past. */
static cb_code keep_best(cb_store *cs, buf *points, cb_error *err)
{
	for (size_t i = 0; i < points->size / sizeof(past_point);) {
		past_point *all = (past_point *)(void *)points->bytes;
		size_t count = points->size / sizeof(past_point);
		bool within = false;
		for (size_t k = 0; k < count && !within; k++) {
			if (k == i) continue;
			AUTO_BUF buf common = BUF_INIT(SIZE_MAX);
			CB_TRY(search_all(cs, &(sides){&all[i], &all[k], 1, 1, NULL}, &(manner){.ends = true}, &common, err));
			const past_point *c = (const past_point *)(const void *)common.bytes;
			for (size_t n = 0; n < common.size / sizeof(past_point); n++)
				within = within || (c[n].box == all[i].box && c[n].seq == all[i].seq);
		}
		if (!within) {
			i++;
			continue;
		}
		all[i] = all[count - 1];
		points->size -= sizeof(past_point);
	}
	return CB_OK;
}

static cb_code common_of(cb_store *cs, const sides *x, buf *out, cb_error *err)
{
	AUTO_BUF buf found = BUF_INIT(SIZE_MAX);
	manner how = {.ends = true};
	CB_TRY(search_all(cs, x, &how, &found, err));
	size_t all = found.size;
	if ((how.disorder || how.ended) && all > sizeof(past_point)) CB_TRY(keep_best(cs, &found, err));
	if (how.ended && found.size < all) {
		found.size = 0;
		how.ends = false;
		CB_TRY(search_all(cs, x, &how, &found, err));
		if (how.disorder && found.size > sizeof(past_point)) CB_TRY(keep_best(cs, &found, err));
	}
	return buf_append(out, found.bytes, found.size, err);
}

cb_code past_common(cb_store *cs, const past_point *a, size_t a_count, const past_point *b, size_t b_count, buf *out, cb_error *err)
{
	return common_of(cs, &(sides){a, b, a_count, b_count, NULL}, out, err);
}

cb_code past_common_of(cb_box *b, past_point ours, past_point theirs, buf *out, cb_error *err)
{
	return common_of(b->cs, &(sides){&ours, &theirs, 1, 1, b}, out, err);
}

/* ---- what a state knows of another ---- */

/* Goes down from `at` over merges, to what ours has. plain: over other steps too. *left: how many edges may still be passed. No step is
 * read, so that the answer is the same when some were pruned. */
static cb_code knows(cb_store *cs, past_point ours, past_point at, bool plain, unsigned *left, bool *out, cb_error *err)
{
	while (*left) {
		--*left;
		AUTO_BUF buf common = BUF_INIT(SIZE_MAX);
		CB_TRY(past_common(cs, &ours, 1, &at, 1, &common, err));
		const past_point *c = (const past_point *)(const void *)common.bytes;
		*out = common.size == sizeof(*c) && c->box == at.box && c->seq == at.seq;
		if (*out) return CB_OK;
		store_edge e;
		bool found = false;
		CB_TRY(store_edge_before(cs->s, at.box, at.seq, &e, &found, err));
		if (!found || (e.seq != at.seq && !plain)) return CB_OK;
		past_point other = {e.other_box, e.other_seq};
		if (e.kind == STORE_EDGE_MERGE) CB_TRY(knows(cs, ours, other, false, left, out, err));
		bool goes_on = e.kind == STORE_EDGE_FORK || *out;
		*out = false;
		if (!goes_on) return CB_OK;
		at = e.kind == STORE_EDGE_FORK ? other : (past_point){e.box, e.seq - 1};
	}
	return CB_OK;
}

cb_code past_knows(cb_store *cs, past_point ours, past_point theirs, bool plain, bool *out, cb_error *err)
{
	unsigned left = 64;
	*out = false;
	return knows(cs, ours, theirs, plain, &left, out, err);
}

/* ---- what an edge is needed for ---- */

static bool list_has(const buf *list, uint64_t seq)
{
	const uint64_t *all = (const uint64_t *)(const void *)list->bytes;
	for (size_t i = 0; i < list->size / sizeof(uint64_t); i++)
		if (all[i] == seq) return true;
	return false;
}

static void list_drop_above(buf *list, uint64_t seq)
{
	uint64_t *all = (uint64_t *)(void *)list->bytes;
	size_t kept = 0;
	for (size_t i = 0; i < list->size / sizeof(uint64_t); i++)
		if (all[i] <= seq) all[kept++] = all[i];
	list->size = kept * sizeof(uint64_t);
}

static bool lists_equal(const buf *a, const buf *b)
{
	const uint64_t *all = (const uint64_t *)(const void *)b->bytes;
	if (a->size != b->size) return false;
	for (size_t i = 0; i < b->size / sizeof(uint64_t); i++)
		if (!list_has(a, all[i])) return false;
	return true;
}

/* Two walkers go down the box side by side, one of which takes the edge for undone. They go the same way until one follows what the other
 * does not. */
static cb_code needs_edge(cb_store *cs, past_point at, buf undone[2], bool *out, cb_error *err)
{
	*out = false;
	while (!lists_equal(&undone[0], &undone[1])) {
		store_edge e;
		bool found = false, counts[2];
		CB_TRY(store_edge_before(cs->s, at.box, at.seq, &e, &found, err));
		if (!found || e.kind == STORE_EDGE_FORK || e.seq == 0) return CB_OK;
		for (int i = 0; i < 2; i++) {
			counts[i] = !list_has(&undone[i], e.seq);
			if (counts[i] && e.kind == STORE_EDGE_UNDO && !list_has(&undone[i], e.other_seq))
				CB_TRY(buf_append(&undone[i], &e.other_seq, sizeof(uint64_t), err));
		}
		*out = e.kind != STORE_EDGE_UNDO && counts[0] != counts[1];
		bool leaves = e.kind == STORE_EDGE_RESTORE && counts[0];
		if (*out || (leaves && e.other_box != at.box)) return CB_OK;
		at.seq = leaves ? e.other_seq : e.seq - 1;
		for (int i = 0; i < 2; i++) list_drop_above(&undone[i], at.seq);
	}
	return CB_OK;
}

cb_code past_needs_edge(cb_store *cs, past_point of, uint64_t seq, bool *out, cb_error *err)
{
	buf undone[2] = {BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX)};
	cb_code code = buf_append(&undone[1], &seq, sizeof(seq), err);
	if (code == CB_OK) code = needs_edge(cs, of, undone, out, err);
	buf_done(&undone[0]);
	buf_done(&undone[1]);
	return code;
}

/* ---- making edges ---- */

/* A restored state that was itself a restore is as its source: chains of "try, roll back, try" stay short. */
static cb_code restore_source(cb_store *cs, store_edge *e, cb_error *err)
{
	for (;;) {
		store_edge source;
		bool found = false;
		CB_TRY(store_edge_before(cs->s, e->other_box, e->other_seq, &source, &found, err));
		if (!found || source.seq != e->other_seq || source.kind != STORE_EDGE_RESTORE) return CB_OK;
		uint64_t state_id = 0;
		cb_code code = step_exists(cs, source.other_box, source.other_seq, &state_id, NULL);
		if (code != CB_OK) return CB_OK; /* pruned: the restore stands for it */
		e->other_box = source.other_box;
		e->other_seq = source.other_seq;
	}
}

cb_code past_record(cb_store *cs, const store_step *step, cb_error *err)
{
	store_edge e = {.box = step->box, .seq = step->seq, .other_box = step->other_box, .other_seq = step->other_seq};
	bool whole = step->params.size == 0 || span_equal(step->params, span_str("/"));
	bool is_undo = strcmp(step->kind, "undo") == 0 || strcmp(step->kind, "redo") == 0;
	if (is_undo && step->target) {
		store_edge target;
		bool found = false;
		CB_TRY(store_edge_before(cs->s, step->box, step->target, &target, &found, err));
		if (!found || target.seq != step->target || target.kind == STORE_EDGE_FORK) return CB_OK;
		e.kind = STORE_EDGE_UNDO;
		e.other_box = step->box;
		e.other_seq = step->target;
		return store_edge_put(cs->s, &e, err);
	}
	if (!e.other_box || e.other_box & FOREIGN_BOX) return CB_OK;
	if (step->seq == 0 && strcmp(step->kind, "fork") == 0) e.kind = STORE_EDGE_FORK;
	else if (strcmp(step->kind, "merge") == 0) e.kind = STORE_EDGE_MERGE;
	else if (strcmp(step->kind, "restore") == 0 && whole && !step->params_content) e.kind = STORE_EDGE_RESTORE;
	else return CB_OK;
	uint64_t state_id = 0;
	if (e.kind != STORE_EDGE_FORK) CB_TRY(step_exists(cs, e.other_box, e.other_seq, &state_id, err));
	if (e.kind == STORE_EDGE_RESTORE) CB_TRY(restore_source(cs, &e, err));
	return store_edge_put(cs->s, &e, err);
}

cb_code past_ends_in_merge(cb_store *cs, uint64_t box, uint64_t after, uint64_t to, bool *out, cb_error *err)
{
	store_edge e;
	CB_TRY(store_edge_before(cs->s, box, to, &e, out, err));
	*out = *out && e.seq > after && e.kind == STORE_EDGE_MERGE;
	return CB_OK;
}
