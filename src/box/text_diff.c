/*
 * text_diff.c: which lines changed: Myers' O(ND) search in linear space, divide and conquer.
 *
 * E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986. What is searched is what remains after the common head and
 * tail are stripped and lines without a partner are set aside as changed. The order in which diagonals are visited, the lines set
 * aside and the places where a long search is cut are those of git's default, so that people see the hunks they know.
 *
 * Bounds. One search gives up after cost_max edits (about the square root of the number of lines, at least COST_MIN) and splits
 * where it got furthest, so an area of n lines costs O(n * cost_max) steps; all searches together take at most TEXT_WORK_MAX steps,
 * after which what is left is marked changed as a whole. The areas still to do form a stack of fixed depth: the smaller half goes
 * first.
 */
#include "base/cancel.h"
#include "box/text_lines.h"

enum {
	COST_MIN = 256,        /* edits that any search may spend */
	SAMPLE_COST = 256,     /* edits after which a good enough split is taken */
	SAMPLE_FACTOR = 4,     /* a split is good enough when the path went this many times further than it cost */
	SNAKE_LINES = 20,      /* equal lines in a row that are no accident */
	FREQUENT_MAX = 1024,   /* a line is frequent with as many partners as the rough square root of its side's lines, or this */
	FREQUENT_WINDOW = 100, /* lines looked at around a frequent one */
	FREQUENT_SHARE = 4,    /* a frequent line is set aside among this many times fewer frequent than partnerless ones */
	AREA_STACK = 64,       /* > log2 of the lines in two texts */
};

/* The lines of one side that take part in the search. */
typedef struct sequence {
	uint32_t *ids;
	uint32_t *lines; /* where they stand in the side */
	size_t count;
	uint8_t *changed; /* the side's marks */
} sequence;

/* Old items [off1, lim1) against new items [off2, lim2). */
typedef struct area {
	int32_t off1, lim1, off2, lim2;
	bool exact; /* its distance is known to be small: no cuts */
} area;

/* How far paths of the current cost got on each diagonal d = i1 - i2. Only diagonals within cost_max + 1 of the start's are
 * touched, so the array is that small, whatever the area. */
typedef struct frontier {
	int32_t *reach; /* of diagonal `centre`; its neighbours at negative and positive indices */
	int32_t centre, low, high;
} frontier;

typedef struct split {
	int32_t i1, i2;
	bool exact_before, exact_after;
} split;

typedef struct search {
	const uint32_t *ids1, *ids2;
	frontier forward, backward;
	int32_t cost_max;
	uint64_t *work_left;
	bool long_snake; /* seen in this round */
	cb_code ended;   /* by the caller's limit */
	cb_error *err;
} search;

typedef enum outcome { GO_ON, SPLIT, SPENT } outcome;

static int32_t *reach_at(const frontier *f, int32_t diagonal)
{
	return &f->reach[diagonal - f->centre];
}

static void frontier_start(frontier *f, int32_t centre, int32_t at)
{
	f->centre = f->low = f->high = centre;
	*f->reach = at;
}

/* One diagonal more on either side; at the area's edge one less, which keeps the parity. */
static void frontier_widen(frontier *f, int32_t lowest, int32_t highest, int32_t outside)
{
	if (f->low > lowest) *reach_at(f, --f->low - 1) = outside;
	else f->low++;
	if (f->high < highest) *reach_at(f, ++f->high + 1) = outside;
	else f->high--;
}

static bool frontier_covers(const frontier *f, int32_t diagonal)
{
	return f->low <= diagonal && diagonal <= f->high;
}

static bool work_spend(search *s, int32_t steps)
{
	if (*s->work_left < (uint64_t)steps) {
		*s->work_left = 0;
		return false;
	}
	*s->work_left -= (uint64_t)steps;
	return true;
}

