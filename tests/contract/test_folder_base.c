/* test_folder_base.c: the hidden companion of a box: nobody sees it, it lives, forks and dies with its box. */
#include <cowbox/cowbox.h>

#include "box/internal.h"
#include "harness/boxes.h"
#include "harness/tree_text.h"

static cb_box *new_box(cb_store *s, const char *name)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, name, &b, &err));
	return b;
}

static cb_box *open_base(cb_box *b, box_base_how how)
{
	cb_error err = {0};
	cb_box *base = NULL;
	CHECK_OK(box_base_open(b, how, &base, &err));
	return base;
}

static cb_code count_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	CHECK(info->name[0] != '#');
	++*(unsigned *)context;
	return CB_OK;
}

static unsigned boxes(cb_store *s)
{
	cb_error err = {0};
	unsigned n = 0;
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_box_list(s, count_box, &n, &err));
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK_U64(stats.boxes, n);
	return n;
}

TEST_BOTH(base_is_made_once_and_kept)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo"), *base = NULL;
	must_write(b, "/work/a", "one");
	CHECK_CODE(box_base_open(b, BOX_BASE_EXISTING, &base, &err), CB_NOTFOUND);
	base = open_base(b, BOX_BASE_AT_HEAD);
	CHECK_STR(must_read(base, "/work/a"), "one");
	must_write(b, "/work/a", "two");
	CHECK_STR(must_read(base, "/work/a"), "one");
	CHECK_STR(must_diff(base, b), "M /work/a\n");
	cb_box_close(base);
	base = open_base(b, BOX_BASE_EMPTY); /* there is one: it is not made anew */
	CHECK_STR(must_read(base, "/work/a"), "one");
	must_write(base, "/work/a", "host");
	cb_box_close(base);
	base = open_base(b, BOX_BASE_EXISTING);
	CHECK_STR(must_read(base, "/work/a"), "host");
	CHECK_STR(must_read(b, "/work/a"), "two");
	cb_box_close(base);
	cb_box *other = new_box(s, "other");
	must_write(other, "/work/x", "x");
	base = open_base(other, BOX_BASE_EMPTY);
	CHECK(!exists(base, "/work/x"));
	CHECK(exists(base, "/work"));
	cb_box_close(base);
	CHECK_U64(boxes(s), 2);
	test_store_sound(s);
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(base_cannot_be_addressed)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo"), *got = NULL;
	cb_box_close(open_base(b, BOX_BASE_EMPTY));
	char name[64];
	(void)snprintf(name, sizeof(name), "#base-%llu", (unsigned long long)b->row.id);
	CHECK_CODE(cb_box_open(s, name, &got, &err), CB_INVALID);
	CHECK_CODE(cb_box_create(s, name, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_fork(s, name, "x", NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_fork(s, "demo", name, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_rename(s, name, "x", &err), CB_NOTFOUND);
	CHECK_CODE(cb_box_rename(s, "demo", name, &err), CB_INVALID);
	CHECK_CODE(cb_box_delete(s, name, &err), CB_NOTFOUND);
	CHECK_CODE(cb_setting_set(b, "cowbox.folder", "/etc", CB_STRING, &err), CB_RESERVED);
	CHECK_CODE(cb_store_setting_set(s, "cowbox.folder", "/etc", CB_STRING, &err), CB_RESERVED);
	CHECK_U64(boxes(s), 1);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(base_forks_and_dies_with_its_box)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo"), *base = open_base(b, BOX_BASE_EMPTY), *got = NULL;
	char *value = NULL;
	must_write(base, "/work/a", "host");
	must_write(b, "/work/a", "box");
	CHECK_OK(box_setting_set(b, "cowbox.folder.path", "/src/x", &err));
	CHECK_OK(cb_setting_set(b, "mine", "1", CB_STRING, &err));
	cb_box *f = must_fork(s, "demo", "try"), *g = must_fork(s, "try@0", "again");
	CHECK_OK(box_setting_get(f, "cowbox.folder.path", &value, &err));
	CHECK_STR(test_keep(value), "/src/x");
	CHECK_CODE(cb_setting_get(f, "mine", &value, NULL, &err), CB_NOTFOUND);
	CHECK_OK(box_setting_get(g, "cowbox.folder.path", &value, &err));
	CHECK_STR(test_keep(value), "/src/x");
	must_write(base, "/work/a", "host moved on");
	cb_box_close(base);
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	base = open_base(f, BOX_BASE_EXISTING);
	CHECK_STR(must_read(base, "/work/a"), "host");
	cb_box_close(base);
	base = open_base(g, BOX_BASE_EXISTING);
	CHECK_STR(must_read(base, "/work/a"), "host");
	cb_box_close(base);
	test_store_sound(s);
	b = new_box(s, "demo");
	CHECK_CODE(box_base_open(b, BOX_BASE_EXISTING, &got, &err), CB_NOTFOUND);
	cb_box_close(b);
	cb_box_close(f);
	cb_box_close(g);
	CHECK_OK(cb_box_delete(s, "try", &err));
	CHECK_OK(cb_box_delete(s, "again", &err));
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK_U64(stats.steps, 0);
	CHECK_U64(boxes(s), 0);
	test_store_sound(s);
	cb_store_close(s);
}

/* What a base once held goes, and its box's history is not kept for its sake. */
TEST_BOTH(base_keeps_its_newest_state_only)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	char text[4096];
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (char c = 'a'; c <= 'e'; c++) {
		text[0] = c;
		must_write(b, "/work/a", text);
	}
	cb_box *base = open_base(b, BOX_BASE_AT_HEAD);
	for (char c = 'f'; c <= 'p'; c++) {
		text[0] = c;
		must_write(base, "/work/a", text);
	}
	must_write(b, "/work/a", "small");
	uint64_t pruned = 0;
	cb_prune_options all = CB_WITH(cb_prune_options, .keep_steps = 1);
	CHECK_OK(cb_prune(b, &all, &pruned, &err));
	CHECK_U64(pruned, 5);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_STR(must_read(base, "/work/a"), text);
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK_U64(stats.steps, 3);        /* 0 and 6 of the box, one of the base */
	CHECK_U64(stats.contents, 2 + 1); /* what the last step of the base replaced and wrote; what step 6 replaced */
	test_store_sound(s);
	must_write(base, "/work/b", "goes on");
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_STR(must_read(base, "/work/b"), "goes on");
	test_store_sound(s);
	cb_box_close(base);
	cb_box_close(b);
	cb_store_close(s);
}

/* A conflict in a base is told, and leaves no box behind. */
TEST_BOTH(base_conflict_leaves_nothing)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo"), *one = open_base(b, BOX_BASE_EMPTY), *two = open_base(b, BOX_BASE_EMPTY);
	cb_box *t = must_begin(one);
	must_write(t, "/work/a", "one");
	must_write(two, "/work/a", "two");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	cb_box_close(t);
	CHECK_STR(must_read(one, "/work/a"), "two");
	CHECK_U64(boxes(s), 1);
	cb_box_close(one);
	cb_box_close(two);
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK_U64(stats.steps, 0);
	cb_store_close(s);
}

