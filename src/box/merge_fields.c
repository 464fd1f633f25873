/*
 * merge_fields.c: what both sides have: names, attributes, data, mode and times of one inode. Text that both changed merges by lines.
 */
#include "box/merge.h"
#include "box/text.h"

/* The same key of another inode, *k, and what a view has there, in *room; no bytes: nothing. */
static cb_code value_under(const tree_view *v, span key_bytes, uint64_t ino, key *k, tree_value *room, span *out, cb_error *err)
{
	*k = (key){.size = key_bytes.size};
	memcpy(k->bytes, key_bytes.bytes, key_bytes.size);
	put_be64(k->bytes + 1, ino);
	cb_code code = tree_get(v, key_span(k), room, err);
	*out = code == CB_OK ? span_make(room->bytes, room->size) : (span){0};
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* An attribute or tag of theirs' inode, wanted on the one of ours that it unites with. */
typedef struct uniting {
	merge *m;
	item *it;
	uint64_t into;
	bool changed;
} uniting;

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
	if (code == CB_OK) CB_TRY(values_equal(u->m->t->cs, u->m->t, span_make(now.bytes, now.size), u->m->t, value, &same, err));
	if (code == CB_OK && (!same || merge_is_strict(u->m)))
		CB_TRY(merge_conflict_at(u->m, u->it, "an attribute was set differently on both sides", &theirs_wins, err));
	if (same || !theirs_wins) return CB_OK;
	u->changed = true;
	return pmap_put(&u->m->t->delta, key_span(&k), value, err);
}

static bool take_later_times(inode *node, const record *theirs)
{
	bool modified = theirs->mtime_ns > node->rec.mtime_ns, accessed = theirs->atime_ns > node->rec.atime_ns;
	if (modified) node->rec.mtime_ns = theirs->mtime_ns;
	if (accessed) node->rec.atime_ns = theirs->atime_ns;
	return modified || accessed;
}

/* Both sides made it: one inode, ours, with the attributes of both and the later times. */
cb_code merge_unite(merge *m, item *it, const inode *mine, cb_error *err)
{
	uniting u = {m, it, mine->rec.ino, false};
	inode node = *mine;
	bool theirs_wins = false;
	it->into = mine->rec.ino;
	CB_TRY(inode_keys(m->theirs, merge_ino_there(it), KIND_ATTR, unite_key, &u, err));
	CB_TRY(inode_keys(m->theirs, merge_ino_there(it), KIND_TAG, unite_key, &u, err));
	if (node.rec.mode != it->theirs.node.rec.mode)
		CB_TRY(merge_conflict_at(m, it, "made with different modes", &theirs_wins, err));
	if (theirs_wins) node.rec.mode = it->theirs.node.rec.mode;
	/* To take a step back: what it took away is there again, with times of its own. */
	bool later = !m->back && take_later_times(&node, &it->theirs.node.rec);
	if (!u.changed && !theirs_wins && !later) return CB_OK;
	inode_changed(m->t, &node, false);
	return inode_save(m->t, &node, err);
}

/* ---- fields of what both have ---- */

typedef struct attr_merge {
	merge *m;
	item *it;
	const place *at; /* the one name about which it is; NULL: all of them */
	bool changed;
} attr_merge;

static cb_code attr_conflict(const attr_merge *a, const char *reason, bool *theirs_wins, cb_error *err)
{
	if (!a->at) return merge_conflict_at(a->m, a->it, reason, theirs_wins, err);
	return merge_conflict_under(a->m, a->it, 0, a->at, reason, theirs_wins, err);
}

/*
 * A name behind kind and inode, with the value it has in the base and in theirs. A new file that was saved over an old one has lost the
 * attributes, which nobody meant: where the other side changed one, its change stands.
 */
static cb_code merge_attr(void *context, span key_bytes, span base, span theirs, cb_error *err)
{
	attr_merge *a = context;
	merge *m = a->m;
	key k;
	tree_value now;
	span ours;
	tree_view v = txn_raw(m->t); /* as it is by now, since a new file may stand for several */
	CB_TRY(value_under(&v, key_bytes, merge_ino_here(a->it), &k, &now, &ours, err));
	bool unchanged = ours.bytes ? base.bytes && span_equal(ours, base) : !base.bytes;
	bool agreed = ours.bytes ? theirs.bytes && span_equal(ours, theirs) : !theirs.bytes;
	bool lost_here = a->it->replaced_here && !ours.bytes, lost_there = a->it->replaced_there && !theirs.bytes;
	if ((agreed && (!merge_is_strict(m) || unchanged || lost_here)) || (lost_there && !unchanged)) return CB_OK;
	bool theirs_wins = true;
	if (!unchanged && !lost_here) CB_TRY(attr_conflict(a, "an attribute was changed on both sides", &theirs_wins, err));
	if (!theirs_wins || agreed) return CB_OK;
	a->changed = true;
	pmap *delta = &m->t->delta;
	return theirs.bytes ? pmap_put(delta, key_span(&k), theirs, err) : pmap_put_tombstone(delta, key_span(&k), err);
}

