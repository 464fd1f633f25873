/*
 * handle.c: box handles: entering and leaving calls, keeping the head current, one changing call as one step.
 *
 * A handle is of one of three sorts: on the head of a box, on one state (pinned), or a transaction's own (transact.c). Open files belong to
 * the handle they were opened through; one that is closed before them stays, of no use, until the last of them is closed.
 */
#include "base/args.h"
#include "box/gate.h"

enum { RUNNING_NS = 1000000000 }; /* how old the box may be that a handle shows while its open files are written to */

cb_code box_handle_create(cb_store *cs, const store_box *row, cb_box **out, cb_error *err)
{
	cb_box *b = mem_alloc(sizeof(*b));
	if (!b) return cb_err_nomem(err);
	*b = (cb_box){.refs = 1, .era = entry_era(), .cs = cs, .id = row->id, .row = *row, .lost = BUF_INIT(SIZE_MAX)};
	(void)atomic_fetch_add(&cs->refs, 1);
	entry_lock_init(&b->lock);
	b->who = mem_strdup(box_store_who(cs));
	if (!b->who) {
		free(b);
		box_store_unref(cs);
		return cb_err_nomem(err);
	}
	*out = b;
	return CB_OK;
}

void box_destroy(cb_box *b)
{
	state_unref(TAKE_PTR(b->head));
	veil_destroy(TAKE_PTR(b->veil));
	kept_done(&b->kept);
	store_use_end(b->cs->s, &b->call);
	box_unref(b);
}

cb_box *box_ref(cb_box *b)
{
	(void)atomic_fetch_add(&b->refs, 1);
	return b;
}

void box_unref(cb_box *b)
{
	if (atomic_fetch_sub(&b->refs, 1) != 1) return;
	cb_store *cs = b->cs;
	free(b->who);
	buf_done(&b->undo_cancelled);
	lost_paths_forget(&b->lost);
	buf_done(&b->lost);
	free(b->recorded_for);
	entry_lock_done(&b->lock);
	free(b);
	box_store_unref(cs);
}

void cb_box_close(cb_box *b)
{
	if (!b) return;
	CANCEL_SHIELD;
	if (box_lock_last(b, NULL) != CB_OK) return;
	/* Nobody is left to decide about a running step that lost: what was written is kept where it can be found. */
	cb_code code = box_flush(b, false, NULL);
	if (code == CB_CONFLICT && !box_is_hidden(&b->row)) code = txn_fork(b, b->txn, NULL, NULL, NULL);
	if (code != CB_OK) files_lose_step(b);
	files_settle_last(b);
	b->closed = true;
	/* Called back by a call on this very handle, which goes on with it: box_leave ends it when that is over. */
	if (b->depth == 1 && !b->stays) box_draft_drop(b);
	(void)box_leave(b, CB_OK);
}

cb_box *box_stay(cb_box *b)
{
	(void)atomic_fetch_add(&b->stays, 1);
	return b;
}

void box_stay_end(cb_box *const *at)
{
	cb_box *b = *at;
	if (atomic_fetch_sub(&b->stays, 1) != 1 || !b->closed) return;
	CANCEL_SHIELD;
	(void)box_lock(b, NULL);
	(void)box_leave(b, CB_OK);
}

/* Some handles are open but of no use. */
static cb_code handle_check(const cb_box *b, cb_error *err)
{
	if (b->closed) return cb_err_set(err, CB_BADHANDLE, "the box handle was closed");
	if (b->is_txn && !b->txn) return cb_err_set(err, CB_INVALID, "this transaction is over: close it and begin another");
	return CB_OK;
}

cb_code box_refuse_txn(const cb_box *b, const char *what, cb_error *err)
{
	if (!b->is_txn) return CB_OK;
	return cb_err_set(err, CB_INVALID, "%s is not for a transaction: commit it, and call this on its box", what);
}

uint64_t cb_box_step(cb_box *b)
{
	if (!b) return 0;
	if (entry_lock_take(&b->lock, "", NULL) != CB_OK) return 0;
	uint64_t seq = atomic_load(&b->last_seq);
	entry_lock_give(&b->lock);
	return seq;
}

/* Without the handle's lock: a visitor of it may wait for the thread that is here. */
void box_made(cb_box *b, uint64_t seq)
{
	if (seq) atomic_store(&b->last_seq, seq);
}

