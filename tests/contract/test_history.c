/* test_history.c: log, diff, restore, merge cases, blame, prune, checkpoints, addresses on the public API, on disk and in memory. */
#include "base/buf.h"
#include "harness/demo_box.h"

#include <sys/wait.h>
#include <unistd.h>

static cb_code print_step(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	return buf_printf(context, NULL, "%llu:%s:%s:%s ", (unsigned long long)step->seq, step->kind, step->who, step->params);
}

static char *log_text(cb_box *box, const char *path)
{
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	char *text = NULL;
	CHECK_OK(cb_log(box, &CB_WITH(cb_log_options, .path = path), print_step, &out, NULL, &err));
	CHECK_OK(buf_take(&out, &text, NULL, &err));
	return test_keep(text);
}

TEST_BOTH(log_of_box_folder_and_file)
{
	begin(memory);
	CHECK_OK(cb_box_who_set(b, "ann", &err));
	must_write(b, "/work/a", "1");
	must_write(b, "/work/d/b", "2");
	must_write(b, "/work/a", "3");
	CHECK_OK(cb_rename(b, "/work/a", "/work/d/c", 0, &err));
	must_write(b, "/work/d/c", "4");
	CHECK_STR(log_text(b, NULL),
	          "5:write:ann:/work/d/c 4:rename:ann:/work/a /work/d/c 3:write:ann:/work/a 2:write:ann:/work/d/b "
	          "1:write:ann:/work/a 0:new:: ");
	CHECK_STR(log_text(b, "/work/d/c"),
	          "5:write:ann:/work/d/c 4:rename:ann:/work/a /work/d/c 3:write:ann:/work/a 1:write:ann:/work/a ");
	CHECK_STR(log_text(b, "/work/d"), "5:write:ann:/work/d/c 4:rename:ann:/work/a /work/d/c 2:write:ann:/work/d/b ");
	/* an editor that saves by writing a new file over the old name */
	must_write(b, "/work/d/tmp", "5");
	CHECK_OK(cb_rename(b, "/work/d/tmp", "/work/d/b", 0, &err));
	CHECK_STR(log_text(b, "/work/d/b"), "7:rename:ann:/work/d/tmp /work/d/b 2:write:ann:/work/d/b ");
	/* a deleted file still has its history */
	CHECK_OK(cb_unlink(b, "/work/d/c", &err));
	CHECK_STR(log_text(b, "/work/d/c"), "8:unlink:ann:/work/d/c 5:write:ann:/work/d/c 4:rename:ann:/work/a /work/d/c "
	                                    "3:write:ann:/work/a 1:write:ann:/work/a ");
	end();
}

TEST_BOTH(file_log_across_key_frames)
{
	begin(memory);
	for (int i = 0; i < 900; i++) {
		char path[32], text[32];
		(void)snprintf(path, sizeof(path), "/work/f%d", i % 9);
		(void)snprintf(text, sizeof(text), "%d", i);
		must_write(b, path, text);
	}
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	CHECK_OK(cb_log(b, &CB_WITH(cb_log_options, .path = "/work/f4"), print_step, &out, NULL, &err));
	int count = 0;
	for (size_t i = 0; i < out.size; i++) count += out.bytes[i] == ' ';
	CHECK_U64(count, 100);
	out.size = 0;
	CHECK_OK(cb_log(b, &CB_WITH(cb_log_options, .path = "/work/f4", .before = 500, .max_steps = 2), print_step, &out, NULL,
	                &err));
	CHECK(memcmp(out.bytes, "491:", 4) == 0);
	end();
}

