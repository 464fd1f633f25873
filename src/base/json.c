/*
 * json.c: JSON read into an immutable tree.
 *
 * The text is hostile. Its length, its depth and the number of its values are bounded before anything is allocated for them; the parser
 * recurses at most JSON_DEPTH_MAX deep. Members of a container under way wait on one stack and move into the document when it closes,
 * so that each container is one array.
 */
#include "base/json.h"

#include <assert.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/limits.h"
#include "base/utf8.h"

enum {
	BLOCK_BYTES = 16 << 10,
	LINEAR_MAX = 8, /* objects up to this size are searched from front to back */
};

typedef struct json_member json_member;

struct json_value {
	json_type type;
	bool yes;
	size_t size; /* of the text, or members */
	union {
		const uint8_t *text;
		const json_member *members;
	};
	const uint32_t *order; /* an object's members by key, when it is large */
};

struct json_member {
	span key; /* empty in an array */
	json_value value;
};

typedef struct block {
	struct block *next;
	size_t used, size;
	uint8_t bytes[];
} block;

struct json_doc {
	block *blocks;
	json_value root;
};

typedef struct parser {
	const uint8_t *start, *at, *end;
	json_doc *doc;
	buf stack;   /* json_member of the containers that are open */
	buf scratch; /* a string's bytes until its size is known */
	size_t nodes, max_nodes;
	unsigned depth;
	cb_error *err;
} parser;

/* ---- memory ---- */

static void *doc_alloc(json_doc *doc, size_t size)
{
	size = (size + 15) & ~(size_t)15;
	block *b = doc->blocks;
	if (!b || b->size - b->used < size) {
		size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
		b = mem_alloc(sizeof(*b) + room);
		if (!b) return NULL;
		*b = (block){doc->blocks, 0, room};
		/* A large piece fills its block; behind the current one it does not cost that one's room. */
		if (size > BLOCK_BYTES && doc->blocks) {
			b->next = doc->blocks->next;
			doc->blocks->next = b;
		} else {
			doc->blocks = b;
		}
	}
	void *p = b->bytes + b->used;
	b->used += size;
	return p;
}

void json_doc_destroy(json_doc *doc)
{
	if (!doc) return;
	while (doc->blocks) {
		block *next = doc->blocks->next;
		free(doc->blocks);
		doc->blocks = next;
	}
	free(doc);
}

/* ---- errors ---- */

static cb_code fail_code(const parser *p, cb_code code, const uint8_t *at, const char *what)
{
	size_t line = 1, column = 1;
	for (const uint8_t *c = p->start; c < at; c++) {
		column = *c == '\n' ? 1 : column + 1;
		line += *c == '\n';
	}
	return cb_err_set(p->err, code, "JSON, line %zu, column %zu: %s", line, column, what);
}

static cb_code fail(const parser *p, const char *what)
{
	return fail_code(p, CB_INVALID, p->at, what);
}

/* ---- tokens ---- */

static void skip_space(parser *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')) p->at++;
}

static bool take(parser *p, uint8_t c)
{
	if (p->at == p->end || *p->at != c) return false;
	p->at++;
	return true;
}

static cb_code take_word(parser *p, const char *word)
{
	size_t size = strlen(word);
	if ((size_t)(p->end - p->at) < size || memcmp(p->at, word, size) != 0) return fail(p, "expected a value");
	p->at += size;
	return CB_OK;
}

static cb_code keep_text(parser *p, const void *bytes, size_t size, const uint8_t **out)
{
	uint8_t *text = doc_alloc(p->doc, size + 1);
	if (!text) return cb_err_nomem(p->err);
	if (size) memcpy(text, bytes, size);
	text[size] = '\0';
	*out = text;
	return CB_OK;
}

