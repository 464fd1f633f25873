/*
 * answers_that_contradict.c: an answer for each path may be right alone, and all together leave a file no place: it went without a word.
 * Now the conflict stays open, and nothing is merged. A file that an answer keeps stays, with the folders that it is in.
 */
#include "harness/boxes.h"

typedef struct said {
	const cb_resolution *answers;
	size_t count, asked, contradictions;
	char path[32]; /* of the last contradiction */
} said;

static cb_prefer resolve(void *context, const cb_conflict *c)
{
	said *s = context;
	s->asked++;
	s->contradictions += c->contradicts;
	if (c->contradicts) (void)snprintf(s->path, sizeof(s->path), "%s", c->path);
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->answers[i].path, c->path) == 0) return s->answers[i].prefer;
	return CB_PREFER_NONE;
}

/* Ours exchanged a and b, theirs a and c. The file a stays at b, as ours has it, and theirs' c comes to a: from there b goes back, to b. */
static const cb_resolution BOTH_AT_B[] = {{"/work/b", CB_PREFER_OURS}, {"/work/a", CB_PREFER_THEIRS}, {"/work/c", CB_PREFER_OURS}},
			   AS_THEIRS[] = {{"/work/b", CB_PREFER_THEIRS}, {"/work/a", CB_PREFER_THEIRS}};

static cb_box *open_box(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "box", &b, &err));
	must_write(b, "/work/a", "a");
	must_write(b, "/work/b", "b");
	must_write(b, "/work/c", "c");
	return b;
}

static void exchange_on_both(cb_box *ours, cb_box *theirs)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(ours, "/work/b", "/work/a", CB_EXCHANGE, &err));
	CHECK_OK(cb_rename(theirs, "/work/c", "/work/a", CB_EXCHANGE, &err));
}

static void must_be_as_theirs(cb_box *b)
{
	CHECK_STR(must_read(b, "/work/a"), "c");
	CHECK_STR(must_read(b, "/work/b"), "b");
	CHECK_STR(must_read(b, "/work/c"), "a");
}

TEST_BOTH(in_a_merge)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *ours = open_box(s), *theirs = must_fork(s, "box", "theirs");
	exchange_on_both(ours, theirs);
	uint64_t seq = must_seq(ours), open = 0;
	said x = {BOTH_AT_B, 3, 0, 0, ""};
	cb_merge_options how = CB_WITH(cb_merge_options, .resolve = resolve, .context = &x);
	CHECK_CODE(cb_merge(ours, theirs, &how, NULL, &open, &err), CB_CONFLICT);
	CHECK_U64(open, x.contradictions);
	CHECK(x.contradictions > 0);
	CHECK_MSG(strstr(err.message, x.path) && strstr(err.message, "contradict"), "%s", err.message);
	CHECK_U64(must_seq(ours), seq);
	x = (said){AS_THEIRS, 2, 0, 0, ""};
	CHECK_OK(cb_merge(ours, theirs, &how, NULL, NULL, &err));
	CHECK_U64(x.contradictions, 0);
	must_be_as_theirs(ours);
	test_store_sound(s);
	cb_box_close(ours);
	cb_box_close(theirs);
	cb_store_close(s);
}

static cb_code see(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	CHECK(c->contradicts);
	++*(unsigned *)context;
	return CB_OK;
}

TEST_BOTH(in_a_commit)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = open_box(s), *t = must_begin(b);
	exchange_on_both(b, t);
	unsigned listed = 0;
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_commit_options how = CB_WITH(cb_commit_options, .resolutions = BOTH_AT_B, .resolution_count = 3);
	CHECK_CODE(cb_txn_commit(t, &how, &result, &err), CB_CONFLICT);
	CHECK_OK(cb_txn_conflicts(t, see, &listed, &err));
	CHECK(listed > 0);
	CHECK_U64(result.conflicts, listed);
	how.resolutions = AS_THEIRS;
	how.resolution_count = 2;
	CHECK_OK(cb_txn_commit(t, &how, &result, &err));
	must_be_as_theirs(b);
	test_store_sound(s);
	cb_box_close(t);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- a file that is kept in a folder that goes ---- */

static cb_box *open_nested(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "box", &b, &err));
	must_write(b, "/work/e/d/a", "base");
	must_write(b, "/work/e/other", "other");
	return b;
}

static const cb_resolution KEEP_A[] = {{"/work/e/d/a", CB_PREFER_OURS}};

/* Merged or committed, with theirs preferred but for the file. */
static cb_code merge_keeping(cb_box *ours, cb_box *theirs, bool commit, cb_error *err)
{
	said x = {KEEP_A, 1, 0, 0, ""};
	cb_commit_options how = CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN, .resolutions = KEEP_A, .resolution_count = 1);
	if (commit) return cb_txn_commit(theirs, &how, NULL, err);
	return cb_merge(ours, theirs, &CB_WITH(cb_merge_options, .resolve = resolve, .context = &x, .prefer = CB_PREFER_THEIRS),
	                NULL, NULL, err);
}

static void kept_in_a_folder(bool memory, bool commit, bool becomes_a_file)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *ours = open_nested(s), *theirs = commit ? must_begin(ours) : must_fork(s, "box", "theirs");
	must_write(ours, "/work/e/d/a", "precious");
	CHECK_OK(cb_remove(theirs, "/work/e", &err));
	if (becomes_a_file) must_write(theirs, "/work/e", "file");
	CHECK_CODE(merge_keeping(ours, theirs, commit, &err), becomes_a_file ? CB_CONFLICT : CB_OK);
	if (becomes_a_file) CHECK_MSG(strstr(err.message, "/work/e/d/a") && strstr(err.message, "contradict"), "%s", err.message);
	CHECK_STR(must_read(ours, "/work/e/d/a"), "precious");
	CHECK(exists(ours, "/work/e/other") == becomes_a_file);
	test_store_sound(s);
	cb_box_close(theirs);
	cb_box_close(ours);
	cb_store_close(s);
}

TEST_BOTH(a_file_is_kept_in_a_folder_that_goes)
{
	kept_in_a_folder(memory, false, false);
}

TEST_BOTH(a_file_is_kept_in_a_folder_that_goes_in_a_commit)
{
	kept_in_a_folder(memory, true, false);
}

TEST_BOTH(a_file_is_kept_in_a_folder_that_becomes_a_file)
{
	kept_in_a_folder(memory, false, true);
}

TEST_BOTH(a_file_is_kept_in_a_folder_that_becomes_a_file_in_a_commit)
{
	kept_in_a_folder(memory, true, true);
}
