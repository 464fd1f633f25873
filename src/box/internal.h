/*
 * internal.h: what the files of this layer share: states, transactions, handles, inodes.
 *
 * Reading: every read goes through a tree_view: the head state (root + overlay), plus the running transaction's delta when there is
 * one. Writing: every change goes into a transaction's delta. A call outside a transaction makes one of its own, under the store's
 * writer lock from the start, so it can never conflict; an explicit one collects without any lock and is applied, or merged, at
 * commit.
 *
 * Locks: cb_box.lock is taken by every public call on a handle and held to its end; the store's locks are taken after it.
 */
#ifndef BOX_INTERNAL_H
#define BOX_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/entry.h"
#include "box/box.h"
#include "box/record.h"
#include "store/store.h"

/* ---- states ---- */

/* One immutable content of a box. Shared by reference count; any thread may read it. */
typedef struct state {
	_Atomic uint32_t refs;
	uint64_t id; /* never reused */
	uint64_t box, seq;
	uint64_t root, root_box, root_seq; /* the kept root it is built on, and the step that keeps it */
	pmap overlay;                      /* changes since root */
	uint64_t weight;                   /* of the steps since root */
} state;

state *state_ref(state *s);
void state_unref(state *s);
static inline void state_auto_(state **s)
{
	state_unref(*s);
}
#define AUTO_STATE ATTR_CLEANUP(state_auto_)
/* The state after a step: nearest kept root plus changes. CB_NOTFOUND: no such step; CB_STALE: pruned. */
cb_code state_load(cb_store *cs, uint64_t box, uint64_t seq, state **out, cb_error *err);
/* The same, quicker for a head that this process has seen. */
cb_code state_load_known(cb_store *cs, uint64_t box, uint64_t seq, state **out, cb_error *err);
/* The same for one at or after `near` in the same box, which is kept: who goes through the steps of a box reads each of them once. */
cb_code state_load_near(cb_store *cs, uint64_t box, uint64_t seq, const state *near, state **out, cb_error *err);
/* Does its root's step still keep that root? If not, gc may have freed it: load the state again. */
cb_code state_stands(cb_store *cs, const state *s, bool *out, cb_error *err);
/* The same state on a root that is kept now. Under the writer lock gc then leaves all that it holds. CB_STALE: its step was pruned. */
cb_code state_settle(cb_store *cs, state *known, state **out, cb_error *err);
/* The state a head row describes, reusing `known` (NULL: the one remembered) when only steps were added to it. Consumes nothing. */
cb_code state_load_head(cb_store *cs, uint64_t box, const store_head *head, state *known, state **out, cb_error *err);
/* What step 0 of a fork weighs: a level of origins costs about as much to open as so many key changes. */
enum { FORK_WEIGHT = 16 };
/* Step 0 of a box that is no fork; and of a fork, the same content as its origin. NULL: no memory. */
state *state_furnished(const store_box *row);
state *state_fork(const state *origin, uint64_t box);
/* The state before a step whose predecessor was pruned: the step's own list of changes, taken back. */
cb_code state_before_gap(cb_store *cs, const state *after, state **out, cb_error *err);
/* Inside a write transaction: makes sure that step keeps a root, so that it can be opened without the steps before it. */
cb_code state_keep_root(cb_store *cs, uint64_t box, uint64_t seq, cb_error *err);

/* ---- states in use (kept.c) ---- */

typedef enum kept_why {
	KEPT_CALL, /* the head, while a call reads it */
	KEPT_OPEN, /* a handle on an old state */
	KEPT_TXN,
	KEPT_FILE,
	KEPT_VISIT, /* what a visitor is shown */
	KEPT_COMMAND,
	KEPT_PACK,
} kept_why;

/* As a step: no step of the box is pruned. */
#define KEPT_ALL_STEPS STORE_ALL_STEPS

/* A state that prune and gc leave alone until kept_done. States that are read outside the writer lock are held, or are the head of a handle
 * between box_enter and box_leave. Zero: nothing is held. */
typedef struct kept_state {
	cb_store *cs;
	state *s;
	store_use *use; /* NULL: there is no table (read-only, in a folder that cannot be written): the state may become CB_STALE */
} kept_state;
/* Loads the state after a step and keeps it, in place of what h held before: quickly when that is the state after an earlier step of the
 * same box. CB_NOTFOUND: no such step; CB_STALE: pruned before. */
cb_code kept_load(kept_state *h, cb_store *cs, uint64_t box, uint64_t seq, kept_why why, cb_error *err);
/* The same for a state that was known before, but not kept since. */
cb_code kept_known(kept_state *h, cb_store *cs, state *known, kept_why why, cb_error *err);
/* Keeps a state that another of these, the call on its handle, or the writer lock keeps meanwhile. In place of what h held before. */
cb_code kept_set(kept_state *h, cb_store *cs, state *s, kept_why why, cb_error *err);
/* The same, and all steps of its box that are there when it returns: from before one of them is chosen. */
cb_code kept_history(kept_state *h, cb_store *cs, state *s, kept_why why, cb_error *err);
void kept_done(kept_state *h);
#define AUTO_KEPT ATTR_CLEANUP(kept_done)
/* The handle's head from now on, to the end of the call. */
cb_code kept_call(cb_box *b, cb_error *err);
void kept_call_end(cb_box *b);
/* States in use (store_used): those that a removal must spare, inside a write transaction; outside of one, those of the moment. */
cb_code kept_uses(cb_store *cs, buf *out, cb_error *err);
/* Likewise: appends the steps of a box that are in use or pinned, and sorts seqs. *out_all: no step may go. */
cb_code kept_keepers(cb_store *cs, uint64_t box, buf *seqs, bool *out_all, cb_error *err);
/* For gc, once roots were dropped and heads settled: appends the roots (uint64_t) of all states in use. */
cb_code kept_roots(cb_store *cs, buf *roots, cb_error *err);

enum { KNOWN_HEADS = 64 };

/* A name that was once given to cb_store_who_set. */
typedef struct store_who {
	struct store_who *next;
	char name[];
} store_who;

struct cb_store {
	_Atomic uint32_t refs; /* the caller's, and one for each handle of a box */
	store *s;
	tree_nodes nodes;
	struct gate *gate;
	/* Heads as last seen by any handle, so that opening or forking a box in use replays nothing. Only a start: whoever takes one
	 * compares it with the head's row. */
	pthread_mutex_t known_lock;
	state *known[KNOWN_HEADS];
	_Atomic(store_who *) who;  /* NULL: "" */
	_Atomic(store_who *) whos; /* all that were given, freed at the end */
};

