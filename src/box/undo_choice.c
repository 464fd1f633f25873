/*
 * undo_choice.c: which step undo and redo take back, and whether one that was named stands.
 */
#include "base/id_set.h"
#include "box/gate.h"
#include "box/history.h"

/* ---- the last that stands ---- */

/*
 * What stands: from the newest step down, an undo or redo that stands takes its target back, and a step that nobody took back stands. Undo
 * takes the last change that stands; so it walks down from the head and keeps the targets that it met, the *cancelled* steps.
 *
 * An undo is *closed* when at its making everything between it and its target was cancelled, and nothing there takes back a step below its
 * target. It says so in its row (other_seq is its target, without an other_box), and the walk goes on below its target at once, unless
 * something above took back a step between the two. So undoing k times costs k looks, not k times k. One that was chosen while older
 * steps were undone by number is not closed; a handle remembers what was cancelled below its last undo, and goes on from there.
 */
static bool is_cancelled(const choosing *c, uint64_t seq)
{
	const uint64_t *all = (const uint64_t *)(const void *)c->cancelled.bytes;
	for (size_t i = 0; i < c->cancelled.size / sizeof(uint64_t); i++)
		if (all[i] == seq) return true;
	return false;
}

/* Nobody asks again about steps that were passed. */
static void forget_above(choosing *c, uint64_t seq)
{
	uint64_t *all = (uint64_t *)(void *)c->cancelled.bytes;
	size_t kept = 0;
	for (size_t i = 0; i < c->cancelled.size / sizeof(uint64_t); i++)
		if (all[i] <= seq) all[kept++] = all[i];
	c->cancelled.size = kept * sizeof(uint64_t);
}

static bool cancels_between(const choosing *c, uint64_t low, uint64_t high)
{
	const uint64_t *all = (const uint64_t *)(const void *)c->cancelled.bytes;
	for (size_t i = 0; i < c->cancelled.size / sizeof(uint64_t); i++)
		if (all[i] > low && all[i] < high) return true;
	return false;
}

static bool is_closed(const store_step *r)
{
	return r->target && r->other_box == 0 && (r->other_seq == r->target || r->target + 1 == r->seq);
}

/* An undo that stands: where the walk goes on. */
static cb_code pass_undo(choosing *c, const store_step *r, uint64_t *next, cb_error *err)
{
	const cb_box *b = c->b;
	bool remembered = b->undo_seq == r->seq && b->undo_target == r->target && !gate_has_rules(c->cs, b);
	if ((!is_closed(r) && !remembered) || cancels_between(c, r->target, r->seq))
		return buf_append(&c->cancelled, &r->target, sizeof(uint64_t), err);
	*next = r->target - 1;
	return is_closed(r) ? CB_OK : buf_append(&c->cancelled, b->undo_cancelled.bytes, b->undo_cancelled.size, err);
}

/* The undo that a redo took back, when it was closed: then the step it had undone is the newest that stands. *out 0: look further. */
static cb_code redone_step(choosing *c, uint64_t redo, uint64_t undo, uint64_t *out, cb_error *err)
{
	AUTO_STEP_ROW step_row r = {0};
	*out = 0;
	cb_error why;
	cb_code code = step_row_load(c->cs, c->box, undo, false, &r, cb_err_aside(&why));
	if (code == CB_STALE) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	if (strcmp(r.kind, "undo") == 0 && is_closed(&r.row) && !cancels_between(c, r.row.target, redo)) *out = r.row.target;
	return CB_OK;
}

/* An undo or redo that found nothing left to change still says which step it took back; a merge that was decided for the box changed
 * nothing but what counts as merged. */
bool undo_has_effect(const step_row *r)
{
	return r->row.weight > 0 || strcmp(r->kind, "undo") == 0 || strcmp(r->kind, "redo") == 0 || strcmp(r->kind, "merge") == 0;
}

