/* json_write.c: JSON written piece by piece; the caller's mistakes (a member outside an object) are asserted, the world's are kept. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/utf8.h"

/* ---- bytes out ---- */

static void hand_over(json_writer *w)
{
	if (w->held && w->code == CB_OK && w->sink) w->code = w->sink(w->context, w->hold, w->held, &w->error);
	w->held = 0;
}

static void put(json_writer *w, const void *bytes, size_t size)
{
	if (w->code != CB_OK || size == 0) return;
	if (w->to) {
		w->code = buf_append(w->to, bytes, size, &w->error);
		return;
	}
	if (size > sizeof(w->hold) - w->held) hand_over(w);
	if (size > sizeof(w->hold)) {
		if (w->code == CB_OK) w->code = w->sink(w->context, bytes, size, &w->error);
		return;
	}
	memcpy(w->hold + w->held, bytes, size);
	w->held += size;
}

static void put_str(json_writer *w, const char *s)
{
	put(w, s, strlen(s));
}

static void line_break(json_writer *w)
{
	if (!(w->flags & JSON_PRETTY)) return;
	put(w, "\n", 1);
	for (unsigned i = 0; i < w->depth; i++) put(w, "  ", 2);
}

static void writer_init(json_writer *w, unsigned flags)
{
	w->to = NULL;
	w->sink = NULL;
	w->context = NULL;
	w->flags = flags;
	w->depth = 0;
	w->filled = w->is_object = 0;
	w->has_key = false;
	w->code = CB_OK;
	w->error = (cb_error){0};
	w->held = 0;
}

void json_writer_init(json_writer *w, buf *to, unsigned flags)
{
	writer_init(w, flags);
	w->to = to;
}

void json_writer_init_sink(json_writer *w, json_sink sink, void *context, unsigned flags)
{
	writer_init(w, flags);
	w->sink = sink;
	w->context = context;
}

cb_code json_writer_flush(json_writer *w, cb_error *err)
{
	hand_over(w);
	if (w->code != CB_OK && err) {
		*err = w->error;
		if (err->code != w->code) return cb_err_set(err, w->code, NULL);
	}
	return w->code;
}

/* ---- structure ---- */

static uint64_t level_bit(const json_writer *w)
{
	return (uint64_t)1 << (w->depth - 1);
}

static void value_begin(json_writer *w)
{
	if (w->depth == 0 || w->code != CB_OK) return;
	assert(w->has_key == ((w->is_object & level_bit(w)) != 0));
	if (!w->has_key) {
		if (w->filled & level_bit(w)) put(w, ",", 1);
		w->filled |= level_bit(w);
		line_break(w);
	}
	w->has_key = false;
}

static void value_end(json_writer *w)
{
	if (w->depth == 0 && (w->flags & JSON_NEWLINE)) put(w, "\n", 1);
}

static void container_begin(json_writer *w, bool object)
{
	value_begin(w);
	if (w->code != CB_OK) return;
	if (w->depth == JSON_DEPTH_MAX) {
		w->code = cb_err_set(&w->error, CB_LIMIT, "JSON is nested deeper than %d levels", JSON_DEPTH_MAX);
		return;
	}
	w->depth++;
	w->filled &= ~level_bit(w);
	w->is_object = object ? w->is_object | level_bit(w) : w->is_object & ~level_bit(w);
	put(w, object ? "{" : "[", 1);
}

static void container_end(json_writer *w, bool object)
{
	/* After a failure begins were not counted, so ends are not either. */
	if (w->code != CB_OK) return;
	assert(w->depth > 0 && !w->has_key && object == ((w->is_object & level_bit(w)) != 0));
	if (object && w->depth == 1 && w->flags & JSON_OPEN) return;
	bool filled = w->filled & level_bit(w);
	w->depth--;
	if (filled) line_break(w);
	put(w, object ? "}" : "]", 1);
	value_end(w);
}

void json_object_begin(json_writer *w)
{
	container_begin(w, true);
}

void json_object_end(json_writer *w)
{
	container_end(w, true);
}

void json_array_begin(json_writer *w)
{
	container_begin(w, false);
}

void json_array_end(json_writer *w)
{
	container_end(w, false);
}

cb_code json_writer_end(json_writer *w, cb_error *err)
{
	bool waits = w->flags & JSON_OPEN && w->depth == 1 && w->is_object & 1;
	w->flags &= ~(unsigned)JSON_OPEN;
	if (waits) json_object_end(w);
	assert(w->code != CB_OK || (w->depth == 0 && !w->has_key));
	return json_writer_flush(w, err);
}

/* ---- values ---- */

static void put_escape(json_writer *w, uint32_t c)
{
	static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	char text[8];
	for (size_t i = 0; i + 1 < sizeof(shorts); i += 2)
		if (c == (uint8_t)shorts[i]) {
			text[0] = '\\';
			text[1] = shorts[i + 1];
			put(w, text, 2);
			return;
		}
	/* Everything escaped by number lies below U+10000. */
	(void)snprintf(text, sizeof(text), "\\u%04x", c & 0xffff);
	put(w, text, 6);
}

/* False when something was not UTF-8 and was replaced. */
static bool put_string(json_writer *w, span s)
{
	bool exact = true;
	put(w, "\"", 1);
	while (s.size && w->code == CB_OK) {
		uint32_t c = 0;
		size_t n = utf8_plain(s);
		if (n) {
			put(w, s.bytes, n);
		} else {
			n = utf8_take(s, &c);
			if (c == UTF8_BAD) {
				exact = false;
				put_str(w, "\xef\xbf\xbd");
			} else if (c == '"' || c == '\\' || utf8_is_control(c)) {
				put_escape(w, c);
			} else {
				put(w, s.bytes, n);
			}
		}
		s = span_make(s.bytes + n, s.size - n);
	}
	put(w, "\"", 1);
	return exact;
}

