/*
 * pmap.c: the persistent map as an AVL tree.
 *
 * Invariants of every node, checked by pmap_sound:
 *   - the keys on its left are smaller, those on its right larger;
 *   - the heights of its two sides differ by at most one; height, count and has_values are those of its subtree;
 *   - refs counts the links that lead to it: parents and pmap variables.
 *
 * A node with one reference, below nodes with one reference each, can be reached through one variable only: it is *owned* and may be
 * changed in place. An update first owns every node it may have to touch (own() replaces a shared node by a copy, which changes
 * nothing a reader could see), and only then changes anything: so an allocation that fails leaves the map as it was.
 */
#include "tree/pmap.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/cancel.h"

struct pmap_node {
	_Atomic uint32_t refs;
	uint32_t key_size;
	uint32_t value_size;
	uint8_t height; /* of a leaf: 1 */
	bool tombstone;
	bool has_values; /* in its subtree: not tombstones only */
	size_t count;
	pmap_node *side[2]; /* smaller, larger keys */
	uint8_t bytes[];    /* key, then value */
};

enum { LEFT = 0, RIGHT = 1 };

static span node_key(const pmap_node *n)
{
	return span_make(n->bytes, n->key_size);
}

static span node_value(const pmap_node *n)
{
	return span_make(n->bytes + n->key_size, n->value_size);
}

static int height_of(const pmap_node *n)
{
	return n ? n->height : 0;
}

static size_t count_of(const pmap_node *n)
{
	return n ? n->count : 0;
}

static bool has_values(const pmap_node *n)
{
	return n && n->has_values;
}

static pmap_node *node_ref(pmap_node *n)
{
	if (n) atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
	return n;
}

/* The recursion is as deep as the tree is high; the larger side is a loop. */
static void node_unref(pmap_node *n)
{
	while (n) {
		if (atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) != 1) return;
		pmap_node *right = n->side[RIGHT];
		node_unref(n->side[LEFT]);
		free(n);
		n = right;
	}
}

/* The acquire pairs with the release in another thread's node_unref: what that thread read of the node, it read before we write. */
static bool is_shared(pmap_node *n)
{
	return atomic_load_explicit(&n->refs, memory_order_acquire) != 1;
}

static pmap_node *node_create(span key, span value, bool tombstone)
{
	if (key.size > UINT32_MAX / 2 || value.size > UINT32_MAX / 2) return NULL;
	pmap_node *n = mem_alloc(sizeof(*n) + key.size + value.size);
	if (!n) return NULL;
	atomic_init(&n->refs, 1);
	n->key_size = (uint32_t)key.size;
	n->value_size = (uint32_t)value.size;
	n->height = 1;
	n->tombstone = tombstone;
	n->has_values = !tombstone;
	n->count = 1;
	n->side[LEFT] = n->side[RIGHT] = NULL;
	if (key.size) memcpy(n->bytes, key.bytes, key.size);
	if (value.size) memcpy(n->bytes + key.size, value.bytes, value.size);
	return n;
}

/* Makes the node behind an owned link owned. */
static bool own(pmap_node **link)
{
	pmap_node *n = *link;
	if (!n || !is_shared(n)) return true;
	pmap_node *copy = node_create(node_key(n), node_value(n), n->tombstone);
	if (!copy) return false;
	copy->height = n->height;
	copy->has_values = n->has_values;
	copy->count = n->count;
	copy->side[LEFT] = node_ref(n->side[LEFT]);
	copy->side[RIGHT] = node_ref(n->side[RIGHT]);
	*link = copy;
	node_unref(n);
	return true;
}

static void measure(pmap_node *n)
{
	int l = height_of(n->side[LEFT]), r = height_of(n->side[RIGHT]);
	n->height = (uint8_t)((l > r ? l : r) + 1);
	n->count = count_of(n->side[LEFT]) + count_of(n->side[RIGHT]) + 1;
	n->has_values = !n->tombstone || has_values(n->side[LEFT]) || has_values(n->side[RIGHT]);
}

