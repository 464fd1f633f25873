/*
 * regex.h: one pattern, matched against the lines of texts. The only file that knows PCRE2 is regex.c.
 *
 * A line is what stands between newlines (LF); the CR of a CR LF belongs to it, but `$` matches before it too. Texts need not be UTF-8:
 * where they are not, no character of the pattern matches. Patterns and texts are hostile: a match that takes more than its share of time
 * or memory is CB_LIMIT.
 *
 * Threads: a regex belongs to one.
 */
#ifndef SEARCH_REGEX_H
#define SEARCH_REGEX_H

#include <cowbox/cowbox.h>

#include "base/buf.h"

typedef struct regex regex;

/* Uses pattern, fixed, ignore_case and word of the options. CB_INVALID names the place. regex_destroy() it. */
cb_code regex_compile(const cb_grep_options *options, regex **out, cb_error *err);
void regex_destroy(regex *re); /* accepts NULL */

/* Begins with a text, which must stay there and not change until the next one. */
cb_code regex_begin(regex *re, span text, cb_error *err);
/* The first line at or after `from` (the start of a line) that matches: [*out_start, *out_end) without its newline. *out_found false when
 * there is none. CB_LIMIT: the line at *out_start is too much. */
cb_code regex_next(regex *re, size_t from, size_t *out_start, size_t *out_end, bool *out_found, cb_error *err);
/* Appends a cb_grep_match for each match in a line of the text that is not empty, at most LIMIT_GREP_MATCHES. */
cb_code regex_matches(regex *re, size_t start, size_t end, buf *out, cb_error *err);

#endif
