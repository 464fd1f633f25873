/* capture.h: what the files of capture share: one look at a tree, on its way into a transaction. */
#ifndef WORK_CAPTURE_H
#define WORK_CAPTURE_H

#include "base/inode_map.h"
#include "work/internal.h"

/* A folder that the look is in. */
typedef struct capture_level {
	uint64_t ino;       /* in the box */
	uint64_t base_ino;  /* the folder that the base has there; 0: none */
	bool fresh;         /* made now */
	uint64_t layer_ino; /* the folder that the layers have at this path; 0: none */
	bool whole;         /* nothing of the layers is seen in it: what is not listed is gone */
	bool known;         /* its own attributes are as they were */
	look_walk *names;   /* of the base, when whole */
	bool has_next;      /* the first of them that was not passed: */
	span next_name;
	box_node next;
	size_t new_at; /* otherwise: of what the base has and the layers have not */
	size_t path_size;
	int64_t mtime_ns, atime_ns;
	bool touched; /* something in it is gone */
	uint8_t last_size;
	uint8_t last[LIMIT_NAME_BYTES]; /* the name that was listed last */
} capture_level;

/* A folder whose entries changed, and the times it has in the tree. */
typedef struct capture_times {
	uint64_t ino;
	int64_t mtime_ns, atime_ns;
} capture_times;

/* Something of the base that is gone: an entry of a folder of it. */
typedef struct capture_gone {
	uint64_t parent, ino, size;
	uint8_t name_size;
	bool is_file;   /* may have moved elsewhere */
	bool is_inside; /* goes with the folder it is in, which comes before it */
	bool is_taken;  /* it did move */
	uint8_t name[LIMIT_NAME_BYTES];
} capture_gone;

/* A file that is new. */
typedef struct capture_added {
	uint64_t parent, ino, size;
	uint8_t name_size;
	uint8_t name[LIMIT_NAME_BYTES];
} capture_added;

typedef struct capturing {
	pen *e;
	look *now;   /* what the transaction sees */
	look *base;  /* what the command began from */
	look *layer; /* of a stack: what the layers hold */
	buf new;     /* work_name, by folder and name */
	const capture_options *options;
	work_result *result;
	buf levels;        /* capture_level, the deepest last */
	buf path;          /* of the folder the look is in, relative */
	inode_map links;   /* (0, inode of the host) -> inode of the box, for files with several names */
	inode_map claimed; /* (0, inode of the box) -> inode of the host that it stands for */
	buf gone, added;
	buf times;       /* capture_times */
	bool unreadable; /* the file that is taken now cannot be read whole */
} capturing;

static inline capture_level *capture_top(const capturing *c)
{
	return (capture_level *)(void *)(c->levels.bytes + c->levels.size) - 1;
}

/* One entry on its way: where it is, and what the base has there. */
typedef struct capture_item {
	const wire_entry *e;
	span name;
	int fd; /* lent; -1: none */
	bool exists;
	box_node there;
} capture_item;

/* ---- capture.c ---- */

/* The tree has something that the step has not. */
void capture_note(const capturing *c, const char *path, const char *what);
void capture_leave_out(const capturing *c, const char *path, span why);
/* What the base has at this name goes now: something else takes its place. */
cb_code capture_clear(capturing *c, capture_item *i, cb_error *err);
uint32_t capture_mode(const capturing *c, const wire_entry *e);
/* Mode, times and attributes of node as the entry says; saves it when something changed, or always when fresh. *changed is only ever
 * set. */
cb_code capture_attributes(capturing *c, const wire_entry *e, box_node *node, bool fresh, bool *changed, cb_error *err);

/* ---- capture_file.c ---- */

cb_code capture_file(capturing *c, capture_item *i, cb_error *err);
cb_code capture_symlink(capturing *c, capture_item *i, cb_error *err);

/* ---- capture_rename.c ---- */

/* An entry of the base that is not there any more (and all that is below it). */
cb_code capture_gone_add(capturing *c, uint64_t parent, span name, const box_node *r, cb_error *err);
/* At the end: new files that are old ones elsewhere become renames; the rest of what is gone goes. */
cb_code capture_gone_settle(capturing *c, cb_error *err);

#endif
