/* Transactions: one side removes, the other replaces by something of any kind. Decided for the side that removed, nothing is there. */
#include "harness/boxes.h"

static void make(cb_box *b, int kind)
{
	cb_error err = {0};
	if (kind == 0) CHECK_OK(cb_write_file(b, "/work/c", "bin\0new", 7, NULL, &err));
	if (kind == 1) CHECK_OK(cb_symlink(b, "new", "/work/c", &err));
	if (kind >= 2) CHECK_OK(cb_mkdir(b, "/work/c", 0755, 0, &err));
	if (kind == 3) must_write(b, "/work/c/inside", "x");
}

static void replace(cb_box *b, int kind)
{
	cb_error err = {0};
	CHECK_OK(cb_remove(b, "/work/c", &err));
	make(b, kind);
}

static void decide(int base, int kind, bool txn_removes, bool for_removal)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	make(b, base);
	cb_box *t = must_begin(b), *first = must_begin(b);
	if (txn_removes) CHECK_OK(cb_remove(t, "/work/c", &err));
	else replace(t, kind);
	if (txn_removes) replace(first, kind);
	else CHECK_OK(cb_remove(first, "/work/c", &err));
	(void)must_commit(first);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	cb_prefer prefer = txn_removes == for_removal ? CB_PREFER_THEIRS : CB_PREFER_OURS;
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = prefer), NULL, &err));
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_code code = cb_stat(b, "/work/c", CB_NOFOLLOW, &info, &err);
	CHECK_MSG(code == (for_removal ? CB_NOTFOUND : CB_OK), "%d replaced by %d: %s", base, kind, cb_code_name(code));
	if (!for_removal) CHECK(info.type == (kind == 0 ? CB_FILE : kind == 1 ? CB_SYMLINK : CB_DIR));
	if (!for_removal && kind == 3) CHECK_STR(must_read(b, "/work/c/inside"), "x");
	test_store_sound(s);
	cb_box_close(t);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(decision_for_the_removal)
{
	for (int base = 0; base < 4; base++)
		for (int kind = 0; kind < 4; kind++)
			for (int way = 0; way < 4; way++) decide(base, kind, way % 2, way / 2);
}
