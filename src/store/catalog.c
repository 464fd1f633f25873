/* catalog.c: boxes, steps, checkpoints, settings, audit: the engine under the connection's lock, and the stamps they touch. */
#include "store/internal.h"

/* ---- boxes ---- */

cb_code store_box_find(store *s, const char *name, store_box *out, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->box_find(s->engine, name, out, err);
}

cb_code store_box_get(store *s, uint64_t id, store_box *out, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->box_get(s->engine, id, out, err);
}

cb_code store_box_list(store *s, bool with_deleted, store_box_visit visit, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->box_list(s->engine, with_deleted, visit, context, err);
}

cb_code store_box_collect(void *rows, const store_box *row, cb_error *err)
{
	return buf_append(rows, row, sizeof(*row), err);
}

cb_code store_box_forks(store *s, uint64_t origin, store_box_visit visit, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->box_forks(s->engine, origin, visit, context, err);
}

static void touch_box(store *s, uint64_t box)
{
	store_touch(s, 0);
	store_touch(s, box);
}

cb_code store_box_insert(store *s, const store_box *box, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	if (box->id == 0) return cb_err_set(err, CB_INVALID, "a box needs a number");
	touch_box(s, box->id);
	return store_wrote(s, s->engine->ops->box_insert(s->engine, box, err));
}

cb_code store_box_update(store *s, const store_box *box, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	touch_box(s, box->id);
	return store_wrote(s, s->engine->ops->box_update(s->engine, box, err));
}

cb_code store_box_remove(store *s, uint64_t id, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	touch_box(s, id);
	return store_wrote(s, s->engine->ops->box_remove(s->engine, id, err));
}

cb_code store_head_get(store *s, uint64_t box, store_head *out, cb_error *err)
{
	if (box == 0) return cb_err_set(err, CB_NOTFOUND, "no box with number 0"); /* that row holds the counters */
	STORE_ENTER(s, err);
	return s->engine->ops->head_get(s->engine, box, out, err);
}

cb_code store_head_set(store *s, uint64_t box, const store_head *head, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	if (box == 0) return cb_err_set(err, CB_NOTFOUND, "no box with number 0");
	store_touch(s, box);
	return store_wrote(s, s->engine->ops->head_set(s->engine, box, head, err));
}

/* ---- steps ---- */

typedef struct one_step {
	store_step_visit visit;
	void *context;
	bool found;
} one_step;

static cb_code visit_one(void *context, const store_step *step, cb_error *err)
{
	one_step *o = context;
	o->found = true;
	return o->visit(o->context, step, err);
}

cb_code store_step_get(store *s, uint64_t box, uint64_t seq, store_step_visit visit, void *context, cb_error *err)
{
	one_step o = {visit, context, false};
	STORE_ENTER(s, err);
	CB_TRY(s->engine->ops->step_walk(s->engine, box, seq, seq, true, visit_one, &o, err));
	return o.found ? CB_OK : cb_err_set(err, CB_NOTFOUND, "no step %llu", (unsigned long long)seq);
}

cb_code store_step_walk(store *s, uint64_t box, uint64_t from, uint64_t to, bool with_changes, store_step_visit visit,
                        void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->step_walk(s->engine, box, from, to, with_changes, visit, context, err);
}

cb_code store_step_root_before(store *s, uint64_t box, uint64_t seq, uint64_t *out_seq, uint64_t *out_root, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->step_root_before(s->engine, box, seq, out_seq, out_root, err);
}

cb_code store_step_put(store *s, const store_step *step, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	CB_TRY(store_wrote(s, store_counters_need(s, err)));
	return store_wrote(s, s->engine->ops->step_put(s->engine, step, s->txn.counters[STORE_EPOCH], err));
}

cb_code store_step_root_set(store *s, uint64_t box, uint64_t seq, bool has_root, uint64_t root, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->step_root_set(s->engine, box, seq, has_root, root, err));
}

cb_code store_step_gap_set(store *s, uint64_t box, uint64_t seq, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->step_gap_set(s->engine, box, seq, err));
}

cb_code store_step_delete(store *s, uint64_t box, uint64_t from, uint64_t to, uint64_t *out_deleted, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->step_delete(s->engine, box, from, to, out_deleted, err));
}

cb_code store_step_count(store *s, uint64_t box, uint64_t *out, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->step_count(s->engine, box, out, err);
}

cb_code store_touch_put(store *s, uint64_t box, uint64_t first, uint64_t last, span subjects, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->touch_put(s->engine, box, first, last, subjects, err));
}

cb_code store_touch_walk(store *s, uint64_t box, uint64_t max_seq, store_touch_visit visit, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->touch_walk(s->engine, box, max_seq, visit, context, err);
}

cb_code store_touch_last(store *s, uint64_t box, uint64_t *out_seq, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->touch_last(s->engine, box, out_seq, err);
}

/* ---- edges ---- */

cb_code store_edge_before(store *s, uint64_t box, uint64_t seq, store_edge *out, bool *found, cb_error *err)
{
	STORE_ENTER(s, err);
	size_t count = 0;
	cb_code code = s->engine->ops->edge_before(s->engine, box, seq, out, 1, &count, err);
	*found = count == 1;
	return code;
}

cb_code store_edges_before(store *s, uint64_t box, uint64_t seq, store_edge *out, size_t max, size_t *count, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->edge_before(s->engine, box, seq, out, max, count, err);
}

cb_code store_edge_list(store *s, uint64_t after, store_edge_visit visit, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->edge_list(s->engine, after, visit, context, err);
}

cb_code store_edge_put(store *s, const store_edge *edge, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->edge_put(s->engine, edge, err));
}

cb_code store_edges_lost(store *s, buf *orders, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->edges_lost(s->engine, orders, err);
}

cb_code store_edge_delete(store *s, uint64_t order, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->edge_delete(s->engine, order, err));
}

/* ---- checkpoints and settings ---- */

cb_code store_leftover_sweep(store *s, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->leftover_sweep(s->engine, err));
}

cb_code store_checkpoint_get(store *s, uint64_t box, const char *name, store_checkpoint *out, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->checkpoint_get(s->engine, box, name, out, err);
}

cb_code store_checkpoint_list(store *s, uint64_t box, store_checkpoint_visit visit, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->checkpoint_list(s->engine, box, visit, context, err);
}

cb_code store_checkpoint_put(store *s, const store_checkpoint *c, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	store_touch(s, 0);
	return store_wrote(s, s->engine->ops->checkpoint_put(s->engine, c, err));
}

cb_code store_checkpoint_delete(store *s, uint64_t box, const char *name, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	store_touch(s, 0);
	return store_wrote(s, s->engine->ops->checkpoint_delete(s->engine, box, name, err));
}

cb_code store_setting_get(store *s, uint64_t box, const char *key, char **out, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->setting_get(s->engine, box, key, out, err);
}

cb_code store_setting_set(store *s, uint64_t box, const char *key, const char *value, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	store_touch(s, 0);
	return store_wrote(s, s->engine->ops->setting_set(s->engine, box, key, value, err));
}

cb_code store_setting_list(store *s, uint64_t box, store_setting_visit visit, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->setting_list(s->engine, box, visit, context, err);
}

/* ---- audit ---- */

cb_code store_audit_put(store *s, const store_audit *a, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->audit_put(s->engine, a, err));
}

cb_code store_audit_walk(store *s, bool refused, uint64_t below, uint64_t limit, store_audit_visit visit, void *context,
                         cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->audit_walk(s->engine, refused, below, limit, visit, context, err);
}
