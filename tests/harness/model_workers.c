/* model_workers.c: see model_workers.h. */
#include "harness/model_workers.h"

#include <sched.h>
#include <sys/mman.h>

typedef struct worker {
	cb_store *s;
	unsigned number;
	test_rng rng;
	model_ledger *l;
	cb_box *shared, *own;
	char own_name[32];
} worker;

model_ledger *model_ledgers_map(void)
{
	void *p = mmap(NULL, sizeof(model_ledger) * MODEL_WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

void model_workers_prepare(cb_store *s, unsigned workers)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK(workers <= MODEL_WORKERS);
	CHECK_OK(cb_box_create(s, "shared", &b, &err));
	must_write(b, "/work/log", "");
	CHECK_OK(cb_kv_set(b, "count", "0", 1, &err));
	for (unsigned i = 0; i < workers; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "/work/w%u", i);
		CHECK_OK(cb_mkdir(b, name, 0755, 0, &err));
		(void)snprintf(name, sizeof(name), "own%u", i);
		CHECK_OK(cb_box_create(s, name, NULL, &err));
	}
	cb_box_close(b);
}

static uint64_t below(worker *w, uint64_t n)
{
	return test_rand_below(&w->rng, n);
}

static void note_step(worker *w, uint64_t seq, const char *what)
{
	CHECK_MSG(seq != 0 && w->l->step_count < MODEL_STEPS, "%s gave step %" PRIu64, what, seq);
	w->l->steps[w->l->step_count++] = seq;
}

/* A recorded step, so that its number is known. */
static void do_record(worker *w)
{
	cb_error err = {0};
	uint64_t seq = 0;
	char text[32];
	(void)snprintf(text, sizeof(text), "%u", w->number);
	CHECK_OK(cb_step_record(w->shared, &CB_WITH(cb_step_info, .kind = "tool", .params = text, .params_size = CB_STRING), &seq,
	                        &err));
	note_step(w, seq, "record");
}

static void do_file(worker *w)
{
	cb_error err = {0};
	uint64_t which = below(w, MODEL_FILES);
	char path[64], text[6000];
	uint32_t value = w->l->files[which] + 1;
	(void)snprintf(path, sizeof(path), "/work/w%u/f%" PRIu64, w->number, which);
	memset(text, 'x', sizeof(text));
	int n = snprintf(text, sizeof(text), "%u\n", value);
	text[n] = 'x';
	size_t size = below(w, 4) ? (size_t)n : sizeof(text);
	CHECK_OK(cb_write_file(w->shared, path, text, size, NULL, &err));
	w->l->files[which] = value;
}

static void do_append(worker *w)
{
	cb_error err = {0};
	char line[64];
	int n = snprintf(line, sizeof(line), "%u %u\n", w->number, w->l->appended + 1);
	CHECK_OK(cb_write_file(w->shared, "/work/log", line, (size_t)n, &CB_WITH(cb_write_options, .append = true), &err));
	w->l->appended++;
}

/* Read, add, write: a lost update would show in the sum. A conflict makes it start again. */
static void do_count(worker *w)
{
	cb_error err = {0};
	for (int tries = 0; tries < 1000; tries++) {
		char *now = NULL, next[32];
		cb_box *t = must_begin(w->shared);
		CHECK_OK(cb_kv_get(t, "count", &now, NULL, &err));
		int n = snprintf(next, sizeof(next), "%lu", strtoul(now, NULL, 10) + 1);
		cb_free(now);
		CHECK_OK(cb_kv_set(t, "count", next, (size_t)n, &err));
		cb_commit_result r = CB_INIT(cb_commit_result);
		cb_code code = cb_txn_commit(t, NULL, &r, &err);
		cb_box_close(t);
		if (code == CB_OK) {
			note_step(w, r.seq, "count");
			w->l->counted++;
			return;
		}
		CHECK_MSG(code == CB_CONFLICT, "commit: %s (%s)", cb_code_name(code), err.message);
		(void)sched_yield();
	}
	test_fail(__FILE__, __LINE__, "a counter could not be advanced in 1000 tries");
}

