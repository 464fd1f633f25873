/*
 * vfs_base.c: the file of a database: sums of its pages, and the room that is kept behind them.
 *
 * Pages have sums (page_sum.h). Whether a database has them stands in its first page, and a VACUUM, also one by another process, can add
 * them under an open connection. For reading, what counts is the first page of the picture that is read: SQLite reads it before any other
 * page of that picture. For writing, what counts is the first page in the file: it is asked when a folding begins, by whom nobody else can
 * write the file meanwhile, and a new one is folded before all others, since they are folded in the order of their numbers.
 */
#include "store/vfs_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
	/* In page 1. */
	WRITE_FORMAT_AT = 18, /* 2: with a log */
	CHANGES_AT = 24,
	PAGES_AT = 28,
	VALID_FOR_AT = 92, /* the changes that PAGES_AT was written with */
	FIRST_BYTES = 96,  /* up to here */
};

static bool is_page(const page_shape *shape, int n, sqlite3_int64 at)
{
	return shape->bytes != 0 && (uint32_t)n == shape->bytes && at % n == 0;
}

void base_learn(vfs_file *s)
{
	uint8_t head[PAGE_HEAD_BYTES];
	if (s->real->pMethods->xRead(s->real, head, sizeof head, 0) == SQLITE_OK) page_shape_learn(&s->writes, head);
}

/* ---- a database that is shorter than its file ---- */

/* Where the pages end by what page 1 says; 0: it does not, or has no log. In a rollback the file's own length counts. */
static sqlite3_int64 pages_end(const uint8_t first[FIRST_BYTES])
{
	bool said = first[WRITE_FORMAT_AT] == 2 && memcmp(first + CHANGES_AT, first + VALID_FOR_AT, 4) == 0;
	return said ? (sqlite3_int64)be32(first + PAGES_AT) * page_shape_of(first).bytes : 0;
}

/*
 * Before page 1 is folded after a vacuum: what lies behind the last page and stays in the file (base_cut) becomes zeros, as a page is that
 * was never written. SQLite takes pages into use without writing them, and those of another time may have no sum, or a wrong one; nor
 * should they outlive a vacuum. Nobody needs them: who reads a picture as old as they are keeps the new page 1 from being folded. Flushed
 * before that is written: until then the old number tells that this is still to be done.
 */
static int base_shrink(vfs_file *s, sqlite3_int64 end)
{
	static const uint8_t zeros[64 << 10];
	uint8_t first[FIRST_BYTES];
	if (end == 0 || s->real->pMethods->xRead(s->real, first, sizeof first, 0) != SQLITE_OK) return SQLITE_OK;
	sqlite3_int64 from = end, to = pages_end(first), stays = (sqlite3_int64)room_base_stays(&s->room, (uint64_t)end);
	if (to <= end) return SQLITE_OK;
	if (to > stays) to = stays;
	int rc = SQLITE_OK;
	for (int n; rc == SQLITE_OK && from < to; from += n) {
		n = to - from < (sqlite3_int64)sizeof zeros ? (int)(to - from) : (int)sizeof zeros;
		rc = file_write(s, zeros, n, from);
	}
	if (rc != SQLITE_OK) rc = file_cut(s, end); /* where a block that is there cannot be written the room is of no use */
	return rc == SQLITE_OK ? file_sync(s, SQLITE_SYNC_NORMAL) : rc;
}

/*
 * After folding the database is cut to the pages it has. Every cut frees what lies behind it, so it is made behind the kept room: then the
 * file is longer than its pages. SQLite goes by the number in page 1, and base_size says the same.
 */
int base_cut(vfs_file *s, sqlite3_int64 size, sqlite3_int64 now)
{
	sqlite3_int64 stays = size < now ? (sqlite3_int64)room_base_stays(&s->room, (uint64_t)size) : size;
	if (size <= now && now <= stays) return SQLITE_OK; /* and the blocks behind it stay */
	int rc = file_cut(s, stays);
	if (size < now) room_forget(&s->room);
	return rc;
}

/*
 * SQLite asks for a database's size while the log is empty; it would count the kept room behind the pages (base_cut) among the pages of the
 * next commit.
 */
int base_size(vfs_file *s, sqlite3_int64 *out)
{
	uint8_t first[FIRST_BYTES];
	int rc = s->real->pMethods->xFileSize(s->real, out);
	if (rc != SQLITE_OK || *out < FIRST_BYTES) return rc;
	rc = s->real->pMethods->xRead(s->real, first, sizeof first, 0);
	if (rc != SQLITE_OK) return rc == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : rc;
	sqlite3_int64 end = pages_end(first);
	if (end > 0 && end < *out) *out = end;
	return SQLITE_OK;
}

