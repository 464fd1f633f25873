/*
 * graft.c: a box built from outside: its hidden rows, its states, its publication.
 *
 * The state so far is a tree and an overlay, as everywhere. A step of many keys never stands in memory whole: it is spilled into a tree in
 * parts, and the difference of the trees around it is its list of changes, as for any large step.
 */
#include "box/graft.h"

#include "base/clock.h"
#include "base/entry.h"
#include "box/audit.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	KEYFRAME_WEIGHT = 256,  /* as in txn.c */
	LARGE_STEP_KEYS = 4096, /* as in txn.c */
	FIELD_IN_ROW_BYTES = 1000,
	HOLD_NS = 4000000, /* of the writer lock: others wait about so long */
};

#define CHANGES_MAX_BYTES ((size_t)LARGE_STEP_KEYS * (TREE_KEY_MAX + 2 * TREE_VALUE_MAX + 32))

/* ---- life ---- */

static cb_code node_get(void *context, uint64_t id, blob **out, cb_error *err)
{
	const graft *g = context;
	return store_node_get(g->cs->s, id, out, err);
}

static cb_code node_put(void *context, span bytes, uint64_t *out_id, cb_error *err)
{
	graft *g = context;
	CB_TRY(store_node_put(g->cs->s, bytes, out_id, err));
	return graft_breathe(g, err);
}

cb_code graft_open(graft *g, cb_store *cs, cb_error *err)
{
	*g = (graft){.cs = cs, .era = entry_era(), .nodes = {node_get, node_put, g}, .touches = BUF_INIT(SIZE_MAX)};
	return store_owner_begin(cs->s, &g->owner, err);
}

static cb_code collect_checkpoint(void *context, const store_checkpoint *c, cb_error *err)
{
	return buf_append(context, c, sizeof(*c), err);
}

static cb_code graft_remove(graft *g, cb_error *err)
{
	store *s = g->cs->s;
	AUTO_BUF buf names = BUF_INIT(SIZE_MAX);
	uint64_t deleted;
	CB_TRY(store_checkpoint_list(s, g->row.id, collect_checkpoint, &names, err));
	const store_checkpoint *all = (const store_checkpoint *)(const void *)names.bytes;
	for (size_t i = 0; i < names.size / sizeof(store_checkpoint); i++)
		CB_TRY(store_checkpoint_delete(s, g->row.id, all[i].name, err));
	CB_TRY(store_step_delete(s, g->row.id, 0, INT64_MAX, &deleted, err));
	return store_box_remove(s, g->row.id, err);
}

/* What cannot be removed now stays hidden, without a living owner: the next gc takes it. */
void graft_close(graft *g)
{
	if (!g->cs) return;
	pmap_done(&g->overlay);
	pmap_done(&g->delta);
	buf_done(&g->touches);
	store *s = g->cs->s;
	bool own = g->era == entry_era();
	if (own && g->stored && !g->published && store_write_begin_as(s, STORE_FREES, NULL) == CB_OK) {
		if (graft_remove(g, NULL) == CB_OK) (void)store_write_commit(s, false, NULL);
		else store_write_abort(s);
	}
	if (own) store_owner_end(s, g->owner);
	*g = (graft){0};
}

static cb_code name_taken(const char *name, cb_error *err)
{
	return cb_err_set(err, CB_EXISTS, "there is a box '%s' already", name);
}

cb_code graft_begin(graft *g, const char *name, int64_t created_ns, cb_error *err)
{
	store *s = g->cs->s;
	store_box row = {.created_ns = created_ns, .deleted = true}, other;
	CB_TRY(box_name_check(name, false, err));
	cb_code code = store_box_find(s, name, &other, NULL);
	if (code == CB_OK) return name_taken(name, err);
	if (code != CB_NOTFOUND) return store_box_find(s, name, &other, err);
	memcpy(row.name, name, strlen(name) + 1);
	CB_TRY(store_take(s, STORE_NEXT_BOX, 1, &row.id, err));
	CB_TRY(store_take(s, STORE_NEXT_STATE, 1, &row.head.state, err));
	row.head.root_box = row.id;
	CB_TRY(store_box_insert(s, &row, err));
	char owner[32];
	(void)snprintf(owner, sizeof(owner), "%llu", (unsigned long long)g->owner);
	CB_TRY(store_setting_set(s, row.id, GRAFT_OWNER_SETTING, owner, err));
	g->row = row;
	return CB_OK;
}

