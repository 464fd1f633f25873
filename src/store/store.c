/*
 * store.c: the connection among threads, transactions, counters and stamps.
 *
 * Order at commit: counters, flush of segments, slots odd, the database's commit, slots even, the writer lock, flush. A reader that sees
 * an even slot and then reads the database sees at least what that slot stood for; one that sees an odd slot knows nothing.
 */
#include "store/internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/cancel.h"

enum {
	INO_BLOCK = 1024,
	/* Numbers made ready by one flush, and lost at a boot at most. */
	RESERVE = 1 << 16,
	RESERVE_BOXES = 1 << 6, /* their numbers have 31 bits */
	TIDY_PAGES = 1000,      /* fold the log beside other writers */
	TIDY_HARD_PAGES = 4000, /* fold it before the next writer, or a busy store's log would grow for ever */
};

/* ---- the connection ---- */

static bool is_holder(const store *s)
{
	return entry_lock_is_mine(&s->lock);
}

cb_code store_hold(store *s, cb_error *err)
{
	for (;;) {
		entry_pause();
		CB_TRY(entry_lock_take(&s->lock, "for the store, which another thread uses", err));
		if (s->lock.depth > 1 || entry_engine_try()) return CB_OK;
		entry_lock_give(&s->lock); /* a connection that nobody holds is of use in the child */
	}
}

cb_code store_enter(store *s, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	if (!is_holder(s)) CB_TRY(cancel_check(err));
	return store_hold(s, err);
}

void store_leave(store *s)
{
	if (s->lock.depth == 1) entry_engine_end();
	entry_lock_give(&s->lock);
}

bool store_in_write(const store *s)
{
	return is_holder(s) && s->txn.active && fork_is_current(s);
}

cb_code store_need_write(store *s, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	if (!store_in_write(s)) return cb_err_set(err, CB_INVALID, "no write transaction is open");
	if (s->txn.failed != CB_OK)
		return cb_err_set(err, s->txn.failed, "an earlier write of this transaction failed: %s",
		                  cb_code_text(s->txn.failed));
	return CB_OK;
}

cb_code store_wrote(store *s, cb_code code)
{
	switch (code) {
	case CB_OK:
	case CB_EXISTS:
	case CB_NOTFOUND:
	case CB_STALE:
	case CB_INVALID:
	case CB_TOOBIG:
		break; /* nothing was half-done */
	default:
		s->txn.failed = code;
	}
	return code;
}

void store_poison(store *s)
{
	atomic_store(&s->poisoned, true);
	if (s->live.map && s->live.writable) atomic_store(&s->live.map->poison, 1);
}

static cb_code check_poison(const store *s, cb_error *err)
{
	if (!atomic_load(&s->poisoned) && !(s->live.map && atomic_load(&s->live.map->poison))) return CB_OK;
	return cb_err_set(err, CB_IO, "a flush failed; close and reopen the store (its content is checked then)");
}

/* ---- transactions ---- */

static cb_code begin_locked(store *s, store_need need, cb_error *err)
{
	CB_TRY(check_poison(s, err));
	CB_TRY(store_check_place(s, err));
	CB_TRY(store_enter(s, err));
	s->engine->need = need;
	cb_code code = s->engine->ops->write_begin(s->engine, err);
	if (code != CB_OK) {
		if (s->engine->flush_failed) store_poison(s);
		store_leave(s);
		return code;
	}
	live_settle(&s->live);
	inuse_removal_end(&s->inuse); /* of a remover who was killed */
	s->txn.active = true;
	s->txn.failed = CB_OK;
	return CB_OK;
}

cb_code store_write_begin(store *s, cb_error *err)
{
	return store_write_begin_as(s, STORE_GROWS, err);
}

bool store_is_short(const store *s)
{
	return s->engine && s->engine->is_short;
}

cb_code store_write_begin_as(store *s, store_need need, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	if (s->read_only) return store_refuse_write(s, err);
	if (is_holder(s)) return cb_err_set(err, CB_INVALID, "a transaction is open already");
	CB_TRY(check_poison(s, err));
	CB_TRY(cancel_check(err));
	entry_begin(); /* or a fork would find others waiting for the turn of one that waits for the fork */
	cb_code code = lock_turn_take(&s->turn, s->lock_timeout_ms, err);
	if (code == CB_OK) {
		code = lock_writer_take(s->lock_fd, &s->live, &s->pace, s->lock_timeout_ms, err);
		if (code == CB_OK) {
			code = begin_locked(s, need, err);
			if (code != CB_OK) lock_writer_release(s->lock_fd, &s->live, &s->pace);
		}
		if (code != CB_OK) lock_turn_release(&s->turn);
	}
	entry_end();
	return code;
}

