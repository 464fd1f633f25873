/*
 * exec.c: real programs in a box: what a start costs, what their file work costs, what finding and keeping their changes costs, and
 * how forks and large boxes behave.
 *
 * A start is held against posix_spawn and against bubblewrap with the same isolation (all namespaces, read-only system, fresh /proc,
 * /dev, /tmp). File work is held against the same script in a plain folder of the same filesystem. Of a run in a box the program's
 * time (start to end, as the caller sees it) and the capture (until the step is committed) are shown apart.
 */
#include "bench.h"

#include <cowbox/cowbox.h>
#include <poll.h>

enum { START_OPS = 20, CAPTURE_MAX = 16, MANY_FILES = 30000 };

static char cowbox_program[BENCH_PATH], inputs_program[BENCH_PATH], store_dir[BENCH_PATH], native_dir[BENCH_PATH];
static cb_store *store;

static bool have(const char *program)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", program);
	return system(command) == 0;
}

/* ---- a run in a box ---- */

static cb_exec *begin(cb_sandbox *sandbox, const char *const *argv, size_t argc)
{
	cb_exec_options options = CB_WITH(cb_exec_options, .argv = argv, .argc = argc, .stdin_fd = CB_STDIN_NONE);
	cb_exec *e = NULL;
	bool done = false;
	CB(cb_exec_start(sandbox, &options, &e, &bench_err));
	while (!done) {
		struct pollfd p = {.fd = cb_exec_fd(e), .events = POLLIN};
		SYS(poll(&p, 1, -1));
		CB(cb_exec_pump(e, &done, &bench_err));
	}
	return e;
}

/* Captures and commits; gives how many paths changed. */
static uint64_t finish(cb_exec *e, const char *what)
{
	const cb_exec_result *result = NULL;
	CB(cb_exec_wait(e, &result, &bench_err));
	if (result->exit_code != 0) {
		(void)fprintf(stderr, "%.*s", (int)result->err_size, result->err);
		bench_die(what, "did not succeed");
	}
	uint64_t changed = result->changed;
	cb_exec_close(e);
	return changed;
}

static uint64_t run_shell(cb_sandbox *sandbox, const char *script)
{
	const char *argv[] = {"sh", "-c", script};
	return finish(begin(sandbox, argv, 3), script);
}

static cb_sandbox *open_sandbox(const char *address)
{
	cb_box *b = NULL;
	cb_sandbox *sandbox = NULL;
	CB(cb_box_open(store, address, &b, &bench_err));
	CB(cb_sandbox_open(b, NULL, &sandbox, &bench_err));
	cb_box_close(b);
	return sandbox;
}

static void make_box(const char *name, uint64_t files, size_t bytes)
{
	cb_box *b = NULL;
	CB(cb_box_create(store, name, &b, &bench_err));
	bench_fill(b, files, bytes);
	cb_box_close(b);
}

/* ---- starts ---- */

static void spawn_words(void *context, uint64_t i)
{
	(void)i;
	char *const *argv = context;
	bench_finish(bench_start(argv), argv[0]);
}

typedef struct warm {
	cb_sandbox *sandbox;
	cb_exec *pending;
} warm;

static void warm_finish(void *context, uint64_t i)
{
	(void)i;
	warm *w = context;
	if (w->pending) (void)finish(w->pending, "true");
	w->pending = NULL;
}

static void warm_start(void *context, uint64_t i)
{
	(void)i;
	static const char *const argv[] = {"true"};
	warm *w = context;
	w->pending = begin(w->sandbox, argv, 1);
}

static void warm_whole(void *context, uint64_t i)
{
	warm_start(context, i);
	warm_finish(context, i);
}

#define WORDS(...) ((const char *[]){__VA_ARGS__, NULL})

