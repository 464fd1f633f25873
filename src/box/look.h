/*
 * look.h: looking at a state of a box entry by entry, for the other layers of the library. Everything here passes the gate; nothing here
 * shows a key, a root or a row.
 *
 * A *look* is one state, or what a transaction sees now. It does not change while it is open, but for the look of a pen (pen.h). A *node*
 * is one file, folder or link as a look saw it.
 */
#ifndef BOX_LOOK_H
#define BOX_LOOK_H

#include <cowbox/cowbox.h>

#include "base/blob.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"

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

/* ---- life ---- */

typedef struct look look;

typedef enum look_at {
	LOOK_AS_SEEN, /* what the handle sees now, its running transaction included, whatever is done to them afterwards */
	LOOK_NEWEST,  /* the newest state of its box, without what the handle has under way: for a command that is to run on it */
} look_at;
/* b must outlive the look: a cursor counts it (cursor.h). */
cb_code look_open(cb_box *b, look_at at, look **out, cb_error *err);
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
/* Files, folders and links in all. */
cb_code look_count(look *l, uint64_t *out, cb_error *err);

/* By path; follow: also a symbolic link in the last component. CB_NOTFOUND. */
cb_code look_find(look *l, const char *path, bool follow, box_node *out, cb_error *err);
/* By folder and name, and by number. CB_NOTFOUND without a message: an answer. */
cb_code look_child(look *l, uint64_t dir, span name, box_node *out, cb_error *err);
cb_code look_node(look *l, uint64_t ino, box_node *out, cb_error *err);
/* The entries of a folder by name, and everything below those that the caller enters: after a folder was given look_walk_enter descends
 * into it. *found false at the end. The look must not change meanwhile. */
typedef struct look_walk {
	const char *
		path; /* of what was given last, lent until the next call: begins with the path the walk was opened with, which may be "" */
	span name;    /* the end of it */
	size_t depth; /* of it: 1 in the folder the walk began at */
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

#endif
