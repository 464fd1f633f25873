/*
 * test_store_concurrent.c: threads and processes on one store: nothing lost, nothing seen half-done, nobody starved. Waiting times are
 * printed, not judged.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "harness/harness.h"
#include "store/store.h"

enum { WORKERS = 4 };

static const char *folder(void)
{
	static char path[512];
	(void)snprintf(path, sizeof path, "%s/store", test_tmpdir());
	return path;
}

static store *open_store(void)
{
	cb_error err;
	store *s = NULL;
	store_options o = {.path = folder(), .create = true};
	CHECK_OK(store_open(&o, &s, &err));
	return s;
}

static uint64_t box_new(store *s, const char *name)
{
	cb_error err;
	store_box b = {.id = 0};
	(void)snprintf(b.name, sizeof b.name, "%s", name);
	CHECK_OK(store_write_begin(s, &err));
	CHECK_OK(store_take(s, STORE_NEXT_BOX, 1, &b.id, &err));
	CHECK_OK(store_box_insert(s, &b, &err));
	CHECK_OK(store_write_commit(s, false, &err));
	return b.id;
}

/* Adds one to a head under a transaction; what it reads must be what the last one wrote. */
static cb_code increment(store *s, uint64_t box, cb_error *err)
{
	CB_TRY(store_write_begin(s, err));
	store_head h;
	uint64_t state = 0, content = 0;
	cb_code code = store_head_get(s, box, &h, err);
	if (code == CB_OK) code = store_take(s, STORE_NEXT_STATE, 1, &state, err);
	if (code == CB_OK) code = store_content_put(s, span_make(&state, sizeof state), &content, err);
	store_step p = {.box = box, .seq = h.seq + 1, .state = state, .kind = "k", .who = ""};
	if (code == CB_OK) code = store_step_put(s, &p, err);
	h.seq++;
	h.state = state;
	if (code == CB_OK) code = store_head_set(s, box, &h, err);
	if (code == CB_OK) return store_write_commit(s, false, err);
	store_write_abort(s);
	return code;
}

static int64_t now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void complain(void *context, const char *line)
{
	(void)context;
	test_fail(__FILE__, __LINE__, "%s", line);
}

static void check_clean(store *s)
{
	cb_error err;
	CHECK_OK(store_check(s, complain, NULL, &err));
}

/* ---- threads ---- */

typedef struct worker {
	store *s;
	uint64_t box;
	unsigned rounds;
	unsigned done;
	int64_t worst_us;
	cb_error err;
} worker;

static void *worker_run(void *context)
{
	worker *w = context;
	for (unsigned i = 0; i < w->rounds; i++) {
		int64_t before = now_us();
		if (increment(w->s, w->box, &w->err) != CB_OK) return NULL;
		int64_t took = now_us() - before;
		if (took > w->worst_us) w->worst_us = took;
		w->done++;
	}
	return NULL;
}

static void run_threads(store *const *stores, uint64_t box)
{
	pthread_t threads[WORKERS];
	worker workers[WORKERS];
	unsigned rounds = 300 * test_soak();
	for (size_t i = 0; i < WORKERS; i++) {
		workers[i] = (worker){.s = stores[i], .box = box, .rounds = rounds};
		CHECK(pthread_create(&threads[i], NULL, worker_run, &workers[i]) == 0);
	}
	for (size_t i = 0; i < WORKERS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		CHECK_MSG(workers[i].done == rounds, "%s", workers[i].err.message);
		test_note("thread %zu: longest wait %.1f ms", i, (double)workers[i].worst_us / 1000);
	}
	cb_error err;
	store_head h;
	CHECK_OK(store_head_get(stores[0], box, &h, &err));
	CHECK_U64(h.seq, WORKERS * rounds);
}

TEST(threads_on_one_handle)
{
	store *s = open_store();
	store *same[WORKERS] = {s, s, s, s};
	run_threads(same, box_new(s, "a"));
	check_clean(s);
	store_close(s);
}

TEST(threads_on_handles_of_their_own)
{
	store *stores[WORKERS];
	for (size_t i = 0; i < WORKERS; i++) stores[i] = open_store();
	run_threads(stores, box_new(stores[0], "a"));
	check_clean(stores[0]);
	for (size_t i = 0; i < WORKERS; i++) store_close(stores[i]);
}

TEST(threads_in_memory)
{
	cb_error err;
	store *s = NULL;
	store_options o = {.path = NULL};
	CHECK_OK(store_open(&o, &s, &err));
	store *same[WORKERS] = {s, s, s, s};
	run_threads(same, box_new(s, "a"));
	store_close(s);
}

