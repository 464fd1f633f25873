/* test_files.c: files, folders, links, attributes, key-values, open files and limits on the public API, on disk and in memory. */
#include "box/internal.h"
#include "harness/demo_box.h"

static cb_stat_info stat_of(const char *path)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, CB_NOFOLLOW, &info, &err));
	return info;
}

/* size bytes of a pattern that differs with the seed. */
static char *pattern(size_t size, unsigned seed)
{
	char *bytes = malloc(size + 1);
	CHECK(bytes);
	for (size_t i = 0; i < size; i++) bytes[i] = (char)((i * 31 + seed * 7 + (i >> 8)) & 0xff);
	bytes[size] = 0;
	return test_keep(bytes);
}

static void check_content(const char *path, const char *bytes, size_t size)
{
	char *got = NULL;
	size_t n = 0;
	CHECK_OK(cb_read_file(b, path, &got, &n, &err));
	CHECK_U64(n, size);
	CHECK(memcmp(got, bytes, size) == 0);
	cb_free(got);
}

TEST_BOTH(sizes_around_every_form)
{
	static const size_t sizes[] = {0, 1, 111, 112, 113, 4096, 16384, 16385, 65536, 65537, 1048575, 1048576, 1048577, 3000000};
	begin(memory);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		char *bytes = pattern(sizes[i], (unsigned)i);
		CHECK_OK(cb_write_file(b, "/work/f", bytes, sizes[i], NULL, &err));
		check_content("/work/f", bytes, sizes[i]);
		/* growing it by one byte in place, and cutting it back */
		cb_file *f = NULL;
		CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE, 0, &f, &err));
		CHECK_OK(cb_pwrite(f, "Z", 1, sizes[i], &err));
		char last = 0;
		size_t n = 0;
		CHECK_OK(cb_pread(f, &last, 1, sizes[i], &n, &err));
		CHECK(n == 1 && last == 'Z');
		CHECK_OK(cb_ftruncate(f, sizes[i], &err));
		CHECK_OK(cb_close(f, &err));
		check_content("/work/f", bytes, sizes[i]);
	}
	end();
}

TEST_BOTH(writes_at_random_places)
{
	begin(memory);
	enum { SIZE = 300000 };
	char *model = test_keep(calloc(1, SIZE));
	test_rng rng = {test_seed()};
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE | CB_CREATE, 0600, &f, &err));
	uint64_t size = 0;
	for (int i = 0; i < 400; i++) {
		uint64_t at = test_rand_below(&rng, SIZE - 1), n = 1 + test_rand_below(&rng, i % 3 ? 200 : 40000);
		if (at + n > SIZE) n = SIZE - at;
		char *bytes = pattern(n, (unsigned)i);
		if (i % 17 == 16) {
			CHECK_OK(cb_ftruncate(f, at, &err));
			memset(model + at, 0, SIZE - at);
			size = at;
		} else {
			CHECK_OK(cb_pwrite(f, bytes, n, at, &err));
			memcpy(model + at, bytes, n);
			if (at + n > size) size = at + n;
		}
		if (i % 29 == 0) CHECK_OK(cb_fsync(f, &err));
		if (i % 20 == 0) check_content("/work/f", model, size);
	}
	CHECK_OK(cb_close(f, &err));
	check_content("/work/f", model, size);
	end();
}

