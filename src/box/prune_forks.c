/*
 * prune_forks.c: deleted forks, where the steps that they came from are pruned.
 *
 * Fork points are kept for living boxes, for who has a deleted one open, and where merges may need them (past_keep.c). Other
 * deleted forks part with their origin, in the transaction that takes the step. One that was merged is kept until the merge can no
 * longer be undone; if it also kept its fork point, which is the merge of the fork before it, a box that is worked on by "fork, write,
 * merge, delete" would keep every step. Where the merge goes too nothing of the fork is needed, and its steps go at once: a root for each
 * would take more room than the prune frees.
 */
#include "box/graft.h"
#include "box/history.h"
#include "box/past.h"

#include <stdlib.h>

cb_code head_settle(cb_store *cs, uint64_t box, cb_error *err)
{
	AUTO_STATE state *s = NULL;
	store_head head;
	CB_TRY(store_head_get(cs->s, box, &head, err));
	CB_TRY(state_load(cs, box, head.seq, &s, err));
	store_head settled = {head.seq, head.state, s->root, s->root_box, s->root_seq, s->weight};
	return store_head_set(cs->s, box, &settled, err);
}

static cb_code origin_clear(cb_store *cs, const store_box *fork, cb_error *err)
{
	store_box alone = *fork;
	alone.origin_box = alone.origin_seq = 0;
	return store_box_update(cs->s, &alone, err);
}

cb_code fork_part(cb_store *cs, const store_box *fork, cb_error *err)
{
	uint64_t state_id;
	cb_error why;
	/* Stale: of a deleted fork, of which gc has left steps that have roots. */
	cb_code code = step_exists(cs, fork->id, 0, &state_id, cb_err_aside(&why));
	if (code == CB_OK) CB_TRY(state_keep_root(cs, fork->id, 0, err));
	else if (code != CB_STALE && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	CB_TRY(origin_clear(cs, fork, err));
	return fork->deleted ? CB_OK : head_settle(cs, fork->id, err);
}

/* What is needed of a deleted fork: a fork point that merges need stays by itself. */
typedef enum fork_need { NEEDS_NOTHING, NEEDS_STEPS, NEEDS_ORIGIN } fork_need;

/* A box that is being built is as one that somebody has open. */
static cb_code need_of(cb_store *cs, const past_edges *edges, const store_box *fork, fork_need *out, cb_error *err)
{
	AUTO_BUF buf used = BUF_INIT(SIZE_MAX);
	graft_stage stage = GRAFT_NONE;
	bool whole = false;
	*out = NEEDS_ORIGIN;
	CB_TRY(graft_stage_of(cs, fork, &stage, err));
	if (stage == GRAFT_LIVING) return CB_OK;
	CB_TRY(kept_keepers(cs, fork->id, &used, &whole, err));
	if (!whole && !used.size) *out = past_is_needed(edges, fork->id) ? NEEDS_STEPS : NEEDS_NOTHING;
	return CB_OK;
}

/* One of which nothing is needed, as nothing is of its forks; its row stays for gc. *out false: something is. */
static cb_code fork_empty(cb_store *cs, const past_edges *edges, const store_box *fork, unsigned depth, bool *out, cb_error *err)
{
	enum { DEPTH_MAX = 8 };
	AUTO_BUF buf forks = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_forks(cs->s, fork->id, store_box_collect, &forks, err));
	const store_box *all = (const store_box *)(const void *)forks.bytes;
	*out = depth < DEPTH_MAX;
	for (size_t i = 0; *out && i < forks.size / sizeof(store_box); i++) {
		fork_need need = NEEDS_ORIGIN;
		if (all[i].deleted) CB_TRY(need_of(cs, edges, &all[i], &need, err));
		*out = need == NEEDS_NOTHING;
		if (*out) CB_TRY(fork_empty(cs, edges, &all[i], depth + 1, out, err));
	}
	if (!*out) return CB_OK;
	uint64_t deleted;
	CB_TRY(checkpoints_forget(cs, fork->id, err));
	CB_TRY(store_step_delete(cs->s, fork->id, 0, INT64_MAX, &deleted, err));
	return origin_clear(cs, fork, err);
}

/* Does a step stand in the list? *at: where it would. */
static bool going_find(const buf *going, uint64_t seq, size_t *at)
{
	const uint64_t *all = (const uint64_t *)(const void *)going->bytes;
	size_t low = 0, high = going->size / sizeof(*all);
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (all[mid] > seq) low = mid + 1;
		else high = mid;
	}
	*at = low;
	return low < going->size / sizeof(*all) && all[low] == seq;
}

static void going_remove(buf *going, size_t at)
{
	uint64_t *all = (uint64_t *)(void *)going->bytes;
	going->size -= sizeof(*all);
	memmove(all + at, all + at + 1, going->size - at * sizeof(*all));
}

static int newest_point_first(const void *a, const void *b)
{
	const store_box *x = a, *y = b;
	return x->origin_seq > y->origin_seq ? -1 : x->origin_seq < y->origin_seq;
}

/* From the newest fork point on: a merge of a fork lies above its fork point, and whether that goes is decided then. */
cb_code forks_let_go(cb_store *cs, const past_edges *edges, buf *forks, size_t most, buf *going, uint64_t *limit, cb_error *err)
{
	AUTO_BUF buf needs = BUF_INIT(SIZE_MAX);
	store_box *all = (store_box *)(void *)forks->bytes;
	size_t count = forks->size / sizeof(store_box), at;
	uint64_t steps = 0;
	if (count) qsort(all, count, sizeof(store_box), newest_point_first);
	for (size_t i = 0; i < count; i++) {
		fork_need need = NEEDS_ORIGIN;
		if (going_find(going, all[i].origin_seq, &at)) {
			CB_TRY(need_of(cs, edges, &all[i], &need, err));
			steps += need == NEEDS_NOTHING ? all[i].head.seq + 1 : 1;
			if (need == NEEDS_ORIGIN) going_remove(going, at);
			else if (steps > most && at > 0) { /* the rest is for the next batch */ going->size = at * sizeof(uint64_t);
				*limit = all[i].origin_seq + 1;
			}
		}
		CB_TRY(buf_append(&needs, &need, sizeof(need), err));
	}
	for (size_t i = 0; i < count; i++) {
		fork_need need = ((const fork_need *)(const void *)needs.bytes)[i];
		bool emptied = false;
		if (!going_find(going, all[i].origin_seq, &at)) continue;
		if (need == NEEDS_NOTHING) CB_TRY(fork_empty(cs, edges, &all[i], 0, &emptied, err));
		if (!emptied) CB_TRY(fork_part(cs, &all[i], err));
	}
	return CB_OK;
}
