/*
 * A lock that could not be taken for another reason than that somebody has it (ENOLCK: a network filesystem that is out of locks) was taken
 * for somebody's: a store was waited for in vain, or its table of states in use grew block by block to its bound of 64 MiB. Each lock of
 * a store's life fails here in turn, and all after it: the call says so, at once.
 */
#include "harness/boxes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALL_SECONDS = 30, LOCKS_MAX = 400, TABLE_BYTES = 1 << 20 };

static int locks_left = -1; /* that still work; -1: all do */

static int fcntl_or_fail(int fd, int command, void *argument)
{
	bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
	if (locks && locks_left == 0) {
		errno = ENOLCK;
		return -1;
	}
	if (locks && locks_left > 0) locks_left--;
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

/* Instead of the C library's, for the library and for SQLite. */
__attribute__((visibility("default"))) int fcntl(int fd, int command, ...)
{
	va_list arguments;
	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return fcntl_or_fail(fd, command, argument);
}

__attribute__((visibility("default"))) int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return fcntl_or_fail(fd, command, argument);
}

static cb_code live(cb_error *err)
{
	cb_store *s = NULL;
	cb_box *b = NULL;
	char large[100 << 10] = {0};
	cb_code code = cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .no_create = true), &s, err);
	if (code == CB_OK) code = cb_box_open(s, "demo", &b, err);
	if (code == CB_OK) code = cb_write_file(b, "/work/f", "y", 1, NULL, err);
	if (code == CB_OK) code = cb_write_file(b, "/work/large", large, sizeof(large), NULL, err);
	if (code == CB_OK) code = cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, err);
	if (code == CB_OK) code = cb_store_gc(s, NULL, err);
	cb_box_close(b);
	cb_store_close(s);
	return code;
}

/* In a process of its own: what it leaves is left by its end. 0: it went through; 1: it failed as it should. */
static int live_with(int locks)
{
	cb_error err = {0};
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(CALL_SECONDS);
		locks_left = locks;
		cb_code code = live(&err);
		bool right = code == CB_IO && err.os_error == ENOLCK && strstr(err.message, test_store_path());
		if (code != CB_OK && !right)
			(void)fprintf(stderr, "# after %d locks: %s %d %s\n", locks, cb_code_name(code), err.os_error, err.message);
		_exit(code == CB_OK ? 0 : right ? 1 : 2);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
	return WEXITSTATUS(status);
}

TEST(locks_that_fail)
{
	cb_error err = {0};
	char table[4096];
	struct stat st;
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "x");
	cb_box_close(b);
	cb_store_close(s);
	int locks = 0;
	while (locks < LOCKS_MAX && live_with(locks) != 0) locks++;
	CHECK(locks > 10 && locks < LOCKS_MAX);
	(void)snprintf(table, sizeof(table), "%s/inuse", test_store_path());
	CHECK(stat(table, &st) == 0 && st.st_size < TABLE_BYTES);
	s = test_store_reopen();
	test_store_sound(s);
	cb_store_close(s);
}
