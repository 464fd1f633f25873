/*
 * plain_sqlite.h: the simplest thing that could be used instead: one SQLite table of (path, content), in WAL mode. No history, no forks,
 * no attributes.
 */
#ifndef BENCH_PLAIN_SQLITE_H
#define BENCH_PLAIN_SQLITE_H

#include <sqlite3.h>

#include "bench.h"

typedef struct plain_db {
	sqlite3 *db;
	sqlite3_stmt *put, *get, *stat, *list, *rename, *append;
} plain_db;

static inline void plain_need(const plain_db *p, int rc, const char *what)
{
	if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE) bench_die(what, sqlite3_errmsg(p->db));
}

static inline void plain_exec(plain_db *p, const char *text)
{
	plain_need(p, sqlite3_exec(p->db, text, NULL, NULL, NULL), text);
}

static inline sqlite3_stmt *plain_prepare(plain_db *p, const char *text)
{
	sqlite3_stmt *stmt = NULL;
	plain_need(p, sqlite3_prepare_v3(p->db, text, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL), text);
	return stmt;
}

static inline void plain_open(plain_db *p, const char *file, bool full)
{
	*p = (plain_db){0};
	plain_need(p, sqlite3_open(file, &p->db), file);
	(void)sqlite3_busy_timeout(p->db, 60000);
	plain_exec(p, "PRAGMA journal_mode=WAL");
	plain_exec(p, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
	plain_exec(p, "CREATE TABLE IF NOT EXISTS files(path TEXT PRIMARY KEY, content BLOB NOT NULL)");
	p->put = plain_prepare(p, "INSERT OR REPLACE INTO files(path,content) VALUES(?1,?2)");
	p->get = plain_prepare(p, "SELECT content FROM files WHERE path=?1");
	p->stat = plain_prepare(p, "SELECT length(content) FROM files WHERE path=?1");
	p->list = plain_prepare(p, "SELECT path,length(content) FROM files WHERE path>=?1||'/' AND path<?1||'0' ORDER BY path");
	p->rename = plain_prepare(p, "UPDATE files SET path=?2 WHERE path=?1");
	p->append = plain_prepare(p, "UPDATE files SET content=CAST(content||?2 AS BLOB) WHERE path=?1");
}

static inline void plain_close(plain_db *p)
{
	sqlite3_stmt *all[] = {p->put, p->get, p->stat, p->list, p->rename, p->append};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) (void)sqlite3_finalize(all[i]);
	(void)sqlite3_close(p->db);
}

static inline int plain_step(plain_db *p, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);
	plain_need(p, rc, "sqlite3_step");
	return rc;
}

static inline void plain_put(plain_db *p, const char *path, const void *bytes, size_t size)
{
	(void)sqlite3_bind_text(p->put, 1, path, -1, SQLITE_STATIC);
	(void)sqlite3_bind_blob64(p->put, 2, bytes, size, SQLITE_STATIC);
	(void)plain_step(p, p->put);
	(void)sqlite3_reset(p->put);
}

static inline size_t plain_get(plain_db *p, const char *path, void *to, size_t size)
{
	(void)sqlite3_bind_text(p->get, 1, path, -1, SQLITE_STATIC);
	size_t n = 0;
	if (plain_step(p, p->get) == SQLITE_ROW) {
		const void *bytes = sqlite3_column_blob(p->get, 0);
		n = (size_t)sqlite3_column_bytes(p->get, 0);
		if (n > size) n = size;
		if (n) memcpy(to, bytes, n);
	}
	(void)sqlite3_reset(p->get);
	return n;
}

#endif
