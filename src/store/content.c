/*
 * content.c: nodes and contents: the cache, the rows, the segments, and what to say when something is gone.
 *
 * Numbers of a transaction that aborts may be given out again. So nothing read or written under such a number enters a cache before the
 * commit: is_settled decides.
 */
#include "store/internal.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/hash.h"

typedef unsigned long long ull;

enum {
	AHEAD_GAP = 16, /* numbers that may be passed over: of files that were not wanted */
	AHEAD_ROWS_FIRST = 8,
	AHEAD_ROWS_MOST = 128,
	AHEAD_BYTES_MOST = 512 << 10,
};

/*
 * How long the sum of a large content is believed after it was found right. Taking it with every read of 1 MiB would cost 1.3 times the
 * read itself with AVX2 and 2 to 2.6 times without; so bytes that are damaged on disk after they were read once may be given out for so
 * long. A part of a content is read without the rest, so believing it is worth more.
 */
static const int64_t believe_whole_ns = (int64_t)1000000000, believe_part_ns = (int64_t)10 * 1000000000;

static const char *noun(bool is_node)
{
	return is_node ? "node" : "content";
}

static bool is_settled(const store *s, bool is_node, uint64_t id)
{
	return id < atomic_load_explicit(&s->unsettled[is_node], memory_order_relaxed);
}

/* A row is missing: swept by a gc since this handle was opened, or lost. A gc itself reads what is referred to, and no other one runs. */
static cb_code gone(store *s, bool is_node, uint64_t id, cb_error *err)
{
	uint64_t epoch = 0;
	CB_TRY(store_epoch(s, &epoch, err));
	if (epoch != s->epoch_at_open && !(s->gc_running && s->gc_thread == entry_thread()))
		return cb_err_set(err, CB_STALE, "%s %llu is gone: a gc removed what nobody kept; open the state again",
		                  noun(is_node), (ull)id);
	return cb_err_set(err, CB_CORRUPT, "%s %llu is missing: see `cowbox fsck`", noun(is_node), (ull)id);
}

static cb_code sum_wrong(const engine_row *row, bool is_node, cb_error *err)
{
	if (row->segment == 0)
		return cb_err_set(err, CB_CORRUPT, "%s %llu is damaged: its sum is wrong", noun(is_node), (ull)row->id);
	return cb_err_set(err, CB_CORRUPT, "content %llu is damaged: its sum is wrong (segment %06llu, offset %llu)", (ull)row->id,
	                  (ull)row->segment, (ull)row->offset);
}

/* ---- rows ---- */

typedef struct fetched {
	engine_row row;
	bool is_node;
	blob *bytes; /* NULL: in a segment */
} fetched;

static cb_code fetch_visit(void *context, const engine_row *row, cb_error *err)
{
	fetched *f = context;
	f->row = *row;
	f->row.data = span_make(NULL, 0);
	if (row->segment != 0) return CB_OK;
	if (store_sum(row->id, row->data.bytes, row->data.size) != row->sum) return sum_wrong(row, f->is_node, err);
	f->bytes = blob_create(row->id, row->data.bytes, row->data.size);
	return f->bytes ? CB_OK : cb_err_nomem(err);
}

typedef struct ahead_work {
	store *s;
	bool is_node;
	size_t bytes;
	uint64_t last;
} ahead_work;

/* What is wrong with a row is said by whoever wants that row. */
static cb_code ahead_visit(void *context, const engine_row *row, cb_error *err)
{
	(void)err;
	ahead_work *w = context;
	w->last = row->id;
	if (row->segment != 0) return CB_OK;
	blob *b = store_sum(row->id, row->data.bytes, row->data.size) == row->sum
	                  ? blob_create(row->id, row->data.bytes, row->data.size)
	                  : NULL;
	if (!b) return CB_INTERRUPTED;
	cache_put(w->s->cache, w->is_node, b);
	blob_unref(b);
	w->bytes += row->data.size;
	return w->bytes < AHEAD_BYTES_MOST ? CB_OK : CB_INTERRUPTED;
}

/*
 * A tree that came in one import lies in the table in the order in which it is read. One statement for many rows then saves the locks
 * around each. Not inside a transaction: a failure here could end it.
 */
static void read_ahead(store *s, bool is_node, uint64_t id)
{
	store_ahead *a = &s->ahead[is_node];
	bool in_order = a->next != 0 && id >= a->next && id - a->next < AHEAD_GAP;
	unsigned rows = in_order ? a->rows : 0;
	a->rows = rows ? rows * 2 : AHEAD_ROWS_FIRST;
	if (a->rows > AHEAD_ROWS_MOST) a->rows = AHEAD_ROWS_MOST;
	a->next = id + 1;
	if (!rows || s->txn.active) return;
	ahead_work w = {s, is_node, 0, id};
	(void)s->engine->ops->row_walk(s->engine, is_node, id, rows, true, ahead_visit, &w, NULL);
	a->next = w.last + 1;
}

