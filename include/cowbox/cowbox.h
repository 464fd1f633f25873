/*
 * cowbox.h: a copy-on-write box for files, attributes and key-values, with every step kept.
 *
 * Words. A *store* is a folder of boxes (or ":memory:"). A *box* is a named workspace. Each call that changes a box is one *step*;
 * a step leads from one immutable *state* to the next. A *fork* is a new box that starts at any state of another.
 *
 * Addresses. "demo" is a box at its newest state; "demo@7" is its state after step 7, "demo@-1" one step back, "demo@name" a
 * checkpoint. Paths are absolute inside the box; a relative one starts at "/". ".." and symbolic links never leave the box.
 *
 * Calls return CB_OK and leave *err (which may be NULL) as it was, or return a negative code and fill it. Outputs are written only on
 * success. What a call gives away is said at the call: "cb_free() it". Strings are bytes; names need not be UTF-8.
 *
 * Threads. A store and its boxes may be used from any thread. Calls on one cb_box handle are serialised; open one handle per thread
 * to work in parallel. After fork() the child may go on using disk stores; open transactions and memory stores stay the parent's.
 *
 * Mode bits are stored and given back; this API does not enforce them (the caller owns the box). Surfaces for agents do.
 */
#ifndef COWBOX_COWBOX_H
#define COWBOX_COWBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cowbox/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CB_VERSION_STRING "0.1.0"
#define CB_NAME_MAX 64 /* box and checkpoint names: 1-64 of letters, digits, '.', '_', '-', not starting with '.' or '-' */

typedef struct cb_store cb_store;
typedef struct cb_box cb_box;
typedef struct cb_file cb_file;

CB_API const char *cb_version(void);
/* The SQLite that is linked in: "3.40.1". */
CB_API const char *cb_sqlite_version(void);
/* Frees whatever a call gave away. Accepts NULL. */
CB_API void cb_free(void *p);

/* ---- store ---- */

typedef struct cb_store_options {
	bool no_create; /* fail with CB_NOTFOUND instead of making the store */
	bool read_only;
	bool or_read_only;  /* where nothing can be written (a read-only filesystem, or the rights of this user): as read_only */
	bool full;          /* flush every step to disk before it is acknowledged; default: steps survive the death of any process,
	                       and a power cut returns to a recent consistent state; checkpoints and cb_fsync are always flushed */
	size_t cache_bytes; /* 0: 64 MiB */
} cb_store_options;

/* path: a folder (its parent must exist), ":memory:", or NULL for the default: $COWBOX_STORE, else $XDG_DATA_HOME/cowbox, else
 * ~/.local/share/cowbox, whose parents are made. options may be NULL. */
CB_API cb_code cb_store_open(const char *path, const cb_store_options *options, cb_store **out, cb_error *err);
/* Flushes and closes. Boxes that are still open go on working; the store's files are closed with the last of them. Accepts NULL. */
CB_API void cb_store_close(cb_store *store);
CB_API cb_code cb_store_sync(cb_store *store, cb_error *err);

/* Who what is done to the store is recorded for, and the default of the boxes opened after. Default "". */
CB_API cb_code cb_store_who_set(cb_store *store, const char *who, cb_error *err);
/* Free-form strings of the store. value NULL deletes. Names that begin with "cowbox." are CB_RESERVED. */
CB_API cb_code cb_store_setting_set(cb_store *store, const char *key, const char *value, cb_error *err);
CB_API cb_code cb_store_setting_get(cb_store *store, const char *key, char **out, cb_error *err); /* cb_free() it; CB_NOTFOUND */

typedef struct cb_store_stats {
	uint64_t boxes, steps, nodes, node_bytes, contents, content_bytes, segments, segment_bytes, database_bytes, wal_bytes;
	uint64_t cache_bytes, cache_hits, cache_misses;
} cb_store_stats;
CB_API cb_code cb_store_stats_get(cb_store *store, cb_store_stats *out, cb_error *err);

