/* tree_text.c: see tree_text.h. */
#include "harness/tree_text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "harness/boxes.h"

/* An entry on the way to its line; everything is owned. */
typedef struct row {
	char *path; /* relative; "." is the folder itself */
	char type;
	unsigned mode;
	int64_t mtime_ns;
	uint64_t size, hash, ino;
	char *target, *xattrs;
} row;

typedef struct rows {
	buf list;
	unsigned flags;
	cb_box *b;
	size_t base;
} rows;

static cb_error err;

static int row_order(const void *a, const void *b)
{
	return strcmp(((const row *)a)->path, ((const row *)b)->path);
}

static void print_name(buf *out, const char *name)
{
	for (const char *p = name; *p; p++) {
		bool plain = *p > ' ' && *p < 0x7f && *p != '\\';
		if (plain) CHECK_OK(buf_append_byte(out, (uint8_t)*p, &err));
		else CHECK_OK(buf_printf(out, &err, "\\x%02x", (unsigned char)*p));
	}
}

static const char *first_name(const row *all, size_t n, uint64_t ino)
{
	for (size_t i = 0; i < n; i++)
		if (all[i].ino == ino) return all[i].path;
	return "";
}

static void print_row(buf *out, const row *all, size_t n, const row *r, unsigned flags)
{
	bool times = !(flags & TREE_NO_TIMES) && !(r->type == 'd' && flags & TREE_NO_DIR_TIMES);
	print_name(out, r->path);
	CHECK_OK(buf_printf(out, &err, " %c %o", r->type, r->type == 'l' ? 0777 : r->mode));
	if (times) CHECK_OK(buf_printf(out, &err, " %" PRId64, r->mtime_ns));
	if (r->type == 'f') CHECK_OK(buf_printf(out, &err, " %" PRIu64 " %016" PRIx64, r->size, r->hash));
	if (r->type == 'l') {
		CHECK_OK(buf_append_str(out, " -> ", &err));
		print_name(out, r->target);
	}
	if (!(flags & TREE_NO_XATTRS)) CHECK_OK(buf_append_str(out, r->xattrs ? r->xattrs : "", &err));
	const char *first = first_name(all, n, r->ino);
	if (r->type == 'f' && !(flags & TREE_NO_LINKS) && strcmp(first, r->path) != 0) {
		CHECK_OK(buf_append_str(out, " = ", &err));
		print_name(out, first);
	}
	CHECK_OK(buf_append_byte(out, '\n', &err));
}

static char *rows_text(rows *r)
{
	row *all = (row *)(void *)r->list.bytes;
	size_t n = r->list.size / sizeof(row);
	buf out = BUF_INIT(SIZE_MAX);
	if (n) qsort(all, n, sizeof(row), row_order);
	for (size_t i = 0; i < n; i++)
		if (!(r->flags & TREE_NO_ROOT) || strcmp(all[i].path, ".") != 0) print_row(&out, all, n, &all[i], r->flags);
	for (size_t i = 0; i < n; i++) {
		free(all[i].path);
		free(all[i].target);
		free(all[i].xattrs);
	}
	buf_done(&r->list);
	char *text = NULL;
	CHECK_OK(buf_take(&out, &text, NULL, &err));
	return test_keep(text);
}

/* ---- a box ---- */

static cb_code print_xattr(void *context, const char *name, const char *value, size_t size, cb_error *e)
{
	if (strncmp(name, "user.", 5) != 0) return CB_OK;
	CB_TRY(buf_append_byte(context, ' ', e));
	print_name(context, name);
	return buf_printf(context, e, "=%016" PRIx64, hash64(value, size));
}

static cb_code box_row(void *context, const char *path, const cb_stat_info *info, cb_error *e)
{
	rows *r = context;
	const char *relative = path + r->base;
	while (*relative == '/') relative++;
	row one = {.path = strdup(*relative ? relative : "."), .mode = info->mode, .mtime_ns = info->mtime_ns, .ino = info->ino};
	one.type = info->type == CB_DIR ? 'd' : info->type == CB_SYMLINK ? 'l' : 'f';
	one.size = info->size;
	if (one.type == 'l') CB_TRY(cb_readlink(r->b, path, &one.target, NULL, e));
	if (one.type == 'f') {
		char *bytes = NULL;
		size_t size = 0;
		CB_TRY(cb_read_file(r->b, path, &bytes, &size, e));
		one.hash = hash64(bytes, size);
		cb_free(bytes);
	}
	buf xattrs = BUF_INIT(1 << 20);
	CB_TRY(cb_xattr_list(r->b, path, CB_NOFOLLOW, print_xattr, &xattrs, e));
	CB_TRY(buf_take(&xattrs, &one.xattrs, NULL, e));
	return buf_append(&r->list, &one, sizeof(one), e);
}

