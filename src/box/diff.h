/* diff.h: differences by path between any two views, for the files of this layer. */
#ifndef BOX_DIFF_H
#define BOX_DIFF_H

#include "box/internal.h"

/* Sorted by path. path limits it to a file or folder; NULL: everything. */
cb_code diff_views(cb_store *cs, const tree_view *a, const tree_view *b, const char *path, cb_change_visit visit, void *context,
                   cb_error *err);
/* What a transaction would do. */
cb_code diff_txn(const txn *t, cb_change_visit visit, void *context, cb_error *err);
/* What a handle sees, for longer use. *out must not move. */
cb_code snapshot_of(cb_box *b, snapshot *out, cb_error *err);
/* What two handles of one store see, for longer use. Transactions whose contents are in memory stay locked until snapshot_done. *a and *b
 * must not move. */
cb_code snapshot_pair(cb_box *from, cb_box *to, snapshot *a, snapshot *b, cb_error *err);
cb_code diff_snapshots(cb_store *cs, const snapshot *a, const snapshot *b, const char *path, cb_change_visit visit, void *context,
                       cb_error *err);

#endif
