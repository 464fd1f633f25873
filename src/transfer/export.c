/*
 * export.c: a folder or file of a box to the host.
 *
 * Adversary: somebody who changes the target folder while it is written, to lead us out of it. Everything is written by the
 * descriptor of a folder that was opened on the way down without following a link. Folders are ours alone (mode 0700) until all of
 * their entries are there; then they get their mode and times.
 *
 * Crash window: a target that was not there is filled under a temporary name and takes its own at the end, so nobody sees a half
 * file. In a folder that was there each file takes its name by a rename. What a killed export left under a temporary name the next one to
 * the same place takes away; and so what an export that its limit ended did not remove in the moment that it had left for it.
 */
#include <cowbox/cowbox.h>

#include <errno.h>
#include <stdio.h>

#include "base/args.h"
#include "base/entry.h"
#include "base/inode_map.h"
#include "base/io.h"
#include "base/sized.h"
#include "box/box.h"
#include "box/look.h"
#include "host/host.h"
#include "transfer/guard.h"
#include "transfer/ignore.h"
#include "transfer/watch.h"

enum {
	BLOCK_BYTES = LIMIT_CONTENT_BYTES,
};

/* A file with several names that was written: where. */
typedef struct written {
	size_t path_at; /* in paths */
	host_stat stat;
} written;

typedef struct exporting {
	unsigned era; /* (entry.h) in which it began */
	const cb_store *store;
	look *now;
	const cb_export_options *options;
	size_t base_size; /* of the path in the box that everything is relative to, with its '/' */
	host_root root;
	bool keep_root;    /* its mode and times: it was there, with something in it */
	host_root parent;  /* of a target that is being made; else fd -1 */
	char *target_name; /* in there */
	char temporary[HOST_TEMPORARY_BYTES];
	host_stack *stack;
	buf folders; /* box_node of the folders it is in, the root first */
	ignore *ignore;
	inode_map links; /* (0, inode of the box) -> index in written */
	buf written, paths;
	uint8_t *block;
	uint64_t since_progress;
	cb_transfer_count count;
} exporting;

/* ---- telling the caller ---- */

static cb_code progress(exporting *x, const char *path, uint64_t bytes, cb_error *err)
{
	CB_TRY(cancel_check(err));
	CB_TRY(entry_stays(x->era, err)); /* a note was told since */
	cb_progress p = {.struct_size = sizeof(p), .path = path, .files = x->count.files, .bytes = x->count.bytes};
	bool on = watch_go_on(x->options->watch, &x->since_progress, bytes, &p);
	CB_TRY(entry_stays(x->era, err));
	return on ? CB_OK : cb_err_set(err, CB_INTERRUPTED, "the export was interrupted: it is not complete");
}

/* ---- attributes ---- */

typedef struct attribute_target {
	const exporting *x;
	const char *path;
	int fd; /* -1: a symbolic link, which has none of the user's on Linux */
} attribute_target;

static cb_code put_attribute(void *context, const char *name, span value, cb_error *err)
{
	const attribute_target *a = context;
	(void)err;
	if (!host_xattr_is_ours(span_str(name))) {
		watch_note(a->x->options->watch, a->path, "attribute '%s' left out: not user.*, or of overlayfs", name);
		return CB_OK;
	}
	if (a->fd < 0) {
		watch_note(a->x->options->watch, a->path, "attribute '%s' left out: a symbolic link has none on the host", name);
		return CB_OK;
	}
	cb_error refused;
	if (host_xattr_set(a->fd, name, value, &refused) != CB_OK)
		watch_note(a->x->options->watch, a->path, "attribute left out: %s", refused.message);
	return CB_OK;
}

/* Mode last but for the times: with it the host may refuse the rest. */
static cb_code put_attributes(const exporting *x, const char *path, const box_node *r, int fd, cb_error *err)
{
	attribute_target a = {x, path, fd};
	uint32_t mode = r->mode;
	CB_TRY(look_attributes(x->now, r, put_attribute, &a, err));
	if (!x->options->setid && (mode & 06000)) {
		watch_note(x->options->watch, path, "dropped:%s%s", mode & 04000 ? " setuid" : "", mode & 02000 ? " setgid" : "");
		mode &= 01777;
	}
	CB_TRY(host_mode_set(fd, mode, err));
	return host_times_set(fd, r->atime_ns, r->mtime_ns, err);
}

