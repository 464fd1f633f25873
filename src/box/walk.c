/*
 * walk.c: listing, walking, globbing, recursive copy and removal.
 *
 * Cursors stand on a snapshot, and visitors are called from a loop over one, with the handle unlocked. Walks keep their own stack: a tree
 * as deep as a hostile box can make it costs heap, bounded by LIMIT_WALK_DEPTH, never the C stack. Copying and removing need no path and
 * no order: they list folders as they find them, and go as deep as there is memory.
 */
#include "box/walk.h"
#include "base/args.h"

#include <assert.h>

#include "box/cursor.h"
#include "box/gate.h"
#include "box/glob.h"

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

/* ---- walking ---- */

static walk_level *walker_top(walker *w)
{
	return w->levels.size ? (walk_level *)(void *)(w->levels.bytes + w->levels.size) - 1 : NULL;
}

cb_code walker_push(walker *w, uint64_t dir, cb_error *err)
{
	uint8_t *slot;
	key prefix = key_prefix(KIND_ENTRY, dir);
	walk_level l = {.dir = dir, .path_size = w->path.size};
	if (walker_depth(w) == LIMIT_WALK_DEPTH)
		return cb_err_set(err, CB_LIMIT, "folders are nested deeper than %d: name one further down", LIMIT_WALK_DEPTH);
	CB_TRY(buf_reserve(&w->levels, sizeof(walk_level), err));
	CB_TRY(tree_cursor_open_below(w->v, key_span(&prefix), &l.c, err));
	CB_TRY(buf_extend(&w->levels, sizeof(walk_level), &slot, err)); /* reserved: cannot fail */
	memcpy(slot, &l, sizeof(l));
	return CB_OK;
}

static void walker_pop(walker *w)
{
	tree_cursor_close(walker_top(w)->c);
	w->levels.size -= sizeof(walk_level);
}

void walker_done(walker *w)
{
	while (w->levels.size) walker_pop(w);
	buf_done(&w->levels);
	buf_done(&w->path);
}

void walker_init(walker *w, const tree_view *v)
{
	*w = (walker){v, BUF_INIT(sizeof(walk_level) * LIMIT_WALK_DEPTH), BUF_INIT(WALK_PATH_MAX)};
}

/* "/folder" and "name" to "/folder/name": once for each file of a walk, so nothing is done twice. */
static cb_code path_set(buf *path, size_t keep, const char *name, size_t size, cb_error *err)
{
	bool slash = keep == 0 || path->bytes[keep - 1] != '/';
	path->size = keep;
	cb_code code = buf_reserve(path, slash + size + 1, err);
	if (code == CB_LIMIT)
		return cb_err_set(err, CB_LIMIT, "a path is longer than %d bytes: name a folder further down", WALK_PATH_MAX);
	if (code != CB_OK) return code;
	uint8_t *at = path->bytes + keep;
	if (slash) *at++ = '/';
	memcpy(at, name, size);
	at[size] = 0;
	path->size = keep + slash + size;
	return CB_OK;
}

/* The next entry by its name alone: of the deepest level that has one left, which is the top now. */
static inline cb_code walker_entry(walker *w, char name[LIMIT_NAME_BYTES + 1], record *out, bool *found, cb_error *err)
{
	walk_level *top;
	while ((top = walker_top(w)) != NULL) {
		CB_TRY(cursor_entry(w->v, top->c, top->dir, name, out, found, err));
		if (*found) return tree_cursor_next(top->c, err);
		walker_pop(w);
	}
	*found = false;
	return CB_OK;
}

cb_code walker_next(walker *w, record *out, bool *found, cb_error *err)
{
	char name[LIMIT_NAME_BYTES + 1];
	CB_TRY(walker_entry(w, name, out, found, err));
	return *found ? path_set(&w->path, walker_top(w)->path_size, name, strlen(name), err) : CB_OK;
}

/* ---- cursors ---- */

/* One for all lists of files: those of a folder, those below it, those that match a pattern. */
typedef struct entry_cursor {
	cb_cursor c;
	snapshot now;
	walker w;
	record first;    /* of the path itself, */
	bool give_first; /* when that is given too */
	bool names;      /* of one folder: no paths are made */
	char name[LIMIT_NAME_BYTES + 1];
	glob *g;           /* NULL: all are wanted */
	uint64_t to_enter; /* the folder that was given last; 0: none, or not to be entered */
	cb_stat_info info;
	cb_entry entry;
} entry_cursor;

