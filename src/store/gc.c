/*
 * gc.c: owners, and sweeping what nobody refers to.
 *
 * What is born at or after the horizon is spared. The horizon is the epoch this gc began, or older: that of the oldest living owner, whose
 * contents may not be referred to by any row yet. Freed ranges of segments are given back only after the deletion of their rows is flushed:
 * a power cut may bring an unflushed row back, and it must find its bytes.
 */
#include "store/internal.h"

#include <sched.h>

#include "base/buf.h"
#include "base/cancel.h"

/* ---- owners ---- */

static cb_code owner_reserve(store *s, cb_error *err)
{
	if (s->owner_count < s->owner_capacity) return CB_OK;
	size_t n = s->owner_capacity ? s->owner_capacity * 2 : 8;
	uint64_t *wider = mem_realloc(s->owners, n * sizeof *wider);
	if (!wider) return cb_err_nomem(err);
	s->owners = wider;
	s->owner_capacity = n;
	return CB_OK;
}

static cb_code owner_body(store *s, void *context, cb_error *err)
{
	uint64_t *owner = context, epoch = 0;
	CB_TRY(store_epoch(s, &epoch, err));
	CB_TRY(s->engine->ops->owner_insert(s->engine, epoch, owner, err));
	return s->owner_fd >= 0 ? lock_byte_try(s->owner_fd, LOCK_OWNERS + *owner, err) : CB_OK;
}

cb_code store_owner_begin(store *s, uint64_t *out_owner, cb_error *err)
{
	uint64_t owner = 0;
	/* A row that goes again: a large removal needs it too. */
	cb_code code = store_in_transaction_as(s, STORE_SHRINKS, false, owner_body, &owner, err);
	if (code == CB_OK) {
		(void)pthread_mutex_lock(&s->owners_mutex);
		code = owner_reserve(s, err);
		if (code == CB_OK) s->owners[s->owner_count++] = owner;
		(void)pthread_mutex_unlock(&s->owners_mutex);
	}
	if (code == CB_OK) *out_owner = owner;
	else if (owner && s->owner_fd >= 0) lock_byte_release(s->owner_fd, LOCK_OWNERS + owner); /* the row is a dead owner's now */
	return code;
}

cb_code store_owner_share(store *s, uint64_t owner, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	(void)pthread_mutex_lock(&s->owners_mutex);
	cb_code code = owner_reserve(s, err);
	if (code == CB_OK) s->owners[s->owner_count++] = owner; /* it is listed once for each who needs it */
	(void)pthread_mutex_unlock(&s->owners_mutex);
	return code;
}

/* False: others need it still, or it was not begun by this handle in this process (an owner of the parent stays the parent's). */
static bool owner_forget(store *s, uint64_t owner)
{
	bool found = false, shared = false;
	(void)pthread_mutex_lock(&s->owners_mutex);
	for (size_t i = 0; i < s->owner_count;) {
		bool same = s->owners[i] == owner;
		shared = shared || (same && found);
		if (same && !found) {
			s->owners[i] = s->owners[--s->owner_count];
			found = true;
		} else {
			i++;
		}
	}
	(void)pthread_mutex_unlock(&s->owners_mutex);
	return found && !shared;
}

static cb_code owner_end_body(store *s, void *context, cb_error *err)
{
	return s->engine->ops->owner_delete(s->engine, *(const uint64_t *)context, err);
}

void store_owner_end(store *s, uint64_t owner)
{
	CANCEL_SHIELD;
	if (owner == 0 || !fork_is_current(s) || !owner_forget(s, owner)) return;
	/* A row that stays behind is found by the next gc, since its lock is free. */
	if (store_in_write(s)) (void)store_wrote(s, owner_end_body(s, &owner, NULL));
	else (void)store_in_transaction_as(s, STORE_FREES, false, owner_end_body, &owner, NULL);
	if (s->owner_fd >= 0) lock_byte_release(s->owner_fd, LOCK_OWNERS + owner);
}

