/*
 * test_leftovers.c: kill -9 before each system call that changes something, while the command line writes to the host. Whatever the killed
 * one left, the same line again ends the work and leaves nothing that does not belong there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/hosttrees.h"

static const char *program(void)
{
	const char *build = getenv("COWBOX_BUILD");
	const char *path = host_text("%s/cowbox", build ? build : "build/release");
	if (access(path, X_OK) != 0) test_skip("the command line is not built");
	return path;
}

/* ---- the command, killed on its way ---- */

static bool changes_something(uint64_t call)
{
	static const long calls[] = {
#ifdef SYS_mkdir
		SYS_mkdir,     SYS_rename,    SYS_link,      SYS_unlink,          SYS_rmdir,  SYS_symlink,  SYS_chmod,
#endif
		SYS_openat,    SYS_mkdirat,   SYS_renameat,  SYS_renameat2,       SYS_linkat, SYS_unlinkat, SYS_symlinkat,
		SYS_flock,     SYS_fchmod,    SYS_fchmodat,  SYS_utimensat,       SYS_write,  SYS_pwrite64, SYS_fsync,
		SYS_fdatasync, SYS_ftruncate, SYS_fallocate, SYS_copy_file_range,
	};
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (call == (uint64_t)calls[i]) return true;
	return false;
}

static pid_t start(const char *line, bool traced)
{
	const char *path = program();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child) return child;
	(void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* which cannot be done under ptrace */
	if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(120);
	/* The shell only takes the line apart. */
	(void)execl("/bin/sh", "sh", "-c", host_text("exec %s --store '%s' %s >/dev/null 2>&1", path, test_store_path(), line),
	            NULL);
	_exit(121);
}

/* Killed before its n-th such call; *ended: it came to its end before. */
static void kill_at(const char *line, unsigned n, bool *ended)
{
	pid_t child = start(line, true);
	unsigned execs = 0, calls = 0;
	int status = 0;
	for (bool entry = true;; entry = !entry) {
		CHECK(waitpid(child, &status, 0) == child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 120) test_skip("no ptrace here");
		if (WIFEXITED(status) || WIFSIGNALED(status)) break;
		int signal = WSTOPSIG(status);
		if (signal == SIGTRAP) { /* after an exec; the second one is the program */
			CHECK(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
			execs++;
			entry = false; /* what follows is the end of exec */
		}
		struct __ptrace_syscall_info info = {0};
		if (signal == (SIGTRAP | 0x80) && execs == 2 && ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_something(info.entry.nr) && ++calls == n)
			CHECK(kill(child, SIGKILL) == 0);
		int pass = signal == SIGTRAP || signal == (SIGTRAP | 0x80) ? 0 : signal;
		if (ptrace(PTRACE_SYSCALL, child, NULL, (void *)(uintptr_t)pass) != 0) CHECK(errno == ESRCH);
	}
	*ended = WIFEXITED(status);
	if (*ended) CHECK_MSG(WEXITSTATUS(status) == 0, "%s: status %d", line, WEXITSTATUS(status));
}

static void run(const char *line)
{
	int status = 0;
	pid_t child = start(line, false);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_MSG(status == 0, "%s: status %d", line, WEXITSTATUS(status));
}

/* ---- lines ---- */

/* before: a shell command that makes the place; line; and what is done after a kill before the line is given again. expected: all that is
 * below the place then, by name. */
static void at_every_call(const char *before, const char *line, const char *between, const char *expected)
{
	const char *place = host_text("%s/out", test_tmpdir());
	bool ended = false;
	unsigned kills = 0;
	for (unsigned n = 1; !ended; n++, kills += !ended) {
		host_shell("chmod -R u+rwx '%s' 2>/dev/null; rm -rf '%s'; mkdir '%s' && cd '%s' && %s", place, place, place, place,
		           before);
		kill_at(line, n, &ended);
		if (!ended) host_shell("cd '%s' && %s", place, between);
		if (!ended) run(line);
		host_shell("cd '%s' && test \"$(find . -mindepth 1 -maxdepth 2 | sort | tr '\\n' ' ')\" = '%s' || "
		           "{ echo '# killed at call %u:' >&2; find . >&2; exit 1; }",
		           place, expected, n);
	}
	test_note("%s: killed %u times", line, kills);
	CHECK(kills > 5);
}

static void make_box(void)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a");
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	must_write(b, "/work/d/b", "b");
	CHECK_OK(cb_symlink(b, "a", "/work/s", &err));
	CHECK_OK(cb_link(b, "/work/a", "/work/h", &err));
	char *large = test_keep(malloc(200001));
	memset(large, 'x', 200000);
	large[200000] = 0;
	must_write(b, "/work/large", large); /* has a segment */
	cb_box_close(b);
	cb_store_close(s);
}

TEST_LIMIT(backup, 300)
{
	make_box();
	const char *line = host_text("backup '%s/out/copy'", test_tmpdir());
	at_every_call("true", line, "rm -rf copy",
	              "./copy ./copy/cowbox.db ./copy/cowbox.db-shm ./copy/cowbox.db-wal ./copy/inuse ./copy/live ./copy/locks "
	              "./copy/numbers ./copy/seg ");
}

TEST_LIMIT(pack, 300)
{
	make_box();
	at_every_call("true", host_text("pack demo -o '%s/out/demo.cbx'", test_tmpdir()), "rm -f demo.cbx", "./demo.cbx ");
	at_every_call("echo old >demo.cbx", host_text("pack demo --force -o '%s/out/demo.cbx'", test_tmpdir()), "true",
	              "./demo.cbx ");
}

TEST_LIMIT(export_to_a_new_folder, 300)
{
	make_box();
	at_every_call("true", host_text("export demo '%s/out/tree'", test_tmpdir()), "rm -rf tree",
	              "./tree ./tree/a ./tree/d ./tree/h ./tree/large ./tree/s ");
}

TEST_LIMIT(export_over_another, 300)
{
	make_box();
	at_every_call("mkdir d && echo 1 >a && echo 2 >d/b && echo 3 >large && ln -s x s && echo 4 >h",
	              host_text("export demo '%s/out' --overwrite", test_tmpdir()), "true", "./a ./d ./d/b ./h ./large ./s ");
}

TEST_LIMIT(copy_of_a_file, 300)
{
	make_box();
	at_every_call("true", host_text("cp demo:/work/large '%s/out/large'", test_tmpdir()), "rm -f large", "./large ");
	at_every_call("true", host_text("export demo:/work/large '%s/out/large' --overwrite", test_tmpdir()), "true", "./large ");
}

TEST_LIMIT(import_that_remembers, 300)
{
	make_box();
	host_shell("mkdir '%s/from' && echo 1 >'%s/from/x'", test_tmpdir(), test_tmpdir());
	/* What it remembers is in the store: nothing there has a temporary name afterwards. */
	const char *line = host_text("import '%s/from' demo:/work/from", test_tmpdir());
	at_every_call("true", line, "true", "");
	host_shell("test -z \"$(find '%s' -name '.cowbox-tmp-*')\"", test_store_path());
}
