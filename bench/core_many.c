/*
 * core_many.c: many at once: four processes writing into one box, a hundred boxes, agents with a mix of operations (as threads and as
 * processes), and the cost of a fresh process.
 *
 * Throughput depends on the number of cores; fairness is the slowest writer's share of the fastest's.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "bench.h"
#include "plain_sqlite.h"

enum { WRITERS = 4, BOXES = 100, PER_BOX = 10, MIX = 100, AGENTS_MAX = 16, MIX_FILES = 20 };

/* Shared with the children of a run. */
typedef struct tally {
	double ops, worst_us;
} tally;

static tally *tallies;

/* ---- four writers ---- */

static void writer_loop(tally *t, double seconds, bench_op op, void *context, unsigned who)
{
	double end = bench_now_us() + seconds * 1e6;
	for (uint64_t i = 0;; i++) {
		double start = bench_now_us();
		if (start >= end) return;
		op(context, i * WRITERS + who);
		double took = bench_now_us() - start;
		t->ops++;
		if (took > t->worst_us) t->worst_us = took;
	}
}

static void write_ours(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	(void)snprintf(path, sizeof(path), "/work/w%llu/f%llu", (unsigned long long)(i % WRITERS),
	               (unsigned long long)(i / WRITERS % 100));
	cb_write_options options = CB_WITH(cb_write_options, .parents = true);
	CB(cb_write_file(context, path, bench_bytes(i), BENCH_KB, &options, &bench_err));
}

static void write_sqlite(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	(void)snprintf(path, sizeof(path), "work/w%llu/f%llu", (unsigned long long)(i % WRITERS),
	               (unsigned long long)(i / WRITERS % 100));
	plain_put(context, path, bench_bytes(i), BENCH_KB);
}

static void writer_ours(const char *path, double seconds, unsigned who)
{
	cb_store *s = bench_store(path, false);
	cb_box *b = NULL;
	CB(cb_box_open(s, "demo", &b, &bench_err));
	writer_loop(&tallies[who], seconds, write_ours, b, who);
	cb_box_close(b);
	cb_store_close(s);
}

static void writer_sqlite(const char *path, double seconds, unsigned who)
{
	plain_db p;
	plain_open(&p, path, false);
	writer_loop(&tallies[who], seconds, write_sqlite, &p, who);
	plain_close(&p);
}

typedef struct contest {
	double rate, worst_ms, fairness;
} contest;

static contest run_writers(const char *path, bool ours, double seconds)
{
	pid_t pids[WRITERS];
	(void)fflush(stdout);
	for (unsigned i = 0; i < WRITERS; i++) {
		tallies[i] = (tally){0};
		SYS(pids[i] = fork());
		if (pids[i] == 0) {
			if (ours) writer_ours(path, seconds, i);
			else writer_sqlite(path, seconds, i);
			_exit(0);
		}
	}
	contest c = {.fairness = 1};
	double least = 1e300, most = 0;
	for (unsigned i = 0; i < WRITERS; i++) {
		bench_finish(pids[i], "a writer");
		c.rate += tallies[i].ops / seconds;
		if (tallies[i].worst_us / 1e3 > c.worst_ms) c.worst_ms = tallies[i].worst_us / 1e3;
		if (tallies[i].ops < least) least = tallies[i].ops;
		if (tallies[i].ops > most) most = tallies[i].ops;
	}
	if (most > 0) c.fairness = least / most;
	return c;
}

static void writers(void)
{
	if (!bench_section("4 processes overwriting 1 KiB files of one box")) return;
	char ours[BENCH_PATH], sqlite[BENCH_PATH];
	(void)bench_path(ours, "many-writers");
	(void)bench_path(sqlite, "many-writers.db");
	cb_store *s = bench_store(ours, false);
	CB(cb_box_create(s, "demo", NULL, &bench_err));
	cb_store_close(s);
	plain_db p;
	plain_open(&p, sqlite, false);
	plain_close(&p);
	enum { TURNS = 5 };
	double rate[2][TURNS], worst[2][TURNS], fair[2][TURNS], seconds = bench.full ? 2 : 1;
	for (int turn = 0; turn < TURNS; turn++) {
		for (int k = 0; k < 2; k++) {
			contest c = run_writers(k ? sqlite : ours, k == 0, seconds);
			rate[k][turn] = c.rate;
			worst[k][turn] = c.worst_ms;
			fair[k][turn] = c.fairness;
		}
	}
	const char *peer = "SQLite table, NORMAL, busy_timeout";
	bench_value("steps per second, all together", "1/s", bench_median_of(rate[0], TURNS), peer, bench_median_of(rate[1], TURNS),
	            0);
	bench_value("longest wait for one", "ms", bench_median_of(worst[0], TURNS), peer, bench_median_of(worst[1], TURNS), 0);
	bench_value("fairness (1: all alike)", "", bench_median_of(fair[0], TURNS), peer, bench_median_of(fair[1], TURNS), 0);
}

