/*
 * json.h: JSON (RFC 8259), written and read.
 *
 * Writing goes into a buffer or to a function, piece by piece; the first failure is kept and later calls do nothing, so that callers check
 * once, at json_writer_end(). Strings are bytes from anywhere: what is not UTF-8 comes out as U+FFFD, and json_member_bytes() then adds a
 * sibling NAME_base64 with the exact bytes, json_member_strings() one for a list. Control characters, and those that turn text around on a
 * terminal, are escaped.
 *
 * Reading is strict and gives an immutable tree in one block of memory: no comments, no trailing commas, no NaN, valid UTF-8 only, lone
 * surrogates refused, a key twice in one object refused (two readers that pick differently are a hole), at most JSON_DEPTH_MAX levels.
 * Numbers keep their text, so 64-bit integers are exact. Strings may hold NULs: they have sizes.
 *
 * Threads: a writer belongs to one; a parsed document may be read by any.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

enum { JSON_DEPTH_MAX = 64 };

/* ---- writing ---- */

enum {
	JSON_COMPACT = 0,
	JSON_PRETTY = 1,  /* two spaces per level, a line per member */
	JSON_NEWLINE = 2, /* a newline after each outermost value: JSON lines when compact */
	JSON_OPEN = 4,    /* the end of the outermost object waits for json_writer_end(): members can be added until then */
};

typedef cb_code (*json_sink)(void *context, const void *bytes, size_t size, cb_error *err);

/* Fields are json.c's. It owns nothing: no clean-up is needed after json_writer_end() or an early return. */
typedef struct json_writer {
	buf *to;
	json_sink sink;
	void *context;
	unsigned flags;
	unsigned depth;
	uint64_t filled;    /* bit d: the container at depth d has a member */
	uint64_t is_object; /* bit d: it is an object */
	bool has_key;
	cb_code code;
	cb_error error;
	size_t held;
	char hold[4096]; /* what the sink gets next */
} json_writer;

void json_writer_init(json_writer *w, buf *to, unsigned flags);
/* The sink gets pieces of any size, the last ones at json_writer_flush() or json_writer_end(). */
void json_writer_init_sink(json_writer *w, json_sink sink, void *context, unsigned flags);
/* Hands what is held to the sink; gives the first failure. Containers may be open. */
cb_code json_writer_flush(json_writer *w, cb_error *err);
/* The same, when everything begun was ended. */
cb_code json_writer_end(json_writer *w, cb_error *err);

/* Values: outermost, in an array, or after json_key(). */
void json_key(json_writer *w, const char *name);
void json_key_bytes(json_writer *w, span name);
void json_object_begin(json_writer *w);
void json_object_end(json_writer *w);
void json_array_begin(json_writer *w);
void json_array_end(json_writer *w);
void json_str(json_writer *w, const char *text);                 /* NULL gives null */
void json_bytes(json_writer *w, const void *bytes, size_t size); /* what is not UTF-8 is replaced */
void json_base64(json_writer *w, const void *bytes, size_t size);
void json_uint(json_writer *w, uint64_t number);
void json_int(json_writer *w, int64_t number);
void json_double(json_writer *w, double number); /* shortest form that reads back the same; not finite: null */
void json_bool(json_writer *w, bool value);
void json_null(json_writer *w);

/* Members of the object that is open. */
void json_member_object(json_writer *w, const char *name); /* json_object_end() closes it */
void json_member_array(json_writer *w, const char *name);
/* "name": "..." and, only where that lost something, "name_base64": the exact bytes. */
void json_member_bytes(json_writer *w, const char *name, const void *bytes, size_t size);
void json_member_str(json_writer *w, const char *name, const char *text); /* the same for a C string; NULL gives null */
/* "name": ["...", ..] of strings that each end with a NUL and, only where that lost something, "name_base64": as many, null where the
 * string is exact. */
void json_member_strings(json_writer *w, const char *name, span strings);
void json_member_uint(json_writer *w, const char *name, uint64_t number);
void json_member_int(json_writer *w, const char *name, int64_t number);
void json_member_double(json_writer *w, const char *name, double number);
void json_member_bool(json_writer *w, const char *name, bool value);
void json_member_null(json_writer *w, const char *name);

/* ---- reading ---- */

typedef enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_type;

typedef struct json_doc json_doc;
typedef struct json_value json_value;

typedef struct json_limits {
	size_t max_bytes; /* of the text; 0: LIMIT_JSON_BYTES */
	size_t max_nodes; /* values of all kinds; 0: LIMIT_JSON_NODES */
} json_limits;

/* CB_INVALID names line and column (bytes, from 1); CB_LIMIT: too long, too deep or too many values. limits may be NULL. The text is not
 * needed afterwards. json_doc_destroy() the result. */
cb_code json_parse(span text, const json_limits *limits, json_doc **out, cb_error *err);
void json_doc_destroy(json_doc *doc); /* accepts NULL */
static inline void json_doc_done_(json_doc **doc)
{
	json_doc_destroy(*doc);
}
#define AUTO_JSON ATTR_CLEANUP(json_doc_done_)

/* Values live as long as their document. Every function accepts NULL as "not there". */
const json_value *json_root(const json_doc *doc);
json_type json_type_of(const json_value *v);       /* NULL: JSON_NULL */
const char *json_type_name(const json_value *v);   /* "null", "boolean", "number", "string", "array", "object" */
bool json_is(const json_value *v, json_type type); /* there, and of that type */

/* Arrays and objects: members in the order of the text. */
size_t json_count(const json_value *v);                                /* 0 for anything else */
const json_value *json_at(const json_value *v, size_t index);          /* NULL past the end */
span json_key_at(const json_value *v, size_t index);                   /* of an object; NUL-terminated */
const json_value *json_get(const json_value *object, const char *key); /* NULL: not there or not an object */

/* True and *out only when the value is of that kind and in range. 1.0 and 1e2 are integers; 1.5 is not. */
bool json_as_bool(const json_value *v, bool *out);
bool json_as_uint(const json_value *v, uint64_t *out);
bool json_as_int(const json_value *v, int64_t *out);
bool json_as_double(const json_value *v, double *out);
bool json_as_span(const json_value *v, span *out);       /* a string; NUL-terminated, may hold NULs */
bool json_as_str(const json_value *v, const char **out); /* a string without NULs */
span json_number_text(const json_value *v);              /* as written; empty when not a number */

/* The bytes of a member as json_member_bytes() writes them: NAME_base64 decoded when it is there, else the string NAME. *out_found false
 * when neither is; CB_INVALID when it is of another type or not base64. Appended to `to`. */
cb_code json_get_bytes(const json_value *object, const char *name, buf *to, bool *out_found, cb_error *err);

/* Writes a value as it was read: strings, numbers and the order of members stay. */
void json_write_value(json_writer *w, const json_value *v);

#endif
