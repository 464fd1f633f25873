/* io.c: whole reads and writes, descriptors of the caller's, mkdir -p, and flushing names. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"

/* One call moves at most what Linux moves (2 GiB less a page), so that a count always fits ssize_t. */
static size_t chunk(size_t size)
{
	const size_t max = 0x7ffff000;
	return size < max ? size : max;
}

static cb_code check_range(size_t size, uint64_t offset, cb_error *err)
{
	if (size <= INT64_MAX && offset <= (uint64_t)INT64_MAX - size) return CB_OK;
	return cb_err_set(err, CB_INVALID, "offset %llu is out of range", (unsigned long long)offset);
}

/*
 * A signal's disposition is the caller's business: it is held back in this thread, to which alone the kernel sends it, and taken away if it
 * is ours. One that was pending before is the caller's, who holds it back himself.
 */
static bool signal_hold(int number, sigset_t *before)
{
	sigset_t only, pending;
	(void)sigemptyset(&only);
	(void)sigaddset(&only, number);
	(void)sigpending(&pending);
	if (sigismember(&pending, number) == 1) return false;
	(void)pthread_sigmask(SIG_BLOCK, &only, before);
	return true;
}

static void signal_take(int number)
{
	sigset_t only;
	struct timespec now = {0};
	(void)sigemptyset(&only);
	(void)sigaddset(&only, number);
	while (sigtimedwait(&only, NULL, &now) < 0 && errno == EINTR) continue;
}

io_bounded io_bounded_begin(void)
{
	io_bounded b = {.holds = false};
	struct rlimit limit;
	int error = errno;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) b.holds = signal_hold(SIGXFSZ, &b.before);
	errno = error;
	return b;
}

void io_bounded_end(const io_bounded *b)
{
	int error = errno;
	if (!b->holds) return;
	signal_take(SIGXFSZ);
	(void)pthread_sigmask(SIG_SETMASK, &b->before, NULL);
	errno = error;
}

int io_size_set(int fd, uint64_t size)
{
	io_bounded bounded = io_bounded_begin();
	int result = ftruncate(fd, (off_t)size);
	io_bounded_end(&bounded);
	return result;
}

cb_code io_pread_all(int fd, void *bytes, size_t size, uint64_t offset, size_t *out_size, cb_error *err)
{
	CB_TRY(check_range(size, offset, err));
	size_t done = 0;
	while (done < size) {
		ssize_t n = pread(fd, (char *)bytes + done, chunk(size - done), (off_t)(offset + done));
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return cb_err_errno(err, errno, "read %zu bytes at %llu", size, (unsigned long long)offset);
		if (n == 0) break;
		done += (size_t)n;
	}
	if (!out_size && done < size)
		return cb_err_set(err, CB_IO, "read %zu bytes at %llu: the file ends after %zu", size, (unsigned long long)offset,
		                  done);
	if (out_size) *out_size = done;
	return CB_OK;
}

cb_code io_pwrite_all(int fd, const void *bytes, size_t size, uint64_t offset, cb_error *err)
{
	CB_TRY(check_range(size, offset, err));
	size_t done = 0;
	while (done < size) {
		io_bounded bounded = io_bounded_begin();
		ssize_t n = pwrite(fd, (const char *)bytes + done, chunk(size - done), (off_t)(offset + done));
		io_bounded_end(&bounded);
		if (n < 0 && errno == EINTR) continue;
		/* A write that moves nothing and says nothing would loop for ever. */
		if (n == 0) errno = EIO;
		if (n <= 0) return cb_err_errno(err, errno, "write %zu bytes at %llu", size, (unsigned long long)offset);
		done += (size_t)n;
	}
	return CB_OK;
}

cb_code io_write_all(int fd, const void *bytes, size_t size, cb_error *err)
{
	size_t done = 0;
	while (done < size) {
		io_bounded bounded = io_bounded_begin();
		ssize_t n = write(fd, (const char *)bytes + done, chunk(size - done));
		io_bounded_end(&bounded);
		if (n < 0 && errno == EINTR) continue;
		if (n == 0) errno = EIO;
		if (n <= 0) return cb_err_errno(err, errno, "write %zu bytes", size);
		done += (size_t)n;
	}
	return CB_OK;
}

