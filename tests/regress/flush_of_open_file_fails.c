/* A step of open files that could not be committed for lack of memory or room was dropped; it must be there to try again. */
#include "base/buf.h"
#include "harness/boxes.h"

TEST_BOTH(flush_of_open_file_fails)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	cb_file *f = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "kept", 4, &err));
	mem_fail_after(1);
	cb_code code = cb_fsync(f, &err);
	mem_fail_after(0);
	CHECK_CODE(code, CB_NOMEM);
	char text[8];
	size_t n = 0;
	CHECK_OK(cb_pread(f, text, sizeof(text), 0, &n, &err));
	CHECK(n == 4 && memcmp(text, "kept", 4) == 0);
	CHECK_OK(cb_fsync(f, &err));
	CHECK_OK(cb_close(f, &err));
	cb_box *other = must_open(s, "demo");
	CHECK_STR(must_read(other, "/work/f"), "kept");
	cb_box_close(other);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
