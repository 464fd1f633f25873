/*
 * bench.h: what the benchmark programs share. A header only, because each bench/NAME.c becomes a program by itself.
 *
 * Method: a contender is one way to do a thing; the first is ours. All contenders of a comparison run in turn in every round, so that
 * whatever else the machine does meets them alike; before each turn dirty pages are written out. A round gives a mean; the figure shown
 * is the median of the rounds, the ratio is the median of the rounds' ratios. p50 and p99 are of single operations, mean is of
 * everything: where it is far above p50, rare long pauses are the reason, and p99 says how long. A target in microseconds is held
 * against p50, a ratio against the rounds'.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <cowbox/cowbox.h>

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { BENCH_MB = 1 << 20, BENCH_KB = 1 << 10, BENCH_PATH = 512 };

typedef struct bench_settings {
	const char *dir;  /* where to work: empty, on the filesystem to measure */
	const char *only; /* run only sections with this in their name */
	const char *self; /* argv[0] */
	bool full;
	enum { BENCH_TABLE, BENCH_JSON, BENCH_MARKDOWN } output;
	unsigned rounds;
} bench_settings;

static bench_settings bench = {.rounds = 7};

/* ---- failing ---- */

static cb_error bench_err;

__attribute__((noreturn)) static inline void bench_die(const char *what, const char *why)
{
	(void)fflush(stdout);
	(void)fprintf(stderr, "bench: %s: %s\n", what, why);
	exit(1);
}

