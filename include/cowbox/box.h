/* box.h: named workspaces: making, opening, forking, listing, bounds. */
#ifndef COWBOX_BOX_H
#define COWBOX_BOX_H

#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of a box. */
typedef struct cb_box_info {
	size_t struct_size;
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
	bool lost; /* it holds a transaction that lost, and nobody has changed, renamed, forked or marked it since */
} cb_box_info;

/* out may be NULL. A new box holds /work, /home/agent and /tmp. CB_EXISTS, CB_INVALID (name). */
CB_API cb_code cb_box_create(cb_store *store, const char *name, cb_box **out, cb_error *err);
/* A box that nobody sees or can name until cb_box_publish(): filled through this handle it appears with its content,
 * whole. Closed unpublished, or left by a process that died, it is gone. Through this handle it has its name at once, in packs too.
 * CB_EXISTS when the name is taken now. */
CB_API cb_code cb_box_draft(cb_store *store, const char *name, cb_box **out, cb_error *err);
/* Gives a draft (cb_box_draft) its name, and the folder it was linked to its box, at one stroke. The handle goes on as one of any box.
 * CB_EXISTS when the name was taken meanwhile; the draft is still there then. CB_INVALID: no draft. A transaction that is open over it
 * is not in the way: it is committed to the box as ever. */
CB_API cb_code cb_box_publish(cb_box *box, cb_error *err);
/* address: "demo", or a state ("demo@7", "demo@-1", "demo@name"), which is read-only. CB_NOTFOUND, CB_STALE (pruned). */
CB_API cb_code cb_box_open(cb_store *store, const char *address, cb_box **out, cb_error *err);
/* Commits what open files have under way (kept as a fork when it conflicts), and what was written to files that were gone and are back;
 * where that fails cb_close of the file says so (CB_STALE). An open transaction is dropped. Files of the handle that are still open are
 * CB_BADHANDLE from now on, and are to be closed all the same. Accepts NULL. */
CB_API void cb_box_close(cb_box *box);
/* A new box that starts at any state. out may be NULL. */
CB_API cb_code cb_box_fork(cb_store *store, const char *address, const char *name, cb_box **out, cb_error *err);
/* Open handles follow. CB_NOTFOUND, CB_EXISTS, CB_INVALID (name). */
CB_API cb_code cb_box_rename(cb_store *store, const char *name, const char *new_name, cb_error *err);
/* The box and its history are gone; forks of it live on. */
CB_API cb_code cb_box_delete(cb_store *store, const char *name, cb_error *err);
/* As it is now; of a handle on an old state: files and bytes of that state. */
CB_API cb_code cb_box_info_get(cb_box *box, cb_box_info *out, cb_error *err);
typedef cb_code (*cb_box_visit)(void *context, const cb_box_info *info, cb_error *err);
/* By name. A visitor that returns CB_INTERRUPTED ends any walk early with CB_OK; another code ends it with that code. */
CB_API cb_code cb_box_list(cb_store *store, cb_box_visit visit, void *context, cb_error *err);
/* Bounds of the box: bytes and files in all, bytes of one file; 0: none. What is there stays, growth beyond a bound is CB_QUOTA. */
CB_API cb_code cb_box_quota_set(cb_box *box, uint64_t bytes, uint64_t files, uint64_t file_bytes, cb_error *err);
/* What cb_prune keeps when it is not told: so many of the newest steps, and those younger than keep_ns; 0: all. CB_INVALID: keep_ns is
 * below zero. */
CB_API cb_code cb_box_retention_set(cb_box *box, uint64_t keep_steps, int64_t keep_ns, cb_error *err);
/* Every so many steps the newest gets the checkpoint "auto-SEQ", or "auto-SEQ-2" and so on where somebody gave that name to another
 * step; one of such a name that somebody gave to this step serves as well. The newest 32 automatic ones are kept, and all that somebody
 * named. 0: none. */
CB_API cb_code cb_box_checkpoint_every_set(cb_box *box, uint64_t steps, cb_error *err);
/* The name under which steps made through this handle are recorded. Default: the store's. */
CB_API cb_code cb_box_who_set(cb_box *box, const char *who, cb_error *err);
/* Free-form texts per box, any bytes but NUL, outside its states (not undone, not forked). value NULL deletes. Names that begin with
 * "cowbox." are CB_RESERVED. */
CB_API cb_code cb_setting_set(cb_box *box, const char *key, const void *value, size_t size, cb_error *err);
/* cb_free() it; CB_NOTFOUND. out_size may be NULL. */
CB_API cb_code cb_setting_get(cb_box *box, const char *key, char **out, size_t *out_size, cb_error *err);

/* The newest step that was made through this handle, by whatever call, or by a program of a sandbox opened with it; 0: none yet. Others'
 * steps do not count. */
CB_API uint64_t cb_box_step(cb_box *box);

#ifdef __cplusplus
}
#endif
#endif
