/*
 * store.h: what lasts. Nodes, contents and the catalog (boxes, heads, steps, checkpoints, settings), in short transactions.
 *
 * The store knows nothing of files: a node and a content are bytes under a number, a step's changes are an opaque string.
 * Numbers (states, nodes, contents, inodes, boxes, segments) come from counters that never go back, so whatever is read by
 * number may be cached for ever: nodes and contents are written once and never changed.
 *
 * Engines stand behind `store_ops` (engine.h): SQLite on disk, SQLite in memory, and a fault injector around either.
 *
 * Threads: every function may be called from any thread. A write transaction belongs to the thread that began it; others wait.
 * fork(): in a child every call on an inherited disk store reopens its files first; one on an inherited memory store, or inside a
 * transaction begun by the parent, returns CB_FORKED.
 *
 * Crash windows: everything between store_write_begin and store_write_commit is atomic against kill -9 and power cuts. Contents over
 * LIMIT_CONTENT_TABLE_BYTES are flushed in their segment file before the row that names them is committed.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/span.h"

typedef struct store store;

typedef enum store_durability {
	STORE_FAST, /* a commit survives any process's death; a power cut returns to a recent committed state */
	STORE_FULL, /* every commit is flushed before it is acknowledged */
} store_durability;

typedef struct store_fault_plan store_fault_plan; /* fault.h */

typedef struct store_options {
	const char *path; /* the store's folder; NULL: in memory */
	bool create;      /* make it when it is not there */
	bool read_only;
	bool or_read_only; /* where nothing can be written (the filesystem, or the rights of this user), open it for reading */
	store_durability durability;
	size_t cache_bytes;        /* nodes and small contents kept in memory; 0: 64 MiB */
	const clock_source *clock; /* NULL: the system's */
	store_fault_plan *faults;  /* NULL: none. Consulted at every write, flush and truncation */
	int64_t lock_timeout_ms;   /* how long to wait for the writer lock; 0: 60,000; then CB_BUSY */
} store_options;

/* Errors: CB_NOTFOUND (no store and !create), CB_NEWER, CB_FOREIGN, CB_CORRUPT, CB_DENIED (folder of another user, or open to group
 * or world), CB_READONLY, CB_NOSPACE, CB_IO. */
cb_code store_open(const store_options *options, store **out, cb_error *err);
/* Flushes (also in fast mode) and closes. Accepts NULL. Must not be called with a transaction open. */
void store_close(store *s);
/* The store's folder (an O_PATH descriptor; lent), wherever it was moved. -1 for a memory store. */
int store_folder(const store *s);
bool store_is_read_only(const store *s);
/* CB_READONLY, saying why it is. */
cb_code store_refuse_write(const store *s, cb_error *err);
const clock_source *store_clock(const store *s);
/* Flushes all committed work to disk. */
cb_code store_sync(store *s, cb_error *err);

/* ---- counters ---- */

typedef enum store_counter {
	STORE_NEXT_STATE,
	STORE_NEXT_NODE,
	STORE_NEXT_CONTENT,
	STORE_NEXT_INO,
	STORE_NEXT_BOX,
	STORE_NEXT_SEGMENT,
	STORE_EPOCH, /* read with store_epoch; raised by each gc */
	STORE_COUNTERS,
} store_counter;

/* Takes n numbers (inside a write transaction). Numbers taken in a transaction that aborts may be given out again: whoever caches by
 * number must forget on abort. The first number ever is 1, but inodes begin at 16 (1 is every box's root, 2-15 reserved). */
cb_code store_take(store *s, store_counter which, uint64_t n, uint64_t *out_first, cb_error *err);
/* Inode numbers for use outside a transaction: a block is reserved in the database and handed out from memory. */
cb_code store_ino_take(store *s, uint64_t *out_ino, cb_error *err);
cb_code store_epoch(store *s, uint64_t *out, cb_error *err);

/* ---- transactions ---- */

/*
 * What a write transaction does to the room on the disk. Some is kept back from ordinary ones, so that on a full disk the others go on:
 * whoever removes and undoes adds a little, whoever deletes, prunes and collects is the only way out. They should be small there (some
 * hundred KiB): more than is kept gives CB_NOSPACE all the same. See room.h.
 */
typedef enum store_need {
	STORE_GROWS,   /* anything */
	STORE_SHRINKS, /* takes away, takes back or records: may use half of what is kept */
	STORE_FREES,   /* gives room back, or leads to it: may use all */
} store_need;

