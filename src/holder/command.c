/*
 * command.c: the last steps before a program of the box runs, in the process that becomes it.
 *
 * The child shares the reaper's memory until it is executed (as posix_spawn does it: a copy of the page tables costs more than all
 * the rest), so it allocates nothing, and what went wrong it leaves in the report.
 *
 * Adversary: what is executed and every path on the way there. All descriptors but 0, 1 and 2 are closed before the first path is
 * looked at: /proc/self/fd/N is no way to a folder of the host (CVE-2024-21626), neither as working folder nor as program.
 */
#include "holder/command.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "holder/weak.h"

#include "base/clock.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

enum { STACK_BYTES = 64 << 10 };

/* ---- in the parent ---- */

static void vector_fill(char **to, const wire_strings *list)
{
	for (const char *s = NULL; (s = wire_strings_next(list, s));) *to++ = (char *)(uintptr_t)s;
	*to = NULL;
}

cb_code command_make(command *c, const command_frame *frame, const wire_run *run, const int fds[3], void **out_vectors,
                     cb_error *err)
{
	if (run->argv.count == 0 || !run->cwd) return cb_err_set(err, CB_INVALID, "nothing to run");
	char **vectors = mem_alloc((run->argv.count + run->env.count + 3) * sizeof(char *));
	if (!vectors) return cb_err_nomem(err);
	*c = (command){.frame = frame,
	               .argv = vectors + 1,
	               .env = vectors + 1 + run->argv.count + 1,
	               .cwd = run->cwd,
	               .path = DEFAULT_PATH,
	               .fds = {fds[0], fds[1], fds[2]},
	               .tty = run->tty};
	vector_fill(c->argv, &run->argv);
	vector_fill(c->env, &run->env);
	for (char **e = c->env; *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0) c->path = *e + 5;
	*out_vectors = vectors;
	return CB_OK;
}

/* ---- in the child ---- */

static void close_others(void)
{
	if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0) return;
	struct rlimit most;
	int end = getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_max < (1 << 20) ? (int)most.rlim_max : 1 << 20;
	for (int fd = 3; fd < end; fd++) (void)close(fd);
}

_Noreturn static void fail(const command *c, wire_end end, int error, const char *doing)
{
	command_report *r = c->frame->report;
	r->end = end;
	r->status = error;
	(void)snprintf(r->reason, sizeof(r->reason), "%s", doing);
	_exit(1);
}

/* A folder that has a name in this root, and is no door of /proc. */
static bool cwd_is_inside(void)
{
	char path[LIMIT_PATH_BYTES];
	long n = syscall(SYS_getcwd, path, sizeof(path));
	if (n <= 0) return errno == ERANGE; /* deeper than a path can say: still below the root */
	return path[0] == '/' && !(strncmp(path, "/proc", 5) == 0 && (path[5] == 0 || path[5] == '/'));
}

static void stdio_set(const command *c)
{
	if (setsid() < 0) fail(c, WIRE_END_NOT_RUN, errno, "cannot begin a session");
	if (c->tty && ioctl(c->fds[0], TIOCSCTTY, 0) != 0) fail(c, WIRE_END_NOT_RUN, errno, "cannot take the terminal");
	for (int i = 0; i < 3; i++)
		if (dup2(c->fds[i], i) < 0) fail(c, WIRE_END_NOT_RUN, errno, "cannot set up input and output");
}

/* The filter is the reaper's, inherited. */
static void privileges_drop(const command *c)
{
	const command_frame *f = c->frame;
	if (!(f->walls_down & WALL_CAPS)) {
		int error = limits_capabilities_none();
		if (error) fail(c, WIRE_END_NOT_RUN, error, "cannot drop capabilities");
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(c, WIRE_END_NOT_RUN, errno, "cannot set no_new_privs");
	}
	int error = f->weak ? weak_confine(f->weak, c->cwd) : 0;
	if (error) fail(c, WIRE_END_NOT_RUN, error, "cannot enter the working folder and confine the command");
}

/* One try; a file without a "#!" line that is no program is a script of the shell, as execvp has it. */
static void execute(const command *c, const char *path)
{
	(void)execve(path, c->argv, c->env);
	if (errno != ENOEXEC) return;
	char *name = c->argv[0];
	c->argv[-1] = (char *)(uintptr_t) "/bin/sh";
	c->argv[0] = (char *)(uintptr_t)path;
	(void)execve("/bin/sh", c->argv - 1, c->env);
	c->argv[0] = name;
}

/* 0 is never given: it returns only when nothing could be executed. */
static int execute_by_path(const command *c)
{
	const char *name = c->argv[0];
	if (strchr(name, '/')) {
		execute(c, name);
		return errno;
	}
	if (!name[0] || strlen(name) > LIMIT_NAME_BYTES) return ENOENT;
	int denied = ENOENT;
	for (const char *at = c->path; at;) {
		const char *end = strchrnul(at, ':');
		char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
		int n = (int)(end - at);
		if (n < LIMIT_PATH_BYTES) {
			(void)snprintf(path, sizeof(path), "%.*s%s%s", n, at, n ? "/" : "", name);
			execute(c, path);
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return errno;
			if (errno == EACCES) denied = EACCES;
		}
		at = *end ? end + 1 : NULL;
	}
	return denied;
}

static void cwd_enter(const command *c)
{
	if (chdir(c->cwd) != 0) fail(c, WIRE_END_NOT_RUN, errno, "cannot enter the working folder");
	if (!(c->frame->walls_down & WALL_FDS) && !cwd_is_inside())
		fail(c, WIRE_END_NOT_RUN, EACCES, "the working folder is not in the box");
}

static int child_main(void *context)
{
	const command *c = context;
	stdio_set(c);
	privileges_drop(c);
	if (!(c->frame->walls_down & WALL_FDS)) close_others();
	else
		for (int fd = 3; fd < 64; fd++) (void)fcntl(fd, F_SETFD, 0); /* as if each had been forgotten */
	if (!c->frame->weak) cwd_enter(c);
	sigset_t none;
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	int error = execute_by_path(c);
	fail(c, error == ENOENT ? WIRE_END_NOT_FOUND : WIRE_END_NOT_RUN, error, "");
}

pid_t command_spawn(const command *c)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	command_report *r = c->frame->report;
	r->started_ns = clock_monotonic_ns();
	pid_t pid = clone(child_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)(uintptr_t)c);
	if (pid < 0) {
		r->end = WIRE_END_NOT_RUN;
		r->status = errno;
		(void)snprintf(r->reason, sizeof(r->reason), "cannot make a process");
	}
	if (!r->end) return pid;
	r->ended_ns = clock_monotonic_ns();
	return -1;
}
