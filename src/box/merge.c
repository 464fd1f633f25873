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
#include "box/box.h"
#include "box/text.h"

#include <assert.h>
#include <stdio.h>

typedef struct place {
	uint64_t parent;
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} place;

static span place_name(const place *p)
{
	return span_make(p->name, p->size);
}

/* One inode as one side sees it. */
typedef struct unit {
	bool present;
	inode node;
	place *places; /* sorted by (parent, name) */
	size_t count;
} unit;

typedef enum fate { FATE_FIELDS, FATE_ADD, FATE_DELETE, FATE_DONE } fate;

typedef struct item {
	uint64_t ino;
	unit base, ours, theirs;
	fate fate;
	bool moving;   /* parked; wants theirs' place */
	bool busy;     /* being placed: guards against going round in circles */
	uint64_t into; /* where theirs' inode lives in the result: itself, a united one, or 0 when dropped */
} item;

typedef struct merge {
	txn *t;
	const tree_view *base, *ours, *theirs;
	merge_conflicts *conflicts;
	buf inos;    /* uint64_t, sorted, unique */
	item *items; /* one per ino */
	size_t count;
} merge;

/* ---- conflicts ---- */

static cb_code conflict_note(merge_conflicts *c, const char *path, const char *reason)
{
	if (c->open++ == 0) (void)snprintf(c->first, sizeof(c->first), "%s", path);
	/* A full list just ends; the count tells the rest. */
	return buf_printf(&c->list, NULL, "%s%s (%s)", c->list.size ? ", " : "", path, reason);
}

static cb_prefer conflict_decide(merge_conflicts *c, const char *path, const char *reason)
{
	cb_prefer chosen = CB_PREFER_NONE;
	cb_conflict conflict = {path, reason};
	if (c->options && c->options->resolve) chosen = c->options->resolve(c->options->context, &conflict);
	if (chosen == CB_PREFER_NONE && c->options) chosen = c->options->prefer;
	if (chosen == CB_PREFER_NONE) (void)conflict_note(c, path, reason);
	return chosen;
}

/* *theirs_wins: the caller does what theirs wants. */
static cb_code conflict_at(merge *m, const item *i, const char *reason, bool *theirs_wins, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(1 << 20);
	cb_code code = CB_NOTFOUND;
	if (i->ours.present) code = inode_path(m->ours, i->ino, &path, err);
	if (code == CB_NOTFOUND && i->theirs.present) code = inode_path(m->theirs, i->ino, &path, err);
	if (code == CB_NOTFOUND) code = inode_path(m->base, i->ino, &path, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	*theirs_wins = conflict_decide(m->conflicts, path.size ? (const char *)path.bytes : "?", reason) == CB_PREFER_THEIRS;
	return CB_OK;
}

/* ---- what each side has ---- */

static int place_compare(const void *a, const void *b)
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

static cb_code unit_load(const tree_view *v, uint64_t ino, unit *out, cb_error *err)
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

static bool places_equal(const unit *a, const unit *b)
{
	if (a->count != b->count) return false;
	for (size_t i = 0; i < a->count; i++)
		if (place_compare(&a->places[i], &b->places[i]) != 0) return false;
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

static cb_code data_same(merge *m, const tree_view *va, const unit *a, const tree_view *vb, const unit *b, bool *out, cb_error *err)
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
	if (!places_equal(a, b) || a->node.rec.mode != b->node.rec.mode) return CB_OK;
	bool differ = false;
	CB_TRY(keys_differ(va, vb, KIND_ATTR, a->node.rec.ino, &differ, err));
	if (!differ) CB_TRY(keys_differ(va, vb, KIND_TAG, a->node.rec.ino, &differ, err));
	if (differ) return CB_OK;
	return data_same(m, va, a, vb, b, out, err);
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
		if (conflict_decide(m->conflicts, path, "changed on both sides") != CB_PREFER_THEIRS) return CB_OK;
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
		CB_TRY(unit_load(m->base, it->ino, &it->base, err));
		CB_TRY(unit_load(m->ours, it->ino, &it->ours, err));
		CB_TRY(unit_load(m->theirs, it->ino, &it->theirs, err));
	}
	return CB_OK;
}

