/* packs.h: packs in memory, and boxes of two stores compared step by step. Failures end the test. */
#ifndef TESTS_PACKS_H
#define TESTS_PACKS_H

#include <cowbox/cowbox.h>

#include "harness/model_state.h"

typedef struct pack_bytes {
	uint8_t *bytes;
	size_t size;
} pack_bytes;

/* Freed when the test ends. */
pack_bytes pack_take(cb_box *b, const cb_pack_options *options);
cb_code pack_give(cb_store *s, const pack_bytes *p, const char *name, cb_pack_info *out, cb_error *err);

/* Everything that can be seen of one state: paths, all of stat but inode and version, bytes, holes, attributes, which names are one file,
 * key-values. free() it. */
char *pack_describe(cb_box *b);
/* The log as text, with what each step changed. `name` stands for the box's own name. free() it. */
char *pack_describe_log(cb_box *b, const char *name);
/* Log, checkpoints, every step that can be opened, and when the versions of files changed. */
void pack_must_equal(cb_store *a, const char *name_a, cb_store *b, const char *name_b);

/* A pack taken apart into records and put together again with sums that agree, so that a test can lie to the inner reader. */
typedef struct pack_record_view {
	uint8_t type;
	uint8_t *bytes; /* malloc()ed */
	size_t size;
} pack_record_view;
typedef struct pack_records {
	uint32_t format;
	pack_record_view *all;
	size_t count;
} pack_records;
pack_records pack_split(const pack_bytes *p);
/* fix_end: the counts in the end record are made to agree. */
pack_bytes pack_join(const pack_records *r, bool fix_end);
void pack_records_free(pack_records *r);
/* One random lie: a record less, more, elsewhere or with other bytes; a key less, more, or with other bytes. */
void pack_mutate(pack_records *r, test_rng *rng);
/* A small box "demo" with one of everything that can be packed: links, holes, attributes, large values, a gap, a fork's merge. */
cb_box *pack_sample(cb_store *s);
/* After an unpack that may have been lied to: CB_OK gave a box that is sound at every step, any other code left none. */
void pack_must_be_whole(cb_store *s, const char *name, cb_code code);

#endif
