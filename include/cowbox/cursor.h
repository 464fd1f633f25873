/*
 * cursor.h: lists taken one entry at a time, for callers that cannot be called back: iterators of other languages, async code, a pager.
 *
 *   cb_cursor *cursor = NULL;
 *   const cb_entry *entry = NULL;
 *   cb_code code = cb_walk_open(box, "/work", &cursor, err);
 *   while (code == CB_OK && (code = cb_entry_next(cursor, &entry, err)) == CB_OK && entry) puts(entry->path);
 *   cb_cursor_close(cursor);
 *
 * Each call that lists something to a visitor has a ..._open beside it; what it gives, and in which order, is the same (cb_step_get gives
 * one step and cb_apply does what it visits: they have none). There is one ..._next for each kind of
 * entry, whatever opened the cursor; another one is CB_INVALID. At the end it gives CB_OK and NULL, as often as it is called. After a
 * failure it gives the same failure again: a list never looks complete when it is not.
 *
 * Limits (cancel.h). One that is over when ..._next is called ends that call alone, with CB_CANCELLED or CB_TIMEOUT: the cursor keeps its
 * place, and the next call goes on. One that ends while ..._next works does the same to diffs, blame, boxes, checkpoints, uses, conflicts
 * and what a command changed. To readdir, walk, glob, find, grep, attributes, tags, metadata, key-values, the log and the audit, which read
 * as they go, it is a failure like any other: the next call gives it again, and the list is to be opened anew.
 *
 * What is lent. An entry and all it points to are lent until the next call on the cursor.
 *
 * Time. A cursor shows what there was when it was opened, whatever happens to the box meanwhile: it may be changed, pruned, deleted and
 * collected, and a transaction may be committed or dropped. What it needs for that is in use until it is closed ("listing" in
 * cb_store_uses): close it. A cursor on the log keeps all steps of its box from being pruned. The audit has no such hold, and leaves out
 * what is pruned before it came to it.
 *
 * Rules that come after it was opened hold for what it has not given: its next call is CB_DENIED when there are any for who opened it.
 * Open it again.
 *
 * Memory. Readdir, walk, glob, find, grep and the key-values take as much as the tree is deep, the log a page of steps, the audit a page
 * for each box, whatever their length. Diffs, blame, boxes, checkpoints, uses, conflicts and what a command changed are collected when
 * they are opened. On a transaction, contents that it has in memory and that the cursor may read are copied, at most some 8 MiB.
 *
 * Threads and processes. A cursor holds no lock between two calls. Any thread may use it, one at a time. It is closed in any order with
 * its box and its store, which stay open underneath until it is. It belongs to the process that opened it: in a child of fork() it is
 * CB_FORKED, and only to be closed.
 */
#ifndef COWBOX_CURSOR_H
#define COWBOX_CURSOR_H

#include <cowbox/audit.h>
#include <cowbox/box.h>
#include <cowbox/exec.h>
#include <cowbox/files.h>
#include <cowbox/history.h>
#include <cowbox/kv.h>
#include <cowbox/search.h>
#include <cowbox/store.h>
#include <cowbox/txn.h>
#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list that is being read. */
typedef struct cb_cursor cb_cursor;
/* Ends any cursor, wherever it stands. Accepts NULL. */
CB_API void cb_cursor_close(cb_cursor *cursor);

/* ---- files ---- */

/* A file, link or folder. */
typedef struct cb_entry {
	size_t struct_size;
	const char *path; /* absolute; of cb_readdir_open the name alone */
	const cb_stat_info *info;
} cb_entry;
/* As cb_readdir. */
CB_API cb_code cb_readdir_open(cb_box *box, const char *path, cb_cursor **out, cb_error *err);
/* As cb_walk. */
CB_API cb_code cb_walk_open(cb_box *box, const char *path, cb_cursor **out, cb_error *err);
/* As cb_glob. */
CB_API cb_code cb_glob_open(cb_box *box, const char *pattern, cb_cursor **out, cb_error *err);
/* As cb_find; options may be NULL. */
CB_API cb_code cb_find_open(cb_box *box, const char *path, const cb_find_options *options, cb_cursor **out, cb_error *err);
/* The next of cb_readdir_open, cb_walk_open, cb_glob_open, cb_find_open; NULL at the end. */
CB_API cb_code cb_entry_next(cb_cursor *cursor, const cb_entry **out, cb_error *err);

