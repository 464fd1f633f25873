/*
 * tar_read.c: a tar stream into a box, as one transaction: all of it or nothing.
 *
 * Adversary: whoever made the archive. Names are taken apart here: an absolute one or one with ".." refuses the whole import, and no
 * member is placed by way of a symbolic link, whether the archive or the box brought it. What stands at a member's place is replaced as
 * tar does: a file or link by anything, an empty folder by anything, a folder with something in it only by a folder. What is so already
 * stays as it is: the same stream again changes nothing.
 */
#include <cowbox/cowbox.h>

#include <stdio.h>

#include "base/args.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/id_set.h"
#include "base/sized.h"
#include "box/box.h"
#include "box/pen.h"
#include "host/host.h"
#include "transfer/tar.h"
#include "transfer/watch.h"

enum { CHUNK_BYTES = 1 << 20, SMALL_FILE_BYTES = 64 << 10, DRAIN_BYTES = 1 << 20 };

/* Folders get their times when everything is in them. */
typedef struct folder_time {
	int64_t mtime_ns;
	uint32_t path_size; /* the path follows, with its NUL */
} folder_time;

typedef struct importing {
	unsigned era; /* (entry.h) in which it began */
	cb_box *b;
	const cb_tar_options *options;
	tar_reader reader;
	cb_transfer_count count;
	ignore *exclude; /* NULL: nothing is left out */
	buf folders;
	id_set kept;    /* files with several names that stand for a member already: they cannot stand for another one too */
	uint8_t *chunk; /* of the stream, */
	uint8_t *old;   /* and of the box, to compare */
	char to[LIMIT_PATH_BYTES]; /* without a '/' at its end; "" is the root */
	size_t to_size;
	char path[LIMIT_PATH_BYTES];   /* of the member at hand, in the box */
	char parent[LIMIT_PATH_BYTES]; /* known to be a folder reached through folders only; "" none */
} importing;

static void note(importing *i, const char *path, const char *what)
{
	if (i->options->watch->note) i->options->watch->note(i->options->watch->context, path, what);
}

static cb_code progress(const importing *i, const char *path, cb_error *err)
{
	CB_TRY(cancel_check(err));
	CB_TRY(entry_stays(i->era, err)); /* a note was told since */
	const cb_transfer_watch *w = i->options->watch;
	cb_progress p = CB_WITH(cb_progress, .path = path,
	                        .files = i->count.files + i->count.folders + i->count.symlinks + i->count.unchanged,
	                        .bytes = i->count.bytes);
	bool on = !w->progress || w->progress(w->context, &p);
	CB_TRY(entry_stays(i->era, err));
	if (on) return CB_OK;
	return cb_err_set(err, CB_INTERRUPTED, "the import was ended");
}

/* ---- places ---- */

static cb_code refuse(const char *name, const char *why, cb_error *err)
{
	return cb_err_set(err, CB_DENIED, "member '%s' %s: nothing was imported", name, why);
}

static cb_code too_long(cb_error *err)
{
	return cb_err_set(err, CB_NAMETOOLONG, "a member's path has more than %d bytes", LIMIT_PATH_BYTES - 1);
}

/* The place of a name of the archive in the box; "." is the target folder itself. */
static cb_code member_path(const importing *i, const char *name, char out[LIMIT_PATH_BYTES], cb_error *err)
{
	size_t n = i->to_size;
	memcpy(out, i->to, n);
	if (name[0] == '/') return refuse(name, "has an absolute name", err);
	for (const char *p = name; *p;) {
		size_t size = strcspn(p, "/");
		if (size == 2 && memcmp(p, "..", 2) == 0) return refuse(name, "has '..' in its name", err);
		if (size > 1 || (size == 1 && p[0] != '.')) {
			if (n + size + 2 > LIMIT_PATH_BYTES) return too_long(err);
			out[n++] = '/';
			memcpy(out + n, p, size);
			n += size;
		}
		p += size;
		while (*p == '/') p++;
	}
	if (n == 0) out[n++] = '/';
	out[n] = 0;
	return CB_OK;
}

static cb_code lookup(importing *i, const char *path, cb_stat_info *info, bool *found, cb_error *err)
{
	cb_error why;
	cb_code code = cb_stat(i->b, path, CB_NOFOLLOW, info, cb_err_aside(&why));
	*found = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : cb_err_pass(err, code, &why);
}

