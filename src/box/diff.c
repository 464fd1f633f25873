/*
 * diff.c: what changed between two states, by path.
 *
 * The tree's difference gives keys; they lead to the inodes that changed; each is looked up on both sides and told as one change.
 * Cost in proportion to the change, plus the depth of the paths. A folder whose own place changed is told once, not per file below
 * it; but for a patch, whose reader knows files only, each file below it is told (by_path).
 */
#include "box/diff.h"
#include "base/args.h"
#include "base/cancel.h"
#include "box/cursor.h"
#include "box/gate.h"
#include "box/near_path.h"

#include <stdlib.h>

typedef struct change_row {
	cb_change c;
	cb_stat_info old_info, new_info; /* rows are sorted: c points to them only once they are in order */
	char *path, *old_path;           /* owned */
} change_row;

enum { DIFF_PATH_BYTES = 1 << 20 };

typedef struct diffing {
	cb_store *cs;
	const txn *ta, *tb; /* whose views they are; NULL: none's */
	const tree_view *a, *b;
	buf inos;    /* uint64_t: number << 1, + 1 when an attribute or tag changed */
	buf folders; /* uint64_t: of those whose entries differ, folders */
	buf rows;    /* change_row */
	near_path near_a, near_b;
	uint64_t path_bytes; /* of the rows */
	bool by_path;        /* each file below a folder that moved is told as moved: for patches, which know no folders */
} diffing;

/* ---- which inodes ---- */

static cb_code add_ino(diffing *d, uint64_t ino, bool attrs, cb_error *err)
{
	uint64_t packed = ino << 1 | attrs;
	return buf_append(&d->inos, &packed, sizeof(packed), err);
}

static cb_code add_value_ino(diffing *d, span value, cb_error *err)
{
	if (!value.bytes) return CB_OK;
	entry e;
	CB_TRY(entry_decode(value, &e, err));
	if (!e.is_link && e.rec.type == CB_DIR) CB_TRY(buf_append(&d->folders, &e.rec.ino, sizeof(uint64_t), err));
	return add_ino(d, e.rec.ino, false, err);
}

static cb_code row_add(diffing *d, const change_row *row, cb_error *err)
{
	cb_code code = buf_append(&d->rows, row, sizeof(*row), err);
	if (code != CB_OK) {
		free(row->path);
		free(row->old_path);
	}
	return code;
}

static cb_code add_kv(diffing *d, span name, bool has_old, bool has_new, cb_error *err)
{
	change_row row = {.c = {.kind = CB_KEYVALUE, .has_old = has_old, .has_new = has_new}};
	row.path = mem_alloc(name.size + 1);
	if (!row.path) return cb_err_nomem(err);
	memcpy(row.path, name.bytes, name.size);
	row.path[name.size] = 0;
	return row_add(d, &row, err);
}

static cb_code gather(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	diffing *d = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	switch (parts.kind) {
	case KIND_ENTRY:
		CB_TRY(add_value_ino(d, old_value, err));
		return add_value_ino(d, new_value, err);
	case KIND_KV: {
		bool same = false;
		if (old_value.bytes && new_value.bytes) CB_TRY(values_equal(d->cs, d->ta, old_value, d->tb, new_value, &same, err));
		return same ? CB_OK : add_kv(d, parts.name, old_value.bytes != NULL, new_value.bytes != NULL, err);
	}
	case KIND_COUNTERS:
		return CB_OK;
	default:
		return add_ino(d, parts.ino, parts.kind == KIND_ATTR || parts.kind == KIND_TAG, err);
	}
}

/* ---- folders that came out of where they are hidden, or went there ---- */

static cb_code add_listed(void *context, span key_bytes, span value, cb_error *err)
{
	buf *out = context;
	(void)key_bytes;
	entry e;
	CB_TRY(entry_decode(value, &e, err));
	return buf_append(out, &e.rec.ino, sizeof(uint64_t), err);
}

