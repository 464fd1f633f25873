/*
 * checkpoint_with_an_automatic_name.c: what somebody saves as "auto-N" is theirs. Automatic checkpoints were told by their name, so
 * that this one was trimmed away after 32 others, and its step pruned.
 */
#include "base/limits.h"
#include "harness/boxes.h"

typedef struct counts {
	uint64_t automatic, own;
} counts;

static cb_code count(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)err;
	counts *n = context;
	++*(c->automatic ? &n->automatic : &n->own);
	return CB_OK;
}

static counts count_all(cb_box *b)
{
	cb_error err = {0};
	counts n = {0, 0};
	CHECK_OK(cb_checkpoint_list(b, count, &n, &err));
	return n;
}

TEST_BOTH(a_name_like_an_automatic_one_stays)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_checkpoint_save(b, "auto-1", 1, true, &err));
	CHECK_OK(cb_checkpoint_save(b, "auto-9", 1, true, &err));
	CHECK_OK(cb_box_checkpoint_every_set(b, 1, &err));
	for (uint64_t i = 2; i < 60; i++) CHECK_OK(cb_kv_set(b, "k", &i, sizeof(i), &err));
	counts n = count_all(b);
	CHECK_U64(n.automatic, LIMIT_AUTO_CHECKPOINTS);
	CHECK_U64(n.own, 2);
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	cb_box_close(must_open(s, "demo@auto-1"));
	cb_box_close(must_open(s, "demo@auto-9"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(saved_without_a_name)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (uint64_t i = 1; i <= 40; i++) {
		CHECK_OK(cb_kv_set(b, "k", &i, sizeof(i), &err));
		CHECK_OK(cb_checkpoint_save(b, NULL, 0, true, &err));
		CHECK_OK(cb_checkpoint_save(b, NULL, i, true, &err)); /* is there already */
	}
	CHECK_U64(count_all(b).automatic, LIMIT_AUTO_CHECKPOINTS);
	cb_box_close(must_open(s, "demo@auto-40"));
	CHECK_OK(cb_checkpoint_save(b, "auto-41", 40, true, &err));
	CHECK_OK(cb_kv_set(b, "k", "x", 1, &err));
	CHECK_CODE(cb_checkpoint_save(b, NULL, 0, true, &err), CB_EXISTS);
	cb_box_close(b);
	cb_store_close(s);
}
