/* A handle on an unlinked file could not be cut: its private transaction started from counters that no longer held the file. */
#include "harness/boxes.h"

TEST_BOTH(unlinked_file_shrinks)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	cb_file *f = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "0123456789");
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_unlink(b, "/work/f", &err));
	CHECK_OK(cb_ftruncate(f, 3, &err));
	char text[8];
	size_t n = 0;
	CHECK_OK(cb_read(f, text, sizeof(text), &n, &err));
	CHECK(n == 3 && memcmp(text, "012", 3) == 0);
	CHECK_OK(cb_close(f, &err));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
