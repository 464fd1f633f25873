/*
 * lost.c: boxes that were made to keep a transaction that lost against others (commit.c).
 *
 * Nobody asked for such a box by name, and a busy program may make thousands, so it is marked, listed apart, and removed by gc when it is
 * old. The mark is a setting of the box with the step it ended at: a box that has moved on since was taken up by somebody and is as any
 * other, and so is one that was renamed, forked or given a checkpoint.
 */
#include "box/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LOST_SETTING "cowbox.lost"
#define LOST_DAYS_SETTING "lost-days"

enum { LOST_DAYS = 30 };

cb_code box_lost_mark(cb_store *cs, uint64_t box, uint64_t seq, cb_error *err)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%" PRIu64, seq);
	return store_setting_set(cs->s, box, LOST_SETTING, text, err);
}

cb_code box_lost_clear(cb_store *cs, uint64_t box, cb_error *err)
{
	return store_setting_set(cs->s, box, LOST_SETTING, NULL, err);
}

static cb_code found_one(void *context, const store_box *fork, cb_error *err)
{
	(void)fork;
	(void)err;
	*(bool *)context = true;
	return CB_INTERRUPTED;
}

static cb_code found_checkpoint(void *context, const store_checkpoint *c, cb_error *err)
{
	(void)c;
	(void)err;
	*(bool *)context = true;
	return CB_INTERRUPTED;
}

cb_code box_lost(cb_store *cs, const store_box *row, bool *out, cb_error *err)
{
	AUTO_FREE char *text = NULL;
	cb_error missing = {0};
	*out = false;
	cb_code code = store_setting_get(cs->s, row->id, LOST_SETTING, &text, &missing);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &missing);
	bool wanted = strtoull(text, NULL, 10) != row->head.seq;
	if (!wanted) CB_TRY(store_box_forks(cs->s, row->id, found_one, &wanted, err));
	if (!wanted) CB_TRY(store_checkpoint_list(cs->s, row->id, found_checkpoint, &wanted, err));
	*out = !wanted;
	return CB_OK;
}

/* How old a kept box may get; INT64_MAX: it is never removed. */
static cb_code age_limit(cb_store *cs, int64_t *out_ns, cb_error *err)
{
	static const int64_t day_ns = (int64_t)86400 * 1000000000;
	AUTO_FREE char *text = NULL;
	cb_error missing = {0};
	*out_ns = LOST_DAYS * day_ns;
	cb_code code = store_setting_get(cs->s, 0, LOST_DAYS_SETTING, &text, &missing);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) {
		if (err) *err = missing;
		return code;
	}
	size_t digits = strspn(text, "0123456789");
	/* What is not a number of days ("never") keeps: a slip of the pen must not remove anything. */
	if (digits == 0 || digits > 5 || text[digits]) *out_ns = INT64_MAX;
	else *out_ns = (int64_t)strtoull(text, NULL, 10) * day_ns;
	return CB_OK;
}

/* Inside a write transaction: looked at again, for somebody may have written to it since it was listed. */
static cb_code reap_one(cb_store *cs, uint64_t box, cb_error *err)
{
	store_box row;
	bool lost = false;
	CB_TRY(store_box_get(cs->s, box, &row, err));
	CB_TRY(box_lost(cs, &row, &lost, err));
	if (!lost || row.deleted) return CB_OK;
	row.deleted = true;
	CB_TRY(store_box_update(cs->s, &row, err));
	CB_TRY(box_base_delete(cs, box, err));
	return audit_did(cs, &row, &(audit_note){box_store_who(cs), "delete", "kept for long enough"}, err);
}

typedef struct old_boxes {
	cb_store *cs;
	int64_t before_ns;
	buf ids; /* uint64_t */
} old_boxes;

static cb_code collect_old(void *context, const store_box *row, cb_error *err)
{
	old_boxes *o = context;
	if (row->created_ns >= o->before_ns) return CB_OK;
	return buf_append(&o->ids, &row->id, sizeof(row->id), err);
}

cb_code box_lost_reap(cb_store *cs, cb_error *err)
{
	int64_t limit_ns = 0;
	CB_TRY(age_limit(cs, &limit_ns, err));
	if (limit_ns == INT64_MAX) return CB_OK;
	old_boxes o = {cs, clock_now(store_clock(cs->s)) - limit_ns, BUF_INIT(SIZE_MAX)};
	cb_code code = store_box_list(cs->s, false, collect_old, &o, err);
	const uint64_t *ids = (const uint64_t *)(const void *)o.ids.bytes;
	for (size_t i = 0; code == CB_OK && i < o.ids.size / sizeof(*ids); i++) {
		store_box row;
		bool lost = false;
		code = store_box_get(cs->s, ids[i], &row, err);
		if (code == CB_OK) code = box_lost(cs, &row, &lost, err);
		if (code != CB_OK || !lost) continue;
		code = store_write_begin_as(cs->s, STORE_FREES, err);
		if (code != CB_OK) break;
		code = reap_one(cs, ids[i], err);
		code = store_write_end(cs->s, code, false, err);
	}
	buf_done(&o.ids);
	return code;
}
