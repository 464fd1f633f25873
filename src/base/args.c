/* args.c: which argument is missing, or is what no call knows. */
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

cb_code args_flags(unsigned flags, unsigned known, cb_error *err)
{
	if (!(flags & ~known)) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the argument 'flags' is %#x: this call does not know %#x", flags, flags & ~known);
}

cb_code args_mode(uint32_t mode, cb_error *err)
{
	if (!(mode & ~(uint32_t)07777)) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the argument 'mode' is %#o: it has permission bits only, 07777", (unsigned)mode);
}

cb_code args_member(const char *name, int value, int first, int last, cb_error *err)
{
	if (value >= first && value <= last) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the argument '%s' is %d: there is no such value", name, value);
}

cb_code args_duration(const char *name, int64_t ns, cb_error *err)
{
	if (ns >= 0) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the argument '%s' is %lld: a time below zero", name, (long long)ns);
}

cb_code args_name(const char *name, const char *text, cb_error *err)
{
	if (!text || *text) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the argument '%s' is empty", name);
}

cb_code args_path(const char *name, const char *path, cb_error *err)
{
	if (!path || *path) return CB_OK;
	return cb_err_set(err, CB_NOTFOUND, "the argument '%s' is empty: an empty path names nothing", name);
}

cb_code args_bytes(const char *name, const void *bytes, size_t size, cb_error *err)
{
	if (bytes || !size) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the argument '%s' is NULL, and has a size", name);
}

cb_code args_array(const char *name, const void *all, size_t count, size_t size, cb_error *err)
{
	if (count && !all)
		return cb_err_set(err, CB_INVALID, "the argument '%s' is NULL, and %zu are said to be there", name, count);
	if (count <= SIZE_MAX / 2 / size) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the argument '%s' cannot have %zu elements", name, count);
}

cb_code args_strings(const char *name, const char *const *all, size_t count, cb_error *err)
{
	CB_TRY(args_array(name, all, count, sizeof(*all), err));
	for (size_t i = 0; i < count; i++)
		if (!all[i]) return cb_err_set(err, CB_INVALID, "the argument '%s[%zu]' is NULL", name, i);
	return CB_OK;
}

cb_code args_names(const char *name, const char *const *all, size_t count, cb_error *err)
{
	CB_TRY(args_strings(name, all, count, err));
	for (size_t i = 0; i < count; i++)
		if (!*all[i]) return cb_err_set(err, CB_INVALID, "the argument '%s[%zu]' is empty", name, i);
	return CB_OK;
}
