/* run.c: collecting entries and encoding them as a node. */
#include "tree/run.h"

#include <assert.h>

/* A node of TREE_NODE_MAX has at most a few hundred entries; with their keys in full, and two nodes at once, they stay far below. */
#define RUN_BYTES_MAX ((size_t)64 << 20)

void run_init(run *r, int level)
{
	*r = (run){.level = level, .bytes = BUF_INIT(RUN_BYTES_MAX)};
}

void run_done(run *r)
{
	free(r->items);
	buf_done(&r->bytes);
}

static cb_code reserve(run *r, size_t more, cb_error *err)
{
	if (!r->bytes.bytes)
		CB_TRY(buf_reserve(&r->bytes, TREE_NODE_MAX, err)); /* entries without a byte have an address as well */
	if (more <= r->capacity - r->count) return CB_OK;
	size_t capacity = r->count + more > 2 * r->capacity ? r->count + more : 2 * r->capacity;
	if (capacity < 128) capacity = 128;
	run_item *items = mem_realloc(r->items, capacity * sizeof(*items));
	if (!items) return cb_err_nomem(err);
	r->items = items;
	r->capacity = capacity;
	return CB_OK;
}

static uint8_t *put_bytes(uint8_t *to, const uint8_t *bytes, size_t size)
{
	if (size) memcpy(to, bytes, size);
	return to + size;
}

static bool ascends(const run *r, span key)
{
	return r->count == 0 || span_compare(run_key(r, r->count - 1), key) < 0;
}

cb_code run_push(run *r, span key, span value, cb_error *err)
{
	assert(ascends(r, key));
	CB_TRY(reserve(r, 1, err));
	size_t at = r->bytes.size;
	uint8_t *to;
	CB_TRY(buf_extend(&r->bytes, key.size + value.size, &to, err));
	put_bytes(put_bytes(to, key.bytes, key.size), value.bytes, value.size);
	r->items[r->count++] = (run_item){at, key.size};
	return CB_OK;
}

cb_code run_push_entries(run *r, const node *n, size_t from, size_t to, cb_error *err)
{
	if (from >= to) return CB_OK;
	assert(n->level == r->level && to <= n->count);
	CB_TRY(reserve(r, to - from, err));
	size_t per_entry = n->level > 0 ? 0 : 1; /* the byte for a value's size is not kept in a run */
	size_t size = node_slot(n, to) - node_slot(n, from) + (to - from) * n->prefix_size - (to - from) * per_entry;
	size_t start = r->bytes.size;
	uint8_t *out;
	CB_TRY(buf_extend(&r->bytes, size, &out, err));
	for (size_t i = from; i < to; i++) {
		span suffix = node_suffix(n, i);
		r->items[r->count++] = (run_item){start, n->prefix_size + suffix.size};
		uint8_t *at = put_bytes(out, n->prefix, n->prefix_size);
		if (n->level > 0) {
			at = put_bytes(at, suffix.bytes, suffix.size);
			memcpy(at, n->bytes + node_slot(n, i), NODE_CHILD);
			at += NODE_CHILD;
		} else {
			at = put_bytes(at, suffix.bytes, suffix.size + node_value(n, i).size); /* the value follows the key */
		}
		start += (size_t)(at - out);
		out = at;
	}
	assert(start == r->bytes.size);
	return CB_OK;
}

void run_pop(run *r)
{
	assert(r->count > 0);
	r->count--;
	r->bytes.size = r->items[r->count].at;
}

void run_drop_front(run *r, size_t n)
{
	assert(n <= r->count);
	size_t gone = run_end(r, n);
	r->count -= n;
	r->bytes.size -= gone;
	if (r->count == 0) return;
	memmove(r->bytes.bytes, r->bytes.bytes + gone, r->bytes.size);
	memmove(r->items, r->items + n, r->count * sizeof(*r->items));
	for (size_t i = 0; i < r->count; i++) r->items[i].at -= gone;
}

size_t run_weight(const run *r, size_t from, size_t to)
{
	size_t overhead = r->level > 0 ? NODE_INNER_OVERHEAD : NODE_LEAF_OVERHEAD;
	return NODE_HEADER + run_end(r, to) - run_end(r, from) + overhead * (to - from);
}

static size_t prefix_size(const run *r, size_t from, size_t to)
{
	return node_common_prefix(run_key(r, from), run_key(r, to - 1));
}

size_t run_size(const run *r, size_t from, size_t to)
{
	size_t weight = run_weight(r, from, to);
	return to - from < 2 ? weight : weight - (to - from - 1) * prefix_size(r, from, to);
}

size_t run_encode(const run *r, size_t n, uint8_t *to)
{
	assert(n > 0 && n <= r->count && run_size(r, 0, n) <= TREE_NODE_MAX);
	size_t prefix = prefix_size(r, 0, n);
	to[0] = NODE_FORMAT;
	to[1] = (uint8_t)r->level;
	put_le16(to + 2, (uint16_t)n);
	put_le16(to + 4, (uint16_t)prefix);
	uint8_t *slot = to + NODE_SLOTS;
	uint8_t *at = put_bytes(slot + 2 * (n + 1), run_key(r, 0).bytes, prefix);
	for (size_t i = 0; i < n; i++, slot += 2) {
		const uint8_t *key = r->bytes.bytes + r->items[i].at;
		size_t key_size = r->items[i].key_size, size = run_end(r, i + 1) - r->items[i].at;
		put_le16(slot, (uint16_t)(at - to));
		if (r->level > 0) {
			memcpy(at, key + key_size, NODE_CHILD);
			at = put_bytes(at + NODE_CHILD, key + prefix, key_size - prefix);
		} else {
			*at++ = (uint8_t)(size - key_size);
			at = put_bytes(at, key + prefix, size - prefix);
		}
	}
	size_t size = (size_t)(at - to);
	put_le16(slot, (uint16_t)size);
	assert(size == run_size(r, 0, n));
	return size;
}
