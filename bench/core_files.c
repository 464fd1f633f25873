/*
 * core_files.c: files, key-values and batches against files on the same filesystem, system calls and a plain SQLite table; and what the
 * machine's system calls cost in the same run.
 *
 * Each of our writes is a step of its own that can be undone; a file or row of the others is not. Files of the host are reached from the
 * current folder, so that both sides resolve paths of the same depth.
 */
#include <dirent.h>

#include "bench.h"
#include "plain_sqlite.h"

enum { KNOWN = 1000, LISTED = 1000, BATCH = 1000, TEN_MB = 10 };

static cb_box *box;
static plain_db normal, full;
static int pread_fd, large_fd, append_fds[2]; /* the second is flushed after each write */
static char to[BENCH_MB] __attribute__((aligned(64)));

/* ---- ours ---- */

static void name_of(char *out, const char *prefix, uint64_t i)
{
	(void)snprintf(out, BENCH_PATH, "%s%llu", prefix, (unsigned long long)i);
}

static void our_read(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	size_t n = 0;
	name_of(path, "/work/k/f", i * 7 % KNOWN);
	CB(cb_read_at(box, path, 0, to, BENCH_KB, &n, &bench_err));
	NEED(n == BENCH_KB);
}

/* A round of these is one transaction. */
static void our_read_in_txn(void *context, uint64_t i)
{
	const contender *c = context;
	static cb_box *t;
	char path[BENCH_PATH];
	size_t n = 0;
	if (i % c->ops == 0) t = bench_begin(box);
	name_of(path, "/work/k/f", i * 7 % KNOWN);
	CB(cb_read_at(t, path, 0, to, BENCH_KB, &n, &bench_err));
	NEED(n == BENCH_KB);
	if (i % c->ops == c->ops - 1) cb_box_close(t);
}

static void our_create(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	name_of(path, "/work/new/n", i);
	bench_write(context, path, bench_bytes(i), BENCH_KB);
}

static void our_overwrite(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	name_of(path, "/work/k/f", i * 7 % KNOWN);
	bench_write(context, path, bench_bytes(i), BENCH_KB);
}

static void our_read_large(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	size_t n = 0;
	CB(cb_read_at(box, "/work/large", 0, to, BENCH_MB, &n, &bench_err));
	NEED(n == BENCH_MB);
}

static void our_write_large(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	name_of(path, "/work/new/l", i);
	bench_write(box, path, bench_bytes(i), BENCH_MB);
}

static void our_batch(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	cb_box *t = bench_begin(box);
	for (uint64_t k = 0; k < BATCH; k++) {
		name_of(path, "/work/batch/b", i * BATCH + k);
		bench_write(t, path, bench_bytes(k), BENCH_KB);
	}
	bench_commit(t);
}

static void our_stat(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	cb_stat_info info = CB_INIT(cb_stat_info);
	name_of(path, "/work/k/f", i * 7 % KNOWN);
	CB(cb_stat(box, path, 0, &info, &bench_err));
}

static cb_code count_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)name;
	(void)err;
	*(uint64_t *)context += info->size;
	return CB_OK;
}

static void our_list(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	uint64_t bytes = 0;
	CB(cb_readdir(box, "/work/list", count_entry, &bytes, &bench_err));
	NEED(bytes == LISTED * 100);
}

/* There and back. */
static void swap_names(uint64_t i, const char *prefix, char *from, char *into)
{
	name_of(i % 2 ? into : from, prefix, 1);
	name_of(i % 2 ? from : into, prefix, 1000001);
}

static void our_rename(void *context, uint64_t i)
{
	(void)context;
	char from[BENCH_PATH], into[BENCH_PATH];
	swap_names(i, "/work/k/f", from, into);
	CB(cb_rename(box, from, into, 0, &bench_err));
}

static void our_append(void *context, uint64_t i)
{
	(void)context;
	cb_write_options options = CB_WITH(cb_write_options, .append = true);
	CB(cb_write_file(box, "/work/ten", bench_bytes(i), BENCH_KB, &options, &bench_err));
}

static void our_kv_set(void *context, uint64_t i)
{
	(void)context;
	char key[BENCH_PATH], value[32];
	name_of(key, "key-", i % 100);
	CB(cb_kv_set(box, key, value, (size_t)snprintf(value, sizeof(value), "value %llu", (unsigned long long)i), &bench_err));
}

