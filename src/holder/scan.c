/*
 * scan.c: what is in a tree, told to the caller entry by entry.
 *
 * Adversary: the box made this tree, but nobody runs in it now. Names, modes, depth and kinds of files are its choice: the walk follows
 * no link, opens nothing but regular files and folders, and what cannot be read or said in a packet (a folder that is too deep, or with
 * too many names) is told as such instead of ending the scan: the box must not be able to make its other changes unseen.
 */
#include "holder/tree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "host/host.h"

enum {
	PATH_BYTES = 32 << 10, /* of a folder that is entered: what is in it can be named in a packet */
	ENTRY_BYTES = 128,     /* of an entry beside its path, target and attributes */
	TYPE_SHIFT = 12,       /* above 07777 */
	WHITEOUT_TYPE = 15,
	NS_PER_S = 1000000000,
};
static_assert(PATH_BYTES + LIMIT_NAME_BYTES + LIMIT_SYMLINK_TARGET_BYTES + ENTRY_BYTES < WIRE_PACKET_BYTES, "one entry fits");

typedef struct scan {
	scanner *to;
	buf packet;
	int fds[WIRE_FDS];
	size_t fd_count;
	buf xattrs, target;
	buf opened;       /* opened_dir: folders that got a mode for as long as we are in them, the innermost last */
	bool owner_only;  /* no right to every file: the weak sandbox */
	bool loose_files; /* a write through a mapping need not show in ctime */
	wire_scanned totals;
} scan;

typedef struct opened_dir {
	size_t depth;
	uint32_t mode;
} opened_dir;

/* ---- packets ---- */

static void fds_close(scan *s)
{
	for (size_t i = 0; i < s->fd_count; i++) (void)close(s->fds[i]);
	s->fd_count = 0;
}

static cb_code flush(scan *s, cb_error *err)
{
	cb_code code = CB_OK;
	if (s->packet.size) code = s->to->send(s->to->context, buf_span(&s->packet), s->fds, s->fd_count, err);
	fds_close(s);
	buf_clear(&s->packet);
	return code;
}

/* Takes fd, which may be -1. */
static cb_code emit(scan *s, wire_entry *e, int file, cb_error *err)
{
	AUTO_FD int fd = file;
	if (!s->to->send) return CB_OK;
	e->has_fd = fd >= 0;
	if (e->has_fd && s->fd_count == WIRE_FDS) CB_TRY(flush(s, err));
	cb_error why;
	cb_code code = wire_entry_put(&s->packet, e, cb_err_aside(&why));
	if (code == CB_LIMIT && s->packet.size) {
		CB_TRY(flush(s, err));
		code = wire_entry_put(&s->packet, e, cb_err_aside(&why));
	}
	if (code == CB_OK && fd >= 0) s->fds[s->fd_count++] = TAKE_FD(fd);
	return cb_err_pass(err, code, &why);
}

/* ---- one entry ---- */

static cb_code xattr_add(void *context, const char *name, span value, cb_error *err)
{
	scan *s = context;
	cb_error why;
	cb_code code = CB_LIMIT;
	if (!host_xattr_is_overlay(name)) code = wire_xattr_put(&s->xattrs, name, value, cb_err_aside(&why));
	if (code != CB_LIMIT) return cb_err_pass(err, code, &why);
	s->totals.xattrs_left_out++;
	return CB_OK;
}

static cb_code xattrs_read(scan *s, int fd, wire_entry *e, cb_error *err)
{
	uint64_t before = s->totals.xattrs_left_out;
	buf_clear(&s->xattrs);
	s->xattrs.max_size = WIRE_PACKET_BYTES - ENTRY_BYTES - strlen(e->path);
	cb_error why;
	cb_code code = (s->to->layered ? host_xattr_list_upper : host_xattr_list)(fd, xattr_add, s, cb_err_aside(&why));
	if (code == CB_NOMEM) return cb_err_pass(err, code, &why);
	s->totals.xattrs_left_out += code != CB_OK;
	e->cut = s->totals.xattrs_left_out > before;
	e->xattrs = buf_span(&s->xattrs);
	return CB_OK;
}

