/*
 * sqlite_open.c: opening, creating and migrating the database, transactions and flushes.
 *
 * The file is never opened behind SQLite's back: closing any descriptor of it would drop the POSIX locks that other handles of this
 * process hold on it. Its first bytes are therefore read through SQLite's own file object.
 */
#include "base/buf.h"
#include "base/cancel.h"
#include "base/entry.h"
#include "base/io.h"
#include "store/frozen.h"
#include "store/numbers.h"
#include "store/page_sum.h"
#include "store/sqlite.h"
#include "store/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum {
	HEADER_BYTES = 100,
	REWRITE_BYTES = 64 << 10,
	DAMAGED_BITS = 8,          /* of its first bytes that are always the same: more than so many, and it is somebody else's */
	PROGRESS_OPS = 10000,      /* of SQLite's machine between two looks at the caller's limit: a millisecond */
	FOLD_AT_CLOSE_PAGES = 128, /* reading so many again costs the next open some 0.2 ms */
	/* Pauses, of 10 ms each but for the first four. */
	PATIENCE = ENGINE_BUSY_MS / 10,
	PATIENCE_READERS = 200, /* for readers that keep the log from beginning anew, when there is no other room: 2 s */
	PATIENCE_LITTLE = 5,    /* the same for an ordinary transaction, which may be refused, and after a wait in vain: 18 ms */
};

/* ---- transactions ---- */

static cb_code run(engine *e, sql_id id, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, id, &u, err, ""));
	return sql_finish(e, &u, NULL, err);
}

static void rollback(engine *e)
{
	CANCEL_SHIELD;
	if (!sqlite3_get_autocommit(sql_engine(e)->db)) (void)run(e, SQL_ROLLBACK, NULL);
}

/* One that could not be ended for lack of memory is in the way, until there is some. */
static cb_code rollback_left(engine *e, cb_error *err)
{
	rollback(e);
	return sqlite3_get_autocommit(sql_engine(e)->db) ? CB_OK : cb_err_nomem(err);
}

/* A BEGIN that was interrupted may have begun: nobody would end it. */
static cb_code begun(engine *e, cb_code code)
{
	if (code != CB_OK) rollback(e);
	return code;
}

/* For what SQLite's own locks, behind ours, keep from us. False: long enough. */
static bool wait_again(int tries, int most)
{
	entry_pause();
	static const unsigned pauses_ms[] = {0, 1, 2, 5, 10};
	unsigned ms = pauses_ms[tries < (int)ARRAY_LEN(pauses_ms) ? tries : (int)ARRAY_LEN(pauses_ms) - 1];
	if (tries >= most || cancel_is_due()) return false;
	struct timespec t = {0, ms ? (long)ms * 1000000 : 200000};
	(void)nanosleep(&t, NULL);
	return true;
}

/* Somebody recovers the log, or works on the database with another program. context: how many pauses at most. */
static int wait_busy(void *context, int tries)
{
	return wait_again(tries, *(const int *)context);
}

/*
 * Folds the log and begins it anew, under the writer lock and outside any transaction. Nobody appends meanwhile, so all of it can be folded
 * when those readers are gone that see less of it; whoever comes later reads the database only. SQLite waits for readers itself, but never
 * for another process that is folding (which may be in a flush, and does not wait for the writer lock): that is done here.
 */
static cb_code log_turn(sqlite_engine *e, room_log state, cb_error *err)
{
	int rc, frames;
	bool little = e->base.need == STORE_GROWS || e->in_vain;
	e->patience = state != ROOM_LOG_OUT ? 0 : little ? PATIENCE_LITTLE : PATIENCE_READERS;
	for (int tries = 0;; tries++) {
		frames = -1; /* stays so when another process is folding */
		rc = sqlite3_wal_checkpoint_v2(e->db, "main", SQLITE_CHECKPOINT_TRUNCATE, &frames, NULL);
		if (rc != SQLITE_BUSY || frames >= 0 || state != ROOM_LOG_OUT || !wait_again(tries, PATIENCE)) break;
	}
	if (e->patience == PATIENCE_READERS || rc == SQLITE_OK) e->in_vain = rc != SQLITE_OK;
	e->patience = PATIENCE;
	e->base.log_pages = 0; /* the next commit tells how much is really left */
	/* Other failures leave the log as long as it is: what room that is the commit will see. */
	if (!sql_is_flush_failure(rc)) return CB_OK;
	e->base.flush_failed = true;
	return sql_error(e, rc, err);
}

