/*
 * Whether a commit merged outside the writer lock went by the number of its keys: ten texts of 15 MiB, changed on both sides, were merged
 * under it, and everybody waited for 31 s.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { TEXTS = 2, BYTES = 5 << 20, LEAST_MS = 400 };

static cb_store *s;
static _Atomic bool over;
static _Atomic int64_t worst_ms;

static int64_t now_ms(void)
{
	struct timespec t;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Lines of which many are alike: the worst that a comparison can get. */
static void write_text(cb_box *b, unsigned i, uint64_t seed)
{
	cb_error err = {0};
	test_rng rng = {seed};
	char path[32], *text = malloc(BYTES);
	CHECK(text);
	for (size_t k = 0; k < BYTES; k++) text[k] = k % 5 == 4 ? '\n' : (char)('a' + test_rand_below(&rng, 8));
	(void)snprintf(path, sizeof(path), "/work/t%u", i);
	CHECK_OK(cb_write_file(b, path, text, BYTES, NULL, &err));
	free(text);
}

static void *write_other(void *context)
{
	cb_box *other = must_open(s, "other");
	while (!atomic_load(&over)) {
		int64_t start = now_ms();
		must_write(other, "/work/x", "x");
		int64_t took = now_ms() - start;
		if (took > atomic_load(&worst_ms)) atomic_store(&worst_ms, took);
		usleep(1000);
	}
	cb_box_close(other);
	return context;
}

TEST_LIMIT(nobody_waits_for_it, 240)
{
	cb_error err = {0};
	cb_box *b = NULL;
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_box_create(s, "other", NULL, &err));
	for (unsigned i = 0; i < TEXTS; i++) write_text(b, i, 1 + i);
	cb_box *t = must_begin(b);
	for (unsigned i = 0; i < TEXTS; i++) write_text(t, i, 100 + i);
	for (unsigned i = 0; i < TEXTS; i++) write_text(b, i, 200 + i);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, write_other, NULL) == 0);
	int64_t start = now_ms();
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	int64_t took = now_ms() - start;
	atomic_store(&over, true);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK_MSG(took < LEAST_MS || atomic_load(&worst_ms) < took / 2, "others waited %lld of %lld ms",
	          (long long)atomic_load(&worst_ms), (long long)took);
	cb_box_close(t);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
