/*
 * vfs_log.c: the log of a database: gathered writes, the room of a commit, and sums of what is read.
 *
 * SQLite appends each page of a transaction to the log with two writes, a header of 24 bytes and the page: ten system calls for a small
 * commit, and half its time. Here they gather in a buffer and go out together, at the latest when the page behind the header of a commit
 * frame (its database size is not 0) has come. That is before SQLite publishes the transaction in the wal-index, and the write that
 * completes the commit reports the error of them all. Frames not yet published are invisible to other connections, and a crash may keep
 * any part of them anyway: so neither consistency nor durability can tell the difference.
 *
 * A transaction's own writes are gathered only while each continues the last. The first that does not (a page written a second time after
 * a spill, headers whose sums are made anew) ends it: the rest of that transaction is written as it comes. The beginning of a transaction
 * is seen by the lock of slot 0 of the wal-index; at its release what is left in the buffer belongs to a rollback and is dropped.
 *
 * A commit becomes valid with the page behind the header of its commit frame. Before that page is written the room it leaves is looked at
 * (room.h), and the commit fails when that is too little. So that the room stays ours the log is never deleted nor emptied by cutting it:
 * zeros in place of its header say that it holds nothing, also to SQLite. And the database is not cut to the pages it has, which would give
 * the blocks behind them away (base_cut).
 */
#include "store/vfs_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
	FREE_PAGES_AT = 36, /* in page 1 */
	INDEX_BYTES = 32 << 10,
	INDEX_FRAMES_FIRST = 4062, /* that the first block of the index covers; each further one 4096 */
	INDEX_FRAMES = 4096,
	NOTES_FIRST = 1024,
	NOTES_MOST = 16384, /* frames: a log is folded long before */
	/* SQLite's own VFS cuts longer writes at 128 KiB, and reports one of exactly that as a full disk. */
	GATHER_BYTES = 124 << 10,
};

/* ---- gathered writes ---- */

int log_flush(vfs_file *s)
{
	if (s->gathered_size == 0) return SQLITE_OK;
	int n = (int)s->gathered_size;
	s->gathered_size = 0; /* also on failure: SQLite then gives the transaction up */
	return file_write(s, s->gathered, n, s->gathered_at);
}

static int gather_add(vfs_file *s, const uint8_t *bytes, int n, sqlite3_int64 at)
{
	if (s->gathered_size + (size_t)n > GATHER_BYTES) {
		int rc = log_flush(s);
		if (rc != SQLITE_OK) return rc;
	}
	if (s->gathered_size == 0) s->gathered_at = at;
	memcpy(s->gathered + s->gathered_size, bytes, (size_t)n);
	s->gathered_size += (size_t)n;
	s->frontier = at + n;
	bool complete = n != FRAME_HEADER_BYTES && s->commit_next;
	s->commit_next = n == FRAME_HEADER_BYTES && (bytes[4] | bytes[5] | bytes[6] | bytes[7]) != 0;
	return complete ? log_flush(s) : SQLITE_OK;
}

static bool can_gather(vfs_file *s)
{
	if (!s->gathered) s->gathered = mem_alloc_aligned(GATHER_BYTES);
	return s->gathered != NULL;
}

/* ---- the room of a commit ---- */

/* The index must reach as far as the room behind the log does. */
static int index_reach(vfs_file *database, uint64_t log_bytes, uint32_t page_bytes)
{
	uint64_t frames = log_bytes / (FRAME_HEADER_BYTES + page_bytes) + 1;
	int blocks = 1 + (int)((frames + INDEX_FRAMES - INDEX_FRAMES_FIRST - 1) / INDEX_FRAMES);
	int rc = SQLITE_OK;
	while (rc == SQLITE_OK && database->index_blocks < blocks) {
		void volatile *block = NULL;
		rc = index_map(database, database->index_blocks, INDEX_BYTES, 1, &block);
		if (rc == SQLITE_OK && !block) return SQLITE_OK; /* an index in this process's memory */
	}
	return rc;
}

