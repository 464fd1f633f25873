/*
 * gc.c: finding what nobody refers to. The store sweeps (src/store/gc.c); this layer knows what refers to what.
 *
 * Marked: every root kept by a step or a head; every content named by a value in those trees, by a step's change list (old and new values,
 * so that any kept step can be shown and undone) or by a step's parameters and result.
 *
 * Before marking, old roots that change lists can stand for are dropped, and every head is written anew on a root that stays. Then the
 * states in use are read (src/store/inuse.h): their roots are marked too.
 *
 * Beside live writers: steps cannot vanish meanwhile (prune excludes gc), and what is written meanwhile is born in the new epoch, which the
 * sweep spares. A step written meanwhile can only refer to older things through states whose steps are still there, or after touching
 * them (store_content_touch).
 */
#include "base/args.h"
#include "base/id_set.h"
#include "base/sized.h"
#include "box/audit.h"
#include "box/gate.h"
#include "box/graft.h"
#include "box/history.h"
#include "box/past.h"

#include <stdlib.h>

enum {
	THIN_WEIGHT = 1024, /* key changes between kept roots of old steps: opening one replays at most so many */
	PAGE = 256,
	SETTLE_BATCH = 64,  /* heads written under one hold of the writer lock */
	PART_BATCH = 32,    /* forks that get a root of their own so */
	REAP_BATCH = 2000,  /* steps deleted, or looked at, under one hold of the writer lock */
	REAP_BOXES = 256,   /* deleted boxes looked at so */
	ROOTS_BATCH = 500,  /* roots dropped so */
	EDGES_BATCH = 1000, /* edges deleted so */
	STEP_BYTES = 128,   /* that a step's row takes besides its texts, about */
	ROOT_BYTES = 16384, /* that a root takes, with the nodes that it does not share */
	SHORT_BATCH = 32,   /* of all these, where there is little room on the disk for the log */
};

typedef struct marking {
	cb_store *cs;
	id_set nodes, contents;
	cb_error *err;
	cb_code failed; /* of mark_enter, which cannot say so itself */
} marking;

static cb_code mark_content(void *context, uint64_t content, uint64_t min_size, cb_error *err)
{
	(void)min_size;
	marking *m = context;
	bool was;
	return id_set_add(&m->contents, content, &was, err);
}

static bool mark_enter(void *context, uint64_t node)
{
	marking *m = context;
	bool was = false;
	if (m->failed == CB_OK) m->failed = id_set_add(&m->nodes, node, &was, m->err);
	return !was && m->failed == CB_OK;
}

static cb_code mark_entry(void *context, span key_bytes, span value, cb_error *err)
{
	return record_contents(key_bytes, value, mark_content, context, err);
}

static cb_code mark_root(marking *m, uint64_t root, cb_error *err)
{
	if (root == 0) return CB_OK;
	tree_walk_visit visit = {mark_enter, mark_entry, m};
	m->err = err;
	CB_TRY(tree_walk(&m->cs->nodes, root, &visit, err));
	return m->failed;
}

static cb_code mark_change(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	if (old_value.bytes) CB_TRY(record_contents(key_bytes, old_value, mark_content, context, err));
	return new_value.bytes ? record_contents(key_bytes, new_value, mark_content, context, err) : CB_OK;
}

/* Roots of a page of steps are walked after the rows were read: nothing else happens inside a walk of rows. */
typedef struct step_page {
	marking *m;
	buf roots;           /* uint64_t */
	uint64_t last, next; /* the step seen last; the one that comes next if none was pruned */
	size_t count;
} step_page;

static cb_code mark_step(void *context, const store_step *step, cb_error *err)
{
	step_page *p = context;
	bool was;
	if (step->seq != p->next && !step->gap)
		return cb_err_set(err, CB_CORRUPT, "steps before %llu are missing, and were not pruned: see `cowbox fsck`",
		                  (unsigned long long)step->seq);
	p->next = step->seq + 1;
	if (step->has_root) CB_TRY(buf_append(&p->roots, &step->root, sizeof(uint64_t), err));
	if (step->params_content) CB_TRY(id_set_add(&p->m->contents, step->params_content, &was, err));
	if (step->result_content) CB_TRY(id_set_add(&p->m->contents, step->result_content, &was, err));
	if (step->has_changes) CB_TRY(tree_changes_decode(step->changes, mark_change, p->m, err));
	p->last = step->seq;
	return ++p->count == PAGE ? CB_INTERRUPTED : CB_OK;
}

