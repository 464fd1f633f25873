/* What pruned steps made of a file belongs to nobody, but blame tells it. */
#include "harness/boxes.h"

TEST_BOTH(blame_beside_what_was_pruned)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/t", "a\n");
	CHECK_OK(cb_checkpoint_save(b, "first", 1, true, &err));
	must_write(b, "/work/t", "a\nb\n");
	must_write(b, "/work/o", "1");
	must_write(b, "/work/o", "2");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_STR(must_blame(b, "/work/t"), "1 0");
	must_write(b, "/work/t", "a\nb\nc\n");
	CHECK_STR(must_blame(b, "/work/t"), "1 0 5"); /* 0: not the step that came after */
	cb_box_close(b);
	cb_store_close(s);
}
