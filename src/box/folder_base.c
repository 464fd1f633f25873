/*
 * folder_base.c: the hidden companion of a box: what its host folder holds, as far as the box knows.
 *
 * It is a box like any other, so that it can be filled, compared and checked with the same code, but its name, "#base-" and the number
 * of its box, is none that anybody can ask for. It lives and dies with its box, and a fork has one of its own from the start, for the fork
 * may be applied to the same folder. It stands on a root of its own and not on its origin's steps: nobody's history is kept for its sake.
 */
#include "box/gate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER_SETTINGS "cowbox.folder"

static const char base_prefix[] = "#base-";

bool box_is_hidden(const store_box *row)
{
	return row->name[0] == '#';
}

bool box_is_base(const store_box *row)
{
	return strncmp(row->name, base_prefix, strlen(base_prefix)) == 0;
}

uint64_t box_governed(const store_box *row)
{
	return box_is_base(row) ? strtoull(row->name + strlen(base_prefix), NULL, 10) : row->id;
}

static void base_name(uint64_t box, char out[CB_NAME_MAX + 1])
{
	(void)snprintf(out, CB_NAME_MAX + 1, "%s%" PRIu64, base_prefix, box);
}

cb_code box_base_find(cb_store *cs, uint64_t box, store_box *out, cb_error *err)
{
	char name[CB_NAME_MAX + 1];
	base_name(box, name);
	return store_box_find(cs->s, name, out, err);
}

/* A state's overlay with all that is hidden from who uses b taken away. */
static cb_code overlay_seen(const cb_box *b, const state *from, pmap *out, cb_error *err)
{
	AUTO_VEIL veil *veiled = NULL;
	AUTO_CURSOR tree_cursor *c = NULL;
	span k, value;
	counters seen;
	tree_value room;
	tree_view raw = state_view(b->cs, from), shown;
	CB_TRY(gate_view(b, &raw, &veiled, &shown, err));
	CB_TRY(tree_cursor_open_below(&raw, (span){0}, &c, err));
	while (tree_cursor_get(c, &k, &value)) {
		cb_code code = tree_get(&shown, k, &room, err);
		if (code == CB_NOTFOUND) code = pmap_put_tombstone(out, k, err);
		if (code != CB_OK) return code;
		CB_TRY(tree_cursor_next(c, err));
	}
	key counts = key_counters();
	CB_TRY(gate_count(&shown, &seen, err));
	counters_encode(&seen, &room);
	return pmap_put(out, key_span(&counts), span_make(room.bytes, room.size), err);
}

static cb_code base_insert_at(cb_store *cs, uint64_t box, uint64_t state_id, uint64_t root, cb_error *err)
{
	char name[CB_NAME_MAX + 1];
	store_box row;
	base_name(box, name);
	CB_TRY(box_insert_at(cs, name, state_id, root, &row, err));
	row.keep_steps = 1;
	return store_box_update(cs->s, &row, err);
}

/* Inside a write transaction. from NULL: empty, but for what every new box holds. */
static cb_code base_insert(cb_store *cs, uint64_t box, const state *from, cb_error *err)
{
	char name[CB_NAME_MAX + 1];
	uint64_t root = 0;
	store_box row;
	if (from) {
		CB_TRY(tree_apply(&cs->nodes, from->root, &from->overlay, &root, err));
		return base_insert_at(cs, box, from->id, root, err);
	}
	base_name(box, name);
	CB_TRY(box_insert(cs, name, NULL, &row, err));
	row.keep_steps = 1;
	return store_box_update(cs->s, &row, err);
}

cb_code box_base_insert_seen(const cb_box *b, const state *from, cb_error *err)
{
	if (!gate_has_rules(b->cs, b)) return base_insert(b->cs, b->id, from, err);
	state seen = *from; /* only what base_insert looks at: the map and its number */
	seen.overlay = pmap_ref(&from->overlay);
	cb_code code = overlay_seen(b, from, &seen.overlay, err);
	if (code == CB_OK) code = base_insert(b->cs, b->id, &seen, err);
	pmap_done(&seen.overlay);
	return code;
}

/* The settings that say which folder is meant. */
typedef struct folder_settings {
	buf pairs; /* name, value, each with its NUL */
} folder_settings;

static cb_code collect_setting(void *context, const char *name, const char *value, cb_error *err)
{
	folder_settings *f = context;
	if (strncmp(name, FOLDER_SETTINGS, strlen(FOLDER_SETTINGS)) != 0) return CB_OK;
	CB_TRY(buf_append(&f->pairs, name, strlen(name) + 1, err));
	return buf_append(&f->pairs, value, strlen(value) + 1, err);
}

