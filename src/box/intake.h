/*
 * intake.h: the bytes and attributes of files of the host brought into a box: for import, which finds them in a folder, and for capture,
 * which is handed them by a sandbox.
 *
 * What the box has is compared first, so that a file that is the same keeps its version and costs no space; of a large file only the
 * parts that differ are stored.
 */
#ifndef BOX_INTAKE_H
#define BOX_INTAKE_H

#include "box/internal.h"

enum { INTAKE_BLOCK = LIMIT_CONTENT_BYTES };

typedef struct intake {
	txn *t;
	/* Where the host's file has data: [*out_start, *out_end) at or after offset, both size when only a hole is left. */
	cb_code (*data_next)(int fd, uint64_t offset, uint64_t size, uint64_t *out_start, uint64_t *out_end, cb_error *err);
	/* After bytes of a large file were stored (0: compared); may be NULL. */
	cb_code (*progress)(void *context, uint64_t bytes, cb_error *err);
	void *context;
	uint8_t *block, *other; /* INTAKE_BLOCK bytes each */
	bool unreadable;        /* set when the host's file cannot be read: a failure that is not the store's */
} intake;

/* Sets the blocks; the rest is the caller's. intake_done() it, also after a failure. */
cb_code intake_init(intake *in, cb_error *err);
void intake_done(intake *in);

typedef struct intake_file {
	int fd;
	uint64_t size, allocated_bytes; /* less than size: there may be holes */
} intake_file;
/* The data of node (not saved here) becomes the file's. fresh: node was just made. *rests: false when the file ended before its
 * size, and node is then half one thing and half another: try again, or drop the transaction. *changed is only ever set. */
cb_code intake_data(intake *in, const intake_file *f, inode *node, bool fresh, bool *rests, bool *changed, cb_error *err);
/* Is it the same already? Of a file that is shared with other names, before it is parted from them. */
cb_code intake_same(intake *in, const intake_file *f, const inode *node, bool *out, cb_error *err);

/* Attributes as one text: name with its NUL, size (4 bytes), value, one after the other, by name. */
cb_code intake_attribute_add(buf *rows, const char *name, span value, cb_error *err);
/* The user.* attributes of the inode (but those of overlayfs) become these. Rows that are malformed are CB_CORRUPT. */
cb_code intake_attributes(intake *in, uint64_t ino, span rows, bool fresh, bool *changed, cb_error *err);
/* Appends the inode's user.* attributes (but those of overlayfs). */
cb_code intake_attributes_of(const cb_store *cs, const txn *t, const tree_view *v, uint64_t ino, buf *rows, cb_error *err);

#endif
