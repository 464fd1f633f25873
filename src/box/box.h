/*
 * box.h: what the other layers of the library may do with a box besides the public calls: look at a state entry by entry, change a box
 * entry by entry, and keep what they need beside it. Everything here passes the gate where a byte, a name or a count leaves or enters a
 * box; nothing here shows a key, a root or a row. box/glob.h (patterns) and box/pack.h (a box as records) belong to it.
 *
 * A *look* is one state, or what a transaction sees now. It does not change while it is open, but for the look of a pen. A *node* is
 * one file, folder or link as a look saw it. A *pen* is one changing call under way, in the box's own or in a caller's transaction.
 */
#ifndef BOX_BOX_H
#define BOX_BOX_H

#include <cowbox/cowbox.h>

#include "base/blob.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"

/* Folders that every box has. */
enum {
	BOX_INO_ROOT = 1,
	BOX_INO_HOME = 3,
};

/* One state: of a box, after a step, by its id, which is never given again. box 0: none. */
typedef struct box_place {
	uint64_t box, seq, state;
} box_place;

enum { NODE_INSIDE_BYTES = 560 };

typedef struct box_node {
	uint64_t ino;
	uint64_t version; /* 0: changed in the transaction under way */
	uint64_t size;
	int64_t mtime_ns, ctime_ns, atime_ns;
	cb_type type;
	uint32_t mode, links;
	_Alignas(8) uint8_t inside[NODE_INSIDE_BYTES]; /* where its data is: box's own */
} box_node;
cb_stat_info node_stat(const box_node *n);

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

/* ---- looking ---- */

typedef struct look look;

/* What the handle sees now, its running transaction included, whatever is done to them afterwards. b must outlive the look: a cursor
 * counts it (box/cursor.h). */
cb_code look_open(cb_box *b, look **out, cb_error *err);
/* The newest state of its box, without what the handle has under way, for a command that is to run on it. */
cb_code look_open_newest(cb_box *b, look **out, cb_error *err);
/* A state that somebody noted before, of any box of the store, as whoever uses b may see it. *out NULL: it is not there any more, or is
 * another state now. near (may be NULL): an open look it may be the same as. */
cb_code look_open_at(cb_box *b, const box_place *at, const look *near, look **out, cb_error *err);
void look_close(look *l); /* accepts NULL */
static inline void look_auto_(look **l)
{
	look_close(*l);
}
#define AUTO_LOOK ATTR_CLEANUP(look_auto_)
box_place look_place(const look *l);
/* For who looks at the same state now and then: between rest and wake it is not kept from prune. wake: CB_STALE when it went. */
void look_rest(look *l);
cb_code look_wake(look *l, cb_error *err);
/* Files, folders and links in all. */
cb_code look_count(look *l, uint64_t *out, cb_error *err);

/* By path; follow: also a symbolic link in the last component. CB_NOTFOUND. */
cb_code look_find(look *l, const char *path, bool follow, box_node *out, cb_error *err);
/* By folder and name, and by number. CB_NOTFOUND without a message: an answer. */
cb_code look_child(look *l, uint64_t dir, span name, box_node *out, cb_error *err);
cb_code look_node(look *l, uint64_t ino, box_node *out, cb_error *err);
/* The entries of a folder in the order of names; *found false at the end. The name is lent until the next call. The look must not change
 * meanwhile. */
typedef struct look_list look_list;
cb_code look_list_open(look *l, uint64_t dir, look_list **out, cb_error *err);
cb_code look_list_next(look_list *c, span *name, box_node *out, bool *found, cb_error *err);
void look_list_close(look_list *c); /* accepts NULL */
static inline void look_list_auto_(look_list **c)
{
	look_list_close(*c);
}
#define AUTO_LIST ATTR_CLEANUP(look_list_auto_)
/* Everything below a folder, parents before children, by name; the caller says with look_enter, after a folder was given, whether to
 * descend into it. */
typedef struct look_walk {
	const char *path; /* of what was given last */
	size_t depth;     /* of it: 1 in the folder the walk began at */
} look_walk;
cb_code look_walk_open(look *l, const char *path, uint64_t dir, look_walk **out, cb_error *err);
cb_code look_walk_next(look_walk *w, box_node *out, bool *found, cb_error *err);
cb_code look_walk_enter(look_walk *w, const box_node *dir, cb_error *err);
void look_walk_close(look_walk *w); /* accepts NULL */
static inline void look_walk_auto_(look_walk **w)
{
	look_walk_close(*w);
}
#define AUTO_WALK ATTR_CLEANUP(look_walk_auto_)

/* Within the file's size; holes give zeros. */
cb_code look_read(look *l, const box_node *n, uint64_t offset, void *to, size_t size, cb_error *err);
/* The next offset >= offset that is data, or a hole (the end counts as one). data: CB_NOTFOUND past the last. */
cb_code look_seek(look *l, const box_node *n, uint64_t offset, bool hole, uint64_t *out, cb_error *err);
/* All of it, where it lies in memory already: *out.bytes NULL when it has to be read. *hold (NULL: the node itself holds it): blob_unref()
 * it. */
