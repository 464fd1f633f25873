/*
 * audit_list.c: who did what: steps of all boxes, what was done to boxes and store, and what was refused, as one list by time.
 *
 * Each box's steps and the rows of the audit are sources, each in its own order; a heap gives the newest of their first entries. What is in
 * memory is a page of each: it grows with the number of boxes, not with their histories. Nothing is locked while a visitor runs.
 */
#include "base/args.h"
#include "base/sized.h"
#include "box/audit.h"
#include "box/gate.h"
#include "box/graft.h"

#include <stdlib.h>

#include "box/cursor.h"

enum {
	PAGE_MAX = 32,       /* entries read at a time from one source */
	PAGES_TOTAL = 2048,  /* entries in memory, while each source has one at least */
	LOOK_MAX = 1024,     /* rows looked at under one hold of the connection, of which few may be wanted */
	KIND_MAX_BYTES = 64, /* of a step's kind */
};

typedef struct item {
	cb_audit a;
	uint64_t box;
	uint64_t content; /* of the subject; 0: it is there */
	char *text;       /* holds all strings of a */
} item;

typedef struct source {
	uint64_t box;               /* 0: rows of the audit, */
	bool refused;               /* those of refusals */
	char name[CB_NAME_MAX + 1]; /* of the box */
	uint64_t next;              /* steps: the next seq, downwards; rows: ids below it */
	bool ended;
	item *page;
	size_t count, at;
} source;

typedef struct listing {
	cb_store *cs;
	const cb_audit_options *options;
	source *sources;
	size_t count;
	size_t page_max;
	size_t *heap; /* indices of sources that have an entry, the newest first */
	size_t heap_count;
	pmap names;      /* number of a box: its name now, or its last one */
	bool gone_known; /* of boxes that are gone too */
	/* While a page is read: */
	source *filling;
	size_t looked;
} listing;

/* ---- entries ---- */

static char *put_text(char **at, const char *s, size_t size)
{
	char *out = *at;
	memcpy(out, s, size);
	out[size] = 0;
	*at += size + 1;
	return out;
}

static cb_code entry_add(listing *l, uint64_t box, const cb_audit *a, uint64_t content, cb_error *err)
{
	char subject[LIMIT_AUDIT_TEXT_BYTES + 1];
	audit_cut(a->subject, subject);
	size_t action = strnlen(a->action, KIND_MAX_BYTES), sizes = strlen(a->box) + strlen(a->who) + action + strlen(a->message);
	/* A subject that is still to be read gets as much room as it may need. */
	char *text = mem_alloc(sizes + (content ? LIMIT_AUDIT_TEXT_BYTES : strlen(subject)) + 5), *at = text;
	if (!text) return cb_err_nomem(err);
	item *e = &l->filling->page[l->filling->count++];
	*e = (item){*a, box, content, text};
	e->a.box = put_text(&at, a->box, strlen(a->box));
	e->a.who = put_text(&at, a->who, strlen(a->who));
	e->a.action = put_text(&at, a->action, action);
	e->a.message = put_text(&at, a->message, strlen(a->message));
	e->a.subject = put_text(&at, subject, content ? 0 : strlen(subject));
	return CB_OK;
}

static bool is_wanted(const listing *l, const char *box, const char *who, cb_code code)
{
	const cb_audit_options *o = l->options;
	return (!o->box || strcmp(o->box, box) == 0) && (!o->who || strcmp(o->who, who) == 0) && (!o->refused || code != CB_OK);
}

static cb_code page_state(listing *l)
{
	return l->filling->count == l->page_max || ++l->looked == LOOK_MAX ? CB_INTERRUPTED : CB_OK;
}

/* ---- steps ---- */

