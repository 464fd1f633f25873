/*
 * test_txn_calls.c: each call inside a transaction is all or nothing.
 *
 * Calls that change many things are made with each of their allocations failing in turn, and ended at each of their looks at their limit,
 * until they succeed: what the transaction's handle shows stays as it was, and so does what the transaction relies on.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cowbox/transfer.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "harness/boxes.h"

enum { FILES = 6, EACH = 150 /* the first so many are tried each, then in growing strides */, WORDS = 700 };

static cb_store *s;
static cb_box *older;
static cb_error err;
static cb_cancel *token;
static char folder[512];
static int tar_fd;

static const char *words(unsigned seed)
{
	static char text[WORDS * 8 + 1];
	for (size_t i = 0; i < WORDS; i++) (void)snprintf(text + i * 8, 9, "%02u %04zu\n", seed % 100, i);
	return text;
}

static void host_write(const char *name, const char *text)
{
	char path[640];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* What is a file in the box and in the transaction is a folder here, and the other way round. */
static void host_fill(void)
{
	char path[640];
	(void)snprintf(folder, sizeof(folder), "%s/host", test_tmpdir());
	CHECK(mkdir(folder, 0755) == 0);
	(void)snprintf(path, sizeof(path), "%s/early", folder);
	CHECK(mkdir(path, 0755) == 0);
	host_write("early/in", words(1));
	host_write("d", "a file\n");
	host_write("text", words(2));
	host_write("zlast", "last\n");
}

static void box_fill(cb_box *b)
{
	char path[64];
	for (unsigned i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/d/%u/f", i % 3);
		CHECK_OK(cb_write_file(b, path, words(i), CB_STRING, &CB_WITH(cb_write_options, .parents = true), &err));
	}
	must_write(b, "/work/text", "one two three\n");
	CHECK_OK(cb_xattr_set(b, "/work/text", "user.a", "1", 1, 0, &err));
	CHECK_OK(cb_link(b, "/work/text", "/work/other", &err));
}

static void begin(bool memory)
{
	cb_box *b, *side;
	s = test_store_open(memory);
	CHECK_OK(cb_cancel_create(&token, &err));
	host_fill();
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	box_fill(b);
	CHECK_OK(cb_box_open(s, "demo@4", &older, &err));
	side = must_fork(s, "demo", "side");
	CHECK_OK(cb_remove(side, "/work/d", &err));
	must_write(side, "/work/d", "no folder\n");
	CHECK_OK(cb_mkdir(side, "/work/early", 0700, 0, &err));
	must_write(side, "/work/early/in", words(7));
	must_write(side, "/work/text", words(8));
	tar_fd = memfd_create("tar", 0);
	CHECK_OK(cb_tar_export(side, "/work", tar_fd, NULL, NULL, &err));
	cb_box_close(side);
	cb_box_close(b);
}

static void end(void)
{
	cb_box_close(older);
	test_store_sound(s);
	cb_cancel_free(token);
	cb_store_close(s);
}

/* ---- what is tried ---- */

static cb_code try_tar(cb_box *t, cb_error *e)
{
	CHECK(lseek(tar_fd, 0, SEEK_SET) == 0);
	return cb_tar_import(t, tar_fd, &CB_WITH(cb_tar_options, .to = "/work/into"), NULL, e);
}

static cb_code try_import(cb_box *t, cb_error *e)
{
	return cb_import(t, folder, &CB_WITH(cb_import_options, .remove_missing = true), NULL, e);
}

static cb_code try_edit(cb_box *t, cb_error *e)
{
	const cb_replacement both[] = {{"one", 3, "1", 1}, {"three", 5, "3", 1}};
	return cb_edit(t, "/work/text", both, 2, NULL, NULL, e);
}

static cb_code try_copy(cb_box *t, cb_error *e)
{
	return cb_copy(t, "/work/d", "/work/x/y/z", CB_PARENTS, e);
}

static cb_code try_remove(cb_box *t, cb_error *e)
{
	return cb_remove(t, "/work/d", e);
}

static cb_code try_restore(cb_box *t, cb_error *e)
{
	return cb_restore(t, older, "/work/d", NULL, e);
}

static cb_code try_write(cb_box *t, cb_error *e)
{
	cb_write_options o = CB_WITH(cb_write_options, .parents = true, .expected_version = CB_VERSION_ABSENT);
	return cb_write_file(t, "/work/n/o/p", "new", 3, &o, e);
}

static cb_code try_mkdir(cb_box *t, cb_error *e)
{
	return cb_mkdir(t, "/work/m", 0755, 0, e);
}

static cb_code try_rename(cb_box *t, cb_error *e)
{
	return cb_rename(t, "/work/d", "/work/q/r", CB_PARENTS, e);
}

enum { MKDIR = 0 /* in */ };
static const struct {
	const char *name;
	cb_code (*call)(cb_box *t, cb_error *err);
} all[] = {
	{"cb_mkdir", try_mkdir},     {"cb_tar_import", try_tar},   {"cb_import", try_import},
	{"cb_edit", try_edit},       {"cb_copy", try_copy},        {"cb_remove", try_remove},
	{"cb_restore", try_restore}, {"cb_write_file", try_write}, {"cb_rename", try_rename},
};

/* ---- how ---- */

/* With something of its own that is only in memory. */
static cb_box *begin_txn(cb_box *b)
{
	cb_box *t = must_begin(b);
	must_write(t, "/work/early", words(9));
	must_write(t, "/work/d/1/mine", words(10));
	return t;
}

static cb_code armed(size_t which, bool memory_fails, long n, cb_box *t)
{
	memset(&err, 0, sizeof(err));
	cb_limit limit = CB_WITH(cb_limit, .cancel = token);
	CHECK_OK(cb_limit_push(&limit, &err));
	if (memory_fails) mem_fail_after(n);
	else cancel_fire_at_look(token, n);
	cb_code code = all[which].call(t, &err);
	mem_fail_after(0);
	cancel_fire_at_look(token, 0);
	cb_limit_pop();
	cb_cancel_reset(token);
	return code;
}

static void try_one(cb_box *b, size_t which, bool memory_fails)
{
	cb_box *t = begin_txn(b);
	char *before = must_dump(t);
	long n = 1, failed = 0;
	for (cb_code code = CB_NOMEM; code != CB_OK; n += n < EACH ? 1 : n / 8) {
		code = armed(which, memory_fails, n, t);
		if (code == CB_OK) break;
		failed++;
		CHECK_MSG(code == (memory_fails ? CB_NOMEM : CB_CANCELLED), "%s: %s at %ld: %s", all[which].name,
		          cb_code_name(code), n, err.message);
		char *now = must_dump(t);
		CHECK_MSG(strcmp(now, before) == 0, "%s, %s at %ld has changed the transaction:\n%s---\n%s", all[which].name,
		          cb_code_name(code), n, before, now);
	}
	CHECK_MSG(failed > 0, "%s never failed", all[which].name);
	test_note("%s failed %ld times", all[which].name, failed);
	cb_box_close(t);
}

TEST_BOTH(each_allocation_fails)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	for (size_t i = 0; i < ARRAY_LEN(all); i++) try_one(b, i, true);
	cb_box_close(b);
	end();
}

