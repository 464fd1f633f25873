/*
 * orphan.c: what is written to an open file after it went from the box.
 *
 * It is kept in a transaction that is never committed, over the picture that the file went with. What the file had, data and holes, is
 * shared with that picture: so it costs what is written, whatever the file's size. As every transaction this one puts its contents into
 * the store when many wait in memory; its owner keeps them from gc until the last handle is closed, or the process ends.
 *
 * When the file comes back with the bytes that it went with, the two pictures are compared, by the contents that they refer to, and what
 * differs is written to it: first the smallest size that it was given, then the size that it has, so that what was cut off is a hole as it
 * would be in a file that had never gone, then the data. They are written anew: whoever goes on with the file depends on nothing that only
 * this transaction keeps.
 */
#include "box/open_file.h"

#include <stdlib.h>

enum { CROWD = 4096 }; /* contents that have numbers in memory, besides as many as are in use twice over */

cb_code write_inode(txn *t, inode *node, const write_request *w, cb_error *err)
{
	CB_TRY(inode_written(t, node, err));
	uint64_t offset = w->at_end ? node->rec.size : w->offset;
	if (w->bytes) CB_TRY(data_write(t, node, offset, w->bytes, w->size, err));
	else CB_TRY(data_resize(t, node, offset, err));
	if (w->out_end) *w->out_end = offset + w->size;
	return inode_save(t, node, err);
}

void orphan_destroy(orphan *o)
{
	if (!o) return;
	txn_destroy(o->t);
	pmap_done(&o->went);
	free(o);
}

/* Of a file that went inside a transaction the picture has what that wrote to it. That may end before the file is closed. */
static cb_code contents_inherit(txn *t, txn *from, uint64_t ino, cb_error *err)
{
	size_t ignored;
	if (!from) return CB_OK;
	CB_TRY(data_settle(t, from, ino, &ignored, err));
	if (from->owner) CB_TRY(store_owner_share(t->cs->s, from->owner, err));
	t->owner = from->owner;
	return CB_OK;
}

static cb_code private_txn(cb_file *f, txn **out, cb_error *err)
{
	AUTO_TXN txn *t = NULL;
	inode node;
	CB_TRY(txn_create(f->b, "detached", f->path, &t, err));
	CB_TRY(txn_base_set(t, f->kept.base.s, err));
	CB_TRY(txn_base_keep(t, err));
	t->delta = pmap_ref(&f->kept.delta);
	tree_view v = txn_raw(t);
	CB_TRY(inode_find(&v, f->ino, &node, err));
	/* The box does not count the file any more; here it counts alone, and against no quota. */
	t->now = t->began = (counters){1, node.rec.size};
	txn_quotas_lift(t);
	if (f->kept.delta.root) CB_TRY(contents_inherit(t, f->b->txn, f->ino, err));
	*out = TAKE_PTR(t);
	return CB_OK;
}

cb_code orphan_create(cb_file *f, cb_error *err)
{
	AUTO_TXN txn *t = NULL;
	CB_TRY(private_txn(f, &t, err));
	orphan *o = mem_alloc(sizeof(*o));
	if (!o) return cb_err_nomem(err);
	*o = (orphan){
		.ino = f->ino, .went = pmap_ref(&t->delta), .least = UINT64_MAX, .crowd = CROWD, .taken = f->taken, .by = f->by};
	o->t = TAKE_PTR(t);
	for (cb_file *g = file_first_of(f->b, f->ino); g; g = file_next_of(g)) {
		file_detach(g);
		g->private_ = o;
		o->refs++;
	}
	return CB_OK;
}

/* Each write adds a content, and numbers of those that were written over are of no use. What is left of them refers to the store then. */
static cb_code crowd_disperse(orphan *o, cb_error *err)
{
	size_t in_use = 0;
	if (o->t->local_count < o->crowd) return CB_OK;
	CB_TRY(data_settle(o->t, o->t, o->ino, &in_use, err));
	txn_locals_forget(o->t);
	o->crowd = CROWD + 2 * in_use;
	return CB_OK;
}

/* A small file is written as a whole each time: the whole before it is of no use, and is not put into the store. */
static void whole_forget(txn *t, const record *before, const record *after)
{
	bool replaced = after->form != DATA_EXTENTS && (after->form != DATA_CONTENT || after->content != before->content);
	if (replaced) txn_content_forget(t, before, 0);
}

cb_code orphan_write(orphan *o, const write_request *w, cb_error *err)
{
	inode node;
	CB_TRY(crowd_disperse(o, err));
	tree_view v = txn_raw(o->t);
	CB_TRY(inode_find(&v, o->ino, &node, err));
	record before = node.rec;
	txn_point saved = txn_point_take(o->t);
	cb_code code = write_inode(o->t, &node, w, err);
	if (code == CB_OK) code = txn_relieve(o->t, err);
	if (code == CB_OK) whole_forget(o->t, &before, &node.rec);
	else txn_point_back(&saved, o->t);
	txn_point_done(&saved);
	if (code == CB_OK && node.rec.size < o->least) o->least = node.rec.size;
	return code;
}

static tree_view went_view(const orphan *o)
{
	const txn *t = o->t;
	return (tree_view){&t->cs->nodes, t->base->root, &t->base->overlay, &o->went, NULL};
}

cb_code orphan_is_as_it_went(const orphan *o, const cb_box *b, const tree_view *v, const record *r, bool *out, cb_error *err)
{
	inode went;
	tree_view was = went_view(o);
	CB_TRY(inode_find(&was, o->ino, &went, err));
	return data_equal(b->cs, o->t, &was, &went.rec, b->txn, v, r, out, err);
}

cb_code orphan_put(const orphan *o, txn *t, inode *node, cb_error *err)
{
	inode went, is;
	tree_view was = went_view(o), now = txn_raw(o->t);
	CB_TRY(inode_find(&was, o->ino, &went, err));
	CB_TRY(inode_find(&now, o->ino, &is, err));
	CB_TRY(inode_written(t, node, err));
	if (o->least < node->rec.size) CB_TRY(data_resize(t, node, o->least, err));
	CB_TRY(data_resize(t, node, is.rec.size, err));
	CB_TRY(data_write_changes(t, node, o->t, &was, &went.rec, &now, &is.rec, err));
	return inode_save(t, node, err);
}
