/*
 * test_gate_calls.c: every public call, through the gate, over a box with hidden and read-only parts: what it tells is what it tells over a
 * box in which the hidden parts never were, and what may not be changed is as it was.
 *
 * The table at the end names every function that is marked CB_API; the build compares it with the headers (tools/lint-gate). A new call
 * gets a round (harness/gate_rounds.h), or a reason why no byte, name or count of a box passes through it.
 */
#include "harness/gate_rounds.h"

static const char *const hidden_paths[] = {
	"/private",   "/private/x", "/private/no", "/work/pub/.secret", "/work/pub/.secret/key", "/work/pub/.secret/no/deep",
	"/work/pub/c"};
static const char *const kept_paths[] = {"/work/ro", "/work/ro/r", "/work/ro/new"};

static twins both;

static void begin(void)
{
	twins_open(&both);
	both.clears = true;
	rules_add(&both.rules, RULE_HIDE, "/private");
	rules_add(&both.rules, RULE_HIDE, "/work/pub/.secret");
	rules_add(&both.rules, RULE_HIDE, "/work/room/.secret");
	rules_add(&both.rules, RULE_HIDE, "hid.");
	rules_add(&both.rules, RULE_READ_ONLY, "/work/ro");
	rules_add(&both.rules, RULE_READ_ONLY, "roo.");
	twins_do(&both, "the story", story);
}

/* ---- the table ---- */

typedef struct call_row {
	twin_round round;
	const char *calls;
} call_row;

static const call_row rows[] = {
	{round_stat, "cb_stat"},
	{round_read, "cb_read_file cb_read_at cb_readlink"},
	{round_list, "cb_readdir cb_walk cb_glob cb_find"},
	{round_attributes, "cb_xattr_get cb_xattr_list cb_tag_list cb_meta_get cb_meta_list"},
	{round_keys, "cb_kv_get cb_kv_list cb_kv_set cb_kv_delete"},
	{round_grep, "cb_grep"},
	{round_info, "cb_box_info_get cb_box_list"},
	{round_diff, "cb_diff cb_diff_step cb_diff_stat cb_diff_text"},
	{round_log, "cb_log cb_step_get cb_blame cb_audit_list"},
	{round_states, "cb_box_open"},
	{round_checkpoints,
         "cb_checkpoint_save cb_checkpoint_delete cb_checkpoint_list cb_box_checkpoint_every_set cb_step_record cb_box_step"},
	{round_write,
         "cb_write_file cb_edit cb_truncate cb_chmod cb_utimens cb_xattr_set cb_xattr_remove cb_tag_add cb_tag_remove cb_meta_set"},
	{round_make, "cb_mkdir cb_rmdir cb_unlink cb_link cb_symlink"},
	{round_files, "cb_open cb_close cb_read cb_write cb_pread cb_pwrite cb_seek cb_ftruncate cb_fstat cb_fsync"},
	{round_move, "cb_rename cb_copy"},
	{round_remove, "cb_remove"},
	{round_transactions, "cb_txn_begin cb_txn_commit cb_txn_conflicts cb_txn_keep cb_txn_drop"},
	{round_undo, "cb_undo cb_redo"},
	{round_merge, "cb_merge cb_box_fork cb_box_rename cb_box_delete"},
	{round_export, "cb_export cb_tar_export"},
	{round_import, "cb_import"},
	{round_tar_import, "cb_tar_import"},
	{round_apply, "cb_apply cb_folder_get cb_folder_box"},
	{round_whole, "cb_pack cb_unpack cb_store_backup cb_store_check cb_sandbox_open cb_exec_start"},
	{round_boxes, "cb_box_retention_set cb_box_quota_set cb_setting_set cb_setting_get"},
	{round_cursors, "cb_readdir_open cb_walk_open cb_glob_open cb_find_open cb_entry_next cb_xattr_open cb_tag_open "
                        "cb_meta_open cb_kv_open cb_name_next"},
	{round_cursors,
         "cb_grep_open cb_grep_next cb_grep_counted cb_log_open cb_step_next cb_log_pruned cb_blame_open cb_blame_next"},
	{round_cursors, "cb_diff_open cb_diff_step_open cb_diff_stat_open cb_change_next cb_change_stat_next cb_checkpoint_open"},
	{round_cursors,
         "cb_checkpoint_next cb_conflict_open cb_conflict_next cb_box_list_open cb_box_next cb_audit_open cb_audit_next"},
	{round_restore, "cb_restore"},
};

/* No byte, name or count of a box passes through these. */
static const char *const others[] = {
	"cb_version cb_sqlite_version cb_zstd_version cb_pcre2_version cb_free", /* of the library */
	"cb_code_name cb_code_text cb_code_errno cb_code_exit_status",
	"cb_store_open cb_store_close cb_store_sync cb_store_who_set cb_store_setting_set cb_store_setting_get",
	"cb_store_stats_get cb_store_uses cb_store_gc cb_store_vacuum",     /* space and steps in use, which rules do not hide */
	"cb_pin_set cb_pin_drop cb_prune cb_box_who_set cb_box_close",      /* steps by number */
	"cb_box_create cb_box_draft cb_box_publish",                        /* boxes that are new */
	"cb_sandbox_plan cb_sandbox_try cb_sandbox_close cb_work_clean",    /* of the machine */
	"cb_exec_fd cb_exec_pump cb_exec_kill cb_exec_tick cb_exec_resize", /* after cb_exec_start, which is refused */
	"cb_exec_input cb_exec_wait cb_exec_changes cb_exec_close",
	"cb_exec_changes_open",
	"cb_cursor_close cb_use_open cb_use_next",                                           /* as cb_store_uses */
	"cb_cancel_create cb_cancel_fire cb_cancel_reset cb_cancel_is_fired cb_cancel_free", /* of the caller */
	"cb_limit_push cb_limit_pop",
	"cb_exec_recover cb_exec_drop", /* into a box like any other change; what is hidden waits for who sees it */
};

TEST_LIMIT(every_call_tells_only_what_is_shown, 300)
{
	begin();
	const char *hidden = twins_hidden(&both), *kept = twins_kept(&both);
	CHECK(strstr(hidden, "TOP SECRET 2") && strstr(hidden, "hid.k=2") && strstr(kept, "read only"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		twins_do(&both, rows[i].calls, rows[i].round);
		bool owner_wrote =
			rows[i].round == round_undo || rows[i].round == round_restore || rows[i].round == round_transactions;
		if (!owner_wrote) CHECK_STR(twins_hidden(&both), hidden);
		if (!owner_wrote) CHECK_STR(twins_kept(&both), kept);
		hidden = twins_hidden(&both);
		kept = twins_kept(&both);
	}
	CHECK(strstr(hidden, "TOP SECRET 2") && strstr(hidden, "stays"));
	for (size_t i = 0; i < ARRAY_LEN(others); i++) CHECK(strncmp(others[i], "cb_", 3) == 0);
	for (size_t i = 0; i < ARRAY_LEN(hidden_paths); i++) CHECK(!exists(both.with.agent, hidden_paths[i]));
	for (size_t i = 0; i < ARRAY_LEN(kept_paths); i++) CHECK(kept_paths[i][0] == '/');
	twins_close(&both);
}

/* Each call on a world of its own, so that what one hides another does not depend on. */
TEST_LIMIT(each_call_alone_tells_only_what_is_shown, 300)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		begin();
		twins_do(&both, rows[i].calls, rows[i].round);
		twins_do(&both, rows[i].calls, round_states);
		twins_do(&both, rows[i].calls, round_log);
		twins_close(&both);
	}
}
