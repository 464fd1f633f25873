/*
 * prune.c: dropping old steps.
 *
 * What stays: the newest step, step 0, checkpoints, steps that a living box was forked from (deleted ones: prune_forks.c), those that may
 * be the common past of two living boxes (past_keep.c), and those that running commands began from. Edges of history are rows of their own
 * and stay. Steps go in batches, newest first; in the same transaction the step above a batch gets a root and a gap mark, so it opens
 * without what went. Whatever moment the process dies at, every step that is left can be opened.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/audit.h"
#include "box/gate.h"
#include "box/history.h"
#include "box/past.h"

#include <stdio.h>
#include <stdlib.h>

/* What is deleted under one hold of the writer lock: steps, in runs between those that stay. Above each run a root is written. */
typedef struct batch {
	size_t steps, runs;
	bool grows;     /* with the keepers, which are read anew for each batch: else that would cost more than what is deleted */
	bool all_forks; /* deleted forks keep their fork points until the next prune: what else may go makes room */
} batch;

enum { KEEPERS_PER_RUN = 16 }; /* of a batch that grew: reading these costs less than writing a root */

/* By how much room there is on the disk for the log: a step's row may have hundreds of pages. */
static const batch batches[] = {{2000, 200, true}, {50, 8, false}, {50, 1, false},
                                {8, 1, false},     {1, 1, false},  {1, 1, false, true}};

static cb_code keep_seq(buf *seqs, uint64_t seq, cb_error *err)
{
	return buf_append(seqs, &seq, sizeof(seq), err);
}

static cb_code keep_checkpoint(void *context, const store_checkpoint *c, cb_error *err)
{
	return keep_seq(context, c->seq, err);
}

/* ---- what is kept ---- */

typedef struct keepers {
	buf seqs;    /* uint64_t, sorted */
	buf deleted; /* store_box: forks of which it is not decided yet whether they keep their fork points */
	bool all_forks;
} keepers;

static cb_code keep_origin(void *context, const store_box *fork, cb_error *err)
{
	keepers *k = context;
	if (fork->deleted && !k->all_forks) return buf_append(&k->deleted, fork, sizeof(*fork), err);
	return keep_seq(&k->seqs, fork->origin_seq, err);
}

static void keepers_done(keepers *k)
{
	buf_done(&k->seqs);
	buf_done(&k->deleted);
}

/* The steps of a box that others rely on: checkpoints, fork points, common pasts, what is in use. *all: every one. recent: from this step
 * on the rules keep all. */
static cb_code keepers_read(cb_store *cs, past_edges *edges, uint64_t box, uint64_t recent, keepers *k, bool *all, cb_error *err)
{
	store_box row;
	CB_TRY(store_checkpoint_list(cs->s, box, keep_checkpoint, &k->seqs, err));
	CB_TRY(store_box_forks(cs->s, box, keep_origin, k, err));
	CB_TRY(store_box_get(cs->s, box, &row, err));
	CB_TRY(kept_keepers(cs, box, &k->seqs, all, err));
	CB_TRY(past_keepers(cs, edges, &row, recent, &k->seqs, err));
	if (k->seqs.size) qsort(k->seqs.bytes, k->seqs.size / sizeof(uint64_t), sizeof(uint64_t), u64_compare);
	return CB_OK;
}

typedef struct age_search {
	int64_t before_ns;
	uint64_t first_young;
} age_search;

static cb_code find_young(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	age_search *a = context;
	if (step->ended_ns < a->before_ns) return CB_OK;
	a->first_young = step->seq;
	return CB_INTERRUPTED;
}

