/*
 * tar_member.c: members out of the blocks of a tar stream: v7, ustar, pax and GNU headers, long names, sparse maps.
 *
 * A stream must end with a block of zeros: one that was cut between two members is told from one that is whole.
 */
#include "transfer/tar.h"

static cb_code damaged(const char *what, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "the archive is damaged: %s", what);
}

/* ---- reading bytes ---- */

static cb_code read_exactly(tar_reader *r, void *to, size_t size, cb_error *err)
{
	size_t n = 0;
	CB_TRY(tar_stream_read(&r->stream, to, size, &n, err));
	return n == size ? CB_OK : cb_err_set(err, CB_CORRUPT, "the archive ends early: it was cut off");
}

cb_code tar_data(tar_reader *r, void *to, size_t size, cb_error *err)
{
	if (size > r->data_left) return damaged("a member is shorter than its map says", err);
	CB_TRY(read_exactly(r, to, size, err));
	r->data_left -= size;
	return CB_OK;
}

static cb_code skip_bytes(tar_reader *r, uint64_t size, cb_error *err)
{
	uint8_t waste[16 * TAR_BLOCK];
	while (size) {
		size_t n = size < sizeof(waste) ? (size_t)size : sizeof(waste);
		CB_TRY(read_exactly(r, waste, n, err));
		size -= n;
	}
	return CB_OK;
}

static cb_code skip_member(tar_reader *r, cb_error *err)
{
	CB_TRY(skip_bytes(r, r->data_left, err));
	CB_TRY(skip_bytes(r, r->padding_left, err));
	r->data_left = r->padding_left = 0;
	return CB_OK;
}

static void member_begin(tar_reader *r, uint64_t stored)
{
	r->data_left = stored;
	r->padding_left = (TAR_BLOCK - stored % TAR_BLOCK) % TAR_BLOCK;
}

/* ---- fields ---- */

static bool base256_parse(const uint8_t *field, size_t size, int64_t *out)
{
	bool negative = field[0] & 0x40;
	/* All but the last eight bytes must repeat the sign. */
	uint64_t value = negative ? UINT64_MAX : 0;
	for (size_t i = 0; i < size; i++) {
		uint8_t byte = field[i];
		if (i == 0) byte = negative ? byte : byte & 0x7f;
		if (size - i > 8 && byte != (negative ? 0xff : 0)) return false;
		value = value << 8 | byte;
	}
	*out = (int64_t)value;
	return negative == (*out < 0);
}

bool tar_number_parse(const uint8_t *field, size_t size, int64_t *out)
{
	if (field[0] & 0x80) return base256_parse(field, size, out);
	size_t i = 0;
	uint64_t value = 0;
	while (i < size && field[i] == ' ') i++;
	while (i < size && field[i] >= '0' && field[i] <= '7') value = value << 3 | (field[i++] - (unsigned)'0');
	while (i < size && (field[i] == ' ' || field[i] == 0)) i++;
	*out = (int64_t)value;
	return i == size;
}

/* Some old writers summed signed bytes. */
static bool checksum_fits(const uint8_t *block)
{
	int64_t want, sum = 0, signed_sum = 0;
	if (!tar_number_parse(block + TAR_CHECKSUM, TAR_ID_SIZE, &want)) return false;
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		bool inside = i >= TAR_CHECKSUM && i < TAR_CHECKSUM + TAR_ID_SIZE;
		uint8_t byte = inside ? ' ' : block[i];
		sum += byte;
		signed_sum += (int8_t)byte;
	}
	return want == sum || want == signed_sum;
}

static bool is_zero(const uint8_t *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i]) return false;
	return true;
}

static cb_code text_copy(char **out, span prefix, span text, cb_error *err)
{
	char *copy = mem_alloc(prefix.size + text.size + 2);
	if (!copy) return cb_err_nomem(err);
	size_t n = 0;
	if (prefix.size) {
		memcpy(copy, prefix.bytes, prefix.size);
		copy[prefix.size] = '/';
		n = prefix.size + 1;
	}
	if (text.size) memcpy(copy + n, text.bytes, text.size);
	copy[n + text.size] = 0;
	*out = copy;
	return CB_OK;
}

static span field_text(const uint8_t *field, size_t size)
{
	const uint8_t *nul = memchr(field, 0, size);
	return span_make(field, nul ? (size_t)(nul - field) : size);
}

