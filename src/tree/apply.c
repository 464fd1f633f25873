/*
 * apply.c: a map's next root: the old nodes merged with a sorted run of changes, in one pass from left to right.
 *
 * Per level there is one run of entries waiting to become nodes. A subtree without changes goes into the run above it as it is, by its
 * number; a node on a changed path is opened: its entries, or its children in turn, go into the runs. Where an opened node ends, the
 * run of its level becomes nodes again (so old boundaries stay), unless it weighs too little: then it stays, and what comes next,
 * changed or not, is opened and joins it. Only at the right edge nothing comes next: there the last node on the left is taken back.
 *
 * Why every node but the root ends up between its bounds (E: the largest entry; all by weight, which is never less than size):
 *   - a node cut off in mid-run is filled to NODE_FILL: it weighs more than NODE_FILL - E;
 *   - a run that ends is one node if its size is at most TREE_NODE_MAX; else it weighs more than that and is cut in two: the right
 *     part gets at least TREE_NODE_MIN and at most TREE_NODE_MIN + E, or less than half; the left part keeps
 *     TREE_NODE_MAX - TREE_NODE_MIN - E or more than half. node.h asserts that this is enough.
 * A node opened and not changed is encoded to the same bytes and keeps its number; it cannot be cut, because two parts that do not
 * fit NODE_FILL each do not come from one node.
 *
 * Memory: at most about two nodes' entries per level.
 */
#include <assert.h>
#include <inttypes.h>

#include "tree/run.h"

/* How full a node is cut off in a long run of entries: some room, so that the next small change does not split it at once. */
enum { NODE_FILL = TREE_NODE_MAX - TREE_NODE_MAX / 20 };

typedef struct level_state {
	run run;
	size_t cut;    /* where the run's second node begins; 0: it has one so far. Each of the two fits NODE_FILL */
	bool tail_new; /* the run's last entry was not in the old map */
	blob *old;     /* the node opened last at this level */
	uint64_t old_id;
	size_t sep_size; /* level 0: what the first entry's node will be called in its parent */
	uint8_t sep[TREE_KEY_MAX];
} level_state;

typedef struct merge {
	const tree_nodes *nodes;
	pmap_cursor changes;
	bool begun; /* a node was added to its parents' run: what comes now is not on the left edge */
	level_state levels[TREE_DEPTH_MAX];
} merge;

static void merge_init(merge *m, const tree_nodes *nodes, const pmap *changes)
{
	m->nodes = nodes;
	m->begun = false;
	pmap_seek(&m->changes, changes, span_make(NULL, 0));
	for (int i = 0; i < TREE_DEPTH_MAX; i++) {
		level_state *l = &m->levels[i];
		run_init(&l->run, i);
		l->cut = 0;
		l->tail_new = false;
		l->old = NULL;
		l->sep_size = 0;
	}
}

static void merge_done(merge *m)
{
	for (int i = 0; i < TREE_DEPTH_MAX; i++) {
		run_done(&m->levels[i].run);
		blob_unref(m->levels[i].old);
	}
}

static void set_sep(level_state *l, span sep)
{
	assert(sep.size <= TREE_KEY_MAX);
	if (sep.size) memcpy(l->sep, sep.bytes, sep.size);
	l->sep_size = sep.size;
}

static void set_old(level_state *l, blob *b, uint64_t id)
{
	blob_unref(l->old);
	l->old = blob_ref(b);
	l->old_id = id;
}

static bool is_light(const run *r)
{
	return r->count > 0 && run_weight(r, 0, r->count) < TREE_NODE_MIN;
}

/* ---- from runs to nodes ---- */

static cb_code put_front(merge *m, int level, size_t n, cb_error *err);

/* Where a node that begins at the run's cut and is filled to NODE_FILL ends; the rest of the run does not fit it. */
static size_t fill_from_cut(const level_state *l)
{
	size_t fits = l->cut + 1, too_many = l->run.count;
	while (fits + 1 < too_many) {
		size_t middle = (fits + too_many) / 2;
		if (run_size(&l->run, l->cut, middle) <= NODE_FILL) fits = middle;
		else too_many = middle;
	}
	return fits;
}

/* After entries were added: the run's first node is written when a third one begins. */
static cb_code trim(merge *m, int level, cb_error *err)
{
	level_state *l = &m->levels[level];
	while (run_size(&l->run, l->cut, l->run.count) > NODE_FILL) {
		size_t end = fill_from_cut(l);
		if (l->cut > 0) {
			end -= l->cut;
			CB_TRY(put_front(m, level, l->cut, err));
		}
		l->cut = end;
	}
	return CB_OK;
}

