/*
 * test_exec_leaks.c: a process that runs many programs in many boxes, as a server of agents does, keeps nothing of them: no
 * descriptor, no child, no thread, no mount.
 */
#include <cowbox/cowbox.h>

#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

static unsigned entries_of(const char *path)
{
	DIR *d = opendir(path);
	CHECK(d);
	unsigned n = 0;
	while (readdir(d)) n++;
	(void)closedir(d);
	return n;
}

static uint64_t mount_lines(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	CHECK(f);
	uint64_t lines = 0;
	for (int c = getc(f); c != EOF; c = getc(f)) lines += c == '\n';
	(void)fclose(f);
	return lines;
}

static void run_shell(cb_sandbox *sandbox, const char *script, int expected)
{
	cb_error err;
	const char *argv[] = {"sh", "-c", script};
	cb_exec_options options = CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_NONE);
	cb_exec *e = NULL;
	const cb_exec_result *result = NULL;
	CHECK_OK(cb_exec_start(sandbox, &options, &e, &err));
	CHECK_OK(cb_exec_wait(e, &result, &err));
	CHECK_MSG(result->exit_code == expected, "exit %d: %.*s", result->exit_code, (int)result->err_size, result->err);
	cb_exec_close(e);
}

static void run_fork(cb_store *store, unsigned number)
{
	cb_error err;
	char name[32];
	(void)snprintf(name, sizeof(name), "fork-%u", number);
	cb_box *b = must_fork(store, "base", name);
	cb_sandbox *sandbox = NULL;
	CHECK_OK(cb_sandbox_open(b, NULL, &sandbox, &err));
	run_shell(sandbox, "echo x >made", 0);
	run_shell(sandbox, "cat made >copy; (sleep 100 &) ; exit 3", 3);
	cb_sandbox_close(sandbox);
	CHECK(strcmp(must_read(b, "/work/copy"), "x\n") == 0);
	cb_box_close(b);
}

static void fill(cb_box *b, unsigned files)
{
	cb_box *box = b;
	b = must_begin(box);
	for (unsigned i = 0; i < files; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		must_write(b, path, "text\n");
	}
	(void)must_commit(b);
	b = box;
}

static void leaves_nothing(unsigned files, unsigned forks)
{
	cb_store *store = test_store_open(false);
	cb_error err;
	cb_box *base = NULL;
	CHECK_OK(cb_box_create(store, "base", &base, &err));
	fill(base, files);
	cb_box_close(base);
	run_fork(store, 0); /* what is opened once for all is open now */
	unsigned descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
	uint64_t mounts = mount_lines();
	for (unsigned i = 1; i <= forks * test_soak(); i++) run_fork(store, i);
	CHECK_U64(entries_of("/proc/self/fd"), descriptors);
	CHECK_U64(entries_of("/proc/self/task"), threads);
	CHECK_U64(mount_lines(), mounts);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	test_store_sound(store);
	cb_store_close(store);
}

TEST_LIMIT(many_forks_of_a_small_box, 120)
{
	leaves_nothing(20, 12);
}

TEST_LIMIT(many_forks_of_a_large_box, 120)
{
	leaves_nothing(700, 12);
}
