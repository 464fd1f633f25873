/* test_exec.c: programs in a box through the library: ends, streams, input, bounds, what changed, the loop of a caller's own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"
#include "harness/harness.h"

typedef struct world {
	cb_store *store;
	cb_box *box;
	cb_sandbox *sandbox;
} world;

static world world_open(const cb_sandbox_options *options)
{
	cb_error err = {0};
	world w = {.store = test_store_open(false)};
	CHECK_OK(cb_box_create(w.store, "demo", &w.box, &err));
	must_write(w.box, "/work/a", "one\n");
	CHECK_OK(cb_sandbox_open(w.box, options, &w.sandbox, &err));
	return w;
}

static void world_close(world *w)
{
	cb_sandbox_close(w->sandbox);
	cb_box_close(w->box);
	test_store_sound(w->store);
	cb_store_close(w->store);
}

static cb_exec_options script(const char *const argv[3])
{
	return CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_NONE);
}
#define SCRIPT(text) script((const char *const[]){"sh", "-c", text})

static cb_exec *start(const world *w, cb_exec_options options)
{
	cb_error err = {0};
	cb_exec *e = NULL;
	cb_code code = cb_exec_start(w->sandbox, &options, &e, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "starting: %s (%s)", cb_code_name(code), err.message);
	return e;
}

static const cb_exec_result *finish(cb_exec *e)
{
	cb_error err = {0};
	const cb_exec_result *r = NULL;
	CHECK_OK(cb_exec_wait(e, &r, &err));
	return r;
}

static int status_of(const world *w, const char *text)
{
	cb_exec *e = start(w, SCRIPT(text));
	int status = finish(e)->exit_code;
	cb_exec_close(e);
	return status;
}

TEST(a_program_runs_and_its_changes_are_a_step)
{
	world w = world_open(NULL);
	uint64_t before = must_seq(w.box);
	cb_exec *e = start(&w, SCRIPT("cat a; echo two >b; echo told >&2; exit 3"));
	const cb_exec_result *r = finish(e);
	CHECK(r->end == CB_END_EXIT && r->exit_code == 3 && r->signal == 0);
	CHECK_STR(r->out, "one\n");
	CHECK_STR(r->err, "told\n");
	CHECK_U64(r->step, before + 1);
	CHECK_U64(r->changed, 1);
	CHECK(r->duration_ns > 0 && r->peak_memory_bytes > 0);
	CHECK(r->tier == CB_TIER_OVERLAY || r->tier == CB_TIER_FOLDER);
	cb_exec_close(e);
	CHECK_STR(must_read(w.box, "/work/b"), "two\n");
	world_close(&w);
}

TEST(ends_of_every_kind)
{
	world w = world_open(NULL);
	static const char *const missing[] = {"no-such-program"}, *const folder[] = {"/work"};
	CHECK(status_of(&w, "exit 0") == 0);
	CHECK(status_of(&w, "kill -9 $$") == 137);
	cb_exec *e = start(&w, CB_WITH(cb_exec_options, .argv = missing, .argc = 1, .stdin_fd = -1));
	const cb_exec_result *r = finish(e);
	CHECK(r->end == CB_END_NOT_FOUND && r->exit_code == 127 && r->step > 0);
	cb_exec_close(e);
	e = start(&w, CB_WITH(cb_exec_options, .argv = folder, .argc = 1, .stdin_fd = -1));
	r = finish(e);
	CHECK(r->end == CB_END_NOT_RUN && r->exit_code == 126);
	cb_exec_close(e);
	cb_exec_options o = SCRIPT("trap '' TERM; while :; do sleep 0.1; done");
	o.timeout_ns = 200000000;
	o.grace_ns = 200000000;
	e = start(&w, o);
	r = finish(e);
	CHECK(r->end == CB_END_TIMEOUT && r->signal == SIGKILL && r->exit_code == 137);
	cb_exec_close(e);
	world_close(&w);
}

TEST(calls_that_are_wrong_are_told)
{
	world w = world_open(NULL);
	cb_error err = {0};
	cb_exec *e = NULL;
	static const char *const argv[] = {"true"}, *const bad_env[] = {"NO_VALUE"};
	CHECK_CODE(cb_exec_start(w.sandbox, &CB_WITH(cb_exec_options, .stdin_fd = -1), &e, &err), CB_INVALID);
	cb_exec_options o = CB_WITH(cb_exec_options, .argv = argv, .argc = 1, .stdin_fd = -1, .cwd = "relative");
	CHECK_CODE(cb_exec_start(w.sandbox, &o, &e, &err), CB_INVALID);
	o = CB_WITH(cb_exec_options, .argv = argv, .argc = 1, .stdin_fd = -1, .env = bad_env, .env_count = 1);
	CHECK_CODE(cb_exec_start(w.sandbox, &o, &e, &err), CB_INVALID);
	cb_sandbox *s = NULL;
	cb_bind bind = {.host_path = "/no/such/place"};
	CHECK_CODE(cb_sandbox_open(w.box, &CB_WITH(cb_sandbox_options, .binds = &bind, .bind_count = 1), &s, &err), CB_NOTFOUND);
	bind = (cb_bind){.host_path = "/tmp", .box_path = "/proc/x"};
	CHECK_CODE(cb_sandbox_open(w.box, &CB_WITH(cb_sandbox_options, .binds = &bind, .bind_count = 1), &s, &err), CB_INVALID);
	cb_box *old = must_open(w.store, "demo@1");
	CHECK_CODE(cb_sandbox_open(old, NULL, &s, &err), CB_READONLY);
	cb_box_close(old);
	world_close(&w);
}

typedef struct seen {
	char out[4096], err[4096];
	size_t out_size, err_size, stop_after;
} seen;

static bool see(void *context, cb_stream from, const void *bytes, size_t size)
{
	seen *s = context;
	char *to = from == CB_STDERR ? s->err : s->out;
	size_t *at = from == CB_STDERR ? &s->err_size : &s->out_size;
	size_t take = size < 4095 - *at ? size : 4095 - *at;
	memcpy(to + *at, bytes, take);
	*at += take;
	return s->stop_after == 0 || s->out_size < s->stop_after;
}

/* What a step cannot keep is told before anything runs: afterwards it would cost the program's changes. */
TEST(a_description_too_large_is_refused_at_the_start)
{
	enum { MOST = 1 << 20 };
	cb_error err = {0};
	cb_exec *e = NULL;
	world w = world_open(NULL);
	char *large = malloc(MOST + 2);
	CHECK(large != NULL);
	memset(large, 'p', MOST + 1);
	large[MOST + 1] = 0;
	uint64_t before = must_seq(w.box);
	cb_exec_options o = SCRIPT("echo work >precious");
	o.params = large;
	o.params_size = MOST + 1;
	CHECK_CODE(cb_exec_start(w.sandbox, &o, &e, &err), CB_LIMIT);
	o.params_size = CB_STRING;
	CHECK_CODE(cb_exec_start(w.sandbox, &o, &e, &err), CB_LIMIT);
	o.params = NULL;
	o.params_size = 3;
	CHECK_CODE(cb_exec_start(w.sandbox, &o, &e, &err), CB_INVALID);
	o.params_size = 0;
	o.kind = large;
	CHECK_CODE(cb_exec_start(w.sandbox, &o, &e, &err), CB_LIMIT);
	CHECK_U64(must_seq(w.box), before);
	large[MOST] = 0; /* as much as there may be */
	o.params = large;
	o.params_size = MOST;
	e = start(&w, o);
	CHECK(finish(e)->step == before + 1);
	cb_exec_close(e);
	CHECK(exists(w.box, "/work/precious"));
	free(large);
	world_close(&w);
}

