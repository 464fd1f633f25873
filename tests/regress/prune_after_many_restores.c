/*
 * prune_after_many_restores.c: a box that was restored, or whose merges were undone, again and again. To find which of its steps merges may
 * need took the fourth power of their number, under the writer lock: 2,000 restores 8 s, 1,000 with a merge after each 27 s.
 */
#include "harness/boxes.h"

static cb_error err;

static void write_number(cb_box *b, const char *path, uint64_t i)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%" PRIu64, i);
	must_write(b, path, text);
}

static void restore_to(cb_store *s, cb_box *b, uint64_t seq)
{
	char name[32];
	(void)snprintf(name, sizeof(name), "b@%" PRIu64, seq);
	cb_box *old = must_open(s, name);
	CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
	cb_box_close(old);
}

typedef enum way { RESTORED, RESTORED_AND_MERGED, MERGES_UNDONE } way;

static void one_round(cb_store *s, cb_box *b, cb_box *f, way how, uint64_t i)
{
	write_number(b, "/work/a", i);
	if (how == MERGES_UNDONE) {
		write_number(f, "/work/f", i);
		CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
		CHECK_OK(cb_undo(b, 0, NULL, &err));
		return;
	}
	restore_to(s, b, cb_box_step(b) - (i > 2 ? 2 + i % 3 : 0));
	write_number(b, "/work/b", i);
	cb_merge_options ours = CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS);
	if (how == RESTORED_AND_MERGED) CHECK_OK(cb_merge(f, b, &ours, NULL, NULL, &err));
}

static double prune_after(way how, unsigned count)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	must_write(b, "/work/a", "first");
	cb_box *f = must_fork(s, "b", "f");
	for (unsigned i = 0; i < count; i++) one_round(s, b, f, how, i);
	double start = test_cpu_ms();
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	double took = test_cpu_ms() - start;
	cb_box_close(b);
	cb_box_close(f);
	test_store_sound(s);
	cb_store_close(s);
	return took;
}

/* Twice the square for those who go on with each branch that was left, and have as many steps in their past. */
static void grows_with(way how, unsigned most)
{
	enum { FEW = 100, MANY = 1000 };
	double few = 1e9, many = prune_after(how, MANY);
	for (int i = 0; i < 4; i++) {
		double is = prune_after(how, FEW);
		if (is < few) few = is;
	}
	test_note("ms for %d and %d: %.2f %.2f", FEW, MANY, few, many);
	CHECK_MSG(many < most * few, "%d %.2f ms, %d %.2f ms", FEW, few, MANY, many);
}

TEST_LIMIT(restored_again_and_again, 300)
{
	grows_with(RESTORED, 50);
}

TEST_LIMIT(restored_and_merged_again_and_again, 300)
{
	grows_with(RESTORED_AND_MERGED, 200);
}

TEST_LIMIT(merges_undone_again_and_again, 300)
{
	grows_with(MERGES_UNDONE, 50);
}

/* ---- what is still needed ---- */

static cb_box *box_of_steps(cb_store *s, uint64_t count)
{
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	must_write(b, "/work/f", "");
	must_write(b, "/work/g", "");
	while (cb_box_step(b) < count) write_number(b, "/work/a", cb_box_step(b) + 1);
	return b;
}

static void merge_state(cb_store *s, cb_box *into, uint64_t seq)
{
	char name[32];
	(void)snprintf(name, sizeof(name), "b@%" PRIu64, seq);
	cb_box *old = must_open(s, name);
	CHECK_OK(cb_merge(into, old, NULL, NULL, NULL, &err));
	cb_box_close(old);
}

/* The two have nothing newer in common than what is asked for, and need it after all else went. */
static void merge_after_prune(cb_store *s, cb_box *b, cb_box *f, cb_box *g)
{
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	must_write(f, "/work/f", "of f");
	must_write(g, "/work/g", "of g");
	CHECK_OK(cb_merge(g, f, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
	CHECK_STR(must_read(g, "/work/f"), "of f");
	CHECK_STR(must_read(g, "/work/g"), "of g");
	cb_box_close(b);
	cb_box_close(f);
	cb_box_close(g);
	test_store_sound(s);
	cb_store_close(s);
}

/* f merged step 5, and g began at step 8, before both were left. */
TEST(a_branch_that_was_left)
{
	cb_store *s = test_store_open(true);
	cb_box *b = box_of_steps(s, 8);
	cb_box *f = must_fork(s, "b@3", "f"), *g = must_fork(s, "b@8", "g");
	merge_state(s, f, 5);
	restore_to(s, b, 2);
	write_number(b, "/work/b", 1);
	merge_state(s, f, cb_box_step(b));
	CHECK_OK(cb_checkpoint_save(b, "there", cb_box_step(b), true, &err));
	merge_after_prune(s, b, f, g);
}

/* The same; and the box was restored to a step above those, which was undone: the line of its newest step has none of them. */
TEST(a_branch_whose_restore_was_undone)
{
	cb_store *s = test_store_open(true);
	cb_box *b = box_of_steps(s, 8);
	cb_box *f = must_fork(s, "b@3", "f"), *g = must_fork(s, "b@8", "g");
	uint64_t seq = 0;
	merge_state(s, f, 5);
	restore_to(s, b, 2);
	write_number(b, "/work/b", 1);
	restore_to(s, b, 7);
	seq = cb_box_step(b);
	CHECK_OK(cb_undo(b, seq, NULL, &err));
	write_number(b, "/work/c", 1);
	merge_state(s, f, cb_box_step(b));
	merge_after_prune(s, b, f, g);
}

/* What comes from two branches parts where the second began. */
TEST(where_branches_part)
{
	cb_store *s = test_store_open(true);
	cb_box *b = box_of_steps(s, 8);
	cb_box *f = must_fork(s, "b@8", "f");
	restore_to(s, b, 5);
	write_number(b, "/work/b", 1);
	cb_box *g = must_fork(s, "b", "g");
	merge_after_prune(s, b, f, g);
}
