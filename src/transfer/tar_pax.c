/* tar_pax.c: the extended records of pax headers. Those a box can hold are taken, the rest is passed over. */
#include "transfer/tar.h"

#include "base/bytes.h"
#include "host/host.h"

#define NS_PER_S 1000000000

static void take_text(char **field, char *text)
{
	free(*field);
	*field = text;
}

void tar_extra_init(tar_extra *x)
{
	*x = (tar_extra){.regions = BUF_INIT(LIMIT_TAR_REGIONS * sizeof(tar_region)), .xattrs = BUF_INIT(LIMIT_TAR_HEADER_BYTES)};
}

void tar_extra_done(tar_extra *x)
{
	take_text(&x->path, NULL);
	take_text(&x->link, NULL);
	take_text(&x->sparse_name, NULL);
	buf_done(&x->regions);
	buf_done(&x->xattrs);
}

/* ---- numbers ---- */

bool tar_decimal_parse(span text, uint64_t *out)
{
	uint64_t value = 0;
	if (text.size == 0) return false;
	for (size_t i = 0; i < text.size; i++) {
		unsigned digit = text.bytes[i] - (unsigned)'0';
		if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*out = value;
	return true;
}

/* The digits after the point, the first nine of them; *rest tells that there was something after these. */
static bool fraction_parse(span text, int64_t *out_ns, bool *rest)
{
	int64_t ns = 0, unit = NS_PER_S / 10;
	*rest = false;
	for (size_t i = 0; i < text.size; i++, unit /= 10) {
		unsigned digit = text.bytes[i] - (unsigned)'0';
		if (digit > 9) return false;
		ns += unit * digit;
		*rest = *rest || (unit == 0 && digit);
	}
	*out_ns = ns;
	return true;
}

bool tar_time_parse(span text, int64_t *out)
{
	bool negative = text.size && text.bytes[0] == '-';
	if (negative) text = span_make(text.bytes + 1, text.size - 1);
	const uint8_t *point = text.size ? memchr(text.bytes, '.', text.size) : NULL;
	size_t whole_size = point ? (size_t)(point - text.bytes) : text.size;
	uint64_t whole = 0;
	int64_t ns = 0;
	bool rest = false;
	if (point && !fraction_parse(span_make(point + 1, text.size - whole_size - 1), &ns, &rest)) return false;
	/* A number of seconds with too many digits is a time all the same, only not one of ours. */
	for (size_t i = 0; i < whole_size; i++)
		if (text.bytes[i] < '0' || text.bytes[i] > '9') return false;
	if (whole_size == 0) return false;
	bool huge = !tar_decimal_parse(span_make(text.bytes, whole_size), &whole) || whole >= INT64_MAX / NS_PER_S;
	/* INT64_MIN itself means "leave the time alone". */
	if (huge) *out = negative ? INT64_MIN + 1 : INT64_MAX;
	else *out = negative ? -(int64_t)whole * NS_PER_S - ns - rest : (int64_t)whole * NS_PER_S + ns;
	return true;
}

/* ---- records ---- */

typedef cb_code (*record_take)(tar_extra *x, span value, cb_error *err);

static cb_code bad_value(const char *what, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "the archive is damaged: a bad %s in an extended header", what);
}

static cb_code take_name(char **field, span value, cb_error *err)
{
	if (value.size == 0) {
		take_text(field, NULL);
		return CB_OK;
	}
	if (memchr(value.bytes, 0, value.size)) return bad_value("name", err);
	char *copy = mem_alloc(value.size + 1);
	if (!copy) return cb_err_nomem(err);
	memcpy(copy, value.bytes, value.size);
	copy[value.size] = 0;
	take_text(field, copy);
	return CB_OK;
}

static cb_code take_path(tar_extra *x, span value, cb_error *err)
{
	return take_name(&x->path, value, err);
}

static cb_code take_link(tar_extra *x, span value, cb_error *err)
{
	return take_name(&x->link, value, err);
}

static cb_code take_size(tar_extra *x, span value, cb_error *err)
{
	x->has_size = value.size != 0;
	return value.size == 0 || tar_decimal_parse(value, &x->size) ? CB_OK : bad_value("size", err);
}

static cb_code take_mtime(tar_extra *x, span value, cb_error *err)
{
	x->has_mtime = value.size != 0;
	return value.size == 0 || tar_time_parse(value, &x->mtime_ns) ? CB_OK : bad_value("time", err);
}

static cb_code take_sparse_name(tar_extra *x, span value, cb_error *err)
{
	x->sparse = true;
	return take_name(&x->sparse_name, value, err);
}

static cb_code take_real_size(tar_extra *x, span value, cb_error *err)
{
	x->sparse = x->has_real_size = true;
	return tar_decimal_parse(value, &x->real_size) ? CB_OK : bad_value("size of a sparse file", err);
}

static cb_code take_major(tar_extra *x, span value, cb_error *err)
{
	x->sparse = true;
	if (!tar_decimal_parse(value, &x->sparse_major)) return bad_value("sparse format", err);
	if (x->sparse_major > 1) return cb_err_set(err, CB_UNSUPPORTED, "a sparse file in a format newer than GNU's 1.0");
	return CB_OK;
}

static cb_code take_sparse_mark(tar_extra *x, span value, cb_error *err)
{
	(void)value;
	(void)err;
	x->sparse = true;
	return CB_OK;
}

static cb_code region_add(tar_extra *x, tar_region region, cb_error *err)
{
	cb_code code = buf_append(&x->regions, &region, sizeof(region), err);
	if (code == CB_LIMIT)
		return cb_err_set(err, CB_CORRUPT, "the archive is damaged: a sparse file of more than %d parts",
		                  LIMIT_TAR_REGIONS);
	return code;
}

