/*
 * error.h: every way a cowbox call can fail.
 *
 * One table gives each code its name, value, errno (for mounts and model tests), exit status (for the command
 * line) and text. An error object belongs to the caller, needs no destructor and may be NULL when only the code
 * matters. Values are part of the ABI: append, never renumber.
 */
#ifndef COWBOX_ERROR_H
#define COWBOX_ERROR_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CB_ERROR_TABLE(X) /* name, value, errno, exit status, text */          \
	X(OK, 0, 0, 0, "success")                                              \
	X(INTERNAL, -1, EIO, 70, "internal error: please report it")           \
	X(NOMEM, -2, ENOMEM, 71, "out of memory")                              \
	X(NOTFOUND, -3, ENOENT, 4, "no such entry")                            \
	X(EXISTS, -4, EEXIST, 5, "already exists")                             \
	X(INVALID, -5, EINVAL, 2, "invalid argument")                          \
	X(CORRUPT, -6, EUCLEAN, 65, "stored data is corrupt")                  \
	X(NOTDIR, -7, ENOTDIR, 6, "not a directory")                           \
	X(ISDIR, -8, EISDIR, 6, "is a directory")                              \
	X(NOTEMPTY, -9, ENOTEMPTY, 6, "directory not empty")                   \
	X(LOOP, -10, ELOOP, 6, "too many symbolic links")                      \
	X(NAMETOOLONG, -11, ENAMETOOLONG, 2, "name too long")                  \
	X(RESERVED, -12, EPERM, 2, "name belongs to the system")               \
	X(DENIED, -13, EACCES, 77, "permission denied")                        \
	X(READONLY, -14, EROFS, 77, "read-only")                               \
	X(CONFLICT, -15, ESTALE, 9, "conflict with another change")            \
	X(VERSION, -16, ESTALE, 9, "version is not the expected one")          \
	X(QUOTA, -17, EDQUOT, 10, "quota exceeded")                            \
	X(TOOBIG, -18, EFBIG, 10, "too large")                                 \
	X(NOSPACE, -19, ENOSPC, 74, "no space left on the device")             \
	X(IO, -20, EIO, 74, "input/output error")                              \
	X(BUSY, -21, EBUSY, 75, "busy: try again")                             \
	X(NEWER, -22, EPROTO, 65, "store was written by a newer cowbox")       \
	X(FOREIGN, -23, EPROTO, 65, "not a cowbox store")                      \
	X(STALE, -24, ESTALE, 4, "state was pruned")                           \
	X(NODATA, -25, ENODATA, 4, "no such attribute")                        \
	X(BADHANDLE, -26, EBADF, 2, "handle is not open for this")             \
	X(CROSSBOX, -27, EXDEV, 2, "source and target are in different boxes") \
	X(MLINK, -28, EMLINK, 6, "too many links")                             \
	X(UNSUPPORTED, -29, EOPNOTSUPP, 69, "not supported")                   \
	X(LIMIT, -30, ENOBUFS, 10, "limit exceeded")                           \
	X(NOTHING, -31, EAGAIN, 1, "nothing to do")                            \
	X(FORKED, -32, ECHILD, 70, "handle belongs to the parent process")     \
	X(INTERRUPTED, -33, EINTR, 130, "interrupted")                         \
	X(NOPERM, -34, EPERM, 77, "operation not permitted")                   \
	X(CANCELLED, -35, ECANCELED, 130, "cancelled")                         \
	X(TIMEOUT, -36, ETIMEDOUT, 124, "time limit passed")

/* How a call ended. */
typedef enum cb_code {
#define CB_X_(name, value, err, status, text) CB_##name = value,
	CB_ERROR_TABLE(CB_X_)
#undef CB_X_
} cb_code;

#define CB_ERROR_MESSAGE_MAX 512

/* Written by a failing call only: after success it is as it was. */
typedef struct cb_error {
	cb_code code;
	/* errno of the system call that failed; or the one that Linux has for what was refused, where the code has another; 0: neither. */
	int os_error;
	/* Room for what may be said later: a failing call sets it to 0. This struct is as it is for good: it has no size to be checked, so
	 * that a caller need not prepare it. */
	unsigned reserved[6];
	/* One line, NUL-terminated, cut at the maximum with "…". */
	char message[CB_ERROR_MESSAGE_MAX];
} cb_error;

#if defined(__GNUC__)
#define CB_API __attribute__((visibility("default")))
#else
#define CB_API
#endif

/* Never NULL, also for codes that do not exist. */
CB_API const char *cb_code_name(cb_code code); /* "NOTFOUND" */
CB_API const char *cb_code_text(cb_code code); /* "no such entry" */
CB_API int cb_code_errno(cb_code code);        /* ENOENT */
CB_API int cb_code_exit_status(cb_code code);  /* 4 */

#ifdef __cplusplus
}
#endif
#endif
