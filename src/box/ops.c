/*
 * ops.c: file operations by path, each one call and one step. Results and errors follow Linux on ext4; tests/model compares them.
 */
#include "base/args.h"
#include "box/internal.h"

#include "base/sized.h"

/* ---- reading ---- */

cb_code cb_stat(cb_box *b, const char *path, unsigned flags, cb_stat_info *out, cb_error *err)
{
	NEED(err, "box path out", b, path, out);
	CB_TRY(args_flags(flags, CB_NOFOLLOW, err));
	CB_TRY(SIZED_CHECK(cb_stat_info, atime_ns, out, err));
	CB_TRY(box_enter(b, err));
	tree_view v = box_view(b);
	resolved r;
	cb_code code = path_find(b, &v, path, path_how(flags), GATE_READ, &r, err);
	if (code == CB_OK) {
		cb_stat_info info = record_stat(&r.node.rec);
		SIZED_GIVE(out, &info);
	}
	return box_leave(b, code);
}

static cb_code find_file(cb_box *b, const tree_view *v, const char *path, gate_access access, resolved *out, cb_error *err)
{
	CB_TRY(path_find(b, v, path, PATH_FOLLOW, access, out, err));
	if (out->node.rec.type == CB_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is a folder", path);
	return CB_OK;
}

cb_code path_damaged(cb_code code, const char *path, cb_error *err)
{
	cb_error why = {0};
	if (code != CB_CORRUPT || !err) return code;
	why = *err;
	return cb_err_set(err, code, "'%s': %s: check the store (fsck), and take the file from another state or a backup", path,
	                  why.message);
}

cb_code inode_damaged(cb_code code, const tree_view *v, uint64_t ino, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	if (code != CB_CORRUPT || !err || inode_path(v, ino, &path, NULL) != CB_OK || !path.size) return code;
	return path_damaged(code, (const char *)path.bytes, err);
}

cb_code cb_read_file(cb_box *b, const char *path, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "box path out", b, path, out);
	CB_TRY(box_enter(b, err));
	tree_view v = box_view(b);
	resolved r;
	cb_code code = find_file(b, &v, path, GATE_READ, &r, err);
	if (code == CB_OK)
		code = path_damaged(data_load(b->cs, b->txn, &v, &r.node.rec, SIZE_MAX / 2, out, out_size, err), path, err);
	return box_leave(b, code);
}

cb_code cb_read_at(cb_box *b, const char *path, uint64_t offset, void *to, size_t size, size_t *out_size, cb_error *err)
{
	NEED(err, "box path to out_size", b, path, to || !size, out_size);
	CB_TRY(box_enter(b, err));
	tree_view v = box_view(b);
	resolved r;
	cb_code code = find_file(b, &v, path, GATE_READ, &r, err);
	if (code == CB_OK) {
		uint64_t left = offset < r.node.rec.size ? r.node.rec.size - offset : 0;
		size_t n = left < size ? (size_t)left : size;
		if (n) code = path_damaged(data_read(b->cs, b->txn, &v, &r.node.rec, offset, to, n, err), path, err);
		if (code == CB_OK) *out_size = n;
	}
	return box_leave(b, code);
}

cb_code cb_readlink(cb_box *b, const char *path, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "box path out", b, path, out);
	CB_TRY(box_enter(b, err));
	tree_view v = box_view(b);
	resolved r;
	cb_code code = path_find(b, &v, path, 0, GATE_READ, &r, err);
	if (code == CB_OK && r.node.rec.type != CB_SYMLINK) code = cb_err_set(err, CB_INVALID, "'%s' is not a symbolic link", path);
	if (code == CB_OK) code = data_load(b->cs, b->txn, &v, &r.node.rec, LIMIT_SYMLINK_TARGET_BYTES, out, out_size, err);
	return box_leave(b, path_damaged(code, path, err));
}

/* ---- writing ---- */

