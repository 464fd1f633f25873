/*
 * folder_news.c: what an import learned of the box's own folder, published together with its step.
 *
 * The base (folder_base.c) becomes what the import found on the host, which is what its transaction holds, less what only the box has:
 * the *picture*. It is taken from the transaction and not from the box after the step, where the work of others may have been merged in,
 * and where prune may have been since. All that is slow is done before the writer lock is taken; step, base and link are one write
 * transaction, so that a caller who is told of a failure finds nothing of it.
 */
#include "box/gate.h"

/* ---- the picture ---- */

static cb_code picture_less(txn *picture, const box_only *only, size_t count, cb_error *err)
{
	for (size_t i = 0; i < count; i++) {
		tree_view v = txn_raw(picture);
		span name = span_make(only[i].name, only[i].size);
		inode there;
		cb_code code = inode_at(&v, only[i].parent, name, &there, NULL, err);
		if (code == CB_OK) code = tree_remove(picture, only[i].parent, name, &there, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
	}
	return CB_OK;
}

static cb_code picture_make(folder_news *f, txn *t, cb_error *err)
{
	AUTO_TXN txn *picture = NULL;
	const cb_box *b = t->b;
	/* Over the import's base, not the head. */
	cb_box over = {.cs = t->cs, .id = b->id, .row = b->row, .head = t->base, .who = b->who, .ruled = b->ruled};
	CB_TRY(txn_contents_store(t, err));
	CB_TRY(txn_create(&over, t->kind, "", &picture, err));
	picture->b = t->b;
	picture->need = t->need;
	txn_quotas_lift(picture);
	CB_TRY(txn_sealed_delta(t, &picture->delta, err));
	picture->now = t->now;
	CB_TRY(picture_less(picture, f->says->only, f->says->only_count, err));
	f->picture = TAKE_PTR(picture);
	f->epoch = t->epoch;
	return CB_OK;
}

/* ---- the base's step to it ---- */

static void change_drop(folder_news *f)
{
	prepared_destroy(TAKE_PTR(f->ahead));
	txn_destroy(TAKE_PTR(f->change));
	cb_box_close(TAKE_PTR(f->base));
}

/* What is hidden from the caller stays in the base, as it does in a restore. */
static cb_code change_fill(folder_news *f, cb_error *err)
{
	cb_box *b = f->says->b;
	tree_view all = txn_raw(f->picture), v;
	AUTO_VEIL veil *veiled = NULL;
	CB_TRY(gate_view(b, &all, &veiled, &v, err));
	return restore_state(f->change, &v, gate_has_rules(b->cs, b), err);
}

/* f->base is open. in_write: inside a write transaction. */
static cb_code change_make(folder_news *f, bool in_write, cb_error *err)
{
	CB_TRY(box_enter(f->base, err));
	cb_code code = in_write ? txn_create(f->base, "import", "", &f->change, err)
	                        : txn_create_unlocked(f->base, "import", "", &f->change, err);
	CB_TRY(box_leave(f->base, code));
	f->change->inside_write = in_write;
	f->change->need = f->picture->need;
	f->change->epoch = f->epoch; /* what it borrows was read then */
	CB_TRY(change_fill(f, err));
	if (in_write || !txn_is_large(f->change)) return CB_OK;
	return txn_prepare(f->change, f->base->id, &f->ahead, err);
}

cb_code folder_news_prepare(folder_news *f, txn *t, cb_error *err)
{
	cb_error why;
	CB_TRY(picture_make(f, t, err));
	cb_code code = box_base_open(f->says->b, BOX_BASE_EXISTING, &f->base, cb_err_aside(&why));
	if (code == CB_OK) return change_make(f, false, err);
	if (code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	return f->says->only_count ? folder_news_apart(f, err) : CB_OK;
}

cb_code folder_news_apart(folder_news *f, cb_error *err)
{
	if (f->base || f->has_root) return CB_OK;
	CB_TRY(txn_root_ahead(f->picture, &f->state, &f->root, err));
	f->has_root = true;
	return CB_OK;
}

/* ---- inside the write transaction of the step ---- */

static cb_code base_put(folder_news *f, const store_box *row, cb_error *err)
{
	AUTO_STATE state *head = NULL;
	cb_box *b = f->says->b;
	if (!f->change || f->base->id != row->id || f->change->base->id != row->head.state) {
		/* Another import or apply of the same folder was faster. */
		change_drop(f);
		CB_TRY(box_base_open(b, BOX_BASE_EXISTING, &f->base, err));
		CB_TRY(change_make(f, true, err));
	}
	if (f->ahead) return txn_append_prepared(f->change, f->ahead, row->id, b->who, &head, err);
	return txn_append(f->change, row->id, b->who, &head, err);
}

cb_code folder_news_put(folder_news *f, const state *head, cb_error *err)
{
	cb_box *b = f->says->b;
	store_box row;
	cb_error why;
	cb_code code = box_base_find(b->cs, b->id, &row, cb_err_aside(&why));
	if (code == CB_OK) CB_TRY(base_put(f, &row, err));
	else if (code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	else if (f->has_root) CB_TRY(box_base_insert_seen(b, &(state){.id = f->state, .root = f->root}, err));
	else CB_TRY(box_base_insert_seen(b, head ? head : f->picture->base, err));
	if (!f->says->host_path) return CB_OK;
	return box_folder_put(b, f->says->host_path, f->says->box_path, err);
}

void folder_news_done(folder_news *f)
{
	change_drop(f);
	txn_destroy(TAKE_PTR(f->picture));
}
