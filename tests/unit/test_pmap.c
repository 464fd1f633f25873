/* test_pmap.c: the persistent map: contents, sharing, order, failed allocations. */
#include "harness/harness.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "tree/pmap.h"

static span number_key(uint32_t n, uint8_t *room)
{
	room[0] = (uint8_t)(n >> 24);
	room[1] = (uint8_t)(n >> 16);
	room[2] = (uint8_t)(n >> 8);
	room[3] = (uint8_t)n;
	return span_make(room, 4);
}

TEST(empty)
{
	pmap m = PMAP_EMPTY;
	span out;
	pmap_cursor c;
	CHECK_U64(pmap_count(&m), 0);
	CHECK(pmap_get(&m, span_str("a"), &out) == PMAP_ABSENT);
	pmap_seek(&c, &m, span_str(""));
	bool tombstone;
	CHECK(!pmap_cursor_get(&c, &out, &out, &tombstone));
	pmap_cursor_next(&c);
	pmap second = pmap_ref(&m);
	pmap_done(&second);
	pmap_done(&m);
}

TEST(values_and_tombstones)
{
	cb_error err;
	pmap m = PMAP_EMPTY;
	span out;
	CHECK_OK(pmap_put(&m, span_str("a"), span_str("one"), &err));
	CHECK_OK(pmap_put(&m, span_str("b"), span_make(NULL, 0), &err));
	CHECK_OK(pmap_put_tombstone(&m, span_str("c"), &err));
	CHECK_OK(pmap_put(&m, span_make(NULL, 0), span_str("empty key"), &err));
	CHECK_U64(pmap_count(&m), 4);
	CHECK(pmap_get(&m, span_str("a"), &out) == PMAP_VALUE && span_equal(out, span_str("one")));
	CHECK(pmap_get(&m, span_str("b"), &out) == PMAP_VALUE && out.size == 0 && out.bytes);
	CHECK(pmap_get(&m, span_str("c"), &out) == PMAP_TOMBSTONE);
	CHECK(pmap_get(&m, span_str(""), &out) == PMAP_VALUE && out.size == 9);

	CHECK_OK(pmap_put_tombstone(&m, span_str("a"), &err));
	CHECK_OK(pmap_put(&m, span_str("c"), span_str("three"), &err));
	CHECK_OK(pmap_forget(&m, span_str("b"), &err));
	CHECK_OK(pmap_forget(&m, span_str("not there"), &err));
	CHECK_U64(pmap_count(&m), 3);
	CHECK(pmap_get(&m, span_str("a"), &out) == PMAP_TOMBSTONE);
	CHECK(pmap_get(&m, span_str("b"), &out) == PMAP_ABSENT);
	CHECK(pmap_get(&m, span_str("c"), &out) == PMAP_VALUE && span_equal(out, span_str("three")));
	pmap_done(&m);
}

/* A map's own bytes may be put into it again: they are copied before the old node goes. */
TEST(put_of_its_own_bytes)
{
	cb_error err;
	pmap m = PMAP_EMPTY;
	span out;
	CHECK_OK(pmap_put(&m, span_str("key"), span_str("value"), &err));
	CHECK(pmap_get(&m, span_str("key"), &out) == PMAP_VALUE);
	CHECK_OK(pmap_put(&m, span_str("key"), out, &err));
	CHECK(pmap_get(&m, span_str("key"), &out) == PMAP_VALUE && span_equal(out, span_str("value")));
	pmap_done(&m);
}

TEST(ascending_and_descending)
{
	cb_error err;
	for (int down = 0; down < 2; down++) {
		pmap m = PMAP_EMPTY;
		uint8_t room[4];
		enum { N = 100000 };
		for (uint32_t i = 0; i < N; i++) {
			CHECK_OK(pmap_put(&m, number_key(down ? N - 1 - i : i, room), span_make(&i, sizeof(i)), &err));
		}
		CHECK_U64(pmap_count(&m), N);
		CHECK(pmap_sound(&m));
		pmap_cursor c;
		pmap_seek(&c, &m, number_key(N / 2, room));
		span key, value;
		bool tombstone;
		for (uint32_t i = N / 2; i < N; i++, pmap_cursor_next(&c)) {
			CHECK(pmap_cursor_get(&c, &key, &value, &tombstone) && !tombstone);
			CHECK(span_equal(key, number_key(i, room)));
		}
		CHECK(!pmap_cursor_get(&c, &key, &value, &tombstone));
		for (uint32_t i = 0; i < N; i += 2) CHECK_OK(pmap_forget(&m, number_key(i, room), &err));
		CHECK_U64(pmap_count(&m), N / 2);
		CHECK(pmap_sound(&m));
		pmap_done(&m);
	}
}

/* ---- against an array: state[k] is 0 (absent), 1 (tombstone) or a value ---- */

enum { KEYS = 300, SHARED = 12 };

typedef struct twin {
	pmap map;
	uint32_t state[KEYS];
} twin;

static void check_twin(const twin *t)
{
	CHECK(pmap_sound(&t->map));
	uint8_t room[4];
	size_t count = 0;
	uint32_t last = KEYS; /* the last key with a value; KEYS: none yet */
	pmap_cursor c;
	pmap_seek(&c, &t->map, span_make(NULL, 0));
	for (uint32_t k = 0; k < KEYS; k++) {
		span key, value, got;
		bool tombstone;
		CHECK(pmap_last_value(&t->map, number_key(k, room), &got) == (last < KEYS));
		if (last < KEYS) CHECK(span_equal(got, number_key(last, room)));
		if (t->state[k] > 1) last = k;
		pmap_found found = pmap_get(&t->map, number_key(k, room), &got);
		CHECK(found == (t->state[k] == 0 ? PMAP_ABSENT : t->state[k] == 1 ? PMAP_TOMBSTONE : PMAP_VALUE));
		if (t->state[k] == 0) continue;
		count++;
		CHECK(pmap_cursor_get(&c, &key, &value, &tombstone));
		CHECK(span_equal(key, number_key(k, room)) && tombstone == (t->state[k] == 1));
		if (!tombstone) CHECK(span_equal(value, span_make(&t->state[k], 4)) && span_equal(value, got));
		pmap_cursor_next(&c);
	}
	CHECK_U64(pmap_count(&t->map), count);
}

