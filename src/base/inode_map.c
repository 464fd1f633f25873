/* inode_map.c: open addressing, at most half full. */
#include "base/inode_map.h"

#include <assert.h>

#include "base/hash.h"

void inode_map_done(inode_map *m)
{
	free(m->rows);
	*m = (inode_map){0};
}

static inode_map_row *slot_of(const inode_map *m, uint64_t a, uint64_t b)
{
	size_t i = (size_t)hash_u64(hash_u64(a) ^ b) & (m->capacity - 1);
	while (m->rows[i].b && (m->rows[i].a != a || m->rows[i].b != b)) i = (i + 1) & (m->capacity - 1);
	return &m->rows[i];
}

const inode_map_row *inode_map_get(const inode_map *m, uint64_t a, uint64_t b)
{
	if (!m->capacity) return NULL;
	const inode_map_row *row = slot_of(m, a, b);
	return row->b ? row : NULL;
}

static cb_code grow(inode_map *m, cb_error *err)
{
	inode_map bigger = {.count = m->count, .capacity = m->capacity ? m->capacity * 2 : 64};
	bigger.rows = mem_alloc(bigger.capacity * sizeof(*bigger.rows));
	if (!bigger.rows) return cb_err_nomem(err);
	memset(bigger.rows, 0, bigger.capacity * sizeof(*bigger.rows));
	for (size_t i = 0; i < m->capacity; i++)
		if (m->rows[i].b) *slot_of(&bigger, m->rows[i].a, m->rows[i].b) = m->rows[i];
	free(m->rows);
	*m = bigger;
	return CB_OK;
}

cb_code inode_map_put(inode_map *m, uint64_t a, uint64_t b, uint64_t value, cb_error *err)
{
	assert(b != 0);
	if (m->count * 2 >= m->capacity) CB_TRY(grow(m, err));
	inode_map_row *row = slot_of(m, a, b);
	if (!row->b) m->count++;
	*row = (inode_map_row){a, b, value};
	return CB_OK;
}
