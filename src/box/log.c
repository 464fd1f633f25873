/*
 * log.c: the log of a box, a folder or a file. A file is followed by its place and its inode: through renames, and through editors that
 * save by writing a new file over the old name.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/graft.h"

enum { PAGE = 64 };

static void step_public(cb_store *cs, const step_row *r, cb_step *out)
{
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
}

static cb_code visit_seq(cb_store *cs, uint64_t box, uint64_t seq, cb_step_visit visit, void *context, cb_error *err)
{
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(cs, box, seq, false, &r, err));
	cb_step step;
	step_public(cs, &r, &step);
	return visit(context, &step, err);
}

cb_code cb_step_get(cb_box *b, uint64_t seq, cb_step_visit visit, void *context, cb_error *err)
{
	NEED(err, "box visit", b, visit);
	CB_TRY(box_enter(b, err));
	cb_code code = visit_seq(b->cs, b->row.id, seq, visit, context, err);
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
	step_public(l->b->cs, r, &step);
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
	*t = (trail){.cs = b->cs, .box = b->row.id, .seq = b->head->seq, .entry = key_entry(r.parent, resolved_name(&r))};
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

static cb_code trail_step_back(trail *t, uint64_t seq, bool *touched, cb_error *err)
{
	trail_scan s = {.t = t};
	CB_TRY(step_changes(t->cs, t->box, seq, scan_entry, &s, err));
	*touched = s.touched;
	if (!s.appeared) return CB_OK;
	if (s.ino_after) CB_TRY(step_changes(t->cs, t->box, seq, scan_origin, &s, err));
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

static cb_code below_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	(void)new_value;
	below *w = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (parts.kind != KIND_ENTRY || parts.ino == 0) return CB_OK;
	bool known = false;
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
	for (uint64_t seq = from; seq > 0 && !l->ended; seq--) {
		below w = {l->b->cs, v, folder, l->b->row.id, seq, {0}, false};
		cb_error why;
		cb_code code = step_changes(w.cs, w.box, seq, below_key, &w, cb_err_aside(&why));
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
