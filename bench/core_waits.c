/*
 * core_waits.c: how long others wait. A second process writes 1 KiB into a box of its own, again and again, while the first makes one call
 * on a large box of the same store. The figure is the longest single write; beside it the longest while nothing else happens, because
 * the machine itself pauses now and then. Then the same with a third process, which writes to the large box every millisecond, so that each
 * call finds that it was overtaken. And beside prune and gc of a store in which thousands of forks were merged and deleted.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cowbox/transfer.h>

#include "bench.h"

typedef struct shared {
	_Atomic uint64_t worst_us;
	_Atomic uint64_t writes;
} shared;

static shared *seen;
static cb_store *s;
static cb_box *big, *side;
static char folder[BENCH_PATH];
static int pack; /* of the large box as it was filled */
static uint64_t big_steps;

static void write_for_ever(const char *path, const char *box, bool measured)
{
	cb_store *mine = bench_store(path, false);
	cb_box *b = NULL;
	CB(cb_box_open(mine, box, &b, &bench_err));
	for (uint64_t i = 0;; i++) {
		double start = bench_now_us();
		bench_write(b, "/home/agent/f", bench_bytes(i), BENCH_KB);
		uint64_t took = (uint64_t)(bench_now_us() - start);
		if (measured && took > atomic_load(&seen->worst_us)) atomic_store(&seen->worst_us, took);
		if (measured) atomic_fetch_add(&seen->writes, 1);
		(void)usleep(measured ? 200 : 1000);
	}
}

static pid_t start_writer(const char *path, const char *box, bool measured)
{
	pid_t child = fork();
	SYS(child);
	if (child == 0) write_for_ever(path, box, measured);
	return child;
}

