/*
 * file.c: open files.
 *
 * A handle knows its inode, not its path: after a rename made anywhere the N keys lead to it. Writes go into the box handle's running
 * step. When the inode is gone (unlinked here or by anyone, or taken away by a restore, an undo, a merge) the handle is *detached*: it goes
 * on with the state before the step that took the file; what it writes then stays in a private transaction that is never committed as such
 * (orphan.c), so a killed process leaves nothing behind but what gc collects.
 *
 * The file may come back: its removal is undone, or a state that has it is restored. Then the handle is attached again, at its next use:
 *  - nothing was written while it was gone: it sees the file as it is now;
 *  - it came back with the bytes it went with: what was written meanwhile lands in it, as one write in the running step;
 *  - it came back with others (somebody wrote to it, or it is an older state): these stay. What was written meanwhile is in no state, and
 *    every handle through which some of it was written says so, once: CB_STALE at its next write, cb_ftruncate, cb_fsync or cb_close.
 *
 * The last use of a handle is its cb_close, or that of its box handle. Then what was written lands at once: if the running step cannot be
 * committed, as a step of its own.
 *
 * While it is gone, cb_fsync and cb_close of a handle that wrote to it succeed, as in POSIX, when somebody unlinked it: that is what he
 * asked for. But when a step that goes through history took it (undo, redo, restore, merge) they are CB_STALE: nobody meant these bytes.
 * So they are when that step was pruned before this handle saw that the file is gone: of what nobody knows, success is not said.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/gate.h"
#include "box/open_file.h"

static cb_code file_attach_again(cb_file *f, cb_error *err);

/* A rule that came after it was opened holds for it too: it is there, but not for this handle. */
static cb_code file_hidden(const cb_file *f, const tree_view *v, cb_error *err)
{
	tree_view all = view_raw(v);
	inode node;
	cb_code code = inode_find(&all, f->ino, &node, err);
	if (code == CB_OK) return cb_err_set(err, CB_DENIED, "a rule now keeps '%s' from this handle", f->path);
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* Gone, it is what it was last, also where that was hidden: what was kept is kept without a veil. */
static cb_code file_was_hidden(const cb_file *f, cb_error *err)
{
	AUTO_VEIL veil *veiled = NULL;
	tree_view v;
	inode node;
	if (!gate_has_rules(f->b->cs, f->b)) return CB_OK;
	CB_TRY(gate_view(f->b, &f->kept.v, &veiled, &v, err));
	cb_code code = inode_find(&v, f->ino, &node, err);
	return code == CB_NOTFOUND ? file_hidden(f, &v, err) : code;
}

/* The file now: its view and record. */
static cb_code file_locate(cb_file *f, tree_view *v, inode *out, cb_error *err)
{
	/* Not inside a changing call, where what landed would be taken back if that fails (file_write does it before). What cannot land
	 * now is no reason not to read: writing, cb_fsync and cb_close tell. */
	if (f->detached && f->b->changing == 0) (void)file_attach_again(f, NULL);
	if (!f->detached) {
		*v = box_view(f->b);
		cb_code code = inode_find(v, f->ino, out, err);
		if (code == CB_OK) code = file_keep(f, err);
		if (code != CB_NOTFOUND) return code;
		if (v->veil) CB_TRY(file_hidden(f, v, err));
		file_detach(f);
	}
	CB_TRY(file_seek_taken(f, err));
	CB_TRY(file_was_hidden(f, err));
	if (f->stale) return cb_err_set(err, CB_STALE, "'%s' is gone, and so is the last state that had it", f->path);
	*v = f->private_ ? txn_raw(f->private_->t) : f->kept.v;
	cb_code code = inode_find(v, f->ino, out, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_STALE, "'%s' is gone, and in no state that this handle knows", f->path);
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
	CB_TRY(inode_written(o->t, &r->node, err));
	CB_TRY(data_drop(o->t, &r->node, err));
	return inode_save(o->t, &r->node, err);
}

static unsigned open_how(unsigned flags)
{
	bool follow = !(flags & CB_NOFOLLOW_OPEN) && !((flags & CB_CREATE) && (flags & CB_EXCLUSIVE));
	return (follow ? PATH_FOLLOW : 0) | (flags & CB_CREATE ? PATH_FILE : 0);
}

/* Opens that change the box: an exclusive creation is a step at once, so that it can serve as a lock; others join the running step. */
static cb_code open_changing(cb_box *b, const char *path, unsigned flags, uint32_t mode, cb_file *f, cb_error *err)
{
	op o;
	resolved r;
	if (flags & CB_EXCLUSIVE) CB_TRY(op_begin(&o, b, "create", path, err));
	else CB_TRY(op_begin_running(&o, b, "write", path, err));
	tree_view v = txn_view(o.t);
	cb_code code = path_resolve(b, &v, path, open_how(flags), flags & CB_CREATE ? GATE_CREATE : GATE_WRITE, &r, err);
	if (code == CB_OK) code = open_resolved(&o, path, flags, mode, &r, err);
	if (code == CB_OK) f->ino = r.node.rec.ino;
	CB_TRY(op_end(&o, code, NULL, err));
	CANCEL_SHIELD; /* the file is made */
	CB_TRY(box_enter(b, err));
	return box_leave(b, file_enlist(f, err));
}

static cb_code open_plain(cb_box *b, const char *path, unsigned flags, cb_file *f, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	tree_view v = box_view(b);
	resolved r;
	cb_code code = path_resolve(b, &v, path, open_how(flags), flags & CB_WRITE ? GATE_WRITE : GATE_READ, &r, err);
	if (code == CB_OK) code = open_resolved(NULL, path, flags, 0, &r, err);
	if (code == CB_OK) f->ino = r.node.rec.ino;
	if (code == CB_OK) code = file_enlist(f, err);
	return box_leave(b, code);
}

static void file_destroy(cb_file *f)
{
	orphan_release(f);
	kept_done(&f->kept.base);
	pmap_done(&f->kept.delta);
	free(f->path);
	free(f);
}

cb_code cb_open(cb_box *b, const char *path, unsigned flags, uint32_t mode, cb_file **out, cb_error *err)
{
	NEED(err, "box path out", b, path, out);
	static const unsigned known = CB_READ | CB_WRITE | CB_CREATE | CB_EXCLUSIVE | CB_TRUNCATE | CB_APPEND | CB_NOFOLLOW_OPEN;
	CB_TRY(args_flags(flags, known, err));
	CB_TRY(args_mode(mode, err));
	bool changing = flags & (CB_CREATE | CB_TRUNCATE);
	if (!(flags & (CB_READ | CB_WRITE))) return cb_err_set(err, CB_INVALID, "open '%s' for reading, writing or both", path);
	if ((changing || flags & CB_APPEND) && !(flags & CB_WRITE))
		return cb_err_set(err, CB_INVALID, "creating, truncating and appending need CB_WRITE");
	if (flags & CB_EXCLUSIVE && !(flags & CB_CREATE)) return cb_err_set(err, CB_INVALID, "CB_EXCLUSIVE needs CB_CREATE");
	if (b->pinned && flags & CB_WRITE) {
		CB_TRY(box_enter(b, err));
		return box_leave(b, box_refuse_pinned(b, "write", path, err));
	}
	if (flags & CB_WRITE && store_is_read_only(b->cs->s)) return store_refuse_write(b->cs->s, err);
	cb_file *f = mem_alloc(sizeof(*f));
	if (!f) return cb_err_nomem(err);
	*f = (cb_file){.b = b, .flags = flags, .path = mem_strdup(path)};
	cb_code code = f->path ? CB_OK : cb_err_nomem(err);
	if (code == CB_OK && changing) code = open_changing(b, path, flags, mode, f, err);
	if (code == CB_OK && !changing) code = open_plain(b, path, flags, f, err);
	if (code != CB_OK) {
		file_destroy(f);
		return code;
	}
	*out = f;
	return CB_OK;
}

static cb_code file_settle(cb_file *f, bool closing, cb_error *err);

cb_code cb_close(cb_file *f, cb_error *err)
{
	if (!f) return CB_OK;
	CANCEL_SHIELD;
	cb_box *b = f->b;
	CB_TRY(box_lock_last(b, err));
	bool ours = b->era == entry_era(); /* or all that was written through it is the parent's */
	cb_code code = ours && (f->private_ || f->lost) ? file_settle(f, true, err) : CB_OK;
	file_delist(f);
	cb_code flushed = ours && f->flags & CB_WRITE && !b->closed ? box_flush(b, false, code == CB_OK ? err : NULL) : CB_OK;
	file_destroy(f);
	(void)box_leave(b, code);
	return code == CB_OK ? flushed : code;
}

/* ---- reading ---- */

static cb_code read_at(cb_file *f, void *to, size_t size, uint64_t offset, size_t *out_size, cb_error *err)
{
	tree_view v;
	inode node;
	CB_TRY(file_locate(f, &v, &node, err));
	uint64_t left = offset < node.rec.size ? node.rec.size - offset : 0;
	size_t n = left < size ? (size_t)left : size;
	if (n) CB_TRY(path_damaged(data_read(f->b->cs, file_contents(f), &v, &node.rec, offset, to, n, err), f->path, err));
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
	NEED(err, "file to out_size", f, to || !size, out_size);
	CB_TRY(need(f, CB_READ, err));
	CB_TRY(box_enter(f->b, err));
	return box_leave(f->b, read_at(f, to, size, offset, out_size, err));
}

cb_code cb_read(cb_file *f, void *to, size_t size, size_t *out_size, cb_error *err)
{
	NEED(err, "file to out_size", f, to || !size, out_size);
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
	NEED(err, "file out", f, out);
	CB_TRY(SIZED_CHECK(cb_stat_info, atime_ns, out, err));
	CB_TRY(box_enter(f->b, err));
	tree_view v;
	inode node;
	cb_code code = file_locate(f, &v, &node, err);
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (code == CB_OK) info = record_stat(&node.rec);
	if (f->detached) info.links = 0;
	if (code == CB_OK) SIZED_GIVE(out, &info);
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
	if (__builtin_add_overflow(from, offset, &to)) return cb_err_set(err, CB_INVALID, "a position beyond the largest there is");
	if (to < 0) return cb_err_set(err, CB_INVALID, "a position before the start");
	*out = (uint64_t)to;
	return CB_OK;
}

cb_code cb_seek(cb_file *f, int64_t offset, cb_whence whence, uint64_t *out_position, cb_error *err)
{
	NEED(err, "file", f);
	CB_TRY(args_member("whence", (int)whence, CB_SEEK_SET, CB_SEEK_HOLE, err));
	CB_TRY(box_enter(f->b, err));
	uint64_t to = 0;
	cb_code code = seek_target(f, offset, whence, &to, err);
	if (code == CB_OK) f->position = to;
	if (code == CB_OK && out_position) *out_position = to;
	return box_leave(f->b, code);
}

/* ---- writing ---- */

static cb_code write_detached(cb_file *f, const write_request *w, cb_error *err)
{
	bool first = !f->private_;
	if (first) CB_TRY(orphan_create(f, err));
	cb_code code = orphan_write(f->private_, w, err);
	if (code == CB_OK) f->wrote = true;
	else if (first) /* nothing was written: there is nothing to land */
		for (cb_file *g = file_first_of(f->b, f->ino); g; g = file_next_of(g)) orphan_release(g);
	return code;
}

/* ---- coming back ---- */

/* Every handle that shared the changes is on the file of the box again. lost: why these are in no state; NULL: they landed. */
static void orphan_end(cb_file *f, const char *lost)
{
	orphan *o = f->private_;
	for (cb_file *g = file_first_of(f->b, f->ino); g; g = file_next_of(g)) {
		if (g->private_ != o) continue;
		if (lost && g->wrote) g->lost = lost;
		g->private_ = NULL;
		g->wrote = g->detached = false;
		file_loosen(g);
	}
	orphan_destroy(o);
}

/* Puts what was written to the file while it was gone into it: a write in the running step. */
static cb_code orphan_land(cb_file *f, cb_error *err)
{
	op w;
	inode node;
	CB_TRY(op_begin_running(&w, f->b, "write", f->path, err));
	tree_view v = txn_view(w.t);
	cb_code code = inode_find(&v, f->ino, &node, err);
	if (code == CB_OK) code = orphan_put(f->private_, w.t, &node, err);
	return op_end(&w, code, NULL, err);
}

typedef enum file_back { BACK_NOT, BACK_AS_IT_WENT, BACK_WITH_OTHERS } file_back;

static const char with_others[] = "was removed and came back as it was at another time";
static const char no_landing[] = "was removed, and could not be written to again when the box handle was closed";
static const char no_commit[] = "was changed in a step that could not be committed when the box handle was closed";

/* Is a detached file in what the handle shows? One without changes of its own is back as it went. */
static cb_code file_is_back(cb_file *f, file_back *out, cb_error *err)
{
	cb_box *b = f->b;
	tree_view v = box_view(b);
	inode node;
	cb_error why = {0};
	bool same = true;
	*out = BACK_NOT;
	cb_code code = inode_find(&v, f->ino, &node, &why);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_set(err, code, "%s", why.message);
	if (f->private_) CB_TRY(orphan_is_as_it_went(f->private_, b, &v, &node.rec, &same, err));
	*out = same ? BACK_AS_IT_WENT : BACK_WITH_OTHERS;
	return CB_OK;
}

static cb_code file_attach_again(cb_file *f, cb_error *err)
{
	file_back back;
	CB_TRY(file_is_back(f, &back, err));
	if (back == BACK_NOT) return CB_OK;
	if (!f->private_) {
		f->detached = false;
		file_loosen(f);
		return CB_OK;
	}
	/* Where it cannot land (a quota, no memory) the handle stays as it is, and its next use tries again. */
	if (back == BACK_AS_IT_WENT) CB_TRY(orphan_land(f, err));
	orphan_end(f, back == BACK_AS_IT_WENT ? NULL : with_others);
	return CB_OK;
}

/* With a step of its own, under the writer lock: the file is looked at once more. */
static cb_code orphan_land_alone(cb_file *f, file_back *back, cb_error *err)
{
	op o;
	CB_TRY(op_begin(&o, f->b, "write", f->path, err));
	cb_code code = file_is_back(f, back, err);
	if (code == CB_OK) code = *back == BACK_AS_IT_WENT ? orphan_land(f, err) : CB_NOTHING;
	code = op_end(&o, code, NULL, err);
	return code == CB_NOTHING ? CB_OK : code;
}

/* As file_attach_again, in the newest state of the box: there is no next use, and a running step that waits for a decision does not have
 * the file. */
static cb_code file_attach_beside(cb_file *f, cb_error *err)
{
	cb_box *b = f->b;
	file_back back = BACK_NOT;
	if (b->changing)
		return cb_err_set(err, CB_INVALID, "a call on this handle is under way: it cannot be used from inside of that");
	txn *waits = TAKE_PTR(b->txn);
	cb_code code = box_enter(b, err);
	if (code == CB_OK) {
		code = file_is_back(f, &back, err);
		if (code == CB_OK && back == BACK_NOT)
			code = file_seek_taken(f, err); /* here too: it may have been back in between */
		(void)box_leave(b, code);
	}
	if (code == CB_OK && back == BACK_AS_IT_WENT) code = orphan_land_alone(f, &back, err);
	b->txn = waits;
	if (code == CB_OK && back != BACK_NOT) orphan_end(f, back == BACK_AS_IT_WENT ? NULL : with_others);
	return code;
}

void files_settle_last(cb_box *b)
{
	if (b->is_txn || b->era != entry_era()) return;
	for (cb_file *f = b->files.all; f; f = f->in[LIST_ALL].next) {
		if (!f->private_) continue;
		cb_code code = file_attach_beside(f, NULL);
		if (code != CB_OK && code != CB_NOTFOUND) orphan_end(f, no_landing); /* or the box is deleted */
	}
}

void files_lose_step(cb_box *b)
{
	if (!b->txn || b->is_txn || b->era != entry_era()) return;
	for (cb_file *f = b->files.all; f; f = f->in[LIST_ALL].next) {
		span ignored;
		key k = key_inode(f->ino);
		if (f->flags & CB_WRITE && !f->private_ && pmap_get(&b->txn->written, key_span(&k), &ignored) != PMAP_ABSENT)
			f->lost = no_commit;
	}
}

static cb_code tell_lost(cb_file *f, cb_error *err)
{
	const char *why = TAKE_PTR(f->lost);
	return why ? cb_err_set(err, CB_STALE, "'%s' %s: what was written to it since is lost", f->path, why) : CB_OK;
}

/* It is closed, and others have it still: it may come back while they do, and they will tell. */
static bool file_hand_over(cb_file *f)
{
	for (cb_file *g = file_first_of(f->b, f->ino); g; g = file_next_of(g)) {
		if (g == f || g->private_ != f->private_) continue;
		g->wrote = g->wrote || f->wrote;
		return true;
	}
	return false;
}

/* For cb_fsync and cb_close, with the box's lock: attaches if it can, and says what became of what was written to a file that went. A
 * running step that cannot be committed is told by cb_close itself, and by every call after it; what is lost only here. */
static cb_code file_settle(cb_file *f, bool closing, cb_error *err)
{
	cb_box *b = f->b;
	/* While there is a running step the handle sees the box as it was when that began. */
	cb_code flushed = f->private_ && !b->closed ? box_flush(b, false, closing ? NULL : err) : CB_OK;
	if (flushed != CB_OK && !closing) return flushed;
	if (f->private_ && box_enter(b, NULL) == CB_OK) CB_TRY(box_leave(b, file_attach_again(f, err)));
	CB_TRY(tell_lost(f, err));
	if (!f->private_ || (closing && file_hand_over(f))) return CB_OK;
	if (flushed != CB_OK) CB_TRY(file_attach_beside(f, err));
	CB_TRY(tell_lost(f, err));
	if (!f->private_ || !f->wrote) return CB_OK;
	CB_TRY(file_seek_taken(f, err));
	taken_by by = f->private_->by;
	if (by == TAKEN_BY_CALL) return CB_OK;
	return cb_err_set(err, CB_STALE, "'%s' is not in the box any more%s: what was written to it since is in no state", f->path,
	                  by == TAKEN_UNKNOWN ? ", and the step that took it was pruned" : "");
}

/* With the box's lock, under which the caller looked at the handle's position. */
static cb_code write_locked(cb_file *f, const write_request *w, cb_error *err)
{
	if (f->detached || f->lost) {
		CB_TRY(box_enter(f->b, err));
		cb_code ready = f->detached ? file_attach_again(f, err) : CB_OK;
		if (ready == CB_OK) ready = tell_lost(f, err);
		CB_TRY(box_leave(f->b, ready));
	}
	op o;
	CB_TRY(op_begin_running(&o, f->b, "write", f->path, err));
	tree_view v;
	inode node;
	cb_code code = file_locate(f, &v, &node, err);
	if (code == CB_OK) code = f->detached ? write_detached(f, w, err) : write_inode(o.t, &node, w, err);
	return op_end(&o, code, NULL, err);
}

static cb_code file_write(cb_file *f, const write_request *w, cb_error *err)
{
	CB_TRY(need(f, CB_WRITE, err));
	CB_TRY(box_lock(f->b, err));
	return box_leave(f->b, write_locked(f, w, err));
}

cb_code cb_pwrite(cb_file *f, const void *bytes, size_t size, uint64_t offset, cb_error *err)
{
	NEED(err, "file", f);
	CB_TRY(args_bytes("bytes", bytes, size, err));
	if (size == 0) return need(f, CB_WRITE, err);
	write_request w = {bytes, sized_bytes(bytes, size).size, offset, (f->flags & CB_APPEND) != 0, NULL};
	return file_write(f, &w, err);
}

cb_code cb_write(cb_file *f, const void *bytes, size_t size, cb_error *err)
{
	NEED(err, "file", f);
	CB_TRY(args_bytes("bytes", bytes, size, err));
	CB_TRY(need(f, CB_WRITE, err));
	if (size == 0) return CB_OK;
	/* From here to the new position is one turn: two threads that write through one handle write one after the other. */
	CB_TRY(box_lock(f->b, err));
	uint64_t end = 0;
	write_request w = {bytes, sized_bytes(bytes, size).size, f->position, (f->flags & CB_APPEND) != 0, &end};
	cb_code code = write_locked(f, &w, err);
	if (code == CB_OK) f->position = end;
	return box_leave(f->b, code);
}

cb_code cb_ftruncate(cb_file *f, uint64_t size, cb_error *err)
{
	NEED(err, "file", f);
	write_request w = {NULL, 0, size, false, NULL};
	return file_write(f, &w, err);
}

cb_code cb_fsync(cb_file *f, cb_error *err)
{
	NEED(err, "file", f);
	cb_box *b = f->b;
	CB_TRY(box_enter(b, err));
	cb_error why = {0};
	cb_code settled = f->private_ || f->lost ? file_settle(f, false, &why) : CB_OK;
	cb_code code = box_flush(b, true, err);
	CANCEL_SHIELD; /* the step is made */
	if (code == CB_OK) code = store_sync(b->cs->s, err);
	if (code == CB_OK && settled != CB_OK) code = cb_err_set(err, settled, "%s", why.message);
	return box_leave(b, code);
}
