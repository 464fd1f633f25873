/*
 * test_slot.c: a slot's folders mounted as one root: what a program does there, and what the scan of the upper says of it.
 *
 * Everything runs in a user and mount namespace of the test's own, with the area as its working folder, as in the holder.
 */
#include "harness/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "harness/scans.h"
#include "host/host.h"

static cb_error err;

#define LAYERS(text, n) ((wire_strings){text, sizeof(text), n})
static const wire_strings none = {"", 0, 0};

static int area(void)
{
	CHECK(chdir(test_tmpdir()) == 0 && mkdir("area", 0700) == 0 && chdir("area") == 0);
	int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scans_enter();
	return before; /* of the mount namespace outside, as the caller hands it over */
}

static slot open_as(int at, wire_mode mode, const char *name, wire_strings layers)
{
	slot s;
	wire_work work = {.mode = mode, .name = name, .layers = layers};
	cb_code code = slot_open(&s, at, &work, &err);
	static bool worked; /* once it did, a refusal is our own fault */
	if (code == CB_UNSUPPORTED && !worked) test_lacks("overlay", "no overlayfs in a user namespace");
	CHECK_MSG(code == CB_OK, "%s", err.message);
	worked = worked || mode != WIRE_PLAIN;
	return s;
}

static void write_at(int root, const char *path, const char *text, int flags)
{
	int fd = openat(root, path, O_WRONLY | flags, 0644);
	CHECK_MSG(fd >= 0, "%s: %s", path, strerror(errno));
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* A layer "low": f ("lower"), g, h and i (links of one file), d/{x,y}, e/z, l -> f. */
static void lower_make(int at)
{
	slot s = open_as(at, WIRE_PLAIN, "first", none);
	SCANS_BUILD(s.root, OP_FILE("f", "lower"), OP_FILE("g", "gg"), OP_FILE("h", "hard"),
	            {.type = WIRE_OP_LINK, .path = "i", .data = {(const uint8_t *)"h", 1}}, OP_DIR("d"), OP_FILE("d/x", "x"),
	            OP_FILE("d/y", "y"), OP_DIR("e"), OP_FILE("e/z", "z"),
	            {.type = WIRE_OP_SYMLINK, .path = "l", .data = {(const uint8_t *)"f", 1}});
	CHECK_OK(slot_seal(&s, "low", &err));
	CHECK(s.folder == -1 && access("low/tree/d/x", F_OK) == 0 && access("first/tree", F_OK) != 0);
}

static slot stack(void)
{
	int at = area();
	lower_make(at);
	return open_as(at, WIRE_STACK, "s", LAYERS("low", 1));
}

/* ---- the table: one row each ---- */

static void create(int r)
{
	write_at(r, "n", "new", O_CREAT);
}
static void modify(int r)
{
	write_at(r, "f", "LOWER", 0);
}
static void append(int r)
{
	write_at(r, "f", "!", O_APPEND);
}
static void truncate_it(int r)
{
	write_at(r, "f", "", O_TRUNC);
}
static void change_mode(int r)
{
	CHECK(fchmodat(r, "f", 0600, 0) == 0);
}
static void change_time(int r)
{
	CHECK(utimensat(r, "f", NULL, 0) == 0);
}
static void open_only(int r)
{
	write_at(r, "f", "", 0);
}
static void set_attribute(int r)
{
	int fd = openat(r, "f", O_RDONLY);
	CHECK(fsetxattr(fd, "user.a", "1", 1, 0) == 0 && close(fd) == 0);
}
static void remove_file(int r)
{
	CHECK(unlinkat(r, "f", 0) == 0 && unlinkat(r, "l", 0) == 0);
}
static void remove_folder(int r)
{
	CHECK(unlinkat(r, "d/x", 0) == 0 && unlinkat(r, "d/y", 0) == 0 && unlinkat(r, "d", AT_REMOVEDIR) == 0);
}
static void folder_anew(int r)
{
	remove_folder(r);
	CHECK(mkdirat(r, "d", 0755) == 0);
	write_at(r, "d/x", "again", O_CREAT);
}
static void file_to_folder(int r)
{
	CHECK(unlinkat(r, "f", 0) == 0 && mkdirat(r, "f", 0755) == 0);
}
static void folder_to_file(int r)
{
	remove_folder(r);
	write_at(r, "d", "file", O_CREAT);
}
static void rename_file(int r)
{
	CHECK(renameat(r, "f", r, "d/moved") == 0);
}
static void rename_over(int r)
{
	CHECK(renameat(r, "f", r, "g") == 0);
}
static void rename_lower_folder(int r)
{
	CHECK(renameat(r, "d", r, "moved") != 0 && errno == EXDEV);
}
static void rename_new_folder(int r)
{
	CHECK(mkdirat(r, "n", 0755) == 0);
	write_at(r, "n/f", "1", O_CREAT);
	CHECK(renameat(r, "n", r, "m") == 0);
}
static void come_and_go(int r)
{
	write_at(r, "n", "new", O_CREAT);
	CHECK(unlinkat(r, "n", 0) == 0);
}
static void write_a_link(int r)
{
	write_at(r, "h", "HARD", 0);
}
static void link_lower(int r)
{
	CHECK(linkat(r, "f", r, "n", 0) == 0);
}
static void chmod_folder(int r)
{
	CHECK(fchmodat(r, "d", 0700, 0) == 0);
}
static void replace_link(int r)
{
	CHECK(unlinkat(r, "l", 0) == 0 && symlinkat("g", r, "l") == 0);
}
static void own_names(int r)
{
	CHECK(mkdirat(r, "n", 0755) == 0);
	int fd = openat(r, "n", O_RDONLY);
	/* Older kernels refuse it. */
	if (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) != 0)
		CHECK(errno == EOPNOTSUPP && fsetxattr(fd, "user.x", "y", 1, 0) == 0);
	CHECK(close(fd) == 0);
	write_at(r, ".wh.f", "no whiteout", O_CREAT);
}
static void special(int r)
{
	CHECK(mkfifoat(r, "p", 0600) == 0 && unlinkat(r, "f", 0) == 0 && mkfifoat(r, "f", 0600) == 0);
}
static void nothing(int r)
{
	(void)r;
}