cb_code graft_stage_of(cb_store *cs, const store_box *row, graft_stage *out, cb_error *err)
{
	AUTO_FREE char *owner = NULL;
	cb_error why;
	cb_code code = store_setting_get(cs->s, row->id, GRAFT_OWNER_SETTING, &owner, &why);
	*out = GRAFT_NONE;
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK && err) *err = why;
	if (code != CB_OK) return code;
	*out = store_owner_is_living(cs->s, strtoull(owner, NULL, 10)) ? GRAFT_LIVING : GRAFT_DEAD;
	return CB_OK;
}

static cb_code settle(graft *g, cb_error *err)
{
	if (!g->has_step) return CB_OK;
	store_head head = {g->seq, g->state, 0, g->row.id, g->root_seq, g->weight};
	uint64_t root_seq = 0;
	CB_TRY(store_step_root_before(g->cs->s, g->row.id, g->seq, &root_seq, &head.root, err));
	head.root_seq = root_seq;
	return store_head_set(g->cs->s, g->row.id, &head, err);
}

/* ---- the writer lock ---- */

cb_code graft_hold(graft *g, cb_error *err)
{
	CB_TRY(store_write_begin(g->cs->s, err));
	g->held_since_ns = clock_monotonic_ns();
	return CB_OK;
}

cb_code graft_let_go(graft *g, cb_error *err)
{
	CB_TRY(settle(g, err));
	CB_TRY(store_write_commit(g->cs->s, false, err));
	g->stored = g->row.id != 0;
	g->held_since_ns = 0;
	return CB_OK;
}

void graft_abort(graft *g)
{
	if (store_in_write(g->cs->s)) store_write_abort(g->cs->s);
}

cb_code graft_breathe(graft *g, cb_error *err)
{
	if (!g->held_since_ns || clock_monotonic_ns() - g->held_since_ns < HOLD_NS) return CB_OK;
	CB_TRY(graft_let_go(g, err));
	return graft_hold(g, err);
}

cb_code graft_publish(graft *g, const store_box *row, cb_error *err)
{
	store *s = g->cs->s;
	if (!g->has_step || g->in_step) return cb_err_set(err, CB_INTERNAL, "the box to publish is not whole");
	store_box whole = g->row;
	whole.deleted = false;
	whole.quota_bytes = row->quota_bytes;
	whole.quota_files = row->quota_files;
	whole.quota_file_bytes = row->quota_file_bytes;
	whole.keep_steps = row->keep_steps;
	whole.keep_ns = row->keep_ns;
	CB_TRY(store_setting_set(s, g->row.id, GRAFT_OWNER_SETTING, NULL, err));
	cb_code code = store_box_update(s, &whole, err);
	if (code == CB_EXISTS) return name_taken(whole.name, err);
	if (code != CB_OK) return code;
	return audit_did(g->cs, &whole, &(audit_note){box_store_who(g->cs), "unpack", ""}, err);
}

/* ---- a step's keys ---- */

static cb_code bad_history(cb_error *err, const char *what)
{
	return cb_err_set(err, CB_CORRUPT, "the history to take in is damaged: %s", what);
}

cb_code graft_step_begin(graft *g, uint64_t seq, cb_error *err)
{
	if (g->in_step) return bad_history(err, "a step has no end");
	if (!g->has_step && seq != 0) return bad_history(err, "it does not begin with step 0");
	if (g->has_step && (seq <= g->seq || seq >= UINT32_MAX)) return bad_history(err, "steps are out of order");
	g->gap = g->has_step && seq != g->seq + 1;
	g->step_seq = seq;
	g->before_state = 0;
	g->cut_weight = 0;
	g->spilled = false;
	if (g->gap) CB_TRY(store_take(g->cs->s, STORE_NEXT_STATE, 1, &g->before_state, err));
	CB_TRY(store_take(g->cs->s, STORE_NEXT_STATE, 1, &g->step_state, err));
	g->in_step = true;
	return CB_OK;
}

