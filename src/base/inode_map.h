/* inode_map.h: from a pair of numbers (device and inode of the host, or an inode of a box) to a number. Grows; never forgets. */
#ifndef BASE_INODE_MAP_H
#define BASE_INODE_MAP_H

#include "base/buf.h"

typedef struct inode_map_row {
	uint64_t a, b;  /* b is never 0 in use */
	uint64_t value; /* anything */
} inode_map_row;

typedef struct inode_map {
	inode_map_row *rows;
	size_t count, capacity; /* a power of two */
} inode_map;

void inode_map_done(inode_map *m);
/* NULL: not there. The pointer lives until the next put. */
const inode_map_row *inode_map_get(const inode_map *m, uint64_t a, uint64_t b);
/* b must not be 0. What is there is replaced. */
cb_code inode_map_put(inode_map *m, uint64_t a, uint64_t b, uint64_t value, cb_error *err);

#endif