static const struct row {
	void (*act)(int root);
	const char *name, *expected;
} rows[] = {
	{nothing, "nothing", ""},
	{create, "create", "f n 644 'new'\n"},
	{modify, "modify", "f f 644 'LOWER'\n"},
	{append, "append", "f f 644 'lower!'\n"},
	{truncate_it, "truncate", "f f 644 ''\n"},
	{change_mode, "chmod", "f f 600 'lower'\n"},
	{change_time, "touch", "f f 644 'lower'\n"},
	{open_only, "open for writing", "f f 644 'lower'\n"},
	{set_attribute, "attribute", "f f 644 'lower' user.a=1\n"},
	{remove_file, "remove", "w f\nw l\n"},
	{remove_folder, "remove folder", "w d\n"},
	{folder_anew, "folder anew", "d d 755 opaque\nf d/x 644 'again'\n"},
	{file_to_folder, "file to folder", "d f 755 opaque\n"},
	{folder_to_file, "folder to file", "f d 644 'file'\n"},
	{rename_file, "rename", "d d 755\nf d/moved 644 'lower'\nw f\n"},
	{rename_over, "rename over", "w f\nf g 644 'lower'\n"},
	{rename_lower_folder, "rename lower folder", ""},
	{rename_new_folder, "rename new folder", "d m 755 opaque\nf m/f 644 '1'\n"},
	{come_and_go, "come and go", ""},
	{write_a_link, "write a link", "f h 644 'HARD'\n"},
	{link_lower, "link lower", "f f 644 'lower'\nf n 644 'lower'\n"},
	{chmod_folder, "chmod folder", "d d 700\n"},
	{replace_link, "replace link", "l l -> g\n"},
	{own_names, "overlay's own names", NULL},
	{special, "special files", "s f a FIFO\ns p a FIFO\n"},
};