typedef struct attr_pair {
	attr_merge *a;
	const tree_view *other;
	uint64_t ino; /* of the other side */
	bool is_base; /* the visited key is the base's */
} attr_pair;

static cb_code pair_attr(void *context, span key_bytes, span value, cb_error *err)
{
	const attr_pair *p = context;
	key k;
	tree_value twin;
	span other;
	CB_TRY(value_under(p->other, key_bytes, p->ino, &k, &twin, &other, err));
	if (other.bytes && (!p->is_base || span_equal(other, value))) return CB_OK; /* seen from the base, or unchanged */
	return p->is_base ? merge_attr(p->a, key_bytes, value, other, err) : merge_attr(p->a, key_bytes, (span){0}, value, err);
}

/* What theirs changed of the attributes or tags. */
static cb_code merge_attrs(attr_merge *a, uint8_t kind, cb_error *err)
{
	const merge *m = a->m;
	const item *it = a->it;
	const tree_view *base = it->disputed ? m->ours : m->base;
	uint64_t from = it->base.present ? it->base.node.rec.ino : it->ino, to = merge_ino_there(it);
	if (from == to) {
		key prefix = key_prefix(kind, from);
		return tree_diff_prefix(base, m->theirs, key_span(&prefix), merge_attr, a, err);
	}
	attr_pair old = {a, m->theirs, to, true}, made = {a, base, from, false};
	CB_TRY(inode_keys(base, from, kind, pair_attr, &old, err));
	return inode_keys(m->theirs, to, kind, pair_attr, &made, err);
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

static cb_code load_text(merge *m, const tree_view *v, const record *r, char **out, size_t *size, bool *is_text, cb_error *err)
{
	*is_text = false;
	if (r->size > LIMIT_DIFF_TEXT_BYTES) return CB_OK;
	CB_TRY(inode_damaged(data_load(m->t->cs, m->t, v, r, LIMIT_DIFF_TEXT_BYTES, out, size, err), v, r->ino, err));
	*is_text = !text_is_binary(span_make(*out, *size));
	return CB_OK;
}

cb_code merge_text(merge *m, const merge_texts *x, inode *node, bool *done, bool *changed, cb_error *err)
{
	AUTO_FREE char *base = NULL, *ours = NULL, *theirs = NULL;
	size_t nb = 0, no = 0, nt = 0, conflicts = 0;
	bool is_text = false;
	*done = false;
	CB_TRY(load_text(m, x->base_view, x->base, &base, &nb, &is_text, err));
	if (is_text) CB_TRY(load_text(m, x->ours_view, x->ours, &ours, &no, &is_text, err));
	if (is_text) CB_TRY(load_text(m, x->theirs_view, x->theirs, &theirs, &nt, &is_text, err));
	if (!is_text) return CB_OK;
	AUTO_BUF buf merged = BUF_INIT(3 * (size_t)LIMIT_DIFF_TEXT_BYTES);
	CB_TRY(text_merge3(span_make(base, nb), span_make(ours, no), span_make(theirs, nt), "ours", "theirs", &merged, &conflicts,
	                   err));
	if (conflicts) return CB_OK;
	*done = true;
	/* Ours has all of it: then nothing comes of it, also no new version. (A transaction wrote the file, whatever is in it.) */
	if (!merge_is_strict(m) && node->rec.ino == x->ours->ino && span_equal(buf_span(&merged), span_make(ours, no)))
		return CB_OK;
	*changed = true;
	int64_t ours_ns = x->ours->mtime_ns, theirs_ns = x->theirs->mtime_ns; /* node may be one of them */
	CB_TRY(data_replace(m->t, node, merged.bytes, merged.size, err));
	/* One side had changed nothing, or less of the same: then it is the other's text as it was. */
	node->rec.mtime_ns = span_equal(buf_span(&merged), span_make(theirs, nt)) ? theirs_ns
	                     : span_equal(buf_span(&merged), span_make(ours, no)) ? ours_ns
	                                                                          : m->t->now_ns;
	return CB_OK;
}

static cb_code note_key_change(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)key_bytes;
	(void)old_value;
	(void)new_value;
	(void)err;
	*(bool *)context = true;
	return CB_INTERRUPTED;
}

