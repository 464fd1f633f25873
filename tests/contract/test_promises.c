/*
 * test_promises.c: promises of README, docs and cowbox.h that no other test proves. docs/promises.md lists every promise with its test.
 */
#include "contract/test_docs_kit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "box/internal.h"
#include "harness/demo_box.h"
#include "store/fault.h"

static cb_store_stats stats(void)
{
	cb_store_stats out = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &out, &err));
	return out;
}

TEST_BOTH(a_fork_copies_nothing)
{
	begin(memory);
	for (int i = 0; i < 500; i++)
		must_write(b, text_of("/work/%d", i),
		           "some text that is too long to be kept in the map itself: it is "
		           "longer than a hundred and twelve bytes, so it needs a content");
	cb_store_stats before = stats();
	cb_box *fork = must_fork(s, "demo", "fork");
	CHECK_OK(cb_checkpoint_save(b, "here", 0, false, &err));
	cb_store_stats after = stats();
	CHECK_U64(after.nodes, before.nodes);
	CHECK_U64(after.contents, before.contents);
	CHECK_U64(after.steps, before.steps + 1);
	CHECK_STR(must_diff(b, fork), "");
	cb_box_close(fork);
	end();
}

TEST_BOTH(a_small_step_writes_no_node)
{
	begin(memory);
	must_write(b, "/work/a", "0");
	cb_store_stats before = stats();
	for (int i = 0; i < 20; i++) must_write(b, "/work/a", text_of("%d", i));
	CHECK_U64(stats().nodes, before.nodes);
	for (int i = 0; i < 300; i++) must_write(b, "/work/a", text_of("%d", i));
	CHECK(stats().nodes > before.nodes); /* a key frame */
	CHECK_STR(must_read(must_open(s, "demo@150"), "/work/a"), text_of("%d", 150 - 22));
	end();
}

TEST_BOTH(a_copy_shares_contents)
{
	begin(memory);
	char *big = test_keep(malloc(3000001));
	memset(big, 'x', 3000000);
	big[3000000] = 0;
	must_write(b, "/work/a", big);
	cb_store_stats before = stats();
	CHECK_OK(cb_copy(b, "/work/a", "/work/b", 0, &err));
	CHECK_U64(stats().contents, before.contents);
	must_write(b, "/work/a", "changed");
	CHECK_STR(must_read(b, "/work/b"), big);
	end();
}

TEST_BOTH(names_are_bytes)
{
	static const char *const names[] = {"\xff\xfe", "new\nline", " ", "a\tb", "\xc3\xa4", "-rf", "*"};
	begin(memory);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) must_write(b, text_of("/work/%s", names[i]), names[i]);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_STR(must_read(b, text_of("/work/%s", names[i])), names[i]);
	CHECK_OK(cb_kv_set(b, "\xff", "v", 1, &err));
	end();
}

TEST_BOTH(outputs_are_written_on_success_only)
{
	begin(memory);
	char *text = (char *)1;
	size_t size = 77;
	uint64_t number = 77;
	cb_box *box = (cb_box *)2;
	cb_file *file = (cb_file *)3;
	CHECK_CODE(cb_read_file(b, "/work/none", &text, &size, NULL), CB_NOTFOUND);
	CHECK_CODE(cb_kv_get(b, "none", &text, &size, NULL), CB_NOTFOUND);
	CHECK_CODE(cb_readlink(b, "/work", &text, NULL, NULL), CB_INVALID);
	CHECK_CODE(cb_box_open(s, "none", &box, NULL), CB_NOTFOUND);
	CHECK_CODE(cb_open(b, "/work/none", CB_READ, 0, &file, NULL), CB_NOTFOUND);
	CHECK_CODE(cb_undo(b, 0, &number, NULL), CB_NOTHING);
	CHECK(text == (char *)1 && size == 77 && number == 77 && box == (cb_box *)2 && file == (cb_file *)3);
	CHECK_CODE(cb_unlink(b, "/work/none", &err), CB_NOTFOUND);
	CHECK(err.code == CB_NOTFOUND && strstr(err.message, "/work/none") && !strchr(err.message, '\n'));
	end();
}

