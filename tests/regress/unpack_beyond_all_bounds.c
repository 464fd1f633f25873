/*
 * unpack_beyond_all_bounds.c: the sizes of all files of a box are bounded, but not of one that came as a pack: its sums could come near, or
 * go round, what a number counts. A pack of half a million files of 8 TiB takes long to write, so the check of its steps is asked itself,
 * with a state before the step that has nearly all of them.
 */
#include "harness/harness.h"

#include "box/graft.h"

enum { FIRST = 100 };

static cb_error err;

static void put(pmap *m, const key *k, const tree_value *v)
{
	CHECK_OK(pmap_put(m, key_span(k), span_make(v->bytes, v->size), &err));
}

static void put_counters(pmap *m, uint64_t files, uint64_t bytes)
{
	counters c = {files, bytes};
	key k = key_counters();
	tree_value v;
	counters_encode(&c, &v);
	put(m, &k, &v);
}

static void put_entry(pmap *m, uint64_t parent, const char *name, const record *r)
{
	entry e = {.rec = *r};
	key k = key_entry(parent, span_str(name)), n = key_name(r->ino, parent, span_str(name));
	tree_value v, nothing = {0};
	entry_encode(&e, &v);
	put(m, &k, &v);
	if (parent) put(m, &n, &nothing);
}

/* A step that adds so many files of that size to a box that has so many bytes. */
static cb_code step(uint64_t before_bytes, unsigned files, uint64_t size)
{
	pmap a = PMAP_EMPTY, b;
	graft_check *check = NULL;
	tree_nodes none = {0};
	uint64_t keys = 0;
	record root = {.ino = INO_ROOT, .version = 1, .type = CB_DIR, .mode = 0755, .links = 1};
	put_entry(&a, 0, "", &root);
	put_counters(&a, 1, before_bytes);
	b = pmap_ref(&a);
	for (unsigned i = 0; i < files; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "%08u", i);
		record file = {.ino = FIRST + i, .version = 1, .size = size, .type = CB_FILE, .mode = 0644, .links = 1};
		put_entry(&b, INO_ROOT, name, &file);
	}
	put_counters(&b, 1 + files, before_bytes + files * size);
	tree_view before = {.nodes = &none, .overlay = &a}, after = {.nodes = &none, .overlay = &b};
	CHECK_OK(graft_check_create(&check, &err));
	graft_check_begin(check, &before, &after);
	cb_code code = tree_diff(&before, &after, graft_check_key, check, &err);
	if (code == CB_OK) code = graft_check_end(check, &keys, &err);
	graft_check_destroy(check);
	pmap_done(&a);
	pmap_done(&b);
	return code;
}

TEST(a_step_within_the_bound)
{
	CHECK_OK(step(0, 3, LIMIT_FILE_BYTES));
	CHECK_OK(step(LIMIT_BOX_BYTES - 3, 3, 1));
	CHECK_OK(step(LIMIT_BOX_BYTES, 1, 0));
}

TEST(a_step_beyond_it)
{
	CHECK_CODE(step(LIMIT_BOX_BYTES - 3, 2, 2), CB_LIMIT);
	CHECK_MSG(strstr(err.message, "4611686018427387904"), "%s", err.message);
	CHECK_CODE(step(LIMIT_BOX_BYTES, 1, LIMIT_FILE_BYTES), CB_LIMIT);
}

/* 2^21 files of 2^43 bytes have none together, to a number of 64 bits. */
TEST_LIMIT(a_sum_that_comes_round, 300)
{
	CHECK_CODE(step(0, 1U << 21, LIMIT_FILE_BYTES), CB_LIMIT);
}