static cb_code mark_steps(marking *m, uint64_t box, cb_error *err)
{
	AUTO_BUF buf roots = BUF_INIT(SIZE_MAX);
	for (uint64_t from = 0;;) {
		step_page p = {.m = m, .roots = roots, .next = from};
		p.roots.size = 0;
		cb_code code = store_step_walk(m->cs->s, box, from, INT64_MAX, true, mark_step, &p, err);
		roots = p.roots;
		const uint64_t *all = (const uint64_t *)(const void *)roots.bytes;
		for (size_t i = 0; code == CB_OK && i < roots.size / sizeof(uint64_t); i++) code = mark_root(m, all[i], err);
		if (code != CB_OK || p.count < PAGE) return code;
		from = p.last + 1;
	}
}

/* The trees of states in use. Their contents are marked from the steps, which prune keeps, but a root may have been taken from its step
 * since. What the table says is no reason to fail: a number that is none is passed over. */
static cb_code mark_uses(marking *m, cb_error *err)
{
	AUTO_BUF buf roots = BUF_INIT(SIZE_MAX);
	CB_TRY(kept_roots(m->cs, &roots, err));
	const uint64_t *all = (const uint64_t *)(const void *)roots.bytes;
	for (size_t i = 0; i < roots.size / sizeof(*all); i++) {
		cb_error why = {0};
		cb_code code = mark_root(m, all[i], &why);
		if (code == CB_OK || code == CB_STALE || code == CB_NOTFOUND || code == CB_CORRUPT) continue;
		if (err) *err = why;
		return code;
	}
	return CB_OK;
}

static cb_code mark_all(marking *m, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(m->cs->s, true, store_box_collect, &rows, err));
	const store_box *all = (const store_box *)(const void *)rows.bytes;
	for (size_t i = 0; i < rows.size / sizeof(store_box); i++) {
		cb_code code = mark_steps(m, all[i].id, err);
		if (code == CB_OK) code = mark_root(m, all[i].head.root, err);
		if (code != CB_OK) return cb_err_wrap(err, code, "marking box '%s'", all[i].name);
	}
	return CB_OK;
}

static bool is_marked(void *context, bool is_node, uint64_t id)
{
	const marking *m = context;
	return id_set_has(is_node ? &m->nodes : &m->contents, id);
}

/* ---- roots that are no longer needed ---- */

typedef struct thinning {
	buf drop; /* uint64_t: steps whose root may go */
	uint64_t head_root_seq;
	uint64_t weight;    /* since the last root that stays */
	uint64_t candidate; /* seq of a root that may go if the next step is no large one; 0: none */
	uint64_t next;      /* the seq expected next: another one follows a gap */
} thinning;

/* A root may go when the change lists lead from an earlier root to it, and no large step needs it as a neighbour. */
static cb_code thin_step(void *context, const store_step *step, cb_error *err)
{
	thinning *t = context;
	bool large = step->weight > 0 && !step->has_changes;
	if (t->candidate && !large) CB_TRY(buf_append(&t->drop, &t->candidate, sizeof(uint64_t), err));
	bool gap = step->seq != t->next;
	t->next = step->seq + 1;
	t->candidate = 0;
	t->weight += step->weight;
	if (!step->has_root) return CB_OK;
	bool needed = step->seq == 0 || gap || !step->has_changes || step->seq >= t->head_root_seq || t->weight > THIN_WEIGHT;
	if (needed) t->weight = 0;
	else t->candidate = step->seq;
	return CB_OK;
}

/* How many of what `normal` are done under one hold of the writer lock: fewer where room is short, for the log is folded after each. */
static size_t batch_of(cb_store *cs, size_t normal)
{
	return store_is_short(cs->s) ? SHORT_BATCH : normal;
}

