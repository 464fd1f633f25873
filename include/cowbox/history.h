/* history.h: steps: log, difference, restore, undo, checkpoints, merge, blame, prune. */
#ifndef COWBOX_HISTORY_H
#define COWBOX_HISTORY_H

#include <cowbox/files.h>
#include <cowbox/txn.h>
#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One recorded action. Its kind says which:
 *
 *   step 0           new, fork, unpack (of a pack without history)
 *   files            write, append, create (an empty file), edit, truncate, mkdir, rmdir, unlink, remove, rename, copy, link, symlink,
 *                    chmod, utimens, xattr, tag, meta
 *   key-values       kv
 *   history          undo, redo, restore, merge
 *   host, programs   import, apply, exec
 *   by the caller    txn, record, where cb_step_info names none; else what it names. The command line names steps of several changes
 *                    after the command: cp, mv, rm, touch...
 *
 * Its params are the path or key (of a rename both paths, with a blank between), of an import the host's path, of a merge the other box.
 */
typedef struct cb_step {
	size_t struct_size;
	uint64_t seq, state;
	const char *kind, *who;
	const char *params, *result; /* "" when none; bytes up to the sizes, NUL-terminated */
	size_t params_size, result_size;
	int64_t started_ns, ended_ns;
	bool changed;                /* false: a record only */
	uint64_t target;             /* undo, redo: the step they took back */
	char other[CB_NAME_MAX + 1]; /* merge, restore, fork: the other parent's box, "" when none or gone */
	uint64_t other_seq;          /* its step; 0 without a box */
	bool gap;                    /* steps before it were pruned */
	/* The box was unpacked, and `other` is a box of the store it was packed in: a name only. One of that name in this store is
	 * another. */
	bool foreign;
} cb_step;
typedef cb_code (*cb_step_visit)(void *context, const cb_step *step, cb_error *err);

/* Which steps; without them, all of the box. */
typedef struct cb_log_options {
	size_t struct_size;
	/* NULL: the whole box. Followed through renames, also when it is gone; while it was a folder, with all below. A file renamed over
	 * another is taken for a new version of that one, as editors save: before the rename, the log is that of the file it covered. Where
	 * the other went elsewhere by the same step (CB_EXCHANGE), nothing was covered, and each is followed. */
	const char *path;
	uint64_t before;    /* 0: from the handle's state backwards */
	uint64_t max_steps; /* 0: all */
} cb_log_options;
/* Newest first. *out_pruned (may be NULL) tells that older steps were pruned. */
CB_API cb_code cb_log(cb_box *box, const cb_log_options *options, cb_step_visit visit, void *context, bool *out_pruned,
                      cb_error *err);
/* One step: visit is called once. CB_NOTFOUND, CB_STALE (pruned). */
CB_API cb_code cb_step_get(cb_box *box, uint64_t seq, cb_step_visit visit, void *context, cb_error *err);
/* A step that changes nothing: what a command or tool call did. info may be NULL. */
CB_API cb_code cb_step_record(cb_box *box, const cb_step_info *info, uint64_t *out_seq, cb_error *err);

/* What happened to a path. */
typedef enum cb_change_kind {
	CB_ADDED = 'A',
	CB_DELETED = 'D',
	CB_MODIFIED = 'M', /* content */
	CB_ATTRS = 'T',    /* mode, times (of files and links), xattrs, tags or metadata only; or nothing: the folder of a file was
	                    * renamed, and the file, or one like it, is where it was and not in that folder */
	CB_RENAMED = 'R',  /* the same file at another path; also modified when the contents differ */
	CB_KEYVALUE = 'K', /* path is the key */
} cb_change_kind;

/* One path that differs between two states. */
typedef struct cb_change {
	size_t struct_size;
	cb_change_kind kind;
	const char *path;     /* where it is now (deleted: was) */
	const char *old_path; /* renamed: where it was; else NULL */
	bool has_old, has_new;
	bool modified;                           /* renamed: content differs too */
	const cb_stat_info *old_info, *new_info; /* never NULL; all 0 where not has_old / has_new, and of a key-value */
	bool attributes; /* xattrs, tags or metadata changed (too); of what was added or deleted: it has some */
} cb_change;
typedef cb_code (*cb_change_visit)(void *context, const cb_change *change, cb_error *err);

