/* intake.c: see intake.h. Adversary: a file that is written while it is read; the caller looks at it before and after. */
#include "box/intake.h"

#include "base/io.h"

enum { SPARSE_MIN_BYTES = 16385 }; /* holes of smaller files are filled: the box keeps such files whole */

cb_code intake_init(intake *in, cb_error *err)
{
	in->block = mem_alloc_aligned(INTAKE_BLOCK);
	in->other = mem_alloc_aligned(INTAKE_BLOCK);
	return in->block && in->other ? CB_OK : cb_err_nomem(err);
}

void intake_done(intake *in)
{
	free(in->block);
	free(in->other);
	in->block = in->other = NULL;
}

/* Is in->block what the box has there? */
static cb_code equal_bytes(intake *in, const inode *node, uint64_t offset, size_t size, bool *out, cb_error *err)
{
	tree_view v = txn_raw(in->t);
	CB_TRY(data_read(in->t->cs, in->t, &v, &node->rec, offset, in->other, size, err));
	*out = memcmp(in->block, in->other, size) == 0;
	return CB_OK;
}

static cb_code read_host(intake *in, int fd, uint64_t offset, size_t size, bool *short_read, cb_error *err)
{
	size_t got = 0;
	cb_code code = io_pread_all(fd, in->block, size, offset, &got, err);
	in->unreadable = code != CB_OK && !cancel_is_code(code);
	*short_read = got != size;
	return code;
}

static cb_code host_next(intake *in, const intake_file *f, uint64_t offset, uint64_t *start, uint64_t *end, cb_error *err)
{
	cb_code code = in->data_next(f->fd, offset, f->size, start, end, err);
	in->unreadable = code != CB_OK;
	return code;
}

static cb_code progress(intake *in, uint64_t bytes, cb_error *err)
{
	return in->progress ? in->progress(in->context, bytes, err) : CB_OK;
}

/* in->block to [offset, offset + size) of the file, unless it is there already. */
static cb_code put_range(intake *in, inode *node, uint64_t offset, size_t size, bool compare, bool *changed, cb_error *err)
{
	bool same = false;
	if (compare && offset <= node->rec.size && size <= node->rec.size - offset)
		CB_TRY(equal_bytes(in, node, offset, size, &same, err));
	if (same) return CB_OK;
	*changed = true;
	CB_TRY(data_write(in->t, node, offset, in->block, size, err));
	return txn_relieve(in->t, err);
}

/* ---- files without holes ---- */

static cb_code put_small(intake *in, inode *node, size_t size, bool *changed, cb_error *err)
{
	bool same = false;
	if (node->rec.size == size && size) CB_TRY(equal_bytes(in, node, 0, size, &same, err));
	if (node->rec.size == 0 && size == 0) same = true;
	if (same) return CB_OK;
	*changed = true;
	return data_replace(in->t, node, in->block, size, err);
}

static cb_code read_dense(intake *in, const intake_file *f, inode *node, bool *rests, bool *changed, cb_error *err)
{
	bool short_read = false;
	if (f->size <= INTAKE_BLOCK) {
		if (f->size) CB_TRY(read_host(in, f->fd, 0, (size_t)f->size, &short_read, err));
		*rests = !short_read;
		return short_read ? CB_OK : put_small(in, node, (size_t)f->size, changed, err);
	}
	if (node->rec.size > f->size) {
		*changed = true;
		CB_TRY(data_resize(in->t, node, f->size, err));
	}
	for (uint64_t at = 0; at < f->size; at += INTAKE_BLOCK) {
		size_t n = f->size - at < INTAKE_BLOCK ? (size_t)(f->size - at) : INTAKE_BLOCK;
		CB_TRY(read_host(in, f->fd, at, n, &short_read, err));
		*rests = !short_read;
		if (short_read) return CB_OK;
		CB_TRY(put_range(in, node, at, n, true, changed, err));
		CB_TRY(progress(in, n, err));
	}
	return CB_OK;
}

/* ---- files with holes ---- */

