/* test_tar.c: tar streams in and out of boxes, against GNU tar and Python's tarfile. */
#include <cowbox/cowbox.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/attr.h"
#include "harness/boxes.h"
#include "harness/tree_text.h"

static cb_store *s;
static cb_box *b;
static cb_error err;
static char notes[4096];
static char made[4096]; /* a folder of the host */

static void take_note(void *context, const char *path, const char *what)
{
	(void)context;
	size_t n = strlen(notes);
	(void)snprintf(notes + n, sizeof(notes) - n, "%s: %s\n", path, what);
}

static void begin(void)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	(void)snprintf(made, sizeof(made), "%s/made", test_tmpdir());
	CHECK(mkdir(made, 0755) == 0);
	notes[0] = 0;
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static int open_or_fail(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	CHECK_MSG(fd >= 0, "cannot open '%s'", path);
	return fd;
}

static const char *place(const char *name)
{
	char *path = NULL;
	CHECK(asprintf(&path, "%s/%s", test_tmpdir(), name) > 0);
	return test_keep(path);
}

static cb_transfer_count import_file(const char *name, const char *to)
{
	cb_tar_options o = CB_WITH(cb_tar_options, .to = to, .watch = &CB_WITH(cb_transfer_watch, .note = take_note));
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	int fd = open_or_fail(place(name), O_RDONLY);
	CHECK_OK(cb_tar_import(b, fd, &o, &count, &err));
	(void)close(fd);
	return count;
}

static void export_to(const char *path, const char *name)
{
	int fd = open_or_fail(place(name), O_WRONLY | O_CREAT | O_TRUNC);
	CHECK_OK(cb_tar_export(b, path, fd, NULL, NULL, &err));
	(void)close(fd);
}

static bool has_user_xattrs(const char *folder)
{
	bool yes = setxattr(folder, "user.probe", "1", 1, 0) == 0;
	(void)removexattr(folder, "user.probe");
	return yes;
}

/* What an archive may hold. Names up to what v7 can say when `plain`. */
static void make_tree(bool plain)
{
	must_run("cd '%s' && mkdir -p src/deep/er empty && printf 'hello\\n' >src/a.txt && printf '' >none && printf 'run\\n' "
	         ">run.sh"
	         " && chmod 755 run.sh && chmod 600 none && ln -s ../run.sh src/link && ln -s nowhere dangling && ln src/a.txt hard"
	         " && ln hard src/deep/er/hard2 && head -c 3000000 /dev/urandom >big && chmod 700 src/deep && chmod 1777 empty",
	         made);
	if (!plain) {
		must_run("cd '%s' && printf x >\"$(printf 'new\\nline')\" && printf y >\"$(printf 'bad\\377utf8')\""
		         " && long=$(printf '%%0120d' 7) && mkdir -p $long/$long && printf z >$long/$long/$long && ln -s "
		         "$long/$long l-$long"
		         " && ln $long/$long/$long hard-$long",
		         made);
		if (has_user_xattrs(made))
			must_run("cd '%s' && python3 -c 'import os; os.setxattr(\"big\", \"user.a=b%%c\", bytes(range(256)));"
			         "os.setxattr(\"src\", \"user.dir\", b\"\")'",
			         made);
	}
	must_run("cd '%s' && touch -d '2001-02-03 04:05:06' run.sh && touch -h -d '1999-01-01' dangling"
	         " && touch -d '2020-01-01 00:00:00' src/deep/er src/deep src/a.txt",
	         made);
	if (plain) must_run("cd '%s' && find . -exec touch -h -d '@1234567890' {} +", made);
}

/* ---- against GNU tar ---- */

static void check_format(const char *options, bool plain, unsigned flags)
{
	begin();
	make_tree(plain);
	must_run("cd '%s' && tar %s -cf ../x.tar .", made, options);
	cb_transfer_count count = import_file("x.tar", NULL);
	CHECK(count.seq == 1 && count.bytes >= 3000000);
	check_same_tree(tree_of_box(b, "/work", flags), tree_of_host(made, flags));
	export_to("/work", "y.tar");
	must_run("cd '%s' && mkdir back && tar --xattrs -xpf y.tar -C back", test_tmpdir());
	check_same_tree(tree_of_host(place("back"), flags), tree_of_host(made, flags));
	end();
}

