/* blame_of_exchanged_files.c: two files that changed places are both still there: log and blame go on with the file, not with the path. */
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

TEST_BOTH(blame_of_exchanged_files)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "alpha\n");
	must_write(b, "/work/c", "gamma\n");
	must_write(b, "/work/a", "alpha\nalpha2\n");
	CHECK_OK(cb_rename(b, "/work/a", "/work/c", CB_EXCHANGE, &err)); /* 4 */
	check(b, "/work/c", "1 3", " 4 3 1");
	check(b, "/work/a", "2", " 4 2");
	CHECK_OK(cb_undo(b, 0, NULL, &err)); /* 5 */
	check(b, "/work/a", "1 3", " 5 4 3 1");
	check(b, "/work/c", "2", " 5 4 2");
	cb_box_close(b);
	cb_store_close(s);
}

/* By one step each of three went to the next one's place, and the last was covered: that is a new version of it. */
TEST_BOTH(blame_of_files_that_moved_up)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/log", "three\n");
	must_write(b, "/work/log.1", "two\n");
	must_write(b, "/work/log.2", "one\n");
	cb_box *t = must_begin(b);
	CHECK_OK(cb_rename(t, "/work/log.1", "/work/log.2", 0, &err));
	CHECK_OK(cb_rename(t, "/work/log", "/work/log.1", 0, &err));
	must_write(t, "/work/log", "four\n");
	(void)must_commit(t); /* 4 */
	check(b, "/work/log.2", "4", " 4 3");
	check(b, "/work/log.1", "1", " 4 1");
	check(b, "/work/log", "4", " 4 1");
	cb_box_close(b);
	cb_store_close(s);
}
