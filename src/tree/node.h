/*
 * node.h: the bytes of a node, shared by the files of this layer only.
 *
 *   0      format (1)
 *   1      level (0: leaf)
 *   2      count of entries, le16
 *   4      size of the common prefix, le16
 *   6      count + 1 slots, le16: where each entry begins; the last one is the size of the node
 *          the prefix: what all keys of the node begin with, as long as it can be
 *          the entries without gaps, in ascending order of keys:
 *            leaf:  size of the value (1 byte), rest of the key, value
 *            inner: number of the child (le64, not 0), rest of the key
 *
 * A map has exactly one encoding per node: node_check accepts no other, so equal contents of a node are equal bytes.
 */
#ifndef TREE_NODE_H
#define TREE_NODE_H

#include "base/bytes.h"
#include "tree/tree.h"

enum {
	NODE_FORMAT = 1,
	NODE_SLOTS = 6,         /* where the slots begin */
	NODE_HEADER = 8,        /* with the last slot: what a node has beside prefix and entries */
	NODE_LEAF_OVERHEAD = 3, /* per entry: slot and size of the value */
	NODE_INNER_OVERHEAD = 2,
	NODE_CHILD = 8, /* size of a child's number */
};

/* The weights in tree.h work out only if two of the largest entries and a node of least weight fit beside each other. */
#define NODE_ENTRY_MAX (NODE_LEAF_OVERHEAD + TREE_KEY_MAX + TREE_VALUE_MAX)
_Static_assert(TREE_VALUE_MAX <= UINT8_MAX, "a value's size is one byte");
_Static_assert(TREE_NODE_MAX <= UINT16_MAX, "slots are 16 bits");
#if TREE_NODE_BYTES >= 2016
_Static_assert(TREE_NODE_MAX - TREE_NODE_MIN - NODE_ENTRY_MAX >= TREE_NODE_MIN, "a split leaves both halves heavy enough");
_Static_assert(NODE_HEADER + NODE_INNER_OVERHEAD + TREE_KEY_MAX + NODE_CHILD < TREE_NODE_MIN, "one child is never enough");
#endif

/* A checked node's bytes, taken apart. Lent. */
typedef struct node {
	const uint8_t *bytes;
	const uint8_t *prefix;
	uint16_t prefix_size;
	uint16_t count;
	uint8_t level;
} node;

static inline void node_blob_drop_(blob **b)
{
	blob_unref(*b);
}
#define NODE_AUTO_BLOB ATTR_CLEANUP(node_blob_drop_)

/* Bytes that node_check accepted (or that were just made). */
static inline node node_open(const uint8_t *bytes)
{
	node n = {.bytes = bytes, .level = bytes[1], .count = get_le16(bytes + 2), .prefix_size = get_le16(bytes + 4)};
	n.prefix = bytes + NODE_SLOTS + 2 * ((size_t)n.count + 1);
	return n;
}

static inline size_t node_slot(const node *n, size_t i)
{
	return get_le16(n->bytes + NODE_SLOTS + 2 * i);
}

/* What follows the prefix in the i-th key. */
static inline span node_suffix(const node *n, size_t i)
{
	size_t at = node_slot(n, i), end = node_slot(n, i + 1);
	if (n->level > 0) return span_make(n->bytes + at + NODE_CHILD, end - at - NODE_CHILD);
	return span_make(n->bytes + at + 1, end - at - 1 - n->bytes[at]);
}

static inline span node_value(const node *n, size_t i) /* of a leaf */
{
	size_t at = node_slot(n, i), end = node_slot(n, i + 1);
	return span_make(n->bytes + end - n->bytes[at], n->bytes[at]);
}

static inline uint64_t node_child(const node *n, size_t i) /* of an inner node */
{
	return get_le64(n->bytes + node_slot(n, i));
}

/* The i-th key, put together in room[TREE_KEY_MAX]. */
static inline span node_key(const node *n, size_t i, uint8_t *room)
{
	span rest = node_suffix(n, i);
	memcpy(room, n->prefix, n->prefix_size);
	memcpy(room + n->prefix_size, rest.bytes, rest.size);
	return span_make(room, n->prefix_size + rest.size);
}

/* The size with every key written in full. */
static inline size_t node_weight(const node *n)
{
	return node_slot(n, n->count) + (size_t)(n->count - 1) * n->prefix_size;
}

/* NULL, or what is wrong with the bytes. After NULL every function above is safe for i < count. */
const char *node_check(span bytes);

/* Gets a node and checks it once. level: the one it must have, or -1 for any (a root). blob_unref(*out_blob). */
cb_code node_load(const tree_nodes *nodes, uint64_t id, int level, blob **out_blob, node *out, cb_error *err);

/* The first entry whose key is not below `key` (count: none). */
size_t node_find(const node *n, span key, bool *out_equal);
/* The child whose range holds the key. */
size_t node_find_child(const node *n, span key);

/* Do the keys of a child lie in [lower, *upper)? upper NULL: no end. Together with the order inside each node this makes keys ascend
 * strictly over all nodes; so hostile nodes can neither form loops nor be visited twice from one root. */
bool node_is_within(const node *n, span lower, const span *upper);

size_t node_common_prefix(span a, span b);

#endif
