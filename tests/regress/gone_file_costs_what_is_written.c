/*
 * gone_file_costs_what_is_written.c: the first write to an open file that was gone loaded all of it: a file of 4 GiB of holes took 4 GiB of
 * memory, and of disk. What was written came back as stored zeros wherever a size or an offset had been far. And a small file that was
 * written to again and again while it was gone took memory for every one of these writes.
 */
#include "harness/boxes.h"

#include "base/buf.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t huge = (uint64_t)6000 << 30;
static cb_error err;

static cb_file *opened(cb_box *b, const char *path)
{
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, path, CB_READ | CB_WRITE, 0, &f, &err));
	return f;
}

static uint64_t stored_bytes(cb_store *s)
{
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	return stats.content_bytes;
}

static void check_at(cb_file *f, uint64_t offset, const char *bytes, size_t size)
{
	char got[64];
	size_t n = 0;
	CHECK_OK(cb_pread(f, got, size, offset, &n, &err));
	CHECK(n == size && memcmp(got, bytes, size) == 0);
}

static void check_size(cb_file *f, uint64_t size)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_fstat(f, &info, &err));
	CHECK_U64(info.size, size);
}

static uint64_t hole_after(cb_file *f, uint64_t offset)
{
	uint64_t at = 0;
	CHECK_OK(cb_seek(f, (int64_t)offset, CB_SEEK_HOLE, &at, &err));
	return at;
}

/* ---- the first write ---- */

typedef enum way { UNLINKED, RENAMED_OVER, UNDONE, BY_ANOTHER, IN_TRANSACTION, WAYS } way;

static void take_away(cb_store *s, cb_box *b, way how)
{
	cb_box *other = how == BY_ANOTHER ? must_open(s, "demo") : NULL;
	if (how == RENAMED_OVER) CHECK_OK(cb_rename(b, "/work/new", "/work/a", 0, &err));
	else if (how == UNDONE) CHECK_OK(cb_undo(b, must_seq(b) - 1, NULL, &err)); /* of what made it larger, */
	else CHECK_OK(cb_unlink(other ? other : b, "/work/a", &err));
	if (how == UNDONE) CHECK_OK(cb_undo(b, must_seq(b) - 3, NULL, &err)); /* and of its creation */
	cb_box_close(other);
}

TEST_BOTH(first_write_to_a_file_of_holes)
{
	cb_store *s = test_store_open(memory);
	for (way how = UNLINKED; how < WAYS; how++) {
		cb_box *box = NULL, *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &box, &err));
		b = how == IN_TRANSACTION ? must_begin(box) : box;
		must_write(b, "/work/a", "data");
		CHECK_OK(cb_truncate(b, "/work/a", huge, &err));
		must_write(b, "/work/new", "new");
		cb_file *f = opened(b, "/work/a"), *g = opened(b, "/work/a");
		take_away(s, b, how);
		uint64_t size = how == UNDONE ? 4 : huge, before = stored_bytes(s);
		check_size(f, size);
		CHECK_OK(cb_pwrite(f, "y", 1, 5, &err));
		CHECK_OK(cb_pwrite(g, "z", 1, huge - 2, &err));
		check_at(g, 0, "data\0y\0\0", 8);
		check_at(f, huge - 4, "\0\0z", 3);
		CHECK(hole_after(f, 100) == 100);
		CHECK(stored_bytes(s) <= before + 64);
		if (how != UNDONE) check_size(g, huge);
		CHECK_OK(cb_close(g, &err));
		cb_code code = cb_close(f, &err);
		CHECK_CODE(code, how == UNDONE ? CB_STALE : CB_OK);
		if (b != box) cb_box_close(b);
		cb_box_close(box);
		CHECK_OK(cb_box_delete(s, "demo", &err));
	}
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- it comes back ---- */

static cb_box *gone(cb_store *s, const char *text, uint64_t size, cb_file **out)
{
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", text);
	if (size) CHECK_OK(cb_truncate(b, "/work/a", size, &err));
	*out = opened(b, "/work/a");
	CHECK_OK(cb_unlink(b, "/work/a", &err));
	return b;
}

