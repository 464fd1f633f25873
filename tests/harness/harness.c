/*
 * harness.c: runs the registered tests and speaks TAP 13.
 *
 * Map: results shared between parent and child; what tests call; removal of folders; one test's life (child_main, await_end,
 * kill_leftovers); verdicts; arguments and main.
 *
 * The parent of all tests survives everything a test may do: it waits with a clock, kills the test's process group and every orphan (it
 * is their subreaper), removes the test's folder and goes on with the next one. On SIGINT or SIGTERM it does the same and ends.
 */
#include "harness/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
enum { SLOWDOWN = 4 };
#elif defined(__SANITIZE_THREAD__)
enum { SLOWDOWN = 10 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SLOWDOWN = 10 };
#else
enum { SLOWDOWN = 1 };
#endif
#else
enum { SLOWDOWN = 1 };
#endif

/* Written by the test's process and those it forks, read by the parent. */
typedef struct shared_result {
	_Atomic int failed;
	_Atomic int skipped;
	_Atomic int finished; /* the test's function returned: exit(0) in the middle of a test is not success */
	_Atomic int seed_used;
	_Atomic int seed_printed; /* once per program */
	char skip_reason[256];
} shared_result;

static test_case *tests_first, **tests_last = &tests_first;
static shared_result *result;
static uint64_t seed;
static const char *program; /* as it was called, to be called again */
static char tmpdir[PATH_MAX];

void test_register(test_case *t)
{
	*tests_last = t;
	tests_last = &t->next;
}

/* ---- what tests call ---- */

void test_fail(const char *file, int line, const char *format, ...)
{
	char text[2048];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	test_note("%s:%d: %s", file, line, text);
	result->failed = 1;
	_exit(1);
}

void test_skip(const char *reason)
{
	const char *must_work = getenv("COWBOX_MUST_WORK");
	if (must_work && strcmp(must_work, "1") == 0) {
		test_note("may not be skipped here (COWBOX_MUST_WORK=1): %s", reason);
		result->failed = 1;
		_exit(1);
	}
	(void)snprintf(result->skip_reason, sizeof(result->skip_reason), "%s", reason);
	result->skipped = 1;
	_exit(0);
}

/* Tests run in the root of the source; elsewhere nothing may be missing. */
static bool may_lack(const char *feature)
{
	char line[256];
	bool found = false;
	size_t length = strlen(feature);
	FILE *f = fopen("tests/may-lack", "re");
	if (!f) return false;
	while (!found && fgets(line, sizeof(line), f)) found = strncmp(line, feature, length) == 0 && line[length] == ' ';
	(void)fclose(f);
	return found;
}

void test_lacks(const char *feature, const char *reason)
{
	if (!may_lack(feature)) test_skip(reason);
	(void)snprintf(result->skip_reason, sizeof(result->skip_reason), "%s: %s", feature, reason);
	result->skipped = 1;
	_exit(0);
}

/* One write per note, so that lines of several threads and processes do not mix; each line of the text becomes a comment. */
void test_note(const char *format, ...)
{
	char text[4096], out[8192];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	size_t n = 0;
	for (const char *line = text; *line && n < sizeof(out) - 1;) {
		size_t length = strcspn(line, "\n");
		int written = snprintf(out + n, sizeof(out) - n, "# %.*s\n", (int)length, line);
		n += written < 0 ? 0 : (size_t)written;
		line += length + (line[length] == '\n');
	}
	if (n > sizeof(out) - 1) n = sizeof(out) - 1;
	(void)fflush(stdout);
	if (write(STDOUT_FILENO, out, n) < 0) result->failed = 1;
}

void test_err_copy(cb_error *to, cb_error *from)
{
	memcpy(to, from, sizeof(*to));
}

uint64_t test_seed(void)
{
	result->seed_used = 1;
	if (!result->seed_printed) {
		result->seed_printed = 1;
		test_note("seed %" PRIu64, seed);
	}
	return seed;
}

unsigned test_soak(void)
{
	const char *text = getenv("COWBOX_SOAK");
	unsigned long n = text ? strtoul(text, NULL, 10) : 1;
	return n < 1 ? 1 : n > 100000 ? 100000 : (unsigned)n;
}

unsigned test_dose(unsigned rounds)
{
	return test_soak() > 1 ? rounds * test_soak() : (rounds + 19) / 20;
}

