/*
 * test_cancel_calls.c: a limit that is over ends every public call at once, and leaves every cursor where it stood.
 *
 * One row for each call, here or in the list of those that neither wait nor work; the headers are read to see that none is missing.
 */
#include "contract/test_docs_kit.h"
#include "harness/lists.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/cancel.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Calls that neither wait nor work: they hand out or set a word in memory, pass a word on to a program, or give back and free. */
static const char *const exempt[] = {
	"cb_version cb_sqlite_version cb_zstd_version cb_pcre2_version",
	"cb_code_name cb_code_text cb_code_errno cb_code_exit_status",
	"cb_cancel_create cb_cancel_fire cb_cancel_reset cb_cancel_is_fired cb_cancel_free cb_limit_push cb_limit_pop",
	"cb_store_who_set cb_box_who_set cb_box_step cb_log_pruned cb_grep_counted",
	"cb_exec_fd cb_exec_pump cb_exec_kill cb_exec_tick cb_exec_resize cb_exec_input",
	"cb_free cb_close cb_box_close cb_store_close cb_cursor_close cb_sandbox_close cb_exec_close cb_txn_drop",
};

static cb_store *s;
static cb_box *b, *old, *t, *d;
static cb_file *f;
static cb_error err;
static cb_cancel *token;
static buf seen = {.max_size = 1 << 20};
static const char *folder;
static int null_fd, pack_fd;

/* What calls would give: none gives anything. */
static cb_store *store_out;
static cb_box *box_out;
static cb_file *file_out;
static cb_cursor *cursor_out;
static cb_sandbox *sandbox_out;
static char *text, *text2, room[16];
static size_t size;
static uint64_t number;
static cb_stat_info stat_info = {.struct_size = sizeof(stat_info)};
static cb_box_info box_info = {.struct_size = sizeof(box_info)};
static cb_store_stats store_stats = {.struct_size = sizeof(store_stats)};
static cb_tier_report report = {.struct_size = sizeof(report)};

static cb_code on_entry(void *c, const char *name, const cb_stat_info *i, cb_error *e)
{
	(void)c, (void)name, (void)i, (void)e;
	return CB_OK;
}
static cb_code on_name(void *c, const char *name, const char *value, size_t n, cb_error *e)
{
	(void)c, (void)name, (void)value, (void)n, (void)e;
	return CB_OK;
}
#define ON(name, type)                                              \
	static cb_code name(void *c, const type *item, cb_error *e) \
	{                                                           \
		(void)c, (void)item, (void)e;                       \
		return CB_OK;                                       \
	}
ON(on_audit, cb_audit)
ON(on_box, cb_box_info)
ON(on_use, cb_use)
ON(on_step, cb_step)
ON(on_change, cb_change)
ON(on_stat, cb_change_stat)
ON(on_line, cb_blame_line)
ON(on_checkpoint, cb_checkpoint)
ON(on_conflict, cb_conflict)
ON(on_match, cb_grep_line)

static void begin(bool memory)
{
	s = test_store_open(memory);
	CHECK_OK(cb_cancel_create(&token, &err));
	cb_cancel_fire(token);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
	CHECK_OK(cb_symlink(b, "a", "/work/l", &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", "1", 1, 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/a", "tag", &err));
	CHECK_OK(cb_meta_set(b, "/work/a", "meta", "1", 1, &err));
	CHECK_OK(cb_kv_set(b, "key", "1", 1, &err));
	CHECK_OK(cb_setting_set(b, "setting", "1", 1, &err));
	CHECK_OK(cb_store_setting_set(s, "setting", "1", 1, &err));
	CHECK_OK(cb_checkpoint_save(b, "here", 0, true, &err));
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	pack_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	folder = text_of("%s/folder", test_tmpdir());
	CHECK(null_fd >= 0 && pack_fd >= 0 && mkdir(folder, 0755) == 0);
	write_text(text_of("%s/a", folder), "one\n");
	CHECK_OK(cb_import(b, folder, &CB_WITH(cb_import_options, .to = "/in", .link = true), NULL, &err));
	old = must_open(s, "demo@1");
	CHECK_OK(cb_box_draft(s, "draft", &d, &err));
	t = must_begin(b);
	must_write(t, "/work/t", "t");
	CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE, 0, &f, &err));
	/* A conflict, so that there is a list of them. */
	must_write(b, "/work/t", "other");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
}

