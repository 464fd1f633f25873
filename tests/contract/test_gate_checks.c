/*
 * test_gate_checks.c: each check of the gate that the others stand behind: what only this one refuses, or refuses at once. Found by taking
 * them out one by one.
 */
#include "harness/ruled_box.h"

/* ---- who ---- */

TEST(another_who_is_asked_about_from_the_next_call_on)
{
	char bytes[8];
	size_t size = 0;
	cb_file *f = NULL;
	begin(true);
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/hid/b", "b");
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_OK(cb_box_who_set(agent, "owner", &err));
	CHECK_OK(cb_open(agent, "/work/hid/a", CB_READ, 0, &f, &err));
	CHECK_OK(cb_pread(f, bytes, 4, 0, &size, &err));
	CHECK_OK(cb_box_who_set(agent, "agent", &err));
	CHECK_CODE(cb_unlink(agent, "/work/hid/b", &err), CB_NOTFOUND); /* a changing call, and the first */
	CHECK_CODE(cb_pread(f, bytes, 4, 0, &size, &err), CB_DENIED);
	CHECK_OK(cb_close(f, &err));
	/* A transaction of the owner's in the hands of the agent. */
	cb_box *t = must_begin(owner);
	put(t, "/work/hid/a", "changed");
	CHECK(exists(t, "/work/hid/a"));
	CHECK_OK(cb_box_who_set(t, "agent", &err));
	CHECK(!exists(t, "/work/hid/a"));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	CHECK_STR(must_read(owner, "/work/hid/a"), "a");
	end();
}

TEST(one_agent_after_the_other_through_one_handle)
{
	begin(true);
	put(owner, "/work/A/a", "a");
	put(owner, "/work/B/b", "b");
	hook_set(ask_two, below_two);
	CHECK(!exists(agent, "/work/A/a") && exists(agent, "/work/B/b"));
	CHECK_OK(cb_box_who_set(agent, "other", &err));
	CHECK(exists(agent, "/work/A/a") && !exists(agent, "/work/B/b"));
	cb_box *t = must_begin(agent);
	CHECK(exists(t, "/work/A/a"));
	put(t, "/work/A/a", "changed");
	CHECK_OK(cb_box_who_set(t, "agent", &err));
	CHECK(!exists(t, "/work/A/a") && exists(t, "/work/B/b"));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	/* Nothing is called between: what passed for one has not passed for the other. */
	t = must_begin(agent);
	put(t, "/work/A/a", "changed");
	CHECK_OK(cb_box_who_set(t, "agent", &err));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	CHECK_STR(must_read(owner, "/work/A/a"), "a");
	end();
}

TEST(a_transaction_that_began_before_there_was_a_hook)
{
	begin(true);
	put(owner, "/work/hid/a", "a");
	rules_add(&all, RULE_HIDE, "/work/hid");
	s->gate = NULL;
	cb_box *t = must_begin(agent);
	put(t, "/work/hid/b", "b");
	CHECK(exists(t, "/work/hid/a"));
	rules_set(&all, s);
	CHECK(!exists(t, "/work/hid/a"));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	end();
}

/* ---- the wall ---- */

/* What passed under some rules has not passed under others. */
TEST(another_rule_holds_at_commit)
{
	begin(true);
	rules_add(&all, RULE_HIDE, "/private");
	cb_box *t = must_begin(agent);
	put(t, "/work/a", "a");
	rules_add(&all, RULE_READ_ONLY, "/work/a");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	end();
}

/* What is too large for one write transaction goes another way to its commit. */
TEST(a_large_transaction_is_weighed_too)
{
	begin(true);
	cb_box *t = must_begin(agent);
	for (int i = 0; i < 1500; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/many/%d", i);
		put(t, path, "x");
	}
	put(t, "/work/ro", "x");
	rules_add(&all, RULE_READ_ONLY, "/work/ro");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	CHECK(!exists(owner, "/work/many/0"));
	end();
}