static void our_kv_get(void *context, uint64_t i)
{
	(void)context;
	char key[BENCH_PATH], *value = NULL;
	size_t n = 0;
	name_of(key, "key-", i % 100);
	CB(cb_kv_get(box, key, &value, &n, &bench_err));
	cb_free(value);
}

/* ---- files of the host ---- */

static void host_write(const char *path, int flags, uint64_t i, size_t size, bool sync)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
	SYS(fd);
	NEED(write(fd, bench_bytes(i), size) == (ssize_t)size);
	if (sync) SYS(fsync(fd));
	SYS(close(fd));
}

static void host_read(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	name_of(path, "work/k/f", i * 7 % KNOWN);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	SYS(fd);
	NEED(read(fd, to, BENCH_KB) == BENCH_KB);
	SYS(close(fd));
}

static void host_create(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	name_of(path, "work/new/n", i);
	host_write(path, O_EXCL, i, BENCH_KB, context != NULL);
}

static void host_create_synced(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	(void)context;
	name_of(path, "work/new/s", i);
	host_write(path, O_EXCL, i, BENCH_KB, true);
}

static void host_overwrite(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	name_of(path, "work/k/f", i * 7 % KNOWN);
	host_write(path, O_TRUNC, i, BENCH_KB, false);
}

static void host_pread_large(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	NEED(pread(large_fd, to, BENCH_MB, 0) == BENCH_MB);
}

static void host_create_large(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	name_of(path, "work/new/l", i);
	host_write(path, O_EXCL, i, BENCH_MB, false);
}

/* Into an open file, new space every time. */
static void host_write_large(void *context, uint64_t i)
{
	const int *fd = context;
	NEED(pwrite(*fd, bench_bytes(i), BENCH_MB, (off_t)(i * BENCH_MB)) == BENCH_MB);
	if (fd == &append_fds[1]) SYS(fdatasync(*fd));
}

static void host_batch(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	for (uint64_t k = 0; k < BATCH; k++) {
		name_of(path, "work/batch/b", i * BATCH + k);
		host_write(path, O_EXCL, k, BENCH_KB, false);
	}
}

static void host_stat(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH];
	struct stat st;
	name_of(path, "work/k/f", i * 7 % KNOWN);
	SYS(stat(path, &st));
}

static void host_list(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	DIR *d = opendir("work/list");
	NEED(d);
	uint64_t bytes = 0;
	for (const struct dirent *e; (e = readdir(d)) != NULL;) {
		struct stat st;
		if (e->d_name[0] == '.') continue;
		SYS(fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW));
		bytes += (uint64_t)st.st_size;
	}
	(void)closedir(d);
	NEED(bytes == LISTED * 100);
}

static void host_rename(void *context, uint64_t i)
{
	(void)context;
	char from[BENCH_PATH], into[BENCH_PATH];
	swap_names(i, "work/k/f", from, into);
	SYS(rename(from, into));
}

static void host_append(void *context, uint64_t i)
{
	(void)context;
	host_write("work/ten", O_APPEND, i, BENCH_KB, false);
}

/* ---- a plain SQLite table ---- */

static void sqlite_read(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	name_of(path, "work/k/f", i * 7 % KNOWN);
	NEED(plain_get(context, path, to, BENCH_KB) == BENCH_KB);
}

static void sqlite_create(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	name_of(path, "work/new/n", i);
	plain_put(context, path, bench_bytes(i), BENCH_KB);
}

static void sqlite_overwrite(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	name_of(path, "work/k/f", i * 7 % KNOWN);
	plain_put(context, path, bench_bytes(i), BENCH_KB);
}

static void sqlite_read_large(void *context, uint64_t i)
{
	(void)i;
	NEED(plain_get(context, "work/large", to, BENCH_MB) == BENCH_MB);
}

static void sqlite_write_large(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	name_of(path, "work/new/l", i);
	plain_put(context, path, bench_bytes(i), BENCH_MB);
}

static void sqlite_batch(void *context, uint64_t i)
{
	char path[BENCH_PATH];
	plain_exec(context, "BEGIN");
	for (uint64_t k = 0; k < BATCH; k++) {
		name_of(path, "work/batch/b", i * BATCH + k);
		plain_put(context, path, bench_bytes(k), BENCH_KB);
	}
	plain_exec(context, "COMMIT");
}