cb_code resolved_expect_version(const resolved *r, uint64_t expected, const char *path, cb_error *err)
{
	if (expected == CB_VERSION_ANY) return CB_OK;
	uint64_t now = r->exists ? r->node.rec.version : CB_VERSION_ABSENT;
	if (now == expected) return CB_OK;
	if (!r->exists)
		return cb_err_set(err, CB_VERSION, "'%s' does not exist, version %llu was expected", path,
		                  (unsigned long long)expected);
	if (expected == CB_VERSION_ABSENT)
		return cb_err_set(err, CB_VERSION, "'%s' exists already (version %llu)", path, (unsigned long long)now);
	return cb_err_set(err, CB_VERSION, "'%s' has version %llu, not %llu: read it again", path, (unsigned long long)now,
	                  (unsigned long long)expected);
}

/* The file to write to: found, or made. */
static cb_code file_for_write(op *o, const char *path, uint32_t mode, resolved *r, cb_error *err)
{
	if (r->exists) {
		if (r->node.rec.type == CB_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is a folder", path);
		return CB_OK;
	}
	if (r->must_be_dir) return cb_err_set(err, CB_ISDIR, "'%s' ends in '/'", path);
	return inode_create(o->t, r->parent, resolved_name(r), CB_FILE, mode, &r->node, err);
}

typedef struct writing {
	const char *path;
	span bytes;
	cb_write_options how;
	uint64_t version; /* of a file that stays as it is, since nothing was appended to it; else 0 */
} writing;

static cb_code do_write(op *o, void *context, cb_error *err)
{
	writing *w = context;
	const cb_write_options *how = &w->how;
	w->version = 0;
	if (how->parents) CB_TRY(path_make_parents(o, w->path, err));
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_resolve(o->b, &v, w->path, PATH_FOLLOW | PATH_FILE, GATE_CREATE, &r, err));
	CB_TRY(resolved_expect_version(&r, how->expected_version, w->path, err));
	CB_TRY(expect_version(o->t, &r, how->expected_version, err));
	CB_TRY(file_for_write(o, w->path, how->mode ? how->mode : 0644, &r, err));
	if (how->append && w->bytes.size == 0 && r.exists) {
		w->version = r.node.rec.version;
		return CB_OK;
	}
	o->t->rebases = o->own;
	CB_TRY(inode_written(o->t, &r.node, err));
	if (how->append) CB_TRY(data_write(o->t, &r.node, r.node.rec.size, w->bytes.bytes, w->bytes.size, err));
	else CB_TRY(data_replace(o->t, &r.node, w->bytes.bytes, w->bytes.size, err));
	return inode_save(o->t, &r.node, err);
}

/* To append nothing makes an empty file, or changes nothing. */
static const char *write_kind(const writing *w)
{
	return !w->how.append ? "write" : w->bytes.size ? "append" : "create";
}

cb_code cb_write_file(cb_box *b, const char *path, const void *bytes, size_t size, const cb_write_options *options, cb_error *err)
{
	NEED(err, "box path", b, path);
	CB_TRY(args_bytes("bytes", bytes, size, err));
	writing w = {.path = path, .bytes = sized_bytes(bytes, size)};
	cb_commit_result result = {0};
	CB_TRY(SIZED_TAKE(cb_write_options, out_version, &w.how, options, err));
	CB_TRY(args_mode(w.how.mode, err));
	CB_TRY(op_run_bytes(b, w.bytes.size, write_kind(&w), path, do_write, &w, &result, err));
	if (w.how.out_version) *w.how.out_version = w.version ? w.version : result.state;
	return CB_OK;
}

static cb_code do_truncate(op *o, const char *path, uint64_t size, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(find_file(o->b, &v, path, GATE_WRITE, &r, err));
	CB_TRY(inode_written(o->t, &r.node, err));
	CB_TRY(data_resize(o->t, &r.node, size, err));
	return inode_save(o->t, &r.node, err);
}

cb_code cb_truncate(cb_box *b, const char *path, uint64_t size, cb_error *err)
{
	NEED(err, "box path", b, path);
	op o;
	CB_TRY(op_begin(&o, b, "truncate", path, err));
	return op_end(&o, do_truncate(&o, path, size, err), NULL, err);
}

