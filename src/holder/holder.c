/*
 * holder.c: the holder's loop: what the caller says, what init says, and who died.
 *
 * It ends when the caller does: by BYE, by the end of the socket, or by the pidfd, which also tells when somebody else still has the
 * socket open. Its own end frees the lock on the slot, so everything in the sandbox is dead before.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "holder/enter.h"
#include "holder/group.h"

typedef struct holder {
	int area; /* -1: none */
	slot slot;
	bool has_slot;
	builder builder;
	bool building;
	bool fresh; /* the tree was empty when it was opened */
	scanner scanner;
	unsigned window; /* packets of entries that may be sent */
	plan plan;
	sandbox box;
	places places; /* made in the tree for its binds */
	bool used;     /* a command ran in it */
	bool running;  /* one runs */
	int64_t started_ns;
	char killed[128]; /* why the holder killed it; "": it did not */
	bool ended;       /* the caller is gone or said BYE */
	uint8_t buffer[WIRE_PACKET_BYTES + 8];
} holder;

static cb_code answer(wire_type type, span body, cb_error *err)
{
	return wire_send(HOLDER_SOCKET_FD, type, body, NULL, 0, err);
}

static cb_code answer_empty(wire_type type, cb_error *err)
{
	return answer(type, span_make(NULL, 0), err);
}

static cb_code out_of_order(cb_error *err, const char *what)
{
	return cb_err_set(err, CB_INTERNAL, "the helper was told to %s out of order", what);
}

/* ---- ending ---- */

static cb_code end_sandbox(holder *h, cb_error *err)
{
	CB_TRY(sandbox_end(&h->box, err));
	places_remove(&h->places, h->has_slot ? h->slot.root : -1);
	plan_done(&h->plan);
	h->running = h->used = false;
	h->scanner = (scanner){0}; /* its memory of the tree goes with the slot */
	return CB_OK;
}

static cb_code end_slot(holder *h, cb_error *err)
{
	CB_TRY(end_sandbox(h, err));
	if (h->building) (void)builder_end(&h->builder, NULL);
	h->building = false;
	if (!h->has_slot) return CB_OK;
	h->has_slot = false;
	return slot_close(&h->slot, err);
}

/* A process that hangs in the kernel keeps its slot: the lock stays until it is gone. The caller need not wait for that. */
static void end_all(holder *h)
{
	cb_error err;
	while (end_slot(h, &err) == CB_BUSY) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null >= 0) (void)dup3(null, HOLDER_SOCKET_FD, O_CLOEXEC);
		if (null >= 0) (void)close(null);
	}
}

/* ---- the slot ---- */

static cb_code on_work(holder *h, const wire_packet *p, cb_error *err)
{
	wire_work work;
	CB_TRY(wire_work_get(p->body, &work, err));
	CB_TRY(end_slot(h, err));
	h->slot = SLOT_NONE;
	h->fresh = work.wipe;
	CB_TRY(slot_open(&h->slot, h->area, &work, err));
	h->has_slot = true;
	return answer_empty(WIRE_READY, err);
}

static cb_code on_build(holder *h, const wire_packet *p, cb_error *err)
{
	if (!h->has_slot || h->running) return out_of_order(err, "build");
	if (!h->building) builder_init(&h->builder, h->slot.root);
	h->building = true;
	return builder_feed(&h->builder, p->body, err);
}

/* The caller knows all of a tree that was made from nothing just now: the first scan need not tell it. Of an upper it is little anyway. */
static cb_code look_at_build(holder *h, cb_error *err)
{
	if (!h->fresh || h->slot.mode != WIRE_PLAIN) return CB_OK;
	scanner look = {.changes = h->slot.changes, .known = h->slot.seen};
	return scan_look(&look, err);
}

static cb_code on_build_end(holder *h, cb_error *err)
{
	if (!h->has_slot) return out_of_order(err, "end a build");
	if (h->building) {
		h->building = false;
		CB_TRY(builder_end(&h->builder, err));
		CB_TRY(look_at_build(h, err));
	}
	return answer_empty(WIRE_BUILT, err);
}

static cb_code on_seal(holder *h, const wire_packet *p, cb_error *err)
{
	wire_strings names;
	CB_TRY(wire_names_get(p->body, &names, err));
	if (!h->has_slot || names.count != 1) return out_of_order(err, "seal");
	CB_TRY(end_sandbox(h, err));
	CB_TRY(slot_seal(&h->slot, wire_strings_next(&names, NULL), err));
	h->has_slot = false;
	return answer_empty(WIRE_DONE, err);
}

static cb_code on_wipe(holder *h, cb_error *err)
{
	if (!h->has_slot) return out_of_order(err, "wipe");
	CB_TRY(end_sandbox(h, err));
	CB_TRY(slot_wipe(&h->slot, err));
	h->has_slot = false;
	return answer_empty(WIRE_DONE, err);
}

