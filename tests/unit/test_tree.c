/* test_tree.c: the tree by example: shapes, identity, ends, limits, hostile nodes. Random histories are in tests/model. */
#include "harness/harness.h"

#include "base/buf.h"
#include "tree/node.h"
#include "tree/tree.h"
#include "unit/test_tree_nodes.h"

typedef struct fixture {
	node_table table;
	tree_nodes nodes;
} fixture;

static void fixture_init(fixture *f)
{
	f->table = (node_table){0};
	f->nodes = node_table_nodes(&f->table);
}

static void fixture_done(fixture *f)
{
	node_table_done(&f->table);
}

static span key_of(unsigned n, char *room)
{
	return span_make(room, (size_t)sprintf(room, "key-%08u", n));
}

static void put_range(pmap *m, unsigned from, unsigned to, const char *value)
{
	cb_error err;
	char room[32];
	for (unsigned i = from; i < to; i++) CHECK_OK(pmap_put(m, key_of(i, room), span_str(value), &err));
}

static uint64_t apply(fixture *f, uint64_t root, pmap *m)
{
	cb_error err;
	uint64_t out;
	CHECK_OK(tree_apply(&f->nodes, root, m, &out, &err));
	CHECK_OK(tree_check(&f->nodes, out, &err));
	pmap_done(m);
	return out;
}

static uint64_t build(fixture *f, unsigned count, const char *value)
{
	pmap m = PMAP_EMPTY;
	put_range(&m, 0, count, value);
	return apply(f, 0, &m);
}

static size_t count_from(const tree_view *v, span from)
{
	cb_error err;
	tree_cursor *c;
	span key, value;
	size_t n = 0;
	CHECK_OK(tree_cursor_open(v, from, &c, &err));
	for (; tree_cursor_get(c, &key, &value); n++) CHECK_OK(tree_cursor_next(c, &err));
	CHECK_OK(tree_cursor_next(c, &err)); /* at the end it stays there */
	CHECK(!tree_cursor_get(c, &key, &value));
	tree_cursor_close(c);
	return n;
}

TEST(empty_tree)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	tree_value value;
	const tree_view v = {&f.nodes, 0, NULL, NULL};
	CHECK_CODE(tree_get(&v, span_str("a"), &value, &err), CB_NOTFOUND);
	CHECK_U64(count_from(&v, span_str("")), 0);
	CHECK_OK(tree_check(&f.nodes, 0, &err));
	pmap m = PMAP_EMPTY;
	CHECK_U64(apply(&f, 0, &m), 0);
	CHECK_OK(pmap_put_tombstone(&m, span_str("a"), &err));
	CHECK_U64(apply(&f, 0, &m), 0);
	CHECK_U64(f.table.count, 0);
	fixture_done(&f);
}

TEST(empty_key_and_value)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	pmap m = PMAP_EMPTY;
	put_range(&m, 0, 1000, "some value");
	CHECK_OK(pmap_put(&m, span_str(""), span_str(""), &err));
	uint64_t root = apply(&f, 0, &m);
	const tree_view v = {&f.nodes, root, NULL, NULL};
	tree_value value;
	CHECK_OK(tree_get(&v, span_make(NULL, 0), &value, &err));
	CHECK_U64(value.size, 0);
	CHECK_U64(count_from(&v, span_make(NULL, 0)), 1001);
	fixture_done(&f);
}

TEST(bulk_build_is_full)
{
	fixture f;
	fixture_init(&f);
	(void)build(&f, 50000, "a value of thirty-two bytes.....");
	CHECK_MSG(f.table.put_bytes / f.table.count > TREE_NODE_MAX * 90 / 100, "%zu bytes a node",
	          f.table.put_bytes / f.table.count);
	fixture_done(&f);
}

