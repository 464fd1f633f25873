/*
 * core_growth.c: what a long history costs on disk, and what comes back when it is pruned.
 *
 * A small step here is the replacement of one of 1,000 files (20 folders) by 200 other bytes. 100,000 of them (10,000 in the quick run)
 * are written, 90 % are pruned, then gc and vacuum. The comparison is a fresh store in which the same 1,000 files were written and then
 * changed by as many steps as were kept, collected and vacuumed too: what the pruned store would hold had the rest never been. Sizes
 * are of closed stores.
 *
 * Beside it, steps that change a part of one file by 100 bytes: appends, and writes anywhere.
 */
#include "bench.h"

enum { FILES = 1000, FOLDERS = 20, STEP_BYTES = 200 };

static void small_name(char *out, uint64_t i)
{
	(void)snprintf(out, BENCH_PATH, "/work/d%llu/f%llu", (unsigned long long)(i % FOLDERS), (unsigned long long)(i % FILES));
}

static void small_write(cb_box *b, uint64_t i)
{
	char path[BENCH_PATH];
	small_name(path, bench_random() % FILES);
	bench_write(b, path, bench_bytes(i), STEP_BYTES);
}

static cb_box *start_box(cb_store *s)
{
	char path[BENCH_PATH];
	cb_box *b = NULL;
	CB(cb_box_create(s, "demo", &b, &bench_err));
	cb_box *t = bench_begin(b);
	for (uint64_t i = 0; i < FILES; i++) {
		cb_write_options options = CB_WITH(cb_write_options, .parents = true);
		small_name(path, i);
		CB(cb_write_file(t, path, bench_bytes(i), STEP_BYTES, &options, &bench_err));
	}
	bench_commit(t);
	return b;
}

/* Size of a store that holds that many steps. */
static uint64_t fresh_bytes(uint64_t steps, bool tidied)
{
	char path[BENCH_PATH];
	cb_store *s = bench_store(bench_path(path, "growth-fresh"), false);
	cb_box *b = start_box(s);
	for (uint64_t i = 0; i < steps; i++) small_write(b, i);
	cb_box_close(b);
	if (tidied) CB(cb_store_gc(s, NULL, &bench_err));
	if (tidied) CB(cb_store_vacuum(s, &bench_err));
	cb_store_close(s);
	uint64_t bytes = bench_disk_bytes(path);
	bench_remove(path);
	return bytes;
}

static double milliseconds_since(double start_us)
{
	return (bench_now_us() - start_us) / 1e3;
}

/* Opening one of the newest n states: the first read of an old one replays the steps since the nearest kept root. */
static double open_old_us(cb_store *s, uint64_t n)
{
	enum { OPENED = 41 };
	double took[OPENED];
	char address[BENCH_PATH];
	for (int i = 0; i < OPENED; i++) {
		cb_box *old = NULL;
		(void)snprintf(address, sizeof(address), "demo@-%llu", (unsigned long long)(1 + bench_random() % (n - 1)));
		double start = bench_now_us();
		CB(cb_box_open(s, address, &old, &bench_err));
		took[i] = bench_now_us() - start;
		cb_box_close(old);
	}
	return bench_quantile(took, OPENED, 0.5);
}

