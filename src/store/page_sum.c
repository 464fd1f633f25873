/* page_sum.c: see page_sum.h. */
#include "store/page_sum.h"

#include <string.h>

#include "base/hash.h"

enum {
	SIZE_AT = 16, /* of a page, in the first page */
	FIRST_HEAD_BYTES = 100,
};

static uint32_t be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

page_shape page_shape_of(const uint8_t head[PAGE_HEAD_BYTES])
{
	page_shape none = {0};
	if (memcmp(head, "SQLite format 3", 16) != 0) return none;
	uint32_t bytes = be16(head + SIZE_AT) == 1 ? PAGE_BYTES_MOST : be16(head + SIZE_AT);
	return page_size_is_valid(bytes) ? (page_shape){bytes, head[PAGE_RESERVED_AT] == PAGE_SUM_BYTES} : none;
}

void page_shape_learn(page_shape *shape, const uint8_t head[PAGE_HEAD_BYTES])
{
	page_shape now = page_shape_of(head);
	if (now.bytes) *shape = now;
}

/* ---- pages ---- */

/* Never 0, which says that there is none. */
static uint64_t sum_of(const uint8_t *page, uint32_t bytes, uint64_t number)
{
	uint64_t sum = hash64(page, bytes - PAGE_SUM_BYTES) ^ hash_u64(number);
	return sum ? sum : 1;
}

static uint64_t sum_get(const uint8_t *page, uint32_t bytes)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < PAGE_SUM_BYTES; i++) sum |= (uint64_t)page[bytes - PAGE_SUM_BYTES + i] << 8 * i;
	return sum;
}

void page_sum_put(uint8_t *page, uint32_t bytes, uint64_t number)
{
	uint64_t sum = sum_of(page, bytes, number);
	for (unsigned i = 0; i < PAGE_SUM_BYTES; i++) page[bytes - PAGE_SUM_BYTES + i] = (uint8_t)(sum >> 8 * i);
}

void page_sum_hide(uint8_t *page, uint32_t bytes)
{
	memset(page + bytes - PAGE_SUM_BYTES, 0, PAGE_SUM_BYTES);
}

/*
 * A sector of zeros at a page's end would pass for a page without a sum. Each cell begins with something that is not 0: the size of its
 * row, or the number of the page it leads to. Inside a row the row's own sum tells. Pages of other kinds have no cells.
 */
static bool cells_are_there(const uint8_t *page, uint32_t bytes, uint64_t number)
{
	enum { INDEX_INNER = 2, TABLE_INNER = 5, INDEX_LEAF = 10, TABLE_LEAF = 13 };
	uint32_t at = number == 1 ? FIRST_HEAD_BYTES : 0, usable = bytes - PAGE_SUM_BYTES;
	uint8_t kind = page[at];
	if (kind != INDEX_INNER && kind != TABLE_INNER && kind != INDEX_LEAF && kind != TABLE_LEAF) return true;
	bool inner = kind == INDEX_INNER || kind == TABLE_INNER;
	uint32_t cells = be16(page + at + 3), first = at + (inner ? 12 : 8);
	if (first + 2 * cells > usable) return false;
	for (uint32_t i = 0; i < cells; i++) {
		uint32_t cell = be16(page + first + 2 * i);
		if (cell < first + 2 * cells || cell + 4 > usable) return false;
		static const uint8_t nothing[4];
		if (inner ? memcmp(page + cell, nothing, 4) == 0 : page[cell] == 0) return false;
	}
	return true;
}

page_verdict page_check(const uint8_t *page, uint32_t bytes, uint64_t number)
{
	uint64_t sum = sum_get(page, bytes);
	if (sum != 0) return sum == sum_of(page, bytes, number) ? PAGE_RIGHT : PAGE_WRONG;
	if (page[0] == 0 && memcmp(page, page + 1, bytes - 1) == 0) return PAGE_NEVER_WRITTEN;
	return cells_are_there(page, bytes, number) ? PAGE_UNSUMMED : PAGE_WRONG;
}

bool page_mark_is_damaged(uint8_t *page, uint32_t bytes)
{
	uint8_t mark = page[PAGE_RESERVED_AT];
	if (mark == PAGE_SUM_BYTES || sum_get(page, bytes) == 0) return false;
	page[PAGE_RESERVED_AT] = PAGE_SUM_BYTES;
	bool damaged = sum_get(page, bytes) == sum_of(page, bytes, 1);
	page[PAGE_RESERVED_AT] = mark;
	return damaged;
}

/* ---- frames (walformat.html of SQLite's documentation) ---- */

static inline uint32_t word(const uint8_t *p, bool big_endian)
{
	return big_endian ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
	                  : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static inline void sum_words(const uint8_t *bytes, size_t size, bool big_endian, uint32_t *a, uint32_t *b)
{
	uint32_t x = *a, y = *b;
	/* In this order each addition waits for one other only. */
#pragma GCC unroll 8
	for (size_t i = 0; i < size; i += 8) {
		x = (x + word(bytes + i, big_endian)) + y;
		y = (y + word(bytes + i + 4, big_endian)) + x;
	}
	*a = x;
	*b = y;
}

static bool frame_sum_is(const uint8_t before[8], const uint8_t header[FRAME_HEADER_BYTES], const uint8_t *page, uint32_t bytes,
                         bool big_endian)
{
	enum { SUMMED_BYTES = 8, SUM_AT = 16 };
	uint32_t a = word(before, true), b = word(before + 4, true);
	if (big_endian) {
		sum_words(header, SUMMED_BYTES, true, &a, &b);
		sum_words(page, bytes, true, &a, &b);
	} else {
		sum_words(header, SUMMED_BYTES, false, &a, &b);
		sum_words(page, bytes, false, &a, &b);
	}
	return a == word(header + SUM_AT, true) && b == word(header + SUM_AT + 4, true);
}

bool log_header_is_right(const uint8_t header[LOG_HEADER_BYTES])
{
	enum { SUMMED_BYTES = 24, MAGIC = 0x377f0682 };
	uint32_t a = 0, b = 0, magic = word(header, true);
	if ((magic & ~1u) != MAGIC) return false;
	sum_words(header, SUMMED_BYTES, magic & 1, &a, &b);
	return a == word(header + SUMMED_BYTES, true) && b == word(header + SUMMED_BYTES + 4, true);
}

/* Which byte order the log's maker had stands in the log's header; here the other one is tried when the usual one does not fit. */
bool frame_is_right(const uint8_t before[8], const uint8_t header[FRAME_HEADER_BYTES], const uint8_t *page, uint32_t bytes)
{
	return frame_sum_is(before, header, page, bytes, false) || frame_sum_is(before, header, page, bytes, true);
}
