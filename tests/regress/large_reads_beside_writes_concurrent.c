/*
 * Whether what was read of a segment may be remembered was decided by looking at the running transaction of another thread, without a lock:
 * a data race, which the thread sanitizer sees here.
 */
#include "harness/boxes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 300 << 10, ROUNDS = 60 };

static cb_store *s;
static _Atomic bool stop;

static void *writes(void *unused)
{
	cb_error err = {0};
	cb_box *b = must_open(s, "demo");
	char *bytes = malloc(BYTES);
	for (int i = 0; !atomic_load(&stop); i++) {
		memset(bytes, 'a' + i % 26, BYTES);
		CHECK_OK(cb_write_file(b, i % 2 ? "/work/large" : "/work/small", bytes, i % 2 ? BYTES : 10, NULL, &err));
	}
	free(bytes);
	cb_box_close(b);
	return unused;
}

static void *reads(void *unused)
{
	cb_error err = {0};
	cb_box *b = must_open(s, "demo");
	for (int i = 0; i < ROUNDS; i++) {
		char *bytes = NULL;
		size_t size = 0;
		CHECK_OK(cb_read_file(b, "/work/large", &bytes, &size, &err));
		CHECK(size == BYTES && bytes[0] == bytes[BYTES - 1]);
		cb_free(bytes);
	}
	cb_box_close(b);
	return unused;
}

TEST(large_reads_beside_writes)
{
	cb_error err = {0};
	pthread_t writer, readers[2];
	cb_box *b = NULL;
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	char *bytes = calloc(1, BYTES);
	CHECK_OK(cb_write_file(b, "/work/large", bytes, BYTES, NULL, &err));
	free(bytes);
	CHECK(pthread_create(&writer, NULL, writes, NULL) == 0);
	for (int i = 0; i < 2; i++) CHECK(pthread_create(&readers[i], NULL, reads, NULL) == 0);
	for (int i = 0; i < 2; i++) CHECK(pthread_join(readers[i], NULL) == 0);
	atomic_store(&stop, true);
	CHECK(pthread_join(writer, NULL) == 0);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