static item *item_find(merge *m, uint64_t ino)
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
	if (!same) CB_TRY(conflict_at(m, it, "changed here, deleted there", &theirs_wins, err));
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
	CB_TRY(conflict_at(m, it, "deleted here, changed there", &theirs_wins, err));
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

/* ---- deleting ---- */

static cb_code unlink_all(merge *m, const unit *u, cb_error *err)
{
	for (size_t i = 0; i < u->count; i++) CB_TRY(inode_unlink(m->t, u->places[i].parent, place_name(&u->places[i]), err));
	return CB_OK;
}

static cb_code delete_files(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (it->fate != FATE_DELETE || it->ours.node.rec.type == CB_DIR) continue;
		CB_TRY(unlink_all(m, &it->ours, err));
		it->fate = FATE_DONE;
	}
	return CB_OK;
}

/* Removes the folders that theirs deleted and that are empty by now, again and again, for one may hold the other. */
static cb_code delete_empty_dirs(merge *m, cb_error *err)
{
	for (bool progress = true; progress;) {
		progress = false;
		for (size_t i = m->count; i > 0; i--) {
			item *it = &m->items[i - 1];
			if (it->fate != FATE_DELETE) continue;
			bool empty = false;
			tree_view v = txn_view(m->t);
			inode now;
			cb_code code = inode_find(&v, it->ino, &now, err);
			if (code == CB_NOTFOUND) it->fate = FATE_DONE; /* gave way to something of theirs */
			if (code == CB_NOTFOUND) continue;
			if (code != CB_OK) return code;
			CB_TRY(inode_is_dir_empty(&v, it->ino, &empty, err));
			if (!empty) continue;
			CB_TRY(unlink_all(m, &it->ours, err));
			it->fate = FATE_DONE;
			progress = true;
		}
	}
	return CB_OK;
}

static cb_code delete_other_dirs(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (it->fate != FATE_DELETE) continue;
		it->fate = FATE_DONE;
		tree_view v = txn_view(m->t);
		inode now;
		cb_code code = inode_find(&v, it->ino, &now, err);
		if (code == CB_NOTFOUND) continue; /* went with a folder above it */
		if (code != CB_OK) return code;
		bool theirs_wins = false;
		CB_TRY(conflict_at(m, it, "deleted there, but it holds something here", &theirs_wins, err));
		if (theirs_wins) CB_TRY(tree_remove(m->t, it->ours.places[0].parent, place_name(&it->ours.places[0]), &now, err));
	}
	return CB_OK;
}

/* ---- moving and adding ---- */

/* A name no path can hold. */
static size_t parked_name(uint64_t ino, char out[32])
{
	return (size_t)snprintf(out, 32, "/%llx", (unsigned long long)ino);
}

static bool single_place(const item *it)
{
	return it->base.count <= 1 && it->ours.count == 1 && it->theirs.count == 1;
}

/* Parks what theirs moved and ours left where it was. */
static cb_code park_moves(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (it->fate != FATE_FIELDS || !single_place(it) || places_equal(&it->base, &it->theirs)) continue;
		if (places_equal(&it->ours, &it->theirs)) continue;
		if (!places_equal(&it->base, &it->ours)) {
			bool theirs_wins = false;
			CB_TRY(conflict_at(m, it, "renamed differently on both sides", &theirs_wins, err));
			if (!theirs_wins) continue;
		}
		char name[32];
		size_t size = parked_name(it->ino, name);
		const place *from = &it->ours.places[0];
		CB_TRY(inode_move(m->t, from->parent, place_name(from), INO_ROOT, span_make(name, size), err));
		it->moving = true;
	}
	return CB_OK;
}

static bool place_in(const unit *u, const place *p)
{
	for (size_t i = 0; i < u->count; i++)
		if (place_compare(&u->places[i], p) == 0) return true;
	return false;
}