TEST(output_streams_is_kept_and_cut)
{
	world w = world_open(NULL);
	seen s = {0};
	cb_exec_options o = SCRIPT("printf 0123456789; printf abc >&2");
	o.stream = see;
	o.context = &s;
	o.output_bytes = 4;
	cb_exec *e = start(&w, o);
	const cb_exec_result *r = finish(e);
	CHECK_STR(s.out, "0123456789");
	CHECK_STR(s.err, "abc");
	CHECK_STR(r->out, "0123");
	CHECK(r->out_truncated && r->out_size == 4 && !r->err_truncated);
	CHECK_U64(r->out_bytes, 10);
	cb_exec_close(e);
	o = SCRIPT("echo unkept");
	o.output_bytes = CB_OUTPUT_NONE;
	e = start(&w, o);
	r = finish(e);
	CHECK(r->out_size == 0 && r->out_truncated && r->out_bytes == 7);
	cb_exec_close(e);
	s = (seen){.stop_after = 10};
	o = SCRIPT("echo kept >c; yes");
	o.stream = see;
	o.context = &s;
	e = start(&w, o);
	r = finish(e);
	CHECK(r->end == CB_END_OUTPUT && r->step > 0);
	cb_exec_close(e);
	CHECK_STR(must_read(w.box, "/work/c"), "kept\n");
	world_close(&w);
}

