/*
 * log.c: the log of a box, or of a path. A path is followed back by its place and its inode: through renames, from a further name of a file
 * to those it had, and through editors that save by writing a new file over the old name, but not where that one only moved (an exchange
 * covers nothing); also when it is gone, and, before it was made, to what had its name earlier, in folders that are gone. While it is a
 * folder, whatever changed below it belongs to it.
 */
#include "base/args.h"
#include "base/id_set.h"
#include "base/sized.h"
#include "box/cursor.h"
#include "box/gate.h"
#include "box/graft.h"

#include <stdio.h>

enum { PAGE = 64 };

/* As it may be told through the handle. What is withheld is as if it had not been given. */
static cb_code step_public(const cb_box *b, gate_past *past, const step_row *r, cb_step *out, cb_error *err)
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
	out->foreign = out->other[0] && step_other_is_foreign(r->row.other_box);
	if (out->other[0]) out->other_seq = r->row.other_seq; /* a number of a box that nobody can name tells nothing */
	if (!gate_has_rules(cs, b)) return CB_OK;
	CB_TRY(gate_step_told(past, cs, r->row.box, b->who, r->row.seq, r->who, r->params, &told, &touch, err));
	if (!told) {
		out->params = out->result = "";
		out->params_size = out->result_size = 0;
	}
	out->changed = out->changed && touch.shown;
	return CB_OK;
}

static cb_code visit_seq(const cb_box *b, uint64_t seq, cb_step_visit visit, void *context, cb_error *err)
{
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(b->cs, b->id, seq, false, &r, err));
	cb_step step;
	CB_TRY(step_public(b, NULL, &r, &step, err));
	cb_error told;
	return cb_err_visited(visit(context, &step, cb_err_aside(&told)), &told, err);
}

cb_code cb_step_get(cb_box *b, uint64_t seq, cb_step_visit visit, void *context, cb_error *err)
{
	NEED(err, "box visit", b, visit);
	CB_TRY(box_enter(b, err));
	cb_code code = visit_seq(b, seq, visit, context, err);
	return box_leave(b, code == CB_INTERRUPTED ? CB_OK : code);
}

/* ---- the trail of a path ---- */

static void trail_at(trail *t, const resolved *r)
{
	t->entry = key_entry(r->parent, resolved_name(r));
	t->known = r->exists;
	t->ino = r->exists ? r->node.rec.ino : 0;
	t->is_dir = r->exists && r->node.rec.type == CB_DIR;
}

cb_code trail_start(trail *t, cb_box *b, const tree_view *v, const char *path, cb_error *err)
{
	resolved r;
	CB_TRY(path_resolve(b, v, path, 0, GATE_READ, &r, err));
	*t = (trail){.b = b, .cs = b->cs, .box = b->id, .seq = b->head->seq};
	trail_at(t, &r);
	return CB_OK;
}

typedef struct trail_scan {
	const trail *t;
	bool touched;        /* the entry or the inode's record changed */
	bool appeared;       /* the entry did not exist, or named another inode, before */
	uint64_t ino_before; /* what the entry named before; 0: nothing */
	uint64_t ino_after;
	bool dir_before;
	bool linked;   /* the inode had a name before */
	key came_from; /* where it was; size 0: nowhere */
	key aside;     /* where the step put what the entry named before; size 0: nowhere, it was covered */
} trail_scan;

static cb_code entry_ino(span value, uint64_t *out, bool *is_dir, cb_error *err)
{
	entry e;
	*out = 0;
	*is_dir = false;
	if (!value.bytes) return CB_OK;
	CB_TRY(entry_decode(value, &e, err));
	*out = e.rec.ino;
	*is_dir = !e.is_link && e.rec.type == CB_DIR;
	return CB_OK;
}

static cb_code scan_entry(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	trail_scan *s = context;
	bool touch = false, is_dir = false;
	key inode_key = key_inode(s->t->ino);
	if (s->t->known && span_equal(key_bytes, key_span(&inode_key))) s->touched = true;
	if (!span_equal(key_bytes, key_span(&s->t->entry))) return CB_OK;
	CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch) return CB_OK;
	s->touched = true;
	CB_TRY(entry_ino(old_value, &s->ino_before, &s->dir_before, err));
	CB_TRY(entry_ino(new_value, &s->ino_after, &is_dir, err));
	s->appeared = s->ino_before != s->ino_after;
	return CB_OK;
}

