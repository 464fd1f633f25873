/*
 * test_cancel.c: a call that its limit ends has changed nothing, and the same call succeeds afterwards.
 *
 * Each call is made again and again, ended at another of the moments at which it looks at its limit (cancel_fire_at_look), so that
 * undoing and what comes after a commit are reached too. A limit that is over stays over for the rest of the call.
 */
#include <cowbox/search.h>

#include "harness/cancelled_box.h"

enum {
	EVERY_LOOK = 30, /* the first so many are tried each, */
	SOME_LOOKS = 20, /* of the others so many, times the dose */
};

static unsigned trial;

/* ---- what is tried ---- */

typedef struct tried {
	const char *name;
	void (*prepare)(cb_box *b); /* without a limit; may be NULL */
	cb_code (*call)(cb_box *b, cb_error *err);
	void (*after)(cb_box *b); /* likewise */
	bool reads;               /* changes nothing of the box */
} tried;

static cb_box *held; /* between prepare, call and after */
static cb_file *held_file;

static cb_code ignore_path(void *c, const char *path, const cb_stat_info *i, cb_error *e)
{
	(void)path, (void)i, (void)e;
	++*(unsigned *)c;
	return CB_OK;
}

static cb_code ignore_change(void *c, const cb_change *change, cb_error *e)
{
	(void)change, (void)e;
	++*(unsigned *)c;
	return CB_OK;
}

static cb_code ignore_step(void *c, const cb_step *step, cb_error *e)
{
	(void)step, (void)e;
	++*(unsigned *)c;
	return CB_OK;
}

static cb_code ignore_line(void *c, const cb_blame_line *line, cb_error *e)
{
	(void)line, (void)e;
	++*(unsigned *)c;
	return CB_OK;
}

static cb_code ignore_found(void *c, const cb_grep_line *line, cb_error *e)
{
	(void)line, (void)e;
	++*(unsigned *)c;
	return CB_OK;
}

static unsigned seen;

static cb_code do_write(cb_box *b, cb_error *e)
{
	return cb_write_file(b, "/work/new", "new", 3, NULL, e);
}

static cb_code do_write_large(cb_box *b, cb_error *e)
{
	return cb_write_file(b, "/work/x/y", large(), LARGE_BYTES, &CB_WITH(cb_write_options, .parents = true), e);
}

static cb_code do_edit(cb_box *b, cb_error *e)
{
	return cb_edit(b, "/work/last", &(cb_replacement){"la", 2, "fir", 3}, 1, NULL, NULL, e);
}

static cb_code do_remove(cb_box *b, cb_error *e)
{
	return cb_remove(b, "/work/d0", e);
}

static cb_code do_copy(cb_box *b, cb_error *e)
{
	return cb_copy(b, "/work", "/copy", 0, e);
}

static cb_code do_rename(cb_box *b, cb_error *e)
{
	return cb_rename(b, "/work/d0", "/work/moved", 0, e);
}

static cb_code do_kv(cb_box *b, cb_error *e)
{
	return cb_kv_set(b, "other", large(), 1 << 20, e);
}

static cb_code do_tag(cb_box *b, cb_error *e)
{
	return cb_tag_add(b, "/work/last", "tag", e);
}

static cb_code do_undo(cb_box *b, cb_error *e)
{
	return cb_undo(b, 0, NULL, e);
}

/* A step of the box itself that later ones touched. */
static void some_steps(cb_box *b)
{
	AUTO_BUF buf text = BUF_INIT(1 << 20);
	CHECK_OK(buf_printf(&text, &err, "before\n%s", must_read(b, "/work/text")));
	CHECK_OK(cb_write_file(b, "/work/text", text.bytes, text.size, NULL, &err));
	CHECK_OK(buf_printf(&text, &err, "after\n"));
	CHECK_OK(cb_write_file(b, "/work/text", text.bytes, text.size, NULL, &err));
	must_write(b, "/work/more", "more");
}

