/*
 * enter.c: the namespaces. The holder's own user and mount namespace (A), and init in namespaces of the plan with a user namespace
 * nested in A (B), in which it has no right over any mount that was made for it.
 *
 * Order matters: everything that needs rights over the mounts happens in A before unshare(CLONE_NEWUSER); the map of B is written by the
 * holder, which has rights in A; then init executes itself from a read-only mount, so that nothing of the holder's memory is left in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/capability.h>

#include "base/io.h"
#include "holder/enter.h"
#include "holder/group.h"
#include "holder/weak.h"

enum { MEMFD_EXEC = 0x10 }; /* MFD_EXEC of Linux 6.3 */

static int executable = -1;

void enter_keep_executable(int fd)
{
	executable = fd;
}

static cb_code write_text(const char *path, const char *text, cb_error *err)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0) return cb_err_errno(err, errno, "writing '%s' to %s", text, path);
	return CB_OK;
}

static cb_code unsupported(cb_error *err, int error, const char *what)
{
	return cb_err_set(err, CB_UNSUPPORTED, "%s: %s; this machine cannot isolate programs so: run `cowbox doctor`", what,
	                  strerror(error));
}

/* ---- the holder's own ---- */

static cb_code become(uid_t uid, cb_error *err)
{
	if (uid == 0) {
#ifndef COWBOX_TEST_WALLS
		if (geteuid() == 0) return cb_err_set(err, CB_INTERNAL, "the helper was started as root without --uid");
#endif
		return CB_OK;
	}
	if (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0)
		return cb_err_errno(err, errno, "becoming uid %u", uid);
	return CB_OK;
}

cb_code enter_holder(uid_t uid, bool is_weak, cb_error *err)
{
	char map[64];
	CB_TRY(become(uid, err));
	if (is_weak) return CB_OK;
	/* Whoever changed its uid owns nothing in /proc, its own maps included. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return cb_err_errno(err, errno, "PR_SET_DUMPABLE");
	uid_t user = geteuid();
	gid_t group = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return unsupported(err, errno, "no new user namespace");
	CB_TRY(write_text("/proc/self/setgroups", "deny", err));
	(void)snprintf(map, sizeof(map), "0 %u 1", user);
	if (write_text("/proc/self/uid_map", map, err) != CB_OK) return unsupported(err, errno, "mapping the user");
	(void)snprintf(map, sizeof(map), "0 %u 1", group);
	if (write_text("/proc/self/gid_map", map, err) != CB_OK) return unsupported(err, errno, "mapping the group");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return unsupported(err, errno, "a mount namespace of its own");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return cb_err_errno(err, errno, "PR_SET_DUMPABLE");
	return CB_OK;
}

/* ---- init, from its birth to its execve ---- */

typedef struct entering {
	const plan *p;
	const slot *on;
	const int *fds;
	size_t fd_count;
	int sync;    /* to the holder: 'm', or a cb_error; from it: 'k' */
	int socket;  /* for wire.h */
	int plan_fd; /* the plan as bytes */
} entering;

static cb_code loopback_up(cb_error *err)
{
	struct ifreq request = {.ifr_name = "lo"};
	AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0) return cb_err_errno(err, errno, "looking at the loopback");
	request.ifr_flags |= IFF_UP | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) return cb_err_errno(err, errno, "bringing the loopback up");
	return CB_OK;
}

