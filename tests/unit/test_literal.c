/* test_literal.c: a short text is found wherever it stands in a long one, also over the edges of the slices it is searched in. */
#include "harness/harness.h"
#include "search/literal.h"

enum { SIZE = 200000, EDGE = 64 << 10 };

static void check_at(uint8_t *text, size_t at, span needle)
{
	span all = span_make(text, SIZE);
	memcpy(text + at, needle.bytes, needle.size);
	CHECK_U64(literal_find(all, 0, needle), at);
	CHECK_U64(literal_find(all, at, needle), at);
	CHECK(literal_find(all, at + 1, needle) == SIZE_MAX);
	CHECK(literal_find(span_make(text, at + needle.size - 1), 0, needle) == SIZE_MAX);
	CHECK_U64(literal_find(span_make(text, at + needle.size), 0, needle), at);
	memset(text + at, '.', needle.size);
}

TEST(literal_over_edges)
{
	static const char *const needles[] = {"n", "ne", "needle", "a long needle of which parts lie in two slices"};
	uint8_t *text = malloc(SIZE);
	CHECK(text);
	memset(text, '.', SIZE);
	for (size_t k = 0; k < sizeof(needles) / sizeof(needles[0]); k++) {
		span needle = span_str(needles[k]);
		for (size_t edge = EDGE; edge <= 3 * EDGE; edge += EDGE)
			for (size_t at = edge - needle.size - 1; at <= edge + 1; at++) check_at(text, at, needle);
		check_at(text, 0, needle);
		check_at(text, SIZE - needle.size, needle);
	}
	free(text);
}
