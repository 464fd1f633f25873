/*
 * args.h: what a caller hands over, looked at where a public call begins: pointers that must be there, flags and values that must be known.
 * Whatever is wrong is CB_INVALID and names the argument: a value that nobody knows must not decide anything.
 */
#ifndef BASE_ARGS_H
#define BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* CB_INVALID: the first that was not given, by its word in `names`, which has one for each. */
cb_code args_missing(const bool *given, size_t count, const char *names, cb_error *err);

/* At the top of a public call: NEED(err, "box path", b, path). A condition stands for room that need not be there when none is wanted. */
#define NEED(err, names, ...)                                                                    \
	do {                                                                                     \
		const bool given_[] = {__VA_ARGS__};                                             \
		bool all_given_ = true;                                                          \
		for (size_t i_ = 0; i_ < ARRAY_LEN(given_); i_++) all_given_ &= given_[i_];      \
		if (!all_given_) return args_missing(given_, ARRAY_LEN(given_), (names), (err)); \
	} while (0)

/* Of `flags` only bits that the call knows may be set. */
cb_code args_flags(unsigned flags, unsigned known, cb_error *err);
/* Permission bits, and nothing above 07777. */
cb_code args_mode(uint32_t mode, cb_error *err);
/* A member of an enum whose values go from first to last. */
cb_code args_member(const char *name, int value, int first, int last, cb_error *err);
/* A duration or an age: not below zero. */
cb_code args_duration(const char *name, int64_t ns, cb_error *err);
/* A name, a key, a kind, a pattern: never empty. NULL: none was given. */
cb_code args_name(const char *name, const char *text, cb_error *err);
/* A path; an empty one names nothing: CB_NOTFOUND. NULL: none was given. */
cb_code args_path(const char *name, const char *path, cb_error *err);
/* Bytes that are there when they have a size, CB_STRING included. */
cb_code args_bytes(const char *name, const void *bytes, size_t size, cb_error *err);
/* An array that is there when it has a count. size is that of one element. */
cb_code args_array(const char *name, const void *all, size_t count, size_t size, cb_error *err);
/* An array of texts, each of which is there. */
cb_code args_strings(const char *name, const char *const *all, size_t count, cb_error *err);
/* And is not empty. */
cb_code args_names(const char *name, const char *const *all, size_t count, cb_error *err);

#endif