/* ---- what it holds ---- */

static const char *host(const char *name)
{
	char *path = NULL;
	CHECK(asprintf(&path, "%s/%s", test_tmpdir(), name) > 0);
	return test_keep(path);
}

/* The base of the box, written out, is that folder of the host: names, bytes, modes, links. */
static void base_is(cb_box *b, const char *folder)
{
	cb_error err = {0};
	cb_box *base = open_base(b, BOX_BASE_EXISTING);
	must_run("rm -rf '%s'", host("base"));
	CHECK_OK(cb_export(base, "/work", host("base"), NULL, NULL, &err));
	cb_box_close(base);
	must_run("diff -r --no-dereference '%s' '%s'", folder, host("base"));
	must_run("cd '%s' && find . -mindepth 1 -printf '%%P %%y %%m %%l\\n' | sort >'%s'", folder, host("one"));
	must_run("cd '%s' && find . -mindepth 1 -printf '%%P %%y %%m %%l\\n' | sort | diff - '%s'", host("base"), host("one"));
}

static void import_linked(cb_box *b, bool remove_missing)
{
	cb_error err = {0};
	cb_import_options o = CB_WITH(cb_import_options, .link = true, .remove_missing = remove_missing);
	CHECK_OK(cb_import(b, host("project"), &o, NULL, &err));
}