/* A state that prune and gc keep because somebody reads it or works on it, in whatever process, or because it was pinned. */
typedef struct cb_use {
	size_t size;               /* of this struct, as the library knows it */
	char box[CB_NAME_MAX + 1]; /* a deleted box keeps its name here */
	uint64_t seq;
	bool all_steps;   /* no step of the box is pruned meanwhile (it is being packed); seq is 0 then */
	bool pinned;      /* a row of the store that outlives its process; otherwise it ends with the process, however that ends */
	const char *why;  /* "call", "open state", "transaction", "open file", "listing", "command", "pack", or the pin's reason */
	int64_t pid;      /* 0: not known (a pin, or a process of another pid namespace) */
	int64_t since_ns; /* 0: not known (a call that runs now) */
	int64_t until_ns; /* of a pin; 0: until it is dropped */
} cb_use;
typedef cb_code (*cb_use_visit)(void *context, const cb_use *use, cb_error *err);
/* What is lent is lent for the call of the visitor, which may call the store. CB_INTERRUPTED from it ends the listing with CB_OK. */
CB_API cb_code cb_store_uses(cb_store *store, cb_use_visit visit, void *context, cb_error *err);

typedef struct cb_gc_result {
	uint64_t nodes_kept, nodes_freed, contents_kept, contents_freed, bytes_freed, boxes_freed;
} cb_gc_result;
/* Removes what no box, step or checkpoint refers to, beside live readers and writers. CB_BUSY when another gc runs. out may be NULL. */
CB_API cb_code cb_store_gc(cb_store *store, cb_gc_result *out, cb_error *err);
/* Gives freed space back to the filesystem. CB_NOSPACE: it needs room for a copy while it runs, and says how much. */
CB_API cb_code cb_store_vacuum(cb_store *store, cb_error *err);
/* A consistent copy of a live store in a new folder. (Copying a live store with cp is not safe.) */
CB_API cb_code cb_store_backup(cb_store *store, const char *to_path, cb_error *err);
/* Checks every sum, key, count and invariant. Each complaint is one line that names the box and path it concerns. */
typedef void (*cb_complain)(void *context, const char *line);
CB_API cb_code cb_store_check(cb_store *store, cb_complain complain, void *context, uint64_t *out_complaints, cb_error *err);

/* ---- audit: who did what, and what was refused ---- */

typedef struct cb_audit {
	int64_t time_ns;
	const char *box; /* its name now, or its last one; "" for what concerns the store */
	const char *who;
	const char *
		action; /* a step's kind, or "create", "fork", "rename", "delete", "quota", "checkpoint", "prune", "gc", "setting"... */
	const char *subject; /* a path, a name, a key; "" when none */
	cb_code code;        /* CB_OK, or why it was refused */
	const char *message; /* of a refusal; else "" */
	uint64_t seq;        /* the step; 0 when none */
	uint64_t count;      /* the same refusal so many times in a row */
} cb_audit;
typedef cb_code (*cb_audit_visit)(void *context, const cb_audit *entry, cb_error *err);
typedef struct cb_audit_options {
	const char *box; /* NULL: all */
	const char *who; /* NULL: everybody */
	int64_t since_ns;
	bool refused;         /* only refusals */
	uint64_t max_entries; /* 0: all */
} cb_audit_options;
/* Newest first: the steps of the boxes, what was done to boxes and store, and calls that were refused (quota, read-only, reserved,
 * denied, version, conflict, too large). Of deeds and of refusals the newest 10,000 each are kept; steps go with prune. options may be
 * NULL. */
CB_API cb_code cb_audit_list(cb_store *store, const cb_audit_options *options, cb_audit_visit visit, void *context, cb_error *err);

/* ---- boxes ---- */

typedef struct cb_box_info {
	uint64_t id;
	char name[CB_NAME_MAX + 1];
	int64_t created_ns;
	char origin[CB_NAME_MAX + 1]; /* "" when not a fork, or when the origin was deleted */
	uint64_t origin_seq;
	uint64_t seq;                                        /* newest step */
	uint64_t state;                                      /* id of the newest state, never reused */
	uint64_t files, bytes;                               /* inodes but the root, and their logical sizes */
	uint64_t quota_bytes, quota_files, quota_file_bytes; /* 0: no bound */
	uint64_t keep_steps;                                 /* retention: prune keeps this many newest steps; 0: all */
	int64_t keep_ns;                                     /* retention: prune keeps steps younger than this; 0: all */
	uint64_t checkpoint_every;                           /* a checkpoint "auto-SEQ" every so many steps; 0: none */
	bool lost; /* it holds a transaction that lost, and nobody has changed or renamed it since */
} cb_box_info;