static bool take_hex4(parser *p, uint32_t *out)
{
	uint32_t v = 0;
	if (p->end - p->at < 4) return false;
	for (int i = 0; i < 4; i++) {
		uint8_t c = p->at[i];
		uint8_t lower = c | 0x20;
		if (c >= '0' && c <= '9') v = v << 4 | (c - '0');
		else if (lower >= 'a' && lower <= 'f') v = v << 4 | (uint32_t)(lower - 'a' + 10);
		else return false;
	}
	p->at += 4;
	*out = v;
	return true;
}

/* After "\u". */
static cb_code take_unicode(parser *p)
{
	uint32_t c, low;
	const uint8_t *begin = p->at - 2;
	if (!take_hex4(p, &c)) return fail_code(p, CB_INVALID, begin, "\\u needs four hexadecimal digits");
	if (c >= 0xd800 && c <= 0xdfff) {
		bool pair = c < 0xdc00 && take(p, '\\') && take(p, 'u') && take_hex4(p, &low) && low >= 0xdc00 && low <= 0xdfff;
		if (!pair) return fail_code(p, CB_INVALID, begin, "a surrogate without its other half");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	uint8_t bytes[4];
	return buf_append(&p->scratch, bytes, utf8_put(bytes, c), p->err);
}

/* After the backslash. */
static cb_code take_escape(parser *p)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const uint8_t *begin = p->at - 1;
	if (p->at == p->end) return fail(p, "the string does not end");
	uint8_t c = *p->at++;
	if (c == 'u') return take_unicode(p);
	const char *found = c ? strchr(names, c) : NULL;
	if (!found) return fail_code(p, CB_INVALID, begin, "unknown escape in a string");
	return buf_append_byte(&p->scratch, (uint8_t)values[found - names], p->err);
}

/* After the opening quote. */
static cb_code take_string(parser *p, span *out)
{
	buf_clear(&p->scratch);
	while (!take(p, '"')) {
		span rest = span_make(p->at, (size_t)(p->end - p->at));
		uint32_t c = 0;
		if (rest.size == 0) return fail(p, "the string does not end");
		if (take(p, '\\')) {
			CB_TRY(take_escape(p));
			continue;
		}
		size_t n = utf8_plain(rest);
		if (n == 0) n = utf8_take(rest, &c);
		if (c == UTF8_BAD) return fail(p, "not UTF-8");
		if (rest.bytes[0] < 0x20) return fail(p, "a control character in a string must be escaped");
		CB_TRY(buf_append(&p->scratch, rest.bytes, n, p->err));
		p->at += n;
	}
	const uint8_t *text = NULL;
	CB_TRY(keep_text(p, p->scratch.bytes, p->scratch.size, &text));
	*out = span_make(text, p->scratch.size);
	return CB_OK;
}

static size_t take_digits(parser *p)
{
	const uint8_t *begin = p->at;
	while (p->at < p->end && *p->at >= '0' && *p->at <= '9') p->at++;
	return (size_t)(p->at - begin);
}

static cb_code take_number(parser *p, json_value *out)
{
	const uint8_t *begin = p->at;
	(void)take(p, '-');
	bool zero = p->at < p->end && *p->at == '0';
	size_t digits = take_digits(p);
	if (digits == 0) return begin == p->at ? fail(p, "expected a value") : fail(p, "expected a digit");
	if (zero && digits > 1) return fail_code(p, CB_INVALID, begin, "a number must not begin with 0");
	if (take(p, '.') && take_digits(p) == 0) return fail(p, "expected a digit");
	if (take(p, 'e') || take(p, 'E')) {
		if (!take(p, '+')) (void)take(p, '-');
		if (take_digits(p) == 0) return fail(p, "expected a digit");
	}
	out->type = JSON_NUMBER;
	out->size = (size_t)(p->at - begin);
	return keep_text(p, begin, out->size, &out->text);
}

/* ---- values ---- */

static int compare_members(const void *a, const void *b, void *context)
{
	const json_member *members = context;
	return span_compare(members[*(const uint32_t *)a].key, members[*(const uint32_t *)b].key);
}

