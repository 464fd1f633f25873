/*
 * graft_check.c: does a step that came from outside leave a sound state? Given that the state before it was sound, only what it changed
 * can be wrong, so each invariant of fsck is looked at where a key that it speaks of changed:
 *
 *   - an entry (D) has its name key (N) and the other way round: at every changed D and N;
 *   - one record per inode, in its one entry or under I, and as many links as names: at every changed N, I, and change of form of D;
 *   - the parent of an entry is a folder, and leads to the root: at every new D;
 *   - what is no longer there, or no longer a folder, has nothing below it, and no X, A, T: where its record went;
 *   - extents belong to a file that has extents, end before its end and do not overlap: at every new X, and where a file shrank;
 *   - the counters are those before, plus what came, less what went, and within LIMIT_BOX_BYTES.
 *
 * The adversary wrote the keys. Nothing here is recursive, and the work is about that of the changes.
 */
#include "box/graft.h"

enum {
	REACH_SLOTS = 4096, /* folders known to lead to the root */
	DEPTH_MAX = LIMIT_PACK_DEPTH,
};

typedef struct reach_slot {
	uint64_t ino;
	uint64_t depth;
} reach_slot;

struct graft_check {
	const tree_view *before, *after;
	uint64_t keys;
	counters shift;  /* what came less what went, in two's complement */
	uint64_t came;   /* bytes of all records that came: part of what the state has */
	uint64_t linked; /* the inode whose links were checked last */
	uint64_t live;   /* the inode that was looked up last, */
	record live_rec; /* and what it is now */
	buf way;         /* uint64_t: folders on the way to the root */
	reach_slot reach[REACH_SLOTS];
};

static cb_code bad(cb_error *err, const char *what)
{
	return cb_err_set(err, CB_CORRUPT, "the state would not be sound: %s", what);
}

cb_code graft_check_create(graft_check **out, cb_error *err)
{
	graft_check *c = mem_alloc(sizeof(*c));
	if (!c) return cb_err_nomem(err);
	*out = c;
	return CB_OK;
}

void graft_check_destroy(graft_check *c)
{
	if (!c) return;
	buf_done(&c->way);
	free(c);
}

void graft_check_begin(graft_check *c, const tree_view *before, const tree_view *after)
{
	memset(c, 0, sizeof(*c));
	c->before = before;
	c->after = after;
	c->way = BUF_INIT(sizeof(uint64_t) * ((size_t)DEPTH_MAX + 2));
}

/* ---- looking ---- */

static cb_code has_prefix(const tree_view *v, uint8_t kind, uint64_t ino, bool *out, cb_error *err)
{
	key prefix = key_prefix(kind, ino);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open(v, key_span(&prefix), &c, err));
	span k, value;
	*out = tree_cursor_get(c, &k, &value) && span_starts(k, key_span(&prefix));
	return CB_OK;
}

static cb_code refuse_any(graft_check *c, uint8_t kind, uint64_t ino, const char *what, cb_error *err)
{
	bool any = false;
	CB_TRY(has_prefix(c->after, kind, ino, &any, err));
	return any ? bad(err, what) : CB_OK;
}

/* CB_NOTFOUND: no such inode, without a message. */
static cb_code look_up(graft_check *c, uint64_t ino, const record **out, cb_error *err)
{
	if (c->live != ino) {
		inode node;
		c->live = 0;
		cb_code code = inode_find(c->after, ino, &node, err);
		if (code == CB_CORRUPT) return bad(err, "a name and an entry do not belong together");
		if (code != CB_OK) return code;
		c->live = ino;
		c->live_rec = node.rec;
	}
	*out = &c->live_rec;
	return CB_OK;
}

static cb_code entry_after(graft_check *c, uint64_t parent, span name, bool *found, entry *out, cb_error *err)
{
	key k = key_entry(parent, name);
	tree_value value;
	cb_code code = tree_get(c->after, key_span(&k), &value, err);
	*found = code == CB_OK;
	if (code == CB_NOTFOUND) return CB_OK;
	return code == CB_OK ? entry_decode(span_make(value.bytes, value.size), out, err) : code;
}

