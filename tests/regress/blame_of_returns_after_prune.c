/*
 * blame_of_returns_after_prune.c: undo, redo and restore write nothing. What they brought back belongs to who wrote it, also when the steps
 * between were pruned; and to nobody, when the step that wrote it was.
 */
#include "harness/boxes.h"

static void bring_back(cb_store *s, cb_box *b, const char *how)
{
	cb_error err = {0};
	cb_box *old = must_open(s, "demo@1");
	if (strcmp(how, "restore") == 0) CHECK_OK(cb_restore(b, old, "/work/a", NULL, &err));
	else CHECK_OK(cb_undo(b, 2, NULL, &err));
	if (strcmp(how, "redo") == 0) CHECK_OK(cb_redo(b, NULL, &err));
	cb_box_close(old);
}

static void return_and_prune(bool memory, const char *how, bool kept, const char *expected)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1\n2\n3\n");
	if (kept) CHECK_OK(cb_checkpoint_save(b, "first", 1, true, &err));
	must_write(b, "/work/a", "1\ntwo\n3\n");
	bring_back(s, b, how);
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_STR(must_blame(b, "/work/a"), expected);
	char lines[64];
	CHECK_OK(cb_write_file(b, "/work/a", "4\n", 2, &CB_WITH(cb_write_options, .append = true), &err));
	(void)snprintf(lines, sizeof(lines), "%s %llu", expected, (unsigned long long)must_seq(b));
	CHECK_STR(must_blame(b, "/work/a"), lines);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(blame_of_a_restored_text_after_prune)
{
	return_and_prune(memory, "restore", true, "1 1 1");
}

TEST_BOTH(blame_of_a_restored_text_of_a_pruned_step)
{
	return_and_prune(memory, "restore", false, "0 0 0");
}

TEST_BOTH(blame_of_an_undone_text_after_prune)
{
	return_and_prune(memory, "undo", true, "1 1 1");
}

TEST_BOTH(blame_of_an_undone_text_of_a_pruned_step)
{
	return_and_prune(memory, "undo", false, "0 0 0");
}

TEST_BOTH(blame_of_a_redone_text_after_prune)
{
	return_and_prune(memory, "redo", true, "1 0 1");
}
