/* look.c: looking at a state from outside this layer: see look.h. */
#include "box/look_inside.h"

#include "box/box.h"

#include "box/diff.h"
#include "box/gate.h"
#include "box/intake.h"

/* ---- nodes ---- */

static void set_numbers(box_node *n, const record *r)
{
	n->ino = r->ino;
	n->version = r->version;
	n->size = r->size;
	n->mtime_ns = r->mtime_ns;
	n->ctime_ns = r->ctime_ns;
	n->atime_ns = r->atime_ns;
	n->type = r->type;
	n->mode = r->mode;
	n->links = r->links;
}

record *node_begin(box_node *n)
{
	node_inside *in = (node_inside *)(void *)n->inside;
	in->where.size = 0;
	return &in->rec;
}

void node_end(box_node *n)
{
	set_numbers(n, node_record(n));
}

void node_of_inode(box_node *n, const inode *i)
{
	node_inside *in = (node_inside *)(void *)n->inside;
	set_numbers(n, &i->rec);
	in->rec = i->rec;
	in->where.size = i->where.size;
	memcpy(in->where.bytes, i->where.bytes, i->where.size);
}

const record *node_record(const box_node *n)
{
	return &((const node_inside *)(const void *)n->inside)->rec;
}

cb_stat_info node_stat(const box_node *n)
{
	return record_stat(node_record(n));
}

/* ---- life ---- */

static tree_view veiled(const look *l, const state *s)
{
	tree_view v = state_view(l->b->cs, s);
	return l->veil ? veil_over(l->veil, &v) : v;
}

tree_view look_view(const look *l)
{
	switch (l->kind) {
	case LOOK_HANDLE:
		return l->now.v;
	case LOOK_STATE:
		return veiled(l, l->s);
	case LOOK_PEN:
		return txn_view(l->t);
	default:
		return veiled(l, l->t->base);
	}
}

cb_code look_veil(look *l, cb_box *b, cb_error *err)
{
	if (!b->cs->gate) return CB_OK;
	CB_TRY(box_lock(b, err));
	return box_leave(b, gate_has_rules(b->cs, b) ? veil_create(b->cs, box_governed(&b->row), b->who, &l->veil, err) : CB_OK);
}

static cb_code look_as_seen(cb_box *b, look **out, cb_error *err)
{
	look *l = mem_alloc(sizeof(*l));
	if (!l) return cb_err_nomem(err);
	*l = (look){.kind = LOOK_HANDLE, .b = b};
	cb_code code = snapshot_of(b, &l->now, err);
	if (code == CB_OK) *out = l;
	else free(l);
	return code;
}

/* h holds a state: that is the look. */
static cb_code look_of(cb_box *b, kept_state *h, look **out, cb_error *err)
{
	look *l = mem_alloc(sizeof(*l));
	if (!l) {
		kept_done(h);
		return cb_err_nomem(err);
	}
	*l = (look){.kind = LOOK_STATE, .b = b, .kept = *h, .s = state_ref(h->s)};
	cb_code code = look_veil(l, b, err);
	if (code == CB_OK) *out = l;
	else look_close(l);
	return code;
}

static cb_code look_newest(cb_box *b, look **out, cb_error *err)
{
	kept_state h = {0};
	CB_TRY(box_enter(b, err));
	cb_code code = kept_set(&h, b->cs, b->head, KEPT_COMMAND, err);
	return box_leave(b, code == CB_OK ? look_of(b, &h, out, err) : code);
}

cb_code look_open(cb_box *b, look_at at, look **out, cb_error *err)
{
	return at == LOOK_NEWEST ? look_newest(b, out, err) : look_as_seen(b, out, err);
}

cb_code look_open_at(cb_box *b, const box_place *at, const look *near, look **out, cb_error *err)
{
	kept_state h = {0};
	*out = NULL;
	if (!at->box) return CB_OK;
	if (near && near->kind == LOOK_STATE && near->s->id == at->state) {
		CB_TRY(kept_set(&h, b->cs, near->s, KEPT_COMMAND, err));
		return look_of(b, &h, out, err);
	}
	cb_error why;
	cb_code code = kept_load(&h, b->cs, at->box, at->seq, KEPT_COMMAND, cb_err_aside(&why));
	if (code == CB_NOTFOUND || code == CB_STALE) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	if (h.s->id == at->state) return look_of(b, &h, out, err);
	kept_done(&h);
	return CB_OK;
}

