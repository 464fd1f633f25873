/*
 * test_transactions.c: transactions as handles of their own: what they see, how they end, what stays after a failure, what calls relied on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "box/internal.h"
#include "harness/boxes.h"

static cb_store *s;
static cb_box *b, *other;
static cb_error err;

static void begin(bool memory)
{
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	other = must_open(s, "demo");
}

static void end(void)
{
	cb_box_close(other);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* "PATH (REASON)\n" of each conflict. */
static cb_code list_conflict(void *context, const cb_conflict *c, cb_error *e)
{
	return buf_printf(context, e, "%s (%s)\n", c->path, c->reason);
}

static const char *conflicts_of(cb_box *t)
{
	buf text = BUF_INIT(1 << 20);
	char *out = NULL;
	CHECK_OK(cb_txn_conflicts(t, list_conflict, &text, &err));
	CHECK_OK(buf_take(&text, &out, NULL, &err));
	return test_keep(out);
}

static uint64_t boxes_now(void)
{
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	return stats.boxes;
}

/* ---- two handles ---- */

TEST_BOTH(two_handles_share_nothing)
{
	begin(memory);
	must_write(b, "/work/a", "0");
	cb_box *t = must_begin(b), *u = must_begin(b);
	must_write(t, "/work/t", "t");
	must_write(u, "/work/u", "u");
	must_write(b, "/work/b", "b");
	CHECK(!exists(t, "/work/u") && !exists(t, "/work/b") && !exists(b, "/work/t"));
	CHECK_U64(cb_box_step(t), 0);
	CHECK_U64(cb_box_step(b), 2);
	cb_commit_result r = CB_INIT(cb_commit_result);
	CHECK_OK(cb_txn_commit(t, NULL, &r, &err));
	CHECK_U64(r.seq, 3);
	CHECK_U64(cb_box_step(t), 3);
	CHECK_U64(cb_box_step(b), 2);
	CHECK(exists(b, "/work/t") && exists(b, "/work/b"));
	/* It is over: nothing but closing it is left. */
	CHECK_CODE(cb_write_file(t, "/work/x", "x", 1, NULL, &err), CB_INVALID);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_CODE(cb_stat(t, "/work", 0, &info, &err), CB_INVALID);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_txn_drop(t, &err), CB_INVALID);
	cb_box_close(t);
	CHECK_OK(cb_txn_drop(u, &err));
	cb_box_close(u);
	CHECK(!exists(b, "/work/u"));
	end();
}

TEST_BOTH(handles_close_in_any_order)
{
	begin(memory);
	cb_box *t = must_begin(b);
	cb_file *f = NULL, *g = NULL;
	must_write(t, "/work/t", "text");
	CHECK_OK(cb_open(t, "/work/t", CB_READ, 0, &f, &err));
	CHECK_OK(cb_open(b, "/work/g", CB_WRITE | CB_CREATE, 0644, &g, &err));
	CHECK_OK(cb_write(g, "g", 1, &err));
	cb_box_close(b); /* what its files wrote is a step */
	CHECK_STR(must_read(other, "/work/g"), "g");
	char to[8];
	size_t n = 0;
	CHECK_CODE(cb_write(g, "x", 1, &err), CB_BADHANDLE);
	CHECK_OK(cb_close(g, &err));
	CHECK_OK(cb_read(f, to, sizeof(to), &n, &err));
	CHECK_U64(n, 4);
	(void)must_commit(t);
	CHECK_CODE(cb_read(f, to, sizeof(to), &n, &err), CB_BADHANDLE);
	CHECK_OK(cb_close(f, &err));
	/* The store before its boxes. */
	t = must_begin(other);
	must_write(t, "/work/last", "last");
	cb_store_close(s);
	(void)must_commit(t);
	CHECK_STR(must_read(other, "/work/last"), "last");
	cb_box_close(other);
	if (memory) return;
	s = test_store_reopen();
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/last"), "last");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(beginning_ends_the_running_step)
{
	begin(memory);
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "1", 1, &err));
	CHECK(!exists(other, "/work/f"));
	cb_box *t = must_begin(b);
	CHECK_STR(must_read(other, "/work/f"), "1");
	CHECK_STR(must_read(t, "/work/f"), "1");
	CHECK_OK(cb_write(f, "2", 1, &err));
	CHECK_STR(must_read(t, "/work/f"), "1");
	/* A running step that cannot be committed is told, and nothing begins. */
	CHECK_OK(cb_write_file(other, "/work/f", "theirs", 6, NULL, &err));
	cb_box *none = NULL;
	CHECK_CODE(cb_txn_begin(b, NULL, &none, &err), CB_CONFLICT);
	CHECK(!none);
	CHECK_OK(cb_txn_drop(b, &err));
	CHECK_STR(must_read(b, "/work/f"), "theirs");
	CHECK_OK(cb_close(f, &err));
	cb_box_close(t);
	end();
}

