/*
 * large_rows_on_a_small_disk.c: what is freed in one transaction is counted in rows, and rows of many pages each needed more of the log
 * than is kept on a small disk: every page that a row had was written as zeros. So a gc of files of 60 KB, and a prune of steps with long
 * lists of changes, failed for lack of room, for ever.
 */
#include "harness/boxes.h"
#include "harness/disks.h"

enum { SMALL_DISK = 8 << 20, MIDDLE_BYTES = 60000, STEP_FILES = 1300 };

typedef struct stage {
	disk d;
	cb_store *s;
	cb_box *b;
} stage;

static void stage_make(stage *g, disk_kind kind)
{
	cb_error err = {0};
	disk_make(&g->d, kind, SMALL_DISK);
	CHECK_OK(cb_store_open(g->d.folder, NULL, &g->s, &err));
	CHECK_OK(cb_box_create(g->s, "b", &g->b, &err));
}

/* As every command does. So the log is folded each time, and stays as short as it may be. */
static void stage_reopen(stage *g)
{
	cb_error err = {0};
	cb_box_close(g->b);
	cb_store_close(g->s);
	CHECK_OK(cb_store_open(g->d.folder, NULL, &g->s, &err));
	g->b = must_open(g->s, "b");
}

static void stage_end(stage *g)
{
	test_store_sound(g->s);
	cb_box_close(g->b);
	cb_store_close(g->s);
	disk_unmount(&g->d);
}

static cb_code write_middle(cb_box *b, unsigned i, cb_error *err)
{
	static uint8_t bytes[MIDDLE_BYTES];
	char path[32];
	test_rng r = {i + 1};
	for (size_t k = 0; k < sizeof(bytes); k++) bytes[k] = (uint8_t)test_rand(&r);
	(void)snprintf(path, sizeof(path), "/work/f%u", i);
	return cb_write_file(b, path, bytes, sizeof(bytes), NULL, err);
}

/* What was freed lies inside the database: files of this size fit there again. */
static void small_writes(cb_box *b)
{
	char path[32];
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(path, sizeof(path), "/work/small%u", i);
		must_write(b, path, path);
	}
}

static void contents_go(disk_kind kind)
{
	stage g;
	cb_error err = {0};
	unsigned written = 0;
	cb_code code = CB_OK;
	stage_make(&g, kind);
	for (; (code = write_middle(g.b, written, &err)) == CB_OK; written++) stage_reopen(&g);
	CHECK_CODE(code, CB_NOSPACE);
	CHECK(written > 40);
	cb_box_close(g.b);
	CHECK_OK(cb_box_delete(g.s, "b", &err));
	CHECK_OK(cb_store_gc(g.s, NULL, &err));
	CHECK_OK(cb_box_create(g.s, "next", &g.b, &err));
	small_writes(g.b);
	stage_end(&g);
}

TEST(contents_of_many_pages_go_on_ext4)
{
	contents_go(DISK_EXT4);
}

TEST(contents_of_many_pages_go_on_tmpfs)
{
	contents_go(DISK_TMPFS);
}

/* A step that makes so many files, or takes them away. */
static cb_code large_step(cb_box *b, bool makes)
{
	cb_error err = {0};
	if (!makes) return cb_remove(b, "/work/d", &err);
	cb_box *t = must_begin(b);
	char path[128];
	cb_write_options parents = CB_WITH(cb_write_options, .parents = true);
	for (unsigned i = 0; i < STEP_FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/d/a-rather-long-name-for-a-file-among-many-others-%u", i);
		CHECK_OK(cb_write_file(t, path, "x", 1, &parents, &err));
	}
	cb_code code = cb_txn_commit(t, NULL, NULL, &err);
	cb_box_close(t);
	return code;
}

static void steps_go(disk_kind kind)
{
	stage g;
	cb_error err = {0};
	unsigned steps = 0;
	cb_code code = CB_OK;
	stage_make(&g, kind);
	for (; (code = large_step(g.b, steps % 2 == 0)) == CB_OK; steps++) stage_reopen(&g);
	CHECK_CODE(code, CB_NOSPACE);
	CHECK(steps > 8);
	CHECK_OK(cb_prune(g.b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(g.s, NULL, &err));
	small_writes(g.b);
	stage_end(&g);
}

TEST(steps_of_many_changes_go_on_ext4)
{
	steps_go(DISK_EXT4);
}

TEST(steps_of_many_changes_go_on_tmpfs)
{
	steps_go(DISK_TMPFS);
}