/* Sealed memory, where the path of the executable cannot be reached by this user. */
static cb_code executable_copy(int *out, cb_error *err)
{
	/* Newer kernels want to be told that it is to be executed; older ones do not know the word. */
	int made = memfd_create("cowbox-box", MFD_CLOEXEC | MFD_ALLOW_SEALING | MEMFD_EXEC);
	if (made < 0 && errno == EINVAL) made = memfd_create("cowbox-box", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	AUTO_FD int fd = made;
	struct stat st;
	off_t offset = 0;
	if (fd < 0 || fstat(executable, &st) != 0) return cb_err_errno(err, errno, "copying the helper");
	while (offset < st.st_size) {
		ssize_t n = sendfile(fd, executable, &offset, (size_t)(st.st_size - offset));
		if (n <= 0 && errno != EINTR) return cb_err_errno(err, n == 0 ? EIO : errno, "copying the helper");
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
		return cb_err_errno(err, errno, "sealing the helper");
	*out = TAKE_FD(fd);
	return CB_OK;
}

/* The running executable on a read-only mount of its own: /proc/PID/exe of init then leads to nothing that can be written. */
static cb_code executable_mount(const plan *p, int *out, cb_error *err)
{
	char path[LIMIT_PATH_BYTES];
	struct stat mine, there;
	AUTO_FD int fd = -1;
	if (p->walls_down & WALL_EXE) {
		*out = fcntl(executable, F_DUPFD_CLOEXEC, 3);
		return *out < 0 ? cb_err_errno(err, errno, "the helper itself") : CB_OK;
	}
	ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (size > 0) {
		path[size] = 0;
		fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	}
	/* The path may lead to another file by now: an upgrade. */
	if (fd < 0 || fstat(fd, &there) != 0 || fstat(executable, &mine) != 0 || there.st_dev != mine.st_dev ||
	    there.st_ino != mine.st_ino)
		return executable_copy(out, err);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) != 0) return executable_copy(out, err);
	*out = TAKE_FD(fd);
	return CB_OK;
}

static cb_code change_root(const plan *p, cb_error *err)
{
	if (p->walls_down & WALL_ROOT) {
		/* A test build's: the host's root stays there, to show what its absence holds. */
		if (mkdir("run/host", 0755) != 0 || syscall(SYS_pivot_root, ".", "run/host") != 0)
			return cb_err_errno(err, errno, "pivot_root");
	} else {
		if (syscall(SYS_pivot_root, ".", ".") != 0) return cb_err_errno(err, errno, "pivot_root");
		if (umount2(".", MNT_DETACH) != 0) return cb_err_errno(err, errno, "leaving the host's root");
	}
	return chdir("/") == 0 ? CB_OK : cb_err_errno(err, errno, "going to the root");
}

static cb_code namespace_b(const entering *e, cb_error *err)
{
	char answer = 0;
	if (unshare(CLONE_NEWUSER) != 0) return unsupported(err, errno, "no nested user namespace");
	if (send(e->sync, "m", 1, MSG_NOSIGNAL) != 1 || recv(e->sync, &answer, 1, 0) != 1 || answer != 'k')
		return cb_err_set(err, CB_IO, "the holder is gone");
	if (setresgid(e->p->gid, e->p->gid, e->p->gid) != 0 || setresuid(e->p->uid, e->p->uid, e->p->uid) != 0)
		return cb_err_errno(err, errno, "becoming uid %u of the sandbox", e->p->uid);
	/* A user namespace in the box would be a fresh set of rights to attack the kernel with. */
	if (!(e->p->walls_down & WALL_USERNS)) CB_TRY(write_text("/proc/sys/user/max_user_namespaces", "0", err));
	return CB_OK;
}

/* execve takes all capabilities from who is not uid 0 but the ambient ones. They are those of B: over nothing but what init makes. */
static cb_code keep_capabilities(cb_error *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &header, data) != 0) return cb_err_errno(err, errno, "reading capabilities");
	for (size_t i = 0; i < 2; i++) data[i].inheritable = data[i].permitted;
	if (syscall(SYS_capset, &header, data) != 0) return cb_err_errno(err, errno, "setting capabilities");
	for (int cap = 0; cap < 64; cap++)
		if (data[cap / 32].permitted & (1u << cap % 32) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) != 0)
			return cb_err_errno(err, errno, "keeping capability %d", cap);
	return CB_OK;
}

enum { INIT_SYNC_FD = HOLDER_INIT_PLAN_FD + 1, INIT_EXE_FD };

static cb_code execute(const entering *e, int exe, cb_error *err)
{
	char *const argv[] = {(char[]){"cowbox-box"}, (char[]){"init"}, NULL}, *const env[] = {NULL};
	const int from[] = {e->socket, e->plan_fd, e->sync, exe};
	int high[ARRAY_LEN(from)];
	for (size_t i = 0; i < ARRAY_LEN(from); i++) /* out of the way of each other */
		if ((high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64)) < 0) return cb_err_errno(err, errno, "a descriptor for init");
	for (size_t i = 0; i < ARRAY_LEN(from); i++)
		if (dup3(high[i], HOLDER_INIT_SOCKET_FD + (int)i, i < 2 ? 0 : O_CLOEXEC) < 0)
			return cb_err_errno(err, errno, "a descriptor for init");
	if (close_range(INIT_EXE_FD + 1, ~0u, 0) != 0) return cb_err_errno(err, errno, "closing descriptors");
	(void)execveat(INIT_EXE_FD, "", argv, env, AT_EMPTY_PATH);
	return cb_err_errno(err, errno, "executing init");
}

