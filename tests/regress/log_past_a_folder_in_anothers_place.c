/*
 * log_past_a_folder_in_anothers_place.c: a folder was put in the place of another one, over it or in exchange for it. The search for the
 * step that made it followed its place, to the other one's; there the log of what is in it ended with CB_NOTFOUND.
 */
#include "harness/boxes.h"

static cb_code note(void *context, const cb_step *step, cb_error *err)
{
	char *out = context;
	size_t size = strlen(out);
	(void)err;
	(void)snprintf(out + size, 64 - size, " %llu", (unsigned long long)step->seq);
	return CB_OK;
}

static void check_log(cb_box *b, const char *path, const char *expected)
{
	cb_error err = {0};
	char steps[64] = "";
	CHECK_OK(cb_log(b, &CB_WITH(cb_log_options, .path = path), note, steps, NULL, &err));
	CHECK_MSG(strcmp(steps, expected) == 0, "%s:%s, expected%s", path, steps, expected);
}

static void folder_in_place(bool memory, unsigned flags)
{
	cb_error err = {0};
	cb_store *store = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(store, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/c", 0755, 0, &err));             /* 1 */
	CHECK_OK(cb_mkdir(b, "/work/e/d", 0755, CB_PARENTS, &err));  /* 2 */
	must_write(b, "/work/e/d/a", "x");                           /* 3 */
	CHECK_OK(cb_rename(b, "/work/e/d", "/work/c", flags, &err)); /* 4 */
	check_log(b, "/work/c/a", " 3");
	must_write(b, "/work/c/a", "y"); /* 5 */
	check_log(b, "/work/c/a", " 5 3");
	/* What was there before the folder was made: another one, at the place where it was made. */
	CHECK_OK(cb_rename(b, "/work/e", "/work/f", 0, &err)); /* 6 */
	check_log(b, "/work/c/a", " 5 3");
	cb_box_close(b);
	cb_store_close(store);
}

TEST_BOTH(log_below_a_folder_renamed_over_another)
{
	folder_in_place(memory, 0);
}

TEST_BOTH(log_below_exchanged_folders)
{
	folder_in_place(memory, CB_EXCHANGE);
}

/* One step replaced a file by a folder: the folder is not older than that. */
TEST_BOTH(log_below_a_folder_that_was_a_file)
{
	cb_error err = {0};
	cb_store *store = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(store, "demo", &b, &err));
	must_write(b, "/work/c", "a file"); /* 1 */
	cb_box *t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/c", &err));
	CHECK_OK(cb_mkdir(t, "/work/c", 0755, 0, &err));
	must_write(t, "/work/c/a", "x");
	(void)must_commit(t);                                  /* 2 */
	CHECK_OK(cb_rename(b, "/work/c", "/work/d", 0, &err)); /* 3 */
	must_write(b, "/work/d/a", "y");                       /* 4 */
	check_log(b, "/work/d/a", " 4 2");
	cb_box_close(b);
	cb_store_close(store);
}
