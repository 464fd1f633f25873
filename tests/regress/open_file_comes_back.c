/*
 * An open file that a restore removed stayed detached when the restore was undone: cb_fsync said OK, and what was written was nowhere.
 * Also: a handle whose file a restore took through the same box handle went on with the bytes before its last write.
 */
#include "harness/boxes.h"

static cb_error err;

static char *through(cb_file *f)
{
	char text[64];
	size_t n = 0;
	CHECK_OK(cb_pread(f, text, sizeof(text) - 1, 0, &n, &err));
	text[n] = 0;
	return test_keep(strdup(text));
}

static cb_box *fresh(bool memory, cb_store **s)
{
	cb_box *b = NULL;
	*s = test_store_open(memory);
	CHECK_OK(cb_box_create(*s, "demo", &b, &err));
	return b;
}

static void done(cb_store *s, cb_box *b)
{
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static cb_file *opened(cb_box *b, unsigned flags)
{
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE | flags, 0644, &f, &err));
	return f;
}

static cb_code restore(cb_store *s, cb_box *b, uint64_t seq)
{
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%llu", (unsigned long long)seq);
	cb_box *old = must_open(s, address);
	cb_code code = cb_restore(b, old, NULL, NULL, &err);
	cb_box_close(old);
	return code;
}

TEST_BOTH(what_was_written_lands)
{
	cb_store *s;
	cb_box *b = fresh(memory, &s), *other = must_open(s, "demo");
	must_write(b, "/work/a", "one");
	cb_file *f = opened(b, 0), *g = opened(b, 0);
	CHECK_OK(cb_pwrite(f, "two", 3, 0, &err));
	CHECK_OK(restore(s, b, 0)); /* ends the step of the write first, then removes the file */
	CHECK(!exists(b, "/work/a"));
	CHECK_STR(through(f), "two");
	CHECK_OK(cb_pwrite(f, " and three", 10, 3, &err));
	CHECK_STR(through(g), "two and three");
	CHECK_CODE(cb_fsync(f, &err), CB_STALE);
	CHECK(strstr(err.message, "no state"));
	CHECK_OK(cb_undo(other, 0, NULL, &err)); /* of the restore, by somebody else */
	CHECK_STR(must_read(other, "/work/a"), "two");
	CHECK_OK(cb_fsync(f, &err));
	CHECK_STR(must_read(other, "/work/a"), "two and three");
	CHECK_OK(cb_pwrite(g, "T", 1, 0, &err));
	CHECK_OK(cb_close(g, &err));
	CHECK_STR(must_read(other, "/work/a"), "Two and three");
	CHECK_STR(through(f), "Two and three");
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_fstat(f, &info, &err));
	CHECK_U64(info.links, 1);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(other);
	done(s, b);
}

