/* sqlite_upkeep.c: vacuum, backup, check and figures of the SQLite engine. */
#include "base/cancel.h"
#include "store/sqlite.h"
#include "store/vfs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum {
	CHECK_LINES = 100, /* complaints of one kind; a file damaged all over needs no more */
	COPY_PAGES = 1024, /* between two looks at the caller's limit */
};

#define VACUUM_FILE "vacuum.tmp" /* in the store's folder, while it is being opened */

/* Best effort: with readers about, the log begins anew later. */
static cb_code fold(engine *base, int mode, cb_error *err)
{
	sqlite_engine *e = sql_engine(base);
	int rc = sqlite3_wal_checkpoint_v2(e->db, "main", mode, NULL, NULL);
	if (!sql_is_flush_failure(rc)) return CB_OK;
	base->flush_failed = true;
	return sql_error(e, rc, err);
}

static bool log_stat(const sqlite_engine *e, struct stat *out)
{
	return e->folder && fstatat(e->folder->fd, ENGINE_DATABASE "-wal", out, AT_SYMLINK_NOFOLLOW) == 0;
}

/* SQLite writes the whole database anew, into a file, of which it keeps SQL_CACHE_BYTES in memory, and from there into the log. */
static cb_code vacuum_room(const sqlite_engine *e, cb_error *err)
{
	struct stat st;
	struct statvfs disk;
	int64_t pages = 0, unused = 0, page_bytes = 0;
	CB_TRY(sql_number(e, "PRAGMA page_count", &pages, err));
	CB_TRY(sql_number(e, "PRAGMA freelist_count", &unused, err));
	CB_TRY(sql_number(e, "PRAGMA page_size", &page_bytes, err));
	if (!e->folder || fstatvfs(e->folder->fd, &disk) != 0) return CB_OK;
	uint64_t bytes = (uint64_t)(pages - unused) * (uint64_t)page_bytes;
	uint64_t needed = bytes + (uint64_t)(pages - unused) * 24 + (bytes > SQL_CACHE_BYTES ? bytes : 0);
	uint64_t there = (uint64_t)disk.f_bavail * disk.f_frsize + (log_stat(e, &st) ? (uint64_t)st.st_blocks * 512 : 0);
	if (needed <= there) return CB_OK;
	return cb_err_set(err, CB_NOSPACE,
	                  "a vacuum needs %" PRIu64 " KiB on the disk of %s while it runs, and finds %" PRIu64
	                  " with those of its log: make room, or go without (new files use what gc freed)",
	                  needed >> 10, e->file, there >> 10);
}

/* The copy is a file beside the database: in memory it would take as much as the database has, and whoever lacks that could never shrink
 * it. One at a time (the writer lock), so it has one name. */
static cb_code vacuum_run(sqlite_engine *e, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(4096);
	const char *file = sqlite3_db_filename(e->db, "main"), *end = file ? strrchr(file, '/') : NULL;
	if (!end) return sql_exec(e, "VACUUM", err);
	CB_TRY(buf_append(&path, file, (size_t)(end + 1 - file), err));
	CB_TRY(buf_append(&path, VACUUM_FILE "\0", sizeof(VACUUM_FILE) + 1,
	                  err)); /* two zeros, as SQLite ends the names of its files */
	CB_TRY(sql_exec(e, "PRAGMA temp_store=FILE", err));
	vfs_temporary_set((const char *)path.bytes);
	cb_code code = sql_exec(e, "VACUUM", err);
	vfs_temporary_set(NULL);
	cb_code back = sql_exec(e, "PRAGMA temp_store=MEMORY", code == CB_OK ? err : NULL);
	return code == CB_OK ? back : code;
}

cb_code sqlite_vacuum(engine *base, cb_error *err)
{
	sqlite_engine *e = sql_engine(base);
	if (e->memory) return sql_exec(e, "VACUUM", err);
	CB_TRY(vacuum_room(e, err));
	CB_TRY(fold(base, SQLITE_CHECKPOINT_PASSIVE, err)); /* so that it is written at the log's beginning */
	if (e->room) e->room->need = ROOM_FREES;
	cb_code code = vacuum_run(e, err);
	if (code == CB_OK) vfs_sums_are_there(e->db);
	if (e->room) e->room->need = ROOM_GROWS;
	/* Also after a failure, which leaves the log as long as it had become. */
	cb_code folded = fold(base, SQLITE_CHECKPOINT_TRUNCATE, code == CB_OK ? err : NULL);
	return code == CB_OK ? folded : code;
}

