/*
 * test_cursors.c: every list of the API taken with a cursor is the list that its visitor is shown, at the moment the cursor was opened:
 * whatever happens to the box, the transaction, the handles and the process between two of its entries.
 */
#include "harness/lists.h"

#include <sys/wait.h>
#include <unistd.h>

static cb_cursor *must_list(list_kind kind, const list_world *w)
{
	cb_error err = {0};
	cb_cursor *c = NULL;
	cb_code code = list_open(kind, w, &c, &err);
	CHECK_MSG(code == CB_OK && c, "%s: %s (%s)", list_name(kind), cb_code_name(code), err.message);
	return c;
}

static void check_same(list_kind kind, char *seen, char *expected)
{
	CHECK_MSG(strcmp(seen, expected) == 0, "%s: the cursor gave\n%s\nand the visitor\n%s", list_name(kind), seen, expected);
	free(seen);
	free(expected);
}

/* Opened cursors and what they are to give. Some entries are taken at once: a cursor stands in the middle when things happen. */
typedef struct held {
	cb_cursor *c[LIST_KINDS];
	char *expected[LIST_KINDS];
	char *begun[LIST_KINDS];
} held;

static void hold(held *h, const list_world *w, int from, int to, test_rng *r)
{
	*h = (held){{0}, {0}, {0}};
	for (int k = from; k < to; k++) {
		if (k == LIST_CONFLICTS) continue;
		h->expected[k] = list_visit(k, w);
		h->c[k] = must_list(k, w);
		h->begun[k] = strdup("");
		for (uint64_t n = test_rand_below(r, 4); n > 0; n--) {
			cb_error err = {0};
			char *one = NULL, *joined = NULL;
			CHECK_OK(list_next(k, h->c[k], &one, &err));
			if (!one) break;
			CHECK(asprintf(&joined, "%s%s", h->begun[k], one) >= 0);
			free(one);
			free(h->begun[k]);
			h->begun[k] = joined;
		}
	}
}

static void check_held(held *h)
{
	for (int k = 0; k < LIST_KINDS; k++) {
		if (!h->c[k]) continue;
		char *rest = list_drain(k, h->c[k]), *seen = NULL;
		CHECK(asprintf(&seen, "%s%s", h->begun[k], rest) >= 0);
		check_same(k, seen, h->expected[k]);
		free(rest);
		free(h->begun[k]);
		cb_cursor_close(h->c[k]);
	}
}

static void random_changes(cb_box *b, test_rng *r, unsigned n)
{
	while (n--) list_random_change(b, r);
}

/* ---- the same list ---- */

TEST_BOTH(every_cursor_gives_what_its_visitor_is_shown)
{
	test_rng r = {test_seed()};
	for (unsigned round = 0; round < (test_soak() > 1 ? 4 * test_soak() : 2); round++) {
		cb_store *s = memory || round == 0 ? test_store_open(memory) : test_store_reopen();
		if (!memory) (void)cb_box_delete(s, "demo", NULL);
		list_world w = list_world_make(s, &r, 60);
		for (int k = 0; k < LIST_KINDS; k++) {
			if (k == LIST_CONFLICTS) continue;
			cb_cursor *c = must_list(k, &w);
			/* The audit and the uses see what the visitor's call does, not what the cursor's did: first the cursor. */
			char *seen = list_drain(k, c);
			check_same(k, seen, list_visit(k, &w));
			cb_cursor_close(c);
		}
		list_world_close(&w);
		cb_store_close(s);
	}
}

TEST_BOTH(an_old_state_is_listed_as_it_was)
{
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 40);
	cb_box_close(w.b);
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%" PRIu64, w.seq);
	w.b = must_open(s, address);
	held h;
	hold(&h, &w, 0, LIST_OF_BOX, &r);
	cb_box *head = must_open(s, "demo");
	random_changes(head, &r, 30);
	check_held(&h);
	cb_box_close(head);
	list_world_close(&w);
	test_store_sound(s);
	cb_store_close(s);
}

