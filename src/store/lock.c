/* lock.c: see lock.h. */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/entry.h"
#include "base/limits.h"

enum {
	SPIN_TRIES = 4,      /* a commit takes about 20 us: yielding a few times often saves a sleep */
	LOOK_AGAIN_US = 300, /* a holder that is killed, or stops within its slice, wakes nobody */
	SLICE_US = 500,      /* some ten commits */
	BUSY_GAP_US = 100,   /* between two transactions of a process that writes without pause */
};

struct lock_waiter {
	pthread_cond_t granted_cond;
	bool granted;
	lock_waiter *next;
};

int64_t lock_now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- bytes ---- */

static int byte_set(int fd, uint64_t byte, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
	for (;;) {
		if (fcntl(fd, F_OFD_SETLK, &l) == 0) return 0;
		if (errno != EINTR) return errno;
	}
}

static bool is_held_by_other(int error)
{
	return error == EAGAIN || error == EACCES;
}

cb_code lock_failed(int fd, int error, cb_error *err)
{
	char link[32], name[LIMIT_PATH_BYTES];
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, name, sizeof name - 1);
	name[n > 0 ? n : 0] = 0;
	(void)cb_err_errno(err, error, "locking '%s' failed", n > 0 ? name : "the store");
	/* Whatever errno says otherwise: not a wait, not a matter of rights, but a filesystem that cannot lock. */
	if (err) err->code = CB_IO;
	return CB_IO;
}

cb_code lock_byte_try(int fd, uint64_t byte, cb_error *err)
{
	int error = byte_set(fd, byte, F_WRLCK);
	if (error == 0) return CB_OK;
	if (is_held_by_other(error)) return cb_err_set(err, CB_BUSY, "another process holds the lock");
	return lock_failed(fd, error, err);
}

void lock_byte_release(int fd, uint64_t byte)
{
	(void)byte_set(fd, byte, F_UNLCK);
}

/* Waits on one byte; `word` (may be NULL) is woken when it is released by a living process. */
static cb_code byte_wait_until(int fd, uint64_t byte, live *l, _Atomic uint32_t *word, int64_t deadline_us, cb_error *err)
{
	for (unsigned tries = 0;; tries++) {
		uint32_t seen = word ? atomic_load(word) : 0;
		int error = byte_set(fd, byte, F_WRLCK);
		if (error == 0) return CB_OK;
		if (!is_held_by_other(error)) return lock_failed(fd, error, err);
		int64_t left = deadline_us - lock_now_us();
		if (left <= 0) return cb_err_set(err, CB_BUSY, "another process keeps the store's writer lock");
		entry_pause(); /* of an open, which is in the engine */
		CB_TRY(cancel_check_wait("for the store's lock, which another process holds", err));
		if (tries < SPIN_TRIES) {
			(void)sched_yield();
		} else if (word) {
			live_wait(l, word, seen, left < LOOK_AGAIN_US ? left : LOOK_AGAIN_US);
		} else {
			struct timespec t = {0, tries < 32 ? 50000 : 1000000};
			(void)nanosleep(&t, NULL);
		}
	}
}

cb_code lock_byte_wait(int fd, uint64_t byte, int64_t timeout_ms, cb_error *err)
{
	return byte_wait_until(fd, byte, NULL, NULL, lock_now_us() + timeout_ms * 1000, err);
}

/* ---- threads ---- */

cb_code lock_turn_init(lock_turn *t, cb_error *err)
{
	*t = (lock_turn){.held = false};
	int error = pthread_mutex_init(&t->mutex, NULL);
	return error ? cb_err_errno(err, error, "making a mutex") : CB_OK;
}

void lock_turn_done(lock_turn *t)
{
	(void)pthread_mutex_destroy(&t->mutex);
}

static void turn_unlink(lock_turn *t, const lock_waiter *w)
{
	lock_waiter *before = NULL;
	for (lock_waiter *at = t->first; at; before = at, at = at->next) {
		if (at != w) continue;
		if (before) before->next = at->next;
		else t->first = at->next;
		if (t->last == at) t->last = before;
		return;
	}
}

static struct timespec timespec_of(int64_t us)
{
	return (struct timespec){us / 1000000, us % 1000000 * 1000};
}

