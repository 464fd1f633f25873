/*
 * test_box_posix.c: random file operations on a box and on a real folder: results, errno and whole trees must agree.
 *
 * Two settings. *Rooted*: the real folder is the root of a chroot, so "..", absolute paths and absolute links mean the same on both
 * sides; the store is in memory, for its files would be out of reach. *Plain*: the real folder is the working folder and the store is on
 * disk; paths are relative and without "..", which would leave the real folder but not the box. Both run as an ordinary user (65534
 * when the tests run as root): root's exemptions would differ from what is modelled.
 *
 * Differences that are meant, and how the generator stays clear of them:
 * - The API has no handles on folders: opening one is EISDIR whatever the flags, where Linux allows O_RDONLY (see do_open).
 * - Mode bits are kept but not enforced: modes leave the owner every right. No setuid, setgid (Linux clears them on write and chmod by
 *   strangers) or sticky bits.
 * - cb_open refuses combinations that Linux leaves undefined or silly (O_TRUNC, O_APPEND or O_CREAT without writing, O_EXCL alone).
 * - user.* attributes on symbolic links are EPERM on Linux; attributes are set through paths that are followed.
 * - Times: only values given by utimens are compared (all before 2001, so that "now" on either side is recognised as such).
 * - Sizes and link counts of folders, and the block layout behind SEEK_DATA, are the filesystem's own business.
 * - utimensat with both times omitted succeeds on Linux without looking at the path; ftruncate on a handle without write access is
 *   EINVAL there and EBADF here: neither is generated.
 */
#include "harness/model_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"

enum { HANDLES = 5, PATH_SIZE = 5000, DATA_MAX = 20000, USER = 65534, OLD_SECONDS = 978307200 /* 2001 */ };

static const char *const attr_names[] = {"user.a", "user.b", "user.cc"};

typedef struct handle {
	int fd; /* -1: none */
	cb_file *file;
	bool write, read, append;
} handle;

typedef struct pair {
	test_rng rng;
	cb_store *s;
	cb_box *b;
	bool rooted;
	bool xattrs;
	handle open[HANDLES];
	char data[DATA_MAX];
	model_trace trace;
	cb_error err;
	char what[200]; /* the operation under way */
} pair;

static uint64_t below(pair *p, uint64_t n)
{
	return test_rand_below(&p->rng, n);
}

static bool chance(pair *p, unsigned percent)
{
	return below(p, 100) < percent;
}

/* ---- paths ---- */

static void add_component(pair *p, char *out)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	static const char *const odd[] = {"..a", "a.", "\xff\xfe", "n\nl", " ", "-", "...", "A"};
	char *end = out + strlen(out);
	uint64_t kind = below(p, 200);
	if (kind < 5) (void)strcpy(end, ".");
	else if (kind < 13 && p->rooted) (void)strcpy(end, "..");
	else if (kind < 17) (void)strcpy(end, odd[below(p, sizeof(odd) / sizeof(odd[0]))]);
	else if (kind < 20) {
		size_t n = 254 + below(p, 3);
		memset(end, 'x', n);
		end[n] = 0;
	} else (void)strcpy(end, names[below(p, 4)]);
}

/* A path near the limit of 4096 bytes. */
static void long_path(pair *p, char *out)
{
	size_t want = 4090 + below(p, 10), n = 0;
	while (n + 2 <= want - 2) {
		out[n++] = '.';
		out[n++] = '/';
	}
	out[n] = 0;
	while (n < want - 1) out[n++] = '/';
	out[n++] = 'a';
	out[n] = 0;
}

static void make_path(pair *p, char *out)
{
	out[0] = 0;
	if (chance(p, 1)) {
		long_path(p, out);
		return;
	}
	if (below(p, 300) == 0) return;
	if (p->rooted && chance(p, 30)) (void)strcpy(out, chance(p, 5) ? "//" : "/");
	uint64_t depth = chance(p, 50) ? 1 : 1 + below(p, 4);
	if (out[0] && chance(p, 2)) depth = 0;
	for (uint64_t i = 0; i < depth; i++) {
		if (i) (void)strcat(out, chance(p, 3) ? "//" : "/");
		add_component(p, out);
	}
	if (out[0] && chance(p, 6)) (void)strcat(out, chance(p, 10) ? "//" : "/");
	if (out[0] && chance(p, 1)) (void)strcat(out, "/.");
}

static void make_target(pair *p, char *out)
{
	if (chance(p, 3)) {
		size_t n = chance(p, 50) ? 4094 + below(p, 3) : 60 + below(p, 200);
		memset(out, 'a', n);
		for (size_t i = 100; i < n; i += 100) out[i] = '/';
		out[n] = 0;
	} else {
		make_path(p, out);
	}
}

