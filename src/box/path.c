/*
 * path.c: resolution inside a box.
 *
 * Adversary: a box full of hostile names and links. Resolution starts at the root inode and only ever moves along entries of the map, so
 * there is nothing outside to reach; ".." pops a stack of the folders passed and stays at the root; symlinks are spliced in, at most
 * LIMIT_SYMLINK_DEPTH of them, and the text still to be resolved is bounded.
 */
#include "box/gate.h"

#include <assert.h>

/* A path with as many symlinks spliced in as may be followed, so that a loop of long ones is found by their number. */
enum { PENDING_MAX = LIMIT_PATH_BYTES * (LIMIT_SYMLINK_DEPTH + 2) };

typedef struct walk {
	cb_box *b;
	const tree_view *v;
	uint64_t stack[LIMIT_TREE_DEPTH]; /* inodes of the folders from the root to here */
	size_t depth;
	unsigned links;
	span pending; /* what is still to be resolved, read from `at` on: the caller's path, or `spliced` */
	size_t at;
	buf spliced;    /* with the targets of links put in */
	size_t missing; /* a folder on the way is missing, of which no link is the reason: where it ends in the path; else 0 */
} walk;

static cb_code name_check(span name, cb_error *err)
{
	if (name.size > LIMIT_NAME_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "a name is longer than %d bytes", LIMIT_NAME_BYTES);
	return CB_OK;
}

/* The next component; false at the end. *last: nothing but slashes follows. */
static bool next_component(walk *w, span *out, bool *last, bool *slash)
{
	const uint8_t *p = w->pending.bytes;
	size_t n = w->pending.size, i = w->at;
	while (i < n && p[i] == '/') i++;
	if (i == n) return false;
	size_t start = i;
	while (i < n && p[i] != '/') i++;
	*out = span_make(p + start, i - start);
	size_t after = i;
	while (after < n && p[after] == '/') after++;
	*last = after == n;
	*slash = after > i;
	w->at = i;
	return true;
}

static cb_code splice_link(walk *w, const record *r, cb_error *err)
{
	if (++w->links > LIMIT_SYMLINK_DEPTH) return cb_err_set(err, CB_LOOP, "more than %d symbolic links", LIMIT_SYMLINK_DEPTH);
	char *target = NULL;
	size_t size = 0;
	CB_TRY(data_load(w->b->cs, w->b->txn, w->v, r, LIMIT_SYMLINK_TARGET_BYTES, &target, &size, err));
	buf next = BUF_INIT(PENDING_MAX);
	cb_code code = buf_append(&next, target, size, err);
	if (code == CB_OK) code = buf_append(&next, w->pending.bytes + w->at, w->pending.size - w->at, err);
	if (code == CB_OK && size && target[0] == '/') w->depth = 1;
	free(target);
	if (code == CB_LIMIT) code = cb_err_set(err, CB_NAMETOOLONG, "symbolic links make the path too long");
	if (code != CB_OK) {
		buf_done(&next);
		return code;
	}
	buf_done(&w->spliced);
	w->spliced = next;
	w->pending = buf_span(&next);
	w->at = 0;
	return CB_OK;
}

static cb_code push_dir(walk *w, uint64_t ino, cb_error *err)
{
	if (w->depth == LIMIT_TREE_DEPTH)
		return cb_err_set(err, CB_NAMETOOLONG, "folders are nested deeper than %d", LIMIT_TREE_DEPTH);
	w->stack[w->depth++] = ino;
	return CB_OK;
}

static void set_place(resolved *out, uint64_t parent, span name)
{
	out->parent = parent;
	memcpy(out->name, name.bytes, name.size);
	out->name_size = name.size;
}

/* The folder on top of the stack as the result: "/", ".", ".." and what they end in. */
static cb_code result_is_top(walk *w, resolved *out, cb_error *err)
{
	out->exists = true;
	out->is_link = false;
	out->is_dot = true;
	place at = {0}; /* the root's */
	uint64_t ino = w->stack[w->depth - 1];
	CB_TRY(inode_find(w->v, ino, &out->node, err));
	if (ino != INO_ROOT) CB_TRY(inode_place(w->v, ino, &at, err));
	set_place(out, at.parent, place_name(&at));
	return CB_OK;
}

static cb_code result_is(walk *w, span name, resolved *out)
{
	set_place(out, w->stack[w->depth - 1], name);
	out->is_dot = false;
	return CB_OK;
}

