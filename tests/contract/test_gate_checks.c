/*
 * test_gate_checks.c: each check of the gate that the others stand behind: what only this one refuses, or refuses at once. Found by taking
 * them out one by one.
 */
#include "box/pen.h"
#include "harness/ruled_box.h"

#include <pthread.h>
#include <unistd.h>

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
	begin(true);
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/sub/b", "b");
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
	rules_clear(&all);
	rules_add(&all, RULE_HIDE, "/work/sub/b");
	CHECK_OK(look_count(newest, &shown, &err));
	CHECK_U64(shown, count - 1);
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
	begin(true);
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/ro/r", "r");
	put(owner, "/work/b", "b");
	put(owner, "/work/z/b", "b");
	CHECK_OK(cb_link(owner, "/work/ro/r", "/work/link", &err));
	CHECK_OK(cb_link(owner, "/work/ro/r", "/work/z/link", &err)); /* the kept name is neither the first nor the last */
	box_node hid = node_of(owner, "/work/hid"), a = node_of(owner, "/work/hid/a"), ro = node_of(owner, "/work/ro");
	box_node r = node_of(owner, "/work/ro/r"), work = node_of(owner, "/work"), b = node_of(owner, "/work/b");
	rules_add(&all, RULE_HIDE, "/work/hid");
	rules_add(&all, RULE_READ_ONLY, "/work/ro");
	CHECK_OK(pen_begin(agent, "test", "", &e, &err));
	CHECK_CODE(look_node(pen_base(e), a.ino, &n, &err), CB_NOTFOUND);
	CHECK_CODE(look_node(pen_look(e), a.ino, &n, &err), CB_NOTFOUND);
	CHECK_CODE(pen_allow(e, ro.ino, span_str("r"), &r, &err), CB_DENIED);
	CHECK_OK(look_node(pen_look(e), r.ino, &n, &err)); /* to be read it is free, by all its names */
	CHECK_CODE(pen_allow(e, work.ino, span_str("link"), &r, &err), CB_DENIED);
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

