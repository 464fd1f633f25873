/* test_json.c: what is written, byte by byte; what is taken and refused, with its place; numbers without rounding; failing memory. */
#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/base64.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/utf8.h"
#include "harness/harness.h"

/* ---- UTF-8 and base64 ---- */

TEST(utf8_every_code_point_and_its_neighbours)
{
	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		if (c >= 0xd800 && c <= 0xdfff) continue;
		uint8_t bytes[5];
		uint32_t back;
		size_t n = utf8_put(bytes, c);
		CHECK(n == (c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u));
		CHECK(utf8_take(span_make(bytes, n), &back) == n && back == c);
		if (n == 1) continue;
		/* Cut short, it is one bad start of a character. */
		CHECK(utf8_take(span_make(bytes, n - 1), &back) == n - 1 && back == UTF8_BAD);
		bytes[n - 1] = 'x';
		CHECK(utf8_take(span_make(bytes, n), &back) == n - 1 && back == UTF8_BAD);
	}
}

TEST(utf8_what_is_not)
{
	static const char *const bad[] = {"\x80",         "\xbf",         "\xc0\x80",     "\xc1\xbf",     "\xe0\x80\x80",
	                                  "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80", "\xf0\x8f",
	                                  "\xf4\x90\x80", "\xf5\x80",     "\xff",         "\xfe"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint32_t c;
		CHECK_MSG(utf8_take(span_str(bad[i]), &c) == 1 && c == UTF8_BAD, "case %zu", i);
		CHECK(!utf8_valid(span_str(bad[i])));
	}
	CHECK(utf8_valid(span_str("")));
	CHECK(utf8_valid(span_str("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")));
}

static void check_base64(const char *bytes, const char *text)
{
	AUTO_BUF buf out = BUF_INIT(1024), back = BUF_INIT(1024);
	cb_error err;
	json_writer w;
	json_writer_init(&w, &out, JSON_COMPACT);
	json_base64(&w, bytes, strlen(bytes));
	CHECK_OK(json_writer_end(&w, &err));
	CHECK(out.size == strlen(text) + 2 && memcmp(out.bytes + 1, text, strlen(text)) == 0);
	CHECK_OK(base64_decode(span_str(text), &back, &err));
	CHECK(span_equal(buf_span(&back), span_str(bytes)));
}

TEST(base64_vectors_of_the_rfc)
{
	check_base64("", "");
	check_base64("f", "Zg==");
	check_base64("fo", "Zm8=");
	check_base64("foo", "Zm9v");
	check_base64("foob", "Zm9vYg==");
	check_base64("fooba", "Zm9vYmE=");
	check_base64("foobar", "Zm9vYmFy");
	check_base64("\xff\xfe\xfb", "//77");
}

TEST(base64_refuses_other_forms)
{
	static const char *const bad[] = {
		"Zg=", "Zg", "Z===", "====", "Zh==", "Zm9=", "Zm9v=Zg=", "Zg==Zg==", "Zm 9", "Zm-_", "\n", "Zm9v\n"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_BUF buf out = BUF_INIT(64);
		CHECK(buf_append_str(&out, "kept", NULL) == CB_OK);
		CHECK_MSG(base64_decode(span_str(bad[i]), &out, NULL) == CB_INVALID, "'%s'", bad[i]);
		CHECK_U64(out.size, 4);
	}
}

/* ---- writing ---- */

static void write_sample(json_writer *w)
{
	json_object_begin(w);
	json_member_str(w, "name", "a\"b\\c\n\t\x01\x7f");
	json_member_uint(w, "max", UINT64_MAX);
	json_member_int(w, "min", INT64_MIN);
	json_member_bool(w, "yes", true);
	json_member_null(w, "none");
	json_member_str(w, "null", NULL);
	json_member_array(w, "list");
	json_uint(w, 1);
	json_str(w, "x");
	json_array_begin(w);
	json_array_end(w);
	json_object_begin(w);
	json_object_end(w);
	json_array_end(w);
	json_member_object(w, "inner");
	json_member_double(w, "half", 0.5);
	json_object_end(w);
	json_object_end(w);
}