static cb_code name_fits(const resolved *r, const char *path, cb_error *err)
{
	return r->too_long ? cb_err_set(err, CB_NAMETOOLONG, "'%s': a name is longer than %d bytes", path, LIMIT_NAME_BYTES)
	                   : CB_OK;
}

static cb_code do_mkdir(op *o, const char *path, uint32_t mode, unsigned flags, cb_error *err)
{
	if (flags & CB_PARENTS) CB_TRY(path_make_parents(o, path, err));
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_resolve(o->b, &v, path, flags & CB_PARENTS ? PATH_FOLLOW : PATH_ENTRY, GATE_CREATE, &r, err));
	if (r.exists && (flags & CB_PARENTS) && r.node.rec.type == CB_DIR) return CB_OK;
	if (r.exists) return cb_err_set(err, CB_EXISTS, "'%s' exists already", path);
	CB_TRY(name_fits(&r, path, err));
	if (!(flags & CB_PARENTS)) CB_TRY(expect_absent(o->t, &r, err));
	inode made;
	return inode_create(o->t, r.parent, resolved_name(&r), CB_DIR, mode, &made, err);
}

cb_code cb_mkdir(cb_box *b, const char *path, uint32_t mode, unsigned flags, cb_error *err)
{
	NEED(err, "box path", b, path);
	CB_TRY(args_mode(mode, err));
	CB_TRY(args_flags(flags, CB_PARENTS, err));
	op o;
	CB_TRY(op_begin(&o, b, "mkdir", path, err));
	return op_end(&o, do_mkdir(&o, path, mode, flags, err), NULL, err);
}

static cb_code entry_find(cb_box *b, const tree_view *v, const char *path, resolved *out, cb_error *err)
{
	CB_TRY(path_resolve(b, v, path, PATH_ENTRY, GATE_REMOVE, out, err));
	CB_TRY(name_fits(out, path, err));
	return out->exists ? CB_OK : cb_err_set(err, CB_NOTFOUND, "no such file or folder: '%s'", path);
}

static bool last_is(const char *path, const char *name)
{
	size_t size = strlen(path), n = strlen(name);
	while (size && path[size - 1] == '/') size--;
	return size >= n && memcmp(path + size - n, name, n) == 0 && (size == n || path[size - n - 1] == '/');
}

static cb_code do_rmdir(op *o, const char *path, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(entry_find(o->b, &v, path, &r, err));
	if (r.node.rec.type != CB_DIR) return cb_err_set(err, CB_NOTDIR, "'%s' is not a folder", path);
	if (r.is_dot && last_is(path, "..")) return cb_err_set(err, CB_NOTEMPTY, "'%s' is not empty", path);
	if (r.is_dot && last_is(path, ".")) return cb_err_set(err, CB_INVALID, "'%s' cannot be removed by this name", path);
	if (r.node.rec.ino == INO_ROOT) return cb_err_set_as(err, CB_INVALID, EBUSY, "the root of a box cannot be removed");
	bool empty = false;
	CB_TRY(inode_is_dir_empty(&v, r.node.rec.ino, &empty, err));
	if (!empty) return cb_err_set(err, CB_NOTEMPTY, "'%s' is not empty", path);
	return inode_unlink(o->t, r.parent, resolved_name(&r), err);
}

cb_code cb_rmdir(cb_box *b, const char *path, cb_error *err)
{
	NEED(err, "box path", b, path);
	op o;
	CB_TRY(op_begin_as(&o, b, STORE_SHRINKS, "rmdir", path, err));
	return op_end(&o, do_rmdir(&o, path, err), NULL, err);
}

