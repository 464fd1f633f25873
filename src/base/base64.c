/* base64.c: one text for one byte string: what has several forms elsewhere (line ends, stray bits) is refused. */
#include "base/base64.h"

#include <assert.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_quad(const uint8_t *bytes, size_t size, char to[4])
{
	assert(size >= 1 && size <= 3);
	uint32_t v = (uint32_t)bytes[0] << 16;
	if (size > 1) v |= (uint32_t)bytes[1] << 8;
	if (size > 2) v |= bytes[2];
	to[0] = alphabet[v >> 18];
	to[1] = alphabet[v >> 12 & 63];
	to[2] = size > 1 ? alphabet[v >> 6 & 63] : '=';
	to[3] = size > 2 ? alphabet[v & 63] : '=';
}

static int digit_value(uint8_t c)
{
	if (c >= 'A' && c <= 'Z') return c - 'A';
	if (c >= 'a' && c <= 'z') return c - 'a' + 26;
	if (c >= '0' && c <= '9') return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Gives the number of bytes, 0 when the four characters are not base64. */
static size_t quad_decode(const uint8_t *text, bool last, uint8_t to[3])
{
	size_t digits = !last || text[3] != '=' ? 4 : text[2] != '=' ? 3 : 2;
	uint32_t v = 0;
	for (size_t i = 0; i < digits; i++) {
		int d = digit_value(text[i]);
		if (d < 0) return 0;
		v |= (uint32_t)d << (18 - 6 * i);
	}
	uint32_t stray = digits == 4 ? 0 : digits == 3 ? 0xff : 0xffff;
	if (v & stray) return 0;
	to[0] = (uint8_t)(v >> 16);
	to[1] = (uint8_t)(v >> 8);
	to[2] = (uint8_t)v;
	return digits - 1;
}

cb_code base64_decode(span text, buf *to, cb_error *err)
{
	if (text.size % 4 != 0) return cb_err_set(err, CB_INVALID, "base64 of %zu characters: not a multiple of 4", text.size);
	size_t before = to->size;
	CB_TRY(buf_reserve(to, text.size / 4 * 3, err));
	for (size_t at = 0; at < text.size; at += 4) {
		uint8_t bytes[3];
		size_t n = quad_decode(text.bytes + at, at + 4 == text.size, bytes);
		if (n == 0) {
			to->size = before;
			return cb_err_set(err, CB_INVALID, "not base64 at character %zu", at + 1);
		}
		CB_TRY(buf_append(to, bytes, n, err));
	}
	return CB_OK;
}