/*
 * Did the box write the file since? Its record says which write its data are of. Where it does not, because that was before this was noted,
 * the data must say it: a write leaves other contents, or, where the bytes are in the record itself, a modification time that is the
 * moment of the change. Setting the times does neither.
 */
static cb_code was_written(const merge *m, const record *base, const record *now, bool *out, cb_error *err)
{
	*out = false;
	if (now->version == base->version) return CB_OK;
	bool noted = now->written != RECORD_WRITTEN_UNKNOWN;
	*out = noted ? now->written != base->written
	             : base->form != now->form || base->size != now->size ||
	                       (now->mtime_ns != base->mtime_ns && now->mtime_ns == now->ctime_ns);
	if (*out || noted) return CB_OK;
	key prefix = key_prefix(KIND_EXTENT, base->ino);
	switch (base->form) {
	case DATA_NONE:
		break;
	case DATA_INLINE:
		*out = memcmp(base->bytes, now->bytes, (size_t)base->size) != 0;
		break;
	case DATA_CONTENT:
		*out = base->content != now->content || base->start != now->start;
		break;
	case DATA_EXTENTS:
		return tree_diff_prefix(m->base, m->ours, key_span(&prefix), note_key_change, out, err);
	}
	return CB_OK;
}

cb_code merge_note_written(merge *m, item *it, cb_error *err)
{
	span ignored;
	key k = key_inode(it->ino);
	if (!merge_is_strict(m) || !it->base.present || it->base.node.rec.type != CB_FILE) return CB_OK;
	it->written_there = m->written && pmap_get(m->written, key_span(&k), &ignored) != PMAP_ABSENT;
	return it->ours.present ? was_written(m, &it->base.node.rec, &it->ours.node.rec, &it->written_here, err) : CB_OK;
}

/* Lines are joined only where both have new ones. *dated: the modification time belongs to what came of it, joined lines or the side that
 * won. */
static cb_code merge_data(merge *m, item *it, inode *node, bool *changed, bool *dated, cb_error *err)
{
	const record *base = &it->base.node.rec, *ours = &it->ours.node.rec, *theirs = &it->theirs.node.rec;
	const tree_view *base_view = it->disputed ? m->ours : m->base;
	bool theirs_same = false, ours_same = false, agreed = false, merged = false, theirs_wins = true;
	bool renewed_here = merge_renewed_here(m, it), renewed_there = merge_renewed_there(m, it);
	if (node->rec.type == CB_DIR) return CB_OK;
	if (it->base.present) {
		CB_TRY(merge_data_same(m, base_view, base, m->theirs, theirs, &theirs_same, err));
		/* The step that is taken back wrote them as they were, and nobody wrote them since. */
		bool takes_back = theirs_same && m->back && base->ino == theirs->ino && ours->ino == base->ino;
		if (takes_back && ours->written == base->written) node->rec.written = theirs->written;
		if (theirs_same && !renewed_there) return CB_OK;
		CB_TRY(merge_data_same(m, base_view, base, m->ours, ours, &ours_same, err));
	}
	bool unchanged_here = ours_same && !renewed_here;
	if (theirs_same && unchanged_here) { /* theirs wrote them as they were: whoever writes the file too must see that */
		node->rec.written = 0;
		*changed = true;
		return CB_OK;
	}
	CB_TRY(merge_data_same(m, m->ours, ours, m->theirs, theirs, &agreed, err));
	if (agreed && !merge_is_strict(m)) return CB_OK;
	bool lines = !ours_same && !theirs_same && !agreed && it->base.present;
	if (lines && node->rec.type == CB_FILE) {
		merge_texts x = {base_view, m->ours, m->theirs, base, ours, theirs};
		CB_TRY(merge_text(m, &x, node, &merged, changed, err));
	}
	if (!unchanged_here && !merged) {
		bool kept = true;
		CB_TRY(merge_conflict_at(m, it, "changed on both sides", &theirs_wins, err));
		CB_TRY(merge_settle_data(m, node->rec.ino, theirs_wins, &kept, err));
		if (!kept) CB_TRY(merge_contradicts_at(m, it, err));
	}
	*dated = !unchanged_here;
	if (!merged && theirs_wins) CB_TRY(take_data(m, it, node, err));
	*changed = *changed || (!merged && theirs_wins);
	return CB_OK;
}