TEST_BOTH(sparse_files)
{
	begin(memory);
	cb_file *f = NULL;
	uint64_t at = 0;
	CHECK_OK(cb_open(b, "/work/sparse", CB_READ | CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_pwrite(f, "end", 3, (uint64_t)1 << 40, &err));
	CHECK_OK(cb_seek(f, 0, CB_SEEK_DATA, &at, &err));
	CHECK_U64(at, (uint64_t)1 << 40);
	CHECK_OK(cb_seek(f, 0, CB_SEEK_HOLE, &at, &err));
	CHECK_U64(at, 0);
	CHECK_OK(cb_seek(f, (int64_t)1 << 40, CB_SEEK_HOLE, &at, &err));
	CHECK_U64(at, ((uint64_t)1 << 40) + 3);
	CHECK_CODE(cb_seek(f, INT64_MAX, CB_SEEK_END, &at, &err), CB_INVALID);
	CHECK(strstr(err.message, "beyond the largest"));
	CHECK_CODE(cb_seek(f, INT64_MIN, CB_SEEK_END, &at, &err), CB_INVALID);
	CHECK(strstr(err.message, "before the start"));
	char zeros[100];
	size_t n = 0;
	CHECK_OK(cb_pread(f, zeros, sizeof(zeros), 12345, &n, &err));
	CHECK_U64(n, sizeof(zeros));
	for (size_t i = 0; i < n; i++) CHECK(zeros[i] == 0);
	CHECK_CODE(cb_pwrite(f, "x", 1, LIMIT_FILE_BYTES, &err), CB_TOOBIG);
	CHECK_CODE(cb_ftruncate(f, LIMIT_FILE_BYTES + 1, &err), CB_TOOBIG);
	CHECK_OK(cb_close(f, &err));
	CHECK_U64(stat_of("/work/sparse").size, ((uint64_t)1 << 40) + 3);
	end();
}

TEST_BOTH(append_costs_what_it_adds)
{
	begin(memory);
	char line[64];
	AUTO_BUF buf all = BUF_INIT(SIZE_MAX);
	cb_write_options append = CB_WITH(cb_write_options, .append = true);
	for (int i = 0; i < 2000; i++) {
		int n = snprintf(line, sizeof(line), "line %d of a log\n", i);
		CHECK_OK(cb_write_file(b, "/work/log", line, (size_t)n, &append, &err));
		CHECK_OK(buf_append(&all, line, (size_t)n, &err));
	}
	check_content("/work/log", (const char *)all.bytes, all.size);
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	/* 2,000 appends of ~20 bytes to a file of 40 KB: rewriting it each time would make 40 MB. */
	CHECK_MSG(stats.content_bytes < 14 << 20, "%llu content bytes", (unsigned long long)stats.content_bytes);
	end();
}

TEST_BOTH(appending_nothing_changes_nothing)
{
	begin(memory);
	uint64_t version = 0;
	cb_stat_info before = CB_INIT(cb_stat_info), after = CB_INIT(cb_stat_info);
	cb_write_options append = CB_WITH(cb_write_options, .append = true, .out_version = &version);
	CHECK_OK(cb_write_file(b, "/work/log", "", 0, &append, &err)); /* makes it */
	CHECK_U64(version, must_version(b, "/work/log"));
	must_write(b, "/work/log", "line");
	CHECK_OK(cb_stat(b, "/work/log", 0, &before, &err));
	uint64_t seq = must_seq(b);
	CHECK_OK(cb_write_file(b, "/work/log", "", 0, &append, &err));
	CHECK_OK(cb_stat(b, "/work/log", 0, &after, &err));
	CHECK_U64(must_seq(b), seq);
	CHECK(after.mtime_ns == before.mtime_ns && after.ctime_ns == before.ctime_ns && after.version == before.version);
	CHECK_U64(version, before.version);
	end();
}

TEST_BOTH(handles_survive_rename_and_unlink)
{
	begin(memory);
	cb_box *other = must_open(s, "demo");
	must_write(b, "/work/a", "hello");
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_mkdir(other, "/work/deep/er", 0755, CB_PARENTS, &err));
	CHECK_OK(cb_rename(other, "/work/a", "/work/deep/er/b", 0, &err));
	char text[32] = {0};
	size_t n = 0;
	CHECK_OK(cb_pread(f, text, sizeof(text), 0, &n, &err));
	CHECK(n == 5 && memcmp(text, "hello", 5) == 0);
	CHECK_OK(cb_pwrite(f, "J", 1, 0, &err));
	CHECK_OK(cb_fsync(f, &err));
	CHECK_STR(must_read(other, "/work/deep/er/b"), "Jello");
	CHECK_OK(cb_unlink(other, "/work/deep/er/b", &err));
	CHECK_OK(cb_pread(f, text, sizeof(text), 0, &n, &err));
	CHECK(n == 5 && memcmp(text, "Jello", 5) == 0);
	CHECK_OK(cb_pwrite(f, " again", 6, 5, &err));
	CHECK_OK(cb_pread(f, text, sizeof(text), 0, &n, &err));
	CHECK(n == 11 && memcmp(text, "Jello again", 11) == 0);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_fstat(f, &info, &err));
	CHECK(info.links == 0 && info.size == 11);
	CHECK_OK(cb_close(f, &err));
	CHECK(!exists(b, "/work/deep/er/b"));
	/* unlinked through the same handle */
	must_write(b, "/work/c", "cc");
	CHECK_OK(cb_open(b, "/work/c", CB_READ, 0, &f, &err));
	CHECK_OK(cb_unlink(b, "/work/c", &err));
	CHECK_OK(cb_read(f, text, sizeof(text), &n, &err));
	CHECK_U64(n, 2);
	CHECK_CODE(cb_write(f, "x", 1, &err), CB_BADHANDLE);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(other);
	end();
}

