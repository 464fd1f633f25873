/*
 * quota_of_what_is_left.c: a merge, a restore of a path, a copy, an import and an undo hold more on their way than at their end. They were
 * refused for it, though what they leave behind is no larger than the bound, or than the box was.
 */
#include "harness/boxes.h"
#include "harness/hosttrees.h"

#include <string.h>

typedef struct world {
	cb_store *store;
	cb_box *b;
} world;

static world begin(bool memory)
{
	cb_error err = {0};
	world w = {.store = test_store_open(memory)};
	CHECK_OK(cb_box_create(w.store, "demo", &w.b, &err));
	return w;
}

static void end(world *w)
{
	test_store_sound(w->store);
	cb_box_close(w->b);
	cb_store_close(w->store);
}

static void write_bytes(cb_box *b, const char *path, size_t size)
{
	cb_error err = {0};
	char bytes[1024];
	memset(bytes, 'x', sizeof(bytes));
	CHECK_OK(cb_write_file(b, path, bytes, size, NULL, &err));
}

static void bound(const world *w, uint64_t bytes, uint64_t file_bytes)
{
	cb_error err = {0};
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(w->b, &info, &err));
	CHECK_OK(cb_box_quota_set(w->b, bytes, info.files, file_bytes, &err));
}

static void merge_gives(const world *w, cb_box *from, cb_code expected)
{
	cb_error err = {0};
	cb_merge_options dry = CB_WITH(cb_merge_options, .dry_run = true);
	CHECK_CODE(cb_merge(w->b, from, &dry, NULL, NULL, &err), expected);
	CHECK_CODE(cb_merge(w->b, from, NULL, NULL, NULL, &err), expected);
}

TEST_BOTH(merge_that_replaces)
{
	cb_error err = {0};
	world w = begin(memory);
	write_bytes(w.b, "/work/a", 10);
	write_bytes(w.b, "/work/b", 100);
	cb_box *fork = must_fork(w.store, "demo", "fork");
	write_bytes(fork, "/work/a", 100);
	write_bytes(fork, "/work/b", 10);
	bound(&w, 120, 0);
	merge_gives(&w, fork, CB_OK);
	CHECK_OK(cb_unlink(fork, "/work/a", &err));
	write_bytes(fork, "/work/b", 100);
	merge_gives(&w, fork, CB_OK);
	CHECK(exists(w.b, "/work/b") && !exists(w.b, "/work/a"));
	write_bytes(fork, "/work/b", 121);
	merge_gives(&w, fork, CB_QUOTA);
	bound(&w, 0, 110);
	merge_gives(&w, fork, CB_QUOTA);
	bound(&w, 0, 121);
	merge_gives(&w, fork, CB_OK);
	write_bytes(fork, "/work/c", 1);
	merge_gives(&w, fork, CB_QUOTA);
	cb_box_close(fork);
	end(&w);
}

static void restore_in(const world *w, cb_box *into)
{
	cb_error err = {0};
	cb_box *old = must_open(w->store, "demo@2");
	CHECK_OK(cb_restore(into, old, "/work/d", NULL, &err));
	CHECK(exists(into, "/work/d/a") && !exists(into, "/work/d/e/b"));
	CHECK_CODE(cb_write_file(into, "/work/x", "more than the bound allows", 26, NULL, &err), CB_QUOTA);
	cb_box_close(old);
}

TEST_BOTH(restore_of_a_path_that_replaces)
{
	cb_error err = {0};
	world w = begin(memory);
	CHECK_OK(cb_mkdir(w.b, "/work/d/e", 0755, CB_PARENTS, &err)); /* 1 */
	write_bytes(w.b, "/work/d/a", 100);                           /* 2 */
	write_bytes(w.b, "/work/d/e/b", 105);                         /* 3 */
	CHECK_OK(cb_unlink(w.b, "/work/d/a", &err));                  /* 4 */
	bound(&w, 120, 0);
	cb_box *txn = must_begin(w.b);
	restore_in(&w, txn);
	(void)must_commit(txn);
	CHECK_OK(cb_undo(w.b, 0, NULL, &err));
	restore_in(&w, w.b);
	/* A file larger than one may be, in the place of one that is larger still. */
	write_bytes(w.b, "/work/d/a", 50);
	bound(&w, 40, 40);
	cb_box *old = must_open(w.store, "demo@-1");
	CHECK_CODE(cb_restore(w.b, old, "/work/d", NULL, &err), CB_QUOTA);
	cb_box_close(old);
	CHECK_OK(cb_box_quota_set(w.b, 0, 0, 0, &err));
	write_bytes(w.b, "/work/d/a", 200);
	bound(&w, 40, 40);
	old = must_open(w.store, "demo@-1");
	CHECK_OK(cb_restore(w.b, old, "/work/d", NULL, &err));
	cb_box_close(old);
	end(&w);
}

