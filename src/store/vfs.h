/*
 * vfs.h: the SQLite VFS that carries the database: the system's own, with three additions.
 *
 * It writes the frames of a commit to the log in one call instead of two a page, spares the flush of the folder beside a log that holds
 * frames already (vfs.c says why both are safe), and consults a fault plan where there is one.
 */
#ifndef STORE_VFS_H
#define STORE_VFS_H

#include <sqlite3.h>

#include "store/fault.h"

/* The name to open with; NULL: no memory. Lent: lives as long as the plan, or for ever. */
const char *vfs_name(store_fault_plan *plan);
/* Fills *v for a plan; v and name must stay where they are. */
void vfs_build(sqlite3_vfs *v, const char *name, store_fault_plan *plan);

#endif
