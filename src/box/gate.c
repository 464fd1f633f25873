/*
 * gate.c: what may come into a box: asked for the path that a call names, and again, key by key, for all that the call changed.
 *
 * The second look is the wall; the first only gives the better message. It compares two maps, so it does not matter which call made the
 * change, nor whether that call remembered to ask: an undo, a merge, a folder renamed with all that is in it.
 *
 * What always holds, also without a hook: the system's names at the root of a box belong to the sandbox and cannot be made in a box.
 */
#include "box/veil.h"

#include "base/id_set.h"
#include "box/history.h"

#include <stdio.h>

bool gate_reserved(span name)
{
	static const char *const reserved[] = {"usr", "bin",  "sbin", "lib", "lib32", "lib64", "libx32",
	                                       "etc", "proc", "dev",  "sys", "run",   "var",   "boot"};
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (span_equal(name, span_str(reserved[i]))) return true;
	return false;
}

cb_code gate_reserved_check(uint64_t parent, span name, cb_error *err)
{
	if (parent != INO_ROOT || !gate_reserved(name)) return CB_OK;
	return cb_err_set(err, CB_RESERVED, "'/%.*s' belongs to the system: use another name at the root of a box", (int)name.size,
	                  (const char *)name.bytes);
}

/* ---- handles ---- */

/* With the handle locked. */
static bool is_ruled(cb_box *b)
{
	uint64_t version = gate_version(b->cs);
	if (b->ruled_version == version) return b->ruled;
	b->ruled = gate_has_rules(b->cs, b);
	b->ruled_version = version;
	return b->ruled;
}

cb_code gate_enter(cb_box *b, cb_error *err)
{
	if (!is_ruled(b)) return CB_OK;
	if (!b->veil) CB_TRY(veil_create(b->cs, box_governed(&b->row), b->who, &b->veil, err));
	veil_who_set(b->veil, b->who);
	if (!b->txn) return CB_OK;
	if (!b->txn->veil) CB_TRY(veil_create(b->cs, b->veil->box, b->who, &b->txn->veil, err)); /* begun before there was a rule */
	veil_who_set(b->txn->veil, b->who);
	return CB_OK;
}

cb_code gate_view(const cb_box *b, const tree_view *raw, veil **keep, tree_view *out, cb_error *err)
{
	*out = *raw;
	if (!gate_has_rules(b->cs, b)) return CB_OK;
	CB_TRY(veil_create(b->cs, box_governed(&b->row), b->who, keep, err));
	*out = veil_over(*keep, raw);
	return CB_OK;
}

cb_code gate_folder_read(cb_box *b, const snapshot *s, uint64_t ino, cb_error *err)
{
	veil_folder ignored;
	if (!s->veil) return CB_OK;
	CB_TRY(veil_folder_get(s->veil, ino, &ignored, err));
	veil_know(b->txn ? b->txn->veil : b->veil, s->veil);
	return CB_OK;
}

/* ---- boxes and stores as a whole ---- */

bool gate_rules_for(const cb_store *cs, uint64_t box, const char *who)
{
	const gate *g = cs->gate;
	if (!g) return false;
	if (g->below(g->context, who, box, "/") != GATE_BELOW_NONE) return true;
	static const gate_access all[] = {GATE_READ, GATE_WRITE, GATE_CREATE, GATE_REMOVE};
	for (size_t i = 0; box && i < ARRAY_LEN(all); i++) { /* one that lies at it */
		gate_request root = {.who = who, .box = box, .access = all[i], .path = "/", .ino = INO_ROOT, .type = CB_DIR};
		if (g->ask(g->context, &root) != GATE_PASS) return true;
	}
	return false;
}

static const char *who_of(const cb_store *cs)
{
	const struct store_who *w = atomic_load(&cs->who);
	return w ? w->name : "";
}

bool gate_has_rules(const cb_store *cs, const cb_box *b)
{
	if (!cs->gate) return false;
	return b ? gate_rules_for(cs, box_governed(&b->row), b->who) : gate_rules_for(cs, 0, who_of(cs));
}