/* Waits its turn on the fair lock, then begins. Not nested. The plain one is STORE_GROWS. */
cb_code store_write_begin(store *s, cb_error *err);
cb_code store_write_begin_as(store *s, store_need need, cb_error *err);
/* The last commit of this handle left less room than is to be kept: write as little as can be, in small batches. A hint. */
bool store_is_short(const store *s);
/* sync: flush before returning whatever the durability. On failure nothing was committed and the transaction is over, except that
 * after CB_IO from a failed flush the outcome is unknown and every later write returns CB_IO until the store is reopened. */
cb_code store_write_commit(store *s, bool sync, cb_error *err);
void store_write_abort(store *s);
/* Commits when code is CB_OK; else aborts, and gives code. */
cb_code store_write_end(store *s, cb_code code, bool sync, cb_error *err);
bool store_in_write(const store *s); /* true: by the calling thread */

/* One consistent picture for several reads. Cheap; nests inside a write transaction; every begin needs its end. */
cb_code store_read_begin(store *s, cb_error *err);
void store_read_end(store *s);

/*
 * Is what was known at *stamp still so? Each box (0: the catalog as a whole: boxes, checkpoints, settings) has a counter in
 * memory shared by all processes, odd while a commit that touches it is under way. Returns true when the counter is even and
 * equals *stamp. Otherwise false, and *stamp is set to a value to compare with next time, PROVIDED the caller reads the database
 * after this call (a value that can never match when a commit is under way). No system call.
 */
bool store_fresh(store *s, uint64_t box, uint64_t *stamp);
/* Inside a write transaction: this commit touches that box. (store_head_set and store_box_* do it themselves.) */
void store_touch(store *s, uint64_t box);
/* After own commit: the stamp for what was just committed (a later store_fresh is true if nobody committed since). Must be called
 * before the transaction ends to reserve; see store_write_commit: gives the value the counter will have after this commit. */
uint64_t store_stamp_after(store *s, uint64_t box);

/* ---- nodes and contents ---- */

/* Cached. CB_CORRUPT when the checksum is wrong, CB_STALE when the row is gone and a gc has run since the store was opened (nobody kept
 * the state: open it again), CB_CORRUPT when it is gone without one. blob_unref() it. */
cb_code store_node_get(store *s, uint64_t id, blob **out, cb_error *err);
/* Inside a write transaction. Enters the cache when the transaction commits. */
cb_code store_node_put(store *s, span bytes, uint64_t *out_id, cb_error *err);

/* A whole content of at most LIMIT_CONTENT_BYTES. Small ones are cached. Errors as for nodes. */
cb_code store_content_get(store *s, uint64_t id, blob **out, cb_error *err);
/* Copies [offset, offset+size) of it to `to`; reading past its end is CB_CORRUPT. The checksum of the whole is verified at the first
 * read in this process. A large content goes straight from its segment to `to`. */
cb_code store_content_read(store *s, uint64_t id, uint64_t offset, void *to, size_t size, cb_error *err);
cb_code store_content_size(store *s, uint64_t id, uint64_t *out, cb_error *err);
/* Inside a write transaction, or outside (then it is a transaction of its own and `owner` must protect it from gc until the row that
 * refers to it is committed). Large contents are appended to this process's segment and flushed at the next commit that holds a row
 * of it, before that commit. size >= 1. */
cb_code store_content_put(store *s, span bytes, uint64_t *out_id, cb_error *err);
/* Inside a write transaction: these contents, found through an older state, are about to be referred to again. Gives each the current
 * epoch so that a running gc spares it; CB_STALE when one is gone. */
cb_code store_content_touch(store *s, const uint64_t *ids, size_t n, cb_error *err);

/* An owner keeps every node and content written since from gc while it lives: until store_owner_end, or the death of the process
 * (recognised by a lock, so also across pid namespaces). */
cb_code store_owner_begin(store *s, uint64_t *out_owner, cb_error *err);
void store_owner_end(store *s, uint64_t owner); /* 0: nothing */
/* As store_owner_end, and what was put for it goes at once instead of with the next gc: contents that no row refers to, nor ever will.
 * While others share the owner, or a gc, vacuum or backup runs, they are left to gc. */
