/*
 * conflicts_that_are_past.c: cb_txn_conflicts on a box went on listing what an undo failed for after the box was changed through the
 * handle, and a transaction that was over because its box had moved (no_merge) had no list, not even an empty one.
 */
#include "harness/boxes.h"

static cb_error err;

static cb_code count_conflict(void *context, const cb_conflict *c, cb_error *e)
{
	(void)c, (void)e;
	++*(unsigned *)context;
	return CB_OK;
}

static void check_list(cb_box *b, cb_code expected, unsigned count)
{
	unsigned seen = 0;
	cb_cursor *c = NULL;
	CHECK_CODE(cb_txn_conflicts(b, count_conflict, &seen, &err), expected);
	CHECK_U64(seen, count);
	CHECK_CODE(cb_conflict_open(b, &c, &err), expected);
	cb_cursor_close(c);
}

static void undo_in_conflict(cb_box *b)
{
	must_write(b, "/work/u", "1\n");
	must_write(b, "/work/u", "2\n");
	uint64_t seq = must_seq(b);
	must_write(b, "/work/u", "3\n");
	CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_CONFLICT);
	check_list(b, CB_OK, 1);
}

TEST_BOTH(a_later_step_of_the_handle_ends_the_list)
{
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL, *beside;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	check_list(b, CB_NOTHING, 0);
	undo_in_conflict(b);
	CHECK(must_read(b, "/work/u")); /* reading does not */
	check_list(b, CB_OK, 1);
	CHECK_CODE(cb_unlink(b, "/work/none", &err), CB_NOTFOUND); /* nor does what failed, */
	beside = must_open(s, "demo");
	must_write(beside, "/work/other", "x"); /* nor others, who know nothing of it */
	check_list(b, CB_OK, 1);
	check_list(beside, CB_NOTHING, 0);
	CHECK_OK(cb_unlink(b, "/work/u", &err));
	check_list(b, CB_NOTHING, 0);
	undo_in_conflict(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	check_list(b, CB_NOTHING, 0);
	cb_box_close(beside);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* Whatever became of it, what it failed for can be listed. */
TEST_BOTH(every_commit_that_lost_has_a_list)
{
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned n = 0; n < 12; n++) {
		bool no_merge = n & 1, same = n & 2;
		cb_lost lost = (cb_lost)(n / 4);
		if (!no_merge && !same) continue; /* is merged */
		cb_box *t = must_begin(b);
		check_list(t, CB_OK, 0);
		must_write(t, "/work/a", "x\n");
		must_write(b, same ? "/work/a" : "/work/b", "y\n");
		cb_commit_result result = CB_INIT(cb_commit_result);
		cb_commit_options how = CB_WITH(cb_commit_options, .no_merge = no_merge, .lost = lost);
		CHECK_CODE(cb_txn_commit(t, &how, &result, &err), CB_CONFLICT);
		CHECK_U64(result.conflicts, no_merge ? 0 : 1);
		check_list(t, CB_OK, no_merge ? 0 : 1);
		check_list(b, CB_NOTHING, 0);
		cb_box_close(t);
	}
	cb_box *t = must_begin(b);
	(void)must_commit(t);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* A transaction that is over, and not by a conflict. */
TEST_BOTH(a_finished_transaction_is_invalid)
{
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *t = must_begin(b);
	must_write(t, "/work/a", "x");
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	check_list(t, CB_INVALID, 0);
	CHECK_CODE(cb_write_file(t, "/work/a", "y", 1, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_INVALID);
	char *text = NULL;
	CHECK_CODE(cb_read_file(t, "/work/a", &text, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_txn_drop(t, &err), CB_INVALID);
	CHECK_CODE(cb_txn_keep(t, NULL, NULL, &err), CB_INVALID);
	cb_box_close(t);
	t = must_begin(b);
	CHECK_OK(cb_txn_drop(t, &err));
	check_list(t, CB_INVALID, 0);
	CHECK_CODE(cb_write_file(t, "/work/a", "y", 1, NULL, &err), CB_INVALID);
	cb_box_close(t);
	cb_box_close(b);
	cb_store_close(s);
}

/* The writes of open files, which lost: until a step is made through the handle. */
TEST_BOTH(writes_of_open_files_that_lost)
{
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL, *beside;
	cb_file *f = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
	beside = must_open(s, "demo");
	CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_pwrite(f, "two\n", 4, 0, &err));
	must_write(beside, "/work/a", "other\n");
	CHECK_CODE(cb_txn_commit(b, &CB_WITH(cb_commit_options, .lost = CB_LOST_DROP), NULL, &err), CB_CONFLICT);
	check_list(b, CB_OK, 1);
	must_write(b, "/work/b", "x");
	check_list(b, CB_NOTHING, 0);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(beside);
	cb_box_close(b);
	cb_store_close(s);
}
