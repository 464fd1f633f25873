/*
 * A transaction takes a file away and makes its name anew, relying on that it is free; meanwhile the box moves another file there. The new
 * file was taken for what became of the old one and landed wherever that had gone, and the commit told nothing.
 */
#include "harness/boxes.h"

static cb_error err;

typedef void (*deed)(cb_box *b);

/* ---- the transaction ---- */

static void make_exclusively(cb_box *t)
{
	cb_file *f = NULL;
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	CHECK_OK(cb_open(t, "/work/a", CB_WRITE | CB_CREATE | CB_EXCLUSIVE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "new", 3, &err));
	CHECK_OK(cb_close(f, &err));
}

static void write_where_nothing_is(cb_box *t)
{
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	cb_write_options absent = CB_WITH(cb_write_options, .expected_version = CB_VERSION_ABSENT);
	CHECK_OK(cb_write_file(t, "/work/a", "new", 3, &absent, &err));
}

static void link_there(cb_box *t)
{
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	must_write(t, "/work/made", "new");
	CHECK_OK(cb_link(t, "/work/made", "/work/a", &err));
}

static void move_there(cb_box *t)
{
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	must_write(t, "/work/made", "new");
	CHECK_OK(cb_rename(t, "/work/made", "/work/a", CB_NOREPLACE, &err));
}

/* Relies on nothing. */
static void write_anyway(cb_box *t)
{
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	must_write(t, "/work/a", "new");
}

/* ---- the box ---- */

static void exchange(cb_box *b)
{
	CHECK_OK(cb_rename(b, "/work/a", "/work/t", CB_EXCHANGE, &err));
}

static void move_both(cb_box *b)
{
	CHECK_OK(cb_rename(b, "/work/a", "/work/z", 0, &err));
	CHECK_OK(cb_rename(b, "/work/t", "/work/a", 0, &err));
}

static void move_over(cb_box *b)
{
	CHECK_OK(cb_rename(b, "/work/t", "/work/a", 0, &err));
}

static void change_mode(cb_box *b)
{
	CHECK_OK(cb_chmod(b, "/work/t", 0600, 0, &err));
}

static cb_code beside(deed mine, deed of_the_box, cb_prefer prefer)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *t = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a");
	must_write(b, "/work/t", "t");
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	mine(t);
	of_the_box(b);
	cb_code code = cb_txn_commit(t, NULL, NULL, &err);
	if (code == CB_CONFLICT) { /* told by the name, and it can be decided */
		CHECK(strstr(err.message, "/work/a"));
		CHECK_STR(must_read(b, "/work/a"), "t");
		CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = prefer), NULL, &err));
		CHECK_STR(must_read(b, "/work/a"), prefer == CB_PREFER_TXN ? "new" : "t");
	}
	cb_box_close(t);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	return code;
}

TEST(free_name_taken_by_a_move)
{
	static const deed relies[] = {make_exclusively, write_where_nothing_is, link_there, move_there};
	static const deed moves[] = {exchange, move_both, move_over};
	for (size_t i = 0; i < sizeof(relies) / sizeof(*relies); i++)
		for (size_t k = 0; k < sizeof(moves) / sizeof(*moves); k++) {
			CHECK_MSG(beside(relies[i], moves[k], CB_PREFER_TXN) == CB_CONFLICT, "%zu beside %zu", i, k);
			CHECK_MSG(beside(relies[i], moves[k], CB_PREFER_BOX) == CB_CONFLICT, "%zu beside %zu", i, k);
		}
	for (size_t i = 0; i < sizeof(relies) / sizeof(*relies); i++) CHECK(beside(relies[i], change_mode, CB_PREFER_TXN) == CB_OK);
	CHECK(beside(write_anyway, exchange, CB_PREFER_TXN) == CB_OK);
}
