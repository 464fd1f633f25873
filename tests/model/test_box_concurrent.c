/* test_box_concurrent.c: several threads on one store, each through handles of its own, and several threads through one handle. */
#include "harness/model_workers.h"

#include <pthread.h>

enum { WORKERS = 4 };

typedef struct thread_job {
	cb_store *s;
	unsigned number, rounds;
	uint64_t seed;
	model_ledger *l;
	cb_box *b;
} thread_job;

static void *work(void *context)
{
	const thread_job *j = context;
	model_worker_run(j->s, j->number, j->seed, j->rounds, j->l);
	return NULL;
}

static void run_threads(void *(*body)(void *), thread_job jobs[WORKERS])
{
	pthread_t threads[WORKERS];
	for (unsigned i = 0; i < WORKERS; i++) CHECK(pthread_create(&threads[i], NULL, body, &jobs[i]) == 0);
	for (unsigned i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

TEST_BOTH(handles_of_their_own)
{
	uint64_t seed = test_seed();
	static model_ledger all[MODEL_WORKERS];
	cb_store *s = test_store_open(memory);
	model_workers_prepare(s, WORKERS);
	thread_job jobs[WORKERS];
	for (unsigned i = 0; i < WORKERS; i++) jobs[i] = (thread_job){s, i, 60 * test_soak(), seed, &all[i], NULL};
	run_threads(work, jobs);
	model_workers_judge(s, WORKERS, all);
	cb_store_close(s);
}

/* Calls on one handle are serialised; none is lost. */
static void *share(void *context)
{
	const thread_job *j = context;
	cb_error err = {0};
	for (unsigned i = 0; i < j->rounds; i++) {
		char path[64], *text = NULL;
		(void)snprintf(path, sizeof(path), "/work/%u-%u", j->number, i);
		CHECK_OK(cb_write_file(j->b, path, path, strlen(path), NULL, &err));
		CHECK_OK(cb_read_file(j->b, path, &text, NULL, &err));
		CHECK_STR(text, path);
		cb_free(text);
		if (i % 3 == 2) CHECK_OK(cb_unlink(j->b, path, &err));
	}
	return NULL;
}

TEST_BOTH(one_handle)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	thread_job jobs[WORKERS];
	for (unsigned i = 0; i < WORKERS; i++) jobs[i] = (thread_job){s, i, 40 * test_soak(), 0, NULL, b};
	run_threads(share, jobs);
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	unsigned rounds = 40 * test_soak();
	CHECK_U64(info.seq, (uint64_t)WORKERS * (rounds + rounds / 3));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
