/*
 * test_tree_model.c: the tree against sorted arrays.
 *
 * A version is a root and the array of entries it must have. Rounds make a new version from a random old one by a random batch of changes
 * and compare everything that can be asked of it with the array; versions, alone or under overlays, are compared with each other.
 */
#include "harness/harness.h"

#include "base/buf.h"
#include "tree/tree.h"
#include "unit/test_tree_nodes.h"

typedef struct entry {
	span key;
	span value; /* bytes NULL: a tombstone, in a list of changes */
} entry;

typedef struct entries {
	entry *at;
	size_t count, capacity;
} entries;

enum { VERSIONS = 32 };

typedef struct version {
	uint64_t root;
	entries has;
} version;

typedef struct world {
	test_rng rng;
	node_table table;
	tree_nodes nodes;
	version versions[VERSIONS];
	char **strings; /* all bytes that entries refer to */
	size_t string_count, string_capacity;
	unsigned key_space; /* how many different keys there are */
} world;

/* ---- bytes and keys ---- */

static span keep(world *w, const void *bytes, size_t size)
{
	if (w->string_count == w->string_capacity) {
		w->string_capacity = w->string_capacity ? 2 * w->string_capacity : 1024;
		w->strings = realloc(w->strings, w->string_capacity * sizeof(char *));
		CHECK(w->strings);
	}
	char *copy = malloc(size + 1);
	CHECK(copy);
	if (size) memcpy(copy, bytes, size);
	w->strings[w->string_count++] = copy;
	return span_make(copy, size);
}

/* Short numbers, paths that share long beginnings, keys of full length that differ early or late, and the empty key. */
static size_t make_key(unsigned number, uint8_t *to)
{
	switch (number % 6) {
	case 0:
		return (size_t)sprintf((char *)to, "%u", number);
	case 1:
		return (size_t)sprintf((char *)to, "D%08uname-%u", number / 97, number);
	case 2:
		return (size_t)sprintf((char *)to, "%0200u/%u", number % 9 / 3, number);
	case 3:
		memset(to, 'x', TREE_KEY_MAX);
		(void)sprintf((char *)to + TREE_KEY_MAX - 12, "%011u", number);
		return TREE_KEY_MAX - 1;
	case 4:
		memset(to, (int)(number & 0xff), TREE_KEY_MAX);
		for (int i = 0; i < 4; i++) to[i] = (uint8_t)(number >> (8 * (3 - i)));
		return TREE_KEY_MAX;
	default:
		for (size_t i = 0; i < number % 7; i++) to[i] = (uint8_t)(number * 0x9e3779b97f4a7c15u >> (8 * i));
		return number % 7;
	}
}

static span random_key(world *w)
{
	uint8_t key[TREE_KEY_MAX + 1];
	size_t size = make_key((unsigned)test_rand_below(&w->rng, w->key_space), key);
	return keep(w, key, size);
}

static span random_value(world *w)
{
	static const uint16_t tops[] = {1, 9, 40, 120, TREE_VALUE_MAX + 1};
	uint8_t value[TREE_VALUE_MAX];
	size_t size = test_rand_below(&w->rng, tops[test_rand_below(&w->rng, 5)]);
	if (test_rand_below(&w->rng, 40) == 0) size = TREE_VALUE_MAX;
	memset(value, (int)test_rand(&w->rng), sizeof(value));
	return keep(w, value, size);
}

/* ---- sorted arrays ---- */

static size_t lower_bound(const entries *e, span key)
{
	size_t low = 0, high = e->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (span_compare(e->at[middle].key, key) < 0) low = middle + 1;
		else high = middle;
	}
	return low;
}

static const entry *lookup(const entries *e, span key)
{
	size_t i = lower_bound(e, key);
	return i < e->count && span_equal(e->at[i].key, key) ? &e->at[i] : NULL;
}

static span value_of(const entries *e, span key)
{
	const entry *found = lookup(e, key);
	return found ? found->value : span_make(NULL, 0);
}

