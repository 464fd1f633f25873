/* sql.h: a store's database by SQL, for tests that change what no call of the library changes. */
#ifndef TESTS_SQL_H
#define TESTS_SQL_H

#include <sqlite3.h>

#include "harness/harness.h"

/* Through the VFS of the library, which is there once a store was opened: pages that are written keep their sums, so that it is the rows
 * that are wrong and nothing else. Before that, and for databases that have no sums, SQLite's own. */
static inline sqlite3 *test_sql_open(const char *file)
{
	sqlite3 *db = NULL;
	const char *vfs = sqlite3_vfs_find("cowbox") ? "cowbox" : NULL;
	CHECK(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs) == SQLITE_OK);
	return db;
}

/* The first column of the first row. */
static inline int64_t test_sql_number(sqlite3 *db, const char *text)
{
	sqlite3_stmt *stmt = NULL;
	CHECK(sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW);
	int64_t n = sqlite3_column_int64(stmt, 0);
	(void)sqlite3_finalize(stmt);
	return n;
}

#endif
