/*
 * remove.c: taking away what a box made.
 *
 * In its user namespace the holder may enter and change every folder of the box, whatever its mode. Without one (the weak sandbox) it
 * is only their owner, and gives itself the right first.
 *
 * Folders that are too deep or too full for a walk are emptied one by one: what is a folder in them moves up to the top of what is
 * being removed, and is met there by the next walk. So depth costs neither descriptors nor memory.
 */
#include "holder/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "host/host.h"

enum { READ_BYTES = 32 << 10, NAME_BYTES = LIMIT_NAME_BYTES + 1 };

typedef struct removal {
	host_root top;
	uint64_t moved; /* numbers the folders that were moved up */
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

/* ---- folders that a walk cannot take ---- */

static cb_code move_up(removal *r, int dir, const char *name, cb_error *err)
{
	for (;;) {
		char to[NAME_BYTES];
		(void)snprintf(to, sizeof(to), ".removed.%llu", (unsigned long long)r->moved++);
		if (renameat2(dir, name, r->top.fd, to, RENAME_NOREPLACE) == 0) return CB_OK;
		if (errno != EEXIST) return fail(err, name);
	}
}

static cb_code drain_entries(removal *r, int dir, const char *bytes, size_t size, cb_error *err)
{
	for (size_t at = 0; at < size;) {
		const struct dirent64 *d = (const struct dirent64 *)(const void *)(bytes + at);
		at += d->d_reclen;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
		if (unlink_one(dir, d->d_name, 0) == 0) continue;
		if (errno != EISDIR) return fail(err, d->d_name);
		if (unlink_one(dir, d->d_name, AT_REMOVEDIR) == 0) continue;
		if (errno != ENOTEMPTY && errno != EEXIST) return fail(err, d->d_name);
		if (dir != r->top.fd) CB_TRY(move_up(r, dir, d->d_name, err));
	}
	return CB_OK;
}

/* Everything in the folder but, at the top, folders that are not empty. */
static cb_code drain(removal *r, int dir, cb_error *err)
{
	AUTO_FREE char *bytes = mem_alloc_aligned(READ_BYTES);
	if (!bytes) return cb_err_nomem(err);
	if (lseek(dir, 0, SEEK_SET) != 0) return fail(err, ".");
	for (;;) {
		ssize_t n = getdents64(dir, bytes, READ_BYTES);
		if (n < 0) return fail(err, ".");
		if (n == 0) return CB_OK;
		CB_TRY(drain_entries(r, dir, bytes, (size_t)n, err));
	}
}

static cb_code drain_at(removal *r, int dir, const char *name, cb_error *err)
{
	AUTO_FD int fd = -1;
	CB_TRY(host_dir_open(dir, name, 0, &fd, NULL, err));
	CB_TRY(drain(r, fd, err));
	return unlink_one(dir, name, AT_REMOVEDIR) == 0 ? CB_OK : fail(err, name);
}

/* ---- the walk ---- */

static cb_code enter(removal *r, host_walk *w, host_entry *e, cb_error *err)
{
	if (unlink_one(e->dir, e->name, AT_REMOVEDIR) == 0) return CB_OK; /* it was empty */
	if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES) return fail(err, e->name);
	int dir = e->dir;
	/* Not a link: the walk looked, and nobody changes the tree. */
	bool closed = geteuid() != 0 && (e->stat.mode & S_IRWXU) != S_IRWXU;
	if (closed && fchmodat(dir, e->name, 0700, 0) != 0) return fail(err, e->name);
	cb_error why;
	cb_code code = host_walk_enter(w, e, cb_err_aside(&why));
	return code == CB_LIMIT ? drain_at(r, dir, e->name, err) : cb_err_pass(err, code, &why);
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

static cb_code remove_below(removal *r, cb_error *err)
{
	host_walk *w = NULL;
	host_entry e;
	cb_code code = host_walk_open(&r->top, &w, err);
	if (code == CB_LIMIT) {
		CB_TRY(drain(r, r->top.fd, err));
		code = host_walk_open(&r->top, &w, err);
	}
	while (code == CB_OK) {
		code = host_walk_next(w, &e, err);
		if (code != CB_OK || e.event == HOST_END) break;
		if (e.event == HOST_LEAVE) {
			if (unlink_left(&e) != 0) code = fail(err, e.name);
		} else if (e.stat.type == HOST_DIR) {
			code = enter(r, w, &e, err);
		} else if (unlink_one(e.dir, e.name, 0) != 0) {
			code = fail(err, e.name);
		}
	}
	host_walk_close(w);
	return code;
}

static cb_code remove_folder(int dir, const char *name, cb_error *err)
{
	removal r = {.top = {.fd = -1}};
	cb_error why;
	cb_code code = host_dir_open(dir, name, 0, &r.top.fd, &r.top.stat, cb_err_aside(&why));
	if (code == CB_DENIED && fchmodat(dir, name, 0700, 0) == 0)
		code = host_dir_open(dir, name, 0, &r.top.fd, &r.top.stat, cb_err_aside(&why));
	(void)cb_err_pass(err, code, &why);
	/* Each round takes everything but what was moved up in it, which is nearer to the top then. */
	while (code == CB_OK) {
		uint64_t before = r.moved;
		code = remove_below(&r, err);
		if (code != CB_OK || r.moved == before) break;
	}
	host_root_done(&r.top);
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
