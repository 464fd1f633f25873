/*
 * test_migration.c: stores written by the previous version. tests/contract/store_v1.sql is what format 1 wrote: a box with steps of several
 * kinds, a checkpoint, quotas and settings; a fork that was merged back; a deleted box.
 */
#include "box/internal.h"
#include "harness/boxes.h"
#include "harness/crashes.h"
#include "harness/sql.h"
#include "store/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder(void)
{
	static char path[512];
	(void)snprintf(path, sizeof(path), "%s/old", test_tmpdir());
	return path;
}

static sqlite3 *database(void)
{
	char file[600];
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder());
	return test_sql_open(file);
}

static int64_t number(const char *text)
{
	sqlite3 *db = database();
	int64_t n = test_sql_number(db, text);
	(void)sqlite3_close(db);
	return n;
}

static void sql(const char *text)
{
	sqlite3 *db = database();
	char *message = NULL;
	CHECK_MSG(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK, "%s", message);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

static void make_old_store(void)
{
	static char text[1 << 16];
	char command[640];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder());
	CHECK(system(command) == 0);
	FILE *f = fopen("tests/contract/store_v1.sql", "r");
	CHECK(f);
	size_t size = fread(text, 1, sizeof(text) - 1, f);
	CHECK(size > 1000 && size < sizeof(text) - 1 && fclose(f) == 0);
	text[size] = 0;
	CHECK(mkdir(folder(), 0700) == 0);
	sql("PRAGMA journal_mode=WAL");
	sql(text);
	CHECK_U64(number("PRAGMA user_version"), 1);
}

static cb_store *open_old(bool read_only)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(folder(), &CB_WITH(cb_store_options, .no_create = true, .read_only = read_only), &s, &err));
	return s;
}

