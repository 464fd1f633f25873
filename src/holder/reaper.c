/*
 * reaper.c: PID 1 of a command's own pid and mount namespace. It mounts /proc, starts the command (PID 2), reaps what is left to
 * it, passes signals on and watches memory. When the command ends it tells init how and ends: the kernel then kills whatever the
 * command left running, daemons included.
 *
 * It blocks every signal and takes them one by one; init's wishes come as one real-time signal with a value. The command may send
 * it too: it can only ask for what it could do to its own processes itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "holder/weak.h"

enum {
	REAPER_SOCKET = 0,         /* once the command runs: its only descriptor */
	ORPHANED = 62,             /* without namespaces: init is gone */
	WISH = 63,                 /* the last real-time signal */
	WISH_EVERYBODY = 256,      /* or'ed to the signal that is wished for */
	WATCH_PAUSE_NS = 20000000, /* between two looks at memory; longer when a look takes long */
	WATCH_PAUSE_MAX_NS = 200000000,
	WATCH_SHARE = 20, /* of the time at most one in so many parts is spent on looking */
};

static int64_t timeval_ns(struct timeval t)
{
	return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000;
}

/* ---- in init ---- */

_Noreturn static void reaper_run(const command_frame *f, int socket);

cb_code reaper_prepare(const command_frame *frame, reaper *out, cb_error *err)
{
	unsigned long flags = SIGCHLD | CLONE_PIDFD;
	bool alone = !frame->weak && !(frame->walls_down & WALL_PID);
	if (alone) flags |= CLONE_NEWPID | CLONE_NEWNS;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return cb_err_errno(err, errno, "cannot make a socket");
	AUTO_FD int ours = pair[0], theirs = pair[1];
	memset(frame->report, 0, sizeof(*frame->report));
	int pidfd = -1;
	/* As fork(): no stack given. Nothing of libc runs at a fork, and there is one thread. */
	long pid = syscall(SYS_clone, flags, NULL, &pidfd, NULL, NULL);
	if (pid < 0) return cb_err_errno(err, errno, "cannot make the command's namespaces");
	if (pid == 0) reaper_run(frame, theirs);
	*out = (reaper){.pid = (pid_t)pid, .pidfd = pidfd, .socket = TAKE_FD(ours), .mounts = -1, .weak = frame->weak};
	if (alone) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/proc/%ld/ns/mnt", pid);
		out->mounts = open(path, O_RDONLY | O_CLOEXEC); /* -1: it only takes longer */
	}
	return CB_OK;
}

cb_code reaper_start(reaper *r, span body, const int *fds, size_t fd_count, cb_error *err)
{
	CB_TRY(wire_send(r->socket, WIRE_RUN, body, fds, fd_count, err));
	r->running = true;
	return CB_OK;
}

void reaper_kill(const reaper *r)
{
	(void)syscall(SYS_pidfd_send_signal, r->pidfd, SIGKILL, NULL, 0);
}

void reaper_signal(reaper *r, const wire_signal *s)
{
	if (!r->running || s->signal <= 0 || s->signal > SIGRTMAX) return;
	r->dying |= s->signal == SIGKILL && s->everybody;
	siginfo_t info = {.si_signo = WISH, .si_code = SI_QUEUE};
	info.si_value.sival_int = s->signal | (s->everybody ? WISH_EVERYBODY : 0);
	/* The program may have filled the queue of signals. */
	if (syscall(SYS_pidfd_send_signal, r->pidfd, WISH, &info, 0) != 0 && r->dying) reaper_kill(r);
}

cb_code reaper_reap(reaper *r, const command_report *report, wire_exited *out, cb_error *err)
{
	int status;
	struct rusage used;
	while (wait4(r->pid, &status, __WALL, &used) < 0)
		if (errno != EINTR) return cb_err_errno(err, errno, "cannot wait for the command");
	r->pid = 0;
	r->running = r->dying = false;
	if (report->broken) return cb_err_errno(err, report->status, "%s", report->reason);
	*out = (wire_exited){
		.end = report->end ? report->end : WIRE_END_STATUS,
		.status = report->end ? report->status : status,
		.started_ns = report->started_ns,
		.ended_ns = report->ended_ns ? report->ended_ns : clock_monotonic_ns(),
		.user_ns = timeval_ns(used.ru_utime) - report->own_user_ns,
		.system_ns = timeval_ns(used.ru_stime) - report->own_system_ns,
		.peak_bytes = (uint64_t)used.ru_maxrss << 10,
		.reason = report->reason,
	};
	return CB_OK;
}

bool reaper_tells(reaper *r, const command_report *report, wire_exited *out)
{
	char word;
	if (r->told || recv(r->socket, &word, 1, MSG_DONTWAIT) != 1) return false;
	r->told = true;
	r->running = r->dying = false;
	*out = (wire_exited){
		.end = report->end,
		.status = report->status,
		.started_ns = report->started_ns,
		.ended_ns = report->ended_ns,
		.user_ns = report->user_ns,
		.system_ns = report->system_ns,
		.peak_bytes = report->peak_bytes,
		.reason = report->reason,
	};
	return true;
}

