/*
 * What was written to an open file while that was gone, and the file came back: cb_close dropped it when the running step was in conflict
 * over another file, cb_box_close when it came before cb_close. Also: when the step that took the file was pruned, cb_fsync and cb_close
 * said OK of what is in no state.
 */
#include "harness/boxes.h"

static cb_error err;

typedef struct world {
	cb_store *s;
	cb_box *a, *b; /* a has the files open */
	cb_file *f, *g;
} world;

static world fresh(bool memory)
{
	world w = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(w.s, "demo", &w.b, &err));
	must_write(w.b, "/work/f", "old");
	must_write(w.b, "/work/g", "base");
	w.a = must_open(w.s, "demo");
	CHECK_OK(cb_open(w.a, "/work/f", CB_READ | CB_WRITE, 0, &w.f, &err));
	CHECK_OK(cb_open(w.a, "/work/g", CB_READ | CB_WRITE, 0, &w.g, &err));
	return w;
}

static void done(world *w)
{
	CHECK_OK(cb_close(w->f, &err));
	CHECK_OK(cb_close(w->g, &err));
	cb_box_close(w->a);
	cb_box_close(w->b);
	CHECK_OK(cb_box_delete(w->s, "demo", &err));
	test_store_sound(w->s);
	cb_store_close(w->s);
}

/* The running step has a change of g, f is gone and written to; then f is back, and the step is in conflict. */
static world in_conflict(bool memory)
{
	world w = fresh(memory);
	CHECK_OK(cb_unlink(w.b, "/work/f", &err));
	CHECK_OK(cb_pwrite(w.g, "mine", 4, 0, &err));
	CHECK_OK(cb_pwrite(w.f, "NEW", 3, 0, &err));
	CHECK_OK(cb_undo(w.b, 0, NULL, &err));
	must_write(w.b, "/work/g", "theirs");
	return w;
}

static cb_code closed(cb_file **f)
{
	cb_code code = cb_close(*f, &err);
	*f = NULL;
	return code;
}

static void close_box(world *w)
{
	cb_box_close(w->a);
	w->a = NULL;
}

TEST_BOTH(lands_beside_a_step_in_conflict)
{
	enum { TXN, BOX, KEEP, DROP, ENDS };
	for (int end = TXN; end < ENDS; end++) {
		world w = in_conflict(memory);
		CHECK_CODE(closed(&w.f), CB_CONFLICT);
		CHECK_STR(must_read(w.b, "/work/f"), "NEW");
		cb_commit_options how = CB_WITH(cb_commit_options, .prefer = end == TXN ? CB_PREFER_TXN : CB_PREFER_BOX);
		if (end == KEEP) CHECK_OK(cb_txn_keep(w.a, "kept", NULL, &err));
		else if (end == DROP) CHECK_OK(cb_txn_drop(w.a, &err));
		else CHECK_OK(cb_txn_commit(w.a, &how, NULL, &err));
		CHECK_STR(must_read(w.b, "/work/f"), "NEW");
		CHECK_STR(must_read(w.b, "/work/g"), end == TXN ? "mine" : "theirs");
		done(&w);
	}
}

/* The loss is told once and the conflict by every call: so the loss goes first. */
TEST_BOTH(a_loss_is_told_beside_a_step_in_conflict)
{
	world w = in_conflict(memory);
	must_write(w.b, "/work/f", "other");
	CHECK_CODE(closed(&w.f), CB_STALE);
	CHECK(strstr(err.message, "lost"));
	CHECK_CODE(cb_fsync(w.g, &err), CB_CONFLICT);
	CHECK_OK(cb_txn_drop(w.a, &err));
	CHECK_STR(must_read(w.b, "/work/f"), "other");
	done(&w);
}

/* Who still has it open brings it in later. */
TEST_BOTH(the_last_handle_brings_it_in)
{
	world w = in_conflict(memory);
	cb_file *also = NULL;
	CHECK_OK(cb_txn_drop(w.a, &err));
	CHECK_OK(cb_fsync(w.f, &err));
	CHECK_OK(cb_open(w.a, "/work/f", CB_READ, 0, &also, &err));
	CHECK_OK(cb_unlink(w.b, "/work/f", &err));
	CHECK_OK(cb_pwrite(w.g, "MINE", 4, 0, &err));
	CHECK_OK(cb_pwrite(w.f, "TWO", 3, 0, &err));
	CHECK_OK(cb_undo(w.b, 0, NULL, &err));
	must_write(w.b, "/work/g", "THEIRS");
	CHECK_CODE(closed(&w.f), CB_CONFLICT);
	CHECK_STR(must_read(w.b, "/work/f"), "NEW");
	CHECK_OK(cb_close(also, &err));
	CHECK_STR(must_read(w.b, "/work/f"), "TWO");
	CHECK_OK(cb_txn_drop(w.a, &err));
	done(&w);
}

TEST_BOTH(lands_when_the_box_is_closed_first)
{
	world w = fresh(memory);
	CHECK_OK(cb_unlink(w.b, "/work/f", &err));
	CHECK_OK(cb_pwrite(w.f, "NEW", 3, 0, &err));
	CHECK_OK(cb_undo(w.b, 0, NULL, &err));
	close_box(&w);
	CHECK_STR(must_read(w.b, "/work/f"), "NEW");
	CHECK_OK(closed(&w.g));
	done(&w);
}

TEST_BOTH(the_box_closed_in_conflict)
{
	world w = in_conflict(memory);
	close_box(&w);
	CHECK_STR(must_read(w.b, "/work/f"), "NEW");
	CHECK_STR(must_read(w.b, "/work/g"), "theirs");
	CHECK_OK(closed(&w.f));
	done(&w);
}

