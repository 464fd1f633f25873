/*
 * The first process to attach to the log's index writes zeros over it. One that was made long without blocks (a sparse file) was filled
 * that way: an open wrote for minutes, and took the disk. Now what no log that is there can need is cut off first.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { LONG_BYTES = 256 << 20, MOST_BYTES = 2 << 20 };

TEST(index_of_the_log_is_long)
{
	cb_error err = {0};
	cb_box *b = NULL;
	struct stat st;
	char file[4300];
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "first");
	cb_box_close(b);
	cb_store_close(s);
	(void)snprintf(file, sizeof(file), "%s/cowbox.db-shm", test_store_path());
	for (int read_only = 1; read_only >= 0; read_only--) {
		cb_store_options o = {.struct_size = sizeof(o), .read_only = read_only};
		CHECK(truncate(file, LONG_BYTES) == 0);
		CHECK_OK(cb_store_open(test_store_path(), &o, &s, &err));
		b = must_open(s, "demo");
		CHECK_STR(must_read(b, "/work/a"), "first");
		if (!read_only) must_write(b, "/work/b", "second");
		CHECK(stat(file, &st) == 0 && st.st_size <= MOST_BYTES && st.st_blocks * 512 <= MOST_BYTES);
		/* Beside one who uses it nothing is cut, and it does no harm. */
		CHECK(truncate(file, LONG_BYTES) == 0);
		cb_store *other = test_store_reopen();
		cb_box *theirs = must_open(other, "demo");
		must_write(theirs, "/work/c", "third");
		CHECK_STR(must_read(b, "/work/c"), "third");
		CHECK(stat(file, &st) == 0 && st.st_blocks * 512 <= MOST_BYTES);
		cb_box_close(theirs);
		cb_store_close(other);
		cb_box_close(b);
		cb_store_close(s);
	}
	s = test_store_reopen();
	test_store_sound(s);
	cb_store_close(s);
}
