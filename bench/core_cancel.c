/*
 * core_cancel.c: how soon a call ends after its token was fired: the longest of many, fired at moments spread over the time that the whole
 * call takes. Beside it what a limit costs a call that it does not end.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <cowbox/exec.h>
#include <cowbox/search.h>
#include <cowbox/transfer.h>

#include "bench.h"

enum { TARGET_MS = 100, TEXT_LINES = 200000 };

static cb_store *s;
static cb_box *big, *other;
static cb_cancel *token;
static cb_sandbox *sandbox;
static char host[BENCH_PATH], huge_file[BENCH_PATH], out[BENCH_PATH];
static char *text;
static uint64_t files;

/* ---- firing ---- */

static _Atomic int64_t fire_after_us; /* -1: wait */
static _Atomic uint64_t fired_us;

static void *fire(void *context)
{
	(void)context;
	for (;;) {
		int64_t us = atomic_exchange(&fire_after_us, -1);
		if (us < 0) {
			(void)usleep(50);
			continue;
		}
		if (us > 0) (void)usleep((useconds_t)us);
		atomic_store(&fired_us, (uint64_t)bench_now_us());
		cb_cancel_fire(token);
	}
	return NULL;
}

typedef struct deed {
	const char *name;
	void (*prepare)(void);
	cb_code (*call)(cb_error *err);
	void (*after)(void);
	bool no_target; /* a flush or the removal of what it made comes last, and takes what it takes */
} deed;

static void limit_push(void)
{
	cb_limit limit = CB_WITH(cb_limit, .cancel = token);
	CB(cb_limit_push(&limit, &bench_err));
}

/* How long after the firing it returned, in ms; below 0: it was done before. */
static double once(const deed *d, int64_t after_us)
{
	cb_error err = {0};
	cb_cancel_reset(token);
	if (d->prepare) d->prepare();
	limit_push();
	atomic_store(&fire_after_us, after_us);
	cb_code code = d->call(&err);
	double now = bench_now_us();
	cb_limit_pop();
	while (!cb_cancel_is_fired(token)) (void)usleep(50);
	if (code != CB_OK && code != CB_CANCELLED) bench_die(d->name, err.message);
	double late = (now - (double)atomic_load(&fired_us)) / 1000;
	cb_cancel_reset(token);
	if (d->after) d->after();
	return code == CB_OK && late < 0 ? -1 : late;
}

/* waits: until it is ended. */
static void measure(const deed *d, bool waits)
{
	double took_us = 50000, worst = 0;
	char name[128];
	unsigned ended = 0, tries = bench.rounds * 2;
	/* The first finds more to do than those after it. */
	for (int i = 0; !waits && i < 2; i++) {
		if (d->prepare) d->prepare();
		double start = bench_now_us();
		cb_code code = d->call(&bench_err);
		took_us = bench_now_us() - start;
		if (code != CB_OK) bench_die(d->name, bench_err.message);
		if (d->after) d->after();
	}
	for (unsigned i = 0; i < tries; i++) {
		double late = once(d, (int64_t)(took_us * (i + 0.5) / tries));
		ended += late >= 0;
		if (late > worst) worst = late;
	}
	if (waits) (void)snprintf(name, sizeof(name), "%s", d->name);
	else (void)snprintf(name, sizeof(name), "%s (%.0f ms; %u of %u ended)", d->name, took_us / 1000, ended, tries);
	bench_value(name, "ms", worst, NULL, 0, d->no_target ? 0 : TARGET_MS);
}

/* ---- deeds ---- */

static void drop_made(void)
{
	cb_error ignored;
	(void)cb_box_delete(s, "made", &ignored);
}

static void fork_made(void)
{
	drop_made();
	CB(cb_box_fork(s, "big", "made", NULL, &bench_err));
	cb_box_close(other);
	CB(cb_box_open(s, "made", &other, &bench_err));
}

static cb_code do_import(cb_error *err)
{
	return cb_import(other, host, &CB_WITH(cb_import_options, .to = "/in", .full = true), NULL, err);
}