static cb_code thin_box(cb_store *cs, const store_box *row, cb_error *err)
{
	/* A fork's own steps count from its origin's root: its step 0 has none, so the first own root is kept. */
	thinning t = {.drop = BUF_INIT(SIZE_MAX), .head_root_seq = row->head.root_box == row->id ? row->head.root_seq : 0};
	t.weight = row->origin_box ? THIN_WEIGHT : 0;
	cb_code code = store_step_walk(cs->s, row->id, 0, row->head.seq, false, thin_step, &t, err);
	const uint64_t *all = (const uint64_t *)(const void *)t.drop.bytes;
	size_t count = t.drop.size / sizeof(uint64_t), most = batch_of(cs, ROOTS_BATCH);
	for (size_t done = 0; code == CB_OK && done < count; done += most) {
		code = store_write_begin_as(cs->s, STORE_FREES, err);
		if (code != CB_OK) break;
		for (size_t i = 0; code == CB_OK && i < most && done + i < count; i++)
			code = store_step_root_set(cs->s, row->id, all[done + i], false, 0, err);
		code = store_write_end(cs->s, code, false, err);
	}
	buf_done(&t.drop);
	return code;
}

/* ---- deleted boxes ---- */

typedef struct reaping {
	cb_store *cs;
	past_edges edges;
	uint64_t freed;    /* boxes that a user saw */
	size_t left;       /* in this transaction: steps that may still go */
	uint64_t looked;   /* steps that were looked at to see what is freed with them */
	bool writes_roots; /* for the box at hand: that takes room */
} reaping;

/* What goes of a deleted box that is shrunk, and what is written for that. */
typedef struct shrinking {
	const buf *needed; /* uint64_t, sorted */
	uint64_t freed_bytes, roots, steps;
} shrinking;

static cb_code shrink_content(void *context, uint64_t content, uint64_t min_size, cb_error *err)
{
	(void)content;
	(void)err;
	((shrinking *)context)->freed_bytes += min_size;
	return CB_OK;
}

static cb_code shrink_change(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	return new_value.bytes ? record_contents(key_bytes, new_value, shrink_content, context, err) : CB_OK;
}

static cb_code shrink_step(void *context, const store_step *step, cb_error *err)
{
	shrinking *s = context;
	s->steps++;
	if (bsearch(&step->seq, s->needed->bytes, s->needed->size / sizeof(uint64_t), sizeof(uint64_t), u64_compare)) {
		s->roots += !step->has_root;
		return CB_OK;
	}
	s->freed_bytes += STEP_BYTES + step->changes.size + step->params.size + step->result.size;
	return step->has_changes ? tree_changes_decode(step->changes, shrink_change, s, err) : CB_OK;
}

/* Is more freed with the steps that are not needed than the roots take which the others need then? A fork of few steps that was merged is
 * better left as it is: of thousands, the roots would be most of the store. */
static cb_code shrinking_pays(reaping *r, uint64_t box, const buf *needed, bool *out, cb_error *err)
{
	shrinking s = {.needed = needed};
	CB_TRY(store_step_walk(r->cs->s, box, 0, INT64_MAX, true, shrink_step, &s, err));
	r->looked += s.steps;
	*out = s.freed_bytes > s.roots * ROOT_BYTES;
	return CB_OK;
}

/* Roots for the steps that stay. Those that are not there are taken off the list: a table of states in use that was garbled names
 * anything. */
static cb_code keep_needed_roots(cb_store *cs, uint64_t box, buf *needed, cb_error *err)
{
	uint64_t *all = (uint64_t *)(void *)needed->bytes, state_id;
	size_t n = needed->size / sizeof(uint64_t), kept = 0;
	for (size_t i = 0; i < n; i++) {
		cb_error why;
		if (kept && all[i] == all[kept - 1]) continue;
		cb_code code = step_exists(cs, box, all[i], &state_id, cb_err_aside(&why));
		if (code == CB_STALE || code == CB_NOTFOUND) continue;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		CB_TRY(state_keep_root(cs, box, all[i], err));
		CB_TRY(store_step_gap_set(cs->s, box, all[i], err));
		all[kept++] = all[i];
	}
	needed->size = kept * sizeof(uint64_t);
	return CB_OK;
}

typedef struct doomed_steps {
	const uint64_t *needed; /* sorted */
	size_t needed_count, most;
	uint64_t *seqs; /* newest first */
	size_t count;
} doomed_steps;

static cb_code doom_step(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	doomed_steps *d = context;
	if (d->needed_count && bsearch(&step->seq, d->needed, d->needed_count, sizeof(uint64_t), u64_compare)) return CB_OK;
	if (d->count == d->most) return CB_INTERRUPTED;
	d->seqs[d->count++] = step->seq;
	return CB_OK;
}

/* Deletes the newest `most` steps that are not needed. From the top, so that what is left below can still be opened: a transaction begun
 * in time may yet be kept as a fork of it. */
