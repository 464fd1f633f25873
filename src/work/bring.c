/*
 * bring.c: what leads from one state to another, as BUILD messages: cost in proportion to what differs.
 *
 * The difference of two states tells a folder that moved once, not per file below it. So everything that is elsewhere is removed first,
 * by the names of the old state, and then made by the names of the new one, by path; a folder that moved is made whole. A file with
 * several names is made at the end, under its first name, and linked under the others, whichever of them changed.
 */
#include "work/internal.h"

#include <stdlib.h>

#include "base/bytes.h"

enum { DATA_BYTES = 32 << 10 };

typedef struct bringing {
	link_t *l;
	look *to;
	buf packet;
	buf xattrs;
	buf shared;  /* uint64_t: files with several names that are to be made */
	buf folders; /* folder_row: their times are set at the end */
	buf names;   /* what rows point into, by offset */
	uint64_t ops;
	uint8_t block[DATA_BYTES];
} bringing;

typedef struct folder_row {
	size_t path; /* in names */
	int64_t mtime_ns, atime_ns;
} folder_row;

/* ---- messages ---- */

static cb_code flush(bringing *b, cb_error *err)
{
	if (b->packet.size == 0) return CB_OK;
	CB_TRY(link_send(b->l, WIRE_BUILD, buf_span(&b->packet), NULL, 0, err));
	buf_clear(&b->packet);
	return CB_OK;
}

static cb_code put(bringing *b, const wire_op *m, cb_error *err)
{
	b->ops++;
	cb_error why;
	cb_code code = wire_op_put(&b->packet, m, cb_err_aside(&why));
	if (code != CB_LIMIT) return cb_err_pass(err, code, &why);
	CB_TRY(flush(b, err));
	return wire_op_put(&b->packet, m, err);
}

static bool is_system(const char *relative)
{
	return box_name_reserved(span_make(relative, strcspn(relative, "/")));
}

/* ---- one thing ---- */

static cb_code xattrs_load(bringing *b, uint64_t ino, cb_error *err)
{
	buf_clear(&b->xattrs);
	CB_TRY(look_attribute_rows(b->to, ino, &b->xattrs, err));
	if (b->xattrs.size > WORK_XATTRS_BYTES) buf_clear(&b->xattrs); /* capture leaves such alone */
	return CB_OK;
}

static wire_op op_of(const bringing *b, wire_op_type type, const char *path, const box_node *r)
{
	return (wire_op){.type = type,
	                 .path = path,
	                 .mode = r->mode & (r->type == CB_DIR ? 01777 : 0777),
	                 .size = r->type == CB_FILE ? r->size : 0,
	                 .mtime_ns = r->mtime_ns,
	                 .atime_ns = r->atime_ns,
	                 .xattrs = buf_span(&b->xattrs)};
}

static cb_code send_data(bringing *b, const box_node *r, cb_error *err)
{
	for (uint64_t at = 0; at < r->size;) {
		uint64_t start = 0, end = 0;
		cb_error why;
		cb_code code = look_seek(b->to, r, at, false, &start, cb_err_aside(&why));
		if (code == CB_NOTFOUND) return CB_OK; /* a hole to the end */
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		CB_TRY(look_seek(b->to, r, start, true, &end, err));
		for (at = start; at < end;) {
			size_t n = end - at < DATA_BYTES ? (size_t)(end - at) : DATA_BYTES;
			CB_TRY(look_read(b->to, r, at, b->block, n, err));
			wire_op m = {.type = WIRE_OP_DATA, .path = "", .offset = at, .data = span_make(b->block, n)};
			CB_TRY(put(b, &m, err));
			at += n;
		}
	}
	return CB_OK;
}

static cb_code send_file(bringing *b, const char *path, const box_node *r, cb_error *err)
{
	CB_TRY(xattrs_load(b, r->ino, err));
	wire_op m = op_of(b, WIRE_OP_FILE, path, r);
	CB_TRY(put(b, &m, err));
	return send_data(b, r, err);
}

static cb_code send_symlink(bringing *b, const char *path, const box_node *r, cb_error *err)
{
	buf_clear(&b->xattrs);
	CB_TRY(look_read(b->to, r, 0, b->block, (size_t)r->size, err));
	wire_op m = op_of(b, WIRE_OP_SYMLINK, path, r);
	m.data = span_make(b->block, (size_t)r->size);
	return put(b, &m, err);
}

