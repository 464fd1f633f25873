/* store.h: a folder of boxes: opening, settings, what it holds and for whom, upkeep. */
#ifndef COWBOX_STORE_H
#define COWBOX_STORE_H

#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a store is opened. */
typedef struct cb_store_options {
	size_t struct_size;
	bool no_create; /* fail with CB_NOTFOUND instead of making the store */
	bool read_only;
	bool or_read_only; /* where nothing can be written (a read-only filesystem, the rights of this user, a disk too full for what a
	                       writer needs): as read_only */
	bool full;         /* flush every step to disk before it is acknowledged; default: steps survive the death of any process,
	                       and a power cut returns to a recent consistent state; checkpoints and cb_fsync are always flushed */
	size_t cache_bytes; /* 0: 64 MiB */
} cb_store_options;

/* path: a folder (its parent must exist, else CB_NOTFOUND), ":memory:", or NULL for the default: $COWBOX_STORE, else
 * $XDG_DATA_HOME/cowbox, else ~/.local/share/cowbox, whose parents are made. options may be NULL. */
CB_API cb_code cb_store_open(const char *path, const cb_store_options *options, cb_store **out, cb_error *err);
/* Flushes and closes. Boxes that are still open go on working; the store's files are closed with the last of them. Accepts NULL. */
CB_API void cb_store_close(cb_store *store);
/* Flushes what was committed, by any handle or process. */
CB_API cb_code cb_store_sync(cb_store *store, cb_error *err);

/* The name under which the audit records what is done through this handle, also through boxes that are opened from it later. Default
 * "". */
CB_API cb_code cb_store_who_set(cb_store *store, const char *who, cb_error *err);
/* Free-form texts of the store: any bytes but NUL. value NULL deletes. Names that begin with "cowbox." are CB_RESERVED. */
CB_API cb_code cb_store_setting_set(cb_store *store, const char *key, const void *value, size_t size, cb_error *err);
/* cb_free() it; CB_NOTFOUND. out_size may be NULL. */
CB_API cb_code cb_store_setting_get(cb_store *store, const char *key, char **out, size_t *out_size, cb_error *err);

/* Counts and sizes. */
typedef struct cb_store_stats {
	size_t struct_size;
	uint64_t boxes, steps, nodes, node_bytes, contents, content_bytes, segments, segment_bytes, database_bytes, wal_bytes;
	uint64_t cache_bytes, cache_hits, cache_misses;
	bool page_sums; /* every page of the database that was read has a sum; false: an earlier version made it, and a vacuum adds them */
} cb_store_stats;
/* As they are now. */
CB_API cb_code cb_store_stats_get(cb_store *store, cb_store_stats *out, cb_error *err);

/* A state that prune and gc keep because somebody reads it or works on it, in whatever process, or because it was pinned. */
typedef struct cb_use {
	size_t struct_size;
	char box[CB_NAME_MAX + 1]; /* a deleted box keeps its name here */
	uint64_t seq;
	bool all_steps;    /* no step of the box is pruned meanwhile (it is being packed); seq is 0 then */
	bool pinned;       /* a row of the store that outlives its process; otherwise it ends with the process, however that ends */
	const char *why;   /* "call", "open state", "transaction", "open file", "listing", "command", "pack", or the pin's reason */
	int64_t pid;       /* 0: not known (a pin, or a process of another pid namespace) */
	int64_t since_ns;  /* 0: not known (a call that runs now) */
	int64_t until_ns;  /* of a pin; 0: until it is dropped */
	const char *owner; /* of a pin, for cb_pin_drop; those that begin with "cowbox." are the library's; else NULL */
} cb_use;
typedef cb_code (*cb_use_visit)(void *context, const cb_use *use, cb_error *err);
/* What is lent is lent for the call of the visitor, which may call the store. CB_INTERRUPTED from it ends the listing with CB_OK. */
CB_API cb_code cb_store_uses(cb_store *store, cb_use_visit visit, void *context, cb_error *err);

/* Keeps the state that the handle shows now until the pin is dropped, or for keep_ns (0: no bound), whatever becomes of this
 * process: for a long job that comes back to it. owner names the job (1 to 64 bytes, not beginning with "cowbox."); setting it again
 * replaces its pin. why is a short text for people. CB_INVALID on a transaction. */
CB_API cb_code cb_pin_set(cb_box *box, const char *owner, const char *why, int64_t keep_ns, cb_error *err);
/* The pin of that owner ends; there need not be one. */
CB_API cb_code cb_pin_drop(cb_store *store, const char *owner, cb_error *err);

/* What a gc found and freed. */
typedef struct cb_gc_result {
	size_t struct_size;
	uint64_t nodes_kept, nodes_freed, contents_kept, contents_freed, bytes_freed, boxes_freed;
} cb_gc_result;
/* Removes what no box, step or checkpoint refers to, beside live readers and writers. CB_BUSY beside another gc, a prune, vacuum or
 * backup, or a check that found something; CB_CORRUPT, and no content is removed, when boxes or steps are missing. out may be NULL. */
CB_API cb_code cb_store_gc(cb_store *store, cb_gc_result *out, cb_error *err);
/* Gives freed space back to the filesystem: the database is written anew. Others read meanwhile; who writes waits until it has ended.
 * CB_NOSPACE: it needs room for two copies of the database while it runs, or for what is left of a segment, and says how much. A limit
 * ends it while the copy is made; then the copy is brought into place, which takes as long as to write the database once, and that is
 * done to the end. */
CB_API cb_code cb_store_vacuum(cb_store *store, cb_error *err);
/* A consistent copy of a live store in a new folder, whose parent must exist (CB_NOTFOUND). What programs left whose caller died is in it
 * after cb_exec_recover only. CB_CORRUPT when what is copied is damaged: nothing is left then. (Copying a live store with cp is not
 * safe.) */
CB_API cb_code cb_store_backup(cb_store *store, const char *to_path, cb_error *err);
/* Checks every sum, key, count and invariant. Each complaint is one line that names the box and path it concerns; complain may be
 * NULL. What is found is looked at a second time with gc, prune, vacuum and backup kept away, since what they remove is no damage: they are
 * CB_BUSY meanwhile (a prune waits), and so is the check when it cannot keep them away for a minute. */
typedef void (*cb_complain)(void *context, const char *line);
CB_API cb_code cb_store_check(cb_store *store, cb_complain complain, void *context, uint64_t *out_complaints, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