static cb_code do_undo_older(cb_box *b, cb_error *e)
{
	return cb_undo(b, 1, NULL, e);
}

static void undone(cb_box *b)
{
	some_steps(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
}

static cb_code do_redo(cb_box *b, cb_error *e)
{
	return cb_redo(b, NULL, e);
}

static void open_older(cb_box *b)
{
	some_steps(b);
	held = must_open(s, "demo@middle");
}

static void close_held(cb_box *b)
{
	(void)b;
	cb_box_close(TAKE_PTR(held));
}

static cb_code do_restore(cb_box *b, cb_error *e)
{
	return cb_restore(b, held, NULL, NULL, e);
}

static cb_code do_restore_path(cb_box *b, cb_error *e)
{
	return cb_restore(b, held, "/work/d3", NULL, e);
}

static void open_side(cb_box *b)
{
	must_write(b, "/work/more", "more");
	held = must_open(s, "side");
}

static cb_code do_merge(cb_box *b, cb_error *e)
{
	return cb_merge(b, held, NULL, NULL, NULL, e);
}

static cb_code do_checkpoint(cb_box *b, cb_error *e)
{
	return cb_checkpoint_save(b, "here", 0, false, e);
}

static cb_code do_setting(cb_box *b, cb_error *e)
{
	return cb_setting_set(b, "name", "value", CB_STRING, e);
}

static cb_code do_quota(cb_box *b, cb_error *e)
{
	return cb_box_quota_set(b, 1u << 30, 0, 0, e);
}

static cb_code do_import(cb_box *b, cb_error *e)
{
	return cb_import(b, folder, &CB_WITH(cb_import_options, .to = "/in"), NULL, e);
}

static cb_code do_import_linked(cb_box *b, cb_error *e)
{
	return cb_import(b, folder, &CB_WITH(cb_import_options, .to = "/in", .link = true), NULL, e);
}

static cb_code do_tar_import(cb_box *b, cb_error *e)
{
	CHECK(lseek(tar_fd, 0, SEEK_SET) == 0);
	return cb_tar_import(b, tar_fd, &CB_WITH(cb_tar_options, .to = "/in"), NULL, e);
}

static void begin_txn(cb_box *b)
{
	held = must_begin(b);
	must_write(held, "/work/text", text_of(99));
	CHECK_OK(cb_remove(held, "/work/d2", &err));
	CHECK_OK(cb_write_file(held, "/work/big", large(), LARGE_BYTES, NULL, &err));
	must_write(b, "/work/meanwhile", "others"); /* so that it is merged */
}

static cb_code do_commit(cb_box *b, cb_error *e)
{
	(void)b;
	return cb_txn_commit(held, NULL, NULL, e);
}

static cb_code do_keep(cb_box *b, cb_error *e)
{
	(void)b;
	return cb_txn_keep(held, NULL, NULL, e);
}

static void lose_txn(cb_box *b)
{
	begin_txn(b);
	must_write(b, "/work/text", text_of(98));
}

static cb_code do_commit_lost(cb_box *b, cb_error *e)
{
	(void)b;
	cb_code code = cb_txn_commit(held, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), NULL, e);
	return code == CB_CONFLICT ? CB_OK : code;
}

static void open_file(cb_box *b)
{
	CHECK_OK(cb_open(b, "/work/last", CB_READ | CB_WRITE, 0, &held_file, &err));
	CHECK_OK(cb_pwrite(held_file, large(), LARGE_BYTES, 0, &err));
}

static cb_code do_fsync(cb_box *b, cb_error *e)
{
	(void)b;
	return cb_fsync(held_file, e);
}

static void close_file(cb_box *b)
{
	(void)b;
	CHECK_OK(cb_close(TAKE_PTR(held_file), &err));
}

static cb_code do_open_exclusive(cb_box *b, cb_error *e)
{
	return cb_open(b, "/work/mine", CB_CREATE | CB_EXCLUSIVE | CB_WRITE, 0644, &held_file, e);
}

