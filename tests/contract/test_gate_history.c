/*
 * test_gate_history.c: what the gate checks in log, blame, restore and merge, each where the other checks would come later or not at all.
 */
#include "harness/ruled_box.h"

#include <pthread.h>
#include <unistd.h>

/* ---- log and blame ---- */

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
	hook_set(ask_two, below_two);
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
