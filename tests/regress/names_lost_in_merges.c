/* A merge brings every name of a file with several, or says which one it could not place. */
#include "harness/boxes.h"

typedef struct pair {
	cb_store *s;
	cb_box *ours, *theirs;
} pair;

static pair open_pair(bool memory)
{
	cb_error err = {0};
	pair p = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(p.s, "ours", &p.ours, &err));
	must_write(p.ours, "/work/d/old", "old");
	p.theirs = must_fork(p.s, "ours", "theirs");
	return p;
}

static void close_pair(pair *p)
{
	test_store_sound(p->s);
	cb_box_close(p->ours);
	cb_box_close(p->theirs);
	cb_store_close(p->s);
}

static uint64_t ino(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info st = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &st, &err));
	return st.ino;
}

TEST_BOTH(first_name_equal_on_both_sides)
{
	cb_error err = {0};
	pair p = open_pair(memory);
	must_write(p.ours, "/work/x", "same");
	must_write(p.theirs, "/work/x", "same");
	CHECK_OK(cb_link(p.theirs, "/work/x", "/work/y", &err));
	CHECK_OK(cb_merge(p.ours, p.theirs, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(p.ours, "/work/y"), "same");
	CHECK_U64(ino(p.ours, "/work/x"), ino(p.ours, "/work/y"));
	close_pair(&p);
}

TEST_BOTH(second_name_taken_by_another)
{
	cb_error err = {0};
	pair p = open_pair(memory);
	must_write(p.theirs, "/work/x", "theirs");
	CHECK_OK(cb_link(p.theirs, "/work/x", "/work/y", &err));
	must_write(p.ours, "/work/y", "ours");
	CHECK_CODE(cb_merge(p.ours, p.theirs, NULL, NULL, NULL, &err), CB_CONFLICT);
	CHECK_MSG(strstr(err.message, "/work/y"), "%s", err.message);
	CHECK_OK(cb_merge(p.ours, p.theirs, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
	CHECK_STR(must_read(p.ours, "/work/y"), "ours");
	CHECK_STR(must_read(p.ours, "/work/x"), "theirs");
	close_pair(&p);
}

TEST_BOTH(second_name_in_a_folder_that_is_gone)
{
	cb_error err = {0};
	pair p = open_pair(memory);
	must_write(p.theirs, "/work/x", "theirs");
	CHECK_OK(cb_link(p.theirs, "/work/x", "/work/d/y", &err));
	CHECK_OK(cb_remove(p.ours, "/work/d", &err));
	CHECK_CODE(cb_merge(p.ours, p.theirs, NULL, NULL, NULL, &err), CB_CONFLICT);
	CHECK_MSG(strstr(err.message, "/work/d/y"), "%s", err.message);
	CHECK_OK(cb_merge(p.ours, p.theirs, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, NULL, &err));
	CHECK_U64(ino(p.ours, "/work/x"), ino(p.ours, "/work/d/y"));
	close_pair(&p);
}

TEST_BOTH(undo_of_a_step_that_removed_both)
{
	cb_error err = {0};
	pair p = open_pair(memory);
	must_write(p.ours, "/work/n/x", "both");
	CHECK_OK(cb_link(p.ours, "/work/n/x", "/work/n/y", &err));
	CHECK_OK(cb_remove(p.ours, "/work/n", &err));
	uint64_t removal = must_seq(p.ours);
	must_write(p.ours, "/work/n/x", "both");
	CHECK_OK(cb_undo(p.ours, removal, NULL, &err));
	CHECK_STR(must_read(p.ours, "/work/n/x"), "both");
	CHECK_STR(must_read(p.ours, "/work/n/y"), "both");
	close_pair(&p);
}