TEST(too_much_output_can_be_refused)
{
	world w = world_open(NULL);
	cb_error err = {0};
	const cb_exec_result *r = NULL;
	cb_exec_options o = SCRIPT("echo dropped >c; yes");
	o.output_bytes = 1000;
	o.reject_output = true;
	cb_exec *e = start(&w, o);
	CHECK_CODE(cb_exec_wait(e, &r, &err), CB_TOOBIG);
	CHECK(r->end == CB_END_OUTPUT && r->step == 0);
	CHECK_CODE(cb_exec_wait(e, &r, &err), CB_TOOBIG);
	cb_exec_close(e);
	CHECK(!exists(w.box, "/work/c"));
	CHECK(status_of(&w, "test ! -e c") == 0);
	world_close(&w);
}

TEST(input_from_a_descriptor)
{
	world w = world_open(NULL);
	char path[4096];
	(void)snprintf(path, sizeof(path), "%s/input", test_tmpdir());
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	for (int i = 0; i < 30000; i++) CHECK(write(fd, "0123456789\n", 11) == 11);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	cb_exec_options o = SCRIPT("wc -c");
	o.stdin_fd = fd;
	cb_exec *e = start(&w, o);
	CHECK(close(fd) == 0); /* it has a copy */
	CHECK_STR(finish(e)->out, "330000\n");
	cb_exec_close(e);
	int ends[2];
	CHECK(pipe(ends) == 0);
	CHECK(write(ends[1], "piped\n", 6) == 6 && close(ends[1]) == 0);
	o = SCRIPT("cat");
	o.stdin_fd = ends[0];
	e = start(&w, o);
	CHECK_STR(finish(e)->out, "piped\n");
	cb_exec_close(e);
	CHECK(close(ends[0]) == 0);
	world_close(&w);
}

/* Steps until something is there to be seen. */
static void step_until(cb_exec *e, const seen *s, const char *text)
{
	cb_error err = {0};
	bool done = false;
	while (!strstr(s->out, text)) {
		struct pollfd p = {cb_exec_fd(e), POLLIN, 0};
		CHECK(!done);
		CHECK(poll(&p, 1, -1) > 0 || errno == EINTR);
		CHECK_OK(cb_exec_pump(e, &done, &err));
	}
}

TEST(a_loop_of_the_callers_own_with_input_by_pieces)
{
	world w = world_open(NULL);
	cb_error err = {0};
	seen s = {0};
	size_t taken = 0;
	cb_exec_options o = SCRIPT("while read line; do echo \"got $line\"; done; echo end");
	o.stdin_fd = CB_STDIN_PIPE;
	o.stream = see;
	o.context = &s;
	cb_exec *e = start(&w, o);
	CHECK_OK(cb_exec_input(e, "one\n", 4, &taken, &err));
	CHECK_U64(taken, 4);
	step_until(e, &s, "got one\n");
	CHECK_OK(cb_exec_input(e, "two\n", 4, &taken, &err));
	step_until(e, &s, "got two\n");
	CHECK_OK(cb_exec_input(e, NULL, 0, &taken, &err));
	step_until(e, &s, "end\n");
	CHECK(finish(e)->exit_code == 0);
	cb_exec_close(e);
	world_close(&w);
}

TEST(a_terminal)
{
	world w = world_open(NULL);
	cb_error err = {0};
	seen s = {0};
	size_t taken = 0;
	cb_exec_options o = SCRIPT("test -t 0 && test -t 1 && test -t 2 && stty size; trap 'stty size' WINCH; echo ready; until "
	                           "read x; do :; done; echo \"[$x]\"");
	o.stdin_fd = CB_STDIN_PIPE;
	o.tty = true;
	o.rows = 11;
	o.columns = 22;
	o.stream = see;
	o.context = &s;
	cb_exec *e = start(&w, o);
	step_until(e, &s, "11 22\r\nready\r\n");
	CHECK_OK(cb_exec_resize(e, 33, 44, &err));
	step_until(e, &s, "33 44\r\n"); /* the signal may end a read */
	CHECK_OK(cb_exec_input(e, "x\n", 2, &taken, &err));
	const cb_exec_result *r = finish(e);
	CHECK_MSG(strstr(s.out, "[x]\r\n"), "%s", s.out);
	CHECK(r->err_size == 0 && r->exit_code == 0);
	cb_exec_close(e);
	world_close(&w);
}

