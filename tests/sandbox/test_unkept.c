/* test_unkept.c: what no box can have, left by a command: it is left out and said, and everything else is the step. */
#include "work_kit.h"

#include <dirent.h>
#include <sys/xattr.h>

static cb_error err;
static cb_store *s;
static cb_box *b;

static void begin(bool memory)
{
	kit_begin();
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static void small_bounds(void)
{
	work_bound = (work_bounds){.plain = 0, .upper = 10, .layers = 3};
}

static cb_code take_result(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	*(char **)context = test_keep(strdup(step->result));
	return CB_OK;
}

/* The step's own words. */
static const char *result_of(uint64_t seq)
{
	char *text = NULL;
	CHECK_OK(cb_step_get(b, seq, take_result, &text, &err));
	return text;
}

/* ---- too large ---- */

static void too_large(void)
{
	begin(false);
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w,
	                "echo r > work/r; truncate -s 9T work/big; ln work/big work/more; truncate -s 9T work/a; rm -f work/none",
	                &r, &err));
	CHECK_STR(must_read(b, "/work/r"), "r\n");
	CHECK_STR(must_read(b, "/work/a"), "one\n"); /* what it had there */
	CHECK(!exists(b, "/work/big") && !exists(b, "/work/more"));
	CHECK_U64(r.left_out, 3);
	const char *said = result_of(r.commit.seq);
	CHECK_MSG(strstr(said, "\"left_out\":3") && strstr(said, "/work/big: left out: a file may have"), "%s", said);
	/* Nor does the next command see it: the folder is what the box is. */
	CHECK_OK(kit_sh(w, "test ! -e work/big; test -s work/r; test \"$(cat work/a)\" = one; echo 2 > work/r", &r, &err));
	CHECK_U64(r.left_out, 0);
	CHECK_STR(must_read(b, "/work/r"), "2\n");
	CHECK(!strstr(result_of(r.commit.seq), "left_out"));
	work_close(w);
	end();
}

TEST(a_file_too_large_is_left_out)
{
	too_large();
}

TEST(a_file_too_large_is_left_out_of_a_stack)
{
	small_bounds();
	too_large();
}

/* ---- attributes ---- */

static void attribute(work *w, const char *path, const char *name)
{
	if (setxattr(host_text("%s/%s", kit_root(w), path), name, "v", 1, 0) != 0) test_lacks("xattr", "no attributes here");
}

static void attributes(void)
{
	begin(false);
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	cb_step_info info = CB_WITH(cb_step_info, .kind = "exec");
	CHECK_OK(work_begin(w, &info, &err));
	CHECK_U64(kit_command(w, (const char *const[]){"sh", "echo r > work/r", NULL}), 0);
	attribute(w, "work/r", "user.overlay.metacopy");
	attribute(w, "work/r", "user.kept");
	attribute(w, "work/a", "user.overlay.overlay.x");
	attribute(w, "work/a", "user.too");
	attribute(w, "work/d", "user.overlay.foo");
	CHECK_OK(work_end(w, WORK_COMMIT, &info, NULL, NULL, NULL, NULL, &r, &err));
	CHECK_STR(must_read(b, "/work/r"), "r\n");
	char *value = NULL;
	size_t size = 0;
	CHECK_OK(cb_xattr_get(b, "/work/r", "user.kept", 0, &value, &size, &err));
	cb_free(value);
	CHECK_OK(cb_xattr_get(b, "/work/a", "user.too", 0, &value, &size, &err));
	cb_free(value);
	CHECK_CODE(cb_xattr_get(b, "/work/r", "user.overlay.metacopy", 0, &value, &size, &err), CB_NODATA);
	CHECK_U64(r.noted, 3);
	CHECK_MSG(strstr(result_of(r.commit.seq), "/work/d: dropped: attributes"), "%s", result_of(r.commit.seq));
	work_close(w);
	end();
}

TEST(attributes_of_overlayfs_are_dropped)
{
	attributes();
}

TEST(attributes_of_overlayfs_are_dropped_from_a_stack)
{
	small_bounds();
	attributes();
}

/* ---- many ---- */