static cb_code do_read(cb_box *b, cb_error *e)
{
	char *bytes = NULL;
	size_t size = 0;
	CB_TRY(cb_read_file(b, "/work/large", &bytes, &size, e));
	CHECK(size == LARGE_BYTES && memcmp(bytes, large(), size) == 0);
	cb_free(bytes);
	return CB_OK;
}

static cb_code do_walk(cb_box *b, cb_error *e)
{
	return cb_walk(b, "/", ignore_path, &seen, e);
}

static cb_code do_glob(cb_box *b, cb_error *e)
{
	return cb_glob(b, "/work/**/f*", ignore_path, &seen, e);
}

static cb_code do_diff(cb_box *b, cb_error *e)
{
	return cb_diff(held, b, NULL, ignore_change, &seen, e);
}

static cb_code do_diff_text(cb_box *b, cb_error *e)
{
	char *text = NULL;
	size_t size = 0;
	CB_TRY(cb_diff_text(held, b, NULL, &text, &size, e));
	seen += (unsigned)size;
	cb_free(text);
	return CB_OK;
}

static cb_code do_log(cb_box *b, cb_error *e)
{
	return cb_log(b, &CB_WITH(cb_log_options, .path = "/work/text"), ignore_step, &seen, NULL, e);
}

static cb_code do_blame(cb_box *b, cb_error *e)
{
	return cb_blame(b, "/work/text", ignore_line, &seen, e);
}

static cb_code do_grep(cb_box *b, cb_error *e)
{
	return cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = "line [0-9]*5 "), ignore_found, &seen, NULL, e);
}

static cb_code do_find(cb_box *b, cb_error *e)
{
	return cb_find(b, "/", &CB_WITH(cb_find_options, .name = "f*"), ignore_path, &seen, e);
}

static cb_code do_tar_export(cb_box *b, cb_error *e)
{
	CHECK(ftruncate(sink_fd, 0) == 0 && lseek(sink_fd, 0, SEEK_SET) == 0);
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	CB_TRY(cb_tar_export(b, "/", sink_fd, NULL, &count, e));
	seen += (unsigned)count.files;
	return CB_OK;
}

static cb_code do_pack(cb_box *b, cb_error *e)
{
	CHECK(ftruncate(sink_fd, 0) == 0 && lseek(sink_fd, 0, SEEK_SET) == 0);
	return cb_pack(b, sink_fd, NULL, NULL, e);
}

static void empty_elsewhere(cb_box *b)
{
	(void)b;
	clear_elsewhere();
}

static cb_code do_export(cb_box *b, cb_error *e)
{
	char path[640];
	(void)snprintf(path, sizeof(path), "%s/export", elsewhere);
	cb_code code = cb_export(b, "/work", path, NULL, NULL, e);
	if (code != CB_OK) CHECK_U64(entries_in(elsewhere), 0);
	return code;
}

static cb_code do_info(cb_box *b, cb_error *e)
{
	cb_box_info info = CB_INIT(cb_box_info);
	CB_TRY(cb_box_info_get(b, &info, e));
	CHECK_STR(info.origin, "demo");
	return CB_OK;
}

