/* test_stamp.c: stamps come back as they were written, and nothing else is one. */
#include "harness/harness.h"

#include "base/hash.h"
#include "work/stamp.h"

static cb_error err;

static stamp full(void)
{
	stamp s = {.at = {1, 2, 3}, .stack = true, .under = {4, 5, 6}, .entries = UINT64_MAX, .afresh = true, .base = {7, 8, 9}};
	for (size_t i = 0; i < LIMIT_WORK_LAYERS; i++) (void)snprintf(s.layers[i], STAMP_ID_BYTES, "l%016zx", i * 0x123456789);
	s.layer_count = LIMIT_WORK_LAYERS;
	(void)snprintf(s.boot, sizeof(s.boot), "01234567-89ab-cdef-0123-456789abcdef");
	(void)snprintf(s.run, sizeof(s.run), "0123456789abcdef");
	s.building = true;
	s.started_ns = INT64_MAX;
	memset(s.who, 'w', sizeof(s.who) - 1);
	memset(s.kind, 'k', sizeof(s.kind) - 1);
	memset(s.params, 'p', sizeof(s.params) - 1);
	s.discard = true;
	s.needs_bytes = UINT64_MAX;
	return s;
}

static void check_same(const stamp *a, const stamp *b)
{
	char x[STAMP_BYTES], y[STAMP_BYTES];
	stamp_print(a, x);
	stamp_print(b, y);
	CHECK(memcmp(x, y, STAMP_BYTES) == 0);
	CHECK(memcmp(a, b, sizeof(*a)) == 0);
}

TEST(what_is_written_is_read)
{
	char text[STAMP_BYTES];
	stamp all = full(), none = {0}, back;
	stamp_print(&all, text);
	CHECK(text[STAMP_BYTES - 1] == '\n' && !memchr(text, 0, STAMP_BYTES)); /* there was room */
	CHECK_OK(stamp_parse(span_make(text, STAMP_BYTES), &back, &err));
	check_same(&all, &back);
	stamp_print(&none, text);
	CHECK_OK(stamp_parse(span_make(text, STAMP_BYTES), &back, &err));
	check_same(&none, &back);
}

TEST(every_changed_byte_shows)
{
	char text[STAMP_BYTES];
	stamp all = full(), back;
	stamp_print(&all, text);
	size_t size = (size_t)(strstr(text, "\nsum ") - text) + 5 + 16;
	for (size_t i = 0; i < size; i++) {
		text[i] ^= 1;
		CHECK_CODE(stamp_parse(span_make(text, STAMP_BYTES), &back, &err), CB_CORRUPT);
		text[i] ^= 1;
	}
	for (size_t i = 0; i <= size; i += 7) CHECK_CODE(stamp_parse(span_make(text, i), &back, &err), CB_CORRUPT);
}

/* With a sum that is right. */
static cb_code parse_lines(const char *lines)
{
	char text[STAMP_BYTES];
	stamp back;
	int n = snprintf(text, sizeof(text), "cowbox work 1\n%s", lines);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "sum %016llx\n", (unsigned long long)hash64(text, (size_t)n));
	return stamp_parse(span_make(text, (size_t)n), &back, &err);
}

TEST(lines_that_are_none)
{
	static const char *const bad[] = {
		"at 1 2\n",
		"at 0 1 2\n",
		"at 1 2 3 4\n",
		"at 1 2 99999999999999999999\n",
		"at 1 2 -3\n",
		"mode heap\n",
		"mode\n",
		"layers\n",
		"layers ../x\n",
		"layers l1  l2\n",
		"layers l12g\n",
		"layers x12\n",
		"boot \n",
		"entries\n",
		"entries 1x\n",
		"base 1 2 3\n", /* without a run */
		"started -1\n",
		"started 9223372036854775808\n",
		"unknown 1\n",
		"\n",
		"run 0123456789abcdef0\n",
	};
	CHECK(parse_lines("mode plain\n") == CB_OK);
	CHECK(parse_lines("base 1 2 3\nrun 1\n") == CB_OK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_MSG(parse_lines(bad[i]) == CB_CORRUPT, "'%s' is taken for a line", bad[i]);
}

TEST(texts_fit_into_their_line)
{
	char to[8];
	stamp_text_set(to, sizeof(to), "a\nb\tc\x7f");
	CHECK_STR(to, "a b c ");
	stamp_text_set(to, sizeof(to), "123456\xc3\xa4"); /* cut within a character */
	CHECK_STR(to, "123456");
	stamp_text_set(to, sizeof(to), "12345\xc3\xa4");
	CHECK_STR(to, "12345\xc3\xa4");
	stamp_text_set(to, sizeof(to), "");
	CHECK_STR(to, "");
}