static cb_code become_init(const entering *e, cb_error *err)
{
	const plan *p = e->p;
	AUTO_FD int exe = -1;
	/* So that the holder may write the maps of B; what this process knows, the holder's user knows. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return cb_err_errno(err, errno, "prctl");
	(void)setsid();
	/* Before anything of the host's, when its memory ends. */
	(void)write_text("/proc/self/oom_score_adj", "500", NULL);
	if (p->namespaces & CLONE_NEWNET) CB_TRY(loopback_up(err));
	if (p->namespaces & CLONE_NEWUTS && sethostname(p->hostname, strlen(p->hostname)) != 0)
		return cb_err_errno(err, errno, "setting the host name");
	CB_TRY(executable_mount(p, &exe, err));
	CB_TRY(plan_apply(p, e->on, e->fds, e->fd_count, err));
	CB_TRY(change_root(p, err));
	CB_TRY(mount_flags_late(p, err));
	CB_TRY(namespace_b(e, err));
	CB_TRY(keep_capabilities(err));
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return cb_err_errno(err, errno, "PR_SET_PDEATHSIG");
	return execute(e, exe, err);
}

/* Without namespaces: the same program, in the folder of the tree. */
static cb_code become_weak_init(const entering *e, cb_error *err)
{
	AUTO_FD int exe = fcntl(executable, F_DUPFD_CLOEXEC, 3);
	if (exe < 0) return cb_err_errno(err, errno, "the helper itself");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return cb_err_errno(err, errno, "PR_SET_PDEATHSIG");
	(void)setsid();
	(void)write_text("/proc/self/oom_score_adj", "500", NULL);
	if (fchdir(e->on->root) != 0) return cb_err_errno(err, errno, "going to the tree");
	return execute(e, exe, err);
}

_Noreturn static void child(const entering *e)
{
	cb_error err = {0};
	(void)(e->p->weak ? become_weak_init(e, &err) : become_init(e, &err));
	/* The descriptor may have moved by then: the place it was moved to is known. */
	int sync = fcntl(e->sync, F_GETFD) >= 0 ? e->sync : INIT_SYNC_FD;
	(void)send(sync, &err, sizeof(err), MSG_NOSIGNAL);
	_exit(1);
}

/* ---- the holder's side ---- */

