/* sha1.h: SHA-1, by which git names what it stores. For names only: nothing here relies on nobody finding two texts of one sum. */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { SHA1_BYTES = 20 };

typedef struct sha1 {
	uint32_t h[5];
	uint64_t size; /* bytes taken so far */
	uint8_t block[64];
} sha1;

void sha1_init(sha1 *s);
void sha1_add(sha1 *s, const void *bytes, size_t size);
/* Ends it: *s is not to be used again before sha1_init(). */
void sha1_sum(sha1 *s, uint8_t out[SHA1_BYTES]);

#endif