static cb_code entry_give(entry_cursor *e, const char *path, const record *r, const void **out)
{
	e->entry.path = path;
	e->info = record_stat(r);
	*out = &e->entry;
	return CB_OK;
}

static cb_code entry_next_below(entry_cursor *e, const void **out, cb_error *err)
{
	for (;;) {
		record r;
		bool found = false, wanted = true, descend = true;
		/* Only now, when somebody asks for more: the path that was lent may change. */
		if (e->to_enter) CB_TRY(walker_push(&e->w, e->to_enter, err));
		e->to_enter = 0;
		CB_TRY(walker_next(&e->w, &r, &found, err));
		*out = NULL;
		if (!found) return CB_OK;
		const char *path = (const char *)e->w.path.bytes;
		if (e->g) {
			span relative = span_str(path + 1);
			wanted = glob_match(e->g, relative);
			descend = glob_may_match_below(e->g, relative);
		}
		if (r.type == CB_DIR && descend) e->to_enter = r.ino;
		if (wanted) return entry_give(e, path, &r, out);
	}
}

static cb_code entry_next(cb_cursor *c, const void **out, cb_error *err)
{
	entry_cursor *e = (entry_cursor *)c;
	if (e->names) {
		record r;
		bool found = false;
		CB_TRY(walker_entry(&e->w, e->name, &r, &found, err));
		*out = NULL;
		return found ? entry_give(e, e->name, &r, out) : CB_OK;
	}
	if (e->give_first) {
		e->give_first = false;
		e->to_enter = e->first.type == CB_DIR ? e->first.ino : 0;
		return entry_give(e, (const char *)e->w.path.bytes, &e->first, out);
	}
	return entry_next_below(e, out, err);
}

static void entry_done(cb_cursor *c)
{
	entry_cursor *e = (entry_cursor *)c;
	walker_done(&e->w);
	snapshot_done(&e->now);
	glob_destroy(e->g);
}

static cb_code entry_open(cb_box *b, entry_cursor **out, cb_error *err)
{
	static const cursor_ops ops = {CURSOR_ENTRIES, entry_next, entry_done, false};
	CB_TRY(cursor_create(sizeof(**out), &ops, b->cs, b, out, err));
	(*out)->entry = CB_WITH(cb_entry, .info = &(*out)->info);
	walker_init(&(*out)->w, &(*out)->now.v);
	return CB_OK;
}

/* What is at the path now becomes the first. */
static cb_code entry_start(entry_cursor *e, cb_box *b, const char *path, unsigned how, cb_error *err)
{
	resolved r;
	CB_TRY(box_enter(b, err));
	cb_code code = snapshot_take(b, &e->now, err);
	if (code == CB_OK) code = path_find(b, &e->now.v, path, how, GATE_READ, &r, err);
	if (code == CB_OK) e->first = r.node.rec;
	if (code == CB_OK && e->first.type == CB_DIR) code = gate_folder_read(b, &e->now, e->first.ino, err);
	return box_leave(b, code);
}

/* The entries of a folder, named as seen from it. */
static cb_code entry_start_folder(entry_cursor *e, cb_box *b, const char *path, cb_error *err)
{
	CB_TRY(entry_start(e, b, path, PATH_FOLLOW, err));
	if (e->first.type != CB_DIR) return cb_err_set(err, CB_NOTDIR, "'%s' is not a folder", path);
	return walker_push(&e->w, e->first.ino, err);
}

/* Hands it over when it was opened, closes it when not. */
static cb_code entry_opened(entry_cursor *e, cb_code code, cb_cursor **out)
{
	if (code == CB_OK) *out = &e->c;
	else cb_cursor_close(&e->c);
	return code;
}

cb_code cb_readdir_open(cb_box *b, const char *path, cb_cursor **out, cb_error *err)
{
	entry_cursor *e = NULL;
	NEED(err, "box path out", b, path, out);
	CB_TRY(entry_open(b, &e, err));
	e->names = true;
	return entry_opened(e, entry_start_folder(e, b, path, err), out);
}