static void append(entries *e, entry x)
{
	if (e->count == e->capacity) {
		e->capacity = e->capacity ? 2 * e->capacity : 64;
		e->at = realloc(e->at, e->capacity * sizeof(entry));
		CHECK(e->at);
	}
	e->at[e->count++] = x;
}

static void insert(entries *e, entry x)
{
	size_t i = lower_bound(e, x.key);
	if (i < e->count && span_equal(e->at[i].key, x.key)) {
		e->at[i] = x;
		return;
	}
	append(e, x);
	memmove(e->at + i + 1, e->at + i, (e->count - 1 - i) * sizeof(entry));
	e->at[i] = x;
}

static entries merged(const entries *base, const entries *changes)
{
	entries out = {0};
	size_t i = 0, j = 0;
	while (i < base->count || j < changes->count) {
		int c = i == base->count ? 1 : j == changes->count ? -1 : span_compare(base->at[i].key, changes->at[j].key);
		if (c < 0) {
			append(&out, base->at[i++]);
			continue;
		}
		if (changes->at[j].value.bytes) append(&out, changes->at[j]);
		j++;
		if (c == 0) i++;
	}
	return out;
}

/* ---- random changes ---- */

static void delete_range(world *w, const entries *base, entries *changes, size_t count)
{
	size_t from = test_rand_below(&w->rng, base->count);
	for (size_t i = from; i < base->count && i < from + count; i++) append(changes, (entry){base->at[i].key, {NULL, 0}});
}

static entries random_changes(world *w, const entries *base)
{
	static const unsigned sizes[] = {1, 1, 2, 5, 13, 13, 60, 400};
	entries changes = {0};
	size_t count = sizes[test_rand_below(&w->rng, 8)];
	unsigned kind = (unsigned)test_rand_below(&w->rng, 12);
	if (kind == 0 && base->count > 0) {
		delete_range(w, base, &changes, test_rand_below(&w->rng, 3) == 0 ? base->count : count * 3);
		return changes;
	}
	unsigned deletes = kind < 4 ? 80 : kind < 8 ? 50 : 10; /* in 100 */
	for (size_t i = 0; i < count; i++) {
		bool from_base = base->count > 0 && test_rand_below(&w->rng, 3) > 0;
		span key = from_base ? base->at[test_rand_below(&w->rng, base->count)].key : random_key(w);
		span value = test_rand_below(&w->rng, 100) < deletes ? span_make(NULL, 0) : random_value(w);
		if (test_rand_below(&w->rng, 20) == 0) value = value_of(base, key); /* no change */
		insert(&changes, (entry){key, value});
	}
	return changes;
}

static pmap map_of(const entries *changes)
{
	cb_error err;
	pmap m = PMAP_EMPTY;
	for (size_t i = 0; i < changes->count; i++) {
		const entry *x = &changes->at[i];
		if (x->value.bytes) CHECK_OK(pmap_put(&m, x->key, x->value, &err));
		else CHECK_OK(pmap_put_tombstone(&m, x->key, &err));
	}
	return m;
}

/* ---- what is compared ---- */

static void check_scan(const tree_view *v, const entries *has, span from)
{
	cb_error err;
	tree_cursor *c;
	CHECK_OK(tree_cursor_open(v, from, &c, &err));
	span key, value;
	size_t i = lower_bound(has, from);
	for (; tree_cursor_get(c, &key, &value); i++) {
		CHECK(i < has->count);
		CHECK(span_equal(key, has->at[i].key) && span_equal(value, has->at[i].value));
		CHECK_OK(tree_cursor_next(c, &err));
	}
	CHECK_U64(i, has->count);
	tree_cursor_close(c);
}

static void check_seeks(world *w, const tree_view *v, const entries *has)
{
	cb_error err;
	tree_cursor *c;
	CHECK_OK(tree_cursor_open(v, span_make(NULL, 0), &c, &err));
	for (int n = 0; n < 10; n++) {
		span from = random_key(w), key, value;
		CHECK_OK(tree_cursor_seek(c, from, &err));
		size_t i = lower_bound(has, from);
		for (int steps = 0; steps < 4; steps++, i++) {
			CHECK(tree_cursor_get(c, &key, &value) == (i < has->count));
			if (i >= has->count) break;
			CHECK(span_equal(key, has->at[i].key) && span_equal(value, has->at[i].value));
			CHECK_OK(tree_cursor_next(c, &err));
		}
	}
	tree_cursor_close(c);
}

