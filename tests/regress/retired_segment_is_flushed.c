/*
 * A vacuum that retired the current segment while another thread had appended to it and not yet flushed took the duty to flush away:
 * the commit that named those bytes was acknowledged, in full mode too, without them being on disk.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/harness.h"
#include "store/segment.h"

static ino_t flushed[8]; /* the files, one entry a flush */
static size_t flush_count;

/* In place of libc's. */
__attribute__((visibility("default"))) int fdatasync(int fd);
int fdatasync(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && flush_count < 8) flushed[flush_count++] = st.st_ino;
	return (int)syscall(SYS_fdatasync, fd);
}

static const uint8_t id[SEGMENT_ID_BYTES] = {1};

static uint64_t must_append(segments *g, uint64_t number)
{
	static const uint8_t bytes[100000];
	cb_error err = {0};
	uint64_t segment = 0, offset = 0;
	bool need_number = false;
	CHECK_OK(segment_append(g, span_make(bytes, sizeof(bytes)), number, &need_number, &segment, &offset, &err));
	CHECK(!need_number);
	return segment;
}

static bool was_flushed(const char *folder, uint64_t segment)
{
	char path[600];
	struct stat st;
	bool found = false;
	(void)snprintf(path, sizeof(path), "%s/%06" PRIu64 ".seg", folder, segment);
	CHECK(stat(path, &st) == 0);
	for (size_t i = 0; i < flush_count; i++) found = found || flushed[i] == st.st_ino;
	return found;
}

TEST(retired_segment_is_flushed)
{
	char folder[512];
	cb_error err = {0};
	segments *g = NULL;
	(void)snprintf(folder, sizeof(folder), "%s/seg", test_tmpdir());
	io_folder above = {open(test_tmpdir(), O_PATH | O_DIRECTORY | O_CLOEXEC), test_tmpdir()};
	CHECK_OK(segments_open(&above, id, false, NULL, &g, &err));
	uint64_t first = must_append(g, 1);
	segment_retire(g);
	CHECK_OK(segment_flush(g, &err));
	CHECK(was_flushed(folder, first));
	/* Also beside a current one. */
	uint64_t second = must_append(g, 2);
	segment_retire(g);
	uint64_t third = must_append(g, 3);
	flush_count = 0;
	CHECK_OK(segment_flush(g, &err));
	CHECK(was_flushed(folder, second) && was_flushed(folder, third));
	flush_count = 0;
	CHECK_OK(segment_flush(g, &err));
	CHECK(flush_count == 0);
	segment_unpin(g, first);
	segment_unpin(g, second);
	segment_unpin(g, third);
	segments_close(g);
}
