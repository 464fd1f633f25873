/*
 * A merge that was undone and redone counts again: what the other side took back meanwhile stays taken back. The state between undo and
 * redo, which both sides have, does not have the merge in its past; the redone one has.
 */
#include "harness/boxes.h"

static void revert_survives(bool memory, bool by_number)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *demo = NULL;
	CHECK_OK(cb_box_create(s, "demo", &demo, &err));
	must_write(demo, "/work/a", "old");
	cb_box *f = must_fork(s, "demo", "f");
	must_write(demo, "/work/other", "x");
	must_write(f, "/work/a", "new");
	uint64_t change = must_seq(f), undo = 0;
	CHECK_OK(cb_merge(demo, f, NULL, NULL, NULL, &err));
	CHECK_OK(cb_undo(demo, 0, &undo, &err));
	CHECK_OK(cb_merge(f, demo, NULL, NULL, NULL, &err)); /* f has the state between */
	CHECK_OK(cb_undo(f, change, NULL, &err));
	CHECK_STR(must_read(f, "/work/a"), "old");
	if (by_number) CHECK_OK(cb_undo(demo, undo, NULL, &err));
	else CHECK_OK(cb_redo(demo, NULL, &err));
	CHECK_STR(must_read(demo, "/work/a"), "new");
	cb_code code = cb_merge(f, demo, NULL, NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_CONFLICT || code == CB_NOTHING, "%s", err.message);
	CHECK_STR(must_read(f, "/work/a"), "old");
	test_store_sound(s);
	cb_box_close(demo);
	cb_box_close(f);
	cb_store_close(s);
}

TEST_BOTH(revert_survives_a_redone_merge)
{
	revert_survives(memory, false);
}

TEST_BOTH(revert_survives_an_undone_undo)
{
	revert_survives(memory, true);
}