bool store_owner_is_living(store *s, uint64_t owner)
{
	CANCEL_SHIELD; /* a moment; and it cannot say that it was ended */
	bool living = false;
	if (store_enter(s, NULL) != CB_OK) return true; /* cannot tell */
	int fd = s->lock_fd;
	if (fd >= 0) {
		living = lock_byte_try(fd, LOCK_OWNERS + owner, NULL) != CB_OK; /* not owner_fd: see owner_visit */
		if (!living) lock_byte_release(fd, LOCK_OWNERS + owner);
	}
	store_leave(s);
	(void)pthread_mutex_lock(&s->owners_mutex);
	for (size_t i = 0; fd < 0 && i < s->owner_count; i++) living = living || s->owners[i] == owner;
	(void)pthread_mutex_unlock(&s->owners_mutex);
	return living;
}

/* ---- begin and end ---- */

cb_code store_upkeep_busy(cb_error *err)
{
	return cb_err_set(err, CB_BUSY,
	                  "a gc, prune, vacuum, backup or check of this store is running: try again when it has ended");
}

cb_code store_gc_lock(store *s, cb_error *err)
{
	if (s->read_only) return store_refuse_write(s, err);
	STORE_ENTER(s, err);
	if (s->gc_running) return store_upkeep_busy(err);
	cb_error why;
	cb_code code = s->lock_fd >= 0 ? lock_byte_try(s->lock_fd, LOCK_GC, cb_err_aside(&why)) : CB_OK;
	if (code == CB_BUSY) return store_upkeep_busy(err);
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	s->gc_running = true;
	s->gc_thread = entry_thread();
	return CB_OK;
}

/* Does the calling thread hold it, in a call that calls back? */
static cb_code is_own_gc(store *s, bool *out, cb_error *err)
{
	STORE_ENTER(s, err);
	*out = s->gc_running && s->gc_thread == entry_thread();
	return CB_OK;
}

cb_code store_gc_lock_wait(store *s, cb_error *err)
{
	enum { PAUSE_MS = 10 };
	static const char what[] = "for a gc, prune, vacuum, backup or check to end";
	int64_t until_us = lock_now_us() + LIMIT_UPKEEP_WAIT_MS * INT64_C(1000);
	bool own = false;
	for (;;) {
		cb_error why;
		cb_code code = store_gc_lock(s, cb_err_aside(&why));
		if (code == CB_BUSY) CB_TRY(is_own_gc(s, &own, err));
		if (code != CB_BUSY || own || lock_now_us() > until_us) return cb_err_pass(err, code, &why);
		CB_TRY(cancel_sleep(PAUSE_MS, what, err));
		CB_TRY(cancel_check_wait(what, err)); /* here, where it can be told what was waited for */
	}
}

void store_gc_unlock(store *s)
{
	CANCEL_SHIELD;
	if (store_enter(s, NULL) != CB_OK) return;
	if (s->gc_running && s->lock_fd >= 0) lock_byte_release(s->lock_fd, LOCK_GC);
	s->gc_running = false;
	store_leave(s);
}

typedef struct owner_look {
	store *s;
	uint64_t horizon;
	buf dead;
} owner_look;

static cb_code owner_visit(void *context, uint64_t owner, uint64_t epoch, cb_error *err)
{
	owner_look *l = context;
	int fd = l->s->lock_fd; /* not owner_fd: that one would find its own locks free */
	cb_error why;
	cb_code code = fd >= 0 ? lock_byte_try(fd, LOCK_OWNERS + owner, cb_err_aside(&why)) : CB_BUSY;
	if (code == CB_OK) {
		lock_byte_release(fd, LOCK_OWNERS + owner);
		return buf_append(&l->dead, &owner, sizeof owner, err);
	}
	if (code != CB_BUSY) return cb_err_pass(err, code, &why);
	if (epoch < l->horizon) l->horizon = epoch;
	return CB_OK;
}

