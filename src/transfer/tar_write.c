/*
 * tar_write.c: a folder or file of a box as a pax tar stream.
 *
 * The same state gives the same bytes: members in the order of cb_walk, owner 0, no access times. Extended records are written only where
 * a plain header cannot say it, so that old readers get as far as they can. Files with holes are written in GNU's sparse format 1.0.
 */
#include <cowbox/cowbox.h>

#include <stdio.h>

#include "base/args.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/sized.h"
#include "box/box.h"
#include "host/host.h"
#include "transfer/guard.h"
#include "transfer/tar.h"
#include "transfer/watch.h"

enum {
	OUT_BYTES = 256 << 10,
	CHUNK_BYTES = 1 << 20,
	SMALL_FILE_BYTES = 4096, /* a hole in less is no hole on any filesystem */
	MTIME_OCTAL_DIGITS = 11,
	HEADER_OCTAL_MAX_BITS = 33, /* eleven octal digits */
};

/* The first name under which a file with several was written. */
typedef struct link_seen {
	uint64_t ino;   /* 0: free */
	size_t name_at; /* in names */
} link_seen;

typedef struct exporting {
	unsigned era; /* (entry.h) in which it began */
	cb_box *b;
	const cb_tar_options *options;
	int fd;
	cb_transfer_count count;
	ignore *exclude;  /* NULL: nothing is left out */
	uint64_t written; /* bytes of the stream */
	buf out;          /* waiting to be written */
	uint8_t *chunk;
	size_t base_size;      /* of the walked path: what names are relative to */
	bool interrupted;      /* a walk takes that code for its own end */
	const char *file_name; /* of a single file; NULL: a folder is exported */
	buf records;           /* of the extended header at hand */
	buf regions;           /* of the file at hand */
	buf map;               /* the same as text */
	link_seen *links;
	size_t link_count, link_capacity; /* a power of two */
	buf names;
} exporting;

static void note(const exporting *e, const char *path, const char *what)
{
	if (e->options->watch->note) e->options->watch->note(e->options->watch->context, path, what);
}

static cb_code progress(exporting *e, const char *path, cb_error *err)
{
	CB_TRY(cancel_check(err));
	CB_TRY(entry_stays(e->era, err)); /* a note was told since */
	const cb_transfer_watch *w = e->options->watch;
	cb_progress p = CB_WITH(cb_progress, .path = path, .files = e->count.files + e->count.folders + e->count.symlinks,
	                        .bytes = e->count.bytes);
	bool on = !w->progress || w->progress(w->context, &p);
	CB_TRY(entry_stays(e->era, err));
	if (on) return CB_OK;
	e->interrupted = true;
	return CB_INTERRUPTED; /* put_all says it */
}

/* ---- bytes ---- */

static cb_code write_out(const exporting *e, const uint8_t *bytes, size_t size, cb_error *err)
{
	for (size_t at = 0; at < size;) {
		size_t n = 0;
		cb_code code = io_foreign_write(e->fd, bytes + at, size - at, "for whoever reads the tar stream", &n, err);
		/* A signal is for the caller's handler: the next look at its `progress` tells what came of it. */
		if (code != CB_OK && code != CB_INTERRUPTED) return cb_err_wrap(err, code, "writing the tar stream");
		at += n;
	}
	return CB_OK;
}

static cb_code flush(exporting *e, cb_error *err)
{
	CB_TRY(write_out(e, e->out.bytes, e->out.size, err));
	buf_clear(&e->out);
	return CB_OK;
}

static cb_code put(exporting *e, const void *bytes, size_t size, cb_error *err)
{
	e->written += size;
	if (e->out.size + size > OUT_BYTES) CB_TRY(flush(e, err));
	return size > OUT_BYTES ? write_out(e, bytes, size, err) : buf_append(&e->out, bytes, size, err);
}

static cb_code pad_to(exporting *e, size_t unit, cb_error *err)
{
	static const uint8_t zeros[TAR_RECORD];
	return put(e, zeros, (size_t)((unit - e->written % unit) % unit), err);
}

/* ---- headers ---- */

static void put_octal(uint8_t *field, size_t size, uint64_t value)
{
	for (size_t i = size - 1; i > 0; i--, value >>= 3) field[i - 1] = (uint8_t)('0' + (value & 7));
	field[size - 1] = 0;
}