void box_store_unref(cb_store *cs);

/* Whom calls on the store are recorded for. Lent until the store is closed. */
const char *box_store_who(cb_store *cs);

void state_remember(cb_store *cs, state *head);
void state_forget_all(cb_store *cs);

static inline void tree_cursor_auto_(tree_cursor **c)
{
	tree_cursor_close(*c);
}
#define AUTO_CURSOR ATTR_CLEANUP(tree_cursor_auto_)

/* All there is, whoever looks: not for what leaves the box (gate.h). */
static inline tree_view state_view(const cb_store *cs, const state *s)
{
	return (tree_view){&cs->nodes, s->root, &s->overlay, NULL, NULL};
}

/* ---- transactions ---- */

typedef struct local_content {
	buf bytes;
	uint64_t stored; /* its number once it was put into the store, else 0 */
} local_content;

typedef struct txn {
	cb_store *cs;
	cb_box *b;
	state *base;
	kept_state kept; /* the base, of one that outlives a call; empty: the writer lock keeps it */
	pmap delta;
	counters now;    /* of the box with delta applied */
	counters began;  /* the same when the call began that changes it */
	uint32_t serial; /* of the process: what its contents in memory are numbered by */
	local_content *locals;
	size_t local_count, local_capacity;
	uint64_t local_bytes;            /* in memory, not yet stored */
	uint64_t owner;                  /* keeps early contents from gc */
	uint64_t epoch;                  /* of the store when it began */
	unsigned era;                    /* (entry.h) of the process that began it: a forked child must not commit it too */
	bool explicit_;                  /* cb_txn_begin; otherwise one call, or the running step of open files */
	bool in_write;                   /* the store's write transaction is open and ends with it, and base is the head */
	bool inside_write;               /* the same, but the write transaction is another's: it is made and dropped inside it */
	int64_t now_ns;                  /* the time all changes of one call carry */
	int64_t began_ns, last_write_ns; /* of a running step: when it ends (running_end) */
	uint64_t quota_bytes, quota_files, quota_file_bytes;
	char *kind;
	char *params, *result; /* bytes, and a NUL after them */
	size_t params_size, result_size;
	int64_t started_ns;
	bool record;
	store_need need; /* of the write transaction that commits it */
	bool is_account; /* of what a program did already: its need does not depend on its calls */
	uint64_t target, other_box, other_seq;
	buf expected;               /* what its calls relied on (expect.c) */
	pmap written;               /* what its calls wrote, with whatever bytes (expect.c): inode keys and keys of key-values */
	struct veil *veil;          /* of its view (gate.h); NULL: none was needed yet */
	pmap passed;                /* the changes that the gate let pass, */
	uint64_t passed_version;    /* under rules of that version, for who its handle is; 0: not for him */
	buf lost;                   /* lost_path: what the last commit failed for */
	uint64_t refused;           /* the state that it cannot be merged with as it is, without answers; 0: not known */
	bool rebases;               /* it may be moved onto a later head when what others did does not meet it (rebase.c), */
	uint64_t source;            /* and nothing in that folder, which it went by; 0: none. */
	bool closes;                /* other_seq says that nothing lies between it and its target */
	struct folder_news *folder; /* what its commit tells of the box's own folder (folder_news.c); NULL: nothing */
} txn;

typedef struct lost_path {
	char *path;
	const char *reason; /* static */
	bool contradicts;
} lost_path;

cb_code txn_create(cb_box *b, const char *kind, const char *params, txn **out, cb_error *err);
/* One that outlives the call: the writer lock is not held meanwhile. */
cb_code txn_create_unlocked(cb_box *b, const char *kind, const char *params, txn **out, cb_error *err);
/* Keeps its base from prune and gc from now on, and whatever becomes its base later. */
cb_code txn_base_keep(txn *t, cb_error *err);
/* The same content on another root, or as another step; kept by somebody, or by the writer lock. */
cb_code txn_base_set(txn *t, state *base, cb_error *err);
void txn_destroy(txn *t); /* accepts NULL */
/* What a transaction had at a moment, to go back to: what was done since is then as if it had never been. */
typedef struct txn_point {
	pmap delta;
	counters now;
	size_t locals, expected;
	pmap written;
} txn_point;
txn_point txn_point_take(const txn *t);
void txn_point_back(const txn_point *p, txn *t);
void txn_point_done(txn_point *p);
static inline void txn_auto_(txn **t)
{
	txn_destroy(*t);
}
#define AUTO_TXN ATTR_CLEANUP(txn_auto_)
/* The bounds of a box, as its row has them. They are about what a call leaves behind, not about its way there (txn_quotas_hold). */
static inline void txn_quotas_set(txn *t, const store_box *row)
{
	t->quota_bytes = row->quota_bytes;
	t->quota_files = row->quota_files;
	t->quota_file_bytes = row->quota_file_bytes;
}
cb_code txn_field_set(char **field, size_t *size, span bytes, cb_error *err); /* size may be NULL */
/* Kind, parameters, result and flags from the caller; NULL: nothing. */
/* A step's description of the caller's into ours; NULL says nothing. */
cb_code step_info_take(cb_step_info *to, const cb_step_info *from, cb_error *err);
cb_code txn_fields(txn *t, const cb_step_info *info, cb_error *err);
/* What its handle may see; and all there is (see gate.h). */
tree_view txn_view(const txn *t);
tree_view txn_raw(const txn *t);
cb_code txn_get(const txn *t, const key *k, tree_value *out, cb_error *err);
cb_code txn_put(txn *t, const key *k, const tree_value *v, cb_error *err);
cb_code txn_delete(txn *t, const key *k, cb_error *err);
/* Without bounds, until txn_quotas_set. */
static inline void txn_quotas_lift(txn *t)
{
	t->quota_bytes = t->quota_files = t->quota_file_bytes = 0;
}
/* Counters. CB_QUOTA: so much that the end of the call cannot hold the bounds. */
cb_code txn_count(txn *t, int64_t files, int64_t bytes, cb_error *err);
cb_code box_refuse_bytes(cb_error *err); /* CB_LIMIT: more than LIMIT_BOX_BYTES */
/* May a file have so many bytes? One that does not grow may. CB_QUOTA. */
cb_code txn_file_fits(const txn *t, uint64_t ino, uint64_t size, cb_error *err);
/* Do the bounds of the box hold? What adds nothing to what there was before always passes. CB_QUOTA. */
cb_code txn_counters_hold(const txn *t, const counters *before, cb_error *err);
/* The same for the whole transaction, and for each of its files. */
cb_code txn_quotas_hold(const txn *t, cb_error *err);
/* Bytes that a record, extent or value will refer to; 1..LIMIT_CONTENT_BYTES of them. */
cb_code txn_content_add(txn *t, span bytes, uint64_t *out, cb_error *err);
/* Puts contents into the store early when many wait in memory. Call it where no value is half written. */
cb_code txn_relieve(txn *t, cb_error *err);
/* What a record held is referred to by nothing any more: contents that are still in memory go. since: the local_count from which on they
 * may; what was there before would be missed when the call is taken back. */
