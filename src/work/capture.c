/*
 * capture.c: what a command left in its tree, as changes of a transaction over the state it began from.
 *
 * The holder lists the tree (of a stack: the upper) in the order of names, folders before what is in them; the base is walked beside
 * it. What is the same is passed over, so that a touch is no change.
 *
 * Adversary: the box. Names, sizes, modes and targets in the messages are its words, and so are the bytes behind the descriptors: every
 * path must be one more name in the folder the look is in, a descriptor must be a regular file and has the size that fstat says,
 * special files are left out, setuid and setgid bits are dropped. What the holder itself says wrongly is CB_CORRUPT.
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
	if (c->options->note) c->options->note(c->options->context, path, what);
}

cb_code capture_gate(capturing *c, gate_access access, uint64_t parent, span name, uint64_t ino, cb_error *err)
{
	if (!c->t->cs->gate && parent != INO_ROOT) return CB_OK;
	buf_clear(&c->gate_path);
	CB_TRY(buf_printf(&c->gate_path, err, "/%.*s%s%.*s", (int)c->path.size, (const char *)c->path.bytes,
	                  c->path.size ? "/" : "", (int)name.size, (const char *)name.bytes));
	gate_request request = {c->b, access, (const char *)c->gate_path.bytes, parent, name, ino};
	return gate_pass(c->t->cs->gate, &request, err);
}

cb_code capture_clear(capturing *c, capture_item *i, cb_error *err)
{
	if (!i->exists) return CB_OK;
	uint64_t parent = capture_top(c)->ino;
	inode node;
	tree_view v = txn_view(c->t);
	CB_TRY(capture_gate(c, GATE_REMOVE, parent, i->name, i->there.ino, err));
	CB_TRY(inode_at(&v, parent, i->name, &node, NULL, err));
	i->exists = false;
	return tree_remove(c->t, parent, i->name, &node, err);
}

uint32_t capture_mode(const capturing *c, const wire_entry *e)
{
	uint32_t keep = e->type == WIRE_ENTRY_DIR ? 01777 : 0777;
	/* Every folder that a setgid one is made in has that bit: only what can be executed as somebody else is worth a word. */
	if (e->type == WIRE_ENTRY_FILE && e->mode & 06000) capture_note(c, e->path, "dropped: setuid or setgid");
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
static cb_code attributes_sync(capturing *c, const wire_entry *e, const inode *node, bool fresh, bool *changed, cb_error *err)
{
	if (fresh) return intake_attributes(&c->intake, node->rec.ino, e->xattrs, true, changed, err);
	AUTO_BUF buf now = BUF_INIT(SIZE_MAX);
	tree_view v = txn_view(c->t);
	CB_TRY(intake_attributes_of(c->t->cs, c->t, &v, node->rec.ino, &now, err));
	if (span_equal(buf_span(&now), e->xattrs)) return CB_OK;
	if (now.size > XATTRS_SURE_BYTES || (e->xattrs.size == 0 && !has_attributes(c))) return CB_OK;
	return intake_attributes(&c->intake, node->rec.ino, e->xattrs, false, changed, err);
}

cb_code capture_attributes(capturing *c, const wire_entry *e, inode *node, bool fresh, bool *changed, cb_error *err)
{
	record *r = &node->rec;
	if (r->type != CB_SYMLINK) {
		uint32_t mode = capture_mode(c, e), keep = r->type == CB_DIR ? 01777 : 0777;
		CB_TRY(attributes_sync(c, e, node, fresh, changed, err));
		if ((r->mode & keep) != mode) { /* the box's own setuid bits are not in the tree, and stay while the mode does */
			*changed = true;
			r->mode = mode;
		}
	}
	if (!*changed && !fresh) return CB_OK;
	inode_changed(c->t, node, false);
	r->mtime_ns = e->mtime_ns;
	r->atime_ns = e->atime_ns;
	return inode_save(c->t, node, err);
}

/* ---- names of the base ---- */

static int new_order(const void *a, const void *b)
{
	const capture_new *x = a, *y = b;
	if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
	return span_compare(span_make(x->name, x->name_size), span_make(y->name, y->name_size));
}