/* For messages: runs of one letter are shortened. Two may be in use at a time. */
static const char *shown(const char *path)
{
	static char texts[4][80];
	static unsigned turn;
	char *out = texts[turn++ % 4];
	size_t n = 0, size = strlen(path);
	for (size_t i = 0, run; i < size && n < 60; i += run) {
		for (run = 1; path[i + run] == path[i]; run++) {
		}
		if (run > 3) n += (size_t)snprintf(out + n, 80 - n, "%c{%zu}", path[i], run);
		else
			for (size_t k = 0; k < run; k++) out[n++] = path[i];
	}
	(void)snprintf(out + n, 80 - n, "%s", n >= 60 ? "..." : "");
	return out;
}

/* ---- comparing results ---- */

static void wrong(pair *p, const char *text)
{
	model_tell(&p->trace);
	test_fail(__FILE__, __LINE__, "%s: %s", p->what, text);
}

/* real: 0 or an errno. */
static bool agree(pair *p, int real, cb_code code)
{
	model_note(&p->trace, "%s -> %s", p->what, real ? strerrorname_np(real) : "ok");
	int ours = code != CB_OK && p->err.os_error ? p->err.os_error : cb_code_errno(code);
	if (real == ours) return real == 0;
	model_tell(&p->trace);
	test_fail(__FILE__, __LINE__, "%s: Linux says %s, the box %s (%s)", p->what, real ? strerrorname_np(real) : "ok",
	          cb_code_name(code), ours ? p->err.message : "ok");
}

static int failure(long result)
{
	return result < 0 ? errno : 0;
}

__attribute__((format(printf, 2, 3))) static void doing(pair *p, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(p->what, sizeof(p->what), format, args);
	va_end(args);
}

static uint32_t random_mode(pair *p, bool dir)
{
	static const uint32_t files[] = {0644, 0600, 0755, 0666, 0777, 0640}, dirs[] = {0755, 0700, 0777, 0750};
	return dir ? dirs[below(p, 4)] : files[below(p, 6)];
}

static size_t random_bytes(pair *p)
{
	static const size_t sizes[] = {0, 1, 5, 100, 112, 113, 300, 4096, 5000, DATA_MAX};
	size_t n = sizes[below(p, chance(p, 30) ? 10 : 6)];
	if (n > 10 && chance(p, 50)) n -= below(p, n / 2);
	char letter = (char)('a' + below(p, 26));
	for (size_t i = 0; i < n; i++) p->data[i] = (char)(letter + (char)(i % 7));
	return n;
}

static uint64_t random_offset(pair *p)
{
	static const uint64_t most[] = {4, 200, 6000, 70000, 1200000};
	return below(p, most[below(p, chance(p, 90) ? 4 : 5)]);
}

/* ---- operations by path ---- */

static void check_stat(pair *p, const char *path, bool follow)
{
	struct stat st;
	cb_stat_info info = CB_INIT(cb_stat_info);
	doing(p, "stat %s%s", follow ? "" : "nofollow ", shown(path));
	int real = failure(fstatat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW));
	if (!agree(p, real, cb_stat(p->b, path, follow ? 0 : CB_NOFOLLOW, &info, &p->err))) return;
	int type = S_ISREG(st.st_mode) ? CB_FILE : S_ISDIR(st.st_mode) ? CB_DIR : CB_SYMLINK;
	if (type != (int)info.type) wrong(p, "another type");
	if ((st.st_mode & 07777) != info.mode) wrong(p, "another mode");
	if (type != CB_DIR && (uint64_t)st.st_size != info.size) wrong(p, "another size");
	if (type != CB_DIR && st.st_nlink != info.links) wrong(p, "another count of links");
}

static void op_stat(pair *p)
{
	char path[PATH_SIZE];
	make_path(p, path);
	check_stat(p, path, chance(p, 50));
}

static void op_mkdir(pair *p)
{
	char path[PATH_SIZE];
	make_path(p, path);
	uint32_t mode = random_mode(p, true);
	doing(p, "mkdir %s", shown(path));
	(void)agree(p, failure(mkdir(path, mode)), cb_mkdir(p->b, path, mode, 0, &p->err));
}

static void op_rmdir(pair *p)
{
	char path[PATH_SIZE];
	make_path(p, path);
	doing(p, "rmdir %s", shown(path));
	(void)agree(p, failure(rmdir(path)), cb_rmdir(p->b, path, &p->err));
}

static void op_unlink(pair *p)
{
	char path[PATH_SIZE];
	make_path(p, path);
	doing(p, "unlink %s", shown(path));
	(void)agree(p, failure(unlink(path)), cb_unlink(p->b, path, &p->err));
}

static void op_rename(pair *p)
{
	char from[PATH_SIZE], to[PATH_SIZE];
	make_path(p, from);
	make_path(p, to);
	unsigned flags = 0;
	if (chance(p, 20)) flags = CB_NOREPLACE;
	if (chance(p, 20)) flags = CB_EXCHANGE;
	if (chance(p, 1)) flags = CB_NOREPLACE | CB_EXCHANGE;
	unsigned real_flags = (flags & CB_NOREPLACE ? RENAME_NOREPLACE : 0) | (flags & CB_EXCHANGE ? RENAME_EXCHANGE : 0);
	doing(p, "rename%s%s %s %s", flags & CB_NOREPLACE ? " noreplace" : "", flags & CB_EXCHANGE ? " exchange" : "", shown(from),
	      shown(to));
	int real = flags ? failure(renameat2(AT_FDCWD, from, AT_FDCWD, to, real_flags)) : failure(rename(from, to));
	(void)agree(p, real, cb_rename(p->b, from, to, flags, &p->err));
}