/* Before the last page of a commit is written. */
static int commit_room(vfs_file *s, uint32_t page_bytes, uint64_t end)
{
	vfs_file *database = s->database;
	room *r = &database->room;
	s->commit.log_end = end;
	s->commit.base_end = (uint64_t)s->frame_commit * page_bytes;
	int error = room_for_commit(r, &s->commit);
	if (error == 0 && index_reach(database, end + room_log_ahead(r), page_bytes) != SQLITE_OK) {
		r->is_short = true;
		error = r->need == ROOM_GROWS ? ENOSPC : 0; /* the others do with the blocks there are */
	}
	errno = error;
	return error == 0                       ? SQLITE_OK
	       : error == ENOSPC                ? SQLITE_FULL
	       : error == ENOMEM                ? SQLITE_IOERR_NOMEM
	       : error == EIO || error == EFBIG ? file_write_failed(s, error, SQLITE_IOERR_WRITE)
	                                        : SQLITE_CANTOPEN;
}

/* Follows a transaction's frames: a header, then its page. A page written a second time comes without a header, and may be page 1. */
static int frame_saw(vfs_file *s, const uint8_t *bytes, int n, sqlite3_int64 at)
{
	if (!s->in_write || n == LOG_HEADER_BYTES) return SQLITE_OK;
	if (n == FRAME_HEADER_BYTES) {
		if (!s->wrote || at < s->wrote_from) s->wrote_from = at;
		s->wrote = true;
		s->frame_page = be32(bytes);
		s->frame_commit = be32(bytes + 4);
		s->commit.log_salt = (uint64_t)be32(bytes + 8) << 32 | be32(bytes + 12);
		return SQLITE_OK;
	}
	bool again = s->frame_page == 0;
	if (again || s->frame_page == 1) {
		s->commit.has_first = true;
		s->commit.free_bytes = again ? 0 : (uint64_t)be32(bytes + FREE_PAGES_AT) * (uint64_t)n;
	}
	s->frame_page = 0;
	return s->frame_commit && !again ? commit_room(s, (uint32_t)n, (uint64_t)at + (uint64_t)n) : SQLITE_OK;
}

/* ---- writing ---- */

static uint32_t page_bytes_of(const vfs_file *database)
{
	return database->reads.bytes ? database->reads.bytes : database->writes.bytes;
}

static void note_header(vfs_file *log, const uint8_t *header, sqlite3_int64 at)
{
	uint32_t page_bytes = page_bytes_of(log->database);
	if (!page_bytes || at < LOG_HEADER_BYTES) return;
	uint64_t frame = (uint64_t)(at - LOG_HEADER_BYTES) / (page_bytes + FRAME_HEADER_BYTES);
	if (frame >= NOTES_MOST) return;
	if (frame >= log->note_count) {
		size_t count = log->note_count ? log->note_count : NOTES_FIRST;
		while (count <= frame) count *= 2;
		frame_note *wider = mem_realloc(log->notes, count * sizeof *wider);
		if (!wider) return;
		memset(wider + log->note_count, 0, (count - log->note_count) * sizeof *wider);
		log->notes = wider;
		log->note_count = count;
	}
	memcpy(log->notes[frame].header, header, FRAME_HEADER_BYTES);
}

int log_write(vfs_file *s, const void *bytes, int n, sqlite3_int64 at)
{
	int refused = frame_saw(s, bytes, n, at);
	if (n == FRAME_HEADER_BYTES) note_header(s, bytes, at);
	if (refused != SQLITE_OK) return refused;
	if (s->state == GATHER_FIRST && n != LOG_HEADER_BYTES) {
		bool starts = n == FRAME_HEADER_BYTES && can_gather(s);
		s->state = starts ? GATHER_ON : GATHER_OFF;
		s->frontier = at;
	}
	if (s->state == GATHER_ON && at == s->frontier && n <= GATHER_BYTES / 2) return gather_add(s, bytes, n, at);
	if (s->state == GATHER_ON) s->state = GATHER_OFF;
	int rc = log_flush(s);
	return rc == SQLITE_OK ? file_write(s, bytes, n, at) : rc;
}

/*
 * Cut to nothing a log holds nothing; here it keeps its blocks, up to a length. Its frames are all in the database then, so that a power
 * cut may bring the old header back with all of them, but not with a part: they would be older than what the database holds. So the new
 * header is flushed before the file is cut.
 */
