/*
 * merge_settle.c: what a conflict about a name decides besides: where the file of the side that lost it goes (settling, in merge.h).
 */
#include "box/merge.h"

static settling settled_find(const merge *m, uint64_t ino)
{
	span value;
	key k = key_inode(ino);
	return pmap_get(&m->settled, key_span(&k), &value) == PMAP_VALUE ? (settling)value.bytes[0] : SETTLED_NOT;
}

static cb_code settle_one(merge *m, uint64_t ino, settling how, cb_error *err)
{
	uint8_t value = (uint8_t)how;
	key k = key_inode(ino);
	m->unsettled = true;
	return pmap_put(&m->settled, key_span(&k), span_make(&value, 1), err);
}

/* The file of an item as one side has it, or the base. free() its places. */
static cb_code load_side(merge *m, uint64_t number, const tree_view *v, unit *out, cb_error *err)
{
	const item *it = merge_item_find(m, number);
	uint64_t ino = !it || v == m->base ? number : v == m->ours ? merge_ino_here(it) : merge_ino_there(it);
	return merge_unit_load(v, ino, out, err);
}

/* Did the loser move a file to that place, of which the winner has it elsewhere? */
static cb_code was_moved_to(merge *m, uint64_t number, const place *at, const tree_view *winner, const tree_view *loser, bool *out,
                            cb_error *err)
{
	unit base = {0}, wins = {0}, loses = {0};
	cb_code code = load_side(m, number, m->base, &base, err);
	if (code == CB_OK && base.present) code = load_side(m, number, winner, &wins, err);
	if (code == CB_OK && wins.present) code = load_side(m, number, loser, &loses, err);
	*out = code == CB_OK && loses.present && !merge_place_in(&base, at) && !merge_place_in(&wins, at) &&
	       merge_took_away(&base, &loses);
	free(base.places);
	free(wins.places);
	free(loses.places);
	return code;
}

/* Adds whom the loser moved to where the file goes back to. They go back too, and so on: each would be found by a pass of its own. */
static cb_code add_displaced(merge *m, uint64_t ino, settling how, buf *list, cb_error *err)
{
	const tree_view *winner = how == SETTLED_OURS ? m->ours : m->theirs, *loser = how == SETTLED_OURS ? m->theirs : m->ours;
	unit u = {0};
	cb_code code = load_side(m, ino, winner, &u, err);
	for (size_t i = 0; code == CB_OK && i < u.count; i++) {
		const place *at = &u.places[i];
		inode there;
		bool moved = false;
		code = inode_at(loser, at->parent, place_name(at), &there, NULL, err);
		if (code == CB_NOTFOUND) code = CB_OK;
		else if (code == CB_OK) {
			uint64_t next = merge_item_number(m, there.rec.ino);
			if (next != ino) code = was_moved_to(m, next, at, winner, loser, &moved, err);
			if (code == CB_OK && moved) code = buf_append(list, &next, sizeof(next), err);
		}
	}
	free(u.places);
	return code;
}

/* Adds those whom the loser's names of a file cover, new ones that it has not in the base: where the winner still has what the base has
 * there, that stays, or goes back. */