static bool has_twice(const json_member *members, size_t count, size_t *out_index)
{
	for (size_t i = 1; i < count; i++)
		for (size_t k = 0; k < i; k++)
			if (span_equal(members[i].key, members[k].key)) {
				*out_index = i;
				return true;
			}
	return false;
}

static cb_code index_build(parser *p, json_value *v, bool *out_twice, size_t *out_index)
{
	if (v->size <= LINEAR_MAX) {
		*out_twice = has_twice(v->members, v->size, out_index);
		return CB_OK;
	}
	uint32_t *order = doc_alloc(p->doc, v->size * sizeof(*order));
	if (!order) return cb_err_nomem(p->err);
	for (size_t i = 0; i < v->size; i++) order[i] = (uint32_t)i;
	json_member *members = (json_member *)(uintptr_t)v->members;
	qsort_r(order, v->size, sizeof(*order), compare_members, members);
	for (size_t i = 1; i < v->size && !*out_twice; i++)
		if (span_equal(members[order[i - 1]].key, members[order[i]].key)) {
			*out_twice = true;
			*out_index = order[i];
		}
	v->order = order;
	return CB_OK;
}

/* Moves the members above `mark` from the stack into the document. */
static cb_code container_close(parser *p, size_t mark, const uint8_t *begin, json_value *out)
{
	size_t bytes = p->stack.size - mark;
	json_member *members = NULL;
	if (bytes) {
		members = doc_alloc(p->doc, bytes);
		if (!members) return cb_err_nomem(p->err);
		memcpy(members, p->stack.bytes + mark, bytes);
		p->stack.size = mark;
	}
	out->size = bytes / sizeof(json_member);
	out->members = members;
	if (out->type == JSON_ARRAY) return CB_OK;
	bool twice = false;
	size_t index = 0;
	CB_TRY(index_build(p, out, &twice, &index));
	if (!twice) return CB_OK;
	char what[96];
	(void)snprintf(what, sizeof(what), "the object that begins here has the key \"%.32s\" twice",
	               (const char *)members[index].key.bytes);
	return fail_code(p, CB_INVALID, begin, what);
}

static cb_code take_value(parser *p, json_value *out);

static cb_code take_member(parser *p, json_type type)
{
	json_member m = {0};
	skip_space(p);
	if (type == JSON_OBJECT) {
		if (!take(p, '"')) return fail(p, "expected a key in quotes");
		CB_TRY(take_string(p, &m.key));
		skip_space(p);
		if (!take(p, ':')) return fail(p, "expected ':'");
		skip_space(p);
	}
	CB_TRY(take_value(p, &m.value));
	return buf_append(&p->stack, &m, sizeof(m), p->err);
}

/* After the opening bracket. */
static cb_code take_container(parser *p, json_type type, json_value *out)
{
	uint8_t closing = type == JSON_OBJECT ? '}' : ']';
	const uint8_t *begin = p->at - 1;
	size_t mark = p->stack.size;
	out->type = type;
	if (p->depth == JSON_DEPTH_MAX) return fail_code(p, CB_LIMIT, begin, "nested too deeply");
	p->depth++;
	skip_space(p);
	if (!take(p, closing)) {
		do {
			CB_TRY(take_member(p, type));
			skip_space(p);
		} while (take(p, ','));
		if (!take(p, closing)) return fail(p, type == JSON_OBJECT ? "expected ',' or '}'" : "expected ',' or ']'");
	}
	p->depth--;
	return container_close(p, mark, begin, out);
}