static void check_gets(world *w, const tree_view *v, const entries *has)
{
	for (int n = 0; n < 20; n++) {
		cb_error err;
		bool present = has->count > 0 && n % 2;
		span key = present ? has->at[test_rand_below(&w->rng, has->count)].key : random_key(w);
		const entry *expected = lookup(has, key);
		tree_value value;
		CHECK_CODE(tree_get(v, key, &value, &err), expected ? CB_OK : CB_NOTFOUND);
		if (expected) CHECK(span_equal(span_make(value.bytes, value.size), expected->value));
	}
}

static void check_view(world *w, const tree_view *v, const entries *has)
{
	check_scan(v, has, span_make(NULL, 0));
	check_scan(v, has, random_key(w));
	check_seeks(w, v, has);
	check_gets(w, v, has);
}

typedef struct expected_diff {
	const entries *sides[2]; /* base, ours, theirs; or old, new, old */
	span keys[4096];
	size_t count, at;
} expected_diff;

static bool same(span a, span b)
{
	return !a.bytes == !b.bytes && span_equal(a, b);
}

/* All keys of either side in which the two do not agree. */
static void expect(expected_diff *d, span prefix)
{
	size_t i[2] = {0};
	d->count = d->at = 0;
	for (;;) {
		const span *least = NULL;
		for (int s = 0; s < 2; s++) {
			if (i[s] == d->sides[s]->count) continue;
			const span *key = &d->sides[s]->at[i[s]].key;
			if (!least || span_compare(*key, *least) < 0) least = key;
		}
		if (!least) return;
		span key = *least, values[2];
		for (int s = 0; s < 2; s++) {
			values[s] = span_make(NULL, 0);
			const entries *e = d->sides[s];
			if (i[s] < e->count && span_equal(e->at[i[s]].key, key)) values[s] = e->at[i[s]++].value;
		}
		if (same(values[0], values[1])) continue;
		if (!span_starts(key, prefix)) continue;
		CHECK(d->count < 4096);
		d->keys[d->count++] = key;
	}
}

static cb_code visit_diff(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)err;
	expected_diff *d = context;
	CHECK(d->at < d->count && span_equal(key, d->keys[d->at]));
	CHECK(same(old_value, value_of(d->sides[0], key)) && same(new_value, value_of(d->sides[1], key)));
	d->at++;
	return CB_OK;
}

static void check_diff(world *w, const tree_view *a, const entries *in_a, const tree_view *b, const entries *in_b)
{
	static expected_diff d;
	cb_error err;
	d.sides[0] = in_a;
	d.sides[1] = in_b;
	expect(&d, span_make(NULL, 0));
	CHECK_OK(tree_diff(a, b, visit_diff, &d, &err));
	CHECK_U64(d.at, d.count);

	span prefix = random_key(w);
	if (prefix.size > 0) prefix.size = 1 + test_rand_below(&w->rng, prefix.size);
	expect(&d, prefix);
	CHECK_OK(tree_diff_prefix(a, b, prefix, visit_diff, &d, &err));
	CHECK_U64(d.at, d.count);
}

/* ---- a view under overlays, with what it must have ---- */

typedef struct layered {
	pmap overlay, delta;
	tree_view view;
	entries has;
} layered;

static void layered_make(world *w, layered *l)
{
	const version *v = &w->versions[test_rand_below(&w->rng, VERSIONS)];
	entries first = random_changes(w, &v->has);
	entries middle = merged(&v->has, &first);
	entries second = random_changes(w, &middle);
	l->overlay = map_of(&first);
	l->delta = map_of(&second);
	l->view = (tree_view){&w->nodes, v->root, &l->overlay, &l->delta};
	l->has = merged(&middle, &second);
	free(first.at);
	free(second.at);
	free(middle.at);
}

