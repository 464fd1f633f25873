/*
 * scattered_writes.c: small writes all over one file. Whatever looked for the data at an offset went through all extents of the MiB before
 * it, so that n writes, and n reads after them, cost n * n.
 */
#include "harness/boxes.h"

#include <time.h>

static cb_error err;

static double cpu_us(void)
{
	struct timespec t;
	CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- what is read is what was written ---- */

enum { SIZE_MOST = 3 << 20 };

typedef struct twin {
	cb_file *file;
	uint8_t *bytes; /* SIZE_MOST; zeros past `size` */
	uint64_t size;
} twin;

static void change(test_rng *rng, twin *t)
{
	static uint8_t some[SIZE_MOST];
	uint64_t most = test_rand_below(rng, 8) ? 40 : test_rand_below(rng, 4) ? 20000 : SIZE_MOST / 2;
	uint64_t size = 1 + test_rand_below(rng, most), at = test_rand_below(rng, SIZE_MOST - size);
	if (test_rand_below(rng, 60) == 0) {
		CHECK_OK(cb_ftruncate(t->file, at, &err));
		if (at < t->size) memset(t->bytes + at, 0, (size_t)(t->size - at));
		t->size = at;
		return;
	}
	if (test_rand_below(rng, 3) == 0) at %= 3000; /* also close together */
	memset(some, (int)test_rand_below(rng, 256), (size_t)size);
	CHECK_OK(cb_pwrite(t->file, some, (size_t)size, at, &err));
	memcpy(t->bytes + at, some, (size_t)size);
	if (t->size < at + size) t->size = at + size;
}

static void compare(const twin *t, uint64_t at, uint64_t size)
{
	static uint8_t some[SIZE_MOST];
	size_t got = 0;
	uint64_t left = at < t->size ? t->size - at : 0;
	CHECK_OK(cb_pread(t->file, some, (size_t)size, at, &got, &err));
	CHECK_U64(got, size < left ? size : left);
	CHECK(memcmp(some, t->bytes + at, got) == 0);
}

TEST_LIMIT(what_is_read_is_what_was_written, 120)
{
	test_rng rng = {test_seed() | 1};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	twin t = {.bytes = calloc(1, SIZE_MOST)};
	CHECK(t.bytes);
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE | CB_CREATE, 0644, &t.file, &err));
	for (unsigned i = 0; i < 200 + test_dose(16000); i++) {
		change(&rng, &t);
		compare(&t, test_rand_below(&rng, SIZE_MOST - 100), 1 + test_rand_below(&rng, 100));
		if (i % 200 == 0) compare(&t, 0, SIZE_MOST);
		if (test_rand_below(&rng, 50) == 0) CHECK_OK(cb_fsync(t.file, &err));
	}
	compare(&t, 0, SIZE_MOST);
	CHECK_OK(cb_close(t.file, &err));
	free(t.bytes);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- what it costs ---- */

enum { SIZE = 900 << 10, LOOKS = 400 };

typedef struct times {
	double write, read, step, append; /* microseconds for each */
	double over, cut;                 /* for a write after all was written over, or cut off, in the same step */
} times;

static double write_some(cb_file *f, unsigned count, test_rng *rng)
{
	double start = cpu_us();
	for (unsigned i = 0; i < count; i++) CHECK_OK(cb_pwrite(f, "0123456789", 10, test_rand_below(rng, SIZE - 10), &err));
	return (cpu_us() - start) / count;
}

static times with(unsigned writes)
{
	times t;
	test_rng rng = {1};
	static char whole[SIZE];
	char byte;
	size_t got;
	cb_file *f;
	cb_box *b = NULL;
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	CHECK_OK(cb_write_file(b, "/work/f", whole, SIZE, NULL, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE, 0, &f, &err));
	(void)write_some(f, writes, &rng);
	t.write = write_some(f, LOOKS, &rng);
	CHECK_OK(cb_fsync(f, &err));
	double start = cpu_us();
	for (unsigned i = 0; i < LOOKS; i++) CHECK_OK(cb_pread(f, &byte, 1, test_rand_below(&rng, SIZE), &got, &err));
	t.read = (cpu_us() - start) / LOOKS;
	start = cpu_us();
	for (unsigned i = 0; i < 20; i++) {
		CHECK_OK(cb_pwrite(f, "ab", 2, test_rand_below(&rng, SIZE - 2), &err));
		CHECK_OK(cb_fsync(f, &err));
	}
	t.step = (cpu_us() - start) / 20;
	start = cpu_us();
	for (unsigned i = 0; i < 20; i++)
		CHECK_OK(cb_write_file(b, "/work/f", "0123456789", 10, &CB_WITH(cb_write_options, .append = true), &err));
	t.append = (cpu_us() - start) / 20;
	CHECK_OK(cb_pwrite(f, whole, SIZE, 0, &err));
	t.over = write_some(f, LOOKS, &rng);
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_ftruncate(f, 0, &err));
	t.cut = write_some(f, LOOKS, &rng);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(b);
	cb_store_close(s);
	return t;
}

static void least(double *to, double is)
{
	if (is < *to) *to = is;
}

TEST_LIMIT(costs_do_not_grow_with_the_extents, 300)
{
	enum { FEW = 250, MANY = 8000, ROUNDS = 4 };
	times few = with(FEW), many = with(MANY);
	for (int i = 1; i < ROUNDS; i++) {
		times f = with(FEW), m = with(MANY);
		least(&few.write, f.write), least(&many.write, m.write);
		least(&few.read, f.read), least(&many.read, m.read);
		least(&few.step, f.step), least(&many.step, m.step);
		least(&few.append, f.append), least(&many.append, m.append);
		least(&few.over, f.over), least(&many.over, m.over);
		least(&few.cut, f.cut), least(&many.cut, m.cut);
	}
	test_note(
		"us after %d and %d writes: write %.1f %.1f, read %.1f %.1f, step %.1f %.1f, append %.1f %.1f, over %.1f %.1f, cut "
		"%.1f %.1f",
		FEW, MANY, few.write, many.write, few.read, many.read, few.step, many.step, few.append, many.append, few.over,
		many.over, few.cut, many.cut);
	CHECK(many.write < 5 * few.write);
	CHECK(many.read < 5 * few.read);
	CHECK(many.step < 5 * few.step);
	CHECK(many.append < 5 * few.append);
	CHECK(many.over < 5 * few.over);
	CHECK(many.cut < 5 * few.cut);
}