/* Several files as one step; others' steps in between are merged. */
static void do_transaction(worker *w)
{
	cb_error err = {0};
	char path[64], text[32];
	uint32_t next[MODEL_FILES];
	cb_box *t = must_begin(w->shared);
	for (unsigned i = 0; i < MODEL_FILES; i++) {
		next[i] = w->l->files[i] + 1;
		(void)snprintf(path, sizeof(path), "/work/w%u/f%u", w->number, i);
		int n = snprintf(text, sizeof(text), "%u\n", next[i]);
		CHECK_OK(cb_write_file(t, path, text, (size_t)n, NULL, &err));
	}
	if (below(w, 4) == 0) {
		cb_box_close(t);
		return;
	}
	cb_commit_result r = must_commit(t);
	memcpy(w->l->files, next, sizeof(next));
	note_step(w, r.seq, "transaction");
}

/* Fork, work there, merge back, delete the fork. */
static void do_merge(worker *w)
{
	cb_error err = {0};
	char name[64], path[64];
	uint64_t seq = 0, conflicts = 0;
	(void)snprintf(name, sizeof(name), "fork%u-%u", w->number, w->l->merged);
	cb_box *f = must_fork(w->s, "shared", name);
	(void)snprintf(path, sizeof(path), "/work/w%u/m%u", w->number, w->l->merged + 1);
	must_write(f, path, name);
	CHECK_OK(cb_merge(w->shared, f, NULL, &seq, &conflicts, &err));
	w->l->merged++;
	note_step(w, seq, "merge");
	cb_box_close(f);
	CHECK_OK(cb_box_delete(w->s, name, &err));
}

static void do_own(worker *w)
{
	cb_error err = {0};
	char text[32];
	int n = snprintf(text, sizeof(text), "%u", w->l->own + 1);
	CHECK_OK(cb_write_file(w->own, "/work/mine", text, (size_t)n, NULL, &err));
	w->l->own++;
	if (below(w, 3) == 0) {
		CHECK_OK(cb_undo(w->own, 0, NULL, &err));
		CHECK_OK(cb_redo(w->own, NULL, &err));
	}
}

static void do_own_handle(worker *w)
{
	cb_error err = {0};
	cb_file *f = NULL;
	char text[32], back[32] = "";
	size_t got = 0;
	CHECK_OK(cb_open(w->own, "/work/mine", CB_READ | CB_WRITE | CB_CREATE | CB_TRUNCATE, 0644, &f, &err));
	int n = snprintf(text, sizeof(text), "%u", w->l->own + 1);
	CHECK_OK(cb_write(f, text, (size_t)n, &err));
	CHECK_OK(cb_pread(f, back, sizeof(back) - 1, 0, &got, &err));
	CHECK_STR(back, text);
	CHECK_OK(cb_close(f, &err));
	w->l->own++;
}

/* Upkeep may meet that of others. */
static void do_upkeep(worker *w)
{
	cb_error err = {0};
	cb_code code = CB_OK;
	switch (below(w, 4)) {
	case 0:
		code = cb_store_gc(w->s, NULL, &err);
		break;
	case 1:
		code = cb_prune(w->own, &CB_WITH(cb_prune_options, .keep_steps = 1 + below(w, 20)), NULL, &err);
		break;
	case 2:
		code = cb_checkpoint_save(w->own, "now", 0, true, &err);
		if (code == CB_EXISTS) code = cb_checkpoint_delete(w->own, "now", &err);
		break;
	default:
		code = cb_prune(w->own, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err);
		if (code == CB_OK) code = cb_store_gc(w->s, NULL, &err);
	}
	CHECK_MSG(code == CB_OK || code == CB_BUSY, "upkeep: %s (%s)", cb_code_name(code), err.message);
}

