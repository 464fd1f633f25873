/*
 * remove.c: taking away what a box made.
 *
 * In its user namespace the holder may enter and change every folder of the box, whatever its mode. Without one (the weak sandbox) it
 * is only their owner, and gives itself the right first.
 *
 * A walk goes down LIMIT_HOST_DEPTH levels. Where there are more, another begins in the middle of its way and empties that folder; then
 * the first is done again from where it began, and finds an end. So depth costs no descriptors, and a few bytes for a thousand levels.
 * Nothing is renamed: overlayfs renames no folder of a lower layer. What is wide where it is deep is walked a few times, not once for
 * each folder in it, because a walk begins a thousand levels above what it is for.
 */
#include "holder/tree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "host/host.h"

enum {
	READ_BYTES = 32 << 10,
	NAME_BYTES = LIMIT_NAME_BYTES + 1,
	MIDDLE = LIMIT_HOST_DEPTH / 4, /* of the shortest way that ends a walk: the names on it may be long */
};
static_assert(LIMIT_HOST_PATH_BYTES / NAME_BYTES > MIDDLE + 1, "a walk ends below the middle");

/* A folder that a walk began in, and how many levels below it the next one began. */
typedef struct beginning {
	uint64_t dev, ino;
	size_t levels;
} beginning;

typedef struct removal {
	host_root top;    /* where the walk begins */
	buf above;        /* beginnings */
	host_root deeper; /* where the next one must, for this one could not go on; fd -1: it came to its end */
	size_t levels;    /* how far below the top that is */
} removal;

static cb_code fail(cb_error *err, const char *name)
{
	int why = errno;
	cb_code code = cb_err_errno(err, why, "cannot remove '%s'", name);
	if (why == EBUSY) code = cb_err_set(err, CB_BUSY, "cannot remove '%s': something is mounted there", name);
	return code;
}

static int unlink_one(int dir, const char *name, int flags)
{
	if (unlinkat(dir, name, flags) == 0 || errno == ENOENT) return 0;
	if (errno != EACCES || fchmod(dir, 0700) != 0) return -1;
	return unlinkat(dir, name, flags);
}

/* ---- a folder with more names than a walk takes ---- */

static cb_code drain_entries(int dir, const char *bytes, size_t size, cb_error *err)
{
	for (size_t at = 0; at < size;) {
		const struct dirent64 *d = (const struct dirent64 *)(const void *)(bytes + at);
		at += d->d_reclen;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
		if (unlink_one(dir, d->d_name, 0) == 0) continue;
		if (errno != EISDIR) return fail(err, d->d_name);
		if (unlink_one(dir, d->d_name, AT_REMOVEDIR) == 0) continue;
		if (errno != ENOTEMPTY && errno != EEXIST) return fail(err, d->d_name);
	}
	return CB_OK;
}

/* Everything in the folder but folders that are not empty. */
static cb_code drain(int dir, cb_error *err)
{
	AUTO_FREE char *bytes = mem_alloc_aligned(READ_BYTES);
	if (!bytes) return cb_err_nomem(err);
	if (lseek(dir, 0, SEEK_SET) != 0) return fail(err, ".");
	for (;;) {
		ssize_t n = getdents64(dir, bytes, READ_BYTES);
		if (n < 0) return fail(err, ".");
		if (n == 0) return CB_OK;
		CB_TRY(drain_entries(dir, bytes, (size_t)n, err));
	}
}

/* ---- the walk ---- */

static cb_code dup_root(int dir, host_root *out, cb_error *err)
{
	host_root_done(out);
	out->fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	if (out->fd < 0) return fail(err, ".");
	return host_stat_fd(out->fd, &out->stat, err);
}

/* A folder that is not empty. middle becomes the one that the walk is in at that depth. */
static cb_code enter(removal *r, host_walk *w, host_entry *e, host_root *middle, cb_error *err)
{
	/* Not a link: the walk looked, and nobody changes the tree. */
	bool closed = geteuid() != 0 && (e->stat.mode & S_IRWXU) != S_IRWXU;
	if (closed && fchmodat(e->dir, e->name, 0700, 0) != 0) return fail(err, e->name);
	cb_error why;
	cb_code code = host_walk_enter(w, e, cb_err_aside(&why));
	if (code == CB_OK && e->depth == MIDDLE) return dup_root(e->dir, middle, err);
	if (code != CB_LIMIT) return cb_err_pass(err, code, &why);
	r->levels = e->depth > MIDDLE ? MIDDLE : e->depth;
	if (e->depth <= MIDDLE) return host_dir_open(e->dir, e->name, 0, &r->deeper.fd, &r->deeper.stat, err);
	r->deeper = *middle;
	middle->fd = -1;
	return CB_OK;
}

