/* attack_process.c: other processes: looking at them, stopping them, becoming them. */
#include "sandbox/attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Calls visit for every process in /proc until it says so. */
static outcome each_process(outcome (*visit)(pid_t pid), const char *nothing)
{
	DIR *proc = opendir("/proc");
	if (!proc) return untried("/proc: %s", strerror(errno));
	struct dirent *e;
	outcome o = HELD;
	int seen = 0;
	while ((e = readdir(proc)) && o != BROKEN) {
		pid_t pid = (pid_t)atoi(e->d_name);
		if (pid <= 0) continue;
		seen++;
		o = visit(pid);
	}
	closedir(proc);
	if (o == BROKEN) return o;
	return seen ? held("%s (%d processes)", nothing, seen) : untried("/proc is empty");
}

static bool is_family(pid_t pid)
{
	return pid == 1 || getsid(pid) == getsid(0);
}

static outcome is_other(pid_t pid)
{
	return is_family(pid) || (getsid(pid) < 0 && errno == ESRCH) ? HELD : broken("sees process %d", (int)pid);
}

static outcome proc_others(void)
{
	return each_process(is_other, "only init and its own");
}

static outcome leaks(pid_t pid)
{
	static const char *const names[] = {"environ", "cmdline", "auxv", "task/1/environ"};
	static char bytes[1 << 18];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, names[i]);
		long got = slurp(path, bytes, sizeof bytes);
		if (got > 0 && has_canary(bytes, (size_t)got)) return broken("a canary in %s", path);
	}
	return HELD;
}

static outcome env_leak(void)
{
	for (char **e = environ; *e; e++)
		if (has_canary(*e, strlen(*e))) return broken("the environment: %s", *e);
	return each_process(leaks, "no canary in any environment or command line");
}

/* Process 1 is the reaper: its memory, descriptors and names would lead to the helper and its socket. */
static outcome proc1(const char *name, int flags)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/1/%s", name);
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) return held("%s: %s", path, strerror(errno));
	char bytes[64];
	/* Some are opened by anybody and refuse to be read. */
	if (flags == O_RDONLY && read(fd, bytes, sizeof bytes) <= 0 && errno != EISDIR && errno != EIO) {
		outcome o = held("%s: nothing to read", path);
		close(fd);
		return o;
	}
	close(fd);
	return broken("%s opened", path);
}

static outcome proc1_root(void)
{
	return worse(proc1("root", O_RDONLY | O_DIRECTORY), proc1("root/", O_PATH));
}

static outcome proc1_cwd(void)
{
	return worse(proc1("cwd", O_RDONLY | O_DIRECTORY), proc1("cwd/", O_PATH));
}

static outcome proc1_fd(void)
{
	outcome o = worse(proc1("fd", O_RDONLY | O_DIRECTORY), proc1("fdinfo", O_RDONLY | O_DIRECTORY));
	for (int i = 0; i < 16; i++) {
		char name[16];
		snprintf(name, sizeof name, "fd/%d", i);
		o = worse(o, proc1(name, O_RDONLY));
	}
	return o;
}

static outcome proc1_mem(void)
{
	return worse(proc1("mem", O_RDWR), proc1("mem", O_RDONLY));
}

static outcome proc1_environ(void)
{
	return proc1("environ", O_RDONLY);
}

static outcome proc1_maps(void)
{
	outcome o = worse(proc1("maps", O_RDONLY), proc1("smaps", O_RDONLY));
	return worse(o, worse(proc1("auxv", O_RDONLY), proc1("stack", O_RDONLY)));
}

/* /proc/1/exe is the helper's file: a write to it is code on the host (CVE-2019-5736). */
static outcome proc1_exe(void)
{
	outcome o = worse(proc1("exe", O_WRONLY), proc1("exe", O_RDONLY));
	o = worse(o, proc1("exe", O_PATH));
	char target[256];
	ssize_t size = readlink("/proc/1/exe", target, sizeof target - 1);
	if (size > 0) {
		target[size] = 0;
		o = worse(o, broken("/proc/1/exe is %s", target));
	}
	return o;
}

