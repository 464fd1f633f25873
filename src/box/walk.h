/* walk.h: a walk over a view that its holder steers: it decides where to descend. For whatever visits many files with their records. */
#ifndef BOX_WALK_H
#define BOX_WALK_H

#include "box/internal.h"

enum {
	WALK_PATH_MAX = 1 << 20, /* renames can nest deeper than a path can be typed */
};

typedef struct walk_level {
	uint64_t dir;
	tree_cursor *c;
	size_t path_size; /* of the folder's own path */
} walk_level;

/* The view must not change meanwhile. */
typedef struct walker {
	const tree_view *v;
	buf levels; /* walk_level structs, the deepest last */
	buf path;   /* of what was visited last, NUL-terminated; set it to the path of the first folder before walker_push */
} walker;

void walker_init(walker *w, const tree_view *v);
void walker_done(walker *w);
/* Descends into a folder, whose path is w->path. */
cb_code walker_push(walker *w, uint64_t dir, cb_error *err);
/* The next entry below, parents before children, by name; the caller decides with walker_push whether to descend. *found false at the
 * end. */
cb_code walker_next(walker *w, record *out, bool *found, cb_error *err);
static inline size_t walker_depth(const walker *w)
{
	return w->levels.size / sizeof(walk_level);
}

#endif