/* Failures of the copy, which has no engine of its own. */
static cb_code copy_error(sqlite3 *to, int rc, const char *to_file, cb_error *err)
{
	int system = sqlite3_system_errno(to);
	if ((rc & 0xff) == SQLITE_FULL) return cb_err_set(err, CB_NOSPACE, "%s: no space left on the device", to_file);
	if ((rc & 0xff) == SQLITE_NOMEM) return cb_err_nomem(err);
	if ((rc & 0xff) == SQLITE_CORRUPT || rc == SQLITE_IOERR_DATA)
		return cb_err_set(err, CB_CORRUPT, "copying to %s: the store is damaged: see `cowbox fsck`", to_file);
	if (system) return cb_err_errno(err, system, "copying to %s: %s", to_file, sqlite3_errstr(rc));
	return cb_err_set(err, CB_IO, "copying to %s: %s", to_file, sqlite3_errstr(rc));
}

static int copy_is_over(void *context)
{
	(void)context;
	return cancel_is_due();
}

static cb_code copy_database(const sqlite_engine *e, sqlite3 *to, const char *to_file, cb_error *err)
{
	sqlite3_backup *b = sqlite3_backup_init(to, "main", e->db, "main");
	if (!b) return copy_error(to, sqlite3_errcode(to), to_file, err);
	/* In pieces of one picture: without a transaction around them each writer's commit would make it begin anew. */
	cb_code code = sql_exec(e, "SAVEPOINT copy", err);
	int64_t pages = 0, page_bytes = 0;
	if (code == CB_OK) code = sql_number(e, "SELECT count(*) FROM sqlite_schema", &pages, err);
	if (code == CB_OK) code = sql_number(e, "PRAGMA page_size", &page_bytes, err);
	/* Its pages come in any order when the cache is full: what they are must be known before the first one is written. */
	if (code == CB_OK && (e->memory || vfs_has_sums(e->db))) vfs_add_sums(to, (uint32_t)page_bytes);
	int rc = SQLITE_OK;
	while (code == CB_OK && rc == SQLITE_OK) {
		rc = sqlite3_backup_step(b, COPY_PAGES);
		if (rc == SQLITE_OK) code = cancel_check(err);
	}
	CANCEL_SHIELD;
	int end = sqlite3_backup_finish(b);
	(void)sql_exec(e, "RELEASE copy", NULL);
	if (code != CB_OK) return code;
	if (rc == SQLITE_DONE && end == SQLITE_OK) return CB_OK;
	if (rc == SQLITE_IOERR_DATA) return sql_error(e, rc, err);
	return copy_error(to, end ? end : rc, to_file, err);
}

/* A page that is missing in the middle of the file reads as zeros, and has no sum: that the copy has all of them is seen in its trees. */
static cb_code copy_whole(sqlite3 *to, const char *to_file, cb_error *err)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3_progress_handler(to, COPY_PAGES, copy_is_over, NULL);
	int rc = sqlite3_prepare_v2(to, "PRAGMA quick_check(1)", -1, &stmt, NULL);
	if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
	const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
	cb_code code = cancel_check(err);
	if (sql_failed_read(text)) rc = sql_failed_read(text);
	if (code == CB_OK && rc != SQLITE_ROW) code = copy_error(to, rc, to_file, err);
	else if (code == CB_OK && (!text || strcmp(text, "ok") != 0))
		code = cb_err_set(err, CB_CORRUPT, "the store is damaged (%.200s): nothing was copied: see `cowbox fsck`",
		                  text ? text : "no memory");
	(void)sqlite3_finalize(stmt);
	return code;
}

