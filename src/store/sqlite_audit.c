/*
 * sqlite_audit.c: what was done to boxes and store, and what was refused, in SQLite: a short table of which the newest rows are kept.
 *
 * Refusals have numbers of their own, far above the others': each kind is trimmed by itself, so that an agent who gets himself refused in
 * ten thousand ways cannot push out what was done.
 */
#include "store/sqlite.h"

#include <stdio.h>

static const uint64_t refusals = (uint64_t)1 << 62; /* their numbers begin above it */

/* Numbers of a kind lie in (low, high). */
static uint64_t low_of(bool refused)
{
	return refused ? refusals : 0;
}

static uint64_t high_of(bool refused)
{
	return refused ? INT64_MAX : refusals;
}

static uint64_t audit_sum(uint64_t id, const store_audit *a)
{
	uint64_t values[] = {id,
	                     (uint64_t)a->time_ns,
	                     a->box,
	                     sql_sum_text(a->name),
	                     sql_sum_text(a->who),
	                     sql_sum_text(a->action),
	                     sql_sum_text(a->subject),
	                     (uint64_t)(int64_t)a->code,
	                     sql_sum_text(a->message),
	                     a->count};
	return sql_sum(values, ARRAY_LEN(values));
}

static bool audit_read(const sql_use *u, store_audit *out)
{
	bool bad = false;
	int64_t code = sql_i64(u, 7, &bad);
	*out = (store_audit){
		.id = sql_u64(u, 0, &bad),
		.time_ns = sql_i64(u, 1, &bad),
		.box = sql_u64(u, 2, &bad),
		.name = sql_text(u, 3, &bad),
		.who = sql_text(u, 4, &bad),
		.action = sql_text(u, 5, &bad),
		.subject = sql_text(u, 6, &bad),
		.code = (cb_code)code,
		.message = sql_text(u, 8, &bad),
		.count = sql_u64(u, 9, &bad),
	};
	return !bad && code <= 0 && code >= INT16_MIN && sql_u64(u, 10, &bad) == audit_sum(out->id, out) && !bad;
}

/* The same refusal as the newest one: counted there. A damaged row is nobody's twin. */
static cb_code audit_repeat(engine *e, const store_audit *a, bool *out_done, cb_error *err)
{
	AUTO_SQL sql_use last = {0}, u = {0};
	bool found = false;
	store_audit row;
	CB_TRY(sql_take(e, SQL_AUDIT_WALK, &last, err, "uuu", refusals, (uint64_t)INT64_MAX, (uint64_t)1));
	CB_TRY(sql_step(e, &last, &found, err));
	if (!found || !audit_read(&last, &row)) return CB_OK;
	bool same = row.code == a->code && row.box == a->box && strcmp(row.who, a->who) == 0 &&
	            strcmp(row.action, a->action) == 0 && strcmp(row.subject, a->subject) == 0 &&
	            strcmp(row.message, a->message) == 0;
	if (!same || row.count >= INT64_MAX) return CB_OK;
	row.time_ns = a->time_ns;
	row.count++;
	uint64_t sum = audit_sum(row.id, &row);
	CB_TRY(sql_take(e, SQL_AUDIT_REPEAT, &u, err, "uiuu", row.id, row.time_ns, row.count, sum));
	*out_done = true;
	return sql_finish(e, &u, NULL, err);
}

static cb_code audit_next(engine *e, bool refused, uint64_t *out, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	bool found = false, bad = false;
	CB_TRY(sql_take(e, SQL_AUDIT_NEXT, &u, err, "uu", low_of(refused), high_of(refused)));
	CB_TRY(sql_step(e, &u, &found, err));
	*out = found ? sql_u64(&u, 0, &bad) : 0;
	return bad || *out <= low_of(refused) || *out >= high_of(refused) ? sql_damaged("audit", err) : CB_OK;
}

/* Numbers only grow, so that what is too old is known by its number. */
static cb_code audit_trim(engine *e, bool refused, uint64_t newest, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	if (newest - low_of(refused) <= LIMIT_AUDIT_ROWS) return CB_OK;
	CB_TRY(sql_take(e, SQL_AUDIT_TRIM, &u, err, "uu", low_of(refused), newest - LIMIT_AUDIT_ROWS));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_audit_put(engine *e, const store_audit *a, cb_error *err)
{
	bool done = false, refused = a->code != CB_OK;
	uint64_t id = 0;
	if (refused) CB_TRY(audit_repeat(e, a, &done, err));
	if (done) return CB_OK;
	CB_TRY(audit_next(e, refused, &id, err));
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_AUDIT_INSERT, &u, err, "uiuttttituu", id, a->time_ns, a->box, a->name, a->who, a->action, a->subject,
	                (int64_t)a->code, a->message, a->count, audit_sum(id, a)));
	CB_TRY(sql_finish(e, &u, NULL, err));
	return audit_trim(e, refused, id, err);
}

cb_code sqlite_audit_walk(engine *e, bool refused, uint64_t below, uint64_t limit, store_audit_visit visit, void *context,
                          cb_error *err)
{
	uint64_t high = high_of(refused);
	AUTO_SQL sql_use u = {0};
	if (sql_engine(e)->version < SQL_VERSION_AUDIT) return CB_OK;
	if (below < high) high = below;
	CB_TRY(sql_take(e, SQL_AUDIT_WALK, &u, err, "uuu", low_of(refused), high, sql_bound(limit)));
	for (uint64_t before = high;;) {
		bool found = false;
		store_audit row;
		CB_TRY(sql_step(e, &u, &found, err));
		if (!found) return CB_OK;
		if (!audit_read(&u, &row) || row.id >= before) return sql_damaged("audit", err); /* a damaged tree may go round */
		before = row.id;
		cb_code code = visit(context, &row, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
}

/* Row by row, so that each damaged one is named. */
cb_code sqlite_audit_check(engine *e, store_complain complain, void *context, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	if (sql_engine(e)->version < SQL_VERSION_AUDIT) return CB_OK;
	CB_TRY(sql_take(e, SQL_AUDIT_WALK, &u, err, "iuu", INT64_MIN, (uint64_t)INT64_MAX, (uint64_t)INT64_MAX));
	for (bool found = true; found;) {
		store_audit row;
		CB_TRY(sql_step(e, &u, &found, err));
		if (!found || audit_read(&u, &row)) continue;
		char line[64];
		(void)snprintf(line, sizeof line, "entry %lld of the audit is damaged", (long long)sqlite3_column_int64(u.stmt, 0));
		complain(context, line);
	}
	return CB_OK;
}
