/* record.c: keys and values of a box's map, encoded and decoded. Layouts are fixed; see record.h and docs/format.md. */
#include "box/record.h"

#include <assert.h>
#include <stdlib.h>

enum {
	RECORD_FIXED = 59, /* bytes before the data part */
	MARK_BYTES = 8,    /* behind it, when it was written before the version */
	MARK_NONE = 0,     /* nobody knows when it was written, */
	MARK_VERSION = 1,  /* with the version, */
	MARK_BEFORE = 2,   /* before it */
	ENTRY_RECORD = 'R',
	VALUE_INLINE = 'i',
	VALUE_CONTENT = 'c',
	TYPE_SHIFT = 24, /* the mode word keeps the type in its top byte */
	MODE_MASK = 07777,
};

static_assert(1 + RECORD_FIXED + LIMIT_INLINE_BYTES + MARK_BYTES <= TREE_VALUE_MAX,
              "an entry with inline data must fit a tree value");
static_assert(1 + 8 + 8 + LIMIT_NAME_BYTES <= TREE_KEY_MAX, "the longest key is N ino parent name");

/* ---- keys ---- */

static key key_start(uint8_t kind)
{
	key k;
	k.bytes[0] = kind;
	k.size = 1;
	return k;
}

static void key_add_u64(key *k, uint64_t v)
{
	put_be64(k->bytes + k->size, v);
	k->size += 8;
}

static void key_add_name(key *k, span name)
{
	assert(name.size <= LIMIT_NAME_BYTES);
	if (name.size) memcpy(k->bytes + k->size, name.bytes, name.size);
	k->size += name.size;
}

key key_prefix(uint8_t kind, uint64_t ino)
{
	key k = key_start(kind);
	key_add_u64(&k, ino);
	return k;
}

key key_entry(uint64_t parent, span name)
{
	key k = key_prefix(KIND_ENTRY, parent);
	key_add_name(&k, name);
	return k;
}

key key_inode(uint64_t ino)
{
	return key_prefix(KIND_INODE, ino);
}

key key_name(uint64_t ino, uint64_t parent, span name)
{
	key k = key_prefix(KIND_NAME, ino);
	key_add_u64(&k, parent);
	key_add_name(&k, name);
	return k;
}

key key_extent(uint64_t ino, uint64_t offset)
{
	key k = key_prefix(KIND_EXTENT, ino);
	key_add_u64(&k, offset);
	return k;
}

key key_attr(uint64_t ino, span name)
{
	key k = key_prefix(KIND_ATTR, ino);
	key_add_name(&k, name);
	return k;
}

key key_tag(uint64_t ino, char sort, span name)
{
	key k = key_prefix(KIND_TAG, ino);
	k.bytes[k.size++] = (uint8_t)sort;
	key_add_name(&k, name);
	return k;
}

key key_kv(span name)
{
	key k = key_start(KIND_KV);
	key_add_name(&k, name);
	return k;
}

key key_counters(void)
{
	return key_start(KIND_COUNTERS);
}

static cb_code bad_key(cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "a key of the map is malformed");
}

static uint64_t reader_be64(reader *r)
{
	span s = reader_span(r, 8);
	return r->bad ? 0 : get_be64(s.bytes);
}

/* The part behind kind and inode, which differs per kind. */
static cb_code key_parse_tail(reader *r, key_parts *out, cb_error *err)
{
	switch (out->kind) {
	case KIND_INODE:
		break;
	case KIND_NAME:
		out->parent = reader_be64(r);
		break;
	case KIND_EXTENT:
		out->offset = reader_be64(r);
		break;
	case KIND_TAG:
		out->sort = (char)reader_byte(r);
		if (out->sort != 't' && out->sort != 'm') return bad_key(err);
		break;
	case KIND_ENTRY:
	case KIND_ATTR:
		break;
	default:
		return bad_key(err);
	}
	bool named = out->kind != KIND_INODE && out->kind != KIND_EXTENT;
	if (named) out->name = reader_span(r, (size_t)(r->end - r->at));
	return CB_OK;
}

