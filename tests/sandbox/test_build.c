/* test_build.c: trees made by the holder: what was asked for is there, and nothing outside is touched. */
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "harness/scans.h"
#include "host/host.h"

static cb_error err;

static int tree(void)
{
	int fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0 && mkdirat(fd, "tree", 0755) == 0);
	int root = openat(fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(root >= 0 && close(fd) == 0);
	return root;
}

static cb_code try_op(int root, wire_op op)
{
	builder b;
	AUTO_BUF buf packet = BUF_INIT(WIRE_PACKET_BYTES);
	builder_init(&b, root);
	CHECK_OK(wire_op_put(&packet, &op, &err));
	cb_code code = builder_feed(&b, buf_span(&packet), &err);
	cb_code end = builder_end(&b, code == CB_OK ? &err : NULL);
	return code == CB_OK ? end : code;
}

TEST(everything)
{
	int root = tree();
	static const char x[] = "user.a\0\1\0\0\0v";
	SCANS_BUILD(root, {.type = WIRE_OP_DIR, .path = "d", .mode = 01777, .xattrs = {(const uint8_t *)x, sizeof(x) - 1}},
	            OP_FILE("d/f", "hello"),
	            {.type = WIRE_OP_SYMLINK, .path = "d/l", .data = {(const uint8_t *)"../../x", 7}, .mtime_ns = -7},
	            {.type = WIRE_OP_LINK, .path = "h", .data = {(const uint8_t *)"d/f", 3}}, OP_FILE("d/\n", ""),
	            {.type = WIRE_OP_FILE, .path = "x", .mode = 0100, .xattrs = {(const uint8_t *)x, sizeof(x) - 1}},
	            {.type = WIRE_OP_DIR_TIMES, .path = "d", .mtime_ns = 7000000009, .atime_ns = 8});
	scans_expect(root, false, NULL, false,
	             "d  755\nd d 1777 user.a=v\nf d/? 644 ''\nf d/f 644 'hello'\nl d/l -> ../../x\nf h 644 'hello'\nf x 100 '' "
	             "user.a=v\n");
	host_stat s, other;
	CHECK_OK(host_stat_at(root, "h", &s, &err));
	CHECK(s.links == 2 && s.mtime_ns == 5000000001 && s.atime_ns == 1);
	CHECK_OK(host_stat_at(root, "d", &s, &err));
	CHECK(s.mtime_ns == 7000000009);
	int d = openat(root, "d", O_RDONLY | O_DIRECTORY);
	CHECK_OK(host_stat_at(d, "l", &other, &err));
	CHECK(other.mtime_ns == -7);
}

TEST(holes)
{
	int root = tree();
	SCANS_BUILD(root, {.type = WIRE_OP_FILE, .path = "s", .mode = 0600, .size = 1 << 30},
	            {.type = WIRE_OP_DATA, .path = "s", .offset = 1 << 20, .data = {(const uint8_t *)"x", 1}},
	            {.type = WIRE_OP_FILE, .path = "e", .mode = 0600, .size = 100 << 20});
	host_stat s;
	CHECK_OK(host_stat_at(root, "s", &s, &err));
	CHECK(s.size == 1 << 30 && s.allocated_bytes <= 1 << 17);
	CHECK_OK(host_stat_at(root, "e", &s, &err));
	CHECK(s.size == 100 << 20 && s.allocated_bytes == 0);
	CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_DATA, .data = span_str("x")}), CB_CORRUPT);
	builder b;
	AUTO_BUF buf packet = BUF_INIT(WIRE_PACKET_BYTES);
	builder_init(&b, root);
	CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_FILE, .path = "p", .size = 3}, &err));
	CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_DATA, .offset = 2, .data = span_str("ab")}, &err));
	CHECK_CODE(builder_feed(&b, buf_span(&packet), &err), CB_CORRUPT);
	CHECK_OK(builder_end(&b, &err));
}