ssize_t io_write_quietly(int fd, const void *bytes, size_t size)
{
	sigset_t before;
	bool holds = signal_hold(SIGPIPE, &before);
	io_bounded bounded = io_bounded_begin();
	ssize_t n = write(fd, bytes, size);
	int error = errno;
	io_bounded_end(&bounded);
	/* A write that waits when the reader goes takes a part, and raises it too. */
	if (holds && (n < 0 ? error == EPIPE : (size_t)n < size)) signal_take(SIGPIPE);
	if (holds) (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return n;
}

/* After a call that failed: CB_OK when it is to be made again. */
static cb_code foreign_wait(int fd, short events, const char *what, cb_error *err)
{
	struct pollfd p = {.fd = fd, .events = events};
	if (errno == EINTR) return CB_INTERRUPTED;
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		return cb_err_errno(err, errno, events == POLLIN ? "reading the descriptor" : "writing to the descriptor");
	if (poll(&p, 1, cancel_wait_ms(-1)) >= 0) return CB_OK;
	return errno == EINTR ? CB_INTERRUPTED : cb_err_errno(err, errno, "waiting %s", what);
}

cb_code io_foreign_read(int fd, void *to, size_t size, const char *what, size_t *out_size, cb_error *err)
{
	for (;;) {
		CB_TRY(cancel_poll(fd, POLLIN, what, err));
		ssize_t n = read(fd, to, chunk(size));
		if (n >= 0) {
			*out_size = (size_t)n;
			return CB_OK;
		}
		CB_TRY(foreign_wait(fd, POLLIN, what, err));
	}
}

cb_code io_foreign_write(int fd, const void *bytes, size_t size, const char *what, size_t *out_size, cb_error *err)
{
	*out_size = 0;
	while (size) {
		CB_TRY(cancel_poll(fd, POLLOUT, what, err));
		ssize_t n = io_write_quietly(fd, bytes, chunk(cancel_piece(fd, size)));
		if (n == 0) errno = EIO;
		if (n > 0) {
			*out_size = (size_t)n;
			return CB_OK;
		}
		CB_TRY(foreign_wait(fd, POLLOUT, what, err));
	}
	return CB_OK;
}

/* Another process may make the same folder at the same time: what counts is that it is there afterwards. */
static cb_code mkdir_one(const char *path, mode_t mode, cb_error *err)
{
	if (mkdir(path, mode) == 0) return CB_OK;
	int why = errno;
	struct stat st;
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode)) return CB_OK;
		return cb_err_set(err, CB_NOTDIR, "create folder '%s': a file is in the way", path);
	}
	if (why == ENOTDIR) return cb_err_set(err, CB_NOTDIR, "create folder '%s': a file is in the way", path);
	return cb_err_errno(err, why, "create folder '%s'", path);
}

size_t io_text_read(int folder, const char *name, char *to, size_t size)
{
	AUTO_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	while (fd >= 0 && have < size - 1) {
		ssize_t n = read(fd, to + have, size - 1 - have);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) break;
		have += (size_t)n;
	}
	to[have] = 0;
	return have;
}

cb_code io_mkdirs(const char *path, mode_t mode, cb_error *err)
{
	char part[PATH_MAX];
	size_t size = strlen(path);
	if (size == 0) return cb_err_set(err, CB_INVALID, "create folder: the path is empty");
	if (size >= sizeof(part)) return cb_err_set(err, CB_NAMETOOLONG, "create folder: the path has %zu bytes", size);
	memcpy(part, path, size + 1);
	for (char *p = part + 1; *p; p++) {
		if (*p != '/' || p[-1] == '/') continue;
		*p = '\0';
		CB_TRY(mkdir_one(part, mode, err));
		*p = '/';
	}
	return mkdir_one(part, mode, err);
}

