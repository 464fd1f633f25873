/*
 * vfs.c: see vfs.h.
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
 * SQLite flushes the folder beside the first flush of every log it opens with leave to create it, so a process that writes once pays for
 * two. A log that holds frames needs no such leave and no such flush: whoever made it flushed its header, and with it the folder, before
 * the first frame was written (walFrames does in every mode but synchronous=OFF).
 *
 * A commit becomes valid with the page behind the header of its commit frame. Before that page is written the room it leaves is looked at
 * (room.h), and the commit fails when that is too little. So that the room stays ours the log is never deleted nor emptied by cutting it:
 * zeros in place of its header say that it holds nothing, also to SQLite. And the database is not cut to the pages it has, which would give
 * the blocks behind them away (base_cut).
 *
 * Pages have sums (page_sum.h). Whether a database has them stands in its first page, and a VACUUM, also one by another process, can add
 * them under an open connection. For reading, what counts is the first page of the picture that is read: SQLite reads it before any other
 * page of that picture. For writing, what counts is the first page in the file: it is asked when a folding begins, by whom nobody else can
 * write the file meanwhile, and a new one is folded before all others, since they are folded in the order of their numbers.
 */
#include "store/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "store/fault_state.h"
#include "store/frozen.h"
#include "store/held.h"
#include "store/page_sum.h"
#include "store/room.h"

enum {
	/* In page 1. */
	WRITE_FORMAT_AT = 18, /* 2: with a log */
	CHANGES_AT = 24,
	PAGES_AT = 28,
	FREE_PAGES_AT = 36,
	VALID_FOR_AT = 92, /* the changes that PAGES_AT was written with */
	FIRST_BYTES = 96,  /* up to here */
	INDEX_BYTES = 32 << 10,
	INDEX_FRAMES_FIRST = 4062, /* that the first block of the index covers; each further one 4096 */
	INDEX_FRAMES = 4096,
	NOTES_FIRST = 1024,
	NOTES_MOST = 16384, /* frames: a log is folded long before */
	GATHER_BYTES =
		124 << 10, /* SQLite's own VFS cuts longer writes at 128 KiB, and reports one of exactly that as a full disk */
};

typedef enum gather_state {
	GATHER_OFF,   /* no transaction, or one that is written as it comes */
	GATHER_FIRST, /* a transaction has begun and written no frame yet */
	GATHER_ON,
} gather_state;

typedef struct frame_note {
	uint8_t header[FRAME_HEADER_BYTES];
} frame_note;

typedef struct shim_file {
	sqlite3_file base;
	store_fault_plan *plan;
	base_place at;              /* of a database */
	const char *path;           /* SQLite's, lives as long as the file; NULL: a temporary one */
	sqlite3_file *real;         /* behind this struct */
	struct shim_file *log;      /* of a database: its log, when open */
	struct shim_file *database; /* of a log */
	frozen *frozen;             /* of a database that cannot be written and lacks log or index; else NULL */
	int unlock_error;           /* of a lock that could not be given back; 0: none */
	int write_error;            /* of a database: why the last write to it or to its log failed */
	gather_state state;
	bool commit_next;  /* the header that came last is a commit frame's */
	uint8_t *gathered; /* GATHER_BYTES, made when first needed */
	size_t gathered_size;
	sqlite3_int64 gathered_at, frontier;
	uint8_t *
		page; /* of a database: one to be written, with its sum; of a log: one that is read, with its header. When first needed */
	const volatile void *index; /* of a database: the first page of the wal-index, when mapped */
	/* Of a log: what the running transaction has written. */
	bool in_write;
	uint32_t frame_page,
		frame_commit; /* of the header that came last: its page; the database's pages when it commits, else 0 */
	room_commit commit;   /* what is known of it so far */
	/* Of a log: headers of frames as this connection wrote them. Who folds what he wrote need not read them. Another may have written
	 * others in their place since: where one does not fit the page, what the file has counts. */
	frame_note *notes;
	size_t note_count;
	bool wrote;               /* a frame; the first of them is at: */
	sqlite3_int64 wrote_from; /* frames from here on may not have their last sum yet */
	/* Of a database. */
	held *held;
	room room;
	int index_blocks; /* of the index that are mapped */
	bool is_base;
	page_shape reads, writes; /* of what this connection reads; of the file */
	uint64_t unsummed;        /* pages read that had no sum though the database has them */
	vfs_wrong wrong;
} shim_file;

static shim_file *shim(sqlite3_file *f)
{
	return (shim_file *)(void *)f;
}

static sqlite3_file *real(sqlite3_file *f)
{
	return shim(f)->real;
}

static sqlite3_vfs *host(void)
{
	return sqlite3_vfs_find("unix");
}

static int io_code(int error, int otherwise)
{
	return error == ENOSPC ? SQLITE_FULL : otherwise;
}

/* ---- writing ---- */