TEST(key_values_are_weighed_at_commit_and_named_when_set)
{
	begin(true);
	CHECK_OK(cb_kv_set(owner, "hid.k", "1", 1, &err));
	cb_box *t = must_begin(agent);
	CHECK_OK(cb_kv_set(t, "roo.k", "1", 1, &err));
	CHECK_OK(cb_kv_set(t, "hid.k", "2", 1, &err));
	rules_add(&all, RULE_READ_ONLY, "roo.");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	rules_clear(&all);
	rules_add(&all, RULE_HIDE, "hid.");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	CHECK(!strstr(err.message, "hid."));
	cb_box_close(t);
	CHECK_CODE(cb_kv_set(agent, "hid.none", "1", 1, &err), CB_DENIED);
	CHECK(strstr(err.message, "hid.none")); /* what the caller named himself */
	end();
}

/* A folder of the agent's own, moved to where a rule lies on a name it has. */
TEST(a_folder_cannot_be_moved_under_a_rule)
{
	begin(true);
	put(agent, "/work/mine/.secret/key", "mine");
	put(agent, "/work/mine/a", "a");
	rules_add(&all, RULE_HIDE, "/work/there/.secret");
	rules_add(&all, RULE_READ_ONLY, "/work/kept/a");
	CHECK_CODE(cb_rename(agent, "/work/mine", "/work/there", 0, &err), CB_DENIED);
	CHECK_CODE(cb_rename(agent, "/work/mine", "/work/kept", 0, &err), CB_DENIED);
	CHECK_OK(cb_rename(agent, "/work/mine", "/work/elsewhere", 0, &err));
	end();
}

/* A hook that hides from reading and would let be written. */
static gate_answer blind(void *context, const gate_request *q)
{
	(void)context;
	bool hidden = q->path ? strncmp(q->path, "/work/hid", 9) == 0 : span_starts(q->name, span_str("hid."));
	if (strcmp(q->who, "owner") == 0 || !hidden) return GATE_PASS;
	return q->access == GATE_READ ? GATE_HIDDEN : GATE_PASS;
}

TEST(what_is_hidden_cannot_be_written_whatever_the_hook_says_of_writing)
{
	begin(true);
	put(owner, "/work/hid/a", "a");
	CHECK_OK(cb_kv_set(owner, "hid.k", "1", 1, &err));
	cb_box *t = must_begin(agent);
	put(t, "/work/hid/a", "changed");
	put(t, "/work/hid/new", "n");
	CHECK_OK(cb_kv_set(t, "hid.k", "2", 1, &err));
	rules_add(&all, RULE_HIDE, "/work/hid");
	rules_add(&all, RULE_HIDE, "hid.");
	all.g.ask = blind;
	CHECK_CODE(cb_write_file(agent, "/work/hid/a", "x", 1, NULL, &err), CB_NOTFOUND);
	CHECK_CODE(cb_write_file(agent, "/work/hid2", "x", 1, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_kv_set(agent, "hid.k", "3", 1, &err), CB_DENIED);
	CHECK_CODE(cb_kv_delete(agent, "hid.k", &err), CB_NOTFOUND);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_DENIED);
	cb_box_close(t);
	CHECK_STR(must_read(owner, "/work/hid/a"), "a");
	end();
}

/* ---- what a veil remembers ---- */