static void op_link(pair *p)
{
	char from[PATH_SIZE], to[PATH_SIZE];
	make_path(p, from);
	make_path(p, to);
	doing(p, "link %s %s", shown(from), shown(to));
	(void)agree(p, failure(linkat(AT_FDCWD, from, AT_FDCWD, to, 0)), cb_link(p->b, from, to, &p->err));
}

static void op_symlink(pair *p)
{
	char target[PATH_SIZE], path[PATH_SIZE];
	make_target(p, target);
	make_path(p, path);
	doing(p, "symlink %s at %s", shown(target), shown(path));
	(void)agree(p, failure(symlink(target, path)), cb_symlink(p->b, target, path, &p->err));
}

static void op_readlink(pair *p)
{
	char path[PATH_SIZE], real[PATH_SIZE];
	char *ours = NULL;
	make_path(p, path);
	doing(p, "readlink %s", shown(path));
	ssize_t n = readlink(path, real, sizeof(real) - 1);
	if (!agree(p, failure(n), cb_readlink(p->b, path, &ours, NULL, &p->err))) return;
	real[n] = 0;
	if (strcmp(real, ours) != 0) wrong(p, "another target");
	cb_free(ours);
}

static void op_chmod(pair *p)
{
	char path[PATH_SIZE];
	make_path(p, path);
	/* glibc's chmod of a link itself needs /proc, which the chroot lacks. */
	bool follow = p->rooted || chance(p, 80);
	uint32_t mode = 0755;
	doing(p, "chmod %s%o %s", follow ? "" : "nofollow ", mode, shown(path));
	struct stat st;
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) mode = random_mode(p, false);
	int real = failure(fchmodat(AT_FDCWD, path, mode, follow ? 0 : AT_SYMLINK_NOFOLLOW));
	if (real == ENOTSUP) real = EOPNOTSUPP;
	(void)agree(p, real, cb_chmod(p->b, path, mode, follow ? 0 : CB_NOFOLLOW, &p->err));
}

static void random_time(pair *p, bool omit, struct timespec *real, int64_t *ours)
{
	int64_t ns = (int64_t)below(p, (uint64_t)OLD_SECONDS * 1000000000u);
	*real = (struct timespec){ns / 1000000000, ns % 1000000000};
	*ours = ns;
	if (!omit) return;
	real->tv_nsec = UTIME_OMIT;
	*ours = CB_TIME_OMIT;
}

static void op_utimens(pair *p)
{
	char path[PATH_SIZE];
	struct timespec times[2];
	int64_t atime, mtime;
	make_path(p, path);
	bool follow = chance(p, 70), omit_atime = chance(p, 20);
	random_time(p, omit_atime, &times[0], &atime);
	random_time(p, !omit_atime && chance(p, 20), &times[1], &mtime);
	doing(p, "utimens %s%s", follow ? "" : "nofollow ", shown(path));
	int real = failure(utimensat(AT_FDCWD, path, times, follow ? 0 : AT_SYMLINK_NOFOLLOW));
	if (!agree(p, real, cb_utimens(p->b, path, atime, mtime, follow ? 0 : CB_NOFOLLOW, &p->err))) return;
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (cb_stat(p->b, path, follow ? 0 : CB_NOFOLLOW, &info, &p->err) != CB_OK) wrong(p, "gone afterwards");
	if (mtime != CB_TIME_OMIT && info.mtime_ns != mtime) wrong(p, "another mtime");
	if (atime != CB_TIME_OMIT && info.atime_ns != atime) wrong(p, "another atime");
}

/* Truncating to the same size touches the file on ext4 and in a box; tmpfs leaves its times, and is made to agree. */
static int truncate_touching(int fd, uint64_t size)
{
	struct stat st;
	bool same = fstat(fd, &st) == 0 && (uint64_t)st.st_size == size;
	int result = ftruncate(fd, (off_t)size);
	if (result == 0 && same) CHECK(futimens(fd, (const struct timespec[2]){{0, UTIME_OMIT}, {0, UTIME_NOW}}) == 0);
	return result;
}

static int truncate_path_touching(const char *path, uint64_t size)
{
	struct stat st;
	bool same = stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size;
	int result = truncate(path, (off_t)size);
	if (result == 0 && same)
		CHECK(utimensat(AT_FDCWD, path, (const struct timespec[2]){{0, UTIME_OMIT}, {0, UTIME_NOW}}, 0) == 0);
	return result;
}

static void op_truncate(pair *p)
{
	char path[PATH_SIZE];
	make_path(p, path);
	uint64_t size = random_offset(p);
	doing(p, "truncate %s %" PRIu64, shown(path), size);
	(void)agree(p, failure(truncate_path_touching(path, size)), cb_truncate(p->b, path, size, &p->err));
}