TEST_BOTH(a_failing_call_leaves_the_transaction_as_it_was)
{
	begin(memory);
	must_write(b, "/work/d/x", "x");
	CHECK_OK(cb_box_quota_set(b, 0, 8, 0, &err));
	cb_box *t = must_begin(b);
	must_write(t, "/work/one", "1");                                    /* seven files */
	CHECK_CODE(cb_copy(t, "/work/d", "/work/copy", 0, &err), CB_QUOTA); /* half of it fits */
	CHECK(!exists(t, "/work/copy") && exists(t, "/work/one"));
	CHECK_CODE(cb_write_file(t, "/work/p/q/r", "x", 1, &CB_WITH(cb_write_options, .parents = true), &err), CB_QUOTA);
	CHECK(!exists(t, "/work/p"));
	(void)must_commit(t);
	CHECK_U64(must_seq(b), 2);
	CHECK_STR(must_diff(must_open(s, "demo@1"), b), "A /work/one\n");
	end();
}

TEST_BOTH(a_transaction_is_seen_through_its_handle_only)
{
	begin(memory);
	cb_box *other = must_open(s, "demo");
	cb_box *t = must_begin(b), *none = NULL;
	must_write(t, "/work/a", "a");
	CHECK_U64(must_version(t, "/work/a"), 0);
	CHECK(exists(t, "/work/a") && !exists(other, "/work/a") && !exists(b, "/work/a"));
	must_write(other, "/work/b", "b"); /* nobody is locked out */
	CHECK(!exists(t, "/work/b") && exists(b, "/work/b"));
	CHECK_CODE(cb_txn_begin(t, NULL, &none, &err), CB_INVALID);
	cb_box_close(t);
	CHECK(!exists(b, "/work/a") && exists(b, "/work/b"));
	CHECK_U64(must_seq(b), 1);
	cb_box_close(other);
	end();
}

TEST_BOTH(write_skew_is_possible_and_can_be_refused)
{
	begin(memory);
	cb_box *other = must_open(s, "demo");
	must_write(b, "/work/x", "on");
	must_write(b, "/work/y", "on");
	for (int strict = 0; strict < 2; strict++) {
		cb_box *one = must_begin(b), *two = must_begin(other);
		if (strcmp(must_read(one, "/work/x"), "on") == 0) must_write(one, "/work/y", "off");
		if (strcmp(must_read(two, "/work/y"), "on") == 0) must_write(two, "/work/x", "off");
		(void)must_commit(one);
		cb_commit_result result = CB_INIT(cb_commit_result);
		cb_commit_options how = CB_WITH(cb_commit_options, .no_merge = strict, .lost = CB_LOST_FORK);
		CHECK_CODE(cb_txn_commit(two, &how, &result, &err), strict ? CB_CONFLICT : CB_OK);
		CHECK(strict ? result.fork[0] != 0 : result.merged);
		cb_box_close(two);
		CHECK_STR(must_read(b, "/work/x"), strict ? "on" : "off");
		CHECK_STR(must_read(b, "/work/y"), "off");
		must_write(b, "/work/x", "on");
		must_write(b, "/work/y", "on");
	}
	cb_box_close(other);
	end();
}

static cb_code read_entry(void *context, const char *name, const cb_stat_info *info, cb_error *e)
{
	(void)info;
	(void)e;
	CHECK_STR(must_read(b, text_of("/work/%s", name)), name);
	/* What is changed meanwhile does not show. */
	CHECK_OK(cb_write_file(context, "/work/zz", "zz", 2, NULL, &err));
	CHECK(name[0] != 'z');
	return name[0] == 'b' ? CB_INTERRUPTED : CB_OK;
}

static cb_code stop_with_io(void *context, const char *name, const cb_stat_info *info, cb_error *e)
{
	(void)context;
	(void)name;
	(void)info;
	(void)e;
	return CB_IO;
}

TEST_BOTH(visitors_read_and_end_walks)
{
	begin(memory);
	cb_box *other = must_open(s, "demo");
	must_write(b, "/work/a", "a");
	must_write(b, "/work/b", "b");
	CHECK_OK(cb_readdir(b, "/work", read_entry, other, &err));
	CHECK_CODE(cb_readdir(b, "/work", stop_with_io, NULL, &err), CB_IO);
	cb_box_close(other);
	end();
}

