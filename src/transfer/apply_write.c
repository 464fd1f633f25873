/*
 * apply_write.c: the only part of apply that changes the host.
 *
 * Adversary: whoever changes the folder meanwhile, the user's editor first of all. Each thing is made whole beside its place; where
 * something is to be replaced the two are exchanged in one system call, and what came out is compared with what the plan saw: if it is
 * something else, they are exchanged back and the path is told as changed. So at any moment a path has its old or its new content, and
 * nothing that the plan did not see is lost. Every step is in an open folder that was reached without following a link.
 */
#include "transfer/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/entry.h"
#include "base/io.h"
#include "transfer/guard.h"

typedef struct spot {
	unsigned era; /* (entry.h): a child of fork() removes nothing */
	int dir;
	const char *name; /* in dir */
	char temporary[40];
	bool temporary_made;
} spot;

static void spot_done(spot *s)
{
	if (s->temporary_made && s->era == entry_era() && unlinkat(s->dir, s->temporary, 0) != 0 &&
	    (errno == EISDIR || errno == EPERM))
		(void)unlinkat(s->dir, s->temporary, AT_REMOVEDIR);
	if (s->dir >= 0) (void)close(s->dir);
}

/* CB_BUSY is this file's word for: the host changed since the plan was made. */
static cb_code moved(cb_error *err)
{
	return cb_err_set(err, CB_BUSY, "it changed on the host meanwhile");
}

static cb_code spot_open(const applying *a, const apply_row *row, bool make, spot *out, cb_error *err)
{
	uint64_t random = 0;
	*out = (spot){.era = entry_era(), .dir = -1};
	CB_TRY(host_parent_open(a->root.fd, row->path, HOST_XDEV | (make ? HOST_MAKE : 0), &out->dir, &out->name, err));
	/* The plan has nothing that lies there: somebody moved the folder. */
	if (guard_folder(a->store, out->dir, "apply", NULL) != CB_OK) return moved(err);
	while (getrandom(&random, sizeof(random), 0) < 0 && errno == EINTR) {
	}
	(void)snprintf(out->temporary, sizeof(out->temporary), "%s%016llx", APPLY_TEMPORARY_PREFIX, (unsigned long long)random);
	return CB_OK;
}

static cb_code system_error(int why, const char *what, cb_error *err)
{
	return cb_err_errno(err, why, "%s", what);
}

/* ---- placing ---- */

/* A rename may change the time of change itself; the rest tells. */
static bool is_what_was_seen(const apply_row *row, const host_stat *out)
{
	const host_stat *seen = &row->host;
	if (out->dev != seen->dev || out->ino != seen->ino || out->type != seen->type) return false;
	return seen->type == HOST_DIR || (out->size == seen->size && out->mtime_ns == seen->mtime_ns && out->mode == seen->mode);
}

