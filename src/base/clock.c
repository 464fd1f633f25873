/* clock.c: the wall clock. */
#include "base/clock.h"

#include <time.h>

static int64_t system_now_ns(void *context)
{
	(void)context;
	struct timespec now = {0};
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const clock_source clock_system = {system_now_ns, NULL};

int64_t clock_monotonic_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