/* ---- pages ---- */

int base_write(vfs_file *s, const uint8_t *bytes, int n, sqlite3_int64 at)
{
	if (at == 0 && n >= FIRST_BYTES) {
		page_shape_learn(&s->writes, bytes);
		int rc = s->held && s->log ? base_shrink(s, pages_end(bytes)) : SQLITE_OK;
		if (rc != SQLITE_OK) return rc;
	}
	if (!s->writes.summed || !is_page(&s->writes, n, at)) return file_write(s, bytes, n, at);
	if (!s->page) s->page = mem_alloc_aligned(PAGE_BYTES_MOST);
	if (!s->page) return SQLITE_IOERR_NOMEM;
	memcpy(s->page, bytes, (size_t)n);
	page_sum_put(s->page, (uint32_t)n, (uint64_t)(at / n) + 1);
	return file_write(s, s->page, n, at);
}

int base_wrong_page(vfs_file *base, uint64_t page, bool in_log)
{
	base->wrong = (vfs_wrong){page, in_log};
	errno = 0;
	return SQLITE_IOERR_DATA;
}

int base_saw(vfs_file *s, uint8_t *bytes, int n, sqlite3_int64 at, int rc)
{
	if (at == 0 && page_size_is_valid((uint32_t)n)) {
		page_shape shape = page_shape_of(bytes);
		if (shape.bytes && shape.bytes != (uint32_t)n) return rc; /* SQLite reads it again */
		/* A damaged first page may not look like one. */
		if (!shape.bytes && bytes[PAGE_RESERVED_AT] == PAGE_SUM_BYTES) shape = (page_shape){(uint32_t)n, true};
		if (!shape.summed && page_mark_is_damaged(bytes, (uint32_t)n)) return base_wrong_page(s, 1, false);
		s->reads = shape;
	}
	if (!s->reads.summed || !is_page(&s->reads, n, at)) return rc;
	page_verdict verdict = page_check(bytes, (uint32_t)n, (uint64_t)(at / n) + 1);
	if (verdict == PAGE_NEVER_WRITTEN) return rc;
	if (verdict == PAGE_RIGHT) page_sum_hide(bytes, (uint32_t)n);
	if (verdict == PAGE_UNSUMMED) s->unsummed++;
	if (verdict != PAGE_WRONG && rc == SQLITE_OK) return rc;
	/* Where we have no lock that others know of, they may be writing it just now. */
	if (s->frozen && frozen_shm_lock(s->frozen, SQLITE_SHM_LOCK) != SQLITE_OK) return SQLITE_PROTOCOL;
	return base_wrong_page(s, (uint64_t)(at / n) + 1, false);
}

/* ---- what others ask about pages ---- */

vfs_wrong vfs_wrong_page(sqlite3 *db)
{
	const vfs_file *s = vfs_file_open_in(db);
	return s ? s->wrong : (vfs_wrong){0};
}

bool vfs_has_sums(sqlite3 *db)
{
	const vfs_file *s = vfs_file_open_in(db);
	return s && s->reads.summed;
}

uint64_t vfs_pages_unsummed(sqlite3 *db)
{
	const vfs_file *s = vfs_file_open_in(db);
	return s ? s->unsummed : 0;
}

void vfs_add_sums(sqlite3 *db, uint32_t page_bytes)
{
	vfs_file *s = vfs_file_open_in(db);
	if (s) s->writes = (page_shape){page_bytes, true};
}

void vfs_sums_are_there(sqlite3 *db)
{
	vfs_file *s = vfs_file_open_in(db);
	if (!s) return;
	s->reads.summed = s->reads.bytes != 0;
	s->unsummed = 0;
}

static int read_frame_header(const vfs_file *log, uint64_t frame, uint32_t page_bytes, uint8_t header[FRAME_HEADER_BYTES])
{
	sqlite3_int64 at = LOG_HEADER_BYTES + (sqlite3_int64)frame * (page_bytes + FRAME_HEADER_BYTES);
	return log->real->pMethods->xRead(log->real, header, FRAME_HEADER_BYTES, at);
}

/* Which pages are read from the log: what the file has in their place is of no meaning, and a power cut while it was folded may have torn
 * it. */
