/*
 * test_disk_reserve.c: a full disk is no dead end.
 *
 * Somebody takes every free block of the disk within a millisecond. Ordinary changes are then refused; but what takes away or records (rm,
 * undo, a step's record, delete, prune, gc) goes on, in the process that met the full disk and in one that opens the store on it, and when
 * it is done ordinary changes work again, although the disk is as full as before. Nothing acknowledged is lost; fsck finds nothing.
 */
#include <dirent.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "base/err.h"
#include "harness/boxes.h"
#include "harness/disks.h"

enum {
	SMALL_BYTES = 8 << 20,
	LARGE_BYTES = 96 << 20,
	KEPT = 40,
	MOST_WRITES = 60000,
	FEW_WRITES = 40,
};

typedef struct stage {
	disk d;
	bool full; /* every step is flushed */
	cb_store *s;
	cb_box *kept, *junk;
	unsigned acknowledged; /* files /work/fN of junk */
	cb_error err;
} stage;

static void stage_open(stage *g)
{
	cb_error err = {0};
	cb_store_options o = CB_WITH(cb_store_options, .full = g->full);
	CHECK_OK(cb_store_open(g->d.folder, &o, &g->s, &err));
	g->kept = g->junk = NULL;
}

static void stage_close(stage *g)
{
	cb_box_close(g->kept);
	cb_box_close(g->junk);
	cb_store_close(g->s);
	g->kept = g->junk = NULL;
	g->s = NULL;
}

static void name_of(unsigned i, char out[32])
{
	(void)snprintf(out, 32, "/work/f%u", i);
}

/* Small, in the table; every seventh in a segment. */
static size_t bytes_of(unsigned i, bool segments, uint8_t *out)
{
	size_t size = segments && i % 7 == 3 ? 70000 : 200 + i % 3000;
	test_rng r = {i * 2 + 1};
	for (size_t k = 0; k < size; k++) out[k] = (uint8_t)test_rand(&r);
	return size;
}

static cb_code write_one(cb_box *b, unsigned i, bool segments, cb_error *err)
{
	static uint8_t bytes[70000];
	char path[32];
	name_of(i, path);
	size_t size = bytes_of(i, segments, bytes);
	return cb_write_file(b, path, bytes, size, NULL, err);
}

static void check_one(cb_box *b, unsigned i, bool segments)
{
	static uint8_t bytes[70000];
	cb_error err = {0};
	char path[32];
	char *got = NULL;
	size_t size = 0;
	name_of(i, path);
	CHECK_OK(cb_read_file(b, path, &got, &size, &err));
	CHECK_U64(size, bytes_of(i, segments, bytes));
	CHECK_MSG(memcmp(got, bytes, size) == 0, "%s is not what was acknowledged", path);
	cb_free(got);
}

static void stage_make(stage *g, disk_kind kind, uint64_t bytes)
{
	cb_error err = {0};
	disk_make(&g->d, kind, bytes);
	stage_open(g);
	CHECK_OK(cb_box_create(g->s, "kept", &g->kept, &err));
	CHECK_OK(cb_box_create(g->s, "junk", &g->junk, &err));
	for (unsigned i = 0; i < KEPT; i++) CHECK_OK(write_one(g->kept, i, true, &err));
	CHECK_OK(cb_mkdir(g->junk, "/work/tree", 0755, false, &err));
	for (unsigned i = 0; i < 100; i++) {
		char path[48];
		(void)snprintf(path, sizeof(path), "/work/tree/t%u", i);
		must_write(g->junk, path, "leaf");
	}
	CHECK_OK(cb_mkdir(g->junk, "/work/empty", 0755, false, &err));
	CHECK_OK(cb_kv_set(g->junk, "key", "value", 5, &err));
	CHECK_OK(cb_checkpoint_save(g->junk, "named", 0, false, &err));
	for (unsigned i = 0; i < 200; i++, g->acknowledged++) {
		cb_code code = write_one(g->junk, i, true, &err);
		if (code == CB_NOSPACE) break;
		CHECK_OK(code);
	}
}

static void check_kept(stage *g)
{
	for (unsigned i = 0; i < KEPT; i++) check_one(g->kept, i, true);
	for (unsigned i = 0; i < g->acknowledged; i += 1 + g->acknowledged / 200) check_one(g->junk, i, true);
}

/* Writes until nothing more is taken; what was acknowledged is there, what was refused is not. */
static void fill(stage *g)
{
	unsigned in_a_row = 0, i = 0;
	for (; i < MOST_WRITES && in_a_row < 8; i++) {
		cb_error err = {0};
		cb_code code = write_one(g->junk, g->acknowledged, true, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "on a full disk: %s: %s", cb_code_name(code), err.message);
		in_a_row = code == CB_OK ? 0 : in_a_row + 1;
		g->acknowledged += code == CB_OK;
	}
	CHECK_MSG(in_a_row == 8, "the disk never got full");
	char refused[32];
	name_of(g->acknowledged, refused);
	CHECK(!exists(g->junk, refused));
}

