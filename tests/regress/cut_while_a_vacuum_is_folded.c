/*
 * cut_while_a_vacuum_is_folded.c: the power goes while a vacuum is folded into the database. What lies behind the pages that it left is
 * written over with zeros before the first page says that they are gone: such a page may be torn then, and belongs to nobody. fsck called
 * it damage, because it went by the number of pages in the file and not by that in the log.
 */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/sql.h"

enum { PAGE = 4096, PAGES_AT = 28, FILES = 300 };

static cb_error err;

static char *in_store(const char *folder, const char *name)
{
	char path[700];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return test_keep(strdup(path));
}

static void fill(cb_store *s)
{
	char text[3000];
	cb_box *b = NULL;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	CHECK_OK(cb_box_create(s, "kept", &b, &err));
	must_write(b, "/work/a", "kept");
	cb_box_close(b);
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	for (unsigned i = 0; i < FILES; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/%u", i);
		text[0] = (char)('a' + i % 26);
		text[1] = (char)('a' + i / 26);
		must_write(b, path, text);
	}
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "b", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
}

static int64_t pages_now(void)
{
	sqlite3 *db = test_sql_open(in_store(test_store_path(), "cowbox.db"));
	int64_t pages = test_sql_number(db, "PRAGMA page_count");
	(void)sqlite3_close(db);
	return pages;
}

/* A vacuum leaves few of many pages, but is not folded: somebody reads an older picture, and then it is killed. */
static sqlite3 *vacuum_unfolded(void)
{
	cb_store *s = test_store_open(false);
	fill(s);
	cb_store_close(s);
	sqlite3 *reader = test_sql_open(in_store(test_store_path(), "cowbox.db"));
	CHECK(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM meta", NULL, NULL, NULL) == SQLITE_OK);
	int64_t before = pages_now();
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		s = test_store_reopen();
		(void)cb_store_vacuum(s, &err);
		_exit(1);
	}
	while (pages_now() == before) (void)usleep(10000);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	return reader;
}

/* What the disk has after the cut, in a folder of its own; gives the number of pages that were being removed. */
static int64_t image(const char *to)
{
	char command[2600];
	uint8_t count[4], half[PAGE / 2] = {0};
	(void)snprintf(command, sizeof(command), "cp -a '%s' '%s' && rm -f '%s/live' '%s/cowbox.db-shm'", test_store_path(), to, to,
	               to);
	CHECK(system(command) == 0);
	int fd = open(in_store(to, "cowbox.db"), O_RDWR);
	CHECK(fd >= 0 && pread(fd, count, sizeof(count), PAGES_AT) == sizeof(count));
	int64_t before = (int64_t)count[0] << 24 | count[1] << 16 | count[2] << 8 | count[3];
	int64_t after = pages_now();
	for (int64_t page = after; page < before; page++)
		CHECK(pwrite(fd, half, sizeof(half), page * PAGE + page % 2 * (PAGE / 2)) == sizeof(half));
	(void)close(fd);
	return before - after;
}

TEST(pages_that_were_being_removed_are_no_damage)
{
	cb_store *copy = NULL;
	char to[600], backup[620];
	(void)snprintf(to, sizeof(to), "%s/image", test_tmpdir());
	(void)snprintf(backup, sizeof(backup), "%s/backup", test_tmpdir());
	sqlite3 *reader = vacuum_unfolded();
	CHECK(image(to) > 50);
	(void)sqlite3_close(reader);
	/* Looking only, which leaves the log as it is. */
	CHECK_OK(cb_store_open(to, &CB_WITH(cb_store_options, .no_create = true, .read_only = true), &copy, &err));
	test_store_sound(copy);
	cb_store_close(copy);
	CHECK_OK(cb_store_open(to, &CB_WITH(cb_store_options, .no_create = true), &copy, &err));
	test_store_sound(copy);
	cb_box *b = must_open(copy, "kept");
	CHECK_STR(must_read(b, "/work/a"), "kept");
	CHECK_OK(cb_store_backup(copy, backup, &err));
	cb_box_close(b);
	cb_store_close(copy);
}
