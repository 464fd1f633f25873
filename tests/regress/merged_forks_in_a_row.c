/*
 * merged_forks_in_a_row.c: fork, write, merge, delete, over and over. A deleted fork kept its fork point while its merge could be undone;
 * the fork point is the merge of the fork before it, so prune dropped nothing, and on a full disk nothing led out. gc wrote a root for each
 * such fork, which made the store five times as large and failed on a full disk; and both looked at all edges for each of them. Forks of
 * one state, all merged into one box, cost the cube of their number later, when pairs of them were compared one by one.
 */
#include "harness/boxes.h"
#include "harness/disks.h"

#include <stdlib.h>

static cb_error err;

enum { LINES = 10 };

static void merge_and_delete(cb_store *s, cb_box *into, cb_box *fork, const char *name)
{
	CHECK_OK(cb_merge(into, fork, NULL, NULL, NULL, &err));
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(s, name, &err));
}

typedef enum flow {
	FLOW_PLAIN,
	FLOW_STEPS = 1,  /* each fork makes several, and names one */
	FLOW_NESTED = 2, /* and is itself worked on by a fork */
	FLOW_LAST = 4,   /* the last fork lives */
	FLOW_OTHER = 8,  /* so does one that was made in the middle */
	FLOW_GC = 16,    /* gc before prune, too */
	FLOW_ALL = 32,
} flow;

static void one_round(cb_store *s, cb_box *a, unsigned i, bool last, flow flags)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/work/n%u", i);
	cb_box *k = must_fork(s, "a", "k");
	must_write(k, path, "k");
	must_edit_line(k, (int)(i % LINES), path);
	for (int n = 0; flags & FLOW_STEPS && n < 3; n++) must_write(k, path, n % 2 ? "odd" : "even");
	if (flags & FLOW_STEPS) CHECK_OK(cb_checkpoint_save(k, "done", 0, true, &err));
	if (flags & FLOW_NESTED) {
		cb_box *part = must_fork(s, "k", "part");
		must_write(part, path, "part");
		merge_and_delete(s, k, part, "part");
	}
	if (!last || !(flags & FLOW_LAST)) {
		merge_and_delete(s, a, k, "k");
		return;
	}
	CHECK_OK(cb_merge(a, k, NULL, NULL, NULL, &err));
	cb_box_close(k);
}

static cb_store_stats stats_of(cb_store *s)
{
	cb_store_stats st = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &st, &err));
	return st;
}

static void prune_to_one(cb_box *b)
{
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
}

static uint64_t steps_after(bool memory, unsigned rounds, flow flags)
{
	cb_store *s = test_store_open(memory);
	cb_box *a = NULL, *other = NULL;
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_edit_line(a, 0, "a");
	for (unsigned i = 1; i <= rounds; i++) {
		one_round(s, a, i, i == rounds, flags);
		if (flags & FLOW_OTHER && i == rounds / 2) other = must_fork(s, "a", "other");
	}
	if (flags & FLOW_GC) CHECK_OK(cb_store_gc(s, NULL, &err));
	char *text = must_dump(a);
	prune_to_one(a);
	test_store_sound(s);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	CHECK_STR(must_dump(a), text);
	uint64_t steps = stats_of(s).steps;
	if (other) { /* what the living have in common is there */
		must_write(other, "/work/o", "o");
		must_write(a, "/work/p", "p");
		CHECK_OK(cb_merge(a, other, NULL, NULL, NULL, &err));
		CHECK_OK(cb_merge(other, a, NULL, NULL, NULL, &err));
		CHECK_STR(must_read(other, "/work/p"), "p");
	}
	if (flags & FLOW_LAST) {
		cb_box *k = must_open(s, "k");
		must_write(k, "/work/q", "q");
		CHECK_OK(cb_merge(a, k, NULL, NULL, NULL, &err));
		CHECK_STR(must_read(a, "/work/q"), "q");
		cb_box_close(k);
	}
	cb_box_close(other);
	cb_box_close(a);
	cb_store_close(s);
	return steps;
}

