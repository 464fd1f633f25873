/* plan_parts.h: what the files of plan.h share. */
#ifndef SANDBOX_PLAN_PARTS_H
#define SANDBOX_PLAN_PARTS_H

#include "sandbox/plan.h"
#include "sandbox/wire.h"

enum {
	PLAN_FDS = WIRE_FDS, /* descriptors that come with one plan */
	PLAN_FLAGS = PLAN_READ_ONLY | PLAN_NOEXEC | PLAN_NODEV | PLAN_NOSUID | PLAN_OPTIONAL | PLAN_FILE | PLAN_DNS,
};

/* Room for the strings and ops of an empty plan. plan_done() it, also after an error. */
cb_code plan_reserve(plan *p, cb_error *err);
/* a and b together, with a NUL, in the plan's strings. CB_LIMIT. */
cb_code plan_keep(plan *p, span a, span b, const char **out, cb_error *err);
cb_code plan_add(plan *p, const plan_op *op, cb_error *err);
/* Absolute, no doubled or trailing '/', no "." or "..", within the limits of paths. */
bool plan_path_is_clean(const char *path);

#endif