static cb_code new_add(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	capturing *c = context;
	key_parts parts;
	if (old_value.bytes || !new_value.bytes || key_bytes.bytes[0] != KIND_ENTRY) return CB_OK;
	CB_TRY(key_parse(key_bytes, &parts, err));
	capture_new row = {.parent = parts.ino, .name_size = (uint8_t)parts.name.size};
	memcpy(row.name, parts.name.bytes, parts.name.size);
	return buf_append(&c->new, &row, sizeof(row), err);
}

/* Removing what is only in the upper leaves no whiteout, so the look must be told what was there. */
static cb_code new_fill(capturing *c, cb_error *err)
{
	if (!c->options->layer) return CB_OK;
	c->layer = state_view(c->b->cs, c->options->layer);
	CB_TRY(tree_diff(&c->layer, &c->base, new_add, c, err));
	if (c->new.size) qsort(c->new.bytes, c->new.size / sizeof(capture_new), sizeof(capture_new), new_order);
	return CB_OK;
}

static size_t new_find(const capturing *c, uint64_t parent)
{
	const capture_new *all = (const capture_new *)(const void *)c->new.bytes;
	size_t low = 0, high = c->new.size / sizeof(*all);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (all[middle].parent < parent) low = middle + 1;
		else high = middle;
	}
	return low;
}

static cb_code names_open(capturing *c, capture_level *l, cb_error *err)
{
	if (!l->base_ino) return CB_OK;
	if (!l->whole) l->new_at = new_find(c, l->base_ino);
	if (!l->whole) return CB_OK;
	key prefix = key_prefix(KIND_ENTRY, l->base_ino);
	return tree_cursor_open_below(&c->base, key_span(&prefix), &l->names, err);
}

static cb_code is_gone(capturing *c, span name, const record *r, cb_error *err)
{
	capture_level *l = capture_top(c);
	if (l->ino == INO_ROOT && gate_reserved(name)) return CB_OK; /* the sandbox's: not listed */
	l->touched = true;
	CB_TRY(capture_gate(c, GATE_REMOVE, l->ino, name, r->ino, err));
	return capture_gone_add(c, l->ino, name, r, err);
}

/* Of a folder that is merged with the layers': what is not listed may be theirs. */
static cb_code new_pass(capturing *c, span name, cb_error *err)
{
	capture_level *l = capture_top(c);
	for (;; l->new_at++) {
		const capture_new *n = (const capture_new *)(const void *)c->new.bytes + l->new_at;
		if (!l->base_ino || l->new_at >= c->new.size / sizeof(*n) || n->parent != l->base_ino) return CB_OK;
		span other = span_make(n->name, n->name_size);
		int order = name.bytes ? span_compare(other, name) : -1;
		if (order > 0) return CB_OK;
		if (order == 0) continue;
		inode node;
		cb_code code = inode_at(&c->layer, l->layer_ino, other, &node, NULL, err);
		if (code == CB_OK) continue;
		if (code != CB_NOTFOUND) return code;
		CB_TRY(inode_at(&c->base, l->base_ino, other, &node, NULL, err));
		CB_TRY(is_gone(c, other, &node.rec, err));
	}
}

/* The name at the cursor and its record; false past the last. */
static cb_code names_get(capturing *c, const capture_level *l, span *name, record *r, bool *found, cb_error *err)
{
	enum { PREFIX_BYTES = 9 }; /* kind and parent */
	span k, value;
	*found = l->names && tree_cursor_get(l->names, &k, &value) && k.size > PREFIX_BYTES && k.bytes[0] == KIND_ENTRY &&
	         get_be64(k.bytes + 1) == l->base_ino;
	if (!*found) return CB_OK;
	*name = span_make(k.bytes + PREFIX_BYTES, k.size - PREFIX_BYTES);
	if (!entry_is_link(value)) return entry_record(value, r, err);
	inode node;
	CB_TRY(inode_at(&c->base, l->base_ino, *name, &node, NULL, err));
	*r = node.rec;
	return CB_OK;
}