/* ---- what must work ---- */

static void small_deeds(stage *g)
{
	cb_error err = {0};
	char path[32];
	uint64_t seq = 0;
	cb_step_info info = CB_WITH(cb_step_info, .kind = "note", .params = "p", .params_size = CB_STRING, .result = "r",
	                            .result_size = CB_STRING);
	name_of(g->acknowledged - 1, path);
	CHECK_OK(cb_unlink(g->junk, path, &err));
	CHECK_OK(cb_undo(g->junk, 0, &seq, &err));
	CHECK(exists(g->junk, path));
	CHECK_OK(cb_rmdir(g->junk, "/work/empty", &err));
	/* Several removals at once are still only that. */
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(g->junk, NULL, &t, &err));
	CHECK_OK(cb_unlink(t, "/work/tree/t1", &err));
	CHECK_OK(cb_unlink(t, "/work/tree/t2", &err));
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	CHECK_OK(cb_remove(g->junk, "/work/tree", &err));
	CHECK_OK(cb_kv_delete(g->junk, "key", &err));
	CHECK_OK(cb_step_record(g->junk, &info, &seq, &err));
	CHECK_OK(cb_checkpoint_delete(g->junk, "named", &err));
	for (unsigned i = 0; i < 60 && i < g->acknowledged; i++) {
		name_of(i, path);
		CHECK_OK(cb_unlink(g->junk, path, &err));
	}
	for (unsigned i = 0; i < 60 && i < g->acknowledged; i++) CHECK_OK(cb_undo(g->junk, 0, NULL, &err));
}

static void ordinary_again(stage *g, cb_box *b)
{
	cb_error err = {0};
	char path[32];
	for (unsigned i = 0; i < FEW_WRITES; i++) {
		name_of(1000000 + i, path);
		must_write(b, path, "after");
	}
	for (unsigned i = 0; i < FEW_WRITES; i++) {
		name_of(1000000 + i, path);
		CHECK_STR(must_read(b, path), "after");
		CHECK_OK(cb_unlink(b, path, &err));
	}
	test_store_sound(g->s);
}

static void reopen(stage *g, const char *kept, const char *junk)
{
	stage_close(g);
	stage_open(g);
	if (kept) g->kept = must_open(g->s, kept);
	if (junk) g->junk = must_open(g->s, junk);
}

static void prune_and_gc(stage *g)
{
	cb_error err = {0};
	cb_prune_options keep = CB_WITH(cb_prune_options, .keep_steps = 2);
	uint64_t pruned = 0;
	char path[32];
	for (unsigned i = 0; i < g->acknowledged; i += 2) {
		name_of(i, path);
		CHECK_OK(cb_unlink(g->junk, path, &err));
	}
	CHECK_OK(cb_prune(g->junk, &keep, &pruned, &err));
	CHECK(pruned > 0);
	CHECK_OK(cb_store_gc(g->s, NULL, &err));
	for (unsigned i = 1; i < g->acknowledged; i += 2 + g->acknowledged / 200 * 2) check_one(g->junk, i, true);
}

static void delete_and_gc(stage *g)
{
	cb_error err = {0};
	cb_box_close(g->junk);
	g->junk = NULL;
	g->acknowledged = 0;
	CHECK_OK(cb_box_delete(g->s, "junk", &err));
	CHECK_OK(cb_store_gc(g->s, NULL, &err));
}

static void no_dead_end(disk_kind kind, uint64_t bytes, bool full, bool reopened)
{
	static stage g;
	g = (stage){.full = full};
	cb_error err = {0};
	stage_make(&g, kind, bytes);
	refiller_start(&g.d);
	fill(&g);
	check_kept(&g);
	if (reopened) reopen(&g, "kept", "junk");
	small_deeds(&g);
	check_kept(&g);
	if (reopened) reopen(&g, "kept", "junk");
	prune_and_gc(&g);
	if (reopened) reopen(&g, "kept", "junk");
	ordinary_again(&g, g.junk);
	delete_and_gc(&g);
	if (reopened) reopen(&g, "kept", NULL);
	ordinary_again(&g, g.kept);
	CHECK_OK(cb_box_create(g.s, "new", &g.junk, &err));
	check_kept(&g);
	test_store_sound(g.s);
	refiller_stop(&g.d);
	ballast_drop(&g.d);
	CHECK_OK(write_one(g.junk, 3, true, &err));
	CHECK_OK(cb_store_vacuum(g.s, &err));
	check_kept(&g);
	test_store_sound(g.s);
	stage_close(&g);
	disk_unmount(&g.d);
}