TEST(signals_reach_the_program)
{
	world w = world_open(NULL);
	cb_error err = {0};
	seen s = {0};
	cb_exec_options o = SCRIPT("trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done");
	o.stream = see;
	o.context = &s;
	cb_exec *e = start(&w, o);
	step_until(e, &s, "ready");
	CHECK_OK(cb_exec_tick(e, &err));
	CHECK_OK(cb_exec_kill(e, SIGINT, &err));
	CHECK(finish(e)->exit_code == 9);
	CHECK_OK(cb_exec_kill(e, SIGINT, &err)); /* too late is fine */
	cb_exec_close(e);
	e = start(&w, SCRIPT("echo kept >k; sleep 1000 & sleep 1000"));
	CHECK_OK(cb_exec_kill(e, SIGKILL, &err));
	const cb_exec_result *r = finish(e);
	CHECK(r->end == CB_END_KILLED && r->signal == SIGKILL);
	CHECK_CODE(cb_exec_kill(e, 1000, &err), CB_INVALID);
	CHECK_CODE(cb_exec_kill(e, 0, &err), CB_INVALID);
	cb_exec_close(e);
	world_close(&w);
}

TEST(a_transaction_runs_no_program)
{
	cb_error err = {0};
	cb_sandbox *other = NULL;
	char *plan = NULL;
	world w = world_open(NULL);
	cb_box *txn = must_begin(w.box);
	must_write(txn, "/work/in-txn", "i");
	CHECK_CODE(cb_sandbox_open(txn, NULL, &other, &err), CB_INVALID);
	CHECK_MSG(strstr(err.message, "transaction"), "%s", err.message);
	CHECK_CODE(cb_sandbox_plan(txn, NULL, false, &plan, &err), CB_INVALID);
	CHECK(!other && !plan);
	(void)must_commit(txn);
	CHECK(status_of(&w, "test -e in-txn") == 0);
	world_close(&w);
}

/* Writes through open files end as a step when a command begins, as they do when a transaction does. */
TEST(a_program_sees_what_open_files_wrote)
{
	cb_error err = {0};
	cb_file *f = NULL;
	world w = world_open(NULL);
	CHECK_OK(cb_open(w.box, "/work/of", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "open\n", 5, &err));
	cb_exec *e = start(&w, SCRIPT("cat of; echo more >>of"));
	CHECK_STR(finish(e)->out, "open\n");
	cb_exec_close(e);
	CHECK_STR(must_read(w.box, "/work/of"), "open\nmore\n");
	CHECK_OK(cb_close(f, &err));
	/* The handle may be closed before: there is nothing to end. */
	cb_box_close(w.box);
	CHECK(status_of(&w, "test -s of") == 0);
	w.box = must_open(w.store, "demo");
	world_close(&w);
}

TEST(the_handle_tells_the_step_of_a_program)
{
	world w = world_open(NULL);
	cb_exec *e = start(&w, SCRIPT("echo e >e"));
	CHECK_U64(cb_box_step(w.box), 1); /* not yet */
	CHECK_U64(finish(e)->step, cb_box_step(w.box));
	CHECK_U64(cb_box_step(w.box), must_seq(w.box));
	cb_exec_close(e);
	cb_exec_options o = SCRIPT("echo more >>e; exit 1");
	o.undo_on_fail = true;
	e = start(&w, o);
	CHECK_U64(finish(e)->undo_step, cb_box_step(w.box));
	CHECK_U64(cb_box_step(w.box), must_seq(w.box));
	cb_exec_close(e);
	world_close(&w);
}

/* Nothing of the caller is inherited unless it is said. */
TEST(options_of_zeros_pass_no_input_on)
{
	static const char *const argv[] = {"cat"};
	world w = world_open(NULL);
	int ends[2], was = dup(0);
	CHECK(was >= 0 && pipe(ends) == 0 && write(ends[1], "secret\n", 7) == 7 && close(ends[1]) == 0);
	CHECK(dup2(ends[0], 0) == 0 && close(ends[0]) == 0);
	cb_exec *e = start(&w, CB_WITH(cb_exec_options, .argv = argv, .argc = 1));
	CHECK_STR(finish(e)->out, "");
	cb_exec_close(e);
	e = start(&w, CB_WITH(cb_exec_options, .argv = argv, .argc = 1, .stdin_fd = CB_STDIN_CALLER));
	CHECK_STR(finish(e)->out, "secret\n");
	cb_exec_close(e);
	CHECK(dup2(was, 0) == 0 && close(was) == 0);
	world_close(&w);
}

