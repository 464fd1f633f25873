/* cursor.c: the common part of all cursors, and those that go through a list in memory. */
#include "box/cursor.h"

#include "base/args.h"
#include "base/cancel.h"
#include "box/gate.h"

cb_code cursor_create(size_t size, const cursor_ops *ops, cb_store *cs, cb_box *b, void *out, cb_error *err)
{
	cb_cursor *c = mem_alloc(size);
	if (!c) return cb_err_nomem(err);
	memset(c, 0, size);
	c->ops = ops;
	c->cs = cs;
	c->era = store_fork_era();
	c->rules = gate_version(cs);
	(void)atomic_fetch_add(&cs->refs, 1);
	if (b) c->b = box_ref(b);
	memcpy(out, &c, sizeof(c)); /* a pointer to a struct that begins with it */
	return CB_OK;
}

void cb_cursor_close(cb_cursor *c)
{
	if (!c) return;
	CANCEL_SHIELD;
	cb_store *cs = c->cs;
	if (c->ops->done) c->ops->done(c);
	if (c->b) box_unref(c->b);
	free(c);
	box_store_unref(cs);
}

static cb_code wrong_next(cursor_gives gives, cb_error *err)
{
	static const char *const names[] = {
		[CURSOR_ENTRIES] = "entry",
		[CURSOR_NAMES] = "name",
		[CURSOR_STEPS] = "step",
		[CURSOR_CHANGES] = "change",
		[CURSOR_CHANGE_STATS] = "change_stat",
		[CURSOR_BLAME_LINES] = "blame",
		[CURSOR_CHECKPOINTS] = "checkpoint",
		[CURSOR_CONFLICTS] = "conflict",
		[CURSOR_BOXES] = "box",
		[CURSOR_AUDIT] = "audit",
		[CURSOR_USES] = "use",
		[CURSOR_GREP_LINES] = "grep",
	};
	return cb_err_set(err, CB_INVALID, "this cursor is one for cb_%s_next", names[gives]);
}

/* Most lists are ahead of what they gave: a page was read, the whole was collected. So one does not outlive the rules it was made by. */
static cb_code rules_hold(const cb_cursor *c, cb_error *err)
{
	if (c->rules == gate_version(c->cs)) return CB_OK;
	if (c->b) CB_TRY(box_hold(c->b, err)); /* who it is for may be changed by another thread */
	bool bound = gate_has_rules(c->cs, c->b);
	if (c->b) box_release(c->b);
	if (!bound) return CB_OK;
	return cb_err_set(err, CB_DENIED, "rules changed since this list was opened: open it again");
}

cb_code cursor_next_public(cb_cursor *c, cursor_gives gives, const void **out, cb_error *err)
{
	NEED(err, "cursor", c);
	if (c->ops->gives != gives) return wrong_next(c->ops->gives, err);
	if (c->era != store_fork_era())
		return cb_err_set(err, CB_FORKED, "a cursor stays with the process that opened it: open another in this one");
	CB_TRY(cancel_check(err));
	if (c->failed != CB_OK) return cb_err_pass(err, c->failed, &c->why);
	*out = NULL;
	if (c->ended) return CB_OK;
	cb_code code = rules_hold(c, cb_err_aside(&c->why));
	bool moved = code == CB_OK && !c->ops->resumes;
	if (code == CB_OK) code = c->ops->next(c, out, cb_err_aside(&c->why));
	if (cancel_is_code(code) && !moved) return cb_err_pass(err, code, &c->why);
	c->failed = code;
	c->ended = !*out;
	return code == CB_OK ? CB_OK : cb_err_pass(err, code, &c->why);
}

/* One public call for each kind of entry, so that the compiler tells them apart. */
#define NEXT(call, type, gives)                                          \
	cb_code call(cb_cursor *cursor, const type **out, cb_error *err) \
	{                                                                \
		const void *item = NULL;                                 \
		NEED(err, "cursor out", cursor, out);                    \
		CB_TRY(cursor_next_public(cursor, gives, &item, err));   \
		*out = item;                                             \
		return CB_OK;                                            \
	}
NEXT(cb_entry_next, cb_entry, CURSOR_ENTRIES)
NEXT(cb_name_next, cb_name, CURSOR_NAMES)
NEXT(cb_step_next, cb_step, CURSOR_STEPS)
NEXT(cb_change_next, cb_change, CURSOR_CHANGES)
NEXT(cb_change_stat_next, cb_change_stat, CURSOR_CHANGE_STATS)
NEXT(cb_blame_next, cb_blame_line, CURSOR_BLAME_LINES)
NEXT(cb_checkpoint_next, cb_checkpoint, CURSOR_CHECKPOINTS)
NEXT(cb_conflict_next, cb_conflict, CURSOR_CONFLICTS)
NEXT(cb_box_next, cb_box_info, CURSOR_BOXES)
NEXT(cb_audit_next, cb_audit, CURSOR_AUDIT)
NEXT(cb_use_next, cb_use, CURSOR_USES)

/* ---- lists in memory ---- */

static cb_code list_next(cb_cursor *c, const void **out, cb_error *err)
{
	(void)err;
	list_cursor *l = (list_cursor *)c;
	*out = l->next < l->items.size ? l->items.bytes + l->next : NULL;
	l->next += l->item_size;
	return CB_OK;
}

static void list_done(cb_cursor *c)
{
	list_cursor *l = (list_cursor *)c;
	for (size_t at = 0; l->item_done && at < l->items.size; at += l->item_size) l->item_done(l->items.bytes + at);
	buf_done(&l->items);
}

cb_code list_cursor_create(cursor_gives gives, size_t item_size, void (*item_done)(void *item), cb_store *cs, cb_box *b,
                           list_cursor **out, cb_error *err)
{
	static const cursor_ops ops[] = {
		[CURSOR_CHANGES] = {CURSOR_CHANGES, list_next, list_done, true},
		[CURSOR_CHECKPOINTS] = {CURSOR_CHECKPOINTS, list_next, list_done, true},
		[CURSOR_CONFLICTS] = {CURSOR_CONFLICTS, list_next, list_done, true},
		[CURSOR_BOXES] = {CURSOR_BOXES, list_next, list_done, true},
		[CURSOR_USES] = {CURSOR_USES, list_next, list_done, true},
	};
	CB_TRY(cursor_create(sizeof(**out), &ops[gives], cs, b, out, err));
	(*out)->item_size = item_size;
	(*out)->item_done = item_done;
	(*out)->items = BUF_INIT(SIZE_MAX);
	return CB_OK;
}