/* The folder that the walk is about to leave, from within: the one above is open only afterwards. */
static int unlink_left(const host_entry *e)
{
	char up[NAME_BYTES + 3];
	(void)snprintf(up, sizeof(up), "../%s", e->name);
	if (unlinkat(e->dir, up, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
	if (errno != EACCES || fchmodat(e->dir, "..", 0700, 0) != 0) return -1;
	return unlinkat(e->dir, up, AT_REMOVEDIR);
}

static cb_code remove_entry(removal *r, host_walk *w, host_entry *e, host_root *middle, cb_error *err)
{
	bool folder = e->stat.type == HOST_DIR;
	if (e->event == HOST_LEAVE) return unlink_left(e) == 0 ? CB_OK : fail(err, e->name);
	if (unlink_one(e->dir, e->name, folder ? AT_REMOVEDIR : 0) == 0) return CB_OK;
	if (!folder || (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES)) return fail(err, e->name);
	return enter(r, w, e, middle, err);
}

/* All that is in the top, or as far as the walk goes. */
static cb_code remove_below(removal *r, cb_error *err)
{
	host_walk *w = NULL;
	host_entry e;
	host_root middle = {.fd = -1};
	cb_code code = host_walk_open(&r->top, &w, err);
	if (code == CB_LIMIT) {
		CB_TRY(drain(r->top.fd, err));
		code = host_walk_open(&r->top, &w, err);
	}
	while (code == CB_OK && r->deeper.fd < 0) {
		code = host_walk_next(w, &e, err);
		if (code != CB_OK || e.event == HOST_END) break;
		code = remove_entry(r, w, &e, &middle, err);
	}
	host_walk_close(w);
	host_root_done(&middle);
	return code;
}

static cb_code go_down(removal *r, cb_error *err)
{
	beginning b = {r->top.stat.dev, r->top.stat.ino, r->levels};
	CB_TRY(buf_append(&r->above, &b, sizeof(b), err));
	host_root_done(&r->top);
	r->top = r->deeper;
	r->deeper.fd = -1;
	return CB_OK;
}

static cb_code go_up(removal *r, cb_error *err)
{
	beginning b;
	r->above.size -= sizeof(b);
	memcpy(&b, r->above.bytes + r->above.size, sizeof(b));
	for (; b.levels; b.levels--) {
		int fd = openat(r->top.fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0) return fail(err, "..");
		host_root_done(&r->top);
		r->top.fd = fd;
	}
	CB_TRY(host_stat_fd(r->top.fd, &r->top.stat, err));
	if (r->top.stat.dev == b.dev && r->top.stat.ino == b.ino) return CB_OK;
	return cb_err_set(err, CB_BUSY, "a folder was moved meanwhile: try again");
}

static cb_code remove_folder(int dir, const char *name, cb_error *err)
{
	removal r = {.top = {.fd = -1}, .above = BUF_INIT(SIZE_MAX), .deeper = {.fd = -1}};
	cb_error why;
	cb_code code = host_dir_open(dir, name, 0, &r.top.fd, &r.top.stat, cb_err_aside(&why));
	if (code == CB_DENIED && fchmodat(dir, name, 0700, 0) == 0)
		code = host_dir_open(dir, name, 0, &r.top.fd, &r.top.stat, cb_err_aside(&why));
	(void)cb_err_pass(err, code, &why);
	while (code == CB_OK) {
		code = remove_below(&r, err);
		bool ends = r.deeper.fd < 0;
		if (code != CB_OK || (ends && r.above.size == 0)) break;
		code = ends ? go_up(&r, err) : go_down(&r, err);
	}
	host_root_done(&r.top);
	host_root_done(&r.deeper);
	buf_done(&r.above);
	if (code == CB_OK && unlink_one(dir, name, AT_REMOVEDIR) != 0) code = fail(err, name);
	return code;
}

cb_code folder_remove(int dir, const char *name, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	if (unlink_one(dir, name, 0) == 0) return CB_OK;
	if (errno != EISDIR && errno != EPERM) return fail(err, name);
	if (unlink_one(dir, name, AT_REMOVEDIR) == 0) return CB_OK;
	if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES) return fail(err, name);
	return remove_folder(dir, name, err);
}

cb_code area_remove(int area, const char *name, cb_error *err)
{
	return folder_remove(area, name, err);
}
