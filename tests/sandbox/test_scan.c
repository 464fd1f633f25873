/* test_scan.c: what a tree holds and what changed in it since the last look. */
#include "harness/harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "harness/scans.h"
#include "holder/tree.h"
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

static void write_at(int root, const char *path, const char *text)
{
	int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static seen *fresh(void)
{
	seen *s;
	CHECK_OK(seen_create(&s, &err));
	return s;
}

static size_t open_count(void)
{
	size_t count = 0;
	DIR *d = opendir("/proc/self/fd");
	CHECK(d);
	while (readdir(d)) count++;
	CHECK(closedir(d) == 0);
	return count;
}

TEST(known_at_the_second_look)
{
	int root = tree();
	seen *known = fresh();
	SCANS_BUILD(root, OP_FILE("a", "1"), OP_DIR("d"), OP_FILE("d/b", "2"),
	            {.type = WIRE_OP_SYMLINK, .path = "l", .data = {(const uint8_t *)"t", 1}});
	CHECK(mkfifoat(root, "p", 0600) == 0);
	scans_tick();
	const char all[] = "d  755\nf a 644 '1'\nd d 755\nf d/b 644 '2'\nl l -> t\ns p a FIFO\n";
	scans_expect(root, false, known, false, all);
	scans_expect(root, false, known, true, all); /* that look was not kept */
	scans_expect(root, false, known, true, "=d  755\n=f a 644\n=d d 755\n=f d/b 644\n=l l\n=s p a FIFO\n");
	write_at(root, "d/b", "3");
	scans_expect(root, false, known, true, "=d  755\n=f a 644\n=d d 755\nf d/b 644 '3'\n=l l\n=s p a FIFO\n");
	CHECK(unlinkat(root, "p", 0) == 0 && fchmodat(root, "a", 0600, 0) == 0);
	scans_tick();
	scans_expect(root, false, known, true, "d  755\nf a 600 '1'\n=d d 755\nf d/b 644 '3'\n=l l\n");
	scans_expect(root, false, known, true, "=d  755\n=f a 600\n=d d 755\n=f d/b 644\n=l l\n");
	seen_destroy(known);
}

/* What is as young as the clock's tick may change again without its times showing it. */
TEST(young_entries_stay_unknown)
{
	int root = tree();
	seen *known = fresh();
	for (int i = 0; i < 50; i++) {
		char text[32], line[64];
		(void)snprintf(text, sizeof(text), "round %02d", i);
		write_at(root, "a", text);
		char *got = scans_text(root, false, known, NULL);
		(void)snprintf(line, sizeof(line), "\nf a 644 '%s'\n", text);
		CHECK_MSG(strstr(got, line), "%s", got);
		free(got);
		scanner s = {.known = known};
		scan_keep(&s);
	}
	seen_destroy(known);
}

/* The same with the clock in the test's hand: newer kernels count finer than their ticks. */
TEST(ticks)
{
	seen *s = fresh();
	const int64_t now = 1000000000000, ms = 1000000;
	const int64_t ages[] = {-1000 * ms, 0, 10 * ms, 19 * ms, 21 * ms, 1000 * ms};
	for (int look = 0; look < 2; look++) {
		seen_begin(s, now);
		for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
			char path[8] = {(char)('a' + i), 0};
			seen_entry e = {.ino = i, .ctime_ns = now - ages[i]};
			bool known;
			CHECK_OK(seen_add(s, span_str(path), &e, &known, &err));
			CHECK(known == (look == 1 && ages[i] > 20 * ms));
		}
		seen_keep(s);
	}
	seen_destroy(s);
}

TEST(every_kind_of_change_is_seen)
{
	int root = tree();
	seen *known = fresh();
	SCANS_BUILD(root, OP_FILE("a", "12345678"), OP_FILE("b", "12345678"), OP_DIR("d"), OP_FILE("d/x", "x"), OP_DIR("e"),
	            OP_FILE("e/x", "y"), OP_FILE("t", "123"));
	scans_tick();
	free(scans_text(root, false, known, NULL));
	scanner s = {.known = known};
	scan_keep(&s);
	struct stat st;
	CHECK(fstatat(root, "a", &st, 0) == 0);
	/* The same size, and the old times put back. */
	write_at(root, "a", "abcdefgh");
	struct timespec times[2] = {st.st_atim, st.st_mtim};
	CHECK(utimensat(root, "a", times, 0) == 0);
	/* Through a mapping. */
	int b = openat(root, "b", O_RDWR);
	char *map = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, b, 0);
	CHECK(map != MAP_FAILED && map[1] == '2');
	memcpy(map, "mapping!", 8);
	CHECK(munmap(map, 8) == 0 && close(b) == 0);
	/* Two folders change places: what is in them did not change. */
	CHECK(renameat2(root, "d", root, "e", RENAME_EXCHANGE) == 0);
	int t = openat(root, "t", O_RDONLY);
	CHECK(fsetxattr(t, "user.x", "1", 1, 0) == 0);
	scans_expect(root, false, known, true,
	             "d  755\nf a 644 'abcdefgh'\nf b 644 'mapping!'\nd d 755\nf d/x 644 'y'\nd e 755\nf e/x 644 'x'\nf t 644 "
	             "'123' user.x=1\n");
	seen_destroy(known);
}

