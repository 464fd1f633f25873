/*
 * pen.h: changing a box entry by entry, for the other layers of the library. A *pen* is one changing call under way, in the box's own or
 * in a caller's transaction. Everything here passes the gate.
 */
#ifndef BOX_PEN_H
#define BOX_PEN_H

#include "box/look.h"

typedef struct pen pen;

/* kind and params are lent until pen_end, which undoes the call when code is not CB_OK, and ends it in any case. */
cb_code pen_begin(cb_box *b, const char *kind, const char *params, pen **out, cb_error *err);
cb_code pen_end(pen *e, cb_code code, cb_error *err);
/* What is done after pen_mark is undone by pen_back, or stays by pen_unmark: one entry that fails need not fail the call. */
void pen_mark(pen *e);
void pen_back(pen *e);
void pen_unmark(pen *e); /* also without a mark */
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
/* The name, and with the last name of a file or folder all that it has and all that is below it. *out_removed (may be NULL): how many. */
cb_code pen_remove(pen *e, uint64_t dir, span name, uint64_t *out_removed, cb_error *err);
/* A further name of a file or link. CB_MLINK. */
cb_code pen_link(pen *e, uint64_t ino, uint64_t dir, span name, box_node *out, cb_error *err);
/* From one name to another, which must be free. */
cb_code pen_move(pen *e, uint64_t dir, span name, uint64_t to_dir, span to_name, cb_error *err);
/* Data, mode, access and modification time as the node has them now. changed: gives it a new version and ctime. */
cb_code pen_save(pen *e, box_node *n, bool changed, cb_error *err);
cb_code pen_times(pen *e, uint64_t ino, int64_t atime_ns, int64_t mtime_ns, cb_error *err);
/* The whole content; n is not saved. */
cb_code pen_put(pen *e, box_node *n, span bytes, cb_error *err);

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
/* Did the last pen_data fail because the host's file could not be read? */
bool pen_unreadable(const pen *e);
/* Is it the same already? */
cb_code pen_same(pen *e, const pen_file *f, const box_node *n, bool *out, cb_error *err);
/* The user.* attributes (but those of overlayfs) become these rows: name with its NUL, size (4 bytes), value, one after the other, by
 * name. Rows that are malformed are CB_CORRUPT. */
cb_code pen_attributes(pen *e, uint64_t ino, span rows, bool fresh, bool *changed, cb_error *err);
cb_code pen_attribute_add(buf *rows, const char *name, span value, cb_error *err);

#endif
