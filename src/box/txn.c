/*
 * txn.c: changes collected over a base state, and how they become a step of a box. commit.c decides when that happens.
 *
 * Life: create (base = the head as known), put/delete into the delta, append.
 *
 * Sealing turns a delta into a step: contents get their numbers, changed records the new state's id as version, keys that ended as
 * they began are dropped. The delta itself is left alone, so a failed or aborted commit can be tried again.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/gate.h"
#include "box/past.h"

#include <assert.h>

enum {
	AHEAD_KEYS = 1024, /* changes of more keys are written ahead of the commit: others wait for the rest only */
	KEYFRAME_WEIGHT =
		256, /* key changes after which a root is kept: a cold open replays at most these; measured in bench/core */
	LARGE_STEP_KEYS = 4096, /* a step of more keys keeps roots on both sides instead of a change list */
	EARLY_BYTES = 8 << 20,  /* contents waiting in memory before they are put into the store early */
	FIELD_IN_ROW_BYTES = 1000,
};

#define CHANGES_MAX_BYTES ((size_t)LARGE_STEP_KEYS * (TREE_KEY_MAX + 2 * TREE_VALUE_MAX + 32))

/* ---- life ---- */

static cb_code state_counters(cb_store *cs, const state *s, counters *out, cb_error *err)
{
	tree_view v = state_view(cs, s);
	key k = key_counters();
	tree_value value;
	*out = (counters){0};
	cb_code code = tree_get(&v, key_span(&k), &value, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return code;
	return counters_decode(span_make(value.bytes, value.size), out, err);
}

cb_code txn_field_set(char **field, size_t *size, span bytes, cb_error *err)
{
	if (bytes.size > LIMIT_STEP_FIELD_BYTES)
		return cb_err_set(err, CB_LIMIT, "a step keeps at most %d bytes of parameters or result", LIMIT_STEP_FIELD_BYTES);
	char *copy = mem_alloc(bytes.size + 1);
	if (!copy) return cb_err_nomem(err);
	if (bytes.size) memcpy(copy, bytes.bytes, bytes.size);
	copy[bytes.size] = 0;
	free(*field);
	*field = copy;
	if (size) *size = bytes.size;
	return CB_OK;
}

cb_code step_info_take(cb_step_info *to, const cb_step_info *from, cb_error *err)
{
	return SIZED_TAKE(cb_step_info, record, to, from, err);
}

static cb_code kind_check(const char *kind, cb_error *err)
{
	if (strlen(kind) <= LIMIT_STEP_FIELD_BYTES) return CB_OK;
	return cb_err_set(err, CB_LIMIT, "the kind of a step has at most %d bytes", LIMIT_STEP_FIELD_BYTES);
}

cb_code txn_fields(txn *t, const cb_step_info *info, cb_error *err)
{
	if (!info) return CB_OK;
	CB_TRY(args_name("kind", info->kind, err));
	if (info->kind) CB_TRY(kind_check(info->kind, err));
	CB_TRY(args_bytes("params", info->params, info->params_size, err));
	CB_TRY(args_bytes("result", info->result, info->result_size, err));
	if (info->kind) CB_TRY(txn_field_set(&t->kind, NULL, span_str(info->kind), err));
	if (info->params) CB_TRY(txn_field_set(&t->params, &t->params_size, sized_bytes(info->params, info->params_size), err));
	if (info->result) CB_TRY(txn_field_set(&t->result, &t->result_size, sized_bytes(info->result, info->result_size), err));
	if (info->started_ns) t->started_ns = info->started_ns;
	t->record = t->record || info->record;
	return CB_OK;
}

static uint32_t serial_take(void)
{
	static _Atomic uint32_t serials;
	return atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) & INT32_MAX;
}

cb_code txn_create(cb_box *b, const char *kind, const char *params, txn **out, cb_error *err)
{
	AUTO_TXN txn *t = mem_alloc(sizeof(*t));
	if (!t) return cb_err_nomem(err);
	*t = (txn){.cs = b->cs, .b = b, .base = state_ref(b->head), .expected = BUF_INIT(SIZE_MAX), .lost = BUF_INIT(SIZE_MAX)};
	t->era = entry_era();
	t->now_ns = t->started_ns = clock_now(store_clock(b->cs->s));
	t->serial = serial_take();
	txn_quotas_set(t, &b->row);
	CB_TRY(txn_field_set(&t->kind, NULL, span_str(kind), err));
	CB_TRY(txn_field_set(&t->params, &t->params_size, span_str(params), err));
	CB_TRY(txn_field_set(&t->result, &t->result_size, span_str(""), err));
	CB_TRY(state_counters(t->cs, t->base, &t->now, err));
	t->began = t->now;
	if (b->ruled) CB_TRY(veil_create(b->cs, box_governed(&b->row), b->who, &t->veil, err));
	veil_know(t->veil, b->veil);
	*out = TAKE_PTR(t);
	return CB_OK;
}

cb_code txn_base_keep(txn *t, cb_error *err)
{
	return kept_set(&t->kept, t->cs, t->base, KEPT_TXN, err);
}

