/*
 * test_watch_forks.c: fork() in a function that a long call calls back. The child's copy of the call ends with CB_FORKED and touches
 * nothing of the parent's (a stream, a draft, a temporary folder), whatever it answers; the parent's goes on as if nothing had happened.
 */
#include "harness/boxes.h"
#include "harness/tree_text.h"

#include <cowbox/cowbox.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"

enum { FILES = 300, FILE_BYTES = 200000 };

static cb_store *s;
static cb_box *b;
static char home[4096];
static unsigned calls, forks_at;
static bool child_stops, is_child;
static pid_t child;
static cb_transfer_watch watch;

static bool fork_once(void *context, const cb_progress *p)
{
	(void)context;
	(void)p;
	if (++calls != forks_at) return true;
	child = fork();
	CHECK(child >= 0);
	is_child = child == 0;
	if (!is_child) {
		int status = 1;
		CHECK(waitpid(child, &status, 0) == child); /* first the child does what it does */
		CHECK_MSG(status == 0, "the child ended with %d", status);
	}
	return !(is_child && child_stops);
}

static const char *place(const char *name)
{
	static char path[4400];
	(void)snprintf(path, sizeof(path), "%s/%s", home, name);
	return path;
}

static int stream_open(const char *name)
{
	int fd = open(place(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

static void world_open(void)
{
	static uint8_t bytes[FILE_BYTES];
	char path[64];
	cb_error err;
	test_rng r = {test_seed() | 1};
	(void)snprintf(home, sizeof(home), "%s", test_tmpdir());
	CHECK(mkdir(place("folder"), 0755) == 0);
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < FILES; i++) {
		for (size_t k = 0; k < sizeof(bytes); k += 8) {
			uint64_t word = test_rand(&r);
			memcpy(bytes + k, &word, 8);
		}
		(void)snprintf(path, sizeof(path), "folder/f%u", i);
		int fd = stream_open(path);
		CHECK(write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
		(void)close(fd);
	}
	CHECK_OK(cb_import(b, place("folder"), &CB_WITH(cb_import_options, .link = true), NULL, &err));
	int tar = stream_open("in.tar"), pack = stream_open("in.pack");
	CHECK_OK(cb_tar_export(b, "/work", tar, NULL, NULL, &err));
	CHECK_OK(cb_pack(b, pack, NULL, NULL, &err));
	cb_box *loose = NULL;
	CHECK_OK(cb_box_create(s, "loose", &loose, &err));
	CHECK_OK(cb_import(loose, place("folder"), NULL, NULL, &err));
	cb_box_close(loose);
	(void)close(tar);
	(void)close(pack);
}

static cb_code do_import(cb_error *err)
{
	return cb_import(b, place("folder"), &CB_WITH(cb_import_options, .to = "/in", .watch = &watch, .full = true), NULL, err);
}
static cb_code do_export(cb_error *err)
{
	return cb_export(b, "/work", place("out"), &CB_WITH(cb_export_options, .watch = &watch), NULL, err);
}
static cb_code do_export_into(cb_error *err)
{
	(void)mkdir(place("out"), 0755);
	return cb_export(b, "/work", place("out"), &CB_WITH(cb_export_options, .watch = &watch, .overwrite = true), NULL, err);
}
static cb_code do_apply(cb_error *err)
{
	static unsigned number;
	char name[32];
	(void)snprintf(name, sizeof(name), "applied%u", number++);
	cb_box *one = must_fork(s, "loose", name); /* of a box that has no folder yet */
	CHECK(mkdir(place("out"), 0755) == 0);
	cb_code code = cb_apply(one, &CB_WITH(cb_apply_options, .watch = &watch, .folder = place("out")), NULL, NULL, NULL, err);
	cb_box_close(one);
	return code;
}
static cb_code with_stream(const char *name, cb_code (*call)(int fd, cb_error *err), cb_error *err)
{
	int fd = stream_open(name);
	cb_code code = call(fd, err);
	(void)close(fd);
	return code;
}
static cb_code tar_in(int fd, cb_error *err)
{
	return cb_tar_import(b, fd, &CB_WITH(cb_tar_options, .to = "/in", .watch = &watch), NULL, err);
}
static cb_code tar_out(int fd, cb_error *err)
{
	return cb_tar_export(b, "/work", fd, &CB_WITH(cb_tar_options, .watch = &watch), NULL, err);
}
static cb_code pack_out(int fd, cb_error *err)
{
	return cb_pack(b, fd, &CB_WITH(cb_pack_options, .watch = &watch), NULL, err);
}
static cb_code pack_in(int fd, cb_error *err)
{
	return cb_unpack(s, fd, "unpacked", &watch, NULL, err);
}
static cb_code do_tar_import(cb_error *err)
{
	return with_stream("in.tar", tar_in, err);
}
static cb_code do_tar_export(cb_error *err)
{
	return with_stream("out.tar", tar_out, err);
}
static cb_code do_pack(cb_error *err)
{
	return with_stream("out.pack", pack_out, err);
}
static cb_code do_unpack(cb_error *err)
{
	return with_stream("in.pack", pack_in, err);
}

/* Is what the parent's call made whole? And then away with it. */
static void check_folder(void)
{
	must_run("cd '%s' && test $(ls -A out | wc -l) = %d && diff -rq folder out && rm -r out && test -z \"$(ls -A | grep tmp)\"",
	         home, FILES);
}
static void check_tar(void)
{
	must_run("cd '%s' && cmp in.tar out.tar && rm out.tar", home);
}
static void check_pack(void)
{
	cb_error err;
	int fd = stream_open("out.pack");
	CHECK_OK(cb_unpack(s, fd, "again", NULL, NULL, &err));
	(void)close(fd);
	CHECK(unlink(place("out.pack")) == 0);
	CHECK_OK(cb_box_delete(s, "again", &err));
}
static void check_same(cb_box *box, const char *path)
{
	cb_error err;
	CHECK_OK(cb_export(box, path, place("out"), NULL, NULL, &err));
	check_folder();
}
static void check_in(void)
{
	cb_error err;
	check_same(b, "/in");
	CHECK_OK(cb_remove(b, "/in", &err));
}
static void check_unpacked(void)
{
	cb_error err;
	cb_box *made = must_open(s, "unpacked");
	check_same(made, "/work");
	cb_box_close(made);
	CHECK_OK(cb_box_delete(s, "unpacked", &err));
}

static const struct {
	const char *name;
	cb_code (*run)(cb_error *err);
	void (*check)(void);
} transfers[] = {
	{"export", do_export, check_folder}, {"export into", do_export_into, check_folder},
	{"apply", do_apply, check_folder},   {"tar export", do_tar_export, check_tar},
	{"pack", do_pack, check_pack},       {"unpack", do_unpack, check_unpacked},
	{"import", do_import, check_in},     {"tar import", do_tar_import, check_in},
};

TEST_LIMIT(a_progress_function_forks, 120)
{
	world_open();
	watch = CB_WITH(cb_transfer_watch, .progress = fork_once);
	for (size_t i = 0; i < ARRAY_LEN(transfers); i++) {
		for (unsigned round = 0; round < 4; round++) {
			cb_error err = {0};
			calls = 0;
			child = -1;
			forks_at = round & 1 ? 3 : 1;
			child_stops = round & 2;
			cb_code code = transfers[i].run(&err);
			if (is_child)
				_exit(code == CB_FORKED && err.code == code && !strchr(err.message, '\n') ? 0
				                                                                          : 10 + (code != CB_OK));
			CHECK_MSG(child > 0, "%s: progress() was called %u times only", transfers[i].name, calls);
			CHECK_MSG(code == CB_OK, "%s, round %u: %s (%s)", transfers[i].name, round, cb_code_name(code),
			          err.message);
			transfers[i].check();
		}
	}
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
