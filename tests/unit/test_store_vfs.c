/*
 * test_store_vfs.c: gathering the log's writes. What matters is what ordinary tests do not reach: transactions larger than SQLite's page
 * cache, whose pages are spilled to the log, changed and written again.
 */
#include "harness/harness.h"
#include "store/fault.h"
#include "store/store.h"

enum { NODES = 12000, NODE_BYTES = 2000 }; /* 24 MB: SQLite keeps 16 */

static cb_error err;

static const char *folder(const char *name)
{
	static char path[512];
	(void)snprintf(path, sizeof path, "%s/%s", test_tmpdir(), name);
	return path;
}

static store *open_store(const char *path, store_fault_plan *plan)
{
	store *s = NULL;
	store_options o = {.path = path, .create = true, .faults = plan, .cache_bytes = 1 << 20};
	CHECK_OK(store_open(&o, &s, &err));
	return s;
}

static void node_fill(uint8_t *to, uint64_t i, uint64_t generation)
{
	test_rng r = {(i << 8 | generation) * 2 + 1};
	for (size_t k = 0; k < NODE_BYTES; k += 8) {
		uint64_t v = test_rand(&r);
		memcpy(to + k, &v, 8);
	}
}

/* Writes many nodes and, between them, the same settings again and again, so that spilled pages change. */
static void fill(store *s, uint64_t generation, uint64_t *out_first)
{
	CHECK_OK(store_write_begin(s, &err));
	for (uint64_t i = 0; i < NODES; i++) {
		uint8_t bytes[NODE_BYTES];
		uint64_t id = 0;
		node_fill(bytes, i, generation);
		CHECK_OK(store_node_put(s, span_make(bytes, sizeof bytes), &id, &err));
		if (i == 0) *out_first = id;
		char key[16], value[32];
		(void)snprintf(key, sizeof key, "k%" PRIu64, i % 300);
		(void)snprintf(value, sizeof value, "%" PRIu64 "-%" PRIu64, generation, i);
		CHECK_OK(store_setting_set(s, 0, key, value, &err));
	}
}

static void complain(void *context, const char *line)
{
	(void)context;
	test_fail(__FILE__, __LINE__, "%s", line);
}

static void verify(store *s, uint64_t generation, uint64_t first)
{
	for (uint64_t i = 0; i < NODES; i += 7) {
		uint8_t bytes[NODE_BYTES];
		blob *b = NULL;
		node_fill(bytes, i, generation);
		CHECK_OK(store_node_get(s, first + i, &b, &err));
		CHECK(b->size == NODE_BYTES && memcmp(b->bytes, bytes, NODE_BYTES) == 0);
		blob_unref(b);
	}
	for (uint64_t k = 0; k < 300; k += 11) {
		char key[16], value[32], *got = NULL;
		(void)snprintf(key, sizeof key, "k%" PRIu64, k);
		(void)snprintf(value, sizeof value, "%" PRIu64 "-%" PRIu64, generation, NODES - 300 + k);
		CHECK_OK(store_setting_get(s, 0, key, &got, &err));
		CHECK_STR(got, value);
		free(got);
	}
	CHECK_OK(store_check(s, complain, NULL, &err));
}

TEST(spilled_transactions_commit_and_roll_back)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s", folder("s"));
	store *s = open_store(path, NULL), *other = open_store(path, NULL);
	uint64_t first = 0, lost = 0;
	fill(s, 1, &first);
	CHECK_OK(store_write_commit(s, false, &err));
	verify(other, 1, first); /* through the log, by another connection */
	verify(s, 1, first);
	fill(s, 2, &lost);
	store_write_abort(s);
	verify(other, 1, first);
	verify(s, 1, first);
	/* An ordinary commit lands where the rolled-back frames were. */
	CHECK_OK(store_write_begin(other, &err));
	CHECK_OK(store_setting_set(other, 0, "after", "x", &err));
	CHECK_OK(store_write_commit(other, false, &err));
	char *v = NULL;
	CHECK_OK(store_setting_get(s, 0, "after", &v, &err));
	free(v);
	store_close(other);
	store_close(s);
	s = open_store(path, NULL);
	verify(s, 1, first);
	store_close(s);
}

static uint64_t dice(void *context, uint64_t n)
{
	return test_rand_below(context, n);
}

TEST(spilled_and_synced_survives_a_power_cut)
{
	test_rng r = {test_seed() | 1};
	store_fault_plan plan = {.record = true};
	store *s = open_store(folder("s"), &plan);
	uint64_t first = 0, lost = 0;
	fill(s, 1, &first);
	CHECK_OK(store_write_commit(s, true, &err));
	fill(s, 2, &lost);
	CHECK_OK(store_fault_cut(&plan, NULL, dice, &r, folder("image"), &err));
	store_write_abort(s);
	store_close(s);
	store_fault_plan_done(&plan);
	s = open_store(folder("image"), NULL);
	verify(s, 1, first);
	store_close(s);
}

/* Two connections in turn: the place where a transaction's frames begin is never the one where this connection's last ended. */
TEST(turns)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s", folder("s"));
	store *s[2] = {open_store(path, NULL), open_store(path, NULL)};
	for (uint64_t i = 0; i < 3000; i++) {
		store *at = s[i * 2654435761u >> 7 & 1];
		char value[32], *got = NULL;
		(void)snprintf(value, sizeof value, "%" PRIu64, i);
		CHECK_OK(store_write_begin(at, &err));
		CHECK_OK(store_setting_set(at, 0, "k", value, &err));
		uint64_t id = 0;
		CHECK_OK(store_content_put(at, span_make(path, 1 + i % 500), &id, &err));
		CHECK_OK(store_write_commit(at, false, &err));
		CHECK_OK(store_setting_get(s[i & 1], 0, "k", &got, &err));
		CHECK_STR(got, value);
		free(got);
	}
	CHECK_OK(store_check(s[0], complain, NULL, &err));
	store_close(s[0]);
	store_close(s[1]);
}
