/* io.h: reads and writes on file descriptors. Signals, short counts and descriptors that would block are dealt with here. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Fills `bytes` from an offset. *out_size (may be NULL) is less than size only when the file ends there; with a NULL out_size an
 * early end is CB_IO. */
cb_code io_pread_all(int fd, void *bytes, size_t size, uint64_t offset, size_t *out_size, cb_error *err);
/* All or an error; after an error any part may have been written. */
cb_code io_pwrite_all(int fd, const void *bytes, size_t size, uint64_t offset, cb_error *err);
cb_code io_write_all(int fd, const void *bytes, size_t size, cb_error *err);
/*
 * Descriptors that somebody else holds the other end of, given by the caller: perhaps a pipe or a socket, perhaps non-blocking, perhaps
 * nobody is there any more. One that is not ready is waited for, as long as the caller's limit lets it; `what` says for whom: "for whoever
 * reads the pack". Nothing here raises a signal: a reader that is gone is CB_IO with EPIPE.
 *
 * *out_size tells how much was moved; of a read 0 is the end. CB_INTERRUPTED, without a message: a signal came; look whether to go on,
 * and call again.
 */
cb_code io_foreign_read(int fd, void *to, size_t size, const char *what, size_t *out_size, cb_error *err);
cb_code io_foreign_write(int fd, const void *bytes, size_t size, const char *what, size_t *out_size, cb_error *err);
/* write(2), but where it would raise SIGPIPE or SIGXFSZ in this thread it is EPIPE or EFBIG and no more. */
ssize_t io_write_quietly(int fd, const void *bytes, size_t size);

/*
 * Around a system call that may make a file larger: beyond RLIMIT_FSIZE it would raise SIGXFSZ in this thread, and is EFBIG and no more.
 * All writes of this header are so. Where there is no such bound this costs the question for it. errno stays.
 */
typedef struct io_bounded {
	bool holds;
	sigset_t before;
} io_bounded;
io_bounded io_bounded_begin(void);
void io_bounded_end(const io_bounded *b);
/* ftruncate(2), so: it asks for the bound also where it makes a file smaller. */
int io_size_set(int fd, uint64_t size);

/* The start of a small file, of the kernel's for one, as a text with its NUL. Gives its length; 0: "", it is empty or cannot be read. */
size_t io_text_read(int folder, const char *name, char *to, size_t size);

/* Makes the folder and those above it that are missing, as mkdir -p. Existing folders are left as they are. CB_NOTDIR when something
 * else is in the way. */
cb_code io_mkdirs(const char *path, mode_t mode, cb_error *err);

/* A folder that is used through its descriptor (O_PATH suffices), wherever it is moved and whatever is put in its place. The path is the
 * one it was opened by, for messages. */
typedef struct io_folder {
	int fd;
	const char *path;
} io_folder;

/*
 * openat() with O_CLOEXEC, for what is written to or stays open: never one of the descriptors 0 to 2. A program that has closed these still
 * writes its messages to them.
 */
int io_open_at(int folder, const char *name, int flags, mode_t mode);
/*
 * Opens a file of a folder that others may have tampered with: no link is followed, nothing is waited for (a FIFO), and what is no file is
 * CB_CORRUPT. One that O_CREAT makes has mode 0600. CB_NOTFOUND: it is not there; CB_EXISTS: O_EXCL, and it is.
 */
cb_code io_file_open(const io_folder *in, const char *name, int flags, int *out_fd, cb_error *err);
/* A folder in it, the same way. make: when it is missing, with mode 0700. */
cb_code io_folder_open(const io_folder *in, const char *name, bool make, int *out_fd, cb_error *err);

/* Makes the names in a folder survive a power cut: a file's own flush does not. CB_OK where a folder cannot be flushed (it may be searched
 * but not read, or the filesystem has no such thing). */
cb_code io_flush_folder(const char *path, cb_error *err);
cb_code io_folder_flush(const io_folder *folder, cb_error *err);

/* How many folders below `above` an open folder lies; 0: it is that one; -1: it lies elsewhere, or nobody can tell. Told by device and
 * inode on the way up, so neither names nor links deceive it. O_PATH suffices for both. */
int io_folder_depth(int folder, int above);

#endif