/* Of a file with several names, those that theirs took away; before anything is placed, so that the names are free. The last one is
 * parked when theirs has the file elsewhere. */
static cb_code drop_links(merge *m, item *it, cb_error *err)
{
	if (it->fate != FATE_FIELDS || single_place(it) || it->ino == INO_ROOT || it->ours.node.rec.type == CB_DIR) return CB_OK;
	for (size_t i = 0; i < it->base.count; i++) {
		const place *at = &it->base.places[i];
		if (place_in(&it->theirs, at) || !place_in(&it->ours, at)) continue;
		tree_view v = txn_view(m->t);
		inode node;
		char name[32];
		size_t size = parked_name(it->ino, name);
		CB_TRY(inode_at(&v, at->parent, place_name(at), &node, NULL, err));
		if (node.rec.links > 1) {
			CB_TRY(inode_unlink(m->t, at->parent, place_name(at), err));
		} else {
			CB_TRY(inode_move(m->t, at->parent, place_name(at), INO_ROOT, span_make(name, size), err));
			it->moving = true;
		}
	}
	return CB_OK;
}

static cb_code place_item(merge *m, item *it, cb_error *err);

/* The folder of the result that stands for theirs' folder `ino`; 0: dropped. */
static cb_code result_dir(merge *m, uint64_t ino, uint64_t *out, cb_error *err)
{
	item *it = item_find(m, ino);
	if (it && (it->fate == FATE_ADD || it->moving) && !it->busy) CB_TRY(place_item(m, it, err));
	*out = it ? it->into : ino;
	if (*out == 0) return CB_OK;
	tree_view v = txn_view(m->t);
	inode node;
	cb_code code = inode_find(&v, *out, &node, err);
	if (code == CB_NOTFOUND || (code == CB_OK && node.rec.type != CB_DIR)) {
		*out = 0;
		return CB_OK;
	}
	return code;
}

typedef struct slot {
	uint64_t parent;
	bool taken;
	inode occupant;
} slot;

static cb_code slot_find(merge *m, uint64_t parent, span name, slot *out, cb_error *err)
{
	*out = (slot){.parent = parent};
	tree_view v = txn_view(m->t);
	cb_code code = inode_at(&v, parent, name, &out->occupant, NULL, err);
	if (code == CB_NOTFOUND) return CB_OK;
	out->taken = code == CB_OK;
	return code;
}

/* Brings back, from theirs, a folder that ours deleted and in which theirs put something. */
static cb_code revive_dir(merge *m, uint64_t ino, uint64_t *out, cb_error *err)
{
	unit u;
	CB_TRY(unit_load(m->theirs, ino, &u, err));
	if (!u.present || u.count != 1) {
		free(u.places);
		*out = 0;
		return CB_OK;
	}
	uint64_t parent = 0;
	cb_code code = result_dir(m, u.places[0].parent, &parent, err);
	if (code == CB_OK && parent == 0) code = revive_dir(m, u.places[0].parent, &parent, err);
	slot s = {0};
	if (code == CB_OK && parent) code = slot_find(m, parent, place_name(&u.places[0]), &s, err);
	inode made;
	*out = s.taken && s.occupant.rec.type == CB_DIR ? s.occupant.rec.ino : 0;
	if (code == CB_OK && parent && !s.taken) {
		code = inode_copy(m->t, m->theirs, &u.node.rec, parent, place_name(&u.places[0]), &made, err);
		*out = made.rec.ino;
	}
	item *it = item_find(m, ino);
	if (code == CB_OK && it) it->into = *out;
	free(u.places);
	return code;
}

