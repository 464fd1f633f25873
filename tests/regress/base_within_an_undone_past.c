/*
 * base_within_an_undone_past.c: the search for common pasts may end early with several, of which those that lie in another's past go. What
 * only these led to went with them: where the merge that they stand for was undone in the other's past, that does not lead there.
 */
#include "box/past.h"
#include "harness/boxes.h"

static void restore_to(cb_box *box, cb_store *s, const char *address)
{
	cb_error err = {0};
	cb_box *old = must_open(s, address);
	CHECK_OK(cb_restore(box, old, NULL, NULL, &err));
	cb_box_close(old);
}

static void merge_state(cb_store *s, cb_box *into, const char *address)
{
	cb_error err = {0};
	cb_box *from = must_open(s, address);
	CHECK_OK(cb_merge(into, from, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
	cb_box_close(from);
}

static bool has(const buf *points, const cb_box *box, uint64_t seq)
{
	const past_point *all = (const past_point *)(const void *)points->bytes;
	for (size_t i = 0; i < points->size / sizeof(*all); i++)
		if (all[i].box == box->row.id && all[i].seq == seq) return true;
	return false;
}

TEST_BOTH(what_only_a_covered_one_leads_to)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *ours = NULL;
	CHECK_OK(cb_box_create(s, "ours", &ours, &err));
	cb_box *theirs = must_fork(s, "ours", "theirs"), *made = must_fork(s, "theirs", "made"),
	       *went = must_fork(s, "ours", "went");
	must_write(made, "/work/f", "made");
	merge_state(s, theirs, "made");
	CHECK_OK(cb_undo(theirs, 0, NULL, &err));
	must_write(theirs, "/work/x", "since");
	uint64_t since = must_seq(theirs);
	restore_to(went, s, "theirs@1"); /* where the merge counts */
	must_write(went, "/work/one", "1");
	merge_state(s, ours, "went");
	merge_state(s, ours, "theirs");
	restore_to(went, s, "theirs@1");
	must_write(went, "/work/two", "2");
	merge_state(s, theirs, "went");

	buf found = BUF_INIT(SIZE_MAX);
	past_point a = {ours->row.id, must_seq(ours)}, b = {theirs->row.id, must_seq(theirs)};
	CHECK_OK(past_common(s, &a, 1, &b, 1, &found, &err));
	CHECK_U64(found.size / sizeof(past_point), 2);
	CHECK(has(&found, theirs, since) && has(&found, made, 1));
	buf_done(&found);
	test_store_sound(s);
	cb_box *const all[] = {ours, theirs, made, went};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) cb_box_close(all[i]);
	cb_store_close(s);
}
