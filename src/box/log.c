/*
 * log.c: the log of a box, a folder or a file. A file is followed by its place and its inode: through renames, and through editors that
 * save by writing a new file over the old name.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/gate.h"
#include "box/graft.h"

enum { PAGE = 64 };

/* As it may be told through the handle. What is withheld is as if it had not been given. */
static cb_code step_public(const cb_box *b, const step_row *r, cb_step *out, cb_error *err)
{
	cb_store *cs = b->cs;
	bool told = true;
	gate_touch touch = {.shown = true};
	*out = (cb_step){
		.struct_size = sizeof(*out),
		.seq = r->row.seq,
		.state = r->row.state,
		.kind = r->kind,
		.who = r->who,
		.params = r->params,
		.result = r->result,
		.params_size = r->params_size,
		.result_size = r->result_size,
		.started_ns = r->row.started_ns,
		.ended_ns = r->row.ended_ns,
		.changed = r->row.weight > 0,
		.target = r->row.target,
		.gap = r->row.gap,
	};
	step_other_name(cs, r->row.box, r->row.other_box, out->other);
	if (out->other[0]) out->other_seq = r->row.other_seq; /* a number of a box that nobody can name tells nothing */
	if (!gate_has_rules(cs, b)) return CB_OK;
	CB_TRY(gate_step_told(cs, r->row.box, b->who, r->row.seq, r->who, r->params, &told, err));
	if (!told) {
		out->params = out->result = "";
		out->params_size = out->result_size = 0;
	}
	cb_error why;
	cb_code code = gate_step_touch(cs, r->row.box, r->row.box, b->who, r->row.seq, &touch, cb_err_aside(&why));
	if (code != CB_OK && code != CB_STALE && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	out->changed = out->changed && touch.shown;
	return CB_OK;
}

static cb_code visit_seq(const cb_box *b, uint64_t seq, cb_step_visit visit, void *context, cb_error *err)
{
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(b->cs, b->row.id, seq, false, &r, err));
	cb_step step;
	CB_TRY(step_public(b, &r, &step, err));
	return visit(context, &step, err);
}

cb_code cb_step_get(cb_box *b, uint64_t seq, cb_step_visit visit, void *context, cb_error *err)
{
	NEED(err, "box visit", b, visit);
	CB_TRY(box_enter(b, err));
	cb_code code = visit_seq(b, seq, visit, context, err);
	return box_leave(b, code == CB_INTERRUPTED ? CB_OK : code);
}

/* ---- the whole box ---- */

typedef struct logging {
	cb_box *b;
	uint64_t left;
	cb_step_visit visit;
	void *context;
	bool pruned;
	bool ended; /* by the visitor or the count */
} logging;

static cb_code log_visit(logging *l, const step_row *r, cb_error *err)
{
	cb_step step;
	CB_TRY(step_public(l->b, r, &step, err));
	if (r->row.gap) l->pruned = true;
	cb_code code = l->visit(l->context, &step, err);
	l->ended = code != CB_OK || --l->left == 0;
	return code == CB_INTERRUPTED ? CB_OK : code;
}

static cb_code log_box(logging *l, uint64_t from, cb_error *err)
{
	step_row rows[PAGE];
	for (size_t count = 0; !l->ended;) {
		CB_TRY(step_page_load(l->b->cs, l->b->row.id, from, rows, PAGE, &count, err));
		cb_code code = CB_OK;
		for (size_t i = 0; i < count; i++) {
			if (code == CB_OK && !l->ended) code = log_visit(l, &rows[i], err);
			from = rows[i].row.seq;
			step_row_done(&rows[i]);
		}
		if (code != CB_OK) return code;
		if (count < PAGE || from == 0) return CB_OK;
		from--;
	}
	return CB_OK;
}

/* ---- one file ---- */

cb_code trail_start(trail *t, cb_box *b, const tree_view *v, const char *path, cb_error *err)
{
	resolved r;
	CB_TRY(path_resolve(b, v, path, 0, GATE_READ, &r, err));
	*t = (trail){.b = b, .cs = b->cs, .box = b->row.id, .seq = b->head->seq, .entry = key_entry(r.parent, resolved_name(&r))};
	t->known = r.exists;
	if (r.exists) t->ino = r.node.rec.ino;
	return CB_OK;
}

typedef struct trail_scan {
	const trail *t;
	bool touched;        /* the entry or the inode's record changed */
	bool appeared;       /* the entry did not exist, or named another inode, before */
	uint64_t ino_before; /* what the entry named before; 0: nothing */
	uint64_t ino_after;
	key came_from; /* where the inode left, in the same step; size 0: nowhere */
} trail_scan;

static cb_code entry_ino(span value, uint64_t *out, cb_error *err)
{
	entry e;
	*out = 0;
	if (!value.bytes) return CB_OK;
	CB_TRY(entry_decode(value, &e, err));
	*out = e.rec.ino;
	return CB_OK;
}

