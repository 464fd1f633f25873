/*
 * pack.h: the stream that carries the records of a box (box/pack.h). docs/format.md describes the same bytes.
 *
 * A pack is a preamble and blocks; a block is a flushed part of one zstd stream, with sums that chain it to all before. The blocks hold
 * records, which may lie across them.
 */
#ifndef TRANSFER_PACK_H
#define TRANSFER_PACK_H

#include "box/pack.h"

enum {
	PACK_PREAMBLE_BYTES = 24,
	PACK_BLOCK_HEADER_BYTES = 24,
	PACK_WINDOW_LOG = 23, /* of zstd: 8 MiB, so that versions of one file are seen beside each other */
	PACK_LEVEL = 3,       /* of zstd */
};

/* Whom to ask whether to go on when a signal ended a wait for the other end; NULL: nobody. */
typedef struct pack_pause {
	const cb_transfer_watch *watch;
	const cb_progress *progress;
	unsigned era; /* (entry.h) in which the call began */
} pack_pause;

typedef struct pack_writer {
	int fd;
	struct ZSTD_CCtx_s *zstd;
	buf raw;    /* the block under way */
	buf packed; /* it, compressed, with its header */
	uint64_t sum;
	uint64_t bytes; /* written so far */
	pack_pause pause;
} pack_writer;
cb_code pack_writer_init(pack_writer *w, int fd, uint32_t format, pack_pause pause, cb_error *err);
void pack_writer_done(pack_writer *w);
/* One record, of a head and a body that follow each other. */
cb_code pack_record(pack_writer *w, pack_type type, span head, span body, cb_error *err);
/* Writes what waits. */
cb_code pack_flush(pack_writer *w, cb_error *err);

typedef struct pack_reader {
	int fd;
	struct ZSTD_DCtx_s *zstd;
	buf raw, packed;
	size_t at;       /* in raw */
	uint32_t format; /* PACK_FORMAT_FIRST to PACK_FORMAT */
	uint64_t sum;
	uint64_t bytes; /* read so far */
	pack_pause pause;
} pack_reader;
/* Reads the preamble. CB_CORRUPT, CB_NEWER. */
cb_code pack_reader_init(pack_reader *r, int fd, pack_pause pause, cb_error *err);
void pack_reader_done(pack_reader *r);
/* Appends the next record to out: its type and size (PACK_RECORD_HEADER_BYTES), then its bytes. */
cb_code pack_next(pack_reader *r, buf *out, cb_error *err);
/* Nothing of the last block is left. */
bool pack_at_block_end(const pack_reader *r);

#endif
