/*
 * open.c: opening and looking at what is in a folder of the host.
 *
 * openat2 refuses links, leaving the folder and crossing into another mount in the kernel. Where it is missing (before Linux 5.6) or
 * forbidden (seccomp filters of containers answer EPERM or ENOSYS), openat with O_NOFOLLOW on a single name gives the same but for bind
 * mounts of the same filesystem: other ones are told by their device number.
 */
#include "host/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { NS_PER_S = 1000000000 };

cb_code host_fail(cb_error *err, int error_number, const char *what, const char *name)
{
	static const struct {
		int number;
		cb_code code;
	} table[] = {
		{ENOENT, CB_NOTFOUND},
		{EEXIST, CB_EXISTS},
		{ENOTDIR, CB_NOTDIR},
		{EISDIR, CB_ISDIR},
		{ENOTEMPTY, CB_NOTEMPTY},
		{ELOOP, CB_LOOP},
		{ENAMETOOLONG, CB_NAMETOOLONG},
		{EXDEV, CB_UNSUPPORTED},
		{EMLINK, CB_MLINK},
		{EAGAIN, CB_BUSY},
		{EBUSY, CB_BUSY},
		{EOPNOTSUPP, CB_UNSUPPORTED},
		{EMFILE, CB_LIMIT},
		{ENFILE, CB_LIMIT},
		{ETXTBSY, CB_BUSY},
		{EFBIG, CB_TOOBIG},
	};
	cb_code code = cb_err_errno(err, error_number, "cannot %s '%s'", what, name);
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].number == error_number) code = table[i].code;
	if (err) err->code = code;
	return code;
}

/* ---- stat ---- */

static int64_t time_ns(const struct timespec *t)
{
	if (t->tv_sec > INT64_MAX / NS_PER_S - 1) return INT64_MAX;
	if (t->tv_sec < INT64_MIN / NS_PER_S + 1) return INT64_MIN + 1;
	return (int64_t)t->tv_sec * NS_PER_S + t->tv_nsec;
}

static host_type type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return HOST_FILE;
	case S_IFDIR:
		return HOST_DIR;
	case S_IFLNK:
		return HOST_SYMLINK;
	case S_IFIFO:
		return HOST_FIFO;
	case S_IFSOCK:
		return HOST_SOCKET;
	default:
		return HOST_DEVICE;
	}
}

static void stat_from(const struct stat *s, host_stat *out)
{
	*out = (host_stat){
		.type = type_of(s->st_mode),
		.mode = s->st_mode & 07777,
		.dev = s->st_dev,
		.ino = s->st_ino,
		.links = s->st_nlink,
		.device = S_ISCHR(s->st_mode) || S_ISBLK(s->st_mode) ? s->st_rdev : 0,
		.size = s->st_size > 0 ? (uint64_t)s->st_size : 0,
		.allocated_bytes = s->st_blocks > 0 ? (uint64_t)s->st_blocks * 512 : 0,
		.mtime_ns = time_ns(&s->st_mtim),
		.ctime_ns = time_ns(&s->st_ctim),
		.atime_ns = time_ns(&s->st_atim),
	};
}

const char *host_type_name(host_type type)
{
	switch (type) {
	case HOST_FILE:
		return "a file";
	case HOST_DIR:
		return "a folder";
	case HOST_SYMLINK:
		return "a symbolic link";
	case HOST_FIFO:
		return "a FIFO";
	case HOST_SOCKET:
		return "a socket";
	case HOST_DEVICE:
		return "a device";
	}
	return "something";
}

bool host_stat_same(const host_stat *a, const host_stat *b)
{
	return a->type == b->type && a->mode == b->mode && a->dev == b->dev && a->ino == b->ino && a->links == b->links &&
	       a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

cb_code host_stat_fd(int fd, host_stat *out, cb_error *err)
{
	struct stat s;
	if (fstat(fd, &s) != 0) return cb_err_errno(err, errno, "cannot look at an open file");
	stat_from(&s, out);
	return CB_OK;
}

cb_code host_stat_at(int dir, const char *name, host_stat *out, cb_error *err)
{
	struct stat s;
	CB_TRY(host_name_check(name, err));
	if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) != 0) return host_fail(err, errno, "look at", name);
	stat_from(&s, out);
	return CB_OK;
}

cb_code host_name_check(const char *name, cb_error *err)
{
	size_t size = strlen(name);
	if (size == 0 || memchr(name, '/', size) || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return cb_err_set(err, CB_INVALID, "'%s' is not the name of one file", name);
	if (size > LIMIT_NAME_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "'%s': a name is longer than %d bytes", name, LIMIT_NAME_BYTES);
	return CB_OK;
}

/* ---- opening ---- */

static atomic_bool without_openat2;

void host_force_openat(bool on)
{
	atomic_store(&without_openat2, on);
}

static int open_fallback(int dir, const char *name, int flags, bool other_device)
{
	int fd = openat(dir, name, flags);
	struct stat here, there;
	if (fd < 0 || other_device) return fd;
	if (fstat(dir, &here) == 0 && fstat(fd, &there) == 0 && here.st_dev == there.st_dev) return fd;
	(void)close(fd);
	errno = EXDEV;
	return -1;
}

int host_open_at(int dir, const char *name, int flags, bool other_device)
{
	flags |= O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	if (atomic_load_explicit(&without_openat2, memory_order_relaxed)) return open_fallback(dir, name, flags, other_device);
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | (other_device ? 0 : RESOLVE_NO_XDEV),
	};
	long fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));
	if (fd >= 0) return (int)fd;
	/* EPERM may be the file's own answer as well: the second call then gives it again. */
	if (errno == ENOSYS) atomic_store(&without_openat2, true);
	if (errno == ENOSYS || errno == EPERM) return open_fallback(dir, name, flags, other_device);
	return -1;
}