void txn_content_forget(txn *t, const record *r, size_t since);
/* The local content that may still grow at its end, or NULL. */
local_content *txn_content_local(txn *t, uint64_t content);
/* Adds t to a box as its next step, inside a write transaction; t->base must be that box's head. *out is the new head. */
cb_code txn_append(txn *t, uint64_t box, const char *who, state **out, cb_error *err);
/* The same in two halves, for what would keep others waiting. Outside any write transaction: writes contents and nodes in small ones of
 * their own, kept from gc by t's owner; then inside one, with t->base still the head: a few rows. */
typedef struct prepared prepared;
bool txn_is_large(const txn *t);
/* Of nodes or contents under one hold of the writer lock: a few milliseconds. More is put into the store ahead of a commit. */
enum { TXN_AHEAD_BYTES = 1 << 18 };
cb_code txn_prepare(txn *t, uint64_t box, prepared **out, cb_error *err);
cb_code txn_append_prepared(txn *t, prepared *p, uint64_t box, const char *who, state **out, cb_error *err);
void prepared_destroy(prepared *p); /* accepts NULL */
/* What was prepared, over t's new base, to which `changes` led from the old one, with what t has in place of its own values since. *p NULL
 * afterwards: it is to be prepared anew. Also inside a write transaction. */
cb_code prepared_move(txn *t, prepared **p, uint64_t state_id, const pmap *changes, cb_error *err);
/* The number of a state, also inside a write transaction. */
cb_code txn_number_take(txn *t, uint64_t *out, cb_error *err);
/* Moves t, and what was prepared of it, onto b->head, if what others did since t's base does not meet it: else *out_done is false and t
 * is as it was. relied (may be NULL): whose expectations must not be touched either. Inside a write transaction or not. After an error
 * t is of no use. */
enum { REBASE_STEPS = 1 << 14 }; /* of others: for more it is not asked */
cb_code txn_rebase(cb_box *b, txn *t, prepared **p, const txn *relied, bool *out_done, cb_error *err);
/* What t sees as a root, under a state's number that is taken for it; nobody refers to it yet. Outside any write transaction; t's owner
 * keeps it from gc. Contents of t must be in the store. */
cb_code txn_root_ahead(txn *t, uint64_t *out_state, uint64_t *out_root, cb_error *err);
/* What a view of t needs besides its delta when t may change or end meanwhile: a transaction that has copies of the contents that t has in
 * memory, by the same numbers, and nothing else. At most some 8 MiB: t puts more than that into the store, and those are kept from gc as
 * long as the picture is. txn_destroy() it. wanted (size_t, indices): only these of them; NULL: all. */
cb_code txn_picture(const txn *t, const buf *wanted, txn **out, cb_error *err);
/* Puts all contents that wait in memory into the store, in write transactions of its own. */
cb_code txn_contents_store(txn *t, cb_error *err);
/* Does that when they are more than others should wait for: before the write transaction that commits t. */
cb_code txn_lighten(txn *t, cb_error *err);
/* A number that a content has in t only becomes the one that it has in the store, into which it is put first. */
cb_code txn_content_settle(txn *t, uint64_t *content, cb_error *err);
/* Nothing refers to the contents of t any more by the numbers that they have in t: it forgets them, and gives others from now on. */
void txn_locals_forget(txn *t);
/* Inside a write transaction: gives every content that waits in memory its number. */
cb_code txn_locals_put(txn *t, cb_error *err);
/* After it: whether they may keep these numbers. */
void txn_locals_settle(txn *t, bool committed);
/* Does it change nothing? Contents that are still in memory count as new. */
cb_code txn_is_empty(txn *t, bool *out, cb_error *err);
/* The delta with contents numbered but versions open, as one side of a merge. Inside a write transaction. pmap_done() it. */
cb_code txn_sealed_delta(txn *t, pmap *out, cb_error *err);
/* Commits t as the box's next step, merged with what others did meanwhile. Consumes nothing: after a failure t is as it was. b->head
 * becomes the new state. how->lost is the caller's to obey. how may be NULL. (commit.c) */
cb_code txn_commit(cb_box *b, txn *t, const cb_commit_options *how, cb_commit_result *out, cb_error *err);
/* Commits t if its base is still the head; otherwise *out_moved, and nothing happened. */
cb_code txn_commit_exact(cb_box *b, txn *t, bool *out_moved, cb_commit_result *out, cb_error *err);
/* Makes t the first step of a new box, marked as kept. name NULL: one is made. */
cb_code txn_fork(cb_box *b, txn *t, const char *name, cb_commit_result *out, cb_error *err);
cb_code lost_paths_add(buf *lost, const char *path, const char *reason, bool contradicts, cb_error *err);
void lost_paths_forget(buf *lost);
/* b->lost, which the caller filled, is what cb_txn_conflicts lists. */
void box_lost_listed(cb_box *b);
bool box_lists_lost(const cb_box *b);
void box_lost_forget(cb_box *b);

/* What a call relied on, to be looked at again at commit (expect.c). r is what was resolved in t. */
struct resolved;
cb_code expect_absent(txn *t, const struct resolved *r, cb_error *err);
cb_code expect_version(txn *t, const struct resolved *r, uint64_t version, cb_error *err);
/* What a call writes, a file by key_inode() or a key-value: it has changed, also where it ends as it began. */
cb_code expect_written(txn *t, const key *k, cb_error *err);
/* Is one of them about one of these inodes, or about one of these keys? */
cb_code expectations_touched(const txn *t, const uint64_t *inos, size_t count, const pmap *keys, bool *out, cb_error *err);
/* Those beyond that size of t->expected: of a call that is taken back. */
void expectations_drop(txn *t, size_t size);
void expectations_done(txn *t);

