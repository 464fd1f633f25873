/*
 * handle.c: box handles: entering and leaving calls, keeping the head current, one changing call as one step.
 */
#include "box/box.h"

#include <assert.h>

enum { QUIET_NS = 1000000000 }; /* an open file's step ends after a second without writes */

static cb_code handle_init_lock(cb_box *b, cb_error *err)
{
	pthread_mutexattr_t attr;
	if (pthread_mutexattr_init(&attr) != 0) return cb_err_nomem(err);
	/* Recursive: a visitor called from cb_readdir may read through the same handle. */
	(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	int failed = pthread_mutex_init(&b->lock, &attr);
	(void)pthread_mutexattr_destroy(&attr);
	return failed ? cb_err_nomem(err) : CB_OK;
}

cb_code box_handle_create(cb_store *cs, const store_box *row, cb_box **out, cb_error *err)
{
	cb_box *b = mem_alloc(sizeof(*b));
	if (!b) return cb_err_nomem(err);
	*b = (cb_box){.cs = cs, .row = *row};
	b->who = mem_strdup(box_store_who(cs));
	cb_code code = b->who ? handle_init_lock(b, err) : cb_err_nomem(err);
	if (code != CB_OK) {
		free(b->who);
		free(b);
		return code;
	}
	*out = b;
	return CB_OK;
}

void cb_box_close(cb_box *b)
{
	if (!b) return;
	assert(!b->open_files);
	b->closing = true;
	(void)box_flush(b, false, NULL);
	txn_destroy(b->txn);
	box_draft_drop(b);
	state_unref(b->head);
	free(b->who);
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
}

uint64_t cb_box_step(cb_box *b)
{
	(void)pthread_mutex_lock(&b->lock);
	uint64_t seq = b->last_seq;
	(void)pthread_mutex_unlock(&b->lock);
	return seq;
}

tree_view box_view(const cb_box *b)
{
	return b->txn ? txn_view(b->txn) : state_view(b->cs, b->head);
}

void snapshot_take(const cb_box *b, snapshot *out)
{
	out->base = state_ref(b->txn ? b->txn->base : b->head);
	out->delta = b->txn ? pmap_ref(&b->txn->delta) : PMAP_EMPTY;
	out->v = (tree_view){&b->cs->nodes, out->base->root, &out->base->overlay, &out->delta};
}

void snapshot_done(snapshot *s)
{
	if (!s->base) return;
	state_unref(s->base);
	pmap_done(&s->delta);
	s->base = NULL;
}

/* An old state does not move, but the root that its handle stands on may go: prune and gc give its step another. */
static cb_code refresh_pinned(cb_box *b, cb_error *err)
{
	uint64_t stamp = b->stamp;
	bool stands = false;
	state *again = NULL;
	if (store_fresh(b->cs->s, b->row.id, &stamp)) return CB_OK;
	CB_TRY(state_stands(b->cs, b->head, &stands, err));
	if (!stands) {
		cb_code code = state_load(b->cs, b->row.id, b->head->seq, &again, err);
		/* Pruned: what is in the caches can still be read. */
		if (code == CB_STALE || code == CB_NOTFOUND) return CB_OK;
		if (code != CB_OK) return code;
		state_unref(b->head);
		b->head = again;
	}
	b->stamp = stamp;
	return CB_OK;
}

cb_code box_refresh(cb_box *b, cb_error *err)
{
	if (b->pinned) return refresh_pinned(b, err);
	uint64_t stamp = b->stamp;
	if (store_fresh(b->cs->s, b->row.id, &stamp) && b->head) return CB_OK;
	CB_TRY(store_read_begin(b->cs->s, err));
	store_box row;
	state *head = NULL;
	cb_code code = store_box_get(b->cs->s, b->row.id, &row, err);
	if (code == CB_OK && row.deleted) code = cb_err_set(err, CB_NOTFOUND, "box '%s' was deleted", b->row.name);
	if (code == CB_OK) code = state_load_head(b->cs, row.id, &row.head, b->head, &head, err);
	store_read_end(b->cs->s);
	if (code != CB_OK) return code;
	if (b->head && b->open_files && !b->txn) files_before_refresh(b);
	state_unref(b->head);
	b->head = head;
	state_remember(b->cs, head);
	b->row = row;
	b->stamp = stamp;
	return CB_OK;
}

cb_code box_flush(cb_box *b, bool sync, cb_error *err)
{
	if (!b->txn || b->txn->explicit_) return CB_OK;
	txn *t = TAKE_PTR(b->txn);
	cb_code code = box_refused(b, t->kind, t->params, txn_commit(b, t, sync, NULL, err), err);
	/* For lack of room or a lock it is tried again with the next call; a conflict is settled (kept as a fork). */
	bool again = code != CB_OK && code != CB_CONFLICT && code != CB_FORKED && !b->closing;
	if (again) b->txn = t;
	else txn_destroy(t);
	return code;
}

void box_drop_running(cb_box *b)
{
	if (b->txn && !b->txn->explicit_) txn_destroy(TAKE_PTR(b->txn));
}

cb_code box_enter(cb_box *b, cb_error *err)
{
	(void)pthread_mutex_lock(&b->lock);
	cb_code code = CB_OK;
	int64_t now = b->txn && !b->txn->explicit_ ? clock_now(store_clock(b->cs->s)) : 0;
	if (now && now - b->txn->last_write_ns > QUIET_NS) {
		code = box_flush(b, false, err);
		if (code != CB_OK && b->txn) { /* what was written is still there and can be read; try again after another second */
			b->txn->last_write_ns = now;
			code = CB_OK;
		}
	}
	if (code == CB_OK && !b->txn) code = box_refresh(b, err);
	if (code != CB_OK) (void)pthread_mutex_unlock(&b->lock);
	return code;
}

cb_code box_leave(cb_box *b, cb_code code)
{
	(void)pthread_mutex_unlock(&b->lock);
	return code;
}

/* A transaction that outlives the call: the writer lock is not held meanwhile. */
static cb_code txn_create_unlocked(cb_box *b, const char *kind, const char *params, txn **out, cb_error *err)
{
	uint64_t epoch = 0;
	CB_TRY(store_epoch(b->cs->s, &epoch, err));
	CB_TRY(txn_create(b, kind, params, out, err));
	(*out)->epoch = epoch;
	(*out)->pid = getpid();
	return CB_OK;
}

/* ---- one changing call ---- */

static cb_code refuse_pinned(cb_box *b, const char *kind, const char *params, cb_error *err)
{
	if (!b->pinned) return CB_OK;
	cb_error why = {0};
	cb_code code = cb_err_set(&why, CB_READONLY, "'%s@%llu' is an old state: fork it, or restore it, to change it", b->row.name,
	                          (unsigned long long)b->head->seq);
	if (err) *err = why;
	return box_refused(b, kind, params, code, &why);
}

/* A step of its own: the writer lock first, so the head cannot move under it. */
static cb_code op_begin_own(op *o, const char *kind, const char *params, cb_error *err)
{
	cb_box *b = o->b;
	CB_TRY(box_flush(b, false, err));
	CB_TRY(store_write_begin(b->cs->s, err));
	cb_code code = box_refresh(b, err);
	if (code == CB_OK) code = txn_create(b, kind, params, &o->t, err);
	if (code != CB_OK) {
		store_write_abort(b->cs->s);
		return code;
	}
	o->t->in_write = true;
	o->own = true;
	b->txn = o->t; /* so that box_view sees the changes of this call */
	return CB_OK;
}

static void op_join(op *o)
{
	o->t = o->b->txn;
	o->t->now_ns = clock_now(store_clock(o->b->cs->s));
	o->saved = pmap_ref(&o->t->delta);
	o->saved_now = o->t->now;
}

cb_code op_begin(op *o, cb_box *b, const char *kind, const char *params, cb_error *err)
{
	*o = (op){.b = b, .kind = kind, .subject = params};
	(void)pthread_mutex_lock(&b->lock);
	cb_code code = refuse_pinned(b, kind, params, err);
	if (code == CB_OK && b->txn && b->txn->in_write)
		code = cb_err_set(err, CB_BUSY, "a visitor cannot change the box it is called from");
	if (code == CB_OK && b->txn && b->txn->explicit_) op_join(o);
	else if (code == CB_OK) code = op_begin_own(o, kind, params, err);
	if (code == CB_OK) b->changing++;
	else (void)pthread_mutex_unlock(&b->lock);
	return code;
}

cb_code op_begin_running(op *o, cb_box *b, const char *kind, const char *params, cb_error *err)
{
	*o = (op){.b = b, .kind = kind, .subject = params};
	CB_TRY(box_enter(b, err));
	cb_code code = refuse_pinned(b, kind, params, err);
	if (code == CB_OK && !b->txn) {
		code = txn_create_unlocked(b, kind, params, &b->txn, err);
	}
	if (code == CB_OK) {
		op_join(o);
		o->t->last_write_ns = o->t->now_ns;
		b->changing++;
	} else {
		(void)pthread_mutex_unlock(&b->lock);
	}
	return code;
}

static cb_code op_end_joined(op *o, cb_code code, cb_error *err)
{
	if (code == CB_OK) code = txn_relieve(o->t, err);
	if (code != CB_OK) {
		pmap_done(&o->t->delta);
		o->t->delta = pmap_ref(&o->saved);
		o->t->now = o->saved_now;
	}
	pmap_done(&o->saved);
	return code;
}

cb_code op_end(op *o, cb_code code, cb_commit_result *out, cb_error *err)
{
	cb_box *b = o->b;
	if (o->own) {
		b->txn = NULL;
		if (code == CB_OK) code = txn_commit(b, o->t, false, out, err);
		txn_destroy(o->t);
	} else {
		code = op_end_joined(o, code, err);
	}
	b->changing--;
	return box_leave(b, box_refused(b, o->kind, o->subject, code, err));
}

/* ---- explicit transactions ---- */

static cb_code begin_over(cb_box *b, state *base, const cb_step_info *info, cb_error *err)
{
	cb_code code = refuse_pinned(b, "txn", "", err);
	if (code == CB_OK && b->txn && b->txn->explicit_)
		code = cb_err_set(err, CB_BUSY, "a transaction is open on this handle already");
	if (code == CB_OK) code = box_flush(b, false, err);
	txn *t = NULL;
	if (code == CB_OK) code = txn_create_unlocked(b, "txn", "", &t, err);
	if (code == CB_OK && base) code = txn_rebase(t, base, err);
	if (code == CB_OK) code = box_refused(b, "txn", "", txn_fields(t, info, err), err);
	if (code == CB_OK) {
		t->explicit_ = true;
		b->txn = TAKE_PTR(t);
	}
	txn_destroy(t);
	return code;
}

cb_code cb_box_begin(cb_box *b, const cb_step_info *info, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	return box_leave(b, begin_over(b, NULL, info, err));
}

cb_code box_begin_at(cb_box *b, uint64_t seq, uint64_t state_id, const cb_step_info *info, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	AUTO_STATE state *base = b->head->id == state_id ? state_ref(b->head) : NULL;
	cb_code code = base ? CB_OK : state_load(b->cs, b->row.id, seq, &base, err);
	if (code == CB_OK && base->id != state_id)
		code = cb_err_set(err, CB_STALE, "step %llu of box '%s' is not what it was", (unsigned long long)seq, b->row.name);
	if (code == CB_OK) code = begin_over(b, base, info, err);
	return box_leave(b, code);
}

cb_code cb_box_commit(cb_box *b, const cb_step_info *info, cb_commit_result *out, cb_error *err)
{
	if (out) *out = (cb_commit_result){0};
	(void)pthread_mutex_lock(&b->lock);
	if (!b->txn || !b->txn->explicit_)
		return box_leave(b, cb_err_set(err, CB_INVALID, "no transaction is open on this handle"));
	cb_code code = box_refused(b, "txn", "", txn_fields(b->txn, info, err), err);
	if (code != CB_OK) return box_leave(b, code);
	txn *t = TAKE_PTR(b->txn);
	code = box_refused(b, t->kind, t->params, txn_commit(b, t, false, out, err), err);
	/* What failed for lack of room or a lock can be tried again; a conflict is settled (kept as a fork). */
	bool again = code != CB_OK && code != CB_CONFLICT;
	if (again) b->txn = t;
	else txn_destroy(t);
	return box_leave(b, code);
}

void cb_box_abort(cb_box *b)
{
	(void)pthread_mutex_lock(&b->lock);
	if (b->txn && b->txn->explicit_) txn_destroy(TAKE_PTR(b->txn));
	(void)box_leave(b, CB_OK);
}

cb_code cb_step_record(cb_box *b, const cb_step_info *info, uint64_t *out_seq, cb_error *err)
{
	op o;
	cb_commit_result result = {0};
	CB_TRY(op_begin(&o, b, "record", "", err));
	cb_code code =
		o.own ? txn_fields(o.t, info, err) : cb_err_set(err, CB_BUSY, "a transaction is open: its commit is the record");
	if (code == CB_OK) o.t->record = true;
	code = op_end(&o, code, &result, err);
	if (code == CB_OK && out_seq) *out_seq = result.seq;
	return code;
}

cb_code cb_box_who_set(cb_box *b, const char *who, cb_error *err)
{
	if (!who || strlen(who) > LIMIT_NAME_BYTES) return cb_err_set(err, CB_INVALID, "who: at most %d bytes", LIMIT_NAME_BYTES);
	char *copy = mem_strdup(who);
	if (!copy) return cb_err_nomem(err);
	(void)pthread_mutex_lock(&b->lock);
	free(b->who);
	b->who = copy;
	return box_leave(b, CB_OK);
}
