/*
 * test_deep.c: folders nested deeper than any path can name, as renames can make them. Everything works on them, or says in one line that a
 * limit was met; nothing runs out of the C stack, and nothing takes minutes.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"

enum { LEVELS = 20000, CHAIN = 1000 };

/* "/top/d/d/d" with so many times "/d". */
static char *chain_path(const char *top, unsigned levels)
{
	char *path = test_keep(malloc(strlen(top) + 2 * (size_t)levels + 1));
	strcpy(path, top);
	for (unsigned i = 0; i < levels; i++) strcat(path, "/d");
	return path;
}

/* /deep with LEVELS folders nested in it, a file at both ends: chains of folders, each moved into the end of the next. As one step. */
static void make_deep(cb_box *b, unsigned levels)
{
	cb_error err;
	cb_box *box = b;
	b = must_begin(box);
	CHECK_OK(cb_mkdir(b, "/deep", 0755, 0, &err));
	must_write(b, "/deep/inmost", "one\ntwo\n");
	for (unsigned made = 0; made < levels; made += CHAIN) {
		CHECK_OK(cb_mkdir(b, chain_path("/next", CHAIN - 1), 0755, CB_PARENTS, &err));
		CHECK_OK(cb_rename(b, "/deep", chain_path("/next", CHAIN), 0, &err));
		CHECK_OK(cb_rename(b, "/next", "/deep", 0, &err));
	}
	must_write(b, "/deep/top", "top\n");
	(void)must_commit(b);
	b = box;
}

static cb_code count_walk(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)path;
	(void)info;
	(void)err;
	++*(uint64_t *)context;
	return CB_OK;
}

static cb_code count_change(void *context, const cb_change *c, cb_error *err)
{
	(void)c;
	(void)err;
	++*(uint64_t *)context;
	return CB_OK;
}

/* What lies at the very bottom of `top` is there: taken out by moves, for no path reaches it. */
static void check_bottom(cb_box *b, const char *top, const char *name)
{
	cb_error err;
	cb_box *box = b;
	b = must_begin(box);
	CHECK_OK(cb_rename(b, top, "/peel", 0, &err));
	for (;;) {
		if (exists(b, "/peel/inmost") || exists(b, "/peel/new")) break;
		CHECK_OK(cb_rename(b, chain_path("/peel", CHAIN), "/rest", 0, &err));
		CHECK_OK(cb_remove(b, "/peel", &err));
		CHECK_OK(cb_rename(b, "/rest", "/peel", 0, &err));
	}
	char path[32];
	(void)snprintf(path, sizeof(path), "/peel/%s", name);
	CHECK(exists(b, path));
	cb_box_close(b);
	b = box;
}

static void ends(cb_store *s, cb_box *b)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static cb_box *deep_box(cb_store *s)
{
	cb_error err;
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	make_deep(b, LEVELS);
	return b;
}

static uint64_t changes(cb_box *from, cb_box *to)
{
	cb_error err;
	uint64_t n = 0;
	CHECK_OK(cb_diff(from, to, NULL, count_change, &n, &err));
	return n;
}

TEST_LIMIT(copied_removed_restored, 120)
{
	cb_error err;
	cb_store *s = test_store_open(false);
	cb_box *b = deep_box(s), *old = must_open(s, "demo@1");
	CHECK_OK(cb_copy(b, "/deep", "/copy", 0, &err));
	check_bottom(b, "/copy", "inmost");
	CHECK_OK(cb_remove(b, "/copy", &err));
	CHECK_U64(changes(old, b), 0);
	CHECK_OK(cb_remove(b, "/deep", &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_U64(changes(old, b), 0);
	CHECK_OK(cb_remove(b, "/deep", &err));
	CHECK_OK(cb_restore(b, old, "/deep", NULL, &err));
	check_bottom(b, "/deep", "inmost");
	/* The top differs, the rest is entered folder by folder. */
	CHECK_OK(cb_chmod(b, chain_path("/deep", CHAIN), 0700, 0, &err));
	CHECK_OK(cb_restore(b, old, "/deep", NULL, &err));
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, chain_path("/deep", CHAIN), 0, &info, &err));
	CHECK_U64(info.mode, 0755);
	check_bottom(b, "/deep", "inmost");
	CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
	CHECK_U64(changes(old, b), 0);
	cb_box_close(old);
	ends(s, b);
}

/* Each folder wrapped into a newer one: the inmost has the lowest number. */
static void make_wrapped(cb_box *b, unsigned levels)
{
	cb_error err;
	cb_box *box = b;
	b = must_begin(box);
	CHECK_OK(cb_mkdir(b, "/deep", 0755, 0, &err));
	must_write(b, "/deep/inmost", "one\ntwo\n");
	for (unsigned i = 0; i < levels; i++) {
		CHECK_OK(cb_mkdir(b, "/next", 0755, 0, &err));
		CHECK_OK(cb_rename(b, "/deep", "/next/d", 0, &err));
		CHECK_OK(cb_rename(b, "/next", "/deep", 0, &err));
	}
	(void)must_commit(b);
	b = box;
}

static cb_prefer take_theirs(void *context, const cb_conflict *c)
{
	(void)context;
	(void)c;
	return CB_PREFER_THEIRS;
}

