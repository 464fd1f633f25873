/*
 * merge_base.c: the base of a merge.
 *
 * Two boxes that merged the same two others (or each other, crosswise) have several best common pasts. Any one of them alone would bring
 * back what one side has undone since, so they are merged into a virtual one, oldest first, each with the common past of those before it
 * as base, and so on down. It lives in a transaction that is never committed: its changes and texts stay in memory. Boxes that merge each
 * other crosswise again and again add a generation each time, so the number of such joins is bounded, and shared by the branches: what is
 * nearest is exact.
 *
 * Where the common pasts conflict nobody can say what both sides came from: such files are *disputed*. In the merge they have no base:
 * equal sides pass, others conflict.
 */
#include "box/merge_base.h"
#include "box/merge.h"

#include <assert.h>
#include <stdlib.h>

void merge_base_done(merge_base *base)
{
	txn_destroy(base->t);
	state_unref(base->first);
	kept_done(&base->kept);
	merge_disputed_done(&base->disputed);
	*base = (merge_base){0};
}

tree_view merge_base_view(const cb_store *cs, const merge_base *base)
{
	if (base->t) return txn_raw(base->t);
	return base->first ? state_view(cs, base->first) : (tree_view){.nodes = &cs->nodes};
}

/* Contents in memory are numbered by their transaction and their place in its list: the list moves whole, and the number with it. */
static void locals_move(txn *from, txn *to)
{
	assert(to->local_count == 0);
	free(to->locals);
	to->serial = from->serial;
	to->locals = from->locals;
	to->local_count = from->local_count;
	to->local_capacity = from->local_capacity;
	to->local_bytes = from->local_bytes;
	from->locals = NULL;
	from->local_count = from->local_capacity = 0;
	from->local_bytes = 0;
}

void merge_base_lend(merge_base *base, txn *t)
{
	if (base->t) locals_move(base->t, t);
}

void merge_base_return(merge_base *base, txn *t)
{
	/* What the merge added behind them is t's own; what was lent is referred to by nothing of t, and leaves empty places there. */
	if (!base->t) return;
	for (size_t i = 0; i < base->lent && i < t->local_count; i++) {
		local_content *l = &t->locals[i];
		t->local_bytes -= l->bytes.size;
		buf_done(&l->bytes);
		l->stored = CONTENT_LOCAL;
	}
}

/* ---- finding it ---- */

typedef struct finding {
	cb_box *b;
	const state *ours, *theirs; /* of the merge it is all for */
	cb_error *why;              /* what is wrong with a base below: each generation would need one of its own */
} finding;

static const char *name_of_box(cb_store *cs, uint64_t box, store_box *row)
{
	if (store_box_get(cs->s, box, row, NULL) != CB_OK) return "(a box that is gone)";
	return row->name;
}

static ATTR_NOINLINE cb_code base_load(const finding *f, past_point p, kept_state *out, cb_error *err)
{
	cb_store *cs = f->b->cs;
	cb_error why = {0};
	cb_code code = kept_load(out, cs, p.box, p.seq, KEPT_VISIT, &why);
	if (code == CB_STALE || code == CB_NOTFOUND) {
		store_box a, b, c;
		return cb_err_set(
			err, CB_STALE,
			"step %llu of box '%s', which '%s' and '%s' have in common, was pruned: without it nobody knows what "
			"each of them changed",
			(unsigned long long)p.seq, name_of_box(cs, p.box, &a), name_of_box(cs, f->ours->box, &b),
			name_of_box(cs, f->theirs->box, &c));
	}
	if (code != CB_OK && err) *err = why;
	return code;
}

/*
 * The newest older state of theirs that has few enough common pasts with ours, from before one of its last merges: merged first, it is one
 * of them in place of many, and the rest is nearer by as many. *out 0: none is left.
 */
static cb_code find_first_part(const finding *f, uint64_t *out, cb_error *err)
{
	enum { TRIES = 256 };
	cb_store *cs = f->b->cs;
	past_point ours = {f->ours->box, f->ours->seq}, at = {f->theirs->box, f->theirs->seq};
	*out = 0;
	for (int i = 0; i < TRIES; i++) {
		store_edge e;
		bool found = false;
		uint64_t state_id = 0;
		CB_TRY(store_edge_before(cs->s, at.box, at.seq, &e, &found, err));
		if (!found || e.seq == 0) return CB_OK;
		at.seq = e.seq - 1;
		AUTO_BUF buf common = BUF_INIT(SIZE_MAX);
		CB_TRY(past_common(cs, &ours, 1, &at, 1, &common, err));
		const past_point *all = (const past_point *)(const void *)common.bytes;
		size_t count = common.size / sizeof(past_point);
		bool nothing_new = count == 1 && all[0].box == at.box && all[0].seq == at.seq;
		if (nothing_new) return CB_OK;
		if (count > PAST_BASES_MAX || step_exists(cs, at.box, at.seq, &state_id, NULL) != CB_OK) continue;
		*out = at.seq;
		return CB_OK;
	}
	return CB_OK;
}