/* Reads a content of the store or of t (may be NULL). */
cb_code content_read(const cb_store *cs, const txn *t, uint64_t content, uint64_t offset, void *to, size_t size, cb_error *err);

/* ---- handles ---- */

/* Edges of a box's history that were undone at once, each undo right after what it took back (past.c): from the newest of these undos, to
 * the step below the oldest edge, of that order. from 0: none. */
typedef struct past_run {
	uint64_t from, to, order;
} past_run;

/* The open files of a handle (open_files.c). */
typedef struct open_files {
	cb_file *all, *loose; /* lists */
	cb_file **by_ino;
	size_t count, slots;
	kept_state kept;  /* the head that those follow which it has; shown while there are such. Empty: it is not known */
	size_t followers; /* of it */
	uint64_t seq;     /* its number; another: they are to be looked at in any case */
} open_files;

struct cb_box {
	_Atomic uint32_t refs; /* the handle's own, and one for each cursor that was opened on it */
	entry_lock lock;
	unsigned era; /* of forks: a child makes the handle its own with its first call (handle.c) */
	cb_store *cs;
	uint64_t id;     /* of the box */
	store_box row;   /* as last read, with the lock; its head is not kept up to date, `head` is */
	bool pinned;     /* one state, read-only */
	state *head;     /* the newest known, or the pinned one */
	kept_state kept; /* the pinned one */
	store_use *call; /* shows the head while a call runs */
	unsigned depth;  /* calls under way, one inside the other */
	uint64_t stamp;  /* of head, for store_fresh */
	txn *txn;        /* a transaction's own, or the running step of open files; NULL: none */
	bool is_txn;     /* cb_txn_begin's: without a txn it is over */
	/* lost_path: what its last commit failed for, when the transaction is over by that, or its last undo. */
	buf lost;
	bool has_lost;       /* there is such a list, perhaps an empty one; */
	uint64_t lost_after; /* of a box: as long as this is the newest step made through the handle */
	bool closed;         /* by the caller; what is left waits for its open files and for calls that closed it from inside */
	bool is_over;        /* nothing is left but what cursors count */
	char *who;           /* with the lock: another thread may set another */
	char *recorded_for;  /* who its steps are said to be of, other than who asks; NULL: the same */
	/* Does a rule lie in the box, for `who`? As of that version of the rules (gate_version); without one views have no veil. */
	bool ruled;
	uint64_t ruled_version;
	struct veil *veil; /* of box_view; NULL: none was needed yet */
	open_files files;
	unsigned changing;         /* inside op_begin and op_end */
	_Atomic uint64_t last_seq; /* the newest step made through this handle; 0: none */
	/* Of the last undo that chose its step itself (undo_choice.c): its number, if it became one; its step; what was cancelled below. */
	uint64_t undo_seq, undo_target;
	bool undo_passed;
	past_run undone;    /* of its box, as the last merge met it */
	buf undo_cancelled; /* uint64_t */
	/* Steps between automatic checkpoints as of a stamp of the catalog. */
	uint64_t every, every_stamp;
	bool every_known;
	/* Of a draft: what keeps it from gc, the process that made it, and the name to be, which its transactions know too. 0: none. */
	uint64_t draft_owner;
	unsigned draft_era;
	char draft_name[CB_NAME_MAX + 1];
	char base_of[CB_NAME_MAX + 1]; /* of a folder's base (folder_base.c): whose it is, for messages. "": it is none */
	/* Calls that use it still, whoever closed it (BOX_STAYS). */
	_Atomic unsigned stays;
};

/* Locks, and no more; box_leave() it, which also ends a handle that was closed meanwhile. Only the caller's limit makes it fail, and in a
 * child of fork() CB_FORKED: it is a transaction or a draft of the parent's, or another thread was in a call on it. */
cb_code box_lock(cb_box *b, cb_error *err);
/* To close it: what is the parent's too, but not what was half changed at the fork, which is not taken apart. */
cb_code box_lock_last(cb_box *b, cb_error *err);
/* Locks, ends a running step that has been quiet, brings the head up to date. Every box_enter needs its box_leave. */
cb_code box_enter(cb_box *b, cb_error *err);
cb_code box_leave(cb_box *b, cb_code code);
/* Between enter and leave: what the handle may see. */
tree_view box_view(const cb_box *b);
cb_code box_refresh(cb_box *b, cb_error *err);
/* After a commit through the handle, or another end of its running step: what is read on in this call, or through open files, is the new
 * head. */
void box_committed(cb_box *b);
/* Commits the running step of open files, if there is one (not an explicit transaction). */
cb_code box_flush(cb_box *b, bool sync, cb_error *err);
/* What the handle sees now, for longer than a call: a visitor or the holder of a cursor may change the box meanwhile, and close it. Take
 * between enter and leave. It must not move afterwards. */
typedef struct snapshot {
	kept_state base;
	pmap delta;
	tree_view v;
	struct veil *veil; /* of v; NULL: no rule lay in the box */
	txn *t; /* where contents that are only in memory are found, a copy (txn_picture); NULL: none are. snapshot_take leaves it NULL */
} snapshot;
cb_code snapshot_take(const cb_box *b, snapshot *out, cb_error *err);
/* The same moment: also what is in the transaction's memory of the values of keys with that prefix. */
cb_code snapshot_contents(snapshot *s, const cb_box *b, span prefix, cb_error *err);
void snapshot_done(snapshot *s);
#define AUTO_SNAPSHOT ATTR_CLEANUP(snapshot_done)

/* Open files keep the last picture that had them: what is about to go by this handle's own unlink; the head, each time it is another one
 * and has them still. */
void files_before_unlink(cb_box *b, uint64_t ino);
void files_after_refresh(cb_box *b);
/* The running step is not committed, nor kept: cb_close of what was written in it tells. */
void files_lose_step(cb_box *b);
/* The handle is about to be closed: what was written to files that were gone lands in those that are back, or their cb_close tells. */
void files_settle_last(cb_box *b);
/* In a child of fork(): what they keep is kept for this process; what the parent wrote and did not commit is its own. */
cb_code files_adopt(cb_box *b, cb_error *err);