/* Others compare with it without a lock: what they read was committed before they learned its number, so any value of it is right for
 * them. */
static void unsettled_set(store *s, uint64_t content, uint64_t node)
{
	atomic_store_explicit(&s->unsettled[false], content, memory_order_relaxed);
	atomic_store_explicit(&s->unsettled[true], node, memory_order_relaxed);
}

void store_txn_clear(store *s, bool committed)
{
	store_txn *t = &s->txn;
	for (size_t i = 0; i < t->pending_count; i++) {
		if (committed) cache_put(s->cache, t->pending[i].is_node, t->pending[i].value);
		blob_unref(t->pending[i].value);
	}
	/* From the last on: each is the end of its segment when those after it are gone. */
	for (size_t i = t->pin_count; i > 0; i--) {
		const segment_place *p = &t->pins[i - 1];
		if (committed || t->may_be_there) segment_unpin(s->segments, p->segment);
		else segment_take_back(s->segments, p->segment, p->offset, p->size);
	}
	t->pending_count = t->pin_count = 0;
	t->pending_bytes = 0;
	t->may_be_there = false;
	t->counters_known = t->counters_changed = false;
	unsettled_set(s, UINT64_MAX, UINT64_MAX);
	t->active = false;
	memset(t->touched, 0, sizeof t->touched);
}

/*
 * One process in turn folds the log, each time it has grown by so much; otherwise all would, after every commit, once the log is long and
 * busy readers and writers keep it from starting anew.
 */
static bool should_tidy(store *s)
{
	live_map *m = s->live.map;
	uint64_t pages = s->engine->log_pages;
	if (!m || pages < TIDY_PAGES) return pages >= TIDY_PAGES;
	uint32_t last = atomic_load(&m->tidied);
	if (last <= pages && pages - last < TIDY_PAGES) return false;
	return atomic_compare_exchange_strong(&m->tidied, &last, (uint32_t)pages);
}

/* The log began anew: the next folding counts from its start. */
static void note_restart(store *s)
{
	live_map *m = s->live.map;
	if (m && s->engine->log_pages < TIDY_PAGES && atomic_load(&m->tidied) != 0) atomic_store(&m->tidied, 0);
}

/* After the database's commit or rollback. */
static void finish(store *s, bool committed)
{
	store_txn_clear(s, committed);
	inuse_removal_end(&s->inuse);
	engine *e = s->engine;
	bool tidy = committed && should_tidy(s), hard = e->log_pages >= TIDY_HARD_PAGES;
	if (committed) note_restart(s);
	if (tidy && hard) e->ops->tidy(e);
	lock_writer_release(s->lock_fd, &s->live, &s->pace);
	if (tidy && !hard) e->ops->tidy(e);
	if (e->flush_failed) store_poison(s);
}

static void release(store *s)
{
	store_leave(s);
	lock_turn_release(&s->turn);
}

static void slots_step(store *s)
{
	live_map *m = s->live.map;
	for (size_t w = 0; w < ARRAY_LEN(s->txn.touched); w++) {
		for (uint64_t bits = s->txn.touched[w]; bits; bits &= bits - 1) {
			(void)atomic_fetch_add(&m->slot[w * 64 + (size_t)__builtin_ctzll(bits)], 1);
		}
	}
}

/* Odd, commit, even. A killed process leaves them odd: the next writer settles them. */
static cb_code commit_stamped(store *s, cb_error *err)
{
	live_map *m = s->live.map;
	if (!m) return s->engine->ops->write_commit(s->engine, err);
	atomic_store(&m->writing, 1);
	slots_step(s);
	cb_code code = s->engine->ops->write_commit(s->engine, err);
	slots_step(s);
	atomic_store(&m->writing, 0);
	return code;
}

static cb_code segments_ready(store *s, cb_error *err)
{
	if (s->txn.pin_count == 0) return CB_OK;
	CB_TRY(segment_flush(s->segments, err));
	if (segment_failures(s->segments) == s->txn.segment_failures) return CB_OK;
	return cb_err_set(err, CB_IO, "a segment that this transaction wrote to could not be flushed");
}

