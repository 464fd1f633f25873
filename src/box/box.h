/*
 * box.h: what the other layers of the library may do with handles, boxes and stores besides the public calls, and what they may keep
 * beside a box. look.h (a state, entry by entry), pen.h (a change, entry by entry), glob.h (patterns), pack.h (a box as records) and
 * cursor.h (lists) belong to it. Everything here passes the gate where a byte, a name or a count leaves or enters a box; nothing here
 * shows a key, a root or a row.
 */
#ifndef BOX_BOX_H
#define BOX_BOX_H

#include <cowbox/cowbox.h>

#include "box/look.h"

/* ---- names ---- */

/* Folders that every box has. */
enum {
	BOX_INO_ROOT = 1,
	BOX_INO_HOME = 3,
};
/* A name that the sandbox owns at the root of every box. */
bool box_name_reserved(span name);
/* "a//b/./c" as "/a/b/c" (".." and links are left to resolution). NULL: no memory. free() it. */
char *path_clean(const char *path);

/* ---- calls that call back ---- */

/* A function of the caller's may close the box and the store that it is called for. A call that uses its handles afterwards begins with
 *
 *   BOX_STAYS(b);
 *
 * To the end of the scope the handle, and the store with it, is closed only as far as the caller can see: what enters it is CB_BADHANDLE,
 * and what it holds goes when the scope ends. Inside box_enter and box_leave this is so without it. */
cb_box *box_stay(cb_box *b);
void box_stay_end(cb_box *const *b);
#define BOX_STAYS(b) ATTR_CLEANUP(box_stay_end) ATTR_UNUSED cb_box *const stays_##b = box_stay(b)
/* The same for a store. */
cb_store *box_store_stay(cb_store *cs);
void box_store_stay_end(cb_store *const *cs);
#define STORE_STAYS(cs) ATTR_CLEANUP(box_store_stay_end) ATTR_UNUSED cb_store *const stays_##cs = box_store_stay(cs)

/* ---- handles ---- */

/* What never changes of a handle. */
typedef struct box_facts {
	cb_store *store;
	uint64_t id;
	bool is_old; /* one state, read-only */
	bool is_txn; /* cb_txn_begin's */
} box_facts;
box_facts box_about(const cb_box *b);
/* Keeps a handle that its caller may close: then it is of no use any more, but for these calls and what identifies it. */
cb_box *box_ref(cb_box *b);
void box_unref(cb_box *b);
/* Ends the running step of open files, so that everybody sees what was written; nothing to do on a handle that was closed. */
cb_code box_writes_end(cb_box *b, cb_error *err);
/* What other threads may change meanwhile: copies. */
cb_code box_name_get(cb_box *b, char out[CB_NAME_MAX + 1], cb_error *err); /* as the handle knows it */
cb_code box_who_take(cb_box *b, char **out, cb_error *err);                /* free() it */
/* Its newest state now, or the one it shows. */
cb_code box_place_of(cb_box *b, box_place *out, cb_error *err);
/* Keeps other threads from the handle: for calls made of several. Only the caller's limit makes it fail. */
cb_code box_hold(cb_box *b, cb_error *err);
void box_release(cb_box *b);
/* A call on b made that step through a transaction of its own: cb_box_step() tells it. seq 0: none. */
void box_made(cb_box *b, uint64_t seq);
/* Does a rule lie in the box, for who uses b (gate.h)? */
bool box_has_rules(cb_box *b);
/* CB_DENIED then: `what` takes all of it. */
cb_code box_refuse_rules(cb_box *b, const char *what, cb_error *err);
/* CB_INVALID on a transaction's handle: `what` is not for it. */
cb_code box_refuse_txn(const cb_box *b, const char *what, cb_error *err);
/* A read-only handle on a step of the same box, whatever the box is called by now, for who uses b. */
cb_code box_open_step(const cb_box *b, uint64_t seq, cb_box **out, cb_error *err);
/* A handle of its own on what b sees now, its transaction or running writes included, whatever becomes of b: for reading by path. */
cb_code box_picture_open(cb_box *b, cb_box **out, cb_error *err);
/* A handle by the number of the box. CB_NOTFOUND: deleted. */
cb_code box_open_id(cb_store *cs, uint64_t id, cb_box **out, cb_error *err);
/* As cb_txn_begin, over a state of the box (CB_STALE: it is another one, or pruned): what a command did that began there is merged onto the
 * head by cb_txn_commit. It is a record of what happened: its commit may use what is kept for a full disk, and quotas hold at the commit
 * only, so that what is beyond them can be kept as a fork. */
cb_code box_txn_begin_at(cb_box *b, uint64_t seq, uint64_t state_id, const cb_step_info *info, cb_box **out, cb_error *err);
/* Closes the handle of a transaction that is surely not committed (none was tried, or it was CB_NOSPACE), and gives back at once what it
 * put into the store. */
