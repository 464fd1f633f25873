/* A merge that was undone, or restored away, is not in the past any more: merging again brings it, merging back takes nothing away. */
#include "harness/boxes.h"

typedef struct pair {
	cb_store *s;
	cb_box *main, *fork;
} pair;

static pair open_pair(bool memory)
{
	cb_error err = {0};
	pair p = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(p.s, "main", &p.main, &err));
	must_write(p.main, "/work/a", "a");
	p.fork = must_fork(p.s, "main", "fork");
	must_write(p.fork, "/work/f", "f");
	must_write(p.main, "/work/m", "m");
	CHECK_OK(cb_merge(p.main, p.fork, NULL, NULL, NULL, &err));
	CHECK(exists(p.main, "/work/f"));
	return p;
}

static void close_pair(pair *p)
{
	test_store_sound(p->s);
	cb_box_close(p->main);
	cb_box_close(p->fork);
	cb_store_close(p->s);
}

static void take_back(pair *p, int how)
{
	cb_error err = {0};
	cb_box *old = NULL;
	if (how == 0) {
		CHECK_OK(cb_undo(p->main, 0, NULL, &err));
	} else if (how == 1) {
		old = must_open(p->s, "main@-1");
		CHECK_OK(cb_restore(p->main, old, NULL, NULL, &err));
	} else { /* undone, redone, undone again */
		CHECK_OK(cb_undo(p->main, 0, NULL, &err));
		CHECK_OK(cb_redo(p->main, NULL, &err));
		CHECK_CODE(cb_merge(p->main, p->fork, NULL, NULL, NULL, &err), CB_NOTHING);
		CHECK_OK(cb_undo(p->main, 0, NULL, &err));
	}
	cb_box_close(old);
	CHECK(!exists(p->main, "/work/f"));
}

TEST_BOTH(merge_again_brings_it)
{
	cb_error err = {0};
	for (int how = 0; how < 3; how++) {
		pair p = open_pair(memory);
		take_back(&p, how);
		must_write(p.fork, "/work/f2", "f2");
		CHECK_OK(cb_merge(p.main, p.fork, NULL, NULL, NULL, &err));
		CHECK_STR(must_read(p.main, "/work/f"), "f");
		CHECK_STR(must_read(p.main, "/work/f2"), "f2");
		CHECK_STR(must_read(p.main, "/work/m"), "m");
		CHECK_CODE(cb_merge(p.main, p.fork, NULL, NULL, NULL, &err), CB_NOTHING);
		close_pair(&p);
		if (!memory) break;
	}
}

TEST(merge_back_takes_nothing_away)
{
	cb_error err = {0};
	for (int how = 0; how < 3; how++) {
		pair p = open_pair(true);
		take_back(&p, how);
		CHECK_OK(cb_merge(p.fork, p.main, NULL, NULL, NULL, &err));
		CHECK_STR(must_read(p.fork, "/work/f"), "f");
		CHECK_STR(must_read(p.fork, "/work/m"), "m");
		close_pair(&p);
	}
}

/* The edges of history stay when the steps are pruned. */
TEST(undone_merge_after_prune)
{
	cb_error err = {0};
	pair p = open_pair(true);
	take_back(&p, 0);
	must_write(p.main, "/work/m", "m2");
	must_write(p.main, "/work/m", "m3");
	CHECK_OK(cb_prune(p.main, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(p.s, NULL, &err));
	CHECK_OK(cb_merge(p.main, p.fork, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(p.main, "/work/f"), "f");
	CHECK_STR(must_read(p.main, "/work/m"), "m3");
	close_pair(&p);
}