static room_log log_room(const sqlite_engine *e)
{
	sqlite3_file *f = NULL;
	if (!e->room || sqlite3_file_control(e->db, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK) return ROOM_LOG_ENOUGH;
	return vfs_log_room(f);
}

/* The bytes of a page that is freed are gone when it was written as zeros, which takes it through the log. Where that has little room, one
 * row of many pages would be more than is kept: then they stay until the page is used again, or until a vacuum. */
static void erasing_set(sqlite_engine *e, bool on)
{
	const char *text = on ? "PRAGMA secure_delete=ON" : "PRAGMA secure_delete=FAST";
	if (e->erases != on && sqlite3_exec(e->db, text, NULL, NULL, NULL) == SQLITE_OK) e->erases = on;
}

static cb_code write_begin(engine *e, cb_error *err)
{
	static const room_need needs[] = {[STORE_GROWS] = ROOM_GROWS, [STORE_SHRINKS] = ROOM_SHRINKS, [STORE_FREES] = ROOM_FREES};
	room *r = sql_engine(e)->room;
	CB_TRY(rollback_left(e, err));
	if (r) r->need = needs[e->need];
	CB_TRY(begun(e, run(e, SQL_BEGIN_WRITE, err)));
	/* Asked inside, where SQLite has mended the index of a process that was killed while it changed it. */
	room_log state = log_room(sql_engine(e));
	erasing_set(sql_engine(e), state == ROOM_LOG_ENOUGH && !e->is_short);
	if (state == ROOM_LOG_ENOUGH) return CB_OK;
	CB_TRY(rollback_left(e, err));
	CB_TRY(log_turn(sql_engine(e), state, err));
	return begun(e, run(e, SQL_BEGIN_WRITE, err));
}

static cb_code write_commit(engine *e, cb_error *err)
{
	CANCEL_SHIELD; /* what SQLite would say of a COMMIT that was done and then interrupted is that it was not done */
	/* SQLite ends a transaction by itself after some failures; a COMMIT would then report that there is none. */
	if (sqlite3_get_autocommit(sql_engine(e)->db))
		return cb_err_set(err, CB_IO, "the transaction was rolled back by an earlier error");
	cb_code code = run(e, SQL_COMMIT, err);
	room *r = sql_engine(e)->room;
	if (r) {
		r->is_short = r->is_short || code == CB_NOSPACE; /* also where it never came to its last page */
		e->is_short = r->is_short;
		r->need = ROOM_GROWS; /* what has no transaction of ours is ordinary */
	}
	if (code == CB_OK) return CB_OK;
	if (sql_is_flush_failure(sqlite3_extended_errcode(sql_engine(e)->db)))
		e->flush_failed = true; /* of a restarted log's header */
	rollback(e);
	return code;
}

static cb_code read_begin(engine *e, cb_error *err)
{
	CB_TRY(rollback_left(e, err));
	return begun(e, run(e, SQL_BEGIN_READ, err));
}

static void read_end(engine *e)
{
	CANCEL_SHIELD;
	if (run(e, SQL_COMMIT, NULL) != CB_OK) rollback(e);
}

static uint64_t position(engine *base)
{
	const sqlite_engine *e = sql_engine(base);
	sqlite3_file *f = NULL;
	if (e->memory || sqlite3_file_control(e->db, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f || !f->pMethods)
		return 0;
	return vfs_log_position(f);
}

/* In synchronous=NORMAL a commit is in the log but not flushed; flushing the log makes all commits so far durable, as FULL would. */
static cb_code flush(engine *base, uint64_t *out_position, cb_error *err)
{
	sqlite_engine *e = sql_engine(base);
	uint64_t at = position(base); /* before the flush: what is committed meanwhile may not be in it */
	if (out_position) *out_position = at;
	if (e->memory) return CB_OK;
	sqlite3_file *log = NULL;
	int rc = sqlite3_file_control(e->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
	if (rc != SQLITE_OK) return sql_error(e, rc, err);
	if (!log || !log->pMethods) return CB_OK; /* nothing was written yet, or by others only who flush their own */
	rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
	if (rc == SQLITE_OK) return CB_OK;
	int error = errno ? errno : EIO;
	base->flush_failed = true;
	(void)cb_err_errno(err, error, "flushing %s-wal failed", e->file);
	/* CB_IO whatever the cause, a full disk too: what was acknowledged may not be there. */
	if (err) err->code = CB_IO;
	return CB_IO;
}

/* SQLite's own automatic checkpoint would swallow a failed flush, and the next one would then prove nothing. */
static int after_commit(void *context, sqlite3 *db, const char *name, int pages)
{
	(void)db;
	(void)name;
	engine *e = context;
	e->log_pages = (uint64_t)pages;
	return SQLITE_OK;
}

static void tidy(engine *base)
{
	sqlite_engine *e = sql_engine(base);
	int rc = sqlite3_wal_checkpoint_v2(e->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	if (sql_is_flush_failure(rc)) base->flush_failed = true;
	base->log_pages = 0; /* the next commit tells how much is really left */
}

/* After a failed flush the kernel calls the pages clean: only writing them again makes the next flush mean something. */
static cb_code log_write_again(const sqlite_engine *e, cb_error *err)
{
	sqlite3_file *log = NULL;
	sqlite3_int64 size = 0;
	int rc = sqlite3_file_control(e->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
	if (rc != SQLITE_OK || !log || !log->pMethods) return CB_OK;
	AUTO_FREE uint8_t *piece = mem_alloc_aligned(REWRITE_BYTES);
	if (!piece) return cb_err_nomem(err);
	rc = log->pMethods->xFileSize(log, &size);
	for (sqlite3_int64 at = 0; rc == SQLITE_OK && at < size; at += REWRITE_BYTES) {
		int n = size - at < REWRITE_BYTES ? (int)(size - at) : REWRITE_BYTES;
		rc = log->pMethods->xRead(log, piece, n, at);
		if (rc == SQLITE_OK) rc = log->pMethods->xWrite(log, piece, n, at);
	}
	if (rc == SQLITE_OK) rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
	return rc == SQLITE_OK ? CB_OK : cb_err_set(err, CB_IO, "%s-wal cannot be flushed: see to the disk", e->file);
}

/* Under the writer lock: nobody appends to the log meanwhile. */
static cb_code repair(engine *base, cb_error *err)
{
	sqlite_engine *e = sql_engine(base);
	if (e->memory) return CB_OK;
	CB_TRY(log_write_again(e, err));
	int left = 0, done = 0;
	int rc = sqlite3_wal_checkpoint_v2(e->db, "main", SQLITE_CHECKPOINT_TRUNCATE, &left, &done);
	if (rc != SQLITE_OK) return sql_error(e, rc, err);
	sqlite3_stmt *stmt = NULL;
	rc = sqlite3_prepare_v2(e->db, "PRAGMA quick_check(1)", -1, &stmt, NULL);
	if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
	const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
	bool sound = text && strcmp(text, "ok") == 0;
	int failed = sql_failed_read(text);
	(void)sqlite3_finalize(stmt);
	if (failed) return sql_error(e, failed, err);
	return sound ? CB_OK : cb_err_set(err, CB_CORRUPT, "%s is damaged after a failed flush: restore a backup", e->file);
}

static void close_database(engine *base, bool abandon)
{
	sqlite_engine *e = sql_engine(base);
	/* The child of a fork has none of the locks its copy believes to hold: it must not touch the log. And a short log is left for the
	 * next one to read: folding it in costs two flushes, which every short-lived process would pay. It was flushed before. */
	if (e->db && (abandon || base->log_pages < FOLD_AT_CLOSE_PAGES))
		(void)sqlite3_db_config(e->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	for (size_t i = 0; i < SQL_COUNT; i++) (void)sqlite3_finalize(e->kept[i]);
	(void)sqlite3_close_v2(e->db);
	free(e->file);
	free(e);
}

static const store_ops sqlite_ops = {
	.name = "sqlite",
	.close = close_database,
	.write_begin = write_begin,
	.write_commit = write_commit,
	.write_abort = rollback,
	.read_begin = read_begin,
	.read_end = read_end,
	.flush = flush,
	.position = position,
	.tidy = tidy,
	.repair = repair,
	.counters_get = sqlite_counters_get,
	.counters_set = sqlite_counters_set,
	.meta_get = sqlite_meta_get,
	.meta_set = sqlite_meta_set,
	.row_get = sqlite_row_get,
	.row_put = sqlite_row_put,
	.row_delete = sqlite_row_delete,
	.content_birth_set = sqlite_content_birth_set,
	.content_move = sqlite_content_move,
	.row_walk = sqlite_row_walk,
	.segment_rows = sqlite_segment_rows,
	.segment_list = sqlite_segment_list,
	.owner_insert = sqlite_owner_insert,
	.owner_delete = sqlite_owner_delete,
	.owner_list = sqlite_owner_list,
	.box_find = sqlite_box_find,
	.box_get = sqlite_box_get,
	.box_list = sqlite_box_list,
	.box_forks = sqlite_box_forks,
	.box_insert = sqlite_box_insert,
	.box_update = sqlite_box_update,
	.box_remove = sqlite_box_remove,
	.head_get = sqlite_head_get,
	.head_set = sqlite_head_set,
	.step_walk = sqlite_step_walk,
	.step_root_before = sqlite_step_root_before,
	.step_put = sqlite_step_put,
	.step_root_set = sqlite_step_root_set,
	.step_gap_set = sqlite_step_gap_set,
	.step_delete = sqlite_step_delete,
	.step_count = sqlite_step_count,
	.touch_put = sqlite_touch_put,
	.touch_walk = sqlite_touch_walk,
	.touch_last = sqlite_touch_last,
	.edge_before = sqlite_edge_before,
	.edge_list = sqlite_edge_list,
	.edge_put = sqlite_edge_put,
	.edge_delete = sqlite_edge_delete,
	.edges_lost = sqlite_edges_lost,
	.leftover_sweep = sqlite_leftover_sweep,
	.checkpoint_get = sqlite_checkpoint_get,
	.checkpoint_list = sqlite_checkpoint_list,
	.checkpoint_put = sqlite_checkpoint_put,
	.checkpoint_delete = sqlite_checkpoint_delete,
	.setting_get = sqlite_setting_get,
	.setting_set = sqlite_setting_set,
	.setting_list = sqlite_setting_list,
	.pin_put = sqlite_pin_put,
	.pin_delete = sqlite_pin_delete,
	.pin_expire = sqlite_pin_expire,
	.pin_list = sqlite_pin_list,
	.audit_put = sqlite_audit_put,
	.audit_walk = sqlite_audit_walk,
	.vacuum = sqlite_vacuum,
	.backup = sqlite_backup,
	.check = sqlite_check,
	.coherent = sqlite_coherent,
	.is_summed = sqlite_is_summed,
	.stats = sqlite_stats,
};

/* ---- opening ---- */

static void close_unless_taken(sqlite_engine **e)
{
	if (*e) close_database(&(*e)->base, false);
}

static int is_statement_over(void *context)
{
	(void)context;
	entry_pause();
	return cancel_is_due();
}

static cb_code set_up(sqlite_engine *e, const engine_options *o, cb_error *err)
{
	(void)sqlite3_extended_result_codes(e->db, 1);
	e->patience = PATIENCE;
	(void)sqlite3_busy_handler(e->db, wait_busy,
	                           &e->patience); /* before WAL: recovery by another process makes even that pragma wait */
	sqlite3_progress_handler(e->db, PROGRESS_OPS, is_statement_over, NULL);
	(void)sqlite3_db_config(e->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(e->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void)sqlite3_db_config(e->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	(void)sqlite3_db_config(e->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	/* SQLite's cap on a value: a damaged length must not become a huge allocation. */
	(void)sqlite3_limit(e->db, SQLITE_LIMIT_LENGTH, 64 << 20);
	/* Room for the sums of pages (page_sum.h), from the first page on. A database that has none keeps being without until a VACUUM. In
	 * memory nobody looks at them, but a backup of it goes to a file. */
	int reserved = PAGE_SUM_BYTES;
	(void)sqlite3_file_control(e->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
	CB_TRY(sql_exec(e,
	                "PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16384; PRAGMA cell_size_check=ON",
	                err));
	if (!o->folder) return CB_OK;
	(void)sqlite3_wal_hook(e->db, after_commit, &e->base);
	/* Never mapped: a disk that fails, or a file cut short under us, must be an error and not a SIGBUS that ends the host program. */
	return sql_exec(e, "PRAGMA mmap_size=0", err);
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/*
 * Is the file what a process left that died while it made the very first page? SQLite lets a file grow before it writes into it, so that
 * page may be zeros; the journal beside it then says that there was nothing before, and SQLite takes it all back.
 */
static bool is_unfinished_creation(const sqlite_engine *e, const uint8_t head[HEADER_BYTES])
{
	static const uint8_t magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7}, nothing[HEADER_BYTES];
	enum { PAGES_BEFORE = 16, JOURNAL_BYTES = 28 };
	uint8_t journal[JOURNAL_BYTES];
	size_t size = 0;
	if (memcmp(head, nothing, sizeof nothing) != 0) return false;
	AUTO_FD int fd = -1;
	if (io_file_open(e->folder, ENGINE_DATABASE "-journal", O_RDONLY, &fd, NULL) != CB_OK) return false;
	if (io_pread_all(fd, journal, sizeof journal, 0, &size, NULL) != CB_OK || size != sizeof journal) return false;
	return memcmp(journal, magic, sizeof magic) == 0 && be32(journal + PAGES_BEFORE) == 0;
}

/* Bits in which the file differs from one of ours where all of ours are alike. */
static int bits_off(const uint8_t head[HEADER_BYTES], uint32_t application)
{
	static const uint8_t magic[16] = "SQLite format 3";
	int bits = __builtin_popcount(application ^ SQL_APPLICATION_ID);
	for (size_t i = 0; i < sizeof magic; i++) bits += __builtin_popcount((unsigned)head[i] ^ magic[i]);
	return bits;
}

/* Looks at the file before SQLite does anything to it: a log beside somebody else's database must not be touched. */
static cb_code look_first(const sqlite_engine *e, cb_error *err)
{
	sqlite3_file *f = NULL;
	if (sqlite3_file_control(e->db, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f || !f->pMethods) return CB_OK;
	sqlite3_int64 size = 0;
	if (f->pMethods->xFileSize(f, &size) != SQLITE_OK || size == 0) return CB_OK;
	uint8_t head[HEADER_BYTES] = {0};
	int rc = f->pMethods->xRead(f, head, sizeof head, 0);
	if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) return cb_err_errno(err, errno, "cannot read %s", e->file);
	uint32_t application = be32(head + 68);
	if (rc == SQLITE_OK && memcmp(head, "SQLite format 3", 16) == 0 && (application == SQL_APPLICATION_ID || application == 0))
		return CB_OK;
	if (is_unfinished_creation(e, head)) return CB_OK;
	if (bits_off(head, application) <= DAMAGED_BITS)
		return cb_err_set(err, CB_CORRUPT, "%s is damaged in its first bytes: restore a backup", e->file);
	return cb_err_set(err, CB_FOREIGN, "%s is not a cowbox database: move it away or choose another folder", e->file);
}

/* The sum of a row, for migrations that make rows. */
static void row_sum(sqlite3_context *context, int count, sqlite3_value **values)
{
	uint64_t numbers[16] = {0};
	if (count > (int)ARRAY_LEN(numbers)) {
		sqlite3_result_error_toobig(context);
		return;
	}
	for (int i = 0; i < count; i++) {
		bool text = sqlite3_value_type(values[i]) == SQLITE_TEXT;
		numbers[i] =
			text ? sql_sum_text((const char *)sqlite3_value_text(values[i])) : (uint64_t)sqlite3_value_int64(values[i]);
	}
	sqlite3_result_int64(context, (int64_t)sql_sum(numbers, (size_t)count));
}

static void migrate_abandon(const sqlite_engine *e)
{
	CANCEL_SHIELD;
	if (!sqlite3_get_autocommit(e->db)) (void)sql_exec(e, "ROLLBACK", NULL);
}

/* All or nothing: a process killed on the way leaves the store as it was. */
static cb_code migrate(const sqlite_engine *e, bool has_commands, cb_error *err)
{
	char last[96];
	int64_t from = 0;
	(void)snprintf(last, sizeof last, "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT", SQL_APPLICATION_ID,
	               SQL_SCHEMA_VERSION);
	int rc = sqlite3_create_function(e->db, "row_sum", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, row_sum, NULL, NULL);
	if (rc != SQLITE_OK) return sql_error(e, rc, err);
	cb_code code = sql_exec(e, "BEGIN IMMEDIATE", err);
	/* Asked again under the lock: another may have done it meanwhile. */
	if (code == CB_OK) code = sql_number(e, "PRAGMA user_version", &from, err);
	for (int64_t v = from; code == CB_OK && v < SQL_SCHEMA_VERSION; v++) code = sql_exec(e, sqlite_migrations[v], err);
	if (code == CB_OK && from < SQL_VERSION_PIN && has_commands) code = sql_exec(e, sqlite_pin_earlier, err);
	if (code == CB_OK) code = sql_exec(e, last, err);
	if (code != CB_OK) migrate_abandon(e);
	return code;
}

/*
 * The sums of the log end where a bit was flipped, and SQLite takes that for its end, as after a power cut: what comes after is gone
 * without a word. But what was flushed cannot have been lost in a power cut. The log was not restarted since (its word is the same), so it
 * must go as far as it went then. A restarted one was folded into the database before; a damaged header looks like a restart, and is none.
 */
static cb_code check_log(sqlite_engine *e, uint64_t promised, cb_error *err)
{
	sqlite3_file *log = NULL;
	uint64_t now = position(&e->base);
	if ((uint32_t)promised == 0 || sqlite3_file_control(e->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK ||
	    !log || !log->pMethods)
		return CB_OK;
	bool same = now >> 32 == promised >> 32;
	if (same ? now >= promised : !vfs_log_header_damaged(log, now >> 32 != 0)) return CB_OK;
	return cb_err_set(
		err, CB_CORRUPT,
		"%s-wal is damaged: steps that were flushed to it cannot be read: restore a backup (or remove the store's file "
		"'live' to go on with an older state)",
		e->file);
}

/* An unfinished creation looks like an empty database of nobody's; anything else without our mark is foreign. */
static cb_code check_version(sqlite_engine *e, const engine_options *o, cb_error *err)
{
	bool read_only = o->read_only;
	int64_t application = 0, version = 0, tables = 0;
	CB_TRY(sql_number(e, "PRAGMA application_id", &application, err));
	/* SQLite has looked through the log for that, and nothing was written yet. */
	if (o->folder) CB_TRY(check_log(e, o->promised, err));
	CB_TRY(sql_number(e, "PRAGMA user_version", &version, err));
	if (application == 0) CB_TRY(sql_number(e, "SELECT count(*) FROM sqlite_schema", &tables, err));
	if (application != SQL_APPLICATION_ID && (application != 0 || tables != 0))
		return cb_err_set(err, CB_FOREIGN, "%s is not a cowbox database: move it away or choose another folder", e->file);
	if (version > SQL_SCHEMA_VERSION)
		return cb_err_set(err, CB_NEWER, "%s has format %" PRId64 ", this cowbox knows %d: update cowbox", e->file, version,
		                  SQL_SCHEMA_VERSION);
	if (version < 0) return cb_err_set(err, CB_CORRUPT, "%s has format %" PRId64 ": restore a backup", e->file, version);
	if (version == 0 && o->folder && numbers_given(o->folder))
		return cb_err_set(err, CB_CORRUPT,
		                  "%s holds nothing, but numbers were given out: its log was lost: restore a backup", e->file);
	e->version = version;
	if (version == SQL_SCHEMA_VERSION || (read_only && version >= SQL_VERSION_READABLE)) return CB_OK;
	if (read_only)
		return cb_err_set(err, CB_READONLY, "%s must be brought to format %d: open it once for writing", e->file,
		                  SQL_SCHEMA_VERSION);
	e->version = SQL_SCHEMA_VERSION;
	return migrate(e, o->has_commands, err);
}

static cb_code use_wal(const sqlite_engine *e, cb_error *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(e->db, "PRAGMA journal_mode=WAL", -1, &stmt, NULL);
	if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
	bool wal =
		rc == SQLITE_ROW && sqlite3_column_text(stmt, 0) && strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") == 0;
	cb_code code = wal                ? CB_OK
	               : rc == SQLITE_ROW ? cb_err_set(err, CB_UNSUPPORTED, "%s: this filesystem cannot hold a shared log", e->file)
	                                  : sql_error(e, rc, err);
	(void)sqlite3_finalize(stmt);
	return code;
}

/* The log stays when the last process closes the database, and with it the room it has (room.h). It is asked to be cut whenever it begins
 * anew, and at the last close: what that means is the VFS's affair. */
static cb_code keep_log(sqlite_engine *e, cb_error *err)
{
	int on = 1;
	e->room = vfs_room(e->db);
	int rc = sqlite3_file_control(e->db, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
	if (rc != SQLITE_OK) return sql_error(e, rc, err);
	return sql_exec(e, "PRAGMA journal_size_limit=0", err);
}

/* 0600 whatever the umask; SQLite gives the log the same mode. */
static cb_code create_file(const io_folder *in, cb_error *err)
{
	AUTO_FD int fd = -1;
	cb_error why;
	cb_code code = io_file_open(in, ENGINE_DATABASE, O_RDWR | O_CREAT | O_EXCL, &fd, cb_err_aside(&why));
	return code == CB_EXISTS ? CB_OK : cb_err_pass(err, code, &why);
}

static bool leads_to(const char *path, int folder)
{
	struct stat a, b;
	return stat(path, &a) == 0 && fstat(folder, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * SQLite opens by path, and again whenever it needs a file that it has not. The path goes through the folder's descriptor, so that it leads
 * to this folder whatever its own path leads to now. Without /proc it is the folder's own, as long as that leads there.
 */
static cb_code folder_path(const io_folder *f, char out[LIMIT_PATH_BYTES], cb_error *err)
{
	(void)snprintf(out, LIMIT_PATH_BYTES, VFS_DESCRIPTORS "%d", f->fd);
	if (leads_to(out, f->fd)) return CB_OK;
	(void)snprintf(out, LIMIT_PATH_BYTES, "%s", f->path);
	if (leads_to(out, f->fd)) return CB_OK;
	return cb_err_set(err, CB_IO, "store '%s' was moved or removed, and without /proc it cannot be followed: open it again",
	                  f->path);
}

static cb_code name_make(const engine_options *o, char **out, cb_error *err)
{
	AUTO_BUF buf name = BUF_INIT(4 * LIMIT_PATH_BYTES);
	char folder[LIMIT_PATH_BYTES];
	if (!o->folder) {
		CB_TRY(buf_append_str(&name, ":memory:", err));
		return buf_take(&name, out, NULL, err);
	}
	CB_TRY(folder_path(o->folder, folder, err));
	CB_TRY(buf_append_str(&name, "file:", err));
	for (const char *p = folder; *p; p++) {
		if (strchr("%?#", *p)) CB_TRY(buf_printf(&name, err, "%%%02X", (unsigned)(unsigned char)*p));
		else CB_TRY(buf_append_byte(&name, (uint8_t)*p, err));
	}
	CB_TRY(buf_printf(&name, err, "/" ENGINE_DATABASE "?" FOLDER_PARAMETER "=%d%s", o->folder->fd,
	                  o->frozen ? "&" FROZEN_PARAMETER "=1" : ""));
	return buf_take(&name, out, NULL, err);
}

static cb_code open_database(sqlite_engine *e, const engine_options *o, cb_error *err)
{
	AUTO_FREE char *name = NULL;
	CB_TRY(name_make(o, &name, err));
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_URI;
	flags |= o->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
	if (!o->folder) flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY;
	const char *vfs = NULL;
	if (o->folder && !(vfs = vfs_name(o->faults))) return cb_err_nomem(err);
	int rc = sqlite3_open_v2(name, &e->db, flags, vfs);
	if (!e->db) return cb_err_nomem(err);
	if (rc != SQLITE_OK) return sql_error(e, rc, err);
	CB_TRY(look_first(e, err));
	return set_up(e, o, err);
}

cb_code engine_sqlite_open(const engine_options *o, engine **out, cb_error *err)
{
	if (o->folder && !o->read_only) CB_TRY(create_file(o->folder, err));
	ATTR_CLEANUP(close_unless_taken) sqlite_engine *e = mem_alloc(sizeof *e);
	if (!e) return cb_err_nomem(err);
	*e = (sqlite_engine){.base = {.ops = &sqlite_ops}, .memory = !o->folder, .folder = o->folder};
	AUTO_BUF buf file = BUF_INIT(2 * LIMIT_PATH_BYTES);
	CB_TRY(o->folder ? buf_printf(&file, err, "%s/" ENGINE_DATABASE, o->folder->path) : buf_append_str(&file, "memory", err));
	CB_TRY(buf_take(&file, &e->file, NULL, err));
	CB_TRY(open_database(e, o, err));
	if (o->folder && !o->read_only) CB_TRY(use_wal(e, err));
	if (o->folder && !o->read_only) CB_TRY(keep_log(e, err));
	CB_TRY(check_version(e, o, err));
	*out = &TAKE_PTR(e)->base;
	return CB_OK;
}

const char *store_engine_version(void)
{
	return sqlite3_libversion();
}
