/* attr.h: compiler attributes and scope-bound clean-up, in one place. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define ATTR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ATTR_WARN_UNUSED __attribute__((warn_unused_result))
#define ATTR_UNUSED __attribute__((unused))
#define ATTR_NOINLINE __attribute__((noinline)) /* of a function whose frame a caller that calls itself must not have */
#define ATTR_CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void attr_free_(void *p)
{
	free(*(void **)p);
}

static inline void attr_close_(const int *fd)
{
	if (*fd >= 0) (void)close(*fd);
}

/* A pointer freed, an fd closed when its scope ends; TAKE_* hand the thing over and leave nothing behind. */
#define AUTO_FREE ATTR_CLEANUP(attr_free_)
#define AUTO_FD ATTR_CLEANUP(attr_close_)
#define TAKE_PTR(p)                         \
	(__extension__({                    \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	}))
#define TAKE_FD(fd)                \
	(__extension__({           \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	}))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
