/*
 * undo.c: undo and redo. Each is a new step; nothing is erased.
 *
 * Versions only grow: whatever an undo brings back gets the new state as its version, so a version somebody read earlier never matches
 * again.
 */
#include "base/args.h"
#include "base/cancel.h"
#include "base/id_set.h"
#include "box/gate.h"
#include "box/history.h"

/* ---- undo ---- */

/* A folder whose record the step changed in times and version only. */
typedef struct retimed {
	record was, is;
} retimed;

typedef struct reversal {
	txn *t;
	counters shift; /* files and bytes, as two's complement differences */
	buf returned;   /* uint64_t: inodes that got an entry or an attribute back, each once: */
	id_set known;
	buf marked;     /* uint64_t: inodes of which an attribute, tag or metadata came back, changed or went */
	id_set entered; /* folders of which an entry came, went or was replaced: their times follow, and are of now */
	buf retimed;    /* retimed: of the others somebody set them */
	bool blocked;   /* something was changed since: needs a merge */
} reversal;

static void reversal_done(reversal *r)
{
	buf_done(&r->returned);
	id_set_done(&r->known);
	buf_done(&r->marked);
	id_set_done(&r->entered);
	buf_done(&r->retimed);
}

static cb_code note_times(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	reversal *r = context;
	key_parts parts;
	entry was = {0}, is = {0};
	bool touch = false;
	if (key_bytes.bytes[0] != KIND_ENTRY) return CB_OK;
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (old_value.bytes) CB_TRY(entry_decode(old_value, &was, err));
	if (new_value.bytes) CB_TRY(entry_decode(new_value, &is, err));
	if (was.rec.ino != is.rec.ino) return id_set_add(&r->entered, parts.ino, &touch, err);
	CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	return touch ? buf_append(&r->retimed, &(retimed){was.rec, is.rec}, sizeof(retimed), err) : CB_OK;
}

static cb_code reverse_entered(reversal *r, cb_error *err)
{
	const retimed *all = (const retimed *)(const void *)r->retimed.bytes;
	tree_view v = txn_raw(r->t);
	for (size_t i = 0; i < r->retimed.size / sizeof(*all) && !r->blocked; i++) {
		inode dir;
		if (!id_set_has(&r->entered, all[i].is.ino)) continue;
		cb_code code = inode_find(&v, all[i].is.ino, &dir, err);
		r->blocked = code == CB_NOTFOUND;
		if (r->blocked) return CB_OK;
		if (code != CB_OK) return code;
		inode_changed(r->t, &dir, true);
		CB_TRY(inode_save(r->t, &dir, err));
	}
	return CB_OK;
}

/* To lose or get an attribute changes an inode. A file's record is in the step; a folder's was taken for one whose entries changed. */
static cb_code reverse_marked(const reversal *r, cb_error *err)
{
	const uint64_t *inos = (const uint64_t *)(const void *)r->marked.bytes;
	tree_view v = txn_raw(r->t);
	for (size_t i = 0; i < r->marked.size / sizeof(*inos); i++) {
		inode node;
		cb_code code = inode_find(&v, inos[i], &node, err);
		if (code == CB_NOTFOUND) continue; /* it went with them, or see check_returned */
		if (code != CB_OK) return code;
		if (node.rec.version == 0) continue;
		inode_changed(r->t, &node, false);
		CB_TRY(inode_save(r->t, &node, err));
	}
	return CB_OK;
}

/* A time that is no longer the one that was set is a later one, and stands. */
static cb_code reverse_times(const reversal *r, cb_error *err)
{
	const retimed *all = (const retimed *)(const void *)r->retimed.bytes;
	tree_view v = txn_raw(r->t);
	for (size_t i = 0; i < r->retimed.size / sizeof(*all); i++) {
		const record *was = &all[i].was, *is = &all[i].is;
		inode dir;
		if (id_set_has(&r->entered, is->ino)) continue;
		cb_code code = inode_find(&v, is->ino, &dir, err);
		if (code == CB_NOTFOUND) continue;
		if (code != CB_OK) return code;
		record now = dir.rec;
		if (now.mtime_ns == is->mtime_ns) dir.rec.mtime_ns = was->mtime_ns;
		if (now.atime_ns == is->atime_ns) dir.rec.atime_ns = was->atime_ns;
		if (now.mtime_ns == dir.rec.mtime_ns && now.atime_ns == dir.rec.atime_ns) continue;
		inode_changed(r->t, &dir, false);
		CB_TRY(inode_save(r->t, &dir, err));
	}
	return CB_OK;
}

