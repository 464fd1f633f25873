/*
 * A file with two names: one side sets its mode, an attribute, a tag or metadata, the other saves one of the names by rename. Both names
 * have the change afterwards, or there is a conflict: nobody's change gets lost under a name.
 */
#include "harness/boxes.h"

enum { WHATS = 4 };

static void set_what(cb_box *b, int what, const char *value)
{
	cb_error err = {0};
	if (what == 0) CHECK_OK(cb_tag_add(b, "/work/d", "t", &err));
	if (what == 1) CHECK_OK(cb_meta_set(b, "/work/d", "m", value, strlen(value), &err));
	if (what == 2) CHECK_OK(cb_xattr_set(b, "/work/d", "user.x", value, strlen(value), 0, &err));
	if (what == 3) CHECK_OK(cb_chmod(b, "/work/d", value[0] == '1' ? 0600 : 0640, 0, &err));
}

static cb_code note(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)name;
	(void)value;
	(void)size;
	(void)err;
	*(bool *)context = true;
	return CB_OK;
}

static bool has_what(cb_box *b, int what, const char *path)
{
	cb_error err = {0};
	char *value = NULL;
	bool has = false;
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	if (what == 0) CHECK_OK(cb_tag_list(b, path, note, &has, &err));
	if (what == 1) has = cb_meta_get(b, path, "m", &value, NULL, &err) == CB_OK;
	if (what == 2) has = cb_xattr_get(b, path, "user.x", 0, &value, NULL, &err) == CB_OK;
	if (what == 3) has = (info.mode & 0777) == 0600;
	cb_free(value);
	return has;
}

static void save(cb_box *b, int what)
{
	cb_error err = {0};
	cb_box *t = must_begin(b);
	must_write(t, "/work/.tmp", "two\n");
	CHECK_OK(cb_rename(t, "/work/.tmp", "/work/d", 0, &err));
	if (what >= 0) set_what(t, what, "2");
	(void)must_commit(t);
}

static void meet(int what, bool here, bool txn, bool both)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/d", "one\n");
	CHECK_OK(cb_link(b, "/work/d", "/work/e", &err));
	cb_box *other = txn ? must_begin(b) : must_fork(s, "demo", "f");
	if (here) set_what(b, what, "1");
	else save(b, both ? what : -1);
	if (!here) {
		set_what(other, what, "1");
	} else {
		must_write(other, "/work/.tmp", "two\n");
		CHECK_OK(cb_rename(other, "/work/.tmp", "/work/d", 0, &err));
		if (both) set_what(other, what, "2");
	}
	cb_code code = txn ? cb_txn_commit(other, NULL, NULL, &err) : cb_merge(b, other, NULL, NULL, NULL, &err);
	CHECK_MSG(code == (both ? CB_CONFLICT : CB_OK), "what %d: %s %s", what, cb_code_name(code), err.message);
	if (!both) {
		CHECK_STR(must_read(b, "/work/d"), "two\n");
		CHECK_STR(must_read(b, "/work/e"), "one\n");
		CHECK_MSG(has_what(b, what, "/work/d"), "what %d is lost under d", what);
		CHECK_MSG(has_what(b, what, "/work/e"), "what %d is lost under e", what);
	}
	test_store_sound(s);
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(attributes_lost_under_a_name)
{
	for (int what = 0; what < WHATS; what++)
		for (int way = 0; way < 4; way++) meet(what, way % 2, way / 2, false);
}

TEST(changed_on_both_sides)
{
	for (int what = 1; what < WHATS; what++) /* a tag has no value to differ in */
		for (int way = 0; way < 4; way++) meet(what, way % 2, way / 2, true);
}
