/*
 * past_meet.c: the best common pasts of any two of many states.
 *
 * The walk is that of past.c: a walker stands at a step of a box, with the set of steps that undos on its way took back; it goes to the
 * newest edge at or before it, its stop, and from there to what that follows. Here every state that is asked about has a colour, walkers
 * that go the same way are one with the colours of all, and each pair of colours is its own search. Stops have their turns from the newest
 * on, so all that will ever come to one are there.
 *
 * At a stop, from its uppermost walker down: a step that a walker stands at is in the past of all colours at or above it. It is a best
 * common past of those pairs of them that met in none whose past it lies in. To know which these are, a *finder* starts at each that was
 * found: a walker that has pairs instead of colours, those that were found there, and passes what lies in the past of that step. What
 * no pair is new at is passed over.
 *
 * What is found shall serve for states that are put together from those that are asked about, too. In such a one a step that was found
 * may lie below a better one, above an undo: then what that took back is in the past of the step, but not of the better one, and must be
 * found as well. So of what undos above its step take back, a finder takes nothing for granted: it is *doubtful*. It does not follow such a
 * merge, ends at such a restore, and the target of such an undo is doubtful too.
 *
 * A walker is settled when all pairs of its colours go the same way in finders. Alone at a stop it can find nothing, and when no other is
 * left, nobody can.
 *
 * Sets of pairs are kept as a list of products of two sets of colours. Where all that stands at a stop goes on the same way, all pairs of
 * the colours there go with it, which is one product: so the lists stay short, and a stop costs what comes to it anew.
 */
#include "box/past_meet.h"

#include <stdlib.h>

enum { ROW_WORDS = PAST_STARTS_MAX / 64 };

typedef struct walker {
	struct walker *next; /* at the same stop */
	uint64_t box, seq;
	bool finder, ends, settled;
	buf undone;        /* uint64_t, sorted: steps of the box whose edges do not count for it */
	buf doubtful;      /* the same: of a finder, edges that may count or not */
	buf pairs;         /* of a finder: products, two rows of colours each */
	uint64_t colors[]; /* of others */
} walker;

typedef struct meeting {
	const past_edges *p;
	size_t colors, words; /* words: of a row of colours */
	walker **stops;       /* by place in edges; the last: below all edges of a box */
	size_t open, unsettled;
	size_t turn; /* the stop that has its turn */
	buf *out;
} meeting;

static const store_edge *edge_at(const past_edges *p, size_t i)
{
	return (const store_edge *)(const void *)p->edges.bytes + i;
}

size_t past_sorted_below(const past_edge_at *all, size_t count, uint64_t box, uint64_t seq)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (all[mid].box < box || (all[mid].box == box && all[mid].seq < seq)) low = mid + 1;
		else high = mid;
	}
	return low;
}

size_t past_anchor(const past_edges *p, past_point at)
{
	size_t above = past_sorted_below(p->by, p->count, at.box, at.seq + 1);
	return above == 0 || p->by[above - 1].box != at.box ? p->count : p->by[above - 1].at;
}

/* ---- colours and pairs ---- */

static bool row_has(const uint64_t *row, size_t i)
{
	return row[i / 64] >> (i % 64) & 1;
}

static void row_add(const meeting *m, uint64_t *row, const uint64_t *more)
{
	for (size_t i = 0; i < m->words; i++) row[i] |= more[i];
}

static bool row_is_empty(const meeting *m, const uint64_t *row)
{
	uint64_t any = 0;
	for (size_t i = 0; i < m->words; i++) any |= row[i];
	return any == 0;
}

/* The first colour of a row from one on; as many as there are: none. */
static size_t row_next(const meeting *m, const uint64_t *row, size_t from)
{
	size_t word = from / 64;
	if (word >= m->words) return m->colors;
	uint64_t bits = row[word] & (UINT64_MAX << (from % 64));
	while (!bits && ++word < m->words) bits = row[word];
	return bits ? word * 64 + (size_t)__builtin_ctzll(bits) : m->colors;
}

