/*
 * blame.c: which step wrote each line.
 *
 * The trail of the file (log.c) gives the steps that touched it, newest first, through renames and into the origins of a fork; their texts
 * are then compared oldest to newest, unchanged lines keeping their origin. A text that undo, redo or restore brought back has the origins
 * that it had: they wrote nothing, and the trail goes on in the state that was gone back to (came_back.c). When a step in the middle was
 * taken back, the text is a new one, and the lines that came back are those of the text before that step, which is blamed for itself when
 * the trail does not lead there. Where something was pruned, what they brought back and is not known was in there, and belongs to nobody,
 * as does what was written in a box that is gone; what an unpacked fork began with is of a box in another store. A version over
 * LIMIT_DIFF_TEXT_BYTES has no lines: whoever made the file small again wrote all of it, unless that was a return. Cost: the file's own
 * versions, not the box's steps.
 */
#include "base/args.h"
#include "base/hash.h"
#include "box/cursor.h"
#include "box/gate.h"
#include "box/graft.h"
#include "box/history.h"
#include "box/text.h"

#include <stdio.h>

typedef struct blaming {
	cb_box *b;
	cb_store *cs;
	buf versions; /* point, newest first */
	buf known;    /* known_text, oldest first */
	buf origins;  /* uint64_t, of the known texts */
	buf holds; /* kept_state: the steps of the boxes that the trail goes through, from before the first of them is looked at */
	struct {
		uint64_t box, seq; /* looked at so far */
		bool found;
	} gap;
	char foreign[CB_NAME_MAX + 1]; /* the box of another store that the oldest box of the trail was forked from; "": none */
	unsigned depth;                /* so many texts inside each other are being blamed */
} blaming;

enum {
	VERSIONS_MAX = 1 << 18,
	KNOWN_ORIGINS_MAX = 8 << 20, /* lines of all versions together; past that, what is brought back counts as new */
	DEPTH_MAX = 16, /* undos of a step in the middle, of which each brought back what another one had; below, as if new */
};

#define ORIGIN_FOREIGN UINT64_MAX /* of a line: written in another store */

/* A version of the file and where its lines come from. */
typedef struct known_text {
	uint64_t sum, size;
	size_t first, count; /* in origins */
} known_text;

typedef struct point {
	uint64_t box, seq;
	key entry;    /* the file's place after the step */
	key before;   /* and before it */
	size_t known; /* how many texts were known before it: the last of them is the one that it changed */
} point;

/* The file in a state, "" when it is not there (deleted by the step), was no file then, or is too large to be looked at by lines,
 * like a binary: what follows begins anew. */
