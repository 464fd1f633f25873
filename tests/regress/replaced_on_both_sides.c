/*
 * replaced_on_both_sides.c: each side has a new file in the place of one that lives on, moved aside as a backup or under another name. The
 * two are one file, as where the old one is gone: what a side changed of mode, attributes and tags was lost when it was merged into the
 * other, and so was that further names of its file are names of the merged one.
 */
#include "harness/sides.h"

static const char *const OLD = "1\n2\n3\n4\n5\n6\n7\n", *const FIRST = "one\n2\n3\n4\n5\n6\n7\n",
			 *const LAST = "1\n2\n3\n4\n5\n6\nseven\n", *const BOTH = "one\n2\n3\n4\n5\n6\nseven\n";

static void file_a(cb_box *b)
{
	cb_error err = {0};
	must_write(b, "/work/a", OLD);
	CHECK_OK(cb_meta_set(b, "/work/a", "old", "0", 1, &err));
}

static void file_a_and_b(cb_box *b)
{
	cb_error err = {0};
	file_a(b);
	CHECK_OK(cb_link(b, "/work/a", "/work/b", &err));
}

static void backed_up(cb_box *b, const char *text)
{
	mv(b, "/work/a", "/work/a~");
	must_write(b, "/work/a", text);
}

static void set_fields(cb_box *b, uint32_t mode, const char *value)
{
	cb_error err = {0};
	CHECK_OK(cb_chmod(b, "/work/a", mode, 0, &err));
	CHECK_OK(cb_meta_set(b, "/work/a", "m", value, strlen(value), &err));
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", value, strlen(value), 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/a", "t", &err));
}

static cb_code append_attr(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	char *text = context;
	size_t used = strlen(text);
	(void)err;
	(void)snprintf(text + used, 200 - used, " %s%s%.*s", name, size ? "=" : "", (int)size, size ? value : "");
	return CB_OK;
}

static void must_have(cb_box *b, const char *path, const char *fields)
{
	cb_error err = {0};
	char text[200];
	cb_stat_info st = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &st, &err));
	(void)snprintf(text, sizeof(text), "%o", st.mode & 0777);
	CHECK_OK(cb_meta_list(b, path, append_attr, text, &err));
	CHECK_OK(cb_xattr_list(b, path, 0, append_attr, text, &err));
	CHECK_OK(cb_tag_list(b, path, append_attr, text, &err));
	CHECK_STR(text, fields);
}

static bool are_one(cb_box *b, const char *path, const char *other)
{
	cb_error err = {0};
	cb_stat_info x = CB_INIT(cb_stat_info), y = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &x, &err));
	CHECK_OK(cb_stat(b, other, 0, &y, &err));
	return x.ino == y.ino;
}

enum { ALIVE_ASIDE, ALIVE_LINKED, ALIVES };
enum { INTO_OURS, INTO_THEIRS, COMMITTED, WAYS };

/* Ours saves the last line; theirs saves `text` and does something more. */
static sides open_replaced(int alive, int way, const char *text, deed *more)
{
	sides p = sides_open(true, alive == ALIVE_LINKED ? file_a_and_b : file_a);
	if (way == COMMITTED) {
		cb_box_close(p.theirs);
		p.theirs = must_begin(p.ours);
	}
	must_renew(p.ours, "/work/a", LAST);
	if (alive == ALIVE_ASIDE) backed_up(p.theirs, text);
	else must_renew(p.theirs, "/work/a", text);
	if (more) more(p.theirs);
	return p;
}

static cb_box *merged(sides *p, int way)
{
	cb_error err = {0};
	if (way == INTO_OURS) must_merge(p->ours, p->theirs, CB_PREFER_NONE);
	else if (way == INTO_THEIRS) must_merge(p->theirs, p->ours, CB_PREFER_NONE);
	else CHECK_OK(cb_txn_commit(p->theirs, NULL, NULL, &err));
	return way == INTO_THEIRS ? p->theirs : p->ours;
}

static void sets_fields(cb_box *b)
{
	set_fields(b, 0700, "v");
}

TEST(fields_that_one_side_changed)
{
	for (int i = 0; i < ALIVES * WAYS; i++) {
		sides p = open_replaced(i / WAYS, i % WAYS, FIRST, sets_fields);
		cb_box *b = merged(&p, i % WAYS);
		CHECK_STR(must_read(b, "/work/a"), BOTH);
		must_have(b, "/work/a", "700 m=v user.x=v t");
		must_have(b, i / WAYS == ALIVE_ASIDE ? "/work/a~" : "/work/b", "644 old=0");
		sides_close(&p);
	}
}

/* Also where both wrote the same. */
TEST(fields_of_equal_files)
{
	for (int i = 0; i < ALIVES * 2; i++) {
		sides p = open_replaced(i / 2, i % 2, LAST, sets_fields);
		cb_box *b = merged(&p, i % 2);
		CHECK_STR(must_read(b, "/work/a"), LAST);
		must_have(b, "/work/a", "700 m=v user.x=v t");
		sides_close(&p);
	}
}

TEST(fields_that_both_changed)
{
	for (int i = 0; i < ALIVES * 2; i++) {
		sides p = open_replaced(i / 2, i % 2, FIRST, sets_fields);
		set_fields(p.ours, 0750, "w");
		cb_box *into = i % 2 ? p.theirs : p.ours, *from = i % 2 ? p.ours : p.theirs;
		must_conflict(into, from, "1 conflict: /work/a ");
		must_merge(into, from, i % 2 ? CB_PREFER_THEIRS : CB_PREFER_OURS);
		CHECK_STR(must_read(into, "/work/a"), BOTH);
		must_have(into, "/work/a", "750 m=w user.x=w t");
		sides_close(&p);
	}
}