static cb_code spill_delta(graft *g, cb_error *err)
{
	if (!g->spilled) {
		CB_TRY(tree_apply(&g->nodes, g->root, &g->overlay, &g->root, err));
		pmap_done(&g->overlay);
		g->spill = g->root;
		g->spilled = true;
	}
	CB_TRY(tree_apply(&g->nodes, g->spill, &g->delta, &g->spill, err));
	pmap_done(&g->delta);
	return CB_OK;
}

cb_code graft_put(graft *g, span key_bytes, span new_value, cb_error *err)
{
	if (!g->in_step) return bad_history(err, "keys outside a step");
	if (new_value.bytes) CB_TRY(pmap_put(&g->delta, key_bytes, new_value, err));
	else CB_TRY(pmap_put_tombstone(&g->delta, key_bytes, err));
	return pmap_count(&g->delta) > LARGE_STEP_KEYS ? spill_delta(g, err) : CB_OK;
}

typedef struct checking {
	graft *g;
	graft_check *check;
	bool touches; /* are collected */
} checking;

static cb_code check_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	checking *c = context;
	CB_TRY(graft_check_key(c->check, key_bytes, old_value, new_value, err));
	if (c->touches) CB_TRY(step_touch_add(&c->g->touches, key_bytes, old_value, new_value, err));
	return graft_breathe(c->g, err);
}

/* Both trees are written: are the keys in which they differ sound? Many are looked at without the lock. */
static cb_code check_trees(graft *g, uint64_t before, uint64_t after, bool large, bool touches, uint64_t *out_keys, cb_error *err)
{
	checking c = {.g = g, .touches = touches};
	tree_view a = {&g->cs->nodes, before, NULL, NULL}, b = {&g->cs->nodes, after, NULL, NULL};
	if (large) CB_TRY(graft_let_go(g, err));
	CB_TRY(graft_check_create(&c.check, err));
	graft_check_begin(c.check, &a, &b);
	cb_code code = tree_diff(&a, &b, check_key, &c, err);
	if (code == CB_OK) code = graft_check_end(c.check, out_keys, err);
	graft_check_destroy(c.check);
	return code == CB_OK && large ? graft_hold(g, err) : code;
}

cb_code graft_cut(graft *g, cb_error *err)
{
	if (!g->gap || g->cut_weight) return bad_history(err, "a gap where none may be");
	bool large = g->spilled;
	CB_TRY(spill_delta(g, err));
	CB_TRY(check_trees(g, g->root, g->spill, large, false, &g->cut_weight, err));
	g->root = g->spill;
	g->spilled = false;
	return CB_OK;
}

/* ---- the end of a step ---- */

typedef struct listing {
	graft *g;
	const tree_view *before;
	buf changes;
	pmap *overlay;
	key previous;
	uint64_t count;
} listing;

/* Adds one key to the list of changes and to the overlay, unless it ends as it began. */
static cb_code list_key(listing *l, span key_bytes, span value, bool tombstone, cb_error *err)
{
	tree_value now;
	cb_code found = tree_get(l->before, key_bytes, &now, err);
	if (found != CB_OK && found != CB_NOTFOUND) return found;
	span old_value = found == CB_OK ? span_make(now.bytes, now.size) : (span){0};
	span new_value = tombstone ? (span){0} : value;
	if (!old_value.bytes && !new_value.bytes) return CB_OK;
	if (old_value.bytes && new_value.bytes && span_equal(old_value, new_value)) return CB_OK;
	CB_TRY(tree_changes_append(&l->changes, key_span(&l->previous), key_bytes, old_value, new_value, err));
	l->previous.size = key_bytes.size;
	memcpy(l->previous.bytes, key_bytes.bytes, key_bytes.size);
	l->count++;
	CB_TRY(graft_breathe(l->g, err));
	return tombstone ? pmap_put_tombstone(l->overlay, key_bytes, err) : pmap_put(l->overlay, key_bytes, value, err);
}