typedef struct header {
	char type;
	const char *name, *link; /* cut to the field when longer: a record says the whole */
	uint32_t mode;
	uint64_t size;
	int64_t mtime_ns;
} header;

static void copy_cut(uint8_t *field, const char *text)
{
	size_t size = strlen(text);
	memcpy(field, text, size < TAR_NAME_SIZE ? size : TAR_NAME_SIZE);
}

static bool fits_octal(uint64_t value)
{
	return value >> HEADER_OCTAL_MAX_BITS == 0;
}

static int64_t floor_seconds(int64_t ns)
{
	int64_t s = ns / 1000000000;
	return ns % 1000000000 < 0 ? s - 1 : s;
}

static cb_code put_header(exporting *e, const header *h, cb_error *err)
{
	uint8_t block[TAR_BLOCK] = {0};
	int64_t seconds = floor_seconds(h->mtime_ns);
	copy_cut(block + TAR_NAME, h->name);
	put_octal(block + TAR_MODE, TAR_ID_SIZE, h->mode);
	put_octal(block + TAR_UID, TAR_ID_SIZE, 0);
	put_octal(block + TAR_GID, TAR_ID_SIZE, 0);
	put_octal(block + TAR_SIZE, TAR_NUMBER_SIZE, fits_octal(h->size) ? h->size : 0);
	put_octal(block + TAR_MTIME, TAR_NUMBER_SIZE, seconds >= 0 && fits_octal((uint64_t)seconds) ? (uint64_t)seconds : 0);
	block[TAR_TYPE] = (uint8_t)h->type;
	if (h->link) copy_cut(block + TAR_LINK, h->link);
	memcpy(block + TAR_MAGIC,
	       "ustar\0"
	       "00",
	       8);
	put_octal(block + TAR_DEVICES, TAR_ID_SIZE, 0);
	put_octal(block + TAR_DEVICES + TAR_ID_SIZE, TAR_ID_SIZE, 0);
	memset(block + TAR_CHECKSUM, ' ', TAR_ID_SIZE);
	unsigned sum = 0;
	for (size_t i = 0; i < TAR_BLOCK; i++) sum += block[i];
	put_octal(block + TAR_CHECKSUM, TAR_ID_SIZE - 1, sum);
	return put(e, block, sizeof(block), err);
}

/* ---- records ---- */

static size_t decimal_digits(size_t n)
{
	size_t digits = 1;
	while (n >= 10) {
		n /= 10;
		digits++;
	}
	return digits;
}

/* A record counts the digits of its own length. */
static cb_code record_add(exporting *e, const char *keyword, const void *value, size_t size, cb_error *err)
{
	size_t rest = 1 + strlen(keyword) + 1 + size + 1, total = rest + decimal_digits(rest);
	if (rest + decimal_digits(total) != total) total = rest + decimal_digits(total);
	CB_TRY(buf_printf(&e->records, err, "%zu %s=", total, keyword));
	CB_TRY(buf_append(&e->records, value, size, err));
	return buf_append_byte(&e->records, '\n', err);
}

static cb_code record_number(exporting *e, const char *keyword, uint64_t value, cb_error *err)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return record_add(e, keyword, text, (size_t)n, err);
}

/* One character of UTF-8 at p, as RFC 3629 has it; 0: none. */
static size_t utf8_size(const uint8_t *p, size_t left)
{
	if (p[0] < 0x80) return 1;
	size_t n = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : 0;
	if (n == 0 || n > left) return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80) return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static bool is_utf8(const char *text)
{
	size_t size = strlen(text);
	for (size_t i = 0, n; i < size; i += n) {
		n = utf8_size((const uint8_t *)text + i, size - i);
		if (n == 0) return false;
	}
	return true;
}

/* Names in records are UTF-8 unless this is said first. */
static cb_code records_begin(exporting *e, const header *h, cb_error *err)
{
	buf_clear(&e->records);
	bool plain = (strlen(h->name) <= TAR_NAME_SIZE || is_utf8(h->name)) &&
	             (!h->link || strlen(h->link) <= TAR_NAME_SIZE || is_utf8(h->link));
	return plain ? CB_OK : record_add(e, "hdrcharset", "BINARY", 6, err);
}

