/*
 * internal.h: what the files of this layer share: the folders of a store, slots, layers, one work.
 *
 *   slots.c    the folders, their checks, who has which slot
 *   layers.c   sealed layers: which one to stand on
 *   names.c    the names of a file
 *   bring.c    the difference between two states as BUILD messages
 *   capture*.c what a command left, as changes of a transaction
 *   work.c     one command after the other; recover.c what a crash left; clean.c
 */
#ifndef WORK_INTERNAL_H
#define WORK_INTERNAL_H

#include "base/temporary.h"
#include "box/box.h"
#include "box/pen.h"
#include "work/stamp.h"
#include "work/work.h"

/* ---- slots.c ---- */

typedef struct work_dirs {
	int top, slots, layers, area;        /* of a store in memory: only an area, an empty folder to mount one's own on */
	uid_t uid;                           /* whom the area belongs to; 0: the caller */
	char temporary[8 + TEMPORARY_BYTES]; /* the path of such an area, which goes with it */
} work_dirs;
#define WORK_DIRS_NONE ((work_dirs){-1, -1, -1, -1, 0, ""})
/* Makes them when they are not there. CB_DENIED: not ours, or open to others. */
cb_code dirs_open(cb_store *cs, work_dirs *out, cb_error *err);
/* Only when they are there; *out_found. */
cb_code dirs_find(cb_store *cs, work_dirs *out, bool *out_found, cb_error *err);
void dirs_done(work_dirs *d);

typedef struct slot_file {
	uint64_t box;
	unsigned number;
	char name[32]; /* BOX.N, here and in the area */
	int lock;      /* the locked descriptor; -1 once the holder has it */
	int fd;        /* for stamps */
	stamp stamp;
} slot_file;
#define SLOT_FILE_NONE ((slot_file){.lock = -1, .fd = -1})
void slot_file_done(slot_file *s);
/* Whose pins (box_pins_set) a slot's are. */
enum { WORK_OWNER_BYTES = 64 };
void slot_owner(uint64_t box, unsigned number, char out[WORK_OWNER_BYTES]);
/* Pins what the stamp's command began from and stands on. CB_STALE. */
cb_code pin_stamp(cb_store *cs, const char *owner, const stamp *s, cb_error *err);
/* The slot that an owner is; false: none. */
bool slot_of_owner(const char *owner, uint64_t *out_box, unsigned *out_number);
/* Locks one that nobody uses: the one that is at that state, else the lowest; made when all are in use. One whose command was not
 * captured yet is left alone. CB_BUSY. */
cb_code slot_take(const work_dirs *d, uint64_t box, uint64_t state_id, slot_file *out, cb_error *err);
/* That one, if nobody has it. A stamp that is damaged is an empty one. */
cb_code slot_try(const work_dirs *d, uint64_t box, unsigned number, bool make, slot_file *out, bool *out_got, cb_error *err);
/* What a slot is taken for: a byte of its file that is locked. */
typedef enum slot_use {
	SLOT_RUNS,     /* commands, by a caller that lives */
	SLOT_RECOVERS, /* capturing what a command left */
	SLOT_ORPHAN,   /* no byte: a command ran and its caller is dead. Its holder, which watches the caller, ends soon */
} slot_use;
/* Of one that was taken by slot_try; slot_take does it. */
void slot_mark(const slot_file *s, slot_use use);
/* Of one that somebody has. SLOT_RUNS also when nothing is to be recovered. Only a look: ask again. */
slot_use slot_use_now(const work_dirs *d, uint64_t box, unsigned number);
/* All that there are: visit(BOX, N). */
typedef cb_code (*slot_visit)(void *context, uint64_t box, unsigned number, cb_error *err);
cb_code slots_each(const work_dirs *d, slot_visit visit, void *context, cb_error *err);
/* What slot N of a box was last, without a lock. CB_NOTFOUND, CB_CORRUPT. */
cb_code slot_peek(const work_dirs *d, uint64_t box, unsigned number, stamp *out, cb_error *err);

/* ---- layers.c ---- */

/* CB_OK and a locked descriptor (close() it); -1 for a store in memory. */
cb_code layers_lock(const work_dirs *d, bool exclusive, int *out, cb_error *err);
/* The sealed layer from which the fewest steps lead to the state; *out_found false: none is of use. Under the shared lock. */
cb_code layers_choose(cb_store *cs, const work_dirs *d, const box_place *to, stamp *out, bool *out_found, cb_error *err);
/* A name nobody has, "l" and 16 hexadecimal digits. */
cb_code layer_name(char out[STAMP_ID_BYTES], cb_error *err);
/* After SEAL: its stamp. s->layers begins with the layer itself. */
cb_code layer_put(const work_dirs *d, const stamp *s, cb_error *err);
cb_code layer_get(const work_dirs *d, const char *id, stamp *out, cb_error *err); /* CB_NOTFOUND, CB_CORRUPT */
typedef cb_code (*layer_visit)(void *context, const char *id, cb_error *err);
cb_code layers_each(const work_dirs *d, layer_visit visit, void *context, cb_error *err);

/* ---- names.c ---- */

/* One name of a file. */
typedef struct work_name {
	uint64_t dir;
	size_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} work_name;
