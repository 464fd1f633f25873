/*
 * pack.h: what the files of packing share: the stream of records, and the numbers in it. docs/format.md describes the same bytes.
 *
 * A pack is a preamble and blocks; a block is a flushed part of one zstd stream, with sums that chain it to all before. The blocks hold
 * records. Numbers of inodes, contents and states are the pack's own: they are given in the order of first use, so a pack says nothing of
 * the store it came from, and whoever reads it needs no table of strange numbers.
 */
#ifndef TRANSFER_PACK_H
#define TRANSFER_PACK_H

#include <cowbox/transfer.h>

#include "box/graft.h"

enum {
	PACK_FORMAT = 1,
	PACK_PREAMBLE_BYTES = 24,
	PACK_BLOCK_HEADER_BYTES = 24,
	PACK_RECORD_HEADER_BYTES = 5,
	PACK_WINDOW_LOG = 23,  /* of zstd: 8 MiB, so that versions of one file are seen beside each other */
	PACK_LEVEL = 3,        /* of zstd */
	PACK_INO_FIRST = 16,   /* inodes below are the same in every box */
	PACK_LIST_KEYS = 4096, /* keys in one record of changes */
	PACK_JOINED_MAX = LIMIT_KV_VALUE_BYTES / LIMIT_CONTENT_BYTES,
};

typedef enum pack_type {
	PACK_HEADER = 'H',
	PACK_STEP = 'S',
	PACK_CONTENT = 'C',
	PACK_GAP_KEYS = 'G', /* what happened in the gap before the step */
	PACK_KEYS = 'K',     /* what the step changed */
	PACK_CHECKPOINT = 'P',
	PACK_SETTING = 'T',
	PACK_END = 'E',
} pack_type;

enum { PACK_HAS_HISTORY = 1 };                               /* flags of the header */
enum { PACK_STEP_UNKNOWN = 1 };                              /* flags of a step: after a gap, its own changes are not known */
enum { PACK_CONTENT_JOINED = 1 };                            /* flags of a content: the next one belongs to the same value */
enum { PACK_OTHER_NONE, PACK_OTHER_SELF, PACK_OTHER_NAMED }; /* a step's second parent */

/* ---- the stream ---- */

/* Whom to ask whether to go on when a signal ended a wait for the other end; NULL: nobody. */
typedef struct pack_pause {
	const cb_transfer_watch *watch;
	const cb_progress *progress;
} pack_pause;

typedef struct pack_writer {
	int fd;
	struct ZSTD_CCtx_s *zstd;
	buf raw;    /* the block under way */
	buf packed; /* it, compressed, with its header */
	uint64_t sum;
	uint64_t records, bytes; /* written so far */
	pack_pause pause;
} pack_writer;
cb_code pack_writer_init(pack_writer *w, int fd, pack_pause pause, cb_error *err);
void pack_writer_done(pack_writer *w);
/* One record, of a head and a body that follow each other. */
cb_code pack_record(pack_writer *w, pack_type type, span head, span body, cb_error *err);
/* Writes what waits. */
cb_code pack_flush(pack_writer *w, cb_error *err);

typedef struct pack_reader {
	int fd;
	struct ZSTD_DCtx_s *zstd;
	buf raw, packed;
	size_t at; /* in raw */
	uint64_t sum;
	uint64_t records, bytes; /* read so far */
	pack_pause pause;
} pack_reader;
/* Reads the preamble. CB_CORRUPT, CB_NEWER. */
cb_code pack_reader_init(pack_reader *r, int fd, pack_pause pause, cb_error *err);
void pack_reader_done(pack_reader *r);
/* Appends the next record to out: its type and size (PACK_RECORD_HEADER_BYTES), then its bytes. */
cb_code pack_next(pack_reader *r, buf *out, cb_error *err);
/* Nothing of the last block is left. */
bool pack_at_block_end(const pack_reader *r);

/* ---- numbers ---- */

/* What to put in place of the numbers in a key or value. */
typedef struct renumber {
	cb_code (*ino)(void *context, uint64_t *ino, cb_error *err);
	cb_code (*version)(void *context, uint64_t *version, cb_error *err);
	/* One content of which `bytes` are used from its start, or with `value` as many as a value of that size is kept in. */
	cb_code (*content)(void *context, uint64_t *content, uint64_t bytes, bool value, cb_error *err);
	void *context;
} renumber;
cb_code renumber_key(const renumber *r, span key_bytes, key *out, cb_error *err);
cb_code renumber_value(const renumber *r, span key_bytes, span value, tree_value *out, cb_error *err);

/* A table from numbers (not 0) to numbers. */
typedef struct number_map {
	uint64_t *slots; /* pairs */
	size_t capacity, count;
} number_map;
/* *out: what the number was given; *fresh: it was new and got `next`. */
cb_code number_map_add(number_map *m, uint64_t number, uint64_t next, uint64_t *out, bool *fresh, cb_error *err);
void number_map_done(number_map *m);

/* The version of a file names a step of the pack: twice its number, or one less for the steps pruned before it. */
static inline uint64_t pack_version(uint64_t seq, bool in_gap)
{
	return 2 * seq - (in_gap ? 1 : 0);
}

#endif
