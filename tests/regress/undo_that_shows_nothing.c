/*
 * undo_that_shows_nothing.c: an undo that changed versions, change times or numbers of inodes, and nothing that can be seen, was a step and
 * said that it took something back. A plain undo passes such a change and takes the
 * one before, and of one that is named nothing is left. What can be seen counts: access times that were set, and which names are one file.
 */
#include "harness/boxes.h"

#include <stdlib.h>
#include <time.h>

static cb_box *new_box(bool memory, cb_store **out)
{
	cb_error err = {0};
	cb_box *b = NULL;
	*out = test_store_open(memory);
	CHECK_OK(cb_box_create(*out, "demo", &b, &err));
	return b;
}

static void close_all(cb_store *s, cb_box *b)
{
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* The last change but for what shows nothing. */
static void undo_until(cb_box *b, const char *gone)
{
	cb_error err = {0};
	uint64_t head = must_seq(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_U64(must_seq(b), head + 1);
	CHECK(!exists(b, gone));
}

TEST_BOTH(a_copy_of_what_is_there)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = new_box(memory, &s);
	char *big = test_keep(calloc(1, 300001));
	memset(big, 'x', 300000);
	for (int large = 0; large < 2; large++) {
		must_write(b, "/work/b", large ? big : "one");
		uint64_t wrote = must_seq(b);
		CHECK_OK(cb_copy(b, "/work/b", "/work/n", 0, &err));
		CHECK_OK(cb_copy(b, "/work/n", "/work/b", 0, &err));
		CHECK_U64(must_seq(b), wrote + 2);
		CHECK_CODE(cb_undo(b, wrote + 2, NULL, &err), CB_NOTHING);
		CHECK_U64(must_seq(b), wrote + 2);
		undo_until(b, "/work/n");
		undo_until(b, "/work/b");
		CHECK_OK(cb_redo(b, NULL, &err));
		CHECK(exists(b, "/work/b") && !exists(b, "/work/n"));
		CHECK_OK(cb_redo(b, NULL, &err));
		CHECK(exists(b, "/work/n"));
		CHECK_CODE(cb_redo(b, NULL, &err), CB_NOTHING);
		CHECK_OK(cb_undo(b, wrote + 1, NULL, &err));
		CHECK_OK(cb_unlink(b, "/work/b", &err));
	}
	close_all(s, b);
}

TEST_BOTH(which_names_are_one_file)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = new_box(memory, &s);
	cb_stat_info info = CB_INIT(cb_stat_info);
	must_write(b, "/work/f", "text");
	CHECK_OK(cb_link(b, "/work/f", "/work/g", &err));
	CHECK_OK(cb_copy(b, "/work/f", "/work/h", 0, &err));
	CHECK_OK(cb_rename(b, "/work/h", "/work/g", 0, &err));
	CHECK_OK(cb_stat(b, "/work/f", 0, &info, &err));
	CHECK_U64(info.links, 1);
	cb_box *t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/g", &err));
	CHECK_OK(cb_link(t, "/work/f", "/work/g", &err));
	uint64_t linked = must_commit(t).seq;
	CHECK_OK(cb_undo(b, linked, NULL, &err));
	CHECK_OK(cb_stat(b, "/work/f", 0, &info, &err));
	CHECK_U64(info.links, 1);
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_stat(b, "/work/f", 0, &info, &err));
	CHECK_U64(info.links, 2);
	close_all(s, b);
}

/* Saved anew, with all that it had: another file by its number, and by nothing else. */
TEST_BOTH(another_that_is_just_so)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = new_box(memory, &s);
	must_write(b, "/work/f", "text");
	CHECK_OK(cb_utimens(b, "/work/f", 5, 5, 0, &err));
	for (int access = 0; access < 2; access++) {
		cb_box *t = must_begin(b);
		CHECK_OK(cb_copy(t, "/work/f", "/work/h", 0, &err));
		CHECK_OK(cb_utimens(t, "/work/h", access ? 7 : 5, 5, 0, &err));
		CHECK_OK(cb_unlink(t, "/work/f", &err));
		CHECK_OK(cb_rename(t, "/work/h", "/work/f", 0, &err));
		uint64_t saved = must_commit(t).seq;
		CHECK_CODE(cb_undo(b, saved, NULL, &err), access ? CB_OK : CB_NOTHING);
	}
	close_all(s, b);
}

/* Times that somebody gave to a folder can be seen. */
TEST_BOTH(times_that_were_set)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = new_box(memory, &s);
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	CHECK_OK(cb_utimens(b, "/work/d", 5, CB_TIME_OMIT, 0, &err));
	CHECK_OK(cb_utimens(b, "/work/d", CB_TIME_OMIT, 5, 0, &err));
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_stat(b, "/work/d", 0, &info, &err));
	CHECK(info.mtime_ns != 5 && info.atime_ns == 5);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_stat(b, "/work/d", 0, &info, &err));
	CHECK(info.atime_ns != 5);
	close_all(s, b);
}

/* A merge of what shows nothing counts in the past, until it is undone. */
TEST_BOTH(a_merge_that_brought_a_copy)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = new_box(memory, &s);
	uint64_t merged = 0, undone = 0, open = 0;
	must_write(b, "/work/b", "one");
	CHECK_OK(cb_copy(b, "/work/b", "/work/n", 0, &err));
	cb_box *fork = must_fork(s, "demo", "fork");
	CHECK_OK(cb_copy(fork, "/work/n", "/work/b", 0, &err));
	must_write(b, "/work/c", "mine");
	CHECK_OK(cb_merge(b, fork, NULL, &merged, &open, &err));
	CHECK_CODE(cb_merge(b, fork, NULL, NULL, &open, &err), CB_NOTHING);
	CHECK_OK(cb_undo(b, 0, &undone, &err));
	CHECK_U64(undone, merged + 1);
	CHECK(exists(b, "/work/c"));
	CHECK_OK(cb_merge(b, fork, NULL, &merged, &open, &err));
	CHECK_OK(cb_undo(b, merged, &undone, &err));
	CHECK_OK(cb_redo(b, &undone, &err));
	CHECK_CODE(cb_merge(b, fork, NULL, NULL, &open, &err), CB_NOTHING);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK(exists(b, "/work/c"));
	undo_until(b, "/work/c");
	cb_box_close(fork);
	close_all(s, b);
}

static double seconds_of_undos(cb_box *b, int count)
{
	cb_error err = {0};
	struct timespec from, to;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (int i = 0; i < count; i++) CHECK_OK(cb_undo(b, 0, NULL, &err));
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* The last ones cost what the first did. */
TEST(many_that_are_passed)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = new_box(true, &s);
	enum { ROUNDS = 1200 };
	must_write(b, "/work/b", "one");
	CHECK_OK(cb_copy(b, "/work/b", "/work/n", 0, &err));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_OK(cb_kv_set(b, "k", i % 2 ? "1" : "2", 1, &err));
		CHECK_OK(cb_copy(b, "/work/b", "/work/n", 0, &err));
	}
	double first = seconds_of_undos(b, ROUNDS / 4);
	(void)seconds_of_undos(b, ROUNDS / 2);
	double last = seconds_of_undos(b, ROUNDS / 4);
	test_note("%d undos: %.3f s, and the last as many %.3f s", ROUNDS / 4, first, last);
	CHECK(last < 4 * first + 0.2);
	undo_until(b, "/work/n");
	close_all(s, b);
}