static void end_writer(pid_t child)
{
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
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

/* The step is named: beside another writer the newest one is his. */
static void do_undo(void)
{
	CB(cb_undo(big, cb_box_step(big), NULL, &bench_err));
}

static void do_remove_again(void)
{
	CB(cb_remove(big, "/copy", &bench_err));
}

/* Of a fork in which every second file was changed. */
static void do_merge(void)
{
	CB(cb_merge(big, side, NULL, NULL, NULL, &bench_err));
}

static void do_import(void)
{
	CB(cb_import(big, folder, &CB_WITH(cb_import_options, .to = "/in", .full = true), NULL, &bench_err));
}

static void do_restore(void)
{
	cb_box *old = NULL;
	CB(cb_box_open(s, "big@start", &old, &bench_err));
	CB(cb_restore(big, old, NULL, NULL, &bench_err));
	cb_box_close(old);
}

static void do_unpack(void)
{
	CB(cb_unpack(s, pack, "unpacked", NULL, NULL, &bench_err));
}

static void do_gc(void)
{
	CB(cb_store_gc(s, NULL, &bench_err));
}

typedef struct deed {
	const char *name;
	void (*run)(void);
} deed;

static void run_all(const deed *deeds, size_t count, const char *beside)
{
	while (atomic_load(&seen->writes) < 10) (void)usleep(1000);
	reset();
	quiet();
	double idle = (double)atomic_load(&seen->worst_us) / 1000;
	for (size_t i = 0; i < count; i++) {
		char name[96];
		reset();
		double start = bench_now_us();
		deeds[i].run();
		double took = (bench_now_us() - start) / 1000;
		(void)snprintf(name, sizeof(name), "%s%s: longest wait", deeds[i].name, beside);
		bench_value(name, "ms", (double)atomic_load(&seen->worst_us) / 1000, "beside nothing", idle, 0);
		(void)snprintf(name, sizeof(name), "%s%s: the call itself", deeds[i].name, beside);
		bench_value(name, "ms", took, NULL, 0, 0);
	}
}

static cb_code change_second(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	static uint64_t n;
	if (info->type != CB_FILE || n++ % 2) return CB_OK;
	return cb_write_file(context, path, "side", 4, NULL, err);
}

static void fill(uint64_t files)
{
	bench_fill(big, files, 100);
	CB(cb_checkpoint_save(big, "start", 0, true, &bench_err));
	CB(cb_export(big, "/work", folder, NULL, NULL, &bench_err));
	pack = memfd_create("pack", MFD_CLOEXEC);
	SYS(pack);
	CB(cb_pack(big, pack, NULL, NULL, &bench_err));
	SYS(lseek(pack, 0, SEEK_SET));
	CB(cb_box_fork(s, "big", "side", &side, &bench_err));
	cb_box *t = NULL;
	CB(cb_txn_begin(side, NULL, &t, &bench_err));
	CB(cb_walk(side, "/work", change_second, t, &bench_err));
	CB(cb_txn_commit(t, NULL, NULL, &bench_err));
	cb_box_close(t);
}

static void large_calls(void)
{
	uint64_t files = bench.full ? 200000 : 20000;
	char path[BENCH_PATH], title[128];
	(void)snprintf(title, sizeof(title), "longest wait of another writer, beside one call on %llu files",
	               (unsigned long long)files);
	if (!bench_section(title)) return;
	s = bench_store(bench_path(path, "waits"), false);
	(void)bench_path(folder, "waits-folder");
	CB(cb_box_create(s, "other", NULL, &bench_err));
	CB(cb_box_create(s, "big", &big, &bench_err));
	fill(files);
	pid_t other = start_writer(path, "other", true);
	static const deed alone[] = {{"copy", do_copy},       {"remove", do_remove}, {"undo of the removal", do_undo},
	                             {"restore", do_restore}, {"unpack", do_unpack}, {"gc", do_gc}};
	run_all(alone, sizeof(alone) / sizeof(*alone), "");
	static const deed beside[] = {
		{"copy", do_copy},   {"remove", do_remove}, {"undo of the removal", do_undo}, {"remove again", do_remove_again},
		{"merge", do_merge}, {"import", do_import}};
	pid_t same = start_writer(path, "big", false);
	run_all(beside, sizeof(beside) / sizeof(*beside), ", one writer in the box");
	end_writer(same);
	end_writer(other);
	(void)close(pack);
	cb_box_close(side);
	cb_box_close(big);
	cb_store_close(s);
}

static void do_prune(void)
{
	CB(cb_prune(big, &CB_WITH(cb_prune_options, .keep_steps = big_steps / 2), NULL, &bench_err));
}

/* Forks of what the box is, each with a change, merged into it and deleted. */
static void merge_forks(uint64_t forks)
{
	char name[BENCH_PATH];
	for (uint64_t i = 0; i < forks; i++) {
		cb_box *fork = NULL;
		CB(cb_box_fork(s, "big", "fork", &fork, &bench_err));
		(void)snprintf(name, sizeof(name), "/home/agent/n%llu", (unsigned long long)(i % 64));
		bench_write(fork, name, bench_bytes(i), 80);
		CB(cb_merge(big, fork, NULL, NULL, NULL, &bench_err));
		cb_box_close(fork);
		CB(cb_box_delete(s, "fork", &bench_err));
	}
	big_steps = forks;
}

static void upkeep(void)
{
	uint64_t forks = bench.full ? 16000 : 4000;
	char path[BENCH_PATH], title[128];
	(void)snprintf(title, sizeof(title), "longest wait of another writer, beside upkeep after %llu forks, merged and deleted",
	               (unsigned long long)forks);
	if (!bench_section(title)) return;
	s = bench_store(bench_path(path, "upkeep"), false);
	CB(cb_box_create(s, "other", NULL, &bench_err));
	CB(cb_box_create(s, "big", &big, &bench_err));
	merge_forks(forks);
	pid_t other = start_writer(path, "other", true);
	static const deed deeds[] = {
		{"gc", do_gc}, {"prune of half", do_prune}, {"gc after it", do_gc}, {"gc, nothing to free", do_gc}};
	run_all(deeds, sizeof(deeds) / sizeof(*deeds), "");
	end_writer(other);
	cb_box_close(big);
	cb_store_close(s);
}

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(seen != MAP_FAILED);
	large_calls();
	upkeep();
	return 0;
}
