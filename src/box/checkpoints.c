/*
 * checkpoints.c: names for steps, by hand and every so many steps.
 *
 * An automatic checkpoint is called "auto-" and the number of its step and is marked in its row; one that somebody saved under such a
 * name is theirs and stays: where it names another step, the automatic one is "auto-SEQ-2", or the next that is free. Those made every so
 * many steps are put in the transaction of their step and not flushed: as durable as the step is.
 */
#include "base/args.h"
#include "box/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "box/cursor.h"
#include "box/history.h"

#define EVERY_SETTING BOX_EVERY_SETTING

void box_checkpoint_auto_name(uint64_t seq, char out[CB_NAME_MAX + 1])
{
	(void)snprintf(out, CB_NAME_MAX + 1, "auto-%" PRIu64, seq);
}

static cb_code collect_row(void *context, const store_checkpoint *c, cb_error *err)
{
	return buf_append(context, c, sizeof(*c), err);
}

/* The oldest automatic ones give way. */
static cb_code auto_trim(cb_store *cs, uint64_t box, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_checkpoint_list(cs->s, box, collect_row, &rows, err));
	const store_checkpoint *all = (const store_checkpoint *)(const void *)rows.bytes;
	size_t count = rows.size / sizeof(*all), automatic = 0;
	for (size_t i = 0; i < count; i++) automatic += all[i].automatic;
	for (size_t i = 0; automatic > LIMIT_AUTO_CHECKPOINTS; i++) {
		if (!all[i].automatic) continue;
		CB_TRY(store_checkpoint_delete(cs->s, box, all[i].name, err));
		automatic--;
	}
	return CB_OK;
}

/* Inside a write transaction, as *out. *made false: the step has a checkpoint of such a name already. */
static cb_code auto_put(cb_store *cs, uint64_t box, uint64_t seq, store_checkpoint *out, bool *made, cb_error *err)
{
	store_checkpoint there;
	*out = (store_checkpoint){.box = box, .seq = seq, .created_ns = clock_now(store_clock(cs->s)), .automatic = true};
	*made = false;
	box_checkpoint_auto_name(seq, out->name);
	for (unsigned n = 2;; n++) {
		cb_error why;
		cb_code code = store_checkpoint_get(cs->s, box, out->name, &there, cb_err_aside(&why));
		if (code == CB_NOTFOUND) break;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (there.seq == seq) return CB_OK;
		(void)snprintf(out->name, sizeof(out->name), "auto-%" PRIu64 "-%u", seq, n); /* that one is somebody's own */
	}
	CB_TRY(store_checkpoint_put(cs->s, out, err));
	*made = true;
	return auto_trim(cs, box, err);
}

static cb_code name_taken(const cb_box *b, const char *name, cb_error *err)
{
	return cb_err_set(err, CB_EXISTS, "box '%s' has a checkpoint '%s' already", box_called(b, &b->row), name);
}

static cb_code save_in_write(cb_box *b, const char *name, uint64_t seq, cb_error *err)
{
	store_head head;
	CB_TRY(store_head_get(b->cs->s, b->id, &head, err));
	store_checkpoint c = {.box = b->id, .seq = seq ? seq : b->pinned ? b->head->seq : head.seq};
	c.created_ns = clock_now(store_clock(b->cs->s));
	uint64_t found = 0;
	CB_TRY(step_exists(b->cs, b->id, c.seq, &found, err));
	if (!name) {
		bool made = false;
		CB_TRY(auto_put(b->cs, c.box, c.seq, &c, &made, err));
		return made ? audit_did(b->cs, &b->row, &(audit_note){b->who, "checkpoint", c.name}, err) : CB_OK;
	}
	memcpy(c.name, name, strlen(name));
	cb_code code = store_checkpoint_put(b->cs->s, &c, err);
	if (code == CB_EXISTS) return name_taken(b, name, err);
	if (code != CB_OK) return code;
	return audit_did(b->cs, &b->row, &(audit_note){b->who, "checkpoint", name}, err);
}

cb_code cb_checkpoint_save(cb_box *b, const char *name, uint64_t seq, bool no_sync, cb_error *err)
{
	NEED(err, "box", b);
	if (name) CB_TRY(box_name_check(name, true, err));
	CB_TRY(box_enter(b, err));
	cb_code code = box_refuse_txn(b, "a checkpoint", err);
	if (code == CB_OK) code = box_flush(b, false, err);
	if (code == CB_OK) code = box_write_begin(b, STORE_GROWS, err);
	if (code == CB_OK) code = store_write_end(b->cs->s, save_in_write(b, name, seq, err), !no_sync, err);
	return box_leave(b, code);
}

