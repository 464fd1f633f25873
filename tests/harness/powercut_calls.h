/*
 * powercut_calls.h: functions in place of libc's that make the system call and record it; see powercut.h. Included by one .c of a program:
 * what is defined in the program is what its libraries call, SQLite among them.
 *
 * The lock of the log is held around a call that changes something, so that the order in the log is the order on the disk, and before it
 * is asked what a file is: another may be making it. A flush is made without it: what is written while it is under way is not counted as
 * flushed.
 */
#ifndef TESTS_POWERCUT_CALLS_H
#define TESTS_POWERCUT_CALLS_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/powercut.h"

/* clang-format off: a line each. Names of ours for libc's symbols: its headers define some of these as inline functions */
#define CALL __attribute__((visibility("default")))
#define AS(name) __asm__(#name)
CALL ssize_t call_write(int fd, const void *bytes, size_t size) AS(write);
CALL ssize_t call_pwrite(int fd, const void *bytes, size_t size, off_t offset) AS(pwrite);
CALL ssize_t call_pwrite64(int fd, const void *bytes, size_t size, off64_t offset) AS(pwrite64);
CALL int call_ftruncate(int fd, off_t size) AS(ftruncate);
CALL int call_ftruncate64(int fd, off64_t size) AS(ftruncate64);
CALL int call_fallocate(int fd, int mode, off_t offset, off_t size) AS(fallocate);
CALL int call_posix_fallocate(int fd, off_t offset, off_t size) AS(posix_fallocate);
CALL ssize_t call_copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags)
	AS(copy_file_range);
CALL int call_fsync(int fd) AS(fsync);
CALL int call_fdatasync(int fd) AS(fdatasync);
CALL int call_open(const char *path, int flags, ...) AS(open);
CALL int call_open64(const char *path, int flags, ...) AS(open64);
CALL int call_openat(int at, const char *path, int flags, ...) AS(openat);
CALL int call_openat64(int at, const char *path, int flags, ...) AS(openat64);
CALL int call_mkdir(const char *path, mode_t mode) AS(mkdir);
CALL int call_mkdirat(int at, const char *path, mode_t mode) AS(mkdirat);
CALL char *call_mkdtemp(char *pattern) AS(mkdtemp);
CALL int call_unlink(const char *path) AS(unlink);
CALL int call_unlinkat(int at, const char *path, int flags) AS(unlinkat);
CALL int call_rmdir(const char *path) AS(rmdir);
CALL int call_rename(const char *from, const char *to) AS(rename);
CALL int call_renameat(int at, const char *from, int at_to, const char *to) AS(renameat);
CALL int call_renameat2(int at, const char *from, int at_to, const char *to, unsigned flags) AS(renameat2);
CALL int call_pthread_mutex_unlock(pthread_mutex_t *m) AS(pthread_mutex_unlock);
#undef CALL
#undef AS
/* clang-format on */

/* ---- threads out of step ---- */

/* Whoever has just given up a lock may be overtaken by all who waited for it: here that is not rare. */
int call_pthread_mutex_unlock(pthread_mutex_t *m)
{
	static int (*real)(pthread_mutex_t *);
	if (!__atomic_load_n(&real, __ATOMIC_RELAXED)) {
		int (*found)(pthread_mutex_t *) = (__typeof__(found))(uintptr_t)dlsym(RTLD_NEXT, "pthread_mutex_unlock");
		__atomic_store_n(&real, found, __ATOMIC_RELAXED);
	}
	int rc = real(m);
	power_pause(PAUSE_UNLOCK, 0);
	return rc;
}

/* ---- bytes ---- */

ssize_t call_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	power_pause(PAUSE_WRITE, size);
	uint32_t file = power_file_take(fd);
	if (!file) return syscall(SYS_pwrite64, fd, bytes, size, offset);
	ssize_t n = syscall(SYS_pwrite64, fd, bytes, size, offset);
	if (n > 0) power_saw_write(file, (uint64_t)offset, bytes, (size_t)n);
	int error = errno;
	power_unlock();
	errno = error;
	return n;
}

ssize_t call_pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
	return call_pwrite(fd, bytes, size, offset);
}

ssize_t call_write(int fd, const void *bytes, size_t size)
{
	uint32_t file = power_file_take(fd);
	if (!file) return syscall(SYS_write, fd, bytes, size);
	ssize_t n = syscall(SYS_write, fd, bytes, size);
	/* Where it went is known afterwards, also with O_APPEND. */
	if (n > 0) power_saw_write(file, (uint64_t)(syscall(SYS_lseek, fd, 0, SEEK_CUR) - n), bytes, (size_t)n);
	int error = errno;
	power_unlock();
	errno = error;
	return n;
}

int call_ftruncate(int fd, off_t size)
{
	uint32_t file = power_file_take(fd);
	if (!file) return (int)syscall(SYS_ftruncate, fd, size);
	int rc = (int)syscall(SYS_ftruncate, fd, size);
	if (rc == 0) power_saw_size(file, (uint64_t)size);
	int error = errno;
	power_unlock();
	errno = error;
	return rc;
}

int call_ftruncate64(int fd, off64_t size)
{
	return call_ftruncate(fd, size);
}