static size_t row_count(const meeting *m, const uint64_t *row)
{
	size_t count = 0;
	for (size_t i = 0; i < m->words; i++) count += (size_t)__builtin_popcountll(row[i]);
	return count;
}

static bool row_within(const meeting *m, const uint64_t *row, const uint64_t *of)
{
	for (size_t i = 0; i < m->words; i++)
		if (row[i] & ~of[i]) return false;
	return true;
}

static size_t pair_size(const meeting *m)
{
	return 2 * m->words * sizeof(uint64_t);
}

static uint64_t *pair_at(const meeting *m, const buf *pairs, size_t i)
{
	return (uint64_t *)(void *)pairs->bytes + i * 2 * m->words;
}

static size_t pair_count(const meeting *m, const buf *pairs)
{
	return m->words ? pairs->size / pair_size(m) : 0;
}

static cb_code pair_put(const meeting *m, buf *pairs, const uint64_t *a, const uint64_t *b, cb_error *err)
{
	CB_TRY(buf_reserve(pairs, pair_size(m), err));
	CB_TRY(buf_append(pairs, a, pair_size(m) / 2, err));
	return buf_append(pairs, b, pair_size(m) / 2, err);
}

/* Takes from a row the colours with which one makes a pair that is in the set. */
static void pairs_take(const meeting *m, const buf *pairs, size_t color, uint64_t *row)
{
	for (size_t i = 0; i < pair_count(m, pairs); i++) {
		const uint64_t *a = pair_at(m, pairs, i), *b = a + m->words;
		bool in_a = row_has(a, color), in_b = row_has(b, color);
		for (size_t k = 0; k < m->words; k++) row[k] &= ~((in_a ? b[k] : 0) | (in_b ? a[k] : 0));
	}
}

/* Adds a product, unless it is in one that is there; those that are in it go. Of many only the last are looked at: what stands in the
 * list twice costs time, no more. */
static cb_code pairs_add(const meeting *m, buf *pairs, const uint64_t *a, const uint64_t *b, cb_error *err)
{
	enum { LOOKED_AT = 16 };
	size_t count = pair_count(m, pairs), from = count > LOOKED_AT ? count - LOOKED_AT : 0, kept = from;
	for (size_t i = from; i < count; i++) {
		const uint64_t *x = pair_at(m, pairs, i), *y = x + m->words;
		if ((row_within(m, a, x) && row_within(m, b, y)) || (row_within(m, a, y) && row_within(m, b, x))) return CB_OK;
	}
	for (size_t i = from; i < count; i++) {
		const uint64_t *x = pair_at(m, pairs, i), *y = x + m->words;
		if ((row_within(m, x, a) && row_within(m, y, b)) || (row_within(m, x, b) && row_within(m, y, a))) continue;
		memmove(pair_at(m, pairs, kept++), x, pair_size(m));
	}
	pairs->size = kept * pair_size(m);
	return pair_put(m, pairs, a, b, err);
}

/* Takes those out of which both colours are in a row. */
static void pairs_drop(const meeting *m, buf *pairs, const uint64_t *row)
{
	size_t kept = 0, count = pair_count(m, pairs);
	for (size_t i = 0; i < count; i++) {
		const uint64_t *x = pair_at(m, pairs, i);
		if (row_within(m, x, row) && row_within(m, x + m->words, row)) continue;
		memmove(pair_at(m, pairs, kept++), x, pair_size(m));
	}
	pairs->size = kept * pair_size(m);
}

/* ---- walkers ---- */

static void walker_free(walker *w)
{
	if (!w) return;
	buf_done(&w->undone);
	buf_done(&w->doubtful);
	buf_done(&w->pairs);
	free(w);
}

