/*
 * buf.h: a growable byte buffer that is born with a maximum.
 *
 * BUF_INIT(max) on the stack, buf_done() at the end (AUTO_BUF does it). Appending past max_size fails with CB_LIMIT, out of
 * memory with CB_NOMEM; a failed append leaves the buffer as it was.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/err.h"
#include "base/span.h"

typedef struct buf {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	size_t max_size;
} buf;

#define BUF_INIT(max) ((buf){NULL, 0, 0, (max)})
#define AUTO_BUF ATTR_CLEANUP(buf_done)

void buf_done(buf *b);
void buf_clear(buf *b); /* keeps the memory */
cb_code buf_reserve(buf *b, size_t extra, cb_error *err);
cb_code buf_append(buf *b, const void *bytes, size_t size, cb_error *err);
cb_code buf_append_str(buf *b, const char *s, cb_error *err);
cb_code buf_append_byte(buf *b, uint8_t byte, cb_error *err);
cb_code buf_printf(buf *b, cb_error *err, const char *format, ...) ATTR_PRINTF(3, 4);
/* Grows by n uninitialised bytes and gives their address. */
cb_code buf_extend(buf *b, size_t n, uint8_t **out, cb_error *err);
/* Hands over the bytes (free() them), always followed by a NUL that size does not count. */
cb_code buf_take(buf *b, char **out, size_t *out_size, cb_error *err);

static inline span buf_span(const buf *b)
{
	return span_make(b->bytes, b->size);
}

/* malloc/realloc that can be told to fail: every allocation of the library goes through these two, so that tests reach each
 * failure branch (mem_fail_after below). Free with free(). */
void *mem_alloc(size_t size); /* NULL on failure; size 0 gives a valid pointer */
/* Zeros; cheaper than writing them where it is large. */
void *mem_alloc_zeroed(size_t size);
void *mem_realloc(void *old, size_t size);
void *mem_alloc_aligned(size_t size); /* 64-byte aligned; free() it */
/* For bytes that will be copied: 64-byte aligned from 4 KiB on, where copies into unaligned memory run several times slower on common
 * machines; below that an aligned allocation costs more than it gives (measured: half the time of a small difference). */
void *mem_alloc_bytes(size_t size);
char *mem_strdup(const char *s);
void *mem_dup(const void *bytes, size_t size);
/* The n-th allocation from now (1 = the next) and all after it fail; 0 switches that off. Test use; atomic. */
void mem_fail_after(long n);

#endif