cb_code gate_whole(const cb_store *cs, const cb_box *b, const char *what, cb_error *err)
{
	if (!gate_has_rules(cs, b)) return CB_OK;
	return cb_err_set(err, CB_DENIED, "%s takes everything, and rules lie in %s: ask who set them", what,
	                  b ? "the box" : "this store");
}

cb_code gate_deed_check(const cb_store *cs, uint64_t box, const char *who, gate_deed deed, cb_error *err)
{
	const gate *g = cs->gate;
	if (!g || !g->allows || g->allows(g->context, who, box, deed)) return CB_OK;
	return cb_err_set(err, CB_DENIED, deed == GATE_PRUNE ? "a rule keeps the history of the box" : "a rule keeps the box");
}

cb_code gate_forked(const cb_store *cs, const char *who, uint64_t from, uint64_t to, cb_error *err)
{
	const gate *g = cs->gate;
	if (!g) return CB_OK;
	if (g->forked) return g->forked(g->context, from, to, err);
	if (!gate_rules_for(cs, from, who)) return CB_OK;
	return cb_err_set(err, CB_DENIED, "rules lie in the box, and a fork would be without them");
}

/* The record of an entry, wherever it is kept. */
static cb_code entry_of(const veil *side, const key_parts *k, span value, record *out, cb_error *err)
{
	entry e;
	inode node;
	CB_TRY(entry_decode(value, &e, err));
	*out = e.rec;
	if (!e.is_link) return CB_OK;
	CB_TRY(inode_at(&side->raw, k->ino, k->name, &node, NULL, err));
	*out = node.rec;
	return CB_OK;
}

/* What a state holds and does not show: counted where rules lie, for the whole is counted already. */
typedef struct counting {
	veil *v;
	buf near;    /* uint64_t: folders that are shown and have a rule below them */
	buf inside;  /* uint64_t: folders of what is hidden */
	id_set seen; /* files with several names, one of which is hidden */
	counters hidden;
} counting;

static cb_code count_hidden(counting *c, const record *r, cb_error *err)
{
	bool was = false;
	if (r->type == CB_DIR) CB_TRY(buf_append(&c->inside, &r->ino, sizeof(r->ino), err));
	else if (r->links > 1) CB_TRY(id_set_add(&c->seen, r->ino, &was, err));
	if (was) return CB_OK;
	c->hidden.files++;
	c->hidden.bytes += r->size;
	return CB_OK;
}

static cb_code count_near(counting *c, const veil_folder *f, uint64_t dir, span name, const record *r, cb_error *err)
{
	gate_answer answer = GATE_PASS;
	if (f->below == GATE_BELOW_INSIDE) CB_TRY(veil_ask_name(c->v, GATE_READ, dir, name, r->ino, r->type, &answer, err));
	if (answer != GATE_PASS) return count_hidden(c, r, err);
	if (r->type != CB_DIR) return CB_OK;
	veil_folder in;
	CB_TRY(veil_folder_get(c->v, r->ino, &in, err));
	return in.below == GATE_BELOW_NONE ? CB_OK : buf_append(&c->near, &r->ino, sizeof(r->ino), err);
}

/* near NULL: the folder is hidden. */
static cb_code count_entries(counting *c, uint64_t dir, const veil_folder *near, cb_error *err)
{
	key prefix = key_prefix(KIND_ENTRY, dir);
	AUTO_CURSOR tree_cursor *at = NULL;
	span k, value;
	CB_TRY(tree_cursor_open_below(&c->v->raw, key_span(&prefix), &at, err));
	while (tree_cursor_get(at, &k, &value) && span_starts(k, key_span(&prefix))) {
		key_parts parts;
		record r;
		CB_TRY(key_parse(k, &parts, err));
		CB_TRY(entry_of(c->v, &parts, value, &r, err));
		CB_TRY(near ? count_near(c, near, dir, parts.name, &r, err) : count_hidden(c, &r, err));
		CB_TRY(tree_cursor_next(at, err));
	}
	return CB_OK;
}

static uint64_t last_taken(buf *list)
{
	uint64_t ino;
	list->size -= sizeof(ino);
	memcpy(&ino, list->bytes + list->size, sizeof(ino));
	return ino;
}