cb_code undo_choose(choosing *c, uint64_t head, bool redo, uint64_t *out, cb_error *err)
{
	AUTO_PAST gate_past past = {0};
	for (uint64_t seq = head, next; seq > 0; seq = next) {
		AUTO_STEP_ROW step_row r = {0};
		cb_error why;
		cb_code code = step_row_load(c->cs, c->box, seq, false, &r, cb_err_aside(&why));
		next = seq - 1;
		forget_above(c, seq);
		if (code == CB_STALE && is_cancelled(c, seq)) continue; /* pruned, but it was taken back */
		if (code == CB_STALE) break;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		bool is_undo = strcmp(r.kind, "undo") == 0, is_redo = strcmp(r.kind, "redo") == 0;
		gate_touch touch;
		CB_TRY(gate_step_touch(&past, c->cs, c->box, c->b->who, seq, &touch, err));
		if (touch.hidden && !touch.shown) { /* to who looks through this handle it changed nothing */
			c->passed_hidden = true;
			continue;
		}
		if (!undo_has_effect(&r) || is_cancelled(c, seq)) continue;
		if (is_redo && redo) {
			next = r.row.target - 1; /* between the two is nothing but undos that were redone */
			continue;
		}
		if (is_redo) {
			uint64_t stands = 0;
			CB_TRY(redone_step(c, seq, r.row.target, &stands, err));
			if (stands) next = stands;
			else CB_TRY(buf_append(&c->cancelled, &r.row.target, sizeof(uint64_t), err));
			continue;
		}
		if (is_undo && !redo) {
			CB_TRY(pass_undo(c, &r.row, &next, err));
			continue;
		}
		if (redo && !is_undo) break;
		*out = seq;
		return CB_OK;
	}
	return cb_err_set(err, CB_NOTHING, redo ? "there is nothing to redo" : "there is nothing to undo");
}

/* ---- is it undone? ---- */

/*
 * To undo a step by its number changes what stands, or there is nothing to do: by the targets alone, whatever the bytes are, which may be
 * the same by chance. Its *chain* is the step, its target, the target of that, and so on. Undoing it turns each of them over, so it is
 * without effect when an undo or redo that stands, and is not of the chain, has taken one of them back already.
 *
 * Others than undo and redo know nothing of that: what a restore or a merge brought back is there, and can be taken back once more.
 */
typedef struct chain {
	cb_box *b;
	buf links; /* uint64_t: newest first */
	id_set has;
	id_set cancelled;
	buf returns; /* returned: the undos and redos above its last link, newest first */
} chain;

typedef struct returned {
	uint64_t seq, target;
} returned;

static void chain_done(chain *c)
{
	buf_done(&c->links);
	buf_done(&c->returns);
	id_set_done(&c->has);
	id_set_done(&c->cancelled);
}

static cb_code chain_load(chain *c, uint64_t seq, cb_error *err)
{
	const cb_box *b = c->b;
	for (uint64_t at = seq, next; at; at = next) {
		AUTO_STEP_ROW step_row r = {0};
		cb_error why;
		bool known = false;
		CB_TRY(buf_append(&c->links, &at, sizeof(at), err));
		CB_TRY(id_set_add(&c->has, at, &known, err));
		cb_code code = step_row_load(b->cs, b->id, at, false, &r, cb_err_aside(&why));
		if (code == CB_STALE) return CB_OK;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		next = r.row.target < at ? r.row.target : 0;
	}
	return CB_OK;
}

/* What was pruned below a gap may have taken anything back: nobody knows. */
static cb_code note_return(void *context, const store_step *step, cb_error *err)
{
	chain *c = context;
	if (step->target) CB_TRY(buf_append(&c->returns, &(returned){step->seq, step->target}, sizeof(returned), err));
	return step->gap ? CB_INTERRUPTED : CB_OK;
}

/* Did one of the steps between two bring a link of the chain back? */
typedef struct bringing {
	const chain *c;
	pmap made;   /* what the link left behind; tombstones: what it took away */
	buf changes; /* uint64_t: steps that stand and are neither undo nor redo */
	bool found;
} bringing;

static void bringing_done(bringing *f)
{
	pmap_done(&f->made);
	buf_done(&f->changes);
}

static cb_code note_made(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	bringing *f = context;
	bool touch = key_bytes.bytes[0] == KIND_COUNTERS;
	if (!touch) CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch) return CB_OK;
	return new_value.bytes ? pmap_put(&f->made, key_bytes, new_value, err) : pmap_put_tombstone(&f->made, key_bytes, err);
}

static cb_code note_change(void *context, const store_step *step, cb_error *err)
{
	bringing *f = context;
	if (step->weight == 0 || step->target || id_set_has(&f->c->cancelled, step->seq)) return CB_OK;
	return buf_append(&f->changes, &step->seq, sizeof(uint64_t), err);
}

