/* test_store_disk.c: reopening, backup and vacuum; folders and databases that are refused; damage. */
#include <sys/stat.h>
#include <unistd.h>

#include "contract/test_store_kit.h"
#include "harness/sql.h"

/* ---- reopening ---- */

TEST(reopen_keeps_everything)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	for (uint64_t i = 1; i <= 50; i++) step_add(s, box, i, "write");
	uint64_t small = content_new(s, 500, 1), large = content_new(s, 500000, 2);
	commit(s);
	store_close(s);
	s = open_at(folder(), NULL);
	content_check(s, small, 500, 1);
	content_check(s, large, 500000, 2);
	uint64_t n = 0;
	CHECK_OK(store_step_count(s, box, &n, &err));
	CHECK_U64(n, 50);
	begin(s);
	CHECK_U64(take(s, STORE_NEXT_STATE), 51);
	commit(s);
	check_clean(s);
	store_close(s);
	store_close(NULL);
}

TEST(modes_do_not_depend_on_umask)
{
	(void)umask(0);
	store *s = open_at(folder(), NULL);
	begin(s);
	(void)content_new(s, 100000, 1);
	commit(s);
	static const char *const names[] = {"cowbox.db", "cowbox.db-wal", "cowbox.db-shm", "locks", "live", "seg/000001.seg"};
	struct stat st;
	for (size_t i = 0; i < 6; i++) {
		CHECK_MSG(stat(in_folder(names[i]), &st) == 0, "%s", names[i]);
		CHECK_MSG((st.st_mode & 0777) == 0600, "%s %o", names[i], st.st_mode);
	}
	CHECK(stat(in_folder("seg"), &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(stat(folder(), &st) == 0 && (st.st_mode & 0777) == 0700);
	store_close(s);
}

TEST(short_lived_handles_share_a_segment)
{
	for (uint64_t i = 0; i < 5; i++) {
		store *s = open_at(folder(), NULL);
		CHECK_U64(content_new(s, 100000, i), i + 1);
		store_close(s);
	}
	store *s = open_at(folder(), NULL), *t = open_at(folder(), NULL);
	for (uint64_t i = 0; i < 5; i++) content_check(s, i + 1, 100000, i);
	store_stats st;
	CHECK_OK(store_stats_get(s, &st, &err));
	CHECK_U64(st.segments, 1);
	(void)content_new(s, 100000, 9);
	(void)content_new(t, 100000, 9); /* two at once do not */
	CHECK_OK(store_stats_get(s, &st, &err));
	CHECK_U64(st.segments, 2);
	store_close(s);
	store_close(t);
}

static void boot_again(void)
{
	sqlite3 *db = test_sql_open(in_folder("cowbox.db"));
	CHECK(sqlite3_exec(db, "UPDATE meta SET value='other' WHERE key='boot_id'", NULL, NULL, NULL) == SQLITE_OK);
	(void)sqlite3_close(db);
}

static uint64_t state_after_open(void)
{
	store *s = open_at(folder(), NULL);
	begin(s);
	uint64_t state = take(s, STORE_NEXT_STATE);
	commit(s);
	store_close(s);
	return state;
}

/* Behind what was reserved, once per boot; a million when that is not known. */
TEST(another_boot_skips_numbers)
{
	uint64_t before = state_after_open();
	CHECK_U64(state_after_open(), before + 1);
	boot_again();
	uint64_t after = state_after_open();
	CHECK(after > before + 1 && after < before + (1 << 17));
	CHECK_U64(state_after_open(), after + 1);
	CHECK(unlink(in_folder("numbers")) == 0);
	boot_again();
	CHECK_U64(state_after_open(), after + 2 + (1 << 20));
	/* Lost and made again in one boot. */
	CHECK(unlink(in_folder("numbers")) == 0);
	CHECK_U64(state_after_open(), after + 3 + (1 << 20));
	boot_again();
	CHECK(state_after_open() > after + 4 + (1 << 20));
}

TEST(backup_is_a_store)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	uint64_t small = content_new(s, 500, 1), large = content_new(s, 500000, 2);
	step_add(s, box, 1, "write");
	commit(s);
	char to[600];
	(void)snprintf(to, sizeof to, "%s/copy", test_tmpdir());
	CHECK_OK(store_backup(s, to, &err));
	CHECK_CODE(store_backup(s, to, &err), CB_EXISTS);
	begin(s);
	step_add(s, box, 2, "write");
	commit(s);
	store_close(s);
	s = open_at(to, NULL);
	content_check(s, small, 500, 1);
	content_check(s, large, 500000, 2);
	uint64_t n = 0;
	CHECK_OK(store_step_count(s, box, &n, &err));
	CHECK_U64(n, 1);
	check_clean(s);
	store_close(s);
	s = open_at(NULL, NULL);
	large = content_new(s, 500000, 7);
	(void)snprintf(to, sizeof to, "%s/from-memory", test_tmpdir());
	CHECK_OK(store_backup(s, to, &err));
	store_close(s);
	s = open_at(to, NULL);
	content_check(s, large, 500000, 7);
	store_close(s);
}

TEST(vacuum_moves_live_contents_under_readers)
{
	store *s = open_at(folder(), NULL), *reader = open_at(folder(), NULL);
	uint64_t ids[10];
	for (uint64_t i = 0; i < 10; i++) ids[i] = content_new(s, 200000, i);
	content_check(reader, ids[3], 200000, 3);
	uint64_t keep[2] = {ids[3], 0}, horizon = 0;
	store_gc_stats st;
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_CODE(store_vacuum(reader, &err), CB_BUSY);
	CHECK_OK(store_gc_sweep(s, horizon, marked, keep, &st, &err));
	store_gc_end(s);
	CHECK_U64(st.contents_freed, 9);
	CHECK_OK(store_vacuum(s, &err));
	CHECK(access(in_folder("seg/000001.seg"), F_OK) != 0);
	content_check(reader, ids[3], 200000, 3);
	content_check(s, ids[3], 200000, 3);
	store_stats stats;
	CHECK_OK(store_stats_get(s, &stats, &err));
	CHECK(stats.segments == 1 && stats.segment_bytes < 300000);
	check_clean(s);
	store_close(reader);
	store_close(s);
	s = open_at(folder(), NULL);
	content_check(s, ids[3], 200000, 3);
	store_close(s);
}

/* ---- folders and files that are not a store of ours ---- */

static cb_code try_open(const char *path, bool create, bool read_only)
{
	store *s = NULL;
	store_options o = {.path = path, .create = create, .read_only = read_only};
	cb_code code = store_open(&o, &s, &err);
	store_close(s);
	if (code != CB_OK) CHECK_MSG(err.message[0] && !strchr(err.message, '\n'), "'%s'", err.message);
	return code;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void sql(const char *text)
{
	sqlite3 *db = test_sql_open(in_folder("cowbox.db"));
	char *message = NULL;
	CHECK_MSG(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK, "%s: %s", text, message);
	(void)sqlite3_close(db);
}

TEST(folders_that_are_refused)
{
	CHECK_CODE(try_open(folder(), false, false), CB_NOTFOUND);
	CHECK_CODE(try_open(folder(), true, true), CB_NOTFOUND);
	write_file(folder(), "a file");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(unlink(folder()) == 0 && mkdir(folder(), 0700) == 0);
	CHECK_CODE(try_open(folder(), false, false), CB_NOTFOUND);
	write_file(in_folder("notes.txt"), "mine");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(unlink(in_folder("notes.txt")) == 0);
	CHECK(chmod(folder(), 0755) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_DENIED);
	CHECK(chmod(folder(), 0707) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_DENIED);
	CHECK(chmod(folder(), 0700) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_OK);
	CHECK_CODE(try_open(folder(), false, false), CB_OK);
	if (geteuid() == 0) {
		CHECK(chown(folder(), 65534, 65534) == 0);
		CHECK_CODE(try_open(folder(), false, false), CB_DENIED);
	}
}

TEST(databases_that_are_refused)
{
	CHECK(mkdir(folder(), 0700) == 0);
	write_file(in_folder("cowbox.db"), "this is not a database at all");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(strstr(err.message, "cowbox.db"));
	CHECK(unlink(in_folder("cowbox.db")) == 0);
	sql("CREATE TABLE t(a)");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	sql("PRAGMA application_id=77");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(unlink(in_folder("cowbox.db")) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_OK);
	sql("PRAGMA user_version=1000");
	CHECK_CODE(try_open(folder(), true, false), CB_NEWER);
	CHECK_CODE(try_open(folder(), false, true), CB_NEWER);
	sql("PRAGMA user_version=3");
	CHECK_CODE(try_open(folder(), true, false), CB_OK);
	sql("DELETE FROM head");
	CHECK_CODE(try_open(folder(), true, false), CB_CORRUPT);
	CHECK(unlink(in_folder("cowbox.db")) == 0 && mkdir(in_folder("cowbox.db"), 0700) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
}

TEST(read_only)
{
	store *s = open_at(folder(), NULL);
	uint64_t large = content_new(s, 100000, 1), small = content_new(s, 10, 2), horizon = 0;
	store *r = NULL;
	store_options o = {.path = folder(), .read_only = true};
	for (int i = 0; i < 2; i++) {
		CHECK_OK(store_open(&o, &r, &err));
		CHECK(store_is_read_only(r));
		content_check(r, large, 100000, 1);
		content_check(r, small, 10, 2);
		CHECK_CODE(store_write_begin(r, &err), CB_READONLY);
		CHECK_CODE(store_content_put(r, span_str("x"), &small, &err), CB_READONLY);
		CHECK_CODE(store_gc_begin(r, &horizon, &err), CB_READONLY);
		CHECK_CODE(store_ino_take(r, &horizon, &err), CB_READONLY);
		CHECK_OK(store_sync(r, &err));
		uint64_t stamp = 0, box = i == 0 ? box_new(s, "a") : 1;
		(void)store_fresh(r, box, &stamp);
		CHECK(store_fresh(r, box, &stamp));
		store_close(r);
		if (i == 0) store_close(s); /* the second time alone */
	}
}

TEST(live_file_may_be_garbage)
{
	store_close(open_at(folder(), NULL));
	write_file(in_folder("live"), "short");
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a"), stamp = 0;
	(void)store_fresh(s, box, &stamp);
	CHECK(store_fresh(s, box, &stamp));
	store_close(s);
	CHECK(unlink(in_folder("live")) == 0 && mkdir(in_folder("live"), 0700) == 0);
	/* A writer without it would leave others believing what they know; a reader can do without. */
	store_options o = {.path = folder()};
	CHECK_CODE(store_open(&o, &s, &err), CB_CORRUPT);
	o.read_only = true;
	CHECK_OK(store_open(&o, &s, &err));
	CHECK(!store_fresh(s, box, &stamp));
	CHECK(!store_fresh(s, box, &stamp)); /* never fresh, but it works */
	store_close(s);
}

/* ---- damage ---- */

static void expect_damage(uint64_t node, uint64_t content)
{
	store *s = open_at(folder(), NULL);
	blob *b = NULL;
	if (node) CHECK_CODE(store_node_get(s, node, &b, &err), CB_CORRUPT);
	char byte;
	if (content) CHECK_CODE(store_content_get(s, content, &b, &err), CB_CORRUPT);
	if (content) CHECK_CODE(store_content_read(s, content, 0, &byte, 1, &err), CB_CORRUPT);
	int lines = 0;
	CHECK_OK(store_check(s, count_line, &lines, &err));
	CHECK(lines > 0);
	store_close(s);
}

TEST(damaged_rows)
{
	store *s = open_at(folder(), NULL);
	begin(s);
	uint64_t node = 0;
	CHECK_OK(store_node_put(s, span_str("hello"), &node, &err));
	uint64_t content = content_new(s, 100, 1);
	commit(s);
	store_close(s);
	sql("UPDATE node SET data=x'00112233'");
	expect_damage(node, 0);
	sql("UPDATE content SET data=zeroblob(100)");
	expect_damage(node, content);
	sql("UPDATE content SET size=99");
	expect_damage(0, content);
	sql("UPDATE content SET segment=4");
	expect_damage(0, content);
	sql("UPDATE content SET offset=9223372036854775807");
	expect_damage(0, content);
	sql("DELETE FROM content; DELETE FROM node; UPDATE head SET root=1, epoch=0 WHERE box=0");
	CHECK_CODE(try_open(folder(), false, false), CB_CORRUPT);
}

TEST(damaged_segment)
{
	store *s = open_at(folder(), NULL);
	uint64_t content = content_new(s, 100000, 1);
	store_close(s);
	FILE *f = fopen(in_folder("seg/000001.seg"), "r+");
	CHECK(f && fseek(f, 5000, SEEK_SET) == 0 && fputc('!', f) != EOF && fclose(f) == 0);
	expect_damage(0, content);
	CHECK(strstr(err.message, "segment 000001"));
	CHECK(truncate(in_folder("seg/000001.seg"), 50000) == 0);
	expect_damage(0, content);
	CHECK(truncate(in_folder("seg/000001.seg"), 10) == 0);
	expect_damage(0, content);
	CHECK(unlink(in_folder("seg/000001.seg")) == 0);
	expect_damage(0, content);
}

TEST(check_finds_orphans)
{
	store *s = open_at(folder(), NULL);
	(void)box_new(s, "a");
	store_close(s);
	static const char *const harm[] = {
		"INSERT INTO step SELECT (50<<32)+1,1,1,NULL,0,0,'k','w',0,0,0,0,0,0,0,x'',x'',0,0,0,NULL",
		"INSERT INTO touch VALUES((51<<32)+1,1,0,x'')",
		"INSERT INTO checkpoint VALUES(1,'c',9,0,0,0)",
		"INSERT INTO setting VALUES(52,'k','v',0)",
		"INSERT INTO node VALUES(1000,1,0,x'')",
		"INSERT INTO content VALUES(1,9,0,1,0,0,x'00')",
		"UPDATE head SET root=77 WHERE box=1",
		"DELETE FROM head WHERE box=1",
	};
	int before = 0;
	for (size_t i = 0; i < sizeof harm / sizeof harm[0]; i++) {
		sql(harm[i]);
		s = open_at(folder(), NULL);
		int lines = 0;
		CHECK_OK(store_check(s, count_line, &lines, &err));
		CHECK_MSG(lines > before || i == 7, "%s", harm[i]);
		before = lines;
		store_close(s);
	}
}

static cb_code stop_step(void *context, const store_step *p, cb_error *e)
{
	(void)context;
	(void)p;
	return cb_err_set(e, CB_CONFLICT, "asked to");
}

static void count_quietly(void *context, const char *line)
{
	CHECK(line[0] && !strchr(line, '\n'));
	++*(int *)context;
}

/* Random bytes anywhere in the database: errors, never a crash. */
TEST_LIMIT(random_damage, 120)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	for (uint64_t i = 1; i <= 40; i++) {
		step_add(s, box, i, "write");
		(void)content_new(s, 700, i);
		uint64_t node = 0;
		CHECK_OK(store_node_put(s, span_str("nodenodenode"), &node, &err));
	}
	commit(s);
	store_close(s);
	test_rng r = {test_seed() | 1};
	char copy[1400];
	(void)snprintf(copy, sizeof copy, "cp %s %s/original", in_folder("cowbox.db"), test_tmpdir());
	CHECK(system(copy) == 0);
	struct stat st;
	CHECK(stat(in_folder("cowbox.db"), &st) == 0);
	for (unsigned round = 0; round < 60 * test_soak(); round++) {
		(void)snprintf(copy, sizeof copy, "cp %s/original %s; rm -f %s-wal", test_tmpdir(), in_folder("cowbox.db"),
		               in_folder("cowbox.db"));
		CHECK(system(copy) == 0);
		FILE *f = fopen(in_folder("cowbox.db"), "r+");
		CHECK(f);
		for (int i = 0; i < 20; i++) {
			(void)fseek(f, (long)test_rand_below(&r, (uint64_t)st.st_size), SEEK_SET);
			(void)fputc((int)test_rand_below(&r, 256), f);
		}
		CHECK(fclose(f) == 0);
		store_options o = {.path = folder()};
		s = NULL;
		if (store_open(&o, &s, &err) != CB_OK) continue;
		blob *b = NULL;
		for (uint64_t i = 1; i <= 40; i++) {
			if (store_node_get(s, i, &b, &err) == CB_OK) blob_unref(b);
			if (store_content_get(s, i, &b, &err) == CB_OK) blob_unref(b);
		}
		(void)store_step_walk(s, box, 1, 6, true, stop_step, NULL, &err);
		if (store_write_begin(s, &err) == CB_OK) {
			uint64_t id = 0;
			(void)store_content_put(s, span_str("x"), &id, &err);
			(void)store_write_commit(s, true, &err);
		}
		int lines = 0;
		(void)store_check(s, count_quietly, &lines, &err);
		store_close(s);
	}
}