/* ---- files ---- */

static cb_code put_stretch(exporting *x, const char *path, const box_node *r, uint64_t start, uint64_t end, int fd, cb_error *err)
{
	for (uint64_t at = start; at < end;) {
		size_t n = end - at < BLOCK_BYTES ? (size_t)(end - at) : BLOCK_BYTES;
		CB_TRY(look_read(x->now, r, at, x->block, n, err));
		CB_TRY(io_pwrite_all(fd, x->block, n, at, err));
		CB_TRY(progress(x, path, n, err));
		at += n;
	}
	return CB_OK;
}

static cb_code put_data(exporting *x, const char *path, const box_node *r, int fd, cb_error *err)
{
	uint64_t at = 0;
	while (at < r->size) {
		uint64_t start = 0, end = 0;
		cb_error why;
		cb_code code = look_seek(x->now, r, at, false, &start, cb_err_aside(&why));
		if (code == CB_NOTFOUND) break;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		CB_TRY(look_seek(x->now, r, start, true, &end, err));
		CB_TRY(put_stretch(x, path, r, start, end, fd, err));
		at = end;
	}
	if (at >= r->size) return CB_OK;
	return io_size_set(fd, r->size) == 0 ? CB_OK : cb_err_errno(err, errno, "cannot set the size of '%s'", path);
}

static cb_code remember_links(exporting *x, const char *path, const box_node *r, int fd, cb_error *err)
{
	if (r->links < 2) return CB_OK;
	written w = {.path_at = x->paths.size};
	CB_TRY(host_stat_fd(fd, &w.stat, err));
	CB_TRY(buf_append(&x->paths, path, strlen(path) + 1, err));
	CB_TRY(inode_map_put(&x->links, 0, r->ino, x->written.size / sizeof(written), err));
	return buf_append(&x->written, &w, sizeof(w), err);
}

static cb_code put_file(exporting *x, const char *path, const char *name, const box_node *r, int dir, cb_error *err)
{
	ATTR_CLEANUP(host_writer_done) host_writer w = HOST_WRITER_NONE;
	CB_TRY(x->parent.fd >= 0 ? host_writer_begin_as(&w, dir, name, err) : host_writer_begin(&w, dir, err));
	CB_TRY(put_data(x, path, r, w.fd, err));
	CB_TRY(put_attributes(x, path, r, w.fd, err));
	CB_TRY(remember_links(x, path, r, w.fd, err));
	CB_TRY(host_writer_commit(&w, name, x->options->overwrite, err));
	x->count.files++;
	x->count.bytes += r->size;
	return CB_OK;
}

/* A further name of a file that was written. *done false: the host refuses links. */
static cb_code put_link(exporting *x, const char *path, const char *name, const box_node *r, int dir, bool *done, cb_error *err)
{
	const inode_map_row *row = r->links > 1 ? inode_map_get(&x->links, 0, r->ino) : NULL;
	if (!row) return CB_OK;
	const written *w = (const written *)(const void *)x->written.bytes + row->value;
	AUTO_FD int from_dir = -1;
	const char *from = NULL;
	cb_code code = host_parent_open(x->root.fd, (const char *)x->paths.bytes + w->path_at, HOST_XDEV, &from_dir, &from, err);
	if (code == CB_OK) code = host_link_make(from_dir, from, &w->stat, dir, name, x->options->overwrite, err);
	if (code == CB_MLINK || code == CB_UNSUPPORTED || code == CB_DENIED) {
		watch_note(x->options->watch, path, "a copy and not a hard link: the host refuses one");
		return CB_OK;
	}
	*done = code == CB_OK;
	x->count.files += *done && r->type == CB_FILE;
	x->count.symlinks += *done && r->type == CB_SYMLINK;
	return code;
}

static cb_code put_symlink(exporting *x, const char *path, const char *name, const box_node *r, int dir, cb_error *err)
{
	AUTO_FREE char *target = NULL;
	CB_TRY(look_load(x->now, r, LIMIT_SYMLINK_TARGET_BYTES, &target, NULL, err));
	CB_TRY(host_symlink_make(dir, name, target, x->options->overwrite, err));
	CB_TRY(host_times_set_at(dir, name, r->atime_ns, r->mtime_ns, err));
	attribute_target nowhere = {x, path, -1};
	CB_TRY(look_attributes(x->now, r, put_attribute, &nowhere, err));
	x->count.symlinks++;
	if (r->links < 2) return CB_OK;
	written w = {.path_at = x->paths.size};
	CB_TRY(host_stat_at(dir, name, &w.stat, err));
	CB_TRY(buf_append(&x->paths, path, strlen(path) + 1, err));
	CB_TRY(inode_map_put(&x->links, 0, r->ino, x->written.size / sizeof(written), err));
	return buf_append(&x->written, &w, sizeof(w), err);
}

