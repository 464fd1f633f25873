/*
 * test_read_only.c: a store where nothing can be written can be read, whatever the last writer left beside the database; what writes says
 * why it cannot; and a read-only view of a store that others write never shows anything but a state there was.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/disks.h"
#include "harness/hosttrees.h"
#include "harness/mounts.h"
#include "harness/sql.h"

enum { OTHER_UID = 12345 };

static char large[200001];

static const char *folder(void)
{
	return test_keep(strdup(host_text("%s/store", test_tmpdir())));
}

static cb_store *open_writing(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(folder(), NULL, &s, &err));
	return s;
}

static void fill(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	must_write(b, "/work/a", "two");
	must_write(b, "/work/large", large); /* in a segment */
	CHECK_OK(cb_checkpoint_save(b, "named", 3, true, &err));
	cb_box_close(b);
}

/* Dies with a log that nobody folded. */
static void fill_and_die(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		fill(open_writing());
		(void)kill(getpid(), SIGKILL);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static const char *file(const char *name)
{
	return host_text("%s/store/%s", test_tmpdir(), name);
}

static void fold(void)
{
	sqlite3 *db = test_sql_open(file("cowbox.db"));
	CHECK(sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) == SQLITE_OK);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

/* What the last writer left, in all combinations. */
typedef enum remains { BOTH, NO_INDEX, NO_LOG, NEITHER, EMPTY_LOG, EMPTY_LOG_NO_INDEX, REMAINS } remains;

static void leave(remains r)
{
	memset(large, 'x', sizeof(large) - 1);
	fill_and_die();
	if (r != BOTH && r != NO_INDEX) fold();
	if (r == NO_LOG || r == NEITHER) CHECK(unlink(file("cowbox.db-wal")) == 0);
	if (r == NO_INDEX || r == NEITHER || r == EMPTY_LOG_NO_INDEX) CHECK(unlink(file("cowbox.db-shm")) == 0);
}

static void check_state(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = must_open(s, "demo"), *old = must_open(s, "demo@1"), *named = must_open(s, "demo@named");
	CHECK_STR(must_read(b, "/work/a"), "two");
	CHECK(strcmp(must_read(b, "/work/large"), large) == 0);
	CHECK_STR(must_read(old, "/work/a"), "one");
	CHECK_STR(must_read(named, "/work/a"), "two");
	test_store_sound(s);
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK_U64(stats.boxes, 1);
	cb_box_close(named);
	cb_box_close(old);
	cb_box_close(b);
}

static void check_refusals(cb_store *s, const char *why)
{
	cb_error err = {0};
	cb_box *b = must_open(s, "demo");
	CHECK_CODE(cb_write_file(b, "/work/a", "x", 1, NULL, &err), CB_READONLY);
	CHECK_MSG(strstr(err.message, why), "%s", err.message);
	cb_file *f = NULL; /* at once, and not when it is closed */
	CHECK_CODE(cb_open(b, "/work/a", CB_READ | CB_WRITE, 0, &f, &err), CB_READONLY);
	CHECK_MSG(strstr(err.message, why), "%s", err.message);
	CHECK_CODE(cb_box_create(s, "other", NULL, &err), CB_READONLY);
	CHECK_MSG(strstr(err.message, why), "%s", err.message);
	CHECK_CODE(cb_store_gc(s, NULL, &err), CB_READONLY);
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_READONLY);
	CHECK_CODE(cb_box_delete(s, "demo", &err), CB_READONLY);
	cb_box_close(b);
}

static cb_store *open_reading(const char *path)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(path, &CB_WITH(cb_store_options, .or_read_only = true, .no_create = true), &s, &err));
	return s;
}

/* Who wants to write is told what is wrong and what to do, not which file was met first. */
static void refuse_writer(const char *place)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_CODE(cb_store_open(place, NULL, &s, &err), CB_READONLY);
	CHECK_MSG(strstr(err.message, "is on a read-only filesystem: open it for reading"), "%s", err.message);
	CHECK_U64((uint64_t)err.os_error, EROFS);
}

