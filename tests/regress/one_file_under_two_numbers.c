/*
 * one_file_under_two_numbers.c: boxes that merged each other crosswise, where one had replaced a file, or both had made it alike. Each goes
 * on with its own. The base, made of both, has one of the two, and the other passed for a new file: removed on one side and renamed on the
 * other, it came back without a conflict.
 */
#include "harness/sides.h"

static cb_error err;

static uint64_t ino_of(cb_box *b, const char *path)
{
	cb_stat_info st = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &st, &err));
	return st.ino;
}

/* Each merges what the other had then; `path` has two numbers after that. */
static sides open_crossed(deed *base, deed *here, deed *there, const char *path)
{
	sides p = sides_open(true, base);
	here(p.ours);
	there(p.theirs);
	cb_box *ours = must_fork(p.s, "ours", "ours-then"), *theirs = must_fork(p.s, "theirs", "theirs-then");
	must_merge(p.ours, theirs, CB_PREFER_NONE);
	must_merge(p.theirs, ours, CB_PREFER_NONE);
	cb_box_close(ours);
	cb_box_close(theirs);
	CHECK(ino_of(p.ours, path) != ino_of(p.theirs, path));
	return p;
}

static void file_f(cb_box *b)
{
	must_write(b, "/work/f", "1\n2\n3\n");
}

static void f_is_saved(cb_box *b)
{
	must_renew(b, "/work/f", "1\n2\n3\nnew\n");
}

static void f_gets_a_mode(cb_box *b)
{
	CHECK_OK(cb_chmod(b, "/work/f", 0600, 0, &err));
}

static void nothing(cb_box *b)
{
	(void)b;
}

static void f_is_made(cb_box *b)
{
	must_write(b, "/work/f", "1\n2\n3\nnew\n");
}

static void folder_f_is_made(cb_box *b)
{
	must_write(b, "/work/f/x", "1\n2\n3\nnew\n");
}

/* Removed on one side and renamed on the other. */
static void removed_and_renamed(deed *base, deed *here, deed *there, bool folder)
{
	for (int way = 0; way < 8; way++) {
		sides p = open_crossed(base, here, there, "/work/f");
		cb_box *removes = way & 1 ? p.ours : p.theirs, *renames = way & 1 ? p.theirs : p.ours;
		cb_box *into = way & 2 ? removes : renames, *from = way & 2 ? renames : removes;
		cb_prefer prefer = way & 4 ? CB_PREFER_OURS : CB_PREFER_THEIRS;
		rm(removes, "/work/f");
		mv(renames, "/work/f", "/work/g");
		must_conflict(into, from, "/work/g");
		must_merge(into, from, prefer);
		bool stays = (prefer == CB_PREFER_OURS) == (into == renames);
		CHECK(!exists(into, "/work/f") && exists(into, "/work/g") == stays);
		if (stays && !folder) CHECK_STR(must_read(into, "/work/g"), "1\n2\n3\nnew\n");
		sides_close(&p);
	}
}

/* Changed on one side and renamed on the other. */
static void changed_and_renamed(deed *base, deed *here, deed *there, bool folder)
{
	for (int way = 0; way < 4; way++) {
		sides p = open_crossed(base, here, there, "/work/f");
		cb_box *changes = way & 1 ? p.ours : p.theirs, *renames = way & 1 ? p.theirs : p.ours;
		cb_box *into = way & 2 ? changes : renames, *from = way & 2 ? renames : changes;
		must_write(changes, folder ? "/work/f/x" : "/work/f", "one\n2\n3\nnew\n");
		mv(renames, "/work/f", "/work/g");
		must_merge(into, from, CB_PREFER_NONE);
		CHECK(!exists(into, "/work/f"));
		CHECK_STR(must_read(into, folder ? "/work/g/x" : "/work/g"), "one\n2\n3\nnew\n");
		sides_close(&p);
	}
}

