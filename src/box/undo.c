/*
 * undo.c: going back: restore of a state, a folder or a file; undo and redo; merge of boxes. Each is a new step; nothing is erased.
 *
 * Versions only grow: whatever a restore or undo brings back gets the new state as its version, so a version somebody read earlier never
 * matches again.
 */
#include "box/history.h"

/* The value with its version open, so that the commit gives it the new one. */
static cb_code reopen_version(span key_bytes, span value, tree_value *out, cb_error *err)
{
	if (key_bytes.bytes[0] == KIND_ENTRY) {
		entry e;
		CB_TRY(entry_decode(value, &e, err));
		e.rec.version = 0;
		entry_encode(&e, out);
	} else if (key_bytes.bytes[0] == KIND_INODE) {
		record r;
		CB_TRY(record_decode(value, &r, err));
		r.version = 0;
		record_encode(&r, out);
	} else {
		memcpy(out->bytes, value.bytes, value.size);
		out->size = value.size;
	}
	return CB_OK;
}

/* ---- restore of a whole state ---- */

static cb_code restore_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	txn *t = context;
	tree_value value;
	if (key_bytes.bytes[0] == KIND_COUNTERS) {
		counters c = {0};
		if (new_value.bytes) CB_TRY(counters_decode(new_value, &c, err));
		return txn_count(t, (int64_t)(c.files - t->now.files), (int64_t)(c.bytes - t->now.bytes), err);
	}
	if (!new_value.bytes) return pmap_put_tombstone(&t->delta, key_bytes, err);
	/* Equal but for the version: an earlier restore or undo brought it back already, and versions only grow. */
	if (old_value.bytes) {
		tree_value before, after;
		CB_TRY(reopen_version(key_bytes, old_value, &before, err));
		CB_TRY(reopen_version(key_bytes, new_value, &after, err));
		if (span_equal(span_make(before.bytes, before.size), span_make(after.bytes, after.size))) return CB_OK;
	}
	CB_TRY(reopen_version(key_bytes, new_value, &value, err));
	return pmap_put(&t->delta, key_bytes, span_make(value.bytes, value.size), err);
}

/* ---- restore of one path ---- */

static cb_code restore_entry(txn *t, const tree_view *from, uint64_t parent, span name, const inode *source, cb_error *err);

typedef struct name_row {
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} name_row;

static cb_code collect_names(const tree_view *v, uint64_t dir, buf *out, cb_error *err)
{
	key prefix = key_prefix(KIND_ENTRY, dir);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open(v, key_span(&prefix), &c, err));
	span k, value;
	while (tree_cursor_get(c, &k, &value) && span_starts(k, key_span(&prefix))) {
		name_row n = {.size = (uint8_t)(k.size - prefix.size)};
		memcpy(n.name, k.bytes + prefix.size, n.size);
		CB_TRY(buf_append(out, &n, sizeof(n), err));
		CB_TRY(tree_cursor_next(c, err));
	}
	return CB_OK;
}

/* Entries of a folder made as in the source. Depth is bounded by LIMIT_TREE_DEPTH of the source's paths. */
static cb_code restore_dir(txn *t, const tree_view *from, uint64_t dir, uint64_t source_dir, cb_error *err)
{
	AUTO_BUF buf now = BUF_INIT(SIZE_MAX), then = BUF_INIT(SIZE_MAX);
	tree_view v = txn_view(t);
	CB_TRY(collect_names(&v, dir, &now, err));
	CB_TRY(collect_names(from, source_dir, &then, err));
	const name_row *have = (const name_row *)(const void *)now.bytes, *want = (const name_row *)(const void *)then.bytes;
	for (size_t i = 0; i < now.size / sizeof(name_row); i++) {
		inode node;
		cb_code code = inode_at(from, source_dir, span_make(have[i].name, have[i].size), &node, NULL, err);
		if (code == CB_NOTFOUND) code = restore_entry(t, from, dir, span_make(have[i].name, have[i].size), NULL, err);
		if (code != CB_OK) return code;
	}
	for (size_t i = 0; i < then.size / sizeof(name_row); i++) {
		inode node;
		span name = span_make(want[i].name, want[i].size);
		CB_TRY(inode_at(from, source_dir, name, &node, NULL, err));
		CB_TRY(restore_entry(t, from, dir, name, &node, err));
	}
	return CB_OK;
}

/* Everything of an inode but its place: data, mode, times, attributes. */
static cb_code restore_into(txn *t, const tree_view *from, inode *target, const inode *source, cb_error *err)
{
	inode_changed(t, target, false);
	if (target->rec.type != CB_DIR) CB_TRY(data_drop(t, target, err));
	CB_TRY(inode_delete_keys(t, target->rec.ino, KIND_ATTR, err));
	CB_TRY(inode_delete_keys(t, target->rec.ino, KIND_TAG, err));
	return inode_copy_into(t, from, &source->rec, target, err);
}

static cb_code restore_new(txn *t, const tree_view *from, uint64_t parent, span name, const inode *source, cb_error *err)
{
	return tree_copy(t, from, source, parent, name, err);
}