static const tried all[] = {
	{"write", NULL, do_write, NULL, false},
	{"write_large", NULL, do_write_large, NULL, false},
	{"edit", NULL, do_edit, NULL, false},
	{"remove", NULL, do_remove, NULL, false},
	{"copy", NULL, do_copy, NULL, false},
	{"rename", NULL, do_rename, NULL, false},
	{"kv", NULL, do_kv, NULL, false},
	{"tag", NULL, do_tag, NULL, false},
	{"undo", some_steps, do_undo, NULL, false},
	{"undo_older", some_steps, do_undo_older, NULL, false},
	{"redo", undone, do_redo, NULL, false},
	{"restore", open_older, do_restore, close_held, false},
	{"restore_path", open_older, do_restore_path, close_held, false},
	{"merge", open_side, do_merge, close_held, false},
	{"checkpoint", some_steps, do_checkpoint, NULL, true},
	{"setting", NULL, do_setting, NULL, true},
	{"quota", NULL, do_quota, NULL, true},
	{"import", NULL, do_import, NULL, false},
	{"import_linked", NULL, do_import_linked, NULL, false},
	{"tar_import", NULL, do_tar_import, NULL, false},
	{"commit", begin_txn, do_commit, close_held, false},
	{"keep", begin_txn, do_keep, close_held, true},
	{"commit_lost", lose_txn, do_commit_lost, close_held, true},
	{"fsync", open_file, do_fsync, close_file, false},
	{"open_exclusive", NULL, do_open_exclusive, close_file, false},
	{"read", NULL, do_read, NULL, true},
	{"walk", NULL, do_walk, NULL, true},
	{"glob", NULL, do_glob, NULL, true},
	{"diff", open_older, do_diff, close_held, true},
	{"diff_text", open_older, do_diff_text, close_held, true},
	{"log", some_steps, do_log, NULL, true},
	{"blame", some_steps, do_blame, NULL, true},
	{"grep", NULL, do_grep, NULL, true},
	{"find", NULL, do_find, NULL, true},
	{"tar_export", NULL, do_tar_export, NULL, true},
	{"pack", NULL, do_pack, NULL, true},
	{"export", NULL, do_export, empty_elsewhere, true},
	{"info", NULL, do_info, NULL, true},
};

/* ---- each, ended at each of its looks ---- */

static cb_box *fresh(char name[64])
{
	(void)snprintf(name, 64, "trial%u", ++trial);
	return must_fork(s, "demo", name);
}

/* The state of the box as everybody sees it. */
static char *seen_by_others(const char *name, uint64_t *out_seq)
{
	cb_box *b = must_open(s, name);
	char *dump = must_dump(b);
	*out_seq = must_seq(b);
	cb_box_close(b);
	return dump;
}

static void try_at(const tried *t, long look, const char *whole, unsigned whole_seen, bool *out_reached)
{
	char name[64];
	uint64_t before_seq, after_seq;
	cb_box *b = fresh(name);
	if (t->prepare) t->prepare(b);
	char *before = seen_by_others(name, &before_seq);
	cb_cancel_reset(token);
	cancel_fire_at_look(token, look);
	seen = 0;
	memset(&err, 0, sizeof(err));
	limit_push(0, token);
	cb_code code = t->call(b, &err);
	cb_limit_pop();
	*out_reached = cb_cancel_is_fired(token);
	char *after = seen_by_others(name, &after_seq);
	if (code == CB_OK) { /* nothing looked after it was too late */
		CHECK_MSG(strcmp(after, whole) == 0, "%s, look %ld: it succeeded, but the box is not what it should be", t->name,
		          look);
		CHECK_U64(seen, whole_seen);
	} else {
		CHECK_MSG(code == CB_CANCELLED, "%s, look %ld: %s (%s)", t->name, look, cb_code_name(code), err.message);
		CHECK(err.code == CB_CANCELLED && err.message[0]);
		CHECK_MSG(strcmp(after, before) == 0 && after_seq == before_seq,
		          "%s, look %ld: the box was changed (step %" PRIu64 " to %" PRIu64 ")", t->name, look, before_seq,
		          after_seq);
		seen = 0;
		memset(&err, 0, sizeof(err));
		code = t->call(b, &err);
		CHECK_MSG(code == CB_OK, "%s, look %ld: again: %s (%s)", t->name, look, cb_code_name(code), err.message);
		CHECK_U64(seen, whole_seen);
		after = seen_by_others(name, &after_seq);
		CHECK_MSG(strcmp(after, whole) == 0, "%s, look %ld: again: the box is not what it should be", t->name, look);
	}
	if (t->reads) CHECK_U64(after_seq, before_seq);
	memset(&err, 0, sizeof(err));
	if (t->after) t->after(b);
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, name, &err));
}

