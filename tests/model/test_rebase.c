/*
 * test_rebase.c: a large merge that others overtake is moved onto their work, or computed again: either way the box is as if they had been
 * first. They write while the caller is asked about a conflict, so that the merge is ready for a head that is no longer the head.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cowbox/transfer.h>

#include "box/internal.h"
#include "harness/sides.h"

enum { FILES = 2500 }; /* two keys each: a step that keeps roots instead of a list */

typedef struct world {
	sides sides;
	cb_box *beside; /* a second handle on ours */
	deed *act;
	unsigned times; /* still to be done, each time that the caller is asked */
	bool first;     /* they were first */
} world;

static const char *name_of(unsigned i)
{
	static char path[64];
	(void)snprintf(path, sizeof(path), "/work/big/new%04u", i);
	return path;
}

static void make_base(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/big", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/gone", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/side", 0755, 0, &err));
	CHECK_OK(cb_symlink(b, "side", "/work/link", &err));
	must_write(b, "/work/big/kept", "1\n2\n3\n4\n5\n");
	must_write(b, "/work/gone/a", "a");
	must_write(b, "/work/side/a", "a");
	must_write(b, "/work/small", "0");
	must_write(b, "/work/asked", "0");
	CHECK_OK(cb_kv_set(b, "key", "0", 1, &err));
}

static world open_world(bool memory, deed *act, bool first)
{
	cb_error err = {0};
	const char *name = first ? "first" : "beside", *fork = first ? "first-fork" : "beside-fork";
	world w = {.sides = sides_open_in(test_store_open(memory), name, fork, make_base), .act = act, .times = 1, .first = first};
	must_write(w.sides.ours, "/work/asked", "ours");
	cb_box *t = must_begin(w.sides.theirs);
	for (unsigned i = 0; i < FILES; i++) must_write(t, name_of(i), "new");
	must_write(t, "/work/asked", "theirs");
	must_write(t, "/work/top", "top");
	must_write(t, "/work/big/kept", "1\n2\n3\n4\nfive\n");
	CHECK_OK(cb_remove(t, "/work/gone", &err));
	CHECK_OK(cb_kv_set(t, "key", "theirs", 6, &err));
	(void)must_commit(t);
	w.beside = must_open(w.sides.s, name);
	return w;
}

static void close_world(world *w)
{
	cb_box_close(w->beside);
	sides_close(&w->sides);
}

static cb_prefer resolve(void *context, const cb_conflict *c)
{
	world *w = context;
	(void)c;
	if (!w->first && w->times) {
		w->times--;
		w->act(w->beside);
	}
	return CB_PREFER_THEIRS;
}

/* What became of it, in words: the code, the box, the box after the merge was undone, and after that was. */
static char *outcome(bool memory, deed *act, bool first, bool *out_moved)
{
	cb_error err = {0};
	world w = open_world(memory, act, first);
	if (first) act(w.beside);
	uint64_t seq = 0, back = 0;
	cb_merge_options o = CB_WITH(cb_merge_options, .resolve = resolve, .context = &w);
	cb_code code = cb_merge(w.sides.ours, w.sides.theirs, &o, &seq, NULL, &err);
	AUTO_BUF buf text = BUF_INIT(64 << 20);
	CHECK_OK(buf_printf(&text, &err, "%s\n%s\n", cb_code_name(code), must_dump(w.sides.ours)));
	if (code == CB_OK) {
		/* What was moved has the version that was taken first; the state has a later one. */
		cb_stat_info info = CB_INIT(cb_stat_info);
		*out_moved = cb_stat(w.sides.ours, name_of(1), 0, &info, &err) == CB_OK && info.version != w.sides.ours->head->id;
		CHECK_OK(cb_undo(w.sides.ours, seq, &back, &err));
		CHECK_OK(buf_printf(&text, &err, "%s\n", must_dump(w.sides.ours)));
		CHECK_OK(cb_undo(w.sides.ours, back, NULL, &err));
		CHECK_OK(buf_printf(&text, &err, "%s\n", must_dump(w.sides.ours)));
	}
	close_world(&w);
	return test_keep(TAKE_PTR(text.bytes));
}

static void compare(bool memory, deed *act, bool must_move)
{
	bool moved = false, ignored = false;
	char *beside = outcome(memory, act, false, &moved);
	char *first = outcome(memory, act, true, &ignored);
	size_t at = 0;
	while (beside[at] && beside[at] == first[at]) at++;
	CHECK_MSG(beside[at] == first[at], "beside: %.300s\nfirst: %.300s", beside + (at > 100 ? at - 100 : 0),
	          first + (at > 100 ? at - 100 : 0));
	CHECK_MSG(moved == must_move, "it was %s", moved ? "moved" : "computed again");
}

static cb_error err;

