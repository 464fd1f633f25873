/*
 * test_cancel.c: a call that its limit ends has changed nothing, and the same call succeeds afterwards.
 *
 * Each call is made again and again, ended at another of the moments at which it looks at its limit (cancel_fire_at_look), so that
 * undoing and what comes after a commit are reached too. A limit that is over stays over for the rest of the call.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cowbox/search.h>
#include <cowbox/transfer.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "harness/boxes.h"

enum {
	FILES = 40,
	LINES = 300,
	LARGE_BYTES = 3 << 20,
	EVERY_LOOK = 30, /* the first so many are tried each, */
	SOME_LOOKS = 20, /* of the others so many, times the dose */
};

static cb_store *s;
static cb_error err;
static cb_cancel *token;
static char folder[512], elsewhere[512];
static int tar_fd, pack_fd, sink_fd;
static unsigned trial;

static void limit_push(int64_t timeout_ms, cb_cancel *cancel)
{
	cb_limit limit = CB_WITH(cb_limit, .timeout_ms = timeout_ms, .cancel = cancel);
	CHECK_OK(cb_limit_push(&limit, &err));
}

/* ---- the box that all is tried on ---- */

static char *text_of(unsigned seed)
{
	AUTO_BUF buf text = BUF_INIT(1 << 20);
	char *out = NULL;
	for (unsigned i = 0; i < LINES; i++)
		CHECK_OK(buf_printf(&text, &err, "line %u of %u\n", i % 37 == seed % 37 ? seed : 0, i));
	CHECK_OK(buf_take(&text, &out, NULL, &err));
	return test_keep(out);
}

static char *large(void)
{
	static char *bytes;
	if (bytes) return bytes;
	bytes = test_keep(malloc(LARGE_BYTES + 1));
	for (size_t i = 0; i < LARGE_BYTES; i++) bytes[i] = (char)('a' + i * 2654435761u % 26);
	bytes[LARGE_BYTES] = 0;
	return bytes;
}

static void host_write(const char *name, const char *bytes, size_t size)
{
	char path[640];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
}

static void host_fill(void)
{
	(void)snprintf(folder, sizeof(folder), "%s/host", test_tmpdir());
	(void)snprintf(elsewhere, sizeof(elsewhere), "%s/out", test_tmpdir());
	CHECK(mkdir(folder, 0755) == 0 && mkdir(elsewhere, 0755) == 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "file%u", i);
		host_write(name, text_of(i), 200);
	}
	host_write("large", large(), LARGE_BYTES);
}

static void box_fill(cb_box *b)
{
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/d%u/f%u", i % 4, i);
		CHECK_OK(cb_write_file(b, path, text_of(i), strlen(text_of(i)), &CB_WITH(cb_write_options, .parents = true), &err));
	}
	CHECK_OK(cb_write_file(b, "/work/large", large(), LARGE_BYTES, NULL, &err));
	for (unsigned i = 0; i < 6; i++) must_write(b, "/work/text", text_of(i));
	CHECK_OK(cb_kv_set(b, "key", "value", 5, &err));
	CHECK_OK(cb_checkpoint_save(b, "middle", 0, true, &err));
	must_write(b, "/work/late", "late");
	CHECK_OK(cb_remove(b, "/work/d3", &err));
	must_write(b, "/work/last", "last");
}

static void begin(bool memory)
{
	cb_box *b, *side;
	s = test_store_open(memory);
	CHECK_OK(cb_cancel_create(&token, &err));
	host_fill();
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	box_fill(b);
	/* What is merged: another text at the same file, other files, and some that go. */
	side = must_fork(s, "demo", "side");
	AUTO_BUF buf changed = BUF_INIT(1 << 20);
	CHECK_OK(buf_printf(&changed, &err, "first\n%s", must_read(side, "/work/text")));
	CHECK_OK(cb_write_file(side, "/work/text", changed.bytes, changed.size, NULL, &err));
	CHECK_OK(cb_remove(side, "/work/d1", &err));
	must_write(side, "/work/side", "side");
	buf_clear(&changed);
	CHECK_OK(buf_printf(&changed, &err, "%slast\n", must_read(b, "/work/text")));
	CHECK_OK(cb_write_file(b, "/work/text", changed.bytes, changed.size, NULL, &err));
	tar_fd = memfd_create("tar", 0);
	pack_fd = memfd_create("pack", 0);
	sink_fd = memfd_create("sink", 0);
	CHECK_OK(cb_tar_export(side, "/work", tar_fd, NULL, NULL, &err));
	CHECK_OK(cb_pack(side, pack_fd, NULL, NULL, &err));
	cb_box_close(side);
	cb_box_close(b);
}