tree_view box_view(const cb_box *b)
{
	if (b->txn) return txn_view(b->txn);
	tree_view v = state_view(b->cs, b->head);
	return b->ruled && b->veil ? veil_over(b->veil, &v) : v;
}

cb_code snapshot_take(const cb_box *b, snapshot *out, cb_error *err)
{
	CB_TRY(kept_set(&out->base, b->cs, b->txn ? b->txn->base : b->head, KEPT_VISIT, err));
	out->delta = b->txn ? pmap_ref(&b->txn->delta) : PMAP_EMPTY;
	tree_view all = {&b->cs->nodes, out->base.s->root, &out->base.s->overlay, &out->delta, NULL};
	out->v = all;
	if (!b->ruled) return CB_OK;
	CB_TRY(veil_create(b->cs, box_governed(&b->row), b->who, &out->veil, err));
	veil_know(out->veil, b->txn ? b->txn->veil : b->veil);
	out->v = veil_over(out->veil, &all);
	return CB_OK;
}

static cb_code collect_local(void *context, uint64_t content, uint64_t min_size, cb_error *err)
{
	(void)min_size;
	size_t index = content_local_index(content);
	return content & CONTENT_LOCAL ? buf_append(context, &index, sizeof(index), err) : CB_OK;
}

cb_code snapshot_contents(snapshot *s, const cb_box *b, span prefix, cb_error *err)
{
	AUTO_BUF buf wanted = BUF_INIT(SIZE_MAX);
	if (!b->txn || !b->txn->local_count) return CB_OK;
	/* Only the delta can refer to them. */
	pmap_cursor at;
	span k, value;
	bool gone;
	for (pmap_seek(&at, &s->delta, prefix); pmap_cursor_get(&at, &k, &value, &gone) && span_starts(k, prefix);
	     pmap_cursor_next(&at))
		if (!gone) CB_TRY(record_contents(k, value, collect_local, &wanted, err));
	return wanted.size ? txn_picture(b->txn, &wanted, &s->t, err) : CB_OK;
}

void snapshot_done(snapshot *s)
{
	if (!s->base.s) return;
	kept_done(&s->base);
	veil_destroy(TAKE_PTR(s->veil)); /* holds the delta */
	pmap_done(&s->delta);
	txn_destroy(TAKE_PTR(s->t));
}

/* In a child of fork(): what the handle keeps is kept by the parent, for as long as that one likes. */
static cb_code pinned_again(cb_box *b, cb_error *err)
{
	kept_state again = {0};
	CB_TRY(kept_load(&again, b->cs, b->head->box, b->head->seq, KEPT_OPEN, err));
	kept_done(&b->kept);
	b->kept = again;
	state_unref(b->head);
	b->head = state_ref(again.s);
	return CB_OK;
}

static cb_code refresh_pinned(cb_box *b, cb_error *err)
{
	if (store_use_is_shown(b->kept.use)) return CB_OK;
	if (b->kept.use) return pinned_again(b, err);
	/* There is no table to keep it by. The state does not move, but the root that the handle stands on may go: prune and gc give its
	 * step another. */
	uint64_t stamp = b->stamp;
	bool stands = false;
	state *again = NULL;
	if (store_fresh(b->cs->s, b->id, &stamp)) return CB_OK;
	CB_TRY(state_stands(b->cs, b->head, &stands, err));
	if (!stands) {
		cb_error why;
		cb_code code = state_load(b->cs, b->id, b->head->seq, &again, cb_err_aside(&why));
		/* Pruned: what is in the caches can still be read. */
		if (code == CB_STALE || code == CB_NOTFOUND) return CB_OK;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		state_unref(b->head);
		b->head = again;
	}
	b->stamp = stamp;
	return CB_OK;
}

cb_code box_living(const cb_box *b, store_box *out, cb_error *err)
{
	cb_error why;
	cb_code code = store_box_get(b->cs->s, b->id, out, cb_err_aside(&why));
	if ((code == CB_NOTFOUND || (code == CB_OK && out->deleted)) && *b->base_of)
		return cb_err_set(err, CB_NOTFOUND, "box '%s' was deleted, or given another folder, meanwhile", b->base_of);
	if (code == CB_NOTFOUND || (code == CB_OK && out->deleted))
		return cb_err_set(err, CB_NOTFOUND, "box '%s' was deleted", box_called(b, &b->row));
	return code == CB_OK ? CB_OK : cb_err_pass(err, code, &why);
}

