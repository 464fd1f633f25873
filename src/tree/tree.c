/*
 * tree.c: reading a view: one key, or all in order.
 *
 * A view's sources are, newest first: delta, overlay, root. The newest that mentions a key decides.
 */
#include "tree/tree.h"

#include "base/buf.h"
#include "base/cancel.h"
#include "tree/path.h"

/* The value below the root; lent as long as *out_blob is held. CB_NOTFOUND does not fill err. */
static cb_code root_get(const tree_nodes *nodes, uint64_t root, span key, blob **out_blob, span *out, cb_error *err)
{
	uint64_t id = root;
	int level = -1;
	while (id != 0) {
		NODE_AUTO_BLOB blob *b = NULL;
		node n;
		CB_TRY(node_load(nodes, id, level, &b, &n, err));
		if (n.level == 0) {
			bool found;
			size_t i = node_find(&n, key, &found);
			if (!found) return CB_NOTFOUND;
			*out = node_value(&n, i);
			*out_blob = TAKE_PTR(b);
			return CB_OK;
		}
		id = node_child(&n, node_find_child(&n, key));
		level = n.level - 1;
	}
	return CB_NOTFOUND;
}

static pmap_found layers_get(const tree_view *v, span key, span *out)
{
	pmap_found found = v->delta ? pmap_get(v->delta, key, out) : PMAP_ABSENT;
	if (found == PMAP_ABSENT && v->overlay) found = pmap_get(v->overlay, key, out);
	return found;
}

cb_code tree_get(const tree_view *v, span key, tree_value *out, cb_error *err)
{
	NODE_AUTO_BLOB blob *held = NULL;
	span value;
	pmap_found found = layers_get(v, key, &value);
	if (found == PMAP_TOMBSTONE) return CB_NOTFOUND;
	if (found == PMAP_ABSENT) CB_TRY(root_get(v->nodes, v->root, key, &held, &value, err));
	if (v->veil) {
		bool shown = false;
		CB_TRY(v->veil->shows(v->veil->context, key, &value, out, &shown, err));
		if (!shown) return CB_NOTFOUND;
		if (value.bytes == out->bytes) {
			out->size = value.size;
			return CB_OK;
		}
	}
	if (value.size > TREE_VALUE_MAX) return cb_err_set(err, CB_TOOBIG, "a value of %zu bytes", value.size);
	if (value.size) memcpy(out->bytes, value.bytes, value.size);
	out->size = value.size;
	return CB_OK;
}

/*
 * The last key of each source is enough. What lies before it in the same source does not reach over where it begins, also if it has been
 * deleted since.
 */
cb_code tree_reaching(const tree_view *v, span before, uint8_t key[TREE_KEY_MAX], size_t *out_size, tree_value *out, cb_error *err)
{
	PATH_AUTO path at;
	span ignored, k, last = {0};
	path_init(&at, v->nodes);
	CB_TRY(path_seek_before(&at, v->root, before, err));
	if (at.depth > 0 && layers_get(v, path_key(&at), &ignored) == PMAP_ABSENT) last = path_key(&at);
	if (v->overlay && pmap_last_value(v->overlay, before, &k) && (!last.bytes || span_compare(k, last) > 0) &&
	    (!v->delta || pmap_get(v->delta, k, &ignored) == PMAP_ABSENT))
		last = k;
	if (v->delta && pmap_last_value(v->delta, before, &k) && (!last.bytes || span_compare(k, last) > 0)) last = k;
	if (!last.bytes) return CB_NOTFOUND;
	memcpy(key, last.bytes, last.size);
	*out_size = last.size;
	return tree_get(v, last, out, err);
}

/* ---- cursor ---- */

enum { FROM_DELTA, FROM_OVERLAY, FROM_ROOT, SOURCES };

typedef struct source {
	bool live; /* not at its end */
	bool tombstone;
	span key, value;
} source;