TEST_LIMIT(ext4_is_no_dead_end, 120)
{
	no_dead_end(DISK_EXT4, SMALL_BYTES, false, false);
}

TEST_LIMIT(ext4_is_no_dead_end_opened_again, 120)
{
	no_dead_end(DISK_EXT4, SMALL_BYTES, false, true);
}

TEST_LIMIT(ext4_is_no_dead_end_full_durability, 120)
{
	no_dead_end(DISK_EXT4, SMALL_BYTES, true, true);
}

TEST_LIMIT(larger_ext4_is_no_dead_end, 240)
{
	no_dead_end(DISK_EXT4_JOURNAL, LARGE_BYTES, false, true);
}

TEST_LIMIT(tmpfs_is_no_dead_end, 120)
{
	no_dead_end(DISK_TMPFS, SMALL_BYTES, false, false);
}

TEST_LIMIT(tmpfs_is_no_dead_end_opened_again, 120)
{
	no_dead_end(DISK_TMPFS, SMALL_BYTES, true, true);
}

/* ---- a vacuum ---- */

/* It makes the database shorter, and what is kept must be kept behind the new end, whoever waits for what becomes free. */
static void vacuum_is_no_dead_end(disk_kind kind)
{
	enum { VACUUMS = 4 };
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	char path[32];
	cb_box *gone = NULL;
	stage_make(&g, kind, LARGE_BYTES / 2);
	CHECK_OK(cb_box_create(g.s, "gone", &gone, &err));
	for (unsigned i = 0; i < 1500; i++) CHECK_OK(write_one(gone, i, false, &err));
	cb_box_close(gone);
	CHECK_OK(cb_box_delete(g.s, "gone", &err));
	CHECK_OK(cb_store_gc(g.s, NULL, &err));
	refiller_start(&g.d);
	for (unsigned i = 0; i < VACUUMS; i++) {
		cb_code code = cb_store_vacuum(g.s, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "%s: %s", cb_code_name(code), err.message);
		name_of(i, path);
		CHECK_OK(cb_unlink(g.junk, path, &err));
		CHECK_OK(cb_undo(g.junk, 0, NULL, &err));
		reopen(&g, "kept", "junk");
	}
	check_kept(&g);
	small_deeds(&g);
	test_store_sound(g.s);
	prune_and_gc(&g);
	delete_and_gc(&g);
	ordinary_again(&g, g.kept);
	check_kept(&g);
	stage_close(&g);
	refiller_stop(&g.d);
	disk_unmount(&g.d);
}

/* Of a segment a little is left, and the disk has no room for a copy of that. */
TEST_LIMIT(a_vacuum_says_what_room_it_needs, 120)
{
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	stage_make(&g, DISK_TMPFS, LARGE_BYTES / 2);
	cb_box_close(g.junk);
	g.junk = NULL;
	CHECK_OK(cb_box_delete(g.s, "junk", &err));
	CHECK_OK(cb_store_gc(g.s, NULL, &err));
	refiller_start(&g.d);
	CHECK_CODE(cb_store_vacuum(g.s, &err), CB_NOSPACE);
	CHECK_MSG(strstr(err.message, "a vacuum needs ") && strstr(err.message, " KiB") && strstr(err.message, "segment"), "%s",
	          err.message);
	for (unsigned i = 0; i < KEPT; i++) check_one(g.kept, i, true);
	stage_close(&g);
	refiller_stop(&g.d);
	disk_unmount(&g.d);
}

TEST_LIMIT(a_vacuum_on_ext4_is_no_dead_end, 120)
{
	vacuum_is_no_dead_end(DISK_EXT4);
}

TEST_LIMIT(a_vacuum_on_tmpfs_is_no_dead_end, 120)
{
	vacuum_is_no_dead_end(DISK_TMPFS);
}

/* ---- a copy of a store ---- */

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void shell(const char *format, ...)
{
	char command[9000];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	CHECK_MSG(system(command) == 0, "%s", command);
}

