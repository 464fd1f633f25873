/*
 * A handle used its database by descriptor and the files beside it by path. Where the owner of a store moved it away and put another in its
 * place, whoever had the old one open appended to the segments of the new one, punched holes into them and removed them. Now a handle's
 * files are those of the folder that it opened, wherever that is.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { LARGE_BYTES = 200000, FILES = 5 };

static cb_error err;

static const char *old_path(void)
{
	static char path[4200];
	(void)snprintf(path, sizeof(path), "%s/old", test_tmpdir());
	return path;
}

static void file_name(unsigned i, char out[32])
{
	(void)snprintf(out, 32, "/work/large%u", i);
}

static void write_large(cb_box *b, unsigned i)
{
	char path[32], *bytes = malloc(LARGE_BYTES);
	CHECK(bytes != NULL);
	memset(bytes, 'a' + (int)(i % 26), LARGE_BYTES);
	file_name(i, path);
	CHECK_OK(cb_write_file(b, path, bytes, LARGE_BYTES, NULL, &err));
	free(bytes);
}

static void check_large(cb_box *b, unsigned i)
{
	char path[32], *bytes = NULL;
	size_t size = 0;
	file_name(i, path);
	CHECK_OK(cb_read_file(b, path, &bytes, &size, &err));
	CHECK(size == LARGE_BYTES && bytes[0] == 'a' + (int)(i % 26) && bytes[size - 1] == bytes[0]);
	cb_free(bytes);
}

static void write_all(cb_box *b, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) write_large(b, i);
}

static void check_store(const char *path, unsigned from, unsigned to)
{
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(path, NULL, &s, &err));
	cb_box *b = must_open(s, "demo");
	for (unsigned i = from; i < to; i++) check_large(b, i);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* Writes, removes, collects: all that reaches into segments. */
static void go_on(cb_store *s, cb_box *b)
{
	char path[32];
	for (unsigned i = 0; i < FILES; i++) {
		file_name(i, path);
		CHECK_OK(cb_unlink(b, path, &err));
	}
	for (unsigned round = 0; round < 2; round++) {
		write_all(b, 20 + round * FILES, 20 + (round + 1) * FILES);
		CHECK_OK(cb_prune(b, &(cb_prune_options){.struct_size = sizeof(cb_prune_options), .keep_steps = 1}, NULL, &err));
		CHECK_OK(cb_store_gc(s, NULL, &err));
		CHECK_OK(cb_store_vacuum(s, &err));
	}
}

static void in_its_place(bool backup)
{
	cb_store *s = test_store_open(false), *other = NULL;
	cb_box *b = NULL, *theirs = NULL;
	char copy[4200];
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	write_all(b, 0, FILES);
	(void)snprintf(copy, sizeof(copy), "%s/copy", test_tmpdir());
	if (backup) CHECK_OK(cb_store_backup(s, copy, &err));
	CHECK(rename(test_store_path(), old_path()) == 0);
	if (backup) CHECK(rename(copy, test_store_path()) == 0);
	CHECK_OK(cb_store_open(test_store_path(), NULL, &other, &err));
	if (!backup) CHECK_OK(cb_box_create(other, "demo", &theirs, &err));
	else theirs = must_open(other, "demo");
	write_all(theirs, FILES, 2 * FILES);
	cb_box_close(theirs);
	cb_store_close(other);
	go_on(s, b);
	for (unsigned i = 20; i < 20 + 2 * FILES; i++) check_large(b, i);
	cb_box_close(b);
	cb_store_close(s);
	check_store(test_store_path(), backup ? 0 : FILES, 2 * FILES);
	check_store(old_path(), 20, 20 + 2 * FILES);
}

TEST(another_store_in_its_place)
{
	in_its_place(false);
}

TEST(its_backup_in_its_place)
{
	in_its_place(true);
}

