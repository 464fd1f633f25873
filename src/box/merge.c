/*
 * merge.c: three-way merge of files, not of keys.
 *
 * Merging keys one by one would corrupt a filesystem (an orphan where one side deletes a folder and the other adds to it, two records of
 * one inode after two renames, a detached cycle after two moves). So theirs' key changes are only used to find *which inodes* changed; each
 * is then merged as a unit (places, data, mode, attributes) with the ordinary operations of inode.c on a transaction over ours, which keep
 * every invariant. Inode numbers are unique in a store, so an inode that both sides have is the same file.
 *
 * Identity goes by inode first, by path where a file or folder was replaced (folders: merge_folders.c): editors and `sed -i` save by
 * writing a new file over the old name. Where one side has a new file in the place of one that is gone, and the other side changed,
 * replaced or deleted that one, the two are taken for one file (find_replaced). Where only theirs replaced it, the new file simply comes in
 * place of the old one.
 *
 * A strict merge (the commit of a transaction) also takes the same change on both sides for a conflict, whatever the change: two agents
 * that claim a job by the same rename must not both succeed. To write or to replace a file is a change, also by an equal one. None are:
 * times of a folder that follow from its entries, counters, and folders that both made, which unite: what is in them speaks for itself.
 *
 * Order of work: deletions of files free their names; inodes that theirs moved are parked at the root under names no path can hold, so
 * that swaps work; emptied folders go; then moves and additions, parents first; then fields; then the folders that theirs deleted and
 * that are empty by now; then the times of folders.
 *
 * A conflict about a name that was settled decides also where the loser's file goes: back to where the winner has it (merge_settle). That
 * may take a name which was given to another before, so the pass is made once more, from the start, with what is known by then.
 *
 * Answers for several paths may contradict each other (merge_contradicts_at): then a conflict stays open, nothing is left without a place,
 * and no answer unheard.
 *
 * A conflict that nobody resolves is counted and ours stays; the caller must then not commit.
 */
#include "box/merge.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what each side has ---- */

cb_code merge_unit_load(const tree_view *v, uint64_t ino, unit *out, cb_error *err)
{
	*out = (unit){0};
	if (ino == INO_ROOT) {
		out->present = true;
		return inode_find(v, ino, &out->node, err);
	}
	AUTO_BUF buf list = BUF_INIT(sizeof(place) * (LIMIT_LINKS + 1));
	CB_TRY(inode_places(v, ino, &list, err));
	if (list.size == 0) return CB_OK;
	const place *first = (const place *)(const void *)list.bytes;
	CB_TRY(inode_at(v, first->parent, place_name(first), &out->node, NULL, err));
	out->present = true;
	out->count = list.size / sizeof(place);
	out->places = (place *)(void *)TAKE_PTR(list.bytes);
	return CB_OK;
}

bool merge_places_equal(const unit *a, const unit *b)
{
	if (a->count != b->count) return false;
	for (size_t i = 0; i < a->count; i++)
		if (place_compare(&a->places[i], &b->places[i]) != 0) return false;
	return true;
}