static cb_code record_time(exporting *e, int64_t ns, cb_error *err)
{
	int64_t seconds = floor_seconds(ns), left = ns % 1000000000;
	if (left < 0) left += 1000000000;
	if (left == 0 && seconds >= 0 && fits_octal((uint64_t)seconds)) return CB_OK;
	char text[48];
	/* -0.5 is half a second before 1970: the digits after the point count away from zero. */
	bool back = seconds < 0 && left;
	int64_t whole = back ? -(seconds + 1) : seconds, part = back ? 1000000000 - left : left;
	int n = snprintf(text, sizeof(text), "%s%lld", back ? "-" : "", (long long)whole);
	if (part) n += snprintf(text + n, sizeof(text) - (size_t)n, ".%09lld", (long long)part);
	while (part && text[n - 1] == '0') n--;
	return record_add(e, "mtime", text, (size_t)n, err);
}

typedef struct attributes_of {
	exporting *e;
	const char *path;
} attributes_of;

static cb_code add_xattr(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	const attributes_of *of = context;
	exporting *e = of->e;
	if (!host_xattr_is_ours(span_str(name))) {
		watch_note(e->options->watch, of->path, "attribute '%s' left out: not user.*, or of overlayfs", name);
		return CB_OK;
	}
	AUTO_BUF buf keyword = BUF_INIT(4 * LIMIT_NAME_BYTES);
	CB_TRY(buf_append_str(&keyword, "SCHILY.xattr.", err));
	for (const char *p = name; *p; p++) {
		if (*p == '=' || *p == '%') CB_TRY(buf_append_str(&keyword, *p == '=' ? "%3D" : "%25", err));
		else CB_TRY(buf_append_byte(&keyword, (uint8_t)*p, err));
	}
	CB_TRY(buf_append_byte(&keyword, 0, err));
	return record_add(e, (const char *)keyword.bytes, value ? value : "", size, err);
}

/* What the member's own header cannot say, but for sparse files. */
static cb_code records_of(exporting *e, const header *h, const char *box_path, cb_error *err)
{
	CB_TRY(records_begin(e, h, err));
	if (strlen(h->name) > TAR_NAME_SIZE) CB_TRY(record_add(e, "path", h->name, strlen(h->name), err));
	if (h->link && strlen(h->link) > TAR_NAME_SIZE) CB_TRY(record_add(e, "linkpath", h->link, strlen(h->link), err));
	if (!fits_octal(h->size)) CB_TRY(record_number(e, "size", h->size, err));
	CB_TRY(record_time(e, h->mtime_ns, err));
	attributes_of of = {e, box_path};
	return h->type == '1' ? CB_OK : cb_xattr_list(e->b, box_path, CB_NOFOLLOW, add_xattr, &of, err);
}

static cb_code put_records(exporting *e, const char *name, cb_error *err)
{
	if (e->records.size == 0) return CB_OK;
	char own[TAR_NAME_SIZE + 1];
	size_t size = strlen(name);
	while (size && name[size - 1] == '/') size--;
	size_t start = size;
	while (start && name[start - 1] != '/') start--;
	(void)snprintf(own, sizeof(own), "PaxHeaders/%.*s", (int)(size - start), name + start);
	header h = {.type = 'x', .name = own, .mode = 0644, .size = e->records.size};
	CB_TRY(put_header(e, &h, err));
	CB_TRY(put(e, e->records.bytes, e->records.size, err));
	return pad_to(e, TAR_BLOCK, err);
}

/* ---- files with several names ---- */

static link_seen *link_slot(exporting *e, uint64_t ino)
{
	size_t at = (size_t)hash_u64(ino) & (e->link_capacity - 1);
	while (e->links[at].ino && e->links[at].ino != ino) at = (at + 1) & (e->link_capacity - 1);
	return &e->links[at];
}

static cb_code links_grow(exporting *e, cb_error *err)
{
	size_t old_capacity = e->link_capacity, capacity = old_capacity ? old_capacity * 2 : 64;
	link_seen *old = e->links, *more = mem_alloc(capacity * sizeof(*more));
	if (!more) return cb_err_nomem(err);
	memset(more, 0, capacity * sizeof(*more));
	e->links = more;
	e->link_capacity = capacity;
	for (size_t i = 0; i < old_capacity; i++)
		if (old[i].ino) *link_slot(e, old[i].ino) = old[i];
	free(old);
	return CB_OK;
}

