/* exec.c: one command: sent to the holder, watched, ended, captured. */
#include "exec/exec.h"
#include "base/args.h"
#include "base/sized.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/io.h"
#include "box/box.h"
#include "box/cursor.h"

/* ---- signals and the clock ---- */

static cb_code send_signal(cb_exec *e, int number, bool everybody, cb_error *err)
{
	AUTO_BUF buf body = BUF_INIT(64);
	if (!e->running) return CB_OK; /* it has ended: there is nobody to tell */
	CB_TRY(wire_signal_put(&body, &(wire_signal){number, everybody}, err));
	/* Not link_send, which may take messages that came: any thread may be here, and only one may take. */
	cb_code code = wire_send(link_fd(work_link(e->w)), WIRE_SIGNAL, buf_span(&body), NULL, 0, err);
	return code == CB_IO ? CB_OK : code; /* whoever takes the messages learns that the holder is gone */
}

cb_code exec_signal(cb_exec *e, int number, bool everybody, cb_error *err)
{
	(void)pthread_mutex_lock(&e->lock);
	cb_code code = send_signal(e, number, everybody, err);
	(void)pthread_mutex_unlock(&e->lock);
	return code;
}

static void timer_set(cb_exec *e, int64_t at_ns)
{
	struct itimerspec when = {.it_value = {at_ns / 1000000000, at_ns % 1000000000}};
	e->deadline_ns = at_ns;
	(void)timerfd_settime(e->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static cb_code clock_locked(cb_exec *e, cb_error *err)
{
	int64_t now = clock_monotonic_ns();
	if (!e->running || e->deadline_ns == 0 || now < e->deadline_ns) return CB_OK;
	if (!e->timed_out) {
		e->timed_out = true;
		timer_set(e, now + e->grace_ns);
		return send_signal(e, SIGTERM, true, err);
	}
	timer_set(e, 0);
	return send_signal(e, SIGKILL, true, err);
}

cb_code exec_clock(cb_exec *e, cb_error *err)
{
	(void)pthread_mutex_lock(&e->lock);
	cb_code code = clock_locked(e, err);
	(void)pthread_mutex_unlock(&e->lock);
	return code;
}

cb_code cb_exec_kill(cb_exec *e, int number, cb_error *err)
{
	NEED(err, "exec", e);
	if (!e || number <= 0 || number >= NSIG) return cb_err_set(err, CB_INVALID, "no signal %d", number);
	CB_TRY(sandbox_own(e->sandbox, err));
	(void)pthread_mutex_lock(&e->lock);
	if (number == SIGKILL && e->running) e->killed = true;
	cb_code code = send_signal(e, number, number == SIGKILL, err);
	(void)pthread_mutex_unlock(&e->lock);
	return code;
}

cb_code cb_exec_tick(cb_exec *e, cb_error *err)
{
	NEED(err, "exec", e);
	CB_TRY(sandbox_own(e->sandbox, err));
	return exec_clock(e, err);
}

/* ---- calls that call back ---- */

static const char closed_inside[] = "the program was closed by a function that was called for it";

cb_code exec_called(const cb_exec *e, cb_error *err)
{
	return e->closed ? cb_err_set(err, CB_BADHANDLE, closed_inside) : sandbox_own(e->sandbox, err);
}

static void destroy(cb_exec *e);

static cb_code leave(cb_exec *e, cb_code code, cb_error *err)
{
	bool closed = e->closed;
	if (--e->calls == 0 && closed) destroy(e);
	return closed ? cb_err_set(err, CB_BADHANDLE, closed_inside) : code;
}

/* ---- starting ---- */

static cb_code send_run(cb_exec *e, const buf *body, const int child[3], cb_error *err)
{
	int fds[4];
	size_t count = 0;
	AUTO_FD int memory = -1;
	span packet = buf_span(body);
	if (body->size > WIRE_PACKET_BYTES) {
		memory = memfd_create("cowbox-run", MFD_CLOEXEC);
		if (memory < 0) return cb_err_errno(err, errno, "making room for the arguments");
		cb_code code = io_write_all(memory, body->bytes, body->size, err);
		if (code != CB_OK) return cb_err_wrap(err, code, "making room for the arguments");
		fds[count++] = memory;
		packet = span_make(NULL, 0);
	}
	for (size_t i = 0; i < 3 && !e->tty; i++) fds[count++] = child[i];
	return link_send(work_link(e->w), WIRE_RUN, packet, fds, count, err);
}

static cb_code send_enter(cb_exec *e, cb_error *err)
{
	int fds[WIRE_FDS];
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	const cb_sandbox *s = e->sandbox;
	CB_TRY(plan_put(&body, &s->plan, err));
	CB_TRY(mounts_make(s, work_uid(e->w), fds, err));
	cb_code code = link_send(work_link(e->w), WIRE_ENTER, buf_span(&body), fds, s->mount_count, err);
	for (size_t i = 0; i < s->mount_count; i++) (void)close(fds[i]);
	return code;
}

static cb_code take_exit(cb_exec *e, const wire_packet *packet, cb_error *err)
{
	CB_TRY(wire_exited_get(packet->body, &e->end, err));
	(void)snprintf(e->reason, sizeof(e->reason), "%s", e->end.reason ? e->end.reason : "");
	e->end.reason = e->reason;
	(void)pthread_mutex_lock(&e->lock);
	e->running = false;
	e->exited = true;
	(void)pthread_mutex_unlock(&e->lock);
	return CB_OK;
}

/* Answers to what was sent ahead, up to the program's start. */
static cb_code take_start(cb_exec *e, bool entering, cb_error *err)
{
	const wire_packet *packet = NULL;
	link_t *l = work_link(e->w);
	int terminal = -1;
	CB_TRY(work_ready(e->w, err));
	if (entering) {
		CB_TRY(link_expect(l, WIRE_ENTERED, &packet, err));
		work_set_entered(e->w);
	}
	CB_TRY(link_receive(l, &packet, err));
	if (packet->type == WIRE_EXITED) return take_exit(e, packet, err); /* there is no such program */
	if (packet->type != WIRE_STARTED)
		return cb_err_set(err, CB_INTERNAL, "the helper said %d instead of started", (int)packet->type);
	if (e->tty && packet->fd_count != 1) return cb_err_set(err, CB_INTERNAL, "the helper sent no terminal");
	if (e->tty) terminal = link_take_fd(l, 0);
	CB_TRY(streams_watch(e, terminal, err));
	(void)pthread_mutex_lock(&e->lock);
	e->running = true;
	(void)pthread_mutex_unlock(&e->lock);
	return CB_OK;
}

static cb_code run_on(cb_exec *e, const cb_exec_options *options, const buf *body, const int child[3], cb_error *err)
{
	cb_step_info info =
		CB_WITH(cb_step_info, .kind = e->kind, .params = e->params, .params_size = e->params_size, .record = true);
	CB_TRY(work_begin(e->w, &info, err));
	e->begun = true;
	bool entering = !work_is_entered(e->w);
	if (entering) CB_TRY(send_enter(e, err));
	CB_TRY(send_run(e, body, child, err));
	CB_TRY(take_start(e, entering, err));
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = WATCH_LINK};
	if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, link_fd(work_link(e->w)), &event) != 0)
		return cb_err_errno(err, errno, "watching the helper");
	(void)pthread_mutex_lock(&e->lock);
	if (options->timeout_ns > 0) timer_set(e, clock_monotonic_ns() + options->timeout_ns);
	(void)pthread_mutex_unlock(&e->lock);
	return CB_OK;
}

