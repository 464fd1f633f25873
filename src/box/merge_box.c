/*
 * merge_box.c: merging one box into another.
 *
 * The caller's `resolve` may think for as long as it likes, so it never runs under the writer lock: the merge is made over pinned states
 * without any lock of the store, asks there, and is committed if the box's head is still the state it was made for. If not, it is made
 * again; answers are kept, so that nobody is asked twice about a path. After some lost races the lock is held while the merge is made;
 * a conflict that is new then is asked about in one more round without the lock.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/gate.h"
#include "box/history.h"
#include "box/merge_base.h"

#include <stdio.h>

enum {
	OPEN_ROUNDS = 3,    /* without the lock, before it is held */
	LOCKED_ROUNDS = 16, /* each found conflicts that were not there before: somebody changes the same files all the time */
};

typedef struct merging {
	cb_box *into, *from;
	const char *from_name;
	state *theirs;
	const cb_merge_options *options;
	merge_conflicts conflicts;
	uint64_t seq; /* of the step, once there is one */
} merging;

/* What theirs changed, as both handles show it: edges say that all of it was merged, so that it cannot be done in part, and conflicts are
 * told by name. */
typedef struct incoming {
	tree_view base, ours, theirs; /* as `into` shows them */
	tree_view sent;               /* theirs, as `from` shows it */
	tree_view all[3];
} incoming;

static cb_code incoming_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	const incoming *c = context;
	const tree_view *const shown[] = {&c->base, &c->ours, &c->theirs, &c->sent};
	const tree_view *const there[] = {&c->all[0], &c->all[1], &c->all[2], &c->all[2]};
	(void)old_value;
	(void)new_value;
	if (key_bytes.bytes[0] == KIND_COUNTERS) return CB_OK;
	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		key k = {.size = key_bytes.size};
		bool has = false, shows = false;
		memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
		CB_TRY(gate_shows(there[i], &k, &has, err));
		if (has) CB_TRY(gate_shows(shown[i], &k, &shows, err));
		if (has && !shows)
			return cb_err_set(err, CB_DENIED, "it would bring what a rule keeps from one of the two handles");
	}
	return CB_OK;
}

static cb_code incoming_check(const merging *g, const tree_view *base, const tree_view *ours, const tree_view *theirs,
                              cb_error *err)
{
	if (!gate_has_rules(g->into->cs, g->into) && !gate_has_rules(g->into->cs, g->from)) return CB_OK;
	AUTO_VEIL veil *b = NULL, *o = NULL, *t = NULL, *s = NULL;
	incoming c = {.all = {*base, *ours, *theirs}};
	CB_TRY(gate_view(g->into, base, &b, &c.base, err));
	CB_TRY(gate_view(g->into, ours, &o, &c.ours, err));
	CB_TRY(gate_view(g->into, theirs, &t, &c.theirs, err));
	CB_TRY(gate_view(g->from, theirs, &s, &c.sent, err));
	return tree_diff(base, theirs, incoming_key, &c, err);
}

/* Into t, whose base is ours. CB_CONFLICT: some are open. */
static cb_code merge_compute(merging *g, txn *t, state *ours, state *theirs, cb_error *err)
{
	cb_store *cs = g->into->cs;
	merge_base base;
	merge_conflicts *c = &g->conflicts;
	merge_conflicts_again(c);
	CB_TRY(merge_base_find(g->into, ours, theirs, &base, err));
	tree_view vb = merge_base_view(cs, &base), vo = state_view(cs, ours), vt = state_view(cs, theirs);
	merge_sides sides = {.base = &vb, .ours = &vo, .theirs = &vt, .disputed = &base.disputed};
	cb_code code = incoming_check(g, &vb, &vo, &vt, err);
	merge_base_lend(&base, t);
	if (code == CB_OK) code = merge_sides_into(t, &sides, c, err);
	merge_base_return(&base, t);
	bool unchanged =
		!base.t && base.first->id == ours->id; /* nobody changed ours since: what theirs did not bring it has not */
	merge_base_done(&base);
	t->other_box = theirs->box;
	t->other_seq = theirs->seq;
	t->rebases = true;
	t->record = true; /* also an empty merge moves the base of the next one */
	/* It merged ours, and that brought it what ours has: when ours knows the rest too, the two have come to rest. */
	bool known = false;
	if (code == CB_OK && unchanged && !c->count && pmap_count(&t->delta) == 0)
		code = past_knows(cs, (past_point){ours->box, ours->seq}, (past_point){theirs->box, theirs->seq}, false, &known,
		                  err);
	if (known) return cb_err_set(err, CB_NOTHING, "there is nothing new to merge");
	if (code != CB_OK || !c->open) return code;
	char count[48];
	(void)snprintf(count, sizeof(count), "%llu conflict%s", (unsigned long long)c->open, c->open == 1 ? "" : "s");
	return merge_conflicts_error(c, count, err);
}

/* For who only wants to know: a commit asks by itself. */
static cb_code merge_fits(const merging *g, txn *t, cb_error *err)
{
	txn_quotas_set(t, &g->into->row);
	return txn_quotas_hold(t, err);
}

typedef enum round_end {
	ROUND_DONE,    /* merged, or it cannot be: the code says it */
	ROUND_AGAIN,   /* the head has moved meanwhile */
	ROUND_TO_LOCK, /* something that only counts when it happens under the lock */
} round_end;

static cb_code commit_open(merging *g, txn *t, round_end *end, cb_error *err)
{
	cb_commit_result result = {0};
	bool moved = false;
	cb_code code = txn_commit_exact(g->into, t, &moved, &result, err);
	*end = moved ? ROUND_AGAIN : code == CB_STALE ? ROUND_TO_LOCK : ROUND_DONE;
	if (code != CB_OK || moved) return code;
	g->seq = result.seq;
	/* Open files know theirs as the merge left them: others may remove them, and prune, before this handle is used again. */
	if (g->into->files.all) box_committed(g->into);
	return CB_OK;
}

