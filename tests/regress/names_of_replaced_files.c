/*
 * names_of_replaced_files.c: a merge decides about every name of a file with several, also about those under which a side has a new file.
 * A name that theirs deleted and ours made anew, with the same bytes, stayed; one under which both had put new files was taken for agreed.
 */
#include "harness/sides.h"

static const char *const OLD = "1\n2\n3\n4\n5\n6\n7\n", *const FIRST = "one\n2\n3\n4\n5\n6\n7\n",
			 *const LAST = "1\n2\n3\n4\n5\n6\nseven\n";

static void file_a(cb_box *b)
{
	must_write(b, "/work/a", OLD);
}

static void file_a_and_b(cb_box *b)
{
	cb_error err = {0};
	file_a(b);
	CHECK_OK(cb_link(b, "/work/a", "/work/b", &err));
}

/* Both replace /work/a, each by other lines; ours keeps the file as /work/c and makes /work/b anew; theirs deletes /work/b. */
static sides put_aside(const char *renewed)
{
	cb_error err = {0};
	sides p = sides_open(true, file_a_and_b);
	CHECK_OK(cb_link(p.ours, "/work/a", "/work/c", &err));
	must_renew(p.ours, "/work/a", FIRST);
	must_renew(p.ours, "/work/b", renewed);
	must_renew(p.theirs, "/work/a", LAST);
	CHECK_OK(cb_unlink(p.theirs, "/work/b", &err));
	return p;
}

TEST(deleted_there_and_renewed_here)
{
	sides p = put_aside(OLD);
	must_merge(p.ours, p.theirs, CB_PREFER_NONE);
	CHECK_STR(must_read(p.ours, "/work/a"), "one\n2\n3\n4\n5\n6\nseven\n");
	CHECK(!exists(p.ours, "/work/b"));
	CHECK_STR(must_read(p.ours, "/work/c"), OLD);
	sides_close(&p);
}

TEST(deleted_here_and_renewed_there)
{
	sides p = put_aside(OLD);
	must_merge(p.theirs, p.ours, CB_PREFER_NONE);
	CHECK(!exists(p.theirs, "/work/b"));
	CHECK_STR(must_read(p.theirs, "/work/c"), OLD);
	sides_close(&p);
}

TEST(deleted_there_and_changed_here)
{
	for (int theirs = 0; theirs < 2; theirs++) {
		sides p = put_aside("new\n");
		must_conflict(p.ours, p.theirs, "1 conflict: /work/b ");
		cb_prefer prefer = theirs ? CB_PREFER_THEIRS : CB_PREFER_OURS;
		must_merge(p.ours, p.theirs, prefer);
		CHECK(exists(p.ours, "/work/b") == !theirs);
		sides_close(&p);
	}
}

/* The same where theirs deleted the file with all its names. */
TEST(deleted_there_under_all_names)
{
	cb_error err = {0};
	for (int how = 0; how < 4; how++) {
		sides p = sides_open(true, file_a_and_b);
		must_renew(p.ours, "/work/b", how % 2 ? "new\n" : OLD);
		CHECK_OK(cb_unlink(p.theirs, "/work/a", &err));
		CHECK_OK(cb_unlink(p.theirs, "/work/b", &err));
		CHECK_CODE(cb_merge(p.ours, p.theirs, NULL, NULL, NULL, &err), CB_CONFLICT);
		CHECK_MSG(how % 2 == (strstr(err.message, "/work/b ") != NULL), "%s", err.message);
		cb_prefer prefer = how / 2 ? CB_PREFER_THEIRS : CB_PREFER_OURS;
		must_merge(p.ours, p.theirs, prefer);
		CHECK(exists(p.ours, "/work/a") == (how / 2 == 0));
		CHECK(exists(p.ours, "/work/b") == (how == 1));
		sides_close(&p);
	}
}