cb_code key_parse(span bytes, key_parts *out, cb_error *err)
{
	*out = (key_parts){0};
	reader r = reader_make(bytes);
	out->kind = reader_byte(&r);
	if (out->kind == KIND_COUNTERS) return r.bad || !reader_at_end(&r) ? bad_key(err) : CB_OK;
	if (out->kind == KIND_KV) {
		out->name = reader_span(&r, (size_t)(r.end - r.at));
	} else {
		out->ino = reader_be64(&r);
		CB_TRY(key_parse_tail(&r, out, err));
	}
	if (r.bad || !reader_at_end(&r) || out->name.size > LIMIT_NAME_BYTES) return bad_key(err);
	return CB_OK;
}

/* ---- values ---- */

static uint8_t record_mark(const record *r)
{
	if (r->type != CB_FILE || r->written == RECORD_WRITTEN_UNKNOWN) return MARK_NONE;
	return r->written == r->version ? MARK_VERSION : MARK_BEFORE;
}

static size_t record_write_data(const record *r, uint8_t *p)
{
	switch (r->form) {
	case DATA_NONE:
	case DATA_EXTENTS:
		return 0;
	case DATA_INLINE:
		assert(r->size <= LIMIT_INLINE_BYTES);
		memcpy(p, r->bytes, (size_t)r->size);
		return (size_t)r->size;
	case DATA_CONTENT:
		put_le64(p, r->content);
		put_le32(p + 8, r->start);
		return 12;
	}
	abort(); /* every form is above: decoding refuses others */
}

static size_t record_write(const record *r, uint8_t *p)
{
	put_le64(p, r->ino);
	put_le64(p + 8, r->version);
	put_le64(p + 16, r->size);
	put_le64(p + 24, (uint64_t)r->mtime_ns);
	put_le64(p + 32, (uint64_t)r->ctime_ns);
	put_le64(p + 40, (uint64_t)r->atime_ns);
	put_le32(p + 48, (uint32_t)r->type << TYPE_SHIFT | (r->mode & MODE_MASK));
	put_le32(p + 52, r->links);
	p[56] = record_mark(r);
	p[57] = 0;
	p[58] = (uint8_t)r->form;
	size_t size = RECORD_FIXED + record_write_data(r, p + RECORD_FIXED);
	if (p[56] != MARK_BEFORE) return size;
	put_le64(p + size, r->written);
	return size + MARK_BYTES;
}

void record_encode(const record *r, tree_value *out)
{
	out->size = record_write(r, out->bytes);
}

static cb_code bad_record(cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "an inode record is malformed");
}

static cb_code record_decode_data(reader *r, record *out, cb_error *err)
{
	switch (out->form) {
	case DATA_NONE:
	case DATA_EXTENTS:
		return CB_OK;
	case DATA_INLINE: {
		if (out->size > LIMIT_INLINE_BYTES) return bad_record(err);
		span data = reader_span(r, (size_t)out->size);
		if (r->bad) return bad_record(err);
		if (data.size) memcpy(out->bytes, data.bytes, data.size);
		return CB_OK;
	}
	case DATA_CONTENT:
		out->content = reader_le64(r);
		out->start = reader_le32(r);
		if (r->bad || out->content == 0 || out->size > LIMIT_CONTENT_BYTES || out->start > LIMIT_CONTENT_BYTES - out->size)
			return bad_record(err);
		return CB_OK;
	}
	return bad_record(err);
}

/* After the rest: there is one way to say it. */
static cb_code record_decode_mark(reader *r, uint8_t mark, record *out, cb_error *err)
{
	out->written = mark == MARK_VERSION ? out->version : mark == MARK_BEFORE ? reader_le64(r) : RECORD_WRITTEN_UNKNOWN;
	return r->bad || record_mark(out) != mark ? bad_record(err) : CB_OK;
}

