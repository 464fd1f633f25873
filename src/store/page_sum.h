/*
 * page_sum.h: sums of the database's pages, for the VFS (vfs_base.c, vfs_log.c).
 *
 * Rows have sums, but a row that is not found has none: one flipped bit in a page's count of cells, or in a page that leads to others,
 * makes rows vanish. So the last 8 bytes of every page, which SQLite leaves alone (byte 20 of the file says so), hold a sum of the rest and
 * of the page's number: a page at another's place is found too. The VFS adds it when a page is written into the database file, takes it
 * off and looks at it when one is read.
 *
 * In the log a page has no such sum: SQLite sums up header and page of a frame, and all frames before it, before the VFS sees either. That
 * sum is looked at instead, when a page is read from the log, also for folding it.
 *
 * SQLite never sees a sum: it gets pages with zeros there and writes them with zeros. So a page that another program than cowbox wrote
 * (`sqlite3` folds the log when it closes a database) has none, and counts as such instead of as damaged. What was zeroed by damage looks
 * alike; page_check looks at such a page's cells, and gc looks through the whole database (sqlite_coherent) before it believes one.
 */
#ifndef STORE_PAGE_SUM_H
#define STORE_PAGE_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PAGE_SUM_BYTES = 8,
	PAGE_BYTES_LEAST = 512,
	PAGE_BYTES_MOST = 65536,
	PAGE_RESERVED_AT = 20, /* in the first page: how many bytes at the end of each page SQLite leaves alone */
	PAGE_HEAD_BYTES = 24,  /* of the first page: what page_shape_of needs */
	FRAME_HEADER_BYTES = 24,
	LOG_HEADER_BYTES = 32,
};

typedef struct page_shape {
	uint32_t bytes; /* of a page; 0: not known */
	bool summed;
} page_shape;

/* What the beginning of the first page says; bytes 0: nothing that SQLite would take for a database. */
page_shape page_shape_of(const uint8_t head[PAGE_HEAD_BYTES]);
/* The same, where that stays as it was when the page says nothing. */
void page_shape_learn(page_shape *shape, const uint8_t head[PAGE_HEAD_BYTES]);
static inline bool page_size_is_valid(uint32_t bytes)
{
	return bytes >= PAGE_BYTES_LEAST && bytes <= PAGE_BYTES_MOST && (bytes & (bytes - 1)) == 0;
}

typedef enum page_verdict {
	PAGE_RIGHT,
	PAGE_UNSUMMED,      /* written by another program */
	PAGE_NEVER_WRITTEN, /* zeros: taken and freed again before anybody wrote it. SQLite takes no such page for one that is in use */
	PAGE_WRONG,
} page_verdict;

/* Of a database with sums. */
page_verdict page_check(const uint8_t *page, uint32_t bytes, uint64_t number);
/* Is it the first page of a database with sums, whose mark that it has them was damaged? */
bool page_mark_is_damaged(uint8_t *page, uint32_t bytes);
void page_sum_put(uint8_t *page, uint32_t bytes, uint64_t number);
void page_sum_hide(uint8_t *page, uint32_t bytes);

bool log_header_is_right(const uint8_t header[LOG_HEADER_BYTES]);
/* A frame of the log. `before`: the sum in the header of the frame before it, or of the log. The byte order is that of the machine that
 * made the log: ours is tried first. */
bool frame_is_right(const uint8_t before[8], const uint8_t header[FRAME_HEADER_BYTES], const uint8_t *page, uint32_t bytes);

#endif