static void sqlite_stat(void *context, uint64_t i)
{
	plain_db *p = context;
	char path[BENCH_PATH];
	name_of(path, "work/k/f", i * 7 % KNOWN);
	(void)sqlite3_bind_text(p->stat, 1, path, -1, SQLITE_STATIC);
	NEED(plain_step(p, p->stat) == SQLITE_ROW);
	(void)sqlite3_reset(p->stat);
}

static void sqlite_list(void *context, uint64_t i)
{
	(void)i;
	plain_db *p = context;
	int64_t bytes = 0;
	(void)sqlite3_bind_text(p->list, 1, "work/list", -1, SQLITE_STATIC);
	while (plain_step(p, p->list) == SQLITE_ROW) bytes += sqlite3_column_int64(p->list, 1);
	(void)sqlite3_reset(p->list);
	NEED(bytes == LISTED * 100);
}

static void sqlite_two(plain_db *p, sqlite3_stmt *stmt, const char *first, const void *second, size_t size)
{
	(void)sqlite3_bind_text(stmt, 1, first, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(stmt, 2, second, (int)size, SQLITE_STATIC);
	(void)plain_step(p, stmt);
	(void)sqlite3_reset(stmt);
}

static void sqlite_rename(void *context, uint64_t i)
{
	plain_db *p = context;
	char from[BENCH_PATH], into[BENCH_PATH];
	swap_names(i, "work/k/f", from, into);
	sqlite_two(p, p->rename, from, into, strlen(into));
}

static void sqlite_append(void *context, uint64_t i)
{
	plain_db *p = context;
	sqlite_two(p, p->append, "work/ten", bench_bytes(i), BENCH_KB);
}

static void sqlite_kv_set(void *context, uint64_t i)
{
	char key[BENCH_PATH], value[32];
	name_of(key, "key-", i % 100);
	plain_put(context, key, value, (size_t)snprintf(value, sizeof(value), "value %llu", (unsigned long long)i));
}

static void sqlite_kv_get(void *context, uint64_t i)
{
	char key[BENCH_PATH], value[32];
	name_of(key, "key-", i % 100);
	NEED(plain_get(context, key, value, sizeof(value)) > 0);
}

/* ---- floors ---- */

static void floor_syscall(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	(void)getppid();
}

static void floor_clock(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	(void)bench_now_us();
}

static void floor_copy(void *context, uint64_t i)
{
	memcpy(to, bench_bytes(i % 16), *(const size_t *)context);
	__asm__ volatile("" ::: "memory");
}

static void floor_pread(void *context, uint64_t i)
{
	(void)context;
	NEED(pread(pread_fd, to, BENCH_KB, (off_t)(i * 7 % KNOWN * BENCH_KB)) == BENCH_KB);
}

static void floor_append(void *context, uint64_t i)
{
	(void)context;
	NEED(pwrite(pread_fd, bench_bytes(i), BENCH_KB, (off_t)((KNOWN + i) * BENCH_KB)) == BENCH_KB);
}

static void floor_flush(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	SYS(fdatasync(pread_fd));
}

static void floor_spawn(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	BENCH_RUN("true");
}

static void floors(void)
{
	if (!bench_section("floors of this machine")) return;
	static size_t kb = BENCH_KB, mb = BENCH_MB;
	contender all[] = {
		{.name = "system call (getppid)", .op = floor_syscall, .ops = 20000, .whole = true},
		{.name = "reading the clock (once per timed call)", .op = floor_clock, .ops = 20000, .whole = true},
		{.name = "memcpy 1 KiB", .op = floor_copy, .context = &kb, .ops = 20000, .whole = true},
		{.name = "memcpy 1 MiB", .op = floor_copy, .context = &mb, .ops = 50, .whole = true},
		{.name = "pread 1 KiB", .op = floor_pread, .ops = 5000, .whole = true},
		{.name = "pread 1 MiB", .op = host_pread_large, .ops = 50, .whole = true},
		{.name = "pwrite 1 KiB at the end", .op = floor_append, .ops = 500, .whole = true},
		{.name = "fdatasync after that", .op = floor_flush, .prepare = floor_append, .ops = 20},
		{.name = "open + read 1 KiB + close", .op = host_read, .ops = 2000, .whole = true},
		{.name = "posix_spawn of true + wait", .op = floor_spawn, .ops = 5},
	};
	enum { N = sizeof(all) / sizeof(*all) };
	bench_measure(all, N);
	for (size_t i = 0; i < N; i++) bench_row(all[i].name, &all[i], NULL, 0);
	bench_done(all, N);
}

/* ---- setting up ---- */

static void fill_ours(void)
{
	char path[BENCH_PATH];
	const char *const folders[] = {"/work/k", "/work/new", "/work/list", "/work/batch"};
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) CB(cb_mkdir(box, folders[i], 0755, 0, &bench_err));
	cb_box *t = bench_begin(box);
	for (uint64_t i = 0; i < KNOWN; i++) {
		name_of(path, "/work/k/f", i);
		bench_write(t, path, bench_bytes(i), BENCH_KB);
		name_of(path, "/work/list/f", i);
		bench_write(t, path, bench_bytes(i), 100);
	}
	bench_commit(t);
	bench_write(box, "/work/large", bench_bytes(0), BENCH_MB);
	cb_write_options append = CB_WITH(cb_write_options, .append = true);
	for (int i = 0; i < TEN_MB; i++) CB(cb_write_file(box, "/work/ten", bench_bytes(0), BENCH_MB, &append, &bench_err));
	for (uint64_t i = 0; i < 100; i++) our_kv_set(NULL, i);
}

