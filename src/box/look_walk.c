/* look_walk.c: the entries of a folder, and everything below one, for other layers: see box.h. */
#include "box/look.h"
#include "box/walk.h"

struct look_list {
	tree_view v;
	uint64_t dir;
	key prefix;
	tree_cursor *c;
	bool moved; /* past what was given last: the cursor stays on it until the next is asked for, since its name is lent */
};

cb_code look_list_open(look *l, uint64_t dir, look_list **out, cb_error *err)
{
	look_list *c = mem_alloc(sizeof(*c));
	if (!c) return cb_err_nomem(err);
	*c = (look_list){.v = look_view(l), .dir = dir, .prefix = key_prefix(KIND_ENTRY, dir), .moved = true};
	cb_code code = tree_cursor_open_below(&c->v, key_span(&c->prefix), &c->c, err);
	if (code == CB_OK) *out = c;
	else free(c);
	return code;
}

static cb_code node_of_entry(const look_list *c, span name, span value, box_node *out, cb_error *err)
{
	if (!entry_is_link(value)) {
		CB_TRY(entry_record(value, node_begin(out), err));
		node_end(out);
		return CB_OK;
	}
	inode i;
	CB_TRY(inode_at(&c->v, c->dir, name, &i, NULL, err));
	node_of_inode(out, &i);
	return CB_OK;
}

cb_code look_list_next(look_list *c, span *name, box_node *out, bool *found, cb_error *err)
{
	span k, value;
	if (!c->moved) CB_TRY(tree_cursor_next(c->c, err));
	c->moved = true;
	*found = tree_cursor_get(c->c, &k, &value) && span_starts(k, key_span(&c->prefix));
	if (!*found) return CB_OK;
	*name = span_make(k.bytes + c->prefix.size, k.size - c->prefix.size);
	CB_TRY(node_of_entry(c, *name, value, out, err));
	c->moved = false;
	return CB_OK;
}

void look_list_close(look_list *c)
{
	if (!c) return;
	tree_cursor_close(c->c);
	free(c);
}

typedef struct walk {
	look_walk seen; /* first: what the caller has */
	tree_view v;
	walker w;
} walk;

cb_code look_walk_open(look *l, const char *path, uint64_t dir, look_walk **out, cb_error *err)
{
	walk *w = mem_alloc(sizeof(*w));
	if (!w) return cb_err_nomem(err);
	*w = (walk){.v = look_view(l)};
	walker_init(&w->w, &w->v);
	cb_code code = buf_append_str(&w->w.path, path, err);
	if (code == CB_OK) code = walker_push(&w->w, dir, err);
	if (code == CB_OK) *out = &w->seen;
	else look_walk_close(&w->seen);
	return code;
}

cb_code look_walk_next(look_walk *seen, box_node *out, bool *found, cb_error *err)
{
	walk *w = (walk *)(void *)seen;
	CB_TRY(walker_next(&w->w, node_begin(out), found, err));
	if (!*found) return CB_OK;
	node_end(out);
	*seen = (look_walk){(const char *)w->w.path.bytes, walker_depth(&w->w)};
	return CB_OK;
}

cb_code look_walk_enter(look_walk *seen, const box_node *dir, cb_error *err)
{
	walk *w = (walk *)(void *)seen;
	cb_code code = walker_push(&w->w, dir->ino, err);
	seen->path = (const char *)w->w.path.bytes; /* it may have moved */
	return code;
}

void look_walk_close(look_walk *seen)
{
	if (!seen) return;
	walk *w = (walk *)(void *)seen;
	walker_done(&w->w);
	free(w);
}