static void key_take(key *k, span key_bytes)
{
	k->size = key_bytes.size;
	memcpy(k->bytes, key_bytes.bytes, key_bytes.size);
}

/* Second look, for an entry that appeared: which entry had the inode? It gave it up, or no longer holds its record (for the first further
 * name). And which has now what this one named before? */
static cb_code scan_origin(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	trail_scan *s = context;
	uint64_t before = 0, after = 0;
	bool is_dir;
	key inode_key = key_inode(s->ino_after);
	if (old_value.bytes && span_equal(key_bytes, key_span(&inode_key))) s->linked = true;
	if (key_bytes.bytes[0] != KIND_ENTRY) return CB_OK;
	CB_TRY(entry_ino(old_value, &before, &is_dir, err));
	CB_TRY(entry_ino(new_value, &after, &is_dir, err));
	if (before == s->ino_after && !s->came_from.size) key_take(&s->came_from, key_bytes);
	if (s->ino_before && after == s->ino_before && before != after) key_take(&s->aside, key_bytes);
	return s->came_from.size && (!s->ino_before || s->aside.size) ? CB_INTERRUPTED : CB_OK;
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

static cb_code take_name(void *context, span key_bytes, span value, cb_error *err)
{
	key_parts parts;
	(void)value;
	CB_TRY(key_parse(key_bytes, &parts, err));
	*(key *)context = key_entry(parts.parent, parts.name);
	return CB_INTERRUPTED;
}

/* A further name of a file that has several, none of which changed: its history is that of any of them. */
static cb_code scan_names(const trail *t, uint64_t seq, trail_scan *s, cb_error *err)
{
	AUTO_KEPT kept_state after = {0};
	AUTO_STATE state *before = NULL;
	CB_TRY(kept_load(&after, t->cs, t->box, seq, KEPT_VISIT, err));
	CB_TRY(state_before_gap(t->cs, after.s, &before, err));
	tree_view v = state_view(t->cs, before);
	return inode_keys(&v, s->ino_after, KIND_NAME, take_name, &s->came_from, err);
}

/* By the rules of now: *touched becomes false when the file was hidden before and after the step; one that came from where it was hidden
 * was made here, to who looks, and one that went to where it is hidden was covered. */
static cb_code trail_veil(const trail *t, uint64_t seq, trail_scan *s, cb_error *err)
{
	ATTR_CLEANUP(around_close) around seen = {0};
	bool before = false, after = false, origin = false, aside = false;
	CB_TRY(around_open(&seen, t->b, t->box, seq, err));
	CB_TRY(gate_shows(&seen.before, &t->entry, &before, err));
	CB_TRY(gate_shows(&seen.after, &t->entry, &after, err));
	if (s->came_from.size) CB_TRY(gate_shows(&seen.before, &s->came_from, &origin, err));
	if (s->aside.size) CB_TRY(gate_shows(&seen.after, &s->aside, &aside, err));
	s->touched = before || after;
	if (!origin) s->came_from.size = 0;
	if (!aside) s->aside.size = 0;
	return CB_OK;
}

static bool trail_stays(const trail *t, uint64_t seq)
{
	return t->stays && seq >= t->stays;
}

/* Did the step bring the file back to where it was in an earlier state of the box? */
static cb_code trail_comes_back(trail *t, uint64_t seq, cb_error *err)
{
	ATTR_CLEANUP(came_back_done) came_back c = {0};
	CB_TRY(came_back_find(t->b, t->box, seq, &t->entry, &c, err));
	if (c.same && c.at.s->box == t->box && span_equal(key_span(&c.entry), key_span(&t->entry))) t->stays = c.at.s->seq + 1;
	return CB_OK;
}

static cb_code trail_step_back(trail *t, uint64_t seq, bool *touched, cb_error *err)
{
	trail_scan s = {.t = t};
	CB_TRY(step_changes(t->cs, t->box, seq, scan_entry, &s, err));
	if (s.appeared && s.ino_after) CB_TRY(step_changes(t->cs, t->box, seq, scan_origin, &s, err));
	if (s.linked && !s.came_from.size) CB_TRY(scan_names(t, seq, &s, err));
	if (s.touched && gate_has_rules(t->cs, t->b)) CB_TRY(trail_veil(t, seq, &s, err));
	*touched = s.touched;
	if (!s.appeared) return CB_OK;
	if (s.ino_after && !t->is_dir && !trail_stays(t, seq)) CB_TRY(trail_comes_back(t, seq, err));
	if (!trail_stays(t, seq) && s.came_from.size && (!s.ino_before || s.aside.size || t->is_dir)) {
		/* Renamed, exchanged or linked to here: go on where it was. A folder is never what an editor saved. */
		t->entry = s.came_from;
		return CB_OK;
	}
	/* Replaced by another file, or created: go on with what had the name before. */
	t->ino = s.ino_before;
	t->known = s.ino_before != 0;
	t->is_dir = s.dir_before;
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
		CB_TRY(step_last_touch(t->cs, t->box, subjects, t->known ? 2 : 1, t->seq, &seq, &t->gap, err));
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

/* Which inodes lie below a folder, as far as it was asked, and which do not: changes come in heaps, of one step and of steps one after the
 * other, and what is above them is gone through once. Holds for one folder in one state. */
typedef struct placed {
	id_set elsewhere, below;
} placed;

/* What is asked of the changes of a step. */
typedef struct below {
	const around *shown; /* NULL: there are no rules */
	tree_view folders;   /* where folders were after the step, or (before) all there was before it */
	placed *known;       /* of these */
	bool before;
	uint64_t folder;
	bool found;  /* something below the folder changed */
	bool moved;  /* a folder went, or went elsewhere: before the step others were above what is there now */
	bool linked; /* a file of several names changed: which ones it had, the state before tells */
} below;

static cb_code ino_below(below *w, uint64_t ino, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX); /* uint64_t: what was not known */
	bool was;
	climb up = climb_from(ino);
	for (;;) {
		w->found = up.at == w->folder || id_set_has(&w->known->below, up.at);
		if (w->found || up.at == INO_ROOT || id_set_has(&w->known->elsewhere, up.at)) break;
		CB_TRY(buf_append(&way, &up.at, sizeof(up.at), err));
		cb_code code = climb_up(&up, &w->folders, NULL, err);
		if (code == CB_NOTFOUND) break;
		if (code != CB_OK) return code;
	}
	const uint64_t *all = (const uint64_t *)(const void *)way.bytes;
	id_set *set = w->found ? &w->known->below : &w->known->elsewhere;
	for (size_t i = 0; i < way.size / sizeof(*all); i++) CB_TRY(id_set_add(set, all[i], &was, err));
	return CB_OK;
}

static void placed_forget(placed *known)
{
	id_set_done(&known->elsewhere);
	id_set_done(&known->below);
}

/* A folder's attributes are its own; those of a file are told by its record, and where that was. */
static cb_code attribute_below(below *w, uint64_t ino, cb_error *err)
{
	inode node;
	cb_code code = inode_find(&w->folders, ino, &node, err);
	if (code == CB_OK && node.rec.type == CB_DIR) return ino_below(w, ino, err);
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code name_below(void *context, span key_bytes, span value, cb_error *err)
{
	below *w = context;
	key_parts parts;
	(void)value;
	CB_TRY(key_parse(key_bytes, &parts, err));
	return w->found ? CB_OK : ino_below(w, parts.parent, err);
}

/* Is a change one that may be told, by the rules of now? */
static cb_code change_shown(const below *w, span key_bytes, span old_value, span new_value, bool *out, cb_error *err)
{
	key k = {.size = key_bytes.size};
	*out = true;
	memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
	if (old_value.bytes) CB_TRY(gate_shows(&w->shown->before, &k, out, err));
	if (*out && new_value.bytes) CB_TRY(gate_shows(&w->shown->after, &k, out, err));
	return CB_OK;
}

static cb_code below_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	below *w = context;
	key_parts parts;
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (parts.kind == KIND_ENTRY && !w->moved) {
		uint64_t before = 0, after = 0;
		bool was_dir = false, is_dir = false;
		CB_TRY(entry_ino(old_value, &before, &was_dir, err));
		CB_TRY(entry_ino(new_value, &after, &is_dir, err));
		w->moved = was_dir && before != after;
	}
	bool attribute = parts.kind == KIND_ATTR || parts.kind == KIND_TAG, touch = false;
	if (w->found || parts.ino == 0 || (parts.kind != KIND_ENTRY && parts.kind != KIND_INODE && !attribute)) return CB_OK;
	CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch) return CB_OK; /* a folder's times follow its entries, those that are hidden too */
	if (w->shown) {
		bool told = false;
		CB_TRY(change_shown(w, key_bytes, old_value, new_value, &told, err));
		if (!told) return CB_OK;
	}
	if (attribute) return attribute_below(w, parts.ino, err);
	if (parts.kind == KIND_ENTRY) return ino_below(w, parts.ino, err);
	w->linked = true;
	return !w->before ? CB_OK : inode_keys(&w->folders, parts.ino, KIND_NAME, name_below, w, err);
}

