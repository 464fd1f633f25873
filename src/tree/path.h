/*
 * path.h: a place in the nodes below one root, shared by the files of this layer only.
 *
 * The top frame's current entry is where the path stands: a leaf's entry, or a whole subtree that was not entered. Everything before
 * it was passed. An empty path is at the end.
 */
#ifndef TREE_PATH_H
#define TREE_PATH_H

#include "tree/node.h"

typedef struct path_frame {
	blob *blob;
	node n;
	size_t at;
} path_frame;

typedef struct path {
	const tree_nodes *nodes;
	int depth; /* 0: at the end */
	path_frame frames[TREE_DEPTH_MAX];
	uint8_t room[TREE_KEY_MAX]; /* the key path_key put together last */
} path;

#define PATH_AUTO ATTR_CLEANUP(path_done)

void path_init(path *p, const tree_nodes *nodes); /* at the end */
void path_done(path *p);
/* Before the first child or entry of the root; root 0: at the end. */
cb_code path_start(path *p, uint64_t root, cb_error *err);
/* At the first leaf entry whose key is not below `key`. */
cb_code path_seek(path *p, uint64_t root, span key, cb_error *err);
/* At the last leaf entry whose key is below `key`. */
cb_code path_seek_before(path *p, uint64_t root, span key, cb_error *err);
/* Into the subtree the path stands at. */
cb_code path_enter(path *p, cb_error *err);
/* Past the current entry or subtree; may come to stand at a subtree. */
void path_pass(path *p);
/* To the next leaf entry. */
cb_code path_next(path *p, cb_error *err);

static inline path_frame *path_top(path *p)
{
	return &p->frames[p->depth - 1];
}

static inline bool path_at_leaf(const path *p)
{
	return p->frames[p->depth - 1].n.level == 0;
}

/* The key of the current entry, or the lower end of the current subtree. Lent until the next call on the path. */
static inline span path_key(path *p)
{
	const path_frame *f = path_top(p);
	return node_key(&f->n, f->at, p->room);
}

static inline span path_value(path *p)
{
	const path_frame *f = path_top(p);
	return node_value(&f->n, f->at);
}

#endif
