/*
 * cancel.h: a time limit and a way to end a call from outside.
 *
 * Both hold for the calls that the calling thread makes between cb_limit_push and cb_limit_pop, whatever they are. A thread is one of the
 * system's: a language that moves its own between these (Go) must keep one there meanwhile.
 *
 *   cb_limit limit = CB_WITH(cb_limit, .timeout_ms = 5000, .cancel = token);
 *   cb_limit_push(&limit, &err);
 *   code = cb_import(box, "src", NULL, NULL, &err);
 *   cb_limit_pop();
 *
 * A call that waits or works when its limit ends returns CB_CANCELLED or CB_TIMEOUT, some 10 ms later (one system call, a flush of the
 * disk say, is not cut short, nor the last part of a vacuum: once SQLite brings the new database into its place that is done to the end).
 * Nothing has changed then; of a call that is made in pieces (gc, vacuum, prune, apply, an export into a folder) as much as when its
 * process had been killed, and the same call goes on. A cursor keeps its place where it can (cursor.h says which). A call that succeeded
 * is not taken back.
 *
 * A limit that is over before the call ends it at once. Calls that neither wait nor work do not look: those that hand out or set a word in
 * memory (cb_store_who_set, cb_box_who_set, cb_box_step, cb_log_pruned, cb_grep_counted, versions and codes), that pass something on to a
 * running program (cb_exec_pump, cb_exec_kill, cb_exec_tick, cb_exec_resize, cb_exec_input), and cb_txn_drop. Calls that close and free are
 * never cut short. CB_CANCELLED is not CB_INTERRUPTED, by which a visitor says that it has seen enough.
 */
#ifndef COWBOX_CANCEL_H
#define COWBOX_CANCEL_H

#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One token may bound any number of calls in any number of threads. In a child of fork() it is a copy: neither fires the other's. */
typedef struct cb_cancel cb_cancel;

CB_API cb_code cb_cancel_create(cb_cancel **out, cb_error *err);
/* Ends what it bounds, now and from now on. From any thread, at any time, in a signal handler. Accepts NULL. */
CB_API void cb_cancel_fire(cb_cancel *cancel);
/* As it was before it was fired. Only while no call that it bounds is under way. Accepts NULL. */
CB_API void cb_cancel_reset(cb_cancel *cancel);
CB_API bool cb_cancel_is_fired(const cb_cancel *cancel); /* NULL: false */
/* The caller's use of it ends. Limits that have it keep it until they are popped: then nobody can fire it any more. Accepts NULL. */
CB_API void cb_cancel_free(cb_cancel *cancel);

typedef struct cb_limit {
	size_t struct_size;
	int64_t timeout_ms; /* from now on, for all calls together; 0: none, below 0: it is over already */
	cb_cancel *cancel;  /* NULL: none */
} cb_limit;

/* Limits nest: an inner one adds to those around it, so nobody can outstay what his own caller was given. CB_INVALID; CB_LIMIT: 64 are
 * in force. What a thread leaves behind goes when it ends. */
CB_API cb_code cb_limit_push(const cb_limit *limit, cb_error *err);
/* Takes the last one back. Without one: nothing. */
CB_API void cb_limit_pop(void);

#ifdef __cplusplus
}
#endif
#endif
