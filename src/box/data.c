/*
 * data.c: the bytes of files: inline, one content, or extents.
 *
 * Small files are replaced whole (one content); larger ones and sparse ones are extents, so that a write costs what it writes.
 * Contents are immutable, so overwriting a range cuts the extents around it and adds new ones; nothing is copied. Appends join a
 * short last extent, so that a log written line by line has extents of some KiB, not of some bytes.
 */
#include "box/internal.h"

#include <assert.h>

enum {
	REWRITE_BYTES = 16 << 10, /* a file up to this size is rewritten as one content by a partial write */
	JOIN_BYTES = 8 << 10,     /* an append joins a last extent shorter than this */
};

/* ---- extents ---- */

static uint64_t extent_end(const extent *x)
{
	return x->offset + x->length;
}

static bool cursor_extent_key(tree_cursor *c, uint64_t ino, span *key_bytes, span *value)
{
	key prefix = key_prefix(KIND_EXTENT, ino);
	return tree_cursor_get(c, key_bytes, value) && span_starts(*key_bytes, key_span(&prefix));
}

/* The extent at the cursor; *found false past the inode's last. */
static cb_code cursor_extent(tree_cursor *c, uint64_t ino, extent *out, bool *found, cb_error *err)
{
	span k, value;
	*found = cursor_extent_key(c, ino, &k, &value);
	if (!*found) return CB_OK;
	key_parts parts;
	CB_TRY(key_parse(k, &parts, err));
	return extent_decode(value, parts.offset, out, err);
}

