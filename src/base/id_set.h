/*
 * id_set.h: a set of 64-bit numbers whose memory goes with how many it holds, not with how large they are.
 *
 * Numbers of a store come from counters that jump (a million at each boot), so a bitmap over them would be as long as the numbers given
 * out. Here they are kept by groups of 448 in a hash table: neighbours share a group, and a group that holds none takes no room. Numbers
 * that lie close together cost 2 to 5 bits each, a lonely one at most 256 bytes.
 */
#ifndef BASE_ID_SET_H
#define BASE_ID_SET_H

#include "base/buf.h"

enum { ID_SET_WORDS = 7 };

/* One cache line: looking a number up reads one of them. */
typedef struct id_group {
	uint64_t tag; /* 1 + number of the group; 0: a free row */
	uint64_t bits[ID_SET_WORDS];
} id_group;

typedef struct id_set {
	id_group *rows;
	size_t count, capacity; /* rows in use, and in all: a power of two or 0 */
} id_set;

void id_set_done(id_set *s);
#define AUTO_ID_SET ATTR_CLEANUP(id_set_done)
/* *was: it was there already. Only CB_NOMEM can fail, and leaves the set as it was. */
cb_code id_set_add(id_set *s, uint64_t id, bool *was, cb_error *err);
bool id_set_has(const id_set *s, uint64_t id);

#endif