void store_owner_drop(store *s, uint64_t owner, const uint64_t *contents, size_t count);
/* One more who needs it: it lives until each has ended it. Only for one that this handle began and nobody has ended yet. */
cb_code store_owner_share(store *s, uint64_t owner, cb_error *err);
/* Does an owner, of this or another process, still live? */
bool store_owner_is_living(store *s, uint64_t owner);

/* Another one in a child of fork() than in its parent: whoever keeps it can tell that he is the parent's. */
unsigned store_fork_era(void);

/* ---- states in use ---- */

/*
 * Whoever reads or works on the state after step (box, seq), through the tree `root`, shows it in a place of a table that all processes
 * share (inuse.h has the protocol and its proof); whoever removes steps or nodes reads the table first. To be sure of a state:
 *
 *   looked up:   store_removal_wait(s, &seen, err); read the rows; store_use_show(...); if (!store_removal_is(s, seen)) again
 *   the head:    store_use_show(...); store_fresh(s, box, &stamp) with the head's stamp is enough
 *   handed on:   store_use_show(...) of the new place; store_use_handed(s); only then hide the old one
 *   inside a write transaction: nobody removes meanwhile; showing is enough for what must last longer
 */
typedef struct store_use store_use;

typedef struct store_used {
	uint64_t box, seq, root;
	int64_t since_ns; /* 0: not known */
	uint64_t pid;     /* not used by store_use_show. 0: in another pid namespace */
	uint8_t why;      /* the caller's to define */
} store_used;

/* *u: a place, or NULL, then one is claimed; the same in a child of fork(), where the parent's place is not ours. *u stays NULL where
 * there is no table: a store opened read-only in a folder that cannot be written. CB_LIMIT: the table is full; CB_NOSPACE: it cannot
 * grow. */
cb_code store_use_show(store *s, store_use **u, const store_used *what, cb_error *err);
/* Only the place, to be shown later without fail. */
cb_code store_use_claim(store *s, store_use **u, cb_error *err);
/* Keeps the place for the next time. Accepts NULL. */
void store_use_hide(store_use *u);
/* Gives it back. Accepts a place that is NULL. */
void store_use_end(store *s, store_use **u);
/* By this process: false for what was shown before a fork(). */
bool store_use_is_shown(const store_use *u);
/* Waits while a removal is under way. */
cb_code store_removal_wait(store *s, uint64_t *out_seen, cb_error *err);
bool store_removal_is(const store *s, uint64_t seen);
void store_use_handed(store *s);
/* Inside a write transaction that removes: appends a store_used for each state in use. Until the transaction ends nobody's use begins
 * unseen. May be called again for a newer picture. */
cb_code store_removal_begin(store *s, buf *out, cb_error *err);
/* The same for whoever only wants to know. */
cb_code store_uses_read(store *s, buf *out, cb_error *err);

/* What must outlive its process: a pin keeps a step until it is deleted, or its time has come. `owner` is a name that whoever made it finds
 * it by; setting an owner's pins replaces those it had. Strings are never NULL. */
typedef struct store_pin {
	uint64_t id; /* unused by callers on set */
	uint64_t box, seq;
	const char *why;
	const char *owner;
	int64_t since_ns;
	int64_t until_ns; /* 0: until it is deleted */
} store_pin;
/* As seq: every step of the box. */
#define STORE_ALL_STEPS UINT64_MAX
/* How owners of pins for what is in the folder `work` begin: a copy of the store, which has no such folder, has no such pins. */
#define STORE_PIN_WORK "cowbox.work "
/* The owner of pins of all boxes that a store got when it was brought up from a format without pins, for whatever commands had left in the
 * folder `work`: whoever knows that folder pins what is needed, and drops them. */
#define STORE_PIN_EARLIER STORE_PIN_WORK "earlier"
typedef cb_code (*store_pin_visit)(void *context, const store_pin *pin, cb_error *err);
/* Inside a write transaction; count 0 deletes. The steps must be there: CB_STALE. */
cb_code store_pins_set(store *s, const char *owner, const store_pin *pins, size_t count, cb_error *err);
/* Of one box, or all (0), by number. Those whose time has come are not given. */
cb_code store_pins_list(store *s, uint64_t box, store_pin_visit visit, void *context, cb_error *err);
/* Inside a write transaction: deletes those whose time has come, and those of boxes that are gone. */
cb_code store_pins_expire(store *s, cb_error *err);

/* ---- boxes ---- */