static cb_code restore_entry(txn *t, const tree_view *from, uint64_t parent, span name, const inode *source, cb_error *err)
{
	tree_view v = txn_view(t);
	inode target;
	cb_code found = inode_at(&v, parent, name, &target, NULL, err);
	if (found != CB_OK && found != CB_NOTFOUND) return found;
	if (!source) return found == CB_OK ? tree_remove(t, parent, name, &target, err) : CB_OK;
	if (found == CB_NOTFOUND) return restore_new(t, from, parent, name, source, err);
	if (target.rec.type != source->rec.type) {
		CB_TRY(tree_remove(t, parent, name, &target, err));
		return restore_new(t, from, parent, name, source, err);
	}
	if (target.rec.ino == source->rec.ino && target.rec.version == source->rec.version && target.rec.type != CB_DIR)
		return CB_OK;
	if (target.rec.type != CB_DIR) return restore_into(t, from, &target, source, err);
	if (target.rec.mode != source->rec.mode) CB_TRY(restore_into(t, from, &target, source, err));
	return restore_dir(t, from, target.rec.ino, source->rec.ino, err);
}

static cb_code restore_path(op *o, cb_box *source, const tree_view *from, const char *path, cb_error *err)
{
	resolved there, here;
	CB_TRY(path_resolve(source, from, path, 0, GATE_READ, &there, err));
	CB_TRY(path_make_parents(o, path, err));
	tree_view v = txn_view(o->t);
	CB_TRY(path_resolve(o->b, &v, path, 0, GATE_CREATE, &here, err));
	if (!there.exists && !here.exists) return cb_err_set(err, CB_NOTFOUND, "'%s' is in neither state", path);
	if (here.is_dot) return cb_err_set(err, CB_INVALID, "'%s' cannot be restored by this name", path);
	return restore_entry(o->t, from, here.parent, resolved_name(&here), there.exists ? &there.node : NULL, err);
}

cb_code cb_restore(cb_box *b, cb_box *source, const char *path, uint64_t *out_seq, cb_error *err)
{
	if (b->cs != source->cs) return cb_err_set(err, CB_CROSSBOX, "both boxes must be opened through one store");
	if (b == source)
		return cb_err_set(err, CB_INVALID, "open the older state as a handle of its own, for instance '%s@-1'",
		                  b->row.name);
	AUTO_SNAPSHOT snapshot from = {0};
	CB_TRY(box_enter(source, err));
	cb_code flushed = box_flush(source, false, err);
	if (flushed == CB_OK && source->txn)
		flushed = cb_err_set(err, CB_BUSY, "commit or abort the transaction on '%s' first", source->row.name);
	if (flushed == CB_OK) snapshot_take(source, &from);
	uint64_t source_box = source->row.id, source_seq = source->head->seq;
	CB_TRY(box_leave(source, flushed));
	op o;
	cb_commit_result result = {0};
	CB_TRY(op_begin(&o, b, "restore", path ? path : "", err));
	o.t->other_box = source_box;
	o.t->other_seq = source_seq;
	bool whole = !path || strcmp(path, "/") == 0;
	uint64_t still_there = 0;
	cb_code code = o.own ? CB_OK : cb_err_set(err, CB_BUSY, "commit or abort the transaction first");
	/* Under the writer lock: a state whose step exists is whole, and gc leaves what it holds. */
	if (code == CB_OK) code = step_exists(b->cs, source_box, source_seq, &still_there, err);
	tree_view head = state_view(b->cs, o.t->base);
	if (code == CB_OK)
		code = whole ? tree_diff(&head, &from.v, restore_key, o.t, err) : restore_path(&o, source, &from.v, path, err);
	code = op_end(&o, code, &result, err);
	if (code == CB_OK && out_seq) *out_seq = result.seq;
	return code;
}

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
	CB_TRY(reopen_version(key_bytes, old_value, &value, err));
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
	cb_code code = state_load(t->cs, box, seq - 1, &before, err);
	if (code == CB_STALE) code = state_before_gap(t->cs, after, &before, err);
	if (code != CB_OK) return code;
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
		if (r.row.weight == 0 || is_cancelled(c, seq)) continue;
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
	if (!o->own) return cb_err_set(err, CB_BUSY, "commit or abort the transaction first");
	choosing c = {b->cs, b->row.id, BUF_INIT(1 << 26)};
	cb_code code = seq ? CB_OK : choose(&c, b->head->seq, redo, &seq, err);
	buf_done(&c.cancelled);
	if (code != CB_OK) return code;
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(b->cs, b->row.id, seq, false, &r, err));
	if (seq == 0 || r.row.weight == 0) return cb_err_set(err, CB_NOTHING, "step %llu changed nothing", (unsigned long long)seq);
	o->t->target = seq;
	code = reverse_step(o->t, b->row.id, seq, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "undoing step %llu", (unsigned long long)seq);
}

static cb_code undo_call(cb_box *b, const char *kind, bool redo, uint64_t seq, uint64_t *out_seq, cb_error *err)
{
	op o;
	cb_commit_result result = {0};
	CB_TRY(op_begin(&o, b, kind, "", err));
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
