/* look_walk.c: the entries of a folder, and everything below one, for other layers: see look.h. */
#include "box/look_inside.h"
#include "box/walk.h"

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

/* Where the path is now, and the name at its end. */
static void seen_set(walk *w)
{
	span path = buf_span(&w->w.path);
	const uint8_t *name = memrchr(path.bytes, '/', path.size);
	w->seen.path = (const char *)path.bytes;
	w->seen.name = span_make(name + 1, (size_t)(path.bytes + path.size - (name + 1)));
	w->seen.depth = walker_depth(&w->w);
}

cb_code look_walk_next(look_walk *seen, box_node *out, bool *found, cb_error *err)
{
	walk *w = (walk *)(void *)seen;
	CB_TRY(walker_next(&w->w, node_begin(out), found, err));
	if (!*found) return CB_OK;
	node_end(out);
	seen_set(w);
	return CB_OK;
}

cb_code look_walk_enter(look_walk *seen, const box_node *dir, cb_error *err)
{
	walk *w = (walk *)(void *)seen;
	return walker_push(&w->w, dir->ino, err);
}

void look_walk_close(look_walk *seen)
{
	if (!seen) return;
	walk *w = (walk *)(void *)seen;
	walker_done(&w->w);
	free(w);
}