static void on_a_read_only_filesystem(remains r)
{
	cb_error err = {0};
	cb_store *s = NULL;
	mounts_own();
	leave(r);
	const char *place = folder(), *before = host_dump(place);
	mounts_read_only(place);
	s = open_reading(place);
	check_state(s);
	check_refusals(s, "read-only filesystem");
	/* Twice at once, and by those who only asked for reading. */
	cb_store *second = NULL;
	CHECK_OK(cb_store_open(place, &CB_WITH(cb_store_options, .read_only = true), &second, &err));
	check_state(second);
	cb_store_close(second);
	cb_store_close(s);
	refuse_writer(place);
	mounts_writable(place);
	CHECK_STR(host_dump(place), before);
	s = open_reading(place); /* writable again, so it is */
	cb_box *b = must_open(s, "demo");
	must_write(b, "/work/a", "two");
	cb_box_close(b);
	check_state(s);
	cb_store_close(s);
}

TEST(filesystem_log_and_index)
{
	on_a_read_only_filesystem(BOTH);
}

TEST(filesystem_log_without_index)
{
	on_a_read_only_filesystem(NO_INDEX);
}

TEST(filesystem_index_without_log)
{
	on_a_read_only_filesystem(NO_LOG);
}

TEST(filesystem_neither)
{
	on_a_read_only_filesystem(NEITHER);
}

TEST(filesystem_empty_log)
{
	on_a_read_only_filesystem(EMPTY_LOG);
}

TEST(filesystem_empty_log_without_index)
{
	on_a_read_only_filesystem(EMPTY_LOG_NO_INDEX);
}

/* ---- no right to write ---- */

static void as_another(const char *place)
{
	if (geteuid() == 0) host_shell("chmod 755 '%s' && chown -R %d:%d '%s'", test_tmpdir(), OTHER_UID, OTHER_UID, place);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		if (geteuid() == 0)
			CHECK(setresgid(OTHER_UID, OTHER_UID, OTHER_UID) == 0 && setresuid(OTHER_UID, OTHER_UID, OTHER_UID) == 0);
		cb_store *s = open_reading(place);
		check_state(s);
		check_refusals(s, "cannot be written by you");
		cb_store_close(s);
		cb_error err = {0};
		CHECK(cb_store_open(place, NULL, &s, &err) != CB_OK);
		CHECK_MSG(strstr(err.message, "cannot be written by you: see to its rights, or open it for reading"), "%s",
		          err.message);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_U64(status, 0);
}

TEST(folder_without_write_permission)
{
	for (int r = BOTH; r < REMAINS; r++) {
		host_shell("chmod -R u+w '%s'; rm -rf '%s/store'", test_tmpdir(), test_tmpdir());
		leave((remains)r);
		host_shell("chmod -R a-w '%s'", folder());
		as_another(folder());
	}
	host_shell("chmod -R u+w '%s'", test_tmpdir());
}

TEST(files_without_write_permission)
{
	leave(NEITHER);
	host_shell("cd '%s' && chmod a-w cowbox.db locks", folder());
	as_another(folder());
}

/* The table of states in use is for who writes the folder; a reader does without. */
TEST(table_without_write_permission)
{
	leave(BOTH);
	host_shell("chmod 400 '%s/inuse'", folder());
	as_another(folder());
}

/* The kernel made it read-only; the rights, and the mount's options, say that it can be written. */
TEST(filesystem_with_an_error)
{
	disk d;
	struct stat st;
	char device[64], link[256] = {0};
	disk_make(&d, DISK_EXT4_JOURNAL, 64 << 20);
	CHECK(stat(d.mount, &st) == 0);
	(void)snprintf(device, sizeof(device), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	CHECK(readlink(device, link, sizeof(link) - 1) > 0);
	if (mount(NULL, d.mount, NULL, MS_REMOUNT, "errors=remount-ro") != 0) test_skip("it cannot be remounted");
	memset(large, 'x', sizeof(large) - 1);
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(d.folder, NULL, &s, &err));
	fill(s);
	cb_store_close(s);
	if (system(host_text("echo x > /sys/fs/ext4/%s/trigger_fs_error", strrchr(link, '/') + 1)) != 0)
		test_skip("no error can be made up here");
	s = open_reading(d.folder);
	check_state(s);
	check_refusals(s, "read-only filesystem");
	cb_store_close(s);
	refuse_writer(d.folder);
	disk_unmount(&d);
}

