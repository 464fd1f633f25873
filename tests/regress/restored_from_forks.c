/*
 * restored_from_forks.c: fork, write, restore the whole fork into the box it came from, delete it, over and over. The box kept the fork
 * point of each for ever, as if nobody could say where the restored line came from. It came from the fork point: that is needed only where
 * something is left of what the restore left aside.
 */
#include "harness/boxes.h"

static cb_error err;

static cb_box *first(cb_store *s)
{
	cb_box *main = NULL;
	CHECK_OK(cb_box_create(s, "main", &main, &err));
	must_edit_line(main, 0, "main");
	return main;
}

/* goes_on: the box is worked on meanwhile, which the restore leaves aside. through: the fork that is restored is one of a fork. */
static void restore_from_fork(cb_store *s, cb_box *main, int line, bool goes_on, bool through)
{
	cb_box *f = must_fork(s, "main", "f"), *g = NULL;
	if (through) g = must_fork(s, "f", "g");
	must_edit_line(through ? g : f, line, "fork");
	if (goes_on) must_edit_line(main, line, "aside");
	CHECK_OK(cb_restore(main, through ? g : f, NULL, NULL, &err));
	cb_box_close(f);
	cb_box_close(g);
	CHECK_OK(cb_box_delete(s, "f", &err));
	if (through) CHECK_OK(cb_box_delete(s, "g", &err));
}

static void clear(cb_store *s, cb_box *b, uint64_t keep)
{
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = keep), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
}

static uint64_t steps_of(cb_store *s)
{
	cb_store_stats st = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &st, &err));
	return st.steps;
}

TEST(a_box_keeps_no_fork_points)
{
	for (unsigned flags = 0; flags < 8; flags++) {
		cb_store *s = test_store_open(true);
		cb_box *main = first(s), *other = flags & 4 ? must_fork(s, "main", "other") : NULL;
		for (int i = 0; i < 10; i++) {
			restore_from_fork(s, main, 1 + i % 8, flags & 1, flags & 2);
			must_edit_line(main, 9, i % 2 ? "odd" : "even");
			clear(s, main, 1);
		}
		CHECK_U64(steps_of(s), other ? 4 : 2);
		if (other) { /* and finds where it parted from the box */
			must_write(other, "/work/o", "o");
			CHECK_OK(cb_merge(main, other, NULL, NULL, NULL, &err));
			CHECK_STR(must_read(main, "/work/o"), "o");
		}
		cb_box_close(other);
		cb_box_close(main);
		test_store_sound(s);
		cb_store_close(s);
	}
}

typedef enum aside { ASIDE_LIVES, ASIDE_NAMED, ASIDE_RECENT, ASIDES } aside;

/* What was left aside is there: as a box that was forked from it, under a name, or among the steps that are kept. */
static void left_aside(aside how, bool through)
{
	cb_store *s = test_store_open(true);
	cb_box *main = first(s), *k = NULL;
	for (int i = 0; i < 2; i++) { /* twice: the second was restored in what the first restored */
		restore_from_fork(s, main, 1 + i, true, through);
		if (i == 1) break;
		must_edit_line(main, 8, "between");
	}
	char address[32];
	uint64_t seq = cb_box_step(main) - 1;
	(void)snprintf(address, sizeof(address), "main@%llu", (unsigned long long)seq);
	if (how == ASIDE_LIVES) k = must_fork(s, address, "k");
	if (how == ASIDE_NAMED) CHECK_OK(cb_checkpoint_save(main, "aside", seq, true, &err));
	must_edit_line(main, 9, "on");
	clear(s, main, how == ASIDE_RECENT ? 3 : 1);
	clear(s, main, how == ASIDE_RECENT ? 3 : 1);
	if (!k) k = must_fork(s, how == ASIDE_NAMED ? "main@aside" : address, "k");
	must_edit_line(k, 5, "k");
	must_edit_line(k, 2, "2"); /* as it was where the two parted */
	CHECK_OK(cb_merge(main, k, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(main, "/work/f"), "main\nfork\nfork\n3\n4\nk\n6\n7\nbetween\non\n");
	cb_box_close(k);
	cb_box_close(main);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(what_was_left_aside_finds_where_it_parted)
{
	for (aside how = 0; how < ASIDES; how++) {
		left_aside(how, false);
		left_aside(how, true);
	}
}

/* What was left aside and what was restored have both merged a third box, after they parted. It is deleted, but is what they have in common
 * while a step that was left aside is there. */
TEST(both_sides_merged_another_box)
{
	cb_store *s = test_store_open(true);
	cb_box *main = first(s), *f = must_fork(s, "main", "f"), *a = must_fork(s, "main", "a");
	must_edit_line(a, 9, "a");
	CHECK_OK(cb_merge(main, a, NULL, NULL, NULL, &err));
	must_edit_line(f, 2, "f");
	CHECK_OK(cb_merge(f, a, NULL, NULL, NULL, &err));
	must_edit_line(main, 4, "aside");
	CHECK_OK(cb_restore(main, f, NULL, NULL, &err));
	cb_box_close(a);
	cb_box_close(f);
	CHECK_OK(cb_box_delete(s, "a", &err));
	CHECK_OK(cb_box_delete(s, "f", &err));
	clear(s, main, 2);
	clear(s, main, 2);
	cb_box *k = must_fork(s, "main@-1", "k");
	must_edit_line(k, 9, "9"); /* taken back: against an older common past it would come again */
	CHECK_OK(cb_merge(main, k, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(main, "/work/f"), "main\n1\nf\n3\naside\n5\n6\n7\n8\n9\n");
	cb_box_close(k);
	must_edit_line(main, 1, "on");
	CHECK_OK(cb_box_delete(s, "k", &err));
	clear(s, main, 1);
	must_edit_line(main, 1, "and on");
	clear(s, main, 1);
	CHECK_U64(steps_of(s), 2);
	cb_box_close(main);
	test_store_sound(s);
	cb_store_close(s);
}