/* Every diagonal one edit further from the area's start. `meeting`: look for the backward paths. */
static outcome round_forward(search *s, const area *a, bool meeting, split *out)
{
	frontier *f = &s->forward;
	frontier_widen(f, a->off1 - a->lim2, a->lim1 - a->off2, -1);
	for (int32_t d = f->high; d >= f->low; d -= 2) {
		const int32_t *reach = reach_at(f, d);
		int32_t i1 = reach[-1] >= reach[1] ? reach[-1] + 1 : reach[1], i2 = i1 - d, from = i1;
		for (; i1 < a->lim1 && i2 < a->lim2 && s->ids1[i1] == s->ids2[i2]; i2++) i1++;
		if (!work_spend(s, i1 - from + 1)) return SPENT;
		if (i1 - from > SNAKE_LINES) s->long_snake = true;
		*reach_at(f, d) = i1;
		if (meeting && frontier_covers(&s->backward, d) && *reach_at(&s->backward, d) <= i1) {
			*out = (split){i1, i2, true, true};
			return SPLIT;
		}
	}
	return GO_ON;
}

static outcome round_backward(search *s, const area *a, bool meeting, split *out)
{
	frontier *f = &s->backward;
	frontier_widen(f, a->off1 - a->lim2, a->lim1 - a->off2, INT32_MAX);
	for (int32_t d = f->high; d >= f->low; d -= 2) {
		const int32_t *reach = reach_at(f, d);
		int32_t i1 = reach[-1] < reach[1] ? reach[-1] : reach[1] - 1, i2 = i1 - d, from = i1;
		for (; i1 > a->off1 && i2 > a->off2 && s->ids1[i1 - 1] == s->ids2[i2 - 1]; i2--) i1--;
		if (!work_spend(s, from - i1 + 1)) return SPENT;
		if (from - i1 > SNAKE_LINES) s->long_snake = true;
		*reach_at(f, d) = i1;
		if (meeting && frontier_covers(&s->forward, d) && i1 <= *reach_at(&s->forward, d)) {
			*out = (split){i1, i2, true, true};
			return SPLIT;
		}
	}
	return GO_ON;
}

static bool snake_at(const search *s, int32_t i1, int32_t i2)
{
	return memcmp(&s->ids1[i1], &s->ids2[i2], SNAKE_LINES * sizeof(uint32_t)) == 0;
}

/* A path that ends in a long snake and went far for its cost, the furthest of them, is as good as the exact middle. */
static bool sample_forward(const search *s, const area *a, int32_t cost, split *out)
{
	const frontier *f = &s->forward;
	int32_t best = 0;
	for (int32_t d = f->high; d >= f->low; d -= 2) {
		int32_t i1 = *reach_at(f, d), i2 = i1 - d;
		int32_t gain = (i1 - a->off1) + (i2 - a->off2) - abs(d - f->centre);
		if (gain <= SAMPLE_FACTOR * cost || gain <= best) continue;
		if (i1 < a->off1 + SNAKE_LINES || i1 >= a->lim1 || i2 < a->off2 + SNAKE_LINES || i2 >= a->lim2) continue;
		if (!snake_at(s, i1 - SNAKE_LINES, i2 - SNAKE_LINES)) continue;
		best = gain;
		*out = (split){i1, i2, true, false};
	}
	return best > 0;
}

static bool sample_backward(const search *s, const area *a, int32_t cost, split *out)
{
	const frontier *f = &s->backward;
	int32_t best = 0;
	for (int32_t d = f->high; d >= f->low; d -= 2) {
		int32_t i1 = *reach_at(f, d), i2 = i1 - d;
		int32_t gain = (a->lim1 - i1) + (a->lim2 - i2) - abs(d - f->centre);
		if (gain <= SAMPLE_FACTOR * cost || gain <= best) continue;
		if (i1 <= a->off1 || i1 > a->lim1 - SNAKE_LINES || i2 <= a->off2 || i2 > a->lim2 - SNAKE_LINES) continue;
		if (!snake_at(s, i1, i2)) continue;
		best = gain;
		*out = (split){i1, i2, false, true};
	}
	return best > 0;
}