/* Thousands of steps and entries, so that pages and levels of the tree are crossed. */
TEST_BOTH(long_lists_come_whole_and_in_order)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	list_world w = {.s = s};
	CHECK_OK(cb_box_create(s, "demo", &w.b, &err));
	must_write(w.b, "/work/a.txt", "a\n");
	cb_box *t = must_begin(w.b);
	char path[64];
	for (unsigned i = 0; i < 3000; i++) {
		(void)snprintf(path, sizeof(path), "/work/%u/%u/f%u", i % 7, i % 31, i);
		CHECK_OK(cb_write_file(t, path, path, strlen(path), &CB_WITH(cb_write_options, .parents = true), &err));
	}
	(void)must_commit(t);
	for (unsigned i = 0; i < 200; i++) CHECK_OK(cb_kv_set(w.b, "n", &i, sizeof(i), &err));
	static const list_kind kinds[] = {LIST_WALK, LIST_FIND, LIST_GLOB, LIST_LOG, LIST_LOG_FOLDER};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		cb_cursor *c = must_list(kinds[i], &w);
		random_changes(w.b, &(test_rng){test_seed()}, 10);
		list_file_again(w.b);
		free(list_drain(kinds[i], c));
		cb_cursor_close(c);
		c = must_list(kinds[i], &w);
		check_same(kinds[i], list_drain(kinds[i], c), list_visit(kinds[i], &w));
		cb_cursor_close(c);
	}
	cb_box_close(w.b);
	cb_store_close(s);
}

static cb_code count_line(void *context, const cb_grep_line *l, cb_error *err)
{
	(void)l;
	(void)err;
	++*(uint64_t *)context;
	return CB_OK;
}

TEST_BOTH(what_a_cursor_tells_beside_its_entries)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 30);
	cb_grep_options o = CB_WITH(cb_grep_options, .pattern = "b");
	cb_grep_count visited = CB_INIT(cb_grep_count), counted = CB_INIT(cb_grep_count);
	uint64_t lines = 0;
	cb_cursor *c = NULL;
	CHECK_OK(cb_grep(w.b, "/", &o, count_line, &lines, &visited, &err));
	CHECK_OK(cb_grep_open(w.b, "/", &o, &c, &err));
	free(list_drain(LIST_GREP, c));
	CHECK_OK(cb_grep_counted(c, &counted, &err));
	CHECK(visited.files == counted.files && visited.matched_files == counted.matched_files &&
	      visited.matched_lines == counted.matched_lines);
	CHECK_U64(counted.matched_lines, lines);
	cb_cursor_close(c);
	bool pruned = true;
	c = must_list(LIST_LOG, &w);
	free(list_drain(LIST_LOG, c));
	CHECK_OK(cb_log_pruned(c, &pruned, &err));
	CHECK(!pruned);
	CHECK_CODE(cb_grep_counted(c, &counted, &err), CB_INVALID);
	cb_cursor_close(c);
	CHECK_OK(cb_prune(w.b, &CB_WITH(cb_prune_options, .keep_steps = 3), NULL, &err));
	c = must_list(LIST_LOG, &w);
	free(list_drain(LIST_LOG, c));
	CHECK_OK(cb_log_pruned(c, &pruned, &err));
	CHECK(pruned);
	cb_cursor_close(c);
	list_world_close(&w);
	cb_store_close(s);
}

/* ---- what happens meanwhile ---- */

