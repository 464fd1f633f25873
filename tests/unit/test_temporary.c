/* test_temporary.c: temporary names, who is alive behind them, and what a sweep takes. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/temporary.h"
#include "harness/harness.h"

static int folder_open(void)
{
	int fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static bool there(int dir, const char *name)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(names)
{
	char name[TEMPORARY_BYTES];
	for (int i = 0; i < 100; i++) {
		temporary_name(name);
		CHECK(temporary_is(name));
	}
	CHECK(!temporary_is(".cowbox-tmp-"));
	CHECK(!temporary_is(".cowbox-tmp-0123456789abcde"));
	CHECK(!temporary_is(".cowbox-tmp-0123456789abcdef0"));
	CHECK(!temporary_is(".cowbox-tmp-0123456789abcdeF"));
	CHECK(!temporary_is("cowbox-tmp-0123456789abcdef"));
}

/* Where it can be made and not opened, it does not stay. */
TEST(without_a_descriptor_nothing_is_left)
{
	cb_error err = {0};
	AUTO_FD int dir = folder_open();
	char name[TEMPORARY_BYTES];
	int fd = -1, next = dup(dir);
	struct rlimit old, few;
	CHECK(next >= 0 && getrlimit(RLIMIT_NOFILE, &old) == 0);
	few = (struct rlimit){(rlim_t)next, old.rlim_max};
	CHECK(close(next) == 0 && setrlimit(RLIMIT_NOFILE, &few) == 0);
	cb_code code = temporary_folder(dir, name, &fd, &err);
	CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
	CHECK(code != CB_OK && fd < 0 && !there(dir, name));
}