static int real_write_file(pair *p, const char *path, int flags, uint32_t mode, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | flags, mode);
	if (fd < 0) return errno;
	ssize_t written = write(fd, p->data, n);
	CHECK(written == (ssize_t)n && close(fd) == 0);
	return 0;
}

static void op_write_file(pair *p)
{
	char path[PATH_SIZE];
	make_path(p, path);
	size_t n = random_bytes(p);
	uint32_t mode = random_mode(p, false);
	cb_write_options o = CB_WITH(cb_write_options, .mode = mode, .append = chance(p, 40));
	if (o.append && n == 0) n = 1; /* appending nothing is a change of the times here, and none on Linux */
	doing(p, "%s %s %zu bytes", o.append ? "append" : "write", shown(path), n);
	int real = real_write_file(p, path, o.append ? O_APPEND : O_TRUNC, mode, n);
	(void)agree(p, real, cb_write_file(p->b, path, p->data, n, &o, &p->err));
}

static void op_read_file(pair *p)
{
	char path[PATH_SIZE], bytes[512];
	size_t ours_size = 0;
	char *ours = NULL;
	make_path(p, path);
	doing(p, "read %s", shown(path));
	int fd = open(path, O_RDONLY);
	int real = failure(fd);
	ssize_t n = fd >= 0 ? read(fd, bytes, sizeof(bytes)) : 0;
	if (n < 0) real = errno; /* a folder */
	if (fd >= 0) (void)close(fd);
	if (!agree(p, real, cb_read_file(p->b, path, &ours, &ours_size, &p->err))) return;
	size_t part = ours_size < sizeof(bytes) ? ours_size : sizeof(bytes);
	if (part != (size_t)n || memcmp(ours, bytes, part) != 0) wrong(p, "other content");
	cb_free(ours);
}

typedef struct listing {
	char *names[4096];
	size_t count;
} listing;

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static cb_code list_name(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)info;
	(void)err;
	listing *l = context;
	CHECK(l->count < 4096);
	l->names[l->count++] = model_strdup(name);
	return CB_OK;
}

static int real_list(const char *path, listing *l)
{
	DIR *d = opendir(path);
	if (!d) return errno;
	for (const struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) (void)list_name(l, e->d_name, NULL, NULL);
	(void)closedir(d);
	if (l->count) qsort(l->names, l->count, sizeof(char *), compare_names);
	return 0;
}

static void op_readdir(pair *p)
{
	char path[PATH_SIZE];
	static listing real, ours;
	real.count = ours.count = 0;
	make_path(p, path);
	doing(p, "readdir %s", shown(path));
	if (agree(p, real_list(path, &real), cb_readdir(p->b, path, list_name, &ours, &p->err))) {
		if (real.count != ours.count) wrong(p, "another number of names");
		for (size_t i = 0; i < real.count; i++)
			if (strcmp(real.names[i], ours.names[i]) != 0) wrong(p, "other names");
	}
	for (size_t i = 0; i < real.count; i++) free(real.names[i]);
	for (size_t i = 0; i < ours.count; i++) free(ours.names[i]);
}

static void op_xattr(pair *p)
{
	char path[PATH_SIZE], value[64], real[256];
	if (!p->xattrs) return;
	make_path(p, path);
	const char *name = attr_names[below(p, 3)];
	size_t n = below(p, sizeof(value));
	memset(value, (int)('a' + below(p, 26)), sizeof(value));
	switch (below(p, 3)) {
	case 0:
		doing(p, "xattr set %s %s", shown(path), name);
		(void)agree(p, failure(setxattr(path, name, value, n, 0)), cb_xattr_set(p->b, path, name, value, n, 0, &p->err));
		return;
	case 1:
		doing(p, "xattr remove %s %s", shown(path), name);
		(void)agree(p, failure(removexattr(path, name)), cb_xattr_remove(p->b, path, name, 0, &p->err));
		return;
	default:
		break;
	}
	char *ours = NULL;
	size_t size = 0;
	doing(p, "xattr get %s %s", shown(path), name);
	ssize_t got = getxattr(path, name, real, sizeof(real));
	if (!agree(p, failure(got), cb_xattr_get(p->b, path, name, 0, &ours, &size, &p->err))) return;
	if (size != (size_t)got || memcmp(real, ours, size) != 0) wrong(p, "another value");
	cb_free(ours);
}

/* ---- operations on open files ---- */

static void close_handle(pair *p, handle *h)
{
	if (h->fd < 0) return;
	doing(p, "close %d", (int)(h - p->open));
	int real = failure(close(h->fd));
	h->fd = -1;
	(void)agree(p, real, cb_close(h->file, &p->err));
}