cb_code host_dir_open(int dir, const char *name, unsigned flags, int *out_fd, host_stat *out_stat, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	AUTO_FD int fd = host_open_at(dir, name, O_RDONLY | O_DIRECTORY, flags & HOST_XDEV);
	if (fd < 0 && errno == ENOENT && (flags & HOST_MAKE)) {
		if (mkdirat(dir, name, 0755) != 0 && errno != EEXIST) return host_fail(err, errno, "make folder", name);
		fd = host_open_at(dir, name, O_RDONLY | O_DIRECTORY, flags & HOST_XDEV);
	}
	if (fd < 0) {
		/* With O_DIRECTORY the plain openat says ENOTDIR of a link. */
		int failed = errno;
		struct stat s;
		if (failed == ENOTDIR && fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode)) failed = ELOOP;
		return host_fail(err, failed, "open folder", name);
	}
	host_stat s;
	CB_TRY(host_stat_fd(fd, &s, err));
	if (out_stat) *out_stat = s;
	*out_fd = TAKE_FD(fd);
	return CB_OK;
}

cb_code host_file_open(int dir, const char *name, int *out_fd, host_stat *out_stat, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	AUTO_FD int fd = host_open_at(dir, name, O_RDONLY, false);
	if (fd < 0)
		return errno == ENXIO ? cb_err_set(err, CB_INVALID, "'%s' is not a regular file", name)
		                      : host_fail(err, errno, "open", name);
	host_stat s;
	CB_TRY(host_stat_fd(fd, &s, err));
	if (s.type == HOST_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is a folder", name);
	if (s.type != HOST_FILE) return cb_err_set(err, CB_INVALID, "'%s' is %s, not a regular file", name, host_type_name(s.type));
	*out_stat = s;
	*out_fd = TAKE_FD(fd);
	return CB_OK;
}

cb_code host_parent_open(int root, const char *path, unsigned flags, int *out_fd, const char **out_name, cb_error *err)
{
	AUTO_FD int fd = fcntl(root, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) return host_fail(err, errno, "open the folder of", path);
	for (;;) {
		const char *slash = strchr(path, '/');
		if (!slash) break;
		char name[LIMIT_NAME_BYTES + 1];
		size_t size = (size_t)(slash - path);
		if (size > LIMIT_NAME_BYTES)
			return cb_err_set(err, CB_NAMETOOLONG, "a name is longer than %d bytes", LIMIT_NAME_BYTES);
		memcpy(name, path, size);
		name[size] = 0;
		int next = -1;
		CB_TRY(host_dir_open(fd, name, flags, &next, NULL, err));
		(void)close(fd);
		fd = next;
		path = slash + 1;
	}
	CB_TRY(host_name_check(path, err));
	*out_name = path;
	*out_fd = TAKE_FD(fd);
	return CB_OK;
}

/* ---- roots ---- */

static cb_code root_open(const char *path, int nofollow, host_root *out, cb_error *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | nofollow);
	if (fd < 0) {
		int failed = errno;
		struct stat s;
		/* With a '/' at the end neither call stops at a link. */
		if (nofollow && lstat(path, &s) == 0 && S_ISLNK(s.st_mode))
			return cb_err_set(err, CB_LOOP, "'%s' is a symbolic link, and none is followed there", path);
		return host_fail(err, failed, "open folder", path);
	}
	host_stat s;
	CB_TRY(host_stat_fd(fd, &s, err));
	out->stat = s;
	out->fd = TAKE_FD(fd);
	return CB_OK;
}

cb_code host_root_open(const char *path, host_root *out, cb_error *err)
{
	return root_open(path, 0, out, err);
}

cb_code host_target_open(const char *path, host_root *out, cb_error *err)
{
	return root_open(path, O_NOFOLLOW, out, err);
}

void host_root_done(host_root *root)
{
	if (root->fd >= 0) (void)close(root->fd);
	root->fd = -1;
}

cb_code host_path_real(const char *path, char **out, cb_error *err)
{
	char *real = realpath(path, NULL);
	if (!real) return host_fail(err, errno, "find", path);
	*out = real;
	return CB_OK;
}

cb_code host_path_parent(const char *path, host_root *out_parent, char **out_name, cb_error *err)
{
	size_t size = strlen(path);
	while (size > 1 && path[size - 1] == '/') size--;
	size_t start = size;
	while (start && path[start - 1] != '/') start--;
	AUTO_FREE char *name = mem_dup(path + start, size - start + 1);
	AUTO_FREE char *folder = start ? mem_dup(path, start + 1) : mem_strdup(".");
	if (!name || !folder) return cb_err_nomem(err);
	name[size - start] = 0;
	if (start) folder[start] = 0;
	CB_TRY(host_name_check(name, err));
	CB_TRY(host_root_open(folder, out_parent, err));
	*out_name = TAKE_PTR(name);
	return CB_OK;
}