static cb_code see_step(void *context, const store_step *step, cb_error *err)
{
	listing *l = context;
	source *s = l->filling;
	if (step->seq == 0 || step->ended_ns < l->options->since_ns) { /* how a box began is told by the audit's rows */
		s->ended = true;
		return CB_INTERRUPTED;
	}
	s->next = step->seq - 1;
	s->ended = s->next == 0;
	if (!is_wanted(l, s->name, step->who, CB_OK)) return page_state(l);
	char subject[LIMIT_AUDIT_TEXT_BYTES + 2];
	size_t size = step->params.size < sizeof(subject) ? step->params.size : sizeof(subject) - 1;
	if (size) memcpy(subject, step->params.bytes, size);
	subject[size] = 0;
	cb_audit a = {.struct_size = sizeof(a),
	              .time_ns = step->ended_ns,
	              .box = s->name,
	              .who = step->who,
	              .action = step->kind,
	              .subject = subject,
	              .message = "",
	              .seq = step->seq,
	              .count = 1};
	CB_TRY(entry_add(l, s->box, &a, step->params_content, err));
	return page_state(l);
}

/* Long parameters: their beginning. */
static cb_code read_subject(const cb_store *cs, item *e, cb_error *err)
{
	char bytes[LIMIT_AUDIT_TEXT_BYTES + 2], cut[LIMIT_AUDIT_TEXT_BYTES + 1];
	uint64_t size = 0;
	if (!e->content) return CB_OK;
	cb_error why;
	cb_code code = store_content_size(cs->s, e->content, &size, cb_err_aside(&why));
	if (size > LIMIT_AUDIT_TEXT_BYTES + 1) size = LIMIT_AUDIT_TEXT_BYTES + 1;
	if (code == CB_OK) code = store_content_read(cs->s, e->content, 0, bytes, (size_t)size, cb_err_aside(&why));
	if (code == CB_STALE) return CB_OK; /* the step was pruned and collected since it was read */
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	bytes[size] = 0;
	audit_cut(bytes, cut);
	char *to = e->text + (e->a.subject - e->text);
	memcpy(to, cut, strlen(cut) + 1);
	return CB_OK;
}

/* Subjects name paths, and messages quote them: told as the parameters of steps are (gate_history.c). */
static cb_code withhold(cb_store *cs, gate_past *past, item *e, cb_error *err)
{
	const char *who = box_store_who(cs);
	bool told = true;
	if (!e->box || !gate_rules_for(cs, e->box, who)) return CB_OK;
	CB_TRY(gate_step_told(past, cs, e->box, who, e->a.seq, e->a.who, e->a.subject, &told, NULL, err));
	if (!told) e->a.subject = e->a.message = "";
	return CB_OK;
}

static cb_code fill_steps(listing *l, source *s, cb_error *err)
{
	AUTO_PAST gate_past past = {0};
	CB_TRY(store_step_walk(l->cs->s, s->box, s->next, 0, false, see_step, l, err));
	if (!l->looked && !s->count) s->ended = true;
	for (size_t i = 0; i < s->count; i++) {
		CB_TRY(read_subject(l->cs, &s->page[i], err));
		CB_TRY(withhold(l->cs, &past, &s->page[i], err));
	}
	return CB_OK;
}

/* ---- rows of the audit ---- */

static cb_code name_learn(listing *l, uint64_t box, const char *name, cb_error *err)
{
	return pmap_put(&l->names, span_make((const uint8_t *)&box, sizeof(box)),
	                span_make((const uint8_t *)name, strlen(name) + 1), err);
}

static bool name_known(const listing *l, uint64_t box, span *out)
{
	return pmap_get(&l->names, span_make((const uint8_t *)&box, sizeof(box)), out) == PMAP_VALUE;
}

static cb_code learn_gone(void *context, const store_audit *row, cb_error *err)
{
	listing *l = context;
	span known;
	return row->box == 0 || name_known(l, row->box, &known) ? CB_OK : name_learn(l, row->box, row->name, err);
}

/* Of a box that is gone, the newest deed tells its last name: its deletion, when that is still there. */
static cb_code name_of(listing *l, const store_audit *row, const char **out, cb_error *err)
{
	span known;
	*out = "";
	if (row->box == 0) return CB_OK;
	if (!name_known(l, row->box, &known)) {
		if (!l->gone_known) CB_TRY(store_audit_walk(l->cs->s, false, INT64_MAX, UINT64_MAX, learn_gone, l, err));
		l->gone_known = true;
		CB_TRY(learn_gone(l, row, err));
		(void)name_known(l, row->box, &known);
	}
	*out = (const char *)known.bytes;
	return CB_OK;
}

