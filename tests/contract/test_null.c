/*
 * test_null.c: NULL for any pointer that the headers do not allow to be so is CB_INVALID, and names the argument.
 *
 * One row for each pointer of each public call, here or in the list of those that may be NULL; the headers are read to see that none is
 * missing.
 */
#include "contract/test_docs_kit.h"

#include "base/attr.h"
#include "base/buf.h"

/* "call argument...": may be NULL. Besides, everywhere: err, context. */
static const char *const may_be_null[] = {
	"cb_apply options visit out",
	"cb_audit_list options",
	"cb_box_close box",
	"cb_box_create out",
	"cb_box_fork out",
	"cb_box_step box",
	"cb_cancel_fire cancel",
	"cb_cancel_free cancel",
	"cb_cancel_is_fired cancel",
	"cb_cancel_reset cancel",
	"cb_cursor_close cursor",
	"cb_find_open options",
	"cb_log_open options",
	"cb_diff_open path",
	"cb_diff_step_open path",
	"cb_diff_stat_open path",
	"cb_audit_open options",
	"cb_checkpoint_save name",
	"cb_close file",
	"cb_diff path",
	"cb_diff_stat path",
	"cb_diff_step path",
	"cb_diff_text options out_size",
	"cb_edit options out_replaced",
	"cb_exec_close exec",
	"cb_exec_drop out_steps",
	"cb_exec_fd exec",
	"cb_exec_recover box out_steps",
	"cb_export options out",
	"cb_find options",
	"cb_free p",
	"cb_grep out",
	"cb_import options out",
	"cb_kv_get out_size",
	"cb_log options out_pruned",
	"cb_merge options out_seq out_conflicts",
	"cb_meta_get out_size",
	"cb_meta_set value",
	"cb_pack options out",
	"cb_prune options out_pruned",
	"cb_read_file out_size",
	"cb_readlink out_size",
	"cb_redo out_seq",
	"cb_restore path out_seq",
	"cb_sandbox_close sandbox",
	"cb_sandbox_open options",
	"cb_sandbox_plan options",
	"cb_sandbox_try folder",
	"cb_seek out_position",
	"cb_setting_get out_size",
	"cb_setting_set value",
	"cb_step_record info out_seq",
	"cb_store_check complain out_complaints",
	"cb_store_close store",
	"cb_store_gc out",
	"cb_store_open path options",
	"cb_store_setting_get out_size",
	"cb_store_setting_set value",
	"cb_tar_export options out",
	"cb_tar_import options out",
	"cb_txn_begin options",
	"cb_txn_commit options out",
	"cb_txn_keep name out",
	"cb_undo out_seq",
	"cb_unpack name watch out",
	"cb_work_clean out_removed",
	"cb_write_file options",
	"cb_xattr_get out_size",
};

static cb_store *s;
static cb_box *b, *t, *box_out;
static cb_file *f, *file_out;
static cb_sandbox *sandbox, *sandbox_out;
static cb_cursor *cursor, *cursor_out;
static const cb_audit *see_next_cb_audit;
static const cb_blame_line *see_next_cb_blame_line;
static const cb_box_info *see_next_cb_box_info;
static const cb_change *see_next_cb_change;
static const cb_change_stat *see_next_cb_change_stat;
static const cb_checkpoint *see_next_cb_checkpoint;
static const cb_conflict *see_next_cb_conflict;
static const cb_entry *see_next_cb_entry;
static const cb_grep_line *see_next_cb_grep_line;
static const cb_name *see_next_cb_name;
static const cb_step *see_next_cb_step;
static const cb_use *see_next_cb_use;
static cb_exec *exec, *exec_out;
static cb_error err;
static char *text, room[16];
static uint64_t number;
static size_t size;
static bool done;
static const cb_exec_result *result;
static cb_replacement edit = {"one", 3, "two", 3};
static cb_step_info step = {.struct_size = sizeof(step), .kind = "note"};
static cb_grep_options grep = {.struct_size = sizeof(grep), .pattern = "one"};
static const char *const argv[] = {"sh", "-c", "cat >/dev/null"};
static cb_exec_options command = {.struct_size = sizeof(command), .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_PIPE};
static cb_apply_result apply_result = {.struct_size = sizeof(cb_apply_result)};
static cb_box_info box_info = {.struct_size = sizeof(cb_box_info)};
static cb_commit_result commit_result = {.struct_size = sizeof(cb_commit_result)};
static cb_gc_result gc_result = {.struct_size = sizeof(cb_gc_result)};
static cb_grep_count grep_count = {.struct_size = sizeof(cb_grep_count)};
static cb_pack_info pack_info = {.struct_size = sizeof(cb_pack_info)};
static cb_stat_info stat_info = {.struct_size = sizeof(cb_stat_info)};
static cb_store_stats store_stats = {.struct_size = sizeof(cb_store_stats)};
static cb_transfer_count transfer_count = {.struct_size = sizeof(cb_transfer_count)};