/* Enough: split where the furthest of all paths stands. Paths may have run past the area's edge; they are pulled back to it. */
static void split_furthest(const search *s, const area *a, split *out)
{
	int32_t ahead = -1, ahead1 = -1, behind = INT32_MAX, behind1 = INT32_MAX;
	for (int32_t d = s->forward.high; d >= s->forward.low; d -= 2) {
		int32_t i1 = *reach_at(&s->forward, d);
		if (i1 > a->lim1) i1 = a->lim1;
		if (i1 - d > a->lim2) i1 = a->lim2 + d;
		if (ahead >= i1 + (i1 - d)) continue;
		ahead = i1 + (i1 - d);
		ahead1 = i1;
	}
	for (int32_t d = s->backward.high; d >= s->backward.low; d -= 2) {
		int32_t i1 = *reach_at(&s->backward, d);
		if (i1 < a->off1) i1 = a->off1;
		if (i1 - d < a->off2) i1 = a->off2 + d;
		if (behind <= i1 + (i1 - d)) continue;
		behind = i1 + (i1 - d);
		behind1 = i1;
	}
	if ((a->lim1 + a->lim2) - behind < ahead - (a->off1 + a->off2)) *out = (split){ahead1, ahead - ahead1, true, false};
	else *out = (split){behind1, behind - behind1, false, true};
}

/* A point that some cheap path through the area passes. SPENT: no work left. */
static outcome area_split(search *s, const area *a, split *out)
{
	frontier_start(&s->forward, a->off1 - a->off2, a->off1);
	frontier_start(&s->backward, a->lim1 - a->lim2, a->lim1);
	bool odd = ((s->forward.centre - s->backward.centre) & 1) != 0;
	for (int32_t cost = 1;; cost++) {
		s->long_snake = false;
		s->ended = cancel_check(s->err);
		if (s->ended != CB_OK) return SPENT;
		outcome met = round_forward(s, a, odd, out);
		if (met == GO_ON) met = round_backward(s, a, !odd, out);
		if (met != GO_ON) return met;
		if (!a->exact && s->long_snake && cost > SAMPLE_COST)
			if (sample_forward(s, a, cost, out) || sample_backward(s, a, cost, out)) return SPLIT;
		if (cost >= s->cost_max) {
			split_furthest(s, a, out);
			return SPLIT;
		}
	}
}

static void mark_lines(const sequence *q, int32_t from, int32_t to)
{
	for (int32_t i = from; i < to; i++) q->changed[q->lines[i]] = 1;
}

static void area_shrink(const search *s, area *a)
{
	while (a->off1 < a->lim1 && a->off2 < a->lim2 && s->ids1[a->off1] == s->ids2[a->off2]) {
		a->off1++;
		a->off2++;
	}
	while (a->off1 < a->lim1 && a->off2 < a->lim2 && s->ids1[a->lim1 - 1] == s->ids2[a->lim2 - 1]) {
		a->lim1--;
		a->lim2--;
	}
}

static int32_t area_size(const area *a)
{
	return (a->lim1 - a->off1) + (a->lim2 - a->off2);
}

/* A split outside the area or at its corner would never end; none is known, and a whole changed area is still a correct answer. */
static bool split_divides(const split *p, const area *a)
{
	if (p->i1 < a->off1 || p->i1 > a->lim1 || p->i2 < a->off2 || p->i2 > a->lim2) return false;
	int32_t before = (p->i1 - a->off1) + (p->i2 - a->off2);
	return before > 0 && before < area_size(a);
}

