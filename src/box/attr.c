/* attr.c: extended attributes, tags, metadata and key-values: all of them keys of the map. */
#include "base/args.h"
#include "base/sized.h"
#include "box/cursor.h"
#include "box/gate.h"

static cb_code name_span(const char *name, const char *what, span *out, cb_error *err)
{
	*out = span_str(name);
	if (out->size == 0) return cb_err_set(err, CB_INVALID, "%s must not be empty", what);
	if (out->size > LIMIT_NAME_BYTES) return cb_err_set(err, CB_NAMETOOLONG, "%s may have %d bytes", what, LIMIT_NAME_BYTES);
	return CB_OK;
}

/* The inode is marked as changed: ctime, and version because the file's attributes are part of it. */
static cb_code mark_changed(txn *t, inode *node, cb_error *err)
{
	inode_changed(t, node, false);
	return inode_save(t, node, err);
}

typedef struct attr_key {
	uint8_t kind; /* KIND_ATTR or KIND_TAG */
	char sort;
} attr_key;

static const attr_key xattr_kind = {KIND_ATTR, 0};
static const attr_key tag_kind = {KIND_TAG, 't'};
static const attr_key meta_kind = {KIND_TAG, 'm'};

static key attr_make_key(attr_key kind, uint64_t ino, span name)
{
	return kind.kind == KIND_ATTR ? key_attr(ino, name) : key_tag(ino, kind.sort, name);
}

static cb_code attr_put(op *o, const char *path, attr_key kind, const char *name, const void *value, size_t size, unsigned flags,
                        cb_error *err)
{
	span n;
	CB_TRY(name_span(name, "the name of an attribute or tag", &n, err));
	/* No kernel takes it, so no program could be given it. */
	if (kind.kind == KIND_ATTR && span_equal(n, span_str("user.")))
		return cb_err_set(err, CB_INVALID, "the name of an attribute must go on after 'user.'");
	if (size > LIMIT_XATTR_VALUE_BYTES) return cb_err_set(err, CB_TOOBIG, "a value may have %d bytes", LIMIT_XATTR_VALUE_BYTES);
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, path_how(flags), GATE_WRITE, &r, err));
	key k = attr_make_key(kind, r.node.rec.ino, n);
	tree_value present;
	bool same = false;
	if (kind.sort == 't') {
		cb_code code = txn_get(o->t, &k, &present, err);
		if (code != CB_NOTFOUND) return code; /* it has the tag */
		present.size = 0;
		CB_TRY(txn_put(o->t, &k, &present, err));
	} else {
		CB_TRY(value_is(o->t, &k, span_make(value, size), &same, err));
		if (same) return CB_OK;
		CB_TRY(value_store(o->t, &k, value, size, err));
	}
	return mark_changed(o->t, &r.node, err);
}

static cb_code attr_remove(op *o, const char *path, attr_key kind, const char *name, unsigned flags, cb_error *err)
{
	span n;
	CB_TRY(name_span(name, "the name of an attribute or tag", &n, err));
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, path_how(flags), GATE_WRITE, &r, err));
	key k = attr_make_key(kind, r.node.rec.ino, n);
	tree_value present;
	cb_code code = txn_get(o->t, &k, &present, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NODATA, "'%s' has no '%s'", path, name);
	if (code != CB_OK) return code;
	CB_TRY(txn_delete(o->t, &k, err));
	return mark_changed(o->t, &r.node, err);
}

static cb_code attr_get(cb_box *b, const char *path, attr_key kind, const char *name, unsigned flags, char **out, size_t *out_size,
                        cb_error *err)
{
	span n;
	CB_TRY(name_span(name, "the name of an attribute or tag", &n, err));
	tree_view v = box_view(b);
	resolved r;
	CB_TRY(path_find(b, &v, path, path_how(flags), GATE_READ, &r, err));
	key k = attr_make_key(kind, r.node.rec.ino, n);
	tree_value value;
	cb_code code = tree_get(&v, key_span(&k), &value, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NODATA, "'%s' has no '%s'", path, name);
	if (code != CB_OK) return code;
	return value_load(b->cs, b->txn, span_make(value.bytes, value.size), out, out_size, err);
}

/* ---- compared ---- */

typedef struct mark_list {
	const cb_store *cs;
	const txn *t;
	buf out;
} mark_list;