static cb_code scan_entry(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	trail_scan *s = context;
	key inode_key = key_inode(s->t->ino);
	if (s->t->known && span_equal(key_bytes, key_span(&inode_key))) s->touched = true;
	if (!span_equal(key_bytes, key_span(&s->t->entry))) return CB_OK;
	s->touched = true;
	CB_TRY(entry_ino(old_value, &s->ino_before, err));
	CB_TRY(entry_ino(new_value, &s->ino_after, err));
	s->appeared = s->ino_before != s->ino_after;
	return CB_OK;
}

/* Second look, for an entry that appeared: which entry gave the inode up? */
static cb_code scan_origin(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	trail_scan *s = context;
	if (key_bytes.bytes[0] != KIND_ENTRY) return CB_OK;
	uint64_t before = 0, after = 0;
	CB_TRY(entry_ino(old_value, &before, err));
	CB_TRY(entry_ino(new_value, &after, err));
	if (before != s->ino_after || after == before) return CB_OK;
	s->came_from.size = key_bytes.size;
	memcpy(s->came_from.bytes, key_bytes.bytes, key_bytes.size);
	return CB_INTERRUPTED;
}

/* The states around a step, as the handle shows them. */
typedef struct around {
	kept_state kept;
	state *earlier;
	veil *veils[2];
	tree_view before, after;
} around;

static cb_code around_open(around *a, const cb_box *b, uint64_t box, uint64_t seq, cb_error *err)
{
	CB_TRY(kept_load(&a->kept, b->cs, box, seq, KEPT_VISIT, err));
	CB_TRY(state_before_gap(b->cs, a->kept.s, &a->earlier, err));
	tree_view before = state_view(b->cs, a->earlier), after = state_view(b->cs, a->kept.s);
	CB_TRY(gate_view(b, &before, &a->veils[0], &a->before, err));
	return gate_view(b, &after, &a->veils[1], &a->after, err);
}

static void around_close(around *a)
{
	veil_destroy(a->veils[0]);
	veil_destroy(a->veils[1]);
	state_unref(a->earlier);
	kept_done(&a->kept);
}

/* By the rules of now: *touched becomes false when the file was hidden before and after the step, and one that came from where it was
 * hidden was made here, to who looks. */
static cb_code trail_veil(const trail *t, uint64_t seq, trail_scan *s, cb_error *err)
{
	ATTR_CLEANUP(around_close) around seen = {0};
	bool before = false, after = false, origin = false;
	CB_TRY(around_open(&seen, t->b, t->box, seq, err));
	CB_TRY(gate_shows(&seen.before, &t->entry, &before, err));
	CB_TRY(gate_shows(&seen.after, &t->entry, &after, err));
	if (s->came_from.size) CB_TRY(gate_shows(&seen.before, &s->came_from, &origin, err));
	s->touched = before || after;
	if (!origin) s->came_from.size = 0;
	return CB_OK;
}

static cb_code trail_step_back(trail *t, uint64_t seq, bool *touched, cb_error *err)
{
	trail_scan s = {.t = t};
	CB_TRY(step_changes(t->cs, t->box, seq, scan_entry, &s, err));
	if (s.appeared && s.ino_after) CB_TRY(step_changes(t->cs, t->box, seq, scan_origin, &s, err));
	if (s.touched && gate_has_rules(t->cs, t->b)) CB_TRY(trail_veil(t, seq, &s, err));
	*touched = s.touched;
	if (!s.appeared) return CB_OK;
	if (s.came_from.size && !s.ino_before) {
		t->entry = s.came_from; /* renamed to here: go on where it was */
		return CB_OK;
	}
	/* Replaced by another file, or created: go on with what had the name before. */
	t->ino = s.ino_before;
	t->known = s.ino_before != 0;
	return CB_OK;
}

cb_code trail_next(trail *t, uint64_t *out, cb_error *err)
{
	*out = 0;
	while (t->seq > 0) {
		key inode_key = key_inode(t->ino);
		uint64_t subjects[2] = {step_subject(key_span(&t->entry)), step_subject(key_span(&inode_key))};
		uint64_t seq = 0;
		bool touched = false;
		CB_TRY(step_last_touch(t->cs, t->box, subjects, t->known ? 2 : 1, t->seq, &seq, err));
		if (seq == 0) {
			t->seq = 0;
			return CB_OK;
		}
		t->seq = seq - 1;
		CB_TRY(trail_step_back(t, seq, &touched, err));
		if (!touched) continue; /* a hash that met another's */
		*out = seq;
		return CB_OK;
	}
	return CB_OK;
}

static cb_code log_file(logging *l, const tree_view *v, const char *path, uint64_t before, cb_error *err)
{
	trail t;
	CB_TRY(trail_start(&t, l->b, v, path, err));
	while (!l->ended) {
		uint64_t seq = 0;
		cb_error why;
		cb_code code = trail_next(&t, &seq, cb_err_aside(&why));
		if (code == CB_STALE) {
			l->pruned = true;
			return CB_OK;
		}
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (seq == 0) return CB_OK;
		if (seq > before) continue;
		AUTO_STEP_ROW step_row r = {0};
		CB_TRY(step_row_load(l->b->cs, l->b->row.id, seq, false, &r, err));
		CB_TRY(log_visit(l, &r, err));
	}
	return CB_OK;
}