TEST(write_compact)
{
	AUTO_BUF buf out = BUF_INIT(4096);
	cb_error err;
	json_writer w;
	json_writer_init(&w, &out, JSON_COMPACT | JSON_NEWLINE);
	write_sample(&w);
	json_bool(&w, false);
	CHECK_OK(json_writer_end(&w, &err));
	CHECK_OK(buf_append_byte(&out, 0, &err));
	CHECK_STR((char *)out.bytes,
	          "{\"name\":\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\",\"max\":18446744073709551615,\"min\":-9223372036854775808,"
	          "\"yes\":true,\"none\":null,\"null\":null,\"list\":[1,\"x\",[],{}],\"inner\":{\"half\":0.5}}\nfalse\n");
}

TEST(write_pretty)
{
	AUTO_BUF buf out = BUF_INIT(4096);
	cb_error err;
	json_writer w;
	json_writer_init(&w, &out, JSON_PRETTY);
	json_object_begin(&w);
	json_member_array(&w, "a");
	json_uint(&w, 1);
	json_object_begin(&w);
	json_member_str(&w, "b", "c");
	json_object_end(&w);
	json_array_end(&w);
	json_member_array(&w, "empty");
	json_array_end(&w);
	json_object_end(&w);
	CHECK_OK(json_writer_end(&w, &err));
	CHECK_OK(buf_append_byte(&out, 0, &err));
	CHECK_STR((char *)out.bytes, "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"c\"\n    }\n  ],\n  \"empty\": []\n}");
}

static const char *written_bytes(buf *out, const char *bytes, size_t size)
{
	cb_error err;
	json_writer w;
	buf_clear(out);
	json_writer_init(&w, out, JSON_COMPACT);
	json_object_begin(&w);
	json_member_bytes(&w, "path", bytes, size);
	json_member_uint(&w, "n", 1);
	json_object_end(&w);
	CHECK_OK(json_writer_end(&w, &err));
	CHECK_OK(buf_append_byte(out, 0, &err));
	return (char *)out->bytes;
}

TEST(bytes_that_are_not_text_have_a_sibling)
{
	AUTO_BUF buf out = BUF_INIT(4096);
	CHECK_STR(written_bytes(&out, "a\xc3\xa9", 3), "{\"path\":\"a\xc3\xa9\",\"n\":1}");
	CHECK_STR(written_bytes(&out, "a\xff", 2), "{\"path\":\"a\xef\xbf\xbd\",\"path_base64\":\"Yf8=\",\"n\":1}");
	CHECK_STR(written_bytes(&out, "\xe2\x82", 2), "{\"path\":\"\xef\xbf\xbd\",\"path_base64\":\"4oI=\",\"n\":1}");
	CHECK_STR(written_bytes(&out, "\0", 1), "{\"path\":\"\\u0000\",\"n\":1}");
	CHECK_STR(written_bytes(&out, "", 0), "{\"path\":\"\",\"n\":1}");
	/* A replacement character that stands in the text itself loses nothing. */
	CHECK_STR(written_bytes(&out, "\xef\xbf\xbd", 3), "{\"path\":\"\xef\xbf\xbd\",\"n\":1}");
	/* What would steer a terminal is escaped, though it is UTF-8. */
	CHECK_STR(written_bytes(&out, "\xe2\x80\xae\xc2\x9b", 5), "{\"path\":\"\\u202e\\u009b\",\"n\":1}");
}

static const char *written_strings(buf *out, const char *strings, size_t size)
{
	cb_error err;
	json_writer w;
	buf_clear(out);
	json_writer_init(&w, out, JSON_COMPACT);
	json_object_begin(&w);
	json_member_strings(&w, "paths", span_make(strings, size));
	json_object_end(&w);
	CHECK_OK(json_writer_end(&w, &err));
	CHECK_OK(buf_append_byte(out, 0, &err));
	return (char *)out->bytes;
}

TEST(strings_that_are_not_text_have_a_sibling_list)
{
	AUTO_BUF buf out = BUF_INIT(4096);
	CHECK_STR(written_strings(&out, "", 0), "{\"paths\":[]}");
	CHECK_STR(written_strings(&out, "a\0\0\xc3\xa9", 6), "{\"paths\":[\"a\",\"\",\"\xc3\xa9\"]}");
	CHECK_STR(written_strings(&out, "a\0b\xff", 5), "{\"paths\":[\"a\",\"b\xef\xbf\xbd\"],\"paths_base64\":[null,\"Yv8=\"]}");
}