/* A look_name_visit: appends it to a buf. */
cb_code work_name_add(void *context, uint64_t dir, span name, cb_error *err);
static inline span work_name_span(const work_name *n)
{
	return span_make(n->name, n->size);
}

/* ---- bring.c ---- */

/* Sends what leads from one state to the other (from NULL: from nothing) as BUILD messages; *out_ops: how many. Without BUILD_END. */
cb_code bring(link_t *l, look *from, look *to, uint64_t *out_ops, cb_error *err);
/* Attributes of an entry that take more than this do not fit into a message: they are neither brought nor captured. */
enum { WORK_XATTRS_BYTES = 40 << 10 };

/* ---- capture.c ---- */

/* A SCAN under way. One that was given up is drained before anything else is said to the holder: then another can be made. */
typedef struct capture_scan {
	bool open;
	bool owes_more;   /* MORE is to be sent */
	uint64_t packets; /* that came */
	wire_scanned end; /* once it is not open any more */
} capture_scan;

typedef struct capture_options {
	look *layer; /* of a stack, whose upper is looked at: what the layers hold. NULL: a plain tree */
	int area;    /* where the tree is, to see whether there are attributes; -1: that cannot be seen */
	work_note note;
	void *context;
	capture_scan *scan;
} capture_options;
/* Takes what a scan that was given up left on the way. */
cb_code capture_drain(link_t *l, capture_scan *scan, cb_error *err);
/* SCAN, and what came of it into the transaction that is open on b. After a failure the transaction must be aborted. */
cb_code capture(link_t *l, cb_box *b, const capture_options *options, work_result *out, cb_error *err);

/* ---- work.c ---- */

struct work {
	unsigned era; /* (entry.h) of the process that opened it: a child of fork() only frees its copy */
	cb_store *cs;
	cb_box *b; /* of its own: the caller's handle stays free */
	work_options options;
	work_dirs dirs;
	slot_file slot;
	bool memory; /* nothing on disk: the slot ends with the holder */
	link_t *link;
	cb_tier tier;
	bool stack_works;   /* overlayfs was seen to work here */
	bool mounted;       /* WORK was sent for what the slot's stamp says */
	bool entered;       /* ENTER was sent since */
	bool pinned;        /* the slot has pins: box_pins_set */
	bool running;       /* between begin and end */
	bool ready_pending; /* READY is still to come */
	bool built_pending; /* BUILT is */
	capture_scan scan;
	look *base;  /* of the command that runs; NULL: none */
	look *layer; /* of the newest layer as last used; it rests while no command runs */
	char *kind, *params;
	size_t params_size;
	int64_t started_ns;
};

/* Test use: smaller bounds than limits.h has, so that small trees are stacked, sealed and made anew. */
typedef struct work_bounds {
	uint64_t plain, upper;
	size_t layers;
} work_bounds;
extern work_bounds work_bound;

/* Test use: called with the name of each stage as it begins, to die there. */
extern void (*work_stage_hook)(const char *stage);
static inline void work_stage(const char *name)
{
	if (work_stage_hook) work_stage_hook(name);
}

/* What a step says of its run beside what its caller says. */
typedef struct run_said {
	const char *run;
	bool interrupted;
	const char *lost;           /* NULL: it is not */
	const work_result *capture; /* NULL, or what was left out of it */
} run_said;
/* The step's result with these in it; free() it. result: JSON, or any text, or NULL. Of one that is too large for a step only the beginning
 * is kept, as "cut". */
cb_code run_result(const char *result, const run_said *said, char **out, cb_error *err);
/* The step's parameters as the stamp keeps them: as they are, or their beginning as a text in JSON. */
cb_code run_params(span params, char out[STAMP_PARAMS_BYTES], cb_error *err);
/* Kind and parameters that are too large for a step are cut to what fits, in room: what a command did is not lost for them. */
typedef struct run_words {
	char kind[STAMP_KIND_BYTES], params[STAMP_PARAMS_BYTES];
} run_words;
cb_code run_words_fit(cb_step_info *info, run_words *room, cb_error *err);
/* Starts the holder of w->slot, whose lock it takes. */
cb_code work_hold(work *w, cb_error *err);
/* Sends WORK for the slot as its stamp says. */
cb_code work_send_mount(work *w, bool wipe, cb_error *err);
/* The state of the layers that the slot's upper lies on, lent; *out NULL: it is no stack. CB_STALE: gone. */
cb_code work_layer(work *w, look **out, cb_error *err);
/* Commits what a command did. What cannot be merged (CB_CONFLICT), or is beyond the box's quota (CB_QUOTA), is kept as a fork, out->fork: a
 * run never stays out of the history. */
cb_code work_commit(cb_box *change, const cb_step_info *info, cb_commit_result *out, cb_error *err);
/* Closes the transaction of a capture that ended with that code. When there was no room, what it took goes with it, and the stamp says how
 * much there must be, free_bytes being what there was before (work_free_bytes). Gives back the code. */
cb_code work_change_close(work *w, cb_box *change, uint64_t free_bytes, cb_code code);
uint64_t work_free_bytes(const work_dirs *d);
bool work_box_is_gone(cb_store *cs, uint64_t box); /* deleted; what its programs left is wanted by nobody */
/* Empties the tree, or the upper: the slot is then at nothing, or at its newest layer. */
cb_code work_reset(work *w, cb_error *err);

#endif
