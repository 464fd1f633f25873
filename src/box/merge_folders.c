/*
 * merge_folders.c: folders that were removed and made again.
 *
 * To people, and to git, `rm -r e` and a new e is the same folder, as a file that was saved by rename is the same file. So a new folder
 * in the place of one of the base that is gone on that side stands for it, and so do folders inside of it, from the top down. Everything
 * else in the merge goes by inode number; so base and theirs are looked at through views in which such a folder has the number that it has
 * in ours. What was in it then meets by name: a file that was made again with its folder is one that was replaced (find_replaced).
 *
 * In a strict merge the new folder is still a change against its removal: the item says that it was replaced.
 *
 * Looked for are the folders in which theirs changed something, those into which ours moved something of that, and those above. Cost:
 * theirs' changes, and the entries of the folders that were made again.
 */
#include "box/merge.h"

#include <stdlib.h>

/* What stands for a folder of the base on each side; 0: nothing. The folder itself, where it is still there. */
typedef struct standing {
	uint64_t here, there;
} standing;

static bool judged_find(const merge *m, uint64_t ino, standing *out)
{
	span value;
	key k = key_inode(ino);
	if (pmap_get(&m->judged, key_span(&k), &value) != PMAP_VALUE) return false;
	memcpy(out, value.bytes, sizeof(*out));
	return true;
}

/* The folder of a side at a place, when the base does not know it, nor is it in dispute: that is decided about by itself. 0: none. */
static cb_code new_folder_at(const merge *m, const tree_view *side, uint64_t parent, span name, uint64_t *out, cb_error *err)
{
	inode node;
	bool known = false;
	*out = 0;
	if (!parent) return CB_OK;
	cb_code code = inode_at(side, parent, name, &node, NULL, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return code;
	if (node.rec.type == CB_DIR) CB_TRY(merge_base_knows(m, node.rec.ino, &known, err));
	*out = node.rec.type == CB_DIR && !known && !merge_disputes_ino(m->disputed, node.rec.ino) ? node.rec.ino : 0;
	return CB_OK;
}

/* Does a folder of a side stand for another of the base already? It can for one only. */
static bool is_standing(const merge *m, uint64_t ino)
{
	const remade *all = (const remade *)(const void *)m->remade.bytes;
	for (size_t i = 0; ino && i < m->remade.size / sizeof(*all); i++)
		if (all[i].here == ino || all[i].there == ino) return true;
	return false;
}

/* One folder of the base, after those above it. */
static cb_code judge(merge *m, uint64_t dir, cb_error *err)
{
	place was;
	bool in_ours = false, in_theirs = false, known = false;
	CB_TRY(merge_is_present(m->ours, dir, &in_ours, err));
	CB_TRY(merge_is_present(m->theirs, dir, &in_theirs, err));
	standing s = {in_ours ? dir : 0, in_theirs ? dir : 0}, above = {0, 0};
	if ((!in_ours || !in_theirs) && !merge_disputes_ino(m->disputed, dir)) {
		if (!in_ours) CB_TRY(merge_other_number(m, m->ours, dir, &s.here, err));
		if (!in_theirs) CB_TRY(merge_other_number(m, m->theirs, dir, &s.there, err));
		if (is_standing(m, s.here)) s.here = 0;
		if (is_standing(m, s.there)) s.there = 0;
		in_ours = s.here;
		in_theirs = s.there;
		CB_TRY(inode_place(m->base, dir, &was, err));
		if (!judged_find(m, was.parent, &above)) above = (standing){was.parent, was.parent};
		if (!in_ours) CB_TRY(new_folder_at(m, m->ours, above.here, place_name(&was), &s.here, err));
		if (!in_theirs) CB_TRY(new_folder_at(m, m->theirs, above.there, place_name(&was), &s.there, err));
		/* One that the other side has too is itself, not a successor; unless it took that place there as well. */
		if (!in_ours && s.here && s.here != s.there) {
			CB_TRY(merge_is_present(m->theirs, s.here, &known, err));
			if (known) s.here = 0;
		}
		if (!in_theirs && s.there && s.here != s.there) {
			CB_TRY(merge_is_present(m->ours, s.there, &known, err));
			if (known) s.there = 0;
		}
	}
	key k = key_inode(dir);
	CB_TRY(pmap_put(&m->judged, key_span(&k), span_make(&s, sizeof(s)), err));
	if ((!s.here || s.here == dir) && (!s.there || s.there == dir)) return CB_OK;
	remade made = {.old = dir, .number = s.here ? s.here : dir, .here = s.here, .there = s.there};
	return buf_append(&m->remade, &made, sizeof(made), err);
}

/* A folder of the base and those above it, the topmost first. */
static cb_code judge_way(merge *m, uint64_t dir, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX);
	standing s;
	for (climb up = climb_from(dir); up.at != INO_ROOT && !judged_find(m, up.at, &s);) {
		CB_TRY(buf_append(&way, &up.at, sizeof(up.at), err));
		CB_TRY(climb_up(&up, m->base, NULL, err));
	}
	for (size_t i = way.size / sizeof(dir); i > 0; i--) {
		memcpy(&dir, way.bytes + (i - 1) * sizeof(dir), sizeof(dir));
		CB_TRY(judge(m, dir, err));
	}
	return CB_OK;
}