cb_code cb_walk_open(cb_box *b, const char *path, cb_cursor **out, cb_error *err)
{
	entry_cursor *e = NULL;
	NEED(err, "box path out", b, path, out);
	AUTO_FREE char *clean = path_clean(path);
	if (!clean) return cb_err_nomem(err);
	CB_TRY(entry_open(b, &e, err));
	cb_code code = entry_start(e, b, path, 0, err);
	if (code == CB_OK) code = buf_append(&e->w.path, clean, strlen(clean) + 1, err);
	if (code == CB_OK) e->w.path.size--; /* the NUL is not counted */
	e->give_first = true;
	return entry_opened(e, code, out);
}

cb_code cb_glob_open(cb_box *b, const char *pattern, cb_cursor **out, cb_error *err)
{
	entry_cursor *e = NULL;
	NEED(err, "box pattern out", b, pattern, out);
	CB_TRY(args_name("pattern", pattern, err));
	CB_TRY(entry_open(b, &e, err));
	while (*pattern == '/') pattern++;
	cb_code code = glob_compile(pattern, &e->g, err);
	if (code == CB_OK) code = entry_start_folder(e, b, "/", err);
	return entry_opened(e, code, out);
}

cb_code entries_visit(cb_cursor *c, cb_walk_visit visit, void *context, cb_error *err)
{
	for (;;) {
		const void *item = NULL;
		CB_TRY(cursor_next(c, &item, err));
		const cb_entry *e = item;
		if (!e) return CB_OK;
		cb_error told;
		cb_code code = cb_err_visited(visit(context, e->path, e->info, cb_err_aside(&told)), &told, err);
		if (code != CB_OK) return code == CB_INTERRUPTED ? CB_OK : code;
	}
}

cb_code cb_readdir(cb_box *b, const char *path, cb_entry_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_readdir_open(b, path, &c, err));
	return entries_visit(c, visit, context, err);
}

cb_code cb_walk(cb_box *b, const char *path, cb_walk_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_walk_open(b, path, &c, err));
	return entries_visit(c, visit, context, err);
}

cb_code cb_glob(cb_box *b, const char *pattern, cb_walk_visit visit, void *context, cb_error *err)
{
	NEED(err, "box pattern visit", b, pattern, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_glob_open(b, pattern, &c, err));
	return entries_visit(c, visit, context, err);
}

/* ---- removal ---- */

/* Collects what is below first (children after parents), then unlinks from the end: a cursor must not see the map change. */
typedef struct victim {
	uint64_t parent;
	uint64_t folder; /* its own number, 0: no folder */
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} victim;

static cb_code collect_entries(const tree_view *v, uint64_t dir, buf *out, cb_error *err)
{
	key prefix = key_prefix(KIND_ENTRY, dir);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open_below(v, key_span(&prefix), &c, err));
	for (;;) {
		char name[LIMIT_NAME_BYTES + 1];
		record r;
		bool found = false;
		CB_TRY(cursor_entry(v, c, dir, name, &r, &found, err));
		if (!found) return CB_OK;
		victim one = {.parent = dir, .folder = r.type == CB_DIR ? r.ino : 0, .size = (uint8_t)strlen(name)};
		memcpy(one.name, name, one.size);
		CB_TRY(buf_append(out, &one, sizeof(one), err));
		CB_TRY(tree_cursor_next(c, err));
	}
}

static cb_code collect_below(const tree_view *v, uint64_t dir, buf *out, cb_error *err)
{
	CB_TRY(collect_entries(v, dir, out, err));
	for (size_t i = 0; i < out->size / sizeof(victim); i++) {
		uint64_t folder = ((const victim *)(const void *)out->bytes)[i].folder;
		if (folder) CB_TRY(collect_entries(v, folder, out, err));
	}
	return CB_OK;
}

cb_code tree_remove(txn *t, uint64_t parent, span name, const inode *node, cb_error *err)
{
	if (node->rec.type == CB_DIR) {
		AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
		tree_view v = txn_raw(t); /* all of it; gate_changes refuses when something in it may not go */
		CB_TRY(collect_below(&v, node->rec.ino, &list, err));
		const victim *all = (const victim *)(const void *)list.bytes;
		for (size_t i = list.size / sizeof(victim); i > 0; i--)
			CB_TRY(inode_unlink(t, all[i - 1].parent, span_make(all[i - 1].name, all[i - 1].size), err));
	}
	return inode_unlink(t, parent, name, err);
}

