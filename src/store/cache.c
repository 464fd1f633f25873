/*
 * cache.c: sharded tables of blobs with CLOCK eviction, and a direct-mapped table of places.
 *
 * The table of places is direct-mapped: a collision costs one row lookup and one more sum of a large content, never a wrong answer.
 */
#include "store/cache.h"

#include <pthread.h>

#include "base/buf.h"
#include "base/hash.h"

enum {
	SHARDS = 16,
	FIRST_BUCKETS = 64,
	ENTRY_OVERHEAD_BYTES = 160, /* entry, blob header, allocator */
	PLACES = 1 << 14,
};

typedef struct entry {
	uint64_t key;
	blob *value;
	struct entry *chain;          /* same bucket */
	struct entry *before, *after; /* the clock's ring */
	bool used;
} entry;

typedef struct shard {
	_Alignas(64) pthread_mutex_t mutex;
	entry **buckets;
	size_t bucket_count, count;
	size_t bytes, max_bytes;
	entry *hand;
	uint64_t hits, misses;
} shard;

typedef struct place_slot {
	uint64_t content;
	cache_place place;
} place_slot;

struct cache {
	shard shards[SHARDS];
	pthread_mutex_t places_mutex;
	place_slot *places; /* made when first needed */
};

static uint64_t key_make(bool is_node, uint64_t id)
{
	return id << 1 | (is_node ? 1 : 0);
}

static size_t cost(const blob *b)
{
	return b->size + ENTRY_OVERHEAD_BYTES;
}

cb_code cache_create(size_t max_bytes, cache **out, cb_error *err)
{
	cache *c = mem_alloc_aligned(sizeof *c);
	if (!c) return cb_err_nomem(err);
	memset(c, 0, sizeof *c);
	(void)pthread_mutex_init(&c->places_mutex, NULL);
	for (size_t i = 0; i < SHARDS; i++) {
		(void)pthread_mutex_init(&c->shards[i].mutex, NULL);
		c->shards[i].max_bytes = max_bytes / SHARDS;
	}
	*out = c;
	return CB_OK;
}

void cache_destroy(cache *c)
{
	if (!c) return;
	for (size_t i = 0; i < SHARDS; i++) {
		shard *s = &c->shards[i];
		for (size_t b = 0; b < s->bucket_count; b++) {
			for (entry *e = s->buckets[b], *next; e; e = next) {
				next = e->chain;
				blob_unref(e->value);
				free(e);
			}
		}
		free(s->buckets);
		(void)pthread_mutex_destroy(&s->mutex);
	}
	(void)pthread_mutex_destroy(&c->places_mutex);
	free(c->places);
	free(c);
}

static entry **bucket_of(shard *s, uint64_t hash)
{
	return &s->buckets[(hash >> 4) & (s->bucket_count - 1)]; /* the low bits chose the shard */
}

static entry *find(shard *s, uint64_t key, uint64_t hash)
{
	if (s->bucket_count == 0) return NULL;
	for (entry *e = *bucket_of(s, hash); e; e = e->chain) {
		if (e->key == key) return e;
	}
	return NULL;
}

blob *cache_get(cache *c, bool is_node, uint64_t id)
{
	uint64_t key = key_make(is_node, id), hash = hash_u64(key);
	shard *s = &c->shards[hash % SHARDS];
	blob *found = NULL;
	(void)pthread_mutex_lock(&s->mutex);
	entry *e = find(s, key, hash);
	if (e) {
		e->used = true;
		found = blob_ref(e->value);
		s->hits++;
	} else {
		s->misses++;
	}
	(void)pthread_mutex_unlock(&s->mutex);
	return found;
}

static void ring_insert(shard *s, entry *e)
{
	if (!s->hand) {
		e->before = e->after = e;
		s->hand = e;
		return;
	}
	e->after = s->hand;
	e->before = s->hand->before;
	e->before->after = e;
	s->hand->before = e;
}

