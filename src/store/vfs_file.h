/*
 * vfs_file.h: a file of SQLite's as the VFS sees it. vfs.c has SQLite's methods and passes on what is neither a database nor its log;
 * vfs_log.c is the log, vfs_base.c the database. Codes are SQLite's.
 */
#ifndef STORE_VFS_FILE_H
#define STORE_VFS_FILE_H

#include "store/fault_state.h"
#include "store/frozen.h"
#include "store/held.h"
#include "store/page_sum.h"
#include "store/room.h"
#include "store/vfs.h"

typedef enum gather_state {
	GATHER_OFF,   /* no transaction, or one that is written as it comes */
	GATHER_FIRST, /* a transaction has begun and written no frame yet */
	GATHER_ON,
} gather_state;

typedef struct frame_note {
	uint8_t header[FRAME_HEADER_BYTES];
} frame_note;

typedef struct vfs_file {
	sqlite3_file base;
	store_fault_plan *plan;
	base_place at;             /* of a database */
	const char *path;          /* SQLite's, lives as long as the file; NULL: a temporary one */
	sqlite3_file *real;        /* behind this struct */
	struct vfs_file *log;      /* of a database: its log, when open */
	struct vfs_file *database; /* of a log */
	frozen *frozen;            /* of a database that cannot be written and lacks log or index; else NULL */
	int unlock_error;          /* of a lock that could not be given back; 0: none */
	int write_error;           /* of a database: why the last write to it or to its log failed */
	gather_state state;
	bool commit_next;  /* the header that came last is a commit frame's */
	uint8_t *gathered; /* made when first needed */
	size_t gathered_size;
	sqlite3_int64 gathered_at, frontier;
	/* Of a database: a page to be written, with its sum; of a log: one that is read, with its header. Made when first needed. */
	uint8_t *page;
	const volatile void *index; /* of a database: the first page of the wal-index, when mapped */
	/* Of a log: what the running transaction has written. */
	bool in_write;
	uint32_t frame_page;   /* of the header that came last */
	uint32_t frame_commit; /* the database's pages when that commits, else 0 */
	room_commit commit;    /* what is known of it so far */
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
} vfs_file;

static inline vfs_file *vfs_file_of(sqlite3_file *f)
{
	return (vfs_file *)(void *)f;
}

/* The database of a connection; NULL: in memory, or not opened by this VFS. */
vfs_file *vfs_file_open_in(sqlite3 *db);
sqlite3_vfs *vfs_host(void);

static inline uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- any file: faults strike here, and are told ---- */

int file_write(vfs_file *s, const void *bytes, int n, sqlite3_int64 at);
/* Gives rc back, for which error is the reason. SQLite asks for errno after it has cleaned up, when it is another's. */
int file_write_failed(vfs_file *s, int error, int rc);
int file_cut(vfs_file *s, sqlite3_int64 size);
int file_sync(vfs_file *s, int flags);

/* ---- the log ---- */

/* A transaction begins to write, or ended: what is gathered still belongs to a rollback. */
void log_write_begins(vfs_file *log, bool begins);
int log_write(vfs_file *s, const void *bytes, int n, sqlite3_int64 at);
/* Writes what is gathered; nothing of a file that is no log. */
int log_flush(vfs_file *s);
int log_read(vfs_file *log, uint8_t *to, int n, sqlite3_int64 at);
int log_cut(vfs_file *s, sqlite3_int64 size, sqlite3_int64 now);
/* The page of the frame at `at`, lent until the next read, and its header. *right: their sum is. */
int log_frame_read(vfs_file *log, int n, sqlite3_int64 at, const uint8_t **page, uint8_t header[FRAME_HEADER_BYTES], bool *right);
/* How many pages the database has by its log; 0: the log holds nothing. */
uint32_t log_base_pages(const vfs_file *database);
/* A block of a database's index, made if it is missing. */
int index_map(vfs_file *database, int block, int size, int extend, void volatile **out);

/* ---- the database ---- */

/* What the file itself says of its pages. */
void base_learn(vfs_file *s);
int base_write(vfs_file *s, const uint8_t *bytes, int n, sqlite3_int64 at);
/* After a read, also one that ended at the end of the file: the rest of the page is zeros then. Files end with whole pages. */
int base_saw(vfs_file *s, uint8_t *bytes, int n, sqlite3_int64 at, int rc);
int base_cut(vfs_file *s, sqlite3_int64 size, sqlite3_int64 now);
int base_size(vfs_file *s, sqlite3_int64 *out);
int base_wrong_page(vfs_file *base, uint64_t page, bool in_log);

#endif
