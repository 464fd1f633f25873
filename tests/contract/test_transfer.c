/* test_transfer.c: folders of the host into boxes and out again. Whoever made the tree may mean harm. */
#include <cowbox/cowbox.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/hosttrees.h"
#include "host/host.h"

typedef struct notes {
	char text[65536];
	size_t size;
} notes;

static void take_note(void *context, const char *path, const char *what)
{
	notes *n = context;
	n->size += (size_t)snprintf(n->text + n->size, sizeof(n->text) - n->size, "%s: %s\n", path, what);
	CHECK(n->size < sizeof(n->text));
}

static const char *place(const char *name)
{
	return host_text("%s/%s", test_tmpdir(), name);
}

static const char *make_folder(const char *name)
{
	const char *path = place(name);
	CHECK(mkdir(path, 0755) == 0);
	return path;
}

static cb_transfer_count must_import(cb_box *b, const char *folder, const cb_import_options *options)
{
	cb_error err;
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	CHECK_OK(cb_import(b, folder, options, &count, &err));
	return count;
}

static void must_export(cb_box *b, const char *path, const char *target)
{
	cb_error err;
	CHECK_OK(cb_export(b, path, target, NULL, NULL, &err));
}

/* In and out again is the same tree; twice in is no change. */
static void round_trip(bool memory, const char *folder)
{
	cb_error err;
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_transfer_count first = must_import(b, folder, NULL);
	CHECK(first.seq == 1);
	must_export(b, "/work", place("out"));
	host_same(folder, place("out"));
	cb_import_options full = CB_WITH(cb_import_options, .full = true, .remove_missing = true);
	CHECK_U64(must_import(b, folder, &full).seq, 0);
	CHECK_U64(must_import(b, folder, NULL).seq, 0);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(names_that_hurt)
{
	const char *f = make_folder("in");
	static const char *const names[] = {"new\nline", "\xff\xfe\x80", " ",        "-rf",     "*",   "\\",       "'",
	                                    "\"",        "a\tb",         "\x1b[31m", ".hidden", "..x", "e\xcc\x81"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		host_write(host_text("%s/%s", f, names[i]), names[i], strlen(names[i]));
		CHECK(mkdir(host_text("%s/d%s", f, names[i]), 0700) == 0);
		CHECK(symlink(names[i], host_text("%s/d%s/l%s", f, names[i], names[i])) == 0);
	}
	char longest[256];
	memset(longest, 'n', 255);
	longest[255] = 0;
	host_write(host_text("%s/%s", f, longest), "x", 1);
	round_trip(memory, f);
}

/* 1,500 levels of 20 bytes: longer than any path can be given, deeper than descriptors. */
static void make_deep(const char *folder, unsigned levels)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY);
	for (unsigned i = 0; i < levels; i++) {
		CHECK(mkdirat(fd, "deep-deep-deep-deep-", 0755) == 0);
		int next = openat(fd, "deep-deep-deep-deep-", O_RDONLY | O_DIRECTORY);
		int file = openat(fd, "file", O_WRONLY | O_CREAT, 0640);
		CHECK(next >= 0 && file >= 0 && write(file, &i, sizeof(i)) == sizeof(i));
		(void)close(file);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
}

static void deep(bool memory, bool old_kernel)
{
	const char *f = make_folder("in");
	make_deep(f, 1100);
	host_force_openat(old_kernel);
	round_trip(memory, f);
}

TEST_BOTH(deeper_than_paths)
{
	deep(memory, false);
}

TEST(deeper_than_paths_without_openat2)
{
	deep(true, true);
}

TEST(too_deep_is_one_line)
{
	cb_error err;
	const char *f = make_folder("in");
	make_deep(f, 4200);
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_CODE(cb_import(b, f, NULL, NULL, &err), CB_LIMIT);
	CHECK(!strchr(err.message, '\n') && strstr(err.message, "4096"));
	CHECK_U64(must_seq(b), 0);
	cb_box_close(b);
	cb_store_close(s);
}