/* ---- headers before the member's own ---- */

static cb_code size_parse(const uint8_t *block, uint64_t *out, cb_error *err)
{
	int64_t size = 0;
	if (!tar_number_parse(block + TAR_SIZE, TAR_NUMBER_SIZE, &size) || size < 0)
		return damaged("a size that is no number", err);
	*out = (uint64_t)size;
	return CB_OK;
}

/* The data of an 'x', 'g', 'L' or 'K' header. */
static cb_code read_header_data(tar_reader *r, const uint8_t *block, buf *out, cb_error *err)
{
	uint64_t size = 0;
	uint8_t *to;
	CB_TRY(size_parse(block, &size, err));
	if (size > LIMIT_TAR_HEADER_BYTES)
		return cb_err_set(err, CB_CORRUPT, "the archive is damaged: an extended header of %llu bytes (%d may be)",
		                  (unsigned long long)size, LIMIT_TAR_HEADER_BYTES);
	member_begin(r, size);
	CB_TRY(buf_extend(out, (size_t)size, &to, err));
	CB_TRY(tar_data(r, to, (size_t)size, err));
	return skip_member(r, err);
}

static cb_code take_global(tar_reader *r, span records, cb_error *err)
{
	tar_extra x;
	tar_extra_init(&x);
	cb_code code = tar_extra_parse(&x, records, err);
	/* Of what holds for all members only the time has a meaning for more than one. */
	if (code == CB_OK && x.has_mtime) {
		r->has_global_mtime = true;
		r->global_mtime_ns = x.mtime_ns;
	}
	tar_extra_done(&x);
	return code;
}

static cb_code take_long_text(char **field, span text, cb_error *err)
{
	char *copy = NULL;
	CB_TRY(text_copy(&copy, span_make(NULL, 0), field_text(text.bytes, text.size), err));
	free(*field);
	*field = copy;
	return CB_OK;
}

/* What a header that is no member itself says of the next one. *taken false: it is a member. */
static cb_code take_extension(tar_reader *r, const uint8_t *block, tar_extra *x, bool *taken, cb_error *err)
{
	char type = (char)block[TAR_TYPE];
	*taken = type && strchr("xXgLKV", type) != NULL;
	if (!*taken) return CB_OK;
	AUTO_BUF buf data = BUF_INIT(LIMIT_TAR_HEADER_BYTES);
	CB_TRY(read_header_data(r, block, &data, err));
	if (type == 'g') return take_global(r, buf_span(&data), err);
	if (type == 'V') return CB_OK;
	if (type == 'x' || type == 'X') return tar_extra_parse(x, buf_span(&data), err);
	if (data.size == 0) return damaged("a long name without bytes", err);
	return take_long_text(type == 'L' ? &x->path : &x->link, buf_span(&data), err);
}

/* ---- sparse maps ---- */

static cb_code region_add(tar_member *m, uint64_t offset, uint64_t size, cb_error *err)
{
	tar_region region = {offset, size};
	cb_code code = buf_append(&m->extra.regions, &region, sizeof(region), err);
	return code == CB_LIMIT ? damaged("a sparse file in too many parts", err) : code;
}

/* GNU's old form: regions in the header and in blocks after it. An empty field ends the list. */
static cb_code old_regions(tar_member *m, const uint8_t *at, unsigned count, cb_error *err)
{
	for (unsigned i = 0; i < count; i++, at += 2 * TAR_NUMBER_SIZE) {
		int64_t offset, size;
		if (at[0] == 0) break;
		if (!tar_number_parse(at, TAR_NUMBER_SIZE, &offset) ||
		    !tar_number_parse(at + TAR_NUMBER_SIZE, TAR_NUMBER_SIZE, &size) || offset < 0 || size < 0)
			return damaged("a sparse map that is no list of numbers", err);
		CB_TRY(region_add(m, (uint64_t)offset, (uint64_t)size, err));
	}
	return CB_OK;
}

static cb_code read_old_map(tar_reader *r, tar_member *m, const uint8_t *header, cb_error *err)
{
	int64_t real = 0;
	if (!tar_number_parse(header + TAR_GNU_REAL_SIZE, TAR_NUMBER_SIZE, &real) || real < 0)
		return damaged("a sparse file without a size", err);
	m->size = (uint64_t)real;
	CB_TRY(old_regions(m, header + TAR_GNU_SPARSE, 4, err));
	bool more = header[TAR_GNU_EXTENDED];
	while (more) {
		uint8_t block[TAR_BLOCK];
		CB_TRY(read_exactly(r, block, sizeof(block), err));
		CB_TRY(old_regions(m, block, TAR_GNU_MORE_REGIONS, err));
		more = block[TAR_GNU_MORE_EXTENDED];
	}
	return CB_OK;
}

