/* sized.c: taking and filling structs of a size that the caller says. */
#include "base/sized.h"

#include <string.h>

#include "base/limits.h"

cb_code sized_check(const char *name, size_t first, size_t size, const void *out, cb_error *err)
{
	if (!out) return CB_OK;
	size_t theirs;
	memcpy(&theirs, out, sizeof(theirs));
	/* An upper bound, so that a size nobody set is told from one that is large, and not believed. */
	if (theirs < first || theirs > LIMIT_STRUCT_BYTES)
		return cb_err_set(err, CB_INVALID, "%s.struct_size is %zu: make it with CB_INIT(%s)", name, theirs, name);
	const char *bytes = out;
	for (size_t i = size; i < theirs; i++)
		if (bytes[i])
			return cb_err_set(err, CB_INVALID, "%s was made for a newer cowbox and says what this one does not know",
			                  name);
	return CB_OK;
}

cb_code sized_take(const char *name, size_t first, void *to, size_t size, const void *from, cb_error *err)
{
	size_t theirs = 0;
	CB_TRY(sized_check(name, first, size, from, err));
	if (from) memcpy(&theirs, from, sizeof(theirs));
	memset(to, 0, size);
	if (from) memcpy(to, from, theirs < size ? theirs : size);
	memcpy(to, &size, sizeof(size));
	return CB_OK;
}

void sized_give(void *out, const void *made, size_t size)
{
	if (!out) return;
	size_t theirs;
	memcpy(&theirs, out, sizeof(theirs));
	memcpy(out, made, theirs < size ? theirs : size);
	memcpy(out, &theirs, sizeof(theirs));
}