/* One round without the writer lock. ask_only: for the answers, not to commit. */
static cb_code round_open(merging *g, bool ask_only, round_end *end, cb_error *err)
{
	cb_box *b = g->into;
	*end = ROUND_TO_LOCK;
	CB_TRY(box_enter(b, err));
	cb_code code = box_flush(b, false, err);
	if (code != CB_OK || b->pinned || b->txn) return box_leave(b, code); /* refused where all such calls are */
	AUTO_TXN txn *t = NULL;
	code = txn_create_unlocked(b, "merge", g->from_name, &t, err);
	if (code == CB_OK) {
		AUTO_STATE state *ours = state_ref(t->base);
		g->conflicts.ask_nobody = false;
		code = merge_compute(g, t, ours, g->theirs, err);
		bool answer =
			code == CB_CONFLICT || code == CB_DENIED || code == CB_NOTHING || code == CB_INVALID || code == CB_LIMIT;
		bool dry = code == CB_OK && g->options && g->options->dry_run;
		if (answer || dry) *end = ROUND_DONE;
		if (dry) code = merge_fits(g, t, err);
		else if (code == CB_OK && ask_only) *end = ROUND_AGAIN;
		else if (code == CB_OK) code = commit_open(g, t, end, err);
	}
	if (*end == ROUND_DONE) code = box_refused(b, "merge", g->from_name, code, err);
	return box_leave(b, code);
}

/* One round under the writer lock. *unasked: a conflict came up that `resolve` was not asked about; nothing was done. */
static cb_code round_locked(merging *g, bool *unasked, cb_error *err)
{
	op o;
	cb_commit_result result = {0};
	*unasked = false;
	CB_TRY(op_begin(&o, g->into, "merge", g->from_name, err));
	AUTO_STATE state *theirs = NULL;
	/* The handle's own may stand on a root that gc has replaced by another since. */
	cb_code code = state_settle(g->into->cs, g->theirs, &theirs, err);
	g->conflicts.ask_nobody = true;
	if (code == CB_OK) code = merge_compute(g, o.t, g->into->head, theirs, err);
	*unasked = code == CB_CONFLICT && g->conflicts.unasked;
	bool dry = code == CB_OK && g->options && g->options->dry_run;
	if (dry) code = merge_fits(g, o.t, err);
	if ((dry && code == CB_OK) || *unasked) code = CB_INTERRUPTED;
	code = op_end(&o, code, &result, err);
	if (code == CB_OK) g->seq = result.seq;
	return code == CB_INTERRUPTED ? CB_OK : code;
}

static cb_code merge_rounds(merging *g, cb_error *err)
{
	round_end end;
	for (int i = 0; i < OPEN_ROUNDS; i++) {
		cb_error why = {0};
		cb_code code = round_open(g, false, &end, &why);
		if (end == ROUND_DONE && code != CB_OK && err) *err = why;
		if (end == ROUND_DONE) return code;
		if (end == ROUND_TO_LOCK) break;
	}
	for (int i = 0; i < LOCKED_ROUNDS; i++) {
		bool unasked = false;
		cb_error why = {0};
		cb_code code = round_locked(g, &unasked, &why);
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (!unasked) return CB_OK;
		code = round_open(g, true, &end, &why);
		if (end == ROUND_DONE && code != CB_OK && err) *err = why;
		if (end == ROUND_DONE) return code;
	}
	char name[CB_NAME_MAX + 1];
	CB_TRY(box_name_get(g->into, name, err));
	return cb_err_set(err, CB_BUSY, "box '%s' is changed faster than conflicts are decided: try again", name);
}

cb_code cb_merge(cb_box *into, cb_box *from, const cb_merge_options *options, uint64_t *out_seq, uint64_t *out_conflicts,
                 cb_error *err)
{
	NEED(err, "into from", into, from);
	BOX_STAYS(into);
	BOX_STAYS(from);
	cb_merge_options o;
	CB_TRY(SIZED_TAKE(cb_merge_options, dry_run, &o, options, err));
	CB_TRY(args_member("prefer", (int)o.prefer, CB_PREFER_NONE, CB_PREFER_THEIRS, err));
	if (into->cs != from->cs) return cb_err_set(err, CB_CROSSBOX, "both boxes must be opened through one store");
	CB_TRY(box_refuse_txn(into, "merge", err));
	CB_TRY(box_refuse_txn(from, "merge", err));
	if (into == from || (into->id == from->id && !from->pinned))
		return cb_err_set(err, CB_INVALID, "a box cannot be merged into itself");
	AUTO_KEPT kept_state theirs = {0};
	char name[CB_NAME_MAX + 1];
	CB_TRY(box_enter(from, err));
	cb_code code = box_flush(from, false, err);
	if (code == CB_OK) code = kept_set(&theirs, from->cs, from->head, KEPT_VISIT, err);
	(void)snprintf(name, sizeof(name), "%s", box_called(from, &from->row));
	CB_TRY(box_leave(from, code));
	merging g = {.into = into, .from = from, .from_name = name, .theirs = theirs.s, .options = &o};
	g.conflicts = (merge_conflicts){.options = &o, .list = BUF_INIT(CONFLICT_LIST_BYTES)};
	code = merge_rounds(&g, err);
	if (out_conflicts && (code == CB_OK || code == CB_CONFLICT)) *out_conflicts = g.conflicts.open;
	if (code == CB_OK && out_seq) *out_seq = g.seq; /* 0: it was a dry run */
	merge_conflicts_done(&g.conflicts);
	return code;
}
