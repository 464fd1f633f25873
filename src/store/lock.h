/*
 * lock.h: a fair writer lock among threads and processes, and byte locks that vanish with their holder.
 *
 * Byte locks are OFD locks on the file `locks`: they belong to an open file, not to a process, so two handles of one process exclude
 * each other, they end with the last descriptor (kill -9 included) and they mean the same in every pid namespace.
 *
 * SQLite's own waiting sleeps longer and longer, so a waiter can be passed over for half a second; hence a queue in front. Among
 * threads of one handle: first come, first served. Among processes: a turnstile of two bytes. Whoever waits takes QUEUE and waits there
 * for WRITER, so at most one process contends with the one that just released it, and a process that finds others waiting must go through
 * QUEUE too.
 */
#ifndef STORE_LOCK_H
#define STORE_LOCK_H

#include <pthread.h>

#include "store/live.h"

typedef enum lock_byte {
	LOCK_QUEUE = 0,
	LOCK_WRITER = 1,
	LOCK_GC = 2,
	LOCK_OPEN = 3,
	LOCK_OWNERS = 1000, /* + the owner's number */
} lock_byte;

/* Does not wait: CB_BUSY when somebody else has it; CB_IO when the filesystem cannot tell. */
cb_code lock_byte_try(int fd, uint64_t byte, cb_error *err);
/* CB_BUSY after the time. */
cb_code lock_byte_wait(int fd, uint64_t byte, int64_t timeout_ms, cb_error *err);
void lock_byte_release(int fd, uint64_t byte);
/* CB_IO, with the file's name, for an error of a lock that is not somebody else's having it. */
cb_code lock_failed(int fd, int error, cb_error *err);

typedef struct lock_waiter lock_waiter;

/* First come, first served among threads. */
typedef struct lock_turn {
	pthread_mutex_t mutex;
	bool held;
	lock_waiter *first, *last;
} lock_turn;

cb_code lock_turn_init(lock_turn *t, cb_error *err);
void lock_turn_done(lock_turn *t);
cb_code lock_turn_take(lock_turn *t, int64_t timeout_ms, cb_error *err);
void lock_turn_release(lock_turn *t);

/*
 * The turnstile; fd < 0: nothing to exclude (memory). Handing over costs a wake-up, as much as a commit; so a process that writes without
 * pause keeps its turn for a slice of time before it lets the next one in. Nobody waits longer than a slice per process before it.
 */
typedef struct lock_pace {
	int64_t slice_end_us, released_us;
	bool busy; /* came back at once: will probably again */
} lock_pace;

cb_code lock_writer_take(int fd, live *l, lock_pace *pace, int64_t timeout_ms, cb_error *err);
void lock_writer_release(int fd, live *l, lock_pace *pace);

int64_t lock_now_us(void); /* monotonic */

#endif