/* What this worker wrote it must see, whatever the others do. */
static void do_look(worker *w)
{
	cb_error err = {0};
	uint64_t which = below(w, MODEL_FILES);
	if (w->l->files[which] == 0) return;
	char path[64], *text = NULL;
	(void)snprintf(path, sizeof(path), "/work/w%u/f%" PRIu64, w->number, which);
	CHECK_OK(cb_read_file(w->shared, path, &text, NULL, &err));
	CHECK_U64(strtoul(text, NULL, 10), w->l->files[which]);
	cb_free(text);
}

void model_worker_run(cb_store *s, unsigned number, uint64_t seed, unsigned rounds, model_ledger *l)
{
	worker w = {.s = s, .number = number, .rng = {seed * 31 + number + 1}, .l = l};
	(void)test_rand(&w.rng);
	(void)snprintf(w.own_name, sizeof(w.own_name), "own%u", number);
	w.shared = must_open(s, "shared");
	w.own = must_open(s, w.own_name);
	static void (*const operations[])(worker *) = {do_record,      do_file,  do_file, do_append,     do_append, do_count,
	                                               do_transaction, do_merge, do_own,  do_own_handle, do_upkeep, do_look};
	for (unsigned i = 0; i < rounds; i++) operations[below(&w, sizeof(operations) / sizeof(operations[0]))](&w);
	cb_box_close(w.shared);
	cb_box_close(w.own);
}

/* ---- after a kill ---- */

/* 0: not there. */
static uint32_t number_in(cb_box *b, const char *path)
{
	char *text = NULL;
	if (cb_read_file(b, path, &text, NULL, NULL) != CB_OK) return 0;
	uint32_t number = (uint32_t)strtoul(text, NULL, 10);
	cb_free(text);
	return number;
}

static void settle_number(uint32_t *noted, uint32_t actual, uint32_t fewer, const char *what)
{
	CHECK_MSG(actual + fewer >= *noted && actual <= *noted + 1, "%s: %u was noted, %u is there", what, *noted, actual);
	*noted = actual;
}

static void settle_worker(cb_store *s, cb_box *shared, unsigned i, model_ledger *l)
{
	char path[64], name[64];
	for (unsigned k = 0; k < MODEL_FILES; k++) {
		(void)snprintf(path, sizeof(path), "/work/w%u/f%u", i, k);
		settle_number(&l->files[k], number_in(shared, path), 0, path);
	}
	(void)snprintf(path, sizeof(path), "/work/w%u/m%u", i, l->merged + 1);
	(void)snprintf(name, sizeof(name), "fork%u-%u", i, l->merged);
	if (exists(shared, path)) l->merged++;
	(void)cb_box_delete(s, name, NULL);
	(void)snprintf(name, sizeof(name), "own%u", i);
	cb_box *own = must_open(s, name);
	settle_number(&l->own, number_in(own, "/work/mine"), 1, name); /* one fewer between undo and redo */
	cb_box_close(own);
}

static void settle_log(cb_box *shared, unsigned workers, model_ledger *all)
{
	cb_error err = {0};
	char *text = NULL;
	uint32_t seen[MODEL_WORKERS] = {0};
	CHECK_OK(cb_read_file(shared, "/work/log", &text, NULL, &err));
	for (const char *at = text; *at; at += strcspn(at, "\n") + 1) seen[strtoul(at, NULL, 10) % MODEL_WORKERS]++;
	cb_free(text);
	for (unsigned i = 0; i < workers; i++) settle_number(&all[i].appended, seen[i], 0, "/work/log");
}

void model_workers_settle(cb_store *s, unsigned workers, model_ledger *all)
{
	cb_error err = {0};
	char *text = NULL;
	uint64_t counted = 0;
	cb_box *shared = must_open(s, "shared");
	CHECK_OK(cb_kv_get(shared, "count", &text, NULL, &err));
	uint64_t actual = strtoul(text, NULL, 10);
	cb_free(text);
	for (unsigned i = 0; i < workers; i++) counted += all[i].counted;
	CHECK_MSG(actual >= counted && actual <= counted + workers, "%" PRIu64 " were counted, %" PRIu64 " is there", counted,
	          actual);
	all[0].counted += (uint32_t)(actual - counted);
	settle_log(shared, workers, all);
	for (unsigned i = 0; i < workers; i++) settle_worker(s, shared, i, &all[i]);
	cb_box_close(shared);
}