TEST_BOTH(records_are_steps_that_undo_skips)
{
	begin(memory);
	must_write(b, "/work/a", "1");
	uint64_t seq = 0;
	CHECK_OK(cb_step_record(b,
	                        &CB_WITH(cb_step_info, .kind = "exec", .params = "ls", .params_size = CB_STRING, .result = "a\n",
	                                 .result_size = CB_STRING),
	                        &seq, &err));
	CHECK_U64(seq, 2);
	char *big = test_keep(malloc(100001));
	memset(big, 'r', 100000);
	big[100000] = 0;
	CHECK_OK(cb_step_record(b,
	                        &CB_WITH(cb_step_info, .kind = "exec", .params = "cat", .params_size = CB_STRING, .result = big,
	                                 .result_size = CB_STRING),
	                        &seq, &err));
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	CHECK_OK(cb_step_get(b, 3, print_step, &out, &err));
	CHECK_OK(cb_undo(b, 0, &seq, &err));
	CHECK(!exists(b, "/work/a"));
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	CHECK_CODE(cb_step_get(b, 99, print_step, &out, &err), CB_NOTFOUND);
	cb_gc_result gc = CB_INIT(cb_gc_result);
	CHECK_OK(cb_store_gc(s, &gc, &err));
	CHECK_OK(cb_step_get(b, 3, print_step, &out, &err));
	end();
}

/* A pruned step ends undo, unless it was taken back itself. */
TEST_BOTH(undo_passes_what_was_pruned_and_taken_back)
{
	begin(memory);
	must_write(b, "/work/a", "1");
	must_write(b, "/work/a", "2");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_checkpoint_save(b, "second", 2, true, &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_CODE(cb_step_get(b, 3, print_step, NULL, &err), CB_STALE);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "1");
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	end();
}

