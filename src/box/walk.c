/*
 * walk.c: listing, walking, globbing, recursive copy and removal.
 *
 * Visitors run on a snapshot with the handle unlocked, so they may read and even change the box. Walks keep their own stack: a tree as
 * deep as a hostile box can make it costs heap, bounded by WALK_DEPTH_MAX, never the C stack.
 */
#include "box/box.h"
#include "box/glob.h"

#include <assert.h>

enum {
	WALK_DEPTH_MAX = LIMIT_TREE_DEPTH * 8,
	WALK_PATH_MAX = 1 << 20, /* renames can nest deeper than a path can be typed */
};

/* The entry at a cursor below a folder; *found false past its last. Record of a link is fetched. */
static cb_code cursor_entry(const tree_view *v, tree_cursor *c, uint64_t dir, char name[LIMIT_NAME_BYTES + 1], record *out,
                            bool *found, cb_error *err)
{
	enum { PREFIX_BYTES = 9 }; /* kind and parent */
	span k, value;
	*found = tree_cursor_get(c, &k, &value) && k.size >= PREFIX_BYTES && k.bytes[0] == KIND_ENTRY &&
	         get_be64(k.bytes + 1) == dir;
	if (!*found) return CB_OK;
	span n = span_make(k.bytes + PREFIX_BYTES, k.size - PREFIX_BYTES);
	memcpy(name, n.bytes, n.size);
	name[n.size] = 0;
	if (!entry_is_link(value)) return entry_record(value, out, err);
	inode node;
	CB_TRY(inode_at(v, dir, n, &node, NULL, err));
	*out = node.rec;
	return CB_OK;
}

static cb_code enter_dir(cb_box *b, const char *path, snapshot *out, uint64_t *ino, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	snapshot_take(b, out);
	resolved r;
	cb_code code = path_find(b, &out->v, path, PATH_FOLLOW, GATE_READ, &r, err);
	if (code == CB_OK && r.node.rec.type != CB_DIR) code = cb_err_set(err, CB_NOTDIR, "'%s' is not a folder", path);
	if (code == CB_OK) *ino = r.node.rec.ino;
	return box_leave(b, code);
}

cb_code cb_readdir(cb_box *b, const char *path, cb_entry_visit visit, void *context, cb_error *err)
{
	AUTO_SNAPSHOT snapshot now = {0};
	uint64_t dir = 0;
	CB_TRY(enter_dir(b, path, &now, &dir, err));
	key prefix = key_prefix(KIND_ENTRY, dir);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open(&now.v, key_span(&prefix), &c, err));
	for (;;) {
		char name[LIMIT_NAME_BYTES + 1];
		record r;
		bool found = false;
		CB_TRY(cursor_entry(&now.v, c, dir, name, &r, &found, err));
		if (!found) return CB_OK;
		cb_stat_info info = record_stat(&r);
		cb_code code = visit(context, name, &info, err);
		if (code != CB_OK) return code == CB_INTERRUPTED ? CB_OK : code;
		CB_TRY(tree_cursor_next(c, err));
	}
}

/* ---- walking ---- */

typedef struct level {
	uint64_t dir;
	tree_cursor *c;
	size_t path_size; /* of the folder's own path */
} level;

typedef struct walker {
	const tree_view *v;
	buf levels; /* level structs */
	buf path;   /* of what was visited last */
} walker;

static level *walker_top(walker *w)
{
	return w->levels.size ? (level *)(void *)(w->levels.bytes + w->levels.size) - 1 : NULL;
}

static cb_code walker_push(walker *w, uint64_t dir, cb_error *err)
{
	uint8_t *slot;
	key prefix = key_prefix(KIND_ENTRY, dir);
	level l = {.dir = dir, .path_size = w->path.size};
	CB_TRY(buf_reserve(&w->levels, sizeof(level), err));
	CB_TRY(tree_cursor_open(w->v, key_span(&prefix), &l.c, err));
	CB_TRY(buf_extend(&w->levels, sizeof(level), &slot, err)); /* reserved: cannot fail */
	memcpy(slot, &l, sizeof(l));
	return CB_OK;
}

static void walker_pop(walker *w)
{
	tree_cursor_close(walker_top(w)->c);
	w->levels.size -= sizeof(level);
}

static void walker_done(walker *w)
{
	while (w->levels.size) walker_pop(w);
	buf_done(&w->levels);
	buf_done(&w->path);
}