TEST(prune_leaves_a_few_steps)
{
	for (flow flags = FLOW_PLAIN; flags < FLOW_ALL; flags++) {
		uint64_t few = steps_after(true, 4, flags), many = steps_after(true, 16, flags);
		CHECK_MSG(many <= few && many < 32, "flow %d: %llu steps after 4 rounds, %llu after 16", (int)flags,
		          (unsigned long long)few, (unsigned long long)many);
	}
}

TEST(prune_leaves_a_few_steps_on_disk)
{
	CHECK_U64(steps_after(false, 16, FLOW_PLAIN), 6); /* three of a, and those of the last fork */
}

/* The newest step stays, and can be undone: then the fork that it merged is a common past of others, with what it came from below it. */
TEST_BOTH(the_last_merge_can_be_undone)
{
	cb_store *s = test_store_open(memory);
	cb_box *main = NULL;
	CHECK_OK(cb_box_create(s, "a", &main, &err));
	must_edit_line(main, 0, "main");
	one_round(s, main, 1, false, FLOW_PLAIN);
	cb_box *fork = must_fork(s, "a", "fork");
	must_edit_line(fork, 9, "fork");
	merge_and_delete(s, main, fork, "fork");
	cb_box *a = must_fork(s, "a", "b1"), *b = must_fork(s, "a", "b2");
	prune_to_one(main);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_undo(main, 0, NULL, &err));
	must_edit_line(main, 1, "on");
	CHECK_OK(cb_merge(a, main, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(b, main, NULL, NULL, NULL, &err));
	prune_to_one(main);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	must_edit_line(a, 4, "a");
	must_edit_line(b, 6, "b");
	CHECK_OK(cb_merge(a, b, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(a, "/work/f"), "main\non\n2\n3\na\n5\nb\n7\n8\n9\n");
	cb_box_close(a);
	cb_box_close(b);
	cb_box_close(main);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(gc_takes_no_room_for_them)
{
	cb_store *s = test_store_open(false);
	cb_box *a = NULL;
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_edit_line(a, 0, "a");
	for (unsigned i = 1; i <= 300; i++) one_round(s, a, i, false, i % 2 ? FLOW_STEPS : FLOW_PLAIN);
	uint64_t before = stats_of(s).nodes;
	CHECK_OK(cb_store_gc(s, NULL, &err));
	uint64_t after = stats_of(s).nodes;
	CHECK_MSG(after <= before, "%llu nodes, %llu after gc", (unsigned long long)before, (unsigned long long)after);
	cb_box_close(a);
	cb_store_close(s);
}

static void full_disk(disk_kind kind)
{
	enum { DISK = 8 << 20, BYTES = 150000 };
	static char bytes[BYTES];
	disk d;
	cb_store *s = NULL;
	cb_box *a = NULL, *k = NULL;
	cb_code code = CB_OK;
	disk_make(&d, kind, DISK);
	CHECK_OK(cb_store_open(d.folder, NULL, &s, &err));
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	for (unsigned i = 0; code == CB_OK; i++) {
		for (size_t n = 0; n < BYTES; n++) bytes[n] = (char)(test_rand(&(test_rng){i * BYTES + n}) >> 8);
		code = cb_box_fork(s, "a", "k", &k, &err);
		if (code == CB_OK) code = cb_write_file(k, "/work/data", bytes, BYTES, NULL, &err);
		if (code == CB_OK) code = cb_write_file(k, "/work/again", bytes, 64, NULL, &err);
		if (code == CB_OK) code = cb_merge(a, k, NULL, NULL, NULL, &err);
		cb_box_close(k);
		k = NULL;
		if (code == CB_OK) CHECK_OK(cb_box_delete(s, "k", &err));
	}
	CHECK_CODE(code, CB_NOSPACE);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	prune_to_one(a);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	for (int i = 0; i < 10; i++) {
		bytes[0] = (char)i;
		CHECK_OK(cb_write_file(a, "/work/data", bytes, BYTES, NULL, &err));
	}
	test_store_sound(s);
	cb_box_close(a);
	cb_store_close(s);
	disk_unmount(&d);
}

TEST_LIMIT(a_full_disk_is_not_the_end_on_ext4, 120)
{
	full_disk(DISK_EXT4);
}

TEST_LIMIT(a_full_disk_is_not_the_end_on_tmpfs, 120)
{
	full_disk(DISK_TMPFS);
}

typedef struct times {
	double idle, prune, gc;
} times;

static double since(double *start)
{
	double now = test_cpu_ms(), took = now - *start;
	*start = now;
	return took;
}

/* of: what is forked. living: for one in so many there is another box that stays; 0: none */
static times with(const char *of, unsigned forks, unsigned living)
{
	times t;
	char path[32], name[32];
	cb_store *s = test_store_open(true);
	cb_box *a = NULL;
	CHECK_OK(cb_box_create(s, "o", &a, &err));
	cb_box_close(a);
	a = must_fork(s, "o", "a");
	for (unsigned i = 0; i < forks; i++) {
		cb_box *k = must_fork(s, of, "k");
		(void)snprintf(path, sizeof(path), "/work/n%u", i % 64);
		must_write(k, path, i % 2 ? "odd" : "even");
		CHECK_OK(cb_merge(a, k, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, NULL, &err));
		cb_box_close(k);
		CHECK_OK(cb_box_delete(s, "k", &err));
		(void)snprintf(name, sizeof(name), "l%u", i);
		if (living && i % living == 0) cb_box_close(must_fork(s, "o", name));
	}
	CHECK_OK(cb_store_gc(s, NULL, &err));
	double start = test_cpu_ms();
	CHECK_OK(cb_store_gc(s, NULL, &err));
	t.idle = since(&start);
	prune_to_one(a);
	t.prune = since(&start);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	t.gc = since(&start);
	cb_box_close(a);
	cb_store_close(s);
	return t;
}

static times least_of(const char *of, unsigned forks, unsigned living, int tries)
{
	times least = with(of, forks, living);
	while (--tries > 0) {
		times t = with(of, forks, living);
		if (t.idle < least.idle) least.idle = t.idle;
		if (t.prune < least.prune) least.prune = t.prune;
		if (t.gc < least.gc) least.gc = t.gc;
	}
	return least;
}

static void costs_grow(const char *of, unsigned living)
{
	enum { FEW = 250, MANY = 4000, MOST = 4 * MANY / FEW };
	times few = least_of(of, FEW, living, 4), many = least_of(of, MANY, living, 2);
	test_note("ms for %d and %d: idle gc %.2f %.2f, prune %.2f %.2f, gc %.2f %.2f", FEW, MANY, few.idle, many.idle, few.prune,
	          many.prune, few.gc, many.gc);
	CHECK_MSG(many.idle < MOST * few.idle, "idle gc: %d %.2f ms, %d %.2f ms", FEW, few.idle, MANY, many.idle);
	CHECK_MSG(many.prune < MOST * few.prune, "prune: %d %.2f ms, %d %.2f ms", FEW, few.prune, MANY, many.prune);
	CHECK_MSG(many.gc < MOST * few.gc, "gc: %d %.2f ms, %d %.2f ms", FEW, few.gc, MANY, many.gc);
}

TEST_LIMIT(costs_grow_with_the_forks, 300)
{
	costs_grow("a", 0);
}

TEST_LIMIT(costs_grow_with_the_forks_beside_others, 300)
{
	costs_grow("a", 4);
}

TEST_LIMIT(costs_grow_with_forks_of_one_state, 300)
{
	costs_grow("o", 0);
}
