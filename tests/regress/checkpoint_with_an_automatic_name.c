/*
 * checkpoint_with_an_automatic_name.c: what somebody saves as "auto-N" is theirs. Automatic checkpoints were told by their name, so
 * that this one was trimmed away after 32 others, and its step pruned.
 */
#include "base/limits.h"
#include "harness/packs.h"

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

static cb_code find(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)err;
	cb_checkpoint *wish = context;
	if (strcmp(c->name, wish->name) == 0) wish->seq = c->seq;
	return CB_OK;
}

static void must_name(cb_box *b, const char *name, uint64_t seq)
{
	cb_error err = {0};
	cb_checkpoint found = CB_WITH(cb_checkpoint, .seq = UINT64_MAX);
	(void)snprintf(found.name, sizeof(found.name), "%s", name);
	CHECK_OK(cb_checkpoint_list(b, find, &found, &err));
	CHECK_U64(found.seq, seq);
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
	CHECK_OK(cb_checkpoint_save(b, NULL, 0, true, &err));
	CHECK_OK(cb_checkpoint_save(b, NULL, 41, true, &err)); /* is there already */
	must_name(b, "auto-41", 40);
	must_name(b, "auto-41-2", 41);
	CHECK_CODE(cb_box_open(s, "demo@auto-41-3", &(cb_box *){NULL}, &err), CB_NOTFOUND);
	cb_box_close(b);
	cb_store_close(s);
}

/* One of those made every so many steps was left out, and nobody told, when its name was another step's. */
TEST_BOTH(every_so_many_steps_though_the_name_is_taken)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_checkpoint_save(b, "auto-3", 1, true, &err));
	CHECK_OK(cb_checkpoint_save(b, "auto-6", 1, true, &err));
	CHECK_OK(cb_checkpoint_save(b, "auto-6-2", 1, true, &err));
	CHECK_OK(cb_box_checkpoint_every_set(b, 3, &err));
	for (uint64_t i = 2; i <= 9; i++) CHECK_OK(cb_kv_set(b, "k", &i, sizeof(i), &err));
	must_name(b, "auto-3", 1);
	must_name(b, "auto-3-2", 3);
	must_name(b, "auto-6", 1);
	must_name(b, "auto-6-2", 1);
	must_name(b, "auto-6-3", 6);
	must_name(b, "auto-9", 9);
	counts n = count_all(b);
	CHECK_U64(n.automatic, 3);
	CHECK_U64(n.own, 3);
	/* They go through a pack, whichever comes first in it. */
	CHECK_OK(cb_checkpoint_save(b, "auto-12", 9, true, &err));
	for (uint64_t i = 10; i <= 12; i++) CHECK_OK(cb_kv_set(b, "k", &i, sizeof(i), &err));
	CHECK_OK(cb_checkpoint_delete(b, "auto-9", &err));
	CHECK_OK(cb_checkpoint_save(b, "auto-9", 12, true, &err));
	CHECK_OK(cb_checkpoint_save(b, NULL, 9, true, &err));
	pack_bytes p = pack_take(b, NULL);
	CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
	cb_box *copy = must_open(s, "copy");
	must_name(copy, "auto-12", 9);
	must_name(copy, "auto-12-2", 12);
	must_name(copy, "auto-9", 12);
	must_name(copy, "auto-9-2", 9);
	must_name(copy, "auto-3-2", 3);
	cb_box_close(copy);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