static cb_code commit_prepare(store *s, bool sync, cb_error *err)
{
	uint64_t skipped;
	CB_TRY(store_need_write(s, err));
	/* That it was flushed is known by the states (live_promise): each such commit has one, also a checkpoint that takes none. */
	if (sync && s->path && !s->txn.counters_changed) CB_TRY(store_take(s, STORE_NEXT_STATE, 1, &skipped, err));
	if (s->txn.counters_changed) CB_TRY(s->engine->ops->counters_set(s->engine, s->txn.counters, err));
	return segments_ready(s, err);
}

cb_code store_write_commit(store *s, bool sync, cb_error *err)
{
	if (!store_in_write(s)) return store_need_write(s, err);
	cb_code code = commit_prepare(s, sync, err);
	if (code != CB_OK) {
		store_write_abort(s);
		return code;
	}
	code = commit_stamped(s, err);
	/* An ordinary commit that is refused for room is refused before its last frame is written. Of other failures that is not known. */
	s->txn.may_be_there = code != CB_OK && (code != CB_NOSPACE || s->engine->need != STORE_GROWS);
	finish(s, code == CB_OK);
	s->unflushed = s->unflushed || code == CB_OK;
	if (code == CB_OK && (sync || s->durability == STORE_FULL)) code = store_sync(s, err);
	release(s);
	return code;
}

void store_write_abort(store *s)
{
	if (!store_in_write(s)) return;
	s->engine->ops->write_abort(s->engine);
	finish(s, false);
	release(s);
}

cb_code store_write_end(store *s, cb_code code, bool sync, cb_error *err)
{
	if (code == CB_OK) return store_write_commit(s, sync, err);
	store_write_abort(s);
	return code;
}

cb_code store_in_transaction(store *s, bool sync, store_body body, void *context, cb_error *err)
{
	return store_in_transaction_as(s, STORE_GROWS, sync, body, context, err);
}

cb_code store_in_transaction_as(store *s, store_need need, bool sync, store_body body, void *context, cb_error *err)
{
	CB_TRY(store_write_begin_as(s, need, err));
	return store_write_end(s, body(s, context, err), sync, err);
}

cb_code store_read_begin(store *s, cb_error *err)
{
	CB_TRY(store_enter(s, err));
	if (s->read_depth == 0 && !s->txn.active) {
		cb_code code = s->engine->ops->read_begin(s->engine, err);
		if (code != CB_OK) {
			store_leave(s);
			return code;
		}
		s->read_open = true;
	}
	s->read_depth++;
	return CB_OK;
}

void store_read_end(store *s)
{
	if (s->forked_depth > 0) { /* begun by the parent: here only the count is left of it */
		s->forked_depth--;
		s->read_depth--;
		entry_lock_give(&s->lock);
		return;
	}
	if (!is_holder(s) || s->read_depth == 0) return;
	if (--s->read_depth == 0 && s->read_open) {
		s->engine->ops->read_end(s->engine);
		s->read_open = false;
	}
	store_leave(s);
}

cb_code store_sync(store *s, cb_error *err)
{
	if (s->read_only) return CB_OK;
	STORE_ENTER(s, err);
	if (atomic_load(&s->poisoned)) return check_poison(s, err);
	CB_TRY(store_check_place(s, err));
	live_promise flushed = {0};
	uint64_t counters[STORE_COUNTERS];
	/* Before it: what it flushes may be more. */
	if (s->engine->ops->counters_get(s->engine, counters, NULL) == CB_OK) flushed.next_state = counters[STORE_NEXT_STATE];
	cb_code code = s->engine->ops->flush(s->engine, &flushed.position, err);
	if (code == CB_OK) live_promise_set(&s->live, flushed);
	if (code == CB_OK && !s->txn.active) s->unflushed = false;
	if (s->engine->flush_failed) store_poison(s);
	return code;
}

/* ---- counters ---- */

cb_code store_counters_need(store *s, cb_error *err)
{
	store_txn *t = &s->txn;
	if (t->counters_known) return CB_OK;
	CB_TRY(s->engine->ops->counters_get(s->engine, t->counters, err));
	unsettled_set(s, t->counters[STORE_NEXT_CONTENT], t->counters[STORE_NEXT_NODE]);
	t->counters_known = true;
	return CB_OK;
}

