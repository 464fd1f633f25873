/*
 * seen.c: what a tree held at the last look.
 *
 * A path stands for itself by 128 bits of its hash. An entry that has the same inode and change time (and, for good measure, size, mode
 * and modification time) is the same: whatever changes a file sets its change time to the clock, which no program can set back. That
 * clock moves in ticks, so a change in the same tick as the look would go unseen: an entry that young is not remembered.
 *
 * NAME/seen is the table of the last look that was kept, written when the slot is closed. Crash window: the caller commits what a look
 * found and dies before it says so. The old table must not be found then, since a folder that was renamed away and back would look
 * unchanged in it although the box was told that it went: it is taken away as soon as a look differs, before the caller hears the end
 * of it.
 */
#include "holder/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/io.h"
#include "host/host.h"

enum {
	TICKS_NS = 20000000, /* two ticks of the slowest clock, 100 Hz */
	ROWS_MIN = 256,
	ROWS_SAVED = 2 << 20, /* more would take longer to read than to look at again; 100 MB */
	HEADER_BYTES = 24,
	ROW_BYTES = 52,
	SUM_BYTES = 8,
	VERSION = 1,
};
static const char magic[8] = "cb-seen";
static const char file_name[] = "seen";

typedef struct row {
	hash128_value key; /* both 0: free */
	seen_entry entry;
} row;

typedef struct table {
	row *rows;
	size_t count, capacity; /* capacity: 0 or a power of two */
} table;

struct seen {
	table last, next;
	int64_t now_ns;
	bool differs;   /* next from last, as far as is known */
	bool saved;     /* NAME/seen is last */
	bool overtaken; /* the caller may have committed a look that differs from last */
	int folder;     /* of NAME/seen; -1 */
};

/* ---- tables ---- */

static void table_clear(table *t)
{
	free(t->rows);
	*t = (table){0};
}

static row *table_place(const table *t, hash128_value key)
{
	size_t at = (size_t)key.low & (t->capacity - 1);
	for (;; at = (at + 1) & (t->capacity - 1)) {
		row *r = &t->rows[at];
		if ((r->key.low | r->key.high) == 0 || (r->key.low == key.low && r->key.high == key.high)) return r;
	}
}

static const row *table_find(const table *t, hash128_value key)
{
	const row *r = t->count ? table_place(t, key) : NULL;
	return r && (r->key.low | r->key.high) ? r : NULL;
}

static cb_code table_size(table *t, size_t capacity, cb_error *err)
{
	table larger = {.capacity = capacity, .count = t->count};
	larger.rows = mem_alloc(capacity * sizeof(row));
	if (!larger.rows) return cb_err_nomem(err);
	memset(larger.rows, 0, capacity * sizeof(row));
	for (size_t i = 0; i < t->capacity; i++)
		if (t->rows[i].key.low | t->rows[i].key.high) *table_place(&larger, t->rows[i].key) = t->rows[i];
	free(t->rows);
	*t = larger;
	return CB_OK;
}

static cb_code table_put(table *t, hash128_value key, const seen_entry *e, cb_error *err)
{
	if (t->count >= LIMIT_WORK_ENTRIES) return cb_err_set(err, CB_LIMIT, "more than %d entries", LIMIT_WORK_ENTRIES);
	if (t->count + t->count / 2 >= t->capacity) CB_TRY(table_size(t, t->capacity ? t->capacity * 2 : ROWS_MIN, err));
	row *r = table_place(t, key);
	t->count += (r->key.low | r->key.high) == 0;
	*r = (row){key, *e};
	return CB_OK;
}

/* ---- looks ---- */

cb_code seen_create(seen **out, cb_error *err)
{
	seen *s = mem_alloc(sizeof(*s));
	if (!s) return cb_err_nomem(err);
	*s = (seen){.folder = -1};
	*out = s;
	return CB_OK;
}

void seen_destroy(seen *s)
{
	if (!s) return;
	table_clear(&s->last);
	table_clear(&s->next);
	if (s->folder >= 0) (void)close(s->folder);
	free(s);
}

void seen_begin(seen *s, int64_t now_ns)
{
	table_clear(&s->next);
	s->now_ns = now_ns;
	s->differs = false;
	/* Most of what was there is still there: no growing on the way. */
	if (s->last.capacity && table_size(&s->next, s->last.capacity, NULL) != CB_OK) table_clear(&s->next);
}

static hash128_value key_of(span path)
{
	hash128_value key = hash128(path.bytes, path.size);
	if ((key.low | key.high) == 0) key.low = 1;
	return key;
}

static bool is_same(const seen_entry *a, const seen_entry *b)
{
	return a->ino == b->ino && a->ctime_ns == b->ctime_ns && a->mtime_ns == b->mtime_ns && a->size == b->size &&
	       a->mode == b->mode;
}

cb_code seen_add(seen *s, span path, const seen_entry *e, bool *out_known, cb_error *err)
{
	hash128_value key = key_of(path);
	const row *r = table_find(&s->last, key);
	*out_known = r && is_same(&r->entry, e);
	if (!*out_known) s->differs = true;
	if (!*out_known && e->ctime_ns > s->now_ns - TICKS_NS) return CB_OK;
	return table_put(&s->next, key, e, err);
}

static void file_drop(seen *s)
{
	if (s->saved) (void)unlinkat(s->folder, file_name, 0);
	s->saved = false;
}

