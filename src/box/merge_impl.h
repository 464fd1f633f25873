/*
 * merge_impl.h: what the files of the merge share. merge.c finds and decides, merge_place.c deletes, moves and adds, merge_fields.c
 * merges what both sides have. See merge.c for the idea and the order of work.
 */
#ifndef BOX_MERGE_IMPL_H
#define BOX_MERGE_IMPL_H

#include "box/box.h"

typedef struct place {
	uint64_t parent;
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} place;

static inline span place_name(const place *p)
{
	return span_make(p->name, p->size);
}

/* One inode as one side sees it. */
typedef struct unit {
	bool present;
	inode node;
	place *places; /* sorted by (parent, name) */
	size_t count;
} unit;

typedef enum fate { FATE_FIELDS, FATE_ADD, FATE_DELETE, FATE_DONE } fate;

typedef struct item {
	uint64_t ino;
	unit base, ours, theirs;
	fate fate;
	bool moving;   /* parked; wants theirs' place */
	bool busy;     /* being placed: guards against going round in circles */
	uint64_t into; /* where theirs' inode lives in the result: itself, a united one, or 0 when dropped */
} item;

typedef struct merge {
	txn *t;
	const tree_view *base, *ours, *theirs;
	merge_conflicts *conflicts;
	buf inos;    /* uint64_t, sorted, unique */
	item *items; /* one per ino */
	size_t count;
	unsigned nesting; /* of place_way */
} merge;

/* A place of the result, and who sits there. */
typedef struct slot {
	uint64_t parent;
	bool taken;
	inode occupant;
} slot;

/* ---- merge.c ---- */

/* merge_decide for an inode. *theirs_wins: the caller does what theirs wants. */
cb_code merge_conflict_at(merge *m, const item *i, const char *reason, bool *theirs_wins, cb_error *err);
int merge_place_compare(const void *a, const void *b);
/* free() its places. */
cb_code merge_unit_load(const tree_view *v, uint64_t ino, unit *out, cb_error *err);
bool merge_places_equal(const unit *a, const unit *b);
bool merge_place_in(const unit *u, const place *p);
/* At most one name on every side: it moves, instead of gaining and losing names. */
bool merge_single_place(const item *it);
cb_code merge_data_same(merge *m, const tree_view *va, const unit *a, const tree_view *vb, const unit *b, bool *out, cb_error *err);
item *merge_item_find(merge *m, uint64_t ino); /* NULL: theirs did not change it */

/* ---- merge_place.c, in the order of work ---- */

cb_code merge_delete_files(merge *m, cb_error *err);
cb_code merge_park_moves(merge *m, cb_error *err);
cb_code merge_drop_links(merge *m, item *it, cb_error *err);
cb_code merge_delete_empty_dirs(merge *m, cb_error *err);
cb_code merge_place_all(merge *m, cb_error *err);
cb_code merge_delete_other_dirs(merge *m, cb_error *err);
/* Where theirs' place leads to in the result. *out 0: nowhere, after a conflict. */
cb_code merge_result_parent(merge *m, item *it, const place *at, uint64_t *out, cb_error *err);
cb_code merge_slot_find(merge *m, uint64_t parent, span name, slot *out, cb_error *err);
/* Somebody sits where theirs wants to put it. *clear: the way is free now. it->into may become the occupant. */
cb_code merge_settle_occupant(merge *m, item *it, const place *at, const slot *s, bool *clear, cb_error *err);

/* ---- merge_fields.c ---- */

/* Both sides made it: one inode, ours, with the attributes of both. */
cb_code merge_unite(merge *m, item *it, const inode *mine, cb_error *err);
/* Names, attributes, data, mode and times of an inode that both have. */
cb_code merge_fields(merge *m, item *it, cb_error *err);

#endif
