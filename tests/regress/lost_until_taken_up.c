/* A box that keeps a lost transaction is marked until somebody takes it up: a fork of it or a checkpoint does. */
#include "harness/boxes.h"

static bool is_lost(cb_box *b)
{
	cb_error err = {0};
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	return info.lost;
}

TEST_BOTH(lost_until_taken_up)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int how = 0; how < 2; how++) {
		cb_box *t = must_begin(b);
		must_write(t, "/work/a", how ? "t1" : "t0");
		must_write(b, "/work/a", how ? "b1" : "b0");
		cb_commit_result result = CB_INIT(cb_commit_result);
		CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), &result, &err), CB_CONFLICT);
		cb_box_close(t);
		cb_box *kept = must_open(s, result.fork);
		CHECK(is_lost(kept));
		if (how) cb_box_close(must_fork(s, result.fork, "child"));
		else CHECK_OK(cb_checkpoint_save(kept, "mine", 0, true, &err));
		CHECK(!is_lost(kept));
		cb_box_close(kept);
	}
	cb_box_close(b);
	cb_store_close(s);
}
