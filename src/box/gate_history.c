/*
 * gate_history.c: what the steps of a box may tell.
 *
 * Rules are of now and hold for every state. The numbers of steps stay, with who made them, when, and of what kind; a step that changed
 * only what is hidden is a record that changed nothing. Parameters and results are text that quotes whatever its author could see (the
 * output of a command, say), which no rule about paths can take apart: so they are told to nobody but their author, and to him only while
 * nothing of what the step touched or named is hidden from him.
 */
#include "box/veil.h"

#include "base/id_set.h"
#include "box/history.h"

typedef struct touching {
	tree_view before, after;
	gate_touch *out;
	id_set entered; /* folders of which an entry came or went: their times follow */
	buf touched;    /* key: entries of folders with other times */
} touching;

static cb_code touch_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	touching *w = context;
	bool touch = false, shown = true;
	key k = {.size = key_bytes.size};
	key_parts parts;
	if (key_bytes.bytes[0] == KIND_COUNTERS) return CB_OK;
	memcpy(k.bytes, key_bytes.bytes, key_bytes.size);
	CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch) return buf_append(&w->touched, &k, sizeof(k), err);
	CB_TRY(key_parse(key_bytes, &parts, err));
	if (parts.kind == KIND_ENTRY && !(old_value.bytes && new_value.bytes))
		CB_TRY(id_set_add(&w->entered, parts.ino, &touch, err));
	if (old_value.bytes) CB_TRY(gate_shows(&w->before, &k, &shown, err));
	if (shown && new_value.bytes) CB_TRY(gate_shows(&w->after, &k, &shown, err));
	if (shown) w->out->shown = true;
	else w->out->hidden = true;
	return w->out->shown && w->out->hidden ? CB_INTERRUPTED : CB_OK;
}

/* A folder whose times somebody set. Where what is told of it did not change nothing did, to who looks; that is hidden only if the step
 * did nothing else. */
static cb_code touch_times(touching *w, const key *k, bool *unseen, cb_error *err)
{
	tree_value a, b;
	entry was, is;
	cb_code code = tree_get(&w->before, key_span(k), &a, err);
	if (code == CB_OK) code = tree_get(&w->after, key_span(k), &b, err);
	if (code == CB_NOTFOUND) w->out->hidden = true;
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	CB_TRY(entry_decode(span_make(a.bytes, a.size), &was, err));
	CB_TRY(entry_decode(span_make(b.bytes, b.size), &is, err));
	if (id_set_has(&w->entered, is.rec.ino)) return CB_OK;
	if (was.rec.mtime_ns != is.rec.mtime_ns || was.rec.atime_ns != is.rec.atime_ns) w->out->shown = true;
	else *unseen = true;
	return CB_OK;
}

static cb_code touch_all(touching *w, cb_error *err)
{
	bool unseen = false;
	const key *all = (const key *)(const void *)w->touched.bytes;
	for (size_t i = 0; i < w->touched.size / sizeof(*all); i++) CB_TRY(touch_times(w, &all[i], &unseen, err));
	if (unseen && !w->out->shown) w->out->hidden = true;
	return CB_OK;
}

/* ---- one step after the other ---- */

enum { TAKEN_MAX = 64, TAKEN_KEYS_MAX = 1 << 14 }; /* then a state is loaded again: what is taken back is in memory */

static void past_forget(gate_past *p)
{
	state_unref(TAKE_PTR(p->at));
	kept_done(&p->kept);
	p->taken = 0;
}

void gate_past_done(gate_past *p)
{
	veil_destroy(TAKE_PTR(p->before));
	veil_destroy(TAKE_PTR(p->after));
	past_forget(p);
}

static cb_code past_at(gate_past *p, cb_store *cs, uint64_t box, uint64_t seq, cb_error *err)
{
	bool there = p->at && p->at->box == box && p->at->seq == seq;
	if (there && p->taken < TAKEN_MAX && pmap_count(&p->at->overlay) < TAKEN_KEYS_MAX) return CB_OK;
	past_forget(p);
	CB_TRY(kept_load(&p->kept, cs, box, seq, KEPT_VISIT, err));
	p->at = state_ref(p->kept.s);
	return CB_OK;
}

static cb_code past_veil(veil **v, cb_store *cs, uint64_t box, const char *who, cb_error *err)
{
	if (*v && (*v)->box != box) veil_destroy(TAKE_PTR(*v));
	if (!*v) CB_TRY(veil_create(cs, box, who, v, err));
	veil_who_set(*v, who);
	return CB_OK;
}