static wire_entry entry_from(wire_entry_type type, const char *path, const host_stat *st)
{
	return (wire_entry){
		.type = type,
		.path = path,
		.mode = st->mode,
		.size = st->size,
		.ino = st->ino,
		.links = st->links,
		.allocated_bytes = st->allocated_bytes,
		.mtime_ns = st->mtime_ns,
		.atime_ns = st->atime_ns,
		.ctime_ns = st->ctime_ns,
	};
}

static cb_code look_up(scan *s, wire_entry *e, const host_stat *st, cb_error *err)
{
	if (s->totals.entries++ >= LIMIT_WORK_ENTRIES) return cb_err_set(err, CB_LIMIT, "more than %d entries", LIMIT_WORK_ENTRIES);
	if (st->type == HOST_FILE) s->totals.bytes += st->size;
	seen_entry now = {st->ino, st->size, st->ctime_ns, st->mtime_ns, (uint32_t)st->type << TYPE_SHIFT | st->mode};
	/* All whiteouts are links of one file, and one is like the other. */
	if (e->type == WIRE_ENTRY_WHITEOUT) now = (seen_entry){.mode = WHITEOUT_TYPE << TYPE_SHIFT};
	/* Of a special file only that it is there counts, however young. */
	if (e->type == WIRE_ENTRY_SPECIAL) now.ctime_ns = now.mtime_ns = 0;
	if (!(s->loose_files && st->type == HOST_FILE && st->size))
		CB_TRY(seen_add(s->to->known, span_str(e->path), &now, &e->known, err));
	s->totals.sent += !e->known;
	if (!e->known && st->type == HOST_FILE) s->totals.sent_bytes += st->allocated_bytes;
	return CB_OK;
}

/* Something that is there and cannot be told. */
static cb_code scan_unkept(scan *s, const host_entry *at, const char *why, cb_error *err)
{
	wire_entry e = entry_from(WIRE_ENTRY_UNKEPT, at->path, &at->stat);
	e.data = span_make(why, strnlen(why, LIMIT_NAME_BYTES));
	return emit(s, &e, -1, err);
}

static cb_code file_read(scan *s, const host_entry *at, wire_entry *e, int *out_fd, cb_error *err)
{
	AUTO_FD int fd = -1;
	host_stat st;
	CB_TRY(host_file_open(at->dir, at->name, &fd, &st, err));
	(void)fcntl(fd, F_SETFL, O_NONBLOCK | O_NOATIME); /* where it is refused, reading shows in the access time */
	CB_TRY(xattrs_read(s, fd, e, err));
	*out_fd = TAKE_FD(fd);
	return CB_OK;
}

/* Without a user namespace (the weak sandbox) we are only the owner, who may be without the right to read. */
static cb_code file_read_closed(scan *s, const host_entry *at, wire_entry *e, int *out_fd, cb_error *err)
{
	if (fchmodat(at->dir, at->name, at->stat.mode | S_IRUSR, 0) != 0)
		return cb_err_errno(err, errno, "cannot read '%s'", at->name);
	cb_code code = file_read(s, at, e, out_fd, err);
	if (fchmodat(at->dir, at->name, at->stat.mode, 0) != 0 && code == CB_OK)
		return cb_err_errno(err, errno, "cannot restore the mode of '%s'", at->name);
	return code;
}

static cb_code scan_file(scan *s, const host_entry *at, cb_error *err)
{
	wire_entry e = entry_from(WIRE_ENTRY_FILE, at->path, &at->stat);
	AUTO_FD int fd = -1;
	CB_TRY(look_up(s, &e, &at->stat, err));
	if (e.known || !s->to->send) return emit(s, &e, -1, err);
	bool closed = s->owner_only && !(at->stat.mode & S_IRUSR);
	cb_error why;
	cb_code code = (closed ? file_read_closed : file_read)(s, at, &e, &fd, cb_err_aside(&why));
	if (code == CB_NOMEM) return cb_err_pass(err, code, &why);
	return code == CB_OK ? emit(s, &e, TAKE_FD(fd), err) : scan_unkept(s, at, why.message, err);
}

