/*
 * undo_before_what_was_pruned.c: an undo that comes to pruned steps says that they were pruned, from which step on, and which older
 * state is left; it used to say that there was nothing to undo.
 */
#include "harness/boxes.h"

#include <string.h>

TEST_BOTH(an_undo_that_comes_to_pruned_steps)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	CHECK_MSG(strstr(err.message, "nothing to undo"), "%s", err.message);
	for (char text[] = "1"; *text <= '6'; ++*text) must_write(b, "/work/a", text);
	CHECK_OK(cb_checkpoint_save(b, "three", 3, 0, &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 2), NULL, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	CHECK_MSG(strstr(err.message, "before step 5 was pruned") && strstr(err.message, "that of step 3"), "%s", err.message);
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_CODE(cb_redo(b, NULL, &err), CB_NOTHING);
	CHECK_MSG(strstr(err.message, "nothing to redo"), "%s", err.message);
	CHECK_OK(cb_checkpoint_delete(b, "three", &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	cb_code code = CB_OK;
	while (code == CB_OK) code = cb_undo(b, 0, NULL, &err);
	CHECK_MSG(code == CB_NOTHING && strstr(err.message, "was pruned") && strstr(err.message, "that of step 0"), "%s",
	          err.message);
}
