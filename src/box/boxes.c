/*
 * boxes.c: the boxes of a store: create, open by address, fork, rename, delete, list, quotas, retention.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/audit.h"
#include "box/gate.h"
#include "box/past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "box/cursor.h"

/* ---- names and addresses ---- */

cb_code box_name_check(const char *name, bool checkpoint, cb_error *err)
{
	const char *what = checkpoint ? "checkpoint" : "box";
	size_t size = name ? strlen(name) : 0;
	if (size < 1 || size > CB_NAME_MAX)
		return cb_err_set(err, CB_INVALID, "a %s name has 1 to %d characters", what, CB_NAME_MAX);
	bool digits = true;
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)name[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool digit = c >= '0' && c <= '9';
		if (!letter && !digit && c != '.' && c != '_' && c != '-')
			return cb_err_set(err, CB_INVALID, "a %s name has letters, digits, '.', '_' and '-' only", what);
		digits = digits && digit;
	}
	if (name[0] == '.' || name[0] == '-') return cb_err_set(err, CB_INVALID, "a %s name does not start with '.' or '-'", what);
	if (checkpoint && digits) return cb_err_set(err, CB_INVALID, "a checkpoint name is not a number: numbers are steps");
	return CB_OK;
}

/* "7", "-1" or a checkpoint's name after the '@'. */
static cb_code address_step(cb_store *cs, const store_box *box, const char *text, uint64_t *out, cb_error *err)
{
	bool back = text[0] == '-';
	const char *digits = back ? text + 1 : text;
	if (*digits && strspn(digits, "0123456789") == strlen(digits)) {
		errno = 0;
		unsigned long long n = strtoull(digits, NULL, 10);
		if (errno || n > INT64_MAX || (back && n > box->head.seq) || (!back && n > box->head.seq))
			return cb_err_set(err, CB_NOTFOUND, "box '%s' has no step %s (the newest is %llu)", box->name, text,
			                  (unsigned long long)box->head.seq);
		*out = back ? box->head.seq - n : n;
		return CB_OK;
	}
	CB_TRY(box_name_check(text, true, err));
	store_checkpoint c;
	cb_code code = store_checkpoint_get(cs->s, box->id, text, &c, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NOTFOUND, "box '%s' has no checkpoint '%s'", box->name, text);
	if (code == CB_OK) *out = c.seq;
	return code;
}

cb_code box_address(cb_store *cs, const char *address, store_box *out_box, uint64_t *out_seq, bool *out_pinned, cb_error *err)
{
	const char *at = address ? strchr(address, '@') : NULL;
	size_t size = at ? (size_t)(at - address) : address ? strlen(address) : 0;
	char name[CB_NAME_MAX + 1];
	if (size == 0 || size > CB_NAME_MAX) return cb_err_set(err, CB_INVALID, "a box name has 1 to %d characters", CB_NAME_MAX);
	memcpy(name, address, size);
	name[size] = 0;
	CB_TRY(box_name_check(name, false, err));
	cb_code code = store_box_find(cs->s, name, out_box, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NOTFOUND, "no box '%s'", name);
	if (code != CB_OK) return code;
	*out_pinned = at != NULL;
	*out_seq = out_box->head.seq;
	return at ? address_step(cs, out_box, at + 1, out_seq, err) : CB_OK;
}

/* ---- boxes ---- */

typedef struct furnishing {
	pmap map;
	uint64_t state;
	int64_t now_ns;
	counters count;
} furnishing;

static cb_code furnish_dir(furnishing *f, uint64_t ino, uint64_t parent, const char *name, uint32_t mode, cb_error *err)
{
	span n = span_str(name);
	key at = key_entry(parent, n), back = key_name(ino, parent, n);
	entry e = {.rec = {.ino = ino, .version = f->state, .type = CB_DIR, .mode = mode, .links = 1}};
	e.rec.mtime_ns = e.rec.ctime_ns = e.rec.atime_ns = f->now_ns;
	tree_value value;
	entry_encode(&e, &value);
	CB_TRY(pmap_put(&f->map, key_span(&at), span_make(value.bytes, value.size), err));
	if (ino == INO_ROOT) return CB_OK;
	f->count.files++;
	return pmap_put(&f->map, key_span(&back), span_str(""), err);
}

