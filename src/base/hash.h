/* hash.h: XXH3, the checksum of everything stored and the hash of every table in memory. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *bytes, size_t size);

/* Where the hash stands for the bytes themselves. */
typedef struct hash128_value {
	uint64_t low, high;
} hash128_value;
hash128_value hash128(const void *bytes, size_t size);

static inline uint64_t hash_u64(uint64_t x) /* splitmix finaliser: for tables keyed by counters */
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

#endif
