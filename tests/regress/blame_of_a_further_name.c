/* blame_of_a_further_name.c: a further name of a file is not who wrote it: log and blame go on with the file, as they do after a rename. */
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

TEST_BOTH(blame_of_a_further_name)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");                /* 1 */
	must_write(b, "/work/f", "another\n");            /* 2 */
	CHECK_OK(cb_unlink(b, "/work/f", &err));          /* 3 */
	CHECK_OK(cb_link(b, "/work/a", "/work/f", &err)); /* 4 */
	check(b, "/work/a", "1", " 4 1");
	check(b, "/work/f", "1", " 4 1");
	CHECK_OK(cb_link(b, "/work/a", "/work/g", &err)); /* 5: no entry but the new one changes */
	check(b, "/work/g", "1", " 5 4 1");
	must_write(b, "/work/f", "one\ntwo\n"); /* 6: all its names */
	check(b, "/work/g", "1 6", " 6 5 4 1");
	CHECK_OK(cb_unlink(b, "/work/a", &err)); /* 7 */
	CHECK_OK(cb_undo(b, 0, NULL, &err));     /* 8 */
	check(b, "/work/a", "1 6", " 8 7 6 5 4 1");
	CHECK_OK(cb_rename(b, "/work/g", "/work/h", 0, &err)); /* 9 */
	check(b, "/work/h", "1 6", " 9 8 7 6 5 4 1");
	cb_box_close(b);
	cb_store_close(s);
}
