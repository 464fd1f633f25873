/* sqlite_catalog.c: boxes, heads, checkpoints and settings in SQLite. */
#include "base/buf.h"
#include "store/sqlite.h"

static uint64_t head_sum(uint64_t box, const store_head *h)
{
	uint64_t values[] = {box, h->seq, h->state, h->root, h->root_box, h->root_seq, h->weight};
	return sql_sum(values, ARRAY_LEN(values));
}

static uint64_t box_sum(const store_box *b)
{
	uint64_t values[] = {
		b->id,          sql_sum_text(b->name), (uint64_t)b->created_ns, b->origin_box, b->origin_seq,       b->deleted,
		b->quota_bytes, b->quota_files,        b->quota_file_bytes,     b->keep_steps, (uint64_t)b->keep_ns};
	return sql_sum(values, ARRAY_LEN(values));
}

static void head_read(const sql_use *u, int first, uint64_t box, store_head *out, bool *bad)
{
	*out = (store_head){
		.seq = sql_u64(u, first, bad),
		.state = sql_u64(u, first + 1, bad),
		.root = sql_u64(u, first + 2, bad),
		.root_box = sql_u64(u, first + 3, bad),
		.root_seq = sql_u64(u, first + 4, bad),
		.weight = sql_u64(u, first + 5, bad),
	};
	if (sql_u64(u, first + 6, bad) != head_sum(box, out)) *bad = true;
}

static cb_code box_read(const sql_use *u, store_box *out, cb_error *err)
{
	bool bad = false;
	*out = (store_box){
		.id = sql_u64(u, 0, &bad),
		.created_ns = sql_i64(u, 2, &bad),
		.origin_box = sql_u64(u, 3, &bad),
		.origin_seq = sql_u64(u, 4, &bad),
		.deleted = sql_u64(u, 5, &bad) != 0,
		.quota_bytes = sql_u64(u, 6, &bad),
		.quota_files = sql_u64(u, 7, &bad),
		.quota_file_bytes = sql_u64(u, 8, &bad),
		.keep_steps = sql_u64(u, 9, &bad),
		.keep_ns = sql_i64(u, 10, &bad),
	};
	sql_copy(u, 1, out->name, sizeof out->name, &bad);
	head_read(u, 11, out->id, &out->head, &bad);
	if (sql_u64(u, 18, &bad) != box_sum(out)) bad = true;
	return bad ? sql_damaged("box", err) : CB_OK;
}

cb_code sqlite_box_find(engine *e, const char *name, store_box *out, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_BOX_GET, &u, err, "nt", name));
	bool row = false;
	CB_TRY(sql_step(e, &u, &row, err));
	return row ? box_read(&u, out, err) : cb_err_set(err, CB_NOTFOUND, "no box '%s'", name);
}

cb_code sqlite_box_get(engine *e, uint64_t id, store_box *out, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_BOX_GET, &u, err, "un", id));
	bool row = false;
	CB_TRY(sql_step(e, &u, &row, err));
	return row ? box_read(&u, out, err) : cb_err_set(err, CB_NOTFOUND, "no box with number %llu", (unsigned long long)id);
}

static cb_code boxes_visit(engine *e, const sql_use *u, store_box_visit visit, void *context, cb_error *err)
{
	for (;;) {
		bool row = false;
		CB_TRY(sql_step(e, u, &row, err));
		if (!row) return CB_OK;
		store_box box;
		CB_TRY(box_read(u, &box, err));
		cb_code code = visit(context, &box, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

cb_code sqlite_box_list(engine *e, bool with_deleted, store_box_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, with_deleted ? SQL_BOX_LIST_ALL : SQL_BOX_LIST, &u, err, ""));
	return boxes_visit(e, &u, visit, context, err);
}

cb_code sqlite_box_forks(engine *e, uint64_t origin, store_box_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_BOX_FORKS, &u, err, "u", origin));
	return boxes_visit(e, &u, visit, context, err);
}

