/*
 * test_create.c: a store is made by a process that is killed at every one of its system calls, one after the other, by a tracer: nothing of
 * the library knows of it. What is left must count as no store, or be taken up by the next who opens it.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { MOST_CALLS = 5000 };

/* The traced process: `cowbox new` in short. */
static void make(const char *folder)
{
	cb_store *s = NULL;
	cb_box *b = NULL;
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(3);
	(void)raise(SIGSTOP);
	cb_code code = cb_store_open(folder, NULL, &s, NULL);
	if (code == CB_OK) code = cb_box_create(s, "demo", &b, NULL);
	if (code == CB_OK) code = cb_write_file(b, "/work/f", "text", 4, NULL, NULL);
	cb_box_close(b);
	cb_store_close(s);
	_exit(code == CB_OK ? 0 : 1);
}

/* Kills it at the entrance of its n-th system call. False: it ended before. */
static bool make_killed(const char *folder, unsigned n)
{
	int status = 0;
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) make(folder);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
	/* Stops come in pairs, entrance and exit. */
	for (unsigned stops = 0; stops < 2 * n - 1;) {
		CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
		CHECK(waitpid(pid, &status, 0) == pid);
		if (WIFEXITED(status)) {
			CHECK_MSG(WEXITSTATUS(status) == 0, "unhurt, it ended with %d", WEXITSTATUS(status));
			return false;
		}
		CHECK_MSG(WIFSTOPPED(status), "ended by signal %d", WTERMSIG(status));
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) stops++;
	}
	CHECK(kill(pid, SIGKILL) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	return true;
}

static bool can_trace(void)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* As any user would go on. */
static void go_on(const char *folder, unsigned n)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	cb_code code = cb_store_open(folder, NULL, &s, &err);
	CHECK_MSG(code == CB_OK, "killed at call %u: %s", n, err.message);
	code = cb_box_open(s, "demo", &b, &err);
	if (code == CB_NOTFOUND) code = cb_box_create(s, "demo", &b, &err);
	CHECK_MSG(code == CB_OK, "killed at call %u: %s", n, err.message);
	must_write(b, "/work/f", "again");
	CHECK_STR(must_read(b, "/work/f"), "again");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_LIMIT(killed_at_every_call, 600)
{
	if (!can_trace()) test_skip("no process may be traced here");
	unsigned n = 1;
	for (bool killed = true; killed; n++) {
		char folder[512], command[600];
		CHECK(n < MOST_CALLS);
		(void)snprintf(folder, sizeof(folder), "%s/store", test_tmpdir());
		killed = make_killed(folder, n);
		go_on(folder, n);
		(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
		CHECK(system(command) == 0);
	}
	test_note("killed at each of %u system calls", n - 2);
}

static void put_file(const char *path, const void *bytes, size_t size)
{
	FILE *f = fopen(path, "we");
	CHECK(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

/* SQLite may let the file grow before it writes the first page: then that page is zeros, and only the journal tells whose it is. */
TEST(grown_but_not_written)
{
	static const uint8_t journal[512] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, [22] = 2, [26] = 0x10};
	static const uint8_t zeros[4096];
	for (unsigned with_journal = 0; with_journal < 2; with_journal++) {
		char folder[512], file[600];
		cb_error err = {0};
		cb_store *s = NULL;
		(void)snprintf(folder, sizeof(folder), "%s/store%u", test_tmpdir(), with_journal);
		CHECK(mkdir(folder, 0700) == 0);
		(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder);
		put_file(file, zeros, sizeof(zeros));
		(void)snprintf(file, sizeof(file), "%s/cowbox.db-journal", folder);
		if (with_journal) {
			put_file(file, journal, sizeof(journal));
			go_on(folder, 0);
		} else {
			CHECK_CODE(cb_store_open(folder, NULL, &s, &err), CB_FOREIGN);
		}
	}
}
