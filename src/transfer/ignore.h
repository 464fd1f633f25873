/*
 * ignore.h: which paths are left out: patterns as in .gitignore, with git's precedence.
 *
 * Lists stand in layers: the patterns of the caller on top of everything, then the .gitignore of the deepest folder, down to that of the
 * root. The first layer that has an opinion decides, in it the last pattern that matches; "!" gives a path back. A folder that is left
 * out is not entered, so nothing below it can be given back. Paths are relative to the root, without a leading '/'.
 *
 * Patterns come from outside: time is bounded by pattern size x path size for each pair, memory by LIMIT_IGNORE_BYTES.
 */
#ifndef TRANSFER_IGNORE_H
#define TRANSFER_IGNORE_H

#include "base/buf.h"
#include "base/limits.h"

typedef struct ignore ignore;

/* The caller's patterns, each one line. CB_LIMIT: too long. ignore_destroy() it. */
cb_code ignore_create(const char *const *patterns, size_t count, ignore **out, cb_error *err);
void ignore_destroy(ignore *g); /* accepts NULL */
/* The text of the .gitignore in a folder ("" for the root) that is being entered, and leaving it again. Pushing an empty text is fine. */
cb_code ignore_push(ignore *g, const char *folder, span text, cb_error *err);
void ignore_pop(ignore *g);
/* only_caller: the .gitignore files have no say (.git, and what is in it). */
bool ignore_match(const ignore *g, const char *path, bool is_dir, bool only_caller);

#endif
