/*
 * file_of_many_names.c: a file may have 65,000 names. Differences, merges and undos compared each of them with each: one write to such a
 * file held the writer lock for minutes when its transaction was overtaken.
 */
#include "harness/boxes.h"

static cb_error err;

static cb_code count(void *context, const cb_change *change, cb_error *e)
{
	(void)change;
	(void)e;
	++*(unsigned *)context;
	return CB_OK;
}

typedef struct times {
	double diff, patch, commit, merge, undo;
} times;

static times with(unsigned names)
{
	times t;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	unsigned changes = 0;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	must_write(b, "/work/d/f", "one\n");
	cb_box *x = must_begin(b);
	for (unsigned i = 1; i < names; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/d/m%05u", i);
		CHECK_OK(cb_link(x, "/work/d/f", path, &err));
	}
	(void)must_commit(x);
	cb_box *fork = must_fork(s, "b", "fork");
	x = must_begin(b);
	must_write(x, "/work/d/f", "two\n");
	must_write(b, "/work/other", "other");
	double start = test_cpu_ms();
	(void)must_commit(x);
	t.commit = test_cpu_ms() - start;
	start = test_cpu_ms();
	CHECK_OK(cb_diff_step(b, must_seq(b), NULL, count, &changes, &err));
	t.diff = test_cpu_ms() - start;
	CHECK_U64(changes, names);
	char *patch = NULL;
	start = test_cpu_ms();
	CHECK_OK(cb_diff_text(fork, b, NULL, &patch, NULL, &err));
	t.patch = test_cpu_ms() - start;
	CHECK(strstr(patch, "b/work/d/m00001"));
	cb_free(patch);
	must_write(fork, "/work/new", "new");
	start = test_cpu_ms();
	CHECK_OK(cb_merge(fork, b, NULL, NULL, NULL, &err));
	t.merge = test_cpu_ms() - start;
	CHECK_STR(must_read(fork, "/work/d/m00001"), "two\n");
	char *before = must_dump(b);
	CHECK_OK(cb_remove(b, "/work/d", &err));
	start = test_cpu_ms();
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	t.undo = test_cpu_ms() - start;
	CHECK_STR(must_dump(b), before);
	cb_box_close(fork);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	return t;
}

static void least(double *to, double is)
{
	if (is < *to) *to = is;
}

TEST_LIMIT(costs_grow_with_the_names, 120)
{
	enum { FEW = 250, MANY = 8000, MOST = 6 * MANY / FEW };
	times few = with(FEW), many;
	for (int i = 0; i < 4; i++) {
		times again = with(FEW);
		least(&few.diff, again.diff);
		least(&few.patch, again.patch);
		least(&few.commit, again.commit);
		least(&few.merge, again.merge);
		least(&few.undo, again.undo);
	}
	many = with(MANY);
	test_note(
		"ms for %d and %d names: difference %.2f %.2f, patch %.2f %.2f, commit %.2f %.2f, merge %.2f %.2f, undo %.2f %.2f",
		FEW, MANY, few.diff, many.diff, few.patch, many.patch, few.commit, many.commit, few.merge, many.merge, few.undo,
		many.undo);
	CHECK(many.diff < MOST * few.diff);
	CHECK(many.patch < MOST * few.patch);
	CHECK(many.commit < MOST * few.commit);
	CHECK(many.merge < MOST * few.merge);
	CHECK(many.undo < MOST * few.undo);
}
