/* boxes.h: what tests of the public API share: stores on disk and in memory, short calls that must succeed, fsck at the end. */
#ifndef TESTS_BOXES_H
#define TESTS_BOXES_H

#include <cowbox/cowbox.h>

#include "harness/harness.h"

/* A fresh store: on disk below the test's folder, or in memory. */
cb_store *test_store_open(bool memory);
/* The store of test_store_open(false), once more (another handle on the same files). */
cb_store *test_store_reopen(void);
const char *test_store_path(void);
/* fsck must find nothing; complaints are printed. */
void test_store_sound(cb_store *store);

/* Keeps what a test will not free reachable to the end, so that the leak checker sees only the library's leaks. Returns p. */
void *test_keep(void *p);

/* Calls that must succeed. Strings given back are freed when the test's process ends. */
void must_write(cb_box *b, const char *path, const char *text);
char *must_read(cb_box *b, const char *path);
/* One line of /work/f, a file of ten. */
void must_edit_line(cb_box *b, int line, const char *text);
cb_box *must_open(cb_store *s, const char *address);
cb_box *must_fork(cb_store *s, const char *address, const char *name);
uint64_t must_version(cb_box *b, const char *path);
uint64_t must_seq(cb_box *b);
bool exists(cb_box *b, const char *path);
/* A transaction; and its commit, after which it is closed. */
cb_box *must_begin(cb_box *b);
cb_commit_result must_commit(cb_box *txn);
/* A limit of this thread's calls, until cb_limit_pop(). */
void limit_push(int64_t timeout_ms, cb_cancel *token);
/* "A /work/x\nM /work/y\n" of a difference. */
char *must_diff(cb_box *from, cb_box *to);
/* The steps of its lines, as blame tells them: "1 1 6". */
char *must_blame(cb_box *b, const char *path);
/* Every path with type, mode, size and content hash: two states are equal when these texts are. Times and versions are left out. */
char *must_dump(cb_box *b);

/* TEST_BOTH(name) { use `memory` } runs on disk and in memory. */
#define TEST_BOTH(id)                       \
	static void both_##id(bool memory); \
	TEST(id##_disk)                     \
	{                                   \
		both_##id(false);           \
	}                                   \
	TEST(id##_memory)                   \
	{                                   \
		both_##id(true);            \
	}                                   \
	static void both_##id(bool memory)

#endif