/* The look has come to `name` (no bytes: to the end of the folder): names of the base before it are gone. */
static cb_code names_pass(capturing *c, span name, capture_item *at, cb_error *err)
{
	capture_level *l = capture_top(c);
	if (!l->whole) return new_pass(c, name, err);
	for (;;) {
		span other;
		record r;
		bool found = false;
		CB_TRY(names_get(c, l, &other, &r, &found, err));
		if (!found) return CB_OK;
		int order = name.bytes ? span_compare(other, name) : -1;
		if (order > 0) return CB_OK;
		if (order == 0) {
			at->exists = true;
			at->there = r;
		} else {
			CB_TRY(is_gone(c, other, &r, err));
		}
		CB_TRY(tree_cursor_next(l->names, err));
		if (order == 0) return CB_OK;
	}
}

static cb_code find_there(capturing *c, capture_item *i, cb_error *err)
{
	const capture_level *l = capture_top(c);
	CB_TRY(names_pass(c, i->name, i, err));
	if (l->whole || !l->base_ino) return CB_OK;
	inode node;
	cb_code code = inode_at(&c->base, l->base_ino, i->name, &node, NULL, err);
	if (code == CB_NOTFOUND) return CB_OK;
	i->exists = code == CB_OK;
	i->there = node.rec;
	return code;
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
	if (e->type != WIRE_ENTRY_DIR) return lie(err);
	bool plain = !c->options->layer;
	capture_level root = {
		.ino = INO_ROOT, .base_ino = INO_ROOT, .layer_ino = plain ? 0 : INO_ROOT, .whole = plain || e->opaque};
	return level_push(c, e, root, err);
}