/* Where theirs' place leads to in the result. *out 0: nowhere, after a conflict. */
static cb_code result_parent(merge *m, item *it, const place *at, uint64_t *out, cb_error *err)
{
	CB_TRY(result_dir(m, at->parent, out, err));
	if (*out) return CB_OK;
	const item *dir = item_find(m, at->parent);
	if (dir && dir->into == 0 && !dir->base.present)
		return CB_OK; /* a folder added there and dropped: its content goes with it */
	bool theirs_wins = false;
	CB_TRY(conflict_at(m, it, "put there into a folder that is gone here", &theirs_wins, err));
	return theirs_wins ? revive_dir(m, at->parent, out, err) : CB_OK;
}

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
		CB_TRY(conflict_at(u->m, u->it, "an attribute was set differently on both sides", &theirs_wins, err));
	if (same || !theirs_wins) return CB_OK;
	u->changed = true;
	return pmap_put(&u->m->t->delta, key_span(&k), value, err);
}

/* Both sides made it: one inode, ours, with the attributes of both. */
static cb_code unite(merge *m, item *it, const inode *mine, cb_error *err)
{
	uniting u = {m, it, mine->rec.ino, false};
	inode node = *mine;
	bool theirs_wins = false;
	it->into = mine->rec.ino;
	CB_TRY(inode_keys(m->theirs, it->ino, KIND_ATTR, unite_key, &u, err));
	CB_TRY(inode_keys(m->theirs, it->ino, KIND_TAG, unite_key, &u, err));
	if (node.rec.mode != it->theirs.node.rec.mode) CB_TRY(conflict_at(m, it, "made with different modes", &theirs_wins, err));
	if (theirs_wins) node.rec.mode = it->theirs.node.rec.mode;
	if (!u.changed && !theirs_wins) return CB_OK;
	inode_changed(m->t, &node, false);
	return inode_save(m->t, &node, err);
}

/* Somebody sits where theirs wants to put it. *free: the way is clear now. it->into may become the occupant. */
static cb_code settle_occupant(merge *m, item *it, const place *at, const slot *s, bool *clear, cb_error *err)
{
	const record *mine = &s->occupant.rec, *their = &it->theirs.node.rec;
	*clear = false;
	if (it->fate == FATE_ADD && mine->type == their->type) {
		bool same = mine->type == CB_DIR;
		tree_view v = txn_view(m->t);
		if (!same && !m->conflicts->strict) CB_TRY(data_equal(m->t->cs, &v, mine, m->theirs, their, &same, err));
		if (same) return unite(m, it, &s->occupant, err);
	}
	bool theirs_wins = false;
	CB_TRY(conflict_at(m, it, it->fate == FATE_ADD ? "added on both sides" : "its new name is taken here", &theirs_wins, err));
	if (!theirs_wins) {
		if (it->fate == FATE_ADD) it->into = 0;
		return CB_OK;
	}
	*clear = true;
	return tree_remove(m->t, s->parent, place_name(at), &s->occupant, err);
}

/* The inode as theirs has it, under its own number. */
static cb_code add_inode(merge *m, const item *it, uint64_t parent, const place *at, cb_error *err)
{
	inode node = {.rec = it->theirs.node.rec, .where = key_entry(parent, place_name(at))};
	uint64_t size = node.rec.size;
	node.rec.links = 1;
	node.rec.version = 0;
	node.rec.size = 0;
	txn *t = m->t;
	CB_TRY(txn_count(t, 1, 0, err));
	key k = key_name(it->ino, parent, place_name(at));
	tree_value empty;
	empty.size = 0;
	CB_TRY(txn_put(t, &k, &empty, err));
	record source = it->theirs.node.rec;
	source.size = size;
	CB_TRY(inode_copy_into(t, m->theirs, &source, &node, err));
	return inode_touch_dir(t, parent, err);
}

static cb_code add_further_links(merge *m, const item *it, cb_error *err)
{
	for (size_t i = 1; i < it->theirs.count; i++) {
		const place *at = &it->theirs.places[i];
		uint64_t parent = 0;
		slot s;
		CB_TRY(result_dir(m, at->parent, &parent, err));
		if (!parent) continue;
		CB_TRY(slot_find(m, parent, place_name(at), &s, err));
		if (s.taken) continue;
		tree_view v = txn_view(m->t);
		inode node;
		CB_TRY(inode_find(&v, it->ino, &node, err));
		CB_TRY(inode_link(m->t, &node, parent, place_name(at), err));
	}
	return CB_OK;
}