/* The work of a command that did not start. Its holder may be in the middle of anything. */
static void give_up(cb_exec *e)
{
	streams_close(e);
	if (e->begun) work_cancel(e->w);
	e->begun = false;
	if (e->w) sandbox_give(e->sandbox, e->w, true);
	e->w = NULL;
}

static cb_code try_run(cb_exec *e, const cb_exec_options *options, const buf *body, cb_error *err)
{
	int child[3] = {-1, -1, -1};
	cb_code code = streams_open(e, options, work_uid(e->w), child, err);
	if (code == CB_OK) code = run_on(e, options, body, child, err);
	for (size_t i = 0; i < 3; i++)
		if (child[i] >= 0) (void)close(child[i]);
	if (code != CB_OK) give_up(e);
	return code;
}

/* A holder that was kept ready may have died since: then the next one is asked, and at last a new one. */
static cb_code run_somewhere(cb_exec *e, const cb_exec_options *options, const buf *body, cb_error *err)
{
	for (;;) {
		bool fresh = false;
		CB_TRY(sandbox_take(e->sandbox, &e->w, &fresh, err));
		cb_error why;
		cb_code code = try_run(e, options, body, cb_err_aside(&why));
		if (code != CB_IO || fresh) return cb_err_pass(err, code, &why);
	}
}