/* The same root and overlay as another, with a delta of its own: as neighbouring states are. */
static void layered_beside(world *w, layered *l, const layered *other)
{
	l->overlay = pmap_ref(&other->overlay);
	l->delta = pmap_ref(&other->delta);
	entries changes = random_changes(w, &other->has);
	cb_error err;
	for (size_t i = 0; i < changes.count; i++) {
		const entry *x = &changes.at[i];
		if (x->value.bytes) CHECK_OK(pmap_put(&l->delta, x->key, x->value, &err));
		else CHECK_OK(pmap_put_tombstone(&l->delta, x->key, &err));
	}
	l->view = (tree_view){&w->nodes, other->view.root, &l->overlay, &l->delta};
	l->has = merged(&other->has, &changes);
	free(changes.at);
}

static void layered_done(layered *l)
{
	pmap_done(&l->overlay);
	pmap_done(&l->delta);
	free(l->has.at);
}

/* ---- rounds ---- */

static void world_init(world *w, uint64_t seed, unsigned key_space)
{
	memset(w, 0, sizeof(*w));
	w->rng.state = seed | 1;
	w->nodes = node_table_nodes(&w->table);
	w->key_space = key_space;
}

static void world_done(world *w)
{
	for (int i = 0; i < VERSIONS; i++) free(w->versions[i].has.at);
	for (size_t i = 0; i < w->string_count; i++) free(w->strings[i]);
	free(w->strings);
	node_table_done(&w->table);
}

static void check_version(world *w, const version *v)
{
	cb_error err;
	CHECK_OK(tree_check(&w->nodes, v->root, &err));
	CHECK((v->root == 0) == (v->has.count == 0));
	tree_view view = {&w->nodes, v->root, NULL, NULL};
	check_view(w, &view, &v->has);
}

/* Applies a batch to one version, checks the result, and puts it in another's place. */
static void round_apply(world *w)
{
	cb_error err;
	const version *from = &w->versions[test_rand_below(&w->rng, VERSIONS)];
	entries changes = random_changes(w, &from->has);
	pmap map = map_of(&changes);
	version next = {0, merged(&from->has, &changes)};
	CHECK_OK(tree_apply(&w->nodes, from->root, &map, &next.root, &err));
	check_version(w, &next);

	size_t before = w->table.count;
	uint64_t again;
	CHECK_OK(tree_apply(&w->nodes, next.root, &map, &again, &err));
	CHECK_U64(again, next.root);
	CHECK_U64(w->table.count, before);

	tree_view a = {&w->nodes, from->root, NULL, NULL}, b = {&w->nodes, next.root, NULL, NULL},
		  c = {&w->nodes, from->root, &map, NULL};
	check_diff(w, &a, &from->has, &b, &next.has);
	check_diff(w, &c, &next.has, &b, &next.has);
	pmap_done(&map);
	free(changes.at);
	version *to = &w->versions[test_rand_below(&w->rng, VERSIONS)];
	free(to->has.at);
	*to = next;
}

static void round_compare(world *w)
{
	const version *v[3];
	tree_view views[3];
	const entries *in[3];
	for (int i = 0; i < 3; i++) {
		v[i] = &w->versions[test_rand_below(&w->rng, VERSIONS)];
		views[i] = (tree_view){&w->nodes, v[i]->root, NULL, NULL};
		in[i] = &v[i]->has;
	}
	check_version(w, v[0]); /* old versions stay what they were */
	check_diff(w, &views[0], in[0], &views[1], in[1]);

	layered l[3];
	layered_make(w, &l[0]);
	layered_make(w, &l[1]);
	layered_beside(w, &l[2], &l[0]);
	for (int i = 0; i < 3; i++) check_view(w, &l[i].view, &l[i].has);
	check_diff(w, &l[0].view, &l[0].has, &l[1].view, &l[1].has);
	check_diff(w, &l[0].view, &l[0].has, &l[2].view, &l[2].has);
	check_diff(w, &l[1].view, &l[1].has, &views[0], in[0]);
	for (int i = 0; i < 3; i++) layered_done(&l[i]);
}