static walker *walker_make(const meeting *m, past_point at, bool finder)
{
	walker *w = mem_alloc_zeroed(sizeof(*w) + m->words * sizeof(uint64_t));
	if (!w) return NULL;
	w->box = at.box;
	w->seq = at.seq;
	w->finder = finder;
	w->undone = w->doubtful = w->pairs = BUF_INIT(SIZE_MAX);
	return w;
}

static bool same_way(const walker *a, const walker *b)
{
	return span_equal(buf_span(&a->undone), buf_span(&b->undone)) && span_equal(buf_span(&a->doubtful), buf_span(&b->doubtful));
}

static cb_code join(const meeting *m, walker *into, const walker *from, cb_error *err)
{
	row_add(m, into->colors, from->colors);
	for (size_t i = 0; i < pair_count(m, &from->pairs); i++) {
		const uint64_t *a = pair_at(m, &from->pairs, i);
		CB_TRY(pairs_add(m, &into->pairs, a, a + m->words, err));
	}
	return CB_OK;
}

static void count_in(meeting *m, const walker *w)
{
	m->open += !w->finder;
	m->unsettled += !w->finder && !w->settled;
}

static void count_out(meeting *m, const walker *w)
{
	m->open -= !w->finder;
	m->unsettled -= !w->finder && !w->settled;
}

/* Takes w over. */
static cb_code walker_put(meeting *m, walker *w, cb_error *err)
{
	size_t stop = past_anchor(m->p, (past_point){w->box, w->seq});
	if (stop < m->p->count && stop >= m->turn) {
		walker_free(w);
		return cb_err_set(err, CB_UNSUPPORTED, "edges that are not in order");
	}
	w->next = m->stops[stop];
	m->stops[stop] = w;
	count_in(m, w);
	return CB_OK;
}

/* As w, but elsewhere, where nothing is undone. */
static cb_code walker_copy(const meeting *m, const walker *w, past_point at, walker **out, cb_error *err)
{
	*out = walker_make(m, at, w->finder);
	if (!*out) return cb_err_nomem(err);
	(*out)->settled = w->settled;
	row_add(m, (*out)->colors, w->colors);
	cb_code code = buf_append(&(*out)->pairs, w->pairs.bytes, w->pairs.size, err);
	if (code != CB_OK) walker_free(*out);
	return code;
}

/* ---- sets of steps ---- */

static size_t set_below(const buf *set, uint64_t seq)
{
	const uint64_t *all = (const uint64_t *)(const void *)set->bytes;
	size_t low = 0, high = set->size / sizeof(*all);
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (all[mid] < seq) low = mid + 1;
		else high = mid;
	}
	return low;
}

static bool set_has(const buf *set, uint64_t seq)
{
	size_t at = set_below(set, seq);
	return at < set->size / sizeof(uint64_t) && ((const uint64_t *)(const void *)set->bytes)[at] == seq;
}

static cb_code set_add(buf *set, uint64_t seq, cb_error *err)
{
	size_t at = set_below(set, seq) * sizeof(seq), after = set->size - at;
	if (set_has(set, seq)) return CB_OK;
	CB_TRY(buf_append(set, &seq, sizeof(seq), err));
	memmove(set->bytes + at + sizeof(seq), set->bytes + at, after);
	memcpy(set->bytes + at, &seq, sizeof(seq));
	return CB_OK;
}

/* What of it is at or below a step. */
static cb_code set_copy(const buf *set, uint64_t most, buf *out, cb_error *err)
{
	return buf_append(out, set->bytes, set_below(set, most + 1) * sizeof(uint64_t), err);
}

/* ---- ways ---- */

static cb_code go_elsewhere(meeting *m, const walker *w, past_point to, cb_error *err)
{
	walker *made = NULL;
	CB_TRY(walker_copy(m, w, to, &made, err));
	return walker_put(m, made, err);
}