static cb_code see_row(void *context, const store_audit *row, cb_error *err)
{
	listing *l = context;
	source *s = l->filling;
	const char *name;
	s->next = row->id;
	CB_TRY(name_of(l, row, &name, err));
	if (row->time_ns < l->options->since_ns || !is_wanted(l, name, row->who, row->code)) return page_state(l);
	cb_audit a = {.struct_size = sizeof(a),
	              .time_ns = row->time_ns,
	              .box = name,
	              .who = row->who,
	              .action = row->action,
	              .subject = row->subject,
	              .code = row->code,
	              .message = row->message,
	              .count = row->count};
	CB_TRY(entry_add(l, row->box, &a, 0, err));
	return page_state(l);
}

static cb_code fill_rows(listing *l, source *s, cb_error *err)
{
	uint64_t before = s->next;
	CB_TRY(store_audit_walk(l->cs->s, s->refused, s->next, LOOK_MAX, see_row, l, err));
	s->ended = s->next == before;
	for (size_t i = 0; i < s->count; i++) CB_TRY(withhold(l->cs, NULL, &s->page[i], err));
	return CB_OK;
}

/* ---- sources ---- */

static void page_clear(source *s)
{
	for (size_t i = 0; i < s->count; i++) free(s->page[i].text);
	s->count = s->at = 0;
}

/* Until it has an entry or ended. */
static cb_code source_fill(listing *l, source *s, cb_error *err)
{
	page_clear(s);
	while (s->count == 0 && !s->ended) {
		l->filling = s;
		l->looked = 0;
		CB_TRY(s->box ? fill_steps(l, s, err) : fill_rows(l, s, err));
	}
	return CB_OK;
}

static int64_t source_time(const listing *l, size_t at)
{
	const source *s = &l->sources[l->heap[at]];
	return s->page[s->at].a.time_ns;
}

static void heap_swap(listing *l, size_t a, size_t b)
{
	size_t t = l->heap[a];
	l->heap[a] = l->heap[b];
	l->heap[b] = t;
}

static void heap_down(listing *l, size_t at)
{
	for (;;) {
		size_t newest = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < l->heap_count; child++)
			if (source_time(l, child) > source_time(l, newest)) newest = child;
		if (newest == at) return;
		heap_swap(l, at, newest);
		at = newest;
	}
}

/* The source at the top gave its entry. */
static cb_code heap_advance(listing *l, cb_error *err)
{
	source *s = &l->sources[l->heap[0]];
	if (++s->at == s->count) CB_TRY(source_fill(l, s, err));
	if (s->count == 0) heap_swap(l, 0, --l->heap_count);
	heap_down(l, 0);
	return CB_OK;
}

static cb_code source_add(listing *l, uint64_t box, const char *name, uint64_t next, cb_error *err)
{
	source *s = &l->sources[l->count++];
	*s = (source){.box = box, .next = next};
	memcpy(s->name, name, strlen(name) + 1);
	s->page = mem_alloc(l->page_max * sizeof(item));
	return s->page ? CB_OK : cb_err_nomem(err);
}

/* Of a deleted box gc has not taken them yet, or left those that others need. One that was never whole had none that anybody saw. */
static cb_code has_steps(const listing *l, const store_box *row, bool *out, cb_error *err)
{
	graft_stage stage = GRAFT_NONE;
	*out = !l->options->refused && row->head.seq > 0 && !box_is_hidden(row) &&
	       (!l->options->box || strcmp(l->options->box, row->name) == 0);
	if (*out && row->deleted) CB_TRY(graft_stage_of(l->cs, row, &stage, err));
	*out = *out && stage == GRAFT_NONE;
	return CB_OK;
}

