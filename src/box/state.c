/*
 * state.c: states from roots and changes.
 *
 * A step keeps its key changes; a root is kept every few dozen steps, so any state is "nearest root at or before it, plus the changes
 * since". A young fork has no root of its own: the search goes on in its origin. Invariant: walking back from any kept step one finds a
 * root before a gap, because whoever prunes a step gives a root to the one after it.
 */
#include "box/internal.h"

#include <assert.h>

enum { FORK_CHAIN_MAX = 4096 }; /* origins followed; key frames keep real chains far shorter */

state *state_ref(state *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void state_unref(state *s)
{
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
	pmap_done(&s->overlay);
	free(s);
}

static state *state_alloc(uint64_t box, uint64_t seq)
{
	state *s = mem_alloc(sizeof(*s));
	if (!s) return NULL;
	*s = (state){.box = box, .seq = seq};
	atomic_init(&s->refs, 1);
	return s;
}

state *state_furnished(const store_box *row)
{
	state *s = state_alloc(row->id, 0);
	if (!s) return NULL;
	s->id = row->head.state;
	s->root = row->head.root;
	s->root_box = row->head.root_box;
	return s;
}

state *state_fork(const state *origin, uint64_t box)
{
	state *s = state_alloc(box, 0);
	if (!s) return NULL;
	s->id = origin->id;
	s->root = origin->root;
	s->root_box = origin->root_box;
	s->root_seq = origin->root_seq;
	s->overlay = pmap_ref(&origin->overlay);
	s->weight = origin->weight + FORK_WEIGHT;
	return s;
}

static cb_code overlay_change(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	pmap *overlay = context;
	if (!new_value.bytes) return pmap_put_tombstone(overlay, key_bytes, err);
	return pmap_put(overlay, key_bytes, new_value, err);
}

typedef struct replay {
	state *s;
	uint64_t expected; /* the next seq; a hole in the row numbers means damage */
} replay;

static cb_code replay_step(void *context, const store_step *step, cb_error *err)
{
	replay *r = context;
	if (step->seq != r->expected || (!step->has_changes && step->state != r->s->id))
		return cb_err_set(err, CB_CORRUPT, "history of box %llu has a hole before step %llu: run fsck",
		                  (unsigned long long)step->box, (unsigned long long)step->seq);
	r->expected++;
	r->s->id = step->state;
	r->s->weight += step->weight;
	if (!step->has_changes) return CB_OK;
	return tree_changes_decode(step->changes, overlay_change, &r->s->overlay, err);
}

/* Applies steps (from, to] of one box to s. */
static cb_code state_replay(cb_store *cs, state *s, uint64_t box, uint64_t from, uint64_t to, cb_error *err)
{
	if (from >= to) return CB_OK;
	replay r = {s, from + 1};
	CB_TRY(store_step_walk(cs->s, box, from + 1, to, true, replay_step, &r, err));
	if (r.expected != to + 1)
		return cb_err_set(err, CB_CORRUPT, "history of box %llu ends before step %llu: run fsck", (unsigned long long)box,
		                  (unsigned long long)to);
	return CB_OK;
}

static cb_code take_state_id(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = step->state;
	return CB_OK;
}

/* Finds the root below (box, seq), following origins, then replays upwards on the way back. */
static cb_code state_build(cb_store *cs, state *s, uint64_t box, uint64_t seq, unsigned depth, cb_error *err)
{
	uint64_t root_seq = 0, root = 0;
	cb_error why;
	cb_code code = store_step_root_before(cs->s, box, seq, &root_seq, &root, cb_err_aside(&why));
	if (code == CB_OK) {
		s->root = root;
		s->root_box = box;
		s->root_seq = root_seq;
		CB_TRY(store_step_walk(cs->s, box, root_seq, root_seq, false, take_state_id, &s->id, err));
		return state_replay(cs, s, box, root_seq, seq, err);
	}
	if (code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	store_box row;
	CB_TRY(store_box_get(cs->s, box, &row, err));
	if (row.origin_box == 0 || depth >= FORK_CHAIN_MAX)
		return cb_err_set(err, CB_CORRUPT, "box '%s' has no root for step %llu: run fsck", row.name,
		                  (unsigned long long)seq);
	CB_TRY(state_build(cs, s, row.origin_box, row.origin_seq, depth + 1, err));
	s->weight += FORK_WEIGHT;
	return state_replay(cs, s, box, 0, seq, err);
}

static cb_code state_load_locked(cb_store *cs, uint64_t box, uint64_t seq, state **out, cb_error *err)
{
	uint64_t id = 0;
	cb_code code = store_step_walk(cs->s, box, seq, seq, false, take_state_id, &id, err);
	if (code == CB_OK && !id) code = CB_NOTFOUND;
	if (code == CB_NOTFOUND) return step_gone(cs, box, seq, err);
	if (code != CB_OK) return code;
	AUTO_STATE state *s = state_alloc(box, seq);
	if (!s) return cb_err_nomem(err);
	CB_TRY(state_build(cs, s, box, seq, 0, err));
	s->id = id;
	*out = TAKE_PTR(s);
	return CB_OK;
}

cb_code state_load(cb_store *cs, uint64_t box, uint64_t seq, state **out, cb_error *err)
{
	CB_TRY(store_read_begin(cs->s, err));
	cb_code code = state_load_locked(cs, box, seq, out, err);
	store_read_end(cs->s);
	return code;
}

typedef struct standing {
	uint64_t root;
	bool found;
} standing;

static cb_code check_root(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	standing *k = context;
	k->found = step->has_root && step->root == k->root;
	return CB_OK;
}

cb_code state_stands(cb_store *cs, const state *s, bool *out, cb_error *err)
{
	standing k = {s->root, false};
	CB_TRY(store_step_walk(cs->s, s->root_box, s->root_seq, s->root_seq, false, check_root, &k, err));
	*out = k.found;
	return CB_OK;
}

cb_code state_settle(cb_store *cs, state *known, state **out, cb_error *err)
{
	uint64_t id = 0;
	bool stands = false;
	CB_TRY(step_exists(cs, known->box, known->seq, &id, err));
	CB_TRY(state_stands(cs, known, &stands, err));
	if (!stands) return state_load(cs, known->box, known->seq, out, err);
	*out = state_ref(known);
	return CB_OK;
}

/* The lock is only tried: a child of fork() may have inherited it taken. */
void state_remember(cb_store *cs, state *head)
{
	state **slot = &cs->known[head->box % KNOWN_HEADS];
	if (pthread_mutex_trylock(&cs->known_lock) != 0) return;
	state *old = *slot;
	*slot = state_ref(head);
	(void)pthread_mutex_unlock(&cs->known_lock);
	state_unref(old);
}

static state *state_recall(cb_store *cs, uint64_t box)
{
	if (pthread_mutex_trylock(&cs->known_lock) != 0) return NULL;
	state *found = cs->known[box % KNOWN_HEADS];
	found = found && found->box == box ? state_ref(found) : NULL;
	(void)pthread_mutex_unlock(&cs->known_lock);
	return found;
}

void state_forget_all(cb_store *cs)
{
	for (size_t i = 0; i < KNOWN_HEADS; i++) state_unref(TAKE_PTR(cs->known[i]));
}

/* A later state of the same box, on the same root. CB_CORRUPT: there is a hole between the two. */
static cb_code state_extend(cb_store *cs, const state *known, uint64_t seq, state **out, cb_error *err)
{
	AUTO_STATE state *s = state_alloc(known->box, seq);
	if (!s) return cb_err_nomem(err);
	s->id = known->id;
	s->root = known->root;
	s->root_box = known->root_box;
	s->root_seq = known->root_seq;
	s->weight = known->weight;
	s->overlay = pmap_ref(&known->overlay);
	CB_TRY(state_replay(cs, s, known->box, known->seq, seq, err));
	*out = TAKE_PTR(s);
	return CB_OK;
}

cb_code state_load_head(cb_store *cs, uint64_t box, const store_head *head, state *known, state **out, cb_error *err)
{
	AUTO_STATE state *recalled = known ? NULL : state_recall(cs, box);
	if (!known) known = recalled;
	bool extends = known && known->box == box && known->root == head->root && known->root_box == head->root_box &&
	               known->root_seq == head->root_seq && known->seq <= head->seq;
	if (!extends) return state_load(cs, box, head->seq, out, err);
	if (known->id == head->state && known->seq == head->seq) {
		*out = state_ref(known);
		return CB_OK;
	}
	cb_error why;
	cb_code code = state_extend(cs, known, head->seq, out, cb_err_aside(&why));
	/* Steps in between may have been pruned; what is above them has a root. A hole that is none of prune's is found there too. */
	if (code == CB_CORRUPT) return state_load(cs, box, head->seq, out, err);
	return code == CB_OK ? CB_OK : cb_err_pass(err, code, &why);
}

/* From a state before it, unless a root is nearer. */
static cb_code state_load_near_locked(cb_store *cs, uint64_t box, uint64_t seq, const state *near, state **out, cb_error *err)
{
	uint64_t root_seq = 0, root = 0;
	cb_error why;
	assert(near->box == box && near->seq <= seq);
	cb_code code = store_step_root_before(cs->s, box, seq, &root_seq, &root, cb_err_aside(&why));
	if (code != CB_OK && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	if (code == CB_OK && root_seq > near->seq) return state_load_locked(cs, box, seq, out, err);
	code = state_extend(cs, near, seq, out, cb_err_aside(&why));
	if (code == CB_CORRUPT) return state_load_locked(cs, box, seq, out, err); /* which tells what is wrong */
	return code == CB_OK ? CB_OK : cb_err_pass(err, code, &why);
}

cb_code state_load_near(cb_store *cs, uint64_t box, uint64_t seq, const state *near, state **out, cb_error *err)
{
	CB_TRY(store_read_begin(cs->s, err));
	cb_code code = state_load_near_locked(cs, box, seq, near, out, err);
	store_read_end(cs->s);
	return code;
}

cb_code state_load_known(cb_store *cs, uint64_t box, uint64_t seq, state **out, cb_error *err)
{
	AUTO_STATE state *known = state_recall(cs, box);
	if (!known || known->seq > seq) return state_load(cs, box, seq, out, err);
	CB_TRY(store_read_begin(cs->s, err));
	store_head head;
	cb_code code = store_head_get(cs->s, box, &head, err);
	if (code == CB_OK && head.seq == seq) code = state_load_head(cs, box, &head, known, out, err);
	else if (code == CB_OK) code = state_load_locked(cs, box, seq, out, err);
	store_read_end(cs->s);
	return code;
}

cb_code state_keep_root(cb_store *cs, uint64_t box, uint64_t seq, cb_error *err)
{
	AUTO_STATE state *s = NULL;
	CB_TRY(state_load(cs, box, seq, &s, err));
	if (s->root_box == box && s->root_seq == seq) return CB_OK;
	uint64_t root = 0;
	CB_TRY(tree_apply(&cs->nodes, s->root, &s->overlay, &root, err));
	return store_step_root_set(cs->s, box, seq, true, root, err);
}

static cb_code take_back(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)new_value;
	pmap *overlay = context;
	return old_value.bytes ? pmap_put(overlay, key_bytes, old_value, err) : pmap_put_tombstone(overlay, key_bytes, err);
}

cb_code state_before_gap(cb_store *cs, const state *after, state **out, cb_error *err)
{
	AUTO_STATE state *s = state_alloc(after->box, after->seq);
	if (!s) return cb_err_nomem(err);
	s->root = after->root;
	s->overlay = pmap_ref(&after->overlay);
	CB_TRY(step_changes(cs, after->box, after->seq, take_back, &s->overlay, err));
	*out = TAKE_PTR(s);
	return CB_OK;
}
