/*
 * vfs.h: the SQLite VFS that carries the database: the system's own, with some additions.
 *
 * It writes the frames of a commit to the log in one call instead of two a page, spares the flush of the folder beside a log that holds
 * frames already (vfs.c says why both are safe), keeps room on the disk for what a full disk must not stop (room.h), reads where nothing
 * can be written (frozen.h), sums up pages and looks at their sums (page_sum.h), and consults a fault plan where there is one.
 */
#ifndef STORE_VFS_H
#define STORE_VFS_H

#include <sqlite3.h>

#include "store/fault.h"
#include "store/room.h"

/* The parameter of a database's URI that gives the descriptor of its folder: what is opened beside SQLite's files is opened in it. */
#define FOLDER_PARAMETER "cowbox_folder"
/* Of the calling thread: in place of a folder's path, SQLite too opens everything in the folder that the descriptor has. */
#define VFS_DESCRIPTORS "/proc/thread-self/fd/"

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
/* Where SQLite's temporary file of the calling thread goes, and is deleted as soon as it is open; NULL: where SQLite puts such. Lent: until
 * that file is closed. What lies there is removed first. */
void vfs_temporary_set(const char *path);
/* Is a log that had frames cut to less than one, or its own header damaged? SQLite takes such a log for an empty one. restarted: by
 * whoever uses the store now; another program's SQLite cuts it to nothing then. */
bool vfs_log_header_damaged(sqlite3_file *log, bool restarted);
/* Of the connection's database; lent: lives as long as the connection. NULL: in memory, or not through this VFS. */
room *vfs_room(sqlite3 *db);

/* The page whose sum was found wrong last: that is what SQLITE_IOERR_DATA means. */
typedef struct vfs_wrong {
	uint64_t page; /* 0: none */
	bool in_log;
} vfs_wrong;
vfs_wrong vfs_wrong_page(sqlite3 *db);
/* errno of the last write that failed: that is what SQLITE_IOERR_WRITE means. */
int vfs_write_error(sqlite3 *db);
/* Has the database sums, as far as this connection has read it? False for databases in memory. */
bool vfs_has_sums(sqlite3 *db);
/* How many pages this connection has read that have none, though the database has sums: another program wrote them. */
uint64_t vfs_pages_unsummed(sqlite3 *db);
/* The database is new and will have sums. Without this that is known only once its first page is written. */
void vfs_add_sums(sqlite3 *db, uint32_t page_bytes);
/* After a VACUUM of this connection, which has added them. */
void vfs_sums_are_there(sqlite3 *db);
/* A look at every page of the file, or at every committed frame of the log, one call after the other. */
typedef struct vfs_looking {
	uint64_t at;       /* how many were looked at */
	uint64_t wrong;    /* the number of the page found last */
	uint64_t count;    /* of wrong ones */
	uint64_t unsummed; /* pages without a sum */
	/* private */
	uint8_t *logged; /* a bit per page: the log has it */
	uint64_t logged_end;
} vfs_looking;
/* Goes on until a wrong one is found, which is true, or all or so many were looked at. A page that is read from the log is not wrong. */
bool vfs_pages_look(sqlite3 *db, vfs_looking *l, uint64_t most);
bool vfs_frames_look(sqlite3 *db, vfs_looking *l);
void vfs_looking_done(vfs_looking *l);

#endif