/* ---- a view of a store that others write ---- */

static const char *view(void)
{
	const char *to = host_text("%s/view", test_tmpdir());
	CHECK(mkdir(to, 0700) == 0 && mount(folder(), to, NULL, MS_BIND, NULL) == 0);
	CHECK(mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0);
	return test_keep(strdup(to));
}

/* Another process writes what it is told to: within one, SQLite shares what it knows of a file between all who have it open. */
typedef struct writer {
	pid_t pid;
	int to[2], from[2];
} writer;

static void writer_start(writer *w)
{
	CHECK(pipe2(w->to, O_CLOEXEC) == 0 && pipe2(w->from, O_CLOEXEC) == 0);
	w->pid = fork();
	CHECK(w->pid >= 0);
	if (w->pid) return;
	char text[32];
	cb_store *s = NULL;
	cb_box *b = NULL;
	CHECK(close(w->to[1]) == 0);
	while (read(w->to[0], text, sizeof(text)) == (ssize_t)sizeof(text)) {
		if (!s) s = open_writing();
		if (!b) b = must_open(s, "demo");
		if (strcmp(text, "fold") == 0) fold();
		else must_write(b, "/work/a", text);
		CHECK(write(w->from[1], "x", 1) == 1);
	}
	cb_box_close(b);
	cb_store_close(s);
	_exit(0);
}

static void writer_tell(const writer *w, const char *what)
{
	char text[32] = "", answer;
	(void)snprintf(text, sizeof(text), "%s", what);
	CHECK(write(w->to[1], text, sizeof(text)) == (ssize_t)sizeof(text) && read(w->from[0], &answer, 1) == 1);
}

static void writer_end(const writer *w)
{
	int status = 0;
	CHECK(close(w->to[1]) == 0 && waitpid(w->pid, &status, 0) == w->pid);
	CHECK_U64(status, 0);
}

/* Nobody may use it when the view is opened; then somebody does. The view tells what was or what is, or that it must be opened again. */
static void view_of(remains left, bool in_use)
{
	cb_error err = {0};
	char *bytes = NULL, text[32] = "two";
	writer w;
	unsigned fresh = 0, again = 0;
	mounts_own();
	leave(left);
	const char *ro = view();
	writer_start(&w);
	if (in_use) writer_tell(&w, text);
	cb_store *r = open_reading(ro);
	cb_box *seen = must_open(r, "demo");
	CHECK_STR(must_read(seen, "/work/a"), "two");
	for (int i = 0; i < 600; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		writer_tell(&w, text);
		if (i % 100 == 50) writer_tell(&w, "fold");
		cb_code code = cb_read_file(seen, "/work/a", &bytes, NULL, &err);
		if (code == CB_OK) {
			CHECK_STR(bytes, text);
			cb_free(bytes);
			fresh++;
			continue;
		}
		CHECK_MSG(code == CB_BUSY && strstr(err.message, "open it again"), "%s: %s", cb_code_name(code), err.message);
		again++;
		cb_box_close(seen);
		cb_store_close(r);
		r = open_reading(ro);
		seen = must_open(r, "demo");
		CHECK_STR(must_read(seen, "/work/a"), text);
	}
	test_note("fresh %u times, opened again %u times", fresh, again);
	CHECK(fresh > 500);
	writer_end(&w);
	CHECK_STR(must_read(seen, "/work/a"), text);
	cb_box_close(seen);
	cb_store_close(r);
}

TEST(view_of_a_store_in_use)
{
	view_of(BOTH, true);
}

TEST(view_opened_before_with_log_and_index)
{
	view_of(BOTH, false);
}

TEST(view_opened_before_without_index)
{
	view_of(NO_INDEX, false);
}

TEST(view_opened_before_without_log)
{
	view_of(NO_LOG, false);
}

TEST(view_opened_before_with_neither)
{
	view_of(NEITHER, false);
}
