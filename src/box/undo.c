/*
 * undo.c: undo and redo. Each is a new step; nothing is erased.
 *
 * Versions only grow: whatever an undo brings back gets the new state as its version, so a version somebody read earlier never matches
 * again.
 */
#include "box/history.h"

/* ---- undo ---- */

typedef struct reversal {
	txn *t;
	counters shift; /* files and bytes, as two's complement differences */
	buf returned;   /* uint64_t: inodes that got an entry back */
	bool blocked;   /* something was changed since: needs a merge */
} reversal;

static cb_code reverse_dir(reversal *r, span old_value, cb_error *err)
{
	entry e;
	CB_TRY(entry_decode(old_value, &e, err));
	tree_view v = txn_view(r->t);
	inode dir;
	cb_code code = inode_find(&v, e.rec.ino, &dir, err);
	if (code == CB_NOTFOUND) {
		r->blocked = true;
		return CB_INTERRUPTED;
	}
	if (code != CB_OK) return code;
	inode_changed(r->t, &dir, true);
	return inode_save(r->t, &dir, err);
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
	if (touch) return reverse_dir(r, old_value, err);
	tree_view head = state_view(r->t->cs, r->t->base);
	tree_value now, value;
	cb_code code = tree_get(&head, key_bytes, &now, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	bool same = code == CB_OK ? new_value.bytes && span_equal(span_make(now.bytes, now.size), new_value) : !new_value.bytes;
	if (!same) {
		r->blocked = true;
		return CB_INTERRUPTED;
	}
	if (!old_value.bytes) return pmap_put_tombstone(&r->t->delta, key_bytes, err);
	if (key_bytes.bytes[0] == KIND_ENTRY) {
		entry e;
		CB_TRY(entry_decode(old_value, &e, err));
		CB_TRY(buf_append(&r->returned, &e.rec.ino, sizeof(uint64_t), err));
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

/* The step's keys are as it left them, but an inode that it took away may have come back elsewhere since: then it would have two places. */
static cb_code check_returned(reversal *r, cb_error *err)
{
	const uint64_t *inos = (const uint64_t *)(const void *)r->returned.bytes;
	tree_view v = txn_view(r->t);
	for (size_t i = 0; i < r->returned.size / sizeof(uint64_t) && !r->blocked; i++) {
		inode node;
		uint64_t places = 0;
		cb_code code = inode_find(&v, inos[i], &node, NULL);
		if (code == CB_OK) CB_TRY(inode_keys(&v, inos[i], KIND_NAME, count_key, &places, err));
		r->blocked = code != CB_OK || (inos[i] != INO_ROOT && places != node.rec.links);
	}
	return CB_OK;
}

static cb_code conflicts_error(const merge_conflicts *c, const char *what, cb_error *err)
{
	return cb_err_set(err, CB_CONFLICT, "%s: %.*s", what, (int)c->list.size, (const char *)c->list.bytes);
}

/* The step's neighbours, as the two sides of a reverse merge. */
static cb_code reverse_by_merge(txn *t, uint64_t box, uint64_t seq, cb_error *err)
{
	AUTO_STATE state *before = NULL;
	AUTO_STATE state *after = NULL;
	CB_TRY(state_load(t->cs, box, seq, &after, err));
	cb_error why;
	cb_code code = state_load(t->cs, box, seq - 1, &before, cb_err_aside(&why));
	if (code == CB_STALE) code = state_before_gap(t->cs, after, &before, cb_err_aside(&why));
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	tree_view base = state_view(t->cs, after), theirs = state_view(t->cs, before), ours = state_view(t->cs, t->base);
	merge_conflicts conflicts = {.list = BUF_INIT(CB_ERROR_MESSAGE_MAX)};
	code = merge_states(t, &base, &ours, &theirs, &conflicts, err);
	if (code == CB_OK && conflicts.open) code = conflicts_error(&conflicts, "later steps changed the same", err);
	buf_done(&conflicts.list);
	return code;
}

static cb_code reverse_step(txn *t, uint64_t box, uint64_t seq, cb_error *err)
{
	reversal r = {.t = t, .returned = BUF_INIT(SIZE_MAX)};
	cb_code reversed = step_changes(t->cs, box, seq, reverse_key, &r, err);
	if (reversed == CB_OK && !r.blocked) reversed = check_returned(&r, err);
	buf_done(&r.returned);
	if (reversed != CB_OK) return reversed;
	if (!r.blocked) {
		cb_code code = txn_count(t, (int64_t)r.shift.files, (int64_t)r.shift.bytes, err);
		if (code != CB_CORRUPT) return code;
	}
	pmap_done(&t->delta);
	tree_view v = state_view(t->cs, t->base);
	key k = key_counters();
	tree_value value;
	t->now = (counters){0};
	cb_code code = tree_get(&v, key_span(&k), &value, err);
	if (code == CB_OK) code = counters_decode(span_make(value.bytes, value.size), &t->now, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	return reverse_by_merge(t, box, seq, err);
}

/* ---- which step ---- */

typedef struct choosing {
	cb_store *cs;
	uint64_t box;
	buf cancelled; /* uint64_t: undos that were redone, steps that were undone */
} choosing;

static bool is_cancelled(const choosing *c, uint64_t seq)
{
	const uint64_t *all = (const uint64_t *)(const void *)c->cancelled.bytes;
	for (size_t i = 0; i < c->cancelled.size / sizeof(uint64_t); i++)
		if (all[i] == seq) return true;
	return false;
}

/* Walks back from the newest step. For undo: the last change that stands. For redo: the last undo that stands, if nothing new came. */
static cb_code choose(choosing *c, uint64_t head, bool redo, uint64_t *out, cb_error *err)
{
	for (uint64_t seq = head; seq > 0; seq--) {
		AUTO_STEP_ROW step_row r = {0};
		cb_code code = step_row_load(c->cs, c->box, seq, false, &r, err);
		if (code == CB_STALE) break;
		if (code != CB_OK) return code;
		bool is_undo = strcmp(r.kind, "undo") == 0, is_redo = strcmp(r.kind, "redo") == 0;
		/* An undo or redo that found nothing left to change still says which step it took back. */
		if ((r.row.weight == 0 && !is_undo && !is_redo) || is_cancelled(c, seq)) continue;
		if (is_redo || (is_undo && !redo)) {
			CB_TRY(buf_append(&c->cancelled, &r.row.target, sizeof(uint64_t), err));
			continue;
		}
		if (redo && !is_undo) break;
		*out = seq;
		return CB_OK;
	}
	return cb_err_set(err, CB_NOTHING, redo ? "there is nothing to redo" : "there is nothing to undo");
}

static cb_code undo_chosen(op *o, bool redo, uint64_t seq, cb_error *err)
{
	cb_box *b = o->b;
	CB_TRY(box_refuse_txn(b, redo ? "redo" : "undo", err));
	choosing c = {b->cs, b->row.id, BUF_INIT(1 << 26)};
	cb_code code = seq ? CB_OK : choose(&c, b->head->seq, redo, &seq, err);
	buf_done(&c.cancelled);
	if (code != CB_OK) return code;
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(b->cs, b->row.id, seq, false, &r, err));
	bool is_return = strcmp(r.kind, "undo") == 0 || strcmp(r.kind, "redo") == 0;
	if (seq == 0 || (r.row.weight == 0 && !is_return))
		return cb_err_set(err, CB_NOTHING, "step %llu changed nothing", (unsigned long long)seq);
	o->t->target = seq;
	/* Recorded also when nothing is left to change (only times had differed, or a later step took it back): the next undo goes on from
	 * here, and would otherwise find the same step for ever. */
	o->t->record = true;
	code = reverse_step(o->t, b->row.id, seq, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "undoing step %llu", (unsigned long long)seq);
}

static cb_code undo_call(cb_box *b, const char *kind, bool redo, uint64_t seq, uint64_t *out_seq, cb_error *err)
{
	op o;
	cb_commit_result result = {0};
	CB_TRY(op_begin_as(&o, b, redo ? STORE_GROWS : STORE_SHRINKS, kind, "", err));
	cb_code code = op_end(&o, undo_chosen(&o, redo, seq, err), &result, err);
	if (code == CB_OK && out_seq) *out_seq = result.seq;
	return code;
}

cb_code cb_undo(cb_box *b, uint64_t seq, uint64_t *out_seq, cb_error *err)
{
	return undo_call(b, "undo", false, seq, out_seq, err);
}

cb_code cb_redo(cb_box *b, uint64_t *out_seq, cb_error *err)
{
	return undo_call(b, "redo", true, 0, out_seq, err);
}
