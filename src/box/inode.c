/*
 * inode.c: inodes and their places in the map.
 *
 * Invariants (fsck checks the same list):
 *   - a D entry (parent, name) -> ino has its N key (ino, parent, name), and the other way round;
 *   - an inode's record is in its one D entry, or under I when it has had several links; `links` counts its D entries;
 *   - the parent of every entry is a folder that exists; the root is D 0 "";
 *   - X, A and T keys belong to an inode that exists; X only to files in the extents form;
 *   - Q counts every inode but the root, and the sum of their sizes.
 */
#include "box/internal.h"

#include <assert.h>

cb_code inode_at(const tree_view *v, uint64_t parent, span name, inode *out, bool *is_link, cb_error *err)
{
	tree_value value;
	out->where = key_entry(parent, name);
	CB_TRY(tree_get(v, key_span(&out->where), &value, err));
	entry e;
	CB_TRY(entry_decode(span_make(value.bytes, value.size), &e, err));
	if (is_link) *is_link = e.is_link;
	if (!e.is_link) {
		out->rec = e.rec;
		return CB_OK;
	}
	out->where = key_inode(e.rec.ino);
	cb_code code = tree_get(v, key_span(&out->where), &value, err);
	if (code == CB_NOTFOUND)
		return cb_err_set(err, CB_CORRUPT, "inode %llu has no record: run fsck", (unsigned long long)e.rec.ino);
	if (code != CB_OK) return code;
	return record_decode(span_make(value.bytes, value.size), &out->rec, err);
}

int place_compare(const void *a, const void *b)
{
	const place *x = a, *y = b;
	if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
	return span_compare(place_name(x), place_name(y));
}

static cb_code place_parse(span name_key, place *out, cb_error *err)
{
	key_parts parts;
	CB_TRY(key_parse(name_key, &parts, err));
	out->parent = parts.parent;
	out->size = (uint8_t)parts.name.size;
	memcpy(out->name, parts.name.bytes, parts.name.size);
	return CB_OK;
}

static cb_code add_place(void *context, span key_bytes, span value, cb_error *err)
{
	(void)value;
	place p;
	CB_TRY(place_parse(key_bytes, &p, err));
	return buf_append(context, &p, sizeof(p), err);
}

cb_code inode_places(const tree_view *v, uint64_t ino, buf *out, cb_error *err)
{
	return inode_keys(v, ino, KIND_NAME, add_place, out, err);
}

cb_code inode_place(const tree_view *v, uint64_t ino, place *out, cb_error *err)
{
	key prefix = key_prefix(KIND_NAME, ino);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open_below(v, key_span(&prefix), &c, err));
	span k, value;
	if (!tree_cursor_get(c, &k, &value) || !span_starts(k, key_span(&prefix))) return CB_NOTFOUND;
	return place_parse(k, out, err);
}

cb_code inode_find(const tree_view *v, uint64_t ino, inode *out, cb_error *err)
{
	if (ino == INO_ROOT) return inode_at(v, 0, (span){0}, out, NULL, err);
	place first;
	CB_TRY(inode_place(v, ino, &first, err));
	cb_code code = inode_at(v, first.parent, place_name(&first), out, NULL, err);
	if (code == CB_NOTFOUND || (code == CB_OK && out->rec.ino != ino))
		return cb_err_set(err, CB_CORRUPT, "inode %llu is not where its name says: run fsck", (unsigned long long)ino);
	return code;
}

/* Brent's way: the mark moves after 1, 2, 4, ... steps, so that a cycle meets it within some times its length. */
cb_code climb_up(climb *c, const tree_view *v, place *out, cb_error *err)
{
	place ignored, *left = out ? out : &ignored;
	if (c->steps++ == c->turn) {
		c->mark = c->at;
		c->turn *= 2;
		c->steps = 0;
	}
	CB_TRY(inode_place(v, c->at, left, err));
	c->at = left->parent;
	if (c->at != c->mark) return CB_OK;
	return cb_err_set(err, CB_CORRUPT, "folder %llu lies in a cycle: run fsck", (unsigned long long)c->at);
}

