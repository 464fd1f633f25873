/*
 * capture.c: what a command left in its tree, as changes of a transaction over the state it began from.
 *
 * The holder lists the tree (of a stack: the upper) in the order of names, folders before what is in them; the base is walked beside
 * it. What is the same is passed over, so that a touch is no change.
 *
 * Adversary: the box. Names, sizes, modes and targets in the messages are its words, and so are the bytes behind the descriptors: every
 * path must be one more name in the folder the look is in, a descriptor must be a regular file and has the size that fstat says,
 * special files are left out, setuid and setgid bits are dropped, of files also the sticky bit. What the holder itself says wrongly is
 * CB_CORRUPT.
 *
 * No single entry keeps the others out of the step: one that no box can have, or that cannot be read, is left out and said, and the box
 * keeps what it has there. Only what concerns the whole (no room, no memory, the gate, a lie) fails it.
 */
#include "work/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "host/host.h"

enum { XATTRS_SURE_BYTES = 2048 }; /* of one file: every filesystem that has attributes holds so much */

/* ---- shared ---- */

static cb_code lie(cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "the sandbox's holder lists what cannot be");
}

void capture_note(const capturing *c, const char *path, const char *what)
{
	work_result *r = c->result;
	if (r->noted < WORK_NOTES) {
		char line[WORK_NOTE_BYTES];
		size_t size = strlen(path), room = sizeof(line) - strlen(what) - sizeof("...: ");
		bool cut = size > room; /* the end of a path says more than its beginning */
		(void)snprintf(line, sizeof(line), "%s%s: %s", cut ? "..." : "/", cut ? path + size - room : path, what);
		stamp_text_set(r->notes[r->noted], WORK_NOTE_BYTES, line);
	}
	r->noted++;
	if (c->options->note) c->options->note(c->options->context, path, what);
}

void capture_leave_out(const capturing *c, const char *path, span why)
{
	char what[WORK_NOTE_BYTES / 2];
	(void)snprintf(what, sizeof(what), "left out: %.*s", (int)why.size, (const char *)why.bytes);
	c->result->left_out++;
	capture_note(c, path, what);
}

cb_code capture_clear(capturing *c, capture_item *i, cb_error *err)
{
	if (!i->exists) return CB_OK;
	i->exists = false;
	return pen_remove(c->e, capture_top(c)->ino, i->name, NULL, err);
}

uint32_t capture_mode(const capturing *c, const wire_entry *e)
{
	uint32_t keep = e->type == WIRE_ENTRY_DIR ? 01777 : 0777;
	/* Every folder that a setgid one is made in has that bit: only what can be executed as somebody else is worth a word. */
	if (e->type == WIRE_ENTRY_FILE && e->mode & 06000) capture_note(c, e->path, "dropped: setuid or setgid");
	else if (e->type == WIRE_ENTRY_FILE && e->mode & 01000) capture_note(c, e->path, "dropped: sticky");
	return e->mode & keep;
}

/* Filesystems without attributes are told by trying. */
static bool has_attributes(const capturing *c)
{
	static const char name[] = "user.cowbox";
	if (c->options->area < 0 || fsetxattr(c->options->area, name, "1", 1, 0) != 0) return false;
	(void)fremovexattr(c->options->area, name);
	return true;
}

/* Attributes that the tree could not hold were not there for the command to remove: they stay. */
static cb_code attributes_sync(capturing *c, const wire_entry *e, const box_node *node, bool fresh, bool *changed, cb_error *err)
{
	if (fresh) return pen_attributes(c->e, node->ino, e->xattrs, true, changed, err);
	AUTO_BUF buf now = BUF_INIT(SIZE_MAX);
	CB_TRY(look_attribute_rows(c->now, node->ino, &now, err));
	if (span_equal(buf_span(&now), e->xattrs)) return CB_OK;
	if (now.size > XATTRS_SURE_BYTES || (e->xattrs.size == 0 && !has_attributes(c))) return CB_OK;
	return pen_attributes(c->e, node->ino, e->xattrs, false, changed, err);
}