static bool logged_pages(vfs_file *s, vfs_looking *l, uint64_t pages)
{
	uint32_t frames = s->log ? (uint32_t)vfs_log_position(&s->base) : 0;
	uint8_t header[FRAME_HEADER_BYTES];
	l->logged = mem_alloc_zeroed((size_t)pages / 8 + 1);
	l->logged_end = pages;
	if (!l->logged) return false;
	for (uint64_t i = 0; i < frames && read_frame_header(s->log, i, s->reads.bytes, header) == SQLITE_OK; i++) {
		uint32_t page = be32(header);
		if (page >= 1 && page <= pages) l->logged[(page - 1) / 8] |= (uint8_t)(1u << (page - 1) % 8);
	}
	return true;
}

static bool is_logged(vfs_file *s, vfs_looking *l, uint64_t pages, uint64_t number)
{
	if (!l->logged && !logged_pages(s, l, pages)) return true; /* no memory: nothing is known */
	return number <= l->logged_end && (l->logged[(number - 1) / 8] >> (number - 1) % 8 & 1);
}

/* Others may be folding the log into the page just now: then it is right soon. */
static page_verdict page_settled(const vfs_file *s, vfs_looking *l, uint8_t *bytes, uint32_t n, uint64_t number)
{
	enum { TRIES = 5, PAUSE_US = 20000, PATIENCE = 8 };
	page_verdict v = PAGE_WRONG;
	for (unsigned tries = 0; v == PAGE_WRONG && tries < (l->count < PATIENCE ? TRIES : 1); tries++) {
		if (tries) (void)vfs_host()->xSleep(vfs_host(), PAUSE_US);
		int rc = s->real->pMethods->xRead(s->real, bytes, (int)n, (sqlite3_int64)((number - 1) * n));
		if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) return PAGE_RIGHT; /* a disk that fails is told elsewhere */
		v = page_check(bytes, n, number);
		if (v == PAGE_UNSUMMED && rc != SQLITE_OK) v = PAGE_WRONG;
	}
	return v;
}

/* How many pages the database has: by the log, where that holds something. After a vacuum that is not folded the file has more, which are
 * nobody's; a power cut while they were written over (base_shrink) leaves them torn. */
static bool pages_count(vfs_file *s, uint32_t page_bytes, uint64_t *out)
{
	sqlite3_int64 size = 0;
	if (base_size(s, &size) != SQLITE_OK) return false;
	uint64_t logged = log_base_pages(s);
	*out = ((uint64_t)size + page_bytes - 1) / page_bytes;
	if (logged && logged < *out) *out = logged;
	return true;
}

bool vfs_pages_look(sqlite3 *db, vfs_looking *l, uint64_t most)
{
	vfs_file *s = vfs_file_open_in(db);
	uint64_t pages = 0;
	uint32_t n = s ? s->reads.bytes : 0;
	if (!n || !s->reads.summed || !pages_count(s, n, &pages)) return false;
	uint64_t end = l->at + most < pages ? l->at + most : pages;
	uint8_t *bytes = mem_alloc_aligned(n);
	bool found = false;
	while (bytes && !found && l->at < end) {
		page_verdict v = page_settled(s, l, bytes, n, ++l->at);
		l->unsummed += v == PAGE_UNSUMMED;
		found = v == PAGE_WRONG && !is_logged(s, l, pages, l->at);
	}
	free(bytes);
	if (found) l->wrong = l->at;
	l->count += found;
	return found;
}

void vfs_looking_done(vfs_looking *l)
{
	free(l->logged);
	l->logged = NULL;
}

bool vfs_frames_look(sqlite3 *db, vfs_looking *l)
{
	vfs_file *s = vfs_file_open_in(db), *log = s ? s->log : NULL;
	uint32_t n = s ? s->reads.bytes : 0;
	if (!n || !log) return false;
	uint64_t position = vfs_log_position(&s->base);
	uint8_t header[FRAME_HEADER_BYTES] = {0};
	const uint8_t *page = NULL;
	bool right = true;
	while (right && l->at < (uint32_t)position) {
		sqlite3_int64 at = LOG_HEADER_BYTES + (sqlite3_int64)l->at++ * (n + FRAME_HEADER_BYTES) + FRAME_HEADER_BYTES;
		if (log_frame_read(log, (int)n, at, &page, header, &right) != SQLITE_OK) break;
	}
	/* Begun anew meanwhile: those were other frames. */
	if (right || vfs_log_position(&s->base) >> 32 != position >> 32) return false;
	l->wrong = be32(header);
	l->count++;
	return true;
}