static cb_code write_maps(pid_t pid, const plan *p, cb_error *err)
{
	char path[64], map[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/setgroups", pid);
	CB_TRY(write_text(path, "deny", err));
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	(void)snprintf(map, sizeof(map), "%u 0 1", p->uid);
	CB_TRY(write_text(path, map, err));
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	(void)snprintf(map, sizeof(map), "%u 0 1", p->gid);
	return write_text(path, map, err);
}

/* In a pid namespace that was made without a /proc of its own, /proc/PID is a stranger. */
static cb_code check_proc(cb_error *err)
{
	char self[32] = "";
	if (readlink("/proc/self", self, sizeof(self) - 1) < 0 || strtol(self, NULL, 10) == getpid()) return CB_OK;
	return cb_err_set(
		err, CB_UNSUPPORTED,
		"/proc shows the processes of another pid namespace: mount one of this namespace first (`mount -t proc proc "
		"/proc`, or `unshare --mount-proc`)");
}

/* Until init was executed (its end of the socket is closed then) or said why not. */
static cb_code guide(const sandbox *s, const plan *p, int sync, cb_error *err)
{
	for (;;) {
		cb_error said = {0};
		ssize_t size = recv(sync, &said, sizeof(said), 0);
		if (size < 0 && errno == EINTR) continue;
		if (size == 0) return CB_OK;
		if (size == sizeof(said) && said.code != CB_OK) {
			said.message[sizeof(said.message) - 1] = 0;
			bool machine = said.code == CB_DENIED || said.code == CB_UNSUPPORTED;
			const char *hint = machine && !strstr(said.message, "doctor") ? "; run `cowbox doctor`" : "";
			return cb_err_set(err, said.code, "making the sandbox: %s%s", said.message, hint);
		}
		if (size != 1) return cb_err_set(err, CB_INTERNAL, "init says what nobody understands");
		CB_TRY(write_maps(s->init, p, err));
		if (send(sync, "k", 1, MSG_NOSIGNAL) != 1) return cb_err_errno(err, errno, "speaking to init");
	}
}

static cb_code plan_to_fd(const plan *p, int *out, cb_error *err)
{
	AUTO_BUF buf bytes = BUF_INIT(1 << 20);
	AUTO_FD int fd = memfd_create("plan", MFD_CLOEXEC);
	if (fd < 0) return cb_err_errno(err, errno, "memory for the plan");
	CB_TRY(plan_put(&bytes, p, err));
	CB_TRY(io_pwrite_all(fd, bytes.bytes, bytes.size, 0, err));
	*out = TAKE_FD(fd);
	return CB_OK;
}

static cb_code start(sandbox *s, entering *e, int sync_here, cb_error *err)
{
	int pidfd = -1;
	unsigned long flags = CLONE_PIDFD | SIGCHLD | (unsigned long)(e->p->namespaces & ~(uint64_t)CLONE_NEWUSER);
	long pid = syscall(SYS_clone, flags, NULL, &pidfd, NULL, NULL);
	if (pid == 0) {
		(void)close(sync_here);
		child(e);
	}
	if (pid < 0) return unsupported(err, errno, "no new namespaces");
	s->init = (pid_t)pid;
	s->init_pidfd = pidfd;
	return CB_OK;
}

/* What the kernel can hold for all processes together, where a control group was given to us. */
static cb_code bound_group(sandbox *s, cb_error *err)
{
	char name[32];
	unsigned held = 0;
	(void)snprintf(name, sizeof(name), "cowbox-%d", s->init);
	CB_TRY(group_create(&group_system, name, &s->limits, &s->group, &held, err));
	return s->group ? group_enter(s->group, s->init, err) : CB_OK;
}

cb_code sandbox_enter(sandbox *s, const plan *p, slot *on, const int *fds, size_t fd_count, cb_error *err)
{
	int sync[2] = {-1, -1}, sockets[2] = {-1, -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) != 0) return cb_err_errno(err, errno, "a socket for init");
	AUTO_FD int sync_here = sync[0], sync_there = sync[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
		return cb_err_errno(err, errno, "a socket for init");
	AUTO_FD int here = sockets[0], there = sockets[1], plan_fd = -1;
	CB_TRY(check_proc(err));
	CB_TRY(plan_to_fd(p, &plan_fd, err));
	if (!p->weak) CB_TRY(apply_tidy(p, on->root, err));
	/* Whoever of the sandbox loses its parent becomes our child, and is found when it ends. */
	if (p->weak && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return cb_err_errno(err, errno, "PR_SET_CHILD_SUBREAPER");
	entering e = {p, on, fds, fd_count, sync_there, there, plan_fd};
	s->weak = p->weak;
	s->limits = p->limits;
	CB_TRY(start(s, &e, sync_here, err));
	(void)close(TAKE_FD(sync_there));
	s->socket = TAKE_FD(here);
	/* Before any command is in it. */
	cb_code code = bound_group(s, err);
	if (code == CB_OK) code = guide(s, p, sync_here, err);
	if (code != CB_OK) (void)sandbox_end(s, NULL);
	return code;
}

cb_code sandbox_end(sandbox *s, cb_error *err)
{
	if (s->init == 0) return CB_OK;
	/* The first process of a pid namespace is gone only after all others are. Without one they are found as descendants of ours. */
	if (s->weak) weak_kill_all();
	else (void)syscall(SYS_pidfd_send_signal, s->init_pidfd, SIGKILL, NULL, 0);
	struct pollfd gone = {.fd = s->init_pidfd, .events = POLLIN};
	int ready;
	do ready = poll(&gone, 1, LIMIT_HOLDER_END_MS);
	while (ready < 0 && errno == EINTR);
	if (ready == 0) return cb_err_set(err, CB_BUSY, "processes of the sandbox do not end: the host's disk may hang");
	while (waitpid(s->init, NULL, 0) < 0 && errno == EINTR) {
	}
	(void)close(s->init_pidfd);
	if (s->socket >= 0) (void)close(s->socket);
	group_end(s->group);
	free(s->group);
	*s = SANDBOX_NONE;
	return CB_OK;
}
