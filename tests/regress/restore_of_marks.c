/*
 * What can be set on a file or folder, set or taken away since: a restore brings it back, of the whole box, of the path, of the folder
 * above. Where the tags of a folder were all that differed, it made no step and changed nothing.
 */
#include "harness/boxes.h"

static cb_error err;

typedef void deed(cb_box *b, const char *path);

static void adds_tag(cb_box *b, const char *path)
{
	CHECK_OK(cb_tag_add(b, path, "new", &err));
}

static void removes_tag(cb_box *b, const char *path)
{
	CHECK_OK(cb_tag_remove(b, path, "old", &err));
}

static void sets_meta(cb_box *b, const char *path)
{
	CHECK_OK(cb_meta_set(b, path, "m", "", 0, &err));
}

static void removes_meta(cb_box *b, const char *path)
{
	CHECK_OK(cb_meta_set(b, path, "old", NULL, 0, &err));
}

static void sets_attribute(cb_box *b, const char *path)
{
	CHECK_OK(cb_xattr_set(b, path, "user.new", "", 0, 0, &err));
}

static void removes_attribute(cb_box *b, const char *path)
{
	CHECK_OK(cb_xattr_remove(b, path, "user.old", 0, &err));
}

static void sets_mode(cb_box *b, const char *path)
{
	CHECK_OK(cb_chmod(b, path, 0700, 0, &err));
}

static deed *const deeds[] = {adds_tag, removes_tag, sets_meta, removes_meta, sets_attribute, removes_attribute, sets_mode};

static cb_code note(void *context, const cb_change *change, cb_error *e)
{
	(void)change;
	(void)e;
	*(bool *)context = true;
	return CB_OK;
}

static bool differ(cb_box *a, cb_box *b)
{
	bool found = false;
	CHECK_OK(cb_diff(a, b, NULL, note, &found, &err));
	return found;
}

static void brings_back(const char *path, deed *d, const char *restored)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	uint64_t seq = 0;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	must_write(b, "/work/f", "text\n");
	CHECK_OK(cb_tag_add(b, path, "old", &err));
	CHECK_OK(cb_meta_set(b, path, "old", "", 0, &err));
	CHECK_OK(cb_xattr_set(b, path, "user.old", "", 0, 0, &err));
	cb_box *before = must_fork(s, "demo", "before");
	d(b, path);
	CHECK(differ(before, b));
	CHECK_OK(cb_restore(b, before, restored, &seq, &err));
	CHECK(seq != 0);
	CHECK(!differ(before, b));
	CHECK_OK(cb_restore(b, before, restored, &seq, &err));
	CHECK_U64(seq, 0);
	test_store_sound(s);
	cb_box_close(before);
	cb_box_close(b);
	cb_store_close(s);
}

static void brings_all_back(const char *path)
{
	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) {
		brings_back(path, deeds[i], NULL);
		brings_back(path, deeds[i], path);
		brings_back(path, deeds[i], "/work");
	}
}

TEST(of_a_folder)
{
	brings_all_back("/work/d");
}

TEST(of_a_file)
{
	brings_all_back("/work/f");
}