cb_code txn_base_set(txn *t, state *base, cb_error *err)
{
	if (t->kept.s) CB_TRY(kept_set(&t->kept, t->cs, base, KEPT_TXN, err));
	state *old = t->base;
	t->base = state_ref(base);
	state_unref(old);
	return CB_OK;
}

void txn_destroy(txn *t)
{
	if (!t) return;
	if (t->in_write) store_write_abort(t->cs->s);
	store_owner_end(t->cs->s, t->owner);
	for (size_t i = 0; i < t->local_count; i++) buf_done(&t->locals[i].bytes);
	free(t->locals);
	pmap_done(&t->delta);
	pmap_done(&t->passed);
	pmap_done(&t->written);
	veil_destroy(t->veil);
	expectations_done(t);
	lost_paths_forget(&t->lost);
	buf_done(&t->lost);
	state_unref(t->base);
	kept_done(&t->kept);
	free(t->kind);
	free(t->params);
	free(t->result);
	free(t);
}

tree_view txn_raw(const txn *t)
{
	return (tree_view){&t->cs->nodes, t->base->root, &t->base->overlay, &t->delta, NULL};
}

tree_view txn_view(const txn *t)
{
	tree_view v = txn_raw(t);
	return t->b->ruled && t->veil ? veil_over(t->veil, &v) : v;
}

cb_code txn_get(const txn *t, const key *k, tree_value *out, cb_error *err)
{
	tree_view v = txn_raw(t);
	return tree_get(&v, key_span(k), out, err);
}

cb_code txn_put(txn *t, const key *k, const tree_value *v, cb_error *err)
{
	assert(v->size <= TREE_VALUE_MAX && k->size <= TREE_KEY_MAX);
	return pmap_put(&t->delta, key_span(k), span_make(v->bytes, v->size), err);
}

cb_code txn_delete(txn *t, const key *k, cb_error *err)
{
	return pmap_put_tombstone(&t->delta, key_span(k), err);
}

cb_code box_refuse_bytes(cb_error *err)
{
	return cb_err_set(err, CB_LIMIT, "the files of the box would have more than %llu bytes, holes included",
	                  (unsigned long long)LIMIT_BOX_BYTES);
}

static cb_code files_error(const txn *t, cb_error *err)
{
	return cb_err_set(err, CB_QUOTA, "the box may hold %llu files", (unsigned long long)t->quota_files);
}

static cb_code bytes_error(const txn *t, cb_error *err)
{
	return cb_err_set(err, CB_QUOTA, "the box may hold %llu bytes", (unsigned long long)t->quota_bytes);
}

/*
 * A call that replaces may hold more on its way than at its end, which is what counts; but by no more than there was to replace. So what
 * will not fit is refused before all of it was taken in.
 */
cb_code txn_count(txn *t, int64_t files, int64_t bytes, cb_error *err)
{
	counters next = {t->now.files + (uint64_t)files, t->now.bytes + (uint64_t)bytes};
	if (bytes > 0 && next.bytes > LIMIT_BOX_BYTES) return box_refuse_bytes(err);
	if ((int64_t)next.files < 0 || (int64_t)next.bytes < 0)
		return cb_err_set(err, CB_CORRUPT, "the counters of the box would fall below zero: run fsck");
	bool more_files = next.files > t->began.files && next.files - t->began.files > t->quota_files;
	bool more_bytes = next.bytes > t->began.bytes && next.bytes - t->began.bytes > t->quota_bytes;
	if (files > 0 && t->quota_files && more_files) return files_error(t, err);
	if (bytes > 0 && t->quota_bytes && more_bytes) return bytes_error(t, err);
	t->now = next;
	key k = key_counters();
	tree_value v;
	counters_encode(&next, &v);
	return txn_put(t, &k, &v, err);
}

cb_code txn_counters_hold(const txn *t, const counters *before, cb_error *err)
{
	if (t->quota_files && t->now.files > t->quota_files && t->now.files > before->files) return files_error(t, err);
	if (t->quota_bytes && t->now.bytes > t->quota_bytes && t->now.bytes > before->bytes) return bytes_error(t, err);
	return CB_OK;
}

static cb_code file_error(const txn *t, cb_error *err)
{
	return cb_err_set(err, CB_QUOTA, "a file of this box may have %llu bytes", (unsigned long long)t->quota_file_bytes);
}

