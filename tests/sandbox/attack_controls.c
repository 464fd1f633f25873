/* attack_controls.c: what ordinary programs do. A wall that breaks these would be taken down by its users. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox/attack.h"

/* gdb, strace and LeakSanitizer. */
static bool ptrace_child(void)
{
	pid_t child = fork();
	if (!child) {
		for (;;) pause();
	}
	int status = 0;
	bool good = !ptrace(PTRACE_ATTACH, child, 0, 0) && waitpid(child, &status, 0) == child && WIFSTOPPED(status);
	errno = 0;
	good = good && (ptrace(PTRACE_PEEKDATA, child, &status, 0) != -1 || !errno) && !ptrace(PTRACE_DETACH, child, 0, 0);
	int code = errno;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	errno = code;
	return good;
}

static bool loopback(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof at;
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	bool good = !bind(server, (struct sockaddr *)&at, size) && !listen(server, 1) &&
	            !getsockname(server, (struct sockaddr *)&at, &size) && !connect(client, (struct sockaddr *)&at, size);
	int code = errno;
	close(server);
	close(client);
	errno = code;
	return good;
}

static bool unix_pair(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return false;
	close(pair[0]);
	close(pair[1]);
	return true;
}

static bool files(void)
{
	unlink("/tmp/c1");
	rmdir("/tmp/c2");
	int fd = open("/tmp/c1", O_CREAT | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	bool good = fd >= 0 && write(fd, "x", 1) == 1 && !fchmod(fd, 0755) && !mkdir("/tmp/c2", 0755) && !chmod("/tmp/c2", 01777) &&
	            !fsetxattr(fd, "user.note", "x", 1, 0) && !rename("/tmp/c1", "/tmp/c3") && !link("/tmp/c3", "/tmp/c4") &&
	            !mkfifo("/tmp/c5", 0600);
	int code = errno;
	close(fd);
	unlink("/tmp/c3"), unlink("/tmp/c4"), unlink("/tmp/c5"), rmdir("/tmp/c2");
	errno = code;
	return good;
}

static bool events(void)
{
	int e = epoll_create1(EPOLL_CLOEXEC), v = eventfd(0, EFD_CLOEXEC), n = inotify_init1(IN_CLOEXEC),
	    m = memfd_create("c", MFD_CLOEXEC);
	bool good = e >= 0 && v >= 0 && n >= 0 && m >= 0 && inotify_add_watch(n, "/tmp", IN_CREATE) >= 0;
	int code = errno;
	close(e), close(v), close(n), close(m);
	errno = code;
	return good;
}

static void *nothing(void *p)
{
	return p;
}

static bool threads(void)
{
	pthread_t t;
	return !(errno = pthread_create(&t, NULL, nothing, NULL)) && !pthread_join(t, NULL);
}

static bool shared_memory(void)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	if (id < 0) return false;
	void *p = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	int fd = open("/dev/shm/control", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	unlink("/dev/shm/control");
	if (fd >= 0) close(fd);
	return p != (void *)-1 && fd >= 0;
}

static bool terminal(void)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), zero = 0;
	unsigned number;
	struct winsize size;
	bool good = fd >= 0 && !ioctl(fd, TIOCSPTLCK, &zero) && !ioctl(fd, TIOCGPTN, &number) && !ioctl(fd, TIOCGWINSZ, &size);
	int code = errno;
	if (fd >= 0) close(fd);
	errno = code;
	return good;
}

static bool own_signals(void)
{
	pid_t child = fork();
	if (!child) {
		for (;;) pause();
	}
	int status = 0;
	return !kill(child, SIGTERM) && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
}

/* The command itself is no process 1: its default signals work. */
static bool own_abort(void)
{
	pid_t child = fork();
	if (!child) abort();
	int status = 0;
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static bool random_bytes(void)
{
	char bytes[16];
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC), sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes && sink >= 0 && write(sink, bytes, 4) == 4;
	if (fd >= 0) close(fd);
	if (sink >= 0) close(sink);
	return good;
}

static bool address_space(void)
{
	/* What a JVM, Go, node and AddressSanitizer reserve. */
	void *p = mmap(NULL, 1UL << 44, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return false;
	munmap(p, 1UL << 44);
	return true;
}

static bool system_files(void)
{
	static const char *const names[] = {"/etc/passwd",        "/etc/group",       "/etc/hosts",
	                                    "/etc/nsswitch.conf", "/etc/ld.so.cache", "/usr/bin/env",
	                                    "/proc/self/status",  "/dev/fd/1",        "/bin/sh"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (access(names[i], R_OK)) return false;
	return true;
}

int controls(void)
{
	static const struct {
		const char *name;
		bool (*works)(void);
	} all[] = {{"ptrace of a child", ptrace_child},        {"TCP on the loopback", loopback},
	           {"a pair of unix sockets", unix_pair},      {"files", files},
	           {"epoll, eventfd, inotify, memfd", events}, {"threads", threads},
	           {"shared memory", shared_memory},           {"a terminal", terminal},
	           {"signals to a child", own_signals},        {"abort", own_abort},
	           {"random and null", random_bytes},          {"16 TiB of addresses", address_space},
	           {"files of the system", system_files}};
	int bad = 0;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		errno = 0;
		bool works = all[i].works();
		printf("%s %s%s%s\n", works ? "WORKS" : "FAILS", all[i].name, works ? "" : ": ", works ? "" : strerror(errno));
		bad += !works;
	}
	return bad ? 1 : 0;
}
