/* entry.c: see entry.h. */
#include "base/entry.h"

#include <sched.h>
#include <time.h>

#include "base/buf.h"
#include "base/cancel.h"

_Atomic unsigned entry_forks;

/* A thread's record. They are never freed, only used again: the one that forks reads them without a lock. */
typedef struct entry_record {
	_Atomic bool taken;
	_Atomic bool in_call, in_engine;
	struct entry_record *next;
} entry_record;

static _Thread_local struct {
	entry_record *record;
	unsigned calls;  /* locks held, and entry_begin */
	unsigned engine; /* uses under way, one inside the other */
} here;

typedef enum asked { ASKED_NOTHING, ASKED_REST, ASKED_PAUSE } asked;

static _Atomic(entry_record *) records;
static _Atomic int asking; /* asked */
/* Held from before a fork to after it: who waits for it waits here. */
static pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
/* In a child: locks are made anew under it. */
static pthread_mutex_t renew_mutex = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t forked_by; /* the thread that this process began as; 0: it is nobody's child */
static entry_record spare;  /* of all threads for which there was no memory */
static _Atomic unsigned spare_in_call, spare_in_engine;

/* ---- records ---- */

static pthread_key_t at_end;
static pthread_once_t at_end_once = PTHREAD_ONCE_INIT;
static bool has_at_end;

static void record_release(void *record)
{
	here.record = NULL; /* what else runs at the thread's end takes another */
	atomic_store(&((entry_record *)record)->taken, false);
}

static void at_end_make(void)
{
	has_at_end = pthread_key_create(&at_end, record_release) == 0;
}

static entry_record *record_claim(void)
{
	(void)pthread_once(&at_end_once, at_end_make);
	entry_record *r = atomic_load(&records);
	for (; r; r = r->next) {
		bool taken = false;
		if (atomic_compare_exchange_strong(&r->taken, &taken, true)) break;
	}
	if (!r) {
		r = mem_alloc(sizeof(*r));
		if (!r) return &spare;
		*r = (entry_record){.taken = true, .next = atomic_load(&records)};
		while (!atomic_compare_exchange_weak(&records, &r->next, r)) {
		}
	}
	/* Without it the record stays with a thread that ended: some bytes. */
	if (has_at_end) (void)pthread_setspecific(at_end, r);
	return r;
}

cb_code entry_stays(unsigned era, cb_error *err)
{
	return era == entry_era() ? CB_OK
	                          : cb_err_set(err, CB_FORKED, "the process forked in the middle of this call: it is the parent's");
}

uintptr_t entry_thread(void)
{
	return (uintptr_t)&here;
}

static inline void say(_Atomic bool *flag, _Atomic unsigned *spares, bool value)
{
	if (here.record != &spare) atomic_store(flag, value);
	else if (value) (void)atomic_fetch_add(spares, 1);
	else (void)atomic_fetch_sub(spares, 1);
}

static inline void say_call(bool in)
{
	say(&here.record->in_call, &spare_in_call, in);
}

static inline void say_engine(bool in)
{
	say(&here.record->in_engine, &spare_in_engine, in);
}

static void wait_for_fork(void)
{
	(void)pthread_mutex_lock(&fork_mutex);
	(void)pthread_mutex_unlock(&fork_mutex);
}

/* ---- calls ---- */

/* False: a fork is about to be made, and this thread is in no call: it waits, holding nothing. */
static inline bool call_try(void)
{
	if (here.calls > 0) {
		here.calls++;
		return true;
	}
	if (!here.record) here.record = record_claim();
	say_call(true);
	if (atomic_load(&asking) == ASKED_NOTHING) {
		here.calls = 1;
		return true;
	}
	say_call(false);
	return false;
}

/* In a child the count begins anew, while calls that were under way at the fork still end. */
static inline void call_end(void)
{
	if (here.calls > 0 && --here.calls == 0) say_call(false);
}

void entry_begin(void)
{
	while (!call_try()) wait_for_fork();
}

void entry_end(void)
{
	call_end();
}

bool entry_engine_try(void)
{
	if (here.engine == 0) {
		say_engine(true);
		if (atomic_load(&asking) == ASKED_PAUSE) {
			say_engine(false);
			return false;
		}
	}
	here.engine++;
	return true;
}

void entry_engine_end(void)
{
	if (here.engine > 0 && --here.engine == 0) say_engine(false);
}

void entry_pause(void)
{
	while (atomic_load_explicit(&asking, memory_order_relaxed) == ASKED_PAUSE) {
		if (here.engine) say_engine(false);
		wait_for_fork();
		if (here.engine) say_engine(true);
	}
}