/* SQLite asks for errno after it has cleaned up, when it is another's. */
static int write_failed(shim_file *s, int error, int rc)
{
	(s->database ? s->database : s)->write_error = error;
	return rc;
}

static int write_through(shim_file *s, const void *bytes, int n, sqlite3_int64 at)
{
	int error = fault_strike(s->plan, STORE_FAULT_WRITE);
	if (error) return write_failed(s, error, io_code(error, SQLITE_IOERR_WRITE));
	int rc = s->real->pMethods->xWrite(s->real, bytes, n, at);
	if (rc != SQLITE_OK) return write_failed(s, errno, rc);
	if (rc == SQLITE_OK && s->path && s->plan) fault_saw_write(s->plan, s->path, (uint64_t)at, bytes, (size_t)n);
	return rc;
}

static int gather_flush(shim_file *s)
{
	if (s->gathered_size == 0) return SQLITE_OK;
	int n = (int)s->gathered_size;
	s->gathered_size = 0; /* also on failure: SQLite then gives the transaction up */
	return write_through(s, s->gathered, n, s->gathered_at);
}

static int gather_add(shim_file *s, const uint8_t *bytes, int n, sqlite3_int64 at)
{
	if (s->gathered_size + (size_t)n > GATHER_BYTES) {
		int rc = gather_flush(s);
		if (rc != SQLITE_OK) return rc;
	}
	if (s->gathered_size == 0) s->gathered_at = at;
	memcpy(s->gathered + s->gathered_size, bytes, (size_t)n);
	s->gathered_size += (size_t)n;
	s->frontier = at + n;
	bool complete = n != FRAME_HEADER_BYTES && s->commit_next;
	s->commit_next = n == FRAME_HEADER_BYTES && (bytes[4] | bytes[5] | bytes[6] | bytes[7]) != 0;
	return complete ? gather_flush(s) : SQLITE_OK;
}

static bool can_gather(shim_file *s)
{
	if (!s->gathered) s->gathered = mem_alloc_aligned(GATHER_BYTES);
	return s->gathered != NULL;
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int shim_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out);

/* The index must reach as far as the room behind the log does. */
static int index_reach(shim_file *database, uint64_t log_bytes, uint32_t page_bytes)
{
	uint64_t frames = log_bytes / (FRAME_HEADER_BYTES + page_bytes) + 1;
	int blocks = 1 + (int)((frames + INDEX_FRAMES - INDEX_FRAMES_FIRST - 1) / INDEX_FRAMES);
	int rc = SQLITE_OK;
	while (rc == SQLITE_OK && database->index_blocks < blocks) {
		void volatile *block = NULL;
		rc = shim_shm_map(&database->base, database->index_blocks, INDEX_BYTES, 1, &block);
		if (rc == SQLITE_OK && !block) return SQLITE_OK; /* an index in this process's memory */
	}
	return rc;
}

/* Before the last page of a commit is written. */
static int commit_room(shim_file *s, uint32_t page_bytes, uint64_t end)
{
	shim_file *database = s->database;
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
	       : error == EIO || error == EFBIG ? write_failed(s, error, SQLITE_IOERR_WRITE)
	                                        : SQLITE_CANTOPEN;
}

/* Follows a transaction's frames: a header, then its page. A page written a second time comes without a header, and may be page 1. */
static int frame_saw(shim_file *s, const uint8_t *bytes, int n, sqlite3_int64 at)
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

static uint32_t page_bytes_of(const shim_file *database)
{
	return database->reads.bytes ? database->reads.bytes : database->writes.bytes;
}

static void note_header(shim_file *log, const uint8_t *header, sqlite3_int64 at)
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

static int log_write(shim_file *s, const void *bytes, int n, sqlite3_int64 at)
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
	int rc = gather_flush(s);
	return rc == SQLITE_OK ? write_through(s, bytes, n, at) : rc;
}

/* ---- sums of pages ---- */

static bool is_page(const page_shape *shape, int n, sqlite3_int64 at)
{
	return shape->bytes != 0 && (uint32_t)n == shape->bytes && at % n == 0;
}

static void learn(page_shape *shape, const uint8_t *first)
{
	page_shape now = page_shape_of(first);
	if (now.bytes) *shape = now;
}

/* What the file itself says. */
static void learn_from_file(shim_file *s)
{
	uint8_t head[PAGE_HEAD_BYTES];
	if (s->real->pMethods->xRead(s->real, head, sizeof head, 0) == SQLITE_OK) learn(&s->writes, head);
}

/* ---- a database that is shorter than its file ---- */

/* Where the pages end by what page 1 says; 0: it does not, or has no log. In a rollback the file's own length counts. */
static sqlite3_int64 pages_end(const uint8_t first[FIRST_BYTES])
{
	bool said = first[WRITE_FORMAT_AT] == 2 && memcmp(first + CHANGES_AT, first + VALID_FOR_AT, 4) == 0;
	return said ? (sqlite3_int64)be32(first + PAGES_AT) * page_shape_of(first).bytes : 0;
}

