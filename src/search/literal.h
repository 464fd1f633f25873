/* literal.h: where a short text stands in a long one. */
#ifndef SEARCH_LITERAL_H
#define SEARCH_LITERAL_H

#include "base/span.h"

/* The offset of the first `needle` (not empty) at or after `from`; SIZE_MAX when there is none. */
size_t literal_find(span text, size_t from, span needle);

#endif