static cb_code copy_settings(cb_store *cs, uint64_t from, uint64_t to, cb_error *err)
{
	folder_settings f = {BUF_INIT(SIZE_MAX)};
	cb_code code = store_setting_list(cs->s, from, collect_setting, &f, err);
	const char *at = (const char *)f.pairs.bytes, *end = at + f.pairs.size;
	while (code == CB_OK && at && at < end) {
		const char *value = at + strlen(at) + 1;
		code = store_setting_set(cs->s, to, at, value, err);
		at = value + strlen(value) + 1;
	}
	buf_done(&f.pairs);
	return code;
}

cb_code box_base_fork(cb_store *cs, uint64_t from_box, uint64_t to_box, cb_error *err)
{
	store_box from;
	CB_TRY(copy_settings(cs, from_box, to_box, err));
	cb_error why;
	cb_code code = box_base_find(cs, from_box, &from, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	AUTO_STATE state *head = NULL;
	CB_TRY(state_load_head(cs, from.id, &from.head, NULL, &head, err));
	return base_insert(cs, to_box, head, err);
}

cb_code box_base_delete(cb_store *cs, uint64_t box, cb_error *err)
{
	store_box row;
	cb_error why;
	cb_code code = box_base_find(cs, box, &row, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	row.deleted = true;
	return store_box_update(cs->s, &row, err);
}

static cb_code base_create(cb_box *b, bool at_head, cb_error *err)
{
	store *s = b->cs->s;
	CB_TRY(box_write_begin(b, STORE_GROWS, err));
	cb_code code = box_refresh(b, err);
	if (code == CB_OK) code = at_head ? box_base_insert_seen(b, b->head, err) : base_insert(b->cs, b->id, NULL, err);
	return store_write_end(s, code, false, err);
}

static cb_code base_handle(const cb_box *b, const store_box *row, cb_box **out, cb_error *err)
{
	cb_box *base = NULL;
	CB_TRY(box_handle_create(b->cs, row, &base, err));
	(void)snprintf(base->base_of, sizeof(base->base_of), "%s", box_called(b, &b->row));
	cb_code code = box_refresh(base, err);
	if (code != CB_OK) {
		cb_box_close(base);
		return code;
	}
	*out = base;
	return CB_OK;
}

static cb_code base_drop(cb_box *b, cb_error *err)
{
	store *s = b->cs->s;
	CB_TRY(box_write_begin(b, STORE_GROWS, err));
	return store_write_end(s, box_base_delete(b->cs, b->id, err), false, err);
}

static cb_code base_open_locked(cb_box *b, box_base_how how, cb_box **out, cb_error *err)
{
	store_box row;
	cb_error why;
	cb_code code = box_base_find(b->cs, b->id, &row, cb_err_aside(&why));
	if (code == CB_NOTFOUND && how == BOX_BASE_EXISTING)
		return cb_err_set(err, CB_NOTFOUND, "box '%s' has no folder", box_called(b, &b->row));
	if (how == BOX_BASE_ANEW && code == CB_OK) {
		CB_TRY(base_drop(b, err));
		code = CB_NOTFOUND;
	}
	if (code == CB_NOTFOUND) {
		if (how == BOX_BASE_AT_HEAD) CB_TRY(box_flush(b, false, err));
		code = base_create(b, how == BOX_BASE_AT_HEAD, cb_err_aside(&why));
		if (code == CB_OK || code == CB_EXISTS) /* exists: another made it */
			code = box_base_find(b->cs, b->id, &row, cb_err_aside(&why));
	}
	return code == CB_OK ? base_handle(b, &row, out, err) : cb_err_pass(err, code, &why);
}

cb_code box_base_open(cb_box *b, box_base_how how, cb_box **out, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	cb_code code = base_open_locked(b, how, out, err);
	if (code == CB_OK) code = cb_box_who_set(*out, b->who, err);
	return box_leave(b, code);
}

static cb_code base_replace(cb_box *b, cb_error *err)
{
	CB_TRY(box_base_delete(b->cs, b->id, err));
	return base_insert(b->cs, b->id, b->head, err);
}

cb_code box_base_reset(cb_box *b, cb_error *err)
{
	store *s = b->cs->s;
	CB_TRY(box_enter(b, err));
	cb_code code = box_write_begin(b, STORE_GROWS, err);
	if (code != CB_OK) return box_leave(b, code);
	code = base_replace(b, err);
	return box_leave(b, store_write_end(s, code, false, err));
}