static void walker_init(walker *w, const tree_view *v)
{
	*w = (walker){v, BUF_INIT(sizeof(level) * WALK_DEPTH_MAX), BUF_INIT(WALK_PATH_MAX)};
}

static cb_code path_set(buf *path, size_t keep, const char *name, cb_error *err)
{
	path->size = keep;
	if (keep == 0 || path->bytes[keep - 1] != '/') CB_TRY(buf_append_byte(path, '/', err));
	CB_TRY(buf_append_str(path, name, err));
	CB_TRY(buf_append_byte(path, 0, err));
	path->size--;
	return CB_OK;
}

/* The next entry below, parents before children; the caller decides with walker_push whether to descend. *found false at the end. */
static cb_code walker_next(walker *w, record *out, bool *found, cb_error *err)
{
	level *top;
	while ((top = walker_top(w)) != NULL) {
		char name[LIMIT_NAME_BYTES + 1];
		CB_TRY(cursor_entry(w->v, top->c, top->dir, name, out, found, err));
		if (*found) {
			CB_TRY(path_set(&w->path, top->path_size, name, err));
			return tree_cursor_next(top->c, err);
		}
		walker_pop(w);
	}
	*found = false;
	return CB_OK;
}

typedef bool (*walk_filter)(void *context, const char *path, bool *descend);

static cb_code walk_visit(const char *path, const record *r, cb_walk_visit visit, void *context, cb_error *err)
{
	cb_stat_info info = record_stat(r);
	return visit(context, path, &info, err);
}

static cb_code walk_below(walker *w, walk_filter filter, void *filter_context, cb_walk_visit visit, void *context, cb_error *err)
{
	for (;;) {
		record r;
		bool found = false, descend = true;
		CB_TRY(walker_next(w, &r, &found, err));
		if (!found) return CB_OK;
		const char *path = (const char *)w->path.bytes;
		bool wanted = !filter || filter(filter_context, path, &descend);
		if (wanted) {
			cb_code code = walk_visit(path, &r, visit, context, err);
			if (code != CB_OK) return code == CB_INTERRUPTED ? CB_OK : code;
		}
		if (r.type == CB_DIR && descend) CB_TRY(walker_push(w, r.ino, err));
	}
}

cb_code cb_walk(cb_box *b, const char *path, cb_walk_visit visit, void *context, cb_error *err)
{
	AUTO_SNAPSHOT snapshot now = {0};
	CB_TRY(box_enter(b, err));
	snapshot_take(b, &now);
	resolved r;
	cb_code code = path_find(b, &now.v, path, 0, GATE_READ, &r, err);
	(void)box_leave(b, code);
	if (code != CB_OK) return code;
	AUTO_FREE char *clean = path_clean(path);
	if (!clean) return cb_err_nomem(err);
	code = walk_visit(clean, &r.node.rec, visit, context, err);
	if (code != CB_OK) return code == CB_INTERRUPTED ? CB_OK : code;
	if (r.node.rec.type != CB_DIR) return CB_OK;
	walker w;
	walker_init(&w, &now.v);
	code = buf_append_str(&w.path, clean, err);
	if (code == CB_OK) code = walker_push(&w, r.node.rec.ino, err);
	if (code == CB_OK) code = walk_below(&w, NULL, NULL, visit, context, err);
	walker_done(&w);
	return code;
}

static bool glob_filter(void *context, const char *path, bool *descend)
{
	const glob *g = context;
	span relative = span_str(path + 1);
	*descend = glob_may_match_below(g, relative);
	return glob_match(g, relative);
}

cb_code cb_glob(cb_box *b, const char *pattern, cb_walk_visit visit, void *context, cb_error *err)
{
	glob *g = NULL;
	while (*pattern == '/') pattern++;
	CB_TRY(glob_compile(pattern, &g, err));
	AUTO_SNAPSHOT snapshot now = {0};
	uint64_t root = 0;
	walker w;
	walker_init(&w, &now.v);
	cb_code code = enter_dir(b, "/", &now, &root, err);
	if (code == CB_OK) code = walker_push(&w, root, err);
	if (code == CB_OK) code = walk_below(&w, glob_filter, g, visit, context, err);
	walker_done(&w);
	glob_destroy(g);
	return code;
}

/* ---- removal ---- */

/* Collects what is below first (children after parents), then unlinks from the end: a cursor must not see the map change. */
typedef struct victim {
	uint64_t parent;
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} victim;

