/*
 * A child of fork() could read and write through its copy of the parent's transaction, and only the commit said CB_FORKED; when the parent
 * had let go meanwhile, and what nobody kept was pruned and collected, the transaction and open files were CB_CORRUPT in the child.
 */
#include "harness/boxes.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 300, CHILD_SECONDS = 60 };

#define IN_CHILD(condition)                                                                                             \
	do {                                                                                                            \
		if (!(condition)) {                                                                                     \
			(void)fprintf(stderr, "# in the child, line %d: %s (%s)\n", __LINE__, #condition, err.message); \
			_exit(1);                                                                                       \
		}                                                                                                       \
	} while (0)

static void child_must_succeed(pid_t pid)
{
	int status = 1;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_U64(status, 0);
}

static cb_code no_more(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)context;
	(void)path;
	(void)info;
	(void)err;
	return CB_INTERRUPTED;
}

TEST_BOTH(transactions_and_drafts)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL, *d = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "x");
	cb_box *t = must_begin(b);
	must_write(t, "/work/g", "y");
	CHECK_OK(cb_box_draft(s, "drafted", &d, &err));
	must_write(d, "/work/f", "x");
	pid_t pid = fork();
	if (pid == 0) {
		char *text = NULL;
		cb_file *f = NULL;
		cb_stat_info info = CB_INIT(cb_stat_info);
		(void)alarm(CHILD_SECONDS);
		IN_CHILD(cb_read_file(t, "/work/g", &text, NULL, &err) == CB_FORKED);
		IN_CHILD(cb_read_file(t, "/work/f", &text, NULL, &err) == CB_FORKED);
		IN_CHILD(cb_stat(t, "/work/f", 0, &info, &err) == CB_FORKED);
		IN_CHILD(cb_walk(t, "/", no_more, NULL, &err) == CB_FORKED);
		IN_CHILD(cb_write_file(t, "/work/g", "z", 1, NULL, &err) == CB_FORKED);
		IN_CHILD(cb_open(t, "/work/g", CB_READ | CB_WRITE, 0, &f, &err) == CB_FORKED);
		IN_CHILD(cb_txn_commit(t, NULL, NULL, &err) == CB_FORKED);
		IN_CHILD(cb_txn_keep(t, NULL, NULL, &err) == CB_FORKED);
		IN_CHILD(cb_txn_drop(t, &err) == CB_FORKED);
		IN_CHILD(cb_txn_commit(t, NULL, NULL, &err) == CB_FORKED);
		cb_box_close(t);
		IN_CHILD(cb_write_file(d, "/work/f", "z", 1, NULL, &err) == CB_FORKED);
		IN_CHILD(cb_box_publish(d, &err) == CB_FORKED);
		cb_box_close(d);
		IN_CHILD(cb_read_file(b, "/work/f", &text, NULL, &err) == (memory ? CB_FORKED : CB_OK));
		_exit(0);
	}
	child_must_succeed(pid);
	(void)must_commit(t);
	CHECK_STR(must_read(b, "/work/g"), "y");
	CHECK_OK(cb_box_publish(d, &err));
	CHECK_STR(must_read(d, "/work/f"), "x");
	cb_box_close(d);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* What is found in the cache would hide that it is gone. */
static cb_store *open_small(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_store_close(test_store_open(false));
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .cache_bytes = 4096), &s, &err));
	return s;
}

static void file_name(char out[64], int i)
{
	(void)snprintf(out, 64, "/work/dir%d/f%d", i % 7, i);
}

static void fill(cb_box *b)
{
	cb_error err = {0};
	char path[64], text[300];
	for (int i = 0; i < FILES; i++) {
		file_name(path, i);
		memset(text, 'a' + i % 26, sizeof(text));
		CHECK_OK(cb_write_file(b, path, text, sizeof(text), &CB_WITH(cb_write_options, .parents = true), &err));
	}
}

static void empty_and_collect(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	char path[64];
	for (int i = 0; i < 200; i++) {
		file_name(path, i);
		CHECK_OK(cb_remove(b, path, &err));
	}
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
}