/* One folder on the way to a member: there, made, or refused. */
static cb_code pass_folder(importing *i, const char *path, const char *name, bool make, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	bool found;
	CB_TRY(lookup(i, path, &info, &found, err));
	if (!found && make) return cb_mkdir(i->b, path, 0755, 0, err);
	if (!found) return cb_err_set(err, CB_CORRUPT, "the archive is damaged: a hard link to '%s', which is not there", name);
	if (info.type == CB_SYMLINK) return refuse(name, "lies below a symbolic link", err);
	if (info.type != CB_DIR)
		return cb_err_set(err, CB_NOTDIR, "member '%s' lies below a file: remove '%s' from the box first", name, path);
	return CB_OK;
}

/* How much of the path leads to folders that the last one passed too. */
static size_t passed_before(const char *last, const char *path)
{
	size_t at = 0, passed = 0;
	for (; last[at] && last[at] == path[at]; at++)
		if (path[at] == '/') passed = at;
	return !last[at] && path[at] == '/' ? at : passed;
}

/* Every folder between the target and the path, which is that of `name`. */
static cb_code pass_parents(importing *i, const char *path, const char *name, bool make, cb_error *err)
{
	const char *last = strrchr(path, '/');
	size_t parent_size = (size_t)(last - path);
	if (parent_size <= i->to_size) return CB_OK;
	if (strlen(i->parent) == parent_size && memcmp(i->parent, path, parent_size) == 0) return CB_OK;
	char part[LIMIT_PATH_BYTES];
	size_t passed = passed_before(i->parent, path);
	for (size_t at = i->to_size + 1; at <= parent_size; at++) {
		if (path[at] != '/' || at <= passed) continue;
		memcpy(part, path, at);
		part[at] = 0;
		CB_TRY(pass_folder(i, part, name, make, err));
	}
	memcpy(i->parent, path, parent_size);
	i->parent[parent_size] = 0;
	return CB_OK;
}

/* Takes away what stands at i->path. */
static cb_code make_room(importing *i, const char *name, const cb_stat_info *info, cb_error *err)
{
	if (info->type != CB_DIR) return cb_unlink(i->b, i->path, err);
	if (strlen(i->path) <= i->to_size || i->path[1] == 0)
		return cb_err_set(err, CB_EXISTS, "member '%s' would take the place of the target folder", name);
	i->parent[0] = 0;
	cb_code code = cb_rmdir(i->b, i->path, err);
	if (code != CB_NOTEMPTY) return code;
	return cb_err_set(err, CB_EXISTS, "member '%s' would replace a folder with something in it: remove '%s' from the box first",
	                  name, i->path);
}

/* ---- attributes ---- */

typedef struct old_names {
	buf names; /* NUL-terminated */
} old_names;

static cb_code collect_name(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)value;
	(void)size;
	old_names *old = context;
	if (!host_xattr_is_ours(span_str(name))) return CB_OK;
	return buf_append(&old->names, name, strlen(name) + 1, err);
}

static cb_code drop_xattrs(importing *i, cb_error *err)
{
	old_names old = {BUF_INIT(SIZE_MAX)};
	cb_code code = cb_xattr_list(i->b, i->path, CB_NOFOLLOW, collect_name, &old, err);
	for (size_t at = 0; code == CB_OK && at < old.names.size;) {
		const char *name = (const char *)old.names.bytes + at;
		code = cb_xattr_remove(i->b, i->path, name, CB_NOFOLLOW, err);
		at += strlen(name) + 1;
	}
	buf_done(&old.names);
	return code;
}

static void xattr_next(reader *r, char name[LIMIT_NAME_BYTES + 1], span *value)
{
	size_t name_size = (size_t)reader_varint(r), value_size = (size_t)reader_varint(r);
	span text = reader_span(r, name_size);
	*value = reader_span(r, value_size);
	memcpy(name, text.bytes, text.size);
	name[text.size] = 0;
}

static cb_code count_name(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)value;
	(void)size;
	(void)err;
	*(size_t *)context += strncmp(name, "user.", 5) == 0;
	return CB_OK;
}

