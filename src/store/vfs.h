/*
 * vfs.h: the SQLite VFS that carries the database: the system's own, with some additions.
 *
 * It writes the frames of a commit to the log in one call instead of two a page, spares the flush of the folder beside a log that holds
 * frames already (vfs.c says why both are safe), keeps room on the disk for what a full disk must not stop (room.h), reads where nothing
 * can be written (frozen.h), and consults a fault plan where there is one.
 */
#ifndef STORE_VFS_H
#define STORE_VFS_H

#include <sqlite3.h>

#include "store/fault.h"
#include "store/room.h"

/* The name to open with; NULL: no memory. Lent: lives as long as the plan, or for ever. */
const char *vfs_name(store_fault_plan *plan);
/* Fills *v for a plan; v and name must stay where they are. */
void vfs_build(sqlite3_vfs *v, const char *name, store_fault_plan *plan);

/*
 * How far the log goes, as all connections see it: a word that names the log since its last restart, and the number of frames committed.
 * 0: none, or not known. From the wal-index, whose header is described in SQLite's file format (walformat.html).
 */
uint64_t vfs_log_position(sqlite3_file *database);
/* What room there is behind the log for the transaction that has just begun (room.h); it may change, and is folded then, from outside of
 * it only. ENOUGH also where it holds nothing. */
room_log vfs_log_room(sqlite3_file *database);
/* Is there a log with frames in it whose own header is damaged? SQLite takes such a log for an empty one. */
bool vfs_log_header_damaged(sqlite3_file *log);
/* Of the connection's database; lent: lives as long as the connection. NULL: in memory, or not through this VFS. */
room *vfs_room(sqlite3 *db);

#endif
