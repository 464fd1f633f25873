/* sqlite_edges.c: where steps come from besides the step before them, in SQLite. */
#include "store/sqlite.h"

#include <stdio.h>

static uint64_t edge_sum(const store_edge *x)
{
	uint64_t values[] = {x->order, x->box, x->seq, x->kind, x->other_box, x->other_seq};
	return sql_sum(values, ARRAY_LEN(values));
}

static cb_code edge_read(const sql_use *u, store_edge *out, cb_error *err)
{
	bool bad = false;
	uint64_t kind = sql_u64(u, 3, &bad);
	*out = (store_edge){.order = sql_u64(u, 0, &bad),
	                    .box = sql_u64(u, 1, &bad),
	                    .seq = sql_u64(u, 2, &bad),
	                    .kind = (store_edge_kind)kind,
	                    .other_box = sql_u64(u, 4, &bad),
	                    .other_seq = sql_u64(u, 5, &bad)};
	if (kind < STORE_EDGE_FORK || kind > STORE_EDGE_UNDO || sql_u64(u, 6, &bad) != edge_sum(out)) bad = true;
	return bad ? sql_damaged("edge", err) : CB_OK;
}

/* A store that may only be read and has no such table: nothing can be merged there anyway. */
static cb_code need_edges(engine *e, cb_error *err)
{
	if (sql_engine(e)->version >= SQL_VERSION_EDGES) return CB_OK;
	return cb_err_set(err, CB_READONLY, "the store must be brought to format %d first: open it once for writing",
	                  SQL_SCHEMA_VERSION);
}

cb_code sqlite_edge_before(engine *e, uint64_t box, uint64_t seq, store_edge *out, size_t max, size_t *count, cb_error *err)
{
	*count = 0;
	CB_TRY(need_edges(e, err));
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_EDGE_BEFORE, &u, err, "uuu", box, sql_bound(seq), (uint64_t)max));
	while (*count < max) {
		bool row = false;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		CB_TRY(edge_read(&u, &out[*count], err));
		++*count;
	}
	return CB_OK;
}

cb_code sqlite_edge_list(engine *e, uint64_t after, store_edge_visit visit, void *context, cb_error *err)
{
	CB_TRY(need_edges(e, err));
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_EDGE_LIST, &u, err, "u", after));
	for (;;) {
		bool row = false;
		store_edge edge;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		CB_TRY(edge_read(&u, &edge, err));
		cb_code code = visit(context, &edge, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

cb_code sqlite_edge_put(engine *e, const store_edge *edge, cb_error *err)
{
	store_edge x = *edge;
	bool row = false, bad = false;
	AUTO_SQL sql_use next = {0};
	CB_TRY(sql_take(e, SQL_EDGE_NEXT, &next, err, ""));
	CB_TRY(sql_step(e, &next, &row, err));
	x.order = row ? sql_u64(&next, 0, &bad) : 0;
	if (!x.order || bad) return sql_damaged("edge", err);
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_EDGE_PUT, &u, err, "uuuuuuu", x.order, x.box, x.seq, (uint64_t)x.kind, x.other_box, x.other_seq,
	                edge_sum(&x)));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_edge_delete(engine *e, uint64_t order, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_EDGE_DELETE, &u, err, "u", order));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_edges_lost(engine *e, buf *orders, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_EDGES_LOST, &u, err, ""));
	for (;;) {
		bool row = false, bad = false;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		uint64_t order = sql_u64(&u, 0, &bad);
		if (bad) return sql_damaged("edge", err);
		CB_TRY(buf_append(orders, &order, sizeof(order), err));
	}
}

cb_code sqlite_edge_check(engine *e, store_complain complain, void *context, cb_error *err)
{
	if (sql_engine(e)->version < SQL_VERSION_EDGES) return CB_OK;
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_EDGE_LIST, &u, err, "u", (uint64_t)0));
	for (;;) {
		bool row = false, bad = false;
		store_edge edge;
		CB_TRY(sql_step(e, &u, &row, err));
		if (!row) return CB_OK;
		if (edge_read(&u, &edge, NULL) == CB_OK) continue;
		char line[128];
		(void)snprintf(line, sizeof(line), "edge %llu of the history is damaged", (unsigned long long)sql_u64(&u, 0, &bad));
		complain(context, line);
	}
}
