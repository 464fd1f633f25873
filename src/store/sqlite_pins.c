/* sqlite_pins.c: steps that are kept for what outlives its process, in SQLite: a handful of rows. */
#include "store/sqlite.h"

/* Not of its number, which the row has only once it is there. */
static uint64_t pin_sum(const store_pin *p)
{
	uint64_t values[] = {
		p->box, p->seq, sql_sum_text(p->why), sql_sum_text(p->owner), (uint64_t)p->since_ns, (uint64_t)p->until_ns};
	return sql_sum(values, ARRAY_LEN(values));
}

cb_code sqlite_pin_put(engine *e, const store_pin *p, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_PIN_PUT, &u, err, "uuttiiu", p->box, p->seq, p->why, p->owner, p->since_ns, p->until_ns,
	                pin_sum(p)));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_pin_delete(engine *e, const char *owner, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_PIN_DELETE, &u, err, "t", owner));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_pin_expire(engine *e, int64_t now_ns, cb_error *err)
{
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_PIN_EXPIRE, &u, err, "i", now_ns));
	return sql_finish(e, &u, NULL, err);
}

cb_code sqlite_pin_list(engine *e, uint64_t box, store_pin_visit visit, void *context, cb_error *err)
{
	if (sql_engine(e)->version < SQL_VERSION_PIN) return CB_OK;
	AUTO_SQL sql_use u = {0};
	CB_TRY(sql_take(e, SQL_PIN_LIST, &u, err, "u", box));
	for (bool found = false;;) {
		bool bad = false;
		CB_TRY(sql_step(e, &u, &found, err));
		if (!found) return CB_OK;
		store_pin p = {.id = sql_u64(&u, 0, &bad),
		               .box = sql_u64(&u, 1, &bad),
		               .seq = sql_u64(&u, 2, &bad),
		               .why = sql_text(&u, 3, &bad),
		               .owner = sql_text(&u, 4, &bad),
		               .since_ns = sql_i64(&u, 5, &bad),
		               .until_ns = sql_i64(&u, 6, &bad)};
		if (bad || sql_u64(&u, 7, &bad) != pin_sum(&p) || bad) return sql_damaged("pin", err);
		cb_code code = visit(context, &p, err);
		if (code != CB_OK) return code == CB_INTERRUPTED ? CB_OK : code;
	}
}
