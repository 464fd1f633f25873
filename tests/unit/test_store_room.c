/*
 * test_store_room.c: room on the disk ahead of need (room.h), with a plan in place of a full disk: what an ordinary transaction is refused,
 * what the others may use, what stays allocated when a store is closed; and emptying the log's index by SQLite's own locks (held.h).
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/test_store_kit.h"
#include "harness/disks.h"
#include "harness/sql.h"
#include "store/room.h"

enum { NODE_BYTES = 2000, MOST = 100000 };

static store *open_store(store_fault_plan *plan)
{
	return open_at(folder(), plan);
}

/* A transaction that takes some pages. */
static cb_code grow(store *s, store_need need, unsigned nodes)
{
	static uint8_t bytes[NODE_BYTES];
	uint64_t id = 0;
	CB_TRY(store_write_begin_as(s, need, &err));
	for (unsigned i = 0; i < nodes; i++) CHECK_OK(store_node_put(s, span_make(bytes, sizeof bytes), &id, &err));
	return store_write_commit(s, false, &err);
}

static unsigned grow_until_refused(store *s, store_need need)
{
	for (unsigned i = 0; i < MOST; i++) {
		cb_code code = grow(s, need, 10);
		if (code == CB_OK) continue;
		CHECK_CODE(code, CB_NOSPACE);
		return i;
	}
	test_fail(__FILE__, __LINE__, "never refused");
}

static cb_code set(store *s, const char *value)
{
	CB_TRY(store_write_begin(s, &err));
	CHECK_OK(store_setting_set(s, 0, "key", value, &err));
	return store_write_commit(s, false, &err);
}

static void complain(void *context, const char *line)
{
	(void)context;
	test_fail(__FILE__, __LINE__, "%s", line);
}

static bool keep_none(void *context, bool is_node, uint64_t id)
{
	(void)context;
	(void)is_node;
	(void)id;
	return false;
}

TEST(each_need_has_its_share)
{
	store_fault_plan plan = {0};
	store *s = open_store(&plan);
	uint64_t horizon = 0;
	CHECK_OK(set(s, "before"));
	for (unsigned i = 0; i < 100; i++) CHECK_OK(grow(s, STORE_GROWS, 10));
	plan.op[STORE_FAULT_ALLOCATE] = (store_fault_rule){.fail_at = 1, .error = ENOSPC, .lasting = true};
	(void)grow_until_refused(s, STORE_GROWS);
	CHECK(store_is_short(s));
	unsigned shrinks = grow_until_refused(s, STORE_SHRINKS), frees = grow_until_refused(s, STORE_FREES);
	CHECK_MSG(shrinks > 5 && frees > 5, "%u and %u transactions of 20 KB", shrinks, frees);
	CHECK_CODE(grow(s, STORE_SHRINKS, 10), CB_NOSPACE);
	/* What takes no pages takes nothing away. */
	for (unsigned i = 0; i < 200; i++) CHECK_OK(set(s, i % 2 ? "odd val" : "even va"));
	/* Free pages are as good as blocks behind the end. */
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_OK(store_gc_sweep(s, horizon, keep_none, NULL, NULL, &err));
	store_gc_end(s);
	for (unsigned i = 0; i < 20; i++) CHECK_OK(grow(s, STORE_GROWS, 10));
	CHECK_OK(store_check(s, complain, NULL, &err));
	store_close(s);
	store_fault_plan_done(&plan);
}

