/* A folder that one side made, or whose times it set while the other did nothing to it but change entries, has that side's times after a
 * merge. */
#include "harness/boxes.h"

#include <fcntl.h>
#include <sys/stat.h>

static const int64_t given = 1000000000000000000;

static int64_t mtime(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	return info.mtime_ns;
}

static void fill(cb_box *b)
{
	cb_error err = {0};
	static const char *const paths[] = {"/work/d/f", "/work/d/below/g", "/work/there/h"};
	for (size_t i = 0; i < 3; i++)
		CHECK_OK(cb_write_file(b, paths[i], "1", 1, &CB_WITH(cb_write_options, .parents = true), &err));
	CHECK_OK(cb_utimens(b, "/work/d/below", given, given, 0, &err));
	CHECK_OK(cb_utimens(b, "/work/d", given, given, 0, &err));
	CHECK_OK(cb_utimens(b, "/work/there", given, given, 0, &err));
	CHECK_OK(cb_utimens(b, "/work/bare", given, given, 0, &err));
}

static void check_filled(cb_box *b)
{
	CHECK(mtime(b, "/work/d/below") == given);
	CHECK(mtime(b, "/work/d") == given);
	CHECK(mtime(b, "/work/there") == given);
	CHECK(mtime(b, "/work/bare") == given);
}

static cb_box *new_box(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/there", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/bare", 0755, 0, &err));
	return b;
}

TEST_BOTH(of_a_transaction)
{
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s), *t = must_begin(b);
	fill(t);
	must_write(b, "/work/other", "o");
	CHECK(must_commit(t).merged);
	check_filled(b);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(of_a_fork)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s), *f = must_fork(s, "demo", "f");
	fill(f);
	must_write(b, "/work/other", "o");
	CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
	check_filled(b);
	CHECK_OK(cb_merge(f, b, NULL, NULL, NULL, &err));
	check_filled(f);
	cb_box_close(f);
	cb_box_close(b);
	cb_store_close(s);
}

/* Entries of both sides: the folder changed when they were joined. */
TEST(entries_of_both_sides)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = new_box(s), *t = must_begin(b);
	fill(t);
	must_write(b, "/work/there/mine", "o");
	int64_t entered = mtime(b, "/work/there");
	must_commit(t);
	CHECK(mtime(b, "/work/there") >= entered);
	CHECK(mtime(b, "/work/d") == given);
	/* and times that only follow are no conflict */
	t = must_begin(b);
	must_write(t, "/work/there/two", "2");
	must_write(b, "/work/there/three", "3");
	CHECK_OK(cb_utimens(b, "/work/there", given, given, 0, &err));
	must_commit(t);
	cb_box_close(b);
	cb_store_close(s);
}

static void set_there(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_utimens(b, "/work/there", CB_TIME_OMIT, given, 0, &err));
}

static void enter_there(cb_box *b)
{
	must_write(b, "/work/there/new", "n");
}

static void leave_there(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, "/work/there/old", &err));
}

static void rename_there(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/there/old", "/work/there/older", 0, &err));
	CHECK_OK(cb_chmod(b, "/work/there", 0700, 0, &err)); /* moves ctime on */
}

/* One side set the times of a folder, the other changed what is in it: those that were set stand, whichever is merged into the other. */
TEST(set_here_and_entered_there)
{
	static void (*const changes[])(cb_box *) = {enter_there, leave_there, rename_there};
	for (unsigned how = 0; how < 12; how++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = new_box(s);
		must_write(b, "/work/there/old", "o");
		bool ours_sets = how & 1, transaction = how & 2;
		cb_box *f = transaction ? must_begin(b) : must_fork(s, "demo", "f");
		set_there(ours_sets ? b : f);
		changes[how / 4](ours_sets ? f : b);
		if (transaction) CHECK(must_commit(f).merged);
		else CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
		CHECK_MSG(mtime(b, "/work/there") == given, "way %u", how);
		if (!transaction) CHECK_OK(cb_merge(f, b, NULL, NULL, NULL, &err));
		if (!transaction) CHECK_MSG(mtime(f, "/work/there") == given, "way %u, back", how);
		test_store_sound(s);
		if (!transaction) cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* A folder of the host, imported beside another writer: the same import again has nothing to do. */
TEST_BOTH(of_an_import)
{
	cb_error err = {0};
	char dir[512], path[600];
	(void)snprintf(dir, sizeof(dir), "%s/host", test_tmpdir());
	CHECK(mkdir(dir, 0755) == 0);
	(void)snprintf(path, sizeof(path), "%s/d", dir);
	CHECK(mkdir(path, 0755) == 0);
	struct timespec times[2] = {{1000, 0}, {1000, 0}};
	CHECK(utimensat(AT_FDCWD, path, times, 0) == 0 && utimensat(AT_FDCWD, dir, times, 0) == 0);
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s), *t = must_begin(b);
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	CHECK_OK(cb_import(t, dir, &CB_WITH(cb_import_options, .to = "/work/i"), &count, &err));
	must_write(b, "/work/other", "o");
	CHECK(must_commit(t).merged);
	CHECK(mtime(b, "/work/i/d") == 1000000000000 && mtime(b, "/work/i") == 1000000000000);
	count = CB_INIT(cb_transfer_count);
	CHECK_OK(cb_import(b, dir, &CB_WITH(cb_import_options, .to = "/work/i"), &count, &err));
	CHECK(count.seq == 0);
	cb_box_close(b);
	cb_store_close(s);
}
