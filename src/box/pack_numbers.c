/*
 * pack_numbers.c: keys and values of a box with other numbers of inodes, contents and states in them. Both ways use the same: packing
 * puts the pack's numbers in, unpacking the store's.
 */
#include "box/pack_parts.h"

#include "base/hash.h"

/* ---- keys ---- */

cb_code renumber_key(const renumber *r, span key_bytes, key *out, cb_error *err)
{
	key_parts k;
	CB_TRY(key_parse(key_bytes, &k, err));
	/* The root lies in no folder: its parent is 0. */
	bool root = k.kind == KIND_ENTRY && k.ino == 0;
	if (k.kind != KIND_KV && k.kind != KIND_COUNTERS && !root) CB_TRY(r->ino(r->context, &k.ino, err));
	switch (k.kind) {
	case KIND_ENTRY:
		*out = key_entry(k.ino, k.name);
		return CB_OK;
	case KIND_INODE:
		*out = key_inode(k.ino);
		return CB_OK;
	case KIND_NAME:
		CB_TRY(r->ino(r->context, &k.parent, err));
		*out = key_name(k.ino, k.parent, k.name);
		return CB_OK;
	case KIND_EXTENT:
		*out = key_extent(k.ino, k.offset);
		return CB_OK;
	case KIND_ATTR:
		*out = key_attr(k.ino, k.name);
		return CB_OK;
	case KIND_TAG:
		*out = key_tag(k.ino, k.sort, k.name);
		return CB_OK;
	case KIND_KV:
		*out = key_kv(k.name);
		return CB_OK;
	default: /* key_parse knows no other */
		*out = key_counters();
		return CB_OK;
	}
}

/* ---- values ---- */

static cb_code renumber_record(const renumber *r, record *rec, cb_error *err)
{
	CB_TRY(r->ino(r->context, &rec->ino, err));
	CB_TRY(r->version(r->context, &rec->version, err));
	rec->written = RECORD_WRITTEN_UNKNOWN; /* it is for transactions, and none begins in one store and ends in another */
	if (rec->form != DATA_CONTENT) return CB_OK;
	return r->content(r->context, &rec->content, rec->start + rec->size, false, err);
}

static cb_code renumber_entry(const renumber *r, span value, tree_value *out, cb_error *err)
{
	entry e;
	CB_TRY(entry_decode(value, &e, err));
	CB_TRY(e.is_link ? r->ino(r->context, &e.rec.ino, err) : renumber_record(r, &e.rec, err));
	entry_encode(&e, out);
	return CB_OK;
}

static cb_code renumber_reference(const renumber *r, span value, tree_value *out, cb_error *err)
{
	value_ref v;
	CB_TRY(value_decode(value, &v, err));
	if (!v.is_inline) CB_TRY(r->content(r->context, &v.content, v.size, true, err));
	value_encode(&v, out);
	return CB_OK;
}

cb_code renumber_value(const renumber *r, span key_bytes, span value, tree_value *out, cb_error *err)
{
	key_parts k;
	record rec;
	extent x;
	counters c;
	CB_TRY(key_parse(key_bytes, &k, err));
	out->size = 0;
	switch (k.kind) {
	case KIND_ENTRY:
		return renumber_entry(r, value, out, err);
	case KIND_INODE:
		CB_TRY(record_decode(value, &rec, err));
		CB_TRY(renumber_record(r, &rec, err));
		record_encode(&rec, out);
		return CB_OK;
	case KIND_EXTENT:
		CB_TRY(extent_decode(value, k.offset, &x, err));
		CB_TRY(r->content(r->context, &x.content, (uint64_t)x.start + x.length, false, err));
		extent_encode(&x, out);
		return CB_OK;
	case KIND_COUNTERS:
		CB_TRY(counters_decode(value, &c, err));
		counters_encode(&c, out);
		return CB_OK;
	case KIND_TAG:
		if (k.sort == 'm') return renumber_reference(r, value, out, err);
		break;
	case KIND_ATTR:
	case KIND_KV:
		return renumber_reference(r, value, out, err);
	default:
		break;
	}
	return value.size == 0 ? CB_OK : cb_err_set(err, CB_CORRUPT, "a tag or a name has a value");
}

/* ---- a table of numbers ---- */

enum { MAP_FIRST = 1024 };

static uint64_t *map_slot(const number_map *m, uint64_t number)
{
	size_t at = (size_t)hash_u64(number) & (m->capacity - 1);
	while (m->slots[2 * at] && m->slots[2 * at] != number) at = (at + 1) & (m->capacity - 1);
	return &m->slots[2 * at];
}

static cb_code map_grow(number_map *m, cb_error *err)
{
	number_map wider = {.capacity = m->capacity ? m->capacity * 2 : MAP_FIRST, .count = m->count};
	wider.slots = mem_alloc(wider.capacity * 2 * sizeof(uint64_t));
	if (!wider.slots) return cb_err_nomem(err);
	memset(wider.slots, 0, wider.capacity * 2 * sizeof(uint64_t));
	for (size_t i = 0; i < m->capacity; i++)
		if (m->slots[2 * i]) memcpy(map_slot(&wider, m->slots[2 * i]), &m->slots[2 * i], 2 * sizeof(uint64_t));
	free(m->slots);
	*m = wider;
	return CB_OK;
}

cb_code number_map_add(number_map *m, uint64_t number, uint64_t next, uint64_t *out, bool *fresh, cb_error *err)
{
	if (m->count * 3 >= m->capacity * 2) CB_TRY(map_grow(m, err));
	uint64_t *slot = map_slot(m, number);
	*fresh = slot[0] == 0;
	if (*fresh) {
		slot[0] = number;
		slot[1] = next;
		m->count++;
	}
	*out = slot[1];
	return CB_OK;
}

void number_map_done(number_map *m)
{
	free(m->slots);
	*m = (number_map){0};
}