void look_close(look *l)
{
	if (!l) return;
	snapshot_done(&l->now);
	veil_destroy(l->veil);
	kept_done(&l->kept);
	state_unref(l->s);
	free(l);
}

box_place look_place(const look *l)
{
	const state *s = l->kind == LOOK_HANDLE ? l->now.base.s : l->kind == LOOK_STATE ? l->s : l->t->base;
	return (box_place){s->box, s->seq, s->id};
}

cb_code look_count(look *l, uint64_t *out, cb_error *err)
{
	tree_view v = look_view(l);
	counters c;
	CB_TRY(gate_count(&v, &c, err));
	*out = c.files;
	return CB_OK;
}

/* ---- finding ---- */

cb_code look_find(look *l, const char *path, bool follow, box_node *out, cb_error *err)
{
	tree_view v = look_view(l);
	resolved r;
	CB_TRY(path_find(l->b, &v, path, follow ? PATH_FOLLOW : 0, GATE_READ, &r, err));
	node_of_inode(out, &r.node);
	return CB_OK;
}

cb_code look_child(look *l, uint64_t dir, span name, box_node *out, cb_error *err)
{
	tree_view v = look_view(l);
	inode i;
	CB_TRY(inode_at(&v, dir, name, &i, NULL, err));
	node_of_inode(out, &i);
	return CB_OK;
}

cb_code look_node(look *l, uint64_t ino, box_node *out, cb_error *err)
{
	tree_view v = look_view(l);
	inode i;
	CB_TRY(inode_find(&v, ino, &i, err));
	node_of_inode(out, &i);
	return CB_OK;
}

/* ---- data ---- */

cb_code look_read(look *l, const box_node *n, uint64_t offset, void *to, size_t size, cb_error *err)
{
	tree_view v = look_view(l);
	cb_code code = data_read(l->b->cs, look_txn(l), &v, node_record(n), offset, to, size, err);
	return inode_damaged(code, &v, n->ino, err);
}

cb_code look_seek(look *l, const box_node *n, uint64_t offset, bool hole, uint64_t *out, cb_error *err)
{
	tree_view v = look_view(l);
	return data_seek(&v, node_record(n), offset, hole, out, err);
}

static cb_code lend(const look *l, const record *r, span *out, blob **hold, cb_error *err)
{
	*out = (span){0};
	*hold = NULL;
	if (r->form == DATA_INLINE) *out = span_make(r->bytes, (size_t)r->size);
	if (r->form != DATA_CONTENT || r->content & CONTENT_LOCAL || r->size > LIMIT_CONTENT_TABLE_BYTES) return CB_OK;
	blob *content = NULL;
	CB_TRY(store_content_get(l->b->cs->s, r->content, &content, err));
	if (r->start > content->size || r->size > content->size - r->start) {
		blob_unref(content);
		return cb_err_set(err, CB_CORRUPT, "its content is shorter than it");
	}
	*out = span_make(content->bytes + r->start, (size_t)r->size);
	*hold = content;
	return CB_OK;
}

cb_code look_lend(look *l, const box_node *n, span *out, blob **hold, cb_error *err)
{
	tree_view v = look_view(l);
	return inode_damaged(lend(l, node_record(n), out, hold, err), &v, n->ino, err);
}

cb_code look_load(look *l, const box_node *n, uint64_t max, char **out, size_t *out_size, cb_error *err)
{
	tree_view v = look_view(l);
	cb_code code = data_load(l->b->cs, look_txn(l), &v, node_record(n), max, out, out_size, err);
	return inode_damaged(code, &v, n->ino, err);
}

cb_code look_equal(look *a, const box_node *x, look *b, const box_node *y, bool *out, cb_error *err)
{
	tree_view va = look_view(a), vb = look_view(b);
	return data_equal(a->b->cs, look_txn(a), &va, node_record(x), look_txn(b), &vb, node_record(y), out, err);
}

/* ---- what belongs to a node ---- */