static cb_code take_value(parser *p, json_value *out)
{
	if (p->at == p->end) return fail(p, "the text ends where a value should be");
	if (p->nodes++ == p->max_nodes) return fail_code(p, CB_LIMIT, p->at, "too many values");
	switch (*p->at) {
	case '{':
		p->at++;
		return take_container(p, JSON_OBJECT, out);
	case '[':
		p->at++;
		return take_container(p, JSON_ARRAY, out);
	case '"': {
		span text;
		p->at++;
		CB_TRY(take_string(p, &text));
		*out = (json_value){.type = JSON_STRING, .size = text.size, .text = text.bytes};
		return CB_OK;
	}
	case 't':
	case 'f':
		*out = (json_value){.type = JSON_BOOL, .yes = *p->at == 't'};
		return take_word(p, out->yes ? "true" : "false");
	case 'n':
		*out = (json_value){.type = JSON_NULL};
		return take_word(p, "null");
	default:
		return take_number(p, out);
	}
}

static cb_code parse_root(parser *p)
{
	skip_space(p);
	CB_TRY(take_value(p, &p->doc->root));
	skip_space(p);
	return p->at == p->end ? CB_OK : fail(p, "something follows the value");
}

cb_code json_parse(span text, const json_limits *limits, json_doc **out, cb_error *err)
{
	size_t max_bytes = limits && limits->max_bytes ? limits->max_bytes : LIMIT_JSON_BYTES;
	size_t max_nodes = limits && limits->max_nodes ? limits->max_nodes : LIMIT_JSON_NODES;
	if (text.size > max_bytes)
		return cb_err_set(err, CB_LIMIT, "JSON of %zu bytes: at most %zu are read", text.size, max_bytes);
	assert(max_nodes <= UINT32_MAX);
	AUTO_JSON json_doc *doc = mem_alloc(sizeof(*doc));
	if (!doc) return cb_err_nomem(err);
	*doc = (json_doc){0};
	parser p = {text.bytes,
	            text.bytes,
	            text.size ? text.bytes + text.size : text.bytes,
	            doc,
	            BUF_INIT(max_nodes * sizeof(json_member)),
	            BUF_INIT(max_bytes),
	            0,
	            max_nodes,
	            0,
	            err};
	cb_code code = parse_root(&p);
	buf_done(&p.stack);
	buf_done(&p.scratch);
	if (code == CB_OK) *out = TAKE_PTR(doc);
	return code;
}

/* ---- reading the tree ---- */

const json_value *json_root(const json_doc *doc)
{
	return doc ? &doc->root : NULL;
}

json_type json_type_of(const json_value *v)
{
	return v ? v->type : JSON_NULL;
}

const char *json_type_name(const json_value *v)
{
	static const char *const names[] = {"null", "boolean", "number", "string", "array", "object"};
	return names[json_type_of(v)];
}

bool json_is(const json_value *v, json_type type)
{
	return v && v->type == type;
}

size_t json_count(const json_value *v)
{
	return json_is(v, JSON_ARRAY) || json_is(v, JSON_OBJECT) ? v->size : 0;
}

const json_value *json_at(const json_value *v, size_t index)
{
	return index < json_count(v) ? &v->members[index].value : NULL;
}

span json_key_at(const json_value *v, size_t index)
{
	return json_is(v, JSON_OBJECT) && index < v->size ? v->members[index].key : span_str("");
}

const json_value *json_get(const json_value *object, const char *key)
{
	if (!json_is(object, JSON_OBJECT)) return NULL;
	span wanted = span_str(key);
	if (!object->order) {
		for (size_t i = 0; i < object->size; i++)
			if (span_equal(object->members[i].key, wanted)) return &object->members[i].value;
		return NULL;
	}
	size_t low = 0, high = object->size;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const json_member *m = &object->members[object->order[middle]];
		int c = span_compare(wanted, m->key);
		if (c == 0) return &m->value;
		if (c < 0) high = middle;
		else low = middle + 1;
	}
	return NULL;
}

bool json_as_bool(const json_value *v, bool *out)
{
	if (!json_is(v, JSON_BOOL)) return false;
	*out = v->yes;
	return true;
}

/* The power of ten behind 'e', cut to what can matter: no text that is read is long enough to make up for more. */
static int64_t exponent_of(span text)
{
	int64_t e = 0;
	bool negative = text.size && text.bytes[0] == '-';
	for (size_t i = 0; i < text.size; i++)
		if (text.bytes[i] >= '0' && text.bytes[i] <= '9' && e < INT64_MAX / 100) e = e * 10 + (text.bytes[i] - '0');
	return negative ? -e : e;
}

