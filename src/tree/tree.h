/*
 * tree.h: one ordered map from bytes to bytes in immutable nodes.
 *
 * A *root* is the number of a node (0: the empty map). Nodes are written once: changing a map gives a new root that shares every node
 * outside the changed paths with the old one, so old roots stay readable for as long as their nodes are kept. A *view* is a root with up
 * to two overlays (pmaps) over it: what has changed since the root was written. Every state of a box, its head included, is read as a
 * view. Equal node numbers mean equal subtrees: that is what makes differences cheap.
 *
 * Invariants (checked by tree_check, asserted where they are made):
 *   - keys in a node and across the nodes of a level strictly ascend; a child's keys lie in [its separator, next separator);
 *   - all leaves are at one level; levels fall by one per step down; depth <= TREE_DEPTH_MAX;
 *   - no node is larger than TREE_NODE_MAX; none but the root weighs less than TREE_NODE_MIN (after any sequence of changes). A node's
 *     weight is its size with every key written in full: the size itself has no lower bound, because taking out the common prefix
 *     can make both halves of an overfull node as small as one likes;
 *   - the key of an inner node's first child is the node's own key in its parent, the empty key on the left edge;
 *   - an inner node has at least two children; no leaf is empty.
 *
 * Node bytes come from disk and are hostile: each node is fully validated once (blob.checked) before anything in it is used.
 */
#ifndef TREE_TREE_H
#define TREE_TREE_H

#include <stdatomic.h>

#include "base/blob.h"
#include "base/err.h"
#include "base/span.h"
#include "tree/pmap.h"

/* Two nodes fill one 4 KiB page of SQLite. bench/tree_node_size.c builds the tree with other sizes; the format does not depend on it. */
#ifndef TREE_NODE_BYTES
#define TREE_NODE_BYTES 2016
#endif

enum {
	TREE_KEY_MAX = 288,   /* bytes: kind, inode, parent and a name of 255 */
	TREE_VALUE_MAX = 208, /* bytes: an inode record with inline data */
	TREE_NODE_MAX = TREE_NODE_BYTES,
	TREE_NODE_MIN = TREE_NODE_BYTES * 25 / 84, /* 600 bytes of weight: less is joined with a neighbour */
	TREE_DEPTH_MAX = 16,
};

/* Where nodes live: the store, or a test's array. */
typedef struct tree_nodes {
	cb_code (*get)(void *context, uint64_t id, blob **out, cb_error *err); /* blob_unref() it */
	cb_code (*put)(void *context, span bytes, uint64_t *out_id, cb_error *err);
	void *context;
} tree_nodes;

typedef struct tree_value {
	size_t size;
	uint8_t bytes[TREE_VALUE_MAX];
} tree_value;

/*
 * What a view does not show. Asked for every key that the view has, each time it is about to leave through tree_get, a cursor or a
 * difference; what it hides is as if it were not there. It may also show another value: *value is then to point into `room`. It may read
 * the map, through a view without the veil.
 *
 * Lists are long, so a veil may say what a cursor need not ask about: from a key on that was shown and begins with `plain`, all that do and
 * whose values do not begin with `unless`, as they are, while *version is `as_of`.
 */
enum { TREE_PLAIN_BYTES = 9 };
typedef struct tree_veil {
	cb_code (*shows)(void *context, span key, span *value, tree_value *room, bool *out, cb_error *err);
	void *context;
	const _Atomic uint64_t *version; /* NULL: nothing is plain */
	uint64_t as_of;
	uint8_t plain[TREE_PLAIN_BYTES];
	uint8_t unless;
} tree_veil;

typedef struct tree_view {
	const tree_nodes *nodes;
	uint64_t root;
	const pmap *overlay;   /* changes since root; NULL: none */
	const pmap *delta;     /* newer changes, over overlay; NULL: none */
	const tree_veil *veil; /* NULL: all is shown */
} tree_view;

/* CB_NOTFOUND (err is not filled: it is an answer, not a failure). */
cb_code tree_get(const tree_view *v, span key, tree_value *out, cb_error *err);

