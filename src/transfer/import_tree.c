/*
 * import_tree.c: a folder of the host laid over a folder of the box, entry by entry, both in the order of names.
 *
 * The host wins: what is of another type in the box goes. What only the box has stays, or goes when that was asked for; what is left
 * out on purpose (patterns, other filesystems, the store's own folder) is neither brought over nor removed. Hard links: the first name
 * of a file brings its bytes, the others become links to what the first became; a file of the box that stood for several and now stands
 * for one is parted.
 */
#include "transfer/import.h"

#include <stdio.h>

#include "base/io.h"
#include "transfer/guard.h"

static import_level *level_top(const importing *im)
{
	return (import_level *)(void *)(im->levels.bytes + im->levels.size) - 1;
}

/* ---- what only the box has ---- */

static cb_code names_collect(importing *im, import_level *l, cb_error *err)
{
	AUTO_WALK look_walk *entries = NULL;
	CB_TRY(look_walk_open(pen_look(im->e), "", l->ino, &entries, err));
	for (;;) {
		box_node there;
		bool found = false;
		CB_TRY(look_walk_next(entries, &there, &found, err));
		if (!found) return CB_OK;
		CB_TRY(buf_append(&l->names, entries->name.bytes, entries->name.size, err));
		CB_TRY(buf_append_byte(&l->names, 0, err));
	}
}

/* "/" as a target: home and tmp are the box's own and no part of what is transferred. */
static bool is_box_own(const import_level *l, const char *name)
{
	return l->ino == BOX_INO_ROOT && (strcmp(name, "home") == 0 || strcmp(name, "tmp") == 0);
}

static cb_code name_is_missing(importing *im, const import_level *l, const char *folder, const char *name, cb_error *err)
{
	span n = span_str(name);
	box_node node;
	CB_TRY(look_child(pen_look(im->e), l->ino, n, &node, err));
	AUTO_BUF buf path = BUF_INIT(LIMIT_HOST_PATH_BYTES + LIMIT_NAME_BYTES + 2);
	CB_TRY(buf_printf(&path, err, "%s%s%s", folder, *folder ? "/" : "", name));
	bool remove = im->options->remove_missing && !is_box_own(l, name) &&
	              !ignore_match(im->ignore, (const char *)path.bytes, node.type == CB_DIR, l->inside_git);
	if (remove) {
		uint64_t removed = 0;
		CB_TRY(pen_remove(im->e, l->ino, n, &removed, err));
		im->count.removed += removed;
	} else if (im->linked) {
		box_only only = {.parent = l->ino, .size = (uint8_t)n.size};
		memcpy(only.name, n.bytes, n.size);
		CB_TRY(buf_append(&im->only, &only, sizeof(only), err));
	}
	return CB_OK;
}

/* The walk of the folder has come to `name` (NULL: to its end): names of the box before it are not on the host. */
static cb_code names_pass(importing *im, const char *folder, const char *name, bool is_there, cb_error *err)
{
	import_level *l = level_top(im);
	while (l->names_at < l->names.size) {
		const char *at = (const char *)l->names.bytes + l->names_at;
		int order = name ? strcmp(at, name) : -1;
		if (order > 0) return CB_OK;
		l->names_at += strlen(at) + 1;
		if (order < 0 || !is_there) CB_TRY(name_is_missing(im, l, folder, at, err));
		l = level_top(im);
		if (order == 0) return CB_OK;
	}
	return CB_OK;
}

/* ---- leaves ---- */

typedef struct leaf {
	const host_entry *e;
	uint64_t parent;
	span name;
	bool exists; /* in the box */
	box_node there;
} leaf;

static cb_code leaf_clear(importing *im, leaf *l, cb_error *err)
{
	if (!l->exists) return CB_OK;
	l->exists = false;
	return pen_remove(im->e, l->parent, l->name, NULL, err);
}

static cb_code remember(importing *im, const leaf *l, const host_stat *stat, const box_node *r, int64_t looked_ns)
{
	if (!im->remember || !cache_entry_rests(stat, looked_ns)) return CB_OK;
	cache_entry seen = {stat->size, stat->dev, stat->ino, stat->mtime_ns, stat->ctime_ns, r->ino, r->version};
	cache_writer_add(im->remember, l->e->path, &seen);
	return CB_OK;
}

/* As the last import saw it, and the box has what that made of it? */
static bool is_as_known(importing *im, const leaf *l)
{
	const host_stat *s = &l->e->stat;
	cache_entry known;
	if (!cache_reader_find(im->known, l->e->path, &known) || !l->exists || im->options->full) return false;
	return known.size == s->size && known.dev == s->dev && known.ino == s->ino && known.mtime_ns == s->mtime_ns &&
	       known.ctime_ns == s->ctime_ns && known.box_ino == l->there.ino && known.box_version == l->there.version;
}