/* The connection is held. */
static cb_code fetch(store *s, bool is_node, uint64_t id, fetched *out, cb_error *err)
{
	*out = (fetched){.is_node = is_node};
	cb_code code = s->engine->ops->row_get(s->engine, is_node, id, fetch_visit, out, err);
	if (code == CB_NOTFOUND) return gone(s, is_node, id, err);
	if (code != CB_OK) return code;
	if (out->bytes && is_settled(s, is_node, id)) cache_put(s->cache, is_node, out->bytes);
	read_ahead(s, is_node, id);
	return CB_OK;
}

static uint64_t sweeps(const store *s)
{
	return s->live.map ? atomic_load(&s->live.map->sweeps) : 0;
}

/* ---- nodes ---- */

cb_code store_node_get(store *s, uint64_t id, blob **out, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	blob *b = cache_get(s->cache, true, id);
	if (b) {
		*out = b;
		return CB_OK;
	}
	STORE_ENTER(s, err);
	fetched f;
	CB_TRY(fetch(s, true, id, &f, err));
	*out = f.bytes;
	return CB_OK;
}

/* Keeps a copy for the cache: nodes, since the next change goes through them, and what a small change wrote; not what an import brought. */
static void remember(store *s, bool is_node, uint64_t id, span bytes)
{
	store_txn *t = &s->txn;
	if (t->pending_bytes + bytes.size > s->cache_bytes / (is_node ? 4 : 64)) return;
	if (t->pending_count == t->pending_capacity) {
		size_t n = t->pending_capacity ? t->pending_capacity * 2 : 16;
		pending_blob *wider = mem_realloc(t->pending, n * sizeof *wider);
		if (!wider) return;
		t->pending = wider;
		t->pending_capacity = n;
	}
	blob *b = blob_create(id, bytes.bytes, bytes.size);
	if (!b) return;
	t->pending[t->pending_count++] = (pending_blob){b, is_node};
	t->pending_bytes += bytes.size;
}

/* A row of the table, inside a transaction. */
static cb_code put_row(store *s, bool is_node, engine_row *row, uint64_t *out_id, cb_error *err)
{
	CB_TRY(store_take(s, is_node ? STORE_NEXT_NODE : STORE_NEXT_CONTENT, 1, &row->id, err));
	row->sum ^= hash_u64(row->id); /* store_sum */
	row->birth = s->txn.counters[STORE_EPOCH];
	CB_TRY(store_wrote(s, s->engine->ops->row_put(s->engine, is_node, row, err)));
	if (row->segment == 0) remember(s, is_node, row->id, row->data);
	*out_id = row->id;
	return CB_OK;
}

cb_code store_node_put(store *s, span bytes, uint64_t *out_id, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	engine_row row = {.sum = hash64(bytes.bytes, bytes.size), .size = bytes.size, .data = bytes};
	return put_row(s, true, &row, out_id, err);
}

/* ---- contents: writing ---- */

static cb_code take_segment(store *s, void *context, cb_error *err)
{
	return store_take(s, STORE_NEXT_SEGMENT, 1, context, err);
}

/* On success the segment is pinned. */
static cb_code append(store *s, span bytes, engine_row *row, cb_error *err)
{
	uint64_t fresh = 0;
	for (;;) {
		bool need_number = false;
		CB_TRY(segment_append(s->segments, bytes, fresh, &need_number, &row->segment, &row->offset, err));
		if (!need_number) return CB_OK;
		if (store_in_write(s)) CB_TRY(take_segment(s, &fresh, err));
		else CB_TRY(store_in_transaction(s, false, take_segment, &fresh, err));
	}
}

static cb_code pin_reserve(store *s, cb_error *err)
{
	store_txn *t = &s->txn;
	if (t->pin_count < t->pin_capacity) return CB_OK;
	size_t n = t->pin_capacity ? t->pin_capacity * 2 : 16;
	segment_place *wider = mem_realloc(t->pins, n * sizeof *wider);
	if (!wider) return cb_err_nomem(err);
	t->pins = wider;
	t->pin_capacity = n;
	return CB_OK;
}

