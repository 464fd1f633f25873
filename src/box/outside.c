/* outside.c: what other layers may know of handles, stores and history: see box.h. */
#include "box/box.h"
#include "box/diff.h"
#include "box/history.h"
#include "box/internal.h"

/* ---- handles ---- */

box_facts box_about(const cb_box *b)
{
	return (box_facts){.store = b->cs, .id = b->id, .is_old = b->pinned, .is_txn = b->is_txn};
}

cb_code box_name_get(cb_box *b, char out[CB_NAME_MAX + 1], cb_error *err)
{
	CB_TRY(box_lock(b, err));
	memcpy(out, box_called(b, &b->row), CB_NAME_MAX + 1);
	return box_leave(b, CB_OK);
}

cb_code box_who_take(cb_box *b, char **out, cb_error *err)
{
	CB_TRY(box_lock(b, err));
	*out = mem_strdup(b->who);
	return box_leave(b, *out ? CB_OK : cb_err_nomem(err));
}

cb_code box_place_of(cb_box *b, box_place *out, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	*out = (box_place){b->head->box, b->head->seq, b->head->id};
	return box_leave(b, CB_OK);
}

cb_code box_hold(cb_box *b, cb_error *err)
{
	return entry_lock_take(&b->lock, "for another thread's call on this handle", err);
}

void box_release(cb_box *b)
{
	entry_lock_give(&b->lock);
}

cb_code box_open_id(cb_store *cs, uint64_t id, cb_box **out, cb_error *err)
{
	store_box row;
	CB_TRY(store_box_get(cs->s, id, &row, err));
	if (row.deleted) return cb_err_set(err, CB_NOTFOUND, "box '%s' was deleted", row.name);
	return box_handle_create(cs, &row, out, err);
}

cb_code box_lives(cb_store *cs, uint64_t id, bool *out, cb_error *err)
{
	store_box row;
	cb_error why;
	cb_code code = store_box_get(cs->s, id, &row, cb_err_aside(&why));
	if (code != CB_OK && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	*out = code == CB_OK && !row.deleted;
	return CB_OK;
}

cb_code box_txn_changes(cb_box *b, cb_change_visit visit, void *context, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	return box_leave(b, diff_txn(b->txn, visit, context, err));
}

/* ---- history ---- */

cb_code box_origin(cb_store *cs, uint64_t box, box_place *out, cb_error *err)
{
	store_box row;
	cb_error why;
	*out = (box_place){0};
	cb_code code = store_box_get(cs->s, box, &row, cb_err_aside(&why));
	if (code == CB_NOTFOUND || (code == CB_OK && !row.origin_box)) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	box_place at = {row.origin_box, row.origin_seq, 0};
	code = step_exists(cs, at.box, at.seq, &at.state, cb_err_aside(&why));
	if (code == CB_NOTFOUND || code == CB_STALE) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	*out = at;
	return CB_OK;
}

enum { PAGE = 32 };

static cb_code page_says(cb_store *cs, uint64_t box, uint64_t *from, uint64_t down_to, const char *text, bool *found, cb_error *err)
{
	step_row rows[PAGE];
	size_t count = 0;
	CB_TRY(step_page_load(cs, box, *from, rows, PAGE, &count, err));
	*from = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t seq = rows[i].row.seq;
		if (seq > down_to && rows[i].result && strstr(rows[i].result, text)) *found = true;
		*from = seq > down_to + 1 ? seq - 1 : 0;
		step_row_done(&rows[i]);
	}
	return CB_OK;
}

static cb_code box_says(cb_store *cs, uint64_t box, uint64_t down_to, const char *text, bool *found, cb_error *err)
{
	store_head head;
	CB_TRY(store_head_get(cs->s, box, &head, err));
	for (uint64_t from = head.seq; from > down_to && !*found;) CB_TRY(page_says(cs, box, &from, down_to, text, found, err));
	return CB_OK;
}

typedef struct fork_list {
	uint64_t seq;
	buf boxes; /* uint64_t */
} fork_list;

static cb_code fork_add(void *context, const store_box *row, cb_error *err)
{
	fork_list *l = context;
	return row->origin_seq == l->seq ? buf_append(&l->boxes, &row->id, sizeof(row->id), err) : CB_OK;
}

cb_code box_was_recorded(cb_store *cs, const box_place *after, const char *text, bool *out, cb_error *err)
{
	*out = false;
	CB_TRY(box_says(cs, after->box, after->seq, text, out, err));
	fork_list forks = {after->seq, BUF_INIT(SIZE_MAX)};
	cb_code code = store_box_forks(cs->s, after->box, fork_add, &forks, err);
	const uint64_t *all = (const uint64_t *)(const void *)forks.boxes.bytes;
	for (size_t i = 0; code == CB_OK && !*out && i < forks.boxes.size / sizeof(*all); i++)
		code = box_says(cs, all[i], 0, text, out, err);
	buf_done(&forks.boxes);
	return code;
}

/* ---- the store ---- */

int box_store_folder(const cb_store *cs)
{
	return store_folder(cs->s);
}

cb_code box_store_writable(const cb_store *cs, cb_error *err)
{
	return store_is_read_only(cs->s) ? store_refuse_write(cs->s, err) : CB_OK;
}

int64_t box_store_now(const cb_store *cs)
{
	return clock_now(store_clock(cs->s));
}
