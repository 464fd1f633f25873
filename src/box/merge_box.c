/*
 * merge_box.c: merging one box into another: finding the base, then merge.c.
 *
 * The history of boxes is a graph: a step follows its predecessor; step 0 of a fork follows the step it was forked from; a merge step also
 * follows the step it merged. The base of a merge is the newest state that both sides have in their past: a fork point, or the last merge
 * between them in either direction.
 */
#include "box/graft.h"

#include <stdio.h>

typedef struct point {
	uint64_t box, seq;
	uint64_t state; /* ids grow with time: the newest common point is the base */
} point;

enum { ANCESTRY_MAX = 100000 };

/* What lies in the past of a state: for each box, up to which step. */
typedef struct past {
	cb_store *cs;
	buf points; /* point: (box, newest seq seen) */
} past;

static point *past_find(const past *p, uint64_t box)
{
	point *all = (point *)(void *)p->points.bytes;
	for (size_t i = 0; i < p->points.size / sizeof(point); i++)
		if (all[i].box == box) return &all[i];
	return NULL;
}

static cb_code collect_merge(void *context, const store_step *step, cb_error *err)
{
	if (step->other_box == 0 || step->other_box & FOREIGN_BOX || strcmp(step->kind, "merge") != 0) return CB_OK;
	point p = {step->other_box, step->other_seq, 0};
	return buf_append(context, &p, sizeof(p), err);
}

/* Adds (box, seq) and everything before it. Worklist instead of recursion: chains of forks may be long. */
static cb_code past_add(past *p, uint64_t box, uint64_t seq, cb_error *err)
{
	AUTO_BUF buf work = BUF_INIT(sizeof(point) * ANCESTRY_MAX);
	point start = {box, seq, 0};
	CB_TRY(buf_append(&work, &start, sizeof(start), err));
	while (work.size) {
		work.size -= sizeof(point);
		point at;
		memcpy(&at, work.bytes + work.size, sizeof(at));
		point *known = past_find(p, at.box);
		if (known && known->seq >= at.seq) continue;
		uint64_t from = known ? known->seq + 1 : 1;
		if (known) known->seq = at.seq;
		else CB_TRY(buf_append(&p->points, &at, sizeof(at), err));
		if (at.seq >= from) CB_TRY(store_step_walk(p->cs->s, at.box, from, at.seq, false, collect_merge, &work, err));
		store_box row;
		cb_error why;
		cb_code code = store_box_get(p->cs->s, at.box, &row, cb_err_aside(&why));
		if (code == CB_NOTFOUND) continue; /* deleted and collected */
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		point origin = {row.origin_box, row.origin_seq, 0};
		if (!known && row.origin_box) CB_TRY(buf_append(&work, &origin, sizeof(origin), err));
	}
	return CB_OK;
}

static cb_code take_step(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	point *p = context;
	p->seq = step->seq;
	p->state = step->state;
	return CB_INTERRUPTED;
}

/* The newest state in both pasts. */
static cb_code past_common(const past *a, const past *b, point *out, cb_error *err)
{
	const point *all = (const point *)(const void *)a->points.bytes;
	*out = (point){0};
	for (size_t i = 0; i < a->points.size / sizeof(point); i++) {
		const point *other = past_find(b, all[i].box);
		if (!other) continue;
		point at = {all[i].box, 0, 0};
		uint64_t most = all[i].seq < other->seq ? all[i].seq : other->seq;
		/* Where that step was pruned, the nearest one that is left: as much in both pasts, if not as new. */
		CB_TRY(store_step_walk(a->cs->s, at.box, most, 0, false, take_step, &at, err));
		if (at.state > out->state) *out = at;
	}
	if (out->state) return CB_OK;
	return cb_err_set(err, CB_INVALID, "the boxes have no common past: one must be a fork of the other or of the same box");
}

static cb_code find_base(cb_store *cs, uint64_t box_a, uint64_t seq_a, uint64_t box_b, uint64_t seq_b, point *out, cb_error *err)
{
	past a = {cs, BUF_INIT(SIZE_MAX)}, b = {cs, BUF_INIT(SIZE_MAX)};
	cb_code code = past_add(&a, box_a, seq_a, err);
	if (code == CB_OK) code = past_add(&b, box_b, seq_b, err);
	if (code == CB_OK) code = past_common(&a, &b, out, err);
	buf_done(&a.points);
	buf_done(&b.points);
	return code;
}

