/* fuzz_changes.c: any bytes as a list of changes. What is decoded must ascend, keep its limits, and survive being encoded again. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "tree/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct again {
	buf out;
	uint8_t last[TREE_KEY_MAX];
	size_t last_size;
	size_t count;
} again;

static void must(bool cond)
{
	if (!cond) abort();
}

static cb_code encode(void *context, span key, span old_value, span new_value, cb_error *err)
{
	again *a = context;
	must(key.size <= TREE_KEY_MAX);
	must(tree_changes_append(&a->out, span_make(a->last, a->last_size), key, old_value, new_value, err) == CB_OK);
	if (key.size) memcpy(a->last, key.bytes, key.size);
	a->last_size = key.size;
	a->count++;
	return CB_OK;
}

static cb_code count(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)key, (void)old_value, (void)new_value, (void)err;
	++*(size_t *)context;
	return CB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	again a = {.out = BUF_INIT(SIZE_MAX / 2)};
	cb_code code = tree_changes_decode(span_make(bytes, size), encode, &a, NULL);
	must(code == CB_OK || code == CB_CORRUPT);
	size_t n = 0;
	must(tree_changes_decode(buf_span(&a.out), count, &n, NULL) == CB_OK && n == a.count);
	must(code != CB_OK || a.out.size <= size);
	buf_done(&a.out);
	return 0;
}
