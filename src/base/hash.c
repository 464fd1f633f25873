/* hash.c: XXH3 of 64 bits, compiled in, so that no shared library is needed at run time. */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64(const void *bytes, size_t size)
{
	return XXH3_64bits(bytes, size);
}
