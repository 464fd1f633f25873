/* look_inside.h: what is inside the types of look.h, for the files of this layer that fill them: look.c, look_walk.c, pen.c. */
#ifndef BOX_LOOK_INSIDE_H
#define BOX_LOOK_INSIDE_H

#include "box/internal.h"
#include "box/look.h"

typedef enum look_kind {
	LOOK_HANDLE, /* what a handle saw */
	LOOK_STATE,  /* a state by its place */
	LOOK_PEN,    /* what a pen sees, as it goes on */
	LOOK_BASE,   /* what its transaction began from */
} look_kind;

struct look {
	look_kind kind;
	cb_box *b; /* whose questions go to the gate */
	snapshot now;
	kept_state kept;
	state *s;          /* LOOK_STATE */
	struct veil *veil; /* LOOK_STATE, LOOK_BASE: what of it is shown; NULL: there is no hook */
	txn *t;            /* LOOK_PEN, LOOK_BASE; LOOK_HANDLE: where contents that are only in memory are found */
};
/* Good until the look changes. What the handle may see of it. */
tree_view look_view(const look *l);
cb_code look_veil(look *l, cb_box *b, cb_error *err);
static inline const txn *look_txn(const look *l)
{
	return l->kind == LOOK_HANDLE ? l->now.t : l->kind == LOOK_PEN ? l->t : NULL;
}

/* What node.inside holds. */
typedef struct node_inside {
	record rec;
	key where; /* size 0: not known */
} node_inside;
_Static_assert(sizeof(node_inside) <= NODE_INSIDE_BYTES, "a node has room for what is inside");

/* Where its record is to be put; then node_end. */
record *node_begin(box_node *n);
void node_end(box_node *n);
void node_of_inode(box_node *n, const inode *i);
/* Lent from the node. Its public numbers are not looked at. */
const record *node_record(const box_node *n);

#endif
