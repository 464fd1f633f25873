/*
 * rebase.c: a large transaction that was made ready over one head, moved onto the next.
 *
 * To compute a removal of 200,000 files takes a second; whoever writes to the same box every millisecond is faster each time. So what is
 * ready is kept, and only what others did meanwhile is looked at, key by key: a few keys. If nothing of it meets what the transaction
 * did, read or relied on, the result is both, and is made from the tree that was written ahead by putting their few keys into it. If
 * something does, the caller computes again.
 *
 * What must not meet is decided by inodes, as in a merge, and more strictly: a key of both; a file of theirs of which the transaction has
 * any key; a folder of theirs that it took away, moved or filled; a folder that they moved; a symbolic link that they changed, which
 * paths may lead through; anything in the folder that was copied or restored. Both may have put names into one folder: its times are the
 * later ones.
 * Steps that change what is past (merge, restore, undo) are always in the way, and so is a gate.
 */
#include "box/gate.h"

typedef struct rebasing {
	const txn *t;
	const txn *relied; /* whose expectations must hold; NULL: nobody's */
	tree_view before, now;
	uint64_t version; /* for folders that both put names into */
	pmap theirs;      /* what leads from the old head to the new one */
	pmap both;        /* what takes the place of the transaction's own value */
	buf inos;         /* uint64_t: that they touched */
	bool meets;
} rebasing;

/* ---- does it meet? ---- */

static bool has_prefix(const pmap *m, uint8_t kind, uint64_t ino)
{
	key prefix = key_prefix(kind, ino);
	pmap_cursor c;
	span k, value;
	bool tombstone;
	pmap_seek(&c, m, key_span(&prefix));
	return pmap_cursor_get(&c, &k, &value, &tombstone) && span_starts(k, key_span(&prefix));
}

/* Has the transaction a key of the inode itself, or an entry of the folder? */
static bool is_touched(const rebasing *r, uint64_t ino)
{
	static const uint8_t kinds[] = {KIND_INODE, KIND_NAME, KIND_ENTRY, KIND_EXTENT, KIND_ATTR, KIND_TAG};
	for (size_t i = 0; i < sizeof(kinds); i++)
		if (has_prefix(&r->t->delta, kinds[i], ino)) return true;
	return false;
}

static cb_code is_source(const rebasing *r, const tree_view *v, uint64_t ino, bool *out, cb_error *err)
{
	climb up = climb_from(ino);
	while (up.at != INO_ROOT && up.at != r->t->source) {
		cb_code code = climb_up(&up, v, NULL, err);
		if (code == CB_NOTFOUND) return CB_OK; /* not there on this side */
		if (code != CB_OK) return code;
	}
	*out = *out || up.at == r->t->source;
	return CB_OK;
}

static cb_code ino_add(rebasing *r, uint64_t ino, cb_error *err)
{
	if (r->t->source) CB_TRY(is_source(r, &r->before, ino, &r->meets, err));
	if (r->t->source) CB_TRY(is_source(r, &r->now, ino, &r->meets, err));
	return buf_append(&r->inos, &ino, sizeof(ino), err);
}

/* The record in the value of a D or I key. false: it is a link to one. */
static cb_code record_in(span key_bytes, span value, record *out, bool *found, cb_error *err)
{
	if (key_bytes.bytes[0] == KIND_INODE) {
		*found = true;
		return record_decode(value, out, err);
	}
	entry e;
	CB_TRY(entry_decode(value, &e, err));
	*out = e.rec;
	*found = !e.is_link;
	return CB_OK;
}

/* Did names come to or go from a folder, and no more? */
static cb_code is_folder_touch(span key_bytes, span a, span b, bool *out, cb_error *err)
{
	record x, y;
	bool has_x = false, has_y = false;
	*out = false;
	if (!a.bytes || !b.bytes) return CB_OK;
	CB_TRY(record_in(key_bytes, a, &x, &has_x, err));
	CB_TRY(record_in(key_bytes, b, &y, &has_y, err));
	*out = has_x && has_y && x.type == CB_DIR && y.type == CB_DIR && x.ino == y.ino && x.mode == y.mode && x.links == y.links;
	return CB_OK;
}