/* What format 1 wrote, folded, and nothing beside it. */
static void old_store_make(const char *folder)
{
	static char text[1 << 16];
	char file[4400];
	sqlite3 *db = NULL;
	FILE *f = fopen("tests/contract/store_v1.sql", "r");
	CHECK(f);
	size_t size = fread(text, 1, sizeof(text) - 1, f);
	CHECK(size > 1000 && size < sizeof(text) - 1 && fclose(f) == 0);
	text[size] = 0;
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder);
	CHECK(sqlite3_open(file, &db) == SQLITE_OK);
	CHECK(sqlite3_exec(db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL) == SQLITE_OK);
	CHECK(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

/* A backup of a store with two boxes, as the folder of a store on a small disk. */
static void stage_restored(stage *g, disk_kind kind)
{
	cb_error err = {0};
	char from[4400];
	cb_store *s = NULL;
	disk_make(&g->d, kind, LARGE_BYTES / 4);
	(void)snprintf(from, sizeof(from), "%s/from", test_tmpdir());
	CHECK_OK(cb_store_open(from, NULL, &s, &err));
	CHECK_OK(cb_box_create(s, "kept", &g->kept, &err));
	CHECK_OK(cb_box_create(s, "junk", &g->junk, &err));
	for (unsigned i = 0; i < KEPT; i++) CHECK_OK(write_one(g->kept, i, true, &err));
	for (unsigned i = 0; i < KEPT; i++, g->acknowledged++) CHECK_OK(write_one(g->junk, i, true, &err));
	cb_box_close(g->kept);
	cb_box_close(g->junk);
	CHECK_OK(cb_store_backup(s, g->d.folder, &err));
	cb_store_close(s);
	shell("rm -r '%s'", from);
}

static void stage_read(stage *g, const cb_store_options *o)
{
	cb_error err = {0};
	CHECK_OK(cb_store_open(g->d.folder, o, &g->s, &err));
	g->kept = must_open(g->s, "kept");
	g->junk = must_open(g->s, "junk");
	check_kept(g);
	test_store_sound(g->s);
}

/* The disk is filled after the backup was put there: it was made with the room that a store keeps. */
static void backup_is_no_dead_end(disk_kind kind)
{
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	stage_restored(&g, kind);
	refiller_start(&g.d);
	stage_read(&g, &CB_WITH(cb_store_options, .no_create = true, .read_only = true));
	stage_close(&g);
	stage_read(&g, &CB_WITH(cb_store_options, .no_create = true));
	char path[32];
	for (unsigned i = 0; i < 10; i++) {
		name_of(i, path);
		CHECK_OK(cb_unlink(g.junk, path, &err));
	}
	for (unsigned i = 0; i < 10; i++) CHECK_OK(cb_undo(g.junk, 0, NULL, &err));
	prune_and_gc(&g);
	delete_and_gc(&g);
	reopen(&g, "kept", NULL);
	check_kept(&g);
	test_store_sound(g.s);
	stage_close(&g);
	refiller_stop(&g.d);
	disk_unmount(&g.d);
}

TEST_LIMIT(a_backup_on_a_full_ext4_is_no_dead_end, 120)
{
	backup_is_no_dead_end(DISK_EXT4);
}

TEST_LIMIT(a_backup_on_a_full_tmpfs_is_no_dead_end, 120)
{
	backup_is_no_dead_end(DISK_TMPFS);
}

static void refused_for_room(const stage *g)
{
	cb_error err = {0};
	CHECK_CODE(cb_unlink(g->junk, "/work/f1", &err), CB_NOSPACE);
	CHECK_MSG(strstr(err.message, "make room"), "%s", err.message);
	CHECK_CODE(cb_box_delete(g->s, "junk", &err), CB_NOSPACE);
	CHECK_CODE(cb_store_gc(g->s, NULL, &err), CB_NOSPACE);
	CHECK_CODE(cb_store_vacuum(g->s, &err), CB_NOSPACE);
}

/* Whoever copied it with tools of his own has the database and the segments only. The rest cannot be made on a full disk: it is read. */
static void bare_copy_is_read(disk_kind kind)
{
	static stage g;
	g = (stage){0};
	cb_store_options reading = CB_WITH(cb_store_options, .no_create = true, .read_only = true),
			 either = CB_WITH(cb_store_options, .no_create = true, .or_read_only = true);
	cb_error err = {0};
	stage_restored(&g, kind);
	shell("cd '%s' && rm -f cowbox.db-wal cowbox.db-shm live locks inuse numbers", g.d.folder);
	refiller_start(&g.d);
	for (unsigned i = 0; i < 3; i++) { /* what one left behind must not disturb the next */
		stage_read(&g, &either);
		refused_for_room(&g);
		stage_close(&g);
		stage_read(&g, &reading);
		CHECK_CODE(cb_unlink(g.junk, "/work/f1", &err), CB_READONLY);
		stage_close(&g);
		CHECK_CODE(cb_store_open(g.d.folder, NULL, &g.s, &err), CB_NOSPACE);
		CHECK_MSG(strstr(err.message, "make room"), "%s", err.message);
	}
	stage_read(&g, &either);
	refiller_stop(&g.d);
	ballast_drop(&g.d);
	check_kept(&g);
	cb_store *first = g.s;
	cb_box_close(g.kept);
	cb_box_close(g.junk);
	stage_read(&g, &either); /* now it can be written, beside the handle that was opened when it could not */
	CHECK_OK(cb_unlink(g.junk, "/work/f1", &err));
	CHECK_OK(cb_undo(g.junk, 0, NULL, &err));
	check_kept(&g);
	cb_box *b = NULL;
	CHECK_CODE(cb_box_open(first, "junk", &b, &err), CB_BUSY); /* "open it again" */
	cb_store_close(first);
	stage_close(&g);
	disk_unmount(&g.d);
}

TEST_LIMIT(a_bare_copy_on_a_full_ext4_is_read, 120)
{
	bare_copy_is_read(DISK_EXT4);
}

TEST_LIMIT(a_bare_copy_on_a_full_tmpfs_is_read, 120)
{
	bare_copy_is_read(DISK_TMPFS);
}

TEST_LIMIT(a_store_of_format_1_on_a_full_disk_is_read, 120)
{
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	cb_store_options either = CB_WITH(cb_store_options, .no_create = true, .or_read_only = true);
	disk_make(&g.d, DISK_EXT4, SMALL_BYTES);
	shell("mkdir -m 700 '%s' && cd '%s' && mkdir -m 700 seg", g.d.folder, g.d.folder);
	old_store_make(g.d.folder);
	refiller_start(&g.d);
	CHECK_OK(cb_store_open(g.d.folder, &either, &g.s, &err));
	g.junk = must_open(g.s, "demo");
	test_store_sound(g.s);
	CHECK_CODE(cb_store_gc(g.s, NULL, &err), CB_NOSPACE);
	CHECK_MSG(strstr(err.message, "make room"), "%s", err.message);
	stage_close(&g);
	refiller_stop(&g.d);
	ballast_drop(&g.d);
	CHECK_OK(cb_store_open(g.d.folder, &either, &g.s, &err));
	CHECK_OK(cb_store_gc(g.s, NULL, &err));
	test_store_sound(g.s);
	stage_close(&g);
	disk_unmount(&g.d);
}

/* ---- what is said of a step may be long ---- */

TEST_LIMIT(a_long_record_is_kept, 120)
{
	static stage g;
	static char result[300000];
	g = (stage){0};
	cb_error err = {0};
	uint64_t seq = 0;
	memset(result, 'r', sizeof(result) - 1);
	cb_step_info info = CB_WITH(cb_step_info, .kind = "note", .result = result, .result_size = CB_STRING);
	stage_make(&g, DISK_EXT4, LARGE_BYTES);
	refiller_start(&g.d);
	fill(&g);
	CHECK_OK(cb_step_record(g.junk, &info, &seq, &err));
	check_kept(&g);
	test_store_sound(g.s);
	stage_close(&g);
	refiller_stop(&g.d);
	disk_unmount(&g.d);
}

/* ---- programs ---- */

static cb_code run(stage *g, const char *text, cb_error *err)
{
	cb_sandbox *sandbox = NULL;
	cb_exec *e = NULL;
	const cb_exec_result *r = NULL;
	const char *const argv[] = {"sh", "-c", text};
	cb_exec_options o = CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_NONE);
	CB_TRY(cb_sandbox_open(g->junk, NULL, &sandbox, err));
	cb_code code = cb_exec_start(sandbox, &o, &e, err);
	if (code == CB_UNSUPPORTED) test_skip(err->message);
	if (code == CB_OK) code = cb_exec_wait(e, &r, err);
	cb_exec_close(e);
	cb_sandbox_close(sandbox);
	return code;
}