static cb_code put_large_inside(store *s, engine_row *row, span bytes, uint64_t *out_id, cb_error *err)
{
	CB_TRY(pin_reserve(s, err));
	if (s->txn.pin_count == 0) s->txn.segment_failures = segment_failures(s->segments);
	cb_error why = {0};
	cb_code code = append(s, bytes, row, &why);
	/* No room is kept for segments. But a step's record may have to say much: then in the table. */
	if (code == CB_NOSPACE && s->engine->need != STORE_GROWS) {
		row->segment = row->offset = 0;
		row->data = bytes;
		return put_row(s, false, row, out_id, err);
	}
	if (code != CB_OK && err) *err = why;
	if (code != CB_OK) return code;
	s->txn.pins[s->txn.pin_count++] = (segment_place){row->segment, row->offset, row->size};
	return put_row(s, false, row, out_id, err);
}

typedef struct put_work {
	engine_row row;
	uint64_t id;
} put_work;

static cb_code put_body(store *s, void *context, cb_error *err)
{
	put_work *w = context;
	return put_row(s, false, &w->row, &w->id, err);
}

/* The slow part, writing and flushing, comes before the writer lock. */
static cb_code put_large_outside(store *s, engine_row *row, span bytes, uint64_t *out_id, cb_error *err)
{
	if (s->read_only) return store_refuse_write(s, err);
	uint64_t failures = segment_failures(s->segments);
	put_work w = {.row = *row};
	CB_TRY(append(s, bytes, &w.row, err));
	cb_code code = segment_flush(s->segments, err);
	if (code == CB_OK && segment_failures(s->segments) != failures)
		code = cb_err_set(err, CB_IO, "flushing segment %06llu failed", (ull)w.row.segment);
	bool tried = code == CB_OK;
	if (code == CB_OK) code = store_in_transaction(s, false, put_body, &w, err);
	/* As in store_write_commit: only where no crash can bring the row back. */
	if (code == CB_NOSPACE || (code != CB_OK && !tried))
		segment_take_back(s->segments, w.row.segment, w.row.offset, w.row.size);
	else segment_unpin(s->segments, w.row.segment);
	if (code == CB_OK) *out_id = w.id;
	return code;
}

cb_code store_content_put(store *s, span bytes, uint64_t *out_id, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	if (bytes.size == 0 || bytes.size > LIMIT_CONTENT_BYTES)
		return cb_err_set(err, CB_INVALID, "a content of %zu bytes: from 1 to %d can be stored", bytes.size,
		                  (int)LIMIT_CONTENT_BYTES);
	bool inside = store_in_write(s);
	if (inside) CB_TRY(store_need_write(s, err));
	engine_row row = {.sum = hash64(bytes.bytes, bytes.size), .size = bytes.size};
	if (s->segments && bytes.size > LIMIT_CONTENT_TABLE_BYTES)
		return inside ? store_wrote(s, put_large_inside(s, &row, bytes, out_id, err))
		              : put_large_outside(s, &row, bytes, out_id, err);
	row.data = bytes;
	if (inside) return put_row(s, false, &row, out_id, err);
	put_work w = {.row = row};
	CB_TRY(store_in_transaction(s, false, put_body, &w, err));
	*out_id = w.id;
	return CB_OK;
}

cb_code store_content_touch(store *s, const uint64_t *ids, size_t n, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	CB_TRY(store_wrote(s, store_counters_need(s, err)));
	for (size_t i = 0; i < n; i++) {
		cb_code code = s->engine->ops->content_birth_set(s->engine, ids[i], s->txn.counters[STORE_EPOCH], err);
		if (code == CB_NOTFOUND) return cb_err_set(err, CB_STALE, "content %llu was removed by a gc", (ull)ids[i]);
		CB_TRY(store_wrote(s, code));
	}
	return CB_OK;
}

/* ---- contents: reading ---- */

/* Reads all of a content that lies in a segment and verifies it. The connection is not needed. */
static cb_code read_whole(store *s, const engine_row *row, uint8_t *to, cb_error *err)
{
	cb_code code = segment_read(s->segments, row->segment, row->offset, to, row->size, err);
	if (code != CB_OK) return code;
	return store_sum(row->id, to, row->size) == row->sum ? CB_OK : sum_wrong(row, false, err);
}

/*
 * A vacuum may move a content, a gc remove it, between our look at its row and our read. If the row then says something else, or nothing,
 * that is the truth; if it says the same, the bytes are damaged.
 */
static cb_code read_whole_surely(store *s, engine_row *row, uint8_t *to, cb_error *err)
{
	for (;;) {
		cb_error first;
		cb_code code = read_whole(s, row, to, &first);
		if (code == CB_OK) return CB_OK;
		fetched again;
		STORE_ENTER(s, err);
		CB_TRY(fetch(s, false, row->id, &again, err));
		if (again.row.segment == row->segment && again.row.offset == row->offset) {
			if (code == CB_NOTFOUND) CB_TRY(store_check_place(s, err));
			if (code == CB_NOTFOUND)
				code = cb_err_set(&first, CB_CORRUPT, "content %llu is lost: segment %06llu is missing",
				                  (ull)row->id, (ull)row->segment);
			if (err) *err = first;
			return code;
		}
		blob_unref(again.bytes);
		*row = again.row;
		if (row->segment == 0) return cb_err_set(err, CB_CORRUPT, "content %llu changed its place", (ull)row->id);
	}
}

