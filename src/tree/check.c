/* check.c: visiting all nodes below a root: for gc, and for the invariants of tree.h. */
#include <inttypes.h>

#include "tree/node.h"

/* One node's place: what its parent says of it. */
typedef struct place {
	uint64_t id;
	int level; /* -1: the root, any */
	span lower;
	const span *upper; /* NULL: no end */
} place;

static place child_place(const place *parent, const node *n, size_t i, uint8_t (*room)[TREE_KEY_MAX], span *upper)
{
	place p = {node_child(n, i), n->level - 1, node_key(n, i, room[0]), parent->upper};
	if (i + 1 < n->count) {
		*upper = node_key(n, i + 1, room[1]);
		p.upper = upper;
	}
	return p;
}

static cb_code load_at(const tree_nodes *nodes, const place *at, blob **out_blob, node *out, cb_error *err)
{
	NODE_AUTO_BLOB blob *b = NULL;
	CB_TRY(node_load(nodes, at->id, at->level, &b, out, err));
	if (!node_is_within(out, at->lower, at->upper)) {
		return cb_err_set(err, CB_CORRUPT, "node %" PRIu64 " has keys outside its range", at->id);
	}
	*out_blob = TAKE_PTR(b);
	return CB_OK;
}

/* ---- walk ---- */

static cb_code visit_entries(const node *n, const tree_walk_visit *visit, cb_error *err)
{
	uint8_t room[TREE_KEY_MAX];
	for (size_t i = 0; i < n->count; i++) {
		CB_TRY(visit->entry(visit->context, node_key(n, i, room), node_value(n, i), err));
	}
	return CB_OK;
}

/* The recursion is at most TREE_DEPTH_MAX deep: levels fall. */
static cb_code walk(const tree_nodes *nodes, const place *at, const tree_walk_visit *visit, cb_error *err)
{
	if (visit->enter && !visit->enter(visit->context, at->id)) return CB_OK;
	if (at->level == 0 && !visit->entry) return CB_OK; /* a leaf's number is all that is asked for */
	NODE_AUTO_BLOB blob *b = NULL;
	node n;
	CB_TRY(load_at(nodes, at, &b, &n, err));
	if (n.level == 0) return visit->entry ? visit_entries(&n, visit, err) : CB_OK;
	uint8_t room[2][TREE_KEY_MAX];
	for (size_t i = 0; i < n.count; i++) {
		span upper;
		place child = child_place(at, &n, i, room, &upper);
		CB_TRY(walk(nodes, &child, visit, err));
	}
	return CB_OK;
}

cb_code tree_walk(const tree_nodes *nodes, uint64_t root, const tree_walk_visit *visit, cb_error *err)
{
	if (root == 0) return CB_OK;
	const place top = {.id = root, .level = -1};
	return walk(nodes, &top, visit, err);
}

/* ---- check ---- */

static cb_code check(const tree_nodes *nodes, const place *at, cb_error *err)
{
	NODE_AUTO_BLOB blob *b = NULL;
	node n;
	CB_TRY(load_at(nodes, at, &b, &n, err));
	/* Once more, although node_load has: a check should not trust a flag in memory. */
	const char *wrong = node_check(span_make(b->bytes, b->size));
	if (!wrong && at->level >= 0 && node_weight(&n) < TREE_NODE_MIN) wrong = "is too small";
	if (wrong) return cb_err_set(err, CB_CORRUPT, "node %" PRIu64 " %s", at->id, wrong);
	if (n.level == 0) return CB_OK;
	uint8_t room[2][TREE_KEY_MAX];
	for (size_t i = 0; i < n.count; i++) {
		span upper;
		place child = child_place(at, &n, i, room, &upper);
		CB_TRY(check(nodes, &child, err));
	}
	return CB_OK;
}

cb_code tree_check(const tree_nodes *nodes, uint64_t root, cb_error *err)
{
	if (root == 0) return CB_OK;
	/* The lower end of the root's range is the empty key: an inner root must begin with it. */
	const place top = {.id = root, .level = -1};
	return check(nodes, &top, err);
}