static cb_code list_delta(listing *l, cb_error *err)
{
	pmap_cursor c;
	span key_bytes, value;
	bool tombstone;
	for (pmap_seek(&c, &l->g->delta, (span){0}); pmap_cursor_get(&c, &key_bytes, &value, &tombstone); pmap_cursor_next(&c))
		CB_TRY(list_key(l, key_bytes, value, tombstone, err));
	return CB_OK;
}

static cb_code check_list(graft *g, const tree_view *before, const tree_view *after, span changes, cb_error *err)
{
	checking c = {.g = g};
	uint64_t keys;
	CB_TRY(graft_check_create(&c.check, err));
	graft_check_begin(c.check, before, after);
	cb_code code = tree_changes_decode(changes, check_key, &c, err);
	if (code == CB_OK) code = graft_check_end(c.check, &keys, err);
	graft_check_destroy(c.check);
	return code;
}

/* A step with a list of changes. */
static cb_code end_small(graft *g, buf *changes, uint64_t *out_weight, cb_error *err)
{
	pmap overlay = pmap_ref(&g->overlay);
	tree_view before = {&g->cs->nodes, g->root, &overlay, NULL};
	listing l = {.g = g, .before = &before, .changes = BUF_INIT(CHANGES_MAX_BYTES), .overlay = &g->overlay};
	cb_code code = list_delta(&l, err);
	tree_view after = {&g->cs->nodes, g->root, &g->overlay, NULL};
	if (code == CB_OK) code = check_list(g, &before, &after, buf_span(&l.changes), err);
	*changes = l.changes;
	*out_weight = l.count;
	pmap_done(&overlay);
	pmap_done(&g->delta);
	return code;
}

static cb_code keep_root(graft *g, store_step *step, cb_error *err)
{
	CB_TRY(tree_apply(&g->nodes, g->root, &g->overlay, &g->root, err));
	pmap_done(&g->overlay);
	step->has_root = true;
	step->root = g->root;
	return CB_OK;
}

/* A step whose list of changes is the difference between two trees: its predecessor keeps one too. Step 0 is a tree without a list. */
static cb_code end_large(graft *g, store_step *step, cb_error *err)
{
	/* What a step that follows a gap changed cannot be told of it. */
	CB_TRY(spill_delta(g, err));
	CB_TRY(check_trees(g, g->root, g->spill, true, g->has_step && !g->gap, &step->weight, err));
	if (g->has_step && !g->gap && step->weight) CB_TRY(store_step_root_set(g->cs->s, g->row.id, g->seq, true, g->root, err));
	if (!g->has_step) step->weight = 0;
	g->root = g->spill;
	step->has_root = true;
	step->root = g->root;
	return CB_OK;
}

static cb_code field_put(graft *g, span *field, uint64_t *content, cb_error *err)
{
	if (field->size <= FIELD_IN_ROW_BYTES) return CB_OK;
	CB_TRY(store_content_put(g->cs->s, *field, content, err));
	*field = (span){0};
	return CB_OK;
}

/* Up to a step with a root. A large one brings its own row. */
static cb_code index_steps(graft *g, const store_step *step, cb_error *err)
{
	bool large = step->weight && !step->has_changes;
	uint64_t to = large ? step->seq - 1 : step->seq;
	CB_TRY(settle(g, err)); /* the index asks which steps were pruned and which are yet to come */
	if (g->indexed < to) CB_TRY(step_index(g->cs, g->row.id, g->indexed + 1, to, err));
	step_touches_sort(&g->touches);
	if (large) CB_TRY(store_touch_put(g->cs->s, g->row.id, step->seq, step->seq, buf_span(&g->touches), err));
	g->touches.size = 0;
	g->indexed = step->seq;
	return CB_OK;
}

