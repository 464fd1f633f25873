/* hash.c: XXH3, compiled in, so that no shared library is needed at run time. */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64(const void *bytes, size_t size)
{
	return XXH3_64bits(bytes, size);
}

hash128_value hash128(const void *bytes, size_t size)
{
	XXH128_hash_t h = XXH3_128bits(bytes, size);
	return (hash128_value){h.low64, h.high64};
}