/* A number and a newline of a map that stands before the data. */
typedef struct map_text {
	uint8_t block[TAR_BLOCK];
	size_t at, size;
} map_text;

static cb_code map_number(tar_reader *r, map_text *t, uint64_t *out, cb_error *err)
{
	uint8_t digits[20];
	size_t n = 0;
	for (;;) {
		if (t->at == t->size) {
			CB_TRY(tar_data(r, t->block, TAR_BLOCK, err));
			t->at = 0;
			t->size = TAR_BLOCK;
		}
		uint8_t byte = t->block[t->at++];
		if (byte == '\n') break;
		if (n == sizeof(digits)) return damaged("a sparse map that is no list of numbers", err);
		digits[n++] = byte;
	}
	return tar_decimal_parse(span_make(digits, n), out) ? CB_OK : damaged("a sparse map that is no list of numbers", err);
}

static cb_code read_new_map(tar_reader *r, tar_member *m, cb_error *err)
{
	map_text t = {.at = 0, .size = 0};
	uint64_t count = 0, offset, size;
	CB_TRY(map_number(r, &t, &count, err));
	if (count > LIMIT_TAR_REGIONS) return damaged("a sparse file in too many parts", err);
	buf_clear(&m->extra.regions);
	while (count--) {
		CB_TRY(map_number(r, &t, &offset, err));
		CB_TRY(map_number(r, &t, &size, err));
		CB_TRY(region_add(m, offset, size, err));
	}
	m->stored = r->data_left;
	return CB_OK;
}

/* In order, apart from each other, inside the file, and together as long as the data. */
static cb_code check_map(const tar_member *m, cb_error *err)
{
	const tar_region *regions = (const tar_region *)(const void *)m->extra.regions.bytes;
	uint64_t end = 0, sum = 0;
	for (size_t i = 0; i < m->extra.regions.size / sizeof(tar_region); i++) {
		if (regions[i].offset < end || regions[i].offset > m->size || regions[i].size > m->size - regions[i].offset)
			return damaged("a sparse map that leaves its file", err);
		end = regions[i].offset + regions[i].size;
		sum += regions[i].size;
	}
	return sum == m->stored ? CB_OK : damaged("a sparse map of another length than its data", err);
}

static cb_code read_map(tar_reader *r, tar_member *m, const uint8_t *header, cb_error *err)
{
	bool old = header[TAR_TYPE] == 'S';
	m->sparse = old || (m->extra.sparse && m->type == '0');
	if (!m->sparse) return CB_OK;
	if (old) {
		buf_clear(&m->extra.regions);
		CB_TRY(read_old_map(r, m, header, err));
	} else {
		if (!m->extra.has_real_size) return damaged("a sparse file without a size", err);
		m->size = m->extra.real_size;
	}
	if (m->size > LIMIT_FILE_BYTES)
		return cb_err_set(err, CB_TOOBIG, "'%s': %llu bytes are too many", m->name, (unsigned long long)m->size);
	member_begin(r, m->stored);
	if (!old && m->extra.sparse_major == 1) CB_TRY(read_new_map(r, m, err));
	return check_map(m, err);
}

/* ---- the member ---- */

static bool is_posix(const uint8_t *block)
{
	return memcmp(block + TAR_MAGIC, "ustar\0", 6) == 0;
}

static cb_code member_names(tar_member *m, const uint8_t *block, cb_error *err)
{
	span prefix = is_posix(block) ? field_text(block + TAR_PREFIX, TAR_PREFIX_SIZE) : span_make(NULL, 0);
	char *said = m->extra.sparse_name && m->type == '0' ? TAKE_PTR(m->extra.sparse_name) : TAKE_PTR(m->extra.path);
	if (said) m->name = said;
	else CB_TRY(text_copy(&m->name, prefix, field_text(block + TAR_NAME, TAR_NAME_SIZE), err));
	if (m->name[0] == 0) return damaged("a member without a name", err);
	if (m->type != '1' && m->type != '2') return CB_OK;
	m->link = TAKE_PTR(m->extra.link);
	if (!m->link) CB_TRY(text_copy(&m->link, span_make(NULL, 0), field_text(block + TAR_LINK, TAR_NAME_SIZE), err));
	return m->link[0] ? CB_OK : damaged("a link without a target", err);
}

