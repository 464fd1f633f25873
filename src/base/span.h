/* span.h: borrowed bytes. A span never owns; bytes may be NULL only when size is 0. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct span {
	const uint8_t *bytes;
	size_t size;
} span;

static inline span span_make(const void *bytes, size_t size)
{
	return (span){(const uint8_t *)bytes, size};
}

static inline span span_str(const char *s)
{
	return (span){(const uint8_t *)s, s ? strlen(s) : 0};
}

static inline bool span_equal(span a, span b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
}

/* Byte order; a prefix sorts before what it begins. */
static inline int span_compare(span a, span b)
{
	size_t n = a.size < b.size ? a.size : b.size;
	int c = n ? memcmp(a.bytes, b.bytes, n) : 0;
	if (c != 0) return c;
	return a.size < b.size ? -1 : a.size > b.size;
}

static inline bool span_starts(span s, span prefix)
{
	return s.size >= prefix.size && (prefix.size == 0 || memcmp(s.bytes, prefix.bytes, prefix.size) == 0);
}

#endif
