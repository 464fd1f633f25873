/* test_exec_threads.c: one sandbox, several threads: commands at once, kills from elsewhere, nothing lost. */
#include <pthread.h>
#include <signal.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"
#include "harness/harness.h"

enum { THREADS = 4, ROUNDS = 6 };

typedef struct worker {
	cb_sandbox *sandbox;
	int number;
	pthread_t thread;
} worker;

static const cb_exec_result *run(cb_sandbox *sandbox, const char *text, cb_exec **out)
{
	cb_error err = {0};
	const char *const argv[] = {"sh", "-c", text};
	cb_exec_options o = CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_NONE);
	const cb_exec_result *r = NULL;
	cb_code code = cb_exec_start(sandbox, &o, out, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "starting: %s", err.message);
	CHECK_OK(cb_exec_wait(*out, &r, &err));
	return r;
}

static void *work(void *context)
{
	const worker *w = context;
	for (int i = 0; i < ROUNDS; i++) {
		char text[128];
		cb_exec *e = NULL;
		(void)snprintf(text, sizeof(text), "echo %d >t%d-%d; cat t%d-%d", i, w->number, i, w->number, i);
		const cb_exec_result *r = run(w->sandbox, text, &e);
		CHECK(r->exit_code == 0 && r->out[0] == '0' + i);
		cb_exec_close(e);
	}
	return NULL;
}

TEST_LIMIT(commands_at_once_from_several_threads, 120)
{
	cb_error err = {0};
	cb_store *store = test_store_open(false);
	cb_box *box = NULL;
	cb_sandbox *sandbox = NULL;
	worker workers[THREADS];
	CHECK_OK(cb_box_create(store, "demo", &box, &err));
	CHECK_OK(cb_sandbox_open(box, NULL, &sandbox, &err));
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (worker){.sandbox = sandbox, .number = i};
		CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) CHECK(pthread_join(workers[i].thread, NULL) == 0);
	for (int i = 0; i < THREADS; i++) {
		for (int k = 0; k < ROUNDS; k++) {
			char path[64];
			(void)snprintf(path, sizeof(path), "/work/t%d-%d", i, k);
			CHECK_MSG(exists(box, path), "%s is lost", path);
		}
	}
	cb_sandbox_close(sandbox);
	cb_box_close(box);
	test_store_sound(store);
	cb_store_close(store);
}

static void *kill_it(void *context)
{
	cb_error err = {0};
	for (int i = 0; i < 5; i++) CHECK_OK(cb_exec_tick(context, &err));
	CHECK_OK(cb_exec_kill(context, SIGTERM, &err));
	CHECK_OK(cb_exec_kill(context, SIGKILL, &err));
	return NULL;
}

TEST(a_kill_from_another_thread)
{
	cb_error err = {0};
	cb_store *store = test_store_open(false);
	cb_box *box = NULL;
	cb_sandbox *sandbox = NULL;
	CHECK_OK(cb_box_create(store, "demo", &box, &err));
	CHECK_OK(cb_sandbox_open(box, NULL, &sandbox, &err));
	for (int i = 0; i < 4; i++) {
		static const char *const argv[] = {"sleep", "1000"};
		cb_exec_options o = CB_WITH(cb_exec_options, .argv = argv, .argc = 2, .stdin_fd = CB_STDIN_NONE,
		                            .timeout_ns = INT64_C(3600000000000));
		const cb_exec_result *r = NULL;
		cb_exec *e = NULL;
		pthread_t thread;
		cb_code code = cb_exec_start(sandbox, &o, &e, &err);
		if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
		CHECK_MSG(code == CB_OK, "starting: %s", err.message);
		CHECK(pthread_create(&thread, NULL, kill_it, e) == 0);
		CHECK_OK(cb_exec_wait(e, &r, &err));
		CHECK(pthread_join(thread, NULL) == 0);
		CHECK(r->signal == SIGTERM || r->signal == SIGKILL);
		cb_exec_close(e);
	}
	cb_sandbox_close(sandbox);
	cb_box_close(box);
	test_store_sound(store);
	cb_store_close(store);
}