TEST(nothing_changes)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	char room[32];
	uint64_t root = build(&f, 10000, "v");
	size_t before = f.table.count;
	pmap m = PMAP_EMPTY;
	put_range(&m, 100, 5000, "v");
	CHECK_OK(pmap_put_tombstone(&m, span_str("absent"), &err));
	CHECK_OK(pmap_put_tombstone(&m, span_str("key-00000100x"), &err));
	CHECK_U64(apply(&f, root, &m), root);
	CHECK_U64(f.table.count, before);
	/* One of two changed leaves is as before: only the other's path is written. */
	put_range(&m, 0, 1, "v");
	CHECK_OK(pmap_put(&m, key_of(9999, room), span_str("w"), &err));
	CHECK(apply(&f, root, &m) != root);
	CHECK(f.table.count <= before + 4);
	fixture_done(&f);
}

TEST(there_and_back)
{
	fixture f;
	fixture_init(&f);
	uint64_t root = build(&f, 3000, "v");
	pmap m = PMAP_EMPTY;
	put_range(&m, 1500, 1501, "w");
	uint64_t changed = apply(&f, root, &m);
	put_range(&m, 1500, 1501, "v");
	uint64_t back = apply(&f, changed, &m);
	/* Not the same numbers, but the same bytes at the leaves. */
	const blob *a = f.table.blobs[root - 1], *b = f.table.blobs[back - 1];
	CHECK_U64(a->size, b->size);
	fixture_done(&f);
}

TEST(deleting_all_but_one)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	char room[32];
	uint64_t root = build(&f, 20000, "some value");
	static const unsigned survivors[] = {0, 7777, 19999};
	for (int s = 0; s < 3; s++) {
		pmap m = PMAP_EMPTY;
		for (unsigned i = 0; i < 20000; i++) {
			if (i != survivors[s]) CHECK_OK(pmap_put_tombstone(&m, key_of(i, room), &err));
		}
		size_t before = f.table.count;
		uint64_t left = apply(&f, root, &m);
		CHECK_U64(f.table.count, before + 1);
		const tree_view v = {&f.nodes, left, NULL, NULL};
		CHECK_U64(count_from(&v, span_str("")), 1);
		CHECK_OK(pmap_put_tombstone(&m, key_of(survivors[s], room), &err));
		CHECK_U64(apply(&f, left, &m), 0);
	}
	fixture_done(&f);
}

TEST(too_large_entries)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	static const uint8_t zeros[TREE_KEY_MAX + 1];
	pmap m = PMAP_EMPTY;
	uint64_t root;
	CHECK_OK(pmap_put(&m, span_make(zeros, TREE_KEY_MAX), span_make(zeros, TREE_VALUE_MAX), &err));
	CHECK_OK(tree_apply(&f.nodes, 0, &m, &root, &err));
	CHECK_OK(pmap_put(&m, span_make(zeros, TREE_KEY_MAX + 1), span_str(""), &err));
	CHECK_CODE(tree_apply(&f.nodes, 0, &m, &root, &err), CB_TOOBIG);
	pmap_done(&m);
	CHECK_OK(pmap_put(&m, span_str("k"), span_make(zeros, TREE_VALUE_MAX + 1), &err));
	CHECK_CODE(tree_apply(&f.nodes, 0, &m, &root, &err), CB_TOOBIG);
	pmap_done(&m);
	fixture_done(&f);
}

/* ---- differences ---- */

typedef struct tally {
	size_t count;
	size_t stop_at;
} tally;

static cb_code visit(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)key, (void)err;
	tally *t = context;
	CHECK(old_value.bytes || new_value.bytes);
	t->count++;
	return t->count == t->stop_at ? CB_INTERRUPTED : CB_OK;
}

static size_t diff_count(const tree_view *a, const tree_view *b, size_t stop_at)
{
	cb_error err;
	tally t = {0, stop_at};
	CHECK_OK(tree_diff(a, b, visit, &t, &err));
	return t.count;
}

