/*
 * A handle builds a fork's state on the nearest root of the origin. When prune gives the origin a nearer one and gc takes the old one, a
 * handle that was open all the time must not write the old root into the fork's head.
 */
#include "harness/boxes.h"

TEST_BOTH(fork_outlives_the_root_it_was_read_from)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "origin", &b, &err));
	for (int i = 0; i < 20; i++) must_write(b, "/work/a", i % 2 ? "odd" : "even");
	cb_box *f = must_fork(s, "origin", "fork");
	cb_box_close(f);
	must_write(b, "/work/a", "after the fork");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 8), NULL, &err)); /* step 14 gets a root */
	f = must_open(s, "fork");
	CHECK_STR(must_read(f, "/work/a"), "odd");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL,
	                  &err)); /* and loses it; step 20, the fork point, gets one */
	CHECK_OK(cb_store_gc(s, NULL, &err));
	must_write(f, "/work/b", "new");
	test_store_sound(s);
	cb_box_close(f);
	f = must_open(s, "fork");
	CHECK_STR(must_read(f, "/work/a"), "odd");
	CHECK_STR(must_read(f, "/work/b"), "new");
	cb_box_close(f);
	cb_box_close(b);
	cb_store_close(s);
}
