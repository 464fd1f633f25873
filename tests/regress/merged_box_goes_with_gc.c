/*
 * A box that was merged and then deleted never went once the other box had been restored, however long ago. And where it did go, an undo of
 * the merge, or a state of it that was open, could later make it the common past of two others, which were then refused. It stays while
 * that can be; then it goes.
 */
#include <stdlib.h>

#include "harness/boxes.h"

enum { LARGE = 300000 };

static void write_large(cb_box *b, const char *path, char fill)
{
	cb_error err = {0};
	char *bytes = malloc(LARGE);
	CHECK(bytes != NULL);
	memset(bytes, fill, LARGE);
	CHECK_OK(cb_write_file(b, path, bytes, LARGE, NULL, &err));
	free(bytes);
}

static void roll_back(cb_store *s, cb_box *b, const char *address)
{
	cb_error err = {0};
	cb_box *old = must_open(s, address);
	CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
	cb_box_close(old);
}

typedef struct merged {
	cb_store *s;
	cb_box *main;
} merged;

/* "fork" was merged into main and deleted; main may have been restored before. */
static merged open_merged(bool memory, bool restored)
{
	cb_error err = {0};
	merged m = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(m.s, "main", &m.main, &err));
	must_edit_line(m.main, 0, "main");
	if (restored) {
		must_write(m.main, "/work/trial", "t");
		roll_back(m.s, m.main, "main@-1");
	}
	cb_box *fork = must_fork(m.s, "main", "fork");
	write_large(fork, "/work/scratch", 'x'); /* its own: gone before it is merged */
	CHECK_OK(cb_unlink(fork, "/work/scratch", &err));
	must_edit_line(fork, 9, "fork");
	CHECK_OK(cb_merge(m.main, fork, NULL, NULL, NULL, &err));
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(m.s, "fork", &err));
	return m;
}

static void close_merged(merged *m)
{
	test_store_sound(m->s);
	cb_box_close(m->main);
	cb_store_close(m->s);
}

TEST_BOTH(its_space_comes_back)
{
	cb_error err = {0};
	merged m = open_merged(memory, true);
	cb_gc_result freed = CB_INIT(cb_gc_result);
	cb_box *other = must_fork(m.s, "main@-1", "other"); /* from before the merge */
	must_write(m.main, "/work/later", "l");
	cb_box *again = must_fork(m.s, "main", "again");
	roll_back(m.s, m.main, "main@-2"); /* to before the merge */
	CHECK_OK(cb_store_gc(m.s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 0); /* the merge may yet be undone */
	CHECK_MSG(freed.bytes_freed >= LARGE, "%llu bytes freed", (unsigned long long)freed.bytes_freed);
	CHECK_OK(cb_prune(m.main, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(m.s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 1);
	/* And the merges that come after find what they did before. */
	must_edit_line(again, 5, "again");
	must_edit_line(other, 2, "other");
	CHECK_OK(cb_merge(other, again, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(other, "/work/f"), "main\n1\nother\n3\n4\nagain\n6\n7\n8\nfork\n");
	must_edit_line(m.main, 7, "late");
	CHECK_OK(cb_merge(m.main, other, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(m.main, "/work/f"), "main\n1\nother\n3\n4\nagain\n6\nlate\n8\nfork\n");
	cb_box_close(other);
	cb_box_close(again);
	close_merged(&m);
}

/* Where the merge was undone, states that have it, and the undone line too, have the box as a past of its own. */
static void undo_keeps_it(bool memory, bool collected_before)
{
	cb_error err = {0};
	merged m = open_merged(memory, !collected_before);
	cb_box *a = must_fork(m.s, "main", "a"), *b = must_fork(m.s, "main", "b");
	if (collected_before) CHECK_OK(cb_store_gc(m.s, NULL, &err));
	CHECK_OK(cb_undo(m.main, 0, NULL, &err));
	must_edit_line(m.main, 1, "on");
	CHECK_OK(cb_merge(a, m.main, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(b, m.main, NULL, NULL, NULL, &err));
	CHECK_OK(cb_prune(m.main, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(m.s, NULL, &err));
	must_edit_line(a, 4, "a");
	must_edit_line(b, 6, "b");
	CHECK_OK(cb_merge(a, b, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(a, "/work/f"), "main\non\n2\n3\na\n5\nb\n7\n8\n9\n");
	cb_box_close(a);
	cb_box_close(b);
	close_merged(&m);
}

TEST_BOTH(an_undone_merge_keeps_it)
{
	undo_keeps_it(memory, false);
}

TEST_BOTH(a_merge_undone_later_finds_it)
{
	undo_keeps_it(memory, true);
}

/* Whoever still has a state of it open can merge that, from where the two parted. */
TEST_BOTH(an_open_state_keeps_it)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *main = NULL;
	cb_gc_result freed = CB_INIT(cb_gc_result);
	CHECK_OK(cb_box_create(s, "main", &main, &err));
	must_edit_line(main, 0, "main");
	cb_box *fork = must_fork(s, "main", "fork");
	must_edit_line(fork, 9, "fork");
	CHECK_OK(cb_merge(main, fork, NULL, NULL, NULL, &err));
	must_edit_line(main, 9, "main again");
	must_edit_line(fork, 5, "later");
	cb_box *open = must_open(s, "fork@-0");
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(s, "fork", &err));
	CHECK_OK(cb_prune(main, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 0);
	CHECK_OK(cb_merge(main, open, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(main, "/work/f"), "main\n1\n2\n3\n4\nlater\n6\n7\n8\nmain again\n");
	cb_box_close(open);
	test_store_sound(s);
	cb_box_close(main);
	cb_store_close(s);
}
