/*
 * pen.c: changing a box entry by entry from outside this layer: see pen.h.
 *
 * Whoever comes by a folder's number and not by a path passes the gate here, entry by entry; pen_end asks once more about all of it.
 */
#include "box/pen.h"
#include "box/gate.h"
#include "box/intake.h"
#include "box/look_inside.h"

#include <assert.h>

struct pen {
	op o;
	look now, base;
	intake in;
	txn_point mark; /* pen_mark */
	bool is_marked;
};

/* ---- life ---- */

cb_code pen_begin(cb_box *b, const char *kind, const char *params, pen **out, cb_error *err)
{
	pen *e = mem_alloc(sizeof(*e));
	if (!e) return cb_err_nomem(err);
	*e = (pen){0};
	cb_code code = intake_init(&e->in, err);
	if (code == CB_OK) code = look_veil(&e->base, b, err);
	if (code == CB_OK) code = op_begin(&e->o, b, kind, params, err);
	if (code != CB_OK) {
		veil_destroy(e->base.veil);
		intake_done(&e->in);
		free(e);
		return code;
	}
	e->in.t = e->o.t;
	e->now = (look){.kind = LOOK_PEN, .b = b, .t = e->o.t};
	e->base = (look){.kind = LOOK_BASE, .b = b, .t = e->o.t, .veil = e->base.veil};
	*out = e;
	return CB_OK;
}

cb_code pen_end(pen *e, cb_code code, cb_error *err)
{
	pen_unmark(e);
	code = op_end(&e->o, code, NULL, err);
	veil_destroy(e->base.veil);
	intake_done(&e->in);
	free(e);
	return code;
}

look *pen_look(pen *e)
{
	return &e->now;
}

look *pen_base(pen *e)
{
	return &e->base;
}

void pen_mark(pen *e)
{
	assert(!e->is_marked);
	e->mark = txn_point_take(e->o.t);
	e->is_marked = true;
}

void pen_unmark(pen *e)
{
	if (e->is_marked) txn_point_done(&e->mark);
	e->is_marked = false;
}

void pen_back(pen *e)
{
	assert(e->is_marked);
	txn_point_back(&e->mark, e->o.t);
	pen_unmark(e);
}

/* ---- the gate ---- */

cb_code pen_allow(pen *e, uint64_t dir, span name, const box_node *n, cb_error *err)
{
	return gate_entry(e->o.t, GATE_WRITE, dir, name, n->ino, err);
}

/* ---- places ---- */

cb_code pen_spot_find(pen *e, const char *path, pen_spot *out, cb_error *err)
{
	resolved r;
	CB_TRY(path_make_parents(&e->o, path, err));
	tree_view v = txn_view(e->o.t);
	CB_TRY(path_resolve(e->o.b, &v, path, PATH_FOLLOW, GATE_CREATE, &r, err));
	out->dir = r.parent;
	memcpy(out->name, r.name, sizeof(out->name));
	out->name_size = r.name_size;
	out->exists = r.exists;
	if (r.exists) node_of_inode(&out->there, &r.node);
	return CB_OK;
}

cb_code pen_make(pen *e, uint64_t dir, span name, cb_type type, uint32_t mode, box_node *out, cb_error *err)
{
	inode made;
	CB_TRY(gate_entry(e->o.t, GATE_CREATE, dir, name, 0, err));
	CB_TRY(inode_create(e->o.t, dir, name, type, mode, &made, err));
	node_of_inode(out, &made);
	return CB_OK;
}

cb_code pen_remove(pen *e, uint64_t dir, span name, uint64_t *out_removed, cb_error *err)
{
	tree_view v = txn_view(e->o.t);
	inode there;
	uint64_t before = e->o.t->now.files;
	CB_TRY(inode_at(&v, dir, name, &there, NULL, err));
	CB_TRY(gate_entry(e->o.t, GATE_REMOVE, dir, name, there.rec.ino, err));
	CB_TRY(tree_remove(e->o.t, dir, name, &there, err));
	size_t since = e->is_marked ? e->mark.locals : e->o.saved.locals; /* what was there before may come back */
	if (there.rec.type != CB_DIR && there.rec.links == 1) txn_content_forget(e->o.t, &there.rec, since);
	if (out_removed) *out_removed = before - e->o.t->now.files;
	return CB_OK;
}

