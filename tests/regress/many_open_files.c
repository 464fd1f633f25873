/*
 * many_open_files.c: a handle with thousands of open files. Each step, whatever it changed, looked at every one of them and wrote down for
 * each which state it keeps: with 5,000 open a small write took 10 ms, and to open and unlink them took a minute.
 */
#include "harness/boxes.h"

static cb_error err;

enum { WRITES = 100 };

static const char *name_of(unsigned i)
{
	static char name[32];
	(void)snprintf(name, sizeof(name), "/work/f%05u", i);
	return name;
}

static cb_file *must_open_file(cb_box *b, const char *path)
{
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, path, CB_READ | CB_WRITE, 0, &f, &err));
	return f;
}

static double steps(cb_box *b)
{
	double start = test_cpu_ms();
	for (unsigned i = 0; i < WRITES; i++) must_write(b, "/work/other", i % 2 ? "odd" : "even");
	return test_cpu_ms() - start;
}

static void check_file(cb_file *f, unsigned i)
{
	char text[32];
	size_t size = 0;
	CHECK_OK(cb_pread(f, text, sizeof(text), 0, &size, &err));
	CHECK_U64(size, strlen(name_of(i)));
	CHECK(memcmp(text, name_of(i), size) == 0);
}

typedef struct times {
	double write, foreign;     /* small steps beside open files: of the handle, and of another */
	double write_gone;         /* the same once all are unlinked */
	double unlink, open_close; /* all of them */
} times;

static times with(unsigned count)
{
	times t;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	cb_file **f = calloc(count, sizeof(cb_file *));
	CHECK(f);
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	cb_box *other = must_open(s, "b"), *x = must_begin(b);
	for (unsigned i = 0; i < count; i++) must_write(x, name_of(i), name_of(i));
	(void)must_commit(x);
	double start = test_cpu_ms();
	for (unsigned i = 0; i < count; i++) f[i] = must_open_file(b, name_of(0));
	for (unsigned i = 0; i < count; i++) CHECK_OK(cb_close(f[i], &err));
	t.open_close = test_cpu_ms() - start;
	for (unsigned i = 0; i < count; i++) f[i] = must_open_file(b, name_of(i));
	t.write = steps(b);
	start = test_cpu_ms();
	for (unsigned i = 0; i < WRITES; i++) {
		must_write(other, "/work/other", i % 2 ? "odd" : "even");
		CHECK_STR(must_read(b, "/work/other"), i % 2 ? "odd" : "even");
	}
	t.foreign = test_cpu_ms() - start;
	start = test_cpu_ms();
	for (unsigned i = 0; i < count; i++) CHECK_OK(cb_unlink(i % 2 ? b : other, name_of(i), &err));
	t.unlink = test_cpu_ms() - start;
	t.write_gone = steps(b);
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	for (unsigned i = 0; i < count; i++) check_file(f[i], i);
	for (unsigned i = 0; i < count; i++) CHECK_OK(cb_close(f[i], &err));
	free(f);
	cb_box_close(other);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	return t;
}

static void least(double *to, double is)
{
	if (is < *to) *to = is;
}

TEST_LIMIT(costs_do_not_grow_with_the_open_files, 300)
{
	enum { FEW = 250, MANY = 4000, MOST = 4 * MANY / FEW };
	times few = with(FEW), many = with(MANY);
	for (int i = 0; i < 3; i++) {
		times is = with(FEW);
		least(&few.write, is.write);
		least(&few.foreign, is.foreign);
		least(&few.write_gone, is.write_gone);
		least(&few.unlink, is.unlink);
		least(&few.open_close, is.open_close);
	}
	test_note("ms for %d and %d: steps %.2f %.2f, of another %.2f %.2f, when gone %.2f %.2f, unlink %.2f %.2f, open and close "
	          "%.2f %.2f",
	          FEW, MANY, few.write, many.write, few.foreign, many.foreign, few.write_gone, many.write_gone, few.unlink,
	          many.unlink, few.open_close, many.open_close);
	CHECK(many.write < 4 * few.write);
	CHECK(many.foreign < 4 * few.foreign);
	CHECK(many.write_gone < 4 * few.write_gone);
	CHECK(many.unlink < MOST * few.unlink);
	CHECK(many.open_close < MOST * few.open_close);
}
