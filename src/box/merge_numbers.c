/*
 * merge_numbers.c: one file or folder under several inode numbers. Common pasts that are merged into a base may each have it under a number
 * of its own (both made it, or one replaced it). The base has one of these; which others are one with it is noted while it is made, and
 * asked for by the merge that it is for.
 */
#include "box/merge.h"

typedef struct number_pair {
	uint8_t bytes[16];
} number_pair;

static number_pair pair_make(uint64_t number, uint64_t other)
{
	number_pair p;
	put_be64(p.bytes, number);
	put_be64(p.bytes + 8, other);
	return p;
}

/* Both ways round, so that it is found from either. */
cb_code merge_note_number(merge *m, uint64_t number, uint64_t there, cb_error *err)
{
	number_pair one = pair_make(number, there), other = pair_make(there, number);
	if (!m->left || !number || number == there) return CB_OK;
	CB_TRY(pmap_put(&m->left->other_numbers, span_make(one.bytes, sizeof(one.bytes)), (span){0}, err));
	return pmap_put(&m->left->other_numbers, span_make(other.bytes, sizeof(other.bytes)), (span){0}, err);
}

/* The next number that is one with `number`, after one that was given back before, or 0. 0: there are no more. */
static uint64_t next_number(const merge *m, uint64_t number, uint64_t after)
{
	number_pair from = pair_make(number, after + 1);
	pmap_cursor c;
	span pair, value;
	bool tombstone;
	if (!m->disputed || pmap_count(&m->disputed->other_numbers) == 0) return 0;
	pmap_seek(&c, &m->disputed->other_numbers, span_make(from.bytes, sizeof(from.bytes)));
	bool found = pmap_cursor_get(&c, &pair, &value, &tombstone) && get_be64(pair.bytes) == number;
	return found ? get_be64(pair.bytes + 8) : 0;
}

/* One that the other side has too comes first: then both find the same. */
cb_code merge_other_number(const merge *m, const tree_view *side, uint64_t number, uint64_t *out, cb_error *err)
{
	const tree_view *across = side == m->ours ? m->theirs : m->ours;
	bool common = false;
	*out = 0;
	for (uint64_t other = next_number(m, number, 0); other && !common; other = next_number(m, number, other)) {
		bool has = false, known = false, two = false;
		CB_TRY(merge_is_present(side, other, &has, err));
		CB_TRY(merge_is_present(m->base, other, &known, err));
		if (!has || known || merge_disputes_ino(m->disputed, other)) continue;
		CB_TRY(merge_is_present(across, other, &common, err));
		if (common) CB_TRY(merge_is_present(across, number, &two, err));
		if (two) common = false; /* the other side has one and the other */
		else if (common || !*out) *out = other;
	}
	return CB_OK;
}

cb_code merge_base_knows(const merge *m, uint64_t ino, bool *out, cb_error *err)
{
	CB_TRY(merge_is_present(m->base, ino, out, err));
	for (uint64_t other = next_number(m, ino, 0); other && !*out; other = next_number(m, ino, other))
		CB_TRY(merge_is_present(m->base, other, out, err));
	return CB_OK;
}
