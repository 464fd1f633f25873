/* test_store_fault.c: writes, flushes and allocations that fail, power cuts, fork. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "contract/test_store_kit.h"

/* ---- faults ---- */

/* Runs ten commits; returns how many were acknowledged. */
static uint64_t run_commits(store *s, uint64_t box, bool sync, bool *out_failed)
{
	uint64_t acknowledged = 0;
	*out_failed = false;
	store_head h;
	for (int i = 0; i < 10; i++) {
		CHECK_OK(store_head_get(s, box, &h, &err));
		cb_code code = small_commit(s, box, h.seq + 1, sync);
		if (code == CB_OK) acknowledged = h.seq + 1;
		else *out_failed = true;
		if (code != CB_OK) CHECK_MSG(code == CB_IO || code == CB_NOSPACE, "%s: %s", cb_code_name(code), err.message);
	}
	return acknowledged;
}

static void fail_each(store_fault_op op, int error, bool lasting, bool sync)
{
	char path[600];
	long total = 1;
	for (long n = 1; n <= total; n++) {
		(void)snprintf(path, sizeof path, "%s/f%d-%d-%d-%ld", test_tmpdir(), (int)op, error, lasting, n);
		store_fault_plan plan = {.record = false};
		store *s = open_at(path, &plan);
		uint64_t box = box_new(s, "a");
		long before = atomic_load(&plan.op[op].seen);
		plan.op[op].error = error;
		plan.op[op].lasting = lasting;
		atomic_store(&plan.op[op].fail_at, n);
		bool failed = false;
		uint64_t acknowledged = run_commits(s, box, sync, &failed);
		if (n == 1) total = atomic_load(&plan.op[op].seen) - before;
		atomic_store(&plan.op[op].fail_at, 0);
		store_head h;
		CHECK_OK(store_head_get(s, box, &h, &err));
		store_close(s);
		s = open_at(path, NULL);
		CHECK_OK(store_head_get(s, box, &h, &err));
		CHECK(h.seq >= acknowledged);
		CHECK_OK(small_commit(s, box, h.seq + 1, true));
		check_clean(s);
		store_close(s);
		store_fault_plan_done(&plan);
		if (total > 40) total = 40;
	}
}

TEST_LIMIT(each_write_fails_once, 120)
{
	fail_each(STORE_FAULT_WRITE, EIO, false, false);
}

TEST_LIMIT(disk_full_from_each_write, 120)
{
	fail_each(STORE_FAULT_WRITE, ENOSPC, true, false);
}

TEST_LIMIT(each_flush_fails_once, 120)
{
	fail_each(STORE_FAULT_FLUSH, EIO, false, true);
}

TEST_LIMIT(each_flush_fails_from_then_on, 120)
{
	fail_each(STORE_FAULT_FLUSH, EIO, true, true);
}