/* The nodes a difference reads are those of the changed paths. */
TEST(diff_cost)
{
	fixture f;
	fixture_init(&f);
	uint64_t root = build(&f, 100000, "some value");
	pmap m = PMAP_EMPTY;
	for (unsigned i = 0; i < 13; i++) put_range(&m, i * 7001, i * 7001 + 1, "another");
	uint64_t changed = apply(&f, root, &m);
	const tree_view a = {&f.nodes, root, NULL, NULL}, b = {&f.nodes, changed, NULL, NULL};
	f.table.gets_until_failure = 13 * 2 * 3 + 10;
	CHECK_U64(diff_count(&a, &b, 0), 13);
	f.table.gets_until_failure = 0;
	CHECK_U64(diff_count(&a, &b, 5), 5);
	CHECK_U64(diff_count(&b, &a, 0), 13);
	f.table.gets_until_failure = 1;
	CHECK_U64(diff_count(&a, &a, 0), 0);
	fixture_done(&f);
}

/* Trees of different heights still share nodes. */
TEST(diff_of_different_heights)
{
	fixture f;
	fixture_init(&f);
	uint64_t small = build(&f, 1000, "some value"); /* fewer levels than after the next */
	pmap m = PMAP_EMPTY;
	put_range(&m, 1000, 30000, "some value");
	uint64_t large = apply(&f, small, &m);
	const tree_view a = {&f.nodes, small, NULL, NULL}, b = {&f.nodes, large, NULL, NULL};
	CHECK(f.table.blobs[small - 1]->bytes[1] < f.table.blobs[large - 1]->bytes[1]);
	CHECK_U64(diff_count(&a, &b, 0), 29000);
	CHECK_U64(diff_count(&b, &a, 0), 29000);
	const tree_view none = {&f.nodes, 0, NULL, NULL};
	CHECK_U64(diff_count(&none, &b, 0), 30000);
	CHECK_U64(diff_count(&b, &none, 0), 30000);
	fixture_done(&f);
}

TEST(diff_of_overlays)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	char room[32];
	uint64_t root = build(&f, 1000, "v");
	pmap overlay = PMAP_EMPTY, delta = PMAP_EMPTY;
	put_range(&overlay, 10, 20, "w");
	CHECK_OK(pmap_put_tombstone(&overlay, key_of(30, room), &err));
	CHECK_OK(pmap_put_tombstone(&overlay, span_str("absent"), &err));
	put_range(&delta, 10, 15, "v"); /* back to the root's */
	const tree_view plain = {&f.nodes, root, NULL, NULL};
	const tree_view under = {&f.nodes, root, &overlay, NULL};
	const tree_view both = {&f.nodes, root, &overlay, &delta};
	CHECK_U64(diff_count(&plain, &under, 0), 11);
	CHECK_U64(diff_count(&plain, &both, 0), 6);
	CHECK_U64(diff_count(&under, &both, 0), 5);
	f.table.gets_until_failure = 1; /* the same maps on both sides: nothing to look at */
	CHECK_U64(diff_count(&both, &both, 0), 0);
	pmap_done(&overlay);
	pmap_done(&delta);
	fixture_done(&f);
}

/* ---- walk ---- */

typedef struct walk_tally {
	size_t nodes, entries;
	bool seen[4096];
} walk_tally;

static bool enter(void *context, uint64_t id)
{
	walk_tally *t = context;
	CHECK(id < 4096);
	if (t->seen[id]) return false;
	t->seen[id] = true;
	t->nodes++;
	return true;
}

static cb_code enter_entry(void *context, span key, span value, cb_error *err)
{
	(void)key, (void)value, (void)err;
	((walk_tally *)context)->entries++;
	return CB_OK;
}

static bool count_node(void *context, uint64_t id)
{
	(void)id;
	++*(size_t *)context;
	return true;
}

/* ---- veils ---- */

/* Hides keys whose number is not a multiple of three, and shows another value for those of six. */
static cb_code show_thirds(void *context, span key, span *value, tree_value *room, bool *out, cb_error *err)
{
	char text[32];
	(void)err;
	++*(size_t *)context;
	(void)snprintf(text, sizeof(text), "%.*s", (int)key.size, (const char *)key.bytes);
	unsigned n = (unsigned)strtoul(text + 4, NULL, 10);
	*out = n % 3 == 0;
	if (n % 6) return CB_OK;
	memcpy(room->bytes, "masked", 6);
	room->size = 6;
	*value = span_make(room->bytes, room->size);
	return CB_OK;
}

