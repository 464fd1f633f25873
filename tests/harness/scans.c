/* scans.c: trees built and scanned by the holder's own code. */
#include "harness/scans.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "harness/harness.h"

enum { SHOWN_BYTES = 40 };

static cb_error err;

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0) (void)close(fd);
	return ok;
}

void scans_enter(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) test_lacks("namespaces", "no user namespaces");
	(void)write_file("/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "0 %u 1", uid);
	if (!write_file("/proc/self/uid_map", map)) test_lacks("namespaces", "no uid can be mapped");
	(void)snprintf(map, sizeof(map), "0 %u 1", gid);
	CHECK(write_file("/proc/self/gid_map", map));
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

void scans_build(int root, const wire_op *ops, size_t count)
{
	builder b;
	builder_init(&b, root);
	for (size_t i = 0; i < count; i++) {
		AUTO_BUF buf packet = BUF_INIT(WIRE_PACKET_BYTES);
		CHECK_OK(wire_op_put(&packet, &ops[i], &err));
		CHECK_OK(builder_feed(&b, buf_span(&packet), &err));
	}
	CHECK_OK(builder_end(&b, &err));
}

/* ---- scanning ---- */

typedef struct listing {
	buf text;
	buf folder; /* where the scan is, with a NUL that size does not count */
	buf last;   /* name of the last entry of each folder on the way, each with its NUL */
	size_t packets;
	bool began, ended;
} listing;

static void add(listing *l, const char *text)
{
	size_t before = l->text.size;
	CHECK_OK(buf_append_str(&l->text, text, &err));
	for (size_t i = before; i < l->text.size; i++)
		if (l->text.bytes[i] < ' ') l->text.bytes[i] = '?';
}

/* An entry is in the folder where the scan is, and after the one before it. */
static void check_order(listing *l, const wire_entry *e)
{
	const char *folder = (const char *)l->folder.bytes;
	CHECK(!l->ended);
	if (!l->began) {
		CHECK(e->type == WIRE_ENTRY_DIR && e->path[0] == 0);
		l->began = true;
		CHECK_OK(buf_append_byte(&l->last, 0, &err));
		return;
	}
	const char *last = (const char *)l->last.bytes + l->last.size - 1;
	while (last > (const char *)l->last.bytes && last[-1] != 0) last--;
	if (e->type == WIRE_ENTRY_LEAVE) {
		CHECK_STR(e->path, folder);
		l->ended = l->folder.size == 0;
		char *slash = strrchr((char *)l->folder.bytes, '/');
		l->folder.size = slash ? (size_t)(slash - folder) : 0;
		l->folder.bytes[l->folder.size] = 0;
		l->last.size = (size_t)(last - (const char *)l->last.bytes);
		return;
	}
	const char *name = strrchr(e->path, '/') ? strrchr(e->path, '/') + 1 : e->path;
	size_t above = name == e->path ? 0 : (size_t)(name - e->path) - 1;
	CHECK(above == l->folder.size && memcmp(e->path, folder, above) == 0);
	CHECK_MSG(strcmp(last, name) < 0, "'%s' after '%s'", name, last);
	l->last.size = (size_t)(last - (const char *)l->last.bytes);
	CHECK_OK(buf_append(&l->last, name, strlen(name) + 1, &err));
	if (e->type != WIRE_ENTRY_DIR) return;
	buf_clear(&l->folder);
	CHECK_OK(buf_append(&l->folder, e->path, strlen(e->path) + 1, &err));
	l->folder.size--;
	CHECK_OK(buf_append_byte(&l->last, 0, &err));
}

static void add_content(listing *l, int fd)
{
	char text[SHOWN_BYTES + 1];
	ssize_t n = pread(fd, text, SHOWN_BYTES, 0);
	CHECK(n >= 0);
	text[n] = 0;
	for (ssize_t i = 0; i < n; i++)
		if (!text[i]) text[i] = '0';
	add(l, " '");
	add(l, text);
	add(l, "'");
}

static void add_xattrs(listing *l, span list)
{
	const char *name;
	span value;
	while (wire_xattr_next(&list, &name, &value)) {
		char text[SHOWN_BYTES + 300];
		int n = value.size < SHOWN_BYTES ? (int)value.size : SHOWN_BYTES;
		(void)snprintf(text, sizeof(text), " %s=%.*s", name, n, (const char *)value.bytes);
		add(l, text);
	}
}

static void add_entry(listing *l, const wire_entry *e, int fd)
{
	static const char letters[] = "?fdlws?u";
	char head[3] = {letters[e->type], ' ', 0}, mode[16];
	if (e->known) add(l, "=");
	add(l, head);
	add(l, e->path);
	(void)snprintf(mode, sizeof(mode), " %o", e->mode);
	if (e->type == WIRE_ENTRY_FILE || e->type == WIRE_ENTRY_DIR) add(l, mode);
	if (e->opaque) add(l, " opaque");
	if (e->cut) add(l, " cut");
	if (fd >= 0) add_content(l, fd);
	if (e->data.size) {
		char text[LIMIT_SYMLINK_TARGET_BYTES + 8];
		(void)snprintf(text, sizeof(text), "%s%.*s", e->type == WIRE_ENTRY_SYMLINK ? " -> " : " ", (int)e->data.size,
		               (const char *)e->data.bytes);
		add(l, text);
	}
	add_xattrs(l, e->xattrs);
	CHECK_OK(buf_append_byte(&l->text, '\n', &err));
}

static cb_code receive(void *context, span body, const int *fds, size_t fd_count, cb_error *e)
{
	listing *l = context;
	(void)e;
	size_t used = 0;
	l->packets++;
	CHECK(body.size > 0 && body.size <= WIRE_PACKET_BYTES && fd_count <= WIRE_FDS);
	for (;;) {
		wire_entry entry;
		bool end;
		CHECK_OK(wire_entry_get(&body, &entry, &end, &err));
		if (end) break;
		check_order(l, &entry);
		if (entry.type == WIRE_ENTRY_FILE) CHECK(entry.has_fd != entry.known);
		int fd = -1;
		if (entry.has_fd) {
			CHECK(used < fd_count);
			fd = fds[used++];
		}
		if (entry.type != WIRE_ENTRY_LEAVE) add_entry(l, &entry, fd);
	}
	CHECK_U64(used, fd_count);
	return CB_OK;
}

char *scans_text(int changes, bool layered, seen *known, wire_scanned *out)
{
	listing l = {BUF_INIT(1 << 30), BUF_INIT(1 << 20), BUF_INIT(1 << 24), 0, false, false};
	scanner s = {.changes = changes, .layered = layered, .known = known, .send = receive, .context = &l};
	wire_scanned totals;
	CHECK_OK(buf_append_byte(&l.folder, 0, &err));
	l.folder.size = 0;
	CHECK_OK(scan_run(&s, &totals, &err));
	CHECK(l.ended);
	if (out) *out = totals;
	char *text;
	CHECK_OK(buf_take(&l.text, &text, NULL, &err));
	buf_done(&l.folder);
	buf_done(&l.last);
	return text;
}

/* On a tmpfs files are never known (scan.c): there they come with their content where they would be known elsewhere. */
static bool fits(int changes, const char *text, const char *expected)
{
	struct statfs fs;
	bool loose = fstatfs(changes, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
	while (*text && *expected) {
		size_t n = strcspn(text, "\n"), m = strcspn(expected, "\n");
		bool same = n == m && memcmp(text, expected, n) == 0;
		if (!same && loose && strncmp(expected, "=f ", 3) == 0 && n >= m - 1)
			same = memcmp(text, expected + 1, m - 1) == 0 && (n == m - 1 || strncmp(text + m - 1, " '", 2) == 0);
		if (!same) return false;
		text += n + (text[n] != 0);
		expected += m + (expected[m] != 0);
	}
	return *text == *expected;
}

void scans_expect(int changes, bool layered, seen *known, bool keep, const char *expected)
{
	seen *own = known;
	if (!known) CHECK_OK(seen_create(&own, &err));
	char *text = scans_text(changes, layered, own, NULL);
	CHECK_MSG(fits(changes, text, expected), "scanned:\n%s# expected:\n%s", text, expected);
	free(text);
	scanner s = {.known = own};
	if (keep) scan_keep(&s);
	if (!known) seen_destroy(own);
}

void scans_tick(void)
{
	(void)usleep(50000);
}