TEST_BOTH(copy_over_a_file_of_a_full_box)
{
	cb_error err = {0};
	world w = begin(memory);
	write_bytes(w.b, "/work/a", 100);
	write_bytes(w.b, "/work/b", 100);
	write_bytes(w.b, "/work/c", 99);
	bound(&w, 50, 50);
	CHECK_OK(cb_copy(w.b, "/work/a", "/work/b", 0, &err));
	CHECK_CODE(cb_copy(w.b, "/work/a", "/work/c", 0, &err), CB_QUOTA);
	cb_box *txn = must_begin(w.b);
	CHECK_OK(cb_copy(txn, "/work/c", "/work/b", 0, &err));
	CHECK_CODE(cb_copy(txn, "/work/a", "/work/c", 0, &err), CB_QUOTA);
	(void)must_commit(txn);
	end(&w);
}

static void host_bytes(const char *folder, const char *name, size_t size)
{
	static const char bytes[1024];
	host_write(host_text("%s/%s", folder, name), bytes, size);
}

TEST_BOTH(import_that_replaces)
{
	cb_error err = {0};
	const char *folder = host_text("%s/host", test_tmpdir());
	world w = begin(memory);
	host_shell("mkdir '%s'", folder);
	host_bytes(folder, "a", 10);
	host_bytes(folder, "b", 100);
	CHECK_OK(cb_import(w.b, folder, NULL, NULL, &err));
	bound(&w, 110, 0);
	host_bytes(folder, "a", 100);
	host_bytes(folder, "b", 10);
	CHECK_OK(cb_import(w.b, folder, NULL, NULL, &err));
	host_bytes(folder, "b", 11);
	CHECK_CODE(cb_import(w.b, folder, NULL, NULL, &err), CB_QUOTA);
	cb_box *txn = must_begin(w.b);
	CHECK_CODE(cb_import(txn, folder, NULL, NULL, &err), CB_QUOTA);
	(void)must_commit(txn);
	end(&w);
}

TEST_BOTH(undo_by_merge_that_replaces)
{
	cb_error err = {0};
	world w = begin(memory);
	write_bytes(w.b, "/work/a", 100);
	write_bytes(w.b, "/work/b", 10);
	must_write(w.b, "/work/text", "1\n2\n3\n4\n5\n6\n7\n8\n");
	cb_box *txn = must_begin(w.b);
	write_bytes(txn, "/work/a", 10);
	write_bytes(txn, "/work/b", 100);
	must_write(txn, "/work/text", "one\n2\n3\n4\n5\n6\n7\n8\n");
	uint64_t seq = must_commit(txn).seq;
	must_write(w.b, "/work/text", "one\n2\n3\n4\n5\n6\n7\neight\n");
	bound(&w, 140, 0);
	CHECK_OK(cb_undo(w.b, seq, NULL, &err));
	CHECK_STR(must_read(w.b, "/work/text"), "1\n2\n3\n4\n5\n6\n7\neight\n");
	CHECK_U64(strlen(must_read(w.b, "/work/a")), 100);
	end(&w);
}

/* Many files are looked at before the writer lock is taken, by bounds that may be lower when it is. */
TEST_BOTH(commit_of_many_files)
{
	enum { MANY = 1500 };
	cb_error err = {0};
	world w = begin(memory);
	write_bytes(w.b, "/work/old", 900);
	cb_box *txn = must_begin(w.b);
	for (unsigned i = 0; i < MANY; i++) write_bytes(txn, host_text("/work/f%u", i), i == MANY / 2 ? 500 : 10);
	CHECK_OK(cb_rename(txn, "/work/old", "/work/moved", 0, &err));
	write_bytes(txn, "/work/moved", 800);
	must_write(w.b, "/work/beside", "x"); /* it is moved onto another head */
	CHECK_OK(cb_box_quota_set(w.b, 0, 0, 499, &err));
	CHECK_CODE(cb_txn_commit(txn, NULL, NULL, &err), CB_QUOTA);
	CHECK_OK(cb_box_quota_set(w.b, 0, 0, 500, &err)); /* the file that moved has more, but less than before */
	(void)must_commit(txn);
	CHECK(exists(w.b, "/work/f0") && exists(w.b, "/work/moved") && exists(w.b, "/work/beside"));
	end(&w);
}