static cb_code note_returned(reversal *r, uint64_t ino, cb_error *err)
{
	bool known = false;
	CB_TRY(id_set_add(&r->known, ino, &known, err));
	return known ? CB_OK : buf_append(&r->returned, &ino, sizeof(ino), err);
}

static cb_code reverse_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	reversal *r = context;
	if (key_bytes.bytes[0] == KIND_COUNTERS) {
		counters a = {0}, b = {0};
		if (old_value.bytes) CB_TRY(counters_decode(old_value, &a, err));
		if (new_value.bytes) CB_TRY(counters_decode(new_value, &b, err));
		r->shift = (counters){a.files - b.files, a.bytes - b.bytes};
		return CB_OK;
	}
	bool touch = false;
	CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch) return CB_OK; /* see reverse_entered, reverse_marked and reverse_times */
	tree_view head = state_view(r->t->cs, r->t->base);
	tree_value now, value;
	cb_code code = tree_get(&head, key_bytes, &now, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	bool same = code == CB_OK ? new_value.bytes != NULL : !new_value.bytes;
	/* A redo brings back what a step made, but under a version of its own. */
	if (same && new_value.bytes) CB_TRY(record_same(key_bytes, span_make(now.bytes, now.size), new_value, &same, err));
	if (!same) {
		r->blocked = true;
		return CB_INTERRUPTED;
	}
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	bool attribute = parts.kind == KIND_ATTR || parts.kind == KIND_TAG;
	if (attribute) CB_TRY(buf_append(&r->marked, &parts.ino, sizeof(uint64_t), err));
	if (!old_value.bytes) return pmap_put_tombstone(&r->t->delta, key_bytes, err);
	if (attribute) CB_TRY(note_returned(r, parts.ino, err));
	if (parts.kind == KIND_ENTRY) {
		entry e;
		CB_TRY(entry_decode(old_value, &e, err));
		CB_TRY(note_returned(r, e.rec.ino, err));
	}
	CB_TRY(record_reopen(key_bytes, old_value, &value, err));
	return pmap_put(&r->t->delta, key_bytes, span_make(value.bytes, value.size), err);
}

static cb_code count_key(void *context, span key_bytes, span value, cb_error *err)
{
	(void)key_bytes;
	(void)value;
	(void)err;
	++*(uint64_t *)context;
	return CB_OK;
}

/* The step's keys are as it left them, but an inode that it took away may have come back elsewhere since: then it would have two places.
 * And a folder whose attribute it removed may be gone: then the attribute would be nobody's. */
static cb_code check_returned(reversal *r, cb_error *err)
{
	const uint64_t *inos = (const uint64_t *)(const void *)r->returned.bytes;
	tree_view v = txn_raw(r->t);
	for (size_t i = 0; i < r->returned.size / sizeof(uint64_t) && !r->blocked; i++) {
		inode node;
		uint64_t places = 0;
		cb_code code = inode_find(&v, inos[i], &node, NULL);
		if (code == CB_OK) CB_TRY(inode_keys(&v, inos[i], KIND_NAME, count_key, &places, err));
		r->blocked = code != CB_OK || (inos[i] != INO_ROOT && places != node.rec.links);
	}
	return CB_OK;
}

/* For cb_txn_conflicts. */
static cb_code list_conflicts(cb_box *b, const merge_conflicts *c, cb_error *err)
{
	cb_code code = CB_OK;
	for (const merge_conflict *one = c->all; one < c->all + c->count && code == CB_OK; one++)
		code = lost_paths_add(&b->lost, one->path, one->reason, one->contradicts, err);
	if (code == CB_OK) box_lost_listed(b);
	return code;
}

/* The step's neighbours, as the two sides of a reverse merge. */
static cb_code reverse_by_merge(txn *t, uint64_t box, uint64_t seq, cb_error *err)
{
	AUTO_KEPT kept_state before = {0};
	AUTO_KEPT kept_state after = {0};
	AUTO_STATE state *gap = NULL;
	CB_TRY(kept_load(&after, t->cs, box, seq, KEPT_CALL, err));
	cb_error why;
	cb_code code = kept_load(&before, t->cs, box, seq - 1, KEPT_CALL, cb_err_aside(&why));
	if (code == CB_STALE) code = state_before_gap(t->cs, after.s, &gap, cb_err_aside(&why));
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	tree_view base = state_view(t->cs, after.s), ours = state_view(t->cs, t->base);
	tree_view theirs = state_view(t->cs, gap ? gap : before.s);
	merge_conflicts conflicts = {.list = BUF_INIT(CONFLICT_LIST_BYTES)};
	merge_sides sides = {.base = &base, .ours = &ours, .theirs = &theirs, .back = true};
	code = merge_sides_into(t, &sides, &conflicts, err);
	if (code == CB_OK && conflicts.open) {
		code = list_conflicts(t->b, &conflicts, err);
		if (code == CB_OK) code = merge_conflicts_error(&conflicts, "later steps changed the same", err);
	}
	merge_conflicts_done(&conflicts);
	return code;
}