static void end(void)
{
	test_store_sound(s);
	cb_cancel_free(token);
	cb_store_close(s);
}

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

static unsigned entries_in(const char *path)
{
	char command[640];
	unsigned n = 0;
	(void)snprintf(command, sizeof(command), "ls -A '%s' | wc -l", path);
	FILE *p = popen(command, "r");
	CHECK(p && fscanf(p, "%u", &n) == 1 && pclose(p) == 0);
	return n;
}

static void clear_elsewhere(cb_box *b)
{
	(void)b;
	char command[640];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'/*", elsewhere);
	CHECK(system(command) == 0);
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
	{"export", NULL, do_export, clear_elsewhere, true},
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

/* ---- what is done to the store ---- */

static cb_code store_gc(cb_error *e)
{
	return cb_store_gc(s, NULL, e);
}

static cb_code store_vacuum(cb_error *e)
{
	return cb_store_vacuum(s, e);
}

static cb_code store_check(cb_error *e)
{
	uint64_t complaints = 0;
	CB_TRY(cb_store_check(s, NULL, NULL, &complaints, e));
	CHECK_U64(complaints, 0);
	return CB_OK;
}

static cb_code store_backup(cb_error *e)
{
	char path[640];
	(void)snprintf(path, sizeof(path), "%s/backup", elsewhere);
	cb_code code = cb_store_backup(s, path, e);
	CANCEL_SHIELD; /* what follows is the test */
	if (code != CB_OK) CHECK_U64(entries_in(elsewhere), 0);
	if (code != CB_OK) return code;
	cb_store *copy = NULL;
	CHECK_OK(cb_store_open(path, &CB_WITH(cb_store_options, .no_create = true), &copy, &err));
	test_store_sound(copy);
	cb_store_close(copy);
	clear_elsewhere(NULL);
	return CB_OK;
}

static cb_code store_prune(cb_error *e)
{
	cb_box *b = NULL;
	CB_TRY(cb_box_open(s, "demo", &b, e));
	cb_code code = cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 3), NULL, e);
	cb_box_close(b);
	return code;
}

static cb_code store_unpack(cb_error *e)
{
	CHECK(lseek(pack_fd, 0, SEEK_SET) == 0);
	cb_code code = cb_unpack(s, pack_fd, "unpacked", NULL, NULL, e);
	CANCEL_SHIELD; /* what follows is the test */
	cb_box *b = NULL;
	if (code != CB_OK) CHECK_CODE(cb_box_open(s, "unpacked", &b, NULL), CB_NOTFOUND);
	if (code != CB_OK) return code;
	cb_box *side = must_open(s, "side");
	b = must_open(s, "unpacked");
	CHECK_STR(must_dump(b), must_dump(side));
	cb_box_close(b);
	cb_box_close(side);
	CHECK_OK(cb_box_delete(s, "unpacked", &err));
	return CB_OK;
}

static cb_code store_create(cb_error *e)
{
	cb_box *b = NULL;
	cb_code code = cb_box_create(s, "made", &b, e);
	CANCEL_SHIELD; /* what follows is the test */
	if (code != CB_OK) CHECK_CODE(cb_box_open(s, "made", &b, NULL), CB_NOTFOUND);
	if (code != CB_OK) return code;
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "made", &err));
	return CB_OK;
}

static cb_code store_fork(cb_error *e)
{
	cb_box *b = NULL;
	cb_code code = cb_box_fork(s, "demo@middle", "made", &b, e);
	CANCEL_SHIELD; /* what follows is the test */
	if (code != CB_OK) CHECK_CODE(cb_box_open(s, "made", &b, NULL), CB_NOTFOUND);
	if (code != CB_OK) return code;
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "made", &err));
	return CB_OK;
}