/* The name under which the file was written before, or NULL, and then it is remembered. Lent until the next call. */
static cb_code link_first(exporting *e, uint64_t ino, const char *name, const char **out, cb_error *err)
{
	if (2 * e->link_count >= e->link_capacity) CB_TRY(links_grow(e, err));
	link_seen *slot = link_slot(e, ino);
	*out = slot->ino ? (const char *)e->names.bytes + slot->name_at : NULL;
	if (*out) return CB_OK;
	size_t at = e->names.size;
	CB_TRY(buf_append(&e->names, name, strlen(name) + 1, err));
	*slot = (link_seen){ino, at};
	e->link_count++;
	return CB_OK;
}

/* ---- files ---- */

/* The parts of a file that are data, in whole blocks: GNU tar begins each on a block of its own, other readers begin it where the one
 * before ends, and so they agree. Past the limit the rest counts as data, holes and all. */
static cb_code find_regions(exporting *e, cb_file *f, uint64_t size, cb_error *err)
{
	uint64_t at = 0;
	buf_clear(&e->regions);
	while (at < size) {
		uint64_t start = 0, end = 0;
		cb_error why;
		cb_code code = cb_seek(f, (int64_t)at, CB_SEEK_DATA, &start, cb_err_aside(&why));
		if (code == CB_NOTFOUND) break;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		CB_TRY(cb_seek(f, (int64_t)start, CB_SEEK_HOLE, &end, err));
		bool last = e->regions.size / sizeof(tar_region) + 2 >= LIMIT_TAR_REGIONS;
		uint64_t above = (TAR_BLOCK - end % TAR_BLOCK) % TAR_BLOCK;
		end = last || above > size - end ? size : end + above;
		start -= start % TAR_BLOCK; /* `at` is the start of a block: never before it */
		tar_region region = {start, end - start};
		CB_TRY(buf_append(&e->regions, &region, sizeof(region), err));
		at = end;
	}
	return CB_OK;
}

static const tar_region *region_list(const exporting *e, size_t *count)
{
	*count = e->regions.size / sizeof(tar_region);
	return (const tar_region *)(const void *)e->regions.bytes;
}

static bool is_sparse(const exporting *e, uint64_t size)
{
	size_t count;
	const tar_region *regions = region_list(e, &count);
	return size > 0 && !(count == 1 && regions[0].offset == 0 && regions[0].size == size);
}

/* The map as text, and a last empty part where the file ends in a hole, as GNU tar writes it. */
static cb_code make_map(exporting *e, uint64_t size, uint64_t *out_data, cb_error *err)
{
	size_t count;
	const tar_region *regions = region_list(e, &count);
	uint64_t end = count ? regions[count - 1].offset + regions[count - 1].size : 0;
	bool tail = end < size;
	buf_clear(&e->map);
	*out_data = 0;
	CB_TRY(buf_printf(&e->map, err, "%zu\n", count + tail));
	for (size_t i = 0; i < count; i++) {
		CB_TRY(buf_printf(&e->map, err, "%llu\n%llu\n", (unsigned long long)regions[i].offset,
		                  (unsigned long long)regions[i].size));
		*out_data += regions[i].size;
	}
	if (tail) CB_TRY(buf_printf(&e->map, err, "%llu\n0\n", (unsigned long long)size));
	while (e->map.size % TAR_BLOCK) CB_TRY(buf_append_byte(&e->map, 0, err));
	return CB_OK;
}

static cb_code put_regions(exporting *e, cb_file *f, const char *path, cb_error *err)
{
	size_t count;
	const tar_region *regions = region_list(e, &count);
	for (size_t i = 0; i < count; i++) {
		uint64_t at = regions[i].offset, end = at + regions[i].size;
		while (at < end) {
			size_t want = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES, n = 0;
			CB_TRY(cb_pread(f, e->chunk, want, at, &n, err));
			if (n < want) return cb_err_set(err, CB_BUSY, "'%s' became shorter while it was read: try again", path);
			CB_TRY(put(e, e->chunk, n, err));
			at += n;
			e->count.bytes += n;
			CB_TRY(progress(e, path, err));
		}
	}
	return pad_to(e, TAR_BLOCK, err);
}