/* s->ended: not to the end. */
static void search_areas(search *s, const sequence *q1, const sequence *q2)
{
	area stack[AREA_STACK] = {{0, (int32_t)q1->count, 0, (int32_t)q2->count, false}};
	size_t depth = 1;
	while (depth > 0 && s->ended == CB_OK) {
		area a = stack[--depth];
		area_shrink(s, &a);
		split p = {0};
		bool one_sided = a.off1 == a.lim1 || a.off2 == a.lim2;
		if (one_sided || depth + 2 > AREA_STACK || area_split(s, &a, &p) != SPLIT || !split_divides(&p, &a)) {
			mark_lines(q1, a.off1, a.lim1);
			mark_lines(q2, a.off2, a.lim2);
			continue;
		}
		area before = {a.off1, p.i1, a.off2, p.i2, p.exact_before}, after = {p.i1, a.lim1, p.i2, a.lim2, p.exact_after};
		bool before_first = area_size(&before) <= area_size(&after);
		stack[depth++] = before_first ? after : before;
		stack[depth++] = before_first ? before : after;
	}
}

/* What a line can match: nothing, a few lines, or so many that a match says little. */
enum { PARTNERS_NONE, PARTNERS_FEW, PARTNERS_MANY };

static uint8_t partners(const uint32_t *uses, uint32_t id, size_t many)
{
	if (uses[id] == 0) return PARTNERS_NONE;
	return uses[id] >= many ? PARTNERS_MANY : PARTNERS_FEW;
}

/* The unbroken runs of lines without few partners on both sides of line `at`, as wide as FREQUENT_WINDOW, moved along in O(1). */
typedef struct surroundings {
	const uint8_t *kinds;
	size_t end;
	size_t low, high;               /* [low, at) and (at, high) */
	size_t none_before, none_after; /* of them PARTNERS_NONE */
} surroundings;

static void surroundings_move(surroundings *w, size_t at, size_t start)
{
	if (at > start) {
		if (w->kinds[at - 1] == PARTNERS_FEW) {
			w->low = at;
			w->none_before = 0;
		} else if (w->kinds[at - 1] == PARTNERS_NONE) {
			w->none_before++;
		}
	}
	for (; at - w->low > FREQUENT_WINDOW; w->low++)
		if (w->kinds[w->low] == PARTNERS_NONE) w->none_before--;
	if (w->high <= at) {
		w->high = at + 1;
		w->none_after = 0;
	} else if (w->kinds[at] == PARTNERS_NONE) {
		w->none_after--;
	}
	for (; w->high < w->end && w->high - at <= FREQUENT_WINDOW && w->kinds[w->high] != PARTNERS_FEW; w->high++)
		if (w->kinds[w->high] == PARTNERS_NONE) w->none_after++;
}

/* A frequent line amid many partnerless ones would only tie unrelated places together. */
static bool surroundings_drown(const surroundings *w, size_t at)
{
	if (w->none_before == 0 || w->none_after == 0) return false;
	size_t none = w->none_before + w->none_after;
	size_t many = (at - w->low - w->none_before + 1) + (w->high - at - 1 - w->none_after + 1);
	return many * FREQUENT_SHARE < many + none;
}

static void sequence_done(sequence *q)
{
	free(q->ids);
	free(q->lines);
}

#define AUTO_SEQUENCE ATTR_CLEANUP(sequence_done)

/* The lines [start, end) of a side that can match, the others marked changed. */
static cb_code sequence_make(sequence *q, const text_side *side, const uint32_t *other_uses, size_t start, size_t end,
                             cb_error *err)
{
	AUTO_FREE uint8_t *kinds = mem_alloc(end);
	q->ids = mem_alloc((end - start) * sizeof(*q->ids));
	q->lines = mem_alloc((end - start) * sizeof(*q->lines));
	if (!kinds || !q->ids || !q->lines) return cb_err_nomem(err);
	q->changed = side->changed;
	size_t many = text_rough_sqrt(side->count);
	if (many > FREQUENT_MAX) many = FREQUENT_MAX;
	for (size_t i = start; i < end; i++) kinds[i] = partners(other_uses, side->ids[i], many);
	surroundings w = {.kinds = kinds, .end = end, .low = start, .high = start};
	for (size_t i = start; i < end; i++) {
		surroundings_move(&w, i, start);
		if (kinds[i] == PARTNERS_NONE || (kinds[i] == PARTNERS_MANY && surroundings_drown(&w, i))) {
			side->changed[i] = 1;
			continue;
		}
		q->ids[q->count] = side->ids[i];
		q->lines[q->count++] = (uint32_t)i;
	}
	return CB_OK;
}

