/*
 * core_waits.c: how long others wait. A second process writes 1 KiB into a box of its own, again and again, while the first makes one call
 * on a large box of the same store. The figure is the longest single write; beside it the longest while nothing else happens, because
 * the machine itself pauses now and then.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "bench.h"

typedef struct shared {
	_Atomic uint64_t worst_us;
	_Atomic uint64_t writes;
} shared;

static shared *seen;
static cb_store *s;
static cb_box *big;

static void write_for_ever(const char *path)
{
	cb_store *mine = bench_store(path, false);
	cb_box *b = NULL;
	CB(cb_box_open(mine, "other", &b, &bench_err));
	for (uint64_t i = 0;; i++) {
		double start = bench_now_us();
		bench_write(b, "/work/f", bench_bytes(i), BENCH_KB);
		uint64_t took = (uint64_t)(bench_now_us() - start);
		if (took > atomic_load(&seen->worst_us)) atomic_store(&seen->worst_us, took);
		atomic_fetch_add(&seen->writes, 1);
		(void)usleep(200);
	}
}

static void reset(void)
{
	atomic_store(&seen->worst_us, 0);
	atomic_store(&seen->writes, 0);
}

static void quiet(void)
{
	(void)usleep(1500000);
}

static void do_copy(void)
{
	CB(cb_copy(big, "/work", "/copy", 0, &bench_err));
}

static void do_remove(void)
{
	CB(cb_remove(big, "/copy", &bench_err));
}

static void do_undo(void)
{
	CB(cb_undo(big, 0, NULL, &bench_err));
}

static void do_restore(void)
{
	cb_box *old = NULL;
	CB(cb_box_open(s, "big@start", &old, &bench_err));
	CB(cb_restore(big, old, NULL, NULL, &bench_err));
	cb_box_close(old);
}

static void do_gc(void)
{
	CB(cb_store_gc(s, NULL, &bench_err));
}

typedef struct deed {
	const char *name;
	void (*run)(void);
} deed;

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	uint64_t files = bench.full ? 200000 : 50000;
	char path[BENCH_PATH], title[128];
	(void)snprintf(title, sizeof(title), "longest wait of another writer, beside one call on %llu files",
	               (unsigned long long)files);
	if (!bench_section(title)) return 0;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(seen != MAP_FAILED);
	s = bench_store(bench_path(path, "waits"), false);
	CB(cb_box_create(s, "other", NULL, &bench_err));
	CB(cb_box_create(s, "big", &big, &bench_err));
	bench_fill(big, files, 100);
	CB(cb_checkpoint_save(big, "start", 0, true, &bench_err));
	pid_t child = fork();
	SYS(child);
	if (child == 0) write_for_ever(path);
	while (atomic_load(&seen->writes) < 10) (void)usleep(1000);
	reset();
	quiet();
	double idle = (double)atomic_load(&seen->worst_us) / 1000;
	static const deed deeds[] = {
		{"copy", do_copy}, {"remove", do_remove}, {"undo of the removal", do_undo}, {"restore", do_restore}, {"gc", do_gc}};
	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) {
		char name[64];
		reset();
		double start = bench_now_us();
		deeds[i].run();
		double took = (bench_now_us() - start) / 1000;
		(void)snprintf(name, sizeof(name), "%s: longest wait", deeds[i].name);
		bench_value(name, "ms", (double)atomic_load(&seen->worst_us) / 1000, "beside nothing", idle, 0);
		(void)snprintf(name, sizeof(name), "%s: the call itself", deeds[i].name);
		bench_value(name, "ms", took, NULL, 0, 0);
	}
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	cb_box_close(big);
	cb_store_close(s);
	return 0;
}