static cb_code on_remove(holder *h, const wire_packet *p, cb_error *err)
{
	wire_strings names;
	CB_TRY(wire_names_get(p->body, &names, err));
	if (h->area < 0) return out_of_order(err, "remove folders");
	for (const char *name = NULL; (name = wire_strings_next(&names, name));) CB_TRY(area_remove(h->area, name, err));
	return answer_empty(WIRE_DONE, err);
}

/* ---- scanning ---- */

/* Until the caller allows more: other words, or its end, end the scan. */
static cb_code wait_for_more(holder *h, cb_error *err)
{
	while (h->window == 0) {
		struct pollfd fds[] = {{.fd = HOLDER_SOCKET_FD, .events = POLLIN}, {.fd = HOLDER_CALLER_FD, .events = POLLIN}};
		wire_packet p = {0};
		bool end = false;
		if (poll(fds, 2, -1) < 0 && errno != EINTR) return cb_err_errno(err, errno, "waiting for the caller");
		if (fds[0].revents) {
			CB_TRY(wire_receive(HOLDER_SOCKET_FD, h->buffer, &p, &end, err));
			bool more = !end && p.type == WIRE_MORE;
			wire_packet_done(&p);
			if (more) h->window += WIRE_WINDOW;
			if (!more) h->ended = true;
		} else if (fds[1].revents) {
			h->ended = true;
		}
		if (h->ended) return cb_err_set(err, CB_IO, "the caller is gone");
	}
	return CB_OK;
}

static cb_code send_entries(void *context, span body, const int *fds, size_t fd_count, cb_error *err)
{
	holder *h = context;
	CB_TRY(wait_for_more(h, err));
	h->window--;
	return wire_send(HOLDER_SOCKET_FD, WIRE_ENTRY, body, fds, fd_count, err);
}

static cb_code on_scan(holder *h, cb_error *err)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	wire_scanned scanned = {0};
	if (!h->has_slot || h->running || h->building) return out_of_order(err, "scan");
	if (h->places.count) {
		/* A place cannot go while something is mounted on it. */
		CB_TRY(end_sandbox(h, err));
		scanned.ended = true;
	}
	h->window = WIRE_WINDOW;
	h->scanner = (scanner){.changes = h->slot.changes,
	                       .layered = h->slot.mode != WIRE_PLAIN,
	                       .known = h->slot.seen,
	                       .send = send_entries,
	                       .context = h};
	bool ended = scanned.ended;
	CB_TRY(scan_run(&h->scanner, &scanned, err));
	scanned.ended = ended;
	CB_TRY(wire_scanned_put(&body, &scanned, err));
	return answer(WIRE_SCAN_END, buf_span(&body), err);
}

static cb_code on_keep(holder *h, cb_error *err)
{
	if (!h->has_slot || h->running || !h->scanner.send) return out_of_order(err, "keep");
	scan_keep(&h->scanner);
	return CB_OK;
}

/* ---- the sandbox ---- */

static cb_code on_enter(holder *h, const wire_packet *p, cb_error *err)
{
	if (!h->has_slot || h->building || h->running) return out_of_order(err, "enter");
	CB_TRY(end_sandbox(h, err));
	CB_TRY(plan_get(p->body, &h->plan, err));
	CB_TRY(places_make(&h->places, &h->plan, h->slot.root, err));
	CB_TRY(sandbox_enter(&h->box, &h->plan, &h->slot, p->fds, p->fd_count, err));
	return answer_empty(WIRE_ENTERED, err);
}

static cb_code on_run(holder *h, const wire_packet *p, cb_error *err)
{
	if (h->running || h->building) return out_of_order(err, "run");
	if (!h->box.init) return cb_err_set(err, CB_IO, "there is no sandbox to run in: it was not made, or it was killed");
	/* The command before may have replaced what belongs to the system. */
	if (h->used && !h->plan.weak) CB_TRY(apply_tidy(&h->plan, h->slot.root, err));
	/* What is there before does not count; a walk over it must be over before the command adds to it. */
	bool counted = h->plan.limits.disk_bytes || h->plan.limits.files;
	if (counted) CB_TRY(watch_begin(&h->slot, &h->plan.limits, err));
	CB_TRY(wire_send(h->box.socket, WIRE_RUN, p->body, p->fds, p->fd_count, err));
	if (!counted) CB_TRY(watch_begin(&h->slot, &h->plan.limits, err));
	h->running = h->used = true;
	h->killed[0] = 0;
	h->started_ns = clock_monotonic_ns();
	return CB_OK;
}