/* What was brought in can be worked with: restored, compared, removed. */
TEST(deep_trees_can_be_used)
{
	cb_error err;
	uint64_t conflicts = 0;
	const char *f = make_folder("in");
	make_deep(f, test_soak() > 1 ? 1200 : 400); /* names of a deep tree take the square of its depth */
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	(void)must_import(b, f, NULL);
	CHECK_OK(cb_copy(b, "/work", "/copy", 0, &err));
	cb_box *fork = must_fork(s, "demo", "fork");
	CHECK_OK(cb_remove(b, "/work/deep-deep-deep-deep-", &err));
	cb_box *old = must_open(s, "demo@1");
	CHECK_OK(cb_restore(b, old, "/work", NULL, &err));
	(void)must_diff(old, b);
	must_write(fork, "/work/x", "x");
	CHECK_OK(cb_merge(b, fork, NULL, NULL, &conflicts, &err));
	must_export(b, "/work", place("out"));
	test_store_sound(s);
	cb_box_close(old);
	cb_box_close(fork);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(wide)
{
	const char *f = make_folder("in");
	for (int i = 0; i < 10000; i++) host_write(host_text("%s/%d", f, i * 7919 % 10007), &i, sizeof(i));
	round_trip(false, f);
}

TEST_BOTH(links_hard_and_symbolic)
{
	const char *f = make_folder("in");
	host_shell("cd '%s' && mkdir x y z && echo one >x/a && ln x/a y/b && ln x/a z/c && ln x/a top && ln -s loop loop && ln -s "
	           "/etc/passwd out && "
	           "ln -s y back && ln -s nowhere dangling && ln -P dangling again && ln -s ../.. z/up",
	           f);
	round_trip(memory, f);
}

TEST_BOTH(holes)
{
	const char *f = make_folder("in");
	host_shell("cd '%s' && truncate -s 1G all && printf end >>all && truncate -s 1G none && truncate -s 3M middle && "
	           "dd if=/dev/urandom of=middle bs=64K seek=16 count=3 conv=notrunc 2>/dev/null && dd if=/dev/urandom of=dense "
	           "bs=1M count=3 2>/dev/null && "
	           "dd if=/dev/zero of=zeros bs=64K count=4 2>/dev/null && sync",
	           f);
	round_trip(memory, f);
}

TEST_BOTH(modes_times_attributes)
{
	const char *f = make_folder("in");
	host_shell("cd '%s' && mkdir none readonly sticky && touch readonly/f && for m in 000 111 222 444 777 640; do echo $m "
	           ">m$m; chmod $m m$m; done; "
	           "chmod 1777 sticky; touch -h -d @-5.000000001 m777; touch -h -d @0 m640; ln -s x l; touch -h -d '2001-02-03 "
	           "04:05:06.789' l; "
	           "setfattr -n user.x -v y m777 2>/dev/null; setfattr -n user.overlay.opaque -v y sticky 2>/dev/null; chmod 555 "
	           "readonly; "
	           "touch -d @1000000000 readonly; true",
	           f);
	if (geteuid() != 0) host_shell("chmod u+r '%s'/m*", f);
	if (geteuid() == 0) CHECK(chmod(host_text("%s/none", f), 0) == 0);
	host_shell("cd '%s' && (setfattr -x user.overlay.opaque sticky 2>/dev/null; true)", f);
	round_trip(memory, f);
}

TEST(left_out_and_said)
{
	cb_error err;
	const char *f = make_folder("in");
	host_shell("cd '%s' && echo x >suid && chmod 6755 suid && mkdir gid && chmod 2755 gid && mkfifo pipe && echo y >plain && "
	           "chmod 1644 plain",
	           f);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	CHECK(chdir(f) == 0);
	strcpy(a.sun_path, "sock");
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	bool device = geteuid() == 0 && mknod("null", S_IFCHR | 0666, makedev(1, 3)) == 0;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	notes n = {.size = 0};
	cb_import_options options =
		CB_WITH(cb_import_options, .watch = &CB_WITH(cb_transfer_watch, .note = take_note, .context = &n));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_U64(must_import(b, ".", &options).left_out, device ? 3 : 2);
	CHECK(strstr(n.text, "pipe: left out: a FIFO\n"));
	CHECK(strstr(n.text, "sock: left out: a socket\n"));
	CHECK(!device || strstr(n.text, "null: left out: a device\n"));
	CHECK(strstr(n.text, "suid: dropped: setuid setgid\n"));
	CHECK(strstr(n.text, "gid: dropped: setgid\n"));
	CHECK(strstr(n.text, "plain: dropped: sticky\n"));
	CHECK(!exists(b, "/work/pipe") && !exists(b, "/work/sock") && !exists(b, "/work/null"));
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/suid", 0, &info, &err));
	CHECK_U64(info.mode, 0755);
	CHECK_OK(cb_chmod(b, "/work/suid", 04755, 0, &err));
	must_export(b, "/work", place("out"));
	struct stat st;
	CHECK(stat(host_text("%s/out/suid", test_tmpdir()), &st) == 0 && (st.st_mode & 07777) == 0755);
	cb_export_options setid = CB_WITH(cb_export_options, .setid = true);
	CHECK_OK(cb_export(b, "/work", place("out2"), &setid, NULL, &err));
	CHECK(stat(host_text("%s/out2/suid", test_tmpdir()), &st) == 0 && (st.st_mode & 07777) == 04755);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(the_host_wins)
{
	cb_error err;
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/only", "box");
	must_write(b, "/work/file", "box");
	CHECK_OK(cb_mkdir(b, "/work/folder", 0755, 0, &err));
	must_write(b, "/work/folder/x", "x");
	CHECK_OK(cb_symlink(b, "/work/only", "/work/link", &err));
	const char *f = make_folder("in");
	host_shell("cd '%s' && mkdir file link && echo h >file/f && echo h >folder && echo through >link/g", f);
	(void)must_import(b, f, NULL);
	CHECK_STR(must_read(b, "/work/only"), "box");
	CHECK_STR(must_read(b, "/work/file/f"), "h\n");
	CHECK_STR(must_read(b, "/work/folder"), "h\n");
	CHECK_STR(must_read(b, "/work/link/g"), "through\n");
	cb_import_options remove = CB_WITH(cb_import_options, .remove_missing = true);
	CHECK_U64(must_import(b, f, &remove).removed, 1);
	CHECK(!exists(b, "/work/only"));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(must_read(b, "/work/only"), "box");
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(root_of_a_box)
{
	cb_error err;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	notes n = {.size = 0};
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	const char *f = make_folder("in");
	host_shell("cd '%s' && mkdir usr opt && echo x >usr/x && echo y >opt/y && echo z >etc", f);
	cb_import_options options = CB_WITH(cb_import_options, .to = "/", .remove_missing = true,
	                                    .watch = &CB_WITH(cb_transfer_watch, .note = take_note, .context = &n));
	(void)must_import(b, f, &options);
	CHECK(strstr(n.text, "usr: left out") && strstr(n.text, "etc: left out"));
	CHECK_STR(must_read(b, "/opt/y"), "y\n");
	CHECK(exists(b, "/home/agent") && exists(b, "/tmp") && !exists(b, "/work") && !exists(b, "/usr"));
	cb_export_options all = CB_WITH(cb_export_options, .all = true);
	must_write(b, "/tmp/t", "t");
	must_export(b, "/", place("out"));
	CHECK(access(host_text("%s/out/opt/y", test_tmpdir()), F_OK) == 0);
	CHECK(access(host_text("%s/out/tmp", test_tmpdir()), F_OK) != 0 &&
	      access(host_text("%s/out/home", test_tmpdir()), F_OK) != 0);
	CHECK_OK(cb_export(b, "/", place("whole"), &all, NULL, &err));
	CHECK(access(host_text("%s/whole/tmp/t", test_tmpdir()), F_OK) == 0);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- what an import that has been made before does not do ---- */

static uint64_t bytes_read(void)
{
	char text[512];
	FILE *f = fopen("/proc/self/io", "r");
	unsigned long long n = 0;
	if (!f) test_skip("/proc/self/io cannot be read");
	CHECK(fgets(text, sizeof(text), f) && sscanf(text, "rchar: %llu", &n) == 1);
	(void)fclose(f);
	return n;
}

TEST(unchanged_files_are_not_read)
{
	cb_error err;
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	const char *f = make_folder("in");
	for (int i = 0; i < 64; i++) host_shell("head -c 100000 /dev/urandom >'%s/%d'", f, i);
	usleep(50000);
	(void)must_import(b, f, NULL);
	uint64_t before = bytes_read();
	cb_transfer_count again = must_import(b, f, NULL);
	uint64_t without = bytes_read() - before;
	CHECK_U64(again.unchanged, 64);
	CHECK_U64(again.seq, 0);
	CHECK_MSG(without < 1000000, "%" PRIu64 " bytes were read", without);
	/* The box's file is no longer what was imported: the host wins again. */
	must_write(b, "/work/7", "changed in the box");
	CHECK_U64(must_import(b, f, NULL).files, 1);
	/* A cache of nonsense is no cache. */
	host_shell("for c in '%s'/import/*; do head -c 300 /dev/urandom | dd of=$c bs=1 seek=200 conv=notrunc 2>/dev/null; done",
	           test_store_path());
	CHECK_U64(must_import(b, f, NULL).seq, 0);
	host_shell("for c in '%s'/import/*; do truncate -s 777 $c; done", test_store_path());
	CHECK_U64(must_import(b, f, NULL).seq, 0);
	cb_import_options full = CB_WITH(cb_import_options, .full = true);
	before = bytes_read();
	CHECK_U64(must_import(b, f, &full).unchanged, 64);
	CHECK(bytes_read() - before > 6000000);
	cb_box_close(b);
	cb_store_close(s);
}

/* Written again within one tick of the clock, with the same size: as git calls it, racy. */
TEST(changes_right_after_are_seen)
{
	cb_error err;
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	const char *f = make_folder("in"), *path = host_text("%s/x", f);
	for (int i = 0; i < 200; i++) {
		char text[16];
		(void)snprintf(text, sizeof(text), "%03d", i);
		host_write(path, text, 3);
		struct timespec times[2] = {{1, 0}, {1, 0}};
		CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
		(void)must_import(b, f, NULL);
		CHECK_STR(must_read(b, "/work/x"), text);
	}
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- the folder of a box ---- */

TEST(linked_folders)
{
	cb_error err;
	cb_store *s = test_store_open(false);
	cb_box *b = NULL, *c = NULL;
	CHECK_OK(cb_box_create(s, "outer", &b, &err));
	CHECK_OK(cb_box_create(s, "inner", &c, &err));
	const char *f = make_folder("in");
	host_shell("mkdir -p '%s/a/b/c' && echo x >'%s/a/x'", f, f);
	char *host = NULL, *path = NULL, *name = NULL;
	CHECK_CODE(cb_folder_get(b, &host, &path, &err), CB_NOTFOUND);
	CHECK_CODE(cb_folder_box(s, f, &name, &err), CB_NOTFOUND);
	must_write(b, "/work/mine", "mine");
	cb_import_options link = CB_WITH(cb_import_options, .link = true),
			  deeper = CB_WITH(cb_import_options, .link = true, .to = "/work/sub");
	(void)must_import(b, f, &link);
	(void)must_import(c, host_text("%s/a/b", f), &deeper);
	CHECK_OK(cb_folder_get(b, &host, &path, &err));
	CHECK_STR(host, f);
	CHECK_STR(path, "/work");
	cb_free(host);
	cb_free(path);
	CHECK_OK(cb_folder_box(s, host_text("%s/a", f), &name, &err));
	CHECK_STR(name, "outer");
	cb_free(name);
	CHECK_OK(cb_folder_box(s, host_text("%s/a/b/c", f), &name, &err));
	CHECK_STR(name, "inner");
	cb_free(name);
	CHECK_CODE(cb_folder_box(s, test_tmpdir(), &name, &err), CB_NOTFOUND);
	cb_box *t = must_begin(b);
	CHECK_CODE(cb_import(t, f, &link, NULL, &err), CB_INVALID);
	cb_box_close(t);
	test_store_sound(s);
	cb_box_close(b);
	cb_box_close(c);
	cb_store_close(s);
}

TEST_BOTH(part_of_a_transaction)
{
	cb_error err;
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	cb_commit_result result = CB_INIT(cb_commit_result);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	const char *f = make_folder("in");
	host_shell("echo x >'%s/x'", f);
	cb_box *t = must_begin(b);
	must_write(t, "/work/y", "y");
	CHECK_U64(must_import(t, f, NULL).seq, 0);
	CHECK_CODE(cb_import(t, place("nowhere"), NULL, NULL, &err), CB_NOTFOUND);
	must_export(t, "/work", place("out"));
	CHECK(access(host_text("%s/out/x", test_tmpdir()), F_OK) == 0);
	CHECK(!exists(b, "/work/x"));
	result = must_commit(t);
	CHECK_U64(result.seq, 1);
	CHECK_STR(must_read(b, "/work/x"), "x\n");
	CHECK_STR(must_read(b, "/work/y"), "y");
	cb_box_close(b);
	cb_store_close(s);
}

static bool stop_at_once(void *context, const cb_progress *p)
{
	(void)p;
	return --*(int *)context > 0;
}

TEST(interrupted_is_nothing)
{
	cb_error err;
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	const char *f = make_folder("in");
	host_shell("cd '%s' && for i in $(seq 500); do echo $i >$i; done; head -c 30000000 /dev/zero >large", f);
	for (int i = 1; i < 20; i += 6) {
		int left = i;
		cb_import_options options = CB_WITH(
			cb_import_options, .watch = &CB_WITH(cb_transfer_watch, .progress = stop_at_once, .context = &left));
		CHECK_CODE(cb_import(b, f, &options, NULL, &err), CB_INTERRUPTED);
		CHECK_U64(must_seq(b), 0);
	}
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- export ---- */

static bool stop_or_take_the_name(void *context, const cb_progress *p)
{
	(void)p;
	const char *in_the_way = context;
	if (in_the_way) host_shell("mkdir -p '%s' && touch '%s/theirs'", in_the_way, in_the_way);
	return in_the_way != NULL;
}

/* A target that is made has its name at the end; also when it was interrupted; and never takes the place of another. */
TEST(export_names_its_target_last)
{
	cb_error err;
	char path[64];
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	const char *stopped = place("stopped"), *taken = place("taken"), *out = place("fine");
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int i = 0; i < 200; i++) {
		(void)snprintf(path, sizeof(path), "/work/f%d", i);
		must_write(b, path, "text");
	}
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .progress = stop_or_take_the_name);
	cb_export_options options = CB_WITH(cb_export_options, .watch = &watch);
	CHECK_CODE(cb_export(b, "/work", stopped, &options, NULL, &err), CB_INTERRUPTED);
	host_shell("test ! -e '%s' && test -z \"$(ls -d '%s'/.cowbox-tmp-* 2>/dev/null)\"", stopped, test_tmpdir());
	CHECK_OK(cb_chmod(b, "/work", 0555, 0, &err));
	must_export(b, "/work", out);
	host_shell("test $(ls '%s' | wc -l) = 200 && test $(stat -c %%a '%s') = 555", out, out);
	host_shell("test -z \"$(find '%s' -name '.cowbox-tmp-*')\"", test_tmpdir());
	watch.context = (void *)(uintptr_t)taken;
	CHECK_CODE(cb_export(b, "/work", taken, &options, NULL, &err), CB_EXISTS);
	host_shell("test \"$(ls '%s')\" = theirs && test -z \"$(ls -d '%s'/.cowbox-tmp-* 2>/dev/null)\"", taken, test_tmpdir());
	host_shell("chmod -R u+w '%s'", test_tmpdir());
	cb_box_close(b);
	cb_store_close(s);
}

TEST(export_refuses)
{
	cb_error err;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "box");
	cb_write_options parents = CB_WITH(cb_write_options, .parents = true);
	CHECK_OK(cb_write_file(b, "/work/d/g", "g", 1, &parents, &err));
	const char *out = make_folder("out"), *outside = make_folder("outside");
	must_export(b, "/work", out); /* empty is fine */
	CHECK_CODE(cb_export(b, "/work", out, NULL, NULL, &err), CB_EXISTS);
	cb_export_options over = CB_WITH(cb_export_options, .overwrite = true);
	CHECK_OK(cb_export(b, "/work", out, &over, NULL, &err));
	/* A link where a folder belongs is not followed, a link where a file belongs is replaced. */
	host_shell("cd '%s' && rm -r d f && ln -s '%s' d && echo safe >'%s/f' && ln -s '%s/f' f", out, outside, outside, outside);
	CHECK(cb_export(b, "/work", out, &over, NULL, &err) != CB_OK);
	CHECK(access(host_text("%s/g", outside), F_OK) != 0);
	host_shell("rm '%s/d'; test \"$(cat '%s/f')\" = safe", out, outside);
	CHECK_OK(cb_export(b, "/work", out, &over, NULL, &err));
	host_shell("test \"$(cat '%s/f')\" = safe && test \"$(cat '%s/f')\" = box && test ! -L '%s/f'", outside, out, out);
	/* Of another type. */
	host_shell("rm '%s/f' && mkdir '%s/f'", out, out);
	CHECK_CODE(cb_export(b, "/work", out, &over, NULL, &err), CB_ISDIR);
	CHECK(strstr(err.message, "'f'"));
	CHECK_CODE(cb_export(b, "/work/f", out, NULL, NULL, &err), CB_ISDIR);
	CHECK_CODE(cb_export(b, "/work/f", host_text("%s/d/g", out), NULL, NULL, &err), CB_EXISTS);
	CHECK_CODE(cb_export(b, "/work", host_text("%s/d/g", out), NULL, NULL, &err), CB_EXISTS);
	CHECK_CODE(cb_export(b, "/work", place("no/such"), NULL, NULL, &err), CB_NOTFOUND);
	host_shell("test -z \"$(find '%s' -name '.cowbox-tmp-*')\"", out);
	cb_box_close(b);
	cb_store_close(s);
}

/* What the agent made a link at one export it makes a folder at the next. */
TEST(export_follows_no_link_that_it_made)
{
	cb_error err;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	const char *outside = make_folder("outside"), *out = place("out"), *slash = host_text("%s/", out);
	host_shell("echo mine >'%s/f'", outside);
	cb_export_options over = CB_WITH(cb_export_options, .overwrite = true);
	CHECK_OK(cb_symlink(b, outside, "/work/res", &err));
	CHECK_CODE(cb_export(b, "/work/res", slash, &over, NULL, &err), CB_NOTDIR);
	CHECK_OK(cb_export(b, "/work/res", out, &over, NULL, &err));
	CHECK_OK(cb_unlink(b, "/work/res", &err));
	CHECK_OK(cb_mkdir(b, "/work/res", 0755, 0, &err));
	must_write(b, "/work/res/f", "evil");
	CHECK_CODE(cb_export(b, "/work/res", out, &over, NULL, &err), CB_LOOP);
	CHECK(strstr(err.message, "is a symbolic link"));
	host_shell("test \"$(cat '%s/f')\" = mine && rm '%s/f'", outside, outside);
	CHECK_CODE(cb_export(b, "/work/res", out, NULL, NULL, &err), CB_LOOP); /* an empty folder is no way in either */
	host_shell("test -z \"$(ls -A '%s')\" && test -L '%s'", outside, out);
	CHECK_OK(cb_export(b, "/work/res", slash, NULL, NULL, &err)); /* said in so many words */
	host_shell("test -f '%s/f'", outside);
	CHECK_OK(cb_export(b, "/work/res/f", out, &over, NULL, &err)); /* a file takes the link's place */
	host_shell("test -f '%s' && test ! -L '%s'", out, out);
	host_shell("rm '%s' && ln -s nowhere '%s'", out, out);
	CHECK_CODE(cb_export(b, "/work/res", out, &over, NULL, &err), CB_LOOP);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(exclude_on_the_way_out)
{
	cb_error err;
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a.o", "o");
	must_write(b, "/work/a.c", "c");
	const char *const patterns[] = {"*.o"};
	cb_export_options options = CB_WITH(cb_export_options, .exclude = patterns, .exclude_count = 1);
	CHECK_OK(cb_export(b, "/work", place("out"), &options, NULL, &err));
	CHECK(access(host_text("%s/out/a.c", test_tmpdir()), F_OK) == 0 &&
	      access(host_text("%s/out/a.o", test_tmpdir()), F_OK) != 0);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(other_filesystems_are_left_out)
{
	cb_error err;
	const char *f = make_folder("in");
	host_shell("mkdir '%s/m' '%s/d'", f, f);
	if (geteuid() != 0 || system(host_text("unshare -m true 2>/dev/null && mount -t tmpfs none '%s/m' 2>/dev/null", f)) != 0)
		test_lacks("root", "mounting needs root");
	host_write(host_text("%s/m/inside", f), "x", 1);
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	notes n = {.size = 0};
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_import_options options =
		CB_WITH(cb_import_options, .watch = &CB_WITH(cb_transfer_watch, .note = take_note, .context = &n));
	cb_code code = cb_import(b, f, &options, NULL, &err);
	host_force_openat(true);
	cb_code old = cb_import(b, f, &options, NULL, NULL);
	host_shell("umount '%s/m'", f);
	CHECK(code == CB_OK && old == CB_OK);
	CHECK(strstr(n.text, "m: left out: on another filesystem"));
	CHECK(!exists(b, "/work/m") && exists(b, "/work/d"));
	cb_box_close(b);
	cb_store_close(s);
}
