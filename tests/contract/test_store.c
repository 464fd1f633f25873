/*
 * test_store.c: the contract of store.h, the same assertions over a store on disk, in memory, and on disk behind a fault plan with no
 * fault armed; then what only a disk can do: reopening, damage, foreign files, faults, fork.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "harness/harness.h"
#include "store/fault.h"
#include "store/store.h"

static cb_error err;

/* ---- helpers ---- */

static const char *folder(void)
{
	static char path[512];
	(void)snprintf(path, sizeof path, "%s/store", test_tmpdir());
	return path;
}

static const char *in_folder(const char *name)
{
	static char path[640];
	(void)snprintf(path, sizeof path, "%s/%s", folder(), name);
	return path;
}

static store *open_at(const char *path, store_fault_plan *plan)
{
	store *s = NULL;
	store_options o = {.path = path, .create = true, .faults = plan};
	CHECK_OK(store_open(&o, &s, &err));
	return s;
}

static void begin(store *s)
{
	CHECK_OK(store_write_begin(s, &err));
}

static void commit(store *s)
{
	CHECK_OK(store_write_commit(s, false, &err));
}

static uint64_t take(store *s, store_counter which)
{
	uint64_t n = 0;
	CHECK_OK(store_take(s, which, 1, &n, &err));
	return n;
}

static uint64_t box_make(store *s, const char *name)
{
	store_box b = {.id = take(s, STORE_NEXT_BOX), .created_ns = 42};
	(void)snprintf(b.name, sizeof b.name, "%s", name);
	CHECK_OK(store_box_insert(s, &b, &err));
	return b.id;
}

static uint64_t box_new(store *s, const char *name)
{
	begin(s);
	uint64_t id = box_make(s, name);
	commit(s);
	return id;
}

static void step_add(store *s, uint64_t box, uint64_t seq, const char *kind)
{
	store_step p = {.box = box, .seq = seq, .state = take(s, STORE_NEXT_STATE), .kind = kind, .who = "me", .has_changes = true, .changes = span_str("chg"), .weight = 1};
	CHECK_OK(store_step_put(s, &p, &err));
	store_head h = {.seq = seq, .state = p.state, .root_box = box, .weight = seq};
	CHECK_OK(store_head_set(s, box, &h, &err));
}

static uint8_t *pattern(size_t size, uint64_t seed)
{
	uint8_t *p = mem_alloc_aligned(size);
	CHECK(p);
	test_rng r = {seed * 2 + 1};
	for (size_t i = 0; i < size; i++) p[i] = (uint8_t)test_rand(&r);
	return p;
}

static uint64_t content_new(store *s, size_t size, uint64_t seed)
{
	uint8_t *p = pattern(size, seed);
	uint64_t id = 0;
	CHECK_OK(store_content_put(s, span_make(p, size), &id, &err));
	free(p);
	return id;
}

static void content_check(store *s, uint64_t id, size_t size, uint64_t seed)
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

static void count_line(void *context, const char *line)
{
	test_note("complaint: %s", line);
	++*(int *)context;
}

static void check_clean(store *s)
{
	int lines = 0;
	CHECK_OK(store_check(s, count_line, &lines, &err));
	CHECK_U64(lines, 0);
}

/* Each contract test runs over three stores. */
typedef void (*contract)(store *s);

static void over_all(contract f)
{
	store *s = open_at(NULL, NULL);
	f(s);
	check_clean(s);
	store_close(s);
	char path[600];
	(void)snprintf(path, sizeof path, "%s/disk", test_tmpdir());
	s = open_at(path, NULL);
	f(s);
	check_clean(s);
	store_close(s);
	store_fault_plan plan = {.record = true};
	(void)snprintf(path, sizeof path, "%s/fault", test_tmpdir());
	s = open_at(path, &plan);
	f(s);
	check_clean(s);
	store_close(s);
	store_fault_plan_done(&plan);
}