static cb_code count_all(counting *c, cb_error *err)
{
	const uint64_t root = INO_ROOT;
	CB_TRY(buf_append(&c->near, &root, sizeof(root), err));
	while (c->near.size || c->inside.size) {
		CB_TRY(cancel_check(err));
		if (c->inside.size) {
			CB_TRY(count_entries(c, last_taken(&c->inside), NULL, err));
			continue;
		}
		uint64_t ino = last_taken(&c->near);
		veil_folder f;
		CB_TRY(veil_folder_get(c->v, ino, &f, err));
		CB_TRY(count_entries(c, ino, f.answers[GATE_READ] == GATE_PASS ? &f : NULL, err));
	}
	return CB_OK;
}

cb_code gate_count(const tree_view *v, counters *out, cb_error *err)
{
	tree_view raw = view_raw(v);
	key k = key_counters();
	tree_value value;
	*out = (counters){0};
	cb_code code = tree_get(&raw, key_span(&k), &value, err);
	if (code == CB_OK) code = counters_decode(span_make(value.bytes, value.size), out, err);
	if (code != CB_OK || !v->veil) return code == CB_NOTFOUND ? CB_OK : code;
	counting c = {.v = veil_of(v), .near = BUF_INIT(SIZE_MAX), .inside = BUF_INIT(SIZE_MAX)};
	veil_freshen(c.v);
	code = count_all(&c, err);
	out->files -= c.hidden.files;
	out->bytes -= c.hidden.bytes;
	buf_done(&c.near);
	buf_done(&c.inside);
	id_set_done(&c.seen);
	return code;
}

/* ---- named by the caller ---- */

static cb_code refuse(const char *path, cb_error *err)
{
	return cb_err_set(err, CB_DENIED, "a rule keeps '%s' as it is", path);
}

static cb_code refuse_read(const char *path, cb_error *err)
{
	return cb_err_set(err, CB_DENIED, "a rule keeps '%s' from being read", path);
}

/* As if it were not there, and what cannot be there cannot be made. */
static cb_code code_of(gate_answer answer, gate_access access, const char *path, cb_error *err)
{
	switch (answer) {
	case GATE_PASS:
		return CB_OK;
	case GATE_HIDDEN:
		if (access == GATE_CREATE) return refuse(path, err);
		return cb_err_set(err, CB_NOTFOUND, "no such file or folder: '%s'", path);
	case GATE_DENIED:
		return access == GATE_READ ? refuse_read(path, err) : refuse(path, err);
	}
	return CB_OK;
}

cb_code gate_missing(const tree_view *v, uint64_t parent, span name, cb_error *err)
{
	veil *veiled = veil_of(v);
	inode node;
	gate_answer answer = GATE_HIDDEN;
	if (!veiled) return CB_NOTFOUND;
	cb_code code = inode_at(&veiled->raw, parent, name, &node, NULL, err);
	if (code != CB_OK) return code;
	CB_TRY(veil_ask_node(veiled, GATE_READ, node.rec.ino, &answer, err));
	return answer == GATE_DENIED ? cb_err_set(err, CB_DENIED, "a rule keeps it from being read") : CB_NOTFOUND;
}

static cb_code resolved_ask(const tree_view *v, const char *path, gate_access access, const resolved *r, cb_error *err)
{
	veil *veiled = veil_of(v);
	gate_answer answer = GATE_PASS;
	if (!veiled || r->too_long) return CB_OK;
	veil_freshen(veiled);
	if (r->exists) {
		if (access == GATE_READ) return CB_OK; /* the veil showed it */
		CB_TRY(veil_ask_at(veiled, access == GATE_CREATE ? GATE_WRITE : access, r->parent, resolved_name(r), &r->node.rec,
		                   r->is_link, &answer, err));
		return code_of(answer, access, path, err);
	}
	if (access != GATE_CREATE) return CB_OK;
	inode there;
	cb_code code = inode_at(&veiled->raw, r->parent, resolved_name(r), &there, NULL, err);
	if (code == CB_OK) return refuse(path, err); /* something is there that the caller does not see */
	if (code != CB_NOTFOUND) return code;
	CB_TRY(veil_ask_name(veiled, access, r->parent, resolved_name(r), 0, 0, &answer, err));
	return code_of(answer, access, path, err);
}