/* ---- cursors ---- */

/* While it is open no step of the box is pruned. */
typedef struct log_cursor {
	cb_cursor c;
	kept_state history;
	gate_past past;
	uint64_t box;
	uint64_t from; /* the next step to look at, downwards; of a path the newest that is wanted */
	uint64_t left; /* so many are still to be given */
	bool over;     /* step 0 was looked at */
	bool exact;    /* the next step is `expected`: nothing between it and the one before was pruned */
	uint64_t expected;
	bool pruned;
	bool of_path;
	snapshot now; /* of a path; and a state by which folders that moved since are found */
	kept_state then;
	bool moved;   /* neither is right any more: load the one that is */
	placed known; /* by the one that is */
	trail path;
	uint64_t folder;     /* that the trail's entry is in */
	uint64_t made;       /* by this step; 0: it was there from the beginning */
	step_row rows[PAGE]; /* read, and from `at` on still to be given */
	size_t count, at;
	step_row row; /* of a path: what was given last */
	cb_step step;
} log_cursor;

static cb_code log_give(log_cursor *l, const step_row *r, const void **out, cb_error *err)
{
	CB_TRY(step_public(l->c.b, &l->past, r, &l->step, err));
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

/* Rows that are not there and were not pruned are lost. The first step of a box is never pruned. */
static cb_code log_whole(log_cursor *l, const store_step *row, bool is_last, cb_error *err)
{
	bool lost = (l->exact && row->seq != l->expected) || (is_last && row->seq != 0 && !row->gap);
	uint64_t missing = l->exact && row->seq != l->expected ? l->expected : row->seq - 1;
	l->exact = !row->gap;
	l->expected = row->seq - 1;
	return lost ? step_gone(l->c.cs, l->box, missing, err) : CB_OK;
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
		if (l->count == 0) return l->exact ? step_gone(l->c.cs, l->box, l->expected, err) : CB_OK;
	}
	const step_row *r = &l->rows[l->at++];
	CB_TRY(log_whole(l, &r->row, l->over && l->at == l->count, err));
	return log_give(l, r, out, err);
}