TEST_BOTH(history_is_not_for_transactions)
{
	begin(memory);
	must_write(b, "/work/a", "0");
	cb_box *t = must_begin(b), *old = must_open(s, "demo@0"), *fork_ = must_fork(s, "demo", "fork");
	CHECK_CODE(cb_undo(t, 0, NULL, &err), CB_INVALID);
	CHECK(strstr(err.message, "undo is not for a transaction"));
	CHECK_CODE(cb_redo(t, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_merge(t, fork_, NULL, NULL, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_merge(b, t, NULL, NULL, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_restore(t, old, NULL, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_restore(b, t, NULL, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_checkpoint_save(t, "name", 0, true, &err), CB_INVALID);
	CHECK_CODE(cb_checkpoint_delete(t, "name", &err), CB_INVALID);
	CHECK_CODE(cb_box_checkpoint_every_set(t, 3, &err), CB_INVALID);
	CHECK_CODE(cb_prune(t, NULL, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_quota_set(t, 1, 1, 1, &err), CB_INVALID);
	CHECK_CODE(cb_box_retention_set(t, 1, 1, &err), CB_INVALID);
	CHECK_CODE(cb_step_record(t, NULL, NULL, &err), CB_INVALID);
	/* One path of an old state is a change like any other. */
	CHECK_OK(cb_restore(t, old, "/work/a", NULL, &err));
	CHECK(!exists(t, "/work/a") && exists(b, "/work/a"));
	(void)must_commit(t);
	CHECK(!exists(b, "/work/a"));
	cb_box_close(fork_);
	cb_box_close(old);
	end();
}

TEST_BOTH(over_an_older_state)
{
	begin(memory);
	must_write(b, "/work/a", "1");
	must_write(b, "/work/b", "1");
	cb_box *old = must_open(s, "demo@1"), *t = NULL, *stranger = NULL;
	CHECK_OK(cb_txn_begin(b, &CB_WITH(cb_txn_options, .over = old), &t, &err));
	CHECK(!exists(t, "/work/b"));
	must_write(t, "/work/c", "1");
	cb_box_close(old);
	CHECK(must_commit(t).merged);
	CHECK(exists(b, "/work/b") && exists(b, "/work/c"));
	old = must_open(s, "demo@1");
	CHECK_OK(cb_txn_begin(b, &CB_WITH(cb_txn_options, .over = old), &t, &err));
	must_write(t, "/work/b", "2"); /* made there, and here */
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	cb_box_close(t);
	CHECK_OK(cb_box_create(s, "stranger", &stranger, &err));
	CHECK_CODE(cb_txn_begin(stranger, &CB_WITH(cb_txn_options, .over = old), &t, &err), CB_CROSSBOX);
	CHECK_CODE(cb_txn_begin(b, &CB_WITH(cb_txn_options, .over = other), &t, &err), CB_INVALID);
	cb_box_close(stranger);
	cb_box_close(old);
	end();
}

/* ---- what it holds can be looked at ---- */

TEST_BOTH(diff_and_search_see_what_is_only_in_memory)
{
	begin(memory);
	char one[300], two[300];
	memset(one, '1', sizeof(one));
	memset(two, '2', sizeof(two));
	one[299] = two[299] = 0;
	must_write(b, "/work/same", one);
	cb_box *t = must_begin(b), *u = must_begin(b);
	must_write(t, "/work/same", two);
	must_write(t, "/work/new", two);
	CHECK_STR(must_diff(b, t), "A /work/new\nM /work/same\n");
	CHECK_STR(must_diff(t, b), "D /work/new\nM /work/same\n");
	char *text = NULL;
	CHECK_OK(cb_diff_text(b, t, NULL, &text, NULL, &err));
	CHECK(strstr(text, "+222") && strstr(text, "-111"));
	cb_free(text);
	/* Two transactions number what they hold in memory each for itself: equal numbers are not equal bytes. */
	cb_box *v = must_begin(b), *w = must_begin(b);
	CHECK_OK(cb_kv_set(v, "k", one, 299, &err));
	CHECK_OK(cb_kv_set(w, "k", two, 299, &err));
	CHECK_STR(must_diff(v, w), "K k\n");
	CHECK_STR(must_diff(u, v), "K k\n");
	cb_box_close(v);
	cb_box_close(w);
	cb_box_close(u);
	cb_box_close(t);
	end();
}

static cb_code write_from_diff(void *context, const cb_change *c, cb_error *e)
{
	(void)c;
	return cb_write_file(context, "/work/x", "x", 1, NULL, e);
}

TEST_BOTH(a_visitor_may_change_what_it_is_shown)
{
	begin(memory);
	char large[300];
	memset(large, 'x', sizeof(large));
	cb_box *t = must_begin(b);
	CHECK_OK(cb_write_file(t, "/work/a", large, sizeof(large), NULL, &err));
	CHECK_OK(cb_diff(b, t, NULL, write_from_diff, t, &err));
	CHECK_STR(must_diff(b, t), "A /work/a\nA /work/x\n");
	cb_box_close(t);
	end();
}

/* ---- conflicts ---- */

TEST_BOTH(a_lost_one_stays_until_somebody_decides)
{
	begin(memory);
	must_write(b, "/work/a", "0");
	must_write(b, "/work/b", "0");
	uint64_t boxes = boxes_now();
	cb_box *t = must_begin(b);
	cb_commit_result r = CB_INIT(cb_commit_result);
	must_write(t, "/work/a", "mine");
	must_write(t, "/work/b", "mine");
	must_write(t, "/work/c", "mine");
	must_write(other, "/work/a", "yours");
	must_write(other, "/work/b", "yours");
	CHECK_CODE(cb_txn_commit(t, NULL, &r, &err), CB_CONFLICT);
	CHECK_U64(r.conflicts, 2);
	CHECK(!r.fork[0]);
	CHECK_STR(conflicts_of(t), "/work/a (changed on both sides)\n/work/b (changed on both sides)\n");
	CHECK_U64(boxes_now(), boxes);
	CHECK_STR(must_read(t, "/work/a"), "mine");
	/* One of two answered is not enough; then more is written to it; then both. */
	cb_resolution answers[] = {{"/work/a", CB_PREFER_TXN}, {"/work/b", CB_PREFER_BOX}};
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .resolutions = answers, .resolution_count = 1), &r, &err),
	           CB_CONFLICT);
	CHECK_STR(conflicts_of(t), "/work/b (changed on both sides)\n");
	must_write(t, "/work/d", "mine");
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .resolutions = answers, .resolution_count = 2), &r, &err));
	CHECK(r.merged);
	CHECK_STR(must_read(b, "/work/a"), "mine");
	CHECK_STR(must_read(b, "/work/b"), "yours");
	CHECK(exists(b, "/work/c") && exists(b, "/work/d"));
	cb_box_close(t);
	CHECK_U64(boxes_now(), boxes);
	end();
}

