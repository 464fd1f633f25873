/*
 * import_file.c: the bytes and attributes of one file of the host (pen_data does the comparing).
 *
 * Adversary: a file that is written while it is read. It is looked at before and after; when the two differ it is read again, and given
 * up after READ_TRIES.
 */
#include "transfer/import.h"

#include <errno.h>
#include <time.h>

enum {
	READ_TRIES = 8,
	REST_MS = 5, /* between two tries, growing */
};

/* ---- attributes ---- */

static cb_code add_attribute(void *context, const char *name, span value, cb_error *err)
{
	return host_xattr_is_overlay(name) ? CB_OK : pen_attribute_add(context, name, value, err);
}

static cb_code attributes_sync(importing *im, int fd, const box_node *node, bool fresh, bool *changed, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(host_xattr_list(fd, add_attribute, &rows, err));
	return pen_attributes(im->e, node->ino, buf_span(&rows), fresh, changed, err);
}

cb_code import_attributes(importing *im, int fd, const host_stat *stat, box_node *node, bool fresh, bool *changed, cb_error *err)
{
	uint32_t mode = stat->mode & (stat->type == HOST_DIR ? 01777 : 0777);
	if (fd >= 0) CB_TRY(attributes_sync(im, fd, node, fresh, changed, err));
	if (stat->type != HOST_SYMLINK && node->mode != mode) *changed = true;
	if (node->mtime_ns != stat->mtime_ns) *changed = true;
	if (!*changed && !fresh) return CB_OK;
	if (stat->type != HOST_SYMLINK) node->mode = mode;
	node->mtime_ns = stat->mtime_ns;
	node->atime_ns = stat->atime_ns;
	return pen_save(im->e, node, true, err);
}

/* ---- one file ---- */

typedef struct reading {
	importing *im;
	const char *path;
} reading;

static cb_code read_progress(void *context, uint64_t bytes, cb_error *err)
{
	reading *r = context;
	return import_progress(r->im, r->path, bytes, err);
}

static cb_code read_once(importing *im, const host_entry *e, int fd, const host_stat *stat, box_node *node, bool fresh, bool *rests,
                         bool *changed, cb_error *err)
{
	reading now = {im, e->path};
	pen_file f = {fd, stat->size, stat->allocated_bytes, read_progress, &now, host_data_next};
	CB_TRY(pen_data(im->e, &f, node, fresh, rests, changed, err));
	if (!*rests) return CB_OK;
	CB_TRY(import_attributes(im, fd, stat, node, fresh, changed, err));
	host_stat after;
	CB_TRY(host_stat_fd(fd, &after, err));
	*rests = host_stat_same(stat, &after);
	return CB_OK;
}

cb_code import_file_content(importing *im, const host_entry *e, uint64_t parent, span name, const box_node *there, box_node *out,
                            host_stat *out_stat, bool *changed, cb_error *err)
{
	AUTO_FD int fd = -1;
	host_stat stat;
	CB_TRY(host_file_open(e->dir, e->name, &fd, &stat, err));
	bool fresh = !there;
	if (fresh) CB_TRY(pen_make(im->e, parent, name, CB_FILE, 0644, out, err));
	else *out = *there;
	*changed = fresh;
	for (int i = 1;; i++) {
		bool rests = false;
		CB_TRY(read_once(im, e, fd, &stat, out, fresh && i == 1, &rests, changed, err));
		if (rests) break;
		if (i == READ_TRIES)
			return cb_err_set(err, CB_BUSY, "'%s' changes while it is read: try again later", import_name(e->path));
		struct timespec pause = {.tv_nsec = (long)REST_MS * i * 1000000};
		(void)nanosleep(&pause, NULL);
		CB_TRY(host_stat_fd(fd, &stat, err));
	}
	*out_stat = stat;
	return CB_OK;
}