static uint64_t reserve_size(int which)
{
	return which == STORE_NEXT_BOX ? RESERVE_BOXES : RESERVE;
}

/* Inside a write transaction that knows the counters: numbers of this one below `end` may be given out. */
static cb_code reserve(store *s, store_counter which, uint64_t end, cb_error *err)
{
	if (!s->path || which >= STORE_EPOCH || end <= s->reserved[which]) return CB_OK;
	uint64_t reserved[STORE_EPOCH];
	bool known = numbers_read(&s->folder, reserved);
	for (int i = 0; i < STORE_EPOCH; i++) {
		if (reserved[i] < s->reserved[i]) reserved[i] = s->reserved[i];
		/* The file was lost: others go on giving out what they reserved in it, which is less than this. */
		if (!known && reserved[i] < s->txn.counters[i] + 2 * reserve_size(i))
			reserved[i] = s->txn.counters[i] + 2 * reserve_size(i);
	}
	if (!known || end > reserved[which]) {
		if (end > reserved[which]) reserved[which] = end + reserve_size(which);
		CB_TRY(numbers_write(&s->folder, reserved, err));
	}
	memcpy(s->reserved, reserved, sizeof reserved);
	return CB_OK;
}

cb_code store_take(store *s, store_counter which, uint64_t n, uint64_t *out_first, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	CB_TRY(store_wrote(s, store_counters_need(s, err)));
	uint64_t first = s->txn.counters[which];
	uint64_t most = which == STORE_NEXT_BOX ? INT32_MAX : INT64_MAX / 2;
	if (first > most || n > most - first) return cb_err_set(err, CB_LIMIT, "the store has no more numbers");
	CB_TRY(store_wrote(s, reserve(s, which, first + n, err)));
	s->txn.counters[which] = first + n;
	s->txn.counters_changed = true;
	*out_first = first;
	return CB_OK;
}

static cb_code take_block(store *s, void *context, cb_error *err)
{
	return store_take(s, STORE_NEXT_INO, INO_BLOCK, context, err);
}

cb_code store_ino_take(store *s, uint64_t *out_ino, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	/* Not from the block: whoever fills that waits for the writer lock, which this thread has. */
	if (store_in_write(s)) return store_take(s, STORE_NEXT_INO, 1, out_ino, err);
	entry_begin();
	cb_code code = cancel_lock(&s->ino_mutex, "for the store's writer lock, which another thread waits for too", err);
	if (code != CB_OK) {
		entry_end();
		return code;
	}
	if (s->ino_next == s->ino_end) {
		uint64_t first = 0;
		code = store_in_transaction(s, false, take_block, &first, err);
		if (code == CB_OK) {
			s->ino_next = first;
			s->ino_end = first + INO_BLOCK;
		}
	}
	if (code == CB_OK) *out_ino = s->ino_next++;
	(void)pthread_mutex_unlock(&s->ino_mutex);
	entry_end();
	return code;
}

cb_code store_epoch(store *s, uint64_t *out, cb_error *err)
{
	STORE_ENTER(s, err);
	if (s->txn.active && s->txn.counters_known) {
		*out = s->txn.counters[STORE_EPOCH];
		return CB_OK;
	}
	uint64_t counters[STORE_COUNTERS];
	CB_TRY(s->engine->ops->counters_get(s->engine, counters, err));
	*out = counters[STORE_EPOCH];
	return CB_OK;
}

/* ---- stamps ---- */

bool store_fresh(store *s, uint64_t box, uint64_t *stamp)
{
	live_map *m = s->live.map;
	if (!m) {
		*stamp = 1;
		return false;
	}
	uint64_t now = atomic_load(&m->slot[live_slot(box)]);
	if ((now & 1) == 0 && now == *stamp) return true;
	*stamp = now; /* an odd one never matches */
	return false;
}

void store_touch(store *s, uint64_t box)
{
	if (!store_in_write(s)) return;
	size_t slot = live_slot(box);
	s->txn.touched[slot / 64] |= (uint64_t)1 << slot % 64;
}

uint64_t store_stamp_after(store *s, uint64_t box)
{
	live_map *m = s->live.map;
	if (!m || !store_in_write(s)) return 1;
	store_touch(s, box);
	return atomic_load(&m->slot[live_slot(box)]) + 2;
}