/* Folders are remembered; a folder that moved, in the box or in the transaction, is another one. */
TEST(a_veil_forgets_where_folders_were)
{
	begin(true);
	put(owner, "/work/F/sub/a", "a");
	put(owner, "/work/G/x", "x");
	CHECK_OK(cb_mkdir(owner, "/private", 0755, 0, &err));
	rules_add(&all, RULE_HIDE, "/private");
	uint64_t moved = node_of(owner, "/work/F/sub/a").ino;
	cb_file *f = NULL;
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_open(agent, "/work/F/sub/a", CB_READ, 0, &f, &err));
	CHECK_OK(cb_fstat(f, &info, &err));
	CHECK_U64(info.ino, moved);
	CHECK_OK(cb_rename(owner, "/work/F", "/private/F", 0, &err));
	CHECK_CODE(cb_fstat(f, &info, &err), CB_DENIED);
	CHECK_OK(cb_rename(owner, "/private/F", "/work/F", 0, &err));
	CHECK_OK(cb_fstat(f, &info, &err));
	/* The same in one transaction, whose state stays. */
	cb_box *t = must_begin(agent);
	cb_file *in = NULL;
	CHECK_OK(cb_open(t, "/work/G/x", CB_READ, 0, &in, &err));
	CHECK_OK(cb_fstat(in, &info, &err));
	CHECK_OK(cb_box_who_set(t, "owner", &err));
	CHECK_OK(cb_rename(t, "/work/G", "/private/G", 0, &err));
	CHECK_OK(cb_box_who_set(t, "agent", &err));
	CHECK_CODE(cb_fstat(in, &info, &err), CB_DENIED);
	CHECK_OK(cb_close(in, &err));
	cb_box_close(t);
	CHECK_OK(cb_close(f, &err));
	end();
}

/* What is remembered of folders is of one who only: here the file is reached by its number, not by names that are asked about. */
TEST(a_veil_forgets_for_whom_it_was)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_file *f = NULL;
	begin(true);
	put(owner, "/work/A/a", "a");
	put(owner, "/work/B/b", "b");
	hook_set(ask_two, below_two);
	CHECK_OK(cb_open(agent, "/work/B/b", CB_READ, 0, &f, &err));
	CHECK_OK(cb_fstat(f, &info, &err));
	CHECK_OK(cb_box_who_set(agent, "other", &err));
	CHECK_CODE(cb_fstat(f, &info, &err), CB_DENIED);
	CHECK_OK(cb_close(f, &err));
	end();
}

/* Knowledge is carried on from state to state; a folder above the one that is asked about is what moves. */
TEST(a_veil_carried_on_sees_folders_move)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_file *f = NULL;
	begin(true);
	put(owner, "/work/out/mid/in/a", "a");
	put(owner, "/work/other", "1");
	CHECK_OK(cb_mkdir(owner, "/private", 0755, 0, &err));
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_open(agent, "/work/out/mid/in/a", CB_READ, 0, &f, &err));
	for (int i = 0; i < 200; i++) { /* over key frames, too */
		put(i % 2 ? agent : owner, "/work/other", i % 3 ? "2" : "3");
		CHECK_OK(cb_fstat(f, &info, &err));
		if (i % 20) continue;
		CHECK_OK(cb_rename(owner, "/work/out/mid", "/private/mid", 0, &err));
		CHECK_CODE(cb_fstat(f, &info, &err), CB_DENIED);
		CHECK(!exists(agent, "/private/mid/in/a"));
		put(agent, "/work/other", "4");
		CHECK_CODE(cb_fstat(f, &info, &err), CB_DENIED);
		CHECK_OK(cb_rename(owner, "/private/mid", "/work/out/mid", 0, &err));
		CHECK_OK(cb_fstat(f, &info, &err));
	}
	/* With a step so large that the state after it has nothing in common with the one before. */
	for (int i = 0; i < 2; i++) {
		cb_box *large = must_begin(owner);
		for (int k = 0; k < 4500; k++) {
			char path[48];
			(void)snprintf(path, sizeof(path), "/work/many/%d/%d", i, k);
			put(large, path, "x");
		}
		if (i) CHECK_OK(cb_rename(large, "/work/out/mid", "/private/mid", 0, &err));
		(void)must_commit(large);
		CHECK_CODE(cb_fstat(f, &info, &err), i ? CB_DENIED : CB_OK);
	}
	CHECK_OK(cb_rename(owner, "/private/mid", "/work/out/mid", 0, &err));
	/* And in a transaction, whose failed call takes its changes back. */
	cb_box *t = must_begin(agent);
	CHECK(exists(t, "/work/out/mid/in/a"));
	CHECK_OK(cb_rename(t, "/work/out/mid", "/work/mid", 0, &err));
	CHECK(exists(t, "/work/mid/in/a"));
	rules_add(&all, RULE_HIDE, "/work/there/in");
	CHECK_CODE(cb_rename(t, "/work/mid", "/work/there", 0, &err), CB_DENIED);
	CHECK(exists(t, "/work/mid/in/a") && !exists(t, "/work/out/mid"));
	rules_add(&all, RULE_HIDE, "/work/mid/in");
	CHECK(!exists(t, "/work/mid/in/a"));
	cb_box_close(t);
	CHECK_OK(cb_close(f, &err));
	end();
}