static cb_code add_covered(merge *m, const unit *base, const unit *lost, settling how, buf *list, cb_error *err)
{
	const tree_view *winner = how == SETTLED_OURS ? m->ours : m->theirs;
	for (size_t i = 0; i < lost->count; i++) {
		const place *at = &lost->places[i];
		inode node, old;
		if (merge_place_in(base, at)) continue;
		cb_code code = inode_at(winner, at->parent, place_name(at), &node, NULL, err);
		if (code == CB_OK) code = inode_at(m->base, at->parent, place_name(at), &old, NULL, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		if (code == CB_NOTFOUND || merge_item_number(m, node.rec.ino) != old.rec.ino) continue;
		CB_TRY(buf_append(list, &old.rec.ino, sizeof(old.rec.ino), err));
	}
	return CB_OK;
}

/* The same for a file whose names are the winner's from now on. */
static cb_code add_uncovered(merge *m, uint64_t ino, settling how, buf *list, cb_error *err)
{
	unit base = {0}, lost = {0};
	cb_code code = load_side(m, ino, m->base, &base, err);
	if (code == CB_OK && base.present) code = load_side(m, ino, how == SETTLED_OURS ? m->theirs : m->ours, &lost, err);
	if (code == CB_OK) code = add_covered(m, &base, &lost, how, list, err);
	free(base.places);
	free(lost.places);
	return code;
}

static cb_code settle_all(merge *m, buf *list, settling how, cb_error *err)
{
	uint64_t ino = 0;
	for (size_t i = 0; i < list->size; i += sizeof(ino)) {
		memcpy(&ino, list->bytes + i, sizeof(ino));
		if (settled_find(m, ino) != SETTLED_NOT) continue;
		CB_TRY(settle_one(m, ino, how, err));
		if (!m->left) CB_TRY(add_displaced(m, ino, how, list, err));
		if (!m->left) CB_TRY(add_uncovered(m, ino, how, list, err));
	}
	return CB_OK;
}

cb_code merge_settle(merge *m, uint64_t ino, settling how, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	CB_TRY(buf_append(&list, &ino, sizeof(ino), err));
	return settle_all(m, &list, how, err);
}

static cb_code collect_ino(void *context, span key_bytes, span value, cb_error *err)
{
	(void)key_bytes;
	entry e;
	CB_TRY(entry_decode(value, &e, err));
	return buf_append(context, &e.rec.ino, sizeof(uint64_t), err);
}

cb_code merge_settle_below(merge *m, uint64_t dir, settling how, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	const bool here = how == SETTLED_OURS;
	const tree_view *winner = here ? m->ours : m->theirs, *loser = here ? m->theirs : m->ours;
	CB_TRY(inode_keys(winner, dir, KIND_ENTRY, collect_ino, &list, err));
	for (size_t i = 0; !m->left && i < list.size; i += sizeof(dir)) {
		inode node;
		memcpy(&dir, list.bytes + i, sizeof(dir));
		const item *it = merge_item_find(m, dir);
		bool same = true;
		cb_code code = inode_find(loser, dir, &node, err);
		if (code == CB_NOTFOUND && it) CB_TRY(merge_is_as_before(m, it, here, &same, err));
		if (code == CB_NOTFOUND && same) CB_TRY(merge_settle(m, dir, how, err));
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		CB_TRY(inode_keys(winner, dir, KIND_ENTRY, collect_ino, &list, err));
	}
	return CB_OK;
}

cb_code merge_settle_covered(merge *m, const item *it, bool theirs_wins, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	settling how = theirs_wins ? SETTLED_THEIRS : SETTLED_OURS;
	if (!m->left) CB_TRY(add_covered(m, &it->base, theirs_wins ? &it->ours : &it->theirs, how, &list, err));
	return settle_all(m, &list, how, err);
}

cb_code merge_settle_names(merge *m, item *it, cb_error *err)
{
	it->settled = settled_find(m, it->ino);
	if (it->settled == SETTLED_NOT || !it->base.present || !it->ours.present || !it->theirs.present) return CB_OK;
	const unit *as = it->settled == SETTLED_OURS ? &it->theirs : &it->ours;
	place *copy = mem_dup(as->places, as->count * sizeof(place));
	if (!copy) return cb_err_nomem(err);
	free(it->was.places);
	it->was = it->base;
	it->base.places = copy;
	it->base.count = as->count;
	return CB_OK;
}

/* ---- moved into each other ---- */

cb_code merge_lies_below(merge *m, uint64_t dir, uint64_t ino, bool *out, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	climb up = climb_from(dir);
	while (up.at != INO_ROOT && up.at != ino) CB_TRY(climb_up(&up, &v, NULL, err));
	*out = up.at == ino;
	return CB_OK;
}

static cb_code is_moved(const merge *m, const tree_view *side, uint64_t ino, bool *out, cb_error *err)
{
	place was, is;
	*out = false;
	cb_code code = inode_place(m->base, ino, &was, err);
	if (code == CB_OK) code = inode_place(side, ino, &is, err);
	if (code == CB_OK) *out = place_compare(&was, &is) != 0;
	return code == CB_NOTFOUND ? CB_OK : code;
}

cb_code merge_settle_between(merge *m, const item *it, uint64_t parent, bool theirs_wins, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	if (!theirs_wins) CB_TRY(merge_settle(m, it->ino, SETTLED_OURS, err));
	for (climb up = climb_from(parent); up.at != merge_ino_here(it);) { /* merge_lies_below found it on this way */
		bool moved = false;
		CB_TRY(is_moved(m, theirs_wins ? m->ours : m->theirs, up.at, &moved, err));
		if (moved) CB_TRY(merge_settle(m, up.at, theirs_wins ? SETTLED_THEIRS : SETTLED_OURS, err));
		CB_TRY(climb_up(&up, &v, NULL, err));
	}
	return CB_OK;
}

/* ---- giving way ---- */

bool merge_took_away(const unit *base, const unit *side)
{
	for (size_t i = 0; i < base->count; i++)
		if (!merge_place_in(side, &base->places[i])) return true;
	return false;
}

/* Of ours' file a name went, or the last one. Where theirs has the file too, and that was its new name, it goes where theirs has it. */
static cb_code settle_yielded(merge *m, uint64_t ino, cb_error *err)
{
	uint64_t number = merge_item_number(m, ino);
	const item *it = merge_item_find(m, number);
	tree_view v = txn_raw(m->t);
	inode node;
	unit base = {0}, here = {0}, there = {0};
	if (it && it->settled != SETTLED_NOT) return CB_OK;
	cb_code gone = inode_find(&v, ino, &node, err);
	if (gone != CB_OK && gone != CB_NOTFOUND) return gone;
	cb_code code = merge_unit_load(m->ours, ino, &here, err);
	if (code == CB_OK) code = merge_unit_load(m->theirs, it && it->theirs.present ? merge_ino_there(it) : ino, &there, err);
	if (code == CB_OK) code = merge_unit_load(m->base, number, &base, err);
	bool moved = gone == CB_NOTFOUND ? !merge_places_equal(&here, &there) : merge_took_away(&base, &here);
	if (code == CB_OK && here.present && there.present && moved) code = merge_settle(m, number, SETTLED_THEIRS, err);
	free(base.places);
	free(here.places);
	free(there.places);
	return code;
}

/* The file or folder and all below it; not what is in a folder that theirs has too, and that takes it along. */
static cb_code collect_yielding(merge *m, uint64_t ino, buf *out, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	inode node;
	CB_TRY(buf_append(out, &ino, sizeof(ino), err));
	for (size_t i = 0; i < out->size; i += sizeof(ino)) {
		memcpy(&ino, out->bytes + i, sizeof(ino));
		const item *it = merge_item_find(m, ino);
		cb_code code = inode_find(m->theirs, ino, &node, err);
		if (code == CB_OK && !(it && it->settled != SETTLED_NOT)) continue;
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		CB_TRY(inode_keys(&v, ino, KIND_ENTRY, collect_ino, out, err));
	}
	return CB_OK;
}

static bool is_kept(const merge *m, uint64_t ino)
{
	span ignored;
	key k = key_inode(ino);
	return pmap_get(&m->kept, key_span(&k), &ignored) == PMAP_VALUE;
}

cb_code merge_give_way(merge *m, uint64_t parent, span name, const inode *occupant, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	uint64_t ino = 0;
	size_t known = pmap_count(&m->settled);
	CB_TRY(collect_yielding(m, occupant->rec.ino, &list, err));
	pmap before = pmap_ref(&m->t->delta);
	counters now = m->t->now;
	m->gave_way = true;
	cb_code code = tree_remove(m->t, parent, name, occupant, err);
	tree_view v = txn_raw(m->t);
	for (size_t i = 0; code == CB_OK && i < list.size; i += sizeof(ino)) {
		memcpy(&ino, list.bytes + i, sizeof(ino));
		code = settle_yielded(m, ino, err);
		bool stays = true; /* under another name */
		if (code == CB_OK && is_kept(m, ino)) code = merge_is_present(&v, ino, &stays, err);
		if (code == CB_OK && !stays) code = merge_contradicts_ino(m, ino, err);
	}
	if (code == CB_OK && pmap_count(&m->settled) > known && occupant->rec.type == CB_DIR) {
		char aside[32];
		size_t size = merge_parked_name(occupant->rec.ino, aside);
		pmap_done(&m->t->delta);
		m->t->delta = pmap_ref(&before);
		m->t->now = now;
		code = inode_move(m->t, parent, name, INO_ROOT, span_make(aside, size), err);
	}
	pmap_done(&before);
	return code;
}

/* A folder or link that the loser made at a place goes with all that is in it; what was moved into it goes back. A new file is compared
 * with the old one by itself, under each of its names. */
static cb_code drop_new(merge *m, const place *at, const inode *made, bool theirs_wins, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	inode node;
	item *it = merge_item_find(m, made->rec.ino);
	bool known = made->rec.type == CB_FILE;
	if (!known) CB_TRY(merge_is_present(m->base, made->rec.ino, &known, err));
	if (known) return CB_OK;
	if (!theirs_wins && it && it->fate == FATE_ADD && it->theirs.count == 1) {
		it->fate = FATE_DONE;
		it->into = 0;
	}
	cb_code code = theirs_wins ? inode_at(&v, at->parent, place_name(at), &node, NULL, err) : CB_NOTFOUND;
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	return node.rec.ino == made->rec.ino ? merge_give_way(m, at->parent, place_name(at), &node, err) : CB_OK;
}

cb_code merge_settle_empty(merge *m, const place *at, bool theirs_wins, cb_error *err)
{
	const tree_view *winner = theirs_wins ? m->theirs : m->ours, *loser = theirs_wins ? m->ours : m->theirs;
	inode node;
	bool moved = false;
	cb_code code = inode_at(winner, at->parent, place_name(at), &node, NULL, err);
	if (code != CB_NOTFOUND) return code; /* the two meet there, in a conflict by the same path */
	code = inode_at(loser, at->parent, place_name(at), &node, NULL, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	uint64_t number = merge_item_number(m, node.rec.ino);
	CB_TRY(was_moved_to(m, number, at, winner, loser, &moved, err));
	if (moved) return merge_settle(m, number, theirs_wins ? SETTLED_THEIRS : SETTLED_OURS, err);
	return drop_new(m, at, &node, theirs_wins, err);
}

cb_code merge_settle_lost_name(merge *m, const item *it, const place *at, bool *theirs_wins, cb_error *err)
{
	static const char *const reason = "a name of it was taken away on both sides";
	bool single = merge_old_names(it)->count <= 1 && it->ours.count <= 1 && it->theirs.count <= 1;
	if (!it->ours.present || !it->theirs.present || single) /* it was decided as a whole, by that path */
		return merge_conflict_at(m, it, reason, theirs_wins, err);
	CB_TRY(merge_conflict_name(m, it, 0, at, reason, theirs_wins, err));
	CB_TRY(merge_settle_empty(m, at, *theirs_wins, err));
	if (merge_places_equal(&it->ours, &it->theirs)) return CB_OK;
	return merge_settle(m, it->ino, *theirs_wins ? SETTLED_THEIRS : SETTLED_OURS, err);
}

cb_code merge_keep(merge *m, uint64_t ino, cb_error *err)
{
	key k = key_inode(ino);
	return m->left ? CB_OK : pmap_put(&m->kept, key_span(&k), (span){0}, err);
}

cb_code merge_holds_kept(merge *m, uint64_t dir, bool *out, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	tree_view v = txn_raw(m->t);
	uint64_t ino = dir;
	*out = pmap_count(&m->kept) > 0;
	if (*out) CB_TRY(buf_append(&list, &ino, sizeof(ino), err));
	for (size_t i = 0; *out && i < list.size; i += sizeof(ino)) {
		memcpy(&ino, list.bytes + i, sizeof(ino));
		if (is_kept(m, ino)) continue;
		const item *it = merge_item_find(m, ino);
		*out = it && it->base.present && it->ours.present && !it->theirs.present && it->ours.node.rec.type == CB_DIR;
		if (*out) CB_TRY(inode_keys(&v, ino, KIND_ENTRY, collect_ino, &list, err));
	}
	return CB_OK;
}

bool merge_stays(merge *m, uint64_t ino)
{
	const item *it = merge_item_find(m, merge_item_number(m, ino));
	return it && it->settled == SETTLED_OURS;
}