static void run_rounds(unsigned key_space, unsigned rounds)
{
	static world w;
	world_init(&w, test_seed() + key_space, key_space);
	for (unsigned i = 0; i < rounds; i++) {
		round_apply(&w);
		if (i % 3 == 0) round_compare(&w);
	}
	world_done(&w);
}

TEST_LIMIT(few_keys, 600)
{
	run_rounds(60, test_dose(700));
}

TEST_LIMIT(some_keys, 600)
{
	run_rounds(600, test_dose(350));
}

TEST_LIMIT(many_keys, 600)
{
	run_rounds(3000, test_dose(200));
}

/* Bulk build, then everything away again in batches. */
TEST_LIMIT(build_and_empty, 600)
{
	static world w;
	world_init(&w, test_seed(), 4000);
	cb_error err;
	for (unsigned n = 0; n < test_dose(4); n++) {
		entries all = {0};
		for (unsigned i = 0; i < 3000; i++) insert(&all, (entry){random_key(&w), random_value(&w)});
		version v = {0};
		pmap map = map_of(&all);
		CHECK_OK(tree_apply(&w.nodes, 0, &map, &v.root, &err));
		v.has = all;
		check_version(&w, &v);
		pmap_done(&map);
		while (v.has.count > 0) {
			entries gone = {0};
			delete_range(&w, &v.has, &gone, 1 + test_rand_below(&w.rng, 700));
			map = map_of(&gone);
			CHECK_OK(tree_apply(&w.nodes, v.root, &map, &v.root, &err));
			entries left = merged(&v.has, &gone);
			free(v.has.at);
			free(gone.at);
			v.has = left;
			check_version(&w, &v);
			pmap_done(&map);
		}
		CHECK_U64(v.root, 0);
		free(v.has.at);
	}
	world_done(&w);
}

/* ---- failures ---- */

static cb_code count_diff(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)key, (void)old_value, (void)new_value, (void)err;
	++*(size_t *)context;
	return CB_OK;
}

static bool enter_all(void *context, uint64_t id)
{
	(void)context, (void)id;
	return true;
}

static cb_code count_entry(void *context, span key, span value, cb_error *err)
{
	return count_diff(context, key, value, value, err);
}

static cb_code scan(const tree_view *v, cb_error *err)
{
	tree_cursor *c;
	CB_TRY(tree_cursor_open(v, span_make(NULL, 0), &c, err));
	span key, value;
	cb_code code = CB_OK;
	while (code == CB_OK && tree_cursor_get(c, &key, &value)) code = tree_cursor_next(c, err);
	CHECK(code == CB_OK || !tree_cursor_get(c, &key, &value));
	tree_cursor_close(c);
	return code;
}

/* Everything that reads; the first error. */
static cb_code read_all(const tree_view *a, const tree_view *b, cb_error *err)
{
	size_t n = 0;
	CB_TRY(scan(a, err));
	CB_TRY(tree_diff(a, b, count_diff, &n, err));
	const tree_walk_visit visit = {enter_all, count_entry, &n};
	CB_TRY(tree_walk(a->nodes, a->root, &visit, err));
	return tree_check(a->nodes, a->root, err);
}

/* What fails at the n-th step for every n until nothing fails any more. */
static void fail_everywhere(world *w, const version *from, const pmap *map, long *until, cb_code expected)
{
	cb_error err;
	tree_view a = {&w->nodes, from->root, NULL, NULL}, b = {&w->nodes, from->root, map, NULL};
	for (long n = 1;; n += 1 + n / 16) {
		uint64_t root;
		if (until) *until = n;
		else mem_fail_after(n);
		cb_code code = tree_apply(&w->nodes, from->root, map, &root, &err);
		if (code == CB_OK) code = read_all(&a, &b, &err);
		if (until) *until = 0;
		else mem_fail_after(0);
		if (code == CB_OK) break;
		CHECK_CODE(code, expected);
	}
	check_version(w, from);
}