static cb_code delete_others(cb_store *cs, uint64_t box, doomed_steps *d, cb_error *err)
{
	uint64_t deleted;
	d->seqs = mem_alloc(d->most * sizeof(uint64_t));
	if (!d->seqs) return cb_err_nomem(err);
	cb_code code = store_step_walk(cs->s, box, INT64_MAX, 0, false, doom_step, d, err);
	for (size_t i = 0, n; code == CB_OK && i < d->count; i += n) {
		for (n = 1; i + n < d->count && d->seqs[i + n] == d->seqs[i] - n; n++) continue;
		code = store_step_delete(cs->s, box, d->seqs[i + n - 1], d->seqs[i], &deleted, err);
	}
	free(d->seqs);
	return code;
}

/* Steps that two living boxes may have in common. */
static cb_code keep_common_pasts(const reaping *r, uint64_t box, buf *needed, cb_error *err)
{
	CB_TRY(past_needed(&r->edges, box, needed, err));
	if (needed->size) qsort(needed->bytes, needed->size / sizeof(uint64_t), sizeof(uint64_t), u64_compare);
	return CB_OK;
}

/* Forks that came from a step which goes part with the box, at most so many; *more: there may be others. Where several have a step of it in
 * common it stays, and they with it. */
static cb_code part_forks(reaping *r, uint64_t box, const buf *needed, size_t most, bool *more, cb_error *err)
{
	cb_store *cs = r->cs;
	AUTO_BUF buf forks = BUF_INIT(SIZE_MAX);
	size_t parted = 0;
	CB_TRY(store_box_forks(cs->s, box, store_box_collect, &forks, err));
	const store_box *all = (const store_box *)(const void *)forks.bytes;
	for (size_t i = 0; i < forks.size / sizeof(store_box); i++) {
		size_t n = needed->size / sizeof(uint64_t);
		if (n && bsearch(&all[i].origin_seq, needed->bytes, n, sizeof(uint64_t), u64_compare)) continue;
		*more = parted++ == most;
		if (*more) return CB_OK;
		r->writes_roots = true;
		CB_TRY(fork_part(cs, &all[i], err));
	}
	return CB_OK;
}

/* A batch of a deleted box; *more: there is another. *counts: its row was removed, and it was one that a user saw, neither hidden nor a box
 * that was never whole. */
static cb_code reap_box(reaping *r, const store_box *row, bool *more, bool *counts, cb_error *err)
{
	cb_store *cs = r->cs;
	AUTO_BUF buf needed = BUF_INIT(SIZE_MAX);
	/* Read again under the writer lock: a box that was being built may be published, or gone, since the list was made. */
	store_box now;
	graft_stage stage = GRAFT_NONE;
	cb_error why;
	cb_code code = store_box_get(cs->s, row->id, &now, cb_err_aside(&why));
	if (code == CB_NOTFOUND || (code == CB_OK && !now.deleted)) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	CB_TRY(graft_stage_of(cs, row, &stage, err));
	if (stage == GRAFT_LIVING) return CB_OK;
	bool whole = false;
	CB_TRY(kept_keepers(cs, row->id, &needed, &whole, err));
	if (whole) return CB_OK;
	bool in_use = needed.size > 0, pays = true;
	CB_TRY(keep_common_pasts(r, row->id, &needed, err));
	if (needed.size && !in_use) CB_TRY(shrinking_pays(r, row->id, &needed, &pays, err));
	if (!pays) return CB_OK;
	r->writes_roots = needed.size > 0;
	CB_TRY(part_forks(r, row->id, &needed, r->left < PART_BATCH ? r->left : PART_BATCH, more, err));
	if (*more) return CB_OK;
	CB_TRY(keep_needed_roots(cs, row->id, &needed, err));
	const uint64_t *seqs = (const uint64_t *)(const void *)needed.bytes;
	size_t n = needed.size / sizeof(uint64_t);
	CB_TRY(checkpoints_forget(cs, row->id, err));
	doomed_steps d = {.needed = seqs, .needed_count = n, .most = r->left};
	CB_TRY(delete_others(cs, row->id, &d, err));
	r->left -= d.count;
	*more = r->left == 0;
	if (*more || n) return CB_OK;
	/* What tells of steps of several batches is left. */
	uint64_t deleted;
	CB_TRY(store_step_delete(cs->s, row->id, 0, INT64_MAX, &deleted, err));
	*counts = stage == GRAFT_NONE && !box_is_hidden(&now);
	return store_box_remove(cs->s, row->id, err);
}