static int cut(shim_file *s, sqlite3_int64 size);
static int shim_sync(sqlite3_file *f, int flags);

/*
 * Before page 1 is folded after a vacuum: what lies behind the last page and stays in the file (base_cut) becomes zeros, as a page is that
 * was never written. SQLite takes pages into use without writing them, and those of another time may have no sum, or a wrong one; nor
 * should they outlive a vacuum. Nobody needs them: who reads a picture as old as they are keeps the new page 1 from being folded. Flushed
 * before that is written: until then the old number tells that this is still to be done.
 */
static int base_shrink(shim_file *s, sqlite3_int64 end)
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
		rc = write_through(s, zeros, n, from);
	}
	if (rc != SQLITE_OK) rc = cut(s, end); /* where a block that is there cannot be written the room is of no use */
	return rc == SQLITE_OK ? shim_sync(&s->base, SQLITE_SYNC_NORMAL) : rc;
}

static int base_write(shim_file *s, const uint8_t *bytes, int n, sqlite3_int64 at)
{
	if (at == 0 && n >= FIRST_BYTES) {
		learn(&s->writes, bytes);
		int rc = s->held && s->log ? base_shrink(s, pages_end(bytes)) : SQLITE_OK;
		if (rc != SQLITE_OK) return rc;
	}
	if (!s->writes.summed || !is_page(&s->writes, n, at)) return write_through(s, bytes, n, at);
	if (!s->page) s->page = mem_alloc_aligned(PAGE_BYTES_MOST);
	if (!s->page) return SQLITE_IOERR_NOMEM;
	memcpy(s->page, bytes, (size_t)n);
	page_sum_put(s->page, (uint32_t)n, (uint64_t)(at / n) + 1);
	return write_through(s, s->page, n, at);
}

static int shim_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 at)
{
	shim_file *s = shim(f);
	if (s->is_base) return base_write(s, bytes, n, at);
	return s->database ? log_write(s, bytes, n, at) : write_through(s, bytes, n, at);
}

static int wrong_page(shim_file *base, uint64_t page, bool in_log)
{
	base->wrong = (vfs_wrong){page, in_log};
	errno = 0;
	return SQLITE_IOERR_DATA;
}

/* After a read, also one that ended at the end of the file: the rest of the page is zeros then. Files end with whole pages. */
static int base_saw(shim_file *s, uint8_t *bytes, int n, sqlite3_int64 at, int rc)
{
	if (at == 0 && page_size_is_valid((uint32_t)n)) {
		page_shape shape = page_shape_of(bytes);
		if (shape.bytes && shape.bytes != (uint32_t)n) return rc; /* SQLite reads it again */
		/* A damaged first page may not look like one. */
		if (!shape.bytes && bytes[PAGE_RESERVED_AT] == PAGE_SUM_BYTES) shape = (page_shape){(uint32_t)n, true};
		if (!shape.summed && page_mark_is_damaged(bytes, (uint32_t)n)) return wrong_page(s, 1, false);
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
	return wrong_page(s, (uint64_t)(at / n) + 1, false);
}

/* The page of a frame, and of no other size: SQLite reads headers alone, and whole frames when it looks at their sums itself. */
static bool is_frame(const shim_file *log, int n, sqlite3_int64 at)
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
static int frame_read(shim_file *log, int n, sqlite3_int64 at, const uint8_t **page, uint8_t header[FRAME_HEADER_BYTES],
                      bool *right)
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
static bool is_as_noted(const shim_file *log, const uint8_t *page, int n, sqlite3_int64 at, uint8_t header[FRAME_HEADER_BYTES])
{
	enum { SUM_AT = 16 };
	uint64_t frame = (uint64_t)(at - LOG_HEADER_BYTES) / ((uint32_t)n + FRAME_HEADER_BYTES);
	if (frame == 0 || frame >= log->note_count) return false;
	memcpy(header, log->notes[frame].header, FRAME_HEADER_BYTES);
	return be32(header) != 0 && frame_is_right(log->notes[frame - 1].header + SUM_AT, header, page, (uint32_t)n);
}

static int log_read(shim_file *log, uint8_t *to, int n, sqlite3_int64 at)
{
	uint8_t header[FRAME_HEADER_BYTES];
	const uint8_t *page = NULL;
	bool right = false;
	if (!is_frame(log, n, at)) return log->real->pMethods->xRead(log->real, to, n, at);
	if (log->notes) {
		int rc = log->real->pMethods->xRead(log->real, to, n, at);
		if (rc != SQLITE_OK) return rc;
		if (is_as_noted(log, to, n, at, header)) {
			if (be32(header) == 1) learn(&log->database->reads, to);
			return SQLITE_OK;
		}
	}
	int rc = frame_read(log, n, at, &page, header, &right);
	if (rc == SQLITE_IOERR_SHORT_READ) memset(to, 0, (size_t)n);
	if (rc != SQLITE_OK) return rc;
	if (!right) return wrong_page(log->database, be32(header), true);
	memcpy(to, page, (size_t)n);
	if (be32(header) == 1) learn(&log->database->reads, page);
	return SQLITE_OK;
}

static int shim_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	shim_file *s = shim(f);
	if (s->gathered_size && at < s->gathered_at + (sqlite3_int64)s->gathered_size && at + n > s->gathered_at) {
		int rc = gather_flush(s);
		if (rc != SQLITE_OK) return SQLITE_IOERR_READ;
	}
	int rc = s->database ? log_read(s, to, n, at) : s->real->pMethods->xRead(s->real, to, n, at);
	if (s->is_base && (rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ)) rc = base_saw(s, to, n, at, rc);
	/* SQLite takes EIO for damage of its own files ("malformed"); a disk that fails is another matter, with another cure. */
	return rc == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : rc;
}