static cb_code log_give_seq(log_cursor *l, uint64_t seq, const void **out, cb_error *err)
{
	step_row_done(&l->row);
	CB_TRY(step_row_load(l->c.cs, l->box, seq, false, &l->row, err));
	return log_give(l, &l->row, out, err);
}

/* Where folders were after a step. */
static cb_code log_folders(log_cursor *l, uint64_t seq, tree_view *out, cb_error *err)
{
	if (l->moved) {
		placed_forget(&l->known);
		kept_done(&l->then);
		CB_TRY(kept_load(&l->then, l->c.cs, l->box, seq, KEPT_VISIT, err));
		l->moved = false;
	}
	*out = l->then.s ? state_view(l->c.cs, l->then.s) : l->now.v;
	return CB_OK;
}

/* Did a step change something below the folder that the path was then? */
static cb_code log_below(log_cursor *l, uint64_t seq, bool *out, cb_error *err)
{
	bool rules = gate_has_rules(l->c.cs, l->c.b);
	ATTR_CLEANUP(around_close) around seen = {0};
	below w = {.shown = rules ? &seen : NULL, .known = &l->known, .folder = l->path.ino};
	if (rules) CB_TRY(around_open(&seen, l->c.b, l->box, seq, err));
	CB_TRY(log_folders(l, seq, &w.folders, err));
	CB_TRY(step_changes(l->c.cs, l->box, seq, below_key, &w, err));
	l->moved = w.moved || (w.linked && !w.found);
	if (l->moved && !w.found) { /* the step before may be pruned */
		AUTO_KEPT kept_state after = {0};
		AUTO_STATE state *earlier = NULL;
		CB_TRY(kept_load(&after, l->c.cs, l->box, seq, KEPT_VISIT, err));
		CB_TRY(state_before_gap(l->c.cs, after.s, &earlier, err));
		w.before = true;
		w.folders = state_view(l->c.cs, earlier);
		CB_TRY(step_changes(l->c.cs, l->box, seq, below_key, &w, err));
	}
	*out = w.found;
	return CB_OK;
}

