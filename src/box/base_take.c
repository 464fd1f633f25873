/*
 * base_take.c: single paths of the hidden base of a box made as they are in the box: the host has them now.
 *
 * A folder is taken without what is in it, which cb_restore cannot do: parts of it may not have gone to the host. Paths are followed
 * through folders only; a symbolic link on the way means that there is nothing at the path.
 */
#include "box/internal.h"

/* The folder that holds the last component (0: there is none) and what is there. */
typedef struct taken {
	uint64_t parent;
	span name;
	bool there;
	inode node;
} taken;

static cb_code find_direct(const tree_view *v, const char *path, taken *out, cb_error *err)
{
	*out = (taken){.parent = INO_ROOT};
	while (*path == '/') path++;
	for (;;) {
		size_t size = strcspn(path, "/");
		out->name = span_make(path, size);
		cb_code code = inode_at(v, out->parent, out->name, &out->node, NULL, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		out->there = code == CB_OK;
		path += size;
		if (!*path) return CB_OK;
		if (!out->there || out->node.rec.type != CB_DIR) {
			out->there = false;
			out->parent = 0;
			return CB_OK;
		}
		out->parent = out->node.rec.ino;
		path++;
	}
}

static cb_code take_away(txn *t, const char *path, cb_error *err)
{
	tree_view v = txn_view(t);
	taken at;
	CB_TRY(find_direct(&v, path, &at, err));
	if (!at.there) return CB_OK;
	bool empty = true;
	tree_view raw = txn_raw(t);
	/* What was in it went before it, but for what is hidden: that is still on the host. */
	if (v.veil && at.node.rec.type == CB_DIR) CB_TRY(inode_is_dir_empty(&raw, at.node.rec.ino, &empty, err));
	return empty ? tree_remove(t, at.parent, at.name, &at.node, err) : CB_OK;
}

static cb_code take_folder(txn *t, taken *at, const inode *source, cb_error *err)
{
	if (!at->there) return inode_create(t, at->parent, at->name, CB_DIR, source->rec.mode, &at->node, err);
	if (at->node.rec.mode == source->rec.mode) return CB_OK;
	at->node.rec.mode = source->rec.mode;
	inode_changed(t, &at->node, false);
	return inode_save(t, &at->node, err);
}

static cb_code take_here(op *o, const tree_view *from, const char *path, const inode *source, cb_error *err)
{
	txn *t = o->t;
	tree_view v = txn_view(t);
	taken at;
	inode made;
	CB_TRY(find_direct(&v, path, &at, err));
	if (!at.parent) {
		CB_TRY(path_make_parents(o, path, err));
		v = txn_view(t);
		CB_TRY(find_direct(&v, path, &at, err));
		if (!at.parent) return cb_err_set(err, CB_NOTDIR, "not a folder on the way: '%s'", path);
	}
	bool folder = source->rec.type == CB_DIR;
	if (at.there && !(folder && at.node.rec.type == CB_DIR)) {
		CB_TRY(tree_remove(t, at.parent, at.name, &at.node, err));
		at.there = false;
	}
	return folder ? take_folder(t, &at, source, err) : inode_copy(t, from, &source->rec, at.parent, at.name, &made, err);
}

/* What is gone first, from the deepest on; then what came, parents first. */
static cb_code take_all(op *o, const tree_view *from, const char *const *paths, size_t count, cb_error *err)
{
	taken source;
	for (size_t i = count; i > 0; i--) {
		CB_TRY(find_direct(from, paths[i - 1], &source, err));
		if (!source.there) CB_TRY(take_away(o->t, paths[i - 1], err));
	}
	for (size_t i = 0; i < count; i++) {
		CB_TRY(find_direct(from, paths[i], &source, err));
		if (source.there) CB_TRY(take_here(o, from, paths[i], &source.node, err));
	}
	return CB_OK;
}

cb_code box_base_take(cb_box *base, cb_box *from, const char *const *paths, size_t count, cb_error *err)
{
	AUTO_SNAPSHOT snapshot view = {0};
	CB_TRY(box_enter(from, err));
	CB_TRY(box_leave(from, snapshot_take(from, &view, err)));
	op o;
	CB_TRY(op_begin(&o, base, "apply", "", err));
	return op_end(&o, take_all(&o, &view.v, paths, count, err), NULL, err);
}