/* A folder that the pen moved is where it is now. */
TEST(pens_are_refused_by_where_folders_are)
{
	box_node n;
	pen *e = NULL;
	begin(true);
	put(owner, "/work/F/a", "a");
	box_node work = node_of(owner, "/work"), dir = node_of(owner, "/work/F");
	rules_add(&all, RULE_READ_ONLY, "/work/there/x");
	CHECK_OK(pen_begin(agent, "test", "", &e, &err));
	CHECK_OK(pen_make(e, dir.ino, span_str("y"), CB_FILE, 0644, &n, &err));
	CHECK_OK(pen_move(e, work.ino, span_str("F"), work.ino, span_str("there"), &err));
	CHECK_CODE(pen_make(e, dir.ino, span_str("x"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_end(e, CB_OK, &err), CB_DENIED);
	end();
}

/* So is one that the pen made, also in the eyes of the second look, which asks about all of it. */
TEST(what_a_pen_made_is_weighed_where_it_is)
{
	box_node n, dir;
	pen *e = NULL;
	begin(true);
	box_node work = node_of(owner, "/work");
	rules_add(&all, RULE_READ_ONLY, "/work/there/x");
	CHECK_OK(pen_begin(agent, "test", "", &e, &err));
	CHECK_OK(pen_make(e, work.ino, span_str("new"), CB_DIR, 0755, &dir, &err));
	CHECK_OK(pen_make(e, dir.ino, span_str("x"), CB_FILE, 0644, &n, &err));
	CHECK_OK(pen_move(e, work.ino, span_str("new"), work.ino, span_str("there"), &err));
	CHECK_CODE(pen_end(e, CB_OK, &err), CB_DENIED);
	CHECK(!exists(owner, "/work/there"));
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
	begin(true);
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
	begin(true);
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
	begin(true);
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
	begin(true);
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
	begin(true);
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

TEST(the_log_of_a_file_follows_renames_that_are_shown)
{
	int count = 0;
	begin(true);
	put(owner, "/work/a", "1");
	CHECK_OK(cb_rename(owner, "/work/a", "/work/b", 0, &err));
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_log(agent, &CB_WITH(cb_log_options, .path = "/work/b"), count_steps, &count, NULL, &err));
	CHECK(count == 2);
	end();
}

/* Also of folders in it; of what is hidden, nothing. */
TEST(the_log_of_a_folder_tells_attributes_that_are_shown)
{
	static const char *const folders[] = {"/work/d", "/work/d/sub", "/work/d/secret"};
	int count = 0;
	begin(true);
	for (size_t i = 0; i < 3; i++) CHECK_OK(cb_mkdir(owner, folders[i], 0755, 0, &err));
	for (size_t i = 0; i < 3; i++) CHECK_OK(cb_tag_add(owner, folders[i], "t", &err));
	for (size_t i = 0; i < 3; i++) CHECK_OK(cb_xattr_set(owner, folders[i], "user.a", "v", 1, 0, &err));
	rules_add(&all, RULE_HIDE, "/work/d/secret");
	CHECK_OK(cb_log(agent, &CB_WITH(cb_log_options, .path = "/work/d"), count_steps, &count, NULL, &err));
	CHECK_U64(count, 6);
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
	begin(true);
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
	begin(true);
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
	begin(true);
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
	begin(true);
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
	rules_add(&all, RULE_HIDE,
	          "/private/f"); /* of the folder only the times are not told, so that nothing else is in the way */
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
	all.g.ask = ask_two;
	all.g.below = below_two;
	atomic_fetch_add(&all.g.version, 1);
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
	key name = key_name(f.ino, dir.ino, span_str("f")), place = key_name(dir.ino, work.ino, span_str("D"));
	CHECK_OK(txn_delete(t->txn, &name, &err));
	CHECK(!shows_key(t, key_attr(f.ino, span_str("user.a"))));
	CHECK_OK(txn_delete(t->txn, &place, &err));
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
	all.g.ask = ask_folder;
	all.g.below = below_folder;
	atomic_fetch_add(&all.g.version, 1);
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

TEST(the_log_of_a_file_ends_with_its_removal)
{
	int count = 0;
	begin(true);
	put(owner, "/work/a", "1");
	CHECK_OK(cb_unlink(owner, "/work/a", &err));
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_log(agent, &CB_WITH(cb_log_options, .path = "/work/a"), count_steps, &count, NULL, &err));
	CHECK(count == 2);
	end();
}

TEST(a_restore_sets_times_that_are_told)
{
	cb_stat_info before = CB_INIT(cb_stat_info), after = CB_INIT(cb_stat_info);
	begin(true);
	put(owner, "/work/d/a", "1");
	CHECK_OK(cb_utimens(owner, "/work/d", 1000, 2000, 0, &err));
	CHECK_OK(cb_stat(owner, "/work/d", 0, &before, &err));
	cb_box *then = must_open(s, "demo@-0");
	rules_add(&all, RULE_HIDE, "/private");
	put(agent, "/work/d/b", "b");
	CHECK_OK(cb_restore(agent, then, NULL, NULL, &err));
	CHECK_OK(cb_stat(owner, "/work/d", 0, &after, &err));
	CHECK(after.mtime_ns == before.mtime_ns && after.atime_ns == before.atime_ns);
	cb_box_close(then);
	end();
}

TEST(a_merge_of_what_is_shown)
{
	begin(true);
	put(owner, "/work/f", "1\n");
	put(owner, "/private/h", "h");
	rules_add(&all, RULE_HIDE, "/private");
	cb_box *side = must_fork(s, "demo", "side");
	put(side, "/work/f", "theirs\n");
	put(agent, "/work/g", "ours\n");
	CHECK_OK(cb_merge(agent, side, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(agent, "/work/f"), "theirs\n");
	cb_box_close(side);
	end();
}

/* ---- the log, of long histories ---- */

static cb_code told_by_name(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	bool hidden = strcmp(step->kind, "hidden") == 0;
	++*(int *)context;
	if (strcmp(step->kind, "hidden") != 0 && strcmp(step->kind, "shown") != 0) return CB_OK;
	CHECK_MSG(step->changed == !hidden, "step %" PRIu64 " of kind %s", step->seq, step->kind);
	CHECK_STR(step->params, hidden ? "" : "quoted");
	return CB_OK;
}

static void step_of_kind(const char *kind, const char *path, const char *text)
{
	cb_box *t = must_begin(agent);
	put(t, path, text);
	CHECK_OK(cb_txn_commit(t,
	                       &CB_WITH(cb_commit_options,
	                                .step = &CB_WITH(cb_step_info, .kind = kind, .params = "quoted", .params_size = CB_STRING)),
	                       NULL, &err));
	cb_box_close(t);
}

/* More steps than are taken back in one go; folders that move to where they are hidden and back in between. */
TEST(every_step_of_a_long_log_is_told_as_it_was)
{
	int count = 0;
	begin(true);
	CHECK_OK(cb_mkdir(owner, "/private", 0755, 0, &err));
	put(owner, "/work/F/x", "0");
	for (int i = 0; i < 150; i++) {
		char text[16];
		(void)snprintf(text, sizeof(text), "%d", i);
		bool away = i % 30 >= 15;
		if (i % 30 == 15) CHECK_OK(cb_rename(owner, "/work/F", "/private/F", 0, &err));
		if (i && i % 30 == 0) CHECK_OK(cb_rename(owner, "/private/F", "/work/F", 0, &err));
		step_of_kind(away ? "hidden" : "shown", away ? "/private/F/x" : "/work/F/x", text);
	}
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_log(agent, NULL, told_by_name, &count, NULL, &err));
	CHECK(count > 150);
	end();
}

/* Of a step so large that its changes are not listed, after which the one before was pruned, nobody knows what it touched. */
TEST(parameters_of_a_step_that_is_not_known_any_more_are_not_told)
{
	int count = 0;
	begin(true);
	put(owner, "/work/a", "a");
	cb_box *t = must_begin(agent);
	for (int i = 0; i < 5000; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/hid/%d", i);
		put(t, path, "x");
	}
	CHECK_OK(cb_txn_commit(t,
	                       &CB_WITH(cb_commit_options, .step = &CB_WITH(cb_step_info, .kind = "n", .params = "ls of (hid)",
	                                                                    .params_size = CB_STRING)),
	                       NULL, &err));
	cb_box_close(t);
	put(owner, "/work/a", "b");
	CHECK_OK(cb_prune(owner, &CB_WITH(cb_prune_options, .keep_steps = 2, .keep_ns = 1), NULL, &err));
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_OK(cb_log(agent, NULL, params_quiet, &count, NULL, &err));
	CHECK(count >= 2);
	end();
}

static cb_code newest_changed(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	*(bool *)context = step->changed;
	return CB_INTERRUPTED;
}

/* A name of a hidden file comes to a folder in which no rule lies: the folder's times follow, and say nothing of the step. */
TEST(times_that_follow_from_hidden_entries_are_no_change)
{
	bool changed = true;
	begin(true);
	put(owner, "/private/c", "c");
	put(owner, "/work/d/a", "a");
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_link(owner, "/private/c", "/work/d/c", &err));
	CHECK_OK(cb_log(agent, NULL, newest_changed, &changed, NULL, &err));
	CHECK(!changed);
	CHECK_OK(cb_utimens(owner, "/work/d", 1, 2, 0, &err));
	CHECK_OK(cb_log(agent, NULL, newest_changed, &changed, NULL, &err));
	CHECK(changed);
	end();
}

TEST(a_log_under_way_is_told_to_who_its_handle_is_for)
{
	cb_cursor *c = NULL;
	const cb_step *step = NULL;
	begin(true);
	put(owner, "/work/A/a", "a");
	for (int i = 0; i < 3; i++) put(owner, "/work/B/b", i % 2 ? "b" : "c");
	all.g.ask = ask_two;
	all.g.below = below_two;
	atomic_fetch_add(&all.g.version, 1);
	CHECK_OK(cb_log_open(agent, NULL, &c, &err));
	CHECK_OK(cb_step_next(c, &step, &err));
	CHECK(step->changed);
	CHECK_OK(cb_box_who_set(agent, "other", &err));
	CHECK_OK(cb_step_next(c, &step, &err));
	CHECK(!step->changed);
	cb_cursor_close(c);
	end();
}

/* ---- who asks stays who he is while he is asked about ---- */

static _Atomic bool who_is_set;
static bool waited;

static void *set_who(void *context)
{
	(void)context;
	cb_error e;
	CHECK_OK(cb_box_who_set(agent, "another", &e));
	atomic_store(&who_is_set, true);
	return NULL;
}

static pthread_t setter;

/* During the first question of the log another thread wants to set who. */
static gate_answer ask_slowly(void *context, const gate_request *q)
{
	(void)context;
	(void)q;
	if (waited) return GATE_PASS;
	waited = true;
	CHECK(pthread_create(&setter, NULL, set_who, NULL) == 0);
	for (int i = 0; i < 20 && !atomic_load(&who_is_set); i++) (void)usleep(5000);
	CHECK(!atomic_load(&who_is_set));
	CHECK_STR(q->who, "agent");
	return GATE_PASS;
}

TEST(the_log_is_told_to_who_asked_for_it)
{
	cb_cursor *c = NULL;
	const cb_step *step = NULL;
	begin(true);
	put(agent, "/work/a", "a");
	rules_add(&all, RULE_HIDE, "/private");
	CHECK_OK(cb_log_open(agent, NULL, &c, &err));
	all.g.ask = ask_slowly;
	CHECK_OK(cb_step_next(c, &step, &err));
	CHECK(waited && pthread_join(setter, NULL) == 0);
	CHECK(atomic_load(&who_is_set));
	cb_cursor_close(c);
	end();
}