static void drop(shard *s, entry *e)
{
	entry **at = bucket_of(s, hash_u64(e->key));
	while (*at != e) at = &(*at)->chain;
	*at = e->chain;
	if (e->after == e) {
		s->hand = NULL;
	} else {
		if (s->hand == e) s->hand = e->after;
		e->before->after = e->after;
		e->after->before = e->before;
	}
	s->bytes -= cost(e->value);
	s->count--;
	blob_unref(e->value);
	free(e);
}

static void make_room(shard *s, size_t wanted)
{
	while (s->hand && s->bytes + wanted > s->max_bytes) {
		entry *e = s->hand;
		s->hand = e->after;
		if (e->used) e->used = false;
		else drop(s, e);
	}
}

static bool grow(shard *s)
{
	if (s->count < s->bucket_count) return true;
	size_t n = s->bucket_count ? s->bucket_count * 2 : FIRST_BUCKETS;
	entry **wider = mem_alloc(n * sizeof *wider);
	if (!wider) return s->bucket_count != 0;
	memset(wider, 0, n * sizeof *wider);
	for (size_t b = 0; b < s->bucket_count; b++) {
		for (entry *e = s->buckets[b], *next; e; e = next) {
			next = e->chain;
			entry **to = &wider[(hash_u64(e->key) >> 4) & (n - 1)];
			e->chain = *to;
			*to = e;
		}
	}
	free(s->buckets);
	s->buckets = wider;
	s->bucket_count = n;
	return true;
}

void cache_put(cache *c, bool is_node, blob *b)
{
	uint64_t key = key_make(is_node, b->id), hash = hash_u64(key);
	shard *s = &c->shards[hash % SHARDS];
	if (cost(b) > s->max_bytes / 4) return;
	(void)pthread_mutex_lock(&s->mutex);
	if (!find(s, key, hash) && grow(s)) {
		entry *e = mem_alloc(sizeof *e);
		if (e) {
			make_room(s, cost(b));
			entry **bucket = bucket_of(s, hash);
			*e = (entry){.key = key, .value = blob_ref(b), .chain = *bucket};
			*bucket = e;
			ring_insert(s, e);
			s->bytes += cost(b);
			s->count++;
		}
	}
	(void)pthread_mutex_unlock(&s->mutex);
}

void cache_stats(cache *c, uint64_t *out_bytes, uint64_t *out_hits, uint64_t *out_misses)
{
	*out_bytes = *out_hits = *out_misses = 0;
	for (size_t i = 0; i < SHARDS; i++) {
		shard *s = &c->shards[i];
		(void)pthread_mutex_lock(&s->mutex);
		*out_bytes += s->bytes;
		*out_hits += s->hits;
		*out_misses += s->misses;
		(void)pthread_mutex_unlock(&s->mutex);
	}
}

/* ---- places ---- */

bool cache_place_get(cache *c, uint64_t content, cache_place *out)
{
	(void)pthread_mutex_lock(&c->places_mutex);
	const place_slot *p = c->places ? &c->places[content % PLACES] : NULL;
	bool found = p && p->content == content;
	if (found) *out = p->place;
	(void)pthread_mutex_unlock(&c->places_mutex);
	return found;
}

void cache_place_put(cache *c, uint64_t content, const cache_place *place)
{
	(void)pthread_mutex_lock(&c->places_mutex);
	if (!c->places) {
		c->places = mem_alloc(PLACES * sizeof *c->places);
		if (c->places) memset(c->places, 0, PLACES * sizeof *c->places);
	}
	if (c->places) c->places[content % PLACES] = (place_slot){content, *place};
	(void)pthread_mutex_unlock(&c->places_mutex);
}

void cache_place_drop(cache *c, uint64_t content)
{
	(void)pthread_mutex_lock(&c->places_mutex);
	if (c->places && c->places[content % PLACES].content == content) c->places[content % PLACES].content = 0;
	(void)pthread_mutex_unlock(&c->places_mutex);
}
