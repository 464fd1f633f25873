/* model_diff.h: a difference as cb_diff tells it, checked against the two states it is about. */
#ifndef TESTS_MODEL_DIFF_H
#define TESTS_MODEL_DIFF_H

#include "harness/model_state.h"

enum { MODEL_CHANGES = 1000 };

typedef struct model_change {
	cb_change_kind kind;
	char path[128], old_path[128];
	bool modified, attributes;
	bool replaced; /* another inode at the same path: it stays there, whatever became of the folders above */
} model_change;

typedef struct model_diff {
	model_change all[MODEL_CHANGES];
	size_t count;
} model_diff;

/* A visitor of cb_diff; its context is a model_diff. */
cb_code model_diff_hear(void *context, const cb_change *c, cb_error *err);
/* Applying what was told to the old paths must give the new ones, with equal bytes, and equal attributes,
 * wherever no change of them was told. */
void model_diff_check(const model_trace *trace, const model_state *a, const model_state *b, const model_diff *t);

#endif