cb_code gate_resolved(cb_box *b, const tree_view *v, const char *path, gate_access access, const resolved *r, cb_error *err)
{
	if (access == GATE_CREATE && !r->exists) {
		cb_code reserved = gate_reserved_check(r->parent, resolved_name(r), err);
		if (reserved != CB_OK) return b->changing ? reserved : box_refused(b, "write", path, reserved, err);
	}
	if (!v->veil) return CB_OK;
	cb_code code = resolved_ask(v, path, access, r, err);
	if (code == CB_OK || b->changing) return code; /* op_end records refusals of changing calls */
	return box_refused(b, access == GATE_READ ? "read" : "write", path, code, err);
}

cb_code gate_key(cb_box *b, gate_access access, span name, cb_error *err)
{
	if (!b->ruled || !b->veil) return CB_OK;
	gate_answer answer = veil_ask_key(b->veil, access, name);
	char text[LIMIT_NAME_BYTES + 1];
	(void)snprintf(text, sizeof(text), "%.*s", (int)name.size, (const char *)name.bytes);
	if (answer == GATE_PASS) return CB_OK;
	if (answer == GATE_HIDDEN && (access == GATE_READ || access == GATE_REMOVE))
		return cb_err_set(err, CB_NOTFOUND, "no key '%s'", text);
	cb_code code = access == GATE_READ ? cb_err_set(err, CB_DENIED, "a rule keeps key '%s' from being read", text)
	                                   : cb_err_set(err, CB_DENIED, "a rule keeps key '%s' as it is", text);
	return b->changing ? code : box_refused(b, access == GATE_READ ? "read" : "write", text, code, err);
}

cb_code gate_entry(const txn *t, gate_access access, uint64_t parent, span name, uint64_t ino, cb_error *err)
{
	if (access == GATE_CREATE && ino == 0) CB_TRY(gate_reserved_check(parent, name, err));
	tree_view v = txn_view(t);
	if (!v.veil || box_is_base(&t->b->row)) return CB_OK; /* weighed at its end */
	resolved r = {.parent = parent, .name_size = name.size, .exists = ino != 0, .is_link = true};
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	tree_view raw = txn_raw(t);
	memcpy(r.name, name.bytes, name.size);
	r.node.rec.ino = ino;
	CB_TRY(veil_path(&raw, parent, name, &path, err));
	return resolved_ask(&v, (const char *)path.bytes, access, &r, err);
}

cb_code gate_may_touch(const txn *t, uint64_t ino, bool *out, cb_error *err)
{
	tree_view v = txn_view(t);
	veil *veiled = veil_of(&v);
	gate_answer answer = GATE_PASS;
	if (veiled) veil_freshen(veiled);
	if (veiled && !box_is_base(&t->b->row)) CB_TRY(veil_ask_node(veiled, GATE_WRITE, ino, &answer, err));
	*out = answer == GATE_PASS;
	return CB_OK;
}