TEST(gnu_tar_v7)
{
	check_format("--format=v7", true, 0);
}
TEST(gnu_tar_ustar)
{
	check_format("--format=ustar", true, 0);
}
TEST(gnu_tar_oldgnu)
{
	check_format("--format=oldgnu", true, 0);
}
TEST(gnu_tar_gnu)
{
	check_format("--format=gnu", true, 0);
}
TEST(gnu_tar_gnu_long_names)
{
	check_format("--format=gnu", false, TREE_NO_TIMES | TREE_NO_XATTRS);
}
TEST(gnu_tar_pax)
{
	check_format("--format=pax --xattrs", false, 0);
}

TEST(python_pax)
{
	begin();
	make_tree(false);
	must_run("cd '%s' && python3 -c 'import tarfile; t = tarfile.open(\"../p.tar\", \"w\", format=tarfile.PAX_FORMAT); "
	         "t.add(\".\"); t.close()'",
	         made);
	(void)import_file("p.tar", NULL);
	check_same_tree(tree_of_box(b, "/work", TREE_NO_TIMES | TREE_NO_XATTRS),
	                tree_of_host(made, TREE_NO_TIMES | TREE_NO_XATTRS));
	export_to("/work", "q.tar");
	must_run("cd '%s' && mkdir back && python3 -c 'import tarfile; tarfile.open(\"q.tar\").extractall(\"back\")'",
	         test_tmpdir());
	check_same_tree(tree_of_host(place("back"), TREE_NO_TIMES | TREE_NO_XATTRS),
	                tree_of_host(made, TREE_NO_TIMES | TREE_NO_XATTRS));
	end();
}

/* ---- sparse ---- */

static void check_sparse(const char *options)
{
	begin();
	must_run("cd '%s' && truncate -s 5G hole && printf start | dd of=hole conv=notrunc status=none"
	         " && printf middle | dd of=hole conv=notrunc bs=1 seek=3221225472 status=none && truncate -s 1M allhole"
	         " && python3 -c '\nf = open(\"many\", \"wb\")\nfor i in range(300): f.seek(i * 65536); f.write(bytes([i %% 255 + "
	         "1]) * 4096)\n'",
	         made);
	must_run("cd '%s' && tar -S %s -cf ../x.tar .", made, options);
	cb_transfer_count count = import_file("x.tar", NULL);
	CHECK(count.bytes < 4 << 20);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/hole", 0, &info, &err));
	CHECK_U64(info.size, (uint64_t)5 << 30);
	char six[7] = {0};
	size_t n = 0;
	CHECK_OK(cb_read_at(b, "/work/hole", 3221225472u, six, 6, &n, &err));
	CHECK_STR(six, "middle");
	export_to("/work", "y.tar");
	must_run(
		"cd '%s' && test $(stat -c %%s y.tar) -lt 4000000 && mkdir back && tar -xf y.tar -C back && cmp made/many back/many"
		" && cmp made/allhole back/allhole && cmp -n 1000000 made/hole back/hole && test $(stat -c %%s back/hole) = "
		"5368709120"
		" && cmp -i 3221225000 -n 1000000 made/hole back/hole && test $(stat -c %%b back/hole) -lt 1000",
		test_tmpdir());
	/* and once more from what was written here */
	CHECK_OK(cb_remove(b, "/work/hole", &err));
	(void)import_file("y.tar", "/work/again");
	CHECK_OK(cb_read_at(b, "/work/again/hole", 3221225472u, six, 6, &n, &err));
	CHECK_STR(six, "middle");
	CHECK_STR(tree_of_box(b, "/work/again/many", TREE_NO_TIMES), tree_of_box(b, "/work/many", TREE_NO_TIMES));
	end();
}

TEST(sparse_gnu)
{
	check_sparse("--format=gnu");
}
TEST(sparse_pax_0_0)
{
	check_sparse("--format=pax --sparse-version=0.0");
}
TEST(sparse_pax_0_1)
{
	check_sparse("--format=pax --sparse-version=0.1");
}
TEST(sparse_pax_1_0)
{
	check_sparse("--format=pax --sparse-version=1.0");
}

