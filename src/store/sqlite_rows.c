/* sqlite_rows.c: counters, meta, nodes, contents, owners in SQLite. */
#include "store/sqlite.h"

cb_code sqlite_counters_get(engine *e, uint64_t out[STORE_COUNTERS], cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_COUNTERS_GET, &u, err, ""));
	/* By its place: a handle that reads a store of format 2 goes on when another process renames the column (version_3). */
	enum { FIRST = 7 };
	bool row = false, bad = false;
	CB_TRY(sql_step(e, &u, &row, err));
	if (!row) return sql_damaged("head", err);
	for (int i = 0; i < STORE_COUNTERS; i++) {
		out[i] = sql_u64(&u, FIRST + i, &bad);
		if (out[i] == 0 || out[i] > INT64_MAX / 2) bad = true;
	}
	/* 0: as the schema left it. */
	uint64_t sum = sql_u64(&u, FIRST + STORE_COUNTERS, &bad);
	static const uint64_t fresh[STORE_COUNTERS] = {1, 1, 1, 16, 1, 1, 1};
	bad = bad || (sum ? sum != sql_sum(out, STORE_COUNTERS) : memcmp(out, fresh, sizeof fresh) != 0);
	return bad ? sql_damaged("head", err) : CB_OK;
}

cb_code sqlite_counters_set(engine *e, const uint64_t values[STORE_COUNTERS], cb_error *err)
{
	_Static_assert(STORE_COUNTERS == 7, "the statement has seven places");
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_COUNTERS_SET, &u, err, "uuuuuuuu", values[0], values[1], values[2], values[3], values[4], values[5],
	                values[6], sql_sum(values, STORE_COUNTERS)));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_meta_get(engine *e, const char *key, char *out, size_t size, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_META_GET, &u, err, "t", key));
	bool row = false, bad = false;
	CB_TRY(sql_step(e, &u, &row, err));
	if (!row) return cb_err_set(err, CB_NOTFOUND, "no '%s' in table 'meta'", key);
	sql_copy(&u, 0, out, size, &bad);
	return bad ? sql_damaged("meta", err) : CB_OK;
}

cb_code sqlite_meta_set(engine *e, const char *key, const char *value, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_META_SET, &u, err, "tt", key, value));
	return sql_finish(e, &u, NULL, err);
}

/* ---- nodes and contents ---- */

/* Columns: id, birth, sum, size, segment, offset, data or NULL. */
static cb_code row_read(const sql_use *u, bool is_node, bool with_data, engine_row *out, cb_error *err)
{
	bool bad = false;
	*out = (engine_row){
		.id = sql_u64(u, 0, &bad),
		.birth = sql_u64(u, 1, &bad),
		.sum = sql_u64(u, 2, &bad),
		.size = sql_u64(u, 3, &bad),
		.segment = sql_u64(u, 4, &bad),
		.offset = sql_u64(u, 5, &bad),
	};
	if (out->segment == 0 && with_data) {
		out->data = sql_blob(u, 6, &bad);
		bad = bad || out->data.size != out->size;
	}
	if (!is_node && (out->size == 0 || out->size > LIMIT_CONTENT_BYTES)) bad = true;
	if (out->segment > INT64_MAX || out->offset > INT64_MAX - LIMIT_CONTENT_BYTES) bad = true;
	return bad ? sql_damaged(is_node ? "node" : "content", err) : CB_OK;
}

cb_code sqlite_row_get(engine *e, bool is_node, uint64_t id, engine_row_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, is_node ? SQL_NODE_GET : SQL_CONTENT_GET, &u, err, "u", id));
	bool found = false;
	CB_TRY(sql_step(e, &u, &found, err));
	if (!found) return cb_err_set(err, CB_NOTFOUND, "no %s %llu", is_node ? "node" : "content", (unsigned long long)id);
	engine_row row;
	CB_TRY(row_read(&u, is_node, true, &row, err));
	return visit(context, &row, err);
}

cb_code sqlite_row_put(engine *e, bool is_node, const engine_row *r, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	if (is_node) {
		CB_TRY(sql_take(e, SQL_NODE_PUT, &u, err, "uuub", r->id, r->birth, r->sum, r->data));
	} else if (r->segment != 0) {
		CB_TRY(sql_take(e, SQL_CONTENT_PUT, &u, err, "uuuuuun", r->id, r->birth, r->sum, r->size, r->segment, r->offset));
	} else {
		CB_TRY(sql_take(e, SQL_CONTENT_PUT, &u, err, "uuuuuub", r->id, r->birth, r->sum, r->size, (uint64_t)0, (uint64_t)0,
		                r->data));
	}
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_row_delete(engine *e, bool is_node, uint64_t id, uint64_t horizon, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, is_node ? SQL_NODE_DELETE : SQL_CONTENT_DELETE, &u, err, "uu", id, horizon));
	uint64_t changed = 0;
	CB_TRY(sql_finish(e, &u, &changed, err));
	return changed ? CB_OK : CB_NOTFOUND;
}

