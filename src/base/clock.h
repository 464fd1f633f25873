/* clock.h: time is passed in, so tests are deterministic. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

typedef struct clock_source {
	int64_t (*now_ns)(void *context); /* wall clock, nanoseconds since 1970 */
	void *context;
} clock_source;

extern const clock_source clock_system;

static inline int64_t clock_now(const clock_source *c)
{
	return c->now_ns(c->context);
}

/* For how long something takes: never goes back, means nothing by itself. */
int64_t clock_monotonic_ns(void);

#endif
