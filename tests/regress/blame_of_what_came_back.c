/*
 * blame_of_what_came_back.c: what undo, redo and restore bring back is whose it was, also where the folder had gone, and where another
 * file had been moved to the place. The log of the path has what happened there meanwhile. Blame gave the lines to the restore.
 */
#include "harness/boxes.h"

static cb_code note_step(void *context, const cb_step *step, cb_error *err)
{
	char *out = context;
	size_t size = strlen(out);
	(void)err;
	(void)snprintf(out + size, 64 - size, " %llu", (unsigned long long)step->seq);
	return CB_OK;
}

static void check(cb_box *b, const char *path, const char *blamed, const char *logged)
{
	cb_error err = {0};
	char steps[64] = "";
	CHECK_STR(must_blame(b, path), blamed);
	CHECK_OK(cb_log(b, &CB_WITH(cb_log_options, .path = path), note_step, steps, NULL, &err));
	CHECK_STR(steps, logged);
}

static cb_box *begin(bool memory, cb_store **out)
{
	cb_error err = {0};
	cb_box *b = NULL;
	*out = test_store_open(memory);
	CHECK_OK(cb_box_create(*out, "demo", &b, &err));
	return b;
}

static void end(cb_store *s, cb_box *b)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* path NULL: all of it. */
static void restore_to(cb_store *s, cb_box *b, const char *address, const char *path)
{
	cb_error err = {0};
	cb_box *old = must_open(s, address);
	CHECK_OK(cb_restore(b, old, path, NULL, &err));
	cb_box_close(old);
}

TEST_BOTH(by_its_path_when_its_folder_was_gone)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = begin(memory, &s);
	CHECK_OK(cb_write_file(b, "/work/d/a", "one\n", 4, &CB_WITH(cb_write_options, .parents = true), &err)); /* 1 */
	CHECK_OK(cb_remove(b, "/work/d", &err));                                                                /* 2 */
	restore_to(s, b, "demo@1", "/work/d/a");                                                                /* 3 */
	check(b, "/work/d/a", "1", " 3 2 1");
	must_write(b, "/work/d/a", "one\ntwo\n"); /* 4 */
	check(b, "/work/d/a", "1 4", " 4 3 2 1");
	CHECK_OK(cb_rename(b, "/work/d", "/work/e", 0, &err)); /* 5 */
	restore_to(s, b, "demo@4", "/work/d");                 /* 6 */
	check(b, "/work/d/a", "1 4", " 6 4 3 2 1");
	check(b, "/work/e/a", "1 4", " 4 3 2 1");
	end(s, b);
}

TEST_BOTH(with_all_when_another_was_moved_there)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = begin(memory, &s);
	must_write(b, "/work/c", "one\n");                     /* 1 */
	must_write(b, "/work/b", "two\n");                     /* 2 */
	CHECK_OK(cb_unlink(b, "/work/c", &err));               /* 3 */
	CHECK_OK(cb_rename(b, "/work/b", "/work/c", 0, &err)); /* 4 */
	check(b, "/work/c", "2", " 4 2");
	restore_to(s, b, "demo@2", NULL); /* 5 */
	check(b, "/work/c", "1", " 5 4 3 1");
	check(b, "/work/b", "2", " 5 4 2");
	CHECK_OK(cb_undo(b, 0, NULL, &err)); /* 6 */
	check(b, "/work/c", "2", " 6 5 4 2");
	CHECK_OK(cb_redo(b, NULL, &err)); /* 7 */
	check(b, "/work/c", "1", " 7 6 5 4 3 1");
	end(s, b);
}

TEST_BOTH(with_all_when_another_was_moved_over_it)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = begin(memory, &s);
	must_write(b, "/work/c", "one\n");                     /* 1 */
	must_write(b, "/work/b", "two\n");                     /* 2 */
	CHECK_OK(cb_rename(b, "/work/b", "/work/c", 0, &err)); /* 3 */
	CHECK_OK(cb_undo(b, 0, NULL, &err));                   /* 4 */
	check(b, "/work/c", "1", " 4 3 1");
	check(b, "/work/b", "2", " 4 3 2");
	end(s, b);
}

/* An undo in the middle leaves what never was: then it is the file that was renamed which was changed since. */
TEST_BOTH(a_rename_taken_back_under_later_changes)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = begin(memory, &s);
	must_write(b, "/work/a", "one\n");                     /* 1 */
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err)); /* 2 */
	must_write(b, "/work/b", "one\ntwo\n");                /* 3 */
	CHECK_OK(cb_undo(b, 2, NULL, &err));                   /* 4 */
	check(b, "/work/a", "1 3", " 4 3 2 1");
	end(s, b);
}

TEST_BOTH(from_a_checkpoint_past_what_was_pruned)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = begin(memory, &s);
	must_write(b, "/work/a", "one\n"); /* 1 */
	CHECK_OK(cb_checkpoint_save(b, "one", 0, true, &err));
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err)); /* 2 */
	for (int i = 0; i < 3; i++) must_write(b, "/work/z", i % 2 ? "odd\n" : "even\n");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	restore_to(s, b, "demo@one", NULL); /* 6 */
	check(b, "/work/a", "1", " 6 1");
	end(s, b);
}
