/*
 * test_watch_forks.c: fork() in a function that a long call calls back. The child's copy of the call ends with CB_FORKED and touches
 * nothing of the parent's (a stream, a draft, a temporary folder), whatever it answers; the parent's goes on as if nothing had happened.
 */
#include "harness/transfers.h"

#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 300, FILE_BYTES = 200000 };

static unsigned calls, forks_at;
static bool child_stops, is_child;
static pid_t child;

static bool fork_once(void *context, const cb_progress *p)
{
	(void)context;
	(void)p;
	if (++calls != forks_at) return true;
	child = fork();
	CHECK(child >= 0);
	is_child = child == 0;
	if (!is_child) {
		int status = 1;
		CHECK(waitpid(child, &status, 0) == child); /* first the child does what it does */
		CHECK_MSG(status == 0, "the child ended with %d", status);
	}
	return !(is_child && child_stops);
}

TEST_LIMIT(a_progress_function_forks, 120)
{
	transfer_world w;
	transfer_world_open(&w, FILES, FILE_BYTES);
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .progress = fork_once);
	w.watch = &watch;
	for (size_t i = 0; i < transfer_count; i++) {
		for (unsigned round = 0; round < 4; round++) {
			const transfer *t = &transfers[i];
			cb_error err = {0};
			calls = 0;
			child = -1;
			forks_at = round & 1 ? 3 : 1;
			child_stops = round & 2;
			cb_code code = t->run(&w, &err);
			if (is_child)
				_exit(code == CB_FORKED && err.code == code && !strchr(err.message, '\n') ? 0
				                                                                          : 10 + (code != CB_OK));
			CHECK_MSG(child > 0, "%s: progress() was called %u times only", t->name, calls);
			CHECK_MSG(code == CB_OK, "%s, round %u: %s (%s)", t->name, round, cb_code_name(code), err.message);
			t->check(&w);
		}
	}
	transfer_world_close(&w);
}
