/*
 * undo_choice.c: which step undo and redo take back, and whether one that was named stands.
 */
#include "base/id_set.h"
#include "box/gate.h"
#include "box/graft.h"
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
 *
 * A change that stands is *passed* where nothing is left of it to take back (undo.c). What was passed counts as taken back while the undo
 * stands that passed it: an older change that goes could make room for it again, and who calls undo once more wants the one before. Such
 * an undo is not closed, nor are those that follow it, for a restore that was passed still counts in the past; they say so in their rows
 * (other_seq is the step before them).
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

/* It passed changes on the way to its target. */
static bool has_passed(const store_step *r)
{
	return r->target && r->other_box == 0 && r->other_seq + 1 == r->seq && r->other_seq != r->target;
}

/* An undo that stands: where the walk goes on. */
static cb_code pass_undo(choosing *c, const store_step *r, uint64_t *next, cb_error *err)
{
	const cb_box *b = c->b;
	bool remembered = b->undo_seq == r->seq && b->undo_target == r->target && !gate_has_rules(c->cs, b);
	bool whole = !cancels_between(c, r->target, r->seq);
	if (has_passed(r) || (remembered && b->undo_passed)) c->passed = true;
	if (whole && has_passed(r) && (!c->passed_to || r->target < c->passed_to)) c->passed_to = r->target;
	if (!whole || (!is_closed(r) && !remembered)) return buf_append(&c->cancelled, &r->target, sizeof(uint64_t), err);
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

/* A merge that was decided for the box, or a restore that took it out of the past, changed nothing but what counts as merged, and so did
 * the undo or redo of one. */
bool undo_has_effect(const step_row *r)
{
	static const char *const kinds[] = {"undo", "redo", "merge", "restore"};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(r->kind, kinds[i]) == 0) return true;
	return r->row.weight > 0;
}

static cb_code note_kept(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = step->seq;
	return CB_INTERRUPTED;
}

/* The walk came to a step that was pruned: there was something to undo, and nobody knows what. Who is bound by rules is told no numbers:
 * steps that he does not see are among them. */
static cb_code past_is_pruned(const choosing *c, uint64_t pruned, cb_error *err)
{
	uint64_t kept = 0;
	if (gate_has_rules(c->cs, c->b))
		return cb_err_set(err, CB_NOTHING,
		                  "what came before was pruned and cannot be undone: older states can be restored");
	CB_TRY(store_step_walk(c->cs->s, c->box, pruned - 1, 0, false, note_kept, &kept, err));
	return cb_err_set(
		err, CB_NOTHING,
		"what came before step %llu was pruned and cannot be undone: older states can be restored, the nearest is "
		"that of step %llu",
		(unsigned long long)pruned + 1, (unsigned long long)kept);
}