typedef struct store_head {
	uint64_t seq;      /* the newest step */
	uint64_t state;    /* the state after it */
	uint64_t root;     /* the nearest kept root at or before it: a node, 0 for an empty tree */
	uint64_t root_box; /* the step that root belongs to: usually of this box, for a young fork of its origin */
	uint64_t root_seq;
	uint64_t weight; /* key changes between root and head: decides the next key frame */
} store_head;

typedef struct store_box {
	uint64_t id;
	char name[LIMIT_BOX_NAME_BYTES + 1];
	int64_t created_ns;
	uint64_t origin_box; /* 0: not a fork */
	uint64_t origin_seq;
	bool deleted;                                        /* invisible; kept while a living fork needs its steps */
	uint64_t quota_bytes, quota_files, quota_file_bytes; /* 0: no bound */
	uint64_t keep_steps;                                 /* retention: 0 keeps everything */
	int64_t keep_ns;                                     /* retention: 0 keeps everything */
	store_head head;
} store_box;

typedef cb_code (*store_box_visit)(void *context, const store_box *box, cb_error *err);

cb_code store_box_find(store *s, const char *name, store_box *out, cb_error *err); /* living ones; CB_NOTFOUND */
cb_code store_box_get(store *s, uint64_t id, store_box *out, cb_error *err);       /* deleted ones too */
cb_code store_box_list(store *s, bool with_deleted, store_box_visit visit, void *context, cb_error *err); /* by name */
/* A visitor that appends each row to a buf: to do something with boxes that writes. */
cb_code store_box_collect(void *rows, const store_box *row, cb_error *err);
/* Living boxes (and deleted ones that still have steps) forked from `origin`. */
cb_code store_box_forks(store *s, uint64_t origin, store_box_visit visit, void *context, cb_error *err);
/* Inside a write transaction. Insert takes the id from box->id (store_take); CB_EXISTS when the name is in use. Update writes every
 * field but the head. */
cb_code store_box_insert(store *s, const store_box *box, cb_error *err);
cb_code store_box_update(store *s, const store_box *box, cb_error *err);
cb_code store_box_remove(store *s, uint64_t id,
                         cb_error *err); /* the row, its head, its settings; steps go with store_step_delete */
cb_code store_head_get(store *s, uint64_t box, store_head *out, cb_error *err);
cb_code store_head_set(store *s, uint64_t box, const store_head *head, cb_error *err);

/* ---- steps ---- */

typedef struct store_step {
	uint64_t box, seq;
	uint64_t state;                          /* the state after it; equals its predecessor's when nothing changed */
	uint64_t epoch;                          /* unused by callers on put */
	const char *kind;                        /* "write", "exec", "merge", ... never NULL */
	const char *who;                         /* never NULL, may be "" */
	span params, result;                     /* in the row, or when longer than 1,000 bytes in a content: */
	uint64_t params_content, result_content; /* 0: in the row */
	int64_t started_ns, ended_ns;
	uint64_t target; /* undo: the step undone; redo: the undo undone; restore: 0 */
	uint64_t other_box,
		other_seq; /* second parent: merge source, restore source, fork origin; 0: none. Undo: see undo_choice.c */
	bool has_root;     /* root is the tree after this step (0 = empty tree) */
	uint64_t root;
	bool has_changes; /* changes holds the step's key changes; otherwise both neighbours have roots */
	span changes;
	uint64_t weight; /* number of keys in changes */
	bool gap;        /* its predecessor was pruned */
} store_step;

/* The step and its strings are lent for the duration of the call. Returning anything but CB_OK ends the walk with that code;
 * CB_INTERRUPTED ends it with CB_OK. */
typedef cb_code (*store_step_visit)(void *context, const store_step *step, cb_error *err);

cb_code store_step_get(store *s, uint64_t box, uint64_t seq, store_step_visit visit, void *context,
                       cb_error *err); /* CB_NOTFOUND */
/* from <= to: upwards, from > to: downwards; both ends included; pruned ones are simply not there. with_changes false leaves `changes`
 * unread (cheaper). */
cb_code store_step_walk(store *s, uint64_t box, uint64_t from, uint64_t to, bool with_changes, store_step_visit visit,
                        void *context, cb_error *err);