/* One step back, of a folder. */
static cb_code log_back_below(log_cursor *l, uint64_t *out, cb_error *err)
{
	trail *t = &l->path;
	uint64_t seq = t->seq--;
	bool changed = false, touched = false;
	CB_TRY(log_below(l, seq, &changed, err));
	CB_TRY(trail_step_back(t, seq, &touched, err));
	if (changed || touched) *out = seq;
	return CB_OK;
}

/* The step that made a folder of the state after step `seq`; 0: it was there from the beginning. */
static cb_code folder_made(cb_box *b, uint64_t box, uint64_t seq, uint64_t ino, uint64_t *out, cb_error *err)
{
	AUTO_KEPT kept_state at = {0};
	place first;
	*out = 0;
	if (ino == INO_ROOT) return CB_OK;
	CB_TRY(kept_load(&at, b->cs, box, seq, KEPT_VISIT, err));
	tree_view v = state_view(b->cs, at.s);
	CB_TRY(inode_place(&v, ino, &first, err));
	trail t = {.b = b, .cs = b->cs, .box = box, .seq = seq, .known = true, .ino = ino, .is_dir = true};
	t.entry = key_entry(first.parent, place_name(&first));
	do CB_TRY(trail_next(&t, out, err));
	while (*out && t.ino == ino);
	return CB_OK;
}

/* The step since which the folders above a path of the state after step `seq` are those that it leads through; 0: from the beginning. */
static cb_code folders_came(cb_box *b, const tree_view *v, uint64_t box, uint64_t seq, char *path, uint64_t *out, cb_error *err)
{
	*out = 0;
	for (;;) {
		resolved r;
		char *slash = strrchr(path, '/');
		if (!slash || slash == path) return CB_OK;
		*slash = 0;
		CB_TRY(path_resolve(b, v, path, 0, GATE_READ, &r, err));
		trail t = {.b = b, .cs = b->cs, .box = box, .seq = seq};
		trail_at(&t, &r);
		key was = t.entry;
		uint64_t ino = t.ino, came = 0;
		do CB_TRY(trail_next(&t, &came, err));
		while (came && t.ino == ino && span_equal(key_span(&t.entry), key_span(&was)));
		if (came > *out) *out = came;
	}
}

/*
 * The path led through a folder that was made later, or is gone: the trail goes on where it led before. From the state after step *seq
 * backwards: the first folder that is missing there was last there before the step that took it away; and in the state before that, the
 * path is looked for again. *seq becomes the state it was found in. *found false: it never was.
 */
static cb_code trail_find(trail *t, cb_box *b, const char *path, uint64_t *seq, bool *found, cb_error *err)
{
	uint64_t box = t->box, limit = *seq;
	*found = false;
	for (;;) {
		AUTO_KEPT kept_state at = {0};
		AUTO_VEIL veil *veiled = NULL;
		tree_view v;
		resolved r;
		CB_TRY(cancel_check(err));
		CB_TRY(kept_load(&at, b->cs, box, *seq, KEPT_VISIT, err));
		tree_view all = state_view(b->cs, at.s);
		CB_TRY(gate_view(b, &all, &veiled, &v, err));
		*t = (trail){.b = b, .cs = b->cs, .box = box, .seq = limit};
		*found = path_resolve(b, &v, path, 0, GATE_READ, &r, NULL) == CB_OK;
		if (*found) {
			trail_at(t, &r);
			return CB_OK;
		}
		/* The longest part that can be resolved ends in what is missing. */
		char part[LIMIT_PATH_BYTES];
		(void)snprintf(part, sizeof(part), "%s", path);
		cb_code code = CB_NOTFOUND;
		for (char *slash; code != CB_OK && (slash = strrchr(part, '/')) && slash != part;) {
			*slash = 0;
			code = path_resolve(b, &v, part, 0, GATE_READ, &r, NULL);
		}
		if (code != CB_OK || r.exists) return CB_OK; /* hidden, or no folder */
		trail_at(t, &r);
		t->seq = *seq;
		uint64_t gone = 0, came = 0;
		do CB_TRY(trail_next(t, &gone, err));
		while (gone && !t->known);
		/* Before that, or never; but perhaps in a folder that was in the place of this one. */
		CB_TRY(folders_came(b, &v, box, *seq, part, &came, err));
		if (came > gone) gone = came;
		if (!gone) return CB_OK;
		limit = gone; /* the step that took it away belongs to the path */
		*seq = gone - 1;
	}
}