static cb_code do_unlink(op *o, const char *path, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(entry_find(o->b, &v, path, &r, err));
	if (r.node.rec.type == CB_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is a folder", path);
	if (r.must_be_dir) return cb_err_set(err, CB_NOTDIR, "'%s' ends in '/' and is not a folder", path);
	return inode_unlink(o->t, r.parent, resolved_name(&r), err);
}

cb_code cb_unlink(cb_box *b, const char *path, cb_error *err)
{
	NEED(err, "box path", b, path);
	op o;
	CB_TRY(op_begin_as(&o, b, STORE_SHRINKS, "unlink", path, err));
	return op_end(&o, do_unlink(&o, path, err), NULL, err);
}

static cb_code do_link(op *o, const char *from, const char *to, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved f, r;
	CB_TRY(path_find(o->b, &v, from, 0, GATE_READ, &f, err));
	CB_TRY(path_resolve(o->b, &v, to, PATH_ENTRY, GATE_CREATE, &r, err));
	if (r.exists) return cb_err_set(err, CB_EXISTS, "'%s' exists already", to);
	CB_TRY(name_fits(&r, to, err));
	if (r.must_be_dir) return cb_err_set(err, CB_NOTFOUND, "'%s' ends in '/'", to);
	if (f.node.rec.type == CB_DIR) return cb_err_set(err, CB_NOPERM, "'%s' is a folder and cannot have a second link", from);
	if (f.node.rec.links >= LIMIT_LINKS) return cb_err_set(err, CB_MLINK, "'%s' has %d links already", from, LIMIT_LINKS);
	CB_TRY(expect_absent(o->t, &r, err));
	return inode_link(o->t, &f.node, r.parent, resolved_name(&r), err);
}

cb_code cb_link(cb_box *b, const char *from, const char *to, cb_error *err)
{
	NEED(err, "box from to", b, from, to);
	op o;
	CB_TRY(op_begin(&o, b, "link", to, err));
	return op_end(&o, do_link(&o, from, to, err), NULL, err);
}

static cb_code do_symlink(op *o, const char *target, const char *path, cb_error *err)
{
	size_t size = strlen(target);
	if (size == 0) return cb_err_set(err, CB_NOTFOUND, "a symbolic link needs a target");
	if (size > LIMIT_SYMLINK_TARGET_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "a link target may have %d bytes", LIMIT_SYMLINK_TARGET_BYTES);
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_resolve(o->b, &v, path, PATH_ENTRY, GATE_CREATE, &r, err));
	if (r.exists) return cb_err_set(err, CB_EXISTS, "'%s' exists already", path);
	CB_TRY(name_fits(&r, path, err));
	if (r.must_be_dir) return cb_err_set(err, CB_NOTFOUND, "'%s' ends in '/'", path);
	CB_TRY(expect_absent(o->t, &r, err));
	CB_TRY(inode_create(o->t, r.parent, resolved_name(&r), CB_SYMLINK, 0777, &r.node, err));
	CB_TRY(data_replace(o->t, &r.node, target, size, err));
	return inode_save(o->t, &r.node, err);
}

cb_code cb_symlink(cb_box *b, const char *target, const char *path, cb_error *err)
{
	NEED(err, "box target path", b, target, path);
	op o;
	CB_TRY(op_begin(&o, b, "symlink", path, err));
	return op_end(&o, do_symlink(&o, target, path, err), NULL, err);
}

static cb_code do_chmod(op *o, const char *path, uint32_t mode, unsigned flags, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, path_how(flags), GATE_WRITE, &r, err));
	if (r.node.rec.type == CB_SYMLINK) return cb_err_set(err, CB_UNSUPPORTED, "a symbolic link has no mode of its own");
	if (r.node.rec.mode == mode) return CB_OK; /* no change, so no step */
	r.node.rec.mode = mode;
	inode_changed(o->t, &r.node, false);
	return inode_save(o->t, &r.node, err);
}

cb_code cb_chmod(cb_box *b, const char *path, uint32_t mode, unsigned flags, cb_error *err)
{
	NEED(err, "box path", b, path);
	CB_TRY(args_mode(mode, err));
	CB_TRY(args_flags(flags, CB_NOFOLLOW, err));
	op o;
	CB_TRY(op_begin(&o, b, "chmod", path, err));
	return op_end(&o, do_chmod(&o, path, mode, flags, err), NULL, err);
}

