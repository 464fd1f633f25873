/* test_tree_changes.c: change lists: round trips, order, every truncation, every bit turned. */
#include "harness/harness.h"

#include "base/buf.h"
#include "tree/tree.h"

static span nothing(void)
{
	return span_make(NULL, 0);
}

typedef struct change {
	span key, old_value, new_value;
} change;

typedef struct expected {
	const change *at;
	size_t count, stop_at;
} expected;

static bool same(span a, span b)
{
	return !a.bytes == !b.bytes && span_equal(a, b);
}

static cb_code compare(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)err;
	expected *e = context;
	CHECK(span_equal(key, e->at->key) && same(old_value, e->at->old_value) && same(new_value, e->at->new_value));
	e->at++;
	return ++e->count == e->stop_at ? CB_INTERRUPTED : CB_OK;
}

static void encode(buf *out, const change *changes, size_t count)
{
	cb_error err;
	for (size_t i = 0; i < count; i++) {
		const change *c = &changes[i];
		CHECK_OK(tree_changes_append(out, i ? c[-1].key : nothing(), c->key, c->old_value, c->new_value, &err));
	}
}

static size_t sample(change *c)
{
	static const uint8_t big[TREE_KEY_MAX] = {0xff};
	c[0] = (change){span_str(""), nothing(), span_str("")};
	c[1] = (change){span_str("a"), span_str(""), nothing()};
	c[2] = (change){span_str("abc"), span_str("old"), span_str("new")};
	c[3] = (change){span_str("abd"), span_str("same"), span_str("same")};
	c[4] = (change){span_str("abd/e"), span_make(big, TREE_VALUE_MAX), nothing()};
	c[5] = (change){span_make(big, TREE_KEY_MAX), nothing(), span_make(big, TREE_VALUE_MAX)};
	return 6;
}

TEST(round_trip)
{
	cb_error err;
	change changes[6];
	size_t count = sample(changes);
	AUTO_BUF buf b = BUF_INIT(1 << 20);
	encode(&b, changes, count);
	expected e = {changes, 0, 0};
	CHECK_OK(tree_changes_decode(buf_span(&b), compare, &e, &err));
	CHECK_U64(e.count, count);
	e = (expected){changes, 0, 3};
	CHECK_OK(tree_changes_decode(buf_span(&b), compare, &e, &err));
	CHECK_U64(e.count, 3);
	CHECK_OK(tree_changes_decode(nothing(), compare, &e, &err));
}

TEST(append_refuses)
{
	cb_error err;
	static const uint8_t big[TREE_KEY_MAX + 1];
	AUTO_BUF buf b = BUF_INIT(1 << 20);
	CHECK_CODE(tree_changes_append(&b, nothing(), span_str("a"), nothing(), nothing(), &err), CB_INVALID);
	CHECK_CODE(tree_changes_append(&b, nothing(), span_make(big, sizeof(big)), nothing(), span_str(""), &err), CB_TOOBIG);
	CHECK_CODE(tree_changes_append(&b, nothing(), span_str("a"), span_make(big, TREE_VALUE_MAX + 1), nothing(), &err),
	           CB_TOOBIG);
	CHECK_OK(tree_changes_append(&b, nothing(), span_str("b"), nothing(), span_str("v"), &err));
	size_t size = b.size;
	CHECK_CODE(tree_changes_append(&b, span_str("b"), span_str("b"), nothing(), span_str("v"), &err), CB_INVALID);
	CHECK_CODE(tree_changes_append(&b, span_str("b"), span_str("a"), nothing(), span_str("v"), &err), CB_INVALID);
	CHECK_U64(b.size, size);
}

TEST(append_without_memory)
{
	cb_error err;
	change changes[6];
	size_t count = sample(changes);
	for (long n = 1; n < 12; n++) {
		AUTO_BUF buf b = BUF_INIT(1 << 20);
		mem_fail_after(n);
		for (size_t i = 0; i < count; i++) {
			size_t before = b.size;
			const change *c = &changes[i];
			cb_code code = tree_changes_append(&b, i ? c[-1].key : nothing(), c->key, c->old_value, c->new_value, &err);
			CHECK(code == CB_OK || (code == CB_NOMEM && b.size == before));
			if (code != CB_OK) break;
		}
		mem_fail_after(0);
	}
	AUTO_BUF buf small = BUF_INIT(20);
	CHECK_CODE(tree_changes_append(&small, nothing(), changes[5].key, nothing(), changes[5].new_value, &err), CB_LIMIT);
	CHECK_U64(small.size, 0);
}

typedef struct ascending {
	uint8_t last[TREE_KEY_MAX];
	size_t size, count;
} ascending;

static cb_code check_order(void *context, span key, span old_value, span new_value, cb_error *err)
{
	(void)err;
	ascending *a = context;
	CHECK(key.size <= TREE_KEY_MAX && old_value.size <= TREE_VALUE_MAX && new_value.size <= TREE_VALUE_MAX);
	CHECK(a->count == 0 || span_compare(span_make(a->last, a->size), key) < 0);
	CHECK(old_value.bytes || new_value.bytes);
	if (key.size) memcpy(a->last, key.bytes, key.size);
	a->size = key.size;
	a->count++;
	return CB_OK;
}

static void decode_copy(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1); /* exactly as long, for the address sanitizer */
	CHECK(copy);
	memcpy(copy, bytes, size);
	ascending a = {.count = 0};
	cb_code code = tree_changes_decode(span_make(copy, size), check_order, &a, NULL);
	CHECK(code == CB_OK || code == CB_CORRUPT);
	free(copy);
}

TEST(damaged)
{
	change changes[6];
	size_t count = sample(changes);
	AUTO_BUF buf b = BUF_INIT(1 << 20);
	encode(&b, changes, count);
	for (size_t size = 0; size < b.size; size++) decode_copy(b.bytes, size);
	for (size_t i = 0; i < 8 * b.size; i++) {
		b.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		decode_copy(b.bytes, b.size);
		b.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
	}
}