/* ---- every visitor: each is called once and ends its walk ---- */

typedef struct ending {
	cb_code code;
	int calls;
} ending;

static cb_code end_now(void *context)
{
	ending *e = context;
	e->calls++;
	return e->code;
}

static cb_code end_box(void *context, const cb_box_info *info, cb_error *e)
{
	(void)info;
	(void)e;
	return end_now(context);
}

static cb_code end_entry(void *context, const char *name, const cb_stat_info *info, cb_error *e)
{
	(void)name;
	(void)info;
	(void)e;
	return end_now(context);
}

static cb_code end_name(void *context, const char *name, const char *value, size_t size, cb_error *e)
{
	(void)name;
	(void)value;
	(void)size;
	(void)e;
	return end_now(context);
}

static cb_code end_step(void *context, const cb_step *step, cb_error *e)
{
	(void)step;
	(void)e;
	return end_now(context);
}

static cb_code end_change(void *context, const cb_change *change, cb_error *e)
{
	(void)change;
	(void)e;
	return end_now(context);
}

static cb_code end_checkpoint(void *context, const cb_checkpoint *checkpoint, cb_error *e)
{
	(void)checkpoint;
	(void)e;
	return end_now(context);
}

static cb_code end_line(void *context, const cb_blame_line *line, cb_error *e)
{
	(void)line;
	(void)e;
	return end_now(context);
}

#define ENDS(call)                                                       \
	do {                                                             \
		e.calls = 0;                                             \
		CHECK_CODE(call, e.code == CB_IO ? CB_IO : CB_OK);       \
		CHECK_MSG(e.calls == 1, "%s: %d calls", #call, e.calls); \
	} while (0)

static void end_every_walk(cb_code code)
{
	ending e = {code, 0};
	cb_box *old = must_open(s, "demo@0");
	ENDS(cb_box_list(s, end_box, &e, &err));
	ENDS(cb_readdir(b, "/work", end_entry, &e, &err));
	ENDS(cb_walk(b, "/work", end_entry, &e, &err));
	ENDS(cb_glob(b, "/work/*", end_entry, &e, &err));
	ENDS(cb_xattr_list(b, "/work/a", 0, end_name, &e, &err));
	ENDS(cb_tag_list(b, "/work/a", end_name, &e, &err));
	ENDS(cb_meta_list(b, "/work/a", end_name, &e, &err));
	ENDS(cb_kv_list(b, "", end_name, &e, &err));
	ENDS(cb_log(b, NULL, end_step, &e, NULL, &err));
	ENDS(cb_log(b, &CB_WITH(cb_log_options, .path = "/work"), end_step, &e, NULL, &err));
	ENDS(cb_log(b, &CB_WITH(cb_log_options, .path = "/work/a"), end_step, &e, NULL, &err));
	ENDS(cb_step_get(b, 1, end_step, &e, &err));
	ENDS(cb_diff(old, b, NULL, end_change, &e, &err));
	ENDS(cb_diff_step(b, 1, NULL, end_change, &e, &err));
	ENDS(cb_checkpoint_list(b, end_checkpoint, &e, &err));
	ENDS(cb_blame(b, "/work/a", end_line, &e, &err));
	cb_box_close(old);
}

TEST_BOTH(every_visitor_can_end_its_walk)
{
	begin(memory);
	CHECK_OK(cb_box_create(s, "another", NULL, &err));
	cb_box *t = must_begin(b);
	must_write(t, "/work/a", "one\ntwo\n");
	must_write(t, "/work/b", "b");
	(void)must_commit(t);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "two" : "one";
		CHECK_OK(cb_xattr_set(b, "/work/a", name, "v", 1, 0, &err));
		CHECK_OK(cb_tag_add(b, "/work/a", name, &err));
		CHECK_OK(cb_meta_set(b, "/work/a", name, "v", CB_STRING, &err));
		CHECK_OK(cb_kv_set(b, name, "v", 1, &err));
		CHECK_OK(cb_checkpoint_save(b, name, 0, true, &err));
	}
	end_every_walk(CB_INTERRUPTED);
	end_every_walk(CB_IO);
	end();
}