/* Data where a box allows it, at any byte. What the file is lies beside it on the host. */
static void write_layout(test_rng *r, unsigned number)
{
	enum { SIZE_MAX_BYTES = 300000, PARTS_MAX = 9 };
	static uint8_t whole[SIZE_MAX_BYTES];
	char path[64];
	cb_file *f = NULL;
	size_t size = 5000 + test_rand_below(r, SIZE_MAX_BYTES - 5000);
	memset(whole, 0, size);
	(void)snprintf(path, sizeof(path), "/work/l%u", number);
	CHECK_OK(cb_open(b, path, CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_ftruncate(f, size, &err));
	for (uint64_t parts = test_rand_below(r, PARTS_MAX); parts > 0; parts--) {
		size_t at = test_rand_below(r, size), n = 1 + test_rand_below(r, test_rand_below(r, 2) ? 40 : 20000);
		if (test_rand_below(r, 3) == 0) at -= at % 512;
		if (n > size - at) n = size - at;
		for (size_t i = 0; i < n; i++) whole[at + i] = (uint8_t)(1 + test_rand_below(r, 255));
		CHECK_OK(cb_pwrite(f, whole + at, n, at, &err));
	}
	CHECK_OK(cb_close(f, &err));
	(void)snprintf(path, sizeof(path), "made/l%u", number);
	int fd = open_or_fail(place(path), O_WRONLY | O_CREAT | O_TRUNC);
	CHECK(write(fd, whole, size) == (ssize_t)size);
	(void)close(fd);
}

/* GNU tar begins each part of a file with holes on a block of its own, Python and libarchive where the one before ends. */
TEST(every_reader_finds_the_parts_of_files_with_holes)
{
	begin();
	test_rng r = {test_seed() | 1};
	for (unsigned i = 0; i < 120; i++) write_layout(&r, i);
	export_to("/work", "x.tar");
	must_run("cd '%s' && mkdir gnu py && tar -xf x.tar -C gnu && diff -rq made gnu"
	         " && python3 -c 'import tarfile; tarfile.open(\"x.tar\").extractall(\"py\")' && diff -rq made py",
	         test_tmpdir());
	must_run("cd '%s' && if command -v bsdtar >/dev/null; then mkdir bsd && bsdtar -xf x.tar -C bsd && diff -rq made bsd; fi",
	         test_tmpdir());
	(void)import_file("x.tar", "/work/back");
	CHECK_OK(cb_export(b, "/work/back", place("back"), NULL, NULL, &err));
	must_run("cd '%s' && diff -rq made back", test_tmpdir());
	end();
}

/* As cowbox 0.1 wrote it: the second part begins where the first ends. */
TEST(parts_that_begin_within_a_block_are_read)
{
	begin();
	must_run("cd '%s' && python3 -c '\nimport tarfile, io\nm = b\"2\\n0\\n5\\n200000\\n9000\\n\"\n"
	         "t = tarfile.TarInfo(\"GNUSparseFile.0/f\")\nbody = m.ljust(512, b\"\\0\") + b\"first\" + b\"x\" * 9000\nt.size = "
	         "len(body)\n"
	         "t.pax_headers = {\"GNU.sparse.major\": \"1\", \"GNU.sparse.minor\": \"0\", \"GNU.sparse.name\": \"f\", "
	         "\"GNU.sparse.realsize\": \"209000\"}\n"
	         "with tarfile.open(\"old.tar\", \"w\", format=tarfile.PAX_FORMAT) as a: a.addfile(t, io.BytesIO(body))\n"
	         "with open(\"made/f\", \"wb\") as o: o.write(b\"first\".ljust(200000, b\"\\0\") + b\"x\" * 9000)\n'",
	         test_tmpdir());
	(void)import_file("old.tar", NULL);
	CHECK_OK(cb_export(b, "/work", place("back"), NULL, NULL, &err));
	must_run("cd '%s' && diff -rq made back", test_tmpdir());
	end();
}

TEST(symbolic_links_with_several_names_stay_one)
{
	begin();
	CHECK_OK(cb_symlink(b, "nowhere", "/work/one", &err));
	CHECK_OK(cb_link(b, "/work/one", "/work/two", &err));
	export_to("/work", "x.tar");
	must_run("cd '%s' && mkdir back && tar -xf x.tar -C back && test -L back/one && test "
	         "$(stat -c %%i back/one) = $(stat -c %%i back/two) && test \"$(readlink back/two)\" = nowhere",
	         test_tmpdir());
	cb_transfer_count count = import_file("x.tar", "/work/back");
	CHECK_U64(count.symlinks, 2);
	CHECK_U64(count.files, 0);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/back/two", CB_NOFOLLOW, &info, &err));
	CHECK(info.type == CB_SYMLINK);
	CHECK_U64(info.links, 2);
	end();
}

/* ---- compression ---- */

TEST(zstd_is_undone_and_others_are_named)
{
	begin();
	make_tree(true);
	must_run("cd '%s' && tar -cf ../x.tar . && zstd -q ../x.tar && gzip -k ../x.tar", made);
	(void)import_file("x.tar.zst", NULL);
	check_same_tree(tree_of_box(b, "/work", 0), tree_of_host(made, 0));
	int fd = open_or_fail(place("x.tar.gz"), O_RDONLY);
	CHECK_CODE(cb_tar_import(b, fd, NULL, NULL, &err), CB_UNSUPPORTED);
	CHECK_MSG(strstr(err.message, "gzip -dc x.tar.gz | cowbox import -"), "%s", err.message);
	(void)close(fd);
	/* a frame cut in the middle, and one that wants a window of 2 GiB */
	must_run("cd '%s' && head -c 20000 x.tar.zst >cut.zst && head -c 3000000 /dev/zero >z && zstd -q --ultra --long=31 -c - "
	         "<x.tar >wide.zst",
	         test_tmpdir());
	uint64_t before = must_seq(b);
	fd = open_or_fail(place("cut.zst"), O_RDONLY);
	CHECK_CODE(cb_tar_import(b, fd, NULL, NULL, &err), CB_CORRUPT);
	(void)close(fd);
	fd = open_or_fail(place("wide.zst"), O_RDONLY);
	CHECK_CODE(cb_tar_import(b, fd, NULL, NULL, &err), CB_CORRUPT);
	(void)close(fd);
	CHECK_U64(must_seq(b), before);
	end();
}

/* ---- manners ---- */

TEST(special_files_and_setid_bits_are_left_out_and_said)
{
	begin();
	must_run("cd '%s' && mkfifo pipe && printf x >tool && chmod 4755 tool && mkdir d && chmod 2750 d && tar -cf ../x.tar .",
	         made);
	cb_transfer_count count = import_file("x.tar", NULL);
	CHECK_U64(count.left_out, 1);
	CHECK(!exists(b, "/work/pipe"));
	CHECK_MSG(strstr(notes, "pipe: left out: a FIFO\n"), "%s", notes);
	CHECK_MSG(strstr(notes, "tool: setuid and setgid bits dropped\n"), "%s", notes);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/tool", 0, &info, &err));
	CHECK_U64(info.mode, 0755);
	/* on the way out too, unless asked for */
	CHECK_OK(cb_chmod(b, "/work/tool", 06755, 0, &err));
	export_to("/work", "y.tar");
	must_run("cd '%s' && tar -tvf y.tar | grep -q -- '-rwxr-xr-x.*tool'", test_tmpdir());
	cb_tar_options o = CB_WITH(cb_tar_options, .setid = true);
	int fd = open_or_fail(place("z.tar"), O_WRONLY | O_CREAT);
	CHECK_OK(cb_tar_export(b, "/work", fd, &o, NULL, &err));
	(void)close(fd);
	must_run("cd '%s' && tar -tvf z.tar | grep -q -- '-rwsr-sr-x.*tool'", test_tmpdir());
	end();
}

TEST(attributes_that_are_left_out_are_said)
{
	begin();
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .note = take_note);
	must_write(b, "/work/file", "text");
	CHECK_OK(cb_symlink(b, "file", "/work/link", &err));
	CHECK_OK(cb_xattr_set(b, "/work/file", "security.x", "1", 1, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/link", "user.x", "1", 1, CB_NOFOLLOW, &err));
	int fd = open_or_fail(place("x.tar"), O_WRONLY | O_CREAT);
	CHECK_OK(cb_tar_export(b, "/work", fd, &CB_WITH(cb_tar_options, .watch = &watch), NULL, &err));
	(void)close(fd);
	CHECK_STR(notes, "/work/file: attribute 'security.x' left out: not user.*, or of overlayfs\n");
	notes[0] = 0;
	CHECK_OK(cb_export(b, "/work", place("out"), &CB_WITH(cb_export_options, .watch = &watch), NULL, &err));
	CHECK_STR(notes, "file: attribute 'security.x' left out: not user.*, or of overlayfs\n"
	                 "link: attribute 'user.x' left out: a symbolic link has none on the host\n");
	end();
}

TEST(whole_box_leaves_home_and_tmp_out)
{
	begin();
	must_write(b, "/work/a", "1");
	must_write(b, "/home/agent/secret", "2");
	must_write(b, "/tmp/scratch", "3");
	must_write(b, "/home/other", "4");
	export_to("/", "x.tar");
	must_run("cd '%s' && tar -tf x.tar | LC_ALL=C sort | tr '\\n' ' ' | grep -qx './ home/ home/other work/ work/a '",
	         test_tmpdir());
	cb_tar_options o = CB_WITH(cb_tar_options, .all = true);
	int fd = open_or_fail(place("y.tar"), O_WRONLY | O_CREAT);
	CHECK_OK(cb_tar_export(b, "/", fd, &o, NULL, &err));
	(void)close(fd);
	must_run("cd '%s' && tar -tf y.tar | grep -q tmp/scratch && tar -tf y.tar | grep -q home/agent/secret", test_tmpdir());
	/* one file */
	export_to("/home/other", "z.tar");
	must_run("cd '%s' && test \"$(tar -tf z.tar)\" = other && test \"$(tar -xOf z.tar)\" = 4", test_tmpdir());
	end();
}

TEST(the_same_state_gives_the_same_bytes)
{
	begin();
	make_tree(false);
	must_run("cd '%s' && tar --format=pax -cf ../x.tar .", made);
	(void)import_file("x.tar", NULL);
	export_to("/work", "1.tar");
	export_to("/work", "2.tar");
	cb_box *fork = must_fork(s, "demo", "other");
	cb_box *demo = b;
	b = fork;
	export_to("/work", "3.tar");
	b = demo;
	must_run("cd '%s' && cmp 1.tar 2.tar && cmp 1.tar 3.tar", test_tmpdir());
	cb_box_close(fork);
	end();
}

TEST(times_before_1970_and_after_2106)
{
	begin();
	static const int64_t times[] = {
		-1, -500000000, -1000000001, 0, 1, 999999999, 8589934592000000000, 9000000000123456789, INT64_MIN + 1};
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/%zu", i);
		must_write(b, path, "x");
		CHECK_OK(cb_utimens(b, path, CB_TIME_OMIT, times[i], 0, &err));
	}
	export_to("/work", "x.tar");
	(void)import_file("x.tar", "/work/back");
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		char path[32];
		cb_stat_info info = CB_INIT(cb_stat_info);
		(void)snprintf(path, sizeof(path), "/work/back/%zu", i);
		CHECK_OK(cb_stat(b, path, 0, &info, &err));
		CHECK_MSG(info.mtime_ns == times[i] || times[i] == INT64_MIN + 1, "%s: %" PRId64 " is not %" PRId64, path,
		          info.mtime_ns, times[i]);
	}
	must_run("cd '%s' && mkdir back && tar -xf x.tar -C back 2>/dev/null; test \"$(stat -c %%.9Y back/2)\" = -1.000000001",
	         test_tmpdir());
	end();
}