static cb_code add(merge *m, int level, span key, span value, bool is_new, cb_error *err)
{
	level_state *l = &m->levels[level];
	CB_TRY(run_push(&l->run, key, value, err));
	l->tail_new = is_new;
	return trim(m, level, err);
}

/* Adds entries [from, to) of an old node as they are. */
static cb_code add_entries(merge *m, const node *n, size_t from, size_t to, cb_error *err)
{
	if (from == to) return CB_OK;
	level_state *l = &m->levels[n->level];
	CB_TRY(run_push_entries(&l->run, n, from, to, err));
	l->tail_new = false;
	return trim(m, n->level, err);
}

/* Adds a node of `level` to its parents' run. */
static cb_code add_child(merge *m, int level, span sep, uint64_t id, bool is_new, cb_error *err)
{
	if (level + 1 >= TREE_DEPTH_MAX) return cb_err_set(err, CB_LIMIT, "the map is too deep");
	if (!m->begun) sep.size = 0; /* what may have stood before it on the left edge is gone */
	m->begun = true;
	uint8_t child[NODE_CHILD];
	put_le64(child, id);
	return add(m, level + 1, sep, span_make(child, sizeof(child)), is_new, err);
}

/* The number of the node of a run's first n entries: the old one if it has the same bytes. */
static cb_code write_node(merge *m, int level, size_t n, uint64_t *out_id, bool *out_new, cb_error *err)
{
	level_state *l = &m->levels[level];
	uint8_t bytes[TREE_NODE_MAX];
	size_t size = run_encode(&l->run, n, bytes);
	*out_new = !l->old || !span_equal(span_make(l->old->bytes, l->old->size), span_make(bytes, size));
	if (!*out_new) {
		*out_id = l->old_id;
		return CB_OK;
	}
	return m->nodes->put(m->nodes->context, span_make(bytes, size), out_id, err);
}

/* A leaf in mid-run is called by the shortest string that tells it from the leaf before it. */
static void name_next_leaf(level_state *l, size_t n)
{
	if (n == l->run.count) return;
	span last = run_key(&l->run, n - 1), first = run_key(&l->run, n);
	first.size = node_common_prefix(last, first) + 1;
	set_sep(l, first);
}

/* Makes the first n entries of a run a node. */
static cb_code put_front(merge *m, int level, size_t n, cb_error *err)
{
	level_state *l = &m->levels[level];
	uint64_t id;
	bool is_new;
	assert(run_weight(&l->run, 0, n) >= TREE_NODE_MIN);
	CB_TRY(write_node(m, level, n, &id, &is_new, err));
	CB_TRY(add_child(m, level, level > 0 ? run_key(&l->run, 0) : span_make(l->sep, l->sep_size), id, is_new, err));
	if (level == 0) name_next_leaf(l, n);
	run_drop_front(&l->run, n);
	l->cut = 0;
	return CB_OK;
}

/*
 * Where to cut a run that is two nodes: it is cut where the first was full; entries move to the second one until that weighs enough,
 * and on until both weigh the same. Not so when the run grew at its end: then it will again, and the first is left full.
 */
static size_t cut_in_two(const level_state *l)
{
	const run *r = &l->run;
	size_t cut = l->cut;
	assert(cut > 0 && cut < r->count);
	for (; cut > 1; cut--) {
		size_t left = run_weight(r, 0, cut - 1), right = run_weight(r, cut - 1, r->count);
		if (run_weight(r, cut, r->count) < TREE_NODE_MIN) continue;
		/* A weight within the maximum is a size within it, whatever prefix the right part loses. */
		if (l->tail_new || right > left || right > TREE_NODE_MAX) break;
	}
	assert(run_weight(r, 0, cut) >= TREE_NODE_MIN && run_weight(r, cut, r->count) >= TREE_NODE_MIN);
	return cut;
}

/* Makes all of a run nodes. */
static cb_code close_run(merge *m, int level, cb_error *err)
{
	level_state *l = &m->levels[level];
	if (run_size(&l->run, 0, l->run.count) > TREE_NODE_MAX) CB_TRY(put_front(m, level, cut_in_two(l), err));
	return put_front(m, level, l->run.count, err);
}

/* ---- from old nodes and changes to runs ---- */