static cb_code begin_body(store *s, void *context, cb_error *err)
{
	owner_look *l = context;
	engine *e = s->engine;
	uint64_t last = 0;
	CB_TRY(store_take(s, STORE_EPOCH, 1, &last, err));
	l->horizon = last + 1;
	CB_TRY(e->ops->owner_list(e, owner_visit, l, err));
	for (size_t i = 0; i < l->dead.size / sizeof(uint64_t); i++) {
		uint64_t owner;
		memcpy(&owner, l->dead.bytes + i * sizeof owner, sizeof owner);
		CB_TRY(e->ops->owner_delete(e, owner, err));
	}
	return CB_OK;
}

/* Rows that are not found refer to nothing: before anything is removed, what can be known of them must be there. */
static cb_code coherent(store *s, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->coherent(s->engine, err);
}

cb_code store_gc_begin(store *s, uint64_t *out_horizon, cb_error *err)
{
	CB_TRY(store_gc_lock(s, err));
	cb_code sound = coherent(s, err);
	if (sound != CB_OK) {
		store_gc_unlock(s);
		return sound;
	}
	owner_look l = {.s = s, .dead = BUF_INIT(SIZE_MAX / 2)};
	cb_code code = store_in_transaction_as(s, STORE_FREES, false, begin_body, &l, err);
	s->gc_owners_dead = l.dead.size / sizeof(uint64_t);
	buf_done(&l.dead);
	if (code != CB_OK) {
		store_gc_unlock(s);
		return code;
	}
	*out_horizon = l.horizon;
	return CB_OK;
}

void store_gc_end(store *s)
{
	store_gc_unlock(s);
}

/* ---- sweep ---- */

enum {
	SHORT_BATCH_ROWS = 32, /* where there is little room for the log: a row means a page and its neighbours', or 17 pages */
	GIVE_BACK_BYTES = 64 << 20, /* of segments, that wait for a flush; none wait where room is short */
};

typedef struct swept_range {
	uint64_t segment, offset, size;
} swept_range;

typedef struct sweep {
	store *s;
	uint64_t horizon;
	store_gc_marked is_marked;
	void *context;
	store_gc_stats *stats;
	bool is_node;
	uint64_t last_id, seen;
	engine_row doomed[ENGINE_BATCH_ROWS];
	size_t doomed_count, most; /* rows looked at in one batch */
	buf ranges;                /* of swept_range: deleted, not yet given back */
	uint64_t ranges_bytes;
} sweep;

static cb_code look_visit(void *context, const engine_row *row, cb_error *err)
{
	(void)err;
	sweep *w = context;
	w->last_id = row->id;
	w->seen++;
	if (row->birth >= w->horizon || w->is_marked(w->context, w->is_node, row->id)) {
		if (w->is_node) w->stats->nodes_kept++;
		else w->stats->contents_kept++;
	} else {
		w->doomed[w->doomed_count++] = *row;
	}
	return CB_OK;
}

