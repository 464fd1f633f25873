/* err.c: the error table's look-ups, and messages that always fit, always end and always stay on one line. */
#include "base/err.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct code_row {
	cb_code code;
	const char *name;
	int error_number;
	int exit_status;
	const char *text;
} code_row;

static const code_row rows[] = {
#define ROW(name, value, error_number, status, text) {CB_##name, #name, error_number, status, text},
	CB_ERROR_TABLE(ROW)
#undef ROW
};

/* Rows stand at index -value, which keeps a look-up at one comparison; test_base checks that the table stays so. */
static const code_row *row_find(cb_code code)
{
	if ((int)code > 0 || (int)code <= -(int)ARRAY_LEN(rows)) return NULL;
	const code_row *row = &rows[-(int)code];
	return row->code == code ? row : NULL;
}

const char *cb_code_name(cb_code code)
{
	const code_row *row = row_find(code);
	return row ? row->name : "UNKNOWN";
}

const char *cb_code_text(cb_code code)
{
	const code_row *row = row_find(code);
	return row ? row->text : "unknown error";
}

int cb_code_errno(cb_code code)
{
	const code_row *row = row_find(code);
	return row ? row->error_number : EIO;
}

int cb_code_exit_status(cb_code code)
{
	const code_row *row = row_find(code);
	return row ? row->exit_status : 70;
}

/* Ends a text that filled `message` with "…", never in the middle of a UTF-8 character. */
static void message_cut(char message[CB_ERROR_MESSAGE_MAX])
{
	static const char ellipsis[] = "\xe2\x80\xa6";
	size_t end = CB_ERROR_MESSAGE_MAX - sizeof(ellipsis);
	size_t back = 0;
	while (back < 3 && ((unsigned char)message[end - back] & 0xc0) == 0x80) back++;
	/* Four continuation bytes in a row are not UTF-8: there is no boundary to keep then. */
	if (((unsigned char)message[end - back] & 0xc0) != 0x80) end -= back;
	memcpy(message + end, ellipsis, sizeof(ellipsis));
}

/* File names are arbitrary bytes: a newline, an escape sequence or what is not UTF-8 must not reach a log, a terminal or a parser through a
 * message. It is written as \xHH. What does not fit ends with "…". */
static void message_put(char out[CB_ERROR_MESSAGE_MAX], const char *message)
{
	static const char ellipsis[] = "\xe2\x80\xa6", hex[] = "0123456789abcdef";
	span left = span_str(message);
	size_t at = 0, whole = 0; /* whole: the longest start that leaves room for the ellipsis */
	while (left.size) {
		uint32_t c;
		size_t n = utf8_take(left, &c);
		bool plain = c != UTF8_BAD && !utf8_is_control(c);
		size_t need = plain ? n : 4 * n;
		if (at + need >= CB_ERROR_MESSAGE_MAX) {
			memcpy(out + whole, ellipsis, sizeof(ellipsis));
			return;
		}
		if (plain) memcpy(out + at, left.bytes, n);
		for (size_t i = 0; !plain && i < n; i++) {
			const char escaped[4] = {'\\', 'x', hex[left.bytes[i] >> 4], hex[left.bytes[i] & 15]};
			memcpy(out + at + 4 * i, escaped, sizeof(escaped));
		}
		at += need;
		if (at + sizeof(ellipsis) <= CB_ERROR_MESSAGE_MAX) whole = at;
		left = span_make(left.bytes + n, left.size - n);
	}
	out[at] = 0;
}

ATTR_PRINTF(2, 0) static void message_format(char message[CB_ERROR_MESSAGE_MAX], const char *format, va_list args)
{
	int n = vsnprintf(message, CB_ERROR_MESSAGE_MAX, format, args);
	if (n < 0) message[0] = '\0';
	if (n >= CB_ERROR_MESSAGE_MAX) message_cut(message);
}

