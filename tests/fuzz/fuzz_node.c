/* fuzz_node.c: any bytes as a node. What the check accepts must be readable, and applying changes to it must give a sound tree. */
#include <stdint.h>
#include <stdlib.h>

#include "tree/tree.h"
#include "unit/test_tree_nodes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void must(bool cond)
{
	if (!cond) abort();
}

static void read_all(const tree_view *v)
{
	tree_cursor *c;
	if (tree_cursor_open(v, span_make(NULL, 0), &c, NULL) != CB_OK) return;
	span key, value;
	while (tree_cursor_get(c, &key, &value)) {
		tree_value got;
		must(tree_get(v, key, &got, NULL) == CB_OK && span_equal(span_make(got.bytes, got.size), value));
		if (tree_cursor_next(c, NULL) != CB_OK) break;
	}
	tree_cursor_close(c);
}

/* The input is a root; its children, if any, are the input or a small leaf: levels and ranges must catch what does not fit. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (tree_node_check(span_make(bytes, size), NULL) != CB_OK) return 0;
	node_table table = {0};
	const tree_nodes nodes = node_table_nodes(&table);
	uint64_t root = 0, other = 0, next = 0;
	static const uint8_t leaf[] = {1, 0, 1, 0, 1, 0, 11, 0, 12, 0, 'm', 0};
	must(node_table_put(&table, span_make(bytes, size), &root, NULL) == CB_OK);
	must(node_table_put(&table, span_make(leaf, sizeof(leaf)), &other, NULL) == CB_OK);

	const tree_view v = {&nodes, root, NULL, NULL};
	bool sound = tree_check(&nodes, root, NULL) == CB_OK;
	if (sound || bytes[1] == 0) read_all(&v);
	pmap m = PMAP_EMPTY;
	must(pmap_put(&m, span_str("m"), span_str("value"), NULL) == CB_OK);
	must(pmap_put_tombstone(&m, span_make(bytes + size - 1, 1), NULL) == CB_OK);
	cb_code code = tree_apply(&nodes, root, &m, &next, NULL);
	must(code == CB_OK || code == CB_CORRUPT);
	if (sound) must(code == CB_OK && tree_check(&nodes, next, NULL) == CB_OK);
	pmap_done(&m);
	node_table_done(&table);
	return 0;
}