TEST_BOTH(a_box_that_goes_on_is_listed_as_it_was)
{
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 40);
	held h;
	hold(&h, &w, 0, LIST_BOXES, &r); /* of the whole store other things are asked below */
	random_changes(w.b, &r, 60);
	check_held(&h);
	list_world_close(&w);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(pruned_and_collected_under_a_cursor)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 150); /* more than a page of the log */
	held h;
	uint64_t pruned = 0;
	hold(&h, &w, 0, LIST_OF_BOX, &r);
	(void)cb_remove(w.b, "/work", NULL);
	random_changes(w.b, &r, 30);
	CHECK_OK(cb_prune(w.b, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_U64(pruned, 0); /* the log keeps them all */
	check_held(&h);
	/* Without the log the rest keeps just its states. */
	list_file_again(w.b);
	w.seq = must_seq(w.b);
	hold(&h, &w, 0, LIST_OF_TXN, &r);
	random_changes(w.b, &r, 30);
	CHECK_OK(cb_kv_set(w.b, "last", "1", 1, &err));
	CHECK_OK(cb_prune(w.b, &CB_WITH(cb_prune_options, .keep_steps = 1), &pruned, &err));
	CHECK(pruned > 0);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	check_held(&h);
	list_world_close(&w);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(a_deleted_box_is_listed_to_its_end)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 150);
	held h;
	hold(&h, &w, 0, LIST_BOXES, &r);
	list_world_close(&w);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	check_held(&h);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_store_close(s);
}

static cb_code count_listings(void *context, const cb_use *u, cb_error *err)
{
	(void)err;
	*(uint64_t *)context += strcmp(u->why, "listing") == 0;
	return CB_OK;
}

TEST_BOTH(an_open_cursor_is_a_use_until_it_is_closed)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 5);
	uint64_t uses = 0;
	cb_cursor *c = must_list(LIST_WALK, &w), *log = must_list(LIST_LOG, &w);
	CHECK_OK(cb_store_uses(s, count_listings, &uses, &err));
	CHECK_U64(uses, 2);
	free(list_drain(LIST_WALK, c));
	cb_cursor_close(c);
	cb_cursor_close(log);
	uses = 0;
	CHECK_OK(cb_store_uses(s, count_listings, &uses, &err));
	CHECK_U64(uses, 0);
	list_world_close(&w);
	cb_store_close(s);
}

/* ---- transactions ---- */

/* How a transaction goes on under the cursors on it. */
typedef enum txn_fate { TXN_WRITES, TXN_COMMITS, TXN_DROPS, TXN_CLOSES, TXN_KEEPS, TXN_FATES } txn_fate;

static void meet(cb_box *t, txn_fate fate, test_rng *r)
{
	cb_error err = {0};
	switch (fate) {
	case TXN_WRITES:
		random_changes(t, r, 40);
		(void)cb_remove(t, "/work", NULL);
		break;
	case TXN_COMMITS:
		CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
		break;
	case TXN_DROPS:
		CHECK_OK(cb_txn_drop(t, &err));
		break;
	case TXN_KEEPS:
		CHECK_OK(cb_txn_keep(t, NULL, NULL, &err));
		break;
	case TXN_CLOSES:
	case TXN_FATES:
		break;
	}
	cb_box_close(t);
}