TEST_BOTH(conflicts_are_named_in_full)
{
	begin(memory);
	char path[2000] = "/work";
	while (strlen(path) < 1500) {
		char part[201];
		memset(part, 'n', 200);
		part[200] = 0;
		(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", part);
	}
	CHECK_OK(cb_write_file(b, path, "0", 1, &CB_WITH(cb_write_options, .parents = true), &err));
	cb_box *t = must_begin(b);
	must_write(t, path, "1");
	must_write(other, path, "2");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	char expected[2100];
	(void)snprintf(expected, sizeof(expected), "%s (changed on both sides)\n", path);
	CHECK_STR(conflicts_of(t), expected);
	/* Ten thousand of them, too. */
	cb_box_close(t);
	t = must_begin(b);
	cb_box *u = must_begin(b);
	for (int i = 0; i < 3000; i++) {
		(void)snprintf(path, sizeof(path), "/work/f%d", i);
		must_write(t, path, "t");
		must_write(u, path, "u");
	}
	(void)must_commit(u);
	cb_commit_result r = CB_INIT(cb_commit_result);
	CHECK_CODE(cb_txn_commit(t, NULL, &r, &err), CB_CONFLICT);
	CHECK_U64(r.conflicts, 3000);
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), &r, &err));
	CHECK_STR(must_read(b, "/work/f2999"), "t");
	cb_box_close(t);
	end();
}