/* ---- what a step tells ---- */

static cb_code take_step(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	*(cb_step *)context = *step; /* kind, who and the fields are lent: not looked at */
	return CB_OK;
}

static cb_step step_of(cb_box *box, uint64_t seq)
{
	cb_step step = {0};
	CHECK_OK(cb_step_get(box, seq, take_step, &step, &err));
	return step;
}

TEST_BOTH(steps_name_what_they_refer_to)
{
	begin(memory);
	uint64_t undone = 0, merged = 0, restored = 0, redone = 0;
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_undo(b, 0, &undone, &err));
	CHECK(undone == 2 && step_of(b, undone).target == 1);
	CHECK_OK(cb_redo(b, &redone, &err));
	CHECK(redone == 3 && step_of(b, redone).target == undone);
	cb_box *fork = must_fork(s, "demo@3", "fork");
	cb_step first = step_of(fork, 0);
	CHECK_STR(first.other, "demo");
	CHECK(first.other_seq == 3 && !first.changed);
	must_write(fork, "/work/f", "f");
	CHECK_OK(cb_merge(b, fork, NULL, &merged, NULL, &err));
	cb_step merge = step_of(b, merged);
	CHECK_STR(merge.other, "fork");
	CHECK(merge.other_seq == 1 && merge.changed);
	CHECK_OK(cb_restore(b, must_open(s, "demo@1"), NULL, &restored, &err));
	cb_step restore = step_of(b, restored);
	CHECK_STR(restore.other, "demo");
	CHECK_U64(restore.other_seq, 1);
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(fork, &info, &err));
	CHECK_STR(info.origin, "demo");
	CHECK_U64(info.origin_seq, 3);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_box_info_get(fork, &info, &err));
	CHECK_STR(info.origin, "");
	CHECK_STR(must_read(fork, "/work/f"), "f");
	cb_box_close(fork);
	end();
}

TEST_BOTH(settings_stand_beside_the_states)
{
	begin(memory);
	char *value = NULL;
	CHECK_OK(cb_setting_set(b, "model", "small", CB_STRING, &err));
	must_write(b, "/work/a", "a");
	CHECK_OK(cb_setting_set(b, "model", "large", CB_STRING, &err));
	CHECK_U64(must_seq(b), 1);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_setting_get(b, "model", &value, NULL, &err));
	CHECK_STR(test_keep(value), "large");
	cb_box *fork = must_fork(s, "demo", "fork");
	CHECK_CODE(cb_setting_get(fork, "model", &value, NULL, &err), CB_NOTFOUND);
	CHECK_OK(cb_setting_set(b, "model", NULL, 0, &err));
	CHECK_CODE(cb_setting_get(b, "model", &value, NULL, &err), CB_NOTFOUND);
	cb_box_close(fork);
	end();
}

/* Everything of a file but its bytes, each twice: the second time changes nothing, alone and in a transaction. */
static void set_fields(cb_box *box, bool large)
{
	static char value[300];
	memset(value, large ? 'l' : 's', sizeof(value));
	size_t size = large ? sizeof(value) : 1;
	CHECK_OK(cb_kv_set(box, "large", value, size, &err));
	CHECK_OK(cb_chmod(box, "/work/a", large ? 0640 : 0600, 0, &err));
	CHECK_OK(cb_utimens(box, "/work/a", 5, large ? 6 : 7, 0, &err));
	CHECK_OK(cb_utimens(box, "/work/a", CB_TIME_OMIT, CB_TIME_OMIT, 0, &err));
	CHECK_OK(cb_tag_add(box, "/work/a", large ? "t" : "u", &err));
	CHECK_OK(cb_xattr_set(box, "/work/a", "user.x", value, size, 0, &err));
	CHECK_OK(cb_xattr_set(box, "/work/a", "user.empty", "", 0, 0, &err));
	CHECK_OK(cb_meta_set(box, "/work/a", "m", value, size, &err));
}

