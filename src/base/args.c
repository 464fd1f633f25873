/* args.c: which argument is missing. */
#include "base/args.h"

#include <string.h>

cb_code args_missing(const bool *given, size_t count, const char *names, cb_error *err)
{
	for (size_t i = 0; i < count && given[i]; i++) {
		names += strcspn(names, " ");
		names += *names == ' ';
	}
	return cb_err_set(err, CB_INVALID, "the argument '%.*s' is NULL", (int)strcspn(names, " "), names);
}
