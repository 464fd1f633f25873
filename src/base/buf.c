/* buf.c: a growable byte buffer with a maximum. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY_MIN = 64 };

void buf_done(buf *b)
{
	free(b->bytes);
	b->bytes = NULL;
	b->size = b->capacity = 0;
}

void buf_clear(buf *b)
{
	b->size = 0;
}

/* realloc would lose the alignment, so growth is always a fresh block and a copy; doubling keeps appends at constant cost. */
static cb_code set_capacity(buf *b, size_t wanted, cb_error *err)
{
	size_t capacity = b->capacity > SIZE_MAX / 2 ? wanted : b->capacity * 2;
	if (capacity > b->max_size) capacity = b->max_size;
	if (capacity < wanted) capacity = wanted;
	if (capacity < CAPACITY_MIN) capacity = CAPACITY_MIN;
	uint8_t *bytes = mem_alloc_bytes(capacity);
	if (!bytes) return cb_err_nomem(err);
	if (b->size) memcpy(bytes, b->bytes, b->size);
	free(b->bytes);
	b->bytes = bytes;
	b->capacity = capacity;
	return CB_OK;
}

cb_code buf_reserve(buf *b, size_t extra, cb_error *err)
{
	assert(b->size <= b->capacity);
	if (b->size > b->max_size || extra > b->max_size - b->size)
		return cb_err_set(err, CB_LIMIT, "%zu bytes and %zu more exceed the buffer's limit of %zu", b->size, extra,
		                  b->max_size);
	if (extra <= b->capacity - b->size) return CB_OK;
	return set_capacity(b, b->size + extra, err);
}

cb_code buf_extend(buf *b, size_t n, uint8_t **out, cb_error *err)
{
	CB_TRY(buf_reserve(b, n, err));
	/* A valid address also for n = 0 in a buffer without memory. */
	if (!b->bytes) CB_TRY(set_capacity(b, CAPACITY_MIN, err));
	*out = b->bytes + b->size;
	b->size += n;
	return CB_OK;
}

cb_code buf_append(buf *b, const void *bytes, size_t size, cb_error *err)
{
	if (size == 0) return CB_OK;
	CB_TRY(buf_reserve(b, size, err));
	memcpy(b->bytes + b->size, bytes, size);
	b->size += size;
	return CB_OK;
}

cb_code buf_append_str(buf *b, const char *s, cb_error *err)
{
	return buf_append(b, s, strlen(s), err);
}

cb_code buf_append_byte(buf *b, uint8_t byte, cb_error *err)
{
	return buf_append(b, &byte, 1, err);
}

cb_code buf_printf(buf *b, cb_error *err, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0) return cb_err_set(err, CB_INVALID, "text cannot be formatted");
	CB_TRY(buf_reserve(b, (size_t)n, err));
	/* vsnprintf ends with a NUL, which must find room although it is not part of the text. */
	if (b->capacity - b->size < (size_t)n + 1) CB_TRY(set_capacity(b, b->size + (size_t)n + 1, err));
	va_start(args, format);
	(void)vsnprintf((char *)b->bytes + b->size, (size_t)n + 1, format, args);
	va_end(args);
	b->size += (size_t)n;
	return CB_OK;
}

cb_code buf_take(buf *b, char **out, size_t *out_size, cb_error *err)
{
	if (b->size == b->capacity) {
		if (b->size == SIZE_MAX) return cb_err_nomem(err);
		CB_TRY(set_capacity(b, b->size + 1, err));
	}
	b->bytes[b->size] = '\0';
	*out = (char *)b->bytes;
	if (out_size) *out_size = b->size;
	b->bytes = NULL;
	b->size = b->capacity = 0;
	return CB_OK;
}
