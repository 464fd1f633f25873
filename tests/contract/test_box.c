/* test_box.c: boxes, steps, undo, forks, merges on the public API, on disk and in memory. */
#include "harness/boxes.h"

static cb_box *new_box(cb_store *s, const char *name)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, name, &b, &err));
	return b;
}

TEST_BOTH(write_read_step)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	CHECK_U64(must_seq(b), 0);
	must_write(b, "/work/a.txt", "hello\n");
	CHECK_U64(must_seq(b), 1);
	CHECK_STR(must_read(b, "/work/a.txt"), "hello\n");
	CHECK_STR(must_read(b, "work/./a.txt"), "hello\n");
	cb_box *before = must_open(s, "demo@0");
	CHECK_CODE(cb_read_file(before, "/work/a.txt", &(char *){0}, NULL, &err), CB_NOTFOUND);
	CHECK_CODE(cb_write_file(before, "/work/a.txt", "x", 1, NULL, &err), CB_READONLY);
	CHECK_STR(must_diff(before, b), "A /work/a.txt\n");
	cb_box_close(before);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(versions_only_grow)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	must_write(b, "/work/a", "one");
	uint64_t v1 = must_version(b, "/work/a");
	must_write(b, "/work/a", "two");
	uint64_t v2 = must_version(b, "/work/a");
	CHECK(v2 > v1);
	cb_write_options stale = CB_WITH(cb_write_options, .expected_version = v1);
	CHECK_CODE(cb_write_file(b, "/work/a", "x", 1, &stale, &err), CB_VERSION);
	CHECK_STR(must_read(b, "/work/a"), "two");
	cb_box *old = must_open(s, "demo@1");
	CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "one");
	CHECK(must_version(b, "/work/a") > v2);
	CHECK_CODE(cb_write_file(b, "/work/a", "x", 1, &stale, &err), CB_VERSION);
	cb_write_options absent = CB_WITH(cb_write_options, .expected_version = CB_VERSION_ABSENT);
	CHECK_CODE(cb_write_file(b, "/work/a", "x", 1, &absent, &err), CB_VERSION);
	CHECK_OK(cb_write_file(b, "/work/new", "x", 1, &absent, &err));
	CHECK(!exists(b, "/work/none"));
	cb_write_options gone = CB_WITH(cb_write_options, .expected_version = 5);
	CHECK_CODE(cb_write_file(b, "/work/none", "x", 1, &gone, &err), CB_VERSION);
	CHECK(!exists(b, "/work/none"));
	test_store_sound(s);
	cb_box_close(old);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(undo_redo)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	must_write(b, "/work/a", "1");
	must_write(b, "/work/a", "2");
	must_write(b, "/work/b", "b");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK(!exists(b, "/work/b"));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "1");
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "2");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "1");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK(!exists(b, "/work/a"));
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_CODE(cb_redo(b, NULL, &err), CB_NOTHING);
	CHECK_STR(must_read(b, "/work/a"), "2");
	CHECK_STR(must_read(b, "/work/b"), "b");
	must_write(b, "/work/c", "c");
	CHECK_CODE(cb_redo(b, NULL, &err), CB_NOTHING);
	/* a middle step */
	CHECK_OK(cb_undo(b, 3, NULL, &err));
	CHECK(!exists(b, "/work/b") && exists(b, "/work/c"));
	must_write(b, "/work/a", "3");
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_CONFLICT);
	CHECK(strstr(err.message, "/work/a") != NULL);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(fork_and_merge)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	must_write(b, "/work/a", "a\nb\nc\nd\ne\n");
	must_write(b, "/work/gone", "x");
	cb_box *f = must_fork(s, "demo", "try");
	CHECK_STR(must_read(f, "/work/a"), "a\nb\nc\nd\ne\n");
	must_write(f, "/work/a", "A\nb\nc\nd\ne\n");
	must_write(f, "/work/dir/new", "n");
	CHECK_OK(cb_unlink(f, "/work/gone", &err));
	must_write(b, "/work/a", "a\nb\nc\nd\nE\n");
	must_write(b, "/work/dir/mine", "m");
	uint64_t conflicts = 9;
	CHECK_OK(cb_merge(b, f, NULL, NULL, &conflicts, &err));
	CHECK_U64(conflicts, 0);
	CHECK_STR(must_read(b, "/work/a"), "A\nb\nc\nd\nE\n");
	CHECK_STR(must_read(b, "/work/dir/new"), "n");
	CHECK_STR(must_read(b, "/work/dir/mine"), "m");
	CHECK(!exists(b, "/work/gone"));
	CHECK_CODE(cb_merge(b, f, NULL, NULL, NULL, &err), CB_NOTHING);
	/* the base of the next merge is the last one */
	must_write(f, "/work/a", "A\nb\nX\nd\ne\n");
	CHECK_OK(cb_merge(b, f, NULL, NULL, &conflicts, &err));
	CHECK_STR(must_read(b, "/work/a"), "A\nb\nX\nd\nE\n");
	/* a real conflict */
	must_write(f, "/work/a", "theirs\n");
	must_write(b, "/work/a", "ours\n");
	CHECK_CODE(cb_merge(b, f, NULL, NULL, &conflicts, &err), CB_CONFLICT);
	CHECK_U64(conflicts, 1);
	CHECK(strstr(err.message, "/work/a") != NULL);
	CHECK_STR(must_read(b, "/work/a"), "ours\n");
	cb_merge_options theirs = CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS);
	CHECK_OK(cb_merge(b, f, &theirs, NULL, &conflicts, &err));
	CHECK_STR(must_read(b, "/work/a"), "theirs\n");
	test_store_sound(s);
	cb_box_close(f);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(transactions)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo"), *other = must_open(s, "demo");
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(
		b,
		&CB_WITH(cb_txn_options, .step = &CB_WITH(cb_step_info, .kind = "edit", .params = "p", .params_size = CB_STRING)),
		&t, &err));
	must_write(t, "/work/a", "1");
	must_write(t, "/work/b", "2");
	CHECK_CODE(cb_mkdir(t, "/work/a", 0755, 0, &err), CB_EXISTS);
	CHECK(!exists(other, "/work/a"));
	must_write(other, "/work/c", "3");
	result = must_commit(t);
	CHECK(result.merged);
	CHECK_U64(result.seq, 2);
	CHECK_STR(must_read(other, "/work/a"), "1");
	CHECK_STR(must_read(b, "/work/c"), "3");
	/* a conflict keeps the loser's result as a fork, if that is wanted */
	t = must_begin(b);
	must_write(t, "/work/a", "mine");
	must_write(other, "/work/a", "yours");
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), &result, &err), CB_CONFLICT);
	CHECK_U64(result.conflicts, 1);
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_INVALID);
	cb_box_close(t);
	CHECK_STR(must_read(b, "/work/a"), "yours");
	cb_box *kept = must_open(s, result.fork);
	CHECK_STR(must_read(kept, "/work/a"), "mine");
	cb_box_close(kept);
	/* the same change on both sides is a conflict too: a counter must not lose a count */
	CHECK_OK(cb_kv_set(b, "count", "4", 1, &err));
	t = must_begin(b);
	CHECK_OK(cb_kv_set(t, "count", "5", 1, &err));
	CHECK_OK(cb_kv_set(other, "count", "5", 1, &err));
	CHECK_CODE(cb_txn_commit(t, NULL, &result, &err), CB_CONFLICT);
	cb_box_close(t);
	/* one that is closed leaves nothing */
	t = must_begin(b);
	must_write(t, "/work/zzz", "1");
	cb_box_close(t);
	CHECK(!exists(b, "/work/zzz"));
	test_store_sound(s);
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(many_steps_open_anywhere)
{
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	for (int i = 1; i <= 700; i++) {
		char path[64], text[64];
		(void)snprintf(path, sizeof(path), "/work/f%d", i % 50);
		(void)snprintf(text, sizeof(text), "%d", i);
		must_write(b, path, text);
	}
	for (int i = 1; i <= 700; i += 37) {
		char address[64], path[64], text[64];
		(void)snprintf(address, sizeof(address), "demo@%d", i);
		(void)snprintf(path, sizeof(path), "/work/f%d", i % 50);
		(void)snprintf(text, sizeof(text), "%d", i);
		cb_box *old = must_open(s, address);
		CHECK_STR(must_read(old, path), text);
		cb_box_close(old);
	}
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static cb_code count_step(void *context, const cb_step *step, cb_error *err)
{
	(void)step;
	(void)err;
	++*(int *)context;
	return CB_OK;
}

TEST_BOTH(prune_gc_check)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	for (int i = 1; i <= 1000; i++) {
		char path[64], text[200];
		(void)snprintf(path, sizeof(path), "/work/f%d", i % 70);
		memset(text, 'a' + i % 26, sizeof(text));
		(void)snprintf(text, sizeof(text), "%0150d", i);
		must_write(b, path, text);
		if (i == 300) CHECK_OK(cb_checkpoint_save(b, "three", 0, true, &err));
	}
	cb_box *f = must_fork(s, "demo@500", "fork");
	char *dump500 = must_dump(f), *dump = must_dump(b);
	uint64_t pruned = 0;
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 100), &pruned, &err));
	CHECK_U64(pruned, 1000 - 100 - 2);
	cb_gc_result gc = CB_INIT(cb_gc_result);
	CHECK_OK(cb_store_gc(s, &gc, &err));
	CHECK(gc.contents_freed > 500);
	test_store_sound(s);
	CHECK_STR(must_dump(b), dump);
	CHECK_STR(must_dump(f), dump500);
	cb_box *old = must_open(s, "demo@three");
	CHECK_STR(must_read(old, "/work/f20") + 147, "300");
	CHECK_CODE(cb_box_open(s, "demo@301", &(cb_box *){0}, &err), CB_STALE);
	int steps = 0;
	bool was_pruned = false;
	CHECK_OK(cb_log(b, NULL, count_step, &steps, &was_pruned, &err));
	CHECK_U64(steps, 100 + 2 + 1);
	CHECK(was_pruned);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, &gc, &err));
	CHECK_STR(must_dump(f), dump500);
	test_store_sound(s);
	cb_box_close(old);
	cb_box_close(b);
	cb_box_close(f);
	cb_store_close(s);
}
