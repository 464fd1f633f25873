/*
 * attack_bounds.c: taking more than was given. Each takes about twice its bound, then holds it for a while: whoever looks from time to
 * time must have seen it by then. To be ended is to be held; the test looks at the reason.
 */
#include "sandbox/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, HOLD_SECONDS = 8 };

static outcome fork_bomb(void)
{
	uint64_t bound = param_number("pids", 256), count = 0;
	pid_t *children = calloc(bound + 64, sizeof *children);
	if (!children) return untried("no memory");
	int code = 0;
	while (count < bound + 64) {
		pid_t child = fork();
		if (child < 0) {
			code = errno;
			break;
		}
		if (!child) {
			for (;;) pause();
		}
		children[count++] = child;
	}
	for (uint64_t i = 0; i < count; i++) kill(children[i], SIGKILL);
	for (uint64_t i = 0; i < count; i++) waitpid(children[i], NULL, 0);
	return code ? held("%llu processes, then %s", (unsigned long long)count, strerror(code))
	            : broken("%llu processes, %llu were allowed", (unsigned long long)count, (unsigned long long)bound);
}

static void *sleep_on(void *unused)
{
	(void)unused;
	for (;;) pause();
	return NULL;
}

static outcome thread_bomb(void)
{
	uint64_t bound = param_number("pids", 256), count = 0;
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 1 << 16);
	int code = 0;
	for (pthread_t thread; count < bound + 64; count++)
		if ((code = pthread_create(&thread, &small, sleep_on, NULL))) break;
	return code ? held("%llu threads, then %s", (unsigned long long)count, strerror(code))
	            : broken("%llu threads, %llu were allowed", (unsigned long long)count, (unsigned long long)bound);
}

/* Touches so much, a bit at a time; false: refused. */
static bool take(uint64_t bytes)
{
	for (uint64_t have = 0; have < bytes; have += 4 * MIB) {
		char *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED) return false;
		for (size_t i = 0; i < 4 * MIB; i += 4096) p[i] = (char)(i + have + 1);
	}
	return true;
}

static outcome memory_one(void)
{
	uint64_t bound = param_number("mem", 64 * MIB);
	if (!take(2 * bound)) return held("mmap: %s", strerror(errno));
	sleep(HOLD_SECONDS);
	return broken("%llu MiB held", (unsigned long long)(2 * bound / MIB));
}

/* Each stays below the bound; together they are above. */
static outcome memory_many(void)
{
	uint64_t bound = param_number("mem", 64 * MIB);
	pid_t children[8];
	for (int i = 0; i < 8; i++) {
		children[i] = fork();
		if (!children[i]) {
			if (!take(bound / 4)) _exit(1);
			sleep(HOLD_SECONDS);
			_exit(0);
		}
	}
	int whole = 0;
	for (int i = 0; i < 8; i++) {
		int status = 0;
		if (waitpid(children[i], &status, 0) > 0 && WIFEXITED(status) && !WEXITSTATUS(status)) whole++;
	}
	return whole == 8 ? broken("8 processes with %llu MiB each", (unsigned long long)(bound / 4 / MIB))
	                  : held("%d of 8 lived", whole);
}

static bool fill(int fd, uint64_t bytes)
{
	static char block[MIB];
	memset(block, 'x', sizeof block);
	for (uint64_t have = 0; have < bytes; have += MIB) {
		memcpy(block, &have, sizeof have);
		for (size_t at = 0; at < MIB;) {
			ssize_t got = write(fd, block + at, MIB - at);
			if (got <= 0) return false;
			at += (size_t)got;
		}
	}
	return true;
}

static outcome filled(const char *what, int fd, uint64_t bound)
{
	if (fd < 0) return held("%s: %s", what, strerror(errno));
	signal(SIGXFSZ, SIG_IGN);
	if (!fill(fd, 2 * bound)) return held("%s: %s", what, strerror(errno));
	sleep(HOLD_SECONDS);
	return broken("%llu MiB in %s", (unsigned long long)(2 * bound / MIB), what);
}

/* Memory that is in no process's size. */
static outcome memory_memfd(void)
{
	return filled("a memfd", memfd_create("attack", MFD_CLOEXEC), param_number("mem", 64 * MIB));
}

/* The same by a process whose descriptors nobody may list. */
static outcome memory_hidden(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return memory_memfd();
}

/* The same by a program whose file cannot be read, which the kernel does not let be looked at either. */
static outcome memory_unreadable(void)
{
	if (param("inner")) return memory_memfd();
	char mem[64];
	snprintf(mem, sizeof mem, "mem=%llu", (unsigned long long)param_number("mem", 64 * MIB));
	if (system("cp /proc/$PPID/exe attack-unreadable && chmod 111 attack-unreadable")) return untried("no copy");
	pid_t child = fork();
	if (!child) {
		execl("attack-unreadable", "attack", "inner=1", mem, "memory-unreadable", (char *)NULL);
		_exit(2);
	}
	int status = 0;
	waitpid(child, &status, 0);
	unlink("attack-unreadable");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return untried("it does not run");
	return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? broken("by a program that cannot be read") : held("it was ended");
}