/* ---- folders by descriptor ---- */

static cb_code no_file(const io_folder *in, const char *name, const char *what, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "'%s/%s' is no %s: something else was put in its place", in->path, name, what);
}

/* Places are held while it opens: opened there and moved it would be written to meanwhile, and closing a file drops the process's locks on
 * it, which SQLite has. */
int io_open_at(int folder, const char *name, int flags, mode_t mode)
{
	int held[STDERR_FILENO + 1];
	for (int i = 0; i <= STDERR_FILENO; i++) held[i] = fcntl(i, F_GETFD) < 0 ? open("/", O_PATH | O_CLOEXEC) : -1;
	int fd = openat(folder, name, flags | O_CLOEXEC, mode), error = errno;
	for (int i = 0; i <= STDERR_FILENO; i++)
		if (held[i] >= 0) (void)close(held[i]);
	errno = error;
	return fd;
}

cb_code io_file_open(const io_folder *in, const char *name, int flags, int *out_fd, cb_error *err)
{
	struct stat st;
	AUTO_FD int fd = io_open_at(in->fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO || errno == ENODEV))
		return no_file(in, name, "file", err);
	if (fd < 0 && errno == ENOENT) return cb_err_set(err, CB_NOTFOUND, "'%s/%s' is missing", in->path, name);
	if (fd < 0 && errno == EEXIST) return cb_err_set(err, CB_EXISTS, "'%s/%s' is there already", in->path, name);
	if (fd < 0 || fstat(fd, &st) != 0)
		return cb_err_errno(err, errno, "%s '%s/%s'", flags & O_CREAT ? "making" : "opening", in->path, name);
	if (!S_ISREG(st.st_mode)) return no_file(in, name, "file", err);
	/* Whatever the umask. Asked first: setting a mode writes to the disk, also the mode that is there. */
	if (flags & O_CREAT && (st.st_mode & 07777) != 0600 && fchmod(fd, 0600) != 0)
		return cb_err_errno(err, errno, "making '%s/%s'", in->path, name);
	*out_fd = TAKE_FD(fd);
	return CB_OK;
}

cb_code io_folder_open(const io_folder *in, const char *name, bool make, int *out_fd, cb_error *err)
{
	if (make && mkdirat(in->fd, name, 0700) != 0 && errno != EEXIST)
		return cb_err_errno(err, errno, "making '%s/%s'", in->path, name);
	*out_fd = io_open_at(in->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (*out_fd >= 0) return CB_OK;
	if (errno == ENOENT) return cb_err_set(err, CB_NOTFOUND, "'%s/%s' is missing", in->path, name);
	if (errno == ELOOP || errno == ENOTDIR) return no_file(in, name, "folder", err);
	return cb_err_errno(err, errno, "opening '%s/%s'", in->path, name);
}

static cb_code flush_folder(int in, const char *name, const char *path, cb_error *err)
{
	int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) return errno == EACCES ? CB_OK : cb_err_errno(err, errno, "flushing '%s'", path);
	int error = fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP ? 0 : errno;
	(void)close(fd);
	return error ? cb_err_errno(err, error, "flushing '%s'", path) : CB_OK;
}

cb_code io_flush_folder(const char *path, cb_error *err)
{
	return flush_folder(AT_FDCWD, path, path, err);
}

cb_code io_folder_flush(const io_folder *folder, cb_error *err)
{
	return flush_folder(folder->fd, ".", folder->path, err);
}

int io_folder_depth(int folder, int above)
{
	struct stat wanted, at, last = {0};
	AUTO_FD int fd = fcntl(folder, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fstat(above, &wanted) != 0) return -1;
	/* The root is its own "..". */
	for (int depth = 0; fd >= 0 && fstat(fd, &at) == 0 && !(at.st_dev == last.st_dev && at.st_ino == last.st_ino); depth++) {
		if (at.st_dev == wanted.st_dev && at.st_ino == wanted.st_ino) return depth;
		last = at;
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)close(fd);
		fd = up;
	}
	return -1;
}
