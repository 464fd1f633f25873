/*
 * answers_in_commits.c: a transaction asked about a path and went on as if nothing had been answered, since it took the conflict for one
 * about what a file holds: a name that both made, a file that both deleted, a name that both took away. The last was told under another
 * name of the file, which nobody had touched, and came out the same whoever was preferred.
 */
#include "harness/sides.h"

static void exchange(cb_box *b, const char *x, const char *y)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, x, y, CB_EXCHANGE, &err));
}

typedef struct told {
	char names[16]; /* in /work, one letter each; those that contradict as capitals */
	size_t count;
} told;

static cb_code note_told(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	told *t = context;
	char name = c->path[strlen("/work/")];
	CHECK(t->count + 1 < sizeof(t->names));
	t->names[t->count++] = c->contradicts ? (char)(name - 'a' + 'A') : name;
	return CB_OK;
}

/* asked: by the first commit. for_box, for_txn: the answers of the second. result: of the box; NULL: it says then what `left` has. */
static void must_answer(deed *base, deed *box, deed *txn, const char *asked, const char *for_box, const char *for_txn,
                        const char *result, const char *left)
{
	cb_error err = {0};
	sides p = sides_open(true, base);
	cb_box *t = must_begin(p.ours);
	told first = {0}, then = {0};
	cb_resolution said[16];
	char paths[16][16];
	size_t count = 0;
	txn(t);
	box(p.ours);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	CHECK_OK(cb_txn_conflicts(t, note_told, &first, &err));
	CHECK_STR(first.names, asked);
	for (const char *all[] = {for_box, for_txn}, **side = all; side < all + 2; side++) {
		for (const char *name = *side; *name; name++, count++) {
			(void)snprintf(paths[count], sizeof(paths[0]), "/work/%c", *name);
			said[count] = (cb_resolution){paths[count], side == all ? CB_PREFER_BOX : CB_PREFER_TXN};
		}
	}
	cb_commit_options how = CB_WITH(cb_commit_options, .resolutions = said, .resolution_count = count);
	CHECK_CODE(cb_txn_commit(t, &how, NULL, &err), result ? CB_OK : CB_CONFLICT);
	if (result) must_show(p.ours, result);
	if (!result) CHECK_OK(cb_txn_conflicts(t, note_told, &then, &err));
	if (!result) CHECK_STR(then.names, left);
	cb_box_close(t);
	sides_close(&p);
}

static void three_files(cb_box *b)
{
	must_write(b, "/work/a", "1");
	must_write(b, "/work/b", "2");
	must_write(b, "/work/c", "3");
}

/* ---- a name that both made ---- */

static void b_becomes_n(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/b", "/work/n", CB_NOREPLACE, &err));
}

static void b_becomes_n_for_a(cb_box *b)
{
	b_becomes_n(b);
	exchange(b, "/work/n", "/work/a");
}

TEST(a_name_that_both_made)
{
	must_answer(three_files, b_becomes_n_for_a, b_becomes_n, "na", "a", "n", NULL, "N");
	must_answer(three_files, b_becomes_n_for_a, b_becomes_n, "na", "na", "", "a=2 c=3 n=1", NULL);
	must_answer(three_files, b_becomes_n_for_a, b_becomes_n, "na", "", "na", "a=1 c=3 n=2", NULL);
}

static void b_is_linked_to_n(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, "/work/b", "/work/n", &err));
}

/* One gave the file the name, the other renamed it to that: half a rename is none. */
TEST(a_name_given_and_renamed_to)
{
	must_answer(three_files, b_is_linked_to_n, b_becomes_n, "n", "n", "", "a=1 b=2 c=3 n=2", NULL);
	must_answer(three_files, b_is_linked_to_n, b_becomes_n, "n", "", "n", "a=1 c=3 n=2", NULL);
	must_answer(three_files, b_becomes_n, b_is_linked_to_n, "n", "n", "", "a=1 c=3 n=2", NULL);
	must_answer(three_files, b_becomes_n, b_is_linked_to_n, "n", "", "n", "a=1 b=2 c=3 n=2", NULL);
}

static void n_comes_and_a_is_written(cb_box *b)
{
	must_write(b, "/work/n", "BOX");
	must_write(b, "/work/a", "BOX");
}

