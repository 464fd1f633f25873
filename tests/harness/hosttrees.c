/* hosttrees.c: trees on the host for tests of transfers. */
#include "harness/hosttrees.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/hash.h"
#include "harness/boxes.h"
#include "host/host.h"

const char *host_text(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, format);
	CHECK(vasprintf(&text, format, args) >= 0);
	va_end(args);
	return test_keep(text);
}

void host_shell(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, format);
	CHECK(vasprintf(&text, format, args) >= 0);
	va_end(args);
	int status = system(test_keep(text));
	CHECK_MSG(status == 0, "%s: status %d", text, status);
}

void host_write(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK_MSG(fd >= 0, "%s: %s", path, strerror(errno));
	CHECK(write(fd, bytes, size) == (ssize_t)size);
	CHECK(close(fd) == 0);
}

/* ---- writing down ---- */

typedef struct dump {
	buf text;
	uint64_t groups[4096]; /* inodes with several names, in the order they are met */
	size_t group_count;
	cb_error err;
} dump;

static void dump_quoted(dump *d, const char *bytes)
{
	for (const char *p = bytes; *p; p++) {
		if (*p > ' ' && *p != '\\' && (unsigned char)*p < 127) CHECK(buf_append_byte(&d->text, (uint8_t)*p, NULL) == CB_OK);
		else CHECK(buf_printf(&d->text, NULL, "\\%02x", (unsigned char)*p) == CB_OK);
	}
}

static size_t group_of(dump *d, uint64_t ino)
{
	for (size_t i = 0; i < d->group_count; i++)
		if (d->groups[i] == ino) return i;
	CHECK(d->group_count < 4096);
	d->groups[d->group_count] = ino;
	return d->group_count++;
}

static void dump_data(dump *d, int fd, uint64_t size)
{
	static uint8_t block[1 << 16];
	uint64_t sum = 0;
	for (uint64_t at = 0; at < size;) {
		uint64_t start = 0, end = 0;
		CHECK(host_data_next(fd, at, size, &start, &end, &d->err) == CB_OK);
		if (size > 65536 && start < size)
			CHECK(buf_printf(&d->text, NULL, " [%llu,%llu)", (unsigned long long)start, (unsigned long long)end) ==
			      CB_OK);
		for (uint64_t p = start; p < end;) {
			ssize_t n = pread(fd, block, end - p < sizeof(block) ? (size_t)(end - p) : sizeof(block), (off_t)p);
			CHECK(n > 0);
			/* Zeros count for nothing and places do, so that a hole and zeros have one sum. */
			for (ssize_t i = 0; i < n; i++)
				if (block[i]) sum += hash_u64((p + (uint64_t)i) * 256 + block[i]);
			p += (uint64_t)n;
		}
		at = end;
	}
	CHECK(buf_printf(&d->text, NULL, " sum %016llx", (unsigned long long)sum) == CB_OK);
}

static cb_code dump_xattr(void *context, const char *name, span value, cb_error *err)
{
	dump *d = context;
	return buf_printf(&d->text, err, " %s=%016llx", name, (unsigned long long)hash64(value.bytes, value.size));
}

static void dump_entry(dump *d, const host_entry *e, const char *path)
{
	const host_stat *s = &e->stat;
	dump_quoted(d, path);
	CHECK(buf_printf(&d->text, NULL, " %s %o %lld", host_type_name(s->type), s->mode, (long long)s->mtime_ns) == CB_OK);
	if (s->type != HOST_DIR && s->links > 1) CHECK(buf_printf(&d->text, NULL, " group %zu", group_of(d, s->ino)) == CB_OK);
	int fd = -1;
	host_stat again;
	if (s->type == HOST_FILE) {
		CHECK(buf_printf(&d->text, NULL, " %llu bytes", (unsigned long long)s->size) == CB_OK);
		CHECK_MSG(host_file_open(e->dir, e->name, &fd, &again, &d->err) == CB_OK, "%s", d->err.message);
		dump_data(d, fd, s->size);
	} else if (s->type == HOST_DIR) {
		fd = dup(e->dir);
	} else {
		AUTO_BUF buf target = BUF_INIT(8192);
		CHECK(host_link_read(e->dir, e->name, &target, &d->err) == CB_OK);
		CHECK(buf_append_byte(&target, 0, NULL) == CB_OK);
		CHECK(buf_append_str(&d->text, " -> ", NULL) == CB_OK);
		dump_quoted(d, (const char *)target.bytes);
	}
	if (fd >= 0) CHECK(host_xattr_list(fd, dump_xattr, d, &d->err) == CB_OK);
	if (fd >= 0) (void)close(fd);
	CHECK(buf_append_byte(&d->text, '\n', NULL) == CB_OK);
}

char *host_dump(const char *folder)
{
	dump *d = test_keep(calloc(1, sizeof(*d)));
	host_root root = {.fd = -1};
	host_walk *w = NULL;
	host_entry e;
	d->text = BUF_INIT(SIZE_MAX);
	CHECK_MSG(host_root_open(folder, &root, &d->err) == CB_OK, "%s", d->err.message);
	CHECK(host_walk_open(&root, &w, &d->err) == CB_OK);
	for (;;) {
		CHECK_MSG(host_walk_next(w, &e, &d->err) == CB_OK, "%s", d->err.message);
		if (e.event != HOST_ENTRY) dump_entry(d, &e, e.path);
		else if (e.stat.type == HOST_DIR) CHECK_MSG(host_walk_enter(w, &e, &d->err) == CB_OK, "%s", d->err.message);
		else if (e.stat.type == HOST_FILE || e.stat.type == HOST_SYMLINK) dump_entry(d, &e, e.path);
		if (e.event == HOST_END) break;
	}
	host_walk_close(w);
	host_root_done(&root);
	char *out = NULL;
	CHECK(buf_take(&d->text, &out, NULL, NULL) == CB_OK);
	return test_keep(out);
}