static cb_code count_boxes(void *context, const cb_box_info *info, cb_error *err)
{
	(void)info;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static cb_code count_entries(void *context, const cb_audit *a, cb_error *err)
{
	(void)a;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static unsigned entries(cb_store *s)
{
	cb_error err = {0};
	unsigned n = 0;
	CHECK_OK(cb_audit_list(s, NULL, count_entries, &n, &err));
	return n;
}

static cb_code count_checkpoints(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)err;
	++((unsigned *)context)[c->automatic];
	return CB_OK;
}

static void check_checkpoints(cb_box *b, unsigned own, unsigned automatic)
{
	cb_error err = {0};
	unsigned n[2] = {0, 0};
	CHECK_OK(cb_checkpoint_list(b, count_checkpoints, n, &err));
	CHECK_U64(n[0], own);
	CHECK_U64(n[1], automatic);
}

static void check_contents(cb_store *s)
{
	cb_error err = {0};
	unsigned boxes = 0;
	cb_box_info info = CB_INIT(cb_box_info);
	char *value = NULL;
	size_t size = 0;
	CHECK_OK(cb_box_list(s, count_boxes, &boxes, &err));
	CHECK_U64(boxes, 2);
	cb_box *b = must_open(s, "demo"), *at = must_open(s, "demo@before"), *first = must_open(s, "demo@1"),
	       *f = must_open(s, "try");
	CHECK_STR(must_read(b, "/work/a.txt"), "two\n");
	CHECK_STR(must_read(at, "/work/a.txt"), "two\n");
	CHECK_STR(must_read(first, "/work/a.txt"), "one\n");
	CHECK_STR(must_read(f, "/work/b.txt"), "fork\n");
	CHECK(!exists(b, "/work/b.txt")); /* merged and undone */
	CHECK_U64(strlen(must_read(b, "/work/big")), 900);
	CHECK_OK(cb_kv_get(b, "k", &value, &size, &err));
	CHECK_STR(test_keep(value), "v");
	CHECK_OK(cb_setting_get(b, "mine", &value, NULL, &err));
	CHECK_STR(test_keep(value), "value");
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_U64(info.seq, 7);
	CHECK_U64(info.quota_bytes, 1000000);
	CHECK_U64(info.keep_steps, 50);
	CHECK_U64(info.checkpoint_every, 0);
	check_checkpoints(b, 1, 0); /* whatever an older store has may be somebody's own */
	cb_box_close(f);
	cb_box_close(first);
	cb_box_close(at);
	cb_box_close(b);
	test_store_sound(s);
}

TEST(everything_is_kept)
{
	cb_error err = {0};
	make_old_store();
	cb_store *s = open_old(false);
	CHECK_U64(number("PRAGMA user_version"), 3);
	check_contents(s);
	CHECK_U64(entries(s), 7 + 1 + 1); /* the steps of two boxes, and of one that was deleted */
	cb_box *b = must_open(s, "demo");
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_STR(must_read(b, "/work/b.txt"), "fork\n");
	CHECK_OK(cb_box_checkpoint_every_set(b, 9, &err));
	must_write(b, "/work/new", "n");
	cb_box_close(must_open(s, "demo@auto-9"));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_U64(entries(s), 9 + 1 + 3);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
	s = open_old(false);
	CHECK_U64(entries(s), 9 + 1 + 3);
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- edges of history ---- */

/* The fork, its merge and the undo of that are known; so the merge does not count, and merging again brings what it brought. */
TEST(an_undone_merge_is_still_undone)
{
	cb_error err = {0};
	make_old_store();
	cb_store *s = open_old(false);
	CHECK_U64(number("SELECT count(*) FROM edge WHERE kind=1 AND box=2 AND seq=0 AND other_box=1"), 1);
	CHECK_U64(number("SELECT count(*) FROM edge WHERE kind=2 AND box=1 AND seq=6 AND other_box=2 AND other_seq=1"), 1);
	CHECK_U64(number("SELECT count(*) FROM edge WHERE kind=4 AND box=1 AND seq=7 AND other_box=1 AND other_seq=6"), 1);
	CHECK_U64(number("SELECT count(*) FROM setting WHERE key LIKE 'cowbox.merged-%'"), 0);
	cb_box *b = must_open(s, "demo"), *f = must_open(s, "try");
	CHECK(!exists(b, "/work/b.txt"));
	CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(b, "/work/b.txt"), "fork\n");
	CHECK_CODE(cb_merge(b, f, NULL, NULL, NULL, &err), CB_NOTHING);
	cb_box_close(f);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static void note_edge(void *context, const char *line)
{
	if (strstr(line, "edge 2 of the history is damaged")) ++*(unsigned *)context;
}

static char *edge_text(void)
{
	sqlite3 *db = database();
	sqlite3_stmt *stmt = NULL;
	static const char query[] =
		"SELECT group_concat(t,' ') FROM (SELECT box||'@'||seq||' '||kind||' '||other_box||'@'||other_seq t "
		"FROM edge ORDER BY id)";
	CHECK(sqlite3_prepare_v2(db, query, -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW);
	char *text = test_keep(strdup((const char *)sqlite3_column_text(stmt, 0)));
	(void)sqlite3_finalize(stmt);
	(void)sqlite3_close(db);
	return text;
}

/* Edges made from the steps of a store of format 2 are those that were written when the steps were made. */
TEST(edges_made_from_steps)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *a = NULL;
	char command[640];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder());
	CHECK(system(command) == 0);
	CHECK_OK(cb_store_open(folder(), NULL, &s, &err));
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_write(a, "/work/f", "1");
	cb_box *b = must_fork(s, "a", "b"), *c = must_fork(s, "b@0", "c"), *old = must_open(s, "a@0");
	must_write(b, "/work/b", "b");
	must_write(c, "/work/c", "c");
	CHECK_OK(cb_merge(a, b, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(c, a, NULL, NULL, NULL, &err));
	CHECK_OK(cb_restore(a, old, NULL, NULL, &err));
	CHECK_OK(cb_undo(a, 0, NULL, &err));
	CHECK_OK(cb_redo(a, NULL, &err));
	CHECK_OK(cb_merge(b, c, NULL, NULL, NULL, &err));
	CHECK_OK(cb_restore(b, c, "/work/c", NULL, &err)); /* of one path: no edge */
	must_write(b, "/work/b", "2");
	CHECK_OK(cb_merge(a, b, NULL, NULL, NULL, &err));
	cb_box_close(old);
	cb_box_close(a);
	cb_box_close(b);
	cb_box_close(c);
	cb_store_close(s);
	char *written = edge_text();
	sql("DROP TABLE edge; DROP TABLE pin; ALTER TABLE checkpoint DROP COLUMN automatic; "
	    "ALTER TABLE head RENAME COLUMN next_inode TO next_ino; PRAGMA user_version=2");
	cb_store_close(open_old(false));
	CHECK_STR(edge_text(), written);
	s = open_old(false);
	test_store_sound(s);
	cb_store_close(s);
	unsigned found = 0;
	sql("UPDATE edge SET other_seq=other_seq+1 WHERE id=2");
	s = open_old(false);
	CHECK_OK(cb_store_check(s, note_edge, &found, NULL, &err));
	CHECK_U64(found, 1);
	cb_store_close(s);
}

static bool has_sums(cb_store *s)
{
	cb_error err = {0};
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	return stats.page_sums;
}

static uint8_t byte_of_database(off_t at)
{
	char file[600];
	uint8_t byte = 0;
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder());
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1 && close(fd) == 0);
	return byte;
}

