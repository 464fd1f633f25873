/*
 * test_watch.c: bounds that are looked at (watch.c): memory of processes, bytes and files below a folder; and control groups
 * (group.c) over folders that look like them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/harness.h"
#include "holder/command.h"
#include "holder/group.h"

enum { MIB = 1 << 20 };

/* ---- memory ---- */

static pid_t family[8];
static size_t family_size;

static bool is_family(pid_t pid)
{
	for (size_t i = 0; i < family_size; i++)
		if (family[i] == pid) return true;
	return false;
}

/* A child that does something and then waits to be killed. */
static pid_t child_with(void (*work)(void))
{
	int ready[2];
	CHECK(pipe(ready) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		work();
		CHECK(write(ready[1], "x", 1) == 1);
		for (;;) pause();
	}
	char c;
	CHECK(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	family[family_size++] = pid;
	return pid;
}

static void family_end(void)
{
	for (size_t i = 0; i < family_size; i++) {
		kill(family[i], SIGKILL);
		waitpid(family[i], NULL, 0);
	}
	family_size = 0;
}

static uint64_t measure(bool exactly)
{
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t bytes;
	cb_error err;
	CHECK(proc >= 0);
	CHECK_OK(watch_memory_measure(proc, is_family, exactly, &bytes, &err));
	close(proc);
	return bytes;
}

static void use_private(void)
{
	char *p = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, 32 * MIB);
}

static void use_memfd_unmapped(void)
{
	static char block[MIB];
	int fd = memfd_create("hidden", MFD_CLOEXEC);
	for (int i = 0; i < 32; i++) CHECK(write(fd, block, sizeof(block)) == sizeof(block));
}

static void use_shared(void)
{
	char *p = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, 32 * MIB);
}

static void use_nothing(void)
{
}

static void check_uses_32_mib(void (*work)(void))
{
	child_with(use_nothing);
	uint64_t before = measure(true), before_quick = measure(false);
	child_with(work);
	uint64_t exact = measure(true) - before, quick = measure(false) - before_quick;
	CHECK_MSG(exact >= 31 * MIB && exact < 40 * MIB, "%" PRIu64, exact);
	CHECK_MSG(quick + MIB >= exact, "%" PRIu64 " < %" PRIu64, quick, exact);
	family_end();
}

TEST(private_memory_counts)
{
	check_uses_32_mib(use_private);
}

TEST(memory_without_a_mapping_counts)
{
	check_uses_32_mib(use_memfd_unmapped);
}

TEST(shared_memory_counts)
{
	check_uses_32_mib(use_shared);
}

/* Pages that forks share are not there once for each of them. */
TEST(shared_pages_count_once)
{
	use_private(); /* in the parent, inherited by all */
	child_with(use_nothing);
	family[family_size++] = getpid();
	uint64_t two = measure(true);
	for (int i = 0; i < 4; i++) child_with(use_nothing);
	uint64_t six = measure(true);
	CHECK_MSG(six < two + 16 * MIB, "%" PRIu64 " after %" PRIu64, six, two);
	CHECK(measure(false) > two + 64 * MIB);
	for (size_t i = 0; i < family_size; i++)
		if (family[i] == getpid()) family[i] = family[--family_size];
	family_end();
}

TEST(over_the_bound_or_not)
{
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool over;
	cb_error err;
	child_with(use_private);
	CHECK_OK(watch_memory_look(proc, 16 * MIB, is_family, &over, &err));
	CHECK(over);
	CHECK_OK(watch_memory_look(proc, 128 * MIB, is_family, &over, &err));
	CHECK(!over);
	family_end();
}

/* ---- disk ---- */

static void fill(const char *path, size_t bytes)
{
	static const char block[4096] = {1};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	for (size_t i = 0; i < bytes; i += sizeof(block)) CHECK(write(fd, block, sizeof(block)) == sizeof(block));
	close(fd);
}

static slot slot_here(void)
{
	slot s = SLOT_NONE;
	CHECK(chdir(test_tmpdir()) == 0 && mkdir("upper", 0755) == 0);
	s.folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s.changes = open("upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(s.folder >= 0 && s.changes >= 0);
	return s;
}

/* A look may be put off; what it says in the end is what counts. */
static void look(const slot *s, const plan_limits *limits, char reason[128])
{
	cb_error err;
	for (int i = 0; i < 200; i++) {
		CHECK_OK(watch_disk(s, limits, reason, &err));
		if (reason[0]) return;
		usleep(1000);
	}
}

TEST(bytes_are_bounded_from_the_beginning_of_the_command)
{
	slot s = slot_here();
	plan_limits limits = {.disk_bytes = 8 * MIB};
	char reason[128];
	cb_error err;
	fill("upper/before", 16 * MIB);
	CHECK_OK(watch_begin(&s, &limits, &err));
	look(&s, &limits, reason);
	CHECK_STR(reason, "");
	CHECK(mkdir("upper/sub", 0700) == 0);
	fill("upper/sub/a", 4 * MIB);
	CHECK(link("upper/sub/a", "upper/sub/b") == 0 && link("upper/sub/a", "upper/sub/c") == 0);
	look(&s, &limits, reason);
	CHECK_STR(reason, "");
	fill("upper/d", 5 * MIB);
	look(&s, &limits, reason);
	CHECK_STR(reason, "disk: more than 8 MiB");
}

TEST(holes_do_not_count)
{
	slot s = slot_here();
	plan_limits limits = {.disk_bytes = 8 * MIB};
	char reason[128];
	cb_error err;
	CHECK_OK(watch_begin(&s, &limits, &err));
	fill("upper/sparse", 4096);
	CHECK(truncate("upper/sparse", 100 * MIB) == 0);
	look(&s, &limits, reason);
	CHECK_STR(reason, "");
}

TEST(files_are_bounded)
{
	slot s = slot_here();
	plan_limits limits = {.files = 10};
	char reason[128], name[64];
	cb_error err;
	fill("upper/before", 4096);
	CHECK_OK(watch_begin(&s, &limits, &err));
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "upper/f%d", i);
		fill(name, 0);
	}
	look(&s, &limits, reason);
	CHECK_STR(reason, "");
	CHECK(mkdir("upper/one-more", 0755) == 0);
	look(&s, &limits, reason);
	CHECK_STR(reason, "files: more than 10");
}

