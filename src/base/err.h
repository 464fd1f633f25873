/* err.h: filling the caller's error object. `err` may be NULL everywhere; the code is returned for `return`. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <cowbox/error.h>

#include "base/attr.h"

/* Sets code and message; returns code. A NULL format gives the code's own text. */
cb_code cb_err_set(cb_error *err, cb_code code, const char *format, ...) ATTR_PRINTF(3, 4);

/* The same where Linux has an errno for it that is not the code's own: it stands beside the code. */
cb_code cb_err_set_as(cb_error *err, cb_code code, int error_number, const char *format, ...) ATTR_PRINTF(4, 5);

/* Puts "context: " before the message that is there; returns the code that is there (never CB_OK). */
cb_code cb_err_wrap(cb_error *err, cb_code code, const char *format, ...) ATTR_PRINTF(3, 4);

/* From errno: ENOSPC and EDQUOT of the host become CB_NOSPACE, EROFS CB_READONLY, EACCES/EPERM CB_DENIED,
 * ENOMEM CB_NOMEM, the rest CB_IO; strerror is appended to the message. */
cb_code cb_err_errno(cb_error *err, int error_number, const char *format, ...) ATTR_PRINTF(3, 4);

/*
 * Some failures are answers ("there is no such setting"), and the call that asked goes on to succeed: then the caller's *err must be
 * as it was. So the question gets an error of its own, which is passed on only when it is a failure after all:
 *
 *   cb_error why;
 *   cb_code code = store_setting_get(s, box, key, &text, cb_err_aside(&why));
 *   if (code == CB_NOTFOUND) return CB_OK;
 *   if (code != CB_OK) return cb_err_pass(err, code, &why);
 */
static inline cb_error *cb_err_aside(cb_error *why)
{
	why->code = CB_OK;
	why->message[0] = 0;
	return why;
}
/* Returns code; CB_OK leaves *err alone. */
cb_code cb_err_pass(cb_error *err, cb_code code, const cb_error *why);

/* How a visitor of the caller's ended, which was given `told` (cb_err_aside) to fill:
 *
 *   cb_error told;
 *   cb_code code = cb_err_visited(visit(context, item, cb_err_aside(&told)), &told, err);
 *
 * CB_OK and CB_INTERRUPTED, by which it says that it has seen enough, are returned and leave *err alone. Any other code is the call's own:
 * with what the visitor said, or else with who said it. CB_INVALID: it is no code. */
cb_code cb_err_visited(cb_code code, const cb_error *told, cb_error *err);

static inline cb_code cb_err_nomem(cb_error *err)
{
	return cb_err_set(err, CB_NOMEM, NULL);
}

#define CB_TRY(call)                                      \
	do {                                              \
		cb_code try_code_ = (call);               \
		if (try_code_ != CB_OK) return try_code_; \
	} while (0)

#endif