/* As a folder that is imported does not bring them either, nor one that is written. */
TEST(attributes_of_overlayfs_stay_outside)
{
	begin();
	must_run("cd '%s' && python3 -c '\n"
	         "import tarfile\n"
	         "t = tarfile.TarInfo(\"d\"); t.type = tarfile.DIRTYPE; t.mode = 0o755\n"
	         "t.pax_headers = {\"SCHILY.xattr.user.overlay.opaque\": \"y\", \"SCHILY.xattr.user.own\": \"v\"}\n"
	         "with tarfile.open(\"x.tar\", \"w\", format=tarfile.PAX_FORMAT) as f: f.addfile(t)'",
	         test_tmpdir());
	(void)import_file("x.tar", NULL);
	char *value = NULL;
	CHECK_CODE(cb_xattr_get(b, "/work/d", "user.overlay.opaque", 0, &value, NULL, &err), CB_NODATA);
	CHECK_OK(cb_xattr_get(b, "/work/d", "user.own", 0, &value, NULL, &err));
	cb_free(value);
	CHECK_OK(cb_xattr_set(b, "/work/d", "user.overlay.opaque", "y", 1, 0, &err));
	export_to("/work", "y.tar");
	must_run("cd '%s' && grep -q user.own y.tar && ! grep -q user.overlay y.tar", test_tmpdir());
	CHECK_OK(cb_export(b, "/work", place("out"), NULL, NULL, &err));
	CHECK(getxattr(place("out/d"), "user.overlay.opaque", NULL, 0) < 0);
	end();
}