/* ---- a hundred boxes ---- */

static cb_box *boxes[BOXES];
static plain_db dbs[BOXES];

static void *use_boxes(void *context)
{
	char to[BENCH_KB] __attribute__((aligned(64))), path[BENCH_PATH];
	size_t half = *(const size_t *)context, n = 0;
	for (size_t b = half; b < BOXES; b += 2) {
		for (uint64_t i = 0; i < PER_BOX; i++) {
			(void)snprintf(path, sizeof(path), "/work/f%llu", (unsigned long long)i);
			bench_write(boxes[b], path, bench_bytes(bench_random()), BENCH_KB);
		}
		for (uint64_t i = 0; i < PER_BOX; i++) {
			(void)snprintf(path, sizeof(path), "/work/f%llu", (unsigned long long)i);
			CB(cb_read_at(boxes[b], path, 0, to, sizeof(to), &n, &bench_err));
		}
	}
	return NULL;
}

static void *use_dbs(void *context)
{
	char to[BENCH_KB], path[BENCH_PATH];
	size_t half = *(const size_t *)context;
	for (size_t b = half; b < BOXES; b += 2) {
		for (uint64_t i = 0; i < PER_BOX; i++) {
			(void)snprintf(path, sizeof(path), "work/f%llu", (unsigned long long)i);
			plain_put(&dbs[b], path, bench_bytes(bench_random()), BENCH_KB);
		}
		for (uint64_t i = 0; i < PER_BOX; i++) {
			(void)snprintf(path, sizeof(path), "work/f%llu", (unsigned long long)i);
			NEED(plain_get(&dbs[b], path, to, sizeof(to)) == BENCH_KB);
		}
	}
	return NULL;
}

static double rate_of_two(void *(*body)(void *))
{
	static size_t halves[2] = {0, 1};
	pthread_t threads[2];
	double start = bench_now_us();
	for (int i = 0; i < 2; i++) NEED(pthread_create(&threads[i], NULL, body, &halves[i]) == 0);
	for (int i = 0; i < 2; i++) NEED(pthread_join(threads[i], NULL) == 0);
	return BOXES * PER_BOX * 2 / ((bench_now_us() - start) / 1e6);
}

static void hundred(void)
{
	if (!bench_section("100 boxes x (10 writes + 10 reads of 1 KiB), 2 threads")) return;
	char path[BENCH_PATH], name[BENCH_PATH];
	double create = 0, rate[2][64];
	cb_store *s = bench_store(bench_path(path, "many-boxes"), false);
	double start = bench_now_us();
	for (size_t i = 0; i < BOXES; i++) {
		(void)snprintf(name, sizeof(name), "box%zu", i);
		CB(cb_box_create(s, name, &boxes[i], &bench_err));
	}
	create = (bench_now_us() - start) / BOXES;
	start = bench_now_us();
	for (size_t i = 0; i < BOXES; i++) {
		(void)snprintf(name, sizeof(name), "many-box-%zu.db", i);
		plain_open(&dbs[i], bench_path(path, name), false);
	}
	bench_value("create and open a box", "us", create, "a SQLite database", (bench_now_us() - start) / BOXES, 0);
	for (unsigned r = 0; r < bench.rounds; r++) {
		rate[0][r] = rate_of_two(use_boxes);
		rate[1][r] = rate_of_two(use_dbs);
	}
	bench_value("operations per second", "1/s", bench_median_of(rate[0], bench.rounds), "a SQLite database per box",
	            bench_median_of(rate[1], bench.rounds), 0);
	for (size_t i = 0; i < BOXES; i++) {
		cb_box_close(boxes[i]);
		plain_close(&dbs[i]);
	}
	cb_store_close(s);
}

/* ---- agents ---- */

/* One agent's state: its own chance, so that threads do not share it. */
typedef struct agent {
	cb_store *store;
	cb_box *box;
	uint64_t seed, made;
	uint64_t found; /* so that a search is not optimised away */
} agent;

static uint64_t agent_random(agent *a, uint64_t below)
{
	a->seed = a->seed * 6364136223846793005u + 1442695040888963407u;
	return (a->seed >> 33) % below;
}

static void agent_path(agent *a, char *out)
{
	(void)snprintf(out, BENCH_PATH, "/work/f%llu", (unsigned long long)agent_random(a, MIX_FILES));
}