static cb_code still_as_planned(const apply_row *row, const spot *s, cb_error *err)
{
	host_stat now;
	cb_error why;
	cb_code code = host_stat_at(s->dir, s->name, &now, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return row->host_there ? moved(err) : CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	if (!row->host_there) return moved(err);
	/* A folder changes when the plan removes what is in it, and so does a file when another name of it goes. */
	bool loose = row->host.type == HOST_DIR || row->host.links > 1;
	return (loose ? is_what_was_seen(row, &now) : host_stat_same(&now, &row->host)) ? CB_OK : moved(err);
}

static bool not_known(int why)
{
	return why == EINVAL || why == ENOSYS || why == EOPNOTSUPP;
}

/* Where the filesystem cannot exchange: the look was a moment ago. */
static cb_code place_over(spot *s, cb_error *err)
{
	if (renameat(s->dir, s->temporary, s->dir, s->name) != 0) return system_error(errno, "replacing it", err);
	s->temporary_made = false;
	return CB_OK;
}

/* What was ours is made whole again beside the place, unless somebody replaced even that meanwhile: then theirs is the newest. */
static cb_code exchange_back(spot *s, const host_stat *ours, cb_error *err)
{
	host_stat out;
	int why = renameat2(s->dir, s->temporary, s->dir, s->name, RENAME_EXCHANGE) == 0 ? 0 : errno;
	if (why == 0 && host_stat_at(s->dir, s->temporary, &out, NULL) == CB_OK && (out.dev != ours->dev || out.ino != ours->ino))
		why = renameat2(s->dir, s->temporary, s->dir, s->name, RENAME_EXCHANGE) == 0 ? 0 : errno;
	if (why == 0) return moved(err);
	s->temporary_made = false; /* it is the host's now, not ours to remove */
	return cb_err_errno(err, why, "it changed on the host meanwhile and is kept as '%s' beside its place", s->temporary);
}

static cb_code place_new(spot *s, cb_error *err)
{
	if (renameat2(s->dir, s->temporary, s->dir, s->name, RENAME_NOREPLACE) == 0) {
		s->temporary_made = false;
		return CB_OK;
	}
	if (errno == EEXIST) return moved(err);
	return not_known(errno) ? place_over(s, err) : system_error(errno, "putting it into its place", err);
}

/* The temporary thing takes the place of what the plan saw there. */
static cb_code place(const apply_row *row, spot *s, cb_error *err)
{
	host_stat ours, out;
	CB_TRY(host_stat_at(s->dir, s->temporary, &ours, err));
	CB_TRY(still_as_planned(row, s, err));
	if (!row->host_there) return place_new(s, err);
	if (renameat2(s->dir, s->temporary, s->dir, s->name, RENAME_EXCHANGE) != 0) {
		if (errno == ENOENT) return moved(err);
		return not_known(errno) && row->host.type != HOST_DIR ? place_over(s, err)
		                                                      : system_error(errno, "replacing it", err);
	}
	cb_code code = host_stat_at(s->dir, s->temporary, &out, err);
	if (code != CB_OK || !is_what_was_seen(row, &out)) return exchange_back(s, &ours, err);
	bool dir = out.type == HOST_DIR;
	if (unlinkat(s->dir, s->temporary, dir ? AT_REMOVEDIR : 0) != 0) return exchange_back(s, &ours, err);
	s->temporary_made = false;
	return CB_OK;
}

/* ---- making ---- */

static cb_code copy_range(applying *a, const box_node *r, int fd, uint64_t at, uint64_t end, cb_error *err)
{
	const cb_transfer_watch *w = a->options->watch;
	while (at < end) {
		CB_TRY(cancel_check(err));
		size_t n = end - at < APPLY_CHUNK_BYTES ? (size_t)(end - at) : APPLY_CHUNK_BYTES;
		CB_TRY(look_read(a->now_look, r, at, a->chunk, n, err));
		CB_TRY(io_pwrite_all(fd, a->chunk, n, at, err));
		at += n;
		a->bytes_done += n;
		cb_progress p = CB_WITH(cb_progress, .path = "", .files = a->result.written, .bytes = a->bytes_done);
		bool on = !w->progress || w->progress(w->context, &p);
		CB_TRY(entry_stays(a->era, err));
		if (!on) return cb_err_set(err, CB_INTERRUPTED, "apply was ended: the same call goes on");
	}
	return CB_OK;
}

static cb_code copy_content(applying *a, const box_node *r, int fd, cb_error *err)
{
	uint64_t at = 0;
	while (at < r->size) {
		uint64_t start = 0, end = 0;
		cb_error why;
		cb_code code = look_seek(a->now_look, r, at, false, &start, cb_err_aside(&why));
		if (code == CB_NOTFOUND) break;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		CB_TRY(look_seek(a->now_look, r, start, true, &end, err));
		CB_TRY(copy_range(a, r, fd, start, end, err));
		at = end;
	}
	if (io_size_set(fd, r->size) != 0) return system_error(errno, "setting its size", err);
	return CB_OK;
}

static cb_code put_xattr(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	if (!host_xattr_is_ours(span_str(name))) return CB_OK;
	cb_code code = host_xattr_set(*(const int *)context, name, span_make(value ? value : "", size), err);
	/* A filesystem without attributes, or without room for them, gets the file all the same. */
	return code == CB_UNSUPPORTED || code == CB_NOSPACE || code == CB_DENIED ? CB_OK : code;
}

/* A file with several names that was written under another one of them a moment ago. */
static bool link_to_written(const applying *a, const apply_row *row, spot *s)
{
	size_t count;
	const apply_row *rows = apply_rows(a, &count);
	if (row->box.node.links < 2) return false;
	for (const apply_row *r = rows; r < row; r++) {
		if (!r->done || !r->written_ino || !r->box.there || r->box.node.ino != row->box.node.ino) continue;
		AUTO_FD int dir = -1;
		const char *name = NULL;
		host_stat st;
		if (host_parent_open(a->root.fd, r->path, HOST_XDEV, &dir, &name, NULL) != CB_OK) return false;
		if (linkat(dir, name, s->dir, s->temporary, 0) != 0) return false;
		s->temporary_made = true;
		if (host_stat_at(s->dir, s->temporary, &st, NULL) == CB_OK && st.ino == r->written_ino && st.type == HOST_FILE)
			return true;
		(void)unlinkat(s->dir, s->temporary, 0); /* somebody put another there */
		s->temporary_made = false;
		return false;
	}
	return false;
}

static cb_code make_file(applying *a, apply_row *row, spot *s, cb_error *err)
{
	host_stat made;
	if (link_to_written(a, row, s)) return CB_OK;
	char path[LIMIT_PATH_BYTES];
	AUTO_FD int fd = io_open_at(s->dir, s->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0) return system_error(errno, "writing beside it", err);
	s->temporary_made = true;
	CB_TRY(host_stat_fd(fd, &made, err));
	row->written_ino = made.ino;
	CB_TRY(copy_content(a, &row->box.node, fd, err));
	CB_TRY(apply_box_path(a, row->path, path, err));
	CB_TRY(cb_xattr_list(a->now, path, CB_NOFOLLOW, put_xattr, &fd, err));
	CB_TRY(host_mode_set(fd, row->box.mode & 0777, err));
	return host_times_set(fd, HOST_TIME_OMIT, row->box.node.mtime_ns, err);
}

static cb_code make_link(const apply_row *row, spot *s, cb_error *err)
{
	if (symlinkat(row->target, s->dir, s->temporary) != 0) return system_error(errno, "making the link beside its place", err);
	s->temporary_made = true;
	(void)host_times_set_at(s->dir, s->temporary, HOST_TIME_OMIT, row->box.node.mtime_ns, NULL);
	return CB_OK;
}

/* A folder's own setuid and setgid bits are the host's business: new ones inherit, old ones keep them. */
static cb_code set_folder_mode(int fd, uint32_t mode, cb_error *err)
{
	host_stat now;
	CB_TRY(host_stat_fd(fd, &now, err));
	return host_mode_set(fd, (mode & 01777) | (now.mode & 06000), err);
}

static cb_code make_folder(const apply_row *row, spot *s, cb_error *err)
{
	AUTO_FD int fd = -1;
	if (mkdirat(s->dir, s->temporary, 0700) != 0) return system_error(errno, "making the folder", err);
	s->temporary_made = true;
	CB_TRY(host_dir_open(s->dir, s->temporary, 0, &fd, NULL, err));
	return set_folder_mode(fd, row->box.mode, err);
}

/* ---- one row ---- */

static cb_code change_mode(const apply_row *row, const spot *s, cb_error *err)
{
	AUTO_FD int fd = -1;
	host_stat now;
	bool dir = row->host.type == HOST_DIR;
	CB_TRY(still_as_planned(row, s, err));
	cb_code code =
		dir ? host_dir_open(s->dir, s->name, HOST_XDEV, &fd, &now, err) : host_file_open(s->dir, s->name, &fd, &now, err);
	if (code == CB_LOOP || code == CB_NOTDIR || code == CB_INVALID || code == CB_NOTFOUND) return moved(err);
	if (code != CB_OK) return code;
	if (now.dev != row->host.dev || now.ino != row->host.ino) return moved(err);
	return dir ? set_folder_mode(fd, row->box.mode, err) : host_mode_set(fd, (row->box.mode & 0777) | (now.mode & 07000), err);
}

static bool is_mode_only(const apply_row *row)
{
	if (!row->host_there) return false;
	if (row->box.type == CB_DIR) return row->host.type == HOST_DIR;
	return row->status == CB_APPLY_WRITE && row->box.type == CB_FILE && row->host.type == HOST_FILE && row->same_data;
}

static cb_code write_row(applying *a, apply_row *row, spot *s, cb_error *err)
{
	if (is_mode_only(row)) return change_mode(row, s, err);
	switch (row->box.type) {
	case CB_DIR:
		CB_TRY(make_folder(row, s, err));
		break;
	case CB_SYMLINK:
		CB_TRY(make_link(row, s, err));
		break;
	case CB_FILE:
		CB_TRY(make_file(a, row, s, err));
		break;
	}
	return place(row, s, err);
}

static cb_code remove_file(const apply_row *row, spot *s, cb_error *err)
{
	host_stat out;
	if (renameat2(s->dir, s->name, s->dir, s->temporary, RENAME_NOREPLACE) != 0) {
		if (errno == ENOENT) return moved(err);
		if (!not_known(errno)) return system_error(errno, "removing it", err);
		return host_file_remove(s->dir, s->name, err);
	}
	CB_TRY(host_stat_at(s->dir, s->temporary, &out, err));
	if (is_what_was_seen(row, &out)) {
		s->temporary_made = true; /* and removed with the spot */
		return CB_OK;
	}
	if (renameat2(s->dir, s->temporary, s->dir, s->name, RENAME_NOREPLACE) == 0) return moved(err);
	return cb_err_set(err, CB_BUSY, "it changed on the host meanwhile and is kept as '%s' beside its place", s->temporary);
}

static cb_code remove_row(applying *a, const apply_row *row, spot *s, cb_error *err)
{
	if (!row->host_there) return CB_OK;
	CB_TRY(still_as_planned(row, s, err));
	if (row->host.type != HOST_DIR) return remove_file(row, s, err);
	cb_code code = host_dir_remove(s->dir, s->name, err);
	(void)a;
	return code == CB_NOTEMPTY || code == CB_NOTFOUND || code == CB_NOTDIR ? moved(err) : code;
}

/* ---- all rows ---- */

static bool is_to_do(const applying *a, const apply_row *row)
{
	return row->status == CB_APPLY_WRITE || (row->status == CB_APPLY_CHANGED && a->options->force && !row->cannot_force);
}

static cb_code do_row(applying *a, apply_row *row, cb_error *err)
{
	ATTR_CLEANUP(spot_done) spot s = {.dir = -1};
	bool removal = !row->box.there;
	cb_error why;
	cb_code code = spot_open(a, row, !removal, &s, cb_err_aside(&why));
	/* Somebody took the folder away, or put a link in its place. */
	if (code == CB_NOTFOUND && removal) code = CB_OK;
	else if (code == CB_NOTFOUND || code == CB_LOOP || code == CB_NOTDIR) code = moved(err);
	else if (code != CB_OK) (void)cb_err_pass(err, code, &why);
	else code = removal ? remove_row(a, row, &s, err) : write_row(a, row, &s, err);
	if (code == CB_OK) {
		row->done = true;
		if (removal) a->result.removed++;
		else a->result.written++;
		return CB_OK;
	}
	if (code != CB_BUSY) return cb_err_wrap(err, code, "writing '%s'", row->path);
	row->status = CB_APPLY_CHANGED;
	row->why = "it changed on the host meanwhile";
	return CB_OK;
}

cb_code apply_write(applying *a, cb_error *err)
{
	size_t count;
	apply_row *rows = apply_rows(a, &count);
	/* What goes, from the deepest on; then what comes, parents first. */
	for (size_t i = count; i > 0; i--)
		if (!rows[i - 1].box.there && is_to_do(a, &rows[i - 1])) CB_TRY(do_row(a, &rows[i - 1], err));
	for (size_t i = 0; i < count; i++)
		if (rows[i].box.there && is_to_do(a, &rows[i])) CB_TRY(do_row(a, &rows[i], err));
	/* One flush for all: the box still has everything until the base says that the host has it too. */
	(void)syncfs(a->root.fd);
	for (size_t i = 0; i < count; i++)
		if (!rows[i].done && rows[i].status == CB_APPLY_CHANGED)
			return cb_err_set(err, CB_CONFLICT, "'%s': %s; the rest was written", rows[i].path, rows[i].why);
	return CB_OK;
}

/* ---- leftovers ---- */

static bool is_temporary(const char *name)
{
	size_t n = sizeof(APPLY_TEMPORARY_PREFIX) - 1;
	return strncmp(name, APPLY_TEMPORARY_PREFIX, n) == 0 && strlen(name) == n + 16 &&
	       strspn(name + n, "0123456789abcdef") == 16;
}

cb_code apply_sweep(applying *a, cb_error *err)
{
	host_walk *w = NULL;
	CB_TRY(host_walk_open(&a->root, &w, err));
	cb_code code = CB_OK;
	while (code == CB_OK) {
		host_entry e;
		code = host_walk_next(w, &e, err);
		if (code != CB_OK || e.event == HOST_END) break;
		if (e.event != HOST_ENTRY) continue;
		bool dir = e.stat.type == HOST_DIR;
		/* Best effort: one that cannot be removed does no harm. */
		if (is_temporary(e.name)) (void)unlinkat(e.dir, e.name, dir ? AT_REMOVEDIR : 0);
		else if (dir && !guard_is_store(a->store, &e.stat)) (void)host_walk_enter(w, &e, NULL);
	}
	host_walk_close(w);
	return code;
}
