/*
 * kept.c: keeping states from prune and gc while somebody reads or works on them.
 *
 * Every state that is read outside the writer lock is either a `kept_state` (an old state that is open, a transaction's base, an open
 * file's last picture, what a visitor sees, a command's base), or it is the head that a call reads, which its handle shows from box_enter
 * to box_leave. Under the writer lock nothing can be removed, so whoever has it needs neither. src/store/inuse.h has the protocol.
 *
 * What must outlive its process is a pin: a row of the catalog.
 */
#include "base/args.h"
#include "box/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "box/cursor.h"
#include "box/history.h"

static cb_code show(cb_store *cs, store_use **use, const state *s, kept_why why, uint64_t seq, cb_error *err)
{
	/* A call is over before anybody could ask since when. */
	int64_t since = why == KEPT_CALL ? 0 : clock_now(store_clock(cs->s));
	return store_use_show(
		cs->s, use, &(store_used){.box = s->box, .seq = seq, .root = s->root, .since_ns = since, .why = (uint8_t)why}, err);
}

static void set(kept_state *h, state *s)
{
	state *old = h->s;
	h->s = state_ref(s);
	state_unref(old);
}

cb_code kept_set(kept_state *h, cb_store *cs, state *s, kept_why why, cb_error *err)
{
	h->cs = cs;
	if (h->s == s && store_use_is_shown(h->use)) return CB_OK;
	CB_TRY(show(cs, &h->use, s, why, s->seq, err));
	store_use_handed(cs->s);
	set(h, s);
	return CB_OK;
}

cb_code kept_load(kept_state *h, cb_store *cs, uint64_t box, uint64_t seq, kept_why why, cb_error *err)
{
	/* Only while it is shown in the table does what h holds stand, so only the first time. */
	const state *near = h->use && h->s && h->s->box == box && h->s->seq <= seq ? h->s : NULL;
	h->cs = cs;
	for (;; near = NULL) {
		AUTO_STATE state *s = NULL;
		uint64_t seen = 0;
		cb_code code = store_removal_wait(cs->s, &seen, err);
		if (code == CB_OK && near) code = state_load_near(cs, box, seq, near, &s, err);
		else if (code == CB_OK) code = state_load_known(cs, box, seq, &s, err);
		if (code == CB_OK) code = show(cs, &h->use, s, why, seq, err);
		if (code == CB_OK && !store_removal_is(cs->s, seen)) continue;
		if (code != CB_OK) store_use_end(cs->s, &h->use);
		else set(h, s);
		return code;
	}
}

cb_code kept_known(kept_state *h, cb_store *cs, state *known, kept_why why, cb_error *err)
{
	h->cs = cs;
	for (;;) {
		AUTO_STATE state *s = NULL;
		uint64_t seen = 0;
		cb_code code = store_removal_wait(cs->s, &seen, err);
		if (code == CB_OK) code = state_settle(cs, known, &s, err);
		if (code == CB_OK) code = show(cs, &h->use, s, why, s->seq, err);
		if (code == CB_OK && !store_removal_is(cs->s, seen)) continue;
		if (code != CB_OK) store_use_end(cs->s, &h->use);
		else set(h, s);
		return code;
	}
}

cb_code kept_history(kept_state *h, cb_store *cs, state *s, kept_why why, cb_error *err)
{
	h->cs = cs;
	CB_TRY(show(cs, &h->use, s, why, KEPT_ALL_STEPS, err));
	set(h, s);
	/* One who has read the table already may be removing steps: what is seen of them until he is done is not there afterwards. */
	uint64_t ignored;
	cb_code code = store_removal_wait(cs->s, &ignored, err);
	if (code != CB_OK) kept_done(h);
	return code;
}

void kept_done(kept_state *h)
{
	if (!h->cs) return;
	store_use_end(h->cs->s, &h->use);
	state_unref(h->s);
	*h = (kept_state){0};
}

/* ---- the head, during a call ---- */

