/*
 * merge.c: three-way merge of files, not of keys.
 *
 * Merging keys one by one would corrupt a filesystem (an orphan where one side deletes a folder and the other adds to it, two records of
 * one inode after two renames, a detached cycle after two moves). So theirs' key changes are only used to find *which inodes* changed; each
 * is then merged as a unit (places, data, mode, attributes) with the ordinary operations of inode.c on a transaction over ours, which keep
 * every invariant. Inode numbers are unique in a store, so an inode that both sides have is the same file.
 *
 * Order of work: deletions of files free their names; inodes that theirs moved are parked at the root under names no path can hold, so
 * that swaps work; emptied folders go; then moves and additions, parents first; then fields; then the folders that theirs deleted and
 * that are empty by now.
 *
 * A conflict that nobody resolves is counted and ours stays; the caller must then not commit.
 */
#include "box/merge_impl.h"

#include <assert.h>
#include <stdio.h>

/* ---- conflicts ---- */

static cb_code conflict_note(merge_conflicts *c, const char *path, const char *reason)
{
	if (c->open++ == 0) (void)snprintf(c->first, sizeof(c->first), "%s", path);
	/* A full list just ends; the count tells the rest. */
	return buf_printf(&c->list, NULL, "%s%s (%s)", c->list.size ? ", " : "", path, reason);
}

cb_prefer merge_decide(merge_conflicts *c, const char *path, const char *reason)
{
	cb_prefer chosen = CB_PREFER_NONE;
	cb_conflict conflict = {path, reason};
	if (c->options && c->options->resolve) chosen = c->options->resolve(c->options->context, &conflict);
	if (chosen == CB_PREFER_NONE && c->options) chosen = c->options->prefer;
	if (chosen == CB_PREFER_NONE) (void)conflict_note(c, path, reason);
	return chosen;
}

void merge_conflicts_done(merge_conflicts *c)
{
	buf_done(&c->list);
	buf_done(&c->whole);
}

/* *theirs_wins: the caller does what theirs wants. */
cb_code merge_conflict_at(merge *m, const item *i, const char *reason, bool *theirs_wins, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(1 << 20);
	cb_code code = CB_NOTFOUND;
	if (i->ours.present) code = inode_path(m->ours, i->ino, &path, err);
	if (code == CB_NOTFOUND && i->theirs.present) code = inode_path(m->theirs, i->ino, &path, err);
	if (code == CB_NOTFOUND) code = inode_path(m->base, i->ino, &path, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	*theirs_wins = merge_decide(m->conflicts, path.size ? (const char *)path.bytes : "?", reason) == CB_PREFER_THEIRS;
	return CB_OK;
}

/* ---- what each side has ---- */

int merge_place_compare(const void *a, const void *b)
{
	const place *x = a, *y = b;
	if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
	return span_compare(place_name(x), place_name(y));
}

static cb_code collect_place(void *context, span key_bytes, span value, cb_error *err)
{
	(void)value;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	place p = {.parent = parts.parent, .size = (uint8_t)parts.name.size};
	memcpy(p.name, parts.name.bytes, parts.name.size);
	return buf_append(context, &p, sizeof(p), err);
}

cb_code merge_unit_load(const tree_view *v, uint64_t ino, unit *out, cb_error *err)
{
	*out = (unit){0};
	if (ino == INO_ROOT) {
		out->present = true;
		return inode_find(v, ino, &out->node, err);
	}
	AUTO_BUF buf list = BUF_INIT(sizeof(place) * (LIMIT_LINKS + 1));
	CB_TRY(inode_keys(v, ino, KIND_NAME, collect_place, &list, err));
	if (list.size == 0) return CB_OK;
	const place *first = (const place *)(const void *)list.bytes;
	CB_TRY(inode_at(v, first->parent, place_name(first), &out->node, NULL, err));
	out->present = true;
	out->count = list.size / sizeof(place); /* the N keys come sorted by (parent, name) */
	out->places = (place *)(void *)TAKE_PTR(list.bytes);
	return CB_OK;
}

bool merge_places_equal(const unit *a, const unit *b)
{
	if (a->count != b->count) return false;
	for (size_t i = 0; i < a->count; i++)
		if (merge_place_compare(&a->places[i], &b->places[i]) != 0) return false;
	return true;
}

static cb_code stop_at_first(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)key_bytes;
	(void)old_value;
	(void)new_value;
	(void)err;
	*(bool *)context = true;
	return CB_INTERRUPTED;
}

