/*
 * Whoever had begun to read or work on a state lost it when another process ran gc, without any prune: an open transaction was STALE for
 * ever, a walk of the head ended after 804 of 20,000 entries, and a file that was unlinked while it was open could not be read on.
 */
#include "harness/boxes.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 2500, STEPS = 300 };

static void file_name(char out[64], int i)
{
	(void)snprintf(out, 64, "/work/d%02d/file-%05d", i % 40, i);
}

static void fill(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = NULL;
	char path[64], text[200];
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	for (int i = 0; i < 40; i++) {
		(void)snprintf(path, sizeof(path), "/work/d%02d", i);
		CHECK_OK(cb_mkdir(t, path, 0755, 0, &err));
	}
	for (int i = 0; i < FILES; i++) {
		file_name(path, i);
		(void)snprintf(text, sizeof(text), "%0150d", i); /* longer than what the map itself holds */
		must_write(t, path, text);
	}
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	/* The newest root is one of those that gc drops when they are old. */
	for (int i = 0; i < STEPS; i++) {
		file_name(path, FILES + i % 40);
		must_write(b, path, i % 2 ? "odd" : "even");
	}
	cb_box_close(b);
	cb_store_close(s);
}

/* Nothing is found in the cache: what is read comes from the store. */
static cb_store *open_without_cache(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .cache_bytes = 1, .no_create = true), &s, &err));
	return s;
}

/* In a process of its own: many steps that rewrite everything, so that no later state needs what an earlier one had; then gc. */
static void move_on_and_gc(bool prune)
{
	cb_error err = {0};
	cb_store *s = open_without_cache();
	cb_box *b = must_open(s, "demo");
	for (int k = 0; k < 3; k++) {
		cb_box *t = NULL;
		CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
		for (int i = 0; i < FILES; i++) {
			char path[64];
			file_name(path, i);
			if (k == 0) CHECK_OK(cb_unlink(t, path, &err));
			else if (i % 100 == 0) must_write(t, path, "again");
		}
		CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
		cb_box_close(t);
		for (int i = 0; i < STEPS; i++) must_write(b, "/work/steps", i % 2 ? "odd" : "even");
	}
	if (prune) CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_box_close(b);
	cb_store_close(s);
}

static void elsewhere(bool prune)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		move_on_and_gc(prune);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process failed: %x", status);
}

static void need_file(cb_box *b, int i)
{
	char path[64], text[200];
	file_name(path, i);
	(void)snprintf(text, sizeof(text), "%0150d", i);
	CHECK_STR(must_read(b, path), text);
}

static void finish(cb_store *s, cb_box *b)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static void transaction(bool prune)
{
	cb_error err = {0};
	fill(test_store_open(false));
	cb_store *s = open_without_cache();
	cb_box *b = must_open(s, "demo");
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	must_write(t, "/work/mine", "before");
	elsewhere(prune);
	for (int i = 0; i < FILES; i += 97) need_file(t, i);
	must_write(t, "/work/mine", "after");
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
	CHECK_STR(must_read(b, "/work/mine"), "after");
	CHECK_STR(must_read(b, "/work/steps"), "odd");
	finish(s, b);
}

TEST(transaction_beside_gc)
{
	transaction(false);
}

TEST(transaction_beside_prune_and_gc)
{
	transaction(true);
}

typedef struct walking {
	unsigned seen;
	bool prune;
} walking;

static cb_code walk_visit(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	walking *w = context;
	(void)path;
	(void)err;
	if (info->type == CB_FILE && w->seen++ == 10) elsewhere(w->prune);
	return CB_OK;
}

static void walk(bool prune)
{
	cb_error err = {0};
	fill(test_store_open(false));
	cb_store *s = open_without_cache();
	cb_box *b = must_open(s, "demo");
	walking w = {.prune = prune};
	CHECK_OK(cb_walk(b, "/work", walk_visit, &w, &err));
	CHECK_U64(w.seen, FILES + 40);
	finish(s, b);
}

TEST(walk_beside_gc)
{
	walk(false);
}

TEST(walk_beside_prune_and_gc)
{
	walk(true);
}

static void unlinked_file(bool prune, bool own)
{
	cb_error err = {0};
	char path[64], text[200], got[200] = "";
	size_t n = 0;
	fill(test_store_open(false));
	cb_store *s = open_without_cache();
	cb_box *b = must_open(s, "demo");
	cb_file *f = NULL;
	file_name(path, 2321);
	(void)snprintf(text, sizeof(text), "%0150d", 2321);
	CHECK_OK(cb_open(b, path, CB_READ, 0, &f, &err));
	if (own) CHECK_OK(cb_unlink(b, path, &err));
	else elsewhere(prune);
	if (own) {
		CHECK_OK(cb_mkdir(b, "/work/x", 0755, 0, &err));
		cb_box *other = must_open(s, "demo");
		for (int i = 0; i < 3 * STEPS; i++) must_write(other, "/work/steps", i % 2 ? "odd" : "even");
		if (prune) CHECK_OK(cb_prune(other, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
		cb_box_close(other);
		CHECK_OK(cb_store_gc(s, NULL, &err));
	}
	CHECK_OK(cb_pread(f, got, sizeof(got) - 1, 0, &n, &err));
	CHECK_STR(got, text);
	CHECK_OK(cb_close(f, &err));
	finish(s, b);
}

TEST(open_file_unlinked_elsewhere_beside_gc)
{
	unlinked_file(false, false);
}

TEST(open_file_unlinked_elsewhere_beside_prune_and_gc)
{
	unlinked_file(true, false);
}

TEST(open_file_unlinked_here_beside_prune_and_gc)
{
	unlinked_file(true, true);
}

TEST(old_state_beside_prune_and_gc)
{
	fill(test_store_open(false));
	cb_store *s = open_without_cache();
	cb_box *b = must_open(s, "demo@200");
	elsewhere(true);
	for (int i = 0; i < FILES; i += 97) need_file(b, i);
	finish(s, b);
}

static cb_code count_file(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)path;
	(void)err;
	*(unsigned *)context += info->type == CB_FILE;
	return CB_OK;
}

/* An idle handle on the head keeps nothing: gc takes what only the head it last saw needed, and the handle goes on with the newest. */
TEST(idle_handle_keeps_nothing)
{
	cb_error err = {0};
	unsigned n = 0;
	fill(test_store_open(false));
	cb_store *s = open_without_cache();
	cb_box *b = must_open(s, "demo");
	need_file(b, 7);
	elsewhere(true);
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK_MSG(stats.contents < FILES / 10, "%llu contents are left", (unsigned long long)stats.contents);
	CHECK_OK(cb_walk(b, "/work", count_file, &n, &err));
	CHECK_U64(n, FILES / 100 + 40 + 1);
	finish(s, b);
}