/* Has what is at i->path the member's attributes, and (all) no others of the user's? */
static cb_code has_xattrs(importing *i, const tar_member *m, bool all, bool *out, cb_error *err)
{
	size_t left = 0;
	CB_TRY(cb_xattr_list(i->b, i->path, CB_NOFOLLOW, count_name, &left, err));
	*out = true;
	reader r = reader_make(buf_span(&m->extra.xattrs));
	while (*out && !reader_at_end(&r)) {
		char name[LIMIT_NAME_BYTES + 1];
		span value;
		AUTO_FREE char *now = NULL;
		size_t size = 0;
		cb_error why;
		xattr_next(&r, name, &value);
		cb_code code = left ? cb_xattr_get(i->b, i->path, name, CB_NOFOLLOW, &now, &size, cb_err_aside(&why)) : CB_NODATA;
		if (code != CB_OK && code != CB_NODATA) return cb_err_pass(err, code, &why);
		*out = code == CB_OK && span_equal(span_make(now, size), value);
		left -= *out;
	}
	*out = *out && (left == 0 || !all);
	return CB_OK;
}

static cb_code set_xattrs(importing *i, const tar_member *m, cb_error *err)
{
	reader r = reader_make(buf_span(&m->extra.xattrs));
	while (!reader_at_end(&r)) {
		char name[LIMIT_NAME_BYTES + 1];
		span value;
		xattr_next(&r, name, &value);
		CB_TRY(cb_xattr_set(i->b, i->path, name, value.bytes ? (const void *)value.bytes : "", value.size, CB_NOFOLLOW,
		                    err));
	}
	return CB_OK;
}

static uint32_t safe_mode(const tar_member *m)
{
	return m->mode & ~(uint32_t)06000;
}

static void note_dropped(importing *i, const tar_member *m)
{
	if (m->mode & 06000) note(i, m->name, "setuid and setgid bits dropped");
	if (m->extra.large_attrs) note(i, m->name, "left out: an attribute that is too large");
	if (m->extra.other_attrs) note(i, m->name, "left out: attributes that are not user.*, or of overlayfs");
}

/* ---- members ---- */

static cb_code place_folder(importing *i, const tar_member *m, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	bool found;
	uint32_t mode = safe_mode(m);
	CB_TRY(lookup(i, i->path, &info, &found, err));
	/* The folder that was named may be a link in the box; it is entered as such. */
	bool target = strlen(i->path) <= i->to_size || i->path[1] == 0;
	if (found && info.type != CB_DIR && !target) {
		CB_TRY(make_room(i, m->name, &info, err));
		found = false;
	} else if (found && target) CB_TRY(cb_stat(i->b, i->path, 0, &info, err));
	bool same = false, same_mode = found && info.mode == mode;
	if (!found) CB_TRY(cb_mkdir(i->b, i->path, mode, 0, err));
	else if (!same_mode) CB_TRY(cb_chmod(i->b, i->path, mode, 0, err));
	if (found) CB_TRY(has_xattrs(i, m, !target, &same, err));
	if (found && !same && !target) CB_TRY(drop_xattrs(i, err));
	if (!same) CB_TRY(set_xattrs(i, m, err));
	note_dropped(i, m);
	i->count.folders += !same || !same_mode || info.mtime_ns != m->mtime_ns;
	folder_time t = {m->mtime_ns, (uint32_t)strlen(i->path) + 1};
	CB_TRY(buf_append(&i->folders, &t, sizeof(t), err));
	return buf_append(&i->folders, i->path, t.path_size, err);
}

/* What stands at the place of a file or link. */
typedef struct standing {
	cb_stat_info info;
	bool there;     /* something of the member's type; */
	bool fits;      /* it has the member's mode, time and attributes; */
	bool is_shared; /* it has other names, which must not change; */
	bool changed;   /* it became another, or is to */
} standing;

/*
 * A file with one name keeps its identity, and so its history, tags and metadata. One with several stays only when nothing changes, and
 * then stands for one member.
 */
