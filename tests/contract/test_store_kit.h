/* test_store_kit.h: what the tests of the store share: opening, boxes, steps and contents that can be told apart. */
#ifndef TESTS_TEST_STORE_KIT_H
#define TESTS_TEST_STORE_KIT_H

#include <unistd.h>

#include "base/buf.h"
#include "harness/harness.h"
#include "store/fault.h"
#include "store/store.h"

static cb_error err;

static inline const char *folder(void)
{
	static char path[512];
	(void)snprintf(path, sizeof path, "%s/store", test_tmpdir());
	return path;
}

static inline const char *in_folder(const char *name)
{
	static char path[640];
	(void)snprintf(path, sizeof path, "%s/%s", folder(), name);
	return path;
}

static inline store *open_at(const char *path, store_fault_plan *plan)
{
	store *s = NULL;
	store_options o = {.path = path, .create = true, .faults = plan};
	CHECK_OK(store_open(&o, &s, &err));
	return s;
}

static inline void begin(store *s)
{
	CHECK_OK(store_write_begin(s, &err));
}

static inline void commit(store *s)
{
	CHECK_OK(store_write_commit(s, false, &err));
}

static inline uint64_t take(store *s, store_counter which)
{
	uint64_t n = 0;
	CHECK_OK(store_take(s, which, 1, &n, &err));
	return n;
}

static inline uint64_t box_make(store *s, const char *name)
{
	store_box b = {.id = take(s, STORE_NEXT_BOX), .created_ns = 42};
	(void)snprintf(b.name, sizeof b.name, "%s", name);
	CHECK_OK(store_box_insert(s, &b, &err));
	return b.id;
}

static inline uint64_t box_new(store *s, const char *name)
{
	begin(s);
	uint64_t id = box_make(s, name);
	commit(s);
	return id;
}

static inline void step_add(store *s, uint64_t box, uint64_t seq, const char *kind)
{
	store_step p = {.box = box,
	                .seq = seq,
	                .state = take(s, STORE_NEXT_STATE),
	                .kind = kind,
	                .who = "me",
	                .has_changes = true,
	                .changes = span_str("chg"),
	                .weight = 1};
	CHECK_OK(store_step_put(s, &p, &err));
	store_head h = {.seq = seq, .state = p.state, .root_box = box, .weight = seq};
	CHECK_OK(store_head_set(s, box, &h, &err));
}

static inline uint8_t *pattern(size_t size, uint64_t seed)
{
	uint8_t *p = mem_alloc_aligned(size);
	CHECK(p);
	test_rng r = {seed * 2 + 1};
	for (size_t i = 0; i < size; i++) p[i] = (uint8_t)test_rand(&r);
	return p;
}

static inline uint64_t content_new(store *s, size_t size, uint64_t seed)
{
	uint8_t *p = pattern(size, seed);
	uint64_t id = 0;
	CHECK_OK(store_content_put(s, span_make(p, size), &id, &err));
	free(p);
	return id;
}

static inline void content_check(store *s, uint64_t id, size_t size, uint64_t seed)
{
	uint8_t *p = pattern(size, seed);
	blob *b = NULL;
	CHECK_OK(store_content_get(s, id, &b, &err));
	CHECK_U64(b->size, size);
	CHECK(memcmp(b->bytes, p, size) == 0);
	blob_unref(b);
	uint64_t n = 0;
	CHECK_OK(store_content_size(s, id, &n, &err));
	CHECK_U64(n, size);
	uint8_t *to = mem_alloc_aligned(size);
	CHECK(to);
	CHECK_OK(store_content_read(s, id, size / 3, to, size - size / 3, &err));
	CHECK(memcmp(to, p + size / 3, size - size / 3) == 0);
	CHECK_OK(store_content_read(s, id, 0, to, size, &err));
	CHECK(memcmp(to, p, size) == 0);
	CHECK_CODE(store_content_read(s, id, 1, to, size, &err), CB_CORRUPT);
	free(to);
	free(p);
}

static inline void count_line(void *context, const char *line)
{
	test_note("complaint: %s", line);
	++*(int *)context;
}

static inline void check_clean(store *s)
{
	int lines = 0;
	CHECK_OK(store_check(s, count_line, &lines, &err));
	CHECK_U64(lines, 0);
}

static inline bool marked(void *context, bool is_node, uint64_t id)
{
	const uint64_t *keep = context;
	return id == keep[is_node];
}

/* One step with a content, every third a large one. */
static inline cb_code small_commit(store *s, uint64_t box, uint64_t seq, bool sync)
{
	cb_code code = store_write_begin(s, &err);
	if (code != CB_OK) return code;
	uint64_t state = 0, id = 0;
	static uint8_t large[100000];
	code = store_take(s, STORE_NEXT_STATE, 1, &state, &err);
	if (code == CB_OK) code = store_content_put(s, span_make(large, seq % 3 == 0 ? sizeof large : 1000), &id, &err);
	store_step p = {.box = box, .seq = seq, .state = state, .kind = "write", .who = "me"};
	if (code == CB_OK) code = store_step_put(s, &p, &err);
	store_head h = {.seq = seq, .state = state};
	if (code == CB_OK) code = store_head_set(s, box, &h, &err);
	if (code == CB_OK) return store_write_commit(s, sync, &err);
	store_write_abort(s);
	return code;
}

#endif
