/*
 * test_cancel_exec.c: programs, and calls that their limit ends: a start that has run nothing, a wait that leaves the program running, a
 * capture that is made again.
 */
#include <signal.h>
#include <unistd.h>

#include <cowbox/exec.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "harness/boxes.h"

static cb_store *s;
static cb_box *b;
static cb_sandbox *sandbox;
static cb_cancel *token;
static cb_error err;

static void begin(bool memory, const cb_sandbox_options *options)
{
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
	CHECK_OK(cb_cancel_create(&token, &err));
	CHECK_OK(cb_sandbox_open(b, options, &sandbox, &err));
}

static void end(void)
{
	cb_sandbox_close(sandbox);
	cb_cancel_free(token);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static cb_code start(const char *script, cb_exec **out, cb_error *e)
{
	const char *argv[] = {"sh", "-c", script};
	cb_exec_options options = CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_NONE);
	cb_code code = cb_exec_start(sandbox, &options, out, e);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", e->message);
	return code;
}

static cb_exec *must_start(const char *script)
{
	cb_exec *e = NULL;
	CHECK_OK(start(script, &e, &err));
	return e;
}

static const cb_exec_result *must_wait(cb_exec *e)
{
	const cb_exec_result *r = NULL;
	CHECK_OK(cb_exec_wait(e, &r, &err));
	return r;
}

TEST_BOTH(a_wait_that_is_ended_leaves_the_program_running)
{
	begin(memory, NULL);
	cb_error why = {0};
	const cb_exec_result *r = NULL;
	cb_exec *e = must_start("sleep 0.4; echo done; echo two > b");
	limit_push(30, NULL);
	CHECK_CODE(cb_exec_wait(e, &r, &why), CB_TIMEOUT);
	cb_limit_pop();
	CHECK_MSG(strstr(why.message, "for the program, which goes on"), "%s", why.message);
	cb_cancel_fire(token);
	limit_push(0, token);
	CHECK_CODE(cb_exec_wait(e, &r, &why), CB_CANCELLED);
	cb_limit_pop();
	CHECK(!exists(b, "/work/b"));
	r = must_wait(e);
	CHECK(r->end == CB_END_EXIT && r->exit_code == 0);
	CHECK_STR(r->out, "done\n");
	/* It is over: nothing is left that a limit could end. */
	limit_push(0, token);
	CHECK_OK(cb_exec_wait(e, &r, &err));
	cb_limit_pop();
	cb_exec_close(e);
	CHECK_STR(must_read(b, "/work/b"), "two\n");
	end();
}

/* Or it is killed, or closed, by whoever gave up. */
TEST_BOTH(a_program_that_nobody_waits_for_any_more)
{
	begin(memory, NULL);
	cb_error why = {0};
	const cb_exec_result *r = NULL;
	cb_exec *e = must_start("echo two > b; sleep 1000");
	limit_push(30, NULL);
	CHECK_CODE(cb_exec_wait(e, &r, &why), CB_TIMEOUT);
	cb_limit_pop();
	CHECK_OK(cb_exec_kill(e, SIGKILL, &err));
	CHECK(must_wait(e)->end == CB_END_KILLED);
	cb_exec_close(e);
	CHECK(exists(b, "/work/b"));
	e = must_start("echo three > c; sleep 1000");
	limit_push(30, NULL);
	CHECK_CODE(cb_exec_wait(e, &r, &why), CB_TIMEOUT);
	cb_exec_close(e); /* under a limit that is over */
	cb_limit_pop();
	CHECK(!exists(b, "/work/c"));
	end();
}

static const char *const work = "i=0; while [ $i -lt 300 ]; do echo $i > f$i; i=$((i+1)); done; rm a";

static void must_be_whole(void)
{
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK(exists(b, "/work/f0") && exists(b, "/work/f299") && !exists(b, "/work/a"));
	CHECK_STR(must_read(b, "/work/f77"), "77\n");
}

