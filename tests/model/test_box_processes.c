/*
 * test_box_processes.c: several processes on one store: each opening it for itself, or going on with a store and boxes inherited over
 * fork(). What was acknowledged to any of them is there at the end, also when one of them is killed.
 */
#include "harness/model_workers.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void await_all(const pid_t *pids, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		int status = 0;
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_MSG(status == 0, "worker %u ended with status %x", i, (unsigned)status);
	}
}

TEST_LIMIT(each_opens_the_store, 60)
{
	enum { WORKERS = 4 };
	uint64_t seed = test_seed();
	model_ledger *all = model_ledgers_map();
	cb_store *s = test_store_open(false);
	model_workers_prepare(s, WORKERS);
	cb_store_close(s);
	pid_t pids[WORKERS];
	for (unsigned i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] != 0) continue;
		for (unsigned part = 0; part < test_dose(2); part++) { /* closed and opened again in between */
			cb_store *mine = test_store_reopen();
			model_worker_run(mine, i, seed + part, 100, &all[i]);
			cb_store_close(mine);
		}
		_exit(0);
	}
	await_all(pids, WORKERS);
	s = test_store_reopen();
	model_workers_judge(s, WORKERS, all);
	cb_store_close(s);
}

/* The parent's handles are in use when it forks, and all go on with them. */
TEST_LIMIT(store_inherited_over_fork, 60)
{
	enum { WORKERS = 4 };
	cb_error err = {0};
	uint64_t seed = test_seed();
	model_ledger *all = model_ledgers_map();
	cb_store *s = test_store_open(false);
	model_workers_prepare(s, WORKERS);
	cb_box *b = must_open(s, "shared");
	must_write(b, "/work/before", "before");
	model_worker_run(s, 0, seed, 20, &all[0]);
	pid_t pids[WORKERS] = {0};
	for (unsigned i = 1; i < WORKERS; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] != 0) continue;
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/child%u", i);
		must_write(b, path, path); /* through the inherited handle */
		model_worker_run(s, i, seed, test_dose(150), &all[i]);
		must_write(b, path, "done");
		cb_box_close(b);
		cb_store_close(s);
		_exit(0);
	}
	model_worker_run(s, 0, seed + 1, test_dose(150), &all[0]);
	must_write(b, "/work/parent", "done");
	await_all(pids + 1, WORKERS - 1);
	for (unsigned i = 1; i < WORKERS; i++) {
		char path[64], *text = NULL;
		(void)snprintf(path, sizeof(path), "/work/child%u", i);
		CHECK_OK(cb_read_file(b, path, &text, NULL, &err));
		CHECK_STR(text, "done");
		cb_free(text);
	}
	model_workers_judge(s, WORKERS, all);
	cb_box_close(b);
	cb_store_close(s);
}

/* A transaction that was open at the fork is the parent's: the child's attempts fail, and the parent commits as if nothing had been. */
TEST(open_transaction_stays_the_parents)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *t = must_begin(b);
	must_write(t, "/work/a", "parent");
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		cb_commit_result r = CB_INIT(cb_commit_result);
		CHECK_CODE(cb_txn_commit(t, NULL, &r, &err), CB_FORKED);
		_exit(0);
	}
	await_all(&pid, 1);
	(void)must_commit(t);
	CHECK_U64(must_seq(b), 1);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* Workers are killed at any moment; what they noted as acknowledged before is there. */
TEST_LIMIT(killed_workers, 60)
{
	enum { WORKERS = 3 };
	test_rng rng = {test_seed()};
	model_ledger *all = model_ledgers_map();
	cb_store *s = test_store_open(false);
	model_workers_prepare(s, WORKERS);
	for (unsigned round = 0; round < test_dose(6); round++) {
		pid_t pids[WORKERS];
		for (unsigned i = 0; i < WORKERS; i++) {
			pids[i] = fork();
			CHECK(pids[i] >= 0);
			if (pids[i] != 0) continue;
			cb_store *mine = test_store_reopen();
			model_worker_run(mine, i, test_rand(&rng) + i, 500, &all[i]);
			(void)pause();
			_exit(0);
		}
		(void)usleep((useconds_t)(20000 + test_rand_below(&rng, 150000)));
		for (unsigned i = 0; i < WORKERS; i++) {
			(void)kill(pids[i], SIGKILL);
			CHECK(waitpid(pids[i], NULL, 0) == pids[i]);
		}
		test_store_sound(s);
		model_workers_settle(s, WORKERS, all);
	}
	model_workers_judge(s, WORKERS, all);
	cb_store_close(s);
}