typedef struct upkeep {
	const char *name;
	cb_code (*call)(cb_error *err);
	bool disk_only;
} upkeep;

static const upkeep upkeeps[] = {
	{"check", store_check, false},   {"create", store_create, false}, {"fork", store_fork, false},
	{"unpack", store_unpack, false}, {"backup", store_backup, true},  {"prune", store_prune, false},
	{"gc", store_gc, false},         {"vacuum", store_vacuum, false},
};

/* The call with the token at its n-th look; without a limit around what the caller does with the result. */
static void upkeep_at(const upkeep *u, long look, bool *out_reached)
{
	cb_box *b = must_open(s, "demo");
	char *before = must_dump(b);
	cancel_fire_at_look(token, look);
	memset(&err, 0, sizeof(err));
	cb_error why = {0};
	limit_push(0, token);
	cb_code code = u->call(&why);
	cb_limit_pop();
	*out_reached = cb_cancel_is_fired(token);
	cb_cancel_reset(token);
	CHECK_MSG(code == CB_OK || code == CB_CANCELLED, "%s, look %ld: %s (%s)", u->name, look, cb_code_name(code), why.message);
	CHECK_STR(must_dump(b), before);
	cb_box_close(b);
	test_store_sound(s);
}

static void upkeep_all(bool memory)
{
	test_rng rng = {test_seed()};
	begin(memory);
	for (size_t i = 0; i < ARRAY_LEN(upkeeps); i++) {
		const upkeep *u = &upkeeps[i];
		bool reached = true;
		if (memory && u->disk_only) continue;
		for (long n = 1; reached && n < 100000; n += n < 12 ? 1 : 1 + (long)test_rand_below(&rng, (uint64_t)n)) {
			/* Something to do for each. */
			cb_box *b = must_fork(s, "demo", "waste");
			must_write(b, "/work/text", text_of((unsigned)n));
			cb_box_close(b);
			CHECK_OK(cb_box_delete(s, "waste", &err));
			upkeep_at(u, n, &reached);
		}
		cb_error why = {0};
		cb_code code = u->call(&why);
		CHECK_MSG(code == CB_OK, "%s: %s (%s)", u->name, cb_code_name(code), why.message);
	}
	end();
}

TEST_LIMIT(upkeep_at_looks_memory, 300)
{
	upkeep_all(true);
}

TEST_LIMIT(upkeep_at_looks_disk, 300)
{
	upkeep_all(false);
}

/* ---- limits ---- */

TEST_BOTH(a_fired_token_ends_every_call_at_once)
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

TEST(limits_nest)
{
	begin(true);
	cb_box *b = must_open(s, "demo");
	cb_cancel *inner = NULL;
	CHECK_OK(cb_cancel_create(&inner, &err));
	limit_push(0, token);
	limit_push(3600000, inner);
	must_write(b, "/work/a", "1");
	cb_cancel_fire(inner);
	CHECK_CODE(do_write(b, NULL), CB_CANCELLED);
	cb_limit_pop();
	must_write(b, "/work/a", "2");
	/* The outer one holds inside, whatever the inner one allows. */
	cb_cancel_fire(token);
	cb_cancel_reset(inner);
	limit_push(3600000, inner);
	CHECK_CODE(do_write(b, NULL), CB_CANCELLED);
	cb_limit_pop();
	cb_limit_pop();
	limit_push(-1, NULL);
	limit_push(3600000, NULL);
	CHECK_CODE(do_write(b, NULL), CB_TIMEOUT);
	cb_limit_pop();
	cb_limit_pop();
	cb_limit_pop(); /* there is none */
	must_write(b, "/work/a", "3");
	for (int i = 0; i < CANCEL_NESTED; i++) limit_push(0, inner);
	CHECK_CODE(cb_limit_push(&CB_INIT(cb_limit), &err), CB_LIMIT);
	for (int i = 0; i < CANCEL_NESTED; i++) cb_limit_pop();
	cb_cancel_free(inner);
	cb_box_close(b);
	end();
}

