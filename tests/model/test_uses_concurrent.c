/*
 * test_uses_concurrent.c: readers and removers of one store, all at once. The rule: what was opened can be read until it is closed; STALE
 * is an answer to opening only. Caches are off, so that every read needs its rows.
 */
#include "box/internal.h"
#include "harness/boxes.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READERS = 4, KEEP = 6 };

static unsigned rounds(void)
{
	return test_dose(120);
}

static cb_store *open_store(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .cache_bytes = 1), &s, &err));
	return s;
}

/* ---- the protocol alone: rows of steps, and places that say which are needed ---- */

typedef struct row_reader {
	cb_store *s;
	uint64_t box;
	test_rng rng;
	_Atomic bool *done;
	_Atomic uint64_t held, gone; /* how often */
} row_reader;

static cb_code seen_step(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = step->seq;
	return CB_INTERRUPTED;
}

static bool step_is_there(store *s, uint64_t box, uint64_t seq)
{
	cb_error err = {0};
	uint64_t found = 0;
	CHECK_OK(store_step_walk(s, box, seq, seq, false, seen_step, &found, &err));
	return found == seq;
}

static uint64_t some_step(row_reader *r)
{
	cb_error err = {0};
	store_head head;
	CHECK_OK(store_head_get(r->s->s, r->box, &head, &err));
	uint64_t back = test_rand_below(&r->rng, 2 * KEEP); /* about half of them are pruned, or are about to be */
	return head.seq > back ? head.seq - back : head.seq;
}

static void read_rows(row_reader *r)
{
	cb_error err = {0};
	store *s = r->s->s;
	store_use *use = NULL, *next = NULL;
	store_used what = {.box = r->box, .why = KEPT_OPEN};
	for (;;) {
		what.seq = some_step(r);
		uint64_t seen = 0;
		CHECK_OK(store_removal_wait(s, &seen, NULL));
		bool there = step_is_there(s, r->box, what.seq);
		if (!there) {
			r->gone++;
			break;
		}
		CHECK_OK(store_use_show(s, &use, &what, &err));
		if (!store_removal_is(s, seen)) continue;
		r->held++;
		for (int i = 0; i < 3; i++) {
			CHECK_MSG(step_is_there(s, r->box, what.seq), "step %llu went while it was in use",
			          (unsigned long long)what.seq);
			/* Handed on, as a call hands its head to a visitor. */
			CHECK_OK(store_use_show(s, &next, &what, &err));
			store_use_handed(s);
			store_use_end(s, &use);
			use = next;
			next = NULL;
			if (test_rand_below(&r->rng, 2)) (void)sched_yield();
		}
		CHECK_MSG(step_is_there(s, r->box, what.seq), "step %llu went while it was in use", (unsigned long long)what.seq);
		break;
	}
	store_use_end(s, &use);
}

static void *read_rows_on(void *context)
{
	row_reader *r = context;
	while (!atomic_load(r->done)) read_rows(r);
	return NULL;
}

/* Removes every step below the newest few that nobody needs. */
static void remove_rows(cb_store *cs, uint64_t box)
{
	cb_error err = {0};
	AUTO_BUF buf seen = BUF_INIT(SIZE_MAX);
	store_head head;
	uint64_t deleted;
	CHECK_OK(store_write_begin(cs->s, &err));
	CHECK_OK(store_removal_begin(cs->s, &seen, &err));
	CHECK_OK(store_head_get(cs->s, box, &head, &err));
	const store_used *all = (const store_used *)(const void *)seen.bytes;
	for (uint64_t seq = 1; seq + KEEP <= head.seq; seq++) {
		bool needed = false;
		for (size_t i = 0; i < seen.size / sizeof(*all); i++) needed = needed || (all[i].box == box && all[i].seq == seq);
		if (!needed) CHECK_OK(store_step_delete(cs->s, box, seq, seq, &deleted, &err));
	}
	CHECK_OK(store_write_commit(cs->s, false, &err));
}

