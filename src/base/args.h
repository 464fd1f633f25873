/* args.h: pointers that a caller must give. What may be NULL is said in the public headers; all else is asked for here. */
#ifndef BASE_ARGS_H
#define BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* CB_INVALID: the first that was not given, by its word in `names`, which has one for each. */
cb_code args_missing(const bool *given, size_t count, const char *names, cb_error *err);

/* At the top of a public call: NEED(err, "box path", b, path). A condition stands for bytes that need not be there when there are none. */
#define NEED(err, names, ...)                                                                    \
	do {                                                                                     \
		const bool given_[] = {__VA_ARGS__};                                             \
		bool all_given_ = true;                                                          \
		for (size_t i_ = 0; i_ < ARRAY_LEN(given_); i_++) all_given_ &= given_[i_];      \
		if (!all_given_) return args_missing(given_, ARRAY_LEN(given_), (names), (err)); \
	} while (0)

#endif