TEST(saved_and_loaded)
{
	int root = tree(), folder = open(test_tmpdir(), O_RDONLY | O_DIRECTORY);
	SCANS_BUILD(root, OP_FILE("a", "1"), OP_DIR("d"), OP_FILE("d/b", "2"));
	scans_tick();
	const char known_all[] = "=d  755\n=f a 644\n=d d 755\n=f d/b 644\n",
		   all[] = "d  755\nf a 644 '1'\nd d 755\nf d/b 644 '2'\n";
	seen *s = fresh();
	CHECK_OK(seen_load(s, folder, &err));
	scans_expect(root, false, s, true, all);
	CHECK_OK(seen_save(s, folder, &err));
	seen_destroy(s);
	s = fresh();
	CHECK_OK(seen_load(s, folder, &err));
	scans_expect(root, false, s, true, known_all);
	CHECK(faccessat(folder, "seen", F_OK, 0) == 0); /* nothing new: it still agrees */
	CHECK(fchmodat(root, "d", 0700, 0) == 0);
	scans_tick();
	free(scans_text(root, false, s, NULL));
	CHECK(faccessat(folder, "seen", F_OK, 0) != 0); /* the caller may commit this look and die */
	CHECK_OK(seen_save(s, folder, &err));
	CHECK(faccessat(folder, "seen", F_OK, 0) != 0);
	scanner scan = {.known = s};
	scan_keep(&scan);
	CHECK_OK(seen_save(s, folder, &err));
	seen_destroy(s);
	/* Damaged anywhere, it is as if it were not there. */
	int fd = openat(folder, "seen", O_RDWR);
	struct stat st;
	CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 100);
	for (off_t at = 0; at <= st.st_size; at++) {
		uint8_t byte = 0, other;
		bool cut = at == st.st_size;
		if (cut) {
			CHECK(ftruncate(fd, st.st_size - 1) == 0);
		} else {
			CHECK(pread(fd, &byte, 1, at) == 1);
			other = (uint8_t)(byte ^ 0x10);
			CHECK(pwrite(fd, &other, 1, at) == 1);
		}
		s = fresh();
		CHECK_OK(seen_load(s, folder, &err));
		char *text = scans_text(root, false, s, NULL);
		CHECK(!strchr(text, '='));
		free(text);
		seen_destroy(s);
		if (!cut) CHECK(pwrite(fd, &byte, 1, at) == 1);
	}
}

TEST(look_without_sending)
{
	int root = tree();
	seen *known = fresh();
	SCANS_BUILD(root, OP_FILE("a", "1"), OP_DIR("d"));
	scans_tick();
	scanner s = {.changes = root, .known = known};
	CHECK_OK(scan_look(&s, &err));
	scans_expect(root, false, known, true, "=d  755\n=f a 644\n=d d 755\n");
	seen_destroy(known);
}

TEST(system_names_are_left_out)
{
	int root = tree();
	const char *names[] = {"usr", "etc", "proc", "dev", "bin", "var", "run"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) CHECK(mkdirat(root, names[i], 0755) == 0);
	write_at(root, "usr/x", "hidden");
	CHECK(mkdirat(root, "a", 0755) == 0 && mkdirat(root, "a/usr", 0755) == 0);
	scans_expect(root, false, NULL, false, "d  755\nd a 755\nd a/usr 755\nu usr the name belongs to the sandbox\n");
}