/* The newest step of `box` at or before seq that has a root; CB_NOTFOUND. */
cb_code store_step_root_before(store *s, uint64_t box, uint64_t seq, uint64_t *out_seq, uint64_t *out_root, cb_error *err);
/* Inside a write transaction: */
cb_code store_step_put(store *s, const store_step *step, cb_error *err);
cb_code store_step_root_set(store *s, uint64_t box, uint64_t seq, bool has_root, uint64_t root, cb_error *err);
cb_code store_step_gap_set(store *s, uint64_t box, uint64_t seq, cb_error *err);
cb_code store_step_delete(store *s, uint64_t box, uint64_t from, uint64_t to, uint64_t *out_deleted, cb_error *err);
cb_code store_step_count(store *s, uint64_t box, uint64_t *out, cb_error *err);

/* Which steps touched what: a row says it for the steps [first, last] of a box, in an opaque string; newest first. Rows that lie wholly
 * in a range that store_step_delete deletes go with it. */
typedef cb_code (*store_touch_visit)(void *context, uint64_t first, uint64_t last, span subjects, cb_error *err);
cb_code store_touch_put(store *s, uint64_t box, uint64_t first, uint64_t last, span subjects, cb_error *err);
cb_code store_touch_walk(store *s, uint64_t box, uint64_t max_seq, store_touch_visit visit, void *context, cb_error *err);
/* The last step that a row speaks of; 0: none. */
cb_code store_touch_last(store *s, uint64_t box, uint64_t *out_seq, cb_error *err);

/* ---- where steps come from, besides the step before them ---- */

/*
 * The history of boxes is a graph; these are its edges that do not lead to the step before. A row per step, which outlives it: prune leaves
 * edges alone. Edges of a box that was removed stay while one can come to it from a box that is there.
 */
typedef enum store_edge_kind {
	STORE_EDGE_FORK = 1,    /* seq is 0: the box began there */
	STORE_EDGE_MERGE = 2,   /* also comes from there */
	STORE_EDGE_RESTORE = 3, /* comes from there instead of from the step before */
	STORE_EDGE_UNDO = 4, /* takes back the edge of step other_seq of its own box; of an undo: brings back what that took back */
} store_edge_kind;

typedef struct store_edge {
	uint64_t order; /* grows with time over all boxes: an edge leads to what is older. Unused by callers on put */
	uint64_t box, seq;
	store_edge_kind kind;
	uint64_t other_box, other_seq;
} store_edge;

typedef cb_code (*store_edge_visit)(void *context, const store_edge *edge, cb_error *err);
/* The newest edge of a box at or before a step. *found false: none. */
cb_code store_edge_before(store *s, uint64_t box, uint64_t seq, store_edge *out, bool *found, cb_error *err);
/* The newest ones, up to max, the newest first. */
cb_code store_edges_before(store *s, uint64_t box, uint64_t seq, store_edge *out, size_t max, size_t *count, cb_error *err);
/* Those whose order is greater than `after`, the oldest first. */
cb_code store_edge_list(store *s, uint64_t after, store_edge_visit visit, void *context, cb_error *err);
/* The orders (uint64_t, appended) of edges of boxes that are gone and that no way leads to from a box that is there: none ever will. */
cb_code store_edges_lost(store *s, buf *orders, cb_error *err);
/* Inside a write transaction: */
cb_code store_edge_put(store *s, const store_edge *edge, cb_error *err);
cb_code store_edge_delete(store *s, uint64_t order, cb_error *err);

/* ---- checkpoints and settings ---- */

typedef struct store_checkpoint {
	uint64_t box;
	char name[LIMIT_BOX_NAME_BYTES + 1];
	uint64_t seq;
	int64_t created_ns;
	bool automatic; /* made by itself: the oldest give way to newer ones */
} store_checkpoint;

typedef cb_code (*store_checkpoint_visit)(void *context, const store_checkpoint *c, cb_error *err);
cb_code store_checkpoint_get(store *s, uint64_t box, const char *name, store_checkpoint *out, cb_error *err);
cb_code store_checkpoint_list(store *s, uint64_t box, store_checkpoint_visit visit, void *context,
                              cb_error *err);                                             /* by seq, name */
cb_code store_checkpoint_put(store *s, const store_checkpoint *c, cb_error *err);         /* CB_EXISTS */
cb_code store_checkpoint_delete(store *s, uint64_t box, const char *name, cb_error *err); /* CB_NOTFOUND */