/* Key by key; r->blocked when that cannot be. */
static cb_code reverse_keys(reversal *r, uint64_t box, uint64_t seq, cb_error *err)
{
	CB_TRY(step_changes(r->t->cs, box, seq, reverse_key, r, err));
	if (!r->blocked) CB_TRY(reverse_entered(r, err));
	if (!r->blocked) CB_TRY(reverse_marked(r, err));
	if (!r->blocked) CB_TRY(check_returned(r, err));
	if (r->blocked) return CB_OK;
	cb_code code = txn_count(r->t, (int64_t)r->shift.files, (int64_t)r->shift.bytes, err);
	r->blocked = code == CB_CORRUPT;
	return r->blocked ? CB_OK : code;
}

static cb_code txn_start_over(txn *t, cb_error *err)
{
	tree_view v = state_view(t->cs, t->base);
	key k = key_counters();
	tree_value value;
	pmap_done(&t->delta);
	t->now = (counters){0};
	cb_code code = tree_get(&v, key_span(&k), &value, err);
	if (code == CB_OK) code = counters_decode(span_make(value.bytes, value.size), &t->now, err);
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code reverse_step(txn *t, uint64_t box, uint64_t seq, cb_error *err)
{
	ATTR_CLEANUP(reversal_done)
	reversal r = {.t = t, .returned = BUF_INIT(SIZE_MAX), .marked = BUF_INIT(SIZE_MAX), .retimed = BUF_INIT(SIZE_MAX)};
	CB_TRY(step_changes(t->cs, box, seq, note_times, &r, err));
	CB_TRY(reverse_keys(&r, box, seq, err));
	if (r.blocked) {
		CB_TRY(txn_start_over(t, err));
		CB_TRY(reverse_by_merge(t, box, seq, err));
	}
	return reverse_times(&r, err);
}

/* ---- the calls ---- */

typedef struct undoing {
	bool redo;
	uint64_t seq;    /* 0: to be chosen */
	uint64_t target; /* the one that was chosen */
} undoing;

static cb_code undone_already(uint64_t seq, cb_error *err)
{
	return cb_err_set(err, CB_NOTHING, "what step %llu did is undone already", (unsigned long long)seq);
}

/* What changed nothing (a merge that was decided for the box, a restore that took such a one out of the past, an undo of them) can be seen
 * by the past alone. Where all that came later was taken back, its edge counts; a restore that was passed may lead around it. */
static cb_code moves_past(const cb_box *b, const choosing *c, uint64_t seq, bool last, bool *out, cb_error *err)
{
	store_edge e;
	CB_TRY(store_edge_before(b->cs->s, b->id, seq, &e, out, err));
	*out = *out && e.seq == seq;
	if (!*out || (last && !c->passed && !c->passed_hidden && !c->passed_redo)) return CB_OK;
	return past_needs_edge(b->cs, (past_point){b->id, b->head->seq}, seq, out, err);
}

/* *done false: nothing is left of the step to be taken back. Then nothing was changed. */
static cb_code take_back(op *o, const undoing *u, const choosing *c, uint64_t seq, bool *done, cb_error *err)
{
	cb_box *b = o->b;
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(b->cs, b->id, seq, false, &r, err));
	gate_touch touch;
	CB_TRY(gate_step_touch(NULL, b->cs, b->id, b->who, seq, &touch, err));
	if (seq == 0 || !undo_has_effect(&r) || (touch.hidden && !touch.shown))
		return cb_err_set(err, CB_NOTHING, "step %llu changed nothing", (unsigned long long)seq);
	/* The part that is seen cannot be taken back alone: the step would count as undone. And nothing is told of a conflict with what is
	 * hidden. */
	CB_TRY(gate_step_reversed(b, seq, err));
	bool undone = false;
	*done = false;
	if (u->seq) CB_TRY(undo_is_done(b, seq, &undone, err));
	if (undone) return undone_already(seq, err);
	ATTR_CLEANUP(txn_point_done) txn_point before = txn_point_take(o->t);
	cb_code code = reverse_step(o->t, b->id, seq, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "undoing step %llu", (unsigned long long)seq);
	bool empty = false; /* and where it is not, it may be that nobody can see it */
	CB_TRY(txn_is_empty(o->t, &empty, err));
	if (!empty) CB_TRY(txn_shows(o->t, &before, done, err));
	bool past_only = !*done && (!empty || r.row.weight == 0);
	if (past_only) CB_TRY(moves_past(b, c, seq, u->seq == 0, &o->t->record, err));
	*done = *done || o->t->record;
	if (!*done) txn_point_back(&before, o->t);
	return CB_OK;
}

