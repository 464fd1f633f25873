/* Access times are kept as they are given, and are no difference: no change is listed for one, a merge of forks
 * changes nothing for one, and who read a file before writing it is in no conflict for that. */
#include "harness/boxes.h"

static const int64_t second = 1000000000, later = 5000000000; /* than now: the year 2128 */
static cb_error err;
static cb_store *s;
static cb_box *b;

static void begin(void)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
	must_write(b, "/work/other", "o");
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static cb_stat_info stat_of(cb_box *box, const char *path)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(box, path, 0, &info, &err));
	return info;
}

static void read_at(cb_box *box, const char *path, int64_t seconds)
{
	CHECK_OK(cb_utimens(box, path, seconds * second, CB_TIME_OMIT, 0, &err));
}

static cb_code count_change(void *context, const cb_change *change, cb_error *e)
{
	(void)change;
	(void)e;
	++*(int *)context;
	return CB_OK;
}

TEST(a_step_that_lists_nothing)
{
	int listed = 0;
	begin();
	cb_box *before = must_fork(s, "demo", "before");
	int64_t made = stat_of(b, "/work/a").atime_ns;
	uint64_t seq = cb_box_step(b);
	read_at(b, "/work/a", 5);
	CHECK_U64(cb_box_step(b), seq + 1);
	CHECK(stat_of(b, "/work/a").atime_ns == 5 * second);
	CHECK_STR(must_diff(before, b), "");
	CHECK_OK(cb_diff_step(b, seq + 1, NULL, count_change, &listed, &err));
	CHECK(listed == 0);
	/* a file made anew, too */
	CHECK_OK(cb_copy(b, "/work/a", "/work/new", 0, &err));
	read_at(b, "/work/new", 6);
	CHECK_OK(cb_rename(b, "/work/new", "/work/a", 0, &err));
	CHECK_STR(must_diff(before, b), "");
	for (int i = 0; i < 4; i++) CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK(stat_of(b, "/work/a").atime_ns == made);
	cb_box_close(before);
	end();
}

TEST(no_change_of_a_merge)
{
	int listed = 0;
	uint64_t seq = 0;
	begin();
	cb_box *f = must_fork(s, "demo", "f");
	int64_t made = stat_of(b, "/work/a").atime_ns;
	read_at(f, "/work/a", 5);
	read_at(f, "/work", 5);
	CHECK_OK(cb_merge(b, f, NULL, &seq, NULL, &err));
	CHECK_OK(cb_diff_step(b, seq, NULL, count_change, &listed, &err));
	CHECK(listed == 0 && stat_of(b, "/work/a").atime_ns == made);
	/* it comes with what is taken; where both set it, the later one */
	must_write(f, "/work/a", "new\n");
	read_at(f, "/work/a", later);
	CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
	CHECK(stat_of(b, "/work/a").atime_ns == later * second);
	cb_box_close(f);
	end();
}

static cb_box *txn_of(void)
{
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	return t;
}

TEST(no_conflict_of_transactions)
{
	begin();
	cb_box *t = txn_of(), *u = txn_of();
	read_at(t, "/work/a", 5);
	must_write(t, "/work/a", "ONE\n2\n3\n4\n5\n6\n7\n8\n9\n");
	read_at(u, "/work/a", 6);
	must_write(u, "/work/a", "1\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	CHECK_OK(cb_txn_commit(u, NULL, NULL, &err));
	cb_box_close(t);
	cb_box_close(u);
	CHECK_STR(must_read(b, "/work/a"), "ONE\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
	/* set alone, by both: the later one stands */
	t = txn_of();
	read_at(t, "/work/a", 8);
	read_at(t, "/work", 8);
	read_at(b, "/work/a", 9);
	must_write(b, "/work/third", "of another");
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	CHECK(stat_of(b, "/work/a").atime_ns == 9 * second);
	CHECK(stat_of(b, "/work").atime_ns == 8 * second);
	CHECK(stat_of(b, "/work").mtime_ns == stat_of(b, "/work/third").mtime_ns);
	end();
}
