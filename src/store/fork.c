/*
 * fork.c: stores in the child of fork().
 *
 * A child inherits descriptors and memory but none of SQLite's POSIX locks, while SQLite's bookkeeping in the child says it has them.
 * Used as it is, the child would write into a log that others delete. So before a fork all connections are brought to rest (the fork
 * waits for other threads' transactions), and in the child the first call closes the inherited connection without touching any file, which
 * also clears SQLite's bookkeeping, and opens a new one. A connection inside a transaction of the forking thread cannot be closed that way:
 * its handle returns CB_FORKED in the child, and so does opening the same store again.
 *
 * OFD locks would be shared with the child and outlive the parent: their descriptors are closed in the child at once.
 */
#include "store/internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { REST_SECONDS = 5 }; /* for another thread's transaction; after that its handle is given up in the child */

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static store *registry;
static bool handlers_set;
static _Atomic unsigned fork_generation;

/* With the registry's mutex held from prepare to parent/child. */
static void before_fork(void)
{
	(void)pthread_mutex_lock(&registry_mutex);
	for (store *s = registry; s; s = s->next_open) {
		if (!s->path || s->fork_broken || atomic_load(&s->holder) == store_thread()) continue;
		struct timespec until;
		(void)clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += REST_SECONDS;
		if (pthread_mutex_timedlock(&s->mutex, &until) == 0) {
			atomic_store(&s->holder, store_thread());
			s->depth = 0; /* tells a connection at rest from one inside a call */
		}
	}
}

static bool is_resting(const store *s)
{
	return atomic_load(&s->holder) == store_thread() && s->depth == 0;
}

static void after_fork_parent(void)
{
	for (store *s = registry; s; s = s->next_open) {
		if (!s->path || s->fork_broken || !is_resting(s)) continue;
		atomic_store(&s->holder, 0);
		(void)pthread_mutex_unlock(&s->mutex);
	}
	(void)pthread_mutex_unlock(&registry_mutex);
}

static void close_fd(int *fd)
{
	if (*fd >= 0) (void)close(*fd);
	*fd = -1;
}

static void after_fork_child(void)
{
	(void)atomic_fetch_add(&fork_generation, 1);
	for (store *s = registry; s; s = s->next_open) {
		if (!s->path) continue;
		bool reading = atomic_load(&s->holder) == store_thread() && s->depth == s->read_depth && !s->txn.active;
		if (!is_resting(s) && !reading) s->fork_broken = true;
		s->forked_depth = s->read_depth;
		close_fd(&s->lock_fd);
		close_fd(&s->owner_fd);
		inuse_forget_fd(&s->inuse);
		if (s->segments) segments_forget_fds(s->segments);
	}
	(void)pthread_mutex_init(&registry_mutex, NULL);
}

cb_code fork_register(store *s, cb_error *err)
{
	(void)pthread_mutex_lock(&registry_mutex);
	int error = handlers_set ? 0 : pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	handlers_set = handlers_set || error == 0;
	s->generation = atomic_load(&fork_generation);
	if (error == 0) {
		s->next_open = registry;
		registry = s;
	}
	(void)pthread_mutex_unlock(&registry_mutex);
	return error ? cb_err_errno(err, error, "preparing for fork") : CB_OK;
}

void fork_unregister(store *s)
{
	(void)pthread_mutex_lock(&registry_mutex);
	for (store **at = &registry; *at; at = &(*at)->next_open) {
		if (*at != s) continue;
		*at = s->next_open;
		break;
	}
	(void)pthread_mutex_unlock(&registry_mutex);
}

bool fork_is_current(const store *s)
{
	return s->generation == atomic_load_explicit(&fork_generation, memory_order_acquire) && s->forked_depth == 0;
}

unsigned fork_era(void)
{
	return atomic_load_explicit(&fork_generation, memory_order_acquire);
}

unsigned store_fork_era(void)
{
	return fork_era();
}

bool fork_is_broken_path(const char *path)
{
	bool found = false;
	(void)pthread_mutex_lock(&registry_mutex);
	for (const store *s = registry; s && !found; s = s->next_open)
		found = s->fork_broken && s->path && strcmp(s->path, path) == 0;
	(void)pthread_mutex_unlock(&registry_mutex);
	return found;
}

/* Other threads of the parent may have been inside these when the process forked: they are left, not taken apart. */
static cb_code renew(store *s, cb_error *err)
{
	if (s->engine) s->engine->ops->close(s->engine, true);
	s->engine = NULL;
	s->segments = NULL;
	s->cache = NULL;
	inuse_abandon(&s->inuse);
	s->owners = NULL;
	s->owner_count = s->owner_capacity = 0;
	s->txn = (store_txn){.active = false};
	s->depth = s->read_depth = 0;
	s->read_open = false;
	s->gc_running = false;
	s->ino_next = s->ino_end = 0;
	atomic_store(&s->holder, 0);
	(void)pthread_mutex_init(&s->mutex, NULL);
	(void)pthread_mutex_init(&s->ino_mutex, NULL);
	(void)pthread_mutex_init(&s->owners_mutex, NULL);
	CB_TRY(lock_turn_init(&s->turn, err));
	return store_attach(s, false, err);
}

cb_code fork_reattach(store *s, cb_error *err)
{
	if (!s->path) return cb_err_set(err, CB_FORKED, "a store in memory stays with the process that made it");
	if (s->fork_broken || s->forked_depth)
		return cb_err_set(err, CB_FORKED, "the process forked inside a transaction of this store");
	(void)pthread_mutex_lock(&registry_mutex);
	unsigned now = atomic_load(&fork_generation);
	cb_code code = s->generation == now ? CB_OK : renew(s, err);
	if (code == CB_OK) s->generation = now;
	else if (s->generation != now) store_detach(s);
	(void)pthread_mutex_unlock(&registry_mutex);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "reopening the store after a fork");
}