static cb_code put_leaf(exporting *x, const char *path, const char *name, const box_node *r, int dir, cb_error *err)
{
	bool done = false;
	CB_TRY(progress(x, path, 0, err));
	CB_TRY(put_link(x, path, name, r, dir, &done, err));
	if (done) return CB_OK;
	return r->type == CB_SYMLINK ? put_symlink(x, path, name, r, dir, err) : put_file(x, path, name, r, dir, err);
}

/* ---- folders ---- */

/* *out_entered false: it is the store's own folder, and what is in it stays as it is. */
static cb_code folder_enter(exporting *x, const char *path, const char *name, const box_node *r, bool *out_entered, cb_error *err)
{
	host_stat opened;
	cb_error why;
	cb_code code = host_dir_make(host_stack_fd(x->stack), name, 0700, cb_err_aside(&why));
	bool made = code == CB_OK;
	if (code != CB_OK && !(code == CB_EXISTS && x->options->overwrite)) return cb_err_pass(err, code, &why);
	if (x->folders.size / sizeof(*r) == LIMIT_HOST_DEPTH)
		return cb_err_set(err, CB_LIMIT, "folders are nested deeper than %d", LIMIT_HOST_DEPTH);
	CB_TRY(buf_append(&x->folders, r, sizeof(*r), err));
	code = host_stack_push(x->stack, name, x->options->overwrite ? HOST_XDEV : 0, &opened, err);
	if (code != CB_OK) {
		x->folders.size -= sizeof(*r);
		return code;
	}
	*out_entered = !guard_is_store(x->store, &opened);
	if (!*out_entered) {
		x->folders.size -= sizeof(*r);
		x->count.left_out++;
		watch_note(x->options->watch, path, "left out: the folder of the store itself");
		return host_stack_pop(x->stack, err);
	}
	if (!made) temporary_sweep(host_stack_fd(x->stack));
	x->count.folders += made;
	return CB_OK;
}

/* Up to a depth, each folder finished on the way. */
static cb_code folders_leave(exporting *x, const char *path, size_t depth, cb_error *err)
{
	while (host_stack_depth(x->stack) > depth) {
		box_node r;
		memcpy(&r, x->folders.bytes + x->folders.size - sizeof(r), sizeof(r));
		CB_TRY(put_attributes(x, path, &r, host_stack_fd(x->stack), err));
		CB_TRY(host_stack_pop(x->stack, err));
		x->folders.size -= sizeof(r);
	}
	return CB_OK;
}

static cb_code is_home_bare(const exporting *x, bool *out, cb_error *err)
{
	AUTO_WALK look_walk *entries = NULL;
	CB_TRY(look_walk_open(x->now, "", BOX_INO_HOME, &entries, err));
	*out = true;
	for (bool found = true; *out && found;) {
		box_node r;
		CB_TRY(look_walk_next(entries, &r, &found, err));
		if (found) *out = span_equal(entries->name, span_str("agent"));
	}
	return CB_OK;
}

/* The agent's own folders are no part of a whole box, unless asked for. */
static cb_code is_left_out(const exporting *x, const char *path, const char *absolute, const box_node *r, bool *out, cb_error *err)
{
	*out = ignore_match(x->ignore, path, r->type == CB_DIR, true);
	if (*out || x->options->all || x->base_size != 1) return CB_OK;
	*out = strcmp(absolute, "/tmp") == 0 || strcmp(absolute, "/home/agent") == 0;
	return r->ino == BOX_INO_HOME && r->type == CB_DIR ? is_home_bare(x, out, err) : CB_OK;
}

