/* fuzz_record.c: keys and values of a box's map from hostile bytes: decoded soundly or refused, and encoded again to the same bytes. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "box/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static cb_code count_content(void *context, uint64_t content, uint64_t min_size, cb_error *err)
{
	(void)err;
	assert(content != 0 && min_size <= LIMIT_CONTENT_BYTES);
	++*(unsigned *)context;
	return CB_OK;
}

static void check_values(span value)
{
	tree_value again;
	record r;
	entry e;
	extent x;
	value_ref v;
	if (record_decode(value, &r, NULL) == CB_OK) {
		record_encode(&r, &again);
		record twice;
		assert(again.size == value.size && record_decode(span_make(again.bytes, again.size), &twice, NULL) == CB_OK);
		assert(twice.ino == r.ino && twice.size == r.size && twice.form == r.form);
	}
	if (entry_decode(value, &e, NULL) == CB_OK) {
		entry_encode(&e, &again);
		assert(again.size == value.size);
	}
	if (extent_decode(value, 0, &x, NULL) == CB_OK) {
		extent_encode(&x, &again);
		assert(span_equal(span_make(again.bytes, again.size), value));
	}
	if (value_decode(value, &v, NULL) == CB_OK) {
		value_encode(&v, &again);
		assert(span_equal(span_make(again.bytes, again.size), value));
	}
}

/* The first byte says how long the key is; the rest is the value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1) return 0;
	size_t key_size = data[0] < size ? data[0] : size - 1;
	span key_bytes = span_make(data + 1, key_size), value = span_make(data + 1 + key_size, size - 1 - key_size);
	if (value.size > TREE_VALUE_MAX) value.size = TREE_VALUE_MAX;
	key_parts parts;
	unsigned contents = 0;
	if (key_parse(key_bytes, &parts, NULL) == CB_OK) {
		assert(parts.name.size <= LIMIT_NAME_BYTES);
		(void)record_contents(key_bytes, value, count_content, &contents, NULL);
		assert(contents <= LIMIT_KV_VALUE_BYTES / LIMIT_CONTENT_BYTES);
	}
	check_values(value);
	return 0;
}