TEST_BOTH(an_open_file_is_one_step)
{
	begin(memory);
	cb_box *other = must_open(s, "demo");
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/out", CB_WRITE | CB_CREATE | CB_TRUNCATE, 0640, &f, &err));
	for (int i = 0; i < 1000; i++) CHECK_OK(cb_write(f, "0123456789", 10, &err));
	CHECK_U64(stat_of("/work/out").size, 10000); /* seen at once through the same handle */
	CHECK(!exists(other, "/work/out"));
	CHECK_OK(cb_close(f, &err));
	CHECK_U64(must_seq(b), 1);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(other, "/work/out", 0, &info, &err));
	CHECK(info.size == 10000 && info.mode == 0640);
	/* exclusive creation is a step at once: it can serve as a lock */
	CHECK_OK(cb_open(b, "/work/lock", CB_WRITE | CB_CREATE | CB_EXCLUSIVE, 0600, &f, &err));
	cb_file *g = NULL;
	CHECK_CODE(cb_open(other, "/work/lock", CB_WRITE | CB_CREATE | CB_EXCLUSIVE, 0600, &g, &err), CB_EXISTS);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(other);
	end();
}

TEST_BOTH(rename_cases)
{
	begin(memory);
	must_write(b, "/work/a", "a");
	must_write(b, "/work/b", "b");
	must_write(b, "/work/d/x", "x");
	CHECK_OK(cb_mkdir(b, "/work/empty", 0755, 0, &err));
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err));
	CHECK_STR(must_read(b, "/work/b"), "a");
	CHECK(!exists(b, "/work/a"));
	CHECK_CODE(cb_rename(b, "/work/b", "/work/d", 0, &err), CB_ISDIR);
	CHECK_CODE(cb_rename(b, "/work/d", "/work/b", 0, &err), CB_NOTDIR);
	CHECK_CODE(cb_rename(b, "/work/empty", "/work/d", 0, &err), CB_NOTEMPTY);
	CHECK_OK(cb_rename(b, "/work/d", "/work/empty", 0, &err));
	CHECK_STR(must_read(b, "/work/empty/x"), "x");
	CHECK_CODE(cb_rename(b, "/work/empty", "/work/empty/in", 0, &err), CB_INVALID);
	CHECK_CODE(cb_rename(b, "/work/nothing", "/work/z", 0, &err), CB_NOTFOUND);
	must_write(b, "/work/c", "c");
	CHECK_CODE(cb_rename(b, "/work/c", "/work/b", CB_NOREPLACE, &err), CB_EXISTS);
	CHECK_OK(cb_rename(b, "/work/c", "/work/empty", CB_EXCHANGE, &err));
	CHECK_STR(must_read(b, "/work/empty"), "c");
	CHECK_STR(must_read(b, "/work/c/x"), "x");
	CHECK_CODE(cb_rename(b, "/work/c", "/work/c/x", CB_EXCHANGE, &err), CB_INVALID);
	CHECK_OK(cb_link(b, "/work/b", "/work/b2", &err));
	CHECK_OK(cb_rename(b, "/work/b", "/work/b2", 0, &err)); /* one file: POSIX does nothing */
	CHECK(exists(b, "/work/b") && exists(b, "/work/b2"));
	CHECK_U64(stat_of("/work/b").links, 2);
	end();
}