/* Steps below *out may go. */
static cb_code prune_limit(cb_box *b, const cb_prune_options *options, uint64_t *out, cb_error *err)
{
	uint64_t steps = options->keep_steps ? options->keep_steps : b->row.keep_steps;
	int64_t age = options->keep_ns ? options->keep_ns : b->row.keep_ns;
	uint64_t head = b->head->seq;
	*out = 0;
	if (age < 0) age = 0;             /* a retention that was set before such were refused */
	if (!steps && !age) return CB_OK; /* everything is kept */
	uint64_t by_count = !steps ? head : steps > head ? 0 : head - steps + 1;
	uint64_t by_age = head;
	if (age) {
		age_search a = {clock_now(store_clock(b->cs->s)) - age, head};
		CB_TRY(store_step_walk(b->cs->s, b->id, 1, head, false, find_young, &a, err));
		by_age = a.first_young;
	}
	*out = by_count < by_age ? by_count : by_age;
	return CB_OK;
}

static cb_code mark_gap(cb_store *cs, uint64_t box, uint64_t seq, cb_error *err)
{
	CB_TRY(state_keep_root(cs, box, seq, err));
	return store_step_gap_set(cs->s, box, seq, err);
}

typedef struct first_step {
	uint64_t seq;
} first_step;

static cb_code take_first(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	((first_step *)context)->seq = step->seq;
	return CB_INTERRUPTED;
}

static bool is_keeper(const buf *seqs, uint64_t seq)
{
	return seqs->size && bsearch(&seq, seqs->bytes, seqs->size / sizeof(uint64_t), sizeof(uint64_t), u64_compare) != NULL;
}

/* The steps that a batch takes. */
typedef struct doomed {
	const buf *keep;
	batch most;
	buf going; /* uint64_t, the newest first */
	size_t runs;
	bool more; /* some are left for the next batch */
} doomed;

static cb_code doom_step(void *context, const store_step *step, cb_error *err)
{
	doomed *d = context;
	buf *seqs = &d->going;
	size_t count = seqs->size / sizeof(uint64_t);
	if (is_keeper(d->keep, step->seq)) return CB_OK;
	bool same_run = count && ((const uint64_t *)(const void *)seqs->bytes)[count - 1] == step->seq + 1;
	d->more = count >= d->most.steps || (!same_run && d->runs == d->most.runs);
	if (d->more) return CB_INTERRUPTED;
	d->runs += !same_run;
	return keep_seq(seqs, step->seq, err);
}

static cb_code prune_run(cb_store *cs, uint64_t box, uint64_t low, uint64_t high, uint64_t *pruned, cb_error *err)
{
	uint64_t state_id, deleted = 0;
	cb_error why;
	cb_code code = step_exists(cs, box, high + 1, &state_id, cb_err_aside(&why));
	if (code == CB_OK) code = mark_gap(cs, box, high + 1, cb_err_aside(&why));
	if (code != CB_OK && code != CB_STALE) return cb_err_pass(err, code, &why);
	/* Stale: the batch above took it, and marked what follows. */
	CB_TRY(store_step_delete(cs->s, box, low, high, &deleted, err));
	*pruned += deleted;
	return CB_OK;
}

static cb_code prune_doomed(cb_store *cs, uint64_t box, const buf *seqs, uint64_t *pruned, cb_error *err)
{
	const uint64_t *all = (const uint64_t *)(const void *)seqs->bytes;
	/* The oldest run first: the step above the next is then built from the root that was just written. */
	for (size_t end = seqs->size / sizeof(*all), at; end > 0; end = at) {
		for (at = end - 1; at > 0 && all[at - 1] == all[at] + 1;) at--;
		CB_TRY(prune_run(cs, box, all[end - 1], all[at], pruned, err));
	}
	return CB_OK;
}

/* What the batches of one prune share. */
typedef struct pruning {
	cb_box *b;
	past_edges edges;
	uint64_t recent; /* from this step on all stay */
	uint64_t pruned;
} pruning;

static cb_code pruning_find(void *context, cb_error *err)
{
	pruning *p = context;
	ATTR_CLEANUP(keepers_done) keepers keep = {BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX), false};
	bool all = false;
	return keepers_read(p->b->cs, &p->edges, p->b->id, p->recent, &keep, &all, err);
}

