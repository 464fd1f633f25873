/* utf8.h: UTF-8 read character by character from hostile bytes. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/span.h"

#define UTF8_BAD UINT32_MAX

/* Takes one character from the start of s (not empty): its size in bytes, *out the code point; UTF8_BAD for bytes that are not UTF-8
 * (overlong forms, surrogates and what is above U+10FFFF are not), and then the size of the longest start of a character, at least 1. */
size_t utf8_take(span s, uint32_t *out);
bool utf8_valid(span s);
/* How many bytes it has from the start of s that are printable ASCII but '"' and '\': what needs no second look in most texts. */
size_t utf8_plain(span s);
/* Writes a code point (not a surrogate, at most U+10FFFF); gives the size, 1 to 4. */
size_t utf8_put(uint8_t to[4], uint32_t c);
/* Characters that steer a terminal or turn text around rather than show: C0 and C1 controls, DEL, line and paragraph separators, and
 * the marks, embeddings, overrides and isolates of bidirectional text. */
bool utf8_is_control(uint32_t c);

#endif
