/*
 * held.h: descriptors of our own on the files that SQLite locks.
 *
 * A process's POSIX locks on a file go when it closes any descriptor of that file. So a descriptor opened beside SQLite's own must stay
 * open until the last connection of the process to that database is closed. There is one set per database and process, shared and counted
 * by its connections.
 */
#ifndef STORE_HELD_H
#define STORE_HELD_H

typedef struct held held;

/* Where a database is: a name in a folder (AT_FDCWD: a path). Its log and index are beside it. */
typedef struct base_place {
	int folder;
	const char *name; /* lives as long as the connection */
} base_place;

/* The set of the database there, which SQLite has opened. NULL: no memory, or the file is gone. */
held *held_take(base_place at);
/* After SQLite has closed its own descriptor. Accepts NULL. */
void held_release(held *h);

/* A descriptor for reading and writing; lent. -1: errno tells why. */
int held_base(held *h, base_place at);

/*
 * The log's index (-shm) is volatile: the first process to attach to it must empty it. SQLite does that by cutting it to three bytes
 * and growing it again, so on a full disk somebody else has its blocks by then and nobody can open the store. held_index_enter empties it
 * in place, by SQLite's own protocol (a lock on byte 128 of the file, exclusive while emptying, shared from then on), and keeps the shared
 * lock, so that SQLite finds it attached already. Call SQLite's xShmMap for the first time between the two, whatever enter did.
 */
void held_index_enter(held *h, base_place at);
void held_index_leave(held *h);

/* In a child of fork(): nobody was here, or no store is used in it. */
void held_forked(void);

#endif