/* Under the writer lock: drops the uppermost batch of steps below *limit that nobody relies on, and lowers *limit to it. The keepers are
 * read anew each time: somebody may have forked from, or named, a step since. */
static cb_code prune_batch(pruning *p, batch most, uint64_t *limit, uint64_t *pruned, cb_error *err)
{
	cb_store *cs = p->b->cs;
	uint64_t box = p->b->id;
	ATTR_CLEANUP(keepers_done) keepers keep = {BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX), most.all_forks};
	bool all = false;
	CB_TRY(keepers_read(cs, &p->edges, box, p->recent, &keep, &all, err));
	if (all) { /* somebody reads the whole history */
		*limit = 0;
		return CB_OK;
	}
	size_t grown = most.grows ? keep.seqs.size / sizeof(uint64_t) / KEEPERS_PER_RUN : 0;
	if (most.runs < grown) most.runs = grown;
	if (most.steps < grown) most.steps = grown;
	doomed d = {.keep = &keep.seqs, .most = most, .going = BUF_INIT(SIZE_MAX)};
	const buf *seqs = &d.going;
	cb_code code = store_step_walk(cs->s, box, *limit - 1, 1, false, doom_step, &d, err);
	if (code == CB_OK) {
		*limit = d.more ? ((const uint64_t *)(const void *)(seqs->bytes + seqs->size))[-1] : 0;
		code = forks_let_go(cs, &p->edges, &keep.deleted, most.steps, &d.going, limit, err);
	}
	if (code == CB_OK) code = prune_doomed(cs, box, seqs, pruned, err);
	buf_done(&d.going);
	return code;
}

/* With the first batch that takes something: whatever happens after, it is told who did it. */
static cb_code prune_recorded(pruning *p, batch most, uint64_t *limit, uint64_t *pruned, cb_error *err)
{
	cb_box *b = p->b;
	uint64_t before = *pruned;
	char text[48];
	(void)snprintf(text, sizeof(text), "steps before %llu", (unsigned long long)*limit);
	CB_TRY(prune_batch(p, most, limit, pruned, err));
	if (before || !*pruned) return CB_OK;
	return audit_did(b->cs, &b->row, &(audit_note){b->who, "prune", text}, err);
}

static cb_code prune_batches(pruning *p, cb_error *err)
{
	cb_box *b = p->b;
	uint64_t limit = p->recent;
	size_t room = 0; /* of batches */
	while (limit > 1) {
		/* What went in an earlier prune is not looked at again. */
		first_step newest = {0};
		CB_TRY(store_step_walk(b->cs->s, b->id, limit - 1, 1, false, take_first, &newest, err));
		if (!newest.seq) return CB_OK;
		uint64_t next = newest.seq + 1, gone = p->pruned;
		cb_error why = {0};
		if (room == 0 && store_is_short(b->cs->s)) room = 1;
		CB_TRY(past_lock(b->cs, &p->edges, pruning_find, p, err));
		cb_code code = store_write_end(b->cs->s, prune_recorded(p, batches[room], &next, &gone, &why), false, &why);
		if (code == CB_NOSPACE && room + 1 < ARRAY_LEN(batches)) {
			room++; /* more than the kept room carries: again, in smaller pieces */
			continue;
		}
		if (code != CB_OK && err) *err = why;
		if (code != CB_OK) return code;
		limit = next;
		p->pruned = gone;
	}
	return CB_OK;
}

static cb_code prune_locked(cb_box *b, const cb_prune_options *options, uint64_t *pruned, cb_error *err)
{
	pruning p = {.b = b};
	CB_TRY(prune_limit(b, options, &p.recent, err));
	cb_code code = prune_batches(&p, err);
	past_edges_done(&p.edges);
	*pruned = p.pruned;
	return code;
}

/* Inside a write transaction: of the steps up to `newest`, drops all but those in keep (uint64_t, sorted; numbers of no step are passed
 * over), each of which gets a root. */