cb_code capture_attributes(capturing *c, const wire_entry *e, box_node *node, bool fresh, bool *changed, cb_error *err)
{
	if (node->type != CB_SYMLINK) {
		uint32_t mode = capture_mode(c, e), keep = node->type == CB_DIR ? 01777 : 0777;
		if (e->cut) capture_note(c, e->path, "dropped: attributes that a box does not take, or too many");
		CB_TRY(attributes_sync(c, e, node, fresh, changed, err));
		if ((node->mode & keep) != mode) { /* the box's own setuid bits are not in the tree, and stay while the mode does */
			*changed = true;
			node->mode = mode;
		}
	}
	if (!*changed && !fresh) return CB_OK;
	node->mtime_ns = e->mtime_ns;
	node->atime_ns = e->atime_ns;
	return pen_save(c->e, node, true, err);
}

/* ---- names of the base ---- */

static int new_order(const void *a, const void *b)
{
	const work_name *x = a, *y = b;
	if (x->dir != y->dir) return x->dir < y->dir ? -1 : 1;
	return span_compare(work_name_span(x), work_name_span(y));
}

/* Removing what is only in the upper leaves no whiteout, so the look must be told what was there. */
static cb_code new_fill(capturing *c, cb_error *err)
{
	if (!c->layer) return CB_OK;
	CB_TRY(look_new_names(c->layer, c->base, work_name_add, &c->new, err));
	if (c->new.size) qsort(c->new.bytes, c->new.size / sizeof(work_name), sizeof(work_name), new_order);
	return CB_OK;
}

static size_t new_find(const capturing *c, uint64_t parent)
{
	const work_name *all = (const work_name *)(const void *)c->new.bytes;
	size_t low = 0, high = c->new.size / sizeof(*all);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (all[middle].dir < parent) low = middle + 1;
		else high = middle;
	}
	return low;
}

static cb_code names_next(capture_level *l, cb_error *err)
{
	CB_TRY(look_walk_next(l->names, &l->next, &l->has_next, err));
	l->next_name = l->names->name;
	return CB_OK;
}

static cb_code names_open(capturing *c, capture_level *l, cb_error *err)
{
	if (!l->base_ino) return CB_OK;
	if (!l->whole) l->new_at = new_find(c, l->base_ino);
	if (!l->whole) return CB_OK;
	CB_TRY(look_walk_open(c->base, "", l->base_ino, &l->names, err));
	return names_next(l, err);
}

static cb_code is_gone(capturing *c, span name, const box_node *r, cb_error *err)
{
	capture_level *l = capture_top(c);
	if (l->ino == BOX_INO_ROOT && box_name_reserved(name)) return CB_OK; /* the sandbox's: not listed */
	l->touched = true;
	return capture_gone_add(c, l->ino, name, r, err);
}

/* Of a folder that is merged with the layers': what is not listed may be theirs. */
static cb_code new_pass(capturing *c, span name, cb_error *err)
{
	capture_level *l = capture_top(c);
	for (;; l->new_at++) {
		const work_name *n = (const work_name *)(const void *)c->new.bytes + l->new_at;
		if (!l->base_ino || l->new_at >= c->new.size / sizeof(*n) || n->dir != l->base_ino) return CB_OK;
		span other = work_name_span(n);
		int order = name.bytes ? span_compare(other, name) : -1;
		if (order > 0) return CB_OK;
		if (order == 0) continue;
		box_node node;
		cb_code code = look_child(c->layer, l->layer_ino, other, &node, err);
		if (code == CB_OK) continue;
		if (code != CB_NOTFOUND) return code;
		CB_TRY(look_child(c->base, l->base_ino, other, &node, err));
		CB_TRY(is_gone(c, other, &node, err));
	}
}