double test_cpu_ms(void)
{
	struct timespec now;
	CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

bool test_only_random(void)
{
	return getenv("COWBOX_ONLY_RANDOM") != NULL;
}

const char *test_tmpdir(void)
{
	struct stat st;
	if (mkdir(tmpdir, 0700) != 0 && (errno != EEXIST || lstat(tmpdir, &st) != 0 || !S_ISDIR(st.st_mode)))
		test_fail(__FILE__, __LINE__, "folder %s cannot be made: %s", tmpdir, strerror(errno));
	return tmpdir;
}

uint64_t test_rand(test_rng *r)
{
	uint64_t x = r->state ? r->state : 0x9e3779b97f4a7c15u; /* zero would stay zero */
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	r->state = x;
	return x * 0x2545f4914f6cdd1du;
}

uint64_t test_rand_below(test_rng *r, uint64_t n)
{
	return (test_rand(r) >> 11) % n;
}

/* ---- removal of a test's folder ---- */

static void remove_at(int folder, const char *name)
{
	if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return;
	/* Tests leave folders without permissions behind; O_NOFOLLOW, since they also leave links to elsewhere. */
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(folder, name, 0700, 0) == 0)
		fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) return;
	(void)fchmod(fd, 0700);
	DIR *entries = fdopendir(fd);
	if (!entries) {
		(void)close(fd);
		return;
	}
	for (const struct dirent *e; (e = readdir(entries));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) remove_at(fd, e->d_name);
	(void)closedir(entries);
	(void)unlinkat(folder, name, AT_REMOVEDIR);
}

/* In a process of its own, since a deep tree needs an open folder per level and the raised limit must not reach the tests. */
static void remove_tree(const char *path)
{
	struct stat st;
	if (lstat(path, &st) != 0) return;
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit files;
		if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
			files.rlim_cur = files.rlim_max;
			(void)setrlimit(RLIMIT_NOFILE, &files);
		}
		remove_at(AT_FDCWD, path);
		_exit(0);
	}
	if (pid > 0) (void)waitpid(pid, NULL, 0);
	if (lstat(path, &st) == 0) test_note("%s could not be removed", path);
}

/* ---- one test's life ---- */

static sigset_t watched_signals(void)
{
	sigset_t set;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	return set;
}

static void child_main(const test_case *t)
{
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigset_t set = watched_signals();
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	t->run();
	result->finished = 1;
	/* exit, not _exit: leak and race reports are made there and turn the status nonzero. */
	exit(0);
}

/* Kills and reaps every process that still has this one as parent or subreaper. */
static void kill_leftovers(void)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	for (int round = 0; round < 1000; round++) {
		while (waitpid(-1, NULL, WNOHANG) > 0) {
		}
		FILE *f = fopen(path, "re");
		if (!f) return;
		int pid = 0, found = 0;
		for (; fscanf(f, "%d", &pid) == 1; found++) (void)kill(pid, SIGKILL);
		(void)fclose(f);
		if (!found) return;
		(void)usleep(1000);
	}
}

static struct timespec time_left(const struct timespec *deadline)
{
	struct timespec now, left = {0, 0};
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t ns = (int64_t)(deadline->tv_sec - now.tv_sec) * 1000000000 + (deadline->tv_nsec - now.tv_nsec);
	if (ns > 0) left = (struct timespec){ns / 1000000000, ns % 1000000000};
	return left;
}

static void end_on_signal(pid_t pid, int signal_number)
{
	(void)kill(-pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	kill_leftovers();
	remove_tree(tmpdir);
	printf("Bail out! Signal %d\n", signal_number);
	(void)fflush(stdout);
	_exit(128 + signal_number);
}

/* Waits for the test's process, but not past its limit. Gives its wait status; true if it had to be stopped. */
static bool await_end(pid_t pid, uint64_t limit_seconds, int *out_status)
{
	sigset_t set = watched_signals();
	struct timespec deadline;
	(void)clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += (time_t)limit_seconds;
	bool timed_out = false;
	for (;;) {
		/* WNOWAIT: the process stays a zombie, so its group's number cannot be given to somebody else before the kill. */
		siginfo_t info = {0};
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid) break;
		struct timespec left = time_left(&deadline);
		int got = sigtimedwait(&set, NULL, &left);
		if (got == SIGINT || got == SIGTERM) end_on_signal(pid, got);
		if (got < 0 && errno == EAGAIN) {
			timed_out = true;
			break;
		}
	}
	(void)kill(-pid, SIGKILL);
	(void)waitpid(pid, out_status, 0);
	kill_leftovers();
	return timed_out;
}

/* ---- verdicts ---- */