TEST_BOTH(addresses)
{
	begin(memory);
	must_write(b, "/work/a", "1");
	must_write(b, "/work/a", "2");
	CHECK_OK(cb_checkpoint_save(b, "two", 0, true, &err));
	CHECK_OK(cb_checkpoint_save(b, "one", 1, false, &err));
	CHECK_CODE(cb_checkpoint_save(b, "one", 1, true, &err), CB_EXISTS);
	CHECK_CODE(cb_checkpoint_save(b, "far", 77, true, &err), CB_NOTFOUND);
	must_write(b, "/work/a", "3");
	CHECK_STR(must_read(must_open(s, "demo@two"), "/work/a"), "2");
	CHECK_STR(must_read(must_open(s, "demo@one"), "/work/a"), "1");
	CHECK_STR(must_read(must_open(s, "demo@-1"), "/work/a"), "2");
	CHECK_STR(must_read(must_open(s, "demo@-0"), "/work/a"), "3");
	CHECK_STR(must_read(must_open(s, "demo@1"), "/work/a"), "1");
	static const char *const bad[] = {"demo@99", "demo@-99", "demo@nope", "nobody", "demo@99999999999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_CODE(cb_box_open(s, bad[i], &(cb_box *){0}, &err), CB_NOTFOUND);
	static const char *const invalid[] = {"", "@", "demo@", "de mo", "demo@a b", "../x", "demo@-", "demo@-x"};
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		CHECK_CODE(cb_box_open(s, invalid[i], &(cb_box *){0}, &err), CB_INVALID);
	CHECK_OK(cb_checkpoint_delete(b, "one", &err));
	CHECK_CODE(cb_checkpoint_delete(b, "one", &err), CB_NOTFOUND);
	CHECK_OK(cb_box_rename(s, "demo", "other", &err));
	CHECK_STR(must_read(b, "/work/a"), "3");
	CHECK_CODE(cb_box_open(s, "demo", &(cb_box *){0}, &err), CB_NOTFOUND);
	CHECK_OK(cb_box_delete(s, "other", &err));
	CHECK_CODE(cb_read_file(b, "/work/a", &(char *){0}, NULL, &err), CB_NOTFOUND);
	CHECK_OK(cb_box_create(s, "other", NULL, &err));
	end();
}

TEST_BOTH(differences)
{
	begin(memory);
	must_write(b, "/work/keep", "same\n");
	must_write(b, "/work/mod", "a\nb\nc\n");
	must_write(b, "/work/old", "moved\n");
	must_write(b, "/work/gone", "bye\n");
	must_write(b, "/work/mode", "m\n");
	CHECK_OK(cb_kv_set(b, "k", "1", 1, &err));
	CHECK_OK(cb_checkpoint_save(b, "base", 0, true, &err));
	must_write(b, "/work/mod", "a\nB\nc\n");
	CHECK_OK(cb_rename(b, "/work/old", "/work/new", 0, &err));
	CHECK_OK(cb_unlink(b, "/work/gone", &err));
	CHECK_OK(cb_chmod(b, "/work/mode", 0755, 0, &err));
	must_write(b, "/work/dir/add", "hi\n");
	must_write(b, "/work/bin", "x");
	CHECK_OK(cb_write_file(b, "/work/bin", "a\0b", 3, NULL, &err));
	CHECK_OK(cb_kv_set(b, "k", "2", 1, &err));
	cb_box *base = must_open(s, "demo@base");
	CHECK_STR(must_diff(base, b), "A /work/bin\nA /work/dir\nA /work/dir/add\nD /work/gone\nM /work/mod\nT /work/mode\nR "
	                              "/work/old -> /work/new\nK k\n");
	CHECK_STR(must_diff(b, b), "");
	char *text = NULL;
	CHECK_OK(cb_diff_text(base, b, NULL, &text, NULL, &err));
	(void)test_keep(text);
	CHECK_STR(text, "diff --git a/work/bin b/work/bin\nnew file mode 100644\nindex "
	                "0000000000000000000000000000000000000000..20b5be91886d0b6f26dc98a225c0dac05fe2c86e\nBinary files "
	                "/dev/null and b/work/bin differ\n"
	                "diff --git a/work/dir/add b/work/dir/add\nnew file mode 100644\nindex "
	                "0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ "
	                "b/work/dir/add\n@@ "
	                "-0,0 +1 @@\n+hi\n"
	                "diff --git a/work/gone b/work/gone\ndeleted file mode 100644\nindex "
	                "b023018cabc396e7692c70bbf5784a93d3f738ab..0000000000000000000000000000000000000000\n--- a/work/gone\n+++ "
	                "/dev/null\n@@ -1 +0,0 "
	                "@@\n-bye\n"
	                "diff --git a/work/mod b/work/mod\nindex "
	                "de980441c3ab03a8c07dda1ad27b8a11f39deb1e..7be73ce3c1b1cdaea86e8168dfee8575175953bf 100644\n--- "
	                "a/work/mod\n+++ b/work/mod\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
	                "diff --git a/work/mode b/work/mode\nold mode 100644\nnew mode 100755\n"
	                "diff --git a/work/old b/work/new\nrename from work/old\nrename to work/new\n");
	CHECK_OK(cb_diff_text(base, b, &CB_WITH(cb_diff_text_options, .path = "/work/dir"), &text, NULL, &err));
	(void)test_keep(text);
	CHECK(strncmp(text, "diff --git a/work/dir/add", 25) == 0 && !strstr(text, "work/mod"));
	/* a name full of control bytes is quoted, as git does */
	must_write(b, "/work/a\nb\"c", "x\n");
	CHECK_OK(cb_diff_text(must_open(s, "demo@-1"), b, NULL, &text, NULL, &err));
	(void)test_keep(text);
	CHECK(strstr(text, "+++ \"b/work/a\\nb\\\"c\"\n"));
	cb_box_close(base);
	end();
}

static cb_code print_stat(void *context, const cb_change_stat *stat, cb_error *e)
{
	(void)e;
	return buf_printf(context, NULL, "%c %s +%llu -%llu%s %llu %llu;", stat->change->kind, stat->change->path,
	                  (unsigned long long)stat->added, (unsigned long long)stat->removed, stat->binary ? " binary" : "",
	                  (unsigned long long)stat->old_bytes, (unsigned long long)stat->new_bytes);
}

TEST_BOTH(differences_with_lines_counted)
{
	begin(memory);
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	must_write(b, "/work/mod", "a\nb\nc\n");
	must_write(b, "/work/gone", "1\n2\n");
	must_write(b, "/work/name", "x\n");
	CHECK_OK(cb_checkpoint_save(b, "base", 0, true, &err));
	must_write(b, "/work/mod", "a\nB\nC\nc\n");
	CHECK_OK(cb_unlink(b, "/work/gone", &err));
	CHECK_OK(cb_rename(b, "/work/name", "/work/renamed", 0, &err));
	CHECK_OK(cb_write_file(b, "/work/bin", "a\0b", 3, NULL, &err));
	must_write(b, "/work/dir/new", "one line without an end");
	cb_box *base = must_open(s, "demo@base");
	CHECK_OK(cb_diff_stat(base, b, NULL, print_stat, &out, &err));
	CHECK_OK(buf_append_byte(&out, 0, &err));
	CHECK_STR((const char *)out.bytes,
	          "A /work/bin +0 -0 binary 0 3;A /work/dir/new +1 -0 0 23;D /work/gone +0 -2 4 0;M /work/mod +2 -1 6 8;"
	          "R /work/renamed +0 -0 2 2;");
	cb_box_close(base);
	end();
}

TEST_BOTH(restore_of_file_and_folder)
{
	begin(memory);
	must_write(b, "/work/d/a", "1");
	must_write(b, "/work/d/sub/b", "2");
	must_write(b, "/work/x", "x");
	CHECK_OK(cb_xattr_set(b, "/work/d/a", "user.n", "old", 3, 0, &err));
	CHECK_OK(cb_checkpoint_save(b, "good", 0, true, &err));
	cb_box *good = must_open(s, "demo@good");
	char *dump = must_dump(b);
	must_write(b, "/work/d/a", "changed");
	CHECK_OK(cb_xattr_remove(b, "/work/d/a", "user.n", 0, &err));
	CHECK_OK(cb_remove(b, "/work/d/sub", &err));
	must_write(b, "/work/d/extra", "e");
	must_write(b, "/work/x", "y");
	uint64_t v = must_version(b, "/work/d/a"), seq = 0;
	CHECK_OK(cb_restore(b, good, "/work/d/a", &seq, &err));
	CHECK_STR(must_read(b, "/work/d/a"), "1");
	CHECK(must_version(b, "/work/d/a") > v);
	CHECK(exists(b, "/work/d/extra"));
	CHECK_OK(cb_restore(b, good, "/work/d", &seq, &err));
	CHECK(!exists(b, "/work/d/extra"));
	CHECK_STR(must_read(b, "/work/d/sub/b"), "2");
	CHECK_STR(must_read(b, "/work/x"), "y");
	CHECK_OK(cb_restore(b, good, NULL, &seq, &err));
	CHECK_STR(must_dump(b), dump);
	CHECK_CODE(cb_restore(b, good, "/work/none", &seq, &err), CB_NOTFOUND);
	/* a file that the older state did not have goes */
	must_write(b, "/work/later", "l");
	CHECK_OK(cb_restore(b, good, "/work/later", &seq, &err));
	CHECK(!exists(b, "/work/later"));
	cb_box_close(good);
	end();
}

/* ---- merge ---- */

static cb_box *f;

/* Base state in both; then change ours (b) and theirs (f), and merge. */
static void diverge(void)
{
	f = must_fork(s, "demo", "fork");
}

static cb_code merge_now(cb_prefer prefer, uint64_t *conflicts)
{
	cb_merge_options o = CB_WITH(cb_merge_options, .prefer = prefer);
	cb_code code = cb_merge(b, f, &o, NULL, conflicts, &err);
	test_store_sound(s);
	return code;
}

static void merge_end(void)
{
	cb_box_close(f);
	end();
}

TEST_BOTH(merge_delete_folder_against_add_in_it)
{
	uint64_t conflicts = 0;
	begin(memory);
	must_write(b, "/work/d/x", "x");
	diverge();
	CHECK_OK(cb_remove(b, "/work/d", &err));
	must_write(f, "/work/d/new", "n");
	CHECK_CODE(merge_now(CB_PREFER_NONE, &conflicts), CB_CONFLICT);
	CHECK(strstr(err.message, "/work/d/new") && !exists(b, "/work/d"));
	CHECK_OK(merge_now(CB_PREFER_THEIRS, &conflicts));
	CHECK_STR(must_read(b, "/work/d/new"), "n");
	CHECK(!exists(b, "/work/d/x"));
	merge_end();
}

TEST_BOTH(merge_add_in_folder_against_its_deletion)
{
	uint64_t conflicts = 0;
	begin(memory);
	must_write(b, "/work/d/x", "x");
	diverge();
	CHECK_OK(cb_remove(f, "/work/d", &err));
	must_write(b, "/work/d/new", "n");
	CHECK_CODE(merge_now(CB_PREFER_NONE, &conflicts), CB_CONFLICT);
	CHECK(strstr(err.message, "/work/d") != NULL);
	CHECK_OK(merge_now(CB_PREFER_OURS, &conflicts));
	CHECK(exists(b, "/work/d/new"));
	merge_end();
}

TEST_BOTH(merge_two_renames_of_one_file)
{
	uint64_t conflicts = 0;
	begin(memory);
	must_write(b, "/work/a", "a");
	diverge();
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err));
	CHECK_OK(cb_rename(f, "/work/a", "/work/c", 0, &err));
	CHECK_CODE(merge_now(CB_PREFER_NONE, &conflicts), CB_CONFLICT);
	CHECK_U64(conflicts, 1);
	CHECK_OK(merge_now(CB_PREFER_THEIRS, &conflicts));
	CHECK(!exists(b, "/work/a") && !exists(b, "/work/b"));
	CHECK_STR(must_read(b, "/work/c"), "a");
	merge_end();
}

