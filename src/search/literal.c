/* literal.c: where a short text stands in a long one. */
#include "search/literal.h"

#include <assert.h>

enum { SLICE_BYTES = 64 << 10 };

/* In slices: a caller asks again behind each find, and the address sanitizer looks at all that memmem might read; over a text with a find
 * in each line that would be the square of its size. */
static const uint8_t *find_in(span text, span needle)
{
	for (size_t at = 0; at + needle.size <= text.size; at += SLICE_BYTES) {
		size_t left = text.size - at, most = SLICE_BYTES + needle.size - 1;
		const uint8_t *p = memmem(text.bytes + at, left < most ? left : most, needle.bytes, needle.size);
		if (p) return p;
	}
	return NULL;
}

size_t literal_find(span text, size_t from, span needle)
{
	assert(needle.size > 0);
	if (from >= text.size || needle.size > text.size - from) return SIZE_MAX;
	span rest = span_make(text.bytes + from, text.size - from);
	const uint8_t *p = needle.size == 1 ? memchr(rest.bytes, needle.bytes[0], rest.size) : find_in(rest, needle);
	return p ? (size_t)(p - text.bytes) : SIZE_MAX;
}
