/*
 * A resolution of CB_PREFER_NONE gave CB_CONFLICT "conflict in " with no path, cb_txn_conflicts listed none, and `prefer` was not asked.
 * It says that the path is undecided there: `prefer` decides, or it stays a conflict that is listed.
 */
#include <cowbox/cowbox.h>

#include "harness/boxes.h"

static cb_error err;

static cb_code see(void *context, const cb_conflict *conflict, cb_error *e)
{
	(void)e;
	CHECK_STR(conflict->path, "/work/a");
	++*(int *)context;
	return CB_OK;
}

TEST(undecided_resolution)
{
	static const cb_resolution undecided[] = {{"/work/a", CB_PREFER_NONE}};
	static const cb_resolution later[] = {{"/work/a", CB_PREFER_NONE}, {"/work/a", CB_PREFER_BOX}};
	cb_box *b = NULL;
	cb_store *s = test_store_open(true);
	int listed = 0;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	cb_box *t = must_begin(b);
	must_write(t, "/work/a", "txn");
	must_write(b, "/work/a", "box");
	cb_commit_result result = CB_INIT(cb_commit_result);
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .resolutions = undecided, .resolution_count = 1), &result, &err),
	           CB_CONFLICT);
	CHECK_STR(err.message, "conflict in /work/a (changed on both sides)");
	CHECK_U64(result.conflicts, 1);
	err = (cb_error){0};
	CHECK_OK(cb_txn_conflicts(t, see, &listed, &err));
	CHECK(listed == 1);
	CHECK_OK(cb_txn_commit(
		t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN, .resolutions = undecided, .resolution_count = 1), NULL,
		&err));
	CHECK_STR(must_read(b, "/work/a"), "txn");
	cb_box_close(t);
	t = must_begin(b);
	must_write(t, "/work/a", "txn again");
	must_write(b, "/work/a", "box again");
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN, .resolutions = later, .resolution_count = 2),
	                       NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "box again");
	cb_box_close(t);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
