/* audit.h: who did what, and what was refused. */
#ifndef COWBOX_AUDIT_H
#define COWBOX_AUDIT_H

#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was done, or refused. */
typedef struct cb_audit {
	size_t struct_size;
	int64_t time_ns;
	const char *box; /* its name now, or its last one; "" for what concerns the store */
	const char *who;
	const char *
		action; /* a step's kind, or "create", "fork", "rename", "delete", "quota", "checkpoint", "prune", "gc", "setting"... */
	const char *subject; /* a path, a name, a key; "" when none */
	cb_code code;        /* CB_OK, or why it was refused */
	const char *message; /* of a refusal; else "" */
	uint64_t seq;        /* the step; 0 when none */
	uint64_t count;      /* the same refusal so many times in a row */
} cb_audit;
typedef cb_code (*cb_audit_visit)(void *context, const cb_audit *entry, cb_error *err);
/* Which entries; without them, all. */
typedef struct cb_audit_options {
	size_t struct_size;
	const char *box; /* NULL: all; "": what concerns the store */
	const char *who; /* NULL: everybody; "": who gave no name */
	int64_t since_ns;
	bool refused;         /* only refusals */
	uint64_t max_entries; /* 0: all */
} cb_audit_options;
/* Newest first: the steps of the boxes, what was done to boxes and store, and calls that were refused (quota, read-only, reserved,
 * denied, version, conflict, too large). Of deeds and of refusals the newest 10,000 each are kept; steps go with prune, those of a
 * deleted box with gc, but for the few that others need. options may be NULL. */
CB_API cb_code cb_audit_list(cb_store *store, const cb_audit_options *options, cb_audit_visit visit, void *context, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
