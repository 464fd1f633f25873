/*
 * A database cut to nothing, or to one byte, which SQLite takes for nothing, was taken for a store that is yet to be made: an empty one was
 * made over it, and with it went the log that still held everything.
 */
#include <unistd.h>

#include "harness/boxes.h"

static void run(const char *command)
{
	CHECK_MSG(system(command) == 0, "%s", command);
}

/* A box with a flushed checkpoint, at rest; folded: all of it is in the database. */
static void fill(bool folded)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "precious");
	CHECK_OK(cb_checkpoint_save(b, "safe", 0, false, &err));
	cb_box_close(b);
	if (folded) CHECK_OK(cb_store_vacuum(s, &err));
	cb_store_close(s);
	CHECK(setenv("STORE", test_store_path(), 1) == 0 && chdir(test_tmpdir()) == 0);
	run("cp -a \"$STORE\" whole");
}

/* However it is opened; and nothing is changed, so that a backup of the database makes it whole. */
static void is_refused(const char *how, cb_code expected)
{
	run("rm -rf \"$STORE\" before && cp -a whole \"$STORE\"");
	CHECK(chdir(test_store_path()) == 0);
	run(how);
	CHECK(chdir(test_tmpdir()) == 0);
	run("cp -a \"$STORE\" before");
	for (unsigned i = 0; i < 4; i++) {
		cb_store *s = NULL;
		cb_error err = {0};
		cb_store_options o = CB_WITH(cb_store_options, .read_only = i == 1, .or_read_only = i == 2, .no_create = i == 3);
		cb_code code = cb_store_open(test_store_path(), &o, &s, &err);
		CHECK_MSG(code == expected, "%s: %s: %s", how, cb_code_name(code), err.message);
		CHECK_MSG(expected != CB_CORRUPT || strstr(err.message, "restore a backup"), "%s: %s", how, err.message);
	}
	run("diff -r -x locks -x live -x cowbox.db-shm \"$STORE\" before");
}

static void cut_in_each_way(void)
{
	is_refused("truncate -s 0 cowbox.db", CB_CORRUPT);
	is_refused("truncate -s 1 cowbox.db", CB_CORRUPT);
	is_refused("printf x > cowbox.db", CB_CORRUPT);
	is_refused("rm cowbox.db", CB_CORRUPT);
	is_refused("rm cowbox.db; mkdir work", CB_CORRUPT);
	is_refused("rm live inuse locks; truncate -s 0 cowbox.db", CB_CORRUPT);
	is_refused("rm numbers; truncate -s 1 cowbox.db", CB_CORRUPT);
	is_refused("rm cowbox.db-*; truncate -s 1 cowbox.db", CB_CORRUPT);
	is_refused("rm cowbox.db*", CB_CORRUPT);
	is_refused("truncate -s 2 cowbox.db", CB_CORRUPT);
	is_refused("truncate -s 99 cowbox.db", CB_CORRUPT);
	is_refused("truncate -s 100 cowbox.db", CB_CORRUPT);
}

TEST(with_all_in_the_log)
{
	fill(false);
	cut_in_each_way();
}

TEST(with_all_in_the_database)
{
	fill(true);
	cut_in_each_way();
	/* Here the log has no other page 1. */
	is_refused("truncate -s 600 cowbox.db", CB_CORRUPT);
	is_refused("truncate -s 4095 cowbox.db", CB_CORRUPT);
}

/* Somebody's own file of that name. */
TEST(one_byte_of_somebody)
{
	fill(false);
	is_refused("rm -rf *; printf x > cowbox.db", CB_FOREIGN);
}