/* What one side changed is taken from it. */
static void changed_on_one_side(deed *base, deed *here, deed *there)
{
	for (int way = 0; way < 4; way++) {
		sides p = open_crossed(base, here, there, "/work/f");
		cb_box *changes = way & 1 ? p.ours : p.theirs, *other = way & 1 ? p.theirs : p.ours;
		cb_box *into = way & 2 ? changes : other, *from = way & 2 ? other : changes;
		must_write(changes, "/work/f", "one\n2\n3\nnew\n");
		must_write(other, "/work/other", "other");
		must_merge(into, from, CB_PREFER_NONE);
		CHECK_STR(must_read(into, "/work/f"), "one\n2\n3\nnew\n");
		sides_close(&p);
	}
}

TEST(saved_in_one)
{
	removed_and_renamed(file_f, f_is_saved, f_gets_a_mode, false);
	changed_and_renamed(file_f, f_is_saved, f_gets_a_mode, false);
	changed_on_one_side(file_f, f_is_saved, f_gets_a_mode);
}

TEST(made_in_both)
{
	removed_and_renamed(nothing, f_is_made, f_is_made, false);
	changed_and_renamed(nothing, f_is_made, f_is_made, false);
	changed_on_one_side(nothing, f_is_made, f_is_made);
}

TEST(a_folder_made_in_both)
{
	removed_and_renamed(nothing, folder_f_is_made, folder_f_is_made, true);
	changed_and_renamed(nothing, folder_f_is_made, folder_f_is_made, true);
}

static void g_is_a_folder(cb_box *b)
{
	CHECK_OK(cb_mkdir(b, "/work/g", 0755, 0, &err));
}

/* It is that folder still, and not the one whose place it got. */
TEST(a_folder_renamed_over_another)
{
	for (int way = 0; way < 4; way++) {
		sides p = open_crossed(g_is_a_folder, folder_f_is_made, folder_f_is_made, "/work/f");
		cb_box *adds = way & 1 ? p.ours : p.theirs, *renames = way & 1 ? p.theirs : p.ours;
		must_write(adds, "/work/f/y", "y");
		mv(renames, "/work/f", "/work/g");
		must_merge(way & 2 ? adds : renames, way & 2 ? renames : adds, CB_PREFER_NONE);
		CHECK_STR(must_read(way & 2 ? adds : renames, "/work/g/y"), "y");
		CHECK(exists(way & 2 ? adds : renames, "/work/g/x") && !exists(way & 2 ? adds : renames, "/work/f"));
		sides_close(&p);
	}
}

/*
 * Theirs saves it by rename, and again; each merges the other in between, ours the first save. So the pasts have it under two numbers, of
 * which ours goes on with one, and theirs has a third. That ours' is the file itself was forgotten over theirs' new one: ours passed for
 * new as well, and what it had changed was lost.
 */
TEST(saved_again_in_one_and_changed_in_the_other)
{
	for (int way = 0; way < 4; way++) {
		sides p = sides_open(true, file_f);
		must_renew(p.theirs, "/work/f", "1\n2\n3\nnew\n");
		cb_box *once = must_fork(p.s, "theirs", "saved-once");
		f_gets_a_mode(p.ours);
		if (way & 1) must_renew(p.theirs, "/work/f", "1\n2\n3\nnew\nnewer\n");
		else must_write(p.theirs, "/work/f", "1\n2\n3\nnew\nnewer\n");
		must_merge(p.theirs, p.ours, CB_PREFER_NONE);
		must_merge(p.ours, once, CB_PREFER_NONE);
		must_write(p.ours, "/work/f", "one\n2\n3\nnew\n");
		cb_box *into = way & 2 ? p.ours : p.theirs, *from = way & 2 ? p.theirs : p.ours;
		must_merge(into, from, CB_PREFER_NONE);
		CHECK_STR(must_read(into, "/work/f"), "one\n2\n3\nnew\nnewer\n");
		cb_box_close(once);
		sides_close(&p);
	}
}

/* The folder is removed and made again with what is in it. */
static void make_again(cb_box *b, const char *text)
{
	cb_box *t = must_begin(b);
	rm(t, "/work/f");
	must_write(t, "/work/f/x", text);
	(void)must_commit(t);
}

