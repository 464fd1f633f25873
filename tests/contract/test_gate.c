/* test_gate.c: the gate, rule by rule: what test_gate_calls.c cannot compare, because the other world has nothing like it. */
#include "harness/ruled_box.h"

#include <stdio.h>
#include <sys/stat.h>

static char *list(cb_box *from, cb_box *to)
{
	return must_diff(from, to);
}

static char *host(const char *name)
{
	char *path = NULL;
	CHECK(asprintf(&path, "%s/%s", test_tmpdir(), name) > 0);
	return test_keep(path);
}

static void shell(const char *command)
{
	char *line = NULL;
	CHECK(asprintf(&line, "cd '%s' && { %s; }", test_tmpdir(), command) > 0);
	CHECK(system(line) == 0);
	free(line);
}

/* ---- files with several names, open files ---- */

TEST_BOTH(a_file_is_bound_by_all_its_names)
{
	begin(memory);
	put(owner, "/work/a", "a");
	put(owner, "/work/r", "r");
	CHECK_OK(cb_mkdir(owner, "/work/hid", 0755, 0, &err));
	CHECK_OK(cb_mkdir(owner, "/work/ro", 0755, 0, &err));
	rules_add(&all, RULE_HIDE, "/work/hid");
	rules_add(&all, RULE_READ_ONLY, "/work/ro");
	CHECK_STR(must_read(agent, "/work/a"), "a");
	CHECK_OK(cb_link(owner, "/work/a", "/work/hid/a", &err));
	CHECK_OK(cb_link(owner, "/work/r", "/work/ro/r", &err));
	CHECK(!exists(agent, "/work/a"));
	CHECK_CODE(cb_write_file(agent, "/work/a", "x", 1, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_unlink(agent, "/work/a", &err), CB_NOTFOUND);
	CHECK_STR(must_read(agent, "/work/r"), "r");
	CHECK_CODE(cb_write_file(agent, "/work/r", "x", 1, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_chmod(agent, "/work/r", 0600, 0, &err), CB_DENIED);
	CHECK_CODE(cb_link(agent, "/work/r", "/work/r2", &err), CB_DENIED);
	CHECK_CODE(cb_unlink(agent, "/work/r", &err), CB_DENIED);
	CHECK_OK(cb_unlink(owner, "/work/hid/a", &err));
	CHECK_STR(must_read(agent, "/work/a"), "a");
	CHECK_OK(cb_unlink(agent, "/work/a", &err));
	end();
}

TEST_BOTH(rules_that_change_hold_for_open_files)
{
	char bytes[8];
	size_t size = 0;
	cb_stat_info info = CB_INIT(cb_stat_info);
	begin(memory);
	put(owner, "/work/a", "aaaa");
	cb_file *r = NULL, *w = NULL;
	CHECK_OK(cb_open(agent, "/work/a", CB_READ, 0, &r, &err));
	CHECK_OK(cb_open(agent, "/work/a", CB_READ | CB_WRITE, 0, &w, &err));
	CHECK_OK(cb_pread(r, bytes, 4, 0, &size, &err));
	rules_add(&all, RULE_READ_ONLY, "/work/a");
	CHECK_OK(cb_pread(r, bytes, 4, 0, &size, &err));
	CHECK_CODE(cb_pwrite(w, "b", 1, 0, &err), CB_DENIED);
	rules_add(&all, RULE_HIDE, "/work");
	CHECK_CODE(cb_pread(r, bytes, 4, 0, &size, &err), CB_DENIED);
	CHECK_CODE(cb_fstat(r, &info, &err), CB_DENIED);
	CHECK_CODE(cb_pwrite(w, "b", 1, 0, &err), CB_DENIED);
	rules_clear(&all);
	CHECK_OK(cb_pread(r, bytes, 4, 0, &size, &err));
	CHECK(size == 4 && memcmp(bytes, "aaaa", 4) == 0);
	CHECK_OK(cb_pwrite(w, "b", 1, 0, &err));
	CHECK_OK(cb_close(w, &err));
	CHECK_OK(cb_close(r, &err));
	CHECK_STR(must_read(owner, "/work/a"), "baaa");
	end();
}

static void check_file(cb_file *f, cb_code expected)
{
	char bytes[16];
	size_t size = 0;
	uint64_t at = 0;
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_CODE(cb_pread(f, bytes, sizeof(bytes), 0, &size, &err), expected);
	CHECK_CODE(cb_fstat(f, &info, &err), expected);
	CHECK_CODE(cb_seek(f, 0, CB_SEEK_END, &at, &err), expected);
}

/* An open file that is gone is what it was last; where that was hidden it is not told. */
TEST_BOTH(what_was_hidden_when_it_went_stays_hidden)
{
	cb_file *moved = NULL, *ruled = NULL, *plain = NULL;
	begin(memory);
	put(owner, "/work/F/moved", "1");
	put(owner, "/work/ruled", "1");
	put(owner, "/work/plain", "1");
	CHECK_OK(cb_mkdir(owner, "/private", 0755, 0, &err));
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_open(agent, "/work/F/moved", CB_READ | CB_WRITE, 0, &moved, &err));
	CHECK_OK(cb_open(agent, "/work/ruled", CB_READ | CB_WRITE, 0, &ruled, &err));
	CHECK_OK(cb_open(agent, "/work/plain", CB_READ | CB_WRITE, 0, &plain, &err));
	check_file(moved, CB_OK);
	CHECK_OK(cb_rename(owner, "/work/F", "/private/F", 0, &err));
	rules_add(&all, RULE_HIDE, "/work/ruled");
	check_file(moved, CB_DENIED);
	put(owner, "/private/F/moved", "SECRET");
	put(owner, "/work/ruled", "SECRET");
	CHECK(exists(agent, "/work/plain")); /* the handle goes on to the newest state */
	CHECK_OK(cb_unlink(owner, "/private/F/moved", &err));
	CHECK_OK(cb_unlink(owner, "/work/ruled", &err));
	CHECK_OK(cb_unlink(owner, "/work/plain", &err));
	check_file(moved, CB_DENIED);
	check_file(ruled, CB_DENIED);
	check_file(plain, CB_OK);
	CHECK_CODE(cb_pwrite(moved, "x", 1, 0, &err), CB_DENIED);
	CHECK_CODE(cb_ftruncate(ruled, 1, &err), CB_DENIED);
	CHECK_OK(cb_pwrite(plain, "x", 1, 0, &err));
	rules_add(&all, RULE_HIDE, "/work/plain");
	check_file(plain, CB_DENIED);
	CHECK_OK(cb_close(moved, &err));
	CHECK_OK(cb_close(ruled, &err));
	CHECK_OK(cb_close(plain, &err));
	end();
}

/* ---- lists under way ---- */

static cb_code no_path(void *context, const cb_conflict *c, cb_error *e)
{
	(void)e;
	++*(int *)context;
	CHECK_STR(c->path, "?");
	return CB_OK;
}

/* Each is opened and one entry taken; then a rule comes. */
TEST_BOTH(a_list_does_not_outlive_the_rules_it_was_opened_by)
{
	enum { LISTS = 12 };
	cb_cursor *c[LISTS] = {NULL};
	const void *x = NULL;
	int count = 0;
	begin(memory);
	cb_box *first = must_open(s, "demo@0");
	for (int i = 0; i < 4; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/f%d", i);
		put(owner, path, "1\n2\n3\n");
		(void)snprintf(path, sizeof(path), "k%d", i);
		CHECK_OK(cb_kv_set(owner, path, "v", 1, &err));
		(void)snprintf(path, sizeof(path), "user.%d", i);
		CHECK_OK(cb_xattr_set(owner, "/work/f0", path, "v", 1, 0, &err));
	}
	cb_box *t = must_begin(agent);
	put(t, "/work/f0", "t\n");
	put(owner, "/work/f0", "4\n5\n6\n");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	for (int again = 0; again < 2; again++) {
		CHECK_OK(cb_readdir_open(agent, "/work", &c[0], &err));
		CHECK_OK(cb_walk_open(agent, "/", &c[1], &err));
		CHECK_OK(cb_glob_open(agent, "/work/*", &c[2], &err));
		CHECK_OK(cb_find_open(agent, "/work", NULL, &c[3], &err));
		CHECK_OK(cb_xattr_open(agent, "/work/f0", 0, &c[4], &err));
		CHECK_OK(cb_kv_open(agent, "", &c[5], &err));
		CHECK_OK(cb_diff_open(first, agent, NULL, &c[6], &err));
		CHECK_OK(cb_diff_stat_open(first, agent, NULL, &c[7], &err));
		CHECK_OK(cb_blame_open(agent, "/work/f0", &c[8], &err));
		CHECK_OK(cb_grep_open(agent, "/", &CB_WITH(cb_grep_options, .pattern = "."), &c[9], &err));
		CHECK_OK(cb_log_open(agent, NULL, &c[10], &err));
		CHECK_OK(cb_conflict_open(t, &c[11], &err));
		/* Rules that come for others, or that went again, change nothing. */
		rules_add(&all, RULE_HIDE, "/work");
		if (again) rules_clear(&all);
		cb_code expected = again ? CB_OK : CB_DENIED;
		for (int i = 0; i < LISTS; i++) {
			cursor_gives gives = c[i]->ops->gives;
			CHECK_CODE(cursor_next_public(c[i], gives, &x, &err), expected);
			CHECK(again ? x != NULL : !strstr(err.message, "/"));
			CHECK_CODE(cursor_next_public(c[i], gives, &x, &err), expected);
			cb_cursor_close(c[i]);
		}
		if (!again) CHECK_OK(cb_txn_conflicts(t, no_path, &count, &err));
		rules_clear(&all);
	}
	CHECK(count == 1);
	cb_box_close(t);
	cb_box_close(first);
	end();
}

/* ---- transactions ---- */

/* What a transaction collected under other rules is asked about again when it commits. */
TEST_BOTH(rules_that_change_hold_at_commit)
{
	begin(memory);
	cb_box *t = must_begin(agent);
	put(t, "/work/a", "a");
	put(t, "/work/b", "b");
	rules_add(&all, RULE_READ_ONLY, "/work/a");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	CHECK(!exists(owner, "/work/a") && !exists(owner, "/work/b"));
	rules_clear(&all);
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	CHECK_STR(must_read(owner, "/work/b"), "b");
	end();
}

/* Another who through the same handle is asked about as himself. */
TEST_BOTH(who_asks_is_the_handles)
{
	begin(memory);
	put(owner, "/work/hid/a", "a");
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK(!exists(agent, "/work/hid/a"));
	CHECK_OK(cb_box_who_set(agent, "owner", &err));
	CHECK(exists(agent, "/work/hid/a"));
	CHECK_OK(cb_box_who_set(agent, "agent", &err));
	CHECK(!exists(agent, "/work/hid/a"));
	cb_box *t = must_begin(agent);
	CHECK(!exists(t, "/work/hid/a"));
	cb_box_close(t);
	end();
}

/* Calls that open handles of their own open them for who uses the one that was given. */
TEST_BOTH(who_asks_is_the_handles_in_calls_that_open_others)
{
	begin(memory);
	put(owner, "/work/hid/a", "TOP SECRET");
	put(owner, "/work/b", "b");
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	FILE *f = tmpfile();
	char *bytes = calloc(1, 1 << 16);
	CHECK(f && bytes);
	CHECK_OK(cb_tar_export(agent, "/work", fileno(f), NULL, NULL, &err));
	rewind(f);
	size_t size = fread(bytes, 1, 1 << 16, f);
	CHECK(size > 512 && !memmem(bytes, size, "TOP SECRET", 10));
	free(bytes);
	(void)fclose(f);
	CHECK(mkdir(host("out"), 0755) == 0);
	CHECK_OK(cb_apply(agent, &CB_WITH(cb_apply_options, .folder = host("out")), NULL, NULL, NULL, &err));
	shell("test -f out/b && ! test -e out/hid");
	end();
}

/* ---- may be known, not read ---- */

TEST_BOTH(what_may_not_be_read_is_said_where_it_is_named)
{
	char *text = NULL;
	begin(memory);
	put(owner, "/work/u/a", "a");
	CHECK_OK(cb_kv_set(owner, "u.k", "1", 1, &err));
	rules_add(&all, RULE_UNREADABLE, "/work/u");
	rules_add(&all, RULE_UNREADABLE, "u.");
	CHECK_CODE(cb_read_file(agent, "/work/u/a", &text, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_kv_get(agent, "u.k", &text, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_write_file(agent, "/work/u/a", "x", 1, NULL, &err), CB_DENIED);
	CHECK(!strstr(must_dump(agent), "/work/u"));
	end();
}

/* ---- through history ---- */

TEST_BOTH(a_step_that_touched_hidden_things_too_cannot_be_undone)
{
	begin(memory);
	rules_add(&all, RULE_HIDE, "/work/hid");
	put(owner, "/work/a", "1");
	cb_box *t = must_begin(owner);
	put(t, "/work/a", "2");
	put(t, "/work/hid/h", "2");
	uint64_t mixed = must_commit(t).seq;
	CHECK_CODE(cb_undo(agent, 0, NULL, &err), CB_DENIED);
	CHECK(!strstr(err.message, "hid"));
	CHECK_CODE(cb_undo(agent, mixed, NULL, &err), CB_DENIED);
	CHECK_STR(must_read(owner, "/work/a"), "2");
	put(owner, "/work/hid/h", "3");
	uint64_t only = must_seq(owner);
	CHECK_CODE(cb_undo(agent, only, NULL, &err), CB_NOTHING);
	CHECK_OK(cb_undo(owner, only, NULL, &err));
	CHECK_OK(cb_undo(owner, mixed, NULL, &err));
	CHECK_STR(must_read(agent, "/work/a"), "1");
	end();
}

TEST_BOTH(a_merge_that_brings_hidden_things_is_refused)
{
	uint64_t conflicts = 0;
	begin(memory);
	put(owner, "/work/a", "1");
	put(owner, "/work/hid/h", "1");
	rules_add(&all, RULE_HIDE, "/work/hid");
	cb_box *side = must_fork(s, "demo", "side");
	cb_box *mine = must_open(s, "side");
	CHECK_OK(cb_box_who_set(mine, "owner", &err));
	put(mine, "/work/hid/h", "theirs");
	put(side, "/work/a", "theirs");
	put(owner, "/work/hid/h", "ours");
	CHECK_CODE(cb_merge(agent, side, NULL, NULL, &conflicts, &err), CB_DENIED);
	CHECK(!strstr(err.message, "hid") && conflicts == 0);
	CHECK_CODE(cb_merge(agent, side, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, &conflicts, &err),
	           CB_DENIED);
	CHECK_STR(must_read(owner, "/work/hid/h"), "ours");
	CHECK_STR(must_read(agent, "/work/a"), "1");
	CHECK_CODE(cb_merge(owner, mine, NULL, NULL, &conflicts, &err), CB_CONFLICT);
	CHECK_OK(cb_merge(owner, mine, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, &conflicts, &err));
	CHECK_STR(must_read(agent, "/work/a"), "theirs");
	cb_box_close(mine);
	cb_box_close(side);
	end();
}

static cb_code no_hidden(void *context, const cb_conflict *c, cb_error *e)
{
	(void)e;
	++*(int *)context;
	CHECK_MSG(!strstr(c->path, "hid"), "%s", c->path);
	return CB_OK;
}

/* While a transaction changes a file the owner moves it to where it is hidden. */
TEST_BOTH(a_conflict_does_not_say_where_a_file_was_hidden)
{
	int count = 0;
	begin(memory);
	put(owner, "/work/a", "1\n");
	CHECK_OK(cb_mkdir(owner, "/work/hid", 0755, 0, &err));
	rules_add(&all, RULE_HIDE, "/work/hid");
	cb_box *t = must_begin(agent);
	put(t, "/work/a", "2\n");
	CHECK_OK(cb_rename(owner, "/work/a", "/work/hid/a", 0, &err));
	put(owner, "/work/hid/a", "3\n");
	cb_code code = cb_txn_commit(t, NULL, NULL, &err);
	CHECK(code == CB_CONFLICT || code == CB_DENIED);
	CHECK_MSG(!strstr(err.message, "hid"), "%s", err.message);
	CHECK_OK(cb_txn_conflicts(t, no_hidden, &count, &err));
	code = cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), NULL, &err);
	CHECK(code != CB_OK && !strstr(err.message, "hid"));
	cb_box_close(t);
	CHECK_STR(must_read(owner, "/work/hid/a"), "3\n");
	end();
}

/* Out of where it is hidden, and back: to who looks, made and deleted with all that is in it. */
TEST_BOTH(a_folder_that_comes_out_is_told_whole)
{
	begin(memory);
	put(owner, "/work/hid/d/f", "f\n");
	put(owner, "/work/hid/d/sub/g", "g\n");
	rules_add(&all, RULE_HIDE, "/work/hid");
	cb_box *before = must_open(s, "demo@2");
	CHECK_OK(cb_rename(owner, "/work/hid/d", "/work/d", 0, &err));
	CHECK_STR(list(before, agent), "A /work/d\nA /work/d/f\nA /work/d/sub\nA /work/d/sub/g\n");
	CHECK_STR(list(agent, before), "D /work/d\nD /work/d/f\nD /work/d/sub\nD /work/d/sub/g\n");
	put(owner, "/work/d/f", "f\nmore\n");
	CHECK_OK(cb_rename(owner, "/work/d", "/work/hid/d", 0, &err));
	CHECK(!exists(agent, "/work/d"));
	CHECK_OK(cb_rename(owner, "/work/hid/d/f", "/work/f", 0, &err));
	cb_box_close(before);
	end();
}

static cb_code blame_seq(void *context, const cb_blame_line *l, cb_error *e)
{
	(void)e;
	uint64_t *first = context;
	if (l->line == 1) *first = l->seq;
	return CB_OK;
}

TEST_BOTH(the_past_of_a_file_ends_where_it_was_hidden)
{
	int count = 0;
	uint64_t seq = 0;
	begin(memory);
	put(owner, "/work/hid/f", "1\n");
	put(owner, "/work/hid/f", "1\n2\n");
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_OK(cb_rename(owner, "/work/hid/f", "/work/f", 0, &err));
	uint64_t moved = must_seq(owner);
	put(owner, "/work/f", "1\n2\n3\n");
	CHECK_OK(cb_log(agent, &CB_WITH(cb_log_options, .path = "/work/f"), count_steps, &count, NULL, &err));
	CHECK(count == 2);
	CHECK_OK(cb_blame(agent, "/work/f", blame_seq, &seq, &err));
	CHECK_U64(seq, moved);
	CHECK_OK(cb_blame(owner, "/work/f", blame_seq, &seq, &err));
	CHECK_U64(seq, 1);
	end();
}

/* ---- the folder a box came from ---- */

/* What an agent cannot see he did not apply: it is still to be applied. */
TEST_BOTH(an_apply_settles_only_what_was_shown)
{
	begin(memory);
	shell("mkdir -p p/d && echo a >p/a && echo old >p/.s && echo f >p/d/f && echo old >p/d/.s && echo r >p/ro");
	CHECK_OK(cb_import(owner, host("p"), &CB_WITH(cb_import_options, .to = "/work", .link = true), NULL, &err));
	rules_add(&all, RULE_HIDE, "/work/.s");
	rules_add(&all, RULE_HIDE, "/work/d/.s");
	rules_add(&all, RULE_READ_ONLY, "/work/ro");
	put(owner, "/work/.s", "the owner's\n");
	put(owner, "/work/ro", "the owner's\n");
	put(agent, "/work/b", "b\n");
	CHECK_OK(cb_apply(agent, NULL, NULL, NULL, NULL, &err));
	shell("grep -q old p/.s && grep -q b p/b && grep -q owner p/ro");
	CHECK_CODE(cb_apply(agent, NULL, NULL, NULL, NULL, &err), CB_NOTHING);
	CHECK_OK(cb_apply(owner, NULL, NULL, NULL, NULL, &err));
	shell("grep -q owner p/.s");
	CHECK_CODE(cb_apply(owner, NULL, NULL, NULL, NULL, &err), CB_NOTHING);
	/* A folder that goes with what is hidden in it. */
	CHECK_OK(cb_unlink(owner, "/work/.s", &err));
	CHECK_OK(cb_remove(owner, "/work/d", &err));
	put(agent, "/work/b", "b2\n");
	CHECK_CODE(cb_apply(agent, NULL, NULL, NULL, NULL, &err), CB_CONFLICT); /* the host has more in it than he sees */
	shell("rm p/d/.s");
	CHECK_OK(cb_apply(agent, NULL, NULL, NULL, NULL, &err));
	shell("test -f p/.s && ! test -e p/d");
	CHECK_OK(cb_apply(owner, NULL, NULL, NULL, NULL, &err));
	shell("! test -e p/.s");
	CHECK_CODE(cb_apply(owner, NULL, NULL, NULL, NULL, &err), CB_NOTHING);
	end();
}

TEST_BOTH(an_import_does_not_say_that_the_host_has_what_is_hidden)
{
	begin(memory);
	shell("mkdir -p p && echo a >p/a");
	put(owner, "/work/.s", "the owner's\n");
	put(owner, "/work/sub/x/y", "the owner's\n");
	rules_add(&all, RULE_HIDE, "/work/.s");
	rules_add(&all, RULE_HIDE, "/work/sub/x");
	CHECK_OK(cb_import(agent, host("p"), &CB_WITH(cb_import_options, .to = "/work", .link = true), NULL, &err));
	CHECK_OK(cb_apply(owner, NULL, NULL, NULL, NULL, &err));
	shell("grep -q owner p/.s && grep -q owner p/sub/x/y");
	end();
}

/* ---- forks ---- */

TEST_BOTH(a_fork_keeps_the_rules_or_is_not_made)
{
	begin(memory);
	cb_box_info info = CB_INIT(cb_box_info);
	put(owner, "/work/hid/a", "a");
	CHECK_OK(cb_box_info_get(owner, &info, &err));
	all.box = info.id;
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_CODE(cb_box_fork(s, "demo", "fork", NULL, &err), CB_DENIED);
	cb_box *t = must_begin(agent);
	put(t, "/work/b", "b");
	CHECK_CODE(cb_txn_keep(t, "kept", NULL, &err), CB_DENIED);
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	all.g.forked = NULL; /* somebody who knows nothing of forks */
	CHECK_CODE(cb_box_fork(s, "demo", "fork", NULL, &err), CB_DENIED);
	CHECK_OK(cb_store_who_set(s, "owner", &err)); /* who asks is the handle's, not the store's */
	t = must_begin(agent);
	put(t, "/work/b", "c");
	CHECK_CODE(cb_txn_keep(t, "kept", NULL, &err), CB_DENIED);
	CHECK_OK(cb_txn_drop(t, &err));
	cb_box_close(t);
	rules_clear(&all);
	CHECK_OK(cb_box_fork(s, "demo", "fork", NULL, &err));
	end();
}

/* ---- boxes as a whole ---- */

/* Rules about nodes say nothing of these: the hook is asked about the box. */
TEST_BOTH(who_prunes_or_deletes_a_box_is_asked_about)
{
	begin(memory);
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/hid/a", "b");
	rules_add(&all, RULE_HIDE, "/work/hid");
	all.keep_boxes = true;
	CHECK_CODE(cb_prune(agent, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err), CB_DENIED);
	CHECK_CODE(cb_box_delete(s, "demo", &err), CB_DENIED);
	CHECK(exists(owner, "/work/hid/a"));
	CHECK_OK(cb_prune(owner, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	all.keep_boxes = false;
	CHECK_OK(cb_prune(agent, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_box_delete(s, "demo", &err));
	end();
}

/* ---- folders that only look empty ---- */

/* A hook that says wrongly that nothing lies below: what is hidden is still not lost. */
static gate_below sees_nothing(void *context, const char *who, uint64_t box, const char *path)
{
	(void)context;
	(void)box;
	return strcmp(who, "owner") != 0 && strncmp(path, "/work/d", 7) != 0 ? GATE_BELOW_INSIDE : GATE_BELOW_NONE;
}

TEST_BOTH(a_folder_that_looks_empty_stays)
{
	begin(memory);
	put(owner, "/work/d/hid", "h");
	put(owner, "/work/d/ok", "o");
	CHECK_OK(cb_mkdir(agent, "/work/e", 0755, 0, &err));
	rules_add(&all, RULE_HIDE, "/work/d/hid");
	CHECK_CODE(cb_rmdir(agent, "/work/d", &err), CB_NOTEMPTY);
	CHECK_OK(cb_unlink(agent, "/work/d/ok", &err));
	CHECK_CODE(cb_rmdir(agent, "/work/d", &err), CB_DENIED);
	CHECK_CODE(cb_remove(agent, "/work/d", &err), CB_DENIED);
	CHECK_CODE(cb_rename(agent, "/work/e", "/work/d", 0, &err), CB_DENIED);
	CHECK_CODE(cb_rename(agent, "/work/d", "/work/f", 0, &err), CB_DENIED);
	CHECK_CODE(cb_copy(agent, "/work/d", "/work/f", 0, &err), CB_DENIED);
	all.g.below = sees_nothing;
	atomic_fetch_add(&all.g.version, 1);
	CHECK_CODE(cb_rmdir(agent, "/work/d", &err), CB_NOTEMPTY); /* nothing lies below: so nobody asked about what is in it */
	CHECK_STR(must_read(owner, "/work/d/hid"), "h");
	end();
}

/* A file that another name hides, in a folder without rules: the bit that is told, in every call the same, and nothing but it. */
TEST_BOTH(a_name_that_another_one_hides_tells_one_bit)
{
	cb_stat_info before = CB_INIT(cb_stat_info), after = CB_INIT(cb_stat_info);
	int conflicts = 0;
	begin(memory);
	put(owner, "/private/c", "TOP SECRET");
	CHECK_OK(cb_mkdir(owner, "/work/F", 0755, 0, &err));
	CHECK_OK(cb_mkdir(agent, "/work/E", 0755, 0, &err));
	rules_add(&all, RULE_HIDE, "/private");
	cb_box *t = must_begin(agent);
	CHECK_OK(cb_rmdir(t, "/work/F", &err));
	CHECK_OK(cb_stat(agent, "/work/F", 0, &before, &err));
	CHECK_OK(cb_link(owner, "/private/c", "/work/F/c", &err));
	/* What commits a removal of the folder that began before. */
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	CHECK_MSG(!strstr(err.message, "/"), "%s", err.message);
	CHECK_OK(cb_txn_conflicts(t, no_hidden, &conflicts, &err));
	CHECK(conflicts == 0);
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), NULL, &err), CB_DENIED);
	cb_box_close(t);
	/* The name cannot be made, the folder not be removed or replaced. */
	CHECK(!exists(agent, "/work/F/c"));
	CHECK_CODE(cb_write_file(agent, "/work/F/c", "x", 1, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_rmdir(agent, "/work/F", &err), CB_DENIED);
	CHECK_CODE(cb_remove(agent, "/work/F", &err), CB_DENIED);
	CHECK_CODE(cb_rename(agent, "/work/E", "/work/F", 0, &err), CB_DENIED);
	/* Its times say when it came: no rule lies in the folder, so they are not masked. */
	CHECK_OK(cb_stat(agent, "/work/F", 0, &after, &err));
	CHECK(after.version > before.version && after.mtime_ns >= before.mtime_ns);
	/* A copy is without it, and what is moved stays whole. */
	CHECK_OK(cb_copy(agent, "/work/F", "/work/G", 0, &err));
	CHECK(!exists(owner, "/work/G/c"));
	CHECK_OK(cb_rename(agent, "/work/F", "/work/H", 0, &err));
	CHECK_STR(must_read(owner, "/work/H/c"), "TOP SECRET");
	/* With a rule on the name nothing is told: see the twins. */
	end();
}

/* ---- a rule on all of it ---- */

TEST_BOTH(a_rule_may_lie_on_the_root)
{
	cb_box_info info = CB_INIT(cb_box_info);
	begin(memory);
	put(owner, "/work/a", "a");
	rules_add(&all, RULE_HIDE, "/");
	CHECK(!exists(agent, "/work/a") && !exists(agent, "/work"));
	CHECK_CODE(cb_write_file(agent, "/b", "b", 1, NULL, &err), CB_DENIED);
	CHECK_OK(cb_box_info_get(agent, &info, &err));
	CHECK_U64(info.files, 0);
	CHECK_CODE(cb_pack(agent, 1, NULL, NULL, &err), CB_DENIED);
	rules_clear(&all);
	rules_add(&all, RULE_READ_ONLY, "/");
	CHECK_STR(must_read(agent, "/work/a"), "a");
	CHECK_CODE(cb_write_file(agent, "/work/a", "b", 1, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_mkdir(agent, "/d", 0755, 0, &err), CB_DENIED);
	CHECK_CODE(cb_chmod(agent, "/", 0700, 0, &err), CB_DENIED);
	CHECK_CODE(cb_undo(agent, 0, NULL, &err), CB_DENIED);
	CHECK_STR(must_read(owner, "/work/a"), "a");
	end();
}

/* ---- times ---- */

TEST_BOTH(chmod_of_a_folder_keeps_its_times)
{
	cb_stat_info before = CB_INIT(cb_stat_info), after = CB_INIT(cb_stat_info);
	begin(memory);
	put(owner, "/work/d/hid", "h");
	CHECK_OK(cb_utimens(owner, "/work/d", 1000, 2000, 0, &err));
	rules_add(&all, RULE_HIDE, "/work/d/hid");
	CHECK_OK(cb_stat(owner, "/work/d", 0, &before, &err));
	CHECK_OK(cb_chmod(agent, "/work/d", 0700, 0, &err));
	CHECK_OK(cb_tag_add(agent, "/work/d", "t", &err));
	CHECK_OK(cb_stat(owner, "/work/d", 0, &after, &err));
	CHECK(after.mtime_ns == before.mtime_ns);
	CHECK_U64(after.mode, 0700);
	CHECK_OK(cb_stat(agent, "/work/d", 0, &after, &err));
	CHECK(after.mtime_ns == 1000);
	CHECK_U64(after.version, 1);
	end();
}

typedef struct times {
	int64_t mtime_ns, atime_ns;
	uint64_t version;
} times;

static times times_of(const char *path)
{
	cb_stat_info i = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(owner, path, 0, &i, &err));
	return (times){i.mtime_ns, i.atime_ns, i.version};
}

static void check_times(const char *path, times was)
{
	times is = times_of(path);
	CHECK_MSG(is.mtime_ns == was.mtime_ns && is.atime_ns == was.atime_ns && is.version == was.version, "times of %s", path);
}

/* Times that somebody set are a change like any other; those that follow from entries are not. */
TEST_BOTH(times_of_folders_that_are_kept_stay)
{
	begin(memory);
	put(owner, "/work/ro/r", "r");
	put(owner, "/work/ro/d/q", "q");
	put(owner, "/private/x", "x");
	put(agent, "/work/mine", "1");
	cb_box *before = must_open(s, "demo@-0");
	CHECK_OK(cb_utimens(owner, "/work/ro", 1000, 2000, 0, &err));
	uint64_t touched = must_seq(owner);
	CHECK_OK(cb_utimens(owner, "/work/ro/d", 1000, 2000, 0, &err));
	CHECK_OK(cb_utimens(owner, "/private", 1000, 2000, 0, &err));
	rules_add(&all, RULE_READ_ONLY, "/work/ro");
	rules_add(&all, RULE_HIDE, "/private");
	times ro = times_of("/work/ro"), d = times_of("/work/ro/d"), private = times_of("/private");
	CHECK_CODE(cb_utimens(agent, "/work/ro", 5, 5, 0, &err), CB_DENIED);
	CHECK_CODE(cb_undo(agent, touched, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_restore(agent, before, "/work/ro", NULL, &err), CB_DENIED);
	put(agent, "/work/mine", "2");
	CHECK_OK(cb_restore(agent, before, NULL, NULL, &err));
	CHECK_STR(must_read(agent, "/work/mine"), "1");
	check_times("/work/ro", ro);
	check_times("/work/ro/d", d);
	check_times("/private", private);
	cb_box_close(before);
	/* In a fork the owner sets them, and the agent merges it. */
	cb_box *side = must_fork(s, "demo", "side"), *of_owner = must_open(s, "side");
	CHECK_OK(cb_box_who_set(of_owner, "owner", &err));
	put(side, "/work/new", "n");
	CHECK_OK(cb_utimens(of_owner, "/work/ro", 11, 22, 0, &err));
	CHECK_CODE(cb_merge(agent, side, NULL, NULL, NULL, &err), CB_DENIED);
	check_times("/work/ro", ro);
	CHECK_OK(cb_undo(of_owner, 0, NULL, &err));
	CHECK_OK(cb_utimens(of_owner, "/private", 11, 22, 0, &err));
	CHECK_CODE(cb_merge(agent, side, NULL, NULL, NULL, &err), CB_DENIED);
	CHECK(!strstr(err.message, "private"));
	check_times("/private", private);
	cb_box_close(of_owner);
	cb_box_close(side);
	end();
}

/* ---- cost ---- */

/* Without a rule in the box nobody is asked about anything in it, however much is read and written. */
TEST(without_rules_in_the_box_nothing_is_asked)
{
	begin(true);
	for (int i = 0; i < 50; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/d%d/f", i);
		put(agent, path, "x");
	}
	CHECK(exists(agent, "/work/d1/f")); /* the handle knows the version of the rules */
	atomic_store(&all.asked, 0);
	cb_stat_info info = CB_INIT(cb_stat_info);
	for (int i = 0; i < 100; i++) CHECK_OK(cb_stat(agent, "/work/d7/f", 0, &info, &err));
	put(agent, "/work/d7/f", "y");
	CHECK_OK(cb_rename(agent, "/work/d7", "/work/e7", 0, &err));
	CHECK_MSG(atomic_load(&all.asked) == 0, "%" PRIu64 " questions", atomic_load(&all.asked));
	(void)must_dump(agent);
	CHECK_MSG(atomic_load(&all.asked) < 500, "%" PRIu64 " questions", atomic_load(&all.asked));
	/* One that comes holds from the next call on, for handles, transactions and open files. */
	cb_box *t = must_begin(agent);
	put(t, "/work/new", "n");
	rules_add(&all, RULE_HIDE, "/work/e7");
	CHECK(!exists(agent, "/work/e7/f") && !exists(t, "/work/e7/f"));
	rules_add(&all, RULE_READ_ONLY, "/work/new");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	end();
}

/* What is hidden is counted where rules lie, and not by going through all there is. */
TEST(counts_ask_near_rules_only)
{
	cb_box_info info = CB_INIT(cb_box_info);
	begin(true);
	cb_box *t = must_begin(owner);
	for (int i = 0; i < 1000; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/many/%d/%d", i % 10, i);
		put(t, path, "xx");
	}
	put(t, "/work/hid/deep/a", "aaaa");
	put(t, "/work/hid/b", "bbb");
	CHECK_OK(cb_link(t, "/work/hid/b", "/work/many/b", &err));
	CHECK_OK(cb_link(t, "/work/hid/b", "/work/hid/deep/b", &err));
	(void)must_commit(t);
	CHECK_OK(cb_box_info_get(owner, &info, &err));
	uint64_t files = info.files, bytes = info.bytes;
	rules_add(&all, RULE_HIDE, "/work/hid");
	atomic_store(&all.asked, 0);
	CHECK_OK(cb_box_info_get(agent, &info, &err));
	CHECK_U64(info.files, files - 4); /* two folders, and two files, one of which has names elsewhere */
	CHECK_U64(info.bytes, bytes - 7);
	CHECK_MSG(atomic_load(&all.asked) < 50, "%" PRIu64 " questions", atomic_load(&all.asked));
	end();
}

/* Where no rule lies, nobody is asked per entry; where one does, only about that folder's. */
TEST(only_what_lies_near_a_rule_is_asked_about)
{
	begin(true);
	cb_box *t = must_begin(owner);
	for (int i = 0; i < 1000; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/many/%d/%d", i % 10, i);
		put(t, path, "x");
	}
	put(t, "/work/few/hid", "h");
	(void)must_commit(t);
	rules_add(&all, RULE_HIDE, "/work/few/hid");
	atomic_store(&all.asked, 0);
	(void)must_dump(agent);
	CHECK_MSG(atomic_load(&all.asked) < 20000, "%" PRIu64 " questions", atomic_load(&all.asked));
	int entries = 0;
	atomic_store(&all.asked, 0);
	CHECK_OK(cb_log(agent, NULL, count_steps, &entries, NULL, &err));
	end();
}