/* Only a filesystem without the bound (tmpfs, xfs) lets a program do it. */
TEST_LIMIT(names_beyond_the_bound_are_another_file, 120)
{
	begin(true);
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "echo r > work/r; mkdir work/d; perl -e 'link(\"work/a\", \"work/d/$_\") or die for 1 .. 65100'", &r,
	                &err));
	CHECK_STR(must_read(b, "/work/r"), "r\n");
	cb_stat_info first = CB_INIT(cb_stat_info), last = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/a", 0, &first, &err));
	CHECK_OK(cb_stat(b, "/work/d/9999", 0, &last, &err));
	CHECK_U64(first.links + last.links, 65101);
	CHECK(first.ino != last.ino);
	CHECK_STR(must_read(b, "/work/d/9999"), "one\n");
	CHECK_U64(r.left_out, 0);
	CHECK_U64(r.noted, 1);
	work_close(w);
	end();
}

TEST(what_is_said_is_bounded)
{
	begin(false);
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do mkfifo work/f$i; done; echo r > work/r",
	                &r, &err));
	CHECK_U64(r.left_out, 20);
	CHECK_STR(must_read(b, "/work/r"), "r\n");
	const char *said = result_of(r.commit.seq);
	size_t notes = 0;
	for (const char *at = said; (at = strstr(at, "left out: a FIFO")); at++) notes++;
	CHECK_U64(notes, WORK_NOTES);
	CHECK(strstr(said, "\"left_out\":20"));
	work_close(w);
	end();
}

/* ---- names ---- */

TEST(names_of_the_sandbox_are_said)
{
	begin(false);
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "mkdir usr boot libx32; ln -s usr/bin bin; echo x > libx32/x; echo x > sys; echo r > work/r", &r, &err));
	CHECK_U64(r.left_out, 3);
	CHECK_STR(must_read(b, "/work/r"), "r\n");
	const char *said = result_of(r.commit.seq);
	CHECK_MSG(strstr(said, "/boot: left out") && strstr(said, "/sys: left out") && strstr(said, "/libx32: left out"), "%s",
	          said);
	work_close(w);
	end();
}

/* ---- what stays ---- */

static void special_goes(void)
{
	begin(false);
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "mkdir work/d; mkfifo work/d/f; i=0; while test $i -lt 20; do echo $i > work/d/$i; i=$((i+1)); done", &r,
	                &err));
	CHECK_U64(r.left_out, 1);
	CHECK_OK(kit_sh(w, "test ! -e work/d/f; test -e work/d/19; chmod u+s work/d/7", &r, &err));
	CHECK_OK(kit_sh(w, "test ! -u work/d/7", &r, &err));
	cb_box *fork = must_fork(s, "demo", "other");
	work *v = kit_open(s, "other", CB_TIER_AUTO);
	CHECK_OK(kit_sh(v, "test ! -e work/d/f; test -e work/d/19", &r, &err));
	work_close(v);
	work_close(w);
	cb_box_close(fork);
	end();
}

TEST(what_was_left_out_is_not_there_for_the_next)
{
	special_goes();
}

TEST(what_was_left_out_is_in_no_layer)
{
	small_bounds();
	special_goes();
}

/* ---- damage ---- */

static void damage_segments(void)
{
	const char *path = host_text("%s/seg", test_store_path());
	DIR *d = opendir(path);
	CHECK(d);
	for (const struct dirent *e; (e = readdir(d));) {
		int fd = openat(dirfd(d), e->d_name, O_RDWR);
		static uint8_t junk[70000];
		struct stat st;
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)sizeof(junk))
			CHECK(pwrite(fd, junk, sizeof(junk), 4096) == sizeof(junk));
		if (fd >= 0) (void)close(fd);
	}
	(void)closedir(d);
}

/* What is stored of a file is damaged: that must not keep a new version of it, and all else, out of the box. */
TEST(a_damaged_file_is_replaced)
{
	begin(false);
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "head -c 200000 /dev/urandom > work/large", &r, &err));
	CHECK_OK(kit_sh(w, "sleep 0.1", &r, &err));
	work_close(w);
	cb_box_close(b);
	cb_store_close(s);
	damage_segments();
	s = test_store_reopen();
	b = must_open(s, "demo");
	char *bytes = NULL;
	CHECK_CODE(cb_read_file(b, "/work/large", &bytes, NULL, &err), CB_CORRUPT);
	w = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK_OK(kit_sh(w, "head -c 200000 /dev/zero > work/large; echo r > work/r", &r, &err));
	CHECK_STR(must_read(b, "/work/r"), "r\n");
	CHECK_OK(cb_read_file(b, "/work/large", &bytes, NULL, &err));
	cb_free(bytes);
	work_close(w);
	cb_box_close(b);
	cb_store_close(s);
}