#define CONTRACT(name)                       \
	static void contract_##name(store *s); \
	TEST(name)                           \
	{                                    \
		over_all(contract_##name);   \
	}                                    \
	static void contract_##name(store *s)

/* ---- counters and transactions ---- */

CONTRACT(counters)
{
	begin(s);
	CHECK_U64(take(s, STORE_NEXT_STATE), 1);
	CHECK_U64(take(s, STORE_NEXT_INO), 16);
	uint64_t first = 0;
	CHECK_OK(store_take(s, STORE_NEXT_STATE, 10, &first, &err));
	CHECK_U64(first, 2);
	CHECK_CODE(store_take(s, STORE_NEXT_STATE, UINT64_MAX, &first, &err), CB_LIMIT);
	commit(s);
	begin(s);
	CHECK_U64(take(s, STORE_NEXT_STATE), 12);
	store_write_abort(s);
	begin(s);
	CHECK_U64(take(s, STORE_NEXT_STATE), 12);
	commit(s);
	uint64_t a = 0, b = 0, epoch = 0;
	CHECK_OK(store_ino_take(s, &a, &err));
	CHECK_OK(store_ino_take(s, &b, &err));
	CHECK_U64(b, a + 1);
	begin(s);
	uint64_t c = 0;
	CHECK_OK(store_ino_take(s, &c, &err));
	CHECK(c > b);
	commit(s);
	CHECK_OK(store_epoch(s, &epoch, &err));
	CHECK_U64(epoch, 1);
	CHECK_CODE(store_take(s, STORE_NEXT_STATE, 1, &a, &err), CB_INVALID);
}

CONTRACT(transactions_nest_only_reads)
{
	CHECK(!store_in_write(s));
	begin(s);
	CHECK(store_in_write(s));
	CHECK_CODE(store_write_begin(s, &err), CB_INVALID);
	CHECK_OK(store_read_begin(s, &err));
	CHECK_OK(store_read_begin(s, &err));
	uint64_t box = box_make(s, "a");
	store_read_end(s);
	store_read_end(s);
	CHECK(store_in_write(s));
	commit(s);
	CHECK_OK(store_read_begin(s, &err));
	CHECK_OK(store_read_begin(s, &err));
	CHECK_CODE(store_write_begin(s, &err), CB_INVALID);
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	store_read_end(s);
	store_read_end(s);
	store_write_abort(s); /* nothing open: nothing happens */
	CHECK_CODE(store_write_commit(s, false, &err), CB_INVALID);
	begin(s);
	CHECK_OK(store_write_commit(s, true, &err));
	CHECK_OK(store_sync(s, &err));
}

CONTRACT(abort_forgets)
{
	begin(s);
	uint64_t node = 0, other = 0;
	CHECK_OK(store_node_put(s, span_str("old"), &node, &err));
	uint64_t content = content_new(s, 100, 1), large = content_new(s, 100000, 2);
	blob *b = NULL;
	CHECK_OK(store_node_get(s, node, &b, &err));
	blob_unref(b);
	content_check(s, content, 100, 1);
	content_check(s, large, 100000, 2);
	(void)box_make(s, "a");
	store_write_abort(s);
	CHECK_CODE(store_node_get(s, node, &b, &err), CB_CORRUPT);
	CHECK_CODE(store_content_get(s, content, &b, &err), CB_CORRUPT);
	store_box box;
	CHECK_CODE(store_box_find(s, "a", &box, &err), CB_NOTFOUND);
	begin(s);
	CHECK_OK(store_node_put(s, span_str("new"), &other, &err));
	CHECK_U64(other, node);
	CHECK_U64(content_new(s, 100, 3), content);
	CHECK_U64(content_new(s, 100000, 4), large);
	commit(s);
	CHECK_OK(store_node_get(s, node, &b, &err));
	CHECK(span_equal(span_make(b->bytes, b->size), span_str("new")));
	blob_unref(b);
	content_check(s, content, 100, 3);
	content_check(s, large, 100000, 4);
}

CONTRACT(stamps)
{
	uint64_t box = box_new(s, "a"), other = box_new(s, "b"), stamp = 0, catalog = 0, quiet = 0;
	CHECK(!store_fresh(s, box, &stamp));
	CHECK(store_fresh(s, box, &stamp));
	CHECK(!store_fresh(s, 0, &catalog));
	CHECK(!store_fresh(s, other, &quiet));
	begin(s);
	step_add(s, box, 1, "write");
	CHECK(store_fresh(s, box, &stamp)); /* not committed yet */
	uint64_t after = store_stamp_after(s, box);
	commit(s);
	CHECK(!store_fresh(s, box, &stamp));
	CHECK_U64(stamp, after);
	CHECK(store_fresh(s, box, &after));
	CHECK(store_fresh(s, other, &quiet));
	CHECK(store_fresh(s, 0, &catalog));
	begin(s);
	CHECK_OK(store_setting_set(s, 0, "k", "v", &err));
	commit(s);
	CHECK(!store_fresh(s, 0, &catalog));
	begin(s);
	store_touch(s, other);
	store_write_abort(s);
	CHECK(store_fresh(s, other, &quiet));
	begin(s);
	store_touch(s, other);
	commit(s);
	CHECK(!store_fresh(s, other, &quiet));
}

/* ---- nodes and contents ---- */

CONTRACT(nodes)
{
	uint64_t ids[300];
	begin(s);
	for (size_t i = 0; i < 300; i++) {
		uint8_t *p = pattern(2000, i);
		CHECK_OK(store_node_put(s, span_make(p, 2000), &ids[i], &err));
		free(p);
	}
	uint64_t empty = 0;
	CHECK_OK(store_node_put(s, span_make(NULL, 0), &empty, &err));
	commit(s);
	for (size_t i = 0; i < 300; i++) {
		blob *b = NULL;
		uint8_t *p = pattern(2000, i);
		CHECK_OK(store_node_get(s, ids[i], &b, &err));
		CHECK(b->id == ids[i] && b->size == 2000 && memcmp(b->bytes, p, 2000) == 0);
		blob_unref(b);
		free(p);
	}
	blob *b = NULL;
	CHECK_OK(store_node_get(s, empty, &b, &err));
	CHECK_U64(b->size, 0);
	blob_unref(b);
	CHECK_CODE(store_node_get(s, 99999, &b, &err), CB_CORRUPT);
	CHECK_CODE(store_node_put(s, span_str("x"), ids, &err), CB_INVALID);
	store_stats st;
	CHECK_OK(store_stats_get(s, &st, &err));
	CHECK_U64(st.nodes, 301);
	CHECK_U64(st.node_bytes, 600000);
	CHECK(st.cache_hits >= 300 && st.cache_bytes > 600000);
}

CONTRACT(contents)
{
	static const size_t sizes[] = {1, 100, 32 << 10, (32 << 10) + 1, 1 << 20};
	uint64_t inside[5], outside[5];
	begin(s);
	for (size_t i = 0; i < 5; i++) inside[i] = content_new(s, sizes[i], i);
	content_check(s, inside[4], sizes[4], 4);
	commit(s);
	for (size_t i = 0; i < 5; i++) outside[i] = content_new(s, sizes[i], 10 + i);
	for (size_t i = 0; i < 5; i++) {
		content_check(s, inside[i], sizes[i], i);
		content_check(s, outside[i], sizes[i], 10 + i);
	}
	uint64_t id = 0;
	static uint8_t big[(1 << 20) + 1];
	CHECK_CODE(store_content_put(s, span_make(NULL, 0), &id, &err), CB_INVALID);
	CHECK_CODE(store_content_put(s, span_make(big, sizeof big), &id, &err), CB_INVALID);
	begin(s);
	CHECK_OK(store_content_touch(s, outside, 5, &err));
	id = 77777;
	CHECK_CODE(store_content_touch(s, &id, 1, &err), CB_STALE);
	commit(s);
	store_stats st;
	CHECK_OK(store_stats_get(s, &st, &err));
	CHECK_U64(st.contents, 10);
}

/* ---- boxes ---- */

static cb_code collect_box(void *context, const store_box *box, cb_error *e)
{
	(void)e;
	char *names = context;
	(void)strcat(names, box->name);
	(void)strcat(names, box->deleted ? "- " : " ");
	return strcmp(box->name, "stop") == 0 ? CB_INTERRUPTED : strcmp(box->name, "fail") == 0 ? CB_QUOTA : CB_OK;
}

CONTRACT(boxes)
{
	store_box b = {.created_ns = -5, .quota_bytes = UINT64_MAX, .quota_files = 2, .quota_file_bytes = 3, .keep_steps = 4, .keep_ns = 5,
	               .head = {1, 2, 3, 4, 5, 6}};
	(void)snprintf(b.name, sizeof b.name, "%064d", 7);
	begin(s);
	b.id = take(s, STORE_NEXT_BOX);
	(void)take(s, STORE_NEXT_STATE);
	(void)take(s, STORE_NEXT_STATE);
	b.head.root = 0;
	CHECK_OK(store_box_insert(s, &b, &err));
	CHECK_CODE(store_box_insert(s, &(store_box){.id = 0}, &err), CB_INVALID);
	store_box twin = b;
	twin.id = take(s, STORE_NEXT_BOX);
	CHECK_CODE(store_box_insert(s, &twin, &err), CB_EXISTS);
	commit(s);
	store_box got;
	CHECK_OK(store_box_find(s, b.name, &got, &err));
	CHECK(got.id == b.id && got.created_ns == -5 && got.quota_bytes == UINT64_MAX && got.quota_files == 2 && got.quota_file_bytes == 3);
	CHECK(got.keep_steps == 4 && got.keep_ns == 5 && !got.deleted && got.origin_box == 0);
	CHECK(memcmp(&got.head, &b.head, sizeof b.head) == 0);
	CHECK_OK(store_box_get(s, b.id, &got, &err));
	CHECK_STR(got.name, b.name);
	CHECK_CODE(store_box_find(s, "nobody", &got, &err), CB_NOTFOUND);
	CHECK_CODE(store_box_get(s, 999, &got, &err), CB_NOTFOUND);
	begin(s);
	b.deleted = true;
	b.head.seq = 100; /* not written by update */
	CHECK_OK(store_box_update(s, &b, &err));
	CHECK_OK(store_box_insert(s, &twin, &err)); /* the name is free again */
	CHECK_CODE(store_box_update(s, &(store_box){.id = 555}, &err), CB_NOTFOUND);
	CHECK_CODE(store_box_remove(s, 555, &err), CB_NOTFOUND);
	commit(s);
	CHECK_OK(store_box_get(s, b.id, &got, &err));
	CHECK(got.deleted && got.head.seq == 1);
	begin(s);
	CHECK_OK(store_setting_set(s, twin.id, "k", "v", &err));
	CHECK_OK(store_box_remove(s, twin.id, &err));
	commit(s);
	CHECK_CODE(store_box_get(s, twin.id, &got, &err), CB_NOTFOUND);
	store_head h;
	CHECK_CODE(store_head_get(s, twin.id, &h, &err), CB_NOTFOUND);
	CHECK_CODE(store_head_get(s, 0, &h, &err), CB_NOTFOUND);
	begin(s);
	CHECK_CODE(store_head_set(s, 0, &h, &err), CB_NOTFOUND);
	CHECK_CODE(store_head_set(s, 999, &h, &err), CB_NOTFOUND);
	h = (store_head){9, 1, 0, 3, 2, 1};
	CHECK_OK(store_head_set(s, b.id, &h, &err));
	commit(s);
	store_head again;
	CHECK_OK(store_head_get(s, b.id, &again, &err));
	CHECK(memcmp(&h, &again, sizeof h) == 0);
}

CONTRACT(box_lists)
{
	begin(s);
	(void)box_make(s, "c");
	uint64_t a = box_make(s, "a");
	store_box f = {.id = take(s, STORE_NEXT_BOX), .name = "b", .origin_box = a, .origin_seq = 1, .deleted = true};
	CHECK_OK(store_box_insert(s, &f, &err));
	store_box g = {.id = take(s, STORE_NEXT_BOX), .name = "g", .origin_box = a, .origin_seq = 1};
	CHECK_OK(store_box_insert(s, &g, &err));
	commit(s);
	char names[200] = "";
	CHECK_OK(store_box_list(s, false, collect_box, names, &err));
	CHECK_STR(names, "a c g ");
	names[0] = 0;
	CHECK_OK(store_box_list(s, true, collect_box, names, &err));
	CHECK_STR(names, "a b- c g ");
	names[0] = 0;
	CHECK_OK(store_box_forks(s, a, collect_box, names, &err));
	CHECK_STR(names, "g ");
	begin(s);
	step_add(s, f.id, 1, "write");
	(void)box_make(s, "stop");
	(void)box_make(s, "x");
	commit(s);
	names[0] = 0;
	CHECK_OK(store_box_forks(s, a, collect_box, names, &err));
	CHECK_STR(names, "b- g ");
	names[0] = 0;
	CHECK_OK(store_box_list(s, false, collect_box, names, &err));
	CHECK_STR(names, "a c g stop ");
	begin(s);
	(void)box_make(s, "fail");
	commit(s);
	names[0] = 0;
	CHECK_CODE(store_box_list(s, false, collect_box, names, &err), CB_QUOTA);
}

/* ---- steps ---- */

typedef struct seqs {
	store *s;
	char text[400];
	uint64_t box;
} seqs;

static cb_code collect_step(void *context, const store_step *p, cb_error *e)
{
	(void)e;
	seqs *q = context;
	(void)snprintf(q->text + strlen(q->text), 40, "%" PRIu64 "%s%s ", p->seq, p->has_root ? "r" : "", p->gap ? "g" : "");
	CHECK(p->has_changes);
	return p->seq == 7 ? CB_INTERRUPTED : CB_OK;
}

static cb_code compare_step(void *context, const store_step *p, cb_error *e)
{
	(void)e;
	const store_step *w = context;
	CHECK(p->box == w->box && p->seq == w->seq && p->state == w->state && p->weight == w->weight);
	CHECK_STR(p->kind, w->kind);
	CHECK_STR(p->who, w->who);
	CHECK(span_equal(p->params, w->params) && span_equal(p->result, w->result) && span_equal(p->changes, w->changes));
	CHECK(p->params_content == w->params_content && p->result_content == w->result_content);
	CHECK(p->started_ns == w->started_ns && p->ended_ns == w->ended_ns && p->target == w->target);
	CHECK(p->other_box == w->other_box && p->other_seq == w->other_seq && p->has_root == w->has_root && p->root == w->root);
	CHECK(p->has_changes == w->has_changes && p->gap == w->gap && p->epoch == 1);
	return CB_OK;
}

static cb_code fail_step(void *context, const store_step *p, cb_error *e)
{
	(void)context;
	(void)p;
	return cb_err_set(e, CB_CONFLICT, "asked to");
}

CONTRACT(steps)
{
	begin(s);
	uint64_t box = box_make(s, "a"), node = 0;
	uint64_t long_params = content_new(s, 3000, 5);
	CHECK_OK(store_node_put(s, span_str("root"), &node, &err));
	uint8_t *big = pattern(20000, 1);
	store_step w = {.box = box, .seq = 1, .state = take(s, STORE_NEXT_STATE), .kind = "exec", .who = "", .params = span_make("a\0b", 3),
	                .result = span_make(big, 900), .params_content = long_params, .started_ns = -1, .ended_ns = INT64_MAX, .target = 2, .other_box = 3,
	                .other_seq = 4, .has_root = true, .root = node, .has_changes = true, .changes = span_make(big, 20000), .weight = 5, .gap = true};
	CHECK_OK(store_step_put(s, &w, &err));
	CHECK_CODE(store_step_put(s, &w, &err), CB_EXISTS);
	store_step e = {.box = box, .seq = 2, .state = w.state, .kind = "k", .who = "w", .has_root = true};
	CHECK_OK(store_step_put(s, &e, &err));
	store_head h = {.seq = 2, .state = w.state};
	CHECK_OK(store_head_set(s, box, &h, &err));
	commit(s);
	CHECK_OK(store_step_get(s, box, 1, compare_step, &w, &err));
	CHECK_OK(store_step_get(s, box, 2, compare_step, &e, &err));
	CHECK_CODE(store_step_get(s, box, 3, compare_step, &e, &err), CB_NOTFOUND);
	CHECK_CODE(store_step_get(s, box, 1, fail_step, NULL, &err), CB_CONFLICT);
	CHECK_STR(err.message, "asked to");
	free(big);
}

CONTRACT(step_walks)
{
	uint64_t box = box_new(s, "a"), n = 0, seq = 0, root = 0, node = 0;
	begin(s);
	for (uint64_t i = 1; i <= 10; i++) step_add(s, box, i, "write");
	CHECK_OK(store_node_put(s, span_str("n"), &node, &err));
	CHECK_OK(store_step_root_set(s, box, 4, true, node, &err));
	CHECK_OK(store_step_root_set(s, box, 6, true, 0, &err));
	CHECK_OK(store_step_gap_set(s, box, 9, &err));
	CHECK_CODE(store_step_root_set(s, box, 40, true, 1, &err), CB_NOTFOUND);
	CHECK_CODE(store_step_gap_set(s, box, 40, &err), CB_NOTFOUND);
	commit(s);
	seqs q = {.s = s};
	CHECK_OK(store_step_walk(s, box, 3, 6, false, collect_step, &q, &err));
	CHECK_STR(q.text, "3 4r 5 6r ");
	q.text[0] = 0;
	CHECK_OK(store_step_walk(s, box, 0, UINT64_MAX, true, collect_step, &q, &err));
	CHECK_STR(q.text, "1 2 3 4r 5 6r 7 ");
	q.text[0] = 0;
	CHECK_OK(store_step_walk(s, box, UINT64_MAX, 8, true, collect_step, &q, &err));
	CHECK_STR(q.text, "10 9g 8 ");
	CHECK_CODE(store_step_walk(s, box, 1, 2, true, fail_step, NULL, &err), CB_CONFLICT);
	CHECK_OK(store_step_root_before(s, box, UINT64_MAX, &seq, &root, &err));
	CHECK(seq == 6 && root == 0);
	CHECK_OK(store_step_root_before(s, box, 5, &seq, &root, &err));
	CHECK(seq == 4 && root == node);
	CHECK_CODE(store_step_root_before(s, box, 3, &seq, &root, &err), CB_NOTFOUND);
	begin(s);
	CHECK_OK(store_step_root_set(s, box, 4, false, 0, &err));
	CHECK_OK(store_step_delete(s, box, 2, 3, &n, &err));
	CHECK_U64(n, 2);
	commit(s);
	CHECK_CODE(store_step_root_before(s, box, 5, &seq, &root, &err), CB_NOTFOUND);
	CHECK_OK(store_step_count(s, box, &n, &err));
	CHECK_U64(n, 8);
}

static cb_code nested_walk(void *context, const store_step *p, cb_error *e)
{
	seqs *q = context;
	seqs inner = {.s = q->s};
	cb_code code = store_step_walk(q->s, q->box, p->seq, 1, false, collect_step, &inner, e);
	(void)strcat(q->text, inner.text);
	(void)strcat(q->text, "| ");
	return code;
}

CONTRACT(walk_inside_walk)
{
	uint64_t box = box_new(s, "a");
	begin(s);
	for (uint64_t i = 1; i <= 3; i++) step_add(s, box, i, "write");
	commit(s);
	seqs q = {.s = s, .box = box};
	CHECK_OK(store_step_walk(s, box, 3, 1, false, nested_walk, &q, &err));
	CHECK_STR(q.text, "3 2 1 | 2 1 | 1 | ");
}

static cb_code collect_seq(void *context, uint64_t seq, cb_error *e)
{
	(void)e;
	char *text = context;
	(void)snprintf(text + strlen(text), 30, "%" PRIu64 " ", seq);
	return seq == 2 ? CB_INTERRUPTED : CB_OK;
}

CONTRACT(touched_files)
{
	uint64_t box = box_new(s, "a"), last = 9;
	CHECK_OK(store_touch_last(s, box, &last, &err));
	CHECK_U64(last, 0);
	CHECK_CODE(store_touch_last(s, 99, &last, &err), CB_NOTFOUND);
	begin(s);
	for (uint64_t i = 1; i <= 5; i++) {
		step_add(s, box, i, "write");
		CHECK_OK(store_touch_put(s, box, 20, i, &err));
	}
	CHECK_OK(store_touch_put(s, box, 20, 5, &err));
	CHECK_OK(store_touch_put(s, box, 21, 5, &err));
	CHECK_OK(store_touch_last_set(s, box, 5, &err));
	CHECK_CODE(store_touch_last_set(s, 99, 5, &err), CB_NOTFOUND);
	store_box b;
	CHECK_OK(store_box_get(s, box, &b, &err));
	CHECK_OK(store_box_update(s, &b, &err)); /* leaves it alone */
	commit(s);
	CHECK_OK(store_touch_last(s, box, &last, &err));
	CHECK_U64(last, 5);
	char text[100] = "";
	CHECK_OK(store_touch_walk(s, box, 20, UINT64_MAX, collect_seq, text, &err));
	CHECK_STR(text, "5 4 3 2 ");
	uint64_t n = 0;
	begin(s);
	CHECK_OK(store_step_delete(s, box, 1, 4, &n, &err));
	commit(s);
	text[0] = 0;
	CHECK_OK(store_touch_walk(s, box, 20, UINT64_MAX, collect_seq, text, &err));
	CHECK_STR(text, "5 ");
}

/* ---- checkpoints and settings ---- */

static cb_code collect_checkpoint(void *context, const store_checkpoint *c, cb_error *e)
{
	(void)e;
	(void)strcat(context, c->name);
	(void)strcat(context, " ");
	return CB_OK;
}

CONTRACT(checkpoints)
{
	begin(s);
	uint64_t box = box_make(s, "a");
	for (uint64_t i = 1; i <= 3; i++) step_add(s, box, i, "write");
	CHECK_OK(store_checkpoint_put(s, &(store_checkpoint){.box = box, .name = "z", .seq = 1, .created_ns = 9}, &err));
	CHECK_OK(store_checkpoint_put(s, &(store_checkpoint){.box = box, .name = "y", .seq = 3}, &err));
	CHECK_OK(store_checkpoint_put(s, &(store_checkpoint){.box = box, .name = "x", .seq = 3}, &err));
	CHECK_CODE(store_checkpoint_put(s, &(store_checkpoint){.box = box, .name = "z", .seq = 2}, &err), CB_EXISTS);
	commit(s);
	store_checkpoint c;
	CHECK_OK(store_checkpoint_get(s, box, "z", &c, &err));
	CHECK(c.seq == 1 && c.created_ns == 9 && c.box == box);
	CHECK_CODE(store_checkpoint_get(s, box, "q", &c, &err), CB_NOTFOUND);
	char names[100] = "";
	CHECK_OK(store_checkpoint_list(s, box, collect_checkpoint, names, &err));
	CHECK_STR(names, "z x y ");
	begin(s);
	CHECK_OK(store_checkpoint_delete(s, box, "z", &err));
	CHECK_CODE(store_checkpoint_delete(s, box, "z", &err), CB_NOTFOUND);
	commit(s);
	CHECK_CODE(store_checkpoint_get(s, box, "z", &c, &err), CB_NOTFOUND);
}

static cb_code collect_setting(void *context, const char *key, const char *value, cb_error *e)
{
	(void)e;
	char *text = context;
	(void)snprintf(text + strlen(text), 60, "%s=%s ", key, value);
	return CB_OK;
}

CONTRACT(settings)
{
	begin(s);
	uint64_t box = box_make(s, "a");
	CHECK_OK(store_setting_set(s, 0, "k", "store", &err));
	CHECK_OK(store_setting_set(s, box, "k", "box", &err));
	CHECK_OK(store_setting_set(s, box, "j", "1", &err));
	CHECK_OK(store_setting_set(s, box, "j", "2", &err));
	CHECK_OK(store_setting_set(s, box, "none", NULL, &err));
	commit(s);
	char *v = NULL, text[100] = "";
	CHECK_OK(store_setting_get(s, 0, "k", &v, &err));
	CHECK_STR(v, "store");
	free(v);
	CHECK_CODE(store_setting_get(s, 0, "j", &v, &err), CB_NOTFOUND);
	CHECK_OK(store_setting_list(s, box, collect_setting, text, &err));
	CHECK_STR(text, "j=2 k=box ");
	begin(s);
	CHECK_OK(store_setting_set(s, box, "j", NULL, &err));
	commit(s);
	CHECK_CODE(store_setting_get(s, box, "j", &v, &err), CB_NOTFOUND);
}

/* ---- gc ---- */

static bool marked(void *context, bool is_node, uint64_t id)
{
	const uint64_t *keep = context;
	return id == keep[is_node];
}

CONTRACT(gc)
{
	begin(s);
	uint64_t n1 = 0, n2 = 0;
	CHECK_OK(store_node_put(s, span_str("one"), &n1, &err));
	CHECK_OK(store_node_put(s, span_str("two"), &n2, &err));
	uint64_t c1 = content_new(s, 10, 1), c2 = content_new(s, 200000, 2), c3 = content_new(s, 200000, 3);
	commit(s);
	uint64_t keep[2] = {c2, n2}, horizon = 0, owner = 0, epoch = 0;
	CHECK_OK(store_owner_begin(s, &owner, &err));
	uint64_t mine = content_new(s, 300000, 4);
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_U64(horizon, 1); /* the owner holds it back */
	CHECK_CODE(store_gc_begin(s, &horizon, &err), CB_BUSY);
	store_gc_stats st = {0};
	CHECK_OK(store_gc_sweep(s, horizon, marked, keep, &st, &err));
	store_gc_end(s);
	CHECK(st.nodes_freed == 0 && st.contents_freed == 0 && st.contents_kept == 4);
	store_owner_end(s, owner);
	store_owner_end(s, owner);
	store_owner_end(s, 0);

	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_U64(horizon, 3);
	uint64_t young = content_new(s, 300000, 5);
	begin(s);
	CHECK_OK(store_content_touch(s, &c3, 1, &err)); /* taken up again while the gc runs */
	commit(s);
	CHECK_OK(store_gc_sweep(s, horizon, marked, keep, &st, &err));
	CHECK_U64(st.nodes_freed, 1);
	CHECK_U64(st.nodes_kept, 1);
	CHECK_U64(st.contents_freed, 2);
	CHECK_U64(st.contents_kept, 3);
	CHECK_U64(st.bytes_freed, 3 + 10 + 300000);
	store_gc_end(s);
	CHECK_CODE(store_gc_sweep(s, horizon, marked, keep, &st, &err), CB_INVALID);
	CHECK_OK(store_epoch(s, &epoch, &err));
	CHECK_U64(epoch, 3);
	content_check(s, c2, 200000, 2);
	content_check(s, c3, 200000, 3);
	content_check(s, young, 300000, 5);
	uint64_t size = 0;
	/* In memory it is in the table and so in the cache, where what was true stays true. */
	CHECK_CODE(store_content_size(s, mine, &size, &err), store_path(s) ? CB_STALE : CB_OK);
	begin(s);
	CHECK_CODE(store_content_touch(s, &c1, 1, &err), CB_STALE);
	store_write_abort(s);
	CHECK_OK(store_vacuum(s, &err));
	content_check(s, c2, 200000, 2);
	content_check(s, young, 300000, 5);
}

/* A content that was read, so that its place is known, and then swept, must not read as the zeros of its freed range. */
CONTRACT(swept_content_is_stale)
{
	begin(s);
	uint64_t a = content_new(s, 500000, 1), b = content_new(s, 500000, 2);
	commit(s);
	content_check(s, a, 500000, 1);
	content_check(s, b, 500000, 2);
	uint64_t keep[2] = {b, 0}, horizon = 0;
	store_gc_stats st;
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_OK(store_gc_sweep(s, horizon, marked, keep, &st, &err));
	store_gc_end(s);
	if (store_path(s)) {
		char byte = 1;
		CHECK_CODE(store_content_read(s, a, 5, &byte, 1, &err), CB_STALE);
	}
	content_check(s, b, 500000, 2);
}

/* ---- reopening ---- */

TEST(reopen_keeps_everything)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	for (uint64_t i = 1; i <= 50; i++) step_add(s, box, i, "write");
	uint64_t small = content_new(s, 500, 1), large = content_new(s, 500000, 2);
	commit(s);
	store_close(s);
	CHECK_CODE(access(in_folder("cowbox.db-wal"), F_OK) == 0, 0);
	s = open_at(folder(), NULL);
	content_check(s, small, 500, 1);
	content_check(s, large, 500000, 2);
	uint64_t n = 0;
	CHECK_OK(store_step_count(s, box, &n, &err));
	CHECK_U64(n, 50);
	begin(s);
	CHECK_U64(take(s, STORE_NEXT_STATE), 51);
	commit(s);
	check_clean(s);
	store_close(s);
	store_close(NULL);
}