static int cut(shim_file *s, sqlite3_int64 size)
{
	int rc = s->real->pMethods->xTruncate(s->real, size);
	if (rc == SQLITE_OK && s->path && s->plan) fault_saw_truncate(s->plan, s->path, (uint64_t)size);
	return rc;
}

/*
 * Cut to nothing a log holds nothing; here it keeps its blocks, up to a length. Its frames are all in the database then, so that a power
 * cut may bring the old header back with all of them, but not with a part: they would be older than what the database holds. So the new
 * header is flushed before the file is cut.
 */
static int log_cut(shim_file *s, sqlite3_int64 size, sqlite3_int64 now)
{
	static const uint8_t nothing[LOG_HEADER_BYTES];
	room *r = &s->database->room;
	sqlite3_int64 stays = (sqlite3_int64)room_log_stays(r);
	/* After the first commit since it began anew: what lies behind that is of earlier logs. */
	if (size > 0 && stays < size + (sqlite3_int64)room_log_ahead(r)) stays = size + (sqlite3_int64)room_log_ahead(r);
	int rc = size == 0 && now >= LOG_HEADER_BYTES ? write_through(s, nothing, sizeof nothing, 0) : SQLITE_OK;
	if (rc != SQLITE_OK || now <= stays) return rc;
	rc = size == 0 ? shim_sync(&s->base, SQLITE_SYNC_NORMAL) : SQLITE_OK;
	if (rc == SQLITE_OK) rc = cut(s, stays);
	room_forget(r);
	return rc;
}

/*
 * After folding the database is cut to the pages it has. Every cut frees what lies behind it, so it is made behind the kept room: then the
 * file is longer than its pages. SQLite goes by the number in page 1, and shim_file_size says the same.
 */
static int base_cut(shim_file *s, sqlite3_int64 size, sqlite3_int64 now)
{
	sqlite3_int64 stays = size < now ? (sqlite3_int64)room_base_stays(&s->room, (uint64_t)size) : size;
	if (size <= now && now <= stays) return SQLITE_OK; /* and the blocks behind it stay */
	int rc = cut(s, stays);
	if (size < now) room_forget(&s->room);
	return rc;
}

static int shim_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	shim_file *s = shim(f);
	sqlite3_int64 now = 0;
	int rc = gather_flush(s);
	if (rc != SQLITE_OK) return rc;
	int error = fault_strike(s->plan, STORE_FAULT_TRUNCATE);
	if (error) return io_code(error, SQLITE_IOERR_TRUNCATE);
	rc = s->real->pMethods->xFileSize(s->real, &now);
	if (rc != SQLITE_OK) return rc;
	if (s->database) return log_cut(s, size, now);
	return s->held && s->log ? base_cut(s, size, now) : cut(s, size); /* without a log it is a rollback: it must go */
}

static int shim_sync(sqlite3_file *f, int flags)
{
	shim_file *s = shim(f);
	int rc = gather_flush(s);
	if (rc != SQLITE_OK) return rc;
	int error = fault_strike(s->plan, STORE_FAULT_FLUSH);
	if (error) errno = error; /* as a system call would leave it, for the message */
	if (error) return SQLITE_IOERR_FSYNC;
	rc = s->real->pMethods->xSync(s->real, flags);
	if (rc == SQLITE_OK && s->path && s->plan) fault_saw_flush(s->plan, s->path);
	return rc;
}

/*
 * SQLite asks for a database's size while the log is empty; it would count the kept room behind the pages (base_cut) among the pages of the
 * next commit.
 */
static int shim_file_size(sqlite3_file *f, sqlite3_int64 *out)
{
	shim_file *s = shim(f);
	uint8_t first[FIRST_BYTES];
	int rc = gather_flush(s);
	if (rc == SQLITE_OK) rc = s->real->pMethods->xFileSize(s->real, out);
	if (rc != SQLITE_OK || !s->is_base || *out < FIRST_BYTES) return rc;
	rc = s->real->pMethods->xRead(s->real, first, sizeof first, 0);
	if (rc != SQLITE_OK) return rc == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : rc;
	sqlite3_int64 end = pages_end(first);
	if (end > 0 && end < *out) *out = end;
	return SQLITE_OK;
}

