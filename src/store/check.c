/* check.c: fsck of the store's own things, and figures. */
#include "store/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/hash.h"

typedef unsigned long long ull;

typedef struct inspection {
	store *s;
	store_complain complain;
	void *context;
	bool is_node;
	uint64_t last_id, seen;
	uint8_t *room; /* one content */
} inspection;

static void inspect_segment(inspection *n, const engine_row *row)
{
	char line[160];
	cb_error err;
	cb_code code = segment_read(n->s->segments, row->segment, row->offset, n->room, row->size, &err);
	if (code != CB_OK) {
		(void)snprintf(line, sizeof line, "content %llu: %.120s", (ull)row->id, err.message);
	} else if (store_sum(row->id, n->room, row->size) != row->sum) {
		(void)snprintf(line, sizeof line, "content %llu: wrong sum (segment %06llu, offset %llu)", (ull)row->id,
		               (ull)row->segment, (ull)row->offset);
	} else {
		return;
	}
	n->complain(n->context, line);
}

static cb_code inspect_row(void *context, const engine_row *row, cb_error *err)
{
	(void)err;
	inspection *n = context;
	n->last_id = row->id;
	n->seen++;
	if (row->segment != 0 && n->s->segments) {
		inspect_segment(n, row);
	} else if (row->segment != 0 || store_sum(row->id, row->data.bytes, row->data.size) != row->sum) {
		char line[64];
		(void)snprintf(line, sizeof line, "%s %llu: wrong sum", n->is_node ? "node" : "content", (ull)row->id);
		n->complain(n->context, line);
	}
	return CB_OK;
}

static cb_code note_id(void *context, const engine_row *row, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = row->id;
	return CB_OK;
}

/* Past a row whose columns make no sense. False: there is no way past it. */
static bool skip_damaged(inspection *n)
{
	engine *e = n->s->engine;
	uint64_t next = n->last_id;
	if (e->ops->row_walk(e, n->is_node, n->last_id, 1, false, note_id, &next, NULL) != CB_OK || next <= n->last_id)
		return false;
	n->last_id = next;
	return true;
}

static cb_code inspect_table(inspection *n, bool is_node, cb_error *err)
{
	n->is_node = is_node;
	n->last_id = 0;
	for (;;) {
		STORE_ENTER(n->s, err);
		engine *e = n->s->engine;
		cb_error why;
		n->seen = 0;
		cb_code code = e->ops->row_walk(e, is_node, n->last_id, ENGINE_BATCH_ROWS, true, inspect_row, n, &why);
		if (code == CB_CORRUPT || code == CB_INTERNAL) {
			char line[CB_ERROR_MESSAGE_MAX + 32];
			(void)snprintf(line, sizeof line, "after %s %llu: %s", is_node ? "node" : "content", (ull)n->last_id,
			               why.message);
			n->complain(n->context, line);
			if (!skip_damaged(n)) return CB_OK;
			continue;
		}
		if (code != CB_OK) {
			if (err) *err = why;
			return code;
		}
		if (n->seen < ENGINE_BATCH_ROWS) return CB_OK;
	}
}

/* ---- the catalog: whoever lists rows looks at their sums ---- */

static cb_code step_seen(void *context, const store_step *step, cb_error *err)
{
	(void)context;
	(void)step;
	return cancel_check(err);
}

static cb_code touch_seen(void *context, uint64_t first, uint64_t last, span subjects, cb_error *err)
{
	(void)context;
	(void)first;
	(void)last;
	(void)subjects;
	return cancel_check(err);
}

static cb_code checkpoint_seen(void *context, const store_checkpoint *c, cb_error *err)
{
	(void)context;
	(void)c;
	return cancel_check(err);
}

static cb_code setting_seen(void *context, const char *key, const char *value, cb_error *err)
{
	(void)context;
	(void)key;
	(void)value;
	return cancel_check(err);
}

/* Damage is a complaint, everything else ends the check. */
static cb_code inspected(const inspection *n, const char *what, uint64_t box, cb_code code, const cb_error *why, cb_error *err)
{
	char line[CB_ERROR_MESSAGE_MAX + 64];
	if (code == CB_OK) return CB_OK;
	if (code != CB_CORRUPT && code != CB_INTERNAL) return cb_err_pass(err, code, why);
	(void)snprintf(line, sizeof line, "%s of box %llu: %s", what, (ull)box, why->message);
	n->complain(n->context, line);
	return CB_OK;
}

static cb_code inspect_box(const inspection *n, uint64_t box, cb_error *err)
{
	cb_error why = {0};
	cb_code code = store_step_walk(n->s, box, 0, INT64_MAX, true, step_seen, NULL, &why);
	CB_TRY(inspected(n, "steps", box, code, &why, err));
	code = store_touch_walk(n->s, box, INT64_MAX, touch_seen, NULL, &why);
	CB_TRY(inspected(n, "touched files", box, code, &why, err));
	code = store_checkpoint_list(n->s, box, checkpoint_seen, NULL, &why);
	CB_TRY(inspected(n, "checkpoints", box, code, &why, err));
	code = store_setting_list(n->s, box, setting_seen, NULL, &why);
	return inspected(n, "settings", box, code, &why, err);
}

static cb_code note_box(void *context, const store_box *box, cb_error *err)
{
	return buf_append(context, &box->id, sizeof box->id, err);
}

static cb_code inspect_catalog(const inspection *n, cb_error *err)
{
	AUTO_BUF buf boxes = BUF_INIT(SIZE_MAX / 2);
	cb_error why = {0};
	uint64_t whole_store = 0;
	CB_TRY(buf_append(&boxes, &whole_store, sizeof whole_store, err)); /* has settings */
	cb_code code = store_box_list(n->s, true, note_box, &boxes, &why);
	if (code == CB_CORRUPT) n->complain(n->context, why.message);
	else if (code != CB_OK) return cb_err_pass(err, code, &why);
	for (size_t at = 0; at < boxes.size; at += sizeof(uint64_t)) {
		uint64_t box;
		memcpy(&box, boxes.bytes + at, sizeof box);
		CB_TRY(inspect_box(n, box, err));
	}
	return CB_OK;
}

cb_code store_check(store *s, store_complain complain, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	AUTO_FREE uint8_t *room = mem_alloc_aligned(LIMIT_CONTENT_BYTES);
	if (!room) return cb_err_nomem(err);
	inspection n = {.s = s, .complain = complain, .context = context, .room = room};
	CB_TRY(s->engine->ops->check(s->engine, complain, context, err));
	CB_TRY(inspect_table(&n, true, err));
	CB_TRY(inspect_table(&n, false, err));
	return inspect_catalog(&n, err);
}

static cb_code count_file(void *context, uint64_t segment, uint64_t bytes, cb_error *err)
{
	(void)segment;
	(void)err;
	store_stats *st = context;
	st->segments++;
	st->segment_bytes += bytes;
	return CB_OK;
}

cb_code store_stats_get(store *s, store_stats *out, cb_error *err)
{
	STORE_ENTER(s, err);
	store_stats st = {0};
	CB_TRY(s->engine->ops->stats(s->engine, &st, err));
	if (s->segments) CB_TRY(segment_files(s->segments, count_file, &st, err));
	cache_stats(s->cache, &st.cache_bytes, &st.cache_hits, &st.cache_misses);
	*out = st;
	return CB_OK;
}
