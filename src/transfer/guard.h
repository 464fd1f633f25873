/*
 * guard.h: the folder of the open store is no place to transfer from or to.
 *
 * It often lies inside the folder that a box was made of. Its live files in a box would be a copy that is no store, and writing that copy
 * back would destroy every box. The folder is known by device and inode of the one that the store has open, never by its path.
 */
#ifndef TRANSFER_GUARD_H
#define TRANSFER_GUARD_H

#include <cowbox/cowbox.h>

#include "host/host.h"

/* Is what was looked at the store's own folder? */
bool guard_is_store(const cb_store *cs, const host_stat *stat);
/* CB_INVALID when an open folder is the store's own or lies in it. `what` cannot be there: "an export". */
cb_code guard_folder(const cb_store *cs, int folder, const char *what, cb_error *err);
/* The same of a descriptor of the caller's, when it is a file that has a name: where its folder is, only /proc tells. */
cb_code guard_stream(const cb_store *cs, int fd, const char *what, cb_error *err);

#endif