/* undo: that it passes; NULL: none. */
static cb_code sets_for(const walker *w, const store_edge *undo, walker *made, cb_error *err)
{
	CB_TRY(set_copy(&w->undone, made->seq, &made->undone, err));
	CB_TRY(set_copy(&w->doubtful, made->seq, &made->doubtful, err));
	if (!undo || undo->other_seq > made->seq || set_has(&made->doubtful, undo->other_seq)) return CB_OK;
	return set_add(set_has(&w->doubtful, undo->seq) ? &made->doubtful : &made->undone, undo->other_seq, err);
}

static cb_code go_on(meeting *m, const walker *w, uint64_t seq, const store_edge *undo, cb_error *err)
{
	walker *made = NULL;
	CB_TRY(walker_copy(m, w, (past_point){w->box, seq}, &made, err));
	cb_code code = sets_for(w, undo, made, err);
	if (code == CB_OK) return walker_put(m, made, err);
	walker_free(made);
	return code;
}

/* From its stop to what that follows. */
static cb_code walker_go(meeting *m, const walker *w, const store_edge *e, cb_error *err)
{
	past_point other = {e->other_box, e->other_seq};
	bool doubtful = set_has(&w->doubtful, e->seq), counts = !doubtful && !set_has(&w->undone, e->seq);
	if (e->kind == STORE_EDGE_FORK || (counts && e->kind == STORE_EDGE_MERGE)) CB_TRY(go_elsewhere(m, w, other, err));
	if (counts && e->kind == STORE_EDGE_RESTORE)
		return other.box == e->box ? go_on(m, w, other.seq, NULL, err) : go_elsewhere(m, w, other, err);
	if (e->kind == STORE_EDGE_FORK || e->seq == 0 || (doubtful && e->kind == STORE_EDGE_RESTORE)) return CB_OK;
	return go_on(m, w, e->seq - 1, (counts || doubtful) && e->kind == STORE_EDGE_UNDO ? e : NULL, err);
}

/* ---- a stop has its turn ---- */

/* Those at one stop, the uppermost first; of two at a step, finders first. */
typedef struct turn {
	buf walkers; /* walker * */
	buf finders; /* walker *: those passed */
} turn;

static void turn_done(turn *t)
{
	walker **all = (walker **)(void *)t->walkers.bytes;
	for (size_t i = 0; i < t->walkers.size / sizeof(*all); i++) walker_free(all[i]);
	buf_done(&t->walkers);
	buf_done(&t->finders);
}

static int uppermost_first(const void *a, const void *b)
{
	const walker *x = *(walker *const *)a, *y = *(walker *const *)b;
	if (x->seq != y->seq) return x->seq > y->seq ? -1 : 1;
	return (int)y->finder - (int)x->finder;
}

/* What undos above a step take back at or below it. */
static cb_code doubts_of(const past_edges *p, past_point at, buf *out, cb_error *err)
{
	for (size_t i = past_sorted_below(p->by, p->count, at.box, at.seq + 1); i < p->count && p->by[i].box == at.box; i++) {
		const store_edge *e = edge_at(p, p->by[i].at);
		if (e->kind == STORE_EDGE_UNDO && e->other_seq <= at.seq) CB_TRY(set_add(out, e->other_seq, err));
	}
	return CB_OK;
}

/* The colours with which each makes a pair that one of the finders brought: a row for each colour. NULL: too few ask, `asking`, to make
 * it. */