static cb_code do_utimens(op *o, const char *path, int64_t atime_ns, int64_t mtime_ns, unsigned flags, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, path_how(flags), GATE_WRITE, &r, err));
	record was = r.node.rec;
	if (atime_ns != CB_TIME_OMIT) r.node.rec.atime_ns = atime_ns;
	if (mtime_ns != CB_TIME_OMIT) r.node.rec.mtime_ns = mtime_ns;
	if (r.node.rec.atime_ns == was.atime_ns && r.node.rec.mtime_ns == was.mtime_ns) return CB_OK; /* no change, so no step */
	inode_changed(o->t, &r.node, false);
	return inode_save(o->t, &r.node, err);
}

cb_code cb_utimens(cb_box *b, const char *path, int64_t atime_ns, int64_t mtime_ns, unsigned flags, cb_error *err)
{
	NEED(err, "box path", b, path);
	CB_TRY(args_flags(flags, CB_NOFOLLOW, err));
	op o;
	CB_TRY(op_begin(&o, b, "utimens", path, err));
	return op_end(&o, do_utimens(&o, path, atime_ns, mtime_ns, flags, err), NULL, err);
}

/* ---- rename ---- */

/* Is `ino` the folder `below` or one of its ancestors? */
static cb_code is_ancestor(const tree_view *v, uint64_t ino, uint64_t below, bool *out, cb_error *err)
{
	climb up = climb_from(below);
	while (up.at != INO_ROOT && up.at != ino) CB_TRY(climb_up(&up, v, NULL, err));
	*out = up.at == ino;
	return CB_OK;
}

/* Linux tells the two apart: a folder into itself is invalid, over one of its own ancestors the target is not empty. */
static cb_code refuse_cycle(const tree_view *v, const resolved *f, const resolved *r, bool exchange, cb_error *err)
{
	bool inside = false;
	if (f->node.rec.type == CB_DIR) CB_TRY(is_ancestor(v, f->node.rec.ino, r->parent, &inside, err));
	if (inside) return cb_err_set(err, CB_INVALID, "a folder cannot be moved into itself");
	if (r->exists && r->node.rec.type == CB_DIR) CB_TRY(is_ancestor(v, r->node.rec.ino, f->parent, &inside, err));
	if (!inside) return CB_OK;
	return exchange ? cb_err_set(err, CB_INVALID, "a folder cannot be moved into itself")
	                : cb_err_set(err, CB_NOTEMPTY, "the target folder holds what is to replace it");
}

static cb_code rename_exchange(op *o, const resolved *f, const resolved *r, cb_error *err)
{
	if (f->node.rec.ino == r->node.rec.ino) return CB_OK;
	/* By way of a name that no path can hold: it contains a slash. */
	span aside = span_str("/");
	CB_TRY(inode_move(o->t, f->parent, resolved_name(f), f->parent, aside, err));
	CB_TRY(inode_move(o->t, r->parent, resolved_name(r), f->parent, resolved_name(f), err));
	return inode_move(o->t, f->parent, aside, r->parent, resolved_name(r), err);
}

static cb_code rename_check_target(const tree_view *v, const resolved *f, const resolved *r, cb_error *err)
{
	bool from_dir = f->node.rec.type == CB_DIR, to_dir = r->node.rec.type == CB_DIR;
	if (from_dir && !to_dir) return cb_err_set(err, CB_NOTDIR, "a folder cannot replace a file");
	if (!from_dir && to_dir) return cb_err_set(err, CB_ISDIR, "a file cannot replace a folder");
	if (!to_dir) return CB_OK;
	bool empty = false;
	CB_TRY(inode_is_dir_empty(v, r->node.rec.ino, &empty, err));
	return empty ? CB_OK : cb_err_set(err, CB_NOTEMPTY, "the target folder is not empty");
}