/* The log does not grow while room is short: it is folded and begins anew, in the blocks it has. */
TEST(short_of_room_the_log_turns)
{
	store_fault_plan plan = {0};
	store *s = open_store(&plan);
	struct stat before, after;
	CHECK_OK(grow(s, STORE_GROWS, 10));
	plan.op[STORE_FAULT_ALLOCATE] = (store_fault_rule){.fail_at = 1, .error = ENOSPC, .lasting = true};
	CHECK(stat(in_folder("cowbox.db-wal"), &before) == 0);
	for (unsigned i = 0; i < 3000; i++) CHECK_OK(set(s, i % 2 ? "one" : "two"));
	CHECK(stat(in_folder("cowbox.db-wal"), &after) == 0);
	CHECK_MSG(after.st_size <= before.st_blocks * 512, "%jd bytes, %jd were allocated", (intmax_t)after.st_size,
	          (intmax_t)before.st_blocks * 512);
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(creation_without_room_is_refused_and_can_be_repeated)
{
	store_fault_plan plan = {.op[STORE_FAULT_ALLOCATE] = {.fail_at = 1, .error = ENOSPC, .lasting = true}};
	store *s = NULL;
	store_options o = {.path = folder(), .create = true, .faults = &plan};
	CHECK_CODE(store_open(&o, &s, &err), CB_NOSPACE);
	plan.op[STORE_FAULT_ALLOCATE].fail_at = 0;
	CHECK_OK(store_open(&o, &s, &err));
	CHECK_OK(set(s, "value"));
	CHECK_OK(store_check(s, complain, NULL, &err));
	store_close(s);
	store_fault_plan_done(&plan);
}

TEST(room_stays_when_the_store_is_closed)
{
	static const char *const names[] = {"cowbox.db-wal", "cowbox.db-shm", "cowbox.db"};
	struct stat before[3], after;
	store *s = open_store(NULL);
	for (unsigned i = 0; i < 60; i++) CHECK_OK(grow(s, STORE_GROWS, 10)); /* enough to be folded at the close */
	for (unsigned i = 0; i < 3; i++) CHECK(stat(in_folder(names[i]), &before[i]) == 0);
	for (unsigned round = 0; round < 6; round++) {
		store_close(s);
		for (unsigned i = 0; i < 3; i++) {
			CHECK(stat(in_folder(names[i]), &after) == 0);
			CHECK_MSG(after.st_ino == before[i].st_ino && after.st_blocks >= before[i].st_blocks,
			          "%s: %jd blocks, had %jd", names[i], (intmax_t)after.st_blocks, (intmax_t)before[i].st_blocks);
		}
		s = open_store(NULL);
		CHECK_OK(store_check(s, complain, NULL, &err));
		if (round % 2) CHECK_OK(set(s, "value"));
	}
	store_close(s);
}

/* What lies in the file behind its pages. */
static void check_zeros(uint64_t from)
{
	uint8_t bytes[4096];
	FILE *f = fopen(in_folder("cowbox.db"), "r");
	CHECK(f && fseek(f, (long)from, SEEK_SET) == 0);
	size_t all = 0;
	for (size_t n; (n = fread(bytes, 1, sizeof(bytes), f)) > 0; all += n) {
		for (size_t i = 0; i < n; i++) CHECK_MSG(bytes[i] == 0, "byte %ju", (uintmax_t)(from + all + i));
	}
	CHECK(all > 0 && fclose(f) == 0);
}

/* A program that knows nothing of the kept room finds a sound database in a file longer than its pages, and folds the log when it ends. */
static void strangers_fold(void)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;
	CHECK(sqlite3_open_v2(in_folder("cowbox.db"), &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK);
	CHECK(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW);
	CHECK_STR((const char *)sqlite3_column_text(stmt, 0), "ok");
	CHECK(sqlite3_finalize(stmt) == SQLITE_OK);
	CHECK(sqlite3_prepare_v2(db, "PRAGMA page_count", -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW);
	check_zeros((uint64_t)sqlite3_column_int64(stmt, 0) * 4096);
	CHECK(sqlite3_finalize(stmt) == SQLITE_OK);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

/* SQLite cuts the database after a vacuum. The blocks behind its new end are the kept room: nobody else may have them in between. */
TEST(a_vacuum_keeps_the_room)
{
	store_fault_plan plan = {0};
	store *s = open_store(&plan);
	uint64_t horizon = 0;
	struct stat before, after;
	store_stats stats;
	for (unsigned i = 0; i < 300; i++) CHECK_OK(grow(s, STORE_GROWS, 10));
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_OK(store_gc_sweep(s, horizon, keep_none, NULL, NULL, &err));
	store_gc_end(s);
	CHECK(stat(in_folder("cowbox.db"), &before) == 0);
	plan.op[STORE_FAULT_ALLOCATE] = (store_fault_rule){.fail_at = 1, .error = ENOSPC, .lasting = true};
	CHECK_OK(store_vacuum(s, &err));
	CHECK(stat(in_folder("cowbox.db"), &after) == 0);
	CHECK(after.st_size < before.st_size);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 5; i++) CHECK_OK(grow(s, STORE_SHRINKS, 10));
		CHECK_OK(set(s, "value"));
		CHECK_OK(store_check(s, complain, NULL, &err));
		CHECK_OK(store_stats_get(s, &stats, &err));
		CHECK_MSG(stats.database_bytes < 1 << 20, "%ju bytes in use", (uintmax_t)stats.database_bytes);
		store_close(s);
		s = open_store(&plan);
	}
	/* Also of a database that is cut to a little less than it has. */
	CHECK_OK(store_vacuum(s, &err));
	CHECK_OK(store_vacuum(s, &err));
	CHECK_OK(grow(s, STORE_SHRINKS, 10));
	CHECK_OK(store_check(s, complain, NULL, &err));
	plan.op[STORE_FAULT_ALLOCATE].fail_at = 0;
	store_close(s);
	strangers_fold();
	s = open_store(&plan);
	CHECK_OK(grow(s, STORE_GROWS, 10));
	CHECK_OK(store_check(s, complain, NULL, &err));
	store_close(s);
	store_fault_plan_done(&plan);
}

/* ---- the index, beside another program's SQLite ---- */

static int64_t ask(sqlite3 *db)
{
	return test_sql_number(db, "SELECT count(*) FROM node");
}

/* Attached and idle: without a lock but that on the index's last byte. It counts when told to, and sees every commit. */
static void stranger(int in, int out)
{
	sqlite3 *db = NULL;
	char byte;
	CHECK(sqlite3_open_v2(in_folder("cowbox.db"), &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK);
	do {
		int64_t n = ask(db);
		CHECK(write(out, &n, sizeof n) == sizeof n);
	} while (read(in, &byte, 1) == 1);
	(void)sqlite3_close(db);
	_exit(0);
}

static void stranger_sees(int to, int from, int64_t expected)
{
	int64_t n = -1;
	if (to >= 0) CHECK(write(to, "", 1) == 1);
	CHECK(read(from, &n, sizeof n) == sizeof n);
	CHECK_MSG(n == expected, "a stranger sees %jd nodes, there are %jd", (intmax_t)n, (intmax_t)expected);
}

TEST(a_strangers_index_is_left_alone)
{
	int to[2], from[2], status = 0;
	store *s = open_store(NULL);
	CHECK_OK(grow(s, STORE_GROWS, 1));
	store_close(s);
	CHECK(pipe(to) == 0 && pipe(from) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(to[1]);
		(void)close(from[0]);
		stranger(to[0], from[1]);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	stranger_sees(-1, from[0], 1);
	for (int64_t i = 2; i < 12; i++) { /* opened, written and closed beside it, again and again */
		s = open_store(NULL);
		CHECK_OK(grow(s, STORE_GROWS, 1));
		if (i % 3 == 0) stranger_sees(to[1], from[0], i);
		store_close(s);
		stranger_sees(to[1], from[0], i);
	}
	(void)close(to[1]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	s = open_store(NULL);
	CHECK_OK(store_check(s, complain, NULL, &err));
	store_close(s);
}

static void make_allocated(const char *path, off_t size, off_t blocks)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, size) == 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, blocks) == 0);
	(void)close(fd);
}