static void op_open(pair *p)
{
	char path[PATH_SIZE];
	handle *h = &p->open[below(p, HANDLES)];
	close_handle(p, h);
	make_path(p, path);
	static const unsigned access[] = {CB_READ, CB_WRITE, CB_READ | CB_WRITE};
	static const int real_access[] = {O_RDONLY, O_WRONLY, O_RDWR};
	size_t which = below(p, 3);
	unsigned flags = access[which];
	int real_flags = real_access[which];
	if (which && chance(p, 50)) flags |= CB_CREATE, real_flags |= O_CREAT;
	if ((flags & CB_CREATE) && chance(p, 25)) flags |= CB_EXCLUSIVE, real_flags |= O_EXCL;
	if (which && chance(p, 25)) flags |= CB_TRUNCATE, real_flags |= O_TRUNC;
	if (which && chance(p, 25)) flags |= CB_APPEND, real_flags |= O_APPEND;
	if (chance(p, 20)) flags |= CB_NOFOLLOW_OPEN, real_flags |= O_NOFOLLOW;
	uint32_t mode = random_mode(p, false);
	doing(p, "open %d %s flags %u", (int)(h - p->open), shown(path), flags);
	int fd = open(path, real_flags, mode), real = failure(fd);
	struct stat st;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) { /* no handles on folders */
		(void)close(fd);
		fd = -1;
		real = EISDIR;
	}
	cb_file *file = NULL;
	if (!agree(p, real, cb_open(p->b, path, flags, mode, &file, &p->err))) return;
	*h = (handle){fd, file, which > 0, which != 1, (flags & CB_APPEND) != 0};
}

static void compare_read(pair *p, ssize_t n, const char *real, size_t size, const char *ours)
{
	if ((size_t)n != size) wrong(p, "another number of bytes");
	if (size && memcmp(real, ours, size) != 0) wrong(p, "other bytes");
}

static void handle_read(pair *p, handle *h, bool positional)
{
	static char real[DATA_MAX], ours[DATA_MAX];
	uint64_t offset = random_offset(p);
	size_t n = below(p, DATA_MAX), size = 0;
	doing(p, "%s %d %zu at %" PRIu64, positional ? "pread" : "read", (int)(h - p->open), n, offset);
	ssize_t got = positional ? pread(h->fd, real, n, (off_t)offset) : read(h->fd, real, n);
	int failed = failure(got);
	cb_code code = positional ? cb_pread(h->file, ours, n, offset, &size, &p->err) : cb_read(h->file, ours, n, &size, &p->err);
	if (agree(p, failed, code)) compare_read(p, got, real, size, ours);
}

static void handle_write(pair *p, handle *h, bool positional)
{
	uint64_t offset = random_offset(p);
	size_t n = random_bytes(p);
	doing(p, "%s %d %zu at %" PRIu64, positional ? "pwrite" : "write", (int)(h - p->open), n, offset);
	ssize_t put = positional ? pwrite(h->fd, p->data, n, (off_t)offset) : write(h->fd, p->data, n);
	int failed = failure(put);
	cb_code code = positional ? cb_pwrite(h->file, p->data, n, offset, &p->err) : cb_write(h->file, p->data, n, &p->err);
	(void)agree(p, failed, code);
}

static void handle_seek(pair *p, handle *h)
{
	static const int real_whence[] = {SEEK_SET, SEEK_CUR, SEEK_END};
	static const cb_whence whence[] = {CB_SEEK_SET, CB_SEEK_CUR, CB_SEEK_END};
	size_t which = below(p, 3);
	int64_t offset = (int64_t)random_offset(p) - (chance(p, 50) ? (int64_t)random_offset(p) : 0);
	uint64_t ours = 0;
	doing(p, "seek %d %" PRId64 " %zu", (int)(h - p->open), offset, which);
	off_t real = lseek(h->fd, (off_t)offset, real_whence[which]);
	if (agree(p, failure(real), cb_seek(h->file, offset, whence[which], &ours, &p->err)) && (uint64_t)real != ours)
		wrong(p, "another position");
}

/* Whatever the block size: outside what SEEK_DATA finds there are only zeros, and the walk ends at the end of the file. */
static void handle_holes(pair *p, handle *h)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	uint64_t at = 0, data = 0, hole = 0, position = 0;
	if (!h->read || cb_fstat(h->file, &info, &p->err) != CB_OK) return;
	doing(p, "holes of %d", (int)(h - p->open));
	CHECK(cb_seek(h->file, 0, CB_SEEK_CUR, &position, &p->err) == CB_OK);
	while (at < info.size) {
		cb_code code = cb_seek(h->file, (int64_t)at, CB_SEEK_DATA, &data, &p->err);
		if (code != CB_OK) data = info.size;
		if (data < at || data > info.size) wrong(p, "data out of range");
		for (uint64_t i = at; i < data; i += sizeof(p->data)) {
			size_t n = data - i < sizeof(p->data) ? (size_t)(data - i) : sizeof(p->data);
			CHECK(pread(h->fd, p->data, n, (off_t)i) == (ssize_t)n);
			for (size_t k = 0; k < n; k++)
				if (p->data[k]) wrong(p, "data in what is called a hole");
		}
		if (data == info.size) break;
		if (cb_seek(h->file, (int64_t)data, CB_SEEK_HOLE, &hole, &p->err) != CB_OK) wrong(p, "no hole after data");
		if (hole <= data || hole > info.size) wrong(p, "hole out of range");
		at = hole;
	}
	CHECK(cb_seek(h->file, (int64_t)position, CB_SEEK_SET, NULL, &p->err) == CB_OK);
}