TEST_BOTH(a_far_size_lands_as_a_hole)
{
	cb_file *f = NULL;
	cb_store *s = test_store_open(memory);
	cb_box *b = gone(s, "x", 0, &f);
	CHECK_OK(cb_ftruncate(f, huge, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	uint64_t before = stored_bytes(s);
	CHECK_OK(cb_close(f, &err));
	f = opened(b, "/work/a");
	check_size(f, huge);
	check_at(f, 0, "x\0\0", 3);
	CHECK(hole_after(f, 10) == 10);
	CHECK(stored_bytes(s) <= before + 64);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(far_writes_land_with_the_holes_between)
{
	cb_file *f = NULL;
	cb_store *s = test_store_open(memory);
	cb_box *b = gone(s, "data", huge, &f);
	CHECK_OK(cb_pwrite(f, "far", 3, huge / 2, &err));
	CHECK_OK(cb_pwrite(f, "end", 3, huge, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_fsync(f, &err));
	CHECK_OK(cb_close(f, &err));
	f = opened(b, "/work/a");
	check_size(f, huge + 3);
	check_at(f, 0, "data\0", 5);
	check_at(f, huge / 2 - 1, "\0far\0", 5);
	check_at(f, huge - 1, "\0end", 4);
	CHECK(hole_after(f, 0) <= 4096 && hole_after(f, huge / 2) == huge / 2 + 3);
	CHECK(stored_bytes(s) < 4096);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* What was cut off is not there again when the file becomes longer. */
TEST_BOTH(what_was_cut_off_lands_as_a_hole)
{
	cb_file *f = NULL;
	static char text[200 << 10];
	cb_store *s = test_store_open(memory);
	memset(text, 'x', sizeof(text) - 1);
	cb_box *b = gone(s, text, 0, &f);
	CHECK_OK(cb_ftruncate(f, 100 << 10, &err));
	CHECK_OK(cb_ftruncate(f, huge, &err));
	CHECK_OK(cb_pwrite(f, "tail", 4, 150 << 10, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_close(f, &err));
	f = opened(b, "/work/a");
	check_size(f, huge);
	check_at(f, (100 << 10) - 1, "x\0", 2);
	check_at(f, (150 << 10) - 1, "\0tail\0", 6);
	CHECK(hole_after(f, 0) == 100 << 10);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* A first write that is refused is none: nothing lands. */
TEST_BOTH(what_was_refused_does_not_land)
{
	cb_file *f = NULL;
	cb_store *s = test_store_open(memory);
	cb_box *b = gone(s, "data", 0, &f);
	CHECK_CODE(cb_ftruncate(f, (uint64_t)9 << 40, &err), CB_TOOBIG);
	CHECK_CODE(cb_pwrite(f, "x", 1, (uint64_t)9 << 40, &err), CB_TOOBIG);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	uint64_t seq = must_seq(b);
	CHECK_OK(cb_close(f, &err));
	CHECK_U64(must_seq(b), seq);
	CHECK_STR(must_read(b, "/work/a"), "data");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- without memory ---- */

enum { WIDE = 40 << 10 };

static char picture[2 * WIDE];

static void check_picture(cb_file *f, size_t size)
{
	static char got[sizeof(picture) + 1];
	size_t n = 0;
	CHECK_OK(cb_pread(f, got, sizeof(got), 0, &n, &err));
	CHECK(n == size && memcmp(got, picture, size) == 0);
}

/* Each allocation fails once: what was written is there whole or not at all, while it is gone and when it lands. */
TEST_LIMIT(without_memory, 120)
{
	static char more[WIDE];
	cb_file *f = NULL;
	cb_code code = CB_NOMEM;
	long refused = 0;
	cb_store *s = test_store_open(true);
	memset(picture, 'x', WIDE);
	memset(more, 'y', WIDE);
	picture[WIDE] = 0;
	cb_box *b = gone(s, picture, 0, &f);
	for (long n = 1; code == CB_NOMEM; n++, refused++) {
		mem_fail_after(n);
		code = cb_pwrite(f, more, WIDE, WIDE / 2, &err);
		mem_fail_after(0);
		if (code == CB_NOMEM) check_picture(f, WIDE);
	}
	CHECK_OK(code);
	memcpy(picture + WIDE / 2, more, WIDE);
	check_picture(f, WIDE / 2 + WIDE);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK(refused > 3);
	code = CB_NOMEM;
	for (long n = 1; code == CB_NOMEM; n++, refused++) {
		mem_fail_after(n);
		code = cb_fsync(f, &err);
		mem_fail_after(0);
		if (code == CB_NOMEM) check_picture(f, WIDE / 2 + WIDE);
	}
	CHECK_OK(code);
	CHECK(memcmp(must_read(b, "/work/a"), picture, WIDE / 2 + WIDE) == 0);
	CHECK_OK(cb_close(f, &err));
	test_note("refused %ld times", refused);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- against a file that has its name still ---- */

enum { TWIN_BYTES = 1 << 20 };

static void same_bytes(cb_file *f, cb_file *twin)
{
	static char a[TWIN_BYTES + 1], b[TWIN_BYTES + 1];
	size_t n = 0, m = 0;
	CHECK_OK(cb_pread(f, a, sizeof(a), 0, &n, &err));
	CHECK_OK(cb_pread(twin, b, sizeof(b), 0, &m, &err));
	CHECK(n == m && memcmp(a, b, n) == 0);
}

static void some_call(test_rng *r, cb_file *f, cb_file *twin)
{
	static char bytes[TWIN_BYTES];
	static const uint64_t reaches[] = {60, 3000, 40000, TWIN_BYTES};
	uint64_t reach = reaches[test_rand_below(r, 4)], at = test_rand_below(r, reach);
	uint64_t size = 1 + test_rand_below(r, test_rand_below(r, 3) ? 50 : reach);
	if (size > TWIN_BYTES - at) size = TWIN_BYTES - at;
	if (test_rand_below(r, 5) == 0) {
		CHECK_OK(cb_ftruncate(f, at, &err));
		CHECK_OK(cb_ftruncate(twin, at, &err));
		return;
	}
	memset(bytes, 1 + (int)test_rand_below(r, 255), (size_t)size);
	CHECK_OK(cb_pwrite(f, bytes, (size_t)size, at, &err));
	CHECK_OK(cb_pwrite(twin, bytes, (size_t)size, at, &err));
}

TEST_LIMIT(lands_as_if_it_had_never_gone, 120)
{
	test_rng r = {test_seed() | 1};
	for (unsigned left = test_dose(200); left > 0; left--) {
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/a", "");
		must_write(b, "/work/twin", "");
		cb_file *f = opened(b, "/work/a"), *twin = opened(b, "/work/twin");
		for (uint64_t i = test_rand_below(&r, 4); i > 0; i--) some_call(&r, f, twin);
		CHECK_OK(cb_unlink(b, "/work/a", &err));
		uint64_t removed = must_seq(b);
		for (uint64_t i = 1 + test_rand_below(&r, 12); i > 0; i--) {
			some_call(&r, f, twin);
			same_bytes(f, twin);
		}
		if (test_rand_below(&r, 2)) CHECK_OK(cb_store_gc(s, NULL, &err));
		CHECK_OK(cb_undo(b, removed, NULL, &err));
		CHECK_OK(cb_close(f, &err));
		f = opened(b, "/work/a");
		same_bytes(f, twin);
		CHECK_OK(cb_close(f, &err));
		CHECK_OK(cb_close(twin, &err));
		cb_box_close(b);
		test_store_sound(s);
		cb_store_close(s);
	}
}

/* ---- much is written ---- */

enum { PIECE = 1 << 20, PIECES = 96 };

static void fill(char *piece, unsigned i)
{
	uint64_t x = i + 1;
	for (size_t at = 0; at < PIECE; at++) piece[at] = (char)((x = x * 6364136223846793005u + 1) >> 56);
}

static void write_pieces(cb_file *f, unsigned count)
{
	static char piece[PIECE];
	for (unsigned i = 0; i < count; i++) {
		fill(piece, i);
		CHECK_OK(cb_pwrite(f, piece, PIECE, (uint64_t)2 * i * PIECE, &err));
	}
}

static void check_pieces(cb_file *f, unsigned count)
{
	static char piece[PIECE], got[PIECE];
	for (unsigned i = 0; i < count; i++) {
		size_t n = 0;
		fill(piece, i);
		CHECK_OK(cb_pread(f, got, PIECE, (uint64_t)2 * i * PIECE, &n, &err));
		CHECK(n == PIECE && memcmp(piece, got, PIECE) == 0);
	}
}

/* The address space of this process may grow by so much and no more. */
static void little_memory(rlim_t more)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%lu", &pages) == 1);
	(void)fclose(f);
	struct rlimit r;
	CHECK(getrlimit(RLIMIT_AS, &r) == 0);
	r.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
#ifndef __SANITIZE_ADDRESS__ /* which reserves as it likes */
	CHECK(setrlimit(RLIMIT_AS, &r) == 0);
#endif
}

static cb_store *small_store(void)
{
	cb_store *s = NULL;
	cb_error why = {0};
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .cache_bytes = 1 << 20), &s, &why));
	return s;
}

TEST_LIMIT(much_in_little_memory, 120)
{
	cb_file *f = NULL;
	cb_store_close(test_store_open(false));
	cb_store *s = small_store();
	cb_box *b = gone(s, "data", huge, &f);
	uint64_t before = stored_bytes(s);
	little_memory(48 << 20);
	write_pieces(f, PIECES);
	CHECK(stored_bytes(s) <= before + (uint64_t)PIECES * PIECE);
	CHECK_OK(cb_store_gc(s, NULL, &err)); /* leaves what an open file has */
	check_pieces(f, PIECES);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_close(f, &err));
	f = opened(b, "/work/a");
	check_pieces(f, PIECES);
	check_size(f, huge);
	CHECK(hole_after(f, 0) == PIECE);
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err)); /* what the private picture had besides is gone */
	CHECK(stored_bytes(s) <= before + (uint64_t)(PIECES + 1) * PIECE);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* A file that is rewritten with every write, and one whose writes are extents. */
TEST_LIMIT(small_writes_in_little_memory, 120)
{
	enum { SMALL = 12 << 10, LARGE = 200 << 10, WRITES = 40000 };
	static char text[LARGE + 1];
	cb_store_close(test_store_open(false));
	cb_store *s = small_store();
	for (int large = 0; large < 2; large++) {
		cb_file *f = NULL;
		size_t size = large ? LARGE : SMALL;
		memset(text, 'x', size);
		text[size] = 0;
		cb_box *b = gone(s, text, 0, &f);
		uint64_t before = stored_bytes(s);
		little_memory(32 << 20);
		for (unsigned i = 0; i < WRITES; i++) {
			text[i % 100] = (char)('a' + i % 26);
			CHECK_OK(cb_pwrite(f, text + i % 100, 1, i % 100, &err));
		}
		CHECK_MSG(stored_bytes(s) <= before + 3 * WRITES, "%llu bytes for %d",
		          (unsigned long long)(stored_bytes(s) - before), WRITES);
		check_at(f, 0, text, 64);
		CHECK_OK(cb_undo(b, 0, NULL, &err));
		CHECK_OK(cb_close(f, &err));
		CHECK(memcmp(must_read(b, "/work/a"), text, size) == 0);
		cb_box_close(b);
		CHECK_OK(cb_box_delete(s, "demo", &err));
	}
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- whose it is ---- */

TEST(what_a_closed_or_killed_one_had_is_collected)
{
	enum { FEW = 24 };
	cb_file *f = NULL;
	cb_store *s = test_store_open(false);
	cb_box *b = gone(s, "data", huge, &f);
	uint64_t before = stored_bytes(s);
	write_pieces(f, FEW);
	CHECK(stored_bytes(s) > before);
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_U64(stored_bytes(s), before);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		f = opened(b, "/work/a");
		CHECK_OK(cb_unlink(b, "/work/a", &err));
		write_pieces(f, FEW);
		(void)kill(getpid(), SIGKILL);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK(stored_bytes(s) > before);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_U64(stored_bytes(s), before);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* What a transaction wrote to it before, whether it is in memory still or in the store already, is part of what it went with. */
static void written_and_gone(bool memory, unsigned count)
{
	cb_store *s = test_store_open(memory);
	cb_box *box = NULL;
	CHECK_OK(cb_box_create(s, "demo", &box, &err));
	cb_box *b = must_begin(box);
	must_write(b, "/work/a", "");
	cb_file *f = opened(b, "/work/a");
	write_pieces(f, count);
	CHECK_OK(cb_unlink(b, "/work/a", &err));
	CHECK_OK(cb_ftruncate(f, huge, &err));
	CHECK_OK(cb_pwrite(f, "far", 3, huge / 2, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	check_pieces(f, count);
	check_at(f, huge / 2 - 1, "\0far\0", 5);
	(void)must_commit(b);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(box);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(written_and_gone_in_one_transaction)
{
	written_and_gone(memory, 1);
}

TEST_BOTH(written_early_and_gone_in_one_transaction)
{
	written_and_gone(memory, 20);
}
