/*
 * undo_of_times_of_a_folder.c: times that somebody gave a folder are a change like any other: undo and redo bring back what they were.
 * Those that follow from its entries are nobody's: they are of when the entries came back.
 */
#include "harness/boxes.h"

static const int64_t second = 1000000000, first = 1000000000000000111, other = 1100000000000000222;

static cb_stat_info stat_of(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	return info;
}

static void undo(cb_box *b, uint64_t seq)
{
	cb_error err = {0};
	CHECK_OK(cb_undo(b, seq, NULL, &err));
}

static void redo(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_redo(b, NULL, &err));
}

static void set(cb_box *b, const char *path, int64_t atime_ns, int64_t mtime_ns)
{
	cb_error err = {0};
	CHECK_OK(cb_utimens(b, path, atime_ns, mtime_ns, 0, &err));
}

TEST_BOTH(undo_of_times_of_a_folder)
{
	static const char *const paths[] = {"/work/d", "/work/f", "/work", "/"};
	cb_store *s = test_store_open(memory);
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		cb_error err = {0};
		cb_box *b = NULL;
		const char *p = paths[i];
		char name[8];
		(void)snprintf(name, sizeof(name), "demo%zu", i);
		CHECK_OK(cb_box_create(s, name, &b, &err));
		CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
		must_write(b, "/work/f", "f");
		int64_t made = stat_of(b, p).mtime_ns;
		set(b, p, CB_TIME_OMIT, first);
		set(b, p, CB_TIME_OMIT, other);
		undo(b, 0);
		CHECK(stat_of(b, p).mtime_ns == first);
		undo(b, 0);
		CHECK(stat_of(b, p).mtime_ns == made);
		redo(b);
		CHECK(stat_of(b, p).mtime_ns == first);
		redo(b);
		CHECK(stat_of(b, p).mtime_ns == other);
		cb_box_close(b);
	}
	test_store_sound(s);
	cb_store_close(s);
}

/* As if the step had not been: what came later moved the one time on and left the other. */
TEST_BOTH(undo_of_times_under_later_entries)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	int64_t made = stat_of(b, "/work/d").atime_ns;
	set(b, "/work/d", 5 * second, 6 * second);
	uint64_t seq = must_seq(b);
	must_write(b, "/work/d/x", "x");
	int64_t entered = stat_of(b, "/work/d").mtime_ns;
	undo(b, seq);
	CHECK(stat_of(b, "/work/d").mtime_ns == entered);
	CHECK(stat_of(b, "/work/d").atime_ns == made);
	/* An entry that comes back does so now. */
	set(b, "/work/d", CB_TIME_OMIT, first);
	CHECK_OK(cb_unlink(b, "/work/d/x", &err));
	set(b, "/work/d", CB_TIME_OMIT, other);
	undo(b, must_seq(b) - 1);
	CHECK(stat_of(b, "/work/d").mtime_ns > other);
	cb_box_close(b);
	cb_store_close(s);
}

/* A step of several changes, one of which only a merge can take back. */
TEST_BOTH(undo_of_times_by_merge)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	must_write(b, "/work/f", "1\n2\n3\n4\n5\n");
	int64_t made = stat_of(b, "/work/d").mtime_ns;
	cb_box *t = must_begin(b);
	set(t, "/work/d", CB_TIME_OMIT, first);
	must_write(t, "/work/f", "one\n2\n3\n4\n5\n");
	cb_commit_result done = must_commit(t);
	must_write(b, "/work/f", "one\n2\n3\n4\nfive\n");
	undo(b, done.seq);
	CHECK_STR(must_read(b, "/work/f"), "1\n2\n3\n4\nfive\n");
	CHECK(stat_of(b, "/work/d").mtime_ns == made);
	cb_box_close(b);
	cb_store_close(s);
}