static cb_code walk_entry(exporting *x, look_walk *w, const box_node *r, cb_error *err)
{
	const char *absolute = w->path, *path = absolute + x->base_size;
	const char *name = strrchr(absolute, '/') + 1;
	bool skip = false, entered = false;
	CB_TRY(folders_leave(x, path, w->depth - 1, err));
	CB_TRY(is_left_out(x, path, absolute, r, &skip, err));
	if (skip) return CB_OK;
	cb_code code = r->type == CB_DIR ? folder_enter(x, path, name, r, &entered, err)
	                                 : put_leaf(x, path, name, r, host_stack_fd(x->stack), err);
	if (code == CB_OK && entered) code = look_walk_enter(w, r, err);
	return code == CB_OK || code == CB_INTERRUPTED
	               ? code
	               : cb_err_wrap(err, code, "'%s'", strlen(path) > 200 ? path + strlen(path) - 200 : path);
}

static cb_code walk_folder(exporting *x, const char *path, const box_node *top, cb_error *err)
{
	AUTO_WALK look_walk *w = NULL;
	CB_TRY(look_walk_open(x->now, path, top->ino, &w, err));
	for (;;) {
		box_node r;
		bool found = false;
		CB_TRY(look_walk_next(w, &r, &found, err));
		if (!found) return folders_leave(x, "", 0, err);
		CB_TRY(walk_entry(x, w, &r, err));
	}
}

/* ---- the target ---- */

static cb_code is_empty(const host_root *root, bool *out, cb_error *err)
{
	host_walk *w = NULL;
	host_entry e;
	CB_TRY(host_walk_open(root, &w, err));
	cb_code code = host_walk_next(w, &e, err);
	if (code == CB_OK) *out = e.event == HOST_END;
	host_walk_close(w);
	return code;
}

static cb_code target_make(exporting *x, const char *host_path, cb_error *err)
{
	host_root parent = {.fd = -1};
	CB_TRY(host_path_parent(host_path, &parent, &x->target_name, err));
	cb_code code = guard_folder(x->store, parent.fd, "an export", err);
	if (code == CB_OK) {
		temporary_sweep(parent.fd);
		code = temporary_folder(parent.fd, x->temporary, &x->root.fd, err);
	}
	if (code == CB_OK) code = host_stat_fd(x->root.fd, &x->root.stat, err);
	if (code != CB_OK) {
		if (x->root.fd >= 0) temporary_remove(parent.fd, x->temporary);
		host_root_done(&parent);
		return code;
	}
	x->parent = parent;
	x->count.folders++;
	return CB_OK;
}

/* Where somebody else put something there meanwhile nothing is left of ours: the box has it all. */
static cb_code target_name(const exporting *x, cb_error *err)
{
	if (x->parent.fd < 0) return CB_OK;
	cb_code code = host_dir_commit(x->parent.fd, x->temporary, x->target_name, err);
	if (code != CB_OK) temporary_remove(x->parent.fd, x->temporary);
	return code;
}

/* It is no folder, or something above it is none. */
static cb_code refuse_file(const char *host_path, cb_error *err)
{
	AUTO_FREE char *name = NULL;
	host_root parent = {.fd = -1};
	CB_TRY(host_path_parent(host_path, &parent, &name, err));
	host_root_done(&parent);
	return cb_err_set(err, CB_EXISTS, "'%s' exists and is no folder: name another", host_path);
}