static outcome memory_shm(void)
{
	return filled("/dev/shm", open("/dev/shm/attack", O_CREAT | O_WRONLY | O_CLOEXEC, 0600), param_number("mem", 64 * MIB));
}

static outcome disk_one(void)
{
	return filled("one file", open("/work/attack-disk", O_CREAT | O_WRONLY | O_CLOEXEC, 0600), param_number("disk", 16 * MIB));
}

static outcome disk_many(void)
{
	uint64_t bound = param_number("disk", 16 * MIB);
	for (uint64_t i = 0; i < 32; i++) {
		char name[64];
		snprintf(name, sizeof name, "/work/attack-disk-%llu", (unsigned long long)i);
		int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0 || !fill(fd, bound / 16)) return held("file %llu: %s", (unsigned long long)i, strerror(errno));
		close(fd);
	}
	sleep(HOLD_SECONDS);
	return broken("%llu MiB in 32 files", (unsigned long long)(2 * bound / MIB));
}

/* A file without a name is in no list of files. */
static outcome disk_unlinked(void)
{
	int fd = open("/work/attack-unlinked", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	unlink("/work/attack-unlinked");
	return filled("a file without a name", fd, param_number("disk", 16 * MIB));
}

/* The same in several, each within what one file may have. */
static outcome disk_unlinked_many(void)
{
	uint64_t bound = param_number("disk", 16 * MIB);
	for (int i = 0; i < 4; i++) {
		int fd = open("/work/attack-unlinked", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		unlink("/work/attack-unlinked");
		if (fd < 0 || !fill(fd, bound / 2)) return held("file %d without a name: %s", i, strerror(errno));
	}
	sleep(HOLD_SECONDS);
	return broken("%llu MiB in 4 files without a name", (unsigned long long)(2 * bound / MIB));
}

/* Kept with the work, but not a change of the box. */
static outcome disk_cache(void)
{
	uint64_t bound = param_number("disk", 16 * MIB);
	for (int i = 0; i < 4; i++) {
		char name[64];
		snprintf(name, sizeof name, "/var/cache/agent/attack-%d", i);
		int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0 || !fill(fd, bound / 2)) return held("file %d of the cache: %s", i, strerror(errno));
		close(fd);
	}
	sleep(HOLD_SECONDS);
	return broken("%llu MiB in the cache", (unsigned long long)(2 * bound / MIB));
}

static outcome files_many(void)
{
	uint64_t bound = param_number("files", 1000);
	mkdir("/work/attack-files", 0700);
	for (uint64_t i = 0; i < 2 * bound; i++) {
		char name[64];
		snprintf(name, sizeof name, "/work/attack-files/%llu", (unsigned long long)i);
		int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0) return held("file %llu: %s", (unsigned long long)i, strerror(errno));
		close(fd);
	}
	sleep(HOLD_SECONDS);
	return broken("%llu files", (unsigned long long)(2 * bound));
}

const attack attacks_bounds[] = {
	{"fork-bomb", "limits", "forks beyond --pids", "RLIMIT_NPROC or pids.max", PROOF | BOUND, fork_bomb},
	{"thread-bomb", "limits", "threads beyond --pids", "the same", BOUND, thread_bomb},
	{"memory-one", "limits", "twice --mem in one process", "memory.max or the watchdog", PROOF | BOUND, memory_one},
	{"memory-many", "limits", "twice --mem in eight processes", "the sum is bounded", BOUND, memory_many},
	{"memory-memfd", "limits", "twice --mem in a memfd, which is in no process's size", "memory.max or the watchdog", BOUND,
         memory_memfd},
	{"memory-hidden", "limits", "the same by a process that is not dumpable", "memory.max or the watchdog", BOUND,
         memory_hidden},
	{"memory-unreadable", "limits", "the same by a program that cannot be read", "memory.max or the watchdog", BOUND,
         memory_unreadable},
	{"memory-shm", "limits", "twice --mem in /dev/shm", "size of the tmpfs", BOUND, memory_shm},
	{"disk-one", "limits", "twice --disk in one file", "RLIMIT_FSIZE, the watchdog", PROOF | BOUND, disk_one},
	{"disk-many", "limits", "twice --disk in many files", "the watchdog", BOUND, disk_many},
	{"disk-unlinked", "limits", "twice --disk in a file without a name", "RLIMIT_FSIZE", BOUND, disk_unlinked},
	{"disk-unlinked-many", "limits", "the same in four files", "the watchdog", BOUND, disk_unlinked_many},
	{"disk-cache", "limits", "twice --disk in /var/cache/agent", "the watchdog", BOUND, disk_cache},
	{"files-many", "limits", "twice --files", "the watchdog", BOUND, files_many},
	{NULL}};