cb_code kept_call(cb_box *b, cb_error *err)
{
	if (store_in_write(b->cs->s)) return CB_OK;
	return show(b->cs, &b->call, b->head, KEPT_CALL, b->head->seq, err);
}

void kept_call_end(cb_box *b)
{
	store_use_hide(b->call);
}

/* ---- for removers ---- */

typedef struct keepers {
	buf *seqs; /* uint64_t */
	bool *all;
} keepers;

static cb_code keeper_add(const keepers *k, uint64_t seq, cb_error *err)
{
	if (seq != KEPT_ALL_STEPS) return buf_append(k->seqs, &seq, sizeof(seq), err);
	*k->all = true;
	return CB_OK;
}

static cb_code keeper_of_pin(void *context, const store_pin *pin, cb_error *err)
{
	return keeper_add(context, pin->seq, err);
}

cb_code kept_uses(cb_store *cs, buf *out, cb_error *err)
{
	return store_in_write(cs->s) ? store_removal_begin(cs->s, out, err) : store_uses_read(cs->s, out, err);
}

cb_code kept_keepers(cb_store *cs, uint64_t box, buf *seqs, bool *out_all, cb_error *err)
{
	AUTO_BUF buf uses = BUF_INIT(SIZE_MAX);
	keepers k = {seqs, out_all};
	*out_all = false;
	CB_TRY(kept_uses(cs, &uses, err));
	const store_used *all = (const store_used *)(const void *)uses.bytes;
	for (size_t i = 0; i < uses.size / sizeof(*all); i++) {
		if (all[i].box == box) CB_TRY(keeper_add(&k, all[i].seq, err));
	}
	CB_TRY(store_pins_list(cs->s, box, keeper_of_pin, &k, err));
	if (seqs->size) qsort(seqs->bytes, seqs->size / sizeof(uint64_t), sizeof(uint64_t), u64_compare);
	return CB_OK;
}

cb_code kept_roots(cb_store *cs, buf *roots, cb_error *err)
{
	AUTO_BUF buf uses = BUF_INIT(SIZE_MAX);
	CB_TRY(store_write_begin(cs->s, err));
	cb_code code = store_pins_expire(cs->s, err);
	if (code == CB_OK) code = store_removal_begin(cs->s, &uses, err);
	code = store_write_end(cs->s, code, false, err);
	const store_used *all = (const store_used *)(const void *)uses.bytes;
	for (size_t i = 0; code == CB_OK && i < uses.size / sizeof(*all); i++)
		code = buf_append(roots, &all[i].root, sizeof(all[i].root), err);
	return code;
}

/* ---- pins ---- */

cb_code box_pins_set(cb_store *cs, const char *owner, const box_pin *pins, size_t count, cb_error *err)
{
	store_pin rows[BOX_PINS_MAX] = {0};
	int64_t now = clock_now(store_clock(cs->s));
	if (count > BOX_PINS_MAX) return cb_err_set(err, CB_INVALID, "an owner has at most %d pins", BOX_PINS_MAX);
	for (size_t i = 0; i < count; i++)
		rows[i] = (store_pin){.box = pins[i].box, .seq = pins[i].seq, .why = pins[i].why, .since_ns = now, .owner = owner};
	CB_TRY(store_write_begin(cs->s, err));
	return store_write_end(cs->s, store_pins_set(cs->s, owner, rows, count, err), false, err);
}

_Static_assert(__builtin_strcmp(BOX_WORK_OWNER, STORE_PIN_WORK) == 0, "what runs pin is what a backup leaves out");
_Static_assert(__builtin_strcmp(BOX_EARLIER_OWNER, STORE_PIN_EARLIER) == 0, "what the migration left is what recovery drops");

static cb_code pin_is(void *context, const store_pin *pin, cb_error *err)
{
	(void)err;
	if (strcmp(pin->owner, STORE_PIN_EARLIER) == 0) *(bool *)context = true;
	return CB_OK;
}

cb_code box_pins_earlier(cb_store *cs, bool *out, cb_error *err)
{
	*out = false;
	return store_pins_list(cs->s, 0, pin_is, out, err);
}

