/*
 * undo_that_leaves_no_trace.c: a step that changes times only (chmod, and back to the mode that was there) is undone, redone and undone
 * again. The second time the step's own bytes are no longer there, so the undo is a merge, and a merge leaves times alone: nothing was left
 * to record, undo said OK, made no step, and every further undo found the same step again.
 */
#include "harness/boxes.h"

TEST_BOTH(undo_is_a_step_though_nothing_is_left_to_take_back)
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
	CHECK_OK(cb_undo(b, 0, &made, &err));
	CHECK_U64(made, 3);
	CHECK_OK(cb_redo(b, &made, &err));
	CHECK_U64(made, 4);
	CHECK_OK(cb_undo(b, 0, &made, &err));
	CHECK_U64(made, 5);
	CHECK_U64(must_seq(b), 5);
	CHECK_OK(cb_redo(b, &made, &err));
	CHECK_U64(made, 6);
	CHECK_OK(cb_undo(b, 0, &made, &err));
	CHECK_U64(made, 7);
	CHECK_OK(cb_undo(b, 0, &made, &err)); /* the file itself */
	CHECK_U64(made, 8);
	CHECK(!exists(b, "/work/a"));
	CHECK_CODE(cb_undo(b, 0, &made, &err), CB_NOTHING);
	CHECK_OK(cb_redo(b, &made, &err));
	CHECK(exists(b, "/work/a"));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