/* The trail is in another folder now, which is there in the state after step `since`. One whose beginning was pruned was made nobody knows
 * when: what had the path before it cannot be told. */
static cb_code log_in_folder(log_cursor *l, uint64_t since, cb_error *err)
{
	key_parts parts;
	CB_TRY(key_parse(key_span(&l->path.entry), &parts, err));
	if (parts.ino == l->folder) return CB_OK;
	l->folder = parts.ino;
	cb_error why;
	cb_code code = folder_made(l->c.b, l->box, since, parts.ino, &l->made, cb_err_aside(&why));
	if (code != CB_STALE) return cb_err_pass(err, code, &why);
	l->pruned = true;
	l->made = 0;
	return CB_OK;
}

/* Before the folder was made, what had the path then? A folder that was removed and came back was made anew, too. */
static cb_code log_before_folder(log_cursor *l, bool *more, cb_error *err)
{
	AUTO_KEPT kept_state at = {0};
	AUTO_BUF buf path = BUF_INIT(LIMIT_PATH_BYTES);
	key_parts parts;
	*more = false;
	if (l->made == 0) return CB_OK;
	CB_TRY(key_parse(key_span(&l->path.entry), &parts, err));
	CB_TRY(kept_load(&at, l->c.cs, l->box, l->made, KEPT_VISIT, err));
	tree_view v = state_view(l->c.cs, at.s);
	cb_error why;
	cb_code code = inode_path(&v, l->folder, &path, cb_err_aside(&why));
	if (code == CB_OK) code = buf_append_str(&path, "/", cb_err_aside(&why));
	if (code == CB_OK) code = buf_append(&path, parts.name.bytes, parts.name.size, cb_err_aside(&why));
	if (code == CB_OK) code = buf_append(&path, "", 1, cb_err_aside(&why));
	if (code == CB_LIMIT || code == CB_TOOBIG) return CB_OK; /* no path can say it */
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	uint64_t seq = l->made - 1;
	code = trail_find(&l->path, l->c.b, (const char *)path.bytes, &seq, more, cb_err_aside(&why));
	if (code == CB_STALE) l->pruned = true; /* that cannot be told, and the trail is nowhere: it ends */
	else if (code != CB_OK) return cb_err_pass(err, code, &why);
	l->folder = 0;
	l->moved = true;
	return *more ? log_in_folder(l, seq, err) : CB_OK;
}

/* *out: the step, 0 when nothing came of it. *more false: that was all. */
static cb_code log_back(log_cursor *l, uint64_t *out, bool *more, cb_error *err)
{
	trail *t = &l->path;
	uint64_t ino = t->ino;
	if (t->seq == 0 || t->seq < l->made) return log_before_folder(l, more, err);
	if (t->known && t->is_dir) CB_TRY(log_back_below(l, out, err));
	else CB_TRY(trail_next(t, out, err));
	l->pruned = l->pruned || t->gap;
	if (t->ino != ino) l->moved = true; /* another folder, perhaps one that is gone by now */
	if (*out < l->made) *out = 0;       /* when the folder was another one's, or not there */
	else if (*out) CB_TRY(log_in_folder(l, *out - 1, err));
	return CB_OK;
}

