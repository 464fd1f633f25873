/*
 * undo_that_lists_conflicts.c: an undo that conflicts in many files named those that a message holds, without saying that there are more,
 * and nothing listed them.
 */
#include "harness/boxes.h"

static cb_error err;

enum { FILES = 30 };

static void write_step(cb_box *b, const char *text)
{
	cb_box *t = must_begin(b);
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/a-rather-long-file-name-%02u", i);
		must_write(t, path, text);
	}
	(void)must_commit(t);
}

static cb_code list(void *context, const cb_conflict *conflict, cb_error *e)
{
	(void)e;
	char **at = context;
	CHECK(!conflict->contradicts);
	*at += sprintf(*at, "%s|", conflict->path);
	return CB_OK;
}

static const char *listed(cb_box *b)
{
	static char text[FILES * 64];
	char *at = text;
	text[0] = 0;
	CHECK_OK(cb_txn_conflicts(b, list, &at, &err));
	return text;
}

/* Those that are named, and those that are only counted. */
static void check_count(const char *message)
{
	unsigned named = 0, more = 0;
	for (const char *at = message; (at = strstr(at, "/work/")); at++) named++;
	const char *tail = strstr(message, " and ");
	CHECK_MSG(tail && sscanf(tail, " and %u more", &more) == 1 && strcmp(tail + strlen(tail) - 5, " more") == 0, "%s", message);
	CHECK_MSG(named > 0 && named + more == FILES, "%s", message);
}

TEST(all_of_them)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	char *ignored = NULL;
	CHECK_CODE(cb_txn_conflicts(b, list, &ignored, &err), CB_NOTHING);
	for (unsigned i = 1; i <= 3; i++) write_step(b, i == 1 ? "one" : i == 2 ? "two" : "three");
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_CONFLICT);
	CHECK_MSG(strncmp(err.message, "undoing step 2: later steps changed the same: /work/a-", 53) == 0, "%s", err.message);
	check_count(err.message);
	const char *all = listed(b);
	CHECK_U64(strlen(all), FILES * strlen("/work/a-rather-long-file-name-00|"));
	CHECK(strstr(all, "-00|") && strstr(all, "-29|"));
	/* Only those of the last one. */
	must_write(b, "/work/single", "1"); /* step 4 */
	must_write(b, "/work/single", "2");
	must_write(b, "/work/single", "3");
	CHECK_CODE(cb_undo(b, 5, NULL, &err), CB_CONFLICT);
	CHECK_STR(err.message, "undoing step 5: later steps changed the same: /work/single (changed on both sides)");
	CHECK_STR(listed(b), "/work/single|");
	CHECK_STR(listed(b), "/work/single|");
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_CODE(cb_txn_conflicts(b, list, &ignored, &err), CB_NOTHING);
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_CONFLICT);
	CHECK_CODE(cb_undo(b, 99, NULL, &err), CB_NOTFOUND);
	CHECK_CODE(cb_txn_conflicts(b, list, &ignored, &err), CB_NOTHING);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(a_path_too_long_for_a_message)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	char path[512] = "/work/";
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	for (unsigned i = 0; i < 2; i++) {
		memset(path + strlen(path), 'n', 200);
		CHECK_OK(cb_mkdir(b, path, 0755, 0, &err));
		strcat(path, "/");
	}
	strcat(path, "f");
	for (unsigned i = 0; i < 3; i++) must_write(b, path, i == 0 ? "one" : i == 1 ? "two" : "three");
	CHECK_CODE(cb_undo(b, 4, NULL, &err), CB_CONFLICT);
	CHECK_STR(err.message, "undoing step 4: later steps changed the same: 1 path");
	CHECK_U64(strlen(listed(b)), strlen(path) + 1);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(a_merge_counts_too)
{
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *f = NULL;
	uint64_t open = 0;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	write_step(b, "one");
	CHECK_OK(cb_box_fork(s, "b", "f", &f, &err));
	write_step(b, "two");
	write_step(f, "three");
	CHECK_CODE(cb_merge(b, f, NULL, NULL, &open, &err), CB_CONFLICT);
	CHECK_U64(open, FILES);
	CHECK_MSG(strncmp(err.message, "30 conflicts: /work/a-", 22) == 0, "%s", err.message);
	check_count(err.message);
	cb_box_close(f);
	cb_box_close(b);
	cb_store_close(s);
}