cb_code merge_is_present(const tree_view *v, uint64_t ino, bool *out, cb_error *err)
{
	place ignored;
	cb_code code = ino == INO_ROOT ? CB_OK : inode_place(v, ino, &ignored, err);
	*out = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : code;
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

/* Attributes or tags of two units, which may be of two inodes. */
static cb_code attrs_same(merge *m, const tree_view *va, const unit *a, const tree_view *vb, const unit *b, uint8_t kind, bool *out,
                          cb_error *err)
{
	bool differ = true;
	if (a->node.rec.ino == b->node.rec.ino) CB_TRY(keys_differ(va, vb, kind, a->node.rec.ino, &differ, err));
	*out = !differ;
	return *out ? CB_OK : marks_equal(m->t->cs, m->t, va, a->node.rec.ino, m->t, vb, b->node.rec.ino, kind, out, err);
}

cb_code merge_data_same(merge *m, const tree_view *va, const record *a, const tree_view *vb, const record *b, bool *out,
                        cb_error *err)
{
	if (a->type != CB_FILE && a->type != CB_SYMLINK) {
		*out = true;
		return CB_OK;
	}
	if (a->ino == b->ino && a->form == DATA_EXTENTS && b->form == DATA_EXTENTS && a->size == b->size) {
		bool differ = false;
		CB_TRY(keys_differ(va, vb, KIND_EXTENT, a->ino, &differ, err));
		*out = !differ;
		if (*out) return CB_OK;
	}
	return data_equal(m->t->cs, m->t, va, a, m->t, vb, b, out, err);
}

/* Is it the same on two sides, wherever it is, but for times and version? */
static cb_code holds_same(merge *m, const tree_view *va, const unit *a, const tree_view *vb, const unit *b, bool *out,
                          cb_error *err)
{
	*out = false;
	if (a->node.rec.mode != b->node.rec.mode || a->node.rec.type != b->node.rec.type) return CB_OK;
	bool same = false;
	CB_TRY(attrs_same(m, va, a, vb, b, KIND_ATTR, &same, err));
	if (same) CB_TRY(attrs_same(m, va, a, vb, b, KIND_TAG, &same, err));
	return same ? merge_data_same(m, va, &a->node.rec, vb, &b->node.rec, out, err) : CB_OK;
}

/* And in the same places? */
static cb_code unit_same(merge *m, const tree_view *va, const unit *a, const tree_view *vb, const unit *b, bool *out, cb_error *err)
{
	*out = false;
	return merge_places_equal(a, b) ? holds_same(m, va, a, vb, b, out, err) : CB_OK;
}

cb_code merge_holds_as_before(merge *m, const item *it, bool here, bool *out, cb_error *err)
{
	return holds_same(m, m->base, &it->base, here ? m->ours : m->theirs, here ? &it->ours : &it->theirs, out, err);
}

cb_code merge_is_as_before(merge *m, const item *it, bool here, bool *out, cb_error *err)
{
	const unit *side = here ? &it->ours : &it->theirs;
	*out = false;
	if (!it->base.present || !side->present) return CB_OK;
	return unit_same(m, m->base, &it->base, here ? m->ours : m->theirs, side, out, err);
}

bool merge_place_in(const unit *u, const place *p)
{
	if (!u->unsorted) return u->count && bsearch(p, u->places, u->count, sizeof(place), place_compare);
	for (size_t i = 0; i < u->count; i++)
		if (place_compare(&u->places[i], p) == 0) return true;
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
	if (agreed && !merge_is_strict(m)) return CB_OK;
	span ignored;
	bool disputed = m->disputed && pmap_get(&m->disputed->keys, key_bytes, &ignored) != PMAP_ABSENT;
	if (!unchanged || disputed) {
		char path[LIMIT_NAME_BYTES + 16];
		cb_prefer chosen = CB_PREFER_NONE;
		(void)snprintf(path, sizeof(path), "key '%.*s'", (int)(key_bytes.size - 1), (const char *)key_bytes.bytes + 1);
		CB_TRY(merge_decide(m->conflicts, path, "changed on both sides", ABOUT_FIELDS, &chosen, err));
		if (chosen == CB_PREFER_NONE && m->left) CB_TRY(pmap_put(&m->left->keys, key_bytes, (span){0}, err));
		if (chosen != CB_PREFER_THEIRS) return CB_OK;
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
		return m->again ? CB_OK : merge_kv(m, key_bytes, old_value, new_value, err);
	case KIND_COUNTERS:
		return CB_OK; /* follows from the operations */
	default:
		return add_ino(m, parts.ino, err);
	}
}

static void inos_sort(merge *m)
{
	uint64_t *inos = (uint64_t *)(void *)m->inos.bytes;
	size_t n = m->inos.size / sizeof(uint64_t), unique = 0;
	if (n) qsort(inos, n, sizeof(uint64_t), u64_compare);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || inos[i] != inos[i - 1]) inos[unique++] = inos[i];
	m->inos.size = unique * sizeof(uint64_t);
}