static cb_code scan_symlink(scan *s, const host_entry *at, cb_error *err)
{
	wire_entry e = entry_from(WIRE_ENTRY_SYMLINK, at->path, &at->stat);
	CB_TRY(look_up(s, &e, &at->stat, err));
	if (!e.known && s->to->send) {
		CB_TRY(host_link_read(at->dir, at->name, &s->target, err));
		e.data = buf_span(&s->target);
	}
	return emit(s, &e, -1, err);
}

static cb_code scan_special(scan *s, const host_entry *at, const char *what, cb_error *err)
{
	bool whiteout = s->to->layered && at->stat.type == HOST_DEVICE && at->stat.device == 0;
	wire_entry e = entry_from(whiteout ? WIRE_ENTRY_WHITEOUT : WIRE_ENTRY_SPECIAL, at->path, &at->stat);
	CB_TRY(look_up(s, &e, &at->stat, err));
	if (!whiteout) e.data = span_str(what);
	return emit(s, &e, -1, err);
}

/* "x" is also there: it says that whiteouts in it may be attributes, which is for overlays that stand on overlays. */
static bool is_opaque(const scan *s, int fd)
{
	char value[2];
	return s->to->layered && fgetxattr(fd, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

static cb_code scan_opened_dir(scan *s, int fd, const char *path, const host_stat *st, cb_error *err)
{
	wire_entry e = entry_from(WIRE_ENTRY_DIR, path, st);
	CB_TRY(look_up(s, &e, st, err));
	e.opaque = is_opaque(s, fd);
	if (!e.known && s->to->send) CB_TRY(xattrs_read(s, fd, &e, err));
	return emit(s, &e, -1, err);
}

/* As file_read_closed: the folder has its own mode again when the walk leaves it. */
static cb_code enter_denied(scan *s, host_walk *w, host_entry *at, cb_error *err)
{
	opened_dir o = {at->depth, at->stat.mode};
	CB_TRY(buf_reserve(&s->opened, sizeof(o), err));
	if (fchmodat(at->dir, at->name, o.mode | S_IRWXU, 0) != 0) return cb_err_errno(err, errno, "cannot enter '%s'", at->name);
	int dir = at->dir;
	cb_code code = host_walk_enter(w, at, err);
	if (code != CB_OK && fchmodat(dir, at->name, o.mode, 0) != 0)
		return cb_err_errno(err, errno, "cannot restore the mode of '%s'", at->name);
	if (code != CB_OK) return code;
	at->stat.mode = o.mode;
	return buf_append(&s->opened, &o, sizeof(o), err);
}

static cb_code leave(scan *s, const host_entry *at, cb_error *err)
{
	opened_dir o;
	if (s->opened.size == 0) return CB_OK;
	memcpy(&o, s->opened.bytes + s->opened.size - sizeof(o), sizeof(o));
	if (o.depth != at->depth) return CB_OK;
	s->opened.size -= sizeof(o);
	return host_mode_set(at->dir, o.mode, err);
}

static cb_code scan_dir(scan *s, host_walk *w, host_entry *at, cb_error *err)
{
	if (strlen(at->path) > PATH_BYTES) return scan_unkept(s, at, "a folder that is too deep", err);
	/* A folder that may be listed but not passed through is entered, and then nothing in it can be looked at. */
	bool passable = (at->stat.mode & S_IXUSR) || !s->owner_only;
	cb_error why;
	cb_code code = passable ? host_walk_enter(w, at, cb_err_aside(&why)) : CB_DENIED;
	if (code == CB_DENIED) code = enter_denied(s, w, at, cb_err_aside(&why));
	if (code == CB_NOMEM) return cb_err_pass(err, code, &why);
	if (code != CB_OK) return scan_unkept(s, at, code == CB_LIMIT ? "a folder that is too deep or too full" : why.message, err);
	return scan_opened_dir(s, at->dir, at->path, &at->stat, err);
}

/* ---- the tree ---- */

static bool is_system(const host_entry *e)
{
	return e->depth == 1 && e->event == HOST_ENTRY && plan_is_system_name(e->name, strlen(e->name));
}

static bool is_empty_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0) (void)close(fd);
	if (!d) return false;
	size_t count = 0;
	while (count <= 2 && readdir(d)) count++; /* "." and ".." */
	(void)closedir(d);
	return count <= 2;
}

/* For its mounts the sandbox has links, and folders that are empty below them. Anything else at a name of its own is a program's, and
 * can be in no box. */
