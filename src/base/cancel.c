/* cancel.c: tokens, the limits of a thread, and looking at them. */
#include "base/cancel.h"

#include "base/args.h"
#include "base/sized.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"

struct cb_cancel {
	_Atomic unsigned refs; /* the creator's, and one for each limit that has it */
	atomic_bool fired;
	_Atomic long looks, fire_at;
};

static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "firing must be safe in a signal handler");

struct cancel_frame {
	cancel_frame *outer;
	cb_cancel *token;    /* NULL: none */
	int64_t deadline_ns; /* the earliest of this one and those around it, on the coarse monotonic clock; 0: none */
	unsigned depth;
};

_Thread_local cancel_thread cancel_here;

/* ---- tokens ---- */

cb_code cb_cancel_create(cb_cancel **out, cb_error *err)
{
	NEED(err, "out", out);
	cb_cancel *c = mem_alloc(sizeof(*c));
	if (!c) return cb_err_nomem(err);
	*c = (cb_cancel){.refs = 1};
	*out = c;
	return CB_OK;
}

void cb_cancel_fire(cb_cancel *c)
{
	if (c) atomic_store(&c->fired, true);
}

void cb_cancel_reset(cb_cancel *c)
{
	if (c) atomic_store(&c->fired, false);
}

bool cb_cancel_is_fired(const cb_cancel *c)
{
	return c && atomic_load(&c->fired);
}

void cb_cancel_free(cb_cancel *c)
{
	if (c && atomic_fetch_sub(&c->refs, 1) == 1) free(c);
}

void cancel_fire_at_look(cb_cancel *c, long n)
{
	atomic_store(&c->fired, false);
	atomic_store(&c->looks, 0);
	atomic_store(&c->fire_at, n);
}

long cancel_looks(const cb_cancel *c)
{
	return atomic_load(&c->looks);
}

static bool token_is_fired(cb_cancel *c)
{
	if (!c) return false;
	if (atomic_load_explicit(&c->fired, memory_order_relaxed)) return true;
	long at = atomic_load_explicit(&c->fire_at, memory_order_relaxed);
	if (at == 0) return false;
	if (atomic_fetch_add(&c->looks, 1) + 1 >= at) atomic_store(&c->fired, true);
	return cb_cancel_is_fired(c);
}

/* ---- limits of a thread ---- */

/* A tick of the kernel, 1 to 10 ms, is exact enough, and a quarter of the price. */
static int64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static pthread_key_t at_end;
static pthread_once_t at_end_once = PTHREAD_ONCE_INIT;
static int at_end_error;

static void frames_drop(void *top)
{
	for (cancel_frame *f = top; f;) {
		cancel_frame *outer = f->outer;
		cb_cancel_free(f->token);
		free(f);
		f = outer;
	}
}

static void at_end_make(void)
{
	at_end_error = pthread_key_create(&at_end, frames_drop);
}

static cb_code top_set(cancel_frame *top, cb_error *err)
{
	int error = pthread_setspecific(at_end, top);
	if (error) return cb_err_errno(err, error, "remembering a limit");
	cancel_here.top = top;
	return CB_OK;
}

static int64_t deadline_of(int64_t timeout_ms, const cancel_frame *outer)
{
	int64_t now = now_ns(), around = outer ? outer->deadline_ns : 0;
	if (timeout_ms == 0) return around;
	int64_t most = (INT64_MAX - now) / 1000000;
	int64_t own = timeout_ms < 0 ? 1 : timeout_ms > most ? INT64_MAX : now + timeout_ms * 1000000;
	return around && around < own ? around : own;
}