static void handle_stat(pair *p, handle *h)
{
	struct stat st;
	cb_stat_info info = CB_INIT(cb_stat_info);
	doing(p, "fstat %d", (int)(h - p->open));
	if (!agree(p, failure(fstat(h->fd, &st)), cb_fstat(h->file, &info, &p->err))) return;
	if ((uint64_t)st.st_size != info.size) wrong(p, "another size");
	if (st.st_nlink != info.links) wrong(p, "another count of links");
	if ((st.st_mode & 07777) != info.mode) wrong(p, "another mode");
}

static void op_handle(pair *p)
{
	handle *h = &p->open[below(p, HANDLES)];
	if (h->fd < 0) return;
	uint64_t size = random_offset(p);
	switch (below(p, 12)) {
	case 0:
	case 1:
		handle_read(p, h, false);
		break;
	case 2:
	case 3:
		handle_read(p, h, true);
		break;
	case 4:
	case 5:
		handle_write(p, h, false);
		break;
	case 6:
	case 7:
		handle_write(p, h, true);
		break;
	case 8:
		handle_seek(p, h);
		break;
	case 9:
		handle_stat(p, h);
		break;
	case 10:
		handle_holes(p, h);
		break;
	default:
		if (!h->write) break;
		doing(p, "ftruncate %d %" PRIu64, (int)(h - p->open), size);
		(void)agree(p, failure(truncate_touching(h->fd, size)), cb_ftruncate(h->file, size, &p->err));
	}
}

static void op_fsync(pair *p)
{
	handle *h = &p->open[below(p, HANDLES)];
	if (h->fd < 0) return;
	doing(p, "fsync %d", (int)(h - p->open));
	(void)agree(p, 0, cb_fsync(h->file, &p->err));
}

/* ---- whole trees ---- */

static void tell_node(buf *out, const char *path, int type, uint32_t mode, uint64_t size, uint32_t links, int64_t mtime_ns,
                      const char *bytes)
{
	bool given = mtime_ns < (int64_t)OLD_SECONDS * 1000000000;
	CHECK(buf_printf(out, NULL, "%s: %d %o %" PRIu64 " %u %" PRId64 " %016" PRIx64 "\n", path, type, mode, size, links,
	                 given ? mtime_ns : 0, hash64(bytes, type == CB_DIR ? 0 : (size_t)size)) == CB_OK);
}

static void tell_attr(buf *out, const char *name, const char *value, size_t size)
{
	CHECK(buf_printf(out, NULL, "  %s %zu %016" PRIx64 "\n", name, size, hash64(value, size)) == CB_OK);
}

static void real_attrs(buf *out, const char *path, bool is_link)
{
	char value[256];
	for (size_t i = 0; i < 3 && !is_link; i++) {
		ssize_t n = getxattr(path, attr_names[i], value, sizeof(value));
		if (n >= 0) tell_attr(out, attr_names[i], value, (size_t)n);
	}
}