char *tree_of_box(cb_box *b, const char *path, unsigned flags)
{
	rows r = {BUF_INIT(SIZE_MAX), flags, b, strcmp(path, "/") == 0 ? 0 : strlen(path)};
	CHECK_OK(cb_walk(b, path, box_row, &r, &err));
	return rows_text(&r);
}

/* ---- the host ---- */

static void host_content(int dir, const char *name, row *out)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	CHECK_MSG(fd >= 0 && fstat(fd, &st) == 0, "cannot read '%s'", out->path);
	size_t size = (size_t)st.st_size, done = 0;
	char *bytes = malloc(size + 1);
	while (done < size) {
		ssize_t n = read(fd, bytes + done, size - done);
		CHECK(n > 0);
		done += (size_t)n;
	}
	out->hash = hash64(bytes, size);
	free(bytes);
	(void)close(fd);
}

static int name_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names by their bytes, as a box lists them. */
static void host_xattrs(int dir, const char *name, row *out)
{
	char path[64], list[65536];
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	CHECK(fd >= 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t size = listxattr(path, list, sizeof(list));
	char *names[512];
	size_t count = 0;
	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(list + at) + 1) names[count++] = list + at;
	qsort(names, count, sizeof(names[0]), name_order);
	buf text = BUF_INIT(1 << 20);
	for (size_t i = 0; i < count; i++) {
		static char value[65536];
		ssize_t n = getxattr(path, names[i], value, sizeof(value));
		if (n >= 0) CHECK_OK(print_xattr(&text, names[i], value, (size_t)n, &err));
	}
	CHECK_OK(buf_take(&text, &out->xattrs, NULL, &err));
	(void)close(fd);
}

static void host_row(rows *r, int dir, const char *name, const char *relative, const struct stat *st)
{
	row one = {.path = strdup(relative), .mode = st->st_mode & 07777, .ino = st->st_ino, .size = (uint64_t)st->st_size};
	one.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
	one.type = S_ISDIR(st->st_mode) ? 'd' : S_ISLNK(st->st_mode) ? 'l' : S_ISREG(st->st_mode) ? 'f' : '?';
	if (one.type == 'l') {
		char target[4096];
		ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
		CHECK(n >= 0);
		target[n] = 0;
		one.target = strdup(target);
	}
	if (one.type == 'f') host_content(dir, name, &one);
	if (one.type == 'f' || one.type == 'd') host_xattrs(dir, name, &one);
	CHECK_OK(buf_append(&r->list, &one, sizeof(one), &err));
}

static void host_folder(rows *r, int dir, const char *prefix)
{
	DIR *d = fdopendir(dup(dir));
	CHECK(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		struct stat st;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
		char *path = NULL;
		CHECK(asprintf(&path, "%s%s%s", prefix, *prefix ? "/" : "", e->d_name) > 0);
		CHECK(fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0);
		host_row(r, dir, e->d_name, path, &st);
		int sub = S_ISDIR(st.st_mode) ? openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		if (sub >= 0) host_folder(r, sub, path);
		if (sub >= 0) (void)close(sub);
		free(path);
	}
	(void)closedir(d);
}

char *tree_of_host(const char *folder, unsigned flags)
{
	rows r = {.list = BUF_INIT(SIZE_MAX), .flags = flags};
	struct stat st;
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_MSG(fd >= 0 && fstat(fd, &st) == 0, "no folder '%s'", folder);
	host_row(&r, fd, ".", ".", &st);
	host_folder(&r, fd, "");
	(void)close(fd);
	return rows_text(&r);
}

/* ---- comparing ---- */

void check_same_tree(const char *a, const char *b)
{
	const char *line_a = a, *line_b = b;
	while (*line_a && *line_b) {
		size_t n = strcspn(line_a, "\n"), m = strcspn(line_b, "\n");
		if (n != m || memcmp(line_a, line_b, n) != 0)
			test_fail(__FILE__, __LINE__, "'%.*s' is not '%.*s'", (int)n, line_a, (int)m, line_b);
		line_a += n + 1;
		line_b += m + 1;
	}
	CHECK_MSG(*line_a == *line_b, "only one has '%.*s'", (int)strcspn(*line_a ? line_a : line_b, "\n"),
	          *line_a ? line_a : line_b);
}

void must_run(const char *format, ...)
{
	char *command = NULL;
	va_list args;
	va_start(args, format);
	CHECK(vasprintf(&command, format, args) > 0);
	va_end(args);
	int status = system(command);
	CHECK_MSG(status == 0, "'%s' ended with %d", command, status);
	free(command);
}