/* ---- control groups, over plain folders ---- */

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void check_text(const char *path, const char *expected)
{
	char text[256] = "";
	FILE *f = fopen(path, "r");
	CHECK_MSG(f, "%s", path);
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	CHECK_MSG(strcmp(text, expected) == 0, "%s: '%s', expected '%s'", path, text, expected);
}

static const char *const bound_files[] = {"memory.max", "memory.swap.max", "memory.oom.group", "pids.max",
                                          "cpu.max",    "cgroup.procs",    "cgroup.kill",      "memory.events"};

/* own: what the controllers of our own group are, and which of them are given on. */
static group_sources fake(const char *controllers, const char *given)
{
	char path[300], line[600];
	CHECK(chdir(test_tmpdir()) == 0);
	CHECK(mkdir("fs", 0755) == 0 && mkdir("fs/user", 0755) == 0 && mkdir("fs/user/scope", 0755) == 0 &&
	      mkdir("fs/user/scope/box", 0755) == 0);
	put("membership", "12:cpu:/other\n0::/slice/user/scope\n");
	snprintf(line, sizeof(line), "22 1 0:1 / / rw - ext4 /dev/x rw\n30 22 0:26 /slice %s/fs rw shared:1 - cgroup2 cgroup2 rw\n",
	         test_tmpdir());
	put("mounts", line);
	put("fs/user/scope/cgroup.controllers", controllers);
	put("fs/user/scope/cgroup.subtree_control", given);
	put("fs/user/scope/cgroup.procs", "1\n2\n");
	for (size_t i = 0; i < ARRAY_LEN(bound_files); i++) {
		snprintf(path, sizeof(path), "fs/user/scope/box/%s", bound_files[i]);
		put(path, "");
	}
	return (group_sources){"membership", "mounts"};
}

TEST(a_group_holds_what_is_delegated)
{
	group_sources from = fake("cpuset cpu io memory pids\n", "memory pids\n");
	plan_limits limits = {.memory_bytes = 64 * MIB, .pids = 100};
	char *path, expected[512];
	unsigned held;
	cb_error err;
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	snprintf(expected, sizeof(expected), "%s/fs/user/scope/box", test_tmpdir());
	CHECK(path);
	CHECK_STR(path, expected);
	CHECK_U64(held, GROUP_MEMORY | GROUP_PIDS);
	check_text("fs/user/scope/box/memory.max", "67108864");
	check_text("fs/user/scope/box/memory.oom.group", "1");
	check_text("fs/user/scope/box/pids.max", "102");
	check_text("fs/user/scope/box/cpu.max", "");
	CHECK_OK(group_enter(path, 4711, &err));
	check_text("fs/user/scope/box/cgroup.procs", "4711");
	CHECK(!group_ran_out(path));
	put("fs/user/scope/box/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 0\noom_group_kill 0\n");
	CHECK(!group_ran_out(path));
	put("fs/user/scope/box/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n");
	CHECK(group_ran_out(path));
	group_end(path);
	check_text("fs/user/scope/box/cgroup.kill", "1");
	free(path);
}

TEST(controllers_are_given_on_where_possible)
{
	group_sources from = fake("cpu memory\n", "\n");
	plan_limits limits = {.cpus_milli = 1500, .pids = 10};
	char *path;
	unsigned held;
	cb_error err;
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	/* The kernel would now list it; a folder keeps what was written. */
	check_text("fs/user/scope/cgroup.subtree_control", "+cpu");
	CHECK(!path && held == 0);
	put("fs/user/scope/cgroup.subtree_control", "cpu\n");
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	CHECK(path);
	CHECK_U64(held, GROUP_CPU);
	check_text("fs/user/scope/box/cpu.max", "150000 100000");
	free(path);
}

TEST(no_group_where_there_is_none)
{
	group_sources from = fake("hugetlb\n", "");
	plan_limits limits = {.memory_bytes = MIB};
	char *path;
	unsigned held;
	cb_error err;
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	CHECK(!path && !held);
	put("membership", "12:cpu:/other\n");
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	CHECK(!path);
	put("membership", "0::/elsewhere\n"); /* not below what is mounted */
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	CHECK(!path);
	put("mounts", "22 1 0:1 / / rw - ext4 /dev/x rw\n");
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	CHECK(!path);
	from = (group_sources){"nowhere", "nowhere"};
	CHECK_OK(group_create(&from, "box", &limits, &path, &held, &err));
	CHECK(!path);
	CHECK_OK(group_create(&group_system, "cowbox-test", &(plan_limits){0}, &path, &held, &err));
	CHECK(!path); /* nothing to hold */
	group_end(NULL);
}