int log_cut(vfs_file *s, sqlite3_int64 size, sqlite3_int64 now)
{
	static const uint8_t nothing[LOG_HEADER_BYTES];
	room *r = &s->database->room;
	sqlite3_int64 stays = (sqlite3_int64)room_log_stays(r);
	/* After the first commit since it began anew: what lies behind that is of earlier logs. */
	if (size > 0 && stays < size + (sqlite3_int64)room_log_ahead(r)) stays = size + (sqlite3_int64)room_log_ahead(r);
	int rc = size == 0 && now >= LOG_HEADER_BYTES ? file_write(s, nothing, sizeof nothing, 0) : SQLITE_OK;
	if (rc != SQLITE_OK || now <= stays) return rc;
	rc = size == 0 ? file_sync(s, SQLITE_SYNC_NORMAL) : SQLITE_OK;
	if (rc == SQLITE_OK) rc = file_cut(s, stays);
	room_forget(r);
	return rc;
}

void log_write_begins(vfs_file *log, bool begins)
{
	log->gathered_size = 0;
	log->commit_next = false;
	log->state = begins ? GATHER_FIRST : GATHER_OFF;
	log->in_write = begins;
	log->frame_page = log->frame_commit = 0;
	log->wrote = false;
	log->commit = (room_commit){0};
}

/* ---- reading ---- */

/* The page of a frame, and of no other size: SQLite reads headers alone, and whole frames when it looks at their sums itself. */
static bool is_frame(const vfs_file *log, int n, sqlite3_int64 at)
{
	uint32_t bytes = page_bytes_of(log->database);
	return bytes != 0 && (uint32_t)n == bytes && at >= LOG_HEADER_BYTES + FRAME_HEADER_BYTES &&
	       (at - LOG_HEADER_BYTES) % (n + FRAME_HEADER_BYTES) == FRAME_HEADER_BYTES &&
	       !(log->in_write && log->wrote && at >= log->wrote_from);
}

/*
 * Reads the page of a frame, its header, and the sum in the header before it, the log's for the first: all in one piece, with the page of
 * the frame before, since a second system call costs more. Nobody changes a frame that a reader may read, nor the one before it.
 */
int log_frame_read(vfs_file *log, int n, sqlite3_int64 at, const uint8_t **page, uint8_t header[FRAME_HEADER_BYTES], bool *right)
{
	enum { SUM_BYTES = 8 };
	sqlite3_int64 header_at = at - FRAME_HEADER_BYTES;
	sqlite3_int64 from = header_at == LOG_HEADER_BYTES ? LOG_HEADER_BYTES - SUM_BYTES : header_at - n - SUM_BYTES;
	if (!log->page) log->page = mem_alloc_aligned((size_t)2 * PAGE_BYTES_MOST + FRAME_HEADER_BYTES + SUM_BYTES);
	if (!log->page) return SQLITE_IOERR_NOMEM;
	int rc = log->real->pMethods->xRead(log->real, log->page, (int)(at - from) + n, from);
	if (rc != SQLITE_OK) return rc;
	*page = log->page + (at - from);
	memcpy(header, log->page + (header_at - from), FRAME_HEADER_BYTES);
	*right = frame_is_right(log->page, header, *page, (uint32_t)n);
	return SQLITE_OK;
}

/* The page that this connection wrote there? */
static bool is_as_noted(const vfs_file *log, const uint8_t *page, int n, sqlite3_int64 at, uint8_t header[FRAME_HEADER_BYTES])
{
	enum { SUM_AT = 16 };
	uint64_t frame = (uint64_t)(at - LOG_HEADER_BYTES) / ((uint32_t)n + FRAME_HEADER_BYTES);
	if (frame == 0 || frame >= log->note_count) return false;
	memcpy(header, log->notes[frame].header, FRAME_HEADER_BYTES);
	return be32(header) != 0 && frame_is_right(log->notes[frame - 1].header + SUM_AT, header, page, (uint32_t)n);
}

