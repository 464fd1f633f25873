/*
 * edit_text.c: see edit_text.h.
 *
 * A thousand searches through 64 MiB take half a minute. So the text is searched once for all old texts, and what is replaced is kept
 * apart from it, in a list of *pieces*: stretches of the text, and new texts between them. An old text stands in a stretch, where the
 * search has found it; in a new text; or across the end of a piece. Only the last two are looked for when its turn comes.
 *
 * The places of one old text come up in order, those that overlap an earlier one are passed over: the same places that a search from the
 * front would take. When so much was looked at around pieces that another search through the text is cheap, the pieces are joined and
 * it begins anew; so is it done for an old text that is there, or nearly there, too often for a list.
 */
#include "box/edit_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/limits.h"
#include "base/sized.h"

enum {
	LOOK_BYTES = 256 << 10,  /* searched or compared between two looks at the limit */
	MANY = 1 << 16,          /* places of one old text */
	MANY_IN_ALL = 1 << 20,   /* and of all */
	SPENT_FACTOR = 4,        /* as many times the text, and the pieces are joined */
	PLAIN_BYTES = 256 << 10, /* text times replacements: less is searched for one after the other */
	SLOT_BITS = 16,
};

typedef struct piece {
	const uint8_t *bytes;
	size_t size;
	bool is_text; /* of `now`; else a new text */
} piece;

static span old_of(const edit_text *e, size_t i)
{
	return sized_bytes(e->all[i].old_text, e->all[i].old_size);
}

static span new_of(const edit_text *e, size_t i)
{
	return sized_bytes(e->all[i].new_text, e->all[i].new_size);
}

cb_code edit_find(span text, span what, size_t from, size_t *out, cb_error *err)
{
	*out = SIZE_MAX;
	/* A step as long as what is wanted keeps the whole linear: each piece has both. */
	size_t step = what.size > LOOK_BYTES ? what.size : LOOK_BYTES;
	if (what.size == 0) return CB_OK;
	for (; from <= text.size && what.size <= text.size - from; from += step) {
		CB_TRY(cancel_check(err));
		size_t size = text.size - from;
		if (size > step + what.size - 1) size = step + what.size - 1;
		const uint8_t *p = memmem(text.bytes + from, size, what.bytes, what.size);
		if (!p) continue;
		*out = (size_t)(p - text.bytes);
		return CB_OK;
	}
	return CB_OK;
}

static cb_code copy_out(buf *out, const uint8_t *bytes, size_t size, cb_error *err)
{
	for (size_t done = 0; done < size;) {
		size_t n = size - done < LOOK_BYTES ? size - done : LOOK_BYTES;
		if (n == LOOK_BYTES) CB_TRY(cancel_check(err));
		CB_TRY(buf_append(out, bytes + done, n, err));
		done += n;
	}
	return CB_OK;
}

static cb_code found_check(edit_text *e, uint64_t found)
{
	uint64_t wanted = e->options->expect ? e->options->expect : 1;
	bool any = e->options->all && !e->options->expect;
	e->found = found;
	if (found == 0) return CB_NOTFOUND;
	return any || found == wanted ? CB_OK : CB_CONFLICT;
}

/* ---- one after the other ---- */

static cb_code replace_plain(edit_text *e, cb_error *err)
{
	span what = old_of(e, e->at), with = new_of(e, e->at);
	uint64_t found = 0;
	size_t at, from = 0;
	for (;; found++, from = at + what.size) {
		CB_TRY(edit_find(e->now, what, from, &at, err));
		if (at == SIZE_MAX) break;
	}
	CB_TRY(found_check(e, found));
	/* The size is known: no growing, and nothing is built that would be too large. */
	AUTO_BUF buf made = BUF_INIT(LIMIT_EDIT_BYTES);
	size_t kept = e->now.size - (size_t)found * what.size;
	if (with.size > (LIMIT_EDIT_BYTES - kept) / found) return CB_LIMIT;
	CB_TRY(buf_reserve(&made, kept + (size_t)found * with.size, err));
	for (from = 0;; from = at + what.size) {
		CB_TRY(edit_find(e->now, what, from, &at, err));
		if (at == SIZE_MAX) break;
		CB_TRY(copy_out(&made, e->now.bytes + from, at - from, err));
		CB_TRY(buf_append(&made, with.bytes, with.size, err));
	}
	CB_TRY(copy_out(&made, e->now.bytes + from, e->now.size - from, err));
	buf swap = e->built;
	e->built = made;
	made = swap;
	e->now = buf_span(&e->built);
	return CB_OK;
}