/* But for a file's number, version and ctime, which nobody brings back. */
static cb_code is_same_again(span key_bytes, span was, span is, bool *out, cb_error *err)
{
	entry a = {0}, b = {0};
	bool named = key_bytes.bytes[0] == KIND_ENTRY;
	if (!named && key_bytes.bytes[0] != KIND_INODE) {
		*out = span_equal(was, is);
		return CB_OK;
	}
	CB_TRY(named ? entry_decode(was, &a, err) : record_decode(was, &a.rec, err));
	CB_TRY(named ? entry_decode(is, &b, err) : record_decode(is, &b.rec, err));
	if (!a.is_link && !b.is_link) b.rec.ino = a.rec.ino;
	b.rec.version = a.rec.version;
	b.rec.ctime_ns = a.rec.ctime_ns;
	tree_value x, y;
	entry_encode(&a, &x);
	entry_encode(&b, &y);
	*out = span_equal(span_make(x.bytes, x.size), span_make(y.bytes, y.size));
	return CB_OK;
}

static cb_code find_made(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	bringing *f = context;
	span made;
	pmap_found there = pmap_get(&f->made, key_bytes, &made);
	f->found = there == PMAP_TOMBSTONE && !new_value.bytes;
	if (there == PMAP_VALUE && new_value.bytes) CB_TRY(is_same_again(key_bytes, made, new_value, &f->found, err));
	return f->found ? CB_INTERRUPTED : CB_OK;
}

static cb_code came_back(const chain *c, uint64_t link, uint64_t above, uint64_t below, bool *out, cb_error *err)
{
	ATTR_CLEANUP(bringing_done) bringing f = {.c = c, .changes = BUF_INIT(SIZE_MAX)};
	cb_store *cs = c->b->cs;
	uint64_t box = c->b->id;
	cb_error why;
	*out = false;
	if (above + 1 >= below) return CB_OK;
	CB_TRY(store_step_walk(cs->s, box, below - 1, above + 1, false, note_change, &f, err));
	if (f.changes.size == 0) return CB_OK;
	cb_code code = step_changes(cs, box, link, note_made, &f, cb_err_aside(&why));
	const uint64_t *all = (const uint64_t *)(const void *)f.changes.bytes;
	for (size_t i = 0; i < f.changes.size / sizeof(uint64_t) && code == CB_OK && !f.found; i++)
		code = step_changes(cs, box, all[i], find_made, &f, cb_err_aside(&why));
	*out = f.found || code == CB_STALE; /* it may have been */
	return code == CB_OK || code == CB_STALE ? CB_OK : cb_err_pass(err, code, &why);
}

/* Was the link taken back by a step that stands, and not brought back until the next link, or the head, was made? */
static cb_code is_spoiled(const chain *c, const returned *by, bool *out, cb_error *err)
{
	const uint64_t *links = (const uint64_t *)(const void *)c->links.bytes;
	size_t i = 0;
	while (links[i] != by->target) i++;
	bool back = false;
	CB_TRY(came_back(c, by->target, by->seq, i ? links[i - 1] : c->b->head->seq + 1, &back, err));
	*out = !back;
	return CB_OK;
}

cb_code undo_is_done(cb_box *b, uint64_t seq, bool *out, cb_error *err)
{
	AUTO_PAST gate_past past = {0};
	ATTR_CLEANUP(chain_done) chain c = {.b = b, .links = BUF_INIT(SIZE_MAX), .returns = BUF_INIT(SIZE_MAX)};
	*out = false;
	CB_TRY(chain_load(&c, seq, err));
	const uint64_t *links = (const uint64_t *)(const void *)c.links.bytes;
	uint64_t last = links[c.links.size / sizeof(uint64_t) - 1];
	if (last >= b->head->seq) return CB_OK;
	CB_TRY(store_step_walk(b->cs->s, b->id, b->head->seq, last + 1, false, note_return, &c, err));
	const returned *all = (const returned *)(const void *)c.returns.bytes;
	for (size_t i = 0; i < c.returns.size / sizeof(*all) && !*out; i++) {
		gate_touch touch;
		bool known = false;
		if (id_set_has(&c.cancelled, all[i].seq)) continue;
		CB_TRY(gate_step_touch(&past, b->cs, b->id, b->who, all[i].seq, &touch, err));
		if (touch.hidden && !touch.shown) continue;
		CB_TRY(id_set_add(&c.cancelled, all[i].target, &known, err));
		if (id_set_has(&c.has, all[i].seq) || !id_set_has(&c.has, all[i].target)) continue;
		CB_TRY(is_spoiled(&c, &all[i], out, err));
	}
	return CB_OK;
}