/* The folder of the layers that is merged with this one. */
static cb_code layer_folder(capturing *c, span name, uint64_t *out, cb_error *err)
{
	const capture_level *parent = capture_top(c);
	inode node;
	*out = 0;
	if (parent->whole) return CB_OK;
	cb_code code = inode_at(&c->layer, parent->layer_ino, name, &node, NULL, err);
	if (code == CB_OK && node.rec.type == CB_DIR) *out = node.rec.ino;
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code take_folder(capturing *c, capture_item *i, cb_error *err)
{
	const wire_entry *e = i->e;
	uint64_t parent = capture_top(c)->ino;
	capture_level l = {0};
	CB_TRY(layer_folder(c, i->name, &l.layer_ino, err));
	l.whole = !l.layer_ino || e->opaque;
	inode node;
	bool changed = false, fresh = !i->exists || i->there.type != CB_DIR;
	if (fresh && e->known) return lie(err);
	if (fresh) {
		CB_TRY(capture_clear(c, i, err));
		CB_TRY(capture_gate(c, GATE_CREATE, parent, i->name, 0, err));
		CB_TRY(inode_create(c->t, parent, i->name, CB_DIR, 0755, &node, err));
		CB_TRY(capture_attributes(c, e, &node, true, &changed, err));
		l.fresh = true;
	} else if (!e->known) {
		tree_view v = txn_view(c->t);
		CB_TRY(inode_at(&v, parent, i->name, &node, NULL, err));
		CB_TRY(capture_attributes(c, e, &node, false, &changed, err));
	}
	l.ino = fresh ? node.rec.ino : i->there.ino;
	l.base_ino = fresh ? 0 : i->there.ino;
	return level_push(c, e, l, err);
}

/* What is made or removed in it changes its time in the box, but the command did that earlier: it is set at the end. */
static cb_code times_later(capturing *c, const capture_level *l, cb_error *err)
{
	if (!l->touched) {
		tree_view v = txn_view(c->t);
		inode node;
		CB_TRY(inode_find(&v, l->ino, &node, err));
		if (node.rec.version != 0) return CB_OK;
	}
	capture_times row = {l->ino, l->mtime_ns, l->atime_ns};
	return buf_append(&c->times, &row, sizeof(row), err);
}

static cb_code times_settle(capturing *c, cb_error *err)
{
	const capture_times *all = (const capture_times *)(const void *)c->times.bytes;
	for (size_t i = 0; i < c->times.size / sizeof(*all); i++)
		CB_TRY(inode_times_set(c->t, all[i].ino, all[i].atime_ns, all[i].mtime_ns, err));
	return CB_OK;
}

static cb_code leave(capturing *c, const wire_entry *e, cb_error *err)
{
	if (c->levels.size == 0 || !span_equal(span_str(e->path), buf_span(&c->path))) return lie(err);
	CB_TRY(names_pass(c, (span){0}, NULL, err));
	capture_level *l = capture_top(c);
	if (l->ino != INO_ROOT) CB_TRY(times_later(c, l, err));
	tree_cursor_close(l->names);
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
	if (folder.size == 0 && gate_reserved(*out)) return lie(err);
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
	char what[64];
	if (i->e->known) return CB_OK; /* it was said when it came */
	(void)snprintf(what, sizeof(what), "left out: %.*s", i->e->data.size < 40 ? (int)i->e->data.size : 40,
	               (const char *)i->e->data.bytes);
	c->result->left_out++;
	capture_note(c, i->e->path, what);
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
		if (!c->options->layer) return lie(err);
		return i->exists ? is_gone(c, i->name, &i->there, err) : CB_OK;
	case WIRE_ENTRY_SPECIAL:
		return take_special(c, i, err);
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

static cb_code look(capturing *c, link_t *l, cb_error *err)
{
	wire_scanned all;
	CB_TRY(link_send(l, WIRE_SCAN, (span){0}, NULL, 0, err));
	for (uint64_t packets = 0;;) {
		const wire_packet *p;
		CB_TRY(link_receive(l, &p, err));
		if (p->type == WIRE_SCAN_END) {
			if (c->levels.size) return lie(err);
			CB_TRY(wire_scanned_get(p->body, &all, err));
			c->result->entries_scanned = all.entries;
			c->result->sandbox_ended = all.ended;
			return CB_OK;
		}
		if (p->type != WIRE_ENTRY) return lie(err);
		CB_TRY(take_packet(c, p, err));
		if (++packets % WIRE_WINDOW == 0) CB_TRY(link_send(l, WIRE_MORE, (span){0}, NULL, 0, err));
	}
}

static void capturing_done(capturing *c)
{
	for (; c->levels.size; c->levels.size -= sizeof(capture_level)) tree_cursor_close(capture_top(c)->names);
	buf *const owned[] = {&c->levels, &c->path, &c->gate_path, &c->gone, &c->added, &c->times, &c->new};
	for (size_t i = 0; i < ARRAY_LEN(owned); i++) buf_done(owned[i]);
	inode_map_done(&c->links);
	inode_map_done(&c->claimed);
	intake_done(&c->intake);
}

static cb_code capture_in(link_t *l, const op *o, const capture_options *options, work_result *out, cb_error *err)
{
	capturing c = {.b = o->b, .t = o->t, .options = options, .result = out};
	c.base = state_view(o->b->cs, o->t->base);
	c.intake = (intake){.t = o->t, .data_next = host_data_next};
	c.levels = c.gone = c.added = c.times = c.new = BUF_INIT(SIZE_MAX);
	c.path = BUF_INIT(WIRE_PACKET_BYTES);
	c.gate_path = BUF_INIT(WIRE_PACKET_BYTES + LIMIT_NAME_BYTES + 8);
	cb_code code = intake_init(&c.intake, err);
	if (code == CB_OK) code = new_fill(&c, err);
	if (code == CB_OK) code = look(&c, l, err);
	if (code == CB_OK) code = capture_gone_settle(&c, err);
	if (code == CB_OK) code = times_settle(&c, err);
	capturing_done(&c);
	return code;
}

cb_code capture(link_t *l, cb_box *b, const capture_options *options, work_result *out, cb_error *err)
{
	op o;
	CB_TRY(op_begin(&o, b, "exec", "", err));
	return op_end(&o, capture_in(l, &o, options, out, err), NULL, err);
}
