/*
 * test_cancel_model.c: random calls, ended at random moments, by look or by another thread's clock, against a model: each happened whole or
 * not at all, and what the call says is what happened.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "harness/boxes.h"

enum { NAMES = 12, STATES = 600, ROUNDS = 250, TEXT = 48 };

/* A box: the text of each name, "" when it is not there. */
typedef struct picture {
	char text[NAMES][TEXT];
} picture;

typedef struct world {
	test_rng rng;
	cb_store *s;
	cb_box *b;
	cb_cancel *token;
	picture states[STATES]; /* by step */
	uint64_t head;
	picture next; /* what the box is if the call happened */
	_Atomic long fire_after_us;
	atomic_bool over;
} world;

static cb_error err;

static const char *path_of(size_t name)
{
	static char paths[NAMES][32];
	(void)snprintf(paths[name], sizeof(paths[name]), name % 3 ? "/work/f%zu" : "/work/d/f%zu", name);
	return paths[name];
}

static size_t some_name(world *w)
{
	return (size_t)test_rand_below(&w->rng, NAMES);
}

static void some_text(world *w, char out[TEXT])
{
	(void)snprintf(out, TEXT, "text %" PRIu64, test_rand_below(&w->rng, 1000000));
}

/* ---- calls: each changes w->next and is made on b ---- */

static cb_code call_write(world *w, cb_box *b, cb_error *e)
{
	size_t i = some_name(w);
	some_text(w, w->next.text[i]);
	return cb_write_file(b, path_of(i), w->next.text[i], strlen(w->next.text[i]), &CB_WITH(cb_write_options, .parents = true),
	                     e);
}

static cb_code call_remove(world *w, cb_box *b, cb_error *e)
{
	size_t i = some_name(w);
	if (!w->next.text[i][0]) return call_write(w, b, e);
	w->next.text[i][0] = 0;
	return cb_unlink(b, path_of(i), e);
}

static cb_code call_rename(world *w, cb_box *b, cb_error *e)
{
	size_t i = some_name(w), j = some_name(w);
	if (i == j || !w->next.text[i][0]) return call_write(w, b, e);
	memcpy(w->next.text[j], w->next.text[i], TEXT);
	w->next.text[i][0] = 0;
	return cb_rename(b, path_of(i), path_of(j), CB_PARENTS, e);
}

static cb_code call_copy(world *w, cb_box *b, cb_error *e)
{
	size_t i = some_name(w), j = some_name(w);
	if (i == j || !w->next.text[i][0]) return call_write(w, b, e);
	memcpy(w->next.text[j], w->next.text[i], TEXT);
	return cb_copy(b, path_of(i), path_of(j), CB_PARENTS, e);
}

static cb_code call_txn(world *w, cb_box *b, cb_error *e)
{
	cb_box *t = NULL;
	CB_TRY(cb_txn_begin(b, NULL, &t, e));
	cb_code code = CB_OK;
	for (uint64_t n = 1 + test_rand_below(&w->rng, 5); n > 0 && code == CB_OK; n--)
		code = test_rand_below(&w->rng, 2) ? call_write(w, t, e) : call_rename(w, t, e);
	if (code == CB_OK) code = cb_txn_commit(t, NULL, NULL, e);
	cb_box_close(t);
	return code;
}

static cb_code call_restore(world *w, cb_box *b, cb_error *e)
{
	char address[64];
	cb_box *old = NULL;
	uint64_t seq = test_rand_below(&w->rng, w->head + 1);
	(void)snprintf(address, sizeof(address), "demo@%" PRIu64, seq);
	CB_TRY(cb_box_open(w->s, address, &old, e));
	w->next = w->states[seq];
	cb_code code = cb_restore(b, old, NULL, NULL, e);
	cb_box_close(old);
	return code;
}

static cb_code call_file(world *w, cb_box *b, cb_error *e)
{
	cb_file *f = NULL;
	size_t i = some_name(w);
	some_text(w, w->next.text[i]);
	{
		/* What was written through a file is the handle's, not the call's: it is not taken back. */
		CANCEL_SHIELD;
		CHECK_OK(cb_mkdir(b, "/work/d", 0755, CB_PARENTS, &err));
		CHECK_OK(cb_open(b, path_of(i), CB_CREATE | CB_TRUNCATE | CB_WRITE, 0644, &f, &err));
		CHECK_OK(cb_write(f, w->next.text[i], strlen(w->next.text[i]), &err));
	}
	(void)cb_fsync(f, NULL);
	return cb_close(f, e);
}