/* Names, kinds and modes are the box's choice. */
TEST(hostile_tree)
{
	scans_enter();
	int root = tree();
	char name[256], expected[4000];
	memset(name, 'n', 255);
	name[255] = 0;
	CHECK(fchdir(root) == 0);
	write_at(root, name, "long");
	write_at(root, ".wh.x", "not a whiteout");
	write_at(root, "new\nline", "n");
	write_at(root, "\xff\xfe", "bytes");
	write_at(root, "secret", "000");
	CHECK(fchmodat(root, "secret", 0, 0) == 0);
	CHECK(mkdirat(root, "closed", 0755) == 0);
	write_at(root, "closed/in", "x");
	CHECK(fchmodat(root, "closed", 0, 0) == 0);
	CHECK(symlinkat("loop", root, "loop") == 0 && symlinkat("/etc/passwd", root, "out") == 0 &&
	      symlinkat("..", root, "up") == 0);
	CHECK(mkfifoat(root, "fifo", 0600) == 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "sock"};
	CHECK(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(mknodat(root, "white", S_IFCHR, 0) == 0);
	int d = openat(root, "closed", O_RDONLY);
	CHECK(fsetxattr(d, "user.overlay.opaque", "y", 1, 0) == 0 && fsetxattr(d, "user.overlay.overlay.x", "1", 1, 0) == 0);
	(void)snprintf(expected, sizeof(expected),
	               "d  755\nf .wh.x 644 'not a whiteout'\nd closed 0 cut\nf closed/in 644 'x'\ns fifo a FIFO\nl loop -> loop\n"
	               "f new?line 644 'n'\nf %s 644 'long'\nl out -> /etc/passwd\nf secret 0 '000'\ns sock a socket\nl up -> ..\n"
	               "s white a device\nf \xff\xfe 644 'bytes'\n",
	               name);
	scans_expect(root, false, NULL, false, expected);
	(void)snprintf(expected, sizeof(expected),
	               "d  755\nf .wh.x 644 'not a whiteout'\nd closed 0 opaque cut\nf closed/in 644 'x'\ns fifo a "
	               "FIFO\nl loop -> loop\n"
	               "f new?line 644 'n'\nf %s 644 'long'\nl out -> /etc/passwd\nf secret 0 '000'\ns sock a socket\nl up -> ..\n"
	               "w white\nf \xff\xfe 644 'bytes'\n",
	               name);
	scans_expect(root, true, NULL, false, expected);
}

/* A folder deeper than a path can be said is told, and so is everything else. */
TEST(too_deep)
{
	int root = tree();
	char name[201];
	memset(name, 'd', 200);
	name[200] = 0;
	int at = dup(root);
	for (int i = 0; i < 400; i++) {
		CHECK(mkdirat(at, name, 0755) == 0);
		int next = openat(at, name, O_RDONLY | O_DIRECTORY);
		CHECK(next >= 0 && close(at) == 0);
		at = next;
	}
	write_at(root, "z", "seen");
	seen *known = fresh();
	char *text = scans_text(root, false, known, NULL);
	CHECK(strstr(text, "\nf z 644 'seen'\n") && strstr(text, " a folder that is too deep\n"));
	free(text);
	seen_destroy(known);
	CHECK_OK(area_remove(root, name, &err));
	scans_expect(root, false, NULL, false, "d  755\nf z 644 'seen'\n");
}

/* Folders called name, one in the other, a mode of 000 on each; in some of them, and in the last, there is more. */
static void make_deep(int root, int levels, const char *name)
{
	int at = dup(root);
	for (int i = 0; i < levels; i++) {
		CHECK(mkdirat(at, i == 0 ? "top" : name, 0755) == 0);
		int next = openat(at, i == 0 ? "top" : name, O_RDONLY | O_DIRECTORY);
		CHECK(next >= 0 && fchmod(at, 0) == 0 && close(at) == 0);
		at = next;
		if (i % 500 != 0 && i != levels - 1) continue;
		write_at(at, "f", "x");
		for (int k = 0; k < 20; k++) {
			char other[16];
			(void)snprintf(other, sizeof(other), "e%d", k);
			CHECK(mkdirat(at, other, 0755) == 0);
			int in = openat(at, other, O_RDONLY | O_DIRECTORY);
			CHECK(in >= 0 && mkdirat(in, "x", 0) == 0 && mkdirat(in, "y", 0) == 0 && fchmod(in, 0) == 0 &&
			      close(in) == 0);
		}
	}
	CHECK(fchmod(root, 0755) == 0 && close(at) == 0);
}

/* More levels than a walk takes, or a longer path. */
TEST(removes_what_is_deeper_than_a_walk)
{
	char name[256];
	memset(name, 'd', 255);
	name[255] = 0;
	int top = tree();
	CHECK(mkdirat(top, "mnt", 0755) == 0 && fchdir(top) == 0);
	scans_enter();
	CHECK(mount("tmpfs", "mnt", "tmpfs", 0, "mode=0755") == 0); /* some disks take milliseconds for each folder */
	int root = open("mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int k = 0; k < 2; k++) {
		make_deep(root, k ? 2300 : 6000, k ? name : "d");
		seen *known = fresh();
		char *text = scans_text(root, false, known, NULL);
		CHECK(strstr(text, "a folder that is too deep"));
		free(text);
		seen_destroy(known);
		CHECK_OK(area_remove(root, "top", &err));
		scans_expect(root, false, NULL, false, "d  755\n");
	}
	CHECK_OK(area_remove(root, "top", &err)); /* nothing there is fine */
}

TEST(attributes_too_large_for_a_packet)
{
	int root = tree();
	CHECK(mkdirat(root, "mnt", 0755) == 0 && fchdir(root) == 0);
	scans_enter();
	CHECK(mount("tmpfs", "mnt", "tmpfs", 0, "size=16m,mode=0755") == 0);
	int mnt = open("mnt", O_RDONLY | O_DIRECTORY), f = open("mnt/f", O_RDWR | O_CREAT, 0644);
	static char value[65536];
	memset(value, 'v', sizeof(value));
	if (fsetxattr(f, "user.b", value, sizeof(value), 0) != 0) test_lacks("xattr", "no attributes on tmpfs");
	CHECK(fsetxattr(f, "user.a", "1", 1, 0) == 0 && fsetxattr(f, "user.c", value, 20000, 0) == 0);
	seen *known = fresh();
	wire_scanned totals;
	char *text = scans_text(mnt, false, known, &totals);
	CHECK(strstr(text, " user.a=1 user.c=vvv") && !strstr(text, "user.b="));
	CHECK_U64(totals.xattrs_left_out, 1);
	free(text);
	seen_destroy(known);
}

/* On a tmpfs a write through a mapping that was read first leaves the times as they are. */
TEST(mapped_files_of_a_tmpfs)
{
	int root = tree();
	CHECK(mkdirat(root, "mnt", 0755) == 0 && fchdir(root) == 0);
	scans_enter();
	CHECK(mount("tmpfs", "mnt", "tmpfs", 0, "size=16m,mode=0755") == 0);
	int mnt = open("mnt", O_RDONLY | O_DIRECTORY), f = open("mnt/f", O_RDWR | O_CREAT, 0644);
	CHECK(write(f, "12345678", 8) == 8);
	scans_tick();
	seen *known = fresh();
	free(scans_text(mnt, false, known, NULL));
	scanner s = {.known = known};
	scan_keep(&s);
	char *map = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	CHECK(map != MAP_FAILED && map[0] == '1');
	memcpy(map, "mapping!", 8);
	CHECK(munmap(map, 8) == 0);
	scans_expect(mnt, false, known, true, "=d  755\nf f 644 'mapping!'\n");
	seen_destroy(known);
}

TEST(many_entries_with_few_descriptors)
{
	int root = tree();
	struct rlimit files = {100, 100};
	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	AUTO_BUF buf packet = BUF_INIT(1 << 30);
	for (int i = 0; i < 200; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "d%03d", i);
		CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_DIR, .path = path, .mode = 0755}, &err));
		for (int j = 0; j < 100; j++) {
			(void)snprintf(path, sizeof(path), "d%03d/f%02d", i, j);
			CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_FILE, .path = path, .mode = 0644}, &err));
		}
	}
	builder b;
	builder_init(&b, root);
	CHECK_OK(builder_feed(&b, buf_span(&packet), &err));
	CHECK_OK(builder_end(&b, &err));
	scans_tick();
	seen *known = fresh();
	wire_scanned totals;
	free(scans_text(root, false, known, &totals));
	CHECK(totals.entries == 20201 && totals.sent == 20201);
	scanner s = {.known = known};
	scan_keep(&s);
	free(scans_text(root, false, known, &totals));
	CHECK(totals.entries == 20201 && totals.sent == 0);
	seen_destroy(known);
}

