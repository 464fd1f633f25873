/*
 * file.c: open files.
 *
 * A handle knows its inode, not its path: after a rename made anywhere the N keys lead to it. Writes go into the box handle's running
 * step. When the inode is gone (unlinked here or by anyone) the handle goes on with the last state in which it saw the file; what it
 * writes then stays in a private transaction that is never committed, so a killed process leaves nothing behind to clean up.
 */
#include "box/box.h"

/* The changes made to a file after it went from the box; all handles on it share them. */
typedef struct orphan {
	unsigned refs; /* under the box's lock */
	txn *t;
} orphan;

struct cb_file {
	cb_box *b;
	cb_file *next; /* in b->open_files */
	uint64_t ino;
	unsigned flags;
	uint64_t position;
	char *path;       /* as opened, for the step's record */
	snapshot kept;    /* the last picture that had the file */
	bool detached;    /* the file is gone from the box */
	orphan *private_; /* a detached file's own changes; NULL: none yet */
};

static void file_keep(cb_file *f)
{
	const cb_box *b = f->b;
	const state *base = b->txn ? b->txn->base : b->head;
	const pmap_node *delta = b->txn ? b->txn->delta.root : NULL;
	if (f->kept.base == base && f->kept.delta.root == delta) return;
	snapshot_done(&f->kept);
	snapshot_take(b, &f->kept);
	/* The view points into the handle itself, where the snapshot now lives. */
	f->kept.v.delta = &f->kept.delta;
}

void files_before_unlink(cb_box *b, uint64_t ino)
{
	for (cb_file *f = b->open_files; f; f = f->next)
		if (f->ino == ino && !f->detached) file_keep(f);
}

void files_before_refresh(cb_box *b)
{
	for (cb_file *f = b->open_files; f; f = f->next) {
		tree_view v = box_view(b);
		inode node;
		if (!f->detached && inode_find(&v, f->ino, &node, NULL) == CB_OK) file_keep(f);
	}
}

/* The file now: its view and record. */
static cb_code file_locate(cb_file *f, tree_view *v, inode *out, cb_error *err)
{
	if (!f->detached) {
		*v = box_view(f->b);
		cb_code code = inode_find(v, f->ino, out, err);
		if (code == CB_OK) file_keep(f);
		if (code != CB_NOTFOUND) return code;
		f->detached = true;
	}
	*v = f->private_ ? txn_view(f->private_->t) : f->kept.v;
	cb_code code = inode_find(v, f->ino, out, err);
	if (code == CB_NOTFOUND)
		return cb_err_set(err, CB_STALE, "'%s' was removed before it was read through this handle", f->path);
	return code;
}

/* The transaction whose local contents the file's record may refer to. */
static const txn *file_contents(const cb_file *f)
{
	return f->private_ ? f->private_->t : f->b->txn;
}

/* ---- opening ---- */

