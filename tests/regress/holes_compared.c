/*
 * holes_compared.c: comparing files costs the data they have, not their sizes. A file of 8 TiB with a few bytes in it, changed once by
 * zeros in its hole, held up diff, merge, commit and capture for hours.
 */
#include "harness/boxes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cowbox/transfer.h>

enum { PAGE = 4096 };
static const uint64_t huge = (uint64_t)8 << 40;

static void put(cb_box *b, const char *path, const void *bytes, size_t size, uint64_t offset)
{
	cb_error err = {0};
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, path, CB_READ | CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_pwrite(f, bytes, size, offset, &err));
	CHECK_OK(cb_close(f, &err));
}

/* A file of holes with a word at its beginning. */
static cb_box *begin(cb_store *s, const char *name)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, name, &b, &err));
	must_write(b, "/work/h", "data");
	CHECK_OK(cb_truncate(b, "/work/h", huge, &err));
	return b;
}

static const uint8_t zeros[2 * PAGE];

/* It is told as changed (its times are others), not as modified. */
static void equal_bytes(cb_box *a, cb_box *b)
{
	const char *all = must_diff(a, b);
	CHECK_MSG(!strstr(all, "M /work/h"), "%s", all);
}

TEST_BOTH(zeros_in_a_hole_are_no_difference)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = begin(s, "a");
	cb_box *was = must_open(s, "a@2");
	put(b, "/work/h", zeros, PAGE, 10 * PAGE);
	equal_bytes(was, b);
	put(b, "/work/h", zeros, sizeof(zeros), huge - sizeof(zeros));
	equal_bytes(was, b);
	put(b, "/work/h", "x", 1, huge - 1);
	CHECK_STR(must_diff(was, b), "M /work/h\n");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	equal_bytes(was, b);
	char *text = NULL;
	CHECK_OK(cb_diff_text(was, b, NULL, &text, NULL, &err));
	cb_free(text);
	cb_box_close(was);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(files_of_holes_are_merged)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = begin(s, "a"), *f = must_fork(s, "a", "f");
	put(b, "/work/h", zeros, PAGE, PAGE);
	put(f, "/work/h", zeros, 2 * PAGE, 2 * PAGE);
	CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
	cb_box *txn = must_begin(b);
	put(txn, "/work/h", zeros, PAGE, 20 * PAGE);
	put(b, "/work/h", zeros, 2 * PAGE, 20 * PAGE);
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_code code = cb_txn_commit(txn, NULL, &result, &err);
	CHECK(code == CB_CONFLICT); /* both wrote it, whatever the bytes */
	cb_box_close(txn);
	cb_box_close(f);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(a_file_of_holes_is_applied)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	char folder[512], path[640], word[4];
	(void)snprintf(folder, sizeof(folder), "%s/host", test_tmpdir());
	(void)snprintf(path, sizeof(path), "%s/h", folder);
	CHECK(mkdir(folder, 0755) == 0);
	int fd = open(path, O_RDWR | O_CREAT, 0644);
	CHECK(fd >= 0 && pwrite(fd, "data", 4, 0) == 4);
	if (ftruncate(fd, (off_t)huge) != 0) test_skip("this file system has no files of 8 TiB");
	CHECK(close(fd) == 0);
	CHECK_OK(cb_box_create(s, "a", &b, &err));
	CHECK_OK(cb_import(b, folder, &CB_WITH(cb_import_options, .link = true), NULL, &err));
	put(b, "/work/h", "more", 4, huge / 2);
	CHECK_OK(cb_apply(b, NULL, NULL, NULL, NULL, &err)); /* the host's is compared with what was imported */
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && pread(fd, word, 4, (off_t)(huge / 2)) == 4 && memcmp(word, "more", 4) == 0);
	CHECK(pwrite(fd, zeros, PAGE, 100 * PAGE) == PAGE); /* the same bytes, other holes */
	put(b, "/work/h", "last", 4, huge - 4);
	CHECK_OK(cb_apply(b, NULL, NULL, NULL, NULL, &err));
	CHECK(pwrite(fd, "x", 1, 0) == 1 && close(fd) == 0);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- against reading ---- */

enum { ROUNDS = 400, SIZE = 300 << 10, LONG_BYTES = 80 << 10 };

static void change(test_rng *r, cb_box *b)
{
	static uint8_t bytes[LONG_BYTES];
	uint64_t most = test_rand_below(r, 3) ? 2 * PAGE : LONG_BYTES, n = 1 + test_rand_below(r, most),
		 unit = test_rand_below(r, 2) ? 1 : PAGE;
	memset(bytes, 0, sizeof(bytes));
	if (test_rand_below(r, 6) == 0) bytes[n - 1] = 1;
	put(b, "/work/f", bytes, (size_t)n, test_rand_below(r, (SIZE - n) / unit) * unit);
}

static bool read_equal(cb_box *a, cb_box *b)
{
	return memcmp(must_read(a, "/work/f"), must_read(b, "/work/f"), SIZE) == 0;
}

TEST_BOTH(comparing_is_as_reading)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	test_rng r = {test_seed() | 1};
	cb_box *a = NULL;
	unsigned equal = 0, rounds = test_dose(ROUNDS);
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_write(a, "/work/f", test_rand_below(&r, 2) ? "data" : "");
	CHECK_OK(cb_truncate(a, "/work/f", SIZE, &err));
	cb_box *b = must_fork(s, "a", "b");
	for (unsigned i = 0; i < rounds; i++) {
		cb_box *x = must_begin(a), *y = must_begin(b);
		change(&r, x);
		change(&r, y);
		if (test_rand_below(&r, 4) == 0) CHECK_OK(cb_truncate(x, "/work/f", SIZE / 2, &err));
		CHECK_OK(cb_truncate(x, "/work/f", SIZE, &err));
		bool same = read_equal(x, y);
		CHECK_U64(strstr(must_diff(x, y), "M /work/f") == NULL, same);
		(void)must_commit(x);
		(void)must_commit(y);
		CHECK_U64(strstr(must_diff(a, b), "M /work/f") == NULL, same);
		equal += same;
		if (!same && test_rand_below(&r, 2)) { /* so that both kinds of answer come often */
			cb_box_close(b);
			char name[16];
			(void)snprintf(name, sizeof(name), "b%u", i);
			b = must_fork(s, "a", name);
		}
	}
	CHECK(equal > 0 || rounds < 20);
	cb_box_close(a);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