/* out may be NULL. A new box holds /work, /home/agent and /tmp. CB_EXISTS, CB_INVALID (name). */
CB_API cb_code cb_box_create(cb_store *store, const char *name, cb_box **out, cb_error *err);
/* A box that nobody sees or can name until cb_box_publish() (transfer.h): filled through this handle it appears with its content,
 * whole. Closed unpublished, or left by a process that died, it is gone. CB_EXISTS when the name is taken now. */
CB_API cb_code cb_box_draft(cb_store *store, const char *name, cb_box **out, cb_error *err);
/* address: "demo", or a state ("demo@7", "demo@-1", "demo@name"), which is read-only. CB_NOTFOUND, CB_STALE (pruned). */
CB_API cb_code cb_box_open(cb_store *store, const char *address, cb_box **out, cb_error *err);
/* Commits what open files have under way (kept as a fork when it conflicts); an open transaction is dropped. Files of the handle that are
 * still open are CB_BADHANDLE from now on, and are to be closed all the same. Accepts NULL. */
CB_API void cb_box_close(cb_box *box);
/* A new box that starts at any state. out may be NULL. */
CB_API cb_code cb_box_fork(cb_store *store, const char *address, const char *name, cb_box **out, cb_error *err);
CB_API cb_code cb_box_rename(cb_store *store, const char *name, const char *new_name, cb_error *err);
/* The box and its history are gone; forks of it live on. */
CB_API cb_code cb_box_delete(cb_store *store, const char *name, cb_error *err);
CB_API cb_code cb_box_info_get(cb_box *box, cb_box_info *out, cb_error *err);
typedef cb_code (*cb_box_visit)(void *context, const cb_box_info *info, cb_error *err);
/* By name. A visitor that returns CB_INTERRUPTED ends any walk early with CB_OK; another code ends it with that code. */
CB_API cb_code cb_box_list(cb_store *store, cb_box_visit visit, void *context, cb_error *err);
CB_API cb_code cb_box_quota_set(cb_box *box, uint64_t bytes, uint64_t files, uint64_t file_bytes, cb_error *err);
CB_API cb_code cb_box_retention_set(cb_box *box, uint64_t keep_steps, int64_t keep_ns, cb_error *err);
/* Every so many steps the newest gets the checkpoint "auto-SEQ"; the newest 32 automatic ones are kept, and all that somebody named.
 * 0: none. */
CB_API cb_code cb_box_checkpoint_every_set(cb_box *box, uint64_t steps, cb_error *err);
/* Who the steps made through this handle are recorded for. Default "". */
CB_API cb_code cb_box_who_set(cb_box *box, const char *who, cb_error *err);
/* Free-form strings per box, outside its states (not undone, not forked). value NULL deletes. Names that begin with "cowbox." are
 * CB_RESERVED. */
CB_API cb_code cb_setting_set(cb_box *box, const char *key, const char *value, cb_error *err);
CB_API cb_code cb_setting_get(cb_box *box, const char *key, char **out, cb_error *err); /* cb_free() it */

/* ---- transactions: any number of calls as one step, all or nothing ---- */

typedef struct cb_step_info {
	const char *kind;   /* NULL: "txn" */
	const char *params; /* NULL: none. Kept with the step; at most 1 MiB */
	const char *result; /* at commit */
	int64_t started_ns; /* 0: now */
	bool record;        /* record a step also when nothing changed (sh, exec, tool calls) */
} cb_step_info;

typedef struct cb_txn_options {
	cb_step_info step;
	cb_box *over; /* an open older state of the same box to collect over; NULL: the newest */
} cb_txn_options;

typedef enum cb_prefer {
	CB_PREFER_NONE,
	CB_PREFER_OURS,
	CB_PREFER_THEIRS,
	/* The same two when a transaction is merged into its box. */
	CB_PREFER_BOX = CB_PREFER_OURS,
	CB_PREFER_TXN = CB_PREFER_THEIRS,
} cb_prefer;
typedef struct cb_conflict {
	const char *path;   /* in ours, or in theirs when ours has none; "key 'NAME'" for a key-value */
	const char *reason; /* "changed on both sides", "deleted here, changed there", ... */
} cb_conflict;
typedef cb_code (*cb_conflict_visit)(void *context, const cb_conflict *conflict, cb_error *err);
typedef struct cb_resolution {
	const char *path; /* as cb_conflict gave it */
	cb_prefer prefer;
} cb_resolution;