static cb_code grep_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	agent *a = context;
	char path[BENCH_PATH], *bytes = NULL;
	size_t size = 0;
	if (info->type != CB_FILE) return CB_OK;
	(void)snprintf(path, sizeof(path), "/work/%s", name);
	cb_code code = cb_read_file(a->box, path, &bytes, &size, err);
	if (code != CB_OK) return code;
	if (memmem(bytes, size, "needle", 6)) a->found++;
	cb_free(bytes);
	return CB_OK;
}

static cb_code list_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)name;
	(void)err;
	((agent *)context)->found += info->size;
	return CB_OK;
}

/* What is missing is an answer too: the mix deletes and moves at random. */
static void agent_allow(cb_code code)
{
	if (code != CB_OK && code != CB_NOTFOUND) bench_die("an agent's call", cb_code_name(code));
}

static void agent_write(agent *a, const char *path)
{
	size_t size = BENCH_KB + (size_t)agent_random(a, 63 * BENCH_KB);
	agent_allow(cb_write_file(a->box, path, bench_bytes(agent_random(a, 8000)), size, NULL, NULL));
}

static void agent_step(agent *a)
{
	char path[BENCH_PATH], other[BENCH_PATH], *bytes = NULL;
	size_t size = 0;
	uint64_t dice = agent_random(a, 100);
	agent_path(a, path);
	agent_path(a, other);
	if (dice < 30) {
		agent_write(a, path);
	} else if (dice < 65) {
		agent_allow(cb_read_file(a->box, path, &bytes, &size, NULL));
		cb_free(bytes);
	} else if (dice < 80) {
		agent_allow(cb_readdir(a->box, "/work", list_entry, a, NULL));
	} else if (dice < 90) {
		agent_allow(cb_readdir(a->box, "/work", grep_entry, a, NULL));
	} else if (dice < 95) {
		agent_allow(cb_unlink(a->box, path, NULL));
	} else if (dice < 98) {
		if (strcmp(path, other) != 0) agent_allow(cb_copy(a->box, path, other, 0, NULL));
	} else {
		agent_allow(cb_rename(a->box, path, other, 0, NULL));
	}
}

static void agent_open(agent *a, unsigned number, cb_store *s)
{
	char name[BENCH_PATH], path[BENCH_PATH];
	*a = (agent){.store = s, .seed = number + 1};
	(void)snprintf(name, sizeof(name), "agent%u", number);
	CB(cb_box_open(s, name, &a->box, &bench_err));
	for (unsigned i = 0; i < MIX_FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		agent_write(a, path);
	}
}

static void *agent_thread(void *context)
{
	agent *a = context;
	for (unsigned i = 0; i < MIX; i++) agent_step(a);
	return NULL;
}

static double agents_as_threads(cb_store *s, unsigned n)
{
	static agent agents[AGENTS_MAX];
	pthread_t threads[AGENTS_MAX];
	for (unsigned i = 0; i < n; i++) agent_open(&agents[i], i, s);
	double start = bench_now_us();
	for (unsigned i = 0; i < n; i++) NEED(pthread_create(&threads[i], NULL, agent_thread, &agents[i]) == 0);
	for (unsigned i = 0; i < n; i++) NEED(pthread_join(threads[i], NULL) == 0);
	double took = bench_now_us() - start;
	for (unsigned i = 0; i < n; i++) cb_box_close(agents[i].box);
	return n * MIX / (took / 1e6);
}

/* Opens, says so, waits for the others, works. */
__attribute__((noreturn)) static void agent_process(const char *path, unsigned number, int ready, int go)
{
	char byte = 0;
	agent a;
	cb_store *s = bench_store(path, false);
	agent_open(&a, number, s);
	NEED(write(ready, &byte, 1) == 1);
	NEED(read(go, &byte, 1) == 0);
	double start = bench_now_us();
	(void)agent_thread(&a);
	tallies[number] = (tally){.ops = start, .worst_us = bench_now_us()};
	cb_box_close(a.box);
	cb_store_close(s);
	_exit(0);
}

static double agents_as_processes(const char *path, unsigned n)
{
	int ready[2], go[2];
	pid_t pids[AGENTS_MAX];
	SYS(pipe(ready));
	SYS(pipe(go));
	(void)fflush(stdout);
	for (unsigned i = 0; i < n; i++) {
		SYS(pids[i] = fork());
		if (pids[i] == 0) {
			(void)close(go[1]);
			agent_process(path, i, ready[1], go[0]);
		}
	}
	char byte;
	for (unsigned i = 0; i < n; i++) NEED(read(ready[0], &byte, 1) == 1);
	(void)close(go[1]);
	double first = 1e300, last = 0;
	for (unsigned i = 0; i < n; i++) {
		bench_finish(pids[i], "an agent");
		if (tallies[i].ops < first) first = tallies[i].ops;
		if (tallies[i].worst_us > last) last = tallies[i].worst_us;
	}
	(void)close(ready[0]);
	(void)close(ready[1]);
	(void)close(go[0]);
	return n * MIX / ((last - first) / 1e6);
}

