/*
 * draft.c: a box that is filled before anybody sees it.
 *
 * Until it is published its name, "#new-" and the number of its owner, is none that anybody can ask for. The owner lives as long as the
 * handle: what a killed process leaves is a draft without a living owner, and the next gc takes it.
 */
#include "base/args.h"
#include "box/audit.h"
#include "box/internal.h"

#include <cowbox/cowbox.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char draft_prefix[] = "#new-";

const char *box_called(const cb_box *b, const store_box *row)
{
	return *b->draft_name && box_is_hidden(row) ? b->draft_name : row->name;
}

static cb_code name_taken(const char *name, cb_error *err)
{
	return cb_err_set(err, CB_EXISTS, "there is a box '%s' already", name);
}

static cb_code insert_in_write(cb_store *cs, const char *name, uint64_t owner, store_box *out, cb_error *err)
{
	char hidden[CB_NAME_MAX + 1];
	cb_error why;
	cb_code code = store_box_find(cs->s, name, out, cb_err_aside(&why));
	if (code == CB_OK) return name_taken(name, err);
	if (code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	(void)snprintf(hidden, sizeof(hidden), "%s%" PRIu64, draft_prefix, owner);
	return box_insert(cs, hidden, NULL, out, err);
}

static cb_code draft_insert(cb_store *cs, const char *name, uint64_t owner, store_box *out, cb_error *err)
{
	CB_TRY(store_write_begin(cs->s, err));
	return store_write_end(cs->s, insert_in_write(cs, name, owner, out, err), false, err);
}

static cb_code draft_delete(cb_store *cs, store_box *row, cb_error *err)
{
	row->deleted = true;
	CB_TRY(store_box_update(cs->s, row, err));
	return box_base_delete(cs, row->id, err);
}

cb_code cb_box_draft(cb_store *cs, const char *name, cb_box **out, cb_error *err)
{
	NEED(err, "store name out", cs, name, out);
	store_box row = {0};
	uint64_t owner = 0;
	cb_box *b = NULL;
	CB_TRY(box_name_check(name, false, err));
	CB_TRY(store_owner_begin(cs->s, &owner, err));
	cb_code code = draft_insert(cs, name, owner, &row, err);
	if (code == CB_OK) code = box_handle_create(cs, &row, &b, err);
	if (code != CB_OK) {
		store_owner_end(cs->s, owner);
		return code;
	}
	b->draft_owner = owner;
	b->draft_era = entry_era();
	memcpy(b->draft_name, name, strlen(name) + 1);
	code = box_refresh(b, err);
	if (code == CB_OK) *out = b;
	else cb_box_close(b);
	return code;
}

static cb_code draft_publish(cb_box *b, cb_error *err)
{
	store_box row, other;
	CB_TRY(store_box_get(b->cs->s, b->id, &row, err));
	cb_error why;
	cb_code code = store_box_find(b->cs->s, b->draft_name, &other, cb_err_aside(&why));
	if (code == CB_OK) return name_taken(b->draft_name, err);
	if (code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	memset(row.name, 0, sizeof(row.name));
	memcpy(row.name, b->draft_name, strlen(b->draft_name));
	CB_TRY(store_box_update(b->cs->s, &row, err));
	return audit_did(b->cs, &row, &(audit_note){b->who, "create", ""}, err);
}

static void draft_published(cb_box *b)
{
	store_owner_end(b->cs->s, b->draft_owner);
	b->draft_owner = 0;
	memcpy(b->row.name, b->draft_name, sizeof(b->row.name));
}

void box_draft_drop(cb_box *b)
{
	store_box row;
	store *s = b->cs->s;
	/* A forked child closes its copy of the handle; the draft is the parent's. */
	if (!b->draft_owner || b->draft_era != entry_era()) return;
	if (store_write_begin_as(s, STORE_FREES, NULL) == CB_OK) {
		cb_code code = store_box_get(s, b->id, &row, NULL);
		if (code == CB_OK) code = draft_delete(b->cs, &row, NULL);
		(void)store_write_end(b->cs->s, code, false, NULL);
	}
	store_owner_end(s, b->draft_owner);
	b->draft_owner = 0;
}

static bool is_draft(const store_box *row, uint64_t *out_owner)
{
	if (strncmp(row->name, draft_prefix, strlen(draft_prefix)) != 0) return false;
	*out_owner = strtoull(row->name + strlen(draft_prefix), NULL, 10);
	return true;
}

cb_code box_draft_reap(cb_store *cs, const store_box *listed, cb_error *err)
{
	uint64_t owner = 0;
	store_box row;
	if (!is_draft(listed, &owner) || store_owner_is_living(cs->s, owner)) return CB_OK;
	CB_TRY(store_write_begin_as(cs->s, STORE_FREES, err));
	/* Read again: it may have been published since it was listed. */
	cb_error why;
	cb_code code = store_box_get(cs->s, listed->id, &row, cb_err_aside(&why));
	if (code == CB_NOTFOUND) code = CB_OK;
	else if (code != CB_OK) (void)cb_err_pass(err, code, &why);
	else if (!row.deleted && is_draft(&row, &owner)) code = draft_delete(cs, &row, err);
	return store_write_end(cs->s, code, false, err);
}

/* ---- public ---- */

static cb_code publish_in_write(cb_box *b, cb_error *err)
{
	CB_TRY(draft_publish(b, err));
	return box_folder_publish(b, err);
}

static cb_code publish_locked(cb_box *b, cb_error *err)
{
	if (!b->draft_owner) return cb_err_set(err, CB_INVALID, "box '%s' is no draft", b->row.name);
	CB_TRY(box_refuse_txn(b, "publishing", err));
	CB_TRY(box_write_begin(b, STORE_GROWS, err));
	CB_TRY(store_write_end(b->cs->s, publish_in_write(b, err), false, err));
	draft_published(b);
	return CB_OK;
}

cb_code cb_box_publish(cb_box *b, cb_error *err)
{
	NEED(err, "box", b);
	CB_TRY(box_enter(b, err));
	cb_code code = box_flush(b, false, err);
	return box_leave(b, code == CB_OK ? publish_locked(b, err) : code);
}