cb_code box_write_begin(const cb_box *b, store_need need, cb_error *err)
{
	store_box row;
	CB_TRY(store_write_begin_as(b->cs->s, need, err));
	cb_code code = box_living(b, &row, err);
	if (code != CB_OK) store_write_abort(b->cs->s);
	return code;
}

static cb_code refresh_once(cb_box *b, uint64_t stamp, cb_error *err)
{
	CB_TRY(store_read_begin(b->cs->s, err));
	store_box row;
	state *head = NULL;
	cb_code code = box_living(b, &row, err);
	if (code == CB_OK) code = state_load_head(b->cs, row.id, &row.head, b->head, &head, err);
	store_read_end(b->cs->s);
	if (code != CB_OK) return code;
	state_unref(b->head);
	b->head = head;
	state_remember(b->cs, head);
	b->row = row;
	b->stamp = stamp;
	return CB_OK;
}

cb_code box_refresh(cb_box *b, cb_error *err)
{
	if (b->pinned) return refresh_pinned(b, err);
	uint64_t stamp = b->stamp;
	/* Shown first, asked after: what was the head at that moment stays until box_leave (store/inuse.h). */
	if (b->head) CB_TRY(kept_call(b, err));
	bool sure = store_fresh(b->cs->s, b->id, &stamp) && b->head;
	while (!sure) {
		uint64_t seen = 0;
		CB_TRY(store_removal_wait(b->cs->s, &seen, err));
		CB_TRY(refresh_once(b, stamp, err));
		CB_TRY(kept_call(b, err));
		/* Others may commit all the time; it is enough that nobody removed. */
		sure = store_fresh(b->cs->s, b->id, &stamp) || store_removal_is(b->cs->s, seen);
	}
	if (b->files.all) files_after_refresh(b);
	return CB_OK;
}

void box_committed(cb_box *b)
{
	CANCEL_SHIELD;
	b->files.seq = UINT64_MAX; /* pictures with the transaction's contents in memory are over */
	(void)box_refresh(b, NULL);
}

cb_code box_flush(cb_box *b, bool sync, cb_error *err)
{
	if (!b->txn || b->txn->explicit_ || b->changing) return CB_OK;
	txn *t = b->txn;
	cb_error why = {0};
	cb_code code = box_refused(b, t->kind, t->params, txn_commit(b, t, &(cb_commit_options){.sync = sync}, NULL, &why), &why);
	/* Whatever failed, the step stays: it is tried again with the next call, and the caller may end it with cb_txn_commit and its
	 * siblings. In a child of fork() it was never this process's. */
	if (code == CB_OK || code == CB_FORKED) txn_destroy(TAKE_PTR(b->txn));
	if (code == CB_OK) box_committed(b);
	if (code == CB_CONFLICT)
		return cb_err_set(
			err, CB_CONFLICT,
			"what was written through open files of this handle waits to be committed with resolutions, kept or "
			"dropped (cb_txn_commit, cb_txn_keep, cb_txn_drop): %s",
			why.message);
	if (code != CB_OK && err) *err = why;
	return code;
}

cb_code box_writes_end(cb_box *b, cb_error *err)
{
	CB_TRY(box_lock(b, err));
	return box_leave(b, b->closed ? CB_OK : box_flush(b, false, err));
}

/*
 * The first call on it in a child of fork(). Transactions and drafts stay the parent's, at once and for all calls: what they stand on is
 * kept by the parent, for as long as that one likes. So does a running step, which the parent will commit: the child sees the box without.
 */
static cb_code adopt(cb_box *b, cb_error *err)
{
	if (b->is_txn) return cb_err_set(err, CB_FORKED, "a transaction stays with the process that began it: begin another");
	if (b->draft_owner) return cb_err_set(err, CB_FORKED, "a draft stays with the process that made it");
	if (b->depth > 0) return CB_OK; /* forked inside a call, which goes on here: with the next one */
	if (b->txn) b->files.seq = UINT64_MAX;
	txn_destroy(TAKE_PTR(b->txn));
	CB_TRY(files_adopt(b, err));
	b->era = entry_era();
	return CB_OK;
}

cb_code box_lock_last(cb_box *b, cb_error *err)
{
	CB_TRY(entry_lock_take(&b->lock, "for another thread's call on this handle", err));
	b->depth++;
	return CB_OK;
}