static cb_code merge_mode(attr_merge *a, inode *node, cb_error *err)
{
	const merge *m = a->m;
	const item *it = a->it;
	uint32_t base = it->base.present ? it->base.node.rec.mode : it->ours.node.rec.mode;
	uint32_t ours = it->ours.node.rec.mode, theirs = it->theirs.node.rec.mode;
	if (theirs == base || (theirs == ours && !merge_is_strict(m))) return CB_OK;
	bool theirs_wins = true;
	if (ours != base) CB_TRY(attr_conflict(a, "its mode was changed on both sides", &theirs_wins, err));
	if (!theirs_wins || theirs == ours) return CB_OK;
	node->rec.mode = theirs;
	a->changed = true;
	return CB_OK;
}

/* Theirs' data of the file, for a new one that ours has under a name of it, node: as it is by now, since it may stand for several. */
static cb_code merge_data_of_successor(merge *m, item *it, const place *at, inode *node, bool *changed, cb_error *err)
{
	bool done = false, agreed = false, same = false, theirs_wins = false;
	record here = node->rec;
	tree_view v = txn_raw(m->t);
	CB_TRY(merge_data_same(m, m->base, &it->base.node.rec, m->theirs, &it->theirs.node.rec, &same, err));
	if (same && !it->written_there) return CB_OK;
	CB_TRY(merge_data_same(m, &v, &here, m->theirs, &it->theirs.node.rec, &agreed, err));
	if (agreed && !merge_is_strict(m)) return CB_OK;
	merge_texts x = {m->base, &v, m->theirs, &it->base.node.rec, &here, &it->theirs.node.rec};
	if (!agreed && !same) CB_TRY(merge_text(m, &x, node, &done, changed, err));
	if (!done) {
		bool kept = true;
		CB_TRY(merge_conflict_under(m, it, here.ino, at, "changed on both sides", &theirs_wins, err));
		CB_TRY(merge_settle_data(m, here.ino, theirs_wins, &kept, err));
		if (!kept) CB_TRY(merge_contradicts_name(m, at, err));
	}
	if (!done && theirs_wins) CB_TRY(take_data(m, it, node, err));
	*changed = *changed || theirs_wins;
	return CB_OK;
}