static cb_code keep_only(cb_store *cs, uint64_t box, uint64_t newest, const buf *keep, cb_error *err)
{
	const uint64_t *all = (const uint64_t *)(const void *)keep->bytes;
	AUTO_BUF buf there = BUF_INIT(SIZE_MAX);
	uint64_t state_id, deleted = 0, from = 0;
	for (size_t i = 0; i < keep->size / sizeof(*all); i++) {
		if (all[i] > newest || (i > 0 && all[i] == all[i - 1])) continue;
		cb_code code = step_exists(cs, box, all[i], &state_id, err);
		if (code == CB_STALE || code == CB_NOTFOUND) continue; /* a table that was garbled names anything */
		if (code == CB_OK) code = mark_gap(cs, box, all[i], err);
		if (code == CB_OK) code = keep_seq(&there, all[i], err);
		if (code != CB_OK) return code;
	}
	CB_TRY(keep_seq(&there, newest + 1, err));
	/* Only now: until each that stays has a root of its own, it is built from those that go. */
	const uint64_t *ends = (const uint64_t *)(const void *)there.bytes;
	for (size_t i = 0; i < there.size / sizeof(*ends); i++) {
		if (ends[i] > from) CB_TRY(store_step_delete(cs->s, box, from, ends[i] - 1, &deleted, err));
		from = ends[i] + 1;
	}
	return CB_OK;
}

static cb_code prune_hidden_locked(cb_store *cs, uint64_t box, cb_error *err)
{
	AUTO_BUF buf keep = BUF_INIT(SIZE_MAX);
	store_head head;
	bool all = false;
	CB_TRY(store_head_get(cs->s, box, &head, err));
	if (head.seq == 0) return CB_OK;
	CB_TRY(kept_keepers(cs, box, &keep, &all, err));
	if (all) return CB_OK;
	/* Step 0 too: nobody asks where it began. */
	CB_TRY(mark_gap(cs, box, head.seq, err));
	return keep_only(cs, box, head.seq - 1, &keep, err);
}

cb_code box_prune_hidden(cb_store *cs, const store_box *row, cb_error *err)
{
	CB_TRY(store_write_begin_as(cs->s, STORE_FREES, err));
	return store_write_end(cs->s, prune_hidden_locked(cs, row->id, err), false, err);
}

static cb_code prune_base(cb_store *cs, uint64_t box, cb_error *err)
{
	store_box base;
	cb_error why;
	cb_code code = box_base_find(cs, box, &base, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return CB_OK;
	return code == CB_OK ? box_prune_hidden(cs, &base, err) : cb_err_pass(err, code, &why);
}

cb_code cb_prune(cb_box *b, const cb_prune_options *options, uint64_t *out_pruned, cb_error *err)
{
	NEED(err, "box", b);
	uint64_t pruned = 0;
	cb_prune_options o;
	CB_TRY(SIZED_TAKE(cb_prune_options, keep_ns, &o, options, err));
	CB_TRY(args_duration("keep_ns", o.keep_ns, err));
	CB_TRY(box_enter(b, err));
	cb_code code = box_refuse_txn(b, "prune", err);
	if (code == CB_OK && b->pinned)
		code = box_refused(b, "prune", "", cb_err_set(err, CB_READONLY, "prune the box, not one state of it"), err);
	if (code == CB_OK) code = box_refused(b, "prune", "", gate_deed_check(b->cs, b->id, b->who, GATE_PRUNE, err), err);
	if (code == CB_OK) code = box_flush(b, false, err);
	/* Rows must not vanish while a gc marks from them. */
	if (code == CB_OK) code = store_gc_lock_wait(b->cs->s, err);
	if (code == CB_OK) {
		code = prune_locked(b, &o, &pruned, err);
		if (code == CB_OK) code = prune_base(b->cs, b->id, err);
		store_gc_unlock(b->cs->s);
	}
	if (code == CB_OK && out_pruned) *out_pruned = pruned;
	return box_leave(b, code);
}