static void put_scalar(json_writer *w, const char *text)
{
	value_begin(w);
	put_str(w, text);
	value_end(w);
}

void json_key_bytes(json_writer *w, span name)
{
	if (w->code != CB_OK) return;
	assert(w->depth > 0 && (w->is_object & level_bit(w)) && !w->has_key);
	if (w->filled & level_bit(w)) put(w, ",", 1);
	w->filled |= level_bit(w);
	line_break(w);
	(void)put_string(w, name);
	put_str(w, w->flags & JSON_PRETTY ? ": " : ":");
	w->has_key = true;
}

void json_key(json_writer *w, const char *name)
{
	json_key_bytes(w, span_str(name));
}

void json_bytes(json_writer *w, const void *bytes, size_t size)
{
	value_begin(w);
	(void)put_string(w, span_make(bytes, size));
	value_end(w);
}

void json_str(json_writer *w, const char *text)
{
	if (text) json_bytes(w, text, strlen(text));
	else json_null(w);
}

void json_base64(json_writer *w, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	value_begin(w);
	put(w, "\"", 1);
	for (; size && w->code == CB_OK; at += 3) {
		char quad[4];
		size_t n = size < 3 ? size : 3;
		base64_quad(at, n, quad);
		put(w, quad, 4);
		size -= n;
	}
	put(w, "\"", 1);
	value_end(w);
}

void json_uint(json_writer *w, uint64_t number)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	put_scalar(w, text);
}

void json_int(json_writer *w, int64_t number)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%lld", (long long)number);
	put_scalar(w, text);
}

void json_double(json_writer *w, double number)
{
	char text[40];
	if (!isfinite(number)) {
		json_null(w);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, number);
		if (strtod(text, NULL) == number) break;
	}
	/* The decimal point of a host program's locale has no business here. */
	for (char *p = text; *p; p++)
		if (!strchr("0123456789+-e", *p)) *p = '.';
	put_scalar(w, text);
}

void json_bool(json_writer *w, bool value)
{
	put_scalar(w, value ? "true" : "false");
}

void json_null(json_writer *w)
{
	put_scalar(w, "null");
}

/* ---- members ---- */

void json_member_object(json_writer *w, const char *name)
{
	json_key(w, name);
	json_object_begin(w);
}

void json_member_array(json_writer *w, const char *name)
{
	json_key(w, name);
	json_array_begin(w);
}

static void base64_key(json_writer *w, const char *name)
{
	char key[128];
	int n = snprintf(key, sizeof(key), "%s_base64", name);
	assert(n > 0 && (size_t)n < sizeof(key));
	json_key(w, key);
}

void json_member_bytes(json_writer *w, const char *name, const void *bytes, size_t size)
{
	json_key(w, name);
	value_begin(w);
	if (put_string(w, span_make(bytes, size))) return;
	base64_key(w, name);
	json_base64(w, bytes, size);
}

void json_member_strings(json_writer *w, const char *name, span strings)
{
	bool exact = true;
	json_member_array(w, name);
	for (size_t at = 0, n; at < strings.size; at += n + 1) {
		n = strlen((const char *)strings.bytes + at);
		json_bytes(w, strings.bytes + at, n);
		exact = exact && utf8_valid(span_make(strings.bytes + at, n));
	}
	json_array_end(w);
	if (exact) return;
	base64_key(w, name);
	json_array_begin(w);
	for (size_t at = 0, n; at < strings.size; at += n + 1) {
		n = strlen((const char *)strings.bytes + at);
		if (utf8_valid(span_make(strings.bytes + at, n))) json_null(w);
		else json_base64(w, strings.bytes + at, n);
	}
	json_array_end(w);
}

void json_member_str(json_writer *w, const char *name, const char *text)
{
	if (text) json_member_bytes(w, name, text, strlen(text));
	else json_member_null(w, name);
}

void json_member_uint(json_writer *w, const char *name, uint64_t number)
{
	json_key(w, name);
	json_uint(w, number);
}

void json_member_int(json_writer *w, const char *name, int64_t number)
{
	json_key(w, name);
	json_int(w, number);
}

void json_member_double(json_writer *w, const char *name, double number)
{
	json_key(w, name);
	json_double(w, number);
}

void json_member_bool(json_writer *w, const char *name, bool value)
{
	json_key(w, name);
	json_bool(w, value);
}

void json_member_null(json_writer *w, const char *name)
{
	json_key(w, name);
	json_null(w);
}

/* ---- what was read ---- */

void json_write_value(json_writer *w, const json_value *v)
{
	bool yes = false;
	span text = {0};
	switch (json_type_of(v)) {
	case JSON_NULL:
		json_null(w);
		return;
	case JSON_BOOL:
		(void)json_as_bool(v, &yes);
		json_bool(w, yes);
		return;
	case JSON_NUMBER:
		text = json_number_text(v);
		value_begin(w);
		put(w, text.bytes, text.size);
		value_end(w);
		return;
	case JSON_STRING:
		(void)json_as_span(v, &text);
		json_bytes(w, text.bytes, text.size);
		return;
	case JSON_ARRAY:
		json_array_begin(w);
		for (size_t i = 0; i < json_count(v); i++) json_write_value(w, json_at(v, i));
		json_array_end(w);
		return;
	case JSON_OBJECT:
		json_object_begin(w);
		for (size_t i = 0; i < json_count(v); i++) {
			json_key_bytes(w, json_key_at(v, i));
			json_write_value(w, json_at(v, i));
		}
		json_object_end(w);
		return;
	}
}