TEST_BOTH(merge_moves_into_each_other)
{
	uint64_t conflicts = 0;
	begin(memory);
	must_write(b, "/work/a/x", "1");
	must_write(b, "/work/b/y", "2");
	diverge();
	CHECK_OK(cb_rename(b, "/work/b", "/work/a/b", 0, &err));
	CHECK_OK(cb_rename(f, "/work/a", "/work/b/a", 0, &err));
	CHECK_CODE(merge_now(CB_PREFER_NONE, &conflicts), CB_CONFLICT);
	CHECK_STR(must_read(b, "/work/a/b/y"), "2");
	CHECK_OK(merge_now(CB_PREFER_OURS, &conflicts));
	CHECK_STR(must_read(b, "/work/a/b/y"), "2");
	merge_end();
}

TEST_BOTH(merge_rename_against_append)
{
	uint64_t conflicts = 0;
	begin(memory);
	char *big = test_keep(malloc(200001));
	memset(big, 'x', 200000);
	big[200000] = 0;
	must_write(b, "/work/log", big);
	diverge();
	CHECK_OK(cb_rename(b, "/work/log", "/work/renamed", 0, &err));
	CHECK_OK(cb_write_file(f, "/work/log", "tail", 4, &CB_WITH(cb_write_options, .append = true), &err));
	CHECK_OK(merge_now(CB_PREFER_NONE, &conflicts));
	CHECK(!exists(b, "/work/log"));
	CHECK_STR(must_read(b, "/work/renamed") + 200000, "tail");
	merge_end();
}

