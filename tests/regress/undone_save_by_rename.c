/*
 * A side that saved a file by rename, was merged, and undid that has the old file again, as the other side has: the base has the new one
 * in its place. They are compared with that, as if it were the same file: what one side only changed is no conflict.
 */
#include "harness/boxes.h"

static void undone_save(bool into_f, bool both)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *demo = NULL;
	CHECK_OK(cb_box_create(s, "demo", &demo, &err));
	must_write(demo, "/work/a", "0\n1\n2\n3\n4\n5\n6\n7\n");
	cb_box *f = must_fork(s, "demo", "f");
	cb_box *t = must_begin(f);
	must_write(t, "/work/.t", "0\n1\n2\n3\n4\n5\n6\nchanged\n");
	CHECK_OK(cb_rename(t, "/work/.t", "/work/a", 0, &err));
	(void)must_commit(t);
	CHECK_OK(cb_chmod(demo, "/work/a", 0755, 0, &err));
	CHECK_OK(cb_merge(demo, f, NULL, NULL, NULL, &err));
	CHECK_OK(cb_undo(f, 0, NULL, &err));
	if (both) CHECK_OK(cb_chmod(f, "/work/a", 0600, 0, &err));
	cb_box *into = into_f ? f : demo;
	CHECK_CODE(cb_merge(into, into_f ? demo : f, NULL, NULL, NULL, &err), both ? CB_CONFLICT : CB_OK);
	if (!both) {
		cb_stat_info info = CB_INIT(cb_stat_info);
		CHECK_OK(cb_stat(into, "/work/a", 0, &info, &err));
		CHECK_U64(info.mode & 0777, 0755);
		CHECK_STR(must_read(into, "/work/a"), "0\n1\n2\n3\n4\n5\n6\n7\n");
	}
	test_store_sound(s);
	cb_box_close(demo);
	cb_box_close(f);
	cb_store_close(s);
}

TEST(undone_save_by_rename)
{
	for (int way = 0; way < 4; way++) undone_save(way % 2, way / 2);
}