static cb_code do_import_huge(cb_error *err)
{
	return cb_import(other, huge_file, &CB_WITH(cb_import_options, .to = "/in"), NULL, err);
}

static cb_code do_copy(cb_error *err)
{
	return cb_copy(other, "/work", "/copy", 0, err);
}

static cb_code do_remove(cb_error *err)
{
	return cb_remove(other, "/work", err);
}

static cb_code do_merge(cb_error *err)
{
	cb_box *side = NULL;
	cb_code opened = cb_box_open(s, "side", &side, err);
	if (opened != CB_OK) return opened;
	cb_code code = cb_merge(other, side, NULL, NULL, NULL, err);
	cb_box_close(side);
	return code;
}

static void fork_and_change(void)
{
	fork_made();
	text[0] ^= 1;
	bench_write(other, "/work/text", text, strlen(text));
	text[0] ^= 1;
}

static cb_code do_restore(cb_error *err)
{
	cb_box *old = NULL;
	cb_code opened = cb_box_open(s, "big@0", &old, err);
	if (opened != CB_OK) return opened;
	cb_code code = cb_restore(other, old, NULL, NULL, err);
	cb_box_close(old);
	return code;
}

static void make_waste(void)
{
	fork_made();
	CB(cb_copy(other, "/work", "/copy", 0, &bench_err));
	cb_box_close(other);
	other = NULL;
	drop_made();
}

static cb_code do_gc(cb_error *err)
{
	return cb_store_gc(s, NULL, err);
}

static cb_code do_vacuum(cb_error *err)
{
	return cb_store_vacuum(s, err);
}

static cb_code do_backup(cb_error *err)
{
	return cb_store_backup(s, out, err);
}

static void drop_out(void)
{
	bench_remove(out);
}

static cb_code do_check(cb_error *err)
{
	return cb_store_check(s, NULL, NULL, NULL, err);
}

static cb_code do_export(cb_error *err)
{
	return cb_export(big, "/work", out, NULL, NULL, err);
}

static int null_fd;

static cb_code do_pack(cb_error *err)
{
	return cb_pack(big, null_fd, NULL, NULL, err);
}

static cb_code do_tar(cb_error *err)
{
	return cb_tar_export(big, "/", null_fd, NULL, NULL, err);
}

static cb_code ignore_line(void *context, const cb_grep_line *line, cb_error *err)
{
	(void)context;
	(void)line;
	(void)err;
	return CB_OK;
}

static cb_code do_grep(cb_error *err)
{
	cb_grep_options o = CB_WITH(cb_grep_options, .pattern = "(.*)(.*)(.*)z!");
	cb_code code = cb_grep(big, "/work/text", &o, ignore_line, NULL, NULL, err);
	return code == CB_LIMIT ? CB_OK : code;
}

static cb_code ignore_change(void *context, const cb_change *change, cb_error *err)
{
	(void)context;
	(void)change;
	(void)err;
	return CB_OK;
}

static cb_code do_diff(cb_error *err)
{
	cb_box *old = NULL;
	cb_code opened = cb_box_open(s, "big@0", &old, err);
	if (opened != CB_OK) return opened;
	cb_code code = cb_diff(old, big, NULL, ignore_change, NULL, err);
	cb_box_close(old);
	return code;
}

static cb_code do_diff_text(cb_error *err)
{
	char *diff = NULL;
	size_t size;
	cb_box *side = NULL;
	cb_code opened = cb_box_open(s, "side", &side, err);
	if (opened != CB_OK) return opened;
	cb_code code = cb_diff_text(side, big, &CB_WITH(cb_diff_text_options, .path = "/work/text"), &diff, &size, err);
	cb_free(diff);
	cb_box_close(side);
	return code;
}

/* ---- waits ---- */

static cb_code do_write(cb_error *err)
{
	return cb_write_file(big, "/work/waits", "x", 1, NULL, err);
}