static cb_code box_write(engine *e, sql_id id, const store_box *b, uint64_t *out_changed, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, id, &u, err, "utiuuiuuuuiu", b->id, b->name, b->created_ns, b->origin_box, b->origin_seq,
	                (int64_t)b->deleted, b->quota_bytes, b->quota_files, b->quota_file_bytes, b->keep_steps, b->keep_ns,
	                box_sum(b)));
	cb_code code = sql_finish(e, &u, out_changed, err);
	return code == CB_EXISTS ? cb_err_set(err, CB_EXISTS, "a box '%s' exists already", b->name) : code;
}

static cb_code head_write(engine *e, sql_id id, uint64_t box, const store_head *h, uint64_t *out_changed, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, id, &u, err, "uuuuuuuu", box, h->seq, h->state, h->root, h->root_box, h->root_seq, h->weight,
	                head_sum(box, h)));
	return sql_finish(e, &u, out_changed, err);
}

cb_code sqlite_box_insert(engine *e, const store_box *box, cb_error *err)
{
	CB_TRY(box_write(e, SQL_BOX_INSERT, box, NULL, err));
	cb_code code = head_write(e, SQL_HEAD_INSERT, box->id, &box->head, NULL, err);
	return code == CB_EXISTS ? sql_damaged("head", err) : code; /* a head without a box */
}

static cb_code number_missing(uint64_t box, cb_error *err)
{
	return cb_err_set(err, CB_NOTFOUND, "no box with number %llu", (unsigned long long)box);
}

cb_code sqlite_box_update(engine *e, const store_box *box, cb_error *err)
{
	uint64_t changed = 0;
	CB_TRY(box_write(e, SQL_BOX_UPDATE, box, &changed, err));
	return changed ? CB_OK : number_missing(box->id, err);
}

static cb_code delete_by_box(engine *e, sql_id id, uint64_t box, uint64_t *out_changed, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, id, &u, err, "u", box));
	return sql_finish(e, &u, out_changed, err);
}

cb_code sqlite_box_remove(engine *e, uint64_t id, cb_error *err)
{
	uint64_t changed = 0;
	CB_TRY(delete_by_box(e, SQL_BOX_DELETE, id, &changed, err));
	if (!changed) return number_missing(id, err);
	CB_TRY(delete_by_box(e, SQL_HEAD_DELETE, id, NULL, err));
	return delete_by_box(e, SQL_BOX_SETTINGS_DELETE, id, NULL, err);
}

cb_code sqlite_head_get(engine *e, uint64_t box, store_head *out, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_HEAD_GET, &u, err, "u", box));
	bool row = false, bad = false;
	CB_TRY(sql_step(e, &u, &row, err));
	if (!row) return number_missing(box, err);
	store_head head;
	head_read(&u, 0, box, &head, &bad);
	if (bad) return sql_damaged("head", err);
	*out = head;
	return CB_OK;
}

cb_code sqlite_head_set(engine *e, uint64_t box, const store_head *head, cb_error *err)
{
	uint64_t changed = 0;
	CB_TRY(head_write(e, SQL_HEAD_SET, box, head, &changed, err));
	return changed ? CB_OK : number_missing(box, err);
}

/* ---- checkpoints ---- */

/* The mark is part of the sum only where it is set, so that sums of format 2 stay right. */
static uint64_t checkpoint_sum(const store_checkpoint *c)
{
	uint64_t values[] = {c->box, sql_sum_text(c->name), c->seq, (uint64_t)c->created_ns, 1};
	return sql_sum(values, ARRAY_LEN(values) - !c->automatic);
}

static cb_code checkpoint_read(const sql_use *u, store_checkpoint *out, cb_error *err)
{
	bool bad = false;
	*out = (store_checkpoint){.box = sql_u64(u, 0, &bad), .seq = sql_u64(u, 2, &bad), .created_ns = sql_i64(u, 3, &bad)};
	sql_copy(u, 1, out->name, sizeof out->name, &bad);
	int64_t automatic = sql_i64(u, 5, &bad);
	uint64_t sum = sql_u64(u, 4, &bad);
	out->automatic = automatic == 1;
	/* -1: read as format 2. Another process may have brought the store up to date since it was opened; then the sum tells. */
	if (automatic == -1 && sum != checkpoint_sum(out)) out->automatic = true;
	if (automatic < -1 || automatic > 1 || sum != checkpoint_sum(out)) bad = true;
	return bad ? sql_damaged("checkpoint", err) : CB_OK;
}