TEST(what_the_parent_let_go)
{
	cb_error err = {0};
	int go[2];
	cb_store *s = open_small();
	cb_box *b = NULL;
	CHECK(pipe(go) == 0);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	fill(b);
	cb_box *old = must_open(s, "demo@-9"), *t = must_begin(b);
	must_write(t, "/work/x", "x");
	cb_file *f = NULL, *stays = NULL;
	CHECK_OK(cb_open(b, "/work/dir3/f3", CB_READ, 0, &f, &err));
	CHECK_OK(cb_open(b, "/work/dir5/f250", CB_READ, 0, &stays, &err));
	pid_t pid = fork();
	if (pid == 0) {
		char byte, bytes[300], path[64];
		(void)alarm(CHILD_SECONDS);
		IN_CHILD(read(go[0], &byte, 1) == 1);
		for (int i = 0; i < 100; i++) {
			char *text = NULL;
			file_name(path, i);
			IN_CHILD(cb_read_file(old, path, &text, NULL, &err) == CB_STALE);
			IN_CHILD(cb_read_file(t, path, &text, NULL, &err) == CB_FORKED);
			IN_CHILD(cb_read_file(b, path, &text, NULL, &err) == CB_NOTFOUND);
		}
		size_t n = 0;
		IN_CHILD(cb_pread(f, bytes, sizeof(bytes), 0, &n, &err) == CB_STALE);
		IN_CHILD(cb_pread(stays, bytes, sizeof(bytes), 0, &n, &err) == CB_OK && n == sizeof(bytes));
		IN_CHILD(cb_close(f, &err) == CB_OK && cb_close(stays, &err) == CB_OK);
		_exit(0);
	}
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_close(stays, &err));
	cb_box_close(old);
	cb_box_close(t);
	empty_and_collect(s, b);
	CHECK(write(go[1], "x", 1) == 1);
	child_must_succeed(pid);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* An open file of the child keeps its last state from the child's first call on, whatever the parent does then. */
TEST(what_the_child_keeps)
{
	cb_error err = {0};
	int go[2], back[2];
	cb_store *s = open_small();
	cb_box *b = NULL;
	CHECK(pipe(go) == 0 && pipe(back) == 0);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	fill(b);
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/dir3/f3", CB_READ, 0, &f, &err));
	pid_t pid = fork();
	if (pid == 0) {
		char byte, bytes[300];
		size_t n = 0;
		(void)alarm(CHILD_SECONDS);
		IN_CHILD(cb_pread(f, bytes, 1, 0, &n, &err) == CB_OK);
		IN_CHILD(write(back[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
		IN_CHILD(cb_pread(f, bytes, sizeof(bytes), 0, &n, &err) == CB_OK && n == sizeof(bytes) && bytes[7] == 'd');
		_exit(0);
	}
	char byte;
	CHECK(read(back[0], &byte, 1) == 1);
	CHECK_OK(cb_close(f, &err));
	empty_and_collect(s, b);
	CHECK(write(go[1], "x", 1) == 1);
	child_must_succeed(pid);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(a_running_step)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "before");
	cb_file *f = NULL, *made = NULL, *gone = NULL;
	must_write(b, "/work/gone", "before");
	CHECK_OK(cb_open(b, "/work/gone", CB_READ | CB_WRITE, 0, &gone, &err));
	CHECK_OK(cb_unlink(b, "/work/gone", &err));
	CHECK_OK(cb_write(gone, "after", 5, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_write(f, "after", 5, &err));
	CHECK_OK(cb_open(b, "/work/made", CB_READ | CB_WRITE | CB_CREATE, 0644, &made, &err));
	CHECK_OK(cb_write(made, "after", 5, &err));
	pid_t pid = fork();
	if (pid == 0) {
		char bytes[16];
		size_t n = 0;
		(void)alarm(CHILD_SECONDS);
		IN_CHILD(cb_pread(f, bytes, sizeof(bytes), 0, &n, &err) == CB_OK && n == 6 && memcmp(bytes, "before", 6) == 0);
		IN_CHILD(cb_pread(made, bytes, sizeof(bytes), 0, &n, &err) == CB_STALE);
		IN_CHILD(cb_pread(gone, bytes, sizeof(bytes), 0, &n, &err) == CB_STALE);
		IN_CHILD(cb_write_file(b, "/work/child", "x", 1, NULL, &err) == CB_OK);
		IN_CHILD(cb_close(f, &err) == CB_OK && cb_close(made, &err) == CB_OK && cb_close(gone, &err) == CB_OK);
		cb_box_close(b);
		cb_store_close(s);
		_exit(0);
	}
	child_must_succeed(pid);
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_close(made, &err));
	CHECK_OK(cb_close(gone, &err));
	CHECK_STR(must_read(b, "/work/f"), "aftere");
	CHECK_STR(must_read(b, "/work/made"), "after");
	CHECK(exists(b, "/work/child"));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