/*
 * Of keys that are the beginnings of ranges which overlap neither in the view nor in what any of its sources had: the last before `before`
 * that may reach there, with its value. CB_NOTFOUND: none does. Cost: that of tree_get; deleted keys on the way are not counted.
 */
cb_code tree_reaching(const tree_view *v, span before, uint8_t key[TREE_KEY_MAX], size_t *out_size, tree_value *out, cb_error *err);

/* Iteration in key order over view keys >= from. Tombstones are hidden. The view's maps must not change meanwhile. */
typedef struct tree_cursor tree_cursor;
cb_code tree_cursor_open(const tree_view *v, span from, tree_cursor **out, cb_error *err);
/* The same where only keys before `until` are wanted: from there on some may or may not be given. What was deleted there costs nothing. */
cb_code tree_cursor_open_until(const tree_view *v, span from, span until, tree_cursor **out, cb_error *err);
/* At the first key with that prefix, where only those with it are wanted. */
cb_code tree_cursor_open_below(const tree_view *v, span prefix, tree_cursor **out, cb_error *err);
/* false: at the end. Spans are lent until the next call on the cursor. */
bool tree_cursor_get(const tree_cursor *c, span *key, span *value);
cb_code tree_cursor_next(tree_cursor *c, cb_error *err);
cb_code tree_cursor_seek(tree_cursor *c, span from, cb_error *err); /* forwards or backwards; `from` is not the cursor's own key */
void tree_cursor_close(tree_cursor *c);

/* Applies changes (a pmap: values and tombstones) to a root; *out_root is the root of the result. New nodes go through nodes->put.
 * A tombstone of an absent key, or a value equal to the present one, changes nothing; when nothing changes *out_root == root and
 * nothing is written. Also the bulk build: root 0. Cost: nodes on the changed paths. */
cb_code tree_apply(const tree_nodes *nodes, uint64_t root, const pmap *changes, uint64_t *out_root, cb_error *err);

/* Keys whose values differ between two views, as their veils show them, in key order. A key that is the same in both maps is not looked at,
 * also when only one veil hides it. old/new have bytes NULL where the key is absent on that side (an empty
 * value has bytes non-NULL). Visiting may end early with CB_INTERRUPTED (then CB_OK is returned). Equal nodes are skipped: cost in
 * proportion to the difference, plus the keys of overlays that share nothing. */
typedef cb_code (*tree_diff_visit)(void *context, span key, span old_value, span new_value, cb_error *err);
cb_code tree_diff(const tree_view *a, const tree_view *b, tree_diff_visit visit, void *context, cb_error *err);
/* The same from a key on and within a prefix only. */
cb_code tree_diff_prefix(const tree_view *a, const tree_view *b, span prefix, tree_diff_visit visit, void *context, cb_error *err);

/* Every node and every leaf entry below a root, each node once: for gc. enter returns false to skip a node already seen. */
typedef struct tree_walk_visit {
	bool (*enter)(void *context, uint64_t node);
	cb_code (*entry)(void *context, span key, span value, cb_error *err); /* NULL: nodes only */
	void *context;
} tree_walk_visit;
cb_code tree_walk(const tree_nodes *nodes, uint64_t root, const tree_walk_visit *visit, cb_error *err);

/* All invariants below a root. CB_CORRUPT names the node. */
cb_code tree_check(const tree_nodes *nodes, uint64_t root, cb_error *err);
/* One node's bytes, as they came from disk. For fuzzing and fsck. */
cb_code tree_node_check(span bytes, cb_error *err);

/* ---- change lists: what a step keeps. Sorted by key, checked when decoded. ---- */

/* Appends (key, old or absent, new or absent) entries in ascending key order; tree_changes_decode visits them again. */
struct buf;
cb_code tree_changes_append(struct buf *out, span previous_key, span key, span old_value, span new_value, cb_error *err);
cb_code tree_changes_decode(span bytes, tree_diff_visit visit, void *context, cb_error *err); /* CB_CORRUPT */

#endif