static cb_code default_cwd(const cb_sandbox *s, const char **out, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	const char *wish = s->path ? s->path : "/work";
	cb_error why;
	cb_code code = cb_stat(s->box, wish, 0, &info, cb_err_aside(&why));
	*out = code == CB_OK && info.type == CB_DIR ? wish : "/";
	return code == CB_NOTFOUND || code == CB_NOTDIR ? CB_OK : cb_err_pass(err, code, &why);
}

/* What a step cannot keep is found out before the program runs, not when its changes are to be committed. */
static cb_code check_step(const cb_exec_options *o, cb_error *err)
{
	CB_TRY(args_name("kind", o->kind, err));
	CB_TRY(args_bytes("params", o->params, o->params_size, err));
	if ((o->kind && strlen(o->kind) > LIMIT_STEP_FIELD_BYTES) ||
	    sized_bytes(o->params, o->params_size).size > LIMIT_STEP_FIELD_BYTES)
		return cb_err_set(err, CB_LIMIT, "a step keeps at most %d bytes of kind or params", LIMIT_STEP_FIELD_BYTES);
	return CB_OK;
}

static cb_code check_options(const cb_exec_options *o, cb_error *err)
{
	CB_TRY(args_strings("argv", o->argv, o->argc, err));
	CB_TRY(args_strings("env", o->env, o->env_count, err));
	if (o->argc == 0 || !o->argv[0][0]) return cb_err_set(err, CB_INVALID, "no program to run: argv is empty");
	if (o->cwd && o->cwd[0] != '/') return cb_err_set(err, CB_INVALID, "'%s' is not an absolute path of the box", o->cwd);
	if (o->cwd && strlen(o->cwd) >= LIMIT_PATH_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "cwd has more than %d bytes", LIMIT_PATH_BYTES - 1);
	CB_TRY(args_duration("timeout_ns", o->timeout_ns, err));
	CB_TRY(args_duration("grace_ns", o->grace_ns, err));
	if (o->stdin_fd < CB_STDIN_CALLER)
		return cb_err_set(err, CB_INVALID, "%d is no descriptor for standard input", o->stdin_fd);
	int source;
	return streams_source(o->stdin_fd, &source, err);
}

static cb_code remember(cb_exec *e, const cb_exec_options *o, const char *cwd, cb_error *err)
{
	e->tty = o->tty;
	e->reject_output = o->reject_output;
	e->undo_on_fail = o->undo_on_fail;
	e->stream = o->stream;
	e->note = o->note;
	e->context = o->context;
	e->output_bytes = o->output_bytes == CB_OUTPUT_NONE ? 0 : o->output_bytes ? o->output_bytes : EXEC_OUTPUT_BYTES;
	e->grace_ns = o->grace_ns ? o->grace_ns : EXEC_GRACE_NS;
	for (size_t i = 0; i < 2; i++) e->streams[i].kept = BUF_INIT((size_t)e->output_bytes + 1);
	e->kind = mem_strdup(o->kind ? o->kind : "exec");
	if (!e->kind) return cb_err_nomem(err);
	e->params_size = CB_STRING;
	if (!o->params) return command_params(o, cwd, &e->params, err);
	span given = sized_bytes(o->params, o->params_size);
	e->params = mem_alloc(given.size + 1);
	if (!e->params) return cb_err_nomem(err);
	memcpy(e->params, given.bytes, given.size);
	e->params[given.size] = 0;
	e->params_size = given.size;
	return CB_OK;
}

static cb_code watch_timer(cb_exec *e, cb_error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = WATCH_TIMER};
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	e->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (e->epoll < 0 || e->timer < 0 || epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->timer, &event) != 0)
		return cb_err_errno(err, errno, "making ready to wait");
	return CB_OK;
}

static cb_code start(cb_exec *e, const cb_exec_options *options, cb_error *err)
{
	const char *cwd = options->cwd;
	AUTO_BUF buf body = BUF_INIT(LIMIT_EXEC_ARGS_BYTES * 2 + (64 << 10));
	CB_TRY(box_writes_end(e->sandbox->given, err));
	if (!cwd) CB_TRY(default_cwd(e->sandbox, &cwd, err));
	CB_TRY(remember(e, options, cwd, err));
	CB_TRY(command_run_body(options, cwd, &body, err));
	CB_TRY(watch_timer(e, err));
	if (options->checkpoint) CB_TRY(cb_checkpoint_save(e->sandbox->box, options->checkpoint, 0, false, err));
	return run_somewhere(e, options, &body, err);
}

