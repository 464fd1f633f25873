/*
 * restore_of_what_is_so.c: a restore of a path that is as it was makes no step, also after it was brought back before; each made an empty
 * one, and undo took these back first. And folders that a restored file needs are what they were. The times of a folder are in no
 * difference: where nothing else differs nothing is restored, neither a whole state nor a path; with something else they come back.
 */
#include "harness/boxes.h"

#include <stdlib.h>

static uint64_t restored(cb_box *b, cb_box *old, const char *path)
{
	cb_error err = {0};
	uint64_t seq = 99;
	CHECK_OK(cb_restore(b, old, path, &seq, &err));
	return seq;
}

TEST_BOTH(once_is_enough)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	char *big = test_keep(calloc(1, 300001));
	memset(big, 'x', 300000);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	must_write(b, "/work/big", big);
	must_write(b, "/work/d/c", "c");
	CHECK_OK(cb_link(b, "/work/a", "/work/twin", &err));
	CHECK_OK(cb_symlink(b, "a", "/work/link", &err));
	CHECK_OK(cb_xattr_set(b, "/work/big", "user.x", "v", 1, 0, &err));
	uint64_t last = must_seq(b);
	must_write(b, "/work/a", "2");
	must_write(b, "/work/big", "small");
	CHECK_OK(cb_remove(b, "/work/d", &err));
	CHECK_OK(cb_unlink(b, "/work/link", &err));
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%llu", (unsigned long long)last);
	cb_box *old = must_open(s, address);
	static const char *const paths[] = {"/work/a", "/work/big", "/work/d", "/work/d/c", "/work/link", "/work/twin", "/work"};
	for (int again = 0; again < 3; again++)
		for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
			uint64_t seq = restored(b, old, paths[i]);
			if (again) CHECK_MSG(seq == 0, "'%s' was restored again as step %llu", paths[i], (unsigned long long)seq);
		}
	CHECK_STR(must_read(b, "/work/a"), "1");
	CHECK_STR(must_read(b, "/work/twin"), "1");
	CHECK_U64(strlen(must_read(b, "/work/big")), 300000);
	/* Two names that are one file there and equal files here become one. */
	CHECK_OK(cb_unlink(b, "/work/twin", &err));
	must_write(b, "/work/twin", "1");
	CHECK(restored(b, old, "/work") != 0);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/twin", 0, &info, &err));
	CHECK_U64(info.links, 2);
	CHECK_U64(restored(b, old, "/work"), 0);
	cb_box_close(old);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(folders_on_the_way)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/p", 0700, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/p/q", 0750, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/p", "user.x", "v", 1, 0, &err));
	must_write(b, "/work/p/q/f", "f");
	CHECK_OK(cb_remove(b, "/work/p", &err));
	cb_box *old = must_open(s, "demo@4");
	CHECK(restored(b, old, "/work/p/q/f") != 0);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/p", 0, &info, &err));
	CHECK_U64(info.mode & 07777, 0700);
	CHECK_OK(cb_stat(b, "/work/p/q", 0, &info, &err));
	CHECK_U64(info.mode & 07777, 0750);
	char *value = NULL;
	size_t size = 0;
	CHECK_OK(cb_xattr_get(b, "/work/p", "user.x", 0, &value, &size, &err));
	CHECK_STR(test_keep(value), "v");
	cb_box_close(old);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static int64_t mtime_of(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	return info.mtime_ns;
}

/* Of a folder, the one above all, and one that somebody gave other times. */
TEST_BOTH(times_of_a_folder_alone)
{
	static const char *const files[] = {"/work/d/f", "/f", "/work/f"}, *const paths[] = {"/work/d", "/", "/work"};
	cb_store *s = test_store_open(memory);
	for (int by_hand = 0; by_hand < 2; by_hand++) {
		cb_error err = {0};
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, by_hand ? "hand" : "undo", &b, &err));
		CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
		cb_box *old = must_open(s, by_hand ? "hand@1" : "undo@1");
		for (size_t i = 0; i < 3; i++) {
			must_write(b, files[i], "hello");
			CHECK_OK(by_hand ? cb_unlink(b, files[i], &err) : cb_undo(b, 0, NULL, &err));
			CHECK_STR(must_diff(old, b), "");
			CHECK_U64(restored(b, old, NULL), 0);
			CHECK_U64(restored(b, old, paths[i]), 0);
		}
		CHECK_OK(cb_utimens(b, "/work/d", 5, 5, 0, &err));
		CHECK_U64(restored(b, old, NULL), 0);
		CHECK_U64(restored(b, old, "/work/d"), 0);
		must_write(b, "/work/f", "hello");
		CHECK(restored(b, old, NULL) != 0);
		CHECK_U64((uint64_t)mtime_of(b, "/work"), (uint64_t)mtime_of(old, "/work"));
		CHECK_U64((uint64_t)mtime_of(b, "/work/d"), (uint64_t)mtime_of(old, "/work/d"));
		CHECK_U64(restored(b, old, NULL), 0);
		cb_box_close(old);
		cb_box_close(b);
	}
	test_store_sound(s);
	cb_store_close(s);
}

/* Made and taken back again by hand: a further name, another name, a mode, a tag. The file's ctime and version differ, and how its
 * names are kept. */
TEST_BOTH(done_and_taken_back)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "text\n");
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	for (int kind = 0; kind < 6; kind++) {
		const char *path = kind < 4 ? "/work/f" : "/work/d";
		char name[24];
		(void)snprintf(name, sizeof(name), "before-%d", kind);
		cb_box *old = must_fork(s, "demo", name);
		if (kind == 0) CHECK_OK(cb_link(b, path, "/work/g", &err));
		if (kind == 0) CHECK_OK(cb_unlink(b, "/work/g", &err));
		if (kind == 1 || kind == 4) CHECK_OK(cb_rename(b, path, "/work/g", 0, &err));
		if (kind == 1 || kind == 4) CHECK_OK(cb_rename(b, "/work/g", path, 0, &err));
		if (kind == 2) CHECK_OK(cb_chmod(b, path, 0600, 0, &err));
		if (kind == 2) CHECK_OK(cb_chmod(b, path, 0644, 0, &err));
		if (kind == 3 || kind == 5) CHECK_OK(cb_tag_add(b, path, "t", &err));
		if (kind == 3 || kind == 5) CHECK_OK(cb_tag_remove(b, path, "t", &err));
		CHECK_STR(must_diff(old, b), "");
		CHECK_U64(restored(b, old, path), 0);
		CHECK_U64(restored(b, old, NULL), 0);
		cb_box_close(old);
	}
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
