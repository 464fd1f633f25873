/* A transaction relied on a version, or on a free name, and the box changed it meanwhile, in whatever respect. Decided for the box, the box
 * has what it had; decided for the transaction, it has what the transaction had. */
#include "base/buf.h"
#include "harness/boxes.h"

static cb_error err;

static cb_code add_name(void *context, const char *name, const char *value, size_t size, cb_error *e)
{
	return buf_printf(context, e, "%s=%.*s ", name, (int)size, value);
}

/* Files, modes and contents, and the attributes and tags of /work/f, wherever it is. */
static char *picture(cb_box *b)
{
	static const char *const paths[] = {"/work/f", "/work/moved"};
	AUTO_BUF buf text = BUF_INIT(1 << 20);
	char *out = NULL;
	CHECK_OK(buf_printf(&text, &err, "%s", must_dump(b)));
	for (size_t i = 0; i < 2; i++) {
		if (!exists(b, paths[i])) continue;
		CHECK_OK(cb_xattr_list(b, paths[i], 0, add_name, &text, &err));
		CHECK_OK(cb_tag_list(b, paths[i], add_name, &text, &err));
	}
	CHECK_OK(buf_take(&text, &out, NULL, &err));
	return test_keep(out);
}

enum { CHMOD, XATTR, TAG, RENAME, UNLINK, SAVE, WRITE, BOTH, CHANGES };

static void change(cb_box *b, int how)
{
	if (how == CHMOD || how == BOTH) CHECK_OK(cb_chmod(b, "/work/f", 0600, 0, &err));
	if (how == XATTR || how == BOTH) CHECK_OK(cb_xattr_set(b, "/work/f", "user.a", "box", 3, 0, &err));
	if (how == TAG || how == BOTH) CHECK_OK(cb_tag_add(b, "/work/f", "box", &err));
	if (how == UNLINK) CHECK_OK(cb_unlink(b, "/work/f", &err));
	if (how == SAVE) must_write(b, "/work/tmp", "box\n");
	if (how == SAVE) CHECK_OK(cb_rename(b, "/work/tmp", "/work/f", 0, &err));
	if (how == WRITE) must_write(b, "/work/f", "1\n2\n3\n4\nbox\n");
	if (how == RENAME || how == BOTH) CHECK_OK(cb_rename(b, "/work/f", "/work/moved", 0, &err));
}

static void write_expecting(cb_box *t, bool more)
{
	cb_write_options o = CB_WITH(cb_write_options, .expected_version = must_version(t, "/work/f"));
	CHECK_OK(cb_write_file(t, "/work/f", "txn\n2\n3\n4\n5\n", CB_STRING, &o, &err));
	if (!more) return;
	CHECK_OK(cb_chmod(t, "/work/f", 0640, 0, &err));
	CHECK_OK(cb_xattr_set(t, "/work/f", "user.b", "txn", 3, 0, &err));
	CHECK_OK(cb_tag_add(t, "/work/f", "txn", &err));
}

static void decides(cb_box *b, cb_box *t, cb_prefer prefer, const char *what, int how)
{
	char *box = picture(b), *txn = picture(t);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = prefer), NULL, &err));
	const char *now = picture(b), *wanted = prefer == CB_PREFER_BOX ? box : txn;
	CHECK_MSG(strcmp(now, wanted) == 0, "%s %d, for the %s:\n%s\n--- and not\n%s", what, how,
	          prefer == CB_PREFER_BOX ? "box" : "transaction", now, wanted);
}

static void both_ways(bool memory, const char *what, void (*in_txn)(cb_box *t, bool more), void (*in_box)(cb_box *b, int how),
                      int ways)
{
	for (int i = 0; i < 4 * ways; i++) {
		cb_store *s = i == 0 ? test_store_open(memory) : NULL;
		cb_box *b = NULL;
		if (!s) CHECK_OK(cb_store_open(":memory:", NULL, &s, &err));
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/f", "1\n2\n3\n4\n5\n");
		cb_box *t = must_begin(b);
		in_txn(t, i % 2);
		in_box(b, i / 4);
		decides(b, t, i / 2 % 2 ? CB_PREFER_BOX : CB_PREFER_TXN, what, i / 4);
		test_store_sound(s);
		cb_box_close(t);
		cb_box_close(b);
		cb_store_close(s);
	}
}

TEST_BOTH(an_expected_version)
{
	both_ways(memory, "version", write_expecting, change, CHANGES);
}

static void make_folder(cb_box *t, bool more)
{
	CHECK_OK(cb_mkdir(t, "/work/n", 0755, 0, &err));
	if (!more) return;
	must_write(t, "/work/n/txn", "txn\n");
	must_write(t, "/work/n/both", "txn\n");
	CHECK_OK(cb_mkdir(t, "/work/n/sub", 0755, 0, &err));
	must_write(t, "/work/n/sub/txn", "txn\n");
}

static void make_too(cb_box *b, int how)
{
	if (how == 0) must_write(b, "/work/n", "a file\n");
	else CHECK_OK(cb_mkdir(b, "/work/n", 0700, 0, &err));
	if (how < 2) return;
	must_write(b, "/work/n/box", "box\n");
	must_write(b, "/work/n/both", "box\n");
	CHECK_OK(cb_mkdir(b, "/work/n/sub", 0755, 0, &err));
	must_write(b, "/work/n/sub/box", "box\n");
}

TEST_BOTH(a_folder_in_a_free_place)
{
	both_ways(memory, "folder", make_folder, make_too, 3);
}
