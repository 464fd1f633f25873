/* bytes.h: fixed-width and variable-length integers in byte strings. Big-endian in keys (order), little-endian in values. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "base/buf.h"

static inline void put_be64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, 8);
}
static inline uint64_t get_be64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return __builtin_bswap64(v);
}
static inline void put_le64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, 8);
}
static inline uint64_t get_le64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return v;
}
static inline void put_le32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, 4);
}
static inline uint32_t get_le32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return v;
}
static inline void put_le16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, 2);
}
static inline uint16_t get_le16(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, 2);
	return v;
}

/* LEB128, at most 10 bytes. */
cb_code buf_append_varint(buf *b, uint64_t v, cb_error *err);

/* A reader over hostile bytes: every get checks its bounds; after a failure `bad` stays set and gets return 0 / empty. */
typedef struct reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
} reader;

static inline reader reader_make(span s)
{
	return (reader){s.bytes, s.bytes ? s.bytes + s.size : s.bytes, false};
}
uint64_t reader_varint(reader *r);
uint64_t reader_le64(reader *r);
uint32_t reader_le32(reader *r);
uint8_t reader_byte(reader *r);
span reader_span(reader *r, size_t size);
static inline bool reader_at_end(const reader *r)
{
	return r->at == r->end;
}

/* For qsort of numbers. */
static inline int u64_compare(const void *a, const void *b)
{
	uint64_t x, y;
	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

#endif