TEST_BOTH(ended_at_each_look)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	for (size_t i = 0; i < ARRAY_LEN(all); i++) try_one(b, i, false);
	cb_box_close(b);
	end();
}

/* ---- imports that fail for their own reasons ---- */

static bool stop(void *context, const cb_progress *p)
{
	(void)p;
	return (*(int *)context)-- > 0;
}

typedef enum reason { CUT, QUOTA, STOPPED, REASONS } reason;

static void fail_tar(cb_box *b, reason why)
{
	static const cb_code expected[] = {[CUT] = CB_CORRUPT, [QUOTA] = CB_QUOTA, [STOPPED] = CB_INTERRUPTED};
	off_t whole = lseek(tar_fd, 0, SEEK_END);
	int cut = memfd_create("cut", 0), progress = 3;
	AUTO_BUF buf bytes = BUF_INIT(1 << 24);
	uint8_t *at;
	CHECK_OK(buf_extend(&bytes, (size_t)whole, &at, &err));
	CHECK(pread(tar_fd, at, (size_t)whole, 0) == whole);
	size_t size = (size_t)(why == CUT ? whole / 2 : whole);
	CHECK(write(cut, at, size) == (ssize_t)size && lseek(cut, 0, SEEK_SET) == 0);
	cb_box *t = must_begin(b);
	must_write(t, "/work/into/early", words(9));
	char *before = must_dump(t);
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .progress = stop, .context = &progress);
	cb_tar_options o = CB_WITH(cb_tar_options, .to = "/work/into", .watch = why == STOPPED ? &watch : NULL);
	CHECK_CODE(cb_tar_import(t, cut, &o, NULL, &err), expected[why]);
	CHECK_STR(must_dump(t), before);
	CHECK_STR(must_read(t, "/work/into/early"), words(9));
	(void)must_commit(t);
	close(cut);
}

TEST_BOTH(a_tar_stream_that_fails)
{
	begin(memory);
	for (reason why = CUT; why < REASONS; why++) {
		cb_box *b = must_fork(s, "demo", why == CUT ? "cut" : why == QUOTA ? "quota" : "stopped");
		CHECK_OK(cb_mkdir(b, "/work/into", 0755, 0, &err));
		if (why == QUOTA) CHECK_OK(cb_box_quota_set(b, 25000, 0, 0, &err));
		fail_tar(b, why);
		cb_box_close(b);
	}
	end();
}

/* What a call relied on goes with it. */
TEST_BOTH(what_failed_relied_on_nothing)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	for (long n = 1; n < 400; n++) {
		cb_box *t = must_begin(b);
		must_write(t, "/work/mine", "mine\n");
		cb_code code = armed(MKDIR, true, n, t);
		if (code == CB_OK) cb_box_close(t);
		if (code == CB_OK) break;
		CHECK_OK(cb_mkdir(b, "/work/m", 0755, 0, &err));
		(void)must_commit(t);
		CHECK_OK(cb_rmdir(b, "/work/m", &err));
		CHECK_OK(cb_unlink(b, "/work/mine", &err));
	}
	cb_box_close(b);
	end();
}
