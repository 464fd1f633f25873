/*
 * inuse.h: states in use: a table in memory shared by all processes that have a store open (the file `inuse`), in which whoever reads or
 * works on a state says so, and which whoever removes steps, or nodes and contents, reads before he decides.
 *
 * The file is pages of 4 KiB. Page 0 holds `removal` and a hint; every other page is a block of 64 slots. A store handle owns a block
 * while it holds the OFD lock on the byte of `inuse` with the block's number: the lock ends with its holder, however that dies, and means
 * the same in every pid namespace. A block whose byte is free is nobody's: whoever finds it empties it, or takes it over. The file only
 * grows.
 *
 * A slot says: somebody needs the state after step (box, seq), which he reads through the tree `root`. Prune and gc keep that step, and gc
 * marks from that root. `turn` is odd while the slot is shown; only its owner writes it, and the other fields only while it is even.
 *
 * WHY READER AND REMOVER CANNOT MISS EACH OTHER
 *
 * `removal` is a counter whose two low bits are a phase: 0 nobody removes; 1 a remover reads the table; 2 he has read it and removes. He
 * holds the writer lock from before phase 1 until after his commit or rollback, and only then puts the phase back to 0 (under a new count).
 * All operations on `removal`, `turn` and the stamps of `live` named here are sequentially consistent, so they have one order that all
 * agree on.
 *
 *   A state that was looked up: r = `removal` in phase 0; read the rows; show the slot; is `removal` still r? If so, no remover entered
 *   phase 1 between r and the question. One that comes later reads the table after that, so he sees the slot. One that came earlier had
 *   committed before r was read, so the rows are what he left. If not, the rows are read again.
 *
 *   The head, known from before: show the slot; is the box's stamp still that of the head? If so, it was the head at that moment. Removers
 *   leave heads alone, so one who read the table before the slot was shown has taken nothing of it; one who reads it later sees the slot.
 *   (Asked this way no reader of a head ever waits for a remover.)
 *
 *   Handing on: show the new slot; wait while the phase is 1; hide the old one. A remover who reads the table meanwhile could pass the new
 *   slot before it is shown and the old one after it is hidden; the wait keeps him from that. It lasts as long as reading the table.
 *
 *   gc: reads the table (phases 1, 2, 0) after it has dropped old roots and settled all heads, and before it marks. Slots it saw are marked
 *   from. A slot shown later stands on rows that were there after that reading: their roots are marked, or born in the new epoch.
 *
 * A remover who is killed leaves the phase at 1 or 2. The next writer puts it to 0. A reader does not wait for that: where the writer lock
 * is free, whatever the dead one did is over, and the value that he left serves as r.
 *
 * fork(): a child has a copy of the memory but none of the locks. Each place remembers the generation of forks it was claimed in; in
 * a child it is a place no longer, and another is claimed when it is next needed. Slots of the parent are never touched.
 *
 * Nothing but this rests on the table. Slots carry a sum, and whoever garbles the file all the same makes others lose a state (CB_STALE)
 * or keeps room from being freed; no row is ever written by what it says. It is not part of a backup and is made anew when missing. Cutting
 * it short while it is mapped kills its users with SIGBUS; only the owner of the folder can do that.
 */
#ifndef STORE_INUSE_H
#define STORE_INUSE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/limits.h"

enum {
	INUSE_SLOTS = 64, /* of a block: one page */
	INUSE_BLOCK_BYTES = 4096,
	INUSE_CHUNK_BLOCKS = 64,               /* mapped at once */
	INUSE_BLOCKS_FIRST = 16,               /* made ahead, so that a full disk keeps nobody from opening the store */
	INUSE_BLOCKS_MAX = LIMIT_INUSE_BLOCKS, /* the header's page included */
	INUSE_CHUNKS = INUSE_BLOCKS_MAX / INUSE_CHUNK_BLOCKS,
};

