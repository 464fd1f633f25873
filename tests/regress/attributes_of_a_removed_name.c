/*
 * attributes_of_a_removed_name.c: a file with two names. One side saves it anew under one of them, with the same bytes, and gives the new
 * file a mode, an attribute, a tag or metadata; the other takes that name away. Only the bytes were compared, so the name went without a
 * conflict, and with it what was set. What a new file only lost nobody took away: that is no change.
 */
#include "harness/sides.h"

enum { WHATS = 4 };

static void set_what(cb_box *b, int what, const char *path)
{
	cb_error err = {0};
	if (what == 0) CHECK_OK(cb_tag_add(b, path, "t", &err));
	if (what == 1) CHECK_OK(cb_meta_set(b, path, "m", "1", 1, &err));
	if (what == 2) CHECK_OK(cb_xattr_set(b, path, "user.x", "1", 1, 0, &err));
	if (what == 3) CHECK_OK(cb_chmod(b, path, 0600, 0, &err));
}

static void two_names(cb_box *b)
{
	cb_error err = {0};
	must_write(b, "/work/f", "old");
	CHECK_OK(cb_xattr_set(b, "/work/f", "user.old", "1", 1, 0, &err));
	CHECK_OK(cb_link(b, "/work/f", "/work/e", &err));
}

static void save(cb_box *b)
{
	must_write(b, "/work/e.new", "old");
	mv(b, "/work/e.new", "/work/e");
}

static void removes(cb_box *b)
{
	rm(b, "/work/e");
}

static void renames(cb_box *b)
{
	mv(b, "/work/e", "/work/c");
}

static void must_meet(deed *other, int what, bool here)
{
	sides p = sides_open(true, two_names);
	save(here ? p.ours : p.theirs);
	set_what(here ? p.ours : p.theirs, what, "/work/e");
	other(here ? p.theirs : p.ours);
	must_conflict(p.ours, p.theirs, "/work/e");
	must_merge(p.ours, p.theirs, here ? CB_PREFER_OURS : CB_PREFER_THEIRS);
	CHECK_MSG(exists(p.ours, "/work/e"), "%d was preferred, and is gone", what);
	sides_close(&p);
}

TEST(the_name_was_removed)
{
	for (int i = 0; i < 2 * WHATS; i++) must_meet(removes, i / 2, i % 2);
}

TEST(the_name_was_moved)
{
	for (int i = 0; i < 2 * WHATS; i++) must_meet(renames, i / 2, i % 2);
}

/* Both sides saved e anew, and one changed the old file, which it has as f; the other took f away. */
TEST(the_old_file_was_changed)
{
	for (int i = 0; i < 2 * WHATS; i++) {
		sides p = sides_open(true, two_names);
		save(p.ours);
		save(p.theirs);
		set_what(i % 2 ? p.ours : p.theirs, i / 2, "/work/f");
		rm(i % 2 ? p.theirs : p.ours, "/work/f");
		must_conflict(p.ours, p.theirs, "/work/f");
		sides_close(&p);
	}
}

TEST(the_step_that_made_the_name_is_undone)
{
	for (int what = 0; what < WHATS; what++) {
		cb_error err = {0};
		sides p = sides_open(true, two_names);
		uint64_t linked = must_seq(p.ours);
		save(p.ours);
		set_what(p.ours, what, "/work/e");
		CHECK_CODE(cb_undo(p.ours, linked, NULL, &err), CB_CONFLICT);
		sides_close(&p);
	}
}

TEST(what_was_only_lost_is_no_change)
{
	for (int here = 0; here < 2; here++) {
		sides p = sides_open(true, two_names);
		save(here ? p.ours : p.theirs);
		rm(here ? p.theirs : p.ours, "/work/e");
		must_merge(p.ours, p.theirs, CB_PREFER_NONE);
		must_show(p.ours, "f=old");
		sides_close(&p);
	}
}