static cb_code keys_differ(const tree_view *a, const tree_view *b, uint8_t kind, uint64_t ino, bool *out, cb_error *err)
{
	key prefix = key_prefix(kind, ino);
	*out = false;
	return tree_diff_prefix(a, b, key_span(&prefix), stop_at_first, out, err);
}

cb_code merge_data_same(merge *m, const tree_view *va, const unit *a, const tree_view *vb, const unit *b, bool *out, cb_error *err)
{
	if (a->node.rec.type != CB_FILE && a->node.rec.type != CB_SYMLINK) {
		*out = true;
		return CB_OK;
	}
	const record *x = &a->node.rec, *y = &b->node.rec;
	if (x->form == DATA_EXTENTS && y->form == DATA_EXTENTS && x->size == y->size) {
		bool differ = false;
		CB_TRY(keys_differ(va, vb, KIND_EXTENT, x->ino, &differ, err));
		*out = !differ;
		if (*out) return CB_OK;
	}
	return data_equal(m->t->cs, va, x, vb, y, out, err);
}

/* Is the inode the same on two sides but for times and version? */
static cb_code unit_same(merge *m, const tree_view *va, const unit *a, const tree_view *vb, const unit *b, bool *out, cb_error *err)
{
	*out = false;
	if (!merge_places_equal(a, b) || a->node.rec.mode != b->node.rec.mode) return CB_OK;
	bool differ = false;
	CB_TRY(keys_differ(va, vb, KIND_ATTR, a->node.rec.ino, &differ, err));
	if (!differ) CB_TRY(keys_differ(va, vb, KIND_TAG, a->node.rec.ino, &differ, err));
	if (differ) return CB_OK;
	return merge_data_same(m, va, a, vb, b, out, err);
}

bool merge_place_in(const unit *u, const place *p)
{
	for (size_t i = 0; i < u->count; i++)
		if (merge_place_compare(&u->places[i], p) == 0) return true;
	return false;
}

bool merge_single_place(const item *it)
{
	return it->base.count <= 1 && it->ours.count == 1 && it->theirs.count == 1;
}

/* ---- finding what theirs changed ---- */

static cb_code add_ino(merge *m, uint64_t ino, cb_error *err)
{
	return ino ? buf_append(&m->inos, &ino, sizeof(ino), err) : CB_OK;
}

static cb_code add_entry_ino(merge *m, span value, cb_error *err)
{
	if (!value.bytes) return CB_OK;
	entry e;
	CB_TRY(entry_decode(value, &e, err));
	return add_ino(m, e.rec.ino, err);
}

/* A key-value merges by itself. */
static cb_code merge_kv(merge *m, span key_bytes, span base, span theirs, cb_error *err)
{
	tree_value now;
	cb_code code = tree_get(m->ours, key_bytes, &now, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	span ours = code == CB_OK ? span_make(now.bytes, now.size) : (span){0};
	bool unchanged = ours.bytes ? base.bytes && span_equal(ours, base) : !base.bytes;
	bool agreed = ours.bytes ? theirs.bytes && span_equal(ours, theirs) : !theirs.bytes;
	if (agreed && !m->conflicts->strict) return CB_OK;
	if (!unchanged) {
		char path[LIMIT_NAME_BYTES + 16];
		(void)snprintf(path, sizeof(path), "key '%.*s'", (int)(key_bytes.size - 1), (const char *)key_bytes.bytes + 1);
		if (merge_decide(m->conflicts, path, "changed on both sides") != CB_PREFER_THEIRS) return CB_OK;
	}
	return theirs.bytes ? pmap_put(&m->t->delta, key_bytes, theirs, err) : pmap_put_tombstone(&m->t->delta, key_bytes, err);
}

static cb_code gather(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	merge *m = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	switch (parts.kind) {
	case KIND_ENTRY:
		CB_TRY(add_entry_ino(m, old_value, err));
		return add_entry_ino(m, new_value, err);
	case KIND_KV:
		return merge_kv(m, key_bytes, old_value, new_value, err);
	case KIND_COUNTERS:
		return CB_OK; /* follows from the operations */
	default:
		return add_ino(m, parts.ino, err);
	}
}

static cb_code items_load(merge *m, cb_error *err)
{
	uint64_t *inos = (uint64_t *)(void *)m->inos.bytes;
	size_t n = m->inos.size / sizeof(uint64_t), unique = 0;
	if (n) qsort(inos, n, sizeof(uint64_t), u64_compare);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || inos[i] != inos[i - 1]) inos[unique++] = inos[i];
	m->items = mem_alloc((unique + 1) * sizeof(item));
	if (!m->items) return cb_err_nomem(err);
	for (size_t i = 0; i < unique; i++) {
		item *it = &m->items[m->count++];
		*it = (item){.ino = inos[i], .into = inos[i]};
		CB_TRY(merge_unit_load(m->base, it->ino, &it->base, err));
		CB_TRY(merge_unit_load(m->ours, it->ino, &it->ours, err));
		CB_TRY(merge_unit_load(m->theirs, it->ino, &it->theirs, err));
	}
	return CB_OK;
}

