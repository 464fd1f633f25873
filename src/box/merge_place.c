/*
 * merge_place.c: deletions, moves and additions of a merge.
 *
 * All by the ordinary operations of inode.c on a transaction over ours, so every invariant holds at every moment. What theirs moved is
 * parked at the root under names no path can hold, so that swaps and chains of renames work whatever their order.
 */
#include "box/merge.h"

static cb_code slot_find(merge *m, uint64_t parent, span name, slot *out, cb_error *err)
{
	*out = (slot){.parent = parent};
	tree_view v = txn_raw(m->t);
	cb_code code = inode_at(&v, parent, name, &out->occupant, NULL, err);
	if (code == CB_NOTFOUND) return CB_OK;
	out->taken = code == CB_OK;
	return code;
}

/* ---- deleting ---- */

static cb_code unlink_all(merge *m, const unit *u, cb_error *err)
{
	for (size_t i = 0; i < u->count; i++) CB_TRY(inode_unlink(m->t, u->places[i].parent, place_name(&u->places[i]), err));
	return CB_OK;
}

/* Does a file that theirs made stand for itself alone? Then it is compared with the base's under each of its names (compare_with_old). One
 * in dispute may be old, and is decided about as a whole. */
static bool is_compared(const merge *m, const item *made)
{
	return made && made->fate == FATE_ADD && !made->base.present && made->theirs.node.rec.type == CB_FILE &&
	       !merge_disputes_ino(m->disputed, merge_ino_there(made));
}

/* A file that ours put aside, and theirs replaced: of the names it still had, those that theirs took away or replaced too. What ours did
 * not change goes, whatever theirs has in its place: place_aside says the same from the other side. Of one that theirs took away, and that
 * stays with a folder of ours, only the names under which theirs has new files: merge_successors says the same. */
static cb_code delete_aside(merge *m, item *it, cb_error *err)
{
	bool same = false;
	CB_TRY(merge_holds_as_before(m, it, true, &same, err));
	for (size_t i = 0; i < it->ours.count; i++) {
		const place *at = &it->ours.places[i];
		inode node;
		bool theirs_wins = true;
		if (!merge_place_in(&it->base, at)) continue;
		cb_code code = inode_at(m->theirs, at->parent, place_name(at), &node, NULL, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		bool renewed =
			code == CB_OK && it->base.node.rec.type == CB_FILE && is_compared(m, merge_item_find(m, node.rec.ino));
		if (!renewed && it->settled == SETTLED_OURS) continue; /* what theirs had moved there goes back */
		if (code == CB_OK && !renewed && !same) continue; /* something of theirs, which meets this one when it is placed */
		if (!same && !renewed) CB_TRY(merge_conflict_where(m, it, "changed here, deleted there", &theirs_wins, err));
		if (theirs_wins) CB_TRY(inode_unlink(m->t, at->parent, place_name(at), err));
		else CB_TRY(merge_keep(m, merge_ino_here(it), err));
	}
	return CB_OK;
}

cb_code merge_delete_files(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		bool kept = it->settled == SETTLED_OURS && !it->theirs.present && it->base.present && !it->disputed;
		if ((it->aside || kept) && it->ours.present) CB_TRY(delete_aside(m, it, err));
		if (it->fate != FATE_DELETE || it->ours.node.rec.type == CB_DIR) continue;
		CB_TRY(unlink_all(m, &it->ours, err));
		it->fate = FATE_DONE;
	}
	return CB_OK;
}

static cb_code delete_if_empty(merge *m, item *it, cb_error *err)
{
	bool empty = false;
	tree_view v = txn_raw(m->t);
	inode now;
	cb_code code = inode_find(&v, merge_ino_here(it), &now, err);
	if (code == CB_NOTFOUND) it->fate = FATE_DONE; /* gave way to something of theirs */
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	CB_TRY(inode_is_dir_empty(&v, now.rec.ino, &empty, err));
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
		tree_view v = txn_raw(m->t);
		inode now;
		cb_code code = inode_find(&v, merge_ino_here(it), &now, err);
		if (code == CB_NOTFOUND) continue; /* went with a folder above it */
		if (code != CB_OK) return code;
		bool theirs_wins = false, decided = false;
		CB_TRY(merge_holds_kept(m, now.rec.ino, &decided, err));
		if (decided) continue;
		CB_TRY(merge_conflict_where(m, it, "deleted there, but it holds something here", &theirs_wins, err));
		if (theirs_wins) CB_TRY(merge_give_way(m, it->ours.places[0].parent, place_name(&it->ours.places[0]), &now, err));
		else CB_TRY(merge_keep(m, now.rec.ino, err));
	}
	return CB_OK;
}