static void real_node(buf *out, const char *path)
{
	struct stat st;
	CHECK_MSG(lstat(path, &st) == 0, "%s: %s", path, strerror(errno));
	char *bytes = model_alloc((size_t)st.st_size + 1);
	if (S_ISREG(st.st_mode)) {
		int fd = open(path, O_RDONLY);
		CHECK(fd >= 0 && pread(fd, bytes, (size_t)st.st_size, 0) == st.st_size);
		(void)close(fd);
	}
	if (S_ISLNK(st.st_mode)) CHECK(readlink(path, bytes, (size_t)st.st_size) == st.st_size);
	bool dir = S_ISDIR(st.st_mode);
	tell_node(out, path[1] ? path + 1 : "/",
	          S_ISREG(st.st_mode) ? CB_FILE
	          : dir               ? CB_DIR
	                              : CB_SYMLINK,
	          st.st_mode & 07777, dir ? 0 : (uint64_t)st.st_size, dir ? 0 : (uint32_t)st.st_nlink,
	          (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec, bytes);
	real_attrs(out, path, S_ISLNK(st.st_mode));
	free(bytes);
}

/* path: "." or "./a/b". Recursion: each level has its own listing, and paths here are short. */
static void real_walk(buf *out, const char *path)
{
	real_node(out, path);
	struct stat st;
	CHECK(lstat(path, &st) == 0);
	if (!S_ISDIR(st.st_mode)) return;
	listing *l = model_alloc(sizeof(*l));
	l->count = 0;
	CHECK(real_list(path, l) == 0);
	for (size_t i = 0; i < l->count; i++) {
		size_t n = strlen(path) + strlen(l->names[i]) + 2;
		char *child = model_alloc(n);
		(void)snprintf(child, n, "%s/%s", path, l->names[i]);
		real_walk(out, child);
		free(child);
		free(l->names[i]);
	}
	free(l);
}

typedef struct ours_walk {
	pair *p;
	buf *out;
} ours_walk;

static cb_code ours_attr(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	tell_attr(context, name, value, size);
	return CB_OK;
}

static cb_code ours_node(void *context, const char *path, const cb_stat_info *info, cb_error *unused)
{
	(void)unused;
	cb_error err = {0};
	ours_walk *w = context;
	char *bytes = NULL;
	size_t size = 0;
	if (info->type == CB_FILE) CHECK_OK(cb_read_file(w->p->b, path, &bytes, &size, &err));
	if (info->type == CB_SYMLINK) CHECK_OK(cb_readlink(w->p->b, path, &bytes, NULL, &err));
	bool dir = info->type == CB_DIR;
	tell_node(w->out, path, (int)info->type, info->mode, dir ? 0 : info->size, dir ? 0 : info->links, info->mtime_ns, bytes);
	cb_free(bytes);
	if (info->type != CB_SYMLINK) CHECK_OK(cb_xattr_list(w->p->b, path, CB_NOFOLLOW, ours_attr, w->out, &err));
	return CB_OK;
}

static void tell_difference(const char *real, const char *ours)
{
	while (*real && *real == *ours) real++, ours++;
	while (real[-1] != '\n') real--, ours--;
	test_note("Linux: %.*s", (int)strcspn(real, "\n"), real);
	test_note("box:   %.*s", (int)strcspn(ours, "\n"), ours);
}

static void compare_trees(pair *p)
{
	cb_error err = {0};
	AUTO_BUF buf real = BUF_INIT(SIZE_MAX), ours = BUF_INIT(SIZE_MAX);
	CHECK(buf_printf(&real, NULL, "\n") == CB_OK && buf_printf(&ours, NULL, "\n") == CB_OK);
	real_walk(&real, ".");
	ours_walk w = {p, &ours};
	CHECK_OK(cb_walk(p->b, "/", ours_node, &w, &err));
	CHECK(buf_append_byte(&real, 0, NULL) == CB_OK && buf_append_byte(&ours, 0, NULL) == CB_OK);
	if (strcmp((char *)real.bytes, (char *)ours.bytes) == 0) return;
	model_tell(&p->trace);
	tell_difference((char *)real.bytes, (char *)ours.bytes);
	test_fail(__FILE__, __LINE__, "the trees differ");
}

/* ---- rounds ---- */

static const struct {
	unsigned weight;
	void (*run)(pair *p);
} operations[] = {
	{14, op_write_file}, {6, op_read_file}, {10, op_mkdir},   {6, op_rmdir}, {10, op_unlink}, {16, op_rename},
	{8, op_link},        {9, op_symlink},   {3, op_readlink}, {4, op_chmod}, {5, op_utimens}, {5, op_truncate},
	{6, op_stat},        {3, op_readdir},   {5, op_xattr},    {14, op_open}, {40, op_handle}, {1, op_fsync},
};

static void one_operation(pair *p)
{
	unsigned total = 0;
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) total += operations[i].weight;
	uint64_t at = below(p, total);
	for (size_t i = 0;; i++) {
		if (at < operations[i].weight) {
			operations[i].run(p);
			return;
		}
		at -= operations[i].weight;
	}
}

static void empty_folder(int fd)
{
	DIR *d = fdopendir(fd);
	CHECK(d != NULL);
	for (const struct dirent *e; (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
		if (unlinkat(fd, e->d_name, 0) == 0) continue;
		int child = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		CHECK(child >= 0);
		empty_folder(child);
		CHECK(unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0);
	}
	(void)closedir(d);
}

static cb_code remove_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)info;
	(void)err;
	listing *l = context;
	l->names[l->count++] = model_strdup(name);
	return CB_OK;
}

