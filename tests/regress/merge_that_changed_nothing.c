/* A merge that changed no file says that one box has what another has. A third one that merges the box learns it, and boxes that merge each
 * other in turn come to rest. */
#include "harness/boxes.h"

static cb_code merge(cb_box *into, cb_box *from)
{
	cb_error err = {0};
	cb_code code = cb_merge(into, from, NULL, NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT, "%s", err.message);
	return code;
}

TEST_BOTH(a_third_box_learns_of_it)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "base", &b, &err));
	must_write(b, "/work/f", "1\n2\n3\n");
	cb_box *x = must_fork(s, "base", "x"), *y = must_fork(s, "base", "y"), *z = must_fork(s, "base", "z");
	must_write(x, "/work/f", "1\nE\n3\n");
	must_write(y, "/work/f", "1\nE\n3\n");
	CHECK_OK(cb_utimens(x, "/work/f", 5, 5, 0, &err)); /* so that nothing at all changes */
	CHECK_OK(cb_utimens(y, "/work/f", 5, 5, 0, &err));
	CHECK(merge(z, x) == CB_OK);
	CHECK(merge(x, y) == CB_OK);
	CHECK(merge(z, x) == CB_OK);
	CHECK(merge(z, x) == CB_NOTHING);
	must_write(z, "/work/f", "1\nFF\n3\n");
	CHECK(merge(z, y) == CB_NOTHING);
	CHECK_STR(must_read(z, "/work/f"), "1\nFF\n3\n");
	/* and a fourth, from the third */
	cb_box *w = must_fork(s, "base", "w");
	CHECK(merge(w, z) == CB_OK);
	CHECK(merge(w, y) == CB_NOTHING);
	cb_box_close(w);
	cb_box_close(z);
	cb_box_close(y);
	cb_box_close(x);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* Steps that changed nothing and merged nothing bring nothing. */
TEST(records_are_nothing_to_merge)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "base", &b, &err));
	cb_box *x = must_fork(s, "base", "x");
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(x, &CB_WITH(cb_txn_options, .step = &CB_WITH(cb_step_info, .record = true)), &t, &err));
	must_commit(t);
	CHECK(must_seq(x) == 1);
	CHECK(merge(b, x) == CB_NOTHING);
	cb_box_close(x);
	cb_box_close(b);
	cb_store_close(s);
}

enum { BOXES = 4 };

/* Each merges the one before, round and round: after a while there is nothing left to do. */
static void comes_to_rest(int boxes, int changes)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *all[BOXES] = {NULL};
	CHECK_OK(cb_box_create(s, "base", &b, &err));
	must_write(b, "/work/f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
	for (int i = 0; i < boxes; i++) {
		char name[16], path[32];
		(void)snprintf(name, sizeof(name), "b%d", i);
		(void)snprintf(path, sizeof(path), "/work/d/%d", i);
		all[i] = must_fork(s, "base", name);
		if (i >= changes) continue;
		CHECK_OK(cb_write_file(all[i], path, "x", 1, &CB_WITH(cb_write_options, .parents = true), &err));
		CHECK_OK(cb_write_file(all[i], "/work/alike", "same", 4, NULL, &err));
		if (i == 0) must_write(all[i], "/work/f", "ONE\n2\n3\n4\n5\n6\n7\n8\n9\n");
		if (i == 1) must_write(all[i], "/work/f", "1\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
	}
	int at_rest = 0, turns = 0;
	for (; at_rest < boxes && turns < 100; turns++) {
		cb_code code = merge(all[(turns + 1) % boxes], all[turns % boxes]);
		at_rest = code == CB_NOTHING ? at_rest + 1 : 0;
	}
	CHECK_MSG(at_rest == boxes, "%d boxes of which %d changed go on for ever", boxes, changes);
	for (int i = 0; i < boxes; i++) cb_box_close(all[i]);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(boxes_that_merge_each_other_come_to_rest)
{
	for (int boxes = 2; boxes <= BOXES; boxes++)
		for (int changes = 0; changes <= boxes; changes++) comes_to_rest(boxes, changes);
}

/* Whoever decided for his own side changed nothing either, and that is what he brings. */
TEST(a_decision_is_brought)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "base", &b, &err));
	must_write(b, "/work/f", "one");
	cb_box *x = must_fork(s, "base", "x"), *y = must_fork(s, "base", "y");
	must_write(x, "/work/f", "mine");
	must_write(y, "/work/f", "yours");
	CHECK_OK(cb_merge(x, y, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
	CHECK(merge(y, x) == CB_OK);
	CHECK_STR(must_read(y, "/work/f"), "mine");
	cb_box_close(y);
	cb_box_close(x);
	cb_box_close(b);
	cb_store_close(s);
}

static cb_code merge_for(cb_box *into, cb_box *from, cb_prefer prefer)
{
	return cb_merge(into, from, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, NULL);
}

static cb_code check_target(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	CHECK_U64(step->target, *(const uint64_t *)context);
	return CB_OK;
}

/* Nor can it be decided otherwise before that is undone, by its number or as the last step; redone, it counts again. */
static void decide_anew(bool by_number)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	uint64_t decided, undone = 0;
	CHECK_OK(cb_box_create(s, "base", &b, &err));
	must_write(b, "/work/f", "one");
	cb_box *x = must_fork(s, "base", "x"), *y = must_fork(s, "base", "y");
	must_write(x, "/work/f", "mine");
	must_write(y, "/work/f", "yours");
	CHECK(merge_for(x, y, CB_PREFER_OURS) == CB_OK);
	CHECK(merge_for(x, y, CB_PREFER_THEIRS) == CB_NOTHING);
	decided = must_seq(x);
	if (by_number) must_write(x, "/work/other", "later");
	CHECK_OK(cb_undo(x, by_number ? decided : 0, &undone, &err));
	CHECK_OK(cb_step_get(x, undone, check_target, &decided, &err));
	CHECK_OK(cb_redo(x, NULL, &err));
	CHECK(merge(x, y) == CB_NOTHING);
	CHECK_OK(cb_undo(x, by_number ? decided : 0, NULL, &err));
	CHECK(cb_undo(x, decided, NULL, NULL) == CB_NOTHING);
	CHECK(merge(x, y) == CB_CONFLICT);
	CHECK(merge_for(x, y, CB_PREFER_THEIRS) == CB_OK);
	CHECK_STR(must_read(x, "/work/f"), "yours");
	cb_box_close(y);
	cb_box_close(x);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(a_decision_can_be_undone)
{
	decide_anew(false);
	decide_anew(true);
}