/* A process that holds the writer lock for as long as this one lives: a foreign hand on SQLite's would be waited for too. */
static pid_t hold_lock(const char *path)
{
	char command[BENCH_PATH * 2];
	pid_t pid = fork();
	SYS(pid);
	if (pid > 0) return pid;
	(void)snprintf(command, sizeof(command), "%s/locks", path);
	int fd = open(command, O_RDWR);
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
	if (fd < 0 || fcntl(fd, F_OFD_SETLKW, &l) != 0) _exit(1);
	for (;;) (void)pause();
}

/* ---- programs ---- */

static cb_exec *running;

static cb_code exec_start(const char *script, cb_error *err)
{
	const char *argv[] = {"sh", "-c", script};
	cb_exec_options options = CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_NONE);
	return cb_exec_start(sandbox, &options, &running, err);
}

static void exec_sleep(void)
{
	CB(exec_start("sleep 1000", &bench_err));
}

static cb_code do_wait(cb_error *err)
{
	const cb_exec_result *r;
	return cb_exec_wait(running, &r, err);
}

static void exec_close(void)
{
	cb_exec_close(running);
	running = NULL;
}

static void exec_many(void)
{
	bool done = false;
	CB(exec_start("mkdir -p m; cd m; i=0; while [ $i -lt 5000 ]; do echo $i > $i; i=$((i+1)); done", &bench_err));
	while (!done) {
		struct pollfd p = {.fd = cb_exec_fd(running), .events = POLLIN};
		SYS(poll(&p, 1, -1));
		CB(cb_exec_pump(running, &done, &bench_err));
	}
}

static cb_code do_start(cb_error *err)
{
	cb_code code = cb_sandbox_open(other, NULL, &sandbox, err);
	return code == CB_OK ? exec_start("true", err) : code;
}

static void start_end(void)
{
	exec_close();
	cb_sandbox_close(sandbox);
	sandbox = NULL;
}

/* ---- the cost of a limit ---- */

static void plain_write(void *context, uint64_t i)
{
	(void)context;
	bench_write(other, "/work/one", bench_bytes(i), BENCH_KB);
}

static void limited_write(void *context, uint64_t i)
{
	limit_push();
	plain_write(context, i);
	cb_limit_pop();
}

static void plain_walk(void *context, uint64_t i)
{
	(void)i;
	(void)context;
	CB(cb_find(big, "/work", &CB_WITH(cb_find_options, .name = "nothing"), NULL, NULL, &bench_err));
}

static void limited_walk(void *context, uint64_t i)
{
	limit_push();
	plain_walk(context, i);
	cb_limit_pop();
}

static void measure_cost(void)
{
	if (!bench_section("what a limit costs that ends nothing")) return;
	contender writes[] = {{.name = "with a limit", .op = limited_write, .ops = 2000},
	                      {.name = "without", .op = plain_write, .ops = 2000}};
	bench_compare("write of 1 KiB", writes, 2, (const double[]){1.05});
	contender walks[] = {{.name = "with a limit", .op = limited_walk, .ops = 3},
	                     {.name = "without", .op = plain_walk, .ops = 3}};
	bench_compare("find over all files", walks, 2, (const double[]){1.05});
}

/* ---- all ---- */