static bool explain_end(int status, bool timed_out, uint64_t limit_seconds)
{
	if (timed_out) {
		test_note("stopped after its limit of %" PRIu64 " s", limit_seconds);
	} else if (WIFSIGNALED(status)) {
		test_note("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else if (result->failed) {
		return false; /* has said why */
	} else if (WEXITSTATUS(status) != 0) {
		test_note("exit status %d%s", WEXITSTATUS(status), result->finished ? " after its end: a sanitizer's report?" : "");
	} else if (!result->finished && !result->skipped) {
		test_note("exited before its end");
	} else {
		return true;
	}
	return false;
}

static void name_tmpdir(unsigned number)
{
	const char *base = getenv("TMPDIR");
	if (!base || base[0] != '/') base = "/tmp";
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)snprintf(tmpdir, sizeof(tmpdir), "%s/cowbox-test-%d-%u-%lx", base, (int)getpid(), number, (unsigned long)now.tv_nsec);
}

/* The very command that repeats it, from the root of the source. */
static void tell_again(const test_case *t)
{
	const char *helper = getenv("COWBOX_BOX_HELPER"), *soak = getenv("COWBOX_SOAK");
	test_note("again: %s%s%s%s%s%s%s --seed %" PRIu64 " =%s", helper ? "COWBOX_BOX_HELPER=" : "", helper ? helper : "",
	          helper ? " " : "", soak ? "COWBOX_SOAK=" : "", soak ? soak : "", soak ? " " : "", program, seed, t->name);
}

static bool run_test(const test_case *t, unsigned number)
{
	int seed_printed = result->seed_printed;
	memset(result, 0, sizeof(*result));
	result->seed_printed = seed_printed;
	name_tmpdir(number);
	uint64_t limit_seconds = (uint64_t)t->limit_seconds * SLOWDOWN * test_soak();

	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) child_main(t);
	bool ok = false;
	if (pid < 0) {
		test_note("fork: %s", strerror(errno));
	} else {
		(void)setpgid(pid, pid);
		int status = 0;
		bool timed_out = await_end(pid, limit_seconds, &status);
		ok = explain_end(status, timed_out, limit_seconds);
	}
	remove_tree(tmpdir);
	if (!ok && result->seed_used) tell_again(t);
	printf("%sok %u - %s%s%s\n", ok ? "" : "not ", number, t->name, ok && result->skipped ? " # SKIP " : "",
	       ok && result->skipped ? result->skip_reason : "");
	if (result->seed_used) test_note("random: %s", t->name); /* tools/seeds runs these again */
	(void)fflush(stdout);
	return ok;
}

/* ---- arguments ---- */

typedef struct options {
	bool list;
	int name_count;
	char **names; /* substrings; whole names after a '=' */
} options;

static bool is_selected(const test_case *t, const options *o)
{
	if (o->name_count == 0) return true;
	for (int i = 0; i < o->name_count; i++)
		if (o->names[i][0] == '=' ? strcmp(t->name, o->names[i] + 1) == 0 : strstr(t->name, o->names[i]) != NULL)
			return true;
	return false;
}

static bool parse_seed(const char *text)
{
	char *end;
	errno = 0;
	seed = strtoull(text, &end, 0);
	if (errno == 0 && end != text && *end == '\0') return true;
	(void)fprintf(stderr, "seed '%s' is not a number\n", text);
	return false;
}

static bool parse(int argc, char **argv, options *out)
{
	*out = (options){false, 0, argv};
	program = argv[0];
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	seed = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	const char *from_environment = getenv("COWBOX_SEED");
	if (from_environment && *from_environment && !parse_seed(from_environment)) return false;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--list") == 0) {
			out->list = true;
		} else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			if (!parse_seed(argv[++i])) return false;
		} else if (argv[i][0] == '-') {
			(void)fprintf(stderr, "usage: %s [--list] [--seed N] [NAME...]\n", argv[0]);
			return false;
		} else {
			out->names[out->name_count++] = argv[i]; /* in argv itself, behind the reader */
		}
	}
	return true;
}

static void prepare_parent(void)
{
	(void)signal(SIGCHLD, SIG_DFL); /* whoever started us may have it ignored: then nothing could be waited for */
	sigset_t set = watched_signals();
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (result == MAP_FAILED) abort();
}

int main(int argc, char **argv)
{
	options o;
	if (!parse(argc, argv, &o)) return 2;
	unsigned count = 0;
	for (test_case *t = tests_first; t; t = t->next) {
		count += is_selected(t, &o);
		if (o.list && is_selected(t, &o)) puts(t->name);
	}
	if (o.list) return 0;
	if (count == 0) {
		(void)fprintf(stderr, "%s: no test has that name (see --list)\n", argv[0]);
		return 2;
	}
	prepare_parent();
	printf("TAP version 13\n1..%u\n", count);
	unsigned number = 0, failed = 0;
	for (test_case *t = tests_first; t; t = t->next)
		if (is_selected(t, &o)) failed += !run_test(t, ++number);
	return failed ? 1 : 0;
}