/*
 * How much of a file has blocks cannot be told from their number, some of which hold lists of the others: of a large database as many as
 * are kept behind its end. What a commit needs must be found there nevertheless.
 */
TEST_LIMIT(blocks_of_a_large_database_are_found, 120)
{
	enum { LARGE = 600 << 20, KEEP = 4 << 20, BEHIND = KEEP / 4 + (64 << 10) };
	static disk d;
	char base[4400], log[4400];
	room r;
	disk_make(&d, DISK_EXT4, LARGE + (40 << 20));
	(void)snprintf(base, sizeof base, "%s/base", d.mount);
	(void)snprintf(log, sizeof log, "%s/base-wal", d.mount);
	make_allocated(base, LARGE, LARGE + BEHIND);
	make_allocated(log, 1 << 20, 8 << 20);
	ballast_load(&d, 0);
	held *h = held_take((base_place){AT_FDCWD, base});
	CHECK(h != NULL);
	room_commit c = {.log_end = 1 << 20, .log_salt = 1, .base_end = LARGE, .has_first = true};
	static const struct {
		room_need need;
		int error;
	} rows[] = {{ROOM_FREES, 0}, {ROOM_SHRINKS, 0}, {ROOM_GROWS, ENOSPC}, {ROOM_SHRINKS, 0}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		room_init(&r, (base_place){AT_FDCWD, base}, h, NULL);
		r.need = rows[i].need;
		CHECK_U64(room_for_commit(&r, &c), rows[i].error);
		c.log_salt++; /* begun anew: what was known is forgotten */
		CHECK_U64(room_for_commit(&r, &c), rows[i].error);
		room_done(&r);
	}
	/* What is not there is not found. */
	room_init(&r, (base_place){AT_FDCWD, base}, h, NULL);
	r.need = ROOM_FREES;
	c.base_end = LARGE + BEHIND + (1 << 20);
	CHECK_U64(room_for_commit(&r, &c), ENOSPC);
	room_done(&r);
	held_release(h);
	disk_unmount(&d);
}

/* What an older version's vacuum left: no room behind the database, and less on the disk than should be kept. tmpfs gives all or none. */
TEST(too_little_room_is_taken_in_pieces)
{
	enum { SIZE = 1 << 20, LEFT = 200 << 10, TAKEN = 180 << 10 };
	static const disk_kind kinds[] = {DISK_TMPFS, DISK_EXT4};
	static disk d;
	char base[4400], log[4400];
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		room r;
		disk_make(&d, kinds[i], 16 << 20);
		(void)snprintf(base, sizeof base, "%s/base", d.mount);
		(void)snprintf(log, sizeof log, "%s/base-wal", d.mount);
		make_allocated(base, SIZE, SIZE);
		make_allocated(log, 1 << 20, 4 << 20);
		ballast_load(&d, LEFT);
		held *h = held_take((base_place){AT_FDCWD, base});
		CHECK(h != NULL);
		room_init(&r, (base_place){AT_FDCWD, base}, h, NULL);
		room_commit c = {.log_end = 1 << 20, .log_salt = 1, .base_end = SIZE, .has_first = true};
		r.need = ROOM_GROWS;
		CHECK_U64(room_for_commit(&r, &c), ENOSPC);
		r.need = ROOM_FREES;
		CHECK_U64(room_for_commit(&r, &c), 0);
		c.base_end = SIZE + TAKEN;
		CHECK_U64(room_for_commit(&r, &c), 0);
		c.base_end = SIZE + 2 * LEFT;
		CHECK_U64(room_for_commit(&r, &c), ENOSPC);
		room_done(&r);
		held_release(h);
		disk_unmount(&d);
		CHECK(rmdir(d.mount) == 0);
	}
}