/* The child on `up`'s side takes its parent's place. Both are owned. */
static void rotate(pmap_node **link, int up)
{
	pmap_node *n = *link, *child = n->side[up];
	assert(!is_shared(n) && !is_shared(child));
	n->side[up] = child->side[!up];
	child->side[!up] = n;
	measure(n);
	measure(child);
	*link = child;
}

static void rebalance(pmap_node **link)
{
	pmap_node *n = *link;
	int lean = height_of(n->side[RIGHT]) - height_of(n->side[LEFT]);
	assert(lean >= -2 && lean <= 2);
	if (lean == 2 || lean == -2) {
		int heavy = lean > 0 ? RIGHT : LEFT;
		pmap_node *child = n->side[heavy];
		if (height_of(child->side[!heavy]) > height_of(child->side[heavy])) rotate(&n->side[heavy], !heavy);
		rotate(link, heavy);
	} else {
		measure(n);
	}
}

/* Removing below one side of an owned node can make the other side heavy: owns what the rotation would then turn. */
static bool own_for_removal(pmap_node *n, int from)
{
	int other = !from;
	if (height_of(n->side[other]) <= height_of(n->side[from])) return true;
	if (!own(&n->side[other])) return false;
	pmap_node *sibling = n->side[other];
	if (height_of(sibling->side[from]) <= height_of(sibling->side[other])) return true;
	return own(&sibling->side[from]);
}

pmap pmap_ref(const pmap *m)
{
	return (pmap){node_ref(m->root)};
}

void pmap_done(pmap *m)
{
	node_unref(m->root);
	m->root = NULL;
}

size_t pmap_count(const pmap *m)
{
	return count_of(m->root);
}

pmap_found pmap_get(const pmap *m, span key, span *out)
{
	const pmap_node *n = m->root;
	while (n) {
		int c = span_compare(key, node_key(n));
		if (c == 0) {
			*out = node_value(n);
			return n->tombstone ? PMAP_TOMBSTONE : PMAP_VALUE;
		}
		n = n->side[c > 0];
	}
	return PMAP_ABSENT;
}

bool pmap_last_value(const pmap *m, span before, span *out)
{
	const pmap_node *n = m->root, *at = NULL; /* the last one below `before` that is a value or has some on its left */
	while (n) {
		bool below = span_compare(node_key(n), before) < 0;
		if (below && (!n->tombstone || has_values(n->side[LEFT]))) at = n;
		n = n->side[below ? RIGHT : LEFT];
	}
	if (at && at->tombstone) {
		at = at->side[LEFT];
		while (at->tombstone || has_values(at->side[RIGHT])) at = at->side[has_values(at->side[RIGHT]) ? RIGHT : LEFT];
	}
	if (at) *out = node_key(at);
	return at != NULL;
}

/* `fresh` takes the place and the children of the node behind an owned link. */
static void replace(pmap_node **link, pmap_node *fresh)
{
	pmap_node *old = *link;
	fresh->side[LEFT] = node_ref(old->side[LEFT]);
	fresh->side[RIGHT] = node_ref(old->side[RIGHT]);
	measure(fresh);
	*link = fresh;
	node_unref(old);
}

static cb_code put(pmap *m, span key, span value, bool tombstone, cb_error *err)
{
	CB_TRY(cancel_check(err)); /* whatever makes many changes comes here for each */
	pmap_node *fresh = node_create(key, value, tombstone);
	if (!fresh) return cb_err_nomem(err);

	pmap_node **path[PMAP_DEPTH_MAX], **link = &m->root;
	int depth = 0;
	while (*link) {
		int c = span_compare(key, node_key(*link));
		if (c == 0) {
			replace(link, fresh);
			while (depth > 0) measure(*path[--depth]); /* a value came, or went */
			return CB_OK;
		}
		if (!own(link)) {
			free(fresh);
			return cb_err_nomem(err);
		}
		assert(depth < PMAP_DEPTH_MAX);
		path[depth++] = link;
		link = &(*link)->side[c > 0];
	}
	*link = fresh;
	/* An insertion turns only nodes on its own path, which are owned. */
	while (depth > 0) rebalance(path[--depth]);
	return CB_OK;
}

