/* A handle that slept while another made steps and pruned them: the steps it would replay are gone. */
#include "harness/boxes.h"

TEST_BOTH(handle_behind_what_was_pruned)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "first");
	cb_box *sleeper = must_open(s, "demo");
	CHECK_STR(must_read(sleeper, "/work/a"), "first");
	for (int i = 0; i < 10; i++) must_write(b, "/work/a", i % 2 ? "odd" : "even");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_STR(must_read(sleeper, "/work/a"), "odd");
	must_write(sleeper, "/work/b", "new");
	cb_box_close(sleeper);
	cb_box_close(b);
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/b"), "new");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