/* Back to where ours had it; under a name that tells, when that was taken meanwhile. */
static cb_code unpark(merge *m, item *it, cb_error *err)
{
	char parked[32], other[32];
	size_t size = parked_name(it->ino, parked);
	const place *home = &it->ours.places[0];
	tree_view v = txn_view(m->t);
	inode dir;
	cb_code found = inode_find(&v, home->parent, &dir, err);
	if (found != CB_OK && found != CB_NOTFOUND) return found;
	uint64_t parent = found == CB_OK ? home->parent : INO_ROOT;
	slot s;
	CB_TRY(slot_find(m, parent, place_name(home), &s, err));
	span name = place_name(home);
	if (s.taken) name = span_make(other, (size_t)snprintf(other, sizeof(other), "conflict-%llx", (unsigned long long)it->ino));
	it->moving = false;
	return inode_move(m->t, INO_ROOT, span_make(parked, size), parent, name, err);
}

/* Would a folder come to lie in itself? */
static cb_code lies_below(merge *m, uint64_t dir, uint64_t ino, bool *out, cb_error *err)
{
	tree_view v = txn_view(m->t);
	uint8_t name[LIMIT_NAME_BYTES];
	size_t size;
	for (unsigned depth = 0; dir != INO_ROOT && dir != ino; depth++) {
		if (depth > LIMIT_TREE_DEPTH * 8)
			return cb_err_set(err, CB_CORRUPT, "folder %llu lies in a cycle: run fsck", (unsigned long long)dir);
		CB_TRY(inode_place(&v, dir, &dir, name, &size, err));
	}
	*out = dir == ino;
	return CB_OK;
}

/* Ours moved a folder above the target into the one that theirs moves there. Theirs wins: that folder goes back to where theirs has it.
 * *clear false: theirs has no such place either. */
static cb_code undo_blocking_move(merge *m, const item *it, uint64_t parent, bool *clear, cb_error *err)
{
	uint64_t blocker = parent, above = parent;
	place at = {0};
	size_t size = 0;
	*clear = false;
	while (above != it->ino) { /* lies_below found it on this way */
		tree_view v = txn_view(m->t);
		blocker = above;
		CB_TRY(inode_place(&v, blocker, &above, at.name, &size, err));
	}
	at.size = (uint8_t)size;
	at.parent = above;
	unit wanted;
	CB_TRY(unit_load(m->theirs, blocker, &wanted, err));
	uint64_t home = 0;
	bool cycle = true;
	slot s = {.taken = true};
	cb_code code = CB_OK;
	if (wanted.count == 1) code = result_dir(m, wanted.places[0].parent, &home, err);
	if (code == CB_OK && home) code = lies_below(m, home, it->ino, &cycle, err);
	if (code == CB_OK && home && !cycle) code = slot_find(m, home, place_name(&wanted.places[0]), &s, err);
	if (code == CB_OK && !s.taken) {
		code = inode_move(m->t, at.parent, place_name(&at), home, place_name(&wanted.places[0]), err);
		*clear = code == CB_OK;
	}
	free(wanted.places);
	return code;
}

static cb_code move_item(merge *m, item *it, uint64_t parent, cb_error *err)
{
	bool cycle = false, theirs_wins = false, clear = true;
	CB_TRY(lies_below(m, parent, it->ino, &cycle, err));
	if (cycle) {
		CB_TRY(conflict_at(m, it, "moved into each other", &theirs_wins, err));
		clear = false;
		if (theirs_wins) CB_TRY(undo_blocking_move(m, it, parent, &clear, err));
	}
	if (!clear) return unpark(m, it, err);
	char name[32];
	size_t size = parked_name(it->ino, name);
	it->moving = false;
	return inode_move(m->t, INO_ROOT, span_make(name, size), parent, place_name(&it->theirs.places[0]), err);
}