typedef struct sink_state {
	buf out;
	size_t calls, fail_at;
} sink_state;

static cb_code sink(void *context, const void *bytes, size_t size, cb_error *err)
{
	sink_state *s = context;
	if (++s->calls == s->fail_at) return cb_err_set(err, CB_NOSPACE, "full");
	return buf_append(&s->out, bytes, size, err);
}

static void write_much(json_writer *w)
{
	static char big[10000];
	memset(big, 'x', sizeof(big));
	json_array_begin(w);
	for (unsigned i = 0; i < 3000; i++) json_uint(w, i);
	json_bytes(w, big, sizeof(big));
	json_base64(w, big, sizeof(big));
	json_array_end(w);
}

TEST(sink_gets_the_same_bytes)
{
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	sink_state s = {BUF_INIT(1 << 20), 0, 0};
	cb_error err;
	json_writer w, v;
	json_writer_init(&w, &out, JSON_PRETTY);
	json_writer_init_sink(&v, sink, &s, JSON_PRETTY);
	write_much(&w);
	write_much(&v);
	CHECK_OK(json_writer_end(&w, &err));
	CHECK_OK(json_writer_end(&v, &err));
	CHECK(span_equal(buf_span(&out), buf_span(&s.out)));
	CHECK(s.calls > 3);
	buf_done(&s.out);
}

TEST(first_failure_is_kept)
{
	for (size_t fail_at = 1; fail_at < 5; fail_at++) {
		sink_state s = {BUF_INIT(1 << 20), 0, fail_at};
		cb_error err = {0};
		json_writer w;
		json_writer_init_sink(&w, sink, &s, JSON_COMPACT);
		write_much(&w);
		CHECK_CODE(json_writer_end(&w, &err), CB_NOSPACE);
		CHECK_STR(err.message, "full");
		CHECK_U64(s.calls, fail_at);
		buf_done(&s.out);
	}
	AUTO_BUF buf small = BUF_INIT(100);
	cb_error err = {0};
	json_writer w;
	json_writer_init(&w, &small, JSON_COMPACT);
	write_much(&w);
	CHECK_CODE(json_writer_end(&w, &err), CB_LIMIT);
	CHECK(err.code == CB_LIMIT);
}

TEST(too_deep_to_write_is_an_error)
{
	AUTO_BUF buf out = BUF_INIT(1 << 16);
	json_writer w;
	json_writer_init(&w, &out, JSON_PRETTY);
	for (int i = 0; i < JSON_DEPTH_MAX; i++) json_array_begin(&w);
	CHECK(json_writer_flush(&w, NULL) == CB_OK);
	json_array_begin(&w);
	json_object_begin(&w);
	json_member_uint(&w, "x", 1);
	json_object_end(&w);
	CHECK(json_writer_end(&w, NULL) == CB_LIMIT);
}

TEST(doubles_read_back_the_same)
{
	test_rng rng = {test_seed() | 1};
	for (int i = 0; i < 20000; i++) {
		union {
			uint64_t bits;
			double number;
		} x = {test_rand(&rng)};
		AUTO_BUF buf out = BUF_INIT(64);
		AUTO_JSON json_doc *doc = NULL;
		cb_error err;
		json_writer w;
		double back = 0;
		json_writer_init(&w, &out, JSON_COMPACT);
		json_double(&w, x.number);
		CHECK_OK(json_writer_end(&w, &err));
		CHECK_OK(json_parse(buf_span(&out), NULL, &doc, &err));
		if (isfinite(x.number)) CHECK(json_as_double(json_root(doc), &back) && back == x.number);
		else CHECK(json_is(json_root(doc), JSON_NULL));
	}
}

/* ---- reading ---- */

static json_doc *parsed(const char *text)
{
	json_doc *doc = NULL;
	cb_error err;
	CHECK_OK(json_parse(span_str(text), NULL, &doc, &err));
	return doc;
}