static cb_code put_sparse(exporting *e, header *h, cb_file *f, const char *path, cb_error *err)
{
	uint64_t data = 0, real = h->size;
	char own[TAR_NAME_SIZE + 1];
	const char *slash = strrchr(h->name, '/'), *name = h->name;
	CB_TRY(make_map(e, real, &data, err));
	(void)snprintf(own, sizeof(own), "GNUSparseFile.0/%s", slash ? slash + 1 : name);
	h->size = e->map.size + data;
	h->name = own;
	CB_TRY(records_of(e, h, path, err));
	if (!is_utf8(name)) CB_TRY(record_add(e, "hdrcharset", "BINARY", 6, err));
	CB_TRY(record_number(e, "GNU.sparse.major", 1, err));
	CB_TRY(record_number(e, "GNU.sparse.minor", 0, err));
	CB_TRY(record_add(e, "GNU.sparse.name", name, strlen(name), err));
	CB_TRY(record_number(e, "GNU.sparse.realsize", real, err));
	CB_TRY(put_records(e, name, err));
	CB_TRY(put_header(e, h, err));
	CB_TRY(put(e, e->map.bytes, e->map.size, err));
	return put_regions(e, f, path, err);
}

static cb_code put_open_file(exporting *e, header *h, cb_file *f, const char *path, cb_error *err)
{
	CB_TRY(find_regions(e, f, h->size, err));
	if (is_sparse(e, h->size)) return put_sparse(e, h, f, path, err);
	CB_TRY(records_of(e, h, path, err));
	CB_TRY(put_records(e, h->name, err));
	CB_TRY(put_header(e, h, err));
	return put_regions(e, f, path, err);
}

static cb_code put_small_file(exporting *e, header *h, const char *path, cb_error *err)
{
	size_t n = 0;
	if (h->size) CB_TRY(cb_read_at(e->b, path, 0, e->chunk, (size_t)h->size, &n, err));
	if (n != h->size) return cb_err_set(err, CB_BUSY, "'%s' became shorter while it was read: try again", path);
	CB_TRY(records_of(e, h, path, err));
	CB_TRY(put_records(e, h->name, err));
	CB_TRY(put_header(e, h, err));
	CB_TRY(put(e, e->chunk, n, err));
	e->count.bytes += n;
	return pad_to(e, TAR_BLOCK, err);
}

static cb_code put_file(exporting *e, header *h, const char *path, const cb_stat_info *info, cb_error *err)
{
	h->size = info->size;
	if (info->size <= SMALL_FILE_BYTES) return put_small_file(e, h, path, err);
	cb_file *f = NULL;
	CB_TRY(cb_open(e->b, path, CB_READ | CB_NOFOLLOW_OPEN, 0, &f, err));
	cb_code code = put_open_file(e, h, f, path, err);
	(void)cb_close(f, NULL);
	return code;
}

/* A member without contents. */
static cb_code put_bare(exporting *e, header *h, char type, const char *link, const char *path, cb_error *err)
{
	h->type = type;
	h->link = link;
	CB_TRY(records_of(e, h, path, err));
	CB_TRY(put_records(e, h->name, err));
	return put_header(e, h, err);
}

static cb_code put_symlink(exporting *e, header *h, const char *path, cb_error *err)
{
	AUTO_FREE char *target = NULL;
	CB_TRY(cb_readlink(e->b, path, &target, NULL, err));
	return put_bare(e, h, '2', target, path, err);
}

/* ---- members ---- */

static bool is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	return strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/');
}

/* Of the whole box the agent's home and scratch folder are left out unless asked for. */
static bool is_left_out(const exporting *e, const char *path)
{
	return e->base_size == 0 && !e->options->all && (is_below(path, "/home/agent") || is_below(path, "/tmp"));
}

static bool is_excluded(const exporting *e, const char *path, bool is_dir)
{
	const char *relative = path + e->base_size;
	while (*relative == '/') relative++;
	return *relative && tar_is_excluded(e->exclude, relative, is_dir);
}

/* The name in the archive: relative, a folder's with '/' at its end. */
static cb_code member_name(const exporting *e, const char *path, bool folder, buf *out, cb_error *err)
{
	const char *relative = path + e->base_size;
	while (*relative == '/') relative++;
	CB_TRY(buf_append_str(out, e->file_name ? e->file_name : *relative ? relative : ".", err));
	if (folder) CB_TRY(buf_append_byte(out, '/', err));
	return buf_append_byte(out, 0, err);
}