cb_code inode_by_path(const tree_view *v, const char *path, uint64_t *out, cb_error *err)
{
	*out = INO_ROOT;
	for (const char *p = path; *p == '/' && p[1];) {
		size_t size = strcspn(++p, "/");
		inode node;
		CB_TRY(inode_at(v, *out, span_make(p, size), &node, NULL, err));
		*out = node.rec.ino;
		p += size;
	}
	return CB_OK;
}

cb_code inode_path(const tree_view *v, uint64_t ino, buf *out, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX); /* places */
	for (climb up = climb_from(ino); up.at != INO_ROOT;) {
		uint8_t *slot;
		CB_TRY(buf_extend(&way, sizeof(place), &slot, err));
		CB_TRY(climb_up(&up, v, (place *)(void *)slot, err));
	}
	if (way.size == 0) CB_TRY(buf_append_byte(out, '/', err));
	for (size_t i = way.size / sizeof(place); i > 0; i--) {
		const place *p = (const place *)(const void *)way.bytes + (i - 1);
		CB_TRY(buf_append_byte(out, '/', err));
		CB_TRY(buf_append(out, p->name, p->size, err));
	}
	CB_TRY(buf_append_byte(out, 0, err));
	out->size--;
	return CB_OK;
}

cb_code inode_save(txn *t, const inode *node, cb_error *err)
{
	tree_value value;
	if (node->where.bytes[0] == KIND_INODE) {
		record_encode(&node->rec, &value);
	} else {
		entry e = {false, node->rec};
		entry_encode(&e, &value);
	}
	return txn_put(t, &node->where, &value, err);
}

void inode_changed(const txn *t, inode *node, bool data)
{
	node->rec.version = 0;
	node->rec.ctime_ns = t->now_ns;
	if (!data) return;
	node->rec.mtime_ns = t->now_ns;
	node->rec.written = 0;
}

cb_code inode_written(txn *t, inode *node, cb_error *err)
{
	key k = key_inode(node->rec.ino);
	inode_changed(t, node, true);
	return expect_written(t, &k, err);
}

cb_code inode_touch_dir(txn *t, uint64_t ino, cb_error *err)
{
	tree_view v = txn_raw(t);
	inode dir;
	cb_code code = inode_find(&v, ino, &dir, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_CORRUPT, "folder %llu is gone: run fsck", (unsigned long long)ino);
	if (code != CB_OK) return code;
	inode_changed(t, &dir, true);
	return inode_save(t, &dir, err);
}

static cb_code name_put(txn *t, uint64_t ino, uint64_t parent, span name, cb_error *err)
{
	key k = key_name(ino, parent, name);
	tree_value empty;
	empty.size = 0;
	return txn_put(t, &k, &empty, err);
}

cb_code inode_create(txn *t, uint64_t parent, span name, cb_type type, uint32_t mode, inode *out, cb_error *err)
{
	assert(name.size >= 1 && name.size <= LIMIT_NAME_BYTES);
	*out = (inode){.where = key_entry(parent, name)};
	record *r = &out->rec;
	r->type = type;
	r->mode = mode & 07777;
	r->links = 1;
	r->mtime_ns = r->ctime_ns = r->atime_ns = t->now_ns;
	CB_TRY(store_ino_take(t->cs->s, &r->ino, err));
	CB_TRY(txn_count(t, 1, 0, err));
	CB_TRY(inode_save(t, out, err));
	CB_TRY(name_put(t, r->ino, parent, name, err));
	return inode_touch_dir(t, parent, err);
}

static cb_code collect_key(void *context, span key_bytes, span value, cb_error *err)
{
	(void)value;
	buf *list = context;
	key k = {.size = key_bytes.size};
	memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
	return buf_append(list, &k, sizeof(k), err);
}

cb_code inode_keys(const tree_view *v, uint64_t ino, uint8_t kind, inode_key_visit visit, void *context, cb_error *err)
{
	key prefix = key_prefix(kind, ino);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open_below(v, key_span(&prefix), &c, err));
	span k, value;
	while (tree_cursor_get(c, &k, &value) && span_starts(k, key_span(&prefix))) {
		cb_code code = visit(context, k, value, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
		CB_TRY(tree_cursor_next(c, err));
	}
	return CB_OK;
}

