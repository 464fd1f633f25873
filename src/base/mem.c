/* mem.c: the library's allocations, with a switch that lets a test fail the n-th one. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* What malloc itself refuses; refused here so that sanitizers, which abort on it, see only sizes that could be. */
#define SIZE_LIMIT ((size_t)PTRDIFF_MAX - 64)

/* 0: off. 1: this allocation fails, and so do all after it. n > 1: n - 1 more may pass. */
static _Atomic long fail_countdown;

void mem_fail_after(long n)
{
	atomic_store(&fail_countdown, n > 0 ? n : 0);
}

static bool must_fail(void)
{
	long n = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
	while (n > 1)
		if (atomic_compare_exchange_weak(&fail_countdown, &n, n - 1)) return false;
	return n == 1;
}

void *mem_alloc(size_t size)
{
	if (size > SIZE_LIMIT || must_fail()) return NULL;
	return malloc(size ? size : 1);
}

void *mem_alloc_zeroed(size_t size)
{
	if (size > SIZE_LIMIT || must_fail()) return NULL;
	return calloc(1, size ? size : 1);
}

void *mem_realloc(void *old, size_t size)
{
	if (size > SIZE_LIMIT || must_fail()) return NULL;
	return realloc(old, size ? size : 1);
}

void *mem_alloc_aligned(size_t size)
{
	if (size > SIZE_LIMIT || must_fail()) return NULL;
	/* C wants a multiple of the alignment, which also keeps the tail of the last cache line ours. */
	size_t rounded = (size + 63) & ~(size_t)63;
	if (rounded == 0) rounded = 64;
	/* glibc's aligned_alloc looks for room to move in, and so never takes the hole that an aligned block of this size left: between
	 * blocks that stay, one hole more for each. malloc takes it, and what it gives is aligned then. Large blocks have pages of their
	 * own. */
	enum { OWN_PAGES = 128 << 10 };
	void *p = rounded < OWN_PAGES ? malloc(rounded) : NULL;
	if (p && (uintptr_t)p % 64 == 0) return p;
	free(p);
	return aligned_alloc(64, rounded);
}

void *mem_alloc_bytes(size_t size)
{
	enum { ALIGNED_MIN = 4096 };
	return size < ALIGNED_MIN ? mem_alloc(size) : mem_alloc_aligned(size);
}

char *mem_strdup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

void *mem_dup(const void *bytes, size_t size)
{
	void *copy = mem_alloc(size);
	if (copy && size) memcpy(copy, bytes, size);
	return copy;
}
