/*
 * test_process_limits.c: a process at the limits of its descriptors and of its memory. Whatever is refused is refused with a reason,
 * nothing acknowledged is lost, and when the limit is raised the same handles go on.
 *
 * Each limit is tried in a process of its own, one descriptor (or some pages) further than the last, until nothing is refused any more.
 */
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

enum {
	LARGE_BYTES = 200000, /* goes to a segment */
	FILES = 6,
	DESCRIPTORS_MOST = 48,
	STEP_BYTES = 8 << 10,
	STEPS_MOST = 100,
};

/* Shared with the process under the limit. */
typedef struct report {
	unsigned refused;
	bool written[2 * FILES], checkpoint, finished;
} report;

static char folder[4200];
static report *told;
static char large[LARGE_BYTES];

static bool worked(cb_code code, const cb_error *err)
{
	if (code == CB_OK) return true;
	bool fits = code == CB_IO || code == CB_LIMIT || code == CB_NOMEM || code == CB_NOSPACE;
	CHECK_MSG(fits && err->message[0], "at the limit: %s: '%s'", cb_code_name(code), err->message);
	told->refused++;
	return false;
}

static void name_of(unsigned i, char out[32])
{
	(void)snprintf(out, 32, "/work/%s%u", i < FILES ? "small" : "large", i);
}

static cb_code write_one(cb_box *b, unsigned i, cb_error *err)
{
	char path[32];
	name_of(i, path);
	return cb_write_file(b, path, large, i < FILES ? 500 + i : LARGE_BYTES - i, NULL, err);
}

static void deeds(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	char *bytes = NULL;
	size_t size = 0;
	for (unsigned i = 0; i < 2 * FILES; i++) {
		if (worked(write_one(b, i, &err), &err)) told->written[i] = true;
		if (i == FILES && worked(cb_read_file(b, "/work/known", &bytes, &size, &err), &err)) {
			CHECK_U64(size, LARGE_BYTES);
			cb_free(bytes);
		}
	}
	if (worked(cb_checkpoint_save(b, "named", 0, false, &err), &err)) told->checkpoint = true;
	(void)worked(cb_unlink(b, "/work/gone", &err), &err);
	(void)worked(cb_store_gc(s, NULL, &err), &err);
}

/* Handles opened before the limit, or under it. */
static void under(int resource, rlim_t limit, bool opened_before)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	struct rlimit r;
	CHECK(getrlimit(resource, &r) == 0);
	rlim_t wide = r.rlim_cur;
	if (opened_before) {
		CHECK_OK(cb_store_open(folder, NULL, &s, &err));
		b = must_open(s, "box");
	}
	r.rlim_cur = limit;
	CHECK(setrlimit(resource, &r) == 0);
	if (!s && worked(cb_store_open(folder, NULL, &s, &err), &err)) (void)worked(cb_box_open(s, "box", &b, &err), &err);
	if (b) deeds(s, b);
	r.rlim_cur = wide;
	CHECK(setrlimit(resource, &r) == 0);
	if (!s) CHECK_OK(cb_store_open(folder, NULL, &s, &err));
	if (!b) b = must_open(s, "box");
	must_write(b, "/work/after", "wide again");
	CHECK_STR(must_read(b, "/work/after"), "wide again");
	test_store_sound(s);
	told->finished = true;
	cb_box_close(b);
	cb_store_close(s);
}

