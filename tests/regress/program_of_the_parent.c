/*
 * A child of fork() that closed, pumped or waited on its copy of a command took the answers of the parent's holder off the socket that
 * both have: the parent's cb_exec_wait never returned. In a child the sandbox and its commands are the parent's: calls are CB_FORKED, and
 * closing frees the child's copies. And with a child that lives on, a stream that the program closed woke the parent again and again.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

static cb_store *store;
static cb_box *box;
static cb_sandbox *sandbox;

static cb_exec *start(const char *text)
{
	cb_error err = {0};
	cb_exec *e = NULL;
	const char *const argv[] = {"sh", "-c", text};
	cb_code code =
		cb_exec_start(sandbox, &CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_PIPE), &e, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "starting: %s (%s)", cb_code_name(code), err.message);
	return e;
}

static cb_code no_change(void *context, const cb_change *change, cb_error *err)
{
	(void)context;
	(void)change;
	(void)err;
	return CB_OK;
}

static void in_child(void (*run)(cb_exec *e), cb_exec *e)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		(void)alarm(20);
		run(e);
		_exit(0);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_MSG(status == 0, "the child ended with %d", status);
}

static void every_call(cb_exec *e)
{
	cb_error err = {0};
	bool done = false;
	size_t taken = 0;
	const cb_exec_result *r = NULL;
	cb_cursor *c = NULL;
	cb_exec *other = NULL;
	const char *const argv[] = {"true"};
	CHECK(cb_exec_fd(e) == -1);
	CHECK_CODE(cb_exec_pump(e, &done, &err), CB_FORKED);
	CHECK_CODE(cb_exec_wait(e, &r, &err), CB_FORKED);
	CHECK_CODE(cb_exec_kill(e, SIGKILL, &err), CB_FORKED);
	CHECK_CODE(cb_exec_tick(e, &err), CB_FORKED);
	CHECK_CODE(cb_exec_resize(e, 10, 10, &err), CB_FORKED);
	CHECK_CODE(cb_exec_input(e, "x", 1, &taken, &err), CB_FORKED);
	CHECK_CODE(cb_exec_changes(e, no_change, NULL, &err), CB_FORKED);
	CHECK_CODE(cb_exec_changes_open(e, &c, &err), CB_FORKED);
	CHECK_CODE(cb_exec_start(sandbox, &CB_WITH(cb_exec_options, .argv = argv, .argc = 1, .stdin_fd = -1), &other, &err),
	           CB_FORKED);
	CHECK(strstr(err.message, "parent"));
}

static void close_all(cb_exec *e)
{
	cb_exec_close(e);
	cb_sandbox_close(sandbox);
	cb_box_close(box);
	cb_store_close(store);
}

static void close_all_upwards(cb_exec *e)
{
	cb_store_close(store);
	cb_box_close(box);
	cb_sandbox_close(sandbox);
	cb_exec_close(e);
}

static void run_of_its_own(cb_exec *e)
{
	cb_error err = {0};
	cb_sandbox *inherited = sandbox;
	const cb_exec_result *r = NULL;
	size_t taken = 0;
	CHECK_OK(cb_sandbox_open(box, NULL, &sandbox, &err));
	cb_exec *own = start("read x; echo $x >by-child");
	CHECK_OK(cb_exec_input(own, "c\n", 2, &taken, &err));
	CHECK_OK(cb_exec_wait(own, &r, &err));
	cb_exec_close(own);
	cb_sandbox_close(sandbox);
	cb_exec_close(e);
	cb_sandbox_close(inherited);
}

static void beside(bool memory, void (*run)(cb_exec *e))
{
	cb_error err = {0};
	const cb_exec_result *r = NULL;
	size_t taken = 0;
	store = test_store_open(memory);
	CHECK_OK(cb_box_create(store, "demo", &box, &err));
	CHECK_OK(cb_sandbox_open(box, NULL, &sandbox, &err));
	cb_exec *idle = start("true");
	CHECK_OK(cb_exec_wait(idle, &r, &err));
	cb_exec_close(idle); /* one that waits in the pool */
	cb_exec *e = start("read x; echo $x >e; echo out");
	cb_exec *other = start("read x; echo other >o");
	in_child(run, e);
	CHECK_OK(cb_exec_input(e, "in\n", 3, &taken, &err));
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 20000), &err));
	CHECK_OK(cb_exec_wait(e, &r, &err));
	cb_limit_pop();
	CHECK(r->end == CB_END_EXIT && r->exit_code == 0 && r->step > 0);
	CHECK_STR(r->out, "out\n");
	cb_exec_close(e);
	CHECK_STR(must_read(box, "/work/e"), "in\n");
	CHECK_OK(cb_exec_input(other, "\n", 1, &taken, &err));
	CHECK_OK(cb_exec_wait(other, &r, &err));
	cb_exec_close(other);
	cb_exec *again = start("test -e e && test -e o");
	CHECK_OK(cb_exec_wait(again, &r, &err));
	CHECK(r->exit_code == 0);
	cb_exec_close(again);
	cb_sandbox_close(sandbox);
	cb_box_close(box);
	test_store_sound(store);
	cb_store_close(store);
}

TEST(every_call_is_forked)
{
	beside(false, every_call);
}

TEST(a_child_closes_its_copies)
{
	beside(false, close_all);
}

TEST(a_child_closes_its_copies_in_another_order)
{
	beside(false, close_all_upwards);
}

TEST(a_child_closes_its_copies_of_a_store_in_memory)
{
	beside(true, close_all);
}

TEST(a_child_runs_programs_of_its_own)
{
	beside(false, run_of_its_own);
}

/* The child has copies of all pipes and does nothing. */
TEST(a_closed_stream_does_not_keep_the_parent_busy)
{
	cb_error err = {0};
	const cb_exec_result *r = NULL;
	struct rusage before, after;
	int hold[2];
	store = test_store_open(false);
	CHECK_OK(cb_box_create(store, "demo", &box, &err));
	CHECK_OK(cb_sandbox_open(box, NULL, &sandbox, &err));
	cb_exec *e = start("exec >&- 2>&- <&-; sleep 1");
	CHECK(pipe(hold) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		(void)close(hold[1]);
		(void)!read(hold[0], &byte, 1);
		_exit(0);
	}
	CHECK(getrusage(RUSAGE_SELF, &before) == 0);
	CHECK_OK(cb_exec_wait(e, &r, &err));
	CHECK(getrusage(RUSAGE_SELF, &after) == 0);
	CHECK(close(hold[1]) == 0 && waitpid(child, NULL, 0) == child);
	long ms = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000 +
	          (after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1000;
	CHECK_MSG(ms < 300, "waiting took %ld ms of the processor", ms);
	cb_exec_close(e);
	cb_sandbox_close(sandbox);
	cb_box_close(box);
	cb_store_close(store);
}
