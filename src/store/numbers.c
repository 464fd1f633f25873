/* numbers.c: see numbers.h. The bytes are in docs/format.md. */
#include "store/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/io.h"

enum {
	SKIP = 1 << 20,
	SKIP_BOXES = 1 << 12, /* their numbers have 31 bits */
};
enum { MAGIC_BYTES = 8, SUM_AT = MAGIC_BYTES + 8 * STORE_EPOCH, FILE_BYTES = SUM_AT + 8 };
_Static_assert(FILE_BYTES == 64, "within one sector");

static const char name[] = "numbers";
static const char magic[MAGIC_BYTES] = {'C', 'B', 'N', 'U', 'M', 'S', '1', '\n'};

bool numbers_read(const io_folder *in, uint64_t out[STORE_EPOCH])
{
	uint8_t bytes[FILE_BYTES];
	size_t size = 0;
	memset(out, 0, STORE_EPOCH * sizeof *out);
	AUTO_FD int fd = -1;
	if (io_file_open(in, name, O_RDONLY, &fd, NULL) != CB_OK) return false;
	if (io_pread_all(fd, bytes, sizeof bytes, 0, &size, NULL) != CB_OK || size != sizeof bytes) return false;
	if (memcmp(bytes, magic, sizeof magic) != 0 || get_le64(bytes + SUM_AT) != hash64(bytes, SUM_AT)) return false;
	for (int i = 0; i < STORE_EPOCH; i++) out[i] = get_le64(bytes + MAGIC_BYTES + 8 * i);
	return true;
}

bool numbers_given(const io_folder *in)
{
	uint64_t reserved[STORE_EPOCH], given = 0;
	(void)numbers_read(in, reserved);
	for (int i = 0; i < STORE_EPOCH; i++) given |= reserved[i];
	return given != 0;
}

cb_code numbers_write(const io_folder *in, const uint64_t reserved[STORE_EPOCH], cb_error *err)
{
	uint8_t bytes[FILE_BYTES];
	memcpy(bytes, magic, sizeof magic);
	for (int i = 0; i < STORE_EPOCH; i++) put_le64(bytes + MAGIC_BYTES + 8 * i, reserved[i]);
	put_le64(bytes + SUM_AT, hash64(bytes, SUM_AT));
	struct stat st;
	AUTO_FD int fd = -1;
	CB_TRY(io_file_open(in, name, O_RDWR | O_CREAT, &fd, err));
	if (fstat(fd, &st) != 0) return cb_err_errno(err, errno, "opening '%s/%s'", in->path, name);
	cb_code code = io_pwrite_all(fd, bytes, sizeof bytes, 0, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "'%s/%s'", in->path, name);
	if (fdatasync(fd) != 0) return cb_err_errno(err, errno, "flushing '%s/%s'", in->path, name);
	return st.st_size == 0 ? io_folder_flush(in, err) : CB_OK;
}

void numbers_skip(const uint64_t known[STORE_EPOCH], uint64_t out_reserved[STORE_EPOCH])
{
	for (int i = 0; i < STORE_EPOCH; i++) out_reserved[i] = known[i] + (i == STORE_NEXT_BOX ? SKIP_BOXES : SKIP);
}
