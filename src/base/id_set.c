/* id_set.c: open addressing, at most three quarters full. */
#include "base/id_set.h"

#include "base/hash.h"

enum {
	GROUP_IDS = 64 * ID_SET_WORDS,
	ROWS_FIRST = 16,
};

_Static_assert(sizeof(id_group) == 64, "a group is a cache line");

void id_set_done(id_set *s)
{
	free(s->rows);
	*s = (id_set){0};
}

/* The row of that tag, or the free one where it would be. There is always a free one. */
static id_group *row_of(const id_set *s, uint64_t tag)
{
	size_t i = (size_t)hash_u64(tag) & (s->capacity - 1);
	while (s->rows[i].tag && s->rows[i].tag != tag) i = (i + 1) & (s->capacity - 1);
	return &s->rows[i];
}

static cb_code grow(id_set *s, cb_error *err)
{
	id_set wider = {.count = s->count, .capacity = s->capacity ? s->capacity * 2 : ROWS_FIRST};
	if (wider.capacity > SIZE_MAX / sizeof(id_group)) return cb_err_nomem(err);
	wider.rows = mem_alloc_aligned(wider.capacity * sizeof(id_group));
	if (!wider.rows) return cb_err_nomem(err);
	memset(wider.rows, 0, wider.capacity * sizeof(id_group));
	for (size_t i = 0; i < s->capacity; i++)
		if (s->rows[i].tag) *row_of(&wider, s->rows[i].tag) = s->rows[i];
	free(s->rows);
	*s = wider;
	return CB_OK;
}

cb_code id_set_add(id_set *s, uint64_t id, bool *was, cb_error *err)
{
	uint64_t tag = id / GROUP_IDS + 1, at = id % GROUP_IDS;
	if (s->count >= s->capacity / 4 * 3) CB_TRY(grow(s, err));
	id_group *row = row_of(s, tag);
	if (!row->tag) {
		row->tag = tag;
		s->count++;
	}
	uint64_t bit = (uint64_t)1 << (at % 64);
	*was = (row->bits[at / 64] & bit) != 0;
	row->bits[at / 64] |= bit;
	return CB_OK;
}

bool id_set_has(const id_set *s, uint64_t id)
{
	if (!s->capacity) return false;
	uint64_t at = id % GROUP_IDS;
	return row_of(s, id / GROUP_IDS + 1)->bits[at / 64] >> (at % 64) & 1;
}