/* Both put names into a folder: the transaction's record, with the later times, and a version that is newer than theirs. */
static cb_code folder_of_both(rebasing *r, span key_bytes, span mine, span theirs, cb_error *err)
{
	entry e = {0}, other = {0};
	tree_value value;
	bool is_entry = key_bytes.bytes[0] == KIND_ENTRY;
	CB_TRY(is_entry ? entry_decode(mine, &e, err) : record_decode(mine, &e.rec, err));
	CB_TRY(is_entry ? entry_decode(theirs, &other, err) : record_decode(theirs, &other.rec, err));
	if (other.rec.mtime_ns > e.rec.mtime_ns) e.rec.mtime_ns = other.rec.mtime_ns;
	if (other.rec.ctime_ns > e.rec.ctime_ns) e.rec.ctime_ns = other.rec.ctime_ns;
	e.rec.version = r->version;
	if (is_entry) entry_encode(&e, &value);
	else record_encode(&e.rec, &value);
	return pmap_put(&r->both, key_bytes, span_make(value.bytes, value.size), err);
}

/* A file, folder or link that came, went or changed. */
static cb_code node_changed(rebasing *r, span key_bytes, span value, bool was_there, cb_error *err)
{
	record rec;
	bool whole = false;
	if (!value.bytes) return CB_OK;
	CB_TRY(record_in(key_bytes, value, &rec, &whole, err));
	r->meets = r->meets || is_touched(r, rec.ino) || (was_there && whole && rec.type == CB_SYMLINK);
	return ino_add(r, rec.ino, err);
}

static cb_code record_changed(rebasing *r, const key_parts *parts, span key_bytes, span old_value, span new_value, cb_error *err)
{
	span mine;
	bool touch = false, my_touch = false;
	pmap_found found = pmap_get(&r->t->delta, key_bytes, &mine);
	CB_TRY(is_folder_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch && found == PMAP_VALUE) CB_TRY(is_folder_touch(key_bytes, old_value, mine, &my_touch, err));
	if (my_touch) return folder_of_both(r, key_bytes, mine, new_value, err);
	r->meets = r->meets || found != PMAP_ABSENT;
	if (parts->kind == KIND_ENTRY) {
		/* The folder must stay where it is. */
		r->meets = r->meets || has_prefix(&r->t->delta, KIND_NAME, parts->ino);
		CB_TRY(ino_add(r, parts->ino, err));
	}
	if (touch) return CB_OK;
	CB_TRY(node_changed(r, key_bytes, old_value, true, err));
	return node_changed(r, key_bytes, new_value, old_value.bytes != NULL, err);
}

/* A name went, but the folder is still there: it was moved. */
static cb_code name_changed(rebasing *r, uint64_t ino, span new_value, cb_error *err)
{
	inode node;
	r->meets = r->meets || is_touched(r, ino);
	if (new_value.bytes) return CB_OK;
	cb_code code = inode_find(&r->now, ino, &node, err);
	if (code == CB_OK && node.rec.type == CB_DIR) r->meets = true;
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code their_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	rebasing *r = context;
	key_parts parts;
	span mine;
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (parts.kind == KIND_COUNTERS) return CB_OK;
	CB_TRY(new_value.bytes ? pmap_put(&r->theirs, key_bytes, new_value, err) : pmap_put_tombstone(&r->theirs, key_bytes, err));
	switch (parts.kind) {
	case KIND_ENTRY:
	case KIND_INODE:
		CB_TRY(record_changed(r, &parts, key_bytes, old_value, new_value, err));
		break;
	case KIND_KV:
		r->meets = r->meets || pmap_get(&r->t->delta, key_bytes, &mine) != PMAP_ABSENT;
		break;
	case KIND_NAME:
		CB_TRY(name_changed(r, parts.ino, new_value, err));
		break;
	default:
		r->meets = r->meets || is_touched(r, parts.ino);
		CB_TRY(ino_add(r, parts.ino, err));
	}
	return r->meets ? CB_INTERRUPTED : CB_OK;
}