static cb_code brought_rows(const meeting *m, const turn *t, size_t asking, uint64_t **out, cb_error *err)
{
	walker *const *finders = (walker *const *)(const void *)t->finders.bytes;
	size_t count = t->finders.size / sizeof(*finders), products = 0, rows = 0;
	*out = NULL;
	for (size_t k = 0; k < count; k++) products += pair_count(m, &finders[k]->pairs);
	if (products < 2 || asking < 2) return CB_OK;
	for (size_t k = 0; k < count; k++)
		for (size_t i = 0; i < pair_count(m, &finders[k]->pairs); i++)
			rows += row_count(m, pair_at(m, &finders[k]->pairs, i)) +
			        row_count(m, pair_at(m, &finders[k]->pairs, i) + m->words);
	if (rows + m->colors >= asking * products) return CB_OK;
	uint64_t *all = mem_alloc_zeroed(m->colors * m->words * sizeof(*all));
	if (!all) return cb_err_nomem(err);
	for (size_t k = 0; k < count; k++)
		for (size_t i = 0; i < pair_count(m, &finders[k]->pairs); i++) {
			const uint64_t *a = pair_at(m, &finders[k]->pairs, i), *b = a + m->words;
			for (size_t c = row_next(m, a, 0); c < m->colors; c = row_next(m, a, c + 1))
				row_add(m, all + c * m->words, b);
			for (size_t c = row_next(m, b, 0); c < m->colors; c = row_next(m, b, c + 1))
				row_add(m, all + c * m->words, a);
		}
	*out = all;
	return CB_OK;
}

static void take_brought(const meeting *m, const turn *t, const uint64_t *rows, size_t color, uint64_t *left)
{
	walker *const *finders = (walker *const *)(const void *)t->finders.bytes;
	if (rows)
		for (size_t k = 0; k < m->words; k++) left[k] &= ~rows[color * m->words + k];
	for (size_t k = 0; !rows && k < t->finders.size / sizeof(*finders); k++) pairs_take(m, &finders[k]->pairs, color, left);
}

/* Which pairs of a colour of the one set and one of the other did none of the finders bring? Goes through the first set. */
static cb_code pairs_find(const meeting *m, const turn *t, const uint64_t *a, const uint64_t *b, buf *out, cb_error *err)
{
	if (row_is_empty(m, a) || row_is_empty(m, b)) return CB_OK;
	uint64_t asked[ROW_WORDS] = {0};
	uint64_t *last = NULL, *brought = NULL;
	cb_code code = brought_rows(m, t, row_count(m, a), &brought, err);
	for (size_t i = row_next(m, a, 0); code == CB_OK && i < m->colors; i = row_next(m, a, i + 1)) {
		uint64_t left[ROW_WORDS] = {0}, one[ROW_WORDS] = {0};
		one[i / 64] = 1ULL << (i % 64);
		row_add(m, asked, one);
		for (size_t k = 0; k < m->words; k++) left[k] = b[k] & ~asked[k];
		take_brought(m, t, brought, i, left);
		/* Colours that came together have mostly met the same ones. */
		bool same = last && row_within(m, left, last + m->words);
		for (size_t k = 0; same && k < m->words; k++) same = (last[m->words + k] & ~left[k] & ~one[k] & ~last[k]) == 0;
		if (same) row_add(m, last, one);
		if (same || row_is_empty(m, left)) continue;
		code = pair_put(m, out, one, left, err);
		if (code == CB_OK) last = pair_at(m, out, pair_count(m, out) - 1);
	}
	free(brought);
	return code;
}

/* Those that stand at one step come to those that were met. Pairs of these are found, or were brought, at the step of the last or above it;
 * no finder that started at this stop says anything of what is new. known: so are all pairs among those that come. */
static cb_code meet_some(const meeting *m, const turn *t, uint64_t *fresh, bool known, uint64_t *met, buf *pairs, cb_error *err)
{
	for (size_t k = 0; k < m->words; k++) fresh[k] &= ~met[k];
	bool fewer = row_count(m, fresh) <= row_count(m, met);
	CB_TRY(pairs_find(m, t, fewer ? fresh : met, fewer ? met : fresh, pairs, err));
	if (!known) CB_TRY(pairs_find(m, t, fresh, fresh, pairs, err));
	row_add(m, met, fresh);
	return CB_OK;
}

static cb_code found(meeting *m, turn *t, past_point at, buf *pairs, cb_error *err)
{
	walker *made = walker_make(m, at, true);
	if (!made) return cb_err_nomem(err);
	made->pairs = *pairs;
	*pairs = BUF_INIT(SIZE_MAX);
	cb_code code = buf_append(&t->walkers, &made, sizeof(made), err);
	if (code != CB_OK) walker_free(made);
	if (code == CB_OK) code = doubts_of(m->p, at, &made->doubtful, err);
	return code == CB_OK ? buf_append(m->out, &at, sizeof(at), err) : code;
}