static void agents(void)
{
	if (!bench_section("agents, a box each, 100 mixed operations of 1-64 KiB each")) return;
	char path[BENCH_PATH], name[BENCH_PATH];
	(void)bench_path(path, "many-agents");
	cb_store *s = bench_store(path, false);
	for (unsigned i = 0; i < AGENTS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "agent%u", i);
		CB(cb_box_create(s, name, NULL, &bench_err));
	}
	enum { TURNS = 5 };
	for (unsigned n = 1; n <= AGENTS_MAX; n *= bench.full ? 2 : 4) {
		double threads[TURNS], processes[TURNS];
		for (int turn = 0; turn < TURNS; turn++) {
			threads[turn] = agents_as_threads(s, n);
			processes[turn] = agents_as_processes(path, n);
		}
		(void)snprintf(name, sizeof(name), "agents: %u as threads, operations per second", n);
		bench_value(name, "1/s", bench_median_of(threads, TURNS), "as processes", bench_median_of(processes, TURNS), 0);
	}
	cb_store_close(s);
}

/* ---- a fresh process ---- */

static int cold_ours(const char *path)
{
	char *bytes = NULL;
	size_t size = 0;
	cb_store *s = bench_store(path, false);
	cb_box *b = NULL;
	CB(cb_box_open(s, "demo", &b, &bench_err));
	CB(cb_read_file(b, "/work/d3/f333", &bytes, &size, &bench_err));
	bench_write(b, "/work/cold", bytes, size);
	cb_free(bytes);
	cb_box_close(b);
	cb_store_close(s);
	return 0;
}

static int cold_sqlite(const char *path)
{
	char to[BENCH_KB];
	plain_db p;
	plain_open(&p, path, false);
	size_t n = plain_get(&p, "work/d3/f333", to, sizeof(to));
	plain_put(&p, "work/cold", to, n);
	plain_close(&p);
	return 0;
}

static int cold_file(const char *path)
{
	char to[BENCH_KB], name[BENCH_PATH * 2];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	SYS(fd);
	ssize_t n = read(fd, to, sizeof(to));
	(void)close(fd);
	(void)snprintf(name, sizeof(name), "%s.cold", path);
	SYS(fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
	NEED(write(fd, to, (size_t)n) == n);
	(void)close(fd);
	return 0;
}

/* The words after the program's name; the folder or file comes last. */
typedef struct cold_start {
	const char *word;
	char path[BENCH_PATH];
} cold_start;

static void start_cold(void *context, uint64_t i)
{
	(void)i;
	const cold_start *c = context;
	BENCH_RUN(bench.self, c->word, c->path);
}

static void cold(void)
{
	if (!bench_section("a fresh process: open, read one file, write one file, close")) return;
	static cold_start starts[4] = {
		{.word = "--cold-ours"}, {.word = "--cold-nothing"}, {.word = "--cold-file"}, {.word = "--cold-sqlite"}};
	(void)bench_path(starts[0].path, "many-cold");
	(void)bench_path(starts[2].path, "many-cold-file");
	(void)bench_path(starts[3].path, "many-cold.db");
	cb_store *s = bench_store(starts[0].path, false);
	cb_box *b = NULL;
	CB(cb_box_create(s, "demo", &b, &bench_err));
	bench_fill(b, 10000, 80);
	for (uint64_t i = 0; i < 40; i++) bench_write(b, "/work/d3/f333", bench_bytes(i), BENCH_KB);
	cb_box_close(b);
	cb_store_close(s);
	plain_db p;
	plain_open(&p, starts[3].path, false);
	plain_put(&p, "work/d3/f333", bench_bytes(0), BENCH_KB);
	plain_close(&p);
	int fd = open(starts[2].path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	NEED(fd >= 0 && write(fd, bench_bytes(0), BENCH_KB) == BENCH_KB);
	(void)close(fd);
	contender c[] = {
		{"", start_cold, .context = &starts[0], .ops = 10},
		{"the same process doing nothing", start_cold, .context = &starts[1], .ops = 10},
		{"two plain files", start_cold, .context = &starts[2], .ops = 10},
		{"SQLite table, NORMAL", start_cold, .context = &starts[3], .ops = 10},
	};
	bench_compare("whole process (flushed at close)", c, 4, NULL);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--cold-ours") == 0) return cold_ours(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--cold-nothing") == 0) return 0;
	if (argc == 3 && strcmp(argv[1], "--cold-file") == 0) return cold_file(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--cold-sqlite") == 0) return cold_sqlite(argv[2]);
	bench_init(argc, argv);
	tallies = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(tallies != MAP_FAILED);
	writers();
	hundred();
	agents();
	cold();
	return 0;
}