/* ---- what cannot be reached from the root ---- */

static bool shows_key(cb_box *t, key k)
{
	bool shown = false;
	tree_view v = box_view(t);
	CHECK_OK(gate_shows(&v, &k, &shown, &err));
	return shown;
}

/* In a damaged map a folder may have entries and no place: they are hidden, and no list fails on them. */
TEST(what_no_name_leads_to_is_hidden)
{
	begin(true);
	put(owner, "/work/D/f", "f");
	CHECK_OK(cb_xattr_set(owner, "/work/D/f", "user.a", "v", 1, 0, &err));
	rules_add(&all, RULE_HIDE, "/private");
	box_node work = node_of(owner, "/work"), dir = node_of(owner, "/work/D"), f = node_of(owner, "/work/D/f");
	cb_box *t = must_begin(agent);
	CHECK_OK(box_enter(t, &err));
	CHECK(shows_key(t, key_attr(f.ino, span_str("user.a"))) && shows_key(t, key_entry(dir.ino, span_str("f"))));
	key name = key_name(f.ino, dir.ino, span_str("f")), above = key_name(dir.ino, work.ino, span_str("D"));
	CHECK_OK(txn_delete(t->txn, &name, &err));
	CHECK(!shows_key(t, key_attr(f.ino, span_str("user.a"))));
	CHECK_OK(txn_delete(t->txn, &above, &err));
	CHECK(!shows_key(t, key_entry(dir.ino, span_str("f"))));
	tree_view v = box_view(t);
	key below = key_prefix(KIND_ENTRY, dir.ino);
	AUTO_CURSOR tree_cursor *c = NULL;
	span k, value;
	CHECK_OK(tree_cursor_open_below(&v, key_span(&below), &c, &err));
	CHECK(!tree_cursor_get(c, &k, &value));
	CHECK_OK(box_leave(t, CB_OK));
	cb_box_close(t);
	end();
}

/* ---- folders that are made on the way, times that follow ---- */

/* The second folder that is missing is made in the first without resolving a path: it is asked about at once, by its name. */
TEST(folders_on_the_way_are_asked_about)
{
	begin(true);
	rules_add(&all, RULE_READ_ONLY, "/work/new/ro");
	rules_add(&all, RULE_HIDE, "/work/new/hid");
	CHECK_CODE(cb_mkdir(agent, "/work/new/ro/a/b", 0755, CB_PARENTS, &err), CB_DENIED);
	CHECK_MSG(strstr(err.message, "'/work/new/ro'"), "%s", err.message);
	CHECK_CODE(cb_mkdir(agent, "/work/new/hid/a/b", 0755, CB_PARENTS, &err), CB_DENIED);
	CHECK_MSG(strstr(err.message, "'/work/new/hid'"), "%s", err.message);
	CHECK(!exists(owner, "/work/new"));
	end();
}

static gate_answer ask_folder(void *context, const gate_request *q)
{
	(void)context;
	bool kept = q->path && strcmp(q->path, "/work/f") == 0 && q->access == GATE_WRITE && strcmp(q->who, "owner") != 0;
	return kept ? GATE_DENIED : GATE_PASS;
}