/* The box's file stands for another file of the host already: it cannot stand for this one too. */
static bool is_taken(const importing *im, const leaf *l)
{
	if (l->there.links < 2) return false;
	return inode_map_get(&im->claimed, l->e->stat.dev, l->there.ino) != NULL;
}

static cb_code claim(importing *im, const leaf *l, const host_stat *stat, uint64_t ino, uint32_t links, cb_error *err)
{
	if (stat->links > 1) CB_TRY(inode_map_put(&im->links, stat->dev, stat->ino, ino, err));
	if (stat->links > 1 || links > 1) CB_TRY(inode_map_put(&im->claimed, l->e->stat.dev, ino, stat->ino, err));
	return CB_OK;
}

/* A further name of a file that was brought over before. */
static cb_code import_link(importing *im, leaf *l, uint64_t ino, int64_t looked_ns, cb_error *err)
{
	box_node node;
	if (l->exists && l->there.ino == ino) {
		im->count.unchanged++;
		return remember(im, l, &l->e->stat, &l->there, looked_ns);
	}
	CB_TRY(leaf_clear(im, l, err));
	cb_code code = pen_link(im->e, ino, l->parent, l->name, &node, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "'%s'", import_name(l->e->path));
	if (l->e->stat.type == HOST_FILE) im->count.files++;
	else im->count.symlinks++;
	return remember(im, l, &l->e->stat, &node, looked_ns);
}

static cb_code import_regular(importing *im, leaf *l, int64_t looked_ns, cb_error *err)
{
	box_node node;
	host_stat stat;
	bool changed = false;
	if (l->exists && (l->there.type != CB_FILE || is_taken(im, l))) CB_TRY(leaf_clear(im, l, err));
	if (is_as_known(im, l)) {
		im->count.unchanged++;
		CB_TRY(claim(im, l, &l->e->stat, l->there.ino, l->there.links, err));
		return remember(im, l, &l->e->stat, &l->there, looked_ns);
	}
	if (l->exists) CB_TRY(pen_allow(im->e, l->parent, l->name, &l->there, err));
	CB_TRY(import_file_content(im, l->e, l->parent, l->name, l->exists ? &l->there : NULL, &node, &stat, &changed, err));
	(void)import_mode(im, l->e->path, &stat);
	im->count.files += changed;
	im->count.bytes += changed ? stat.size : 0;
	im->count.unchanged += !changed;
	CB_TRY(claim(im, l, &stat, node.ino, node.links, err));
	CB_TRY(remember(im, l, &stat, &node, looked_ns));
	return import_progress(im, l->e->path, stat.size <= LIMIT_CONTENT_BYTES ? stat.size : 0, err);
}

static cb_code same_target(importing *im, const leaf *l, const buf *target, bool *out, cb_error *err)
{
	*out = l->exists && l->there.type == CB_SYMLINK && l->there.size == target->size;
	if (!*out || target->size == 0) return CB_OK;
	AUTO_FREE char *now = NULL;
	CB_TRY(look_load(pen_look(im->e), &l->there, LIMIT_SYMLINK_TARGET_BYTES, &now, NULL, err));
	*out = memcmp(now, target->bytes, target->size) == 0;
	return CB_OK;
}

static cb_code import_symlink(importing *im, leaf *l, cb_error *err)
{
	AUTO_BUF buf target = BUF_INIT(LIMIT_SYMLINK_TARGET_BYTES + 1);
	bool same = false, changed = false;
	box_node node = l->there;
	CB_TRY(host_link_read(l->e->dir, l->e->name, &target, err));
	if (!(l->exists && is_taken(im, l))) CB_TRY(same_target(im, l, &target, &same, err));
	if (!same) {
		CB_TRY(leaf_clear(im, l, err));
		CB_TRY(pen_make(im->e, l->parent, l->name, CB_SYMLINK, 0777, &node, err));
		CB_TRY(pen_put(im->e, &node, buf_span(&target), err));
	}
	CB_TRY(import_attributes(im, -1, &l->e->stat, &node, !same, &changed, err));
	im->count.symlinks += changed || !same;
	im->count.unchanged += !changed && same;
	return claim(im, l, &l->e->stat, node.ino, node.links, err);
}

static int64_t wall_clock_ns(void)
{
	return clock_now(&clock_system);
}

