/*
 * apply_look.c: one path in the base, in the box and on the host, and whether two of them hold the same.
 *
 * The same means: type, content or target, and mode without setuid and setgid. Times are not compared: they go along with a content.
 */
#include "transfer/apply.h"

#include "base/io.h"
#include "transfer/guard.h"

enum { MODE_SEEN = 01777 };

cb_code apply_box_path(const applying *a, const char *relative, char *out, cb_error *err)
{
	const char *root = strcmp(a->box_path, "/") == 0 ? "" : a->box_path;
	size_t n = strlen(root), m = strlen(relative);
	if (n + m + 2 > LIMIT_PATH_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "a path in the box is longer than %d bytes", LIMIT_PATH_BYTES - 1);
	memcpy(out, root, n);
	out[n] = '/';
	memcpy(out + n + 1, relative, m + 1);
	if (m == 0 && n) out[n] = 0;
	return CB_OK;
}

static cb_code look_side(look *l, const char *path, apply_side *out, cb_error *err)
{
	out->there = false;
	if (!l) return CB_OK;
	cb_error why;
	cb_code code = look_find(l, path, false, &out->node, cb_err_aside(&why));
	if (code == CB_NOTFOUND || code == CB_NOTDIR) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	out->there = true;
	out->type = out->node.type;
	out->mode = out->node.mode & MODE_SEEN;
	return CB_OK;
}

/* A symbolic link on the way would lead the look elsewhere. */
static cb_code way_is_folders(look *l, const applying *a, char *path, bool *out, cb_error *err)
{
	*out = true;
	size_t start = strcmp(a->box_path, "/") == 0 ? 0 : strlen(a->box_path);
	for (size_t i = start + 1; *out && path[i]; i++) {
		if (path[i] != '/') continue;
		apply_side part;
		path[i] = 0;
		cb_code code = look_side(l, path, &part, err);
		path[i] = '/';
		if (code != CB_OK) return code;
		*out = part.there && part.type == CB_DIR;
	}
	return CB_OK;
}

static cb_code look_one(const applying *a, look *l, const char *relative, apply_side *out, cb_error *err)
{
	char path[LIMIT_PATH_BYTES];
	bool folders = false;
	out->there = false;
	if (!l) return CB_OK;
	CB_TRY(apply_box_path(a, relative, path, err));
	CB_TRY(way_is_folders(l, a, path, &folders, err));
	return folders ? look_side(l, path, out, err) : CB_OK;
}

cb_code apply_look_box(applying *a, apply_row *row, cb_error *err)
{
	CB_TRY(look_one(a, a->base_look, row->path, &row->base, err));
	CB_TRY(look_one(a, a->now_look, row->path, &row->box, err));
	if (!row->box.there || row->box.type != CB_SYMLINK) return CB_OK;
	size_t size = 0;
	return look_load(a->now_look, &row->box.node, LIMIT_SYMLINK_TARGET_BYTES, &row->target, &size, err);
}

