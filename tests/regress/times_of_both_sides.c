/* Times where both sides changed something: the later ones stand, whichever side has them; a transaction conflicts only where both set the
 * times of a file and nobody changed it. */
#include "harness/boxes.h"

static const int64_t early = 1000000000000000000, late = 2000000000000000000;
static const char *const first = "ONE\n2\n3\n4\n5\n", *const last = "1\n2\n3\n4\nFIVE\n", *const old = "1\n2\n3\n4\n5\n";

static int64_t mtime(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, CB_NOFOLLOW, &info, &err));
	return info.mtime_ns;
}

static void put(cb_box *b, const char *text, int64_t atime_ns, int64_t mtime_ns)
{
	cb_error err = {0};
	if (text) must_write(b, "/work/f", text);
	CHECK_OK(cb_utimens(b, "/work/f", atime_ns, mtime_ns, 0, &err));
}

/* As two programs at once leave it: each its lines, each its times. */
TEST(lines_of_two_transactions)
{
	static const int64_t none = CB_TIME_OMIT;
	for (unsigned how = 0; how < 4; how++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/f", old);
		cb_box *t = must_begin(b), *u = must_begin(b);
		put(t, first, how & 1 ? early : none, how & 2 ? early : none);
		put(u, last, how & 1 ? late : none, how & 2 ? late : none);
		must_commit(t);
		must_commit(u);
		CHECK_STR(must_read(b, "/work/f"), "ONE\n2\n3\n4\nFIVE\n");
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* mine, of_the_box: NULL changes the times only. 0: no time is set. */
static cb_code two(const char *mine, int64_t my_time, const char *of_the_box, int64_t its_time, int64_t *out)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", old);
	cb_box *t = must_begin(b);
	put(t, mine, CB_TIME_OMIT, my_time);
	put(b, of_the_box, CB_TIME_OMIT, its_time);
	cb_code code = cb_txn_commit(t, NULL, NULL, &err);
	*out = mtime(b, "/work/f");
	cb_box_close(t);
	cb_box_close(b);
	cb_store_close(s);
	return code;
}

TEST(times_of_a_transaction)
{
	int64_t is = 0;
	CHECK(two(NULL, early, NULL, late, &is) == CB_CONFLICT && is == late);
	CHECK(two(NULL, early, NULL, early, &is) == CB_CONFLICT);
	CHECK(two(first, early, NULL, late, &is) == CB_OK && is == late);
	CHECK(two(first, late, NULL, early, &is) == CB_OK && is == late);
	CHECK(two(NULL, late, first, early, &is) == CB_OK && is == late);
	CHECK(two(NULL, early, first, late, &is) == CB_OK && is == late);
}

TEST(access_times_never_conflict)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", old);
	cb_box *t = must_begin(b);
	put(t, NULL, late, CB_TIME_OMIT);
	put(b, NULL, early, CB_TIME_OMIT);
	must_commit(t);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/f", 0, &info, &err));
	CHECK(info.atime_ns == late);
	cb_box_close(b);
	cb_store_close(s);
}

typedef void (*deed)(cb_box *b, int64_t time);

static void write_it(cb_box *b, int64_t time)
{
	put(b, first, time, time);
}

static void save_it(cb_box *b, int64_t time)
{
	cb_error err = {0};
	must_write(b, "/work/tmp", first);
	CHECK_OK(cb_rename(b, "/work/tmp", "/work/f", 0, &err));
	put(b, NULL, time, time);
}

static void touch_it(cb_box *b, int64_t time)
{
	put(b, NULL, time, time);
}

static void cut_it(cb_box *b, int64_t time)
{
	cb_error err = {0};
	CHECK_OK(cb_truncate(b, "/work/f", 3, &err));
	put(b, NULL, time, time);
}

static void make_file(cb_box *b, int64_t time)
{
	cb_error err = {0};
	must_write(b, "/work/n", "new");
	CHECK_OK(cb_utimens(b, "/work/n", time, time, 0, &err));
}

static void make_link(cb_box *b, int64_t time)
{
	cb_error err = {0};
	CHECK_OK(cb_symlink(b, "f", "/work/n", &err));
	CHECK_OK(cb_utimens(b, "/work/n", time, time, CB_NOFOLLOW, &err));
}

static void make_folder(cb_box *b, int64_t time)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/n", 0755, 0, &err));
	CHECK_OK(cb_utimens(b, "/work/n", time, time, 0, &err));
}

/* The same on both sides of a merge of forks, at different times. */
TEST(alike_in_two_forks)
{
	static const struct {
		deed run;
		const char *path;
	} deeds[] = {{write_it, "/work/f"},  {save_it, "/work/f"},   {touch_it, "/work/f"},   {cut_it, "/work/f"},
	             {make_file, "/work/n"}, {make_link, "/work/n"}, {make_folder, "/work/n"}};
	for (size_t i = 0; i < 2 * sizeof(deeds) / sizeof(*deeds); i++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/f", old);
		cb_box *f = must_fork(s, "demo", "f");
		deeds[i / 2].run(b, i % 2 ? early : late);
		deeds[i / 2].run(f, i % 2 ? late : early);
		CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
		CHECK_MSG(mtime(b, deeds[i / 2].path) == late, "deed %zu, way %zu", i / 2, i % 2);
		CHECK_OK(cb_merge(f, b, NULL, NULL, NULL, &err));
		CHECK_MSG(mtime(f, deeds[i / 2].path) == late, "deed %zu, way %zu, back", i / 2, i % 2);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}

static void exchange_with_an_equal_one(cb_box *b, int64_t time)
{
	cb_error err = {0};
	must_write(b, "/work/equal", old);
	CHECK_OK(cb_rename(b, "/work/f", "/work/equal", CB_EXCHANGE, &err));
	put(b, NULL, time, time);
}

static void put_aside_and_make_anew(cb_box *b, int64_t time)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/f", "/work/aside", 0, &err));
	put(b, old, time, time);
}