/* ---- a folder ---- */

typedef struct below {
	cb_store *cs;
	const around *shown;  /* NULL: there are no rules */
	const tree_view *now; /* where most folders still are */
	uint64_t folder;
	uint64_t box, seq;
	kept_state then; /* loaded when a folder is not in `now` */
	bool found;
} below;

static cb_code ino_below(const tree_view *v, uint64_t ino, uint64_t folder, bool *known, bool *out, cb_error *err)
{
	uint8_t name[LIMIT_NAME_BYTES];
	size_t size;
	*known = true;
	climb up = climb_from(ino);
	while (up.at != folder && up.at != INO_ROOT) {
		cb_code code = climb_up(&up, v, name, &size, err);
		if (code == CB_NOTFOUND) {
			*known = false;
			return CB_OK;
		}
		if (code != CB_OK) return code;
	}
	*out = up.at == folder;
	return CB_OK;
}

/* Is a change of an entry one that may be told, by the rules of now? */
static cb_code change_shown(const below *w, span key_bytes, span old_value, span new_value, bool *out, cb_error *err)
{
	key k = {.size = key_bytes.size};
	bool touch = false;
	*out = true;
	memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
	/* A folder's times follow its entries: those that are hidden too. */
	CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch) *out = false;
	if (*out && old_value.bytes) CB_TRY(gate_shows(&w->shown->before, &k, out, err));
	if (*out && new_value.bytes) CB_TRY(gate_shows(&w->shown->after, &k, out, err));
	return CB_OK;
}

static cb_code below_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	below *w = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (parts.kind != KIND_ENTRY || parts.ino == 0) return CB_OK;
	bool known = false;
	if (w->shown) {
		bool told = false;
		CB_TRY(change_shown(w, key_bytes, old_value, new_value, &told, err));
		if (!told) return CB_OK;
	}
	CB_TRY(ino_below(w->now, parts.ino, w->folder, &known, &w->found, err));
	if (!known) {
		if (!w->then.s) {
			cb_error why;
			cb_code code = kept_load(&w->then, w->cs, w->box, w->seq - 1, KEPT_VISIT, cb_err_aside(&why));
			if (code == CB_STALE) return CB_OK;
			if (code != CB_OK) return cb_err_pass(err, code, &why);
		}
		tree_view then = state_view(w->cs, w->then.s);
		CB_TRY(ino_below(&then, parts.ino, w->folder, &known, &w->found, err));
	}
	return w->found ? CB_INTERRUPTED : CB_OK;
}

static cb_code log_folder(logging *l, const tree_view *v, uint64_t folder, uint64_t from, cb_error *err)
{
	bool rules = gate_has_rules(l->b->cs, l->b);
	for (uint64_t seq = from; seq > 0 && !l->ended; seq--) {
		ATTR_CLEANUP(around_close) around seen = {0};
		below w = {l->b->cs, rules ? &seen : NULL, v, folder, l->b->row.id, seq, {0}, false};
		cb_error why;
		cb_code code = rules ? around_open(&seen, l->b, l->b->row.id, seq, cb_err_aside(&why)) : CB_OK;
		if (code == CB_OK) code = step_changes(w.cs, w.box, seq, below_key, &w, cb_err_aside(&why));
		kept_done(&w.then);
		if (code == CB_STALE) {
			l->pruned = true;
			continue;
		}
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (!w.found) continue;
		AUTO_STEP_ROW step_row r = {0};
		CB_TRY(step_row_load(w.cs, w.box, seq, false, &r, err));
		CB_TRY(log_visit(l, &r, err));
	}
	return CB_OK;
}

/* ---- */

static cb_code log_run(logging *l, const cb_log_options *options, cb_error *err)
{
	uint64_t from = options->before ? options->before - 1 : l->b->head->seq;
	if (from > l->b->head->seq) from = l->b->head->seq;
	if (!options->path) return log_box(l, from, err);
	AUTO_SNAPSHOT snapshot now = {0};
	CB_TRY(snapshot_take(l->b, &now, err));
	resolved r;
	CB_TRY(path_resolve(l->b, &now.v, options->path, 0, GATE_READ, &r, err));
	if (r.exists && r.node.rec.ino == INO_ROOT) return log_box(l, from, err);
	if (r.exists && r.node.rec.type == CB_DIR) return log_folder(l, &now.v, r.node.rec.ino, from, err);
	return log_file(l, &now.v, options->path, from, err);
}

cb_code cb_log(cb_box *b, const cb_log_options *options, cb_step_visit visit, void *context, bool *out_pruned, cb_error *err)
{
	NEED(err, "box visit", b, visit);
	cb_log_options o;
	CB_TRY(SIZED_TAKE(cb_log_options, max_steps, &o, options, err));
	logging l = {.b = b, .left = o.max_steps ? o.max_steps : UINT64_MAX, .visit = visit, .context = context};
	CB_TRY(box_enter(b, err));
	cb_code code = log_run(&l, &o, err);
	if (code == CB_OK && out_pruned) *out_pruned = l.pruned;
	return box_leave(b, code);
}
