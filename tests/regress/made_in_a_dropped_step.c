/*
 * A file was made, written and read in a running step, and the step was dropped, or kept as a fork: its open file then said that the store
 * was damaged, because its last picture stood on the step's memory. It is in no state of the box, and its handle says that.
 */
#include "harness/boxes.h"

static cb_error err;

typedef cb_code (*ending)(cb_box *b);

static cb_code by_drop(cb_box *b)
{
	return cb_txn_drop(b, &err);
}

static cb_code by_keep(cb_box *b)
{
	return cb_txn_keep(b, "kept", NULL, &err);
}

/* Others made a file of that name, and theirs is taken. */
static cb_code by_losing(cb_box *b)
{
	CHECK_CODE(cb_txn_commit(b, NULL, NULL, NULL), CB_CONFLICT);
	return cb_txn_commit(b, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_BOX), NULL, &err);
}

static void made_and_ended(bool memory, ending end, bool others)
{
	static const size_t sizes[] = {10, 300, 300000};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		cb_store *s = test_store_open(memory);
		cb_box *b = NULL;
		cb_file *f = NULL;
		size_t n = 0;
		char *bytes = calloc(1, sizes[i]);
		CHECK(bytes);
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		cb_box *o = must_open(s, "demo");
		must_write(o, "/work/was", "was");
		CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE | CB_CREATE, 0644, &f, &err));
		CHECK_OK(cb_pwrite(f, bytes, sizes[i], 0, &err));
		CHECK_OK(cb_pread(f, bytes, sizes[i], 0, &n, &err));
		CHECK_U64(n, sizes[i]);
		if (others) must_write(o, "/work/a", "theirs");
		CHECK_OK(end(b));
		CHECK_CODE(cb_pread(f, bytes, sizes[i], 0, &n, &err), CB_STALE);
		CHECK_CODE(cb_pwrite(f, "x", 1, 0, &err), CB_STALE);
		cb_stat_info info = CB_INIT(cb_stat_info);
		CHECK_CODE(cb_fstat(f, &info, &err), CB_STALE);
		CHECK(exists(b, "/work/a") == others);
		CHECK_OK(cb_close(f, &err));
		free(bytes);
		if (end == by_keep) CHECK_OK(cb_box_delete(s, "kept", &err));
		cb_box_close(o);
		cb_box_close(b);
		test_store_sound(s);
		CHECK_OK(cb_box_delete(s, "demo", &err));
		cb_store_close(s);
	}
}

TEST_BOTH(dropped)
{
	made_and_ended(memory, by_drop, false);
}

TEST_BOTH(kept_as_a_fork)
{
	made_and_ended(memory, by_keep, false);
}

TEST_BOTH(lost_to_another)
{
	made_and_ended(memory, by_losing, true);
}