/* One component. *done: *out is the result. */
static cb_code step_into(walk *w, span name, bool last, bool slash, unsigned how, resolved *out, bool *done, cb_error *err)
{
	if (span_equal(name, span_str(".")) || span_equal(name, span_str(".."))) {
		if (name.size == 2 && w->depth > 1) w->depth--;
		*done = last;
		return last ? result_is_top(w, out, err) : CB_OK;
	}
	if (last && slash && (how & PATH_FILE)) return cb_err_set(err, CB_ISDIR, "it ends in '/'");
	if (last && (how & PATH_ENTRY) &&
	    name.size > LIMIT_NAME_BYTES) { /* with rename, what is wrong on the other side is told first */
		out->exists = false;
		out->too_long = true;
		*done = true;
		return result_is(w, span_str(""), out);
	}
	CB_TRY(name_check(name, err));
	cb_code code = inode_at(w->v, w->stack[w->depth - 1], name, &out->node, &out->is_link, err);
	if (code == CB_NOTFOUND && w->v->veil) code = gate_missing(w->v, w->stack[w->depth - 1], name, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	out->exists = code == CB_OK;
	if (last) out->must_be_dir = out->must_be_dir || slash;
	if (!out->exists) {
		*done = true;
		if (!last && !w->links) w->missing = w->at;
		return last ? result_is(w, name, out) : CB_NOTFOUND;
	}
	const record *r = &out->node.rec;
	if (r->type == CB_SYMLINK && (!last || how & PATH_FOLLOW || (slash && !(how & PATH_ENTRY)))) {
		if (how & PATH_PLAIN)
			return cb_err_set(err, CB_LOOP, "a symbolic link is on the way: name the path that it leads to");
		return splice_link(w, r, err);
	}
	if (last) {
		*done = true;
		if (slash && r->type != CB_DIR && !(how & PATH_ENTRY)) return cb_err_set(err, CB_NOTDIR, NULL);
		return result_is(w, name, out);
	}
	if (r->type != CB_DIR) return cb_err_set(err, CB_NOTDIR, NULL);
	return push_dir(w, r->ino, err);
}

static cb_code walk_run(walk *w, unsigned how, resolved *out, cb_error *err)
{
	span name;
	bool last, slash, done = false;
	out->must_be_dir = false;
	out->too_long = false;
	while (!done) {
		if (!next_component(w, &name, &last, &slash)) return result_is_top(w, out, err);
		CB_TRY(step_into(w, name, last, slash, how, out, &done, err));
	}
	return CB_OK;
}

static cb_code path_error(const char *path, cb_code code, cb_error *err)
{
	if (code == CB_NOTFOUND) return cb_err_set(err, code, "no such file or folder: '%s'", path);
	if (code == CB_NOTDIR) return cb_err_set(err, code, "not a folder on the way: '%s'", path);
	return cb_err_wrap(err, code, "'%s'", path);
}

/* The folder that is missing ends there in the path, below the root. When it can never be made, who creates is told that first. */
static cb_code missing_reserved(const char *path, size_t end, cb_error *err)
{
	size_t start = end;
	while (start > 0 && path[start - 1] != '/') start--;
	return gate_reserved_check(INO_ROOT, span_make(path + start, end - start), err);
}

/* Without asking the gate about what is there. */
static cb_code path_look(cb_box *b, const tree_view *v, const char *path, unsigned how, gate_access access, resolved *out,
                         cb_error *err)
{
	size_t size = path ? strlen(path) : 0;
	if (size == 0) return cb_err_set(err, CB_NOTFOUND, "an empty path names nothing");
	if (size >= LIMIT_PATH_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "a path is longer than %d bytes", LIMIT_PATH_BYTES - 1);
	walk w;
	w.b = b;
	w.v = v;
	w.stack[0] = INO_ROOT;
	w.depth = 1;
	w.links = 0;
	w.pending = span_make(path, size);
	w.at = 0;
	w.spliced = BUF_INIT(PENDING_MAX);
	w.missing = 0;
	cb_code code = walk_run(&w, how, out, err);
	buf_done(&w.spliced);
	if (code == CB_NOTFOUND && w.missing && w.depth == 1 && access == GATE_CREATE)
		CB_TRY(missing_reserved(path, w.missing, err));
	if (code == CB_NOTFOUND && w.missing)
		return cb_err_set(err, code, "no such folder: '%.*s', on the way to '%s'", (int)w.missing, path, path);
	return code == CB_OK ? CB_OK : path_error(path, code, err);
}

cb_code path_resolve(cb_box *b, const tree_view *v, const char *path, unsigned how, gate_access access, resolved *out,
                     cb_error *err)
{
	cb_code code = path_look(b, v, path, how, access, out, err);
	if (code == CB_DENIED && !b->changing) return box_refused(b, access == GATE_READ ? "read" : "write", path, code, err);
	if (code != CB_OK) return code;
	CB_TRY(gate_resolved(b, v, path, access, out, err));
	if (!v->veil || access == GATE_READ || !out->exists || out->node.rec.type != CB_DIR) return CB_OK;
	if (out->node.rec.version != GATE_MASKED_VERSION) return CB_OK;
	/* Times that the veil shows otherwise must not be saved with it; the version, which messages tell, is a new one then anyway. */
	tree_view raw = view_raw(v);
	uint64_t version = out->node.rec.version;
	CB_TRY(inode_find(&raw, out->node.rec.ino, &out->node, err));
	out->node.rec.version = version;
	return CB_OK;
}

cb_code path_find(cb_box *b, const tree_view *v, const char *path, unsigned how, gate_access access, resolved *out, cb_error *err)
{
	CB_TRY(path_resolve(b, v, path, how, access, out, err));
	return out->exists ? CB_OK : path_error(path, CB_NOTFOUND, err);
}

/* The folders above the last component: where their paths end in the text. */
typedef struct prefixes {
	const char *path;
	uint16_t ends[LIMIT_PATH_BYTES / 2];
	size_t count;
} prefixes;

static void prefixes_find(prefixes *p, const char *path)
{
	size_t size = strlen(path);
	*p = (prefixes){.path = path};
	while (size && path[size - 1] == '/') size--;
	for (size_t i = 1; i < size; i++)
		if (path[i] == '/' && path[i - 1] != '/') p->ends[p->count++] = (uint16_t)i;
}

static const char *prefix_text(const prefixes *p, size_t i, char out[LIMIT_PATH_BYTES])
{
	memcpy(out, p->path, p->ends[i]);
	out[p->ends[i]] = 0;
	return out;
}

/* How many of them exist: when one does, all before it do. Most often all; else by halves, for each look costs the length of the path. */
static size_t prefixes_existing(op *o, const prefixes *p, unsigned how)
{
	char part[LIMIT_PATH_BYTES];
	size_t low = 0, high = p->count;
	tree_view v = txn_view(o->t);
	for (size_t at = p->count; low < high; at = (low + high + 1) / 2) {
		resolved r;
		bool there = path_look(o->b, &v, prefix_text(p, at - 1, part), how, GATE_READ, &r, NULL) == CB_OK && r.exists;
		if (there) low = at;
		else high = at - 1;
	}
	return low;
}

/* One that is missing; `in` is the folder just made for the one before it, 0: look. *in becomes what was made, 0: nothing. */
static cb_code make_parent(op *o, const char *part, unsigned how, uint64_t *in, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	inode made;
	const char *name = strrchr(part, '/');
	bool plain = name && strcmp(name, "/.") != 0 && strcmp(name, "/..") != 0;
	if (*in && plain) {
		span bytes = span_str(name + 1);
		cb_code code = name_check(bytes, err);
		if (code != CB_OK) return path_error(part, code, err);
		CB_TRY(gate_entry(o->t, GATE_CREATE, *in, bytes, 0, err));
		CB_TRY(inode_create(o->t, *in, bytes, CB_DIR, 0755, &made, err));
		*in = made.rec.ino;
		return CB_OK;
	}
	CB_TRY(path_resolve(o->b, &v, part, how, GATE_CREATE, &r, err));
	*in = 0;
	if (r.exists) return CB_OK;
	CB_TRY(inode_create(o->t, r.parent, resolved_name(&r), CB_DIR, 0755, &made, err));
	*in = made.rec.ino;
	return CB_OK;
}

/* The folder just made gets the mode and attributes of the one that has its path in the other state, if one has. */
static cb_code parent_as(op *o, uint64_t ino, const path_like *like, const char *part, cb_error *err)
{
	resolved r;
	inode made;
	if (path_resolve(like->b, like->v, part, PATH_PLAIN, GATE_READ, &r, NULL) != CB_OK || !r.exists) return CB_OK;
	if (r.node.rec.type != CB_DIR) return CB_OK;
	tree_view v = txn_view(o->t);
	CB_TRY(inode_find(&v, ino, &made, err));
	return inode_copy_into(o->t, like->v, &r.node.rec, &made, err);
}

cb_code path_make_parents(op *o, const char *path, cb_error *err)
{
	return path_make_parents_like(o, path, NULL, err);
}

cb_code path_make_parents_like(op *o, const char *path, const path_like *like, cb_error *err)
{
	if (strlen(path) >= LIMIT_PATH_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "a path is longer than %d bytes", LIMIT_PATH_BYTES - 1);
	prefixes p;
	char part[LIMIT_PATH_BYTES];
	uint64_t in = 0;
	unsigned how = like ? PATH_PLAIN : PATH_FOLLOW;
	prefixes_find(&p, path);
	for (size_t i = prefixes_existing(o, &p, how); i < p.count; i++) {
		CB_TRY(make_parent(o, prefix_text(&p, i, part), how, &in, err));
		if (in && like) CB_TRY(parent_as(o, in, like, part, err));
	}
	return CB_OK;
}

char *path_clean(const char *path)
{
	size_t size = strlen(path), n = 0;
	char *out = mem_alloc(size + 2);
	if (!out) return NULL;
	for (size_t i = 0; i < size;) {
		while (i < size && path[i] == '/') i++;
		size_t start = i;
		while (i < size && path[i] != '/') i++;
		if (i == start || (i - start == 1 && path[start] == '.')) continue;
		out[n++] = '/';
		memcpy(out + n, path + start, i - start);
		n += i - start;
	}
	if (n == 0) out[n++] = '/';
	out[n] = 0;
	return out;
}