static void write_small(cb_box *b)
{
	must_write(b, "/work/small", "1");
}

static void write_often(cb_box *b)
{
	for (unsigned i = 0; i < 600; i++) { /* past several key frames */
		char path[64], text[16];
		(void)snprintf(path, sizeof(path), "/work/side/%u", i % 50);
		(void)snprintf(text, sizeof(text), "%u", i);
		must_write(b, path, text);
	}
	CHECK_OK(cb_remove(b, "/work/side/7", &err));
	CHECK_OK(cb_rename(b, "/work/side/8", "/work/side/eight", 0, &err));
	CHECK_OK(cb_link(b, "/work/side/9", "/work/side/nine", &err));
	CHECK_OK(cb_chmod(b, "/work/side/10", 0600, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/side/11", "user.x", "y", 1, 0, &err));
	CHECK_OK(cb_kv_set(b, "other", "1", 1, &err));
}

static void name_in_both_folders(cb_box *b)
{
	must_write(b, "/work/fresh", "1");
	must_write(b, "/work/big/old", "1");
	CHECK_OK(cb_mkdir(b, "/work/big/folder", 0755, 0, &err));
}

static void name_in_the_root(cb_box *b)
{
	must_write(b, "/rootfile", "1");
}

static void add_to_what_goes(cb_box *b)
{
	must_write(b, "/work/gone/late", "late");
}

static void change_what_goes(cb_box *b)
{
	must_write(b, "/work/gone/a", "changed");
}

static void move_the_folder(cb_box *b)
{
	CHECK_OK(cb_rename(b, "/work/big", "/work/moved", 0, &err));
}

static void move_another_folder(cb_box *b)
{
	CHECK_OK(cb_rename(b, "/work/side", "/work/aside", 0, &err));
}

static void remove_the_folder(cb_box *b)
{
	CHECK_OK(cb_remove(b, "/work/big", &err));
}

static void same_name(cb_box *b)
{
	must_write(b, name_of(5), "mine");
}

static void same_file(cb_box *b)
{
	must_write(b, "/work/big/kept", "one\n2\n3\n4\n5\n");
}

static void same_key(cb_box *b)
{
	CHECK_OK(cb_kv_set(b, "key", "mine", 4, &err));
}

static void mode_of_the_folder(cb_box *b)
{
	CHECK_OK(cb_chmod(b, "/work/big", 0700, 0, &err));
}

static void another_link(cb_box *b)
{
	CHECK_OK(cb_unlink(b, "/work/link", &err));
	CHECK_OK(cb_symlink(b, "big", "/work/link", &err));
}

static void undo_one(cb_box *b)
{
	must_write(b, "/work/small", "1");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
}

#define CASE(name, moves)                   \
	TEST_LIMIT(others_##name, 120)      \
	{                                   \
		compare(true, name, moves); \
	}

CASE(write_small, true)
CASE(write_often, true)
CASE(name_in_both_folders, true)
CASE(name_in_the_root, true)
CASE(add_to_what_goes, false)
CASE(change_what_goes, false)
CASE(move_the_folder, false)
CASE(move_another_folder, false)
CASE(remove_the_folder, false)
CASE(same_name, false)
CASE(same_file, false)
CASE(same_key, false)
CASE(mode_of_the_folder, false)
CASE(another_link, false)
CASE(undo_one, false)

/* Versions that no state has go through a pack, and are still others than before. */
TEST_LIMIT(packed, 120)
{
	world w = open_world(true, write_often, false);
	cb_merge_options o = CB_WITH(cb_merge_options, .resolve = resolve, .context = &w);
	uint64_t seq = 0;
	CHECK_OK(cb_merge(w.sides.ours, w.sides.theirs, &o, &seq, NULL, &err));
	CHECK(must_version(w.sides.ours, name_of(1)) != w.sides.ours->head->id);
	char path[512], old[64];
	(void)snprintf(path, sizeof(path), "%s/pack", test_tmpdir());
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_OK(cb_pack(w.sides.ours, fd, NULL, NULL, &err));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK_OK(cb_unpack(w.sides.s, fd, "back", NULL, NULL, &err));
	CHECK(close(fd) == 0);
	cb_box *back = must_open(w.sides.s, "back");
	CHECK_STR(must_dump(back), must_dump(w.sides.ours));
	uint64_t version = must_version(back, "/work/big/kept");
	(void)snprintf(old, sizeof(old), "back@%llu", (unsigned long long)must_seq(back) - 1);
	cb_box *before = must_open(w.sides.s, old);
	CHECK(must_version(before, "/work/big/kept") < version);
	CHECK(version <= back->head->id);
	cb_box_close(before);
	cb_box_close(back);
	close_world(&w);
}

TEST_LIMIT(on_disk, 120)
{
	compare(false, write_often, true);
}