cb_code merge_successors_here(merge *m, item *it, cb_error *err)
{
	if (!it->base.present || it->disputed || it->base.node.rec.type != CB_FILE) return CB_OK;
	const unit *old = merge_old_names(it);
	for (size_t i = 0; i < old->count; i++) {
		const place *at = &old->places[i];
		inode node;
		uint64_t ino = 0;
		if (merge_place_in(&it->ours, at) || !merge_place_in(&it->theirs, at)) continue;
		CB_TRY(merge_new_file_here(m, at, &ino, err));
		if (!ino) continue; /* ours took the name away; the file lives on under others */
		tree_view v = txn_raw(m->t);
		cb_code code = inode_at(&v, at->parent, place_name(at), &node, NULL, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		if (code == CB_NOTFOUND || node.rec.ino != ino) continue; /* it gave way here, and may have other names */
		item under = *it;                                         /* what it is under this name; its places are lent */
		attr_merge a = {m, &under, at, false};
		under.ours = (unit){.present = true, .node = node};
		under.replaced_here = true;
		CB_TRY(merge_attrs(&a, KIND_ATTR, err));
		CB_TRY(merge_attrs(&a, KIND_TAG, err));
		CB_TRY(merge_data_of_successor(m, it, at, &node, &a.changed, err));
		CB_TRY(merge_mode(&a, &node, err));
		if (!a.changed) continue;
		inode_changed(m->t, &node, false);
		CB_TRY(inode_save(m->t, &node, err));
	}
	return CB_OK;
}

/* ---- new files on both sides ---- */

/* Is `mine` a new file of ours where the base had `old`, and theirs a new one, it, in the same place? */
static cb_code is_replaced_on_both(merge *m, const item *it, const place *at, const inode *mine, inode *old, bool *out,
                                   cb_error *err)
{
	uint64_t ino = 0;
	*out = false;
	if (mine->rec.type != CB_FILE || it->theirs.node.rec.type != CB_FILE) return CB_OK;
	CB_TRY(merge_file_at(m->base, at, old, out, err));
	bool another = it->base.present && it->ino != old->rec.ino; /* of the base: what theirs moved here is itself */
	*out = *out && !another && !merge_disputes_ino(m->disputed, old->rec.ino);
	if (!*out) return CB_OK;
	CB_TRY(merge_new_file_here(m, at, &ino, err));
	*out = mine->rec.ino == ino; /* or one of the base: another that got this name, or the same, which a conflict left here */
	bool cross = false;
	if (*out) CB_TRY(merge_new_files_cross(m, it, ino, &cross, err));
	*out = *out && !cross;
	return CB_OK;
}

/* For a strict merge: does one of two new files hold what the base held, or both the same? Lines are joined only where both have new
 * ones. */
static cb_code any_alike(merge *m, const record *base, const record *ours, const record *theirs, bool *out, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	CB_TRY(merge_data_same(m, m->base, base, &v, ours, out, err));
	if (!*out) CB_TRY(merge_data_same(m, &v, ours, m->theirs, theirs, out, err));
	return *out ? CB_OK : merge_data_same(m, m->base, base, m->theirs, theirs, out, err);
}

cb_code merge_successors(merge *m, item *it, const place *at, inode *mine, bool *done, cb_error *err)
{
	inode old;
	bool both = false, alike = false, changed = false;
	*done = false;
	CB_TRY(is_replaced_on_both(m, it, at, mine, &old, &both, err));
	if (!both) return CB_OK;
	bool itself = old.rec.ino == merge_ino_there(it) && !merge_renewed_there(m, it);
	if (itself) CB_TRY(merge_data_same(m, m->base, &old.rec, m->theirs, &it->theirs.node.rec, done, err));
	if (*done) return CB_OK; /* theirs did nothing to it */
	if (merge_is_strict(m)) CB_TRY(any_alike(m, &old.rec, &mine->rec, &it->theirs.node.rec, &alike, err));
	if (alike) return CB_OK;
	tree_view v = txn_raw(m->t);
	record before = mine->rec; /* x.ours must not change meanwhile */
	merge_texts x = {m->base, &v, m->theirs, &old.rec, &before, &it->theirs.node.rec};
	CB_TRY(merge_data_same(m, &v, &before, m->theirs, &it->theirs.node.rec, done, err));
	if (*done) changed = take_later_times(mine, &it->theirs.node.rec);
	else CB_TRY(merge_text(m, &x, mine, done, &changed, err));
	if (!*done) return CB_OK;
	item under = *it; /* what the three are under this name; its places are lent */
	attr_merge a = {m, &under, at, changed};
	under.base = (unit){.present = true, .node = old};
	under.ours = (unit){.present = true, .node = *mine};
	under.replaced_here = under.replaced_there = true;
	under.disputed = false;
	CB_TRY(merge_attrs(&a, KIND_ATTR, err));
	CB_TRY(merge_attrs(&a, KIND_TAG, err));
	CB_TRY(merge_mode(&a, mine, err));
	it->into = mine->rec.ino;
	if (!a.changed) return CB_OK;
	inode_changed(m->t, mine, false);
	return inode_save(m->t, mine, err);
}

/* ---- fields of a file that was replaced ---- */

typedef struct attr_search {
	const merge *m;
	uint64_t old; /* in the base */
	bool alike;
} attr_search;

static cb_code find_attr_in_old(void *context, span key_bytes, span value, cb_error *err)
{
	attr_search *s = context;
	key k;
	tree_value room;
	span had;
	CB_TRY(value_under(s->m->base, key_bytes, s->old, &k, &room, &had, err));
	bool same = false;
	if (had.bytes) CB_TRY(values_equal(s->m->t->cs, s->m->t, had, s->m->t, value, &same, err));
	s->alike = s->alike && same;
	return CB_OK;
}

cb_code merge_is_renewed_alike(merge *m, const record *old, const tree_view *side, const record *made, bool *out, cb_error *err)
{
	attr_search s = {m, old->ino, old->mode == made->mode};
	if (s.alike) CB_TRY(inode_keys(side, made->ino, KIND_ATTR, find_attr_in_old, &s, err));
	if (s.alike) CB_TRY(inode_keys(side, made->ino, KIND_TAG, find_attr_in_old, &s, err));
	*out = false;
	return s.alike ? merge_data_same(m, m->base, old, side, made, out, err) : CB_OK;
}

typedef struct attr_carry {
	merge *m;
	item *it;
	const place *at;
	uint64_t old;
	bool changed;
} attr_carry;

/* An attribute that ours changed, with its value in the base and in ours. The new file of theirs may have lost it, which nobody meant. */
static cb_code carry_attr(void *context, span key_bytes, span base, span ours, cb_error *err)
{
	attr_carry *c = context;
	merge *m = c->m;
	key k;
	tree_value now;
	span theirs;
	CB_TRY(value_under(m->theirs, key_bytes, merge_ino_there(c->it), &k, &now, &theirs, err));
	bool same = theirs.bytes && ours.bytes && span_equal(theirs, ours), theirs_wins = false;
	if ((same && !merge_is_strict(m)) || (!theirs.bytes && !ours.bytes)) return CB_OK;
	if (theirs.bytes && !(base.bytes && span_equal(theirs, base)))
		CB_TRY(merge_conflict_under(m, c->it, c->old, c->at, "an attribute was changed on both sides", &theirs_wins, err));
	if (theirs_wins || same) return CB_OK;
	c->changed = true;
	put_be64(k.bytes + 1, c->it->into);
	return ours.bytes ? pmap_put(&m->t->delta, key_span(&k), ours, err) : pmap_put_tombstone(&m->t->delta, key_span(&k), err);
}

cb_code merge_carry_fields(merge *m, item *it, const place *at, const inode *old, const inode *here, cb_error *err)
{
	attr_carry c = {m, it, at, old->rec.ino, false};
	tree_view v = txn_raw(m->t);
	inode node;
	if (merge_disputes_ino(m->disputed, old->rec.ino)) return CB_OK;
	cb_code code = inode_find(&v, it->into, &node, err);
	if (code != CB_OK)
		return code == CB_NOTFOUND ? CB_OK : code; /* its last name gave way just now, in a conflict that theirs won */
	static const uint8_t kinds[] = {KIND_ATTR, KIND_TAG};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		key prefix = key_prefix(kinds[i], old->rec.ino);
		CB_TRY(tree_diff_prefix(m->base, m->ours, key_span(&prefix), carry_attr, &c, err));
	}
	uint32_t base = old->rec.mode, ours = here->rec.mode, theirs = it->theirs.node.rec.mode;
	bool theirs_wins = ours == base || ours == theirs;
	if (ours != base && theirs != base && (ours != theirs || merge_is_strict(m)))
		CB_TRY(merge_conflict_under(m, it, old->rec.ino, at, "its mode was changed on both sides", &theirs_wins, err));
	if (!theirs_wins) node.rec.mode = ours;
	if (!c.changed && theirs_wins) return CB_OK;
	inode_changed(m->t, &node, false);
	return inode_save(m->t, &node, err);
}