cb_code sqlite_backup(engine *base, const char *to_file, cb_error *err)
{
	sqlite3 *to = NULL;
	const char *vfs = vfs_name(NULL);
	if (!vfs) return cb_err_nomem(err);
	int rc = sqlite3_open_v2(to_file, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, vfs);
	if (rc == SQLITE_OK) (void)sqlite3_extended_result_codes(to, 1);
	cb_code code = rc == SQLITE_OK ? copy_database(sql_engine(base), to, to_file, err) : copy_error(to, rc, to_file, err);
	if (code == CB_OK) code = copy_whole(to, to_file, err);
	(void)sqlite3_close(to); /* the copy is made in one rollback-journal transaction: flushed when it ends */
	if (code == CB_OK && chmod(to_file, 0600) != 0) return cb_err_errno(err, errno, "'%s'", to_file);
	return code;
}

/* ---- check ---- */

typedef struct question {
	const char *text;   /* rows to complain about: one number each */
	const char *format; /* with one %lld */
} question;

/* Numbers that were given out lie below their counter. */
#define COUNTED(table)                                                                                         \
	{                                                                                                      \
		"SELECT max(id) FROM " table " HAVING max(id)>=(SELECT next_" table " FROM head WHERE box=0)", \
			"the " table " counter is not above " table " %lld"                                    \
	}

static const question questions[] = {
	{"SELECT box FROM head WHERE box<>0 AND box NOT IN (SELECT id FROM box)", "head of box %lld, which does not exist"},
	{"SELECT id FROM box WHERE id NOT IN (SELECT box FROM head)", "box %lld has no head"},
	{"SELECT id FROM box WHERE deleted=0 AND name GLOB '#base-*' AND NOT EXISTS(SELECT 1 FROM box o WHERE o.deleted=0 AND "
         "'#base-'||o.id=box.name)",
         "box %lld is the base of a box that does not exist"},
	{"SELECT DISTINCT box FROM step WHERE box NOT IN (SELECT id FROM box)", "steps of box %lld, which does not exist"},
	{"SELECT DISTINCT box FROM touch WHERE box NOT IN (SELECT id FROM box)", "touched files of box %lld, which does not exist"},
	{"SELECT DISTINCT box FROM checkpoint WHERE box NOT IN (SELECT id FROM box)",
         "checkpoints of box %lld, which does not exist"},
	{"SELECT DISTINCT box FROM setting WHERE box<>0 AND box NOT IN (SELECT id FROM box)",
         "settings of box %lld, which does not exist"},
	{"SELECT c.seq FROM checkpoint c WHERE NOT EXISTS(SELECT 1 FROM step s WHERE s.box=c.box AND s.seq=c.seq)",
         "a checkpoint names step %lld, which does not exist"},
	{"SELECT box FROM step WHERE seq>(SELECT seq FROM head h WHERE h.box=step.box)", "box %lld has steps after its head"},
	{"SELECT id FROM node WHERE birth>(SELECT epoch FROM head WHERE box=0)", "node %lld was born in the future"},
	{"SELECT id FROM content WHERE birth>(SELECT epoch FROM head WHERE box=0)", "content %lld was born in the future"},
	COUNTED("node"),
	COUNTED("content"),
	COUNTED("box"),
	{"SELECT max(state) FROM step HAVING max(state)>=(SELECT next_state FROM head WHERE box=0)",
         "the state counter is not above state %lld"},
	{"SELECT box FROM head WHERE box<>0 AND state>=(SELECT next_state FROM head WHERE box=0)",
         "the state counter is not above the head of box %lld"},
	{"SELECT box FROM head WHERE root<>0 AND root NOT IN (SELECT id FROM node)", "the root of box %lld is missing"},
	{"SELECT root FROM step INDEXED BY step_root WHERE root IS NOT NULL AND root<>0 AND root NOT IN (SELECT id FROM node)",
         "node %lld, the root of a step, is missing"},
	{"SELECT params_content FROM step WHERE params_content<>0 AND params_content NOT IN (SELECT id FROM content)",
         "content %lld, the parameters of a step, is missing"},
	{"SELECT result_content FROM step WHERE result_content<>0 AND result_content NOT IN (SELECT id FROM content)",
         "content %lld, the result of a step, is missing"},
};

