/*
 * restore_from_an_unpacked_box.c: what came by a pack has the same bytes under other numbers. A restore from it of what is so makes no
 * step, neither of a path nor of the whole; contents, long attributes and long values were compared by their numbers, and each made an
 * empty one.
 */
#include "harness/packs.h"

#include <stdlib.h>

static cb_error err;
static cb_store *s;
static cb_box *b, *copy;

static void begin(bool memory)
{
	s = test_store_open(memory);
	b = pack_sample(s);
	pack_bytes p = pack_take(b, NULL);
	CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
	copy = must_open(s, "copy");
}

static void end(void)
{
	cb_box_close(copy);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static uint64_t restored(const char *path)
{
	uint64_t seq = 99;
	CHECK_OK(cb_restore(b, copy, path, &seq, &err));
	return seq;
}

TEST_BOTH(what_is_so)
{
	static const char *const paths[] = {"/work/large", "/work/a", "/work/b",   "/work/holes", "/work/d/long",
	                                    "/work/d",     "/work",   "/work/e/f", NULL};
	begin(memory);
	CHECK_STR(must_diff(b, copy), "");
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		CHECK_MSG(restored(paths[i]) == 0, "'%s' was restored", paths[i] ? paths[i] : "the whole");
	/* Inside a transaction too. */
	cb_box *t = must_begin(b);
	CHECK_OK(cb_restore(t, copy, "/work", NULL, &err));
	CHECK_U64(must_commit(t).seq, 0);
	end();
}

/* What differs in one thing only is brought back, once. */
TEST_BOTH(what_is_not)
{
	static char long_value[500];
	memset(long_value, 'z', sizeof(long_value));
	begin(memory);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/large", 0, &info, &err));
	char *want = pack_describe(copy);
	for (int i = 0; i < 5; i++) {
		if (i == 0) CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", long_value, 500, 0, &err));
		if (i == 1) CHECK_OK(cb_kv_set(b, "key", long_value, 150, &err));
		if (i == 2) CHECK_OK(cb_utimens(b, "/work/large", CB_TIME_OMIT, 5, 0, &err));
		if (i == 3) { /* one byte, under the time that it had */
			cb_file *f = NULL;
			CHECK_OK(cb_open(b, "/work/large", CB_WRITE, 0, &f, &err));
			CHECK_OK(cb_pwrite(f, "!", 1, 69999, &err));
			CHECK_OK(cb_close(f, &err));
			CHECK_OK(cb_utimens(b, "/work/large", info.atime_ns, info.mtime_ns, 0, &err));
		}
		if (i == 4) { /* two files where one had two names */
			CHECK_OK(cb_copy(b, "/work/a", "/work/twin", 0, &err));
			CHECK_OK(cb_stat(b, "/work/a", 0, &info, &err));
			CHECK_OK(cb_rename(b, "/work/twin", "/work/b", 0, &err));
			CHECK_OK(cb_utimens(b, "/work/b", info.atime_ns, info.mtime_ns, 0, &err));
		}
		CHECK_MSG(restored(NULL) != 0, "change %d was not brought back", i);
		char *have = pack_describe(b);
		CHECK_STR(have, want);
		free(have);
		CHECK_U64(restored(NULL), 0);
	}
	free(want);
	end();
}