/* CB_READONLY on a state's handle, recorded. */
cb_code box_refuse_pinned(cb_box *b, const char *kind, const char *params, cb_error *err);
/* The handle is of no use any more and no file of it is open. Cursors may be: what identifies it stays until they are closed. */
void box_destroy(cb_box *b);

/* A handle made from rows already read. */
cb_code box_handle_create(cb_store *cs, const store_box *row, cb_box **out, cb_error *err);
/* "demo@7" taken apart and looked up. *out_seq is the step meant; *out_pinned tells whether one was named. */
cb_code box_address(cb_store *cs, const char *address, store_box *out_box, uint64_t *out_seq, bool *out_pinned, cb_error *err);
/* The row of the handle's box as it is now. CB_NOTFOUND: it was deleted, and perhaps collected. */
cb_code box_living(const cb_box *b, store_box *out, cb_error *err);
/* store_write_begin_as for what hangs on the handle's box besides its steps: settings, checkpoints, pins, its folder and base, quotas.
 * CB_NOTFOUND, and nothing was begun, when the box is deleted: such rows would outlive it. A state's handle may be open on a box that
 * is gone, and any box may go between two calls, so whoever writes such rows begins here. Steps are held by box_refresh. */
cb_code box_write_begin(const cb_box *b, store_need need, cb_error *err);
/* Is there a box of that number? (outside.c) */
cb_code box_lives(cb_store *cs, uint64_t id, bool *out, cb_error *err);
cb_code box_name_check(const char *name, bool checkpoint, cb_error *err);
cb_code box_insert(cb_store *cs, const char *name, const state *origin, store_box *out, cb_error *err);
/* A box whose step 0 is that state, on a root of its own, without an origin. */
cb_code box_insert_at(cb_store *cs, const char *name, uint64_t state_id, uint64_t root, store_box *out, cb_error *err);

/* ---- the hidden companion of a box: what its host folder holds (folder_base.c) ---- */

cb_code box_base_find(cb_store *cs, uint64_t box, store_box *out, cb_error *err); /* CB_NOTFOUND */
/* Inside a write transaction, with its box: */
cb_code box_base_fork(cb_store *cs, uint64_t from_box, uint64_t to_box, cb_error *err);
cb_code box_base_delete(cb_store *cs, uint64_t box, cb_error *err);
/* A base where there is none, as who uses b sees that state. Of it only the map and its number matter. */
cb_code box_base_insert_seen(const cb_box *b, const state *from, cb_error *err);
/* As box_folder_set. */
cb_code box_folder_put(cb_box *b, const char *host_path, const char *box_path, cb_error *err);
/* Not to be listed, counted or addressed: a base, or a draft. */
bool box_is_hidden(const store_box *row);
/* What the box of a handle is called: its row's name, of a draft the one that it will have. */
const char *box_called(const cb_box *b, const store_box *row);
bool box_is_base(const store_box *row);
/* Under the gc lock: drops all steps of a base but the newest. */
cb_code box_prune_hidden(cb_store *cs, const store_box *row, cb_error *err);

/* What the commit of an import says of the box's own folder (folder_news.c). End it with folder_news_done(). */
typedef struct folder_news {
	const box_folder_news *says;
	txn *picture;    /* what the folder holds: the import's delta over its base, less what only the box has */
	uint64_t epoch;  /* of the import */
	cb_box *base;    /* NULL: there was none */
	txn *change;     /* of the base, to the picture */
	prepared *ahead; /* of change; NULL: it is small */
	bool has_root;   /* of the picture: a new base begins there */
	uint64_t state, root;
} folder_news;
/* Outside any write transaction, once; t is the import. */
cb_code folder_news_prepare(folder_news *f, txn *t, cb_error *err);
/* The same: the picture will not be the box's next state, because others' work is merged. */
cb_code folder_news_apart(folder_news *f, cb_error *err);
/* Inside the write transaction that makes the import's step. head: the state after it; NULL: the import changed nothing. */
cb_code folder_news_put(folder_news *f, const state *head, cb_error *err);
void folder_news_done(folder_news *f);

/* Into t, over whose base it leads to `from`. seen_only: by name, what `from` hides stays. (restore.c) */
cb_code restore_state(txn *t, const tree_view *from, bool seen_only, cb_error *err);

/* Inside a write transaction: a box that was linked as a draft, which no folder can have, becomes its folder's. (folder.c) */
cb_code box_folder_publish(cb_box *b, cb_error *err);

/* ---- boxes that hold what lost (lost.c) ---- */

/* Inside a write transaction: the box holds a transaction that was kept; seq is its newest step. */
cb_code box_lost_mark(cb_store *cs, uint64_t box, uint64_t seq, cb_error *err);
/* The mark is gone: somebody takes the box for his own. Inside a write transaction. */
cb_code box_lost_clear(cb_store *cs, uint64_t box, cb_error *err);
/* Is it marked, and as it was kept? */
cb_code box_lost(cb_store *cs, const store_box *row, bool *out, cb_error *err);
/* For gc: deletes the marked boxes that are older than the store's "lost-days". */
cb_code box_lost_reap(cb_store *cs, cb_error *err);

/* ---- boxes that are filled before they are seen (draft.c) ---- */

/* At the end of the handle: a draft that was not published goes. */
void box_draft_drop(cb_box *b);
/* For gc: marks the box as deleted when it is a draft whose owner is gone. */
cb_code box_draft_reap(cb_store *cs, const store_box *listed, cb_error *err);

/* As box_setting_set, of the store. All of these join the calling thread's write transaction, if one is open. */
cb_code box_store_setting_set(cb_store *cs, const char *name, const char *value, cb_error *err);
cb_code box_store_setting_get(cb_store *cs, const char *name, char **out, cb_error *err);

/* Records a call that was refused, if code is a refusal, whatever becomes of that; returns code. Not inside a write transaction. */
cb_code box_refused(cb_box *b, const char *action, const char *subject, cb_code code, const cb_error *why);

/* Steps between automatic checkpoints; 0: none. */
#define BOX_EVERY_SETTING "cowbox.checkpoint-every"
cb_code box_checkpoint_every(cb_store *cs, uint64_t box, uint64_t *out, cb_error *err);
/* What the automatic checkpoint of a step is called. */
void box_checkpoint_auto_name(uint64_t seq, char out[CB_NAME_MAX + 1]);
/* Inside the write transaction of a step of b's box: its checkpoint, when it is time for one. */
cb_code box_checkpoint_auto(cb_box *b, uint64_t seq, cb_error *err);

