/*
 * frozen.h: a database that SQLite is to read where nothing can be written: a read-only filesystem, a folder that denies it, a full disk.
 *
 * SQLite reads a database with a log through an index that all readers share (-shm), which it makes when it is missing, as it does the
 * log. Where both are there it can do without writing. Where one is missing, or the index is shorter than any that is in use, nobody uses
 * the database now: then this gives SQLite an index in memory that is ours alone, made from the log as it is, and in place of a missing
 * log an empty one.
 *
 * Danger: the same folder may be writable elsewhere (a read-only bind mount of a store in use). Somebody who opens it there makes both
 * files, and does not see that we read. So every read first looks whether the two are as they were; if not it is SQLITE_PROTOCOL, which
 * SQLite does not wait for as it would for SQLITE_BUSY, and whoever reads opens the store again.
 */
#ifndef STORE_FROZEN_H
#define STORE_FROZEN_H

#include <sqlite3.h>
#include <stdbool.h>

#include "store/held.h"

/* The parameter of a database's URI that asks for it. */
#define FROZEN_PARAMETER "cowbox_frozen"

typedef struct frozen frozen;

/* *out NULL: log and index are there, SQLite can do alone. Otherwise SQLite neither sees nor touches the index that is there. */
int frozen_open(base_place at, frozen **out);
void frozen_close(frozen *z);
/* xShmMap, xShmLock, xShmUnmap of the database. */
int frozen_shm_map(frozen *z, int page, int size, int extend, void volatile **out);
int frozen_shm_lock(frozen *z, int flags);
void frozen_shm_unmap(frozen *z);
/* Before anything of the log is read: opening it changes its times where SQLite runs as root, who sets its owner. */
void frozen_log_opened(frozen *z);
/* An empty file that cannot be written, in place of a log that is not there. */
bool frozen_lacks_log(const frozen *z);
void frozen_empty(sqlite3_file *f, int flags, int *out_flags);

#endif