/* Of some at one step, the settled one with most colours, which may be almost all; count: none is settled. */
static size_t largest_settled(const meeting *m, walker *const *all, size_t count)
{
	size_t best = count, most = 0;
	for (size_t i = 0; i < count; i++) {
		if (all[i]->finder || !all[i]->settled) continue;
		size_t colors = row_count(m, all[i]->colors);
		if (colors <= most) continue;
		best = i;
		most = colors;
	}
	return best;
}

/* Those at one step. Together: each after the other would cost the square of them. */
static cb_code step_meet(const meeting *m, turn *t, walker *const *all, size_t count, uint64_t *met, buf *pairs, cb_error *err)
{
	uint64_t rest[ROW_WORDS] = {0}, first[ROW_WORDS] = {0};
	size_t largest = largest_settled(m, all, count), others = 0;
	bool settled = true;
	for (size_t i = 0; i < count; i++) {
		if (all[i]->finder) {
			CB_TRY(buf_append(&t->finders, &all[i], sizeof(all[i]), err));
			continue;
		}
		row_add(m, i == largest ? first : rest, all[i]->colors);
		others += i != largest;
		settled = settled && all[i]->settled;
	}
	CB_TRY(meet_some(m, t, first, true, met, pairs, err));
	return others ? meet_some(m, t, rest, others == 1 && settled, met, pairs, err) : CB_OK;
}

/* *met: all colours there. */
static cb_code stop_meet(meeting *m, turn *t, uint64_t *met, cb_error *err)
{
	AUTO_BUF buf pairs = BUF_INIT(SIZE_MAX); /* that are new at the step */
	size_t count = t->walkers.size / sizeof(walker *);
	for (size_t from = 0, to; from < count; from = to) {
		walker *const *all = (walker *const *)(const void *)t->walkers.bytes;
		past_point at = {all[from]->box, all[from]->seq};
		for (to = from; to < count && all[to]->seq == at.seq; to++) continue;
		CB_TRY(step_meet(m, t, all + from, to - from, met, &pairs, err));
		if (pairs.size) CB_TRY(found(m, t, at, &pairs, err));
	}
	return CB_OK;
}

/* Joins those that go the same way, into the first of them, which are moved to the front. */
static cb_code stop_join(const meeting *m, walker **all, size_t *count, cb_error *err)
{
	size_t kept = 0;
	for (size_t i = 0; i < *count; i++) {
		walker *w = all[i], *with = NULL;
		if (w->ends) continue;
		for (size_t k = 0; k < kept && !with; k++)
			if (all[k]->finder == w->finder && same_way(all[k], w)) with = all[k];
		if (with) {
			CB_TRY(join(m, with, w, err));
			with->settled = false;
			continue;
		}
		all[i] = all[kept];
		all[kept++] = w;
	}
	*count = kept;
	return CB_OK;
}

static bool is_settled(const meeting *m, const walker *w, const walker *finder)
{
	for (size_t i = row_next(m, w->colors, 0); i < m->colors; i = row_next(m, w->colors, i + 1)) {
		uint64_t left[ROW_WORDS] = {0};
		row_add(m, left, w->colors);
		left[i / 64] &= ~(1ULL << (i % 64));
		if (finder) pairs_take(m, &finder->pairs, i, left);
		if (!row_is_empty(m, left)) return false;
	}
	return true;
}

static bool go_one_way(walker *const *all, size_t count)
{
	const walker *first = NULL;
	for (size_t i = 0; i < count; i++) {
		if (all[i]->ends) continue;
		if (!first) first = all[i];
		if (!same_way(all[i], first)) return false;
	}
	return true;
}