static void fields_again(bool large)
{
	set_fields(b, large);
	uint64_t head = must_seq(b), version = must_version(b, "/work/a");
	set_fields(b, large);
	CHECK_U64(must_seq(b), head);
	cb_box *t = must_begin(b);
	set_fields(t, large);
	CHECK_U64(must_commit(t).seq, 0);
	CHECK_U64(must_version(b, "/work/a"), version);
}

TEST_BOTH(what_changes_nothing_is_no_step)
{
	begin(memory);
	CHECK_OK(cb_kv_set(b, "k", "v", 1, &err));
	CHECK_OK(cb_kv_set(b, "k", "v", 1, &err));
	must_write(b, "/work/a", "a");
	CHECK_OK(cb_mkdir(b, "/work", 0755, CB_PARENTS, &err));
	CHECK_OK(cb_rename(b, "/work/a", "/work/a", 0, &err));
	uint64_t seq = 77;
	CHECK_OK(cb_restore(b, must_open(s, "demo@2"), NULL, &seq, &err));
	CHECK_U64(seq, 0);
	CHECK_U64(must_seq(b), 2);
	fields_again(false);
	fields_again(true);
	cb_box *t = NULL;
	CHECK_U64(must_commit(must_begin(b)).seq, 0);
	uint64_t head = must_seq(b);
	CHECK_OK(cb_txn_begin(b, &CB_WITH(cb_txn_options, .step = &CB_WITH(cb_step_info, .kind = "sh", .record = true)), &t, &err));
	CHECK_U64(must_commit(t).seq, head + 1);
	end();
}

TEST_BOTH(an_open_state_stays_where_it_is)
{
	begin(memory);
	must_write(b, "/work/a", "1");
	cb_box *old = must_open(s, "demo@1"), *last = must_open(s, "demo@-0");
	must_write(b, "/work/a", "2");
	CHECK_STR(must_read(old, "/work/a"), "1");
	CHECK_STR(must_read(last, "/work/a"), "1");
	cb_box *none = NULL;
	CHECK_CODE(cb_txn_begin(old, NULL, &none, &err), CB_READONLY);
	CHECK_CODE(cb_kv_set(old, "k", "v", 1, &err), CB_READONLY);
	CHECK_CODE(cb_undo(old, 0, NULL, &err), CB_READONLY);
	CHECK_CODE(cb_open(old, "/work/a", CB_WRITE, 0, &(cb_file *){0}, &err), CB_READONLY);
	cb_box_close(old);
	cb_box_close(last);
	end();
}

TEST_BOTH(a_running_step_that_conflicts_is_kept)
{
	begin(memory);
	cb_box *other = must_open(s, "demo");
	must_write(b, "/work/a", "0");
	cb_file *file = NULL;
	CHECK_OK(cb_open(b, "/work/a", CB_WRITE | CB_TRUNCATE, 0, &file, &err));
	CHECK_OK(cb_write(file, "mine", 4, &err));
	must_write(other, "/work/a", "theirs");
	CHECK_CODE(cb_close(file, &err), CB_CONFLICT);
	/* It stays with the handle until somebody decides. */
	CHECK_STR(must_read(b, "/work/a"), "mine");
	CHECK_CODE(cb_kv_set(b, "k", "v", 1, &err), CB_CONFLICT);
	cb_commit_result result = CB_INIT(cb_commit_result);
	CHECK_OK(cb_txn_keep(b, NULL, &result, &err));
	CHECK_STR(must_read(b, "/work/a"), "theirs");
	cb_box *kept = must_open(s, result.fork);
	CHECK_STR(must_read(kept, "/work/a"), "mine");
	cb_box_close(kept);
	CHECK_CODE(cb_txn_drop(b, &err), CB_NOTHING);
	cb_box_close(other);
	end();
}

static int64_t fake_now;

static int64_t fake_clock(void *context)
{
	(void)context;
	return fake_now;
}