cb_code cb_exec_start(cb_sandbox *sandbox, const cb_exec_options *options, cb_exec **out, cb_error *err)
{
	NEED(err, "sandbox options out", sandbox, options, out);
	CB_TRY(sandbox_own(sandbox, err));
	cb_exec_options o;
	CB_TRY(SIZED_TAKE(cb_exec_options, params_size, &o, options, err));
	CB_TRY(check_options(&o, err));
	CB_TRY(check_step(&o, err));
	CB_TRY(box_refuse_rules(sandbox->box, "running a program", err)); /* rules may have come since it was opened */
	cb_exec *e = mem_alloc(sizeof(*e));
	if (!e) return cb_err_nomem(err);
	memset(e, 0, sizeof(*e));
	e->sandbox = sandbox;
	(void)atomic_fetch_add(&sandbox->refs, 1);
	e->epoll = e->timer = e->streams[0].fd = e->streams[1].fd = e->input.source = e->input.to = -1;
	(void)pthread_mutex_init(&e->lock, NULL);
	e->result.struct_size = sizeof(e->result);
	cb_code code = start(e, &o, err);
	if (code == CB_OK) *out = e;
	else cb_exec_close(e);
	return code;
}

/* ---- running ---- */

int cb_exec_fd(const cb_exec *e)
{
	return e && sandbox_is_own(e->sandbox) ? e->epoll : -1;
}

static cb_code take_message(cb_exec *e, cb_error *err)
{
	CANCEL_SHIELD; /* it is there: nothing is waited for */
	const wire_packet *packet = NULL;
	cb_code code = link_expect(work_link(e->w), WIRE_EXITED, &packet, err);
	if (code == CB_OK) code = take_exit(e, packet, err);
	if (code != CB_OK) e->broken = true;
	return code;
}

