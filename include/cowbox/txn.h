/* txn.h: transactions: any number of calls as one step, all or nothing. */
#ifndef COWBOX_TXN_H
#define COWBOX_TXN_H

#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a step is recorded with. */
typedef struct cb_step_info {
	size_t struct_size;
	const char *kind;   /* NULL: "txn" */
	const void *params; /* NULL: none. Kept with the step; at most 1 MiB */
	size_t params_size;
	const void *result; /* at commit */
	size_t result_size;
	int64_t started_ns; /* 0: now */
	bool record;        /* record a step also when nothing changed (sh, exec, tool calls) */
} cb_step_info;

/* How a transaction begins. */
typedef struct cb_txn_options {
	size_t struct_size;
	const cb_step_info *step; /* NULL: none of it is said */
	cb_box *over;             /* an open older state of the same box to collect over; NULL: the newest */
} cb_txn_options;

/* Which side wins a conflict. */
typedef enum cb_prefer {
	CB_PREFER_NONE,
	CB_PREFER_OURS,
	CB_PREFER_THEIRS,
	/* The same two when a transaction is merged into its box. */
	CB_PREFER_BOX = CB_PREFER_OURS,
	CB_PREFER_TXN = CB_PREFER_THEIRS,
} cb_prefer;
/* A path that both sides changed. */
typedef struct cb_conflict {
	size_t struct_size;
	const char *path;   /* in ours, or in theirs when ours has none; "key 'NAME'" for a key-value */
	const char *reason; /* "changed on both sides", "deleted here, changed there", ... */
	/* The answers, for this path or for others, cannot all be kept: each alone may be, but together they leave what is here no place,
	 * or this path other than the side has it that was answered for (of a file in conflict by what it holds, and that a side moved:
	 * that file, wherever it is). It stays open, whatever is said now. */
	bool contradicts;
} cb_conflict;
typedef cb_code (*cb_conflict_visit)(void *context, const cb_conflict *conflict, cb_error *err);
/* An element of an array: as it is for good. */
typedef struct cb_resolution {
	const char *path; /* as cb_conflict gave it */
	cb_prefer prefer; /* CB_PREFER_NONE: undecided here, as if it were not listed */
} cb_resolution;

/* What becomes of a transaction that lost against what others committed. */
typedef enum cb_lost {
	CB_LOST_STAYS, /* it stays open: commit it again with resolutions, keep it, or drop it */
	CB_LOST_FORK,  /* it is kept as a fork, as cb_txn_keep() does, and is over; if that fails it stays open */
	CB_LOST_DROP,  /* it is over and nothing of it is left */
} cb_lost;

/* How a transaction is committed. */
typedef struct cb_commit_options {
	size_t struct_size;
	const cb_step_info *step; /* may be NULL; what is not NULL or 0 in it replaces what was given at begin */
	bool no_merge;            /* a box that moved meanwhile is a conflict even where the changes are disjoint */
	bool sync;                /* flush to disk before returning */
	cb_lost lost;
	cb_prefer prefer;                 /* for every conflict that `resolutions` leaves open */
	const cb_resolution *resolutions; /* for a path that is in no conflict, or in none once others are answered: not used */
	size_t resolution_count;
} cb_commit_options;

/* What came of it. */
typedef struct cb_commit_result {
	size_t struct_size;
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
 * they changed it alike (but lines of a text are merged, and folders made as parents unite). To write a file or to set a key is a
 * change, whatever the bytes: others may not have changed or removed it. To set times is one where neither side changed the data. So is
 * what a call relied on and is no longer so: an expected version, and the absence of a name for exclusive creation, mkdir by name, link,
 * symlink and rename without replacing; of a name that was free because the transaction took it from a file, that others moved no other
 * file there. Quotas hold as they are at commit. This is snapshot isolation without read sets: two transactions that each read what the
 * other wrote may both commit.
 *
 * Afterwards the transaction is over: close it; any other call on it is CB_INVALID (but see cb_txn_conflicts). Whatever failed, it stays
 * open (but see cb_lost), and the same call may be made again. On a box whose open files have writes under way these are committed, with
 * the same choices; CB_NOTHING when there are none. options and out may be NULL. */
CB_API cb_code cb_txn_commit(cb_box *txn, const cb_commit_options *options, cb_commit_result *out, cb_error *err);
/* The conflicts of the last commit that failed for them; also when the transaction is over by that (cb_lost), until the handle is
 * closed. None where it failed for no path: no_merge refuses a box that moved, whatever moved. Once these are answered others may come up,
 * which their answers make: then the next commit lists those. On a box: those of the last cb_undo or cb_redo that failed for them, or of a
 * commit of its open files' writes that lost them (cb_lost), until a step is made through this handle. CB_NOTHING: there is neither.
 * CB_INVALID: the transaction is over, and not by a conflict. */
CB_API cb_code cb_txn_conflicts(cb_box *txn, cb_conflict_visit visit, void *context, cb_error *err);
/* Ends it as a new box that starts where it began and has it as its first step. name NULL: one is made, "demo-conflict-7"; out may
 * be NULL. Such a box is marked (cb_box_info.lost) until it is renamed or changed, and a marked one is removed by gc after an age
 * (30 days; the store's setting "lost-days"). */
CB_API cb_code cb_txn_keep(cb_box *txn, const char *name, cb_commit_result *out, cb_error *err);
/* Ends it; nothing happened. On a box: drops the writes that its open files have under way. */
CB_API cb_code cb_txn_drop(cb_box *txn, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