static cb_code delete_in_write(const cb_box *b, const char *name, cb_error *err)
{
	cb_code code = store_checkpoint_delete(b->cs->s, b->id, name, err);
	if (code == CB_NOTFOUND)
		return cb_err_set(err, CB_NOTFOUND, "box '%s' has no checkpoint '%s'", box_called(b, &b->row), name);
	if (code != CB_OK) return code;
	return audit_did(b->cs, &b->row, &(audit_note){b->who, "checkpoint-delete", name}, err);
}

cb_code cb_checkpoint_delete(cb_box *b, const char *name, cb_error *err)
{
	NEED(err, "box name", b, name);
	CB_TRY(args_name("name", name, err));
	CB_TRY(box_lock(b, err));
	cb_code code = box_refuse_txn(b, "a checkpoint", err);
	if (code == CB_OK) code = box_write_begin(b, STORE_FREES, err);
	if (code == CB_OK) code = store_write_end(b->cs->s, delete_in_write(b, name, err), false, err);
	return box_leave(b, code);
}

cb_code checkpoints_forget(cb_store *cs, uint64_t box, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_checkpoint_list(cs->s, box, collect_row, &rows, err));
	const store_checkpoint *all = (const store_checkpoint *)(const void *)rows.bytes;
	for (size_t i = 0; i < rows.size / sizeof(store_checkpoint); i++)
		CB_TRY(store_checkpoint_delete(cs->s, box, all[i].name, err));
	return CB_OK;
}

static cb_code collect_checkpoint(void *context, const store_checkpoint *c, cb_error *err)
{
	cb_checkpoint out = CB_WITH(cb_checkpoint, .seq = c->seq, .created_ns = c->created_ns, .automatic = c->automatic);
	memcpy(out.name, c->name, sizeof(out.name));
	return buf_append(context, &out, sizeof(out), err);
}

/* Read whole: whoever goes through them may take his time and use the store, which he could not inside a call on the database. */
cb_code cb_checkpoint_open(cb_box *b, cb_cursor **out, cb_error *err)
{
	list_cursor *l = NULL;
	store_box row;
	NEED(err, "box out", b, out);
	CB_TRY(box_living(b, &row, err));
	CB_TRY(list_cursor_create(CURSOR_CHECKPOINTS, sizeof(cb_checkpoint), NULL, b->cs, b, &l, err));
	cb_code code = store_checkpoint_list(b->cs->s, b->id, collect_checkpoint, &l->items, err);
	if (code == CB_OK) *out = &l->c;
	else cb_cursor_close(&l->c);
	return code;
}

cb_code cb_checkpoint_list(cb_box *b, cb_checkpoint_visit visit, void *context, cb_error *err)
{
	NEED(err, "box visit", b, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_checkpoint_open(b, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}

/* ---- every so many steps ---- */

cb_code box_checkpoint_every(cb_store *cs, uint64_t box, uint64_t *out, cb_error *err)
{
	AUTO_FREE char *text = NULL;
	cb_error why;
	*out = 0;
	cb_code code = store_setting_get(cs->s, box, EVERY_SETTING, &text, cb_err_aside(&why));
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : cb_err_pass(err, code, &why);
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > 18 || text[digits])
		return cb_err_set(err, CB_CORRUPT, "setting '%s' is no number: run fsck", EVERY_SETTING);
	*out = strtoull(text, NULL, 10);
	return CB_OK;
}

static cb_code every_in_write(cb_box *b, uint64_t steps, cb_error *err)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%" PRIu64, steps);
	CB_TRY(store_setting_set(b->cs->s, b->id, EVERY_SETTING, steps ? text : NULL, err));
	return audit_did(b->cs, &b->row, &(audit_note){b->who, "checkpoint-every", text}, err);
}

cb_code cb_box_checkpoint_every_set(cb_box *b, uint64_t steps, cb_error *err)
{
	NEED(err, "box", b);
	if (steps > UINT32_MAX) return cb_err_set(err, CB_INVALID, "a box has fewer steps than %" PRIu64, steps);
	CB_TRY(box_lock(b, err));
	cb_code code = box_refuse_txn(b, "a checkpoint", err);
	if (code == CB_OK) code = box_write_begin(b, STORE_GROWS, err);
	if (code == CB_OK) code = store_write_end(b->cs->s, every_in_write(b, steps, err), false, err);
	return box_leave(b, code);
}

/* Asked at every step, so the answer is kept until somebody changes the catalog. */
static cb_code every_known(cb_box *b, cb_error *err)
{
	if (store_fresh(b->cs->s, 0, &b->every_stamp) && b->every_known) return CB_OK;
	b->every_known = false;
	CB_TRY(box_checkpoint_every(b->cs, b->id, &b->every, err));
	b->every_known = true;
	return CB_OK;
}

cb_code box_checkpoint_auto(cb_box *b, uint64_t seq, cb_error *err)
{
	CB_TRY(every_known(b, err));
	if (b->every == 0 || seq % b->every != 0) return CB_OK;
	store_checkpoint put;
	bool made;
	return auto_put(b->cs, b->id, seq, &put, &made, err);
}