TEST_BOTH(merge_both_make_the_folder)
{
	uint64_t conflicts = 0;
	begin(memory);
	diverge();
	must_write(b, "/work/build/a/1", "1");
	must_write(f, "/work/build/a/2", "2");
	must_write(f, "/work/build/same", "same");
	must_write(b, "/work/build/same", "same");
	CHECK_OK(merge_now(CB_PREFER_NONE, &conflicts));
	CHECK_STR(must_read(b, "/work/build/a/1"), "1");
	CHECK_STR(must_read(b, "/work/build/a/2"), "2");
	merge_end();
}

TEST_BOTH(merge_swapped_names)
{
	uint64_t conflicts = 0;
	begin(memory);
	must_write(b, "/work/a", "a");
	must_write(b, "/work/b", "b");
	diverge();
	CHECK_OK(cb_rename(f, "/work/a", "/work/b", CB_EXCHANGE, &err));
	must_write(b, "/work/a", "a2");
	CHECK_OK(merge_now(CB_PREFER_NONE, &conflicts));
	CHECK_STR(must_read(b, "/work/b"), "a2");
	CHECK_STR(must_read(b, "/work/a"), "b");
	merge_end();
}

static cb_prefer by_path(void *context, const cb_conflict *c)
{
	(void)context;
	return strcmp(c->path, "/work/one") == 0 ? CB_PREFER_THEIRS : CB_PREFER_OURS;
}