static void kill_command(holder *h, const char *why)
{
	AUTO_BUF buf body = BUF_INIT(64);
	(void)snprintf(h->killed, sizeof(h->killed), "%s", why);
	if (wire_signal_put(&body, &(wire_signal){SIGKILL, true}, NULL) == CB_OK)
		(void)wire_send(h->box.socket, WIRE_SIGNAL, buf_span(&body), NULL, 0, NULL);
}

/* To a command that has ended meanwhile: nothing. */
static cb_code on_signal(holder *h, const wire_packet *p, cb_error *err)
{
	wire_signal s;
	CB_TRY(wire_signal_get(p->body, &s, err));
	if (h->running) (void)wire_send(h->box.socket, WIRE_SIGNAL, p->body, NULL, 0, NULL);
	return CB_OK;
}

static cb_code watch(holder *h, cb_error *err)
{
	char why[128] = "";
	if (!h->running || h->killed[0] || h->plan.walls_down & WALL_LIMITS) return CB_OK;
	CB_TRY(watch_disk(&h->slot, &h->plan.limits, why, err));
	if (why[0]) kill_command(h, why);
	return CB_OK;
}

static cb_code send_exited(const wire_exited *m, cb_error *err)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	CB_TRY(wire_exited_put(&body, m, err));
	return answer(WIRE_EXITED, buf_span(&body), err);
}

static cb_code on_exited(holder *h, const wire_packet *p, cb_error *err)
{
	wire_exited m;
	CB_TRY(wire_exited_get(p->body, &m, err));
	h->running = false;
	if (h->killed[0]) {
		m.end = strncmp(h->killed, "memory:", 7) == 0 ? WIRE_END_MEMORY : WIRE_END_DISK;
		m.reason = h->killed;
	} else if (m.end == WIRE_END_STATUS && WIFSIGNALED(m.status) && WTERMSIG(m.status) == SIGKILL && h->box.group &&
	           group_ran_out(h->box.group)) {
		m.end = WIRE_END_MEMORY;
		m.reason = "memory: the bound of the control group was passed";
	}
	return send_exited(&m, err);
}

/* Init is not ours to lose: the host's memory ended, or somebody killed it. */
static cb_code on_init_gone(holder *h, cb_error *err)
{
	wire_exited m = {.end = h->killed[0] ? WIRE_END_DISK : WIRE_END_STATUS,
	                 .status = SIGKILL,
	                 .started_ns = h->started_ns,
	                 .ended_ns = clock_monotonic_ns(),
	                 .reason = h->killed[0] ? h->killed : "the sandbox was killed from outside"};
	bool ran = h->running;
	CB_TRY(end_sandbox(h, err));
	return ran ? send_exited(&m, err) : CB_OK;
}

static cb_code on_init(holder *h, cb_error *err)
{
	wire_packet p = {0};
	bool end = false;
	cb_code code = wire_receive(h->box.socket, h->buffer, &p, &end, err);
	if (code != CB_OK || end) return on_init_gone(h, err);
	if (p.type == WIRE_EXITED) {
		code = on_exited(h, &p, err);
	} else if (p.type == WIRE_STARTED) {
		code = wire_send(HOLDER_SOCKET_FD, p.type, p.body, p.fds, p.fd_count, err);
	} else if (p.type == WIRE_FAIL) {
		wire_failed failed;
		code = wire_failed_get(p.body, &failed, err);
		if (code == CB_OK) code = cb_err_set(err, failed.code == CB_OK ? CB_INTERNAL : failed.code, "%s", failed.message);
	} else {
		code = cb_err_set(err, CB_INTERNAL, "init says what nobody understands");
	}
	wire_packet_done(&p);
	return code;
}

/* ---- the loop ---- */

static cb_code on_packet(holder *h, const wire_packet *p, cb_error *err)
{
	switch (p->type) {
	case WIRE_WORK:
		return on_work(h, p, err);
	case WIRE_BUILD:
		return on_build(h, p, err);
	case WIRE_BUILD_END:
		return on_build_end(h, err);
	case WIRE_ENTER:
		return on_enter(h, p, err);
	case WIRE_RUN:
		return on_run(h, p, err);
	case WIRE_SIGNAL:
		return on_signal(h, p, err);
	case WIRE_SCAN:
		return on_scan(h, err);
	case WIRE_MORE:
		return CB_OK; /* of a scan that needed no more */
	case WIRE_KEEP:
		return on_keep(h, err);
	case WIRE_SEAL:
		return on_seal(h, p, err);
	case WIRE_WIPE:
		return on_wipe(h, err);
	case WIRE_REMOVE:
		return on_remove(h, p, err);
	case WIRE_BYE:
		h->ended = true;
		return CB_OK;
	case WIRE_READY:
	case WIRE_BUILT:
	case WIRE_ENTERED:
	case WIRE_STARTED:
	case WIRE_EXITED:
	case WIRE_ENTRY:
	case WIRE_SCAN_END:
	case WIRE_DONE:
	case WIRE_FAIL:
		break;
	}
	return cb_err_set(err, CB_CORRUPT, "message %d is not for the helper", (int)p->type);
}

