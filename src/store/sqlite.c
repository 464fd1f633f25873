/* sqlite.c: statements, binding, checked columns and errors of the SQLite engine; see sqlite.h. */
#include "store/sqlite.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/cancel.h"
#include "store/vfs.h"

static const char *const sql_texts[SQL_COUNT] = {
#define SQL_X_(name, text) text,
	SQL_TABLE(SQL_X_)
#undef SQL_X_
};

static cb_code code_of(const sqlite_engine *e, int rc)
{
	int system = sqlite3_system_errno(e->db);
	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return CB_NOMEM;
	case SQLITE_FULL:
		return CB_NOSPACE;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL: /* frozen_shm_lock, and SQLite after a hundred tries to begin reading */
		return CB_BUSY;
	case SQLITE_INTERRUPT: /* by a token that was reset since */
		return CB_CANCELLED;
	case SQLITE_CORRUPT:
		return CB_CORRUPT;
	case SQLITE_NOTADB:
		return CB_FOREIGN;
	case SQLITE_READONLY:
		return CB_READONLY;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return CB_DENIED;
	case SQLITE_TOOBIG:
		return CB_TOOBIG;
	case SQLITE_CANTOPEN:
		return system == EROFS ? CB_READONLY : system == EACCES ? CB_DENIED : CB_IO;
	case SQLITE_IOERR:
		if (rc == SQLITE_IOERR_DATA) return CB_CORRUPT; /* a page with a wrong sum (vfs_base.c) */
		if (rc == SQLITE_IOERR_NOMEM) return CB_NOMEM;
		return system == ENOSPC || system == EDQUOT ? CB_NOSPACE : CB_IO;
	case SQLITE_CONSTRAINT:
		return rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_ROWID
		               ? CB_EXISTS
		               : CB_INVALID;
	default:
		return CB_INTERNAL;
	}
}

cb_code sql_error(const sqlite_engine *e, int rc, cb_error *err)
{
	/* A statement, or the wait for a lock of SQLite's own, that our handlers ended (set_up). */
	if ((rc & 0xff) == SQLITE_INTERRUPT || (rc & 0xff) == SQLITE_BUSY) CB_TRY(cancel_check(err));
	cb_code code = code_of(e, rc);
	if (rc == SQLITE_IOERR_DATA) {
		vfs_wrong wrong = vfs_wrong_page(e->db);
		return cb_err_set(err, code,
		                  "%s%s is damaged: page %" PRIu64 " has a wrong sum: see `cowbox fsck`; restore a backup", e->file,
		                  wrong.in_log ? "-wal" : "", wrong.page);
	}
	if (code == CB_CORRUPT)
		return cb_err_set(err, code, "%s is damaged (%s): see `cowbox fsck`", e->file, sqlite3_errmsg(e->db));
	if (rc == SQLITE_PROTOCOL) return cb_err_set(err, code, "%s: others write the store now: open it again", e->file);
	if (code == CB_NOSPACE) return cb_err_set(err, code, "%s: " ENGINE_FULL, e->file);
	int system = rc == SQLITE_IOERR_WRITE ? vfs_write_error(e->db) : sqlite3_system_errno(e->db);
	if (system == EFBIG) return cb_err_errno(err, system, "writing %s", e->file);
	if ((rc & 0xff) == SQLITE_CANTOPEN && (system == EMFILE || system == ENFILE))
		return cb_err_set(err, code, "%s: too many open files: close some, or raise the limit (ulimit -n)", e->file);
	if (code == CB_IO && system)
		return cb_err_errno(err, system, "%s: the disk fails or was taken away (%s)", e->file, sqlite3_errmsg(e->db));
	if (code == CB_IO)
		return cb_err_set(err, code, "%s: the disk fails or was taken away (%s)", e->file, sqlite3_errmsg(e->db));
	return cb_err_set(err, code, "%s: %s", e->file, sqlite3_errmsg(e->db));
}

void sql_use_done(sql_use *u)
{
	if (!u->stmt) return;
	if (u->own) (void)sqlite3_finalize(u->stmt);
	else (void)sqlite3_reset(u->stmt);
	u->stmt = NULL;
}