cb_code look_lend(look *l, const box_node *n, span *out, blob **hold, cb_error *err);
/* All of it, NUL-terminated; free() it. CB_TOOBIG above max. For the targets of links. */
cb_code look_load(look *l, const box_node *n, uint64_t max, char **out, size_t *out_size, cb_error *err);
cb_code look_equal(look *a, const box_node *x, look *b, const box_node *y, bool *out, cb_error *err);
/* Extended attributes, by name. */
typedef cb_code (*look_attribute_visit)(void *context, const char *name, span value, cb_error *err);
cb_code look_attributes(look *l, const box_node *n, look_attribute_visit visit, void *context, cb_error *err);
/* Appends the user.* attributes (but those of overlayfs) as rows: see pen_attributes. */
cb_code look_attribute_rows(look *l, uint64_t ino, buf *rows, cb_error *err);
/* Has it this tag ('t') or metadata ('m'), with this value (NULL: any)? */
cb_code look_has(look *l, const box_node *n, char sort, const char *name, const span *value, bool *out, cb_error *err);
/* Each name of a file: the folder it is in, and the name there. */
typedef cb_code (*look_name_visit)(void *context, uint64_t dir, span name, cb_error *err);
cb_code look_names(look *l, uint64_t ino, look_name_visit visit, void *context, cb_error *err);
/* The absolute path by its first name, with a NUL that is not counted, appended. */
cb_code look_path(look *l, uint64_t ino, buf *out, cb_error *err);
/* What changed from one to the other, by path. */
cb_code look_diff(look *from, look *to, cb_change_visit visit, void *context, cb_error *err);
/* Names that are in folders of `to` and were not in `from`, in no order. */
cb_code look_new_names(look *from, look *to, look_name_visit visit, void *context, cb_error *err);

/* A name that the sandbox owns at the root of every box. */
bool box_name_reserved(span name);
/* "a//b/./c" as "/a/b/c" (".." and links are left to resolution). NULL: no memory. free() it. */
char *path_clean(const char *path);

/* ---- changing ---- */

typedef struct pen pen;

/* kind and params are lent until pen_end, which undoes the call when code is not CB_OK, and ends it in any case. */
cb_code pen_begin(cb_box *b, const char *kind, const char *params, pen **out, cb_error *err);
cb_code pen_end(pen *e, cb_code code, cb_error *err);
/* What it sees, with what it did so far. Lent. */
look *pen_look(pen *e);
/* What it was before the transaction: lent too. */
look *pen_base(pen *e);

/* Where a path leads. Parents that are missing are made. */
typedef struct pen_spot {
	uint64_t dir;
	uint8_t name[LIMIT_NAME_BYTES + 1];
	size_t name_size;
	bool exists;
	box_node there; /* when it exists */
} pen_spot;
cb_code pen_spot_find(pen *e, const char *path, pen_spot *out, cb_error *err);

/* A new node; nothing of that name is there. */
cb_code pen_make(pen *e, uint64_t dir, span name, cb_type type, uint32_t mode, box_node *out, cb_error *err);
/* May the folder's entries, or the file, be changed? For what pen_data, pen_attributes and pen_save do by number. */
cb_code pen_allow(pen *e, uint64_t dir, span name, const box_node *n, cb_error *err);
/* Whatever is there, with all that is below it. *out_removed (may be NULL): how many. */
cb_code pen_remove(pen *e, uint64_t dir, span name, uint64_t *out_removed, cb_error *err);
/* A further name of a file or link. CB_MLINK. */
cb_code pen_link(pen *e, uint64_t ino, uint64_t dir, span name, box_node *out, cb_error *err);
/* One name goes; with the last one all that the file has. */
cb_code pen_unlink(pen *e, uint64_t dir, span name, cb_error *err);
/* From one name to another, which must be free. */
cb_code pen_move(pen *e, uint64_t dir, span name, uint64_t to_dir, span to_name, cb_error *err);
/* Data, mode, access and modification time as the node has them now. changed: gives it a new version and ctime. */
cb_code pen_save(pen *e, box_node *n, bool changed, cb_error *err);
cb_code pen_times(pen *e, uint64_t ino, int64_t atime_ns, int64_t mtime_ns, cb_error *err);
/* The whole content; n is not saved. */
cb_code pen_put(pen *e, box_node *n, span bytes, cb_error *err);
/* CB_QUOTA when no file may be so large. */
cb_code pen_allows_size(pen *e, const char *path, uint64_t size, cb_error *err);

/* Files of the host brought into the box: what the box has is compared first, so that a file that is the same keeps its version and costs
 * no space; of a large file only the parts that differ are stored. */
typedef struct pen_file {
	int fd;
	uint64_t size, allocated_bytes; /* less than size: there may be holes */
	/* After bytes of a large file were stored (0: compared); may be NULL. */
	cb_code (*progress)(void *context, uint64_t bytes, cb_error *err);
	void *context;
	/* Where the host's file has data: [*out_start, *out_end) at or after offset, both size when only a hole is left. */
	cb_code (*data_next)(int fd, uint64_t offset, uint64_t size, uint64_t *out_start, uint64_t *out_end, cb_error *err);
} pen_file;
/* The data of n (not saved here) becomes the file's. fresh: n was just made. *rests: false when the file ended before its size, and n is
 * then half one thing and half another: try again, or drop the transaction. *changed is only ever set. */
cb_code pen_data(pen *e, const pen_file *f, box_node *n, bool fresh, bool *rests, bool *changed, cb_error *err);
/* Is it the same already? */
cb_code pen_same(pen *e, const pen_file *f, const box_node *n, bool *out, cb_error *err);
/* The user.* attributes (but those of overlayfs) become these rows: name with its NUL, size (4 bytes), value, one after the other, by
 * name. Rows that are malformed are CB_CORRUPT. */
cb_code pen_attributes(pen *e, uint64_t ino, span rows, bool fresh, bool *changed, cb_error *err);
cb_code pen_attribute_add(buf *rows, const char *name, span value, cb_error *err);

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

/* NULL: in memory. */
const char *box_store_path(const cb_store *cs);
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
/* Was the store brought up from a format without pins, and is every step kept for what commands may have left since? Whoever has
 * pinned what these need drops that. */
cb_code box_pins_earlier(cb_store *cs, bool *out, cb_error *err);
cb_code box_pins_earlier_drop(cb_store *cs, cb_error *err);
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
