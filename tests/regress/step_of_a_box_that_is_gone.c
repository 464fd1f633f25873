/*
 * step_of_a_box_that_is_gone.c: a step whose second parent was deleted names no box, so it tells no step of one either. It told the number
 * alone, which a packed and unpacked box rightly did not have; and the name, until a gc, which another box may have by then.
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
	for (int collected = 0; collected < 2; collected++) {
		CHECK_OK(cb_step_get(b, must_seq(b), take_step, &step, &err));
		CHECK_STR(step.other, "");
		CHECK_U64(step.other_seq, 0);
		CHECK_OK(cb_store_gc(s, NULL, &err));
	}
	pack_bytes p = pack_take(b, NULL);
	CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
	cb_box_close(b);
	pack_must_equal(s, "demo", s, "copy");
	test_store_sound(s);
	cb_store_close(s);
}

/* The origin of a fork is deleted, and another box has its name: no line is that one's. */
TEST_BOTH(lines_of_a_box_that_was_deleted)
{
	cb_error err = {0};
	cb_box *a = NULL, *again = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_write(a, "/work/f", "one\n");
	must_write(a, "/work/f", "one\ntwo\n");
	cb_box *f = must_fork(s, "a", "f");
	must_write(f, "/work/f", "one\ntwo\nthree\n");
	CHECK_STR(must_blame(f, "/work/f"), "1 2 1");
	cb_box_close(a);
	a = must_open(s, "a@2");
	CHECK_OK(cb_box_delete(s, "a", &err));
	CHECK_STR(must_blame(a, "/work/f"), "1 2"); /* to who has it open */
	cb_box_close(a);
	CHECK_OK(cb_box_create(s, "a", &again, &err));
	for (int collected = 0; collected < 2; collected++) {
		cb_step step;
		CHECK_STR(must_blame(f, "/work/f"), "0 0 1");
		CHECK_OK(cb_step_get(f, 0, take_step, &step, &err));
		CHECK_STR(step.other, "");
		CHECK_OK(cb_store_gc(s, NULL, &err));
	}
	cb_box_close(again);
	cb_box_close(f);
	cb_store_close(s);
}