TEST_BOTH(dropped_when_that_was_asked_for)
{
	begin(memory);
	cb_box *t = must_begin(b);
	cb_commit_result r = CB_INIT(cb_commit_result);
	must_write(t, "/work/a", "mine");
	must_write(other, "/work/a", "yours");
	uint64_t boxes = boxes_now();
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .lost = CB_LOST_DROP), &r, &err), CB_CONFLICT);
	CHECK_U64(r.conflicts, 1);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_INVALID);
	CHECK_U64(boxes_now(), boxes);
	cb_box_close(t);
	end();
}

/* A transaction that is over by its conflicts still names them, and the message says how many it has no room for. */
TEST_BOTH(conflicts_of_one_that_is_over)
{
	begin(memory);
	for (int lost = CB_LOST_FORK; lost <= CB_LOST_DROP; lost++) {
		cb_box *t = must_begin(b);
		char path[200], all[2000] = "", last[20];
		for (int i = 0; i < 8; i++) {
			(void)snprintf(path, sizeof(path), "/work/%0100d-%d", i, lost);
			(void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s (added on both sides)\n", path);
			must_write(t, path, "mine");
			must_write(other, path, "yours");
		}
		cb_commit_result r = CB_INIT(cb_commit_result);
		CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .lost = (cb_lost)lost), &r, &err), CB_CONFLICT);
		CHECK_U64(r.conflicts, 8);
		unsigned named = 0;
		for (const char *at = err.message; (at = strstr(at, "/work/")); at++) named++;
		(void)snprintf(last, sizeof(last), " and %u more", 8 - named);
		CHECK_MSG(named > 0 && strstr(err.message, last), "%s", err.message);
		CHECK((lost == CB_LOST_FORK) == (*r.fork && strstr(err.message, r.fork)));
		CHECK_STR(conflicts_of(t), all);
		CHECK_STR(conflicts_of(t), all);
		CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_INVALID);
		CHECK_STR(conflicts_of(t), all);
		cb_box_close(t);
	}
	/* Writes of open files likewise, until the next commit. */
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/a", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "mine", 4, &err));
	must_write(other, "/work/a", "yours");
	CHECK_CODE(cb_txn_commit(b, &CB_WITH(cb_commit_options, .lost = CB_LOST_DROP), NULL, &err), CB_CONFLICT);
	CHECK_STR(conflicts_of(b), "/work/a (added on both sides)\n");
	(void)cb_close(f, &err);
	end();
}

/* Every allocation of a commit that conflicts and is to be kept fails once: it is still there, and goes in afterwards. */
TEST_BOTH(a_keeping_that_fails_leaves_it_open)
{
	begin(memory);
	char large[70000];
	memset(large, 'x', sizeof(large));
	bool failed = true;
	unsigned failures = 0;
	for (long n = 1; failed && n < 2000; n++) {
		cb_box *t = must_begin(b);
		cb_commit_result r = CB_INIT(cb_commit_result);
		CHECK_OK(cb_write_file(t, "/work/a", large, sizeof(large), NULL, &err));
		must_write(other, "/work/a", n % 2 ? "odd" : "even");
		mem_fail_after(n);
		cb_code code = cb_txn_commit(t, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), &r, &err);
		mem_fail_after(0);
		CHECK_MSG(code == CB_CONFLICT || code == CB_NOMEM, "%s: %s", cb_code_name(code), err.message);
		failed = !r.fork[0];
		failures += failed;
		if (failed) {
			char *back = NULL;
			size_t size = 0;
			CHECK_OK(cb_read_file(t, "/work/a", &back, &size, &err));
			CHECK(size == sizeof(large) && memcmp(back, large, size) == 0);
			cb_free(back);
			CHECK_OK(cb_txn_keep(t, NULL, &r, &err));
		}
		cb_box *kept = must_open(s, r.fork);
		char *back = NULL;
		size_t size = 0;
		CHECK_OK(cb_read_file(kept, "/work/a", &back, &size, &err));
		CHECK(size == sizeof(large) && memcmp(back, large, size) == 0);
		cb_free(back);
		cb_box_close(kept);
		cb_box_close(t);
		CHECK_OK(cb_box_delete(s, r.fork, &err));
	}
	CHECK(!failed && failures > 3);
	end();
}