cb_code sqlite_checkpoint_get(engine *e, uint64_t box, const char *name, store_checkpoint *out, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	bool marked = sql_engine(e)->version >= SQL_VERSION_AUTOMATIC;
	CB_TRY(sql_take(e, marked ? SQL_CHECKPOINT_GET : SQL_CHECKPOINT_GET_2, &u, err, "ut", box, name));
	bool row = false;
	CB_TRY(sql_step(e, &u, &row, err));
	return row ? checkpoint_read(&u, out, err) : cb_err_set(err, CB_NOTFOUND, "no checkpoint '%s'", name);
}

cb_code sqlite_checkpoint_list(engine *e, uint64_t box, store_checkpoint_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	bool marked = sql_engine(e)->version >= SQL_VERSION_AUTOMATIC;
	CB_TRY(sql_take(e, marked ? SQL_CHECKPOINT_LIST : SQL_CHECKPOINT_LIST_2, &u, err, "u", box));
	for (;;) {
		bool row = false;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		store_checkpoint c;
		CB_TRY(checkpoint_read(&u, &c, err));
		cb_code code = visit(context, &c, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

cb_code sqlite_checkpoint_put(engine *e, const store_checkpoint *c, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_CHECKPOINT_PUT, &u, err, "utuiuu", c->box, c->name, c->seq, c->created_ns, (uint64_t)c->automatic,
	                checkpoint_sum(c)));
	cb_code code = sql_finish(e, &u, NULL, err);
	return code == CB_EXISTS ? cb_err_set(err, code, "a checkpoint '%s' exists already", c->name) : code;
}

cb_code sqlite_checkpoint_delete(engine *e, uint64_t box, const char *name, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_CHECKPOINT_DELETE, &u, err, "ut", box, name));
	uint64_t changed = 0;
	CB_TRY(sql_finish(e, &u, &changed, err));
	return changed ? CB_OK : cb_err_set(err, CB_NOTFOUND, "no checkpoint '%s'", name);
}

/* ---- settings ---- */

static uint64_t setting_sum(uint64_t box, const char *key, const char *value)
{
	uint64_t values[] = {box, sql_sum_text(key), sql_sum_text(value)};
	return sql_sum(values, ARRAY_LEN(values));
}

cb_code sqlite_setting_get(engine *e, uint64_t box, const char *key, char **out, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_SETTING_GET, &u, err, "ut", box, key));
	bool row = false, bad = false;
	CB_TRY(sql_step(e, &u, &row, err));
	if (!row) return cb_err_set(err, CB_NOTFOUND, "no setting '%s'", key);
	const char *value = sql_text(&u, 1, &bad);
	if (bad || sql_u64(&u, 2, &bad) != setting_sum(box, key, value)) return sql_damaged("setting", err);
	char *copy = mem_strdup(value);
	if (!copy) return cb_err_nomem(err);
	*out = copy;
	return CB_OK;
}

cb_code sqlite_setting_set(engine *e, uint64_t box, const char *key, const char *value, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	if (value) CB_TRY(sql_take(e, SQL_SETTING_SET, &u, err, "uttu", box, key, value, setting_sum(box, key, value)));
	else CB_TRY(sql_take(e, SQL_SETTING_DELETE, &u, err, "ut", box, key));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_setting_list(engine *e, uint64_t box, store_setting_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_SETTING_LIST, &u, err, "u", box));
	for (;;) {
		bool row = false, bad = false;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		const char *key = sql_text(&u, 0, &bad), *value = sql_text(&u, 1, &bad);
		if (bad || sql_u64(&u, 2, &bad) != setting_sum(box, key, value)) return sql_damaged("setting", err);
		cb_code code = visit(context, key, value, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

static cb_code sweep(engine *e, sql_id which, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, which, &u, err, ""));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_leftover_sweep(engine *e, cb_error *err)
{
	CB_TRY(sweep(e, SQL_CHECKPOINT_SWEEP, err));
	return sweep(e, SQL_SETTING_SWEEP, err);
}
