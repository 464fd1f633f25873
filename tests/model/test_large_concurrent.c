/*
 * test_large_concurrent.c: calls that change thousands of files are computed and written outside the writer lock. Beside them others write
 * without pause and readers look: nobody sees a part, nothing is lost, and a process that dies in the middle leaves nothing.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { FILES = 1500, WRITERS = 2 };

static cb_store *s;
static cb_box *b;
static _Atomic bool over;

static void fill(cb_box *box, const char *folder)
{
	cb_error err = {0};
	cb_box *t = must_begin(box);
	for (unsigned i = 0; i < FILES; i++) {
		char path[64], text[16];
		(void)snprintf(path, sizeof(path), "%s/%u/f%u", folder, i % 10, i);
		int n = snprintf(text, sizeof(text), "%u", i);
		CHECK_OK(cb_write_file(t, path, text, (size_t)n, &CB_WITH(cb_write_options, .parents = true), &err));
	}
	(void)must_commit(t);
}

static cb_code count_entry(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)path;
	(void)err;
	*(unsigned *)context += info->type == CB_FILE;
	return CB_OK;
}

static unsigned files_below(cb_box *box, const char *folder)
{
	cb_error err = {0};
	unsigned n = 0;
	cb_code code = cb_walk(box, folder, count_entry, &n, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTFOUND, "%s: %s", cb_code_name(code), err.message);
	return n;
}

typedef struct writer {
	unsigned number;
	uint64_t written;
} writer;

static void *write_small(void *context)
{
	writer *w = context;
	cb_error err = {0};
	cb_box *mine = must_open(s, "demo");
	char path[64], text[32];
	while (!atomic_load(&over)) {
		(void)snprintf(path, sizeof(path), "/work/small%u", w->number);
		int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)++w->written);
		CHECK_OK(cb_write_file(mine, path, text, (size_t)n, NULL, &err));
		usleep(300);
	}
	cb_box_close(mine);
	return NULL;
}

static void *look(void *context)
{
	cb_box *mine = must_open(s, "demo");
	while (!atomic_load(&over)) {
		unsigned big = files_below(mine, "/work/big"), copy = files_below(mine, "/work/copy");
		if (big != 0 && big != FILES) test_fail(__FILE__, __LINE__, "a part of /work/big was seen");
		if (copy != 0 && copy != FILES) test_fail(__FILE__, __LINE__, "a part of /work/copy was seen");
	}
	cb_box_close(mine);
	return context;
}

static void begin(bool memory)
{
	cb_error err = {0};
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	atomic_store(&over, false);
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static void beside_writers(bool memory)
{
	cb_error err = {0};
	begin(memory);
	fill(b, "/work/big");
	pthread_t threads[WRITERS + 1];
	writer writers[WRITERS] = {{0}};
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i].number = i;
		CHECK(pthread_create(&threads[i], NULL, write_small, &writers[i]) == 0);
	}
	CHECK(pthread_create(&threads[WRITERS], NULL, look, NULL) == 0);
	for (unsigned round = 0; round < test_dose(3); round++) {
		CHECK_OK(cb_copy(b, "/work/big", "/work/copy", 0, &err));
		CHECK_U64(files_below(b, "/work/copy"), FILES);
		CHECK_OK(cb_remove(b, "/work/big", &err));
		CHECK_U64(files_below(b, "/work/big"), 0);
		uint64_t seq = cb_box_step(b);
		CHECK_OK(cb_undo(b, seq, NULL, &err));
		CHECK_U64(files_below(b, "/work/big"), FILES);
		/* A transaction over a state that others leave behind at once. */
		cb_box *t = must_begin(b);
		CHECK_OK(cb_remove(t, "/work/copy", &err));
		char text[32];
		int n = snprintf(text, sizeof(text), "%u", round);
		CHECK_OK(cb_write_file(t, "/work/round", text, (size_t)n, NULL, &err));
		(void)must_commit(t);
		CHECK_U64(files_below(b, "/work/copy"), 0);
		CHECK_STR(must_read(b, "/work/round"), text);
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < WRITERS + 1; i++) CHECK(pthread_join(threads[i], NULL) == 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		char path[64], text[32];
		(void)snprintf(path, sizeof(path), "/work/small%u", i);
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)writers[i].written);
		CHECK_STR(must_read(b, path), text);
	}
	CHECK_STR(must_read(b, "/work/big/7/f7"), "7");
	CHECK_OK(cb_store_gc(s, NULL, &err));
	end();
}

TEST_LIMIT(large_calls_beside_writers, 240)
{
	beside_writers(false);
}

TEST_LIMIT(large_calls_beside_writers_in_memory, 240)
{
	beside_writers(true);
}

/* What was written ahead by a process that died is nobody's, and gc takes it. */
TEST_LIMIT(killed_in_the_middle, 240)
{
	cb_error err = {0};
	test_rng rng = {test_seed()};
	begin(false);
	fill(b, "/work/big");
	cb_store_stats before = CB_INIT(cb_store_stats), after = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_store_stats_get(s, &before, &err));
	for (unsigned round = 0; round < test_dose(6); round++) {
		pid_t child = fork();
		if (child == 0) {
			cb_store *mine = test_store_reopen();
			cb_box *box = must_open(mine, "demo");
			if (cb_copy(box, "/work/big", "/work/copy", 0, &err) != CB_OK) _exit(1);
			_exit(0);
		}
		usleep((useconds_t)test_rand_below(&rng, 40000));
		(void)kill(child, SIGKILL);
		int status = 0;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
		unsigned n = files_below(b, "/work/copy");
		CHECK(n == 0 || n == FILES);
		if (n) CHECK_OK(cb_remove(b, "/work/copy", &err));
	}
	/* Steps that were made keep their states: only what no step knows must be gone. */
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_store_stats_get(s, &after, &err));
	CHECK_MSG(after.nodes <= before.nodes + before.nodes / 2 + 8, "%llu nodes were %llu", (unsigned long long)after.nodes,
	          (unsigned long long)before.nodes);
	end();
}