TEST(closing_a_running_one_drops_it)
{
	world w = world_open(NULL);
	seen s = {0};
	uint64_t before = must_seq(w.box);
	cb_exec_options o = SCRIPT("echo dropped >d; echo ready; sleep 1000");
	o.stream = see;
	o.context = &s;
	cb_exec *e = start(&w, o);
	step_until(e, &s, "ready");
	cb_exec_close(e);
	CHECK_U64(must_seq(w.box), before);
	CHECK(!exists(w.box, "/work/d"));
	CHECK(status_of(&w, "test ! -e d") == 0);
	world_close(&w);
}

typedef struct list {
	char text[1024];
} list;

static cb_code list_change(void *context, const cb_change *change, cb_error *err)
{
	list *l = context;
	(void)err;
	size_t used = strlen(l->text);
	(void)snprintf(l->text + used, sizeof(l->text) - used, "%c %s\n", (char)change->kind, change->path);
	return CB_OK;
}

TEST(changes_are_listed_also_of_a_discarded_run)
{
	world w = world_open(&CB_WITH(cb_sandbox_options, .discard = true));
	cb_error err = {0};
	list l = {0};
	uint64_t before = must_seq(w.box);
	cb_exec *e = start(&w, SCRIPT("echo x >>a; mkdir d; echo y >d/y"));
	CHECK_CODE(cb_exec_changes(e, list_change, &l, &err), CB_BADHANDLE);
	const cb_exec_result *r = finish(e);
	CHECK(r->step == 0);
	CHECK_OK(cb_exec_changes(e, list_change, &l, &err));
	CHECK_STR(l.text, "M /work/a\nA /work/d\nA /work/d/y\n");
	CHECK_U64(r->changed, 3);
	cb_exec_close(e);
	CHECK_U64(must_seq(w.box), before);
	CHECK(status_of(&w, "test \"$(cat a)\" = one && test ! -e d") == 0);
	world_close(&w);
}

TEST(changes_are_listed)
{
	world w = world_open(NULL);
	cb_error err = {0};
	list l = {0};
	cb_exec *e = start(&w, SCRIPT("rm a; echo z >z"));
	(void)finish(e);
	CHECK_OK(cb_exec_changes(e, list_change, &l, &err));
	CHECK_STR(l.text, "D /work/a\nA /work/z\n");
	cb_exec_close(e);
	world_close(&w);
}

TEST(a_failure_can_be_taken_back_and_a_checkpoint_saved)
{
	world w = world_open(NULL);
	cb_exec_options o = SCRIPT("echo broken >a; exit 1");
	o.undo_on_fail = true;
	o.checkpoint = "before";
	cb_exec *e = start(&w, o);
	const cb_exec_result *r = finish(e);
	CHECK(r->undo_step == r->step + 1);
	cb_exec_close(e);
	CHECK_STR(must_read(w.box, "/work/a"), "one\n");
	cb_box *then = must_open(w.store, "demo@before");
	CHECK_STR(must_read(then, "/work/a"), "one\n");
	cb_box_close(then);
	world_close(&w);
}