static void starts(void)
{
	if (!bench_section("starting `true`")) return;
	make_box("start", 50, 100);
	const char **native = WORDS("true"), **ours = WORDS(cowbox_program, "--quiet", "exec", "start", "--", "true");
	const char **bwrap = WORDS("bwrap", "--unshare-all", "--uid", "1000", "--gid", "1000", "--ro-bind", "/usr", "/usr",
	                           "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin", "--symlink", "usr/lib", "/lib",
	                           "--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev",
	                           "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run", "--bind", native_dir, "/work", "--chdir", "/work",
	                           "--cap-drop", "ALL", "--new-session", "--die-with-parent", "true");
	bool peer = have("bwrap");
	const double one_shot[] = {0, 0.8}, live[] = {1.5, 0};
	contender shot[] = {{.name = "cowbox exec", .op = spawn_words, .context = ours, .ops = START_OPS},
	                    {.name = "posix_spawn", .op = spawn_words, .context = native, .ops = START_OPS},
	                    {.name = "bwrap, the same isolation", .op = spawn_words, .context = bwrap, .ops = START_OPS}};
	bench_compare("cowbox exec, whole, with its step", shot, peer ? 3 : 2, one_shot);
	warm w = {.sandbox = open_sandbox("start")};
	warm_whole(&w, 0);
	contender spawn[] = {{.name = "live", .op = warm_start, .prepare = warm_finish, .context = &w, .ops = START_OPS},
	                     {.name = "posix_spawn", .op = spawn_words, .context = native, .ops = START_OPS},
	                     {.name = "bwrap, the same isolation", .op = spawn_words, .context = bwrap, .ops = START_OPS}};
	bench_compare("from a live handle, start to end", spawn, peer ? 3 : 2, live);
	warm_finish(&w, 0);
	contender step[] = {{.name = "live", .op = warm_whole, .context = &w, .ops = START_OPS},
	                    {.name = "posix_spawn", .op = spawn_words, .context = native, .ops = START_OPS}};
	bench_compare("from a live handle, with its step", step, 2, NULL);
	cb_sandbox_close(w.sandbox);
}

/* ---- file work ---- */

typedef struct task {
	const char *what, *script, *reset; /* reset: before each round, not timed */
	double target;
	cb_sandbox *sandbox;
	cb_exec *pending;
	double captures[CAPTURE_MAX];
	size_t capture_count;
	uint64_t changed;
} task;

static void task_capture(task *t)
{
	if (!t->pending) return;
	double before = bench_now_us();
	t->changed = finish(t->pending, t->script);
	t->captures[t->capture_count++ % CAPTURE_MAX] = bench_now_us() - before;
	t->pending = NULL;
}

static void task_prepare(void *context, uint64_t i)
{
	(void)i;
	task *t = context;
	task_capture(t);
	if (t->reset) (void)run_shell(t->sandbox, t->reset);
	bench_settle();
}

static void task_run(void *context, uint64_t i)
{
	(void)i;
	task *t = context;
	const char *argv[] = {"sh", "-c", t->script};
	t->pending = begin(t->sandbox, argv, 3);
}

static void native_shell(const char *script)
{
	char command[4 * BENCH_PATH];
	int n = snprintf(command, sizeof(command), "cd '%s' && { %s; } >/dev/null 2>&1", native_dir, script);
	NEED(n > 0 && (size_t)n < sizeof(command));
	BENCH_RUN("sh", "-c", command);
}

static void native_prepare(void *context, uint64_t i)
{
	(void)i;
	task *t = context;
	if (t->reset) native_shell(t->reset);
	bench_settle();
}

static void native_run(void *context, uint64_t i)
{
	(void)i;
	native_shell(((task *)context)->script);
}

static void compare_task(task *t)
{
	char what[128];
	contender c[] = {{.name = "box", .op = task_run, .prepare = task_prepare, .context = t, .ops = 1},
	                 {.name = "the folder itself", .op = native_run, .prepare = native_prepare, .context = t, .ops = 1}};
	bench_compare(t->what, c, 2, &t->target);
	task_capture(t);
	size_t n = t->capture_count < CAPTURE_MAX ? t->capture_count : CAPTURE_MAX;
	(void)snprintf(what, sizeof(what), "  and its capture (%llu changes)", (unsigned long long)t->changed);
	bench_value(what, "us", bench_median_of(t->captures, n), NULL, 0, 0);
}