/* What is there goes, of whatever kind, and a folder with all that is in it. */
TEST(replaces)
{
	int root = tree();
	const wire_op makes[] = {OP_FILE("n", "old"),
	                         {.type = WIRE_OP_SYMLINK, .path = "n", .data = {(const uint8_t *)"/etc/passwd", 11}},
	                         OP_DIR("n"),
	                         {.type = WIRE_OP_LINK, .path = "n", .data = {(const uint8_t *)"other", 5}}};
	const size_t starts[] = {0, 2, 3, 4}, counts[] = {2, 1, 1, 1};
	const char *lines[] = {"f n 644 'old'\n", "l n -> /etc/passwd\n", "d n 755\n", "f n 644 'o'\n"};
	SCANS_BUILD(root, OP_FILE("other", "o"));
	for (size_t before = 0; before < 4; before++) {
		for (size_t after = 0; after < 4; after++) {
			SCANS_BUILD(root, {.type = WIRE_OP_REMOVE, .path = "n"});
			scans_build(root, makes + starts[before], counts[before]);
			if (before == 2 && after != 2) SCANS_BUILD(root, OP_DIR("n/d"), OP_FILE("n/d/f", "x"));
			scans_build(root, makes + starts[after], counts[after]);
			char expected[200];
			(void)snprintf(expected, sizeof(expected), "d  755\n%sf other 644 'o'\n", lines[after]);
			scans_expect(root, false, NULL, false, expected);
		}
	}
	/* A link to a file that was replaced keeps its own data. */
	SCANS_BUILD(root, {.type = WIRE_OP_LINK, .path = "n", .data = {(const uint8_t *)"other", 5}}, OP_FILE("other", "new"));
	scans_expect(root, false, NULL, false, "d  755\nf n 644 'o'\nf other 644 'new'\n");
}

TEST(special_files_in_the_way)
{
	int root = tree();
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "socket"};
	CHECK(fchdir(root) == 0);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(bind(s, (struct sockaddr *)&a, sizeof(a)) == 0 && mkfifoat(root, "fifo", 0600) == 0 &&
	      mkfifoat(root, "fifo2", 0600) == 0);
	SCANS_BUILD(root, OP_FILE("fifo", "1"), OP_DIR("fifo2"), OP_FILE("socket", "2"));
	scans_expect(root, false, NULL, false, "d  755\nf fifo 644 '1'\nd fifo2 755\nf socket 644 '2'\n");
	CHECK(mkfifoat(root, "f", 0600) == 0);
	CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_ATTRS, .path = "f", .mode = 0600}), CB_INVALID);
}

/* A link that the box planted is never followed. */
TEST(links_are_not_followed)
{
	int root = tree();
	CHECK(mkdirat(root, "../out", 0755) == 0 && symlinkat("../out", root, "way") == 0 && symlinkat("way", root, "way2") == 0);
	CHECK(mkdirat(root, "d", 0755) == 0 && symlinkat("../../out", root, "d/way") == 0);
	int secret = openat(root, "../out/secret", O_CREAT | O_WRONLY, 0644);
	CHECK(secret >= 0 && symlinkat("../out/secret", root, "file") == 0);
	const char *paths[] = {"way/x", "way2/x", "d/way/x"};
	for (size_t i = 0; i < 3; i++) {
		CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_FILE, .path = paths[i]}), CB_LOOP);
		CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_DIR, .path = paths[i]}), CB_LOOP);
		CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_DIR_TIMES, .path = paths[i]}), CB_LOOP);
		CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_LINK, .path = "n", .data = span_str(paths[i])}), CB_LOOP);
		CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_REMOVE, .path = paths[i]}), CB_OK);
	}
	CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_ATTRS, .path = "file", .mode = 0777}), CB_LOOP);
	CHECK_OK(try_op(root, (wire_op){.type = WIRE_OP_LINK, .path = "hard", .data = span_str("file")}));
	struct stat st;
	CHECK(fstat(secret, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 0777) == 0644);
	CHECK(fstatat(root, "../out", &st, 0) == 0 && st.st_nlink == 2);
	/* A file made where the link is takes its place. */
	SCANS_BUILD(root, OP_FILE("file", "mine"), OP_DIR("way"), OP_FILE("way/x", "y"));
	CHECK(fstat(secret, &st) == 0 && st.st_size == 0);
	CHECK(faccessat(root, "../out/x", F_OK, 0) != 0);
}