static cb_code note_name_change(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)key_bytes;
	entry a, b;
	if (old_value.bytes && new_value.bytes) {
		CB_TRY(entry_decode(old_value, &a, err));
		CB_TRY(entry_decode(new_value, &b, err));
		if (a.rec.ino == b.rec.ino) return CB_OK;
	}
	*(bool *)context = true;
	return CB_INTERRUPTED;
}

/* Did the side change the data, or write them as they were? */
static cb_code data_changed(merge *m, const item *it, bool here, bool *out, cb_error *err)
{
	const unit *side = here ? &it->ours : &it->theirs;
	bool same = false;
	*out = here ? merge_renewed_here(m, it) : merge_renewed_there(m, it);
	if (!*out) CB_TRY(merge_data_same(m, m->base, &it->base.node.rec, here ? m->ours : m->theirs, &side->node.rec, &same, err));
	*out = *out || !same;
	return CB_OK;
}

/* What one side changed; of both, the later one, whichever side has it. To take a step back: what was set since stands. */
static int64_t time_merged(const merge *m, int64_t base, int64_t ours, int64_t theirs)
{
	if (theirs == base) return ours;
	return ours == base || (theirs > ours && !m->back) ? theirs : ours;
}

/*
 * Times of files and links: the later ones stand. In a transaction to set them is a change like any other, so that both sides must not do
 * it; but those of a side that changed the data follow from that, and access times from reading.
 */