/* Readers beside a writer: a snapshot is one state, and a fresh stamp means the head that was read. */
typedef struct reader_work {
	store *s;
	uint64_t box;
	_Atomic bool stop;
	unsigned reads;
	const char *wrong;
} reader_work;

static void *reader_run(void *context)
{
	reader_work *w = context;
	cb_error err;
	store_head known = {0};
	uint64_t stamp = 0;
	while (!atomic_load(&w->stop) && !w->wrong) {
		store_head h, again;
		uint64_t steps = 0;
		if (store_read_begin(w->s, &err) != CB_OK) w->wrong = "read_begin";
		if (store_head_get(w->s, w->box, &h, &err) != CB_OK) w->wrong = "head_get";
		if (store_step_count(w->s, w->box, &steps, &err) != CB_OK || steps != h.seq)
			w->wrong = "the count is not of the head's state";
		if (store_head_get(w->s, w->box, &again, &err) != CB_OK || again.seq != h.seq) w->wrong = "the picture changed";
		store_read_end(w->s);
		if (!store_fresh(w->s, w->box, &stamp)) {
			if (store_head_get(w->s, w->box, &known, &err) != CB_OK) w->wrong = "head_get";
		} else if (known.seq < h.seq) {
			w->wrong = "a stale head was called fresh";
		}
		w->reads++;
	}
	return NULL;
}

TEST(readers_beside_a_writer)
{
	store *s = open_store(), *other = open_store();
	uint64_t box = box_new(s, "a");
	reader_work same = {.s = s, .box = box}, apart = {.s = other, .box = box};
	pthread_t a, b;
	CHECK(pthread_create(&a, NULL, reader_run, &same) == 0 && pthread_create(&b, NULL, reader_run, &apart) == 0);
	cb_error err;
	for (unsigned i = 0; i < 500 * test_soak(); i++) CHECK_OK(increment(s, box, &err));
	atomic_store(&same.stop, true);
	atomic_store(&apart.stop, true);
	CHECK(pthread_join(a, NULL) == 0 && pthread_join(b, NULL) == 0);
	CHECK_MSG(!same.wrong && !apart.wrong, "%s", same.wrong ? same.wrong : apart.wrong);
	test_note("%u and %u reads", same.reads, apart.reads);
	store_close(other);
	store_close(s);
}

/* ---- processes ---- */

typedef struct shared {
	_Atomic unsigned ready;
	_Atomic unsigned done[WORKERS];
	_Atomic int64_t worst_us[WORKERS];
} shared;