static cb_code count_thirds(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)key;
	(void)err;
	++*(size_t *)context;
	CHECK(old_value.bytes || new_value.bytes);
	if (new_value.bytes) CHECK(span_equal(new_value, span_str("new")) || span_equal(new_value, span_str("masked")));
	return CB_OK;
}

TEST(a_veil_hides_keys_and_shows_other_values)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	char room[32];
	tree_value value;
	size_t asked = 0, count = 0;
	const tree_veil veil = {show_thirds, &asked};
	uint64_t root = build(&f, 3000, "old");
	pmap overlay = PMAP_EMPTY, delta = PMAP_EMPTY;
	put_range(&overlay, 3000, 6000, "new");
	put_range(&delta, 0, 30, "new");
	for (unsigned i = 30; i < 60; i++) CHECK_OK(pmap_put_tombstone(&delta, key_of(i, room), &err));
	tree_view v = {&f.nodes, root, &overlay, &delta, &veil}, bare = {&f.nodes, root, NULL, NULL, &veil},
		  all = {&f.nodes, root, NULL, NULL, NULL};
	CHECK_U64(count_from(&v, span_str("")), 2000 - 10);
	CHECK_U64(count_from(&bare, span_str("")), 1000);
	CHECK_U64(count_from(&all, span_str("")), 3000);
	CHECK_CODE(tree_get(&v, key_of(1, room), &value, &err), CB_NOTFOUND);
	CHECK_OK(tree_get(&v, key_of(3, room), &value, &err));
	CHECK(value.size == 3 && memcmp(value.bytes, "new", 3) == 0);
	CHECK_OK(tree_get(&v, key_of(6, room), &value, &err));
	CHECK(value.size == 6 && memcmp(value.bytes, "masked", 6) == 0);
	/* Of what differs, keys that neither side shows, or both show alike, are no difference. */
	CHECK_OK(tree_diff(&bare, &v, count_thirds, &count, &err));
	CHECK_U64(count, 5 + 10 + 1000);
	count = 0;
	CHECK_OK(tree_diff(&all, &v, count_thirds, &count, &err));
	CHECK_U64(count, 30 + 30 + 1000);
	CHECK(asked > 0);
	pmap_done(&overlay);
	pmap_done(&delta);
	fixture_done(&f);
}

TEST(walk_visits_shared_nodes_once)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	static walk_tally t;
	uint64_t root = build(&f, 5000, "some value");
	pmap m = PMAP_EMPTY;
	put_range(&m, 77, 78, "changed");
	uint64_t changed = apply(&f, root, &m);
	tree_walk_visit w = {enter, enter_entry, &t};
	CHECK_OK(tree_walk(&f.nodes, root, &w, &err));
	CHECK_U64(t.entries, 5000);
	CHECK_OK(tree_walk(&f.nodes, changed, &w, &err));
	CHECK_U64(t.nodes, f.table.count);
	CHECK(t.entries < 5000 + 200);
	memset(&t, 0, sizeof(t));
	w.entry = NULL;
	CHECK_OK(tree_walk(&f.nodes, root, &w, &err));
	CHECK(t.nodes > 10 && t.entries == 0);
	fixture_done(&f);
}

TEST(appends_stay_dense)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	uint64_t root = 0;
	for (unsigned i = 0; i < 4000; i++) {
		pmap m = PMAP_EMPTY;
		put_range(&m, i, i + 1, "a value of thirty-two bytes.....");
		CHECK_OK(tree_apply(&f.nodes, root, &m, &root, &err));
		pmap_done(&m);
	}
	CHECK_OK(tree_check(&f.nodes, root, &err));
	size_t before = f.table.count, nodes = 0;
	(void)build(&f, 4000, "a value of thirty-two bytes.....");
	const tree_walk_visit w = {count_node, NULL, &nodes};
	CHECK_OK(tree_walk(&f.nodes, root, &w, &err));
	size_t packed = f.table.count - before;
	CHECK_MSG(nodes <= packed * 3 / 2, "%zu nodes, %zu packed", nodes, packed);
	fixture_done(&f);
}

