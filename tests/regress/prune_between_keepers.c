/*
 * prune_between_keepers.c: steps that go between steps that stay (checkpoints, fork points). Prune took one run of them at a time, and
 * collected all that stay for each: with 4,000 checkpoints on every second step it ran for half a minute, and with forks for minutes.
 */
#include "harness/boxes.h"

static cb_error err;

typedef enum keeper { CHECKPOINT, FORK } keeper;

static void keep(cb_store *s, cb_box *b, keeper kind, uint64_t seq)
{
	char name[32], from[32];
	(void)snprintf(name, sizeof(name), "k%" PRIu64, seq);
	(void)snprintf(from, sizeof(from), "b@%" PRIu64, seq);
	if (kind == CHECKPOINT) CHECK_OK(cb_checkpoint_save(b, name, seq, true, &err));
	else CHECK_OK(cb_box_fork(s, from, name, NULL, &err));
}

static void write_step(cb_box *b, uint64_t i)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%" PRIu64, i);
	must_write(b, i % 2 ? "/work/odd" : "/work/even", text);
}

static double prune(cb_box *b, uint64_t expected)
{
	uint64_t pruned = 0;
	double start = test_cpu_ms();
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	double took = test_cpu_ms() - start;
	CHECK_U64(pruned, expected);
	return took;
}

typedef struct times {
	double first, again; /* again: there is next to nothing to do */
} times;

/* 2 * count + 1 steps, of which each odd one stays. */
static times with(keeper kind, unsigned count)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	for (uint64_t i = 1; i <= 2 * (uint64_t)count + 1; i++) write_step(b, i);
	for (unsigned i = 0; i < count; i++) keep(s, b, kind, 2 * (uint64_t)i + 1);
	times t;
	t.first = prune(b, count);
	for (unsigned i = 0; i < count; i += count / 10) {
		char name[32], text[32];
		(void)snprintf(name, sizeof(name), "b@%u", 2 * i + 1);
		(void)snprintf(text, sizeof(text), "%u", 2 * i + 1);
		cb_box *old = must_open(s, name);
		CHECK_STR(must_read(old, "/work/odd"), text);
		cb_box_close(old);
	}
	write_step(b, 1);
	t.again = prune(b, 1);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	return t;
}

static void grows_with(keeper kind)
{
	enum { FEW = 250, MANY = 4000, MOST = 3 * MANY / FEW };
	times few = {1e9, 1e9}, many = with(kind, MANY);
	for (int i = 0; i < 4; i++) {
		times is = with(kind, FEW);
		if (is.first < few.first) few.first = is.first;
		if (is.again < few.again) few.again = is.again;
	}
	test_note("ms for %d and %d: %.2f %.2f, again %.2f %.2f", FEW, MANY, few.first, many.first, few.again, many.again);
	CHECK_MSG(many.first < MOST * few.first, "%d %.2f ms, %d %.2f ms", FEW, few.first, MANY, many.first);
	CHECK_MSG(many.again < MOST * few.again, "again: %d %.2f ms, %d %.2f ms", FEW, few.again, MANY, many.again);
}

TEST_LIMIT(checkpoints, 300)
{
	grows_with(CHECKPOINT);
}

TEST_LIMIT(fork_points, 300)
{
	grows_with(FORK);
}
