/*
 * The step that a box was forked from stayed for ever once its box was deleted: handing work on by fork and delete, round after round, kept
 * every round's files. And a deleted fork kept its fork point from prune until gc had run, and prune once more. A fork parts with a
 * deleted origin; what two living boxes have in common stays.
 */
#include "harness/boxes.h"

#include <stdlib.h>

enum { ROUNDS = 12, LARGE = 300000 };

static void write_large(cb_box *b, int fill)
{
	cb_error err = {0};
	char *bytes = malloc(LARGE);
	CHECK(bytes != NULL);
	memset(bytes, fill, LARGE);
	CHECK_OK(cb_write_file(b, "/work/data", bytes, LARGE, NULL, &err));
	free(bytes);
}

static cb_store_stats stats_of(cb_store *s)
{
	cb_error err = {0};
	cb_store_stats st = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &st, &err));
	return st;
}

static void prune_to_one(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
}

static uint64_t collect(cb_store *s)
{
	cb_error err = {0};
	cb_gc_result g = CB_INIT(cb_gc_result);
	CHECK_OK(cb_store_gc(s, &g, &err));
	test_store_sound(s);
	return g.boxes_freed;
}

static void delete_box(cb_store *s, const char *name)
{
	cb_error err = {0};
	CHECK_OK(cb_box_delete(s, name, &err));
}

TEST_BOTH(a_chain_of_forks_does_not_grow)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	char from[32] = "w0", to[32];
	CHECK_OK(cb_box_create(s, "w0", &b, &err));
	write_large(b, 0);
	for (int i = 1; i <= ROUNDS; i++) {
		(void)snprintf(to, sizeof(to), "w%d", i);
		cb_box_close(b);
		b = must_fork(s, from, to);
		write_large(b, i);
		delete_box(s, from);
		prune_to_one(b);
		CHECK_U64(collect(s), 1);
		memcpy(from, to, sizeof(from));
	}
	cb_store_stats st = stats_of(s);
	CHECK_U64(st.boxes, 1);
	CHECK_U64(st.steps, 2);    /* the newest and step 0 */
	CHECK_U64(st.contents, 2); /* what they hold */
	must_write(b, "/work/more", "x");
	char *text = must_dump(b);
	cb_box_close(b);
	b = must_open(s, from);
	CHECK_STR(must_dump(b), text);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(all_of_a_chain_but_the_last_goes_at_once)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	char name[32], next[32];
	CHECK_OK(cb_box_create(s, "w0", &b, &err));
	must_write(b, "/work/first", "1");
	for (int i = 1; i <= ROUNDS; i++) {
		(void)snprintf(name, sizeof(name), "w%d", i - 1);
		(void)snprintf(next, sizeof(next), "w%d", i);
		cb_box_close(b);
		b = must_fork(s, name, next);
		must_write(b, "/work/f", next);
	}
	char *text = must_dump(b);
	for (int i = 0; i < ROUNDS; i++) {
		(void)snprintf(name, sizeof(name), "w%d", i);
		delete_box(s, name);
	}
	CHECK_U64(collect(s), ROUNDS);
	CHECK_STR(must_dump(b), text);
	CHECK_U64(stats_of(s).steps, 2);
	must_write(b, "/work/g", "g"); /* the handle goes on */
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(must_dump(b), text);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(a_deleted_fork_keeps_no_fork_point)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	write_large(b, 1);
	cb_box *f = must_fork(s, "b", "f");
	CHECK_OK(cb_unlink(b, "/work/data", &err));
	must_write(b, "/work/later", "b"); /* or the removal, which can be undone, has it */
	must_write(f, "/work/mine", "f");
	delete_box(s, "f");
	prune_to_one(b);
	CHECK_U64(stats_of(s).steps, 2); /* of b: those of a fork of which gc would leave nothing go with its fork point */
	cb_box_close(f);
	CHECK_U64(collect(s), 1);
	CHECK_U64(stats_of(s).contents, 0);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(what_living_forks_have_in_common_stays)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *o = NULL;
	CHECK_OK(cb_box_create(s, "o", &o, &err));
	must_write(o, "/work/f", "1\n2\n3\n4\n5\n");
	cb_box *a = must_fork(s, "o", "a"), *b = must_fork(s, "o", "b");
	must_write(o, "/work/f", "other\n");
	cb_box_close(o);
	delete_box(s, "o");
	must_write(a, "/work/f", "one\n2\n3\n4\n5\n");
	must_write(b, "/work/f", "1\n2\n3\n4\nfive\n");
	prune_to_one(a);
	prune_to_one(b);
	CHECK_U64(collect(s), 0);
	CHECK_OK(cb_merge(a, b, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(a, "/work/f"), "one\n2\n3\n4\nfive\n");
	cb_box_close(b);
	delete_box(s, "b");
	cb_box_close(a);
	cb_store_close(s);
}

/* main <- middle (deleted) <- last: the fork point in main is in the past of both, over edges of a box that is gone. */
TEST_BOTH(a_merge_past_a_box_that_is_gone)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *main = NULL;
	CHECK_OK(cb_box_create(s, "main", &main, &err));
	must_write(main, "/work/f", "1\n2\n3\n4\n5\n");
	cb_box *middle = must_fork(s, "main", "middle");
	must_write(middle, "/work/f", "1\n2\nthree\n4\n5\n");
	cb_box *last = must_fork(s, "middle", "last");
	must_write(last, "/work/f", "1\n2\nthree\n4\nfive\n");
	must_write(main, "/work/f", "one\n2\n3\n4\n5\n");
	cb_box_close(middle);
	delete_box(s, "middle");
	prune_to_one(main);
	prune_to_one(last);
	CHECK_U64(collect(s), 1);
	CHECK_OK(cb_merge(main, last, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(main, "/work/f"), "one\n2\nthree\n4\nfive\n");
	cb_box_close(last);
	cb_box_close(main);
	cb_store_close(s);
}