/* In the order in which Linux looks. */
static cb_code rename_check(const tree_view *v, const char *from, const resolved *f, const resolved *r, unsigned flags,
                            cb_error *err)
{
	bool exchange = flags & CB_EXCHANGE, from_dir = f->exists && f->node.rec.type == CB_DIR;
	if (f->is_dot)
		return cb_err_set_as(err, CB_INVALID, EBUSY, "'.', '..' and '/' cannot be renamed: name what is meant in full");
	if (r->is_dot && !(flags & CB_NOREPLACE))
		return cb_err_set_as(err, CB_INVALID, EBUSY, "'.', '..' and '/' cannot be replaced: name the target in full");
	if (r->is_dot) return cb_err_set(err, CB_EXISTS, "the target exists already");
	CB_TRY(name_fits(f, "the source", err));
	if (!f->exists) return cb_err_set(err, CB_NOTFOUND, "no such file or folder: '%s'", from);
	CB_TRY(name_fits(r, "the target", err));
	if (r->exists && (flags & CB_NOREPLACE)) return cb_err_set(err, CB_EXISTS, "the target exists already");
	if (exchange && !r->exists) return cb_err_set(err, CB_NOTFOUND, "there is nothing to exchange with");
	if (exchange && r->must_be_dir && r->node.rec.type != CB_DIR) return cb_err_set(err, CB_NOTDIR, "the target ends in '/'");
	if (!from_dir && (f->must_be_dir || (r->must_be_dir && !exchange)))
		return cb_err_set(err, CB_NOTDIR, "a path ends in '/' and is not a folder");
	return refuse_cycle(v, f, r, exchange, err);
}

static cb_code rename_resolved(op *o, const tree_view *v, const char *from, const resolved *f, const resolved *r, unsigned flags,
                               cb_error *err)
{
	CB_TRY(rename_check(v, from, f, r, flags, err));
	if (flags & CB_EXCHANGE) return rename_exchange(o, f, r, err);
	if (flags & CB_NOREPLACE) CB_TRY(expect_absent(o->t, r, err));
	if (r->exists) {
		if (f->node.rec.ino == r->node.rec.ino) return CB_OK; /* two links of one file: POSIX says nothing happens */
		CB_TRY(rename_check_target(v, f, r, err));
		CB_TRY(inode_unlink(o->t, r->parent, resolved_name(r), err));
	}
	return inode_move(o->t, f->parent, resolved_name(f), r->parent, resolved_name(r), err);
}

static cb_code do_rename(op *o, const char *from, const char *to, unsigned flags, cb_error *err)
{
	if ((flags & CB_NOREPLACE) && (flags & CB_EXCHANGE))
		return cb_err_set(err, CB_INVALID, "no-replace and exchange exclude each other");
	if (flags & CB_PARENTS) CB_TRY(path_make_parents(o, to, err));
	tree_view v = txn_view(o->t);
	resolved f, r;
	CB_TRY(path_resolve(o->b, &v, from, PATH_ENTRY, GATE_REMOVE, &f, err));
	CB_TRY(path_resolve(o->b, &v, to, PATH_ENTRY, GATE_CREATE, &r, err));
	cb_code code = rename_resolved(o, &v, from, &f, &r, flags, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "renaming '%s' to '%s'", from, to);
}

cb_code cb_rename(cb_box *b, const char *from, const char *to, unsigned flags, cb_error *err)
{
	NEED(err, "box from to", b, from, to);
	CB_TRY(args_flags(flags, CB_NOREPLACE | CB_EXCHANGE | CB_PARENTS, err));
	AUTO_BUF buf text = BUF_INIT(SIZE_MAX);
	AUTO_FREE char *both = NULL;
	CB_TRY(buf_printf(&text, err, "%s %s", from, to));
	CB_TRY(buf_take(&text, &both, NULL, err));
	op o;
	CB_TRY(op_begin(&o, b, "rename", both, err));
	return op_end(&o, do_rename(&o, from, to, flags, err), NULL, err);
}