static void remove_and_make_anew(cb_box *b, int64_t time)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, "/work/f", &err));
	put(b, first, time, time);
}

/* One fork has another file with the same bytes, the other new ones: they are that one's, and so is their time. */
TEST(bytes_of_one_fork)
{
	static const deed same[] = {exchange_with_an_equal_one, put_aside_and_make_anew},
			  other[] = {write_it, save_it, remove_and_make_anew};
	enum { OTHERS = sizeof(other) / sizeof(*other), PAIRS = sizeof(same) / sizeof(*same) * OTHERS };
	for (size_t i = 0; i < 2 * PAIRS; i++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/f", old);
		if (i % 2) CHECK_OK(cb_link(b, "/work/f", "/work/second", &err));
		cb_box *f = must_fork(s, "demo", "f"), *g = must_fork(s, "demo", "g");
		same[i / 2 / OTHERS](b, early);
		other[i / 2 % OTHERS](f, late);
		CHECK_OK(cb_merge(g, b, NULL, NULL, NULL, &err));
		CHECK_OK(cb_merge(g, f, NULL, NULL, NULL, &err));
		CHECK_OK(cb_merge(f, b, NULL, NULL, NULL, &err));
		CHECK_STR(must_read(f, "/work/f"), first);
		CHECK_STR(must_read(g, "/work/f"), first);
		CHECK_MSG(mtime(g, "/work/f") == late && mtime(f, "/work/f") == late, "pair %zu", i);
		cb_box_close(g);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* The lines of one fork are among those of the other. */
TEST(lines_of_one_fork)
{
	for (int way = 0; way < 2; way++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/f", old);
		cb_box *f = must_fork(s, "demo", "f");
		put(way ? f : b, "ONE\n2\n3\n4\nFIVE\n", early, early);
		put(way ? b : f, first, early - 1, early - 1);
		CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
		CHECK_STR(must_read(b, "/work/f"), "ONE\n2\n3\n4\nFIVE\n");
		CHECK(mtime(b, "/work/f") == early);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* One fork writes a file of two names, the other saves it under one of them: who wins brings bytes and time. */
TEST(bytes_of_the_preferred_fork)
{
	for (int way = 0; way < 4; way++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/f", "old\n");
		CHECK_OK(cb_link(b, "/work/f", "/work/second", &err));
		cb_box *f = must_fork(s, "demo", "f"), *writes = way & 1 ? f : b, *saves = way & 1 ? b : f;
		put(writes, "written\n", early, early);
		save_it(saves, late);
		bool writer_wins = way & 2;
		cb_prefer prefer = (writes == b) == writer_wins ? CB_PREFER_OURS : CB_PREFER_THEIRS;
		CHECK_OK(cb_merge(b, f, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, &err));
		CHECK_STR(must_read(b, "/work/f"), writer_wins ? "written\n" : first);
		CHECK_MSG(mtime(b, "/work/f") == (writer_wins ? early : late), "way %d", way);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}

static void write_second_and_save(cb_box *b, int64_t time)
{
	cb_error err = {0};
	must_write(b, "/work/second", first);
	CHECK_OK(cb_utimens(b, "/work/second", time, time, 0, &err));
	save_it(b, time);
}

static void write_and_unlink_second(cb_box *b, int64_t time)
{
	cb_error err = {0};
	put(b, first, time, time);
	CHECK_OK(cb_unlink(b, "/work/second", &err));
}

static void save_as_it_was(cb_box *b, int64_t time)
{
	cb_error err = {0};
	must_write(b, "/work/tmp", old);
	CHECK_OK(cb_rename(b, "/work/tmp", "/work/f", 0, &err));
	put(b, NULL, time, time);
}

static void unlink_second(cb_box *b, int64_t time)
{
	cb_error err = {0};
	put(b, NULL, time, time);
	CHECK_OK(cb_unlink(b, "/work/second", &err));
}

/* Each fork takes away another of the file's two names, and both leave the same bytes: the time is the preferred one's, as the file is. */
TEST(equal_bytes_of_the_preferred_fork)
{
	static const deed saves[] = {write_second_and_save, save_as_it_was}, keeps[] = {write_and_unlink_second, unlink_second};
	for (unsigned how = 0; how < 16; how++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/f", old);
		CHECK_OK(cb_link(b, "/work/f", "/work/second", &err));
		cb_box *f = must_fork(s, "demo", "f"), *saver = how & 1 ? f : b, *keeper = how & 1 ? b : f;
		bool saver_wins = how & 2, saver_late = how & 4;
		saves[how / 8](saver, saver_late ? late : early);
		keeps[how / 8](keeper, saver_late ? early : late);
		cb_prefer prefer = (saver == b) == saver_wins ? CB_PREFER_OURS : CB_PREFER_THEIRS;
		CHECK_OK(cb_merge(b, f, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, &err));
		CHECK_MSG(mtime(b, "/work/f") == (saver_wins == saver_late ? late : early), "way %u", how);
		test_store_sound(s);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}
