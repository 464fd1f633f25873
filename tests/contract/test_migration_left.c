/*
 * test_migration_left.c: a store of format 2 as its program left it when it was killed: tests/contract/store_v2.tar.xz has the log, a
 * box from a host folder (demo) with its base, a checkpoint, a large file, a hard link, forks p and q of it, r and s that merged both in
 * turn (r took p's line back afterwards), u with a merge that was undone, a deleted box, a draft that nobody published, and in demo's
 * slot what a command had written when its caller died.
 */
#include "box/box.h"
#include "harness/boxes.h"
#include "harness/crashes.h"
#include "harness/sql.h"
#include "store/fault.h"
#include "work/stamp.h"

#include <cowbox/exec.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder(void)
{
	static char path[512];
	(void)snprintf(path, sizeof(path), "%s/left", test_tmpdir());
	return path;
}

static int64_t number(const char *text)
{
	char file[600];
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder());
	sqlite3 *db = test_sql_open(file);
	int64_t n = test_sql_number(db, text);
	(void)sqlite3_close(db);
	return n;
}

/* As if the machine had not been started anew since. */
static void stamp_of_this_boot(void)
{
	cb_error err = {0};
	char path[600];
	stamp s;
	(void)snprintf(path, sizeof(path), "%s/work/slots/1.0", folder());
	int fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_OK(stamp_read(fd, &s, &err));
	CHECK(s.base.box == 1 && s.base.seq != 0);
	(void)snprintf(s.boot, sizeof(s.boot), "%s", stamp_boot());
	CHECK_OK(stamp_write(fd, &s, &err));
	CHECK(close(fd) == 0);
}

static void make_left_store(void)
{
	char command[1700];
	(void)snprintf(command, sizeof(command),
	               "rm -rf '%s' && mkdir -m 700 '%s' && tar -C '%s' -xJf tests/contract/store_v2.tar.xz", folder(), folder(),
	               folder());
	CHECK(system(command) == 0);
	stamp_of_this_boot();
}

static cb_store *open_left(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(folder(), &CB_WITH(cb_store_options, .no_create = true), &s, &err));
	return s;
}

static cb_code note_name(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	(void)strcat(strcat(context, info->name), " ");
	return CB_OK;
}

static void check_contents(cb_store *s)
{
	cb_error err = {0};
	char names[256] = "";
	CHECK_OK(cb_box_list(s, note_name, names, &err));
	CHECK_STR(names, "demo p q r s u ");
	cb_box *demo = must_open(s, "demo"), *start = must_open(s, "demo@start"), *first = must_open(s, "demo@1"), *base = NULL;
	CHECK_STR(must_read(demo, "/work/a.txt"), "uno\n");
	CHECK_STR(must_read(demo, "/work/link"), "uno\n");
	CHECK_U64(strlen(must_read(demo, "/work/large")), 100000);
	CHECK_STR(must_read(start, "/work/a.txt"), "uno\n");
	CHECK_STR(must_read(first, "/work/a.txt"), "one\n");
	CHECK_OK(box_base_open(demo, BOX_BASE_EXISTING, &base, &err));
	CHECK_STR(must_read(base, "/work/a.txt"), "one\n");
	cb_box_close(base);
	cb_box_close(first);
	cb_box_close(start);
	cb_box_close(demo);
	test_store_sound(s);
}

TEST(everything_is_kept)
{
	make_left_store();
	cb_store *s = open_left();
	CHECK_U64(number("PRAGMA user_version"), 3);
	check_contents(s);
	cb_store_close(s);
}

/* The merges of both sides are known, so both of their bases are; the undone one is known as undone. */
TEST(merges_go_on)
{
	cb_error err = {0};
	make_left_store();
	cb_store *s = open_left();
	cb_box *p = must_open(s, "p"), *r = must_open(s, "r"), *t = must_open(s, "s"), *u = must_open(s, "u");
	CHECK_OK(cb_merge(t, r, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(t, "/work/c.txt"), "1q\n2\n3\n4\n5\n");
	CHECK_CODE(cb_merge(t, r, NULL, NULL, NULL, &err), CB_NOTHING);
	CHECK_STR(must_read(u, "/work/c.txt"), "1\n2\n3\n4\n5\n");
	CHECK_OK(cb_merge(u, p, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(u, "/work/c.txt"), "1\n2\n3\n4\n5p\n");
	cb_box_close(u);
	cb_box_close(t);
	cb_box_close(r);
	cb_box_close(p);
	test_store_sound(s);
	cb_store_close(s);
}

static void check_captured(cb_store *s)
{
	cb_error err = {0};
	uint64_t steps = 0;
	CHECK_OK(cb_exec_recover(s, NULL, &steps, &err));
	CHECK_U64(steps, 1);
	cb_box *b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/left.txt"), "left\n");
	CHECK(!exists(b, "/work/src/b.txt"));
	CHECK(exists(b, "/work/ready"));
	cb_box_close(b);
}

TEST(what_a_command_left_is_captured)
{
	cb_error err = {0};
	make_left_store();
	cb_store *s = open_left();
	check_captured(s);
	CHECK_U64(number("SELECT count(*) FROM pin"), 0);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_store_close(s);
}

/* Prune and gc before anybody looked for what commands left: the state it began from is still there. Afterwards they work again. */
TEST(pruned_before_it_is_captured)
{
	cb_error err = {0};
	make_left_store();
	cb_store *s = open_left();
	cb_box *b = must_open(s, "demo");
	for (int i = 0; i < 20; i++) must_write(b, "/work/later", i % 2 ? "1" : "2");
	uint64_t pruned = 0;
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	CHECK_U64(pruned, 0);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	check_captured(s);
	CHECK_STR(must_read(b, "/work/later"), "1");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	CHECK(pruned > 10);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* A program of the earlier version that has it open names a column of every commit that is not there any more. */
TEST(an_open_program_of_the_earlier_version_cannot_write)
{
	make_left_store();
	char file[600];
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder());
	CHECK(sqlite3_open(file, &db) == SQLITE_OK);
	static const char commit[] = "UPDATE head SET next_state=next_state+1,next_ino=next_ino+1 WHERE box=0";
	CHECK(sqlite3_prepare_v2(db, commit, -1, &stmt, NULL) == SQLITE_OK);
	cb_store_close(open_left());
	CHECK(sqlite3_step(stmt) == SQLITE_ERROR);
	(void)sqlite3_finalize(stmt);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

/* Killed before each write in turn: of the one format or the other, with the pins or without the table. */
TEST_LIMIT(killed_on_the_way, 120)
{
	int status = -1;
	bool old_seen = false, new_seen = false;
	for (long n = 1; status != 0; n++) {
		make_left_store();
		CHECK(n < 500);
		status = crash_open_killed(folder(), n);
		CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
		int64_t version = number("PRAGMA user_version");
		CHECK(version == 2 || version == 3);
		if (version == 2) CHECK_U64(number("SELECT count(*) FROM sqlite_schema WHERE name IN ('pin','edge')"), 0);
		else CHECK_U64(number("SELECT count(*) FROM pin"), number("SELECT count(*) FROM box WHERE deleted=0"));
		old_seen = old_seen || version == 2;
		new_seen = new_seen || version == 3;
		cb_store *s = open_left();
		check_contents(s);
		cb_store_close(s);
	}
	CHECK(old_seen && new_seen);
}