TEST_BOTH(links)
{
	begin(memory);
	must_write(b, "/work/a", "one");
	CHECK_OK(cb_link(b, "/work/a", "/work/b", &err));
	CHECK_U64(stat_of("/work/a").ino, stat_of("/work/b").ino);
	must_write(b, "/work/b", "two");
	CHECK_STR(must_read(b, "/work/a"), "two");
	CHECK_OK(cb_unlink(b, "/work/a", &err));
	CHECK_STR(must_read(b, "/work/b"), "two");
	CHECK_U64(stat_of("/work/b").links, 1);
	CHECK_OK(cb_symlink(b, "../work/b", "/work/s", &err));
	CHECK_STR(must_read(b, "/work/s"), "two");
	char *target = NULL;
	CHECK_OK(cb_readlink(b, "/work/s", &target, NULL, &err));
	(void)test_keep(target);
	CHECK_STR(target, "../work/b");
	CHECK_OK(cb_symlink(b, "/work/loop", "/work/loop", &err));
	CHECK_CODE(cb_read_file(b, "/work/loop", &target, NULL, &err), CB_LOOP);
	CHECK_OK(cb_symlink(b, "/../../../../etc/passwd", "/work/out", &err));
	CHECK_CODE(cb_read_file(b, "/work/out", &target, NULL, &err), CB_NOTFOUND);
	CHECK_STR(must_read(b, "/../../work/../work/b"), "two");
	CHECK_CODE(cb_link(b, "/work", "/work2", &err), CB_NOPERM);
	CHECK_CODE(cb_readlink(b, "/work/b", &target, NULL, &err), CB_INVALID);
	end();
}