/* Its box "demo" is b; returns another handle on it. */
static cb_box *begin_timed(void)
{
	static const clock_source clock = {fake_clock, NULL};
	store_options options = {.path = text_of("%s/store", test_tmpdir()), .create = true, .clock = &clock};
	s = calloc(1, sizeof(*s));
	fake_now = (int64_t)1700000000 * 1000000000;
	CHECK_OK(box_store_open(s, &options, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	return must_open(s, "demo");
}

TEST(a_quiet_second_ends_the_running_step)
{
	cb_box *other = begin_timed();
	cb_file *file = NULL;
	CHECK_OK(cb_open(b, "/work/a", CB_WRITE | CB_CREATE, 0644, &file, &err));
	CHECK_OK(cb_write(file, "1", 1, &err));
	fake_now += 900000000;
	CHECK(exists(b, "/work/a") && !exists(other, "/work/a"));
	fake_now += 200000000;
	CHECK(exists(b, "/work/a") && exists(other, "/work/a"));
	CHECK_U64(must_seq(b), 1);
	CHECK_OK(cb_write(file, "2", 1, &err));
	CHECK_OK(cb_fsync(file, &err));
	CHECK_U64(must_seq(b), 2);
	CHECK_OK(cb_write(file, "3", 1, &err));
	CHECK_OK(cb_kv_set(b, "k", "v", 1, &err)); /* another change through the handle ends it too */
	CHECK_U64(must_seq(b), 4);
	CHECK_OK(cb_close(file, &err));
	CHECK_U64(must_seq(b), 4);
	CHECK_STR(must_read(other, "/work/a"), "123");
	cb_box_close(other);
	end();
}

/* While files are written to without a pause: one step as long as nobody else commits, and then no second longer. */
TEST(what_others_commit_is_seen_after_a_second_of_writes)
{
	cb_box *other = begin_timed();
	cb_file *file = NULL;
	must_write(b, "/work/x", "old");
	CHECK_OK(cb_open(b, "/work/a", CB_WRITE | CB_CREATE, 0644, &file, &err));
	uint64_t before = must_seq(b);
	for (int i = 0; i < 5; i++) {
		CHECK_OK(cb_write(file, "1", 1, &err));
		fake_now += 600000000;
		CHECK_STR(must_read(b, "/work/x"), "old");
	}
	CHECK_U64(must_seq(b), before);
	must_write(other, "/work/x", "new");
	CHECK_STR(must_read(b, "/work/x"), "new"); /* the step is older than a second */
	CHECK_STR(must_read(other, "/work/a"), "11111");
	CHECK_OK(cb_write(file, "2", 1, &err));
	must_write(other, "/work/x", "newer");
	fake_now += 600000000;
	CHECK_OK(cb_write(file, "3", 1, &err));
	CHECK_STR(must_read(b, "/work/x"), "new");
	fake_now += 600000000;
	CHECK_OK(cb_write(file, "4", 1, &err)); /* begins another */
	CHECK_STR(must_read(b, "/work/x"), "newer");
	CHECK_STR(must_read(other, "/work/a"), "1111123");
	CHECK_OK(cb_close(file, &err));
	CHECK_STR(must_read(other, "/work/a"), "11111234");
	cb_box_close(other);
	end();
}

static void told_of_conflict(cb_code code)
{
	CHECK_CODE(code, CB_CONFLICT);
	CHECK_MSG(strstr(err.message, "cb_txn_keep") && strstr(err.message, "/work/a"), "%s", err.message);
}

/* Whatever would show the box as it was before the others' step, and not only the call that tries to end the running one first. */
TEST(a_conflict_is_told_by_every_call_that_would_show_an_old_state)
{
	cb_box *other = begin_timed();
	cb_file *file = NULL;
	char *bytes = NULL;
	must_write(b, "/work/a", "base");
	must_write(b, "/work/x", "old");
	CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE, 0, &file, &err));
	CHECK_OK(cb_write(file, "mine", 4, &err));
	must_write(other, "/work/a", "theirs");
	must_write(other, "/work/x", "new");
	CHECK_STR(must_read(b, "/work/x"), "old"); /* within the second */
	fake_now += 1200000000;
	for (int i = 0; i < 2; i++) {
		size_t n = 0;
		char byte;
		told_of_conflict(cb_read_file(b, "/work/x", &bytes, NULL, &err));
		told_of_conflict(cb_box_info_get(b, &CB_INIT(cb_box_info), &err));
		told_of_conflict(cb_pread(file, &byte, 1, 0, &n, &err));
		told_of_conflict(cb_write(file, "more", 4, &err));
		told_of_conflict(cb_kv_set(b, "k", "v", 1, &err));
	}
	told_of_conflict(cb_close(file, &err));
	told_of_conflict(cb_read_file(b, "/work/x", &bytes, NULL, &err));
	cb_commit_result result = CB_INIT(cb_commit_result);
	CHECK_OK(cb_txn_keep(b, NULL, &result, &err));
	CHECK_STR(must_read(b, "/work/x"), "new");
	CHECK_STR(must_read(b, "/work/a"), "theirs");
	cb_box *kept = must_open(s, result.fork);
	CHECK_STR(must_read(kept, "/work/a"), "mine");
	cb_box_close(kept);
	cb_box_close(other);
	end();
}

