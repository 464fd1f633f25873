/*
 * A tar export through a handle with writes under way read the handle itself, entry by entry. Its step ended in the middle (a quiet
 * second), and the rest of the archive was of another state: one that never was.
 */
#include <fcntl.h>
#include <unistd.h>

#include <cowbox/transfer.h>

#include "harness/boxes.h"

static cb_store *s;
static cb_box *b, *beside;

static void begin(bool memory)
{
	cb_error err = {0};
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	beside = must_open(s, "demo");
	must_write(b, "/work/1", "old");
	must_write(b, "/work/2", "old");
	must_write(b, "/work/3", "old");
	/* Of whose mode the caller is told in the middle of the export. */
	CHECK_OK(cb_chmod(b, "/work/2", 04755, 0, &err));
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(beside);
	cb_box_close(b);
	cb_store_close(s);
}

/* Others commit; and more than a second passes, after which the handle ends its running step. */
static void change(void *context, const char *path, const char *what)
{
	cb_box *into = context;
	(void)path;
	(void)what;
	must_write(into, "/work/1", "new");
	must_write(into, "/work/2", "new");
	must_write(into, "/work/3", "new");
	usleep(1200000);
}

static cb_box *export_and_import(cb_box *from, cb_box *changed)
{
	cb_error err = {0};
	cb_box *back = NULL;
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/archive", test_tmpdir());
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .note = change, .context = changed);
	CHECK_OK(cb_tar_export(from, "/work", fd, &CB_WITH(cb_tar_options, .watch = &watch), NULL, &err));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK_OK(cb_box_create(s, "back", &back, &err));
	CHECK_OK(cb_tar_import(back, fd, NULL, NULL, &err));
	CHECK(close(fd) == 0);
	CHECK_STR(must_read(back, "/work/1"), "old");
	CHECK_STR(must_read(back, "/work/2"), "old");
	CHECK_STR(must_read(back, "/work/3"), "old");
	return back;
}

TEST_BOTH(through_a_handle_with_open_files)
{
	cb_error err = {0};
	begin(memory);
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/open", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "under way", 9, &err));
	cb_box *back = export_and_import(b, beside);
	CHECK_STR(must_read(back, "/work/open"), "under way");
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(must_read(b, "/work/3"), "new");
	CHECK_STR(must_read(b, "/work/open"), "under way");
	cb_box_close(back);
	end();
}

TEST_BOTH(through_a_transaction)
{
	cb_error err = {0};
	begin(memory);
	cb_box *t = must_begin(b);
	must_write(t, "/work/mine", "mine");
	cb_box *back = export_and_import(t, t);
	CHECK_STR(must_read(back, "/work/mine"), "mine");
	CHECK_STR(must_read(t, "/work/3"), "new");
	CHECK_OK(cb_txn_drop(t, &err));
	cb_box_close(t);
	cb_box_close(back);
	end();
}

TEST_BOTH(through_a_handle_on_the_head)
{
	begin(memory);
	cb_box_close(export_and_import(b, beside));
	end();
}
