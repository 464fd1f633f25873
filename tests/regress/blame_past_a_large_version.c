/* blame_past_a_large_version.c: one version over 16 MiB made every later blame of the file fail, for ever. Such a version has no lines,
 * as a binary has none. */
#include "base/limits.h"
#include "harness/boxes.h"

static cb_code never(void *context, const cb_blame_line *line, cb_error *err)
{
	(void)context;
	(void)line;
	(void)err;
	test_fail(__FILE__, __LINE__, "a line is told");
}

TEST_BOTH(a_large_version_among_small_ones)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/log", "one\n");
	must_write(b, "/work/log", "one\ntwo\n");
	CHECK_OK(cb_truncate(b, "/work/log", (uint64_t)LIMIT_DIFF_TEXT_BYTES + 1, &err));
	CHECK_CODE(cb_blame(b, "/work/log", never, NULL, NULL), CB_TOOBIG);
	CHECK_OK(cb_undo(b, 0, NULL, &err)); /* 4 brings back what 1 and 2 wrote */
	CHECK_STR(must_blame(b, "/work/log"), "1 2");
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_truncate(b, "/work/log", 8, &err)); /* 6 makes it small: nobody knows what of it was there before */
	CHECK_STR(must_blame(b, "/work/log"), "6 6");
	must_write(b, "/work/log", "one\nthree\n");
	CHECK_STR(must_blame(b, "/work/log"), "6 7");
	cb_box_close(b);
	cb_store_close(s);
}