void reaper_done(reaper *r)
{
	if (r->pidfd >= 0) (void)close(r->pidfd);
	if (r->socket >= 0) (void)close(r->socket);
	if (r->mounts >= 0) (void)close(r->mounts);
	*r = REAPER_NONE;
}

/* ---- in the reaper ---- */

_Noreturn static void broken(const command_frame *f, int error, const char *doing)
{
	command_report *r = f->report;
	r->broken = true;
	r->status = error;
	(void)snprintf(r->reason, sizeof(r->reason), "%s", doing);
	_exit(1);
}

static void proc_mount(const command_frame *f)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	if (mount("proc", "/proc", "proc", flags, NULL) != 0) broken(f, errno, "cannot mount /proc");
	if (f->walls_down & WALL_PROC_SYS) return;
	/* The files of /proc that could harm the machine belong to the real root, which no one here is; what the namespaces of a
	 * box own is in /proc/sys, and among it how many user namespaces it may make. */
	if (mount("/proc/sys", "/proc/sys", NULL, MS_BIND, NULL) != 0) broken(f, errno, "cannot bind /proc/sys");
	if (mount(NULL, "/proc/sys", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | flags, NULL) != 0)
		broken(f, errno, "cannot make /proc/sys read-only");
	/* Keys have no namespace: whoever is the caller on the host sees the names of the caller's. A device where devices are not
	 * is closed. */
	static const char *const keys[] = {"/proc/keys", "/proc/key-users"};
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (mount("/dev/null", keys[i], NULL, MS_BIND, NULL) != 0) {
			if (errno == ENOENT) continue;
			broken(f, errno, "cannot hide keys");
		}
		if (mount(NULL, keys[i], NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | flags, NULL) != 0)
			broken(f, errno, "cannot hide keys");
	}
}

/* Shared memory that one command left is not the next one's, in name or in size. */
static void shm_mount(const command_frame *f)
{
	struct statfs fs;
	char options[64];
	if (statfs("/dev/shm", &fs) != 0 || fs.f_type != TMPFS_MAGIC) return;
	(void)snprintf(options, sizeof(options), "mode=1777,size=%llu",
	               (unsigned long long)fs.f_blocks * (unsigned long long)fs.f_bsize);
	if (mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
		broken(f, errno, "cannot mount /dev/shm");
}

/* A process that is stopped must be continued to see a signal that ends it. */
static void grant(const command_frame *f, pid_t program, int wish)
{
	int signal = wish & (WISH_EVERYBODY - 1);
	if (wish & WISH_EVERYBODY && f->weak) {
		(void)weak_signal_all(signal);
		(void)weak_signal_all(SIGCONT);
	} else if (wish & WISH_EVERYBODY) {
		(void)kill(-1, signal);
		(void)kill(-1, SIGCONT);
	} else if (kill(-program, signal) != 0) {
		(void)kill(program, signal);
	}
}

/* Whoever loses its parent becomes ours: without children, nobody is left in the namespace, and init need not wait until it is
 * taken down. */
static void tell(const command_frame *f)
{
	struct rusage used;
	command_report *r = f->report;
	if (getrusage(RUSAGE_CHILDREN, &used) != 0) return;
	r->user_ns = timeval_ns(used.ru_utime);
	r->system_ns = timeval_ns(used.ru_stime);
	r->peak_bytes = (uint64_t)used.ru_maxrss << 10;
	(void)send(REAPER_SOCKET, "e", 1, MSG_NOSIGNAL);
}

/* The kernel would end what is left in the namespace of its first process, but forget what it used. */
_Noreturn static void leave(const command_frame *f)
{
	if (f->weak) weak_kill_all();
	else if (!(f->walls_down & WALL_PID)) (void)kill(-1, SIGKILL);
	while (waitpid(-1, NULL, f->weak ? WNOHANG | __WALL : __WALL) > 0) {
	}
	if (errno == ECHILD) tell(f);
	_exit(0);
}

static void reap(const command_frame *f, pid_t program)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		if (pid != program) continue;
		command_report *r = f->report;
		r->ended_ns = clock_monotonic_ns();
		r->status = status;
		r->end = WIRE_END_STATUS;
		leave(f);
	}
}

_Noreturn static void end_by(const command_frame *f, wire_end end, const char *what, uint64_t bound)
{
	command_report *r = f->report;
	r->ended_ns = clock_monotonic_ns();
	r->end = end;
	r->status = SIGKILL;
	(void)snprintf(r->reason, sizeof(r->reason), "%s: more than %.4g MiB", what, (double)bound / (1 << 20));
	leave(f);
}