/* How it ends when nothing ends it, and how often it looks. */
static char *reference(const tried *t, long *out_looks, unsigned *out_seen)
{
	char name[64];
	uint64_t seq;
	cb_box *b = fresh(name);
	if (t->prepare) t->prepare(b);
	cancel_fire_at_look(token, 1L << 60);
	seen = 0;
	limit_push(3600000, token);
	cb_code code = t->call(b, &err);
	cb_limit_pop();
	CHECK_MSG(code == CB_OK, "%s: %s (%s)", t->name, cb_code_name(code), err.message);
	*out_looks = cancel_looks(token);
	*out_seen = seen;
	memset(&err, 0, sizeof(err));
	char *dump = seen_by_others(name, &seq);
	if (t->after) t->after(b);
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, name, &err));
	return dump;
}

static void try_all(bool memory, size_t from, size_t to)
{
	test_rng rng = {test_seed()};
	begin(memory);
	for (size_t i = from; i < to && i < ARRAY_LEN(all); i++) {
		/* Of many seeds each tries some of them. */
		if (test_only_random() && test_rand_below(&rng, 4)) continue;
		long looks = 0;
		unsigned whole_seen = 0;
		bool reached = true;
		char *whole = reference(&all[i], &looks, &whole_seen);
		CHECK_MSG(looks > 0, "%s never looks", all[i].name);
		long every = test_only_random() ? 0 : EVERY_LOOK;
		for (long n = 1; n <= looks && n <= every && reached; n++) try_at(&all[i], n, whole, whole_seen, &reached);
		for (unsigned n = 0; looks > every && n < test_dose(SOME_LOOKS); n++)
			try_at(&all[i], every + 1 + (long)test_rand_below(&rng, (uint64_t)(looks - every)), whole, whole_seen,
			       &reached);
		try_at(&all[i], looks, whole, whole_seen, &reached);
		test_note("%s looks %ld times", all[i].name, looks);
	}
	end();
}

TEST_LIMIT(every_look_of_changes_memory, 300)
{
	try_all(true, 0, 14);
}

TEST_LIMIT(every_look_of_commits_memory, 300)
{
	try_all(true, 14, 25);
}

TEST_LIMIT(every_look_of_reads_memory, 300)
{
	try_all(true, 25, ARRAY_LEN(all));
}

TEST_LIMIT(every_look_of_changes_disk, 300)
{
	try_all(false, 0, 14);
}

TEST_LIMIT(every_look_of_commits_disk, 300)
{
	try_all(false, 14, 25);
}

TEST_LIMIT(every_look_of_reads_disk, 300)
{
	try_all(false, 25, ARRAY_LEN(all));
}

/* ---- a limit that is over from the beginning ---- */

TEST_BOTH(a_fired_token_ends_each_of_them_at_once)
{
	begin(memory);
	cb_cancel_fire(token);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		char name[64];
		cb_box *b = fresh(name);
		if (all[i].prepare) all[i].prepare(b);
		memset(&err, 0, sizeof(err));
		limit_push(0, token);
		cb_code code = all[i].call(b, &err);
		cb_limit_pop();
		CHECK_MSG(code == CB_CANCELLED && err.code == CB_CANCELLED, "%s: %s", all[i].name, cb_code_name(code));
		CHECK_MSG(strstr(err.message, "it was cancelled"), "%s: %s", all[i].name, err.message);
		memset(&err, 0, sizeof(err));
		limit_push(-1, NULL);
		code = all[i].call(b, &err);
		cb_limit_pop();
		CHECK_MSG(code == CB_TIMEOUT && err.code == CB_TIMEOUT, "%s: %s", all[i].name, cb_code_name(code));
		memset(&err, 0, sizeof(err));
		if (all[i].after && all[i].call != do_open_exclusive) all[i].after(b);
		cb_box_close(b);
	}
	end();
}