/* Takes no more than what is there, and gives it back. */
static cb_code call_upkeep(world *w, cb_box *b, cb_error *e)
{
	(void)b;
	switch (test_rand_below(&w->rng, 3)) {
	case 0:
		return cb_store_gc(w->s, NULL, e);
	case 1:
		return cb_store_vacuum(w->s, e);
	default:
		return cb_store_sync(w->s, e);
	}
}

static cb_code (*const calls[])(world *w, cb_box *b, cb_error *e) = {
	call_write, call_write, call_remove, call_rename, call_copy, call_txn, call_txn, call_restore, call_file, call_upkeep,
};

/* ---- comparing ---- */

static void must_show(world *w, const picture *p, const char *when)
{
	cb_box *b = must_open(w->s, "demo");
	for (size_t i = 0; i < NAMES; i++) {
		bool there = exists(b, path_of(i));
		CHECK_MSG(there == (p->text[i][0] != 0), "%s: %s is %s", when, path_of(i), there ? "there" : "not there");
		if (there) CHECK_STR(must_read(b, path_of(i)), p->text[i]);
	}
	cb_box_close(b);
}

/* Fires when it is told to, after so many microseconds. */
static void *firing(void *context)
{
	world *w = context;
	while (!atomic_load(&w->over)) {
		long us = atomic_exchange(&w->fire_after_us, -1);
		(void)nanosleep(&(struct timespec){0, us >= 0 ? us * 1000 : 50000}, NULL);
		if (us >= 0) cb_cancel_fire(w->token);
	}
	return NULL;
}

static void one_round(world *w)
{
	memset(&err, 0, sizeof(err));
	cb_error why = {0};
	w->next = w->states[w->head];
	cb_cancel_reset(w->token);
	bool by_look = test_rand_below(&w->rng, 4) != 0;
	cancel_fire_at_look(w->token, by_look ? 1 + (long)test_rand_below(&w->rng, 60) : 0);
	cb_limit limit = CB_WITH(cb_limit, .cancel = w->token);
	CHECK_OK(cb_limit_push(&limit, &err));
	if (!by_look) atomic_store(&w->fire_after_us, (long)test_rand_below(&w->rng, 600));
	cb_code code = calls[test_rand_below(&w->rng, ARRAY_LEN(calls))](w, w->b, &why);
	cb_limit_pop();
	/* The other thread may still be about to fire: the next round must not be hit. */
	if (!by_look)
		while (!cb_cancel_is_fired(w->token)) (void)nanosleep(&(struct timespec){0, 20000}, NULL);
	CHECK_MSG(code == CB_OK || code == CB_CANCELLED, "%s (%s)", cb_code_name(code), why.message);
	uint64_t head = must_seq(w->b);
	must_show(w, code == CB_OK ? &w->next : &w->states[w->head], code == CB_OK ? "after success" : "after it was cancelled");
	if (code == CB_CANCELLED) CHECK_U64(head, w->head);
	CHECK(head < STATES);
	/* The steps on the way of one call are not asked for. */
	for (uint64_t seq = w->head + 1; seq <= head; seq++) w->states[seq] = w->next;
	w->head = head;
}

static void run(bool memory)
{
	static world w;
	pthread_t thread;
	w = (world){.rng = {test_seed()}, .fire_after_us = -1};
	w.s = test_store_open(memory);
	CHECK_OK(cb_box_create(w.s, "demo", &w.b, &err));
	must_write(w.b, "/work/d/x", "x");
	w.head = must_seq(w.b);
	CHECK_OK(cb_cancel_create(&w.token, &err));
	CHECK(pthread_create(&thread, NULL, firing, &w) == 0);
	for (unsigned n = 0; n < test_dose(ROUNDS) && w.head < STATES - 10; n++) one_round(&w);
	atomic_store(&w.over, true);
	CHECK(pthread_join(thread, NULL) == 0);
	cb_cancel_free(w.token);
	cb_box_close(w.b);
	test_store_sound(w.s);
	cb_store_close(w.s);
}

TEST_LIMIT(cancelled_or_whole_disk, 120)
{
	run(false);
}

TEST_LIMIT(cancelled_or_whole_memory, 120)
{
	run(true);
}
