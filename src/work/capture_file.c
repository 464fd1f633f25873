/*
 * capture_file.c: files and symbolic links.
 *
 * Files with several names. In the tree names are one file by its inode; the first that is met brings the bytes, the others become
 * names of the same. A file of the box that has several names stands for one file of the tree at most. When it differs, it is changed
 * only if all its names are known to be the same file still; otherwise the name is parted from it: in a stack that is what happened
 * (writing to one name of a lower file leaves the others as they were).
 */
#include "work/capture.h"

#include <errno.h>
#include <sys/stat.h>

#include "host/host.h"

static cb_code claim(capturing *c, const wire_entry *e, uint64_t ino, uint32_t links, cb_error *err)
{
	if (e->ino == 0) return CB_OK;
	if (e->links > 1) CB_TRY(inode_map_put(&c->links, 0, e->ino, ino, err));
	if (e->links > 1 || links > 1) CB_TRY(inode_map_put(&c->claimed, 0, ino, e->ino, err));
	return CB_OK;
}

/* The box's file stands for another file of the tree already. */
static bool is_taken(const capturing *c, const capture_item *i)
{
	const inode_map_row *row = i->there.links > 1 ? inode_map_get(&c->claimed, 0, i->there.ino) : NULL;
	return row && row->value != i->e->ino;
}

/* A file that was made for new names turns out to be one that the box has: its names become names of that. */
static cb_code names_join(capturing *c, uint64_t made, uint64_t ino, cb_error *err)
{
	AUTO_BUF buf names = BUF_INIT(SIZE_MAX);
	CB_TRY(look_names(c->now, made, work_name_add, &names, err));
	box_node node;
	CB_TRY(look_node(c->now, ino, &node, err));
	if (node.links + names.size / sizeof(work_name) > LIMIT_LINKS) return CB_OK; /* then they are two files of the same bytes */
	const work_name *all = (const work_name *)(const void *)names.bytes;
	for (size_t i = 0; i < names.size / sizeof(*all); i++) {
		CB_TRY(pen_remove(c->e, all[i].dir, work_name_span(&all[i]), NULL, err));
		CB_TRY(pen_link(c->e, ino, all[i].dir, work_name_span(&all[i]), NULL, err));
	}
	return CB_OK;
}