static void work(void)
{
	if (!bench_section("file work against the same in a plain folder")) return;
	char inputs[BENCH_PATH];
	(void)bench_path(inputs, "inputs");
	SYS(mkdir(inputs, 0755));
	BENCH_RUN(inputs_program, inputs);
	BENCH_RUN("sh", "-c", "cp -a \"$0/.\" \"$1\"", inputs, native_dir);
	BENCH_RUN(cowbox_program, "--quiet", "new", "work", "--from", inputs);
	bench_remove(inputs);
	const char *identity = "git config --global user.email b@localhost; git config --global user.name b; true";
	task tasks[] = {
		{.what = "untar of 5,000 files", .script = "tar -xf tree.tar", .reset = "rm -rf tree", .target = 1.4},
		{.what = "grep -r", .script = "grep -r needle_in_hay tree >/dev/null", .target = 1.4},
		{.what = "git init, add, commit",
	         .script = "cd tree && git init -q . && git add -A && git commit -qm all",
	         .reset = "rm -rf tree/.git",
	         .target = 1.4},
		{.what = "git status", .script = "cd tree && git status --porcelain", .target = 1.4},
		{.what = "make of 41 C files", .script = "cd c && make -s -j2", .reset = "rm -rf c/obj c/all", .target = 1.4},
		{.what = "npm ci of 40 packages",
	         .script = "cd app && npm ci --silent --offline --no-audit --no-fund --cache ../cache",
	         .reset = "rm -rf app/node_modules",
	         .target = 1.4},
		{.what = "rm -rf of 5,000 files", .script = "rm -rf tree", .reset = "[ -d tree ] || tar -xf tree.tar"},
	};
	cb_sandbox *sandbox = open_sandbox("work");
	(void)run_shell(sandbox, identity);
	native_shell(identity);
	unsigned rounds = bench.rounds;
	if (bench.rounds > 3 && !bench.full) bench.rounds = 3;
	for (size_t i = 0; i < sizeof(tasks) / sizeof(*tasks); i++) {
		tasks[i].sandbox = sandbox;
		if (strncmp(tasks[i].what, "npm", 3) == 0 && !have("npm")) continue;
		compare_task(&tasks[i]);
	}
	bench.rounds = rounds;
	cb_sandbox_close(sandbox);
}

/* ---- what a capture costs ---- */

static const char make_files[] = "perl -e 'for my $i (1 .. shift) { mkdir \"n\" . int $i / 100 if $i % 100 == 0 || $i == 1; open "
				 "my $f, \">\", \"n\" . int($i / 100) . \"/f$i\" "
				 "or die; print $f \"text $i \" x 40 }' ";

static void capture_row(const char *what, cb_sandbox *sandbox, const char *script, const char *reset, unsigned files, double target)
{
	double times[CAPTURE_MAX];
	unsigned rounds = bench.rounds < CAPTURE_MAX ? bench.rounds : CAPTURE_MAX;
	const char *argv[] = {"sh", "-c", script};
	if (files >= 10000 && rounds > 3) rounds = 3;
	for (unsigned r = 0; r < rounds; r++) {
		if (reset) (void)run_shell(sandbox, reset);
		cb_exec *e = begin(sandbox, argv, 3);
		double before = bench_now_us();
		(void)finish(e, script);
		times[r] = (bench_now_us() - before) / files;
	}
	bench_value(what, "us", bench_median_of(times, rounds), NULL, 0, target);
}

static void captures(void)
{
	static const unsigned counts[] = {10, 1000, 10000};
	char what[128], script[512];
	if (!bench_section("capture: from a program's end to its step, per file")) return;
	make_box("capture", 50, 100);
	cb_sandbox *sandbox = open_sandbox("capture");
	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(what, sizeof(what), "%u new files, each", counts[i]);
		(void)snprintf(script, sizeof(script), "%s %u", make_files, counts[i]);
		capture_row(what, sandbox, script, "rm -rf n*", counts[i], 0);
	}
	(void)snprintf(what, sizeof(what), "10000 files touched, content the same, each");
	capture_row(what, sandbox, "find n* -type f -exec touch {} +", NULL, 10000, 0);
	(void)snprintf(script, sizeof(script), "rm -rf n*; %s %d", make_files, MANY_FILES);
	(void)run_shell(sandbox, script);
	warm w = {.sandbox = sandbox};
	warm_whole(&w, 0);
	const char **native = WORDS("true");
	contender c[] = {{.name = "live", .op = warm_whole, .context = &w, .ops = 5},
	                 {.name = "posix_spawn", .op = spawn_words, .context = native, .ops = 5}};
	bench_compare("`true` after 30,000 captured files, with its step", c, 2, NULL);
	cb_sandbox_close(sandbox);
}

/* ---- forks and large boxes ---- */

