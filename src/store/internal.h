/*
 * internal.h: the store handle, for the files of this folder.
 *
 * Locks, in the order in which they are taken: `turn` (threads that want to write), the writer byte (processes), `lock` (the connection).
 * A write transaction holds all three from begin to end. A read holds `lock` only, and may take it again, but a thread
 * that holds it may not begin to write: it would wait for a writer that waits for it.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/entry.h"
#include "base/hash.h"
#include "store/cache.h"
#include "store/engine.h"
#include "store/inuse.h"
#include "store/live.h"
#include "store/lock.h"
#include "store/numbers.h"
#include "store/segment.h"

typedef struct pending_blob {
	blob *value;
	bool is_node;
} pending_blob;

typedef struct segment_place {
	uint64_t segment, offset, size;
} segment_place;

/* A write transaction. */
typedef struct store_txn {
	bool active;
	cb_code failed; /* a write failed half-way: only abort is left */
	bool counters_known, counters_changed;
	uint64_t counters[STORE_COUNTERS];
	pending_blob *pending; /* enter the cache at commit */
	size_t pending_count, pending_capacity, pending_bytes;
	segment_place *pins; /* appended to segments */
	size_t pin_count, pin_capacity;
	uint64_t segment_failures; /* as they were at the first append */
	bool may_be_there;         /* its commit failed in a way after which a crash may bring it back: its bytes stay */
	uint64_t touched[LIVE_SLOTS / 64];
} store_txn;

/* Reading ahead: rows are asked for in the order of their numbers when a whole tree is read. */
typedef struct store_ahead {
	uint64_t next; /* the first number not looked at */
	unsigned rows; /* to read ahead the next time that order is kept; 0: it was not */
} store_ahead;

struct store {
	char *path;            /* absolute; NULL: memory */
	io_folder folder;      /* of its files, as long as the handle: all are opened in it */
	dev_t database_device; /* what is opened there as the database */
	ino_t database_inode;
	bool read_only;
	int denied; /* why nothing can be written there: EROFS, EACCES, EPERM, or for what a writer needs ENOSPC, EFBIG; 0: it can */
	bool frozen; /* read, and what is missing beside the database cannot be made: engine_options */
	store_durability durability;
	size_t cache_bytes;
	const clock_source *clock;
	store_fault_plan *faults;
	int64_t lock_timeout_ms;

	_Atomic unsigned generation; /* of forks */
	bool fork_broken;            /* the process forked inside a transaction of this handle: it is of no use here */
	unsigned forked_depth;       /* reads begun by the parent whose ends are still to come */
	store *next_open;            /* all handles of the process, for the fork handlers */

	engine *engine;
	live live;
	inuse inuse;
	int lock_fd;        /* writer, queue, gc, open */
	int owner_fd;       /* owners: apart, so that this handle's gc sees its own owners as others do */
	segments *segments; /* NULL: in memory */
	cache *cache;
	uint64_t epoch_at_open;
	uint64_t reserved
		[STORE_EPOCH]; /* numbers below may be given out (numbers.h); others may have reserved more; with the writer lock */
	_Atomic bool poisoned; /* a flush failed */
	bool unflushed;        /* commits since the last flush */
	bool gc_running;
	uintptr_t gc_thread; /* entry_thread() of who runs it */
	uint64_t gc_owners_dead;

	lock_turn turn;
	lock_pace pace; /* with the turn */
	entry_lock lock;
	unsigned read_depth;
	bool read_open;
	store_ahead ahead[2]; /* contents, nodes */
	store_txn txn;
	/* Numbers from here on are the running transaction's and may come back after an abort: contents, nodes. Read without the lock. */
	_Atomic uint64_t unsettled[2];

	pthread_mutex_t ino_mutex;
	uint64_t ino_next, ino_end; /* a reserved block */

	pthread_mutex_t owners_mutex;
	uint64_t *owners; /* begun by this handle in this process */
	size_t owner_count, owner_capacity;
};

/* Reopens after a fork, then takes the connection. */
cb_code store_enter(store *s, cb_error *err);
void store_leave(store *s);
static inline void store_leave_(store *const *s)
{
	if (*s) store_leave(*s);
}
/* Enters for the rest of the scope. */
#define STORE_ENTER(s, err)              \
	CB_TRY(store_enter((s), (err))); \
	ATTR_CLEANUP(store_leave_) ATTR_UNUSED store *const entered_ = (s)

/* CB_INVALID outside a write transaction of the calling thread; the earlier failure after a failed write. */
cb_code store_need_write(store *s, cb_error *err);
/* Passes code on; a failure that leaves the transaction half-done is remembered. */
cb_code store_wrote(store *s, cb_code code);
cb_code store_counters_need(store *s, cb_error *err);
void store_poison(store *s);

/* fork.c */
cb_code fork_register(store *s, cb_error *err);
void fork_unregister(store *s);
/* Instead of closing, in a child that has not used it yet. */
void fork_abandon(store *s);
bool fork_is_current(const store *s);
cb_code fork_reattach(store *s, cb_error *err);
bool fork_is_broken_folder(int folder);
/* CB_FORKED in a child that was made while another thread was inside SQLite. */
cb_code fork_check_engine(cb_error *err);
/* Takes the connection of a store that is being opened, closed or opened again; store_leave gives it back. */
cb_code store_hold(store *s, cb_error *err);

/* open.c: everything bound to this process, opened or let go. */
cb_code store_attach(store *s, bool create, cb_error *err);
void store_detach(store *s);

/* CB_IO: the store was removed, or another database put in the place of the one that is open. What is written then is lost. */
cb_code store_check_place(const store *s, cb_error *err);

/* Own small transaction around f when none is open. */
typedef cb_code (*store_body)(store *s, void *context, cb_error *err);
cb_code store_in_transaction(store *s, bool sync, store_body body, void *context, cb_error *err);
cb_code store_in_transaction_as(store *s, store_need need, bool sync, store_body body, void *context, cb_error *err);

void store_txn_clear(store *s, bool committed);

/* The sum of a node or content: of its bytes and its number, so that a row found under another's number is recognised. */
static inline uint64_t store_sum(uint64_t id, const void *bytes, size_t size)
{
	return hash64(bytes, size) ^ hash_u64(id);
}

/* CB_BUSY, for who was refused store_gc_lock: he cannot know which of them it is. */
cb_code store_upkeep_busy(cb_error *err);

#endif
