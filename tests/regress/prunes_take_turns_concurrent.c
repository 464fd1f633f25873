/* Two prunes of different boxes at once: one was refused as if a gc ran. They take turns; only one called back from a gc is refused. */
#include <pthread.h>
#include <unistd.h>

#include "box/internal.h"
#include "harness/boxes.h"

static cb_error err;
static cb_store *s;
static cb_box *b;

static void begin(void)
{
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int i = 0; i < 10; i++) must_write(b, "/work/x", i % 2 ? "odd" : "even");
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static cb_code prune(cb_box *box, uint64_t *pruned, cb_error *e)
{
	return cb_prune(box, &CB_WITH(cb_prune_options, .keep_steps = 1), pruned, e);
}

static int held[2];

static void *hold_a_while(void *of)
{
	store *its = of;
	cb_error e = {0};
	CHECK_OK(store_gc_lock(its, &e));
	CHECK(write(held[1], "h", 1) == 1);
	(void)usleep(300000);
	store_gc_unlock(its);
	return NULL;
}

/* Somebody has the lock when the prune begins. */
static void beside(cb_store *of)
{
	pthread_t other;
	char byte = 0;
	uint64_t pruned = 0;
	CHECK(pipe(held) == 0 && pthread_create(&other, NULL, hold_a_while, of->s) == 0);
	CHECK(read(held[0], &byte, 1) == 1);
	CHECK_OK(prune(b, &pruned, &err));
	CHECK(pruned > 0);
	CHECK(pthread_join(other, NULL) == 0);
}

TEST(a_prune_waits_for_another_thread)
{
	begin();
	beside(s);
	end();
}

TEST(a_prune_waits_for_another_handle)
{
	begin();
	cb_store *again = test_store_reopen();
	beside(again);
	cb_store_close(again);
	end();
}

TEST(a_prune_inside_a_gc_is_refused_at_once)
{
	begin();
	CHECK_OK(store_gc_lock(s->s, &err));
	CHECK_CODE(prune(b, NULL, &err), CB_BUSY);
	CHECK_MSG(strstr(err.message, "try again when it has ended"), "%s", err.message);
	store_gc_unlock(s->s);
	CHECK_OK(prune(b, NULL, &err));
	end();
}

static void *prune_often(void *of)
{
	cb_error e = {0};
	for (int i = 0; i < 20; i++) {
		must_write(of, "/work/x", i % 2 ? "odd" : "even");
		CHECK_OK(prune(of, NULL, &e));
	}
	return NULL;
}

TEST(prunes_of_two_boxes_at_once)
{
	begin();
	cb_box *c = NULL;
	pthread_t other;
	CHECK_OK(cb_box_create(s, "other", &c, &err));
	CHECK(pthread_create(&other, NULL, prune_often, c) == 0);
	(void)prune_often(b);
	CHECK(pthread_join(other, NULL) == 0);
	cb_box_close(c);
	end();
}
