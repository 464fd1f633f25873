/*
 * base_behind_a_merge_that_changed_nothing.c: the search for the common past of two boxes ends early where nothing newer can come, which
 * was told by the numbers of states. A merge that changes nothing has the number of the state before it, so what it brought was passed
 * over: the base was too old, and what a side had taken back since came again.
 */
#include "base/attr.h"
#include "harness/boxes.h"

static void merge_state(cb_store *s, cb_box *into, const char *address)
{
	cb_error err = {0};
	cb_box *from = must_open(s, address);
	CHECK_OK(cb_merge(into, from, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
	cb_box_close(from);
}

static void removal_is_kept(bool memory, bool forked)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *o = NULL;
	CHECK_OK(cb_box_create(s, "o", &o, &err));
	cb_box *a = must_fork(s, "o", "a"), *c = must_fork(s, "o", "c"), *d = must_fork(s, "o", "d");
	must_write(c, "/work/z", "z");
	must_write(d, "/work/x", "of d");
	must_write(d, "/work/y", "of d");
	must_write(a, "/work/x", "of a");
	must_write(a, "/work/y", "of a");
	merge_state(s, d, "a@2"); /* d keeps its own: nothing changes */
	if (forked) {
		cb_box_close(d);
		d = must_fork(s, "d", "e");
	}
	merge_state(s, c, "a@1"); /* an older one, later */
	merge_state(s, d, "c");
	CHECK_OK(cb_unlink(d, "/work/y", &err));
	CHECK_OK(cb_merge(a, d, NULL, NULL, NULL, &err));
	CHECK(exists(a, "/work/x") && exists(a, "/work/z") && !exists(a, "/work/y"));
	test_store_sound(s);
	cb_box *const all[] = {o, a, c, d};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) cb_box_close(all[i]);
	cb_store_close(s);
}

TEST_BOTH(removal_after_a_merge_that_changed_nothing)
{
	removal_is_kept(memory, false);
}

TEST_BOTH(removal_in_a_fork_of_it)
{
	removal_is_kept(memory, true);
}