static ATTR_NOINLINE cb_code too_many(const finding *f, cb_error *err)
{
	store_box a, b;
	uint64_t first = 0;
	const char *ours = name_of_box(f->b->cs, f->ours->box, &a), *theirs = name_of_box(f->b->cs, f->theirs->box, &b);
	CB_TRY(find_first_part(f, &first, err));
	if (first)
		return cb_err_set(err, CB_LIMIT,
		                  "'%s' and '%s' have more than %d common pasts: merge '%s@%llu' first, then '%s' again", ours,
		                  theirs, (int)PAST_BASES_MAX, theirs, (unsigned long long)first, theirs);
	return cb_err_set(err, CB_LIMIT,
	                  "'%s' and '%s' have more than %d common pasts: merge older states of '%s' first, one by one", ours,
	                  theirs, (int)PAST_BASES_MAX, theirs);
}

static int state_older(const void *a, const void *b)
{
	const state *x = *(state *const *)a, *y = *(state *const *)b;
	if (x->id != y->id) return x->id < y->id ? -1 : 1;
	return x->box < y->box ? -1 : x->box > y->box; /* the same content: any order, but always the same */
}

static cb_code disputed_sort(merge_disputed *d)
{
	uint64_t *all = (uint64_t *)(void *)d->inos.bytes;
	size_t count = d->inos.size / sizeof(uint64_t), unique = 0;
	if (count) qsort(all, count, sizeof(uint64_t), u64_compare);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || all[i] != all[i - 1]) all[unique++] = all[i];
	d->inos.size = unique * sizeof(uint64_t);
	return CB_OK;
}

static cb_code base_build(const finding *f, const past_point *points, size_t count, unsigned joins, txn *lender, merge_base *out,
                          cb_error *err);

static cb_code dispute_entry(merge_disputed *d, span value, cb_error *err)
{
	entry e;
	if (!value.bytes) return CB_OK;
	CB_TRY(entry_decode(value, &e, err));
	return buf_append(&d->inos, &e.rec.ino, sizeof(uint64_t), err);
}

static cb_code dispute_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	merge_disputed *d = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	switch (parts.kind) {
	case KIND_ENTRY:
		CB_TRY(dispute_entry(d, old_value, err));
		return dispute_entry(d, new_value, err);
	case KIND_KV:
		return pmap_put(&d->keys, key_bytes, (span){0}, err);
	case KIND_COUNTERS:
		return CB_OK;
	default:
		return buf_append(&d->inos, &parts.ino, sizeof(uint64_t), err);
	}
}

/* What the common pasts have in common was pruned (prune keeps what two boxes have in common, not what that came from), or is too much to
 * be merged: all in which they differ is disputed. */
static cb_code dispute_all(cb_store *cs, merge_base *out, const state *other, cb_error *err)
{
	tree_view a = txn_raw(out->t), b = state_view(cs, other);
	CB_TRY(tree_diff(&a, &b, dispute_key, &out->disputed, err));
	return disputed_sort(&out->disputed);
}

/* Merges a state onto out, which holds those before it. below: what they have in common. */
static ATTR_NOINLINE cb_code base_merge(cb_store *cs, const state *other, const merge_base *below, merge_base *out, cb_error *err)
{
	merge_conflicts conflicts = {.list = BUF_INIT(0)};
	pmap so_far = pmap_ref(&out->t->delta);
	tree_view base = merge_base_view(cs, below), ours = {&cs->nodes, out->first->root, &out->first->overlay, &so_far},
		  theirs = state_view(cs, other);
	merge_sides sides = {&base, &ours, &theirs, &below->disputed, &out->disputed};
	cb_code code = merge_sides_into(out->t, &sides, &conflicts, err);
	pmap_done(&so_far);
	merge_conflicts_done(&conflicts);
	return code == CB_OK ? disputed_sort(&out->disputed) : code;
}

/* What states[index] and those before it have in common. */
static ATTR_NOINLINE cb_code common_below(cb_store *cs, state *const *states, size_t index, buf *out, cb_error *err)
{
	past_point before[PAST_BASES_MAX], next = {states[index]->box, states[index]->seq};
	for (size_t i = 0; i < index; i++) before[i] = (past_point){states[i]->box, states[i]->seq};
	return past_common(cs, before, index, &next, 1, out, err);
}