/* What becomes of a transaction that lost against what others committed. */
typedef enum cb_lost {
	CB_LOST_STAYS, /* it stays open: commit it again with resolutions, keep it, or drop it */
	CB_LOST_FORK,  /* it is kept as a fork, as cb_txn_keep() does, and is over; if that fails it stays open */
	CB_LOST_DROP,  /* it is over and nothing of it is left */
} cb_lost;

typedef struct cb_commit_options {
	cb_step_info step; /* what is not NULL or 0 replaces what was given at begin */
	bool no_merge;     /* a box that moved meanwhile is a conflict even where the changes are disjoint */
	bool sync;         /* flush to disk before returning */
	cb_lost lost;
	cb_prefer prefer; /* for every conflict that `resolutions` leaves open */
	const cb_resolution *resolutions;
	size_t resolution_count;
} cb_commit_options;

typedef struct cb_commit_result {
	uint64_t seq; /* the step; 0 when nothing changed and nothing was to be recorded */
	uint64_t state;
	bool merged;                /* others had committed meanwhile; the changes were joined */
	uint64_t conflicts;         /* CB_CONFLICT: how many; cb_txn_conflicts() names them */
	char fork[CB_NAME_MAX + 1]; /* where the transaction was kept, "" when it was not */
} cb_commit_result;

/* A transaction is a handle of its own, *out: an ordinary cb_box on which files, key-values, diff, search and import work as on any
 * other; nobody is locked out meanwhile, and nobody but this handle sees what it collects. Writes that open files of `box` have under
 * way are committed first. Calls on history (undo, redo, merge, restore of a whole state, checkpoints, prune, quota) are CB_INVALID
 * on it. The two handles may be closed in any order; closing an open transaction drops it. options may be NULL. */
CB_API cb_code cb_txn_begin(cb_box *box, const cb_txn_options *options, cb_box **out, cb_error *err);
/* One step. What others committed meanwhile is joined where the changes are disjoint; what both sides changed is a conflict, also when
 * they changed it alike (but lines of a text are merged, and folders made as parents unite). So is what a call relied on and is no
 * longer so: an expected version, and the absence of a name for exclusive creation, mkdir by name, link, symlink and rename without
 * replacing. Quotas hold as they are at commit. This is snapshot isolation without read sets: two transactions that each read what the
 * other wrote may both commit.
 *
 * Afterwards the transaction is over: only close it. Whatever failed, it stays open (but see cb_lost), and the same call may be made
 * again. On a box whose open files have writes under way these are committed, with the same choices; CB_NOTHING when there are none.
 * options and out may be NULL. */
CB_API cb_code cb_txn_commit(cb_box *txn, const cb_commit_options *options, cb_commit_result *out, cb_error *err);
/* The conflicts of the last commit that failed for them. */
CB_API cb_code cb_txn_conflicts(cb_box *txn, cb_conflict_visit visit, void *context, cb_error *err);
/* Ends it as a new box that starts where it began and has it as its first step. name NULL: one is made, "demo-conflict-7". Such a box is
 * marked (cb_box_info.lost) until it is renamed or changed, and a marked one is removed by gc after an age (30 days; the store's
 * setting "lost-days"). */
CB_API cb_code cb_txn_keep(cb_box *txn, const char *name, cb_commit_result *out, cb_error *err);
/* Ends it; nothing happened. On a box: drops the writes that its open files have under way. */
CB_API cb_code cb_txn_drop(cb_box *txn, cb_error *err);

/* The newest step that was made through this handle, by whatever call; 0: none yet. Others' steps do not count. */
CB_API uint64_t cb_box_step(cb_box *box);

/* ---- files by path ---- */

typedef enum cb_type { CB_FILE = 1, CB_DIR = 2, CB_SYMLINK = 3 } cb_type;

typedef struct cb_stat_info {
	uint64_t ino;
	cb_type type;
	uint32_t mode; /* permission bits, 07777 */
	uint32_t links;
	uint64_t size;
	uint64_t version; /* grows with every change of the file, also by restore; 0 inside the transaction that changed it */
	int64_t mtime_ns, ctime_ns, atime_ns;
} cb_stat_info;

