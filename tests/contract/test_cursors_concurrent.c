/*
 * test_cursors_concurrent.c: cursors that go from thread to thread while others write, prune, collect and close. The thread sanitizer
 * looks on.
 */
#include "harness/lists.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WALKERS = 3, ROUNDS = 12 };

typedef struct shared {
	cb_store *s;
	_Atomic bool stop;
	uint64_t seed;
} shared;

static void *change(void *context)
{
	shared *w = context;
	test_rng r = {w->seed + 1};
	cb_box *b = must_open(w->s, "demo");
	while (!atomic_load(&w->stop)) {
		for (int i = 0; i < 20; i++) list_random_change(b, &r);
		(void)cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 5), NULL, NULL);
		(void)cb_store_gc(w->s, NULL, NULL);
	}
	cb_box_close(b);
	return NULL;
}

/* A cursor is opened here, its box is closed, and its end is seen by another thread. */
typedef struct passed {
	list_kind kind;
	cb_cursor *c;
	char *expected;
} passed;

static void *drain(void *context)
{
	passed *p = context;
	char *seen = list_drain(p->kind, p->c);
	CHECK_MSG(strcmp(seen, p->expected) == 0, "%s:\n%s\nand not\n%s", list_name(p->kind), seen, p->expected);
	free(seen);
	cb_cursor_close(p->c);
	return NULL;
}

static void *walk(void *context)
{
	cb_error err = {0};
	shared *w = context;
	for (unsigned round = 0; round < ROUNDS * test_soak(); round++) {
		/* The newest state, pinned: what the visitor is shown and what the cursor gives must be of one moment. */
		cb_box *head = must_open(w->s, "demo"), *b = NULL;
		char address[32];
		cb_stat_info info = CB_INIT(cb_stat_info);
		(void)snprintf(address, sizeof(address), "demo@%" PRIu64, must_seq(head));
		cb_box_close(head);
		if (cb_box_open(w->s, address, &b, NULL) != CB_OK) CHECK_OK(cb_box_open(w->s, "demo@keep", &b, &err)); /* pruned */
		bool whole = cb_stat(b, "/work/a.txt", CB_NOFOLLOW, &info, NULL) == CB_OK && info.type == CB_FILE;
		list_world world = {.s = w->s, .b = b, .from = must_open(w->s, "demo@keep")};
		passed p[LIST_CONFLICTS];
		pthread_t threads[LIST_CONFLICTS];
		size_t count = 0;
		for (int k = 0; k < LIST_CONFLICTS; k++) {
			if ((unsigned)k % 4 != round % 4) continue;
			/* Others may have made something else of it. */
			if (!whole && k != LIST_READDIR && k != LIST_WALK && k != LIST_KV) continue;
			p[count] = (passed){.kind = k};
			cb_code code = list_open(k, &world, &p[count].c, &err);
			CHECK_MSG(code == CB_OK, "%s: %s", list_name(k), err.message);
			p[count].expected = list_visit(k, &world);
			count++;
		}
		cb_box_close(world.from);
		cb_box_close(b);
		for (size_t i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, drain, &p[i]) == 0);
		for (size_t i = 0; i < count; i++) {
			CHECK(pthread_join(threads[i], NULL) == 0);
			free(p[i].expected);
		}
	}
	return NULL;
}

TEST_BOTH(cursors_go_from_thread_to_thread)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	shared w = {.s = test_store_open(memory), .seed = test_seed()};
	list_world world = list_world_make(w.s, &r, 30);
	CHECK_OK(cb_checkpoint_save(world.b, "keep", 0, true, &err));
	list_world_close(&world);
	pthread_t writer, walkers[WALKERS];
	CHECK(pthread_create(&writer, NULL, change, &w) == 0);
	for (int i = 0; i < WALKERS; i++) CHECK(pthread_create(&walkers[i], NULL, walk, &w) == 0);
	for (int i = 0; i < WALKERS; i++) CHECK(pthread_join(walkers[i], NULL) == 0);
	atomic_store(&w.stop, true);
	CHECK(pthread_join(writer, NULL) == 0);
	test_store_sound(w.s);
	cb_store_close(w.s);
}

/* A transaction goes on, and ends, while another thread reads what it was. */
static void *drain_all(void *context)
{
	passed *p = context;
	for (int k = 0; k < LIST_CONFLICTS; k++) (void)drain(&p[k]);
	return NULL;
}

TEST_BOTH(a_transaction_is_read_beside_its_writer)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 20);
	for (unsigned round = 0; round < 4 * test_soak(); round++) {
		list_world in = {.s = s, .b = must_begin(w.b), .from = w.from};
		passed p[LIST_CONFLICTS];
		pthread_t reader;
		for (int i = 0; i < 20; i++) list_random_change(in.b, &r);
		(void)cb_remove(in.b, "/work/a.txt", NULL);
		must_write(in.b, "/work/a.txt", "a\nb\n");
		for (int k = 0; k < LIST_CONFLICTS; k++) {
			p[k] = (passed){.kind = k, .expected = list_visit(k, &in)};
			CHECK_OK(list_open(k, &in, &p[k].c, &err));
		}
		CHECK(pthread_create(&reader, NULL, drain_all, p) == 0);
		for (int i = 0; i < 20; i++) list_random_change(in.b, &r);
		if (round % 2) CHECK_OK(cb_txn_drop(in.b, &err));
		else (void)cb_txn_commit(in.b, &CB_WITH(cb_commit_options, .lost = CB_LOST_DROP), NULL, &err);
		cb_box_close(in.b);
		(void)cb_store_gc(s, NULL, NULL);
		CHECK(pthread_join(reader, NULL) == 0);
		for (int k = 0; k < LIST_CONFLICTS; k++) free(p[k].expected);
		(void)cb_remove(w.b, "/work/a.txt", NULL);
		must_write(w.b, "/work/a.txt", "again");
	}
	list_world_close(&w);
	test_store_sound(s);
	cb_store_close(s);
}