/* The integer a number stands for, as sign and magnitude: digits times a power of ten, without rounding. */
static bool integer_of(const json_value *v, bool *out_negative, uint64_t *out)
{
	if (!json_is(v, JSON_NUMBER)) return false;
	uint64_t magnitude = 0;
	int64_t scale = 0, zeros = 0; /* zeros: seen but not yet counted in, since trailing ones need no room */
	bool fraction = false;
	*out_negative = v->text[0] == '-';
	for (size_t i = *out_negative; i < v->size; i++) {
		uint8_t c = v->text[i];
		if (c == '.') {
			fraction = true;
			continue;
		}
		if (c == 'e' || c == 'E') {
			scale += exponent_of(span_make(v->text + i + 1, v->size - i - 1));
			break;
		}
		scale -= fraction;
		if (c == '0') {
			zeros++;
			continue;
		}
		for (; zeros > 0 && magnitude; zeros--)
			if (__builtin_mul_overflow(magnitude, (uint64_t)10, &magnitude)) return false;
		zeros = 0;
		if (__builtin_mul_overflow(magnitude, (uint64_t)10, &magnitude)) return false;
		if (__builtin_add_overflow(magnitude, (uint64_t)(c - '0'), &magnitude)) return false;
	}
	scale += zeros;
	if (magnitude && scale < 0) return false;
	for (; magnitude && scale > 0; scale--)
		if (__builtin_mul_overflow(magnitude, (uint64_t)10, &magnitude)) return false;
	*out = magnitude;
	return true;
}

bool json_as_uint(const json_value *v, uint64_t *out)
{
	bool negative;
	uint64_t magnitude;
	if (!integer_of(v, &negative, &magnitude) || (negative && magnitude)) return false;
	*out = magnitude;
	return true;
}

bool json_as_int(const json_value *v, int64_t *out)
{
	bool negative;
	uint64_t magnitude;
	if (!integer_of(v, &negative, &magnitude)) return false;
	if (magnitude > (uint64_t)INT64_MAX + negative) return false;
	*out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return true;
}

bool json_as_double(const json_value *v, double *out)
{
	if (!json_is(v, JSON_NUMBER)) return false;
	/* In the host program's locale the decimal point may be a comma. */
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!plain) return false;
	*out = strtod_l((const char *)v->text, NULL, plain);
	freelocale(plain);
	return true;
}

span json_number_text(const json_value *v)
{
	return json_is(v, JSON_NUMBER) ? span_make(v->text, v->size) : span_make(NULL, 0);
}

bool json_as_span(const json_value *v, span *out)
{
	if (!json_is(v, JSON_STRING)) return false;
	*out = span_make(v->text, v->size);
	return true;
}

bool json_as_str(const json_value *v, const char **out)
{
	if (!json_is(v, JSON_STRING) || memchr(v->text, 0, v->size)) return false;
	*out = (const char *)v->text;
	return true;
}

cb_code json_get_bytes(const json_value *object, const char *name, buf *to, bool *out_found, cb_error *err)
{
	char key[128];
	int n = snprintf(key, sizeof(key), "%s_base64", name);
	assert(n > 0 && (size_t)n < sizeof(key));
	const json_value *exact = json_get(object, key), *plain = json_get(object, name);
	span text;
	*out_found = exact || plain;
	if (!exact && !plain) return CB_OK;
	if (!json_as_span(exact ? exact : plain, &text))
		return cb_err_set(err, CB_INVALID, "\"%s\" is %s, not a string", exact ? key : name,
		                  json_type_name(exact ? exact : plain));
	if (!exact) return buf_append(to, text.bytes, text.size, err);
	cb_code code = base64_decode(text, to, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "\"%s\"", key);
}