enum {
	CB_NOFOLLOW = 1,  /* do not follow a symbolic link in the last component */
	CB_NOREPLACE = 2, /* rename, copy: CB_EXISTS instead of replacing */
	CB_EXCHANGE = 4,  /* rename: swap the two */
	CB_PARENTS = 8,   /* write, mkdir, copy, rename: make missing parent folders; mkdir: an existing folder is fine */
};

#define CB_VERSION_ANY 0             /* no expectation */
#define CB_VERSION_ABSENT UINT64_MAX /* the file must not exist */

typedef struct cb_write_options {
	uint32_t mode;             /* for a new file; 0: 0644 */
	uint64_t expected_version; /* CB_VERSION: nothing was changed */
	bool append;
	bool parents;          /* make missing parent folders */
	uint64_t *out_version; /* may be NULL */
} cb_write_options;

/* The whole file. *out is followed by a NUL that size does not count; cb_free() it. */
CB_API cb_code cb_read_file(cb_box *box, const char *path, char **out, size_t *out_size, cb_error *err);
/* At most size bytes from offset into a buffer of the caller's (64-byte aligned is fastest); *out_size 0 at the end. */
CB_API cb_code cb_read_at(cb_box *box, const char *path, uint64_t offset, void *to, size_t size, size_t *out_size, cb_error *err);
/* Creates or replaces the content (or appends). options may be NULL. */
CB_API cb_code cb_write_file(cb_box *box, const char *path, const void *bytes, size_t size, const cb_write_options *options,
                             cb_error *err);

typedef struct cb_replacement {
	const char *old_text;
	size_t old_size; /* at least 1 */
	const char *new_text;
	size_t new_size;
} cb_replacement;
typedef struct cb_edit_options {
	bool all;                  /* every place, at least one */
	uint64_t expect;           /* exactly so many places; 0: exactly one */
	uint64_t expected_version; /* as in cb_write_options */
} cb_edit_options;
/* Replaces exact text, one replacement after the other, all or nothing, as one step. CB_NOTFOUND: the text is not there; CB_CONFLICT: it is
 * there in another number of places than expected, and *err names the lines; CB_INVALID: the new text is the old one. options,
 * out_replaced may be NULL. */
CB_API cb_code cb_edit(cb_box *box, const char *path, const cb_replacement *replacements, size_t count,
                       const cb_edit_options *options, uint64_t *out_replaced, cb_error *err);
CB_API cb_code cb_truncate(cb_box *box, const char *path, uint64_t size, cb_error *err);
CB_API cb_code cb_stat(cb_box *box, const char *path, unsigned flags, cb_stat_info *out, cb_error *err);
CB_API cb_code cb_mkdir(cb_box *box, const char *path, uint32_t mode, unsigned flags, cb_error *err);
CB_API cb_code cb_rmdir(cb_box *box, const char *path, cb_error *err);
CB_API cb_code cb_unlink(cb_box *box, const char *path, cb_error *err);
CB_API cb_code cb_rename(cb_box *box, const char *from, const char *to, unsigned flags, cb_error *err);
CB_API cb_code cb_link(cb_box *box, const char *from, const char *to, cb_error *err);
CB_API cb_code cb_symlink(cb_box *box, const char *target, const char *path, cb_error *err);
CB_API cb_code cb_readlink(cb_box *box, const char *path, char **out, cb_error *err); /* cb_free() it */
CB_API cb_code cb_chmod(cb_box *box, const char *path, uint32_t mode, unsigned flags, cb_error *err);
#define CB_TIME_OMIT INT64_MIN
CB_API cb_code cb_utimens(cb_box *box, const char *path, int64_t atime_ns, int64_t mtime_ns, unsigned flags, cb_error *err);

typedef cb_code (*cb_entry_visit)(void *context, const char *name, const cb_stat_info *info, cb_error *err);
/* In byte order of the names; without "." and "..". The visitor may call read functions on the same handle. */
CB_API cb_code cb_readdir(cb_box *box, const char *path, cb_entry_visit visit, void *context, cb_error *err);
/* Everything below path (itself first), parents before children, by name; path is absolute. Symlinks are not followed. */
typedef cb_code (*cb_walk_visit)(void *context, const char *path, const cb_stat_info *info, cb_error *err);
CB_API cb_code cb_walk(cb_box *box, const char *path, cb_walk_visit visit, void *context, cb_error *err);
/* pattern: "/work/src/" + a pattern of * ? [a-z] {a,b} and double stars for any depth; relative ones start at "/". */
CB_API cb_code cb_glob(cb_box *box, const char *pattern, cb_walk_visit visit, void *context, cb_error *err);
/* A file, link or whole folder, with modes, times, the hard links in it, attributes, tags and metadata; contents are shared. An existing
 * target file is replaced, an existing folder is CB_EXISTS. */