static cb_code put_member(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	exporting *e = context;
	if (is_left_out(e, path) || is_excluded(e, path, info->type == CB_DIR)) return CB_OK;
	AUTO_BUF buf name = BUF_INIT(2 << 20);
	CB_TRY(member_name(e, path, info->type == CB_DIR, &name, err));
	CB_TRY(progress(e, path, err));
	header h = {.type = '0', .name = (const char *)name.bytes, .mode = info->mode, .mtime_ns = info->mtime_ns};
	if (!e->options->setid && (h.mode & 06000)) {
		note(e, path, "setuid and setgid bits dropped");
		h.mode &= ~(uint32_t)06000;
	}
	const char *first = NULL;
	if (info->type != CB_DIR && info->links > 1) CB_TRY(link_first(e, info->ino, h.name, &first, err));
	switch (info->type) {
	case CB_DIR:
		e->count.folders++;
		return put_bare(e, &h, '5', NULL, path, err);
	case CB_SYMLINK:
		e->count.symlinks++;
		return first ? put_bare(e, &h, '1', first, path, err) : put_symlink(e, &h, path, err);
	case CB_FILE:
		e->count.files++;
		return first ? put_bare(e, &h, '1', first, path, err) : put_file(e, &h, path, info, err);
	}
	return cb_err_set(err, CB_INTERNAL, "'%s' has no type", path);
}

/* ---- the whole ---- */

static cb_code put_all(exporting *e, const char *path, cb_error *err)
{
	static const uint8_t zeros[2 * TAR_BLOCK];
	cb_stat_info info = CB_INIT(cb_stat_info);
	CB_TRY(cb_stat(e->b, path, CB_NOFOLLOW, &info, err));
	AUTO_FREE char *clean = path_clean(path);
	if (!clean) return cb_err_nomem(err);
	e->base_size = strcmp(clean, "/") == 0 ? 0 : strlen(clean);
	if (info.type != CB_DIR) e->file_name = strrchr(clean, '/') + 1;
	CB_TRY(cb_walk(e->b, clean, put_member, e, err));
	if (e->interrupted) return cb_err_set(err, CB_INTERRUPTED, "the export was ended");
	CB_TRY(put(e, zeros, sizeof(zeros), err));
	CB_TRY(pad_to(e, TAR_RECORD, err));
	return flush(e, err);
}

static cb_code export_from(cb_box *b, const char *path, int fd, const cb_tar_options *options, cb_transfer_count *out,
                           cb_error *err)
{
	exporting e = {.era = entry_era(),
	               .b = b,
	               .options = options,
	               .fd = fd,
	               .out = BUF_INIT(OUT_BYTES),
	               .chunk = mem_alloc_bytes(CHUNK_BYTES)};
	e.records = BUF_INIT(LIMIT_TAR_HEADER_BYTES);
	e.regions = BUF_INIT(LIMIT_TAR_REGIONS * sizeof(tar_region));
	e.map = BUF_INIT((size_t)LIMIT_TAR_REGIONS * 32 + TAR_BLOCK);
	e.names = BUF_INIT(SIZE_MAX);
	cb_code code = e.chunk ? CB_OK : cb_err_nomem(err);
	if (code == CB_OK && options->exclude_count)
		code = ignore_create(options->exclude, options->exclude_count, &e.exclude, err);
	if (code == CB_OK) code = put_all(&e, path, err);
	ignore_destroy(e.exclude);
	free(e.chunk);
	free(e.links);
	buf_done(&e.out);
	buf_done(&e.records);
	buf_done(&e.regions);
	buf_done(&e.map);
	buf_done(&e.names);
	e.count.struct_size = sizeof(e.count);
	if (code == CB_OK) SIZED_GIVE(out, &e.count);
	return code;
}

cb_code cb_tar_export(cb_box *b, const char *path, int fd, const cb_tar_options *options, cb_transfer_count *out, cb_error *err)
{
	NEED(err, "box path", b, path);
	BOX_STAYS(b);
	cb_tar_options o;
	cb_transfer_watch watch;
	CB_TRY(SIZED_TAKE(cb_tar_options, watch, &o, options, err));
	CB_TRY(args_names("exclude", o.exclude, o.exclude_count, err));
	CB_TRY(watch_take(&o.watch, &watch, err));
	CB_TRY(SIZED_CHECK(cb_transfer_count, seq, out, err));
	CB_TRY(guard_stream(box_about(b).store, fd, "an archive", err));
	/* Others may go on writing, and so may the handle: what it sees now is exported. */
	cb_box *picture = NULL;
	CB_TRY(box_picture_open(b, &picture, err));
	cb_code code = export_from(picture, path, fd, &o, out, err);
	cb_box_close(picture);
	return code;
}