cb_code box_lock(cb_box *b, cb_error *err)
{
	CB_TRY(entry_lock_take(&b->lock, "for another thread's call on this handle", err));
	if (b->era != entry_era()) {
		cb_code code = adopt(b, err);
		if (code != CB_OK) entry_lock_give(&b->lock);
		if (code != CB_OK) return code;
	}
	b->depth++;
	return CB_OK;
}

/* Have others committed since the running step began? txn_commit, also one that fails, brings the head up to date. */
static bool running_is_behind(const cb_box *b)
{
	uint64_t stamp = b->stamp;
	return b->txn->base->id != b->head->id || !store_fresh(b->cs->s, b->id, &stamp);
}

/* The running step shows the box as it was when it began. So it ends after a second without writes, and after a second in any case when
 * others have committed meanwhile. Where it cannot end, whoever would see an old state is told why. */
static cb_code running_end(cb_box *b, cb_error *err)
{
	txn *t = b->txn;
	int64_t now = clock_now(store_clock(b->cs->s));
	bool quiet = now - t->last_write_ns > RUNNING_NS;
	if (!quiet && (now - t->began_ns <= RUNNING_NS || !running_is_behind(b))) return CB_OK;
	cb_error why = {0};
	cb_code code = box_flush(b, false, &why);
	if (code == CB_OK) return CB_OK;
	if (!b->txn || running_is_behind(b)) return cb_err_pass(err, code, &why);
	/* A full disk, for instance: what was written can be read, and is what the box would be. Tried again after another second. */
	t->last_write_ns = now;
	return CB_OK;
}

cb_code box_enter(cb_box *b, cb_error *err)
{
	CB_TRY(cancel_check(err));
	CB_TRY(box_lock(b, err));
	cb_code code = handle_check(b, err);
	if (code != CB_OK) return box_leave(b, code);
	if (b->txn && !b->txn->explicit_ && !b->changing) code = running_end(b, err);
	if (code == CB_OK && !b->txn) code = box_refresh(b, err);
	if (code == CB_OK) code = gate_enter(b, err);
	return code == CB_OK ? CB_OK : box_leave(b, code);
}

/* Nobody uses it any more. Files that were open longer than it may have stood on the transaction's contents. */
static void handle_end(cb_box *b)
{
	CANCEL_SHIELD;
	b->is_over = true;
	txn_destroy(TAKE_PTR(b->txn));
	box_draft_drop(b);
}

cb_code box_leave(cb_box *b, cb_code code)
{
	bool outermost = b->depth && --b->depth == 0;
	if (outermost) kept_call_end(b);
	bool last = outermost && b->closed && !b->is_over && !b->files.all && !b->stays;
	if (last) handle_end(b);
	entry_lock_give(&b->lock);
	if (last) box_destroy(b);
	return code;
}

cb_code txn_create_unlocked(cb_box *b, const char *kind, const char *params, txn **out, cb_error *err)
{
	uint64_t epoch = 0;
	CB_TRY(store_epoch(b->cs->s, &epoch, err));
	CB_TRY(txn_create(b, kind, params, out, err));
	(*out)->epoch = epoch;
	cb_code code = txn_base_keep(*out, err);
	if (code != CB_OK) txn_destroy(TAKE_PTR(*out));
	return code;
}

/* ---- one changing call ---- */

cb_code box_refuse_pinned(cb_box *b, const char *kind, const char *params, cb_error *err)
{
	if (!b->pinned) return CB_OK;
	cb_error why = {0};
	cb_code code = cb_err_set(&why, CB_READONLY, "'%s@%llu' is an old state: fork it, or restore it, to change it", b->row.name,
	                          (unsigned long long)b->head->seq);
	if (err) *err = why;
	return box_refused(b, kind, params, code, &why);
}

/* A step of its own: the writer lock first, so the head cannot move under it. */
static cb_code op_begin_own(op *o, store_need need, const char *kind, const char *params, cb_error *err)
{
	cb_box *b = o->b;
	/* Or a running step that waits for room would keep everything else waiting. */
	if (b->txn && need > b->txn->need) b->txn->need = need;
	CB_TRY(box_flush(b, false, err));
	CB_TRY(store_write_begin_as(b->cs->s, need, err));
	cb_code code = box_refresh(b, err);
	if (code == CB_OK) code = txn_create(b, kind, params, &o->t, err);
	if (code != CB_OK) {
		store_write_abort(b->cs->s);
		return code;
	}
	o->t->in_write = true;
	o->t->need = need;
	o->own = true;
	b->txn = o->t; /* so that box_view sees the changes of this call */
	return CB_OK;
}