/* The box handle cannot say it: the file does. */
TEST_BOTH(what_could_not_land_is_told_after_the_box)
{
	enum { OTHER_BYTES, NO_ROOM, BY_UNDO, CASES };
	for (int why = OTHER_BYTES; why < CASES; why++) {
		world w = fresh(memory);
		char large[5000];
		memset(large, 'x', sizeof(large));
		if (why == BY_UNDO) CHECK_OK(cb_undo(w.b, must_seq(w.b) - 1, NULL, &err));
		else CHECK_OK(cb_unlink(w.b, "/work/f", &err));
		CHECK_OK(cb_pwrite(w.f, large, sizeof(large), 0, &err));
		if (why != BY_UNDO) CHECK_OK(cb_undo(w.b, 0, NULL, &err));
		if (why == OTHER_BYTES) must_write(w.b, "/work/f", "other");
		if (why == NO_ROOM) CHECK_OK(cb_box_quota_set(w.b, 1000, 0, 0, &err));
		close_box(&w);
		CHECK_CODE(closed(&w.f), CB_STALE);
		if (why != BY_UNDO) CHECK_STR(must_read(w.b, "/work/f"), why == NO_ROOM ? "old" : "other");
		done(&w);
	}
}

static void forget(world *w)
{
	for (int i = 0; i < 3; i++) CHECK_OK(cb_kv_set(w->b, "k", "v", 1, &err));
	CHECK_OK(cb_prune(w->b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
}

/* seen: the handle was used between the step that took the file and the prune. */
static void taken_and_pruned(bool memory, bool by_undo, bool seen, bool wrote)
{
	world w = fresh(memory);
	char byte;
	size_t n = 0;
	cb_code want = by_undo || !(seen || wrote) ? CB_STALE : CB_OK;
	if (by_undo) CHECK_OK(cb_undo(w.b, must_seq(w.b) - 1, NULL, &err));
	else CHECK_OK(cb_unlink(w.b, "/work/f", &err));
	if (seen) CHECK_OK(cb_pread(w.f, &byte, 1, 0, &n, &err));
	if (wrote) CHECK_OK(cb_pwrite(w.f, "X", 1, 0, &err));
	if (wrote) CHECK_CODE(cb_fsync(w.f, &err), want);
	forget(&w);
	CHECK_OK(cb_pwrite(w.f, "Y", 1, 0, &err));
	CHECK_CODE(cb_fsync(w.f, &err), want);
	forget(&w);
	CHECK_CODE(cb_fsync(w.f, &err), want);
	CHECK_CODE(closed(&w.f), want);
	done(&w);
}

/* Known once, it is known; of what nobody knows no success is said. */
TEST_BOTH(who_took_it_is_known_after_a_prune)
{
	for (int i = 0; i < 8; i++) taken_and_pruned(memory, i & 1, i & 2, i & 4);
}

/* A handle that was not used takes over what another one of the file knows. */
TEST_BOTH(handles_on_one_file_know_the_same)
{
	for (int by_undo = 0; by_undo < 2; by_undo++) {
		world w = fresh(memory);
		cb_file *also = NULL;
		CHECK_OK(cb_open(w.a, "/work/f", CB_READ | CB_WRITE, 0, &also, &err));
		if (by_undo) CHECK_OK(cb_undo(w.b, must_seq(w.b) - 1, NULL, &err));
		else CHECK_OK(cb_unlink(w.b, "/work/f", &err));
		CHECK_OK(cb_pwrite(w.f, "X", 1, 0, &err));
		forget(&w);
		CHECK_OK(closed(&w.f)); /* the other tells */
		CHECK_CODE(cb_fsync(also, &err), by_undo ? CB_STALE : CB_OK);
		CHECK_CODE(cb_close(also, &err), by_undo ? CB_STALE : CB_OK);
		done(&w);
	}
}

TEST_BOTH(unlinked_by_its_own_handle)
{
	world w = fresh(memory);
	CHECK_OK(cb_unlink(w.a, "/work/f", &err));
	forget(&w);
	CHECK_OK(cb_pwrite(w.f, "temporary", 9, 0, &err));
	CHECK_OK(cb_fsync(w.f, &err));
	CHECK_OK(closed(&w.f));
	/* And in a transaction. */
	cb_box *t = must_begin(w.a);
	CHECK_OK(cb_open(t, "/work/g", CB_READ | CB_WRITE, 0, &w.f, &err));
	CHECK_OK(cb_unlink(t, "/work/g", &err));
	CHECK_OK(cb_pwrite(w.f, "temporary", 9, 0, &err));
	CHECK_OK(cb_fsync(w.f, &err));
	CHECK_OK(closed(&w.f));
	cb_box_close(t);
	done(&w);
}

/* Nobody was left to commit it again, and cb_close said OK. */
TEST_BOTH(a_step_that_could_not_be_committed_is_told_after_the_box)
{
	world w = fresh(memory);
	cb_file *h = NULL;
	CHECK_OK(cb_open(w.a, "/work/h", CB_WRITE | CB_CREATE, 0644, &h, &err));
	CHECK_OK(cb_fsync(h, &err));
	CHECK_OK(cb_pwrite(w.g, "much more than there may be", 27, 0, &err));
	CHECK_OK(cb_box_quota_set(w.b, 8, 0, 0, &err));
	close_box(&w);
	CHECK_CODE(closed(&w.g), CB_STALE);
	CHECK(strstr(err.message, "could not be committed"));
	CHECK_OK(closed(&w.f)); /* nothing was written to these */
	CHECK_OK(closed(&h));
	CHECK_STR(must_read(w.b, "/work/g"), "base");
	done(&w);
}