static cb_code merge_point_set(cb_store *cs, uint64_t box, const char *prefix, uint64_t other, uint64_t seq, cb_error *err)
{
	char name[64], value[32];
	(void)snprintf(name, sizeof(name), "%s%llu", prefix, (unsigned long long)other);
	(void)snprintf(value, sizeof(value), "%llu", (unsigned long long)seq);
	return store_setting_set(cs->s, box, name, value, err);
}

/* Remembers the last merge of one box into another: prune keeps the step that was merged, for it is the base of the next, and the
 * step that merged it, for it tells so. */
static cb_code merge_point_keep(cb_store *cs, const state *from, uint64_t into_box, uint64_t into_seq, cb_error *err)
{
	CB_TRY(merge_point_set(cs, from->box, MERGED_INTO_PREFIX, into_box, from->seq, err));
	return merge_point_set(cs, into_box, MERGED_FROM_PREFIX, from->box, into_seq, err);
}

typedef struct merging {
	const cb_merge_options *options;
	uint64_t conflicts;
} merging;

static cb_code merge_into(op *o, state *wanted, merging *g, cb_error *err)
{
	cb_box *b = o->b;
	cb_store *cs = b->cs;
	if (!o->own) return cb_err_set(err, CB_BUSY, "commit or abort the transaction first");
	point p;
	AUTO_STATE state *theirs = NULL;
	/* The handle's own may stand on a root that gc has replaced by another since. */
	CB_TRY(state_settle(cs, wanted, &theirs, err));
	CB_TRY(find_base(cs, b->row.id, b->head->seq, theirs->box, theirs->seq, &p, err));
	if (p.state == theirs->id) return cb_err_set(err, CB_NOTHING, "there is nothing new to merge");
	AUTO_STATE state *base = NULL;
	CB_TRY(state_load(cs, p.box, p.seq, &base, err));
	tree_view vb = state_view(cs, base), vo = state_view(cs, b->head), vt = state_view(cs, theirs);
	merge_conflicts conflicts = {.options = g->options, .list = BUF_INIT(CB_ERROR_MESSAGE_MAX)};
	cb_code code = merge_states(o->t, &vb, &vo, &vt, &conflicts, err);
	g->conflicts = conflicts.open;
	if (code == CB_OK && conflicts.open)
		code = cb_err_set(err, CB_CONFLICT, "%llu conflicts: %.*s", (unsigned long long)conflicts.open,
		                  (int)conflicts.list.size, (const char *)conflicts.list.bytes);
	merge_conflicts_done(&conflicts);
	o->t->other_box = theirs->box;
	o->t->other_seq = theirs->seq;
	if (code == CB_OK) code = merge_point_keep(cs, theirs, b->row.id, b->head->seq + 1, err);
	o->t->record = true; /* also an empty merge moves the base of the next one */
	if (code == CB_OK && g->options && g->options->dry_run) code = CB_INTERRUPTED;
	return code;
}

cb_code cb_merge(cb_box *into, cb_box *from, const cb_merge_options *options, uint64_t *out_seq, uint64_t *out_conflicts,
                 cb_error *err)
{
	if (into->cs != from->cs) return cb_err_set(err, CB_CROSSBOX, "both boxes must be opened through one store");
	CB_TRY(box_refuse_txn(into, "merge", err));
	CB_TRY(box_refuse_txn(from, "merge", err));
	if (into == from || (into->row.id == from->row.id && !from->pinned))
		return cb_err_set(err, CB_INVALID, "a box cannot be merged into itself");
	AUTO_KEPT kept_state theirs = {0};
	CB_TRY(box_enter(from, err));
	cb_code code = box_flush(from, false, err);
	if (code == CB_OK) code = kept_set(&theirs, from->cs, from->head, KEPT_VISIT, err);
	CB_TRY(box_leave(from, code));
	op o;
	cb_commit_result result = {0};
	merging g = {options, 0};
	CB_TRY(op_begin(&o, into, "merge", from->row.name, err));
	code = op_end(&o, merge_into(&o, theirs.s, &g, err), &result, err);
	if (out_conflicts) *out_conflicts = g.conflicts;
	if (code == CB_INTERRUPTED) return CB_OK; /* a dry run */
	if (code == CB_OK && out_seq) *out_seq = result.seq;
	return code;
}
