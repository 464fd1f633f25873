/* sha1.c: FIPS 180-4, plainly. */
#include "base/sha1.h"

#include <string.h>

void sha1_init(sha1 *s)
{
	*s = (sha1){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

static uint32_t rotate(uint32_t x, unsigned by)
{
	return x << by | x >> (32 - by);
}

static void take_block(uint32_t h[5], const uint8_t block[64])
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
	for (int i = 0; i < 16; i++) {
		memcpy(&w[i], block + 4 * i, 4);
		w[i] = __builtin_bswap32(w[i]);
	}
	for (int i = 16; i < 80; i++) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f, k;
		if (i < 20) f = (b & c) | (~b & d), k = 0x5a827999;
		else if (i < 40) f = b ^ c ^ d, k = 0x6ed9eba1;
		else if (i < 60) f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
		else f = b ^ c ^ d, k = 0xca62c1d6;
		uint32_t t = rotate(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void sha1_add(sha1 *s, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;
	size_t held = s->size % 64;
	s->size += size;
	while (size > 0) {
		size_t n = 64 - held < size ? 64 - held : size;
		if (n < 64) memcpy(s->block + held, p, n);
		if (held + n == 64) take_block(s->h, n == 64 ? p : s->block);
		held = (held + n) % 64;
		p += n;
		size -= n;
	}
}

void sha1_sum(sha1 *s, uint8_t out[SHA1_BYTES])
{
	static const uint8_t padding[64] = {0x80};
	uint64_t bits = __builtin_bswap64(s->size * 8);
	sha1_add(s, padding, 1 + (119 - s->size % 64) % 64);
	sha1_add(s, &bits, sizeof(bits));
	for (int i = 0; i < 5; i++) {
		uint32_t word = __builtin_bswap32(s->h[i]);
		memcpy(out + 4 * i, &word, 4);
	}
}
