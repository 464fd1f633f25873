/*
 * init.c: PID 1 of the sandbox. It waits for the holder's word on one socket and starts one command at a time.
 *
 * Adversary: the commands. They run in pid namespaces below, where this process has no number; it is not dumpable, so that nothing
 * of it can be read or traced; every signal is blocked; and it keeps only the capabilities that making a namespace takes, over this
 * sandbox alone. When the holder is gone it ends, and with it everything in the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "holder/weak.h"

enum { SOCKET = 3, PREPARE_AFTER_MS = 5, KILL_AFTER_MS = 500 };
#define CAP_BIT(n) ((uint64_t)1 << (n))

typedef struct init {
	plan plan;
	command_frame frame;
	filter_program filter;
	weak weak;
	reaper reaper;
	uint64_t commands; /* that ended */
	uint8_t buffer[WIRE_PACKET_BYTES + 8];
} init;

_Noreturn static void give_up(const cb_error *why)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	if (wire_failed_put(&body, &(wire_failed){why->code, why->message}, NULL) == CB_OK)
		(void)wire_send(SOCKET, WIRE_FAIL, buf_span(&body), NULL, 0, NULL);
	_exit(1);
}

/* ---- once ---- */

/* Nothing inherited but the socket; 0, 1 and 2 are taken, so that no descriptor that comes later has one of these numbers. */
static cb_code descriptors_settle(int socket, cb_error *err)
{
	if (dup2(socket, SOCKET) < 0 || fcntl(SOCKET, F_SETFD, FD_CLOEXEC) != 0)
		return cb_err_errno(err, errno, "cannot keep the socket");
	if (syscall(SYS_close_range, (unsigned)SOCKET + 1, ~0u, 0u) != 0)
		return cb_err_errno(err, errno, "cannot close descriptors");
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) return cb_err_errno(err, errno, "cannot open the root");
	for (int i = 0; i < 3; i++)
		if (dup3(root, i, O_CLOEXEC) < 0) return cb_err_errno(err, errno, "cannot close descriptors");
	(void)close(root);
	return CB_OK;
}

static void signals_settle(void)
{
	sigset_t all;
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	/* Commands inherit what was ignored. By the kernel's own call: libc keeps two signals to itself. */
	static const unsigned long by_default[4];
	for (int i = 1; i < NSIG; i++) (void)syscall(SYS_rt_sigaction, i, by_default, NULL, (size_t)8);
}

static cb_code plan_read(int fd, plan *out, cb_error *err)
{
	AUTO_BUF buf bytes = BUF_INIT(LIMIT_EXEC_ARGS_BYTES);
	for (;;) {
		uint8_t *at;
		CB_TRY(buf_extend(&bytes, 4096, &at, err));
		ssize_t n = read(fd, at, 4096);
		if (n < 0 && errno == EINTR) n = 0;
		else if (n == 0) {
			bytes.size -= 4096;
			break;
		}
		if (n < 0) return cb_err_errno(err, errno, "cannot read the plan");
		bytes.size -= 4096 - (size_t)n;
	}
	(void)close(fd);
	return plan_get(buf_span(&bytes), out, err);
}

/* Without namespaces: no capability is there to be kept, and the user's other processes count. */
static cb_code walls_raise_weak(init *in, cb_error *err)
{
	bool pinned = false;
	in->frame.weak = &in->weak;
	CB_TRY(limits_apply(&in->plan.limits, weak_count_others(), &pinned, err));
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return cb_err_errno(err, errno, "cannot hide from commands");
	filter_kind kind = in->plan.weak_net ? FILTER_WEAK_NET : FILTER_WEAK;
	in->frame.filter = &in->filter;
	return filter_build(kind | (pinned ? FILTER_PINNED : 0), &in->filter, err);
}

static cb_code walls_raise(init *in, cb_error *err)
{
	uint64_t down = in->plan.walls_down;
	bool pinned = false;
	if (!(down & WALL_LIMITS)) CB_TRY(limits_apply(&in->plan.limits, 0, &pinned, err));
	if (!(down & WALL_EXE) && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return cb_err_errno(err, errno, "cannot hide from commands");
	if (!(down & WALL_CAPS)) {
		CB_TRY(limits_capabilities(CAP_BIT(CAP_SYS_ADMIN) | CAP_BIT(CAP_SYS_PTRACE) | CAP_BIT(CAP_KILL), err));
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return cb_err_errno(err, errno, "cannot set no_new_privs");
	}
	if (!(down & WALL_SECCOMP)) {
		CB_TRY(filter_build(FILTER_COMMAND | (pinned ? FILTER_PINNED : 0), &in->filter, err));
		in->frame.filter = &in->filter;
	}
	return CB_OK;
}

static cb_code init_begin(init *in, int socket, int plan_fd, cb_error *err)
{
	CB_TRY(plan_read(plan_fd, &in->plan, err));
	signals_settle();
	CB_TRY(descriptors_settle(socket, err));
	umask(022);
	if (in->plan.weak) CB_TRY(weak_init(&in->weak, err));
	if (chdir("/") != 0) return cb_err_errno(err, errno, "cannot enter the root");
	command_report *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) return cb_err_errno(err, errno, "cannot share memory");
	in->frame = (command_frame){.limits = in->plan.limits, .walls_down = in->plan.walls_down, .report = shared};
	in->reaper = REAPER_NONE;
	CB_TRY(in->plan.weak ? walls_raise_weak(in, err) : walls_raise(in, err));
	return reaper_prepare(&in->frame, &in->reaper, err);
}

/* ---- messages ---- */