/* The same without the lock: whoever is faster makes it run again. */
static cb_code op_begin_ahead(op *o, store_need need, const char *kind, const char *params, cb_error *err)
{
	cb_box *b = o->b;
	if (store_is_read_only(b->cs->s)) return store_refuse_write(b->cs->s, err);
	if (b->txn && need > b->txn->need) b->txn->need = need;
	CB_TRY(box_flush(b, false, err));
	CB_TRY(box_refresh(b, err));
	CB_TRY(txn_create_unlocked(b, kind, params, &o->t, err));
	o->t->need = need;
	o->own = true;
	b->txn = o->t;
	return CB_OK;
}

static void op_join(op *o, store_need need)
{
	o->t = o->b->txn;
	/* A transaction is what the most demanding of its calls is. */
	if (need < o->t->need && !o->t->is_account) o->t->need = need;
	o->t->now_ns = clock_now(store_clock(o->b->cs->s));
	o->t->refused = 0;
	if (!o->b->changing) o->t->began = o->t->now;
	o->saved = txn_point_take(o->t);
}

/* In a child of fork() a transaction is a copy of the parent's: what is added here could never be committed. The running step of open
 * files is given up with it, so that the next write begins one of this process. */
static cb_code refuse_inherited(cb_box *b, cb_error *err)
{
	if (b->txn->era == entry_era()) return CB_OK;
	if (!b->txn->explicit_) txn_destroy(TAKE_PTR(b->txn));
	return cb_err_set(err, CB_FORKED, "the transaction belongs to the parent process: begin another in this one");
}

static cb_code op_begin_how(op *o, cb_box *b, store_need need, const char *kind, const char *params, bool ahead, cb_error *err)
{
	*o = (op){.b = b, .kind = kind, .subject = params};
	CB_TRY(cancel_check(err));
	CB_TRY(box_lock(b, err));
	cb_code code = handle_check(b, err);
	if (code == CB_OK) code = gate_enter(b, err);
	if (code == CB_OK) code = box_refuse_pinned(b, kind, params, err);
	if (code == CB_OK && b->txn && b->txn->in_write)
		code = cb_err_set(err, CB_INVALID, "a visitor cannot change the box it is called from");
	if (code == CB_OK && b->txn && b->txn->explicit_) code = refuse_inherited(b, err);
	if (code == CB_OK && b->txn && b->txn->explicit_) op_join(o, need);
	else if (code == CB_OK)
		code = ahead ? op_begin_ahead(o, need, kind, params, err) : op_begin_own(o, need, kind, params, err);
	if (code != CB_OK) return box_leave(b, code);
	b->changing++;
	return CB_OK;
}

cb_code op_begin(op *o, cb_box *b, const char *kind, const char *params, cb_error *err)
{
	return op_begin_how(o, b, STORE_GROWS, kind, params, false, err);
}

cb_code op_begin_as(op *o, cb_box *b, store_need need, const char *kind, const char *params, cb_error *err)
{
	return op_begin_how(o, b, need, kind, params, false, err);
}

cb_code op_begin_unlocked(op *o, cb_box *b, const char *kind, const char *params, cb_error *err)
{
	return op_begin_how(o, b, STORE_GROWS, kind, params, true, err);
}

cb_code op_begin_running(op *o, cb_box *b, const char *kind, const char *params, cb_error *err)
{
	*o = (op){.b = b, .kind = kind, .subject = params};
	CB_TRY(box_enter(b, err));
	cb_code code = box_refuse_pinned(b, kind, params, err);
	if (code == CB_OK && b->txn) code = refuse_inherited(b, err);
	o->begins = code == CB_OK && !b->txn;
	if (o->begins) code = txn_create_unlocked(b, kind, params, &b->txn, err);
	if (code != CB_OK) return box_leave(b, code);
	op_join(o, STORE_GROWS);
	o->t->last_write_ns = o->t->now_ns;
	if (!o->t->began_ns) o->t->began_ns = o->t->now_ns;
	b->changing++;
	return CB_OK;
}