TEST(every_change)
{
	int at = area();
	lower_make(at);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		slot s;
		wire_work work = {.mode = WIRE_STACK, .name = "s", .layers = LAYERS("low", 1), .wipe = true};
		CHECK_OK(slot_open(&s, at, &work, &err));
		rows[i].act(s.root);
		char expected[400];
		(void)snprintf(expected, sizeof(expected), "d  755\n%s", rows[i].expected ? rows[i].expected : "");
		seen *known;
		CHECK_OK(seen_create(&known, &err));
		char *text = scans_text(s.changes, true, known, NULL);
		if (rows[i].expected)
			CHECK_MSG(strcmp(text, expected) == 0, "%s:\n%s# expected:\n%s", rows[i].name, text, expected);
		else
			CHECK_MSG(!strcmp(text, "d  755\nf .wh.f 644 'no whiteout'\nd n 755 cut\n") ||
			                  !strcmp(text, "d  755\nf .wh.f 644 'no whiteout'\nd n 755 user.x=y\n"),
			          "%s", text);
		free(text);
		seen_destroy(known);
		CHECK_OK(slot_close(&s, &err));
	}
	/* The other name of a file that was written has its old data. */
	CHECK(access("low/tree/i", F_OK) == 0);
}

/* overlayfs renames no folder of a lower layer. */
TEST_LIMIT(removes_what_is_deep_in_a_layer, 300) /* some disks take milliseconds for each folder */
{
	int area_fd = area();
	lower_make(area_fd);
	int low = openat(area_fd, "low/tree", O_RDONLY | O_DIRECTORY), way = dup(low);
	for (int i = 0; i < LIMIT_HOST_DEPTH + 10; i++) {
		CHECK(mkdirat(way, i ? "in" : "deep", 0755) == 0);
		int next = openat(way, i ? "in" : "deep", O_RDONLY | O_DIRECTORY);
		CHECK(next >= 0 && close(way) == 0);
		way = next;
	}
	CHECK(close(way) == 0 && close(low) == 0);
	slot s = open_as(area_fd, WIRE_STACK, "s", LAYERS("low", 1));
	CHECK(faccessat(s.root, "deep/in", F_OK, 0) == 0);
	CHECK_OK(area_remove(s.root, "deep", &err));
	CHECK(faccessat(s.root, "deep", F_OK, 0) != 0);
	scans_expect(s.changes, true, s.seen, true, "d  755\nw deep\n");
	CHECK_OK(slot_close(&s, &err));
	CHECK_OK(area_remove(area_fd, "low", &err));
}

TEST(known_over_a_close)
{
	slot s = stack();
	int at = s.area;
	create(s.root);
	remove_file(s.root);
	chmod_folder(s.root);
	scans_tick();
	scans_expect(s.changes, true, s.seen, true, "d  755\nd d 700\nw f\nw l\nf n 644 'new'\n");
	CHECK_OK(slot_close(&s, &err));
	s = open_as(at, WIRE_STACK, "s", LAYERS("low", 1));
	CHECK(faccessat(s.root, "f", F_OK, 0) != 0 && faccessat(s.root, "n", F_OK, 0) == 0);
	const char known[] = "=d  755\n=d d 700\n=w f\n=w l\n=f n 644\n";
	scans_expect(s.changes, true, s.seen, true, known);
	/* One more whiteout is another link of the same file. */
	CHECK(unlinkat(s.root, "g", 0) == 0);
	scans_expect(s.changes, true, s.seen, true, "d  755\n=d d 700\n=w f\nw g\n=w l\n=f n 644\n");
	CHECK_OK(slot_close(&s, &err));
	CHECK(access("s/upper/n", F_OK) == 0);
}

TEST(a_crash_leaves_a_slot_that_opens)
{
	slot s = stack();
	int at = s.area;
	(void)fflush(NULL);
	CHECK_OK(slot_close(&s, &err));
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			if (unshare(CLONE_NEWNS) != 0) _exit(1);
			slot dying = open_as(at, WIRE_STACK, "s", LAYERS("low", 1));
			char name[16];
			(void)snprintf(name, sizeof(name), "n%d", i);
			write_at(dying.root, name, "x", O_CREAT);
			_exit(0); /* still mounted */
		}
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	s = open_as(at, WIRE_STACK, "s", LAYERS("low", 1));
	scans_expect(s.changes, true, s.seen, true, "d  755\nf n0 644 'x'\nf n1 644 'x'\nf n2 644 'x'\n");
	CHECK_OK(slot_close(&s, &err));
	/* One work folder is there, not four. */
	DIR *d = opendir("s");
	int work = 0;
	for (const struct dirent *e; (e = readdir(d));) work += strncmp(e->d_name, "work.", 5) == 0;
	CHECK(closedir(d) == 0 && work == 1);
	CHECK_OK(area_remove(at, "s", &err));
	CHECK(access("s", F_OK) != 0);
}