typedef struct inuse_slot {
	_Alignas(64) _Atomic uint64_t turn; /* odd: shown */
	_Atomic uint64_t box, seq, root;
	_Atomic uint64_t since_ns;
	_Atomic uint64_t who;   /* process id << 8 | why */
	_Atomic uint64_t space; /* of the process id: two that differ cannot see each other's processes */
	_Atomic uint64_t sum;
} inuse_slot;

typedef struct inuse_block {
	inuse_slot slot[INUSE_SLOTS];
} inuse_block;

typedef struct inuse_head {
	_Alignas(64) _Atomic uint64_t removal;
	_Alignas(64) _Atomic uint64_t hint; /* a block that may be free; any number will do */
} inuse_head;

typedef struct store_use {
	inuse_slot *slot;
	uint64_t turn; /* what the slot's is, whatever others wrote there */
	unsigned era;  /* generation of forks in which it was claimed */
	struct store_use *next;
} store_use;

/* A block of this handle, and its places. */
typedef struct inuse_own {
	struct inuse_own *next;
	size_t number;
	store_use places[INUSE_SLOTS];
} inuse_own;

typedef struct inuse {
	bool here;   /* false: no table, because the folder cannot be written */
	bool memory; /* of a store in memory: on the heap */
	int fd;
	const io_folder *in; /* lent */
	uint64_t pid, space;
	pthread_mutex_t mutex; /* of all below; a leaf */
	inuse_block *chunk[INUSE_CHUNKS];
	size_t blocks; /* of a store in memory: how many there are */
	store_use *free;
	inuse_own *own;
	uint8_t is_own[INUSE_BLOCKS_MAX / 8];
} inuse;

/* Maps the file `inuse`, making it when it is missing. optional (a store opened read-only): a folder or disk that cannot be written is no
 * error, there is no table then. in NULL: in memory. Claims the first block: CB_NOSPACE when none is free and the file cannot grow. */
cb_code inuse_open(inuse *t, const io_folder *in, bool optional, unsigned era, cb_error *err);
void inuse_close(inuse *t);
/* In the child of a fork, at once: the descriptor, whose locks would outlive the parent. */
void inuse_forget_fd(inuse *t);
/* In the child, later: lets go of the parent's table. Places that were claimed from it stay readable (their era is asked for). */
void inuse_abandon(inuse *t);

/* CB_NOSPACE. */
cb_code inuse_claim(inuse *t, unsigned era, store_use **out, cb_error *err);
void inuse_release(inuse *t, store_use *u);

typedef struct inuse_seen {
	uint64_t box, seq, root;
	int64_t since_ns;
	uint64_t pid; /* 0: of another pid namespace */
	uint8_t why;
} inuse_seen;

/* Shows the place, as `what` says. Its owner's only. */
void inuse_show(const inuse *t, store_use *u, const inuse_seen *what);
void inuse_hide(store_use *u);
/* Appends an inuse_seen for each slot that is shown by somebody who lives; blocks of the dead are emptied. */
cb_code inuse_read(inuse *t, buf *out, cb_error *err);

/* Test use: called as each stage begins, so that another can act in the gap: "show" (a slot is about to be shown), "block" (a remover is
 * about to look at the next block). */
extern void (*inuse_stage_hook)(const char *stage);

typedef enum inuse_phase { INUSE_IDLE, INUSE_READING, INUSE_REMOVING } inuse_phase;

static inline _Atomic uint64_t *inuse_removal(const inuse *t)
{
	return &((inuse_head *)(void *)t->chunk[0])->removal;
}
static inline inuse_phase inuse_phase_of(uint64_t removal)
{
	return (inuse_phase)(removal & 3);
}
/* Under the writer lock: phase 1, the table, phase 2. */
cb_code inuse_removal_begin(inuse *t, buf *out, cb_error *err);
/* Under the writer lock: phase 0, whoever began it. */
void inuse_removal_end(inuse *t);

#endif