/* Adds states[index] to out, which holds those before it. joins: how many may be made for the base of that. */
static cb_code base_add(const finding *f, state *const *states, size_t index, unsigned joins, merge_base *out, cb_error *err)
{
	cb_store *cs = f->b->cs;
	AUTO_BUF buf common = BUF_INIT(SIZE_MAX);
	CB_TRY(common_below(cs, states, index, &common, err));
	size_t count = common.size / sizeof(past_point);
	if (count > (joins ? PAST_BASES_MAX : 1)) return dispute_all(cs, out, states[index], err);
	merge_base below = {0};
	cb_code code =
		base_build(f, (const past_point *)(const void *)common.bytes, count, joins ? joins - 1 : 0, out->t, &below, f->why);
	if (below.t) locals_move(below.t, out->t);
	if (code == CB_OK) code = base_merge(cs, states[index], &below, out, err);
	else if (code == CB_STALE) code = dispute_all(cs, out, states[index], err);
	else if (err && err != f->why) *err = *f->why;
	merge_base_done(&below);
	return code;
}

static ATTR_NOINLINE cb_code base_begin(const finding *f, txn *lender, merge_base *out, cb_error *err)
{
	cb_box over = {.cs = f->b->cs,
	               .id = f->b->id,
	               .row = f->b->row,
	               .head = out->first}; /* a transaction is made over its handle's head */
	CB_TRY(txn_create(&over, "merge", "", &out->t, err));
	out->t->b = f->b;
	if (lender) locals_move(lender, out->t);
	return CB_OK;
}

static cb_code base_join(const finding *f, state *const *states, size_t count, unsigned joins, txn *lender, merge_base *out,
                         cb_error *err)
{
	CB_TRY(base_begin(f, lender, out, err));
	for (size_t i = 1; i < count; i++) CB_TRY(base_add(f, states, i, joins / (unsigned)(count - 1), out, err));
	return CB_OK;
}

/* joins: how many may be made. lender: texts in memory that the caller goes on with afterwards; they come back with out->t's. NULL:
 * none. */
static cb_code base_build(const finding *f, const past_point *points, size_t count, unsigned joins, txn *lender, merge_base *out,
                          cb_error *err)
{
	state *states[PAST_BASES_MAX] = {NULL};
	kept_state kept[PAST_BASES_MAX] = {0};
	cb_code code = CB_OK;
	*out = (merge_base){
		.disputed = {.inos = BUF_INIT(SIZE_MAX), .reason = "changed differently, and so was what both came from"}};
	if (count == 0) return CB_OK; /* of common pasts that have nothing in common */
	if (count > PAST_BASES_MAX) return too_many(f, err);
	for (size_t i = 0; code == CB_OK && i < count; i++) {
		code = base_load(f, points[i], &kept[i], err);
		states[i] = kept[i].s;
	}
	if (code == CB_OK) {
		qsort(states, count, sizeof(*states), state_older);
		out->first = state_ref(states[0]);
	}
	if (code == CB_OK && count > 1) code = base_join(f, states, count, joins, lender, out, err);
	for (size_t i = 0; i < count; i++) {
		if (out->first && kept[i].s == out->first && !out->kept.cs) out->kept = kept[i];
		else kept_done(&kept[i]);
	}
	return code;
}

cb_code merge_base_find(cb_box *b, const state *ours, const state *theirs, merge_base *out, cb_error *err)
{
	cb_error why = {0};
	finding f = {b, ours, theirs, &why};
	past_point mine = {ours->box, ours->seq}, their = {theirs->box, theirs->seq};
	AUTO_BUF buf common = BUF_INIT(SIZE_MAX);
	*out = (merge_base){0};
	CB_TRY(past_common_of(b, mine, their, &common, err));
	const past_point *all = (const past_point *)(const void *)common.bytes;
	size_t count = common.size / sizeof(past_point);
	if (count == 0)
		return cb_err_set(err, CB_INVALID,
		                  "the boxes have no common past: one must be a fork of the other or of the same box");
	if (count == 1 && all[0].box == their.box && all[0].seq == their.seq)
		return cb_err_set(err, CB_NOTHING, "there is nothing new to merge");
	cb_code code = base_build(&f, all, count, PAST_JOINS_MAX, NULL, out, err);
	/* The same bytes, but theirs may have merged what ours does not know: recorded, it is in the past of the next merge. */
	bool known = false;
	if (code == CB_OK && !out->t && out->first->id == theirs->id) code = past_knows(b->cs, mine, their, true, &known, err);
	if (known) code = cb_err_set(err, CB_NOTHING, "there is nothing new to merge");
	if (code == CB_OK && out->t) out->lent = out->t->local_count;
	if (code != CB_OK) merge_base_done(out);
	return code;
}