TEST_BOTH(a_transaction_is_listed_as_it_was)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	for (txn_fate fate = 0; fate < TXN_FATES; fate++) {
		cb_store *s = memory || fate == 0 ? test_store_open(memory) : test_store_reopen();
		if (!memory) (void)cb_box_delete(s, "demo", NULL);
		list_world w = list_world_make(s, &r, 20);
		list_world in = {.s = s, .b = must_begin(w.b), .from = w.from, .seq = w.seq};
		random_changes(in.b, &r, 40);
		list_file_again(in.b);
		/* Contents that are in its memory, and more than it keeps there. */
		char *large = malloc(3 << 20);
		CHECK(large != NULL);
		for (int i = 0; i < 4; i++) {
			char path[32];
			(void)snprintf(path, sizeof(path), "/work/large%d", i);
			memset(large, 'p' + i, 3 << 20);
			for (size_t at = 999; at < 3 << 20; at += 100000) memcpy(large + at, "\nab\n", 4);
			CHECK_OK(cb_write_file(in.b, path, large, 3 << 20, NULL, &err));
			CHECK_OK(cb_kv_set(in.b, path, large, 5000, &err));
			CHECK_OK(cb_xattr_set(in.b, "/work/a.txt", path + 6, large, 500, 0, &err));
		}
		free(large);
		CHECK_OK(cb_meta_set(in.b, "/work/large1", "level", "high", CB_STRING, &err));
		held h;
		hold(&h, &in, 0, LIST_OF_TXN, &r);
		meet(in.b, fate, &r);
		must_write(w.b, "/work/later", "later");
		CHECK_OK(cb_prune(w.b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
		CHECK_OK(cb_store_gc(s, NULL, &err));
		check_held(&h);
		CHECK_OK(cb_store_gc(s, NULL, &err));
		list_world_close(&w);
		test_store_sound(s);
		cb_store_close(s);
	}
}

TEST_BOTH(conflicts_outlive_the_transaction)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 3), in = {.s = s, .b = must_begin(w.b)};
	must_write(in.b, "/work/x", "mine");
	must_write(in.b, "/work/y", "mine");
	must_write(w.b, "/work/x", "yours");
	must_write(w.b, "/work/y", "yours");
	CHECK_CODE(cb_txn_commit(in.b, NULL, NULL, &err), CB_CONFLICT);
	char *expected = list_visit(LIST_CONFLICTS, &in);
	CHECK(strstr(expected, "/work/x ") && strstr(expected, "/work/y "));
	cb_cursor *c = must_list(LIST_CONFLICTS, &in);
	cb_box_close(in.b);
	check_same(LIST_CONFLICTS, list_drain(LIST_CONFLICTS, c), expected);
	cb_cursor_close(c);
	list_world_close(&w);
	cb_store_close(s);
}