/* It fills the disk with a file in its box, and what it did cannot be captured: the box is deleted, and all is as before. */
TEST_LIMIT(a_program_that_fills_the_disk, 240)
{
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	stage_make(&g, DISK_TMPFS, LARGE_BYTES);
	CHECK(chmod(g.d.mount, 0755) == 0);
	uint64_t room = disk_room(&g.d);
	cb_code code = run(&g, "head -c 400M /dev/urandom >/work/fill; :", &err);
	CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "%s: %s", cb_code_name(code), err.message);
	check_kept(&g);
	ballast_load(&g.d, 0);
	/* The box itself goes on. */
	char path[32];
	name_of(0, path);
	CHECK_OK(cb_unlink(g.junk, path, &err));
	CHECK_OK(cb_undo(g.junk, 0, NULL, &err));
	/* So does the sandbox: whatever fails now fails for room, and nothing is lost by it. */
	code = run(&g, "rm -f /work/fill /work/tree/t1", &err);
	CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "%s: %s", cb_code_name(code), err.message);
	check_kept(&g);
	cb_box_close(g.junk);
	g.junk = NULL;
	g.acknowledged = 0;
	CHECK_OK(cb_box_delete(g.s, "junk", &err));
	(void)cb_work_clean(g.s, false, NULL, NULL);
	CHECK_OK(cb_store_gc(g.s, NULL, &err));
	ballast_drop(&g.d);
	CHECK_MSG(disk_room(&g.d) + (8 << 20) > room, "%" PRIu64 " bytes did not come back", room - disk_room(&g.d));
	ordinary_again(&g, g.kept);
	check_kept(&g);
	stage_close(&g);
	disk_unmount(&g.d);
}