/* SQLite takes most failures of a lock for one that somebody else has, and waits for him. errno was 0 before the call. */
static int lock_result(int rc, int failure)
{
	bool somebodys = errno == 0 || errno == EAGAIN || errno == EACCES || errno == EINTR || errno == EBUSY || errno == ETIMEDOUT;
	return rc == SQLITE_BUSY && !somebodys ? failure : rc;
}

/* A lock could not be given back: SQLite does not ask whether it was, and would wait for itself. */
static bool is_stuck(const shim_file *s)
{
	if (s->unlock_error) errno = s->unlock_error;
	return s->unlock_error != 0;
}

/* Slot 0 of the wal-index is the writer's. */
static int shim_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	shim_file *log = shim(f)->log;
	if (shim(f)->frozen) return frozen_shm_lock(shim(f)->frozen, flags);
	if (flags & SQLITE_SHM_LOCK && is_stuck(shim(f))) return SQLITE_IOERR_SHMLOCK;
	int why = errno; /* SQLite asks for it after it has cleaned up */
	errno = 0;
	int rc = lock_result(real(f)->pMethods->xShmLock(real(f), at, n, flags), SQLITE_IOERR_SHMLOCK);
	if (flags & SQLITE_SHM_UNLOCK && rc != SQLITE_OK) shim(f)->unlock_error = errno;
	if (rc == SQLITE_OK) errno = why;
	if (!log || at != 0 || !(flags & SQLITE_SHM_EXCLUSIVE)) return rc;
	if (flags & SQLITE_SHM_UNLOCK || rc == SQLITE_OK) {
		log->gathered_size = 0;
		log->commit_next = false;
		log->state = flags & SQLITE_SHM_LOCK ? GATHER_FIRST : GATHER_OFF;
		log->in_write = (flags & SQLITE_SHM_LOCK) != 0;
		log->frame_page = log->frame_commit = 0;
		log->wrote = false;
		log->commit = (room_commit){0};
	}
	return rc;
}

static int shim_close(sqlite3_file *f)
{
	shim_file *s = shim(f);
	if (s->database) s->database->log = NULL;
	if (s->log) s->log->database = NULL;
	free(s->gathered);
	free(s->page);
	free(s->notes);
	s->gathered = s->page = NULL;
	s->notes = NULL;
	frozen_close(s->frozen);
	s->frozen = NULL;
	int rc = s->real->pMethods ? s->real->pMethods->xClose(s->real) : SQLITE_OK;
	room_done(&s->room);
	held_release(s->held);
	s->held = NULL;
	return rc;
}

/* ---- passed on ---- */

static int shim_lock(sqlite3_file *f, int level)
{
	if (is_stuck(shim(f))) return SQLITE_IOERR_LOCK;
	errno = 0;
	return lock_result(real(f)->pMethods->xLock(real(f), level), SQLITE_IOERR_LOCK);
}

static int shim_unlock(sqlite3_file *f, int level)
{
	int why = errno; /* SQLite asks for it after it has cleaned up */
	int rc = real(f)->pMethods->xUnlock(real(f), level);
	if (rc != SQLITE_OK) shim(f)->unlock_error = errno;
	else errno = why;
	return rc;
}

static int shim_check_reserved(sqlite3_file *f, int *out)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int shim_control(sqlite3_file *f, int op, void *arg)
{
	if (op == SQLITE_FCNTL_CKPT_START && shim(f)->is_base) learn_from_file(shim(f));
	/* Growing a file by its size hint would bypass the record. */
	if (shim(f)->plan && (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE)) return SQLITE_OK;
	return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int shim_sector_size(sqlite3_file *f)
{
	return real(f)->pMethods->xSectorSize(real(f));
}

static int shim_characteristics(sqlite3_file *f)
{
	return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int shim_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
	shim_file *s = shim(f);
	if (s->frozen) return frozen_shm_map(s->frozen, page, size, extend, out);
	bool first = s->index_blocks == 0 && s->held;
	if (first) held_index_enter(s->held, s->at);
	errno = 0;
	int rc = lock_result(real(f)->pMethods->xShmMap(real(f), page, size, extend, out), SQLITE_IOERR_SHMOPEN);
	int error = errno;
	if (page == 0) shim(f)->index = rc == SQLITE_OK ? *out : NULL;
	if (first) held_index_leave(s->held);
	if (rc != SQLITE_OK) errno = error; /* for the message */
	if (rc == SQLITE_OK && *out && page >= s->index_blocks) s->index_blocks = page + 1;
	/* SQLite makes room for the wal-index by one byte per 4 KiB; where a filesystem's blocks are smaller, a full disk would show as a
	 * SIGBUS at the first store into the rest. Asked for all of it now, the kernel says so instead. */
	if (rc == SQLITE_OK && *out && madvise((void *)(uintptr_t)*out, (size_t)size, MADV_POPULATE_WRITE) != 0 && errno == EFAULT)
		return SQLITE_FULL;
	return rc;
}

static void shim_shm_barrier(sqlite3_file *f)
{
	if (!shim(f)->frozen) real(f)->pMethods->xShmBarrier(real(f));
}

static int shim_shm_unmap(sqlite3_file *f, int delete)
{
	if (shim(f)->frozen) {
		frozen_shm_unmap(shim(f)->frozen);
		return SQLITE_OK;
	}
	shim(f)->index = NULL;
	shim(f)->index_blocks = 0;
	return real(f)->pMethods->xShmUnmap(real(f), delete);
}

static int shim_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out)
{
	return real(f)->pMethods->xFetch(real(f), at, n, out);
}