TEST(seal_and_go_on)
{
	slot s = stack();
	int at = s.area;
	create(s.root);
	remove_file(s.root);
	folder_anew(s.root);
	CHECK_OK(slot_seal(&s, "second", &err));
	CHECK(access("second/tree/n", F_OK) == 0 && access("s/upper", F_OK) != 0);
	s = open_as(at, WIRE_STACK, "s", LAYERS("second\0low", 2));
	scans_expect(s.changes, true, s.seen, false, "d  755\n");
	CHECK(faccessat(s.root, "f", F_OK, 0) != 0 && faccessat(s.root, "d/y", F_OK, 0) != 0);
	write_at(s.root, "n", "NEW", 0);
	CHECK(unlinkat(s.root, "d/x", 0) == 0);
	scans_expect(s.changes, true, s.seen, false, "d  755\nd d 755\nw d/x\nf n 644 'NEW'\n");
	CHECK_CODE(slot_seal(&s, "low", &err), CB_EXISTS);
	CHECK_OK(slot_close(&s, &err));
}

TEST(wipe)
{
	slot s = stack();
	int at = s.area;
	create(s.root);
	scans_tick();
	free(scans_text(s.changes, true, s.seen, NULL));
	scanner scan = {.known = s.seen};
	scan_keep(&scan);
	CHECK_OK(slot_wipe(&s, &err));
	CHECK(access("s/upper", F_OK) != 0 && access("s/seen", F_OK) != 0);
	s = open_as(at, WIRE_STACK, "s", LAYERS("low", 1));
	scans_expect(s.changes, true, s.seen, false, "d  755\n");
	CHECK_OK(slot_close(&s, &err));
}

TEST(throwaway_over_a_tree)
{
	int at = area();
	slot plain = open_as(at, WIRE_PLAIN, "p", none);
	SCANS_BUILD(plain.root, OP_FILE("f", "plain"));
	CHECK_OK(slot_close(&plain, &err));
	for (int i = 0; i < 2; i++) {
		slot s = open_as(at, WIRE_THROWAWAY, "t", LAYERS("p", 1));
		scans_expect(s.changes, true, s.seen, true, "d  755\n");
		write_at(s.root, "f", "PLAIN", 0);
		scans_expect(s.changes, true, s.seen, true, "d  755\nf f 644 'PLAIN'\n");
		CHECK_OK(slot_close(&s, &err));
		CHECK(access("t/upper", F_OK) != 0 && access("t/seen", F_OK) != 0);
	}
	plain = open_as(at, WIRE_PLAIN, "p", none);
	scans_expect(plain.changes, false, NULL, false, "d  755\nf f 644 'plain'\n");
	CHECK_OK(slot_close(&plain, &err));
}

/* A difference is built through the mount, with what the layers have. */
TEST(build_through_the_mount)
{
	slot s = stack();
	static const char overlay[] = "user.overlay.mine\0\1\0\0\0v";
	SCANS_BUILD(s.root, {.type = WIRE_OP_REMOVE, .path = "d"}, OP_FILE("d", "was a folder"),
	            {.type = WIRE_OP_REMOVE, .path = "gone"}, {.type = WIRE_OP_REMOVE, .path = "f"}, OP_DIR("e"),
	            OP_FILE("e/new", "n"), OP_FILE("g", "G"), {.type = WIRE_OP_ATTRS, .path = "h", .mode = 0600},
	            {.type = WIRE_OP_DIR, .path = "o", .mode = 0755, .xattrs = {(const uint8_t *)overlay, sizeof(overlay) - 1}},
	            {.type = WIRE_OP_LINK, .path = "k", .data = {(const uint8_t *)"g", 1}},
	            {.type = WIRE_OP_SYMLINK, .path = "l", .data = {(const uint8_t *)"k", 1}});
	char *text = scans_text(s.changes, true, s.seen, NULL);
	char *cut = strstr(text, " cut");
	if (cut)
		memmove(cut, cut + 4,
		        strlen(cut + 4) + 1); /* the attribute, which is left out; kernels before 6.7 cannot have it */
	CHECK_MSG(
		!strcmp(text,
	                "d  755\nf d 644 'was a folder'\nd e 755\nf e/new 644 'n'\nw f\nf g 644 'G'\nf h 600 'hard'\nf k 644 'G'\n"
	                "l l -> k\nd o 755\n"),
		"%s", text);
	free(text);
	CHECK_OK(slot_close(&s, &err));
}

