/*
 * checkpoints.c: names for steps, by hand and every so many steps.
 *
 * An automatic checkpoint is called "auto-" and the number of its step; one that somebody saved under such a name for that step is the
 * same thing. It is put in the transaction of its step and not flushed: it is as durable as the step is.
 */
#include "box/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EVERY_SETTING BOX_EVERY_SETTING

static cb_code save_in_write(cb_box *b, const char *name, uint64_t seq, cb_error *err)
{
	store_head head;
	CB_TRY(store_head_get(b->cs->s, b->row.id, &head, err));
	store_checkpoint c = {.box = b->row.id, .seq = seq ? seq : b->pinned ? b->head->seq : head.seq};
	c.created_ns = clock_now(store_clock(b->cs->s));
	memcpy(c.name, name, strlen(name));
	uint64_t found = 0;
	CB_TRY(step_exists(b->cs, b->row.id, c.seq, &found, err));
	cb_code code = store_checkpoint_put(b->cs->s, &c, err);
	if (code == CB_EXISTS) return cb_err_set(err, CB_EXISTS, "box '%s' has a checkpoint '%s' already", b->row.name, name);
	if (code != CB_OK) return code;
	return audit_did(b->cs, &b->row, &(audit_note){b->who, "checkpoint", name}, err);
}

static cb_code end_write(cb_store *cs, bool sync, cb_code code, cb_error *err)
{
	if (code == CB_OK) return store_write_commit(cs->s, sync, err);
	store_write_abort(cs->s);
	return code;
}

cb_code cb_checkpoint_save(cb_box *b, const char *name, uint64_t seq, bool no_sync, cb_error *err)
{
	CB_TRY(box_name_check(name, true, err));
	CB_TRY(box_enter(b, err));
	cb_code code = box_refuse_txn(b, "a checkpoint", err);
	if (code == CB_OK) code = box_flush(b, false, err);
	if (code == CB_OK) code = store_write_begin(b->cs->s, err);
	if (code == CB_OK) code = end_write(b->cs, !no_sync, save_in_write(b, name, seq, err), err);
	return box_leave(b, code);
}

static cb_code delete_in_write(const cb_box *b, const char *name, cb_error *err)
{
	cb_code code = store_checkpoint_delete(b->cs->s, b->row.id, name, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NOTFOUND, "box '%s' has no checkpoint '%s'", b->row.name, name);
	if (code != CB_OK) return code;
	return audit_did(b->cs, &b->row, &(audit_note){b->who, "checkpoint-delete", name}, err);
}

cb_code cb_checkpoint_delete(cb_box *b, const char *name, cb_error *err)
{
	(void)pthread_mutex_lock(&b->lock);
	cb_code code = box_refuse_txn(b, "a checkpoint", err);
	if (code == CB_OK) code = store_write_begin_as(b->cs->s, STORE_FREES, err);
	if (code == CB_OK) code = end_write(b->cs, false, delete_in_write(b, name, err), err);
	return box_leave(b, code);
}

typedef struct checkpoint_walk {
	cb_checkpoint_visit visit;
	void *context;
} checkpoint_walk;

static cb_code visit_checkpoint(void *context, const store_checkpoint *c, cb_error *err)
{
	const checkpoint_walk *w = context;
	cb_checkpoint out = {.seq = c->seq, .created_ns = c->created_ns};
	memcpy(out.name, c->name, sizeof(out.name));
	return w->visit(w->context, &out, err);
}

cb_code cb_checkpoint_list(cb_box *b, cb_checkpoint_visit visit, void *context, cb_error *err)
{
	checkpoint_walk w = {visit, context};
	return store_checkpoint_list(b->cs->s, b->row.id, visit_checkpoint, &w, err);
}

/* ---- every so many steps ---- */