/* Both call the file /work/c now, and ours has a new one where it was. */
TEST(moved_on_both_sides_and_changed_here)
{
	cb_error err = {0};
	for (int changed = 0; changed < 2; changed++) {
		sides p = sides_open(true, file_a_and_b);
		cb_box *both[] = {p.ours, p.theirs};
		for (int i = 0; i < 2; i++) {
			CHECK_OK(cb_unlink(both[i], "/work/b", &err));
			CHECK_OK(cb_rename(both[i], "/work/a", "/work/c", 0, &err));
		}
		must_write(p.ours, "/work/b", changed ? "new\n" : OLD);
		CHECK_CODE(cb_merge(p.ours, p.theirs, NULL, NULL, NULL, &err), changed ? CB_CONFLICT : CB_OK);
		if (changed) CHECK_MSG(strstr(err.message, "1 conflict: /work/b "), "%s", err.message);
		else CHECK(!exists(p.ours, "/work/b"));
		CHECK_STR(must_read(p.ours, "/work/c"), OLD);
		sides_close(&p);
	}
	sides p = sides_open(true, file_a);
	CHECK_OK(cb_rename(p.ours, "/work/a", "/work/c", 0, &err));
	CHECK_OK(cb_rename(p.theirs, "/work/a", "/work/c", 0, &err));
	must_write(p.ours, "/work/a", "new\n");
	must_conflict(p.ours, p.theirs, "1 conflict: /work/a ");
	sides_close(&p);
}

/* Both replace /work/a; theirs keeps the file as /work/c and deletes /work/b, which ours made anew. */
TEST(put_aside_and_deleted_there)
{
	cb_error err = {0};
	for (int how = 0; how < 3; how++) {
		sides p = sides_open(true, file_a_and_b);
		CHECK_OK(cb_link(p.theirs, "/work/a", "/work/c", &err));
		must_renew(p.theirs, "/work/a", LAST);
		CHECK_OK(cb_unlink(p.theirs, "/work/b", &err));
		must_renew(p.ours, "/work/a", FIRST);
		must_renew(p.ours, "/work/b", how ? "new\n" : OLD);
		CHECK_CODE(cb_merge(p.ours, p.theirs, NULL, NULL, NULL, &err), how ? CB_CONFLICT : CB_OK);
		if (how) CHECK_MSG(strstr(err.message, "1 conflict: /work/b "), "%s", err.message);
		cb_prefer prefer = how == 2 ? CB_PREFER_THEIRS : CB_PREFER_OURS;
		if (how) must_merge(p.ours, p.theirs, prefer);
		CHECK_STR(must_read(p.ours, "/work/a"), "one\n2\n3\n4\n5\n6\nseven\n");
		CHECK(exists(p.ours, "/work/b") == (how == 1));
		CHECK_STR(must_read(p.ours, "/work/c"), OLD);
		sides_close(&p);
	}
}

/* Both replace /work/a; what the one who keeps the file does to it as /work/b comes into what the other made anew there. */
TEST(put_aside_and_changed_under_a_name_made_anew)
{
	cb_error err = {0};
	for (int into_keeper = 0; into_keeper < 2; into_keeper++) {
		sides p = sides_open(true, file_a_and_b);
		cb_box *maker = into_keeper ? p.theirs : p.ours, *keeper = into_keeper ? p.ours : p.theirs;
		must_renew(maker, "/work/a", FIRST);
		must_renew(maker, "/work/b", FIRST);
		must_renew(keeper, "/work/a", LAST);
		must_write(keeper, "/work/b", LAST);
		CHECK_OK(cb_chmod(keeper, "/work/b", 0600, 0, &err));
		must_merge(p.ours, p.theirs, CB_PREFER_NONE);
		CHECK_STR(must_read(p.ours, "/work/a"), "one\n2\n3\n4\n5\n6\nseven\n");
		CHECK_STR(must_read(p.ours, "/work/b"), "one\n2\n3\n4\n5\n6\nseven\n");
		cb_stat_info st = CB_INIT(cb_stat_info);
		CHECK_OK(cb_stat(p.ours, "/work/b", 0, &st, &err));
		CHECK_U64(st.mode & 07777, 0600);
		sides_close(&p);
	}
}