static cb_code stand(importing *i, const tar_member *m, cb_type type, standing *s, cb_error *err)
{
	bool found, known = false;
	*s = (standing){.info = CB_INIT(cb_stat_info)};
	CB_TRY(lookup(i, i->path, &s->info, &found, err));
	s->there = found && s->info.type == type;
	s->is_shared = s->there && s->info.links > 1;
	if (s->there) CB_TRY(has_xattrs(i, m, true, &s->fits, err));
	s->fits = s->fits && s->info.mtime_ns == m->mtime_ns && (type == CB_SYMLINK || s->info.mode == safe_mode(m));
	s->changed = !s->fits;
	if (s->is_shared && s->fits) CB_TRY(id_set_add(&i->kept, s->info.ino, &known, err));
	if (!found || (s->there && !s->is_shared) || (s->is_shared && s->fits && !known)) return CB_OK;
	s->there = s->is_shared = s->fits = false;
	s->changed = true;
	return make_room(i, m->name, &s->info, err);
}

/* Its data is another: what has other names stays with them. */
static cb_code stand_aside(importing *i, const tar_member *m, standing *s, cb_error *err)
{
	s->changed = true;
	if (!s->is_shared) return CB_OK;
	s->there = s->is_shared = s->fits = false;
	return make_room(i, m->name, &s->info, err);
}

/* Mode, time and attributes of a file or link that is not as the member is. */
static cb_code finish(importing *i, const tar_member *m, const standing *s, cb_error *err)
{
	if (!s->fits) {
		if (s->there) CB_TRY(drop_xattrs(i, err));
		if (m->type != '2') CB_TRY(cb_chmod(i->b, i->path, safe_mode(m), CB_NOFOLLOW, err));
		CB_TRY(set_xattrs(i, m, err));
	}
	return cb_utimens(i->b, i->path, CB_TIME_OMIT, m->mtime_ns, CB_NOFOLLOW, err);
}

/* A member's bytes on their way into a file. */
typedef struct filling {
	cb_file *f;
	bool compare; /* it has what stood there, which is kept as far as it is the same */
} filling;

static cb_code fill_open(importing *i, cb_file **out, cb_error *err)
{
	return cb_open(i->b, i->path, CB_READ | CB_WRITE | CB_CREATE | CB_NOFOLLOW_OPEN, 0600, out, err);
}

/* The first `size` bytes of a file into an empty one, with its holes. */
static cb_code copy_start(importing *i, cb_file *from, cb_file *to, uint64_t size, cb_error *err)
{
	for (uint64_t at = 0, hole = 0; at < size;) {
		if (at == hole) {
			cb_error why;
			cb_code code = cb_seek(from, (int64_t)at, CB_SEEK_DATA, &at, cb_err_aside(&why));
			if (code == CB_NOTFOUND || (code == CB_OK && at >= size)) return CB_OK;
			if (code != CB_OK) return cb_err_pass(err, code, &why);
			CB_TRY(cb_seek(from, (int64_t)at, CB_SEEK_HOLE, &hole, err));
		}
		uint64_t end = hole < size ? hole : size;
		size_t n = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
		CB_TRY(cb_pread(from, i->old, n, at, &n, err));
		CB_TRY(cb_pwrite(to, i->old, n, at, err));
		at += n;
	}
	return CB_OK;
}

/* From `at` on the file is another than the one that stands there. If that has other names, this becomes a new one, which begins alike. */
static cb_code fill_differs(importing *i, const tar_member *m, standing *s, filling *to, uint64_t at, cb_error *err)
{
	bool is_shared = s->is_shared;
	CB_TRY(stand_aside(i, m, s, err));
	if (!is_shared) return CB_OK;
	cb_file *made = NULL;
	CB_TRY(fill_open(i, &made, err));
	cb_code code = copy_start(i, to->f, made, at, err);
	(void)cb_close(to->f, NULL);
	*to = (filling){.f = made};
	return code;
}

/* n bytes of the stream to `at`, unless they are there. */
static cb_code fill_chunk(importing *i, const tar_member *m, standing *s, filling *to, size_t n, uint64_t at, cb_error *err)
{
	size_t got = 0;
	CB_TRY(tar_data(&i->reader, i->chunk, n, err));
	if (to->compare) CB_TRY(cb_pread(to->f, i->old, n, at, &got, err));
	if (!to->compare || got != n || memcmp(i->chunk, i->old, n) != 0) {
		CB_TRY(fill_differs(i, m, s, to, at, err));
		CB_TRY(cb_pwrite(to->f, i->chunk, n, at, err));
	}
	i->count.bytes += n;
	return progress(i, m->name, err);
}

