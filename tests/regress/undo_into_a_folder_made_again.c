/*
 * undo_into_a_folder_made_again.c: a step took a folder away, and it is there again, as another one. To take the step back gave that one
 * the later access time of the old folder, as where both sides of a merge made it, and was a step that did nothing else.
 */
#include "harness/boxes.h"

TEST_BOTH(a_folder_that_is_there_again)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	must_write(b, "/work/d/x", "x");
	must_write(b, "/work/d/y", "y");
	uint64_t made = must_seq(b);
	CHECK_OK(cb_remove(b, "/work/d", &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	CHECK_OK(cb_undo(b, made + 2, NULL, &err));
	CHECK_OK(cb_undo(b, made + 1, NULL, &err));
	CHECK_OK(cb_unlink(b, "/work/d/y", &err));
	CHECK_OK(cb_symlink(b, "x", "/work/d/y", &err));
	uint64_t head = must_seq(b);
	cb_stat_info was = CB_INIT(cb_stat_info), is = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/d", 0, &was, &err));
	CHECK_CODE(cb_undo(b, made + 3, NULL, &err), CB_NOTHING);
	CHECK_OK(cb_stat(b, "/work/d", 0, &is, &err));
	CHECK_U64(must_seq(b), head);
	CHECK(was.atime_ns == is.atime_ns && was.mtime_ns == is.mtime_ns && was.version == is.version);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
