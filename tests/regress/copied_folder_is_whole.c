/*
 * copied_folder_is_whole.c: a copy of a folder lost the times of the folders in it, and names of one file became files of their own. A
 * restore of a folder lost its tags, and wrote through a name that was linked to a file elsewhere since.
 */
#include <string.h>

#include "harness/boxes.h"

static cb_stat_info info_of(cb_box *b, const char *path)
{
	cb_error err;
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, CB_NOFOLLOW, &info, &err));
	return info;
}

static cb_code joined(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	char *out = context;
	(void)snprintf(out + strlen(out), 256 - strlen(out), "%s=%.*s;", name, (int)size, value ? value : "");
	return CB_OK;
}

static void same(cb_box *b, const char *from, const char *to)
{
	cb_error err;
	cb_stat_info a = info_of(b, from), c = info_of(b, to);
	char marks[2][256] = {"", ""};
	const char *const paths[] = {from, to};
	CHECK(a.type == c.type && a.mode == c.mode && a.size == c.size && a.links == c.links && a.ino != c.ino);
	CHECK_MSG(a.mtime_ns == c.mtime_ns && a.atime_ns == c.atime_ns, "times of %s", from);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(cb_xattr_list(b, paths[i], CB_NOFOLLOW, joined, marks[i], &err));
		if (a.type == CB_SYMLINK) continue;
		CHECK_OK(cb_tag_list(b, paths[i], joined, marks[i], &err));
		CHECK_OK(cb_meta_list(b, paths[i], joined, marks[i], &err));
	}
	CHECK_STR(marks[0], marks[1]);
}

static const char *const names[] = {"", "/sub", "/sub/deeper", "/sub/deeper/f", "/sub/f2", "/f3", "/sub/l"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void make(cb_box *b)
{
	cb_error err;
	CHECK_OK(cb_mkdir(b, "/d/sub/deeper", 0750, CB_PARENTS, &err));
	must_write(b, "/d/sub/deeper/f", "text");
	CHECK_OK(cb_link(b, "/d/sub/deeper/f", "/d/sub/f2", &err));
	CHECK_OK(cb_link(b, "/d/sub/deeper/f", "/d/f3", &err));
	CHECK_OK(cb_symlink(b, "deeper/f", "/d/sub/l", &err));
	for (size_t i = 0; i < NAMES; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/d%s", names[i]);
		CHECK_OK(cb_xattr_set(b, path, "user.x", names[i], strlen(names[i]), CB_NOFOLLOW, &err));
		if (info_of(b, path).type == CB_SYMLINK) continue;
		CHECK_OK(cb_tag_add(b, path, "tagged", &err));
		CHECK_OK(cb_meta_set(b, path, "key", names[i], CB_STRING, &err));
		CHECK_OK(cb_chmod(b, path, 0700 + (uint32_t)i, 0, &err));
	}
	for (size_t i = 0; i < NAMES; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/d%s", names[i]);
		CHECK_OK(cb_utimens(b, path, 1000 + (int64_t)i, 2000 + (int64_t)i, CB_NOFOLLOW, &err));
	}
}

static void all_same(cb_box *b, const char *top)
{
	for (size_t i = 0; i < NAMES; i++) {
		char from[64], to[64];
		(void)snprintf(from, sizeof(from), "/d%s", names[i]);
		(void)snprintf(to, sizeof(to), "%s%s", top, names[i]);
		same(b, from, to);
	}
}

TEST_BOTH(copy)
{
	cb_error err;
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	make(b);
	CHECK_OK(cb_copy(b, "/d", "/c", 0, &err));
	all_same(b, "/c");
	CHECK_U64(info_of(b, "/c/f3").ino, info_of(b, "/c/sub/f2").ino);
	CHECK_U64(info_of(b, "/c/f3").ino, info_of(b, "/c/sub/deeper/f").ino);
	must_write(b, "/c/f3", "other");
	CHECK_STR(must_read(b, "/d/f3"), "text");
	/* Into itself: what is there before is copied. */
	CHECK_OK(cb_copy(b, "/d", "/d/sub/again", 0, &err));
	CHECK(exists(b, "/d/sub/again/sub/f2") && !exists(b, "/d/sub/again/sub/again"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(restore)
{
	cb_error err;
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	make(b);
	CHECK_OK(cb_copy(b, "/d", "/c", 0, &err));
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%" PRIu64, must_seq(b));
	cb_box *old = must_open(s, address);
	CHECK_OK(cb_tag_remove(b, "/c/sub", "tagged", &err));
	CHECK_OK(cb_unlink(b, "/c/sub/f2", &err));
	CHECK_OK(cb_remove(b, "/c/sub/deeper", &err));
	CHECK_OK(cb_unlink(b, "/c/f3", &err));
	must_write(b, "/elsewhere", "mine");
	CHECK_OK(cb_link(b, "/elsewhere", "/c/f3", &err));
	CHECK_OK(cb_restore(b, old, "/c", NULL, &err));
	all_same(b, "/c");
	CHECK_U64(info_of(b, "/c/f3").ino, info_of(b, "/c/sub/f2").ino);
	CHECK_STR(must_read(b, "/elsewhere"), "mine");
	CHECK_STR(must_read(b, "/c/f3"), "text");
	test_store_sound(s);
	cb_box_close(old);
	cb_box_close(b);
	cb_store_close(s);
}
