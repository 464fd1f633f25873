/* beside.c: see beside.h. */
#include "harness/beside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "harness/boxes.h"

static pthread_t thread;
static _Atomic bool over;
static int64_t worst_ms;

int64_t beside_now_ms(void)
{
	struct timespec t;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *write_other(void *context)
{
	cb_box *other = must_open(context, "other");
	while (!atomic_load(&over)) {
		int64_t start = beside_now_ms();
		must_write(other, "/work/x", "x");
		int64_t took = beside_now_ms() - start;
		if (took > worst_ms) worst_ms = took;
		(void)usleep(1000);
	}
	cb_box_close(other);
	return NULL;
}

void beside_begin(cb_store *s)
{
	cb_error err = {0};
	CHECK_OK(cb_box_create(s, "other", NULL, &err));
	atomic_store(&over, false);
	worst_ms = 0;
	CHECK(pthread_create(&thread, NULL, write_other, s) == 0);
}

int64_t beside_end(void)
{
	atomic_store(&over, true);
	CHECK(pthread_join(thread, NULL) == 0);
	return worst_ms;
}