static cb_code merge_times(merge *m, item *it, bool dated, inode *node, bool *changed, cb_error *err)
{
	const record *b = &it->base.node.rec, *o = &it->ours.node.rec, *t = &it->theirs.node.rec;
	if (it->disputed && t->type != CB_DIR) { /* theirs won all of it, also where the bytes were equal */
		*changed = *changed || node->rec.mtime_ns != t->mtime_ns;
		node->rec.mtime_ns = t->mtime_ns;
		return CB_OK;
	}
	if (!it->base.present || t->type == CB_DIR || b->ino != it->ino) return CB_OK;
	bool data_here = false, data_there = false, theirs_wins = true;
	if (merge_is_strict(m) && o->mtime_ns != b->mtime_ns && t->mtime_ns != b->mtime_ns) {
		CB_TRY(data_changed(m, it, true, &data_here, err));
		CB_TRY(data_changed(m, it, false, &data_there, err));
		if (!data_here && !data_there) {
			CB_TRY(merge_conflict_at(m, it, "its times were set on both sides", &theirs_wins, err));
			if (theirs_wins) node->rec.mtime_ns = t->mtime_ns;
			*changed = *changed || theirs_wins;
			dated = true;
		}
	}
	int64_t mtime_ns = dated ? node->rec.mtime_ns : time_merged(m, b->mtime_ns, o->mtime_ns, t->mtime_ns);
	int64_t atime_ns = time_merged(m, b->atime_ns, o->atime_ns, t->atime_ns);
	bool moved = node->rec.mtime_ns != mtime_ns, accessed = node->rec.atime_ns != atime_ns;
	/* An access time alone is no difference: it comes with another, or with a transaction, which was asked to set it. */
	if (!moved && !(accessed && (*changed || merge_is_strict(m)))) return CB_OK;
	*changed = true;
	node->rec.mtime_ns = mtime_ns;
	node->rec.atime_ns = atime_ns;
	return CB_OK;
}

/* Were the times of a folder set, and not only moved on by its entries? A program's folder brings those that the filesystem gave it. */
static cb_code folder_times_set(const merge *m, const tree_view *v, const record *base, const record *side, bool *out,
                                cb_error *err)
{
	bool names = false, accessed = merge_is_strict(m) && side->atime_ns != base->atime_ns;
	*out = side->mtime_ns != base->mtime_ns || accessed;
	if (!*out) return CB_OK;
	key prefix = key_prefix(KIND_ENTRY, side->ino);
	CB_TRY(tree_diff_prefix(m->base, v, key_span(&prefix), note_name_change, &names, err));
	*out = !names && (accessed || side->mtime_ns != side->ctime_ns);
	return CB_OK;
}

/*
 * Whose times has the folder in the result? *out NULL: those that it got there, from entries. What one side set stands where the other
 * changed only entries. Of a side that did both, it is known only where ours did neither: then its times are not those of its last change.
 */
static cb_code folder_times_from(merge *m, const item *it, const record **out, cb_error *err)
{
	const record *b = &it->base.node.rec, *o = &it->ours.node.rec, *t = &it->theirs.node.rec;
	bool set_here = false, set_there = false, theirs_wins = false;
	bool made_there = !it->ours.present && it->into == merge_ino_there(it);
	*out = made_there ? t : NULL;
	if (!it->ours.present || it->fate != FATE_FIELDS || !it->base.present || it->disputed) return CB_OK;
	bool strict = merge_is_strict(m), touched_here = o->mtime_ns != b->mtime_ns || (strict && o->atime_ns != b->atime_ns);
	if (!touched_here && (t->mtime_ns != t->ctime_ns || (strict && t->atime_ns != b->atime_ns))) *out = t;
	if (*out || it->replaced_here || it->replaced_there) return CB_OK;
	CB_TRY(folder_times_set(m, m->theirs, b, t, &set_there, err));
	CB_TRY(folder_times_set(m, m->ours, b, o, &set_here, err));
	if (set_here && set_there && strict)
		CB_TRY(merge_conflict_at(m, it, "its times were set on both sides", &theirs_wins, err));
	else if (set_there)
		theirs_wins = !set_here || t->mtime_ns > o->mtime_ns || (t->mtime_ns == o->mtime_ns && t->atime_ns > o->atime_ns);
	if (set_here || set_there) *out = theirs_wins ? t : o;
	return CB_OK;
}