/* Are there changes below the end of a range? */
static bool has_changes(const merge *m, const span *upper)
{
	span key, value;
	bool tombstone;
	if (!pmap_cursor_get(&m->changes, &key, &value, &tombstone)) return false;
	return !upper || span_compare(key, *upper) < 0;
}

/* No run up to this level waits for entries: what comes next may stand beside it unopened. */
static bool is_quiet(const merge *m, int level)
{
	for (int i = 0; i <= level; i++) {
		if (m->levels[i].run.count > 0) return false;
	}
	return true;
}

/* A leaf's entries merged with the changes below the end of its range. */
static cb_code merge_leaf(merge *m, const node *n, const span *upper, cb_error *err)
{
	size_t i = 0;
	for (; has_changes(m, upper); pmap_cursor_next(&m->changes)) {
		span key, value;
		bool tombstone, present;
		(void)pmap_cursor_get(&m->changes, &key, &value, &tombstone);
		if (key.size > TREE_KEY_MAX || value.size > TREE_VALUE_MAX) {
			return cb_err_set(err, CB_TOOBIG, "an entry with a key of %zu and a value of %zu bytes", key.size,
			                  value.size);
		}
		size_t to = node_find(n, key, &present);
		CB_TRY(add_entries(m, n, i, to, err));
		if (!tombstone) CB_TRY(add(m, 0, key, value, !present, err));
		i = to + (present ? 1 : 0);
	}
	return add_entries(m, n, i, n->count, err);
}

static cb_code merge_subtree(merge *m, int level, span sep, const span *upper, uint64_t id, cb_error *err);

/* Children [from, to) have no changes, and no run below waits for entries. */
static cb_code add_children(merge *m, const node *n, size_t from, size_t to, cb_error *err)
{
	uint8_t room[TREE_KEY_MAX];
	if (from < to && !m->begun) {
		CB_TRY(add_child(m, n->level - 1, node_key(n, from, room), node_child(n, from), false, err));
		from++;
	}
	return add_entries(m, n, from, to, err);
}

static cb_code merge_child(merge *m, const node *n, size_t i, const span *upper, cb_error *err)
{
	uint8_t room[2][TREE_KEY_MAX];
	bool last = i + 1 == n->count;
	span sep = node_key(n, i, room[0]), next = last ? sep : node_key(n, i + 1, room[1]);
	return merge_subtree(m, n->level - 1, sep, last ? upper : &next, node_child(n, i), err);
}

/* Opens the children that have changes, and those that must join what the ones before have left. */
static cb_code merge_inner(merge *m, const node *n, const span *upper, cb_error *err)
{
	for (size_t i = 0; i < n->count; i++) {
		if (is_quiet(m, n->level - 1)) {
			span key, value;
			bool tombstone;
			size_t changed = n->count;
			if (has_changes(m, upper)) {
				(void)pmap_cursor_get(&m->changes, &key, &value, &tombstone);
				changed = node_find_child(n, key);
			}
			assert(changed >= i); /* changes before this child went into those before it */
			CB_TRY(add_children(m, n, i, changed, err));
			if (changed == n->count) break;
			i = changed;
		}
		CB_TRY(merge_child(m, n, i, upper, err));
	}
	return CB_OK;
}

/* An opened node: its entries go into the runs, and become nodes where it ends unless they weigh too little. */
static cb_code merge_node(merge *m, const node *n, blob *b, uint64_t id, span sep, const span *upper, cb_error *err)
{
	level_state *l = &m->levels[n->level];
	set_old(l, b, id);
	if (n->level > 0) {
		CB_TRY(merge_inner(m, n, upper, err));
		if (!is_quiet(m, n->level - 1)) return CB_OK;
	} else {
		if (l->run.count == 0) set_sep(l, sep);
		CB_TRY(merge_leaf(m, n, upper, err));
	}
	return l->run.count == 0 || is_light(&l->run) ? CB_OK : close_run(m, n->level, err);
}

static cb_code merge_subtree(merge *m, int level, span sep, const span *upper, uint64_t id, cb_error *err)
{
	if (!has_changes(m, upper) && is_quiet(m, level)) return add_child(m, level, sep, id, false, err);
	NODE_AUTO_BLOB blob *b = NULL;
	node n;
	CB_TRY(node_load(m->nodes, id, level, &b, &n, err));
	if (!node_is_within(&n, sep, upper)) return cb_err_set(err, CB_CORRUPT, "node %" PRIu64 " has keys outside its range", id);
	return merge_node(m, &n, b, id, sep, upper, err);
}