static cb_code take_result(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	*(char **)context = test_keep(strdup(step->result));
	return CB_OK;
}

static char *newest_result(cb_box *b)
{
	cb_error err = {0};
	char *text = NULL;
	CHECK_OK(cb_step_get(b, must_seq(b), take_result, &text, &err));
	return text;
}

/* A program wrote more than there is room to copy. */
static void waits(stage *g, disk_kind kind)
{
	enum { NEAR_BYTES = 8 << 20, FILE_BYTES = 30 << 20 };
	cb_error err = {0};
	uint64_t steps = 0;
	stage_make(g, kind, LARGE_BYTES);
	CHECK(chmod(g->d.mount, 0755) == 0);
	CHECK_OK(run(g, "true", &err)); /* the folders are there */
	for (int drops = 1; drops >= 0; drops--) {
		ballast_load(&g->d, FILE_BYTES * 3 / 2);
		uint64_t room = disk_room(&g->d);
		CHECK_CODE(run(g, "head -c 30M /dev/urandom >/work/fill", &err), CB_NOSPACE);
		CHECK_MSG(strstr(err.message, "what the program did waits until"), "%s", err.message);
		/* What was copied before the room was used up does not stay, and who looks copies nothing. */
		for (int i = 0; i < 4; i++) {
			uint64_t now = disk_room(&g->d);
			CHECK_MSG(now + FILE_BYTES + NEAR_BYTES > room, "of %" PRIu64 " bytes %" PRIu64 " are left", room, now);
			CHECK_CODE(cb_exec_recover(g->s, i % 2 ? "junk" : NULL, &steps, &err), CB_NOSPACE);
			CHECK_MSG(strstr(err.message, "box 'junk'"), "%s", err.message);
			check_kept(g);
		}
		CHECK_OK(run(g, "echo small >/work/small; test ! -e /work/fill", &err));
		CHECK_OK(cb_undo(g->junk, 0, NULL, &err));
		uint64_t before = must_seq(g->junk);
		if (drops) {
			CHECK_OK(cb_exec_drop(g->s, "junk", &steps, &err));
			CHECK_MSG(disk_room(&g->d) + NEAR_BYTES > room, "its files are still there");
			CHECK(!exists(g->junk, "/work/fill") && strstr(newest_result(g->junk), "\"lost\":\"it was dropped"));
			ballast_drop(&g->d);
		} else {
			ballast_drop(&g->d);
			CHECK_OK(cb_exec_recover(g->s, "junk", &steps, &err));
			CHECK(exists(g->junk, "/work/fill"));
		}
		CHECK_U64(steps, 1);
		CHECK_U64(must_seq(g->junk), before + 1);
		CHECK_OK(cb_exec_recover(g->s, "junk", &steps, &err));
		CHECK_U64(steps, 0);
	}
	check_kept(g);
	test_store_sound(g->s);
	stage_close(g);
	disk_unmount(&g->d);
}

TEST_LIMIT(what_there_is_no_room_for_waits_on_ext4, 240)
{
	static stage g;
	waits(&g, DISK_EXT4);
}

TEST_LIMIT(what_there_is_no_room_for_waits_on_tmpfs, 240)
{
	static stage g;
	waits(&g, DISK_TMPFS);
}

/* ---- several processes, killed ---- */

enum { WORKERS = 3, ROUNDS = 10 };