TEST_BOTH(limits_and_reserved_names)
{
	static const char *const reserved[] = {"/usr",  "/bin", "/sbin", "/lib", "/lib64", "/etc",
	                                       "/proc", "/dev", "/sys",  "/run", "/var",   "/boot"};
	begin(memory);
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
		CHECK_CODE(cb_mkdir(b, reserved[i], 0755, 0, &err), CB_RESERVED);
		CHECK_CODE(cb_write_file(b, reserved[i], "x", 1, NULL, &err), CB_RESERVED);
		/* Below it too: the folder that is missing can never be made. */
		char below[32];
		(void)snprintf(below, sizeof(below), "%s/x", reserved[i]);
		CHECK_CODE(cb_write_file(b, below, "x", 1, NULL, &err), CB_RESERVED);
		CHECK_CODE(cb_mkdir(b, below, 0755, 0, &err), CB_RESERVED);
		CHECK_CODE(cb_unlink(b, below, &err), CB_NOTFOUND);
		CHECK_CODE(cb_rename(b, "/work", reserved[i], 0, &err), CB_RESERVED);
		CHECK_CODE(cb_symlink(b, "x", reserved[i], &err), CB_RESERVED);
	}
	CHECK_OK(cb_mkdir(b, "/work/usr", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/library", 0755, 0, &err));
	char name[300] = "/work/";
	memset(name + 6, 'n', 255);
	name[6 + 255] = 0;
	CHECK_OK(cb_write_file(b, name, "x", 1, NULL, &err));
	name[6 + 255] = 'n';
	name[6 + 256] = 0;
	CHECK_CODE(cb_write_file(b, name, "x", 1, NULL, &err), CB_NAMETOOLONG);
	char path[5000];
	memset(path, '/', sizeof(path));
	path[4095] = 0;
	CHECK_OK(cb_stat(b, path, 0, &CB_INIT(cb_stat_info), &err));
	path[4095] = '/';
	path[4096] = 0;
	CHECK_CODE(cb_stat(b, path, 0, &CB_INIT(cb_stat_info), &err), CB_NAMETOOLONG);
	CHECK_CODE(cb_stat(b, "", 0, &CB_INIT(cb_stat_info), &err), CB_NOTFOUND);
	for (int i = 0; i <= 40; i++) {
		char from[32], to[32];
		(void)snprintf(from, sizeof(from), "l%d", i);
		(void)snprintf(to, sizeof(to), "/work/l%d", i + 1);
		CHECK_OK(cb_symlink(b, from, to, &err));
	}
	must_write(b, "/work/l0", "end");
	CHECK_STR(must_read(b, "/work/l40"), "end");
	CHECK_CODE(cb_read_file(b, "/work/l41", &(char *){0}, NULL, &err), CB_LOOP);
	CHECK_CODE(cb_box_create(s, "-x", NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_create(s, ".x", NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_create(s, "", NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_create(s, "a/b", NULL, &err), CB_INVALID);
	CHECK_CODE(cb_box_create(s, "demo", NULL, &err), CB_EXISTS);
	CHECK_CODE(cb_checkpoint_save(b, "17", 0, true, &err), CB_INVALID);
	end();
}

TEST_BOTH(quotas_hold_in_the_same_transaction)
{
	begin(memory);
	CHECK_OK(cb_box_quota_set(b, 1000, 8, 600, &err));
	char bytes[1001];
	memset(bytes, 'x', sizeof(bytes));
	CHECK_CODE(cb_write_file(b, "/work/big", bytes, 601, NULL, &err), CB_QUOTA);
	CHECK(!exists(b, "/work/big"));
	CHECK_OK(cb_write_file(b, "/work/a", bytes, 600, NULL, &err));
	CHECK_CODE(cb_write_file(b, "/work/b", bytes, 401, NULL, &err), CB_QUOTA);
	CHECK_OK(cb_write_file(b, "/work/b", bytes, 400, NULL, &err));
	CHECK_CODE(cb_copy(b, "/work/b", "/work/c", 0, &err), CB_QUOTA);
	CHECK_OK(cb_unlink(b, "/work/a", &err));
	CHECK_OK(cb_write_file(b, "/work/c", bytes, 600, NULL, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/e", 0755, 0, &err));
	CHECK_CODE(cb_mkdir(b, "/work/f", 0755, 0, &err), CB_QUOTA);
	/* counters follow restore and undo */
	cb_box *old = must_open(s, "demo@0");
	CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK(info.files == 4 && info.bytes == 0);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK(info.files == 8 && info.bytes == 1000);
	cb_box_close(old);
	end();
}

static cb_code count_name(void *context, const char *name, const char *value, size_t size, cb_error *e)
{
	(void)e;
	buf *out = context;
	return buf_printf(out, NULL, "%s=%.*s;", name, (int)size, value ? value : "");
}

static const char *listed(buf *out)
{
	(void)buf_append_byte(out, 0, NULL);
	out->size = 0;
	return (const char *)out->bytes;
}

TEST_BOTH(attributes_tags_metadata)
{
	begin(memory);
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	char *value = NULL;
	size_t size = 0;
	must_write(b, "/work/a", "a");
	char *big = pattern(65536, 3);
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.big", big, 65536, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", "1", 1, 0, &err));
	CHECK_CODE(cb_xattr_set(b, "/work/a", "user.too", big, 65537, 0, &err), CB_TOOBIG);
	CHECK_OK(cb_xattr_get(b, "/work/a", "user.big", 0, &value, &size, &err));
	(void)test_keep(value);
	CHECK(size == 65536 && memcmp(value, big, size) == 0);
	CHECK_OK(cb_xattr_remove(b, "/work/a", "user.big", 0, &err));
	CHECK_CODE(cb_xattr_get(b, "/work/a", "user.big", 0, &value, &size, &err), CB_NODATA);
	CHECK_OK(cb_xattr_list(b, "/work/a", 0, count_name, &out, &err));
	CHECK_STR(listed(&out), "user.x=1;");
	CHECK_OK(cb_tag_add(b, "/work/a", "todo", &err));
	CHECK_OK(cb_tag_add(b, "/work/a", "hot", &err));
	CHECK_OK(cb_meta_set(b, "/work/a", "owner", "me", CB_STRING, &err));
	CHECK_OK(cb_tag_list(b, "/work/a", count_name, &out, &err));
	CHECK_STR(listed(&out), "hot=;todo=;");
	CHECK_OK(cb_meta_list(b, "/work/a", count_name, &out, &err));
	CHECK_STR(listed(&out), "owner=me;");
	CHECK_OK(cb_tag_remove(b, "/work/a", "hot", &err));
	CHECK_CODE(cb_tag_remove(b, "/work/a", "hot", &err), CB_NODATA);
	CHECK_OK(cb_copy(b, "/work/a", "/work/copy", 0, &err));
	CHECK_OK(cb_meta_get(b, "/work/copy", "owner", &value, NULL, &err));
	(void)test_keep(value);
	CHECK_STR(value, "me");
	CHECK_OK(cb_unlink(b, "/work/a", &err));
	end();
}

/* A copy is what its source is, whether the name is new or there was a file: of that, only its other names remain. */
TEST_BOTH(copy_over_a_file)
{
	begin(memory);
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	cb_stat_info info = CB_INIT(cb_stat_info);
	must_write(b, "/work/a", "new");
	CHECK_OK(cb_chmod(b, "/work/a", 0750, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", "1", 1, 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/a", "source", &err));
	CHECK_OK(cb_meta_set(b, "/work/a", "owner", "me", CB_STRING, &err));
	CHECK_OK(cb_utimens(b, "/work/a", 5, 7, 0, &err));
	must_write(b, "/work/old", "a longer text");
	CHECK_OK(cb_link(b, "/work/old", "/work/other", &err));
	CHECK_OK(cb_xattr_set(b, "/work/old", "user.y", "2", 1, 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/old", "target", &err));
	CHECK_OK(cb_meta_set(b, "/work/old", "theirs", "you", CB_STRING, &err));
	CHECK_OK(cb_copy(b, "/work/a", "/work/old", 0, &err));
	CHECK_STR(must_read(b, "/work/other"), "new");
	CHECK_OK(cb_stat(b, "/work/old", 0, &info, &err));
	CHECK_U64(info.mode, 0750);
	CHECK_U64(info.links, 2);
	CHECK(info.atime_ns == 5 && info.mtime_ns == 7);
	CHECK_OK(cb_xattr_list(b, "/work/old", 0, count_name, &out, &err));
	CHECK_STR(listed(&out), "user.x=1;");
	CHECK_OK(cb_tag_list(b, "/work/old", count_name, &out, &err));
	CHECK_STR(listed(&out), "source=;");
	CHECK_OK(cb_meta_list(b, "/work/old", count_name, &out, &err));
	CHECK_STR(listed(&out), "owner=me;");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_tag_list(b, "/work/other", count_name, &out, &err));
	CHECK_STR(listed(&out), "target=;");
	end();
}

TEST_BOTH(key_values)
{
	begin(memory);
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	CHECK_OK(cb_kv_set(b, "user:1", "ann", 3, &err));
	CHECK_OK(cb_kv_set(b, "user:2", "bob", 3, &err));
	CHECK_OK(cb_kv_set(b, "User:3", "cat", 3, &err));
	CHECK_OK(cb_kv_set(b, "usez", "no", 2, &err));
	CHECK_OK(cb_kv_list(b, "user:", count_name, &out, &err));
	CHECK_STR(listed(&out), "user:1=ann;user:2=bob;");
	CHECK_OK(cb_kv_list(b, "user%", count_name, &out, &err));
	CHECK_STR(listed(&out), "");
	CHECK_OK(cb_kv_delete(b, "user:1", &err));
	CHECK_CODE(cb_kv_delete(b, "user:1", &err), CB_NOTFOUND);
	size_t big = 3 * LIMIT_CONTENT_BYTES + 17, size = 0;
	char *bytes = pattern(big, 5), *got = NULL;
	CHECK_OK(cb_kv_set(b, "big", bytes, big, &err));
	cb_box *box = b;
	b = must_begin(box);
	CHECK_OK(cb_kv_set(b, "big2", bytes, big, &err));
	CHECK_OK(cb_kv_get(b, "big2", &got, &size, &err));
	(void)test_keep(got);
	CHECK(size == big && memcmp(got, bytes, big) == 0);
	(void)must_commit(b);
	b = box;
	CHECK_OK(cb_kv_get(b, "big2", &got, &size, &err));
	(void)test_keep(got);
	CHECK(size == big && memcmp(got, bytes, big) == 0);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_CODE(cb_kv_get(b, "big2", &got, &size, &err), CB_NOTFOUND);
	cb_gc_result gc = CB_INIT(cb_gc_result);
	CHECK_OK(cb_store_gc(s, &gc, &err));
	CHECK_OK(cb_kv_get(b, "big", &got, &size, &err));
	(void)test_keep(got);
	CHECK(size == big && memcmp(got, bytes, big) == 0);
	end();
}

static cb_code list_path(void *context, const char *path, const cb_stat_info *info, cb_error *e)
{
	(void)e;
	(void)info;
	return buf_printf(context, NULL, "%s ", path);
}

TEST_BOTH(walk_glob_copy_remove)
{
	begin(memory);
	AUTO_BUF buf out = BUF_INIT(1 << 20);
	must_write(b, "/work/src/a.c", "a");
	must_write(b, "/work/src/sub/b.c", "b");
	must_write(b, "/work/src/sub/.hidden", "h");
	must_write(b, "/work/src/sub/c.h", "c");
	CHECK_OK(cb_symlink(b, "a.c", "/work/src/link", &err));
	CHECK_OK(cb_walk(b, "/work/src", list_path, &out, &err));
	CHECK_STR(
		listed(&out),
		"/work/src /work/src/a.c /work/src/link /work/src/sub /work/src/sub/.hidden /work/src/sub/b.c /work/src/sub/c.h ");
	CHECK_OK(cb_glob(b, "/work/**/*.{c,h}", list_path, &out, &err));
	CHECK_STR(listed(&out), "/work/src/a.c /work/src/sub/b.c /work/src/sub/c.h ");
	CHECK_OK(cb_glob(b, "work/src/*", list_path, &out, &err));
	CHECK_STR(listed(&out), "/work/src/a.c /work/src/link /work/src/sub ");
	CHECK_CODE(cb_glob(b, "/work/[a", list_path, &out, &err), CB_INVALID);
	CHECK_OK(cb_copy(b, "/work/src", "/work/copy", 0, &err));
	CHECK_STR(must_read(b, "/work/copy/sub/b.c"), "b");
	CHECK_STR(must_read(b, "/work/copy/link"), "a");
	CHECK_CODE(cb_copy(b, "/work/src", "/work/copy", 0, &err), CB_EXISTS);
	CHECK_OK(cb_copy(b, "/work/src", "/work/src/self", 0, &err)); /* a copy into itself ends */
	CHECK_STR(must_read(b, "/work/src/self/sub/b.c"), "b");
	CHECK_OK(cb_remove(b, "/work/src", &err));
	CHECK(!exists(b, "/work/src"));
	CHECK_OK(cb_remove(b, "/work/copy/a.c", &err));
	CHECK_CODE(cb_remove(b, "/", &err), CB_INVALID);
	end();
}
