/* bytes.c: variable-length integers and the bounds-checked reader. */
#include "base/bytes.h"

#include <assert.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "get_le* and put_le* copy the machine's own order");

enum { VARINT_BYTES_MAX = 10 };

cb_code buf_append_varint(buf *b, uint64_t v, cb_error *err)
{
	uint8_t bytes[VARINT_BYTES_MAX];
	size_t n = 0;
	while (v >= 0x80) {
		bytes[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	bytes[n++] = (uint8_t)v;
	return buf_append(b, bytes, n, err);
}

/* Once bad, a reader stays at its end, so that a loop that asks only reader_at_end also stops. */
static void spoil(reader *r)
{
	r->bad = true;
	r->at = r->end;
}

static const uint8_t *take(reader *r, size_t size)
{
	if (r->bad || size > (size_t)(r->end - r->at)) {
		spoil(r);
		return NULL;
	}
	const uint8_t *p = r->at;
	if (size) r->at += size; /* an empty span has no address to count from */
	return p;
}

uint8_t reader_byte(reader *r)
{
	const uint8_t *p = r->at < r->end ? take(r, 1) : NULL;
	if (!p) spoil(r);
	return p ? *p : 0;
}

uint64_t reader_varint(reader *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = reader_byte(r);
		if (r->bad) return 0;
		/* Refused: bits past the 64th, and a longer form of a shorter number, so that equal values have equal bytes. */
		if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) return v;
	}
	spoil(r);
	return 0;
}

uint64_t reader_le64(reader *r)
{
	const uint8_t *p = take(r, 8);
	return p ? get_le64(p) : 0;
}

uint32_t reader_le32(reader *r)
{
	const uint8_t *p = take(r, 4);
	return p ? get_le32(p) : 0;
}

span reader_span(reader *r, size_t size)
{
	const uint8_t *p = take(r, size);
	return p ? span_make(p, size) : span_make(NULL, 0);
}
