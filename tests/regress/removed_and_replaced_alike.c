/*
 * Transactions: one removes a file, the other removes it and makes it anew with the same bytes. To replace a file is a change, also by an
 * equal one: they may not both succeed, and above all the new file must not be gone when its maker was told that all went well.
 */
#include "harness/boxes.h"

static void put_new(cb_box *t, const char *path, const char *text)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(t, path, &err));
	CHECK_OK(cb_write_file(t, path, text, strlen(text), &CB_WITH(cb_write_options, .expected_version = CB_VERSION_ABSENT),
	                       &err));
}

typedef void deed(cb_box *t);

static void removes(cb_box *t)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(t, "/work/lock", &err));
}

static void renews(cb_box *t)
{
	put_new(t, "/work/lock", "taken\n");
}

static void rewrites(cb_box *t)
{
	must_write(t, "/work/lock", "mine\n");
}

static void removes_folder(cb_box *t)
{
	cb_error err = {0};
	CHECK_OK(cb_remove(t, "/work/d", &err));
}

static void renews_folder(cb_box *t)
{
	cb_error err = {0};
	CHECK_OK(cb_remove(t, "/work/d", &err));
	CHECK_OK(cb_mkdir(t, "/work/d", 0755, 0, &err));
}

static void removes_name(cb_box *t)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(t, "/work/n1", &err));
}

static void renews_name(cb_box *t)
{
	put_new(t, "/work/n1", "names\n");
}

static void one_loses(deed *first, deed *second)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/lock", "taken\n");
	must_write(b, "/work/n1", "names\n");
	CHECK_OK(cb_link(b, "/work/n1", "/work/n2", &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	cb_box *x = must_begin(b), *y = must_begin(b);
	first(x);
	second(y);
	(void)must_commit(x);
	char *before = must_dump(b);
	CHECK_CODE(cb_txn_commit(y, NULL, NULL, &err), CB_CONFLICT);
	CHECK_STR(must_dump(b), before);
	cb_box_close(y);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(a_file_removed_and_renewed)
{
	one_loses(removes, renews);
	one_loses(renews, removes);
	one_loses(renews, renews);
	one_loses(renews, rewrites);
	one_loses(rewrites, renews);
}

TEST(one_name_of_a_file_removed_and_renewed)
{
	one_loses(removes_name, renews_name);
	one_loses(renews_name, removes_name);
	one_loses(renews_name, renews_name);
}

TEST(a_folder_removed_and_renewed)
{
	one_loses(removes_folder, renews_folder);
	one_loses(renews_folder, removes_folder);
}

/* Forks are not strict: what one removed and the other has as it was is gone. */
TEST(forks_take_an_equal_file_for_unchanged)
{
	cb_error err = {0};
	for (int way = 0; way < 2; way++) {
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/lock", "taken\n");
		cb_box *f = must_fork(s, "demo", "f");
		(way ? renews : removes)(b);
		(way ? removes : renews)(f);
		CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
		CHECK(!exists(b, "/work/lock"));
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}