cb_code apply_look_host(applying *a, apply_row *row, apply_way *way, cb_error *err)
{
	AUTO_FD int dir = -1;
	const char *name = NULL;
	*way = APPLY_WAY_OPEN;
	row->host_there = false;
	cb_error why;
	cb_code code = host_parent_open(a->root.fd, row->path, HOST_XDEV, &dir, &name, cb_err_aside(&why));
	if (code == CB_NOTFOUND || code == CB_LOOP || code == CB_NOTDIR) {
		*way = code == CB_NOTFOUND ? APPLY_WAY_MISSING : APPLY_WAY_BLOCKED;
		return CB_OK;
	}
	if (code == CB_OK) code = host_stat_at(dir, name, &row->host, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_wrap(err, cb_err_pass(err, code, &why), "looking at '%s'", row->path);
	row->host_there = true;
	return CB_OK;
}

/* From the folder down, as far as the host has the path: below what is missing or no folder nothing of the store can be. */
size_t apply_store_part(const applying *a, const char *path)
{
	AUTO_FD int dir = -1;
	for (size_t start = 0, end;; start = end + 1) {
		char name[LIMIT_NAME_BYTES + 1];
		host_stat stat;
		end = start + strcspn(path + start, "/");
		if (end - start > LIMIT_NAME_BYTES) return 0;
		memcpy(name, path + start, end - start);
		name[end - start] = 0;
		int in = dir >= 0 ? dir : a->root.fd, next = -1;
		if (host_stat_at(in, name, &stat, NULL) != CB_OK || stat.type != HOST_DIR) return 0;
		if (guard_is_store(a->store, &stat)) return end;
		if (!path[end] || host_dir_open(in, name, HOST_XDEV, &next, NULL, NULL) != CB_OK) return 0;
		if (dir >= 0) (void)close(dir);
		dir = next;
	}
}

cb_code apply_same_in_boxes(applying *a, apply_row *row, bool *out, cb_error *err)
{
	const apply_side *x = &row->base, *y = &row->box;
	bool same = x->there == y->there && (!x->there || x->type == y->type);
	if (same && x->there && x->type != CB_DIR) {
		CB_TRY(look_equal(a->base_look, &x->node, a->now_look, &y->node, &same, err));
		row->same_data = same;
	}
	*out = same && (!x->there || x->mode == y->mode);
	return CB_OK;
}

/* ---- the host's content ---- */

/* Past what is a hole on both sides. */
static cb_code skip_holes(int fd, look *l, const box_node *r, uint64_t *at, cb_error *err)
{
	uint64_t here = r->size, there = r->size, end = 0;
	cb_error why;
	cb_code code = look_seek(l, r, *at, false, &there, cb_err_aside(&why));
	if (code == CB_NOTFOUND) there = r->size;
	else if (code != CB_OK) return cb_err_pass(err, code, &why);
	CB_TRY(host_data_next(fd, *at, r->size, &here, &end, err));
	*at = here < there ? here : there;
	return CB_OK;
}

static cb_code same_bytes(applying *a, int fd, look *l, const box_node *r, bool *out, cb_error *err)
{
	*out = true;
	for (uint64_t at = 0; *out && at < r->size;) {
		CB_TRY(cancel_check(err));
		CB_TRY(skip_holes(fd, l, r, &at, err));
		size_t want = r->size - at < APPLY_CHUNK_BYTES ? (size_t)(r->size - at) : APPLY_CHUNK_BYTES, n = 0;
		CB_TRY(io_pread_all(fd, a->chunk, want, at, &n, err));
		if (n < want) {
			*out = false;
			break;
		}
		CB_TRY(look_read(l, r, at, a->other, want, err));
		*out = memcmp(a->chunk, a->other, want) == 0;
		at += want;
	}
	return CB_OK;
}

static cb_code same_file(applying *a, const apply_row *row, int dir, const char *name, look *l, const box_node *r, bool *out,
                         cb_error *err)
{
	AUTO_FD int fd = -1;
	host_stat before, after;
	*out = row->host.size == r->size;
	if (!*out) return CB_OK;
	CB_TRY(host_file_open(dir, name, &fd, &before, err));
	CB_TRY(same_bytes(a, fd, l, r, out, err));
	CB_TRY(host_stat_fd(fd, &after, err));
	if (host_stat_same(&before, &row->host) && host_stat_same(&after, &row->host)) return CB_OK;
	return cb_err_set(err, CB_BUSY, "'%s' changes while it is read: try again", row->path);
}

static cb_code same_link(int dir, const char *name, look *l, const box_node *r, bool *out, cb_error *err)
{
	AUTO_BUF buf target = BUF_INIT(LIMIT_SYMLINK_TARGET_BYTES + 1);
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	CB_TRY(host_link_read(dir, name, &target, err));
	CB_TRY(look_load(l, r, LIMIT_SYMLINK_TARGET_BYTES, &text, &size, err));
	*out = span_equal(buf_span(&target), span_make(text, size));
	return CB_OK;
}

static bool type_fits(host_type host, cb_type box)
{
	return (host == HOST_FILE && box == CB_FILE) || (host == HOST_DIR && box == CB_DIR) ||
	       (host == HOST_SYMLINK && box == CB_SYMLINK);
}

cb_code apply_same_on_host(applying *a, const apply_row *row, bool of_base, bool *out, cb_error *err)
{
	const apply_side *side = of_base ? &row->base : &row->box;
	look *l = of_base ? a->base_look : a->now_look;
	*out = side->there == row->host_there;
	if (!*out || !side->there) return CB_OK;
	*out = type_fits(row->host.type, side->type);
	if (!*out) return CB_OK;
	/* A link has no mode of its own. */
	if (side->type != CB_SYMLINK) *out = (row->host.mode & MODE_SEEN) == side->mode;
	if (!*out || side->type == CB_DIR) return CB_OK;
	AUTO_FD int dir = -1;
	const char *name = NULL;
	CB_TRY(host_parent_open(a->root.fd, row->path, HOST_XDEV, &dir, &name, err));
	cb_code code = side->type == CB_FILE ? same_file(a, row, dir, name, l, &side->node, out, err)
	                                     : same_link(dir, name, l, &side->node, out, err);
	if (code == CB_NOTFOUND || code == CB_LOOP || code == CB_INVALID || code == CB_ISDIR)
		return cb_err_set(err, CB_BUSY, "'%s' changes while it is read: try again", row->path);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "reading '%s'", row->path);
}
