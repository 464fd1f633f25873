/*
 * prefer_against_a_chain.c: one side renamed each of many files to the next one's name, and the other wrote the last name. When the other
 * is preferred, every file goes back. That was found one file a pass: 800 of them took seven seconds, and twice as many four times as
 * long. Files with a second name, too.
 */
#include "harness/boxes.h"

static cb_error err;

static const char *named(char kind, unsigned i)
{
	static char name[2][32];
	static unsigned turn;
	char *out = name[turn++ % 2];
	(void)snprintf(out, 32, "/work/%c%05u", kind, i);
	return out;
}

static const char *name_of(unsigned i)
{
	return named('f', i);
}

static void make(cb_box *b, unsigned count, bool linked)
{
	cb_box *t = must_begin(b);
	for (unsigned i = 0; i < count; i++) must_write(t, name_of(i), name_of(i));
	for (unsigned i = 0; linked && i < count; i++) CHECK_OK(cb_link(t, name_of(i), named('g', i), &err));
	(void)must_commit(t);
}

static void push_on(cb_box *b, unsigned count)
{
	cb_box *t = must_begin(b);
	for (unsigned i = count; i > 0; i--) CHECK_OK(cb_rename(t, name_of(i - 1), name_of(i), 0, &err));
	(void)must_commit(t);
}

/* The time of the merge. swapped: into the box that pushed on. */
static double merge(unsigned count, bool swapped, bool linked)
{
	cb_store *s = test_store_open(true);
	cb_box *pushed = NULL;
	CHECK_OK(cb_box_create(s, "pushed", &pushed, &err));
	make(pushed, count, linked);
	cb_box *wrote = must_fork(s, "pushed", "wrote"), *into = swapped ? pushed : wrote, *from = swapped ? wrote : pushed;
	push_on(pushed, count);
	must_write(wrote, name_of(count), "new");
	char *wish = must_dump(wrote);
	cb_merge_options o = CB_WITH(cb_merge_options, .prefer = swapped ? CB_PREFER_THEIRS : CB_PREFER_OURS);
	double start = test_cpu_ms();
	CHECK_OK(cb_merge(into, from, &o, NULL, NULL, &err));
	double took = test_cpu_ms() - start;
	CHECK_STR(must_dump(into), wish);
	cb_box_close(pushed);
	cb_box_close(wrote);
	test_store_sound(s);
	cb_store_close(s);
	return took;
}

static void grows_with(bool swapped, bool linked)
{
	enum { FEW = 50, MANY = 800 };
	double few = 1e9;
	for (int i = 0; i < 5; i++) {
		double took = merge(FEW, swapped, linked);
		if (took < few) few = took;
	}
	double many = merge(MANY, swapped, linked);
	test_note("%d files %.2f ms, %d files %.2f ms", FEW, few, MANY, many);
	CHECK_MSG(many < 6 * MANY / FEW * few, "%d files %.2f ms, %d files %.2f ms", FEW, few, MANY, many);
}

TEST(ours_is_preferred)
{
	grows_with(false, false);
	grows_with(false, true);
}

TEST(theirs_is_preferred)
{
	grows_with(true, false);
	grows_with(true, true);
}
