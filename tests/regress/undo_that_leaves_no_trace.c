/*
 * undo_that_leaves_no_trace.c: a step that changes nothing but a change time (chmod, and back to the mode that was there) has nothing to
 * take back. Undo said OK, made no step, and every further undo found the same step again; later it made steps that changed nothing. It
 * is passed, as often as what is below it is undone and redone.
 */
#include "harness/boxes.h"

TEST_BOTH(a_step_that_shows_nothing_is_passed)
{
	cb_error err = {0};
	cb_box *b = NULL;
	uint64_t made = 0;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "text");
	cb_box *t = must_begin(b);
	CHECK_OK(cb_chmod(t, "/work/a", 0600, 0, &err));
	CHECK_OK(cb_chmod(t, "/work/a", 0644, 0, &err));
	CHECK_U64(must_commit(t).seq, 2);
	CHECK_CODE(cb_undo(b, 2, &made, &err), CB_NOTHING);
	CHECK_U64(must_seq(b), 2);
	for (uint64_t next = 3; next < 9; next += 2) {
		CHECK_OK(cb_undo(b, 0, &made, &err)); /* the file itself */
		CHECK_U64(made, next);
		CHECK(!exists(b, "/work/a"));
		CHECK_CODE(cb_undo(b, 0, &made, &err), CB_NOTHING);
		CHECK_OK(cb_redo(b, &made, &err));
		CHECK_U64(made, next + 1);
		CHECK(exists(b, "/work/a"));
		CHECK_CODE(cb_redo(b, &made, &err), CB_NOTHING);
	}
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