static cb_code open_resolved(op *o, const char *path, unsigned flags, uint32_t mode, resolved *r, cb_error *err)
{
	if (!r->exists) {
		if (!(flags & CB_CREATE)) return cb_err_set(err, CB_NOTFOUND, "no such file: '%s'", path);
		if (r->must_be_dir) return cb_err_set(err, CB_ISDIR, "'%s' ends in '/'", path);
		if (flags & CB_EXCLUSIVE) CB_TRY(expect_absent(o->t, r, err));
		return inode_create(o->t, r->parent, resolved_name(r), CB_FILE, mode, &r->node, err);
	}
	if ((flags & CB_CREATE) && (flags & CB_EXCLUSIVE)) return cb_err_set(err, CB_EXISTS, "'%s' exists already", path);
	if (r->node.rec.type == CB_SYMLINK) return cb_err_set(err, CB_LOOP, "'%s' is a symbolic link", path);
	if (r->node.rec.type == CB_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is a folder", path);
	if (!(flags & CB_TRUNCATE)) return CB_OK;
	inode_changed(o->t, &r->node, true);
	CB_TRY(data_drop(o->t, &r->node, err));
	return inode_save(o->t, &r->node, err);
}

static unsigned open_how(unsigned flags)
{
	bool follow = !(flags & CB_NOFOLLOW_OPEN) && !((flags & CB_CREATE) && (flags & CB_EXCLUSIVE));
	return (follow ? PATH_FOLLOW : 0) | (flags & CB_CREATE ? PATH_FILE : 0);
}

/* Opens that change the box: an exclusive creation is a step at once, so that it can serve as a lock; others join the running step. */
static cb_code open_changing(cb_box *b, const char *path, unsigned flags, uint32_t mode, uint64_t *ino, cb_error *err)
{
	op o;
	resolved r;
	if (flags & CB_EXCLUSIVE) CB_TRY(op_begin(&o, b, "create", path, err));
	else CB_TRY(op_begin_running(&o, b, "write", path, err));
	tree_view v = txn_view(o.t);
	cb_code code = path_resolve(b, &v, path, open_how(flags), flags & CB_CREATE ? GATE_CREATE : GATE_WRITE, &r, err);
	if (code == CB_OK) code = open_resolved(&o, path, flags, mode, &r, err);
	if (code == CB_OK) *ino = r.node.rec.ino;
	return op_end(&o, code, NULL, err);
}

static cb_code open_plain(cb_box *b, const char *path, unsigned flags, uint64_t *ino, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	tree_view v = box_view(b);
	resolved r;
	cb_code code = path_resolve(b, &v, path, open_how(flags), flags & CB_WRITE ? GATE_WRITE : GATE_READ, &r, err);
	if (code == CB_OK) code = open_resolved(NULL, path, flags, 0, &r, err);
	if (code == CB_OK) *ino = r.node.rec.ino;
	return box_leave(b, code);
}

static void file_destroy(cb_file *f)
{
	if (f->private_ && --f->private_->refs == 0) {
		txn_destroy(f->private_->t);
		free(f->private_);
	}
	snapshot_done(&f->kept);
	free(f->path);
	free(f);
}

static void file_attach(cb_file *f, cb_box *b)
{
	(void)pthread_mutex_lock(&b->lock);
	f->next = b->open_files;
	b->open_files = f;
	file_keep(f);
	(void)pthread_mutex_unlock(&b->lock);
}

cb_code cb_open(cb_box *b, const char *path, unsigned flags, uint32_t mode, cb_file **out, cb_error *err)
{
	bool changing = flags & (CB_CREATE | CB_TRUNCATE);
	if (!(flags & (CB_READ | CB_WRITE))) return cb_err_set(err, CB_INVALID, "open '%s' for reading, writing or both", path);
	if ((changing || flags & CB_APPEND) && !(flags & CB_WRITE))
		return cb_err_set(err, CB_INVALID, "creating, truncating and appending need CB_WRITE");
	if (b->pinned && flags & CB_WRITE) {
		cb_code refused = cb_err_set(err, CB_READONLY, "'%s' is an old state", b->row.name);
		return box_refused(b, "write", path, refused, err);
	}
	cb_file *f = mem_alloc(sizeof(*f));
	if (!f) return cb_err_nomem(err);
	*f = (cb_file){.b = b, .flags = flags, .path = mem_strdup(path)};
	cb_code code = f->path ? CB_OK : cb_err_nomem(err);
	if (code == CB_OK && changing) code = open_changing(b, path, flags, mode, &f->ino, err);
	if (code == CB_OK && !changing) code = open_plain(b, path, flags, &f->ino, err);
	if (code != CB_OK) {
		file_destroy(f);
		return code;
	}
	file_attach(f, b);
	*out = f;
	return CB_OK;
}

cb_code cb_close(cb_file *f, cb_error *err)
{
	if (!f) return CB_OK;
	cb_box *b = f->b;
	(void)pthread_mutex_lock(&b->lock);
	cb_file **at = &b->open_files;
	while (*at != f) at = &(*at)->next;
	*at = f->next;
	cb_code code = f->flags & CB_WRITE && !b->closed ? box_flush(b, false, err) : CB_OK;
	file_destroy(f);
	bool last = b->closed && !b->open_files;
	if (last) txn_destroy(TAKE_PTR(b->txn));
	(void)pthread_mutex_unlock(&b->lock);
	if (last) box_destroy(b);
	return code;
}

/* ---- reading ---- */

static cb_code read_at(cb_file *f, void *to, size_t size, uint64_t offset, size_t *out_size, cb_error *err)
{
	tree_view v;
	inode node;
	CB_TRY(file_locate(f, &v, &node, err));
	uint64_t left = offset < node.rec.size ? node.rec.size - offset : 0;
	size_t n = left < size ? (size_t)left : size;
	if (n) CB_TRY(data_read(f->b->cs, file_contents(f), &v, &node.rec, offset, to, n, err));
	*out_size = n;
	return CB_OK;
}

static cb_code need(const cb_file *f, unsigned flag, cb_error *err)
{
	if (f->flags & flag) return CB_OK;
	return cb_err_set(err, CB_BADHANDLE, "'%s' is not open for %s", f->path, flag == CB_READ ? "reading" : "writing");
}

cb_code cb_pread(cb_file *f, void *to, size_t size, uint64_t offset, size_t *out_size, cb_error *err)
{
	CB_TRY(need(f, CB_READ, err));
	CB_TRY(box_enter(f->b, err));
	return box_leave(f->b, read_at(f, to, size, offset, out_size, err));
}

cb_code cb_read(cb_file *f, void *to, size_t size, size_t *out_size, cb_error *err)
{
	CB_TRY(need(f, CB_READ, err));
	CB_TRY(box_enter(f->b, err));
	size_t n = 0;
	cb_code code = read_at(f, to, size, f->position, &n, err);
	if (code == CB_OK) {
		f->position += n;
		*out_size = n;
	}
	return box_leave(f->b, code);
}

cb_code cb_fstat(cb_file *f, cb_stat_info *out, cb_error *err)
{
	CB_TRY(box_enter(f->b, err));
	tree_view v;
	inode node;
	cb_code code = file_locate(f, &v, &node, err);
	if (code == CB_OK) *out = record_stat(&node.rec);
	if (code == CB_OK && f->detached) out->links = 0;
	return box_leave(f->b, code);
}

static cb_code seek_target(cb_file *f, int64_t offset, cb_whence whence, uint64_t *out, cb_error *err)
{
	tree_view v;
	inode node;
	CB_TRY(file_locate(f, &v, &node, err));
	if (whence == CB_SEEK_DATA || whence == CB_SEEK_HOLE) {
		if (offset < 0) return cb_err_set(err, CB_INVALID, "a negative offset");
		return data_seek(&v, &node.rec, (uint64_t)offset, whence == CB_SEEK_HOLE, out, err);
	}
	int64_t from = whence == CB_SEEK_SET ? 0 : whence == CB_SEEK_CUR ? (int64_t)f->position : (int64_t)node.rec.size;
	int64_t to;
	if (__builtin_add_overflow(from, offset, &to) || to < 0) return cb_err_set(err, CB_INVALID, "a position before the start");
	*out = (uint64_t)to;
	return CB_OK;
}

cb_code cb_seek(cb_file *f, int64_t offset, cb_whence whence, uint64_t *out_position, cb_error *err)
{
	CB_TRY(box_enter(f->b, err));
	uint64_t to = 0;
	cb_code code = seek_target(f, offset, whence, &to, err);
	if (code == CB_OK) f->position = to;
	if (code == CB_OK && out_position) *out_position = to;
	return box_leave(f->b, code);
}

/* ---- writing ---- */

typedef struct write_request {
	const void *bytes; /* NULL: resize to `offset` */
	size_t size;
	uint64_t offset;
	bool at_end;
	uint64_t *out_end; /* where it ended; NULL: not wanted */
} write_request;

static cb_code write_inode(txn *t, inode *node, const write_request *w, cb_error *err)
{
	inode_changed(t, node, true);
	uint64_t offset = w->at_end ? node->rec.size : w->offset;
	if (w->bytes) CB_TRY(data_write(t, node, offset, w->bytes, w->size, err));
	else CB_TRY(data_resize(t, node, offset, err));
	if (w->out_end) *w->out_end = offset + w->size;
	return inode_save(t, node, err);
}

/* Gives t to every handle on the file. */
static cb_code orphan_share(cb_file *f, txn *t, cb_error *err)
{
	orphan *shared = mem_alloc(sizeof(*shared));
	if (!shared) return cb_err_nomem(err);
	*shared = (orphan){0, t};
	for (cb_file *g = f->b->open_files; g; g = g->next) {
		if (g->ino != f->ino) continue;
		g->detached = true;
		g->private_ = shared;
		shared->refs++;
	}
	return CB_OK;
}

/* The first write to a file that is gone: a transaction of its own that starts with a copy of the data. */
static cb_code file_make_private(cb_file *f, inode *node, cb_error *err)
{
	char *bytes = NULL;
	size_t size = 0;
	CB_TRY(data_load(f->b->cs, f->b->txn, &f->kept.v, &node->rec, SIZE_MAX / 2, &bytes, &size, err));
	txn *t = NULL;
	cb_code code = txn_create(f->b, "detached", f->path, &t, err);
	if (code == CB_OK) {
		state_unref(t->base);
		t->base = state_ref(f->kept.base);
		t->delta = pmap_ref(&f->kept.delta);
		/* The box no longer counts the file; here it counts again, and against no quota. */
		t->now.files++;
		t->now.bytes += node->rec.size;
		t->quota_bytes = t->quota_files = t->quota_file_bytes = 0;
		t->pid = getpid();
		code = data_replace(t, node, bytes, size, err);
	}
	if (code == CB_OK) code = inode_save(t, node, err);
	free(bytes);
	if (code == CB_OK) code = orphan_share(f, t, err);
	if (code != CB_OK) txn_destroy(t);
	return code;
}

static cb_code write_detached(cb_file *f, inode *node, const write_request *w, cb_error *err)
{
	if (!f->private_) CB_TRY(file_make_private(f, node, err));
	tree_view v = txn_view(f->private_->t);
	CB_TRY(inode_find(&v, f->ino, node, err));
	return write_inode(f->private_->t, node, w, err);
}

static cb_code file_write(cb_file *f, const write_request *w, cb_error *err)
{
	CB_TRY(need(f, CB_WRITE, err));
	op o;
	CB_TRY(op_begin_running(&o, f->b, "write", f->path, err));
	tree_view v;
	inode node;
	cb_code code = file_locate(f, &v, &node, err);
	if (code == CB_OK) code = f->detached ? write_detached(f, &node, w, err) : write_inode(o.t, &node, w, err);
	return op_end(&o, code, NULL, err);
}

cb_code cb_pwrite(cb_file *f, const void *bytes, size_t size, uint64_t offset, cb_error *err)
{
	if (size == 0) return need(f, CB_WRITE, err);
	write_request w = {bytes, size, offset, (f->flags & CB_APPEND) != 0, NULL};
	return file_write(f, &w, err);
}

cb_code cb_write(cb_file *f, const void *bytes, size_t size, cb_error *err)
{
	if (size == 0) return need(f, CB_WRITE, err);
	uint64_t end = 0;
	write_request w = {bytes, size, f->position, (f->flags & CB_APPEND) != 0, &end};
	CB_TRY(file_write(f, &w, err));
	f->position = end;
	return CB_OK;
}

cb_code cb_ftruncate(cb_file *f, uint64_t size, cb_error *err)
{
	write_request w = {NULL, 0, size, false, NULL};
	return file_write(f, &w, err);
}

cb_code cb_fsync(cb_file *f, cb_error *err)
{
	cb_box *b = f->b;
	CB_TRY(box_enter(b, err));
	cb_code code = box_flush(b, true, err);
	if (code == CB_OK) code = store_sync(b->cs->s, err);
	return box_leave(b, code);
}