/* ---- judging ---- */

static void must_be(cb_box *b, const char *path, uint32_t number)
{
	cb_error err = {0};
	char *text = NULL;
	if (number == 0) return;
	CHECK_OK(cb_read_file(b, path, &text, NULL, &err));
	CHECK_MSG(strtoul(text, NULL, 10) == number, "%s: \"%.20s\" instead of %u", path, text, number);
	cb_free(text);
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

static cb_code see_step(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = step->seq;
	return CB_OK;
}

/* No step was acknowledged twice, and each is in the log. */
static void judge_steps(cb_box *b, unsigned workers, const model_ledger *all)
{
	cb_error err = {0};
	size_t count = 0;
	uint64_t *seqs = model_alloc(sizeof(*seqs) * MODEL_STEPS * MODEL_WORKERS), head = must_seq(b);
	for (unsigned i = 0; i < workers; i++)
		for (uint32_t k = 0; k < all[i].step_count; k++) seqs[count++] = all[i].steps[k];
	if (count) qsort(seqs, count, sizeof(*seqs), compare_numbers);
	for (size_t i = 0; i < count; i++) {
		uint64_t seen = 0;
		CHECK(i == 0 || seqs[i] != seqs[i - 1]);
		CHECK(seqs[i] <= head);
		CHECK_OK(cb_step_get(b, seqs[i], see_step, &seen, &err));
		CHECK_U64(seen, seqs[i]);
	}
	free(seqs);
}

static void judge_log(cb_box *b, unsigned workers, const model_ledger *all)
{
	cb_error err = {0};
	char *text = NULL;
	uint32_t seen[MODEL_WORKERS] = {0};
	CHECK_OK(cb_read_file(b, "/work/log", &text, NULL, &err));
	for (const char *at = text; *at;) {
		char *end;
		unsigned long who = strtoul(at, &end, 10), number = strtoul(end, &end, 10);
		CHECK(*end == '\n' && who < workers);
		CHECK_U64(number, ++seen[who]); /* each worker's lines in order, each once */
		at = end + 1;
	}
	for (unsigned i = 0; i < workers; i++) CHECK_U64(seen[i], all[i].appended);
	cb_free(text);
}

static void judge_worker(cb_store *s, cb_box *shared, unsigned i, const model_ledger *l)
{
	char path[64], name[64];
	for (unsigned k = 0; k < MODEL_FILES; k++) {
		(void)snprintf(path, sizeof(path), "/work/w%u/f%u", i, k);
		must_be(shared, path, l->files[k]);
	}
	for (unsigned k = 0; k < l->merged; k++) {
		(void)snprintf(path, sizeof(path), "/work/w%u/m%u", i, k + 1);
		CHECK_MSG(exists(shared, path), "%s was merged and is not there", path);
	}
	(void)snprintf(name, sizeof(name), "own%u", i);
	cb_box *own = must_open(s, name);
	must_be(own, "/work/mine", l->own);
	cb_box_close(own);
}

void model_workers_judge(cb_store *s, unsigned workers, const model_ledger *all)
{
	cb_error err = {0};
	cb_box *b = must_open(s, "shared");
	char *text = NULL;
	uint64_t counted = 0;
	for (unsigned i = 0; i < workers; i++) counted += all[i].counted;
	CHECK_OK(cb_kv_get(b, "count", &text, NULL, &err));
	CHECK_U64(strtoul(text, NULL, 10), counted);
	cb_free(text);
	judge_log(b, workers, all);
	judge_steps(b, workers, all);
	for (unsigned i = 0; i < workers; i++) judge_worker(s, b, i, &all[i]);
	test_store_sound(s);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_box_close(b);
}