static cb_code on_caller(holder *h, cb_error *err)
{
	wire_packet p = {0};
	bool end = false;
	CB_TRY(wire_receive(HOLDER_SOCKET_FD, h->buffer, &p, &end, err));
	if (end) h->ended = true;
	cb_code code = end ? CB_OK : on_packet(h, &p, err);
	wire_packet_done(&p);
	return code;
}

static cb_code loop(holder *h, cb_error *err)
{
	int64_t next_look_ns = 0;
	while (!h->ended) {
		struct pollfd fds[] = {{.fd = HOLDER_SOCKET_FD, .events = POLLIN},
		                       {.fd = HOLDER_CALLER_FD, .events = POLLIN},
		                       {.fd = h->box.init ? h->box.socket : -1, .events = POLLIN}};
		int ready = poll(fds, 3, h->running ? LIMIT_WATCH_MS : -1);
		if (ready < 0 && errno != EINTR) return cb_err_errno(err, errno, "waiting");
		if (ready > 0) {
			/* What a caller that died had still said is not done. */
			if (fds[1].revents) break;
			/* Init first: what it says was before what the caller says to it. */
			if (fds[2].revents) CB_TRY(on_init(h, err));
			if (fds[0].revents) CB_TRY(on_caller(h, err));
		}
		if (h->running && clock_monotonic_ns() >= next_look_ns) {
			CB_TRY(watch(h, err));
			next_look_ns = clock_monotonic_ns() + (int64_t)LIMIT_WATCH_MS * 1000000;
		}
	}
	return CB_OK;
}

/* What was said and not read would take the reason with it when the socket is closed: so everything is read until the caller goes. */
static void fail(holder *h, const cb_error *why)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	if (wire_failed_put(&body, &(wire_failed){why->code, why->message}, NULL) == CB_OK)
		(void)answer(WIRE_FAIL, buf_span(&body), NULL);
	end_all(h);
	while (!h->ended) {
		struct pollfd fds[] = {{.fd = HOLDER_SOCKET_FD, .events = POLLIN}, {.fd = HOLDER_CALLER_FD, .events = POLLIN}};
		wire_packet p = {0};
		bool end = false;
		if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
		if (fds[0].revents && wire_receive(HOLDER_SOCKET_FD, h->buffer, &p, &end, NULL) != CB_OK) end = true;
		if (end || fds[1].revents) h->ended = true;
		wire_packet_done(&p);
	}
}

/* ---- the beginning ---- */

/* Descriptors exactly as link.h says; what is missing becomes /dev/null, so that no number is given twice. */
static cb_code settle_descriptors(cb_error *err)
{
	if (close_range(HOLDER_AREA_FD + 1, ~0u, 0) != 0) return cb_err_errno(err, errno, "closing descriptors");
	for (int fd = 0; fd <= HOLDER_AREA_FD; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return cb_err_set(err, CB_IO, "no /dev/null");
		if (fd > 2) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	return CB_OK;
}

/* The descriptor that came is of the host's mount namespace, where nothing can be mounted; the working folder moved with us. */
static cb_code reopen_area(cb_error *err)
{
	AUTO_FD int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || dup3(fd, HOLDER_AREA_FD, O_CLOEXEC) < 0) return cb_err_errno(err, errno, "opening the area");
	return CB_OK;
}

static cb_code begin(holder *h, const holder_options *options, cb_error *err)
{
	struct stat st;
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
	/* The terminal's Ctrl-C is for the caller, who tells what to do. */
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++) (void)signal(ignored[i], SIG_IGN);
	(void)setsid();
	(void)umask(0);
	CB_TRY(settle_descriptors(err));
	if (setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return cb_err_errno(err, errno, "giving up rights");
	int executable = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (executable < 0) return cb_err_errno(err, errno, "opening the helper itself");
	enter_keep_executable(executable);
	h->area = fstat(HOLDER_AREA_FD, &st) == 0 && S_ISDIR(st.st_mode) ? HOLDER_AREA_FD : -1;
	if ((h->area >= 0 ? fchdir(h->area) : chdir("/")) != 0) return cb_err_errno(err, errno, "going to the area");
	CB_TRY(enter_holder(options->uid, options->weak, err));
	return h->area >= 0 ? reopen_area(err) : CB_OK;
}

int holder_main(const holder_options *options)
{
	static holder h;
	cb_error err = {0};
	h.slot = SLOT_NONE;
	h.box = SANDBOX_NONE;
	cb_code code = begin(&h, options, &err);
	if (code == CB_OK) code = loop(&h, &err);
	if (code != CB_OK && !h.ended) fail(&h, &err);
	end_all(&h);
	return code == CB_OK ? 0 : 1;
}