/* A fork of the box, and its first command to its step; then the same once more. */
static void fork_rows(uint64_t files)
{
	char box[32], fork_name[64], what[128];
	double first[CAPTURE_MAX], second[CAPTURE_MAX];
	unsigned rounds = bench.rounds < CAPTURE_MAX ? bench.rounds : CAPTURE_MAX;
	(void)snprintf(box, sizeof(box), "b%llu", (unsigned long long)files);
	make_box(box, files, 200);
	double before = bench_now_us();
	cb_sandbox *sandbox = open_sandbox(box);
	(void)run_shell(sandbox, "true");
	double start = bench_now_us() - before;
	cb_sandbox_close(sandbox);
	before = bench_now_us();
	sandbox = open_sandbox(box);
	(void)run_shell(sandbox, "true");
	double again = bench_now_us() - before;
	cb_sandbox_close(sandbox);
	for (unsigned r = 0; r < rounds; r++) {
		(void)snprintf(fork_name, sizeof(fork_name), "%s-%u", box, r);
		before = bench_now_us();
		CB(cb_box_fork(store, box, fork_name, NULL, &bench_err));
		sandbox = open_sandbox(fork_name);
		(void)run_shell(sandbox, "echo changed >d0/f0");
		first[r] = bench_now_us() - before;
		cb_sandbox_close(sandbox);
		before = bench_now_us();
		sandbox = open_sandbox(fork_name);
		(void)run_shell(sandbox, "echo changed again >d0/f0");
		second[r] = bench_now_us() - before;
		cb_sandbox_close(sandbox);
	}
	(void)snprintf(what, sizeof(what), "%llu files: the very first command", (unsigned long long)files);
	bench_value(what, "us", start, NULL, 0, 0);
	(void)snprintf(what, sizeof(what), "%llu files: the next one, from a new handle", (unsigned long long)files);
	bench_value(what, "us", again, NULL, 0, 0);
	(void)snprintf(what, sizeof(what), "%llu files: fork and its first command", (unsigned long long)files);
	bench_value(what, "us", bench_median_of(first, rounds), NULL, 0, 0);
	(void)snprintf(what, sizeof(what), "%llu files: its second, from a new handle", (unsigned long long)files);
	bench_value(what, "us", bench_median_of(second, rounds), NULL, 0, 0);
}

static void forks(void)
{
	if (!bench_section("forks and large boxes (a shell command that changes one file, with its step)")) return;
	fork_rows(100);
	fork_rows(10000);
	if (bench.full) fork_rows(100000);
}

static void many(void)
{
	static const unsigned counts[] = {50, 100, 200};
	char name[64], what[128];
	if (!bench_section("many forks, each running a command (linear: the time per fork stays)")) return;
	make_box("many", 1000, 200);
	cb_sandbox *sandbox = open_sandbox("many");
	(void)run_shell(sandbox, "true");
	cb_sandbox_close(sandbox);
	unsigned made = 0;
	for (size_t i = 0; i < (bench.full ? 3 : 2); i++) {
		unsigned count = counts[i] * (bench.full ? 5 : 1);
		double before = bench_now_us();
		for (unsigned k = 0; k < count; k++) {
			(void)snprintf(name, sizeof(name), "many-%u", made++);
			CB(cb_box_fork(store, "many", name, NULL, &bench_err));
			sandbox = open_sandbox(name);
			(void)run_shell(sandbox, "echo x >mine");
			cb_sandbox_close(sandbox);
		}
		(void)snprintf(what, sizeof(what), "%u forks, each", count);
		bench_value(what, "us", (bench_now_us() - before) / count, NULL, 0, 0);
	}
}

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	char self[BENCH_PATH], helper[BENCH_PATH];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	SYS(n);
	self[n] = 0;
	*strrchr(self, '/') = 0;
	(void)snprintf(cowbox_program, sizeof(cowbox_program), "%.*s/../cowbox", BENCH_PATH - 32, self);
	(void)snprintf(helper, sizeof(helper), "%.*s/../cowbox-box", BENCH_PATH - 32, self);
	(void)snprintf(inputs_program, sizeof(inputs_program), "%.*s/../../../bench/exec-inputs", BENCH_PATH - 64, self);
	(void)bench_path(store_dir, "store");
	(void)bench_path(native_dir, "native");
	SYS(mkdir(native_dir, 0755));
	char home[BENCH_PATH];
	SYS(mkdir(bench_path(home, "home"), 0755));
	SYS(setenv("HOME", home, 1));
	SYS(setenv("COWBOX_STORE", store_dir, 1));
	SYS(setenv("COWBOX_BOX_HELPER", helper, 1));
	store = bench_store(store_dir, false);
	starts();
	work();
	captures();
	forks();
	many();
	cb_store_close(store);
	return 0;
}