TEST(system_names_are_refused)
{
	int root = tree();
	const char *paths[] = {"usr", "usr/x", "etc/passwd", "proc", "dev/null", "bin"};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		for (wire_op_type t = WIRE_OP_REMOVE; t <= WIRE_OP_ATTRS; t++) {
			if (t == WIRE_OP_DATA) continue;
			wire_op op = {.type = t, .path = paths[i]};
			if (t == WIRE_OP_SYMLINK || t == WIRE_OP_LINK) op.data = span_str("x");
			CHECK_CODE(try_op(root, op), CB_RESERVED);
		}
	CHECK_CODE(try_op(root, (wire_op){.type = WIRE_OP_LINK, .path = "a", .data = span_str("usr/x")}), CB_RESERVED);
	SCANS_BUILD(root, OP_DIR("usr2"), OP_DIR("a"), OP_FILE("a/usr", "fine"));
}

TEST(attributes_exactly)
{
	int root = tree();
	static const char two[] = "user.b\0\2\0\0\0ww";
	SCANS_BUILD(root, OP_FILE("f", "x"), OP_DIR("d"));
	int f = openat(root, "f", O_RDONLY), d = openat(root, "d", O_RDONLY);
	CHECK(fsetxattr(f, "user.a", "1", 1, 0) == 0 && fsetxattr(d, "user.c", "1", 1, 0) == 0);
	SCANS_BUILD(root,
	            {.type = WIRE_OP_ATTRS,
	             .path = "f",
	             .mode = 0751,
	             .mtime_ns = 3,
	             .xattrs = {(const uint8_t *)two, sizeof(two) - 1}},
	            {.type = WIRE_OP_DIR, .path = "d", .mode = 0700, .xattrs = {(const uint8_t *)two, sizeof(two) - 1}});
	scans_expect(root, false, NULL, false, "d  755\nd d 700 user.b=ww\nf f 751 'x' user.b=ww\n");
	SCANS_BUILD(root, {.type = WIRE_OP_ATTRS, .path = "d", .mode = 01711}, {.type = WIRE_OP_ATTRS, .path = "f", .mode = 0});
	CHECK(fchmod(f, 0400) == 0);
	scans_expect(root, false, NULL, false, "d  755\nd d 1711\nf f 400 'x'\n");
	/* In a plain tree a name of overlayfs would mean something to the kernel, once it is a layer. */
	static const char opaque[] = "user.overlay.opaque\0\1\0\0\0y";
	SCANS_BUILD(root,
	            {.type = WIRE_OP_DIR, .path = "o", .mode = 0755, .xattrs = {(const uint8_t *)opaque, sizeof(opaque) - 1}});
	char value[4];
	int o = openat(root, "o", O_RDONLY);
	CHECK(fgetxattr(o, "user.overlay.opaque", value, sizeof(value)) < 0 && errno == ENODATA);
}

/* Folders that their owner may not change get their content first. */
TEST(closed_folders)
{
	int root = tree();
	SCANS_BUILD(root, {.type = WIRE_OP_DIR, .path = "a", .mode = 0}, {.type = WIRE_OP_DIR, .path = "a/b", .mode = 0555},
	            OP_FILE("a/b/f", "x"), {.type = WIRE_OP_DIR_TIMES, .path = "a/b", .mtime_ns = 9},
	            {.type = WIRE_OP_DIR_TIMES, .path = "a", .mtime_ns = 9}, {.type = WIRE_OP_FILE, .path = "none", .mode = 0},
	            OP_DIR("c"), {.type = WIRE_OP_REMOVE, .path = "c"});
	scans_expect(root, false, NULL, false, "d  755\nd a 0\nd a/b 555\nf a/b/f 644 'x'\nf none 0 ''\n");
	CHECK_OK(area_remove(root, "a", &err));
	scans_expect(root, false, NULL, false, "d  755\nf none 0 ''\n");
}

TEST(closed_folders_in_a_namespace)
{
	scans_enter();
	int root = tree();
	SCANS_BUILD(root, {.type = WIRE_OP_DIR, .path = "a", .mode = 0}, {.type = WIRE_OP_DIR, .path = "a/b", .mode = 0555});
	SCANS_BUILD(root, OP_FILE("a/b/f", "x"), {.type = WIRE_OP_FILE, .path = "a/none", .mode = 0});
	scans_expect(root, false, NULL, false, "d  755\nd a 0\nd a/b 555\nf a/b/f 644 'x'\nf a/none 0 ''\n");
	CHECK_OK(area_remove(root, "a", &err));
}