/* Removes what other layers kept beside the store for boxes that are gone, as far as it can. (side_files.c) */
void box_side_files_drop(cb_store *cs);

/* Opens the store below a cb_store: for tests that inject faults or a clock. */
cb_code box_store_open(cb_store *cs, const store_options *options, cb_error *err);

/* ---- one changing call ---- */

/*
 *   op o;
 *   CB_TRY(op_begin(&o, box, "mkdir", path, err));
 *   return op_end(&o, do_it(o.t, ...), NULL, err);
 *
 * Inside an explicit transaction a failing call leaves the transaction as it was before the call.
 */
typedef struct op {
	cb_box *b;
	txn *t;
	bool own;
	bool begins;                /* the running step, which is its first */
	txn_point saved;            /* before the call */
	const char *kind, *subject; /* lent by the caller of op_begin until op_end */
} op;
cb_code op_begin(op *o, cb_box *b, const char *kind, const char *params, cb_error *err);
/* As op_begin, for calls that take away, take back or record: on a full disk they may use what is kept for them. */
cb_code op_begin_as(op *o, cb_box *b, store_need need, const char *kind, const char *params, cb_error *err);
/* As op_begin, without the writer lock: op_end merges with what others did meanwhile, or fails with CB_CONFLICT. */
cb_code op_begin_unlocked(op *o, cb_box *b, const char *kind, const char *params, cb_error *err);
/* As op_begin, for writes through an open file: joins or starts the handle's running step. */
cb_code op_begin_running(op *o, cb_box *b, const char *kind, const char *params, cb_error *err);
cb_code op_end(op *o, cb_code code, cb_commit_result *out, cb_error *err);
/* A changing call that may take long: body is run over the newest state without the writer lock, and once more when others were faster
 * and their work meets it (rebase.c; body says by txn.rebases that this may be asked); the fourth time the lock is held. So body may be
 * called several times, each time with a fresh transaction. */
typedef cb_code (*op_body)(op *o, void *context, cb_error *err);
cb_code op_run(cb_box *b, store_need need, const char *kind, const char *params, op_body body, void *context, cb_commit_result *out,
               cb_error *err);
/* One that writes so many bytes: as op_run where others would wait for them, else under the lock. */
cb_code op_run_bytes(cb_box *b, size_t size, const char *kind, const char *params, op_body body, void *context,
                     cb_commit_result *out, cb_error *err);

/* ---- inodes ---- */

typedef struct inode {
	record rec;
	key where; /* the key that holds the record: D or I */
} inode;

/* CB_NOTFOUND without a message: an answer. is_link may be NULL. */
cb_code inode_at(const tree_view *v, uint64_t parent, span name, inode *out, bool *is_link, cb_error *err);
cb_code inode_find(const tree_view *v, uint64_t ino, inode *out, cb_error *err);
cb_code inode_save(txn *t, const inode *node, cb_error *err);

/* One name of an inode: the folder that it is in, and what it is called there. The root has none. */
typedef struct place {
	uint64_t parent;
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} place;
static inline span place_name(const place *p)
{
	return span_make(p->name, p->size);
}
/* By parent and name, as their keys are; for bsearch(). */
int place_compare(const void *a, const void *b);
/* The inode's first. CB_NOTFOUND for the root and unknown inodes. */
cb_code inode_place(const tree_view *v, uint64_t ino, place *out, cb_error *err);
/* All of them, sorted; appended to out. */
cb_code inode_places(const tree_view *v, uint64_t ino, buf *out, cb_error *err);
/* From a folder upwards. Folders may be nested deeper than any path can say, so a cycle (damage) is told by coming back to a place,
 * not by the number of folders passed. */
typedef struct climb {
	uint64_t at;
	uint64_t mark, steps, turn;
} climb;
static inline climb climb_from(uint64_t ino)
{
	return (climb){.at = ino, .turn = 1};
}
/* at becomes the parent; *out (NULL: nobody asks) the place that was left. CB_NOTFOUND as inode_place; CB_CORRUPT in a cycle. */
cb_code climb_up(climb *c, const tree_view *v, place *out, cb_error *err);
/* The absolute path by its first link; appended to out and NUL-terminated (the NUL is not counted). CB_NOTFOUND when detached. */
cb_code inode_path(const tree_view *v, uint64_t ino, buf *out, cb_error *err);
/* The other way: by names alone, no link is followed. CB_NOTFOUND. */
cb_code inode_by_path(const tree_view *v, const char *path, uint64_t *out, cb_error *err);
/* A new inode of that type linked at (parent, name), which must not exist. */
cb_code inode_create(txn *t, uint64_t parent, span name, cb_type type, uint32_t mode, inode *out, cb_error *err);
/* Takes away one link; the last one takes the data, attributes and tags with it. */
cb_code inode_unlink(txn *t, uint64_t parent, span name, cb_error *err);
/* A further name; the record moves under I. */
cb_code inode_link(txn *t, inode *node, uint64_t parent, span name, cb_error *err);
/* One link from one free place to another. */
cb_code inode_move(txn *t, uint64_t parent, span name, uint64_t to_parent, span to_name, cb_error *err);
/* All X, A or T keys of an inode. */
cb_code inode_delete_keys(txn *t, uint64_t ino, uint8_t kind, cb_error *err);
/* Changes of the entries of a folder: its times and version. */
cb_code inode_touch_dir(txn *t, uint64_t ino, cb_error *err);
/* Access and modification time, if they differ. */
cb_code inode_times_set(txn *t, uint64_t ino, int64_t atime_ns, int64_t mtime_ns, cb_error *err);
/* Marks a changed file or folder: version and ctime (and mtime when the data or the entries changed). */
void inode_changed(const txn *t, inode *node, bool data);
/* The same for a file whose data a call writes, with whatever bytes. */
cb_code inode_written(txn *t, inode *node, cb_error *err);
/* Every key that belongs to the inode itself (X, A, T), each as (key, value). */
typedef cb_code (*inode_key_visit)(void *context, span key_bytes, span value, cb_error *err);
cb_code inode_keys(const tree_view *v, uint64_t ino, uint8_t kind, inode_key_visit visit, void *context, cb_error *err);
cb_code inode_is_dir_empty(const tree_view *v, uint64_t ino, bool *out, cb_error *err);

