/* test_watch_ends.c: every transfer with a watch, ended by its progress(): the same code, one line in *err, it works again. */
#include "harness/boxes.h"

#include <cowbox/cowbox.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"

enum { FILES = 18, FILE_BYTES = 3 << 20 }; /* three whole batches of a pack and more: after the last it is too late to say no */

static cb_store *s;
static cb_box *b;
static char home[4096];
static unsigned calls, last;
static const cb_transfer_watch *watch;

static bool stop_at_last(void *context, const cb_progress *p)
{
	(void)context;
	(void)p;
	return ++calls != last; /* once is enough */
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
		for (size_t k = 0; k < sizeof(bytes); k++) bytes[k] = (uint8_t)test_rand(&r);
		(void)snprintf(path, sizeof(path), "folder/f%u", i);
		int fd = stream_open(path);
		CHECK(write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
		(void)close(fd);
	}
	CHECK_OK(cb_import(b, place("folder"), &CB_WITH(cb_import_options, .link = true), NULL, &err));
	int tar = stream_open("in.tar"), pack = stream_open("in.pack");
	CHECK_OK(cb_tar_export(b, "/work", tar, NULL, NULL, &err));
	CHECK_OK(cb_pack(b, pack, NULL, NULL, &err));
	(void)close(tar);
	(void)close(pack);
	for (unsigned i = 0; i < FILES; i++) {
		bytes[0]++;
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		CHECK_OK(cb_write_file(b, path, bytes, sizeof(bytes), NULL, &err));
	}
}

static cb_code do_import(cb_error *err)
{
	return cb_import(b, place("folder"), &CB_WITH(cb_import_options, .to = "/work/in", .watch = watch, .full = true), NULL,
	                 err);
}
static cb_code do_export(cb_error *err)
{
	return cb_export(b, "/work", place("out"), &CB_WITH(cb_export_options, .watch = watch), NULL, err);
}
static cb_code do_export_into(cb_error *err)
{
	(void)mkdir(place("into"), 0755);
	return cb_export(b, "/work", place("into"), &CB_WITH(cb_export_options, .watch = watch, .overwrite = true), NULL, err);
}
static cb_code do_apply(cb_error *err)
{
	return cb_apply(b, &CB_WITH(cb_apply_options, .watch = watch), NULL, NULL, NULL, err);
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
	return cb_tar_import(b, fd, &CB_WITH(cb_tar_options, .to = "/work/tar", .watch = watch), NULL, err);
}
static cb_code tar_out(int fd, cb_error *err)
{
	return cb_tar_export(b, "/work", fd, &CB_WITH(cb_tar_options, .watch = watch), NULL, err);
}
static cb_code pack_out(int fd, cb_error *err)
{
	return cb_pack(b, fd, &CB_WITH(cb_pack_options, .watch = watch), NULL, err);
}
static cb_code pack_in(int fd, cb_error *err)
{
	return cb_unpack(s, fd, "unpacked", watch, NULL, err);
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

static const struct {
	const char *name;
	cb_code (*run)(cb_error *err);
} transfers[] = {
	{"import", do_import}, {"export", do_export},         {"export into", do_export_into},
	{"apply", do_apply},   {"tar import", do_tar_import}, {"tar export", do_tar_export},
	{"pack", do_pack},     {"unpack", do_unpack},
};

TEST(progress_ends_every_transfer_alike)
{
	world_open();
	cb_transfer_watch stopping = CB_WITH(cb_transfer_watch, .progress = stop_at_last);
	for (size_t i = 0; i < ARRAY_LEN(transfers); i++) {
		for (last = 1; last <= 3; last++) {
			cb_error err = {.code = CB_OK, .message = "untouched"};
			calls = 0;
			watch = &stopping;
			cb_code code = transfers[i].run(&err);
			CHECK_MSG(calls == last, "%s: progress() was called %u times, not %u", transfers[i].name, calls, last);
			CHECK_MSG(code == CB_INTERRUPTED && err.code == code, "%s at %u: %s, in *err %s", transfers[i].name, last,
			          cb_code_name(code), cb_code_name(err.code));
			CHECK_MSG(strcmp(err.message, "untouched") != 0 && *err.message && !strchr(err.message, '\n'), "%s: '%s'",
			          transfers[i].name, err.message);
		}
		cb_error err = {0};
		watch = NULL;
		CHECK_OK(transfers[i].run(&err));
	}
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