static cb_code times_later(bringing *b, const char *path, const box_node *r, cb_error *err)
{
	folder_row row = {b->names.size, r->mtime_ns, r->atime_ns};
	CB_TRY(buf_append(&b->names, path, strlen(path) + 1, err));
	return buf_append(&b->folders, &row, sizeof(row), err);
}

static cb_code send_folder(bringing *b, const char *path, const box_node *r, cb_error *err)
{
	CB_TRY(xattrs_load(b, r->ino, err));
	wire_op m = op_of(b, WIRE_OP_DIR, path, r);
	CB_TRY(put(b, &m, err));
	return times_later(b, path, r, err);
}

static cb_code send_remove(bringing *b, const char *path, cb_error *err)
{
	wire_op m = {.type = WIRE_OP_REMOVE, .path = path};
	return put(b, &m, err);
}

/* As it is in the new state, without what is in it. */
static cb_code send_made(bringing *b, const char *path, const box_node *r, cb_error *err)
{
	if (r->type != CB_DIR && r->links > 1) return buf_append(&b->shared, &r->ino, sizeof(r->ino), err);
	if (r->type == CB_DIR) return send_folder(b, path, r, err);
	return r->type == CB_FILE ? send_file(b, path, r, err) : send_symlink(b, path, r, err);
}

/* ---- whole folders ---- */

/* Everything below a folder, whose path is absolute ("" for the root). */
static cb_code send_below(bringing *b, const char *path, uint64_t ino, cb_error *err)
{
	AUTO_WALK look_walk *w = NULL;
	CB_TRY(look_walk_open(b->to, *path ? path : "/", ino, &w, err));
	for (;;) {
		box_node r;
		bool found = false;
		CB_TRY(look_walk_next(w, &r, &found, err));
		if (!found) return CB_OK;
		const char *relative = w->path + 1;
		if (is_system(relative)) continue;
		CB_TRY(send_made(b, relative, &r, err));
		if (r.type == CB_DIR) CB_TRY(look_walk_enter(w, &r, err));
	}
}

/* ---- files with several names ---- */

static cb_code name_path(bringing *b, const work_name *n, buf *out, cb_error *err)
{
	buf_clear(out);
	CB_TRY(look_path(b->to, n->dir, out, err));
	if (out->size > 1) CB_TRY(buf_append_byte(out, '/', err));
	CB_TRY(buf_append(out, n->name, n->size, err));
	return buf_append_byte(out, 0, err);
}

static cb_code send_names(bringing *b, uint64_t ino, buf *names, buf *first, buf *other, cb_error *err)
{
	box_node node;
	buf_clear(names);
	CB_TRY(look_names(b->to, ino, work_name_add, names, err));
	CB_TRY(look_node(b->to, ino, &node, err));
	const work_name *all = (const work_name *)(const void *)names->bytes;
	for (size_t i = 0; i < names->size / sizeof(*all); i++) {
		buf *path = i ? other : first;
		CB_TRY(name_path(b, &all[i], path, err));
		const char *relative = (const char *)path->bytes + 1;
		CB_TRY(send_remove(b, relative, err));
		if (i == 0) {
			if (node.type == CB_FILE) CB_TRY(send_file(b, relative, &node, err));
			else CB_TRY(send_symlink(b, relative, &node, err));
			continue;
		}
		wire_op m = {.type = WIRE_OP_LINK, .path = relative, .data = span_make(first->bytes + 1, first->size - 2)};
		CB_TRY(put(b, &m, err));
	}
	return CB_OK;
}

static cb_code send_shared(bringing *b, cb_error *err)
{
	AUTO_BUF buf names = BUF_INIT(SIZE_MAX);
	AUTO_BUF buf first = BUF_INIT(SIZE_MAX);
	AUTO_BUF buf other = BUF_INIT(SIZE_MAX);
	uint64_t *inos = (uint64_t *)(void *)b->shared.bytes;
	size_t n = b->shared.size / sizeof(uint64_t);
	if (n) qsort(inos, n, sizeof(uint64_t), u64_compare);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || inos[i] != inos[i - 1]) CB_TRY(send_names(b, inos[i], &names, &first, &other, err));
	return CB_OK;
}

