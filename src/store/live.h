/*
 * live.h: a few counters in memory shared by all processes that have a store open (the file `live`).
 *
 * They say whether what a reader knows is still so, and let writers wait without polling. Nothing rests on them but freshness: whoever
 * garbles the file gets stale reads or slow writers, never a damaged store. (One number tells how far the log was flushed, so that a log
 * that was damaged or lost at rest is recognised; without it, it is not.) The file is not part of a backup and is made anew when
 * missing. Cutting it short while it is mapped kills its users with SIGBUS; only the owner of the folder can do that.
 */
#ifndef STORE_LIVE_H
#define STORE_LIVE_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/io.h"
#include "base/span.h"

enum { LIVE_SLOTS = 4096 };

typedef struct live_map {
	uint64_t magic;
	uint64_t size;
	_Alignas(64) _Atomic uint32_t
		waiters;          /* processes that wait for the writer lock; a killed one leaves it high: slower, not wrong */
	_Atomic uint32_t poison;  /* a flush failed: no writes until a repair */
	_Atomic uint32_t writing; /* a writer has made slots odd and not yet even again */
	_Atomic uint32_t tidied;  /* pages in the log when it was last folded into the database */
	_Atomic uint64_t sweeps;  /* raised before freed ranges of segments are given back */
	/* What was flushed, written after the flush: how far the log was (engine.h: position), which state was the next, and a sum of each.
	 * The one thing here that is of use after a boot: a log that ends before it is damaged, and one that is gone was lost unless the
	 * database has these states. */
	_Atomic uint64_t promised, promised_sum, promised_state, promised_state_sum;
	_Alignas(64) _Atomic uint32_t released;         /* futex: raised when the writer lock is given up */
	_Alignas(64) _Atomic uint32_t queue;            /* futex: raised when the place at the head of the queue is given up */
	_Alignas(64) _Atomic uint64_t slot[LIVE_SLOTS]; /* stamps: 0 the catalog's, others shared by boxes; odd: commit under way */
} live_map;

typedef struct live {
	live_map *map; /* NULL: nothing is ever fresh */
	bool writable;
	bool shared;
} live;

/* Maps the file `live`, making it when it is missing or not as it should be (the caller holds the open lock). */
cb_code live_open(live *l, const io_folder *in, bool read_only, cb_error *err);
cb_code live_open_memory(live *l, cb_error *err);
void live_close(live *l);

static inline size_t live_slot(uint64_t box)
{
	return box == 0 ? 0 : 1 + (size_t)(box % (LIVE_SLOTS - 1));
}

/* Under the writer lock: slots a killed writer left odd become even. */
void live_settle(live *l);

typedef struct live_promise {
	uint64_t position, next_state; /* 0: not known */
} live_promise;

live_promise live_promised(const live *l);
void live_promise_set(live *l, live_promise flushed);

/* Waits until *word differs from `seen`, a signal, or the time has passed. */
void live_wait(live *l, _Atomic uint32_t *word, uint32_t seen, int64_t timeout_us);
void live_wake(live *l, _Atomic uint32_t *word, int count);

#endif