static cb_code do_remove(op *o, void *context, cb_error *err)
{
	const char *path = *(const char *const *)context;
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, 0, GATE_REMOVE, &r, err));
	if (r.is_dot) return cb_err_set(err, CB_INVALID, "'%s' cannot be removed by this name", path);
	o->t->rebases = o->own;
	return tree_remove(o->t, r.parent, resolved_name(&r), &r.node, err);
}

cb_code cb_remove(cb_box *b, const char *path, cb_error *err)
{
	NEED(err, "box path", b, path);
	return op_run(b, STORE_SHRINKS, "remove", path, do_remove, &path, NULL, err);
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
	CB_TRY(txn_file_fits(t, r->ino, source->size, err));
	CB_TRY(txn_count(t, 0, (int64_t)source->size, err));
	r->written = source->ino == r->ino ? source->written : 0;
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

/* A folder that is copied, what it became, and the times that the copy gets when nothing more comes into it. */
typedef struct copied_dir {
	uint64_t from, to;
	int64_t atime_ns, mtime_ns;
} copied_dir;

typedef struct copying {
	txn *t;
	const tree_view *from;
	buf dirs;    /* copied_dir: those done, then those to do */
	pmap *files; /* see tree_copy_with */
} copying;

bool tree_copied(const pmap *files, uint64_t source, uint64_t *out_copy)
{
	uint8_t number[8];
	span found;
	put_be64(number, source);
	if (pmap_get(files, span_make(number, sizeof(number)), &found) != PMAP_VALUE) return false;
	*out_copy = get_be64(found.bytes);
	return true;
}

cb_code tree_copied_add(pmap *files, uint64_t source, uint64_t copy, cb_error *err)
{
	uint8_t from[8], to[8];
	put_be64(from, source);
	put_be64(to, copy);
	return pmap_put(files, span_make(from, sizeof(from)), span_make(to, sizeof(to)), err);
}

/* A further name of a file that was copied already. */
static cb_code copy_link(copying *c, uint64_t copy, uint64_t parent, span name, cb_error *err)
{
	tree_view v = txn_raw(c->t);
	inode made;
	CB_TRY(inode_find(&v, copy, &made, err));
	return inode_link(c->t, &made, parent, name, err);
}

static cb_code copy_entry(copying *c, const record *source, uint64_t parent, span name, cb_error *err)
{
	inode made;
	uint64_t copy = 0;
	bool linked = source->type != CB_DIR && source->links > 1;
	if (linked && tree_copied(c->files, source->ino, &copy)) return copy_link(c, copy, parent, name, err);
	CB_TRY(inode_copy(c->t, c->from, source, parent, name, &made, err));
	if (linked) return tree_copied_add(c->files, source->ino, made.rec.ino, err);
	copied_dir d = {source->ino, made.rec.ino, source->atime_ns, source->mtime_ns};
	return source->type == CB_DIR ? buf_append(&c->dirs, &d, sizeof(d), err) : CB_OK;
}

static cb_code copy_entries(copying *c, uint64_t dir, uint64_t to, cb_error *err)
{
	key prefix = key_prefix(KIND_ENTRY, dir);
	AUTO_CURSOR tree_cursor *at = NULL;
	CB_TRY(tree_cursor_open_below(c->from, key_span(&prefix), &at, err));
	for (;;) {
		char name[LIMIT_NAME_BYTES + 1];
		record r;
		bool found = false;
		CB_TRY(cursor_entry(c->from, at, dir, name, &r, &found, err));
		if (!found) return CB_OK;
		CB_TRY(copy_entry(c, &r, to, span_str(name), err));
		CB_TRY(tree_cursor_next(at, err));
	}
}

cb_code inode_times_set(txn *t, uint64_t ino, int64_t atime_ns, int64_t mtime_ns, cb_error *err)
{
	tree_view v = txn_raw(t);
	inode node;
	CB_TRY(inode_find(&v, ino, &node, err));
	if (node.rec.atime_ns == atime_ns && node.rec.mtime_ns == mtime_ns) return CB_OK;
	inode_changed(t, &node, false);
	node.rec.atime_ns = atime_ns;
	node.rec.mtime_ns = mtime_ns;
	return inode_save(t, &node, err);
}

static cb_code copy_all(copying *c, const record *source, uint64_t parent, span name, cb_error *err)
{
	CB_TRY(copy_entry(c, source, parent, name, err));
	for (size_t i = 0; i < c->dirs.size / sizeof(copied_dir); i++) {
		copied_dir d = ((const copied_dir *)(const void *)c->dirs.bytes)[i];
		CB_TRY(copy_entries(c, d.from, d.to, err));
		CB_TRY(inode_times_set(c->t, d.to, d.atime_ns, d.mtime_ns, err)); /* all that comes into it is there */
	}
	return CB_OK;
}

cb_code tree_copy_with(txn *t, const tree_view *from, const record *source, uint64_t parent, span name, pmap *files, cb_error *err)
{
	copying c = {.t = t, .from = from, .dirs = BUF_INIT(SIZE_MAX), .files = files};
	cb_code code = copy_all(&c, source, parent, name, err);
	buf_done(&c.dirs);
	return code;
}

cb_code tree_copy(txn *t, const tree_view *from, const inode *source, uint64_t parent, span name, cb_error *err)
{
	pmap files = PMAP_EMPTY;
	cb_code code = tree_copy_with(t, from, &source->rec, parent, name, &files, err);
	pmap_done(&files);
	return code;
}

static cb_code copy_resolved(op *o, const snapshot *before, const resolved *f, const resolved *r, unsigned flags, cb_error *err)
{
	if (r->exists) {
		if (flags & CB_NOREPLACE) return cb_err_set(err, CB_EXISTS, "the target exists already");
		if (r->node.rec.ino == f->node.rec.ino) return cb_err_set(err, CB_INVALID, "source and target are the same file");
		if (r->node.rec.type == CB_DIR)
			return cb_err_set(err, f->node.rec.type == CB_DIR ? CB_EXISTS : CB_ISDIR, "the target is a folder");
		if (f->node.rec.type == CB_DIR) return cb_err_set(err, CB_NOTDIR, "a folder cannot replace a file");
		if (r->node.rec.type == CB_FILE && f->node.rec.type == CB_FILE) { /* the target keeps its inode and names only */
			inode target = r->node;
			CB_TRY(data_drop(o->t, &target, err));
			CB_TRY(inode_delete_keys(o->t, target.rec.ino, KIND_ATTR, err));
			CB_TRY(inode_delete_keys(o->t, target.rec.ino, KIND_TAG, err));
			CB_TRY(inode_written(o->t, &target, err));
			return inode_copy_into(o->t, &before->v, &f->node.rec, &target, err);
		}
		CB_TRY(inode_unlink(o->t, r->parent, resolved_name(r), err));
	}
	if (!r->exists && r->must_be_dir && f->node.rec.type != CB_DIR) return cb_err_set(err, CB_NOTDIR, "the target ends in '/'");
	if (flags & CB_NOREPLACE || f->node.rec.type == CB_DIR) CB_TRY(expect_absent(o->t, r, err));
	return tree_copy(o->t, &before->v, &f->node, r->parent, resolved_name(r), err);
}

typedef struct copy_call {
	const char *from, *to;
	unsigned flags;
} copy_call;

static cb_code do_copy(op *o, void *context, cb_error *err)
{
	const copy_call *c = context;
	const char *from = c->from, *to = c->to;
	unsigned flags = c->flags;
	if (flags & CB_PARENTS) CB_TRY(path_make_parents(o, to, err));
	AUTO_SNAPSHOT snapshot before = {0};
	CB_TRY(snapshot_take(o->b, &before, err));
	resolved f, r;
	CB_TRY(path_find(o->b, &before.v, from, path_how(flags), GATE_READ, &f, err));
	CB_TRY(gate_copied(&before.v, &f, err));
	CB_TRY(path_resolve(o->b, &before.v, to, PATH_FOLLOW, GATE_CREATE, &r, err));
	o->t->rebases = o->own;
	if (o->own) o->t->source = f.node.rec.ino;
	cb_code code = copy_resolved(o, &before, &f, &r, flags, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "copying '%s' to '%s'", from, to);
}

cb_code cb_copy(cb_box *b, const char *from, const char *to, unsigned flags, cb_error *err)
{
	NEED(err, "box from to", b, from, to);
	CB_TRY(args_flags(flags, CB_NOFOLLOW | CB_NOREPLACE | CB_PARENTS, err));
	copy_call c = {from, to, flags};
	return op_run(b, STORE_GROWS, "copy", to, do_copy, &c, NULL, err);
}
