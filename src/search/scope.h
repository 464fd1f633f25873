/* scope.h: which files a search looks at. */
#ifndef SEARCH_SCOPE_H
#define SEARCH_SCOPE_H

#include <cowbox/cowbox.h>

#include "box/box.h"
#include "box/glob.h"
#include "box/look.h"

/* A glob on the last component, or, when it has a '/' inside, on the path below the folder that is searched (from "/" when it begins
 * with one). One that ends in '/' means folders only. */
typedef struct scope_glob {
	glob *g;
	bool by_path, from_root, only_folders;
} scope_glob;

typedef struct scope {
	scope_glob *include, *exclude;
	size_t include_count, exclude_count;
	bool leave_hidden; /* /home/agent and /tmp */
	size_t base_size;  /* of the searched folder's path, the '/' after it included */
} scope;

cb_code scope_init(scope *s, const cb_grep_options *options, cb_error *err);
void scope_done(scope *s);
/* Paths are absolute and clean. Is a folder entered, a file searched? */
bool scope_folder(const scope *s, const char *path);
bool scope_file(const scope *s, const char *path);

/* What a search reads: the folder or file that was named, and what is below it. */
typedef struct reading {
	look *now;
	look_walk *w;   /* NULL: it is no folder */
	box_node first; /* of the path */
	char *path;     /* clean */
} reading;

/* Begins at a path, whose last component is followed when `follow`. reading_end() it, also when this failed. */
cb_code reading_begin(reading *v, cb_box *b, const char *path, bool follow, cb_error *err);
void reading_end(reading *v);

static inline const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

#endif