CB_API cb_code cb_copy(cb_box *box, const char *from, const char *to, unsigned flags, cb_error *err);
/* A file, link or whole folder. */
CB_API cb_code cb_remove(cb_box *box, const char *path, cb_error *err);

CB_API cb_code cb_xattr_set(cb_box *box, const char *path, const char *name, const void *value, size_t size, unsigned flags,
                            cb_error *err);
CB_API cb_code cb_xattr_get(cb_box *box, const char *path, const char *name, unsigned flags, char **out, size_t *out_size,
                            cb_error *err);
CB_API cb_code cb_xattr_remove(cb_box *box, const char *path, const char *name, unsigned flags, cb_error *err); /* CB_NODATA */
typedef cb_code (*cb_name_visit)(void *context, const char *name, const char *value, size_t size, cb_error *err);
CB_API cb_code cb_xattr_list(cb_box *box, const char *path, unsigned flags, cb_name_visit visit, void *context, cb_error *err);

/* Tags (names) and metadata (name = value) on a file or folder. Listing visits tags with value NULL. */
CB_API cb_code cb_tag_add(cb_box *box, const char *path, const char *tag, cb_error *err);
CB_API cb_code cb_tag_remove(cb_box *box, const char *path, const char *tag, cb_error *err); /* CB_NODATA */
CB_API cb_code cb_tag_list(cb_box *box, const char *path, cb_name_visit visit, void *context, cb_error *err);
CB_API cb_code cb_meta_set(cb_box *box, const char *path, const char *name, const char *value, cb_error *err); /* NULL removes */
CB_API cb_code cb_meta_get(cb_box *box, const char *path, const char *name, char **out, cb_error *err);        /* cb_free() it */
CB_API cb_code cb_meta_list(cb_box *box, const char *path, cb_name_visit visit, void *context, cb_error *err);

/* ---- open files ---- */

enum {
	CB_READ = 1,
	CB_WRITE = 2,
	CB_CREATE = 4,
	CB_EXCLUSIVE = 8,
	CB_TRUNCATE = 16,
	CB_APPEND = 32,
	/* CB_NOFOLLOW_OPEN: the last component must not be a symbolic link (CB_LOOP) */
	CB_NOFOLLOW_OPEN = 64,
};

/* A handle stays on its file through renames made anywhere, and after unlink until it is closed; when the file comes back (an undo, a
 * restore) it is on that again, and what was written meanwhile lands in it or is reported: see "Open files" in docs/api.md. Writes are
 * seen at once through the same box handle; they become a step at cb_close, cb_fsync, or when a second has passed since the last write
 * and the box is used again. */
CB_API cb_code cb_open(cb_box *box, const char *path, unsigned flags, uint32_t mode, cb_file **out, cb_error *err);
/* The handle is gone whatever is returned. When its step cannot be committed it stays with the box: commit it with resolutions, keep or
 * drop it (cb_txn_commit and its siblings on the box). CB_STALE: what was written to a file that history took is in no state. Accepts
 * NULL. */
CB_API cb_code cb_close(cb_file *file, cb_error *err);
CB_API cb_code cb_read(cb_file *file, void *to, size_t size, size_t *out_size, cb_error *err);
CB_API cb_code cb_write(cb_file *file, const void *bytes, size_t size, cb_error *err); /* all of it or an error */
CB_API cb_code cb_pread(cb_file *file, void *to, size_t size, uint64_t offset, size_t *out_size, cb_error *err);
CB_API cb_code cb_pwrite(cb_file *file, const void *bytes, size_t size, uint64_t offset, cb_error *err);
typedef enum cb_whence { CB_SEEK_SET, CB_SEEK_CUR, CB_SEEK_END, CB_SEEK_DATA, CB_SEEK_HOLE } cb_whence;
CB_API cb_code cb_seek(cb_file *file, int64_t offset, cb_whence whence, uint64_t *out_position, cb_error *err);
CB_API cb_code cb_ftruncate(cb_file *file, uint64_t size, cb_error *err);
CB_API cb_code cb_fstat(cb_file *file, cb_stat_info *out, cb_error *err);
CB_API cb_code cb_fsync(cb_file *file, cb_error *err); /* ends the step and flushes it to disk; CB_STALE as cb_close */