static cb_code sweep_one(sweep *w, const engine_row *row, cb_error *err)
{
	store_gc_stats *st = w->stats;
	cb_code code = w->s->engine->ops->row_delete(w->s->engine, w->is_node, row->id, w->horizon, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	bool spared = code == CB_NOTFOUND;
	if (w->is_node) *(spared ? &st->nodes_kept : &st->nodes_freed) += 1;
	else *(spared ? &st->contents_kept : &st->contents_freed) += 1;
	if (spared) return CB_OK;
	st->bytes_freed += row->size;
	if (row->segment == 0) return CB_OK;
	swept_range r = {row->segment, row->offset, row->size};
	w->ranges_bytes += row->size;
	return buf_append(&w->ranges, &r, sizeof r, err);
}

static cb_code sweep_body(store *s, void *context, cb_error *err)
{
	(void)s;
	sweep *w = context;
	for (size_t i = 0; i < w->doomed_count; i++) CB_TRY(sweep_one(w, &w->doomed[i], err));
	return CB_OK;
}

static cb_code look_batch(sweep *w, cb_error *err)
{
	STORE_ENTER(w->s, err);
	w->doomed_count = 0;
	w->seen = 0;
	engine *e = w->s->engine;
	return e->ops->row_walk(e, w->is_node, w->last_id, w->most, false, look_visit, w, err);
}

/* ---- segments ---- */

static cb_code see_end(void *context, const engine_row *row, cb_error *err)
{
	(void)err;
	uint64_t *end = context;
	if (row->offset + row->size > *end) *end = row->offset + row->size;
	return CB_OK;
}

/* The byte behind the last content that a row names; 0: none. */
static cb_code segment_end(store *s, uint64_t segment, uint64_t *out, cb_error *err)
{
	STORE_ENTER(s, err);
	*out = 0;
	return s->engine->ops->segment_rows(s->engine, segment, see_end, out, err);
}

static cb_code segment_look(void *context, uint64_t segment, uint64_t bytes, cb_error *err)
{
	sweep *w = context;
	AUTO_FD int claim = -1;
	if (segment_claim(w->s->segments, segment, &claim, NULL) != CB_OK) return CB_OK;
	/* Asked only now: before the claim somebody could still have added a row. */
	uint64_t end = 0;
	CB_TRY(segment_end(w->s, segment, &end, err));
	if (end) { /* what a killed writer left behind it, and what was swept there */
		if (bytes > end) segment_cut(w->s->segments, segment, claim, end);
		return CB_OK;
	}
	CB_TRY(segment_remove(w->s->segments, segment, err));
	w->stats->segments_freed++;
	return CB_OK;
}

/* First the deletions so far are flushed: then nothing can bring a row back that names the bytes. */
static cb_code give_back(sweep *w, bool at_end, cb_error *err)
{
	store *s = w->s;
	if (!s->segments) return CB_OK;
	CB_TRY(store_sync(s, err));
	if (s->live.map) (void)atomic_fetch_add(&s->live.map->sweeps, 1);
	if (at_end) CB_TRY(segment_files(s->segments, segment_look, w, err));
	for (size_t at = 0; at < w->ranges.size; at += sizeof(swept_range)) {
		swept_range r;
		memcpy(&r, w->ranges.bytes + at, sizeof r);
		segment_punch(s->segments, r.segment, r.offset, r.size);
	}
	w->ranges.size = 0;
	w->ranges_bytes = 0;
	return CB_OK;
}

static void give_back_surely(sweep *w)
{
	CANCEL_SHIELD;
	(void)give_back(w, false, NULL);
}

/* ---- the tables ---- */

static cb_code doomed_delete(sweep *w, cb_error *err)
{
	uint64_t bytes = w->ranges_bytes;
	size_t ranges = w->ranges.size;
	if (!w->doomed_count) return CB_OK;
	cb_code code = store_in_transaction_as(w->s, STORE_FREES, false, sweep_body, w, err);
	if (code == CB_OK) return CB_OK;
	/* Their rows are still there: so must be their bytes. */
	w->ranges.size = ranges;
	w->ranges_bytes = bytes;
	return code;
}

static size_t batch_most(const store *s)
{
	return store_is_short(s) ? SHORT_BATCH_ROWS : ENGINE_BATCH_ROWS;
}

/* How many rows the next batch may have, after one that failed for lack of room, or did not: the log must hold what each of them changes,
 * and that differs. */
static size_t batch_after(const sweep *w, bool failed)
{
	size_t most = batch_most(w->s);
	if (failed) return w->most > SHORT_BATCH_ROWS ? SHORT_BATCH_ROWS : w->most / 2;
	return w->most * 2 < most ? w->most * 2 : most;
}

/* *out_more: there may be more rows, or these again. */
static cb_code sweep_batch(sweep *w, bool *out_more, cb_error *err)
{
	uint64_t last_id = w->last_id;
	store_gc_stats stats = *w->stats;
	cb_error why = {0};
	CB_TRY(look_batch(w, err));
	cb_code code = doomed_delete(w, &why);
	bool again = code == CB_NOSPACE && w->most > 1;
	*out_more = again || w->seen == w->most;
	w->most = batch_after(w, again);
	if (again) {
		w->last_id = last_id;
		*w->stats = stats;
		return CB_OK;
	}
	return cb_err_pass(err, code, &why);
}

static cb_code sweep_table(sweep *w, bool is_node, cb_error *err)
{
	bool more = true;
	w->is_node = is_node;
	w->last_id = 0;
	while (more) {
		CB_TRY(sweep_batch(w, &more, err));
		if (w->ranges_bytes >= GIVE_BACK_BYTES || (w->ranges_bytes && store_is_short(w->s)))
			CB_TRY(give_back(w, false, err));
		(void)sched_yield();
	}
	return CB_OK;
}

cb_code store_gc_sweep(store *s, uint64_t horizon, store_gc_marked is_marked, void *context, store_gc_stats *out, cb_error *err)
{
	store_gc_stats stats = {.owners_dead = s->gc_owners_dead};
	AUTO_FREE sweep *w = mem_alloc(sizeof *w);
	if (!w) return cb_err_nomem(err);
	*w = (sweep){.s = s,
	             .horizon = horizon,
	             .is_marked = is_marked,
	             .context = context,
	             .stats = &stats,
	             .most = batch_most(s),
	             .ranges = BUF_INIT(SIZE_MAX / 2)};
	cb_code code = s->gc_running ? CB_OK : cb_err_set(err, CB_INVALID, "no gc was begun");
	if (code == CB_OK) code = sweep_table(w, true, err);
	if (code == CB_OK) code = sweep_table(w, false, err);
	/* Also after a failure: what is gone already would otherwise keep its bytes for as long as its segment lives. */
	if (code == CB_OK) code = give_back(w, true, err);
	else if (w->ranges.size) give_back_surely(w);
	buf_done(&w->ranges);
	if (code == CB_OK && out) *out = stats;
	return code;
}

/* ---- what an owner put ---- */

static cb_code take_row(void *context, const engine_row *row, cb_error *err)
{
	(void)err;
	sweep *w = context;
	w->doomed[w->doomed_count] = *row;
	w->doomed[w->doomed_count++].data = (span){0};
	return CB_OK;
}

static cb_code look_at_each(sweep *w, const uint64_t *ids, size_t count, cb_error *err)
{
	STORE_ENTER(w->s, err);
	w->doomed_count = 0;
	for (size_t i = 0; i < count; i++) {
		cb_error why;
		cb_code code = w->s->engine->ops->row_get(w->s->engine, false, ids[i], take_row, w, cb_err_aside(&why));
		if (code != CB_OK && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	}
	return CB_OK;
}

/* Under the lock of gc, so that nobody moves them. What cannot be deleted now is left to gc. */
static void contents_delete(store *s, const uint64_t *ids, size_t count)
{
	store_gc_stats stats = {0};
	AUTO_FREE sweep *w = mem_alloc(sizeof *w);
	if (!w) return;
	*w = (sweep){.s = s, .horizon = INT64_MAX, .stats = &stats, .most = batch_most(s), .ranges = BUF_INIT(SIZE_MAX / 2)};
	for (size_t at = 0; at < count;) {
		size_t n = count - at < w->most ? count - at : w->most;
		cb_code code = look_at_each(w, ids + at, n, NULL);
		if (code == CB_OK) code = doomed_delete(w, NULL);
		if (code != CB_OK && (code != CB_NOSPACE || w->most == 1)) break;
		if (code == CB_OK) at += n;
		w->most = batch_after(w, code != CB_OK);
		if (w->ranges_bytes >= GIVE_BACK_BYTES || (w->ranges_bytes && store_is_short(s))) give_back_surely(w);
	}
	if (w->ranges.size) give_back_surely(w);
	buf_done(&w->ranges);
}

void store_owner_drop(store *s, uint64_t owner, const uint64_t *contents, size_t count)
{
	CANCEL_SHIELD;
	size_t shares = 0;
	if (owner == 0 || !fork_is_current(s)) return;
	(void)pthread_mutex_lock(&s->owners_mutex);
	for (size_t i = 0; i < s->owner_count; i++) shares += s->owners[i] == owner;
	(void)pthread_mutex_unlock(&s->owners_mutex);
	if (shares == 1 && count && store_gc_lock(s, NULL) == CB_OK) {
		contents_delete(s, contents, count);
		store_gc_unlock(s);
	}
	store_owner_end(s, owner);
}