/* ---- moving and adding ---- */

/* Parks what theirs moved and ours left where it was. */
cb_code merge_park_moves(merge *m, cb_error *err)
{
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		if (it->fate != FATE_FIELDS || !merge_single_place(it) || merge_places_equal(&it->base, &it->theirs)) continue;
		bool theirs_wins = false, alike = merge_places_equal(&it->ours, &it->theirs);
		if (alike && !merge_is_strict(m)) continue;
		if (!merge_places_equal(&it->base, &it->ours)) {
			CB_TRY(merge_conflict_where(m, it, alike ? "renamed on both sides" : "renamed differently on both sides",
			                            &theirs_wins, err));
			if (!alike) CB_TRY(merge_settle_covered(m, it, theirs_wins, err));
			if (!theirs_wins || alike) continue;
		}
		char name[32];
		size_t size = merge_parked_name(merge_ino_here(it), name);
		const place *from = &it->ours.places[0];
		CB_TRY(inode_move(m->t, from->parent, place_name(from), INO_ROOT, span_make(name, size), err));
		it->moving = it->parked = true;
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
		it->theirs.unsorted = true;
		return CB_OK;
	}
	CB_TRY(merge_conflict_where(m, it, "each side took away another of its names", away, err));
	return m->left ? CB_OK : merge_settle(m, it->ino, *away ? SETTLED_THEIRS : SETTLED_OURS, err);
}

static bool has_set_of_names(const item *it)
{
	return it->fate == FATE_FIELDS && !merge_single_place(it) && it->ino != INO_ROOT && it->ours.node.rec.type != CB_DIR;
}

/* A name of a file that both sides took away, where theirs has something else by now: will that be told when it is placed? It meets what
 * ours has there, but folders unite; and a new file is compared with the old one. */