/* What changed from one state to another (of the same or different boxes of one store), by path. path: a file, link or folder, with all
 * below it, as it is resolved in `to` or, if nothing is there, in `from`; a link at its end is meant itself; NULL: everything. CB_NOTFOUND
 * when a folder on the way is in neither. Access times are no change. Cost in proportion to the change. */
CB_API cb_code cb_diff(cb_box *from, cb_box *to, const char *path, cb_change_visit visit, void *context, cb_error *err);
/* What one step did: from the state before it to the one after it. */
CB_API cb_code cb_diff_step(cb_box *box, uint64_t seq, const char *path, cb_change_visit visit, void *context, cb_error *err);
/* The same with lines counted: one call per changed file or link that has content on a side, as `git diff --stat` would list it. */
typedef struct cb_change_stat {
	size_t struct_size;
	const cb_change *change;
	bool binary;                   /* then the lines are 0 */
	uint64_t added, removed;       /* lines */
	uint64_t old_bytes, new_bytes; /* 0 where the file is not there */
} cb_change_stat;
typedef cb_code (*cb_change_stat_visit)(void *context, const cb_change_stat *stat, cb_error *err);
/* As cb_diff, with lines counted. */
CB_API cb_code cb_diff_stat(cb_box *from, cb_box *to, const char *path, cb_change_stat_visit visit, void *context, cb_error *err);
/* How a difference is written. */
typedef struct cb_diff_text_options {
	size_t struct_size;
	const char *path; /* NULL: everything */
	bool has_context; /* false: 3 lines */
	unsigned context_lines;
	/* Called once for each change that the text tells or has no words for, by path; true leaves it out. May be NULL. */
	bool (*skip)(void *context, const cb_change *change);
	void *context;
} cb_diff_text_options;
/* The same as unified text in git's format, which patch -p1 and git apply read; binary files, and those of more than 16 MiB, are only
 * named. It knows files only: where cb_diff has one entry for a folder that moved, each file below it is named as moved; a file that took
 * another's name, or left its own to another, and a symbolic link that moved, are told by what each name holds. options may be NULL.
 * *out: cb_free() it. */
CB_API cb_code cb_diff_text(cb_box *from, cb_box *to, const cb_diff_text_options *options, char **out, size_t *out_size,
                            cb_error *err);

/* Makes an older state (path NULL or "/"), or one file or folder of it, the newest, as a new step. source: an open state of this
 * store. A path is the same in both states: a symbolic link on the way to it, in either, is CB_LOOP, for it may lead elsewhere now. One
 * that was not there is removed, also where the folders above it were not; one that is in neither state is CB_NOTFOUND. What lies
 * elsewhere stays: a file that changes and has further names outside of the path becomes a file of its own below it. Where nothing differs
 * but times of folders, *out_seq is 0 and no step is made. */
CB_API cb_code cb_restore(cb_box *box, cb_box *source, const char *path, uint64_t *out_seq, cb_error *err);
/* seq 0: the last change not yet undone of which something is left to take back. CB_NOTHING when there is none, or when the walk comes to
 * steps that were pruned: the message then says which, and what older state is left. Otherwise that step, taken back as a reverse
 * three-way merge: CB_CONFLICT names paths that later steps changed, and cb_txn_conflicts() on the box lists all of them; CB_NOTHING when
 * nothing is left of it to take back, or it was undone before, also where somebody made the same again since. (An undo that was pruned is
 * not known any more: of a step that outlived it, as a checkpoint, what is there is taken back.) Versions and change times are nothing to
 * take back, and times of a folder only where somebody set them; of a merge or a restore, and of an undo or redo of one, it is enough
 * that it counts in the past. */
CB_API cb_code cb_undo(cb_box *box, uint64_t seq, uint64_t *out_seq, cb_error *err);
/* Takes back the last undo of which something is left, unless the box was changed since (CB_NOTHING). */
CB_API cb_code cb_redo(cb_box *box, uint64_t *out_seq, cb_error *err);

/* seq 0: the current step. Flushed to disk unless no_sync. The named step is never pruned. name NULL: an automatic one, called
 * as those of cb_box_checkpoint_every_set, of which the newest 32 are kept. CB_EXISTS: another has the name that was given. */
