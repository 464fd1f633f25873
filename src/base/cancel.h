/*
 * cancel.h: the limits of the calling thread (cowbox/cancel.h), for whatever waits or loops.
 *
 * Whoever does something long looks now and then:
 *
 *   CB_TRY(cancel_check(err));
 *
 * and whoever waits does so in pieces of CANCEL_LOOK_MS (cancel_wait_ms). Without a limit a look is one test of a thread's variable; with
 * one it reads the token and a coarse clock, some nanoseconds: fit for every row, node and file, and for every hundredth byte.
 *
 * A limit that is over stays over: every later look of the call says so too. So what must be done to the end (undoing, unlocking, telling
 * of a commit that was made) stands in a scope with CANCEL_SHIELD, where nothing looks.
 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <pthread.h>
#include <stdbool.h>

#include <cowbox/cancel.h>

#include "base/attr.h"
#include "base/err.h"

enum {
	CANCEL_LOOK_MS = 10, /* between two looks of a wait that nobody wakes */
	CANCEL_NESTED = 64,
};

typedef struct cancel_frame cancel_frame;

typedef struct cancel_thread {
	cancel_frame *top;
	unsigned shields;
} cancel_thread;
extern _Thread_local cancel_thread cancel_here;

/* Of a limit there is: is it over? why says what was being waited for or done; NULL: nothing to add. */
cb_code cancel_look(const char *why, cb_error *err);

static inline bool cancel_is_possible(void)
{
	return cancel_here.top && !cancel_here.shields;
}

static inline cb_code cancel_check(cb_error *err)
{
	return cancel_is_possible() ? cancel_look(NULL, err) : CB_OK;
}

/* For a wait: "for the store's writer lock". */
static inline cb_code cancel_check_wait(const char *what, cb_error *err)
{
	return cancel_is_possible() ? cancel_look(what, err) : CB_OK;
}

/* For code that cannot return one. */
static inline bool cancel_is_due(void)
{
	return cancel_is_possible() && cancel_look(NULL, NULL) != CB_OK;
}

/* Did the limit end it? Then it can be tried again, and is no failure of what it was done to. */
static inline bool cancel_is_code(cb_code code)
{
	return code == CB_CANCELLED || code == CB_TIMEOUT;
}

/* How long poll() may wait that would wait for `most` (-1: for ever): the caller looks after that. */
static inline int cancel_wait_ms(int most)
{
	return cancel_is_possible() && (most < 0 || most > CANCEL_LOOK_MS) ? CANCEL_LOOK_MS : most;
}

/* Sleeps. */
cb_code cancel_sleep(int ms, const char *what, cb_error *err);

/* Waits until the descriptor, perhaps a pipe, can be read or written (POLLIN, POLLOUT); without a limit the read or write waits itself. */
cb_code cancel_poll(int fd, short events, const char *what, cb_error *err);
/* How much of `size` may be written after that without waiting again. */
size_t cancel_piece(int fd, size_t size);

/* Locks it, or gives up when the limit ends. */
cb_code cancel_lock(pthread_mutex_t *mutex, const char *what, cb_error *err);

static inline void cancel_unshield_(const int *shield)
{
	(void)shield;
	cancel_here.shields--;
}
/* To the end of the scope nothing is ended by a limit. */
#define CANCEL_SHIELD ATTR_CLEANUP(cancel_unshield_) ATTR_UNUSED const int cancel_shield_ = (int)cancel_here.shields++

/* For tests: the token fires at the n-th look of whomever. 0: not by itself. */
void cancel_fire_at_look(cb_cancel *cancel, long n);
/* How many looks there were at it. */
long cancel_looks(const cb_cancel *cancel);

#endif
