/*
 * restore_of_what_was_not_there.c: a path that was not there then is removed by its restore. It was refused as not found where the folders
 * above it were not there then either, or something else was in the place of one.
 */
#include "harness/boxes.h"

TEST_BOTH(below_a_folder_that_came_later)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/keep", "keep");
	must_write(b, "/work/file", "file then");
	cb_box *then = must_open(s, "demo@2");
	must_write(b, "/work/new/deep/f", "f");
	must_write(b, "/work/new/g", "g");
	CHECK_OK(cb_unlink(b, "/work/file", &err));
	must_write(b, "/work/file/below", "now a folder");
	CHECK_OK(cb_restore(b, then, "/work/new/deep/f", NULL, &err));
	CHECK(!exists(b, "/work/new/deep/f"));
	CHECK(exists(b, "/work/new/deep"));
	CHECK_OK(cb_restore(b, then, "/work/new/deep", NULL, &err));
	CHECK(!exists(b, "/work/new/deep"));
	CHECK_STR(must_read(b, "/work/new/g"), "g");
	CHECK_OK(cb_restore(b, then, "/work/file/below", NULL, &err));
	CHECK(exists(b, "/work/file") && !exists(b, "/work/file/below"));
	/* Of another box too. */
	cb_box *other = NULL;
	CHECK_OK(cb_box_create(s, "other", &other, &err));
	must_write(other, "/work/d/x", "x");
	CHECK_OK(cb_restore(other, b, "/work/d/x", NULL, &err));
	CHECK(exists(other, "/work/d") && !exists(other, "/work/d/x"));
	cb_box_close(other);
	cb_box_close(then);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(in_neither_state)
{
	static const char *const paths[] = {"/never", "/never/x", "/work/f/x", "/work/gone/x"};
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "f");
	CHECK_OK(cb_mkdir(b, "/work/gone", 0755, 0, &err));
	cb_box *then = must_open(s, "demo@2");
	CHECK_OK(cb_rmdir(b, "/work/gone", &err));
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		CHECK_CODE(cb_restore(b, then, paths[i], NULL, &err), CB_NOTFOUND);
		CHECK_MSG(strstr(err.message, "in neither state"), "%s", err.message);
	}
	CHECK_U64(must_seq(b), 3);
	cb_box_close(then);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* The folder that it was in is a file by now: it was taken for damage. */
TEST_BOTH(below_what_is_a_file_now)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/d/e/y", "y");
	cb_box *then = must_open(s, "demo@1");
	CHECK_OK(cb_remove(b, "/work/d", &err));
	must_write(b, "/work/d", "a file");
	CHECK_CODE(cb_restore(b, then, "/work/d/e/y", NULL, &err), CB_NOTDIR);
	CHECK_CODE(cb_restore(b, then, "/work/d/e", NULL, &err), CB_NOTDIR);
	CHECK_STR(must_read(b, "/work/d"), "a file");
	CHECK_OK(cb_restore(b, then, "/work/d", NULL, &err));
	CHECK_STR(must_read(b, "/work/d/e/y"), "y");
	cb_box_close(then);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