static cb_code sequences_search(const sequence *q1, const sequence *q2, uint64_t *work_left, cb_error *err)
{
	size_t cost_max = text_rough_sqrt(q1->count + q2->count + 3);
	if (cost_max < COST_MIN) cost_max = COST_MIN;
	size_t width = 2 * cost_max + 5; /* cost_max + 1 diagonals and a neighbour on each side of the centre */
	AUTO_FREE int32_t *reach = mem_alloc(2 * width * sizeof(*reach));
	if (!reach) return cb_err_nomem(err);
	search s = {.ids1 = q1->ids, .ids2 = q2->ids, .cost_max = (int32_t)cost_max, .work_left = work_left, .err = err};
	s.forward.reach = reach + width / 2;
	s.backward.reach = reach + width + width / 2;
	search_areas(&s, q1, q2);
	return s.ended;
}

cb_code text_pair_search(text_pair *p, text_work *work, cb_error *err)
{
	const text_side *o = &p->old_side, *n = &p->new_side;
	size_t shorter = o->count < n->count ? o->count : n->count, head = 0, tail = 0;
	while (head < shorter && o->ids[head] == n->ids[head]) head++;
	while (tail < shorter - head && o->ids[o->count - 1 - tail] == n->ids[n->count - 1 - tail]) tail++;
	AUTO_SEQUENCE sequence q1 = {0};
	AUTO_SEQUENCE sequence q2 = {0};
	CB_TRY(sequence_make(&q1, o, p->new_uses, head, o->count - tail, err));
	CB_TRY(sequence_make(&q2, n, p->old_uses, head, n->count - tail, err));
	return sequences_search(&q1, &q2, &work->search_left, err);
}

cb_code text_pair_hunks(const text_pair *p, text_hunk **out, size_t *out_count, cb_error *err)
{
	const uint8_t *oc = p->old_side.changed, *nc = p->new_side.changed;
	size_t old_count = p->old_side.count, new_count = p->new_side.count, capacity = 0, count = 0;
	AUTO_FREE text_hunk *hunks = NULL;
	for (size_t i = 0, j = 0; i < old_count || j < new_count; i++, j++) {
		if (!oc[i] && !nc[j]) continue;
		text_hunk h = {.old_start = i, .new_start = j};
		while (oc[i]) i++;
		while (nc[j]) j++;
		h.old_count = i - h.old_start;
		h.new_count = j - h.new_start;
		if (count == capacity) {
			capacity = capacity ? capacity * 2 : 16;
			text_hunk *more = mem_realloc(hunks, capacity * sizeof(*hunks));
			if (!more) return cb_err_nomem(err);
			hunks = more;
		}
		hunks[count++] = h;
	}
	*out = TAKE_PTR(hunks);
	*out_count = count;
	return CB_OK;
}

cb_code text_pair_diff(text_pair *p, span old_text, span new_text, text_work *work, text_hunk **out, size_t *out_count,
                       cb_error *err)
{
	CB_TRY(text_pair_open(p, old_text, new_text, err));
	CB_TRY(text_pair_search(p, work, err));
	CB_TRY(cancel_check(err));
	text_pair_compact(p, work);
	CB_TRY(cancel_check(err));
	return text_pair_hunks(p, out, out_count, err);
}

cb_code text_diff(span old_text, span new_text, text_hunk **out, size_t *out_count, cb_error *err)
{
	AUTO_TEXT_PAIR text_pair p = {0};
	text_work work = TEXT_WORK_INIT;
	return text_pair_diff(&p, old_text, new_text, &work, out, out_count, err);
}
