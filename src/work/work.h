/*
 * work.h: a native folder stack brought to a state of a box, on which one command at a time runs; and what it changed, brought back.
 *
 * A work is a cache: STORE/work may be removed whenever nothing runs. On disk:
 *
 *   work/                 0700, the caller's
 *     slots/BOX.N         stamp of slot N of a box, its lock (flock, the holder's) and the caller's (OFD, byte 0): one text of some
 *                         lines with a sum, rewritten in place
 *     layers.lock         shared while somebody takes a slot, chooses or makes layers, exclusive to remove some
 *     layers/ID           stamp of a sealed layer: {state it is, its parents' ids, entries, boot, synced}
 *     uid                 as root: the reserved uid of this store
 *     area/               0700, of the reserved uid (as root) or the caller's: the holder's working folder
 *       BOX.N/{tree|upper,work.K,mnt,cache,seen}
 *       ID/tree           a sealed layer
 *       etc-HASH/         the /etc of sandboxes
 *
 * Small boxes (LIMIT_WORK_PLAIN entries) and machines without overlayfs live in one plain folder, which is compared whole: full
 * POSIX, no mount. A larger box is a stack of sealed layers and an upper of its own; layers are shared with forks and other slots.
 * After a command, an upper with more than LIMIT_WORK_UPPER entries is sealed into a layer (nobody is inside then); at
 * LIMIT_WORK_LAYERS layers the next bring starts afresh from one (compaction).
 *
 * A stamp says {box, seq, state} the slot is at, or "running" with the state it began from and what runs. Only the holder's exit
 * frees the lock, after everything in the sandbox is dead. A stamp that is running and not locked was left by a crash: recovery, which
 * waits for a holder that still has the lock when the caller's is gone. A
 * stamp of another boot that was not synced is not trusted: the folder is wiped, and what ran is said to be lost.
 *
 * The steps that a command began from, and that its layers hold, are pinned (rows of the store, owner "cowbox.work BOX.N") from before
 * it runs until what it did was captured.
 */
#ifndef WORK_WORK_H
#define WORK_WORK_H

#include <cowbox/cowbox.h>

#include "work/link.h"

typedef struct work work;

typedef struct work_options {
	cb_tier tier;    /* AUTO: overlay where it works; work_tier() tells which it became */
	bool discard;    /* what a command changes is not kept: WIRE_THROWAWAY over the slot where overlayfs works, else the slot is
	 * wiped after */
	const char *who; /* whom steps are recorded for; NULL: the store's. Copied */
} work_options;

/* The store's folder and rights are checked (0700, ours), a slot is locked, its holder started. Nothing is brought yet. Recovers
 * first what a crash left of this box. CB_BUSY: LIMIT_WORK_SLOTS commands run in this box. */
cb_code work_open(cb_store *store, const char *box_name, const work_options *options, work **out, cb_error *err);
/* Ends the holder; the slot stays as a cache. In a child of fork() the holder is left to the parent and only copies of memory and
 * descriptors go. Accepts NULL. */
void work_close(work *w);

cb_tier work_tier(const work *w);
uid_t work_uid(const work *w); /* who the box is on the host: as root the reserved uid, else the caller's */
link_t *work_link(work *w);
/* The holder and its sandbox may have been replaced (seal, wipe): ENTER must be sent before the next RUN. */
bool work_is_entered(const work *w);
void work_set_entered(work *w);

/*
 * One command: work_begin, RUN and EXITED by the caller over work_link, work_end. begin looks at the box's newest state,
 * brings the tree there (cost in proportion to what differs), and stamps the slot as running. Messages are sent ahead: READY and
 * BUILT are taken by work_ready, which is to be called after ENTER and RUN were sent.
 */
cb_code work_begin(work *w, const cb_step_info *info, cb_error *err);
cb_code work_ready(work *w, cb_error *err);

typedef enum work_how {
	WORK_COMMIT,
	WORK_LOOK, /* find out what changed, then drop it (discard) */
	WORK_DROP, /* do not look; the slot is wiped */
} work_how;
enum { WORK_NOTES = 16, WORK_NOTE_BYTES = 256 };
typedef struct work_result {
	cb_commit_result commit;
	uint64_t changed, left_out;
	uint64_t noted;                          /* what was said of the tree that is not in the step, and the first of it: */
	char notes[WORK_NOTES][WORK_NOTE_BYTES]; /* "/path: left out: a FIFO" */
	uint64_t entries_scanned, entries_read;
	bool sandbox_ended; /* for the scan */
	buf conflicts;      /* CB_CONFLICT: of each the path and the reason, with their NULs; buf_done() it */
} work_result;
typedef void (*work_note)(void *context, const char *path, const char *what);
/* info: as for cb_txn_commit (the step's result text). CB_CONFLICT, CB_QUOTA: kept as result->commit.fork; other refusals of the
 * box: the changes are dropped. In every case the work can be used for the next command, unless the holder died (CB_IO): then close it.
 * CB_DENIED: a rule came meanwhile; the changes wait in their slot for work_recover by one whom no rule binds (of a store in memory they
 * are dropped). CB_CANCELLED, CB_TIMEOUT: nothing was done, and work_end is to be called again.
 * changes may be NULL: visits what changed, by path. */
cb_code work_end(work *w, work_how how, const cb_step_info *info, work_note note, void *note_context, cb_change_visit changes,
                 void *change_context, work_result *out, cb_error *err);
/* The command did not run at all (RUN failed before the program started): nothing to capture, no step. */
void work_cancel(work *w);

/* All boxes of the store (box 0), or one. CB_DENIED: rules bind the store's who in a box where something waits. */
cb_code work_recover(cb_store *store, uint64_t box, uint64_t *out_steps, cb_error *err);
/* What waits in a box is not captured but thrown away, and recorded as lost: how many programs' it was. */
cb_code work_drop(cb_store *store, uint64_t box, uint64_t *out_steps, cb_error *err);
cb_code work_clean(cb_store *store, bool all, uint64_t *out_removed, cb_error *err);

#endif
