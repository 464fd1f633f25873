/* What a transaction wrote has changed, also when the bytes are as before: who writes what he read relies on it. */
#include "harness/boxes.h"

enum { SMALL = 8, LARGE = 300, HUGE_ = 100 << 10 };

static char bytes[HUGE_];
static size_t size;

static cb_code write_alike(cb_box *b, cb_error *err)
{
	return cb_write_file(b, "/work/f", bytes, size, NULL, err);
}

static cb_code write_and_set_times(cb_box *b, cb_error *err)
{
	cb_code code = write_alike(b, err);
	return code == CB_OK ? cb_utimens(b, "/work/f", 1000, 1000, 0, err) : code;
}

static cb_code truncate_and_write(cb_box *b, cb_error *err)
{
	cb_file *f = NULL;
	cb_code code = cb_open(b, "/work/f", CB_WRITE | CB_TRUNCATE, 0, &f, err);
	if (code == CB_OK) code = cb_write(f, bytes, size, err);
	cb_code closed = cb_close(f, code == CB_OK ? err : NULL);
	return code == CB_OK ? closed : code;
}

static cb_code write_one_byte(cb_box *b, cb_error *err)
{
	cb_file *f = NULL;
	cb_code code = cb_open(b, "/work/f", CB_READ | CB_WRITE, 0, &f, err);
	if (code == CB_OK) code = cb_pwrite(f, bytes, 1, 0, err);
	cb_code closed = cb_close(f, code == CB_OK ? err : NULL);
	return code == CB_OK ? closed : code;
}

static cb_code there_and_back(cb_box *b, cb_error *err)
{
	cb_code code = cb_truncate(b, "/work/f", size + 5, err);
	return code == CB_OK ? cb_truncate(b, "/work/f", size, err) : code;
}

static cb_code touch(cb_box *b, cb_error *err)
{
	return cb_utimens(b, "/work/f", CB_TIME_OMIT, 5000, 0, err);
}

static cb_code change(cb_box *b, cb_error *err)
{
	return cb_write_file(b, "/work/f", "another", 7, NULL, err);
}

static cb_code take_away(cb_box *b, cb_error *err)
{
	return cb_unlink(b, "/work/f", err);
}

static cb_code replace(cb_box *b, cb_error *err)
{
	cb_code code = cb_write_file(b, "/work/tmp", "new", 3, NULL, err);
	return code == CB_OK ? cb_rename(b, "/work/tmp", "/work/f", 0, err) : code;
}

static cb_code change_mode(cb_box *b, cb_error *err)
{
	return cb_chmod(b, "/work/f", 0600, 0, err);
}

typedef cb_code (*deed)(cb_box *b, cb_error *err);

static const deed alike[] = {write_alike, write_and_set_times, truncate_and_write, write_one_byte, there_and_back};
static const deed others[] = {change, take_away, replace};

/* What becomes of a transaction's deed beside one of the box. */
static cb_code beside(deed mine, deed of_the_box)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *t = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(write_alike(b, &err));
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	CHECK_OK(mine(t, &err));
	must_write(t, "/work/uses", "f");
	CHECK_OK(of_the_box(b, &err));
	cb_code code = cb_txn_commit(t, NULL, NULL, &err);
	if (code == CB_CONFLICT) { /* and it can be decided */
		CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), NULL, &err));
		cb_stat_info info = CB_INIT(cb_stat_info);
		cb_code found = cb_stat(b, "/work/f", 0, &info, &err);
		CHECK(mine == take_away ? found == CB_NOTFOUND : found == CB_OK);
		if (mine == write_alike) CHECK(info.size == size);
	}
	cb_box_close(t);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	return code;
}

TEST(written_as_it_was)
{
	static const size_t sizes[] = {SMALL, LARGE, HUGE_};
	for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (char)('a' + i % 26);
	for (size_t z = 0; z < 3; z++) {
		size = sizes[z];
		for (size_t i = 0; i < sizeof(alike) / sizeof(*alike); i++)
			for (size_t k = 0; k < sizeof(others) / sizeof(*others); k++)
				CHECK_MSG(beside(alike[i], others[k]) == CB_CONFLICT, "size %zu, deed %zu beside %zu", size, i, k);
		for (size_t k = 0; k < sizeof(others) / sizeof(*others); k++)
			CHECK_MSG(beside(others[k], write_alike) == CB_CONFLICT, "size %zu, %zu beside a write", size, k);
		CHECK(beside(write_alike, write_alike) == CB_CONFLICT);
	}
}

TEST(touched_is_not_written)
{
	size = SMALL;
	memset(bytes, 'x', sizeof(bytes));
	CHECK(beside(change, touch) == CB_OK);
	CHECK(beside(touch, change) == CB_OK);
	CHECK(beside(take_away, touch) == CB_OK);
	CHECK(beside(touch, take_away) == CB_OK);
	CHECK(beside(write_alike, change_mode) == CB_OK);
	CHECK(beside(change_mode, write_alike) == CB_OK);
	CHECK(beside(change, change_mode) == CB_OK);
}

/* Each turns itself off when the other is on, and writes what it relies on. */
TEST(write_skew_is_seen)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *t = NULL, *u = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/alice", "on\n");
	must_write(b, "/work/bob", "on\n");
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	CHECK_OK(cb_txn_begin(b, NULL, &u, &err));
	must_write(t, "/work/bob", "on\n");
	must_write(t, "/work/alice", "off\n");
	must_write(u, "/work/alice", "on\n");
	must_write(u, "/work/bob", "off\n");
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	CHECK(cb_txn_commit(u, NULL, NULL, &err) == CB_CONFLICT);
	cb_box_close(t);
	cb_box_close(u);
	cb_box_close(b);
	cb_store_close(s);
}

/* The same in the running step of open files, which one byte joins. */
TEST(written_through_an_open_file)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *other = NULL;
	cb_file *f = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_box_open(s, "demo", &other, &err));
	must_write(b, "/work/f", "text\n");
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_pwrite(f, "t", 1, 0, &err));
	must_write(other, "/work/f", "other\n");
	CHECK(cb_txn_commit(b, NULL, NULL, &err) == CB_CONFLICT);
	CHECK_OK(cb_txn_drop(b, &err));
	CHECK_OK(cb_close(f, &err));
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(key_set_as_it_was)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *t = NULL;
	char *value = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_kv_set(b, "k", "1", 1, &err));
	CHECK_OK(cb_kv_set(b, "rests", "1", 1, &err));
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	CHECK_OK(cb_kv_set(t, "k", "1", 1, &err));
	CHECK_OK(cb_kv_set(t, "rests", "1", 1, &err));
	CHECK_OK(cb_kv_delete(b, "k", &err));
	CHECK(cb_txn_commit(t, NULL, NULL, &err) == CB_CONFLICT);
	CHECK(strstr(err.message, "'k'") && !strstr(err.message, "rests"));
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), NULL, &err));
	CHECK_OK(cb_kv_get(b, "k", &value, NULL, &err));
	cb_free(value);
	cb_box_close(t);
	cb_box_close(b);
	cb_store_close(s);
}

/* A call that failed wrote nothing. */
TEST(taken_back_with_its_call)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *t = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "text\n");
	CHECK_OK(cb_box_quota_set(b, 100, 0, 0, &err));
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	must_write(t, "/work/g", "g");
	CHECK(cb_write_file(t, "/work/f", bytes, HUGE_, NULL, &err) == CB_QUOTA);
	must_write(b, "/work/f", "other\n");
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	cb_box_close(b);
	cb_store_close(s);
}