TEST_BOTH(a_kept_one_has_a_name_and_a_mark)
{
	begin(memory);
	cb_box *t = must_begin(b);
	cb_commit_result r = CB_INIT(cb_commit_result);
	must_write(t, "/work/a", "mine");
	CHECK_CODE(cb_txn_keep(t, "-bad", &r, &err), CB_INVALID);
	CHECK_CODE(cb_txn_keep(t, "demo", &r, &err), CB_EXISTS);
	CHECK_OK(cb_txn_keep(t, "later", &r, &err));
	CHECK_STR(r.fork, "later");
	cb_box_close(t);
	cb_box *kept = must_open(s, "later");
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(kept, &info, &err));
	CHECK(info.lost && info.origin_seq == 0 && strcmp(info.origin, "demo") == 0);
	must_write(kept, "/work/b", "more"); /* somebody goes on with it */
	CHECK_OK(cb_box_info_get(kept, &info, &err));
	CHECK(!info.lost);
	cb_box_close(kept);
	t = must_begin(b);
	must_write(t, "/work/a", "mine");
	CHECK_OK(cb_txn_keep(t, NULL, &r, &err));
	cb_box_close(t);
	CHECK_OK(cb_box_rename(s, r.fork, "mine", &err)); /* or calls it his own */
	kept = must_open(s, "mine");
	CHECK_OK(cb_box_info_get(kept, &info, &err));
	CHECK(!info.lost);
	cb_box_close(kept);
	end();
}

static int64_t fake_now;

static int64_t fake_clock(void *context)
{
	(void)context;
	return fake_now;
}

static void keep_one(const char *name)
{
	cb_box *t = must_begin(b);
	must_write(t, "/work/a", name);
	CHECK_OK(cb_txn_keep(t, name, NULL, &err));
	cb_box_close(t);
}

static bool there(const char *name)
{
	cb_box *box = NULL;
	cb_code code = cb_box_open(s, name, &box, &err);
	cb_box_close(box);
	CHECK(code == CB_OK || code == CB_NOTFOUND);
	return code == CB_OK;
}

