/* io.h: whole reads and writes on file descriptors. Signals and short counts are dealt with here and nowhere else. */
#ifndef BASE_IO_H
#define BASE_IO_H

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
/* Makes the folder and those above it that are missing, as mkdir -p. Existing folders are left as they are. CB_NOTDIR when something
 * else is in the way. */
cb_code io_mkdirs(const char *path, mode_t mode, cb_error *err);

/* Makes the names in a folder survive a power cut: a file's own flush does not. CB_OK where a folder cannot be flushed (it may be searched
 * but not read, or the filesystem has no such thing). */
cb_code io_flush_folder(const char *path, cb_error *err);

#endif