static cb_code is_told_later(merge *m, const place *at, const inode *there, bool *out, cb_error *err)
{
	inode here;
	*out = is_compared(m, merge_item_find(m, there->rec.ino));
	if (*out) return CB_OK;
	cb_code code = inode_at(m->ours, at->parent, place_name(at), &here, NULL, err);
	*out = code == CB_OK && !(here.rec.type == CB_DIR && there->rec.type == CB_DIR);
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* Theirs took away a name under which ours does not have the file any more: nothing, or a new file in its place. */
static cb_code drop_successor(merge *m, item *it, const place *at, bool *theirs_wins, cb_error *err)
{
	uint64_t ino = 0;
	inode node;
	bool same = false, gone = !it->ours.present && !it->theirs.present, told = gone; /* it was decided as a whole */
	cb_code code = inode_at(m->theirs, at->parent, place_name(at), &node, NULL, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	if (code == CB_OK) {
		if (!told) CB_TRY(is_told_later(m, at, &node, &told, err));
	} else if (it->base.node.rec.type == CB_FILE) {
		CB_TRY(merge_new_file_here(m, at, &ino, err)); /* as compare_with_old has it */
	}
	if (!ino && gone && it->settled != SETTLED_NOT) return merge_settle_empty(m, at, it->settled == SETTLED_THEIRS, err);
	if (!ino && (told || !merge_is_strict(m))) return CB_OK;
	if (!ino) return merge_settle_lost_name(m, it, at, theirs_wins, err);
	CB_TRY(inode_find(m->ours, ino, &node, err));
	CB_TRY(merge_is_renewed_alike(m, &it->base.node.rec, m->ours, &node.rec, &same, err));
	*theirs_wins = true;
	if (!same || merge_is_strict(m))
		CB_TRY(merge_conflict_name(m, it, ino, at, "changed here, deleted there", theirs_wins, err));
	if (!*theirs_wins) return merge_keep(m, ino, err);
	slot s;
	CB_TRY(slot_find(m, at->parent, place_name(at), &s, err));
	return s.taken && s.occupant.rec.ino == ino ? inode_unlink(m->t, at->parent, place_name(at), err) : CB_OK;
}

/* Theirs has it no more, nor a new file for it. Or theirs put it aside, and ours has it no more. It was decided as a whole, but not about
 * each of its names. */
static bool has_names_left(const item *it)
{
	bool folder = it->base.node.rec.type == CB_DIR && (it->ours.present || it->settled == SETTLED_NOT);
	return (it->aside || !it->theirs.present) && it->base.present && !it->disputed && !folder;
}

/* Of a file with several names, those that theirs took away; before anything is placed, so that the names are free. The last one is
 * parked when theirs has the file elsewhere. */
cb_code merge_drop_links(merge *m, item *it, cb_error *err)
{
	bool set = has_set_of_names(it), moved = it->fate == FATE_FIELDS && it->base.present && it->base.node.rec.type != CB_DIR;
	if (!set && !moved && !has_names_left(it)) return CB_OK;
	const unit *old = merge_old_names(it);
	for (size_t i = 0; i < old->count; i++) {
		const place *at = &old->places[i];
		bool theirs_wins = false;
		if (!merge_place_in(&it->theirs, at) && !merge_place_in(&it->ours, at))
			CB_TRY(drop_successor(m, it, at, &theirs_wins, err));
	}
	for (size_t i = 0; set && i < it->base.count; i++) {
		const place *at = &it->base.places[i];
		if (merge_place_in(&it->theirs, at) || !merge_place_in(&it->ours, at)) continue;
		tree_view v = txn_raw(m->t);
		inode node;
		char name[32];
		size_t size = merge_parked_name(merge_ino_here(it), name);
		CB_TRY(inode_at(&v, at->parent, place_name(at), &node, NULL, err));
		if (node.rec.links > 1) {
			CB_TRY(inode_unlink(m->t, at->parent, place_name(at), err));
		} else {
			bool away = true;
			CB_TRY(last_name(m, it, &away, err));
			if (!away) continue;
			CB_TRY(inode_move(m->t, at->parent, place_name(at), INO_ROOT, span_make(name, size), err));
			it->moving = it->parked = true;
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

/* Where it is decided about theirs' folder `ino`; NULL: theirs did not change it. */
static item *item_of_dir(merge *m, uint64_t ino)
{
	item *it = merge_item_find(m, ino);
	return it && it->stands_for ? merge_item_find(m, it->stands_for) : it;
}

cb_code merge_result_dir(merge *m, uint64_t ino, uint64_t *out, cb_error *err)
{
	item *it = item_of_dir(m, ino);
	if (waits_for_place(it)) CB_TRY(place_way(m, it, err));
	*out = it ? it->into : ino;
	if (*out == 0) return CB_OK;
	tree_view v = txn_raw(m->t);
	inode node;
	cb_code code = inode_find(&v, *out, &node, err);
	if (code == CB_NOTFOUND || (code == CB_OK && node.rec.type != CB_DIR)) {
		*out = 0;
		return CB_OK;
	}
	return code;
}

/* The inode as theirs has it, under its own number. */
static cb_code add_inode(merge *m, const record *their, uint64_t parent, span name, cb_error *err)
{
	inode node = {.rec = *their, .where = key_entry(parent, name)};
	txn *t = m->t;
	node.rec.links = 1;
	node.rec.version = 0;
	node.rec.size = 0;
	CB_TRY(txn_count(t, 1, 0, err));
	key k = key_name(node.rec.ino, parent, name);
	tree_value empty;
	empty.size = 0;
	CB_TRY(txn_put(t, &k, &empty, err));
	CB_TRY(inode_copy_into(t, m->theirs, their, &node, err));
	return inode_touch_dir(t, parent, err);
}

/* Does the base not know it? */
static cb_code is_new_here(const merge *m, uint64_t ino, bool *out, cb_error *err)
{
	inode node;
	cb_code code = inode_find(m->base, ino, &node, err);
	*out = code == CB_NOTFOUND;
	return *out ? CB_OK : code;
}

/* One folder of theirs in `parent`, a folder of the result; 0: nowhere. theirs_wins: what is no folder gives way. */
static cb_code revive_one(merge *m, uint64_t ino, uint64_t parent, bool theirs_wins, uint64_t *out, cb_error *err)
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
	if (parent) code = slot_find(m, parent, place_name(&u.places[0]), &s, err);
	bool fits = s.taken && s.occupant.rec.type == CB_DIR;
	if (code == CB_OK && fits) code = is_new_here(m, s.occupant.rec.ino, &fits, err);
	bool yields = theirs_wins && s.taken && !fits;
	if (code == CB_OK && yields && merge_stays(m, s.occupant.rec.ino)) {
		code = merge_contradicts_name(m, &u.places[0], err);
	} else if (code == CB_OK && yields) {
		code = merge_give_way(m, parent, place_name(&u.places[0]), &s.occupant, err);
		s.taken = false;
	}
	*out = s.taken && fits ? s.occupant.rec.ino : 0;
	if (code == CB_OK && parent && !s.taken) {
		code = add_inode(m, &u.node.rec, parent, place_name(&u.places[0]), err);
		*out = ino;
	}
	item *it = merge_item_find(m, ino);
	if (code == CB_OK && it) it->into = *out;
	free(u.places);
	return code;
}

/* Brings back, from theirs, a folder that ours deleted and in which theirs put something, and those above it that are gone too. */
static cb_code revive_dir(merge *m, uint64_t ino, bool theirs_wins, uint64_t *out, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX);
	uint64_t parent = 0;
	for (climb up = climb_from(ino); parent == 0;) {
		CB_TRY(buf_append(&way, &up.at, sizeof(up.at), err));
		cb_code code = climb_up(&up, m->theirs, NULL, err);
		if (code == CB_NOTFOUND) break;
		if (code != CB_OK) return code;
		CB_TRY(merge_result_dir(m, up.at, &parent, err));
	}
	for (size_t i = way.size / sizeof(ino); i > 0; i--) {
		memcpy(&ino, way.bytes + (i - 1) * sizeof(ino), sizeof(ino));
		CB_TRY(revive_one(m, ino, parent, theirs_wins, &parent, err));
	}
	*out = parent;
	return CB_OK;
}

/* Where theirs' place leads to in the result. *out 0: nowhere, after a conflict. */
static cb_code result_parent(merge *m, item *it, const place *at, uint64_t *out, cb_error *err)
{
	CB_TRY(merge_result_dir(m, at->parent, out, err));
	if (*out) return CB_OK;
	const item *dir = item_of_dir(m, at->parent);
	if (dir && dir->into == 0 && (!dir->base.present || dir->base.node.rec.type != CB_DIR))
		return CB_OK; /* a folder added there and dropped: its content goes with it */
	bool theirs_wins = false;
	/* All its names come back, as all of them stay where it is kept (merge_holds_kept); unless something is in the folder's place. */
	if (it->brought) CB_TRY(revive_dir(m, at->parent, false, out, err));
	if (*out) return CB_OK;
	CB_TRY(merge_conflict_name(m, it, 0, at, "put there into a folder that is gone here", &theirs_wins, err));
	if (it->settled == SETTLED_THEIRS && !theirs_wins) CB_TRY(merge_contradicts_name(m, at, err));
	return merge_brings(m, theirs_wins) ? revive_dir(m, at->parent, theirs_wins, out, err) : CB_OK;
}

/* ---- a name that is taken ---- */

/* Somebody sits where theirs wants to put it. *clear: the way is free now. it->into may become the occupant. */
static cb_code settle_occupant(merge *m, item *it, const place *at, slot *s, bool *clear, cb_error *err)
{
	const record *mine = &s->occupant.rec, *their = &it->theirs.node.rec;
	*clear = false;
	if (it->fate == FATE_ADD && mine->type == their->type) {
		bool same = false, merged = false;
		tree_view v = txn_raw(m->t);
		bool made = false; /* on both sides: what was moved here is itself, and does not unite */
		CB_TRY(is_new_here(m, mine->ino, &made, err));
		if (made) CB_TRY(is_new_here(m, their->ino, &made, err)); /* one in dispute may be old */
		made = made && !it->base.present;
		bool disputed = it->disputed || merge_disputes_ino(m->disputed, mine->ino) || merge_disputes_name(m->disputed, at);
		CB_TRY(merge_successors(m, it, at, &s->occupant, &merged, err));
		if (merged) return merge_note_number(m, mine->ino, their->ino, err);
		if (mine->type == CB_DIR) same = made && !disputed; /* one that is goes or stays as a whole */
		else if (made && !merge_is_strict(m)) CB_TRY(merge_data_same(m, &v, mine, m->theirs, their, &same, err));
		bool cross = false;
		if (same && mine->type == CB_FILE) CB_TRY(merge_new_files_cross(m, it, mine->ino, &cross, err));
		if (same && !cross) return merge_unite(m, it, &s->occupant, err);
	}
	bool theirs_wins = false;
	uint64_t occupant = mine->ino;
	if (it->fate == FATE_ADD) CB_TRY(merge_conflict_name(m, it, occupant, at, "added on both sides", &theirs_wins, err));
	else CB_TRY(merge_conflict_name(m, it, occupant, at, "its new name is taken here", &theirs_wins, err));
	if (theirs_wins ? merge_stays(m, occupant) : it->settled == SETTLED_THEIRS) return merge_contradicts_name(m, at, err);
	if (!theirs_wins) return CB_OK;
	*clear = true;
	return merge_give_way(m, s->parent, place_name(at), &s->occupant, err);
}

/* ---- adding ---- */

/*
 * Theirs puts a new file where the base had another, which lives on elsewhere (a file with several names, of which one was saved by
 * rename; or one that was moved aside as a backup). What ours did to the file under this name must not get lost with it.
 * *has: ours has it there, and what it changed of it goes into the new file once it is placed; *text: that of its data, by lines. *drop:
 * ours took the name away, and theirs' file is as the old one was.
 */
static cb_code compare_with_old(merge *m, item *it, const place *at, inode *old, inode *here, bool *has, bool *text, bool *drop,
                                cb_error *err)
{
	bool had = false, same = false, theirs_wins = true;
	*has = *text = *drop = false;
	if (!is_compared(m, it)) return CB_OK;
	CB_TRY(merge_file_at(m->base, at, old, &had, err));
	/* Where the base has a file in dispute is only what one of the common pasts says. */
	if (!had || old->rec.ino == merge_ino_there(it) || merge_disputes_ino(m->disputed, old->rec.ino)) return CB_OK;
	CB_TRY(merge_file_at(m->ours, at, here, has, err));
	/* Somebody else sits there: settle_occupant. Or theirs' is the file that a step had covered with this one: it comes back as it was,
	 * and what was done to this one since goes with it to its old name. */
	if (*has && (here->rec.ino != old->rec.ino || m->back)) {
		*has = false;
		return CB_OK;
	}
	if (*has) {
		CB_TRY(merge_data_same(m, m->base, &old->rec, m->ours, &here->rec, &same, err));
		*text = !same;
		return CB_OK;
	}
	inode other;
	cb_code code = inode_at(m->ours, at->parent, place_name(at), &other, NULL, err);
	if (code != CB_NOTFOUND) return code; /* something else sits there: the same */
	CB_TRY(merge_is_renewed_alike(m, &old->rec, m->theirs, &it->theirs.node.rec, &same, err));
	bool renewed = merge_is_strict(m); /* also an equal one was put there by somebody who relies on it */
	if (!same || renewed)
		CB_TRY(merge_conflict_name(m, it, old->rec.ino, at, "deleted here, changed there", &theirs_wins, err));
	*drop = (same && !renewed) || !merge_brings(m, theirs_wins);
	return CB_OK;
}

/* After it was placed: by lines, or a conflict; theirs wins: as it is; ours: ours' text. As it is by now, since it may have come in the
 * place of several. */
static cb_code merge_with_old(merge *m, item *it, const place *at, const inode *old, const inode *here, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	inode node;
	bool done = false, changed = false, theirs_wins = true, agreed = false;
	cb_code code = inode_find(&v, it->into, &node, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code; /* as in link_result */
	record their = node.rec;
	merge_texts x = {m->base, m->ours, &v, &old->rec, &here->rec, &their};
	CB_TRY(merge_data_same(m, m->ours, &here->rec, &v, &their, &agreed, err));
	if (agreed && !merge_is_strict(m)) return CB_OK;
	if (!agreed) CB_TRY(merge_text(m, &x, &node, &done, &changed, err));
	if (!done) {
		bool kept = true;
		CB_TRY(merge_conflict_under(m, it, old->rec.ino, at, "changed on both sides", &theirs_wins, err));
		CB_TRY(merge_settle_data(m, it->into, theirs_wins, &kept, err));
		if (!kept) CB_TRY(merge_contradicts_name(m, at, err));
	}
	if (!done && theirs_wins) return CB_OK;
	if (!done) {
		CB_TRY(data_drop(m->t, &node, err));
		CB_TRY(inode_copy_data(m->t, m->ours, &here->rec, &node, err));
		node.rec.mode = their.mode;
		node.rec.mtime_ns = here->rec.mtime_ns;
	}
	inode_changed(m->t, &node, false);
	return inode_save(m->t, &node, err);
}

/* A further name for what theirs' inode became in the result. */
static cb_code link_result(merge *m, const item *it, uint64_t parent, const place *at, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	inode node;
	cb_code code = inode_find(&v, it->into, &node, err);
	if (code == CB_NOTFOUND) return CB_OK; /* its last name gave way just now, in a conflict that theirs won */
	if (code != CB_OK) return code;
	return inode_link(m->t, &node, parent, place_name(at), err);
}

/* Theirs' name is not given. If it was the new one of a renamed file, that keeps its old names: half a rename is none. */
static cb_code refuse_name(merge *m, const item *it, cb_error *err)
{
	bool renamed = it->fate == FATE_FIELDS && merge_took_away(&it->base, &it->theirs);
	return renamed && !m->left ? merge_settle(m, it->ino, SETTLED_OURS, err) : CB_OK;
}

/* One name of what theirs added, or further names of what ours has too. */
static cb_code place_name_at(merge *m, item *it, const place *at, bool *exists, cb_error *err)
{
	uint64_t parent = 0;
	slot s;
	inode old, here;
	bool has = false, text = false, drop = false, clear = true;
	CB_TRY(compare_with_old(m, it, at, &old, &here, &has, &text, &drop, err));
	if (drop) return CB_OK;
	CB_TRY(result_parent(m, it, at, &parent, err));
	if (!parent) return refuse_name(m, it, err);
	CB_TRY(slot_find(m, parent, place_name(at), &s, err));
	if (s.taken && *exists && s.occupant.rec.ino == it->into) return CB_OK;
	if (s.taken) {
		uint64_t into = it->into;
		it->into = 0;
		CB_TRY(settle_occupant(m, it, at, &s, &clear, err));
		bool united = it->into != 0;
		if (!united || *exists) it->into = into; /* one that exists already is not given up for a second */
		*exists = *exists || united;
	}
	if (!clear) return refuse_name(m, it, err);
	if (*exists) CB_TRY(link_result(m, it, parent, at, err));
	else CB_TRY(add_inode(m, &it->theirs.node.rec, parent, place_name(at), err));
	if (!*exists) it->into = merge_ino_there(it);
	*exists = true;
	if (text) CB_TRY(merge_with_old(m, it, at, &old, &here, err));
	return has ? merge_carry_fields(m, it, at, &old, &here, err) : CB_OK;
}

/* Who is in the result where theirs has a name of a file; *found false: nobody, or nothing of its type. */
static cb_code find_rival_at(merge *m, const item *it, const place *at, slot *out, bool *found, cb_error *err)
{
	uint64_t parent = 0;
	*found = false;
	CB_TRY(merge_result_dir(m, at->parent, &parent, err));
	if (!parent) return CB_OK;
	CB_TRY(slot_find(m, parent, place_name(at), out, err));
	*found = out->taken && out->occupant.rec.type == it->theirs.node.rec.type;
	return CB_OK;
}

/* Where theirs' new file equals one of ours under the same name, the two are one: that name goes first, the others become names of ours. So
 * where both stand for the same file of the base, and have their lines joined: *exists, it is done. */
static cb_code find_twin(merge *m, item *it, size_t *out, bool *exists, cb_error *err)
{
	slot s;
	bool found = false, same = false;
	*out = 0;
	for (size_t i = 0; it->theirs.count > 1 && !merge_is_strict(m) && i < it->theirs.count; i++) {
		CB_TRY(find_rival_at(m, it, &it->theirs.places[i], &s, &found, err));
		if (!found) continue;
		tree_view v = txn_raw(m->t);
		CB_TRY(merge_data_same(m, &v, &s.occupant.rec, m->theirs, &it->theirs.node.rec, &same, err));
		bool cross = false;
		if (same && it->theirs.node.rec.type == CB_FILE)
			CB_TRY(merge_new_files_cross(m, it, s.occupant.rec.ino, &cross, err));
		if (!same || cross) continue;
		*out = i;
		return CB_OK;
	}
	for (size_t i = 0; is_compared(m, it) && it->theirs.count > 1 && !*exists && i < it->theirs.count; i++) {
		CB_TRY(find_rival_at(m, it, &it->theirs.places[i], &s, &found, err));
		if (found) CB_TRY(merge_successors(m, it, &it->theirs.places[i], &s.occupant, exists, err));
	}
	return CB_OK;
}

/* A name of a file that theirs put aside, and ours replaced: theirs kept the name, ours took it away, or has a new file there, which gets
 * what theirs changed (merge_successors_here). */
static cb_code place_aside(merge *m, item *it, const place *at, bool *exists, cb_error *err)
{
	bool same = false, theirs_wins = false;
	uint64_t made = 0;
	CB_TRY(merge_new_file_here(m, at, &made, err));
	if (made) return CB_OK;
	if (it->settled == SETTLED_THEIRS) return place_name_at(m, it, at, exists, err);
	CB_TRY(merge_holds_as_before(m, it, false, &same, err));
	if (same) return CB_OK;
	CB_TRY(merge_conflict_name(m, it, 0, at, "deleted here, changed there", &theirs_wins, err));
	return merge_brings(m, theirs_wins) ? place_name_at(m, it, at, exists, err) : CB_OK;
}

/* Every name of what theirs added. One that finds no place was in a conflict, or in a folder that was dropped as a whole. */
static cb_code add_item(merge *m, item *it, cb_error *err)
{
	size_t first = 0;
	bool exists = false;
	if (it->aside) {
		for (size_t i = 0; i < it->theirs.count; i++) {
			const place *at = &it->theirs.places[i];
			if (merge_place_in(&it->base, at)) CB_TRY(place_aside(m, it, at, &exists, err));
			else CB_TRY(place_name_at(m, it, at, &exists, err));
		}
		if (!exists) it->into = 0;
		return CB_OK;
	}
	CB_TRY(find_twin(m, it, &first, &exists, err));
	CB_TRY(place_name_at(m, it, &it->theirs.places[first], &exists, err));
	for (size_t i = 0; i < it->theirs.count; i++)
		if (i != first) CB_TRY(place_name_at(m, it, &it->theirs.places[i], &exists, err));
	if (!exists) it->into = 0;
	return merge_note_number(m, it->into, merge_ino_there(it), err);
}

/*
 * Both sides gave it this name, which the base does not have. Where the two are new files, they are one under the base's name only:
 * different ones conflict here. (A new file and the old one are one under every name: it was saved, as if in place.) Theirs wins: its file
 * is a file of its own under such names, *own, which is 0 before the first.
 */
static cb_code settle_common_name(merge *m, item *it, const place *at, uint64_t *own, cb_error *err)
{
	bool one = !(it->replaced_here && it->replaced_there), same = one, theirs_wins = false;
	if (!one) CB_TRY(merge_data_same(m, m->ours, &it->ours.node.rec, m->theirs, &it->theirs.node.rec, &same, err));
	if (same && !merge_is_strict(m)) return CB_OK;
	if (one) {
		CB_TRY(merge_conflict_name(m, it, 0, at, "given a name on both sides", &theirs_wins, err));
		bool renamed = merge_took_away(&it->base, theirs_wins ? &it->ours : &it->theirs); /* half a rename is none */
		if (!renamed || m->left) return CB_OK;
		return merge_settle(m, it->ino, theirs_wins ? SETTLED_THEIRS : SETTLED_OURS, err);
	}
	CB_TRY(merge_conflict_name(m, it, 0, at, "added on both sides", &theirs_wins, err));
	slot s;
	inode made;
	CB_TRY(slot_find(m, at->parent, place_name(at), &s, err));
	if (same || !theirs_wins || !s.taken || s.occupant.rec.ino != merge_ino_here(it)) return CB_OK;
	CB_TRY(inode_unlink(m->t, at->parent, place_name(at), err));
	tree_view v = txn_raw(m->t);
	if (*own) CB_TRY(inode_find(&v, *own, &made, err));
	if (*own) return inode_link(m->t, &made, at->parent, place_name(at), err);
	CB_TRY(inode_copy(m->t, m->theirs, &it->theirs.node.rec, at->parent, place_name(at), &made, err));
	*own = made.rec.ino;
	if (s.occupant.rec.links == 1) it->into = *own; /* it was the last name of ours' */
	return CB_OK;
}

cb_code merge_add_links(merge *m, item *it, cb_error *err)
{
	uint64_t own = 0;
	if (!has_set_of_names(it)) return CB_OK;
	for (size_t i = 0; i < it->theirs.count; i++) {
		const place *at = &it->theirs.places[i];
		bool exists = true;
		if (merge_place_in(&it->base, at)) continue;
		if (merge_place_in(&it->ours, at)) CB_TRY(settle_common_name(m, it, at, &own, err));
		else CB_TRY(place_name_at(m, it, at, &exists, err));
	}
	return CB_OK;
}

/* ---- moving ---- */

/* Back to where ours had it: whoever of theirs has come there meanwhile meets it in the next pass, and so does a folder of theirs that took
 * ours' place along to below it. It has no place left when what was settled before drove it from ours'. */
static cb_code unpark(merge *m, item *it, cb_error *err)
{
	char parked[32];
	size_t size = merge_parked_name(merge_ino_here(it), parked);
	const place *home = &it->ours.places[0];
	tree_view v = txn_raw(m->t);
	inode node;
	slot s = {.taken = true};
	it->moving = false;
	cb_code code = inode_find(&v, home->parent, &node, err);
	if (code == CB_OK) code = merge_lies_below(m, home->parent, merge_ino_here(it), &s.taken, err);
	if (code == CB_OK && !s.taken) code = slot_find(m, home->parent, place_name(home), &s, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	bool known = it->settled != SETTLED_NOT;
	if (!known && s.taken) return merge_settle(m, it->ino, SETTLED_OURS, err);
	if (!known) CB_TRY(merge_settle_covered(m, it, false, err));
	if (!known) it->settled = SETTLED_OURS;
	if (!s.taken) return inode_move(m->t, INO_ROOT, span_make(parked, size), home->parent, place_name(home), err);
	CB_TRY(inode_find(&v, merge_ino_here(it), &node, err));
	m->gave_way = true;
	return tree_remove(m->t, INO_ROOT, span_make(parked, size), &node, err);
}

static cb_code move_item(merge *m, item *it, uint64_t parent, cb_error *err)
{
	bool cycle = false, theirs_wins = false;
	it->moving = false;
	CB_TRY(merge_lies_below(m, parent, merge_ino_here(it), &cycle, err));
	it->waits_to_last = cycle && !m->last;
	if (it->waits_to_last) return CB_OK; /* parked */
	if (cycle) {
		CB_TRY(merge_conflict_where(m, it, "moved into each other", &theirs_wins, err));
		if (!m->left) CB_TRY(merge_settle_between(m, it, parent, theirs_wins, err));
		if (!theirs_wins) return unpark(m, it, err);
		return m->unsettled ? CB_OK : merge_contradicts_at(m, it, err);
	}
	char name[32];
	size_t size = merge_parked_name(merge_ino_here(it), name);
	return inode_move(m->t, INO_ROOT, span_make(name, size), parent, place_name(&it->theirs.places[0]), err);
}

/* Puts a parked inode where theirs has it. */
static cb_code place_moved(merge *m, item *it, cb_error *err)
{
	const place *at = &it->theirs.places[0];
	uint64_t parent = 0;
	CB_TRY(result_parent(m, it, at, &parent, err));
	bool clear = parent != 0;
	if (clear) {
		slot s;
		CB_TRY(slot_find(m, parent, place_name(at), &s, err));
		if (s.taken) CB_TRY(settle_occupant(m, it, at, &s, &clear, err));
	}
	return clear ? move_item(m, it, parent, err) : unpark(m, it, err);
}

static cb_code place_item(merge *m, item *it, cb_error *err)
{
	it->busy = true;
	cb_code code = it->moving ? place_moved(m, it, err) : add_item(m, it, err);
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

cb_code merge_place_last(merge *m, cb_error *err)
{
	m->last = true;
	for (size_t i = 0; i < m->count; i++) {
		item *it = &m->items[i];
		it->moving = it->waits_to_last;
		if (waits_for_place(it)) CB_TRY(place_item(m, it, err));
	}
	return CB_OK;
}