static cb_code reaping_find(void *context, cb_error *err)
{
	reaping *r = context;
	return past_needs_read(r->cs, &r->edges, err);
}

/* What goes of so many deleted boxes in one transaction. What merges need is found once for them. A box that gets roots, which takes
 * room, is the last. *done: those that are done with. */
static cb_code reap_some(reaping *r, const store_box *rows, size_t count, size_t *done, cb_error *err)
{
	uint64_t freed = 0;
	*done = 0;
	r->writes_roots = false;
	r->looked = 0;
	CB_TRY(past_lock(r->cs, &r->edges, reaping_find, r, err));
	cb_code code = past_needs_read(r->cs, &r->edges, err);
	for (bool more = false; code == CB_OK && !more && !r->writes_roots && r->looked < REAP_BATCH && *done < count;
	     *done += !more) {
		bool counts = false;
		code = reap_box(r, &rows[*done], &more, &counts, err);
		freed += counts;
	}
	code = store_write_end(r->cs->s, code, false, err);
	if (code == CB_OK) r->freed += freed;
	return code;
}

static cb_code reap_rows(reaping *r, const store_box *rows, size_t count, cb_error *err)
{
	static const struct {
		size_t boxes, steps;
	} batches[] = {{REAP_BOXES, REAP_BATCH}, {1, REAP_BATCH}, {1, SHORT_BATCH}, {1, 1}};
	size_t room = 0; /* of batches */
	for (size_t at = 0, done; at < count; at += done) {
		cb_error why = {0};
		size_t boxes = batches[room].boxes, most = batch_of(r->cs, REAP_BATCH);
		r->left = most < batches[room].steps ? most : batches[room].steps;
		cb_code code = reap_some(r, rows + at, boxes < count - at ? boxes : count - at, &done, &why);
		if (code == CB_NOSPACE && room + 1 < ARRAY_LEN(batches)) {
			room++; /* more than the kept room carries: again, in smaller pieces */
			done = 0;
			continue;
		}
		if (code == CB_NOSPACE && r->writes_roots) done = 1; /* it stays until others have made room */
		else if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (done) room = 0;
	}
	return CB_OK;
}

static int youngest_first(const void *a, const void *b)
{
	const store_box *x = a, *y = b;
	return x->id > y->id ? -1 : x->id < y->id;
}

/* A deleted box goes when nobody reads it and no merge needs it. The newest first: a fork is younger than its origin, which
 * so has no forks that go too. */
static cb_code reap_boxes(cb_store *cs, uint64_t *freed, cb_error *err)
{
	reaping r = {.cs = cs};
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(cs->s, true, store_box_collect, &rows, err));
	if (rows.size) qsort(rows.bytes, rows.size / sizeof(store_box), sizeof(store_box), youngest_first);
	store_box *all = (store_box *)(void *)rows.bytes;
	size_t deleted = 0;
	for (size_t i = 0; i < rows.size / sizeof(store_box); i++)
		if (all[i].deleted) all[deleted++] = all[i];
	cb_code code = reap_rows(&r, all, deleted, err);
	past_edges_done(&r.edges);
	*freed = r.freed;
	return code;
}

/* Edges of boxes that are gone, when nobody's past leads through them any more. They are looked for before others are kept from writing. */
static cb_code sweep_edges(cb_store *cs, cb_error *err)
{
	AUTO_BUF buf lost = BUF_INIT(SIZE_MAX);
	CB_TRY(store_edges_lost(cs->s, &lost, err));
	const uint64_t *all = (const uint64_t *)(const void *)lost.bytes;
	size_t count = lost.size / sizeof(*all);
	for (size_t done = 0; done < count;) {
		cb_code code = CB_OK;
		CB_TRY(store_write_begin_as(cs->s, STORE_FREES, err));
		for (size_t n = batch_of(cs, EDGES_BATCH); code == CB_OK && n > 0 && done < count; n--)
			code = store_edge_delete(cs->s, all[done++], err);
		CB_TRY(store_write_end(cs->s, code, false, err));
	}
	return CB_OK;
}

/* What earlier programs left of boxes that are gone. */
static cb_code sweep_leftovers(cb_store *cs, cb_error *err)
{
	CB_TRY(store_write_begin(cs->s, err));
	return store_write_end(cs->s, store_leftover_sweep(cs->s, err), false, err);
}

