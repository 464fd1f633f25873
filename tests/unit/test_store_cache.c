/* test_store_cache.c: the cache of nodes and contents: bounded, never wrong, references survive eviction. */
#include <pthread.h>

#include "harness/harness.h"
#include "store/cache.h"

static cb_error err;

static blob *make(uint64_t id, size_t size)
{
	blob *b = blob_create(id, NULL, size);
	CHECK(b);
	memset(b->bytes, (int)(id & 0xff), size);
	return b;
}

static void put(cache *c, bool is_node, uint64_t id, size_t size)
{
	blob *b = make(id, size);
	cache_put(c, is_node, b);
	blob_unref(b);
}

TEST(finds_what_was_put_by_kind)
{
	cache *c = NULL;
	CHECK_OK(cache_create(1 << 20, &c, &err));
	CHECK(!cache_get(c, true, 7));
	put(c, true, 7, 10);
	CHECK(!cache_get(c, false, 7));
	put(c, false, 7, 20);
	blob *node = cache_get(c, true, 7), *content = cache_get(c, false, 7);
	CHECK(node && node->size == 10 && content && content->size == 20);
	blob_unref(node);
	blob_unref(content);
	cache_destroy(c);
	cache_destroy(NULL);
}

TEST(stays_within_its_bound_and_keeps_what_is_used)
{
	cache *c = NULL;
	CHECK_OK(cache_create(1 << 20, &c, &err));
	put(c, true, 1, 100);
	blob *held = cache_get(c, true, 1);
	for (uint64_t id = 2; id < 20000; id++) {
		put(c, true, id, 500);
		blob *hot = cache_get(c, true, 2); /* used all the time */
		if (id < 100) CHECK(hot);
		blob_unref(hot);
	}
	blob *hot = cache_get(c, true, 2);
	CHECK(hot);
	blob_unref(hot);
	uint64_t bytes = 0, hits = 0, misses = 0;
	cache_stats(c, &bytes, &hits, &misses);
	CHECK(bytes <= 1 << 20 && bytes > 1 << 19);
	CHECK(held->bytes[99] == 1); /* ours, whatever became of the entry */
	blob_unref(held);
	put(c, true, 50000, 1 << 19); /* too large to keep */
	CHECK(!cache_get(c, true, 50000));
	cache_destroy(c);
}

TEST(places)
{
	cache *c = NULL;
	CHECK_OK(cache_create(1 << 20, &c, &err));
	cache_place p = {1, 2, 3, 4}, got;
	CHECK(!cache_place_get(c, 5, &got));
	cache_place_put(c, 5, &p);
	CHECK(cache_place_get(c, 5, &got) && got.segment == 1 && got.offset == 2 && got.size == 3 && got.sweeps == 4);
	cache_place_put(c, 5 + (1 << 14), &p); /* the same slot */
	CHECK(!cache_place_get(c, 5, &got));
	cache_place_drop(c, 5);
	CHECK(cache_place_get(c, 5 + (1 << 14), &got));
	cache_place_drop(c, 5 + (1 << 14));
	CHECK(!cache_place_get(c, 5 + (1 << 14), &got));
	cache_destroy(c);
}

static void *hammer(void *context)
{
	cache *c = context;
	test_rng r = {(uint64_t)(uintptr_t)&r | 1};
	for (int i = 0; i < 20000; i++) {
		uint64_t id = 1 + test_rand_below(&r, 3000);
		blob *b = cache_get(c, true, id);
		if (b) CHECK(b->id == id && b->bytes[b->size - 1] == (uint8_t)id);
		else put(c, true, id, 300);
		blob_unref(b);
	}
	return NULL;
}

TEST(threads)
{
	cache *c = NULL;
	CHECK_OK(cache_create(1 << 19, &c, &err));
	pthread_t t[4];
	for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, hammer, c) == 0);
	for (int i = 0; i < 4; i++) CHECK(pthread_join(t[i], NULL) == 0);
	cache_destroy(c);
}