cb_code undo_choose(choosing *c, bool redo, uint64_t *out, cb_error *err)
{
	AUTO_PAST gate_past past = {0};
	for (uint64_t seq = c->next, next; seq > 0; seq = next) {
		AUTO_STEP_ROW step_row r = {0};
		cb_error why;
		cb_code code = step_row_load(c->cs, c->box, seq, false, &r, cb_err_aside(&why));
		next = seq - 1;
		forget_above(c, seq);
		if (code == CB_STALE && is_cancelled(c, seq)) continue; /* pruned, but it was taken back */
		if (code == CB_STALE && !redo) return past_is_pruned(c, seq, err);
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
			c->passed_redo = true;
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
		if (c->passed_to && seq > c->passed_to) continue;
		*out = seq;
		c->next = next;
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
 * A restore of a whole state brings back what stood in it: the walk goes on there. One of a path can bring the step back, if it changed
 * something that the step had changed, and the step was not undone where that came from. Nothing else brings a step back: who makes the
 * same bytes again, by hand, by a merge or out of another box, made a step that has a number of its own to be undone by.
 */
typedef struct chain {
	cb_box *b;
	buf links; /* uint64_t: newest first */
	id_set has;
	buf turns;    /* turn: above its last link, newest first */
	bool suspect; /* one of them may have taken a link back */
	gate_past past;
	pmap keys;     /* what the first link changed: keys, and */
	id_set inos;   /* whose names */
	bool restored; /* the restore that is looked at changed one of them */
} chain;

/* An undo or redo, or (target 0) a restore from a state of the box. */
typedef struct turn {
	uint64_t seq, target, source;
	bool whole;
} turn;

static void chain_done(chain *c)
{
	buf_done(&c->links);
	buf_done(&c->turns);
	gate_past_done(&c->past);
	pmap_done(&c->keys);
	id_set_done(&c->inos);
	id_set_done(&c->has);
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
static cb_code note_turn(void *context, const store_step *step, cb_error *err)
{
	chain *c = context;
	bool whole = !step->params_content && (step->params.size == 0 || span_equal(step->params, span_str("/")));
	turn t = {step->seq, step->target, step->other_seq, whole};
	bool own = step->other_box == c->b->id || step->other_box == FOREIGN_BOX; /* of an unpacked box: its own */
	bool restore = !t.target && own && strcmp(step->kind, "restore") == 0;
	if (t.target || restore) CB_TRY(buf_append(&c->turns, &t, sizeof(t), err));
	if (id_set_has(&c->has, t.target) && !id_set_has(&c->has, t.seq)) c->suspect = true;
	return step->gap ? CB_INTERRUPTED : CB_OK;
}

/*
 * What a change is about: its key and, of a name, the inodes that had it, which may have another name by now. Nothing: counters change with
 * everything, and so do a folder's times.
 */
typedef struct about {
	bool something;
	uint64_t inos[2]; /* 0: none */
} about;

static cb_code about_read(span key_bytes, span old_value, span new_value, about *out, cb_error *err)
{
	bool touch = key_bytes.bytes[0] == KIND_COUNTERS;
	entry was = {0}, is = {0};
	if (!touch) CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (!touch && key_bytes.bytes[0] == KIND_ENTRY) {
		if (old_value.bytes) CB_TRY(entry_decode(old_value, &was, err));
		if (new_value.bytes) CB_TRY(entry_decode(new_value, &is, err));
	}
	*out = (about){!touch, {was.rec.ino, is.rec.ino}};
	return CB_OK;
}

static cb_code note_changed(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	chain *c = context;
	about what;
	bool known = false;
	CB_TRY(about_read(key_bytes, old_value, new_value, &what, err));
	if (!what.something) return CB_OK;
	for (int i = 0; i < 2; i++)
		if (what.inos[i]) CB_TRY(id_set_add(&c->inos, what.inos[i], &known, err));
	return pmap_put_tombstone(&c->keys, key_bytes, err);
}

static cb_code find_changed(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	chain *c = context;
	about what;
	span ignored;
	CB_TRY(about_read(key_bytes, old_value, new_value, &what, err));
	if (!what.something) return CB_OK;
	c->restored = pmap_get(&c->keys, key_bytes, &ignored) != PMAP_ABSENT || id_set_has(&c->inos, what.inos[0]) ||
	              id_set_has(&c->inos, what.inos[1]);
	return c->restored ? CB_INTERRUPTED : CB_OK;
}

static cb_code brings_some(chain *c, const turn *restore, bool *out, cb_error *err)
{
	const uint64_t *links = (const uint64_t *)(const void *)c->links.bytes;
	cb_store *cs = c->b->cs;
	uint64_t box = c->b->id;
	cb_code code = CB_OK;
	cb_error why;
	c->restored = false;
	if (pmap_count(&c->keys) == 0) code = step_changes(cs, box, links[0], note_changed, c, cb_err_aside(&why));
	if (code == CB_OK) code = step_changes(cs, box, restore->seq, find_changed, c, cb_err_aside(&why));
	*out = c->restored;
	return code == CB_OK || code == CB_STALE ? CB_OK : cb_err_pass(err, code, &why);
}

/* The newest link that was there at a step. */
static uint64_t link_at(const chain *c, uint64_t seq)
{
	const uint64_t *link = (const uint64_t *)(const void *)c->links.bytes;
	while (*link > seq) link++;
	return *link;
}

/* As of a step. above: what later ones took back; then no restored path is looked into, so that the depth is one. */
static cb_code is_undone(chain *c, uint64_t at, const id_set *above, bool *out, cb_error *err)
{
	const cb_box *b = c->b;
	AUTO_ID_SET id_set cancelled = {0};
	const turn *all = (const turn *)(const void *)c->turns.bytes, *end = all + c->turns.size / sizeof(*all);
	*out = false;
	for (const turn *t = all; t < end && !*out; t++) {
		gate_touch touch;
		bool some = false;
		if (t->seq > at || id_set_has(&cancelled, t->seq) || (above && id_set_has(above, t->seq))) continue;
		CB_TRY(gate_step_touch(&c->past, b->cs, b->id, b->who, t->seq, &touch, err));
		if (touch.hidden && !touch.shown) continue;
		if (t->target) {
			CB_TRY(id_set_add(&cancelled, t->target, &some, err));
			*out = id_set_has(&c->has, t->target) && !id_set_has(&c->has, t->seq);
			continue;
		}
		if (t->source < link_at(c, t->seq)) continue;
		if (t->whole) at = t->source;
		else if (!above) CB_TRY(brings_some(c, t, &some, err));
		if (!some) continue;
		CB_TRY(is_undone(c, t->source, &cancelled, &some, err));
		if (!some) return CB_OK;
	}
	return CB_OK;
}

cb_code undo_is_done(cb_box *b, uint64_t seq, bool *out, cb_error *err)
{
	ATTR_CLEANUP(chain_done) chain c = {.b = b, .links = BUF_INIT(SIZE_MAX), .turns = BUF_INIT(SIZE_MAX)};
	uint64_t head = b->head->seq;
	*out = false;
	CB_TRY(chain_load(&c, seq, err));
	const uint64_t *links = (const uint64_t *)(const void *)c.links.bytes;
	uint64_t last = links[c.links.size / sizeof(uint64_t) - 1];
	if (last >= head) return CB_OK;
	CB_TRY(store_step_walk(b->cs->s, b->id, head, last + 1, false, note_turn, &c, err));
	return c.suspect ? is_undone(&c, head, NULL, out, err) : CB_OK;
}