/* ---- one search for all ---- */

static void hits_forget(edit_text *e)
{
	for (size_t i = 0; e->hits && i < e->count; i++) buf_done(&e->hits[i]);
	free(TAKE_PTR(e->hits));
	e->hit_count = 0;
}

static void hits_are_many(edit_text *e, size_t i)
{
	e->many[i] = true;
	e->hit_count -= e->hits[i].size / sizeof(size_t);
	buf_done(&e->hits[i]);
	e->hits[i] = BUF_INIT(SIZE_MAX);
}

static cb_code hit_add(edit_text *e, size_t i, size_t at, cb_error *err)
{
	if (e->hits[i].size / sizeof(at) < MANY && e->hit_count < MANY_IN_ALL) {
		e->hit_count++;
		return buf_append(&e->hits[i], &at, sizeof(at), err);
	}
	hits_are_many(e, i);
	return CB_OK;
}

/* Old texts of 2^n to 2^(n+1)-1 bytes are searched for together, by a rolling sum of the first 2^n. */
typedef struct group {
	size_t width;
	uint16_t slots[1 << SLOT_BITS]; /* the first replacement of the slot, plus one */
	uint16_t next[LIMIT_EDIT_REPLACEMENTS];
	uint64_t sums[LIMIT_EDIT_REPLACEMENTS];
	size_t compared[LIMIT_EDIT_REPLACEMENTS]; /* bytes of the old text with bytes of the text */
} group;
static_assert(LIMIT_EDIT_REPLACEMENTS < UINT16_MAX, "a slot names a replacement");

static const uint64_t base = 0x9e3779b97f4a7c15u; /* odd, of no pattern */

static uint64_t sum_of(const uint8_t *bytes, size_t size)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < size; i++) sum = sum * base + bytes[i] + 1;
	return sum;
}

static unsigned slot_of(uint64_t sum)
{
	return (unsigned)((sum ^ sum >> 29) * 0xbf58476d1ce4e5b9u >> (64 - SLOT_BITS));
}

/* False: none is that long. */
static bool group_fill(const edit_text *e, size_t width, group *g)
{
	bool any = false;
	*g = (group){.width = width};
	for (size_t i = e->count; i-- > e->at;) {
		span what = old_of(e, i);
		if (what.size / width != 1 || e->many[i]) continue;
		g->sums[i] = sum_of(what.bytes, width);
		unsigned slot = slot_of(g->sums[i]);
		g->next[i] = g->slots[slot];
		g->slots[slot] = (uint16_t)(i + 1);
		any = true;
	}
	return any;
}

/* Those whose sum is that of the text at `at`. One that was compared with more bytes than the text has begins at places that overlap: it
 * leaves the group, for a search of its own takes less. Adds what was done to *done. */
static cb_code group_compare(edit_text *e, group *g, uint64_t sum, size_t at, size_t *done, cb_error *err)
{
	for (uint16_t *link = &g->slots[slot_of(sum)]; *link; ++*done) {
		size_t i = *link - 1u;
		span what = old_of(e, i);
		if (g->sums[i] == sum && what.size <= e->now.size - at) {
			*done += what.size;
			g->compared[i] += what.size;
			if (g->compared[i] > e->now.size) hits_are_many(e, i);
			else if (memcmp(e->now.bytes + at, what.bytes, what.size) == 0) CB_TRY(hit_add(e, i, at, err));
		}
		if (e->many[i]) *link = g->next[i];
		else link = &g->next[i];
	}
	return CB_OK;
}

static cb_code group_search(edit_text *e, group *g, cb_error *err)
{
	span text = e->now;
	if (text.size < g->width) return CB_OK;
	uint64_t power = 1, sum = sum_of(text.bytes, g->width);
	for (size_t i = 1; i < g->width; i++) power *= base;
	for (size_t at = 0, done = LOOK_BYTES;; at++, done++) {
		if (done >= LOOK_BYTES) {
			CB_TRY(cancel_check(err));
			done = 0;
		}
		CB_TRY(group_compare(e, g, sum, at, &done, err));
		if (at + g->width >= text.size) return CB_OK;
		sum = (sum - (text.bytes[at] + UINT64_C(1)) * power) * base + text.bytes[at + g->width] + 1;
	}
}