static void fill(const char *path)
{
	char name[BENCH_PATH];
	size_t size = 0;
	s = bench_store(path, false);
	CB(cb_box_create(s, "big", &big, &bench_err));
	bench_fill(big, files, 100);
	text = malloc((size_t)TEXT_LINES * 40);
	NEED(text);
	for (unsigned i = 0; i < TEXT_LINES; i++)
		size += (size_t)sprintf(text + size, "line %u of the text %u\n", i, i * 7919u % 1000u);
	bench_write(big, "/work/text", text, size);
	cb_box *side = NULL;
	CB(cb_box_fork(s, "big", "side", &side, &bench_err));
	for (size_t i = size / 2; i + 40 < size; i += 400) text[i] = 'X';
	bench_write(side, "/work/text", text, size);
	CB(cb_copy(side, "/work/d0", "/work/more", 0, &bench_err));
	cb_box *t = bench_begin(side);
	for (uint64_t i = 0; i < files / 4; i++) {
		bench_file_name(name, i * 4);
		CB(cb_write_file(t, name, bench_bytes(i + 1), 90, NULL, &bench_err));
	}
	bench_commit(t);
	cb_box_close(side);
	/* The host's side. */
	(void)bench_path(host, "host");
	CB(cb_export(big, "/work", host, NULL, NULL, &bench_err));
	(void)bench_path(huge_file, "huge");
	int fd = open(huge_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	SYS(fd);
	for (unsigned i = 0; i < 400; i++) NEED(write(fd, text, BENCH_MB) == BENCH_MB);
	SYS(close(fd));
	(void)bench_path(out, "out");
	null_fd = open("/dev/null", O_WRONLY);
	SYS(null_fd);
}

static void measure_calls(void)
{
	static const deed deeds[] = {
		{"import of a folder", fork_made, do_import, NULL},
		{"import of a file of 400 MB", fork_made, do_import_huge, NULL},
		{"copy of all", fork_made, do_copy, NULL},
		{"remove of all", fork_made, do_remove, NULL},
		{"merge of a quarter of the files and a large text", fork_and_change, do_merge, NULL},
		{"restore", fork_made, do_restore, NULL},
		{"gc", make_waste, do_gc, NULL},
		{"vacuum", make_waste, do_vacuum, NULL, true},
		{"backup", NULL, do_backup, drop_out, true},
		{"fsck", NULL, do_check, NULL},
		{"export", NULL, do_export, drop_out, true},
		{"pack", NULL, do_pack, NULL},
		{"tar", NULL, do_tar, NULL},
		{"grep, a pattern that backtracks", NULL, do_grep, NULL},
		{"diff of all", NULL, do_diff, NULL},
		{"diff of a large text", NULL, do_diff_text, NULL},
	};
	char title[128];
	(void)snprintf(title, sizeof(title), "longest time from firing to the end of a call, %llu files",
	               (unsigned long long)files);
	if (!bench_section(title)) return;
	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) measure(&deeds[i], false);
}

static void measure_waits(const char *path)
{
	static const deed lock = {"wait for the writer lock of another process", NULL, do_write, NULL};
	static const deed program = {"wait for a program", exec_sleep, do_wait, exec_close};
	static const deed capture = {"capture of 5,000 files", exec_many, do_wait, exec_close};
	static const deed start = {"start of a program in a new sandbox", NULL, do_start, start_end};
	if (!bench_section("longest time from firing to the end of a wait")) return;
	pid_t holder = hold_lock(path);
	(void)usleep(100000);
	measure(&lock, true);
	(void)kill(holder, SIGKILL);
	(void)waitpid(holder, NULL, 0);
	cb_tier_report report = CB_INIT(cb_tier_report);
	if (cb_sandbox_try(path, CB_TIER_AUTO, &report, &bench_err) != CB_OK || !report.works) {
		bench_note("no sandbox here: programs are left out");
		return;
	}
	fork_made();
	CB(cb_sandbox_open(other, NULL, &sandbox, &bench_err));
	measure(&program, true);
	exec_many();
	CB(do_wait(&bench_err));
	exec_close();
	measure(&capture, false);
	cb_sandbox_close(sandbox);
	measure(&start, false);
}

int main(int argc, char **argv)
{
	pthread_t firing;
	char path[BENCH_PATH];
	bench_init(argc, argv);
	files = bench.full ? 100000 : 20000;
	atomic_store(&fire_after_us, -1);
	CB(cb_cancel_create(&token, &bench_err));
	NEED(pthread_create(&firing, NULL, fire, NULL) == 0);
	fill(bench_path(path, "cancel"));
	measure_calls();
	measure_waits(path);
	fork_made();
	measure_cost();
	cb_box_close(other);
	cb_box_close(big);
	cb_store_close(s);
	free(text);
	return 0;
}
