/*
 * Rows that damage took were told as steps that "were pruned" or nodes that "a gc removed", a gc took them for what nobody needs and freed
 * what they held, and a backup of a damaged store succeeded. Here rows are taken away where no sum of a page can tell: a step is pruned
 * only where the one above it says so, a gc refuses a catalog that is not whole, and a backup looks at what it copies.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/sql.h"

enum { PAGE = 4096, LARGE = 100000 };

static const char *file_of(const char *name)
{
	static char path[700];
	(void)snprintf(path, sizeof(path), "%s/%s", test_store_path(), name);
	return path;
}

static void sql(const char *text)
{
	sqlite3 *db = test_sql_open(file_of("cowbox.db"));
	char *message = NULL;
	CHECK_MSG(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK, "%s: %s", text, message);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

static void make(void)
{
	static char large[LARGE];
	cb_error err = {0};
	char text[400];
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int i = 0; i < 30; i++) {
		(void)snprintf(text, sizeof(text), "%0300d", i);
		must_write(b, "/work/f", text);
	}
	memset(large, 'L', sizeof(large));
	CHECK_OK(cb_write_file(b, "/work/large", large, sizeof(large), NULL, &err));
	CHECK_OK(cb_checkpoint_save(b, "here", 9, true, &err));
	cb_box_close(must_fork(s, "demo@12", "fork"));
	cb_box_close(b);
	CHECK_OK(cb_store_vacuum(s, &err));
	cb_store_close(s);
}

static cb_code count_step(void *context, const cb_step *step, cb_error *err)
{
	(void)step;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static cb_code log_of(cb_store *s, const char *box, cb_error *err)
{
	cb_box *b = NULL;
	unsigned steps = 0;
	cb_code code = cb_box_open(s, box, &b, err);
	if (code == CB_OK) code = cb_log(b, NULL, count_step, &steps, NULL, err);
	cb_box_close(b);
	return code;
}

static void gc_refuses(const char *why)
{
	cb_error err = {0};
	cb_gc_result r = CB_INIT(cb_gc_result);
	cb_store *s = test_store_reopen();
	cb_code code = cb_store_gc(s, &r, &err);
	CHECK_MSG(code == CB_CORRUPT, "%s: gc: %s: %s", why, cb_code_name(code), err.message);
	CHECK_MSG(!strstr(err.message, "a gc removed") && !strstr(err.message, "was pruned"), "%s: %s", why, err.message);
	uint64_t complaints = 0;
	CHECK_OK(cb_store_check(s, NULL, NULL, &complaints, &err));
	CHECK_MSG(complaints > 0, "%s: fsck finds nothing", why);
	cb_store_close(s);
}

TEST(a_lost_step_is_not_a_pruned_one)
{
	cb_error err = {0};
	cb_box *b = NULL;
	make();
	sql("DELETE FROM step WHERE seq=20 AND box=(SELECT id FROM box WHERE name='demo')");
	cb_store *s = test_store_reopen();
	CHECK_CODE(cb_box_open(s, "demo@20", &b, &err), CB_CORRUPT);
	CHECK_CODE(log_of(s, "demo", &err), CB_CORRUPT);
	CHECK_OK(log_of(s, "fork", &err));
	CHECK_CODE(cb_box_open(s, "demo@99", &b, &err), CB_NOTFOUND);
	cb_store_close(s);
	gc_refuses("a step");
}

TEST(a_pruned_step_is_a_pruned_one)
{
	cb_error err = {0};
	cb_box *b = NULL, *old = NULL;
	make();
	cb_store *s = test_store_reopen();
	b = must_open(s, "demo");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 5), NULL, &err));
	cb_box_close(b);
	CHECK_CODE(cb_box_open(s, "demo@20", &old, &err), CB_STALE);
	CHECK_CODE(cb_box_open(s, "demo@2", &old, &err), CB_STALE);
	CHECK_OK(log_of(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_CODE(cb_box_open(s, "demo@20", &old, &err), CB_STALE);
	test_store_sound(s);
	cb_store_close(s);
}

/* Each in a store of its own. */
static void taken(const char *what)
{
	make();
	sql(what);
	gc_refuses(what);
}

TEST(a_gc_refuses_without_a_head)
{
	taken("DELETE FROM head WHERE box=(SELECT id FROM box WHERE name='demo')");
}

TEST(a_gc_refuses_without_a_box)
{
	taken("DELETE FROM box WHERE name='demo'");
}

TEST(a_gc_refuses_without_newest_steps)
{
	taken("DELETE FROM step WHERE seq>25");
}

TEST(a_gc_refuses_without_first_steps)
{
	taken("DELETE FROM step WHERE seq<5");
}

TEST(a_gc_refuses_without_the_origin)
{
	taken("DELETE FROM step WHERE seq=12");
}

TEST(a_gc_refuses_without_nodes)
{
	taken("DELETE FROM node");
}