TEST_BOTH(merge_resolved_per_path)
{
	begin(memory);
	must_write(b, "/work/one", "1");
	must_write(b, "/work/two", "2");
	diverge();
	must_write(b, "/work/one", "o1");
	must_write(b, "/work/two", "o2");
	must_write(f, "/work/one", "t1");
	uint64_t conflicts = 0, seq = 77;
	cb_merge_options dry = CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS, .dry_run = true);
	CHECK_OK(cb_merge(b, f, &dry, &seq, &conflicts, &err));
	CHECK_U64(seq, 0);
	must_write(f, "/work/two", "t2");
	dry.prefer = CB_PREFER_NONE;
	CHECK_CODE(cb_merge(b, f, &dry, NULL, &conflicts, &err), CB_CONFLICT);
	CHECK_U64(conflicts, 2);
	cb_merge_options o = CB_WITH(cb_merge_options, .resolve = by_path);
	CHECK_OK(cb_merge(b, f, &o, NULL, &conflicts, &err));
	CHECK_STR(must_read(b, "/work/one"), "t1");
	CHECK_STR(must_read(b, "/work/two"), "o2");
	merge_end();
}

TEST_BOTH(merge_across_siblings_and_after_prune)
{
	uint64_t conflicts = 0;
	begin(memory);
	must_write(b, "/work/a", "1\n2\n3\n");
	diverge();
	cb_box *g = must_fork(s, "demo", "sibling");
	must_write(f, "/work/f", "f");
	must_write(g, "/work/g", "g");
	CHECK_OK(cb_merge(f, g, NULL, NULL, &conflicts, &err));
	CHECK(exists(f, "/work/f") && exists(f, "/work/g"));
	for (int i = 0; i < 20; i++) must_write(b, "/work/noise", i % 2 ? "x" : "y");
	uint64_t pruned = 0;
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(merge_now(CB_PREFER_NONE, &conflicts)); /* the fork point was kept */
	CHECK(exists(b, "/work/f") && exists(b, "/work/g"));
	must_write(f, "/work/a", "1\n2\n3\n4\n");
	for (int i = 0; i < 20; i++) must_write(b, "/work/noise", i % 2 ? "x" : "y");
	CHECK_OK(cb_prune(f, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(merge_now(CB_PREFER_NONE, &conflicts)); /* the last merge point was kept */
	CHECK_STR(must_read(b, "/work/a"), "1\n2\n3\n4\n");
	cb_box_close(g);
	merge_end();
}

/* ---- blame ---- */

static cb_code print_blame(void *context, const cb_blame_line *line, cb_error *e)
{
	(void)e;
	return buf_printf(context, NULL, "%s@%llu:%.*s", line->box, (unsigned long long)line->seq, (int)line->size, line->text);
}

static char *blame_text(cb_box *box, const char *path)
{
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	char *text = NULL;
	CHECK_OK(cb_blame(box, path, print_blame, &out, &err));
	CHECK_OK(buf_take(&out, &text, NULL, &err));
	return test_keep(text);
}

/* An editor saves so, and it is a new version of what was there; whatever else it was that was put there, the path's history is told. */
TEST_BOTH(history_of_a_file_renamed_over_another)
{
	begin(memory);
	must_write(b, "/work/f", "one\n");
	must_write(b, "/work/f", "one\ntwo\n");
	must_write(b, "/work/tmp", "one\ntwo\nthree\n");
	CHECK_OK(cb_chmod(b, "/work/tmp", 0600, 0, &err));
	CHECK_OK(cb_rename(b, "/work/tmp", "/work/f", 0, &err));
	CHECK_STR(blame_text(b, "/work/f"), "demo@1:one\ndemo@2:two\ndemo@5:three\n");
	must_write(b, "/work/g", "zero\none\n");
	CHECK_OK(cb_rename(b, "/work/f", "/work/g", 0, &err));
	CHECK_STR(blame_text(b, "/work/g"), "demo@6:one\ndemo@7:two\ndemo@7:three\n");
	CHECK_OK(cb_rename(b, "/work/g", "/work/free", 0, &err));
	CHECK_STR(blame_text(b, "/work/free"), "demo@6:one\ndemo@7:two\ndemo@7:three\n");
	end();
}

TEST_BOTH(blame_by_step)
{
	begin(memory);
	must_write(b, "/work/a", "one\ntwo\n");
	must_write(b, "/work/a", "one\n2\n");
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err));
	must_write(b, "/work/b", "zero\none\n2\n");
	CHECK_STR(blame_text(b, "/work/b"), "demo@4:zero\ndemo@1:one\ndemo@2:2\n");
	cb_box *fork = must_fork(s, "demo", "fork");
	must_write(fork, "/work/b", "zero\none\n2\nthree");
	CHECK_STR(blame_text(fork, "/work/b"), "demo@4:zero\ndemo@1:one\ndemo@2:2\nfork@1:three");
	cb_box *old = must_open(s, "demo@2");
	CHECK_STR(blame_text(old, "/work/a"), "demo@1:one\ndemo@2:2\n");
	cb_box_close(old);
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(s, "fork", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_STR(blame_text(b, "/work/b"), "demo@4:zero\n@0:one\n@0:2\n");
	end();
}

TEST_BOTH(blame_of_what_was_brought_back)
{
	begin(memory);
	must_write(b, "/work/a", "one\ntwo\n");
	must_write(b, "/work/a", "one\n2\nthree\n");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(blame_text(b, "/work/a"), "demo@1:one\ndemo@1:two\n");
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_STR(blame_text(b, "/work/a"), "demo@1:one\ndemo@2:2\ndemo@2:three\n");
	must_write(b, "/work/a", "");
	cb_box *old = must_open(s, "demo@1");
	CHECK_OK(cb_restore(b, old, "/work/a", NULL, &err));
	CHECK_STR(blame_text(b, "/work/a"), "demo@1:one\ndemo@1:two\n");
	/* Who writes the same text again wrote it. */
	must_write(b, "/work/a", "2\n");
	must_write(b, "/work/a", "one\ntwo\n");
	CHECK_STR(blame_text(b, "/work/a"), "demo@8:one\ndemo@8:two\n");
	cb_box_close(old);
	end();
}

/* The text that it makes was never there, its lines were. */
TEST_BOTH(blame_of_an_undo_in_the_middle)
{
	begin(memory);
	must_write(b, "/work/a", "1\n2\n3\n4\n5\n6\n");
	must_write(b, "/work/a", "1\nhello\n2\n3\n4\n5\n6\n");
	must_write(b, "/work/a", "1\n2\n3\n4\n5\n6\n");
	must_write(b, "/work/a", "1\n2\n3\n4\n5\nfar\n6\n");
	CHECK_OK(cb_undo(b, 3, NULL, &err));
	CHECK_STR(blame_text(b, "/work/a"),
	          "demo@1:1\ndemo@2:hello\ndemo@1:2\ndemo@1:3\ndemo@1:4\ndemo@1:5\ndemo@4:far\ndemo@1:6\n");
	CHECK_OK(cb_undo(b, 4, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_STR(blame_text(b, "/work/a"),
	          "demo@1:1\ndemo@2:hello\ndemo@1:2\ndemo@1:3\ndemo@1:4\ndemo@1:5\ndemo@4:far\ndemo@1:6\n");
	end();
}

TEST_BOTH(retention_per_box)
{
	begin(memory);
	uint64_t pruned = 7;
	for (int i = 0; i < 30; i++) must_write(b, "/work/a", i % 2 ? "x" : "y");
	CHECK_OK(cb_prune(b, NULL, &pruned, &err));
	CHECK_U64(pruned, 0); /* the default keeps everything */
	CHECK_OK(cb_box_retention_set(b, 10, 0, &err));
	CHECK_OK(cb_prune(b, NULL, &pruned, &err));
	CHECK_U64(pruned, 20);
	CHECK_OK(cb_prune(b, NULL, &pruned, &err));
	CHECK_U64(pruned, 0);
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1, .keep_ns = (int64_t)3600 * 1000000000), &pruned, &err));
	CHECK_U64(pruned, 0); /* all are younger */
	end();
}

