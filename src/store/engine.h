/*
 * engine.h: what a database must do to carry a store. For files of this folder only; others use store.h.
 *
 * An engine keeps rows. Everything that does not depend on the database (caches, number blocks, stamps, owners' locks, segment files,
 * fork detection, the fair lock) stands above it in shared code. An engine is used by one thread at a time: store.c holds the
 * connection's mutex around every call, and a write transaction holds it from begin to end.
 *
 * Rows come from a file that anybody may have damaged: an engine checks types and lengths of all it reads and answers CB_CORRUPT.
 */
#ifndef STORE_ENGINE_H
#define STORE_ENGINE_H

#include <stdatomic.h>

#include "base/io.h"
#include "store/store.h"

typedef struct engine engine;

enum {
	ENGINE_BUSY_MS = 60000,  /* beside the fair lock only recovery, checkpoints and foreign tools are waited for */
	ENGINE_BATCH_ROWS = 500, /* rows per transaction in sweeps: about a millisecond of the writer lock */
};

/* A node (size, segment, offset 0) or a content. `data` is lent; empty when the bytes are in a segment (segment != 0). */
typedef struct engine_row {
	uint64_t id, birth, sum, size, segment, offset;
	span data;
} engine_row;

typedef cb_code (*engine_row_visit)(void *context, const engine_row *row, cb_error *err);
typedef cb_code (*engine_owner_visit)(void *context, uint64_t owner, uint64_t epoch, cb_error *err);
typedef cb_code (*engine_segment_visit)(void *context, uint64_t segment, uint64_t rows, uint64_t bytes, cb_error *err);

/*
 * Every function returns CB_OK or sets err. Functions marked W are called inside write_begin/write_commit only. A failed W call other than
 * CB_EXISTS, CB_NOTFOUND or CB_STALE makes the caller abort.
 */
