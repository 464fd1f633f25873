/*
 * room.h: room on the disk that is allocated ahead of need, so that a full disk is no dead end. For the VFS and the SQLite engine.
 *
 * A full disk must not keep anybody from removing, undoing, pruning and collecting. What these write goes to the log, its index and, when
 * the log is folded, to the database file. Blocks for that are allocated before they are needed and never given back to be taken again:
 * whoever filled the disk would be faster.
 *
 * The rules, checked before a commit becomes valid in the log:
 *  1. Every page that a commit names has its block in the database file: folding the log cannot fail for lack of room.
 *  2. After an ordinary commit the log has `log_keep` allocated bytes behind its last frame, and its index covers them; the database
 *     has `base_keep` bytes of blocks behind its last page or of free pages inside. A commit that cannot leave so much is refused.
 *  3. A commit that takes away or records (ROOM_SHRINKS) leaves half of that; one that gives room back (ROOM_FREES) may use all.
 * While there is less behind the log than there should be, every transaction begins by folding it, so that its frames start at the
 * beginning again, in blocks that the log has. Whose commit left it so does not matter: he may have been killed, or have found another
 * process folding, or readers. A transaction that would be refused otherwise waits for these (room_of_log).
 *
 * Where the filesystem cannot allocate ahead (fallocate is not supported) nothing is kept, and where it writes changed blocks to new
 * places (copy on write) what is kept does not help: docs/limits.md.
 */
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "store/fault.h"
#include "store/held.h"

/* Each asks for more than the next. */
typedef enum room_need {
	ROOM_GROWS,
	ROOM_SHRINKS,
	ROOM_FREES,
} room_need;

typedef enum room_log {
	ROOM_LOG_ENOUGH,
	ROOM_LOG_SHORT, /* less than rule 2 asks for: fold it, if that can be done now */
	ROOM_LOG_OUT,   /* so little that a transaction of this need would be refused: fold it, and wait until it can be done */
} room_log;

/* One database connection's view of the room of its files. Only used under the writer lock. */
typedef struct room {
	base_place at;
	store_fault_plan *plan;
	room_need need; /* of the running transaction: set by the engine */
	bool is_short;  /* the last commit left less than rule 2 asks for: write as little as can be */
	/* private */
	room_log log_left;     /* what the last commit left behind the log; OUT: it was refused for that */
	room_need log_refused; /* OUT: its need. One that asks for less may still be served */
	held *held;
	int log_fd;                   /* -1: not needed yet */
	uint64_t log_keep, base_keep; /* 0: not asked yet how large the filesystem is */
	uint64_t log_salt;            /* of the log that log_has was learned for: another may be cut shorter */
	uint64_t log_has, base_has;   /* bytes from the start that surely have blocks; 0: not known */
	uint64_t base_seen;           /* where the database ended at the last commit */
} room;

typedef struct room_commit {
	uint64_t log_end; /* the byte behind its last frame */
	uint64_t log_salt;
	uint64_t base_end;   /* the byte behind the last page of the database */
	bool has_first;      /* page 1 is among its frames: pages may have been taken or freed. Without it none were */
	uint64_t free_bytes; /* free pages inside the database, as page 1 says */
} room_commit;

void room_init(room *r, base_place at, held *h, store_fault_plan *plan);
void room_done(room *r);
/* 0: the commit may become valid. Otherwise an errno, ENOSPC when there is too little room. */
int room_for_commit(room *r, const room_commit *c);
/* Under the writer lock, before a transaction of r->need: what there is behind the log, which ends at `log_end`. */
room_log room_of_log(room *r, uint64_t log_end, uint64_t log_salt);
/* Bytes behind the last frame that the log's index must cover too. */
uint64_t room_log_ahead(const room *r);
/* How long a log that is folded may stay: this much is not given back. */
uint64_t room_log_stays(const room *r);
/* The files were cut: what was known of them is not so any more. */
void room_forget(room *r);
/* How long a database file that is to end at `base_end` may stay. A cut frees every block behind it, also those that were allocated ahead,
 * and somebody else would have them before they are allocated again. So the kept room is left inside the file. */
uint64_t room_base_stays(room *r, uint64_t base_end);

#endif
