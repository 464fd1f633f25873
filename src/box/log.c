/*
 * log.c: the log of a box, a folder or a file. A file is followed by its place and its inode: through renames, and through editors that
 * save by writing a new file over the old name.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/cursor.h"
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

/* ---- cursors ---- */

typedef enum log_of { LOG_BOX, LOG_FILE, LOG_FOLDER } log_of;

/* While it is open no step of the box is pruned. */
typedef struct log_cursor {
	cb_cursor c;
	kept_state history;
	snapshot now; /* of a path */
	log_of of;
	uint64_t box;
	uint64_t from; /* the next step to look at, downwards; of a file the newest that is wanted */
	uint64_t left; /* so many are still to be given */
	bool over;     /* step 0 was looked at */
	bool pruned;
	trail file;
	uint64_t folder;
	step_row rows[PAGE]; /* read, and from `at` on still to be given */
	size_t count, at;
	step_row row; /* of a path: what was given last */
	cb_step step;
} log_cursor;

static cb_code log_give(log_cursor *l, const step_row *r, const void **out, cb_error *err)
{
	CB_TRY(step_public(l->c.b, r, &l->step, err));
	l->pruned = l->pruned || r->row.gap;
	l->left--;
	*out = &l->step;
	return CB_OK;
}

static void page_clear(log_cursor *l)
{
	for (size_t i = 0; i < l->count; i++) step_row_done(&l->rows[i]);
	l->count = l->at = 0;
}

static cb_code log_next_step(log_cursor *l, const void **out, cb_error *err)
{
	if (l->at == l->count) {
		page_clear(l);
		if (l->over) return CB_OK;
		CB_TRY(step_page_load(l->c.cs, l->box, l->from, l->rows, PAGE, &l->count, err));
		uint64_t last = l->count ? l->rows[l->count - 1].row.seq : 0;
		l->over = l->count < PAGE || last == 0;
		l->from = last - 1;
		if (l->count == 0) return CB_OK;
	}
	return log_give(l, &l->rows[l->at++], out, err);
}

static cb_code log_give_seq(log_cursor *l, uint64_t seq, const void **out, cb_error *err)
{
	step_row_done(&l->row);
	CB_TRY(step_row_load(l->c.cs, l->box, seq, false, &l->row, err));
	return log_give(l, &l->row, out, err);
}

static cb_code log_next_of_file(log_cursor *l, const void **out, cb_error *err)
{
	for (;;) {
		uint64_t seq = 0;
		cb_error why;
		cb_code code = trail_next(&l->file, &seq, cb_err_aside(&why));
		if (code == CB_STALE) {
			l->pruned = true;
			return CB_OK;
		}
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (seq == 0) return CB_OK;
		if (seq <= l->from) return log_give_seq(l, seq, out, err);
	}
}

static cb_code log_next_below(log_cursor *l, const void **out, cb_error *err)
{
	bool rules = gate_has_rules(l->c.cs, l->c.b);
	while (l->from > 0) {
		uint64_t seq = l->from--;
		ATTR_CLEANUP(around_close) around seen = {0};
		below w = {l->c.cs, rules ? &seen : NULL, &l->now.v, l->folder, l->box, seq, {0}, false};
		cb_error why;
		cb_code code = rules ? around_open(&seen, l->c.b, l->box, seq, cb_err_aside(&why)) : CB_OK;
		if (code == CB_OK) code = step_changes(w.cs, w.box, seq, below_key, &w, cb_err_aside(&why));
		kept_done(&w.then);
		if (code == CB_STALE) l->pruned = true;
		else if (code != CB_OK) return cb_err_pass(err, code, &why);
		else if (w.found) return log_give_seq(l, seq, out, err);
	}
	return CB_OK;
}

static cb_code log_next_any(log_cursor *l, const void **out, cb_error *err)
{
	switch (l->of) {
	case LOG_BOX:
		return log_next_step(l, out, err);
	case LOG_FILE:
		return log_next_of_file(l, out, err);
	case LOG_FOLDER:
		return log_next_below(l, out, err);
	}
	return CB_OK;
}

