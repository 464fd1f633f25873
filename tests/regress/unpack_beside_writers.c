/*
 * A step of many files was unpacked under one hold of the writer lock, 16 MiB of records at a time: seconds at 100,000 files. Others write
 * while a box is being unpacked, also while one step of it is.
 */
#include "box/internal.h"
#include "harness/packs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { FILES = 12000 };

static _Atomic bool stop;

static cb_code count_hidden(void *context, const store_box *row, cb_error *err)
{
	(void)err;
	*(unsigned *)context += row->deleted;
	return CB_OK;
}

/* Steps made while the box was there and not yet whole. */
static void *write_beside(void *context)
{
	cb_error err = {0};
	unsigned *between = context;
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "other");
	while (!atomic_load(&stop)) {
		unsigned hidden = 0;
		must_write(b, "/work/f", "x");
		CHECK_OK(store_box_list(s->s, true, count_hidden, &hidden, &err));
		*between += hidden;
	}
	cb_box_close(b);
	cb_store_close(s);
	return NULL;
}

TEST(others_write_while_a_large_step_is_unpacked)
{
	cb_error err = {0};
	char path[64];
	unsigned between = 0;
	pthread_t writer;
	cb_box *b = NULL;
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "other", NULL, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *t = must_begin(b);
	for (int i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/%d/%d", i / 100, i % 100);
		CHECK_OK(cb_write_file(t, path, path, strlen(path), &CB_WITH(cb_write_options, .parents = true), &err));
	}
	(void)must_commit(t);
	pack_bytes p = pack_take(b, NULL);
	CHECK(p.size < LIMIT_PACK_BATCH_BYTES);
	CHECK(pthread_create(&writer, NULL, write_beside, &between) == 0);
	CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
	atomic_store(&stop, true);
	CHECK(pthread_join(writer, NULL) == 0);
	test_note("%u steps beside it", between);
	CHECK(between > 4);
	pack_must_equal(s, "demo", s, "copy");
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