/* Pages of an old store have no sums until a vacuum, which adds them under handles of others. */
TEST(a_vacuum_adds_sums)
{
	enum { RESERVED_AT = 20 };
	cb_error err = {0};
	make_old_store();
	cb_store *s = open_old(false), *other = open_old(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(other, "more", &b, &err));
	must_write(b, "/work/f", "before");
	CHECK(!has_sums(s) && !has_sums(other) && byte_of_database(RESERVED_AT) == 0);
	test_store_sound(s);
	CHECK_OK(cb_store_vacuum(s, &err));
	CHECK(has_sums(s));
	CHECK_STR(must_read(b, "/work/f"), "before");
	must_write(b, "/work/f", "after");
	CHECK(has_sums(other) && byte_of_database(RESERVED_AT) == 8);
	/* The other one folds what it wrote: it must add sums too, whatever it knew when it was opened. */
	CHECK_OK(cb_store_vacuum(other, &err));
	test_store_sound(s);
	CHECK_STR(must_read(b, "/work/f"), "after");
	cb_box_close(b);
	cb_store_close(other);
	cb_store_close(s);
	s = open_old(true);
	test_store_sound(s);
	CHECK(has_sums(s));
	cb_store_close(s);
}

/* What a new store has and what an old one becomes are the same tables. */
TEST(same_tables_as_a_new_store)
{
	static const char schema[] = "SELECT group_concat(sql,char(10)) FROM (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL "
				     "AND name NOT LIKE 'sqlite_%' ORDER BY name)";
	char *texts[2] = {0};
	for (int i = 0; i < 2; i++) {
		cb_error err = {0};
		cb_store *s = NULL;
		char command[640];
		make_old_store();
		(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder());
		if (i) CHECK(system(command) == 0);
		CHECK_OK(cb_store_open(folder(), NULL, &s, &err));
		cb_store_close(s);
		sqlite3 *db = database();
		sqlite3_stmt *stmt = NULL;
		CHECK(sqlite3_prepare_v2(db, schema, -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW);
		texts[i] = test_keep(strdup((const char *)sqlite3_column_text(stmt, 0)));
		(void)sqlite3_finalize(stmt);
		(void)sqlite3_close(db);
	}
	CHECK_STR(texts[0], texts[1]);
}

TEST(read_without_being_changed)
{
	cb_error err = {0};
	make_old_store();
	cb_store *s = open_old(true);
	check_contents(s);
	CHECK_U64(entries(s), 7 + 1 + 1);
	CHECK_CODE(cb_box_create(s, "x", NULL, &err), CB_READONLY);
	char to[600];
	(void)snprintf(to, sizeof(to), "%s-copy", folder());
	CHECK_U64(number("PRAGMA user_version"), 1);
	/* Somebody else brings it up to date meanwhile: this handle goes on. */
	cb_store *w = open_old(false);
	CHECK_U64(number("PRAGMA user_version"), 3);
	cb_box *b = must_open(w, "demo");
	must_write(b, "/work/a.txt", "two\n");
	CHECK_OK(cb_checkpoint_save(b, NULL, 0, true, &err));
	check_checkpoints(b, 1, 1);
	cb_box_close(b);
	b = must_open(s, "demo");
	CHECK_U64(must_seq(b), 8);
	check_checkpoints(b, 1, 1);
	CHECK_U64(entries(s), 8 + 1 + 1);
	cb_box_close(b);
	cb_store_close(w);
	cb_store_close(s);
	s = open_old(true);
	CHECK_U64(entries(s), 8 + 1 + 1 + 1);
	cb_store_close(s);
}

/* Killed before each write in turn: the store is of the one format or the other, and whole. */
TEST_LIMIT(killed_on_the_way, 120)
{
	int status = -1;
	bool old_seen = false, new_seen = false;
	for (long n = 1; status != 0; n++) {
		make_old_store();
		CHECK(n < 500);
		status = crash_open_killed(folder(), n);
		CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
		int64_t version = number("PRAGMA user_version"),
			tables = number("SELECT count(*) FROM sqlite_schema WHERE name IN ('audit', 'pin', 'edge')");
		CHECK(version == 1 || version == 3);
		CHECK_U64(tables, version == 3 ? 3 : 0);
		old_seen = old_seen || version == 1;
		new_seen = new_seen || version == 3;
		cb_store *s = open_old(false);
		check_contents(s);
		cb_store_close(s);
	}
	CHECK(old_seen && new_seen);
}

/* Writes that fail: an error or success, never half. */
TEST_LIMIT(writes_that_fail_on_the_way, 120)
{
	for (long n = 1, total = 1; n <= total && n < 100; n++) {
		make_old_store();
		store_fault_plan plan = {.op[STORE_FAULT_WRITE] = {.error = ENOSPC, .lasting = true}};
		atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, n);
		cb_store *s = NULL;
		cb_error err = {0};
		cb_code code = crash_store_open(folder(), &plan, false, &s, &err);
		total = code == CB_OK ? n : n + 1;
		CHECK_MSG(code == CB_OK || code == CB_NOSPACE || code == CB_IO, "%s", err.message);
		if (code == CB_OK) cb_store_close(s);
		store_fault_plan_done(&plan);
		s = open_old(false);
		check_contents(s);
		cb_store_close(s);
	}
}