TEST_BOTH(forks_of_forks_outlive_their_origins)
{
	begin(memory);
	must_write(b, "/work/0", "0");
	for (int i = 1; i <= 300; i++) {
		char from[32], to[32], path[32];
		(void)snprintf(from, sizeof(from), i == 1 ? "demo" : "f%d", i - 1);
		(void)snprintf(to, sizeof(to), "f%d", i);
		(void)snprintf(path, sizeof(path), "/work/%d", i);
		cb_box *n = must_fork(s, from, to);
		must_write(n, path, to);
		cb_box_close(n);
	}
	for (int i = 1; i < 300; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "f%d", i);
		CHECK_OK(cb_box_delete(s, name, &err));
	}
	cb_gc_result gc = CB_INIT(cb_gc_result);
	CHECK_OK(cb_store_gc(s, &gc, &err));
	CHECK_U64(gc.boxes_freed, 299);
	cb_box *last = must_open(s, "f300");
	for (int i = 1; i <= 300; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/%d", i);
		CHECK_MSG(exists(last, path), "%s is gone", path);
	}
	CHECK_OK(cb_box_delete(s, "f300", &err));
	CHECK_OK(cb_store_gc(s, &gc, &err));
	CHECK_U64(gc.boxes_freed, 1);
	cb_box_close(last);
	end();
}

TEST(a_forked_process_goes_on)
{
	begin(false);
	must_write(b, "/work/a", "parent");
	cb_box *t = must_begin(b);
	must_write(t, "/work/open", "x");
	pid_t pid = fork();
	if (pid == 0) {
		cb_box *mine = must_open(s, "demo");
		CHECK_STR(must_read(mine, "/work/a"), "parent");
		must_write(mine, "/work/child", "child");
		CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_FORKED);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	(void)must_commit(t);
	CHECK_STR(must_read(b, "/work/child"), "child");
	CHECK(exists(b, "/work/open"));
	end();
}

TEST(a_memory_store_stays_the_parents)
{
	begin(true);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK_CODE(cb_write_file(b, "/work/a", "x", 1, NULL, &err), CB_FORKED);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	must_write(b, "/work/a", "x");
	end();
}