/* What every new box holds. Its inodes are the same in all boxes, so boxes that were made apart can still be compared. */
static cb_code furnish(furnishing *f, cb_error *err)
{
	CB_TRY(furnish_dir(f, INO_ROOT, 0, "", 0755, err));
	CB_TRY(furnish_dir(f, INO_WORK, INO_ROOT, "work", 0755, err));
	CB_TRY(furnish_dir(f, INO_HOME, INO_ROOT, "home", 0755, err));
	CB_TRY(furnish_dir(f, INO_AGENT, INO_HOME, "agent", 0755, err));
	CB_TRY(furnish_dir(f, INO_TMP, INO_ROOT, "tmp", 01777, err));
	key k = key_counters();
	tree_value value;
	counters_encode(&f->count, &value);
	return pmap_put(&f->map, key_span(&k), span_make(value.bytes, value.size), err);
}

static cb_code furnished_root(cb_store *cs, uint64_t state_id, int64_t now_ns, uint64_t *out, cb_error *err)
{
	furnishing f = {.state = state_id, .now_ns = now_ns};
	cb_code code = furnish(&f, err);
	if (code == CB_OK) code = tree_apply(&cs->nodes, 0, &f.map, out, err);
	pmap_done(&f.map);
	return code;
}

static cb_code insert_rows(cb_store *cs, const store_box *row, const store_step *step, cb_error *err)
{
	cb_code code = store_box_insert(cs->s, row, err);
	if (code == CB_EXISTS) return cb_err_set(err, CB_EXISTS, "there is a box '%s' already", row->name);
	if (code != CB_OK) return code;
	CB_TRY(store_step_put(cs->s, step, err));
	CB_TRY(past_record(cs, step, err));
	return store_head_set(cs->s, row->id, &row->head, err);
}

cb_code box_insert_at(cb_store *cs, const char *name, uint64_t state_id, uint64_t root, store_box *out, cb_error *err)
{
	*out = (store_box){.created_ns = clock_now(store_clock(cs->s))};
	memcpy(out->name, name, strlen(name) + 1);
	CB_TRY(store_take(cs->s, STORE_NEXT_BOX, 1, &out->id, err));
	store_step step = {.box = out->id, .state = state_id, .kind = "new", .who = "", .has_root = true, .root = root};
	step.started_ns = step.ended_ns = out->created_ns;
	out->head = (store_head){.state = state_id, .root = root, .root_box = out->id};
	return insert_rows(cs, out, &step, err);
}

/* A row, its head and step 0. With an origin it starts there, without a copy; otherwise with a few folders. Inside a write transaction. */
cb_code box_insert(cb_store *cs, const char *name, const state *origin, store_box *out, cb_error *err)
{
	*out = (store_box){.created_ns = clock_now(store_clock(cs->s))};
	memcpy(out->name, name, strlen(name) + 1);
	CB_TRY(store_take(cs->s, STORE_NEXT_BOX, 1, &out->id, err));
	store_step step = {.box = out->id, .kind = "new", .who = box_store_who(cs)};
	step.started_ns = step.ended_ns = out->created_ns;
	if (origin) {
		out->origin_box = origin->box;
		out->origin_seq = origin->seq;
		out->head =
			(store_head){0, origin->id, origin->root, origin->root_box, origin->root_seq, origin->weight + FORK_WEIGHT};
		step.kind = "fork";
		step.state = origin->id;
		step.other_box = origin->box;
		step.other_seq = origin->seq;
	} else {
		CB_TRY(store_take(cs->s, STORE_NEXT_STATE, 1, &step.state, err));
		CB_TRY(furnished_root(cs, step.state, out->created_ns, &step.root, err));
		step.has_root = true;
		out->head = (store_head){.state = step.state, .root = step.root, .root_box = out->id};
	}
	CB_TRY(insert_rows(cs, out, &step, err));
	return origin ? box_base_fork(cs, origin->box, out->id, err) : CB_OK;
}

/* A handle of a box that is being made, from what its making knows. origin NULL: it is no fork. */
static cb_code made_handle(cb_store *cs, const store_box *row, const state *origin, cb_box **out, cb_error *err)
{
	cb_box *b = NULL;
	CB_TRY(box_handle_create(cs, row, &b, err));
	b->head = origin ? state_fork(origin, row->id) : state_furnished(row);
	if (b->head) {
		*out = b;
		return CB_OK;
	}
	box_destroy(b);
	return cb_err_nomem(err);
}

/* Ends the transaction in which a box was made, as `code` says. The handle comes before the commit: a call that fails has made no box. */
static cb_code making_end(cb_store *cs, cb_code code, const store_box *row, const state *origin, cb_box **out, cb_error *err)
{
	cb_box *b = NULL;
	if (code == CB_OK && out) code = made_handle(cs, row, origin, &b, err);
	code = store_write_end(cs->s, code, false, err);
	if (code == CB_OK && b) {
		/* Takes its place in the table of states in use, as opening does; if there is none, the first call tells. */
		if (kept_call(b, NULL) == CB_OK) kept_call_end(b);
		*out = b;
	} else if (b) {
		box_destroy(b);
	}
	return code;
}

