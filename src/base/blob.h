/*
 * blob.h: immutable, reference-counted bytes with an id: a tree node or a file content as the store keeps it.
 *
 * Threads: a blob is never written after it is published, so any thread may read it while it holds a reference.
 */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include <stdatomic.h>

#include "base/span.h"

typedef struct blob {
	_Atomic uint32_t refs;
	_Atomic uint32_t checked; /* set once its format was found sound, so that it is validated only once */
	uint64_t id;
	size_t size;
	uint8_t *bytes; /* in the same allocation; 64-byte aligned when large */
} blob;

blob *blob_create(uint64_t id, const void *bytes, size_t size); /* copies (bytes may be NULL: zeros); NULL: no memory; refs = 1 */
blob *blob_ref(blob *b);
void blob_unref(blob *b); /* accepts NULL */

#endif