static cb_code add_below(diffing *d, const tree_view *v, uint64_t folder, cb_error *err)
{
	AUTO_BUF buf all = BUF_INIT(SIZE_MAX); /* uint64_t: those done, then those to do */
	CB_TRY(inode_keys(v, folder, KIND_ENTRY, add_listed, &all, err));
	for (size_t i = 0; i < all.size / sizeof(uint64_t); i++) {
		uint64_t ino = ((const uint64_t *)(const void *)all.bytes)[i];
		CB_TRY(add_ino(d, ino, false, err));
		CB_TRY(inode_keys(v, ino, KIND_ENTRY, add_listed, &all, err)); /* none, if it is no folder */
	}
	return CB_OK;
}

static cb_code is_there(const tree_view *v, uint64_t ino, bool *out, inode *node, cb_error *err)
{
	cb_code code = inode_find(v, ino, node, err);
	*out = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* A folder that one side hides and the other does not: what is in it has the same keys on both, so the difference does not tell it. */
static cb_code add_crossed(diffing *d, const tree_view *shown, const tree_view *hiding, cb_error *err)
{
	if (!hiding->veil) return CB_OK;
	tree_view all = view_raw(hiding);
	for (size_t i = 0, n = d->folders.size / sizeof(uint64_t); i < n; i++) {
		uint64_t ino = ((const uint64_t *)(const void *)d->folders.bytes)[i];
		inode node, other;
		bool here = false, there = false, hidden = false;
		CB_TRY(is_there(shown, ino, &here, &node, err));
		if (!here) continue;
		CB_TRY(is_there(hiding, ino, &there, &other, err));
		if (!there) CB_TRY(is_there(&all, ino, &hidden, &other, err));
		if (hidden) CB_TRY(add_below(d, shown, ino, err));
	}
	return CB_OK;
}

/* Everything below folders that are in another place. */
static cb_code add_moved(diffing *d, cb_error *err)
{
	place from, to;
	for (size_t i = 0, n = d->inos.size / sizeof(uint64_t); i < n; i++) {
		uint64_t ino = ((const uint64_t *)(const void *)d->inos.bytes)[i] >> 1;
		inode node, other;
		bool was = false, is = false;
		if (ino == INO_ROOT) continue;
		CB_TRY(is_there(d->a, ino, &was, &node, err));
		if (was && node.rec.type == CB_DIR) CB_TRY(is_there(d->b, ino, &is, &other, err));
		if (!is) continue;
		CB_TRY(inode_place(d->a, ino, &from, err));
		CB_TRY(inode_place(d->b, ino, &to, err));
		if (place_compare(&from, &to) == 0) continue;
		CB_TRY(add_below(d, d->a, ino, err));
		CB_TRY(add_below(d, d->b, ino, err));
	}
	return CB_OK;
}

/* ---- attributes, tags and metadata ---- */

static const uint8_t mark_kinds[] = {KIND_ATTR, KIND_TAG};

static cb_code mark_found(void *context, span key_bytes, span value, cb_error *err)
{
	(void)key_bytes;
	(void)value;
	(void)err;
	*(bool *)context = true;
	return CB_INTERRUPTED; /* one is enough */
}

static cb_code has_marks(const tree_view *v, uint64_t ino, bool *out, cb_error *err)
{
	*out = false;
	for (size_t i = 0; i < sizeof(mark_kinds) && !*out; i++) CB_TRY(inode_keys(v, ino, mark_kinds[i], mark_found, out, err));
	return CB_OK;
}

/* Of two different inodes. */
static cb_code marks_differ(diffing *d, uint64_t a, uint64_t b, bool *out, cb_error *err)
{
	bool same = true;
	for (size_t i = 0; i < sizeof(mark_kinds) && same; i++)
		CB_TRY(marks_equal(d->cs, d->ta, d->a, a, d->tb, d->b, b, mark_kinds[i], &same, err));
	*out = !same;
	return CB_OK;
}

/* ---- one inode ---- */

/* An inode as one side sees it. The root has no place. */
typedef struct side {
	const tree_view *v;
	near_path *near;
	buf places; /* place, sorted */
	inode node;
	bool present;
} side;

static size_t place_count(const side *s)
{
	return s->places.size / sizeof(place);
}

static const place *place_at(const side *s, size_t i)
{
	return (const place *)(const void *)s->places.bytes + i;
}

static cb_code side_load(side *s, uint64_t ino, cb_error *err)
{
	cb_code code;
	if (ino == INO_ROOT) {
		code = inode_find(s->v, ino, &s->node, err);
	} else {
		CB_TRY(inode_places(s->v, ino, &s->places, err));
		if (place_count(s) == 0) return CB_OK;
		const place *first = place_at(s, 0);
		code = inode_at(s->v, first->parent, place_name(first), &s->node, NULL, err);
	}
	if (code == CB_NOTFOUND)
		return cb_err_set(err, CB_CORRUPT, "inode %llu is not where its name says: run fsck", (unsigned long long)ino);
	s->present = code == CB_OK;
	return code;
}

/* free() it. p NULL: the root. */
static cb_code place_path(const side *s, const place *p, char **out, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(DIFF_PATH_BYTES);
	if (!p) {
		CB_TRY(buf_append_byte(&path, '/', err));
		return buf_take(&path, out, NULL, err);
	}
	cb_code code = near_path_of(s->near, s->v, p->parent, &path, err);
	if (code == CB_OK) code = buf_append_byte(&path, '/', err);
	if (code == CB_OK) code = buf_append(&path, p->name, p->size, err);
	if (code == CB_LIMIT) return cb_err_set(err, CB_LIMIT, "a changed path is longer than %d bytes", DIFF_PATH_BYTES);
	return code == CB_OK ? buf_take(&path, out, NULL, err) : code;
}

/* Access times are no difference: reading moves them. */
static bool attrs_differ(const record *a, const record *b)
{
	return a->mode != b->mode || (a->type != CB_DIR && a->mtime_ns != b->mtime_ns);
}

static cb_code data_differ(diffing *d, const record *a, const record *b, bool *out, cb_error *err)
{
	bool same = true;
	if (a->type != CB_DIR) CB_TRY(data_equal(d->cs, d->ta, d->a, a, d->tb, d->b, b, &same, err));
	*out = !same;
	return CB_OK;
}

/* What to tell: on which sides it is, and where. */
typedef struct telling {
	cb_change_kind kind;
	const side *a, *b; /* NULL: not there */
	const place *at;   /* on b, or on a when b is NULL */
	const place *was;  /* on a, of a rename; NULL: no rename */
	bool modified;
	bool attributes;
} telling;

/* free() it. */
static cb_code told_path(diffing *d, const side *s, const place *p, char **out, cb_error *err)
{
	AUTO_FREE char *path = NULL;
	CB_TRY(place_path(s, p, &path, err));
	d->path_bytes += strlen(path);
	if (d->path_bytes > LIMIT_DIFF_PATHS_BYTES)
		return cb_err_set(err, CB_LIMIT, "the paths of the changes take more than %u bytes",
		                  (unsigned)LIMIT_DIFF_PATHS_BYTES);
	*out = TAKE_PTR(path);
	return CB_OK;
}

static cb_code tell(diffing *d, const telling *t, cb_error *err)
{
	change_row row = {.c = {.kind = t->kind, .has_old = t->a != NULL, .has_new = t->b != NULL}};
	row.c.modified = t->modified;
	row.c.attributes = t->attributes;
	if (t->a) row.old_info = record_stat(&t->a->node.rec);
	if (t->b) row.new_info = record_stat(&t->b->node.rec);
	CB_TRY(told_path(d, t->b ? t->b : t->a, t->at, &row.path, err));
	cb_code code = t->was ? told_path(d, t->a, t->was, &row.old_path, err) : CB_OK;
	if (code == CB_OK) return row_add(d, &row, err);
	free(row.path);
	return code;
}

static cb_code places_same(diffing *d, const side *a, const place *x, const side *b, const place *y, bool *out, cb_error *err)
{
	AUTO_FREE char *old_path = NULL, *new_path = NULL;
	*out = place_compare(x, y) == 0;
	if (!d->by_path) return CB_OK;
	CB_TRY(place_path(a, x, &old_path, err));
	CB_TRY(place_path(b, y, &new_path, err));
	*out = strcmp(old_path, new_path) == 0;
	return CB_OK;
}

/* Is there anything under this name of one side on the other? */
static cb_code place_taken(const side *s, const place *at, const tree_view *other, bool *out, cb_error *err)
{
	AUTO_FREE char *path = NULL;
	uint64_t ino = 0;
	CB_TRY(place_path(s, at, &path, err));
	cb_code code = inode_by_path(other, path, &ino, err);
	*out = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* A rename for a patch: patch(1) makes its changes one by one, so a file that leaves its name to another, or takes another's, is told by
 * what each name holds; and so is a link, since patch(1) renames regular files only. */
static cb_code told_by_name(diffing *d, const side *a, const place *was, const side *b, const place *at, bool *out, cb_error *err)
{
	cb_type type = b->node.rec.type;
	*out = false;
	if (!d->by_path || type == CB_DIR) return CB_OK;
	*out = type == CB_SYMLINK;
	if (!*out) CB_TRY(place_taken(a, was, b->v, out, err));
	if (!*out) CB_TRY(place_taken(b, at, a->v, out, err));
	return CB_OK;
}

/* Is a name of one side also one of the other? */
static cb_code place_stays(diffing *d, const side *a, const place *x, const side *b, bool *out, cb_error *err)
{
	*out = false;
	CB_TRY(cancel_check(err));
	if (!d->by_path) {
		*out = place_count(b) && bsearch(x, place_at(b, 0), place_count(b), sizeof(place), place_compare);
		return CB_OK;
	}
	AUTO_FREE char *path = NULL;
	CB_TRY(place_path(a, x, &path, err));
	uint64_t ino = 0;
	cb_code code = inode_by_path(b->v, path, &ino, err);
	*out = code == CB_OK && ino == b->node.rec.ino;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* A file with several names: names gone, names new, and the names that stayed when it changed (as t has it). */
static cb_code tell_links(diffing *d, const telling *t, bool changed, cb_error *err)
{
	const side *a = t->a, *b = t->b;
	uint64_t ino = a->node.rec.ino;
	for (size_t i = 0; i < place_count(a); i++) {
		telling gone = {CB_DELETED, a, NULL, place_at(a, i), NULL, false};
		bool stays = false;
		CB_TRY(place_stays(d, a, gone.at, b, &stays, err));
		if (stays) continue;
		CB_TRY(has_marks(a->v, ino, &gone.attributes, err));
		CB_TRY(tell(d, &gone, err));
	}
	for (size_t i = 0; i < place_count(b); i++) {
		const place *at = place_at(b, i);
		bool stayed = false;
		CB_TRY(place_stays(d, b, at, a, &stayed, err));
		telling added = {CB_ADDED, NULL, b, at, NULL, false}, same = *t;
		same.at = at;
		if (!stayed) CB_TRY(has_marks(b->v, ino, &added.attributes, err));
		if (!stayed) CB_TRY(tell(d, &added, err));
		if (stayed && changed) CB_TRY(tell(d, &same, err));
	}
	return CB_OK;
}

/* The inode exists on both sides: same place, moved (its own place, not that of a folder above), or several names. */
static cb_code tell_both(diffing *d, const side *a, const side *b, bool attrs, cb_error *err)
{
	bool data = false;
	CB_TRY(data_differ(d, &a->node.rec, &b->node.rec, &data, err));
	telling t = {data ? CB_MODIFIED : CB_ATTRS, a, b, .modified = data, .attributes = attrs};
	bool changed = data || attrs || attrs_differ(&a->node.rec, &b->node.rec);
	if (place_count(a) > 1 || place_count(b) > 1) return tell_links(d, &t, changed, err);
	bool root = place_count(a) == 0;
	const place *was = root ? NULL : place_at(a, 0);
	bool same = root, by_name = false;
	t.at = root ? NULL : place_at(b, 0);
	if (!root) CB_TRY(places_same(d, a, was, b, t.at, &same, err));
	if (same) return changed ? tell(d, &t, err) : CB_OK;
	CB_TRY(told_by_name(d, a, was, b, t.at, &by_name, err));
	if (by_name) return tell_links(d, &t, false, err);
	t.kind = CB_RENAMED;
	t.was = was;
	return tell(d, &t, err);
}

/* The inode exists on one side only, so an attribute that it has is part of the difference; unless it is hidden on the other side, where
 * the same keys are in both. */
static cb_code tell_side(diffing *d, cb_change_kind kind, const side *s, bool attrs, cb_error *err)
{
	if (!attrs && (d->a->veil || d->b->veil)) CB_TRY(has_marks(s->v, s->node.rec.ino, &attrs, err));
	for (size_t i = 0; i < place_count(s); i++) {
		telling t = {kind, kind == CB_DELETED ? s : NULL, kind == CB_ADDED ? s : NULL, place_at(s, i), NULL, false, attrs};
		CB_TRY(tell(d, &t, err));
	}
	return CB_OK;
}

static cb_code tell_inode(diffing *d, uint64_t ino, bool attrs, cb_error *err)
{
	side a = {d->a, &d->near_a, BUF_INIT(SIZE_MAX), .present = false},
	     b = {d->b, &d->near_b, BUF_INIT(SIZE_MAX), .present = false};
	cb_code code = side_load(&a, ino, err);
	if (code == CB_OK) code = side_load(&b, ino, err);
	if (code == CB_OK && a.present && b.present) code = tell_both(d, &a, &b, attrs, err);
	if (code == CB_OK && a.present && !b.present) code = tell_side(d, CB_DELETED, &a, attrs, err);
	if (code == CB_OK && !a.present && b.present) code = tell_side(d, CB_ADDED, &b, attrs, err);
	buf_done(&a.places);
	buf_done(&b.places);
	return code;
}

/* ---- the list ---- */

static int compare_rows(const void *a, const void *b)
{
	const change_row *x = a, *y = b;
	if ((x->c.kind == CB_KEYVALUE) != (y->c.kind == CB_KEYVALUE)) return x->c.kind == CB_KEYVALUE ? 1 : -1;
	int c = strcmp(x->path, y->path);
	return c ? c : (int)x->c.kind - (int)y->c.kind; /* 'A' before 'D' */
}

/* Was the folder of the one that went moved? Then who reads that takes what it held for moved with it. */
static cb_code left_its_folder(const diffing *d, const inode *a, const inode *b, bool *out, cb_error *err)
{
	key_parts was, is;
	inode ignored;
	*out = false;
	CB_TRY(key_parse(key_span(&a->where), &was, err));
	CB_TRY(key_parse(key_span(&b->where), &is, err));
	if (was.kind != KIND_ENTRY || is.kind != KIND_ENTRY || was.ino == is.ino) return CB_OK;
	cb_code code = inode_find(d->b, was.ino, &ignored, err);
	*out = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* A name deleted and added again is a file replaced: one change, or none when all that can be given to a file is as it was. */
static cb_code join_replaced(diffing *d, change_row *rows, size_t n, cb_error *err)
{
	for (size_t i = 0; i + 1 < n; i++) {
		change_row *added = &rows[i], *deleted = &rows[i + 1];
		if (added->c.kind != CB_ADDED || deleted->c.kind != CB_DELETED || strcmp(added->path, deleted->path) != 0) continue;
		inode a, b;
		CB_TRY(inode_find(d->a, deleted->old_info.ino, &a, err));
		CB_TRY(inode_find(d->b, added->new_info.ino, &b, err));
		bool data = a.rec.type != b.rec.type;
		if (!data) CB_TRY(data_differ(d, &a.rec, &b.rec, &data, err));
		bool marks = added->c.attributes || deleted->c.attributes;
		if (marks) CB_TRY(marks_differ(d, a.rec.ino, b.rec.ino, &marks, err));
		added->c.kind = data ? CB_MODIFIED : CB_ATTRS;
		added->c.modified = data;
		added->c.attributes = marks;
		added->c.has_old = true;
		added->old_info = deleted->old_info;
		free(TAKE_PTR(deleted->path));
		bool differs = data || marks || attrs_differ(&a.rec, &b.rec);
		if (!differs) CB_TRY(left_its_folder(d, &a, &b, &differs, err));
		if (!differs) free(TAKE_PTR(added->path)); /* and goes with rows_choose */
		i++;
	}
	return CB_OK;
}

static bool path_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	if (n == 1) return true; /* "/" */
	return path && strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static void row_done(void *item)
{
	change_row *row = item;
	free(row->path);
	free(row->old_path);
}

/* What is asked for moves to the front, ready to be given; the rest goes. */
static size_t rows_choose(change_row *rows, size_t n, const char *within)
{
	size_t chosen = 0;
	for (size_t i = 0; i < n; i++) {
		change_row row = rows[i];
		bool kv = row.c.kind == CB_KEYVALUE;
		bool inside = !within || (!kv && (path_within(row.path, within) || path_within(row.old_path, within)));
		if (!row.path || !inside) {
			row_done(&row);
			continue;
		}
		rows[chosen] = row;
		change_row *at = &rows[chosen++]; /* it stays there: what it points to is its own */
		at->c.struct_size = sizeof(at->c);
		at->c.old_info = &at->old_info;
		at->c.new_info = &at->new_info;
		at->c.path = at->path;
		at->c.old_path = at->old_path;
	}
	return chosen;
}

static cb_code diff_run(diffing *d, const char *within, cb_error *err)
{
	CB_TRY(tree_diff(d->a, d->b, gather, d, err));
	CB_TRY(add_crossed(d, d->b, d->a, err));
	CB_TRY(add_crossed(d, d->a, d->b, err));
	if (d->by_path) CB_TRY(add_moved(d, err));
	uint64_t *inos = (uint64_t *)(void *)d->inos.bytes;
	size_t n = d->inos.size / sizeof(uint64_t);
	if (n) qsort(inos, n, sizeof(uint64_t), u64_compare);
	for (size_t i = 0; i < n; i++) { /* of one inode the entry with the attribute bit comes last */
		bool last = i + 1 == n || inos[i + 1] >> 1 != inos[i] >> 1;
		if (last) CB_TRY(tell_inode(d, inos[i] >> 1, inos[i] & 1, err));
	}
	change_row *rows = (change_row *)(void *)d->rows.bytes;
	n = d->rows.size / sizeof(change_row);
	for (size_t i = 0; i < n; i++)
		if (!rows[i].path) return cb_err_nomem(err);
	if (n) qsort(rows, n, sizeof(change_row), compare_rows);
	CB_TRY(join_replaced(d, rows, n, err));
	d->rows.size = rows_choose(rows, n, within) * sizeof(change_row);
	return CB_OK;
}

/* ta, tb: the transactions whose contents in memory the views may refer to. *out: a cursor on the changes, which needs nothing more of
 * the views. */
static cb_code diff_between(cb_store *cs, const tree_view *a, const txn *ta, const tree_view *b, const txn *tb, const char *within,
                            bool by_path, cb_cursor **out, cb_error *err)
{
	list_cursor *list = NULL;
	CB_TRY(list_cursor_create(CURSOR_CHANGES, sizeof(change_row), row_done, cs, NULL, &list, err));
	diffing d = {.cs = cs,
	             .a = a,
	             .ta = ta,
	             .b = b,
	             .tb = tb,
	             .inos = BUF_INIT(SIZE_MAX),
	             .folders = BUF_INIT(SIZE_MAX),
	             .rows = list->items,
	             .near_a = NEAR_PATH_INIT(DIFF_PATH_BYTES),
	             .near_b = NEAR_PATH_INIT(DIFF_PATH_BYTES),
	             .by_path = by_path};
	cb_code code = diff_run(&d, within, err);
	list->items = d.rows;
	buf_done(&d.inos);
	buf_done(&d.folders);
	near_path_done(&d.near_a);
	near_path_done(&d.near_b);
	if (code == CB_OK) *out = &list->c;
	else cb_cursor_close(&list->c);
	return code;
}

cb_code diff_visit(cb_cursor *c, cb_change_visit visit, void *context, cb_error *err)
{
	cb_code code = CURSOR_VISIT(c, visit, context, err);
	cb_cursor_close(c);
	return code;
}

cb_code diff_views(cb_store *cs, const tree_view *a, const tree_view *b, cb_change_visit visit, void *context, cb_error *err)
{
	cb_cursor *c = NULL;
	CB_TRY(diff_between(cs, a, NULL, b, NULL, NULL, false, &c, err));
	return diff_visit(c, visit, context, err);
}

cb_code diff_snapshots(cb_store *cs, const snapshot *a, const snapshot *b, const char *within, cb_cursor **out, cb_error *err)
{
	return diff_between(cs, &a->v, a->t, &b->v, b->t, within, false, out, err);
}

cb_code diff_snapshots_by_path(cb_store *cs, const snapshot *a, const snapshot *b, const char *within, cb_cursor **out,
                               cb_error *err)
{
	return diff_between(cs, &a->v, a->t, &b->v, b->t, within, true, out, err);
}

cb_code diff_txn(const txn *t, cb_change_visit visit, void *context, cb_error *err)
{
	cb_cursor *c = NULL;
	AUTO_VEIL veil *veiled = NULL;
	tree_view all = state_view(t->cs, t->base), a, b = txn_view(t);
	CB_TRY(gate_view(t->b, &all, &veiled, &a, err));
	CB_TRY(diff_between(t->cs, &a, NULL, &b, t, NULL, false, &c, err));
	return diff_visit(c, visit, context, err);
}

/* ---- the path that is asked for ---- */

/* Where it leads in the newer state or, if nothing is there, in the older one. */
typedef struct sought {
	const char *path; /* as it was given; NULL: everything */
	char *within;     /* free() it */
	bool exists;
	cb_code code; /* with `why`: the reason that it is not in the newer state */
	cb_error why;
} sought;

/* The text of a path without links, "." and "..": the folder that it leads to has one. */
static cb_code path_plain(cb_box *b, const tree_view *v, const char *path, char **out, bool *exists, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(DIFF_PATH_BYTES);
	resolved r;
	CB_TRY(path_resolve(b, v, path, 0, GATE_READ, &r, err));
	*exists = r.exists;
	if (r.parent) CB_TRY(inode_path(v, r.parent, &text, err));
	if (text.size == 1) text.size = 0; /* "/" */
	CB_TRY(buf_append_byte(&text, '/', err));
	CB_TRY(buf_append(&text, r.name, r.name_size, err));
	return buf_take(&text, out, NULL, err);
}

/* To be called for the newer state first, with the handle entered. */
static cb_code seek(sought *s, cb_box *b, const tree_view *v, cb_error *err)
{
	AUTO_FREE char *plain = NULL;
	bool exists = false;
	cb_error why;
	if (!s->path || s->exists) return CB_OK;
	cb_code code = path_plain(b, v, s->path, &plain, &exists, cb_err_aside(&why));
	if (code == CB_NOTFOUND || code == CB_NOTDIR || code == CB_LOOP) {
		if (s->code != CB_OK) return CB_OK;
		s->code = code;
		s->why = why;
		return CB_OK;
	}
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	if (s->within && !exists) return CB_OK;
	free(s->within);
	s->within = TAKE_PTR(plain);
	s->exists = exists;
	return CB_OK;
}

/* In neither state: not even the folder that it would be in. */
static cb_code sought_take(sought *s, char **out, cb_error *err)
{
	if (s->path && !s->within) return cb_err_pass(err, s->code, &s->why);
	*out = TAKE_PTR(s->within);
	return CB_OK;
}

static void sought_done(sought *s)
{
	free(s->within);
}

static cb_code snapshot_seek(cb_box *b, sought *s, snapshot *out, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	cb_code code = snapshot_take(b, out, err);
	if (code == CB_OK && b->txn && b->txn->local_count) code = txn_picture(b->txn, NULL, &out->t, err);
	if (code == CB_OK) code = seek(s, b, &out->v, err);
	return box_leave(b, code);
}

cb_code snapshot_of(cb_box *b, snapshot *out, cb_error *err)
{
	sought everything = {0};
	return snapshot_seek(b, &everything, out, err);
}

cb_code snapshot_pair(cb_box *from, cb_box *to, const char *path, snapshot *a, snapshot *b, char **within, cb_error *err)
{
	ATTR_CLEANUP(sought_done) sought s = {.path = path};
	if (from->cs != to->cs) return cb_err_set(err, CB_CROSSBOX, "both states must be opened through one store");
	CB_TRY(snapshot_seek(to, &s, b, err));
	CB_TRY(snapshot_seek(from, &s, a, err));
	return sought_take(&s, within, err);
}

/* ---- public ---- */

cb_code cb_diff_open(cb_box *from, cb_box *to, const char *path, cb_cursor **out, cb_error *err)
{
	AUTO_SNAPSHOT snapshot a = {0};
	AUTO_SNAPSHOT snapshot b = {0};
	AUTO_FREE char *within = NULL;
	NEED(err, "from to out", from, to, out);
	CB_TRY(args_path("path", path, err));
	CB_TRY(snapshot_pair(from, to, path, &a, &b, &within, err));
	return diff_snapshots(from->cs, &a, &b, within, out, err);
}

cb_code cb_diff(cb_box *from, cb_box *to, const char *path, cb_change_visit visit, void *context, cb_error *err)
{
	NEED(err, "from to visit", from, to, visit);
	cb_cursor *c = NULL;
	CB_TRY(cb_diff_open(from, to, path, &c, err));
	return diff_visit(c, visit, context, err);
}

/* The states around a step, as the handle shows them. */
typedef struct step_sides {
	kept_state kept;
	state *earlier;
	veil *veils[2];
	tree_view before, after;
	sought s;
} step_sides;

static void step_sides_done(step_sides *d)
{
	veil_destroy(d->veils[0]);
	veil_destroy(d->veils[1]);
	state_unref(d->earlier);
	kept_done(&d->kept);
	sought_done(&d->s);
}

static cb_code step_sides_open(step_sides *d, cb_box *box, uint64_t seq, cb_error *err)
{
	if (box->head->seq == seq) CB_TRY(kept_set(&d->kept, box->cs, box->head, KEPT_VISIT, err));
	else CB_TRY(kept_load(&d->kept, box->cs, box->id, seq, KEPT_VISIT, err));
	/* The step's own list, taken back, is cheaper than building the state before it; what the list names is kept with the step. */
	CB_TRY(state_before_gap(box->cs, d->kept.s, &d->earlier, err));
	tree_view before = state_view(box->cs, d->earlier), after = state_view(box->cs, d->kept.s);
	CB_TRY(gate_view(box, &before, &d->veils[0], &d->before, err));
	CB_TRY(gate_view(box, &after, &d->veils[1], &d->after, err));
	CB_TRY(seek(&d->s, box, &d->after, err));
	return seek(&d->s, box, &d->before, err);
}

cb_code cb_diff_step_open(cb_box *box, uint64_t seq, const char *path, cb_cursor **out, cb_error *err)
{
	NEED(err, "box out", box, out);
	CB_TRY(args_path("path", path, err));
	if (seq == 0) return cb_err_set(err, CB_INVALID, "step 0 is where the box begins: it changed nothing");
	ATTR_CLEANUP(step_sides_done) step_sides d = {.s.path = path};
	AUTO_FREE char *within = NULL;
	CB_TRY(box_enter(box, err));
	CB_TRY(box_leave(box, step_sides_open(&d, box, seq, err)));
	CB_TRY(sought_take(&d.s, &within, err));
	return diff_between(box->cs, &d.before, NULL, &d.after, NULL, within, false, out, err);
}

cb_code cb_diff_step(cb_box *box, uint64_t seq, const char *path, cb_change_visit visit, void *context, cb_error *err)
{
	NEED(err, "box visit", box, visit);
	cb_cursor *c = NULL;
	CB_TRY(cb_diff_step_open(box, seq, path, &c, err));
	return diff_visit(c, visit, context, err);
}