static shared *share(void)
{
	void *p = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static void process_run(shared *m, size_t me, uint64_t box, int64_t run_us)
{
	store *s = open_store();
	cb_error err;
	(void)atomic_fetch_add(&m->ready, 1);
	while (atomic_load(&m->ready) < WORKERS) (void)sched_yield();
	for (int64_t until = now_us() + run_us; now_us() < until;) {
		int64_t before = now_us();
		if (increment(s, box, &err) != CB_OK) {
			(void)fprintf(stderr, "# %s\n", err.message);
			_exit(1);
		}
		int64_t took = now_us() - before;
		if (took > atomic_load(&m->worst_us[me])) atomic_store(&m->worst_us[me], took);
		(void)atomic_fetch_add(&m->done[me], 1);
	}
	store_close(s);
	_exit(0);
}

TEST(processes_take_turns)
{
	store *s = open_store();
	uint64_t box = box_new(s, "a");
	shared *m = share();
	const int64_t run_us = 700000 * (int64_t)test_soak();
	for (size_t i = 0; i < WORKERS; i++) {
		pid_t p = fork();
		CHECK(p >= 0);
		if (p == 0) process_run(m, i, box, run_us);
	}
	uint64_t total = 0;
	for (size_t i = 0; i < WORKERS; i++) {
		int status = 0;
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	for (size_t i = 0; i < WORKERS; i++) {
		total += atomic_load(&m->done[i]);
		test_note("process %zu: %u commits, longest wait %.1f ms", i, atomic_load(&m->done[i]),
		          (double)atomic_load(&m->worst_us[i]) / 1000);
	}
	test_note("%.0f commits a second", (double)total * 1e6 / (double)run_us);
	cb_error err;
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_U64(h.seq, total);
	check_clean(s);
	store_close(s);
}

/* Killed anywhere: what was acknowledged is there, the rest is whole, and those that live go on. */
TEST_LIMIT(killed_writers, 120)
{
	store *s = open_store();
	uint64_t box = box_new(s, "a");
	shared *m = share();
	test_rng r = {test_seed() | 1};
	cb_error err;
	for (unsigned round = 0; round < 15 * test_soak(); round++) {
		pid_t p[2];
		uint64_t before = atomic_load(&m->done[0]) + atomic_load(&m->done[1]);
		atomic_store(&m->ready, WORKERS);
		for (size_t i = 0; i < 2; i++) {
			p[i] = fork();
			CHECK(p[i] >= 0);
			if (p[i] == 0) process_run(m, i, box, 5000000);
		}
		while (atomic_load(&m->done[0]) + atomic_load(&m->done[1]) < before + 5) (void)usleep(500);
		(void)usleep((useconds_t)test_rand_below(&r, 8000));
		for (size_t i = 0; i < 2; i++) {
			CHECK(kill(p[i], SIGKILL) == 0);
			CHECK(waitpid(p[i], NULL, 0) == p[i]);
		}
		store_head h;
		uint64_t steps = 0, stamp = 0;
		CHECK_OK(increment(s, box, &err));
		(void)atomic_fetch_add(&m->done[2], 1);
		(void)store_fresh(s, box, &stamp);
		CHECK(store_fresh(s, box, &stamp)); /* a slot left odd was settled */
		CHECK_OK(store_head_get(s, box, &h, &err));
		CHECK_OK(store_step_count(s, box, &steps, &err));
		CHECK_U64(steps, h.seq);
		CHECK(h.seq >= atomic_load(&m->done[0]) + atomic_load(&m->done[1]) + atomic_load(&m->done[2]));
	}
	check_clean(s);
	store_close(s);
}

TEST(another_pid_namespace)
{
	store *s = open_store();
	uint64_t box = box_new(s, "a"), owner = 0, horizon = 0;
	cb_error err;
	CHECK_OK(store_owner_begin(s, &owner, &err));
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	pid_t outer = fork();
	CHECK(outer >= 0);
	if (outer == 0) {
		if (unshare(CLONE_NEWPID) != 0) _exit(77);
		pid_t inner = fork();
		if (inner == 0) {
			store *mine = open_store();
			uint64_t theirs = 0, seen = 0;
			bool good = true;
			for (unsigned i = 0; i < 200; i++) good = good && increment(mine, box, &err) == CB_OK;
			good = good && store_owner_begin(mine, &theirs, &err) == CB_OK &&
			       store_gc_begin(mine, &seen, &err) == CB_OK;
			good = good && seen == 1; /* the owner outside is seen to live */
			store_gc_end(mine);
			_exit(good && write(pipes[1], "x", 1) == 1 ? 0 : 1); /* without ending its owner */
		}
		int status = 0;
		_exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	for (unsigned i = 0; i < 200; i++) CHECK_OK(increment(s, box, &err));
	int status = 0;
	CHECK(waitpid(outer, &status, 0) == outer);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) test_lacks("namespaces", "new pid namespaces are not permitted here");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_U64(h.seq, 400);
	store_owner_end(s, owner);
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_U64(horizon, 3); /* nobody left */
	store_gc_end(s);
	store_close(s);
}

TEST(lock_timeout_is_busy)
{
	store *s = open_store(), *other = NULL;
	cb_error err;
	store_options o = {.path = folder(), .lock_timeout_ms = 50};
	CHECK_OK(store_open(&o, &other, &err));
	CHECK_OK(store_write_begin(s, &err));
	int64_t before = now_us();
	CHECK_CODE(store_write_begin(other, &err), CB_BUSY);
	CHECK(now_us() - before >= 50000);
	store_head h;
	CHECK_CODE(store_head_get(other, 1, &h, &err), CB_NOTFOUND); /* reading goes on */
	CHECK_OK(store_write_commit(s, false, &err));
	CHECK_OK(store_write_begin(other, &err));
	CHECK_OK(store_write_commit(other, false, &err));
	store_close(other);
	store_close(s);
}

#if defined(__has_feature)
#define WITH_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#else
#define WITH_TSAN 0
#endif

/* ThreadSanitizer does not know that the parent's threads are gone in a child. */
#if !WITH_TSAN
/* A fork while other threads write: it waits for them, and both sides go on. */
TEST(fork_beside_busy_threads)
{
	store *s = open_store();
	uint64_t box = box_new(s, "a");
	worker w = {.s = s, .box = box, .rounds = 400};
	pthread_t t;
	CHECK(pthread_create(&t, NULL, worker_run, &w) == 0);
	for (int i = 0; i < 10; i++) {
		pid_t p = fork();
		CHECK(p >= 0);
		if (p == 0) {
			cb_error err;
			_exit(increment(s, box, &err) == CB_OK ? 0 : 1);
		}
		int status = 0;
		CHECK(waitpid(p, &status, 0) == p);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	CHECK(pthread_join(t, NULL) == 0);
	CHECK_U64(w.done, 400);
	cb_error err;
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_U64(h.seq, 410);
	check_clean(s);
	store_close(s);
}
#endif