static cb_code search_all(edit_text *e, cb_error *err)
{
	hits_forget(e);
	e->hits = mem_alloc(e->count * sizeof(buf));
	if (!e->hits) return cb_err_nomem(err);
	for (size_t i = 0; i < e->count; i++) e->hits[i] = BUF_INIT(SIZE_MAX);
	group *g = mem_alloc(sizeof(*g));
	if (!g) return cb_err_nomem(err);
	cb_code code = CB_OK;
	for (size_t width = 1; code == CB_OK && width <= e->now.size; width *= 2)
		if (group_fill(e, width, g)) code = group_search(e, g, err);
	free(g);
	piece whole = {e->now.bytes, e->now.size, true};
	buf_clear(&e->pieces);
	if (code == CB_OK && whole.size) code = buf_append(&e->pieces, &whole, sizeof(whole), err);
	e->size = e->now.size;
	e->spent = 0;
	return code;
}

/* ---- pieces ---- */

/* The text as it is now in one stretch again. */
static cb_code pieces_join(edit_text *e, cb_error *err)
{
	if (!e->hits) return CB_OK;
	const piece *all = (const piece *)(const void *)e->pieces.bytes;
	AUTO_BUF buf made = BUF_INIT(LIMIT_EDIT_BYTES);
	CB_TRY(buf_reserve(&made, e->size, err));
	for (size_t i = 0; i < e->pieces.size / sizeof(piece); i++) {
		if (i % 4096 == 0) CB_TRY(cancel_check(err));
		CB_TRY(copy_out(&made, all[i].bytes, all[i].size, err));
	}
	buf swap = e->built;
	e->built = made;
	made = swap;
	e->now = buf_span(&e->built);
	buf_clear(&e->pieces);
	hits_forget(e);
	return CB_OK;
}

/* A place of the old text, if it does not overlap the one before. They come in order. */
static cb_code pick(edit_text *e, size_t size, size_t at, cb_error *err)
{
	const size_t *all = (const size_t *)(const void *)e->picks.bytes;
	size_t n = e->picks.size / sizeof(size_t);
	return n && at < all[n - 1] + size ? CB_OK : buf_append(&e->picks, &at, sizeof(at), err);
}

/* In bytes that stand at `at` of the whole: places that begin before `before`. */
static cb_code pick_in(edit_text *e, span what, span bytes, size_t at, size_t before, cb_error *err)
{
	size_t p;
	for (size_t from = 0;; from = p + 1) {
		CB_TRY(edit_find(bytes, what, from, &p, err));
		if (p >= before) return CB_OK;
		CB_TRY(pick(e, what.size, at + p, err));
	}
}

/* Across the end of piece i, which stands at `at`: what begins in an earlier piece was found at the end of that. */
static cb_code pick_across(edit_text *e, span what, size_t i, size_t at, cb_error *err)
{
	const piece *all = (const piece *)(const void *)e->pieces.bytes;
	size_t n = e->pieces.size / sizeof(piece), tail = all[i].size < what.size - 1 ? all[i].size : what.size - 1,
	       left = what.size - 1;
	if (!tail || i + 1 == n) return CB_OK;
	buf_clear(&e->scratch);
	CB_TRY(buf_append(&e->scratch, all[i].bytes + all[i].size - tail, tail, err));
	for (size_t k = i + 1; k < n && left; k++) {
		size_t some = all[k].size < left ? all[k].size : left;
		CB_TRY(buf_append(&e->scratch, all[k].bytes, some, err));
		left -= some;
	}
	e->spent += e->scratch.size;
	return pick_in(e, what, buf_span(&e->scratch), at + all[i].size - tail, tail, err);
}

