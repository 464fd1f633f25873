/*
 * pmap.h: a sorted map in memory from key bytes to value bytes or a tombstone, copied in O(1).
 *
 * A map is one pointer to an immutable balanced tree with reference counts: pmap_ref shares it, and an update of a shared map copies
 * only the path it changes (an unshared path is updated in place). So a reader in another thread keeps what it holds while the writer
 * goes on. The overlay of a state (changes since its root) and a transaction's own changes are pmaps.
 *
 * Threads: one thread at a time per `pmap` variable; different variables that share structure may be used by different threads.
 */
#ifndef TREE_PMAP_H
#define TREE_PMAP_H

#include "base/err.h"
#include "base/span.h"

typedef struct pmap_node pmap_node;
typedef struct pmap {
	pmap_node *root; /* NULL: empty */
} pmap;

#define PMAP_EMPTY ((pmap){NULL})

pmap pmap_ref(const pmap *m);     /* a second, independent variable */
void pmap_done(pmap *m);          /* leaves it empty */
size_t pmap_count(const pmap *m); /* tombstones included; O(1) */

/* What a key has. PMAP_ABSENT: the map does not mention it. */
typedef enum pmap_found { PMAP_ABSENT, PMAP_VALUE, PMAP_TOMBSTONE } pmap_found;

/* *out is lent: until the map is changed or dropped. */
pmap_found pmap_get(const pmap *m, span key, span *out);
/* The last key before `before` that has a value, however many tombstones lie between; lent likewise. false: none. */
bool pmap_last_value(const pmap *m, span before, span *out);
/* Inserts or replaces. On CB_NOMEM the map is as it was. Key and value are copied. */
cb_code pmap_put(pmap *m, span key, span value, cb_error *err);
cb_code pmap_put_tombstone(pmap *m, span key, cb_error *err);
/* Makes the map not mention the key. */
cb_code pmap_forget(pmap *m, span key, cb_error *err);

/* In key order. The map must not change meanwhile (share it first with pmap_ref if it may). */
#define PMAP_DEPTH_MAX 96
typedef struct pmap_cursor {
	const pmap_node *stack[PMAP_DEPTH_MAX];
	int depth; /* 0: at the end */
} pmap_cursor;
void pmap_seek(pmap_cursor *c, const pmap *m, span key);                             /* first key >= key */
bool pmap_cursor_get(const pmap_cursor *c, span *key, span *value, bool *tombstone); /* false at the end */
void pmap_cursor_next(pmap_cursor *c);

/*
 * Keys that two maps say different things about, in key order and within a prefix. What the maps share is passed over whole: of two
 * versions of one map the cost is that of the changes between them.
 */
typedef struct pmap_part {
	const pmap_node *node;
	bool whole; /* with all below it */
} pmap_part;
typedef struct pmap_diff {
	span prefix;
	pmap_part stack[2][2 * PMAP_DEPTH_MAX];
	int depth[2]; /* what is still to come, the next on top */
} pmap_diff;
/* Prefix and maps must stay. */
void pmap_diff_start(pmap_diff *d, const pmap *a, const pmap *b, span prefix);
bool pmap_diff_next(pmap_diff *d, span *key); /* false at the end */

/* Every invariant of the structure: order, balance, counts. For tests. */
bool pmap_sound(const pmap *m);

#endif