static cb_code merge_root(merge *m, uint64_t root, cb_error *err)
{
	if (root == 0) {
		const node none = {.count = 0};
		return merge_leaf(m, &none, NULL, err);
	}
	NODE_AUTO_BLOB blob *b = NULL;
	node n;
	CB_TRY(node_load(m->nodes, root, -1, &b, &n, err));
	/* The root's run is closed by finish(), which knows that it is the root. */
	set_old(&m->levels[n.level], b, root);
	return n.level > 0 ? merge_inner(m, &n, NULL, err) : merge_leaf(m, &n, NULL, err);
}

/* ---- the right edge and the root ---- */

static bool is_top(const merge *m, int level)
{
	for (int i = level + 1; i < TREE_DEPTH_MAX; i++) {
		if (m->levels[i].run.count > 0) return false;
	}
	return true;
}

static cb_code take_back(merge *m, int level, bool *out_taken, cb_error *err);

/* The last node of `level` that stands in its parents' run is taken out of it again. */
static cb_code pop_child(merge *m, int level, blob **out_blob, node *out, bool *out_popped, cb_error *err)
{
	*out_popped = !is_top(m, level);
	if (!*out_popped) return CB_OK;
	level_state *above = &m->levels[level + 1];
	if (above->run.count == 0) {
		bool taken;
		CB_TRY(take_back(m, level + 1, &taken, err));
		assert(taken && above->run.count > 0);
	}
	size_t last = above->run.count - 1;
	uint64_t id = get_le64(run_value(&above->run, last).bytes);
	level_state *l = &m->levels[level];
	set_sep(l, run_key(&above->run, last));
	run_pop(&above->run);
	if (above->cut == above->run.count) above->cut = 0;

	CB_TRY(node_load(m->nodes, id, level, out_blob, out, err));
	span upper = l->run.count > 0 ? run_key(&l->run, 0) : span_make(NULL, 0);
	if (node_is_within(out, span_make(l->sep, l->sep_size), l->run.count > 0 ? &upper : NULL)) return CB_OK;
	return cb_err_set(err, CB_CORRUPT, "node %" PRIu64 " has keys outside its range", id);
}

/* Puts the entries of the node before a level's run in front of it. */
static cb_code take_back(merge *m, int level, bool *out_taken, cb_error *err)
{
	NODE_AUTO_BLOB blob *b = NULL;
	node n;
	CB_TRY(pop_child(m, level, &b, &n, out_taken, err));
	if (!*out_taken) return CB_OK;

	level_state *l = &m->levels[level];
	ATTR_CLEANUP(run_done) run rest = l->run;
	run_init(&l->run, level);
	l->cut = 0;
	CB_TRY(add_entries(m, &n, 0, n.count, err));
	for (size_t i = 0; i < rest.count; i++) CB_TRY(add(m, level, run_key(&rest, i), run_value(&rest, i), false, err));
	return CB_OK;
}

/* Closes every run from the leaves up; what the topmost holds is the root. */
static cb_code finish(merge *m, uint64_t *out_root, cb_error *err)
{
	for (int level = 0; level < TREE_DEPTH_MAX; level++) {
		const run *r = &m->levels[level].run;
		bool ignored;
		if (is_light(r)) CB_TRY(take_back(m, level, &ignored, err));
		if (!is_top(m, level)) {
			if (r->count > 0) CB_TRY(close_run(m, level, err));
		} else if (r->count == 0) {
			assert(level == 0);
			*out_root = 0;
			return CB_OK;
		} else if (level > 0 && r->count == 1) {
			*out_root = get_le64(run_value(r, 0).bytes);
			return CB_OK;
		} else if (run_size(r, 0, r->count) <= TREE_NODE_MAX) {
			return write_node(m, level, r->count, out_root, &ignored, err);
		} else {
			CB_TRY(close_run(m, level, err));
		}
	}
	return cb_err_set(err, CB_LIMIT, "the map is too deep");
}

cb_code tree_apply(const tree_nodes *nodes, uint64_t root, const pmap *changes, uint64_t *out_root, cb_error *err)
{
	if (pmap_count(changes) == 0) {
		*out_root = root;
		return CB_OK;
	}
	ATTR_CLEANUP(merge_done) merge m;
	merge_init(&m, nodes, changes);
	CB_TRY(merge_root(&m, root, err));
	return finish(&m, out_root, err);
}
