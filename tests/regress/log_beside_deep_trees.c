/*
 * log_beside_deep_trees.c: the log of a folder asks of each change whether it lies below it, and went up to the root for each: a step that
 * made, or removed, a chain of n folders elsewhere cost n * n, and n steps at the end of that chain likewise.
 */
#include "harness/boxes.h"

#include <time.h>

static cb_error err;

static double cpu_ms(void)
{
	struct timespec t;
	CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static cb_code count(void *context, const cb_step *step, cb_error *e)
{
	(void)step;
	(void)e;
	++*(unsigned *)context;
	return CB_OK;
}

/* The least of some logs of the folder. */
static double log_ms(cb_box *b, unsigned steps)
{
	double least = 1e9;
	for (int i = 0; i < 5; i++) {
		unsigned seen = 0;
		double start = cpu_ms();
		CHECK_OK(cb_log(b, &CB_WITH(cb_log_options, .path = "/work/here"), count, &seen, NULL, &err));
		double took = cpu_ms() - start;
		CHECK_U64(seen, steps);
		if (took < least) least = took;
	}
	return least;
}

typedef struct times {
	double made, removed, below;
} times;

static times beside(unsigned depth)
{
	static char path[4096];
	times t;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	size_t size = 6;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	must_write(b, "/work/first", "1");
	CHECK_OK(cb_mkdir(b, "/work/here", 0755, 0, &err));
	memcpy(path, "/there", size);
	for (unsigned i = 1; i < depth; i++, size += 2) memcpy(path + size, "/d", 2);
	path[size] = 0;
	CHECK_OK(cb_mkdir(b, path, 0755, CB_PARENTS, &err));
	must_write(b, "/work/here/f", "1");
	t.made = log_ms(b, 2);
	memcpy(path + size, "/f", 3);
	for (unsigned i = 0; i < depth; i++) must_write(b, path, i % 2 ? "odd" : "even");
	t.below = log_ms(b, 2);
	CHECK_OK(cb_remove(b, "/there", &err));
	CHECK_OK(cb_rename(b, "/work/here/f", "/work/here/g", 0, &err));
	t.removed = log_ms(b, 3);
	CHECK_OK(cb_mkdir(b, "/work/here/sub", 0755, 0, &err));
	CHECK_OK(cb_rename(b, "/work/here/sub", "/work/sub", 0, &err));
	must_write(b, "/work/sub/f", "not there any more");
	CHECK_OK(cb_rename(b, "/work/sub", "/work/here/sub", 0, &err));
	must_write(b, "/work/here/sub/f", "there again");
	(void)log_ms(b, 7);
	cb_box_close(b);
	cb_store_close(s);
	return t;
}

TEST_LIMIT(costs_grow_with_the_changes, 120)
{
	enum { FEW = 200, MANY = 1600, MOST = 3 * MANY / FEW };
	times few = beside(FEW), many = beside(MANY);
	test_note("ms for %d and %d folders: made %.2f %.2f, removed %.2f %.2f, as many steps below %.2f %.2f", FEW, MANY, few.made,
	          many.made, few.removed, many.removed, few.below, many.below);
	CHECK(many.made < MOST * few.made);
	CHECK(many.removed < MOST * few.removed);
	CHECK(many.below < MOST * few.below);
}