void host_same(const char *folder_a, const char *folder_b)
{
	const char *a = host_dump(folder_a), *b = host_dump(folder_b);
	while (*a || *b) {
		size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
		if (n != m || memcmp(a, b, n) != 0)
			test_fail(__FILE__, __LINE__, "'%.*s' in %s, '%.*s' in %s", (int)(n < 600 ? n : 600), a, folder_a,
			          (int)(m < 600 ? m : 600), b, folder_b);
		a += n + (a[n] != 0);
		b += m + (b[m] != 0);
	}
}

/* ---- random changes ---- */

static const char *const odd_names[] = {"a",     "b",      "c.txt",     "new\nline", "\xff\xfe", " space ",
                                        "-dash", "\\back", "e\xcc\x81", "..x",       "*",        "a'b\"c"};

/* A random folder of the tree. */
static const char *random_folder(host_tree *t)
{
	const char *at = t->folder;
	for (unsigned depth = (unsigned)test_rand_below(&t->rng, 4); depth > 0; depth--) {
		const char *next = host_text("%s/%s", at, odd_names[test_rand_below(&t->rng, 12)]);
		struct stat s;
		if (lstat(next, &s) != 0) (void)mkdir(next, 0755);
		if (lstat(next, &s) != 0 || !S_ISDIR(s.st_mode)) break;
		at = next;
	}
	return at;
}

static const char *random_place(host_tree *t)
{
	return host_text("%s/%s", random_folder(t), odd_names[test_rand_below(&t->rng, 12)]);
}

static void random_file(host_tree *t, const char *path)
{
	static uint8_t bytes[300000];
	static const size_t sizes[] = {0, 1, 100, 112, 113, 5000, 16384, 70000, 300000};
	struct stat s;
	size_t size = sizes[test_rand_below(&t->rng, 9)];
	if (lstat(path, &s) == 0 && !S_ISREG(s.st_mode)) return;
	for (size_t i = 0; i < size; i += 8) {
		uint64_t r = test_rand(&t->rng);
		memcpy(bytes + i, &r, size - i < 8 ? size - i : 8);
	}
	host_write(path, bytes, size);
}

static void random_write(host_tree *t, const char *path)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
	struct stat s;
	if (fd < 0) return;
	if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode)) {
		uint64_t at = test_rand_below(&t->rng, (uint64_t)s.st_size + 1);
		if (test_rand_below(&t->rng, 4) == 0) at += 5000000; /* a hole before it */
		CHECK(pwrite(fd, "changed", 7, (off_t)at) == 7);
		if (test_rand_below(&t->rng, 4) == 0) CHECK(ftruncate(fd, (off_t)(at / 2)) == 0);
	}
	(void)close(fd);
}

static void random_attributes(host_tree *t, const char *path)
{
	struct stat s;
	if (lstat(path, &s) != 0) return;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {(time_t)test_rand_below(&t->rng, 2000000000), 123456789}};
	(void)utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
	if (S_ISLNK(s.st_mode)) return;
	uint64_t r = test_rand(&t->rng);
	mode_t mode = (mode_t)(t->dull ? (r & 077) | 0700 : r & (S_ISDIR(s.st_mode) ? 01777 : 0777));
	(void)chmod(path, mode);
	if (r % 3 == 0)
		(void)lsetxattr(path, r % 2 ? "user.a" : "user.long", host_text("%0*llu", r % 2 ? 5 : 300, (unsigned long long)r),
		                r % 2 ? 5 : 300, 0);
	if (r % 7 == 0) (void)lremovexattr(path, "user.a");
}

static void change_once(host_tree *t)
{
	const char *path = random_place(t), *other = random_place(t);
	switch (test_rand_below(&t->rng, t->special ? 12 : 11)) {
	case 0:
	case 1:
	case 2:
		random_file(t, path);
		return;
	case 3:
		random_write(t, path);
		return;
	case 4:
		(void)mkdir(path, 0755);
		return;
	case 5:
		if (symlink(test_rand_below(&t->rng, 2) ? "../a" : "no\nwhere", path) != 0) return; /* something is there */
		return;
	case 6:
		if (linkat(AT_FDCWD, path, AT_FDCWD, other, 0) != 0) return;
		return;
	case 7:
	case 8:
		random_attributes(t, path);
		return;
	case 9:
		if (unlink(path) != 0 && test_rand_below(&t->rng, 4) == 0)
			host_shell("rm -rf -- '%s'/*", test_rand_below(&t->rng, 8) ? "/nonexistent" : t->folder);
		(void)rmdir(path);
		return;
	case 10:
		(void)rename(path, other);
		return;
	default:
		(void)mkfifo(path, 0600);
		return;
	}
}

void host_tree_change(host_tree *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++) change_once(t);
}