/* Free-form strings per box (0: the store): configuration, later policies. Value NULL deletes. out: free() it; CB_NOTFOUND. */
cb_code store_setting_get(store *s, uint64_t box, const char *key, char **out, cb_error *err);
cb_code store_setting_set(store *s, uint64_t box, const char *key, const char *value, cb_error *err);
typedef cb_code (*store_setting_visit)(void *context, const char *key, const char *value, cb_error *err);
cb_code store_setting_list(store *s, uint64_t box, store_setting_visit visit, void *context, cb_error *err);
/* Inside a write transaction: removes checkpoints and settings of boxes that are not there, which earlier programs could leave. */
cb_code store_leftover_sweep(store *s, cb_error *err);

/* ---- audit ---- */

/* Something done to a box or the store, or a call that was refused. Strings are never NULL. */
typedef struct store_audit {
	uint64_t id; /* grows; unused by callers on put */
	int64_t time_ns;
	uint64_t box;     /* 0: the store */
	const char *name; /* of the box at that time */
	const char *who, *action, *subject;
	cb_code code; /* CB_OK, or why it was refused */
	const char *message;
	uint64_t count; /* of the same refusal in a row */
} store_audit;

/* Inside a write transaction. A refusal equal to the newest one is counted there. The newest LIMIT_AUDIT_ROWS deeds and as many
 * refusals are kept. */
cb_code store_audit_put(store *s, const store_audit *a, cb_error *err);
typedef cb_code (*store_audit_visit)(void *context, const store_audit *a, cb_error *err);
/* Either deeds or refusals: newest first, those with id < below, at most limit. Visits as store_step_walk does. */
cb_code store_audit_walk(store *s, bool refused, uint64_t below, uint64_t limit, store_audit_visit visit, void *context,
                         cb_error *err);

/* ---- housekeeping ---- */

/* gc is driven from above, which knows what refers to what:
 *   store_gc_begin   raises the epoch (its own transaction); *out_horizon: what was born at or after it is kept
 *   ... mark, beside live writers ...
 *   store_gc_sweep   removes, in batches, each node / content with birth < horizon that `is_marked` denies
 * Only one gc at a time in a store (a lock): CB_BUSY. */
typedef struct store_gc_stats {
	uint64_t nodes_kept, nodes_freed, contents_kept, contents_freed, bytes_freed, segments_freed, owners_dead;
} store_gc_stats;
typedef bool (*store_gc_marked)(void *context, bool is_node, uint64_t id);
cb_code store_gc_begin(store *s, uint64_t *out_horizon, cb_error *err);
cb_code store_gc_sweep(store *s, uint64_t horizon, store_gc_marked is_marked, void *context, store_gc_stats *out, cb_error *err);
void store_gc_end(store *s); /* always, after a successful begin */

/* gc, prune, vacuum and backup exclude each other: CB_BUSY. begin takes it by itself. */
cb_code store_gc_lock(store *s, cb_error *err);
/* Waits for the others, LIMIT_UPKEEP_WAIT_MS at most; not for a call of its own thread, from which it is called back. */
cb_code store_gc_lock_wait(store *s, cb_error *err);
void store_gc_unlock(store *s);
/* Keeps them away while a store is read, which may be opened read-only: nothing that is seen is removed or moved before store_still_end,
 * which *out_fd is for. CB_BUSY. */
cb_code store_still_begin(store *s, int *out_fd, cb_error *err);
void store_still_end(store *s, int fd);

/* Gives space back to the filesystem: VACUUM of the database, live contents moved out of segments that are mostly dead. */
cb_code store_vacuum(store *s, cb_error *err);
/* A consistent copy of a live store in a new folder (must not exist). */
cb_code store_backup(store *s, const char *to_path, cb_error *err);

/* Every complaint is one line. fsck of the store's own things: SQLite's integrity check, sums of all nodes and contents, segments,
 * counters, rows that refer to nothing. Returns CB_OK when it could look, whatever it found. */
typedef void (*store_complain)(void *context, const char *line);
cb_code store_check(store *s, store_complain complain, void *context, cb_error *err);

typedef struct store_stats {
	uint64_t boxes, steps, nodes, node_bytes, contents, content_bytes, segments, segment_bytes, database_bytes, wal_bytes;
	uint64_t cache_bytes, cache_hits, cache_misses;
	bool page_sums; /* true also in memory, where nobody looks at any */
} store_stats;
cb_code store_stats_get(store *s, store_stats *out, cb_error *err);

/* Of the database engine; lives for ever. */
const char *store_engine_version(void);

#endif
