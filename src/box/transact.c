/*
 * transact.c: transactions as handles of their own.
 *
 * cb_txn_begin makes a cb_box that stands on a state of the box and carries a transaction over it; every call on files, key-values, diff,
 * search and transfer works on it as on any other handle, because all of them read through box_view and change through op_begin. It shares
 * nothing with the handle it came from but the store: neither waits for the other's lock, and they are closed in any order.
 *
 * A transaction ends by a commit that succeeds, by being kept as a fork, or by being dropped. Whatever fails leaves it open. Writes
 * through open files collect in a transaction of the handle they were opened through, its running step, which has the same ends.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/cursor.h"
#include "box/gate.h"

#include <stdio.h>

static cb_code begin_checked(const cb_box *over, const cb_box *b, cb_error *err)
{
	if (b->is_txn) return cb_err_set(err, CB_INVALID, "a transaction cannot hold another: begin it on the box");
	if (!over) return CB_OK;
	if (over->cs != b->cs || over->id != b->id)
		return cb_err_set(err, CB_CROSSBOX, "a transaction begins over a state of its own box");
	if (!over->pinned) return cb_err_set(err, CB_INVALID, "begin over a state of the box, for instance step 7 of it");
	return CB_OK;
}

/* The new handle. base: what it collects over. */
static cb_code txn_handle(cb_box *b, state *base, uint64_t stamp, const cb_step_info *info, cb_box **out, cb_error *err)
{
	cb_box *t = NULL;
	CB_TRY(box_handle_create(b->cs, &b->row, &t, err));
	memcpy(t->draft_name, b->draft_name, sizeof(t->draft_name));
	t->is_txn = true;
	t->head = state_ref(base);
	t->stamp = stamp;
	cb_code code = cb_box_who_set(t, b->who, err);
	if (code == CB_OK && b->recorded_for) code = box_record_for(t, b->recorded_for, err);
	if (code == CB_OK) code = txn_create_unlocked(t, "txn", "", &t->txn, err);
	if (code == CB_OK) code = txn_fields(t->txn, info, err);
	if (code == CB_OK) {
		t->txn->explicit_ = true;
		t->txn->need = STORE_SHRINKS; /* until a call says otherwise */
		*out = t;
	} else {
		cb_box_close(t);
	}
	return code;
}

/* base NULL: the head. */
static cb_code begin_over(cb_box *b, state *base, const cb_step_info *info, cb_box **out, cb_error *err)
{
	CB_TRY(box_refuse_pinned(b, "txn", "", err));
	CB_TRY(box_flush(b, false, err));
	CB_TRY(box_refresh(b, err));
	/* Over an older state the handle does not know the head; a stamp that never matches makes it look. */
	return box_refused(b, "txn", "", txn_handle(b, base ? base : b->head, base ? 0 : b->stamp, info, out, err), err);
}

cb_code cb_txn_begin(cb_box *b, const cb_txn_options *options, cb_box **out, cb_error *err)
{
	NEED(err, "box out", b, out);
	cb_txn_options o;
	cb_step_info step;
	CB_TRY(SIZED_TAKE(cb_txn_options, over, &o, options, err));
	CB_TRY(step_info_take(&step, o.step, err));
	AUTO_KEPT kept_state base = {0};
	CB_TRY(begin_checked(o.over, b, err));
	if (o.over) {
		CB_TRY(box_enter(o.over, err));
		CB_TRY(box_leave(o.over, kept_set(&base, b->cs, o.over->head, KEPT_TXN, err)));
	}
	CB_TRY(box_enter(b, err));
	return box_leave(b, begin_over(b, base.s, &step, out, err));
}

cb_code box_txn_begin_at(cb_box *b, uint64_t seq, uint64_t state_id, const cb_step_info *info, cb_box **out, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	AUTO_KEPT kept_state base = {0};
	cb_code code = b->head->id == state_id ? kept_set(&base, b->cs, b->head, KEPT_TXN, err)
	                                       : kept_load(&base, b->cs, b->id, seq, KEPT_TXN, err);
	if (code == CB_OK && base.s->id != state_id)
		code = cb_err_set(err, CB_STALE, "step %llu of box '%s' is not what it was", (unsigned long long)seq,
		                  box_called(b, &b->row));
	if (code == CB_OK) code = begin_over(b, base.s, info, out, err);
	if (code == CB_OK) {
		txn *t = (*out)->txn;
		t->is_account = true;
		/* It happened: all of it is collected, and the quotas are asked at the commit. */
		txn_quotas_lift(t);
	}
	return box_leave(b, code);
}

void box_txn_take_back(cb_box *b)
{
	txn *t = b->txn;
	AUTO_BUF buf ids = BUF_INIT(SIZE_MAX);
	for (size_t i = 0; t && i < t->local_count; i++) {
		const local_content *l = &t->locals[i];
		bool stored = l->stored && !(l->stored & CONTENT_LOCAL) && !l->bytes.bytes;
		if (stored && buf_append(&ids, &l->stored, sizeof(l->stored), NULL) != CB_OK) break; /* gc takes the rest */
	}
	if (t) store_owner_drop(b->cs->s, t->owner, (const uint64_t *)(const void *)ids.bytes, ids.size / sizeof(uint64_t));
	if (t) t->owner = 0;
	cb_box_close(b);
}

