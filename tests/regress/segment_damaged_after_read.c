/* Once its sum was found right, a content in a segment was never checked again by that handle: damaged later, it gave wrong bytes. */
#include <fcntl.h>
#include <unistd.h>

#include "harness/harness.h"
#include "store/store.h"

enum { SIZE = 200000 };

static int64_t now_ns = 1000000000;

static int64_t now(void *context)
{
	(void)context;
	return now_ns;
}

static void flip(uint64_t at)
{
	char file[600];
	uint8_t byte = 0;
	(void)snprintf(file, sizeof(file), "%s/store/seg/000001.seg", test_tmpdir());
	int fd = open(file, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
	byte ^= 4;
	CHECK(pwrite(fd, &byte, 1, (off_t)at) == 1);
	(void)close(fd);
}

TEST(segment_damaged_after_read)
{
	static uint8_t bytes[SIZE], room[SIZE];
	char path[600];
	cb_error err = {0};
	store *s = NULL;
	uint64_t id = 0;
	const clock_source source = {.now_ns = now};
	(void)snprintf(path, sizeof(path), "%s/store", test_tmpdir());
	memset(bytes, 'x', sizeof(bytes));
	CHECK_OK(store_open(&(store_options){.path = path, .create = true, .clock = &source}, &s, &err));
	CHECK_OK(store_content_put(s, span_make(bytes, SIZE), &id, &err));
	/* All of it: a second later at the latest. */
	CHECK_OK(store_content_read(s, id, 0, room, SIZE, &err));
	flip(5000);
	now_ns += 1000000000;
	CHECK_CODE(store_content_read(s, id, 0, room, SIZE, &err), CB_CORRUPT);
	CHECK_CODE(store_content_read(s, id, 0, room, SIZE, &err), CB_CORRUPT);
	flip(5000);
	CHECK_OK(store_content_read(s, id, 0, room, SIZE, &err));
	/* A part: ten seconds. */
	CHECK_OK(store_content_read(s, id, 4000, room, 2000, &err));
	flip(5000);
	now_ns += (int64_t)10 * 1000000000;
	CHECK_CODE(store_content_read(s, id, 4000, room, 2000, &err), CB_CORRUPT);
	/* Set back, the clock tells nothing. */
	flip(5000);
	CHECK_OK(store_content_read(s, id, 4000, room, 2000, &err));
	flip(5000);
	now_ns -= 500000000;
	CHECK_CODE(store_content_read(s, id, 4000, room, 2000, &err), CB_CORRUPT);
	store_close(s);
}
