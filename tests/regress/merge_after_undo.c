/* A merge that was undone, or restored away, is not in the past any more: merging again brings it, merging back takes nothing away. */
#include "harness/sides.h"

static void file_a(cb_box *b)
{
	must_write(b, "/work/a", "a");
}

static sides open_merged(bool memory)
{
	sides p = sides_open(memory, file_a);
	must_write(p.theirs, "/work/f", "f");
	must_write(p.ours, "/work/m", "m");
	must_merge(p.ours, p.theirs, CB_PREFER_NONE);
	CHECK(exists(p.ours, "/work/f"));
	return p;
}

static void take_back(sides *p, int how)
{
	cb_error err = {0};
	cb_box *old = NULL;
	if (how == 0) {
		CHECK_OK(cb_undo(p->ours, 0, NULL, &err));
	} else if (how == 1) {
		old = must_open(p->s, "ours@-1");
		CHECK_OK(cb_restore(p->ours, old, NULL, NULL, &err));
	} else { /* undone, redone, undone again */
		CHECK_OK(cb_undo(p->ours, 0, NULL, &err));
		CHECK_OK(cb_redo(p->ours, NULL, &err));
		CHECK_CODE(cb_merge(p->ours, p->theirs, NULL, NULL, NULL, &err), CB_NOTHING);
		CHECK_OK(cb_undo(p->ours, 0, NULL, &err));
	}
	cb_box_close(old);
	CHECK(!exists(p->ours, "/work/f"));
}

TEST_BOTH(merge_again_brings_it)
{
	cb_error err = {0};
	for (int how = 0; how < 3; how++) {
		sides p = open_merged(memory);
		take_back(&p, how);
		must_write(p.theirs, "/work/f2", "f2");
		must_merge(p.ours, p.theirs, CB_PREFER_NONE);
		CHECK_STR(must_read(p.ours, "/work/f"), "f");
		CHECK_STR(must_read(p.ours, "/work/f2"), "f2");
		CHECK_STR(must_read(p.ours, "/work/m"), "m");
		CHECK_CODE(cb_merge(p.ours, p.theirs, NULL, NULL, NULL, &err), CB_NOTHING);
		sides_close(&p);
		if (!memory) break;
	}
}

TEST(merge_back_takes_nothing_away)
{
	for (int how = 0; how < 3; how++) {
		sides p = open_merged(true);
		take_back(&p, how);
		must_merge(p.theirs, p.ours, CB_PREFER_NONE);
		CHECK_STR(must_read(p.theirs, "/work/f"), "f");
		CHECK_STR(must_read(p.theirs, "/work/m"), "m");
		sides_close(&p);
	}
}

/* The edges of history stay when the steps are pruned. */
TEST(undone_merge_after_prune)
{
	cb_error err = {0};
	sides p = open_merged(true);
	take_back(&p, 0);
	must_write(p.ours, "/work/m", "m2");
	must_write(p.ours, "/work/m", "m3");
	CHECK_OK(cb_prune(p.ours, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(p.s, NULL, &err));
	must_merge(p.ours, p.theirs, CB_PREFER_NONE);
	CHECK_STR(must_read(p.ours, "/work/f"), "f");
	CHECK_STR(must_read(p.ours, "/work/m"), "m3");
	sides_close(&p);
}
