/* A symbolic link that one side removed and the other made anew, and a file that became one: changed against deleted, as with files. */
#include "harness/boxes.h"

typedef void deed(cb_box *b);

static void rm_link(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, "/work/l", &err));
}

static void new_link(cb_box *b)
{
	cb_error err = {0};
	cb_box *t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/l", &err));
	CHECK_OK(cb_symlink(t, "new", "/work/l", &err));
	(void)must_commit(t);
}

static void same_link(cb_box *b)
{
	cb_error err = {0};
	cb_box *t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/l", &err));
	CHECK_OK(cb_symlink(t, "old", "/work/l", &err));
	(void)must_commit(t);
}

static void rm_file(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, "/work/a", &err));
}

static void file_to_link(cb_box *b)
{
	cb_error err = {0};
	cb_box *t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	CHECK_OK(cb_symlink(t, "l", "/work/a", &err));
	(void)must_commit(t);
}

static void meet(deed *removes, deed *changes, const char *path, bool conflict)
{
	for (int way = 0; way < 4; way++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/a", "text\n");
		CHECK_OK(cb_symlink(b, "old", "/work/l", &err));
		cb_box *f = must_fork(s, "demo", "f");
		(way % 2 ? changes : removes)(b);
		(way % 2 ? removes : changes)(f);
		CHECK_CODE(cb_merge(b, f, NULL, NULL, NULL, &err), conflict ? CB_CONFLICT : CB_OK);
		if (conflict) {
			CHECK_MSG(strstr(err.message, path), "%s", err.message);
			cb_prefer prefer = way / 2 ? CB_PREFER_OURS : CB_PREFER_THEIRS;
			CHECK_OK(cb_merge(b, f, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, &err));
		}
		bool kept = conflict && (way % 2 == 1) == (way / 2 == 1);
		cb_stat_info info = CB_INIT(cb_stat_info);
		CHECK_CODE(cb_stat(b, path, CB_NOFOLLOW, &info, &err), kept ? CB_OK : CB_NOTFOUND);
		test_store_sound(s);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}

TEST(links_removed_and_changed)
{
	meet(rm_link, new_link, "/work/l", true);
	meet(rm_link, same_link, "/work/l", false);
	meet(rm_file, file_to_link, "/work/a", true);
}