cb_code cb_limit_push(const cb_limit *limit, cb_error *err)
{
	NEED(err, "limit", limit);
	cb_limit l;
	CB_TRY(SIZED_TAKE(cb_limit, cancel, &l, limit, err));
	(void)pthread_once(&at_end_once, at_end_make);
	if (at_end_error) return cb_err_errno(err, at_end_error, "making room for limits");
	cancel_frame *outer = cancel_here.top;
	if (outer && outer->depth == CANCEL_NESTED)
		return cb_err_set(err, CB_LIMIT, "%d limits are in force: some were not popped", CANCEL_NESTED);
	cancel_frame *f = mem_alloc(sizeof(*f));
	if (!f) return cb_err_nomem(err);
	*f = (cancel_frame){outer, l.cancel, deadline_of(l.timeout_ms, outer), outer ? outer->depth + 1 : 1};
	cb_code code = top_set(f, err);
	if (code != CB_OK) free(f);
	else if (f->token) (void)atomic_fetch_add(&f->token->refs, 1);
	return code;
}

void cb_limit_pop(void)
{
	cancel_frame *f = cancel_here.top;
	if (!f || top_set(f->outer, NULL) != CB_OK) return; /* setting a key that is set needs no memory */
	cb_cancel_free(f->token);
	free(f);
}

/* ---- looking ---- */

static cb_code over(cb_code code, const char *why, cb_error *err)
{
	const char *what = code == CB_TIMEOUT ? "its time limit passed" : "it was cancelled";
	if (why) return cb_err_set(err, code, "%s while it waited %s", what, why);
	return cb_err_set(err, code, "%s", what);
}

cb_code cancel_look(const char *why, cb_error *err)
{
	const cancel_frame *top = cancel_here.top;
	for (const cancel_frame *f = top; f; f = f->outer)
		if (token_is_fired(f->token)) return over(CB_CANCELLED, why, err);
	if (top->deadline_ns && now_ns() >= top->deadline_ns) return over(CB_TIMEOUT, why, err);
	return CB_OK;
}

cb_code cancel_sleep(int ms, const char *what, cb_error *err)
{
	for (int left = ms; left > 0; left -= CANCEL_LOOK_MS) {
		int n = left < CANCEL_LOOK_MS ? left : CANCEL_LOOK_MS;
		CB_TRY(cancel_check_wait(what, err));
		(void)nanosleep(&(struct timespec){0, (long)n * 1000000}, NULL);
	}
	return CB_OK;
}

cb_code cancel_poll(int fd, short events, const char *what, cb_error *err)
{
	struct pollfd p = {.fd = fd, .events = events};
	while (cancel_is_possible()) {
		CB_TRY(cancel_look(what, err));
		int n = poll(&p, 1, CANCEL_LOOK_MS);
		if (n > 0) break;
		if (n < 0 && errno != EINTR) return cb_err_errno(err, errno, "waiting %s", what);
	}
	return CB_OK;
}

size_t cancel_piece(int fd, size_t size)
{
	struct stat st;
	if (!cancel_is_possible() || size <= PIPE_BUF || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))) return size;
	return PIPE_BUF; /* so much fits when a pipe says that it can be written */
}

/* gcc's thread sanitizer does not know the call with a clock, and would see data without a lock. */
#ifdef __SANITIZE_THREAD__
#define WAIT_CLOCK CLOCK_REALTIME
#define LOCK_UNTIL(mutex, until) pthread_mutex_timedlock((mutex), (until))
#else
#define WAIT_CLOCK CLOCK_MONOTONIC
#define LOCK_UNTIL(mutex, until) pthread_mutex_clocklock((mutex), CLOCK_MONOTONIC, (until))
#endif

cb_code cancel_lock(pthread_mutex_t *mutex, const char *what, cb_error *err)
{
	if (!cancel_is_possible()) {
		(void)pthread_mutex_lock(mutex);
		return CB_OK;
	}
	if (pthread_mutex_trylock(mutex) == 0) return CB_OK;
	for (;;) {
		CB_TRY(cancel_look(what, err));
		struct timespec until;
		(void)clock_gettime(WAIT_CLOCK, &until);
		until.tv_nsec += (long)CANCEL_LOOK_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (LOCK_UNTIL(mutex, &until) == 0) return CB_OK;
	}
}