static cb_code op_end_joined(op *o, cb_code code, cb_error *err)
{
	if (code == CB_OK && o->b->changing == 1) code = txn_counters_hold(o->t, &o->saved.now, err);
	if (code == CB_OK) code = txn_relieve(o->t, err);
	if (code != CB_OK) txn_point_back(&o->saved, o->t);
	txn_point_done(&o->saved);
	/* A running step in which nothing was written would only show the past. */
	if (o->begins && pmap_count(&o->t->delta) == 0) txn_destroy(TAKE_PTR(o->b->txn));
	return code;
}

/* *out_moved: nothing happened, because others were faster. NULL: they cannot have been. */
static cb_code op_end_how(op *o, cb_code code, bool *out_moved, cb_commit_result *out, cb_error *err)
{
	cb_box *b = o->b;
	if (code == CB_OK) code = gate_changes(o->t, err);
	if (o->own) {
		b->txn = NULL;
		if (code == CB_OK)
			code = out_moved ? txn_commit_exact(b, o->t, out_moved, out, err) : txn_commit(b, o->t, NULL, out, err);
		veil_know(b->veil, o->t->veil);
		txn_destroy(o->t);
		if (b->files.all) box_committed(b);
	} else {
		code = op_end_joined(o, code, err);
	}
	b->changing--;
	/* Of a call that is made of others it is the whole that was refused. */
	return box_leave(b, b->changing ? code : box_refused(b, o->kind, o->subject, code, err));
}

cb_code op_end(op *o, cb_code code, cb_commit_result *out, cb_error *err)
{
	return op_end_how(o, code, NULL, out, err);
}

cb_code op_run(cb_box *b, store_need need, const char *kind, const char *params, op_body body, void *context, cb_commit_result *out,
               cb_error *err)
{
	enum { TRIES = 3 };
	for (int tries = 0;; tries++) {
		op o;
		bool ahead = tries < TRIES, moved = false;
		CB_TRY(op_begin_how(&o, b, need, kind, params, ahead, err));
		CB_TRY(op_end_how(&o, body(&o, context, err), ahead ? &moved : NULL, out, err));
		if (!moved) return CB_OK;
	}
}

cb_code op_run_bytes(cb_box *b, size_t size, const char *kind, const char *params, op_body body, void *context,
                     cb_commit_result *out, cb_error *err)
{
	if (size > TXN_AHEAD_BYTES) return op_run(b, STORE_GROWS, kind, params, body, context, out, err);
	op o;
	CB_TRY(op_begin(&o, b, kind, params, err));
	return op_end(&o, body(&o, context, err), out, err);
}

cb_code cb_step_record(cb_box *b, const cb_step_info *info, uint64_t *out_seq, cb_error *err)
{
	NEED(err, "box", b);
	op o;
	cb_step_info step;
	cb_commit_result result = CB_INIT(cb_commit_result);
	CB_TRY(step_info_take(&step, info, err));
	CB_TRY(op_begin_as(&o, b, STORE_SHRINKS, "record", "", err));
	cb_code code = box_refuse_txn(b, "a record", err);
	if (code == CB_OK) code = txn_fields(o.t, &step, err);
	if (code == CB_OK) o.t->record = true;
	code = op_end(&o, code, &result, err);
	if (code == CB_OK && out_seq) *out_seq = result.seq;
	return code;
}

cb_code box_record_for(cb_box *b, const char *who, cb_error *err)
{
	AUTO_FREE char *copy = mem_strdup(who);
	if (!copy) return cb_err_nomem(err);
	CB_TRY(box_lock(b, err));
	free(b->recorded_for);
	b->recorded_for = TAKE_PTR(copy);
	return box_leave(b, CB_OK);
}

cb_code cb_box_who_set(cb_box *b, const char *who, cb_error *err)
{
	NEED(err, "box who", b, who);
	if (strlen(who) > LIMIT_NAME_BYTES) return cb_err_set(err, CB_INVALID, "who: at most %d bytes", LIMIT_NAME_BYTES);
	AUTO_FREE char *copy = mem_strdup(who);
	if (!copy) return cb_err_nomem(err);
	CB_TRY(box_lock(b, err));
	free(b->who);
	b->who = TAKE_PTR(copy);
	b->ruled_version = 0;
	if (b->txn) b->txn->passed_version = 0;
	return box_leave(b, CB_OK);
}