static cb_code step_write(graft *g, store_step *step, const graft_header *h, cb_error *err)
{
	bool changed = step->weight > 0 || !g->has_step;
	step->box = g->row.id;
	step->seq = g->step_seq;
	step->state = changed ? g->step_state : g->gap ? g->before_state : g->state;
	step->kind = h->kind;
	step->who = h->who;
	step->params = h->params;
	step->result = h->result;
	step->started_ns = h->started_ns;
	step->ended_ns = h->ended_ns;
	step->target = h->target;
	step->other_box = h->other_box;
	/* Without another box: an undo is closed, or passed changes (undo_choice.c). That cannot be seen where steps were pruned; it is no
	 * more proved than that the step takes back its target at all, and a lie does no more than make undo choose an older step. */
	bool undoes = strcmp(h->kind, "undo") == 0 && h->target;
	bool says = undoes && (h->other_seq == h->target || h->other_seq + 1 == step->seq);
	step->other_seq = h->other_box || says ? h->other_seq : 0;
	step->gap = g->gap;
	CB_TRY(field_put(g, &step->params, &step->params_content, err));
	CB_TRY(field_put(g, &step->result, &step->result_content, err));
	CB_TRY(store_step_put(g->cs->s, step, err));
	g->weight += step->weight;
	if (step->has_root) {
		g->weight = 0;
		g->root_seq = step->seq;
	}
	g->has_step = true;
	g->seq = step->seq;
	g->state = step->state;
	g->steps++;
	g->in_step = false;
	g->spilled = false;
	return step->has_root && step->seq ? index_steps(g, step, err) : CB_OK;
}

cb_code graft_step_end(graft *g, const graft_header *h, cb_error *err)
{
	if (!g->in_step) return bad_history(err, "the end of no step");
	if (h->unknown && !g->gap) return bad_history(err, "a step without changes that follows no gap");
	store_step step = {0};
	AUTO_BUF buf changes = BUF_INIT(0);
	if (g->spilled || !g->has_step) {
		CB_TRY(end_large(g, &step, err));
	} else {
		CB_TRY(end_small(g, &changes, &step.weight, err));
		step.has_changes = step.weight > 0;
		step.changes = buf_span(&changes);
	}
	if (h->unknown) {
		if (step.weight) return bad_history(err, "changes of a step that has none");
		step.weight = g->cut_weight ? g->cut_weight : 1;
	}
	bool keyframe = g->gap || g->weight + step.weight > KEYFRAME_WEIGHT;
	if (!step.has_root && keyframe) CB_TRY(keep_root(g, &step, err));
	return step_write(g, &step, h, err);
}

cb_code graft_counters(const graft *g, counters *out, cb_error *err)
{
	tree_view v = {&g->cs->nodes, g->root, &g->overlay, NULL};
	key k = key_counters();
	tree_value value;
	CB_TRY(tree_get(&v, key_span(&k), &value, err));
	return counters_decode(span_make(value.bytes, value.size), out, err);
}

/* ---- names of parents that are elsewhere ---- */

void box_live_name(cb_store *cs, uint64_t asking, uint64_t box, char out[CB_NAME_MAX + 1])
{
	store_box row;
	out[0] = 0;
	if (store_box_get(cs->s, box, &row, NULL) != CB_OK || (row.deleted && box != asking)) return;
	memcpy(out, row.name, sizeof(row.name));
}

bool step_other_is_foreign(uint64_t other_box)
{
	return other_box & FOREIGN_BOX && other_box != FOREIGN_BOX;
}

void step_other_name(cb_store *cs, uint64_t box, uint64_t other_box, char out[CB_NAME_MAX + 1])
{
	out[0] = 0;
	if (!other_box) return;
	if (!step_other_is_foreign(other_box)) {
		box_live_name(cs, box, other_box == FOREIGN_BOX ? box : other_box, out);
		return;
	}
	AUTO_FREE char *name = NULL;
	char setting[64];
	(void)snprintf(setting, sizeof(setting), FOREIGN_PREFIX "%llu", (unsigned long long)(other_box & ~FOREIGN_BOX));
	if (store_setting_get(cs->s, box, setting, &name, NULL) != CB_OK || strlen(name) > CB_NAME_MAX) return;
	memcpy(out, name, strlen(name) + 1);
}
