/*
 * sized.h: structs of callers that begin with their own size (cowbox/types.h).
 *
 * A caller may have been compiled for an older or a newer library. So its structs are copied into ours where a public call begins, and what
 * a call found is copied out where it ends; between the two there are only structs of our own size. `first` is the end of the last member
 * of the layout that was published first: less than that was never right.
 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <stddef.h>

#include "base/err.h"
#include "base/span.h"

#define SIZED_FIRST_(T, last) (offsetof(T, last) + sizeof(((T *)0)->last))

/* SIZED_TAKE(cb_log_options, max_steps, &ours, theirs, err): theirs into ours; what they do not have, or all of it when NULL, is 0.
 * `last` is the last member of the first layout, and stays it when members are added. */
#define SIZED_TAKE(T, last, to, from, err) sized_take(#T, SIZED_FIRST_(T, last), (to), sizeof(T), (from), (err))
/* A struct to be filled, before anything is done; NULL is none. */
#define SIZED_CHECK(T, last, out, err) sized_check(#T, SIZED_FIRST_(T, last), sizeof(T), (out), (err))
/* Fills a struct that was checked; NULL is none. Its own size stays in it. */
#define SIZED_GIVE(out, made) sized_give((out), (made), sizeof(*(made)))

/* Bytes of a caller; a size of CB_STRING is up to their NUL. NULL: none. */
static inline span sized_bytes(const void *bytes, size_t size)
{
	if (!bytes) return (span){0};
	return size == SIZE_MAX ? span_str(bytes) : span_make(bytes, size);
}

cb_code sized_take(const char *name, size_t first, void *to, size_t size, const void *from, cb_error *err);
cb_code sized_check(const char *name, size_t first, size_t size, const void *out, cb_error *err);
void sized_give(void *out, const void *made, size_t size);

#endif