static cb_code mark_add(void *context, span key_bytes, span value, cb_error *err)
{
	mark_list *l = context;
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	if (value.size) CB_TRY(value_load(l->cs, l->t, value, &bytes, &size, err)); /* a tag has none */
	span name = span_make(key_bytes.bytes + KEY_OWNER_BYTES, key_bytes.size - KEY_OWNER_BYTES);
	const size_t sizes[] = {name.size, size};
	CB_TRY(buf_append(&l->out, sizes, sizeof(sizes), err));
	CB_TRY(buf_append(&l->out, name.bytes, name.size, err));
	return size ? buf_append(&l->out, bytes, size, err) : CB_OK;
}

cb_code marks_equal(const cb_store *cs, const txn *ta, const tree_view *va, uint64_t a, const txn *tb, const tree_view *vb,
                    uint64_t b, uint8_t kind, bool *out, cb_error *err)
{
	mark_list x = {cs, ta, BUF_INIT(SIZE_MAX)}, y = {cs, tb, BUF_INIT(SIZE_MAX)};
	cb_code code = inode_keys(va, a, kind, mark_add, &x, err);
	if (code == CB_OK) code = inode_keys(vb, b, kind, mark_add, &y, err);
	*out = code == CB_OK && span_equal(buf_span(&x.out), buf_span(&y.out));
	buf_done(&x.out);
	buf_done(&y.out);
	return code;
}

/* ---- lists ---- */

/* Names with their values: keys of the map with one prefix. */
typedef struct name_cursor {
	cb_cursor c;
	snapshot now;
	tree_cursor *at;
	key prefix;
	char sort;      /* of tags and metadata, which are mixed in the map; else 0 */
	size_t name_at; /* in the keys */
	char text[LIMIT_NAME_BYTES + 1];
	char *value;
	bool stands; /* on what was looked at last */
	cb_name name;
} name_cursor;

static cb_code name_give(name_cursor *n, span name, span value, const void **out, cb_error *err)
{
	memcpy(n->text, name.bytes, name.size);
	n->text[name.size] = 0;
	n->name = CB_WITH(cb_name, .name = n->text);
	if (n->sort != 't') {
		CB_TRY(value_load(n->c.cs, n->now.t, value, &n->value, &n->name.value_size, err));
		n->name.value = n->value;
	}
	*out = &n->name;
	return CB_OK;
}

static cb_code name_next(cb_cursor *c, const void **out, cb_error *err)
{
	name_cursor *n = (name_cursor *)c;
	free(TAKE_PTR(n->value));
	span k, value;
	*out = NULL;
	if (!n->at) return CB_OK; /* nothing to go through */
	for (;;) {
		if (n->stands) CB_TRY(tree_cursor_next(n->at, err));
		n->stands = true;
		if (!tree_cursor_get(n->at, &k, &value) || !span_starts(k, key_span(&n->prefix))) return CB_OK;
		if (k.size < n->name_at || k.size - n->name_at > LIMIT_NAME_BYTES) { /* damage: it says so */
			key_parts parts;
			CB_TRY(key_parse(k, &parts, err));
			continue;
		}
		if (!n->sort || k.bytes[n->name_at - 1] == (uint8_t)n->sort)
			return name_give(n, span_make(k.bytes + n->name_at, k.size - n->name_at), value, out, err);
	}
}

static void name_done(cb_cursor *c)
{
	name_cursor *n = (name_cursor *)c;
	tree_cursor_close(n->at);
	snapshot_done(&n->now);
	free(n->value);
}

static cb_code name_open(cb_box *b, char sort, name_cursor **out, cb_error *err)
{
	static const cursor_ops ops = {CURSOR_NAMES, name_next, name_done, false};
	CB_TRY(cursor_create(sizeof(**out), &ops, b->cs, b, out, err));
	(*out)->sort = sort;
	return CB_OK;
}

/* Between enter and leave, once the snapshot was taken: goes through the keys with that prefix. */
static cb_code name_start(name_cursor *n, const cb_box *b, const key *prefix, cb_error *err)
{
	n->prefix = *prefix;
	n->name_at = prefix->bytes[0] == KIND_KV ? 1 : n->sort ? 10 : 9; /* behind the kind, the inode, the sort */
	CB_TRY(snapshot_contents(&n->now, b, key_span(&n->prefix), err));
	return tree_cursor_open_below(&n->now.v, key_span(&n->prefix), &n->at, err);
}

static cb_code attr_open(cb_box *b, const char *path, attr_key kind, unsigned flags, cb_cursor **out, cb_error *err)
{
	name_cursor *n = NULL;
	resolved r;
	NEED(err, "box path out", b, path, out);
	CB_TRY(box_enter(b, err));
	cb_code code = name_open(b, kind.sort, &n, err);
	if (code == CB_OK) code = snapshot_take(b, &n->now, err);
	if (code == CB_OK) code = path_find(b, &n->now.v, path, path_how(flags), GATE_READ, &r, err);
	if (code == CB_OK) {
		key prefix = key_prefix(kind.kind, r.node.rec.ino);
		code = name_start(n, b, &prefix, err);
	}
	(void)box_leave(b, CB_OK);
	if (code == CB_OK) *out = &n->c;
	else cb_cursor_close(n ? &n->c : NULL);
	return code;
}