/* ---- what is flushed when ---- */

static store_fault_plan plan;

static cb_store *recorded_store(store_durability durability)
{
	store_options options = {
		.path = text_of("%s/recorded-%d", test_tmpdir(), (int)durability),
		.create = true,
		.durability = durability,
		.faults = &plan,
	};
	cb_store *out = calloc(1, sizeof(*out));
	plan.record = true;
	CHECK_OK(box_store_open(out, &options, &err));
	return out;
}

static uint64_t log_flushes(void)
{
	return store_fault_flushes(&plan, "-wal");
}

#define FLUSHES(call)                                                      \
	do {                                                               \
		uint64_t before_ = log_flushes();                          \
		CHECK_OK(call);                                            \
		CHECK_MSG(log_flushes() > before_, "%s: no flush", #call); \
	} while (0)
#define FLUSHES_NOT(call)                          \
	do {                                       \
		uint64_t before_ = log_flushes();  \
		CHECK_OK(call);                    \
		CHECK_U64(log_flushes(), before_); \
	} while (0)

TEST(fast_flushes_what_was_asked_for)
{
	cb_file *file = NULL;
	s = recorded_store(STORE_FAST);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_store_sync(s, &err));
	FLUSHES_NOT(cb_write_file(b, "/work/a", "a", 1, NULL, &err));
	FLUSHES(cb_checkpoint_save(b, "one", 0, false, &err));
	FLUSHES_NOT(cb_checkpoint_save(b, "two", 0, true, &err));
	FLUSHES(cb_store_sync(s, &err));
	FLUSHES_NOT(cb_open(b, "/work/f", CB_WRITE | CB_CREATE, 0644, &file, &err));
	FLUSHES_NOT(cb_write(file, "x", 1, &err));
	FLUSHES(cb_fsync(file, &err));
	FLUSHES_NOT(cb_write(file, "y", 1, &err));
	FLUSHES_NOT(cb_close(file, &err));
	FLUSHES(cb_checkpoint_save(b, "three", 0, false, &err));
	/* fsync of a file whose writes went out with another step still makes them durable */
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE, 0, &file, &err));
	CHECK_OK(cb_write(file, "z", 1, &err));
	FLUSHES_NOT(cb_kv_set(b, "k", "v", 1, &err));
	FLUSHES(cb_fsync(file, &err));
	CHECK_OK(cb_close(file, &err));
	must_write(b, "/work/a", "last");
	uint64_t before = log_flushes();
	cb_box_close(b);
	cb_store_close(s);
	CHECK(log_flushes() > before);
	store_fault_plan_done(&plan);
}

TEST(full_flushes_every_step)
{
	s = recorded_store(STORE_FULL);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int i = 0; i < 5; i++) FLUSHES(cb_write_file(b, "/work/a", "a", 1, NULL, &err));
	FLUSHES(cb_kv_set(b, "k", "v", 1, &err));
	FLUSHES(cb_undo(b, 0, NULL, &err));
	end();
	store_fault_plan_done(&plan);
}

