/* path.c: moving over the nodes below a root, with every node checked against the range its parent gives it. */
#include "tree/path.h"

#include <assert.h>
#include <inttypes.h>

void path_init(path *p, const tree_nodes *nodes)
{
	p->nodes = nodes;
	p->depth = 0;
}

static void pop(path *p)
{
	blob_unref(path_top(p)->blob);
	p->depth--;
}

void path_done(path *p)
{
	while (p->depth > 0) pop(p);
}

cb_code path_start(path *p, uint64_t root, cb_error *err)
{
	path_done(p);
	if (root == 0) return CB_OK;
	path_frame *f = &p->frames[0];
	CB_TRY(node_load(p->nodes, root, -1, &f->blob, &f->n, err));
	f->at = 0;
	p->depth = 1;
	return CB_OK;
}

/* Where the current subtree ends: the next key in the nearest frame that has one. */
static bool upper_end(const path *p, uint8_t *room, span *out)
{
	for (int i = p->depth - 1; i >= 0; i--) {
		const path_frame *f = &p->frames[i];
		if (f->at + 1 < f->n.count) {
			*out = node_key(&f->n, f->at + 1, room);
			return true;
		}
	}
	return false;
}

cb_code path_enter(path *p, cb_error *err)
{
	const path_frame *f = path_top(p);
	assert(f->n.level > 0 && p->depth < TREE_DEPTH_MAX);
	uint64_t id = node_child(&f->n, f->at);
	path_frame *child = &p->frames[p->depth];
	CB_TRY(node_load(p->nodes, id, f->n.level - 1, &child->blob, &child->n, err));

	uint8_t room[TREE_KEY_MAX];
	span upper;
	bool bounded = upper_end(p, room, &upper);
	if (!node_is_within(&child->n, path_key(p), bounded ? &upper : NULL)) {
		blob_unref(child->blob);
		return cb_err_set(err, CB_CORRUPT, "node %" PRIu64 " has keys outside its range", id);
	}
	child->at = 0;
	p->depth++;
	return CB_OK;
}

void path_pass(path *p)
{
	path_top(p)->at++;
	while (path_top(p)->at == path_top(p)->n.count) {
		pop(p);
		if (p->depth == 0) return;
		path_top(p)->at++;
	}
}

static cb_code enter_leftmost(path *p, cb_error *err)
{
	while (p->depth > 0 && !path_at_leaf(p)) CB_TRY(path_enter(p, err));
	return CB_OK;
}

cb_code path_next(path *p, cb_error *err)
{
	path_pass(p);
	return enter_leftmost(p, err);
}

/* To the leaf that has the key, or would: at the first entry in it that is not below the key, or behind its last. */
static cb_code descend(path *p, uint64_t root, span key, cb_error *err)
{
	bool equal;
	CB_TRY(path_start(p, root, err));
	if (p->depth == 0) return CB_OK;
	while (!path_at_leaf(p)) {
		path_frame *f = path_top(p);
		f->at = node_find_child(&f->n, key);
		CB_TRY(path_enter(p, err));
	}
	path_frame *leaf = path_top(p);
	leaf->at = node_find(&leaf->n, key, &equal);
	return CB_OK;
}

cb_code path_seek(path *p, uint64_t root, span key, cb_error *err)
{
	CB_TRY(descend(p, root, key, err));
	if (p->depth == 0 || path_top(p)->at < path_top(p)->n.count) return CB_OK;
	path_top(p)->at--; /* all of this leaf is below the key: the next one is not */
	return path_next(p, err);
}

cb_code path_seek_before(path *p, uint64_t root, span key, cb_error *err)
{
	CB_TRY(descend(p, root, key, err));
	while (p->depth > 0 && path_top(p)->at == 0) pop(p); /* nothing here is below the key: what is on its left is */
	if (p->depth == 0) return CB_OK;
	path_top(p)->at--;
	while (!path_at_leaf(p)) {
		CB_TRY(path_enter(p, err));
		path_top(p)->at = path_top(p)->n.count - 1U;
	}
	return CB_OK;
}