/* A file beside the inmost one, as one step that changes nothing else. */
static void add_at_bottom(cb_box *b)
{
	cb_error err;
	char part[16] = "/deep", last[16];
	unsigned parts = 0;
	cb_box *box = b;
	b = must_begin(box);
	for (;; parts++) {
		char inmost[32];
		(void)snprintf(inmost, sizeof(inmost), "%s/inmost", part);
		if (exists(b, inmost)) break;
		memcpy(last, part, sizeof(last));
		(void)snprintf(part, sizeof(part), "/p%u", parts);
		CHECK_OK(cb_rename(b, chain_path(last, CHAIN), part, 0, &err));
	}
	char new[32];
	(void)snprintf(new, sizeof(new), "%s/new", part);
	must_write(b, new, "new");
	for (; parts > 0; parts--) {
		(void)snprintf(part, sizeof(part), "/p%u", parts - 1);
		if (parts > 1) (void)snprintf(last, sizeof(last), "/p%u", parts - 2);
		else (void)snprintf(last, sizeof(last), "/deep");
		CHECK_OK(cb_rename(b, part, chain_path(last, CHAIN), 0, &err));
	}
	(void)must_commit(b);
	b = box;
}

static void merged(void (*make)(cb_box *b, unsigned levels))
{
	cb_error err;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *adds = must_fork(s, "demo", "adds");
	make(adds, LEVELS);
	must_write(b, "/own", "x");
	CHECK_OK(cb_merge(b, adds, NULL, NULL, NULL, &err));
	check_bottom(b, "/deep", "inmost");
	/* Theirs removes all of it. */
	cb_box *removes = must_fork(s, "demo", "removes");
	CHECK_OK(cb_remove(removes, "/deep", &err));
	must_write(b, "/own", "y");
	cb_box *keeps = must_fork(s, "demo", "keeps");
	CHECK_OK(cb_merge(b, removes, NULL, NULL, NULL, &err));
	CHECK(!exists(b, "/deep"));
	/* Theirs puts something near the bottom of what is gone here: the folders above come back. */
	add_at_bottom(keeps);
	cb_merge_options theirs = CB_WITH(cb_merge_options, .resolve = take_theirs);
	CHECK_OK(cb_merge(b, keeps, &theirs, NULL, NULL, &err));
	check_bottom(b, "/deep", "new");
	cb_box_close(adds);
	cb_box_close(removes);
	cb_box_close(keeps);
	ends(s, b);
}

TEST_LIMIT(merged_chains, 120)
{
	merged(make_deep);
}

TEST_LIMIT(merged_wrapped, 120)
{
	merged(make_wrapped);
}

static void one_line_limit(cb_code code, const cb_error *err)
{
	CHECK_MSG(code == CB_LIMIT || code == CB_NAMETOOLONG, "%s: %s", cb_code_name(code), err->message);
	CHECK(!strchr(err->message, '\n') && !strstr(err->message, "buffer"));
}

static cb_code count_line(void *context, const cb_grep_line *line, cb_error *err)
{
	(void)line;
	(void)err;
	++*(uint64_t *)context;
	return CB_OK;
}

/* What names paths goes down to a bound and says so. */
TEST_LIMIT(walked_and_taken_out, 120)
{
	cb_error err;
	uint64_t n = 0;
	cb_store *s = test_store_open(true);
	cb_box *b = deep_box(s);
	char *out = test_keep(malloc(4096));
	(void)snprintf(out, 4096, "%s/out", test_tmpdir());
	one_line_limit(cb_walk(b, "/", count_walk, &n, &err), &err);
	cb_find_options find = CB_WITH(cb_find_options, .name = "inmost");
	one_line_limit(cb_find(b, "/", &find, count_walk, &n, &err), &err);
	cb_grep_options grep = CB_WITH(cb_grep_options, .pattern = "two");
	one_line_limit(cb_grep(b, "/", &grep, count_line, &n, NULL, &err), &err);
	one_line_limit(cb_glob(b, "/**/inmost", count_walk, &n, &err), &err);
	one_line_limit(cb_export(b, "/deep", out, NULL, NULL, &err), &err);
	FILE *tar = tmpfile();
	CHECK(tar != NULL);
	one_line_limit(cb_tar_export(b, "/deep", fileno(tar), NULL, NULL, &err), &err);
	CHECK(lseek(fileno(tar), 0, SEEK_SET) == 0);
	CHECK_CODE(cb_tar_import(b, fileno(tar), NULL, NULL, &err), CB_CORRUPT);
	(void)fclose(tar);
	ends(s, b);
}

TEST_LIMIT(packed, 120)
{
	cb_error err;
	cb_store *s = test_store_open(true);
	cb_box *b = deep_box(s);
	FILE *pack = tmpfile();
	CHECK(pack != NULL);
	CHECK_OK(cb_pack(b, fileno(pack), NULL, NULL, &err));
	CHECK(lseek(fileno(pack), 0, SEEK_SET) == 0);
	CHECK_OK(cb_unpack(s, fileno(pack), "unpacked", NULL, NULL, &err));
	(void)fclose(pack);
	cb_box *u = must_open(s, "unpacked");
	check_bottom(u, "/deep", "inmost");
	cb_box_close(u);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	check_bottom(b, "/deep", "inmost");
	ends(s, b);
}
