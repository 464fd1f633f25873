/*
 * shape.h: what can be told of a pattern by reading it, before PCRE2 sees it.
 *
 * Lines are matched one by one, but a call per line is slow. A pattern that is understood here is rewritten so that nothing in it matches
 * a newline; then a newline bounds a match as the ends of a line on its own would, and one call can search a whole text. A text that
 * every match must hold, where there is one, lets whole files be passed over without a call at all. Whatever is not understood (inline
 * options, verbs, conditions, recursion, \A, \z, \K and the like) is left to be matched line by line.
 */
#ifndef SEARCH_SHAPE_H
#define SEARCH_SHAPE_H

#include "base/buf.h"

enum { SHAPE_LITERAL_MAX = 256 };

typedef struct shape {
	bool simple;       /* understood: `across` may be used */
	bool ignore_case;  /* the pattern began with (?i), which `across` is without */
	bool literal_only; /* the whole pattern is `literal` */
	uint8_t literal[SHAPE_LITERAL_MAX];
	size_t literal_size; /* 0: none is known */
	buf across;          /* rewritten for a whole text, with PCRE2_MULTILINE and newlines that are LF */
} shape;

/* pattern: UTF-8 without newlines. Fails for lack of memory only. */
cb_code shape_read(const char *pattern, shape *out, cb_error *err);
void shape_done(shape *s);

#endif
