/*
 * open_that_writes_nothing.c: an open that could have made or emptied a file, and did not, began the running step of open files, in which
 * nothing was written: for a second the handle showed the box as it was then.
 */
#include "harness/boxes.h"

TEST_BOTH(shows_no_past)
{
	static const struct opening {
		const char *path;
		unsigned flags;
		cb_code code;
	} all[] = {
		{"/work/a", CB_WRITE | CB_CREATE, CB_OK},
		{"/work", CB_WRITE | CB_CREATE, CB_ISDIR},
		{"/work/none/x", CB_WRITE | CB_CREATE, CB_NOTFOUND},
		{"/work/a/x", CB_WRITE | CB_CREATE, CB_NOTDIR},
		{"/work", CB_WRITE | CB_TRUNCATE, CB_ISDIR},
		{"/work/none", CB_WRITE | CB_TRUNCATE, CB_NOTFOUND},
	};
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *a = NULL;
	CHECK_OK(cb_box_create(s, "demo", &a, &err));
	must_write(a, "/work/a", "first");
	cb_box *b = must_open(s, "demo");
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		cb_file *f = NULL;
		char text[32];
		(void)snprintf(text, sizeof(text), "after %zu", i);
		cb_code code = cb_open(b, all[i].path, all[i].flags, 0644, &f, NULL);
		CHECK_CODE(code, all[i].code);
		must_write(a, "/work/a", text);
		CHECK_STR(must_read(b, "/work/a"), text);
		CHECK_OK(cb_close(f, &err));
	}
	cb_box_close(b);
	cb_box_close(a);
	test_store_sound(s);
	cb_store_close(s);
}

/* A step that runs already goes on, with what is in it. */
TEST(a_step_that_runs_goes_on)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	cb_file *f = NULL, *g = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	uint64_t before = must_seq(b);
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_pwrite(f, "one", 3, 0, &err));
	CHECK_CODE(cb_open(b, "/work", CB_WRITE | CB_CREATE, 0644, &g, NULL), CB_ISDIR);
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE | CB_CREATE, 0644, &g, &err));
	CHECK_OK(cb_pwrite(f, "two", 3, 3, &err));
	CHECK_OK(cb_close(g, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(must_read(b, "/work/f"), "onetwo");
	CHECK(must_seq(b) > before);
	cb_box_close(b);
	cb_store_close(s);
}