TEST(members_replace_what_is_there)
{
	begin();
	must_write(b, "/work/file", "old");
	CHECK_OK(cb_tag_add(b, "/work/file", "kept", &err));
	CHECK_OK(cb_xattr_set(b, "/work/file", "user.old", "1", 1, 0, &err));
	must_write(b, "/work/one", "shared");
	CHECK_OK(cb_link(b, "/work/one", "/work/two", &err));
	CHECK_OK(cb_symlink(b, "/home", "/work/was-link", &err));
	CHECK_OK(cb_mkdir(b, "/work/was-dir", 0755, 0, &err));
	must_run("cd '%s' && printf new >file && printf mine >one && mkdir was-link && printf in >was-link/x && printf f >was-dir "
	         "&& tar -cf ../x.tar *",
	         made);
	char *old = NULL;
	cb_stat_info before = CB_INIT(cb_stat_info), after = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/file", 0, &before, &err));
	(void)import_file("x.tar", NULL);
	CHECK_OK(cb_stat(b, "/work/file", 0, &after, &err));
	CHECK_U64(before.ino, after.ino);
	CHECK_STR(must_read(b, "/work/file"), "new");
	CHECK_CODE(cb_xattr_get(b, "/work/file", "user.old", 0, &old, NULL, &err), CB_NODATA);
	CHECK_STR(must_read(b, "/work/one"), "mine");
	CHECK_STR(must_read(b, "/work/two"), "shared");
	CHECK_STR(must_read(b, "/work/was-link/x"), "in");
	CHECK_STR(must_read(b, "/work/was-dir"), "f");
	CHECK(!exists(b, "/home/x"));
	/* a folder with something in it is not replaced by a file */
	must_write(b, "/work/full/x", "1");
	must_run("cd '%s' && printf f >full && tar -cf ../y.tar full", made);
	uint64_t seq = must_seq(b);
	int fd = open_or_fail(place("y.tar"), O_RDONLY);
	CHECK_CODE(cb_tar_import(b, fd, NULL, NULL, &err), CB_EXISTS);
	(void)close(fd);
	CHECK_U64(must_seq(b), seq);
	end();
}