static gate_below below_folder(void *context, const char *who, uint64_t box, const char *path)
{
	(void)context;
	(void)box;
	if (strcmp(who, "owner") == 0) return GATE_BELOW_NONE;
	if (strcmp(path, "/") == 0) return GATE_BELOW_DEEPER;
	return strcmp(path, "/work") == 0 || strcmp(path, "/work/f") == 0 ? GATE_BELOW_INSIDE : GATE_BELOW_NONE;
}

/* The folder is kept as it is, its entries are not: its times follow them, and are not set. */
TEST(times_that_follow_from_entries_are_not_weighed)
{
	begin(true);
	put(owner, "/work/f/a", "a");
	hook_set(ask_folder, below_folder);
	put(agent, "/work/f/b", "b");
	CHECK_OK(cb_unlink(agent, "/work/f/a", &err));
	CHECK_CODE(cb_utimens(agent, "/work/f", 1, 2, 0, &err), CB_DENIED);
	end();
}

/* ---- what passes although rules lie elsewhere ---- */

TEST(a_list_opened_under_rules_goes_on_under_them)
{
	int count = 0;
	cb_cursor *c = NULL;
	const cb_entry *e = NULL;
	begin(true);
	put(owner, "/work/a", "a");
	put(owner, "/work/b", "b");
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_readdir_open(agent, "/work", &c, &err));
	for (;; count++) {
		CHECK_OK(cb_entry_next(c, &e, &err));
		if (!e) break;
	}
	CHECK(count == 2);
	cb_cursor_close(c);
	end();
}

/* A rule that comes while a folder is listed holds for the next entry. */
static cb_code rule_comes(void *context, span key_bytes, span value, cb_error *e)
{
	(void)key_bytes;
	(void)value;
	(void)e;
	if (++*(int *)context == 3) rules_add(&all, RULE_HIDE, "/work/d");
	return CB_OK;
}

TEST(a_rule_that_comes_holds_for_the_rest_of_a_folder)
{
	int count = 0;
	begin(true);
	for (int i = 0; i < 8; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/d/%d", i);
		put(owner, path, "x");
	}
	uint64_t dir = node_of(owner, "/work/d").ino;
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(box_enter(agent, &err));
	tree_view v = box_view(agent);
	CHECK_OK(inode_keys(&v, dir, KIND_ENTRY, rule_comes, &count, &err));
	CHECK_OK(box_leave(agent, CB_OK));
	CHECK_MSG(count == 3, "%d entries", count);
	end();
}

/* In a folder where no rule lies a file is hidden all the same, by another name of it: first, last and in the midst of others. */
TEST(a_link_among_plain_entries_is_asked_about)
{
	begin(true);
	put(owner, "/private/c", "TOP SECRET");
	for (int i = 0; i < 9; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/d/%d", i);
		if (i % 4) put(owner, path, "x");
		else CHECK_OK(cb_mkdir(owner, "/work/d", 0755, CB_PARENTS, &err));
		if (i % 4 == 0) CHECK_OK(cb_link(owner, "/private/c", path, &err));
	}
	rules_add(&all, RULE_HIDE, "/private");
	const char *told = must_dump(agent);
	CHECK(strstr(told, "/work/d/1") && strstr(told, "/work/d/7"));
	CHECK(!strstr(told, "/work/d/0") && !strstr(told, "/work/d/4") && !strstr(told, "/work/d/8"));
	uint64_t dir = node_of(owner, "/work/d").ino, plain = node_of(owner, "/work/d/1").ino,
		 link = node_of(owner, "/work/d/4").ino;
	CHECK_OK(box_enter(agent, &err));
	CHECK(shows_key(agent, key_name(plain, dir, span_str("1"))));
	CHECK(!shows_key(agent, key_name(link, dir, span_str("4"))));
	CHECK_OK(box_leave(agent, CB_OK));
	end();
}