int log_read(vfs_file *log, uint8_t *to, int n, sqlite3_int64 at)
{
	uint8_t header[FRAME_HEADER_BYTES];
	const uint8_t *page = NULL;
	bool right = false;
	if (!is_frame(log, n, at)) return log->real->pMethods->xRead(log->real, to, n, at);
	if (log->notes) {
		int rc = log->real->pMethods->xRead(log->real, to, n, at);
		if (rc != SQLITE_OK) return rc;
		if (is_as_noted(log, to, n, at, header)) {
			if (be32(header) == 1) page_shape_learn(&log->database->reads, to);
			return SQLITE_OK;
		}
	}
	int rc = log_frame_read(log, n, at, &page, header, &right);
	if (rc == SQLITE_IOERR_SHORT_READ) memset(to, 0, (size_t)n);
	if (rc != SQLITE_OK) return rc;
	if (!right) return base_wrong_page(log->database, be32(header), true);
	memcpy(to, page, (size_t)n);
	if (be32(header) == 1) page_shape_learn(&log->database->reads, page);
	return SQLITE_OK;
}

/* ---- its extent ---- */

enum { INDEX_HEADER_BYTES = 48, PAGE_BYTES_AT = 14, FRAMES_AT = 16, PAGES_AT = 20, SALT_AT = 32 };

static bool index_header(const vfs_file *database, uint8_t out[INDEX_HEADER_BYTES])
{
	enum { TRIES = 100 };
	const volatile uint8_t *index = database->index;
	if (!index) return false;
	uint8_t copies[2 * INDEX_HEADER_BYTES];
	/* A writer changes the second copy, then the first: equal ones are whole. */
	for (unsigned tries = 0; tries < TRIES; tries++) {
		for (size_t i = 0; i < sizeof copies; i++) copies[i] = index[i];
		if (memcmp(copies, copies + INDEX_HEADER_BYTES, INDEX_HEADER_BYTES) != 0) continue;
		memcpy(out, copies, INDEX_HEADER_BYTES);
		return true;
	}
	return false;
}

uint64_t vfs_log_position(sqlite3_file *database)
{
	uint8_t header[INDEX_HEADER_BYTES];
	uint32_t frames, salt;
	if (!index_header(vfs_file_of(database), header)) return 0;
	memcpy(&frames, header + FRAMES_AT, sizeof frames);
	memcpy(&salt, header + SALT_AT, sizeof salt);
	return (uint64_t)salt << 32 | frames;
}

uint32_t log_base_pages(const vfs_file *database)
{
	uint8_t header[INDEX_HEADER_BYTES];
	uint32_t frames, pages;
	if (!index_header(database, header)) return 0;
	memcpy(&frames, header + FRAMES_AT, sizeof frames);
	memcpy(&pages, header + PAGES_AT, sizeof pages);
	return frames ? pages : 0;
}

room_log vfs_log_room(sqlite3_file *database)
{
	uint8_t header[INDEX_HEADER_BYTES];
	uint16_t page_bytes;
	uint32_t frames;
	if (!index_header(vfs_file_of(database), header)) return ROOM_LOG_ENOUGH;
	memcpy(&page_bytes, header + PAGE_BYTES_AT, sizeof page_bytes); /* 1: 64 KiB */
	memcpy(&frames, header + FRAMES_AT, sizeof frames);
	if (frames == 0) return ROOM_LOG_ENOUGH;
	uint64_t frame_bytes = FRAME_HEADER_BYTES + (page_bytes == 1 ? 64u << 10 : page_bytes);
	uint64_t salt = (uint64_t)be32(header + SALT_AT) << 32 | be32(header + SALT_AT + 4); /* as in a frame's header */
	return room_of_log(&vfs_file_of(database)->room, LOG_HEADER_BYTES + frames * frame_bytes, salt);
}

bool vfs_log_header_damaged(sqlite3_file *log, bool restarted)
{
	static const uint8_t nothing[LOG_HEADER_BYTES];
	uint8_t h[LOG_HEADER_BYTES];
	sqlite3_int64 size = 0;
	if (log->pMethods->xFileSize(log, &size) != SQLITE_OK) return false;
	if (size < LOG_HEADER_BYTES) return size != 0 && !restarted; /* empty: as `sqlite3` makes it anew when it had removed it */
	if (log->pMethods->xRead(log, h, sizeof h, 0) != SQLITE_OK) return false;
	if (memcmp(h, nothing, sizeof h) == 0) return false; /* folded, and kept for its room (log_cut) */
	return size == LOG_HEADER_BYTES || !log_header_is_right(h);
}