/* As if another program had folded the log into the file. */
static void take_sums_off(void)
{
	struct stat st;
	int fd = open(file_of("cowbox.db"), O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	for (off_t at = 0; at < st.st_size; at += PAGE) CHECK(pwrite(fd, "\0\0\0\0\0\0\0", 8, at + PAGE - 8) == 8);
	CHECK(close(fd) == 0);
}

static off_t root_of(const char *table)
{
	char text[200];
	sqlite3_stmt *stmt = NULL;
	(void)snprintf(text, sizeof(text), "SELECT rootpage FROM sqlite_schema WHERE name='%s'", table);
	sqlite3 *db = test_sql_open(file_of("cowbox.db"));
	CHECK(sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW);
	off_t page = (off_t)sqlite3_column_int64(stmt, 0);
	(void)sqlite3_finalize(stmt);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	return (page - 1) * PAGE;
}

/* No page has a sum, and one bit makes rows vanish. */
static void refuses_fewer_cells(const char *table)
{
	enum { CELLS_AT = 4 };
	cb_error err = {0};
	uint8_t cells = 0;
	make();
	take_sums_off();
	off_t at = root_of(table) + CELLS_AT;
	int fd = open(file_of("cowbox.db"), O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, &cells, 1, at) == 1 && cells > 0);
	cells = (uint8_t)(cells & (cells - 1)); /* one bit less */
	CHECK(pwrite(fd, &cells, 1, at) == 1 && close(fd) == 0);
	cb_store *s = NULL;
	cb_code code = cb_store_open(test_store_path(), NULL, &s, &err);
	if (code == CB_OK) code = cb_store_gc(s, NULL, &err);
	cb_store_close(s);
	CHECK_MSG(code == CB_CORRUPT, "%s: %s", table, cb_code_name(code));
}

TEST(a_gc_refuses_fewer_boxes)
{
	refuses_fewer_cells("box");
}

TEST(a_gc_refuses_fewer_heads)
{
	refuses_fewer_cells("head");
}

TEST(a_gc_refuses_fewer_steps)
{
	refuses_fewer_cells("step");
}

TEST(a_gc_refuses_fewer_checkpoints)
{
	refuses_fewer_cells("checkpoint");
}

TEST(a_gc_refuses_fewer_contents)
{
	refuses_fewer_cells("content");
}

TEST(a_gc_refuses_fewer_places_in_segments)
{
	refuses_fewer_cells("content_segment");
}

TEST(a_vacuum_gives_sums_back)
{
	cb_error err = {0};
	cb_store_stats stats = CB_INIT(cb_store_stats);
	make();
	take_sums_off();
	cb_store *s = test_store_reopen();
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK(!stats.page_sums);
	test_store_sound(s);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_store_vacuum(s, &err));
	cb_store_close(s);
	s = test_store_reopen();
	test_store_sound(s);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK(stats.page_sums);
	cb_store_close(s);
}

/* ---- backups ---- */

static void backup_refuses(const char *why)
{
	cb_error err = {0};
	char copy[700], command[800];
	cb_store *s = test_store_reopen();
	(void)snprintf(copy, sizeof(copy), "%s/copies", test_tmpdir());
	CHECK(mkdir(copy, 0700) == 0);
	(void)snprintf(copy, sizeof(copy), "%s/copies/copy", test_tmpdir());
	cb_code code = cb_store_backup(s, copy, &err);
	CHECK_MSG(code == CB_CORRUPT, "%s: %s: %s", why, cb_code_name(code), err.message);
	CHECK_MSG(strstr(err.message, "fsck"), "%s: %s", why, err.message);
	(void)snprintf(command, sizeof(command), "rmdir '%s/copies'", test_tmpdir()); /* nothing is left in it */
	CHECK(system(command) == 0);
	cb_store_close(s);
}

static const char *segment(void)
{
	return file_of("seg/000001.seg");
}

TEST(a_backup_refuses_a_segment_that_is_gone)
{
	make();
	CHECK(unlink(segment()) == 0);
	backup_refuses("gone");
}

TEST(a_backup_refuses_a_short_segment)
{
	make();
	CHECK(truncate(segment(), 5000) == 0);
	backup_refuses("short");
}

TEST(a_backup_refuses_a_damaged_segment)
{
	make();
	int fd = open(segment(), O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && pwrite(fd, "x", 1, 5000) == 1 && close(fd) == 0);
	backup_refuses("damaged");
}

TEST(a_backup_refuses_a_short_database)
{
	struct stat st;
	make();
	CHECK(stat(file_of("cowbox.db"), &st) == 0);
	CHECK(truncate(file_of("cowbox.db"), (st.st_size / PAGE - 2) * PAGE) == 0);
	backup_refuses("short");
}

TEST(a_backup_of_pages_without_sums_is_looked_at)
{
	make();
	sql("UPDATE content SET data=zeroblob(300) WHERE id=(SELECT max(id) FROM content WHERE segment=0)");
	take_sums_off();
	backup_refuses("a row");
}