cb_code import_leaf(importing *im, const host_entry *e, uint64_t parent, bool fresh, cb_error *err)
{
	leaf l = {.e = e, .parent = parent, .name = span_str(e->name)};
	int64_t looked_ns = wall_clock_ns();
	if (!fresh) {
		cb_code code = look_child(pen_look(im->e), parent, l.name, &l.there, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		l.exists = code == CB_OK;
	}
	const inode_map_row *row = e->stat.links > 1 ? inode_map_get(&im->links, e->stat.dev, e->stat.ino) : NULL;
	if (row) {
		cache_entry ignored;
		(void)cache_reader_find(im->known, e->path, &ignored);
		return import_link(im, &l, row->value, looked_ns, err);
	}
	return e->stat.type == HOST_SYMLINK ? import_symlink(im, &l, err) : import_regular(im, &l, looked_ns, err);
}

/* ---- folders ---- */

/* The .gitignore of the folder that was just entered. */
static cb_code ignore_enter(importing *im, int dir, const char *folder, bool inside_git, cb_error *err)
{
	if (!im->options->gitignore || inside_git) return ignore_push(im->ignore, folder, (span){0}, err);
	AUTO_FD int fd = -1;
	host_stat stat;
	cb_error why;
	cb_code code = host_file_open(dir, ".gitignore", &fd, &stat, cb_err_aside(&why));
	if (code != CB_OK) {
		bool none = code == CB_NOTFOUND || code == CB_LOOP || code == CB_ISDIR || code == CB_INVALID;
		return none ? ignore_push(im->ignore, folder, (span){0}, err) : cb_err_pass(err, code, &why);
	}
	if (stat.size > LIMIT_IGNORE_BYTES)
		return cb_err_set(err, CB_LIMIT, "'%s/.gitignore' has more than %d bytes", folder, LIMIT_IGNORE_BYTES);
	AUTO_BUF buf text = BUF_INIT(LIMIT_IGNORE_BYTES);
	uint8_t *bytes;
	CB_TRY(buf_extend(&text, (size_t)stat.size, &bytes, err));
	CB_TRY(io_pread_all(fd, bytes, (size_t)stat.size, 0, &text.size, err));
	return ignore_push(im->ignore, folder, buf_span(&text), err);
}

static cb_code level_push(importing *im, uint64_t ino, bool fresh, bool inside_git, int dir, const char *path, cb_error *err)
{
	uint8_t *slot;
	CB_TRY(ignore_enter(im, dir, path, inside_git, err));
	CB_TRY(buf_extend(&im->levels, sizeof(import_level), &slot, err));
	import_level l = {.ino = ino, .fresh = fresh, .inside_git = inside_git, .names = BUF_INIT(LIMIT_HOST_LISTING_BYTES)};
	memcpy(slot, &l, sizeof(l));
	bool ask = !fresh && (im->options->remove_missing || im->linked);
	return ask ? names_collect(im, level_top(im), err) : CB_OK;
}

static void level_pop(importing *im)
{
	buf_done(&level_top(im)->names);
	im->levels.size -= sizeof(import_level);
	ignore_pop(im->ignore);
}

/* The box's folder for one of the host. */
static cb_code folder_for(importing *im, const host_entry *e, uint64_t parent, bool parent_fresh, uint64_t *ino, bool *fresh,
                          cb_error *err)
{
	leaf l = {.e = e, .parent = parent, .name = span_str(e->name)};
	cb_code code = parent_fresh ? CB_NOTFOUND : look_child(pen_look(im->e), parent, l.name, &l.there, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	l.exists = code == CB_OK;
	*fresh = !l.exists || l.there.type != CB_DIR;
	if (!*fresh) {
		*ino = l.there.ino;
		return pen_allow(im->e, parent, l.name, &l.there, err);
	}
	CB_TRY(leaf_clear(im, &l, err));
	CB_TRY(pen_make(im->e, parent, l.name, CB_DIR, 0755, &l.there, err));
	*ino = l.there.ino;
	im->count.folders++;
	return CB_OK;
}

/* After its entries: they changed its times. */
static cb_code folder_finish(importing *im, const host_entry *e, cb_error *err)
{
	import_level *top = level_top(im);
	CB_TRY(names_pass(im, e->path, NULL, false, err));
	box_node node;
	bool changed = false, fresh = top->fresh;
	CB_TRY(look_node(pen_look(im->e), top->ino, &node, err));
	CB_TRY(import_attributes(im, e->dir, &e->stat, &node, fresh, &changed, err));
	(void)import_mode(im, e->path, &e->stat);
	if (!fresh && changed) im->count.folders++;
	level_pop(im);
	return CB_OK;
}

static cb_code left_out(importing *im, const host_entry *e, const char *what, cb_error *err)
{
	im->count.left_out++;
	watch_note(im->options->watch, e->path, "left out: %s", what);
	(void)err;
	return CB_OK;
}

static size_t folder_size(const host_entry *e)
{
	size_t name = strlen(e->name), path = strlen(e->path);
	return path > name ? path - name - 1 : 0;
}

/* What is passed in the box before this entry, and the entry itself when it is not to be brought over. */
static cb_code pass(importing *im, const host_entry *e, bool is_there, cb_error *err)
{
	const import_level *top = level_top(im);
	if (top->names_at == top->names.size) return CB_OK;
	AUTO_FREE char *folder = mem_dup(e->path, folder_size(e) + 1);
	if (!folder) return cb_err_nomem(err);
	folder[folder_size(e)] = 0;
	return names_pass(im, folder, e->name, is_there, err);
}

static cb_code import_folder(importing *im, host_entry *e, bool inside_git, cb_error *err)
{
	uint64_t parent = level_top(im)->ino, ino = 0;
	bool parent_fresh = level_top(im)->fresh, fresh = false;
	const cb_store *store = box_about(im->b).store;
	if (guard_is_store(store, &e->stat)) return left_out(im, e, "the folder of the store itself", err);
	if (e->other_device) return left_out(im, e, "on another filesystem", err);
	cb_error why;
	cb_code code = host_walk_enter(im->walk, e, cb_err_aside(&why));
	if (code == CB_UNSUPPORTED) return left_out(im, e, "another filesystem is mounted there", err);
	if (code == CB_NOTFOUND) return CB_OK;
	bool swapped = code == CB_OK && guard_is_store(store, &e->stat); /* since it was listed */
	if (code == CB_LOOP || code == CB_NOTDIR || swapped)
		return cb_err_set(err, CB_BUSY, "'%s' was replaced meanwhile: try again", import_name(e->path));
	if (code != CB_OK) return cb_err_wrap(err, cb_err_pass(err, code, &why), "'%s'", import_name(e->path));
	CB_TRY(folder_for(im, e, parent, parent_fresh, &ino, &fresh, err));
	return level_push(im, ino, fresh, inside_git, e->dir, e->path, err);
}

static bool is_special(host_type type)
{
	return type != HOST_FILE && type != HOST_DIR && type != HOST_SYMLINK;
}

static cb_code leaf_or_gone(importing *im, const host_entry *e, cb_error *err)
{
	const import_level *top = level_top(im);
	cb_error why;
	cb_code code = import_leaf(im, e, top->ino, top->fresh, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return CB_OK; /* since it was listed */
	if (code == CB_UNSUPPORTED) return left_out(im, e, "another filesystem is mounted there", err);
	if (code == CB_LOOP || code == CB_ISDIR || (code == CB_INVALID && e->stat.type != HOST_SYMLINK))
		return cb_err_set(err, CB_BUSY, "'%s' was replaced meanwhile: try again", import_name(e->path));
	(void)cb_err_pass(err, code, &why);
	if (code == CB_DENIED) return cb_err_wrap(err, code, "'%s': leave it out, or import as its owner", import_name(e->path));
	if (code == CB_QUOTA || code == CB_TOOBIG) return cb_err_wrap(err, code, "'%s'", import_name(e->path));
	return code;
}

static cb_code import_entry(importing *im, host_entry *e, cb_error *err)
{
	const import_level *top = level_top(im);
	bool is_dir = e->stat.type == HOST_DIR;
	bool inside_git = top->inside_git || strcmp(e->name, ".git") == 0;
	if (ignore_match(im->ignore, e->path, is_dir, inside_git)) return pass(im, e, true, err);
	CB_TRY(pass(im, e, !is_special(e->stat.type), err));
	top = level_top(im);
	if (is_special(e->stat.type)) return left_out(im, e, host_type_name(e->stat.type), err);
	if (top->ino == BOX_INO_ROOT && box_name_reserved(span_str(e->name)))
		return left_out(im, e, "the name belongs to the system at the root of a box", err);
	CB_TRY(import_progress(im, e->path, 0, err));
	return is_dir ? import_folder(im, e, inside_git, err) : leaf_or_gone(im, e, err);
}

cb_code import_tree(importing *im, uint64_t ino, bool fresh, cb_error *err)
{
	CB_TRY(host_walk_open(&im->root, &im->walk, err));
	cb_code code = level_push(im, ino, fresh, false, im->root.fd, "", err);
	while (code == CB_OK) {
		host_entry e;
		code = host_walk_next(im->walk, &e, err);
		if (code != CB_OK) break;
		code = e.event == HOST_ENTRY ? import_entry(im, &e, err) : folder_finish(im, &e, err);
		if (e.event == HOST_END) break;
	}
	return code;
}