#define FROM_LIVING " FROM head h JOIN box b ON b.id=h.box WHERE b.deleted=0 AND "
#define STEPS_OF(box) "BETWEEN (" box "<<32) AND (" box "<<32)+4294967295"

/* What a gc believes. Each is answered by a few rows a box, however long the history. */
static const question coherence[] = {
	{"SELECT id FROM box WHERE id NOT IN (SELECT box FROM head)", "box %lld has no head"},
	{"SELECT box FROM head WHERE box<>0 AND box NOT IN (SELECT id FROM box)", "box %lld is missing, and has a head"},
	{"WITH RECURSIVE had(box) AS (SELECT min(id)>>32 FROM step UNION ALL SELECT (SELECT id>>32 FROM step WHERE "
         "id>(had.box<<32)+4294967295 ORDER BY id LIMIT 1) FROM had WHERE had.box IS NOT NULL) "
         "SELECT box FROM had WHERE box IS NOT NULL AND box NOT IN (SELECT id FROM box)",
         "box %lld is missing, and has steps"},
	{"SELECT h.box" FROM_LIVING "NOT EXISTS(SELECT 1 FROM step WHERE id=(h.box<<32)+h.seq AND state=h.state)",
         "the newest step of box %lld is missing"},
	{"SELECT h.box" FROM_LIVING "EXISTS(SELECT 1 FROM step WHERE id " STEPS_OF("h.box") " AND id>(h.box<<32)+h.seq)",
         "box %lld has steps after its head"},
	{"SELECT h.box" FROM_LIVING "h.root<>0 AND NOT EXISTS(SELECT 1 FROM node WHERE id=h.root)",
         "the root of box %lld is missing"},
	{"SELECT id FROM box b WHERE deleted=0 AND origin_box<>0 AND NOT EXISTS(SELECT 1 FROM step WHERE "
         "id=(b.origin_box<<32)+b.origin_seq)",
         "the step that box %lld was forked from is missing"},
	{"SELECT id FROM box b WHERE deleted=0 AND NOT EXISTS(SELECT 1 FROM box o INDEXED BY box_name WHERE o.name=b.name AND "
         "o.deleted=0 AND o.id=b.id)",
         "box %lld is not found by its name"},
	/* Those of boxes that are gone are a leftover, which gc removes. */
	{"SELECT seq FROM checkpoint c WHERE EXISTS(SELECT 1 FROM box WHERE id=c.box) AND NOT EXISTS(SELECT 1 FROM step WHERE "
         "id=(c.box<<32)+c.seq)",
         "a checkpoint names step %lld, which is missing"},
	COUNTED("node"),
	COUNTED("content"),
	COUNTED("box"),
};

static const question pin_question = {
	"SELECT p.seq FROM pin p WHERE p.seq<>-1 AND EXISTS(SELECT 1 FROM box b WHERE b.id=p.box) AND "
	"NOT EXISTS(SELECT 1 FROM step s WHERE s.box=p.box AND s.seq=p.seq)",
	"a pin names step %lld, which does not exist"};

static cb_code pin_sound(void *context, const store_pin *pin, cb_error *err)
{
	(void)context;
	(void)pin;
	(void)err;
	return CB_OK;
}

static void complain_failed(const sqlite_engine *e, store_complain complain, void *context)
{
	char line[512];
	if (cancel_is_due()) return; /* it is the check that ends, not the database that is damaged */
	vfs_wrong wrong = vfs_wrong_page(e->db);
	if (sqlite3_extended_errcode(e->db) == SQLITE_IOERR_DATA)
		(void)snprintf(line, sizeof line, "database: page %" PRIu64 " cannot be used", wrong.page);
	else (void)snprintf(line, sizeof line, "database: %s", sqlite3_errmsg(e->db));
	complain(context, line);
}

static void ask(const sqlite_engine *e, const question *q, store_complain complain, void *context)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(e->db, q->text, -1, &stmt, NULL);
	for (int n = 0; rc == SQLITE_OK || rc == SQLITE_ROW; n++) {
		rc = sqlite3_step(stmt);
		if (rc != SQLITE_ROW || n >= CHECK_LINES) break;
		char line[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the formats are the constants above */
		(void)snprintf(line, sizeof line, q->format, (long long)sqlite3_column_int64(stmt, 0));
#pragma GCC diagnostic pop
		complain(context, line);
	}
	if (rc != SQLITE_DONE && rc != SQLITE_ROW) complain_failed(e, complain, context);
	(void)sqlite3_finalize(stmt);
}