/* Nothing is to be in [from, end). Where something is, all behind it goes too, and comes anew. */
static cb_code fill_hole(importing *i, const tar_member *m, standing *s, filling *to, uint64_t from, uint64_t end, cb_error *err)
{
	uint64_t data = 0;
	cb_error why;
	if (!to->compare || from >= end) return CB_OK;
	cb_code code = cb_seek(to->f, (int64_t)from, CB_SEEK_DATA, &data, cb_err_aside(&why));
	if (code == CB_NOTFOUND || (code == CB_OK && data >= end)) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	CB_TRY(fill_differs(i, m, s, to, from, err));
	to->compare = false;
	return cb_ftruncate(to->f, from, err);
}

static cb_code fill(importing *i, const tar_member *m, standing *s, filling *to, cb_error *err)
{
	tar_region whole = {0, m->size};
	const tar_region *regions = m->sparse ? (const tar_region *)(const void *)m->extra.regions.bytes : &whole;
	size_t count = m->sparse ? m->extra.regions.size / sizeof(tar_region) : 1;
	uint64_t at = 0;
	for (size_t k = 0; k < count; k++) {
		CB_TRY(fill_hole(i, m, s, to, at, regions[k].offset, err));
		at = regions[k].offset;
		for (uint64_t end = at + regions[k].size; at < end;) {
			size_t n = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
			CB_TRY(fill_chunk(i, m, s, to, n, at, err));
			at += n;
		}
	}
	CB_TRY(fill_hole(i, m, s, to, at, m->size, err));
	cb_stat_info now = CB_INIT(cb_stat_info);
	CB_TRY(cb_fstat(to->f, &now, err));
	if (now.size == m->size) return CB_OK;
	CB_TRY(fill_differs(i, m, s, to, at, err));
	return cb_ftruncate(to->f, m->size, err);
}

static cb_code write_large(importing *i, const tar_member *m, standing *s, cb_error *err)
{
	filling to = {0};
	to.compare = s->there;
	CB_TRY(fill_open(i, &to.f, err));
	cb_code code = fill(i, m, s, &to, err);
	cb_code closed = cb_close(to.f, code == CB_OK ? err : NULL);
	return code == CB_OK ? closed : code;
}

static cb_code write_small(importing *i, const tar_member *m, standing *s, cb_error *err)
{
	size_t size = (size_t)m->size, got = 0;
	CB_TRY(tar_data(&i->reader, i->chunk, size, err));
	i->count.bytes += size;
	bool same = s->there && s->info.size == size;
	if (same && size) CB_TRY(cb_read_at(i->b, i->path, 0, i->old, size, &got, err));
	if (same && got == size && memcmp(i->chunk, i->old, size) == 0) return CB_OK;
	CB_TRY(stand_aside(i, m, s, err));
	return cb_write_file(i->b, i->path, i->chunk, size, NULL, err);
}

static cb_code place_file(importing *i, const tar_member *m, cb_error *err)
{
	standing s;
	uint64_t bytes = i->count.bytes;
	CB_TRY(stand(i, m, CB_FILE, &s, err));
	bool small = !m->sparse && m->size <= SMALL_FILE_BYTES;
	CB_TRY(small ? write_small(i, m, &s, err) : write_large(i, m, &s, err));
	if (m->odd_type) note(i, m->name, "of an unknown type: taken as a file");
	note_dropped(i, m);
	if (s.changed) {
		i->count.files++;
		return finish(i, m, &s, err);
	}
	i->count.unchanged++;
	i->count.bytes = bytes;
	return CB_OK;
}

static cb_code place_symlink(importing *i, const tar_member *m, cb_error *err)
{
	standing s;
	AUTO_FREE char *target = NULL;
	CB_TRY(stand(i, m, CB_SYMLINK, &s, err));
	if (s.there) CB_TRY(cb_readlink(i->b, i->path, &target, NULL, err));
	if (!target || strcmp(target, m->link) != 0) {
		if (s.there) CB_TRY(cb_unlink(i->b, i->path, err));
		s.there = s.fits = false;
		s.changed = true;
		CB_TRY(cb_symlink(i->b, m->link, i->path, err));
	}
	note_dropped(i, m);
	if (s.changed) i->count.symlinks++;
	else i->count.unchanged++;
	return s.changed ? finish(i, m, &s, err) : CB_OK;
}

