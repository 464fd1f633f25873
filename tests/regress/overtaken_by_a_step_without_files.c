/*
 * A merge that was overtaken by a step which changes no file, itself a merge decided for ours, was committed as if nothing had happened:
 * what had been decided and acknowledged was turned over. It is made again, as if it had come after.
 */
#include "harness/boxes.h"

typedef struct meanwhile {
	cb_store *s;
	bool done;
	unsigned asked;
} meanwhile;

static void merge_for_ours(cb_store *s)
{
	cb_error err = {0};
	cb_box *m = must_open(s, "m"), *f = must_open(s, "f@1");
	CHECK_OK(cb_merge(m, f, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
	cb_box_close(m);
	cb_box_close(f);
}

static cb_prefer decide(void *context, const cb_conflict *conflict)
{
	meanwhile *w = context;
	CHECK_STR(conflict->path, "/work/a");
	w->asked++;
	if (!w->done) merge_for_ours(w->s);
	w->done = true;
	return CB_PREFER_THEIRS;
}

/* later: theirs has one more file by then. */
static void overtaken(bool memory, bool later)
{
	cb_error err = {0};
	cb_box *m = NULL;
	meanwhile w = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(w.s, "m", &m, &err));
	must_write(m, "/work/a", "base");
	cb_box *f = must_fork(w.s, "m", "f");
	must_write(f, "/work/a", "theirs");
	must_write(m, "/work/a", "ours");
	if (later) must_write(f, "/work/new", "new");
	cb_merge_options o = CB_WITH(cb_merge_options, .resolve = decide, .context = &w);
	CHECK_CODE(cb_merge(m, f, &o, NULL, NULL, &err), later ? CB_OK : CB_NOTHING);
	CHECK_U64(w.asked, 1);
	CHECK_STR(must_read(m, "/work/a"), "ours");
	CHECK(exists(m, "/work/new") == later);
	cb_box_close(m);
	cb_box_close(f);
	test_store_sound(w.s);
	cb_store_close(w.s);
}

TEST_BOTH(the_same_was_merged_meanwhile)
{
	overtaken(memory, false);
}

TEST_BOTH(what_is_left_is_merged)
{
	overtaken(memory, true);
}