cb_code gate_shows(const tree_view *v, const key *k, bool *out, cb_error *err)
{
	tree_value value;
	cb_code code = tree_get(v, key_span(k), &value, err);
	*out = code == CB_OK;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* ---- all that changed ---- */

typedef struct weighing {
	veil *before, *after;
	/* Times of a folder follow its entries, which are asked about themselves: only where none of them changed did somebody set them. */
	id_set entered; /* folders of which an entry came or went */
	buf touched;    /* uint64_t: folders with other times */
	bool only_seen; /* the hidden companion of a box, which follows the host: rules say what of it is seen, not what is kept as it is */
} weighing;

static gate_access weighed_as(const weighing *w, gate_access access)
{
	return w->only_seen ? GATE_READ : access;
}

/* Of what is hidden not even the name is told. */
static cb_code weigh(const veil *side, gate_answer answer, uint64_t parent, span name, cb_error *err)
{
	if (answer == GATE_PASS) return CB_OK;
	if (answer == GATE_HIDDEN) return cb_err_set(err, CB_DENIED, "it would change what a rule keeps from this handle");
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	CB_TRY(veil_path(&side->raw, parent, name, &path, err));
	return refuse((const char *)path.bytes, err);
}

/* A folder that leaves its place, or comes to another with all that is in it, must not slip from under the rules below. */
static cb_code folder_slips(veil *side, uint64_t parent, span name, cb_error *err)
{
	const gate *g = side->cs->gate;
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	veil_folder in;
	CB_TRY(veil_folder_get(side, parent, &in, err));
	if (veil_folder_quiet(&in)) return CB_OK;
	CB_TRY(veil_path(&side->raw, parent, name, &path, err));
	if (!g || g->below(g->context, side->who, side->box, (const char *)path.bytes) == GATE_BELOW_NONE) return CB_OK;
	return cb_err_set(err, CB_DENIED, "rules lie below '%s': it cannot be moved, copied or removed as a whole",
	                  (const char *)path.bytes);
}

cb_code gate_copied(const tree_view *v, const resolved *r, cb_error *err)
{
	veil *veiled = veil_of(v);
	if (!veiled || r->node.rec.type != CB_DIR) return CB_OK;
	return folder_slips(veiled, r->parent, resolved_name(r), err);
}

static cb_code weigh_name(veil *side, gate_access access, const key_parts *k, const record *r, cb_error *err)
{
	gate_answer answer = GATE_PASS;
	CB_TRY(veil_ask_name(side, access, k->ino, k->name, r->ino, r->type, &answer, err));
	return weigh(side, answer, k->ino, k->name, err);
}

static cb_code weigh_removed(const weighing *w, const key_parts *k, const record *was, cb_error *err)
{
	CB_TRY(weigh_name(w->before, weighed_as(w, GATE_REMOVE), k, was, err));
	if (was->type != CB_DIR) return CB_OK;
	if (!w->only_seen) CB_TRY(folder_slips(w->before, k->ino, k->name, err));
	/* Gone for good, and something is still in it that nobody saw. */
	inode node;
	bool empty = true;
	cb_code code = inode_find(&w->after->raw, was->ino, &node, err);
	if (code == CB_OK) return CB_OK;
	if (code != CB_NOTFOUND) return code;
	CB_TRY(inode_is_dir_empty(&w->after->raw, was->ino, &empty, err));
	return empty ? CB_OK : cb_err_set(err, CB_DENIED, "it would change what a rule keeps from this handle");
}

static cb_code weigh_added(const weighing *w, const key_parts *k, const record *is, cb_error *err)
{
	CB_TRY(weigh_name(w->after, weighed_as(w, GATE_CREATE), k, is, err));
	if (is->type != CB_DIR) return CB_OK;
	inode node;
	cb_code code = inode_find(&w->before->raw, is->ino, &node, err);
	if (code == CB_NOTFOUND) return CB_OK; /* new: what is in it is new too and asked about */
	return code == CB_OK && !w->only_seen ? folder_slips(w->after, k->ino, k->name, err) : code;
}

static cb_code weigh_entry(weighing *w, const key_parts *k, span key_bytes, span old_value, span new_value, cb_error *err)
{
	record was = {0}, is = {0};
	bool touch = false;
	if (old_value.bytes) CB_TRY(entry_of(w->before, k, old_value, &was, err));
	if (new_value.bytes) CB_TRY(entry_of(w->after, k, new_value, &is, err));
	if (old_value.bytes && new_value.bytes && was.ino == is.ino) {
		gate_answer answer = GATE_PASS;
		CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
		if (touch) return buf_append(&w->touched, &is.ino, sizeof(is.ino), err);
		CB_TRY(veil_ask_at(w->after, weighed_as(w, GATE_WRITE), k->ino, k->name, &is, entry_is_link(new_value), &answer,
		                   err));
		return weigh(w->after, answer, k->ino, k->name, err);
	}
	CB_TRY(id_set_add(&w->entered, k->ino, &touch, err));
	if (old_value.bytes) CB_TRY(weigh_removed(w, k, &was, err));
	return new_value.bytes ? weigh_added(w, k, &is, err) : CB_OK;
}

static cb_code weigh_node(const weighing *w, uint64_t ino, cb_error *err)
{
	gate_answer answer = GATE_PASS;
	place first = {0};
	CB_TRY(veil_ask_node(w->after, weighed_as(w, GATE_WRITE), ino, &answer, err));
	if (answer == GATE_PASS) return CB_OK;
	cb_code code = ino == INO_ROOT ? CB_OK : inode_place(&w->after->raw, ino, &first, err);
	if (code == CB_NOTFOUND) return CB_OK; /* gone: asked about where its names went */
	return code != CB_OK ? code : weigh(w->after, answer, first.parent, place_name(&first), err);
}

static cb_code weigh_key_value(const weighing *w, span name, bool was, bool is, cb_error *err)
{
	gate_access access = was && is ? GATE_WRITE : is ? GATE_CREATE : GATE_REMOVE;
	gate_answer answer = veil_ask_key(w->after, weighed_as(w, access), name);
	if (answer == GATE_PASS) return CB_OK;
	if (answer == GATE_HIDDEN) return cb_err_set(err, CB_DENIED, "it would change what a rule keeps from this handle");
	return cb_err_set(err, CB_DENIED, "a rule keeps key '%.*s' as it is", (int)name.size, (const char *)name.bytes);
}

static cb_code weigh_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	weighing *w = context;
	key_parts k;
	CB_TRY(key_parse(key_bytes, &k, err));
	switch (k.kind) {
	case KIND_ENTRY:
		return weigh_entry(w, &k, key_bytes, old_value, new_value, err);
	case KIND_NAME: /* follows the entries */
	case KIND_COUNTERS:
		return CB_OK;
	case KIND_KV:
		return weigh_key_value(w, k.name, old_value.bytes != NULL, new_value.bytes != NULL, err);
	default:
		return weigh_node(w, k.ino, err);
	}
}

