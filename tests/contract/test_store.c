/*
 * test_store.c: the contract of store.h, the same assertions over a store on disk, in memory, and on disk behind a fault plan with no
 * fault armed. test_store_disk.c and test_store_fault.c have what only a disk can do.
 */
#include "contract/test_store_kit.h"

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

#define CONTRACT(name)                         \
	static void contract_##name(store *s); \
	TEST(name)                             \
	{                                      \
		over_all(contract_##name);     \
	}                                      \
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
	static const size_t sizes[] = {1, 100, LIMIT_CONTENT_TABLE_BYTES, LIMIT_CONTENT_TABLE_BYTES + 1, 1 << 20};
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
	store_box b = {.created_ns = -5,
	               .quota_bytes = UINT64_MAX,
	               .quota_files = 2,
	               .quota_file_bytes = 3,
	               .keep_steps = 4,
	               .keep_ns = 5,
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
	CHECK(got.id == b.id && got.created_ns == -5 && got.quota_bytes == UINT64_MAX && got.quota_files == 2 &&
	      got.quota_file_bytes == 3);
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
	store_step w = {.box = box,
	                .seq = 1,
	                .state = take(s, STORE_NEXT_STATE),
	                .kind = "exec",
	                .who = "",
	                .params = span_make("a\0b", 3),
	                .result = span_make(big, 900),
	                .params_content = long_params,
	                .started_ns = -1,
	                .ended_ns = INT64_MAX,
	                .target = 2,
	                .other_box = 3,
	                .other_seq = 4,
	                .has_root = true,
	                .root = node,
	                .has_changes = true,
	                .changes = span_make(big, 20000),
	                .weight = 5,
	                .gap = true};
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

static cb_code collect_touch(void *context, uint64_t first, uint64_t last, span subjects, cb_error *e)
{
	(void)e;
	char *text = context;
	(void)snprintf(text + strlen(text), 60, "%" PRIu64 "-%" PRIu64 ":%.*s ", first, last, (int)subjects.size,
	               (const char *)subjects.bytes);
	return first == 3 ? CB_INTERRUPTED : CB_OK;
}

static void sweep_edges(store *s)
{
	AUTO_BUF buf lost = BUF_INIT(SIZE_MAX);
	CHECK_OK(store_edges_lost(s, &lost, &err));
	for (size_t i = 0; i < lost.size / sizeof(uint64_t); i++)
		CHECK_OK(store_edge_delete(s, ((const uint64_t *)(const void *)lost.bytes)[i], &err));
}

static cb_code collect_edge(void *context, const store_edge *e, cb_error *edge_err)
{
	(void)edge_err;
	char *text = context;
	(void)snprintf(text + strlen(text), 60, "%" PRIu64 "@%" PRIu64 "-%d-%" PRIu64 "@%" PRIu64 " ", e->box, e->seq, (int)e->kind,
	               e->other_box, e->other_seq);
	return CB_OK;
}

CONTRACT(edges_of_history)
{
	uint64_t a = box_new(s, "a"), b = box_new(s, "b"), c = box_new(s, "c");
	store_edge e;
	bool found = true;
	char text[300] = "", expected[300];
	CHECK_OK(store_edge_before(s, a, UINT64_MAX, &e, &found, &err));
	CHECK(!found);
	begin(s);
	CHECK_OK(store_edge_put(s, &(store_edge){.box = b, .kind = STORE_EDGE_FORK, .other_box = a, .other_seq = 3}, &err));
	CHECK_OK(store_edge_put(s, &(store_edge){.box = a, .seq = 5, .kind = STORE_EDGE_MERGE, .other_box = b, .other_seq = 2},
	                        &err));
	CHECK_OK(store_edge_put(s, &(store_edge){.box = a, .seq = 7, .kind = STORE_EDGE_UNDO, .other_box = a, .other_seq = 5},
	                        &err));
	CHECK_OK(store_edge_put(s, &(store_edge){.box = c, .seq = 1, .kind = STORE_EDGE_RESTORE, .other_box = b, .other_seq = 1},
	                        &err));
	CHECK_CODE(store_edge_put(s, &(store_edge){.box = a, .seq = 7, .kind = STORE_EDGE_UNDO, .other_box = a}, &err), CB_EXISTS);
	commit(s);
	CHECK_OK(store_edge_before(s, a, 6, &e, &found, &err));
	CHECK(found && e.seq == 5 && e.kind == STORE_EDGE_MERGE && e.other_box == b && e.other_seq == 2);
	CHECK_OK(store_edge_before(s, a, 4, &e, &found, &err));
	CHECK(!found);
	store_edge some[3];
	size_t count = 0;
	CHECK_OK(store_edges_before(s, a, 9, some, 3, &count, &err));
	CHECK(count == 2 && some[0].seq == 7 && some[1].seq == 5);
	CHECK_OK(store_edges_before(s, a, 9, some, 1, &count, &err));
	CHECK(count == 1 && some[0].seq == 7);
	CHECK_OK(store_edge_list(s, 0, collect_edge, text, &err));
	(void)snprintf(expected, sizeof(expected),
	               "%" PRIu64 "@0-1-%" PRIu64 "@3 %" PRIu64 "@5-2-%" PRIu64 "@2 %" PRIu64 "@7-4-%" PRIu64 "@5 %" PRIu64
	               "@1-3-%" PRIu64 "@1 ",
	               b, a, a, b, a, a, c, b);
	CHECK_STR(text, expected);
	/* Steps may go, edges stay; those of a removed box while others lead to it. */
	uint64_t n = 0;
	begin(s);
	CHECK_OK(store_step_delete(s, a, 0, 9, &n, &err));
	CHECK_OK(store_box_remove(s, b, &err));
	sweep_edges(s);
	commit(s);
	CHECK_OK(store_edge_before(s, b, 9, &e, &found, &err));
	CHECK(found);
	begin(s);
	CHECK_OK(store_box_remove(s, a, &err));
	CHECK_OK(store_box_remove(s, c, &err));
	sweep_edges(s);
	commit(s);
	text[0] = 0;
	CHECK_OK(store_edge_list(s, 0, collect_edge, text, &err));
	CHECK_STR(text, ""); /* also of boxes that lead to each other */
}

CONTRACT(touched_files)
{
	uint64_t box = box_new(s, "a"), other = box_new(s, "b"), last = 9;
	CHECK_OK(store_touch_last(s, box, &last, &err));
	CHECK_U64(last, 0);
	begin(s);
	for (uint64_t i = 1; i <= 6; i++) step_add(s, box, i, "write");
	CHECK_OK(store_touch_put(s, box, 1, 2, span_str("one"), &err));
	CHECK_OK(store_touch_put(s, box, 3, 4, span_str("two"), &err));
	CHECK_OK(store_touch_put(s, box, 5, 6, span_str("three"), &err));
	CHECK_OK(store_touch_put(s, other, 1, 9, span_str("other"), &err));
	commit(s);
	CHECK_OK(store_touch_last(s, box, &last, &err));
	CHECK_U64(last, 6);
	char text[200] = "";
	CHECK_OK(store_touch_walk(s, box, UINT64_MAX, collect_touch, text, &err));
	CHECK_STR(text, "5-6:three 3-4:two ");
	text[0] = 0;
	CHECK_OK(store_touch_walk(s, box, 2, collect_touch, text, &err));
	CHECK_STR(text, "1-2:one ");
	uint64_t n = 0;
	begin(s);
	CHECK_OK(store_step_delete(s, box, 2, 5, &n, &err)); /* only 3-4 lies wholly inside */
	commit(s);
	CHECK_U64(n, 4);
	text[0] = 0;
	CHECK_OK(store_touch_walk(s, box, UINT64_MAX, collect_touch, text, &err));
	CHECK_STR(text, "5-6:three 1-2:one ");
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
	CHECK_CODE(store_content_size(s, mine, &size, &err), store_folder(s) >= 0 ? CB_STALE : CB_OK);
	begin(s);
	CHECK_CODE(store_content_touch(s, &c1, 1, &err), CB_STALE);
	store_write_abort(s);
	CHECK_OK(store_vacuum(s, &err));
	content_check(s, c2, 200000, 2);
	content_check(s, young, 300000, 5);
}

/* What was put for a transaction that failed goes at once, and nothing else. */
CONTRACT(what_an_owner_put_is_dropped)
{
	uint64_t owner = 0, kept = content_new(s, 200000, 1), some[600];
	CHECK_OK(store_owner_begin(s, &owner, &err));
	for (size_t i = 0; i < ARRAY_LEN(some); i++) some[i] = content_new(s, i % 7 ? 100 : 100000, i);
	uint64_t young = content_new(s, 200000, 2);
	store_stats st;
	/* Not while somebody else needs it, or a gc runs. */
	CHECK_OK(store_owner_share(s, owner, &err));
	store_owner_drop(s, owner, some, 1);
	content_check(s, some[0], 100000, 0);
	CHECK_OK(store_gc_lock(s, &err));
	store_owner_drop(s, owner, some, 1);
	store_gc_unlock(s);
	content_check(s, some[0], 100000, 0);
	store_owner_drop(s, owner, some, 1); /* it is ended: nobody's */
	content_check(s, some[0], 100000, 0);
	CHECK_OK(store_owner_begin(s, &owner, &err));
	store_owner_drop(s, owner, some, ARRAY_LEN(some));
	CHECK_OK(store_stats_get(s, &st, &err));
	CHECK_U64(st.contents, 2);
	begin(s);
	CHECK_CODE(store_content_touch(s, &some[599], 1, &err), CB_STALE);
	store_write_abort(s);
	content_check(s, kept, 200000, 1);
	content_check(s, young, 200000, 2);
	CHECK(!store_owner_is_living(s, owner));
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
	if (store_folder(s) >= 0) {
		char byte = 1;
		CHECK_CODE(store_content_read(s, a, 5, &byte, 1, &err), CB_STALE);
	}
	content_check(s, b, 500000, 2);
}