static cb_code listing_start(listing *l, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(l->cs->s, true, store_box_collect, &rows, err));
	const store_box *all = (const store_box *)(const void *)rows.bytes;
	size_t boxes = rows.size / sizeof(store_box), pages = PAGES_TOTAL / (boxes + 2);
	l->page_max = pages < 1 ? 1 : pages > PAGE_MAX ? PAGE_MAX : pages;
	l->sources = mem_alloc((boxes + 2) * sizeof(source));
	l->heap = mem_alloc((boxes + 2) * sizeof(size_t));
	if (!l->sources || !l->heap) return cb_err_nomem(err);
	CB_TRY(source_add(l, 0, "", INT64_MAX, err));
	l->sources[0].refused = true;
	if (!l->options->refused) CB_TRY(source_add(l, 0, "", INT64_MAX, err));
	for (size_t i = 0; i < boxes; i++) {
		CB_TRY(name_learn(l, all[i].id, all[i].name, err));
		bool steps = false;
		CB_TRY(has_steps(l, &all[i], &steps, err));
		if (steps) CB_TRY(source_add(l, all[i].id, all[i].name, all[i].head.seq, err));
	}
	for (size_t i = 0; i < l->count; i++) {
		CB_TRY(source_fill(l, &l->sources[i], err));
		if (l->sources[i].count) l->heap[l->heap_count++] = i;
	}
	for (size_t i = l->heap_count; i-- > 0;) heap_down(l, i);
	return CB_OK;
}

static void listing_done(listing *l)
{
	for (size_t i = 0; i < l->count; i++) {
		page_clear(&l->sources[i]);
		free(l->sources[i].page);
	}
	free(l->sources);
	free(l->heap);
	pmap_done(&l->names);
}

/* ---- cursor ---- */

typedef struct audit_cursor {
	cb_cursor c;
	cb_audit_options options;
	char *box, *who; /* of the options */
	listing l;
	uint64_t left;
	bool stands; /* on the entry that was given last, the first of the heap */
} audit_cursor;

static cb_code audit_next(cb_cursor *c, const void **out, cb_error *err)
{
	audit_cursor *a = (audit_cursor *)c;
	listing *l = &a->l;
	*out = NULL;
	if (a->stands) CB_TRY(heap_advance(l, err));
	a->stands = false;
	if (!l->heap_count || a->left == 0) return CB_OK;
	const source *s = &l->sources[l->heap[0]];
	a->left--;
	a->stands = true;
	*out = &s->page[s->at].a;
	return CB_OK;
}

static void audit_done(cb_cursor *c)
{
	audit_cursor *a = (audit_cursor *)c;
	listing_done(&a->l);
	free(a->box);
	free(a->who);
}

static cb_code audit_start(audit_cursor *a, const cb_audit_options *options, cb_error *err)
{
	a->options = *options;
	a->l = (listing){.cs = a->c.cs, .options = &a->options};
	a->left = options->max_entries ? options->max_entries : UINT64_MAX;
	if (options->box) a->options.box = a->box = mem_strdup(options->box);
	if (options->who) a->options.who = a->who = mem_strdup(options->who);
	if ((options->box && !a->box) || (options->who && !a->who)) return cb_err_nomem(err);
	return listing_start(&a->l, err);
}

cb_code cb_audit_open(cb_store *cs, const cb_audit_options *options, cb_cursor **out, cb_error *err)
{
	static const cursor_ops ops = {CURSOR_AUDIT, audit_next, audit_done, false};
	audit_cursor *a = NULL;
	cb_audit_options o;
	NEED(err, "store out", cs, out);
	CB_TRY(SIZED_TAKE(cb_audit_options, max_entries, &o, options, err));
	CB_TRY(cursor_create(sizeof(*a), &ops, cs, NULL, &a, err));
	cb_code code = audit_start(a, &o, err);
	if (code == CB_OK) *out = &a->c;
	else cb_cursor_close(&a->c);
	return code;
}

cb_code cb_audit_list(cb_store *cs, const cb_audit_options *options, cb_audit_visit visit, void *context, cb_error *err)
{
	NEED(err, "store visit", cs, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_audit_open(cs, options, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}
