/* pack_parts.h: what pack_out.c and pack_in.c share: flags and bounds of the records, and the numbers in them. */
#ifndef BOX_PACK_PARTS_H
#define BOX_PACK_PARTS_H

#include "box/graft.h"
#include "box/pack.h"

enum {
	PACK_INO_FIRST = 16,   /* inodes below are the same in every box */
	PACK_LIST_KEYS = 4096, /* keys in one record of changes */
	PACK_JOINED_MAX = LIMIT_KV_VALUE_BYTES / LIMIT_CONTENT_BYTES,
};

enum { PACK_HAS_HISTORY = 1 };                               /* flags of the header */
enum { PACK_STEP_UNKNOWN = 1 };                              /* flags of a step: after a gap, its own changes are not known */
enum { PACK_CONTENT_JOINED = 1 };                            /* flags of a content: the next one belongs to the same value */
enum { PACK_OTHER_NONE, PACK_OTHER_SELF, PACK_OTHER_NAMED }; /* a step's second parent */

/* What to put in place of the numbers in a key or value. */
typedef struct renumber {
	cb_code (*ino)(void *context, uint64_t *ino, cb_error *err);
	cb_code (*version)(void *context, uint64_t *version, cb_error *err);
	/* One content of which `bytes` are used from its start, or with `value` as many as a value of that size is kept in. */
	cb_code (*content)(void *context, uint64_t *content, uint64_t bytes, bool value, cb_error *err);
	void *context;
} renumber;
cb_code renumber_key(const renumber *r, span key_bytes, key *out, cb_error *err);
cb_code renumber_value(const renumber *r, span key_bytes, span value, tree_value *out, cb_error *err);

/* A table from numbers (not 0) to numbers. */
typedef struct number_map {
	uint64_t *slots; /* pairs */
	size_t capacity, count;
} number_map;
/* *out: what the number was given; *fresh: it was new and got `next`. */
cb_code number_map_add(number_map *m, uint64_t number, uint64_t next, uint64_t *out, bool *fresh, cb_error *err);
void number_map_done(number_map *m);

/* The version of a file names a step of the pack: twice its number, or one less for the steps pruned before it. */
static inline uint64_t pack_version(uint64_t seq, bool in_gap)
{
	return 2 * seq - (in_gap ? 1 : 0);
}

#endif