static cb_code log_next(cb_cursor *c, const void **out, cb_error *err)
{
	log_cursor *l = (log_cursor *)c;
	*out = NULL;
	if (l->left == 0) return CB_OK;
	if (!c->cs->gate) return log_next_any(l, out, err);
	/* The gate is asked for whom the handle is, which others may change meanwhile. */
	CB_TRY(cancel_lock(&c->b->lock, "for the box handle", err));
	cb_code code = log_next_any(l, out, err);
	(void)pthread_mutex_unlock(&c->b->lock);
	return code;
}

static void log_done(cb_cursor *c)
{
	log_cursor *l = (log_cursor *)c;
	page_clear(l);
	step_row_done(&l->row);
	snapshot_done(&l->now);
	kept_done(&l->history);
}

static const cursor_ops log_ops = {CURSOR_STEPS, log_next, log_done};

static cb_code log_start_path(log_cursor *l, cb_box *b, const char *path, cb_error *err)
{
	resolved r;
	CB_TRY(snapshot_take(b, &l->now, err));
	CB_TRY(path_resolve(b, &l->now.v, path, 0, GATE_READ, &r, err));
	if (r.exists && r.node.rec.ino == INO_ROOT) return CB_OK;
	l->of = r.exists && r.node.rec.type == CB_DIR ? LOG_FOLDER : LOG_FILE;
	l->folder = r.exists ? r.node.rec.ino : 0;
	return l->of == LOG_FILE ? trail_start(&l->file, b, &l->now.v, path, err) : CB_OK;
}

static cb_code log_start(log_cursor *l, cb_box *b, const cb_log_options *options, cb_error *err)
{
	l->box = b->row.id;
	l->left = options->max_steps ? options->max_steps : UINT64_MAX;
	l->from = options->before ? options->before - 1 : b->head->seq;
	if (l->from > b->head->seq) l->from = b->head->seq;
	CB_TRY(kept_history(&l->history, b->cs, b->head, KEPT_VISIT, err));
	return options->path ? log_start_path(l, b, options->path, err) : CB_OK;
}

cb_code cb_log_open(cb_box *b, const cb_log_options *options, cb_cursor **out, cb_error *err)
{
	log_cursor *l = NULL;
	cb_log_options o;
	NEED(err, "box out", b, out);
	CB_TRY(SIZED_TAKE(cb_log_options, max_steps, &o, options, err));
	CB_TRY(box_enter(b, err));
	cb_code code = cursor_create(sizeof(*l), &log_ops, b->cs, b, &l, err);
	if (code == CB_OK) code = log_start(l, b, &o, err);
	(void)box_leave(b, CB_OK);
	if (code == CB_OK) *out = &l->c;
	else cb_cursor_close(l ? &l->c : NULL);
	return code;
}

cb_code cb_log_pruned(cb_cursor *c, bool *out, cb_error *err)
{
	NEED(err, "cursor out", c, out);
	if (c->ops != &log_ops) return cb_err_set(err, CB_INVALID, "this needs a cursor of cb_log_open");
	*out = ((log_cursor *)c)->pruned;
	return CB_OK;
}

cb_code cb_log(cb_box *b, const cb_log_options *options, cb_step_visit visit, void *context, bool *out_pruned, cb_error *err)
{
	NEED(err, "box visit", b, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_log_open(b, options, &c, err));
	for (;;) {
		const void *step = NULL;
		CB_TRY(cursor_next(c, &step, err));
		cb_code code = step ? visit(context, step, err) : CB_INTERRUPTED;
		if (code == CB_OK) continue;
		if (code == CB_INTERRUPTED && out_pruned) *out_pruned = ((log_cursor *)c)->pruned;
		return code == CB_INTERRUPTED ? CB_OK : code;
	}
}