static void check_told(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(folder, NULL, &s, &err));
	cb_box *b = must_open(s, "box");
	for (unsigned i = 0; i < 2 * FILES; i++) {
		char path[32], *bytes = NULL;
		size_t size = 0;
		name_of(i, path);
		if (!told->written[i]) continue;
		CHECK_OK(cb_read_file(b, path, &bytes, &size, &err));
		CHECK(size == (i < FILES ? 500 + i : LARGE_BYTES - i) && memcmp(bytes, large, size) == 0);
		cb_free(bytes);
	}
	if (told->checkpoint) cb_box_close(must_open(s, "box@named"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static void store_make(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	char command[4300];
	(void)snprintf(folder, sizeof(folder), "%s/store", test_tmpdir());
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	CHECK(system(command) == 0);
	CHECK_OK(cb_store_open(folder, NULL, &s, &err));
	CHECK_OK(cb_box_create(s, "box", &b, &err));
	CHECK_OK(cb_write_file(b, "/work/known", large, LARGE_BYTES, NULL, &err));
	must_write(b, "/work/gone", "going");
	cb_box_close(b);
	cb_store_close(s);
}

/* True: something was refused. */
static bool one(int resource, rlim_t limit, bool opened_before)
{
	int status = 0;
	store_make();
	*told = (report){0};
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		under(resource, limit, opened_before);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0 && told->finished, "limit %ju: ended with status %x",
	          (uintmax_t)limit, (unsigned)status);
	check_told();
	return told->refused > 0;
}

static void told_make(void)
{
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(told != MAP_FAILED);
	for (size_t i = 0; i < sizeof(large); i++) large[i] = (char)(i * 7 + i / 251);
}

static void descriptors(bool opened_before)
{
	unsigned refusing = 0;
	told_make();
	int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(lowest >= 0 && close(lowest) == 0);
	unsigned i = 0;
	while (i < DESCRIPTORS_MOST && one(RLIMIT_NOFILE, (rlim_t)lowest + i, opened_before)) {
		refusing++;
		i++;
	}
	CHECK_MSG(i < DESCRIPTORS_MOST, "still refused with %u descriptors", i);
	CHECK(refusing > 0);
	test_note("refused something with up to %u descriptors", refusing - 1);
}

TEST_LIMIT(few_descriptors_to_open_with, 120)
{
	descriptors(false);
}

TEST_LIMIT(few_descriptors_to_go_on_with, 120)
{
	descriptors(true);
}

/* A sanitizer needs more address space than any limit leaves. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static rlim_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%lu", &pages) == 1);
	(void)fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void memory(bool opened_before)
{
	unsigned refusing = 0;
	char stack[512 << 10]; /* the stack must be able to grow: what it cannot get is a signal, not an error */
	told_make();
	memset(stack, 1, sizeof(stack));
	CHECK(mallopt(M_TOP_PAD, 0) == 1 && mallopt(M_TRIM_THRESHOLD, 0) == 1); /* so that little lies ready */
	for (unsigned i = 0; i < STEPS_MOST; i++) {
		rlim_t limit = address_space() + (rlim_t)i * STEP_BYTES + (rlim_t)(stack[i] - 1);
		refusing += one(RLIMIT_AS, limit, opened_before);
	}
	test_note("%u of %d limits refused something", refusing, STEPS_MOST);
	CHECK(refusing > 0);
}

TEST_LIMIT(little_memory_to_open_with, 240)
{
	memory(false);
}

TEST_LIMIT(little_memory_to_go_on_with, 240)
{
	memory(true);
}

/* ---- streams ---- */

/* Without memory for zstd's window a sound pack is CB_NOMEM, not damaged, and so is a compressed tar stream. */
enum { STREAM_FILES = 4, STREAM_BYTES = 400000, STREAM_STEP = 256 << 10, STREAM_STEPS = 200 };

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

static void streams_fill(void)
{
	static char bytes[STREAM_BYTES];
	uint64_t x = 1;
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < STREAM_FILES; i++) {
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

/* In a child each, with a little more memory every time, until it suffices. */
static void with_little(cb_code (*deed)(void))
{
	unsigned refused = 0;
	for (unsigned i = 0; i < STREAM_STEPS; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			char *warm = must_read(b, "/work/f0"); /* the store is open again: what follows is the stream's */
			struct rlimit r = {address_space() + (rlim_t)i * STREAM_STEP, RLIM_INFINITY};
			CHECK(warm && setrlimit(RLIMIT_AS, &r) == 0);
			cb_code code = deed();
			CHECK_MSG(code == CB_OK || code == CB_NOMEM, "with %u KiB: %s: %s", i * (STREAM_STEP >> 10),
			          cb_code_name(code), err.message);
			_exit(code == CB_OK ? 0 : 9);
		}
		int status = 0;
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
		if (WEXITSTATUS(status) == 0) {
			test_note("refused with up to %u KiB", i * (STREAM_STEP >> 10));
			CHECK(refused > 0);
			return;
		}
		CHECK(WEXITSTATUS(status) == 9);
		refused++;
	}
	CHECK_MSG(false, "still refused with %u KiB", STREAM_STEPS * (STREAM_STEP >> 10));
}

TEST_LIMIT(little_memory_to_pack_with, 120)
{
	streams_fill();
	with_little(do_pack);
}

TEST_LIMIT(little_memory_to_unpack_with, 120)
{
	streams_fill();
	with_little(do_unpack);
}

/* A frame of one block, by hand: 10 KiB of zeros, which is an empty archive, and a window of 8 MiB that must be there before they are. */
TEST_LIMIT(little_memory_for_a_compressed_tar, 120)
{
	static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x68, 0x03, 0x40, 0x01, 0x00};
	streams_fill();
	int fd = open_in_folder("tar.zst", O_WRONLY | O_CREAT);
	CHECK(write(fd, frame, sizeof(frame)) == (ssize_t)sizeof(frame));
	(void)close(fd);
	with_little(do_import);
}

#endif