int call_fallocate(int fd, int mode, off_t offset, off_t size)
{
	struct stat st;
	uint32_t file = power_file_take(fd);
	if (!file) return (int)syscall(SYS_fallocate, fd, mode, offset, size);
	int rc = (int)syscall(SYS_fallocate, fd, mode, offset, size);
	if (rc == 0 && mode & FALLOC_FL_PUNCH_HOLE) power_saw_zeros(file, (uint64_t)offset, (uint64_t)size);
	else if (rc == 0 && !(mode & FALLOC_FL_KEEP_SIZE) && fstat(fd, &st) == 0) power_saw_size(file, (uint64_t)st.st_size);
	int error = errno;
	power_unlock();
	errno = error;
	return rc;
}

int call_posix_fallocate(int fd, off_t offset, off_t size)
{
	int before = errno, rc = call_fallocate(fd, 0, offset, size), error = errno;
	errno = before;
	return rc == 0 ? 0 : error;
}

ssize_t call_copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags)
{
	/* Its bytes are in no buffer: the caller copies them itself then. */
	if (power_file_take(to)) {
		power_unlock();
		errno = EXDEV;
		return -1;
	}
	return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}

/* ---- flushes ---- */

static int flush_call(long number, int fd)
{
	power_pause(PAUSE_FLUSH, 0);
	uint32_t file = power_file_take(fd);
	if (!file) return (int)syscall(number, fd);
	uint64_t began = power_flush_begins();
	power_unlock();
	int rc = (int)syscall(number, fd);
	int error = errno;
	power_lock();
	if (rc == 0) power_saw_flush(file, began);
	power_unlock();
	errno = error;
	return rc;
}

int call_fsync(int fd)
{
	return flush_call(SYS_fsync, fd);
}

int call_fdatasync(int fd)
{
	return flush_call(SYS_fdatasync, fd);
}

/* ---- names ---- */

static int open_call(int at, const char *path, int flags, mode_t mode)
{
	const char *name = NULL;
	uint32_t folder = flags & (O_CREAT | O_TRUNC) ? power_folder_take(at, path, &name) : 0;
	if (!folder) return (int)syscall(SYS_openat, at, path, flags, mode);
	struct stat st;
	bool existed = fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
	int fd = (int)syscall(SYS_openat, at, path, flags, mode);
	int error = errno;
	if (fd >= 0 && !existed) power_saw_new(folder, name, at, path, false);
	else if (fd >= 0 && flags & O_TRUNC && power_file_of(fd)) power_saw_size(power_file_of(fd), 0);
	power_unlock();
	errno = error;
	return fd;
}

#define OPEN_MODE(flags)                     \
	mode_t mode = 0;                     \
	if ((flags)&O_CREAT) {               \
		va_list args;                \
		va_start(args, flags);       \
		mode = va_arg(args, mode_t); \
		va_end(args);                \
	}

int call_open(const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_call(AT_FDCWD, path, flags, mode);
}

int call_open64(const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_call(AT_FDCWD, path, flags, mode);
}

int call_openat(int at, const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_call(at, path, flags, mode);
}

int call_openat64(int at, const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_call(at, path, flags, mode);
}

int call_mkdirat(int at, const char *path, mode_t mode)
{
	const char *name = NULL;
	uint32_t folder = power_folder_take(at, path, &name);
	if (!folder) return (int)syscall(SYS_mkdirat, at, path, mode);
	int rc = (int)syscall(SYS_mkdirat, at, path, mode);
	int error = errno;
	if (rc == 0) power_saw_new(folder, name, at, path, true);
	power_unlock();
	errno = error;
	return rc;
}

int call_mkdir(const char *path, mode_t mode)
{
	return call_mkdirat(AT_FDCWD, path, mode);
}

char *call_mkdtemp(char *pattern)
{
	static unsigned serial;
	char *end = pattern + strlen(pattern) - 6;
	for (unsigned tries = 0; tries < 1000; tries++) {
		unsigned n = (unsigned)getpid() * 1009 + __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED) * 7919;
		for (unsigned i = 0; i < 6; i++, n /= 26) end[i] = (char)('a' + n % 26);
		if (call_mkdir(pattern, 0700) == 0) return pattern;
		if (errno != EEXIST) return NULL;
	}
	return NULL;
}

int call_unlinkat(int at, const char *path, int flags)
{
	const char *name = NULL;
	uint32_t folder = power_folder_take(at, path, &name);
	if (!folder) return (int)syscall(SYS_unlinkat, at, path, flags);
	int rc = (int)syscall(SYS_unlinkat, at, path, flags);
	int error = errno;
	if (rc == 0) power_saw_removed(folder, name);
	power_unlock();
	errno = error;
	return rc;
}

int call_unlink(const char *path)
{
	return call_unlinkat(AT_FDCWD, path, 0);
}

int call_rmdir(const char *path)
{
	return call_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int call_renameat2(int at, const char *from, int at_to, const char *to, unsigned flags)
{
	const char *name = NULL, *name_to = NULL;
	uint32_t folder = power_folder_take(at, from, &name), folder_to = folder ? power_folder_of(at_to, to, &name_to) : 0;
	if (folder && !folder_to) power_unlock();
	if (!folder_to) return (int)syscall(SYS_renameat2, at, from, at_to, to, flags);
	int rc = (int)syscall(SYS_renameat2, at, from, at_to, to, flags);
	int error = errno;
	if (rc == 0) power_saw_renamed(folder, name, folder_to, name_to);
	power_unlock();
	errno = error;
	return rc;
}

int call_renameat(int at, const char *from, int at_to, const char *to)
{
	return call_renameat2(at, from, at_to, to, 0);
}

int call_rename(const char *from, const char *to)
{
	return call_renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

#endif
