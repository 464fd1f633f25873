/*
 * merge_place.c: deletions, moves and additions of a merge.
 *
 * All by the ordinary operations of inode.c on a transaction over ours, so every invariant holds at every moment. What theirs moved is
 * parked at the root under names no path can hold, so that swaps and chains of renames work whatever their order.
 */
#include "box/merge_impl.h"

#include <stdio.h>

/* ---- deleting ---- */

static cb_code unlink_all(merge *m, const unit *u, cb_error *err)
{
	for (size_t i = 0; i < u->count; i++) CB_TRY(inode_unlink(m->t, u->places[i].parent, place_name(&u->places[i]), err));
	return CB_OK;
}

cb_code merge_delete_files(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (it->fate != FATE_DELETE || it->ours.node.rec.type == CB_DIR) continue;
		CB_TRY(unlink_all(m, &it->ours, err));
		it->fate = FATE_DONE;
	}
	return CB_OK;
}

static cb_code delete_if_empty(merge *m, item *it, cb_error *err)
{
	bool empty = false;
	tree_view v = txn_view(m->t);
	inode now;
	cb_code code = inode_find(&v, it->ino, &now, err);
	if (code == CB_NOTFOUND) it->fate = FATE_DONE; /* gave way to something of theirs */
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	CB_TRY(inode_is_dir_empty(&v, it->ino, &empty, err));
	if (!empty) return CB_OK;
	CB_TRY(unlink_all(m, &it->ours, err));
	it->fate = FATE_DONE;
	return CB_OK;
}

/* Removes the folders that theirs deleted and that are empty by now; after each the one that held it, which may be empty only now. */
cb_code merge_delete_empty_dirs(merge *m, cb_error *err)
{
	for (size_t i = m->count; i > 0; i--) {
		item *it = &m->items[i - 1];
		while (it && it->fate == FATE_DELETE) {
			CB_TRY(delete_if_empty(m, it, err));
			if (it->fate != FATE_DONE || it->ours.count == 0) break;
			it = merge_item_find(m, it->ours.places[0].parent);
		}
	}
	return CB_OK;
}

cb_code merge_delete_other_dirs(merge *m, cb_error *err)
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
		CB_TRY(merge_conflict_at(m, it, "deleted there, but it holds something here", &theirs_wins, err));
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