TEST_LIMIT(opened_by_many_at_once, 120)
{
	enum { WORKERS = 8 };
	for (int round = 0; round < 3; round++) {
		make_old_store();
		for (int w = 0; w < WORKERS; w++) {
			if (fork() != 0) continue;
			cb_store *s = NULL;
			cb_box *b = NULL;
			char name[32];
			bool read_only = w == 0;
			(void)snprintf(name, sizeof(name), "w%d", w);
			bool bad = cb_store_open(folder(), &CB_WITH(cb_store_options, .read_only = read_only), &s, NULL) != CB_OK;
			if (!bad && !read_only) bad = cb_box_create(s, name, NULL, NULL) != CB_OK;
			if (!bad) bad = cb_box_open(s, "demo@before", &b, NULL) != CB_OK;
			if (!bad) bad = cb_mkdir(b, "/work/x", 0755, 0, NULL) != CB_READONLY;
			cb_box_close(b);
			cb_store_close(s);
			_exit(bad);
		}
		for (int w = 0; w < WORKERS; w++) {
			int status = 0;
			CHECK(wait(&status) > 0);
			CHECK_U64(status, 0);
		}
		cb_store *s = open_old(false);
		for (int w = 1; w < WORKERS; w++) {
			char name[32];
			(void)snprintf(name, sizeof(name), "w%d", w);
			cb_error err = {0};
			CHECK_OK(cb_box_delete(s, name, &err));
		}
		check_contents(s);
		cb_store_close(s);
	}
}

/* ---- rows that were damaged, and rows that cannot be written ---- */

static void note_complaint(void *context, const char *line)
{
	if (strstr(line, "of the audit is damaged")) ++*(unsigned *)context;
}

