/* sqlite_steps.c: steps and the rows that say which step touched which file, in SQLite. */
#include "store/sqlite.h"

static uint64_t span_sum(span s)
{
	return hash64(s.bytes, s.size);
}

/* Of everything but the root, which may change, and the gap, which the neighbours tell. */
static uint64_t step_sum(const store_step *s, uint64_t epoch, uint64_t changes_sum)
{
	uint64_t values[] = {s->box,
	                     s->seq,
	                     s->state,
	                     epoch,
	                     s->weight,
	                     sql_sum_text(s->kind),
	                     sql_sum_text(s->who),
	                     s->params_content,
	                     s->result_content,
	                     (uint64_t)s->started_ns,
	                     (uint64_t)s->ended_ns,
	                     s->target,
	                     s->other_box,
	                     s->other_seq,
	                     span_sum(s->params),
	                     span_sum(s->result),
	                     s->has_changes,
	                     changes_sum};
	return sql_sum(values, ARRAY_LEN(values));
}

static uint64_t root_sum(uint64_t box, uint64_t seq, bool has_root, uint64_t root)
{
	uint64_t values[] = {box, seq, has_root, has_root ? root : 0};
	return sql_sum(values, ARRAY_LEN(values));
}

static cb_code step_damaged(const store_step *s, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "step %llu of box number %llu is damaged: see `cowbox fsck`", (unsigned long long)s->seq,
	                  (unsigned long long)s->box);
}

static cb_code step_read(const sql_use *u, bool with_changes, store_step *out, cb_error *err)
{
	bool bad = false;
	*out = (store_step){
		.box = sql_u64(u, 0, &bad),
		.seq = sql_u64(u, 1, &bad),
		.state = sql_u64(u, 2, &bad),
		.epoch = sql_u64(u, 3, &bad),
		.has_root = sqlite3_column_type(u->stmt, 4) != SQLITE_NULL,
		.gap = sql_u64(u, 5, &bad) != 0,
		.weight = sql_u64(u, 6, &bad),
		.kind = sql_text(u, 7, &bad),
		.who = sql_text(u, 8, &bad),
		.params_content = sql_u64(u, 9, &bad),
		.result_content = sql_u64(u, 10, &bad),
		.started_ns = sql_i64(u, 11, &bad),
		.ended_ns = sql_i64(u, 12, &bad),
		.target = sql_u64(u, 13, &bad),
		.other_box = sql_u64(u, 14, &bad),
		.other_seq = sql_u64(u, 15, &bad),
		.params = sql_blob(u, 16, &bad),
		.result = sql_blob(u, 17, &bad),
		.has_changes = sql_u64(u, 18, &bad) != 0,
	};
	if (out->has_root) out->root = sql_u64(u, 4, &bad);
	uint64_t changes_sum = sql_u64(u, 21, &bad);
	if (out->has_changes && with_changes) {
		out->changes = sql_blob(u, 22, &bad);
		if (span_sum(out->changes) != changes_sum) bad = true;
	}
	if (sql_u64(u, 19, &bad) != step_sum(out, out->epoch, changes_sum)) bad = true;
	if (sql_u64(u, 20, &bad) != root_sum(out->box, out->seq, out->has_root, out->root)) bad = true;
	return bad ? step_damaged(out, err) : CB_OK;
}

cb_code sqlite_step_walk(engine *e, uint64_t box, uint64_t from, uint64_t to, bool with_changes, store_step_visit visit,
                         void *context, cb_error *err)
{
	bool down = from > to;
	uint64_t low = sql_bound(down ? to : from), high = sql_bound(down ? from : to);
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, down ? SQL_STEP_DOWN : SQL_STEP_UP, &u, err, "uuui", box, low, high, (int64_t)with_changes));
	uint64_t last = 0;
	for (bool first = true;; first = false) {
		bool row = false;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		store_step step;
		CB_TRY(step_read(&u, with_changes, &step, err));
		/* A damaged tree may give the same rows again and again. */
		if (step.box != box || (!first && (down ? step.seq >= last : step.seq <= last))) return step_damaged(&step, err);
		last = step.seq;
		cb_code code = visit(context, &step, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

cb_code sqlite_step_root_before(engine *e, uint64_t box, uint64_t seq, uint64_t *out_seq, uint64_t *out_root, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_STEP_ROOT_BEFORE, &u, err, "uu", box, sql_bound(seq)));
	bool row = false, bad = false;
	CB_TRY(sql_step(e, &u, &row, err));
	if (!row) return cb_err_set(err, CB_NOTFOUND, "no kept root at or before step %llu", (unsigned long long)seq);
	uint64_t found = sql_u64(&u, 0, &bad), root = sql_u64(&u, 1, &bad);
	if (sql_u64(&u, 2, &bad) != root_sum(box, found, true, root)) bad = true;
	if (bad) return sql_damaged("step", err);
	*out_seq = found;
	*out_root = root;
	return CB_OK;
}

