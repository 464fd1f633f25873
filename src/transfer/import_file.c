/*
 * import_file.c: the bytes and attributes of one file of the host.
 *
 * Adversary: a file that is written while it is read. It is looked at before and after; when the two differ it is read again, and given
 * up after READ_TRIES. What the box has is compared first, so that a file that is the same keeps its version and costs no space; of a
 * large file only the parts that differ are stored.
 */
#include "transfer/import_impl.h"

#include <errno.h>
#include <time.h>

#include "base/io.h"

enum {
	READ_TRIES = 8,
	REST_MS = 5,              /* between two tries, growing */
	SPARSE_MIN_BYTES = 16385, /* holes of smaller files are filled: the box keeps such files whole */
};

/* Is im->block what the box has there? */
static cb_code equal_bytes(importing *im, const inode *node, uint64_t offset, size_t size, bool *out, cb_error *err)
{
	tree_view v = txn_view(im->t);
	CB_TRY(data_read(im->t->cs, im->t, &v, &node->rec, offset, im->other, size, err));
	*out = memcmp(im->block, im->other, size) == 0;
	return CB_OK;
}

static cb_code read_host(importing *im, int fd, uint64_t offset, size_t size, bool *short_read, cb_error *err)
{
	size_t got = 0;
	CB_TRY(io_pread_all(fd, im->block, size, offset, &got, err));
	*short_read = got != size;
	return CB_OK;
}

/* im->block to [offset, offset + size) of the file, unless it is there already. */
static cb_code put_range(importing *im, inode *node, uint64_t offset, size_t size, bool compare, bool *changed, cb_error *err)
{
	bool same = false;
	if (compare && offset <= node->rec.size && size <= node->rec.size - offset)
		CB_TRY(equal_bytes(im, node, offset, size, &same, err));
	if (same) return CB_OK;
	*changed = true;
	CB_TRY(data_write(im->t, node, offset, im->block, size, err));
	return txn_relieve(im->t, err);
}

/* ---- files without holes ---- */

static cb_code put_small(importing *im, inode *node, size_t size, bool *changed, cb_error *err)
{
	bool same = false;
	if (node->rec.size == size && size) CB_TRY(equal_bytes(im, node, 0, size, &same, err));
	if (node->rec.size == 0 && size == 0) same = true;
	if (same) return CB_OK;
	*changed = true;
	return data_replace(im->t, node, im->block, size, err);
}

static cb_code read_dense(importing *im, const host_entry *e, int fd, uint64_t size, inode *node, bool *rests, bool *changed,
                          cb_error *err)
{
	bool short_read = false;
	if (size <= IMPORT_BLOCK) {
		if (size) CB_TRY(read_host(im, fd, 0, (size_t)size, &short_read, err));
		*rests = !short_read;
		return short_read ? CB_OK : put_small(im, node, (size_t)size, changed, err);
	}
	if (node->rec.size > size) {
		*changed = true;
		CB_TRY(data_resize(im->t, node, size, err));
	}
	for (uint64_t at = 0; at < size; at += IMPORT_BLOCK) {
		size_t n = size - at < IMPORT_BLOCK ? (size_t)(size - at) : IMPORT_BLOCK;
		CB_TRY(read_host(im, fd, at, n, &short_read, err));
		*rests = !short_read;
		if (short_read) return CB_OK;
		CB_TRY(put_range(im, node, at, n, true, changed, err));
		CB_TRY(import_progress(im, e->path, n, err));
	}
	return CB_OK;
}

/* ---- files with holes ---- */

/* The box's next stretch of data at or after offset. */
static cb_code box_data_next(importing *im, const record *r, uint64_t offset, uint64_t *start, uint64_t *end, cb_error *err)
{
	tree_view v = txn_view(im->t);
	*start = *end = r->size;
	if (offset >= r->size) return CB_OK;
	cb_code code = data_seek(&v, r, offset, false, start, NULL);
	if (code == CB_NOTFOUND) {
		*start = r->size;
		return CB_OK;
	}
	if (code != CB_OK) return cb_err_set(err, code, NULL);
	return data_seek(&v, r, *start, true, end, err);
}

