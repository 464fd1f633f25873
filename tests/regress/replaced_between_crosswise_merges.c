/*
 * replaced_between_crosswise_merges.c: boxes that merged each other crosswise, where a file was saved by rename or removed and written
 * anew. The common pasts have different files under one name, and each side has another of them. Such sides were not compared: equal ones
 * conflicted, and preferring one took the file from both.
 */
#include "harness/boxes.h"

static cb_error err;

static void save(cb_box *b, const char *text)
{
	must_write(b, "/work/new", text);
	CHECK_OK(cb_rename(b, "/work/new", "/work/f", 0, &err));
}

static void change(cb_box *b, bool by_rename, const char *text)
{
	if (by_rename) save(b, text);
	else must_write(b, "/work/f", text);
}

static void merge(cb_box *into, cb_box *from, cb_prefer prefer)
{
	CHECK_OK(cb_merge(into, from, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, &err));
}

static void of_four(cb_prefer prefer)
{
	cb_store *s = test_store_open(true);
	cb_box *b[4] = {NULL};
	CHECK_OK(cb_box_create(s, "b0", &b[0], &err));
	must_write(b[0], "/work/f", "base");
	b[1] = must_fork(s, "b0", "b1");
	b[2] = must_fork(s, "b0", "b2");
	b[3] = must_fork(s, "b0", "b3");
	save(b[1], "v5");
	merge(b[0], b[1], CB_PREFER_OURS);
	must_write(b[3], "/work/f", "v0");
	CHECK_OK(cb_unlink(b[1], "/work/f", &err));
	must_write(b[1], "/work/f", "v4");
	merge(b[2], b[3], CB_PREFER_OURS);
	merge(b[3], b[0], CB_PREFER_THEIRS);
	merge(b[3], b[1], CB_PREFER_THEIRS);
	merge(b[1], b[0], CB_PREFER_OURS);
	merge(b[1], b[2], CB_PREFER_OURS);
	CHECK_STR(must_read(b[1], "/work/f"), "v4");
	CHECK_STR(must_read(b[3], "/work/f"), "v4");
	merge(b[1], b[3], prefer);
	CHECK_STR(must_read(b[1], "/work/f"), "v4");
	for (int i = 0; i < 4; i++) cb_box_close(b[i]);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(what_both_have_stays)
{
	of_four(CB_PREFER_OURS);
	of_four(CB_PREFER_THEIRS);
	of_four(CB_PREFER_NONE);
}

/* Two merged each other crosswise, with one of them preferred; then one into the other. */
static void of_two(bool save_here, bool save_there, const char *after)
{
	cb_store *s = test_store_open(true);
	cb_box *p = NULL;
	CHECK_OK(cb_box_create(s, "p", &p, &err));
	must_write(p, "/work/f", "base");
	cb_box *q = must_fork(s, "p", "q"), *here = must_fork(s, "p", "here"), *there = must_fork(s, "p", "there");
	change(here, save_here, "here");
	change(there, save_there, "there");
	merge(p, here, CB_PREFER_THEIRS);
	merge(q, there, CB_PREFER_THEIRS);
	merge(p, there, CB_PREFER_OURS);
	merge(q, here, CB_PREFER_THEIRS);
	CHECK_STR(must_read(p, "/work/f"), "here");
	CHECK_STR(must_read(q, "/work/f"), "here");
	if (after) must_write(p, "/work/f", after);
	CHECK_CODE(cb_merge(q, p, NULL, NULL, NULL, &err), after ? CB_CONFLICT : CB_OK);
	CHECK_STR(must_read(q, "/work/f"), "here");
	cb_box_close(p);
	cb_box_close(q);
	cb_box_close(here);
	cb_box_close(there);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(equal_sides_pass)
{
	for (int i = 0; i < 4; i++) {
		of_two(i & 1, i & 2, NULL);
		of_two(i & 1, i & 2, "other");
	}
}