/* As the weak sandbox's holder: an ordinary user without a namespace. */
TEST(closed_folders_of_an_ordinary_user)
{
	int root = tree();
	if (geteuid() == 0) {
		CHECK(chmod(test_tmpdir(), 0711) == 0 && fchown(root, 12345, 12345) == 0);
		CHECK(setgid(12345) == 0 && setuid(12345) == 0);
	}
	SCANS_BUILD(root, {.type = WIRE_OP_DIR, .path = "a", .mode = 0}, {.type = WIRE_OP_DIR, .path = "a/b", .mode = 0444},
	            OP_FILE("a/b/f", "x"), {.type = WIRE_OP_FILE, .path = "a/none", .mode = 0, .size = 1});
	const char expected[] = "d  755\nd a 0\nd a/b 444\nf a/b/f 644 'x'\nf a/none 0 '0'\n";
	scans_expect(root, false, NULL, false, expected);
	scans_expect(root, false, NULL, false, expected); /* modes are as they were */
	SCANS_BUILD(root, {.type = WIRE_OP_FILE, .path = "c", .mode = 0});
	SCANS_BUILD(root, {.type = WIRE_OP_ATTRS, .path = "c", .mode = 0111, .xattrs = {(const uint8_t *)"user.a\0\1\0\0\0v", 12}},
	            {.type = WIRE_OP_ATTRS, .path = "a", .mode = 0});
	SCANS_BUILD(root, {.type = WIRE_OP_REMOVE, .path = "a"});
	scans_expect(root, false, NULL, false, "d  755\nf c 111 '' user.a=v\n");
	CHECK_OK(area_remove(root, "c", &err));
	CHECK_OK(area_remove(root, "a", &err));
	scans_expect(root, false, NULL, false, "d  755\n");
}

TEST(deep)
{
	int root = tree();
	char *path = malloc(30000);
	AUTO_BUF buf packet = BUF_INIT(1 << 30);
	CHECK(path);
	size_t size = 0;
	for (int i = 0; i < 3000; i++) {
		size += (size_t)sprintf(path + size, "%s%d", i ? "/" : "", i % 10);
		CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_DIR, .path = path, .mode = 0755}, &err));
	}
	char file[30010];
	(void)sprintf(file, "%s/f", path);
	CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_FILE, .path = file, .mode = 0644}, &err));
	for (int i = 3000; i > 0; i--) {
		CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_DIR_TIMES, .path = path, .mtime_ns = 5}, &err));
		if (i > 1) *strrchr(path, '/') = 0;
	}
	builder b;
	builder_init(&b, root);
	CHECK_OK(builder_feed(&b, buf_span(&packet), &err));
	CHECK_OK(builder_end(&b, &err));
	seen *known;
	wire_scanned totals;
	CHECK_OK(seen_create(&known, &err));
	free(scans_text(root, false, known, &totals));
	CHECK_U64(totals.entries, 3002);
	SCANS_BUILD(root, {.type = WIRE_OP_REMOVE, .path = "0"});
	scans_expect(root, false, known, false, "d  755\n");
	seen_destroy(known);
	free(path);
}

/* The end frees everything, whatever happened before. */
TEST(end_after_an_error)
{
	int root = tree();
	builder b;
	builder_init(&b, root);
	AUTO_BUF buf packet = BUF_INIT(WIRE_PACKET_BYTES);
	CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_FILE, .path = "a", .size = 5}, &err));
	CHECK_OK(builder_feed(&b, buf_span(&packet), &err));
	CHECK_CODE(builder_feed(&b, span_str("junk"), &err), CB_CORRUPT);
	CHECK_OK(builder_end(&b, &err));
	CHECK(b.file == -1 && !b.state);
	for (long n = 1; n < 8; n++) {
		builder_init(&b, root);
		mem_fail_after(n);
		(void)builder_feed(&b, buf_span(&packet), &err);
		mem_fail_after(0);
		CHECK_OK(builder_end(&b, &err));
	}
}