/* Whatever runs here and is not a file of the box or the system: opened for writing, then again through its descriptor. */
static outcome writable_exe(pid_t pid)
{
	char path[64], again[64];
	snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	struct stat theirs, mine;
	if (stat(path, &theirs) || stat("/proc/self/exe", &mine)) return HELD;
	if (theirs.st_dev == mine.st_dev && theirs.st_ino == mine.st_ino) return HELD;
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) return HELD;
	snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
	int writing = open(again, O_WRONLY | O_CLOEXEC);
	bool busy = writing < 0 &&
	            errno == ETXTBSY; /* while it runs; the kernel asks that first, and only then whether the mount is read-only */
	if (writing >= 0) close(writing);
	bool moded = !chmod(again, theirs.st_mode & 0777), read_only = !moded && errno == EROFS;
	close(fd);
	if (writing >= 0 || (busy && !read_only) || moded) return broken("the program of process %d can be written", (int)pid);
	return HELD;
}

static outcome exe_of_others(void)
{
	return each_process(writable_exe, "no program that runs here can be written");
}

static outcome ptrace_init(void)
{
	outcome o = HELD;
	long got = ptrace(PTRACE_SEIZE, 1, 0, 0);
	if (!got) {
		o = broken("PTRACE_SEIZE of process 1");
		ptrace(PTRACE_DETACH, 1, 0, 0);
	}
	got = ptrace(PTRACE_ATTACH, 1, 0, 0);
	if (!got) {
		waitpid(1, NULL, __WALL);
		ptrace(PTRACE_DETACH, 1, 0, 0);
		return broken("PTRACE_ATTACH of process 1");
	}
	return o == BROKEN ? o : held("ptrace of process 1: %s", strerror(errno));
}

static outcome vm_init(void)
{
	char bytes[16];
	struct iovec here = {bytes, sizeof bytes}, there = {(void *)0x400000, sizeof bytes};
	outcome o = refused("process_vm_readv of process 1", process_vm_readv(1, &here, 1, &there, 1, 0));
	return worse(o, refused("process_vm_writev of process 1", process_vm_writev(1, &here, 1, &there, 1, 0)));
}

static outcome pidfd_init(void)
{
	long fd = syscall(SYS_pidfd_open, 1, 0);
	if (fd < 0) return held("pidfd_open: %s", strerror(errno));
	outcome o = HELD;
	for (int i = 0; i < 16 && o != BROKEN; i++)
		if (syscall(SYS_pidfd_getfd, fd, i, 0) >= 0) o = broken("descriptor %d of process 1", i);
	int code = errno;
	close((int)fd);
	return o == BROKEN ? o : held("pidfd_getfd: %s", strerror(code));
}

static outcome kcmp_init(void)
{
	/* KCMP_FILE of descriptor 0 with ours. */
	return refused("kcmp with process 1", syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
}

static outcome limits_of_init(void)
{
	struct rlimit none = {0, 0};
	outcome o = refused("prlimit of process 1", prlimit(1, RLIMIT_NPROC, NULL, &none) ? -1 : 0);
	return o;
}

/* Whoever watches the bounds must not be put to sleep by who is watched. What is set is what was: harmless where it is let in. */
static outcome slow_init(void)
{
	struct {
		int priority;
	} none = {0};
	unsigned long processors[16] = {0};
	int nice = getpriority(PRIO_PROCESS, 0);
	outcome o = refused("scheduling of process 1", syscall(SYS_sched_setscheduler, 1, 0, &none));
	o = worse(o, refused("the priority of process 1", setpriority(PRIO_PROCESS, 1, nice)));
	o = worse(o, refused("the priority of all of the user", setpriority(PRIO_USER, 0, nice)));
	syscall(SYS_sched_getaffinity, 0, sizeof processors, processors);
	return worse(o, refused("processors of process 1", syscall(SYS_sched_setaffinity, 1, sizeof processors, processors)));
}

/* Every signal at process 1: it must go on, and everybody with it. */
static outcome signal_init(void)
{
	for (int s = 1; s < 65; s++)
		if (s != SIGKILL && s != SIGSTOP && s != SIGCHLD) signal(s, SIG_IGN);
	for (int round = 0; round < 3; round++)
		for (int s = 1; s < 65; s++) kill(1, s);
	usleep(300000);
	char state[256] = "";
	if (slurp("/proc/1/stat", state, sizeof state - 1) <= 0) return broken("process 1 is gone");
	const char *after = strrchr(state, ')');
	if (after && (after[2] == 'T' || after[2] == 't' || after[2] == 'Z')) return broken("process 1 is in state %c", after[2]);
	return held("process 1 goes on");
}

static outcome can_signal(pid_t pid)
{
	if (is_family(pid) || kill(pid, 0)) return HELD;
	return broken("process %d is within reach of kill", (int)pid);
}

static outcome kill_outside(void)
{
	for (pid_t pid = 2; pid < 65536; pid++)
		if (can_signal(pid) == BROKEN) return BROKEN;
	const char *text = param("pid");
	if (text && !kill((pid_t)atoi(text), 0) && !is_family((pid_t)atoi(text))) return broken("process %s of the host", text);
	return held("no process but its own answers");
}

/* Judged by the test: its own processes must be alive, with the priority they had. */
static outcome kill_everyone(void)
{
	if (setpriority(PRIO_USER, 0, 19)) errno = 0;
	kill(-1, SIGTERM);
	kill(-1, SIGKILL);
	return held("kill -1 came back");
}

static outcome leaked_fds(void)
{
	for (int fd = 3; fd < 65536; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			char path[64], target[256] = "?";
			snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
			if (readlink(path, target, sizeof target - 1) < 0) target[0] = '?';
			return broken("descriptor %d: %s", fd, target);
		}
	return held("no descriptor above 2");
}

static outcome stdio_kind(void)
{
	for (int fd = 0; fd < 3; fd++) {
		struct stat st;
		if (fstat(fd, &st)) continue;
		if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISBLK(st.st_mode))
			return broken("descriptor %d is the caller's file (mode %o)", fd, st.st_mode);
		if (isatty(fd) && (!ttyname(fd) || access(ttyname(fd), F_OK)))
			return broken("descriptor %d is a terminal of the host", fd);
	}
	return held("pipes, /dev/null or a terminal of its own");
}