static int shim_unfetch(sqlite3_file *f, sqlite3_int64 at, void *page)
{
	return real(f)->pMethods->xUnfetch(real(f), at, page);
}

static const sqlite3_io_methods shim_methods = {
	.iVersion = 3,
	.xClose = shim_close,
	.xRead = shim_read,
	.xWrite = shim_write,
	.xTruncate = shim_truncate,
	.xSync = shim_sync,
	.xFileSize = shim_file_size,
	.xLock = shim_lock,
	.xUnlock = shim_unlock,
	.xCheckReservedLock = shim_check_reserved,
	.xFileControl = shim_control,
	.xSectorSize = shim_sector_size,
	.xDeviceCharacteristics = shim_characteristics,
	.xShmMap = shim_shm_map,
	.xShmLock = shim_shm_lock,
	.xShmBarrier = shim_shm_barrier,
	.xShmUnmap = shim_shm_unmap,
	.xFetch = shim_fetch,
	.xUnfetch = shim_unfetch,
};

/* ---- the log's extent ---- */

enum { INDEX_HEADER_BYTES = 48, PAGE_BYTES_AT = 14, FRAMES_AT = 16, SALT_AT = 32 };

static bool index_header(const shim_file *database, uint8_t out[INDEX_HEADER_BYTES])
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
	if (!index_header(shim(database), header)) return 0;
	memcpy(&frames, header + FRAMES_AT, sizeof frames);
	memcpy(&salt, header + SALT_AT, sizeof salt);
	return (uint64_t)salt << 32 | frames;
}

room_log vfs_log_room(sqlite3_file *database)
{
	uint8_t header[INDEX_HEADER_BYTES];
	uint16_t page_bytes;
	uint32_t frames;
	if (!index_header(shim(database), header)) return ROOM_LOG_ENOUGH;
	memcpy(&page_bytes, header + PAGE_BYTES_AT, sizeof page_bytes); /* 1: 64 KiB */
	memcpy(&frames, header + FRAMES_AT, sizeof frames);
	if (frames == 0) return ROOM_LOG_ENOUGH;
	uint64_t frame_bytes = FRAME_HEADER_BYTES + (page_bytes == 1 ? 64u << 10 : page_bytes);
	uint64_t salt = (uint64_t)be32(header + SALT_AT) << 32 | be32(header + SALT_AT + 4); /* as in a frame's header */
	return room_of_log(&shim(database)->room, LOG_HEADER_BYTES + frames * frame_bytes, salt);
}

bool vfs_log_header_damaged(sqlite3_file *log)
{
	static const uint8_t nothing[LOG_HEADER_BYTES];
	uint8_t h[LOG_HEADER_BYTES];
	sqlite3_int64 size = 0;
	if (log->pMethods->xFileSize(log, &size) != SQLITE_OK || size <= LOG_HEADER_BYTES) return false;
	if (log->pMethods->xRead(log, h, sizeof h, 0) != SQLITE_OK) return false;
	if (memcmp(h, nothing, sizeof h) == 0) return false; /* folded, and kept for its room (log_cut) */
	return !log_header_is_right(h);
}

/* ---- what others ask about pages ---- */

static shim_file *shim_of(sqlite3 *db)
{
	sqlite3_file *f = NULL;
	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f) return NULL;
	return f->pMethods == &shim_methods ? shim(f) : NULL;
}

int vfs_write_error(sqlite3 *db)
{
	const shim_file *s = shim_of(db);
	return s ? s->write_error : 0;
}

vfs_wrong vfs_wrong_page(sqlite3 *db)
{
	const shim_file *s = shim_of(db);
	return s ? s->wrong : (vfs_wrong){0};
}

bool vfs_has_sums(sqlite3 *db)
{
	const shim_file *s = shim_of(db);
	return s && s->reads.summed;
}

uint64_t vfs_pages_unsummed(sqlite3 *db)
{
	const shim_file *s = shim_of(db);
	return s ? s->unsummed : 0;
}

void vfs_add_sums(sqlite3 *db, uint32_t page_bytes)
{
	shim_file *s = shim_of(db);
	if (s) s->writes = (page_shape){page_bytes, true};
}