static cb_code pick_all(edit_text *e, cb_error *err)
{
	span what = old_of(e, e->at);
	const piece *all = (const piece *)(const void *)e->pieces.bytes;
	const size_t *hits = (const size_t *)(const void *)e->hits[e->at].bytes;
	size_t hit_count = e->hits[e->at].size / sizeof(size_t), h = 0, at = 0;
	buf_clear(&e->picks);
	for (size_t i = 0; i < e->pieces.size / sizeof(piece); at += all[i++].size) {
		if (i % 1024 == 0) CB_TRY(cancel_check(err));
		if (all[i].is_text) {
			size_t from = (size_t)(all[i].bytes - e->now.bytes), to = from + all[i].size;
			while (h < hit_count && hits[h] < from) h++;
			for (; h < hit_count && hits[h] < to; h++)
				if (to - hits[h] >= what.size) CB_TRY(pick(e, what.size, at + hits[h] - from, err));
		} else {
			e->spent += all[i].size;
			CB_TRY(pick_in(e, what, span_make(all[i].bytes, all[i].size), at, SIZE_MAX, err));
		}
		CB_TRY(pick_across(e, what, i, at, err));
	}
	return CB_OK;
}

static cb_code piece_add(buf *out, const uint8_t *bytes, size_t size, bool is_text, cb_error *err)
{
	piece p = {bytes, size, is_text};
	return size ? buf_append(out, &p, sizeof(p), err) : CB_OK;
}

/* The picked places become the new text. */
static cb_code pieces_replace(edit_text *e, cb_error *err)
{
	span what = old_of(e, e->at), with = new_of(e, e->at);
	const piece *all = (const piece *)(const void *)e->pieces.bytes;
	const size_t *picks = (const size_t *)(const void *)e->picks.bytes;
	size_t n = e->picks.size / sizeof(size_t), k = 0, at = 0, gone = 0; /* gone: up to there all is replaced */
	AUTO_BUF buf made = BUF_INIT(SIZE_MAX);
	size_t kept = e->size - n * what.size;
	if (kept > LIMIT_EDIT_BYTES || with.size > (LIMIT_EDIT_BYTES - kept) / n) return CB_LIMIT;
	for (size_t i = 0; i < e->pieces.size / sizeof(piece); at += all[i++].size) {
		size_t end = at + all[i].size, from = gone > at ? gone : at;
		for (; k < n && picks[k] < end; k++) {
			CB_TRY(piece_add(&made, all[i].bytes + (from - at), picks[k] - from, all[i].is_text, err));
			CB_TRY(piece_add(&made, with.bytes, with.size, false, err));
			from = gone = picks[k] + what.size;
		}
		if (from < end) CB_TRY(piece_add(&made, all[i].bytes + (from - at), end - from, all[i].is_text, err));
	}
	buf swap = e->pieces;
	e->pieces = made;
	made = swap;
	e->size = kept + n * with.size;
	return CB_OK;
}

/* ---- all ---- */

static cb_code replace_next(edit_text *e, cb_error *err)
{
	size_t left = e->count - e->at;
	bool plain = e->many[e->at] || (!e->hits && (left == 1 || e->now.size < PLAIN_BYTES / left));
	if (plain) {
		CB_TRY(pieces_join(e, err));
		return replace_plain(e, err);
	}
	if (e->hits && e->spent / SPENT_FACTOR > e->size) CB_TRY(pieces_join(e, err));
	if (!e->hits) CB_TRY(search_all(e, err));
	if (e->many[e->at]) return replace_next(e, err); /* that is new: it goes the plain way */
	CB_TRY(pick_all(e, err));
	CB_TRY(found_check(e, e->picks.size / sizeof(size_t)));
	return pieces_replace(e, err);
}

cb_code edit_text_run(edit_text *e, span text, cb_error *err)
{
	cb_code code = CB_OK;
	e->now = text;
	e->built = BUF_INIT(LIMIT_EDIT_BYTES);
	e->pieces = e->picks = e->scratch = BUF_INIT(SIZE_MAX);
	e->many = mem_alloc_zeroed(e->count);
	if (!e->many) return cb_err_nomem(err);
	for (e->at = 0; e->at < e->count; e->at++) {
		code = replace_next(e, err);
		if (code != CB_OK) break;
		e->replaced += e->found;
	}
	/* Whoever is told what is wrong wants to see the text. */
	if (code == CB_OK || code == CB_NOTFOUND || code == CB_CONFLICT) CB_TRY(pieces_join(e, err));
	return code;
}

void edit_text_done(edit_text *e)
{
	hits_forget(e);
	free(e->many);
	buf_done(&e->built);
	buf_done(&e->pieces);
	buf_done(&e->picks);
	buf_done(&e->scratch);
}