cb_code pen_link(pen *e, uint64_t ino, uint64_t dir, span name, box_node *out, cb_error *err)
{
	tree_view v = txn_view(e->o.t);
	inode there;
	CB_TRY(gate_entry(e->o.t, GATE_CREATE, dir, name, 0, err));
	CB_TRY(inode_find(&v, ino, &there, err));
	if (there.rec.links >= LIMIT_LINKS) return cb_err_set(err, CB_MLINK, "a file may have %d links", LIMIT_LINKS);
	CB_TRY(inode_link(e->o.t, &there, dir, name, err));
	if (out) node_of_inode(out, &there);
	return CB_OK;
}

cb_code pen_move(pen *e, uint64_t dir, span name, uint64_t to_dir, span to_name, cb_error *err)
{
	tree_view v = txn_view(e->o.t);
	inode there;
	CB_TRY(inode_at(&v, dir, name, &there, NULL, err));
	CB_TRY(gate_entry(e->o.t, GATE_REMOVE, dir, name, there.rec.ino, err));
	CB_TRY(gate_entry(e->o.t, GATE_CREATE, to_dir, to_name, 0, err));
	return inode_move(e->o.t, dir, name, to_dir, to_name, err);
}

/* ---- nodes ---- */

/* The node as this layer has it, with the place of its record. */
static cb_code inode_of(pen *e, const box_node *n, inode *out, cb_error *err)
{
	const node_inside *in = (const node_inside *)(const void *)n->inside;
	out->rec = in->rec;
	out->where.size = in->where.size;
	memcpy(out->where.bytes, in->where.bytes, in->where.size);
	if (in->where.size) return CB_OK;
	tree_view v = txn_raw(e->o.t);
	return inode_find(&v, n->ino, out, err);
}

cb_code pen_save(pen *e, box_node *n, bool changed, cb_error *err)
{
	inode i;
	CB_TRY(inode_of(e, n, &i, err));
	if (changed) inode_changed(e->o.t, &i, false);
	i.rec.mode = n->mode;
	i.rec.mtime_ns = n->mtime_ns;
	i.rec.atime_ns = n->atime_ns;
	CB_TRY(inode_save(e->o.t, &i, err));
	node_of_inode(n, &i);
	return txn_relieve(e->o.t, err);
}

cb_code pen_times(pen *e, uint64_t ino, int64_t atime_ns, int64_t mtime_ns, cb_error *err)
{
	return inode_times_set(e->o.t, ino, atime_ns, mtime_ns, err);
}

/* What the caller has set, and not saved yet, stays. */
static void node_keep(box_node *n, const inode *i)
{
	uint32_t mode = n->mode;
	int64_t mtime_ns = n->mtime_ns, atime_ns = n->atime_ns;
	node_of_inode(n, i);
	n->mode = mode;
	n->mtime_ns = mtime_ns;
	n->atime_ns = atime_ns;
}

cb_code pen_put(pen *e, box_node *n, span bytes, cb_error *err)
{
	inode i;
	CB_TRY(inode_of(e, n, &i, err));
	cb_code code = data_replace(e->o.t, &i, bytes.bytes, bytes.size, err);
	node_keep(n, &i);
	return code;
}

/* ---- files of the host ---- */

static intake_file file_of(pen *e, const pen_file *f)
{
	e->in.data_next = f->data_next;
	e->in.progress = f->progress;
	e->in.context = f->context;
	return (intake_file){f->fd, f->size, f->allocated_bytes};
}

cb_code pen_data(pen *e, const pen_file *f, box_node *n, bool fresh, bool *rests, bool *changed, cb_error *err)
{
	inode i;
	intake_file file = file_of(e, f);
	CB_TRY(inode_of(e, n, &i, err));
	e->in.unreadable = false;
	bool written = false;
	key k = key_inode(n->ino);
	cb_code code = intake_data(&e->in, &file, &i, fresh, rests, &written, err);
	if (code == CB_OK && written && !fresh) code = expect_written(e->o.t, &k, err);
	*changed = *changed || written;
	node_keep(n, &i);
	return code;
}

bool pen_unreadable(const pen *e)
{
	return e->in.unreadable;
}

cb_code pen_same(pen *e, const pen_file *f, const box_node *n, bool *out, cb_error *err)
{
	inode i;
	intake_file file = file_of(e, f);
	CB_TRY(inode_of(e, n, &i, err));
	return intake_same(&e->in, &file, &i, out, err);
}

cb_code pen_attributes(pen *e, uint64_t ino, span rows, bool fresh, bool *changed, cb_error *err)
{
	return intake_attributes(&e->in, ino, rows, fresh, changed, err);
}

cb_code pen_attribute_add(buf *rows, const char *name, span value, cb_error *err)
{
	return intake_attribute_add(rows, name, value, err);
}