TEST(modes_do_not_depend_on_umask)
{
	(void)umask(0);
	store *s = open_at(folder(), NULL);
	begin(s);
	(void)content_new(s, 100000, 1);
	commit(s);
	static const char *const names[] = {"cowbox.db", "cowbox.db-wal", "cowbox.db-shm", "locks", "live", "seg/000001.seg"};
	struct stat st;
	for (size_t i = 0; i < 6; i++) {
		CHECK_MSG(stat(in_folder(names[i]), &st) == 0, "%s", names[i]);
		CHECK_MSG((st.st_mode & 0777) == 0600, "%s %o", names[i], st.st_mode);
	}
	CHECK(stat(in_folder("seg"), &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(stat(folder(), &st) == 0 && (st.st_mode & 0777) == 0700);
	store_close(s);
}

TEST(short_lived_handles_share_a_segment)
{
	for (uint64_t i = 0; i < 5; i++) {
		store *s = open_at(folder(), NULL);
		CHECK_U64(content_new(s, 100000, i), i + 1);
		store_close(s);
	}
	store *s = open_at(folder(), NULL), *t = open_at(folder(), NULL);
	for (uint64_t i = 0; i < 5; i++) content_check(s, i + 1, 100000, i);
	store_stats st;
	CHECK_OK(store_stats_get(s, &st, &err));
	CHECK_U64(st.segments, 1);
	(void)content_new(s, 100000, 9);
	(void)content_new(t, 100000, 9); /* two at once do not */
	CHECK_OK(store_stats_get(s, &st, &err));
	CHECK_U64(st.segments, 2);
	store_close(s);
	store_close(t);
}

TEST(another_boot_skips_numbers)
{
	store *s = open_at(folder(), NULL);
	begin(s);
	uint64_t before = take(s, STORE_NEXT_STATE);
	commit(s);
	store_close(s);
	sqlite3 *db = NULL;
	CHECK(sqlite3_open(in_folder("cowbox.db"), &db) == SQLITE_OK);
	CHECK(sqlite3_exec(db, "UPDATE meta SET value='other' WHERE key='boot_id'", NULL, NULL, NULL) == SQLITE_OK);
	(void)sqlite3_close(db);
	for (int i = 0; i < 2; i++) { /* once per boot, not per open */
		s = open_at(folder(), NULL);
		begin(s);
		CHECK_U64(take(s, STORE_NEXT_STATE), before + 1 + (1 << 20) + (uint64_t)i);
		commit(s);
		store_close(s);
	}
}

TEST(backup_is_a_store)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	uint64_t small = content_new(s, 500, 1), large = content_new(s, 500000, 2);
	step_add(s, box, 1, "write");
	commit(s);
	char to[600];
	(void)snprintf(to, sizeof to, "%s/copy", test_tmpdir());
	CHECK_OK(store_backup(s, to, &err));
	CHECK_CODE(store_backup(s, to, &err), CB_EXISTS);
	begin(s);
	step_add(s, box, 2, "write");
	commit(s);
	store_close(s);
	s = open_at(to, NULL);
	content_check(s, small, 500, 1);
	content_check(s, large, 500000, 2);
	uint64_t n = 0;
	CHECK_OK(store_step_count(s, box, &n, &err));
	CHECK_U64(n, 1);
	check_clean(s);
	store_close(s);
	s = open_at(NULL, NULL);
	large = content_new(s, 500000, 7);
	(void)snprintf(to, sizeof to, "%s/from-memory", test_tmpdir());
	CHECK_OK(store_backup(s, to, &err));
	store_close(s);
	s = open_at(to, NULL);
	content_check(s, large, 500000, 7);
	store_close(s);
}

TEST(vacuum_moves_live_contents_under_readers)
{
	store *s = open_at(folder(), NULL), *reader = open_at(folder(), NULL);
	uint64_t ids[10];
	for (uint64_t i = 0; i < 10; i++) ids[i] = content_new(s, 200000, i);
	content_check(reader, ids[3], 200000, 3);
	uint64_t keep[2] = {ids[3], 0}, horizon = 0;
	store_gc_stats st;
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_CODE(store_vacuum(reader, &err), CB_BUSY);
	CHECK_OK(store_gc_sweep(s, horizon, marked, keep, &st, &err));
	store_gc_end(s);
	CHECK_U64(st.contents_freed, 9);
	CHECK_OK(store_vacuum(s, &err));
	CHECK(access(in_folder("seg/000001.seg"), F_OK) != 0);
	content_check(reader, ids[3], 200000, 3);
	content_check(s, ids[3], 200000, 3);
	store_stats stats;
	CHECK_OK(store_stats_get(s, &stats, &err));
	CHECK(stats.segments == 1 && stats.segment_bytes < 300000);
	check_clean(s);
	store_close(reader);
	store_close(s);
	s = open_at(folder(), NULL);
	content_check(s, ids[3], 200000, 3);
	store_close(s);
}

/* ---- folders and files that are not a store of ours ---- */

static cb_code try_open(const char *path, bool create, bool read_only)
{
	store *s = NULL;
	store_options o = {.path = path, .create = create, .read_only = read_only};
	cb_code code = store_open(&o, &s, &err);
	store_close(s);
	if (code != CB_OK) CHECK_MSG(err.message[0] && !strchr(err.message, '\n'), "'%s'", err.message);
	return code;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void sql(const char *text)
{
	sqlite3 *db = NULL;
	CHECK(sqlite3_open(in_folder("cowbox.db"), &db) == SQLITE_OK);
	char *message = NULL;
	CHECK_MSG(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK, "%s: %s", text, message);
	(void)sqlite3_close(db);
}

TEST(folders_that_are_refused)
{
	CHECK_CODE(try_open(folder(), false, false), CB_NOTFOUND);
	CHECK_CODE(try_open(folder(), true, true), CB_NOTFOUND);
	write_file(folder(), "a file");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(unlink(folder()) == 0 && mkdir(folder(), 0700) == 0);
	CHECK_CODE(try_open(folder(), false, false), CB_NOTFOUND);
	write_file(in_folder("notes.txt"), "mine");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(unlink(in_folder("notes.txt")) == 0);
	CHECK(chmod(folder(), 0755) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_DENIED);
	CHECK(chmod(folder(), 0707) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_DENIED);
	CHECK(chmod(folder(), 0700) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_OK);
	CHECK_CODE(try_open(folder(), false, false), CB_OK);
	if (geteuid() == 0) {
		CHECK(chown(folder(), 65534, 65534) == 0);
		CHECK_CODE(try_open(folder(), false, false), CB_DENIED);
	}
}

TEST(databases_that_are_refused)
{
	CHECK(mkdir(folder(), 0700) == 0);
	write_file(in_folder("cowbox.db"), "this is not a database at all");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(strstr(err.message, "cowbox.db"));
	CHECK(unlink(in_folder("cowbox.db")) == 0);
	sql("CREATE TABLE t(a)");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	sql("PRAGMA application_id=77");
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
	CHECK(unlink(in_folder("cowbox.db")) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_OK);
	sql("PRAGMA user_version=2");
	CHECK_CODE(try_open(folder(), true, false), CB_NEWER);
	CHECK_CODE(try_open(folder(), false, true), CB_NEWER);
	sql("PRAGMA user_version=1");
	CHECK_CODE(try_open(folder(), true, false), CB_OK);
	sql("DELETE FROM head");
	CHECK_CODE(try_open(folder(), true, false), CB_CORRUPT);
	CHECK(unlink(in_folder("cowbox.db")) == 0 && mkdir(in_folder("cowbox.db"), 0700) == 0);
	CHECK_CODE(try_open(folder(), true, false), CB_FOREIGN);
}

TEST(read_only)
{
	store *s = open_at(folder(), NULL);
	uint64_t large = content_new(s, 100000, 1), small = content_new(s, 10, 2), horizon = 0;
	store *r = NULL;
	store_options o = {.path = folder(), .read_only = true};
	for (int i = 0; i < 2; i++) {
		CHECK_OK(store_open(&o, &r, &err));
		CHECK(store_is_read_only(r));
		content_check(r, large, 100000, 1);
		content_check(r, small, 10, 2);
		CHECK_CODE(store_write_begin(r, &err), CB_READONLY);
		CHECK_CODE(store_content_put(r, span_str("x"), &small, &err), CB_READONLY);
		CHECK_CODE(store_gc_begin(r, &horizon, &err), CB_READONLY);
		CHECK_CODE(store_ino_take(r, &horizon, &err), CB_READONLY);
		CHECK_OK(store_sync(r, &err));
		uint64_t stamp = 0, box = i == 0 ? box_new(s, "a") : 1;
		(void)store_fresh(r, box, &stamp);
		CHECK(store_fresh(r, box, &stamp));
		store_close(r);
		if (i == 0) store_close(s); /* the second time alone */
	}
}

TEST(live_file_may_be_garbage)
{
	store_close(open_at(folder(), NULL));
	write_file(in_folder("live"), "short");
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a"), stamp = 0;
	(void)store_fresh(s, box, &stamp);
	CHECK(store_fresh(s, box, &stamp));
	store_close(s);
	CHECK(unlink(in_folder("live")) == 0 && mkdir(in_folder("live"), 0700) == 0);
	s = open_at(folder(), NULL);
	CHECK(!store_fresh(s, box, &stamp));
	CHECK(!store_fresh(s, box, &stamp)); /* never fresh, but it works */
	(void)box_new(s, "b");
	(void)content_new(s, 100000, 1);
	store_close(s);
}

/* ---- damage ---- */

static void expect_damage(uint64_t node, uint64_t content)
{
	store *s = open_at(folder(), NULL);
	blob *b = NULL;
	if (node) CHECK_CODE(store_node_get(s, node, &b, &err), CB_CORRUPT);
	char byte;
	if (content) CHECK_CODE(store_content_get(s, content, &b, &err), CB_CORRUPT);
	if (content) CHECK_CODE(store_content_read(s, content, 0, &byte, 1, &err), CB_CORRUPT);
	int lines = 0;
	CHECK_OK(store_check(s, count_line, &lines, &err));
	CHECK(lines > 0);
	store_close(s);
}

TEST(damaged_rows)
{
	store *s = open_at(folder(), NULL);
	begin(s);
	uint64_t node = 0;
	CHECK_OK(store_node_put(s, span_str("hello"), &node, &err));
	uint64_t content = content_new(s, 100, 1);
	commit(s);
	store_close(s);
	sql("UPDATE node SET data=x'00112233'");
	expect_damage(node, 0);
	sql("UPDATE content SET data=zeroblob(100)");
	expect_damage(node, content);
	sql("UPDATE content SET size=99");
	expect_damage(0, content);
	sql("UPDATE content SET segment=4");
	expect_damage(0, content);
	sql("UPDATE content SET offset=9223372036854775807");
	expect_damage(0, content);
	sql("DELETE FROM content; DELETE FROM node; UPDATE head SET root=1, epoch=0 WHERE box=0");
	CHECK_CODE(try_open(folder(), false, false), CB_CORRUPT);
}

TEST(damaged_segment)
{
	store *s = open_at(folder(), NULL);
	uint64_t content = content_new(s, 100000, 1);
	store_close(s);
	FILE *f = fopen(in_folder("seg/000001.seg"), "r+");
	CHECK(f && fseek(f, 5000, SEEK_SET) == 0 && fputc('!', f) != EOF && fclose(f) == 0);
	expect_damage(0, content);
	CHECK(strstr(err.message, "segment 000001"));
	CHECK(truncate(in_folder("seg/000001.seg"), 50000) == 0);
	expect_damage(0, content);
	CHECK(truncate(in_folder("seg/000001.seg"), 10) == 0);
	expect_damage(0, content);
	CHECK(unlink(in_folder("seg/000001.seg")) == 0);
	expect_damage(0, content);
}

TEST(check_finds_orphans)
{
	store *s = open_at(folder(), NULL);
	(void)box_new(s, "a");
	store_close(s);
	static const char *const harm[] = {
		"INSERT INTO step SELECT 50,1,1,1,NULL,0,0,'k','w',0,0,0,0,0,0,0,x'',x'',NULL",
		"INSERT INTO touch VALUES(51,1,1)",
		"INSERT INTO checkpoint VALUES(1,'c',9,0)",
		"INSERT INTO setting VALUES(52,'k','v')",
		"INSERT INTO node VALUES(1000,1,0,x'')",
		"INSERT INTO content VALUES(1,9,0,1,0,0,x'00')",
		"UPDATE head SET root=77 WHERE box=1",
		"DELETE FROM head WHERE box=1",
	};
	int before = 0;
	for (size_t i = 0; i < sizeof harm / sizeof harm[0]; i++) {
		sql(harm[i]);
		s = open_at(folder(), NULL);
		int lines = 0;
		CHECK_OK(store_check(s, count_line, &lines, &err));
		CHECK_MSG(lines > before || i == 7, "%s", harm[i]);
		before = lines;
		store_close(s);
	}
}

static void count_quietly(void *context, const char *line)
{
	CHECK(line[0] && !strchr(line, '\n'));
	++*(int *)context;
}

/* Random bytes anywhere in the database: errors, never a crash. */
TEST_LIMIT(random_damage, 120)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	for (uint64_t i = 1; i <= 40; i++) {
		step_add(s, box, i, "write");
		(void)content_new(s, 700, i);
		uint64_t node = 0;
		CHECK_OK(store_node_put(s, span_str("nodenodenode"), &node, &err));
	}
	commit(s);
	store_close(s);
	test_rng r = {test_seed() | 1};
	char copy[1400];
	(void)snprintf(copy, sizeof copy, "cp %s %s/original", in_folder("cowbox.db"), test_tmpdir());
	CHECK(system(copy) == 0);
	struct stat st;
	CHECK(stat(in_folder("cowbox.db"), &st) == 0);
	for (unsigned round = 0; round < 60 * test_soak(); round++) {
		(void)snprintf(copy, sizeof copy, "cp %s/original %s; rm -f %s-wal", test_tmpdir(), in_folder("cowbox.db"), in_folder("cowbox.db"));
		CHECK(system(copy) == 0);
		FILE *f = fopen(in_folder("cowbox.db"), "r+");
		CHECK(f);
		for (int i = 0; i < 20; i++) {
			(void)fseek(f, (long)test_rand_below(&r, (uint64_t)st.st_size), SEEK_SET);
			(void)fputc((int)test_rand_below(&r, 256), f);
		}
		CHECK(fclose(f) == 0);
		store_options o = {.path = folder()};
		s = NULL;
		if (store_open(&o, &s, &err) != CB_OK) continue;
		blob *b = NULL;
		seqs q = {.s = s};
		for (uint64_t i = 1; i <= 40; i++) {
			if (store_node_get(s, i, &b, &err) == CB_OK) blob_unref(b);
			if (store_content_get(s, i, &b, &err) == CB_OK) blob_unref(b);
		}
		(void)store_step_walk(s, box, 1, 6, true, fail_step, &q, &err);
		if (store_write_begin(s, &err) == CB_OK) {
			uint64_t id = 0;
			(void)store_content_put(s, span_str("x"), &id, &err);
			(void)store_write_commit(s, true, &err);
		}
		int lines = 0;
		(void)store_check(s, count_quietly, &lines, &err);
		store_close(s);
	}
}

/* ---- faults ---- */

static cb_code small_commit(store *s, uint64_t box, uint64_t seq, bool sync)
{
	cb_code code = store_write_begin(s, &err);
	if (code != CB_OK) return code;
	uint64_t state = 0, id = 0;
	static uint8_t large[50000];
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

/* Runs ten commits; returns how many were acknowledged. */
static uint64_t run_commits(store *s, uint64_t box, bool sync, bool *out_failed)
{
	uint64_t acknowledged = 0;
	*out_failed = false;
	store_head h;
	for (int i = 0; i < 10; i++) {
		CHECK_OK(store_head_get(s, box, &h, &err));
		cb_code code = small_commit(s, box, h.seq + 1, sync);
		if (code == CB_OK) acknowledged = h.seq + 1;
		else *out_failed = true;
		if (code != CB_OK) CHECK_MSG(code == CB_IO || code == CB_NOSPACE, "%s: %s", cb_code_name(code), err.message);
	}
	return acknowledged;
}

static void fail_each(store_fault_op op, int error, bool lasting, bool sync)
{
	char path[600];
	long total = 1;
	for (long n = 1; n <= total; n++) {
		(void)snprintf(path, sizeof path, "%s/f%d-%d-%d-%ld", test_tmpdir(), (int)op, error, lasting, n);
		store_fault_plan plan = {.record = false};
		store *s = open_at(path, &plan);
		uint64_t box = box_new(s, "a");
		long before = atomic_load(&plan.op[op].seen);
		plan.op[op].error = error;
		plan.op[op].lasting = lasting;
		atomic_store(&plan.op[op].fail_at, n);
		bool failed = false;
		uint64_t acknowledged = run_commits(s, box, sync, &failed);
		if (n == 1) total = atomic_load(&plan.op[op].seen) - before;
		atomic_store(&plan.op[op].fail_at, 0);
		store_head h;
		CHECK_OK(store_head_get(s, box, &h, &err));
		store_close(s);
		s = open_at(path, NULL);
		CHECK_OK(store_head_get(s, box, &h, &err));
		CHECK(h.seq >= acknowledged);
		CHECK_OK(small_commit(s, box, h.seq + 1, true));
		check_clean(s);
		store_close(s);
		store_fault_plan_done(&plan);
		if (total > 40) total = 40;
	}
}

TEST_LIMIT(each_write_fails_once, 120)
{
	fail_each(STORE_FAULT_WRITE, EIO, false, false);
}

TEST_LIMIT(disk_full_from_each_write, 120)
{
	fail_each(STORE_FAULT_WRITE, ENOSPC, true, false);
}

TEST_LIMIT(each_flush_fails_once, 120)
{
	fail_each(STORE_FAULT_FLUSH, EIO, false, true);
}

TEST_LIMIT(each_flush_fails_from_then_on, 120)
{
	fail_each(STORE_FAULT_FLUSH, EIO, true, true);
}

TEST(full_disk_is_named)
{
	store_fault_plan plan = {.record = false};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a");
	plan.op[STORE_FAULT_WRITE].error = ENOSPC;
	plan.op[STORE_FAULT_WRITE].lasting = true;
	atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 1);
	CHECK_CODE(small_commit(s, box, 1, false), CB_NOSPACE);
	CHECK_CODE(small_commit(s, box, 3, false), CB_NOSPACE);
	atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 0);
	CHECK_CODE(small_commit(s, box, 1, false), CB_OK);
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(failed_flush_stops_writes_until_reopened)
{
	store_fault_plan plan = {.record = false};
	store *s = open_at(folder(), &plan), *other = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a");
	plan.op[STORE_FAULT_FLUSH].error = EIO;
	atomic_store(&plan.op[STORE_FAULT_FLUSH].fail_at, 1);
	CHECK_CODE(small_commit(s, box, 1, true), CB_IO);
	CHECK_CODE(small_commit(s, box, 2, true), CB_IO);
	CHECK(strstr(err.message, "reopen"));
	CHECK_CODE(store_sync(s, &err), CB_IO);
	CHECK_CODE(small_commit(other, box, 2, false), CB_IO); /* other processes too */
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	store_close(s);
	s = open_at(folder(), NULL);
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_CODE(small_commit(s, box, h.seq + 1, true), CB_OK);
	CHECK_CODE(small_commit(other, box, h.seq + 2, true), CB_OK);
	store_close(other);
	check_clean(s);
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(failed_segment_flush_aborts_only)
{
	store_fault_plan plan = {.record = false};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a");
	CHECK_CODE(small_commit(s, box, 3, false), CB_OK);
	plan.op[STORE_FAULT_FLUSH].error = EIO;
	atomic_store(&plan.op[STORE_FAULT_FLUSH].fail_at, 1);
	CHECK_CODE(small_commit(s, box, 6, false), CB_IO);
	CHECK_CODE(small_commit(s, box, 6, false), CB_OK);
	CHECK(access(in_folder("seg/000002.seg"), F_OK) == 0); /* the first is not trusted again */
	check_clean(s);
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(a_synced_commit_flushes_the_log)
{
	store_fault_plan plan = {.record = true};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a");
	uint64_t before = store_fault_flushes(&plan, "-wal");
	CHECK_CODE(small_commit(s, box, 1, false), CB_OK);
	CHECK_U64(store_fault_flushes(&plan, "-wal"), before);
	CHECK_CODE(small_commit(s, box, 2, true), CB_OK);
	CHECK_U64(store_fault_flushes(&plan, "-wal"), before + 1);
	CHECK_U64(store_fault_flushes(&plan, ".seg"), 0);
	CHECK_CODE(small_commit(s, box, 3, false), CB_OK);
	CHECK_U64(store_fault_flushes(&plan, ".seg"), 1);
	CHECK_U64(store_fault_flushes(&plan, "-wal"), before + 1);
	store_close(s);
	store_fault_plan_done(&plan);
}

static uint64_t dice(void *context, uint64_t n)
{
	return test_rand_below(context, n);
}

/* The recorder itself: every synced commit is in every image, and each image is sound. */
TEST_LIMIT(power_cuts_keep_synced_commits, 120)
{
	test_rng r = {test_seed() | 1};
	store_fault_plan plan = {.record = true};
	store *s = open_at(folder(), &plan);
	uint64_t box = box_new(s, "a"), synced = 0;
	CHECK_OK(store_sync(s, &err));
	for (uint64_t i = 1; i <= 40; i++) {
		bool sync = test_rand_below(&r, 3) == 0;
		CHECK_CODE(small_commit(s, box, i, sync), CB_OK);
		if (sync) synced = i;
		char to[600];
		(void)snprintf(to, sizeof to, "%s/cut%" PRIu64, test_tmpdir(), i);
		CHECK_OK(store_fault_cut(&plan, NULL, dice, &r, to, &err));
		store *image = open_at(to, NULL);
		store_head h;
		CHECK_OK(store_head_get(image, box, &h, &err));
		CHECK_MSG(h.seq >= synced && h.seq <= i, "%" PRIu64 " of %" PRIu64 ", %" PRIu64 " synced", h.seq, i, synced);
		check_clean(image);
		store_close(image);
	}
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST_LIMIT(each_allocation_fails, 120)
{
	for (int disk = 0; disk < 2; disk++) {
		for (long n = 1; n < 400; n++) {
			store *s = NULL;
			store_options o = {.path = disk ? folder() : NULL, .create = true};
			mem_fail_after(n);
			cb_code code = store_open(&o, &s, &err);
			uint64_t id = 0, owner = 0;
			if (code == CB_OK) code = store_content_put(s, span_str("hello"), &id, &err);
			static uint8_t large[40000];
			if (code == CB_OK) code = store_content_put(s, span_make(large, sizeof large), &id, &err);
			blob *b = NULL;
			if (code == CB_OK) code = store_content_get(s, id, &b, &err);
			blob_unref(b);
			if (code == CB_OK) code = store_owner_begin(s, &owner, &err);
			char *value = NULL;
			if (code == CB_OK) code = store_setting_get(s, 0, "none", &value, &err);
			mem_fail_after(0);
			CHECK_MSG(code == CB_NOMEM || code == CB_NOTFOUND, "allocation %ld: %s", n, err.message);
			store_close(s);
			if (code == CB_NOTFOUND) break;
			CHECK(n < 399);
		}
	}
	store *s = open_at(folder(), NULL);
	check_clean(s);
	store_close(s);
}

/* ---- fork ---- */

static void child_must_succeed(pid_t child)
{
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with %d", status);
}

#define IN_CHILD(cond)                                                                 \
	do {                                                                           \
		if (!(cond)) {                                                         \
			(void)fprintf(stderr, "# child: %s (%s)\n", #cond, err.message); \
			_exit(1);                                                      \
		}                                                                      \
	} while (0)

TEST(fork_child_reopens)
{
	store *s = open_at(folder(), NULL);
	uint64_t box = box_new(s, "a"), ino = 0, owner = 0;
	CHECK_CODE(small_commit(s, box, 1, false), CB_OK);
	CHECK_OK(store_ino_take(s, &ino, &err));
	CHECK_OK(store_owner_begin(s, &owner, &err));
	(void)content_new(s, 100000, 1);
	int ready[2], gone[2];
	CHECK(pipe(ready) == 0 && pipe(gone) == 0);
	pid_t child = fork();
	if (child == 0) {
		uint64_t theirs = 0;
		IN_CHILD(small_commit(s, box, 2, false) == CB_OK);
		IN_CHILD(store_ino_take(s, &theirs, &err) == CB_OK && theirs > ino + 1);
		IN_CHILD(store_content_put(s, span_make(pattern(100000, 2), 100000), &theirs, &err) == CB_OK);
		store_owner_end(s, owner); /* not ours: nothing happens */
		IN_CHILD(write(ready[1], "x", 1) == 1);
		char byte;
		IN_CHILD(read(gone[0], &byte, 1) == 1);
		/* The parent closed the store: our connection must be a user of its own right. */
		for (uint64_t i = 3; i < 50; i++) IN_CHILD(small_commit(s, box, i, false) == CB_OK);
		store_close(s);
		_exit(0);
	}
	char byte;
	CHECK(read(ready[0], &byte, 1) == 1);
	store_head h;
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_U64(h.seq, 2);
	uint64_t horizon = 0;
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_U64(horizon, 1); /* the owner lives */
	store_gc_end(s);
	store_owner_end(s, owner);
	store_close(s);
	s = open_at(folder(), NULL);
	store_close(s);
	CHECK(write(gone[1], "x", 1) == 1);
	child_must_succeed(child);
	s = open_at(folder(), NULL);
	CHECK_OK(store_head_get(s, box, &h, &err));
	CHECK_U64(h.seq, 49);
	check_clean(s);
	store_close(s);
}

TEST(fork_inside_transactions)
{
	store *s = open_at(folder(), NULL), *m = open_at(NULL, NULL);
	uint64_t box = box_new(s, "a");
	begin(s);
	pid_t child = fork();
	if (child == 0) {
		store_head h;
		store *again = NULL;
		store_options o = {.path = folder()};
		IN_CHILD(store_write_commit(s, false, &err) == CB_FORKED);
		store_write_abort(s);
		IN_CHILD(store_head_get(s, box, &h, &err) == CB_FORKED);
		IN_CHILD(store_open(&o, &again, &err) == CB_FORKED);
		IN_CHILD(store_head_get(m, box, &h, &err) == CB_FORKED);
		store_close(s);
		store_close(m);
		_exit(0);
	}
	child_must_succeed(child);
	step_add(s, box, 1, "write");
	commit(s);
	CHECK_OK(store_read_begin(s, &err));
	child = fork();
	if (child == 0) {
		store_head h;
		IN_CHILD(store_head_get(s, box, &h, &err) == CB_FORKED);
		store_read_end(s);
		IN_CHILD(store_head_get(s, box, &h, &err) == CB_OK && h.seq == 1);
		store_close(s);
		_exit(0);
	}
	child_must_succeed(child);
	store_read_end(s);
	store_close(s);
	store_close(m);
}

/* The locks of a killed parent must not live on in a child that merely exists. */
TEST(idle_child_holds_no_lock)
{
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	pid_t parent = fork();
	if (parent == 0) {
		store *s = open_at(folder(), NULL);
		uint64_t owner = 0;
		IN_CHILD(store_owner_begin(s, &owner, &err) == CB_OK);
		begin(s);
		if (fork() == 0) {
			IN_CHILD(write(pipes[1], "x", 1) == 1);
			(void)sleep(20);
			_exit(0);
		}
		(void)sleep(20);
		_exit(0);
	}
	char byte;
	CHECK(read(pipes[0], &byte, 1) == 1);
	CHECK(kill(parent, SIGKILL) == 0 && waitpid(parent, NULL, 0) == parent);
	store *s = NULL;
	store_options o = {.path = folder(), .lock_timeout_ms = 2000};
	CHECK_OK(store_open(&o, &s, &err));
	begin(s);
	commit(s);
	uint64_t horizon = 0;
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_U64(horizon, 2);
	store_gc_stats st;
	uint64_t keep[2] = {0, 0};
	CHECK_OK(store_gc_sweep(s, horizon, marked, keep, &st, &err));
	CHECK_U64(st.owners_dead, 1);
	store_gc_end(s);
	store_close(s);
}