/* Writes through open files that are under way. */
TEST_BOTH(a_running_step_is_listed_as_it_was)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 10);
	cb_file *f = NULL;
	char text[500];
	for (size_t i = 0; i < sizeof(text); i++) text[i] = "ab\nc"[i % 4];
	CHECK_OK(cb_open(w.b, "/work/open", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_write(f, text, sizeof(text), &err));
	held h;
	hold(&h, &w, 0, LIST_CONFLICTS, &r);
	CHECK_OK(cb_write(f, text, sizeof(text), &err));
	CHECK_OK(cb_fsync(f, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_unlink(w.b, "/work/open", &err));
	CHECK_OK(cb_prune(w.b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	check_held(&h);
	list_world_close(&w);
	cb_store_close(s);
}

/* ---- handles ---- */

TEST_BOTH(closed_in_any_order)
{
	test_rng r = {test_seed()};
	for (unsigned round = 0; round < 6; round++) {
		cb_store *s = memory || round == 0 ? test_store_open(memory) : test_store_reopen();
		if (!memory) (void)cb_box_delete(s, "demo", NULL);
		list_world w = list_world_make(s, &r, 10);
		held h;
		hold(&h, &w, 0, LIST_KINDS, &r);
		/* Each of three things at a random place in the order: box, store, cursors. */
		static const char *const orders[] = {"bsc", "sbc", "bcs", "scb", "cbs", "csb"};
		for (const char *at = orders[round]; *at; at++) {
			if (*at == 'b') list_world_close(&w);
			if (*at == 's') cb_store_close(s);
			if (*at == 'c') check_held(&h);
		}
	}
}

TEST(a_cursor_knows_what_it_gives)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(true);
	list_world w = list_world_make(s, &r, 3);
	cb_cursor *c = must_list(LIST_WALK, &w), *none = NULL;
	const cb_step *step = NULL;
	const cb_entry *entry = NULL;
	CHECK_CODE(cb_step_next(c, &step, &err), CB_INVALID);
	CHECK(strstr(err.message, "cb_entry_next"));
	CHECK_CODE(cb_entry_next(c, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_entry_next(NULL, &entry, &err), CB_INVALID);
	CHECK_CODE(cb_walk_open(NULL, "/", &none, &err), CB_INVALID);
	CHECK_CODE(cb_walk_open(w.b, NULL, &none, &err), CB_INVALID);
	CHECK_CODE(cb_walk_open(w.b, "/", NULL, &err), CB_INVALID);
	CHECK_CODE(cb_walk_open(w.b, "/no/such", &none, &err), CB_NOTFOUND);
	CHECK_CODE(cb_readdir_open(w.b, "/work/a.txt", &none, &err), CB_NOTDIR);
	CHECK_CODE(cb_grep_open(w.b, "/", &CB_WITH(cb_grep_options, .pattern = "("), &none, &err), CB_INVALID);
	CHECK_CODE(cb_glob_open(w.b, "[", &none, &err), CB_INVALID);
	CHECK(!none);
	CHECK_OK(cb_entry_next(c, &entry, &err));
	CHECK(entry && entry->struct_size == sizeof(*entry));
	CHECK_STR(entry->path, "/");
	free(list_drain(LIST_WALK, c));
	for (int i = 0; i < 3; i++) { /* the end, as often as one asks */
		CHECK_OK(cb_entry_next(c, &entry, &err));
		CHECK(!entry);
	}
	cb_cursor_close(c);
	cb_cursor_close(NULL);
	list_world_close(&w);
	cb_store_close(s);
}

/* A list that fails does not look as if it had ended. */
TEST(a_failure_is_told_again)
{
	cb_error err = {0}, again = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	cb_cursor *c = NULL;
	const cb_grep_line *line = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	char text[200];
	memset(text, 'a', sizeof(text));
	CHECK_OK(cb_write_file(b, "/work/a", text, sizeof(text), NULL, &err));
	CHECK_OK(cb_grep_open(b, "/work", &CB_WITH(cb_grep_options, .pattern = "(a+)+b|(a*)*c\\1"), &c, &err));
	cb_code code = cb_grep_next(c, &line, &err);
	CHECK_CODE(code, CB_LIMIT);
	CHECK_CODE(cb_grep_next(c, &line, &again), code);
	CHECK_STR(err.message, again.message);
	cb_cursor_close(c);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(thousands_open_at_once)
{
	enum { MANY = 4000 };
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 10);
	static const list_kind kinds[] = {LIST_READDIR_WORK, LIST_WALK, LIST_KV, LIST_DIFF};
	char *expected[4];
	cb_cursor **all = calloc(MANY, sizeof(cb_cursor *));
	CHECK(all != NULL);
	for (size_t i = 0; i < 4; i++) expected[i] = list_visit(kinds[i], &w);
	for (size_t i = 0; i < MANY; i++) all[i] = must_list(kinds[i % 4], &w);
	random_changes(w.b, &r, 10);
	for (size_t i = 0; i < MANY; i++) {
		check_same(kinds[i % 4], list_drain(kinds[i % 4], all[i]), strdup(expected[i % 4]));
		cb_cursor_close(all[i]);
	}
	for (size_t i = 0; i < 4; i++) free(expected[i]);
	free(all);
	list_world_close(&w);
	cb_store_close(s);
}

/* ---- fork() ---- */

TEST_BOTH(in_a_child_of_fork_it_is_the_parents)
{
	cb_error err = {0};
	test_rng r = {test_seed()};
	cb_store *s = test_store_open(memory);
	list_world w = list_world_make(s, &r, 10);
	held h;
	hold(&h, &w, 0, LIST_KINDS, &r);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (int k = 0; k < LIST_KINDS; k++) {
			char *one = NULL;
			if (!h.c[k]) continue;
			if (list_next(k, h.c[k], &one, &err) != CB_FORKED) _exit(10 + k);
			cb_cursor_close(h.c[k]);
		}
		if (!memory) { /* a disk store goes on, and so do cursors that are opened in the child */
			char *expected = list_visit(LIST_WALK, &w);
			cb_cursor *c = must_list(LIST_WALK, &w);
			check_same(LIST_WALK, list_drain(LIST_WALK, c), expected);
			cb_cursor_close(c);
		}
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
	check_held(&h);
	list_world_close(&w);
	test_store_sound(s);
	cb_store_close(s);
}
