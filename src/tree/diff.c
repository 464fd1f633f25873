/*
 * diff.c: where two views, or three, differ.
 *
 * Two streams of candidate keys are merged: keys in which the roots differ, and keys that an overlay of either side mentions. For each
 * candidate both views' values are found and compared. Keys in neither stream have equal values: the roots agree on them and no
 * overlay hides that.
 */
#include <assert.h>

#include "base/cancel.h"
#include "tree/path.h"

static const span absent = {NULL, 0};

static bool same_value(span a, span b)
{
	return !a.bytes == !b.bytes && span_equal(a, b);
}

/* ---- the roots: two paths side by side ---- */

enum { OLD, NEW, SIDES };

typedef struct root_diff {
	path at[SIDES];
	span prefix;
	bool live;         /* not at the end */
	bool holds[SIDES]; /* which sides stand at the current key */
	span key;
	span values[SIDES];
} root_diff;

/* A path past the prefix is at its end. */
static void end_at_prefix(root_diff *d, path *p)
{
	if (d->prefix.size == 0 || p->depth == 0) return;
	span key = path_key(p);
	if (!span_starts(key, d->prefix) && span_compare(key, d->prefix) > 0) path_done(p);
}

/* Both paths stand at subtrees with the same number: whatever the two passed before, from here on they have the same keys. */
static void pass_equal(path *a, path *b)
{
	while (a->depth > 0 && b->depth > 0) {
		path_frame *fa = path_top(a), *fb = path_top(b);
		if (fa->n.level == 0 || fa->n.level != fb->n.level) break;
		if (node_child(&fa->n, fa->at) != node_child(&fb->n, fb->at)) break;
		path_pass(a);
		path_pass(b);
	}
}

/* Enters the subtree that begins first; of two that begin together the higher, or both. What begins first is not a leaf's entry. */
static cb_code enter_first(path *a, path *b, int order, cb_error *err)
{
	int higher = path_top(a)->n.level - path_top(b)->n.level;
	bool enter_a = order < 0 || (order == 0 && higher >= 0);
	bool enter_b = order > 0 || (order == 0 && higher <= 0);
	if (enter_a) CB_TRY(path_enter(a, err));
	return enter_b ? path_enter(b, err) : CB_OK;
}

/* The path with the smaller key, or both, stand at leaf entries. That is a difference unless both have the same entry. */
static void take(root_diff *d, int order)
{
	for (int side = OLD; side < SIDES; side++) {
		d->holds[side] = order == 0 || (order < 0) == (side == OLD);
		d->values[side] = absent;
		if (!d->holds[side]) continue;
		d->key = path_key(&d->at[side]);
		d->values[side] = path_value(&d->at[side]);
	}
	d->live = order != 0 || !span_equal(d->values[OLD], d->values[NEW]);
}

/* Finds the next key in which the roots differ, from where the paths stand. */
static cb_code root_diff_find(root_diff *d, cb_error *err)
{
	path *a = &d->at[OLD], *b = &d->at[NEW];
	for (;;) {
		d->live = false;
		pass_equal(a, b);
		end_at_prefix(d, a);
		end_at_prefix(d, b);
		if (a->depth == 0 && b->depth == 0) return CB_OK;
		if (a->depth == 0 || b->depth == 0) {
			path *rest = a->depth > 0 ? a : b;
			if (path_at_leaf(rest)) {
				take(d, rest == a ? -1 : 1);
				return CB_OK;
			}
			CB_TRY(path_enter(rest, err));
			continue;
		}
		bool leaf_a = path_at_leaf(a), leaf_b = path_at_leaf(b);
		int order = span_compare(path_key(a), path_key(b));
		if ((leaf_a && leaf_b) || (leaf_a && order < 0) || (leaf_b && order > 0)) {
			take(d, order);
			if (d->live) return CB_OK;
			path_pass(a);
			path_pass(b);
		} else {
			CB_TRY(enter_first(a, b, order, err));
		}
	}
}

static cb_code root_diff_next(root_diff *d, cb_error *err)
{
	for (int side = OLD; side < SIDES; side++) {
		if (d->holds[side]) path_pass(&d->at[side]);
	}
	return root_diff_find(d, err);
}

static cb_code root_diff_start(root_diff *d, const tree_view *old, const tree_view *new, span prefix, cb_error *err)
{
	d->prefix = prefix;
	d->live = false;
	if (old->root == new->root) return CB_OK;
	if (prefix.size == 0) {
		CB_TRY(path_start(&d->at[OLD], old->root, err));
		CB_TRY(path_start(&d->at[NEW], new->root, err));
	} else {
		CB_TRY(path_seek(&d->at[OLD], old->root, prefix, err));
		CB_TRY(path_seek(&d->at[NEW], new->root, prefix, err));
	}
	return root_diff_find(d, err);
}

/* ---- the views ---- */

enum { MAPS = 2 };

/* Keys about which the two views' maps at one place may differ. */
typedef struct map_stream {
	pmap_diff at;
	bool live;
	span key;
} map_stream;

typedef struct differ {
	const tree_view *views[SIDES];
	span prefix;
	root_diff roots;
	map_stream maps[MAPS]; /* those of the views that can make a difference */
	int map_count;
	tree_value looked_up;    /* what both roots have for it, if they agree */
	tree_value rooms[SIDES]; /* of values that a veil shows otherwise */
	/* the current difference: */
	bool live;
	span key, values[SIDES];
} differ;

static void differ_done(differ *d)
{
	path_done(&d->roots.at[OLD]);
	path_done(&d->roots.at[NEW]);
}

