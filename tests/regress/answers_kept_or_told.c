/*
 * answers_kept_or_told.c: an answer for a path was not heard, because the answer for another moved what it was about, or wrote it under a
 * further name; or answers were refused that can all be kept, or another question came, in one direction only. Now an answered path is as
 * the side has it that was answered for, or the conflict stays open.
 */
#include "harness/sides.h"

typedef struct given {
	const char *for_ours, *for_theirs; /* names in /work, one letter each */
	bool into_theirs;
	unsigned contradictions;
	char contradicts[8]; /* those names */
} given;

static cb_prefer resolve(void *context, const cb_conflict *c)
{
	given *g = context;
	char name = c->path[strlen("/work/")];
	CHECK(strlen(c->path) == strlen("/work/x"));
	if (c->contradicts) g->contradicts[g->contradictions++] = name;
	if (strchr(g->for_ours, name)) return g->into_theirs ? CB_PREFER_THEIRS : CB_PREFER_OURS;
	if (strchr(g->for_theirs, name)) return g->into_theirs ? CB_PREFER_OURS : CB_PREFER_THEIRS;
	return CB_PREFER_NONE;
}

static cb_code merge_given(sides *p, given *g, cb_error *err)
{
	cb_merge_options how = CB_WITH(cb_merge_options, .resolve = resolve, .context = g);
	cb_box *into = g->into_theirs ? p->theirs : p->ours;
	return cb_merge(into, g->into_theirs ? p->ours : p->theirs, &how, NULL, NULL, err);
}

/* Both ways, each from the start. NULL: the answers contradict each other. */
static void must_give(deed *base, deed *ours, deed *theirs, const char *for_ours, const char *for_theirs, const char *result)
{
	for (int i = 0; i < 2; i++) {
		cb_error err = {0};
		sides p = sides_open(true, base);
		given g = {.for_ours = for_ours, .for_theirs = for_theirs, .into_theirs = i};
		ours(p.ours);
		theirs(p.theirs);
		CHECK_CODE(merge_given(&p, &g, &err), result ? CB_OK : CB_CONFLICT);
		CHECK((g.contradictions > 0) == !result);
		if (result) must_show(i ? p.theirs : p.ours, result);
		sides_close(&p);
	}
}

static void link_to(cb_box *b, const char *from, const char *to)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, from, to, &err));
}

/* ---- what an answer is about is moved by another ---- */

static void file_and_folder(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/c", 0755, 0, &err));
	must_write(b, "/work/a", "1");
}

static void put_aside(cb_box *b)
{
	mv(b, "/work/a", "/work/b");
	must_write(b, "/work/a", "2");
}

static void exchange(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/a", "/work/c", CB_EXCHANGE, &err));
}

TEST(a_file_that_both_moved)
{
	must_give(file_and_folder, put_aside, exchange, "a", "bc", NULL);
	must_give(file_and_folder, put_aside, exchange, "abc", "", "a=2 b=1 c/");
	must_give(file_and_folder, put_aside, exchange, "", "abc", "a/ c=1");
}

/* One that is asked about only where it is moved from. */
TEST(the_old_name_of_a_file_that_both_moved)
{
	cb_error err = {0};
	sides p = sides_open(true, file_and_folder);
	given g = {.for_ours = "ac", .for_theirs = "b"};
	put_aside(p.ours);
	exchange(p.theirs);
	CHECK_CODE(merge_given(&p, &g, &err), CB_CONFLICT);
	CHECK_STR(g.contradicts, "b");
	sides_close(&p);
}

/* ---- a further name of a file ---- */

static void one_file(cb_box *b)
{
	must_write(b, "/work/b", "1");
}

static void link_and_write(cb_box *b)
{
	link_to(b, "/work/b", "/work/c");
	must_write(b, "/work/b", "2");
}

static void save_and_add(cb_box *b)
{
	must_write(b, "/work/c", "3");
	must_renew(b, "/work/b", "4");
}

static void write_and_add(cb_box *b)
{
	must_write(b, "/work/c", "3");
	must_write(b, "/work/b", "4");
}

TEST(a_file_of_two_names_of_which_one_is_in_conflict_too)
{
	deed *const others[] = {save_and_add, write_and_add};
	for (int i = 0; i < 2; i++) {
		must_give(one_file, link_and_write, others[i], "c", "b", NULL);
		must_give(one_file, link_and_write, others[i], "b", "c", "b=2 c=3");
		must_give(one_file, link_and_write, others[i], "bc", "", "b=2 c=2");
	}
}

/* Its data is in no conflict. */
static void link_only(cb_box *b)
{
	link_to(b, "/work/b", "/work/c");
}

TEST(a_file_of_two_names_that_one_side_wrote)
{
	must_give(one_file, link_only, write_and_add, "c", "b", "b=4 c=4");
}

/* ---- a file that is kept under one of its names ---- */

static void one_file_c(cb_box *b)
{
	must_write(b, "/work/c", "1");
}

static void save_and_rename(cb_box *b)
{
	must_renew(b, "/work/c", "3");
	mv(b, "/work/c", "/work/a");
}

static void link_into_a_folder(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/a", 0755, 0, &err));
	link_to(b, "/work/c", "/work/a/a");
}

TEST(a_file_that_is_kept_loses_another_name)
{
	must_give(one_file_c, save_and_rename, link_into_a_folder, "a", "c", "a=3 c=1");
}

/* ---- a file that is kept in a folder that went ---- */

static void file_in_a_folder(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/a", 0755, 0, &err));
	must_write(b, "/work/a/a", "2");
}

static void remove_folder(cb_box *b)
{
	rm(b, "/work/a");
}

static void link_and_rename(cb_box *b)
{
	link_to(b, "/work/a/a", "/work/b");
	mv(b, "/work/a/a", "/work/a/b");
}

TEST(a_file_that_is_kept_brings_the_folder_it_is_in)
{
	must_give(file_in_a_folder, remove_folder, link_and_rename, "", "b", "a/ a/b=2 b=2");
}