TEST(busy_while_somebody_is_inside)
{
	slot s = stack();
	int inside = openat(s.root, "d", O_RDONLY | O_DIRECTORY);
	CHECK(inside >= 0);
	CHECK_CODE(slot_seal(&s, "second", &err), CB_BUSY);
	CHECK(close(inside) == 0);
	CHECK_OK(slot_seal(&s, "second", &err));
}

TEST(refused)
{
	int at = area();
	slot s;
	lower_make(at);
	wire_work missing = {.mode = WIRE_STACK, .name = "s", .layers = LAYERS("low\0nowhere", 2)};
	CHECK_CODE(slot_open(&s, at, &missing, &err), CB_NOTFOUND);
	CHECK(s.folder == -1 && !s.mounted);
	wire_work comma = {.mode = WIRE_STACK, .name = "s", .layers = LAYERS("low,upperdir=x", 1)};
	CHECK_CODE(slot_open(&s, at, &comma, &err), CB_INVALID);
	wire_work colon = {.mode = WIRE_STACK, .name = "a:b", .layers = none};
	CHECK_CODE(slot_open(&s, at, &colon, &err), CB_INVALID);
	CHECK(symlink("low", "link") == 0);
	wire_work link = {.mode = WIRE_PLAIN, .name = "link", .layers = none};
	CHECK_CODE(slot_open(&s, at, &link, &err), CB_LOOP);
	buf many = BUF_INIT(1 << 20);
	for (int i = 0; i < 600; i++) CHECK_OK(buf_append(&many, "low", 4, &err));
	wire_work full = {.mode = WIRE_STACK, .name = "s", .layers = {(char *)many.bytes, many.size, 600}};
	CHECK_CODE(slot_open(&s, at, &full, &err), CB_LIMIT);
	buf_done(&many);
	slot good = open_as(at, WIRE_STACK, "s", LAYERS("low", 1));
	CHECK_OK(slot_close(&good, &err));
}

TEST(without_layers)
{
	slot s = open_as(area(), WIRE_STACK, "s", none);
	create(s.root);
	scans_expect(s.changes, true, s.seen, false, "d  755\nf n 644 'new'\n");
	CHECK_OK(slot_close(&s, &err));
}

/* Layers sealed in memory are there for the next one. */
TEST(in_memory)
{
	int at = area();
	slot s;
	wire_work work = {.mode = WIRE_STACK, .name = "s", .layers = none, .memory = true, .memory_bytes = 4 << 20};
	cb_code code = slot_open(&s, at, &work, &err);
	if (code == CB_UNSUPPORTED) test_lacks("xattr", "no attributes on tmpfs");
	CHECK_MSG(code == CB_OK, "%s", err.message);
	create(s.root);
	write_at(s.root, "f", "memory", O_CREAT);
	CHECK_OK(slot_seal(&s, "low", &err));
	work.layers = LAYERS("low", 1);
	CHECK_OK(slot_open(&s, at, &work, &err));
	CHECK(unlinkat(s.root, "n", 0) == 0 && mkdirat(s.root, "n", 0755) == 0);
	scans_expect(s.changes, true, s.seen, true, "d  755\nd n 755 opaque\n");
	/* Its size holds. */
	int fd = openat(s.root, "big", O_CREAT | O_WRONLY, 0644);
	static char block[1 << 20];
	ssize_t n = 1;
	for (int i = 0; i < 8 && n > 0; i++) n = write(fd, block, sizeof(block));
	CHECK((n < 0 && errno == ENOSPC) || n < (ssize_t)sizeof(block));
	CHECK(close(fd) == 0);
	CHECK_OK(slot_close(&s, &err));
	CHECK(faccessat(at, "s/upper", F_OK, 0) != 0 && faccessat(at, "low", F_OK, 0) != 0); /* nothing on the disk */
}

TEST(plain_in_memory)
{
	int at = area();
	slot s;
	wire_work work = {.mode = WIRE_PLAIN, .name = "s", .layers = none, .memory = true, .memory_bytes = 4 << 20};
	CHECK_OK(slot_open(&s, at, &work, &err));
	create(s.root);
	scans_expect(s.changes, false, s.seen, true, "d  755\nf n 644 'new'\n");
	CHECK_OK(slot_close(&s, &err));
}