/* A transaction that nobody changes or commits: what t holds now. Its veil, if it needs one, it gets with the first call on p. */
static cb_code txn_frozen(cb_box *p, const txn *t, txn **out, cb_error *err)
{
	AUTO_TXN txn *f = NULL;
	CB_TRY(txn_picture(t, NULL, &f, err));
	f->b = p;
	f->base = state_ref(t->base);
	f->delta = pmap_ref(&t->delta);
	f->now = t->now;
	f->now_ns = t->now_ns;
	f->era = t->era;
	f->explicit_ = true;
	CB_TRY(txn_base_keep(f, err));
	*out = TAKE_PTR(f);
	return CB_OK;
}

static cb_code picture_of(cb_box *b, cb_box **out, cb_error *err)
{
	cb_box *p = NULL;
	CB_TRY(box_handle_create(b->cs, &b->row, &p, err));
	cb_code code = cb_box_who_set(p, b->who, err);
	if (b->txn) {
		p->is_txn = true;
		p->head = state_ref(b->txn->base);
		if (code == CB_OK) code = txn_frozen(p, b->txn, &p->txn, err);
	} else {
		p->pinned = true;
		p->head = state_ref(b->head);
		if (code == CB_OK) code = kept_set(&p->kept, b->cs, b->head, KEPT_OPEN, err);
	}
	if (code == CB_OK) *out = p;
	else cb_box_close(p);
	return code;
}

cb_code box_picture_open(cb_box *b, cb_box **out, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	return box_leave(b, picture_of(b, out, err));
}

/* ---- its ends ---- */

/* Locks; the transaction, or the running step, to be ended. Not a call under way on the same thread: its transaction is not the
 * caller's to end. listing: only for what it failed for, also when it is over by that. */
static cb_code end_begin(cb_box *b, bool listing, cb_error *err)
{
	CB_TRY(box_lock(b, err));
	cb_code code = CB_OK;
	if (b->closed) code = cb_err_set(err, CB_BADHANDLE, "the box handle was closed");
	else if (listing && !b->txn && box_lists_lost(b)) code = CB_OK;
	else if (b->is_txn && !b->txn) code = cb_err_set(err, CB_INVALID, "this transaction is over: close it");
	else if (!b->txn) code = cb_err_set(err, CB_NOTHING, "no writes are under way on this handle");
	else if (b->changing)
		code = cb_err_set(err, CB_INVALID, "a call on this handle is under way: it cannot end its transaction");
	return code == CB_OK ? CB_OK : box_leave(b, code);
}

/* Lost: as the caller chose. *over: the transaction has ended all the same. */
static cb_code commit_lost(cb_box *b, const cb_commit_options *how, cb_commit_result *out, bool *over, cb_error *err)
{
	cb_error why = err ? *err : (cb_error){0}, second = {0};
	*over = how->lost == CB_LOST_DROP;
	if (how->lost != CB_LOST_FORK) return CB_CONFLICT;
	cb_commit_result kept = CB_INIT(cb_commit_result);
	cb_code forked = txn_fork(b, b->txn, NULL, &kept, &second);
	if (cancel_is_code(forked)) return cb_err_pass(err, forked, &second);
	if (forked != CB_OK)
		return cb_err_set(err, CB_CONFLICT, "%s; it could not be kept as a fork and is still open (%s)", why.message,
		                  second.message);
	*over = true;
	if (out) memcpy(out->fork, kept.fork, sizeof(out->fork));
	return cb_err_set(err, CB_CONFLICT, "%s; the result is kept as box '%s'", why.message, kept.fork);
}

static cb_code commit_locked(cb_box *b, const cb_commit_options *how, cb_commit_result *out, bool *over, cb_error *err)
{
	txn *t = b->txn;
	cb_error why = {0};
	cb_code code = txn_fields(t, how->step, &why);
	if (code == CB_OK) code = txn_commit(b, t, how, out, &why);
	code = box_refused(b, t->kind, t->params, code, &why);
	*over = code == CB_OK || code == CB_FORKED;
	if (code != CB_OK && err) *err = why;
	return code == CB_CONFLICT ? commit_lost(b, how, out, over, err ? err : &why) : code;
}

static cb_code choices_check(const cb_commit_options *o, cb_error *err)
{
	CB_TRY(args_member("lost", (int)o->lost, CB_LOST_STAYS, CB_LOST_DROP, err));
	CB_TRY(args_member("prefer", (int)o->prefer, CB_PREFER_NONE, CB_PREFER_THEIRS, err));
	CB_TRY(args_array("resolutions", o->resolutions, o->resolution_count, sizeof(*o->resolutions), err));
	for (size_t i = 0; i < o->resolution_count; i++) {
		const cb_resolution *r = &o->resolutions[i];
		char name[64];
		(void)snprintf(name, sizeof(name), "resolutions[%zu].prefer", i);
		if (!r->path) return cb_err_set(err, CB_INVALID, "the argument 'resolutions[%zu].path' is NULL", i);
		CB_TRY(args_member(name, (int)r->prefer, CB_PREFER_NONE, CB_PREFER_THEIRS, err));
	}
	return CB_OK;
}