static cb_code collect_below(const tree_view *v, uint64_t dir, buf *out, cb_error *err)
{
	walker w;
	walker_init(&w, v);
	cb_code code = walker_push(&w, dir, err);
	while (code == CB_OK) {
		record r;
		bool found = false;
		code = walker_next(&w, &r, &found, err);
		if (code != CB_OK || !found) break;
		victim one = {.parent = walker_top(&w)->dir};
		const char *path = (const char *)w.path.bytes;
		const char *name = strrchr(path, '/') + 1;
		one.size = (uint8_t)strlen(name);
		memcpy(one.name, name, one.size);
		code = buf_append(out, &one, sizeof(one), err);
		if (code == CB_OK && r.type == CB_DIR) code = walker_push(&w, r.ino, err);
	}
	walker_done(&w);
	return code;
}

cb_code tree_remove(txn *t, uint64_t parent, span name, const inode *node, cb_error *err)
{
	if (node->rec.type == CB_DIR) {
		AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
		tree_view v = txn_view(t);
		CB_TRY(collect_below(&v, node->rec.ino, &list, err));
		const victim *all = (const victim *)(const void *)list.bytes;
		for (size_t i = list.size / sizeof(victim); i > 0; i--)
			CB_TRY(inode_unlink(t, all[i - 1].parent, span_make(all[i - 1].name, all[i - 1].size), err));
	}
	return inode_unlink(t, parent, name, err);
}

static cb_code do_remove(op *o, const char *path, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, 0, GATE_REMOVE, &r, err));
	if (r.is_dot) return cb_err_set(err, CB_BUSY, "'%s' cannot be removed by this name", path);
	return tree_remove(o->t, r.parent, resolved_name(&r), &r.node, err);
}

cb_code cb_remove(cb_box *b, const char *path, cb_error *err)
{
	op o;
	CB_TRY(op_begin(&o, b, "remove", path, err));
	return op_end(&o, do_remove(&o, path, err), NULL, err);
}

/* ---- copying ---- */

typedef struct copy_keys {
	txn *t;
	uint64_t ino; /* of the copy */
} copy_keys;

/* The same X, A or T key for another inode: contents are shared. */
static cb_code copy_key(void *context, span key_bytes, span value, cb_error *err)
{
	const copy_keys *c = context;
	key k = {.size = key_bytes.size};
	tree_value copy = {.size = value.size};
	memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
	put_be64(k.bytes + 1, c->ino);
	if (value.size) memcpy(copy.bytes, value.bytes, value.size);
	return txn_put(c->t, &k, &copy, err);
}

cb_code inode_copy_data(txn *t, const tree_view *from, const record *source, inode *made, cb_error *err)
{
	record *r = &made->rec;
	if (t->quota_file_bytes && source->size > t->quota_file_bytes)
		return cb_err_set(err, CB_QUOTA, "a file of this box may have %llu bytes", (unsigned long long)t->quota_file_bytes);
	CB_TRY(txn_count(t, 0, (int64_t)source->size, err));
	r->size = source->size;
	r->form = source->form;
	r->content = source->content;
	r->start = source->start;
	memcpy(r->bytes, source->bytes, sizeof(r->bytes));
	copy_keys c = {t, r->ino};
	return inode_keys(from, source->ino, KIND_EXTENT, copy_key, &c, err);
}

cb_code inode_copy_into(txn *t, const tree_view *from, const record *source, inode *made, cb_error *err)
{
	CB_TRY(inode_copy_data(t, from, source, made, err));
	made->rec.mode = source->mode;
	made->rec.mtime_ns = source->mtime_ns;
	made->rec.atime_ns = source->atime_ns;
	copy_keys c = {t, made->rec.ino};
	CB_TRY(inode_keys(from, source->ino, KIND_ATTR, copy_key, &c, err));
	CB_TRY(inode_keys(from, source->ino, KIND_TAG, copy_key, &c, err));
	return inode_save(t, made, err);
}

cb_code inode_copy(txn *t, const tree_view *from, const record *source, uint64_t parent, span name, inode *made, cb_error *err)
{
	CB_TRY(inode_create(t, parent, name, source->type, source->mode, made, err));
	return inode_copy_into(t, from, source, made, err);
}

/* Folders of the walk and what they became. */
typedef struct copied_dir {
	uint64_t from, to;
} copied_dir;

