/*
 * changes.c: a step's changes as one string.
 *
 * Per entry: how many bytes its key shares with the one before (varint, as many as it can), the size of the rest (varint) and the rest;
 * a byte of flags (1: there is an old value, 2: there is a new one; at least one is set); per value its size (varint) and bytes.
 */
#include "base/bytes.h"
#include "tree/node.h"

enum { HAS_OLD = 1, HAS_NEW = 2 };

static cb_code append_sized(buf *out, span s, cb_error *err)
{
	CB_TRY(buf_append_varint(out, s.size, err));
	return buf_append(out, s.bytes, s.size, err);
}

static cb_code append(buf *out, span rest, size_t shared, span old_value, span new_value, cb_error *err)
{
	CB_TRY(buf_append_varint(out, shared, err));
	CB_TRY(append_sized(out, rest, err));
	CB_TRY(buf_append_byte(out, (uint8_t)((old_value.bytes ? HAS_OLD : 0) | (new_value.bytes ? HAS_NEW : 0)), err));
	if (old_value.bytes) CB_TRY(append_sized(out, old_value, err));
	if (new_value.bytes) CB_TRY(append_sized(out, new_value, err));
	return CB_OK;
}

cb_code tree_changes_append(buf *out, span previous_key, span key, span old_value, span new_value, cb_error *err)
{
	if (key.size > TREE_KEY_MAX || old_value.size > TREE_VALUE_MAX || new_value.size > TREE_VALUE_MAX) {
		return cb_err_set(err, CB_TOOBIG, "a change with a key of %zu bytes", key.size);
	}
	if (!old_value.bytes && !new_value.bytes) return cb_err_set(err, CB_INVALID, "a change without a value");
	if (out->size > 0 && span_compare(previous_key, key) >= 0) return cb_err_set(err, CB_INVALID, "changes out of order");
	size_t before = out->size;
	size_t shared = node_common_prefix(previous_key, key);
	span rest = shared > 0 ? span_make(key.bytes + shared, key.size - shared) : key;
	cb_code code = append(out, rest, shared, old_value, new_value, err);
	if (code != CB_OK) out->size = before;
	return code;
}

typedef struct decoder {
	reader in;
	bool begun;
	uint8_t key[TREE_KEY_MAX];
	size_t key_size;
} decoder;

/* Since `shared` is as large as it can be, the next byte alone decides the order: it must be larger, or follow the whole last key. */
static bool decode_key(decoder *d)
{
	uint64_t shared = reader_varint(&d->in), rest_size = reader_varint(&d->in);
	if (d->in.bad || shared > d->key_size || rest_size > TREE_KEY_MAX - shared) return false;
	span rest = reader_span(&d->in, (size_t)rest_size);
	if (d->in.bad) return false;
	if (d->begun && (rest.size == 0 || (shared < d->key_size && rest.bytes[0] <= d->key[shared]))) return false;
	if (rest.size) memcpy(d->key + shared, rest.bytes, rest.size);
	d->key_size = (size_t)shared + rest.size;
	d->begun = true;
	return true;
}

static bool decode_value(decoder *d, bool present, span *out)
{
	static const uint8_t empty[1];
	*out = span_make(NULL, 0);
	if (!present) return true;
	uint64_t size = reader_varint(&d->in);
	if (d->in.bad || size > TREE_VALUE_MAX) return false;
	*out = reader_span(&d->in, (size_t)size);
	if (size == 0) out->bytes = empty;
	return !d->in.bad;
}

cb_code tree_changes_decode(span bytes, tree_diff_visit visit, void *context, cb_error *err)
{
	decoder d = {.in = reader_make(bytes)};
	while (!reader_at_end(&d.in)) {
		span old_value, new_value;
		bool sound = decode_key(&d);
		uint8_t flags = sound ? reader_byte(&d.in) : 0;
		sound = sound && !d.in.bad && flags >= 1 && flags <= (HAS_OLD | HAS_NEW);
		sound = sound && decode_value(&d, flags & HAS_OLD, &old_value) && decode_value(&d, flags & HAS_NEW, &new_value);
		if (!sound) return cb_err_set(err, CB_CORRUPT, "a list of changes is damaged");
		cb_code code = visit(context, span_make(d.key, d.key_size), old_value, new_value, err);
		if (code != CB_OK) return code == CB_INTERRUPTED ? CB_OK : code;
	}
	return CB_OK;
}
