/*
 * capture_rename.c: what is gone, and what of it is elsewhere.
 *
 * The tree does not tell a rename from a deletion and a new file. A new file with the bytes of one that is gone is taken for the
 * same file, moved, so that its history, tags and the changes others make to it follow it. Files are found by size and the hash of
 * their first bytes, then compared whole; one that many others look like is tried against some of them only, so that a box full of
 * alike files costs no more than its reading.
 */
#include "work/capture.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/hash.h"

enum {
	HASH_BYTES = 4096,
	TRIES = 8, /* files of one size and hash that a new one is compared with */
};

static cb_code row_add(capturing *c, uint64_t parent, span name, const box_node *r, bool inside, cb_error *err)
{
	capture_gone row = {.parent = parent,
	                    .ino = r->ino,
	                    .size = r->size,
	                    .name_size = (uint8_t)name.size,
	                    .is_file = r->type == CB_FILE && r->links == 1 && r->size > 0,
	                    .is_inside = inside};
	memcpy(row.name, name.bytes, name.size);
	return buf_append(&c->gone, &row, sizeof(row), err);
}

/* The files in a folder that is gone may have moved, one by one. */
static cb_code rows_below(capturing *c, uint64_t dir, cb_error *err)
{
	AUTO_BUF buf folders = BUF_INIT(SIZE_MAX);
	CB_TRY(buf_append(&folders, &dir, sizeof(dir), err));
	for (size_t at = 0; at < folders.size; at += sizeof(uint64_t)) {
		uint64_t folder = 0;
		memcpy(&folder, folders.bytes + at, sizeof(folder));
		AUTO_WALK look_walk *entries = NULL;
		CB_TRY(look_walk_open(c->base, "", folder, &entries, err));
		for (bool found = true; found;) {
			box_node n;
			CB_TRY(look_walk_next(entries, &n, &found, err));
			if (found && n.type == CB_DIR) CB_TRY(buf_append(&folders, &n.ino, sizeof(n.ino), err));
			if (found && n.type == CB_FILE && n.links == 1) CB_TRY(row_add(c, folder, entries->name, &n, true, err));
		}
	}
	return CB_OK;
}

cb_code capture_gone_add(capturing *c, uint64_t parent, span name, const box_node *r, cb_error *err)
{
	CB_TRY(row_add(c, parent, name, r, false, err));
	return r->type == CB_DIR ? rows_below(c, r->ino, err) : CB_OK;
}

/* ---- pairs ---- */

/* A file on one side, in the order of (size, hash, name), so that those that may be the same stand together. */
typedef struct side_row {
	uint64_t size, hash;
	span name;
	size_t index; /* in gone, or in added */
	bool taken;
} side_row;

static int side_order(const void *a, const void *b)
{
	const side_row *x = a, *y = b;
	if (x->size != y->size) return x->size < y->size ? -1 : 1;
	if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
	return span_compare(x->name, y->name);
}

static bool same_group(const side_row *a, const side_row *b)
{
	return a->size == b->size && a->hash == b->hash;
}

static cb_code side_add(look *l, uint64_t parent, span name, size_t index, buf *out, cb_error *err)
{
	box_node node;
	uint8_t block[HASH_BYTES];
	CB_TRY(look_child(l, parent, name, &node, err));
	size_t n = node.size < HASH_BYTES ? (size_t)node.size : HASH_BYTES;
	CB_TRY(look_read(l, &node, 0, block, n, err));
	side_row row = {.size = node.size, .hash = hash64(block, n), .name = name, .index = index};
	return buf_append(out, &row, sizeof(row), err);
}

static capture_gone *gone_at(const capturing *c, size_t index)
{
	return (capture_gone *)(void *)c->gone.bytes + index;
}

static capture_added *added_at(const capturing *c, size_t index)
{
	return (capture_added *)(void *)c->added.bytes + index;
}

static size_t gone_count(const capturing *c)
{
	return c->gone.size / sizeof(capture_gone);
}

static size_t added_count(const capturing *c)
{
	return c->added.size / sizeof(capture_added);
}

static bool has_size(const uint64_t *sizes, size_t n, uint64_t size)
{
	return n && bsearch(&size, sizes, n, sizeof(*sizes), u64_compare) != NULL;
}

/* Only files whose size there is on both sides are looked at. */
static cb_code sides_fill(capturing *c, buf *old, buf *new, cb_error *err)
{
	AUTO_BUF buf old_sizes = BUF_INIT(SIZE_MAX);
	AUTO_BUF buf new_sizes = BUF_INIT(SIZE_MAX);
	for (size_t i = 0; i < gone_count(c); i++)
		if (gone_at(c, i)->is_file) CB_TRY(buf_append(&old_sizes, &gone_at(c, i)->size, sizeof(uint64_t), err));
	for (size_t i = 0; i < added_count(c); i++) CB_TRY(buf_append(&new_sizes, &added_at(c, i)->size, sizeof(uint64_t), err));
	uint64_t *olds = (uint64_t *)(void *)old_sizes.bytes, *news = (uint64_t *)(void *)new_sizes.bytes;
	size_t n = old_sizes.size / sizeof(uint64_t), m = new_sizes.size / sizeof(uint64_t);
	if (n) qsort(olds, n, sizeof(uint64_t), u64_compare);
	if (m) qsort(news, m, sizeof(uint64_t), u64_compare);
	for (size_t i = 0; i < gone_count(c); i++) {
		const capture_gone *g = gone_at(c, i);
		if (g->is_file && has_size(news, m, g->size))
			CB_TRY(side_add(c->base, g->parent, span_make(g->name, g->name_size), i, old, err));
	}
	for (size_t i = 0; i < added_count(c); i++) {
		const capture_added *a = added_at(c, i);
		if (has_size(olds, n, a->size)) CB_TRY(side_add(c->now, a->parent, span_make(a->name, a->name_size), i, new, err));
	}
	return CB_OK;
}