typedef struct sweeping {
	const char *prefix;
	buf owners; /* texts, each with its NUL */
} sweeping;

static cb_code collect_owner(void *context, const store_pin *pin, cb_error *err)
{
	sweeping *s = context;
	if (strncmp(pin->owner, s->prefix, strlen(s->prefix)) != 0) return CB_OK;
	return buf_append(&s->owners, pin->owner, strlen(pin->owner) + 1, err);
}

cb_code box_pins_sweep(cb_store *cs, const char *prefix, box_pin_wanted wanted, void *context, cb_error *err)
{
	sweeping s = {prefix, BUF_INIT(SIZE_MAX)};
	cb_code code = store_pins_list(cs->s, 0, collect_owner, &s, err);
	for (size_t at = 0; code == CB_OK && at < s.owners.size;) {
		const char *owner = (const char *)s.owners.bytes + at;
		if (!wanted(context, owner)) code = box_pins_set(cs, owner, NULL, 0, err);
		at += strlen(owner) + 1;
	}
	buf_done(&s.owners);
	return code;
}

static cb_code owner_check(const char *owner, cb_error *err)
{
	if (!owner || !*owner || strlen(owner) > CB_NAME_MAX)
		return cb_err_set(err, CB_INVALID, "the owner of a pin has 1 to %d bytes", CB_NAME_MAX);
	if (strncmp(owner, "cowbox.", 7) == 0)
		return cb_err_set(err, CB_RESERVED, "owners that begin with 'cowbox.' are the library's");
	return CB_OK;
}

static cb_code pin_in_write(cb_box *b, const char *owner, const char *why, int64_t keep_ns, cb_error *err)
{
	CB_TRY(box_refresh(b, err));
	int64_t now = clock_now(store_clock(b->cs->s));
	store_pin p = {.box = b->id, .seq = b->head->seq, .why = why, .since_ns = now, .owner = owner};
	if (keep_ns) p.until_ns = __builtin_add_overflow(now, keep_ns, &p.until_ns) ? 0 : p.until_ns;
	return store_pins_set(b->cs->s, owner, &p, 1, err);
}

cb_code cb_pin_set(cb_box *b, const char *owner, const char *why, int64_t keep_ns, cb_error *err)
{
	NEED(err, "box owner why", b, owner, why);
	CB_TRY(args_duration("keep_ns", keep_ns, err));
	if (strlen(why) > LIMIT_NAME_BYTES)
		return cb_err_set(err, CB_INVALID, "a pin's reason has at most %d bytes", LIMIT_NAME_BYTES);
	CB_TRY(owner_check(owner, err));
	CB_TRY(box_refuse_txn(b, "a pin", err));
	CB_TRY(box_enter(b, err));
	cb_code code = box_flush(b, false, err);
	if (code == CB_OK) code = box_write_begin(b, STORE_GROWS, err);
	if (code != CB_OK) return box_leave(b, code);
	code = pin_in_write(b, owner, why, keep_ns, err);
	return box_leave(b, store_write_end(b->cs->s, code, false, err));
}

cb_code cb_pin_drop(cb_store *cs, const char *owner, cb_error *err)
{
	NEED(err, "store owner", cs, owner);
	CB_TRY(owner_check(owner, err));
	return box_pins_set(cs, owner, NULL, 0, err);
}

/* ---- what is kept, for whoever wants to know ---- */

static const char *const reasons[] = {
	[KEPT_CALL] = "call",     [KEPT_OPEN] = "open state", [KEPT_TXN] = "transaction", [KEPT_FILE] = "open file",
	[KEPT_VISIT] = "listing", [KEPT_COMMAND] = "command", [KEPT_PACK] = "pack",
};

typedef struct use_row {
	cb_use u;
	char *why, *owner; /* of a pin; NULL: a constant, and none */
} use_row;

static void use_done(void *item)
{
	use_row *row = item;
	free(row->why);
	free(row->owner);
}