item *merge_item_find(merge *m, uint64_t ino)
{
	size_t low = 0, high = m->count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (m->items[mid].ino < ino) low = mid + 1;
		else high = mid;
	}
	return low < m->count && m->items[low].ino == ino ? &m->items[low] : NULL;
}

/* ---- deciding ---- */

static cb_code decide_deleted(merge *m, item *it, cb_error *err)
{
	it->fate = FATE_DONE;
	if (!it->ours.present) return CB_OK;
	bool same = false, theirs_wins = true;
	CB_TRY(unit_same(m, m->base, &it->base, m->ours, &it->ours, &same, err));
	if (!same) CB_TRY(merge_conflict_at(m, it, "changed here, deleted there", &theirs_wins, err));
	if (theirs_wins) it->fate = FATE_DELETE;
	return CB_OK;
}

static cb_code decide_gone_here(merge *m, item *it, cb_error *err)
{
	bool same = false, theirs_wins = false;
	it->fate = FATE_DONE;
	CB_TRY(unit_same(m, m->base, &it->base, m->theirs, &it->theirs, &same, err));
	if (same) { /* a folder whose entries changed: they speak for themselves */
		it->into = 0;
		return CB_OK;
	}
	CB_TRY(merge_conflict_at(m, it, "deleted here, changed there", &theirs_wins, err));
	if (theirs_wins) it->fate = FATE_ADD;
	else it->into = 0;
	return CB_OK;
}

static cb_code decide(merge *m, item *it, cb_error *err)
{
	it->fate = FATE_FIELDS;
	if (!it->theirs.present && !it->base.present) it->fate = FATE_DONE;
	else if (!it->theirs.present) return decide_deleted(m, it, err);
	else if (!it->ours.present && it->base.present) return decide_gone_here(m, it, err);
	else if (!it->ours.present) it->fate = FATE_ADD;
	return CB_OK;
}

/* ---- the whole ---- */

static cb_code merge_run(merge *m, cb_error *err)
{
	CB_TRY(tree_diff(m->base, m->theirs, gather, m, err));
	CB_TRY(items_load(m, err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(decide(m, &m->items[i], err));
	CB_TRY(merge_delete_files(m, err));
	CB_TRY(merge_park_moves(m, err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(merge_drop_links(m, &m->items[i], err));
	CB_TRY(merge_delete_empty_dirs(m, err));
	CB_TRY(merge_place_all(m, err));
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].fate == FATE_FIELDS) CB_TRY(merge_fields(m, &m->items[i], err));
	CB_TRY(merge_delete_empty_dirs(m, err));
	return merge_delete_other_dirs(m, err);
}

cb_code merge_states(txn *t, const tree_view *base, const tree_view *ours, const tree_view *theirs, merge_conflicts *conflicts,
                     cb_error *err)
{
	assert(pmap_count(&t->delta) == 0);
	merge m = {.t = t, .base = base, .ours = ours, .theirs = theirs, .conflicts = conflicts, .inos = BUF_INIT(SIZE_MAX)};
	cb_code code = merge_run(&m, err);
	for (size_t i = 0; i < m.count; i++) {
		free(m.items[i].base.places);
		free(m.items[i].ours.places);
		free(m.items[i].theirs.places);
	}
	free(m.items);
	buf_done(&m.inos);
	return code;
}