struct tree_cursor {
	uint64_t root;
	const pmap *maps[FROM_ROOT];
	pmap_cursor map_at[FROM_ROOT];
	path root_at;
	source sources[SOURCES];
	const source *current; /* the newest source of the current key; NULL: at the end */
	unsigned holders;      /* bit per source that stands at the current key */
	size_t until_size;     /* only keys before this one are wanted; 0: all */
	uint8_t until[TREE_KEY_MAX];
	const tree_veil *veil;
	tree_value room; /* of a value that the veil shows otherwise */
	tree_veil plain; /* as it was when something plain was shown; version NULL: nothing was */
};

static void read_map(tree_cursor *c, int i)
{
	source *s = &c->sources[i];
	s->live = pmap_cursor_get(&c->map_at[i], &s->key, &s->value, &s->tombstone);
}

static void read_root(tree_cursor *c)
{
	source *s = &c->sources[FROM_ROOT];
	s->live = c->root_at.depth > 0;
	if (!s->live) return;
	s->key = path_key(&c->root_at);
	s->value = path_value(&c->root_at);
}

static cb_code advance(tree_cursor *c, unsigned holders, cb_error *err)
{
	for (int i = FROM_DELTA; i < FROM_ROOT; i++) {
		if (!(holders & 1u << i)) continue;
		pmap_cursor_next(&c->map_at[i]);
		read_map(c, i);
	}
	if (holders & 1u << FROM_ROOT) {
		CB_TRY(path_next(&c->root_at, err));
		read_root(c);
	}
	return CB_OK;
}

/* The smallest key that any source stands at, and which sources do. */
static const source *smallest(const tree_cursor *c, unsigned *out_holders)
{
	const source *least = NULL;
	unsigned holders = 0;
	for (unsigned i = 0; i < SOURCES; i++) {
		const source *s = &c->sources[i];
		if (!s->live) continue;
		int order = least ? span_compare(s->key, least->key) : -1;
		if (order < 0) {
			least = s;
			holders = 0;
		}
		if (order <= 0) holders |= 1u << i;
	}
	*out_holders = holders;
	return least;
}

static bool is_past(const tree_cursor *c, span key)
{
	return c->until_size && span_compare(key, span_make(c->until, c->until_size)) >= 0;
}

/* Comes to stand at the first key from here on that the view has. */
static cb_code settle(tree_cursor *c, cb_error *err)
{
	for (;;) {
		if (!c->sources[FROM_DELTA].live && !c->sources[FROM_OVERLAY].live) {
			c->current = c->sources[FROM_ROOT].live ? &c->sources[FROM_ROOT] : NULL;
			c->holders = 1u << FROM_ROOT;
			return CB_OK;
		}
		c->current = smallest(c, &c->holders);
		if (!c->current->tombstone) return CB_OK;
		/* Past what is wanted there may be thousands of deleted keys before the next one that is there. */
		if (is_past(c, c->current->key)) {
			c->current = NULL;
			return CB_OK;
		}
		CB_TRY(advance(c, c->holders, err));
	}
}

static bool begins_plain(span key, const tree_veil *v)
{
	return v->version && key.size > TREE_PLAIN_BYTES && memcmp(key.bytes, v->plain, TREE_PLAIN_BYTES) == 0;
}

static bool is_plain(const tree_cursor *c, const source *s)
{
	return begins_plain(s->key, &c->plain) && s->value.size && s->value.bytes[0] != c->plain.unless &&
	       atomic_load(c->plain.version) == c->plain.as_of;
}

/* From where the cursor stands on: the first that the veil shows. What is past the wanted ones is not asked about, and so not given. */
static cb_code settle_asking(tree_cursor *c, cb_error *err)
{
	while (c->current) {
		bool shown = false;
		if (is_past(c, c->current->key)) {
			c->current = NULL;
			return CB_OK;
		}
		source *s = &c->sources[c->current - c->sources];
		CB_TRY(c->veil->shows(c->veil->context, s->key, &s->value, &c->room, &shown, err));
		if (shown) {
			if (begins_plain(s->key, c->veil)) c->plain = *c->veil; /* the next need not be asked about */
			return CB_OK;
		}
		CB_TRY(advance(c, c->holders, err));
		CB_TRY(settle(c, err));
	}
	return CB_OK;
}