static void place_remember(store *s, const engine_row *row, uint64_t seen_sweeps)
{
	if (!s->live.map || !is_settled(s, false, row->id)) return;
	cache_place p = {row->segment, row->offset, row->size, seen_sweeps, clock_now(s->clock)};
	cache_place_put(s->cache, row->id, &p);
}

/* A verified content, straight from its segment. False: ask its row. */
static bool read_known(store *s, uint64_t id, uint64_t offset, void *to, size_t size)
{
	cache_place p;
	if (!s->live.map || !cache_place_get(s->cache, id, &p)) return false;
	if (offset > p.size || size > p.size - offset) return false;
	int64_t age = clock_now(s->clock) - p.verified_ns; /* a clock that was set back makes it negative */
	if (age < 0 || age >= (size == p.size ? believe_whole_ns : believe_part_ns)) return false;
	bool good = p.sweeps == sweeps(s) && segment_read(s->segments, p.segment, p.offset + offset, to, size, NULL) == CB_OK;
	/* Looked at after the read: a gc raises it before it gives a range back, whose bytes then read as zeros. */
	if (good && p.sweeps == sweeps(s)) return true;
	cache_place_drop(s->cache, id);
	return false;
}

static cb_code out_of_range(uint64_t id, uint64_t size, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "content %llu has %llu bytes, more were asked for", (ull)id, (ull)size);
}

static cb_code read_from_segment(store *s, engine_row *row, uint64_t offset, void *to, size_t size, cb_error *err)
{
	uint64_t seen = sweeps(s);
	if (offset == 0 && size == row->size) {
		CB_TRY(read_whole_surely(s, row, to, err));
	} else {
		AUTO_FREE uint8_t *whole = mem_alloc_aligned(row->size);
		if (!whole) return cb_err_nomem(err);
		CB_TRY(read_whole_surely(s, row, whole, err));
		memcpy(to, whole + offset, size);
	}
	place_remember(s, row, seen);
	return CB_OK;
}

static cb_code fetch_locked(store *s, uint64_t id, fetched *out, cb_error *err)
{
	STORE_ENTER(s, err);
	return fetch(s, false, id, out, err);
}

cb_code store_content_read(store *s, uint64_t id, uint64_t offset, void *to, size_t size, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	CB_TRY(cancel_check(err));
	fetched f = {.bytes = cache_get(s->cache, false, id)};
	if (!f.bytes) {
		if (read_known(s, id, offset, to, size)) return CB_OK;
		CB_TRY(fetch_locked(s, id, &f, err));
	}
	uint64_t length = f.bytes ? f.bytes->size : f.row.size;
	cb_code code = CB_OK;
	if (offset > length || size > length - offset) code = out_of_range(id, length, err);
	else if (f.bytes && size) memcpy(to, f.bytes->bytes + offset, size);
	else if (!f.bytes) code = s->segments ? read_from_segment(s, &f.row, offset, to, size, err) : out_of_range(id, 0, err);
	blob_unref(f.bytes);
	return code;
}

cb_code store_content_get(store *s, uint64_t id, blob **out, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	CB_TRY(cancel_check(err));
	blob *b = cache_get(s->cache, false, id);
	if (!b) {
		fetched f;
		CB_TRY(fetch_locked(s, id, &f, err));
		b = f.bytes;
		if (!b) {
			if (!s->segments) return out_of_range(id, 0, err);
			b = blob_create(id, NULL, f.row.size);
			if (!b) return cb_err_nomem(err);
			cb_code code = read_known(s, id, 0, b->bytes, b->size)
			                       ? CB_OK
			                       : read_from_segment(s, &f.row, 0, b->bytes, b->size, err);
			if (code != CB_OK) {
				blob_unref(b);
				return code;
			}
		}
	}
	*out = b;
	return CB_OK;
}

cb_code store_content_size(store *s, uint64_t id, uint64_t *out, cb_error *err)
{
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	cache_place p;
	blob *b = cache_get(s->cache, false, id);
	if (b) {
		*out = b->size;
		blob_unref(b);
		return CB_OK;
	}
	if (s->live.map && cache_place_get(s->cache, id, &p) && p.sweeps == sweeps(s)) {
		*out = p.size;
		return CB_OK;
	}
	fetched f;
	CB_TRY(fetch_locked(s, id, &f, err));
	*out = f.row.size;
	blob_unref(f.bytes);
	return CB_OK;
}