/* Parks what theirs moved and ours left where it was. */
cb_code merge_park_moves(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (it->fate != FATE_FIELDS || !merge_single_place(it) || merge_places_equal(&it->base, &it->theirs)) continue;
		if (merge_places_equal(&it->ours, &it->theirs)) continue;
		if (!merge_places_equal(&it->base, &it->ours)) {
			bool theirs_wins = false;
			CB_TRY(merge_conflict_at(m, it, "renamed differently on both sides", &theirs_wins, err));
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

/* The last name goes: theirs must have given the file a new one, which becomes the first of its places. When each side took away what the
 * other left, that is a conflict. */
static cb_code last_name(merge *m, item *it, bool *away, cb_error *err)
{
	for (size_t i = 0; i < it->theirs.count; i++) {
		if (merge_place_in(&it->base, &it->theirs.places[i])) continue;
		place first = it->theirs.places[0];
		it->theirs.places[0] = it->theirs.places[i];
		it->theirs.places[i] = first;
		return CB_OK;
	}
	return merge_conflict_at(m, it, "each side took away another of its names", away, err);
}

/* Of a file with several names, those that theirs took away; before anything is placed, so that the names are free. The last one is
 * parked when theirs has the file elsewhere. */
cb_code merge_drop_links(merge *m, item *it, cb_error *err)
{
	if (it->fate != FATE_FIELDS || merge_single_place(it) || it->ino == INO_ROOT || it->ours.node.rec.type == CB_DIR)
		return CB_OK;
	for (size_t i = 0; i < it->base.count; i++) {
		const place *at = &it->base.places[i];
		if (merge_place_in(&it->theirs, at) || !merge_place_in(&it->ours, at)) continue;
		tree_view v = txn_view(m->t);
		inode node;
		char name[32];
		size_t size = parked_name(it->ino, name);
		CB_TRY(inode_at(&v, at->parent, place_name(at), &node, NULL, err));
		if (node.rec.links > 1) {
			CB_TRY(inode_unlink(m->t, at->parent, place_name(at), err));
		} else {
			bool away = true;
			CB_TRY(last_name(m, it, &away, err));
			if (!away) continue;
			CB_TRY(inode_move(m->t, at->parent, place_name(at), INO_ROOT, span_make(name, size), err));
			it->moving = true;
		}
	}
	return CB_OK;
}

static cb_code place_item(merge *m, item *it, cb_error *err);

/* Placing one folder may first need another placed that stands in its way, and so on: only where sides moved folders into each other. */
enum { PLACE_NESTING_MAX = 128 };

static bool waits_for_place(const item *it)
{
	return it && (it->fate == FATE_ADD || it->moving) && !it->busy;
}

/* Places an item after the folders above it that wait too, topmost first: folders may be nested deeper than the C stack allows. */
static cb_code place_way(merge *m, item *it, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX);
	cb_code code =
		m->nesting < PLACE_NESTING_MAX ? CB_OK : cb_err_set(err, CB_LIMIT, "too many folders were moved into each other");
	for (; code == CB_OK && waits_for_place(it); it = merge_item_find(m, it->theirs.places[0].parent)) {
		code = buf_append(&way, &it, sizeof(it), err);
		if (code == CB_OK) it->busy = true;
	}
	m->nesting++;
	for (size_t i = way.size / sizeof(it); code == CB_OK && i > 0; i--) {
		memcpy(&it, way.bytes + (i - 1) * sizeof(it), sizeof(it));
		code = place_item(m, it, err);
	}
	m->nesting--;
	return code;
}

/* The folder of the result that stands for theirs' folder `ino`; 0: dropped. */
static cb_code result_dir(merge *m, uint64_t ino, uint64_t *out, cb_error *err)
{
	item *it = merge_item_find(m, ino);
	if (waits_for_place(it)) CB_TRY(place_way(m, it, err));
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

cb_code merge_slot_find(merge *m, uint64_t parent, span name, slot *out, cb_error *err)
{
	*out = (slot){.parent = parent};
	tree_view v = txn_view(m->t);
	cb_code code = inode_at(&v, parent, name, &out->occupant, NULL, err);
	if (code == CB_NOTFOUND) return CB_OK;
	out->taken = code == CB_OK;
	return code;
}

/* One folder of theirs in `parent`, a folder of the result; 0: nowhere. */
static cb_code revive_one(merge *m, uint64_t ino, uint64_t parent, uint64_t *out, cb_error *err)
{
	unit u;
	CB_TRY(merge_unit_load(m->theirs, ino, &u, err));
	if (!u.present || u.count != 1) {
		free(u.places);
		*out = 0;
		return CB_OK;
	}
	cb_code code = CB_OK;
	slot s = {0};
	if (parent) code = merge_slot_find(m, parent, place_name(&u.places[0]), &s, err);
	inode made;
	*out = s.taken && s.occupant.rec.type == CB_DIR ? s.occupant.rec.ino : 0;
	if (code == CB_OK && parent && !s.taken) {
		code = inode_copy(m->t, m->theirs, &u.node.rec, parent, place_name(&u.places[0]), &made, err);
		*out = made.rec.ino;
	}
	item *it = merge_item_find(m, ino);
	if (code == CB_OK && it) it->into = *out;
	free(u.places);
	return code;
}

/* Brings back, from theirs, a folder that ours deleted and in which theirs put something, and those above it that are gone too. */
static cb_code revive_dir(merge *m, uint64_t ino, uint64_t *out, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX);
	uint8_t name[LIMIT_NAME_BYTES];
	size_t size = 0;
	uint64_t parent = 0;
	for (climb up = climb_from(ino); parent == 0;) {
		CB_TRY(buf_append(&way, &up.at, sizeof(up.at), err));
		cb_code code = climb_up(&up, m->theirs, name, &size, err);
		if (code == CB_NOTFOUND) break;
		if (code != CB_OK) return code;
		CB_TRY(result_dir(m, up.at, &parent, err));
	}
	for (size_t i = way.size / sizeof(ino); i > 0; i--) {
		memcpy(&ino, way.bytes + (i - 1) * sizeof(ino), sizeof(ino));
		CB_TRY(revive_one(m, ino, parent, &parent, err));
	}
	*out = parent;
	return CB_OK;
}

/* Where theirs' place leads to in the result. *out 0: nowhere, after a conflict. */
cb_code merge_result_parent(merge *m, item *it, const place *at, uint64_t *out, cb_error *err)
{
	CB_TRY(result_dir(m, at->parent, out, err));
	if (*out) return CB_OK;
	const item *dir = merge_item_find(m, at->parent);
	if (dir && dir->into == 0 && !dir->base.present)
		return CB_OK; /* a folder added there and dropped: its content goes with it */
	bool theirs_wins = false;
	CB_TRY(merge_conflict_at(m, it, "put there into a folder that is gone here", &theirs_wins, err));
	return theirs_wins ? revive_dir(m, at->parent, out, err) : CB_OK;
}

/* Somebody sits where theirs wants to put it. *free: the way is clear now. it->into may become the occupant. */
cb_code merge_settle_occupant(merge *m, item *it, const place *at, const slot *s, bool *clear, cb_error *err)
{
	const record *mine = &s->occupant.rec, *their = &it->theirs.node.rec;
	*clear = false;
	if (it->fate == FATE_ADD && mine->type == their->type) {
		bool same = mine->type == CB_DIR;
		tree_view v = txn_view(m->t);
		if (!same && !m->conflicts->strict) CB_TRY(data_equal(m->t->cs, &v, mine, m->theirs, their, &same, err));
		if (same) return merge_unite(m, it, &s->occupant, err);
	}
	bool theirs_wins = false;
	CB_TRY(merge_conflict_at(m, it, it->fate == FATE_ADD ? "added on both sides" : "its new name is taken here", &theirs_wins,
	                         err));
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
		CB_TRY(merge_slot_find(m, parent, place_name(at), &s, err));
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
	CB_TRY(merge_slot_find(m, parent, place_name(home), &s, err));
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
	climb up = climb_from(dir);
	while (up.at != INO_ROOT && up.at != ino) CB_TRY(climb_up(&up, &v, name, &size, err));
	*out = up.at == ino;
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
	CB_TRY(merge_unit_load(m->theirs, blocker, &wanted, err));
	uint64_t home = 0;
	bool cycle = true;
	slot s = {.taken = true};
	cb_code code = CB_OK;
	if (wanted.count == 1) code = result_dir(m, wanted.places[0].parent, &home, err);
	if (code == CB_OK && home) code = lies_below(m, home, it->ino, &cycle, err);
	if (code == CB_OK && home && !cycle) code = merge_slot_find(m, home, place_name(&wanted.places[0]), &s, err);
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
		CB_TRY(merge_conflict_at(m, it, "moved into each other", &theirs_wins, err));
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
	CB_TRY(merge_result_parent(m, it, at, &parent, err));
	bool clear = parent != 0;
	if (clear) {
		slot s;
		CB_TRY(merge_slot_find(m, parent, place_name(at), &s, err));
		if (s.taken) CB_TRY(merge_settle_occupant(m, it, at, &s, &clear, err));
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

cb_code merge_place_all(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (waits_for_place(it)) CB_TRY(place_way(m, it, err));
	}
	return CB_OK;
}
