/*
 * forks_of_merged_forks.c: a box that was merged, and a fork of it that was merged, too, both deleted: the first one was never collected,
 * though neither merge could be undone any more. Round by round boxes, steps and contents of deleted boxes stayed, and prune and gc took
 * longer with each.
 */
#include "harness/boxes.h"

#include <stdlib.h>

static cb_error err;

static void merge(cb_box *into, cb_box *from)
{
	CHECK_OK(cb_merge(into, from, NULL, NULL, NULL, &err));
}

static void drop(cb_store *s, cb_box *b, const char *name)
{
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, name, &err));
}

static void write_round(cb_box *b, const char *path, unsigned i)
{
	char text[400];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	(void)snprintf(text, sizeof(text), "%s %u", path, i);
	text[strlen(text)] = ' '; /* a content of its own */
	must_write(b, path, text);
}

typedef enum way {
	MERGED_THEN_FORKED,
	FORKED_THEN_MERGED,
	FORKED_TWICE,     /* it came to others by its forks only */
	FORKED_IN_A_LINE, /* a fork of the fork, too */
	UNDONE_BETWEEN,   /* something else was undone between the two merges */
	RESTORED_BETWEEN,
	HANDED_ON, /* the box goes on as its fork */
	WAYS
} way;

static cb_box *one_round(cb_store *s, cb_box *main, way how, unsigned i)
{
	cb_box *a = must_fork(s, "main", "a"), *b = NULL, *c = NULL;
	write_round(a, "/work/a", i);
	if (how != FORKED_THEN_MERGED && how != FORKED_TWICE) merge(main, a);
	b = must_fork(s, "a", "b");
	write_round(b, "/work/b", i);
	if (how == FORKED_THEN_MERGED) merge(main, a);
	if (how == FORKED_TWICE || how == FORKED_IN_A_LINE) {
		c = must_fork(s, how == FORKED_TWICE ? "a" : "b", "c");
		write_round(c, "/work/c", i);
		merge(main, c);
		drop(s, c, "c");
		write_round(b, "/work/b", i + 1000);
	}
	if (how == UNDONE_BETWEEN || how == RESTORED_BETWEEN) {
		c = must_fork(s, "main", "c");
		write_round(c, "/work/c", i);
		if (how == UNDONE_BETWEEN) merge(main, c);
		else CHECK_OK(cb_restore(main, c, NULL, NULL, &err));
		if (how == UNDONE_BETWEEN) CHECK_OK(cb_undo(main, 0, NULL, &err));
		drop(s, c, "c");
	}
	merge(main, b);
	drop(s, a, "a");
	drop(s, b, "b");
	if (how != HANDED_ON) return main;
	b = must_fork(s, "main", "next");
	drop(s, main, "main");
	CHECK_OK(cb_box_rename(s, "next", "main", &err));
	return b;
}

static void clear(cb_store *s, cb_box *main)
{
	CHECK_OK(cb_prune(main, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
}

static uint64_t steps_of(cb_store *s)
{
	cb_store_stats st = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &st, &err));
	return st.steps;
}

static uint64_t contents_of(cb_store *s)
{
	cb_store_stats st = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &st, &err));
	return st.contents;
}

static cb_box *first(cb_store *s)
{
	cb_box *main = NULL;
	CHECK_OK(cb_box_create(s, "main", &main, &err));
	must_edit_line(main, 0, "main");
	return main;
}

/* Nothing is left but the first step and the newest; until the last merges are pruned, as much as after the first round. */
static void nothing_is_left(bool memory, way how)
{
	cb_store *s = test_store_open(memory);
	cb_box *main = first(s);
	uint64_t once = 0;
	for (unsigned i = 0; i < 8; i++) {
		main = one_round(s, main, how, i);
		clear(s, main);
		if (i == 2) once = steps_of(s);
	}
	CHECK_MSG(steps_of(s) == once, "way %d: %llu steps, then %llu", (int)how, (unsigned long long)once,
	          (unsigned long long)steps_of(s));
	static const char *const names[] = {"/work/a", "/work/b", "/work/c"};
	for (unsigned i = 0; i < 3; i++) (void)cb_unlink(main, names[i], &err);
	for (unsigned i = 0; i < 2; i++) {
		must_edit_line(main, 1, i ? "odd" : "even");
		clear(s, main);
	}
	uint64_t steps = steps_of(s), contents = contents_of(s);
	/* The first step of one that is handed on has what it was forked from. */
	CHECK_MSG(steps == 2 && contents <= (how == HANDED_ON ? 2 : 0), "way %d: %llu steps and %llu contents are left", (int)how,
	          (unsigned long long)steps, (unsigned long long)contents);
	test_store_sound(s);
	cb_box_close(main);
	cb_store_close(s);
}

TEST(nothing_of_them_is_left)
{
	for (way how = 0; how < WAYS; how++) nothing_is_left(true, how);
}

TEST(nothing_of_them_is_left_on_disk)
{
	nothing_is_left(false, MERGED_THEN_FORKED);
}