TEST(quotas_are_logical_and_a_forks_own)
{
	begin(false);
	must_write(b, "/work/a", "0123456789");
	CHECK_OK(cb_box_quota_set(b, 15, 0, 0, &err));
	CHECK_CODE(cb_copy(b, "/work/a", "/work/b", 0, &err), CB_QUOTA); /* though nothing would be stored */
	cb_box *fork = must_fork(s, "demo", "fork");
	CHECK_OK(cb_copy(fork, "/work/a", "/work/b", 0, &err));
	CHECK_CODE(cb_merge(b, fork, NULL, NULL, NULL, &err), CB_QUOTA);
	CHECK_OK(cb_box_quota_set(b, 5, 0, 0, &err));
	CHECK_STR(must_read(b, "/work/a"), "0123456789"); /* what is there stays */
	must_write(b, "/work/a", "01234");
	cb_box_close(fork);
	end();
}

TEST(a_step_survives_kill)
{
	begin(false);
	pid_t child = fork();
	if (child == 0) {
		cb_store *mine = test_store_reopen();
		cb_box *box = must_open(mine, "demo");
		must_write(box, "/work/a", "acknowledged");
		cb_file *file = NULL;
		if (cb_open(box, "/work/open", CB_WRITE | CB_CREATE, 0644, &file, NULL) != CB_OK) _exit(1);
		if (cb_write(file, "x", 1, NULL) != CB_OK) _exit(1);
		must_write(must_begin(must_open(mine, "demo")), "/work/open", "y");
		(void)raise(SIGKILL);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK_STR(must_read(b, "/work/a"), "acknowledged");
	CHECK(!exists(b, "/work/open"));
	CHECK_U64(must_seq(b), 1);
	end();
}

/* Each of the store's files is replaced by a link to a file outside, which must come to no harm. */
TEST(links_in_place_of_store_files_are_refused)
{
	static const char *const names[] = {"cowbox.db", "locks", "live", "seg/000001.seg"};
	char *big = test_keep(malloc(200001));
	memset(big, 'x', 200000);
	big[200000] = 0;
	begin(false);
	must_write(b, "/work/big", big);
	cb_box_close(b);
	cb_store_close(s);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *file = text_of("%s/%s", test_store_path(), names[i]),
			   *outside = text_of("%s/outside-%zu", test_tmpdir(), i);
		write_text(outside, "precious");
		CHECK(rename(file, text_of("%s/aside", test_tmpdir())) == 0 && symlink(outside, file) == 0);
		cb_code code = cb_store_open(test_store_path(), NULL, &s, &err);
		if (code == CB_OK) {
			CHECK_OK(cb_box_open(s, "demo", &b, &err));
			code = cb_read_file(b, "/work/big", &(char *){0}, NULL, &err);
			cb_box_close(b);
			cb_store_close(s);
		}
		CHECK_MSG(code != CB_OK, "%s may be a link", names[i]);
		CHECK_STR(must_text(outside), "precious");
		CHECK(unlink(file) == 0 && rename(text_of("%s/aside", test_tmpdir()), file) == 0);
	}
	s = test_store_reopen();
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/big"), big);
	end();
}

/* ---- threads ---- */

enum { THREADS = 4, WRITES = 25 };

typedef struct worker {
	pthread_t thread;
	cb_box *box;
	int number;
} worker;

static void *work(void *context)
{
	const worker *w = context;
	for (int i = 0; i < WRITES; i++) {
		char path[64], text[64];
		cb_error e = {0};
		int n = snprintf(text, sizeof(text), "%d of %d", i, w->number);
		(void)snprintf(path, sizeof(path), "/work/%d-%d", w->number, i);
		CHECK_CODE(cb_write_file(w->box, path, text, (size_t)n, NULL, &e), CB_OK);
	}
	return NULL;
}

static void work_together(bool one_handle)
{
	worker workers[THREADS];
	begin(false);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (worker){.box = one_handle ? b : must_open(s, "demo"), .number = i};
		CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(workers[i].thread, NULL) == 0);
		if (!one_handle) cb_box_close(workers[i].box);
	}
	CHECK_U64(must_seq(b), THREADS * WRITES);
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_U64(info.files, 4 + THREADS * WRITES);
	end();
}

TEST(threads_on_one_handle)
{
	work_together(true);
}

TEST(threads_on_handles_of_their_own)
{
	work_together(false);
}
