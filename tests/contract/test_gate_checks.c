/*
 * test_gate_checks.c: each check of the gate that the others stand behind: what only this one refuses, or refuses at once. Found by taking
 * them out one by one.
 */
#include "box/pen.h"
#include "harness/twins.h"

static rules all;
static cb_store *s;
static cb_box *owner, *agent;
static cb_error err;

static void begin(void)
{
	s = test_store_open(true);
	rules_init(&all);
	rules_set(&all, s);
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	CHECK_OK(cb_box_create(s, "demo", &owner, &err));
	CHECK_OK(cb_store_who_set(s, "agent", &err));
	agent = must_open(s, "demo");
}

static void end(void)
{
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	rules_clear(&all);
	test_store_sound(s);
	cb_box_close(agent);
	cb_box_close(owner);
	cb_store_close(s);
}

static void put(cb_box *b, const char *path, const char *text)
{
	CHECK_OK(cb_write_file(b, path, text, strlen(text), &CB_WITH(cb_write_options, .parents = true), &err));
}

/* ---- looks and pens: what other layers see and do ---- */

static box_node node_of(cb_box *b, const char *path)
{
	AUTO_LOOK look *l = NULL;
	box_node n;
	CHECK_OK(look_open(b, LOOK_AS_SEEN, &l, &err));
	CHECK_OK(look_find(l, path, false, &n, &err));
	return n;
}

TEST(looks_show_what_their_handle_does)
{
	box_node n;
	uint64_t count = 0, shown = 0;
	begin();
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/b", "b");
	uint64_t hidden = node_of(owner, "/work/hid/a").ino;
	rules_add(&all, RULE_HIDE, "/work/hid");
	look *newest = NULL, *at = NULL, *mine = NULL;
	CHECK_OK(look_open(agent, LOOK_NEWEST, &newest, &err));
	box_place place = look_place(newest);
	CHECK_OK(look_open_at(agent, &place, NULL, &at, &err));
	CHECK_CODE(look_find(newest, "/work/hid/a", false, &n, &err), CB_NOTFOUND);
	CHECK_CODE(look_node(newest, hidden, &n, &err), CB_NOTFOUND);
	CHECK_CODE(look_node(at, hidden, &n, &err), CB_NOTFOUND);
	CHECK_OK(look_open(owner, LOOK_NEWEST, &mine, &err));
	CHECK_OK(look_node(mine, hidden, &n, &err));
	CHECK_OK(look_count(mine, &count, &err));
	CHECK_OK(look_count(newest, &shown, &err));
	CHECK_U64(shown, count - 2);
	look_close(mine);
	look_close(at);
	look_close(newest);
	end();
}