static void shrink(const char *path, uint64_t keep)
{
	cb_store *s = bench_store(path, false);
	cb_box *b = NULL;
	uint64_t pruned = 0;
	cb_prune_options options = CB_WITH(cb_prune_options, .keep_steps = keep);
	CB(cb_box_open(s, "demo", &b, &bench_err));
	double start = bench_now_us();
	CB(cb_prune(b, &options, &pruned, &bench_err));
	bench_value("prune 90 % of the steps", "ms", milliseconds_since(start), NULL, 0, 0);
	cb_gc_result result = CB_INIT(cb_gc_result);
	double before = open_old_us(s, keep);
	start = bench_now_us();
	CB(cb_store_gc(s, &result, &bench_err));
	bench_value("gc", "ms", milliseconds_since(start), NULL, 0, 0);
	start = bench_now_us();
	CB(cb_store_gc(s, &result, &bench_err));
	bench_value("gc again, nothing to free", "ms", milliseconds_since(start), NULL, 0, 0);
	bench_value("open any old state after gc (it thins kept roots)", "us", open_old_us(s, keep), "before gc", before, 0);
	start = bench_now_us();
	CB(cb_store_vacuum(s, &bench_err));
	bench_value("vacuum", "ms", milliseconds_since(start), NULL, 0, 0);
	uint64_t complaints = 0;
	start = bench_now_us();
	CB(cb_store_check(s, NULL, NULL, &complaints, &bench_err));
	NEED(complaints == 0);
	bench_value("fsck", "ms", milliseconds_since(start), NULL, 0, 0);
	cb_box_close(b);
	cb_store_close(s);
}

/* What such a step adds to a closed store, its own bytes not counted. */
static void part_steps(const char *what, size_t file_bytes, bool append)
{
	enum { STEPS = 10000, PART = 100 };
	char path[BENCH_PATH];
	cb_box *b = NULL;
	cb_store *s = bench_store(bench_path(path, "growth-parts"), false);
	CB(cb_box_create(s, "demo", &b, &bench_err));
	bench_write(b, "/work/f", bench_bytes(0), file_bytes);
	cb_box_close(b);
	cb_store_close(s);
	uint64_t before = bench_disk_bytes(path);
	s = bench_store(path, false);
	CB(cb_box_open(s, "demo", &b, &bench_err));
	for (uint64_t i = 1; i <= STEPS; i++) {
		cb_file *f = NULL;
		uint64_t at = append ? 0 : bench_random() % (file_bytes - PART);
		CB(cb_open(b, "/work/f", CB_WRITE | (append ? CB_APPEND : 0), 0, &f, &bench_err));
		CB(cb_pwrite(f, bench_bytes(i), PART, at, &bench_err));
		CB(cb_close(f, &bench_err));
	}
	cb_box_close(b);
	cb_store_close(s);
	bench_value(what, "B", (double)(bench_disk_bytes(path) - before) / STEPS - PART, NULL, 0, 0);
	bench_remove(path);
}

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	uint64_t steps = bench.full ? 100000 : 10000;
	char path[BENCH_PATH], title[BENCH_PATH];
	(void)snprintf(title, sizeof(title), "growth: %llu small steps", (unsigned long long)steps);
	if (!bench_section(title)) return 0;
	cb_store *s = bench_store(bench_path(path, "growth"), false);
	cb_box *b = start_box(s);
	CB(cb_store_sync(s, &bench_err));
	double start = bench_now_us();
	for (uint64_t i = 0; i < steps; i++) small_write(b, i);
	bench_value("a step, mean", "us", (bench_now_us() - start) / (double)steps, NULL, 0, 0);
	cb_box_close(b);
	cb_store_close(s);
	uint64_t before = fresh_bytes(0, false), full = bench_disk_bytes(path);
	bench_value("bytes per step", "B", (double)(full - before) / (double)steps, NULL, 0, 0);
	bench_value("bytes per step beside its content", "B", (double)(full - before) / (double)steps - STEP_BYTES, NULL, 0, 2048);
	part_steps("the same of 100 bytes at the end of a log", 1, true);
	part_steps("the same of 100 bytes anywhere in 10 kB", 10000, false);
	part_steps("the same of 100 bytes anywhere in 1 MB", 1000000, false);
	shrink(path, steps / 10);
	uint64_t after = bench_disk_bytes(path), fresh = fresh_bytes(steps / 10, true);
	bench_value("store after all steps", "MB", (double)full / 1e6, NULL, 0, 0);
	bench_value("pruned, collected, vacuumed", "MB", (double)after / 1e6, "a fresh store of what was kept", (double)fresh / 1e6,
	            1.3);
	bench_remove(path);
	return 0;
}