/* The box's next stretch of data at or after offset. */
static cb_code box_data_next(intake *in, const record *r, uint64_t offset, uint64_t *start, uint64_t *end, cb_error *err)
{
	tree_view v = txn_raw(in->t);
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

/* Compares one stretch. */
static cb_code stretch_same(intake *in, int fd, uint64_t start, uint64_t end, const inode *node, bool *same, bool *rests,
                            cb_error *err)
{
	for (uint64_t at = start; at < end;) {
		size_t n = end - at < INTAKE_BLOCK ? (size_t)(end - at) : INTAKE_BLOCK;
		bool short_read = false;
		CB_TRY(read_host(in, fd, at, n, &short_read, err));
		*rests = !short_read;
		if (short_read) return CB_OK;
		CB_TRY(equal_bytes(in, node, at, n, same, err));
		if (!*same) return CB_OK;
		CB_TRY(progress(in, 0, err));
		at += n;
	}
	return CB_OK;
}

static cb_code stretch_store(intake *in, int fd, uint64_t start, uint64_t end, inode *node, bool *rests, cb_error *err)
{
	for (uint64_t at = start; at < end;) {
		size_t n = end - at < INTAKE_BLOCK ? (size_t)(end - at) : INTAKE_BLOCK;
		bool short_read = false, changed = false;
		CB_TRY(read_host(in, fd, at, n, &short_read, err));
		*rests = !short_read;
		if (short_read) return CB_OK;
		CB_TRY(put_range(in, node, at, n, false, &changed, err));
		CB_TRY(progress(in, n, err));
		at += n;
	}
	return CB_OK;
}

/* Are holes and data where the host has them, and the data the same? */
static cb_code sparse_same(intake *in, const intake_file *f, const inode *node, bool *same, bool *rests, cb_error *err)
{
	*same = node->rec.size == f->size;
	for (uint64_t at = 0; *same && *rests && at < f->size;) {
		uint64_t start, end, box_start, box_end;
		CB_TRY(host_next(in, f, at, &start, &end, err));
		CB_TRY(box_data_next(in, &node->rec, at, &box_start, &box_end, err));
		*same = start == box_start && end == box_end;
		if (*same) CB_TRY(stretch_same(in, f->fd, start, end, node, same, rests, err));
		at = end;
	}
	return CB_OK;
}

static cb_code read_sparse(intake *in, const intake_file *f, inode *node, bool *rests, bool *changed, cb_error *err)
{
	bool same = false;
	CB_TRY(sparse_same(in, f, node, &same, rests, err));
	if (same || !*rests) return CB_OK;
	*changed = true;
	CB_TRY(data_drop(in->t, node, err));
	CB_TRY(data_resize(in->t, node, f->size, err));
	for (uint64_t at = 0; *rests && at < f->size;) {
		uint64_t start, end;
		CB_TRY(host_next(in, f, at, &start, &end, err));
		CB_TRY(stretch_store(in, f->fd, start, end, node, rests, err));
		at = end;
	}
	return CB_OK;
}

/* Must holes be looked at: has one of the two any? */
static cb_code is_sparse(intake *in, const intake_file *f, const inode *node, bool fresh, bool *out, cb_error *err)
{
	uint64_t start, end;
	*out = false;
	if (f->size >= SPARSE_MIN_BYTES && f->allocated_bytes < f->size) {
		CB_TRY(host_next(in, f, 0, &start, &end, err));
		*out = start != 0 || end != f->size;
	}
	if (!*out && node->rec.form == DATA_EXTENTS && !fresh) { /* the box's file may have holes where the host's has zeros */
		CB_TRY(box_data_next(in, &node->rec, 0, &start, &end, err));
		*out = start != 0 || end != node->rec.size;
	}
	if (!fresh && node->rec.form == DATA_NONE && f->size >= SPARSE_MIN_BYTES) *out = true;
	return CB_OK;
}

cb_code intake_data(intake *in, const intake_file *f, inode *node, bool fresh, bool *rests, bool *changed, cb_error *err)
{
	bool sparse = false;
	*rests = true;
	CB_TRY(is_sparse(in, f, node, fresh, &sparse, err));
	return sparse ? read_sparse(in, f, node, rests, changed, err) : read_dense(in, f, node, rests, changed, err);
}

cb_code intake_same(intake *in, const intake_file *f, const inode *node, bool *out, cb_error *err)
{
	bool sparse = false, rests = true;
	*out = node->rec.size == f->size;
	if (!*out) return CB_OK;
	CB_TRY(is_sparse(in, f, node, false, &sparse, err));
	if (sparse) return sparse_same(in, f, node, out, &rests, err);
	CB_TRY(stretch_same(in, f->fd, 0, f->size, node, out, &rests, err));
	*out = *out && rests;
	return CB_OK;
}

/* ---- attributes ---- */

cb_code intake_attribute_add(buf *rows, const char *name, span value, cb_error *err)
{
	uint8_t size[4];
	put_le32(size, (uint32_t)value.size);
	CB_TRY(buf_append(rows, name, strlen(name) + 1, err));
	CB_TRY(buf_append(rows, size, sizeof(size), err));
	return buf_append(rows, value.bytes, value.size, err);
}

/* Can a host hold it? Boxes and packs of earlier versions may have one called just "user.". */
static bool is_user(span name)
{
	span prefix = span_str("user.");
	return span_starts(name, prefix) && name.size > prefix.size && !span_starts(name, span_str("user.overlay."));
}

typedef struct box_attributes {
	const cb_store *cs;
	const txn *t;
	buf *rows;
} box_attributes;

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
	CB_TRY(value_load(b->cs, b->t, value, &bytes, &size, err));
	return intake_attribute_add(b->rows, name, span_make(bytes, size), err);
}

