/*
 * automatic_checkpoints_in_packs.c: automatic checkpoints come out of a pack as automatic ones. They came out as if somebody had named
 * them, so that they never gave way to newer ones: packed and unpacked often enough, a box kept hundreds.
 */
#include "base/bytes.h"
#include "base/limits.h"
#include "box/pack.h"
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

static void change(cb_box *b, unsigned times)
{
	cb_error err = {0};
	for (unsigned i = 0; i < times; i++) CHECK_OK(cb_kv_set(b, "k", &(char){(char)(must_seq(b) % 100)}, 1, &err));
}

TEST_BOTH(they_give_way)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_checkpoint_save(b, "auto-1", 1, true, &err)); /* somebody's own */
	CHECK_OK(cb_checkpoint_save(b, "mark", 1, true, &err));
	CHECK_OK(cb_box_checkpoint_every_set(b, 1, &err));
	change(b, LIMIT_AUTO_CHECKPOINTS);
	pack_bytes p = pack_take(b, NULL);
	cb_pack_info info = CB_INIT(cb_pack_info);
	CHECK_OK(pack_give(s, &p, "copy", &info, &err));
	CHECK_U64(info.checkpoints, LIMIT_AUTO_CHECKPOINTS + 2);
	pack_must_equal(s, "demo", s, "copy");
	cb_box *copy = must_open(s, "copy");
	change(copy, LIMIT_AUTO_CHECKPOINTS);
	counts n = count_all(copy);
	CHECK_U64(n.automatic, LIMIT_AUTO_CHECKPOINTS);
	CHECK_U64(n.own, 2);
	test_store_sound(s);
	cb_box_close(copy);
	cb_box_close(b);
	cb_store_close(s);
}

/* Readers that do not know the mark are told by the format of the pack; packs without such checkpoints are theirs as before. */
TEST(format)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_checkpoint_save(b, "mark", 0, true, &err));
	pack_bytes p = pack_take(b, NULL);
	CHECK_U64(get_le32(p.bytes + 8), PACK_FORMAT_FIRST);
	CHECK_OK(cb_checkpoint_save(b, NULL, 1, true, &err));
	p = pack_take(b, NULL);
	CHECK_U64(get_le32(p.bytes + 8), PACK_FORMAT_AUTOMATIC);
	pack_bytes alone = pack_take(b, &CB_WITH(cb_pack_options, .no_history = true));
	CHECK_U64(get_le32(alone.bytes + 8), PACK_FORMAT_FIRST);
	cb_box *old = must_open(s, "demo@0"); /* before any checkpoint */
	pack_bytes first = pack_take(old, NULL);
	CHECK_U64(get_le32(first.bytes + 8), PACK_FORMAT_FIRST);
	cb_box_close(old);
	cb_box_close(b);
	cb_store_close(s);
}

static size_t find(const pack_records *r, uint8_t type)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->all[i].type == type) return i;
	test_fail(__FILE__, __LINE__, "no record of type %c", type);
}

static void must_refuse(cb_store *s, const pack_records *r, const char *why)
{
	cb_error err = {0};
	pack_bytes p = pack_join(r, true);
	cb_code code = pack_give(s, &p, "copy", NULL, &err);
	CHECK_CODE(code, CB_CORRUPT);
	CHECK_MSG(strstr(err.message, why) != NULL, "%s", err.message);
	pack_must_be_whole(s, "copy", code);
	free(p.bytes);
}

TEST(lies)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(true), *t = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_checkpoint_save(b, "auto-9", 1, true, &err));
	CHECK_OK(cb_checkpoint_save(b, NULL, 1, true, &err));
	pack_bytes p = pack_take(b, NULL);
	pack_records r = pack_split(&p);
	pack_record_view *v = &r.all[find(&r, PACK_AUTOMATIC)], *own = &r.all[find(&r, PACK_CHECKPOINT)];
	CHECK_U64(v->size, 16);
	r.format = PACK_FORMAT_FIRST;
	must_refuse(t, &r, "unknown kind");
	r.format = PACK_FORMAT_AUTOMATIC;
	v->size = 15;
	must_refuse(t, &r, "a checkpoint is malformed");
	v->bytes = realloc(v->bytes, 17);
	v->bytes[16] = 'x';
	v->size = 17;
	must_refuse(t, &r, "a checkpoint is malformed");
	v->size = 16;
	put_le64(v->bytes, 2);
	must_refuse(t, &r, "a checkpoint is malformed");
	put_le64(v->bytes, 1);
	own->bytes[own->size - 1] = '1';
	must_refuse(t, &r, "one name");
	own->bytes[own->size - 1] = '2';
	pack_bytes good = pack_join(&r, true);
	CHECK_OK(pack_give(t, &good, "copy", NULL, &err));
	free(good.bytes);
	pack_records_free(&r);
	test_store_sound(t);
	cb_box_close(b);
	cb_store_close(t);
	cb_store_close(s);
}