static cb_code text_in(blaming *g, const state *s, const key *entry_key, char **out, size_t *size, cb_error *err)
{
	AUTO_VEIL veil *veiled = NULL;
	tree_view all = state_view(g->cs, s), v;
	CB_TRY(gate_view(g->b, &all, &veiled, &v, err));
	key_parts parts;
	inode node;
	cb_code code = key_parse(key_span(entry_key), &parts, err);
	if (code == CB_OK) code = inode_at(&v, parts.ino, parts.name, &node, NULL, err);
	if (code == CB_OK && node.rec.type == CB_FILE && node.rec.size <= LIMIT_DIFF_TEXT_BYTES)
		return inode_damaged(data_load(g->cs, NULL, &v, &node.rec, LIMIT_DIFF_TEXT_BYTES, out, size, err), &v, node.rec.ino,
		                     err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	*size = 0;
	*out = mem_strdup("");
	return *out ? CB_OK : cb_err_nomem(err);
}

/* The file as it was before the step of `after`. */
static cb_code text_before(blaming *g, const point *p, const state *after, char **out, size_t *size, cb_error *err)
{
	AUTO_STATE state *earlier = NULL; /* of what the step before it and its list hold */
	CB_TRY(state_before_gap(g->cs, after, &earlier, err));
	return text_in(g, earlier, &p->before, out, size, err);
}

static cb_code hold(blaming *g, state *s, cb_error *err)
{
	kept_state all = {0};
	CB_TRY(kept_history(&all, g->cs, s, KEPT_VISIT, err));
	cb_code code = buf_append(&g->holds, &all, sizeof(all), err);
	if (code != CB_OK) kept_done(&all);
	return code;
}

static void holds_done(blaming *g)
{
	kept_state *all = (kept_state *)(void *)g->holds.bytes;
	for (size_t i = 0; i < g->holds.size / sizeof(*all); i++) kept_done(&all[i]);
	buf_done(&g->holds);
}

/* The trail goes on in the step that the box was forked from. Where that is gone with its box, which was deleted, it goes on in what that
 * one came from: edges stay, and so does what a living box has in common with this one. *more false: there is nothing. */
static cb_code trail_to_origin(blaming *g, trail *t, bool *more, cb_error *err)
{
	store_edge from = {.other_box = t->box};
	for (;;) {
		AUTO_KEPT kept_state origin = {0};
		cb_error why;
		CB_TRY(store_edge_before(t->cs->s, from.other_box, 0, &from, more, err));
		if (!*more) return CB_OK;
		cb_code code = kept_load(&origin, t->cs, from.other_box, from.other_seq, KEPT_VISIT, cb_err_aside(&why));
		if (code == CB_STALE || code == CB_NOTFOUND) continue;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		t->box = from.other_box;
		t->seq = from.other_seq;
		return hold(g, origin.s, err);
	}
}

/* From the file in a state that was gone back to. `from`: a box that is held. */
static cb_code trail_at_came_back(blaming *g, trail *t, const came_back *c, uint64_t from, cb_error *err)
{
	*t = (trail){
		.b = g->b, .cs = g->cs, .box = c->at.s->box, .seq = c->at.s->seq, .entry = c->entry, .known = true, .ino = c->ino};
	return t->box == from ? CB_OK : hold(g, c->at.s, err);
}

/* A file that came back as it was: the trail goes on there, and the step wrote nothing of it. */
static cb_code trail_to_where_it_was(blaming *g, trail *t, const point *p, bool *back, cb_error *err)
{
	ATTR_CLEANUP(came_back_done) came_back c = {0};
	CB_TRY(came_back_find(g->b, p->box, p->seq, &p->entry, &c, err));
	*back = c.same;
	return c.same ? trail_at_came_back(g, t, &c, p->box, err) : CB_OK;
}

static cb_code collect_points(blaming *g, trail *t, cb_error *err)
{
	for (bool more = true; more;) {
		point p = {.box = t->box, .entry = t->entry};
		bool back = false;
		cb_error why;
		cb_code code = trail_next(t, &p.seq, cb_err_aside(&why));
		if (code == CB_STALE) return CB_OK;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		p.before = t->entry;
		if (p.seq) CB_TRY(trail_to_where_it_was(g, t, &p, &back, err));
		if (back) continue;
		if (p.seq) CB_TRY(buf_append(&g->versions, &p, sizeof(p), err));
		else CB_TRY(trail_to_origin(g, t, &more, err));
	}
	return CB_OK;
}

typedef struct lines {
	char *text;
	size_t size;
	uint64_t *origins; /* per line: 1 + index into the points; 0: before what was pruned; ORIGIN_FOREIGN */
	size_t count;
} lines;

static void lines_done(lines *l)
{
	free(l->text);
	free(l->origins);
}

/* One version on: lines that stayed keep their origin. */
static cb_code lines_advance(lines *l, char *text, size_t size, uint64_t origin, cb_error *err)
{
	uint64_t *origins = NULL;
	size_t count = 0;
	cb_code code = text_blame_step(l->origins, l->count, span_make(l->text, l->size), span_make(text, size), origin, &origins,
	                               &count, err);
	if (code != CB_OK) {
		free(text);
		return code;
	}
	lines_done(l);
	*l = (lines){text, size, origins, count};
	return CB_OK;
}

static cb_code text_remember(blaming *g, const lines *l, cb_error *err)
{
	known_text k = {hash64(l->text, l->size), l->size, g->origins.size / sizeof(uint64_t), l->count};
	if (g->origins.size + l->count * sizeof(uint64_t) > g->origins.max_size) return CB_OK;
	CB_TRY(buf_append(&g->origins, l->origins, l->count * sizeof(uint64_t), err));
	return buf_append(&g->known, &k, sizeof(k), err);
}

/* To a text that no step that is left made: what differs was written by pruned steps, and belongs to nobody. Takes the text. */
static cb_code lines_reach(blaming *g, lines *l, char *text, size_t size, cb_error *err)
{
	if (size == l->size && memcmp(text, l->text, size) == 0) {
		free(text);
		return CB_OK;
	}
	CB_TRY(lines_advance(l, text, size, 0, err));
	return text_remember(g, l, err);
}

/* When the text was there before: *out has the origins its lines had then. free() it; NULL when the text is new. */
static cb_code text_recall(blaming *g, span text, uint64_t **out, size_t *out_count, cb_error *err)
{
	AUTO_FREE size_t *starts = NULL;
	size_t count = 0;
	const known_text *all = (const known_text *)(const void *)g->known.bytes;
	uint64_t sum = hash64(text.bytes, text.size);
	CB_TRY(text_lines(text, &starts, &count, err));
	for (size_t i = g->known.size / sizeof(*all); i > 0; i--) {
		const known_text *k = &all[i - 1];
		/* Sums can be made to collide: the number of lines must be right whatever happens. */
		if (k->sum != sum || k->size != text.size || k->count != count || count == 0) continue;
		*out = mem_dup(g->origins.bytes + k->first * sizeof(uint64_t), k->count * sizeof(uint64_t));
		*out_count = k->count;
		return *out ? CB_OK : cb_err_nomem(err);
	}
	return CB_OK;
}

typedef struct returning {
	bool is_so;      /* undo, redo, restore */
	uint64_t target; /* the step that was taken back; 0: none */
} returning;

static cb_code see_return(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	bool reverses = strcmp(step->kind, "undo") == 0 || strcmp(step->kind, "redo") == 0;
	*(returning *)context = (returning){reverses || strcmp(step->kind, "restore") == 0, reverses ? step->target : 0};
	return CB_OK;
}

static cb_code blame_from(blaming *g, trail *t, lines *out, cb_error *err);

/* The points of one trail, newest first; others may follow in the list, of texts that are blamed meanwhile. */
typedef struct stretch {
	size_t first, end;
} stretch;

static point *point_at(const blaming *g, size_t i)
{
	return (point *)(void *)g->versions.bytes + i;
}

/* The file before a step that `undo`, a point, took back, and the origins it had. Nothing, when it is not known. */
static cb_code lines_before_step(blaming *g, stretch all, size_t undo, uint64_t target, lines *out, cb_error *err)
{
	uint64_t box = point_at(g, undo)->box;
	while (undo < all.end && point_at(g, undo)->box == box && point_at(g, undo)->seq > target) undo++;
	if (undo == all.end) return CB_OK;
	point p = *point_at(g, undo);
	if (p.box != box || p.seq != target || p.known == 0) return CB_OK; /* pruned, or it did not touch the file */
	const known_text *k = (const known_text *)(const void *)g->known.bytes + (p.known - 1);
	AUTO_KEPT kept_state after = {0};
	CB_TRY(kept_load(&after, g->cs, p.box, p.seq, KEPT_VISIT, err));
	CB_TRY(text_before(g, &p, after.s, &out->text, &out->size, err));
	if (k->count == 0 || k->size != out->size || k->sum != hash64(out->text, out->size)) return CB_OK; /* not remembered */
	out->count = k->count;
	out->origins = mem_dup(g->origins.bytes + k->first * sizeof(uint64_t), k->count * sizeof(uint64_t));
	return out->origins ? CB_OK : cb_err_nomem(err);
}

/* The same where the trail does not lead there: another text, of the same path, which is blamed for itself unless it is known. */
static cb_code lines_before_apart(blaming *g, const point *undo, lines *out, cb_error *err)
{
	ATTR_CLEANUP(came_back_done) came_back c = {0};
	trail t;
	CB_TRY(came_back_find(g->b, undo->box, undo->seq, &undo->entry, &c, err));
	if (!c.found) return CB_OK;
	lines_done(out);
	*out = (lines){0};
	CB_TRY(text_in(g, c.at.s, &c.entry, &out->text, &out->size, err));
	CB_TRY(text_recall(g, span_make(out->text, out->size), &out->origins, &out->count, err));
	if (out->origins || g->depth >= DEPTH_MAX || g->versions.size > g->versions.max_size / 2) return CB_OK;
	lines_done(out);
	*out = (lines){0};
	CB_TRY(trail_at_came_back(g, &t, &c, undo->box, err));
	g->depth++;
	CB_TRY(blame_from(g, &t, out, err));
	g->depth--;
	return CB_OK;
}

/* Lines that would be the undo's own, and were there before the step that it took back, are whose they were then. */
static cb_code lines_return(blaming *g, lines *l, stretch all, size_t undo, uint64_t target, uint64_t own, cb_error *err)
{
	ATTR_CLEANUP(lines_done) lines was = {0};
	AUTO_FREE uint64_t *origins = NULL;
	size_t count = 0;
	CB_TRY(lines_before_step(g, all, undo, target, &was, err));
	if (!was.origins) {
		point p = *point_at(g, undo);
		CB_TRY(lines_before_apart(g, &p, &was, err));
	}
	if (!was.origins) return CB_OK;
	CB_TRY(text_blame_step(was.origins, was.count, span_make(was.text, was.size), span_make(l->text, l->size), own, &origins,
	                       &count, err));
	for (size_t i = 0; i < count; i++)
		if (l->origins[i] == own) l->origins[i] = origins[i];
	return CB_OK;
}

static cb_code find_gap(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	*(bool *)context = step->gap;
	return step->gap ? CB_INTERRUPTED : CB_OK;
}

/* Was something pruned before the step? Asked from the oldest to the newest step of a box all of it is looked at once. */
static cb_code is_after_gap(blaming *g, const point *p, bool *out, cb_error *err)
{
	if (g->gap.box != p->box || g->gap.seq > p->seq) {
		g->gap.box = p->box;
		g->gap.seq = 0;
		g->gap.found = false;
	}
	if (!g->gap.found) CB_TRY(store_step_walk(g->cs->s, p->box, g->gap.seq, p->seq, false, find_gap, &g->gap.found, err));
	g->gap.seq = p->seq;
	*out = g->gap.found;
	return CB_OK;
}

/* The version that a step left, a point. Takes the text. */
static cb_code lines_step(blaming *g, lines *l, stretch all, size_t at, char *text, size_t size, cb_error *err)
{
	point one = *point_at(g, at), *p = &one;
	uint64_t origin = at + 1;
	returning back = {0};
	bool lost = false;
	uint64_t *origins = NULL;
	size_t count = 0;
	cb_code code = store_step_get(g->cs->s, p->box, p->seq, see_return, &back, err);
	if (code == CB_OK && back.is_so) code = text_recall(g, span_make(text, size), &origins, &count, err);
	if (code == CB_OK && back.is_so && !origins) code = is_after_gap(g, p, &lost, err);
	if (code != CB_OK) {
		free(text);
		return code;
	}
	if (origins) {
		lines_done(l);
		*l = (lines){text, size, origins, count};
		return CB_OK;
	}
	CB_TRY(lines_advance(l, text, size, origin, err));
	if (back.target) CB_TRY(lines_return(g, l, all, at, back.target, origin, err));
	for (size_t i = 0; lost && i < l->count; i++)
		if (l->origins[i] == origin) l->origins[i] = 0;
	return CB_OK;
}

/* The trail ended at the beginning of a box. When that was packed as a fork, all that the file held then is its origin's. */
static cb_code lines_begin(blaming *g, const trail *t, lines *l, cb_error *err)
{
	AUTO_STEP_ROW step_row first = {0};
	AUTO_KEPT kept_state began = {0};
	cb_error why;
	char *text = NULL;
	size_t size = 0;
	cb_code code = step_row_load(g->cs, t->box, 0, false, &first, cb_err_aside(&why));
	if (code == CB_OK && !step_other_is_foreign(first.row.other_box)) return CB_OK;
	if (code == CB_OK) code = kept_load(&began, g->cs, t->box, 0, KEPT_VISIT, cb_err_aside(&why));
	if (code == CB_STALE || code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	char name[CB_NAME_MAX + 1] = "";
	step_other_name(g->cs, t->box, first.row.other_box, name);
	if (!name[0] || (g->foreign[0] && strcmp(g->foreign, name) != 0)) return CB_OK; /* one can be told */
	(void)snprintf(g->foreign, sizeof(g->foreign), "%s", name);
	CB_TRY(text_in(g, began.s, &t->entry, &text, &size, err));
	CB_TRY(lines_advance(l, text, size, ORIGIN_FOREIGN, err));
	return text_remember(g, l, err);
}

static cb_code replay(blaming *g, stretch all, lines *l, cb_error *err)
{
	AUTO_KEPT kept_state after = {0}; /* goes up from step to step */
	for (size_t i = all.end; i-- > all.first;) {
		char *text = NULL;
		size_t size = 0;
		point p = *point_at(g, i);
		CB_TRY(kept_load(&after, g->cs, p.box, p.seq, KEPT_VISIT, err));
		CB_TRY(text_before(g, &p, after.s, &text, &size, err));
		CB_TRY(lines_reach(g, l, text, size, err));
		point_at(g, i)->known = g->known.size / sizeof(known_text);
		CB_TRY(text_in(g, after.s, &p.entry, &text, &size, err));
		CB_TRY(lines_step(g, l, all, i, text, size, err));
		CB_TRY(text_remember(g, l, err));
	}
	return CB_OK;
}

/* The text that a trail begins at, and where its lines come from. */
static cb_code blame_from(blaming *g, trail *t, lines *out, cb_error *err)
{
	stretch all = {.first = g->versions.size / sizeof(point)};
	AUTO_KEPT kept_state now = {0};
	char *text = NULL;
	size_t size = 0;
	key entry_now = t->entry;
	out->text = mem_strdup("");
	if (!out->text) return cb_err_nomem(err);
	CB_TRY(kept_load(&now, g->cs, t->box, t->seq, KEPT_VISIT, err));
	CB_TRY(collect_points(g, t, err));
	all.end = g->versions.size / sizeof(point);
	CB_TRY(lines_begin(g, t, out, err));
	CB_TRY(replay(g, all, out, err));
	CB_TRY(text_in(g, now.s, &entry_now, &text, &size, err));
	return lines_reach(g, out, text, size, err);
}

/* ---- cursor ---- */

/* All of it is known when it is opened: the text, and for each line where it comes from. */
typedef struct blame_cursor {
	cb_cursor c;
	blaming g;
	lines l;
	size_t *starts;
	size_t count, next;
	buf names; /* box_name, of the points' boxes */
	cb_blame_line line;
} blame_cursor;

typedef struct box_name {
	uint64_t box;
	char name[CB_NAME_MAX + 1];
} box_name;

static const char *name_of(const buf *names, uint64_t box)
{
	const box_name *all = (const box_name *)(const void *)names->bytes;
	for (size_t i = 0; i < names->size / sizeof(*all); i++)
		if (all[i].box == box) return all[i].name;
	return NULL;
}

/* Of the points' boxes, which are few: the box and those it came from. */
static cb_code names_learn(blame_cursor *m, cb_error *err)
{
	const point *all = (const point *)(const void *)m->g.versions.bytes;
	for (size_t i = 0; i < m->g.versions.size / sizeof(*all); i++) {
		if (i > 0 && all[i].box == all[i - 1].box) continue;
		if (name_of(&m->names, all[i].box)) continue;
		box_name n = {.box = all[i].box};
		box_live_name(m->c.cs, m->c.b->id, n.box, n.name);
		CB_TRY(buf_append(&m->names, &n, sizeof(n), err));
	}
	return CB_OK;
}

static cb_code blame_next(cb_cursor *c, const void **out, cb_error *err)
{
	blame_cursor *m = (blame_cursor *)c;
	(void)err;
	*out = NULL;
	if (m->next == m->count) return CB_OK;
	size_t i = m->next++, end = m->next < m->count ? m->starts[m->next] : m->l.size;
	uint64_t origin = i < m->l.count ? m->l.origins[i] : 0;
	bool foreign = origin == ORIGIN_FOREIGN;
	const point *p = origin && !foreign ? (const point *)(const void *)m->g.versions.bytes + (origin - 1) : NULL;
	m->line = CB_WITH(cb_blame_line, .line = i + 1, .text = m->l.text + m->starts[i], .size = end - m->starts[i], .box = "");
	if (foreign) m->line.box = m->g.foreign;
	m->line.foreign = foreign;
	if (p) m->line.box = name_of(&m->names, p->box);
	if (p && m->line.box[0]) m->line.seq = p->seq; /* a number of a box that nobody can name tells nothing */
	*out = &m->line;
	return CB_OK;
}

static void blame_done(cb_cursor *c)
{
	blame_cursor *m = (blame_cursor *)c;
	lines_done(&m->l);
	free(m->starts);
	buf_done(&m->names);
	holds_done(&m->g);
	buf_done(&m->g.versions);
	buf_done(&m->g.known);
	buf_done(&m->g.origins);
}

static cb_code blame_run(blame_cursor *m, cb_box *b, const char *path, cb_error *err)
{
	AUTO_SNAPSHOT snapshot now = {0};
	CB_TRY(snapshot_take(b, &now, err));
	resolved r;
	CB_TRY(path_find(b, &now.v, path, 0, GATE_READ, &r, err));
	if (r.node.rec.type != CB_FILE)
		return cb_err_set(err, r.node.rec.type == CB_DIR ? CB_ISDIR : CB_INVALID, "'%s' is not a file", path);
	if (r.node.rec.size > LIMIT_DIFF_TEXT_BYTES) return cb_err_set(err, CB_TOOBIG, "'%s' is too large for blame", path);
	m->g = (blaming){b,
	                 b->cs,
	                 BUF_INIT(sizeof(point) * (size_t)VERSIONS_MAX),
	                 BUF_INIT(sizeof(known_text) * (size_t)VERSIONS_MAX),
	                 BUF_INIT(sizeof(uint64_t) * (size_t)KNOWN_ORIGINS_MAX),
	                 BUF_INIT(SIZE_MAX)};
	m->names = BUF_INIT(SIZE_MAX);
	CB_TRY(hold(&m->g, now.base.s, err));
	trail t;
	CB_TRY(trail_start(&t, b, &now.v, path, err));
	CB_TRY(blame_from(&m->g, &t, &m->l, err));
	buf_done(&m->g.known); /* other versions were for finding out */
	buf_done(&m->g.origins);
	holds_done(&m->g);
	CB_TRY(names_learn(m, err));
	return text_lines(span_make(m->l.text, m->l.size), &m->starts, &m->count, err);
}

cb_code cb_blame_open(cb_box *b, const char *path, cb_cursor **out, cb_error *err)
{
	static const cursor_ops ops = {CURSOR_BLAME_LINES, blame_next, blame_done, true};
	blame_cursor *m = NULL;
	NEED(err, "box path out", b, path, out);
	CB_TRY(box_enter(b, err));
	cb_code code = box_refuse_txn(b, "blame", err);
	if (code == CB_OK) code = box_flush(b, false, err);
	if (code == CB_OK) code = cursor_create(sizeof(*m), &ops, b->cs, b, &m, err);
	if (code == CB_OK) code = blame_run(m, b, path, err);
	(void)box_leave(b, CB_OK);
	if (code == CB_OK) *out = &m->c;
	else cb_cursor_close(m ? &m->c : NULL);
	return code;
}

cb_code cb_blame(cb_box *b, const char *path, cb_blame_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", b, path, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_blame_open(b, path, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}