/* Who cannot look any more takes the worst for granted: the program may have seen to it. */
static void bounds_check(const command_frame *f, int proc)
{
	bool over = false;
	bool (*ours)(pid_t) = f->weak ? weak_is_ours : NULL;
	const plan_limits *l = &f->limits;
	if (f->weak) (void)weak_signal_all(0);
	if (l->memory_bytes && (watch_memory_look(proc, l->memory_bytes, ours, &over, NULL) != CB_OK || over))
		end_by(f, WIRE_END_MEMORY, "memory", l->memory_bytes);
	if (l->disk_bytes && (watch_unlinked_look(proc, l->disk_bytes, ours, &over, NULL) != CB_OK || over))
		end_by(f, WIRE_END_DISK, "disk: files without a name", l->disk_bytes);
}

_Noreturn static void watch_and_wait(const command_frame *f, pid_t program)
{
	sigset_t all;
	sigfillset(&all);
	bool watched = (f->limits.memory_bytes != 0 || f->limits.disk_bytes != 0) && !(f->walls_down & WALL_LIMITS);
	int proc = watched ? open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int64_t pause_ns = WATCH_PAUSE_NS, next = clock_monotonic_ns() + pause_ns;
	for (;;) {
		struct timespec timeout = {.tv_nsec = pause_ns};
		siginfo_t info;
		int signal = sigtimedwait(&all, &info, watched ? &timeout : NULL);
		if (signal == SIGCHLD) reap(f, program);
		if (signal == ORPHANED && f->weak) leave(f);
		if (signal == WISH) grant(f, program, info.si_value.sival_int);
		int64_t now = watched ? clock_monotonic_ns() : 0;
		if (!watched || now < next) continue;
		bounds_check(f, proc);
		int64_t took = clock_monotonic_ns() - now;
		pause_ns = took * WATCH_SHARE > WATCH_PAUSE_NS ? took * WATCH_SHARE : WATCH_PAUSE_NS;
		if (pause_ns > WATCH_PAUSE_MAX_NS) pause_ns = WATCH_PAUSE_MAX_NS;
		next = now + pause_ns;
	}
}

cb_code run_body(const wire_packet *p, buf *hold, span *out, size_t *out_first_fd, cb_error *err)
{
	*out = p->body;
	*out_first_fd = 0;
	if (p->body.size != 0) return CB_OK;
	struct stat st;
	if (p->fd_count == 0 || fstat(p->fds[0], &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > LIMIT_EXEC_ARGS_BYTES)
		return cb_err_set(err, CB_CORRUPT, "a command without arguments");
	uint8_t *at;
	CB_TRY(buf_extend(hold, (size_t)st.st_size, &at, err));
	CB_TRY(io_pread_all(p->fds[0], at, (size_t)st.st_size, 0, NULL, err));
	*out = buf_span(hold);
	*out_first_fd = 1;
	return CB_OK;
}

/* Waits for the command; its memory stays until this process ends. */
static cb_code command_take(const command_frame *f, int socket, command *out, cb_error *err)
{
	static uint8_t buffer[WIRE_PACKET_BYTES + 8];
	static wire_packet p;
	static buf hold = {.max_size = LIMIT_EXEC_ARGS_BYTES};
	bool end;
	CB_TRY(wire_receive(socket, buffer, &p, &end, err));
	if (end) _exit(0);
	span body;
	size_t first;
	wire_run run;
	void *vectors;
	CB_TRY(run_body(&p, &hold, &body, &first, err));
	CB_TRY(wire_run_get(body, &run, err));
	if (p.fd_count - first != 3) return cb_err_set(err, CB_CORRUPT, "a command needs 3 descriptors");
	CB_TRY(command_make(out, f, &run, p.fds + first, &vectors, err));
	return f->weak ? weak_place(f->weak, out, err) : CB_OK;
}

_Noreturn static void reaper_run(const command_frame *f, int socket)
{
	if (!f->weak && !(f->walls_down & WALL_PID)) {
		proc_mount(f);
		shm_mount(f);
	}
	if (f->weak && (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, ORPHANED, 0, 0, 0) != 0))
		broken(f, errno, "cannot keep track of processes");
	if (f->filter && filter_install(f->filter, NULL) != CB_OK) broken(f, errno, "cannot filter system calls");
	cb_error err;
	command c;
	if (command_take(f, socket, &c, &err) != CB_OK) {
		errno = EPROTO;
		broken(f, errno, err.message);
	}
	struct rusage used;
	if (getrusage(RUSAGE_SELF, &used) == 0) {
		f->report->own_user_ns = timeval_ns(used.ru_utime);
		f->report->own_system_ns = timeval_ns(used.ru_stime);
	}
	pid_t program = command_spawn(&c);
	if (program < 0) _exit(0);
	/* The ends of the command's pipes must not stay open here: who reads or writes at the other end would not see it go. */
	if (dup2(socket, REAPER_SOCKET) == REAPER_SOCKET) (void)syscall(SYS_close_range, REAPER_SOCKET + 1u, ~0u, 0u);
	watch_and_wait(f, program);
}