/* Two files of two names each. One side puts one new file under a name of each: it gets what the other did to both of them. */
TEST(one_new_file_for_two)
{
	cb_error err = {0};
	for (int into_editor = 0; into_editor < 2; into_editor++) {
		sides p = sides_open(true, file_a_and_b);
		must_write(p.ours, "/work/c", OLD);
		CHECK_OK(cb_link(p.ours, "/work/c", "/work/d", &err));
		cb_box *editor = must_fork(p.s, "ours", "editor");
		must_renew(p.ours, "/work/a", FIRST);
		CHECK_OK(cb_unlink(p.ours, "/work/c", &err));
		CHECK_OK(cb_link(p.ours, "/work/a", "/work/c", &err));
		must_write(editor, "/work/a", "1\n2\n3\nfour\n5\n6\n7\n");
		must_write(editor, "/work/c", LAST);
		cb_box *into = into_editor ? editor : p.ours, *from = into_editor ? p.ours : editor;
		must_merge(into, from, CB_PREFER_NONE);
		CHECK_STR(must_read(into, "/work/c"), "one\n2\n3\nfour\n5\n6\nseven\n");
		CHECK_STR(must_read(into, "/work/d"), LAST);
		cb_box_close(editor);
		sides_close(&p);
	}
}

/* Transactions rely on what they made: also an equal file is a change. */
TEST(a_renewed_name_in_a_transaction)
{
	cb_error err = {0};
	sides p = sides_open(true, file_a_and_b);
	cb_box *t = must_begin(p.ours);
	CHECK_OK(cb_unlink(t, "/work/b", &err));
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	must_write(t, "/work/a", LAST);
	CHECK_OK(cb_link(p.ours, "/work/a", "/work/c", &err));
	must_renew(p.ours, "/work/a", FIRST);
	must_renew(p.ours, "/work/b", OLD);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	CHECK_MSG(strstr(err.message, "/work/b"), "%s", err.message);
	cb_box_close(t);
	sides_close(&p);
}

/* Both save one of its names by rename: other lines are joined, and nobody deleted anything. */
TEST(one_name_replaced_on_both_sides)
{
	sides p = sides_open(true, file_a_and_b);
	must_renew(p.ours, "/work/a", FIRST);
	must_renew(p.theirs, "/work/a", LAST);
	must_merge(p.ours, p.theirs, CB_PREFER_NONE);
	CHECK_STR(must_read(p.ours, "/work/a"), "one\n2\n3\n4\n5\n6\nseven\n");
	CHECK_STR(must_read(p.ours, "/work/b"), OLD);
	sides_close(&p);
}

/* In a transaction lines are joined where both have new ones; the same lines, or the old ones made anew, conflict. */
TEST(one_name_replaced_beside_a_transaction)
{
	static const char *const *const texts[][2] = {
		{&FIRST, &LAST}, {&FIRST, &FIRST}, {&OLD, &LAST}, {&FIRST, &OLD}, {&OLD, &OLD}};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		cb_error err = {0};
		sides p = sides_open(true, file_a_and_b);
		cb_box *t = must_begin(p.ours);
		must_renew(t, "/work/a", *texts[i][0]);
		must_renew(p.ours, "/work/a", *texts[i][1]);
		cb_code code = cb_txn_commit(t, NULL, NULL, &err);
		CHECK_MSG(code == (i == 0 ? CB_OK : CB_CONFLICT), "%zu: %s", i, cb_code_name(code));
		if (i) CHECK_MSG(strstr(err.message, "/work/a"), "%s", err.message);
		cb_box_close(t);
		sides_close(&p);
	}
}

/* Both replace the file by a new one, which both also call /work/c: under that name nothing says that the two are one. */
TEST(new_name_for_both_replacements)
{
	cb_error err = {0};
	for (int theirs = 0; theirs < 2; theirs++) {
		sides p = sides_open(true, file_a);
		must_renew(p.ours, "/work/a", FIRST);
		must_renew(p.theirs, "/work/a", LAST);
		CHECK_OK(cb_link(p.ours, "/work/a", "/work/c", &err));
		CHECK_OK(cb_link(p.theirs, "/work/a", "/work/c", &err));
		must_conflict(p.ours, p.theirs, "1 conflict: /work/c ");
		cb_prefer prefer = theirs ? CB_PREFER_THEIRS : CB_PREFER_OURS;
		must_merge(p.ours, p.theirs, prefer);
		CHECK_STR(must_read(p.ours, "/work/a"), "one\n2\n3\n4\n5\n6\nseven\n");
		if (theirs) CHECK_STR(must_read(p.ours, "/work/c"), LAST);
		sides_close(&p);
	}
}