static cb_code content_change(engine *e, const sql_use *u, uint64_t id, cb_error *err)
{
	uint64_t changed = 0;
	CB_TRY(sql_finish(e, u, &changed, err));
	return changed ? CB_OK : cb_err_set(err, CB_NOTFOUND, "no content %llu", (unsigned long long)id);
}

cb_code sqlite_content_birth_set(engine *e, uint64_t id, uint64_t birth, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_CONTENT_BIRTH, &u, err, "uu", id, birth));
	return content_change(e, &u, id, err);
}

cb_code sqlite_content_move(engine *e, uint64_t id, uint64_t segment, uint64_t offset, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_CONTENT_MOVE, &u, err, "uuu", id, segment, offset));
	return content_change(e, &u, id, err);
}

/* Whose tree is damaged may give the same rows again and again. */
static cb_code not_ascending(bool is_node, uint64_t id, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "table '%s' is damaged: row %llu is not in its place: see `cowbox fsck`",
	                  is_node ? "node" : "content", (unsigned long long)id);
}

/* Ids must ascend from `after`; or offsets in a segment, where no two contents begin at one place. */
static cb_code rows_visit(engine *e, const sql_use *u, bool is_node, bool with_data, bool by_offset, uint64_t after,
                          engine_row_visit visit, void *context, cb_error *err)
{
	for (;;) {
		bool found = false;
		CB_TRY(sql_step(e, u, &found, err));
		if (!found) return CB_OK;
		engine_row row;
		CB_TRY(row_read(u, is_node, with_data, &row, err));
		uint64_t place = by_offset ? row.offset : row.id;
		if (place <= after) return not_ascending(is_node, row.id, err);
		after = place;
		cb_code code = visit(context, &row, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

cb_code sqlite_row_walk(engine *e, bool is_node, uint64_t after, uint64_t limit, bool with_data, engine_row_visit visit,
                        void *context, cb_error *err)
{
	static const sql_id ids[2][2] = {{SQL_CONTENT_WALK, SQL_CONTENT_WALK_DATA}, {SQL_NODE_WALK, SQL_NODE_WALK_DATA}};
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, ids[is_node][with_data], &u, err, "uu", after, sql_bound(limit)));
	return rows_visit(e, &u, is_node, with_data, false, after, visit, context, err);
}

cb_code sqlite_segment_rows(engine *e, uint64_t segment, engine_row_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_SEGMENT_ROWS, &u, err, "u", segment));
	return rows_visit(e, &u, false, false, true, 0, visit, context, err);
}

cb_code sqlite_segment_list(engine *e, engine_segment_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_SEGMENT_LIST, &u, err, ""));
	for (;;) {
		bool found = false, bad = false;
		CB_TRY(sql_step(e, &u, &found, err));
		if (!found) return CB_OK;
		uint64_t segment = sql_u64(&u, 0, &bad), rows = sql_u64(&u, 1, &bad), bytes = sql_u64(&u, 2, &bad);
		if (bad) return sql_damaged("content", err);
		CB_TRY(visit(context, segment, rows, bytes, err));
	}
}

/* ---- owners ---- */

cb_code sqlite_owner_insert(engine *e, uint64_t epoch, uint64_t *out_owner, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_OWNER_INSERT, &u, err, "u", epoch));
	CB_TRY(sql_finish(e, &u, NULL, err));
	*out_owner = (uint64_t)sqlite3_last_insert_rowid(sql_engine(e)->db);
	return CB_OK;
}

cb_code sqlite_owner_delete(engine *e, uint64_t owner, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_OWNER_DELETE, &u, err, "u", owner));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_owner_list(engine *e, engine_owner_visit visit, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_OWNER_LIST, &u, err, ""));
	for (;;) {
		bool found = false, bad = false;
		CB_TRY(sql_step(e, &u, &found, err));
		if (!found) return CB_OK;
		uint64_t id = sql_u64(&u, 0, &bad), epoch = sql_u64(&u, 1, &bad);
		if (bad) return sql_damaged("owner", err);
		CB_TRY(visit(context, id, epoch, err));
	}
}
