/*
 * A file was open in one handle; another handle changed it and then removed it, and the first one did not look in between: its open file
 * showed the bytes from before the change. What was written to a file before it was removed is what its readers see.
 */
#include "harness/boxes.h"

static cb_error err;

typedef struct world {
	cb_store *s;
	cb_box *h, *o; /* h has the file open, o changes the box */
	cb_file *f;
} world;

static world fresh(bool memory)
{
	world w = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(w.s, "demo", &w.o, &err));
	w.h = must_open(w.s, "demo");
	CHECK_OK(cb_mkdir(w.o, "/work/d", 0755, 0, &err));
	must_write(w.o, "/work/other", "other");
	must_write(w.o, "/work/d/a", "before");
	CHECK_OK(cb_open(w.h, "/work/d/a", CB_READ | CB_WRITE, 0, &w.f, &err));
	return w;
}

static char *through(cb_file *f)
{
	char text[64];
	size_t n = 0;
	CHECK_OK(cb_pread(f, text, sizeof(text) - 1, 0, &n, &err));
	text[n] = 0;
	return test_keep(strdup(text));
}

static void done(world *w)
{
	CHECK_OK(cb_close(w->f, &err));
	cb_box_close(w->h);
	cb_box_close(w->o);
	test_store_sound(w->s);
	CHECK_OK(cb_box_delete(w->s, "demo", &err));
	cb_store_close(w->s);
}

static void restore(world *w, uint64_t seq, const char *path)
{
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%llu", (unsigned long long)seq);
	cb_box *old = must_open(w->s, address);
	CHECK_OK(cb_restore(w->o, old, path, NULL, &err));
	cb_box_close(old);
}

static void by_unlink(world *w)
{
	CHECK_OK(cb_unlink(w->o, "/work/d/a", &err));
}

static void by_rename_over(world *w)
{
	CHECK_OK(cb_rename(w->o, "/work/other", "/work/d/a", 0, &err));
}

static void by_removing_its_folder(world *w)
{
	CHECK_OK(cb_remove(w->o, "/work/d", &err));
}

static void by_restore(world *w)
{
	restore(w, 0, NULL);
}

static void by_merge(world *w)
{
	cb_box *fork = must_fork(w->s, "demo", "fork");
	CHECK_OK(cb_unlink(fork, "/work/d/a", &err));
	CHECK_OK(cb_merge(w->o, fork, NULL, NULL, NULL, &err));
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(w->s, "fork", &err));
}

static void by_two_names(world *w)
{
	CHECK_OK(cb_link(w->o, "/work/d/a", "/work/b", &err));
	CHECK_OK(cb_unlink(w->o, "/work/d/a", &err));
	CHECK_OK(cb_unlink(w->o, "/work/b", &err));
}

static void after_renames(world *w)
{
	CHECK_OK(cb_rename(w->o, "/work/d/a", "/work/b", 0, &err));
	CHECK_OK(cb_rename(w->o, "/work/b", "/work/c", 0, &err));
	CHECK_OK(cb_unlink(w->o, "/work/c", &err));
}

/* So many keys that the steps have no lists of changes. */
static void with_thousands(world *w)
{
	cb_box *t = must_begin(w->o);
	for (int i = 0; i < 2500; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/d/%d", i);
		must_write(t, path, path);
	}
	(void)must_commit(t);
	CHECK_OK(cb_remove(w->o, "/work/d", &err));
}

/* Back, changed and gone again. */
static void twice(world *w)
{
	CHECK_OK(cb_unlink(w->o, "/work/d/a", &err));
	CHECK_OK(cb_undo(w->o, 0, NULL, &err));
	must_write(w->o, "/work/d/a", "and again");
	must_write(w->o, "/work/d/a", "changed");
	CHECK_OK(cb_unlink(w->o, "/work/d/a", &err));
}

static void (*const ways[])(world *w) = {by_unlink,    by_rename_over, by_removing_its_folder, by_restore, by_merge,
                                         by_two_names, after_renames,  with_thousands,         twice};

TEST_BOTH(it_shows_what_was_written_last)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		world w = fresh(memory);
		must_write(w.o, "/work/d/a", "once");
		must_write(w.o, "/work/d/a", "changed");
		CHECK_OK(cb_chmod(w.o, "/work/d/a", 0600, 0, &err));
		ways[i](&w);
		/* As if nobody else had been there meanwhile: not only the last step is looked at. */
		must_write(w.o, "/work/later", "later");
		CHECK_STR(through(w.f), "changed");
		cb_stat_info info = CB_INIT(cb_stat_info);
		CHECK_OK(cb_fstat(w.f, &info, &err));
		CHECK_U64(info.links, 0);
		CHECK_U64(info.mode, 0600);
		done(&w);
	}
}

TEST_BOTH(undone_to_before_it_was)
{
	world w = fresh(memory);
	must_write(w.o, "/work/d/a", "changed");
	CHECK_STR(through(w.f), "changed");
	CHECK_OK(cb_undo(w.o, 0, NULL, &err));
	CHECK_OK(cb_undo(w.o, 0, NULL, &err));
	CHECK(!exists(w.o, "/work/d/a"));
	CHECK_STR(through(w.f), "before");
	done(&w);
}

