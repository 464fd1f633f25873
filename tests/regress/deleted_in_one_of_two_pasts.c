/*
 * deleted_in_one_of_two_pasts.c: two common pasts, of which one deleted a file and the other changed it. Whoever merges both decides; where
 * one decided for the removal and the other made the file anew, that is a conflict, as git says. The base that was made of the two did not
 * have the file, so that the new one passed for an addition. And where the file is still as one of the pasts has it, it passed for the
 * base's own: who was preferred had it, and it did not come.
 */
#include "harness/boxes.h"

typedef struct cross {
	cb_store *s;
	cb_box *deletes, *changes, *without, *with;
} cross;

static void remove_it(cb_box *b, const char *path)
{
	cb_error err = {0};
	CHECK_OK(cb_remove(b, path, &err));
}

/* `path` is deleted in one box, then or before `changed` is written in the other; `without` and `with` merge both. */
static cross open_cross(bool deleted_first, const char *path, const char *changed)
{
	cb_error err = {0};
	cb_merge_options ours = CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS);
	cross c = {.s = test_store_open(true)};
	CHECK_OK(cb_box_create(c.s, "deletes", &c.deletes, &err));
	must_write(c.deletes, "/work/d/f", "1\n2\n3\n");
	c.changes = must_fork(c.s, "deletes", "changes");
	c.without = must_fork(c.s, "deletes", "without");
	c.with = must_fork(c.s, "deletes", "with");
	if (deleted_first) remove_it(c.deletes, path);
	must_write(c.changes, changed, "one\n2\n3\n");
	if (!deleted_first) remove_it(c.deletes, path);
	CHECK_OK(cb_merge(c.without, c.deletes, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(c.without, c.changes, &ours, NULL, NULL, &err));
	CHECK_OK(cb_merge(c.with, c.changes, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(c.with, c.deletes, &ours, NULL, NULL, &err));
	CHECK(!exists(c.without, changed) && exists(c.with, changed));
	return c;
}

static void close_cross(cross *c)
{
	test_store_sound(c->s);
	cb_box_close(c->deletes);
	cb_box_close(c->changes);
	cb_box_close(c->without);
	cb_box_close(c->with);
	cb_store_close(c->s);
}

static void both_ways(const char *path, const char *changed)
{
	for (int how = 0; how < 16; how++) {
		cb_error err = {0};
		cross c = open_cross(how & 1, path, changed);
		bool anew = how & 8;
		if (anew) remove_it(c.with, changed);
		if (anew) must_write(c.with, changed, "new\n");
		cb_box *into = how & 2 ? c.with : c.without, *from = how & 2 ? c.without : c.with;
		CHECK_CODE(cb_merge(into, from, NULL, NULL, NULL, &err), CB_CONFLICT);
		CHECK_MSG(strstr(err.message, anew ? changed : path), "%s", err.message); /* or its folder */
		cb_prefer prefer = how & 4 ? CB_PREFER_OURS : CB_PREFER_THEIRS;
		CHECK_OK(cb_merge(into, from, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, &err));
		bool stays = (prefer == CB_PREFER_OURS) == (into == c.with);
		CHECK(exists(into, changed) == stays);
		if (stays) CHECK_STR(must_read(into, changed), anew ? "new\n" : "one\n2\n3\n");
		close_cross(&c);
	}
}

TEST(a_file)
{
	both_ways("/work/d/f", "/work/d/f");
}

TEST(a_file_with_its_folder)
{
	both_ways("/work/d", "/work/d/f");
}

/* Added by the one in a folder that the other deleted. */
TEST(a_new_file_in_a_deleted_folder)
{
	both_ways("/work/d", "/work/d/new");
}

/* What both came to alike still passes. */
TEST(the_same_on_both_sides)
{
	cb_error err = {0};
	cross c = open_cross(true, "/work/d/f", "/work/d/f");
	remove_it(c.with, "/work/d/f");
	must_write(c.with, "/work/g", "g");
	CHECK_OK(cb_merge(c.without, c.with, NULL, NULL, NULL, &err));
	CHECK(!exists(c.without, "/work/d/f") && exists(c.without, "/work/g"));
	close_cross(&c);
}
