/*
 * undo_passes_what_is_taken_back.c: a plain undo goes on to the one before where nothing is left of the change that it would choose,
 * because later undos by number took that back. It made steps that changed nothing and said that they took something back; the next redo
 * chose these. What was passed stays passed, through whatever handle and in an unpacked box too. Only what moved the past and nothing else
 * (a merge that was decided for the box, a restore that took it out of the past) is taken back without a change, while that moves the past.
 */
#include "harness/boxes.h"
#include "harness/packs.h"

static const char *text_of(cb_box *b)
{
	return exists(b, "/work/f") ? must_read(b, "/work/f") : "";
}

static cb_code take_target(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = step->target;
	return CB_OK;
}

/* Undoes or redoes, which takes back that step and leaves that text; target 0: there is nothing. */
static void go(cb_box *b, bool redo, uint64_t target, const char *text)
{
	cb_error err = {0};
	uint64_t head = must_seq(b), made = 0, took = 0;
	cb_code code = redo ? cb_redo(b, &made, &err) : cb_undo(b, 0, &made, &err);
	CHECK_CODE(code, target ? CB_OK : CB_NOTHING);
	CHECK_U64(must_seq(b), target ? head + 1 : head);
	if (target) CHECK_OK(cb_step_get(b, made, take_target, &took, &err));
	CHECK_U64(took, target);
	CHECK_STR(text_of(b), text);
}

static void restore_step(cb_store *s, cb_box *b, uint64_t seq)
{
	cb_error err = {0};
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%" PRIu64, seq);
	cb_box *then = must_open(s, address);
	CHECK_OK(cb_restore(b, then, NULL, NULL, &err));
	cb_box_close(then);
}

/* From the next step on: f is v0, goes, comes back, is v2, goes by a restore, and comes back as v0 by number. Returns the last step. */
static uint64_t come_and_go(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	uint64_t first = must_seq(b) + 1;
	must_write(b, "/work/f", "v0");
	CHECK_OK(cb_unlink(b, "/work/f", &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	must_write(b, "/work/f", "v2");
	restore_step(s, b, first + 1);
	CHECK(!exists(b, "/work/f"));
	CHECK_OK(cb_undo(b, first + 1, NULL, &err));
	CHECK_STR(text_of(b), "v0");
	return must_seq(b);
}

TEST_BOTH(the_one_before_is_taken)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_U64(come_and_go(s, b), 6);
	CHECK_CODE(cb_undo(b, 5, NULL, &err), CB_NOTHING);
	CHECK_CODE(cb_undo(b, 4, NULL, &err), CB_NOTHING);
	go(b, false, 1, ""); /* 7; of 5 and 4 nothing is left */
	go(b, false, 0, "");
	go(b, true, 7, "v0"); /* 8 */
	go(b, false, 1, "");
	go(b, true, 9, "v0"); /* 10 */
	go(b, true, 6, "");
	go(b, true, 0, "");
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* Case by case what a later change does to it: it is taken first, and then the walk goes on where it was. */
TEST_BOTH(later_changes_come_first)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	(void)come_and_go(s, b);
	go(b, false, 1, ""); /* 7 */
	must_write(b, "/work/f", "v3");
	go(b, false, 8, "");
	go(b, false, 0, "");
	CHECK_OK(cb_step_record(b, NULL, NULL, &err)); /* 10 */
	go(b, false, 0, "");
	go(b, true, 9, "v3");
	cb_box_close(b);
	cb_store_close(s);
}

/* An older step is undone by number, so the walk looks at every step again: what was passed stays passed, also for who remembers
 * nothing. */
TEST_BOTH(what_was_passed_stays_passed)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/z", "z");
	must_write(b, "/work/x", "x");
	CHECK_U64(come_and_go(s, b), 8);
	CHECK_OK(cb_undo(b, 2, NULL, &err)); /* 9: x is gone */
	go(b, false, 3, "");
	cb_box *again = must_open(s, "demo");
	pack_bytes bytes = pack_take(b, NULL);
	CHECK_OK(pack_give(s, &bytes, "copy", NULL, &err));
	cb_box *packed = must_open(s, "copy");
	go(b, false, 1, "");
	CHECK(!exists(b, "/work/z"));
	go(again, false, 0, "");
	go(packed, false, 1, "");
	go(packed, false, 0, "");
	/* Once the undo is redone they are looked at again. */
	go(again, true, 11, "");
	go(again, true, 10, "v0");
	go(again, false, 3, "");
	cb_box_close(packed);
	cb_box_close(again);
	cb_box_close(b);
	cb_store_close(s);
}

