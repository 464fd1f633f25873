/* utf8.c: UTF-8, by the table of well-formed byte sequences of the Unicode standard (table 3-7). */
#include "base/utf8.h"

#include <assert.h>

/* What the second byte may be after a first one: this is where overlong forms, surrogates and too large numbers fall out. */
static void second_range(uint8_t first, uint8_t *out_low, uint8_t *out_high)
{
	*out_low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*out_high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
}

size_t utf8_take(span s, uint32_t *out)
{
	assert(s.size > 0);
	uint8_t first = s.bytes[0];
	if (first < 0x80) {
		*out = first;
		return 1;
	}
	*out = UTF8_BAD;
	if (first < 0xc2 || first > 0xf4) return 1;
	size_t more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
	uint32_t c = first & (0x3fu >> more);
	uint8_t low, high;
	second_range(first, &low, &high);
	for (size_t i = 1; i <= more; i++) {
		if (i == s.size || s.bytes[i] < low || s.bytes[i] > high) return i;
		c = c << 6 | (s.bytes[i] & 0x3fu);
		low = 0x80;
		high = 0xbf;
	}
	*out = c;
	return more + 1;
}

bool utf8_valid(span s)
{
	for (size_t at = 0; at < s.size;) {
		uint32_t c;
		at += utf8_take(span_make(s.bytes + at, s.size - at), &c);
		if (c == UTF8_BAD) return false;
	}
	return true;
}

size_t utf8_plain(span s)
{
	size_t n = 0;
	while (n < s.size && s.bytes[n] >= 0x20 && s.bytes[n] < 0x7f && s.bytes[n] != '"' && s.bytes[n] != '\\') n++;
	return n;
}

size_t utf8_put(uint8_t to[4], uint32_t c)
{
	assert(c <= 0x10ffff && (c < 0xd800 || c > 0xdfff));
	if (c < 0x80) {
		to[0] = (uint8_t)c;
		return 1;
	}
	size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const uint8_t marks[] = {0, 0xc0, 0xe0, 0xf0};
	for (size_t i = more; i > 0; i--) {
		to[i] = (uint8_t)(0x80 | (c & 0x3f));
		c >>= 6;
	}
	to[0] = (uint8_t)(marks[more] | c);
	return more + 1;
}

bool utf8_is_control(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return true;
	return c == 0x61c || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}