typedef struct store_ops {
	const char *name;

	/* abandon: the process forked, or a flush failed; give back memory and descriptors without touching files. */
	void (*close)(engine *e, bool abandon);

	/* Atomic; visible to others at commit; survives the death of the process from then on. A failed commit leaves no transaction. */
	cb_code (*write_begin)(engine *e, cb_error *err);
	cb_code (*write_commit)(engine *e, cb_error *err);
	void (*write_abort)(engine *e);
	/* One snapshot for the reads between. */
	cb_code (*read_begin)(engine *e, cb_error *err);
	void (*read_end)(engine *e);
	/* Returns once all earlier commits, of any process, survive a power cut. *out_position (may be NULL): see position. */
	cb_code (*flush)(engine *e, uint64_t *out_position, cb_error *err);
	/* How much is committed, by anybody: grows while its upper half stays the same. 0: not known. */
	uint64_t (*position)(engine *e);
	/* Called between transactions when base.log_pages is large: folds the log into the database. Failures show in flush_failed only. */
	void (*tidy)(engine *e);
	/* After a failed flush: makes the database sound and durable, or says why not. */
	cb_code (*repair)(engine *e, cb_error *err);

	cb_code (*counters_get)(engine *e, uint64_t out[STORE_COUNTERS], cb_error *err);
	cb_code (*counters_set)(engine *e, const uint64_t values[STORE_COUNTERS], cb_error *err); /* W */
	/* Strings about the store itself; CB_NOTFOUND. out is NUL-terminated, at most size - 1 long. */
	cb_code (*meta_get)(engine *e, const char *key, char *out, size_t size, cb_error *err);
	cb_code (*meta_set)(engine *e, const char *key, const char *value, cb_error *err); /* W */

	/* CB_NOTFOUND. The row is lent to visit. */
	cb_code (*row_get)(engine *e, bool is_node, uint64_t id, engine_row_visit visit, void *context, cb_error *err);
	cb_code (*row_put)(engine *e, bool is_node, const engine_row *row, cb_error *err); /* W */
	/* Only if it was born before the horizon, else CB_NOTFOUND: somebody may have taken it up again. */
	cb_code (*row_delete)(engine *e, bool is_node, uint64_t id, uint64_t horizon, cb_error *err);      /* W */
	cb_code (*content_birth_set)(engine *e, uint64_t id, uint64_t birth, cb_error *err);               /* W; CB_NOTFOUND */
	cb_code (*content_move)(engine *e, uint64_t id, uint64_t segment, uint64_t offset, cb_error *err); /* W */
	/* Rows with id > after in the order of ids, at most limit; with_data false leaves `data` empty. CB_INTERRUPTED from visit ends with
	 * CB_OK. */
	cb_code (*row_walk)(engine *e, bool is_node, uint64_t after, uint64_t limit, bool with_data, engine_row_visit visit,
	                    void *context, cb_error *err);
	cb_code (*segment_rows)(engine *e, uint64_t segment, engine_row_visit visit, void *context, cb_error *err); /* by offset */
	cb_code (*segment_list)(engine *e, engine_segment_visit visit, void *context, cb_error *err); /* those with rows */

	cb_code (*owner_insert)(engine *e, uint64_t epoch, uint64_t *out_owner, cb_error *err); /* W */
	cb_code (*owner_delete)(engine *e, uint64_t owner, cb_error *err);                      /* W */
	cb_code (*owner_list)(engine *e, engine_owner_visit visit, void *context, cb_error *err);

	/* As the functions of store.h of the same names. */
	cb_code (*box_find)(engine *e, const char *name, store_box *out, cb_error *err);
	cb_code (*box_get)(engine *e, uint64_t id, store_box *out, cb_error *err);
	cb_code (*box_list)(engine *e, bool with_deleted, store_box_visit visit, void *context, cb_error *err);
	cb_code (*box_forks)(engine *e, uint64_t origin, store_box_visit visit, void *context, cb_error *err);
	cb_code (*box_insert)(engine *e, const store_box *box, cb_error *err); /* W */
	cb_code (*box_update)(engine *e, const store_box *box, cb_error *err); /* W */
	cb_code (*box_remove)(engine *e, uint64_t id, cb_error *err);          /* W */
	cb_code (*head_get)(engine *e, uint64_t box, store_head *out, cb_error *err);
	cb_code (*head_set)(engine *e, uint64_t box, const store_head *head, cb_error *err); /* W */

	cb_code (*step_walk)(engine *e, uint64_t box, uint64_t from, uint64_t to, bool with_changes, store_step_visit visit,
	                     void *context, cb_error *err);
	cb_code (*step_root_before)(engine *e, uint64_t box, uint64_t seq, uint64_t *out_seq, uint64_t *out_root, cb_error *err);
	cb_code (*step_put)(engine *e, const store_step *step, uint64_t epoch, cb_error *err);                             /* W */
	cb_code (*step_root_set)(engine *e, uint64_t box, uint64_t seq, bool has_root, uint64_t root, cb_error *err);      /* W */
	cb_code (*step_gap_set)(engine *e, uint64_t box, uint64_t seq, cb_error *err);                                     /* W */
	cb_code (*step_delete)(engine *e, uint64_t box, uint64_t from, uint64_t to, uint64_t *out_deleted, cb_error *err); /* W */
	cb_code (*step_count)(engine *e, uint64_t box, uint64_t *out, cb_error *err);
	cb_code (*touch_put)(engine *e, uint64_t box, uint64_t first, uint64_t last, span subjects, cb_error *err); /* W */
	cb_code (*touch_walk)(engine *e, uint64_t box, uint64_t max_seq, store_touch_visit visit, void *context, cb_error *err);
	cb_code (*touch_last)(engine *e, uint64_t box, uint64_t *out_seq, cb_error *err);

	cb_code (*edge_before)(engine *e, uint64_t box, uint64_t seq, store_edge *out, size_t max, size_t *count, cb_error *err);
	cb_code (*edge_list)(engine *e, uint64_t after, store_edge_visit visit, void *context, cb_error *err);
	cb_code (*edge_put)(engine *e, const store_edge *edge, cb_error *err); /* W; CB_EXISTS */
	cb_code (*edge_delete)(engine *e, uint64_t order, cb_error *err);      /* W */
	cb_code (*edges_lost)(engine *e, buf *orders, cb_error *err);

	cb_code (*checkpoint_get)(engine *e, uint64_t box, const char *name, store_checkpoint *out, cb_error *err);
	cb_code (*checkpoint_list)(engine *e, uint64_t box, store_checkpoint_visit visit, void *context, cb_error *err);
	cb_code (*checkpoint_put)(engine *e, const store_checkpoint *c, cb_error *err);         /* W */
	cb_code (*checkpoint_delete)(engine *e, uint64_t box, const char *name, cb_error *err); /* W */
	cb_code (*setting_get)(engine *e, uint64_t box, const char *key, char **out, cb_error *err);
	cb_code (*setting_set)(engine *e, uint64_t box, const char *key, const char *value, cb_error *err); /* W */
	cb_code (*setting_list)(engine *e, uint64_t box, store_setting_visit visit, void *context, cb_error *err);
	cb_code (*leftover_sweep)(engine *e, cb_error *err); /* W */

	/* Pins: of an owner; of a box (0: all) by id. Expire: those with 0 < until_ns <= now, and those of boxes that are not there. */
	cb_code (*pin_put)(engine *e, const store_pin *pin, cb_error *err); /* W */
	cb_code (*pin_delete)(engine *e, const char *owner, cb_error *err); /* W */
	cb_code (*pin_expire)(engine *e, int64_t now_ns, cb_error *err);    /* W */
	cb_code (*pin_list)(engine *e, uint64_t box, store_pin_visit visit, void *context, cb_error *err);

	cb_code (*audit_put)(engine *e, const store_audit *a, cb_error *err); /* W */
	cb_code (*audit_walk)(engine *e, bool refused, uint64_t below, uint64_t limit, store_audit_visit visit, void *context,
	                      cb_error *err);

	/* Space the database does not use goes back to the filesystem. Outside any transaction. */
	cb_code (*vacuum)(engine *e, cb_error *err);
	/* A consistent, flushed copy of the database as a new file. */
	cb_code (*backup)(engine *e, const char *to_file, cb_error *err);
	/* Complains about what the database itself and references between rows show; sums are checked above. */
	cb_code (*check)(engine *e, store_complain complain, void *context, cb_error *err);
	/* CB_CORRUPT when rows of the catalog are missing or disagree, as far as that is cheap to tell; where pages have no sums also when
	 * the database itself is damaged, however long that takes. */
	cb_code (*coherent)(engine *e, cb_error *err);
	/* Was every page that was read so far found to be what was written? */
	bool (*is_summed)(engine *e);
	/* Fills boxes, steps, nodes, contents, database_bytes, wal_bytes, page_sums. */
	cb_code (*stats)(engine *e, store_stats *out, cb_error *err);
} store_ops;

