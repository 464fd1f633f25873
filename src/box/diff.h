/* diff.h: differences by path between any two views, for the files of this layer. */
#ifndef BOX_DIFF_H
#define BOX_DIFF_H

#include "box/box.h"

/* Sorted by path. path limits it to a file or folder; NULL: everything. */
cb_code diff_views(cb_store *cs, const tree_view *a, const tree_view *b, const char *path, cb_change_visit visit, void *context,
                   cb_error *err);
/* What a transaction would do. */
cb_code diff_txn(const txn *t, cb_change_visit visit, void *context, cb_error *err);
/* What a handle sees, for longer use. CB_BUSY inside a transaction whose contents are still in memory. */
cb_code snapshot_of(cb_box *b, snapshot *out, cb_error *err);

#endif