CB_API cb_code cb_checkpoint_save(cb_box *box, const char *name, uint64_t seq, bool no_sync, cb_error *err);
/* The step stays until it is pruned. CB_NOTFOUND. */
CB_API cb_code cb_checkpoint_delete(cb_box *box, const char *name, cb_error *err);
/* A name for a step. */
typedef struct cb_checkpoint {
	size_t struct_size;
	char name[CB_NAME_MAX + 1];
	uint64_t seq;
	int64_t created_ns;
	bool automatic; /* made every so many steps, or saved without a name */
} cb_checkpoint;
typedef cb_code (*cb_checkpoint_visit)(void *context, const cb_checkpoint *checkpoint, cb_error *err);
/* By step. The visitor may use the box and change its checkpoints: it sees those there were. */
CB_API cb_code cb_checkpoint_list(cb_box *box, cb_checkpoint_visit visit, void *context, cb_error *err);

/* How conflicts are decided. */
typedef struct cb_merge_options {
	size_t struct_size;
	cb_prefer prefer; /* for every conflict that `resolve` leaves open */
	/* Called once per path in conflict; may be NULL. CB_PREFER_NONE leaves it to `prefer`. When the answers contradict each other it
	 * is called for the paths concerned (cb_conflict.contradicts), whether it was asked about them before or not: what it says then
	 * is not heard. No lock of the store is held: others go on writing meanwhile. */
	cb_prefer (*resolve)(void *context, const cb_conflict *conflict);
	void *context;
	bool dry_run; /* list conflicts, change nothing */
} cb_merge_options;
/* Three-way merge of a state into a box, as one step with both as parents. Base: the last merge between them, or the fork point; several
 * such states are merged into one (at most 8: CB_LIMIT). CB_STALE: the base was pruned. CB_CONFLICT when one is left open: nothing
 * changed, all were given to resolve, and *out_conflicts, which is written on success and then, says how many are open. CB_NOTHING: theirs
 * did nothing, and merged nothing, that ours does not know. It may have what ours has not: what ours undid or took away since stays so.
 * *out_seq is 0 after a dry run. */
CB_API cb_code cb_merge(cb_box *into, cb_box *from, const cb_merge_options *options, uint64_t *out_seq, uint64_t *out_conflicts,
                        cb_error *err);

/* Which step wrote each line: visited from line 1 on. seq 0: before what was pruned, in a box that is gone, or (foreign) in another store.
 * For a fork, steps of the boxes it came from are given with their box's name. The file is followed as by cb_log: where one was renamed
 * over another, lines that the covered one did not have are the rename's. */
typedef struct cb_blame_line {
	size_t struct_size;
	uint64_t line;    /* from 1 */
	const char *text; /* with its newline; the last may have none */
	size_t size;
	const char *box;
	uint64_t seq;
	/* It was there when the box, or one it came from, was forked from `box` in another store, and came here by cb_unpack: which step
	 * wrote it is known there. seq is 0. */
	bool foreign;
} cb_blame_line;
typedef cb_code (*cb_blame_visit)(void *context, const cb_blame_line *line, cb_error *err);
CB_API cb_code cb_blame(cb_box *box, const char *path, cb_blame_visit visit, void *context, cb_error *err);

/* What is kept. */
typedef struct cb_prune_options {
	size_t struct_size;
	uint64_t keep_steps; /* keep at least this many of the newest; 0: the box's retention */
	int64_t keep_ns;     /* keep what is younger; 0: the box's retention; below 0: CB_INVALID */
} cb_prune_options;
/* Drops old steps, never checkpoints, fork points and merge points of living boxes, the newest step, step 0, nor what is in use or pinned
 * (cb_store_uses). After the undo of a merge that is older than the prune, what two boxes have in common may be gone: a merge of them is
 * CB_STALE, or finds more conflicts. And where two boxes have several states in common, since they merged crosswise, and these have
 * several again, what those came from in turn is not kept: a merge of them is not refused, but may find more conflicts. Space comes back
 * with cb_store_gc; a step that is kept can be undone, so what the newest one removed or overwrote takes its space until one more step was
 * made, and this one is pruned. Waits for another prune, a gc, vacuum or backup of the store; CB_BUSY when that takes more than a minute,
 * or when it is called back from one. */
CB_API cb_code cb_prune(cb_box *box, const cb_prune_options *options, uint64_t *out_pruned, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
