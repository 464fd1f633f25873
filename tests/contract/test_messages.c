/*
 * test_messages.c: what went wrong is told by the right code, names the thing, and says what to do next where that is known.
 */
#include "contract/test_docs_kit.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>

static cb_store *s;
static cb_box *b;
static cb_error err;

static void begin(bool memory)
{
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
}

static void finish(void)
{
	cb_box_close(b);
	cb_store_close(s);
}

static void must_say(cb_code code, cb_code expected, const char *message)
{
	CHECK_MSG(code == expected, "%s (%s)", cb_code_name(code), err.message);
	CHECK_MSG(strstr(err.message, message), "'%s' says not '%s'", err.message, message);
	err = (cb_error){0};
}

TEST(steps)
{
	begin(true);
	size_t size = (1 << 20) + 1;
	char *large = test_keep(malloc(size + 1));
	memset(large, 'k', size);
	large[size] = 0;
	must_say(cb_step_record(b, &CB_WITH(cb_step_info, .params_size = 5), NULL, &err), CB_INVALID,
	         "the argument 'params' is NULL");
	must_say(cb_step_record(b, &CB_WITH(cb_step_info, .result_size = 5), NULL, &err), CB_INVALID,
	         "the argument 'result' is NULL");
	must_say(cb_step_record(b, &CB_WITH(cb_step_info, .kind = large), NULL, &err), CB_LIMIT, "the kind of a step");
	finish();
}

TEST(an_edit_of_too_much)
{
	begin(true);
	size_t size = 65 << 20;
	char *large = test_keep(malloc(size));
	memset(large, 'x', size);
	cb_replacement r = {large, size, "y", 1};
	must_say(cb_edit(b, "/work/a", &r, 1, NULL, NULL, &err), CB_NOTFOUND,
	         "'/work/a': the old text has 68157440 bytes, and files up to 67108864 are edited");
	finish();
}

TEST(a_trial_in_an_odd_folder)
{
	static const char *const folders[] = {"", ".", "x", "/nowhere/x", "/"};
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		cb_tier_report report = CB_INIT(cb_tier_report);
		cb_code code = cb_sandbox_try(folders[i], CB_TIER_FOLDER, &report, &err);
		CHECK_MSG(code == CB_OK || err.message[0], "'%s'", folders[i]); /* the sanitizer looks on */
		err = (cb_error){0};
	}
}

TEST(exports_to_where_nothing_can_be)
{
	begin(true);
	cb_code code = cb_export(b, "/work", "/proc/x", NULL, NULL, &err);
	CHECK_MSG(code != CB_OK && code != CB_EXISTS && err.os_error != 0, "%s: %s", cb_code_name(code), err.message);
	err = (cb_error){0};
	must_say(cb_export(b, "/work", "/dev/null/x", NULL, NULL, &err), CB_NOTDIR, "/dev/null");
	must_say(cb_export(b, "/work", "/dev/null", NULL, NULL, &err), CB_EXISTS, "'/dev/null' exists and is no folder");
	finish();
}

TEST(parents_that_are_missing)
{
	cb_store *other = NULL;
	begin(false);
	must_say(cb_store_open(text_of("%s/not/there", test_tmpdir()), NULL, &other, &err), CB_NOTFOUND,
	         "the folder above it is not there: make that first");
	must_say(cb_store_backup(s, text_of("%s/not/there", test_tmpdir()), &err), CB_NOTFOUND,
	         "the folder above it is not there: make that first");
	finish();
}

TEST(folders_of_something_else)
{
	cb_store *other = NULL;
	const char *folder = text_of("%s/photos", test_tmpdir());
	CHECK(mkdir(folder, 0755) == 0);
	write_text(text_of("%s/a.jpg", folder), "x");
	for (int i = 0; i < 2; i++) {
		for (int how = 0; how < 3; how++) {
			cb_store_options o = CB_WITH(cb_store_options, .no_create = how == 1, .read_only = how == 2);
			must_say(cb_store_open(folder, &o, &other, &err), CB_FOREIGN,
			         "holds something else and is no cowbox store: choose another folder");
		}
		CHECK_STR(must_run(text_of("ls -A %s", folder)), "a.jpg\n"); /* nothing was made in it */
		CHECK(chmod(folder, 0700) == 0);                             /* and once more where it is closed to others */
	}
	must_say(cb_store_open("/etc", NULL, &other, &err), CB_FOREIGN, "'/etc' holds something else");
}

TEST(open_files_that_conflict)
{
	cb_file *f = NULL;
	begin(true);
	cb_box *other = must_open(s, "demo");
	CHECK_OK(cb_open(b, "/work/a", CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_write(f, "mine", 4, &err));
	must_write(other, "/work/a", "yours");
	must_say(cb_close(f, &err), CB_CONFLICT, "dropped (cb_txn_commit, cb_txn_keep, cb_txn_drop): conflict in /work/a");
	CHECK_OK(cb_txn_drop(b, &err));
	cb_box_close(other);
	finish();
}

static cb_code see(void *context, const cb_grep_line *line, cb_error *e)
{
	(void)context;
	(void)line;
	(void)e;
	return CB_OK;
}

TEST(damaged_files)
{
	char file[4300], byte;
	size_t size = 0;
	char *text = NULL;
	cb_file *f = NULL;
	sqlite3 *db = NULL;
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	char *large = test_keep(calloc(1, 4000));
	memset(large, 'x', 3999);
	must_write(b, "/work/a", large);
	finish();
	(void)snprintf(file, sizeof(file), "%.4200s/cowbox.db", test_store_path());
	CHECK(sqlite3_open(file, &db) == SQLITE_OK);
	CHECK(sqlite3_exec(db, "UPDATE content SET sum=sum+1", NULL, NULL, NULL) == SQLITE_OK && sqlite3_close(db) == SQLITE_OK);
	s = test_store_reopen();
	b = must_open(s, "demo");
	must_say(cb_read_file(b, "/work/a", &text, &size, &err), CB_CORRUPT, "'/work/a': ");
	must_say(cb_read_file(b, "/work/a", &text, &size, &err), CB_CORRUPT,
	         "check the store (fsck), and take the file from another state or a backup");
	must_say(cb_read_at(b, "/work/a", 0, &byte, 1, &size, &err), CB_CORRUPT, "'/work/a': ");
	CHECK_OK(cb_open(b, "/work/a", CB_READ, 0, &f, &err));
	must_say(cb_read(f, &byte, 1, &size, &err), CB_CORRUPT, "'/work/a': ");
	CHECK_OK(cb_close(f, &err));
	cb_replacement r = {"y", 1, "z", 1};
	must_say(cb_edit(b, "/work/a", &r, 1, NULL, NULL, &err), CB_CORRUPT, "'/work/a': ");
	must_say(cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = "x"), see, NULL, NULL, &err), CB_CORRUPT, "'/work/a': ");
	must_say(cb_export(b, "/work", text_of("%s/out", test_tmpdir()), NULL, NULL, &err), CB_CORRUPT, "'/work/a': ");
	cb_box *old = must_open(s, "demo@0");
	must_say(cb_diff_text(old, b, NULL, &text, &size, &err), CB_CORRUPT, "'/work/a': ");
	cb_box_close(old);
	finish();
}

TEST(a_pattern_that_is_too_large)
{
	begin(true);
	char *pattern = test_keep(calloc(1, 32768 + 1));
	memset(pattern, 'a', 32768);
	must_say(cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = pattern), see, NULL, NULL, &err), CB_LIMIT, "too large");
	finish();
}