static void write_at(const char *path, const char *text, uint64_t offset)
{
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, path, CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_pwrite(f, text, strlen(text), offset, &err));
	CHECK_OK(cb_close(f, &err));
}

static void make_all_sorts(void)
{
	static char large[3 << 20];
	CHECK_OK(cb_mkdir(b, "/work/in/folder", 0750, CB_PARENTS, &err));
	CHECK_OK(cb_xattr_set(b, "/work/in/folder", "user.of", "folder", CB_STRING, 0, &err));
	must_write(b, "/work/in/folder/empty", "");
	must_write(b, "/work/in/small", "text");
	CHECK_OK(cb_chmod(b, "/work/in/small", 0600, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/in/small", "user.b", "2", 1, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/in/small", "user.a", "", 0, 0, &err));
	CHECK_OK(cb_link(b, "/work/in/small", "/work/in/small-too", &err));
	memset(large, 'x', sizeof(large));
	CHECK_OK(cb_write_file(b, "/work/in/large", large, sizeof(large), NULL, &err));
	CHECK_OK(cb_write_file(b, "/work/in/one", large, sizeof(large), NULL, &err));
	CHECK_OK(cb_link(b, "/work/in/one", "/work/in/two", &err));
	write_at("/work/in/holes", "in the middle", 4 << 20);
	write_at("/work/in/holes", "before", 1 << 20);
	CHECK_OK(cb_truncate(b, "/work/in/holes", 8 << 20, &err));
	CHECK_OK(cb_copy(b, "/work/in/holes", "/work/in/gaps", 0, &err));
	CHECK_OK(cb_link(b, "/work/in/gaps", "/work/in/gaps-too", &err));
	CHECK_OK(cb_symlink(b, "small", "/work/in/link", &err));
	CHECK_OK(cb_xattr_set(b, "/work/in/link", "user.of", "link", CB_STRING, CB_NOFOLLOW, &err));
}

static cb_transfer_count bring_again(void)
{
	notes[0] = 0;
	export_to("/work/in", "x.tar");
	cb_transfer_count count = import_file("x.tar", "/work/out");
	CHECK_STR(notes, "");
	check_same_tree(tree_of_box(b, "/work/out", 0), tree_of_box(b, "/work/in", 0));
	return count;
}