static void end(void)
{
	CHECK_OK(cb_close(f, &err));
	cb_box_close(t);
	cb_box_close(d);
	cb_box_close(old);
	cb_box_close(b);
	CHECK(close(null_fd) == 0 && close(pack_fd) == 0);
	test_store_sound(s);
	cb_cancel_free(token);
	cb_store_close(s);
}

static void must_end(const char *call, cb_code code, cb_code expected)
{
	CHECK_MSG(code == expected && err.code == expected, "%s: %s (%s)", call, cb_code_name(code), err.message);
	memset(&err, 0, sizeof(err));
}

/* By a token that was fired, and by a time that is over. */
#define ROW(call, ...)                                            \
	do {                                                      \
		limit_push(0, token);                             \
		cb_code got_ = call(__VA_ARGS__, &err);           \
		cb_limit_pop();                                   \
		must_end(#call, got_, CB_CANCELLED);              \
		limit_push(-1, NULL);                             \
		got_ = call(__VA_ARGS__, &err);                   \
		cb_limit_pop();                                   \
		must_end(#call, got_, CB_TIMEOUT);                \
		CHECK_OK(buf_printf(&seen, &err, " %s ", #call)); \
	} while (0)

static void end_calls_on_stores(void)
{
	ROW(cb_store_open, text_of("%s/another", test_tmpdir()), NULL, &store_out);
	ROW(cb_store_sync, s);
	ROW(cb_store_setting_set, s, "setting", "2", 1);
	ROW(cb_store_setting_get, s, "setting", &text, &size);
	ROW(cb_store_stats_get, s, &store_stats);
	ROW(cb_store_uses, s, on_use, NULL);
	ROW(cb_store_gc, s, NULL);
	ROW(cb_store_vacuum, s);
	ROW(cb_store_backup, s, text_of("%s/backup", test_tmpdir()));
	ROW(cb_store_check, s, NULL, NULL, &number);
	ROW(cb_audit_list, s, NULL, on_audit, NULL);
	ROW(cb_pin_set, b, "owner", "why", 0);
	ROW(cb_pin_drop, s, "owner");
	ROW(cb_box_create, s, "new", &box_out);
	ROW(cb_box_draft, s, "new", &box_out);
	ROW(cb_box_publish, d);
	ROW(cb_box_open, s, "demo", &box_out);
	ROW(cb_box_open, s, "demo@1", &box_out);
	ROW(cb_box_fork, s, "demo", "new", &box_out);
	ROW(cb_box_rename, s, "demo", "new");
	ROW(cb_box_delete, s, "demo");
	ROW(cb_box_info_get, b, &box_info);
	ROW(cb_box_list, s, on_box, NULL);
	ROW(cb_box_quota_set, b, 0, 0, 0);
	ROW(cb_box_retention_set, b, 0, 0);
	ROW(cb_box_checkpoint_every_set, b, 0);
	ROW(cb_setting_set, b, "setting", "2", 1);
	ROW(cb_setting_get, b, "setting", &text, &size);
	ROW(cb_kv_get, b, "key", &text, &size);
	ROW(cb_kv_set, b, "key", "2", 1);
	ROW(cb_kv_delete, b, "key");
	ROW(cb_kv_list, b, "", on_name, NULL);
}

static void end_calls_on_files(cb_box *on)
{
	ROW(cb_read_file, on, "/work/a", &text, &size);
	ROW(cb_read_at, on, "/work/a", 0, room, 4, &size);
	ROW(cb_write_file, on, "/work/a", "two\n", 4, NULL);
	ROW(cb_edit, on, "/work/a", &(cb_replacement){"one", 3, "two", 3}, 1, NULL, NULL);
	ROW(cb_truncate, on, "/work/a", 1);
	ROW(cb_stat, on, "/work/a", 0, &stat_info);
	ROW(cb_mkdir, on, "/work/new", 0755, 0);
	ROW(cb_rmdir, on, "/work/d");
	ROW(cb_unlink, on, "/work/a");
	ROW(cb_rename, on, "/work/a", "/work/b", 0);
	ROW(cb_link, on, "/work/a", "/work/b");
	ROW(cb_symlink, on, "a", "/work/b");
	ROW(cb_readlink, on, "/work/l", &text, &size);
	ROW(cb_chmod, on, "/work/a", 0600, 0);
	ROW(cb_utimens, on, "/work/a", 1, 1, 0);
	ROW(cb_readdir, on, "/", on_entry, NULL);
	ROW(cb_walk, on, "/", on_entry, NULL);
	ROW(cb_glob, on, "/work/*", on_entry, NULL);
	ROW(cb_find, on, "/", NULL, on_entry, NULL);
	ROW(cb_grep, on, "/", &CB_WITH(cb_grep_options, .pattern = "one"), on_match, NULL, NULL);
	ROW(cb_copy, on, "/work/a", "/work/b", 0);
	ROW(cb_remove, on, "/work/a");
	ROW(cb_xattr_set, on, "/work/a", "user.x", "2", 1, 0);
	ROW(cb_xattr_get, on, "/work/a", "user.x", 0, &text, &size);
	ROW(cb_xattr_remove, on, "/work/a", "user.x", 0);
	ROW(cb_xattr_list, on, "/work/a", 0, on_name, NULL);
	ROW(cb_tag_add, on, "/work/a", "other");
	ROW(cb_tag_remove, on, "/work/a", "tag");
	ROW(cb_tag_list, on, "/work/a", on_name, NULL);
	ROW(cb_meta_set, on, "/work/a", "meta", "2", 1);
	ROW(cb_meta_get, on, "/work/a", "meta", &text, &size);
	ROW(cb_meta_list, on, "/work/a", on_name, NULL);
	ROW(cb_open, on, "/work/a", CB_READ, 0, &file_out);
}

static void end_calls_on_open_files(void)
{
	ROW(cb_read, f, room, 1, &size);
	ROW(cb_write, f, "x", 1);
	ROW(cb_pread, f, room, 1, 0, &size);
	ROW(cb_pwrite, f, "x", 1, 0);
	ROW(cb_seek, f, 0, CB_SEEK_SET, NULL);
	ROW(cb_ftruncate, f, 1);
	ROW(cb_fstat, f, &stat_info);
	ROW(cb_fsync, f);
}

static void end_calls_on_history(void)
{
	ROW(cb_log, b, NULL, on_step, NULL, NULL);
	ROW(cb_step_get, b, 1, on_step, NULL);
	ROW(cb_step_record, b, NULL, NULL);
	ROW(cb_diff, old, b, NULL, on_change, NULL);
	ROW(cb_diff_step, b, 1, NULL, on_change, NULL);
	ROW(cb_diff_stat, old, b, NULL, on_stat, NULL);
	ROW(cb_diff_text, old, b, NULL, &text, &size);
	ROW(cb_restore, b, old, NULL, NULL);
	ROW(cb_undo, b, 0, NULL);
	ROW(cb_redo, b, NULL);
	ROW(cb_checkpoint_save, b, "new", 0, true);
	ROW(cb_checkpoint_delete, b, "here");
	ROW(cb_checkpoint_list, b, on_checkpoint, NULL);
	ROW(cb_merge, b, old, NULL, NULL, NULL);
	ROW(cb_blame, b, "/work/a", on_line, NULL);
	ROW(cb_prune, b, NULL, NULL);
	ROW(cb_txn_begin, b, NULL, &box_out);
	ROW(cb_txn_commit, t, NULL, NULL);
	ROW(cb_txn_keep, t, NULL, NULL);
	ROW(cb_txn_conflicts, t, on_conflict, NULL);
}

static void end_calls_on_the_host(void)
{
	ROW(cb_import, b, folder, NULL, NULL);
	ROW(cb_export, b, "/work", text_of("%s/export", test_tmpdir()), NULL, NULL);
	ROW(cb_folder_get, b, &text, &text2);
	ROW(cb_folder_box, s, folder, &text);
	ROW(cb_apply, b, NULL, NULL, NULL, NULL);
	ROW(cb_tar_import, b, null_fd, NULL, NULL);
	ROW(cb_tar_export, b, "/", null_fd, NULL, NULL);
	ROW(cb_pack, b, null_fd, NULL, NULL);
	ROW(cb_unpack, s, pack_fd, "new", NULL, NULL);
	ROW(cb_sandbox_open, b, NULL, &sandbox_out);
	ROW(cb_sandbox_plan, b, NULL, false, &text);
	ROW(cb_sandbox_try, NULL, CB_TIER_FOLDER, &report);
	ROW(cb_exec_recover, s, "demo", &number);
	ROW(cb_exec_drop, s, "demo", &number);
	ROW(cb_work_clean, s, true, &number);
}

static void end_openings(void)
{
	ROW(cb_readdir_open, b, "/", &cursor_out);
	ROW(cb_walk_open, b, "/", &cursor_out);
	ROW(cb_glob_open, b, "/work/*", &cursor_out);
	ROW(cb_find_open, b, "/", NULL, &cursor_out);
	ROW(cb_xattr_open, b, "/work/a", 0, &cursor_out);
	ROW(cb_tag_open, b, "/work/a", &cursor_out);
	ROW(cb_meta_open, b, "/work/a", &cursor_out);
	ROW(cb_kv_open, b, "", &cursor_out);
	ROW(cb_grep_open, b, "/", &CB_WITH(cb_grep_options, .pattern = "one"), &cursor_out);
	ROW(cb_log_open, b, NULL, &cursor_out);
	ROW(cb_diff_open, old, b, NULL, &cursor_out);
	ROW(cb_diff_step_open, b, 1, NULL, &cursor_out);
	ROW(cb_diff_stat_open, old, b, NULL, &cursor_out);
	ROW(cb_blame_open, b, "/work/a", &cursor_out);
	ROW(cb_checkpoint_open, b, &cursor_out);
	ROW(cb_conflict_open, t, &cursor_out);
	ROW(cb_box_list_open, s, &cursor_out);
	ROW(cb_audit_open, s, NULL, &cursor_out);
	ROW(cb_use_open, s, &cursor_out);
}

/* The call is ended and the cursor is where it was: before its first entry, after it, and at its end. */
#define NEXT(open, next, type, ...)                          \
	do {                                                 \
		cb_cursor *c = NULL;                         \
		const type *item = NULL;                     \
		CHECK_OK(open(__VA_ARGS__, &c, &err));       \
		ROW(next, c, &item);                         \
		CHECK_OK(next(c, &item, &err));              \
		CHECK_MSG(item, "%s gave nothing", #next);   \
		ROW(next, c, &item);                         \
		while (item) CHECK_OK(next(c, &item, &err)); \
		ROW(next, c, &item);                         \
		CHECK_OK(next(c, &item, &err));              \
		CHECK(!item);                                \
		cb_cursor_close(c);                          \
	} while (0)

static void end_nexts(void)
{
	NEXT(cb_walk_open, cb_entry_next, cb_entry, b, "/");
	NEXT(cb_kv_open, cb_name_next, cb_name, b, "");
	NEXT(cb_grep_open, cb_grep_next, cb_grep_line, b, "/", &CB_WITH(cb_grep_options, .pattern = "one"));
	NEXT(cb_log_open, cb_step_next, cb_step, b, NULL);
	NEXT(cb_diff_open, cb_change_next, cb_change, old, b, NULL);
	NEXT(cb_diff_stat_open, cb_change_stat_next, cb_change_stat, old, b, NULL);
	NEXT(cb_blame_open, cb_blame_next, cb_blame_line, b, "/work/a");
	NEXT(cb_checkpoint_open, cb_checkpoint_next, cb_checkpoint, b);
	NEXT(cb_conflict_open, cb_conflict_next, cb_conflict, t);
	NEXT(cb_box_list_open, cb_box_next, cb_box_info, s);
	NEXT(cb_audit_open, cb_audit_next, cb_audit, s, NULL);
	NEXT(cb_use_open, cb_use_next, cb_use, s);
}

/* Those of programs, where they can be run; else they are only named. */
static void end_calls_on_programs(void)
{
	static const char *const names = " cb_exec_start  cb_exec_wait  cb_exec_changes  cb_exec_changes_open ";
	static const char *const argv[] = {"sh", "-c", "echo two > b"};
	cb_sandbox *sandbox = NULL;
	cb_exec *exec = NULL, *exec_out = NULL;
	const cb_exec_result *result = NULL;
	CHECK_OK(buf_printf(&seen, &err, "%s", names));
	cb_exec_options options = CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_NONE);
	CHECK_OK(cb_sandbox_open(b, NULL, &sandbox, &err));
	cb_code code = cb_exec_start(sandbox, &options, &exec, &err);
	if (code == CB_OK) {
		ROW(cb_exec_start, sandbox, &options, &exec_out);
		ROW(cb_exec_wait, exec, &result);
		CHECK_OK(cb_exec_wait(exec, &result, &err));
		ROW(cb_exec_changes, exec, on_change, NULL);
		ROW(cb_exec_changes_open, exec, &cursor_out);
	}
	CHECK_MSG(code == CB_OK || code == CB_UNSUPPORTED, "%s", err.message);
	memset(&err, 0, sizeof(err));
	cb_exec_close(exec);
	cb_sandbox_close(sandbox);
}

static bool is_exempt(const char *call)
{
	for (size_t i = 0; i < ARRAY_LEN(exempt); i++)
		if (strstr(text_of(" %s ", exempt[i]), text_of(" %s ", call))) return true;
	return false;
}

/* Each call of the headers has a row or a reason, and not both. */
static void check_all_named(void)
{
	int count = 0;
	CHECK_OK(buf_append_byte(&seen, 0, &err));
	for (char *line = must_text("include/cowbox/cowbox.h"); (line = strstr(line, "\n#include <cowbox/")); line++) {
		const char *header = text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11);
		for (const char *at = must_text(header); (at = strstr(at, "\nCB_API ")); at++) {
			const char *open = strchr(at, '('), *name = open;
			while (isalnum((unsigned char)name[-1]) || name[-1] == '_') name--;
			const char *call = text_of("%.*s", (int)(open - name), name);
			bool tried = strstr((const char *)seen.bytes, text_of(" %s ", call)) != NULL;
			CHECK_MSG(tried || is_exempt(call), "%s: no limit that is over ends it here", call);
			CHECK_MSG(!tried || !is_exempt(call), "%s: it is ended, and said not to be", call);
			count++;
		}
	}
	CHECK(count > 150);
	buf_done(&seen);
}

TEST_BOTH(a_fired_token_ends_every_call_at_once)
{
	begin(memory);
	char *before = must_dump(b);
	uint64_t seq = must_seq(b);
	end_calls_on_stores();
	end_calls_on_files(b);
	end_calls_on_files(t);
	end_calls_on_open_files();
	end_calls_on_history();
	end_calls_on_the_host();
	end_openings();
	end_nexts();
	CHECK_STR(must_dump(b), before);
	CHECK_U64(must_seq(b), seq);
	end_calls_on_programs();
	check_all_named();
	end();
}

/* ---- cursors between whose entries limits are over ---- */

/* Every kind of list, each entry of it asked for three times, two of them in vain. */
TEST_BOTH(a_cursor_keeps_its_place_when_a_limit_is_over)
{
	test_rng r = {test_seed()};
	s = test_store_open(memory);
	CHECK_OK(cb_cancel_create(&token, &err));
	cb_cancel_fire(token);
	list_world w = list_world_make(s, &r, 40);
	for (int k = 0; k < LIST_KINDS; k++) {
		if (k == LIST_CONFLICTS) continue;
		cb_cursor *c = NULL;
		AUTO_BUF buf got = BUF_INIT(SIZE_MAX);
		CHECK_OK(list_open(k, &w, &c, &err));
		for (bool more = true; more;) {
			char *one = NULL;
			limit_push(0, token);
			CHECK_CODE(list_next(k, c, &one, &err), CB_CANCELLED);
			cb_limit_pop();
			limit_push(-1, NULL);
			CHECK_CODE(list_next(k, c, &one, &err), CB_TIMEOUT);
			cb_limit_pop();
			CHECK_OK(list_next(k, c, &one, &err));
			more = one != NULL;
			if (one) CHECK_OK(buf_append_str(&got, one, &err));
			free(one);
		}
		CHECK_OK(buf_append_byte(&got, 0, &err));
		char *expected = list_visit(k, &w);
		CHECK_MSG(strcmp((const char *)got.bytes, expected) == 0, "%s: the cursor gave\n%s\nand the visitor\n%s",
		          list_name(k), (const char *)got.bytes, expected);
		free(expected);
		cb_cursor_close(c);
	}
	list_world_close(&w);
	cb_cancel_free(token);
	cb_store_close(s);
}

/* A limit that ends at any moment of a list: its entries come in order and none is left out, or the cursor says that it failed. */
TEST_BOTH(a_limit_at_any_look_never_shortens_a_list)
{
	test_rng r = {test_seed()};
	s = test_store_open(memory);
	CHECK_OK(cb_cancel_create(&token, &err));
	list_world w = list_world_make(s, &r, 40);
	for (unsigned n = 0; n < test_dose(400); n++) {
		list_kind k = (list_kind)test_rand_below(&r, LIST_KINDS);
		if (k == LIST_CONFLICTS) continue;
		cb_cursor *c = NULL;
		AUTO_BUF buf got = BUF_INIT(SIZE_MAX);
		bool resumes = k == LIST_DIFF || k == LIST_DIFF_STEP || k == LIST_DIFF_STAT || k == LIST_BLAME ||
		               k == LIST_CHECKPOINTS || k == LIST_BOXES || k == LIST_USES;
		char *expected = list_visit(k, &w);
		CHECK_OK(list_open(k, &w, &c, &err));
		cancel_fire_at_look(token, 1 + (long)test_rand_below(&r, 200));
		cb_code code = CB_OK, first = CB_OK;
		for (bool more = true; more;) {
			char *one = NULL;
			limit_push(0, token);
			first = list_next(k, c, &one, &err);
			cb_limit_pop();
			if (first != CB_OK) cancel_fire_at_look(token, 0);
			CHECK(first == CB_OK || first == CB_CANCELLED);
			code = first == CB_OK ? CB_OK : list_next(k, c, &one, &err);
			CHECK(code == CB_OK || (code == CB_CANCELLED && !resumes));
			more = one != NULL;
			if (one) CHECK_OK(buf_append_str(&got, one, &err));
			free(one);
		}
		CHECK_OK(buf_append_byte(&got, 0, &err));
		if (code == CB_OK) CHECK_STR((const char *)got.bytes, expected);
		else CHECK(strncmp((const char *)got.bytes, expected, got.size - 1) == 0);
		free(expected);
		cb_cursor_close(c);
	}
	list_world_close(&w);
	cb_cancel_free(token);
	cb_store_close(s);
}