cb_code sqlite_step_put(engine *e, const store_step *s, uint64_t epoch, cb_error *err)
{
	/* Letters of root and changes: NULL says that there are none. */
	static const char *const letters[2][2] = {
		{"uuuunuuttuuiiuuubbuuun", "uuuunuuttuuiiuuubbuuub"},
		{"uuuuuuuttuuiiuuubbuuun", "uuuuuuuttuuiiuuubbuuub"},
	};
	const char *l = letters[s->has_root][s->has_changes];
	uint64_t gap = s->gap, changes_sum = s->has_changes ? span_sum(s->changes) : 0;
	uint64_t sum = step_sum(s, epoch, changes_sum), tree_sum = root_sum(s->box, s->seq, s->has_root, s->root);
	AUTO_SQL sql_use u = {0};
	if (s->has_root) {
		CB_TRY(sql_take(e, SQL_STEP_PUT, &u, err, l, s->box, s->seq, s->state, epoch, s->root, gap, s->weight, s->kind,
		                s->who, s->params_content, s->result_content, s->started_ns, s->ended_ns, s->target, s->other_box,
		                s->other_seq, s->params, s->result, sum, tree_sum, changes_sum, s->changes));
	} else {
		CB_TRY(sql_take(e, SQL_STEP_PUT, &u, err, l, s->box, s->seq, s->state, epoch, gap, s->weight, s->kind, s->who,
		                s->params_content, s->result_content, s->started_ns, s->ended_ns, s->target, s->other_box,
		                s->other_seq, s->params, s->result, sum, tree_sum, changes_sum, s->changes));
	}
	cb_code code = sql_finish(e, &u, NULL, err);
	return code == CB_EXISTS ? cb_err_set(err, code, "step %llu exists already", (unsigned long long)s->seq) : code;
}

static cb_code must_change(engine *e, const sql_use *u, uint64_t seq, cb_error *err)
{
	uint64_t changed = 0;
	CB_TRY(sql_finish(e, u, &changed, err));
	return changed ? CB_OK : cb_err_set(err, CB_NOTFOUND, "no step %llu", (unsigned long long)seq);
}

cb_code sqlite_step_root_set(engine *e, uint64_t box, uint64_t seq, bool has_root, uint64_t root, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	uint64_t sum = root_sum(box, seq, has_root, root);
	if (has_root) CB_TRY(sql_take(e, SQL_STEP_ROOT_SET, &u, err, "uuuu", box, seq, root, sum));
	else CB_TRY(sql_take(e, SQL_STEP_ROOT_SET, &u, err, "uunu", box, seq, sum));
	return must_change(e, &u, seq, err);
}

cb_code sqlite_step_gap_set(engine *e, uint64_t box, uint64_t seq, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_STEP_GAP_SET, &u, err, "uu", box, seq));
	return must_change(e, &u, seq, err);
}

static cb_code delete_range(engine *e, sql_id id, uint64_t box, uint64_t from, uint64_t to, uint64_t *out_deleted, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, id, &u, err, "uuu", box, sql_bound(from), sql_bound(to)));
	return sql_finish(e, &u, out_deleted, err);
}

cb_code sqlite_step_delete(engine *e, uint64_t box, uint64_t from, uint64_t to, uint64_t *out_deleted, cb_error *err)
{
	CB_TRY(delete_range(e, SQL_TOUCH_DELETE, box, from, to, NULL, err));
	return delete_range(e, SQL_STEP_DELETE, box, from, to, out_deleted, err);
}

cb_code sqlite_step_count(engine *e, uint64_t box, uint64_t *out, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_STEP_COUNT, &u, err, "u", box));
	bool row = false, bad = false;
	CB_TRY(sql_step(e, &u, &row, err));
	if (row) *out = sql_u64(&u, 0, &bad);
	return row && !bad ? CB_OK : sql_damaged("step", err);
}

/* ---- touched files ---- */

static uint64_t touch_sum(uint64_t box, uint64_t first, uint64_t last, span subjects)
{
	uint64_t values[] = {box, first, last, span_sum(subjects)};
	return sql_sum(values, ARRAY_LEN(values));
}

cb_code sqlite_touch_put(engine *e, uint64_t box, uint64_t first, uint64_t last, span subjects, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_TOUCH_PUT, &u, err, "uuuub", box, last, first, touch_sum(box, first, last, subjects), subjects));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_touch_walk(engine *e, uint64_t box, uint64_t max_seq, store_touch_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_TOUCH_WALK, &u, err, "uu", box, sql_bound(max_seq)));
	for (uint64_t before = UINT64_MAX;;) {
		bool row = false, bad = false;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		uint64_t first = sql_u64(&u, 0, &bad), last = sql_u64(&u, 1, &bad);
		span subjects = sql_blob(&u, 2, &bad);
		if (sql_u64(&u, 3, &bad) != touch_sum(box, first, last, subjects)) bad = true;
		if (bad || last >= before) return sql_damaged("touch", err); /* newest first; a damaged tree may go round */
		before = last;
		cb_code code = visit(context, first, last, subjects, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

cb_code sqlite_touch_last(engine *e, uint64_t box, uint64_t *out_seq, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_TOUCH_LAST, &u, err, "u", box));
	bool row = false, bad = false;
	CB_TRY(sql_step(e, &u, &row, err));
	*out_seq = row ? sql_u64(&u, 0, &bad) : 0;
	return bad ? sql_damaged("touch", err) : CB_OK;
}
