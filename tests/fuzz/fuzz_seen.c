/*
 * fuzz_seen.c: NAME/seen from hostile bytes: whatever it holds, a look works with it, and what is saved loads again.
 *
 * The first byte says whether the sum at the end is made right, so that the lies are about what is inside.
 */
#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "holder/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int folder = -1;
static char folder_name[] = "/dev/shm/fuzz_seen.XXXXXX";

static void folder_done(void)
{
	(void)unlinkat(folder, "seen", 0);
	(void)rmdir(folder_name);
}

static void folder_open(void)
{
	if (folder >= 0) return;
	assert(mkdtemp(folder_name));
	folder = open(folder_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(folder >= 0 && atexit(folder_done) == 0);
}

static void file_write(const uint8_t *data, size_t size)
{
	int fd = openat(folder, "seen", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint8_t sum[8];
	bool right = data[0] & 1;
	data++, size--;
	assert(fd >= 0);
	if (right && size >= 8) size -= 8;
	assert(write(fd, data, size) == (ssize_t)size);
	put_le64(sum, hash64(data, size));
	if (right) assert(write(fd, sum, 8) == 8);
	assert(close(fd) == 0);
}

static size_t look(seen *s)
{
	static const char *const paths[] = {"", "a", "a/b"};
	size_t count = 0;
	seen_begin(s, 1000000000);
	for (size_t i = 0; i < 3; i++) {
		bool known;
		seen_entry e = {i, i, (int64_t)i, (int64_t)i, (uint32_t)i};
		assert(seen_add(s, span_str(paths[i]), &e, &known, NULL) == CB_OK);
		count += known;
	}
	seen_end(s);
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	seen *s;
	if (size == 0) return 0;
	folder_open();
	file_write(data, size);
	assert(seen_create(&s, NULL) == CB_OK);
	assert(seen_load(s, folder, NULL) == CB_OK);
	(void)look(s);
	seen_keep(s);
	assert(look(s) == 3);
	assert(seen_save(s, folder, NULL) == CB_OK);
	seen_destroy(s);
	assert(seen_create(&s, NULL) == CB_OK);
	assert(seen_load(s, folder, NULL) == CB_OK);
	assert(look(s) == 3);
	seen_destroy(s);
	return 0;
}