cb_code record_decode(span bytes, record *out, cb_error *err)
{
	if (bytes.size < RECORD_FIXED) return bad_record(err);
	const uint8_t *p = bytes.bytes;
	out->ino = get_le64(p);
	out->version = get_le64(p + 8);
	out->size = get_le64(p + 16);
	out->mtime_ns = (int64_t)get_le64(p + 24);
	out->ctime_ns = (int64_t)get_le64(p + 32);
	out->atime_ns = (int64_t)get_le64(p + 40);
	uint32_t word = get_le32(p + 48);
	out->type = (cb_type)(word >> TYPE_SHIFT);
	out->mode = word & MODE_MASK;
	out->links = get_le32(p + 52);
	out->form = (data_form)p[58];
	out->content = 0;
	out->start = 0;
	reader r = reader_make(span_make(p + RECORD_FIXED, bytes.size - RECORD_FIXED));
	if (out->ino == 0 || out->type < CB_FILE || out->type > CB_SYMLINK || out->size > LIMIT_FILE_BYTES) return bad_record(err);
	CB_TRY(record_decode_data(&r, out, err));
	CB_TRY(record_decode_mark(&r, p[56], out, err));
	return reader_at_end(&r) ? CB_OK : bad_record(err);
}

void entry_encode(const entry *e, tree_value *out)
{
	if (e->is_link) {
		out->bytes[0] = ENTRY_LINK;
		put_le64(out->bytes + 1, e->rec.ino);
		out->size = 9;
		return;
	}
	out->bytes[0] = ENTRY_RECORD;
	out->size = 1 + record_write(&e->rec, out->bytes + 1);
}

bool entry_is_link(span bytes)
{
	return bytes.size == 9 && bytes.bytes[0] == ENTRY_LINK;
}

cb_code entry_record(span bytes, record *out, cb_error *err)
{
	if (bytes.size < 1 || bytes.bytes[0] != ENTRY_RECORD) return bad_record(err);
	return record_decode(span_make(bytes.bytes + 1, bytes.size - 1), out, err);
}

cb_code entry_decode(span bytes, entry *out, cb_error *err)
{
	if (entry_is_link(bytes)) {
		*out = (entry){.is_link = true};
		out->rec.ino = get_le64(bytes.bytes + 1);
		return out->rec.ino ? CB_OK : bad_record(err);
	}
	out->is_link = false;
	return entry_record(bytes, &out->rec, err);
}

void extent_encode(const extent *e, tree_value *out)
{
	put_le64(out->bytes, e->content);
	put_le32(out->bytes + 8, e->start);
	put_le32(out->bytes + 12, e->length);
	out->size = 16;
}

cb_code extent_decode(span bytes, uint64_t offset, extent *out, cb_error *err)
{
	if (bytes.size != 16) return cb_err_set(err, CB_CORRUPT, "an extent is malformed");
	*out = (extent){offset, get_le64(bytes.bytes), get_le32(bytes.bytes + 8), get_le32(bytes.bytes + 12)};
	bool sound = out->content != 0 && out->length != 0 && out->length <= LIMIT_CONTENT_BYTES &&
	             out->start <= LIMIT_CONTENT_BYTES - out->length && offset <= LIMIT_FILE_BYTES - out->length;
	return sound ? CB_OK : cb_err_set(err, CB_CORRUPT, "an extent is malformed");
}

void value_encode(const value_ref *v, tree_value *out)
{
	if (v->is_inline) {
		assert(v->size <= LIMIT_INLINE_BYTES);
		out->bytes[0] = VALUE_INLINE;
		memcpy(out->bytes + 1, v->bytes, (size_t)v->size);
		out->size = 1 + (size_t)v->size;
		return;
	}
	out->bytes[0] = VALUE_CONTENT;
	put_le64(out->bytes + 1, v->content);
	put_le64(out->bytes + 9, v->size);
	out->size = 17;
}

cb_code value_decode(span bytes, value_ref *out, cb_error *err)
{
	if (bytes.size >= 1 && bytes.size <= 1 + LIMIT_INLINE_BYTES && bytes.bytes[0] == VALUE_INLINE) {
		out->is_inline = true;
		out->content = 0;
		out->size = bytes.size - 1;
		memcpy(out->bytes, bytes.bytes + 1, bytes.size - 1);
		return CB_OK;
	}
	if (bytes.size != 17 || bytes.bytes[0] != VALUE_CONTENT) return cb_err_set(err, CB_CORRUPT, "a stored value is malformed");
	out->is_inline = false;
	out->content = get_le64(bytes.bytes + 1);
	out->size = get_le64(bytes.bytes + 9);
	if (out->content == 0 || out->size == 0 || out->size > LIMIT_KV_VALUE_BYTES ||
	    out->content > UINT64_MAX - value_content_count(out->size))
		return cb_err_set(err, CB_CORRUPT, "a stored value is malformed");
	return CB_OK;
}