static bool is_excluded(const importing *i, const char *path, bool is_dir)
{
	const char *relative = path + i->to_size;
	while (*relative == '/') relative++;
	return *relative && tar_is_excluded(i->exclude, relative, is_dir);
}

static cb_code place_hard_link(importing *i, const tar_member *m, cb_error *err)
{
	char target[LIMIT_PATH_BYTES];
	cb_stat_info from = CB_INIT(cb_stat_info), info = CB_INIT(cb_stat_info);
	bool found;
	CB_TRY(member_path(i, m->link, target, err));
	if (is_excluded(i, target, false)) {
		note(i, m->name, "left out: a hard link to what is excluded");
		i->count.left_out++;
		return CB_OK;
	}
	CB_TRY(pass_parents(i, target, m->link, false, err));
	CB_TRY(lookup(i, target, &from, &found, err));
	if (!found) return cb_err_set(err, CB_CORRUPT, "the archive is damaged: a hard link to '%s', which is not there", m->link);
	if (from.type == CB_DIR) return refuse(m->name, "is a hard link to a folder", err);
	CB_TRY(lookup(i, i->path, &info, &found, err));
	bool same = found && info.ino == from.ino;
	*(same ? &i->count.unchanged : from.type == CB_SYMLINK ? &i->count.symlinks : &i->count.files) += 1;
	if (same) return CB_OK;
	if (found) CB_TRY(make_room(i, m->name, &info, err));
	return cb_link(i->b, target, i->path, err);
}

static cb_code place(importing *i, const tar_member *m, cb_error *err)
{
	if (m->type == '3' || m->type == '4' || m->type == '6') {
		note(i, m->name, m->type == '6' ? "left out: a FIFO" : "left out: a device");
		i->count.left_out++;
		return CB_OK;
	}
	bool target = strlen(i->path) <= i->to_size || i->path[1] == 0;
	if (target && m->type != '5')
		return cb_err_set(err, CB_EXISTS, "member '%s' would take the place of the target folder", m->name);
	if (!target) CB_TRY(pass_parents(i, i->path, m->name, true, err));
	if (m->type == '5') return place_folder(i, m, err);
	if (m->type == '2') return place_symlink(i, m, err);
	return m->type == '1' ? place_hard_link(i, m, err) : place_file(i, m, err);
}

static cb_code member_import(importing *i, const tar_member *m, cb_error *err)
{
	CB_TRY(member_path(i, m->name, i->path, err));
	if (is_excluded(i, i->path, m->type == '5')) return CB_OK;
	CB_TRY(progress(i, m->name, err));
	cb_code code = place(i, m, err);
	return code == CB_QUOTA || code == CB_TOOBIG ? cb_err_wrap(err, code, "member '%s'", m->name) : code;
}

/* ---- the whole ---- */

static cb_code set_folder_times(importing *i, cb_error *err)
{
	for (size_t at = 0; at < i->folders.size;) {
		folder_time t;
		memcpy(&t, i->folders.bytes + at, sizeof(t));
		const char *path = (const char *)i->folders.bytes + at + sizeof(t);
		at += sizeof(t) + t.path_size;
		cb_stat_info info = CB_INIT(cb_stat_info);
		bool found;
		/* A later member may have taken its place. */
		CB_TRY(lookup(i, path, &info, &found, err));
		if (found && info.type == CB_DIR && info.mtime_ns != t.mtime_ns)
			CB_TRY(cb_utimens(i->b, path, CB_TIME_OMIT, t.mtime_ns, CB_NOFOLLOW, err));
	}
	return CB_OK;
}

/* What follows the end mark is read as far as a writer at the other end of a pipe may be in the middle of its last record. */
static void drain(importing *i)
{
	size_t n = 0, sum = 0;
	do sum += n;
	while (sum < DRAIN_BYTES && tar_stream_read(&i->reader.stream, i->chunk, TAR_RECORD, &n, NULL) == CB_OK && n);
}

