/*
 * restore.c: making an older state, or one file or folder of it, the newest, as a new step.
 *
 * Versions only grow: what is brought back gets the new state as its version. So after a restore the box equals the source but for
 * versions, for ever; comparing the two trees again would walk everything that was ever restored. "Try, roll back, try" is what boxes
 * are for, so the steps are asked first: since the step that was the source, or that last restored it, only the keys in their change
 * lists can differ.
 */
#include "base/args.h"
#include "box/diff.h"
#include "box/gate.h"
#include "box/history.h"
#include "box/past.h"

enum {
	BACK_STEPS = 1024, /* steps looked through for the last time the box was as the source */
	BACK_KEYS = 8192,  /* key changes collected meanwhile; more: compare the trees */
};

/* ---- restore of a whole state ---- */

static cb_code restore_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	txn *t = context;
	tree_value value;
	bool same = false;
	if (key_bytes.bytes[0] == KIND_COUNTERS) {
		counters c = {0};
		if (new_value.bytes) CB_TRY(counters_decode(new_value, &c, err));
		return txn_count(t, (int64_t)(c.files - t->now.files), (int64_t)(c.bytes - t->now.bytes), err);
	}
	if (!new_value.bytes) return pmap_put_tombstone(&t->delta, key_bytes, err);
	/* Equal but for the version: an earlier restore or undo brought it back already, and versions only grow. */
	if (old_value.bytes) CB_TRY(record_same(key_bytes, old_value, new_value, &same, err));
	if (same) return CB_OK;
	CB_TRY(record_reopen(key_bytes, new_value, &value, err));
	return pmap_put(&t->delta, key_bytes, span_make(value.bytes, value.size), err);
}

/* Walks back from the head, collecting changed keys, to a step after which the box was as the source. */
typedef struct looking_back {
	uint64_t box, seq; /* the source */
	uint64_t next;     /* the step to come; another one follows a gap, whose changes nobody knows */
	pmap keys;
	size_t steps;
	bool found;
} looking_back;

static cb_code collect_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	(void)new_value;
	looking_back *l = context;
	if (pmap_count(&l->keys) >= BACK_KEYS) return CB_INTERRUPTED;
	return pmap_put_tombstone(&l->keys, key_bytes, err);
}

static cb_code look_at_step(void *context, const store_step *step, cb_error *err)
{
	looking_back *l = context;
	if (step->seq != l->next) return CB_INTERRUPTED;
	l->next--;
	bool is_source = step->box == l->box && step->seq == l->seq;
	bool starts_there = step->seq == 0 && strcmp(step->kind, "fork") == 0;
	bool restored_it = strcmp(step->kind, "restore") == 0 && step->params.size == 0 && !step->params_content;
	bool from_there = (starts_there || restored_it) && step->other_box == l->box && step->other_seq == l->seq;
	l->found = is_source || from_there;
	bool large = step->weight && !step->has_changes;
	if (l->found || large || ++l->steps > BACK_STEPS || pmap_count(&l->keys) >= BACK_KEYS) return CB_INTERRUPTED;
	return step->has_changes ? tree_changes_decode(step->changes, collect_key, l, err) : CB_OK;
}

/* Only the collected keys can differ. */
static cb_code restore_keys(txn *t, const looking_back *l, const tree_view *head, const tree_view *from, cb_error *err)
{
	pmap_cursor c;
	span k, ignored;
	bool tombstone;
	for (pmap_seek(&c, &l->keys, (span){0}); pmap_cursor_get(&c, &k, &ignored, &tombstone); pmap_cursor_next(&c)) {
		tree_value now, then;
		cb_code has_now = tree_get(head, k, &now, err), has_then = tree_get(from, k, &then, err);
		if (has_now != CB_OK && has_now != CB_NOTFOUND) return has_now;
		if (has_then != CB_OK && has_then != CB_NOTFOUND) return has_then;
		span a = has_now == CB_OK ? span_make(now.bytes, now.size) : (span){0};
		span b = has_then == CB_OK ? span_make(then.bytes, then.size) : (span){0};
		if (a.bytes || b.bytes) CB_TRY(restore_key(t, k, a, b, err));
	}
	return CB_OK;
}