static cb_code settle_shown(tree_cursor *c, cb_error *err)
{
	CB_TRY(settle(c, err));
	if (!c->current || is_plain(c, c->current)) return CB_OK;
	return settle_asking(c, err);
}

/* After an error the cursor is at its end, so that it cannot be asked for what it no longer holds. */
static cb_code end_on_error(tree_cursor *c, cb_code code)
{
	if (code != CB_OK) {
		path_done(&c->root_at);
		for (int i = 0; i < SOURCES; i++) c->sources[i].live = false;
		c->current = NULL;
	}
	return code;
}

static cb_code seek(tree_cursor *c, span from, cb_error *err)
{
	CB_TRY(path_seek(&c->root_at, c->root, from, err));
	read_root(c);
	for (int i = FROM_DELTA; i < FROM_ROOT; i++) {
		if (!c->maps[i]) continue;
		pmap_seek(&c->map_at[i], c->maps[i], from);
		read_map(c, i);
	}
	return c->veil ? settle_shown(c, err) : settle(c, err);
}

cb_code tree_cursor_seek(tree_cursor *c, span from, cb_error *err)
{
	return end_on_error(c, seek(c, from, err));
}

cb_code tree_cursor_open_until(const tree_view *v, span from, span until, tree_cursor **out, cb_error *err)
{
	if (until.size > TREE_KEY_MAX) return cb_err_set(err, CB_TOOBIG, "a key of %zu bytes", until.size);
	tree_cursor *c = mem_alloc(sizeof(*c));
	if (!c) return cb_err_nomem(err);
	c->until_size = until.size;
	if (until.size) memcpy(c->until, until.bytes, until.size);
	c->root = v->root;
	c->veil = v->veil;
	c->plain.version = NULL;
	c->maps[FROM_DELTA] = v->delta;
	c->maps[FROM_OVERLAY] = v->overlay;
	path_init(&c->root_at, v->nodes);
	memset(c->sources, 0, sizeof(c->sources));
	cb_code code = tree_cursor_seek(c, from, err);
	if (code != CB_OK) {
		tree_cursor_close(c);
		return code;
	}
	*out = c;
	return CB_OK;
}

cb_code tree_cursor_open(const tree_view *v, span from, tree_cursor **out, cb_error *err)
{
	return tree_cursor_open_until(v, from, (span){0}, out, err);
}

cb_code tree_cursor_open_below(const tree_view *v, span prefix, tree_cursor **out, cb_error *err)
{
	uint8_t after[TREE_KEY_MAX]; /* the first key after all that have the prefix */
	size_t size = prefix.size;
	if (size > TREE_KEY_MAX) return cb_err_set(err, CB_TOOBIG, "a key of %zu bytes", size);
	if (size) memcpy(after, prefix.bytes, size);
	while (size > 0 && after[size - 1] == UINT8_MAX) size--;
	if (size > 0) after[size - 1]++;
	return tree_cursor_open_until(v, prefix, span_make(after, size), out, err);
}

bool tree_cursor_get(const tree_cursor *c, span *key, span *value)
{
	if (!c->current) return false;
	*key = c->current->key;
	*value = c->current->value;
	return true;
}

cb_code tree_cursor_next(tree_cursor *c, cb_error *err)
{
	if (!c->current) return CB_OK;
	cb_code code = cancel_check(err);
	if (code == CB_OK) code = advance(c, c->holders, err);
	if (code == CB_OK) code = c->veil ? settle_shown(c, err) : settle(c, err);
	return end_on_error(c, code);
}

void tree_cursor_close(tree_cursor *c)
{
	if (!c) return;
	path_done(&c->root_at);
	free(c);
}