TEST(moved_only)
{
	cb_store *s = test_store_open(false), *again = NULL;
	cb_box *b = NULL, *b2 = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	write_all(b, 0, FILES);
	CHECK(rename(test_store_path(), old_path()) == 0);
	for (unsigned i = 0; i < FILES; i++) check_large(b, i);
	/* Both are handles of one store, which see each other. */
	CHECK_OK(cb_store_open(old_path(), NULL, &again, &err));
	b2 = must_open(again, "demo");
	write_large(b2, FILES);
	check_large(b, FILES);
	go_on(s, b);
	for (unsigned i = 20; i < 20 + 2 * FILES; i++) check_large(b2, i);
	cb_box_close(b2);
	cb_store_close(again);
	cb_box_close(b);
	cb_store_close(s);
	CHECK(access(test_store_path(), F_OK) != 0);
	check_store(old_path(), 20, 20 + 2 * FILES);
}

TEST(a_child_of_the_process)
{
	cb_store *s = test_store_open(false), *other = NULL;
	cb_box *b = NULL, *theirs = NULL;
	int status = 0;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	write_all(b, 0, FILES);
	CHECK(rename(test_store_path(), old_path()) == 0);
	CHECK_OK(cb_store_open(test_store_path(), NULL, &other, &err));
	CHECK_OK(cb_box_create(other, "demo", &theirs, &err));
	write_all(theirs, FILES, 2 * FILES);
	pid_t child = fork();
	if (child == 0) {
		for (unsigned i = 0; i < FILES; i++) check_large(b, i);
		write_large(b, 20);
		cb_box_close(b);
		cb_store_close(s);
		_exit(0); /* a CHECK that fails ends it otherwise */
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	check_large(b, 20);
	cb_box_close(theirs);
	cb_store_close(other);
	cb_box_close(b);
	cb_store_close(s);
	check_store(test_store_path(), FILES, 2 * FILES);
	check_store(old_path(), 20, 21);
}

static void remove_store(void)
{
	char line[4300];
	(void)snprintf(line, sizeof(line), "rm -rf '%s'", test_store_path());
	CHECK(system(line) == 0);
}

/* What is written into files without a name is lost, so nothing of it is acknowledged. */
TEST(removed)
{
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/small", "small");
	write_large(b, 0);
	cb_box_close(b);
	cb_store_close(s);
	s = test_store_reopen();
	b = must_open(s, "demo");
	remove_store();
	CHECK_CODE(cb_write_file(b, "/work/small", "later", 5, NULL, &err), CB_IO);
	CHECK_MSG(strstr(err.message, "was removed while it was open") != NULL, "%s", err.message);
	CHECK_CODE(cb_read_file(b, "/work/large0", &(char *){0}, NULL, &err), CB_IO);
	CHECK_MSG(strstr(err.message, "was removed while it was open") != NULL, "%s", err.message);
	CHECK_CODE(cb_store_gc(s, NULL, &err), CB_IO);
	CHECK_CODE(cb_store_vacuum(s, &err), CB_IO);
	CHECK_CODE(cb_store_sync(s, &err), CB_IO);
	cb_box_close(b);
	cb_store_close(s);
	CHECK(access(test_store_path(), F_OK) != 0);
}

TEST(database_replaced)
{
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	char copy[4200], line[9000];
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/small", "small");
	(void)snprintf(copy, sizeof(copy), "%s/copy", test_tmpdir());
	CHECK_OK(cb_store_backup(s, copy, &err));
	(void)snprintf(line, sizeof(line), "mv '%s/cowbox.db' '%s/cowbox.db'", copy, test_store_path());
	CHECK(system(line) == 0);
	CHECK_CODE(cb_write_file(b, "/work/small", "later", 5, NULL, &err), CB_IO);
	CHECK_MSG(strstr(err.message, "was replaced while it was open") != NULL, "%s", err.message);
	cb_box_close(b);
	cb_store_close(s);
}
