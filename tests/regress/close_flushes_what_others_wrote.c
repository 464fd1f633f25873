/* Closing a store flushed only what that handle had written: what another handle had committed before was left to chance. */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/boxes.h"

static ino_t log_file;
static unsigned flushes; /* of the log */

/* In place of libc's. */
__attribute__((visibility("default"))) int fdatasync(int fd);
int fdatasync(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && st.st_ino == log_file) flushes++;
	return (int)syscall(SYS_fdatasync, fd);
}

TEST(close_flushes_what_others_wrote)
{
	char file[600];
	struct stat st;
	cb_error err = {0};
	cb_store *writer = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(writer, "demo", &b, &err));
	(void)snprintf(file, sizeof(file), "%s/cowbox.db-wal", test_store_path());
	CHECK(stat(file, &st) == 0);
	log_file = st.st_ino;
	cb_store *other = test_store_reopen();
	must_write(b, "/work/f", "text");
	CHECK(flushes == 0);
	cb_store_close(other);
	CHECK(flushes == 1);
	/* What is flushed already is not flushed again. */
	other = test_store_reopen();
	cb_store_close(other);
	CHECK(flushes == 1);
	other = test_store_reopen();
	must_write(b, "/work/f", "more");
	CHECK_OK(cb_store_sync(other, &err));
	CHECK(flushes == 2);
	cb_store_close(other);
	cb_box_close(b);
	cb_store_close(writer);
}
