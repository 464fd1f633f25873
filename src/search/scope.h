/* scope.h: which files a search looks at. */
#ifndef SEARCH_SCOPE_H
#define SEARCH_SCOPE_H

#include <cowbox/search.h>

#include "box/glob.h"
#include "box/walk.h"

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

/* What a search reads: a snapshot, and the handle's transaction where one is open. */
typedef struct reading_view {
	cb_box *b;
	snapshot now;
	bool locked; /* a transaction is open: the handle is kept, since its contents are only there */
	const txn *t;
	walker w;
	record first; /* of the path */
	char *path;   /* clean */
} reading_view;

/* Begins at a path, whose last component is followed when `follow`. reading_view_end() it when this succeeded. */
cb_code reading_view_begin(reading_view *v, cb_box *b, const char *path, bool follow, cb_error *err);
void reading_view_end(reading_view *v);
/* The record to read data by: its own, or found anew when the transaction it belongs to has ended meanwhile. */
cb_code reading_view_settle(reading_view *v, record *r, cb_error *err);
static inline const txn *reading_view_txn(const reading_view *v)
{
	return v->locked ? v->b->txn : NULL;
}

static inline const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

#endif