/* Children before parents: what is made in a folder changes its time. */
static cb_code send_times(bringing *b, cb_error *err)
{
	const folder_row *all = (const folder_row *)(const void *)b->folders.bytes;
	for (size_t i = b->folders.size / sizeof(folder_row); i > 0; i--) {
		const folder_row *f = &all[i - 1];
		const char *path = (const char *)b->names.bytes + f->path;
		wire_op m = {.type = WIRE_OP_DIR_TIMES, .path = path, .mtime_ns = f->mtime_ns, .atime_ns = f->atime_ns};
		CB_TRY(put(b, &m, err));
	}
	return CB_OK;
}

/* ---- a difference ---- */

typedef struct change_row {
	const char *path, *old_path; /* absolute; offsets into names until all are there */
	size_t path_at, old_at;
	uint64_t ino;
	bool removes, makes, moved;
	bool attrs_only;
} change_row;

typedef struct changes {
	bringing *b;
	buf rows;
	buf names;
} changes;

static cb_code text_add(buf *names, const char *text, size_t *at, cb_error *err)
{
	*at = names->size;
	return buf_append(names, text, strlen(text) + 1, err);
}

static cb_code change_add(void *context, const cb_change *c, cb_error *err)
{
	changes *all = context;
	if (c->kind == CB_KEYVALUE || is_system(c->path + 1) || c->path[1] == 0) return CB_OK;
	change_row row = {.ino = c->has_new ? c->new_info->ino : 0, .old_at = SIZE_MAX};
	bool same_file = c->has_old && c->has_new && c->old_info->ino == c->new_info->ino;
	bool folders = c->has_old && c->has_new && c->old_info->type == CB_DIR && c->new_info->type == CB_DIR;
	row.makes = c->has_new;
	row.moved = c->kind == CB_RENAMED;
	row.removes = c->has_old && !same_file && !folders;
	row.attrs_only = c->kind == CB_ATTRS && same_file && c->old_info->links <= 1 && c->new_info->links <= 1 &&
	                 c->new_info->type == CB_FILE;
	CB_TRY(text_add(&all->names, c->path, &row.path_at, err));
	if (row.moved) CB_TRY(text_add(&all->names, c->old_path, &row.old_at, err));
	return buf_append(&all->rows, &row, sizeof(row), err);
}

/* '/' before everything else, so that what is below a folder follows it. */
static int path_order(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	unsigned x = (unsigned char)*a, y = (unsigned char)*b;
	x = x == 0 ? 0 : x == '/' ? 1 : x + 2;
	y = y == 0 ? 0 : y == '/' ? 1 : y + 2;
	return x < y ? -1 : x > y;
}

static int row_order(const void *a, const void *b)
{
	return path_order(((const change_row *)a)->path, ((const change_row *)b)->path);
}