cb_code box_checkpoint_every(cb_store *cs, uint64_t box, uint64_t *out, cb_error *err)
{
	AUTO_FREE char *text = NULL;
	*out = 0;
	cb_code code = store_setting_get(cs->s, box, EVERY_SETTING, &text, err);
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > 18 || text[digits])
		return cb_err_set(err, CB_CORRUPT, "setting '%s' is no number: run fsck", EVERY_SETTING);
	*out = strtoull(text, NULL, 10);
	return CB_OK;
}

static cb_code every_in_write(cb_box *b, uint64_t steps, cb_error *err)
{
	char text[32];
	store_box row;
	(void)snprintf(text, sizeof(text), "%" PRIu64, steps);
	CB_TRY(store_box_get(b->cs->s, b->row.id, &row, err));
	if (row.deleted) return cb_err_set(err, CB_NOTFOUND, "box '%s' was deleted", row.name);
	CB_TRY(store_setting_set(b->cs->s, row.id, EVERY_SETTING, steps ? text : NULL, err));
	return audit_did(b->cs, &row, &(audit_note){b->who, "checkpoint-every", text}, err);
}

cb_code cb_box_checkpoint_every_set(cb_box *b, uint64_t steps, cb_error *err)
{
	if (steps > UINT32_MAX) return cb_err_set(err, CB_INVALID, "a box has fewer steps than %" PRIu64, steps);
	(void)pthread_mutex_lock(&b->lock);
	cb_code code = box_refuse_txn(b, "a checkpoint", err);
	if (code == CB_OK) code = store_write_begin(b->cs->s, err);
	if (code == CB_OK) code = end_write(b->cs, false, every_in_write(b, steps, err), err);
	return box_leave(b, code);
}

static void auto_name(uint64_t seq, char out[CB_NAME_MAX + 1])
{
	(void)snprintf(out, CB_NAME_MAX + 1, "auto-%" PRIu64, seq);
}

static cb_code collect_auto(void *context, const store_checkpoint *c, cb_error *err)
{
	char name[CB_NAME_MAX + 1];
	auto_name(c->seq, name);
	return strcmp(name, c->name) == 0 ? buf_append(context, &c->seq, sizeof(uint64_t), err) : CB_OK;
}

static cb_code auto_trim(cb_store *cs, uint64_t box, cb_error *err)
{
	AUTO_BUF buf seqs = BUF_INIT(SIZE_MAX);
	CB_TRY(store_checkpoint_list(cs->s, box, collect_auto, &seqs, err));
	const uint64_t *all = (const uint64_t *)(const void *)seqs.bytes;
	size_t count = seqs.size / sizeof(uint64_t);
	for (size_t i = 0; i + LIMIT_AUTO_CHECKPOINTS < count; i++) {
		char name[CB_NAME_MAX + 1];
		auto_name(all[i], name);
		CB_TRY(store_checkpoint_delete(cs->s, box, name, err));
	}
	return CB_OK;
}

/* Asked at every step, so the answer is kept until somebody changes the catalog. */
static cb_code every_known(cb_box *b, cb_error *err)
{
	if (store_fresh(b->cs->s, 0, &b->every_stamp) && b->every_known) return CB_OK;
	b->every_known = false;
	CB_TRY(box_checkpoint_every(b->cs, b->row.id, &b->every, err));
	b->every_known = true;
	return CB_OK;
}

cb_code box_checkpoint_auto(cb_box *b, uint64_t seq, cb_error *err)
{
	CB_TRY(every_known(b, err));
	if (b->every == 0 || seq % b->every != 0) return CB_OK;
	store_checkpoint c = {.box = b->row.id, .seq = seq, .created_ns = clock_now(store_clock(b->cs->s))};
	auto_name(seq, c.name);
	cb_code code = store_checkpoint_put(b->cs->s, &c, err);
	if (code == CB_EXISTS) return CB_OK; /* somebody's own, of another step: it stays */
	return code == CB_OK ? auto_trim(b->cs, b->row.id, err) : code;
}