/* `: >/proc/self/fd/1`; the test also looks at the log. */
static outcome stdout_truncate(void)
{
	outcome o = HELD;
	for (int fd = 0; fd < 3; fd++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		int again = open(path, O_WRONLY | O_TRUNC | O_NONBLOCK | O_CLOEXEC);
		struct stat st;
		if (again >= 0 && !fstat(again, &st) && S_ISREG(st.st_mode))
			o = broken("emptied the file behind descriptor %d", fd);
		if (again >= 0) close(again);
		if (!ftruncate(fd, 0)) o = broken("emptied descriptor %d", fd);
	}
	return o == BROKEN ? o : held("there is no file behind it");
}

static outcome become(void)
{
	outcome o = HELD;
	for (uid_t id = 0; id < 3; id++) {
		if (geteuid() == id) {
			if (id == 0) o = broken("is uid 0");
			continue;
		}
		if (!setresuid(id, id, id) || !setuid(id) || !seteuid(id) || geteuid() == id) return broken("became uid %u", id);
		if (getegid() != id && (!setresgid(id, id, id) || !setgid(id))) return broken("became gid %u", id);
	}
	gid_t groups[2] = {0, 27};
	if (!syscall(SYS_setgroups, 2, groups)) return broken("joined groups 0 and 27");
	if (syscall(SYS_setfsuid, 0) >= 0 && syscall(SYS_setfsuid, -1) == 0) return broken("filesystem uid 0");
	return o == BROKEN ? o : held("stays uid %u", geteuid());
}

static outcome run_setuid(const char *path)
{
	int out[2];
	if (pipe(out)) return untried("pipe: %s", strerror(errno));
	pid_t child = fork();
	if (!child) {
		dup2(out[1], 1);
		execl(path, path, "--euid", (char *)NULL);
		_exit(errno == ENOENT ? 3 : 2);
	}
	close(out[1]);
	char text[64] = "";
	if (read(out[0], text, sizeof text - 1) < 0) text[0] = 0;
	close(out[0]);
	int status = 0;
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return untried("%s is not there", path);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return held("it does not run");
	unsigned uid = 0, gid = 0;
	if (sscanf(text, "%u %u", &uid, &gid) != 2) return untried("it said '%s'", text);
	return uid == geteuid() && gid == getegid() ? held("it runs as uid %u, as before", uid)
	                                            : broken("it ran as uid %u gid %u", uid, gid);
}

static outcome setuid_run(void)
{
	return try_param("setuid", run_setuid);
}