/* Puts an added or parked inode where theirs has it. */
static cb_code place_free(merge *m, item *it, cb_error *err)
{
	const place *at = &it->theirs.places[0];
	uint64_t parent = 0;
	CB_TRY(result_parent(m, it, at, &parent, err));
	bool clear = parent != 0;
	if (clear) {
		slot s;
		CB_TRY(slot_find(m, parent, place_name(at), &s, err));
		if (s.taken) CB_TRY(settle_occupant(m, it, at, &s, &clear, err));
	} else if (it->fate == FATE_ADD) {
		it->into = 0;
	}
	if (it->moving) return clear ? move_item(m, it, parent, err) : unpark(m, it, err);
	if (!clear) return CB_OK;
	CB_TRY(add_inode(m, it, parent, at, err));
	return it->theirs.count > 1 ? add_further_links(m, it, err) : CB_OK;
}

static cb_code place_item(merge *m, item *it, cb_error *err)
{
	it->busy = true;
	cb_code code = place_free(m, it, err);
	it->busy = false;
	if (it->fate == FATE_ADD) it->fate = FATE_DONE;
	return code;
}

static cb_code place_all(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (it->fate == FATE_ADD || it->moving) CB_TRY(place_item(m, it, err));
	}
	return CB_OK;
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
	if (!unchanged) CB_TRY(conflict_at(a->m, a->it, "an attribute was changed on both sides", &theirs_wins, err));
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

static cb_code merge_data(merge *m, item *it, inode *node, bool *changed, cb_error *err)
{
	bool theirs_same = false, ours_same = false, agreed = false, merged = false, theirs_wins = true;
	if (it->base.present) {
		CB_TRY(data_same(m, m->base, &it->base, m->theirs, &it->theirs, &theirs_same, err));
		if (!theirs_same) CB_TRY(data_same(m, m->base, &it->base, m->ours, &it->ours, &ours_same, err));
	}
	if (theirs_same) return CB_OK;
	CB_TRY(data_same(m, m->ours, &it->ours, m->theirs, &it->theirs, &agreed, err));
	if (agreed && !m->conflicts->strict) return CB_OK;
	if (!ours_same && !agreed) CB_TRY(merge_text(m, it, node, &merged, err));
	if (!ours_same && !merged) CB_TRY(conflict_at(m, it, "changed on both sides", &theirs_wins, err));
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
	if (ours != base) CB_TRY(conflict_at(m, it, "its mode was changed on both sides", &theirs_wins, err));
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
	if (single_place(it) || it->ino == INO_ROOT || it->ours.node.rec.type == CB_DIR) return CB_OK;
	for (size_t i = 0; i < it->theirs.count; i++) {
		const place *at = &it->theirs.places[i];
		if (place_in(&it->base, at) || place_in(&it->ours, at)) continue;
		uint64_t parent = 0;
		slot s;
		CB_TRY(result_parent(m, it, at, &parent, err));
		if (!parent) continue;
		CB_TRY(slot_find(m, parent, place_name(at), &s, err));
		if (s.taken && s.occupant.rec.ino == it->ino) continue;
		bool clear = !s.taken;
		if (s.taken) CB_TRY(settle_occupant(m, it, at, &s, &clear, err));
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

static cb_code merge_fields(merge *m, item *it, cb_error *err)
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

/* ---- the whole ---- */

static cb_code merge_run(merge *m, cb_error *err)
{
	CB_TRY(tree_diff(m->base, m->theirs, gather, m, err));
	CB_TRY(items_load(m, err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(decide(m, &m->items[i], err));
	CB_TRY(delete_files(m, err));
	CB_TRY(park_moves(m, err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(drop_links(m, &m->items[i], err));
	CB_TRY(delete_empty_dirs(m, err));
	CB_TRY(place_all(m, err));
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].fate == FATE_FIELDS) CB_TRY(merge_fields(m, &m->items[i], err));
	CB_TRY(delete_empty_dirs(m, err));
	return delete_other_dirs(m, err);
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
