/*
 * Whether a commit merged outside the writer lock went by the number of its keys: ten texts of 15 MiB, changed on both sides, were merged
 * under it, and everybody waited for 31 s.
 */
#include <stdio.h>

#include "harness/beside.h"
#include "harness/boxes.h"

enum { TEXTS = 2, BYTES = 5 << 20, LEAST_MS = 400 };

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

TEST_LIMIT(nobody_waits_for_it, 240)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < TEXTS; i++) write_text(b, i, 1 + i);
	cb_box *t = must_begin(b);
	for (unsigned i = 0; i < TEXTS; i++) write_text(t, i, 100 + i);
	for (unsigned i = 0; i < TEXTS; i++) write_text(b, i, 200 + i);
	beside_begin(s);
	int64_t start = beside_now_ms();
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	int64_t took = beside_now_ms() - start, waited = beside_end();
	CHECK_MSG(took < LEAST_MS || waited < took / 2, "others waited %lld of %lld ms", (long long)waited, (long long)took);
	cb_box_close(t);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
