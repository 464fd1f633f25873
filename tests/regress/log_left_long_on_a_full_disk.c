/*
 * log_left_long_on_a_full_disk.c: on a full disk a step could not be recorded after processes were killed.
 *
 * Short of room, the log was folded after a commit and by whoever made it; the next transaction counted on that. But it may be left as it
 * is: readers see less of it, another process is folding (SQLite then says "busy" at once), or the writer is killed before. The log went on
 * to where no room was left, and the next transaction, of whatever need, was refused, although nobody was left that kept the log from
 * beginning anew. A fault plan stands for the disk.
 */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/test_store_kit.h"

enum { MOST = 20000 };

static store_fault_plan full = {.op[STORE_FAULT_ALLOCATE] = {.fail_at = 1, .error = ENOSPC, .lasting = true}};

static store *open_store(store_fault_plan *plan)
{
	return open_at(folder(), plan);
}

static cb_code set(store *s, store_need need, unsigned value)
{
	char text[16];
	(void)snprintf(text, sizeof text, "%08u", value);
	CB_TRY(store_write_begin_as(s, need, &err));
	CHECK_OK(store_setting_set(s, 0, "key", text, &err));
	return store_write_commit(s, false, &err);
}

static void with_room(void)
{
	store *s = open_store(NULL);
	for (unsigned i = 0; i < 100; i++) CHECK_OK(set(s, STORE_GROWS, i));
	store_close(s);
}

/* Sees the log as it is now, until its process ends. */
static void reader_stays(void)
{
	sqlite3 *db = NULL;
	CHECK(sqlite3_open_v2(in_folder("cowbox.db"), &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
	CHECK(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM meta", NULL, NULL, NULL) == SQLITE_OK);
}

static void write_until_refused_and_die(void)
{
	store *s = open_store(&full);
	CHECK_OK(set(s, STORE_SHRINKS, 0));
	reader_stays();
	cb_code code = CB_OK;
	for (unsigned i = 1; code == CB_OK && i < MOST; i++) code = set(s, STORE_SHRINKS, i);
	if (code == CB_NOSPACE) (void)raise(SIGKILL);
	_exit(1);
}

static void after_a_killed_writer(store_need need)
{
	int status = 0;
	with_room();
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) write_until_refused_and_die();
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the log never got long");
	store *s = open_store(&full);
	CHECK_OK(set(s, need, 1));
	for (unsigned i = 0; i < 2000; i++) CHECK_OK(set(s, STORE_GROWS, i));
	store_close(s);
}

TEST(what_records_follows_a_killed_writer)
{
	after_a_killed_writer(STORE_SHRINKS);
}

TEST(what_grows_follows_a_killed_writer)
{
	after_a_killed_writer(STORE_GROWS);
}

/* The lock of whoever folds, until nothing has happened for a while: then the writer waits for it. */
static void fold_slowly(_Atomic unsigned *done, int tell)
{
	enum { FOLDER_BYTE = 121 };
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FOLDER_BYTE, .l_len = 1};
	int fd = open(in_folder("cowbox.db-shm"), O_RDWR | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_SETLK, &l) != 0 || write(tell, "", 1) != 1) _exit(1);
	for (unsigned seen = 0, still = 0; still < 10; still++) {
		(void)usleep(50000);
		if (atomic_load(done) != seen) still = 0;
		seen = atomic_load(done);
	}
	_exit(0);
}

static void while_another_folds(store_need need)
{
	int ends[2], status = 0;
	char byte = 0;
	_Atomic unsigned *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(done != MAP_FAILED && pipe(ends) == 0);
	with_room();
	store *s = open_store(&full);
	CHECK_OK(set(s, STORE_GROWS, 0));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) fold_slowly(done, ends[1]);
	CHECK(read(ends[0], &byte, 1) == 1);
	for (unsigned i = 0; i < 2000; i++, atomic_store(done, i)) CHECK_OK(set(s, need, i));
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	store_close(s);
}

TEST(what_records_waits_for_who_folds)
{
	while_another_folds(STORE_SHRINKS);
}

TEST(what_grows_waits_for_who_folds)
{
	while_another_folds(STORE_GROWS);
}