/* One random thing; whatever is refused is refused for room, for another's gc, or because there is nothing to do. */
static void worker_deed(cb_store *s, cb_box *b, test_rng *r, uint64_t number)
{
	cb_error err = {0};
	char path[64];
	cb_code code = CB_OK;
	cb_prune_options keep = CB_WITH(cb_prune_options, .keep_steps = 5);
	cb_step_info info = CB_WITH(cb_step_info, .kind = "note", .result = "r", .result_size = CB_STRING);
	(void)snprintf(path, sizeof(path), "/work/w%" PRIu64, number * 100 + test_rand_below(r, 20));
	switch (test_rand_below(r, 12)) {
	case 0:
		code = cb_store_gc(s, NULL, &err);
		break;
	case 1:
		code = cb_prune(b, &keep, NULL, &err);
		break;
	case 2:
		code = cb_step_record(b, &info, NULL, &err);
		break;
	case 3:
	case 4:
		code = cb_undo(b, 0, NULL, &err);
		break;
	case 5:
	case 6:
	case 7:
		code = cb_unlink(b, path, &err);
		break;
	default:
		code = cb_write_file(b, path, err.message, test_rand_below(r, sizeof(err.message)), NULL, &err);
		break;
	}
	bool fits = code == CB_OK || code == CB_NOSPACE || code == CB_BUSY || code == CB_NOTHING || code == CB_NOTFOUND ||
	            code == CB_CONFLICT || code == CB_STALE;
	CHECK_MSG(fits, "%s: %s", cb_code_name(code), err.message);
}

static void worker(const stage *g, uint64_t number, uint64_t seed)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_store_options o = CB_WITH(cb_store_options, .full = g->full);
	test_rng r = {seed * 2 + 1};
	CHECK_OK(cb_store_open(g->d.folder, &o, &s, &err));
	cb_box *b = must_open(s, "junk");
	for (;;) worker_deed(s, b, &r, number);
}

static void killed_round(stage *g, test_rng *r)
{
	cb_error err = {0};
	pid_t pids[WORKERS];
	for (unsigned i = 0; i < WORKERS; i++) {
		uint64_t seed = test_rand(r);
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] == 0) worker(g, i, seed);
	}
	(void)usleep(20000 + (useconds_t)test_rand_below(r, 200000));
	for (unsigned i = 0; i < WORKERS; i++) (void)kill(pids[i], SIGKILL);
	for (unsigned i = 0; i < WORKERS; i++) {
		int status = 0;
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a worker ended by itself");
	}
	stage_open(g);
	g->kept = must_open(g->s, "kept");
	g->junk = must_open(g->s, "junk");
	check_kept(g);
	test_store_sound(g->s);
	CHECK_OK(cb_step_record(g->junk, &CB_WITH(cb_step_info, .kind = "note"), NULL, &err));
	CHECK_OK(cb_store_gc(g->s, NULL, &err));
	stage_close(g);
}

static void killed_on(disk_kind kind, bool full)
{
	static stage g;
	g = (stage){.full = full};
	test_rng r = {test_seed() | 1};
	stage_make(&g, kind, LARGE_BYTES);
	refiller_start(&g.d);
	fill(&g);
	g.acknowledged = 0; /* the workers undo what they like */
	stage_close(&g);
	for (unsigned i = 0; i < test_dose(ROUNDS); i++) killed_round(&g, &r);
	refiller_stop(&g.d);
	disk_unmount(&g.d);
}

TEST_LIMIT(killed_on_a_full_ext4, 240)
{
	killed_on(DISK_EXT4_JOURNAL, false);
}

TEST_LIMIT(killed_on_a_full_tmpfs, 240)
{
	killed_on(DISK_TMPFS, true);
}

/* ---- what cannot work, fails cleanly ---- */