void box_txn_take_back(cb_box *txn);
/* Steps that are made through b are said to be of this one; the gate goes on asking for the handle's own. */
cb_code box_record_for(cb_box *b, const char *who, cb_error *err);
/* What a transaction would do. */
cb_code box_txn_changes(cb_box *txn, cb_change_visit visit, void *context, cb_error *err);
/* Where a box began: the place in its origin. *out.box 0: it is no fork, or that is gone. */
cb_code box_origin(cb_store *cs, uint64_t box, box_place *out, cb_error *err);
/* Does the result of a step after that place hold the text, in its box or in a fork that began there? */
cb_code box_was_recorded(cb_store *cs, const box_place *after, const char *text, bool *out, cb_error *err);

/* Settings of a box, the library's own ("cowbox.") too. value NULL deletes. get: free() *out; CB_NOTFOUND. */
cb_code box_setting_set(cb_box *b, const char *name, const char *value, cb_error *err);
cb_code box_setting_get(cb_box *b, const char *name, char **out, cb_error *err);

/* The store's folder (an O_PATH descriptor; lent), wherever it was moved. -1: in memory. */
int box_store_folder(const cb_store *cs);
/* CB_READONLY, with the reason. */
cb_code box_store_writable(const cb_store *cs, cb_error *err);
int64_t box_store_now(const cb_store *cs);

/* Files beside the store, in a folder of this list, that are somebody's cache for a box: they go with it. Their names begin with the box's
 * number; the rest is the caller's. */
#define BOX_SIDE_IMPORT "import"
enum { BOX_SIDE_NAME_BYTES = 64 };
/* A descriptor of the folder; -1: there is none. */
int box_side_open(const cb_store *cs, const char *folder, bool make);
void box_side_name(uint64_t box, uint64_t number, char out[BOX_SIDE_NAME_BYTES]);

/* Steps that are kept for something that outlives its process. An owner's pins replace those it had; count 0: none. CB_STALE: a step is
 * gone. */
typedef struct box_pin {
	uint64_t box, seq;
	const char *why;
} box_pin;
enum { BOX_PINS_MAX = 4 };
cb_code box_pins_set(cb_store *cs, const char *owner, const box_pin *pins, size_t count, cb_error *err);
/* Owners of the library's own: slots for commands, by name. */
#define BOX_WORK_OWNER "cowbox.work "
/* Was the store brought up from a format without pins, and does this owner keep every step for what commands may have left since? Whoever
 * has pinned what these need drops that. */
#define BOX_EARLIER_OWNER BOX_WORK_OWNER "earlier"
cb_code box_pins_earlier(cb_store *cs, bool *out, cb_error *err);
/* Drops the pins of owners whose names begin so and that nobody wants any more. */
typedef bool (*box_pin_wanted)(void *context, const char *owner);
cb_code box_pins_sweep(cb_store *cs, const char *prefix, box_pin_wanted wanted, void *context, cb_error *err);

/* ---- the folder a box came from (folder.c, folder_base.c, base_take.c) ---- */

/* The folder (a path without links) becomes the box's own, at that place in the box, and the box the folder's. */
cb_code box_folder_set(cb_box *b, const char *host_path, const char *box_path, cb_error *err);
/* As cb_folder_get; and the box that has exactly this folder, by name; free() them. CB_NOTFOUND. */
cb_code box_folder_get(cb_box *b, char **out_host_path, char **out_box_path, cb_error *err);
cb_code box_folder_find(cb_store *cs, const char *host_path, size_t size, char **out_name, cb_error *err);

/* An entry of a folder of the box. */
typedef struct box_only {
	uint64_t parent;
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} box_only;
/* What an import tells of the box's own folder. */
typedef struct box_folder_news {
	cb_box *b;                        /* whose folder it is; not the transaction */
	const char *host_path, *box_path; /* as box_folder_set; NULL: it is the box's already */
	const box_only *only;             /* what the box has and the host has not */
	size_t only_count;
} box_folder_news;
/* As cb_txn_commit. In the same write transaction the hidden base becomes what the transaction holds, less what only the box has, whatever
 * others did meanwhile, and the folder the box's own. */
cb_code box_txn_commit_folder(cb_box *txn, const cb_commit_options *options, const box_folder_news *news, cb_commit_result *out,
                              cb_error *err);

/* The hidden companion of a box: what its host folder holds. */
typedef enum box_base_how {
	BOX_BASE_EXISTING, /* CB_NOTFOUND when there is none */
	BOX_BASE_EMPTY,    /* made when there is none, with the folders of a new box */
	BOX_BASE_AT_HEAD,  /* made when there is none, as who uses b sees the box now */
	BOX_BASE_ANEW,     /* made in any case, with the folders of a new box */
} box_base_how;
/* A handle like any other; cb_box_close() it. Only its newest state is kept. Forks of the box have a base of their own that starts at
 * this one's newest state, and its folder. */
cb_code box_base_open(cb_box *b, box_base_how how, cb_box **out, cb_error *err);
/* A new base in place of the old one, as the handle's state is. Handles on the old one are of no use afterwards. */
cb_code box_base_reset(cb_box *b, cb_error *err);
/* Makes each of the paths (absolute, in byte order) in the base what it is in `from`, as one step: a file or link with all that
 * belongs to it, a folder with its mode but not with what is in it, or nothing. */
cb_code box_base_take(cb_box *base, cb_box *from, const char *const *paths, size_t count, cb_error *err);

#endif