/* Stores one stretch, or compares it (then *same). */
static cb_code stretch(importing *im, const host_entry *e, int fd, uint64_t start, uint64_t end, inode *node, bool compare,
                       bool *same, bool *rests, cb_error *err)
{
	for (uint64_t at = start; at < end;) {
		size_t n = end - at < IMPORT_BLOCK ? (size_t)(end - at) : IMPORT_BLOCK;
		bool short_read = false, changed = false;
		CB_TRY(read_host(im, fd, at, n, &short_read, err));
		*rests = !short_read;
		if (short_read) return CB_OK;
		if (compare) CB_TRY(equal_bytes(im, node, at, n, same, err));
		if (compare && !*same) return CB_OK;
		if (!compare) CB_TRY(put_range(im, node, at, n, false, &changed, err));
		CB_TRY(import_progress(im, e->path, compare ? 0 : n, err));
		at += n;
	}
	return CB_OK;
}

/* Are holes and data where the host has them, and the data the same? */
static cb_code sparse_same(importing *im, const host_entry *e, int fd, uint64_t size, inode *node, bool *same, bool *rests,
                           cb_error *err)
{
	*same = node->rec.size == size;
	for (uint64_t at = 0; *same && *rests && at < size;) {
		uint64_t start, end, box_start, box_end;
		CB_TRY(host_data_next(fd, at, size, &start, &end, err));
		CB_TRY(box_data_next(im, &node->rec, at, &box_start, &box_end, err));
		*same = start == box_start && end == box_end;
		if (*same) CB_TRY(stretch(im, e, fd, start, end, node, true, same, rests, err));
		at = end;
	}
	return CB_OK;
}

static cb_code read_sparse(importing *im, const host_entry *e, int fd, uint64_t size, inode *node, bool *rests, bool *changed,
                           cb_error *err)
{
	bool same = false;
	CB_TRY(sparse_same(im, e, fd, size, node, &same, rests, err));
	if (same || !*rests) return CB_OK;
	*changed = true;
	CB_TRY(data_drop(im->t, node, err));
	CB_TRY(data_resize(im->t, node, size, err));
	for (uint64_t at = 0; *rests && at < size;) {
		uint64_t start, end;
		CB_TRY(host_data_next(fd, at, size, &start, &end, err));
		CB_TRY(stretch(im, e, fd, start, end, node, false, &same, rests, err));
		at = end;
	}
	return CB_OK;
}

/* ---- attributes ---- */

typedef struct attribute_list {
	buf rows; /* name with its NUL, size (8 bytes), value */
} attribute_list;

static cb_code list_add(void *context, const char *name, span value, cb_error *err)
{
	attribute_list *l = context;
	uint8_t size[8];
	put_le64(size, value.size);
	CB_TRY(buf_append(&l->rows, name, strlen(name) + 1, err));
	CB_TRY(buf_append(&l->rows, size, sizeof(size), err));
	return buf_append(&l->rows, value.bytes, value.size, err);
}

typedef struct box_attributes {
	importing *im;
	attribute_list list;
} box_attributes;

static bool is_user(span name)
{
	return span_starts(name, span_str("user.")) && !span_starts(name, span_str("user.overlay."));
}

static cb_code list_box_key(void *context, span key_bytes, span value, cb_error *err)
{
	box_attributes *b = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (!is_user(parts.name)) return CB_OK;
	char name[LIMIT_NAME_BYTES + 1];
	memcpy(name, parts.name.bytes, parts.name.size);
	name[parts.name.size] = 0;
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	CB_TRY(value_load(b->im->t->cs, b->im->t, value, &bytes, &size, err));
	return list_add(&b->list, name, span_make(bytes, size), err);
}

static cb_code attributes_replace(importing *im, uint64_t ino, span before, span after, cb_error *err)
{
	reader old = reader_make(before), new = reader_make(after);
	while (!reader_at_end(&old)) {
		const char *name = (const char *)old.at;
		(void)reader_span(&old, strlen(name) + 1);
		(void)reader_span(&old, (size_t)reader_le64(&old));
		key k = key_attr(ino, span_str(name));
		CB_TRY(txn_delete(im->t, &k, err));
	}
	while (!reader_at_end(&new)) {
		const char *name = (const char *)new.at;
		(void)reader_span(&new, strlen(name) + 1);
		span value = reader_span(&new, (size_t)reader_le64(&new));
		key k = key_attr(ino, span_str(name));
		CB_TRY(value_store(im->t, &k, value.bytes, value.size, err));
	}
	return CB_OK;
}