void vfs_sums_are_there(sqlite3 *db)
{
	shim_file *s = shim_of(db);
	if (!s) return;
	s->reads.summed = s->reads.bytes != 0;
	s->unsummed = 0;
}

static int read_frame_header(const shim_file *log, uint64_t frame, uint32_t page_bytes, uint8_t header[FRAME_HEADER_BYTES])
{
	sqlite3_int64 at = LOG_HEADER_BYTES + (sqlite3_int64)frame * (page_bytes + FRAME_HEADER_BYTES);
	return log->real->pMethods->xRead(log->real, header, FRAME_HEADER_BYTES, at);
}

/* Which pages are read from the log: what the file has in their place is of no meaning, and a power cut while it was folded may have torn
 * it. */
static bool logged_pages(shim_file *s, vfs_looking *l, uint64_t pages)
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

static bool is_logged(shim_file *s, vfs_looking *l, uint64_t pages, uint64_t number)
{
	if (!l->logged && !logged_pages(s, l, pages)) return true; /* no memory: nothing is known */
	return number <= l->logged_end && (l->logged[(number - 1) / 8] >> (number - 1) % 8 & 1);
}

/* Others may be folding the log into the page just now: then it is right soon. */
static page_verdict page_settled(const shim_file *s, vfs_looking *l, uint8_t *bytes, uint32_t n, uint64_t number)
{
	enum { TRIES = 5, PAUSE_US = 20000, PATIENCE = 8 };
	page_verdict v = PAGE_WRONG;
	for (unsigned tries = 0; v == PAGE_WRONG && tries < (l->count < PATIENCE ? TRIES : 1); tries++) {
		if (tries) (void)host()->xSleep(host(), PAUSE_US);
		int rc = s->real->pMethods->xRead(s->real, bytes, (int)n, (sqlite3_int64)((number - 1) * n));
		if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) return PAGE_RIGHT; /* a disk that fails is told elsewhere */
		v = page_check(bytes, n, number);
		if (v == PAGE_UNSUMMED && rc != SQLITE_OK) v = PAGE_WRONG;
	}
	return v;
}

bool vfs_pages_look(sqlite3 *db, vfs_looking *l, uint64_t most)
{
	shim_file *s = shim_of(db);
	sqlite3_int64 size = 0;
	uint32_t n = s ? s->reads.bytes : 0;
	if (!n || !s->reads.summed || shim_file_size(&s->base, &size) != SQLITE_OK) return false;
	uint64_t pages = ((uint64_t)size + n - 1) / n, end = l->at + most < pages ? l->at + most : pages;
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
	shim_file *s = shim_of(db), *log = s ? s->log : NULL;
	uint32_t n = s ? s->reads.bytes : 0;
	if (!n || !log) return false;
	uint64_t position = vfs_log_position(&s->base);
	uint8_t header[FRAME_HEADER_BYTES] = {0};
	const uint8_t *page = NULL;
	bool right = true;
	while (right && l->at < (uint32_t)position) {
		sqlite3_int64 at = LOG_HEADER_BYTES + (sqlite3_int64)l->at++ * (n + FRAME_HEADER_BYTES) + FRAME_HEADER_BYTES;
		if (frame_read(log, (int)n, at, &page, header, &right) != SQLITE_OK) break;
	}
	/* Begun anew meanwhile: those were other frames. */
	if (right || vfs_log_position(&s->base) >> 32 != position >> 32) return false;
	l->wrong = be32(header);
	l->count++;
	return true;
}

/* ---- the VFS ---- */

static cb_code load_bytes(void *file, uint64_t offset, void *to, size_t size)
{
	sqlite3_file *f = file;
	for (size_t done = 0; done < size;) {
		size_t n = size - done < (1u << 20) ? size - done : 1u << 20;
		if (f->pMethods->xRead(f, (uint8_t *)to + done, (int)n, (sqlite3_int64)(offset + done)) != SQLITE_OK) return CB_IO;
		done += n;
	}
	return CB_OK;
}