TEST(made_again_in_one_and_changed_in_the_other)
{
	for (int way = 0; way < 4; way++) {
		sides p = sides_open(true, folder_f_is_made);
		make_again(p.theirs, "1\n2\n3\nnew\nnewer\n");
		cb_box *once = must_fork(p.s, "theirs", "made-once");
		must_write(p.ours, "/work/f/y", "y");
		if (way & 1) make_again(p.theirs, "1\n2\n3\nnew\nnewer\nnewest\n");
		else must_write(p.theirs, "/work/f/x", "1\n2\n3\nnew\nnewer\nnewest\n");
		must_merge(p.theirs, p.ours, CB_PREFER_NONE);
		must_merge(p.ours, once, CB_PREFER_NONE);
		must_write(p.ours, "/work/f/x", "one\n2\n3\nnew\nnewer\n");
		must_write(p.ours, "/work/f/z", "z");
		cb_box *into = way & 2 ? p.ours : p.theirs, *from = way & 2 ? p.theirs : p.ours;
		must_merge(into, from, CB_PREFER_NONE);
		must_show(into, "f/ f/x=one\n2\n3\nnew\nnewer\nnewest\n f/y=y f/z=z");
		cb_box_close(once);
		sides_close(&p);
	}
}

/* ---- both sides have it under one number, and the base, made of what they had, under another ---- */

typedef struct ring {
	cb_store *s;
	cb_box *boxes[3], *then[3];
} ring;

/* As they are now. */
static void note_all(ring *r)
{
	for (int i = 0; i < 3; i++) {
		char address[32];
		cb_box_close(r->then[i]);
		(void)snprintf(address, sizeof(address), "%d@%" PRIu64, i, cb_box_step(r->boxes[i]));
		CHECK_OK(cb_box_open(r->s, address, &r->then[i], &err));
	}
}

/* The file is saved by rename in one box and written in another, and goes round three. Box 0 renames it last. */
static ring open_ring(void)
{
	ring r = {.s = test_store_open(true)};
	CHECK_OK(cb_box_create(r.s, "0", &r.boxes[0], &err));
	file_f(r.boxes[0]);
	for (int i = 1; i < 3; i++) r.boxes[i] = must_fork(r.s, "0", i == 1 ? "1" : "2");
	must_renew(r.boxes[1], "/work/f", "1\n2\nX\n");
	must_write(r.boxes[2], "/work/f", "Y");
	note_all(&r);
	must_merge(r.boxes[1], r.then[2], CB_PREFER_THEIRS);
	must_merge(r.boxes[2], r.then[1], CB_PREFER_OURS);
	CHECK_OK(cb_utimens(r.boxes[2], "/work/f", 1000000000, 1000000000, 0, &err));
	note_all(&r);
	must_merge(r.boxes[0], r.then[1], CB_PREFER_NONE);
	must_merge(r.boxes[1], r.then[2], CB_PREFER_NONE);
	must_merge(r.boxes[2], r.then[1], CB_PREFER_NONE);
	note_all(&r);
	must_merge(r.boxes[0], r.then[1], CB_PREFER_NONE);
	must_merge(r.boxes[1], r.then[2], CB_PREFER_NONE);
	must_merge(r.boxes[2], r.then[0], CB_PREFER_NONE);
	mv(r.boxes[0], "/work/f", "/work/g");
	note_all(&r);
	must_merge(r.boxes[0], r.then[1], CB_PREFER_NONE);
	must_merge(r.boxes[2], r.then[0], CB_PREFER_NONE);
	mv(r.boxes[0], "/work/g", "/work/h");
	return r;
}

TEST(one_number_on_both_sides_and_another_in_the_base)
{
	for (int way = 0; way < 6; way++) {
		ring r = open_ring();
		cb_box *into = r.boxes[way & 1 ? 0 : 2], *from = r.boxes[way & 1 ? 2 : 0];
		uint64_t conflicts = 1;
		CHECK(ino_of(r.boxes[0], "/work/h") == ino_of(r.boxes[2], "/work/g"));
		cb_merge_options how = CB_WITH(cb_merge_options, .prefer = (cb_prefer)(way / 2));
		CHECK_OK(cb_merge(into, from, &how, NULL, &conflicts, &err));
		CHECK_U64(conflicts, 0);
		must_show(into, "h=Y");
		test_store_sound(r.s);
		for (int i = 0; i < 3; i++) cb_box_close(r.boxes[i]);
		for (int i = 0; i < 3; i++) cb_box_close(r.then[i]);
		cb_store_close(r.s);
	}
}