TEST(read_all_kinds)
{
	AUTO_JSON json_doc *doc = parsed(
		" {\"a\" : [1, -2.5e3 ,\"x\\ny\\/\\u00e9\\ud83d\\ude00\"],\r\n\t\"b\":{\"c\":true,\"d\":false,\"e\":null} } ");
	const json_value *root = json_root(doc), *a = json_get(root, "a"), *b = json_get(root, "b");
	bool yes = false;
	double d = 0;
	const char *s = NULL;
	CHECK(json_is(root, JSON_OBJECT) && json_count(root) == 2 && json_count(a) == 3 && json_count(b) == 3);
	CHECK(json_as_double(json_at(a, 1), &d) && d == -2500);
	CHECK(json_as_str(json_at(a, 2), &s));
	CHECK_STR(s, "x\ny/\xc3\xa9\xf0\x9f\x98\x80");
	CHECK(json_as_bool(json_get(b, "c"), &yes) && yes);
	CHECK(json_as_bool(json_get(b, "d"), &yes) && !yes);
	CHECK(json_is(json_get(b, "e"), JSON_NULL) && !json_is(json_get(b, "x"), JSON_NULL));
	CHECK(!json_at(a, 3) && !json_get(a, "x") && !json_at(NULL, 0) && json_count(json_at(a, 0)) == 0);
	CHECK(span_equal(json_key_at(b, 2), span_str("e")));
	CHECK_STR(json_type_name(a), "array");
}

TEST(nul_in_strings_and_keys_is_kept)
{
	AUTO_JSON json_doc *doc = parsed("{\"a\\u0000b\":\"\\u0000\",\"a\":\"\"}");
	const json_value *root = json_root(doc);
	span text;
	const char *s;
	CHECK(span_equal(json_key_at(root, 0), span_make("a\0b", 3)));
	CHECK(json_as_span(json_at(root, 0), &text) && text.size == 1 && text.bytes[0] == 0);
	CHECK(!json_as_str(json_at(root, 0), &s) && json_as_str(json_get(root, "a"), &s));
}

typedef struct bad_case {
	const char *text, *message;
} bad_case;

