/* merge_that_fails_says_no_number.c: what a call gives back is written on success only; but a conflict says how many are open. */
#include "harness/boxes.h"

TEST_BOTH(merge_that_fails_says_no_number)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a\n");
	cb_box *f = must_fork(s, "demo", "other"), *old = must_open(s, "demo@1");
	uint64_t seq = 77, conflicts = 77;
	CHECK_CODE(cb_merge(b, f, NULL, &seq, &conflicts, &err), CB_NOTHING);
	must_write(f, "/work/a", "theirs\n");
	must_write(b, "/work/a", "ours\n");
	CHECK_CODE(cb_merge(old, f, NULL, &seq, &conflicts, &err), CB_READONLY);
	CHECK_CODE(cb_merge(b, b, NULL, &seq, &conflicts, &err), CB_INVALID);
	CHECK_U64(conflicts, 77);
	CHECK_CODE(cb_merge(b, f, NULL, &seq, &conflicts, &err), CB_CONFLICT);
	CHECK_U64(conflicts, 1);
	CHECK_U64(seq, 77);
	CHECK_OK(cb_merge(b, f, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), &seq, &conflicts, &err));
	CHECK_U64(conflicts, 0);
	CHECK(seq != 77);
	cb_box_close(old);
	cb_box_close(f);
	cb_box_close(b);
	cb_store_close(s);
}