static cb_code judge_place(void *context, span key_bytes, span value, cb_error *err)
{
	(void)value;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	return parts.parent == INO_ROOT ? CB_OK : judge_way(context, parts.parent, err);
}

/* A folder of ours that the base does not know: the one that the base has by its path, if there is one. */
static cb_code judge_new(merge *m, uint64_t dir, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX); /* places */
	bool known = false;
	climb up = climb_from(dir);
	for (; !known;) {
		uint8_t *next;
		CB_TRY(buf_extend(&way, sizeof(place), &next, err));
		CB_TRY(climb_up(&up, m->ours, (place *)(void *)next, err));
		CB_TRY(merge_is_present(m->base, up.at, &known, err));
	}
	inode node = {.rec.ino = up.at};
	for (size_t i = way.size / sizeof(place); i > 0; i--) {
		const place *at = (const place *)(const void *)way.bytes + (i - 1);
		cb_code code = inode_at(m->base, node.rec.ino, place_name(at), &node, NULL, err);
		if (code == CB_NOTFOUND || (code == CB_OK && node.rec.type != CB_DIR)) return CB_OK;
		if (code != CB_OK) return code;
	}
	return judge_way(m, node.rec.ino, err);
}

static cb_code judge_place_here(void *context, span key_bytes, span value, cb_error *err)
{
	merge *m = context;
	bool known = false;
	(void)value;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	CB_TRY(merge_is_present(m->base, parts.parent, &known, err));
	return known ? CB_OK : judge_new(m, parts.parent, err);
}

