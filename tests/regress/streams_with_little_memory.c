/*
 * Without memory for zstd's window a sound pack was called damaged, as was a compressed tar stream, and packing failed as an error of ours.
 * Now it is CB_NOMEM.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

/* A sanitizer needs more address space than any limit leaves. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { FILES = 4, FILE_BYTES = 400000, STEP_BYTES = 256 << 10, STEPS_MOST = 200 };

static cb_error err;
static cb_store *s;
static cb_box *b;

static int open_in_folder(const char *name, int flags)
{
	char path[4300];
	(void)snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	int fd = open(path, flags | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

static void fill(void)
{
	static char bytes[FILE_BYTES];
	uint64_t x = 1;
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < FILES; i++) {
		char path[32];
		for (size_t at = 0; at < sizeof(bytes); at++) bytes[at] = (char)((x = x * 6364136223846793005u + 1) >> 56);
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		CHECK_OK(cb_write_file(b, path, bytes, sizeof(bytes), NULL, &err));
	}
	int fd = open_in_folder("pack", O_WRONLY | O_CREAT);
	CHECK_OK(cb_pack(b, fd, NULL, NULL, &err));
	(void)close(fd);
}

static cb_code do_pack(void)
{
	return cb_pack(b, open_in_folder("again", O_WRONLY | O_CREAT | O_TRUNC), NULL, NULL, &err);
}

static cb_code do_unpack(void)
{
	return cb_unpack(s, open_in_folder("pack", O_RDONLY), "copy", NULL, NULL, &err);
}

static cb_code do_import(void)
{
	return cb_tar_import(b, open_in_folder("tar.zst", O_RDONLY), NULL, NULL, &err);
}

static rlim_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%lu", &pages) == 1);
	(void)fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* In a child each, with a little more memory every time, until it suffices. */
static void with_little(cb_code (*deed)(void))
{
	unsigned refused = 0;
	for (unsigned i = 0; i < STEPS_MOST; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			char *warm = must_read(b, "/work/f0"); /* the store is open again: what follows is the stream's */
			struct rlimit r = {address_space() + (rlim_t)i * STEP_BYTES, RLIM_INFINITY};
			CHECK(warm && setrlimit(RLIMIT_AS, &r) == 0);
			cb_code code = deed();
			CHECK_MSG(code == CB_OK || code == CB_NOMEM, "with %u KiB: %s: %s", i * (STEP_BYTES >> 10),
			          cb_code_name(code), err.message);
			_exit(code == CB_OK ? 0 : 9);
		}
		int status = 0;
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
		if (WEXITSTATUS(status) == 0) {
			test_note("refused with up to %u KiB", i * (STEP_BYTES >> 10));
			CHECK(refused > 0);
			return;
		}
		CHECK(WEXITSTATUS(status) == 9);
		refused++;
	}
	CHECK_MSG(false, "still refused with %u KiB", STEPS_MOST * (STEP_BYTES >> 10));
}

TEST_LIMIT(pack, 120)
{
	fill();
	with_little(do_pack);
}

TEST_LIMIT(unpack, 120)
{
	fill();
	with_little(do_unpack);
}

/* A frame of one block, by hand: 10 KiB of zeros, which is an empty archive, and a window of 8 MiB that must be there before they are. */
TEST_LIMIT(compressed_tar, 120)
{
	static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x68, 0x03, 0x40, 0x01, 0x00};
	fill();
	int fd = open_in_folder("tar.zst", O_WRONLY | O_CREAT);
	CHECK(write(fd, frame, sizeof(frame)) == (ssize_t)sizeof(frame));
	(void)close(fd);
	with_little(do_import);
}

#endif