static cb_code weigh_times(const weighing *w, cb_error *err)
{
	const uint64_t *all = (const uint64_t *)(const void *)w->touched.bytes;
	for (size_t i = 0; i < w->touched.size / sizeof(*all); i++)
		if (!id_set_has(&w->entered, all[i])) CB_TRY(weigh_node(w, all[i], err));
	return CB_OK;
}

static cb_code weigh_sides(veil *old, veil *new, bool only_seen, cb_error *err)
{
	weighing w = {old, new, .touched = BUF_INIT(SIZE_MAX), .only_seen = only_seen};
	veil_freshen(old);
	veil_freshen(new);
	cb_code code = tree_diff(&old->raw, &new->raw, weigh_key, &w, err);
	if (code == CB_OK) code = weigh_times(&w, err);
	id_set_done(&w.entered);
	buf_done(&w.touched);
	return code;
}

cb_code gate_weigh(const cb_box *b, const tree_view *from, const tree_view *to, cb_error *err)
{
	AUTO_VEIL veil *old = NULL, *new = NULL;
	tree_view ignored;
	CB_TRY(gate_view(b, from, &old, &ignored, err));
	CB_TRY(gate_view(b, to, &new, &ignored, err));
	return old && new ? weigh_sides(old, new, false, err) : CB_OK;
}

cb_code gate_changes(txn *t, cb_error *err)
{
	if (!is_ruled(t->b)) return CB_OK;
	if (!t->veil) CB_TRY(veil_create(t->cs, box_governed(&t->b->row), t->b->who, &t->veil, err)); /* a rule came meanwhile */
	uint64_t version = gate_version(t->cs);
	/* What passed under the same rules, for the same who, need not pass again. */
	bool known = t->passed_version == version;
	if (known && t->passed.root == t->delta.root) return CB_OK;
	veil_who_set(t->veil, t->b->who);
	tree_view before = state_view(t->cs, t->base);
	if (known) before.delta = &t->passed;
	AUTO_VEIL veil *old = NULL;
	CB_TRY(veil_create(t->cs, t->veil->box, t->b->who, &old, err));
	veil_know(old, t->veil);
	(void)veil_over(old, &before);
	(void)txn_view(t);
	CB_TRY(weigh_sides(old, t->veil, box_is_base(&t->b->row), err));
	pmap_done(&t->passed);
	t->passed = pmap_ref(&t->delta);
	t->passed_version = version;
	return CB_OK;
}