static cb_code import_members(importing *i, cb_error *err)
{
	for (;;) {
		tar_member m;
		bool found = false;
		CB_TRY(tar_next(&i->reader, &m, &found, err));
		if (!found) break;
		cb_code code = member_import(i, &m, err);
		tar_member_done(&m);
		if (code != CB_OK) return code;
	}
	drain(i);
	return set_folder_times(i, err);
}

static cb_code set_target(importing *i, cb_error *err)
{
	const char *to = i->options->to ? i->options->to : "/work";
	size_t size = strlen(to);
	while (size && to[size - 1] == '/') size--;
	if (size + 2 > LIMIT_PATH_BYTES) return too_long(err);
	i->to_size = 0;
	if (size && to[0] != '/') i->to[i->to_size++] = '/';
	memcpy(i->to + i->to_size, to, size);
	i->to_size += size;
	i->to[i->to_size] = 0;
	return CB_OK;
}

static cb_code import_all(importing *i, cb_error *err)
{
	if (i->to_size) CB_TRY(cb_mkdir(i->b, i->to, 0755, CB_PARENTS, err));
	return import_members(i, err);
}

/* As one call of a transaction: what its parts did is taken back when it fails, and bounds are asked at its end. */
static cb_code import_in_txn(importing *i, const char *to, cb_error *err)
{
	pen *e = NULL;
	CB_TRY(pen_begin(i->b, "import", to, &e, err));
	return pen_end(e, import_all(i, err), err);
}

static cb_code import_stream(importing *i, int fd, cb_error *err)
{
	const cb_tar_options *o = i->options;
	CB_TRY(set_target(i, err));
	if (o->exclude_count) CB_TRY(ignore_create(o->exclude, o->exclude_count, &i->exclude, err));
	CB_TRY(tar_stream_init(&i->reader.stream, fd, err));
	const char *to = i->to_size ? i->to : "/";
	cb_box *box = i->b;
	if (box_about(box).is_txn) return import_in_txn(i, to, err);
	cb_step_info step = CB_WITH(cb_step_info, .kind = "import", .params = to, .params_size = CB_STRING);
	cb_commit_result result = CB_INIT(cb_commit_result);
	CB_TRY(cb_txn_begin(box, &CB_WITH(cb_txn_options, .step = &step), &i->b, err));
	cb_code code = import_in_txn(i, to, err);
	if (code == CB_OK) code = cb_txn_commit(i->b, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), &result, err);
	cb_box_close(i->b);
	i->b = box;
	if (code == CB_OK) box_made(box, result.seq);
	i->count.seq = result.seq;
	return code;
}

cb_code cb_tar_import(cb_box *b, int fd, const cb_tar_options *options, cb_transfer_count *out, cb_error *err)
{
	NEED(err, "box", b);
	BOX_STAYS(b);
	cb_tar_options o;
	cb_transfer_watch watch;
	CB_TRY(SIZED_TAKE(cb_tar_options, watch, &o, options, err));
	CB_TRY(args_path("to", o.to, err));
	CB_TRY(args_names("exclude", o.exclude, o.exclude_count, err));
	CB_TRY(watch_take(&o.watch, &watch, err));
	CB_TRY(SIZED_CHECK(cb_transfer_count, seq, out, err));
	AUTO_FREE importing *i = mem_alloc(sizeof(*i));
	if (!i) return cb_err_nomem(err);
	*i = (importing){.era = entry_era(),
	                 .b = b,
	                 .options = &o,
	                 .count = CB_INIT(cb_transfer_count),
	                 .folders = BUF_INIT(LIMIT_TAR_FOLDERS_BYTES)};
	i->reader.stream.fd = -1;
	i->chunk = mem_alloc_bytes(CHUNK_BYTES);
	i->old = mem_alloc_bytes(CHUNK_BYTES);
	cb_code code = i->chunk && i->old ? import_stream(i, fd, err) : cb_err_nomem(err);
	tar_stream_done(&i->reader.stream);
	ignore_destroy(i->exclude);
	buf_done(&i->folders);
	id_set_done(&i->kept);
	free(i->chunk);
	free(i->old);
	if (code == CB_OK) SIZED_GIVE(out, &i->count);
	return code;
}
