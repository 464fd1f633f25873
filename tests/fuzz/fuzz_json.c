/* fuzz_json.c: what the parser takes must come out of the writer as the same tree, compact and pretty, and no other bytes may be taken. */
#include <stdlib.h>

#include "base/json.h"

enum { OUT_MAX = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(cond)                    \
	do {                          \
		if (!(cond)) abort(); \
	} while (0)

static bool equal(const json_value *a, const json_value *b)
{
	span x = {0}, y = {0};
	bool p = false, q = false;
	if (json_type_of(a) != json_type_of(b) || json_count(a) != json_count(b)) return false;
	if (json_as_span(a, &x) && !(json_as_span(b, &y) && span_equal(x, y))) return false;
	if (!span_equal(json_number_text(a), json_number_text(b))) return false;
	if (json_as_bool(a, &p) && !(json_as_bool(b, &q) && p == q)) return false;
	for (size_t i = 0; i < json_count(a); i++) {
		if (!span_equal(json_key_at(a, i), json_key_at(b, i))) return false;
		if (!equal(json_at(a, i), json_at(b, i))) return false;
	}
	return true;
}

/* The accessors agree with each other on every value. */
static void check_value(const json_value *v)
{
	uint64_t u;
	int64_t n;
	double d;
	const char *s;
	if (json_as_uint(v, &u) && u <= INT64_MAX) MUST(json_as_int(v, &n) && (uint64_t)n == u);
	if (json_as_int(v, &n)) MUST(json_as_double(v, &d) && d == (double)n);
	if (json_as_str(v, &s)) MUST(json_is(v, JSON_STRING));
	for (size_t i = 0; i < json_count(v); i++) {
		span key = json_key_at(v, i);
		if (json_is(v, JSON_OBJECT) && !memchr(key.bytes, 0, key.size))
			MUST(json_get(v, (const char *)key.bytes) == json_at(v, i));
		check_value(json_at(v, i));
	}
}

static void check_round_trip(const json_doc *doc, unsigned flags)
{
	AUTO_BUF buf out = BUF_INIT(OUT_MAX);
	AUTO_JSON json_doc *again = NULL;
	json_writer w;
	json_writer_init(&w, &out, flags);
	json_write_value(&w, json_root(doc));
	MUST(json_writer_end(&w, NULL) == CB_OK);
	MUST(json_parse(buf_span(&out), NULL, &again, NULL) == CB_OK);
	MUST(equal(json_root(doc), json_root(again)));
}

/* Any bytes at all can be written, and come back exactly. */
static void check_bytes(const uint8_t *bytes, size_t size)
{
	AUTO_BUF buf out = BUF_INIT(OUT_MAX), back = BUF_INIT(OUT_MAX);
	AUTO_JSON json_doc *doc = NULL;
	json_writer w;
	bool found = false;
	json_writer_init(&w, &out, JSON_COMPACT);
	json_object_begin(&w);
	json_member_bytes(&w, "x", bytes, size);
	json_object_end(&w);
	MUST(json_writer_end(&w, NULL) == CB_OK);
	MUST(json_parse(buf_span(&out), NULL, &doc, NULL) == CB_OK);
	MUST(json_get_bytes(json_root(doc), "x", &back, &found, NULL) == CB_OK && found);
	MUST(span_equal(buf_span(&back), span_make(bytes, size)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	AUTO_JSON json_doc *doc = NULL;
	cb_error err = {0};
	check_bytes(bytes, size);
	cb_code code = json_parse(span_make(bytes, size), NULL, &doc, &err);
	MUST(code == CB_OK || (err.code == code && (code == CB_INVALID || code == CB_LIMIT)));
	if (code != CB_OK) return 0;
	check_value(json_root(doc));
	check_round_trip(doc, JSON_COMPACT);
	check_round_trip(doc, JSON_PRETTY | JSON_NEWLINE);
	return 0;
}