static cb_code plain_step(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	static const char *const kinds[] = {"merge", "restore", "undo", "redo"};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(step->kind, kinds[i]) == 0) *(bool *)context = true;
	if (step->other_box || step->target) *(bool *)context = true;
	return *(bool *)context ? CB_INTERRUPTED : CB_OK;
}

/* ---- both together ---- */

/* What the box holds: theirs, and what the transaction adds to it. */
static cb_code count_both(rebasing *r, txn *t, cb_error *err)
{
	key k = key_counters();
	tree_value value;
	counters was = {0}, is = {0};
	cb_code code = tree_get(&r->before, key_span(&k), &value, err);
	if (code == CB_OK) CB_TRY(counters_decode(span_make(value.bytes, value.size), &was, err));
	if (code == CB_OK || code == CB_NOTFOUND) code = tree_get(&r->now, key_span(&k), &value, err);
	if (code == CB_OK) CB_TRY(counters_decode(span_make(value.bytes, value.size), &is, err));
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	t->now.files += is.files - was.files;
	t->now.bytes += is.bytes - was.bytes;
	counters_encode(&t->now, &value);
	return pmap_put(&r->both, key_span(&k), span_make(value.bytes, value.size), err);
}

static cb_code put_both(rebasing *r, txn *t, cb_error *err)
{
	pmap_cursor c;
	span k, value;
	bool tombstone;
	CB_TRY(count_both(r, t, err));
	for (pmap_seek(&c, &r->both, (span){0}); pmap_cursor_get(&c, &k, &value, &tombstone); pmap_cursor_next(&c)) {
		CB_TRY(pmap_put(&t->delta, k, value, err));
		CB_TRY(pmap_put(&r->theirs, k, value, err));
	}
	return CB_OK;
}

static cb_code look_at_theirs(rebasing *r, cb_box *b, cb_error *err)
{
	const txn *t = r->t;
	uint64_t from = t->base->seq + 1, to = b->head->seq;
	r->meets = b->cs->gate || b->head->box != t->base->box || to < t->base->seq || to - t->base->seq > REBASE_STEPS;
	if (r->meets) return CB_OK;
	if (from <= to) CB_TRY(store_step_walk(b->cs->s, b->id, from, to, false, plain_step, &r->meets, err));
	if (r->meets) return CB_OK;
	CB_TRY(tree_diff(&r->before, &r->now, their_key, r, err));
	if (r->meets || !r->relied) return CB_OK;
	return expectations_touched(r->relied, (const uint64_t *)(const void *)r->inos.bytes, r->inos.size / sizeof(uint64_t),
	                            &r->theirs, &r->meets, err);
}

cb_code txn_rebase(cb_box *b, txn *t, prepared **p, const txn *relied, bool *out_done, cb_error *err)
{
	rebasing r = {.t = t, .relied = relied, .inos = BUF_INIT(SIZE_MAX)};
	*out_done = false;
	r.before = state_view(b->cs, t->base);
	r.now = state_view(b->cs, b->head);
	cb_code code = txn_number_take(t, &r.version, err);
	if (code == CB_OK) code = look_at_theirs(&r, b, err);
	bool go = code == CB_OK && !r.meets;
	if (go) code = put_both(&r, t, err);
	if (go && code == CB_OK) code = txn_base_set(t, b->head, err);
	if (go && code == CB_OK) code = prepared_move(t, p, r.version, &r.theirs, err);
	*out_done = go && code == CB_OK;
	pmap_done(&r.theirs);
	pmap_done(&r.both);
	buf_done(&r.inos);
	return code;
}