void counters_encode(const counters *c, tree_value *out)
{
	put_le64(out->bytes, c->files);
	put_le64(out->bytes + 8, c->bytes);
	out->size = 16;
}

cb_code counters_decode(span bytes, counters *out, cb_error *err)
{
	if (bytes.size != 16) return cb_err_set(err, CB_CORRUPT, "the counters of a box are malformed");
	*out = (counters){get_le64(bytes.bytes), get_le64(bytes.bytes + 8)};
	return CB_OK;
}

/* written: to be open too, where it is known or not. */
static cb_code reopen(span key_bytes, span value, bool written, tree_value *out, cb_error *err)
{
	bool is_entry = key_bytes.bytes[0] == KIND_ENTRY;
	entry e;
	if (!is_entry && key_bytes.bytes[0] != KIND_INODE) {
		memcpy(out->bytes, value.bytes, value.size);
		out->size = value.size;
		return CB_OK;
	}
	CB_TRY(is_entry ? entry_decode(value, &e, err) : record_decode(value, &e.rec, err));
	e.rec.version = 0;
	if (written) e.rec.written = 0;
	if (is_entry) entry_encode(&e, out);
	else record_encode(&e.rec, out);
	return CB_OK;
}

cb_code record_reopen(span key_bytes, span value, tree_value *out, cb_error *err)
{
	return reopen(key_bytes, value, false, out, err);
}

cb_code record_same(span key_bytes, span a, span b, bool *out, cb_error *err)
{
	tree_value x, y;
	CB_TRY(reopen(key_bytes, a, true, &x, err));
	CB_TRY(reopen(key_bytes, b, true, &y, err));
	*out = span_equal(span_make(x.bytes, x.size), span_make(y.bytes, y.size));
	return CB_OK;
}

/* ---- what refers to what ---- */

static cb_code visit_record(const record *r, content_visit visit, void *context, cb_error *err)
{
	if (r->form != DATA_CONTENT) return CB_OK;
	return visit(context, r->content, r->start + r->size, err);
}

static cb_code visit_value(span value, content_visit visit, void *context, cb_error *err)
{
	value_ref v;
	CB_TRY(value_decode(value, &v, err));
	if (v.is_inline) return CB_OK;
	for (uint64_t i = 0, n = value_content_count(v.size); i < n; i++) {
		uint64_t left = v.size - i * LIMIT_CONTENT_BYTES;
		CB_TRY(visit(context, v.content + i, left < LIMIT_CONTENT_BYTES ? left : LIMIT_CONTENT_BYTES, err));
	}
	return CB_OK;
}

cb_code record_contents(span key_bytes, span value, content_visit visit, void *context, cb_error *err)
{
	key_parts k;
	CB_TRY(key_parse(key_bytes, &k, err));
	switch (k.kind) {
	case KIND_ENTRY: {
		entry e;
		CB_TRY(entry_decode(value, &e, err));
		return e.is_link ? CB_OK : visit_record(&e.rec, visit, context, err);
	}
	case KIND_INODE: {
		record r;
		CB_TRY(record_decode(value, &r, err));
		return visit_record(&r, visit, context, err);
	}
	case KIND_EXTENT: {
		extent x;
		CB_TRY(extent_decode(value, k.offset, &x, err));
		return visit(context, x.content, (uint64_t)x.start + x.length, err);
	}
	case KIND_ATTR:
	case KIND_KV:
		return visit_value(value, visit, context, err);
	case KIND_TAG:
		return k.sort == 'm' ? visit_value(value, visit, context, err) : CB_OK;
	default:
		return CB_OK;
	}
}