cb_code cb_box_create(cb_store *cs, const char *name, cb_box **out, cb_error *err)
{
	NEED(err, "store name", cs, name);
	CB_TRY(box_name_check(name, false, err));
	store_box row;
	CB_TRY(store_write_begin(cs->s, err));
	cb_code code = box_insert(cs, name, NULL, &row, err);
	if (code == CB_OK) code = audit_did(cs, &row, &(audit_note){box_store_who(cs), "create", ""}, err);
	return making_end(cs, code, &row, NULL, out, err);
}

static cb_code open_row(cb_store *cs, const store_box *row, bool pinned, uint64_t seq, cb_box **out, cb_error *err)
{
	cb_box *b = NULL;
	CB_TRY(box_handle_create(cs, row, &b, err));
	b->pinned = pinned;
	cb_code code = box_lock(b, err);
	if (code != CB_OK) {
		box_destroy(b);
		return code;
	}
	code = pinned ? kept_load(&b->kept, cs, row->id, seq, KEPT_OPEN, err) : box_refresh(b, err);
	if (code == CB_OK && pinned) b->head = state_ref(b->kept.s);
	if (box_leave(b, code) == CB_OK) *out = b;
	else cb_box_close(b);
	return code;
}

cb_code cb_box_open(cb_store *cs, const char *address, cb_box **out, cb_error *err)
{
	NEED(err, "store address out", cs, address, out);
	store_box row;
	uint64_t seq = 0, tried = 0;
	bool pinned = false;
	enum { TRIES = 8 }; /* of what was pruned long ago, counted from a head that moves, another is asked for each time */
	for (int tries = 1;; tries++) {
		CB_TRY(box_address(cs, address, &row, &seq, &pinned, err));
		cb_error why;
		cb_code code = open_row(cs, &row, pinned, seq, out, cb_err_aside(&why));
		if (code == CB_OK) return CB_OK;
		/* The head, or so many steps back from it, may be another by now: what it was when it was asked for was pruned since. */
		if (code != CB_STALE || seq == tried || tries == TRIES) {
			(void)cb_err_pass(err, code, &why);
			return cb_err_wrap(err, code, "opening '%s'", address);
		}
		tried = seq;
	}
}

cb_code box_open_step(const cb_box *b, uint64_t seq, cb_box **out, cb_error *err)
{
	store_box row;
	CB_TRY(store_box_get(b->cs->s, b->id, &row, err)); /* the handle's row may name a root that gc has taken since */
	cb_box *made = NULL;
	CB_TRY(open_row(b->cs, &row, true, seq, &made, err));
	cb_code code = cb_box_who_set(made, b->who, err);
	if (code == CB_OK) *out = made;
	else cb_box_close(made);
	return code;
}

static cb_code fork_in_write(cb_store *cs, const char *address, const char *name, store_box *row, state **origin, cb_error *err)
{
	store_box from;
	uint64_t seq = 0;
	bool pinned = false;
	CB_TRY(box_address(cs, address, &from, &seq, &pinned, err));
	CB_TRY(pinned ? state_load(cs, from.id, seq, origin, err) : state_load_head(cs, from.id, &from.head, NULL, origin, err));
	CB_TRY(box_insert(cs, name, *origin, row, err));
	CB_TRY(gate_forked(cs, box_store_who(cs), from.id, row->id, err));
	return audit_did(cs, row, &(audit_note){box_store_who(cs), "fork", address}, err);
}

cb_code cb_box_fork(cb_store *cs, const char *address, const char *name, cb_box **out, cb_error *err)
{
	NEED(err, "store address name", cs, address, name);
	CB_TRY(box_name_check(name, false, err));
	store_box row;
	AUTO_STATE state *origin = NULL;
	CB_TRY(store_write_begin(cs->s, err));
	cb_code code = fork_in_write(cs, address, name, &row, &origin, err);
	return making_end(cs, code, &row, origin, out, err);
}

typedef cb_code (*row_change)(store_box *row, const void *argument, cb_error *err);

