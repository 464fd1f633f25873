/*
 * open_file.h: the open files of a handle, and the pictures they keep. For file.c and open_files.c.
 *
 * Every open file has a picture: the last state in which this handle saw it. A step must not cost anything for files that it does not
 * touch, however many are open. So files that the handle's newest head has do not keep it each for itself: they *follow* one picture that
 * the handle keeps for all (cb_box.files.kept). When the head moves, only files whose names differ between the two states are looked at.
 *
 * Between two heads others may have changed a file and then taken it. What was written to it before it went is part of it, so for files
 * that went the steps in between are searched for the one that took them, and the state before that becomes their picture.
 */
#ifndef BOX_OPEN_FILE_H
#define BOX_OPEN_FILE_H

#include "box/internal.h"

/* What took a file away. */
typedef enum taken_by {
	TAKEN_BY_CALL,    /* it was unlinked, by name or with its folder, or replaced */
	TAKEN_BY_HISTORY, /* an undo, redo, restore or merge */
	TAKEN_UNKNOWN,    /* a step that was pruned before this handle looked for it */
} taken_by;

/* The changes made to a file after it went from the box; all handles on it share them. (orphan.c) */
typedef struct orphan {
	unsigned refs; /* under the box's lock */
	uint64_t ino;
	txn *t;         /* has them; never committed */
	pmap went;      /* over t's base: what the file went with. Its contents are in the store */
	uint64_t least; /* the smallest size that it was given since */
	size_t crowd;   /* of contents with numbers in t: so many are too many */
	uint64_t taken; /* the last step known to have taken it, by whichever handle; 0: none */
	taken_by by;
} orphan;

typedef enum file_picture {
	PICTURE_OWN,   /* in `kept`: the file went from the heads after it */
	PICTURE_LOOSE, /* in `kept`, perhaps with a part of the running step: to be looked at with the next head */
	PICTURE_HEAD,  /* the box's; `kept` is empty, but has its place in the table */
} file_picture;

/* Lists that a file is in. */
typedef enum file_list {
	LIST_ALL,
	LIST_INO, /* those whose numbers have the same hash */
	LIST_LOOSE,
	LIST_SOUGHT, /* while the steps that took them are looked for: not found yet, */
	LIST_TAKEN,  /* and found */
	LISTS,
} file_list;

struct cb_file {
	cb_box *b;
	struct {
		cb_file *next, **at; /* at NULL: not in it */
	} in[LISTS];
	uint64_t ino;
	unsigned flags;
	uint64_t position;
	char *path; /* as opened, for the step's record */
	file_picture picture;
	snapshot kept;    /* the last picture that had the file */
	uint64_t taken;   /* of a file that is gone: the step that took it; 0: not known */
	taken_by by;      /* remembered with it: the step may be pruned */
	uint64_t sought;  /* and up to which step that was looked for */
	bool detached;    /* the file is gone from the box */
	bool stale;       /* in a child of fork(): and so is the picture, which the parent let go */
	orphan *private_; /* a detached file's own changes; NULL: none yet */
	bool wrote;       /* some of them through this handle */
	const char *lost; /* why what was written is in no state, which was not told yet; NULL: it is not so */
};

/* Between enter and leave: f, whose ino is known, is open from now on, and has a picture and a place for one of its own. */
cb_code file_enlist(cb_file *f, cb_error *err);
/* It is closed. */
void file_delist(cb_file *f);
/* The next file of f's handle that is the same inode, from the first on; NULL: none left. */
cb_file *file_first_of(const cb_box *b, uint64_t ino);
cb_file *file_next_of(const cb_file *f);

/* What the handle shows now, which has the file, becomes its picture. */
cb_code file_keep(cb_file *f, cb_error *err);
/* The handle does not show the file any more: it is detached, and goes on with its last picture. */
void file_detach(cb_file *f);
/* The picture of a file that is gone, as it went: others may have changed it before, brought it back since, and taken it again. Up to the
 * state that the handle shows. */
cb_code file_seek_taken(cb_file *f, cb_error *err);
/* A file that is in the box again has an old picture: it is looked at with the next head. */
void file_loosen(cb_file *f);
/* Lets go of the changes that a detached file had. */
void orphan_release(cb_file *f);

/* ---- what is written to a file that is gone (orphan.c) ---- */

/* One write or resize. */
typedef struct write_request {
	const void *bytes; /* NULL: resize to `offset` */
	size_t size;
	uint64_t offset;
	bool at_end;
	uint64_t *out_end; /* where it ended; NULL: not wanted */
} write_request;

/* Into a file as t has it; saved. */
cb_code write_inode(txn *t, inode *node, const write_request *w, cb_error *err);
/* A detached file gets changes of its own, which all handles on it share: none so far. */
cb_code orphan_create(cb_file *f, cb_error *err);
/* Adds to them. After a failure they are as before. */
cb_code orphan_write(orphan *o, const write_request *w, cb_error *err);
/* Has that file the bytes that this one went with? b shows it. */
cb_code orphan_is_as_it_went(const orphan *o, const cb_box *b, const tree_view *v, const record *r, bool *out, cb_error *err);
/* Puts them into such a file, as t has it; saved. */
cb_code orphan_put(const orphan *o, txn *t, inode *node, cb_error *err);
void orphan_destroy(orphan *o);

#endif