static bool integrity(const sqlite_engine *e, store_complain complain, void *context)
{
	sqlite3_stmt *stmt = NULL;
	bool sound = true;
	int rc = sqlite3_prepare_v2(e->db, "PRAGMA integrity_check(100)", -1, &stmt, NULL);
	if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
	for (; rc == SQLITE_ROW; rc = sqlite3_step(stmt)) {
		const char *text = (const char *)sqlite3_column_text(stmt, 0);
		if (text && strcmp(text, "ok") == 0) continue;
		sound = false;
		/* One complaint a line: SQLite joins several with newlines. */
		for (const char *at = text ? text : "integrity check failed"; *at;) {
			size_t n = strcspn(at, "\n");
			char line[512];
			(void)snprintf(line, sizeof line, "database: %.*s", (int)(n < 480 ? n : 480), at);
			complain(context, line);
			at += n + (at[n] == '\n');
		}
	}
	if (rc != SQLITE_DONE) {
		sound = false;
		complain_failed(e, complain, context);
	}
	(void)sqlite3_finalize(stmt);
	return sound;
}

/* Every page of the file and of the log, however many are wrong: also those of trees that cannot be walked any more. */
static cb_code check_pages(const sqlite_engine *e, bool *sound, store_complain complain, void *context, cb_error *err)
{
	enum { PIECE = 4096 };
	char line[160];
	ATTR_CLEANUP(vfs_looking_done) vfs_looking l = {0}, log = {0};
	int64_t tables = 0;
	/* What of it cannot be read shows below; what the first page says of the others is known then. */
	(void)sql_number(e, "SELECT count(*) FROM sqlite_schema", &tables, NULL);
	for (uint64_t before = UINT64_MAX; l.at != before;) {
		CB_TRY(cancel_check(err));
		before = l.at;
		if (!vfs_pages_look(e->db, &l, PIECE) || l.count > CHECK_LINES) continue;
		(void)snprintf(line, sizeof line, "database: page %" PRIu64 " has a wrong sum", l.wrong);
		complain(context, line);
	}
	while (vfs_frames_look(e->db, &log)) {
		CB_TRY(cancel_check(err));
		if (log.count > CHECK_LINES) continue;
		(void)snprintf(line, sizeof line, "database: page %" PRIu64 " has a wrong sum in the log (frame %" PRIu64 ")",
		               log.wrong, log.at);
		complain(context, line);
	}
	uint64_t told = (l.count < CHECK_LINES ? l.count : CHECK_LINES) + (log.count < CHECK_LINES ? log.count : CHECK_LINES);
	*sound = l.count + log.count == 0;
	if (l.count + log.count == told) return CB_OK;
	(void)snprintf(line, sizeof line, "database: %" PRIu64 " pages more have wrong sums", l.count + log.count - told);
	complain(context, line);
	return CB_OK;
}

cb_code sqlite_check(engine *base, store_complain complain, void *context, cb_error *err)
{
	const sqlite_engine *e = sql_engine(base);
	/* Where the trees themselves are damaged, a question about rows may visit pages again and again, 2^20 times and more. */
	bool right = true;
	CB_TRY(check_pages(e, &right, complain, context, err));
	bool sound = integrity(e, complain, context) && right;
	CB_TRY(cancel_check(err));
	if (!sound) {
		complain(context, "references between rows were not looked at: the database is damaged below them");
		return CB_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) ask(e, &questions[i], complain, context);
	if (sqlite_edge_check(base, complain, context, NULL) != CB_OK) complain_failed(e, complain, context);
	if (sqlite_audit_check(base, complain, context, NULL) != CB_OK) complain_failed(e, complain, context);
	cb_error why = {0};
	cb_code pins = sqlite_pin_list(base, 0, pin_sound, NULL, &why);
	if (pins != CB_OK && !cancel_is_code(pins)) complain(context, why.message);
	if (e->version >= SQL_VERSION_PIN) ask(e, &pin_question, complain, context);
	return cancel_check(err);
}

