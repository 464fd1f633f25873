/*
 * merge_after_many_undone.c: "merge, look, undo" over and over. Every merge walked past all that were undone before it: with 1,500 of them
 * it took a hundred times as long as with ten.
 */
#include "harness/boxes.h"

/* The least time of a merge among `times`, each undone. */
static double tries(cb_box *into, cb_box *from, int times)
{
	double least = 1e9;
	for (int i = 0; i < times; i++) {
		cb_error err = {0};
		char text[32];
		(void)snprintf(text, sizeof(text), "%d of %d", i, times);
		must_write(from, "/work/f", text);
		double start = test_cpu_ms();
		CHECK_OK(cb_merge(into, from, NULL, NULL, NULL, &err));
		double took = test_cpu_ms() - start;
		if (took < least) least = took;
		CHECK_STR(must_read(into, "/work/f"), text);
		CHECK_OK(cb_undo(into, 0, NULL, &err));
	}
	return least;
}

TEST(merges_cost_the_same)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *into = NULL;
	CHECK_OK(cb_box_create(s, "into", &into, &err));
	must_write(into, "/work/a", "a");
	cb_box *from = must_fork(s, "into", "from");
	double early = tries(into, from, 10);
	(void)tries(into, from, 1500);
	double late = tries(into, from, 10);
	test_note("%.3f ms, %.3f after 1,500 that were undone", early, late);
	CHECK_MSG(late < 10 * early, "%.3f ms, then %.3f", early, late);
	CHECK(!exists(into, "/work/f"));
	cb_box_close(into);
	cb_box_close(from);
	test_store_sound(s);
	cb_store_close(s);
}