/* First member of every implementation. */
struct engine {
	const store_ops *ops;
	uint64_t log_pages;    /* not yet folded into the database, as of the last commit */
	store_need need;       /* of the write transaction that begins next */
	_Atomic bool is_short; /* of room on the disk, as of the last commit: write as little as can be. Looked at by any thread */
	bool flush_failed;     /* what was acknowledged may not be durable: the store stops writing */
};

/* What to do about CB_NOSPACE. */
#define ENGINE_FULL                                                                                                               \
	"no space left on the device: make room, or run gc, for which some is kept, after you have deleted boxes or pruned them " \
	"(what "                                                                                                                  \
	"the newest step of a box removed stays with it)"
#define ENGINE_DATABASE "cowbox.db" /* in the store's folder */

typedef struct engine_options {
	const io_folder *folder; /* of the database; lent, lives as long as the engine. NULL: in memory */
	bool read_only;
	bool frozen; /* nothing can be written beside the file either (frozen.h); with read_only */
	/* A position that was flushed and must be there still, or have been folded into the database since: else CB_CORRUPT. 0: none. */
	uint64_t promised;
	bool has_commands; /* commands may have left work beside the store: see STORE_PIN_EARLIER */
	store_fault_plan *faults;
} engine_options;

/* CB_NEWER, CB_FOREIGN, CB_CORRUPT... The caller holds the store's open lock, so that creation and migration happen once. */
cb_code engine_sqlite_open(const engine_options *options, engine **out, cb_error *err);

#endif