/* Others live beside it, one from before, one that takes part, and find in every round what they have in common with it. */
TEST(others_merge_on)
{
	for (way how = 0; how < HANDED_ON; how++) {
		cb_store *s = test_store_open(true);
		cb_box *main = first(s), *old = must_fork(s, "main", "old"), *beside = must_fork(s, "main", "beside");
		uint64_t once = 0;
		for (unsigned i = 0; i < 8; i++) {
			main = one_round(s, main, how, i);
			write_round(beside, "/work/beside", i);
			merge(beside, main);
			if (i % 2) merge(main, beside);
			clear(s, main);
			clear(s, beside);
			if (i == 3) once = steps_of(s);
		}
		/* Where a restore came between, the two may have come to it by two ways: that is kept. */
		if (how != RESTORED_BETWEEN) CHECK_U64(steps_of(s), once);
		must_edit_line(old, 5, "old");
		must_edit_line(main, 7, "new");
		merge(main, old);
		merge(old, main);
		merge(beside, old);
		CHECK_STR(must_read(beside, "/work/f"), "main\n1\n2\n3\n4\nold\n6\nnew\n8\n9\n");
		cb_box_close(old);
		cb_box_close(beside);
		cb_box_close(main);
		test_store_sound(s);
		cb_store_close(s);
	}
}

/* Both merges are taken back, while others have them: then the two have the boxes in common again. */
static void undone_later(bool one_by_one)
{
	cb_store *s = test_store_open(true);
	cb_box *main = first(s), *a = must_fork(s, "main", "a");
	must_edit_line(a, 9, "a");
	merge(main, a);
	cb_box *early = must_fork(s, "main", "early"), *b = must_fork(s, "a", "b");
	must_edit_line(b, 7, "b");
	merge(main, b);
	drop(s, a, "a");
	drop(s, b, "b");
	CHECK_OK(cb_prune(main, &CB_WITH(cb_prune_options, .keep_steps = 2), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	uint64_t second = cb_box_step(main), one = second - 1;
	cb_box *late = one_by_one ? NULL : must_fork(s, "main", "late");
	CHECK_OK(cb_undo(main, one, NULL, &err));
	if (!late) late = must_fork(s, "main", "late");
	CHECK_OK(cb_undo(main, second, NULL, &err));
	must_edit_line(main, 1, "on");
	merge(early, main);
	merge(late, main);
	clear(s, main);
	must_edit_line(early, 3, "early");
	must_edit_line(late, 5, "late");
	merge(late, early);
	char *text = must_read(late, "/work/f");
	CHECK_MSG(strstr(text, "early\n") && strstr(text, "late\n") && strstr(text, "on\n"), "%s", text);
	cb_box_close(early);
	cb_box_close(late);
	cb_box_close(main);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(both_merges_undone_later)
{
	undone_later(false);
	undone_later(true);
}

/* The box was rolled back between the two merges: it has the one, and who was forked from what was rolled back has the other. Of both the
 * first box is what they have in common. */
TEST(on_two_lines)
{
	cb_store *s = test_store_open(true);
	cb_box *main = first(s), *a = must_fork(s, "main", "a");
	must_edit_line(a, 9, "a");
	merge(main, a);
	must_edit_line(main, 3, "line"); /* so that the merge is no fork point */
	cb_box *k = must_fork(s, "main", "k"), *old = must_open(s, "main@-2"), *b = must_fork(s, "a", "b");
	CHECK_OK(cb_restore(main, old, NULL, NULL, &err));
	cb_box_close(old);
	must_edit_line(b, 7, "b");
	merge(main, b);
	drop(s, a, "a");
	drop(s, b, "b");
	for (unsigned i = 0; i < 2; i++) {
		must_edit_line(main, 1, i ? "odd" : "even");
		clear(s, main);
	}
	must_edit_line(k, 9, "9"); /* taken back: against a common past without it, it would come again */
	must_edit_line(k, 5, "k");
	merge(main, k);
	CHECK_STR(must_read(main, "/work/f"), "main\nodd\n2\nline\n4\nk\n6\nb\n8\n9\n");
	cb_box_close(k);
	cb_box_close(main);
	test_store_sound(s);
	cb_store_close(s);
}

/* One box is left, which was rolled back and merged the other again. While that can be undone, two that have it may have it in common. */
TEST(the_only_box_undoes_it)
{
	cb_store *s = test_store_open(true);
	cb_box *main = first(s), *fork = must_fork(s, "main", "fork"), *old = must_open(s, "main@-0");
	must_edit_line(fork, 9, "fork");
	merge(main, fork);
	CHECK_OK(cb_restore(main, old, NULL, NULL, &err));
	cb_box_close(old);
	merge(main, fork);
	drop(s, fork, "fork");
	clear(s, main);
	cb_box *a = must_fork(s, "main", "a"), *b = must_fork(s, "main", "b");
	CHECK_OK(cb_undo(main, 0, NULL, &err));
	must_edit_line(main, 1, "on");
	merge(a, main);
	merge(b, main);
	clear(s, main);
	must_edit_line(a, 4, "a");
	must_edit_line(b, 6, "b");
	merge(a, b);
	CHECK_STR(must_read(a, "/work/f"), "main\non\n2\n3\na\n5\nb\n7\n8\n9\n");
	cb_box_close(a);
	cb_box_close(b);
	cb_box_close(main);
	test_store_sound(s);
	cb_store_close(s);
}
