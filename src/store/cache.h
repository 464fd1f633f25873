/*
 * cache.h: nodes and small contents in memory, by number.
 *
 * What is kept here never changes and its number never comes back, so an entry is right for ever; space is bounded and given back by
 * CLOCK. Threads: every function may be called from any thread.
 */
#ifndef STORE_CACHE_H
#define STORE_CACHE_H

#include "base/blob.h"
#include "base/err.h"

typedef struct cache cache;

cb_code cache_create(size_t max_bytes, cache **out, cb_error *err);
void cache_destroy(cache *c); /* accepts NULL */
/* A reference, or NULL. */
blob *cache_get(cache *c, bool is_node, uint64_t id);
/* Takes a reference of its own. Failing to is not an error: it is a cache. */
void cache_put(cache *c, bool is_node, blob *b);
void cache_stats(cache *c, uint64_t *out_bytes, uint64_t *out_hits, uint64_t *out_misses);

/* Where a large content is, once its sum was found right; valid while the number of sweeps is the same, and for a while: the bytes may be
 * damaged on disk later. */
typedef struct cache_place {
	uint64_t segment, offset, size, sweeps;
	int64_t verified_ns; /* when */
} cache_place;

bool cache_place_get(cache *c, uint64_t content, cache_place *out);
void cache_place_put(cache *c, uint64_t content, const cache_place *place);
void cache_place_drop(cache *c, uint64_t content);

#endif