/* A box without the folders that a new one has, and an empty real folder. */
static void fresh(pair *p, unsigned round)
{
	cb_error err = {0};
	char name[32];
	(void)snprintf(name, sizeof(name), "r%u", round);
	CHECK_OK(cb_box_create(p->s, name, &p->b, &err));
	listing l = {.count = 0};
	CHECK_OK(cb_readdir(p->b, "/", remove_entry, &l, &err));
	for (size_t i = 0; i < l.count; i++) {
		CHECK_OK(cb_remove(p->b, l.names[i], &err));
		free(l.names[i]);
	}
	CHECK_OK(cb_chmod(p->b, "/", 0755, 0, &err));
	int fd = open(".", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	empty_folder(fd);
	CHECK(chmod(".", 0755) == 0);
	for (size_t i = 0; i < 3; i++) (void)removexattr(".", attr_names[i]);
	for (size_t i = 0; i < HANDLES; i++) p->open[i].fd = -1;
	p->trace.count = 0;
}

static void finish(pair *p, unsigned round)
{
	cb_error err = {0};
	char name[32];
	for (size_t i = 0; i < HANDLES; i++) close_handle(p, &p->open[i]);
	compare_trees(p);
	cb_box_close(p->b);
	(void)snprintf(name, sizeof(name), "r%u", round);
	if (round % 8 == 7) test_store_sound(p->s);
	CHECK_OK(cb_box_delete(p->s, name, &err));
	if (round % 16 == 15) CHECK_OK(cb_store_gc(p->s, NULL, &err));
}

static void run_rounds(pair *p, unsigned rounds)
{
	p->xattrs = setxattr(".", "user.probe", "x", 1, 0) == 0;
	if (p->xattrs) CHECK(removexattr(".", "user.probe") == 0);
	if (!p->xattrs) test_note("no user attributes on this filesystem: they are not compared");
	uint64_t seed = p->rng.state;
	for (unsigned round = 0; round < rounds; round++) {
		p->rng.state = seed + round * 1000003;
		(void)test_rand(&p->rng);
		fresh(p, round);
		uint64_t length = 20 + below(p, 300);
		for (uint64_t i = 0; i < length; i++) {
			one_operation(p);
			if (i % 50 == 49) compare_trees(p);
		}
		finish(p, round);
	}
}

static void become_user(void)
{
	if (geteuid() != 0) return;
	CHECK(setgid(USER) == 0 && setuid(USER) == 0);
}

/* Runs `body` in a child as an ordinary user with the real folder as working folder. */
static void in_child(bool rooted, void (*body)(pair *p))
{
	char real[4200];
	(void)snprintf(real, sizeof(real), "%s/real", test_tmpdir());
	CHECK(mkdir(real, 0755) == 0);
	if (geteuid() == 0) CHECK(chown(test_tmpdir(), USER, USER) == 0 && chown(real, USER, USER) == 0);
	static pair p;
	p.rng.state = test_seed();
	p.rooted = rooted;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		(void)umask(0);
		if (rooted) {
			CHECK(chdir(real) == 0);
			if (geteuid() != 0) (void)unshare(CLONE_NEWUSER);
			if (chroot(".") != 0) _exit(77);
			become_user();
		} else {
			become_user();
		}
		cb_error err = {0};
		if (rooted) CHECK_OK(cb_store_open(":memory:", NULL, &p.s, &err));
		else p.s = test_store_open(false);
		CHECK(chdir(rooted ? "/" : real) == 0);
		body(&p);
		test_store_sound(p.s);
		cb_store_close(p.s);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) test_lacks("chroot", "not allowed here, not even in a user namespace");
	CHECK_MSG(status == 0, "the child ended with status %x", (unsigned)status);
}

static void body_random(pair *p)
{
	run_rounds(p, test_dose(p->rooted ? 300 : 150));
}

TEST_LIMIT(rooted, 60)
{
	in_child(true, body_random);
}

TEST_LIMIT(plain, 60)
{
	in_child(false, body_random);
}

/* ---- limits, one by one ---- */

static void both_symlink(pair *p, const char *target, const char *path)
{
	doing(p, "symlink %s at %s", shown(target), shown(path));
	(void)agree(p, failure(symlink(target, path)), cb_symlink(p->b, target, path, &p->err));
}

/* Chains of links around the limit of 40, relative and, where the root is ours, absolute. */
static void body_links(pair *p)
{
	char from[32], to[32];
	fresh(p, 0);
	doing(p, "write end");
	(void)agree(p, real_write_file(p, "end", O_TRUNC, 0644, 0), cb_write_file(p->b, "end", "", 0, NULL, &p->err));
	both_symlink(p, p->rooted ? "/end" : "end", "l0");
	for (int i = 1; i < 45; i++) {
		(void)snprintf(from, sizeof(from), "l%d", i);
		(void)snprintf(to, sizeof(to), "%sl%d", p->rooted && i % 2 ? "/" : "", i - 1);
		both_symlink(p, to, from);
		check_stat(p, from, true);
		check_stat(p, from, false);
	}
	both_symlink(p, "self", "self");
	both_symlink(p, "pong", "ping");
	both_symlink(p, "ping", "pong");
	static const char *const paths[] = {"self", "self/", "self/x", "ping", "ping/..", "end/", "end/.", "end/x", "l0/", "l0/x"};
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		check_stat(p, paths[i], true);
		check_stat(p, paths[i], false);
	}
	finish(p, 0);
}

/* Folders nested until the path is too long, then reached through links and "..". */
static void body_deep(pair *p)
{
	char path[PATH_SIZE] = "";
	fresh(p, 0);
	for (int i = 0;; i++) {
		size_t n = strlen(path);
		if (n > 4300) break;
		(void)strcat(path, i ? "/" : "");
		size_t width = i % 3 == 0 ? 100 : 1;
		n = strlen(path);
		memset(path + n, 'd', width);
		path[n + width] = 0;
		doing(p, "mkdir, %zu bytes", n + width);
		(void)agree(p, failure(mkdir(path, 0755)), cb_mkdir(p->b, path, 0755, 0, &p->err));
		check_stat(p, path, true);
	}
	cb_box_close(p->b);
}

TEST(links_rooted)
{
	in_child(true, body_links);
}

TEST(links_plain)
{
	in_child(false, body_links);
}

TEST(deep)
{
	in_child(false, body_deep);
}