TEST(gc_takes_what_was_kept_for_long)
{
	static const int64_t day = (int64_t)86400 * 1000000000;
	const clock_source clock = {fake_clock, NULL};
	store_options options = {.create = true, .clock = &clock};
	s = calloc(1, sizeof(*s));
	fake_now = (int64_t)1700000000 * 1000000000;
	CHECK_OK(box_store_open(s, &options, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	other = must_open(s, "demo");
	keep_one("old");
	keep_one("written");
	keep_one("renamed");
	keep_one("named");
	keep_one("forked");
	cb_box *w = must_open(s, "written");
	must_write(w, "/work/b", "b");
	cb_box_close(w);
	CHECK_OK(cb_box_rename(s, "renamed", "mine", &err));
	w = must_open(s, "named");
	CHECK_OK(cb_checkpoint_save(w, "keep", 0, true, &err));
	cb_box_close(w);
	cb_box_close(must_fork(s, "forked", "child"));
	fake_now += 29 * day;
	keep_one("young");
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK(there("old"));
	fake_now += 2 * day;
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK(!there("old") && there("written") && there("mine") && there("named") && there("forked") && there("young"));
	CHECK_OK(cb_store_setting_set(s, "lost-days", "never", CB_STRING, &err));
	fake_now += 400 * day;
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK(there("young"));
	CHECK_OK(cb_store_setting_set(s, "lost-days", "500", CB_STRING, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK(there("young"));
	CHECK_OK(cb_store_setting_set(s, "lost-days", "1", CB_STRING, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK(!there("young") && there("written"));
	end();
}

/* ---- what calls relied on ---- */

static void commits_as(cb_box *t, cb_code code, const char *conflicts)
{
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), code);
	if (conflicts) CHECK_STR(conflicts_of(t), conflicts);
	cb_box_close(t);
}

TEST_BOTH(an_expected_version_holds_at_commit)
{
	begin(memory);
	must_write(b, "/work/text", "one\ntwo\nthree\nfour\nfive\nsix\n");
	uint64_t version = must_version(b, "/work/text");
	cb_write_options expect = CB_WITH(cb_write_options, .expected_version = version);
	static const char mine[] = "ONE\ntwo\nthree\nfour\nfive\nsix\n", yours[] = "one\ntwo\nthree\nfour\nfive\nSIX\n";
	cb_box *t = must_begin(b), *u = must_begin(b);
	CHECK_OK(cb_write_file(t, "/work/text", mine, sizeof(mine) - 1, &expect, &err));
	CHECK_OK(cb_write_file(u, "/work/text", yours, sizeof(yours) - 1, &expect, &err));
	(void)must_commit(u);
	cb_resolution answer = {"/work/text", CB_PREFER_BOX};
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	CHECK_STR(conflicts_of(t), "/work/text (another version than was expected)\n");
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .resolutions = &answer, .resolution_count = 1), NULL, &err));
	CHECK_STR(must_read(b, "/work/text"), yours);
	cb_box_close(t);
	/* Without an expectation the lines are joined. */
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	t = must_begin(b);
	must_write(t, "/work/text", mine);
	must_write(other, "/work/text", yours);
	(void)must_commit(t);
	CHECK_STR(must_read(b, "/work/text"), "ONE\ntwo\nthree\nfour\nfive\nSIX\n");
	/* It holds for an edit, for what is changed back, and for what others moved, replaced or removed. */
	for (int how = 0; how < 4; how++) {
		must_write(b, "/work/f", "a\nb\nc\nd\ne\n");
		version = must_version(b, "/work/f");
		t = must_begin(b);
		cb_replacement r = {"a", 1, "A", 1}, back = {"A", 1, "a", 1};
		CHECK_OK(cb_edit(t, "/work/f", &r, 1, &CB_WITH(cb_edit_options, .expected_version = version), NULL, &err));
		CHECK_OK(cb_edit(t, "/work/f", &back, 1, NULL, NULL, &err));
		must_write(t, "/work/done", "x");
		if (how == 0) must_write(other, "/work/f", "a\nb\nc\nd\nE\n");
		if (how == 1) CHECK_OK(cb_rename(other, "/work/f", "/work/g", 0, &err));
		if (how == 2) CHECK_OK(cb_unlink(other, "/work/f", &err));
		if (how == 3) CHECK_OK(cb_chmod(other, "/work/f", 0600, 0, &err));
		commits_as(t, CB_CONFLICT, NULL);
		CHECK(!exists(b, "/work/done"));
		if (how == 1) CHECK_OK(cb_unlink(b, "/work/g", &err));
	}
	/* What only others' folders and neighbours did is no matter. */
	must_write(b, "/work/f", "a");
	t = must_begin(b);
	expect.expected_version = must_version(b, "/work/f");
	CHECK_OK(cb_write_file(t, "/work/f", "b", 1, &expect, &err));
	must_write(other, "/work/neighbour", "n");
	(void)must_commit(t);
	end();
}

static cb_code make_exclusively(cb_box *t, const char *path)
{
	cb_file *f = NULL;
	CB_TRY(cb_open(t, path, CB_WRITE | CB_CREATE | CB_EXCLUSIVE, 0644, &f, &err));
	return cb_close(f, &err);
}

TEST_BOTH(an_expected_absence_holds_at_commit)
{
	begin(memory);
	must_write(b, "/work/a", "a");
	must_write(b, "/work/b", "b");
	CHECK_OK(cb_mkdir(b, "/work/dir", 0755, 0, &err));
	for (int how = 0; how < 7; how++) {
		cb_box *t = must_begin(b);
		cb_write_options absent = CB_WITH(cb_write_options, .expected_version = CB_VERSION_ABSENT);
		if (how == 0) CHECK_OK(make_exclusively(t, "/work/x"));
		if (how == 1) CHECK_OK(cb_mkdir(t, "/work/x", 0755, 0, &err));
		if (how == 2) CHECK_OK(cb_rename(t, "/work/a", "/work/x", CB_NOREPLACE, &err));
		if (how == 3) CHECK_OK(cb_link(t, "/work/a", "/work/x", &err));
		if (how == 4) CHECK_OK(cb_symlink(t, "a", "/work/x", &err));
		if (how == 5) CHECK_OK(cb_write_file(t, "/work/x", "x", 1, &absent, &err));
		if (how == 6) CHECK_OK(cb_copy(t, "/work/dir", "/work/x", 0, &err));
		/* Gone again before the commit: it was relied on all the same. */
		CHECK_OK(cb_remove(t, "/work/x", &err));
		must_write(t, "/work/done", "x");
		CHECK_OK(cb_mkdir(other, "/work/x", 0755, 0, &err));
		commits_as(t, CB_CONFLICT, "/work/x (made on both sides)\n");
		CHECK_OK(cb_rmdir(other, "/work/x", &err));
		CHECK(!exists(b, "/work/done"));
	}
	/* Two folders made by name; as parents they unite. */
	cb_box *t = must_begin(b), *u = must_begin(b);
	CHECK_OK(cb_mkdir(t, "/work/new", 0755, 0, &err));
	CHECK_OK(cb_mkdir(u, "/work/new", 0755, 0, &err));
	(void)must_commit(u);
	commits_as(t, CB_CONFLICT, "/work/new (made on both sides)\n");
	t = must_begin(b);
	u = must_begin(b);
	CHECK_OK(cb_mkdir(t, "/work/p/q", 0755, CB_PARENTS, &err));
	CHECK_OK(make_exclusively(t, "/work/p/q/lock"));
	CHECK_OK(cb_mkdir(u, "/work/p/q", 0755, CB_PARENTS, &err));
	must_write(u, "/work/p/q/other", "u");
	(void)must_commit(u);
	(void)must_commit(t);
	CHECK(exists(b, "/work/p/q/lock") && exists(b, "/work/p/q/other"));
	/* A lock in a folder that both sides made. */
	t = must_begin(b);
	u = must_begin(b);
	CHECK_OK(cb_mkdir(t, "/work/r/s", 0755, CB_PARENTS, &err));
	CHECK_OK(make_exclusively(t, "/work/r/s/lock"));
	CHECK_OK(cb_unlink(t, "/work/r/s/lock", &err));
	CHECK_OK(cb_mkdir(u, "/work/r/s", 0755, CB_PARENTS, &err));
	CHECK_OK(make_exclusively(u, "/work/r/s/lock"));
	(void)must_commit(u);
	commits_as(t, CB_CONFLICT, "/work/r/s/lock (made on both sides)\n");
	/* What the transaction itself took away was not absent. */
	t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/b", &err));
	CHECK_OK(make_exclusively(t, "/work/b"));
	must_write(other, "/work/elsewhere", "x");
	(void)must_commit(t);
	end();
}

/* ---- quotas ---- */

TEST_BOTH(quotas_are_those_at_commit)
{
	begin(memory);
	must_write(b, "/work/old", "0123456789");
	cb_box *t = must_begin(b);
	must_write(t, "/work/new", "0123456789");
	CHECK_OK(cb_box_quota_set(b, 15, 0, 0, &err));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_QUOTA);
	CHECK_OK(cb_box_quota_set(b, 0, 5, 0, &err)); /* four folders and a file are there */
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_QUOTA);
	CHECK_OK(cb_box_quota_set(b, 0, 0, 9, &err));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_QUOTA);
	must_write(other, "/work/x", "x"); /* the same when it has to be merged */
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_QUOTA);
	CHECK_OK(cb_box_quota_set(b, 0, 6, 0, &err));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_QUOTA);
	CHECK_OK(cb_box_quota_set(b, 20, 0, 0, &err));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_QUOTA);
	/* It can always be kept elsewhere. */
	cb_commit_result r = CB_INIT(cb_commit_result);
	CHECK_OK(cb_txn_keep(t, NULL, &r, &err));
	cb_box_close(t);
	cb_box *kept = must_open(s, r.fork);
	CHECK_STR(must_read(kept, "/work/new"), "0123456789");
	cb_box_close(kept);
	/* What does not add to what is there passes below any bound. */
	CHECK_OK(cb_box_quota_set(b, 1, 1, 1, &err));
	t = must_begin(b);
	CHECK_OK(cb_chmod(t, "/work/old", 0600, 0, &err));
	CHECK_OK(cb_rename(t, "/work/old", "/work/moved", 0, &err));
	(void)must_commit(t);
	t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/moved", &err));
	(void)must_commit(t);
	end();
}