/* After they are joined. met: all pairs of these colours go on from here in finders. */
static cb_code stop_settle(const meeting *m, walker **all, size_t count, const uint64_t *met, cb_error *err)
{
	bool one_way = !row_is_empty(m, met) && go_one_way(all, count);
	for (size_t i = 0; i < count; i++) {
		if (one_way && all[i]->finder) CB_TRY(pairs_add(m, &all[i]->pairs, met, met, err));
		if (all[i]->finder || all[i]->settled) continue;
		const walker *finder = NULL;
		for (size_t k = 0; k < count && !finder; k++)
			if (all[k]->finder && same_way(all[k], all[i])) finder = all[k];
		all[i]->settled = (one_way && finder) || is_settled(m, all[i], finder);
	}
	return CB_OK;
}

/* The walkers are taken over; e: the edge there, NULL: none. */
static cb_code stop_turn(meeting *m, turn *t, const store_edge *e, cb_error *err)
{
	walker **all = (walker **)(void *)t->walkers.bytes;
	size_t count = t->walkers.size / sizeof(*all), real = 0;
	uint64_t met[ROW_WORDS] = {0};
	bool settled = true;
	for (size_t i = 0; i < count; i++) {
		real += !all[i]->finder;
		settled = settled && (all[i]->finder || all[i]->settled);
	}
	qsort(all, count, sizeof(*all), uppermost_first);
	if (real > 1 || !settled) CB_TRY(stop_meet(m, t, met, err));
	if (!e) return CB_OK;
	all = (walker **)(void *)t->walkers.bytes;
	count = t->walkers.size / sizeof(*all);
	if (!row_is_empty(m, met) && go_one_way(all, count)) /* then stop_settle adds all pairs of those that met */
		for (size_t i = 0; i < count; i++) pairs_drop(m, &all[i]->pairs, met);
	CB_TRY(stop_join(m, all, &count, err));
	CB_TRY(stop_settle(m, all, count, met, err));
	for (size_t i = 0; i < count; i++) CB_TRY(walker_go(m, all[i], e, err));
	return CB_OK;
}

static cb_code stop_take(meeting *m, walker **list, turn *t, cb_error *err)
{
	while (*list) {
		walker *w = *list;
		CB_TRY(buf_append(&t->walkers, &w, sizeof(w), err));
		*list = w->next;
		count_out(m, w);
	}
	return CB_OK;
}

/* ---- the whole ---- */

static cb_code stops_run(meeting *m, cb_error *err)
{
	for (m->turn = m->p->count; m->turn > 0 && (m->open > 1 || m->unsettled);) {
		m->turn--;
		if (!m->stops[m->turn]) continue;
		ATTR_CLEANUP(turn_done) turn t = {BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX)};
		CB_TRY(stop_take(m, &m->stops[m->turn], &t, err));
		CB_TRY(stop_turn(m, &t, edge_at(m->p, m->turn), err));
	}
	return CB_OK;
}

static int by_box(const void *a, const void *b)
{
	const walker *x = *(walker *const *)a, *y = *(walker *const *)b;
	return x->box < y->box ? -1 : x->box > y->box;
}

/* Where boxes begin. */
static cb_code bottoms_run(meeting *m, cb_error *err)
{
	ATTR_CLEANUP(turn_done) turn all = {BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX)};
	CB_TRY(stop_take(m, &m->stops[m->p->count], &all, err));
	walker **list = (walker **)(void *)all.walkers.bytes;
	size_t count = all.walkers.size / sizeof(*list);
	if (count) qsort(list, count, sizeof(*list), by_box);
	for (size_t from = 0, to; from < count; from = to) {
		ATTR_CLEANUP(turn_done) turn t = {BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX)};
		for (to = from; to < count && list[to]->box == list[from]->box; to++) continue;
		CB_TRY(buf_reserve(&t.walkers, (to - from) * sizeof(*list), err));
		for (size_t i = from; i < to; i++) {
			CB_TRY(buf_append(&t.walkers, &list[i], sizeof(*list), err));
			list[i] = NULL;
		}
		CB_TRY(stop_turn(m, &t, NULL, err));
	}
	return CB_OK;
}