/* Recursive removal and copy; `from` is a view that does not change meanwhile. Contents are shared. */
cb_code tree_remove(txn *t, uint64_t parent, span name, const inode *node, cb_error *err);
cb_code tree_copy(txn *t, const tree_view *from, const inode *source, uint64_t parent, span name, cb_error *err);
/* The same, as one of several copies that belong together: files (which may be empty) keeps which file with several names became which,
 * so that further names become names of the copy. pmap_done() it. */
cb_code tree_copy_with(txn *t, const tree_view *from, const record *source, uint64_t parent, span name, pmap *files, cb_error *err);
bool tree_copied(const pmap *files, uint64_t source, uint64_t *out_copy);
cb_code tree_copied_add(pmap *files, uint64_t source, uint64_t copy, cb_error *err);
/* One inode: a new one at (parent, name), or into one that is there and empty. */
cb_code inode_copy(txn *t, const tree_view *from, const record *source, uint64_t parent, span name, inode *made, cb_error *err);
/* Data alone; data, mode, times and attributes. The target must be empty. */
cb_code inode_copy_data(txn *t, const tree_view *from, const record *source, inode *made, cb_error *err);
cb_code inode_copy_into(txn *t, const tree_view *from, const record *source, inode *made, cb_error *err);

/* ---- paths ---- */

typedef struct resolved {
	uint64_t parent; /* the folder that holds the last component; 0 for the root */
	uint8_t name[LIMIT_NAME_BYTES + 1];
	size_t name_size; /* 0 for the root */
	bool exists;
	bool is_link;     /* the entry refers to an I record */
	bool must_be_dir; /* the path ended in '/' */
	bool too_long;    /* PATH_ENTRY: the last component is no possible name */
	bool is_dot;      /* the last component was "." or ".." */
	inode node;       /* when it exists */
} resolved;

static inline span resolved_name(const resolved *r)
{
	return span_make(r->name, r->name_size);
}

typedef enum gate_access { GATE_READ, GATE_WRITE, GATE_CREATE, GATE_REMOVE } gate_access;

enum {
	PATH_FOLLOW = 1, /* also a symlink in the last component */
	/* The entry itself, to be made, removed or moved: a '/' after it does not follow a link, and is for the caller to judge. */
	PATH_ENTRY = 2,
	PATH_FILE = 4,  /* a file may be made there: CB_ISDIR when a '/' follows, whatever is there */
	PATH_PLAIN = 8, /* no symlink on the way is followed: CB_LOOP */
};
/* From the public flags. */
static inline unsigned path_how(unsigned flags)
{
	return flags & CB_NOFOLLOW ? 0 : PATH_FOLLOW;
}
/* Resolves inside the box, as `how` (PATH_...) says. A missing last component is not an error here; a missing
 * folder before it is CB_NOTFOUND. Passes the gate. */
cb_code path_resolve(cb_box *b, const tree_view *v, const char *path, unsigned how, gate_access access, resolved *out,
                     cb_error *err);
/* The same, and CB_NOTFOUND when it is not there. */
cb_code path_find(cb_box *b, const tree_view *v, const char *path, unsigned how, gate_access access, resolved *out, cb_error *err);
/* CB_VERSION when what was found is not of that version, as cb_write_options says. */
cb_code resolved_expect_version(const resolved *r, uint64_t expected, const char *path, cb_error *err);
/* After a read: damage is told with the path, and with what to do. Returns code. */
cb_code path_damaged(cb_code code, const char *path, cb_error *err);
/* The same where only the inode is known; v has it. */
cb_code inode_damaged(cb_code code, const tree_view *v, uint64_t ino, cb_error *err);
/* Makes missing folders before the last component. */
cb_code path_make_parents(op *o, const char *path, cb_error *err);
/* Those that are made are as in another state (which may be another box's). PATH_PLAIN in both. */
typedef struct path_like {
	cb_box *b;
	const tree_view *v;
} path_like;
cb_code path_make_parents_like(op *o, const char *path, const path_like *like, cb_error *err);

/* ---- data of files ---- */

cb_code data_read(const cb_store *cs, const txn *t, const tree_view *v, const record *r, uint64_t offset, void *to, size_t size,
                  cb_error *err); /* within r->size; holes give zeros */
cb_code data_write(txn *t, inode *node, uint64_t offset, const void *bytes, size_t size,
                   cb_error *err); /* grows; does not save the inode */
cb_code data_replace(txn *t, inode *node, const void *bytes, size_t size, cb_error *err);
cb_code data_resize(txn *t, inode *node, uint64_t size, cb_error *err);
cb_code data_drop(txn *t, inode *node, cb_error *err);
/* The extent that has the byte at an offset. */
cb_code data_extent_at(const tree_view *v, uint64_t ino, uint64_t offset, extent *out, bool *found, cb_error *err);
/* The next offset >= offset that is data / a hole (end of file counts as a hole); data: CB_NOTFOUND past the last. */
cb_code data_seek(const tree_view *v, const record *r, uint64_t offset, bool hole, uint64_t *out, cb_error *err);
/* The whole file; *out: free() it, NUL-terminated. CB_TOOBIG above max. */
cb_code data_load(const cb_store *cs, const txn *t, const tree_view *v, const record *r, uint64_t max, char **out, size_t *out_size,
                  cb_error *err);
/*
 * Do two files hold the same bytes? Each may be of a transaction whose contents are still in memory. Costs their data, whatever their
 * sizes: what both refer to and what is a hole in both is not read.
 */
cb_code data_equal(const cb_store *cs, const txn *ta, const tree_view *va, const record *a, const txn *tb, const tree_view *vb,
                   const record *b, bool *out, cb_error *err);

/* What t has of a file refers to contents that are numbered in `from` (which may be t): to their numbers in the store from now on.
 * *out_count: of how many keys. */
cb_code data_settle(txn *t, txn *from, uint64_t ino, size_t *out_count, cb_error *err);
/* Writes to node, which has the bytes of `was`, what `now` has where it does not share data with `was`, both of `from`. Holes and sizes are
 * for the caller to make. Costs what is written. */
cb_code data_write_changes(txn *t, inode *node, const txn *from, const tree_view *was_view, const record *was,
                           const tree_view *now_view, const record *now, cb_error *err);