static cb_code items_load(merge *m, cb_error *err)
{
	const uint64_t *inos = (const uint64_t *)(const void *)m->inos.bytes;
	size_t count = m->inos.size / sizeof(uint64_t);
	m->items = mem_alloc((count + 1) * sizeof(item));
	if (!m->items) return cb_err_nomem(err);
	for (size_t i = 0; i < count; i++) {
		item *it = &m->items[m->count++];
		*it = (item){.ino = inos[i], .into = inos[i], .disputed = merge_disputes_ino(m->disputed, inos[i])};
		CB_TRY(merge_unit_load(m->base, it->ino, &it->base, err));
		CB_TRY(merge_unit_load(m->ours, it->ino, &it->ours, err));
		CB_TRY(merge_unit_load(m->theirs, it->ino, &it->theirs, err));
		CB_TRY(merge_note_written(m, it, err));
		const remade *r = merge_remade_of(m, it->ino);
		it->replaced_here = r && r->here && r->here != r->old;
		it->replaced_there = r && r->there && r->there != r->old;
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

cb_code merge_file_at(const tree_view *v, const place *at, inode *out, bool *found, cb_error *err)
{
	cb_code code = inode_at(v, at->parent, place_name(at), out, NULL, err);
	*found = code == CB_OK && out->rec.type == CB_FILE;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* ---- files that were replaced ---- */

/* What sits at a place, when neither the base nor the other side knows it. */
typedef struct successor {
	uint64_t ino; /* 0: nothing */
	cb_type type;
} successor;

/* One that they know is itself, not a successor, and so is one that is in dispute: it is decided about by itself. */
static cb_code successor_at(merge *m, const tree_view *side, const tree_view *other, const place *at, successor *out, cb_error *err)
{
	inode node;
	place ignored;
	*out = (successor){0};
	cb_code code = inode_at(side, at->parent, place_name(at), &node, NULL, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	if (merge_disputes_ino(m->disputed, node.rec.ino)) return CB_OK;
	cb_code known = inode_place(m->base, node.rec.ino, &ignored, err);
	if (known == CB_NOTFOUND) known = inode_place(other, node.rec.ino, &ignored, err);
	if (known != CB_OK && known != CB_NOTFOUND) return known;
	if (known == CB_NOTFOUND) *out = (successor){node.rec.ino, node.rec.type};
	return CB_OK;
}

cb_code merge_new_file_here(merge *m, const place *at, uint64_t *out, cb_error *err)
{
	successor s;
	CB_TRY(successor_at(m, m->ours, m->theirs, at, &s, err));
	*out = s.type == CB_FILE && merge_item_number(m, s.ino) == s.ino ? s.ino : 0;
	return CB_OK;
}

/* Is a new file of a side, where the base had one, another than `than`? *out stays true. */
static cb_code is_another(merge *m, const tree_view *side, const tree_view *other, const place *at, uint64_t than, bool *out,
                          cb_error *err)
{
	inode old;
	bool had = false;
	successor s;
	CB_TRY(merge_file_at(m->base, at, &old, &had, err));
	if (!had) return CB_OK;
	CB_TRY(successor_at(m, side, other, at, &s, err));
	*out = *out || (s.type == CB_FILE && s.ino && s.ino != than);
	return CB_OK;
}

cb_code merge_new_files_cross(merge *m, const item *it, uint64_t mine, bool *out, cb_error *err)
{
	unit here = {0};
	*out = false;
	for (size_t i = 0; i < it->theirs.count && it->theirs.count > 1; i++)
		CB_TRY(is_another(m, m->ours, m->theirs, &it->theirs.places[i], mine, out, err));
	cb_code code = *out ? CB_OK : merge_unit_load(m->ours, mine, &here, err);
	for (size_t i = 0; code == CB_OK && i < here.count && here.count > 1; i++)
		code = is_another(m, m->theirs, m->ours, &here.places[i], merge_ino_there(it), out, err);
	free(here.places);
	return code;
}

/* A file is taken for the successor of one file only: two that were merged into it would overwrite each other. Both sides may have it. */
static cb_code successor_take(merge *m, uint64_t ino, uint64_t of, bool *taken, cb_error *err)
{
	span value;
	key k = key_inode(ino);
	bool known = pmap_get(&m->successors, key_span(&k), &value) == PMAP_VALUE;
	*taken = !known || memcmp(value.bytes, &of, sizeof(of)) == 0;
	return known ? CB_OK : pmap_put(&m->successors, key_span(&k), span_make(&of, sizeof(of)), err);
}

uint64_t merge_item_number(const merge *m, uint64_t ino)
{
	span value;
	key k = key_inode(ino);
	if (pmap_get(&m->successors, key_span(&k), &value) == PMAP_VALUE) memcpy(&ino, value.bytes, sizeof(ino));
	return ino;
}

static cb_code take_here(merge *m, item *it, uint64_t ino, cb_error *err)
{
	bool taken = false;
	CB_TRY(successor_take(m, ino, it->ino, &taken, err));
	if (!taken) return CB_OK;
	it->replaced_here = true;
	return merge_unit_load(m->ours, ino, &it->ours, err);
}

static cb_code take_there(merge *m, item *it, uint64_t ino, cb_error *err)
{
	bool taken = false;
	item *made = merge_item_find(m, ino);
	if (!made || !made->theirs.present) return CB_OK;
	CB_TRY(successor_take(m, ino, it->ino, &taken, err));
	if (!taken) return CB_OK;
	it->replaced_there = true;
	it->theirs = made->theirs; /* its own item has nothing left to say */
	made->theirs = (unit){0};
	made->stands_for = it->ino;
	return CB_OK;
}

/*
 * Boxes that merged each other crosswise may have one file under two numbers, each its own: both had made it, or one had replaced it. The
 * base, which is merged of what they had, has one of these, and the file is the same wherever a side has moved it since. (Where ours did
 * not change it, and theirs did not move it, theirs' comes in its place, as that of any file that was replaced: so the two have one number
 * again.)
 */
static cb_code find_other_number(merge *m, item *it, cb_error *err)
{
	uint64_t here = 0, there = 0;
	bool same = false;
	if (!it->base.present || it->disputed || it->base.node.rec.type == CB_DIR) return CB_OK;
	if (!it->ours.present) CB_TRY(merge_other_number(m, m->ours, it->ino, &here, err));
	if (!it->theirs.present) CB_TRY(merge_other_number(m, m->theirs, it->ino, &there, err));
	if (there && it->ours.present) CB_TRY(unit_same(m, m->base, &it->base, m->ours, &it->ours, &same, err));
	const item *made = there ? merge_item_find(m, there) : NULL;
	if (here) CB_TRY(take_here(m, it, here, err));
	if (made && !(same && merge_places_equal(&it->base, &made->theirs))) CB_TRY(take_there(m, it, there, err));
	it->replaced_here = it->replaced_there = false;
	return CB_OK;
}

/*
 * Both sides have a file or link that the base does not know, under a name where the base has one that both have no more: each took a save
 * by rename back, or merged who did. That one is its base, but not of attributes: it may have lost them as it was made. Where the sides
 * differ in those, there is no base. (A strict merge has no use for it: whatever both brought back conflicts. To take a step back is to
 * bring back what it lost.)
 */
static cb_code find_returned(merge *m, item *it, cb_error *err)
{
	if (it->base.present || !it->ours.present || !it->theirs.present || it->disputed || merge_is_strict(m)) return CB_OK;
	bool alike = it->ours.node.rec.type != CB_DIR;
	if (alike && !m->back) CB_TRY(attrs_same(m, m->ours, &it->ours, m->theirs, &it->theirs, KIND_ATTR, &alike, err));
	if (alike && !m->back) CB_TRY(attrs_same(m, m->ours, &it->ours, m->theirs, &it->theirs, KIND_TAG, &alike, err));
	for (size_t i = 0; alike && i < it->ours.count && !it->base.present; i++) {
		const place *at = &it->ours.places[i];
		inode node;
		if (!merge_place_in(&it->theirs, at)) continue;
		cb_code code = inode_at(m->base, at->parent, place_name(at), &node, NULL, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		item *old = code == CB_OK && node.rec.type == it->ours.node.rec.type ? merge_item_find(m, node.rec.ino) : NULL;
		if (!old || old->ours.present || old->theirs.present || old->disputed) continue;
		it->base = old->base;
		old->base = (unit){0};
	}
	return CB_OK;
}

/*
 * A file or link of the base that is gone on one side or both, with something new under one of its names. Where both sides have something
 * to compare, that must be of its kind. Where one side only took it away, the new thing is what the other made of it, a file or a link; in
 * a strict merge also a folder, or what came in the place of a folder: a decision for the removal then takes it away.
 */
static cb_code find_replaced(merge *m, item *it, cb_error *err)
{
	bool same = false, met = false, in_ours = it->ours.present, in_theirs = it->theirs.present, alone = !in_ours && !in_theirs;
	successor here, there;
	uint64_t best_here = 0, best_there = 0;
	cb_type type = it->base.node.rec.type;
	if (!it->base.present || (in_ours && in_theirs)) return CB_OK;
	if (type == CB_DIR && (!alone || !merge_is_strict(m))) return CB_OK;
	if (in_ours) CB_TRY(unit_same(m, m->base, &it->base, m->ours, &it->ours, &same, err));
	if (in_theirs) CB_TRY(unit_same(m, m->base, &it->base, m->theirs, &it->theirs, &same, err));
	if (same && !it->disputed && !it->written_here && !it->written_there)
		return CB_OK; /* the new one comes, or stays, as it is, under its own number */
	for (size_t i = 0; i < it->base.count; i++) {
		const place *at = &it->base.places[i];
		CB_TRY(successor_at(m, m->ours, m->theirs, at, &here, err));
		CB_TRY(successor_at(m, m->theirs, m->ours, at, &there, err));
		if (in_ours && here.ino == it->ours.node.rec.ino) here.ino = 0; /* itself, under another number */
		if (in_theirs && there.ino == it->theirs.node.rec.ino) there.ino = 0;
		/* Theirs relied on the name, which another has by now: what it made is for this name, wherever the old one went. */
		if (merge_disputes_name(m->disputed, at)) there.ino = 0;
		/* Who has it elsewhere came perhaps from a past that never had it here. */
		bool elsewhere = !alone && !merge_place_in(in_ours ? &it->ours : &it->theirs, at);
		if (it->disputed && elsewhere) continue;
		bool of_its_kind = !alone || (here.ino && there.ino), any = merge_is_strict(m);
		if (of_its_kind ? here.type != type : here.type == CB_DIR && !any) here.ino = 0;
		if (of_its_kind ? there.type != type : there.type == CB_DIR && !any) there.ino = 0;
		bool both = here.ino && there.ino;
		if (!alone && both) {
			it->aside = !it->disputed;
			return CB_OK;
		}
		bool better = both || (!elsewhere && !met); /* compared where the other side still has it, if anywhere */
		if (here.ino && !in_ours && (!best_here || better)) best_here = here.ino;
		if (there.ino && !in_theirs && (!best_there || better)) best_there = there.ino;
		met = met || (!elsewhere && (here.ino || there.ino));
		if (both) break;
		if (alone && best_here && best_there) return CB_OK; /* under different names: each is its own */
	}
	if (best_here) CB_TRY(take_here(m, it, best_here, err));
	return best_there ? take_there(m, it, best_there, err) : CB_OK;
}

/*
 * A file in dispute that only one side has, where the other has another under its one name, which the first does not have: each side
 * holds one of those that the common pasts had there. They are compared as one file. (What is in no dispute was replaced: find_replaced.)
 */
static cb_code find_rival(merge *m, item *it, cb_error *err)
{
	bool in_ours = it->ours.present, taken = false;
	const unit *has = in_ours ? &it->ours : &it->theirs;
	const tree_view *side = in_ours ? m->ours : m->theirs, *other = in_ours ? m->theirs : m->ours;
	inode node, ignored;
	if (!it->disputed || it->stands_for || in_ours == it->theirs.present || has->count != 1 || has->node.rec.type == CB_DIR)
		return CB_OK;
	const place *at = &has->places[0];
	cb_code code = inode_at(other, at->parent, place_name(at), &node, NULL, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	if (node.rec.type != has->node.rec.type || node.rec.links != 1) return CB_OK;
	code = inode_find(side, node.rec.ino, &ignored, err);
	if (code != CB_NOTFOUND) return code;
	bool itself = false; /* which the other side moved there */
	if (!merge_disputes_ino(m->disputed, node.rec.ino)) CB_TRY(merge_is_present(m->base, node.rec.ino, &itself, err));
	if (itself) return CB_OK;
	CB_TRY(successor_take(m, node.rec.ino, it->ino, &taken, err));
	if (!taken) return CB_OK;
	item *rival = merge_item_find(m, node.rec.ino);
	if (rival) rival->stands_for = it->ino;
	*(in_ours ? &it->replaced_there : &it->replaced_here) = true;
	return merge_unit_load(other, node.rec.ino, in_ours ? &it->theirs : &it->ours, err);
}

/* ---- deciding ---- */

/* Several common pasts conflict in it, or have it not though both sides do: nobody knows from what it came, so sides that differ
 * conflict, in whatever field. Theirs wins: as if ours had been the base. */
static cb_code decide_disputed(merge *m, item *it, cb_error *err)
{
	bool same = !it->ours.present && !it->theirs.present, theirs_wins = false;
	const char *reason = merge_disputes_ino(m->disputed, it->ino) ? m->disputed->reason
	                                                              : "different on both sides, and not in what both came from";
	if (it->ours.present && it->theirs.present) CB_TRY(unit_same(m, m->ours, &it->ours, m->theirs, &it->theirs, &same, err));
	if (!same || merge_is_strict(m)) CB_TRY(merge_conflict_at(m, it, reason, &theirs_wins, err));
	it->fate = FATE_DONE;
	it->into = it->ours.present ? merge_ino_here(it) : 0;
	if (!same && !it->ours.present) theirs_wins = merge_brings(m, theirs_wins);
	/* Who has it loses it, or has it elsewhere: what the winner has in its place stays. */
	bool goes = theirs_wins ? !it->theirs.present : !it->ours.present;
	if (!same && (goes || !merge_places_equal(&it->ours, &it->theirs))) CB_TRY(merge_settle_covered(m, it, theirs_wins, err));
	const unit *stays = theirs_wins ? &it->theirs : &it->ours;
	if (!same && !goes && !(it->ours.present && it->theirs.present) && stays->node.rec.type == CB_DIR)
		CB_TRY(merge_settle_below(m, stays->node.rec.ino, theirs_wins ? SETTLED_THEIRS : SETTLED_OURS, err));
	if (!theirs_wins && it->settled != SETTLED_THEIRS) return CB_OK;
	it->fate = !it->theirs.present ? FATE_DELETE : it->ours.present ? FATE_FIELDS : FATE_ADD;
	if (it->fate == FATE_ADD) it->into = merge_ino_there(it);
	free(it->base.places);
	it->base = it->ours;
	it->base.places = it->ours.count ? mem_dup(it->ours.places, it->ours.count * sizeof(place)) : NULL;
	if (it->ours.count && !it->base.places) return cb_err_nomem(err);
	return merge_settle_names(m, it, err);
}

/* A folder that both deleted stands for all that was in it. */
static cb_code decide_gone_on_both(merge *m, item *it, cb_error *err)
{
	it->fate = FATE_DONE;
	it->into = 0;
	if (!merge_is_strict(m)) return CB_OK;
	const item *above = it->base.count ? merge_item_find(m, it->base.places[0].parent) : NULL;
	bool theirs_wins = false;
	if (above && above->base.present && !(above->ours.present && above->theirs.present) &&
	    (!above->ours.present || above->replaced_here) && (!above->theirs.present || above->replaced_there))
		return CB_OK;
	CB_TRY(merge_conflict_name(m, it, 0, &it->base.places[0], "deleted on both sides", &theirs_wins, err));
	it->settled = theirs_wins ? SETTLED_THEIRS : SETTLED_OURS; /* its names: merge_drop_links */
	return CB_OK;
}

/* One side changed a file that the other does not have any more: the words, which say when it has a folder in its place. Who decides about
 * the one decides about the other, and about what is in it. */
static cb_code why_deleted(const merge *m, const item *it, bool here, const char **out, cb_error *err)
{
	inode node;
	*out = here ? "deleted here, changed there" : "changed here, deleted there";
	if (it->base.count != 1 || it->base.node.rec.type == CB_DIR) return CB_OK;
	const place *at = &it->base.places[0];
	cb_code code = inode_at(here ? m->ours : m->theirs, at->parent, place_name(at), &node, NULL, err);
	if (code == CB_OK && node.rec.type == CB_DIR) *out = here ? "a folder here, changed there" : "changed here, a folder there";
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code decide_deleted(merge *m, item *it, cb_error *err)
{
	const char *why;
	it->fate = FATE_DONE;
	bool same = false, theirs_wins = true;
	if (it->settled == SETTLED_OURS) return CB_OK;
	CB_TRY(unit_same(m, m->base, &it->base, m->ours, &it->ours, &same, err));
	if (!same || merge_renewed_here(m, it)) {
		CB_TRY(why_deleted(m, it, false, &why, err));
		CB_TRY(merge_conflict_where(m, it, why, &theirs_wins, err));
	}
	if (!theirs_wins) {
		/* The folder stays with what is in it: the other side took that away with the folder. */
		if (it->ours.node.rec.type == CB_DIR) CB_TRY(merge_settle_below(m, merge_ino_here(it), SETTLED_OURS, err));
		return merge_keep(m, merge_ino_here(it), err);
	}
	it->fate = FATE_DELETE;
	return merge_settle_covered(m, it, true, err);
}

/* To take a step back that moved it: has ours something new where it was? What stood for it was moved there when the step was taken back
 * before; 0: no. */
static cb_code find_back(merge *m, const item *it, uint64_t *out, cb_error *err)
{
	*out = 0;
	for (size_t i = 0; i < it->theirs.count; i++) {
		successor s;
		if (merge_place_in(&it->base, &it->theirs.places[i])) continue;
		CB_TRY(successor_at(m, m->ours, m->theirs, &it->theirs.places[i], &s, err));
		bool one = s.ino && s.type == it->theirs.node.rec.type && (!*out || *out == s.ino) &&
		           merge_item_number(m, s.ino) == s.ino; /* it stands for no other, which is still to be moved */
		*out = one ? s.ino : 0;
		if (!one) return CB_OK;
	}
	return CB_OK;
}

static cb_code decide_gone_here(merge *m, item *it, cb_error *err)
{
	bool same = false, theirs_wins = false;
	uint64_t back = 0;
	const char *why;
	it->fate = it->settled == SETTLED_THEIRS ? FATE_ADD : FATE_DONE;
	if (it->fate == FATE_ADD) return CB_OK;
	if (m->back) CB_TRY(find_back(m, it, &back, err));
	if (back) {
		it->into = back;
		return CB_OK;
	}
	CB_TRY(unit_same(m, m->base, &it->base, m->theirs, &it->theirs, &same, err));
	if (same && !merge_renewed_there(m, it)) { /* a folder whose entries changed: they speak for themselves */
		it->into = 0;
		return CB_OK;
	}
	CB_TRY(why_deleted(m, it, true, &why, err));
	CB_TRY(merge_conflict_where(m, it, why, &theirs_wins, err));
	if (merge_brings(m, theirs_wins)) {
		it->fate = FATE_ADD;
		it->brought = theirs_wins;
		return it->theirs.node.rec.type == CB_DIR ? merge_settle_below(m, merge_ino_there(it), SETTLED_THEIRS, err) : CB_OK;
	}
	it->into = 0;
	return merge_settle_covered(m, it, false, err);
}

static cb_code decide(merge *m, item *it, cb_error *err)
{
	it->fate = FATE_FIELDS;
	it->into = it->ours.present ? merge_ino_here(it) : merge_ino_there(it);
	bool returned = !it->base.present && it->ours.present && it->theirs.present;
	it->disputed = it->disputed || (returned && !m->back);
	if (it->stands_for || (returned && m->back)) { /* the step took it away, and it is back: nothing is left of that */
		it->fate = FATE_DONE;
		return CB_OK;
	}
	if (it->disputed) return decide_disputed(m, it, err);
	if (it->aside) { /* under its old name both sides have new files, which are merged; the old one stays where it was put */
		it->fate = it->ours.present ? FATE_DONE : FATE_ADD;
		return CB_OK;
	}
	if (!it->theirs.present && !it->base.present) it->fate = FATE_DONE;
	else if (!it->theirs.present && !it->ours.present) return decide_gone_on_both(m, it, err);
	else if (!it->theirs.present) return decide_deleted(m, it, err);
	else if (!it->ours.present && it->base.present) return decide_gone_here(m, it, err);
	else if (!it->ours.present) it->fate = FATE_ADD;
	return CB_OK;
}

/* ---- the whole ---- */

/* Key-values and inodes that theirs changed, and those that have no base: there ours may differ where theirs is as the base. */
static cb_code gather_all(merge *m, cb_error *err)
{
	pmap_cursor c;
	span key_bytes, value;
	bool tombstone;
	CB_TRY(tree_diff(m->base, m->theirs, gather, m, err));
	for (pmap_seek(&c, &m->settled, (span){0}); pmap_cursor_get(&c, &key_bytes, &value, &tombstone); pmap_cursor_next(&c)) {
		key_parts parts;
		CB_TRY(key_parse(key_bytes, &parts, err));
		CB_TRY(add_ino(m, parts.ino, err));
	}
	if (!m->disputed) return CB_OK;
	CB_TRY(buf_append(&m->inos, m->disputed->inos.bytes, m->disputed->inos.size, err));
	if (m->again) return CB_OK;
	for (pmap_seek(&c, &m->disputed->keys, (span){0}); pmap_cursor_get(&c, &key_bytes, &value, &tombstone);
	     pmap_cursor_next(&c)) {
		tree_value theirs;
		cb_code code = tree_get(m->theirs, key_bytes, &theirs, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		CB_TRY(merge_kv(m, key_bytes, (span){0}, code == CB_OK ? span_make(theirs.bytes, theirs.size) : (span){0}, err));
	}
	return CB_OK;
}

static cb_code merge_run(merge *m, cb_error *err)
{
	bool remade_found = false;
	CB_TRY(gather_all(m, err));
	inos_sort(m);
	CB_TRY(merge_find_remade(m, &remade_found, err));
	const remade *all = (const remade *)(const void *)m->remade.bytes;
	for (size_t i = 0; i < m->remade.size / sizeof(*all); i++)
		if (all[i].there) CB_TRY(merge_note_number(m, all[i].number, all[i].there, err));
	if (remade_found) { /* once more, with ours' numbers */
		m->again = true;
		m->inos.size = 0;
		CB_TRY(gather_all(m, err));
		inos_sort(m);
	}
	CB_TRY(items_load(m, err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(find_other_number(m, &m->items[i], err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(find_returned(m, &m->items[i], err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(find_replaced(m, &m->items[i], err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(find_rival(m, &m->items[i], err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(merge_settle_names(m, &m->items[i], err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(decide(m, &m->items[i], err));
	CB_TRY(merge_delete_files(m, err));
	CB_TRY(merge_park_moves(m, err));
	for (size_t i = 0; i < m->count; i++) CB_TRY(merge_drop_links(m, &m->items[i], err));
	CB_TRY(merge_delete_empty_dirs(m, err));
	CB_TRY(merge_place_all(m, err));
	if (m->unsettled) return CB_OK; /* to be made once more */
	for (size_t i = 0; i < m->count; i++) {
		if (m->items[i].aside) CB_TRY(merge_successors_here(m, &m->items[i], err));
		if (m->items[i].fate != FATE_FIELDS) continue;
		CB_TRY(merge_add_links(m, &m->items[i], err));
		CB_TRY(merge_fields(m, &m->items[i], err));
		CB_TRY(merge_note_number(m, merge_ino_here(&m->items[i]), merge_ino_there(&m->items[i]), err));
	}
	if (m->unsettled) return CB_OK;
	CB_TRY(merge_delete_empty_dirs(m, err));
	CB_TRY(merge_delete_other_dirs(m, err));
	if (!m->unsettled) CB_TRY(merge_place_last(m, err));
	if (m->unsettled) return CB_OK;
	for (size_t i = 0; i < m->count; i++) CB_TRY(merge_folder_times(m, &m->items[i], err));
	CB_TRY(merge_dispute_names(m, err));
	CB_TRY(merge_check_placed(m, err));
	CB_TRY(merge_check_answers(m, err));
	CB_TRY(merge_tell_contradictions(m, err));
	return merge_check_moved(m, err);
}

static void merge_done(merge *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->items[i].base.places);
		free(m->items[i].was.places);
		free(m->items[i].ours.places);
		free(m->items[i].theirs.places);
	}
	free(m->items);
	pmap_done(&m->successors);
	pmap_done(&m->judged);
	pmap_done(&m->kept);
	pmap_done(&m->data_for);
	pmap_done(&m->base_delta);
	pmap_done(&m->theirs_delta);
	buf_done(&m->contradictions);
	buf_done(&m->remade);
	buf_done(&m->inos);
}

/* One pass, over t as it was given. *settled: by earlier passes and by this one. */
static cb_code merge_pass(txn *t, const merge_sides *sides, merge_conflicts *conflicts, pmap *settled, bool *again, cb_error *err)
{
	merge m = {.t = t,
	           .base = sides->base,
	           .ours = sides->ours,
	           .theirs = sides->theirs,
	           .conflicts = conflicts,
	           .disputed = sides->disputed,
	           .written = sides->written,
	           .left = sides->left,
	           .back = sides->back,
	           .settled = *settled,
	           .contradictions = BUF_INIT(SIZE_MAX),
	           .remade = BUF_INIT(SIZE_MAX),
	           .inos = BUF_INIT(SIZE_MAX)};
	cb_code code = merge_run(&m, err);
	*settled = m.settled;
	*again = m.unsettled;
	merge_done(&m);
	return code;
}

cb_code merge_sides_into(txn *t, const merge_sides *sides, merge_conflicts *conflicts, cb_error *err)
{
	pmap settled = PMAP_EMPTY, delta = pmap_ref(&t->delta), keys = PMAP_EMPTY, numbers = PMAP_EMPTY;
	counters now = t->now;
	txn_quotas_lift(t); /* on the way there it may hold more than at its end */
	size_t left = sides->left ? sides->left->inos.size : 0;
	if (sides->left) keys = pmap_ref(&sides->left->keys);
	if (sides->left) numbers = pmap_ref(&sides->left->other_numbers);
	bool again = false;
	cb_code code = merge_pass(t, sides, conflicts, &settled, &again, err);
	while (code == CB_OK && again) {
		pmap_done(&t->delta);
		t->delta = pmap_ref(&delta);
		t->now = now;
		if (sides->left) {
			sides->left->inos.size = left;
			pmap_done(&sides->left->keys);
			sides->left->keys = pmap_ref(&keys);
			pmap_done(&sides->left->other_numbers);
			sides->left->other_numbers = pmap_ref(&numbers);
		}
		code = merge_pass(t, sides, conflicts, &settled, &again, err);
	}
	pmap_done(&settled);
	pmap_done(&delta);
	pmap_done(&keys);
	pmap_done(&numbers);
	return code;
}
