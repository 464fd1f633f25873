/*
 * core_gate.c: what the gate costs: the same calls on four stores alike, without a hook, with one that has no rules, with a rule somewhere
 * else in the box, and with one in the folder that is read. Stores are in memory, so that it is the gate that is measured.
 *
 * What is promised is that rules cost where they lie: 1.05 without any in the box.
 */
#include "bench.h"

#include "box/gate.h"

enum { FOLDERS = 100, FILES = 200, WORLDS = 4, STEPS = 50 };

typedef struct one_world {
	const char *name, *rule;
	bool hooked;
	gate g;
	cb_store *store;
	cb_box *box, *first;
	uint64_t flip;
} one_world;

static one_world worlds[WORLDS] = {
	{.name = "no hook"},
	{.name = "a hook without rules", .hooked = true},
	{.name = "a rule elsewhere", .hooked = true, .rule = "/home/agent/hidden"},
	{.name = "a rule in the folder", .hooked = true, .rule = "/work/d5/f7"},
};

/* ---- one rule ---- */

static gate_answer ask(void *context, const gate_request *q)
{
	const char *rule = context;
	size_t n = rule ? strlen(rule) : 0;
	bool hit = rule && q->path && strncmp(q->path, rule, n) == 0 && (q->path[n] == 0 || q->path[n] == '/');
	return hit ? GATE_HIDDEN : GATE_PASS;
}

static gate_below below(void *context, const char *who, uint64_t box, const char *path)
{
	const char *rule = context;
	size_t n = strcmp(path, "/") == 0 ? 0 : strlen(path);
	(void)who;
	(void)box;
	if (!rule || strncmp(rule, path, n) != 0 || rule[n] != '/') return GATE_BELOW_NONE;
	return strchr(rule + n + 1, '/') ? GATE_BELOW_DEEPER : GATE_BELOW_INSIDE;
}

static void fill(one_world *w)
{
	char path[BENCH_PATH];
	w->store = bench_store(":memory:", false);
	CB(cb_box_create(w->store, "demo", &w->box, &bench_err));
	cb_box *t = bench_begin(w->box);
	for (int d = 0; d < FOLDERS; d++) {
		(void)snprintf(path, sizeof(path), "/work/d%d", d);
		CB(cb_mkdir(t, path, 0755, 0, &bench_err));
		for (int f = 0; f < FILES; f++) {
			(void)snprintf(path, sizeof(path), "/work/d%d/f%d", d, f);
			bench_write(t, path, "hello", 5);
		}
	}
	bench_commit(t);
	for (int i = 0; i < STEPS; i++) bench_write(w->box, "/work/d9/f1", i % 2 ? "abc" : "def", 3);
	CB(cb_box_open(w->store, "demo@0", &w->first, &bench_err));
	char rule[BENCH_PATH];
	(void)snprintf(rule, sizeof(rule), "%s", w->rule ? w->rule : "");
	w->g = (gate){.ask = ask, .below = below, .context = w->rule ? strdup(rule) : NULL};
	if (w->hooked) w->store->gate = &w->g;
}

/* ---- calls ---- */

static cb_code pass(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)context;
	(void)path;
	(void)info;
	(void)err;
	return CB_OK;
}

static cb_code pass_change(void *context, const cb_change *change, cb_error *err)
{
	(void)context;
	(void)change;
	(void)err;
	return CB_OK;
}

static void do_readdir(void *context, uint64_t i)
{
	(void)i;
	CB(cb_readdir(((one_world *)context)->box, "/work/d5", pass, NULL, &bench_err));
}

static void do_walk(void *context, uint64_t i)
{
	(void)i;
	CB(cb_walk(((one_world *)context)->box, "/work", pass, NULL, &bench_err));
}

static void do_diff(void *context, uint64_t i)
{
	(void)i;
	const one_world *w = context;
	CB(cb_diff(w->first, w->box, NULL, pass_change, NULL, &bench_err));
}

static void do_stat(void *context, uint64_t i)
{
	(void)i;
	cb_stat_info info = CB_INIT(cb_stat_info);
	CB(cb_stat(((one_world *)context)->box, "/work/d5/f50", 0, &info, &bench_err));
}

static void do_read(void *context, uint64_t i)
{
	(void)i;
	char *text = NULL;
	CB(cb_read_file(((one_world *)context)->box, "/work/d5/f50", &text, NULL, &bench_err));
	cb_free(text);
}

static void do_write(void *context, uint64_t i)
{
	bench_write(((one_world *)context)->box, "/work/d5/f51", i % 2 ? "abc" : "def", 3);
}

static cb_code pass_step(void *context, const cb_step *step, cb_error *err)
{
	(void)context;
	(void)step;
	(void)err;
	return CB_OK;
}

static void do_log(void *context, uint64_t i)
{
	(void)i;
	const one_world *w = context;
	CB(cb_log(w->box, &CB_WITH(cb_log_options, .max_steps = STEPS), pass_step, NULL, NULL, &bench_err));
}

static void do_rename(void *context, uint64_t i)
{
	(void)i;
	one_world *w = context;
	bool there = w->flip++ % 2;
	CB(cb_rename(w->box, there ? "/work/e6" : "/work/d6", there ? "/work/d6" : "/work/e6", 0, &bench_err));
}

static void do_info(void *context, uint64_t i)
{
	(void)i;
	cb_box_info info = CB_INIT(cb_box_info);
	CB(cb_box_info_get(((one_world *)context)->box, &info, &bench_err));
}

typedef struct row {
	const char *what;
	bench_op op;
	unsigned ops;
	double target; /* of a hook without rules */
} row;

static const row rows[] = {
	{"readdir of 200", do_readdir, 40, 1.05},
	{"walk of 20,100", do_walk, 1, 1.05},
	{"diff of 20,100", do_diff, 1, 1.05},
	{"stat", do_stat, 500, 1.05},
	{"read", do_read, 500, 1.05},
	{"write", do_write, 30, 1.05},
	{"rename of a folder", do_rename, 20, 1.05},
	{"info", do_info, 100, 1.05},
	{"log of 50 steps", do_log, 10, 1.05},
};

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	for (size_t i = 0; i < WORLDS; i++) fill(&worlds[i]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		contender c[WORLDS];
		if (!bench_section(rows[i].what)) continue;
		for (size_t k = 0; k < WORLDS; k++)
			c[k] = (contender){
				.name = worlds[k].name, .op = rows[i].op, .context = &worlds[k], .ops = rows[i].ops, .whole = true};
		bench_measure(c, WORLDS);
		for (size_t k = 1; k < WORLDS; k++) bench_row(worlds[k].name, &c[k], &c[0], k == 1 ? rows[i].target : 0);
		bench_done(c, WORLDS);
	}
	for (size_t i = 0; i < WORLDS; i++) {
		cb_box_close(worlds[i].first);
		cb_box_close(worlds[i].box);
		cb_store_close(worlds[i].store);
		free(worlds[i].g.context);
	}
	return 0;
}