/* Pipes only: a file or terminal of the host could be reopened through /proc/self/fd, emptied, or typed into. */
static cb_code stdio_check(const init *in, const int fds[3], cb_error *err)
{
	for (int i = 0; i < 3; i++) {
		struct stat st;
		if (fstat(fds[i], &st) != 0) return cb_err_errno(err, errno, "cannot look at descriptor %d", i);
		if (!S_ISFIFO(st.st_mode) && !(in->plan.walls_down & WALL_STDIO))
			return cb_err_set(err, CB_DENIED, "descriptor %d of a command must be a pipe", i);
	}
	return CB_OK;
}

static cb_code exited_send(const wire_exited *exited, cb_error *err)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	CB_TRY(wire_exited_put(&body, exited, err));
	return wire_send(SOCKET, WIRE_EXITED, buf_span(&body), NULL, 0, err);
}

/* The reaper is gone, and with it all that the command left. The next one is made while nobody waits; after the first command only
 * when some time passes, as most sandboxes of the command line end then. */
static cb_code on_end(init *in, cb_error *err)
{
	wire_exited exited;
	bool was_running = in->reaper.running;
	CB_TRY(reaper_reap(&in->reaper, in->frame.report, &exited, err));
	if (in->plan.weak) weak_kill_all(); /* the command may have killed its reaper */
	if (was_running) CB_TRY(exited_send(&exited, err));
	reaper_done(&in->reaper);
	return in->commands++ > 0 ? reaper_prepare(&in->frame, &in->reaper, err) : CB_OK;
}

static cb_code on_word(init *in, cb_error *err)
{
	wire_exited exited;
	return reaper_tells(&in->reaper, in->frame.report, &exited) ? exited_send(&exited, err) : CB_OK;
}

/* The terminal takes the place of stdin, stdout and stderr. */
static cb_code command_begin_tty(init *in, const wire_run *run, span body, int *fds, size_t first, cb_error *err)
{
	AUTO_FD int master = -1, terminal = -1;
	CB_TRY(tty_open(in->plan.weak, run->rows, run->columns, &master, &terminal, err));
	for (size_t i = first; i < first + 3; i++) fds[i] = terminal;
	CB_TRY(reaper_start(&in->reaper, body, fds, first + 3, err));
	return wire_send(SOCKET, WIRE_STARTED, span_make(NULL, 0), &master, 1, err);
}

static cb_code on_run(init *in, const wire_packet *p, cb_error *err)
{
	if (in->reaper.running) return cb_err_set(err, CB_BUSY, "a command is running");
	if (in->reaper.told) CB_TRY(on_end(in, err));
	if (!in->reaper.pid) CB_TRY(reaper_prepare(&in->frame, &in->reaper, err));
	AUTO_BUF buf hold = BUF_INIT(LIMIT_EXEC_ARGS_BYTES);
	span body;
	size_t first;
	wire_run run;
	CB_TRY(run_body(p, &hold, &body, &first, err));
	CB_TRY(wire_run_get(body, &run, err));
	int fds[4] = {first ? p->fds[0] : -1, -1, -1, -1};
	if (run.tty) return command_begin_tty(in, &run, p->body, fds, first, err);
	if (p->fd_count != first + 3)
		return cb_err_set(err, CB_CORRUPT, "a command needs 3 descriptors, not %zu", p->fd_count - first);
	memcpy(fds + first, p->fds + first, 3 * sizeof(int));
	CB_TRY(stdio_check(in, fds + first, err));
	CB_TRY(reaper_start(&in->reaper, p->body, fds, first + 3, err));
	return wire_send(SOCKET, WIRE_STARTED, span_make(NULL, 0), NULL, 0, err);
}

static cb_code on_packet(init *in, cb_error *err)
{
	wire_packet p;
	bool end;
	CB_TRY(wire_receive(SOCKET, in->buffer, &p, &end, err));
	if (end) {
		if (in->plan.weak) weak_kill_all();
		_exit(0);
	}
	cb_code code = CB_OK;
	if (p.type == WIRE_RUN) {
		code = on_run(in, &p, err);
	} else if (p.type == WIRE_SIGNAL) {
		wire_signal s;
		code = wire_signal_get(p.body, &s, err);
		if (code == CB_OK) reaper_signal(&in->reaper, &s);
	} else {
		code = cb_err_set(err, CB_CORRUPT, "message %d is not for init", (int)p.type);
	}
	wire_packet_done(&p);
	return code;
}

static cb_code init_loop(init *in, cb_error *err)
{
	for (;;) {
		struct pollfd look[] = {{.fd = SOCKET, .events = POLLIN},
		                        {.fd = in->reaper.pidfd, .events = POLLIN},
		                        {.fd = in->reaper.running ? in->reaper.socket : -1, .events = POLLIN}};
		int ready = poll(look, ARRAY_LEN(look), in->reaper.dying ? KILL_AFTER_MS : in->reaper.pid ? -1 : PREPARE_AFTER_MS);
		if (ready < 0 && errno == EINTR) continue;
		if (ready < 0) return cb_err_errno(err, errno, "cannot wait");
		if (ready == 0 && in->reaper.dying) reaper_kill(&in->reaper);
		else if (ready == 0) CB_TRY(reaper_prepare(&in->frame, &in->reaper, err));
		if (look[2].revents & POLLIN) CB_TRY(on_word(in, err));
		if (look[1].revents) CB_TRY(on_end(in, err));
		if (look[0].revents) CB_TRY(on_packet(in, err));
	}
}

_Noreturn void init_main(int socket, int plan_fd)
{
	static init in;
	cb_error err = {0};
	cb_code code = init_begin(&in, socket, plan_fd, &err);
	if (code == CB_OK) code = init_loop(&in, &err);
	(void)code;
	give_up(&err);
}
