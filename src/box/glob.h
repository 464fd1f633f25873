/* glob.h: shell patterns over paths. `*` and `?` do not cross '/', `**` as a whole component matches any number of components (also
 * none), [abc] [a-z] [!x] [^x] [[:alpha:]] classes, `\` quotes; {a,b} alternatives, nested too ({a} is a; a '}' or ']' that closes
 * nothing stands for itself). A leading dot is matched by `*` (agents look for dotfiles). Empty components of a pattern do not
 * count: "/a//b/" is "a/b". Bytes, not characters. Time is bounded: O(expanded pattern x path), no exponential patterns. */
#ifndef BOX_GLOB_H
#define BOX_GLOB_H

#include "base/err.h"
#include "base/span.h"

enum { GLOB_PATTERN_MAX = 4096, GLOB_ALTERNATIVES_MAX = 1024 };

typedef struct glob glob;
/* CB_INVALID for an unbalanced [ or {, a lone `\` at the end, an unknown [:class:], too many alternatives, or one that is too long.
 * glob_destroy() it. */
cb_code glob_compile(const char *pattern, glob **out, cb_error *err);
void glob_destroy(glob *g);
/* path without a leading '/', for instance "src/a.c". */
bool glob_match(const glob *g, span path);
/* Could anything at or below this folder path match? May say yes wrongly, never no wrongly. For pruning walks. */
bool glob_may_match_below(const glob *g, span folder);

#endif