/* The last one of which something is left. What is passed on the way was taken back by others, or is there again: an empty step would say
 * that it changed something, and be the next to be redone. */
static cb_code take_back_last(op *o, const undoing *u, choosing *c, uint64_t *out, cb_error *err)
{
	for (bool done = false; !done; c->passed = c->passed || !done) {
		CB_TRY(cancel_check(err));
		CB_TRY(undo_choose(c, u->redo, out, err));
		CB_TRY(take_back(o, u, c, *out, &done, err));
	}
	return CB_OK;
}

/* Of an undo that chose its step: what it passed, for whoever comes after it. */
static void remember_choice(op *o, choosing *c, uint64_t seq)
{
	cb_box *b = o->b;
	bool closed = c->cancelled.size == 0 && !c->passed;
	if (!c->passed_hidden && (closed || c->passed)) o->t->other_seq = closed ? seq : b->head->seq;
	buf_done(&b->undo_cancelled);
	b->undo_cancelled = c->cancelled; /* all below seq */
	c->cancelled = BUF_INIT(0);
	b->undo_seq = c->passed_hidden ? 0 : b->head->seq + 1; /* under the writer lock: the step to be */
	b->undo_target = seq;
	b->undo_passed = c->passed;
}

static cb_code undo_chosen(op *o, void *context, cb_error *err)
{
	undoing *u = context;
	cb_box *b = o->b;
	bool done = true;
	uint64_t seq = u->seq;
	CB_TRY(box_refuse_txn(b, u->redo ? "redo" : "undo", err));
	box_lost_forget(b);
	AUTO_KEPT kept_state history = {0}; /* what is chosen must be there when it is taken back */
	CB_TRY(kept_history(&history, b->cs, o->t->base, KEPT_VISIT, err));
	choosing c = {.b = b, .cs = b->cs, .box = b->id, .next = b->head->seq, .cancelled = BUF_INIT(1 << 26)};
	cb_code code = seq ? take_back(o, u, &c, seq, &done, err) : take_back_last(o, u, &c, &seq, err);
	if (code == CB_OK && !u->redo && u->seq == 0) remember_choice(o, &c, seq);
	buf_done(&c.cancelled);
	if (code != CB_OK) return code;
	if (!done) return cb_err_set(err, CB_NOTHING, "nothing is left of what step %llu did", (unsigned long long)seq);
	o->t->target = u->target = seq;
	/* One that was named stays the one that is meant, whatever others do. */
	o->t->rebases = u->seq != 0;
	if (u->seq && u->seq == b->head->seq) o->t->other_seq = u->seq;
	o->t->closes = o->t->other_seq != 0;
	return CB_OK;
}

static cb_code undo_call(cb_box *b, const char *kind, bool redo, uint64_t seq, uint64_t *out_seq, cb_error *err)
{
	undoing u = {redo, seq, 0};
	cb_commit_result result = {0};
	CB_TRY(op_run(b, redo ? STORE_GROWS : STORE_SHRINKS, kind, "", undo_chosen, &u, &result, err));
	/* Others were faster, and took back what it did. */
	if (!result.seq) return undone_already(u.target, err);
	if (out_seq) *out_seq = result.seq;
	return CB_OK;
}

cb_code cb_undo(cb_box *b, uint64_t seq, uint64_t *out_seq, cb_error *err)
{
	NEED(err, "box", b);
	return undo_call(b, "undo", false, seq, out_seq, err);
}

cb_code cb_redo(cb_box *b, uint64_t *out_seq, cb_error *err)
{
	NEED(err, "box", b);
	return undo_call(b, "redo", true, 0, out_seq, err);
}
