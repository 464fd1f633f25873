/*
 * audit.c: recording what was done to boxes and store, and calls that were refused.
 *
 * Steps are their own record: a call that changed a box costs nothing here. What is done to the catalog is recorded in the transaction
 * that does it, so neither is there without the other. A refused call has no transaction of its own any more: the refusal gets a small
 * one, whose failure is nobody's business. The same refusal again is counted in its row, so an agent that tries for ever fills nothing.
 */
#include "box/audit.h"

/* Cut between characters where it is text. */
void audit_cut(const char *text, char out[LIMIT_AUDIT_TEXT_BYTES + 1])
{
	static const char more[] = "…";
	size_t size = strnlen(text, LIMIT_AUDIT_TEXT_BYTES + 1);
	if (size <= LIMIT_AUDIT_TEXT_BYTES) {
		memcpy(out, text, size);
		out[size] = 0;
		return;
	}
	size = LIMIT_AUDIT_TEXT_BYTES - (sizeof(more) - 1);
	while (size > LIMIT_AUDIT_TEXT_BYTES - 8 && ((unsigned char)text[size] & 0xc0) == 0x80) size--;
	memcpy(out, text, size);
	memcpy(out + size, more, sizeof(more));
}

static cb_code put(cb_store *cs, const store_box *row, const audit_note *n, cb_code code, const char *message, cb_error *err)
{
	char subject[LIMIT_AUDIT_TEXT_BYTES + 1], action[LIMIT_AUDIT_TEXT_BYTES + 1];
	audit_cut(n->subject, subject);
	audit_cut(n->action, action);
	store_audit a = {
		.time_ns = clock_now(store_clock(cs->s)),
		.box = row ? row->id : 0,
		.name = row ? row->name : "",
		.who = n->who,
		.action = action,
		.subject = subject,
		.code = code,
		.message = message,
		.count = 1,
	};
	return store_audit_put(cs->s, &a, err);
}

cb_code audit_did(cb_store *cs, const store_box *row, const audit_note *note, cb_error *err)
{
	return row && box_is_hidden(row) ? CB_OK : put(cs, row, note, CB_OK, "", err);
}

void audit_did_alone(cb_store *cs, const audit_note *note)
{
	if (store_is_read_only(cs->s) || store_write_begin_as(cs->s, STORE_FREES, NULL) != CB_OK) return;
	if (audit_did(cs, NULL, note, NULL) == CB_OK) (void)store_write_commit(cs->s, false, NULL);
	else store_write_abort(cs->s);
}

static bool is_refusal(cb_code code)
{
	switch (code) {
	case CB_QUOTA:
	case CB_READONLY:
	case CB_RESERVED:
	case CB_DENIED:
	case CB_NOPERM:
	case CB_VERSION:
	case CB_CONFLICT:
	case CB_TOOBIG:
	case CB_LIMIT:
		return true;
	default:
		return false;
	}
}

cb_code audit_refused(cb_store *cs, const store_box *row, const audit_note *note, cb_code code, const cb_error *why)
{
	if (!is_refusal(code) || (row && box_is_hidden(row))) return code;
	if (store_is_read_only(cs->s) || store_in_write(cs->s) || store_write_begin(cs->s, NULL) != CB_OK) return code;
	const char *message = why && why->code == code ? why->message : cb_code_text(code);
	if (put(cs, row, note, code, message, NULL) == CB_OK) (void)store_write_commit(cs->s, false, NULL);
	else store_write_abort(cs->s);
	return code;
}

cb_code box_refused(cb_box *b, const char *action, const char *subject, cb_code code, const cb_error *why)
{
	if (!is_refusal(code)) return code;
	CANCEL_SHIELD;
	if (entry_lock_take(&b->lock, "", NULL) != CB_OK) return code;
	audit_note note = {b->who, action, subject};
	(void)audit_refused(b->cs, &b->row, &note, code, why);
	entry_lock_give(&b->lock);
	return code;
}