static cb_code has_name(graft_check *c, uint64_t ino, uint64_t parent, span name, bool *out, cb_error *err)
{
	key k = key_name(ino, parent, name);
	tree_value value;
	cb_code code = tree_get(c->after, key_span(&k), &value, err);
	*out = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* ---- links ---- */

/* The names of an inode: each entry is there, names it, and holds or refers to the record as `linked` says. */
static cb_code count_names(graft_check *c, uint64_t ino, bool linked, uint64_t *out, record *embedded, cb_error *err)
{
	key prefix = key_prefix(KIND_NAME, ino);
	AUTO_CURSOR tree_cursor *cursor = NULL;
	CB_TRY(tree_cursor_open(c->after, key_span(&prefix), &cursor, err));
	span k, value;
	for (*out = 0; tree_cursor_get(cursor, &k, &value) && span_starts(k, key_span(&prefix)); ++*out) {
		key_parts parts;
		entry e;
		bool found = false;
		CB_TRY(key_parse(k, &parts, err));
		CB_TRY(entry_after(c, parts.parent, parts.name, &found, &e, err));
		if (!found || e.rec.ino != ino) return bad(err, "a name without its entry");
		if (e.is_link != linked) return bad(err, "an inode with two records, or none");
		if (!linked) *embedded = e.rec;
		CB_TRY(tree_cursor_next(cursor, err));
	}
	return CB_OK;
}

static cb_code check_gone(graft_check *c, uint64_t ino, cb_error *err)
{
	CB_TRY(refuse_any(c, KIND_ENTRY, ino, "something lies in a folder that is not there", err));
	CB_TRY(refuse_any(c, KIND_EXTENT, ino, "data of a file that is not there", err));
	CB_TRY(refuse_any(c, KIND_ATTR, ino, "attributes of a file that is not there", err));
	return refuse_any(c, KIND_TAG, ino, "tags of a file that is not there", err);
}

static cb_code check_links(graft_check *c, uint64_t ino, cb_error *err)
{
	if (c->linked == ino) return CB_OK;
	key k = key_inode(ino);
	tree_value value;
	record r = {0};
	uint64_t places = 0;
	cb_code code = tree_get(c->after, key_span(&k), &value, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	bool linked = code == CB_OK;
	if (linked) CB_TRY(record_decode(span_make(value.bytes, value.size), &r, err));
	CB_TRY(count_names(c, ino, linked, &places, &r, err));
	if (ino == INO_ROOT && (linked || places)) return bad(err, "a second root");
	if (ino == INO_ROOT) return CB_OK;
	if (places == 0 && linked) return bad(err, "a record without a name");
	if (places == 0) CB_TRY(check_gone(c, ino, err));
	else if (r.links != places || places > LIMIT_LINKS) return bad(err, "a file has another number of names than it says");
	c->linked = ino;
	return CB_OK;
}

/* ---- records ---- */

static cb_code check_record(const record *r, bool linked, cb_error *err)
{
	if (r->type == CB_DIR && (linked || r->size || r->form != DATA_NONE))
		return bad(err, "a folder with data or several names");
	if (!linked && r->links != 1) return bad(err, "a file has another number of names than it says");
	if (r->type != CB_SYMLINK) return CB_OK;
	bool fits = r->size >= 1 && r->size <= LIMIT_SYMLINK_TARGET_BYTES && (r->form == DATA_INLINE || r->form == DATA_CONTENT);
	return fits ? CB_OK : bad(err, "a symbolic link without a target");
}

/* Sizes are the adversary's too: what comes is counted apart, so that no sum of them comes round to a small number. */
static cb_code count_record(graft_check *c, const record *r, bool came, cb_error *err)
{
	c->shift.files += came ? 1 : (uint64_t)-1;
	c->shift.bytes += came ? r->size : 0 - r->size;
	if (came) c->came += r->size;
	return c->came > LIMIT_BOX_BYTES ? box_refuse_bytes(err) : CB_OK;
}

/* Does data begin in [from, to)? */
static cb_code has_extents(graft_check *c, uint64_t ino, uint64_t from, uint64_t to, bool *out, cb_error *err)
{
	key first = key_extent(ino, from), until = key_extent(ino, to);
	AUTO_CURSOR tree_cursor *cursor = NULL;
	span k, value;
	CB_TRY(tree_cursor_open_until(c->after, key_span(&first), key_span(&until), &cursor, err));
	*out = tree_cursor_get(cursor, &k, &value) && span_compare(k, key_span(&until)) < 0;
	return CB_OK;
}

/* Do data that begin before an offset reach over it? */
static cb_code reaches_over(graft_check *c, uint64_t ino, uint64_t offset, bool *out, cb_error *err)
{
	extent x;
	*out = false;
	if (offset == 0) return CB_OK;
	CB_TRY(data_extent_at(c->after, ino, offset - 1, &x, out, err));
	*out = *out && x.offset + x.length > offset;
	return CB_OK;
}

static cb_code check_tail(graft_check *c, uint64_t ino, uint64_t size, cb_error *err)
{
	bool over = false, behind = false;
	CB_TRY(reaches_over(c, ino, size, &over, err));
	CB_TRY(has_extents(c, ino, size, LIMIT_FILE_BYTES, &behind, err));
	return over || behind ? bad(err, "data past the end of a file") : CB_OK;
}

/* A record was replaced or went away: what hung on it? `now` is what the inode is afterwards, NULL when that is to be looked up. */
static cb_code check_replaced(graft_check *c, const record *was, const record *now, cb_error *err)
{
	if (was->type != CB_DIR && was->form != DATA_EXTENTS) return CB_OK;
	if (!now) {
		cb_code code = look_up(c, was->ino, &now, err);
		if (code == CB_NOTFOUND) return check_links(c, was->ino, err);
		if (code != CB_OK) return code;
	}
	if (was->type == CB_DIR && now->type != CB_DIR)
		CB_TRY(refuse_any(c, KIND_ENTRY, was->ino, "something lies in a file", err));
	if (was->form != DATA_EXTENTS) return CB_OK;
	if (now->form != DATA_EXTENTS) return refuse_any(c, KIND_EXTENT, was->ino, "data that a file does not know of", err);
	return now->size < was->size ? check_tail(c, was->ino, now->size, err) : CB_OK;
}

/* ---- folders ---- */

static cb_code check_parent(graft_check *c, uint64_t parent, cb_error *err)
{
	const record *r = NULL;
	cb_code code = look_up(c, parent, &r, err);
	if (code == CB_NOTFOUND || (code == CB_OK && r->type != CB_DIR)) return bad(err, "something lies in what is no folder");
	return code;
}

static reach_slot *reach_at(graft_check *c, uint64_t ino)
{
	return &c->reach[ino % REACH_SLOTS];
}

/* Follows parents until the root, or a folder known to lead there. What leads nowhere ends at DEPTH_MAX. */
static cb_code check_reach(graft_check *c, uint64_t ino, cb_error *err)
{
	uint64_t depth = 0;
	for (c->way.size = 0; ino != INO_ROOT;) {
		const reach_slot *known = reach_at(c, ino);
		if (ino == 0) return bad(err, "a folder without a place");
		if (known->ino == ino) {
			depth = known->depth;
			break;
		}
		place first;
		cb_code code = buf_append(&c->way, &ino, sizeof(ino), err);
		if (code == CB_LIMIT) return bad(err, "folders lie in a cycle, or too deep");
		if (code == CB_OK) code = inode_place(c->after, ino, &first, err);
		if (code == CB_NOTFOUND) return bad(err, "a folder without a place");
		if (code != CB_OK) return code;
		ino = first.parent;
	}
	for (size_t i = c->way.size / sizeof(uint64_t); i > 0; i--) {
		uint64_t at;
		memcpy(&at, c->way.bytes + (i - 1) * sizeof(at), sizeof(at));
		*reach_at(c, at) = (reach_slot){at, ++depth};
	}
	return depth > DEPTH_MAX ? bad(err, "folders lie too deep") : CB_OK;
}

/* ---- keys ---- */

static cb_code check_old_entry(graft_check *c, const key_parts *k, const entry *was, const entry *now, cb_error *err)
{
	bool same = now && now->rec.ino == was->rec.ino, named = false;
	if (!same) {
		CB_TRY(has_name(c, was->rec.ino, k->ino, k->name, &named, err));
		if (named) return bad(err, "a name without its entry");
	}
	if (was->is_link) return CB_OK;
	CB_TRY(count_record(c, &was->rec, false, err));
	return check_replaced(c, &was->rec, same && !now->is_link ? &now->rec : NULL, err);
}

static cb_code check_new_entry(graft_check *c, const key_parts *k, const entry *was, const entry *now, cb_error *err)
{
	bool named = false;
	CB_TRY(has_name(c, now->rec.ino, k->ino, k->name, &named, err));
	if (!named) return bad(err, "an entry without its name");
	if (now->rec.ino == INO_ROOT) return bad(err, "a second root");
	bool same = was && was->rec.ino == now->rec.ino;
	if (!same) CB_TRY(check_parent(c, k->ino, err));
	if (same && was->is_link != now->is_link) CB_TRY(check_links(c, now->rec.ino, err));
	if (now->is_link) return CB_OK;
	CB_TRY(check_record(&now->rec, false, err));
	CB_TRY(count_record(c, &now->rec, true, err));
	return now->rec.type == CB_DIR && !same ? check_reach(c, now->rec.ino, err) : CB_OK;
}

static cb_code check_entry(graft_check *c, const key_parts *k, span old_value, span new_value, cb_error *err)
{
	entry was, now;
	if (old_value.bytes) CB_TRY(entry_decode(old_value, &was, err));
	if (new_value.bytes) CB_TRY(entry_decode(new_value, &now, err));
	if (k->ino == 0) {
		bool root = !k->name.size && new_value.bytes && !now.is_link && now.rec.ino == INO_ROOT && now.rec.type == CB_DIR;
		return root ? check_record(&now.rec, false, err) : bad(err, "it has no root, or a strange one");
	}
	if (old_value.bytes) CB_TRY(check_old_entry(c, k, &was, new_value.bytes ? &now : NULL, err));
	return new_value.bytes ? check_new_entry(c, k, old_value.bytes ? &was : NULL, &now, err) : CB_OK;
}

static cb_code check_name(graft_check *c, const key_parts *k, span new_value, cb_error *err)
{
	entry e;
	bool found = false;
	if (k->parent == 0 || (new_value.bytes && new_value.size)) return bad(err, "a strange name");
	CB_TRY(entry_after(c, k->parent, k->name, &found, &e, err));
	bool names_it = found && e.rec.ino == k->ino;
	if (names_it != (new_value.bytes != NULL)) return bad(err, "a name without its entry, or the other way round");
	return check_links(c, k->ino, err);
}

static cb_code check_inode(graft_check *c, const key_parts *k, span old_value, span new_value, cb_error *err)
{
	record was, now;
	if (old_value.bytes) {
		CB_TRY(record_decode(old_value, &was, err));
		CB_TRY(count_record(c, &was, false, err));
	}
	if (new_value.bytes) {
		CB_TRY(record_decode(new_value, &now, err));
		if (now.ino != k->ino || k->ino == INO_ROOT) return bad(err, "a record under another number");
		CB_TRY(check_record(&now, true, err));
		CB_TRY(count_record(c, &now, true, err));
	}
	if (old_value.bytes) CB_TRY(check_replaced(c, &was, new_value.bytes ? &now : NULL, err));
	bool steady = old_value.bytes && new_value.bytes && was.links == now.links;
	return steady ? CB_OK : check_links(c, k->ino, err);
}

/*
 * Of data that lie over each other, two lie side by side, and one of these is new, for the state before was sound. If it is the first, the
 * other begins in it. If it is the second, the first is the last before it in the tree or the overlay, where nothing else, deleted or not,
 * can begin in between: that is what data_extent_at relies on.
 */
static cb_code check_overlap(graft_check *c, uint64_t ino, uint64_t offset, uint64_t end, cb_error *err)
{
	bool over = false, within = false;
	CB_TRY(reaches_over(c, ino, offset, &over, err));
	CB_TRY(has_extents(c, ino, offset + 1, end, &within, err));
	return over || within ? bad(err, "data of a file lie over each other") : CB_OK;
}

static cb_code check_extent(graft_check *c, const key_parts *k, span new_value, cb_error *err)
{
	if (!new_value.bytes) return CB_OK;
	extent x;
	const record *r = NULL;
	CB_TRY(extent_decode(new_value, k->offset, &x, err));
	cb_code code = look_up(c, k->ino, &r, err);
	if (code == CB_NOTFOUND || (code == CB_OK && r->form != DATA_EXTENTS)) return bad(err, "data that no file knows of");
	if (code != CB_OK) return code;
	if (x.offset + x.length > r->size) return bad(err, "data past the end of a file");
	return check_overlap(c, k->ino, x.offset, x.offset + x.length, err);
}

static cb_code check_attr(graft_check *c, const key_parts *k, span new_value, cb_error *err)
{
	const record *r = NULL;
	if (!new_value.bytes) return CB_OK;
	cb_code code = look_up(c, k->ino, &r, err);
	return code == CB_NOTFOUND ? bad(err, "attributes of a file that is not there") : code;
}

cb_code graft_check_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	graft_check *c = context;
	key_parts k;
	CB_TRY(key_parse(key_bytes, &k, err));
	c->keys++;
	switch (k.kind) {
	case KIND_ENTRY:
		return check_entry(c, &k, old_value, new_value, err);
	case KIND_NAME:
		return check_name(c, &k, new_value, err);
	case KIND_INODE:
		return check_inode(c, &k, old_value, new_value, err);
	case KIND_EXTENT:
		return check_extent(c, &k, new_value, err);
	case KIND_ATTR:
	case KIND_TAG:
		return check_attr(c, &k, new_value, err);
	default: /* key-values stand alone; the counters are compared at the end */
		return CB_OK;
	}
}

static cb_code counters_of(const tree_view *v, bool *found, counters *out, cb_error *err)
{
	key k = key_counters();
	tree_value value;
	*out = (counters){0};
	cb_code code = tree_get(v, key_span(&k), &value, err);
	*found = code == CB_OK;
	if (code == CB_NOTFOUND) return CB_OK;
	return code == CB_OK ? counters_decode(span_make(value.bytes, value.size), out, err) : code;
}

cb_code graft_check_end(graft_check *c, uint64_t *out_keys, cb_error *err)
{
	counters was, now;
	bool had, has, rooted = false;
	entry root;
	CB_TRY(counters_of(c->before, &had, &was, err));
	CB_TRY(counters_of(c->after, &has, &now, err));
	CB_TRY(entry_after(c, 0, (span){0}, &rooted, &root, err));
	if (!rooted) return bad(err, "it has no root");
	if (!has || now.files != was.files + c->shift.files || now.bytes != was.bytes + c->shift.bytes)
		return bad(err, "its counters are wrong");
	if (now.bytes > LIMIT_BOX_BYTES) return box_refuse_bytes(err);
	*out_keys = c->keys;
	return CB_OK;
}
