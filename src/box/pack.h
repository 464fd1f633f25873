/*
 * pack.h: a box as records, and a box from records: what a pack is made of. docs/format.md describes the same bytes.
 *
 * Numbers of inodes, contents and states in the records are the pack's own: they are given in the order of first use, so records say
 * nothing of the store they came from, and whoever reads them needs no table of strange numbers. How records are carried (blocks, sums,
 * compression, a descriptor) is not known here.
 *
 * No function that is handed in runs under the writer lock: whoever is at the other end may take its time.
 */
#ifndef BOX_PACK_H
#define BOX_PACK_H

#include <cowbox/cowbox.h>

#include "base/buf.h"

typedef enum pack_type {
	PACK_HEADER = 'H',
	PACK_STEP = 'S',
	PACK_CONTENT = 'C',
	PACK_GAP_KEYS = 'G', /* what happened in the gap before the step */
	PACK_KEYS = 'K',     /* what the step changed */
	PACK_CHECKPOINT = 'P',
	PACK_AUTOMATIC = 'A', /* an automatic checkpoint, from PACK_FORMAT_AUTOMATIC on */
	PACK_SETTING = 'T',
	PACK_END = 'E',
} pack_type;

/* Which records there may be. Whoever carries them tells the number before the first, so that a reader refuses what it does not know
 * (CB_NEWER); the smallest that will do is written, so that older readers go on reading what they can. */
enum {
	PACK_FORMAT_FIRST = 1,
	PACK_FORMAT_AUTOMATIC = 2,
	PACK_FORMAT = PACK_FORMAT_AUTOMATIC, /* the newest */
};

/* A record in memory: its type (1 byte), its size (4), its bytes. */
enum { PACK_RECORD_HEADER_BYTES = 5 };

/* Where the records of a box go. A code that a function returns ends the packing with it. */
typedef struct pack_sink {
	/* What will be packed is known (`info` and the totals of `progress`); the first record comes next. */
	cb_code (*begin)(void *context, uint32_t format, cb_error *err);
	/* One record, of a head and a body that follow each other. CB_LIMIT: it is too large. The last is PACK_END. */
	cb_code (*put)(void *context, pack_type type, span head, span body, cb_error *err);
	/* Called now and then. */
	cb_code (*tell)(void *context, cb_error *err);
	void *context;
	/* The caller's, kept up to date; `info` without the size of the pack. */
	cb_progress *progress;
	cb_pack_info *info;
} pack_sink;

/* history: every step, and the checkpoints; else the handle's state alone. CB_STALE: pruned while it was packed, or
 * the box was deleted, and only the state is left. */
cb_code pack_out(cb_box *b, bool history, const pack_sink *sink, cb_error *err);

/* Where the records of a box come from. */
typedef struct pack_source {
	/* The name is free and the store can be written: reads what stands before the first record. */
	cb_code (*begin)(void *context, uint32_t *out_format, cb_error *err);
	/* Appends the next record, whole and whatever it holds, to out. */
	cb_code (*next)(void *context, buf *out, cb_error *err);
	/* PACK_END was read: nothing may follow. */
	cb_code (*end)(void *context, cb_error *err);
	/* Called now and then; also when the box is published, when it is too late to refuse. */
	cb_code (*tell)(void *context, cb_error *err);
	void *context;
	cb_progress *progress;
	cb_pack_info *info;
} pack_source;

/* A box of records that anybody may have written. name NULL: the one in the header. Nobody sees the box before all was read and found
 * sound; with any code but CB_OK there is none. CB_CORRUPT, CB_EXISTS, CB_READONLY. */
cb_code pack_in(cb_store *cs, const char *name, const pack_source *source, cb_error *err);

#endif