/* A start, and where it stands. */
typedef struct placed {
	past_start start;
	size_t stop;
} placed;

static int placed_compare(const void *a, const void *b)
{
	const placed *x = a, *y = b;
	if (x->start.at.box != y->start.at.box) return x->start.at.box < y->start.at.box ? -1 : 1;
	if (x->stop != y->stop) return x->stop < y->stop ? -1 : 1;
	if (x->start.ends != y->start.ends) return (int)x->start.ends - (int)y->start.ends;
	return x->start.at.seq > y->start.at.seq ? -1 : x->start.at.seq < y->start.at.seq;
}

static bool same_place(const placed *a, const placed *b)
{
	return a->start.at.box == b->start.at.box && a->stop == b->stop && a->start.ends == b->start.ends;
}

/* Of those at one place two have a colour, so that they are a pair; the others are as the second, and what they have in common with the
 * first is they themselves. *colors: of those that have one, which come first. */
static cb_code starts_place(const meeting *m, placed *all, const past_start *starts, size_t count, size_t *colors, cb_error *err)
{
	for (size_t i = 0; i < count; i++) all[i] = (placed){starts[i], past_anchor(m->p, starts[i].at)};
	if (count) qsort(all, count, sizeof(*all), placed_compare);
	*colors = 0;
	for (size_t i = 0; i < count; i++) {
		bool third = *colors > 1 && same_place(&all[*colors - 2], &all[i]);
		if (!third) all[(*colors)++] = all[i];
		else CB_TRY(buf_append(m->out, &all[i].start.at, sizeof(past_point), err));
	}
	return *colors > PAST_STARTS_MAX ? cb_err_set(err, CB_LIMIT, "more than %d states to compare", PAST_STARTS_MAX) : CB_OK;
}

static cb_code meet_all(meeting *m, const placed *all, cb_error *err)
{
	m->turn = m->p->count;
	for (size_t i = 0; i < m->colors; i++) {
		walker *w = walker_make(m, all[i].start.at, false);
		if (!w) return cb_err_nomem(err);
		w->ends = all[i].start.ends;
		w->settled = true;
		w->colors[i / 64] |= 1ULL << (i % 64);
		CB_TRY(walker_put(m, w, err));
	}
	CB_TRY(stops_run(m, err));
	return m->open > 1 || m->unsettled ? bottoms_run(m, err) : CB_OK;
}

static int point_compare(const void *a, const void *b)
{
	const past_point *x = a, *y = b;
	if (x->box != y->box) return x->box < y->box ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

void past_points_sort(buf *points)
{
	past_point *all = (past_point *)(void *)points->bytes;
	size_t count = points->size / sizeof(*all), kept = 0;
	if (count) qsort(all, count, sizeof(*all), point_compare);
	for (size_t i = 0; i < count; i++)
		if (!kept || point_compare(&all[i], &all[kept - 1]) != 0) all[kept++] = all[i];
	points->size = kept * sizeof(*all);
}

cb_code past_meet(const past_edges *p, const past_start *starts, size_t count, buf *out, cb_error *err)
{
	meeting m = {.p = p, .out = out};
	placed *all = mem_alloc((count + 1) * sizeof(*all));
	m.stops = mem_alloc_zeroed((p->count + 1) * sizeof(*m.stops));
	cb_code code = all && m.stops ? starts_place(&m, all, starts, count, &m.colors, err) : cb_err_nomem(err);
	m.words = (m.colors + 63) / 64;
	if (code == CB_OK) code = meet_all(&m, all, err);
	for (size_t i = 0; m.stops && i <= p->count; i++)
		for (walker *w = m.stops[i], *next; w; w = next) {
			next = w->next;
			walker_free(w);
		}
	free(m.stops);
	free(all);
	if (code == CB_OK) past_points_sort(out);
	return code;
}