TEST_BOTH(what_cannot_land_is_told)
{
	cb_store *s;
	cb_box *b = fresh(memory, &s);
	must_write(b, "/work/a", "one");
	must_write(b, "/work/a", "two");
	uint64_t two = must_seq(b);
	cb_file *f = opened(b, 0), *reader = NULL;
	CHECK_OK(cb_open(b, "/work/a", CB_READ, 0, &reader, &err));
	CHECK_OK(cb_unlink(b, "/work/a", &err));
	CHECK_OK(cb_pwrite(f, "XYZ", 3, 0, &err));
	CHECK_OK(cb_fsync(f, &err));      /* unlinked by a call: as in POSIX */
	CHECK_OK(restore(s, b, two - 1)); /* it is back, as it was before it went */
	CHECK_STR(through(reader), "one");
	CHECK_STR(through(f), "one");
	CHECK_CODE(cb_fsync(f, &err), CB_STALE);
	CHECK(strstr(err.message, "lost"));
	CHECK_OK(cb_fsync(f, &err)); /* once */
	CHECK_OK(cb_pwrite(f, "O", 1, 0, &err));
	CHECK_OK(cb_close(reader, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(must_read(b, "/work/a"), "One");
	done(s, b);
}

TEST_BOTH(told_at_close_too)
{
	cb_store *s;
	cb_box *b = fresh(memory, &s);
	must_write(b, "/work/a", "one");
	cb_file *f = opened(b, 0);
	CHECK_OK(cb_undo(b, 0, NULL, &err)); /* of the creation */
	CHECK_OK(cb_pwrite(f, "XYZ", 3, 0, &err));
	CHECK_CODE(cb_close(f, &err), CB_STALE);
	/* Nothing written: nothing to be told. */
	CHECK_OK(cb_redo(b, NULL, &err));
	f = opened(b, 0);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(through(f), "one");
	CHECK_OK(cb_close(f, &err));
	/* The close itself brings it in. */
	CHECK_OK(cb_redo(b, NULL, &err));
	f = opened(b, 0);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_pwrite(f, "XYZ", 3, 0, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(must_read(b, "/work/a"), "XYZ");
	done(s, b);
}

/* The running step of the handle does not keep it from seeing that the file is back. */
TEST_BOTH(lands_behind_a_running_step)
{
	cb_store *s;
	cb_box *b = fresh(memory, &s), *other = must_open(s, "demo");
	must_write(b, "/work/a", "one");
	must_write(b, "/work/b", "");
	cb_file *f = opened(b, 0), *g = NULL;
	CHECK_OK(cb_open(b, "/work/b", CB_WRITE, 0, &g, &err));
	CHECK_OK(cb_unlink(other, "/work/a", &err));
	CHECK_OK(cb_pwrite(f, "two", 3, 0, &err));
	CHECK_OK(cb_pwrite(g, "bb", 2, 0, &err));
	CHECK_OK(cb_undo(other, 0, NULL, &err));
	CHECK_OK(cb_fsync(f, &err));
	CHECK_STR(must_read(other, "/work/a"), "two");
	CHECK_STR(must_read(other, "/work/b"), "bb");
	CHECK_OK(cb_close(g, &err));
	CHECK_OK(cb_close(f, &err));
	cb_box_close(other);
	done(s, b);
}

/* Taken while the handle's step with another file ran: it keeps its own last write. */
TEST_BOTH(taken_beside_a_running_step)
{
	cb_store *s;
	cb_box *b = fresh(memory, &s), *other = must_open(s, "demo");
	must_write(b, "/work/a", "one");
	must_write(b, "/work/b", "");
	cb_file *f = opened(b, 0), *g = NULL;
	CHECK_OK(cb_open(b, "/work/b", CB_WRITE, 0, &g, &err));
	CHECK_OK(cb_pwrite(f, "two", 3, 0, &err));
	CHECK_OK(cb_fsync(f, &err));
	CHECK_OK(cb_pwrite(g, "bb", 2, 0, &err));
	CHECK_OK(cb_unlink(other, "/work/a", &err));
	CHECK_OK(cb_fsync(g, &err)); /* merged with the removal */
	CHECK_STR(through(f), "two");
	CHECK_OK(cb_close(g, &err));
	CHECK_OK(cb_close(f, &err));
	cb_box_close(other);
	done(s, b);
}

/* A quota refuses what would land: the handle says so, keeps it, and brings it in when there is room. */
TEST_BOTH(landing_refused)
{
	cb_store *s;
	cb_box *b = fresh(memory, &s);
	must_write(b, "/work/a", "one");
	cb_file *f = opened(b, 0);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	char large[5000];
	memset(large, 'x', sizeof(large));
	CHECK_OK(cb_pwrite(f, large, sizeof(large), 0, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_box_quota_set(b, 1000, 0, 0, &err));
	CHECK_CODE(cb_fsync(f, &err), CB_QUOTA);
	size_t n = 0;
	CHECK_OK(cb_pread(f, large, sizeof(large), 0, &n, &err)); /* and can be read */
	CHECK_U64(n, sizeof(large));
	CHECK_STR(must_read(b, "/work/a"), "one");
	CHECK_OK(cb_box_quota_set(b, 0, 0, 0, &err));
	CHECK_OK(cb_fsync(f, &err));
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/a", 0, &info, &err));
	CHECK_U64(info.size, sizeof(large));
	CHECK_OK(cb_close(f, &err));
	done(s, b);
}
