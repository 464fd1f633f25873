/*
 * A program that has closed its descriptors 0 to 2 got files of the store for them: the next message it wrote to its standard error went
 * into a segment.
 */
#include <fcntl.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { LARGE = 300000 };

static int held[3];

/* As a daemon does; kept for what the test itself has to say. */
static void close_standard(void)
{
	(void)fflush(NULL);
	for (int i = 0; i < 3; i++) {
		held[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
		(void)close(i);
	}
}

static void say(void)
{
	static const char message[] =
		"daemon: something to say, and more than the header of a segment has bytes, as such lines are\n";
	for (int i = 0; i < 3; i++) (void)!write(i, message, sizeof(message) - 1);
}

static void open_standard(void)
{
	for (int i = 0; i < 3; i++) CHECK(dup2(held[i], i) == i);
}

static void use(cb_store *s, const char *name, const char *large)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, name, &b, &err));
	say();
	CHECK_OK(cb_write_file(b, "/work/large", large, LARGE, NULL, &err));
	say();
	must_write(b, "/work/f", "text");
	CHECK_OK(cb_checkpoint_save(b, "safe", 0, false, &err));
	say();
	cb_box_close(b);
}

static void is_whole(const char *name, const char *large)
{
	cb_error err = {0};
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, name);
	char *bytes = NULL;
	size_t size = 0;
	CHECK_OK(cb_read_file(b, "/work/large", &bytes, &size, &err));
	CHECK(size == LARGE && memcmp(bytes, large, LARGE) == 0);
	CHECK_STR(must_read(b, "/work/f"), "text");
	cb_free(bytes);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* before: closed before the store is opened, so that its long-lived files are opened then; else when it is open. */
static void closed(bool before)
{
	cb_error err = {0};
	char *large = test_keep(malloc(LARGE)), backup[600];
	memset(large, 7, LARGE);
	(void)snprintf(backup, sizeof(backup), "%s/backup", test_tmpdir());
	if (before) close_standard();
	cb_store *s = test_store_open(false);
	if (!before) close_standard();
	say();
	use(s, "one", large);
	use(s, "two", large);
	CHECK_OK(cb_store_vacuum(s, &err));
	say();
	CHECK_OK(cb_store_backup(s, backup, &err));
	say();
	cb_store_close(s);
	open_standard();
	is_whole("one", large);
	is_whole("two", large);
}

TEST(closed_before)
{
	closed(true);
}

TEST(closed_later)
{
	closed(false);
}
