/* test_page_sum.c: sums of pages, and who adds them: a connection that folds the log of a database that got them from another. */
#include <unistd.h>

#include "harness/sql.h"
#include "store/page_sum.h"
#include "store/vfs.h"

enum { PAGE = 4096 };

TEST(every_bit_counts)
{
	static uint8_t page[PAGE];
	test_rng r = {test_seed() | 1};
	for (size_t i = 0; i < PAGE; i++) page[i] = (uint8_t)test_rand(&r);
	page_sum_put(page, PAGE, 7);
	CHECK(page_check(page, PAGE, 7) == PAGE_RIGHT);
	CHECK(page_check(page, PAGE, 8) == PAGE_WRONG);
	for (size_t bit = 0; bit < 8 * PAGE; bit += 1 + (size_t)test_rand_below(&r, 7)) {
		page[bit / 8] = (uint8_t)(page[bit / 8] ^ 1u << bit % 8);
		CHECK_MSG(page_check(page, PAGE, 7) == PAGE_WRONG, "bit %zu", bit);
		page[bit / 8] = (uint8_t)(page[bit / 8] ^ 1u << bit % 8);
	}
}

TEST(pages_without_sums)
{
	static uint8_t page[PAGE];
	CHECK(page_check(page, PAGE, 3) == PAGE_NEVER_WRITTEN);
	/* A leaf of a table with one cell at 4000. */
	page[0] = 13;
	page[4] = 1;
	page[8] = 4000 >> 8;
	page[9] = 4000 & 255;
	page[4000] = 5;
	CHECK(page_check(page, PAGE, 3) == PAGE_UNSUMMED);
	page[4000] = 0; /* zeroed with the page's end */
	CHECK(page_check(page, PAGE, 3) == PAGE_WRONG);
}

TEST(the_mark_itself)
{
	static uint8_t page[PAGE] = "SQLite format 3";
	page[16] = PAGE >> 8;
	page[PAGE_RESERVED_AT] = PAGE_SUM_BYTES;
	page_sum_put(page, PAGE, 1);
	page_shape shape = page_shape_of(page);
	CHECK(shape.bytes == PAGE && shape.summed && !page_mark_is_damaged(page, PAGE));
	for (unsigned bit = 0; bit < 8; bit++) {
		page[PAGE_RESERVED_AT] = (uint8_t)(PAGE_SUM_BYTES ^ 1u << bit);
		CHECK(!page_shape_of(page).summed && page_mark_is_damaged(page, PAGE));
		CHECK(page[PAGE_RESERVED_AT] == (PAGE_SUM_BYTES ^ 1u << bit));
	}
	page[17] = 1; /* no size that a page can have */
	CHECK(page_shape_of(page).bytes == 0);
}

/* ---- connections ---- */

static sqlite3 *connect(const char *file, int reserved)
{
	CHECK(vfs_name(NULL));
	sqlite3 *db = test_sql_open(file);
	CHECK(sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved) == SQLITE_OK);
	CHECK(sqlite3_exec(db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL) == SQLITE_OK);
	return db;
}

static void run(sqlite3 *db, const char *text)
{
	char *message = NULL;
	CHECK_MSG(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK, "%s: %s", text, message);
}

static void pages_are_right(sqlite3 *db)
{
	sqlite3_stmt *stmt = NULL;
	vfs_looking l = {0};
	CHECK(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW);
	CHECK_STR((const char *)sqlite3_column_text(stmt, 0), "ok");
	(void)sqlite3_finalize(stmt);
	CHECK(vfs_has_sums(db) && vfs_pages_unsummed(db) == 0);
	CHECK_MSG(!vfs_pages_look(db, &l, INT64_MAX), "page %" PRIu64, l.wrong);
	CHECK_U64(l.unsummed, 0);
	CHECK(l.at > 10);
	vfs_looking_done(&l);
}

/* The one who folds has not read the database since it got sums: it must look at the file. */
TEST(sums_under_a_connection_that_knows_of_none)
{
	char file[600];
	(void)snprintf(file, sizeof(file), "%s/db", test_tmpdir());
	sqlite3 *old = connect(file, 0);
	run(old, "CREATE TABLE t(a,b); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<500) "
	         "INSERT INTO t SELECT x,randomblob(400) FROM c");
	CHECK(!vfs_has_sums(old));
	sqlite3 *db = connect(file, PAGE_SUM_BYTES);
	run(db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
	run(db, "UPDATE t SET b=randomblob(400) WHERE a=250"); /* not in the first page */
	CHECK(sqlite3_wal_checkpoint_v2(old, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) == SQLITE_OK);
	(void)sqlite3_close(db);
	db = connect(file, PAGE_SUM_BYTES);
	pages_are_right(db);
	/* And it goes on as one that has them. */
	run(old, "UPDATE t SET b=randomblob(500) WHERE a%3=0; PRAGMA wal_checkpoint(TRUNCATE)");
	pages_are_right(old);
	pages_are_right(db);
	(void)sqlite3_close(db);
	(void)sqlite3_close(old);
}

/* A reader that stays at the old picture while others add sums and fold what they can. */
TEST(sums_under_a_reader)
{
	char file[600];
	(void)snprintf(file, sizeof(file), "%s/db", test_tmpdir());
	sqlite3 *old = connect(file, 0);
	run(old, "CREATE TABLE t(a,b); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<500) "
	         "INSERT INTO t SELECT x,randomblob(400) FROM c; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA cache_size=1");
	run(old, "BEGIN; SELECT count(*) FROM t");
	sqlite3 *db = connect(file, PAGE_SUM_BYTES);
	run(db, "VACUUM");
	(void)sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	run(db, "UPDATE t SET b=randomblob(400) WHERE a=250");
	run(old, "SELECT sum(length(b)) FROM t; SELECT * FROM t; COMMIT");
	run(old, "SELECT sum(length(b)) FROM t");
	CHECK(sqlite3_wal_checkpoint_v2(old, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK);
	pages_are_right(old);
	pages_are_right(db);
	(void)sqlite3_close(db);
	(void)sqlite3_close(old);
}

/* Many pages written in one transaction that spills, read again inside it: its frames have no last sums yet. */
TEST(a_transaction_reads_what_it_spilled)
{
	char file[600];
	(void)snprintf(file, sizeof(file), "%s/db", test_tmpdir());
	sqlite3 *db = connect(file, PAGE_SUM_BYTES);
	run(db, "PRAGMA cache_size=10; CREATE TABLE t(a INTEGER PRIMARY KEY,b); BEGIN; WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL "
	        "SELECT x+1 FROM c WHERE x<2000) INSERT INTO t SELECT x,randomblob(300) FROM c");
	for (int i = 0; i < 3; i++) run(db, "UPDATE t SET b=randomblob(310) WHERE a%7=0; SELECT sum(length(b)) FROM t");
	run(db, "COMMIT; SELECT sum(length(b)) FROM t");
	vfs_looking l = {0};
	CHECK(!vfs_frames_look(db, &l));
	CHECK(l.at > 100);
	run(db, "PRAGMA wal_checkpoint(TRUNCATE)");
	pages_are_right(db);
	(void)sqlite3_close(db);
}