static cb_code take_event(cb_exec *e, const struct epoll_event *event, cb_error *err)
{
	uint64_t expirations;
	switch (event->data.u32) {
	case WATCH_LINK:
		return e->exited ? CB_OK : take_message(e, err);
	case WATCH_TIMER:
		if (read(e->timer, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
			return cb_err_errno(err, errno, "reading the clock");
		return exec_clock(e, err);
	default:
		return streams_event(e, event->data.u32, event->events, err);
	}
}

static cb_code pump(cb_exec *e, bool *done, cb_error *err)
{
	struct epoll_event events[8];
	if (e->broken) return cb_err_set(err, CB_IO, "the helper is gone");
	if (!e->finished && !e->exited) {
		int count = epoll_wait(e->epoll, events, ARRAY_LEN(events), 0);
		if (count < 0 && errno != EINTR) return cb_err_errno(err, errno, "waiting for the program");
		for (int i = 0; i < count; i++) CB_TRY(take_event(e, &events[i], err));
	}
	if (e->exited) CB_TRY(streams_drain(e, err));
	*done = e->exited;
	return CB_OK;
}

cb_code cb_exec_pump(cb_exec *e, bool *done, cb_error *err)
{
	NEED(err, "exec done", e, done);
	CB_TRY(sandbox_own(e->sandbox, err));
	e->calls++;
	return leave(e, pump(e, done, err), err);
}

cb_code cb_exec_input(cb_exec *e, const void *bytes, size_t size, size_t *out_taken, cb_error *err)
{
	NEED(err, "exec out_taken", e, out_taken);
	CB_TRY(args_bytes("bytes", bytes, size, err));
	CB_TRY(sandbox_own(e->sandbox, err));
	return streams_input(e, bytes, sized_bytes(bytes, size).size, out_taken, err);
}

cb_code cb_exec_resize(cb_exec *e, unsigned short rows, unsigned short columns, cb_error *err)
{
	NEED(err, "exec", e);
	CB_TRY(sandbox_own(e->sandbox, err));
	return streams_resize(e, rows, columns, err);
}

/* ---- the end ---- */

static void pass_note(void *context, const char *path, const char *what)
{
	const cb_exec *e = context;
	char absolute[LIMIT_PATH_BYTES + 2];
	if (!e->note || e->closed) return;
	(void)snprintf(absolute, sizeof(absolute), "/%s", path[0] == '/' ? path + 1 : path);
	e->note(e->context, absolute, what);
}

static cb_code undo_failed(cb_exec *e, cb_error *err)
{
	cb_exec_result *r = &e->result;
	if (!e->undo_on_fail || r->exit_code == 0 || r->step == 0 || r->changed == 0) return CB_OK;
	cb_error why;
	cb_code code = cb_undo(e->sandbox->box, r->step, &r->undo_step, cb_err_aside(&why));
	if (code == CB_OK) box_made(e->sandbox->given, r->undo_step);
	if (code == CB_NOTHING) return CB_OK;
	(void)cb_err_pass(err, code, &why);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "taking step %llu back", (unsigned long long)r->step);
}

/* Without memory for the list there is none: the error names what it has room for. */
static void take_conflicts(cb_exec *e, buf *texts)
{
	size_t count = 0, n = 0;
	if (!texts->size) return;
	const char *at = (const char *)texts->bytes, *end = at + texts->size;
	for (size_t i = 0; i < texts->size; i++) count += at[i] == 0;
	count /= 2;
	e->conflict_texts = *texts;
	*texts = (buf){0};
	e->conflict_rows = mem_alloc_zeroed(count * sizeof(*e->conflict_rows));
	e->conflicts = mem_alloc(count * sizeof(*e->conflicts));
	if (!e->conflict_rows || !e->conflicts) return;
	for (; at < end; n++) {
		const char *reason = at + strlen(at) + 1;
		e->conflict_rows[n] = CB_WITH(cb_conflict, .path = at, .reason = reason);
		e->conflicts[n] = &e->conflict_rows[n];
		at = reason + strlen(reason) + 1;
	}
	e->result.conflicts = e->conflicts;
	e->result.conflict_count = n;
}

static void take_result(cb_exec *e, work_result *from, work_how how)
{
	take_conflicts(e, &from->conflicts);
	cb_exec_result *r = &e->result;
	r->step = how == WORK_COMMIT ? from->commit.seq : 0;
	r->merged = from->commit.merged;
	r->changed = from->changed;
	r->left_out = from->left_out;
	memcpy(r->fork, from->commit.fork, sizeof(r->fork));
}

/* A note may have closed the program: then nothing of it is wanted. */
static cb_code on_change(void *context, const cb_change *change, cb_error *err)
{
	cb_exec *e = context;
	CB_TRY(exec_called(e, err));
	return e->sandbox->discard ? changes_keep(&e->changes, change, err) : CB_OK;
}

/* The program's changes into the box, or away. */
static cb_code settle(cb_exec *e, bool rejected, cb_error *err)
{
	work_result got = {0};
	CB_TRY(result_fill(e, err));
	work_how how = rejected ? WORK_DROP : e->sandbox->discard ? WORK_LOOK : WORK_COMMIT;
	cb_step_info info = CB_WITH(cb_step_info, .kind = e->kind, .params = e->params, .params_size = e->params_size,
	                            .result = e->result_json, .result_size = CB_STRING, .record = true);
	buf_clear(&e->changes);
	cb_code code = work_end(e->w, how, &info, pass_note, e, on_change, e, &got, err);
	if (cancel_is_code(code) || !sandbox_is_own(e->sandbox)) {
		buf_done(&got.conflicts);
		return code;
	}
	e->begun = false;
	e->settled = true;
	sandbox_give(e->sandbox, TAKE_PTR(e->w), code == CB_IO);
	take_result(e, &got, how);
	if (code == CB_OK) box_made(e->sandbox->given, e->result.step);
	return code;
}

/* CB_CANCELLED, CB_TIMEOUT: called again it goes on. */
static cb_code finish(cb_exec *e, cb_error *err)
{
	bool rejected = e->stopped && e->reject_output;
	if (!e->settled) CB_TRY(settle(e, rejected, err));
	if (rejected)
		return cb_err_set(err, CB_TOOBIG,
		                  "the program wrote more than %llu bytes of output: it was ended and its changes dropped",
		                  (unsigned long long)e->output_bytes);
	CB_TRY(undo_failed(e, err));
	if (e->input.error) return cb_err_errno(err, e->input.error, "the program's input was cut short: reading it failed");
	return CB_OK;
}

static cb_code wait_end(cb_exec *e, cb_error *err)
{
	bool done = e->finished;
	while (!done) {
		CB_TRY(cancel_check_wait("for the program, which goes on", err));
		CB_TRY(pump(e, &done, err));
		struct pollfd p = {e->epoll, POLLIN, 0};
		if (!done && poll(&p, 1, cancel_wait_ms(-1)) < 0 && errno != EINTR)
			return cb_err_errno(err, errno, "waiting for the program");
	}
	if (!e->finished) {
		e->finish_code = finish(e, &e->finish_error);
		if (cancel_is_code(e->finish_code) || !sandbox_is_own(e->sandbox))
			return cb_err_pass(err, e->finish_code, &e->finish_error);
		e->finished = true;
	}
	return CB_OK;
}

cb_code cb_exec_wait(cb_exec *e, const cb_exec_result **out, cb_error *err)
{
	NEED(err, "exec out", e, out);
	CB_TRY(sandbox_own(e->sandbox, err));
	e->calls++;
	CB_TRY(leave(e, wait_end(e, err), err));
	*out = &e->result;
	return e->finish_code == CB_OK ? CB_OK : cb_err_pass(err, e->finish_code, &e->finish_error);
}

static cb_code changes_of_fork(const cb_exec *e, cb_cursor **out, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	CB_TRY(cb_box_open(e->sandbox->store, e->result.fork, &box, err));
	cb_code code = cb_box_who_set(box, e->sandbox->who, err);
	if (code == CB_OK) code = cb_box_info_get(box, &info, err);
	if (code == CB_OK) code = cb_diff_step_open(box, info.seq, NULL, out, err);
	cb_box_close(box);
	return code;
}

cb_code cb_exec_changes_open(cb_exec *e, cb_cursor **out, cb_error *err)
{
	NEED(err, "exec out", e, out);
	CB_TRY(sandbox_own(e->sandbox, err));
	CB_TRY(cancel_check(err));
	if (!e->finished) return cb_err_set(err, CB_BADHANDLE, "what a program changed is known after cb_exec_wait");
	if (e->result.fork[0]) return changes_of_fork(e, out, err);
	if (e->result.step) return cb_diff_step_open(e->sandbox->box, e->result.step, NULL, out, err);
	return changes_open(e->sandbox->store, &e->changes, out, err);
}

cb_code cb_exec_changes(cb_exec *e, cb_change_visit visit, void *context, cb_error *err)
{
	NEED(err, "exec visit", e, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_exec_changes_open(e, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}

/* What runs is killed; nothing of it stays. */
static void abandon(cb_exec *e)
{
	const wire_packet *packet = NULL;
	work_result ignored = {0};
	cb_code code = e->broken ? CB_IO : CB_OK;
	e->stream = NULL;
	e->note = NULL;
	if (code == CB_OK && e->running) code = exec_signal(e, SIGKILL, true, NULL);
	streams_close(e);
	if (code == CB_OK && !e->exited) code = link_expect(work_link(e->w), WIRE_EXITED, &packet, NULL);
	if (e->begun && code == CB_OK) code = work_end(e->w, WORK_DROP, NULL, pass_note, e, NULL, NULL, &ignored, NULL);
	e->begun = false;
	sandbox_give(e->sandbox, TAKE_PTR(e->w), code != CB_OK);
}

static void destroy(cb_exec *e)
{
	CANCEL_SHIELD;
	if (e->w && sandbox_is_own(e->sandbox)) abandon(e);
	work_close(TAKE_PTR(e->w)); /* of the parent: copies of its memory and descriptors go, and nobody is told */
	streams_close(e);
	if (e->epoll >= 0) (void)close(e->epoll);
	if (e->timer >= 0) (void)close(e->timer);
	buf_done(&e->streams[0].kept);
	buf_done(&e->streams[1].kept);
	buf_done(&e->changes);
	buf_done(&e->conflict_texts);
	free(e->conflict_rows);
	free(e->conflicts);
	free(e->kind);
	free(e->params);
	free(e->result_json);
	(void)pthread_mutex_destroy(&e->lock);
	sandbox_unref(e->sandbox);
	free(e);
}

void cb_exec_close(cb_exec *e)
{
	if (!e) return;
	e->closed = true;
	if (e->calls == 0) destroy(e);
}