/* The file that is gone takes the place of the new one, with its mode, times and attributes. */
static cb_code move_over(capturing *c, const capture_gone *g, const capture_added *a, cb_error *err)
{
	span name = span_make(a->name, a->name_size);
	AUTO_BUF buf attributes = BUF_INIT(SIZE_MAX);
	box_node new, moved;
	bool changed = true;
	CB_TRY(look_child(c->now, a->parent, name, &new, err));
	CB_TRY(look_attribute_rows(c->now, new.ino, &attributes, err));
	CB_TRY(pen_remove(c->e, a->parent, name, NULL, err));
	CB_TRY(pen_move(c->e, g->parent, span_make(g->name, g->name_size), a->parent, name, err));
	CB_TRY(look_child(c->now, a->parent, name, &moved, err));
	CB_TRY(pen_attributes(c->e, moved.ino, buf_span(&attributes), false, &changed, err));
	moved.mode = new.mode;
	moved.mtime_ns = new.mtime_ns;
	moved.atime_ns = new.atime_ns;
	return pen_save(c->e, &moved, false, err);
}

static cb_code try_pair(capturing *c, side_row *old, side_row *new, cb_error *err)
{
	capture_gone *g = gone_at(c, old->index);
	const capture_added *a = added_at(c, new->index);
	box_node x, y;
	bool same = false;
	CB_TRY(look_child(c->base, g->parent, old->name, &x, err));
	CB_TRY(look_child(c->now, a->parent, new->name, &y, err));
	CB_TRY(look_equal(c->base, &x, c->now, &y, &same, err));
	if (!same) return CB_OK;
	old->taken = new->taken = g->is_taken = true;
	return move_over(c, g, a, err);
}

/* Within one group: first those of the same name, then in order. */
static cb_code pair_group(capturing *c, side_row *old, size_t n, side_row *new, size_t m, cb_error *err)
{
	for (size_t i = 0, k = 0; i < n && k < m;) {
		int order = span_compare(old[i].name, new[k].name);
		if (order == 0) CB_TRY(try_pair(c, &old[i], &new[k], err));
		i += order <= 0;
		k += order >= 0;
	}
	size_t first = 0;
	for (size_t k = 0; k < m; k++) {
		while (first < n && old[first].taken) first++;
		unsigned tries = 0;
		for (size_t i = first; !new[k].taken &&i < n &&tries < TRIES; i++) {
			if (old[i].taken) continue;
			tries++;
			CB_TRY(try_pair(c, &old[i], &new[k], err));
		}
	}
	return CB_OK;
}

static cb_code pair_all(capturing *c, side_row *old, size_t n, side_row *new, size_t m, cb_error *err)
{
	if (n) qsort(old, n, sizeof(*old), side_order);
	if (m) qsort(new, m, sizeof(*new), side_order);
	for (size_t i = 0, k = 0; i < n && k < m;) {
		size_t i_end = i + 1, k_end = k + 1;
		while (i_end < n && same_group(&old[i_end], &old[i])) i_end++;
		while (k_end < m && same_group(&new[k_end], &new[k])) k_end++;
		bool met = same_group(&old[i], &new[k]);
		bool older = old[i].size != new[k].size ? old[i].size < new[k].size : old[i].hash < new[k].hash;
		if (met) CB_TRY(pair_group(c, old + i, i_end - i, new + k, k_end - k, err));
		if (met || older) i = i_end;
		if (met || !older) k = k_end;
	}
	return CB_OK;
}

cb_code capture_gone_settle(capturing *c, cb_error *err)
{
	AUTO_BUF buf old = BUF_INIT(SIZE_MAX);
	AUTO_BUF buf new = BUF_INIT(SIZE_MAX);
	if (c->added.size && c->gone.size) CB_TRY(sides_fill(c, &old, &new, err));
	CB_TRY(pair_all(c, (side_row *)(void *)old.bytes, old.size / sizeof(side_row), (side_row *)(void *)new.bytes,
	                new.size / sizeof(side_row), err));
	for (size_t i = 0; i < gone_count(c); i++) {
		const capture_gone *g = gone_at(c, i);
		if (g->is_inside || g->is_taken) continue;
		CB_TRY(pen_remove(c->e, g->parent, span_make(g->name, g->name_size), NULL, err));
	}
	return CB_OK;
}
