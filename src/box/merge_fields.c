/*
 * merge_fields.c: what both sides have: names, attributes, data, mode and times of one inode. Text that both changed merges by lines.
 */
#include "box/merge_impl.h"
#include "box/text.h"

/* An attribute or tag of theirs' inode, wanted on the one of ours that it unites with. */
typedef struct uniting {
	merge *m;
	item *it;
	uint64_t into;
	bool changed;
} uniting;

static cb_code values_equal(const merge *m, span a, span b, bool *out, cb_error *err)
{
	*out = span_equal(a, b);
	if (*out || a.size != b.size || a.size != 17) return CB_OK; /* only contents can differ by number and be equal */
	AUTO_FREE char *x = NULL, *y = NULL;
	size_t nx = 0, ny = 0;
	CB_TRY(value_load(m->t->cs, m->t, a, &x, &nx, err));
	CB_TRY(value_load(m->t->cs, m->t, b, &y, &ny, err));
	*out = nx == ny && memcmp(x, y, nx) == 0;
	return CB_OK;
}

static cb_code unite_key(void *context, span key_bytes, span value, cb_error *err)
{
	uniting *u = context;
	key k = {.size = key_bytes.size};
	memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
	put_be64(k.bytes + 1, u->into);
	tree_value now;
	cb_code code = txn_get(u->m->t, &k, &now, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	bool same = false, theirs_wins = true;
	if (code == CB_OK) CB_TRY(values_equal(u->m, span_make(now.bytes, now.size), value, &same, err));
	if (code == CB_OK && !same)
		CB_TRY(merge_conflict_at(u->m, u->it, "an attribute was set differently on both sides", &theirs_wins, err));
	if (same || !theirs_wins) return CB_OK;
	u->changed = true;
	return pmap_put(&u->m->t->delta, key_span(&k), value, err);
}

/* Both sides made it: one inode, ours, with the attributes of both. */
cb_code merge_unite(merge *m, item *it, const inode *mine, cb_error *err)
{
	uniting u = {m, it, mine->rec.ino, false};
	inode node = *mine;
	bool theirs_wins = false;
	it->into = mine->rec.ino;
	CB_TRY(inode_keys(m->theirs, it->ino, KIND_ATTR, unite_key, &u, err));
	CB_TRY(inode_keys(m->theirs, it->ino, KIND_TAG, unite_key, &u, err));
	if (node.rec.mode != it->theirs.node.rec.mode)
		CB_TRY(merge_conflict_at(m, it, "made with different modes", &theirs_wins, err));
	if (theirs_wins) node.rec.mode = it->theirs.node.rec.mode;
	if (!u.changed && !theirs_wins) return CB_OK;
	inode_changed(m->t, &node, false);
	return inode_save(m->t, &node, err);
}

/* ---- fields of what both have ---- */

typedef struct attr_merge {
	merge *m;
	item *it;
	bool changed;
} attr_merge;

static cb_code merge_attr(void *context, span key_bytes, span base, span theirs, cb_error *err)
{
	attr_merge *a = context;
	tree_value now;
	cb_code code = tree_get(a->m->ours, key_bytes, &now, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	span ours = code == CB_OK ? span_make(now.bytes, now.size) : (span){0};
	bool unchanged = ours.bytes ? base.bytes && span_equal(ours, base) : !base.bytes;
	bool agreed = ours.bytes ? theirs.bytes && span_equal(ours, theirs) : !theirs.bytes;
	if (agreed) return CB_OK;
	bool theirs_wins = true;
	if (!unchanged) CB_TRY(merge_conflict_at(a->m, a->it, "an attribute was changed on both sides", &theirs_wins, err));
	if (!theirs_wins) return CB_OK;
	a->changed = true;
	pmap *delta = &a->m->t->delta;
	return theirs.bytes ? pmap_put(delta, key_bytes, theirs, err) : pmap_put_tombstone(delta, key_bytes, err);
}

/* Theirs' data instead of what node has. */
static cb_code take_data(merge *m, const item *it, inode *node, cb_error *err)
{
	record attributes = node->rec;
	CB_TRY(data_drop(m->t, node, err));
	CB_TRY(inode_copy_data(m->t, m->theirs, &it->theirs.node.rec, node, err));
	node->rec.mode = attributes.mode;
	node->rec.mtime_ns = it->theirs.node.rec.mtime_ns;
	return CB_OK;
}

static cb_code load_text(merge *m, const tree_view *v, const unit *u, char **out, size_t *size, bool *is_text, cb_error *err)
{
	*is_text = false;
	if (u->node.rec.size > LIMIT_DIFF_TEXT_BYTES) return CB_OK;
	CB_TRY(data_load(m->t->cs, NULL, v, &u->node.rec, LIMIT_DIFF_TEXT_BYTES, out, size, err));
	*is_text = !text_is_binary(span_make(*out, *size));
	return CB_OK;
}

/* Both changed the data: by lines when it is text. *done: merged cleanly into node. */
static cb_code merge_text(merge *m, const item *it, inode *node, bool *done, cb_error *err)
{
	AUTO_FREE char *base = NULL, *ours = NULL, *theirs = NULL;
	size_t nb = 0, no = 0, nt = 0, conflicts = 0;
	bool is_text = false;
	*done = false;
	if (node->rec.type != CB_FILE || !it->base.present) return CB_OK;
	CB_TRY(load_text(m, m->base, &it->base, &base, &nb, &is_text, err));
	if (is_text) CB_TRY(load_text(m, m->ours, &it->ours, &ours, &no, &is_text, err));
	if (is_text) CB_TRY(load_text(m, m->theirs, &it->theirs, &theirs, &nt, &is_text, err));
	if (!is_text) return CB_OK;
	AUTO_BUF buf merged = BUF_INIT(3 * (size_t)LIMIT_DIFF_TEXT_BYTES);
	CB_TRY(text_merge3(span_make(base, nb), span_make(ours, no), span_make(theirs, nt), "ours", "theirs", &merged, &conflicts,
	                   err));
	if (conflicts) return CB_OK;
	*done = true;
	CB_TRY(data_replace(m->t, node, merged.bytes, merged.size, err));
	node->rec.mtime_ns = m->t->now_ns;
	return CB_OK;
}

/* A version of it was expected that ours no longer has: joining lines is not what was asked for. */
static bool is_whole(const merge *m, uint64_t ino)
{
	const uint64_t *inos = (const uint64_t *)(const void *)m->conflicts->whole.bytes;
	for (size_t i = 0; i < m->conflicts->whole.size / sizeof(ino); i++)
		if (inos[i] == ino) return true;
	return false;
}

static cb_code merge_data(merge *m, item *it, inode *node, bool *changed, cb_error *err)
{
	bool theirs_same = false, ours_same = false, agreed = false, merged = false, theirs_wins = true;
	if (it->base.present) {
		CB_TRY(merge_data_same(m, m->base, &it->base, m->theirs, &it->theirs, &theirs_same, err));
		if (!theirs_same) CB_TRY(merge_data_same(m, m->base, &it->base, m->ours, &it->ours, &ours_same, err));
	}
	if (theirs_same) return CB_OK;
	CB_TRY(merge_data_same(m, m->ours, &it->ours, m->theirs, &it->theirs, &agreed, err));
	if (agreed && !m->conflicts->strict) return CB_OK;
	if (!ours_same && !agreed && !is_whole(m, it->ino)) CB_TRY(merge_text(m, it, node, &merged, err));
	if (!ours_same && !merged) CB_TRY(merge_conflict_at(m, it, "changed on both sides", &theirs_wins, err));
	if (!merged && theirs_wins) CB_TRY(take_data(m, it, node, err));
	*changed = *changed || merged || theirs_wins;
	return CB_OK;
}

static cb_code merge_mode(merge *m, item *it, inode *node, bool *changed, cb_error *err)
{
	uint32_t base = it->base.present ? it->base.node.rec.mode : it->ours.node.rec.mode;
	uint32_t ours = it->ours.node.rec.mode, theirs = it->theirs.node.rec.mode;
	if (theirs == base || theirs == ours) return CB_OK;
	bool theirs_wins = true;
	if (ours != base) CB_TRY(merge_conflict_at(m, it, "its mode was changed on both sides", &theirs_wins, err));
	if (!theirs_wins) return CB_OK;
	node->rec.mode = theirs;
	*changed = true;
	return CB_OK;
}

/* Times never conflict: theirs' are taken where only theirs set them. */
static void merge_times(const item *it, inode *node, bool *changed)
{
	const record *b = &it->base.node.rec, *o = &it->ours.node.rec, *t = &it->theirs.node.rec;
	if (!it->base.present || node->rec.type == CB_DIR) return;
	if (t->mtime_ns != b->mtime_ns && o->mtime_ns == b->mtime_ns && node->rec.mtime_ns != t->mtime_ns) {
		node->rec.mtime_ns = t->mtime_ns;
		*changed = true;
	}
	if (t->atime_ns != b->atime_ns && o->atime_ns == b->atime_ns) node->rec.atime_ns = t->atime_ns;
}

/* Names of a file with several: a set, theirs' additions and removals applied to ours. */
static cb_code merge_links(merge *m, item *it, cb_error *err)
{
	if (merge_single_place(it) || it->ino == INO_ROOT || it->ours.node.rec.type == CB_DIR) return CB_OK;
	for (size_t i = 0; i < it->theirs.count; i++) {
		const place *at = &it->theirs.places[i];
		if (merge_place_in(&it->base, at) || merge_place_in(&it->ours, at)) continue;
		uint64_t parent = 0;
		slot s;
		CB_TRY(merge_result_parent(m, it, at, &parent, err));
		if (!parent) continue;
		CB_TRY(merge_slot_find(m, parent, place_name(at), &s, err));
		if (s.taken && s.occupant.rec.ino == it->ino) continue;
		bool clear = !s.taken;
		if (s.taken) CB_TRY(merge_settle_occupant(m, it, at, &s, &clear, err));
		if (!clear) continue;
		tree_view v = txn_view(m->t);
		inode node;
		cb_code code = inode_find(&v, it->ino, &node, err);
		if (code == CB_NOTFOUND) return CB_OK; /* its last name gave way just now */
		if (code != CB_OK) return code;
		CB_TRY(inode_link(m->t, &node, parent, place_name(at), err));
	}
	return CB_OK;
}

cb_code merge_fields(merge *m, item *it, cb_error *err)
{
	attr_merge a = {m, it, false};
	key attrs = key_prefix(KIND_ATTR, it->ino), tags = key_prefix(KIND_TAG, it->ino);
	tree_view v = txn_view(m->t);
	inode node;
	cb_code code = inode_find(&v, it->ino, &node, err);
	if (code == CB_NOTFOUND) return CB_OK; /* gave way in a conflict that theirs won */
	if (code != CB_OK) return code;
	CB_TRY(merge_links(m, it, err));
	v = txn_view(m->t);
	code = inode_find(&v, it->ino, &node, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return code;
	CB_TRY(tree_diff_prefix(m->base, m->theirs, key_span(&attrs), merge_attr, &a, err));
	CB_TRY(tree_diff_prefix(m->base, m->theirs, key_span(&tags), merge_attr, &a, err));
	v = txn_view(m->t);
	code = inode_find(&v, it->ino, &node, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return code;
	bool changed = a.changed;
	CB_TRY(merge_data(m, it, &node, &changed, err));
	CB_TRY(merge_mode(m, it, &node, &changed, err));
	merge_times(it, &node, &changed);
	if (!changed) return CB_OK;
	inode_changed(m->t, &node, false);
	return inode_save(m->t, &node, err);
}