TEST(the_same_stream_again_changes_nothing)
{
	begin();
	make_all_sorts();
	char *value = NULL;
	cb_transfer_count count = bring_again();
	CHECK(count.files == 9 && count.symlinks == 1 && count.folders == 2 && count.unchanged == 0 && count.seq != 0);
	CHECK_OK(cb_xattr_get(b, "/work/out/link", "user.of", CB_NOFOLLOW, &value, NULL, &err));
	CHECK_STR(value, "link");
	cb_free(value);
	count = bring_again();
	CHECK(count.files == 0 && count.symlinks == 0 && count.folders == 0 && count.bytes == 0);
	CHECK_U64(count.unchanged, 10);
	CHECK_U64(count.seq, 0);
	end();
}

/* Of a file of make_all_sorts with holes: they are still there, and what is between them. */
static void check_parts(const char *path, const char *middle)
{
	cb_file *f = NULL;
	uint64_t at = 0;
	char text[16] = {0};
	size_t n = 0;
	CHECK_OK(cb_open(b, path, CB_READ, 0, &f, &err));
	CHECK_OK(cb_seek(f, 0, CB_SEEK_DATA, &at, &err));
	CHECK(at > 0 && at <= 1 << 20);
	CHECK_OK(cb_seek(f, 5 << 20, CB_SEEK_HOLE, &at, &err));
	CHECK_U64(at, 5 << 20);
	CHECK_OK(cb_pread(f, text, strlen(middle), 4 << 20, &n, &err));
	CHECK_STR(text, middle);
	CHECK_OK(cb_close(f, &err));
}

/* What differs comes over, and nothing else; a name that is no member keeps what it has. */
TEST(of_a_stream_what_differs_is_brought)
{
	begin();
	make_all_sorts();
	(void)bring_again();
	CHECK_OK(cb_link(b, "/work/out/one", "/work/outside", &err));
	CHECK_OK(cb_link(b, "/work/out/small", "/work/outside-too", &err));
	CHECK_OK(cb_link(b, "/work/out/gaps", "/work/outside-gaps", &err));
	uint64_t empty = must_version(b, "/work/out/folder/empty");
	write_at("/work/in/one", "y", (2 << 20) + 5);
	write_at("/work/in/large", "y", 5);
	write_at("/work/in/holes", "y", 2 << 20);
	write_at("/work/in/gaps", "after", 4 << 20);
	must_write(b, "/work/in/small", "other");
	cb_transfer_count count = bring_again();
	CHECK_U64(count.files, 8);
	CHECK_U64(must_version(b, "/work/out/folder/empty"), empty);
	CHECK_STR(must_read(b, "/work/outside-too"), "text");
	CHECK(!strchr(must_read(b, "/work/outside"), 'y'));
	check_parts("/work/outside-gaps", "in the middle");
	check_parts("/work/out/gaps", "aftere middle");
	/* something where there was a hole, and a hole where there was something */
	write_at("/work/in/gaps", "y", 2 << 20);
	count = bring_again();
	CHECK_U64(count.files, 2);
	check_parts("/work/outside-gaps", "in the middle");
	CHECK_OK(cb_unlink(b, "/work/in/gaps-too", &err));
	CHECK_OK(cb_unlink(b, "/work/in/gaps", &err));
	write_at("/work/in/gaps", "in the middle", 4 << 20);
	CHECK_OK(cb_truncate(b, "/work/in/gaps", 8 << 20, &err));
	CHECK_OK(cb_link(b, "/work/in/gaps", "/work/in/gaps-too", &err));
	(void)bring_again();
	/* shorter, with less in it, and as two files that were one */
	CHECK_OK(cb_truncate(b, "/work/in/one", 1 << 20, &err));
	CHECK_OK(cb_truncate(b, "/work/in/holes", 3 << 20, &err));
	CHECK_OK(cb_copy(b, "/work/in/small", "/work/in/copy", 0, &err));
	CHECK_OK(cb_rename(b, "/work/in/copy", "/work/in/small-too", 0, &err));
	CHECK_OK(cb_unlink(b, "/work/in/link", &err));
	CHECK_OK(cb_symlink(b, "large", "/work/in/link", &err));
	CHECK_OK(cb_chmod(b, "/work/in/folder", 0700, 0, &err));
	count = bring_again();
	CHECK_U64(count.symlinks, 1);
	CHECK_U64(count.folders, 2);
	count = bring_again();
	CHECK_U64(count.seq, 0);
	end();
}