static cb_code target_open(exporting *x, const char *host_path, cb_error *err)
{
	cb_error why;
	cb_code code = host_target_open(host_path, &x->root, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return target_make(x, host_path, err);
	if (code == CB_NOTDIR) return refuse_file(host_path, err);
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	bool empty = false;
	CB_TRY(guard_folder(x->store, x->root.fd, "an export", err));
	temporary_sweep(x->root.fd);
	CB_TRY(is_empty(&x->root, &empty, err));
	x->keep_root = !empty;
	if (empty || x->options->overwrite) return CB_OK;
	return cb_err_set(err, CB_EXISTS, "'%s' is not empty: allow overwriting, or name another folder", host_path);
}

static cb_code fill_folder(exporting *x, const char *path, const box_node *r, cb_error *err)
{
	CB_TRY(host_stack_create(&x->root, &x->stack, err));
	cb_code code = walk_folder(x, path, r, err);
	if (code == CB_OK && !x->keep_root) code = put_attributes(x, "", r, x->root.fd, err);
	return code;
}

static cb_code export_folder(exporting *x, const char *path, const box_node *r, const char *host_path, cb_error *err)
{
	CB_TRY(target_open(x, host_path, err));
	cb_code code = fill_folder(x, path, r, err);
	if (x->era != entry_era()) return code == CB_OK ? entry_stays(x->era, err) : code; /* the folder is the parent's */
	if (code == CB_OK) return target_name(x, err);
	/* So that the same call can be made again: nothing is in its way then. */
	if (x->parent.fd >= 0) temporary_remove(x->parent.fd, x->temporary);
	return code;
}

static cb_code export_leaf(exporting *x, const box_node *r, const char *host_path, cb_error *err)
{
	AUTO_FREE char *name = NULL;
	host_stat stat;
	/* Such a path means a folder wherever it is written, so what is not one never gets its name. */
	if (host_path[strlen(host_path) - 1] == '/')
		return cb_err_set(err, CB_NOTDIR, "'%s' names a folder: name the file to be", host_path);
	CB_TRY(host_path_parent(host_path, &x->root, &name, err));
	CB_TRY(guard_folder(x->store, x->root.fd, "an export", err));
	cb_error why;
	cb_code code = host_stat_at(x->root.fd, name, &stat, cb_err_aside(&why));
	if (code == CB_OK && stat.type == HOST_DIR)
		return cb_err_set(err, CB_ISDIR, "'%s' is a folder: name the file to be", host_path);
	if (code == CB_OK && !x->options->overwrite)
		return cb_err_set(err, CB_EXISTS, "'%s' exists: allow overwriting, or name another", host_path);
	if (code != CB_OK && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	temporary_sweep(x->root.fd);
	return put_leaf(x, name, name, r, x->root.fd, err);
}

/* ---- life ---- */

static cb_code export_at(exporting *x, const char *path, const box_node *r, const char *host_path, cb_error *err)
{
	x->base_size = path[1] ? strlen(path) + 1 : 1;
	x->block = mem_alloc_aligned(BLOCK_BYTES);
	if (!x->block) return cb_err_nomem(err);
	CB_TRY(ignore_create(x->options->exclude, x->options->exclude_count, &x->ignore, err));
	return r->type == CB_DIR ? export_folder(x, path, r, host_path, err) : export_leaf(x, r, host_path, err);
}

static void exporting_done(exporting *x)
{
	host_stack_destroy(x->stack);
	host_root_done(&x->root);
	host_root_done(&x->parent);
	free(x->target_name);
	ignore_destroy(x->ignore);
	inode_map_done(&x->links);
	buf_done(&x->folders);
	buf_done(&x->written);
	buf_done(&x->paths);
	free(x->block);
}

cb_code cb_export(cb_box *b, const char *path, const char *host_path, const cb_export_options *options, cb_transfer_count *out,
                  cb_error *err)
{
	NEED(err, "box path host_path", b, path, host_path);
	CB_TRY(args_path("host_path", host_path, err));
	BOX_STAYS(b);
	cb_export_options o;
	cb_transfer_watch watch;
	CB_TRY(SIZED_TAKE(cb_export_options, watch, &o, options, err));
	CB_TRY(args_names("exclude", o.exclude, o.exclude_count, err));
	CB_TRY(watch_take(&o.watch, &watch, err));
	CB_TRY(SIZED_CHECK(cb_transfer_count, seq, out, err));
	AUTO_FREE char *clean = path_clean(path);
	AUTO_LOOK look *now = NULL;
	box_node top;
	if (!clean) return cb_err_nomem(err);
	CB_TRY(look_open(b, LOOK_AS_SEEN, &now, err));
	exporting x = {.era = entry_era(),
	               .store = box_about(b).store,
	               .now = now,
	               .options = &o,
	               .count = CB_INIT(cb_transfer_count),
	               .root = {.fd = -1},
	               .parent = {.fd = -1},
	               .folders = BUF_INIT(sizeof(box_node) * LIMIT_HOST_DEPTH),
	               .written = BUF_INIT(SIZE_MAX),
	               .paths = BUF_INIT(SIZE_MAX)};
	cb_code code = look_find(now, path, false, &top, err);
	if (code == CB_OK) code = export_at(&x, clean, &top, host_path, err);
	if (code == CB_OK) SIZED_GIVE(out, &x.count);
	exporting_done(&x);
	return code == CB_OK || code == CB_INTERRUPTED ? code : cb_err_wrap(err, code, "exporting to '%s'", host_path);
}
