/* blob.c: immutable, reference-counted bytes in one allocation. */
#include "base/blob.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"

/* The bytes begin on the cache line after the header. */
enum { BYTES_OFFSET = 64 };
static_assert(sizeof(blob) <= BYTES_OFFSET, "header and bytes must not share a cache line");

blob *blob_create(uint64_t id, const void *bytes, size_t size)
{
	if (size > SIZE_MAX - BYTES_OFFSET) return NULL;
	blob *b = mem_alloc_bytes(BYTES_OFFSET + size);
	if (!b) return NULL;
	atomic_init(&b->refs, 1);
	atomic_init(&b->checked, 0);
	b->id = id;
	b->size = size;
	b->bytes = (uint8_t *)b + BYTES_OFFSET;
	if (!bytes) {
		memset(b->bytes, 0, size);
	} else if (size) {
		memcpy(b->bytes, bytes, size);
	}
	return b;
}

blob *blob_ref(blob *b)
{
	/* Relaxed suffices: whoever copies a reference holds one already. */
	uint32_t before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	assert(before > 0 && before < UINT32_MAX);
	(void)before;
	return b;
}

void blob_unref(blob *b)
{
	if (!b) return;
	/* Acquire and release: every read through the other references happens before the free. */
	uint32_t before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
	assert(before > 0);
	if (before == 1) free(b);
}
