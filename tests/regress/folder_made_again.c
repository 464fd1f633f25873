/*
 * A folder that one side removed and made again is the same folder, as a file that was saved by rename is the same file: the other side's
 * deletions in it are not lost, and its changes merge by name. Both directions, as git decides.
 */
#include "harness/boxes.h"

enum { FOLDER_LINES = 8 };

static const char *lines(char name, int changed)
{
	static char text[4][512];
	static unsigned turn;
	char *out = text[turn++ % 4];
	out[0] = 0;
	for (int i = 0; i < FOLDER_LINES; i++)
		(void)snprintf(out + strlen(out), 512 - strlen(out), "%c line %d%s\n", name, i, i == changed ? " changed" : "");
	return out;
}

static void make_again(cb_box *b, int a, int c)
{
	cb_error err = {0};
	cb_box *t = must_begin(b);
	CHECK_OK(cb_remove(t, "/work/e", &err));
	CHECK_OK(cb_mkdir(t, "/work/e", 0755, 0, &err));
	must_write(t, "/work/e/a", lines('a', a));
	must_write(t, "/work/e/b", lines('b', c));
	(void)must_commit(t);
}

typedef void deed(cb_box *b);

static void again(cb_box *b)
{
	make_again(b, -1, -1);
}

static void again_a0(cb_box *b)
{
	make_again(b, 0, -1);
}

static void again_a7(cb_box *b)
{
	make_again(b, 7, -1);
}

static void again_b7(cb_box *b)
{
	make_again(b, -1, 7);
}

static void rm_a(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, "/work/e/a", &err));
}

static void rm_b(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, "/work/e/b", &err));
}

static void rm_e(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_remove(b, "/work/e", &err));
}

static void edit_a0(cb_box *b)
{
	must_write(b, "/work/e/a", lines('a', 0));
}

static void mode_a(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_chmod(b, "/work/e/a", 0755, 0, &err));
}

static void tag_e(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_tag_add(b, "/work/e", "t", &err));
}

static void add_c(cb_box *b)
{
	must_write(b, "/work/e/c", "c\n");
}

/* What a and b must have in the end: NULL not there, "" a conflict in it. */
typedef struct made_again {
	const char *name;
	deed *one, *other;
	const char *a, *b, *also;
} made_again;

static unsigned changed_lines(const char *text)
{
	unsigned n = 0;
	for (const char *p = text; (p = strstr(p, "changed")) != NULL; p++) n++;
	return n;
}

static void judge(cb_box *b, const char *name, const char *path, const char *want)
{
	char have[8] = "-";
	if (exists(b, path)) (void)snprintf(have, sizeof(have), "%u", changed_lines(must_read(b, path)));
	CHECK_MSG(strcmp(have, want) == 0, "%s: %s has %s changed lines, not %s", name, path, have, want);
}

TEST(a_folder_made_again_is_the_same)
{
	static const made_again all[] = {
		{"rm b, made again", rm_b, again, "0", "-", NULL},
		{"rm a, made again with another a", rm_a, again_a0, "?", "0", NULL},
		{"rm e, made again", rm_e, again, "-", "-", NULL},
		{"rm e, made again with another a", rm_e, again_a0, "?", "?", NULL},
		{"edit a, made again", edit_a0, again, "1", "0", NULL},
		{"edit a, made again with another line", edit_a0, again_a7, "2", "0", NULL},
		{"mode of a, made again", mode_a, again_a7, "1", "0", NULL},
		{"both made again", again_a0, again_a7, "2", "0", NULL},
		{"both made again, another file", again_a0, again_b7, "1", "1", NULL},
		{"tag of the folder, made again", tag_e, again, "0", "0", NULL},
		{"a new file, made again", add_c, again, "0", "0", "/work/e/c"},
	};
	for (size_t i = 0; i < 2 * sizeof(all) / sizeof(*all); i++) {
		const made_again *x = &all[i / 2];
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		CHECK_OK(cb_mkdir(b, "/work/e", 0755, 0, &err));
		must_write(b, "/work/e/a", lines('a', -1));
		must_write(b, "/work/e/b", lines('b', -1));
		cb_box *f = must_fork(s, "demo", "f");
		(i % 2 ? x->other : x->one)(b);
		(i % 2 ? x->one : x->other)(f);
		cb_code code = cb_merge(b, f, NULL, NULL, NULL, &err);
		CHECK_MSG(code == (x->a[0] == '?' ? CB_CONFLICT : CB_OK), "%s: %s", x->name, err.message);
		if (code == CB_CONFLICT) {
			CHECK_MSG(strstr(err.message, "/work/e/a"), "%s: %s", x->name, err.message);
		} else {
			judge(b, x->name, "/work/e/a", x->a);
			judge(b, x->name, "/work/e/b", x->b);
			CHECK(!x->also || exists(b, x->also));
			if (x->one == mode_a) {
				cb_stat_info info = CB_INIT(cb_stat_info);
				CHECK_OK(cb_stat(b, "/work/e/a", 0, &info, &err));
				CHECK_U64(info.mode & 0777, 0755);
			}
		}
		test_store_sound(s);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* Folders in folders, and what is decided for either side. */
TEST(nested_and_decided)
{
	for (int way = 0; way < 4; way++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		CHECK_OK(cb_mkdir(b, "/work/e/f/g", 0755, CB_PARENTS, &err));
		must_write(b, "/work/e/f/g/a", "a\n");
		must_write(b, "/work/e/f/b", "b\n");
		cb_box *f = must_fork(s, "demo", "f"), *maker = way % 2 ? b : f, *other = way % 2 ? f : b;
		cb_box *t = must_begin(maker);
		CHECK_OK(cb_remove(t, "/work/e", &err));
		CHECK_OK(cb_mkdir(t, "/work/e/f/g", 0755, CB_PARENTS, &err));
		must_write(t, "/work/e/f/g/a", "other\n");
		must_write(t, "/work/e/f/b", "b\n");
		(void)must_commit(t);
		CHECK_OK(cb_unlink(other, "/work/e/f/g/a", &err));
		CHECK_OK(cb_unlink(other, "/work/e/f/b", &err));
		CHECK_CODE(cb_merge(b, f, NULL, NULL, NULL, &err), CB_CONFLICT);
		CHECK_MSG(!strstr(err.message, "/work/e/f/b"), "%s", err.message);
		bool for_maker = way / 2;
		cb_prefer prefer = (maker == b) == for_maker ? CB_PREFER_OURS : CB_PREFER_THEIRS;
		CHECK_OK(cb_merge(b, f, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, &err));
		CHECK(exists(b, "/work/e/f/g/a") == for_maker);
		CHECK(!exists(b, "/work/e/f/b"));
		test_store_sound(s);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}