static outcome raise_limits(void)
{
	outcome o = HELD;
	for (int r = 0; r < RLIM_NLIMITS; r++) {
		struct rlimit64 was, more = {RLIM64_INFINITY, RLIM64_INFINITY};
		if (prlimit64(0, r, NULL, &was) || was.rlim_max == RLIM64_INFINITY) continue;
		if (r == RLIMIT_NOFILE) more.rlim_cur = more.rlim_max = was.rlim_max + 1;
		if (!prlimit64(0, r, &more, NULL)) o = broken("limit %d raised", r);
	}
	return o == BROKEN ? o : held("no limit can be raised");
}

static outcome priority(void)
{
	errno = 0;
	if (!setpriority(PRIO_PROCESS, 0, -5)) return broken("a higher priority");
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t got = write(fd, "-1000", 5);
		close(fd);
		if (got == 5) return broken("oom_score_adj -1000");
	}
	struct {
		int priority;
	} fifo = {1};
	if (!syscall(SYS_sched_setscheduler, 0, 1, &fifo)) return broken("real-time scheduling");
	return held("no higher priority, no real time, no exemption from the memory killer");
}

const attack attacks_process[] = {
	{"proc-others", "pid", "looks for processes of others in /proc", "a pid namespace and /proc of its own", PROOF | WEAK,
         proc_others},
	{"env-leak", "fds", "looks for a value of the caller's environment in every process",
         "nothing of the environment is passed on", 0, env_leak},
	{"proc1-root", "pid", "enters /proc/1/root", "process 1 is not dumpable", 0, proc1_root},
	{"proc1-cwd", "pid", "enters /proc/1/cwd", "process 1 is not dumpable", 0, proc1_cwd},
	{"proc1-fd", "pid", "opens descriptors of process 1", "process 1 is not dumpable", 0, proc1_fd},
	{"proc1-mem", "pid", "opens the memory of process 1", "process 1 is not dumpable", 0, proc1_mem},
	{"proc1-environ", "pid", "reads the environment of process 1", "process 1 is not dumpable", 0, proc1_environ},
	{"proc1-maps", "pid", "reads maps, smaps, auxv, stack of process 1", "process 1 is not dumpable", 0, proc1_maps},
	{"proc1-exe", "caps", "opens the program of process 1", "process 1 is not dumpable and has more capabilities", PROOF,
         proc1_exe},
	{"exe-of-others", "exe", "opens every running program for writing, also through its descriptor", "read-only mounts", PROOF,
         exe_of_others},
	{"ptrace-init", "caps", "PTRACE_ATTACH and SEIZE of process 1", "the same", PROOF, ptrace_init},
	{"vm-init", "caps", "process_vm_readv, writev of process 1", "the same", PROOF, vm_init},
	{"pidfd-init", "exe", "takes descriptors of process 1 by pidfd_getfd", "process 1 is not dumpable; seccomp", 0, pidfd_init},
	{"kcmp-init", "exe", "compares descriptors with process 1", "process 1 is not dumpable; seccomp", 0, kcmp_init},
	{"limits-of-init", "seccomp", "lowers the limits of process 1, which watches memory", "seccomp", PROOF, limits_of_init},
	{"slow-init", "caps", "lowers the priority of process 1", "process 1 has capabilities that the program has not", 0,
         slow_init},
	{"signal-init", "pid", "sends every signal to process 1",
         "the kernel spares process 1 of a namespace; no handler does harm", ALONE, signal_init},
	{"kill-outside", "pid", "looks for a process that kill would reach", "pid namespace", PROOF | EITHER, kill_outside},
	{"kill-everyone", "pid", "kill -1 and a low priority for all of the user", "pid namespace; the test's processes live on",
         ALONE, kill_everyone},
	{"leaked-fds", "fds", "looks at descriptors 3 to 65535", "close_range before exec", PROOF, leaked_fds},
	{"stdio-kind", "stdio", "looks at what 0, 1 and 2 are", "only pipes, or a terminal of its own", PROOF, stdio_kind},
	{"stdout-truncate", "stdio", "empties the file behind its output", "only pipes; the test's log stays", PROOF,
         stdout_truncate},
	{"become-root", "caps", "setuid, setgid, setgroups to 0 and others", "one uid is mapped; no capabilities", 0, become},
	{"setuid-run", "caps", "runs a setuid program of the host's root", "no_new_privs, nosuid, root is not mapped", BOUND,
         setuid_run},
	{"raise-limits", "caps", "raises hard limits", "no CAP_SYS_RESOURCE", 0, raise_limits},
	{"priority", "caps", "higher priority, real time, no memory killer", "no capabilities", 0, priority},
	{NULL}};