/* A pen is refused where it writes, not after all of it was written; by folder and name as by number. */
TEST(pens_are_refused_at_once)
{
	box_node n;
	pen *e = NULL;
	begin();
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/ro/r", "r");
	put(owner, "/work/b", "b");
	box_node hid = node_of(owner, "/work/hid"), a = node_of(owner, "/work/hid/a"), ro = node_of(owner, "/work/ro");
	box_node r = node_of(owner, "/work/ro/r"), work = node_of(owner, "/work"), b = node_of(owner, "/work/b");
	rules_add(&all, RULE_HIDE, "/work/hid");
	rules_add(&all, RULE_READ_ONLY, "/work/ro");
	CHECK_OK(pen_begin(agent, "test", "", &e, &err));
	CHECK_CODE(look_node(pen_base(e), a.ino, &n, &err), CB_NOTFOUND);
	CHECK_CODE(look_node(pen_look(e), a.ino, &n, &err), CB_NOTFOUND);
	CHECK_CODE(pen_allow(e, ro.ino, span_str("r"), &r, &err), CB_DENIED);
	CHECK_CODE(pen_make(e, hid.ino, span_str("new"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_make(e, work.ino, span_str("hid"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_make(e, ro.ino, span_str("new"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_remove(e, ro.ino, span_str("r"), NULL, &err), CB_DENIED);
	CHECK_CODE(pen_remove(e, hid.ino, span_str("a"), NULL, &err), CB_NOTFOUND);
	CHECK_CODE(pen_link(e, b.ino, ro.ino, span_str("new"), NULL, &err), CB_DENIED);
	CHECK_CODE(pen_link(e, a.ino, work.ino, span_str("new"), NULL, &err), CB_NOTFOUND);
	CHECK_CODE(pen_move(e, work.ino, span_str("b"), ro.ino, span_str("b"), &err), CB_DENIED);
	CHECK_CODE(pen_move(e, ro.ino, span_str("r"), work.ino, span_str("r"), &err), CB_DENIED);
	CHECK_OK(pen_end(e, CB_OK, &err));
	CHECK_STR(must_read(owner, "/work/b"), "b");
	end();
}

static cb_code no_hidden_change(void *context, const cb_change *c, cb_error *e)
{
	(void)e;
	++*(int *)context;
	CHECK_MSG(!strstr(c->path, "hid"), "%s", c->path);
	return CB_OK;
}

TEST(what_a_transaction_changed_is_told_by_the_rules_of_now)
{
	int count = 0;
	begin();
	put(owner, "/work/hid/old", "o");
	cb_box *t = must_begin(agent);
	put(t, "/work/hid/new", "n");
	put(t, "/work/a", "a");
	CHECK_OK(cb_unlink(t, "/work/hid/old", &err));
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_OK(box_txn_changes(t, no_hidden_change, &count, &err));
	CHECK(count == 1);
	cb_box_close(t);
	end();
}

/* ---- who ---- */

TEST(another_who_is_asked_about_from_the_next_call_on)
{
	char bytes[8];
	size_t size = 0;
	cb_file *f = NULL;
	begin();
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

/* From each of two agents something else is hidden. */
static gate_answer ask_two(void *context, const gate_request *q)
{
	(void)context;
	const char *hidden = strcmp(q->who, "agent") == 0 ? "/work/A" : strcmp(q->who, "other") == 0 ? "/work/B" : NULL;
	return hidden && q->path && strncmp(q->path, hidden, strlen(hidden)) == 0 ? GATE_HIDDEN : GATE_PASS;
}

static gate_below below_two(void *context, const char *who, uint64_t box, const char *path)
{
	(void)context;
	(void)box;
	if (strcmp(who, "owner") == 0) return GATE_BELOW_NONE;
	return strcmp(path, "/") == 0 ? GATE_BELOW_DEEPER : strcmp(path, "/work") == 0 ? GATE_BELOW_INSIDE : GATE_BELOW_NONE;
}

TEST(one_agent_after_the_other_through_one_handle)
{
	begin();
	put(owner, "/work/A/a", "a");
	put(owner, "/work/B/b", "b");
	all.g.ask = ask_two;
	all.g.below = below_two;
	atomic_fetch_add(&all.g.version, 1);
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
	begin();
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

/* What is too large for one write transaction goes another way to its commit. */
TEST(a_large_transaction_is_weighed_too)
{
	begin();
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
	begin();
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
	begin();
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
	begin();
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

/* ---- history ---- */

static cb_code params_quiet(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	++*(int *)context;
	CHECK_MSG(!strstr(step->params, "hid") && !strstr(step->result, "hid"), "%s %s", step->params, step->result);
	if (strcmp(step->who, "owner") == 0) CHECK_STR(step->params, "");
	return CB_OK;
}

static cb_code audit_quiet(void *context, const cb_audit *a, cb_error *e)
{
	(void)e;
	++*(int *)context;
	CHECK_MSG(!strstr(a->subject, "hid") && !strstr(a->message, "hid"), "%s %s", a->subject, a->message);
	return CB_OK;
}

/* By whom, by the path or key they name, by what the step touched, and when what it touched is not known any more. */
TEST(parameters_are_told_to_their_author_of_what_he_may_see)
{
	int count = 0;
	begin();
	put(owner, "/work/a", "a");
	put(agent, "/work/hid/x", "x");
	CHECK_OK(cb_kv_set(agent, "hid.k", "1", 1, &err));
	CHECK_OK(cb_step_record(agent, &CB_WITH(cb_step_info, .kind = "n", .params = "/work/hid/none", .params_size = CB_STRING),
	                        NULL, &err));
	CHECK_OK(cb_step_record(agent, &CB_WITH(cb_step_info, .kind = "n", .params = "hid.none", .params_size = CB_STRING), NULL,
	                        &err));
	/* What it touched is hidden, what it names is not. */
	cb_box *t = must_begin(agent);
	put(t, "/work/hid/y", "y");
	CHECK_OK(cb_txn_commit(t,
	                       &CB_WITH(cb_commit_options,
	                                .step = &CB_WITH(cb_step_info, .kind = "n", .params = "ls of (hid)",
	                                                 .params_size = CB_STRING, .result = "hid: y", .result_size = CB_STRING)),
	                       NULL, &err));
	cb_box_close(t);
	put(agent, "/work/b", "b");
	rules_add(&all, RULE_HIDE, "/work/hid");
	rules_add(&all, RULE_HIDE, "hid.");
	CHECK_OK(cb_log(agent, NULL, params_quiet, &count, NULL, &err));
	CHECK_OK(cb_audit_list(s, NULL, audit_quiet, &count, &err));
	CHECK(count > 12);
	end();
}

static cb_code line_of(void *context, const cb_blame_line *l, cb_error *e)
{
	(void)e;
	CHECK_MSG(l->seq >= *(uint64_t *)context, "line %" PRIu64 " of step %" PRIu64, l->line, l->seq);
	return CB_OK;
}

/* Into where it is hidden and out again: what it was there is not told, not even as the step a line came with. */
TEST(blame_does_not_look_into_hidden_times)
{
	begin();
	put(owner, "/work/hid/f", "1\n");
	put(owner, "/work/hid/f", "1\n2\n");
	CHECK_OK(cb_rename(owner, "/work/hid/f", "/work/f", 0, &err));
	uint64_t out = must_seq(owner);
	put(owner, "/work/f", "1\n2\n3\n");
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_OK(cb_blame(agent, "/work/f", line_of, &out, &err));
	end();
}

/* While it had a hidden name it was hidden by all of them. */
TEST(blame_does_not_look_into_times_with_a_hidden_name)
{
	begin();
	put(owner, "/work/f", "1\n");
	CHECK_OK(cb_mkdir(owner, "/private", 0755, 0, &err));
	CHECK_OK(cb_link(owner, "/work/f", "/private/f", &err));
	put(owner, "/work/f", "1\n2\n");
	CHECK_OK(cb_unlink(owner, "/private/f", &err));
	uint64_t shown = must_seq(owner);
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_blame(agent, "/work/f", line_of, &shown, &err));
	end();
}

static cb_code count_steps(void *context, const cb_step *step, cb_error *e)
{
	(void)step;
	(void)e;
	++*(int *)context;
	return CB_OK;
}

TEST(the_log_of_a_file_follows_renames_that_are_shown)
{
	int count = 0;
	begin();
	put(owner, "/work/a", "1");
	CHECK_OK(cb_rename(owner, "/work/a", "/work/b", 0, &err));
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_log(agent, &CB_WITH(cb_log_options, .path = "/work/b"), count_steps, &count, NULL, &err));
	CHECK(count == 2);
	end();
}

/* ---- restore, merge ---- */

static void rules_only_in(cb_box *b)
{
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	all.box = info.id;
	all.follow_forks = true;
	atomic_fetch_add(&all.g.version, 1);
}

TEST(a_restore_is_bound_by_the_rules_of_both_boxes)
{
	begin();
	put(owner, "/work/hid/h", "1");
	put(owner, "/work/a", "1");
	cb_box *side = must_fork(s, "demo", "side"), *of_owner = must_open(s, "side");
	CHECK_OK(cb_box_who_set(of_owner, "owner", &err));
	put(of_owner, "/work/hid/h", "side");
	put(of_owner, "/work/a", "side");
	rules_add(&all, RULE_HIDE, "/work/hid");
	rules_only_in(side); /* what is hidden in the source does not come */
	CHECK_OK(cb_restore(agent, side, NULL, NULL, &err));
	CHECK_STR(must_read(owner, "/work/a"), "side");
	CHECK(!exists(owner, "/work/hid/h"));
	put(owner, "/work/hid/h", "mine");
	put(owner, "/work/a", "mine");
	rules_only_in(owner); /* what is shown there cannot come to where it is hidden here */
	CHECK_CODE(cb_restore(agent, side, NULL, NULL, &err), CB_DENIED);
	CHECK_STR(must_read(owner, "/work/a"), "mine");
	CHECK_STR(must_read(owner, "/work/hid/h"), "mine");
	CHECK_OK(cb_remove(of_owner, "/work/hid", &err)); /* and what is hidden here stays */
	CHECK_OK(cb_restore(agent, side, NULL, NULL, &err));
	CHECK_STR(must_read(owner, "/work/a"), "side");
	CHECK_STR(must_read(owner, "/work/hid/h"), "mine");
	cb_box_close(of_owner);
	cb_box_close(side);
	end();
}

TEST(a_restore_does_not_make_what_is_there_unseen)
{
	begin();
	put(owner, "/private/c", "TOP SECRET");
	put(agent, "/work/F/c", "mine");
	cb_box *before = must_open(s, "demo@-0");
	CHECK_OK(cb_unlink(agent, "/work/F/c", &err));
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_link(owner, "/private/c", "/work/F/c", &err));
	CHECK_CODE(cb_restore(agent, before, "/work/F", NULL, &err), CB_DENIED);
	CHECK_CODE(cb_restore(agent, before, NULL, NULL, &err), CB_DENIED);
	CHECK_STR(must_read(owner, "/work/F/c"), "TOP SECRET");
	cb_box_close(before);
	end();
}

TEST(a_restore_leaves_times_that_are_not_told)
{
	cb_stat_info before = CB_INIT(cb_stat_info), after = CB_INIT(cb_stat_info);
	begin();
	put(owner, "/work/d/a", "1");
	cb_box *then = must_open(s, "demo@-0");
	CHECK_OK(cb_utimens(owner, "/work/d", 1000, 2000, 0, &err));
	rules_add(&all, RULE_HIDE, "/work/d/.s");
	CHECK_OK(cb_stat(owner, "/work/d", 0, &before, &err));
	put(agent, "/work/b", "b");
	CHECK_OK(cb_restore(agent, then, NULL, NULL, &err));
	CHECK(!exists(agent, "/work/b"));
	CHECK_OK(cb_stat(owner, "/work/d", 0, &after, &err));
	CHECK(after.mtime_ns == before.mtime_ns && after.atime_ns == before.atime_ns);
	cb_box_close(then);
	end();
}

typedef enum hidden_in { IN_BASE, IN_OURS, IN_THEIRS } hidden_in;

/* Both sides change a file that is hidden in one state only, by a second name: no conflict is told. in_into, in_from: where rules hold. */
static void merge_refused(hidden_in where, bool in_into, bool in_from)
{
	begin();
	CHECK_OK(cb_mkdir(owner, "/private", 0755, 0, &err));
	put(owner, "/work/f", "1\n");
	if (where == IN_BASE) CHECK_OK(cb_link(owner, "/work/f", "/private/f", &err));
	cb_box *side = must_fork(s, "demo", "side"), *of_owner = must_open(s, "side");
	CHECK_OK(cb_box_who_set(of_owner, "owner", &err));
	if (where == IN_BASE) CHECK_OK(cb_unlink(owner, "/private/f", &err));
	if (where == IN_BASE) CHECK_OK(cb_unlink(of_owner, "/private/f", &err));
	if (where != IN_BASE) CHECK_OK(cb_link(where == IN_OURS ? owner : of_owner, "/work/f", "/private/f", &err));
	put(of_owner, "/work/f", "theirs\n");
	put(owner, "/work/f", "ours\n");
	rules_add(&all, RULE_HIDE, "/private");
	if (in_into != in_from) rules_only_in(in_into ? owner : side);
	CHECK_CODE(cb_merge(agent, side, NULL, NULL, NULL, &err), CB_DENIED);
	CHECK(!strstr(err.message, "private"));
	cb_box_close(of_owner);
	cb_box_close(side);
	end();
}

TEST(a_merge_of_what_was_hidden)
{
	merge_refused(IN_BASE, true, true);
}

TEST(a_merge_of_what_is_hidden_here)
{
	merge_refused(IN_OURS, true, true);
}

TEST(a_merge_of_what_is_hidden_there)
{
	merge_refused(IN_THEIRS, true, false);
}

TEST(a_merge_of_what_is_hidden_from_who_sends_it)
{
	merge_refused(IN_THEIRS, false, true);
}

/* ---- what a veil remembers ---- */

/* Folders are remembered; a folder that moved, in the box or in the transaction, is another one. */
TEST(a_veil_forgets_where_folders_were)
{
	begin();
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