/* Deletes all keys of a kind that belong to an inode. Collected first: a cursor must not see the map change. */
cb_code inode_delete_keys(txn *t, uint64_t ino, uint8_t kind, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	tree_view v = txn_raw(t);
	CB_TRY(inode_keys(&v, ino, kind, collect_key, &list, err));
	const key *keys = (const key *)(const void *)list.bytes;
	for (size_t i = 0; i < list.size / sizeof(key); i++) CB_TRY(txn_delete(t, &keys[i], err));
	return CB_OK;
}

static cb_code inode_destroy(txn *t, inode *node, cb_error *err)
{
	uint64_t ino = node->rec.ino;
	uint64_t size = node->rec.size;
	if (node->rec.form == DATA_EXTENTS) CB_TRY(inode_delete_keys(t, ino, KIND_EXTENT, err));
	CB_TRY(inode_delete_keys(t, ino, KIND_ATTR, err));
	CB_TRY(inode_delete_keys(t, ino, KIND_TAG, err));
	if (node->where.bytes[0] == KIND_INODE) CB_TRY(txn_delete(t, &node->where, err));
	return txn_count(t, -1, -(int64_t)size, err);
}

cb_code inode_unlink(txn *t, uint64_t parent, span name, cb_error *err)
{
	tree_view v = txn_raw(t);
	inode node;
	bool is_link = false;
	CB_TRY(inode_at(&v, parent, name, &node, &is_link, err));
	if (node.rec.links <= 1) files_before_unlink(t->b, node.rec.ino);
	key at = key_entry(parent, name);
	key named = key_name(node.rec.ino, parent, name);
	CB_TRY(txn_delete(t, &at, err));
	CB_TRY(txn_delete(t, &named, err));
	CB_TRY(inode_touch_dir(t, parent, err));
	if (!is_link || node.rec.links <= 1) return inode_destroy(t, &node, err);
	node.rec.links--;
	inode_changed(t, &node, false);
	return inode_save(t, &node, err);
}

/* A further name for an inode; its record moves under I when it had only one. */
cb_code inode_link(txn *t, inode *node, uint64_t parent, span name, cb_error *err)
{
	tree_value value;
	entry e = {.is_link = true, .rec = {.ino = node->rec.ino}};
	entry_encode(&e, &value);
	if (node->where.bytes[0] != KIND_INODE) {
		CB_TRY(txn_put(t, &node->where, &value, err));
		node->where = key_inode(node->rec.ino);
	}
	key at = key_entry(parent, name);
	CB_TRY(txn_put(t, &at, &value, err));
	CB_TRY(name_put(t, node->rec.ino, parent, name, err));
	node->rec.links++;
	inode_changed(t, node, false);
	CB_TRY(inode_save(t, node, err));
	return inode_touch_dir(t, parent, err);
}

/* Moves one link from (parent, name) to (to_parent, to_name), which must be free. */
cb_code inode_move(txn *t, uint64_t parent, span name, uint64_t to_parent, span to_name, cb_error *err)
{
	tree_view v = txn_raw(t);
	inode node;
	bool is_link = false;
	CB_TRY(inode_at(&v, parent, name, &node, &is_link, err));
	key from = key_entry(parent, name);
	key from_place = key_name(node.rec.ino, parent, name);
	key to = key_entry(to_parent, to_name);
	CB_TRY(txn_delete(t, &from, err));
	CB_TRY(txn_delete(t, &from_place, err));
	if (is_link) {
		tree_value value;
		entry e = {.is_link = true, .rec = {.ino = node.rec.ino}};
		entry_encode(&e, &value);
		CB_TRY(txn_put(t, &to, &value, err));
	} else {
		node.where = to;
	}
	inode_changed(t, &node, false);
	CB_TRY(inode_save(t, &node, err));
	CB_TRY(name_put(t, node.rec.ino, to_parent, to_name, err));
	CB_TRY(inode_touch_dir(t, parent, err));
	return to_parent == parent ? CB_OK : inode_touch_dir(t, to_parent, err);
}

cb_code inode_is_dir_empty(const tree_view *v, uint64_t ino, bool *out, cb_error *err)
{
	key prefix = key_prefix(KIND_ENTRY, ino);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open_below(v, key_span(&prefix), &c, err));
	span k, value;
	*out = !(tree_cursor_get(c, &k, &value) && span_starts(k, key_span(&prefix)));
	return CB_OK;
}
