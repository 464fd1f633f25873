/*
 * fault.h: disks that fail and power that goes, for tests.
 *
 * A plan given in store_options.faults is consulted at every write, flush, truncation and opening of the database, its log and the
 * segment files (a shim around SQLite's VFS, and segment.c). It can do three things, in any combination:
 *
 * 1. Fail:    plan.op[STORE_FAULT_FLUSH] = (store_fault_rule){.fail_at = 3, .error = EIO, .lasting = false};
 *             makes the third flush from now fail, having done nothing. lasting: that one and all later ones. fail_at counts down to 0,
 *             which means "never"; set it again at any time. seen counts operations, failing ones included, so a test first runs without
 *             faults to learn how many there are and then fails each in turn.
 * 2. Stop:    plan.cut_at_write = n; plan.cut = f;  f is called just before the n-th write from now is made (all earlier ones are).
 *             It may call store_fault_cut, _exit, or set a lasting failure. It must not call the store.
 * 3. Record:  plan.record = true before the store is opened. Each file is then followed: what a flush made durable, and what was written
 *             since. store_fault_cut, at any moment and as often as wanted, writes a folder as a power cut could have left it: of each
 *             4 KiB page not flushed either the durable or the latest bytes, file lengths likewise, files never flushed perhaps missing,
 *             files deleted perhaps back. The wal-index, `locks` and `live` are volatile or recreated and not part of it. Open the
 *             image with store_open as usual.
 *
 *   static void cut(store_fault_plan *p, void *context) { store_fault_cut(p, random_bit, &rng, image, NULL); }
 *
 * A plan must outlive the stores opened with it; store_fault_plan_done afterwards. Atomic where threads meet; set the other fields
 * before opening.
 */
#ifndef STORE_FAULT_H
#define STORE_FAULT_H

#include <stdatomic.h>

#include "store/store.h"

typedef enum store_fault_op {
	STORE_FAULT_WRITE,
	STORE_FAULT_FLUSH,
	STORE_FAULT_TRUNCATE,
	STORE_FAULT_OPEN,
	STORE_FAULT_ALLOCATE, /* of room ahead of need */
	STORE_FAULT_OPS,
} store_fault_op;

typedef struct store_fault_rule {
	_Atomic long fail_at; /* 0: never; n: the n-th from now */
	int error;            /* EIO, ENOSPC */
	bool lasting;
	_Atomic long seen;
} store_fault_rule;

struct store_fault_plan {
	store_fault_rule op[STORE_FAULT_OPS];
	bool record;
	_Atomic long cut_at_write; /* 0: never */
	void (*cut)(store_fault_plan *plan, void *context);
	void *cut_context;
	struct fault_state *state; /* private; NULL at first */
};

/* A random number below n (n > 0). */
typedef uint64_t (*store_fault_random)(void *context, uint64_t n);

/* Writes an image of the recorded store to the new folder `to`. Several stores under one plan: those whose folder is `store_folder`,
 * or the only one when it is NULL. */
cb_code store_fault_cut(store_fault_plan *plan, const char *store_folder, store_fault_random random, void *context, const char *to,
                        cb_error *err);
/* How many flushes files whose path ends so have had ("-wal", ".seg", "cowbox.db"); needs record. */
uint64_t store_fault_flushes(const store_fault_plan *plan, const char *suffix);
/* Frees what the plan holds. No store may be open with it. */
void store_fault_plan_done(store_fault_plan *plan);

/* ---- for the store's own files ---- */

/* 0, or the errno this operation must fail with. plan may be NULL. */
int fault_strike(store_fault_plan *plan, store_fault_op op);

/* What happened to a file, after it did. `load` fills the follower's first copy of a file that was there before. */
typedef cb_code (*fault_load)(void *file, uint64_t offset, void *to, size_t size);
void fault_saw_open(store_fault_plan *plan, const char *path, uint64_t size, fault_load load, void *file);
void fault_saw_write(store_fault_plan *plan, const char *path, uint64_t offset, const void *bytes, size_t size);
void fault_saw_truncate(store_fault_plan *plan, const char *path, uint64_t size);
void fault_saw_flush(store_fault_plan *plan, const char *path);
void fault_saw_delete(store_fault_plan *plan, const char *path, bool flushed);

/* The name of a SQLite VFS that consults the plan; NULL: no memory. Lent, lives as long as the plan. */
const char *fault_vfs_name(store_fault_plan *plan);

#endif