static cb_code scan_system(scan *s, const host_entry *e, cb_error *err)
{
	bool unused = strcmp(e->name, "boot") == 0 || strcmp(e->name, "sys") == 0; /* no plan has them */
	bool whiteout = s->to->layered && e->stat.type == HOST_DEVICE && e->stat.device == 0;
	bool own = e->stat.type == HOST_SYMLINK || (e->stat.type == HOST_DIR && is_empty_dir(e->dir, e->name));
	return whiteout || (own && !unused) ? CB_OK : scan_unkept(s, e, "the name belongs to the sandbox", err);
}

static cb_code scan_entry(scan *s, host_walk *w, host_entry *e, cb_error *err)
{
	wire_entry end = {.type = WIRE_ENTRY_LEAVE, .path = e->path};
	if (e->event == HOST_LEAVE) CB_TRY(leave(s, e, err));
	if (e->event != HOST_ENTRY) return emit(s, &end, -1, err);
	if (is_system(e)) return scan_system(s, e, err);
	switch (e->stat.type) {
	case HOST_FILE:
		return scan_file(s, e, err);
	case HOST_DIR:
		return scan_dir(s, w, e, err);
	case HOST_SYMLINK:
		return scan_symlink(s, e, err);
	case HOST_FIFO:
	case HOST_SOCKET:
	case HOST_DEVICE:
		return scan_special(s, e, host_type_name(e->stat.type), err);
	}
	return cb_err_set(err, CB_INTERNAL, "a file of an unknown kind");
}

static cb_code scan_tree(scan *s, const host_root *root, cb_error *err)
{
	host_walk *w = NULL;
	host_entry e = {.event = HOST_ENTRY};
	cb_error why;
	cb_code code = host_walk_open(root, &w, cb_err_aside(&why));
	if (code == CB_LIMIT) {
		CB_TRY(scan_unkept(s, &(host_entry){.path = "", .stat = root->stat}, why.message, err));
		return s->to->send ? flush(s, err) : CB_OK;
	}
	(void)cb_err_pass(err, code, &why);
	if (code == CB_OK) code = scan_opened_dir(s, root->fd, "", &root->stat, err);
	while (code == CB_OK) {
		code = host_walk_next(w, &e, err);
		if (code != CB_OK) break;
		code = scan_entry(s, w, &e, err);
		if (code != CB_OK) code = cb_err_wrap(err, code, "looking at '%s'", e.path);
		if (e.event == HOST_END) break;
	}
	host_walk_close(w);
	if (code == CB_OK && s->to->send) code = flush(s, err);
	return code;
}

static int64_t coarse_now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &t); /* cannot fail: the clock exists */
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

cb_code scan_run(scanner *to, wire_scanned *out, cb_error *err)
{
	scan s = {
		.to = to,
		.packet = BUF_INIT(WIRE_PACKET_BYTES),
		.xattrs = BUF_INIT(WIRE_PACKET_BYTES),
		.target = BUF_INIT(LIMIT_SYMLINK_TARGET_BYTES + 1),
		.opened = BUF_INIT(sizeof(opened_dir) * (LIMIT_HOST_DEPTH + 1)),
		.owner_only = geteuid() != 0,
	};
	struct statfs fs;
	/* The pages of a tmpfs are mapped writable when they are first read, and nobody hears of a write then. */
	s.loose_files = fstatfs(to->changes, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
	host_root root = {.fd = to->changes};
	seen_begin(to->known, coarse_now());
	cb_code code = host_stat_fd(to->changes, &root.stat, err);
	if (code == CB_OK) code = scan_tree(&s, &root, err);
	seen_end(to->known);
	fds_close(&s);
	buf_done(&s.packet);
	buf_done(&s.xattrs);
	buf_done(&s.target);
	buf_done(&s.opened);
	if (code == CB_OK) *out = s.totals;
	return code;
}

void scan_keep(scanner *s)
{
	seen_keep(s->known);
}

cb_code scan_look(scanner *s, cb_error *err)
{
	wire_scanned totals;
	scanner quiet = *s;
	quiet.send = NULL;
	CB_TRY(scan_run(&quiet, &totals, err));
	seen_keep(s->known);
	return CB_OK;
}
