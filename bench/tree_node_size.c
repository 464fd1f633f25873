/*
 * tree_node_size.c: what the size of a node costs and gains. The size is fixed when the tree is compiled; for a table of sizes:
 *
 *   for n in 1008 2016 4032; do
 *       cc -O2 -D_GNU_SOURCE -DTREE_NODE_BYTES=$n -Isrc -Iinclude -Itests bench/tree_node_size.c $(ls src/{tree,base}/?*.c) &&
 *       ./a.out
 *   done
 *
 * Keys are like a box's directory entries (kind, parent, name), values like inode records of 40 to 120 bytes. Nodes are in memory: this
 * measures the tree alone; bytes written stand for the store's share. Every figure is the median of several runs.
 */
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"
#include "tree/tree.h"
#include "unit/test_tree_nodes.h"

static uint64_t rng_state = 88172645463325252u;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(cb_code code)
{
	if (code == CB_OK) return;
	fprintf(stderr, "failed: %s\n", cb_code_name(code));
	exit(1);
}

/* Forty names per folder. */
static span make_key(uint64_t number, uint8_t *to)
{
	to[0] = 'D';
	put_be64(to + 1, number / 40);
	return span_make(
		to, 9 + (size_t)sprintf((char *)to + 9, "file-%05llu.txt", (unsigned long long)(number * 2654435761u % 99991)));
}

static void put_change(pmap *m, uint64_t number)
{
	uint8_t key[64], value[120];
	memset(value, (int)rng(), sizeof(value));
	must(pmap_put(m, make_key(number, key), span_make(value, 40 + rng() % 80), NULL));
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(double), compare_doubles);
	return values[count / 2];
}

static cb_code count_diff(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)key, (void)old_value, (void)new_value, (void)err;
	++*(size_t *)context;
	return CB_OK;
}

static void measure_gets(const tree_nodes *nodes, uint64_t root, uint64_t keys)
{
	enum { RUNS = 9, GETS = 20000 };
	double times[RUNS];
	static uint8_t room[GETS][64];
	static span sought[GETS];
	const tree_view v = {nodes, root, NULL, NULL};
	for (int run = 0; run < RUNS; run++) {
		for (int i = 0; i < GETS; i++) sought[i] = make_key(rng() % keys, room[i]);
		double start = now_us();
		for (int i = 0; i < GETS; i++) {
			tree_value value;
			must(tree_get(&v, sought[i], &value, NULL));
		}
		times[run] = (now_us() - start) / GETS;
	}
	printf("  get %.3f us", median(times, RUNS));
}

static void measure_scan(const tree_nodes *nodes, uint64_t root)
{
	const tree_view v = {nodes, root, NULL, NULL};
	double times[5];
	for (int run = 0; run < 5; run++) {
		tree_cursor *c;
		span key, value;
		size_t n = 0;
		double start = now_us();
		must(tree_cursor_open(&v, span_make(NULL, 0), &c, NULL));
		for (; tree_cursor_get(c, &key, &value); n++) must(tree_cursor_next(c, NULL));
		tree_cursor_close(c);
		times[run] = (now_us() - start) * 1e3 / (double)n;
	}
	printf("  scan %.1f ns/entry\n", median(times, 5));
}

static void measure_apply(node_table *table, const tree_nodes *nodes, uint64_t root, uint64_t keys, unsigned changes)
{
	enum { RUNS = 41 };
	double applies[RUNS], diffs[RUNS];
	size_t bytes = table->put_bytes, count = table->count;
	for (int run = 0; run < RUNS; run++) {
		pmap m = PMAP_EMPTY;
		for (unsigned i = 0; i < changes; i++) put_change(&m, rng() % keys);
		uint64_t next;
		double start = now_us();
		must(tree_apply(nodes, root, &m, &next, NULL));
		applies[run] = now_us() - start;
		const tree_view a = {nodes, root, NULL, NULL}, b = {nodes, next, NULL, NULL};
		size_t n = 0;
		must(tree_diff(&a, &b, count_diff, &n, NULL)); /* checks the new nodes */
		start = now_us();
		must(tree_diff(&a, &b, count_diff, &n, NULL));
		diffs[run] = now_us() - start;
		pmap_done(&m);
	}
	printf("  apply of %3u: %8.1f us, %5.1f nodes, %8zu bytes; diff %7.1f us\n", changes, median(applies, RUNS),
	       (double)(table->count - count) / RUNS, (table->put_bytes - bytes) / RUNS, median(diffs, RUNS));
}

static void measure(uint64_t keys)
{
	node_table table = {0};
	const tree_nodes nodes = node_table_nodes(&table);
	pmap all = PMAP_EMPTY;
	for (uint64_t i = 0; i < keys; i++) put_change(&all, i);
	double start = now_us();
	uint64_t root;
	must(tree_apply(&nodes, 0, &all, &root, NULL));
	printf("node %d, %llu keys: built in %.0f ms, %zu nodes, %zu bytes\n", TREE_NODE_MAX, (unsigned long long)keys,
	       (now_us() - start) / 1e3, table.count, table.put_bytes);
	pmap_done(&all);
	must(tree_check(&nodes, root, NULL));
	measure_gets(&nodes, root, keys);
	measure_scan(&nodes, root);
	static const unsigned batches[] = {1, 13, 128};
	for (int i = 0; i < 3; i++) measure_apply(&table, &nodes, root, keys, batches[i]);
	node_table_done(&table);
}

int main(void)
{
	measure(100000);
	measure(1000000);
	return 0;
}