cb_code data_extent_at(const tree_view *v, uint64_t ino, uint64_t offset, extent *out, bool *found, cb_error *err)
{
	key after = key_extent(ino, offset + 1), last;
	tree_value value;
	key_parts parts;
	*found = false;
	cb_code code = tree_reaching(v, key_span(&after), last.bytes, &last.size, &value, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	CB_TRY(key_parse(key_span(&last), &parts, err));
	if (parts.kind != KIND_EXTENT || parts.ino != ino) return CB_OK;
	CB_TRY(extent_decode(span_make(value.bytes, value.size), parts.offset, out, err));
	*found = extent_end(out) > offset;
	return CB_OK;
}

/* Opens a cursor at the first extent that ends after `offset`, for those that begin before `to`. */
static cb_code extents_open(const tree_view *v, uint64_t ino, uint64_t offset, uint64_t to, tree_cursor **out, cb_error *err)
{
	extent x;
	bool found = false;
	CB_TRY(data_extent_at(v, ino, offset, &x, &found, err));
	key from = key_extent(ino, found ? x.offset : offset + 1), until = key_extent(ino, to);
	return tree_cursor_open_until(v, key_span(&from), key_span(&until), out, err);
}

static cb_code extents_read(const cb_store *cs, const txn *t, const tree_view *v, uint64_t ino, uint64_t offset, uint8_t *to,
                            size_t size, cb_error *err)
{
	AUTO_CURSOR tree_cursor *c = NULL;
	uint64_t end = offset + size;
	CB_TRY(extents_open(v, ino, offset, end, &c, err));
	while (offset < end) {
		extent x;
		bool found = false;
		CB_TRY(cursor_extent(c, ino, &x, &found, err));
		uint64_t next = found && x.offset < end ? x.offset : end;
		if (next > offset) { /* a hole */
			memset(to, 0, (size_t)(next - offset));
			to += next - offset;
			offset = next;
			continue;
		}
		uint64_t stop = extent_end(&x) < end ? extent_end(&x) : end;
		CB_TRY(content_read(cs, t, x.content, x.start + (offset - x.offset), to, (size_t)(stop - offset), err));
		to += stop - offset;
		offset = stop;
		if (offset < end) CB_TRY(tree_cursor_next(c, err));
	}
	return CB_OK;
}

static cb_code extent_put(txn *t, uint64_t ino, const extent *x, cb_error *err)
{
	key k = key_extent(ino, x->offset);
	tree_value value;
	extent_encode(x, &value);
	return txn_put(t, &k, &value, err);
}

/* Extents that touch [from, to), copied out: a cursor must not see the map change. */
static cb_code extents_collect(const tree_view *v, uint64_t ino, uint64_t from, uint64_t to, buf *out, cb_error *err)
{
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(extents_open(v, ino, from, to, &c, err));
	for (;;) {
		extent x;
		bool found = false;
		CB_TRY(cursor_extent(c, ino, &x, &found, err));
		if (!found || x.offset >= to) return CB_OK;
		CB_TRY(buf_append(out, &x, sizeof(x), err));
		if (extent_end(&x) >= to) return CB_OK;
		CB_TRY(tree_cursor_next(c, err));
	}
}

/* Makes [from, to) a hole, keeping what sticks out on either side. */
static cb_code extents_cut(txn *t, uint64_t ino, uint64_t from, uint64_t to, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	tree_view v = txn_raw(t);
	CB_TRY(extents_collect(&v, ino, from, to, &list, err));
	const extent *xs = (const extent *)(const void *)list.bytes;
	for (size_t i = 0; i < list.size / sizeof(extent); i++) {
		extent x = xs[i];
		key k = key_extent(ino, x.offset);
		CB_TRY(txn_delete(t, &k, err));
		if (x.offset < from) {
			extent left = x;
			left.length = (uint32_t)(from - x.offset);
			CB_TRY(extent_put(t, ino, &left, err));
		}
		if (extent_end(&x) > to) {
			uint32_t skip = (uint32_t)(to - x.offset);
			extent right = {to, x.content, x.start + skip, x.length - skip};
			CB_TRY(extent_put(t, ino, &right, err));
		}
	}
	return CB_OK;
}

/* ---- reading ---- */

cb_code data_read(const cb_store *cs, const txn *t, const tree_view *v, const record *r, uint64_t offset, void *to, size_t size,
                  cb_error *err)
{
	assert(offset <= r->size && size <= r->size - offset);
	if (size == 0) return CB_OK;
	switch (r->form) {
	case DATA_NONE:
		memset(to, 0, size);
		return CB_OK;
	case DATA_INLINE:
		memcpy(to, r->bytes + offset, size);
		return CB_OK;
	case DATA_CONTENT:
		return content_read(cs, t, r->content, r->start + offset, to, size, err);
	case DATA_EXTENTS:
		return extents_read(cs, t, v, r->ino, offset, to, size, err);
	}
	return cb_err_set(err, CB_CORRUPT, "inode %llu has data of an unknown form", (unsigned long long)r->ino);
}

cb_code data_load(const cb_store *cs, const txn *t, const tree_view *v, const record *r, uint64_t max, char **out, size_t *out_size,
                  cb_error *err)
{
	if (r->size > max) return cb_err_set(err, CB_TOOBIG, "%llu bytes are more than fit here", (unsigned long long)r->size);
	char *bytes = mem_alloc_bytes((size_t)r->size + 1);
	if (!bytes) return cb_err_nomem(err);
	cb_code code = CB_OK;
	for (uint64_t at = 0; code == CB_OK && at < r->size; at += LIMIT_CONTENT_BYTES) { /* holes too cost their size here */
		uint64_t left = r->size - at;
		code = cancel_check(err);
		if (code == CB_OK)
			code = data_read(cs, t, v, r, at, bytes + at,
			                 left < LIMIT_CONTENT_BYTES ? (size_t)left : LIMIT_CONTENT_BYTES, err);
	}
	if (code != CB_OK) {
		free(bytes);
		return code;
	}
	bytes[r->size] = 0;
	*out = bytes;
	if (out_size) *out_size = (size_t)r->size;
	return CB_OK;
}

cb_code data_seek(const tree_view *v, const record *r, uint64_t offset, bool hole, uint64_t *out, cb_error *err)
{
	if (offset >= r->size) return cb_err_set(err, CB_NOTFOUND, "offset is at or past the end");
	if (r->form == DATA_INLINE || r->form == DATA_CONTENT) {
		*out = hole ? r->size : offset;
		return CB_OK;
	}
	if (r->form == DATA_NONE) {
		*out = offset;
		return hole ? CB_OK : cb_err_set(err, CB_NOTFOUND, "no data past the offset");
	}
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(extents_open(v, r->ino, offset, r->size, &c, err));
	for (;;) {
		extent x;
		bool found = false;
		CB_TRY(cursor_extent(c, r->ino, &x, &found, err));
		if (!found && !hole) return cb_err_set(err, CB_NOTFOUND, "no data past the offset");
		if (!hole || !found || x.offset > offset) {
			*out = hole ? offset : (x.offset > offset ? x.offset : offset);
			return CB_OK;
		}
		offset = extent_end(&x);
		if (offset >= r->size) {
			*out = r->size;
			return CB_OK;
		}
		CB_TRY(tree_cursor_next(c, err));
	}
}

/* ---- writing ---- */

static cb_code set_size(txn *t, record *r, uint64_t size, cb_error *err)
{
	if (size > LIMIT_FILE_BYTES)
		return cb_err_set(err, CB_TOOBIG, "a file may have %llu bytes", (unsigned long long)LIMIT_FILE_BYTES);
	if (size > r->size) CB_TRY(txn_file_fits(t, r->ino, size, err));
	if (size != r->size) CB_TRY(txn_count(t, 0, (int64_t)(size - r->size), err));
	r->size = size;
	return CB_OK;
}

cb_code data_drop(txn *t, inode *node, cb_error *err)
{
	if (node->rec.form == DATA_EXTENTS) CB_TRY(inode_delete_keys(t, node->rec.ino, KIND_EXTENT, err));
	node->rec.form = DATA_NONE;
	node->rec.written = 0;
	return set_size(t, &node->rec, 0, err);
}

/* New extents of at most LIMIT_CONTENT_BYTES each. */
static cb_code extents_add(txn *t, uint64_t ino, uint64_t offset, const uint8_t *bytes, size_t size, cb_error *err)
{
	while (size) {
		size_t n = size < LIMIT_CONTENT_BYTES ? size : LIMIT_CONTENT_BYTES;
		extent x = {.offset = offset, .length = (uint32_t)n};
		CB_TRY(txn_content_add(t, span_make(bytes, n), &x.content, err));
		CB_TRY(extent_put(t, ino, &x, err));
		CB_TRY(txn_relieve(t, err));
		offset += n;
		bytes += n;
		size -= n;
	}
	return CB_OK;
}

/* Small data of a known whole: inline or one content. */
static cb_code set_whole(txn *t, record *r, const void *bytes, size_t size, cb_error *err)
{
	assert(size <= LIMIT_CONTENT_BYTES);
	r->start = 0;
	if (size <= LIMIT_INLINE_BYTES) {
		r->form = size ? DATA_INLINE : DATA_NONE;
		if (size) memcpy(r->bytes, bytes, size);
		return CB_OK;
	}
	CB_TRY(txn_content_add(t, span_make(bytes, size), &r->content, err));
	r->form = DATA_CONTENT;
	return CB_OK;
}

cb_code data_replace(txn *t, inode *node, const void *bytes, size_t size, cb_error *err)
{
	record *r = &node->rec;
	if (r->form == DATA_EXTENTS) CB_TRY(inode_delete_keys(t, r->ino, KIND_EXTENT, err));
	r->form = DATA_NONE;
	r->written = 0;
	CB_TRY(set_size(t, r, size, err));
	if (size <= LIMIT_CONTENT_BYTES) return set_whole(t, r, bytes, size, err);
	r->form = DATA_EXTENTS;
	return extents_add(t, r->ino, 0, bytes, size, err);
}

static cb_code to_extents(txn *t, record *r, cb_error *err)
{
	if (r->form == DATA_INLINE) {
		size_t size = (size_t)r->size;
		uint8_t bytes[LIMIT_INLINE_BYTES];
		memcpy(bytes, r->bytes, size);
		r->form = DATA_EXTENTS;
		return extents_add(t, r->ino, 0, bytes, size, err);
	}
	if (r->form == DATA_CONTENT) {
		extent x = {0, r->content, r->start, (uint32_t)r->size};
		CB_TRY(extent_put(t, r->ino, &x, err));
	}
	r->form = DATA_EXTENTS;
	return CB_OK;
}

/* A write that leaves a small file: read, change, replace. */
static cb_code write_small(txn *t, inode *node, uint64_t offset, const void *bytes, size_t size, uint64_t end, cb_error *err)
{
	record *r = &node->rec;
	uint64_t whole = end > r->size ? end : r->size;
	AUTO_BUF buf b = BUF_INIT(REWRITE_BYTES);
	uint8_t *p;
	CB_TRY(buf_extend(&b, (size_t)whole, &p, err));
	memset(p, 0, (size_t)whole);
	tree_view v = txn_raw(t);
	CB_TRY(data_read(t->cs, t, &v, r, 0, p, (size_t)r->size, err));
	memcpy(p + offset, bytes, size);
	CB_TRY(set_size(t, r, whole, err));
	return set_whole(t, r, p, (size_t)whole, err);
}

static cb_code last_extent(txn *t, const record *r, extent *out, bool *found, cb_error *err)
{
	*found = false;
	if (r->size == 0) return CB_OK;
	AUTO_CURSOR tree_cursor *c = NULL;
	tree_view v = txn_raw(t);
	CB_TRY(extents_open(&v, r->ino, r->size - 1, r->size, &c, err));
	return cursor_extent(c, r->ino, out, found, err);
}

/* An append to a file of extents. Joins the last extent when that is short, or grows a content of this same transaction in place. */
static cb_code append_extent(txn *t, record *r, const uint8_t *bytes, size_t size, cb_error *err)
{
	extent last;
	bool found = false;
	uint64_t at = r->size;
	CB_TRY(last_extent(t, r, &last, &found, err));
	if (!found || extent_end(&last) != at) return extents_add(t, r->ino, at, bytes, size, err);
	local_content *local = txn_content_local(t, last.content);
	if (local && last.start + last.length == local->bytes.size && size <= LIMIT_CONTENT_BYTES - local->bytes.size) {
		CB_TRY(buf_append(&local->bytes, bytes, size, err));
		t->local_bytes += size;
		last.length += (uint32_t)size;
		return extent_put(t, r->ino, &last, err);
	}
	if (last.length >= JOIN_BYTES || size >= JOIN_BYTES) return extents_add(t, r->ino, at, bytes, size, err);
	uint8_t joined[2 * JOIN_BYTES];
	CB_TRY(content_read(t->cs, t, last.content, last.start, joined, last.length, err));
	memcpy(joined + last.length, bytes, size);
	return extents_add(t, r->ino, last.offset, joined, last.length + size, err);
}

cb_code data_write(txn *t, inode *node, uint64_t offset, const void *bytes, size_t size, cb_error *err)
{
	record *r = &node->rec;
	if (size == 0) return CB_OK;
	if (offset > LIMIT_FILE_BYTES || size > LIMIT_FILE_BYTES - offset)
		return cb_err_set(err, CB_TOOBIG, "a file may have %llu bytes", (unsigned long long)LIMIT_FILE_BYTES);
	uint64_t end = offset + size;
	r->written = 0;
	if (offset == 0 && end >= r->size && size <= LIMIT_CONTENT_BYTES && r->form != DATA_EXTENTS)
		return data_replace(t, node, bytes, size, err);
	if (r->form != DATA_EXTENTS && end <= REWRITE_BYTES && r->size <= REWRITE_BYTES)
		return write_small(t, node, offset, bytes, size, end, err);
	if (r->form != DATA_EXTENTS) CB_TRY(to_extents(t, r, err));
	if (offset == r->size) {
		CB_TRY(append_extent(t, r, bytes, size, err));
		return set_size(t, r, end, err);
	}
	CB_TRY(extents_cut(t, r->ino, offset, end, err));
	CB_TRY(extents_add(t, r->ino, offset, bytes, size, err));
	return end > r->size ? set_size(t, r, end, err) : CB_OK;
}

cb_code data_resize(txn *t, inode *node, uint64_t size, cb_error *err)
{
	record *r = &node->rec;
	if (size == r->size) return CB_OK;
	if (size == 0) return data_drop(t, node, err);
	r->written = 0;
	if (size < r->size) {
		if (r->form == DATA_EXTENTS) CB_TRY(extents_cut(t, r->ino, size, r->size, err));
		return set_size(t, r, size, err); /* inline and content forms are cut by the size alone */
	}
	if (r->form == DATA_INLINE && size <= LIMIT_INLINE_BYTES) {
		memset(r->bytes + r->size, 0, (size_t)(size - r->size));
		return set_size(t, r, size, err);
	}
	if (r->form != DATA_NONE && r->form != DATA_EXTENTS) CB_TRY(to_extents(t, r, err));
	return set_size(t, r, size, err);
}

/* ---- comparing ---- */

/* A file's bytes as stretches, each a hole or of one content. Without the cursor: the file is one stretch. */
typedef struct stretches {
	const cb_store *cs;
	const txn *t;
	const record *r;
	tree_cursor *c;
	uint64_t end; /* of the stretch that stretch_at found */
	bool hole;
	uint64_t content, start; /* of its data, where those of the file begin there; content 0: inline */
} stretches;

static cb_code stretches_open(stretches *s, const tree_view *v, cb_error *err)
{
	const record *r = s->r;
	s->end = r->size;
	s->hole = r->form == DATA_NONE;
	if (r->form == DATA_CONTENT) s->content = r->content, s->start = r->start;
	return r->form == DATA_EXTENTS ? extents_open(v, r->ino, 0, r->size, &s->c, err) : CB_OK;
}

/* The stretch at an offset below the size; offsets only grow. */
static cb_code stretch_at(stretches *s, uint64_t offset, cb_error *err)
{
	extent x;
	bool found = false;
	if (!s->c) return CB_OK;
	CB_TRY(cursor_extent(s->c, s->r->ino, &x, &found, err));
	while (found && extent_end(&x) <= offset) {
		CB_TRY(tree_cursor_next(s->c, err));
		CB_TRY(cursor_extent(s->c, s->r->ino, &x, &found, err));
	}
	s->hole = !found || x.offset > offset;
	s->end = !found ? s->r->size : s->hole ? x.offset : extent_end(&x);
	if (s->end > s->r->size) s->end = s->r->size;
	if (!s->hole) s->content = x.content, s->start = x.start - x.offset; /* modulo 2^64: an offset is added */
	return CB_OK;
}

static cb_code stretch_read(const stretches *s, uint64_t offset, uint8_t *to, size_t size, cb_error *err)
{
	if (!s->hole && s->content) return content_read(s->cs, s->t, s->content, s->start + offset, to, size, err);
	if (s->hole) memset(to, 0, size);
	else memcpy(to, s->r->bytes + offset, size);
	return CB_OK;
}

/* The same bytes without reading them? Numbers of contents not yet stored mean something in their own transaction only. */
static bool stretches_same(const stretches *a, const stretches *b)
{
	if (a->hole || b->hole) return a->hole && b->hole;
	return a->content && a->content == b->content && a->start == b->start && (a->t == b->t || !(a->content & CONTENT_LOCAL));
}

/* Costs what there is of data, and reads only where the two refer to different ones: a file of holes may have any size. */
static cb_code stretches_equal(stretches *a, stretches *b, uint64_t size, bool *out, cb_error *err)
{
	/* Most files are small, and there may be many: no more than is needed, and aligned by hand: such a hole is taken by the next. */
	enum { BLOCK = 1 << 16, LINE = 64 };
	size_t block = size < BLOCK ? ((size_t)size + LINE - 1) & ~(size_t)(LINE - 1) : BLOCK;
	AUTO_FREE uint8_t *room = NULL;
	for (uint64_t at = 0; at < size;) {
		CB_TRY(cancel_check(err));
		CB_TRY(stretch_at(a, at, err));
		CB_TRY(stretch_at(b, at, err));
		uint64_t end = a->end < b->end ? a->end : b->end;
		if (stretches_same(a, b)) {
			at = end;
			continue;
		}
		if (!room && !(room = mem_alloc(2 * block + LINE))) return cb_err_nomem(err);
		uint8_t *pa = room + LINE - (uintptr_t)room % LINE, *pb = pa + block;
		size_t n = end - at < block ? (size_t)(end - at) : block;
		CB_TRY(stretch_read(a, at, pa, n, err));
		CB_TRY(stretch_read(b, at, pb, n, err));
		if (memcmp(pa, pb, n) != 0) return CB_OK;
		at += n;
	}
	*out = true;
	return CB_OK;
}

cb_code data_equal(const cb_store *cs, const txn *ta, const tree_view *va, const record *a, const txn *tb, const tree_view *vb,
                   const record *b, bool *out, cb_error *err)
{
	*out = false;
	if (a->size != b->size) return CB_OK;
	stretches x = {.cs = cs, .t = ta, .r = a}, y = {.cs = cs, .t = tb, .r = b};
	cb_code code = stretches_open(&x, va, err);
	if (code == CB_OK) code = stretches_open(&y, vb, err);
	if (code == CB_OK) code = stretches_equal(&x, &y, a->size, out, err);
	tree_cursor_close(x.c);
	tree_cursor_close(y.c);
	return code;
}

/* ---- what was written elsewhere ---- */

cb_code data_settle(txn *t, txn *from, uint64_t ino, size_t *out_count, cb_error *err)
{
	inode node;
	tree_view v = txn_raw(t);
	key prefix = key_prefix(KIND_EXTENT, ino);
	pmap_cursor c;
	span k, value;
	bool tombstone;
	*out_count = 0;
	CB_TRY(inode_find(&v, ino, &node, err));
	if (node.rec.form == DATA_CONTENT && node.rec.content & CONTENT_LOCAL) {
		CB_TRY(txn_content_settle(from, &node.rec.content, err));
		CB_TRY(inode_save(t, &node, err));
	}
	pmap was = pmap_ref(&t->delta); /* a cursor must not see the map change */
	cb_code code = CB_OK;
	for (pmap_seek(&c, &was, key_span(&prefix)); code == CB_OK && pmap_cursor_get(&c, &k, &value, &tombstone);
	     pmap_cursor_next(&c)) {
		extent x;
		key_parts at;
		if (!span_starts(k, key_span(&prefix))) break;
		++*out_count;
		if (tombstone) continue;
		code = key_parse(k, &at, err);
		if (code == CB_OK) code = extent_decode(value, at.offset, &x, err);
		if (code != CB_OK || !(x.content & CONTENT_LOCAL)) continue;
		code = txn_content_settle(from, &x.content, err);
		if (code == CB_OK) code = extent_put(t, ino, &x, err);
	}
	pmap_done(&was);
	return code;
}

/* `was` ends at its size; what lies beyond was never shared. */
static cb_code write_changes(txn *t, inode *node, stretches *was, stretches *now, cb_error *err)
{
	AUTO_FREE uint8_t *block = NULL;
	for (uint64_t at = 0, end; at < now->r->size; at = end) {
		CB_TRY(cancel_check(err));
		bool beyond = at >= was->r->size;
		CB_TRY(stretch_at(now, at, err));
		if (!beyond) CB_TRY(stretch_at(was, at, err));
		end = beyond || now->end < was->end ? now->end : was->end;
		if (now->hole || (!beyond && stretches_same(was, now))) continue;
		if (!block && !(block = mem_alloc(LIMIT_CONTENT_BYTES))) return cb_err_nomem(err);
		if (end - at > LIMIT_CONTENT_BYTES) end = at + LIMIT_CONTENT_BYTES;
		CB_TRY(stretch_read(now, at, block, (size_t)(end - at), err));
		CB_TRY(data_write(t, node, at, block, (size_t)(end - at), err));
	}
	return CB_OK;
}

cb_code data_write_changes(txn *t, inode *node, const txn *from, const tree_view *was_view, const record *was,
                           const tree_view *now_view, const record *now, cb_error *err)
{
	stretches x = {.cs = t->cs, .t = from, .r = was}, y = {.cs = t->cs, .t = from, .r = now};
	cb_code code = stretches_open(&x, was_view, err);
	if (code == CB_OK) code = stretches_open(&y, now_view, err);
	if (code == CB_OK) code = write_changes(t, node, &x, &y, err);
	tree_cursor_close(x.c);
	tree_cursor_close(y.c);
	return code;
}

/* ---- values ---- */

cb_code value_store(txn *t, const key *k, const void *bytes, size_t size, cb_error *err)
{
	value_ref v = {.size = size, .is_inline = size <= LIMIT_INLINE_BYTES};
	if (v.is_inline && size) memcpy(v.bytes, bytes, size);
	const uint8_t *p = bytes;
	for (size_t at = 0; !v.is_inline && at < size; at += LIMIT_CONTENT_BYTES) {
		uint64_t content = 0;
		size_t n = size - at < LIMIT_CONTENT_BYTES ? size - at : LIMIT_CONTENT_BYTES;
		CB_TRY(txn_content_add(t, span_make(p + at, n), &content, err));
		if (at == 0) v.content = content;
		assert(content == v.content + at / LIMIT_CONTENT_BYTES); /* one writer: numbers follow each other */
	}
	tree_value value;
	value_encode(&v, &value);
	return txn_put(t, k, &value, err);
}

cb_code value_is(const txn *t, const key *k, span bytes, bool *out, cb_error *err)
{
	AUTO_FREE char *loaded = NULL;
	tree_value now;
	value_ref v;
	size_t size = 0;
	*out = false;
	cb_code code = txn_get(t, k, &now, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	CB_TRY(value_decode(span_make(now.bytes, now.size), &v, err));
	if (v.size != bytes.size) return CB_OK;
	CB_TRY(value_load(t->cs, t, span_make(now.bytes, now.size), &loaded, &size, err));
	*out = size == 0 || memcmp(loaded, bytes.bytes, size) == 0;
	return CB_OK;
}

cb_code value_load(const cb_store *cs, const txn *t, span encoded, char **out, size_t *out_size, cb_error *err)
{
	value_ref v;
	CB_TRY(value_decode(encoded, &v, err));
	char *bytes = mem_alloc_bytes((size_t)v.size + 1);
	if (!bytes) return cb_err_nomem(err);
	cb_code code = CB_OK;
	if (v.is_inline) memcpy(bytes, v.bytes, (size_t)v.size);
	for (uint64_t at = 0; code == CB_OK && !v.is_inline && at < v.size; at += LIMIT_CONTENT_BYTES) {
		uint64_t left = v.size - at;
		size_t n = left < LIMIT_CONTENT_BYTES ? (size_t)left : LIMIT_CONTENT_BYTES;
		code = content_read(cs, t, v.content + at / LIMIT_CONTENT_BYTES, 0, bytes + at, n, err);
	}
	if (code != CB_OK) {
		free(bytes);
		return code;
	}
	bytes[v.size] = 0;
	*out = bytes;
	if (out_size) *out_size = (size_t)v.size;
	return CB_OK;
}

cb_code values_equal(const cb_store *cs, const txn *ta, span a, const txn *tb, span b, bool *out, cb_error *err)
{
	AUTO_FREE char *x = NULL, *y = NULL;
	size_t x_size = 0, y_size = 0;
	value_ref v, w;
	*out = span_equal(a, b);
	if (*out) return CB_OK;
	CB_TRY(value_decode(a, &v, err));
	CB_TRY(value_decode(b, &w, err));
	if (v.size != w.size) return CB_OK;
	CB_TRY(value_load(cs, ta, a, &x, &x_size, err));
	CB_TRY(value_load(cs, tb, b, &y, &y_size, err));
	*out = memcmp(x, y, x_size) == 0;
	return CB_OK;
}