/* ---- the whole ---- */

/* To every box that is not deleted; they are listed first, since it may write. */
static cb_code to_every_box(cb_store *cs, cb_code (*deed)(cb_store *cs, const store_box *row, cb_error *err), cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(cs->s, false, store_box_collect, &rows, err));
	const store_box *all = (const store_box *)(const void *)rows.bytes;
	for (size_t i = 0; i < rows.size / sizeof(store_box); i++) CB_TRY(deed(cs, &all[i], err));
	return CB_OK;
}

/* A handle stands on the nearest root there was when it was opened, which prune or thinning may since have taken from its step. Heads are
 * written anew with the roots that stay; that raises their stamps, so every handle loads its state again before it is used. */
static cb_code settle_heads(cb_store *cs, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(cs->s, false, store_box_collect, &rows, err));
	const store_box *all = (const store_box *)(const void *)rows.bytes;
	size_t count = rows.size / sizeof(store_box);
	for (size_t done = 0; done < count;) {
		CB_TRY(store_write_begin_as(cs->s, STORE_FREES, err));
		cb_code code = CB_OK;
		for (size_t n = 0; code == CB_OK && done < count && n < batch_of(cs, SETTLE_BATCH); n++)
			code = head_settle(cs, all[done++].id, err);
		code = store_write_end(cs->s, code, false, err);
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

static cb_code prune_base(cb_store *cs, const store_box *row, cb_error *err)
{
	return box_is_base(row) && row->head.seq ? box_prune_hidden(cs, row, err) : CB_OK;
}

/* A base whose box is gone. A box takes its base with it; earlier programs could make one for a box that was being deleted. */
static cb_code reap_base(cb_store *cs, const store_box *row, cb_error *err)
{
	bool lives = true;
	if (box_is_base(row)) CB_TRY(box_lives(cs, box_governed(row), &lives, err));
	if (lives) return CB_OK;
	/* For good: numbers of boxes are given once, and a deleted box does not come back. */
	CB_TRY(store_write_begin_as(cs->s, STORE_FREES, err));
	return store_write_end(cs->s, box_base_delete(cs, box_governed(row), err), false, err);
}

static cb_code gc_run(cb_store *cs, uint64_t horizon, cb_gc_result *result, cb_error *err)
{
	CB_TRY(to_every_box(cs, box_draft_reap, err));
	CB_TRY(to_every_box(cs, reap_base, err));
	CB_TRY(box_lost_reap(cs, err));
	CB_TRY(reap_boxes(cs, &result->boxes_freed, err));
	CB_TRY(sweep_edges(cs, err));
	CB_TRY(sweep_leftovers(cs, err));
	CB_TRY(to_every_box(cs, prune_base, err));
	CB_TRY(to_every_box(cs, thin_box, err));
	CB_TRY(settle_heads(cs, err));
	marking m = {.cs = cs};
	store_gc_stats stats = {0};
	cb_code code = mark_uses(&m, err); /* first: whoever begins later stands on rows that mark_all sees */
	if (code == CB_OK) code = mark_all(&m, err);
	if (code == CB_OK) code = store_gc_sweep(cs->s, horizon, is_marked, &m, &stats, err);
	id_set_done(&m.nodes);
	id_set_done(&m.contents);
	result->nodes_kept = stats.nodes_kept;
	result->nodes_freed = stats.nodes_freed;
	result->contents_kept = stats.contents_kept;
	result->contents_freed = stats.contents_freed;
	result->bytes_freed = stats.bytes_freed;
	return code;
}

cb_code cb_store_gc(cb_store *cs, cb_gc_result *out, cb_error *err)
{
	NEED(err, "store", cs);
	uint64_t horizon = 0;
	cb_gc_result result = CB_INIT(cb_gc_result);
	CB_TRY(SIZED_CHECK(cb_gc_result, boxes_freed, out, err));
	CB_TRY(store_gc_begin(cs->s, &horizon, err));
	/* Before anything goes; but where there is no room for the record, gc is what makes some. */
	audit_did_alone(cs, &(audit_note){box_store_who(cs), "gc", ""});
	cb_code code = gc_run(cs, horizon, &result, err);
	store_gc_end(cs->s);
	if (code == CB_OK) box_side_files_drop(cs);
	if (code == CB_OK) SIZED_GIVE(out, &result);
	return code;
}