/* Under a limit the waiter looks at it now and then: nobody knows whom to wake when it ends. */
static cb_code turn_wait(lock_turn *t, lock_waiter *w, int64_t timeout_ms, cb_error *err)
{
	int64_t end_us = lock_now_us() + timeout_ms * 1000;
	if (t->last) t->last->next = w;
	else t->first = w;
	t->last = w;
	cb_code code = CB_OK;
	while (!w->granted && code == CB_OK) {
		int64_t now_us = lock_now_us(), look_us = now_us + CANCEL_LOOK_MS * 1000;
		struct timespec until = timespec_of(cancel_is_possible() && look_us < end_us ? look_us : end_us);
		if (now_us >= end_us) code = cb_err_set(err, CB_BUSY, "another thread keeps the store's writer lock");
		else code = cancel_check_wait("for the store's writer lock, which another thread holds", err);
		if (code == CB_OK) (void)pthread_cond_clockwait(&w->granted_cond, &t->mutex, CLOCK_MONOTONIC, &until);
	}
	if (!w->granted) turn_unlink(t, w);
	return code;
}

cb_code lock_turn_take(lock_turn *t, int64_t timeout_ms, cb_error *err)
{
	(void)pthread_mutex_lock(&t->mutex);
	cb_code code = CB_OK;
	if (!t->held && !t->first) {
		t->held = true;
	} else {
		lock_waiter w = {.granted = false};
		(void)pthread_cond_init(&w.granted_cond, NULL);
		code = turn_wait(t, &w, timeout_ms, err);
		(void)pthread_cond_destroy(&w.granted_cond);
	}
	(void)pthread_mutex_unlock(&t->mutex);
	return code;
}

void lock_turn_release(lock_turn *t)
{
	(void)pthread_mutex_lock(&t->mutex);
	lock_waiter *w = t->first;
	if (w) { /* handed over: nobody can slip in between */
		t->first = w->next;
		if (!t->first) t->last = NULL;
		w->granted = true;
		(void)pthread_cond_signal(&w->granted_cond);
	} else {
		t->held = false;
	}
	(void)pthread_mutex_unlock(&t->mutex);
}

/* ---- processes ---- */

static cb_code queue_through(int fd, live *l, int64_t deadline_us, cb_error *err)
{
	live_map *m = l->map;
	CB_TRY(byte_wait_until(fd, LOCK_QUEUE, l, m ? &m->queue : NULL, deadline_us, err));
	cb_code code = byte_wait_until(fd, LOCK_WRITER, l, m ? &m->released : NULL, deadline_us, err);
	lock_byte_release(fd, LOCK_QUEUE);
	if (m) live_wake(l, &m->queue, 1);
	return code;
}

cb_code lock_writer_take(int fd, live *l, lock_pace *pace, int64_t timeout_ms, cb_error *err)
{
	if (fd < 0) return CB_OK;
	live_map *m = l->map;
	int64_t now = lock_now_us();
	bool alone = !m || atomic_load(&m->waiters) == 0;
	pace->busy = now - pace->released_us < BUSY_GAP_US;
	if (alone || (pace->busy && now < pace->slice_end_us)) {
		int error = byte_set(fd, LOCK_WRITER, F_WRLCK);
		if (error == 0 && alone) pace->slice_end_us = now + SLICE_US;
		if (error == 0) return CB_OK;
		if (!is_held_by_other(error)) return lock_failed(fd, error, err);
	}
	if (m) (void)atomic_fetch_add(&m->waiters, 1);
	cb_code code = queue_through(fd, l, now + timeout_ms * 1000, err);
	if (m) (void)atomic_fetch_sub(&m->waiters, 1);
	pace->slice_end_us = lock_now_us() + SLICE_US;
	return code;
}

void lock_writer_release(int fd, live *l, lock_pace *pace)
{
	if (fd < 0) return;
	lock_byte_release(fd, LOCK_WRITER);
	pace->released_us = lock_now_us();
	if (!l->map || atomic_load(&l->map->waiters) == 0) return;
	if (!pace->busy || pace->released_us >= pace->slice_end_us) live_wake(l, &l->map->released, 1);
}