TEST(a_stream_that_replaces_holds_the_quota_at_its_end)
{
	begin();
	must_write(b, "/work/in/a", "much of it");
	must_write(b, "/work/in/b", "1");
	must_write(b, "/work/out/a", "1");
	must_write(b, "/work/out/b", "much of it");
	export_to("/work/in", "x.tar");
	CHECK_OK(cb_box_quota_set(b, 22, 0, 0, &err));
	(void)import_file("x.tar", "/work/out");
	CHECK_STR(must_read(b, "/work/out/a"), "much of it");
	CHECK_OK(cb_box_quota_set(b, 23, 0, 0, &err));
	int fd = open_or_fail(place("x.tar"), O_RDONLY);
	CHECK_CODE(cb_tar_import(b, fd, &CB_WITH(cb_tar_options, .to = "/work/more"), NULL, &err), CB_QUOTA);
	(void)close(fd);
	end();
}

TEST(a_stream_through_a_pipe_is_read_to_its_end)
{
	begin();
	make_tree(true);
	char command[8192];
	(void)snprintf(command, sizeof(command), "cd '%s' && tar -b 400 -cf - . && printf done >../status", made);
	FILE *p = popen(command, "r");
	CHECK(p);
	CHECK_OK(cb_tar_import(b, fileno(p), NULL, NULL, &err));
	CHECK(pclose(p) == 0);
	CHECK(access(place("status"), F_OK) == 0);
	check_same_tree(tree_of_box(b, "/work", 0), tree_of_host(made, 0));
	end();
}

static bool stop_at_once(void *context, const cb_progress *p)
{
	(void)p;
	return ++*(unsigned *)context < 3;
}

TEST(progress_can_end_it)
{
	begin();
	make_tree(true);
	must_run("cd '%s' && tar -cf ../x.tar .", made);
	unsigned calls = 0;
	cb_tar_options o =
		CB_WITH(cb_tar_options, .watch = &CB_WITH(cb_transfer_watch, .progress = stop_at_once, .context = &calls));
	int fd = open_or_fail(place("x.tar"), O_RDONLY);
	CHECK_CODE(cb_tar_import(b, fd, &o, NULL, &err), CB_INTERRUPTED);
	(void)close(fd);
	CHECK_U64(must_seq(b), 0);
	(void)import_file("x.tar", NULL);
	calls = 0;
	fd = open_or_fail(place("y.tar"), O_WRONLY | O_CREAT);
	CHECK_CODE(cb_tar_export(b, "/work", fd, &o, NULL, &err), CB_INTERRUPTED);
	(void)close(fd);
	end();
}

TEST(patterns_leave_out)
{
	begin();
	must_run("cd '%s' && mkdir -p node_modules/x src && printf 1 >node_modules/x/f && printf 2 >src/a.o && printf 3 >src/a.c "
	         "&& ln src/a.o alias"
	         " && tar -cf ../x.tar src node_modules alias",
	         made);
	static const char *const patterns[] = {"node_modules/", "*.o"};
	cb_tar_options o = CB_WITH(cb_tar_options, .exclude = patterns, .exclude_count = 2,
	                           .watch = &CB_WITH(cb_transfer_watch, .note = take_note));
	int fd = open_or_fail(place("x.tar"), O_RDONLY);
	CHECK_OK(cb_tar_import(b, fd, &o, NULL, &err));
	(void)close(fd);
	CHECK(exists(b, "/work/src/a.c") && !exists(b, "/work/src/a.o") && !exists(b, "/work/node_modules") &&
	      !exists(b, "/work/alias"));
	CHECK_MSG(strstr(notes, "alias: left out: a hard link to what is excluded"), "%s", notes);
	must_write(b, "/work/node_modules/y", "1");
	must_write(b, "/work/b.o", "1");
	fd = open_or_fail(place("y.tar"), O_WRONLY | O_CREAT);
	CHECK_OK(cb_tar_export(b, "/work", fd, &o, NULL, &err));
	(void)close(fd);
	must_run("cd '%s' && tar -tf y.tar | LC_ALL=C sort | tr '\\n' ' ' | grep -qx './ src/ src/a.c '", test_tmpdir());
	end();
}