/* ---- before something is removed ---- */

bool sqlite_is_summed(engine *base)
{
	const sqlite_engine *e = sql_engine(base);
	return e->memory || (vfs_has_sums(e->db) && vfs_pages_unsummed(e->db) == 0);
}

/* *out: the first column of the first row, when there is one. A failure is the statement's own, which may be of memory. */
static cb_code first_of(const sqlite_engine *e, const char *text, char *out, size_t size, bool *found, cb_error *err)
{
	sqlite3_stmt *stmt = NULL;
	CB_TRY(cancel_check(err));
	int rc = sqlite3_prepare_v2(e->db, text, -1, &stmt, NULL);
	if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
	cb_code code = rc == SQLITE_ROW || rc == SQLITE_DONE ? CB_OK : sql_error(e, rc, err);
	*found = rc == SQLITE_ROW;
	if (*found) (void)snprintf(out, size, "%s", (const char *)sqlite3_column_text(stmt, 0));
	(void)sqlite3_finalize(stmt);
	return code;
}

static cb_code refuse(const sqlite_engine *e, const char *why, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "%s is damaged (%s), nothing was removed: see `cowbox fsck`; restore a backup", e->file,
	                  why);
}

cb_code sqlite_coherent(engine *base, cb_error *err)
{
	const sqlite_engine *e = sql_engine(base);
	char text[256], why[320];
	bool found = false;
	int64_t rows = 0;
	/* What lies in segments is removed by this index alone: all of its pages are looked at. */
	CB_TRY(sql_number(e, "SELECT count(*) FROM content INDEXED BY content_segment WHERE segment<>0", &rows, err));
	for (size_t i = 0; i < ARRAY_LEN(coherence); i++) {
		CB_TRY(first_of(e, coherence[i].text, text, sizeof text, &found, err));
		if (!found) continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the formats are the constants above */
		(void)snprintf(why, sizeof why, coherence[i].format, strtoll(text, NULL, 10));
#pragma GCC diagnostic pop
		return refuse(e, why, err);
	}
	if (sqlite_is_summed(base)) return CB_OK;
	CB_TRY(first_of(e, "PRAGMA integrity_check(1)", text, sizeof text, &found, err));
	if (found && sql_failed_read(text)) return sql_error(e, sql_failed_read(text), err);
	return found && strcmp(text, "ok") == 0 ? CB_OK : refuse(e, text, err);
}

/* ---- figures ---- */

static cb_code count(const sqlite_engine *e, const char *text, uint64_t *out, cb_error *err)
{
	int64_t n = 0;
	CB_TRY(sql_number(e, text, &n, err));
	*out = (uint64_t)n;
	return CB_OK;
}

cb_code sqlite_stats(engine *base, store_stats *out, cb_error *err)
{
	const sqlite_engine *e = sql_engine(base);
	CB_TRY(count(e, "SELECT count(*) FROM box WHERE deleted=0 AND name NOT GLOB '#*'", &out->boxes, err));
	CB_TRY(count(e, "SELECT count(*) FROM step", &out->steps, err));
	CB_TRY(count(e, "SELECT count(*) FROM node", &out->nodes, err));
	CB_TRY(count(e, "SELECT coalesce(sum(length(data)),0) FROM node", &out->node_bytes, err));
	CB_TRY(count(e, "SELECT count(*) FROM content", &out->contents, err));
	CB_TRY(count(e, "SELECT coalesce(sum(size),0) FROM content", &out->content_bytes, err));
	uint64_t pages = 0, page_bytes = 0;
	CB_TRY(count(e, "PRAGMA page_count", &pages, err));
	CB_TRY(count(e, "PRAGMA page_size", &page_bytes, err));
	out->database_bytes = pages * page_bytes;
	out->page_sums = sqlite_is_summed(base);
	struct stat st;
	out->wal_bytes = log_stat(e, &st) ? (uint64_t)st.st_size : 0;
	return CB_OK;
}