static bool has_frames(const char *log)
{
	struct stat st;
	return lstat(log, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > LOG_HEADER_BYTES;
}

static int host_open(const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	int narrow = flags & ~SQLITE_OPEN_CREATE;
	if ((flags & SQLITE_OPEN_WAL) && has_frames(name) && host()->xOpen(host(), name, f, narrow, out_flags) == SQLITE_OK)
		return SQLITE_OK;
	return host()->xOpen(host(), name, f, flags, out_flags);
}

static base_place place_of(const char *name)
{
	int folder = (int)sqlite3_uri_int64(name, FOLDER_PARAMETER, -1);
	return folder < 0 ? (base_place){AT_FDCWD, name} : (base_place){folder, strrchr(name, '/') + 1};
}

static int shim_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	shim_file *s = shim(f);
	store_fault_plan *plan = v->pAppData;
	*s = (shim_file){.plan = plan, .path = name, .real = (sqlite3_file *)(void *)(s + 1), .room = {.log_fd = -1}};
	s->real->pMethods = NULL;
	if (flags & SQLITE_OPEN_MAIN_DB && name) s->at = place_of(name);
	int error = fault_strike(plan, STORE_FAULT_OPEN);
	errno = error;
	if (error) return io_code(error, SQLITE_CANTOPEN);
	const shim_file *database = flags & SQLITE_OPEN_WAL ? shim(sqlite3_database_file_object(name)) : NULL;
	if (database && database->frozen && frozen_lacks_log(database->frozen)) {
		frozen_empty(f, flags, out_flags);
		return SQLITE_OK;
	}
	int rc = host_open(name, s->real, flags, out_flags);
	if (rc == SQLITE_OK && database && database->frozen) frozen_log_opened(database->frozen);
	if (rc == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB && sqlite3_uri_boolean(name, FROZEN_PARAMETER, 0))
		rc = frozen_open(s->at, &s->frozen);
	if (rc != SQLITE_OK) {
		if (s->real->pMethods) (void)s->real->pMethods->xClose(s->real);
		return rc;
	}
	f->pMethods = &shim_methods;
	if (flags & SQLITE_OPEN_WAL) {
		s->database = shim(sqlite3_database_file_object(name));
		s->database->log = s;
	}
	if ((flags & SQLITE_OPEN_MAIN_DB) && name && !s->frozen) {
		s->held = held_take(s->at);
		room_init(&s->room, s->at, s->held, plan);
	}
	s->is_base = (flags & SQLITE_OPEN_MAIN_DB) && name;
	if (s->is_base) learn_from_file(s);
	sqlite3_int64 size = 0;
	if (plan && name && s->real->pMethods->xFileSize(s->real, &size) == SQLITE_OK)
		fault_saw_open(plan, name, (uint64_t)size, load_bytes, s->real);
	return SQLITE_OK;
}

room *vfs_room(sqlite3 *db)
{
	shim_file *s = shim_of(db);
	return s && s->held ? &s->room : NULL;
}

static int shim_delete(sqlite3_vfs *v, const char *name, int flush)
{
	int rc = host()->xDelete(host(), name, flush);
	if (rc == SQLITE_OK && v->pAppData) fault_saw_delete(v->pAppData, name, flush != 0);
	return rc;
}

static int shim_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
	(void)v;
	return host()->xAccess(host(), name, flags, out);
}

static int shim_full_path(sqlite3_vfs *v, const char *name, int n, char *out)
{
	(void)v;
	if (strncmp(name, VFS_DESCRIPTORS, strlen(VFS_DESCRIPTORS)) != 0) return host()->xFullPathname(host(), name, n, out);
	return snprintf(out, (size_t)n, "%s", name) < n ? SQLITE_OK
	                                                : SQLITE_CANTOPEN; /* it would be replaced by where it leads now */
}

static int shim_randomness(sqlite3_vfs *v, int n, char *out)
{
	(void)v;
	return host()->xRandomness(host(), n, out);
}

static int shim_sleep(sqlite3_vfs *v, int us)
{
	(void)v;
	return host()->xSleep(host(), us);
}

static int shim_time(sqlite3_vfs *v, double *out)
{
	(void)v;
	return host()->xCurrentTime(host(), out);
}

static int shim_last_error(sqlite3_vfs *v, int n, char *out)
{
	(void)v;
	return host()->xGetLastError(host(), n, out);
}

static int shim_time_ms(sqlite3_vfs *v, sqlite3_int64 *out)
{
	(void)v;
	return host()->xCurrentTimeInt64(host(), out);
}

void vfs_build(sqlite3_vfs *v, const char *name, store_fault_plan *plan)
{
	*v = (sqlite3_vfs){
		.iVersion = 2,
		.szOsFile = (int)sizeof(shim_file) + host()->szOsFile,
		.mxPathname = host()->mxPathname,
		.zName = name,
		.pAppData = plan,
		.xOpen = shim_open,
		.xDelete = shim_delete,
		.xAccess = shim_access,
		.xFullPathname = shim_full_path,
		.xRandomness = shim_randomness,
		.xSleep = shim_sleep,
		.xCurrentTime = shim_time,
		.xGetLastError = shim_last_error,
		.xCurrentTimeInt64 = shim_time_ms,
	};
}

static sqlite3_vfs plain;
static pthread_once_t plain_once = PTHREAD_ONCE_INIT;
static bool plain_registered;

static void plain_register(void)
{
	if (sqlite3_initialize() != SQLITE_OK || !host()) return;
	vfs_build(&plain, "cowbox", NULL);
	plain_registered = sqlite3_vfs_register(&plain, 0) == SQLITE_OK;
}

const char *vfs_name(store_fault_plan *plan)
{
	if (plan) return fault_vfs_name(plan);
	(void)pthread_once(&plain_once, plain_register);
	return plain_registered ? "cowbox" : NULL;
}
