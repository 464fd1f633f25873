/*
 * fork.c: stores in the child of fork().
 *
 * A child inherits descriptors and memory but none of SQLite's POSIX locks, while SQLite's bookkeeping in the child says it has them.
 * Used as it is, the child would write into a log that others delete. So before a fork all calls are brought to rest (base/entry.h), those
 * on stores in memory and opens and closes among them, since SQLite's own locks are the whole process's; and in the child the first call
 * closes the inherited connection without touching any file, which also clears SQLite's bookkeeping, and opens a new one. A connection
 * inside a transaction of the forking thread, or in a call that did not end in time, cannot be closed that way: its handle returns
 * CB_FORKED in the child, and so do other handles of the same store, and opening it again. Where a thread did not even leave SQLite, all
 * stores do: its allocator may be locked for ever.
 *
 * OFD locks would be shared with the child and outlive the parent: their descriptors are closed in the child at once.
 */
#include "store/internal.h"

#include <errno.h>
#include <sys/stat.h>

#include "store/held.h"

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER; /* a leaf: nothing is waited for under it */
static store *registry;
static bool handlers_set;
static bool engine_is_free; /* as the last fork found it, */
static bool engine_lost;    /* and what that means here */

/* With the registry's mutex held from prepare to parent/child. */
static void before_fork(void)
{
	engine_is_free = entry_fork_before();
	(void)pthread_mutex_lock(&registry_mutex);
}

static void after_fork_parent(void)
{
	(void)pthread_mutex_unlock(&registry_mutex);
	entry_fork_parent();
}

static void close_fd(int *fd)
{
	if (*fd >= 0) (void)close(*fd);
	*fd = -1;
}

static void after_fork_child(void)
{
	engine_lost = engine_lost || !engine_is_free;
	entry_fork_child();
	held_forked();
	for (store *s = registry; s; s = s->next_open) {
		bool rests = atomic_load(&s->lock.holder) == 0;
		bool reading = entry_lock_is_mine(&s->lock) && s->lock.depth == s->read_depth && !s->txn.active;
		if (!rests && !reading) s->fork_broken = true;
		s->forked_depth = reading ? s->read_depth : 0;
		if (!s->path) continue;
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
	s->generation = entry_era();
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
	return s->generation == entry_era() && s->forked_depth == 0;
}

unsigned store_fork_era(void)
{
	return entry_era();
}

static bool is_same_folder(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool fork_is_broken_folder(int folder)
{
	bool found = false;
	(void)pthread_mutex_lock(&registry_mutex);
	for (const store *s = registry; s && !found; s = s->next_open)
		found = s->fork_broken && s->path && is_same_folder(s->folder.fd, folder);
	(void)pthread_mutex_unlock(&registry_mutex);
	return found;
}

cb_code fork_check_engine(cb_error *err)
{
	if (!engine_lost) return CB_OK;
	return cb_err_set(err, CB_FORKED,
	                  "another thread was inside the database when the process forked: stores cannot be used before an exec");
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
	s->unsettled[0] = s->unsettled[1] = UINT64_MAX;
	s->read_depth = 0;
	s->read_open = false;
	s->gc_running = false;
	s->ino_next = s->ino_end = 0;
	(void)pthread_mutex_init(&s->ino_mutex, NULL);
	(void)pthread_mutex_init(&s->owners_mutex, NULL);
	CB_TRY(lock_turn_init(&s->turn, err));
	return store_attach(s, false, err);
}

cb_code fork_reattach(store *s, cb_error *err)
{
	if (!s->path) return cb_err_set(err, CB_FORKED, "a store in memory stays with the process that made it");
	if (s->forked_depth || fork_is_broken_folder(s->folder.fd))
		return cb_err_set(err, CB_FORKED, "the process forked inside a transaction of this store");
	CB_TRY(fork_check_engine(err));
	CB_TRY(store_hold(s, err));
	unsigned now = entry_era();
	cb_code code = s->generation == now ? CB_OK : renew(s, err);
	if (code == CB_OK) s->generation = now;
	else if (s->generation != now) store_detach(s);
	store_leave(s);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "reopening the store after a fork");
}

void fork_abandon(store *s)
{
	bool usable = s->path && s->engine && s->forked_depth == 0 && !engine_lost && !fork_is_broken_folder(s->folder.fd);
	if (usable && store_hold(s, NULL) == CB_OK) {
		s->engine->ops->close(s->engine, true);
		s->engine = NULL;
		store_leave(s);
	}
	/* One that is broken stays known: what SQLite noted of its files does too. */
	if (s->fork_broken) return;
	fork_unregister(s);
	close_fd(&s->folder.fd);
}