static void gives_names(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	CHECK_OK(cb_link(b, "/work/a", "/work/d/g", &err));
	CHECK_OK(cb_link(b, "/work/a", "/g", &err)); /* comes before the others, by the number of its folder */
}

TEST(further_names_are_of_the_merged_file)
{
	for (int i = 0; i < ALIVES * WAYS; i++) {
		sides p = open_replaced(i / WAYS, i % WAYS, FIRST, gives_names);
		cb_box *b = merged(&p, i % WAYS);
		CHECK_STR(must_read(b, "/work/a"), BOTH);
		CHECK(are_one(b, "/work/a", "/work/d/g"));
		CHECK(are_one(b, "/work/a", "/g"));
		sides_close(&p);
	}
}

static void files_a_and_b(cb_box *b)
{
	file_a(b);
	must_write(b, "/work/b", "b\n");
}

/* Ours has one new file in the place of two, theirs another in each: which names are one file is in conflict, also where their texts would
 * not be, and whoever is preferred has it as it made it. It depended on the direction. */
TEST(one_new_file_against_two)
{
	static const char *const texts[] = {"b\n", "other\n"};
	cb_error err = {0};
	for (int i = 0; i < 2 * 2 * 2; i++) {
		bool into = i & 1, wins = i & 2;
		sides p = sides_open(true, files_a_and_b);
		mv(p.ours, "/work/b", "/work/b~");
		backed_up(p.ours, FIRST);
		CHECK_OK(cb_link(p.ours, "/work/a", "/work/b", &err));
		must_renew(p.theirs, "/work/a", LAST);
		must_renew(p.theirs, "/work/b", texts[i >> 2]);
		cb_box *b = into ? p.theirs : p.ours, *from = into ? p.ours : p.theirs;
		must_conflict(b, from, "2 conflicts: /work/a (added on both sides), /work/b (added on both sides)");
		must_merge(b, from, into != wins ? CB_PREFER_THEIRS : CB_PREFER_OURS);
		CHECK_STR(must_read(b, "/work/a"), wins ? LAST : FIRST);
		CHECK_STR(must_read(b, "/work/b"), wins ? texts[i >> 2] : FIRST);
		CHECK(are_one(b, "/work/a", "/work/b") == !wins);
		sides_close(&p);
	}
}

static void three_files(cb_box *b)
{
	must_write(b, "/work/a", OLD);
	must_write(b, "/work/b", OLD);
	must_write(b, "/work/c", OLD);
}

static void a_is_backed_up_and_b_goes(cb_box *b)
{
	backed_up(b, FIRST);
	rm(b, "/work/b");
}

static void a_is_backed_up_and_c_covers_b(cb_box *b)
{
	backed_up(b, FIRST);
	mv(b, "/work/c", "/work/b");
}

static void b_covers_a(cb_box *b)
{
	mv(b, "/work/b", "/work/a");
}

static void a_is_written_and_covers_c_and_b_comes_for_it(cb_box *b)
{
	must_write(b, "/work/a", "written\n");
	mv(b, "/work/a", "/work/c");
	mv(b, "/work/b", "/work/a");
}

static void b_is_saved_and_linked_over_a(cb_box *b)
{
	cb_error err = {0};
	must_renew(b, "/work/b", LAST);
	rm(b, "/work/a");
	CHECK_OK(cb_link(b, "/work/b", "/work/a", &err));
}

/* Settled for the winner, whichever side is merged or committed into the other. */
static void must_be_won(deed *loser, deed *winner, const char *text)
{
	for (int way = 0; way < 4; way++) {
		cb_error err = {0};
		sides p = sides_open(true, three_files);
		cb_box *other = way < 2 ? p.theirs : must_begin(p.ours);
		cb_prefer prefer = way % 2 ? CB_PREFER_THEIRS : CB_PREFER_OURS;
		(way % 2 ? loser : winner)(p.ours);
		(way % 2 ? winner : loser)(other);
		if (way < 2) must_conflict(p.ours, other, " conflict");
		if (way < 2) must_merge(p.ours, other, prefer);
		else CHECK_OK(cb_txn_commit(other, &CB_WITH(cb_commit_options, .prefer = prefer), NULL, &err));
		CHECK_STR(must_read(p.ours, "/work/a"), text);
		if (way >= 2) cb_box_close(other);
		sides_close(&p);
	}
}

/* A file that one side moved over the old one is itself, and no new one in its place: where the other side had removed that file, its new
 * one was joined with it by lines, in one direction only. */
TEST(another_file_came_over_it)
{
	must_be_won(a_is_backed_up_and_b_goes, b_covers_a, OLD);
	must_be_won(b_covers_a, a_is_backed_up_and_b_goes, FIRST);
	must_be_won(a_is_backed_up_and_c_covers_b, a_is_written_and_covers_c_and_b_comes_for_it, OLD);
	must_be_won(a_is_written_and_covers_c_and_b_comes_for_it, a_is_backed_up_and_c_covers_b, FIRST);
	must_be_won(a_is_backed_up_and_b_goes, b_is_saved_and_linked_over_a, LAST);
	must_be_won(b_is_saved_and_linked_over_a, a_is_backed_up_and_b_goes, FIRST);
}