static cb_code txn_end_by_commit(cb_box *b, const cb_commit_options *options, folder_news *folder, cb_commit_result *out,
                                 cb_error *err)
{
	cb_commit_options o;
	cb_step_info step;
	cb_commit_result result = CB_INIT(cb_commit_result);
	bool over = false;
	CB_TRY(SIZED_TAKE(cb_commit_options, resolution_count, &o, options, err));
	CB_TRY(step_info_take(&step, o.step, err));
	CB_TRY(SIZED_CHECK(cb_commit_result, fork, out, err));
	o.step = &step;
	CB_TRY(choices_check(&o, err));
	CB_TRY(cancel_check(err));
	CB_TRY(end_begin(b, false, err));
	b->txn->folder = folder;
	cb_code code = commit_locked(b, &o, &result, &over, err);
	b->txn->folder = NULL;
	box_lost_forget(b);
	if (over && code == CB_CONFLICT) { /* they can be listed until the handle is closed */
		buf lost = b->lost;
		b->lost = b->txn->lost;
		b->txn->lost = lost;
		box_lost_listed(b);
	}
	if (over) txn_destroy(TAKE_PTR(b->txn));
	if (over && !b->is_txn) box_committed(b);
	if (code == CB_OK || code == CB_CONFLICT) SIZED_GIVE(out, &result);
	return box_leave(b, code);
}

cb_code cb_txn_commit(cb_box *b, const cb_commit_options *options, cb_commit_result *out, cb_error *err)
{
	NEED(err, "txn", b);
	return txn_end_by_commit(b, options, NULL, out, err);
}

cb_code box_txn_commit_folder(cb_box *b, const cb_commit_options *options, const box_folder_news *news, cb_commit_result *out,
                              cb_error *err)
{
	folder_news folder = {.says = news};
	cb_code code = txn_end_by_commit(b, options, &folder, out, err);
	folder_news_done(&folder);
	return code;
}

cb_code cb_txn_keep(cb_box *b, const char *name, cb_commit_result *out, cb_error *err)
{
	NEED(err, "txn", b);
	cb_commit_result result = CB_INIT(cb_commit_result);
	CB_TRY(SIZED_CHECK(cb_commit_result, fork, out, err));
	if (name) CB_TRY(box_name_check(name, false, err));
	CB_TRY(cancel_check(err));
	CB_TRY(end_begin(b, false, err));
	cb_code code = box_refused(b, "fork", name ? name : "", txn_fork(b, b->txn, name, &result, err), err);
	if (code == CB_OK) txn_destroy(TAKE_PTR(b->txn));
	if (code == CB_OK && !b->is_txn) box_committed(b);
	if (code == CB_OK) SIZED_GIVE(out, &result);
	return box_leave(b, code);
}

cb_code cb_txn_drop(cb_box *b, cb_error *err)
{
	NEED(err, "txn", b);
	CB_TRY(end_begin(b, false, err));
	txn_destroy(TAKE_PTR(b->txn));
	if (!b->is_txn) box_committed(b);
	return box_leave(b, CB_OK);
}

typedef struct conflict_row {
	cb_conflict c;
	char *path;
} conflict_row;

static void conflict_done(void *item)
{
	conflict_row *row = item;
	free(row->path);
}

/* Named when they were found, by the rules of then. */
static cb_code conflicts_copy(cb_box *b, const buf *lost, buf *out, cb_error *err)
{
	const lost_path *all = (const lost_path *)(const void *)lost->bytes;
	for (size_t i = 0; i < lost->size / sizeof(*all); i++) {
		conflict_row row = {.path = mem_strdup(gate_named(b, all[i].path) ? all[i].path : "?")};
		if (!row.path) return cb_err_nomem(err);
		row.c = CB_WITH(cb_conflict, .path = row.path, .reason = all[i].reason, .contradicts = all[i].contradicts);
		cb_code code = buf_append(out, &row, sizeof(row), err);
		if (code != CB_OK) free(row.path);
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

cb_code cb_conflict_open(cb_box *b, cb_cursor **out, cb_error *err)
{
	list_cursor *l = NULL;
	NEED(err, "txn out", b, out);
	CB_TRY(cancel_check(err));
	CB_TRY(end_begin(b, true, err));
	cb_code code = list_cursor_create(CURSOR_CONFLICTS, sizeof(conflict_row), conflict_done, b->cs, b, &l, err);
	if (code == CB_OK) code = conflicts_copy(b, b->txn ? &b->txn->lost : &b->lost, &l->items, err);
	(void)box_leave(b, CB_OK);
	if (code == CB_OK) *out = &l->c;
	else cb_cursor_close(l ? &l->c : NULL);
	return code;
}

cb_code cb_txn_conflicts(cb_box *b, cb_conflict_visit visit, void *context, cb_error *err)
{
	NEED(err, "txn visit", b, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_conflict_open(b, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}