static cb_code take_offset(tar_extra *x, span value, cb_error *err)
{
	tar_region region = {0};
	if (x->region_open || !tar_decimal_parse(value, &region.offset)) return bad_value("sparse map", err);
	x->sparse = x->region_open = true;
	return region_add(x, region, err);
}

static cb_code take_numbytes(tar_extra *x, span value, cb_error *err)
{
	uint64_t size = 0;
	if (!x->region_open || !tar_decimal_parse(value, &size)) return bad_value("sparse map", err);
	tar_region *last = (tar_region *)(void *)(x->regions.bytes + x->regions.size) - 1;
	last->size = size;
	x->region_open = false;
	return CB_OK;
}

/* "offset,size,offset,size" */
static cb_code take_map(tar_extra *x, span value, cb_error *err)
{
	x->sparse = true;
	buf_clear(&x->regions);
	uint64_t numbers[2] = {0};
	unsigned n = 0;
	while (value.size) {
		const uint8_t *comma = memchr(value.bytes, ',', value.size);
		size_t size = comma ? (size_t)(comma - value.bytes) : value.size;
		if (!tar_decimal_parse(span_make(value.bytes, size), &numbers[n++])) return bad_value("sparse map", err);
		size_t used = size + (comma != NULL);
		value = span_make(value.bytes + used, value.size - used);
		if (n < 2) continue;
		CB_TRY(region_add(x, (tar_region){numbers[0], numbers[1]}, err));
		n = 0;
	}
	return n == 0 ? CB_OK : bad_value("sparse map", err);
}

static const struct {
	const char *key;
	record_take take;
} known[] = {
	{"path", take_path},
	{"linkpath", take_link},
	{"size", take_size},
	{"mtime", take_mtime},
	{"GNU.sparse.name", take_sparse_name},
	{"GNU.sparse.realsize", take_real_size},
	{"GNU.sparse.size", take_real_size},
	{"GNU.sparse.major", take_major},
	{"GNU.sparse.minor", take_sparse_mark},
	{"GNU.sparse.numblocks", take_sparse_mark},
	{"GNU.sparse.offset", take_offset},
	{"GNU.sparse.numbytes", take_numbytes},
	{"GNU.sparse.map", take_map},
};

/* GNU tar writes '=' and '%' in an attribute's name as %3D and %25. */
static size_t name_decode(span name, uint8_t *out)
{
	size_t n = 0;
	for (size_t i = 0; i < name.size; i++) {
		span rest = span_make(name.bytes + i, name.size - i);
		bool equals = span_starts(rest, span_str("%3D")), percent = span_starts(rest, span_str("%25"));
		out[n++] = equals ? '=' : percent ? '%' : name.bytes[i];
		if (equals || percent) i += 2;
	}
	return n;
}

static cb_code take_xattr(tar_extra *x, span name, span value, cb_error *err)
{
	if (!host_xattr_is_ours(name) || name.size > 3 * LIMIT_NAME_BYTES) {
		x->other_attrs = true;
		return CB_OK;
	}
	uint8_t plain[3 * LIMIT_NAME_BYTES];
	size_t size = name_decode(name, plain);
	if (memchr(plain, 0, size)) return bad_value("attribute name", err);
	if (size > LIMIT_NAME_BYTES || value.size > LIMIT_XATTR_VALUE_BYTES) {
		x->large_attrs = true;
		return CB_OK;
	}
	CB_TRY(buf_append_varint(&x->xattrs, size, err));
	CB_TRY(buf_append_varint(&x->xattrs, value.size, err));
	CB_TRY(buf_append(&x->xattrs, plain, size, err));
	return buf_append(&x->xattrs, value.bytes, value.size, err);
}

static cb_code record_apply(tar_extra *x, span key, span value, cb_error *err)
{
	static const char xattr[] = "SCHILY.xattr.";
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (span_equal(key, span_str(known[i].key))) return known[i].take(x, value, err);
	if (!span_starts(key, span_str(xattr))) return CB_OK;
	size_t skip = sizeof(xattr) - 1;
	return take_xattr(x, span_make(key.bytes + skip, key.size - skip), value, err);
}

/* One "LENGTH KEY=VALUE\n"; *used is its length. */
static cb_code record_parse(tar_extra *x, span rest, size_t *used, cb_error *err)
{
	const uint8_t *space = memchr(rest.bytes, ' ', rest.size < 20 ? rest.size : 20);
	uint64_t length = 0;
	if (!space || !tar_decimal_parse(span_make(rest.bytes, (size_t)(space - rest.bytes)), &length))
		return bad_value("record", err);
	size_t start = (size_t)(space - rest.bytes) + 1;
	if (length > rest.size || length < start + 2 || rest.bytes[length - 1] != '\n') return bad_value("record", err);
	span body = span_make(rest.bytes + start, (size_t)length - start - 1);
	const uint8_t *equals = memchr(body.bytes, '=', body.size);
	if (!equals || equals == body.bytes) return bad_value("record", err);
	size_t key_size = (size_t)(equals - body.bytes);
	*used = (size_t)length;
	return record_apply(x, span_make(body.bytes, key_size), span_make(equals + 1, body.size - key_size - 1), err);
}

cb_code tar_extra_parse(tar_extra *x, span records, cb_error *err)
{
	while (records.size) {
		size_t used = 0;
		CB_TRY(record_parse(x, records, &used, err));
		records = span_make(records.bytes + used, records.size - used);
	}
	return x->region_open ? bad_value("sparse map", err) : CB_OK;
}