static void n_comes_and_goes_and_a_is_written(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_write_file(b, "/work/n", "TXN", 3, &CB_WITH(cb_write_options, .expected_version = CB_VERSION_ABSENT), &err));
	rm(b, "/work/n");
	must_write(b, "/work/a", "TXN");
}

/* It relied on the absence of the name, and has no use for it any more: whoever is preferred, the other's file stays. */
TEST(a_name_that_one_gave_up_again)
{
	must_answer(three_files, n_comes_and_a_is_written, n_comes_and_goes_and_a_is_written, "na", "a", "n", "a=BOX b=2 c=3 n=BOX",
	            NULL);
	must_answer(three_files, n_comes_and_a_is_written, n_comes_and_goes_and_a_is_written, "na", "n", "a", "a=TXN b=2 c=3 n=BOX",
	            NULL);
}

/* ---- a file that both deleted ---- */

static void c_goes(cb_box *b)
{
	rm(b, "/work/c");
}

static void b_over_c(cb_box *b)
{
	mv(b, "/work/b", "/work/c");
}

static void c_goes_and_a_is_written(cb_box *b)
{
	c_goes(b);
	must_write(b, "/work/a", "TXN");
}

static void b_over_c_and_a_is_written(cb_box *b)
{
	b_over_c(b);
	must_write(b, "/work/a", "BOX");
}

TEST(a_file_that_both_deleted)
{
	must_answer(three_files, b_over_c, c_goes, "c", "c", "", "a=1 c=2", NULL);
	must_answer(three_files, b_over_c, c_goes, "c", "", "c", "a=1 b=2", NULL);
	must_answer(three_files, c_goes, b_over_c, "c", "", "c", "a=1 c=2", NULL);
	must_answer(three_files, c_goes, b_over_c, "c", "c", "", "a=1 b=2", NULL);
	must_answer(three_files, b_over_c_and_a_is_written, c_goes_and_a_is_written, "ca", "a", "c", "a=BOX b=2", NULL);
	must_answer(three_files, b_over_c_and_a_is_written, c_goes_and_a_is_written, "ca", "c", "a", "a=TXN c=2", NULL);
}

/* ---- a name that both took away ---- */

static void b_is_linked_as_h(cb_box *b)
{
	cb_error err = {0};
	three_files(b);
	CHECK_OK(cb_link(b, "/work/b", "/work/h", &err));
}

static void b_goes(cb_box *b)
{
	rm(b, "/work/b");
}

static void b_becomes_m(cb_box *b)
{
	mv(b, "/work/b", "/work/m");
}

static void b_becomes_a_folder(cb_box *b)
{
	rm(b, "/work/b");
	must_write(b, "/work/b/x", "x");
}

TEST(a_name_that_both_took_away)
{
	must_answer(b_is_linked_as_h, b_goes, b_goes, "b", "b", "", "a=1 c=3 h=2", NULL);
	must_answer(b_is_linked_as_h, b_over_c, b_goes, "b", "b", "", "a=1 c=2 h=2", NULL);
	must_answer(b_is_linked_as_h, b_over_c, b_goes, "b", "", "b", "a=1 c=3 h=2", NULL);
	must_answer(b_is_linked_as_h, b_goes, b_over_c, "b", "b", "", "a=1 c=3 h=2", NULL);
	must_answer(b_is_linked_as_h, b_goes, b_over_c, "b", "", "b", "a=1 c=2 h=2", NULL);
	must_answer(b_is_linked_as_h, b_becomes_n, b_becomes_m, "b", "b", "", "a=1 c=3 h=2 n=2", NULL);
	must_answer(b_is_linked_as_h, b_becomes_n, b_becomes_m, "b", "", "b", "a=1 c=3 h=2 m=2", NULL);
	must_answer(b_is_linked_as_h, b_becomes_a_folder, b_goes, "b", "b", "", "a=1 b/ b/x=x c=3 h=2", NULL);
	must_answer(b_is_linked_as_h, b_becomes_a_folder, b_goes, "b", "", "b", "a=1 c=3 h=2", NULL);
	must_answer(b_is_linked_as_h, b_goes, b_becomes_a_folder, "b", "b", "", "a=1 c=3 h=2", NULL);
	must_answer(b_is_linked_as_h, b_goes, b_becomes_a_folder, "b", "", "b", "a=1 b/ b/x=x c=3 h=2", NULL);
}