/* An attribute, a tag, a metadata or a key-value. */
typedef struct cb_name {
	size_t struct_size;
	const char *name;
	const char *value; /* followed by a NUL that value_size does not count; NULL for a tag */
	size_t value_size;
} cb_name;
/* As cb_xattr_list. */
CB_API cb_code cb_xattr_open(cb_box *box, const char *path, unsigned flags, cb_cursor **out, cb_error *err);
/* As cb_tag_list. */
CB_API cb_code cb_tag_open(cb_box *box, const char *path, cb_cursor **out, cb_error *err);
/* As cb_meta_list. */
CB_API cb_code cb_meta_open(cb_box *box, const char *path, cb_cursor **out, cb_error *err);
/* As cb_kv_list. */
CB_API cb_code cb_kv_open(cb_box *box, const char *prefix, cb_cursor **out, cb_error *err);
/* The next of cb_xattr_open, cb_tag_open, cb_meta_open, cb_kv_open; NULL at the end. */
CB_API cb_code cb_name_next(cb_cursor *cursor, const cb_name **out, cb_error *err);

/* As cb_grep. */
CB_API cb_code cb_grep_open(cb_box *box, const char *path, const cb_grep_options *options, cb_cursor **out, cb_error *err);
/* The next of cb_grep_open; NULL at the end. */
CB_API cb_code cb_grep_next(cb_cursor *cursor, const cb_grep_line **out, cb_error *err);
/* Of a cursor on a search for text: what it has looked at and found so far, and at its end in all. */
CB_API cb_code cb_grep_counted(cb_cursor *cursor, cb_grep_count *out, cb_error *err);

/* ---- history ---- */

/* As cb_log; options may be NULL. */
CB_API cb_code cb_log_open(cb_box *box, const cb_log_options *options, cb_cursor **out, cb_error *err);
/* The next of cb_log_open; NULL at the end. */
CB_API cb_code cb_step_next(cb_cursor *cursor, const cb_step **out, cb_error *err);
/* Of a cursor on the log: did it come to a place where older steps were pruned? Known for the whole log at its end. */
CB_API cb_code cb_log_pruned(cb_cursor *cursor, bool *out, cb_error *err);

/* As cb_diff. */
CB_API cb_code cb_diff_open(cb_box *from, cb_box *to, const char *path, cb_cursor **out, cb_error *err);
/* As cb_diff_step. */
CB_API cb_code cb_diff_step_open(cb_box *box, uint64_t seq, const char *path, cb_cursor **out, cb_error *err);
/* As cb_exec_changes. */
CB_API cb_code cb_exec_changes_open(cb_exec *exec, cb_cursor **out, cb_error *err);
/* The next of cb_diff_open, cb_diff_step_open, cb_exec_changes_open; NULL at the end. */
CB_API cb_code cb_change_next(cb_cursor *cursor, const cb_change **out, cb_error *err);
/* As cb_diff_stat. Lines are counted as they are asked for. */
CB_API cb_code cb_diff_stat_open(cb_box *from, cb_box *to, const char *path, cb_cursor **out, cb_error *err);
/* The next of cb_diff_stat_open; NULL at the end. */
CB_API cb_code cb_change_stat_next(cb_cursor *cursor, const cb_change_stat **out, cb_error *err);

/* As cb_blame. */
CB_API cb_code cb_blame_open(cb_box *box, const char *path, cb_cursor **out, cb_error *err);
/* The next of cb_blame_open; NULL at the end. */
CB_API cb_code cb_blame_next(cb_cursor *cursor, const cb_blame_line **out, cb_error *err);

/* As cb_checkpoint_list. */
CB_API cb_code cb_checkpoint_open(cb_box *box, cb_cursor **out, cb_error *err);
/* The next of cb_checkpoint_open; NULL at the end. */
CB_API cb_code cb_checkpoint_next(cb_cursor *cursor, const cb_checkpoint **out, cb_error *err);

/* As cb_txn_conflicts. */
CB_API cb_code cb_conflict_open(cb_box *txn, cb_cursor **out, cb_error *err);
/* The next of cb_conflict_open; NULL at the end. */
CB_API cb_code cb_conflict_next(cb_cursor *cursor, const cb_conflict **out, cb_error *err);

/* ---- the store ---- */

/* As cb_box_list. */
CB_API cb_code cb_box_list_open(cb_store *store, cb_cursor **out, cb_error *err);
/* The next of cb_box_list_open; NULL at the end. */
CB_API cb_code cb_box_next(cb_cursor *cursor, const cb_box_info **out, cb_error *err);

/* As cb_audit_list; options may be NULL. */
CB_API cb_code cb_audit_open(cb_store *store, const cb_audit_options *options, cb_cursor **out, cb_error *err);
/* The next of cb_audit_open; NULL at the end. */
CB_API cb_code cb_audit_next(cb_cursor *cursor, const cb_audit **out, cb_error *err);

/* As cb_store_uses. */
CB_API cb_code cb_use_open(cb_store *store, cb_cursor **out, cb_error *err);
/* The next of cb_use_open; NULL at the end. */
CB_API cb_code cb_use_next(cb_cursor *cursor, const cb_use **out, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