/* The handle has seen that it is gone; only later it is back, changed and gone again. */
TEST_BOTH(back_and_gone_again_unseen)
{
	world w = fresh(memory);
	must_write(w.o, "/work/d/a", "changed");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	CHECK_STR(through(w.f), "changed");
	CHECK_OK(cb_undo(w.o, 0, NULL, &err));
	must_write(w.o, "/work/d/a", "once more");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	CHECK_STR(through(w.f), "once more");
	/* What was written to it since it went is its own. */
	CHECK_OK(cb_pwrite(w.f, "O", 1, 0, &err));
	CHECK_OK(cb_undo(w.o, 0, NULL, &err));
	must_write(w.o, "/work/d/a", "not this");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	CHECK_STR(through(w.f), "Once more");
	done(&w);
}

TEST_BOTH(beside_prune_and_gc)
{
	world w = fresh(memory);
	cb_prune_options newest = CB_WITH(cb_prune_options, .keep_steps = 1);
	must_write(w.o, "/work/d/a", "changed");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	/* The state before the removal is pruned; what the removal took can still be told by its step. */
	CHECK_OK(cb_prune(w.o, &newest, NULL, &err));
	CHECK_OK(cb_store_gc(w.s, NULL, &err));
	CHECK_STR(through(w.f), "changed");
	must_write(w.o, "/work/later", "later");
	CHECK_OK(cb_prune(w.o, &newest, NULL, &err));
	CHECK_OK(cb_store_gc(w.s, NULL, &err));
	CHECK_STR(through(w.f), "changed");
	done(&w);
}

/* With the step that removed it nobody knows any more what was written to it: the last picture is left. */
TEST_BOTH(its_last_step_was_pruned)
{
	world w = fresh(memory);
	must_write(w.o, "/work/d/a", "changed");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	must_write(w.o, "/work/later", "later");
	CHECK_OK(cb_prune(w.o, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(w.s, NULL, &err));
	CHECK_STR(through(w.f), "before");
	done(&w);
}

/* Seen by a call about something else: from then on it is kept. */
TEST_BOTH(kept_since_the_handle_could_see_it)
{
	world w = fresh(memory);
	must_write(w.o, "/work/d/a", "changed");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	must_write(w.o, "/work/later", "later");
	CHECK_STR(must_read(w.h, "/work/later"), "later");
	CHECK_OK(cb_prune(w.o, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(w.s, NULL, &err));
	CHECK_STR(through(w.f), "changed");
	done(&w);
}

/* A merge through the handle itself changes the file: that is a use of the handle, after which it knows the file as the merge left it. */
TEST_BOTH(merged_by_the_handle_itself)
{
	world w = fresh(memory);
	cb_box *fork = must_fork(w.s, "demo", "fork");
	must_write(fork, "/work/d/a", "merged");
	CHECK_OK(cb_merge(w.h, fork, NULL, NULL, NULL, &err));
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(w.s, "fork", &err));
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	must_write(w.o, "/work/later", "later");
	CHECK_OK(cb_prune(w.o, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(w.s, NULL, &err));
	CHECK_STR(through(w.f), "merged");
	done(&w);
}

/* It comes back with the bytes that the handle saw, so what was written meanwhile lands. */
TEST_BOTH(what_is_written_then_lands)
{
	world w = fresh(memory);
	must_write(w.o, "/work/d/a", "changed");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	CHECK_OK(cb_pwrite(w.f, "C", 1, 0, &err));
	CHECK_OK(cb_undo(w.o, 0, NULL, &err));
	CHECK_OK(cb_fsync(w.f, &err));
	CHECK_STR(must_read(w.o, "/work/d/a"), "Changed");
	done(&w);
}

/* Who took it last decides what closing says of what was written to it. */
TEST_BOTH(taken_by_history_the_second_time)
{
	world w = fresh(memory);
	uint64_t created = must_seq(w.o);
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	CHECK_OK(cb_pwrite(w.f, "B", 1, 0, &err));
	CHECK_OK(cb_fsync(w.f, &err)); /* unlinked by a call */
	CHECK_OK(cb_undo(w.o, 0, NULL, &err));
	restore(&w, created - 1, NULL);
	CHECK_CODE(cb_fsync(w.f, &err), CB_STALE);
	restore(&w, created, NULL);
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	done(&w); /* as in POSIX */
}

/* While the handle's step with another file runs. */
TEST_BOTH(beside_a_running_step)
{
	world w = fresh(memory);
	cb_file *g = NULL;
	CHECK_OK(cb_open(w.h, "/work/other", CB_WRITE, 0, &g, &err));
	CHECK_OK(cb_pwrite(g, "O", 1, 0, &err));
	must_write(w.o, "/work/d/a", "changed");
	CHECK_OK(cb_unlink(w.o, "/work/d/a", &err));
	CHECK_STR(through(w.f), "before"); /* the box as it was when the step began */
	CHECK_OK(cb_fsync(g, &err));
	CHECK_STR(through(w.f), "changed");
	CHECK_OK(cb_close(g, &err));
	done(&w);
}