/* ---- key-values: fork, undo and merge with the box ---- */

CB_API cb_code cb_kv_set(cb_box *box, const char *key, const void *value, size_t size, cb_error *err);
CB_API cb_code cb_kv_get(cb_box *box, const char *key, char **out, size_t *out_size, cb_error *err); /* cb_free() it */
CB_API cb_code cb_kv_delete(cb_box *box, const char *key, cb_error *err);                            /* CB_NOTFOUND */
/* Keys that begin with exactly these bytes, in byte order. */
CB_API cb_code cb_kv_list(cb_box *box, const char *prefix, cb_name_visit visit, void *context, cb_error *err);

/* ---- history ---- */

typedef struct cb_step {
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
} cb_step;
typedef cb_code (*cb_step_visit)(void *context, const cb_step *step, cb_error *err);

typedef struct cb_log_options {
	const char *path;   /* NULL: the whole box; a folder: everything below; a file: followed through renames */
	uint64_t before;    /* 0: from the handle's state backwards */
	uint64_t max_steps; /* 0: all */
} cb_log_options;
/* Newest first. *out_pruned (may be NULL) tells that older steps were pruned. */
CB_API cb_code cb_log(cb_box *box, const cb_log_options *options, cb_step_visit visit, void *context, bool *out_pruned,
                      cb_error *err);
CB_API cb_code cb_step_get(cb_box *box, uint64_t seq, cb_step_visit visit, void *context, cb_error *err);
/* A step that changes nothing: what a command or tool call did. */
CB_API cb_code cb_step_record(cb_box *box, const cb_step_info *info, uint64_t *out_seq, cb_error *err);

typedef enum cb_change_kind {
	CB_ADDED = 'A',
	CB_DELETED = 'D',
	CB_MODIFIED = 'M', /* content */
	CB_ATTRS = 'T',    /* mode, times given by utimens, xattrs, tags or metadata only */
	CB_RENAMED = 'R',  /* the same file at another path; also modified when the contents differ */
	CB_KEYVALUE = 'K', /* path is the key */
} cb_change_kind;

typedef struct cb_change {
	cb_change_kind kind;
	const char *path;     /* where it is now (deleted: was) */
	const char *old_path; /* renamed: where it was; else NULL */
	bool has_old, has_new;
	bool modified;                   /* renamed: content differs too */
	cb_stat_info old_info, new_info; /* valid where has_old / has_new */
} cb_change;
typedef cb_code (*cb_change_visit)(void *context, const cb_change *change, cb_error *err);

/* What changed from one state to another (of the same or different boxes of one store), by path. Cost in proportion to the change. */
CB_API cb_code cb_diff(cb_box *from, cb_box *to, const char *path, cb_change_visit visit, void *context, cb_error *err);
/* What one step did. */
CB_API cb_code cb_diff_step(cb_box *box, uint64_t seq, const char *path, cb_change_visit visit, void *context, cb_error *err);
/* The same with lines counted: one call per changed file or link that has content on a side, as `git diff --stat` would list it. */
typedef struct cb_change_stat {
	const cb_change *change;
	bool binary;                   /* then the lines are 0 */
	uint64_t added, removed;       /* lines */
	uint64_t old_bytes, new_bytes; /* 0 where the file is not there */
} cb_change_stat;
typedef cb_code (*cb_change_stat_visit)(void *context, const cb_change_stat *stat, cb_error *err);
CB_API cb_code cb_diff_stat(cb_box *from, cb_box *to, const char *path, cb_change_stat_visit visit, void *context, cb_error *err);
typedef struct cb_diff_text_options {
	const char *path; /* NULL: everything */
	bool has_context; /* false: 3 lines */
	unsigned context_lines;
	/* true leaves a change out; may be NULL */
	bool (*skip)(void *context, const cb_change *change);
	void *context;
} cb_diff_text_options;
/* The same as unified text in git's format; binary files are named as such. options may be NULL. *out: cb_free() it. */
CB_API cb_code cb_diff_text(cb_box *from, cb_box *to, const cb_diff_text_options *options, char **out, size_t *out_size,
                            cb_error *err);