static cb_code past_touch(gate_past *p, cb_store *cs, uint64_t box, const char *who, uint64_t seq, gate_touch *out, cb_error *err)
{
	AUTO_STATE state *before = NULL;
	CB_TRY(past_at(p, cs, box, seq, err));
	CB_TRY(state_before_gap(cs, p->at, &before, err));
	CB_TRY(past_veil(&p->before, cs, box, who, err));
	CB_TRY(past_veil(&p->after, cs, box, who, err));
	tree_view a = state_view(cs, before), b = state_view(cs, p->at);
	touching w = {veil_over(p->before, &a), veil_over(p->after, &b), out, .touched = BUF_INIT(SIZE_MAX)};
	*out = (gate_touch){0};
	cb_code code = tree_diff(&a, &b, touch_key, &w, err);
	if (code == CB_OK) code = touch_all(&w, err);
	id_set_done(&w.entered);
	buf_done(&w.touched);
	before->seq = seq - 1; /* or was pruned, and nobody asks for it */
	state_unref(p->at);
	p->at = TAKE_PTR(before);
	p->taken++;
	return code;
}

cb_code gate_step_touch(gate_past *p, cb_store *cs, uint64_t box, const char *who, uint64_t seq, gate_touch *out, cb_error *err)
{
	AUTO_PAST gate_past own = {0};
	*out = (gate_touch){.shown = true};
	if (seq == 0 || !gate_rules_for(cs, box, who)) return CB_OK;
	return past_touch(p ? p : &own, cs, box, who, seq, out, err);
}

cb_code gate_step_reversed(cb_box *b, uint64_t seq, cb_error *err)
{
	if (seq == 0 || !gate_has_rules(b->cs, b)) return CB_OK;
	AUTO_KEPT kept_state after = {0};
	AUTO_STATE state *before = NULL;
	CB_TRY(kept_load(&after, b->cs, b->id, seq, KEPT_VISIT, err));
	CB_TRY(state_before_gap(b->cs, after.s, &before, err));
	tree_view from = state_view(b->cs, after.s), to = state_view(b->cs, before);
	return gate_weigh(b, &from, &to, err);
}

bool gate_path_named(const cb_store *cs, uint64_t box, const char *who, const char *path)
{
	const gate *g = cs->gate;
	if (!g) return true;
	AUTO_FREE char *clean = path_clean(path);
	if (!clean) return false;
	/* Every folder on the way, then the path itself. */
	for (size_t i = 1, size = strlen(clean); i <= size; i++) {
		if (clean[i] != '/' && clean[i] != 0) continue;
		char end = clean[i];
		clean[i] = 0;
		const char *name = strrchr(clean, '/') + 1;
		gate_request r = {.who = who, .box = box, .access = GATE_READ, .path = clean, .name = span_str(name)};
		if (g->ask(g->context, &r) != GATE_PASS) return false;
		clean[i] = end;
	}
	return true;
}

bool gate_named(const cb_box *b, const char *text)
{
	const gate *g = b->cs->gate;
	if (!g) return true;
	uint64_t box = box_governed(&b->row);
	if (text[0] == '/') return gate_path_named(b->cs, box, b->who, text);
	gate_request r = {.who = b->who, .box = box, .access = GATE_READ, .name = span_str(text)};
	return g->ask(g->context, &r) == GATE_PASS;
}

/* Of a rename, or of several operands: each path that one blank sets apart from the next. */
static bool paths_named(const cb_store *cs, uint64_t box, const char *who, const char *params)
{
	if (!gate_path_named(cs, box, who, params)) return false;
	if (!strstr(params, " /")) return true;
	AUTO_FREE char *text = mem_strdup(params);
	bool named = text != NULL;
	for (char *at = text, *next; named && at; at = next) {
		next = strstr(at, " /");
		if (next) *next++ = 0;
		named = gate_path_named(cs, box, who, at);
	}
	return named;
}

/* Was it said by who asks, and does it name nothing that is hidden from him: as paths, and as a key? */
static bool params_named(const cb_store *cs, uint64_t box, const char *who, const char *step_who, const char *params)
{
	const gate *g = cs->gate;
	gate_request as_key = {.who = who, .box = box, .access = GATE_READ, .name = span_str(params)};
	return strcmp(who, step_who) == 0 && paths_named(cs, box, who, params) && g->ask(g->context, &as_key) == GATE_PASS;
}

cb_code gate_step_told(gate_past *p, cb_store *cs, uint64_t box, const char *who, uint64_t seq, const char *step_who,
                       const char *params, bool *out, gate_touch *touch, cb_error *err)
{
	gate_touch own, *t = touch ? touch : &own;
	cb_error why;
	*t = (gate_touch){.shown = true};
	*out = true;
	if (!gate_rules_for(cs, box, who)) return CB_OK;
	*out = params_named(cs, box, who, step_who, params);
	if (!*out && !touch) return CB_OK;
	cb_code code = gate_step_touch(p, cs, box, who, seq, t, cb_err_aside(&why));
	bool known = code != CB_STALE && code != CB_NOTFOUND;
	if (known && code != CB_OK) return cb_err_pass(err, code, &why);
	if (!known) *t = (gate_touch){.shown = true};
	*out = *out && known && !t->hidden;
	return CB_OK;
}