/* Reads a box's row, changes it, writes it and the record of it, in one transaction. name NULL: of the handle's box. */
static cb_code change_row(cb_store *cs, store_need need, const cb_box *b, const char *name, row_change change, const void *argument,
                          const audit_note *note, cb_error *err)
{
	CB_TRY(store_write_begin_as(cs->s, need, err));
	store_box row;
	cb_code code = name ? store_box_find(cs->s, name, &row, err) : box_living(b, &row, err);
	if (code == CB_OK && name && box_is_hidden(&row)) code = CB_NOTFOUND;
	if (code == CB_NOTFOUND && name) code = cb_err_set(err, CB_NOTFOUND, "no box '%s'", name);
	if (code == CB_OK) code = change(&row, argument, err);
	if (code == CB_OK) code = store_box_update(cs->s, &row, err);
	if (code == CB_OK && row.deleted) code = box_base_delete(cs, row.id, err);
	if (code == CB_OK) code = box_lost_clear(cs, row.id, err);
	if (code == CB_OK) code = audit_did(cs, &row, note, err);
	return store_write_end(cs->s, code, false, err);
}

static cb_code change_own_row(cb_box *b, row_change change, const void *argument, const char *action, const char *subject,
                              cb_error *err)
{
	CB_TRY(box_lock(b, err));
	audit_note note = {b->who, action, subject};
	cb_code code = box_refuse_txn(b, action, err);
	if (code != CB_OK) return box_leave(b, code);
	return box_leave(b, change_row(b->cs, STORE_GROWS, b, NULL, change, argument, &note, err));
}

static cb_code change_name(store_box *row, const void *argument, cb_error *err)
{
	(void)err;
	const char *name = argument;
	memset(row->name, 0, sizeof(row->name));
	memcpy(row->name, name, strlen(name));
	return CB_OK;
}

cb_code cb_box_rename(cb_store *cs, const char *name, const char *new_name, cb_error *err)
{
	NEED(err, "store name new_name", cs, name, new_name);
	CB_TRY(args_name("name", name, err));
	CB_TRY(box_name_check(new_name, false, err));
	return change_row(cs, STORE_GROWS, NULL, name, change_name, new_name, &(audit_note){box_store_who(cs), "rename", name},
	                  err);
}

typedef struct deleting {
	cb_store *cs;
} deleting;

static cb_code change_deleted(store_box *row, const void *argument, cb_error *err)
{
	const deleting *d = argument;
	CB_TRY(gate_deed_check(d->cs, row->id, box_store_who(d->cs), GATE_DELETE, err));
	row->deleted = true;
	return CB_OK;
}

cb_code cb_box_delete(cb_store *cs, const char *name, cb_error *err)
{
	NEED(err, "store name", cs, name);
	CB_TRY(args_name("name", name, err));
	CB_TRY(change_row(cs, STORE_FREES, NULL, name, change_deleted, &(deleting){cs},
	                  &(audit_note){box_store_who(cs), "delete", ""}, err));
	box_side_files_drop(cs);
	return CB_OK;
}

typedef struct quota {
	uint64_t bytes, files, file_bytes;
} quota;

static cb_code change_quota(store_box *row, const void *argument, cb_error *err)
{
	(void)err;
	const quota *q = argument;
	row->quota_bytes = q->bytes;
	row->quota_files = q->files;
	row->quota_file_bytes = q->file_bytes;
	return CB_OK;
}

cb_code cb_box_quota_set(cb_box *b, uint64_t bytes, uint64_t files, uint64_t file_bytes, cb_error *err)
{
	NEED(err, "box", b);
	quota q = {bytes, files, file_bytes};
	char text[96];
	(void)snprintf(text, sizeof(text), "bytes %" PRIu64 ", files %" PRIu64 ", file-bytes %" PRIu64, bytes, files, file_bytes);
	return change_own_row(b, change_quota, &q, "quota", text, err);
}

typedef struct retention {
	uint64_t steps;
	int64_t ns;
} retention;

static cb_code change_retention(store_box *row, const void *argument, cb_error *err)
{
	(void)err;
	const retention *r = argument;
	row->keep_steps = r->steps;
	row->keep_ns = r->ns;
	return CB_OK;
}

cb_code cb_box_retention_set(cb_box *b, uint64_t keep_steps, int64_t keep_ns, cb_error *err)
{
	NEED(err, "box", b);
	CB_TRY(args_duration("keep_ns", keep_ns, err));
	retention r = {keep_steps, keep_ns};
	char text[64];
	(void)snprintf(text, sizeof(text), "steps %" PRIu64 ", ns %" PRId64, keep_steps, keep_ns);
	return change_own_row(b, change_retention, &r, "retention", text, err);
}

/* ---- information ---- */