static cb_code restore_whole(op *o, const tree_view *from, uint64_t box, uint64_t seq, cb_error *err)
{
	txn *t = o->t;
	tree_view head = state_view(t->cs, t->base);
	looking_back l = {.box = box, .seq = seq, .next = t->base->seq};
	cb_code code = store_step_walk(t->cs->s, o->b->id, t->base->seq, 0, true, look_at_step, &l, err);
	if (code == CB_OK && l.found) code = restore_keys(t, &l, &head, from, err);
	if (code == CB_OK && !l.found) code = tree_diff(&head, from, restore_key, t, err);
	pmap_done(&l.keys);
	return code;
}

/* ---- restore of one path ---- */

/* Two folders of which one is made as the other, with the times that it gets when its entries are right. */
typedef struct dir_pair {
	uint64_t here, there;
	int64_t atime_ns, mtime_ns;
	bool timeless; /* the source's times are not told: those here stay, as do those of what may not be changed */
} dir_pair;

typedef struct restoring {
	txn *t;
	const tree_view *from;
	const txn *from_txn; /* whose view that is; NULL: none's */
	uint64_t parent;     /* what is restored: an entry, */
	span name;
	uint64_t top;   /* and the folder there, with all below it; 0: none */
	buf dirs;       /* dir_pair: those done, then those to do; folders may be nested deeper than the C stack allows */
	pmap files;     /* as tree_copy_with */
	pmap taken;     /* files with several names here that became one of the source: by their numbers, the source's */
	bool set_times; /* a folder has other times, and somebody set them */
} restoring;

static void restoring_done(restoring *w)
{
	buf_done(&w->dirs);
	pmap_done(&w->files);
	pmap_done(&w->taken);
}

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

/* Everything of an inode but its place: data, mode, times, attributes. */
static cb_code restore_into(restoring *w, inode *target, const record *source, cb_error *err)
{
	inode_changed(w->t, target, false);
	if (target->rec.type != CB_DIR) CB_TRY(data_drop(w->t, target, err));
	CB_TRY(inode_delete_keys(w->t, target->rec.ino, KIND_ATTR, err));
	CB_TRY(inode_delete_keys(w->t, target->rec.ino, KIND_TAG, err));
	return inode_copy_into(w->t, w->from, source, target, err);
}

static cb_code marks_are_so(restoring *w, uint64_t here, uint64_t there, bool *out, cb_error *err)
{
	static const uint8_t kinds[] = {KIND_ATTR, KIND_TAG};
	tree_view v = txn_view(w->t);
	*out = true;
	for (size_t i = 0; *out && i < sizeof(kinds); i++)
		CB_TRY(marks_equal(w->t->cs, w->t, &v, here, w->from_txn, w->from, there, kinds[i], out, err));
	return CB_OK;
}

/* Times of a folder that differ count where they do not follow from its entries. */
static bool set_times_differ(const record *a, const record *b)
{
	bool set = a->mtime_ns != a->ctime_ns || b->mtime_ns != b->ctime_ns;
	return a->atime_ns != b->atime_ns || (set && a->mtime_ns != b->mtime_ns);
}

/* A folder that is there: its mode and attributes now, its entries and times later. */
static cb_code restore_dir(restoring *w, inode *target, const record *source, cb_error *err)
{
	bool marks = true;
	w->set_times = w->set_times || set_times_differ(&target->rec, source);
	bool same = target->rec.ino == source->ino && target->rec.version == source->version;
	if (!same) CB_TRY(marks_are_so(w, target->rec.ino, source->ino, &marks, err));
	if (!marks || target->rec.mode != source->mode) CB_TRY(restore_into(w, target, source, err));
	bool timeless = w->from->veil && source->version == GATE_MASKED_VERSION;
	dir_pair d = {target->rec.ino, source->ino, source->atime_ns, source->mtime_ns, timeless};
	return buf_append(&w->dirs, &d, sizeof(d), err);
}

/* But for its number, version and ctime, which a restore does not bring back. By its bytes: what came from elsewhere, by unpack for one,
 * has the same bytes under other numbers. */
