/* A restore that looks back through the steps for what can differ must not look across pruned ones. */
#include "harness/boxes.h"

TEST_BOTH(restore_across_a_gap)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_checkpoint_save(b, "one", 0, true, &err));
	must_write(b, "/work/a", "2");
	must_write(b, "/work/b", "b");
	must_write(b, "/work/c", "c");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	cb_box *one = must_open(s, "demo@one");
	char *before = must_dump(one);
	CHECK_OK(cb_restore(b, one, NULL, NULL, &err));
	CHECK_STR(must_dump(b), before);
	cb_box_close(one);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