static cb_code attributes_sync(importing *im, int fd, const inode *node, bool fresh, bool *changed, cb_error *err)
{
	attribute_list host = {BUF_INIT(SIZE_MAX)};
	box_attributes box = {im, {BUF_INIT(SIZE_MAX)}};
	tree_view v = txn_view(im->t);
	cb_code code = host_xattr_list(fd, list_add, &host, err);
	if (code == CB_OK && !fresh) code = inode_keys(&v, node->rec.ino, KIND_ATTR, list_box_key, &box, err);
	if (code == CB_OK && !span_equal(buf_span(&host.rows), buf_span(&box.list.rows))) {
		*changed = true;
		code = attributes_replace(im, node->rec.ino, buf_span(&box.list.rows), buf_span(&host.rows), err);
	}
	buf_done(&host.rows);
	buf_done(&box.list.rows);
	return code;
}

cb_code import_attributes(importing *im, int fd, const host_stat *stat, inode *node, bool fresh, bool *changed, cb_error *err)
{
	record *r = &node->rec;
	uint32_t mode = stat->mode & (stat->type == HOST_DIR ? 01777 : 0777);
	if (fd >= 0) CB_TRY(attributes_sync(im, fd, node, fresh, changed, err));
	if (stat->type != HOST_SYMLINK && r->mode != mode) *changed = true;
	if (r->mtime_ns != stat->mtime_ns) *changed = true;
	if (!*changed && !fresh) return CB_OK;
	inode_changed(im->t, node, false);
	if (stat->type != HOST_SYMLINK) r->mode = mode;
	r->mtime_ns = stat->mtime_ns;
	r->atime_ns = stat->atime_ns;
	return inode_save(im->t, node, err);
}

/* ---- one file ---- */

static cb_code read_once(importing *im, const host_entry *e, int fd, const host_stat *stat, inode *node, bool fresh, bool *rests,
                         bool *changed, cb_error *err)
{
	bool sparse = false;
	if (stat->size >= SPARSE_MIN_BYTES && stat->allocated_bytes < stat->size) {
		uint64_t start, end;
		CB_TRY(host_data_next(fd, 0, stat->size, &start, &end, err));
		sparse = start != 0 || end != stat->size;
	}
	if (!sparse && node->rec.form == DATA_EXTENTS && !fresh) { /* the box's file may have holes where the host's has zeros */
		uint64_t start, end;
		CB_TRY(box_data_next(im, &node->rec, 0, &start, &end, err));
		sparse = start != 0 || end != node->rec.size;
	}
	*rests = true;
	if (sparse || (!fresh && node->rec.form == DATA_NONE && stat->size >= SPARSE_MIN_BYTES))
		CB_TRY(read_sparse(im, e, fd, stat->size, node, rests, changed, err));
	else CB_TRY(read_dense(im, e, fd, stat->size, node, rests, changed, err));
	if (!*rests) return CB_OK;
	CB_TRY(import_attributes(im, fd, stat, node, fresh, changed, err));
	host_stat after;
	CB_TRY(host_stat_fd(fd, &after, err));
	*rests = host_stat_same(stat, &after);
	return CB_OK;
}

cb_code import_file_content(importing *im, const host_entry *e, uint64_t parent, span name, const inode *there, inode *out,
                            host_stat *out_stat, bool *changed, cb_error *err)
{
	AUTO_FD int fd = -1;
	host_stat stat;
	CB_TRY(host_file_open(e->dir, e->name, &fd, &stat, err));
	bool fresh = !there;
	if (fresh) CB_TRY(inode_create(im->t, parent, name, CB_FILE, 0644, out, err));
	else *out = *there;
	*changed = fresh;
	for (int i = 1;; i++) {
		bool rests = false;
		CB_TRY(read_once(im, e, fd, &stat, out, fresh && i == 1, &rests, changed, err));
		if (rests) break;
		if (i == READ_TRIES)
			return cb_err_set(err, CB_BUSY, "'%s' changes while it is read: try again later", import_name(e->path));
		struct timespec pause = {.tv_nsec = (long)REST_MS * i * 1000000};
		(void)nanosleep(&pause, NULL);
		CB_TRY(host_stat_fd(fd, &stat, err));
	}
	*out_stat = stat;
	return txn_relieve(im->t, err);
}
