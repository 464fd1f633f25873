/* A merge brings every name of a file with several, or says which one it could not place. */
#include "harness/sides.h"

static void old_file(cb_box *b)
{
	must_write(b, "/work/d/old", "old");
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
	sides p = sides_open(memory, old_file);
	must_write(p.ours, "/work/x", "same");
	must_write(p.theirs, "/work/x", "same");
	CHECK_OK(cb_link(p.theirs, "/work/x", "/work/y", &err));
	must_merge(p.ours, p.theirs, CB_PREFER_NONE);
	CHECK_STR(must_read(p.ours, "/work/y"), "same");
	CHECK_U64(ino(p.ours, "/work/x"), ino(p.ours, "/work/y"));
	sides_close(&p);
}

TEST_BOTH(second_name_taken_by_another)
{
	cb_error err = {0};
	sides p = sides_open(memory, old_file);
	must_write(p.theirs, "/work/x", "theirs");
	CHECK_OK(cb_link(p.theirs, "/work/x", "/work/y", &err));
	must_write(p.ours, "/work/y", "ours");
	must_conflict(p.ours, p.theirs, "/work/y");
	must_merge(p.ours, p.theirs, CB_PREFER_OURS);
	CHECK_STR(must_read(p.ours, "/work/y"), "ours");
	CHECK_STR(must_read(p.ours, "/work/x"), "theirs");
	sides_close(&p);
}

TEST_BOTH(second_name_in_a_folder_that_is_gone)
{
	cb_error err = {0};
	sides p = sides_open(memory, old_file);
	must_write(p.theirs, "/work/x", "theirs");
	CHECK_OK(cb_link(p.theirs, "/work/x", "/work/d/y", &err));
	CHECK_OK(cb_remove(p.ours, "/work/d", &err));
	must_conflict(p.ours, p.theirs, "/work/d/y");
	must_merge(p.ours, p.theirs, CB_PREFER_THEIRS);
	CHECK_U64(ino(p.ours, "/work/x"), ino(p.ours, "/work/d/y"));
	sides_close(&p);
}

TEST_BOTH(undo_of_a_step_that_removed_both)
{
	cb_error err = {0};
	sides p = sides_open(memory, old_file);
	must_write(p.ours, "/work/n/x", "both");
	CHECK_OK(cb_link(p.ours, "/work/n/x", "/work/n/y", &err));
	CHECK_OK(cb_remove(p.ours, "/work/n", &err));
	uint64_t removal = must_seq(p.ours);
	must_write(p.ours, "/work/n/x", "both");
	CHECK_OK(cb_undo(p.ours, removal, NULL, &err));
	CHECK_STR(must_read(p.ours, "/work/n/x"), "both");
	CHECK_STR(must_read(p.ours, "/work/n/y"), "both");
	sides_close(&p);
}