TEST(full_disk_is_named)
{
	store_fault_plan plan = {.record = false};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a");
	plan.op[STORE_FAULT_WRITE].error = ENOSPC;
	plan.op[STORE_FAULT_WRITE].lasting = true;
	atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 1);
	CHECK_CODE(small_commit(s, box, 1, false), CB_NOSPACE);
	CHECK_CODE(small_commit(s, box, 3, false), CB_NOSPACE);
	atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 0);
	CHECK_CODE(small_commit(s, box, 1, false), CB_OK);
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(failed_flush_stops_writes_until_reopened)
{
	store_fault_plan plan = {.record = false};
	store *s = open_at(folder(), &plan), *other = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	plan.op[STORE_FAULT_FLUSH].error = EIO;
	atomic_store(&plan.op[STORE_FAULT_FLUSH].fail_at, 1);
	CHECK_CODE(small_commit(s, box, 1, true), CB_IO);
	CHECK_CODE(small_commit(s, box, 2, true), CB_IO);
	CHECK(strstr(err.message, "reopen"));
	CHECK_CODE(store_sync(s, &err), CB_IO);
	CHECK_CODE(small_commit(other, box, 2, false), CB_IO); /* other processes too */
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	store_close(s);
	s = open_at(folder(), NULL);
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_CODE(small_commit(s, box, h.seq + 1, true), CB_OK);
	CHECK_CODE(small_commit(other, box, h.seq + 2, true), CB_OK);
	store_close(other);
	check_clean(s);
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(failed_segment_flush_aborts_only)
{
	store_fault_plan plan = {.record = false};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a");
	CHECK_CODE(small_commit(s, box, 3, false), CB_OK);
	plan.op[STORE_FAULT_FLUSH].error = EIO;
	atomic_store(&plan.op[STORE_FAULT_FLUSH].fail_at, 1);
	CHECK_CODE(small_commit(s, box, 6, false), CB_IO);
	CHECK_CODE(small_commit(s, box, 6, false), CB_OK);
	CHECK(access(in_folder("seg/000002.seg"), F_OK) == 0); /* the first is not trusted again */
	check_clean(s);
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(a_synced_commit_flushes_the_log)
{
	store_fault_plan plan = {.record = true};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a");
	uint64_t before = store_fault_flushes(&plan, "-wal");
	CHECK_CODE(small_commit(s, box, 1, false), CB_OK);
	CHECK_U64(store_fault_flushes(&plan, "-wal"), before);
	CHECK_CODE(small_commit(s, box, 2, true), CB_OK);
	CHECK_U64(store_fault_flushes(&plan, "-wal"), before + 1);
	CHECK_U64(store_fault_flushes(&plan, ".seg"), 0);
	CHECK_CODE(small_commit(s, box, 3, false), CB_OK);
	CHECK_U64(store_fault_flushes(&plan, ".seg"), 1);
	CHECK_U64(store_fault_flushes(&plan, "-wal"), before + 1);
	store_close(s);
	store_fault_plan_done(&plan);
}

static uint64_t dice(void *context, uint64_t n)
{
	return test_rand_below(context, n);
}

/* The recorder itself: every synced commit is in every image, and each image is sound. */
TEST_LIMIT(power_cuts_keep_synced_commits, 120)
{
	test_rng r = {test_seed() | 1};
	store_fault_plan plan = {.record = true};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a"), synced = 0;
	CHECK_OK(store_sync(s, &err));
	for (uint64_t i = 1; i <= 40; i++) {
		bool sync = test_rand_below(&r, 3) == 0;
		CHECK_CODE(small_commit(s, box, i, sync), CB_OK);
		if (sync) synced = i;
		char to[600];
		(void)snprintf(to, sizeof to, "%s/cut%" PRIu64, test_tmpdir(), i);
		CHECK_OK(store_fault_cut(&plan, NULL, dice, &r, to, &err));
		store *image = open_at(to, NULL);
		store_head h;
		CHECK_OK(store_head_get(image, box, &h, &err));
		CHECK_MSG(h.seq >= synced && h.seq <= i, "%" PRIu64 " of %" PRIu64 ", %" PRIu64 " synced", h.seq, i, synced);
		check_clean(image);
		store_close(image);
	}
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST_LIMIT(each_allocation_fails, 120)
{
	for (int disk = 0; disk < 2; disk++) {
		for (long n = 1; n < 400; n++) {
			store *s = NULL;
			store_options o = {.path = disk ? folder() : NULL, .create = true};
			mem_fail_after(n);
			cb_code code = store_open(&o, &s, &err);
			uint64_t id = 0, owner = 0;
			if (code == CB_OK) code = store_content_put(s, span_str("hello"), &id, &err);
			static uint8_t large[100000];
			if (code == CB_OK) code = store_content_put(s, span_make(large, sizeof large), &id, &err);
			blob *b = NULL;
			if (code == CB_OK) code = store_content_get(s, id, &b, &err);
			blob_unref(b);
			if (code == CB_OK) code = store_owner_begin(s, &owner, &err);
			char *value = NULL;
			if (code == CB_OK) code = store_setting_get(s, 0, "none", &value, &err);
			mem_fail_after(0);
			CHECK_MSG(code == CB_NOMEM || code == CB_NOTFOUND, "allocation %ld: %s", n, err.message);
			store_close(s);
			if (code == CB_NOTFOUND) break;
			CHECK(n < 399);
		}
	}
	store *s = open_at(folder(), NULL);
	check_clean(s);
	store_close(s);
}

/* ---- fork ---- */

static void child_must_succeed(pid_t child)
{
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with %d", status);
}

#define IN_CHILD(cond)                                                                   \
	do {                                                                             \
		if (!(cond)) {                                                           \
			(void)fprintf(stderr, "# child: %s (%s)\n", #cond, err.message); \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

TEST(fork_child_reopens)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a"), ino = 0, owner = 0;
	CHECK_CODE(small_commit(s, box, 1, false), CB_OK);
	CHECK_OK(store_ino_take(s, &ino, &err));
	CHECK_OK(store_owner_begin(s, &owner, &err));
	(void)content_new(s, 100000, 1);
	int ready[2], gone[2];
	CHECK(pipe(ready) == 0 && pipe(gone) == 0);
	pid_t child = fork();
	if (child == 0) {
		uint64_t theirs = 0;
		IN_CHILD(small_commit(s, box, 2, false) == CB_OK);
		IN_CHILD(store_ino_take(s, &theirs, &err) == CB_OK && theirs > ino + 1);
		IN_CHILD(store_content_put(s, span_make(pattern(100000, 2), 100000), &theirs, &err) == CB_OK);
		store_owner_end(s, owner); /* not ours: nothing happens */
		IN_CHILD(write(ready[1], "x", 1) == 1);
		char byte;
		IN_CHILD(read(gone[0], &byte, 1) == 1);
		/* The parent closed the store: our connection must be a user of its own right. */
		for (uint64_t i = 3; i < 50; i++) IN_CHILD(small_commit(s, box, i, false) == CB_OK);
		store_close(s);
		_exit(0);
	}
	char byte;
	CHECK(read(ready[0], &byte, 1) == 1);
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_U64(h.seq, 2);
	uint64_t horizon = 0;
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_U64(horizon, 1); /* the owner lives */
	store_gc_end(s);
	store_owner_end(s, owner);
	store_close(s);
	s = open_at(folder(), NULL);
	store_close(s);
	CHECK(write(gone[1], "x", 1) == 1);
	child_must_succeed(child);
	s = open_at(folder(), NULL);
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_U64(h.seq, 49);
	check_clean(s);
	store_close(s);
}

TEST(fork_inside_transactions)
{
	store *s = open_at(folder(), NULL), *m = open_at(NULL, NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	pid_t child = fork();
	if (child == 0) {
		store_head h;
		store *again = NULL;
		store_options o = {.path = folder()};
		IN_CHILD(store_write_commit(s, false, &err) == CB_FORKED);
		store_write_abort(s);
		IN_CHILD(store_head_get(s, box, &h, &err) == CB_FORKED);
		IN_CHILD(store_open(&o, &again, &err) == CB_FORKED);
		IN_CHILD(store_head_get(m, box, &h, &err) == CB_FORKED);
		store_close(s);
		store_close(m);
		_exit(0);
	}
	child_must_succeed(child);
	step_add(s, box, 1, "write");
	commit(s);
	CHECK_OK(store_read_begin(s, &err));
	child = fork();
	if (child == 0) {
		store_head h;
		IN_CHILD(store_head_get(s, box, &h, &err) == CB_FORKED);
		store_read_end(s);
		IN_CHILD(store_head_get(s, box, &h, &err) == CB_OK && h.seq == 1);
		store_close(s);
		_exit(0);
	}
	child_must_succeed(child);
	store_read_end(s);
	store_close(s);
	store_close(m);
}

/* The locks of a killed parent must not live on in a child that merely exists. */
TEST(idle_child_holds_no_lock)
{
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	pid_t parent = fork();
	if (parent == 0) {
		store *s = open_at(folder(), NULL);
		uint64_t owner = 0;
		IN_CHILD(store_owner_begin(s, &owner, &err) == CB_OK);
		begin(s);
		if (fork() == 0) {
			IN_CHILD(write(pipes[1], "x", 1) == 1);
			(void)sleep(20);
			_exit(0);
		}
		(void)sleep(20);
		_exit(0);
	}
	char byte;
	CHECK(read(pipes[0], &byte, 1) == 1);
	CHECK(kill(parent, SIGKILL) == 0 && waitpid(parent, NULL, 0) == parent);
	store *s = NULL;
	store_options o = {.path = folder(), .lock_timeout_ms = 2000};
	CHECK_OK(store_open(&o, &s, &err));
	begin(s);
	commit(s);
	uint64_t horizon = 0;
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_U64(horizon, 2);
	store_gc_stats st;
	uint64_t keep[2] = {0, 0};
	CHECK_OK(store_gc_sweep(s, horizon, marked, keep, &st, &err));
	CHECK_U64(st.owners_dead, 1);
	store_gc_end(s);
	store_close(s);
}
