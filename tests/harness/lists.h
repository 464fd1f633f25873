/* lists.h: every list of the public API as text, by its visitor and by its cursor, so that tests can go through all of them. */
#ifndef TESTS_LISTS_H
#define TESTS_LISTS_H

#include "harness/boxes.h"

typedef enum list_kind {
	LIST_READDIR,
	LIST_READDIR_WORK,
	LIST_WALK,
	LIST_WALK_FILE,
	LIST_GLOB,
	LIST_FIND,
	LIST_FIND_META,
	LIST_GREP,
	LIST_GREP_AROUND,
	LIST_XATTR,
	LIST_TAG,
	LIST_META,
	LIST_KV,
	LIST_DIFF,
	LIST_DIFF_STAT,
	LIST_CONFLICTS,
	LIST_OF_TXN, /* so far: those that a transaction has too */
	LIST_LOG = LIST_OF_TXN,
	LIST_LOG_FILE,
	LIST_LOG_FOLDER,
	LIST_DIFF_STEP,
	LIST_BLAME,
	LIST_OF_BOX, /* so far: what is known of one box, whatever becomes of it while a cursor is open */
	LIST_CHECKPOINTS = LIST_OF_BOX,
	LIST_BOXES,
	LIST_AUDIT,
	LIST_USES,
	LIST_KINDS,
} list_kind;

/* What the lists are of. */
typedef struct list_world {
	cb_store *s;
	cb_box *b;    /* has /work/a.txt */
	cb_box *from; /* differences begin here */
	uint64_t seq; /* the step whose changes are listed */
} list_world;

const char *list_name(list_kind kind);
/* The whole list. free() it. */
char *list_visit(list_kind kind, const list_world *w);
cb_code list_open(list_kind kind, const list_world *w, cb_cursor **out, cb_error *err);
/* The next entry goes to *out (free() it), NULL at the end. */
cb_code list_next(list_kind kind, cb_cursor *cursor, char **out, cb_error *err);
/* What is left. free() it. */
char *list_drain(list_kind kind, cb_cursor *cursor);

/* A random change of a box: files of many sizes and texts, folders, links, renames, attributes, tags, metadata, key-values. May fail. */
void list_random_change(cb_box *b, test_rng *r);
/* /work/a.txt is a file again, whatever was made of it. */
void list_file_again(cb_box *b);
/* A box "demo" with /work/a.txt of several steps, an old state of it and a random past. */
list_world list_world_make(cb_store *s, test_rng *r, unsigned changes);
void list_world_close(list_world *w);

#endif
