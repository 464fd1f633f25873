/*
 * crashes.h: work whose loss or tearing shows, for tests that kill, cut the power, fail the disk or damage the files.
 *
 * A box holds a few *slots*: files and a key-value whose bytes carry a tag and their own sum. Slots 0-5 are three pairs: both files of a
 * pair are only ever changed in one transaction and carry the same tag, so half a transaction shows in any state. An *actor* does one
 * random action at a time and describes what was acknowledged as an *event*; an event can be checked later, in any process.
 *
 * Nothing here calls CHECK: writers run in processes of their own that have no harness around them.
 */
#ifndef TESTS_CRASHES_H
#define TESTS_CRASHES_H

#include <cowbox/cowbox.h>

#include "harness/harness.h"
#include "store/store.h"

enum {
	CRASH_PAIRS = 3,
	CRASH_FILE = 6,   /* written whole by path */
	CRASH_HANDLE = 7, /* written through an open file, larger than LIMIT_CONTENT_TABLE_BYTES */
	CRASH_KEY = 8,    /* a key-value */
	CRASH_SLOTS = 9,
	CRASH_ALL = (1 << CRASH_SLOTS) - 1,
	CRASH_NAME = 32,
};

/* Sums of the slots' bytes; 0: not there. */
typedef struct crash_model {
	uint64_t sum[CRASH_SLOTS];
} crash_model;

typedef enum crash_kind {
	CRASH_NOTHING,
	CRASH_STEP,       /* a state of `box` after step `seq` */
	CRASH_CHECKPOINT, /* the same, by name; never pruned */
	CRASH_PRUNE,      /* intent: steps of box below seq may go */
	CRASH_DELETE,     /* intent: box may go */
	CRASH_UPKEEP,     /* gc, vacuum, sync: no state */
} crash_kind;

typedef struct crash_event {
	crash_kind kind;
	bool synced;   /* flushed, with all that came before */
	uint32_t mask; /* the slots that `model` tells */
	char box[CRASH_NAME];
	char name[CRASH_NAME]; /* of the checkpoint */
	uint64_t seq, state;
	crash_model model;
} crash_event;

typedef struct crash_actor {
	cb_store *s;
	cb_box *b;
	char box[CRASH_NAME];
	test_rng rng;
	uint64_t next_tag; /* unique among all actors */
	bool vacuum;       /* may call it */
	bool shared;       /* others write the box too: crash_act_shared only */
	/* Called before something is taken away. */
	void (*intend)(void *context, const crash_event *intent);
	void *context;
	/* private */
	crash_model now, fork_now;
	char fork[CRASH_NAME]; /* "": none */
	uint8_t *room;
} crash_actor;

/* A store with a fault plan (may be NULL). cb_store_close() it. */
cb_code crash_store_open(const char *path, store_fault_plan *faults, bool full, cb_store **out, cb_error *err);
/* For store_fault_plan.cut: kills the process. */
void crash_die(store_fault_plan *plan, void *context);
/* Opens and closes a store in a process that is killed before that write: its status, 0 when it did not come to it. */
int crash_open_killed(const char *path, long write);

/* Opens (or makes) the actor's box and learns what it holds. Fill in the public fields before; crash_actor_done() in any case. */
cb_code crash_actor_init(crash_actor *a, cb_error *err);
void crash_actor_done(crash_actor *a);
/* One random action. CB_OK: *out is acknowledged (kind CRASH_NOTHING: nothing came of it). Another code: perhaps done, perhaps not. */
cb_code crash_act(crash_actor *a, crash_event *out, cb_error *err);
/* Both files of a pair in one transaction, in a box that others write too. */
cb_code crash_act_shared(crash_actor *a, crash_event *out, cb_error *err);

/* Single actions, as crash_act does them. */
cb_code crash_write_pair(crash_actor *a, unsigned pair, crash_event *out, cb_error *err);
cb_code crash_write_file(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_write_handle(crash_actor *a, bool sync, crash_event *out, cb_error *err);
cb_code crash_write_key(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_remove_pair(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_exchange(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_checkpoint(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_undo(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_restore(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_fork(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_fork_write(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_merge(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_fork_delete(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_prune(crash_actor *a, uint64_t keep, crash_event *out, cb_error *err);
cb_code crash_gc(crash_actor *a, crash_event *out, cb_error *err);
cb_code crash_vacuum(crash_actor *a, crash_event *out, cb_error *err);

/* Reads every slot in mask. CB_INTERNAL: bytes with a wrong sum or half a transaction, as the message says. */
cb_code crash_model_read(cb_box *b, uint32_t mask, crash_model *out, cb_error *err);

typedef enum crash_verdict {
	CRASH_THERE,
	CRASH_GONE,  /* no such box or step, or pruned */
	CRASH_WRONG, /* something else in its place; *err says what */
	CRASH_ERROR, /* the store said that it cannot: *err */
} crash_verdict;
crash_verdict crash_event_check(cb_store *s, const crash_event *e, cb_error *err);
const char *crash_slot_path(unsigned slot);

#endif
