/*
 * step_of_a_box_that_is_gone.c: a step whose second parent was deleted and collected names no box, so it tells no step of one
 * either. It told the number alone, which a packed and unpacked box rightly did not have.
 */
#include "harness/packs.h"

static cb_code take_step(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	*(cb_step *)context = *step;
	return CB_OK;
}

TEST_BOTH(no_number_without_a_name)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
	cb_box *fork = must_fork(s, "demo", "other");
	must_write(fork, "/work/b", "two\n");
	CHECK_OK(cb_restore(b, fork, "/work/b", NULL, &err));
	cb_box_close(fork);
	cb_step step;
	CHECK_OK(cb_step_get(b, must_seq(b), take_step, &step, &err));
	CHECK_STR(step.other, "other");
	CHECK(step.other_seq != 0);
	CHECK_OK(cb_box_delete(s, "other", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_step_get(b, must_seq(b), take_step, &step, &err));
	CHECK_STR(step.other, "");
	CHECK_U64(step.other_seq, 0);
	pack_bytes p = pack_take(b, NULL);
	CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
	cb_box_close(b);
	pack_must_equal(s, "demo", s, "copy");
	test_store_sound(s);
	cb_store_close(s);
}