TEST(limits_are_checked)
{
	cb_limit limit = CB_INIT(cb_limit);
	struct {
		cb_limit known;
		int later;
	} longer = {.known = {.struct_size = sizeof(longer)}};
	CHECK_CODE(cb_limit_push(NULL, &err), CB_INVALID);
	limit.struct_size = 0;
	CHECK_CODE(cb_limit_push(&limit, &err), CB_INVALID);
	limit.struct_size = sizeof(limit) - 1;
	CHECK_CODE(cb_limit_push(&limit, &err), CB_INVALID);
	CHECK_CODE(cb_limit_push(&longer.known, &err), CB_OK);
	cb_limit_pop();
	longer.later = 1;
	CHECK_CODE(cb_limit_push(&longer.known, &err), CB_INVALID);
	CHECK_CODE(cb_cancel_create(NULL, &err), CB_INVALID);
	cb_cancel_fire(NULL);
	cb_cancel_reset(NULL);
	cb_cancel_free(NULL);
	CHECK(!cb_cancel_is_fired(NULL));
}

/* A limit keeps its token. */
TEST(a_token_may_be_freed_first)
{
	cb_cancel *c = NULL;
	CHECK_OK(cb_cancel_create(&c, &err));
	limit_push(0, c);
	cb_cancel_fire(c);
	cb_cancel_free(c);
	CHECK_CODE(cb_store_open(":memory:", NULL, &s, &err), CB_CANCELLED);
	cb_limit_pop();
	CHECK_OK(cb_store_open(":memory:", NULL, &s, &err));
	cb_store_close(s);
}

static cb_code stat_inside(void *context, const char *path, const cb_stat_info *info, cb_error *e)
{
	cb_stat_info again = CB_INIT(cb_stat_info);
	(void)info;
	if (++seen == 3) cb_cancel_fire(token);
	return cb_stat(context, path, CB_NOFOLLOW, &again, e);
}

/* CB_INTERRUPTED, by which a visitor ends a walk with success, must not be what a cancelled call inside it gives. */
TEST_BOTH(a_visitor_that_is_cancelled_does_not_cut_a_walk_short)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	limit_push(0, token);
	CHECK_CODE(cb_walk(b, "/", stat_inside, b, &err), CB_CANCELLED);
	cb_limit_pop();
	CHECK_U64(seen, 3);
	cb_box_close(b);
	end();
}

/* Closing ends what there is to end, also when it is late. */
TEST_BOTH(closing_is_not_cut_short)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/open", CB_CREATE | CB_WRITE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "written", 7, &err));
	cb_cancel_fire(token);
	limit_push(-1, token);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(b);
	cb_limit_pop();
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/open"), "written");
	CHECK_OK(cb_open(b, "/work/open", CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_write(f, "again  ", 7, &err));
	limit_push(-1, token);
	cb_box_close(b); /* the handle before its file */
	CHECK_OK(cb_close(f, &err));
	cb_limit_pop();
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/open"), "again  ");
	cb_box_close(b);
	end();
}

/* What was written through an open file stays with it when its step cannot be made now. */
TEST_BOTH(writes_of_open_files_wait)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/open", CB_CREATE | CB_WRITE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "written", 7, &err));
	limit_push(-1, NULL);
	CHECK_CODE(cb_fsync(f, &err), CB_TIMEOUT);
	CHECK_CODE(cb_write(f, "x", 1, &err), CB_TIMEOUT);
	cb_limit_pop();
	memset(&err, 0, sizeof(err));
	CHECK_OK(cb_write(f, " more", 5, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(must_read(b, "/work/open"), "written more");
	cb_box_close(b);
	end();
}

/* A child has copies of limits and tokens. */
TEST(fork_copies_a_token)
{
	begin(false);
	cb_box *b = must_open(s, "demo");
	limit_push(0, token);
	must_write(b, "/work/a", "before");
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		cb_error e = {0};
		if (cb_write_file(b, "/work/child", "x", 1, NULL, &e) != CB_OK) _exit(1);
		cb_cancel_fire(token);
		if (cb_write_file(b, "/work/child", "y", 1, NULL, &e) != CB_CANCELLED) _exit(2);
		cb_limit_pop();
		if (cb_write_file(b, "/work/child", "z", 1, NULL, &e) != CB_OK) _exit(3);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_U64(status, 0);
	must_write(b, "/work/a", "after");
	cb_limit_pop();
	CHECK_STR(must_read(b, "/work/child"), "z");
	cb_box_close(b);
	end();
}