cb_code intake_attributes_of(const cb_store *cs, const txn *t, const tree_view *v, uint64_t ino, buf *rows, cb_error *err)
{
	box_attributes b = {cs, t, rows};
	return inode_keys(v, ino, KIND_ATTR, list_box_key, &b, err);
}

/* The next row; *name NULL at the end. */
static cb_code row_next(reader *r, const char **name, span *value, cb_error *err)
{
	*name = NULL;
	if (reader_at_end(r)) return CB_OK;
	const uint8_t *nul = memchr(r->at, 0, (size_t)(r->end - r->at));
	size_t size = nul ? (size_t)(nul - r->at) : 0;
	if (!nul || size == 0 || size > LIMIT_NAME_BYTES) return cb_err_set(err, CB_CORRUPT, "a list of attributes is malformed");
	*name = (const char *)r->at;
	(void)reader_span(r, size + 1);
	uint32_t length = reader_le32(r);
	*value = reader_span(r, length);
	if (r->bad || length > LIMIT_XATTR_VALUE_BYTES || !is_user(span_str(*name)))
		return cb_err_set(err, CB_CORRUPT, "a list of attributes is malformed");
	return CB_OK;
}

static cb_code attributes_replace(intake *in, uint64_t ino, span before, span after, cb_error *err)
{
	reader old = reader_make(before), new = reader_make(after);
	const char *name;
	span value;
	for (;;) {
		CB_TRY(row_next(&old, &name, &value, err));
		if (!name) break;
		key k = key_attr(ino, span_str(name));
		CB_TRY(txn_delete(in->t, &k, err));
	}
	for (;;) {
		CB_TRY(row_next(&new, &name, &value, err));
		if (!name) return CB_OK;
		key k = key_attr(ino, span_str(name));
		CB_TRY(value_store(in->t, &k, value.bytes, value.size, err));
	}
}

cb_code intake_attributes(intake *in, uint64_t ino, span rows, bool fresh, bool *changed, cb_error *err)
{
	AUTO_BUF buf now = BUF_INIT(SIZE_MAX);
	tree_view v = txn_raw(in->t);
	if (!fresh) CB_TRY(intake_attributes_of(in->t->cs, in->t, &v, ino, &now, err));
	if (span_equal(rows, buf_span(&now))) return CB_OK;
	*changed = true;
	return attributes_replace(in, ino, buf_span(&now), rows, err);
}
