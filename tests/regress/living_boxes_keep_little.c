/*
 * living_boxes_keep_little.c: two boxes that live and merge, restore and undo, round after round, and are pruned, kept a step or two of
 * each round for ever: whatever a box had of another in its past counted as needed, though a better common past stood above it. So did
 * every step that a box was restored to. And where branches of a box part, a step that was needed went: only the lowest was asked about.
 */
#include "harness/boxes.h"

static cb_error err;

typedef enum way {
	MERGES,
	MERGES_BOTH_WAYS,
	RESTORES_AND_MERGES,
	UNDONE_MERGES,
	UNDONE_RESTORES,
	REDONE_MERGES,
	OWN_RESTORES,
	UNDONE_OWN_RESTORES,
	FORKS_MERGED_AND_UNDONE,
	WAYS
} way;

static void write_number(cb_box *b, const char *path, uint64_t i)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%" PRIu64, i);
	must_write(b, path, text);
}

static void merge(cb_box *into, cb_box *from)
{
	cb_code code = cb_merge(into, from, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
}

static void restore_own(cb_store *s, cb_box *b, const char *name, uint64_t back)
{
	char address[32];
	(void)snprintf(address, sizeof(address), "%s@%" PRIu64, name, must_seq(b) - back);
	cb_box *old = must_open(s, address);
	CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
	cb_box_close(old);
}

static void fork_merged_and_undone(cb_store *s, cb_box *a, cb_box *b, uint64_t i)
{
	cb_box *k = must_fork(s, "a", "k");
	write_number(k, "/work/k", i);
	merge(a, k);
	merge(b, a); /* has it, and a not */
	CHECK_OK(cb_undo(a, 0, NULL, &err));
	merge(a, b);
	cb_box_close(k);
	CHECK_OK(cb_box_delete(s, "k", &err));
}

static void one_round(cb_store *s, cb_box *a, cb_box *b, way how, uint64_t i)
{
	write_number(a, "/work/a", i);
	write_number(b, "/work/b", i);
	switch (how) {
	case MERGES:
		merge(a, b);
		return;
	case MERGES_BOTH_WAYS:
		merge(a, b);
		write_number(b, "/work/b", i + 1);
		merge(b, a);
		return;
	case RESTORES_AND_MERGES:
		CHECK_OK(cb_restore(b, a, NULL, NULL, &err));
		write_number(b, "/work/b", i + 1);
		merge(a, b);
		return;
	case UNDONE_MERGES:
	case REDONE_MERGES:
		merge(a, b);
		CHECK_OK(cb_undo(a, 0, NULL, &err));
		if (how == REDONE_MERGES) CHECK_OK(cb_redo(a, NULL, &err));
		merge(b, a);
		return;
	case UNDONE_RESTORES:
		CHECK_OK(cb_restore(b, a, NULL, NULL, &err));
		CHECK_OK(cb_undo(b, 0, NULL, &err));
		merge(a, b);
		return;
	case OWN_RESTORES:
	case UNDONE_OWN_RESTORES:
		write_number(a, "/work/a", i + 1);
		restore_own(s, a, "a", 1);
		if (how == UNDONE_OWN_RESTORES) CHECK_OK(cb_undo(a, 0, NULL, &err));
		return;
	case FORKS_MERGED_AND_UNDONE:
		fork_merged_and_undone(s, a, b, i);
		return;
	case WAYS:
		return;
	}
}

/* keep: steps of each box. */
static uint64_t steps_after(way how, uint64_t rounds, uint64_t keep)
{
	cb_store *s = test_store_open(true);
	cb_box *boxes[2];
	cb_store_stats st = CB_INIT(cb_store_stats);
	CHECK_OK(cb_box_create(s, "a", &boxes[0], &err));
	must_write(boxes[0], "/work/a", "first");
	boxes[1] = must_fork(s, "a", "b");
	for (uint64_t i = 0; i < rounds; i++) {
		one_round(s, boxes[0], boxes[1], how, 2 * i);
		for (int k = 0; k < 2; k++) {
			write_number(boxes[k], "/work/last", i);
			CHECK_OK(cb_prune(boxes[k], &CB_WITH(cb_prune_options, .keep_steps = keep), NULL, &err));
		}
		CHECK_OK(cb_store_gc(s, NULL, &err));
	}
	CHECK_OK(cb_store_stats_get(s, &st, &err));
	merge(boxes[0], boxes[1]);
	test_store_sound(s);
	cb_box_close(boxes[0]);
	cb_box_close(boxes[1]);
	cb_store_close(s);
	return st.steps;
}

TEST(rounds_leave_nothing)
{
	for (way how = MERGES; how < WAYS; how++)
		for (uint64_t keep = 1; keep <= 8; keep *= 8) {
			uint64_t few = steps_after(how, 12, keep), many = steps_after(how, 48, keep);
			CHECK_MSG(many <= few, "way %d, keeps %" PRIu64 ": %" PRIu64 " steps after 12 rounds, %" PRIu64 " after 48",
			          (int)how, keep, few, many);
		}
}

static void write_on(cb_box *b, uint64_t to)
{
	while (must_seq(b) < to) write_number(b, "/work/x", must_seq(b));
}

static void go_back(cb_store *s, cb_box *b, uint64_t seq)
{
	restore_own(s, b, "x", must_seq(b) - seq);
}

/* Three branches of a box: those of the names part at step 12, which is neither where the last one began nor below it. */
TEST_BOTH(branches_part_above_the_lowest)
{
	cb_store *s = test_store_open(memory);
	cb_box *x = NULL;
	CHECK_OK(cb_box_create(s, "x", &x, &err));
	write_on(x, 20);
	go_back(s, x, 12);
	write_on(x, 25);
	must_write(x, "/work/u", "u");
	CHECK_OK(cb_checkpoint_save(x, "u", 0, true, &err));
	write_on(x, 30);
	go_back(s, x, 15);
	write_on(x, 35);
	must_write(x, "/work/v", "v");
	CHECK_OK(cb_checkpoint_save(x, "v", 0, true, &err));
	write_on(x, 40);
	go_back(s, x, 10);
	write_on(x, 45);
	CHECK_OK(cb_prune(x, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_box *u = must_fork(s, "x@u", "u"), *v = must_fork(s, "x@v", "v");
	must_write(u, "/work/x", "12 and more");
	CHECK_CODE(cb_merge(u, v, NULL, NULL, NULL, &err), CB_CONFLICT);
	CHECK_OK(cb_merge(u, v, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
	CHECK_STR(must_read(u, "/work/v"), "v");
	CHECK_STR(must_read(u, "/work/u"), "u");
	cb_box_close(u);
	cb_box_close(v);
	cb_box_close(x);
	test_store_sound(s);
	cb_store_close(s);
}

/* Two forks have what was merged, and the box it was merged into has not any more. They merge that; then what was merged is a common past
 * of the two again. That cannot be undone any longer, and it is still needed. */
TEST_BOTH(what_two_have_around_an_undo)
{
	cb_store *s = test_store_open(memory);
	cb_box *y = NULL;
	CHECK_OK(cb_box_create(s, "y", &y, &err));
	must_edit_line(y, 0, "y");
	cb_box *x = must_fork(s, "y", "x");
	must_edit_line(x, 4, "x");
	CHECK_OK(cb_merge(y, x, NULL, NULL, NULL, &err));
	cb_box_close(x);
	CHECK_OK(cb_box_delete(s, "x", &err));
	cb_box *p = must_fork(s, "y", "p"), *q = must_fork(s, "y", "q");
	CHECK_OK(cb_undo(y, 0, NULL, &err));
	must_edit_line(y, 0, "more");
	CHECK_OK(cb_prune(y, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_merge(p, y, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(q, y, NULL, NULL, NULL, &err));
	must_edit_line(p, 8, "p");
	CHECK_OK(cb_merge(q, p, NULL, NULL, NULL, &err));
	cb_box_close(p);
	cb_box_close(q);
	cb_box_close(y);
	test_store_sound(s);
	cb_store_close(s);
}