cb_code pmap_put(pmap *m, span key, span value, cb_error *err)
{
	return put(m, key, value, false, err);
}

cb_code pmap_put_tombstone(pmap *m, span key, cb_error *err)
{
	return put(m, key, span_make(NULL, 0), true, err);
}

/*
 * Owns the path to the node to remove, and if it has two children on to its successor: the first node to the right that has no left
 * side. path[] gets the links of the nodes above what is unlinked in the end.
 */
static bool own_removal_path(pmap_node ***path, int *depth, pmap_node **link)
{
	if (!(*link)->side[LEFT] || !(*link)->side[RIGHT]) return true;
	if (!own_for_removal(*link, RIGHT)) return false;
	path[(*depth)++] = link;
	link = &(*link)->side[RIGHT];
	for (;;) {
		if (!own(link)) return false;
		if (!(*link)->side[LEFT]) return true;
		if (!own_for_removal(*link, LEFT)) return false;
		assert(*depth < PMAP_DEPTH_MAX);
		path[(*depth)++] = link;
		link = &(*link)->side[LEFT];
	}
}

/* Unlinks the owned node behind link; path[target..depth) are the links from it (included, if it has two children) to its
 * successor's parent. */
static void unlink_owned(pmap_node **link, pmap_node ***path, int target, int depth)
{
	pmap_node *gone = *link;
	if (target == depth) {
		*link = gone->side[gone->side[LEFT] ? LEFT : RIGHT];
	} else {
		/* path[target] is `link` itself; the successor hangs on the last node of the path: on the right if that is `gone`. */
		pmap_node *parent = *path[depth - 1];
		pmap_node **from = &parent->side[depth - 1 == target ? RIGHT : LEFT];
		pmap_node *successor = *from;
		*from = successor->side[RIGHT];
		successor->side[LEFT] = gone->side[LEFT];
		successor->side[RIGHT] = gone->side[RIGHT];
		*link = successor;
		/* The first link below `gone` now begins in its successor. */
		if (target + 1 < depth) path[target + 1] = &successor->side[RIGHT];
	}
	gone->side[LEFT] = gone->side[RIGHT] = NULL;
	node_unref(gone);
}

cb_code pmap_forget(pmap *m, span key, cb_error *err)
{
	span ignored;
	if (pmap_get(m, key, &ignored) == PMAP_ABSENT) return CB_OK;

	pmap_node **path[PMAP_DEPTH_MAX], **link = &m->root;
	int depth = 0;
	for (;;) {
		if (!own(link)) return cb_err_nomem(err);
		int c = span_compare(key, node_key(*link));
		if (c == 0) break;
		int side = c > 0 ? RIGHT : LEFT;
		if (!own_for_removal(*link, side)) return cb_err_nomem(err);
		assert(depth < PMAP_DEPTH_MAX);
		path[depth++] = link;
		link = &(*link)->side[side];
	}
	int target = depth;
	if (!own_removal_path(path, &depth, link)) return cb_err_nomem(err);
	unlink_owned(link, path, target, depth);
	while (depth > 0) rebalance(path[--depth]);
	return CB_OK;
}

/* ---- cursor: the stack holds the nodes whose keys are still to come, the current one on top ---- */

void pmap_seek(pmap_cursor *c, const pmap *m, span key)
{
	c->depth = 0;
	const pmap_node *n = m->root;
	while (n) {
		if (span_compare(node_key(n), key) >= 0) {
			assert(c->depth < PMAP_DEPTH_MAX);
			c->stack[c->depth++] = n;
			n = n->side[LEFT];
		} else {
			n = n->side[RIGHT];
		}
	}
}

bool pmap_cursor_get(const pmap_cursor *c, span *key, span *value, bool *tombstone)
{
	if (c->depth == 0) return false;
	const pmap_node *n = c->stack[c->depth - 1];
	*key = node_key(n);
	*value = node_value(n);
	*tombstone = n->tombstone;
	return true;
}