static cb_code log_next_of_path(log_cursor *l, const void **out, cb_error *err)
{
	for (;;) {
		bool more = true, is_folder = l->path.known && l->path.is_dir;
		uint64_t seq = 0;
		cb_error why;
		cb_code code = log_back(l, &seq, &more, cb_err_aside(&why));
		if (code == CB_STALE) { /* a folder was looked at step by step: the one before is next */
			l->pruned = l->moved = true;
			if (!is_folder) return CB_OK;
			continue;
		}
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (!more) return CB_OK;
		if (seq && seq <= l->from) return log_give_seq(l, seq, out, err);
	}
}

static cb_code log_next_any(log_cursor *l, const void **out, cb_error *err)
{
	return l->of_path ? log_next_of_path(l, out, err) : log_next_step(l, out, err);
}

static cb_code log_next(cb_cursor *c, const void **out, cb_error *err)
{
	log_cursor *l = (log_cursor *)c;
	*out = NULL;
	if (l->left == 0) return CB_OK;
	if (!c->cs->gate) return log_next_any(l, out, err);
	/* The gate is asked for whom the handle is, which others may change meanwhile. */
	CB_TRY(entry_lock_take(&c->b->lock, "for the box handle", err));
	cb_code code = log_next_any(l, out, err);
	entry_lock_give(&c->b->lock);
	return code;
}

static void log_done(cb_cursor *c)
{
	log_cursor *l = (log_cursor *)c;
	page_clear(l);
	step_row_done(&l->row);
	placed_forget(&l->known);
	snapshot_done(&l->now);
	kept_done(&l->then);
	gate_past_done(&l->past);
	kept_done(&l->history);
}

static const cursor_ops log_ops = {CURSOR_STEPS, log_next, log_done, false};

static cb_code log_start_path(log_cursor *l, cb_box *b, const char *path, cb_error *err)
{
	bool found = false;
	resolved r;
	cb_error why, pruned;
	uint64_t seq = b->head->seq;
	CB_TRY(snapshot_take(b, &l->now, err));
	cb_code code = path_resolve(b, &l->now.v, path, 0, GATE_READ, &r, cb_err_aside(&why));
	if (code == CB_OK && r.exists && r.node.rec.ino == INO_ROOT) return CB_OK;
	l->of_path = true;
	l->path.box = l->box;
	if (code == CB_OK) {
		CB_TRY(trail_start(&l->path, b, &l->now.v, path, err));
		code = log_in_folder(l, seq, cb_err_aside(&pruned));
		/* A folder that is only in a transaction was made by no step. */
		return code == CB_NOTFOUND ? CB_OK : cb_err_pass(err, code, &pruned);
	}
	if (code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	/* Folders on the way are gone. */
	AUTO_FREE char *clean = path_clean(path);
	if (!clean) return cb_err_nomem(err);
	l->moved = true;
	cb_code earlier = trail_find(&l->path, b, clean, &seq, &found, cb_err_aside(&pruned));
	if (earlier == CB_OK && found) earlier = log_in_folder(l, seq, cb_err_aside(&pruned));
	if (earlier != CB_OK && earlier != CB_STALE) return cb_err_pass(err, earlier, &pruned);
	return found ? CB_OK : cb_err_pass(err, code, &why);
}

static cb_code log_start(log_cursor *l, cb_box *b, const cb_log_options *options, cb_error *err)
{
	l->box = b->id;
	l->left = options->max_steps ? options->max_steps : UINT64_MAX;
	l->from = options->before ? options->before - 1 : b->head->seq;
	if (l->from > b->head->seq) l->from = b->head->seq;
	l->exact = l->from == b->head->seq;
	l->expected = l->from;
	CB_TRY(kept_history(&l->history, b->cs, b->head, KEPT_VISIT, err));
	return options->path ? log_start_path(l, b, options->path, err) : CB_OK;
}

cb_code cb_log_open(cb_box *b, const cb_log_options *options, cb_cursor **out, cb_error *err)
{
	log_cursor *l = NULL;
	cb_log_options o;
	NEED(err, "box out", b, out);
	CB_TRY(SIZED_TAKE(cb_log_options, max_steps, &o, options, err));
	CB_TRY(args_path("path", o.path, err));
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
	cb_code code = CURSOR_VISIT(c, visit, context, err);
	if (code == CB_OK && out_pruned) *out_pruned = ((log_cursor *)c)->pruned;
	return code;
}