/* Values of attributes, metadata and keys. */
cb_code value_store(txn *t, const key *k, const void *bytes, size_t size, cb_error *err);
/* Is that the value already? */
cb_code value_is(const txn *t, const key *k, span bytes, bool *out, cb_error *err);
cb_code value_load(const cb_store *cs, const txn *t, span encoded, char **out, size_t *out_size, cb_error *err);
/* Do two of them, as they are encoded, hold the same bytes? Each may be of a transaction, as with data_equal. */
cb_code values_equal(const cb_store *cs, const txn *ta, span a, const txn *tb, span b, bool *out, cb_error *err);
/* Have two inodes the same keys of a kind (KIND_ATTR, KIND_TAG), with the same bytes in them? */
cb_code marks_equal(const cb_store *cs, const txn *ta, const tree_view *va, uint64_t a, const txn *tb, const tree_view *vb,
                    uint64_t b, uint8_t kind, bool *out, cb_error *err);

/* ---- merge ---- */

/* What a conflict is about: only what a file holds, or also who is under its path, which is one of ours or of theirs (merge_answers.c). */
typedef enum merge_about { ABOUT_FIELDS, ABOUT_NAME_HERE, ABOUT_NAME_THERE } merge_about;

/* One path that both sides changed. */
typedef struct merge_conflict {
	char *path;
	const char *reason; /* a constant */
	cb_prefer answer;   /* CB_PREFER_NONE: open */
	bool asked;         /* the caller was asked about it */
	bool seen;          /* met in this merge, not only in an earlier one */
	bool contradicts;   /* in this merge: its answer cannot be kept beside the others */
	merge_about about;  /* in this merge */
} merge_conflict;

/*
 * The conflicts of a merge, each path once, and the answers to them. Born zero but for `list`; end it with
 * merge_conflicts_done(). It may serve several merges one after the other (merge_conflicts_again between them): answers that the caller
 * gave before are used again, so that he is asked about a path only once.
 */
typedef struct merge_conflicts {
	const cb_merge_options *options; /* NULL: all stay open */
	/* The same change on both sides is a conflict too: two transactions that counted from 4 to 5 must not both pass. */
	bool strict;
	bool ask_nobody; /* the writer lock is held: resolve is not called; what it was not asked about yet is counted in `unasked` */
	uint64_t open;   /* not resolved */
	uint64_t unasked; /* of these: resolve is to be asked first */
	char first[256];  /* path of the first open one */
	buf list;         /* "path (reason), ..." of the first open ones, `named` of them: as many as a message holds */
	uint64_t named;
	merge_conflict *all; /* those met (seen) and those of earlier merges; at most LIMIT_CONFLICTS, `open` counts on */
	size_t count, capacity;
	uint32_t *index; /* hash table of positions in `all`, plus one */
	size_t index_size;
} merge_conflicts;
void merge_conflicts_again(merge_conflicts *c);
void merge_conflicts_done(merge_conflicts *c);
/* For `list`: beside it a message has room for what was done, and for how many more there are. */
enum { CONFLICT_LIST_BYTES = CB_ERROR_MESSAGE_MAX - 128 };
/* CB_CONFLICT: "WHAT: path (reason), path (reason) and 3 more". */
cb_code merge_conflicts_error(const merge_conflicts *c, const char *what, cb_error *err);
/* Asks the caller's options, once for each path. CB_PREFER_NONE: it stays open. */
cb_code merge_decide(merge_conflicts *c, const char *path, const char *reason, merge_about about, cb_prefer *out, cb_error *err);
/* The answers contradict each other about this path: it stays open, and the caller is told. */
cb_code merge_contradicted(merge_conflicts *c, const char *path, cb_error *err);

/* What has no base, because several common pasts conflict in it or because a transaction relied on what is not so any more: sides that are
 * equal in it pass (not in a strict merge), others conflict, and whoever wins has the whole of it. */
typedef struct merge_disputed {
	buf inos;           /* uint64_t; sorted before it is given to a merge */
	pmap keys;          /* key-values, by their keys in the map */
	pmap names;         /* entries, by theirs: folders that both made there do not unite */
	pmap other_numbers; /* not in dispute: numbers that are one file or folder in the base, in pairs (merge.c) */
	const char *reason; /* of the conflicts about inos: a constant */
} merge_disputed;
void merge_disputed_done(merge_disputed *d);
/* Is what t relied on still so in the head? What is not becomes a conflict: a name here, a version in the merge that is given *out. */
cb_code expectations_check(const txn *t, const tree_view *head, merge_conflicts *conflicts, merge_disputed *out, cb_error *err);

typedef struct merge_sides {
	const tree_view *base, *ours, *theirs; /* contents that are in memory only are t's */
	const merge_disputed *disputed;        /* NULL: none */
	merge_disputed *left;                  /* gets what stays in conflict; NULL: nobody asks */
	bool back;                             /* a step is taken back: base is after it, theirs before it */
	const pmap *written;                   /* txn.written of theirs; NULL: nobody noted it */
} merge_sides;
/* Puts into t (whose view is that of ours) what leads from base to theirs. CB_OK also with open conflicts: look at conflicts->open before
 * using t. The bounds of t are lifted: they are asked when it is whole. */
cb_code merge_sides_into(txn *t, const merge_sides *sides, merge_conflicts *conflicts, cb_error *err);

/* All key changes of one step, from its list or from the two roots around it. */
cb_code step_changes(cb_store *cs, uint64_t box, uint64_t seq, tree_diff_visit visit, void *context, cb_error *err);
/* Why there is no row of a step: CB_NOTFOUND (not made yet), CB_STALE (pruned) or CB_CORRUPT (lost), with a message. */
cb_code step_gone(cb_store *cs, uint64_t box, uint64_t seq, cb_error *err);
/* As step_gone when it is not there; *out_state its state. */
cb_code step_exists(cb_store *cs, uint64_t box, uint64_t seq, uint64_t *out_state, cb_error *err);
/* What history indexes: the subjects (hashes of D and I keys) of a change. */
uint64_t step_subject(span key_bytes);
cb_code step_index(cb_store *cs, uint64_t box, uint64_t from, uint64_t to, cb_error *err);
/* The index row of one large step, made while it is sealed: each of its key changes added, then sorted, then store_touch_put(). */
cb_code step_touch_add(buf *touches, span key_bytes, span old_value, span new_value, cb_error *err);
void step_touches_sort(buf *touches);

#endif