cb_code merge_folder_times(merge *m, item *it, cb_error *err)
{
	const record *b = &it->base.node.rec, *from = NULL;
	inode node;
	/* To take a step back: undo.c does it (reverse_times). */
	if (!it->theirs.present || !it->into || it->theirs.node.rec.type != CB_DIR || m->back) return CB_OK;
	CB_TRY(folder_times_from(m, it, &from, err));
	if (!from) return CB_OK;
	tree_view v = txn_raw(m->t);
	cb_code code = inode_find(&v, it->into, &node, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code; /* it gave way */
	bool made = !it->base.present;
	const record *other = from == &it->theirs.node.rec ? &it->ours.node.rec : &it->theirs.node.rec;
	/* Where only the access time was set, the other side's entries say when it was modified. */
	int64_t mtime_ns =
		made || from->mtime_ns != b->mtime_ns || other->mtime_ns == b->mtime_ns ? from->mtime_ns : node.rec.mtime_ns;
	int64_t atime_ns = made || from->atime_ns != b->atime_ns ? from->atime_ns : node.rec.atime_ns;
	bool accessed = node.rec.atime_ns != atime_ns; /* alone it is no difference, as with files */
	if (node.rec.mtime_ns == mtime_ns && !(accessed && merge_is_strict(m))) return CB_OK;
	node.rec.mtime_ns = mtime_ns;
	node.rec.atime_ns = atime_ns;
	inode_changed(m->t, &node, false);
	return inode_save(m->t, &node, err);
}

/* Has a side a new file in the place of this one, under each of those names? */
static cb_code is_replaced_at(merge *m, const item *it, const unit *names, const tree_view *side, bool *out, cb_error *err)
{
	*out = true;
	for (size_t i = 0; *out && i < names->count; i++) {
		const place *at = &names->places[i];
		inode node;
		bool known = true;
		*out = merge_place_in(merge_old_names(it), at);
		if (*out) CB_TRY(merge_file_at(side, at, &node, out, err));
		if (*out) CB_TRY(merge_is_present(m->base, node.rec.ino, &known, err));
		*out = *out && !known;
	}
	return CB_OK;
}

/*
 * Each side took away the names that the other left it, and the loser has new files there: what the loser wrote to the old one is not meant
 * for these names, and there it is as the winner has it. *as_winner: it is so, and `theirs` becomes the item to take all of theirs by, as
 * if ours had been the base.
 */
static cb_code parts_by_name(merge *m, const item *it, bool *as_winner, item *theirs, cb_error *err)
{
	const bool here = it->settled == SETTLED_OURS;
	const unit *wins = here ? &it->ours : &it->theirs, *loses = here ? &it->theirs : &it->ours;
	*as_winner = it->settled != SETTLED_NOT && it->base.present && !it->disputed && it->base.node.rec.type == CB_FILE;
	for (size_t i = 0; *as_winner && i < loses->count; i++) *as_winner = merge_place_in(merge_old_names(it), &loses->places[i]);
	if (*as_winner) CB_TRY(is_replaced_at(m, it, wins, here ? m->theirs : m->ours, as_winner, err));
	*theirs = *it; /* its places are lent */
	theirs->base = it->ours;
	theirs->disputed = true;
	theirs->replaced_here = theirs->written_here = false;
	return CB_OK;
}

cb_code merge_fields(merge *m, item *it, cb_error *err)
{
	item theirs;
	bool as_winner = false, dated = false;
	CB_TRY(parts_by_name(m, it, &as_winner, &theirs, err));
	if (as_winner && it->settled == SETTLED_OURS) return merge_successors_here(m, it, err);
	item *of = as_winner ? &theirs : it;
	attr_merge a = {m, of, NULL, false};
	tree_view v = txn_raw(m->t);
	inode node;
	cb_code code = inode_find(&v, merge_ino_here(it), &node, err);
	if (code == CB_NOTFOUND) return CB_OK; /* it gave way: merge_check_placed */
	if (code != CB_OK) return code;
	CB_TRY(merge_attrs(&a, KIND_ATTR, err));
	CB_TRY(merge_attrs(&a, KIND_TAG, err));
	CB_TRY(merge_data(m, of, &node, &a.changed, &dated, err));
	CB_TRY(merge_mode(&a, &node, err));
	CB_TRY(merge_times(m, of, dated, &node, &a.changed, err));
	if (a.changed) {
		inode_changed(m->t, &node, false);
		CB_TRY(inode_save(m->t, &node, err));
	}
	return merge_successors_here(m, it, err);
}