static void fill_host(void)
{
	char path[BENCH_PATH];
	const char *const folders[] = {"work", "work/k", "work/new", "work/list", "work/batch"};
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) SYS(mkdir(folders[i], 0755));
	for (uint64_t i = 0; i < KNOWN; i++) {
		name_of(path, "work/k/f", i);
		host_write(path, 0, i, BENCH_KB, false);
		name_of(path, "work/list/f", i);
		host_write(path, 0, i, 100, false);
	}
	host_write("work/large", 0, 0, BENCH_MB, false);
	for (int i = 0; i < TEN_MB; i++) host_write("work/ten", O_APPEND, 0, BENCH_MB, false);
	host_write("numbers", 0, 0, BENCH_MB, false);
	SYS(large_fd = open("work/large", O_RDONLY | O_CLOEXEC));
	SYS(pread_fd = open("numbers", O_RDWR | O_CLOEXEC));
	SYS(append_fds[0] = open("appended", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
	SYS(append_fds[1] = open("flushed", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
}

static void fill_sqlite(plain_db *p)
{
	char path[BENCH_PATH];
	plain_exec(p, "BEGIN");
	for (uint64_t i = 0; i < KNOWN; i++) {
		name_of(path, "work/k/f", i);
		plain_put(p, path, bench_bytes(i), BENCH_KB);
		name_of(path, "work/list/f", i);
		plain_put(p, path, bench_bytes(i), 100);
	}
	plain_put(p, "work/large", bench_bytes(0), BENCH_MB);
	plain_exec(p, "INSERT INTO files(path,content) VALUES('work/ten',zeroblob(10485760))");
	plain_exec(p, "COMMIT");
	for (uint64_t i = 0; i < 100; i++) sqlite_kv_set(p, i);
}

/* ---- the table ---- */

#define COMPARE(what, targets, ...)                                                \
	do {                                                                       \
		contender all_[] = {__VA_ARGS__};                                  \
		const double targets_[] = targets;                                 \
		bench_compare(what, all_, sizeof(all_) / sizeof(*all_), targets_); \
	} while (0)
#define T(...)              \
	{                   \
		__VA_ARGS__ \
	}

static void reads(void)
{
	if (!bench_section("reading")) return;
	COMPARE("read 1 KiB by path", T(1.2, 0, 0), {"", our_read, .ops = 2000, .whole = true},
	        {"open + read + close", host_read, .ops = 2000, .whole = true},
	        {"pread, file open", floor_pread, .ops = 2000, .whole = true},
	        {"SQLite table", sqlite_read, .context = &normal, .ops = 2000, .whole = true});
	contender inside[] = {{"", our_read_in_txn, .ops = 2000, .whole = true},
	                      {"open + read + close", host_read, .ops = 2000, .whole = true}};
	inside[0].context = &inside[0];
	bench_compare("read 1 KiB inside a transaction", inside, 2, (const double[]){0.5});
	COMPARE("read 1 MiB", T(1.5, 0), {"", our_read_large, .ops = 30, .whole = true},
	        {"pread", host_pread_large, .ops = 30, .whole = true},
	        {"SQLite table", sqlite_read_large, .context = &normal, .ops = 30, .whole = true});
	COMPARE("stat", T(0, 0), {"", our_stat, .ops = 2000, .whole = true}, {"stat", host_stat, .ops = 2000, .whole = true},
	        {"SQLite table", sqlite_stat, .context = &normal, .ops = 2000, .whole = true});
	COMPARE("list 1,000 entries with attributes", T(0.2, 0), {"", our_list, .ops = 20},
	        {"readdir + fstatat", host_list, .ops = 20}, {"SQLite table", sqlite_list, .context = &normal, .ops = 20});
	COMPARE("key-value get", T(0), {"", our_kv_get, .ops = 2000, .whole = true},
	        {"SQLite table", sqlite_kv_get, .context = &normal, .ops = 2000, .whole = true});
}

static void writes(void)
{
	if (!bench_section("writing, a step each")) return;
	COMPARE("create 1 KiB", T(1, 0), {"", our_create, .context = box, .ops = 300},
	        {"create + write + close", host_create, .ops = 300},
	        {"SQLite table, NORMAL", sqlite_create, .context = &normal, .ops = 300});
	COMPARE("overwrite 1 KiB", T(0, 0), {"", our_overwrite, .context = box, .ops = 300},
	        {"open + write + close", host_overwrite, .ops = 300},
	        {"SQLite table, NORMAL", sqlite_overwrite, .context = &normal, .ops = 300});
	COMPARE("write 1 MiB", T(1.5, 0, 0, 0), {"", our_write_large, .ops = 8},
	        {"write(2) at the end", host_write_large, .context = &append_fds[0], .ops = 8},
	        {"write(2) + fdatasync", host_write_large, .context = &append_fds[1], .ops = 8},
	        {"create + write + close", host_create_large, .ops = 8},
	        {"SQLite table, NORMAL", sqlite_write_large, .context = &normal, .ops = 8});
	COMPARE("append 1 KiB to 10 MB", T(0, 0), {"", our_append, .ops = 100}, {"open + append + close", host_append, .ops = 100},
	        {"SQLite table, NORMAL", sqlite_append, .context = &normal, .ops = 1});
	COMPARE("rename", T(0, 0), {"", our_rename, .ops = 200}, {"rename", host_rename, .ops = 200},
	        {"SQLite table, NORMAL", sqlite_rename, .context = &normal, .ops = 200});
	COMPARE("key-value set", T(0), {"", our_kv_set, .ops = 300},
	        {"SQLite table, NORMAL", sqlite_kv_set, .context = &normal, .ops = 300});
}

static void batches(void)
{
	if (!bench_section("1,000 files of 1 KiB as one step")) return;
	COMPARE("create 1,000 files", T(0, 0), {"", our_batch, .ops = 1}, {"1,000 x create + write + close", host_batch, .ops = 1},
	        {"SQLite table, NORMAL, one transaction", sqlite_batch, .context = &normal, .ops = 1});
}

static void flushed(const char *path)
{
	if (!bench_section("writing, each flushed to disk")) return;
	cb_store *s = bench_store(path, true);
	cb_box *b = NULL;
	CB(cb_box_create(s, "demo", &b, &bench_err));
	CB(cb_mkdir(b, "/work/new", 0755, 0, &bench_err));
	COMPARE("create 1 KiB, mode full", T(0, 0), {"", our_create, .context = b, .ops = 20},
	        {"create + write + fsync", host_create_synced, .ops = 20},
	        {"SQLite table, FULL", sqlite_create, .context = &full, .ops = 20});
	cb_box_close(b);
	cb_store_close(s);
}

int main(int argc, char **argv)
{
	char path[BENCH_PATH];
	bench_init(argc, argv);
	cb_store *s = bench_store(bench_path(path, "files-ours"), false);
	CB(cb_box_create(s, "demo", &box, &bench_err));
	plain_open(&normal, bench_path(path, "files-normal.db"), false);
	plain_open(&full, bench_path(path, "files-full.db"), true);
	SYS(mkdir(bench_path(path, "files-host"), 0755));
	char flushed_path[BENCH_PATH];
	(void)bench_path(flushed_path, "files-flushed");
	SYS(chdir(bench_path(path, "files-host")));
	fill_ours();
	fill_host();
	fill_sqlite(&normal);
	floors();
	reads();
	writes();
	batches();
	flushed(flushed_path);
	plain_close(&normal);
	plain_close(&full);
	cb_box_close(box);
	cb_store_close(s);
	return 0;
}