static cb_code file_is_so(restoring *w, const record *here, const record *there, bool *out, cb_error *err)
{
	tree_view v = txn_view(w->t);
	*out = here->type == there->type && here->mode == there->mode && here->size == there->size &&
	       here->mtime_ns == there->mtime_ns && here->atime_ns == there->atime_ns;
	if (*out) CB_TRY(marks_are_so(w, here->ino, there->ino, out, err));
	return *out ? data_equal(w->t->cs, w->t, &v, here, w->from_txn, w->from, there, out, err) : CB_OK;
}

/* Is a name of a file one that the restore does not come to, because it lies elsewhere or is not seen? */
typedef struct name_outside {
	restoring *w;
	bool found;
} name_outside;

static cb_code look_outside(void *context, span key_bytes, span value, cb_error *err)
{
	(void)value;
	name_outside *o = context;
	const restoring *w = o->w;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	tree_view seen = txn_view(w->t), raw = txn_raw(w->t);
	inode node;
	climb up = climb_from(parts.parent);
	cb_code code = inode_at(&seen, parts.parent, parts.name, &node, NULL, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	bool inside = code == CB_OK && parts.parent == w->parent && span_equal(parts.name, w->name);
	if (code == CB_OK && !inside && w->top) {
		while (up.at != w->top && up.at != INO_ROOT) CB_TRY(climb_up(&up, &raw, NULL, err));
		inside = up.at == w->top;
	}
	o->found = o->found || !inside;
	return CB_OK;
}

/*
 * A file or link that is there. What lies elsewhere must not change, and names below are one file where the source's are: so it is replaced
 * when it is to change and has names outside, or names that the source's file does not have, or has become another file of the source.
 */
static cb_code restore_file(restoring *w, uint64_t parent, span name, inode *target, const record *source, cb_error *err)
{
	uint64_t copy = 0, other = 0;
	bool known = tree_copied(&w->files, source->ino, &copy), same_node = target->rec.ino == source->ino;
	bool linked = target->rec.links > 1 || source->links > 1, so = same_node && target->rec.version == source->version;
	if (known && copy == target->rec.ino) return CB_OK;
	bool apart = known || tree_copied(&w->taken, target->rec.ino, &other);
	if (!apart && !so) CB_TRY(file_is_so(w, &target->rec, source, &so, err));
	if (!apart && !so && linked) {
		name_outside o = {w, !same_node};
		tree_view raw = txn_raw(w->t);
		if (same_node) CB_TRY(inode_keys(&raw, target->rec.ino, KIND_NAME, look_outside, &o, err));
		apart = o.found;
	}
	if (apart) {
		CB_TRY(inode_unlink(w->t, parent, name, err));
		return tree_copy_with(w->t, w->from, source, parent, name, &w->files, err);
	}
	if (source->links > 1) CB_TRY(tree_copied_add(&w->files, source->ino, target->rec.ino, err));
	if (target->rec.links > 1) CB_TRY(tree_copied_add(&w->taken, target->rec.ino, source->ino, err));
	return so ? CB_OK : restore_into(w, target, source, err);
}

/* source NULL: nothing is to be there. */
static cb_code restore_entry(restoring *w, uint64_t parent, span name, const record *source, cb_error *err)
{
	tree_view v = txn_view(w->t);
	inode target;
	cb_code found = inode_at(&v, parent, name, &target, NULL, err);
	if (found != CB_OK && found != CB_NOTFOUND) return found;
	bool there = found == CB_OK;
	if (there && (!source || target.rec.type != source->type)) {
		CB_TRY(tree_remove(w->t, parent, name, &target, err));
		there = false;
	}
	if (!source) return CB_OK;
	if (!there) CB_TRY(gate_entry(w->t, GATE_CREATE, parent, name, 0, err));
	if (!there) return tree_copy_with(w->t, w->from, source, parent, name, &w->files, err);
	if (source->type == CB_DIR) return restore_dir(w, &target, source, err);
	return restore_file(w, parent, name, &target, source, err);
}

static cb_code restore_entries(restoring *w, const dir_pair *d, cb_error *err)
{
	AUTO_BUF buf now = BUF_INIT(SIZE_MAX), then = BUF_INIT(SIZE_MAX);
	tree_view v = txn_view(w->t);
	CB_TRY(collect_names(&v, d->here, &now, err));
	CB_TRY(collect_names(w->from, d->there, &then, err));
	const name_row *have = (const name_row *)(const void *)now.bytes, *want = (const name_row *)(const void *)then.bytes;
	for (size_t i = 0; i < now.size / sizeof(name_row); i++) {
		inode node;
		span name = span_make(have[i].name, have[i].size);
		cb_code code = inode_at(w->from, d->there, name, &node, NULL, err);
		if (code == CB_NOTFOUND) code = restore_entry(w, d->here, name, NULL, err);
		if (code != CB_OK) return code;
	}
	for (size_t i = 0; i < then.size / sizeof(name_row); i++) {
		inode node;
		span name = span_make(want[i].name, want[i].size);
		CB_TRY(inode_at(w->from, d->there, name, &node, NULL, err));
		CB_TRY(restore_entry(w, d->here, name, &node.rec, err));
	}
	bool may = false;
	if (!d->timeless) CB_TRY(gate_may_touch(w->t, d->here, &may, err));
	return may ? inode_times_set(w->t, d->here, d->atime_ns, d->mtime_ns, err) : CB_OK;
}

static cb_code restore_dirs(restoring *w, cb_error *err)
{
	for (size_t i = 0; i < w->dirs.size / sizeof(dir_pair); i++) {
		dir_pair d = ((const dir_pair *)(const void *)w->dirs.bytes)[i];
		CB_TRY(restore_entries(w, &d, err));
	}
	return CB_OK;
}

static cb_code restore_below(txn *t, const tree_view *from, const resolved *here, const record *source, cb_error *err)
{
	restoring w = {.t = t, .from = from, .parent = here->parent, .name = resolved_name(here), .dirs = BUF_INIT(SIZE_MAX)};
	if (here->exists && here->node.rec.type == CB_DIR) w.top = here->node.rec.ino;
	cb_code code = restore_entry(&w, w.parent, w.name, source, err);
	if (code == CB_OK) code = restore_dirs(&w, err);
	restoring_done(&w);
	return code;
}

/* As path_resolve, but where the folders above are missing, or no folders, the path is not there either. */
static cb_code restore_resolve(cb_box *b, const tree_view *v, const char *path, gate_access access, resolved *out, cb_error *err)
{
	cb_error why;
	cb_code code = path_resolve(b, v, path, PATH_PLAIN, access, out, cb_err_aside(&why));
	if (code != CB_NOTFOUND && code != CB_NOTDIR) return cb_err_pass(err, code, &why);
	*out = (resolved){0};
	return CB_OK;
}

static cb_code restore_path(op *o, cb_box *source, const tree_view *from, const char *path, cb_error *err)
{
	resolved there, here;
	CB_TRY(restore_resolve(source, from, path, GATE_READ, &there, err));
	if (there.exists) CB_TRY(path_make_parents_like(o, path, &(path_like){source, from}, err));
	tree_view v = txn_view(o->t);
	CB_TRY(restore_resolve(o->b, &v, path, GATE_CREATE, &here, err));
	if (!there.exists && !here.exists) return cb_err_set(err, CB_NOTFOUND, "'%s' is in neither state", path);
	if (here.is_dot) return cb_err_set(err, CB_INVALID, "'%s' cannot be restored by this name", path);
	if (!here.exists && !here.parent) return path_resolve(o->b, &v, path, PATH_PLAIN, GATE_CREATE, &here, err); /* says why */
	/* What others put there since would have to go too. */
	o->t->rebases = o->own;
	if (o->own && here.exists) o->t->source = here.node.rec.ino;
	return restore_below(o->t, from, &here, there.exists ? &there.node.rec : NULL, err);
}

/* ---- restore of a whole state of which only a part is seen ---- */

/* Key-values are keys of their own: they come and go one by one. */
static cb_code restore_kv(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	txn *t = context;
	bool same = false;
	if (old_value.bytes && new_value.bytes) CB_TRY(values_equal(t->cs, NULL, old_value, NULL, new_value, &same, err));
	if (same) return CB_OK;
	return new_value.bytes ? pmap_put(&t->delta, key_bytes, new_value, err) : pmap_put_tombstone(&t->delta, key_bytes, err);
}

/* Name by name and not key by key: what is hidden stays, also where the source had one of its files elsewhere. */
static cb_code restore_seen(txn *t, const tree_view *from, cb_error *err)
{
	static const uint8_t kv = KIND_KV;
	tree_view v = txn_view(t), raw = txn_raw(t);
	inode here, there;
	CB_TRY(inode_find(&raw, INO_ROOT, &here, err));
	CB_TRY(inode_find(from, INO_ROOT, &there, err));
	restoring w = {.t = t, .from = from, .top = INO_ROOT, .dirs = BUF_INIT(SIZE_MAX)};
	cb_code code = restore_dir(&w, &here, &there.rec, err);
	if (code == CB_OK) code = restore_dirs(&w, err);
	restoring_done(&w);
	if (code != CB_OK) return code;
	/* Against the state, which does not change: the transaction's keys do. */
	tree_view base = v;
	base.delta = NULL;
	return tree_diff_prefix(&base, from, span_make(&kv, 1), restore_kv, t, err);
}

cb_code restore_state(txn *t, const tree_view *from, bool seen_only, cb_error *err)
{
	if (seen_only) return restore_seen(t, from, err);
	tree_view now = state_view(t->cs, t->base);
	return tree_diff(&now, from, restore_key, t, err);
}

typedef struct bringing {
	cb_box *source;
	state *wanted;
	const char *path;
	bool whole;
} bringing;

/* What is left of a restore, key by key. */
typedef enum leaving {
	LEAVES_TIMES, /* nothing, or times of folders: these follow their entries, and are no difference */
	LEAVES_FILES, /* other files or other numbers of contents; whether they hold anything else is not told by their keys */
	LEAVES_MORE,
} leaving;

/* *out false: a further name, whose record is elsewhere. */
static cb_code record_of(span key_bytes, span value, record *rec, bool *out, cb_error *err)
{
	entry e = {0};
	*out = true;
	if (key_bytes.bytes[0] == KIND_INODE) return record_decode(value, rec, err);
	CB_TRY(entry_decode(value, &e, err));
	*rec = e.rec;
	*out = !e.is_link;
	return CB_OK;
}

static cb_code key_leaves(span key_bytes, span was, span is, leaving *out, bool *set_times, cb_error *err)
{
	bool touch = false, has_a = false, has_b = false;
	record a, b;
	if (!was.bytes == !is.bytes && span_equal(was, is)) return CB_OK; /* a tag is an empty value */
	CB_TRY(step_is_dir_touch(key_bytes, was, is, &touch, err));
	if (touch) {
		CB_TRY(record_of(key_bytes, was, &a, &has_a, err));
		CB_TRY(record_of(key_bytes, is, &b, &has_b, err));
		*set_times = *set_times || set_times_differ(&a, &b);
		return CB_OK;
	}
	*out = LEAVES_FILES;
	if (!was.bytes || !is.bytes || (key_bytes.bytes[0] != KIND_ENTRY && key_bytes.bytes[0] != KIND_INODE)) return CB_OK;
	CB_TRY(record_of(key_bytes, was, &a, &has_a, err));
	CB_TRY(record_of(key_bytes, is, &b, &has_b, err));
	if (!has_a || !has_b) return CB_OK;
	bool differ = a.mode != b.mode || a.size != b.size || a.mtime_ns != b.mtime_ns || a.atime_ns != b.atime_ns;
	if (a.ino == b.ino && differ) *out = LEAVES_MORE;
	return CB_OK;
}

/* *set_times: are there times of folders that somebody set? */
static cb_code txn_leaves(txn *t, leaving *out, bool *set_times, cb_error *err)
{
	tree_view base = state_view(t->cs, t->base);
	pmap_cursor c;
	span k, value;
	bool tombstone;
	*out = LEAVES_TIMES;
	*set_times = false;
	for (pmap_seek(&c, &t->delta, (span){0}); *out != LEAVES_MORE && pmap_cursor_get(&c, &k, &value, &tombstone);
	     pmap_cursor_next(&c)) {
		tree_value old_value;
		cb_code code = tree_get(&base, k, &old_value, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		if (tombstone && code == CB_NOTFOUND) continue;
		span was = code == CB_OK ? span_make(old_value.bytes, old_value.size) : (span){0};
		CB_TRY(key_leaves(k, was, tombstone ? (span){0} : value, out, set_times, err));
	}
	return CB_OK;
}

static cb_code note_change(void *context, const cb_change *change, cb_error *err)
{
	(void)change;
	(void)err;
	*(bool *)context = true;
	return CB_INTERRUPTED; /* one is enough */
}

/* By its difference, which knows neither access times nor which names are one file. */
static cb_code txn_differs(txn *t, const txn_point *before, bool *out, cb_error *err)
{
	cb_error why;
	*out = t->now.files != before->now.files || t->now.bytes != before->now.bytes;
	cb_code code = *out ? CB_OK : diff_txn(t, note_change, out, cb_err_aside(&why));
	*out = *out || code == CB_LIMIT; /* more than a difference tells */
	return code == CB_OK || code == CB_LIMIT ? CB_OK : cb_err_pass(err, code, &why);
}

/*
 * The whole of a box that came from elsewhere has other files, though all that they hold may be so. Asked in the order of cost: counters,
 * the difference, and, when that is empty, name by name, which alone knows which names are one file.
 */
static cb_code whole_is_so(txn *t, const tree_view *from, const txn_point *before, bool *out, cb_error *err)
{
	bool differs = false, set_times = false;
	leaving left = LEAVES_MORE;
	*out = false;
	CB_TRY(txn_differs(t, before, &differs, err));
	if (differs) return CB_OK;
	ATTR_CLEANUP(txn_point_done) txn_point after = txn_point_take(t);
	txn_point_back(before, t);
	CB_TRY(restore_seen(t, from, err));
	CB_TRY(txn_leaves(t, &left, &set_times, err));
	*out = left == LEAVES_TIMES;
	txn_point_back(&after, t);
	return CB_OK;
}

/* Brings under each name that has another file or folder by its number what `from` has there. */
static cb_code restore_numbers(restoring *w, const pmap *changed, cb_error *err)
{
	tree_view base = state_view(w->t->cs, w->t->base);
	pmap_cursor c;
	span k, ignored;
	bool tombstone;
	for (pmap_seek(&c, changed, (span){0}); pmap_cursor_get(&c, &k, &ignored, &tombstone); pmap_cursor_next(&c)) {
		key_parts at;
		inode was, is;
		if (tombstone || k.bytes[0] != KIND_ENTRY) continue;
		CB_TRY(key_parse(k, &at, err));
		cb_code code = inode_at(&base, at.ino, at.name, &was, NULL, err);
		if (code == CB_OK) code = inode_at(w->from, at.ino, at.name, &is, NULL, err);
		if (code == CB_OK && was.rec.ino != is.rec.ino) code = restore_entry(w, at.ino, at.name, &is.rec, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
	}
	return restore_dirs(w, err);
}

/* Of a transaction without a difference. Costs what it changed. */
static cb_code numbers_are_so(txn *t, const txn_point *before, bool *out, cb_error *err)
{
	ATTR_CLEANUP(txn_point_done) txn_point after = txn_point_take(t);
	ATTR_CLEANUP(txn_point_done) txn_point start = txn_point_take(t); /* its contents in memory stay */
	tree_view from = state_view(t->cs, t->base);
	bool ignored = false;
	leaving left = LEAVES_MORE;
	pmap_done(&start.delta);
	start.delta = pmap_ref(&before->delta);
	start.now = before->now;
	from.delta = &after.delta;
	txn_point_back(&start, t);
	restoring w = {.t = t, .from = &from, .from_txn = t, .dirs = BUF_INIT(SIZE_MAX)};
	cb_code code = restore_numbers(&w, &after.delta, err);
	if (code == CB_OK) code = txn_leaves(t, &left, &ignored, err);
	*out = left == LEAVES_TIMES && !w.set_times;
	restoring_done(&w);
	txn_point_back(&after, t);
	return code;
}

cb_code txn_shows(txn *t, const txn_point *before, bool *out, cb_error *err)
{
	leaving left = LEAVES_MORE;
	bool so = false;
	*out = t->now.files != before->now.files || t->now.bytes != before->now.bytes;
	if (*out) return CB_OK;
	CB_TRY(txn_leaves(t, &left, out, err));
	*out = *out || left == LEAVES_MORE;
	if (*out || left == LEAVES_TIMES) return CB_OK;
	CB_TRY(txn_differs(t, before, out, err));
	if (*out) return CB_OK;
	CB_TRY(numbers_are_so(t, before, &so, err));
	*out = !so;
	return CB_OK;
}

static bool is_ruled(const op *o, const bringing *back)
{
	return gate_has_rules(o->b->cs, o->b) || gate_has_rules(o->b->cs, back->source);
}

static cb_code bring_back(op *o, const bringing *back, cb_error *err)
{
	o->t->other_box = back->wanted->box;
	o->t->other_seq = back->wanted->seq;
	const state *wanted = back->wanted;
	tree_view all = state_view(o->b->cs, wanted), v;
	AUTO_VEIL veil *veiled = NULL;
	CB_TRY(gate_view(back->source, &all, &veiled, &v, err));
	if (!back->whole) return restore_path(o, back->source, &v, back->path, err);
	if (is_ruled(o, back)) return restore_seen(o->t, &v, err);
	/* Its past becomes the source's: that may matter to merges even where no file differs. */
	if (wanted->box == o->b->id)
		CB_TRY(past_ends_in_merge(o->b->cs, wanted->box, wanted->seq, o->t->base->seq, &o->t->record, err));
	return restore_whole(o, &all, wanted->box, wanted->seq, err);
}

static cb_code do_restore(op *o, void *context, cb_error *err)
{
	const bringing *back = context;
	txn *t = o->t;
	tree_view from = state_view(t->cs, back->wanted);
	leaving left = LEAVES_MORE;
	ATTR_CLEANUP(txn_point_done) txn_point before = txn_point_take(t);
	CB_TRY(bring_back(o, back, err));
	if (!o->own) return CB_OK;
	bool set_times = false;
	CB_TRY(txn_leaves(t, &left, &set_times, err));
	bool nothing = left == LEAVES_TIMES, by_key = back->whole && !t->record && !is_ruled(o, back);
	if (left == LEAVES_FILES && by_key) CB_TRY(whole_is_so(t, &from, &before, &nothing, err));
	if (nothing) txn_point_back(&before, t);
	return CB_OK;
}

cb_code cb_restore(cb_box *b, cb_box *source, const char *path, uint64_t *out_seq, cb_error *err)
{
	NEED(err, "box source", b, source);
	if (b->cs != source->cs) return cb_err_set(err, CB_CROSSBOX, "both boxes must be opened through one store");
	if (b == source) return cb_err_set(err, CB_INVALID, "open the older state as a handle of its own, for instance BOX@-1");
	AUTO_KEPT kept_state wanted = {0};
	CB_TRY(box_enter(source, err));
	cb_code flushed = box_flush(source, false, err);
	if (flushed == CB_OK) flushed = box_refuse_txn(source, "restoring from it", err);
	if (flushed == CB_OK) flushed = kept_set(&wanted, b->cs, source->head, KEPT_VISIT, err);
	CB_TRY(box_leave(source, flushed));
	bringing back = {source, wanted.s, path, !path || strcmp(path, "/") == 0};
	cb_commit_result result = {0};
	if (back.whole) CB_TRY(box_refuse_txn(b, "restoring a whole state", err));
	CB_TRY(op_run(b, STORE_SHRINKS, "restore", path ? path : "", do_restore, &back, &result, err));
	if (out_seq) *out_seq = result.seq;
	return CB_OK;
}