static void protocol(bool own_handles)
{
	cb_error err = {0};
	test_note("seed %llu", (unsigned long long)test_seed());
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int i = 0; i < 3 * KEEP; i++) must_write(b, "/work/n", "x");
	row_reader readers[READERS];
	pthread_t threads[READERS];
	_Atomic bool done = false;
	for (int i = 0; i < READERS; i++) {
		readers[i] = (row_reader){
			.s = own_handles ? open_store() : s, .box = b->row.id, .rng = {test_seed() + (uint64_t)i}, .done = &done};
		CHECK(pthread_create(&threads[i], NULL, read_rows_on, &readers[i]) == 0);
	}
	/* At least until one of them was in time: they may be slow to begin. */
	uint64_t held = 0, gone = 0;
	for (unsigned i = 0; i < 3 * rounds() || held == 0; i++) {
		for (int k = 0; k < 3; k++) must_write(b, "/work/n", k % 2 ? "x" : "y");
		remove_rows(s, b->row.id);
		for (int k = 0; k < READERS; k++) held += atomic_load(&readers[k].held);
	}
	atomic_store(&done, true);
	held = 0;
	for (int i = 0; i < READERS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		held += readers[i].held;
		gone += readers[i].gone;
		if (own_handles) cb_store_close(readers[i].s);
	}
	test_note("%llu uses, %llu too late", (unsigned long long)held, (unsigned long long)gone);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_LIMIT(protocol_on_one_handle, 120)
{
	protocol(false);
}

TEST_LIMIT(protocol_on_handles_of_their_own, 120)
{
	protocol(true);
}

/* ---- the whole: heads, old states, transactions, walks and open files beside writes, prune and gc ---- */

enum { FILES = 40 };

static void write_all(cb_box *b, unsigned n)
{
	cb_error err = {0};
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	for (unsigned i = 0; i < FILES; i++) {
		char path[64], text[256];
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		(void)snprintf(text, sizeof(text), "%0150u", n);
		must_write(t, path, text);
	}
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
}

/* Whatever state it is: all files are of one step. */
static void must_agree(cb_box *b)
{
	cb_error err = {0};
	char first[256] = "";
	for (unsigned i = 0; i < FILES; i++) {
		char path[64], *text = NULL;
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		CHECK_OK(cb_read_file(b, path, &text, NULL, &err));
		if (i == 0) (void)snprintf(first, sizeof(first), "%s", text);
		CHECK_STR(text, first);
		cb_free(text);
	}
}

static void read_old_state(cb_store *s, test_rng *rng)
{
	cb_error err = {0};
	cb_box *b = NULL;
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@-%u", (unsigned)test_rand_below(rng, 4));
	cb_code code = cb_box_open(s, address, &b, &err);
	CHECK_MSG(code == CB_OK || code == CB_STALE || code == CB_NOTFOUND, "%s", err.message);
	if (code != CB_OK) return;
	if (must_seq(b) > 0) must_agree(b); /* step 0 always stays, and has no files */
	cb_box_close(b);
}

static void read_in_transaction(cb_box *b, test_rng *rng)
{
	cb_error err = {0};
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	if (test_rand_below(rng, 2)) (void)sched_yield();
	must_agree(t);
	cb_box_close(t);
}

static cb_code count_files(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)path;
	(void)err;
	*(unsigned *)context += info->type == CB_FILE;
	return CB_OK;
}

static void walk(cb_box *b)
{
	cb_error err = {0};
	unsigned n = 0;
	CHECK_OK(cb_walk(b, "/work", count_files, &n, &err));
	CHECK_U64(n, FILES);
}

static void read_open_file(cb_box *b, test_rng *rng)
{
	cb_error err = {0};
	char path[64], text[256];
	size_t n = 0;
	cb_file *f = NULL;
	(void)snprintf(path, sizeof(path), "/work/f%u", (unsigned)test_rand_below(rng, FILES));
	CHECK_OK(cb_open(b, path, CB_READ, 0, &f, &err));
	for (int i = 0; i < 3; i++) {
		CHECK_OK(cb_pread(f, text, sizeof(text), 0, &n, &err));
		CHECK_U64(n, 150);
		(void)sched_yield();
	}
	CHECK_OK(cb_close(f, &err));
}

typedef struct worker {
	cb_store *s;
	test_rng rng;
	_Atomic bool *done;
	unsigned max;
} worker;

