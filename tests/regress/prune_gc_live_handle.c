/* A handle that stood on a root which prune and gc took away wrote a head row that named it. */
#include "harness/boxes.h"

TEST(prune_gc_live_handle)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "b", NULL, &err));
	cb_box *b = must_open(s, "b");
	for (int i = 0; i < 10; i++) must_write(b, "/work/a", i % 2 ? "x" : "y");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 5), NULL,
	                  &err)); /* step 6 gets a root; the head row still names step 0's */
	cb_box_close(b);
	b = must_open(s, "b");                                                          /* this handle stands on step 6's root */
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 2), NULL, &err)); /* step 6 goes */
	CHECK_OK(cb_store_gc(s, NULL, &err)); /* its root goes: neither a step nor a head row names it */
	must_write(b, "/work/a", "z");        /* writes a head row that names the freed root */
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