typedef struct listing {
	cb_store *cs;
	buf *rows; /* use_row */
} listing;

static cb_code row_add(const listing *l, use_row *row, cb_error *err)
{
	cb_code code = buf_append(l->rows, row, sizeof(*row), err);
	if (code != CB_OK) use_done(row);
	return code;
}

static cb_code collect_pin(void *context, const store_pin *pin, cb_error *err)
{
	use_row row = {.why = mem_strdup(pin->why), .owner = mem_strdup(pin->owner)};
	if (!row.why || !row.owner) {
		use_done(&row);
		return cb_err_nomem(err);
	}
	bool whole = pin->seq == KEPT_ALL_STEPS;
	row.u = (cb_use){.struct_size = sizeof(row.u),
	                 .seq = whole ? 0 : pin->seq,
	                 .all_steps = whole,
	                 .pinned = true,
	                 .why = row.why,
	                 .since_ns = pin->since_ns,
	                 .until_ns = pin->until_ns,
	                 .owner = row.owner};
	/* Its box's number, until the name is looked up: not while the rows of pins are read. */
	memcpy(row.u.box, &pin->box, sizeof(pin->box));
	return row_add(context, &row, err);
}

static cb_code collect_uses(const listing *l, cb_error *err)
{
	AUTO_BUF buf uses = BUF_INIT(SIZE_MAX);
	CB_TRY(store_uses_read(l->cs->s, &uses, err));
	const store_used *all = (const store_used *)(const void *)uses.bytes;
	for (size_t i = 0; i < uses.size / sizeof(*all); i++) {
		bool whole = all[i].seq == KEPT_ALL_STEPS;
		use_row row = {.u = {.struct_size = sizeof(row.u),
		                     .seq = whole ? 0 : all[i].seq,
		                     .all_steps = whole,
		                     .why = all[i].why < ARRAY_LEN(reasons) ? reasons[all[i].why] : "unknown",
		                     .pid = (int64_t)all[i].pid,
		                     .since_ns = all[i].since_ns}};
		memcpy(row.u.box, &all[i].box, sizeof(all[i].box));
		CB_TRY(row_add(l, &row, err));
	}
	return CB_OK;
}

/* Names in place of the numbers of boxes; what is of no box (garbled, or gone since) goes. */
static cb_code name_boxes(const listing *l, cb_error *err)
{
	use_row *all = (use_row *)(void *)l->rows->bytes;
	size_t count = l->rows->size / sizeof(*all), kept = 0;
	cb_code code = CB_OK;
	for (size_t i = 0; i < count; i++) {
		uint64_t box;
		store_box row = {0};
		cb_error why;
		memcpy(&box, all[i].u.box, sizeof(box));
		cb_code found = code == CB_OK ? store_box_get(l->cs->s, box, &row, cb_err_aside(&why)) : CB_NOTFOUND;
		if (found != CB_OK && found != CB_NOTFOUND) code = cb_err_pass(err, found, &why);
		memcpy(all[i].u.box, row.name, sizeof(all[i].u.box));
		if (found == CB_OK) all[kept++] = all[i];
		else use_done(&all[i]);
	}
	l->rows->size = kept * sizeof(*all);
	return code;
}

cb_code cb_use_open(cb_store *cs, cb_cursor **out, cb_error *err)
{
	list_cursor *list = NULL;
	NEED(err, "store out", cs, out);
	CB_TRY(list_cursor_create(CURSOR_USES, sizeof(use_row), use_done, cs, NULL, &list, err));
	listing l = {cs, &list->items};
	cb_code code = collect_uses(&l, err);
	if (code == CB_OK) code = store_pins_list(cs->s, 0, collect_pin, &l, err);
	if (code == CB_OK) code = name_boxes(&l, err);
	if (code == CB_OK) *out = &list->c;
	else cb_cursor_close(&list->c);
	return code;
}

cb_code cb_store_uses(cb_store *cs, cb_use_visit visit, void *context, cb_error *err)
{
	NEED(err, "store visit", cs, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_use_open(cs, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}