/* The look has come to `name` (no bytes: to the end of the folder): names of the base before it are gone. */
static cb_code names_pass(capturing *c, span name, capture_item *at, cb_error *err)
{
	capture_level *l = capture_top(c);
	if (!l->whole) return new_pass(c, name, err);
	while (l->has_next) {
		int order = name.bytes ? span_compare(l->next_name, name) : -1;
		if (order > 0) return CB_OK;
		if (order == 0) {
			at->exists = true;
			at->there = l->next;
		} else {
			CB_TRY(is_gone(c, l->next_name, &l->next, err));
		}
		CB_TRY(names_next(l, err));
		if (order == 0) return CB_OK;
	}
	return CB_OK;
}

static cb_code find_there(capturing *c, capture_item *i, cb_error *err)
{
	const capture_level *l = capture_top(c);
	CB_TRY(names_pass(c, i->name, i, err));
	if (l->whole || !l->base_ino) return CB_OK;
	cb_code code = look_child(c->base, l->base_ino, i->name, &i->there, err);
	i->exists = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* ---- folders ---- */

static cb_code level_push(capturing *c, const wire_entry *e, capture_level l, cb_error *err)
{
	uint8_t *slot;
	if (c->levels.size / sizeof(l) > LIMIT_HOST_DEPTH)
		return cb_err_set(err, CB_LIMIT, "folders are nested deeper than %d", LIMIT_HOST_DEPTH);
	l.path_size = strlen(e->path);
	l.mtime_ns = e->mtime_ns;
	l.atime_ns = e->atime_ns;
	l.known = e->known;
	buf_clear(&c->path);
	CB_TRY(buf_append(&c->path, e->path, l.path_size, err));
	CB_TRY(buf_extend(&c->levels, sizeof(l), &slot, err));
	memcpy(slot, &l, sizeof(l));
	return names_open(c, capture_top(c), err);
}

static cb_code take_root(capturing *c, const wire_entry *e, cb_error *err)
{
	if (e->type == WIRE_ENTRY_UNKEPT) { /* nothing of it was listed: the box stays as it is */
		capture_leave_out(c, "", e->data);
		return CB_OK;
	}
	if (e->type != WIRE_ENTRY_DIR) return lie(err);
	bool plain = !c->layer;
	capture_level root = {
		.ino = BOX_INO_ROOT, .base_ino = BOX_INO_ROOT, .layer_ino = plain ? 0 : BOX_INO_ROOT, .whole = plain || e->opaque};
	return level_push(c, e, root, err);
}

/* The folder of the layers that is merged with this one. */
static cb_code layer_folder(capturing *c, span name, uint64_t *out, cb_error *err)
{
	const capture_level *parent = capture_top(c);
	box_node node;
	*out = 0;
	if (parent->whole) return CB_OK;
	cb_code code = look_child(c->layer, parent->layer_ino, name, &node, err);
	if (code == CB_OK && node.type == CB_DIR) *out = node.ino;
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code take_folder(capturing *c, capture_item *i, cb_error *err)
{
	const wire_entry *e = i->e;
	uint64_t parent = capture_top(c)->ino;
	capture_level l = {0};
	CB_TRY(layer_folder(c, i->name, &l.layer_ino, err));
	l.whole = !l.layer_ino || e->opaque;
	box_node node;
	bool changed = false, fresh = !i->exists || i->there.type != CB_DIR;
	if (fresh && e->known) return lie(err);
	if (fresh) {
		CB_TRY(capture_clear(c, i, err));
		CB_TRY(pen_make(c->e, parent, i->name, CB_DIR, 0755, &node, err));
		CB_TRY(capture_attributes(c, e, &node, true, &changed, err));
		l.fresh = true;
	} else if (!e->known) {
		CB_TRY(look_child(c->now, parent, i->name, &node, err));
		CB_TRY(capture_attributes(c, e, &node, false, &changed, err));
	}
	l.ino = fresh ? node.ino : i->there.ino;
	l.base_ino = fresh ? 0 : i->there.ino;
	return level_push(c, e, l, err);
}

/* What is made or removed in it changes its time in the box, but the command did that earlier: it is set at the end. */
static cb_code times_later(capturing *c, const capture_level *l, cb_error *err)
{
	if (!l->touched) {
		box_node node;
		CB_TRY(look_node(c->now, l->ino, &node, err));
		if (node.version != 0) return CB_OK;
	}
	capture_times row = {l->ino, l->mtime_ns, l->atime_ns};
	return buf_append(&c->times, &row, sizeof(row), err);
}

static cb_code times_settle(capturing *c, cb_error *err)
{
	const capture_times *all = (const capture_times *)(const void *)c->times.bytes;
	for (size_t i = 0; i < c->times.size / sizeof(*all); i++)
		CB_TRY(pen_times(c->e, all[i].ino, all[i].atime_ns, all[i].mtime_ns, err));
	return CB_OK;
}

static cb_code leave(capturing *c, const wire_entry *e, cb_error *err)
{
	if (c->levels.size == 0 || !span_equal(span_str(e->path), buf_span(&c->path))) return lie(err);
	CB_TRY(names_pass(c, (span){0}, NULL, err));
	capture_level *l = capture_top(c);
	if (l->ino != BOX_INO_ROOT) CB_TRY(times_later(c, l, err));
	look_walk_close(l->names);
	c->levels.size -= sizeof(capture_level);
	c->path.size = c->levels.size ? capture_top(c)->path_size : 0;
	return CB_OK;
}

/* ---- entries ---- */

/* The name below the folder the look is in. */
static cb_code item_name(const capturing *c, const wire_entry *e, span *out, cb_error *err)
{
	span path = span_str(e->path), folder = buf_span(&c->path);
	if (c->levels.size == 0 || !span_starts(path, folder)) return lie(err);
	size_t skip = folder.size;
	if (folder.size) {
		if (path.size <= folder.size || path.bytes[folder.size] != '/') return lie(err);
		skip++;
	}
	*out = span_make(path.bytes + skip, path.size - skip);
	bool dots = span_equal(*out, span_str(".")) || span_equal(*out, span_str(".."));
	if (out->size == 0 || out->size > LIMIT_NAME_BYTES || dots || memchr(out->bytes, '/', out->size)) return lie(err);
	if (folder.size == 0 && box_name_reserved(*out) && e->type != WIRE_ENTRY_UNKEPT) return lie(err);
	return CB_OK;
}

/* A name twice, or after a later one, would be made over what is there. */
static cb_code names_ascend(capturing *c, span name, cb_error *err)
{
	capture_level *l = capture_top(c);
	if (l->last_size && span_compare(span_make(l->last, l->last_size), name) >= 0) return lie(err);
	memcpy(l->last, name.bytes, name.size);
	l->last_size = (uint8_t)name.size;
	return CB_OK;
}

static cb_code take_special(capturing *c, capture_item *i, cb_error *err)
{
	if (i->e->known) return CB_OK; /* it was said when it came */
	capture_leave_out(c, i->e->path, i->e->data);
	return i->exists ? is_gone(c, i->name, &i->there, err) : CB_OK;
}

static cb_code take_item(capturing *c, capture_item *i, cb_error *err)
{
	switch (i->e->type) {
	case WIRE_ENTRY_FILE:
		return capture_file(c, i, err);
	case WIRE_ENTRY_DIR:
		return take_folder(c, i, err);
	case WIRE_ENTRY_SYMLINK:
		return capture_symlink(c, i, err);
	case WIRE_ENTRY_WHITEOUT:
		if (!c->layer) return lie(err);
		return i->exists ? is_gone(c, i->name, &i->there, err) : CB_OK;
	case WIRE_ENTRY_SPECIAL:
		return take_special(c, i, err);
	case WIRE_ENTRY_UNKEPT:
		capture_leave_out(c, i->e->path, i->e->data);
		return CB_OK;
	case WIRE_ENTRY_LEAVE:
		break;
	}
	return lie(err);
}

static cb_code take_entry(capturing *c, const wire_entry *e, int fd, cb_error *err)
{
	if (++c->result->entries_scanned > LIMIT_WORK_ENTRIES)
		return cb_err_set(err, CB_TOOBIG, "more than %d files and folders", LIMIT_WORK_ENTRIES);
	if (e->type == WIRE_ENTRY_LEAVE) return leave(c, e, err);
	if (*e->path == 0) return c->levels.size ? lie(err) : take_root(c, e, err);
	capture_item i = {.e = e, .fd = fd};
	CB_TRY(item_name(c, e, &i.name, err));
	CB_TRY(names_ascend(c, i.name, err));
	CB_TRY(find_there(c, &i, err));
	return take_item(c, &i, err);
}

static cb_code take_packet(capturing *c, const wire_packet *p, cb_error *err)
{
	span rest = p->body;
	size_t used = 0;
	for (;;) {
		wire_entry e;
		bool at_end = false;
		CB_TRY(wire_entry_get(&rest, &e, &at_end, err));
		if (at_end) return CB_OK;
		if (e.has_fd && used == p->fd_count) return lie(err);
		CB_TRY(take_entry(c, &e, e.has_fd ? p->fds[used++] : -1, err));
	}
}

/* ---- the whole ---- */

/* The next message of a scan, whose number is counted whatever becomes of it. */
static cb_code scan_receive(link_t *l, capture_scan *scan, const wire_packet **out, cb_error *err)
{
	if (scan->owes_more) CB_TRY(link_send(l, WIRE_MORE, (span){0}, NULL, 0, err));
	scan->owes_more = false;
	CB_TRY(link_receive(l, out, err));
	if ((*out)->type == WIRE_SCAN_END) {
		scan->open = false;
		return wire_scanned_get((*out)->body, &scan->end, err);
	}
	if ((*out)->type == WIRE_ENTRY) scan->owes_more = ++scan->packets % WIRE_WINDOW == 0;
	else return lie(err);
	return CB_OK;
}

cb_code capture_drain(link_t *l, capture_scan *scan, cb_error *err)
{
	while (scan->open) {
		const wire_packet *p;
		CB_TRY(scan_receive(l, scan, &p, err));
	}
	return CB_OK;
}

static cb_code scan_tree(capturing *c, link_t *l, cb_error *err)
{
	capture_scan *scan = c->options->scan;
	CB_TRY(link_send(l, WIRE_SCAN, (span){0}, NULL, 0, err));
	*scan = (capture_scan){.open = true};
	for (;;) {
		const wire_packet *p;
		CB_TRY(scan_receive(l, scan, &p, err));
		if (scan->open) {
			CB_TRY(take_packet(c, p, err));
			continue;
		}
		if (c->levels.size) return lie(err);
		c->result->entries_scanned = scan->end.entries;
		c->result->sandbox_ended = scan->end.ended;
		return CB_OK;
	}
}

static void capturing_done(capturing *c)
{
	for (; c->levels.size; c->levels.size -= sizeof(capture_level)) look_walk_close(capture_top(c)->names);
	buf *const owned[] = {&c->levels, &c->path, &c->gone, &c->added, &c->times, &c->new};
	for (size_t i = 0; i < ARRAY_LEN(owned); i++) buf_done(owned[i]);
	inode_map_done(&c->links);
	inode_map_done(&c->claimed);
}

static cb_code capture_in(link_t *l, pen *e, const capture_options *options, work_result *out, cb_error *err)
{
	capturing c = {.e = e, .now = pen_look(e), .base = pen_base(e), .layer = options->layer, .options = options, .result = out};
	c.levels = c.gone = c.added = c.times = c.new = BUF_INIT(SIZE_MAX);
	c.path = BUF_INIT(WIRE_PACKET_BYTES);
	cb_code code = new_fill(&c, err);
	if (code == CB_OK) code = scan_tree(&c, l, err);
	if (code == CB_OK) code = capture_gone_settle(&c, err);
	if (code == CB_OK) code = times_settle(&c, err);
	capturing_done(&c);
	return code;
}

cb_code capture(link_t *l, cb_box *b, const capture_options *options, work_result *out, cb_error *err)
{
	pen *e = NULL;
	CB_TRY(pen_begin(b, "exec", "", &e, err));
	return pen_end(e, capture_in(l, e, options, out, err), err);
}