TEST(damaged_entries_are_found)
{
	static const char *const damages[] = {
		"UPDATE audit SET who='nobody' WHERE code<>0",      "UPDATE audit SET count=count+1 WHERE code<>0",
		"UPDATE audit SET time_ns=time_ns+1 WHERE code<>0", "UPDATE audit SET code=-1 WHERE code<>0",
		"UPDATE audit SET subject='/work' WHERE code<>0",   "UPDATE audit SET id=77 WHERE code<>0",
	};
	for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
		cb_error err = {0};
		unsigned found = 0, n = 0;
		make_old_store();
		cb_store *s = open_old(false);
		cb_box *b = must_open(s, "demo");
		CHECK_OK(cb_setting_set(b, "a", "1", CB_STRING, &err));
		CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
		cb_box_close(b);
		cb_store_close(s);
		sql(damages[i]);
		s = open_old(false);
		cb_code listed = cb_audit_list(s, NULL, count_entries, &n, &err);
		CHECK(listed == CB_CORRUPT || strstr(damages[i], "-77")); /* a number that no walk meets */
		CHECK_OK(cb_store_check(s, note_complaint, &found, NULL, &err));
		CHECK_U64(found, 1);
		b = must_open(s, "demo"); /* the damaged row is the newest: it is nobody's twin, and nobody waits for its repair */
		CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
		CHECK_OK(cb_setting_set(b, "a", "2", CB_STRING, &err));
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* Killed before each write in turn: what was done and the record of it are both there or both not. */
TEST_LIMIT(deeds_and_their_records_are_one, 120)
{
	int status = -1;
	for (long n = 1; status != 0; n++) {
		make_old_store();
		cb_store_close(open_old(false));
		CHECK(n < 500);
		pid_t pid = fork();
		if (pid == 0) {
			static store_fault_plan plan;
			plan = (store_fault_plan){.cut = crash_die};
			cb_store *s = NULL;
			cb_box *b = NULL;
			bool bad = crash_store_open(folder(), &plan, false, &s, NULL) != CB_OK;
			atomic_store(&plan.cut_at_write, n);
			bad = bad || cb_box_create(s, "x", &b, NULL) != CB_OK;
			bad = bad || cb_box_quota_set(b, 7, 0, 0, NULL) != CB_OK;
			bad = bad || cb_setting_set(b, "s", "v", CB_STRING, NULL) != CB_OK;
			bad = bad || cb_checkpoint_save(b, "c", 0, true, NULL) != CB_OK;
			cb_box_close(b);
			bad = bad || cb_box_delete(s, "try", NULL) != CB_OK;
			cb_store_close(s);
			_exit(bad);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
		cb_store_close(open_old(false));
		CHECK_U64(number("SELECT count(*) FROM box WHERE name='x'"),
		          number("SELECT count(*) FROM audit WHERE action='create'"));
		CHECK_U64(number("SELECT count(*) FROM box WHERE quota_bytes=7"),
		          number("SELECT count(*) FROM audit WHERE action='quota'"));
		CHECK_U64(number("SELECT count(*) FROM setting WHERE key='s'"),
		          number("SELECT count(*) FROM audit WHERE action='setting'"));
		CHECK_U64(number("SELECT count(*) FROM checkpoint WHERE name='c'"),
		          number("SELECT count(*) FROM audit WHERE action='checkpoint'"));
		CHECK_U64(number("SELECT deleted FROM box WHERE name='try'"),
		          number("SELECT count(*) FROM audit WHERE action='delete'"));
	}
	CHECK_U64(number("SELECT count(*) FROM audit"), 5);
}

TEST(a_refusal_that_cannot_be_recorded)
{
	cb_error err = {0};
	make_old_store();
	store_fault_plan plan = {.op[STORE_FAULT_WRITE] = {.error = ENOSPC, .lasting = true}};
	cb_store *s = NULL;
	CHECK_OK(crash_store_open(folder(), &plan, false, &s, &err));
	cb_box *b = must_open(s, "demo");
	unsigned before = entries(s);
	atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 1);
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	CHECK(strstr(err.message, "'/usr' belongs to the system"));
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, NULL), CB_RESERVED);
	CHECK_CODE(cb_box_create(s, "x", NULL, &err), CB_NOSPACE);
	CHECK_U64(entries(s), before);
	atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 0);
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	CHECK_U64(entries(s), before + 1);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	store_fault_plan_done(&plan);
}
