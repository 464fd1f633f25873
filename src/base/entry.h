/*
 * entry.h: who is inside the library, and what of it a child of fork() may go on with.
 *
 * A child has one thread, the one that forked. A lock that another thread of the parent held stays locked in it for ever, and what that
 * thread was changing stays half changed. So every thread says when it is in a call, in a record of its own, and fork() stops for a moment
 * (store/fork.c):
 *
 *  - It asks for rest: calls under way go on, new ones wait. As a rule all are over within microseconds, and the child has everything as
 *    between two calls. It waits ENTRY_REST_MS at most.
 *  - Then it asks those that are still under way to pause before they next go into the engine, and in the engine's own pauses. SQLite has
 *    locks for the whole process (its allocator, its list of files), which nobody can make anew in the child: nobody may be inside it. It
 *    waits ENTRY_PAUSE_MS at most; if somebody is inside all the same (a flush, a checkpoint), no store can be used in the child.
 *
 * In the child a lock whose holder is not there is *lost*: whoever takes it is told CB_FORKED. All others are made anew where they are
 * first taken.
 *
 * Why nobody is missed: a thread sets its record and then reads what is asked for; the one that forks sets what it asks for and then reads
 * all records. Both are sequentially consistent, so at least one of them sees the other. A thread that is told to wait takes its record
 * back first, holding nothing.
 */
#ifndef BASE_ENTRY_H
#define BASE_ENTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
	ENTRY_REST_MS = 400,       /* fork() waits so long for calls of other threads to end, */
	ENTRY_REST_INSIDE_MS = 50, /* inside a call of its own, which they may be waiting for, only so long, */
	ENTRY_PAUSE_MS = 200,      /* and then so long for the engine to be left */
};

/* How many times this process and its parents forked since they opened a store. */
extern _Atomic unsigned entry_forks;
static inline unsigned entry_era(void)
{
	return atomic_load_explicit(&entry_forks, memory_order_acquire);
}

/* After a function of the caller's: is this still the process in which the call began? In a child that it made by fork() the call ends,
 * with CB_FORKED: what it makes (a draft, a temporary name, bytes of a stream) is the parent's, and so is removing that. */
cb_code entry_stays(unsigned era, cb_error *err);

/* The calling thread, as a number; the same in a child of fork(). Never 0. */
uintptr_t entry_thread(void);

/* A lock that a call holds on what it works with: a handle, a connection. The thread that has it may take it again. */
typedef struct entry_lock {
	pthread_mutex_t mutex;
	_Atomic uintptr_t holder; /* 0: nobody */
	unsigned depth;           /* the holder's */
	_Atomic unsigned era;     /* in which the mutex was made */
} entry_lock;

void entry_lock_init(entry_lock *l);
void entry_lock_done(entry_lock *l);
/* CB_FORKED: another thread of the parent held it at the fork. what: for the message of a wait that a limit ended. */
cb_code entry_lock_take(entry_lock *l, const char *what, cb_error *err);
void entry_lock_give(entry_lock *l);
static inline bool entry_lock_is_mine(const entry_lock *l)
{
	return atomic_load_explicit(&l->holder, memory_order_relaxed) == entry_thread();
}

/* Around what waits for a lock that is not an entry_lock, and takes one of these then: as if it had taken one already. */
void entry_begin(void);
void entry_end(void);

/* Around the use of the engine, with its entry_lock held. False: a fork asks for a pause; give the lock back and wait with entry_pause. */
bool entry_engine_try(void);
void entry_engine_end(void);
/* Where the calling thread is between two uses of the engine, or inside it where it holds none of its locks: lets a fork go ahead. */
void entry_pause(void);

/* For the handlers of fork(). Before: true when nobody is inside the engine. */
bool entry_fork_before(void);
void entry_fork_parent(void);
void entry_fork_child(void);

#endif