/* Something that theirs changed: the folders it was in and is in here, and itself if it is one. */
static cb_code judge_around(merge *m, uint64_t ino, cb_error *err)
{
	inode node;
	if (ino == INO_ROOT) return CB_OK;
	cb_code code = inode_find(m->base, ino, &node, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	CB_TRY(inode_keys(m->ours, ino, KIND_NAME, judge_place_here, m, err));
	if (node.rec.type == CB_DIR) return judge_way(m, ino, err);
	return inode_keys(m->base, ino, KIND_NAME, judge_place, m, err);
}

/* ---- the same folder under another number ---- */

typedef struct renumbering {
	pmap *delta;
	uint64_t from, to;
} renumbering;

static cb_code move_key(const renumbering *r, span old_key, const key *new_key, span value, cb_error *err)
{
	CB_TRY(pmap_put_tombstone(r->delta, old_key, err));
	return pmap_put(r->delta, key_span(new_key), value, err);
}

static cb_code move_child(void *context, span key_bytes, span value, cb_error *err)
{
	const renumbering *r = context;
	key_parts parts;
	entry e;
	CB_TRY(key_parse(key_bytes, &parts, err));
	CB_TRY(entry_decode(value, &e, err));
	key at = key_entry(r->to, parts.name), was = key_name(e.rec.ino, r->from, parts.name),
	    is = key_name(e.rec.ino, r->to, parts.name);
	CB_TRY(move_key(r, key_bytes, &at, value, err));
	return move_key(r, key_span(&was), &is, span_make("", 0), err);
}

static cb_code move_attribute(void *context, span key_bytes, span value, cb_error *err)
{
	const renumbering *r = context;
	key k = {.size = key_bytes.size};
	memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
	put_be64(k.bytes + 1, r->to);
	return move_key(r, key_bytes, &k, value, err);
}

static cb_code renumber_in(const tree_view *v, pmap *delta, uint64_t from, uint64_t to, cb_error *err)
{
	renumbering r = {delta, from, to};
	place p;
	inode node;
	CB_TRY(inode_place(v, from, &p, err));
	CB_TRY(inode_at(v, p.parent, place_name(&p), &node, NULL, err));
	CB_TRY(inode_keys(v, from, KIND_ENTRY, move_child, &r, err));
	CB_TRY(inode_keys(v, from, KIND_ATTR, move_attribute, &r, err));
	CB_TRY(inode_keys(v, from, KIND_TAG, move_attribute, &r, err));
	entry e = {.rec = node.rec};
	tree_value value;
	e.rec.ino = to;
	entry_encode(&e, &value);
	key at = key_entry(p.parent, place_name(&p)), was = key_name(from, p.parent, place_name(&p)),
	    is = key_name(to, p.parent, place_name(&p));
	CB_TRY(pmap_put(delta, key_span(&at), span_make(value.bytes, value.size), err));
	return move_key(&r, key_span(&was), &is, span_make("", 0), err);
}

/* The view with a folder under another number; reads stay on the map as it was. */
static cb_code view_renumber(tree_view *v, pmap *delta, uint64_t from, uint64_t to, cb_error *err)
{
	if (!from || from == to) return CB_OK;
	pmap before = pmap_ref(delta);
	tree_view old = *v;
	old.delta = &before;
	cb_code code = renumber_in(&old, delta, from, to, err);
	pmap_done(&before);
	return code;
}

static cb_code views_renumber(merge *m, cb_error *err)
{
	m->base_here = *m->base;
	m->theirs_here = *m->theirs;
	if (m->base->delta) m->base_delta = pmap_ref(m->base->delta);
	if (m->theirs->delta) m->theirs_delta = pmap_ref(m->theirs->delta);
	m->base_here.delta = &m->base_delta;
	m->theirs_here.delta = &m->theirs_delta;
	const remade *all = (const remade *)(const void *)m->remade.bytes;
	for (size_t i = 0; i < m->remade.size / sizeof(*all); i++) {
		CB_TRY(view_renumber(&m->base_here, &m->base_delta, all[i].old, all[i].number, err));
		CB_TRY(view_renumber(&m->theirs_here, &m->theirs_delta, all[i].there, all[i].number, err));
	}
	m->base = &m->base_here;
	m->theirs = &m->theirs_here;
	return CB_OK;
}

static int remade_compare(const void *a, const void *b)
{
	const remade *x = a, *y = b;
	return x->number < y->number ? -1 : x->number > y->number;
}

cb_code merge_find_remade(merge *m, bool *found, cb_error *err)
{
	const uint64_t *inos = (const uint64_t *)(const void *)m->inos.bytes;
	for (size_t i = 0; i < m->inos.size / sizeof(*inos); i++)
		if (i == 0 || inos[i] != inos[i - 1]) CB_TRY(judge_around(m, inos[i], err));
	*found = m->remade.size > 0;
	if (!*found) return CB_OK;
	CB_TRY(views_renumber(m, err));
	qsort(m->remade.bytes, m->remade.size / sizeof(remade), sizeof(remade), remade_compare);
	return CB_OK;
}

const remade *merge_remade_of(const merge *m, uint64_t number)
{
	remade wanted = {.number = number};
	if (!m->remade.size) return NULL;
	return bsearch(&wanted, m->remade.bytes, m->remade.size / sizeof(remade), sizeof(remade), remade_compare);
}
