/*
 * core_merge.c: what a merge and an undo cost when there is a long history behind them.
 *
 * A merge costs what changed since the base: the same after 100 steps, 20,000 and (--full) 100,000, also where many of them are merges.
 * Undoing k times costs k times one undo: the mean of the last hundred of a thousand is held against that of the first hundred.
 */
#include "bench.h"

typedef struct history {
	cb_store *s;
	cb_box *main, *fork;
	char path[BENCH_PATH];
} history;

static void history_open(history *h, const char *name, uint64_t steps, uint64_t merge_every)
{
	h->s = bench_store(bench_path(h->path, name), false);
	CB(cb_box_create(h->s, "main", &h->main, &bench_err));
	bench_fill(h->main, 200, 80);
	CB(cb_box_fork(h->s, "main", "fork", &h->fork, &bench_err));
	for (uint64_t i = 0; i < steps; i++) {
		char path[BENCH_PATH];
		bool merge = merge_every && i % merge_every == 0;
		(void)snprintf(path, sizeof(path), "/work/d0/h%llu", (unsigned long long)(i % 50));
		bench_write(merge ? h->fork : h->main, path, bench_bytes(i), 80);
		if (merge)
			CB(cb_merge(h->main, h->fork, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, NULL,
			            &bench_err));
	}
}

static void history_close(history *h)
{
	cb_box_close(h->fork);
	cb_box_close(h->main);
	cb_store_close(h->s);
}

static void change(void *context, uint64_t i)
{
	history *h = context;
	bench_write(h->fork, "/work/d1/changed", bench_bytes(i), 80);
}

static void merge(void *context, uint64_t i)
{
	(void)i;
	history *h = context;
	CB(cb_merge(h->main, h->fork, NULL, NULL, NULL, &bench_err));
}

static void merges(void)
{
	if (!bench_section("merge of one change")) return;
	static history few, many, crossed;
	uint64_t steps = bench.full ? 100000 : 20000;
	char what[64];
	history_open(&few, "merge-few", 100, 0);
	history_open(&many, "merge-many", steps, 0);
	history_open(&crossed, "merge-crossed", steps, 10);
	contender c[] = {{"", merge, .prepare = change, .context = &many, .ops = 20},
	                 {"100 steps behind it", merge, .prepare = change, .context = &few, .ops = 20}};
	(void)snprintf(what, sizeof(what), "%llu steps behind it", (unsigned long long)steps);
	bench_compare(what, c, 2, NULL);
	contender d[] = {{"", merge, .prepare = change, .context = &crossed, .ops = 20},
	                 {"100 steps behind it", merge, .prepare = change, .context = &few, .ops = 20}};
	(void)snprintf(what, sizeof(what), "the same, every tenth a merge");
	bench_compare(what, d, 2, NULL);
	history_close(&few);
	history_close(&many);
	history_close(&crossed);
}

/* ---- undo ---- */

typedef struct undoing {
	cb_store *s;
	cb_box *b;
	char path[BENCH_PATH];
} undoing;

enum { IN_A_ROW = 1000 };

static void undo_open(undoing *u, const char *name)
{
	u->s = bench_store(bench_path(u->path, name), false);
	CB(cb_box_create(u->s, "demo", &u->b, &bench_err));
	for (uint64_t i = 0; i < IN_A_ROW + 200; i++) bench_write(u->b, "/work/f", bench_bytes(i), 80);
}

static void undo(void *context, uint64_t i)
{
	(void)i;
	const undoing *u = context;
	CB(cb_undo(u->b, 0, NULL, &bench_err));
}

static void undos(void)
{
	if (!bench_section("undo in a row")) return;
	undoing u;
	undo_open(&u, "undo-row");
	double first = 0, last = 0;
	for (unsigned k = 0; k < IN_A_ROW; k++) {
		double start = bench_now_us();
		undo(&u, k);
		double took = bench_now_us() - start;
		if (k < 100) first += took / 100;
		if (k >= IN_A_ROW - 100) last += took / 100;
	}
	char text[128];
	(void)snprintf(text, sizeof(text), "undo 1-100: %.1f us each; 901-1000: %.1f us each", first, last);
	bench_note(text);
	cb_box_close(u.b);
	cb_store_close(u.s);
}

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	merges();
	undos();
	return 0;
}
