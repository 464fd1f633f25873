/* attr.c: extended attributes, tags, metadata and key-values: all of them keys of the map. */
#include "base/args.h"
#include "base/sized.h"
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
	if (size > LIMIT_XATTR_VALUE_BYTES) return cb_err_set(err, CB_TOOBIG, "a value may have %d bytes", LIMIT_XATTR_VALUE_BYTES);
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, path_how(flags), GATE_WRITE, &r, err));
	key k = attr_make_key(kind, r.node.rec.ino, n);
	if (kind.sort == 't') {
		tree_value empty;
		empty.size = 0;
		CB_TRY(txn_put(o->t, &k, &empty, err));
	} else {
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

typedef struct listing {
	cb_box *b;
	attr_key kind;
	cb_name_visit visit;
	void *context;
} listing;

/* A name as a C string for the visitor. */
static void name_text(span name, char out[LIMIT_NAME_BYTES + 1])
{
	memcpy(out, name.bytes, name.size);
	out[name.size] = 0;
}

static cb_code list_key(void *context, span key_bytes, span value, cb_error *err)
{
	const listing *l = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (parts.kind == KIND_TAG && parts.sort != l->kind.sort) return CB_OK;
	char name[LIMIT_NAME_BYTES + 1];
	name_text(parts.name, name);
	if (l->kind.sort == 't') return l->visit(l->context, name, NULL, 0, err);
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	CB_TRY(value_load(l->b->cs, l->b->txn, value, &bytes, &size, err));
	return l->visit(l->context, name, bytes, size, err);
}

static cb_code attr_list(cb_box *b, const char *path, attr_key kind, unsigned flags, cb_name_visit visit, void *context,
                         cb_error *err)
{
	CB_TRY(box_enter(b, err));
	AUTO_SNAPSHOT snapshot now = {0};
	resolved r;
	listing l = {b, kind, visit, context};
	cb_code code = snapshot_take(b, &now, err);
	if (code == CB_OK) code = path_find(b, &now.v, path, path_how(flags), GATE_READ, &r, err);
	if (code == CB_OK) code = inode_keys(&now.v, r.node.rec.ino, kind.kind, list_key, &l, err);
	return box_leave(b, code);
}

cb_code cb_xattr_set(cb_box *b, const char *path, const char *name, const void *value, size_t size, unsigned flags, cb_error *err)
{
	NEED(err, "box path name value", b, path, name, value || !size);
	op o;
	CB_TRY(op_begin(&o, b, "xattr", path, err));
	return op_end(&o, attr_put(&o, path, xattr_kind, name, value, sized_bytes(value, size).size, flags, err), NULL, err);
}

cb_code cb_xattr_get(cb_box *b, const char *path, const char *name, unsigned flags, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "box path name out", b, path, name, out);
	CB_TRY(box_enter(b, err));
	return box_leave(b, attr_get(b, path, xattr_kind, name, flags, out, out_size, err));
}

cb_code cb_xattr_remove(cb_box *b, const char *path, const char *name, unsigned flags, cb_error *err)
{
	NEED(err, "box path name", b, path, name);
	op o;
	CB_TRY(op_begin(&o, b, "xattr", path, err));
	return op_end(&o, attr_remove(&o, path, xattr_kind, name, flags, err), NULL, err);
}

cb_code cb_xattr_list(cb_box *b, const char *path, unsigned flags, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	return attr_list(b, path, xattr_kind, flags, visit, context, err);
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

cb_code cb_tag_list(cb_box *b, const char *path, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	return attr_list(b, path, tag_kind, 0, visit, context, err);
}

cb_code cb_meta_set(cb_box *b, const char *path, const char *name, const void *value, size_t size, cb_error *err)
{
	NEED(err, "box path name", b, path, name);
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

cb_code cb_meta_list(cb_box *b, const char *path, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	return attr_list(b, path, meta_kind, 0, visit, context, err);
}

/* ---- key-values ---- */

static cb_code kv_set(op *o, const char *name, const void *value, size_t size, cb_error *err)
{
	span n;
	CB_TRY(name_span(name, "a key", &n, err));
	if (size > LIMIT_KV_VALUE_BYTES) return cb_err_set(err, CB_TOOBIG, "a value may have %d bytes", LIMIT_KV_VALUE_BYTES);
	CB_TRY(gate_key(o->b, GATE_WRITE, n, err));
	key k = key_kv(n);
	return value_store(o->t, &k, value, size, err);
}

cb_code cb_kv_set(cb_box *b, const char *name, const void *value, size_t size, cb_error *err)
{
	NEED(err, "box key value", b, name, value || !size);
	op o;
	CB_TRY(op_begin(&o, b, "kv", name, err));
	return op_end(&o, kv_set(&o, name, value, sized_bytes(value, size).size, err), NULL, err);
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

static cb_code kv_list(cb_box *b, const char *prefix, cb_name_visit visit, void *context, cb_error *err)
{
	span n = span_str(prefix ? prefix : "");
	if (n.size > LIMIT_NAME_BYTES) return CB_OK; /* no key is that long */
	key k = key_kv(n);
	AUTO_SNAPSHOT snapshot now = {0};
	CB_TRY(snapshot_take(b, &now, err));
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open(&now.v, key_span(&k), &c, err));
	span at, value;
	while (tree_cursor_get(c, &at, &value) && span_starts(at, key_span(&k))) {
		char name[LIMIT_NAME_BYTES + 1];
		name_text(span_make(at.bytes + 1, at.size - 1), name);
		AUTO_FREE char *bytes = NULL;
		size_t size = 0;
		CB_TRY(value_load(b->cs, b->txn, value, &bytes, &size, err));
		cb_code code = visit(context, name, bytes, size, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
		CB_TRY(tree_cursor_next(c, err));
	}
	return CB_OK;
}

cb_code cb_kv_list(cb_box *b, const char *prefix, cb_name_visit visit, void *context, cb_error *err)
{
	NEED(err, "box prefix visit", b, prefix, visit);
	CB_TRY(box_enter(b, err));
	return box_leave(b, kv_list(b, prefix, visit, context, err));
}
