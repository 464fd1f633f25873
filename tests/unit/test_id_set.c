/* test_id_set.c: a set of numbers whose memory goes with how many it holds. */
#include <stdint.h>

#include "base/err.h"
#include "base/id_set.h"
#include "harness/harness.h"

static size_t bytes_of(const id_set *s)
{
	return s->capacity * sizeof(id_group);
}

static bool add(id_set *s, uint64_t id)
{
	cb_error err = {0};
	bool was = false;
	CHECK_OK(id_set_add(s, id, &was, &err));
	return was;
}

TEST(empty_and_edges)
{
	static const uint64_t edges[] = {
		0, 1, 63, 64, 447, 448, 449, 895, 896, UINT32_MAX, (uint64_t)1 << 35, UINT64_MAX - 1, UINT64_MAX};
	AUTO_ID_SET id_set s = {0};
	CHECK(!id_set_has(&s, 0) && !id_set_has(&s, UINT64_MAX));
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		CHECK(!id_set_has(&s, edges[i]));
		CHECK(!add(&s, edges[i]));
		CHECK(add(&s, edges[i]));
		for (size_t k = 0; k <= i; k++) CHECK(id_set_has(&s, edges[k]));
	}
	CHECK(!id_set_has(&s, 2) && !id_set_has(&s, 450));
	id_set_done(&s);
	CHECK(!id_set_has(&s, 0));
}

/* What a bitmap over the numbers would have taken is out of the question here: 2 EiB. */
TEST(memory_goes_with_how_many)
{
	AUTO_ID_SET id_set lonely = {0}, close = {0};
	for (uint64_t i = 0; i < 10000; i++) CHECK(!add(&lonely, i << 40));
	CHECK_MSG(bytes_of(&lonely) <= 10000 * 256, "%zu bytes", bytes_of(&lonely));
	for (uint64_t i = 0; i < 1000000; i++) CHECK(!add(&close, i + ((uint64_t)1 << 50)));
	CHECK_MSG(bytes_of(&close) <= 1000000 * 5 / 8 + 4096, "%zu bytes", bytes_of(&close));
}

TEST(no_memory_leaves_it_as_it_was)
{
	AUTO_ID_SET id_set s = {0};
	cb_error err = {0};
	uint64_t next = 0, refused = 0;
	for (; refused < 5; next++) {
		bool was = false;
		mem_fail_after(1);
		cb_code code = id_set_add(&s, next << 20, &was, &err);
		mem_fail_after(0);
		if (code != CB_OK) {
			CHECK_CODE(code, CB_NOMEM);
			CHECK(!id_set_has(&s, next << 20));
			refused++;
			CHECK(!add(&s, next << 20));
		}
		for (uint64_t i = 0; i <= next; i++) CHECK(id_set_has(&s, i << 20));
	}
}

/* ---- against a sorted list ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Clusters of neighbours with jumps between them, as counters give them, and now and then anything at all. */
static uint64_t draw(test_rng *r, uint64_t *at)
{
	if (test_rand_below(r, 50) == 0) *at += test_rand_below(r, (uint64_t)1 << 33);
	if (test_rand_below(r, 200) == 0) return test_rand(r);
	return *at + test_rand_below(r, 2000);
}

TEST(model)
{
	enum { ROUNDS = 20, NUMBERS = 5000 };
	test_rng r = {test_seed()};
	for (unsigned round = 0; round < ROUNDS * test_soak(); round++) {
		AUTO_ID_SET id_set s = {0};
		uint64_t *all = malloc(NUMBERS * sizeof(*all)), at = 0;
		CHECK(all != NULL);
		size_t fresh = 0;
		for (size_t i = 0; i < NUMBERS; i++) {
			all[i] = draw(&r, &at);
			fresh += !add(&s, all[i]);
		}
		qsort(all, NUMBERS, sizeof(*all), compare);
		size_t different = 1;
		for (size_t i = 1; i < NUMBERS; i++) different += all[i] != all[i - 1];
		CHECK_U64(fresh, different);
		for (size_t i = 0; i < NUMBERS; i++) {
			CHECK(id_set_has(&s, all[i]));
			uint64_t near = all[i] + 1 + test_rand_below(&r, 3);
			CHECK(id_set_has(&s, near) == (bsearch(&near, all, NUMBERS, sizeof(*all), compare) != NULL));
		}
		free(all);
	}
}