/* Was it made in this look? */
static cb_code is_made(capturing *c, uint64_t ino, bool *out, cb_error *err)
{
	box_node node;
	cb_code code = look_node(c->base, ino, &node, err);
	*out = code == CB_NOTFOUND;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* A further name of a file that was met before. *full: it has as many as a box's file may have. */
static cb_code take_link(capturing *c, capture_item *i, uint64_t ino, bool *full, cb_error *err)
{
	*full = false;
	if (i->exists && i->there.ino == ino) return CB_OK;
	box_node node;
	CB_TRY(look_node(c->now, ino, &node, err));
	*full = node.links >= LIMIT_LINKS;
	if (*full) {
		capture_note(c, i->e->path, "made another file: a file of a box has at most 65000 names");
		return CB_OK;
	}
	CB_TRY(capture_clear(c, i, err));
	cb_code code = pen_link(c->e, ino, capture_top(c)->ino, i->name, NULL, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "'%.200s'", i->e->path);
}

/* What is behind the descriptor, by its own words. */
static cb_code file_of(capturing *c, const capture_item *i, pen_file *out, cb_error *err)
{
	struct stat st;
	if (i->fd < 0) return cb_err_set(err, CB_CORRUPT, "the sandbox's holder sent no file for '%.200s'", i->e->path);
	c->unreadable = fstat(i->fd, &st) != 0;
	if (c->unreadable) return cb_err_errno(err, errno, "it cannot be read");
	if (!S_ISREG(st.st_mode)) return cb_err_set(err, CB_CORRUPT, "the sandbox's holder sent no file for '%.200s'", i->e->path);
	if ((uint64_t)st.st_size > LIMIT_FILE_BYTES)
		return cb_err_set(err, CB_TOOBIG, "a file may have %llu bytes", (unsigned long long)LIMIT_FILE_BYTES);
	*out = (pen_file){i->fd, (uint64_t)st.st_size, (uint64_t)st.st_blocks * 512, NULL, NULL, host_data_next};
	return CB_OK;
}

static cb_code read_into(capturing *c, capture_item *i, const pen_file *f, box_node *node, bool fresh, cb_error *err)
{
	bool rests = true, changed = fresh;
	cb_code code = pen_data(c->e, f, node, fresh, &rests, &changed, err);
	c->unreadable = pen_unreadable(c->e) || (code == CB_OK && !rests);
	if (code != CB_OK) return code;
	if (!rests) return cb_err_set(err, CB_BUSY, "it changes while it is read");
	c->result->entries_read++;
	return capture_attributes(c, i->e, node, fresh, &changed, err);
}

static cb_code add_file(capturing *c, capture_item *i, const pen_file *f, cb_error *err)
{
	uint64_t parent = capture_top(c)->ino;
	box_node node;
	bool replaces = i->exists;
	CB_TRY(capture_clear(c, i, err));
	CB_TRY(pen_make(c->e, parent, i->name, CB_FILE, 0644, &node, err));
	CB_TRY(read_into(c, i, f, &node, true, err));
	CB_TRY(claim(c, i->e, node.ino, 1, err));
	if (replaces || i->e->links > 1 || f->size == 0) return CB_OK;
	capture_added row = {parent, node.ino, f->size, (uint8_t)i->name.size, {0}};
	memcpy(row.name, i->name.bytes, i->name.size);
	return buf_append(&c->added, &row, sizeof(row), err);
}

static cb_code change_file(capturing *c, capture_item *i, const pen_file *f, cb_error *err)
{
	uint64_t parent = capture_top(c)->ino;
	box_node node;
	CB_TRY(look_child(c->now, parent, i->name, &node, err));
	if (i->there.links > 1) {
		bool same = (node.mode & 0777) == (i->e->mode & 0777);
		if (same) CB_TRY(pen_same(c->e, f, &node, &same, err));
		if (!same && (c->layer || i->e->links < 2)) return add_file(c, i, f, err);
	}
	CB_TRY(pen_allow(c->e, parent, i->name, &node, err));
	CB_TRY(read_into(c, i, f, &node, false, err));
	return claim(c, i->e, node.ino, node.links, err);
}

static cb_code put_file(capturing *c, capture_item *i, bool change, cb_error *err)
{
	pen_file f;
	CB_TRY(file_of(c, i, &f, err));
	return change ? change_file(c, i, &f, err) : add_file(c, i, &f, err);
}

/* The file as it is now, or nothing of it: one that is too large, or cannot be read, is left out (*kept false). What the box has there is
 * not to stand in the way of the new: when it is damaged, so that the two cannot be compared, it is replaced. */
static cb_code take_file(capturing *c, capture_item *i, bool change, bool *kept, cb_error *err)
{
	cb_error why;
	bool exists = i->exists;
	c->unreadable = false;
	pen_mark(c->e);
	cb_code code = put_file(c, i, change, cb_err_aside(&why));
	if (code == CB_CORRUPT && change && i->fd >= 0) {
		pen_back(c->e);
		i->exists = exists;
		pen_mark(c->e);
		code = put_file(c, i, false, cb_err_aside(&why));
	}
	*kept = code == CB_OK;
	if (code != CB_OK && (c->unreadable || code == CB_TOOBIG || code == CB_LIMIT)) {
		pen_back(c->e);
		capture_leave_out(c, i->e->path, span_str(why.message));
		return CB_OK;
	}
	pen_unmark(c->e);
	return cb_err_pass(err, code, &why);
}

/* As it was at the last look. A folder that moved takes its files to new names without touching them, so this one may have been met
 * under such a name before. */
static cb_code known_file(capturing *c, const capture_item *i, uint64_t met, cb_error *err)
{
	bool made = false;
	if (met && met != i->there.ino) CB_TRY(is_made(c, met, &made, err));
	if (made) CB_TRY(names_join(c, met, i->there.ino, err));
	return claim(c, i->e, i->there.ino, i->there.links, err);
}

/* One of several names: the file was met under another one. */
static cb_code met_file(capturing *c, capture_item *i, uint64_t met, bool usable, cb_error *err)
{
	bool made = false, full = false, kept = false;
	if (usable && met != i->there.ino && !is_taken(c, i) && i->fd >= 0 && !(c->layer && i->there.links > 1))
		CB_TRY(is_made(c, met, &made, err));
	if (!made) {
		CB_TRY(take_link(c, i, met, &full, err));
		return full ? take_file(c, i, false, &kept, err) : CB_OK;
	}
	CB_TRY(take_file(c, i, true, &kept, err));
	const inode_map_row *row = inode_map_get(&c->links, 0, i->e->ino);
	return kept && row && row->value == i->there.ino ? names_join(c, met, i->there.ino, err) : CB_OK;
}

cb_code capture_file(capturing *c, capture_item *i, cb_error *err)
{
	bool usable = i->exists && i->there.type == CB_FILE;
	const inode_map_row *row = i->e->links > 1 && i->e->ino ? inode_map_get(&c->links, 0, i->e->ino) : NULL;
	uint64_t met = row ? row->value : 0;
	if (i->e->known) {
		if (usable) return known_file(c, i, met, err);
		return cb_err_set(err, CB_CORRUPT, "the sandbox's holder knows '%.200s', which was not there", i->e->path);
	}
	if (met) return met_file(c, i, met, usable, err);
	bool kept = false;
	return take_file(c, i, usable && !is_taken(c, i), &kept, err);
}

/* ---- symbolic links ---- */

static cb_code same_target(capturing *c, const capture_item *i, bool *out, cb_error *err)
{
	span target = i->e->data;
	*out = i->exists && i->there.type == CB_SYMLINK && i->there.size == target.size && !is_taken(c, i);
	if (!*out) return CB_OK;
	AUTO_FREE char *now = NULL;
	CB_TRY(look_load(c->base, &i->there, LIMIT_SYMLINK_TARGET_BYTES, &now, NULL, err));
	*out = memcmp(now, target.bytes, target.size) == 0;
	return CB_OK;
}

cb_code capture_symlink(capturing *c, capture_item *i, cb_error *err)
{
	uint64_t parent = capture_top(c)->ino;
	const wire_entry *e = i->e;
	box_node node;
	bool same = false, changed = true, full = true;
	if (e->known) return claim(c, e, i->there.ino, i->there.links, err);
	const inode_map_row *row = e->links > 1 && e->ino ? inode_map_get(&c->links, 0, e->ino) : NULL;
	if (row) CB_TRY(take_link(c, i, row->value, &full, err));
	if (!full) return CB_OK;
	if (e->data.size == 0 || e->data.size > LIMIT_SYMLINK_TARGET_BYTES || memchr(e->data.bytes, 0, e->data.size))
		return cb_err_set(err, CB_CORRUPT, "the sandbox's holder sent no target for '%.200s'", e->path);
	CB_TRY(same_target(c, i, &same, err));
	if (same) return claim(c, e, i->there.ino, i->there.links, err);
	CB_TRY(capture_clear(c, i, err));
	CB_TRY(pen_make(c->e, parent, i->name, CB_SYMLINK, 0777, &node, err));
	CB_TRY(pen_put(c->e, &node, e->data, err));
	CB_TRY(capture_attributes(c, e, &node, true, &changed, err));
	return claim(c, e, node.ino, 1, err);
}