static cb_code refuse(void *context, span body, const int *fds, size_t fd_count, cb_error *e)
{
	(void)body, (void)fds, (void)fd_count;
	return --*(int *)context < 0 ? cb_err_set(e, CB_IO, "the other side is gone") : CB_OK;
}

/* A scan that failed is not kept, whatever it saw. */
TEST(failures)
{
	int root = tree();
	AUTO_BUF buf packet = BUF_INIT(1 << 20);
	builder b;
	for (int i = 0; i < 300; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "f%03d", i);
		CHECK_OK(wire_op_put(&packet, &(wire_op){.type = WIRE_OP_FILE, .path = path, .mode = 0644}, &err));
	}
	builder_init(&b, root);
	CHECK_OK(builder_feed(&b, buf_span(&packet), &err));
	CHECK_OK(builder_end(&b, &err));
	scans_tick();
	seen *known = fresh();
	wire_scanned totals;
	int left = 5;
	size_t before = open_count();
	scanner s = {.changes = root, .known = known, .send = refuse, .context = &left};
	CHECK_CODE(scan_run(&s, &totals, &err), CB_IO);
	for (long n = 1; n < 30; n++) {
		mem_fail_after(n);
		left = 1000;
		cb_code code = scan_run(&s, &totals, &err);
		mem_fail_after(0);
		CHECK(code == CB_OK || code == CB_NOMEM);
	}
	CHECK_U64(open_count(), before);
	free(scans_text(root, false, known, &totals));
	CHECK_U64(totals.sent, totals.entries);
	seen_destroy(known);
}