/* One random update of map and array; with failing allocations the map must stay as it was. */
static void update(test_rng *rng, twin *t)
{
	cb_error err;
	uint8_t room[4];
	uint32_t k = (uint32_t)test_rand_below(rng, KEYS), value = 2 + (uint32_t)test_rand_below(rng, 1000000);
	unsigned kind = (unsigned)test_rand_below(rng, 8);
	bool failing = test_rand_below(rng, 4) == 0;
	if (failing) mem_fail_after((long)test_rand_below(rng, 12) + 1);
	span key = number_key(k, room);
	cb_code code = kind < 4    ? pmap_put(&t->map, key, span_make(&value, 4), &err)
	               : kind == 4 ? pmap_put_tombstone(&t->map, key, &err)
	                           : pmap_forget(&t->map, key, &err);
	mem_fail_after(0);
	CHECK(code == CB_OK || (failing && code == CB_NOMEM));
	if (code == CB_OK) t->state[k] = kind < 4 ? value : kind == 4 ? 1 : 0;
}

TEST(random_updates_of_shared_maps)
{
	test_rng rng = {test_seed() | 1};
	static twin twins[SHARED];
	for (unsigned i = 0; i < test_dose(240000); i++) {
		twin *t = &twins[test_rand_below(&rng, SHARED)];
		if (test_rand_below(&rng, 20) == 0) {
			const twin *from = &twins[test_rand_below(&rng, SHARED)];
			pmap shared = pmap_ref(&from->map);
			uint32_t state[KEYS];
			memcpy(state, from->state, sizeof(state));
			pmap_done(&t->map);
			t->map = shared;
			memcpy(t->state, state, sizeof(state));
		} else {
			update(&rng, t);
		}
		if (i % 16 == 0) check_twin(&twins[test_rand_below(&rng, SHARED)]);
	}
	for (int i = 0; i < SHARED; i++) {
		check_twin(&twins[i]);
		pmap_done(&twins[i].map);
	}
}

TEST(seek_everywhere)
{
	cb_error err;
	pmap m = PMAP_EMPTY;
	uint8_t room[4];
	for (uint32_t i = 0; i < 100; i++) CHECK_OK(pmap_put(&m, number_key(2 * i, room), span_str("v"), &err));
	for (uint32_t i = 0; i < 201; i++) {
		pmap_cursor c;
		span key, value;
		bool tombstone;
		pmap_seek(&c, &m, number_key(i, room));
		CHECK(pmap_cursor_get(&c, &key, &value, &tombstone) == (i < 199));
		if (i < 199) CHECK(span_equal(key, number_key(i + (i & 1), room)));
	}
	pmap_done(&m);
}

/* ---- differences ---- */

static bool same_in_both(const pmap *a, const pmap *b, span key)
{
	span x = {0}, y = {0};
	pmap_found in_a = pmap_get(a, key, &x), in_b = pmap_get(b, key, &y);
	return in_a == in_b && (in_a != PMAP_VALUE || span_equal(x, y));
}

/* Every key of 0..count that has the prefix, and no other, once and in order. */
static void check_diff(const pmap *a, const pmap *b, uint32_t count, span prefix)
{
	pmap_diff d;
	span given;
	uint8_t room[4];
	pmap_diff_start(&d, a, b, prefix);
	for (uint32_t i = 0; i < count; i++) {
		span key = number_key(i, room);
		if (!span_starts(key, prefix) || same_in_both(a, b, key)) continue;
		CHECK(pmap_diff_next(&d, &given));
		CHECK(span_equal(given, key));
	}
	CHECK(!pmap_diff_next(&d, &given));
}

static void change_some(pmap *m, uint32_t keys, int times, uint64_t *seed)
{
	cb_error err;
	uint8_t room[4];
	for (int i = 0; i < times; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		span key = number_key((uint32_t)(*seed >> 33) % keys, room);
		unsigned what = (unsigned)(*seed >> 60) % 4;
		if (what == 0) CHECK_OK(pmap_put_tombstone(m, key, &err));
		else if (what == 1) CHECK_OK(pmap_forget(m, key, &err));
		else CHECK_OK(pmap_put(m, key, span_make(&room[2], what - 1), &err));
	}
}

TEST(differences_of_maps_with_a_common_past)
{
	enum { DIFF_KEYS = 2000 };
	uint64_t seed = 7;
	for (int round = 0; round < 60; round++) {
		pmap a = PMAP_EMPTY, none = PMAP_EMPTY;
		change_some(&a, DIFF_KEYS, round * 40, &seed);
		pmap b = pmap_ref(&a);
		change_some(&a, DIFF_KEYS, round % 3 ? round : 0, &seed);
		change_some(&b, DIFF_KEYS, round % 5 * 10, &seed);
		uint8_t prefix[3] = {0, 0, (uint8_t)(round % 9)};
		check_diff(&a, &b, DIFF_KEYS, span_make(NULL, 0));
		check_diff(&a, &b, DIFF_KEYS, span_make(prefix, 3));
		check_diff(&a, &none, DIFF_KEYS, span_make(NULL, 0));
		check_diff(&none, &b, DIFF_KEYS, span_make(prefix, 2));
		pmap_done(&a);
		pmap_done(&b);
	}
}