TEST(sweep_takes_the_dead_and_spares_the_living)
{
	cb_error err = {0};
	AUTO_FD int dir = folder_open();
	char file[TEMPORARY_BYTES], folder[TEMPORARY_BYTES], dead_file[TEMPORARY_BYTES], dead_folder[TEMPORARY_BYTES];
	AUTO_FD int a = -1, b = -1;
	int c = -1, d = -1;
	CHECK_OK(temporary_file(dir, file, &a, &err));
	CHECK_OK(temporary_folder(dir, folder, &b, &err));
	CHECK_OK(temporary_file(dir, dead_file, &c, &err));
	CHECK_OK(temporary_folder(dir, dead_folder, &d, &err));
	CHECK(mkdirat(d, "in", 0700) == 0 && mkdirat(b, "in", 0700) == 0);
	CHECK(close(c) == 0 && close(d) == 0);
	/* Of nobody's concern: other names, and links. */
	CHECK(mkdirat(dir, ".cowbox-tmp-0123", 0700) == 0 && symlinkat("x", dir, ".cowbox-tmp-0123456789abcdef") == 0);
	AUTO_FD int lookalike = openat(dir, "cowbox-tmp-0123456789abcdef", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(lookalike >= 0);
	temporary_sweep(dir);
	CHECK(there(dir, file) && there(dir, folder) && there(b, "in"));
	CHECK(!there(dir, dead_file) && !there(dir, dead_folder));
	CHECK(there(dir, ".cowbox-tmp-0123") && there(dir, ".cowbox-tmp-0123456789abcdef") &&
	      there(dir, "cowbox-tmp-0123456789abcdef"));
}

/* Whoever may rename in a folder could give our things such names. */
TEST(sweep_only_where_nobody_else_renames)
{
	AUTO_FD int dir = folder_open();
	static const char name[] = ".cowbox-tmp-0123456789abcdef";
	CHECK(mkdirat(dir, name, 0700) == 0 && fchmod(dir, 0777) == 0);
	temporary_sweep(dir);
	CHECK(there(dir, name));
	if (geteuid() == 0) {
		CHECK(fchmod(dir, 0700) == 0 && fchown(dir, 12345, 12345) == 0);
		temporary_sweep(dir);
		CHECK(there(dir, name) && fchown(dir, 0, 0) == 0);
	}
	CHECK(fchmod(dir, 01777) == 0); /* as /tmp */
	temporary_sweep(dir);
	CHECK(!there(dir, name));
	CHECK(fchmod(dir, 0700) == 0);
}

/* Deeper than there are descriptors, wide, with modes that deny everything, and links that lead out. */
TEST(remove_takes_all_and_follows_nothing)
{
	cb_error err = {0};
	AUTO_FD int dir = folder_open();
	char name[TEMPORARY_BYTES], text[32];
	int top = -1;
	CHECK(mkdirat(dir, "outside", 0700) == 0 && mkdirat(dir, "outside/kept", 0700) == 0);
	CHECK_OK(temporary_folder(dir, name, &top, &err));
	int at = dup(top);
	for (int i = 0; i < 3000; i++) {
		CHECK(mkdirat(at, "down", 0700) == 0);
		CHECK(symlinkat("../../outside", at, "out") == 0);
		int next = openat(at, "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		if (i % 7 == 3) CHECK(fchmod(at, 0) == 0);
		CHECK(close(at) == 0);
		at = next;
	}
	for (int i = 0; i < 500; i++) {
		(void)snprintf(text, sizeof(text), "f%d", i);
		int fd = openat(top, text, O_WRONLY | O_CREAT | O_CLOEXEC, 0);
		CHECK(fd >= 0 && close(fd) == 0);
	}
	CHECK(close(at) == 0 && close(top) == 0);
	temporary_sweep(dir);
	CHECK(!there(dir, name));
	CHECK(there(dir, "outside/kept"));
}

static void make_and_hold(int dir, int ready)
{
	cb_error err = {0};
	char name[TEMPORARY_BYTES];
	int fd = -1;
	if (temporary_folder(dir, name, &fd, &err) != CB_OK) _exit(1);
	if (write(ready, name, sizeof(name)) != (ssize_t)sizeof(name)) _exit(2);
	(void)pause();
}

TEST(a_kill_ends_the_lock)
{
	AUTO_FD int dir = folder_open();
	int ready[2];
	CHECK(pipe2(ready, O_CLOEXEC) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) make_and_hold(dir, ready[1]);
	char name[TEMPORARY_BYTES];
	CHECK(read(ready[0], name, sizeof(name)) == (ssize_t)sizeof(name));
	temporary_sweep(dir);
	CHECK(there(dir, name));
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	temporary_sweep(dir);
	CHECK(!there(dir, name));
}

/* Makers and sweepers at once: whoever got a name keeps it. */
TEST(makers_beside_sweepers)
{
	enum { MAKERS = 3, SWEEPERS = 3, ROUNDS = 2000 };
	AUTO_FD int dir = folder_open();
	pid_t all[MAKERS + SWEEPERS];
	for (int i = 0; i < MAKERS + SWEEPERS; i++) {
		all[i] = fork();
		CHECK(all[i] >= 0);
		if (all[i] != 0) continue;
		for (int n = 0; i >= MAKERS; n++) temporary_sweep(dir);
		for (int n = 0; n < ROUNDS; n++) {
			cb_error err = {0};
			char name[TEMPORARY_BYTES], other[TEMPORARY_BYTES];
			int fd = -1, second = -1;
			if (temporary_folder(dir, name, &fd, &err) != CB_OK) _exit(1);
			if (temporary_file(dir, other, &second, &err) != CB_OK) _exit(2);
			if (!there(dir, name) || !there(dir, other)) _exit(3);
			if (mkdirat(fd, "in", 0700) != 0 || unlinkat(fd, "in", AT_REMOVEDIR) != 0) _exit(4);
			if (unlinkat(dir, name, AT_REMOVEDIR) != 0 || unlinkat(dir, other, 0) != 0) _exit(5);
			(void)close(fd);
			(void)close(second);
		}
		_exit(0);
	}
	for (int i = 0; i < MAKERS; i++) {
		int status = 0;
		CHECK(waitpid(all[i], &status, 0) == all[i]);
		CHECK_U64(status, 0);
	}
	for (int i = MAKERS; i < MAKERS + SWEEPERS; i++) CHECK(kill(all[i], SIGKILL) == 0 && waitpid(all[i], NULL, 0) == all[i]);
}