/* ---- random trees ---- */

static void random_ops(test_rng *r, buf *packet, unsigned count)
{
	static const char names[] = "abcd";
	for (unsigned i = 0; i < count; i++) {
		char path[16], other[16];
		size_t depth = 1 + test_rand_below(r, 3), size = 0;
		for (size_t k = 0; k < depth; k++) {
			if (k) path[size++] = '/';
			path[size++] = names[test_rand_below(r, 4)];
		}
		path[size] = 0;
		(void)snprintf(other, sizeof(other), "%c", names[test_rand_below(r, 4)]);
		wire_op op = {.path = path,
		              .mode = 0700 | (uint32_t)test_rand_below(r, 64),
		              .mtime_ns = (int64_t)test_rand_below(r, 1u << 31)};
		static const wire_op_type types[] = {WIRE_OP_REMOVE, WIRE_OP_DIR,  WIRE_OP_DIR,
		                                     WIRE_OP_FILE,   WIRE_OP_FILE, WIRE_OP_SYMLINK};
		op.type = types[test_rand_below(r, ARRAY_LEN(types))];
		char text[32];
		(void)snprintf(text, sizeof(text), "text %u", i);
		if (op.type == WIRE_OP_SYMLINK) op.data = span_str(text);
		op.size = op.type == WIRE_OP_FILE ? strlen(text) : 0;
		CHECK_OK(wire_op_put(packet, &op, &err));
		if (op.type == WIRE_OP_FILE)
			CHECK_OK(wire_op_put(packet, &(wire_op){.type = WIRE_OP_DATA, .data = span_str(text)}, &err));
	}
}

/* Each op by itself: some have no folder to be in, which is an error and changes nothing. */
static void feed_each(int root, span ops)
{
	builder b;
	builder_init(&b, root);
	bool skip = false;
	for (;;) {
		wire_op op;
		bool end;
		AUTO_BUF buf one = BUF_INIT(1 << 16);
		CHECK_OK(wire_op_get(&ops, &op, &end, &err));
		if (end) break;
		if (op.type == WIRE_OP_DATA && skip) continue;
		CHECK_OK(wire_op_put(&one, &op, &err));
		cb_code code = builder_feed(&b, buf_span(&one), &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTFOUND || code == CB_NOTDIR || code == CB_LOOP, "%s", err.message);
		skip = code != CB_OK;
	}
	CHECK_OK(builder_end(&b, &err));
}

static char *merged_text(int root)
{
	seen *known;
	CHECK_OK(seen_create(&known, &err));
	char *text = scans_text(root, false, known, NULL);
	seen_destroy(known);
	return text;
}

/* The same ops give the same root in a plain tree and through layers that are sealed on the way. */
TEST(random_trees)
{
	int at = area();
	test_rng r = {test_seed()};
	for (unsigned round = 0; round < test_dose(10); round++) {
		slot plain, s;
		char layers[128];
		size_t size = 0, count = 0;
		wire_work work = {.mode = WIRE_PLAIN, .name = "p", .layers = none, .wipe = true};
		CHECK_OK(slot_open(&plain, at, &work, &err));
		for (unsigned part = 0; part < 4; part++) {
			AUTO_BUF buf packet = BUF_INIT(1 << 20);
			work = (wire_work){.mode = WIRE_STACK, .name = "s", .layers = {layers, size, count}, .wipe = part == 0};
			CHECK_OK(slot_open(&s, at, &work, &err));
			random_ops(&r, &packet, 60);
			feed_each(plain.root, buf_span(&packet));
			feed_each(s.root, buf_span(&packet));
			char *a = merged_text(plain.root), *b = merged_text(s.root);
			CHECK_MSG(!strcmp(a, b), "plain:\n%s# stack:\n%s", a, b);
			free(a);
			free(b);
			char name[16];
			(void)snprintf(name, sizeof(name), "L%u", part);
			CHECK_OK(area_remove(at, name, &err));
			CHECK_OK(slot_seal(&s, name, &err));
			memmove(layers + 3, layers, size);
			memcpy(layers, name, 3);
			size += 3;
			count++;
		}
		CHECK_OK(slot_close(&plain, &err));
	}
}
