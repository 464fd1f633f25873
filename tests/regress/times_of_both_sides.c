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