static bool is_within(const char *path, const char *folder)
{
	size_t n = folder ? strlen(folder) : 0;
	return n && strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int text_order(const void *a, const void *b)
{
	return path_order(*(const char *const *)a, *(const char *const *)b);
}

/* By the names of the old state. */
static cb_code send_removals(bringing *b, const change_row *rows, size_t n, cb_error *err)
{
	AUTO_BUF buf gone = BUF_INIT(SIZE_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *path = rows[i].moved ? rows[i].old_path : rows[i].path;
		if (rows[i].moved || rows[i].removes) CB_TRY(buf_append(&gone, &path, sizeof(path), err));
	}
	const char **all = (const char **)(void *)gone.bytes;
	size_t count = gone.size / sizeof(*all);
	if (count) qsort(all, count, sizeof(*all), text_order);
	const char *last = NULL;
	for (size_t i = 0; i < count; i++) {
		if (is_within(all[i], last)) continue;
		last = all[i];
		CB_TRY(send_remove(b, last + 1, err));
	}
	return CB_OK;
}

/* The folder that holds what was changed gets its time back at the end; rows come by path, so it is mostly the one before. */
static cb_code touch_parent(bringing *b, const char *path, buf *last, cb_error *err)
{
	const char *slash = strrchr(path, '/');
	size_t size = (size_t)(slash - path);
	if (size == 0 || (last->size == size && memcmp(last->bytes, path, size) == 0)) return CB_OK;
	buf_clear(last);
	CB_TRY(buf_append(last, path, size, err));
	uint64_t at = BOX_INO_ROOT;
	box_node node;
	for (const char *p = path + 1; p <= slash;) {
		size_t length = strcspn(p, "/");
		cb_code code = look_child(b->to, at, span_make(p, length), &node, err);
		if (code == CB_NOTFOUND || (code == CB_OK && node.type != CB_DIR)) return CB_OK; /* gone too */
		if (code != CB_OK) return code;
		at = node.ino;
		p += length + 1;
	}
	CB_TRY(buf_append_byte(last, 0, err));
	last->size--;
	return times_later(b, (const char *)last->bytes + 1, &node, err);
}

static cb_code send_row(bringing *b, const change_row *row, cb_error *err)
{
	box_node node;
	CB_TRY(look_node(b->to, row->ino, &node, err));
	if (row->attrs_only) {
		CB_TRY(xattrs_load(b, row->ino, err));
		wire_op m = op_of(b, WIRE_OP_ATTRS, row->path + 1, &node);
		return put(b, &m, err);
	}
	CB_TRY(send_made(b, row->path + 1, &node, err));
	return row->moved && node.type == CB_DIR ? send_below(b, row->path, row->ino, err) : CB_OK;
}

static cb_code send_changes(bringing *b, changes *all, cb_error *err)
{
	change_row *rows = (change_row *)(void *)all->rows.bytes;
	size_t n = all->rows.size / sizeof(change_row);
	for (size_t i = 0; i < n; i++) {
		rows[i].path = (const char *)all->names.bytes + rows[i].path_at;
		if (rows[i].moved) rows[i].old_path = (const char *)all->names.bytes + rows[i].old_at;
	}
	if (n) qsort(rows, n, sizeof(*rows), row_order);
	CB_TRY(send_removals(b, rows, n, err));
	AUTO_BUF buf last = BUF_INIT(SIZE_MAX);
	const char *whole = NULL; /* a folder that was made with all that is in it */
	for (size_t i = 0; i < n; i++) {
		if (!rows[i].makes) CB_TRY(touch_parent(b, rows[i].path, &last, err));
		if (rows[i].moved) CB_TRY(touch_parent(b, rows[i].old_path, &last, err));
		if (!rows[i].makes || is_within(rows[i].path, whole)) continue;
		CB_TRY(touch_parent(b, rows[i].path, &last, err));
		CB_TRY(send_row(b, &rows[i], err));
		if (rows[i].moved) whole = rows[i].path;
	}
	return CB_OK;
}

static cb_code bring_changes(bringing *b, look *from, cb_error *err)
{
	changes all = {.b = b, .rows = BUF_INIT(SIZE_MAX), .names = BUF_INIT(SIZE_MAX)};
	cb_code code = look_diff(from, b->to, change_add, &all, err);
	if (code == CB_OK) code = send_changes(b, &all, err);
	buf_done(&all.rows);
	buf_done(&all.names);
	return code;
}

cb_code bring(link_t *l, look *from, look *to, uint64_t *out_ops, cb_error *err)
{
	*out_ops = 0;
	if (from && look_place(from).state == look_place(to).state) return CB_OK;
	AUTO_FREE bringing *b = mem_alloc(sizeof(*b));
	if (!b) return cb_err_nomem(err);
	*b = (bringing){.l = l, .to = to};
	b->packet = BUF_INIT(WIRE_PACKET_BYTES);
	b->xattrs = b->shared = b->folders = b->names = BUF_INIT(SIZE_MAX);
	cb_code code = from ? bring_changes(b, from, err) : send_below(b, "", BOX_INO_ROOT, err);
	if (code == CB_OK) code = send_shared(b, err);
	if (code == CB_OK) code = send_times(b, err);
	if (code == CB_OK) code = flush(b, err);
	*out_ops = b->ops;
	buf *const owned[] = {&b->packet, &b->xattrs, &b->shared, &b->folders, &b->names};
	for (size_t i = 0; i < ARRAY_LEN(owned); i++) buf_done(owned[i]);
	return code;
}