/* Makes an older state (path NULL or "/"), or one file or folder of it, the newest, as a new step. source: an open state of this
 * store. */
CB_API cb_code cb_restore(cb_box *box, cb_box *source, const char *path, uint64_t *out_seq, cb_error *err);
/* seq 0: the last change not yet undone, CB_NOTHING when there is none. Otherwise that step, taken back as a reverse three-way merge:
 * CB_CONFLICT names the paths that later steps changed; CB_NOTHING when nothing is left of it to take back. */
CB_API cb_code cb_undo(cb_box *box, uint64_t seq, uint64_t *out_seq, cb_error *err);
/* Takes back the last undo, unless the box was changed since (CB_NOTHING). */
CB_API cb_code cb_redo(cb_box *box, uint64_t *out_seq, cb_error *err);

/* seq 0: the current step. Flushed to disk unless no_sync. The named step is never pruned. name NULL: an automatic one, called
 * "auto-SEQ"; of these the newest 32 are kept, and a checkpoint of that step and name serves as well. CB_EXISTS. */
CB_API cb_code cb_checkpoint_save(cb_box *box, const char *name, uint64_t seq, bool no_sync, cb_error *err);
CB_API cb_code cb_checkpoint_delete(cb_box *box, const char *name, cb_error *err);
typedef struct cb_checkpoint {
	char name[CB_NAME_MAX + 1];
	uint64_t seq;
	int64_t created_ns;
	bool automatic; /* made every so many steps, or saved without a name */
} cb_checkpoint;
typedef cb_code (*cb_checkpoint_visit)(void *context, const cb_checkpoint *checkpoint, cb_error *err);
/* By step. The visitor may use the box and change its checkpoints: it sees those there were. */
CB_API cb_code cb_checkpoint_list(cb_box *box, cb_checkpoint_visit visit, void *context, cb_error *err);

typedef struct cb_merge_options {
	cb_prefer prefer; /* for every conflict that `resolve` leaves open */
	/* Called once per path in conflict; may be NULL. No lock of the store is held: others go on writing meanwhile. */
	cb_prefer (*resolve)(void *context, const cb_conflict *conflict);
	void *context;
	bool dry_run; /* list conflicts, change nothing */
} cb_merge_options;
/* Three-way merge of a state into a box, as one step with both as parents. Base: the last merge between them, or the fork point; several
 * such states are merged into one (at most 8: CB_LIMIT). CB_STALE: the base was pruned. CB_CONFLICT when one is left open: nothing
 * changed, all were given to resolve. CB_NOTHING: theirs has nothing new. */
CB_API cb_code cb_merge(cb_box *into, cb_box *from, const cb_merge_options *options, uint64_t *out_seq, uint64_t *out_conflicts,
                        cb_error *err);

/* Which step wrote each line: visited from line 1 on. seq 0: before what was pruned. For a fork, steps of its origin are given with
 * their box's name. */
typedef struct cb_blame_line {
	uint64_t line; /* from 1 */
	const char *text;
	size_t size;
	const char *box;
	uint64_t seq;
} cb_blame_line;
typedef cb_code (*cb_blame_visit)(void *context, const cb_blame_line *line, cb_error *err);
CB_API cb_code cb_blame(cb_box *box, const char *path, cb_blame_visit visit, void *context, cb_error *err);

typedef struct cb_prune_options {
	uint64_t keep_steps; /* keep at least this many of the newest; 0: the box's retention */
	int64_t keep_ns;     /* keep what is younger; 0: the box's retention */
} cb_prune_options;
/* Keeps the state that the handle shows now until the pin is dropped, or for keep_ns (0: no bound), whatever becomes of this process: for a
 * long job that comes back to it. owner names the job (1 to 64 bytes, not beginning with "cowbox."); setting it again replaces its pin.
 * why is a short text for people. CB_INVALID on a transaction. */
CB_API cb_code cb_pin_set(cb_box *box, const char *owner, const char *why, int64_t keep_ns, cb_error *err);
CB_API cb_code cb_pin_drop(cb_store *store, const char *owner, cb_error *err);
/* Drops old steps, never checkpoints, fork points and merge points of living boxes, the newest step, nor what is in use or pinned
 * (cb_store_uses). Space comes back with cb_store_gc. */
CB_API cb_code cb_prune(cb_box *box, const cb_prune_options *options, uint64_t *out_pruned, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