/* ---- locks ---- */

void entry_lock_init(entry_lock *l)
{
	(void)pthread_mutex_init(&l->mutex, NULL);
	atomic_init(&l->holder, 0);
	l->depth = 0;
	atomic_init(&l->era, entry_era());
}

void entry_lock_done(entry_lock *l)
{
	(void)pthread_mutex_destroy(&l->mutex);
}

/*
 * In a child. Whose the lock was at the fork its holder says: nobody's, or that of the thread which is there still, in the middle of a call
 * (fork() in a visitor). A holder of two forks ago may have got its number from a thread that is long gone: that is not asked further.
 */
static cb_code renew(entry_lock *l, cb_error *err)
{
	(void)pthread_mutex_lock(&renew_mutex);
	unsigned now = entry_era(), era = atomic_load(&l->era);
	uintptr_t holder = atomic_load(&l->holder);
	bool usable = era == now || holder == 0 || (holder == forked_by && era + 1 == now);
	if (usable && era != now) {
		(void)pthread_mutex_init(&l->mutex, NULL);
		if (holder) (void)pthread_mutex_lock(&l->mutex);
		atomic_store(&l->era, now);
	}
	(void)pthread_mutex_unlock(&renew_mutex);
	if (usable) return CB_OK;
	return cb_err_set(err, CB_FORKED, "another thread was in a call on this handle when the process forked: open another");
}

cb_code entry_lock_take(entry_lock *l, const char *what, cb_error *err)
{
	if (atomic_load_explicit(&l->era, memory_order_acquire) != entry_era()) CB_TRY(renew(l, err));
	uintptr_t me = (uintptr_t)&here;
	if (atomic_load_explicit(&l->holder, memory_order_relaxed) == me) {
		l->depth++;
		return CB_OK;
	}
	for (;;) {
		if (cancel_is_possible()) CB_TRY(cancel_lock(&l->mutex, what, err));
		else (void)pthread_mutex_lock(&l->mutex);
		if (call_try()) break;
		(void)pthread_mutex_unlock(&l->mutex);
		wait_for_fork();
	}
	atomic_store_explicit(&l->holder, me, memory_order_relaxed);
	l->depth = 1;
	return CB_OK;
}

void entry_lock_give(entry_lock *l)
{
	if (--l->depth > 0) return;
	atomic_store_explicit(&l->holder, 0, memory_order_relaxed);
	(void)pthread_mutex_unlock(&l->mutex);
	call_end();
}

/* ---- fork ---- */

static bool is_quiet(asked what)
{
	bool rest = what == ASKED_REST;
	unsigned own = here.record == &spare && (rest ? here.calls : here.engine) > 0;
	if (atomic_load(rest ? &spare_in_call : &spare_in_engine) > own) return false;
	for (const entry_record *r = atomic_load(&records); r; r = r->next)
		if (r != here.record && atomic_load(rest ? &r->in_call : &r->in_engine)) return false;
	return true;
}

static int64_t now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static bool ask(asked what, int ms)
{
	enum { YIELDS = 16, PAUSE_NS = 100000 };
	int64_t until = now_us() + (int64_t)ms * 1000;
	atomic_store(&asking, what);
	for (unsigned tries = 0; !is_quiet(what); tries++) {
		if (now_us() >= until) return false;
		if (tries < YIELDS) (void)sched_yield();
		else (void)nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
	}
	return true;
}

bool entry_fork_before(void)
{
	(void)pthread_mutex_lock(&fork_mutex);
	return ask(ASKED_REST, here.calls ? ENTRY_REST_INSIDE_MS : ENTRY_REST_MS) || ask(ASKED_PAUSE, ENTRY_PAUSE_MS);
}

void entry_fork_parent(void)
{
	atomic_store(&asking, ASKED_NOTHING);
	(void)pthread_mutex_unlock(&fork_mutex);
}

void entry_fork_child(void)
{
	(void)atomic_fetch_add(&entry_forks, 1);
	forked_by = entry_thread();
	for (entry_record *r = atomic_load(&records); r; r = r->next) {
		atomic_store(&r->in_call, false);
		atomic_store(&r->in_engine, false);
		atomic_store(&r->taken, r == here.record);
	}
	atomic_store(&spare_in_call, 0);
	atomic_store(&spare_in_engine, 0);
	here.calls = here.engine = 0;
	atomic_store(&asking, ASKED_NOTHING);
	(void)pthread_mutex_init(&fork_mutex, NULL);
	(void)pthread_mutex_init(&renew_mutex, NULL);
}