static unsigned count_names(const char *folder, const char *part)
{
	DIR *d = opendir(folder);
	unsigned n = 0;
	CHECK(d != NULL);
	for (const struct dirent *e; (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
	(void)closedir(d);
	return n;
}

static void refused_or_done(cb_code code, const cb_error *err)
{
	CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "%s: %s", cb_code_name(code), err->message);
}

TEST_LIMIT(what_needs_room_is_refused_and_leaves_nothing, 120)
{
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	char path[4400], host[4400], command[9000];
	cb_store *other = NULL;
	cb_store_options reading = CB_WITH(cb_store_options, .read_only = true, .no_create = true);
	stage_make(&g, DISK_EXT4, LARGE_BYTES);
	(void)snprintf(host, sizeof(host), "%s/host", test_tmpdir());
	(void)snprintf(command, sizeof(command), "mkdir '%s' && head -c 3000000 /dev/urandom >'%s/a'", host, host);
	CHECK(system(command) == 0);
	refiller_start(&g.d);
	fill(&g);
	(void)snprintf(path, sizeof(path), "%s/backup", g.d.mount);
	CHECK_CODE(cb_store_backup(g.s, path, &err), CB_NOSPACE);
	CHECK_U64(count_names(g.d.mount, "backup"), 0);
	CHECK_CODE(cb_import(g.junk, host, &CB_WITH(cb_import_options, .to = "/work/imported"), NULL, &err), CB_NOSPACE);
	CHECK(!exists(g.junk, "/work/imported/a"));
	refused_or_done(cb_store_vacuum(g.s, &err), &err);
	refused_or_done(cb_box_fork(g.s, "junk", "fork", NULL, &err), &err);
	refused_or_done(cb_checkpoint_save(g.junk, "full", 0, false, &err), &err);
	/* Readers come and go, beside it and alone. */
	CHECK_OK(cb_store_open(g.d.folder, &reading, &other, &err));
	cb_box *b = must_open(other, "kept");
	check_one(b, 3, true);
	stage_close(&g);
	check_one(b, 10, true);
	cb_box_close(b);
	cb_store_close(other);
	CHECK_OK(cb_store_open(g.d.folder, &reading, &other, &err));
	b = must_open(other, "kept");
	check_one(b, 17, true);
	cb_box_close(b);
	cb_store_close(other);
	/* A new store cannot be made; when there is room it can, in the same place. */
	(void)snprintf(path, sizeof(path), "%s/new", g.d.mount);
	CHECK_CODE(cb_store_open(path, NULL, &other, &err), CB_NOSPACE);
	refiller_stop(&g.d);
	ballast_drop(&g.d);
	CHECK_OK(cb_store_open(path, NULL, &other, &err));
	test_store_sound(other);
	cb_store_close(other);
	stage_open(&g);
	g.kept = must_open(g.s, "kept");
	g.junk = must_open(g.s, "junk");
	check_kept(&g);
	test_store_sound(g.s);
	stage_close(&g);
	disk_unmount(&g.d);
}

/* ---- much at once ---- */

enum { BIG_FILES = 6000, BIG_STEPS = 4000 };

/* More than one transaction of what is kept could carry: it goes in batches. */
TEST_LIMIT(a_large_tree_and_a_long_history_go, 240)
{
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	cb_box *t = NULL;
	char path[64];
	stage_make(&g, DISK_EXT4, LARGE_BYTES);
	CHECK_OK(cb_txn_begin(g.junk, NULL, &t, &err));
	for (unsigned i = 0; i < BIG_FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/big/%u/%u", i % 60, i);
		cb_write_options o = CB_WITH(cb_write_options, .parents = true);
		CHECK_OK(cb_write_file(t, path, path, strlen(path), &o, &err));
	}
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	for (unsigned i = 0; i < BIG_STEPS; i++) {
		(void)snprintf(path, sizeof(path), "/work/s%u", i % 50);
		must_write(g.junk, path, path);
	}
	refiller_start(&g.d);
	fill(&g);
	CHECK_OK(cb_remove(g.junk, "/work/big", &err));
	CHECK(!exists(g.junk, "/work/big"));
	reopen(&g, "kept", "junk");
	check_kept(&g);
	test_store_sound(g.s);
	delete_and_gc(&g);
	ordinary_again(&g, g.kept);
	check_kept(&g);
	stage_close(&g);
	refiller_stop(&g.d);
	disk_unmount(&g.d);
}

/* A fork whose origin goes must first have all of its own tree written down, which needs room: what else may go makes it. */
TEST_LIMIT(forks_part_with_a_deleted_box, 240)
{
	static stage g;
	g = (stage){0};
	cb_error err = {0};
	cb_box *t = NULL, *spare = NULL, *fork = NULL;
	char path[64];
	stage_make(&g, DISK_EXT4, LARGE_BYTES);
	CHECK_OK(cb_box_create(g.s, "spare", &spare, &err));
	for (unsigned i = 0; i < 60; i++) CHECK_OK(write_one(spare, i, true, &err));
	cb_box_close(spare);
	CHECK_OK(cb_txn_begin(g.junk, NULL, &t, &err));
	for (unsigned i = 0; i < 5 * BIG_FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/big/%u/%u", i % 60, i);
		cb_write_options o = CB_WITH(cb_write_options, .parents = true);
		CHECK_OK(cb_write_file(t, path, path, strlen(path), &o, &err));
	}
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	fork = must_fork(g.s, "junk", "fork");
	must_write(fork, "/work/own", "own");
	refiller_start(&g.d);
	fill(&g);
	check_kept(&g);
	CHECK_OK(cb_box_delete(g.s, "spare", &err));
	delete_and_gc(&g);
	CHECK_STR(must_read(fork, "/work/big/7/7"), "/work/big/7/7");
	ordinary_again(&g, fork);
	CHECK_OK(cb_store_gc(g.s, NULL, &err));
	CHECK_STR(must_read(fork, "/work/own"), "own");
	CHECK_STR(must_read(fork, "/work/big/59/29999"), "/work/big/59/29999");
	check_kept(&g);
	cb_box_close(fork);
	test_store_sound(g.s);
	stage_close(&g);
	refiller_stop(&g.d);
	disk_unmount(&g.d);
}
