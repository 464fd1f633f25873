/* node.c: checking a node's bytes and searching in them. */
#include "tree/node.h"

#include <inttypes.h>

#include "base/cancel.h"

/* Header, slots and prefix lie inside the bytes, and the slots cut the rest into entries that lie in order and fill it. */
static const char *check_frame(span bytes)
{
	if (bytes.size < NODE_HEADER) return "is too short";
	if (bytes.size > TREE_NODE_MAX) return "is too large";
	if (bytes.bytes[0] != NODE_FORMAT) return "has an unknown format";
	if (bytes.bytes[1] >= TREE_DEPTH_MAX) return "has too high a level";
	size_t count = get_le16(bytes.bytes + 2), prefix = get_le16(bytes.bytes + 4);
	if (count < (bytes.bytes[1] > 0 ? 2u : 1u)) return "has too few entries";
	if (prefix > TREE_KEY_MAX) return "has too long a prefix";
	size_t entries = NODE_SLOTS + 2 * (count + 1) + prefix;
	if (entries > bytes.size) return "has too many entries";

	size_t least = bytes.bytes[1] > 0 ? NODE_CHILD : 1;
	size_t at = get_le16(bytes.bytes + NODE_SLOTS);
	if (at != entries) return "has a gap before its entries";
	for (size_t i = 1; i <= count; i++) {
		size_t end = get_le16(bytes.bytes + NODE_SLOTS + 2 * i);
		if (end > bytes.size || end < at + least) return "has slots out of order";
		at = end;
	}
	return at == bytes.size ? NULL : "has a wrong size";
}

static const char *check_entry(const node *n, size_t i)
{
	size_t at = node_slot(n, i), size = node_slot(n, i + 1) - at;
	if (n->level > 0) {
		if (node_child(n, i) == 0) return "has a child 0";
		size -= NODE_CHILD;
	} else {
		size_t value = n->bytes[at];
		if (value > TREE_VALUE_MAX || value > size - 1) return "has too long a value";
		size -= 1 + value;
	}
	return n->prefix_size + size > TREE_KEY_MAX ? "has too long a key" : NULL;
}

const char *node_check(span bytes)
{
	const char *wrong = check_frame(bytes);
	if (wrong) return wrong;
	node n = node_open(bytes.bytes);
	span previous = {NULL, 0};
	for (size_t i = 0; i < n.count; i++) {
		wrong = check_entry(&n, i);
		if (wrong) return wrong;
		span suffix = node_suffix(&n, i);
		if (i > 0 && span_compare(previous, suffix) >= 0) return "has keys out of order";
		previous = suffix;
	}
	/* The keys ascend, so all of them share what the first and the last share. */
	span first = node_suffix(&n, 0);
	if (n.count == 1 ? first.size > 0 : node_common_prefix(first, previous) > 0) return "has too short a prefix";
	return NULL;
}

cb_code tree_node_check(span bytes, cb_error *err)
{
	const char *wrong = node_check(bytes);
	return wrong ? cb_err_set(err, CB_CORRUPT, "the node %s", wrong) : CB_OK;
}

cb_code node_load(const tree_nodes *nodes, uint64_t id, int level, blob **out_blob, node *out, cb_error *err)
{
	NODE_AUTO_BLOB blob *b = NULL;
	CB_TRY(cancel_check(err)); /* here, so that whatever reads a tree looks */
	CB_TRY(nodes->get(nodes->context, id, &b, err));
	if (!atomic_load_explicit(&b->checked, memory_order_acquire)) {
		const char *wrong = node_check(span_make(b->bytes, b->size));
		if (wrong) return cb_err_set(err, CB_CORRUPT, "node %" PRIu64 " %s", id, wrong);
		atomic_store_explicit(&b->checked, 1, memory_order_release);
	}
	*out = node_open(b->bytes);
	/* Levels that fall by one per step end every loop that hostile numbers of children could make. */
	if (level >= 0 && out->level != level) return cb_err_set(err, CB_CORRUPT, "node %" PRIu64 " has a wrong level", id);
	*out_blob = TAKE_PTR(b);
	return CB_OK;
}

/* Compares the key with the prefix: <0 and >0 when all keys of the node lie on one side; 0: *key loses the prefix. */
static int strip_prefix(const node *n, span *key)
{
	size_t shared = key->size < n->prefix_size ? key->size : n->prefix_size;
	int c = shared ? memcmp(key->bytes, n->prefix, shared) : 0;
	if (c != 0) return c;
	if (key->size < n->prefix_size) return -1;
	if (shared > 0) *key = span_make(key->bytes + shared, key->size - shared);
	return 0;
}

size_t node_find(const node *n, span key, bool *out_equal)
{
	*out_equal = false;
	int c = strip_prefix(n, &key);
	if (c != 0) return c < 0 ? 0 : n->count;
	size_t low = 0, high = n->count; /* entries before low are smaller; from high on they are not */
	while (low < high) {
		size_t middle = (low + high) / 2;
		c = span_compare(node_suffix(n, middle), key);
		if (c == 0) {
			*out_equal = true;
			return middle;
		}
		if (c < 0) low = middle + 1;
		else high = middle;
	}
	return low;
}

size_t node_find_child(const node *n, span key)
{
	bool equal;
	size_t i = node_find(n, key, &equal);
	/* A key below the first child's can only come with a hostile node: it then is nowhere, which the first child will say as well. */
	return equal || i == 0 ? i : i - 1;
}

bool node_is_within(const node *n, span lower, const span *upper)
{
	uint8_t room[TREE_KEY_MAX];
	int c = span_compare(node_key(n, 0, room), lower);
	if (n->level > 0 ? c != 0 : c < 0) return false;
	return !upper || span_compare(node_key(n, (size_t)n->count - 1, room), *upper) < 0;
}

size_t node_common_prefix(span a, span b)
{
	size_t most = a.size < b.size ? a.size : b.size, n = 0;
	while (n + 8 <= most) {
		uint64_t different = get_le64(a.bytes + n) ^ get_le64(b.bytes + n);
		if (different) return n + (size_t)__builtin_ctzll(different) / 8;
		n += 8;
	}
	while (n < most && a.bytes[n] == b.bytes[n]) n++;
	return n;
}
