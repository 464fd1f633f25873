/*
 * A log that was cut at rest to its header or less, or replaced by something short, was taken for one that holds nothing: boxes and flushed
 * checkpoints vanished without a word, and a gc removed their segments.
 */
#include <unistd.h>

#include "harness/boxes.h"

enum { LARGE = 200000 };

static void run(const char *command)
{
	CHECK_MSG(system(command) == 0, "%s", command);
}

static void fill(void)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	char *large = test_keep(calloc(1, LARGE));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "precious");
	CHECK_OK(cb_write_file(b, "/work/large", large, LARGE, NULL, &err));
	CHECK_OK(cb_checkpoint_save(b, "safe", 0, false, &err));
	cb_box_close(b);
	cb_store_close(s);
	CHECK(chdir(test_tmpdir()) == 0 && setenv("STORE", test_store_path(), 1) == 0);
	run("cp -a \"$STORE\" whole");
}

static cb_code open_it(const cb_store_options *o, cb_store **out, cb_error *err)
{
	return cb_store_open(test_store_path(), o, out, err);
}

static void afresh(const char *how)
{
	run("rm -rf \"$STORE\" && cp -a whole \"$STORE\"");
	CHECK(chdir(test_store_path()) == 0);
	run(how);
	CHECK(chdir(test_tmpdir()) == 0);
}

/* However it is opened, and again: nothing is changed. */
static void is_refused(const char *how)
{
	afresh(how);
	run("rm -rf before && cp -a \"$STORE\" before");
	for (unsigned i = 0; i < 8; i++) {
		cb_store *s = NULL;
		cb_error err = {0};
		cb_code code = open_it(&CB_WITH(cb_store_options, .read_only = i % 4 == 1, .or_read_only = i % 4 == 2), &s, &err);
		CHECK_MSG(code == CB_CORRUPT && strstr(err.message, "restore a backup"), "%s: %s: %s", how, cb_code_name(code),
		          err.message);
	}
	run("diff -r -x live -x cowbox.db-shm -x cowbox.db-wal \"$STORE\" before");
	run("test ! -e before/cowbox.db-wal || cmp before/cowbox.db-wal \"$STORE/cowbox.db-wal\"");
}

TEST(cut_or_replaced)
{
	fill();
	is_refused("truncate -s 0 cowbox.db-wal");
	is_refused("truncate -s 1 cowbox.db-wal");
	is_refused("truncate -s 31 cowbox.db-wal");
	is_refused("truncate -s 32 cowbox.db-wal");
	is_refused("truncate -s 33 cowbox.db-wal");
	is_refused("truncate -s 5000 cowbox.db-wal");
	is_refused("echo hello > cowbox.db-wal");
	is_refused("head -c 32 /dev/urandom > cowbox.db-wal");
	is_refused("rm cowbox.db-shm; truncate -s 0 cowbox.db-wal");
	/* Nothing was folded yet: the database has no table. */
	is_refused("head -c 32 /dev/zero | dd of=cowbox.db-wal conv=notrunc status=none");
	is_refused("rm live cowbox.db-shm; : > cowbox.db-wal");
	is_refused("rm cowbox.db-wal");
}

static void goes_on(bool read_only)
{
	cb_store *s = NULL;
	cb_error err = {0};
	CHECK_OK(open_it(&CB_WITH(cb_store_options, .read_only = read_only), &s, &err));
	cb_box *b = must_open(s, "demo@safe");
	CHECK_STR(must_read(b, "/work/f"), "precious");
	cb_box_close(b);
	if (!read_only) test_store_sound(s);
	cb_store_close(s);
}

/* `sqlite3` folds the log and removes it. Who opens the store then makes an empty one, and may be killed before he writes to it. */
TEST(removed_by_sqlite3)
{
	if (system("command -v sqlite3 >/dev/null") != 0) test_skip("there is no sqlite3 here");
	fill();
	for (unsigned i = 0; i < 2; i++) {
		afresh("sqlite3 cowbox.db 'pragma journal_mode=delete; pragma journal_mode=wal' >/dev/null && test ! -e "
		       "cowbox.db-wal");
		goes_on(i == 1);
		run("test -e \"$STORE/cowbox.db-wal\" || : > \"$STORE/cowbox.db-wal\"");
		goes_on(i == 1);
		goes_on(false);
	}
}

/* Used once it removes the log, used again it makes an empty one, which is there while it reads, and when it is killed then. */
TEST(read_by_sqlite3)
{
	if (system("command -v sqlite3 >/dev/null") != 0) test_skip("there is no sqlite3 here");
	fill();
	for (unsigned i = 0; i < 2; i++) {
		afresh("sqlite3 cowbox.db 'select count(*) from step' >/dev/null && test ! -e cowbox.db-wal");
		run("{ printf 'begin; select count(*) from step;\\n.shell kill -9 $PPID\\n' | sqlite3 \"$STORE/cowbox.db\"; } "
		    ">/dev/null 2>&1; "
		    "test -e \"$STORE/cowbox.db-wal\" && test ! -s \"$STORE/cowbox.db-wal\"");
		goes_on(i == 1);
		goes_on(false);
	}
}

/* Folded once, then there was more: what the database has is too old, whatever became of the log. */
TEST(lost_after_it_was_folded)
{
	fill();
	cb_store *s = NULL;
	cb_error err = {0};
	for (unsigned i = 0; i < 2; i++) {
		run("rm -rf \"$STORE\" && cp -a whole \"$STORE\"");
		CHECK_OK(open_it(NULL, &s, &err));
		CHECK_OK(cb_store_vacuum(s, &err));
		cb_box *b = must_open(s, "demo");
		if (i == 0) must_write(b, "/work/f", "more precious");
		else CHECK_OK(cb_checkpoint_save(b, "later", 0, false, &err));
		cb_box_close(b);
		cb_store_close(s);
		run("rm -rf whole && cp -a \"$STORE\" whole");
		is_refused("rm cowbox.db-wal");
		is_refused("rm cowbox.db-wal cowbox.db-shm");
		is_refused("truncate -s 0 cowbox.db-wal");
		is_refused("head -c 32 /dev/zero | dd of=cowbox.db-wal conv=notrunc status=none");
		is_refused("dd if=/dev/zero of=cowbox.db-wal bs=4096 count=1 conv=notrunc status=none");
		is_refused("truncate -s 32 cowbox.db-wal");
		is_refused("truncate -s 100 cowbox.db-wal");
	}
}

/* It cuts the log under a process that has the store open, which writes nothing after that. */
TEST(cut_by_sqlite3)
{
	if (system("command -v sqlite3 >/dev/null") != 0) test_skip("there is no sqlite3 here");
	fill();
	cb_store *s = NULL;
	cb_error err = {0};
	CHECK_OK(open_it(NULL, &s, &err));
	run("sqlite3 \"$STORE/cowbox.db\" 'pragma wal_checkpoint(truncate)' >/dev/null && test ! -s \"$STORE/cowbox.db-wal\"");
	goes_on(true);
	cb_store_close(s);
	goes_on(true);
	goes_on(false);
}

/* One that was folded holds nothing, and is whole. */
TEST(folded)
{
	fill();
	cb_store *s = NULL;
	cb_error err = {0};
	CHECK_OK(open_it(NULL, &s, &err));
	CHECK_OK(cb_store_vacuum(s, &err));
	cb_store_close(s);
	run("test -s \"$STORE/cowbox.db-wal\"");
	goes_on(true);
	goes_on(false);
}
