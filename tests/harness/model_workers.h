/*
 * model_workers.h: what several processes or threads do to the boxes of one store at the same time, and what must be true afterwards.
 *
 * Each worker notes what was acknowledged to it in memory that all share; the judge then looks for every bit of it.
 */
#ifndef TESTS_MODEL_WORKERS_H
#define TESTS_MODEL_WORKERS_H

#include "harness/model_state.h"

enum { MODEL_WORKERS = 6, MODEL_STEPS = 4000, MODEL_FILES = 6 };

/* Written by its worker alone; lives in shared memory. */
typedef struct model_ledger {
	uint64_t steps[MODEL_STEPS]; /* seqs of acknowledged steps of the box "shared" */
	uint32_t step_count;
	uint32_t appended;           /* lines in /work/log by this worker */
	uint32_t counted;            /* added to the key "count" */
	uint32_t files[MODEL_FILES]; /* number last written to /work/wN/fM of "shared"; 0: none */
	uint32_t own;                /* number last written to /work/mine of its own box */
	uint32_t merged;             /* forks merged back: /work/wN/m1../mN exist */
} model_ledger;

/* For processes: zeroed, shared over fork. */
model_ledger *model_ledgers_map(void);
/* Makes the box "shared" and the workers' own boxes. */
void model_workers_prepare(cb_store *s, unsigned workers);
/* One worker's life: `rounds` random operations through handles of its own on s. */
void model_worker_run(cb_store *s, unsigned number, uint64_t seed, unsigned rounds, model_ledger *l);
/* After workers were killed: each may have finished one operation that it could not note any more. Checks that it is no more than
 * that, and brings the ledgers up to date. */
void model_workers_settle(cb_store *s, unsigned workers, model_ledger *all);
/* All that was acknowledged is there, nothing is there twice, fsck finds nothing. */
void model_workers_judge(cb_store *s, unsigned workers, const model_ledger *all);

#endif
