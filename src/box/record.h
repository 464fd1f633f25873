/*
 * record.h: the keys and values of a box's map. docs/format.md describes the same bytes.
 *
 *   D parent name       -> entry: 'R' + inode record, or 'L' + ino when the record lives under I
 *   I ino               -> inode record, once the file has had several links
 *   N ino parent name   -> "" : where the inode is; one per link
 *   X ino offset        -> extent: content, start in it, length (a hole has none)
 *   A ino name          -> xattr value (inline or content)
 *   T ino 't' name      -> "" : a tag;  T ino 'm' name -> metadata value
 *   K key               -> key-value (inline or content)
 *   Q                   -> counters: files, bytes
 *
 * Integers in keys are big-endian, in values little-endian. The root's entry is D 0 "" with inode 1.
 * Decoders take hostile bytes: CB_CORRUPT, never a crash.
 */
#ifndef BOX_RECORD_H
#define BOX_RECORD_H

#include <cowbox/cowbox.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "tree/tree.h"

enum {
	INO_ROOT = 1,
	INO_WORK = 2,
	INO_HOME = 3,
	INO_AGENT = 4,
	INO_TMP = 5,
};

enum { KEY_OWNER_BYTES = 9 }; /* what keys of an inode begin with: kind and number */
enum {
	KIND_ATTR = 'A',
	KIND_ENTRY = 'D',
	KIND_INODE = 'I',
	KIND_KV = 'K',
	KIND_NAME = 'N',
	KIND_COUNTERS = 'Q',
	KIND_TAG = 'T',
	KIND_EXTENT = 'X',
};

/* A content number that is only known inside one transaction: bits 32-62 are the transaction's serial number, so that two of them never
 * give the same number to different bytes (differences compare numbers), the lower ones an index into its list. */
#define CONTENT_LOCAL ((uint64_t)1 << 63)
static inline size_t content_local_index(uint64_t content)
{
	return (size_t)(uint32_t)content;
}

typedef enum data_form {
	DATA_NONE = 0,    /* empty, or one hole of the file's size */
	DATA_INLINE = 1,  /* size bytes in the record */
	DATA_CONTENT = 2, /* [0, size) is content[start, start + size) */
	DATA_EXTENTS = 3, /* X keys */
} data_form;

/* The data were not written since this is noted. */
#define RECORD_WRITTEN_UNKNOWN UINT64_MAX

typedef struct record {
	uint64_t ino;
	uint64_t version; /* state in which the file last changed; 0: the transaction under way */
	/* Of a file: the version that its data were written with, with whatever bytes; 0 as above; or RECORD_WRITTEN_UNKNOWN. It goes with
	 * the data: history brings it back with them. No difference of two states: it moves only where the version does. */
	uint64_t written;
	uint64_t size;
	int64_t mtime_ns, ctime_ns, atime_ns;
	cb_type type;
	uint32_t mode;
	uint32_t links;
	data_form form;
	uint64_t content;
	uint32_t start;
	uint8_t bytes[LIMIT_INLINE_BYTES];
} record;

/* What a directory entry holds. */
typedef struct entry {
	bool is_link; /* the record is under I; rec.ino only */
	record rec;
} entry;

typedef struct extent {
	uint64_t offset; /* in the file */
	uint64_t content;
	uint32_t start; /* in the content */
	uint32_t length;
} extent;

/* A value of an attribute or key: inline, or in contents when larger. */
typedef struct value_ref {
	uint64_t size;
	uint64_t content; /* the first; a value of more than one content has them numbered upwards from it */
	bool is_inline;
	uint8_t bytes[LIMIT_INLINE_BYTES];
} value_ref;

typedef struct counters {
	uint64_t files, bytes;
} counters;

typedef struct key {
	size_t size;
	uint8_t bytes[TREE_KEY_MAX];
} key;

static inline span key_span(const key *k)
{
	return span_make(k->bytes, k->size);
}

/* Names longer than LIMIT_NAME_BYTES are the caller's error (asserted). */
key key_entry(uint64_t parent, span name);
key key_inode(uint64_t ino);
key key_name(uint64_t ino, uint64_t parent, span name);
key key_extent(uint64_t ino, uint64_t offset);
key key_attr(uint64_t ino, span name);
key key_tag(uint64_t ino, char sort, span name);
key key_kv(span name);
key key_counters(void);
/* The first bytes of all keys of that kind and inode. */
key key_prefix(uint8_t kind, uint64_t ino);

/* A key taken apart; CB_CORRUPT when it is none of ours. Spans are lent from `bytes`. */
typedef struct key_parts {
	uint8_t kind;
	uint64_t ino;    /* D: the parent; others: the inode */
	uint64_t parent; /* N */
	uint64_t offset; /* X */
	char sort;       /* T: 't' or 'm' */
	span name;
} key_parts;
cb_code key_parse(span bytes, key_parts *out, cb_error *err);

void record_encode(const record *r, tree_value *out);
cb_code record_decode(span bytes, record *out, cb_error *err);
void entry_encode(const entry *e, tree_value *out);
cb_code entry_decode(span bytes, entry *out, cb_error *err);
enum { ENTRY_LINK = 'L' }; /* what the bytes of a link begin with, and of nothing else */
/* The two halves of it, for listings: is the record elsewhere, and the record when it is not. */
bool entry_is_link(span bytes);
cb_code entry_record(span bytes, record *out, cb_error *err);
void extent_encode(const extent *e, tree_value *out);
cb_code extent_decode(span bytes, uint64_t offset, extent *out, cb_error *err);
void value_encode(const value_ref *v, tree_value *out);
cb_code value_decode(span bytes, value_ref *out, cb_error *err);
void counters_encode(const counters *c, tree_value *out);
cb_code counters_decode(span bytes, counters *out, cb_error *err);

/* The value with its version open, so that the commit gives it the new one. */
cb_code record_reopen(span key_bytes, span value, tree_value *out, cb_error *err);
/* Are two values of a key equal but for the version, and for when it was written? */
cb_code record_same(span key_bytes, span a, span b, bool *out, cb_error *err);

/* The contents a map value refers to, by its key's kind: calls visit with each number. Used by gc, fsck and commit. */
typedef cb_code (*content_visit)(void *context, uint64_t content, uint64_t min_size, cb_error *err);
cb_code record_contents(span key_bytes, span value, content_visit visit, void *context, cb_error *err);

/* How many contents a value of that size is kept in. */
static inline uint64_t value_content_count(uint64_t size)
{
	return (size + LIMIT_CONTENT_BYTES - 1) / LIMIT_CONTENT_BYTES;
}

/* Here, so that lists fill their entries in place: a copy of what was just written costs as much as all the rest of an entry. */
static inline cb_stat_info record_stat(const record *r)
{
	return (cb_stat_info){
		.struct_size = sizeof(cb_stat_info),
		.ino = r->ino,
		.type = r->type,
		.mode = r->mode,
		.links = r->links,
		.size = r->size,
		.version = r->version,
		.mtime_ns = r->mtime_ns,
		.ctime_ns = r->ctime_ns,
		.atime_ns = r->atime_ns,
	};
}

#endif