/* CB(call(..., &bench_err)) for the library, SYS(call) for the system. */
#define CB(call)                                                          \
	do {                                                              \
		if ((call) != CB_OK) bench_die(#call, bench_err.message); \
	} while (0)
#define SYS(call)                                                  \
	do {                                                       \
		if ((call) < 0) bench_die(#call, strerror(errno)); \
	} while (0)
#define NEED(condition)                                                   \
	do {                                                              \
		if (!(condition)) bench_die(#condition, "does not hold"); \
	} while (0)

/* ---- time, chance, bytes ---- */

static inline double bench_now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static uint64_t bench_seed = 88172645463325252u;

static inline uint64_t bench_random(void)
{
	bench_seed ^= bench_seed << 13;
	bench_seed ^= bench_seed >> 7;
	bench_seed ^= bench_seed << 17;
	return bench_seed;
}

/* Source of everything written: 2 MiB of noise, so that a different start gives different bytes; 64-byte aligned, as copies care. */
static inline const char *bench_bytes(uint64_t variant)
{
	static char noise[2 * BENCH_MB + 64] __attribute__((aligned(64)));
	if (!noise[0]) {
		for (size_t i = 0; i < sizeof(noise); i++) noise[i] = (char)('a' + bench_random() % 26);
	}
	return noise + variant % 8192 * 64;
}

/* ---- contenders ---- */

typedef void (*bench_op)(void *context, uint64_t i);

typedef struct contender {
	const char *name;
	bench_op op;
	bench_op prepare; /* before each op, not timed; may be NULL */
	void *context;
	unsigned ops; /* per round */
	bool whole;   /* time rounds, not operations: for what is too short to be timed alone */
	/* results */
	double *rounds; /* mean of each, microseconds */
	double *samples;
	size_t sample_count;
	double sum;
	uint64_t next; /* the next i: every operation of a run has its own */
} contender;

static inline int bench_compare_doubles(const void *a, const void *b)
{
	double x, y;
	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

/* The value below which that share of them lies. Sorts. */
static inline double bench_quantile(double *values, size_t n, double share)
{
	if (n == 0) return 0;
	qsort(values, n, sizeof(*values), bench_compare_doubles);
	return values[(size_t)((double)(n - 1) * share)];
}

static inline double bench_median_of(const double *values, size_t n)
{
	double *copy = malloc((n ? n : 1) * sizeof(*copy));
	NEED(copy);
	memcpy(copy, values, n * sizeof(*copy));
	double median = bench_quantile(copy, n, 0.5);
	free(copy);
	return median;
}

static inline double bench_median(const contender *c)
{
	return bench_median_of(c->rounds, bench.rounds);
}

/* Writes out what is dirty, not timed: on ext4 one's flush would pay for what the contender before it left behind. */
static inline void bench_settle(void)
{
	static int fd = -1;
	if (fd < 0) SYS(fd = open(bench.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	SYS(syncfs(fd));
}

static inline void bench_round(contender *c, unsigned round)
{
	if (!c->whole) bench_settle();
	double total = 0, start = bench_now_us();
	for (unsigned k = 0; k < c->ops; k++) {
		uint64_t i = c->next++;
		if (c->prepare) c->prepare(c->context, i);
		if (c->whole) {
			c->op(c->context, i);
			continue;
		}
		double before = bench_now_us();
		c->op(c->context, i);
		double took = bench_now_us() - before;
		c->samples[c->sample_count++] = took;
		total += took;
	}
	if (c->whole) total = bench_now_us() - start;
	c->rounds[round] = total / c->ops;
	c->sum += total;
}

static inline void bench_measure(contender *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		c[i].rounds = calloc(bench.rounds, sizeof(double));
		c[i].samples = calloc((size_t)bench.rounds * c[i].ops, sizeof(double));
		NEED(c[i].rounds && c[i].samples);
		NEED(!(c[i].whole && c[i].prepare));
	}
	for (unsigned round = 0; round < bench.rounds; round++) {
		for (size_t i = 0; i < n; i++) bench_round(&c[i], round);
	}
}

static inline void bench_done(contender *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(c[i].rounds);
		free(c[i].samples);
		c[i].rounds = c[i].samples = NULL;
	}
}

/* ---- output: a table, or a line of JSON per figure ---- */

typedef struct figure {
	const char *what, *unit;
	double ours;
	double p50, mean, p99; /* of single operations; 0: not known */
	const char *peer;      /* NULL: none */
	double theirs, theirs_p50, ratio;
	double target; /* 0: none; of the ratio when there is a peer, else of the value */
	bool at_least; /* the target is a lower bound */
} figure;

static inline const char *bench_digits(double v, char *out, size_t size)
{
	if (v == 0) (void)snprintf(out, size, "-");
	else if (v < 0.1) (void)snprintf(out, size, "%.3f", v);
	else if (v < 10) (void)snprintf(out, size, "%.2f", v);
	else if (v < 100) (void)snprintf(out, size, "%.1f", v);
	else (void)snprintf(out, size, "%.0f", v);
	return out;
}

static inline const char *bench_verdict(const figure *f)
{
	if (f->target == 0) return "";
	double value = f->peer ? f->ratio : f->p50 > 0 ? f->p50 : f->ours;
	return (f->at_least ? value >= f->target : value <= f->target) ? "met" : "MISSED";
}

static inline void bench_json(const figure *f)
{
	printf("{\"what\":\"%s\",\"unit\":\"%s\",\"ours\":%.4f", f->what, f->unit, f->ours);
	if (f->p50 > 0) printf(",\"p50\":%.4f", f->p50);
	if (f->mean > 0) printf(",\"mean\":%.4f", f->mean);
	if (f->p99 > 0) printf(",\"p99\":%.4f", f->p99);
	if (f->peer)
		printf(",\"peer\":\"%s\",\"theirs\":%.4f,\"theirs_p50\":%.4f,\"ratio\":%.4f", f->peer, f->theirs, f->theirs_p50,
		       f->ratio);
	if (f->target > 0)
		printf(",\"target\":%.4f,\"bound\":\"%s\",\"verdict\":\"%s\"", f->target, f->at_least ? "at least" : "at most",
		       bench_verdict(f));
	printf("}\n");
}

enum { FIGURE_CELLS = 12 };

/* A column's width in the table; negative: to the left. */
static inline int bench_width(int column)
{
	static const int widths[FIGURE_CELLS] = {-48, 9, 9, 9, 9, -4, -38, 9, 9, 7, 9, -6};
	return widths[column];
}

static inline void bench_cells(const char *const cells[FIGURE_CELLS])
{
	for (int i = 0; i < FIGURE_CELLS; i++) {
		if (bench.output == BENCH_TABLE) printf("%*s ", bench_width(i), cells[i]);
		else printf("| %s ", cells[i]);
	}
	printf(bench.output == BENCH_TABLE ? "\n" : "|\n");
}

static inline void bench_figure(const figure *f)
{
	char ours[32], p50[32], mean[32], p99[32], theirs[32] = "", theirs_p50[32] = "", ratio[32] = "", target[48] = "",
						   number[32];
	if (f->target > 0)
		(void)snprintf(target, sizeof(target), "%s %s%s",
		               f->at_least ? ">=" : "<=", bench_digits(f->target, number, sizeof(number)), f->peer ? " x" : "");
	if (f->peer) {
		(void)bench_digits(f->theirs, theirs, sizeof(theirs));
		(void)bench_digits(f->theirs_p50, theirs_p50, sizeof(theirs_p50));
		(void)bench_digits(f->ratio, ratio, sizeof(ratio));
	}
	if (bench.output == BENCH_JSON) {
		bench_json(f);
	} else {
		const char *cells[FIGURE_CELLS] = {f->what,
		                                   bench_digits(f->ours, ours, sizeof(ours)),
		                                   bench_digits(f->p50, p50, sizeof(p50)),
		                                   bench_digits(f->mean, mean, sizeof(mean)),
		                                   bench_digits(f->p99, p99, sizeof(p99)),
		                                   f->unit,
		                                   f->peer ? f->peer : "",
		                                   theirs,
		                                   theirs_p50,
		                                   ratio,
		                                   target,
		                                   bench_verdict(f)};
		bench_cells(cells);
	}
	(void)fflush(stdout);
}

/* false: the section is not wanted. */
static inline bool bench_section(const char *name)
{
	static const char *const head[FIGURE_CELLS] = {"",        "ours",   "p50", "mean",  "p99",    "",
	                                               "against", "theirs", "p50", "ratio", "target", ""};
	if (bench.only && !strstr(name, bench.only)) return false;
	if (bench.output == BENCH_JSON) return true;
	printf(bench.output == BENCH_TABLE ? "\n%s\n" : "\n### %s\n\n", name);
	bench_cells(head);
	if (bench.output == BENCH_MARKDOWN) printf("|---|---|---|---|---|---|---|---|---|---|---|---|\n");
	return true;
}

static inline void bench_note(const char *text)
{
	if (bench.output == BENCH_TABLE) printf("  %s\n", text);
}

/* One line per peer; target[i] bounds ours / peer i (0: none). */
static inline void bench_row(const char *what, contender *ours, contender *peer, double target)
{
	double ratios[64];
	NEED(bench.rounds <= 64);
	figure f = {.what = what, .unit = "us", .ours = bench_median(ours), .target = target};
	f.mean = ours->sum / ((double)ours->ops * bench.rounds);
	f.p50 = bench_quantile(ours->samples, ours->sample_count, 0.5);
	f.p99 = bench_quantile(ours->samples, ours->sample_count, 0.99);
	if (peer) {
		for (unsigned r = 0; r < bench.rounds; r++) ratios[r] = ours->rounds[r] / peer->rounds[r];
		f.peer = peer->name;
		f.theirs = bench_median(peer);
		f.theirs_p50 = bench_quantile(peer->samples, peer->sample_count, 0.5);
		f.ratio = bench_median_of(ratios, bench.rounds);
	}
	bench_figure(&f);
}

/* Measures all, one line per peer. targets: one per peer (NULL: none). */
static inline void bench_compare(const char *what, contender *c, size_t n, const double *targets)
{
	bench_measure(c, n);
	if (n == 1) bench_row(what, &c[0], NULL, targets ? targets[0] : 0);
	for (size_t i = 1; i < n; i++) bench_row(what, &c[0], &c[i], targets ? targets[i - 1] : 0);
	bench_done(c, n);
}

static inline void bench_value(const char *what, const char *unit, double ours, const char *peer, double theirs, double target)
{
	figure f = {.what = what, .unit = unit, .ours = ours, .peer = peer, .theirs = theirs, .target = target};
	if (peer) f.ratio = theirs > 0 ? ours / theirs : 0;
	bench_figure(&f);
}

/* ---- folders and processes ---- */

static inline const char *bench_path(char *out, const char *name)
{
	int n = snprintf(out, BENCH_PATH, "%s/%s", bench.dir, name);
	NEED(n > 0 && n < BENCH_PATH);
	return out;
}

static inline pid_t bench_start(char *const argv[])
{
	pid_t pid = 0;
	int error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (error) bench_die(argv[0], strerror(error));
	return pid;
}

static inline void bench_finish(pid_t pid, const char *what)
{
	int status = 0;
	SYS(waitpid(pid, &status, 0));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) bench_die(what, "did not succeed");
}

#define BENCH_RUN(...)                                       \
	do {                                                 \
		const char *args_[] = {__VA_ARGS__, NULL};   \
		char *argv_[sizeof(args_) / sizeof(*args_)]; \
		memcpy(argv_, args_, sizeof(args_));         \
		bench_finish(bench_start(argv_), args_[0]);  \
	} while (0)

static inline void bench_remove(const char *path)
{
	BENCH_RUN("rm", "-rf", path);
}

/* Bytes of all files in a store's folder (flat, and one level below). */
static inline uint64_t bench_disk_bytes(const char *path)
{
	char command[BENCH_PATH + 64];
	(void)snprintf(command, sizeof(command), "find '%s' -type f -printf '%%s\\n'", path);
	FILE *f = popen(command, "r");
	NEED(f);
	uint64_t total = 0;
	unsigned long long one = 0;
	while (fscanf(f, "%llu", &one) == 1) total += one;
	(void)pclose(f);
	return total;
}

/* ---- the library, shortly ---- */

static inline cb_store *bench_store(const char *path, bool full)
{
	cb_store *s = NULL;
	cb_store_options options = CB_WITH(cb_store_options, .full = full);
	CB(cb_store_open(path, &options, &s, &bench_err));
	return s;
}

static inline void bench_write(cb_box *b, const char *path, const void *bytes, size_t size)
{
	CB(cb_write_file(b, path, bytes, size, NULL, &bench_err));
}

static inline cb_box *bench_begin(cb_box *b)
{
	cb_box *t = NULL;
	CB(cb_txn_begin(b, NULL, &t, &bench_err));
	return t;
}

static inline void bench_commit(cb_box *t)
{
	CB(cb_txn_commit(t, NULL, NULL, &bench_err));
	cb_box_close(t);
}

/* A box of n small files, 100 to a folder: /work/dFOLDER/fNUMBER. */
enum { BENCH_PER_FOLDER = 100 };

static inline void bench_file_name(char *out, uint64_t number)
{
	(void)snprintf(out, BENCH_PATH, "/work/d%llu/f%llu", (unsigned long long)(number / BENCH_PER_FOLDER),
	               (unsigned long long)number);
}

static inline void bench_fill(cb_box *b, uint64_t files, size_t bytes)
{
	char path[BENCH_PATH];
	for (uint64_t i = 0; i < files;) {
		cb_box *t = bench_begin(b);
		for (unsigned k = 0; k < 4000 && i < files; k++, i++) {
			cb_write_options options = CB_WITH(cb_write_options, .parents = i % BENCH_PER_FOLDER == 0);
			bench_file_name(path, i);
			CB(cb_write_file(t, path, bench_bytes(i), bytes, &options, &bench_err));
		}
		bench_commit(t);
	}
}

/* ---- start ---- */

/* [--full] [--json|--markdown] [--rounds N] [--only SECTION] FOLDER */
static inline void bench_init(int argc, char **argv)
{
	bench.self = argv[0];
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--full") == 0) bench.full = true;
		else if (strcmp(argv[i], "--json") == 0) bench.output = BENCH_JSON;
		else if (strcmp(argv[i], "--markdown") == 0) bench.output = BENCH_MARKDOWN;
		else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) bench.rounds = (unsigned)atoi(argv[++i]);
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) bench.only = argv[++i];
		else bench.dir = argv[i];
	}
	if (!bench.dir || bench.rounds < 1 || bench.rounds > 64)
		bench_die(argv[0], "usage: [--full] [--json|--markdown] [--rounds 1-64] [--only SECTION] FOLDER");
}

#endif