static void map_add(differ *d, const pmap *a, const pmap *b)
{
	static const pmap none = {NULL};
	map_stream *s = &d->maps[d->map_count++];
	pmap_diff_start(&s->at, a ? a : &none, b ? b : &none, d->prefix);
	s->live = pmap_diff_next(&s->at, &s->key);
}

/* What both views have at the same place hides the same keys behind the same values: it makes no difference. */
static void maps_start(differ *d)
{
	const tree_view *a = d->views[OLD], *b = d->views[NEW];
	d->map_count = 0;
	map_add(d, a->delta, b->delta);
	map_add(d, a->overlay, b->overlay);
}

/* The smallest key of all streams. */
static bool next_candidate(const differ *d, span *out)
{
	bool found = d->roots.live;
	if (found) *out = d->roots.key;
	for (int i = 0; i < d->map_count; i++) {
		const map_stream *s = &d->maps[i];
		if (s->live && (!found || span_compare(s->key, *out) < 0)) {
			*out = s->key;
			found = true;
		}
	}
	return found;
}

/* Passes the candidate in every stream that stands at it. The maps go first: the candidate may be lent by the roots' path. */
static cb_code pass_candidate(differ *d, span key, cb_error *err)
{
	bool roots = d->roots.live && span_equal(d->roots.key, key);
	for (int i = 0; i < d->map_count; i++) {
		map_stream *s = &d->maps[i];
		if (!s->live || !span_equal(s->key, key)) continue;
		s->live = pmap_diff_next(&s->at, &s->key);
	}
	return roots ? root_diff_next(&d->roots, err) : CB_OK;
}

/* What a view's maps say; true: they say something. */
static bool maps_value(const tree_view *v, span key, span *out)
{
	pmap_found found = v->delta ? pmap_get(v->delta, key, out) : PMAP_ABSENT;
	if (found == PMAP_ABSENT && v->overlay) found = pmap_get(v->overlay, key, out);
	if (found == PMAP_TOMBSTONE) *out = absent;
	return found != PMAP_ABSENT;
}

/* Both views' values of a candidate. */
static cb_code evaluate(differ *d, span key, cb_error *err)
{
	bool from_map[SIDES];
	for (int side = OLD; side < SIDES; side++) from_map[side] = maps_value(d->views[side], key, &d->values[side]);
	if (from_map[OLD] && from_map[NEW]) return CB_OK;

	bool differs = d->roots.live && span_equal(d->roots.key, key);
	span agreed = absent;
	if (!differs) {
		const tree_view root = {d->views[OLD]->nodes, d->views[OLD]->root, NULL, NULL};
		cb_code code = tree_get(&root, key, &d->looked_up, err);
		if (code == CB_OK) agreed = span_make(d->looked_up.bytes, d->looked_up.size);
		else if (code != CB_NOTFOUND) return code;
	}
	for (int side = OLD; side < SIDES; side++) {
		if (!from_map[side]) d->values[side] = differs ? d->roots.values[side] : agreed;
	}
	return CB_OK;
}

/* What the veils leave of a candidate that differs. */
static cb_code veil(differ *d, span key, cb_error *err)
{
	for (int side = OLD; side < SIDES; side++) {
		const tree_veil *v = d->views[side]->veil;
		bool shown = true;
		if (!v || !d->values[side].bytes) continue;
		CB_TRY(v->shows(v->context, key, &d->values[side], &d->rooms[side], &shown, err));
		if (!shown) d->values[side] = absent;
	}
	return CB_OK;
}

/* Finds the first difference from the current candidates on. */
static cb_code differ_find(differ *d, cb_error *err)
{
	d->live = false;
	span key;
	while (next_candidate(d, &key)) {
		CB_TRY(evaluate(d, key, err));
		if (!same_value(d->values[OLD], d->values[NEW])) CB_TRY(veil(d, key, err));
		if (!same_value(d->values[OLD], d->values[NEW])) {
			d->key = key;
			d->live = true;
			return CB_OK;
		}
		CB_TRY(pass_candidate(d, key, err));
	}
	return CB_OK;
}

static cb_code differ_next(differ *d, cb_error *err)
{
	CB_TRY(cancel_check(err));
	CB_TRY(pass_candidate(d, d->key, err));
	return differ_find(d, err);
}

static void differ_init(differ *d, const tree_view *old, const tree_view *new, span prefix)
{
	d->views[OLD] = old;
	d->views[NEW] = new;
	d->prefix = prefix;
	d->live = false;
	path_init(&d->roots.at[OLD], old->nodes);
	path_init(&d->roots.at[NEW], new->nodes);
}

static cb_code differ_start(differ *d, cb_error *err)
{
	CB_TRY(root_diff_start(&d->roots, d->views[OLD], d->views[NEW], d->prefix, err));
	maps_start(d);
	return differ_find(d, err);
}

cb_code tree_diff_prefix(const tree_view *a, const tree_view *b, span prefix, tree_diff_visit visit, void *context, cb_error *err)
{
	ATTR_CLEANUP(differ_done) differ d;
	differ_init(&d, a, b, prefix);
	cb_code code = differ_start(&d, err);
	while (code == CB_OK && d.live) {
		code = visit(context, d.key, d.values[OLD], d.values[NEW], err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code == CB_OK) code = differ_next(&d, err);
	}
	return code;
}

cb_code tree_diff(const tree_view *a, const tree_view *b, tree_diff_visit visit, void *context, cb_error *err)
{
	return tree_diff_prefix(a, b, absent, visit, context, err);
}