/* ---- hostile nodes ---- */

/* Every single bit of a node turned: refused, or another node that is sound; never worse. */
TEST(every_bit_of_a_node)
{
	fixture f;
	fixture_init(&f);
	uint64_t root = build(&f, 300, "v");
	for (uint64_t id = 1; id <= 2; id++) {
		const blob *b = f.table.blobs[(id == 1 ? 1 : root) - 1];
		size_t refused = 0;
		for (size_t i = 0; i < 8 * b->size; i++) {
			uint8_t *copy = malloc(b->size); /* exactly as long, for the address sanitizer */
			CHECK(copy);
			memcpy(copy, b->bytes, b->size);
			copy[i / 8] ^= (uint8_t)(1u << i % 8);
			refused += tree_node_check(span_make(copy, b->size), NULL) == CB_CORRUPT;
			free(copy);
		}
		CHECK(refused > b->size);
		for (size_t size = 0; size < b->size; size++) {
			CHECK_CODE(tree_node_check(span_make(b->bytes, size), NULL), CB_CORRUPT);
		}
		uint8_t longer[TREE_NODE_MAX + 1];
		memcpy(longer, b->bytes, b->size);
		longer[b->size] = 0;
		CHECK_CODE(tree_node_check(span_make(longer, b->size + 1), NULL), CB_CORRUPT);
	}
	fixture_done(&f);
}

/* An inner node that is its own child, and a ladder of nodes whose children are all the next one: 2^15 paths,
 * if ranges were not checked. */
TEST(loops_and_ladders_end)
{
	fixture f;
	fixture_init(&f);
	cb_error err;
	uint64_t id = 0;
	static const uint8_t leaf_bytes[] = {1, 0, 1, 0, 1, 0, 11, 0, 12, 0, 'm', 0};
	CHECK_OK(tree_node_check(span_make(leaf_bytes, sizeof(leaf_bytes)), &err));
	CHECK_OK(node_table_put(&f.table, span_make(leaf_bytes, sizeof(leaf_bytes)), &id, &err));
	for (uint8_t level = 1; level < TREE_DEPTH_MAX; level++) {
		uint8_t inner[] = {1, level, 2, 0, 0, 0, 12, 0, 20, 0, 29, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'q'};
		put_le64(inner + 12, id);
		put_le64(inner + 20, level == 5 ? id + 1 : id); /* level 5 names itself */
		CHECK_OK(tree_node_check(span_make(inner, sizeof(inner)), &err));
		CHECK_OK(node_table_put(&f.table, span_make(inner, sizeof(inner)), &id, &err));
	}
	const tree_view v = {&f.nodes, id, NULL, NULL}, none = {&f.nodes, 0, NULL, NULL};
	tree_value value;
	CHECK_OK(tree_get(&v, span_str("m"), &value, &err));
	CHECK_CODE(tree_get(&v, span_str("z"), &value, &err), CB_CORRUPT);
	tree_cursor *c;
	CHECK_CODE(tree_cursor_open(&v, span_str(""), &c, &err), CB_CORRUPT);
	tally t = {0};
	CHECK_CODE(tree_diff(&none, &v, visit, &t, &err), CB_CORRUPT);
	CHECK_CODE(tree_check(&f.nodes, id, &err), CB_CORRUPT);
	pmap m = PMAP_EMPTY;
	uint64_t root;
	for (unsigned i = 0; i < 256; i++) {
		const uint8_t byte = (uint8_t)i;
		CHECK_OK(pmap_put(&m, span_make(&byte, 1), span_str("x"), &err));
	}
	CHECK_CODE(tree_apply(&f.nodes, id, &m, &root, &err), CB_CORRUPT);
	pmap_done(&m);
	fixture_done(&f);
}