/* Visits what is left and closes it. */
static cb_code names_visit(cb_cursor *c, cb_name_visit visit, void *context, cb_error *err)
{
	cb_code code;
	cb_error told;
	for (;;) {
		const void *item = NULL;
		code = cursor_next(c, &item, err);
		const cb_name *n = item;
		if (code != CB_OK || !n) break;
		code = visit(context, n->name, n->value, n->value_size, cb_err_aside(&told));
		code = cb_err_visited(code, &told, err);
		if (code == CB_OK) continue;
		if (code == CB_INTERRUPTED) code = CB_OK;
		break;
	}
	cb_cursor_close(c);
	return code;
}

cb_code cb_xattr_set(cb_box *b, const char *path, const char *name, const void *value, size_t size, unsigned flags, cb_error *err)
{
	NEED(err, "box path name", b, path, name);
	CB_TRY(args_bytes("value", value, size, err));
	CB_TRY(args_flags(flags, CB_NOFOLLOW, err));
	op o;
	CB_TRY(op_begin(&o, b, "xattr", path, err));
	return op_end(&o, attr_put(&o, path, xattr_kind, name, value, sized_bytes(value, size).size, flags, err), NULL, err);
}

cb_code cb_xattr_get(cb_box *b, const char *path, const char *name, unsigned flags, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "box path name out", b, path, name, out);
	CB_TRY(args_flags(flags, CB_NOFOLLOW, err));
	CB_TRY(box_enter(b, err));
	return box_leave(b, attr_get(b, path, xattr_kind, name, flags, out, out_size, err));
}

cb_code cb_xattr_remove(cb_box *b, const char *path, const char *name, unsigned flags, cb_error *err)
{
	NEED(err, "box path name", b, path, name);
	CB_TRY(args_flags(flags, CB_NOFOLLOW, err));
	op o;
	CB_TRY(op_begin(&o, b, "xattr", path, err));
	return op_end(&o, attr_remove(&o, path, xattr_kind, name, flags, err), NULL, err);
}

cb_code cb_xattr_open(cb_box *b, const char *path, unsigned flags, cb_cursor **out, cb_error *err)
{
	CB_TRY(args_flags(flags, CB_NOFOLLOW, err));
	return attr_open(b, path, xattr_kind, flags, out, err);
}

cb_code cb_xattr_list(cb_box *b, const char *path, unsigned flags, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	cb_cursor *c = NULL;
	CB_TRY(cb_xattr_open(b, path, flags, &c, err));
	return names_visit(c, visit, context, err);
}

cb_code cb_tag_add(cb_box *b, const char *path, const char *tag, cb_error *err)
{
	NEED(err, "box path tag", b, path, tag);
	op o;
	CB_TRY(op_begin(&o, b, "tag", path, err));
	return op_end(&o, attr_put(&o, path, tag_kind, tag, "", 0, 0, err), NULL, err);
}

cb_code cb_tag_remove(cb_box *b, const char *path, const char *tag, cb_error *err)
{
	NEED(err, "box path tag", b, path, tag);
	op o;
	CB_TRY(op_begin(&o, b, "tag", path, err));
	return op_end(&o, attr_remove(&o, path, tag_kind, tag, 0, err), NULL, err);
}

cb_code cb_tag_open(cb_box *b, const char *path, cb_cursor **out, cb_error *err)
{
	return attr_open(b, path, tag_kind, 0, out, err);
}

cb_code cb_tag_list(cb_box *b, const char *path, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	cb_cursor *c = NULL;
	CB_TRY(cb_tag_open(b, path, &c, err));
	return names_visit(c, visit, context, err);
}

cb_code cb_meta_set(cb_box *b, const char *path, const char *name, const void *value, size_t size, cb_error *err)
{
	NEED(err, "box path name", b, path, name);
	CB_TRY(args_bytes("value", value, size, err));
	op o;
	CB_TRY(op_begin(&o, b, "meta", path, err));
	cb_code code = value ? attr_put(&o, path, meta_kind, name, value, sized_bytes(value, size).size, 0, err)
	                     : attr_remove(&o, path, meta_kind, name, 0, err);
	return op_end(&o, code, NULL, err);
}

cb_code cb_meta_get(cb_box *b, const char *path, const char *name, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "box path name out", b, path, name, out);
	CB_TRY(box_enter(b, err));
	return box_leave(b, attr_get(b, path, meta_kind, name, 0, out, out_size, err));
}

