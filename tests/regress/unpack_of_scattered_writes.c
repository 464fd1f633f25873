/*
 * unpack_of_scattered_writes.c: for each step of a pack that wrote into a file, all extents of the MiB before were looked through: n small
 * steps cost n * n. Now it is asked only what lies beside a new one; so here is what that sees, against every pair.
 */
#include "harness/packs.h"

#include <time.h>

#include "box/graft.h"
#include "unit/test_tree_nodes.h"

static cb_error err;

/* ---- what lies over each other is seen ---- */

enum { PLACES = 40, LONGEST = 6, SIZE = PLACES + LONGEST, FILE_INO = 100 };

/* A file: how long the data are that begin at each place; 0: none do. */
typedef struct layout {
	uint32_t length[PLACES];
	uint64_t size;
} layout;

static bool is_sound(const layout *l)
{
	uint64_t end = 0;
	for (uint64_t i = 0; i < PLACES; i++) {
		if (!l->length[i]) continue;
		if (i < end) return false;
		end = i + l->length[i];
	}
	return end <= l->size;
}

static void put(pmap *m, const key *k, const tree_value *v)
{
	if (v) CHECK_OK(pmap_put(m, key_span(k), span_make(v->bytes, v->size), &err));
	else CHECK_OK(pmap_put_tombstone(m, key_span(k), &err));
}

static void put_extent(pmap *m, uint64_t at, uint32_t length)
{
	extent x = {.offset = at, .content = 1, .length = length};
	key k = key_extent(FILE_INO, at);
	tree_value v;
	extent_encode(&x, &v);
	put(m, &k, length ? &v : NULL);
}

static void put_entry(pmap *m, uint64_t parent, span name, const record *r)
{
	entry e = {.rec = *r};
	key k = key_entry(parent, name), n = key_name(r->ino, parent, name);
	tree_value v, nothing = {0};
	entry_encode(&e, &v);
	put(m, &k, &v);
	if (parent) put(m, &n, &nothing);
}

static void put_size(pmap *m, uint64_t size)
{
	record file = {
		.ino = FILE_INO, .version = 1, .size = size, .type = CB_FILE, .mode = 0644, .links = 1, .form = DATA_EXTENTS};
	counters c = {1, size};
	key k = key_counters();
	tree_value v;
	put_entry(m, INO_ROOT, span_str("f"), &file);
	counters_encode(&c, &v);
	put(m, &k, &v);
}

/* Some changes to map and layout; sound: only those that leave it so. */
static void change(test_rng *rng, pmap *m, layout *l, unsigned times, bool sound)
{
	for (unsigned i = 0; i < times; i++) {
		layout next = *l;
		uint64_t at = test_rand_below(rng, PLACES);
		bool resize = test_rand_below(rng, 10) == 0;
		if (resize) next.size = SIZE - test_rand_below(rng, SIZE / 2);
		else next.length[at] = test_rand_below(rng, 3) ? 1 + (uint32_t)test_rand_below(rng, LONGEST) : 0;
		if (sound && !is_sound(&next)) continue;
		if (resize) put_size(m, next.size);
		else put_extent(m, at, next.length[at]);
		*l = next;
	}
}

static cb_code check(const tree_view *before, const tree_view *after)
{
	graft_check *c = NULL;
	uint64_t keys = 0;
	CHECK_OK(graft_check_create(&c, &err));
	graft_check_begin(c, before, after);
	cb_code code = tree_diff(before, after, graft_check_key, c, &err);
	if (code == CB_OK) code = graft_check_end(c, &keys, &err);
	graft_check_destroy(c);
	return code;
}

TEST(data_over_each_other_are_seen)
{
	test_rng rng = {test_seed() | 1};
	unsigned sound = 0, unsound = 0;
	for (unsigned i = 0; i < test_dose(80000); i++) {
		node_table table = {0};
		tree_nodes nodes = node_table_nodes(&table);
		pmap first = PMAP_EMPTY, overlay = PMAP_EMPTY;
		uint64_t root = 0, later = 0;
		layout l = {.size = SIZE};
		record top = {.ino = INO_ROOT, .version = 1, .type = CB_DIR, .mode = 0755, .links = 1};
		put_entry(&first, 0, span_str(""), &top);
		put_size(&first, SIZE);
		change(&rng, &first, &l, 30, true);
		CHECK_OK(tree_apply(&nodes, 0, &first, &root, &err));
		change(&rng, &overlay, &l, 10, true);
		pmap next = pmap_ref(&overlay);
		change(&rng, &next, &l, 1 + (unsigned)test_rand_below(&rng, 4), false);
		tree_view before = {.nodes = &nodes, .root = root, .overlay = &overlay};
		tree_view after = {.nodes = &nodes, .root = root, .overlay = &next};
		cb_code expected = is_sound(&l) ? CB_OK : CB_CORRUPT;
		CHECK_CODE(check(&before, &after), expected);
		CHECK_OK(tree_apply(&nodes, root, &next, &later, &err));
		after = (tree_view){.nodes = &nodes, .root = later};
		CHECK_CODE(check(&before, &after), expected);
		*(expected == CB_OK ? &sound : &unsound) += 1;
		pmap_done(&first);
		pmap_done(&overlay);
		pmap_done(&next);
		node_table_done(&table);
	}
	CHECK(sound > 1000 && unsound > 1000);
}

/* ---- what it costs ---- */

static double cpu_us(void)
{
	struct timespec t;
	CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Microseconds for each step; the least of some. */
static double unpacking(unsigned steps)
{
	enum { BYTES = 900 << 10 };
	static char whole[BYTES];
	test_rng rng = {1};
	double least = 1e9;
	cb_file *f;
	cb_box *b = NULL;
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	CHECK_OK(cb_write_file(b, "/work/f", whole, BYTES, NULL, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE, 0, &f, &err));
	for (unsigned i = 0; i < steps; i++) {
		CHECK_OK(cb_pwrite(f, "ab", 2, test_rand_below(&rng, BYTES - 2), &err));
		CHECK_OK(cb_fsync(f, &err));
	}
	CHECK_OK(cb_close(f, &err));
	pack_bytes p = pack_take(b, NULL);
	for (int i = 0; i < 3; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "b%d", i);
		double start = cpu_us();
		CHECK_OK(pack_give(s, &p, name, NULL, &err));
		double took = (cpu_us() - start) / steps;
		if (took < least) least = took;
	}
	cb_box_close(b);
	cb_store_close(s);
	return least;
}

TEST_LIMIT(costs_do_not_grow_with_the_extents, 300)
{
	enum { FEW = 500, MANY = 10000 };
	double few = unpacking(FEW), many = unpacking(MANY);
	test_note("us for each of %d and %d steps: %.1f %.1f", FEW, MANY, few, many);
	CHECK(many < 3 * few);
}
