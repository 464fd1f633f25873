/*
 * grep_of_a_sparse_file.c: a few bytes here and there in a file of gigabytes. Each piece of data cost two windows of 16 MiB, so that 400 of
 * five bytes took 13 seconds.
 */
#include "base/attr.h"
#include "harness/boxes.h"

static cb_error err;

static cb_code count(void *context, const cb_grep_line *line, cb_error *e)
{
	(void)e;
	CHECK(line->binary);
	++*(unsigned *)context;
	return CB_OK;
}

static bool finds(cb_box *b, const char *path, const char *pattern, bool invert)
{
	unsigned found = 0;
	CHECK_OK(cb_grep(b, path, &CB_WITH(cb_grep_options, .pattern = pattern, .invert = invert), count, &found, NULL, &err));
	return found > 0;
}

/* ---- what it costs ---- */

static double with(unsigned pieces, uint64_t gap)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	cb_file *f = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE | CB_CREATE, 0644, &f, &err));
	for (unsigned i = 0; i < pieces; i++) CHECK_OK(cb_pwrite(f, "hello", 5, 5000 + i * gap, &err));
	CHECK_OK(cb_close(f, &err));
	double start = test_cpu_ms();
	for (int i = 0; i < 10; i++) CHECK(!finds(b, "/work/f", "h[a-z]*x", false));
	double took = test_cpu_ms() - start;
	CHECK(finds(b, "/work/f", "^hello$", false));
	cb_box_close(b);
	cb_store_close(s);
	return took;
}

static double least_with(unsigned pieces, uint64_t gap)
{
	double least = 1e9;
	for (int i = 0; i < 4; i++) {
		double is = with(pieces, gap);
		if (is < least) least = is;
	}
	return least;
}

TEST_LIMIT(costs_what_the_data_costs, 300)
{
	enum { PIECES = 100 };
	double near = least_with(PIECES, 4096), far = least_with(PIECES, 64 << 20);
	test_note("ms for %d pieces: close together %.2f, far apart %.2f", PIECES, near, far);
	CHECK_MSG(far < 6 * near, "close together %.2f ms, far apart %.2f ms", near, far);
}

/* ---- what is found is what would be found in the bytes ---- */

enum { WINDOW = 16 << 20 };

static void put(cb_file *sparse, uint8_t *bytes, uint64_t size, uint64_t at, const void *from, size_t n)
{
	if (at >= size) return;
	if (n > size - at) n = (size_t)(size - at);
	CHECK_OK(cb_pwrite(sparse, from, n, at, &err));
	memcpy(bytes + at, from, n);
}

static void twins(test_rng *r, cb_box *b, uint64_t size)
{
	static const char *const pieces[] = {"foo", "foo\n", "\nbar", "bar", "a", "\n", "\0foo", "foo bar\nbar"};
	static const char *const patterns[] = {"^foo$", "foo.*bar", "^$", "^bar", "a$", "foobar", ".", "zzz", "^x*$", "xb"};
	static uint8_t xs[3 << 20];
	uint8_t *bytes = calloc(1, (size_t)size);
	cb_file *f = NULL;
	CHECK(bytes);
	CHECK_OK(cb_open(b, "/work/sparse", CB_WRITE | CB_CREATE | CB_TRUNCATE, 0644, &f, &err));
	CHECK_OK(cb_ftruncate(f, size, &err));
	for (uint64_t n = test_rand_below(r, 12); n > 0; n--) {
		const char *text = pieces[test_rand_below(r, ARRAY_LEN(pieces))];
		uint64_t at = test_rand_below(r, 3)   ? test_rand_below(r, size)
		              : test_rand_below(r, 2) ? size - 1 - test_rand_below(r, 8)
		                                      : (uint64_t)WINDOW - 4 + test_rand_below(r, 8);
		if (at < 8) at = 8; /* what begins with a NUL is binary, also when it has no holes */
		put(f, bytes, size, at, text, *text ? strlen(text) : 4);
		if (test_rand_below(r, 2)) put(f, bytes, size, at + 1 + test_rand_below(r, 6), "bar", 3);
	}
	/* A window is filled up to its end, in one case in the middle of a hole. */
	memset(xs, 'x', sizeof(xs));
	for (uint64_t at = 9; test_rand_below(r, 3) == 0 && at < size; at += sizeof(xs) + 1 + test_rand_below(r, 3))
		put(f, bytes, size, at, xs, sizeof(xs) - test_rand_below(r, 100));
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_write_file(b, "/work/dense", bytes, (size_t)size, NULL, &err));
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
		for (int invert = 0; invert < 2; invert++)
			CHECK_MSG(finds(b, "/work/sparse", patterns[i], invert) == finds(b, "/work/dense", patterns[i], invert),
			          "'%s'%s: the file with holes is not found as its bytes are", patterns[i],
			          invert ? " inverted" : "");
	free(bytes);
}

TEST_LIMIT(holes_are_found_as_zeros_are, 300)
{
	test_rng r = {test_seed() | 1};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	for (unsigned i = 0; i < (test_soak() > 1 ? 3 * test_soak() : 1); i++) {
		unsigned kind = (unsigned)test_rand_below(&r, 3);
		uint64_t size = kind == 0   ? 200000 + test_rand_below(&r, 200000)
		                : kind == 1 ? 1 + test_rand_below(&r, WINDOW)
		                            : WINDOW + test_rand_below(&r, WINDOW);
		twins(&r, b, size < 20 ? 20 : size);
	}
	cb_box_close(b);
	cb_store_close(s);
}