static cb_code copy_below(txn *t, const tree_view *from, uint64_t dir, uint64_t to, cb_error *err)
{
	walker w;
	AUTO_BUF buf dirs = BUF_INIT(sizeof(copied_dir) * WALK_DEPTH_MAX); /* parallel to w.levels */
	walker_init(&w, from);
	copied_dir top = {dir, to};
	cb_code code = buf_append(&dirs, &top, sizeof(top), err);
	if (code == CB_OK) code = walker_push(&w, dir, err);
	while (code == CB_OK) {
		record r;
		inode made;
		bool found = false;
		code = walker_next(&w, &r, &found, err);
		if (code != CB_OK || !found) break;
		dirs.size = w.levels.size / sizeof(level) * sizeof(copied_dir);
		const copied_dir *into = (const copied_dir *)(const void *)(dirs.bytes + dirs.size) - 1;
		const char *name = strrchr((const char *)w.path.bytes, '/') + 1;
		code = inode_copy(t, from, &r, into->to, span_str(name), &made, err);
		if (code != CB_OK || r.type != CB_DIR) continue;
		copied_dir next = {r.ino, made.rec.ino};
		code = buf_append(&dirs, &next, sizeof(next), err);
		if (code == CB_OK) code = walker_push(&w, r.ino, err);
	}
	walker_done(&w);
	return code;
}

cb_code tree_copy(txn *t, const tree_view *from, const inode *source, uint64_t parent, span name, cb_error *err)
{
	inode made;
	CB_TRY(inode_copy(t, from, &source->rec, parent, name, &made, err));
	return source->rec.type == CB_DIR ? copy_below(t, from, source->rec.ino, made.rec.ino, err) : CB_OK;
}

static cb_code copy_resolved(op *o, const snapshot *before, const resolved *f, const resolved *r, unsigned flags, cb_error *err)
{
	if (r->exists) {
		if (flags & CB_NOREPLACE) return cb_err_set(err, CB_EXISTS, "the target exists already");
		if (r->node.rec.ino == f->node.rec.ino) return cb_err_set(err, CB_INVALID, "source and target are the same file");
		if (r->node.rec.type == CB_DIR)
			return cb_err_set(err, f->node.rec.type == CB_DIR ? CB_EXISTS : CB_ISDIR, "the target is a folder");
		if (f->node.rec.type == CB_DIR) return cb_err_set(err, CB_NOTDIR, "a folder cannot replace a file");
		if (r->node.rec.type == CB_FILE && f->node.rec.type == CB_FILE) { /* the target keeps its inode, links and mode */
			inode target = r->node;
			uint32_t mode = target.rec.mode;
			CB_TRY(data_drop(o->t, &target, err));
			CB_TRY(inode_delete_keys(o->t, target.rec.ino, KIND_ATTR, err));
			inode_changed(o->t, &target, true);
			CB_TRY(inode_copy_into(o->t, &before->v, &f->node.rec, &target, err));
			target.rec.mode = mode;
			target.rec.mtime_ns = o->t->now_ns;
			return inode_save(o->t, &target, err);
		}
		CB_TRY(inode_unlink(o->t, r->parent, resolved_name(r), err));
	}
	if (!r->exists && r->must_be_dir && f->node.rec.type != CB_DIR) return cb_err_set(err, CB_NOTDIR, "the target ends in '/'");
	return tree_copy(o->t, &before->v, &f->node, r->parent, resolved_name(r), err);
}

static cb_code do_copy(op *o, const char *from, const char *to, unsigned flags, cb_error *err)
{
	if (flags & CB_PARENTS) CB_TRY(path_make_parents(o, to, err));
	AUTO_SNAPSHOT snapshot before = {0};
	snapshot_take(o->b, &before);
	resolved f, r;
	CB_TRY(path_find(o->b, &before.v, from, path_how(flags), GATE_READ, &f, err));
	CB_TRY(path_resolve(o->b, &before.v, to, PATH_FOLLOW, GATE_CREATE, &r, err));
	cb_code code = copy_resolved(o, &before, &f, &r, flags, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "copying '%s' to '%s'", from, to);
}

cb_code cb_copy(cb_box *b, const char *from, const char *to, unsigned flags, cb_error *err)
{
	op o;
	CB_TRY(op_begin(&o, b, "copy", to, err));
	return op_end(&o, do_copy(&o, from, to, flags, err), NULL, err);
}