/* A merge that changes nothing, and a restore that takes it out of the past and changes nothing. */
TEST_BOTH(what_moved_the_past_alone)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "one");
	cb_box *x = must_fork(s, "demo", "x");
	must_write(b, "/work/f", "mine"); /* 2 */
	must_write(x, "/work/f", "theirs");
	CHECK_OK(cb_merge(b, x, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err)); /* 3 */
	restore_step(s, b, 2);
	CHECK_U64(must_seq(b), 4);
	CHECK_CODE(cb_merge(b, x, NULL, NULL, NULL, &err), CB_CONFLICT);
	CHECK_CODE(cb_undo(b, 3, NULL, &err), CB_NOTHING); /* it does not count */
	go(b, false, 4, "mine");                           /* 5: it does again */
	CHECK_CODE(cb_merge(b, x, NULL, NULL, NULL, &err), CB_NOTHING);
	go(b, true, 5, "mine"); /* 6 */
	CHECK_CODE(cb_merge(b, x, NULL, NULL, NULL, &err), CB_CONFLICT);
	CHECK_OK(cb_undo(b, 4, NULL, &err)); /* 7 */
	CHECK_CODE(cb_merge(b, x, NULL, NULL, NULL, &err), CB_NOTHING);
	CHECK_CODE(cb_undo(b, 4, NULL, &err), CB_NOTHING);
	go(b, false, 3, "mine"); /* 8 */
	CHECK_CODE(cb_merge(b, x, NULL, NULL, NULL, &err), CB_CONFLICT);
	go(b, false, 2, "one");
	go(b, false, 1, "");
	go(b, false, 0, "");
	test_store_sound(s);
	cb_box_close(x);
	cb_box_close(b);
	cb_store_close(s);
}

static void set_key(cb_box *b, const char *value)
{
	cb_error err = {0};
	CHECK_OK(cb_kv_set(b, "k", value, CB_STRING, &err));
}

/* Where a restore that stands, and of which nothing is left, took the merge out of the past, to undo the merge would move nothing. */
TEST_BOTH(a_merge_that_was_restored_away_is_passed)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/g", "one");
	cb_box *x = must_fork(s, "demo", "x");
	must_write(b, "/work/g", "mine");
	must_write(x, "/work/g", "theirs");
	must_write(b, "/work/f", "v0");                                                                   /* 3 */
	CHECK_OK(cb_unlink(b, "/work/f", &err));                                                          /* 4 */
	CHECK_OK(cb_merge(b, x, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err)); /* 5 */
	CHECK_OK(cb_undo(b, 4, NULL, &err));                                                              /* 6 */
	restore_step(s, b, 4);               /* 7: f is gone, and the merge */
	CHECK_OK(cb_undo(b, 4, NULL, &err)); /* 8: f is back */
	CHECK_CODE(cb_undo(b, 5, NULL, &err), CB_NOTHING);
	go(b, false, 3, "");
	CHECK_CODE(cb_merge(b, x, NULL, NULL, NULL, &err), CB_CONFLICT);
	test_store_sound(s);
	cb_box_close(x);
	cb_box_close(b);
	cb_store_close(s);
}

/* Nor does it matter which undo passed the restore, through which handle. */
TEST(a_merge_below_what_was_passed_before)
{
	for (int anew = 0; anew < 2; anew++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/g", "one");
		cb_box *x = must_fork(s, "demo", "x");
		must_write(b, "/work/g", "mine");
		must_write(x, "/work/g", "theirs");
		must_write(b, "/work/f", "v0");
		CHECK_OK(cb_unlink(b, "/work/f", &err)); /* 4 */
		set_key(b, "b");
		CHECK_OK(cb_merge(b, x, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err)); /* 6 */
		CHECK_OK(cb_undo(b, 4, NULL, &err));
		set_key(b, "a"); /* 8 */
		set_key(b, "b");
		restore_step(s, b, 5); /* 10: f is gone, and the merge */
		CHECK_OK(cb_undo(b, 4, NULL, &err));
		static const uint64_t want[] = {9, 8, 5, 3, 2, 1};
		for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
			go(b, false, want[i], want[i] > 3 ? "v0" : "");
			if (anew) cb_box_close(b);
			if (anew) b = must_open(s, "demo");
		}
		go(b, false, 0, "");
		for (size_t i = sizeof(want) / sizeof(*want); i; i--) go(b, true, 11 + i, i <= 4 ? "v0" : "");
		cb_box_close(x);
		cb_box_close(b);
		cb_store_close(s);
	}
}