/* Types of old and foreign writers, brought to POSIX's. */
static cb_code member_type(tar_member *m, const uint8_t *block, cb_error *err)
{
	char type = (char)block[TAR_TYPE];
	m->type = type;
	if (type >= '0' && type <= '6') return CB_OK;
	if (type == 'M') return cb_err_set(err, CB_UNSUPPORTED, "the archive is one part of several: join the parts first");
	if (type == 'D') m->type = '5';
	else m->type = '0';
	m->odd_type = type && !strchr("7SD", type);
	return CB_OK;
}

static cb_code member_numbers(const tar_reader *r, tar_member *m, const uint8_t *block, cb_error *err)
{
	int64_t mode = 0, seconds = 0;
	if (!tar_number_parse(block + TAR_MODE, TAR_ID_SIZE, &mode)) return damaged("a mode that is no number", err);
	m->mode = (uint32_t)(mode & 07777);
	if (!tar_number_parse(block + TAR_MTIME, TAR_NUMBER_SIZE, &seconds)) return damaged("a time that is no number", err);
	if (__builtin_mul_overflow(seconds, (int64_t)1000000000, &m->mtime_ns))
		m->mtime_ns = seconds < 0 ? INT64_MIN + 1 : INT64_MAX;
	if (r->has_global_mtime) m->mtime_ns = r->global_mtime_ns;
	if (m->extra.has_mtime) m->mtime_ns = m->extra.mtime_ns;
	CB_TRY(size_parse(block, &m->stored, err));
	if (m->extra.has_size) m->stored = m->extra.size;
	/* Links, folders and devices have no data, whatever their size says. */
	char type = (char)block[TAR_TYPE];
	if (type >= '1' && type <= '6') m->stored = 0;
	if (m->stored > LIMIT_FILE_BYTES)
		return cb_err_set(err, CB_TOOBIG, "'%s': %llu bytes are too many", m->name, (unsigned long long)m->stored);
	m->size = m->stored;
	return CB_OK;
}

static cb_code member_fill(tar_reader *r, tar_member *m, const uint8_t *block, cb_error *err)
{
	CB_TRY(member_type(m, block, err));
	CB_TRY(member_names(m, block, err));
	/* v7 had no type for folders. */
	if (m->type == '0' && m->name[strlen(m->name) - 1] == '/') m->type = '5';
	CB_TRY(member_numbers(r, m, block, err));
	member_begin(r, m->stored);
	return read_map(r, m, block, err);
}

void tar_member_done(tar_member *m)
{
	free(m->name);
	free(m->link);
	tar_extra_done(&m->extra);
}

static cb_code next_header(tar_reader *r, tar_extra *x, uint8_t *block, bool *found, cb_error *err)
{
	bool extension = true, any = false;
	while (extension) {
		size_t n = 0;
		CB_TRY(tar_stream_read(&r->stream, block, TAR_BLOCK, &n, err));
		if (n == 0) return cb_err_set(err, CB_CORRUPT, "the archive ends without its end mark: it was cut off");
		if (n < TAR_BLOCK) return cb_err_set(err, CB_CORRUPT, "the archive ends early: it was cut off");
		*found = !is_zero(block);
		if (!*found) return any ? damaged("it ends where a member should follow", err) : CB_OK;
		if (!checksum_fits(block)) return damaged("a header with a wrong checksum (is it a tar file?)", err);
		CB_TRY(take_extension(r, block, x, &extension, err));
		any = any || (extension && block[TAR_TYPE] != 'g' && block[TAR_TYPE] != 'V');
	}
	return CB_OK;
}

cb_code tar_next(tar_reader *r, tar_member *out, bool *found, cb_error *err)
{
	CB_TRY(skip_member(r, err));
	tar_member m = {0};
	tar_extra_init(&m.extra);
	uint8_t block[TAR_BLOCK];
	cb_code code = next_header(r, &m.extra, block, found, err);
	if (code == CB_OK && *found) code = member_fill(r, &m, block, err);
	if (code == CB_OK && *found) *out = m;
	else tar_member_done(&m);
	return code;
}
