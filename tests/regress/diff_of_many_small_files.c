/*
 * The contents of two files were compared in two blocks of 64 KiB, however small the files; the allocator did not take up again the holes
 * that these left between what is kept of the changes. So a difference and a merge took 126 KB of addresses and 10 KB of memory for each
 * file.
 */
#include <malloc.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { FILES = 1000, EACH_MOST = 16 << 10 };

static cb_store *s;
static cb_box *a, *b;
static cb_error err;

/* Files of some size, changed in a fork. */
static void make(const char *store, size_t size)
{
	char path[64], *text = test_keep(malloc(size));
	memset(text, 'x', size);
	CHECK_OK(cb_store_open(store, NULL, &s, &err));
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	for (int fork = 0; fork < 2; fork++) {
		cb_box *t;
		if (fork) CHECK_OK(cb_box_fork(s, "a", "b", &b, &err));
		CHECK_OK(cb_txn_begin(fork ? b : a, NULL, &t, &err));
		for (unsigned i = 0; i < FILES; i++) {
			(void)snprintf(path, sizeof(path), "/work/d%u/f%u", i / 50, i);
			(void)snprintf(text, size, "%u %d", i, fork);
			CHECK_OK(cb_write_file(t, path, text, size, &CB_WITH(cb_write_options, .parents = true), &err));
		}
		CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
		cb_box_close(t);
	}
	must_write(a, "/work/other", "so that there is something to merge");
	cb_box_close(a);
	cb_box_close(b);
	cb_store_close(s);
}

/* By another process: this one's heap has no holes yet. */
static void begin(size_t size)
{
	char store[4096];
	int status = 0;
	(void)snprintf(store, sizeof(store), "%s/store", test_tmpdir());
	pid_t maker = fork();
	if (maker == 0) {
		make(store, size);
		_exit(0);
	}
	CHECK(maker > 0 && waitpid(maker, &status, 0) == maker && status == 0);
	CHECK_OK(cb_store_open(store, NULL, &s, &err));
	a = must_open(s, "a");
	b = must_open(s, "b");
}

static cb_code count(void *context, const cb_change *c, cb_error *e)
{
	(void)c;
	(void)e;
	++*(unsigned *)context;
	return CB_OK;
}

static void check_grown(size_t before, const char *what)
{
	size_t grown = mallinfo2().arena - before;
	CHECK_MSG(grown < (size_t)FILES * EACH_MOST, "%s: the heap grew by %zu bytes", what, grown);
}

TEST(small_files)
{
	unsigned changes = 0;
	begin(200);
	size_t before = mallinfo2().arena;
	CHECK_OK(cb_diff(a, b, NULL, count, &changes, &err));
	CHECK_U64(changes, FILES + 1);
	check_grown(before, "diff");
	before = mallinfo2().arena;
	CHECK_OK(cb_merge(a, b, &CB_WITH(cb_merge_options, .dry_run = true), NULL, NULL, &err));
	check_grown(before, "merge");
	cb_box_close(a);
	cb_box_close(b);
	cb_store_close(s);
}
