/* Transactions made on the side (a merge at commit, an unlinked file's own) failed once more than 8 MiB of contents waited in them. */
#include "harness/boxes.h"

enum { LINES = 700000 };

static char *numbered_lines(size_t *size)
{
	char *text = test_keep(malloc((size_t)LINES * 16)), *at = text;
	CHECK(text);
	for (int i = 0; i < LINES; i++) at += sprintf(at, "line %08d\n", i);
	*size = (size_t)(at - text);
	return text;
}

TEST_BOTH(many_bytes_in_side_transactions)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	cb_file *f = NULL;
	size_t size = 0, n = 0;
	char *text = numbered_lines(&size), byte = 0;
	CHECK(size > 9 << 20);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_write_file(b, "/work/text", text, size, NULL, &err));
	/* merged by lines at commit */
	cb_box *other = must_open(s, "demo");
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_box *t = must_begin(b);
	text[0] = 'L';
	CHECK_OK(cb_write_file(t, "/work/text", text, size, NULL, &err));
	text[0] = 'l';
	text[size - 2] = 'X';
	CHECK_OK(cb_write_file(other, "/work/text", text, size, NULL, &err));
	result = must_commit(t);
	CHECK(result.merged);
	CHECK_OK(cb_read_at(b, "/work/text", 0, &byte, 1, &n, &err));
	CHECK(byte == 'L');
	CHECK_OK(cb_read_at(b, "/work/text", size - 2, &byte, 1, &n, &err));
	CHECK(byte == 'X');
	/* an unlinked file that goes on being written */
	CHECK_OK(cb_open(b, "/work/text", CB_READ | CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_unlink(b, "/work/text", &err));
	for (int i = 0; i < 3; i++) CHECK_OK(cb_pwrite(f, text, size, (uint64_t)i * size, &err));
	CHECK_OK(cb_pread(f, &byte, 1, 3 * size - 1, &n, &err));
	CHECK(n == 1 && byte == '\n');
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
}
