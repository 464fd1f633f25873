/*
 * run.h: entries on their way into nodes of one level, shared by the files of this layer only.
 *
 * The entries' bytes lie without gaps, so that the weight of any stretch of them is a subtraction, and its size as a node one comparison
 * of two keys more: all keys share what the first and the last share.
 */
#ifndef TREE_RUN_H
#define TREE_RUN_H

#include "tree/node.h"

typedef struct run_item {
	size_t at; /* in bytes: key, then value (or a child's number) */
	size_t key_size;
} run_item;

typedef struct run {
	int level;
	size_t count;
	size_t capacity;
	run_item *items;
	buf bytes;
} run;

void run_init(run *r, int level);
void run_done(run *r);
/* On failure the run is as it was. */
cb_code run_push(run *r, span key, span value, cb_error *err);
/* Entries [from, to) of a node of the run's level. */
cb_code run_push_entries(run *r, const node *n, size_t from, size_t to, cb_error *err);
void run_pop(run *r);
void run_drop_front(run *r, size_t n);

static inline size_t run_end(const run *r, size_t i) /* where the bytes of entries before i end */
{
	return i < r->count ? r->items[i].at : r->bytes.size;
}

static inline span run_key(const run *r, size_t i)
{
	return span_make(r->bytes.bytes + r->items[i].at, r->items[i].key_size);
}

static inline span run_value(const run *r, size_t i)
{
	size_t at = r->items[i].at + r->items[i].key_size;
	return span_make(r->bytes.bytes + at, run_end(r, i + 1) - at);
}

/* Entries [from, to) as one node: with all keys in full, and as encoded. size <= weight, and both grow with every entry. */
size_t run_weight(const run *r, size_t from, size_t to);
size_t run_size(const run *r, size_t from, size_t to);
/* Writes the node of the first n entries, whose run_size is at most TREE_NODE_MAX, to `to`; returns its size. */
size_t run_encode(const run *r, size_t n, uint8_t *to);

#endif