TEST(a_box_that_moved_is_merged_and_a_conflict_kept)
{
	world w = world_open(NULL);
	cb_error err = {0};
	seen s = {0};
	size_t taken = 0;
	const cb_exec_result *r = NULL;
	cb_exec_options o = SCRIPT("echo ready; read x; echo theirs >b");
	o.stdin_fd = CB_STDIN_PIPE;
	o.stream = see;
	o.context = &s;
	cb_exec *e = start(&w, o);
	step_until(e, &s, "ready");
	must_write(w.box, "/work/c", "ours\n");
	CHECK_OK(cb_exec_input(e, "\n", 1, &taken, &err));
	r = finish(e);
	CHECK(r->merged);
	cb_exec_close(e);
	CHECK_STR(must_read(w.box, "/work/b"), "theirs\n");
	CHECK_STR(must_read(w.box, "/work/c"), "ours\n");
	s = (seen){0};
	list l = {0};
	o.argv = (const char *const[]){"sh", "-c", "echo ready; read x; echo theirs >a"};
	e = start(&w, o);
	step_until(e, &s, "ready");
	must_write(w.box, "/work/a", "ours\n");
	CHECK_OK(cb_exec_input(e, "\n", 1, &taken, &err));
	CHECK_CODE(cb_exec_wait(e, &r, &err), CB_CONFLICT);
	CHECK(r->fork[0] && r->exit_code == 0);
	CHECK_OK(cb_exec_changes(e, list_change, &l, &err));
	CHECK_STR(l.text, "M /work/a\n");
	cb_box *fork = must_open(w.store, r->fork);
	CHECK_STR(must_read(fork, "/work/a"), "theirs\n");
	cb_box_close(fork);
	cb_exec_close(e);
	CHECK_STR(must_read(w.box, "/work/a"), "ours\n");
	CHECK(status_of(&w, "test \"$(cat a)\" = ours") == 0);
	world_close(&w);
}

static cb_code who_is(void *context, const cb_step *step, cb_error *err)
{
	list *l = context;
	(void)err;
	(void)snprintf(l->text, sizeof(l->text), "%s %s %s", step->kind, step->who, step->params);
	return CB_OK;
}

TEST(a_step_says_what_ran_for_whom_and_no_value_of_the_environment)
{
	world w = world_open(NULL);
	cb_error err = {0};
	list l = {0};
	static const char *const env[] = {"TOKEN=secret", "TOKEN=secret2"};
	cb_sandbox_close(w.sandbox);
	CHECK_OK(cb_box_who_set(w.box, "ann", &err));
	CHECK_OK(cb_sandbox_open(w.box, NULL, &w.sandbox, &err));
	cb_exec_options o = SCRIPT("test $TOKEN = secret2");
	o.env = env;
	o.env_count = 2;
	cb_exec *e = start(&w, o);
	const cb_exec_result *r = finish(e);
	CHECK(r->exit_code == 0);
	CHECK_OK(cb_step_get(w.box, r->step, who_is, &l, &err));
	CHECK_STR(l.text, "exec ann {\"argv\":[\"sh\",\"-c\",\"test $TOKEN = secret2\"],\"cwd\":\"/work\",\"env\":[\"TOKEN\"]}");
	cb_exec_close(e);
	world_close(&w);
}

TEST(plans_are_text_and_nothing_is_done)
{
	world w = world_open(NULL);
	cb_error err = {0};
	char *text = NULL;
	CHECK_OK(cb_sandbox_plan(w.box, &CB_WITH(cb_sandbox_options, .net = CB_NET_HOST), false, &text, &err));
	CHECK(strstr(text, "/proc") && strstr(text, "/usr"));
	cb_free(text);
	CHECK_OK(cb_sandbox_plan(w.box, NULL, true, &text, &err));
	CHECK(text[0] == '{');
	cb_free(text);
	world_close(&w);
}

TEST(tiers_are_tried)
{
	cb_error err = {0};
	cb_tier_report report = CB_INIT(cb_tier_report);
	for (cb_tier tier = CB_TIER_OVERLAY; tier <= CB_TIER_FOLDER; tier++) {
		CHECK_OK(cb_sandbox_try(test_tmpdir(), tier, &report, &err));
		if (!report.works) CHECK(report.why[0] && report.fix[0]);
		if (!report.works) test_lacks("sandbox", report.why);
	}
	CHECK(setenv("COWBOX_BOX_HELPER", "/no/such/cowbox-box", 1) == 0);
	CHECK_OK(cb_sandbox_try(test_tmpdir(), CB_TIER_FOLDER, &report, &err));
	CHECK(!report.works && strstr(report.why, "cowbox-box") && strstr(report.fix, "install"));
}

TEST(many_commands_reuse_what_is_ready)
{
	world w = world_open(NULL);
	for (int i = 0; i < 20; i++) {
		char text[128];
		(void)snprintf(text, sizeof(text), "test $(ls | grep -c n) = %d && echo %d >n%d", i, i, i);
		CHECK(status_of(&w, text) == 0);
	}
	must_write(w.box, "/work/outside", "x\n");
	CHECK(status_of(&w, "cat outside && rm n1 outside") == 0);
	CHECK(!exists(w.box, "/work/n1") && !exists(w.box, "/work/outside") && exists(w.box, "/work/n2"));
	world_close(&w);
}