/* Is that more than the file has in t's base? */
static cb_code file_grows(const txn *t, uint64_t ino, uint64_t size, bool *out, cb_error *err)
{
	tree_view base = state_view(t->cs, t->base);
	inode old;
	cb_code code = inode_find(&base, ino, &old, err);
	*out = code != CB_OK || size > old.rec.size;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* A file that was only moved, or made smaller, passes: whoever lowers a quota does not forbid to touch what is there. */
cb_code txn_file_fits(const txn *t, uint64_t ino, uint64_t size, cb_error *err)
{
	bool grows = false;
	if (!t->quota_file_bytes || size <= t->quota_file_bytes) return CB_OK;
	CB_TRY(file_grows(t, ino, size, &grows, err));
	return grows ? file_error(t, err) : CB_OK;
}

/* The file's record in the value of a D or I key; false: there is none. */
static cb_code record_of(span key_bytes, span value, record *out, bool *found, cb_error *err)
{
	*found = value.bytes && (key_bytes.bytes[0] == KIND_INODE || (key_bytes.bytes[0] == KIND_ENTRY && !entry_is_link(value)));
	if (!*found) return CB_OK;
	return key_bytes.bytes[0] == KIND_INODE ? record_decode(value, out, err) : entry_record(value, out, err);
}

/* Raises *largest to the size of the largest file that t makes larger. */
static cb_code files_measure(const txn *t, uint64_t *largest, cb_error *err)
{
	pmap_cursor c;
	span k, value;
	bool tombstone, has = false, grows = false;
	record r;
	for (pmap_seek(&c, &t->delta, (span){0}); pmap_cursor_get(&c, &k, &value, &tombstone); pmap_cursor_next(&c)) {
		CB_TRY(record_of(k, tombstone ? (span){0} : value, &r, &has, err));
		if (!has || r.type != CB_FILE || r.size <= *largest) continue;
		CB_TRY(file_grows(t, r.ino, r.size, &grows, err));
		if (grows) *largest = r.size;
	}
	return CB_OK;
}

/* The bounds as they are now: they may have been lowered since t began, and others may have filled the box. largest: of files_measure. */
static cb_code bounds_hold(const txn *t, uint64_t largest, cb_error *err)
{
	counters before = {0};
	if (t->quota_files || t->quota_bytes) CB_TRY(state_counters(t->cs, t->base, &before, err));
	CB_TRY(txn_counters_hold(t, &before, err));
	return t->quota_file_bytes && largest > t->quota_file_bytes ? file_error(t, err) : CB_OK;
}

cb_code txn_quotas_hold(const txn *t, cb_error *err)
{
	uint64_t largest = t->quota_file_bytes; /* what is smaller need not be looked for */
	if (t->quota_file_bytes) CB_TRY(files_measure(t, &largest, err));
	return bounds_hold(t, largest, err);
}

/* ---- contents ---- */

static cb_code local_add(txn *t, span bytes, uint64_t *out, cb_error *err)
{
	if (t->local_count == t->local_capacity) {
		size_t capacity = t->local_capacity ? t->local_capacity * 2 : 16;
		local_content *more = mem_realloc(t->locals, capacity * sizeof(*more));
		if (!more) return cb_err_nomem(err);
		t->locals = more;
		t->local_capacity = capacity;
	}
	local_content *l = &t->locals[t->local_count];
	*l = (local_content){.bytes = BUF_INIT(LIMIT_CONTENT_BYTES)};
	CB_TRY(buf_append(&l->bytes, bytes.bytes, bytes.size, err));
	*out = CONTENT_LOCAL | (uint64_t)t->serial << 32 | t->local_count++;
	t->local_bytes += bytes.size;
	return CB_OK;
}

cb_code txn_content_add(txn *t, span bytes, uint64_t *out, cb_error *err)
{
	assert(bytes.size >= 1 && bytes.size <= LIMIT_CONTENT_BYTES);
	if (t->in_write || t->inside_write) return store_content_put(t->cs->s, bytes, out, err);
	return local_add(t, bytes, out, err);
}

local_content *txn_content_local(txn *t, uint64_t content)
{
	if (!(content & CONTENT_LOCAL)) return NULL;
	local_content *l = &t->locals[content_local_index(content)];
	return l->stored ? NULL : l;
}

/* Inside a write transaction: gives every waiting content its number. txn_locals_settle takes the numbers back when that aborts. */
cb_code txn_locals_put(txn *t, cb_error *err)
{
	for (size_t i = 0; i < t->local_count; i++) {
		local_content *l = &t->locals[i];
		if (l->stored) continue;
		CB_TRY(store_content_put(t->cs->s, buf_span(&l->bytes), &l->stored, err));
	}
	return CB_OK;
}

/* bytes in memory mean that the number was taken in a transaction not yet known to be committed. */
void txn_locals_settle(txn *t, bool committed)
{
	for (size_t i = 0; i < t->local_count; i++) {
		local_content *l = &t->locals[i];
		if (!l->stored || !l->bytes.bytes) continue;
		if (committed) t->local_bytes -= l->bytes.size;
		if (committed) buf_done(&l->bytes);
		else l->stored = 0;
	}
}

/* Never put into the store and never read: nothing has its number. */
static void local_forget(txn *t, local_content *l)
{
	if (!l || l->stored) return;
	t->local_bytes -= l->bytes.size;
	buf_done(&l->bytes);
	l->stored = CONTENT_LOCAL;
}

void txn_content_forget(txn *t, const record *r, size_t since)
{
	if (r->form == DATA_CONTENT && content_local_index(r->content) >= since) local_forget(t, txn_content_local(t, r->content));
}

cb_code txn_content_settle(txn *t, uint64_t *content, cb_error *err)
{
	if (!(*content & CONTENT_LOCAL)) return CB_OK;
	size_t index = content_local_index(*content);
	if (index >= t->local_count || (*content >> 32 & INT32_MAX) != t->serial)
		return cb_err_set(err, CB_CORRUPT, "a record refers to an unknown content");
	if (t->locals[index].bytes.bytes) CB_TRY(txn_contents_store(t, err));
	*content = t->locals[index].stored;
	return CB_OK;
}

void txn_locals_forget(txn *t)
{
	for (size_t i = 0; i < t->local_count; i++) buf_done(&t->locals[i].bytes);
	free(TAKE_PTR(t->locals));
	t->local_count = t->local_capacity = 0;
	t->local_bytes = 0;
	t->serial = serial_take();
}

txn_point txn_point_take(const txn *t)
{
	return (txn_point){pmap_ref(&t->delta), t->now, t->local_count, t->expected.size, pmap_ref(&t->written)};
}

void txn_point_back(const txn_point *p, txn *t)
{
	/* What parts of it passed the gate for is not so any more. */
	if (t->delta.root != p->delta.root) t->passed_version = 0;
	pmap_done(&t->delta);
	t->delta = pmap_ref(&p->delta);
	pmap_done(&t->written);
	t->written = pmap_ref(&p->written);
	t->now = p->now;
	expectations_drop(t, p->expected);
	for (size_t i = p->locals; i < t->local_count; i++) local_forget(t, &t->locals[i]);
}

void txn_point_done(txn_point *p)
{
	pmap_done(&p->delta);
	pmap_done(&p->written);
}

/* As many of the contents that wait, from *next on, as one hold of the writer lock should write. */
static cb_code locals_put_some(txn *t, size_t *next, cb_error *err)
{
	size_t bytes = 0;
	for (; *next < t->local_count && bytes < TXN_AHEAD_BYTES; ++*next) {
		local_content *l = &t->locals[*next];
		if (l->stored) continue;
		CB_TRY(store_content_put(t->cs->s, buf_span(&l->bytes), &l->stored, err));
		bytes += l->bytes.size;
	}
	return CB_OK;
}

cb_code txn_contents_store(txn *t, cb_error *err)
{
	store *s = t->cs->s;
	if (t->local_bytes == 0) return CB_OK;
	if (t->era != entry_era()) return cb_err_set(err, CB_FORKED, "the transaction belongs to the parent process");
	if (!t->owner) CB_TRY(store_owner_begin(s, &t->owner, err));
	for (size_t next = 0; next < t->local_count;) {
		CB_TRY(store_write_begin_as(s, t->need, err));
		cb_code code = locals_put_some(t, &next, err);
		code = store_write_end(s, code, false, err);
		txn_locals_settle(t, code == CB_OK);
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

cb_code txn_lighten(txn *t, cb_error *err)
{
	return t->local_bytes > TXN_AHEAD_BYTES ? txn_contents_store(t, err) : CB_OK;
}

static cb_code picture_add(txn *p, const txn *t, size_t index, cb_error *err)
{
	const local_content *from = &t->locals[index];
	local_content *to = &p->locals[index];
	to->stored = from->stored;
	if (!from->bytes.bytes) return CB_OK;
	to->bytes = BUF_INIT(LIMIT_CONTENT_BYTES);
	return buf_append(&to->bytes, from->bytes.bytes, from->bytes.size, err);
}

cb_code txn_picture(const txn *t, const buf *wanted, txn **out, cb_error *err)
{
	AUTO_TXN txn *p = mem_alloc(sizeof(*p));
	if (!p) return cb_err_nomem(err);
	*p = (txn){.cs = t->cs, .serial = t->serial, .expected = BUF_INIT(SIZE_MAX), .lost = BUF_INIT(SIZE_MAX)};
	p->locals = mem_alloc_zeroed(t->local_count * sizeof(*p->locals));
	if (!p->locals) return cb_err_nomem(err);
	p->local_count = p->local_capacity = t->local_count;
	size_t count = wanted ? wanted->size / sizeof(size_t) : t->local_count;
	for (size_t i = 0; i < count; i++) {
		size_t index = wanted ? ((const size_t *)(const void *)wanted->bytes)[i] : i;
		if (index < t->local_count) CB_TRY(picture_add(p, t, index, err));
	}
	if (t->owner) CB_TRY(store_owner_share(t->cs->s, t->owner, err));
	p->owner = t->owner;
	*out = TAKE_PTR(p);
	return CB_OK;
}

cb_code txn_relieve(txn *t, cb_error *err)
{
	if (t->in_write || t->inside_write || t->local_bytes < EARLY_BYTES) return CB_OK;
	return txn_contents_store(t, err);
}

cb_code content_read(const cb_store *cs, const txn *t, uint64_t content, uint64_t offset, void *to, size_t size, cb_error *err)
{
	if (!(content & CONTENT_LOCAL)) return store_content_read(cs->s, content, offset, to, size, err);
	size_t index = content_local_index(content);
	if (!t || index >= t->local_count || (content >> 32 & INT32_MAX) != t->serial)
		return cb_err_set(err, CB_CORRUPT, "a record refers to an unknown content");
	const local_content *l = &t->locals[index];
	if (!l->bytes.bytes) return store_content_read(cs->s, l->stored, offset, to, size, err);
	if (offset > l->bytes.size || size > l->bytes.size - offset)
		return cb_err_set(err, CB_INTERNAL, "read past a local content");
	memcpy(to, l->bytes.bytes + offset, size);
	return CB_OK;
}

/* ---- sealing ---- */

typedef struct seal {
	txn *t;
	uint64_t state; /* version for what changed; 0 leaves it open */
	pmap delta;     /* what is left */
	buf changes;    /* its list; unused when large */
	buf touches;    /* its index row; used when large */
	bool large;
	key previous;
	size_t count;
} seal;

static uint64_t seal_content(const txn *t, uint64_t content)
{
	if (!(content & CONTENT_LOCAL)) return content;
	return t->locals[content_local_index(content)].stored;
}

static void seal_record(const seal *s, record *r)
{
	if (r->version == 0) r->version = s->state;
	if (r->written == 0) r->written = r->version;
	if (r->form == DATA_CONTENT) r->content = seal_content(s->t, r->content);
}

/* The value as it will be stored. */
static cb_code seal_value(const seal *s, span key_bytes, span value, tree_value *out, cb_error *err)
{
	switch (key_bytes.bytes[0]) {
	case KIND_ENTRY: {
		entry e;
		CB_TRY(entry_decode(value, &e, err));
		if (!e.is_link) seal_record(s, &e.rec);
		entry_encode(&e, out);
		return CB_OK;
	}
	case KIND_INODE: {
		record r;
		CB_TRY(record_decode(value, &r, err));
		seal_record(s, &r);
		record_encode(&r, out);
		return CB_OK;
	}
	case KIND_EXTENT: {
		extent x;
		CB_TRY(extent_decode(value, 0, &x, err));
		x.content = seal_content(s->t, x.content);
		extent_encode(&x, out);
		return CB_OK;
	}
	case KIND_ATTR:
	case KIND_KV:
	case KIND_TAG:
		if (value.size == 17) {
			value_ref v;
			CB_TRY(value_decode(value, &v, err));
			if (!v.is_inline) v.content = seal_content(s->t, v.content);
			value_encode(&v, out);
			return CB_OK;
		}
		break;
	default:
		break;
	}
	memcpy(out->bytes, value.bytes, value.size);
	out->size = value.size;
	return CB_OK;
}

static cb_code seal_keep(seal *s, span key_bytes, span old_value, span new_value, cb_error *err)
{
	s->count++;
	if (s->large) {
		CB_TRY(step_touch_add(&s->touches, key_bytes, old_value, new_value, err));
	} else {
		CB_TRY(tree_changes_append(&s->changes, key_span(&s->previous), key_bytes, old_value, new_value, err));
		memcpy(s->previous.bytes, key_bytes.bytes, key_bytes.size);
		s->previous.size = key_bytes.size;
	}
	if (!new_value.bytes) return pmap_put_tombstone(&s->delta, key_bytes, err);
	return pmap_put(&s->delta, key_bytes, new_value, err);
}

static cb_code seal_key(seal *s, const tree_view *base, span key_bytes, span value, bool tombstone, cb_error *err)
{
	tree_value old_value, new_value;
	cb_code found = tree_get(base, key_bytes, &old_value, err);
	if (found != CB_OK && found != CB_NOTFOUND) return found;
	span before = found == CB_OK ? span_make(old_value.bytes, old_value.size) : (span){0};
	if (tombstone) return before.bytes ? seal_keep(s, key_bytes, before, (span){0}, err) : CB_OK;
	CB_TRY(seal_value(s, key_bytes, value, &new_value, err));
	span after = span_make(new_value.bytes, new_value.size);
	if (before.bytes && span_equal(before, after)) return CB_OK;
	return seal_keep(s, key_bytes, before, after, err);
}

/* On failure the caller still calls seal_done. */
static cb_code seal_run(seal *s, txn *t, uint64_t state_id, cb_error *err)
{
	*s = (seal){.t = t,
	            .state = state_id,
	            .changes = BUF_INIT(CHANGES_MAX_BYTES),
	            .touches = BUF_INIT(SIZE_MAX),
	            .large = pmap_count(&t->delta) > LARGE_STEP_KEYS};
	tree_view base = state_view(t->cs, t->base);
	pmap_cursor c;
	span key_bytes, value;
	bool tombstone;
	for (pmap_seek(&c, &t->delta, (span){0}); pmap_cursor_get(&c, &key_bytes, &value, &tombstone); pmap_cursor_next(&c))
		CB_TRY(seal_key(s, &base, key_bytes, value, tombstone, err));
	return CB_OK;
}

static void seal_done(seal *s)
{
	pmap_done(&s->delta);
	buf_done(&s->changes);
	buf_done(&s->touches);
}

/* ---- appending a step ---- */

static cb_code state_with(const state *head, const seal *s, state **out, cb_error *err)
{
	state *n = mem_alloc(sizeof(*n));
	if (!n) return cb_err_nomem(err);
	*n = (state){.id = head->id,
	             .box = head->box,
	             .seq = head->seq,
	             .root = head->root,
	             .root_box = head->root_box,
	             .root_seq = head->root_seq,
	             .weight = head->weight + s->count};
	atomic_init(&n->refs, 1);
	n->overlay = pmap_ref(&head->overlay);
	*out = n;
	if (s->count > KEYFRAME_WEIGHT) return CB_OK; /* applied to the tree at once: state_make_root */
	pmap_cursor c;
	span key_bytes, value;
	bool tombstone;
	for (pmap_seek(&c, &s->delta, (span){0}); pmap_cursor_get(&c, &key_bytes, &value, &tombstone); pmap_cursor_next(&c)) {
		if (tombstone) CB_TRY(pmap_put_tombstone(&n->overlay, key_bytes, err));
		else CB_TRY(pmap_put(&n->overlay, key_bytes, value, err));
	}
	return CB_OK;
}

/* A sealed delta as the next step of a box, with its nodes written and its rows not. */
typedef struct next_step {
	state *n;
	bool keyframe;   /* n has a root of its own */
	bool has_before; /* the step before it gets a root too: */
	uint64_t before;
} next_step;

/* Writes the tree of n and makes it n's root. A large step first gives its predecessor a root, for the difference between the two is its
 * list of changes. */
static cb_code next_make_root(const tree_nodes *nodes, next_step *next, const seal *s, cb_error *err)
{
	state *n = next->n;
	CB_TRY(tree_apply(nodes, n->root, &n->overlay, &n->root, err));
	next->has_before = s->large && (n->root_box != n->box || n->root_seq != n->seq - 1);
	next->before = n->root;
	if (s->count > KEYFRAME_WEIGHT) CB_TRY(tree_apply(nodes, n->root, &s->delta, &n->root, err));
	pmap_done(&n->overlay);
	n->weight = 0;
	n->root_box = n->box;
	n->root_seq = n->seq;
	return CB_OK;
}

/* next->n is handed over also on failure: the caller drops it. */
static cb_code next_build(const txn *t, uint64_t box, const seal *s, uint64_t id, const tree_nodes *nodes, next_step *next,
                          cb_error *err)
{
	*next = (next_step){0};
	CB_TRY(state_with(t->base, s, &next->n, err));
	state *n = next->n;
	n->box = box;
	n->seq = t->base->box == box ? t->base->seq + 1 : 1;
	if (s->count) n->id = id;
	/* Where room is short it waits: the next opening replays a little more. What state_with left out must go into the tree, though. */
	next->keyframe = s->large || s->count > KEYFRAME_WEIGHT || (n->weight > KEYFRAME_WEIGHT && !store_is_short(t->cs->s));
	return next->keyframe ? next_make_root(nodes, next, s, err) : CB_OK;
}

/* A long field goes to a content. */
static cb_code field_put(cb_store *cs, span bytes, span *in_row, uint64_t *content, cb_error *err)
{
	*in_row = bytes;
	if (in_row->size <= FIELD_IN_ROW_BYTES) return CB_OK;
	CB_TRY(store_content_put(cs->s, *in_row, content, err));
	*in_row = (span){0};
	return CB_OK;
}

static cb_code step_put(txn *t, uint64_t box, const char *who, const state *n, const seal *s, bool has_root, cb_error *err)
{
	store_step step = {
		.box = box,
		.seq = n->seq,
		.state = n->id,
		.kind = t->kind,
		.who = who,
		.started_ns = t->started_ns,
		.ended_ns = clock_now(store_clock(t->cs->s)),
		.target = t->target,
		.other_box = t->other_box,
		.other_seq = t->other_seq,
		.has_root = has_root,
		.root = has_root ? n->root : 0,
		.has_changes = s->count > 0 && !s->large,
		.changes = buf_span(&s->changes),
		.weight = s->count,
	};
	CB_TRY(field_put(t->cs, span_make(t->params, t->params_size), &step.params, &step.params_content, err));
	CB_TRY(field_put(t->cs, span_make(t->result, t->result_size), &step.result, &step.result_content, err));
	CB_TRY(store_step_put(t->cs->s, &step, err));
	return past_record(t->cs, &step, err);
}

/* Steps are indexed by what they touched in batches: at key frames. A large step brings its own row. */
static cb_code index_steps(cb_store *cs, uint64_t box, uint64_t seq, const seal *s, cb_error *err)
{
	uint64_t last = 0, to = s->large ? seq - 1 : seq;
	CB_TRY(store_touch_last(cs->s, box, &last, err));
	if (last < to) CB_TRY(step_index(cs, box, last + 1, to, err));
	return s->large ? store_touch_put(cs->s, box, seq, seq, buf_span(&s->touches), err) : CB_OK;
}

/* The rows of the step. Inside a write transaction. */
static cb_code next_put(txn *t, const char *who, const seal *s, const next_step *next, cb_error *err)
{
	const state *n = next->n;
	if (next->has_before) CB_TRY(store_step_root_set(t->cs->s, n->box, n->seq - 1, true, next->before, err));
	CB_TRY(step_put(t, n->box, who, n, s, next->keyframe, err));
	if (next->keyframe) CB_TRY(index_steps(t->cs, n->box, n->seq, s, err));
	store_head head = {n->seq, n->id, n->root, n->root_box, n->root_seq, n->weight};
	CB_TRY(store_head_set(t->cs->s, n->box, &head, err));
	return t->b->id == n->box ? box_checkpoint_auto(t->b, n->seq, err) : CB_OK;
}

static cb_code visit_borrowed(void *context, uint64_t content, uint64_t min_size, cb_error *err)
{
	(void)min_size;
	cb_store *cs = context;
	return store_content_touch(cs->s, &content, 1, err);
}

/* A gc has begun since t's base was read: what t borrows from older states may be on its list. */
static cb_code protect_borrowed(txn *t, const seal *s, cb_error *err)
{
	uint64_t epoch = 0;
	CB_TRY(store_epoch(t->cs->s, &epoch, err));
	if (epoch == t->epoch) return CB_OK;
	pmap_cursor c;
	span key_bytes, value;
	bool tombstone;
	for (pmap_seek(&c, &s->delta, (span){0}); pmap_cursor_get(&c, &key_bytes, &value, &tombstone); pmap_cursor_next(&c))
		if (!tombstone) CB_TRY(record_contents(key_bytes, value, visit_borrowed, t->cs, err));
	return CB_OK;
}

static cb_code append_with(txn *t, uint64_t box, const char *who, seal *s, next_step *next, cb_error *err)
{
	uint64_t id = 0;
	CB_TRY(txn_locals_put(t, err));
	CB_TRY(store_take(t->cs->s, STORE_NEXT_STATE, 1, &id, err));
	CB_TRY(seal_run(s, t, id, err));
	if (!s->count && !t->record) return CB_OK;
	if (s->count) CB_TRY(txn_quotas_hold(t, err));
	if (!t->in_write) CB_TRY(protect_borrowed(t, s, err));
	CB_TRY(next_build(t, box, s, id, &t->cs->nodes, next, err));
	step_touches_sort(&s->touches);
	return next_put(t, who, s, next, err);
}

cb_code txn_append(txn *t, uint64_t box, const char *who, state **out, cb_error *err)
{
	CB_TRY(gate_changes(t, err));
	seal s = {0};
	next_step next = {0};
	*out = NULL;
	cb_code code = append_with(t, box, who, &s, &next, err);
	seal_done(&s);
	if (code == CB_OK) *out = next.n;
	else state_unref(next.n);
	return code;
}

/* ---- ahead of the commit ---- */

/* Nodes written in short write transactions, one after the other. */
typedef struct ahead {
	cb_store *cs;
	store_need need;
	bool writing;
	size_t bytes;
} ahead;

static cb_code ahead_get(void *context, uint64_t id, blob **out, cb_error *err)
{
	const ahead *a = context;
	return store_node_get(a->cs->s, id, out, err);
}

static cb_code ahead_put(void *context, span bytes, uint64_t *out_id, cb_error *err)
{
	ahead *a = context;
	if (!a->writing) CB_TRY(store_write_begin_as(a->cs->s, a->need, err));
	a->writing = true;
	CB_TRY(store_node_put(a->cs->s, bytes, out_id, err));
	a->bytes += bytes.size;
	if (a->bytes < TXN_AHEAD_BYTES) return CB_OK;
	a->writing = false;
	a->bytes = 0;
	return store_write_commit(a->cs->s, false, err);
}

static cb_code ahead_end(ahead *a, cb_code code, cb_error *err)
{
	if (!a->writing) return code;
	a->writing = false;
	return store_write_end(a->cs->s, code, false, err);
}

struct prepared {
	seal s;
	next_step next;
	uint64_t largest; /* of the files that it makes larger: under the writer lock nobody looks at each of them */
};

void prepared_destroy(prepared *p)
{
	if (!p) return;
	seal_done(&p->s);
	state_unref(p->next.n);
	free(p);
}

bool txn_is_large(const txn *t)
{
	return pmap_count(&t->delta) > AHEAD_KEYS;
}

static cb_code take_state_number(cb_store *cs, store_need need, uint64_t *out, cb_error *err)
{
	CB_TRY(store_write_begin_as(cs->s, need, err));
	return store_write_end(cs->s, store_take(cs->s, STORE_NEXT_STATE, 1, out, err), false, err);
}

cb_code txn_number_take(txn *t, uint64_t *out, cb_error *err)
{
	return store_in_write(t->cs->s) ? store_take(t->cs->s, STORE_NEXT_STATE, 1, out, err)
	                                : take_state_number(t->cs, t->need, out, err);
}

/* Versions of what t changed keep the number that was taken first. It is greater than those that the files had, since nobody else changed
 * them, and no state has it: only the state that t becomes has the later one. */
static cb_code moved_root(txn *t, prepared *p, const tree_nodes *nodes, uint64_t state_id, const pmap *changes, cb_error *err)
{
	state *n = p->next.n;
	const state *base = t->base;
	CB_TRY(tree_apply(nodes, n->root, changes, &n->root, err));
	CB_TRY(tree_apply(nodes, base->root, &base->overlay, &p->next.before, err));
	p->next.has_before = base->root_box != base->box || base->root_seq != base->seq;
	n->id = state_id;
	n->seq = n->root_seq = base->seq + 1;
	return CB_OK;
}

cb_code prepared_move(txn *t, prepared **p, uint64_t state_id, const pmap *changes, cb_error *err)
{
	/* A list of changes has old values too: it is made again. */
	if (!*p || !(*p)->s.large || !(*p)->s.count || t->base->box != (*p)->next.n->box) {
		prepared_destroy(TAKE_PTR(*p));
		return CB_OK;
	}
	if (store_in_write(t->cs->s)) return moved_root(t, *p, &t->cs->nodes, state_id, changes, err);
	ahead a = {.cs = t->cs, .need = t->need};
	tree_nodes nodes = {ahead_get, ahead_put, &a};
	return ahead_end(&a, moved_root(t, *p, &nodes, state_id, changes, err), err);
}

/* The number is taken now: it is greater than the base's, and nobody can have a greater one in this box while the base is its head. */
cb_code txn_prepare(txn *t, uint64_t box, prepared **out, cb_error *err)
{
	CB_TRY(gate_changes(t, err));
	uint64_t id = 0;
	prepared *p = mem_alloc(sizeof(*p));
	if (!p) return cb_err_nomem(err);
	*p = (prepared){0};
	ahead a = {.cs = t->cs, .need = t->need};
	tree_nodes nodes = {ahead_get, ahead_put, &a};
	cb_code code = t->owner ? CB_OK : store_owner_begin(t->cs->s, &t->owner, err);
	if (code == CB_OK) code = txn_contents_store(t, err);
	if (code == CB_OK) code = take_state_number(t->cs, t->need, &id, err);
	if (code == CB_OK) code = seal_run(&p->s, t, id, err);
	if (code == CB_OK) code = ahead_end(&a, next_build(t, box, &p->s, id, &nodes, &p->next, err), err);
	if (code == CB_OK) code = files_measure(t, &p->largest, err);
	if (code == CB_OK) step_touches_sort(&p->s.touches);
	if (code == CB_OK) *out = p;
	else prepared_destroy(p);
	return code;
}

cb_code txn_root_ahead(txn *t, uint64_t *out_state, uint64_t *out_root, cb_error *err)
{
	uint64_t root = 0;
	seal s = {0};
	ahead a = {.cs = t->cs, .need = t->need};
	tree_nodes nodes = {ahead_get, ahead_put, &a};
	if (!t->owner) CB_TRY(store_owner_begin(t->cs->s, &t->owner, err));
	CB_TRY(take_state_number(t->cs, t->need, out_state, err));
	cb_code code = seal_run(&s, t, *out_state, err);
	if (code == CB_OK) code = tree_apply(&nodes, t->base->root, &t->base->overlay, &root, err);
	if (code == CB_OK) code = tree_apply(&nodes, root, &s.delta, out_root, err);
	code = ahead_end(&a, code, err);
	seal_done(&s);
	return code;
}

cb_code txn_append_prepared(txn *t, prepared *p, uint64_t box, const char *who, state **out, cb_error *err)
{
	assert(p->next.n->box == box);
	if (!p->s.count && !t->record) return CB_OK;
	if (p->s.count) CB_TRY(bounds_hold(t, p->largest, err));
	CB_TRY(protect_borrowed(t, &p->s, err));
	CB_TRY(next_put(t, who, &p->s, &p->next, err));
	*out = state_ref(p->next.n);
	return CB_OK;
}

cb_code txn_is_empty(txn *t, bool *out, cb_error *err)
{
	seal s = {.t = t, .changes = BUF_INIT(CHANGES_MAX_BYTES)};
	tree_view base = state_view(t->cs, t->base);
	pmap_cursor c;
	span key_bytes, value;
	bool tombstone;
	cb_code code = CB_OK;
	for (pmap_seek(&c, &t->delta, (span){0}); pmap_cursor_get(&c, &key_bytes, &value, &tombstone); pmap_cursor_next(&c)) {
		code = seal_key(&s, &base, key_bytes, value, tombstone, err);
		if (code != CB_OK || s.count) break;
	}
	*out = s.count == 0;
	seal_done(&s);
	return code;
}

cb_code txn_sealed_delta(txn *t, pmap *out, cb_error *err)
{
	CB_TRY(txn_locals_put(t, err));
	seal s;
	cb_code code = seal_run(&s, t, 0, err);
	if (code == CB_OK) *out = pmap_ref(&s.delta);
	seal_done(&s);
	return code;
}