TEST_LIMIT(failures, 600)
{
	static world w;
	world_init(&w, test_seed(), 800);
	for (unsigned i = 0; i < test_dose(20); i++) {
		for (int j = 0; j < 3; j++) round_apply(&w);
		const version *from = &w.versions[test_rand_below(&w.rng, VERSIONS)];
		entries changes = random_changes(&w, &from->has);
		pmap map = map_of(&changes);
		fail_everywhere(&w, from, &map, NULL, CB_NOMEM);
		fail_everywhere(&w, from, &map, &w.table.gets_until_failure, CB_IO);
		fail_everywhere(&w, from, &map, &w.table.puts_until_failure, CB_NOSPACE);
		pmap_done(&map);
		free(changes.at);
	}
	world_done(&w);
}

/* ---- damage: any answer, but an answer ---- */

static void damage(world *w, node_table *broken, unsigned flips)
{
	*broken = (node_table){0};
	cb_error err;
	for (size_t i = 0; i < w->table.count; i++) {
		const blob *b = w->table.blobs[i];
		uint64_t id;
		CHECK_OK(node_table_put(broken, span_make(b->bytes, b->size), &id, &err));
	}
	for (unsigned i = 0; i < flips; i++) {
		blob *b = broken->blobs[test_rand_below(&w->rng, broken->count)];
		size_t at = test_rand_below(&w->rng, test_rand_below(&w->rng, 2) ? b->size : 40 < b->size ? 40 : b->size);
		b->bytes[at] ^= (uint8_t)(1u << test_rand_below(&w->rng, 8));
	}
}

/* Numbers of children that lead elsewhere, in nodes that are sound in themselves. */
static void misdirect(world *w, node_table *broken)
{
	for (unsigned i = 0; i < 4; i++) {
		blob *b = broken->blobs[test_rand_below(&w->rng, broken->count)];
		if (b->bytes[1] == 0) continue;
		size_t count = b->bytes[2] | (size_t)b->bytes[3] << 8;
		size_t slot = 6 + 2 * test_rand_below(&w->rng, count);
		size_t at = b->bytes[slot] | (size_t)b->bytes[slot + 1] << 8;
		if (at + 8 > b->size) continue;
		uint64_t other = 1 + test_rand_below(&w->rng, broken->count);
		memcpy(b->bytes + at, &other, 8);
	}
}

static void use_damaged(world *w, node_table *broken)
{
	cb_error err;
	const version *v = &w->versions[test_rand_below(&w->rng, VERSIONS)], *u = &w->versions[test_rand_below(&w->rng, VERSIONS)];
	tree_nodes nodes = node_table_nodes(broken);
	entries changes = random_changes(w, &v->has);
	pmap map = map_of(&changes);
	tree_view a = {&nodes, v->root, NULL, NULL}, b = {&nodes, u->root, &map, NULL};
	uint64_t root;
	cb_code code = tree_apply(&nodes, v->root, &map, &root, &err);
	CHECK(code == CB_OK || code == CB_CORRUPT);
	code = read_all(&a, &b, &err);
	CHECK(code == CB_OK || code == CB_CORRUPT);
	tree_value value;
	for (int i = 0; i < 20; i++) (void)tree_get(&a, random_key(w), &value, &err);
	pmap_done(&map);
	free(changes.at);
}

TEST_LIMIT(damage, 600)
{
	static world w;
	world_init(&w, test_seed(), 1000);
	for (unsigned i = 0; i < 100; i++) round_apply(&w);
	for (unsigned i = 0; i < test_dose(100); i++) {
		node_table broken;
		damage(&w, &broken, 1 + (unsigned)test_rand_below(&w.rng, 30));
		for (int n = 0; n < 3; n++) use_damaged(&w, &broken);
		node_table_done(&broken);
		damage(&w, &broken, 0);
		misdirect(&w, &broken);
		for (int n = 0; n < 3; n++) use_damaged(&w, &broken);
		node_table_done(&broken);
	}
	world_done(&w);
}
