/*
 * commit_with_many_conflicts.c: a transaction that loses in many files. Each conflict was looked for among all that were noted before it,
 * and among all answers: 64,000 of them took half a minute.
 */
#include "harness/boxes.h"

static cb_error err;

static const char *name_of(unsigned i)
{
	static char name[32];
	(void)snprintf(name, sizeof(name), "/work/f%05u", i);
	return name;
}

static void write_all(cb_box *t, unsigned count, const char *text)
{
	for (unsigned i = 0; i < count; i++) must_write(t, name_of(i), text);
}

static void write_step(cb_box *b, unsigned count, const char *text)
{
	cb_box *t = must_begin(b);
	write_all(t, count, text);
	(void)must_commit(t);
}

typedef struct answers {
	cb_resolution *all; /* each with a path of its own */
	size_t count;
} answers;

/* By turns for the box and for the transaction. */
static cb_code take(void *context, const cb_conflict *conflict, cb_error *e)
{
	(void)e;
	answers *a = context;
	a->all[a->count] = (cb_resolution){strdup(conflict->path), a->count % 2 ? CB_PREFER_TXN : CB_PREFER_BOX};
	CHECK(a->all[a->count++].path);
	return CB_OK;
}

typedef struct times {
	double lost, answered;
} times;

static times with(unsigned count)
{
	times t;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	write_step(b, count, "base");
	cb_box *x = must_begin(b);
	write_all(x, count, "txn");
	write_step(b, count, "box");
	cb_commit_result r = CB_INIT(cb_commit_result);
	double start = test_cpu_ms();
	CHECK_CODE(cb_txn_commit(x, NULL, &r, &err), CB_CONFLICT);
	t.lost = test_cpu_ms() - start;
	CHECK_U64(r.conflicts, count);
	answers a = {calloc(count + 2, sizeof(cb_resolution)), 2};
	CHECK(a.all);
	CHECK_OK(cb_txn_conflicts(x, take, &a, &err));
	CHECK_U64(a.count, count + 2);
	/* Of several answers the first that says something counts. */
	a.all[0] = (cb_resolution){a.all[2].path, CB_PREFER_NONE};
	a.all[1] = (cb_resolution){a.all[2].path, CB_PREFER_TXN};
	start = test_cpu_ms();
	CHECK_OK(cb_txn_commit(x, &CB_WITH(cb_commit_options, .resolutions = a.all, .resolution_count = a.count), &r, &err));
	t.answered = test_cpu_ms() - start;
	cb_box_close(x);
	for (size_t i = 2; i < a.count; i++) {
		CHECK_STR(must_read(b, a.all[i].path), i == 2 || a.all[i].prefer == CB_PREFER_TXN ? "txn" : "box");
		free((void *)(uintptr_t)a.all[i].path);
	}
	free(a.all);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	return t;
}

TEST_LIMIT(costs_grow_with_the_conflicts, 300)
{
	enum { FEW = 1000, MANY = 32000, MOST = 3 * MANY / FEW };
	times few = {1e9, 1e9}, many = with(MANY);
	for (int i = 0; i < 4; i++) {
		times is = with(FEW);
		if (is.lost < few.lost) few.lost = is.lost;
		if (is.answered < few.answered) few.answered = is.answered;
	}
	test_note("ms for %d and %d: lost %.2f %.2f, answered %.2f %.2f", FEW, MANY, few.lost, many.lost, few.answered,
	          many.answered);
	CHECK_MSG(many.lost < MOST * few.lost, "lost: %d %.2f ms, %d %.2f ms", FEW, few.lost, MANY, many.lost);
	CHECK_MSG(many.answered < MOST * few.answered, "answered: %d %.2f ms, %d %.2f ms", FEW, few.answered, MANY, many.answered);
}