static cb_code see_cb_apply_visit(void *context, const cb_apply_item *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_audit_visit(void *context, const cb_audit *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_blame_visit(void *context, const cb_blame_line *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_box_visit(void *context, const cb_box_info *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_change_stat_visit(void *context, const cb_change_stat *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_change_visit(void *context, const cb_change *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_checkpoint_visit(void *context, const cb_checkpoint *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_conflict_visit(void *context, const cb_conflict *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_entry_visit(void *context, const char *name, const cb_stat_info *p, cb_error *e)
{
	(void)context;
	(void)name;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_grep_visit(void *context, const cb_grep_line *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_name_visit(void *context, const char *name, const char *p, size_t bytes, cb_error *e)
{
	(void)context;
	(void)name;
	(void)p;
	(void)bytes;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_step_visit(void *context, const cb_step *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_use_visit(void *context, const cb_use *p, cb_error *e)
{
	(void)context;
	(void)p;
	(void)e;
	return CB_OK;
}
static cb_code see_cb_walk_visit(void *context, const char *name, const cb_stat_info *p, cb_error *e)
{
	(void)context;
	(void)name;
	(void)p;
	(void)e;
	return CB_OK;
}

static buf seen = {.max_size = 1 << 20};

static void must_refuse(const char *call, const char *argument, cb_code code)
{
	CHECK_MSG(code == CB_INVALID, "%s with %s NULL: %s", call, argument, cb_code_name(code));
	CHECK_OK(buf_printf(&seen, &err, " %s.%s ", call, argument));
}

static void must_name(const char *call, const char *argument)
{
	const char *wish = text_of("the argument '%s' is NULL", argument);
	CHECK_MSG(strcmp(err.message, wish) == 0, "%s: '%s', not '%s'", call, err.message, wish);
}

/* With an error to fill, and without. */
#define ROW(call, argument, expression)                      \
	do {                                                 \
		cb_error *e = &err;                          \
		must_refuse(#call, #argument, (expression)); \
		must_name(#call, #argument);                 \
		err = (cb_error){0};                         \
		e = NULL;                                    \
		must_refuse(#call, #argument, (expression)); \
	} while (0);

/* clang-format off: a row a line */
static void refuse_all(void)
{
	ROW(cb_audit_list, store, cb_audit_list(NULL, NULL, see_cb_audit_visit, NULL, e))
	ROW(cb_audit_list, visit, cb_audit_list(s, NULL, NULL, NULL, e))
	ROW(cb_box_create, store, cb_box_create(NULL, "name", &box_out, e))
	ROW(cb_box_create, name, cb_box_create(s, NULL, &box_out, e))
	ROW(cb_box_draft, store, cb_box_draft(NULL, "name", &box_out, e))
	ROW(cb_box_draft, name, cb_box_draft(s, NULL, &box_out, e))
	ROW(cb_box_draft, out, cb_box_draft(s, "name", NULL, e))
	ROW(cb_box_open, store, cb_box_open(NULL, "demo", &box_out, e))
	ROW(cb_box_open, address, cb_box_open(s, NULL, &box_out, e))
	ROW(cb_box_open, out, cb_box_open(s, "demo", NULL, e))
	ROW(cb_box_fork, store, cb_box_fork(NULL, "demo", "name", &box_out, e))
	ROW(cb_box_fork, address, cb_box_fork(s, NULL, "name", &box_out, e))
	ROW(cb_box_fork, name, cb_box_fork(s, "demo", NULL, &box_out, e))
	ROW(cb_box_rename, store, cb_box_rename(NULL, "name", "other", e))
	ROW(cb_box_rename, name, cb_box_rename(s, NULL, "other", e))
	ROW(cb_box_rename, new_name, cb_box_rename(s, "name", NULL, e))
	ROW(cb_box_delete, store, cb_box_delete(NULL, "name", e))
	ROW(cb_box_delete, name, cb_box_delete(s, NULL, e))
	ROW(cb_box_info_get, box, cb_box_info_get(NULL, &box_info, e))
	ROW(cb_box_info_get, out, cb_box_info_get(b, NULL, e))
	ROW(cb_box_list, store, cb_box_list(NULL, see_cb_box_visit, NULL, e))
	ROW(cb_box_list, visit, cb_box_list(s, NULL, NULL, e))
	ROW(cb_box_quota_set, box, cb_box_quota_set(NULL, 0, 0, 0, e))
	ROW(cb_box_retention_set, box, cb_box_retention_set(NULL, 0, 0, e))
	ROW(cb_box_checkpoint_every_set, box, cb_box_checkpoint_every_set(NULL, 0, e))
	ROW(cb_box_who_set, box, cb_box_who_set(NULL, "me", e))
	ROW(cb_box_who_set, who, cb_box_who_set(b, NULL, e))
	ROW(cb_setting_set, box, cb_setting_set(NULL, "key", "v", 1, e))
	ROW(cb_setting_set, key, cb_setting_set(b, NULL, "v", 1, e))
	ROW(cb_setting_get, box, cb_setting_get(NULL, "key", &text, &size, e))
	ROW(cb_setting_get, key, cb_setting_get(b, NULL, &text, &size, e))
	ROW(cb_setting_get, out, cb_setting_get(b, "key", NULL, &size, e))
	ROW(cb_sandbox_open, box, cb_sandbox_open(NULL, NULL, &sandbox_out, e))
	ROW(cb_sandbox_open, out, cb_sandbox_open(b, NULL, NULL, e))
	ROW(cb_sandbox_plan, box, cb_sandbox_plan(NULL, NULL, false, &text, e))
	ROW(cb_sandbox_plan, out, cb_sandbox_plan(b, NULL, false, NULL, e))
	ROW(cb_exec_start, sandbox, cb_exec_start(NULL, &command, &exec_out, e))
	ROW(cb_exec_pump, exec, cb_exec_pump(NULL, &done, e))
	ROW(cb_exec_kill, exec, cb_exec_kill(NULL, 15, e))
	ROW(cb_exec_tick, exec, cb_exec_tick(NULL, e))
	ROW(cb_exec_resize, exec, cb_exec_resize(NULL, 1, 1, e))
	ROW(cb_exec_input, exec, cb_exec_input(NULL, "x", 1, &size, e))
	ROW(cb_exec_wait, exec, cb_exec_wait(NULL, &result, e))
	ROW(cb_exec_changes, exec, cb_exec_changes(NULL, see_cb_change_visit, NULL, e))
	ROW(cb_exec_recover, store, cb_exec_recover(NULL, "demo", &number, e))
	ROW(cb_exec_drop, store, cb_exec_drop(NULL, "demo", &number, e))
	ROW(cb_exec_drop, box, cb_exec_drop(s, NULL, &number, e))
	ROW(cb_work_clean, store, cb_work_clean(NULL, false, &number, e))
	ROW(cb_sandbox_try, out, cb_sandbox_try("/nowhere", CB_TIER_FOLDER, NULL, e))
	ROW(cb_read_file, box, cb_read_file(NULL, "/work/a", &text, &size, e))
	ROW(cb_read_file, path, cb_read_file(b, NULL, &text, &size, e))
	ROW(cb_read_file, out, cb_read_file(b, "/work/a", NULL, &size, e))
	ROW(cb_read_at, box, cb_read_at(NULL, "/work/a", 0, room, 1, &size, e))
	ROW(cb_read_at, path, cb_read_at(b, NULL, 0, room, 1, &size, e))
	ROW(cb_read_at, to, cb_read_at(b, "/work/a", 0, NULL, 1, &size, e))
	ROW(cb_read_at, out_size, cb_read_at(b, "/work/a", 0, room, 1, NULL, e))
	ROW(cb_write_file, box, cb_write_file(NULL, "/work/a", "x", 1, NULL, e))
	ROW(cb_write_file, path, cb_write_file(b, NULL, "x", 1, NULL, e))
	ROW(cb_edit, box, cb_edit(NULL, "/work/a", &edit, 1, NULL, &number, e))
	ROW(cb_edit, path, cb_edit(b, NULL, &edit, 1, NULL, &number, e))
	ROW(cb_edit, replacements, cb_edit(b, "/work/a", NULL, 1, NULL, &number, e))
	ROW(cb_truncate, box, cb_truncate(NULL, "/work/a", 1, e))
	ROW(cb_truncate, path, cb_truncate(b, NULL, 1, e))
	ROW(cb_stat, box, cb_stat(NULL, "/work/a", 0, &stat_info, e))
	ROW(cb_stat, path, cb_stat(b, NULL, 0, &stat_info, e))
	ROW(cb_stat, out, cb_stat(b, "/work/a", 0, NULL, e))
	ROW(cb_mkdir, box, cb_mkdir(NULL, "/work/a", 0644, 0, e))
	ROW(cb_mkdir, path, cb_mkdir(b, NULL, 0644, 0, e))
	ROW(cb_rmdir, box, cb_rmdir(NULL, "/work/a", e))
	ROW(cb_rmdir, path, cb_rmdir(b, NULL, e))
	ROW(cb_unlink, box, cb_unlink(NULL, "/work/a", e))
	ROW(cb_unlink, path, cb_unlink(b, NULL, e))
	ROW(cb_rename, box, cb_rename(NULL, "/work/a", "/work/z", 0, e))
	ROW(cb_rename, from, cb_rename(b, NULL, "/work/z", 0, e))
	ROW(cb_rename, to, cb_rename(b, "/work/a", NULL, 0, e))
	ROW(cb_link, box, cb_link(NULL, "/work/a", "/work/z", e))
	ROW(cb_link, from, cb_link(b, NULL, "/work/z", e))
	ROW(cb_link, to, cb_link(b, "/work/a", NULL, e))
	ROW(cb_symlink, box, cb_symlink(NULL, "a", "/work/a", e))
	ROW(cb_symlink, target, cb_symlink(b, NULL, "/work/a", e))
	ROW(cb_symlink, path, cb_symlink(b, "a", NULL, e))
	ROW(cb_readlink, box, cb_readlink(NULL, "/work/a", &text, &size, e))
	ROW(cb_readlink, path, cb_readlink(b, NULL, &text, &size, e))
	ROW(cb_readlink, out, cb_readlink(b, "/work/a", NULL, &size, e))
	ROW(cb_chmod, box, cb_chmod(NULL, "/work/a", 0644, 0, e))
	ROW(cb_chmod, path, cb_chmod(b, NULL, 0644, 0, e))
	ROW(cb_utimens, box, cb_utimens(NULL, "/work/a", 0, 0, 0, e))
	ROW(cb_utimens, path, cb_utimens(b, NULL, 0, 0, 0, e))
	ROW(cb_readdir, box, cb_readdir(NULL, "/work/a", see_cb_entry_visit, NULL, e))
	ROW(cb_readdir, path, cb_readdir(b, NULL, see_cb_entry_visit, NULL, e))
	ROW(cb_readdir, visit, cb_readdir(b, "/work/a", NULL, NULL, e))
	ROW(cb_walk, box, cb_walk(NULL, "/work/a", see_cb_walk_visit, NULL, e))
	ROW(cb_walk, path, cb_walk(b, NULL, see_cb_walk_visit, NULL, e))
	ROW(cb_walk, visit, cb_walk(b, "/work/a", NULL, NULL, e))
	ROW(cb_glob, box, cb_glob(NULL, "/work/*", see_cb_walk_visit, NULL, e))
	ROW(cb_glob, pattern, cb_glob(b, NULL, see_cb_walk_visit, NULL, e))
	ROW(cb_glob, visit, cb_glob(b, "/work/*", NULL, NULL, e))
	ROW(cb_copy, box, cb_copy(NULL, "/work/a", "/work/z", 0, e))
	ROW(cb_copy, from, cb_copy(b, NULL, "/work/z", 0, e))
	ROW(cb_copy, to, cb_copy(b, "/work/a", NULL, 0, e))
	ROW(cb_remove, box, cb_remove(NULL, "/work/a", e))
	ROW(cb_remove, path, cb_remove(b, NULL, e))
	ROW(cb_xattr_set, box, cb_xattr_set(NULL, "/work/a", "name", "v", 1, 0, e))
	ROW(cb_xattr_set, path, cb_xattr_set(b, NULL, "name", "v", 1, 0, e))
	ROW(cb_xattr_set, name, cb_xattr_set(b, "/work/a", NULL, "v", 1, 0, e))
	ROW(cb_xattr_get, box, cb_xattr_get(NULL, "/work/a", "name", 0, &text, &size, e))
	ROW(cb_xattr_get, path, cb_xattr_get(b, NULL, "name", 0, &text, &size, e))
	ROW(cb_xattr_get, name, cb_xattr_get(b, "/work/a", NULL, 0, &text, &size, e))
	ROW(cb_xattr_get, out, cb_xattr_get(b, "/work/a", "name", 0, NULL, &size, e))
	ROW(cb_xattr_remove, box, cb_xattr_remove(NULL, "/work/a", "name", 0, e))
	ROW(cb_xattr_remove, path, cb_xattr_remove(b, NULL, "name", 0, e))
	ROW(cb_xattr_remove, name, cb_xattr_remove(b, "/work/a", NULL, 0, e))
	ROW(cb_xattr_list, box, cb_xattr_list(NULL, "/work/a", 0, see_cb_name_visit, NULL, e))
	ROW(cb_xattr_list, path, cb_xattr_list(b, NULL, 0, see_cb_name_visit, NULL, e))
	ROW(cb_xattr_list, visit, cb_xattr_list(b, "/work/a", 0, NULL, NULL, e))
	ROW(cb_tag_add, box, cb_tag_add(NULL, "/work/a", "tag", e))
	ROW(cb_tag_add, path, cb_tag_add(b, NULL, "tag", e))
	ROW(cb_tag_add, tag, cb_tag_add(b, "/work/a", NULL, e))
	ROW(cb_tag_remove, box, cb_tag_remove(NULL, "/work/a", "tag", e))
	ROW(cb_tag_remove, path, cb_tag_remove(b, NULL, "tag", e))
	ROW(cb_tag_remove, tag, cb_tag_remove(b, "/work/a", NULL, e))
	ROW(cb_tag_list, box, cb_tag_list(NULL, "/work/a", see_cb_name_visit, NULL, e))
	ROW(cb_tag_list, path, cb_tag_list(b, NULL, see_cb_name_visit, NULL, e))
	ROW(cb_tag_list, visit, cb_tag_list(b, "/work/a", NULL, NULL, e))
	ROW(cb_meta_set, box, cb_meta_set(NULL, "/work/a", "name", "v", 1, e))
	ROW(cb_meta_set, path, cb_meta_set(b, NULL, "name", "v", 1, e))
	ROW(cb_meta_set, name, cb_meta_set(b, "/work/a", NULL, "v", 1, e))
	ROW(cb_meta_get, box, cb_meta_get(NULL, "/work/a", "name", &text, &size, e))
	ROW(cb_meta_get, path, cb_meta_get(b, NULL, "name", &text, &size, e))
	ROW(cb_meta_get, name, cb_meta_get(b, "/work/a", NULL, &text, &size, e))
	ROW(cb_meta_get, out, cb_meta_get(b, "/work/a", "name", NULL, &size, e))
	ROW(cb_meta_list, box, cb_meta_list(NULL, "/work/a", see_cb_name_visit, NULL, e))
	ROW(cb_meta_list, path, cb_meta_list(b, NULL, see_cb_name_visit, NULL, e))
	ROW(cb_meta_list, visit, cb_meta_list(b, "/work/a", NULL, NULL, e))
	ROW(cb_open, box, cb_open(NULL, "/work/a", 0, 0644, &file_out, e))
	ROW(cb_open, path, cb_open(b, NULL, 0, 0644, &file_out, e))
	ROW(cb_open, out, cb_open(b, "/work/a", 0, 0644, NULL, e))
	ROW(cb_read, file, cb_read(NULL, room, 1, &size, e))
	ROW(cb_read, to, cb_read(f, NULL, 1, &size, e))
	ROW(cb_read, out_size, cb_read(f, room, 1, NULL, e))
	ROW(cb_write, file, cb_write(NULL, "x", 1, e))
	ROW(cb_pread, file, cb_pread(NULL, room, 1, 0, &size, e))
	ROW(cb_pread, to, cb_pread(f, NULL, 1, 0, &size, e))
	ROW(cb_pread, out_size, cb_pread(f, room, 1, 0, NULL, e))
	ROW(cb_pwrite, file, cb_pwrite(NULL, "x", 1, 0, e))
	ROW(cb_seek, file, cb_seek(NULL, 0, CB_SEEK_SET, &number, e))
	ROW(cb_ftruncate, file, cb_ftruncate(NULL, 1, e))
	ROW(cb_fstat, file, cb_fstat(NULL, &stat_info, e))
	ROW(cb_fstat, out, cb_fstat(f, NULL, e))
	ROW(cb_fsync, file, cb_fsync(NULL, e))
	ROW(cb_log, box, cb_log(NULL, NULL, see_cb_step_visit, NULL, &done, e))
	ROW(cb_log, visit, cb_log(b, NULL, NULL, NULL, &done, e))
	ROW(cb_step_get, box, cb_step_get(NULL, 1, see_cb_step_visit, NULL, e))
	ROW(cb_step_get, visit, cb_step_get(b, 1, NULL, NULL, e))
	ROW(cb_step_record, box, cb_step_record(NULL, &step, &number, e))
	ROW(cb_diff, from, cb_diff(NULL, b, "/work/a", see_cb_change_visit, NULL, e))
	ROW(cb_diff, to, cb_diff(b, NULL, "/work/a", see_cb_change_visit, NULL, e))
	ROW(cb_diff, visit, cb_diff(b, b, "/work/a", NULL, NULL, e))
	ROW(cb_diff_step, box, cb_diff_step(NULL, 1, "/work/a", see_cb_change_visit, NULL, e))
	ROW(cb_diff_step, visit, cb_diff_step(b, 1, "/work/a", NULL, NULL, e))
	ROW(cb_diff_stat, from, cb_diff_stat(NULL, b, "/work/a", see_cb_change_stat_visit, NULL, e))
	ROW(cb_diff_stat, to, cb_diff_stat(b, NULL, "/work/a", see_cb_change_stat_visit, NULL, e))
	ROW(cb_diff_stat, visit, cb_diff_stat(b, b, "/work/a", NULL, NULL, e))
	ROW(cb_diff_text, from, cb_diff_text(NULL, b, NULL, &text, &size, e))
	ROW(cb_diff_text, to, cb_diff_text(b, NULL, NULL, &text, &size, e))
	ROW(cb_diff_text, out, cb_diff_text(b, b, NULL, NULL, &size, e))
	ROW(cb_restore, box, cb_restore(NULL, b, "/work/a", &number, e))
	ROW(cb_restore, source, cb_restore(b, NULL, "/work/a", &number, e))
	ROW(cb_undo, box, cb_undo(NULL, 1, &number, e))
	ROW(cb_redo, box, cb_redo(NULL, &number, e))
	ROW(cb_checkpoint_save, box, cb_checkpoint_save(NULL, "name", 1, true, e))
	ROW(cb_checkpoint_delete, box, cb_checkpoint_delete(NULL, "name", e))
	ROW(cb_checkpoint_delete, name, cb_checkpoint_delete(b, NULL, e))
	ROW(cb_checkpoint_list, box, cb_checkpoint_list(NULL, see_cb_checkpoint_visit, NULL, e))
	ROW(cb_checkpoint_list, visit, cb_checkpoint_list(b, NULL, NULL, e))
	ROW(cb_merge, into, cb_merge(NULL, b, NULL, &number, &number, e))
	ROW(cb_merge, from, cb_merge(b, NULL, NULL, &number, &number, e))
	ROW(cb_blame, box, cb_blame(NULL, "/work/a", see_cb_blame_visit, NULL, e))
	ROW(cb_blame, path, cb_blame(b, NULL, see_cb_blame_visit, NULL, e))
	ROW(cb_blame, visit, cb_blame(b, "/work/a", NULL, NULL, e))
	ROW(cb_prune, box, cb_prune(NULL, NULL, &number, e))
	ROW(cb_kv_set, box, cb_kv_set(NULL, "key", "v", 1, e))
	ROW(cb_kv_set, key, cb_kv_set(b, NULL, "v", 1, e))
	ROW(cb_kv_get, box, cb_kv_get(NULL, "key", &text, &size, e))
	ROW(cb_kv_get, key, cb_kv_get(b, NULL, &text, &size, e))
	ROW(cb_kv_get, out, cb_kv_get(b, "key", NULL, &size, e))
	ROW(cb_kv_delete, box, cb_kv_delete(NULL, "key", e))
	ROW(cb_kv_delete, key, cb_kv_delete(b, NULL, e))
	ROW(cb_kv_list, box, cb_kv_list(NULL, "", see_cb_name_visit, NULL, e))
	ROW(cb_kv_list, prefix, cb_kv_list(b, NULL, see_cb_name_visit, NULL, e))
	ROW(cb_kv_list, visit, cb_kv_list(b, "", NULL, NULL, e))
	ROW(cb_grep, box, cb_grep(NULL, "/work/a", &grep, see_cb_grep_visit, NULL, &grep_count, e))
	ROW(cb_grep, path, cb_grep(b, NULL, &grep, see_cb_grep_visit, NULL, &grep_count, e))
	ROW(cb_grep, options, cb_grep(b, "/work/a", NULL, see_cb_grep_visit, NULL, &grep_count, e))
	ROW(cb_grep, visit, cb_grep(b, "/work/a", &grep, NULL, NULL, &grep_count, e))
	ROW(cb_find, box, cb_find(NULL, "/work/a", NULL, see_cb_walk_visit, NULL, e))
	ROW(cb_find, path, cb_find(b, NULL, NULL, see_cb_walk_visit, NULL, e))
	ROW(cb_find, visit, cb_find(b, "/work/a", NULL, NULL, NULL, e))
	ROW(cb_store_open, out, cb_store_open("/work/a", NULL, NULL, e))
	ROW(cb_store_sync, store, cb_store_sync(NULL, e))
	ROW(cb_store_who_set, store, cb_store_who_set(NULL, "me", e))
	ROW(cb_store_who_set, who, cb_store_who_set(s, NULL, e))
	ROW(cb_store_setting_set, store, cb_store_setting_set(NULL, "key", "v", 1, e))
	ROW(cb_store_setting_set, key, cb_store_setting_set(s, NULL, "v", 1, e))
	ROW(cb_store_setting_get, store, cb_store_setting_get(NULL, "key", &text, &size, e))
	ROW(cb_store_setting_get, key, cb_store_setting_get(s, NULL, &text, &size, e))
	ROW(cb_store_setting_get, out, cb_store_setting_get(s, "key", NULL, &size, e))
	ROW(cb_store_stats_get, store, cb_store_stats_get(NULL, &store_stats, e))
	ROW(cb_store_stats_get, out, cb_store_stats_get(s, NULL, e))
	ROW(cb_store_uses, store, cb_store_uses(NULL, see_cb_use_visit, NULL, e))
	ROW(cb_store_uses, visit, cb_store_uses(s, NULL, NULL, e))
	ROW(cb_pin_set, box, cb_pin_set(NULL, "job", "why", 0, e))
	ROW(cb_pin_set, owner, cb_pin_set(b, NULL, "why", 0, e))
	ROW(cb_pin_set, why, cb_pin_set(b, "job", NULL, 0, e))
	ROW(cb_cancel_create, out, cb_cancel_create(NULL, e))
	ROW(cb_limit_push, limit, cb_limit_push(NULL, e))
	ROW(cb_readdir_open, box, cb_readdir_open(NULL, "/work/a", &cursor_out, e))
	ROW(cb_readdir_open, path, cb_readdir_open(b, NULL, &cursor_out, e))
	ROW(cb_readdir_open, out, cb_readdir_open(b, "/work/a", NULL, e))
	ROW(cb_walk_open, box, cb_walk_open(NULL, "/work/a", &cursor_out, e))
	ROW(cb_walk_open, path, cb_walk_open(b, NULL, &cursor_out, e))
	ROW(cb_walk_open, out, cb_walk_open(b, "/work/a", NULL, e))
	ROW(cb_glob_open, box, cb_glob_open(NULL, "/**", &cursor_out, e))
	ROW(cb_glob_open, pattern, cb_glob_open(b, NULL, &cursor_out, e))
	ROW(cb_glob_open, out, cb_glob_open(b, "/**", NULL, e))
	ROW(cb_find_open, box, cb_find_open(NULL, "/work/a", NULL, &cursor_out, e))
	ROW(cb_find_open, path, cb_find_open(b, NULL, NULL, &cursor_out, e))
	ROW(cb_find_open, out, cb_find_open(b, "/work/a", NULL, NULL, e))
	ROW(cb_entry_next, cursor, cb_entry_next(NULL, &see_next_cb_entry, e))
	ROW(cb_entry_next, out, cb_entry_next(cursor, NULL, e))
	ROW(cb_xattr_open, box, cb_xattr_open(NULL, "/work/a", 0, &cursor_out, e))
	ROW(cb_xattr_open, path, cb_xattr_open(b, NULL, 0, &cursor_out, e))
	ROW(cb_xattr_open, out, cb_xattr_open(b, "/work/a", 0, NULL, e))
	ROW(cb_tag_open, box, cb_tag_open(NULL, "/work/a", &cursor_out, e))
	ROW(cb_tag_open, path, cb_tag_open(b, NULL, &cursor_out, e))
	ROW(cb_tag_open, out, cb_tag_open(b, "/work/a", NULL, e))
	ROW(cb_meta_open, box, cb_meta_open(NULL, "/work/a", &cursor_out, e))
	ROW(cb_meta_open, path, cb_meta_open(b, NULL, &cursor_out, e))
	ROW(cb_meta_open, out, cb_meta_open(b, "/work/a", NULL, e))
	ROW(cb_kv_open, box, cb_kv_open(NULL, "", &cursor_out, e))
	ROW(cb_kv_open, prefix, cb_kv_open(b, NULL, &cursor_out, e))
	ROW(cb_kv_open, out, cb_kv_open(b, "", NULL, e))
	ROW(cb_name_next, cursor, cb_name_next(NULL, &see_next_cb_name, e))
	ROW(cb_name_next, out, cb_name_next(cursor, NULL, e))
	ROW(cb_grep_open, box, cb_grep_open(NULL, "/work/a", &grep, &cursor_out, e))
	ROW(cb_grep_open, path, cb_grep_open(b, NULL, &grep, &cursor_out, e))
	ROW(cb_grep_open, options, cb_grep_open(b, "/work/a", NULL, &cursor_out, e))
	ROW(cb_grep_open, out, cb_grep_open(b, "/work/a", &grep, NULL, e))
	ROW(cb_grep_next, cursor, cb_grep_next(NULL, &see_next_cb_grep_line, e))
	ROW(cb_grep_next, out, cb_grep_next(cursor, NULL, e))
	ROW(cb_grep_counted, cursor, cb_grep_counted(NULL, &grep_count, e))
	ROW(cb_grep_counted, out, cb_grep_counted(cursor, NULL, e))
	ROW(cb_log_open, box, cb_log_open(NULL, NULL, &cursor_out, e))
	ROW(cb_log_open, out, cb_log_open(b, NULL, NULL, e))
	ROW(cb_step_next, cursor, cb_step_next(NULL, &see_next_cb_step, e))
	ROW(cb_step_next, out, cb_step_next(cursor, NULL, e))
	ROW(cb_log_pruned, cursor, cb_log_pruned(NULL, &done, e))
	ROW(cb_log_pruned, out, cb_log_pruned(cursor, NULL, e))
	ROW(cb_diff_open, from, cb_diff_open(NULL, b, "/work/a", &cursor_out, e))
	ROW(cb_diff_open, to, cb_diff_open(b, NULL, "/work/a", &cursor_out, e))
	ROW(cb_diff_open, out, cb_diff_open(b, b, "/work/a", NULL, e))
	ROW(cb_diff_step_open, box, cb_diff_step_open(NULL, 1, "/work/a", &cursor_out, e))
	ROW(cb_diff_step_open, out, cb_diff_step_open(b, 1, "/work/a", NULL, e))
	ROW(cb_exec_changes_open, exec, cb_exec_changes_open(NULL, &cursor_out, e))
	ROW(cb_change_next, cursor, cb_change_next(NULL, &see_next_cb_change, e))
	ROW(cb_change_next, out, cb_change_next(cursor, NULL, e))
	ROW(cb_diff_stat_open, from, cb_diff_stat_open(NULL, b, "/work/a", &cursor_out, e))
	ROW(cb_diff_stat_open, to, cb_diff_stat_open(b, NULL, "/work/a", &cursor_out, e))
	ROW(cb_diff_stat_open, out, cb_diff_stat_open(b, b, "/work/a", NULL, e))
	ROW(cb_change_stat_next, cursor, cb_change_stat_next(NULL, &see_next_cb_change_stat, e))
	ROW(cb_change_stat_next, out, cb_change_stat_next(cursor, NULL, e))
	ROW(cb_blame_open, box, cb_blame_open(NULL, "/work/a", &cursor_out, e))
	ROW(cb_blame_open, path, cb_blame_open(b, NULL, &cursor_out, e))
	ROW(cb_blame_open, out, cb_blame_open(b, "/work/a", NULL, e))
	ROW(cb_blame_next, cursor, cb_blame_next(NULL, &see_next_cb_blame_line, e))
	ROW(cb_blame_next, out, cb_blame_next(cursor, NULL, e))
	ROW(cb_checkpoint_open, box, cb_checkpoint_open(NULL, &cursor_out, e))
	ROW(cb_checkpoint_open, out, cb_checkpoint_open(b, NULL, e))
	ROW(cb_checkpoint_next, cursor, cb_checkpoint_next(NULL, &see_next_cb_checkpoint, e))
	ROW(cb_checkpoint_next, out, cb_checkpoint_next(cursor, NULL, e))
	ROW(cb_conflict_open, txn, cb_conflict_open(NULL, &cursor_out, e))
	ROW(cb_conflict_open, out, cb_conflict_open(b, NULL, e))
	ROW(cb_conflict_next, cursor, cb_conflict_next(NULL, &see_next_cb_conflict, e))
	ROW(cb_conflict_next, out, cb_conflict_next(cursor, NULL, e))
	ROW(cb_box_list_open, store, cb_box_list_open(NULL, &cursor_out, e))
	ROW(cb_box_list_open, out, cb_box_list_open(s, NULL, e))
	ROW(cb_box_next, cursor, cb_box_next(NULL, &see_next_cb_box_info, e))
	ROW(cb_box_next, out, cb_box_next(cursor, NULL, e))
	ROW(cb_audit_open, store, cb_audit_open(NULL, NULL, &cursor_out, e))
	ROW(cb_audit_open, out, cb_audit_open(s, NULL, NULL, e))
	ROW(cb_audit_next, cursor, cb_audit_next(NULL, &see_next_cb_audit, e))
	ROW(cb_audit_next, out, cb_audit_next(cursor, NULL, e))
	ROW(cb_use_open, store, cb_use_open(NULL, &cursor_out, e))
	ROW(cb_use_open, out, cb_use_open(s, NULL, e))
	ROW(cb_use_next, cursor, cb_use_next(NULL, &see_next_cb_use, e))
	ROW(cb_use_next, out, cb_use_next(cursor, NULL, e))
	ROW(cb_pin_drop, store, cb_pin_drop(NULL, "job", e))
	ROW(cb_pin_drop, owner, cb_pin_drop(s, NULL, e))
	ROW(cb_store_gc, store, cb_store_gc(NULL, &gc_result, e))
	ROW(cb_store_vacuum, store, cb_store_vacuum(NULL, e))
	ROW(cb_store_backup, store, cb_store_backup(NULL, "/nowhere/x", e))
	ROW(cb_store_backup, to_path, cb_store_backup(s, NULL, e))
	ROW(cb_store_check, store, cb_store_check(NULL, NULL, NULL, &number, e))
	ROW(cb_import, box, cb_import(NULL, "/nowhere/x", NULL, &transfer_count, e))
	ROW(cb_import, host_path, cb_import(b, NULL, NULL, &transfer_count, e))
	ROW(cb_box_publish, box, cb_box_publish(NULL, e))
	ROW(cb_export, box, cb_export(NULL, "/work/a", "/nowhere/x", NULL, &transfer_count, e))
	ROW(cb_export, path, cb_export(b, NULL, "/nowhere/x", NULL, &transfer_count, e))
	ROW(cb_export, host_path, cb_export(b, "/work/a", NULL, NULL, &transfer_count, e))
	ROW(cb_folder_get, box, cb_folder_get(NULL, &text, &text, e))
	ROW(cb_folder_get, out_host_path, cb_folder_get(b, NULL, &text, e))
	ROW(cb_folder_get, out_box_path, cb_folder_get(b, &text, NULL, e))
	ROW(cb_folder_box, store, cb_folder_box(NULL, "/nowhere/x", &text, e))
	ROW(cb_folder_box, host_path, cb_folder_box(s, NULL, &text, e))
	ROW(cb_folder_box, out_name, cb_folder_box(s, "/nowhere/x", NULL, e))
	ROW(cb_apply, box, cb_apply(NULL, NULL, see_cb_apply_visit, NULL, &apply_result, e))
	ROW(cb_tar_import, box, cb_tar_import(NULL, -1, NULL, &transfer_count, e))
	ROW(cb_tar_export, box, cb_tar_export(NULL, "/work/a", -1, NULL, &transfer_count, e))
	ROW(cb_tar_export, path, cb_tar_export(b, NULL, -1, NULL, &transfer_count, e))
	ROW(cb_pack, box, cb_pack(NULL, -1, NULL, &pack_info, e))
	ROW(cb_unpack, store, cb_unpack(NULL, -1, "name", NULL, &pack_info, e))
	ROW(cb_txn_begin, box, cb_txn_begin(NULL, NULL, &box_out, e))
	ROW(cb_txn_begin, out, cb_txn_begin(b, NULL, NULL, e))
	ROW(cb_txn_commit, txn, cb_txn_commit(NULL, NULL, &commit_result, e))
	ROW(cb_txn_conflicts, txn, cb_txn_conflicts(NULL, see_cb_conflict_visit, NULL, e))
	ROW(cb_txn_conflicts, visit, cb_txn_conflicts(t, NULL, NULL, e))
	ROW(cb_txn_keep, txn, cb_txn_keep(NULL, "name", &commit_result, e))
	ROW(cb_txn_drop, txn, cb_txn_drop(NULL, e))
}

/* ---- bytes: NULL has no size, whatever else NULL means to the call ---- */

static void must_have_no_size(const char *where, const char *argument, cb_code code, bool told)
{
	const char *wish = text_of("the argument '%s' is NULL, and has a size", argument);
	CHECK_MSG(code == CB_INVALID, "%s: %s is NULL, and has a size: %s", where, argument, cb_code_name(code));
	CHECK_MSG(!told || strcmp(err.message, wish) == 0, "%s: '%s', not '%s'", where, err.message, wish);
	err = (cb_error){0};
	CHECK_OK(buf_printf(&seen, &err, " %s.%s ", where, argument));
}

#define BYTES(where, argument, expression)                                \
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {                   \
		size_t n = sizes[i];                                      \
		cb_error *e = &err;                                       \
		must_have_no_size(#where, argument, (expression), true);  \
		e = NULL;                                                 \
		must_have_no_size(#where, argument, (expression), false); \
	}
#define STEP(...) (&CB_WITH(cb_step_info, __VA_ARGS__))

static const size_t sizes[] = {1, 1 << 20, CB_STRING};

/* clang-format off: a row a line */
static void refuse_bytes(void)
{
	BYTES(cb_write_file, "bytes", cb_write_file(b, "/work/a", NULL, n, NULL, e))
	BYTES(cb_write, "bytes", cb_write(f, NULL, n, e))
	BYTES(cb_pwrite, "bytes", cb_pwrite(f, NULL, n, 0, e))
	BYTES(cb_xattr_set, "value", cb_xattr_set(b, "/work/a", "name", NULL, n, 0, e))
	BYTES(cb_meta_set, "value", cb_meta_set(b, "/work/a", "name", NULL, n, e))
	BYTES(cb_kv_set, "value", cb_kv_set(b, "key", NULL, n, e))
	BYTES(cb_setting_set, "value", cb_setting_set(b, "key", NULL, n, e))
	BYTES(cb_store_setting_set, "value", cb_store_setting_set(s, "key", NULL, n, e))
	BYTES(cb_step_info, "params", cb_step_record(b, STEP(.params_size = n), NULL, e))
	BYTES(cb_step_info, "result", cb_step_record(b, STEP(.result_size = n), NULL, e))
	BYTES(cb_step_info, "params", cb_txn_begin(b, &CB_WITH(cb_txn_options, .step = STEP(.params_size = n)), &box_out, e))
	BYTES(cb_step_info, "result", cb_txn_commit(t, &CB_WITH(cb_commit_options, .step = STEP(.result_size = n)), NULL, e))
	BYTES(cb_find_options, "meta_value",
	      cb_find(b, "/", &CB_WITH(cb_find_options, .meta = "m", .meta_value_size = n), see_cb_walk_visit, NULL, e))
	BYTES(cb_find_options, "meta_value",
	      cb_find_open(b, "/", &CB_WITH(cb_find_options, .meta = "m", .meta_value_size = n), &cursor_out, e))
	BYTES(cb_edit, "replacements[0].old_text", cb_edit(b, "/work/a", &(cb_replacement){NULL, n, "x", 1}, 1, NULL, NULL, e))
	BYTES(cb_edit, "replacements[0].new_text", cb_edit(b, "/work/a", &(cb_replacement){"o", 1, NULL, n}, 1, NULL, NULL, e))
}

static void refuse_program_bytes(void)
{
	cb_exec_options o = command;
	BYTES(cb_exec_input, "bytes", cb_exec_input(exec, NULL, n, &size, e))
	BYTES(cb_exec_options, "params", (o.params_size = n, cb_exec_start(sandbox, &o, &exec_out, e)))
}
/* clang-format on */

/* ---- arrays of option structs: NULL with a count, and an element that is NULL ---- */

static void must_name_array(const char *where, const char *array, cb_code code, const char *message)
{
	CHECK_MSG(code == CB_INVALID, "%s.%s: %s", where, array, cb_code_name(code));
	CHECK_MSG(strncmp(err.message, message, strlen(message)) == 0, "%s.%s: '%s', not '%s...'", where, array, err.message,
	          message);
	err = (cb_error){0};
	CHECK_OK(buf_printf(&seen, &err, " %s.%s ", where, array));
}

#define ARRAY(where, array, count, element, holey, call)                                                                  \
	do {                                                                                                              \
		where o = CB_WITH(where, SAID.count = 2);                                                                 \
		must_name_array(#where, #array, (call), "the argument '" #array "' is NULL, and 2 are said to be there"); \
		o.array = holey;                                                                                          \
		must_name_array(#where, #array, (call), "the argument '" #array "[1]" element "' is NULL");               \
	} while (0);

static const char *const holey[] = {"x", NULL};
static const cb_bind holey_binds[] = {{"/", NULL, false}, {NULL, "/x", false}};
static const cb_resolution holey_resolutions[] = {{"/work/a", CB_PREFER_BOX}, {NULL, CB_PREFER_BOX}};

/* clang-format off: a row a line */
static void refuse_arrays(void)
{
	const char *folder = test_tmpdir();
#define SAID .pattern = "x",
	ARRAY(cb_grep_options, include, include_count, "", holey, cb_grep(b, "/", &o, see_cb_grep_visit, NULL, NULL, &err))
	ARRAY(cb_grep_options, exclude, exclude_count, "", holey, cb_grep_open(b, "/", &o, &cursor_out, &err))
#undef SAID
#define SAID
	ARRAY(cb_import_options, exclude, exclude_count, "", holey, cb_import(b, folder, &o, NULL, &err))
	ARRAY(cb_export_options, exclude, exclude_count, "", holey,
	      cb_export(b, "/work", text_of("%s/out", folder), &o, NULL, &err))
	ARRAY(cb_tar_options, exclude, exclude_count, "", holey, cb_tar_import(b, -1, &o, NULL, &err))
	ARRAY(cb_tar_options, exclude, exclude_count, "", holey, cb_tar_export(b, "/work", -1, &o, NULL, &err))
	ARRAY(cb_apply_options, paths, path_count, "", holey, cb_apply(b, &o, NULL, NULL, NULL, &err))
	ARRAY(cb_apply_options, allow, allow_count, "", holey, cb_apply(b, &o, NULL, NULL, NULL, &err))
	ARRAY(cb_sandbox_options, binds, bind_count, ".host_path", holey_binds, cb_sandbox_open(b, &o, &sandbox_out, &err))
	ARRAY(cb_sandbox_options, binds, bind_count, ".host_path", holey_binds, cb_sandbox_plan(b, &o, false, &text, &err))
	ARRAY(cb_commit_options, resolutions, resolution_count, ".path", holey_resolutions, cb_txn_commit(t, &o, NULL, &err))
#undef SAID
}
/* clang-format on */

/* Those that need a sandbox. */
static void refuse_program_arrays(void)
{
#define SAID
	ARRAY(cb_exec_options, argv, argc, "", holey, cb_exec_start(sandbox, &o, &exec_out, &err))
#undef SAID
#define SAID .argv = argv, .argc = 3,
	ARRAY(cb_exec_options, env, env_count, "", holey, cb_exec_start(sandbox, &o, &exec_out, &err))
#undef SAID
}

/* clang-format off: a row a line */
/* Those that need a program that runs. */
#define PROGRAMS(X)                                                           \
	X(cb_exec_start, options, cb_exec_start(sandbox, NULL, &exec_out, e)) \
	X(cb_exec_start, out, cb_exec_start(sandbox, &command, NULL, e))      \
	X(cb_exec_pump, done, cb_exec_pump(exec, NULL, e))                    \
	X(cb_exec_input, out_taken, cb_exec_input(exec, "x", 1, NULL, e))     \
	X(cb_exec_wait, out, cb_exec_wait(exec, NULL, e))                     \
	X(cb_exec_changes_open, out, cb_exec_changes_open(exec, NULL, e))     \
	X(cb_exec_changes, visit, cb_exec_changes(exec, NULL, NULL, e))

static void refuse_programs(void)
{
	PROGRAMS(ROW)
}

/* clang-format on */

static void begin(void)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE, 0, &f, &err));
	t = must_begin(b);
}

static void finish(void)
{
	CHECK_OK(cb_close(f, &err));
	cb_box_close(t);
	CHECK_U64(must_seq(b), 1); /* what was refused did nothing */
	cb_box_close(b);
	cb_store_close(s);
	buf_done(&seen);
}

TEST(null_is_invalid_everywhere)
{
	begin();
	CHECK_OK(cb_readdir_open(b, "/work", &cursor, &err));
	refuse_all();
	cb_cursor_close(cursor);
	finish();
}

/* Where a call, or a member of a struct, takes bytes: "const void *value, size_t size", "const void *params;". */
static void look_for_bytes(const char *header, int *count)
{
	const char *const word = "const void *";
	for (const char *at = header, *name; (at = strstr(at, word)); at = name) {
		const char *call = NULL, *in = NULL, *next = header;
		name = at + strlen(word);
		while ((next = strstr(next + 1, "\nCB_API ")) && next < at) call = next + 1;
		for (next = header; (next = strstr(next + 1, "\ntypedef struct ")) && next < at;) in = next + 1;
		const char *owner = call && (!in || call > in) ? strstr(call, "cb_code ") + 8 : in + strlen("typedef struct ");
		if ((!call || (in && in > call)) && at[-1] != '\t') continue; /* an argument of what is called back */
		++*count;
		const char *row = text_of(" %.*s.%.*s ", (int)strcspn(owner, "( "), owner, (int)strcspn(name, ",;"), name);
		CHECK_MSG(strstr((const char *)seen.bytes, row) != NULL, "the bytes%sare not tested here", row);
	}
}

TEST(null_bytes_have_no_size)
{
	begin();
	refuse_bytes();
	CHECK_OK(buf_printf(&seen, &err,
	                    " cb_exec_input.bytes  cb_exec_options.params ")); /* the test below runs them where it can */
	CHECK_OK(buf_append_byte(&seen, 0, &err));
	int count = 0;
	const char *umbrella = must_text("include/cowbox/cowbox.h");
	for (const char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++)
		look_for_bytes(must_text(text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11)), &count);
	CHECK_MSG(count >= 13, "%d were looked at", count);
	finish();
}

TEST(null_in_arrays_is_invalid)
{
	begin();
	refuse_arrays();
	finish();
}

/* "size_t include_count;" after "const char *const *include;". Results, which the library fills, are not asked about. */
static void look_at_array(const char *where, const char *member, const char *before, int *count)
{
	size_t n = strlen(member);
	bool counts = (n > 6 && strcmp(member + n - 6, "_count") == 0) || strcmp(member, "argc") == 0;
	if (!counts || strcmp(where, "cb_grep_line") == 0 || strcmp(where, "cb_exec_result") == 0) return;
	++*count;
	const char *row = text_of(" %s.%s ", where, before);
	CHECK_MSG(strstr((const char *)seen.bytes, row) != NULL, "%s: its array '%s' is not tested here", where, before);
}

static const char *last_word(const char *line, size_t length)
{
	size_t from = length;
	while (from && (isalnum((unsigned char)line[from - 1]) || line[from - 1] == '_')) from--;
	return text_of("%.*s", (int)(length - from), line + from);
}

static void look_at_struct(const char *at, int *count)
{
	const char *name = at + strlen("\ntypedef struct "), *before = "";
	size_t n = strcspn(name, " ;");
	if (name[n] == ';') return;
	for (const char *line = strchr(name, '\n'); line && line[1] != '}'; line = strchr(line + 1, '\n')) {
		size_t length = strcspn(line + 1, ";\n");
		if (line[1 + length] != ';') continue;
		const char *member = last_word(line + 1, length);
		look_at_array(text_of("%.*s", (int)n, name), member, before, count);
		before = member;
	}
}

TEST(every_array_of_the_headers_is_tested)
{
	begin();
	refuse_arrays();
	CHECK_OK(
		buf_printf(&seen, &err, " cb_exec_options.argv  cb_exec_options.env ")); /* the test below runs them where it can */
	CHECK_OK(buf_append_byte(&seen, 0, &err));
	char *umbrella = must_text("include/cowbox/cowbox.h");
	int count = 0;
	for (char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++) {
		const char *header = text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11);
		for (const char *at = must_text(header); (at = strstr(at, "\ntypedef struct cb_")); at++)
			look_at_struct(at, &count);
	}
	CHECK_MSG(count >= 11, "%d arrays", count);
	finish();
}

TEST(null_is_invalid_for_programs)
{
	begin();
	cb_code code = cb_sandbox_open(b, NULL, &sandbox, &err);
	if (code == CB_OK) code = cb_exec_start(sandbox, &command, &exec, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "%s", err.message);
	err = (cb_error){0};
	refuse_programs();
	refuse_program_arrays();
	refuse_program_bytes();
	cb_exec_close(exec);
	cb_sandbox_close(sandbox);
	finish();
}

TEST(closing_and_asking_take_null)
{
	cb_box_close(NULL);
	cb_store_close(NULL);
	cb_sandbox_close(NULL);
	cb_exec_close(NULL);
	cb_free(NULL);
	cb_cursor_close(NULL);
	cb_cancel_fire(NULL);
	cb_cancel_reset(NULL);
	cb_cancel_free(NULL);
	CHECK(!cb_cancel_is_fired(NULL));
	CHECK_OK(cb_close(NULL, &err));
	CHECK(cb_exec_fd(NULL) == -1);
	CHECK_U64(cb_box_step(NULL), 0);
}

static bool is_said_to_be_allowed(const char *call, const char *argument)
{
	for (size_t i = 0; i < ARRAY_LEN(may_be_null); i++) {
		const char *row = may_be_null[i];
		size_t n = strlen(call);
		if (strncmp(row, call, n) == 0 && row[n] == ' ' && strstr(text_of("%s ", row + n), text_of(" %s ", argument)))
			return true;
	}
	return false;
}

/* One parameter as the header has it: "const char *path", "cb_step_visit visit". */
static void look_at(const char *call, char *parameter, int *count)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
	char *name = parameter + strlen(parameter);
	while (name > parameter && strchr(letters, name[-1])) name--;
	bool visitor = strstr(parameter, "_visit ") || strstr(parameter, "cb_complain ");
	if (!strchr(parameter, '*') && !visitor) return;
	if (strcmp(name, "err") == 0 || strcmp(name, "context") == 0) return;
	++*count;
	if (is_said_to_be_allowed(call, name)) return;
	const char *row = text_of(" %s.%s ", call, name);
	CHECK_MSG(strstr((const char *)seen.bytes, row) != NULL, "%s: its argument '%s' is not tested here", call, name);
}

static void look_at_call(char *declaration, int *count)
{
	char *open = strchr(declaration, '('), *name = open;
	while (name > declaration && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
	const char *call = text_of("%.*s", (int)(open - name), name);
	for (char *at = open + 1; *at;) {
		size_t n = strcspn(at, ",)");
		look_at(call, text_of("%.*s", (int)n, at), count);
		at += n;
		if (*at == ')') break;
		at++;
	}
}

TEST(every_pointer_of_the_headers_is_tested)
{
	begin();
	CHECK_OK(cb_readdir_open(b, "/work", &cursor, &err));
	refuse_all();
	cb_cursor_close(cursor);
	/* Those of running programs are named without being run: the test above runs them where it can. */
#define NAMED(call, argument, expression) CHECK_OK(buf_printf(&seen, &err, " %s.%s ", #call, #argument));
	PROGRAMS(NAMED)
	refuse_bytes();
	CHECK_OK(buf_printf(&seen, &err, " cb_exec_input.bytes "));
	CHECK_OK(buf_append_byte(&seen, 0, &err));
	char *umbrella = must_text("include/cowbox/cowbox.h");
	int count = 0;
	for (char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++) {
		const char *header = text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11);
		for (char *at = must_text(header); (at = strstr(at, "\nCB_API ")); at++) look_at_call(at + 8, &count);
	}
	CHECK(count > 200);
	finish();
}