/* Ended at one look after another while it takes what the program did into the box. */
static void captures(bool memory, bool discard)
{
	begin(memory, &CB_WITH(cb_sandbox_options, .discard = discard));
	bool reached = true;
	unsigned ended = 0;
	for (long n = 1; reached && n < 100000; n += n < 4 ? 1 : n / 3) {
		cb_error why = {0};
		const cb_exec_result *r = NULL;
		uint64_t before = must_seq(b);
		must_write(b, "/work/a", "one\n");
		cb_exec *e = must_start(work);
		for (bool done = false; !done; (void)usleep(500)) CHECK_OK(cb_exec_pump(e, &done, &err));
		cancel_fire_at_look(token, n);
		limit_push(0, token);
		cb_code code = cb_exec_wait(e, &r, &why);
		cb_limit_pop();
		reached = cb_cancel_is_fired(token);
		CHECK_MSG(code == CB_OK || code == CB_CANCELLED, "look %ld: %s (%s)", n, cb_code_name(code), why.message);
		if (code == CB_CANCELLED) {
			ended++;
			CHECK(exists(b, "/work/a"));
			/* Every other time with a second try that is ended soon. */
			cancel_fire_at_look(token, 3);
			limit_push(0, token);
			if (n % 2) CHECK_CODE(cb_exec_wait(e, &r, &why), CB_CANCELLED);
			cb_limit_pop();
			cb_cancel_reset(token);
			r = must_wait(e);
		}
		CHECK_U64(r->changed, 301);
		CHECK(r->exit_code == 0);
		if (discard) CHECK(exists(b, "/work/a") && !exists(b, "/work/f0"));
		else CHECK_U64(r->step, before + 2);
		if (!discard) must_be_whole();
		cb_exec_close(e);
		if (!discard) CHECK_OK(cb_undo(b, 0, NULL, &err)); /* so that there is as much to do again */
	}
	CHECK(ended > 3);
	end();
}

TEST_LIMIT(a_capture_that_is_ended_is_made_again_disk, 120)
{
	captures(false, false);
}

TEST_LIMIT(a_capture_that_is_ended_is_made_again_memory, 120)
{
	captures(true, false);
}

TEST_LIMIT(a_capture_that_is_ended_is_made_again_discard, 120)
{
	captures(false, true);
}

/* What a cancelled capture left is dropped with the command. */
TEST_BOTH(a_capture_that_is_given_up)
{
	begin(memory, NULL);
	cb_error why = {0};
	const cb_exec_result *r = NULL;
	cb_exec *e = must_start(work);
	for (bool done = false; !done; (void)usleep(500)) CHECK_OK(cb_exec_pump(e, &done, &err));
	cancel_fire_at_look(token, 200);
	limit_push(0, token);
	CHECK_CODE(cb_exec_wait(e, &r, &why), CB_CANCELLED);
	cb_exec_close(e);
	cb_limit_pop();
	uint64_t recovered = 0;
	CHECK_OK(cb_exec_recover(s, NULL, &recovered, &err));
	CHECK_U64(recovered, 0);
	CHECK(!exists(b, "/work/f0"));
	/* The sandbox works. */
	e = must_start(work);
	CHECK(must_wait(e)->exit_code == 0);
	cb_exec_close(e);
	must_be_whole();
	end();
}

static void must_work(void)
{
	cb_exec *e = must_start("cat a; echo new > n");
	const cb_exec_result *r = must_wait(e);
	CHECK_STR(r->out, "one\n");
	cb_exec_close(e);
	CHECK_STR(must_read(b, "/work/n"), "new\n");
	CHECK_OK(cb_remove(b, "/work/n", &err));
}

/* A start, ended at one look after another: nothing has run, nothing is left to be recovered, the next one works. */
TEST_LIMIT(a_start_that_is_ended_has_run_nothing, 120)
{
	begin(false, NULL);
	bool reached = true;
	unsigned ended = 0;
	for (long n = 1; reached && n < 10000; n += 1 + n / 8) {
		cb_error why = {0};
		cb_exec *e = NULL;
		if (n % 3 == 0) { /* with a new holder, and something to bring */
			cb_sandbox_close(sandbox);
			must_write(b, "/work/z", n % 2 ? "1" : "2");
			CHECK_OK(cb_sandbox_open(b, NULL, &sandbox, &err));
		}
		uint64_t before = must_seq(b);
		cancel_fire_at_look(token, n);
		limit_push(0, token);
		cb_code code = start("echo ran > ran", &e, &why);
		cb_limit_pop();
		reached = cb_cancel_is_fired(token);
		cb_cancel_reset(token);
		CHECK_MSG(code == CB_OK || code == CB_CANCELLED, "look %ld: %s (%s)", n, cb_code_name(code), why.message);
		if (code == CB_CANCELLED) {
			ended++;
			uint64_t recovered = 0;
			CHECK_OK(cb_exec_recover(s, NULL, &recovered, &err));
			CHECK_U64(recovered, 0);
			CHECK_U64(must_seq(b), before);
			CHECK(!exists(b, "/work/ran"));
		}
		cb_exec_close(e);
		must_work();
	}
	CHECK(ended > 3);
	end();
}