/* Files and bytes: as counted, or as far as they are shown. */
static cb_code info_counters(cb_store *cs, const store_box *row, const char *who, const state *head, counters *out, cb_error *err)
{
	tree_view v = state_view(cs, head);
	AUTO_VEIL veil *veiled = NULL;
	if (gate_rules_for(cs, row->id, who)) {
		CB_TRY(veil_create(cs, row->id, who, &veiled, err));
		v = veil_over(veiled, &v);
	}
	return gate_count(&v, out, err);
}

static cb_code info_from_row(cb_store *cs, const store_box *row, const char *who, const state *head, cb_box_info *out,
                             cb_error *err)
{
	*out = CB_WITH(cb_box_info, .id = row->id, .created_ns = row->created_ns, .origin_seq = row->origin_seq);
	memcpy(out->name, row->name, sizeof(out->name));
	out->quota_bytes = row->quota_bytes;
	out->quota_files = row->quota_files;
	out->quota_file_bytes = row->quota_file_bytes;
	out->keep_steps = row->keep_steps;
	out->keep_ns = row->keep_ns;
	CB_TRY(box_checkpoint_every(cs, row->id, &out->checkpoint_every, err));
	CB_TRY(box_lost(cs, row, &out->lost, err));
	out->seq = head->seq;
	out->state = head->id;
	store_box origin;
	if (row->origin_box && store_box_get(cs->s, row->origin_box, &origin, NULL) == CB_OK && !origin.deleted &&
	    !box_is_hidden(&origin))
		memcpy(out->origin, origin.name, sizeof(out->origin));
	CB_TRY(cancel_check(err));
	counters c = {0};
	CB_TRY(info_counters(cs, row, who, head, &c, err));
	out->files = c.files;
	out->bytes = c.bytes;
	return CB_OK;
}

cb_code cb_box_info_get(cb_box *b, cb_box_info *out, cb_error *err)
{
	NEED(err, "box out", b, out);
	store_box row;
	cb_box_info info;
	CB_TRY(SIZED_CHECK(cb_box_info, lost, out, err));
	CB_TRY(box_enter(b, err));
	cb_code code = store_box_get(b->cs->s, b->id, &row, err);
	if (code == CB_OK) code = info_from_row(b->cs, &row, b->who, b->head, &info, err);
	if (code == CB_OK) memcpy(info.name, box_called(b, &row), sizeof(info.name));
	if (code == CB_OK) SIZED_GIVE(out, &info);
	return box_leave(b, code);
}

/* The head of a row, or the one there is now: what was the head may have been pruned since. CB_NOTFOUND: the box is gone. */
static cb_code head_keep(kept_state *h, cb_store *cs, store_box *row, cb_error *err)
{
	for (;;) {
		uint64_t seq = row->head.seq;
		cb_code code = kept_load(h, cs, row->id, seq, KEPT_VISIT, err);
		if (code != CB_STALE && code != CB_NOTFOUND) return code;
		CB_TRY(store_box_get(cs->s, row->id, row, err));
		if (row->deleted) return cb_err_set(err, CB_NOTFOUND, "box '%s' was deleted", row->name);
		if (row->head.seq == seq) return code;
	}
}

static cb_code infos_collect(cb_store *cs, buf *out, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(cs->s, false, store_box_collect, &rows, err));
	const store_box *all = (const store_box *)(const void *)rows.bytes;
	for (size_t i = 0; i < rows.size / sizeof(store_box); i++) {
		AUTO_KEPT kept_state head = {0};
		store_box row = all[i];
		cb_box_info info;
		if (box_is_hidden(&row)) continue;
		cb_error why;
		cb_code code = head_keep(&head, cs, &row, cb_err_aside(&why));
		if (code == CB_NOTFOUND) continue; /* deleted meanwhile */
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		CB_TRY(info_from_row(cs, &row, box_store_who(cs), head.s, &info, err));
		CB_TRY(buf_append(out, &info, sizeof(info), err));
	}
	return CB_OK;
}

cb_code cb_box_list_open(cb_store *cs, cb_cursor **out, cb_error *err)
{
	list_cursor *l = NULL;
	NEED(err, "store out", cs, out);
	CB_TRY(list_cursor_create(CURSOR_BOXES, sizeof(cb_box_info), NULL, cs, NULL, &l, err));
	cb_code code = infos_collect(cs, &l->items, err);
	if (code == CB_OK) *out = &l->c;
	else cb_cursor_close(&l->c);
	return code;
}

cb_code cb_box_list(cb_store *cs, cb_box_visit visit, void *context, cb_error *err)
{
	NEED(err, "store visit", cs, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_box_list_open(cs, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}