/* "head: tail", cut to fit. */
static void message_join(char out[CB_ERROR_MESSAGE_MAX], const char *head, const char *tail)
{
	int n = snprintf(out, CB_ERROR_MESSAGE_MAX, "%s: %s", head, tail);
	if (n >= CB_ERROR_MESSAGE_MAX) message_cut(out);
}

/* The message is built aside and stored last, since the arguments may point into the old one. */
static void error_store(cb_error *err, cb_code code, int os_error, const char *message)
{
	err->code = code;
	err->os_error = os_error;
	memset(err->reserved, 0, sizeof(err->reserved));
	message_put(err->message, message);
}

cb_code cb_err_set(cb_error *err, cb_code code, const char *format, ...)
{
	if (!err) return code;
	char message[CB_ERROR_MESSAGE_MAX];
	if (format) {
		va_list args;
		va_start(args, format);
		message_format(message, format, args);
		va_end(args);
	}
	error_store(err, code, 0, format ? message : cb_code_text(code));
	return code;
}

cb_code cb_err_set_as(cb_error *err, cb_code code, int error_number, const char *format, ...)
{
	if (!err) return code;
	char message[CB_ERROR_MESSAGE_MAX];
	va_list args;
	va_start(args, format);
	message_format(message, format, args);
	va_end(args);
	error_store(err, code, error_number, message);
	return code;
}

cb_code cb_err_wrap(cb_error *err, cb_code code, const char *format, ...)
{
	if (code == CB_OK) code = err && err->code != CB_OK ? err->code : CB_INTERNAL;
	if (!err || !format) return code;
	char head[CB_ERROR_MESSAGE_MAX], joined[CB_ERROR_MESSAGE_MAX];
	va_list args;
	va_start(args, format);
	message_format(head, format, args);
	va_end(args);
	/* A callee may give a code as an answer without filling err: what stands there is then about something older. */
	bool filled = err->code == code && err->message[0];
	message_join(joined, head, filled ? err->message : cb_code_text(code));
	error_store(err, code, filled ? err->os_error : 0, joined);
	return code;
}

cb_code cb_err_pass(cb_error *err, cb_code code, const cb_error *why)
{
	if (code == CB_OK || !err) return code;
	if (why->code != code) return cb_err_set(err, code, NULL); /* a code as an answer, without a message */
	*err = *why;
	return code;
}

cb_code cb_err_visited(cb_code code, const cb_error *told, cb_error *err)
{
	if (code == CB_OK || code == CB_INTERRUPTED) return code;
	if (!row_find(code))
		return cb_err_set(err, CB_INVALID, "the caller's visitor returned %d: there is no such code", (int)code);
	if (told->code != code || !told->message[0])
		return cb_err_set(err, code, "the caller's visitor returned %s", cb_code_name(code));
	return cb_err_pass(err, code, told);
}

static cb_code code_from_errno(int error_number)
{
	switch (error_number) {
	case ENOSPC:
	case EDQUOT:
		return CB_NOSPACE;
	case EROFS:
		return CB_READONLY;
	case EACCES:
	case EPERM:
		return CB_DENIED;
	case ENOMEM:
		return CB_NOMEM;
	case ENAMETOOLONG:
		return CB_NAMETOOLONG;
	default:
		return CB_IO;
	}
}

cb_code cb_err_errno(cb_error *err, int error_number, const char *format, ...)
{
	cb_code code = code_from_errno(error_number);
	if (!err) return code;
	char head[CB_ERROR_MESSAGE_MAX], joined[CB_ERROR_MESSAGE_MAX], text[128];
	/* Only a limit does that: no filesystem ends before our files do. */
	const char *reason = error_number == EFBIG ? "no file may become that large here: raise the limit (ulimit -f)"
	                                           : strerror_r(error_number, text, sizeof(text));
	if (format) {
		va_list args;
		va_start(args, format);
		message_format(head, format, args);
		va_end(args);
		message_join(joined, head, reason);
	}
	error_store(err, code, error_number, format ? joined : reason);
	return code;
}
