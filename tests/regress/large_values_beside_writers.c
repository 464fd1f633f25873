/*
 * The bytes of one large write, append or key-value were put into the store under one hold of the writer lock: others waited half a second
 * for 400 MB. They are put there ahead, in pieces; and when others change the same box meanwhile, not once more.
 */
#include "harness/boxes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LARGE = 48 << 20 };

static _Atomic bool begun, over;

typedef struct beside {
	const char *box;
	unsigned steps; /* made while the large call ran */
} beside;

static void *write_beside(void *context)
{
	beside *w = context;
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, w->box);
	while (!atomic_load(&over)) {
		bool counts = atomic_load(&begun);
		must_write(b, "/work/small", "x");
		w->steps += counts && !atomic_load(&over);
	}
	cb_box_close(b);
	cb_store_close(s);
	return NULL;
}

typedef void (*large_call)(cb_box *b, const char *bytes);

static void write_large(cb_box *b, const char *bytes)
{
	cb_error err = {0};
	uint64_t version = 0;
	CHECK_OK(cb_write_file(b, "/work/large", bytes, LARGE, &CB_WITH(cb_write_options, .out_version = &version), &err));
	cb_stat_info st = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/large", 0, &st, &err));
	CHECK_U64(st.version, version);
}

static void append_large(cb_box *b, const char *bytes)
{
	cb_error err = {0};
	CHECK_OK(cb_write_file(b, "/work/large", bytes, LARGE, &CB_WITH(cb_write_options, .append = true), &err));
}

static void set_large(cb_box *b, const char *bytes)
{
	cb_error err = {0};
	CHECK_OK(cb_kv_set(b, "large", bytes, LARGE, &err));
}

static void others_write(large_call call, const char *box)
{
	cb_error err = {0};
	beside w = {.box = box};
	pthread_t writer;
	cb_box *b = NULL;
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "other", NULL, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	char *bytes = malloc(LARGE), *got = NULL;
	size_t size = 0;
	CHECK(bytes != NULL);
	memset(bytes, 'x', LARGE);
	atomic_store(&begun, false);
	atomic_store(&over, false);
	CHECK(pthread_create(&writer, NULL, write_beside, &w) == 0);
	atomic_store(&begun, true);
	call(b, bytes);
	atomic_store(&over, true);
	CHECK(pthread_join(writer, NULL) == 0);
	test_note("%u steps beside it", w.steps);
	CHECK(w.steps > 8);
	if (call == set_large) CHECK_OK(cb_kv_get(b, "large", &got, &size, &err));
	else CHECK_OK(cb_read_file(b, "/work/large", &got, &size, &err));
	CHECK(size == LARGE && memcmp(got, bytes, LARGE) == 0);
	cb_free(got);
	free(bytes);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(a_write)
{
	others_write(write_large, "other");
}

TEST(an_append)
{
	others_write(append_large, "other");
}

TEST(a_key_value)
{
	others_write(set_large, "other");
}

TEST(a_write_in_the_same_box)
{
	others_write(write_large, "demo");
}

TEST(an_append_in_the_same_box)
{
	others_write(append_large, "demo");
}

TEST(a_key_value_in_the_same_box)
{
	others_write(set_large, "demo");
}