static void *read_on(void *context)
{
	worker *w = context;
	cb_error err = {0};
	cb_box *b = must_open(w->s, "demo");
	for (unsigned i = 0; !atomic_load(w->done) && i < w->max; i++) {
		char *text = NULL;
		switch (test_rand_below(&w->rng, 5)) {
		case 0:
			read_old_state(w->s, &w->rng);
			break;
		case 1:
			read_in_transaction(b, &w->rng);
			break;
		case 2:
			walk(b);
			break;
		case 3:
			read_open_file(b, &w->rng);
			break;
		default:
			CHECK_OK(cb_read_file(b, "/work/f3", &text, NULL, &err));
			cb_free(text);
		}
	}
	cb_box_close(b);
	return NULL;
}

static void remove_on(cb_store *s, unsigned n)
{
	cb_error err = {0};
	cb_box *b = must_open(s, "demo");
	for (unsigned i = 0; i < n; i++) {
		write_all(b, i);
		cb_code code = cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_BUSY, "%s", err.message);
		code = cb_store_gc(s, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_BUSY, "%s", err.message);
	}
	cb_box_close(b);
}

static void begin(void)
{
	cb_error err = {0};
	test_note("seed %llu", (unsigned long long)test_seed());
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	write_all(b, 0);
	cb_box_close(b);
	cb_store_close(s);
}

static void whole(bool own_handles)
{
	begin();
	cb_store *s = open_store();
	worker workers[READERS];
	pthread_t threads[READERS];
	_Atomic bool done = false;
	for (int i = 0; i < READERS; i++) {
		workers[i] = (worker){own_handles ? open_store() : s, {test_seed() + (uint64_t)i}, &done, UINT32_MAX};
		CHECK(pthread_create(&threads[i], NULL, read_on, &workers[i]) == 0);
	}
	remove_on(s, rounds() / 2);
	atomic_store(&done, true);
	for (int i = 0; i < READERS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		if (own_handles) cb_store_close(workers[i].s);
	}
	test_store_sound(s);
	cb_store_close(s);
}

TEST_LIMIT(threads_on_one_handle, 180)
{
	whole(false);
}

TEST_LIMIT(threads_on_handles_of_their_own, 180)
{
	whole(true);
}

static pid_t start_process(bool removes, uint64_t seed)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid) return pid;
	cb_store *s = open_store();
	_Atomic bool done = false;
	worker w = {s, {seed}, &done, UINT32_MAX};
	if (removes) remove_on(s, UINT32_MAX);
	else (void)read_on(&w);
	_exit(1);
}

/* Processes that read and processes that remove, killed at any moment and started anew. */
TEST_LIMIT(processes_that_are_killed, 180)
{
	cb_error err = {0};
	begin();
	test_rng rng = {test_seed()};
	pid_t pids[READERS + 1];
	for (unsigned i = 0; i < READERS + 1; i++) pids[i] = start_process(i == 0, test_rand(&rng));
	for (unsigned k = 0; k < rounds() / 2; k++) {
		(void)usleep((useconds_t)test_rand_below(&rng, 40000));
		unsigned i = (unsigned)test_rand_below(&rng, READERS + 1);
		int status = 0;
		pid_t ended = 0;
		for (unsigned j = 0; j < READERS + 1; j++) {
			ended = waitpid(pids[j], &status, WNOHANG);
			CHECK_MSG(ended == 0, "process %u ended by itself: %x", j, (unsigned)status);
		}
		CHECK(kill(pids[i], SIGKILL) == 0 && waitpid(pids[i], &status, 0) == pids[i]);
		pids[i] = start_process(i == 0, test_rand(&rng));
	}
	for (unsigned i = 0; i < READERS + 1; i++) {
		int status = 0;
		CHECK(waitpid(pids[i], &status, WNOHANG) == 0);
		CHECK(kill(pids[i], SIGKILL) == 0 && waitpid(pids[i], &status, 0) == pids[i]);
	}
	cb_store *s = open_store();
	test_store_sound(s);
	remove_on(s, 1);
	AUTO_BUF buf left = BUF_INIT(SIZE_MAX);
	CHECK_OK(store_uses_read(s->s, &left, &err));
	CHECK_U64(left.size, 0);
	test_store_sound(s);
	cb_store_close(s);
}