typedef struct attribute_listing {
	const look *l;
	look_attribute_visit visit;
	void *context;
} attribute_listing;

static cb_code visit_attribute(void *context, span key_bytes, span value, cb_error *err)
{
	const attribute_listing *a = context;
	key_parts parts;
	char name[LIMIT_NAME_BYTES + 1];
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	CB_TRY(key_parse(key_bytes, &parts, err));
	memcpy(name, parts.name.bytes, parts.name.size);
	name[parts.name.size] = 0;
	CB_TRY(value_load(a->l->b->cs, look_txn(a->l), value, &bytes, &size, err));
	return a->visit(a->context, name, span_make(bytes, size), err);
}

cb_code look_attributes(look *l, const box_node *n, look_attribute_visit visit, void *context, cb_error *err)
{
	tree_view v = look_view(l);
	attribute_listing a = {l, visit, context};
	return inode_keys(&v, n->ino, KIND_ATTR, visit_attribute, &a, err);
}

cb_code look_attribute_rows(look *l, uint64_t ino, buf *rows, cb_error *err)
{
	tree_view v = look_view(l);
	return intake_attributes_of(l->b->cs, look_txn(l), &v, ino, rows, err);
}

cb_code look_has(look *l, const box_node *n, char sort, const char *name, const span *value, bool *out, cb_error *err)
{
	*out = false;
	span text = span_str(name);
	if (text.size == 0 || text.size > LIMIT_NAME_BYTES) return CB_OK;
	tree_view v = look_view(l);
	key k = key_tag(n->ino, sort, text);
	tree_value stored;
	cb_code code = tree_get(&v, key_span(&k), &stored, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return code;
	*out = true;
	if (!value) return CB_OK;
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	CB_TRY(value_load(l->b->cs, look_txn(l), span_make(stored.bytes, stored.size), &bytes, &size, err));
	*out = span_equal(span_make(bytes, size), *value);
	return CB_OK;
}

typedef struct name_listing {
	look_name_visit visit;
	void *context;
} name_listing;

static cb_code visit_name(void *context, span key_bytes, span value, cb_error *err)
{
	const name_listing *n = context;
	key_parts parts;
	(void)value;
	CB_TRY(key_parse(key_bytes, &parts, err));
	return n->visit(n->context, parts.parent, parts.name, err);
}

cb_code look_names(look *l, uint64_t ino, look_name_visit visit, void *context, cb_error *err)
{
	tree_view v = look_view(l);
	name_listing n = {visit, context};
	return inode_keys(&v, ino, KIND_NAME, visit_name, &n, err);
}

cb_code look_path(look *l, uint64_t ino, buf *out, cb_error *err)
{
	tree_view v = look_view(l);
	return inode_path(&v, ino, out, err);
}

/* ---- two of them ---- */

cb_code look_diff(look *from, look *to, cb_change_visit visit, void *context, cb_error *err)
{
	tree_view a = look_view(from), b = look_view(to);
	return diff_views(from->b->cs, &a, &b, visit, context, err);
}

static cb_code visit_new(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	const name_listing *n = context;
	key_parts parts;
	if (old_value.bytes || !new_value.bytes || key_bytes.bytes[0] != KIND_ENTRY) return CB_OK;
	CB_TRY(key_parse(key_bytes, &parts, err));
	return n->visit(n->context, parts.ino, parts.name, err);
}

cb_code look_new_names(look *from, look *to, look_name_visit visit, void *context, cb_error *err)
{
	tree_view a = look_view(from), b = look_view(to);
	name_listing n = {visit, context};
	return tree_diff(&a, &b, visit_new, &n, err);
}

bool box_name_reserved(span name)
{
	return gate_reserved(name);
}

bool box_has_rules(cb_box *b)
{
	CANCEL_SHIELD;
	if (box_lock(b, NULL) != CB_OK) return true;
	bool rules = gate_has_rules(b->cs, b);
	(void)box_leave(b, CB_OK);
	return rules;
}

cb_code box_refuse_rules(cb_box *b, const char *what, cb_error *err)
{
	CB_TRY(box_lock(b, err));
	return box_leave(b, gate_whole(b->cs, b, what, err));
}
