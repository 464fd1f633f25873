/* diff.h: differences by path between any two views, for the files of this layer. */
#ifndef BOX_DIFF_H
#define BOX_DIFF_H

#include <cowbox/cursor.h>

#include "box/internal.h"

/* Sorted by path. */
cb_code diff_views(cb_store *cs, const tree_view *a, const tree_view *b, cb_change_visit visit, void *context, cb_error *err);
/* What a transaction would do. */
cb_code diff_txn(const txn *t, cb_change_visit visit, void *context, cb_error *err);
/* What a handle sees, with what a transaction has in memory. *out must not move. */
cb_code snapshot_of(cb_box *b, snapshot *out, cb_error *err);
/* What two handles of one store see. *a and *b must not move. *within: where the path leads, in the state of `to` or else of `from`, for
 * the calls below; free() it. NULL when path is. */
cb_code snapshot_pair(cb_box *from, cb_box *to, const char *path, snapshot *a, snapshot *b, char **within, cb_error *err);
/* within limits it to a file or folder; NULL: everything. *out: a cursor on the changes, which needs nothing more of the two.
 * cb_cursor_close() it. */
cb_code diff_snapshots(cb_store *cs, const snapshot *a, const snapshot *b, const char *within, cb_cursor **out, cb_error *err);
/* The same, with each file below a folder that moved. */
cb_code diff_snapshots_by_path(cb_store *cs, const snapshot *a, const snapshot *b, const char *within, cb_cursor **out,
                               cb_error *err);
/* Visits what is left of such a cursor and closes it. */
cb_code diff_visit(cb_cursor *c, cb_change_visit visit, void *context, cb_error *err);

#endif