/* Applies these paths (the last is NULL), or all. */
static void apply(cb_box *b, const char *const *paths)
{
	cb_error err = {0};
	cb_apply_options o = CB_WITH(cb_apply_options, .paths = paths);
	while (paths && paths[o.path_count]) o.path_count++;
	CHECK_OK(cb_apply(b, &o, NULL, NULL, NULL, &err));
}

static cb_box *project(cb_store *s)
{
	must_run("mkdir -p '%s' && cd '%s' && mkdir -p src/deep empty && printf one >a && printf two >src/b && printf three "
	         ">src/deep/c && "
	         "ln -s a link && printf x >run && chmod 755 run && chmod 700 src/deep",
	         host("project"), host("project"));
	cb_box *b = new_box(s, "demo");
	import_linked(b, false);
	base_is(b, host("project"));
	return b;
}

TEST(base_holds_what_was_imported)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = project(s);
	must_run("cp -a '%s' '%s'", host("project"), host("before"));
	/* Neither what the box does nor what the host does alone changes it. */
	must_write(b, "/work/a", "box");
	CHECK_OK(cb_remove(b, "/work/src/deep", &err));
	must_run("cd '%s' && printf host >src/b && rm link && ln -s run link && mkdir new && printf n >new/n && rm -r empty && "
	         "chmod 600 a",
	         host("project"));
	base_is(b, host("before"));
	import_linked(b, true);
	base_is(b, host("project"));
	import_linked(b, true);
	base_is(b, host("project"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(base_follows_what_was_applied)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = project(s);
	must_write(b, "/work/a", "changed");
	must_write(b, "/work/src/b", "changed too");
	CHECK_OK(cb_mkdir(b, "/work/made/here", 0755, CB_PARENTS, &err));
	must_write(b, "/work/made/here/f", "new");
	CHECK_OK(cb_remove(b, "/work/src/deep", &err));
	CHECK_OK(cb_rename(b, "/work/run", "/work/ran", 0, &err));
	apply(b, (const char *const[]){"/work/a", NULL});
	must_run("test \"$(cat '%s')\" = changed && test \"$(cat '%s')\" = two", host("project/a"), host("project/src/b"));
	base_is(b, host("project"));
	apply(b, (const char *const[]){"/work/made", "/work/src/deep", NULL});
	base_is(b, host("project"));
	apply(b, NULL);
	base_is(b, host("project"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(base_of_a_fork_goes_its_own_way)
{
	cb_store *s = test_store_open(false);
	cb_box *b = project(s);
	must_run("cp -a '%s' '%s'", host("project"), host("before"));
	must_write(b, "/work/a", "demo");
	cb_box *f = must_fork(s, "demo", "try");
	base_is(f, host("project"));
	must_write(f, "/work/src/b", "try");
	apply(f, (const char *const[]){"/work/src/b", NULL});
	base_is(f, host("project"));
	base_is(b, host("before"));
	apply(f, NULL);
	base_is(f, host("project"));
	base_is(b, host("before"));
	test_store_sound(s);
	cb_box_close(f);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- what imports remember ---- */

TEST(import_files_go_with_their_box)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = project(s), *other = new_box(s, "other");
	import_linked(other, false);
	must_run("test $(ls '%s/import' | wc -l) = 2", test_store_path());
	uint64_t id = other->row.id;
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	must_run("ls '%s/import' | grep -qx '%llu-.*' && test $(ls '%s/import' | wc -l) = 1", test_store_path(),
	         (unsigned long long)id, test_store_path());
	/* One that was left behind, and one that is nobody's business. */
	must_run("cd '%s/import' && touch 999999-0123456789abcdef notes", test_store_path());
	CHECK_OK(cb_store_gc(s, NULL, &err));
	must_run("cd '%s/import' && test $(ls | wc -l) = 2 && test -e notes", test_store_path());
	test_store_sound(s);
	cb_box_close(other);
	cb_store_close(s);
}