void seen_end(seen *s)
{
	if (!s->differs && s->next.count == s->last.count) return;
	file_drop(s);
	s->overtaken = true;
}

void seen_keep(seen *s)
{
	table_clear(&s->last);
	s->last = s->next;
	s->next = (table){0};
	s->overtaken = false;
}

void seen_forget(seen *s)
{
	table_clear(&s->last);
	table_clear(&s->next);
	s->saved = s->folder >= 0;
	file_drop(s);
	s->overtaken = false;
}

/* ---- NAME/seen ---- */

static void row_put(uint8_t *p, const row *r)
{
	put_le64(p, r->key.low);
	put_le64(p + 8, r->key.high);
	put_le64(p + 16, r->entry.ino);
	put_le64(p + 24, r->entry.size);
	put_le64(p + 32, (uint64_t)r->entry.ctime_ns);
	put_le64(p + 40, (uint64_t)r->entry.mtime_ns);
	put_le32(p + 48, r->entry.mode);
}

static cb_code rows_get(seen *s, span bytes, size_t count, cb_error *err)
{
	reader r = reader_make(bytes);
	size_t capacity = ROWS_MIN;
	while (capacity < count + count / 2 + 1) capacity *= 2;
	CB_TRY(table_size(&s->last, capacity, err));
	for (size_t i = 0; i < count; i++) {
		hash128_value key = {.low = reader_le64(&r)};
		key.high = reader_le64(&r);
		seen_entry e = {.ino = reader_le64(&r)};
		e.size = reader_le64(&r);
		e.ctime_ns = (int64_t)reader_le64(&r);
		e.mtime_ns = (int64_t)reader_le64(&r);
		e.mode = reader_le32(&r);
		if ((key.low | key.high) == 0) continue; /* no path has it */
		CB_TRY(table_put(&s->last, key, &e, err));
	}
	return CB_OK;
}

/* What is not whole counts as nothing. */
static cb_code parse(seen *s, span file, cb_error *err)
{
	if (file.size < HEADER_BYTES + SUM_BYTES || memcmp(file.bytes, magic, sizeof(magic)) != 0) return CB_OK;
	uint64_t count = get_le64(file.bytes + 16);
	size_t body = file.size - SUM_BYTES;
	if (get_le32(file.bytes + 8) != VERSION || get_le32(file.bytes + 12) != ROW_BYTES) return CB_OK;
	if (count > ROWS_SAVED || body != HEADER_BYTES + count * ROW_BYTES) return CB_OK;
	if (hash64(file.bytes, body) != get_le64(file.bytes + body)) return CB_OK;
	CB_TRY(rows_get(s, span_make(file.bytes + HEADER_BYTES, body - HEADER_BYTES), (size_t)count, err));
	s->saved = true;
	return CB_OK;
}

cb_code seen_load(seen *s, int folder, cb_error *err)
{
	AUTO_FD int fd = -1;
	host_stat st;
	size_t size;
	table_clear(&s->last);
	s->saved = false;
	if (s->folder >= 0) (void)close(s->folder);
	s->folder = fcntl(folder, F_DUPFD_CLOEXEC, 3);
	if (s->folder < 0) return cb_err_errno(err, errno, "cannot keep a folder open");
	if (host_file_open(folder, file_name, &fd, &st, NULL) != CB_OK) return CB_OK;
	if (st.size > HEADER_BYTES + (uint64_t)ROWS_SAVED * ROW_BYTES + SUM_BYTES) return CB_OK;
	AUTO_FREE uint8_t *bytes = mem_alloc_bytes((size_t)st.size + 1);
	if (!bytes) return cb_err_nomem(err);
	if (io_pread_all(fd, bytes, (size_t)st.size + 1, 0, &size, NULL) != CB_OK) return CB_OK;
	return parse(s, span_make(bytes, size), err);
}

cb_code seen_save(const seen *s, int folder, cb_error *err)
{
	if (s->saved) return CB_OK;
	if (s->overtaken || s->last.count == 0 || s->last.count > ROWS_SAVED) {
		if (unlinkat(folder, file_name, 0) == 0 || errno == ENOENT) return CB_OK;
		return cb_err_errno(err, errno, "cannot remove '%s'", file_name);
	}
	size_t size = HEADER_BYTES + s->last.count * ROW_BYTES;
	AUTO_FREE uint8_t *bytes = mem_alloc_bytes(size + SUM_BYTES);
	if (!bytes) return cb_err_nomem(err);
	memcpy(bytes, magic, sizeof(magic));
	put_le32(bytes + 8, VERSION);
	put_le32(bytes + 12, ROW_BYTES);
	put_le64(bytes + 16, s->last.count);
	uint8_t *at = bytes + HEADER_BYTES;
	for (size_t i = 0; i < s->last.capacity; i++) {
		if ((s->last.rows[i].key.low | s->last.rows[i].key.high) == 0) continue;
		row_put(at, &s->last.rows[i]);
		at += ROW_BYTES;
	}
	put_le64(at, hash64(bytes, size));
	ATTR_CLEANUP(host_writer_done) host_writer w = HOST_WRITER_NONE;
	CB_TRY(host_writer_begin(&w, folder, err));
	CB_TRY(io_write_all(w.fd, bytes, size + SUM_BYTES, err));
	return host_writer_commit(&w, file_name, true, err);
}