cb_code cb_meta_open(cb_box *b, const char *path, cb_cursor **out, cb_error *err)
{
	return attr_open(b, path, meta_kind, 0, out, err);
}

cb_code cb_meta_list(cb_box *b, const char *path, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	cb_cursor *c = NULL;
	CB_TRY(cb_meta_open(b, path, &c, err));
	return names_visit(c, visit, context, err);
}

/* ---- key-values ---- */

typedef struct kv_setting {
	const char *name;
	span value;
} kv_setting;

static cb_code kv_set(op *o, void *context, cb_error *err)
{
	const kv_setting *s = context;
	span n;
	CB_TRY(name_span(s->name, "a key", &n, err));
	if (s->value.size > LIMIT_KV_VALUE_BYTES)
		return cb_err_set(err, CB_TOOBIG, "a value may have %d bytes", LIMIT_KV_VALUE_BYTES);
	CB_TRY(gate_key(o->b, GATE_WRITE, n, err));
	key k = key_kv(n);
	o->t->rebases = o->own;
	CB_TRY(expect_written(o->t, &k, err));
	/* A small one lies in the map, where a commit sees that it ends as it began; a large one would be a content of its own. */
	bool same = false;
	if (s->value.size > LIMIT_INLINE_BYTES) CB_TRY(value_is(o->t, &k, s->value, &same, err));
	if (same) return CB_OK;
	return value_store(o->t, &k, s->value.bytes, s->value.size, err);
}

cb_code cb_kv_set(cb_box *b, const char *name, const void *value, size_t size, cb_error *err)
{
	NEED(err, "box key", b, name);
	CB_TRY(args_bytes("value", value, size, err));
	kv_setting s = {name, sized_bytes(value, size)};
	return op_run_bytes(b, s.value.size, "kv", name, kv_set, &s, NULL, err);
}

static cb_code kv_find(cb_box *b, const tree_view *v, const char *name, gate_access access, key *k, tree_value *out, cb_error *err)
{
	span n;
	CB_TRY(name_span(name, "a key", &n, err));
	CB_TRY(gate_key(b, access, n, err));
	*k = key_kv(n);
	cb_code code = tree_get(v, key_span(k), out, err);
	return code == CB_NOTFOUND ? cb_err_set(err, CB_NOTFOUND, "no key '%s'", name) : code;
}

cb_code cb_kv_get(cb_box *b, const char *name, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "box key out", b, name, out);
	CB_TRY(box_enter(b, err));
	tree_view v = box_view(b);
	key k;
	tree_value value;
	cb_code code = kv_find(b, &v, name, GATE_READ, &k, &value, err);
	if (code == CB_OK) code = value_load(b->cs, b->txn, span_make(value.bytes, value.size), out, out_size, err);
	return box_leave(b, code);
}

cb_code cb_kv_delete(cb_box *b, const char *name, cb_error *err)
{
	NEED(err, "box key", b, name);
	op o;
	CB_TRY(op_begin_as(&o, b, STORE_SHRINKS, "kv", name, err));
	tree_view v = txn_view(o.t);
	key k;
	tree_value value;
	cb_code code = kv_find(b, &v, name, GATE_REMOVE, &k, &value, err);
	if (code == CB_OK) code = txn_delete(o.t, &k, err);
	return op_end(&o, code, NULL, err);
}

static cb_code kv_start(name_cursor *n, cb_box *b, const char *prefix, cb_error *err)
{
	span name = span_str(prefix);
	if (name.size > LIMIT_NAME_BYTES) return CB_OK; /* no key is that long: nothing to go through */
	CB_TRY(snapshot_take(b, &n->now, err));
	key k = key_kv(name);
	return name_start(n, b, &k, err);
}

cb_code cb_kv_open(cb_box *b, const char *prefix, cb_cursor **out, cb_error *err)
{
	name_cursor *n = NULL;
	NEED(err, "box prefix out", b, prefix, out);
	CB_TRY(box_enter(b, err));
	cb_code code = name_open(b, 0, &n, err);
	if (code == CB_OK) code = kv_start(n, b, prefix, err);
	(void)box_leave(b, CB_OK);
	if (code == CB_OK) *out = &n->c;
	else cb_cursor_close(n ? &n->c : NULL);
	return code;
}

cb_code cb_kv_list(cb_box *b, const char *prefix, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box prefix visit", b, prefix, visit);
	cb_cursor *c = NULL;
	CB_TRY(cb_kv_open(b, prefix, &c, err));
	return names_visit(c, visit, context, err);
}