TEST(refusals_name_their_place)
{
	static const bad_case cases[] = {
		{"", "JSON, line 1, column 1: the text ends where a value should be"},
		{"  \n ", "JSON, line 2, column 2: the text ends where a value should be"},
		{"[1,]", "JSON, line 1, column 4: expected a value"},
		{"{\"a\":1,}", "JSON, line 1, column 8: expected a key in quotes"},
		{"{a:1}", "JSON, line 1, column 2: expected a key in quotes"},
		{"{\"a\" 1}", "JSON, line 1, column 6: expected ':'"},
		{"[1 2]", "JSON, line 1, column 4: expected ',' or ']'"},
		{"{\"a\":1", "JSON, line 1, column 7: expected ',' or '}'"},
		{"01", "JSON, line 1, column 1: a number must not begin with 0"},
		{"-", "JSON, line 1, column 2: expected a digit"},
		{"1.", "JSON, line 1, column 3: expected a digit"},
		{"1e+", "JSON, line 1, column 4: expected a digit"},
		{".5", "JSON, line 1, column 1: expected a value"},
		{"+1", "JSON, line 1, column 1: expected a value"},
		{"NaN", "JSON, line 1, column 1: expected a value"},
		{"nul", "JSON, line 1, column 1: expected a value"},
		{"'a'", "JSON, line 1, column 1: expected a value"},
		{"1 //", "JSON, line 1, column 3: something follows the value"},
		{"\"a", "JSON, line 1, column 3: the string does not end"},
		{"\"a\\", "JSON, line 1, column 4: the string does not end"},
		{"\n\"\\x\"", "JSON, line 2, column 2: unknown escape in a string"},
		{"\"\\u12g4\"", "JSON, line 1, column 2: \\u needs four hexadecimal digits"},
		{"\"\\ud800\"", "JSON, line 1, column 2: a surrogate without its other half"},
		{"\"\\udc00\"", "JSON, line 1, column 2: a surrogate without its other half"},
		{"\"\\ud800\\u0041\"", "JSON, line 1, column 2: a surrogate without its other half"},
		{"\"a\nb\"", "JSON, line 1, column 3: a control character in a string must be escaped"},
		{"\"\xc3\"", "JSON, line 1, column 2: not UTF-8"},
		{"\xef\xbb\xbf{}", "JSON, line 1, column 1: expected a value"},
		{"[{\"k\":1,\"x\":2,\"k\":3}]", "JSON, line 1, column 2: the object that begins here has the key \"k\" twice"},
		{"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"b\":2}",
	         "JSON, line 1, column 1: the object that begins here has the key \"b\" twice"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_doc *doc = NULL;
		cb_error err = {0};
		CHECK_MSG(json_parse(span_str(cases[i].text), NULL, &doc, &err) == CB_INVALID, "'%s'", cases[i].text);
		CHECK_STR(err.message, cases[i].message);
		CHECK(!doc);
	}
}

TEST(limits_hold)
{
	json_doc *doc = NULL;
	cb_error err = {0};
	char deep[4 * JSON_DEPTH_MAX] = {0};
	memset(deep, '[', JSON_DEPTH_MAX);
	memset(deep + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
	CHECK_OK(json_parse(span_str(deep), NULL, &doc, &err));
	json_doc_destroy(doc);
	doc = NULL;
	memset(deep, '[', sizeof(deep) - 1);
	CHECK_CODE(json_parse(span_str(deep), NULL, &doc, &err), CB_LIMIT);
	CHECK_STR(err.message, "JSON, line 1, column 65: nested too deeply");
	json_limits few = {0, 4};
	CHECK_CODE(json_parse(span_str("[1,2,3,4]"), &few, &doc, &err), CB_LIMIT);
	CHECK_OK(json_parse(span_str("[1,2,3]"), &few, &doc, &err));
	json_doc_destroy(doc);
	doc = NULL;
	json_limits bytes = {4, 0};
	CHECK_CODE(json_parse(span_str("12345"), &bytes, &doc, &err), CB_LIMIT);
	CHECK(!doc);
}

typedef struct int_case {
	const char *text;
	bool is_uint, is_int;
	uint64_t number; /* as two's complement */
} int_case;

TEST(integers_without_rounding)
{
	static const int_case cases[] = {
		{"0", true, true, 0},
		{"-0", true, true, 0},
		{"0.0e5", true, true, 0},
		{"0e999999999999999999999999", true, true, 0},
		{"18446744073709551615", true, false, UINT64_MAX},
		{"18446744073709551616", false, false, 0},
		{"9223372036854775807", true, true, INT64_MAX},
		{"9223372036854775808", true, false, (uint64_t)INT64_MAX + 1},
		{"-9223372036854775808", false, true, (uint64_t)INT64_MIN},
		{"-9223372036854775809", false, false, 0},
		{"1.0", true, true, 1},
		{"1e2", true, true, 100},
		{"120e-1", true, true, 12},
		{"1.5e1", true, true, 15},
		{"1.5", false, false, 0},
		{"1e-1", false, false, 0},
		{"1e20", false, false, 0},
		{"1e999999999999999999999", false, false, 0},
		{"1e-999999999999999999999", false, false, 0},
		{"100000000000000000000000000e-20", true, true, 1000000},
		{"1000000000000000000000000.00", false, false, 0},
		{"\"1\"", false, false, 0},
		{"true", false, false, 0},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_JSON json_doc *doc = parsed(cases[i].text);
		uint64_t u = cases[i].number;
		int64_t n = (int64_t)cases[i].number;
		CHECK_MSG(json_as_uint(json_root(doc), &u) == cases[i].is_uint && u == cases[i].number, "%s", cases[i].text);
		CHECK_MSG(json_as_int(json_root(doc), &n) == cases[i].is_int && n == (int64_t)cases[i].number, "%s", cases[i].text);
	}
}

TEST(large_objects_are_searched)
{
	AUTO_BUF buf out = BUF_INIT(16 << 20);
	AUTO_JSON json_doc *doc = NULL;
	cb_error err;
	json_writer w;
	char key[32];
	json_writer_init(&w, &out, JSON_COMPACT);
	json_object_begin(&w);
	for (unsigned i = 0; i < 50000; i++) {
		(void)snprintf(key, sizeof(key), "%016" PRIx64, hash_u64(i));
		json_member_uint(&w, key, i);
	}
	json_object_end(&w);
	CHECK_OK(json_writer_end(&w, &err));
	CHECK_OK(json_parse(buf_span(&out), NULL, &doc, &err));
	for (unsigned i = 0; i < 50000; i++) {
		uint64_t n = 0;
		(void)snprintf(key, sizeof(key), "%016" PRIx64, hash_u64(i));
		CHECK(json_as_uint(json_get(json_root(doc), key), &n) && n == i);
	}
	CHECK(!json_get(json_root(doc), "zzz") && !json_get(json_root(doc), ""));
}

TEST(bytes_come_back)
{
	AUTO_JSON json_doc *doc = parsed("{\"a\":\"x\",\"b\":\"?\",\"b_base64\":\"/w==\",\"c\":1,\"d\":\"x\",\"d_base64\":\"!\"}");
	AUTO_BUF buf out = BUF_INIT(64);
	cb_error err = {0};
	bool found = false;
	CHECK_OK(json_get_bytes(json_root(doc), "a", &out, &found, &err));
	CHECK(found && out.size == 1 && out.bytes[0] == 'x');
	buf_clear(&out);
	CHECK_OK(json_get_bytes(json_root(doc), "b", &out, &found, &err));
	CHECK(found && out.size == 1 && out.bytes[0] == 0xff);
	CHECK_OK(json_get_bytes(json_root(doc), "z", &out, &found, &err));
	CHECK(!found);
	CHECK_CODE(json_get_bytes(json_root(doc), "c", &out, &found, &err), CB_INVALID);
	CHECK_STR(err.message, "\"c\" is number, not a string");
	CHECK_CODE(json_get_bytes(json_root(doc), "d", &out, &found, &err), CB_INVALID);
}

TEST(comma_locales_change_nothing)
{
	if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
		test_note("no locale with a decimal comma here");
		return;
	}
	AUTO_BUF buf out = BUF_INIT(64);
	AUTO_JSON json_doc *doc = parsed("2.5");
	cb_error err;
	json_writer w;
	double d = 0;
	CHECK(json_as_double(json_root(doc), &d) && d == 2.5);
	json_writer_init(&w, &out, JSON_COMPACT);
	json_double(&w, 2.5);
	CHECK_OK(json_writer_end(&w, &err));
	CHECK(span_equal(buf_span(&out), span_str("2.5")));
}

TEST(every_failed_allocation_is_an_error)
{
	static char text[60000];
	size_t size = 0;
	text[size++] = '[';
	for (unsigned i = 0; size < sizeof(text) - 200; i++)
		size += (size_t)snprintf(text + size, 200, "{\"a\":%u,\"b\":\"%s\",\"c\":[1,2,3]},", i,
		                         i % 97 ? "x" : "\\u00e9long");
	text[size - 1] = ']';
	for (long n = 1;; n++) {
		json_doc *doc = NULL;
		mem_fail_after(n);
		cb_code code = json_parse(span_make(text, size), NULL, &doc, NULL);
		mem_fail_after(0);
		json_doc_destroy(doc);
		CHECK(code == CB_OK || code == CB_NOMEM);
		if (code == CB_OK) break;
		CHECK(n < 10000);
	}
}

TEST(the_end_of_an_object_can_wait)
{
	static const unsigned both[] = {JSON_OPEN | JSON_COMPACT, JSON_OPEN | JSON_PRETTY};
	static const char *const expected[] = {"{\"a\":{},\"late\":1}", "{\n  \"a\": {},\n  \"late\": 1\n}"};
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		AUTO_BUF buf text = BUF_INIT(1000);
		json_writer w;
		cb_error err = {0};
		json_writer_init(&w, &text, both[i]);
		json_object_begin(&w);
		json_member_object(&w, "a");
		json_object_end(&w);
		json_object_end(&w);
		json_member_uint(&w, "late", 1);
		CHECK_OK(json_writer_end(&w, &err));
		CHECK(span_equal(buf_span(&text), span_str(expected[i])));
	}
}
