/* test_tree_nodes.h: nodes in an array, with failures on demand, for the tests and benches of the tree. */
#ifndef TESTS_TEST_TREE_NODES_H
#define TESTS_TEST_TREE_NODES_H

#include <stdlib.h>

#include "base/blob.h"
#include "tree/tree.h"

typedef struct node_table {
	blob **blobs; /* number n at n - 1 */
	size_t count, capacity;
	size_t put_bytes;
	long gets_until_failure; /* the n-th and all after it fail; 0: none */
	long puts_until_failure;
} node_table;

static inline bool node_table_fails(long *until)
{
	if (*until == 0) return false;
	if (*until == 1) return true;
	--*until;
	return false;
}

static inline cb_code node_table_get(void *context, uint64_t id, blob **out, cb_error *err)
{
	node_table *t = context;
	if (node_table_fails(&t->gets_until_failure)) return cb_err_set(err, CB_IO, "no node today");
	if (id == 0 || id > t->count) return cb_err_set(err, CB_CORRUPT, "no such node");
	*out = blob_ref(t->blobs[id - 1]);
	return CB_OK;
}

static inline cb_code node_table_put(void *context, span bytes, uint64_t *out_id, cb_error *err)
{
	node_table *t = context;
	if (node_table_fails(&t->puts_until_failure)) return cb_err_set(err, CB_NOSPACE, "no room today");
	if (t->count == t->capacity) {
		t->capacity = t->capacity ? 2 * t->capacity : 256;
		t->blobs = realloc(t->blobs, t->capacity * sizeof(blob *));
		if (!t->blobs) abort();
	}
	blob *b = blob_create(t->count + 1, bytes.bytes, bytes.size);
	if (!b) return cb_err_nomem(err);
	t->blobs[t->count++] = b;
	t->put_bytes += bytes.size;
	*out_id = t->count;
	return CB_OK;
}

static inline tree_nodes node_table_nodes(node_table *t)
{
	return (tree_nodes){node_table_get, node_table_put, t};
}

static inline void node_table_done(node_table *t)
{
	for (size_t i = 0; i < t->count; i++) blob_unref(t->blobs[i]);
	free(t->blobs);
	*t = (node_table){0};
}

#endif