static cb_code prepare(const sqlite_engine *e, sql_id id, sqlite3_stmt **out, cb_error *err)
{
	int rc = sqlite3_prepare_v3(e->db, sql_texts[id], -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
	/* The statements are ours and never change: what SQLite cannot make of them is the fault of a damaged schema. */
	if (rc == SQLITE_ERROR) return cb_err_set(err, CB_CORRUPT, "%s is damaged (%s)", e->file, sqlite3_errmsg(e->db));
	return rc == SQLITE_OK ? CB_OK : sql_error(e, rc, err);
}

static int bind_one(sqlite3_stmt *stmt, int at, char letter, va_list *args)
{
	switch (letter) {
	case 'u':
		return sqlite3_bind_int64(stmt, at, (sqlite3_int64)va_arg(*args, uint64_t));
	case 'i':
		return sqlite3_bind_int64(stmt, at, va_arg(*args, int64_t));
	case 't':
		return sqlite3_bind_text(stmt, at, va_arg(*args, const char *), -1, SQLITE_STATIC);
	case 'b': {
		span s = va_arg(*args, span);
		return s.size ? sqlite3_bind_blob64(stmt, at, s.bytes, s.size, SQLITE_STATIC) : sqlite3_bind_zeroblob(stmt, at, 0);
	}
	case 'n':
		return sqlite3_bind_null(stmt, at);
	default:
		return SQLITE_MISUSE;
	}
}

cb_code sql_take(engine *base, sql_id id, sql_use *out, cb_error *err, const char *letters, ...)
{
	sqlite_engine *e = sql_engine(base);
	if (!e->kept[id]) CB_TRY(prepare(e, id, &e->kept[id], err));
	*out = (sql_use){e->kept[id], false};
	if (sqlite3_stmt_busy(out->stmt)) {
		out->stmt = NULL;
		out->own = true;
		CB_TRY(prepare(e, id, &out->stmt, err));
	}
	va_list args;
	va_start(args, letters);
	int rc = SQLITE_OK;
	for (int i = 0; letters[i] && rc == SQLITE_OK; i++) rc = bind_one(out->stmt, i + 1, letters[i], &args);
	va_end(args);
	return rc == SQLITE_OK ? CB_OK : sql_error(e, rc, err);
}

cb_code sql_step(engine *base, const sql_use *u, bool *out_row, cb_error *err)
{
	CB_TRY(cancel_check(err));
	int rc = sqlite3_step(u->stmt);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE) return sql_error(sql_engine(base), rc, err);
	*out_row = rc == SQLITE_ROW;
	return CB_OK;
}

cb_code sql_finish(engine *base, const sql_use *u, uint64_t *out_changes, cb_error *err)
{
	bool row = true;
	while (row) CB_TRY(sql_step(base, u, &row, err));
	if (out_changes) *out_changes = (uint64_t)sqlite3_changes64(sql_engine(base)->db);
	return CB_OK;
}

cb_code sql_exec(const sqlite_engine *e, const char *text, cb_error *err)
{
	int rc = sqlite3_exec(e->db, text, NULL, NULL, NULL);
	return rc == SQLITE_OK ? CB_OK : sql_error(e, rc, err);
}

cb_code sql_number(const sqlite_engine *e, const char *text, int64_t *out, cb_error *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(e->db, text, -1, &stmt, NULL);
	if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) *out = sqlite3_column_int64(stmt, 0);
	cb_code code = rc == SQLITE_ROW ? CB_OK : sql_error(e, rc, err);
	(void)sqlite3_finalize(stmt);
	return code;
}

/* ---- columns ---- */

int64_t sql_i64(const sql_use *u, int column, bool *bad)
{
	if (sqlite3_column_type(u->stmt, column) != SQLITE_INTEGER) {
		*bad = true;
		return 0;
	}
	return sqlite3_column_int64(u->stmt, column);
}

uint64_t sql_u64(const sql_use *u, int column, bool *bad)
{
	return (uint64_t)sql_i64(u, column, bad);
}

const char *sql_text(const sql_use *u, int column, bool *bad)
{
	const char *s = NULL;
	if (sqlite3_column_type(u->stmt, column) == SQLITE_TEXT) s = (const char *)sqlite3_column_text(u->stmt, column);
	if (!s) *bad = true;
	return s ? s : "";
}

void sql_copy(const sql_use *u, int column, char *out, size_t size, bool *bad)
{
	const char *s = sql_text(u, column, bad);
	size_t n = strlen(s);
	if (n >= size) {
		*bad = true;
		n = 0;
	}
	memcpy(out, s, n);
	out[n] = 0;
}

span sql_blob(const sql_use *u, int column, bool *bad)
{
	if (sqlite3_column_type(u->stmt, column) != SQLITE_BLOB) {
		*bad = true;
		return span_make(NULL, 0);
	}
	const void *bytes = sqlite3_column_blob(u->stmt, column);
	int size = sqlite3_column_bytes(u->stmt, column);
	if (size > 0 && !bytes) *bad = true; /* no memory for an overflowing row */
	return bytes && size > 0 ? span_make(bytes, (size_t)size) : span_make(NULL, 0);
}

uint64_t sql_sum(const uint64_t *values, size_t count)
{
	return hash64(values, count * sizeof *values);
}

cb_code sql_damaged(const char *table, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "a row of table '%s' is damaged: see `cowbox fsck`", table);
}
