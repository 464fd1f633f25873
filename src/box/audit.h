/* audit.h: recording what was done to boxes and store, and what was refused; see audit.c. */
#ifndef BOX_AUDIT_H
#define BOX_AUDIT_H

#include "box/internal.h"

/* Strings are never NULL; a long subject is cut. */
typedef struct audit_note {
	const char *who;
	const char *action;
	const char *subject;
} audit_note;

/* Inside the write transaction that does it. row NULL: it concerns the store. Nothing is told of hidden boxes. */
cb_code audit_did(cb_store *cs, const store_box *row, const audit_note *note, cb_error *err);
/* In a transaction of its own, about the store; best effort, for what is no transaction itself. */
void audit_did_alone(cb_store *cs, const audit_note *note);
/* Outside any write transaction; best effort. Returns code. What is no refusal is not recorded. why may be NULL. */
cb_code audit_refused(cb_store *cs, const store_box *row, const audit_note *note, cb_code code, const cb_error *why);

/* At most LIMIT_AUDIT_TEXT_BYTES of a text; what is cut ends in "…". */
void audit_cut(const char *text, char out[LIMIT_AUDIT_TEXT_BYTES + 1]);

#endif