void pmap_cursor_next(pmap_cursor *c)
{
	if (c->depth == 0) return;
	const pmap_node *n = c->stack[--c->depth]->side[RIGHT];
	for (; n; n = n->side[LEFT]) {
		assert(c->depth < PMAP_DEPTH_MAX);
		c->stack[c->depth++] = n;
	}
}

/* ---- differences ---- */

static void part_push(pmap_diff *d, int side, const pmap_node *n, bool whole)
{
	if (!n) return;
	assert(d->depth[side] < 2 * PMAP_DEPTH_MAX);
	d->stack[side][d->depth[side]++] = (pmap_part){n, whole};
}

/* The subtree on top becomes its root and what is on both sides of it, as far as keys there can have the prefix. */
static void part_open(pmap_diff *d, int side)
{
	const pmap_node *n = d->stack[side][--d->depth[side]].node;
	span key = node_key(n);
	bool within = span_starts(key, d->prefix);
	bool before = !within && span_compare(key, d->prefix) < 0;
	if (within || before) part_push(d, side, n->side[RIGHT], true);
	if (within) part_push(d, side, n, false);
	if (!before) part_push(d, side, n->side[LEFT], true);
}

static const pmap_part *part_top(const pmap_diff *d, int side)
{
	return d->depth[side] ? &d->stack[side][d->depth[side] - 1] : NULL;
}

void pmap_diff_start(pmap_diff *d, const pmap *a, const pmap *b, span prefix)
{
	d->prefix = prefix;
	d->depth[LEFT] = d->depth[RIGHT] = 0;
	part_push(d, LEFT, a->root, true);
	part_push(d, RIGHT, b->root, true);
}

/* The higher subtree is opened first, so that a shared one comes to be on top on both sides before either is opened. */
bool pmap_diff_next(pmap_diff *d, span *out)
{
	for (;;) {
		const pmap_part *a = part_top(d, LEFT), *b = part_top(d, RIGHT);
		if (!a && !b) return false;
		if (a && b && a->node == b->node && a->whole == b->whole) {
			d->depth[LEFT]--;
			d->depth[RIGHT]--;
			continue;
		}
		int high_a = a && a->whole ? a->node->height : 0, high_b = b && b->whole ? b->node->height : 0;
		if (high_a || high_b) {
			if (high_a >= high_b) part_open(d, LEFT);
			if (high_b >= high_a) part_open(d, RIGHT);
			continue;
		}
		const pmap_node *m = a ? a->node : NULL, *n = b ? b->node : NULL;
		int order = !m ? 1 : !n ? -1 : span_compare(node_key(m), node_key(n));
		if (order <= 0) d->depth[LEFT]--;
		if (order >= 0) d->depth[RIGHT]--;
		if (order == 0 && m->tombstone == n->tombstone && span_equal(node_value(m), node_value(n))) continue;
		*out = node_key(order <= 0 ? m : n);
		return true;
	}
}

static bool sound(const pmap_node *n, const pmap_node *above, const pmap_node *below)
{
	if (!n) return true;
	if (above && span_compare(node_key(n), node_key(above)) <= 0) return false;
	if (below && span_compare(node_key(n), node_key(below)) >= 0) return false;
	int l = height_of(n->side[LEFT]), r = height_of(n->side[RIGHT]);
	if (l - r > 1 || r - l > 1 || n->height != (l > r ? l : r) + 1) return false;
	if (n->count != count_of(n->side[LEFT]) + count_of(n->side[RIGHT]) + 1) return false;
	if (n->has_values != (!n->tombstone || has_values(n->side[LEFT]) || has_values(n->side[RIGHT]))) return false;
	if (n->refs == 0) return false;
	return sound(n->side[LEFT], above, n) && sound(n->side[RIGHT], n, below);
}

bool pmap_sound(const pmap *m)
{
	return sound(m->root, NULL, NULL);
}
