/*
 * grep.c: cb_grep: the files of a scope, their texts, the lines that are wanted and those around them.
 *
 * A file up to LIMIT_GREP_WINDOW_BYTES is one text, and where its bytes lie in the store's cache they are searched there. A larger one
 * comes through a window: whole lines are searched, the rest of the last line and the context before it move to its front.
 */
#include <assert.h>

#include "base/args.h"
#include "base/sized.h"
#include "search/regex.h"
#include "search/scope.h"

enum { PROBE_BYTES = 32 << 10 }; /* a NUL among the first so many bytes makes a file binary, as in GNU grep */

typedef struct grep {
	reading view;
	const cb_grep_options *o;
	cb_grep_visit visit;
	void *context;
	cb_grep_count count;
	regex *re;
	scope scope;
	buf window;
	buf matches;
	bool stop; /* no more files */
} grep;

typedef struct file_state {
	const char *path;
	bool binary;
	bool done;
	bool last;           /* the last wanted line was visited: only its context is left */
	uint64_t selected;   /* lines visited as matches */
	uint64_t line;       /* number of the line that holds the byte at `counted` */
	size_t counted;      /* offsets in the text, as all below */
	size_t printed;      /* end of what was visited */
	uint64_t after_left; /* lines of context still to come */
	bool has_next;       /* the next matching line is known: for inverted searches */
	size_t next_start, next_end;
} file_state;

/* ---- visiting ---- */

static size_t count_newlines(const uint8_t *bytes, size_t size)
{
	size_t n = 0;
	while (size) {
		/* Counted in bytes, sixty-four at a time, so that the compiler can use the widest registers. */
		size_t some = size < 64 * 255 ? size : 64 * 255;
		size_t i = 0;
		for (; i < some; i++) n += bytes[i] == '\n';
		bytes += some;
		size -= some;
	}
	return n;
}

static uint64_t line_number(file_state *f, span text, size_t at)
{
	assert(at >= f->counted);
	f->line += count_newlines(text.bytes + f->counted, at - f->counted);
	f->counted = at;
	return f->line;
}

static size_t end_of_line(span text, size_t at)
{
	const uint8_t *p = at < text.size ? memchr(text.bytes + at, '\n', text.size - at) : NULL;
	return p ? (size_t)(p - text.bytes) : text.size;
}

static cb_code visit_line(grep *g, file_state *f, span text, size_t start, size_t end, bool context, cb_error *err)
{
	cb_grep_line l = CB_WITH(cb_grep_line, .path = f->path, .context = context, .binary = f->binary);
	bool bare = g->o->names_only || f->binary;
	if (!bare) {
		l.line = line_number(f, text, start);
		l.text = (const char *)text.bytes + start;
		l.size = end - start;
		f->printed = end < text.size ? end + 1 : end;
	}
	if (!bare && !context && !g->o->invert) {
		buf_clear(&g->matches);
		CB_TRY(regex_matches(g->re, start, end, &g->matches, err));
		l.matches = (const cb_grep_match *)(const void *)g->matches.bytes;
		l.match_count = g->matches.size / sizeof(cb_grep_match);
	}
	return g->visit(g->context, &l, err);
}

static cb_code visit_after(grep *g, file_state *f, span text, size_t limit, cb_error *err)
{
	while (f->after_left && f->printed < limit) {
		f->after_left--;
		CB_TRY(visit_line(g, f, text, f->printed, end_of_line(text, f->printed), true, err));
	}
	return CB_OK;
}

/* The start of the line `lines` before the one at `at`, not before `floor`. */
static size_t lines_before(span text, size_t at, unsigned lines, size_t floor)
{
	while (lines-- && at > floor) {
		const uint8_t *p = at - 1 > floor ? memrchr(text.bytes + floor, '\n', at - 1 - floor) : NULL;
		at = p ? (size_t)(p - text.bytes) + 1 : floor;
	}
	return at;
}

static cb_code visit_before(grep *g, file_state *f, span text, size_t start, cb_error *err)
{
	size_t at = lines_before(text, start, g->o->before, f->printed);
	while (at < start) {
		size_t end = end_of_line(text, at);
		CB_TRY(visit_line(g, f, text, at, end, true, err));
		at = end + 1;
	}
	return CB_OK;
}

/* ---- choosing lines ---- */

/* A line that matching cannot get through is named. */
static cb_code next_matching(grep *g, file_state *f, span text, size_t from, size_t *start, size_t *end, bool *found, cb_error *err)
{
	*start = from;
	cb_code code = regex_next(g->re, from, start, end, found, err);
	if (code != CB_LIMIT || f->binary) return code;
	return cb_err_wrap(err, code, "'%s', line %llu", f->path, (unsigned long long)line_number(f, text, *start));
}

/* The first line from `from` on that is wanted. */
static cb_code next_wanted(grep *g, file_state *f, span text, size_t from, size_t *start, size_t *end, bool *found, cb_error *err)
{
	if (!g->o->invert) return next_matching(g, f, text, from, start, end, found, err);
	for (; from < text.size; from = f->next_end + 1) {
		if (!f->has_next || f->next_start < from) {
			bool some = false;
			CB_TRY(next_matching(g, f, text, from, &f->next_start, &f->next_end, &some, err));
			if (!some) f->next_start = f->next_end = SIZE_MAX;
			f->has_next = true;
		}
		if (f->next_start > from) {
			*start = from;
			*end = end_of_line(text, from);
			*found = true;
			return CB_OK;
		}
	}
	*found = false;
	return CB_OK;
}

static void note_selected(grep *g, file_state *f)
{
	f->selected++;
	g->count.matched_lines++;
	f->after_left = g->o->after;
	if (g->o->max_lines && g->count.matched_lines >= g->o->max_lines) g->stop = true;
	f->last = g->stop || (g->o->max_per_file && f->selected >= g->o->max_per_file);
	if (f->binary || g->o->names_only || (f->last && !f->after_left)) f->done = true;
}

/* Searches whole lines of a text, from an offset that begins one. */
static cb_code search_text(grep *g, file_state *f, span text, size_t from, cb_error *err)
{
	CB_TRY(regex_begin(g->re, text, err));
	f->has_next = false;
	while (!f->done && !f->last) {
		size_t start = 0, end = 0;
		bool found = false;
		CB_TRY(next_wanted(g, f, text, from, &start, &end, &found, err));
		CB_TRY(visit_after(g, f, text, found ? start : text.size, err));
		if (!found) return CB_OK;
		if (g->o->before && !f->binary && !g->o->names_only) CB_TRY(visit_before(g, f, text, start, err));
		CB_TRY(visit_line(g, f, text, start, end, false, err));
		note_selected(g, f);
		from = end + 1;
	}
	/* Lines after the last that is wanted are context whether they match or not, as in GNU grep. */
	CB_TRY(visit_after(g, f, text, text.size, err));
	if (f->last && !f->after_left) f->done = true;
	return CB_OK;
}

/* ---- texts ---- */

/* NULs end lines too in a binary file, as in GNU grep. */
static void break_at_nuls(uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] == 0) bytes[i] = '\n';
}

static bool has_nul(const uint8_t *bytes, size_t size)
{
	return size && memchr(bytes, 0, size < PROBE_BYTES ? size : PROBE_BYTES) != NULL;
}

static cb_code window_need(grep *g, size_t size, cb_error *err)
{
	g->window.size = 0;
	return buf_reserve(&g->window, size ? size : 1, err);
}

static cb_code search_small(grep *g, file_state *f, const box_node *r, cb_error *err)
{
	blob *hold = NULL;
	span text;
	CB_TRY(look_lend(g->view.now, r, &text, &hold, err));
	size_t size = (size_t)r->size;
	if (!text.bytes) {
		CB_TRY(window_need(g, size, err));
		CB_TRY(look_read(g->view.now, r, 0, g->window.bytes, size, err));
		text = span_make(g->window.bytes, size);
	}
	f->binary = has_nul(text.bytes, size);
	cb_code code = CB_OK;
	if (f->binary) {
		if (text.bytes != g->window.bytes) {
			code = window_need(g, size, err);
			if (code == CB_OK) memcpy(g->window.bytes, text.bytes, size);
		}
		if (code == CB_OK) break_at_nuls(g->window.bytes, size);
		text = span_make(g->window.bytes, size);
	}
	if (code == CB_OK) code = search_text(g, f, text, 0, err);
	blob_unref(hold);
	return code;
}

/* In a binary file a hole is nothing but ends of lines: one window of it stands for all. */
static cb_code skip_hole(grep *g, const box_node *r, uint64_t *offset, cb_error *err)
{
	uint64_t data = 0;
	cb_error why;
	cb_code code = look_seek(g->view.now, r, *offset, false, &data, cb_err_aside(&why));
	if (code == CB_NOTFOUND) data = r->size;
	else if (code != CB_OK) return cb_err_pass(err, code, &why);
	if (data - *offset > LIMIT_GREP_WINDOW_BYTES) *offset = data - 1;
	return CB_OK;
}

static cb_code is_sparse(grep *g, const box_node *r, bool *out, cb_error *err)
{
	uint64_t hole = r->size;
	CB_TRY(look_seek(g->view.now, r, 0, true, &hole, err));
	*out = hole < r->size;
	return CB_OK;
}

/* What was searched leaves the window but for the context that the next line may want. Gives the size that stays. */
static size_t window_slide(grep *g, file_state *f, size_t filled, size_t searched)
{
	span text = span_make(g->window.bytes, filled);
	size_t floor = searched > LIMIT_GREP_WINDOW_BYTES / 4 ? searched - LIMIT_GREP_WINDOW_BYTES / 4 : 0;
	if (f->printed > floor) floor = f->printed;
	size_t keep = floor > searched ? searched : lines_before(text, searched, f->binary ? 0 : g->o->before, floor);
	if (!f->binary && !g->o->names_only && keep > f->counted) (void)line_number(f, text, keep);
	memmove(g->window.bytes, g->window.bytes + keep, filled - keep);
	f->counted = f->counted > keep ? f->counted - keep : 0;
	f->printed = f->printed > keep ? f->printed - keep : 0;
	return keep;
}

static cb_code search_large(grep *g, file_state *f, const box_node *r, cb_error *err)
{
	size_t filled = 0, from = 0;
	uint64_t offset = 0;
	CB_TRY(window_need(g, LIMIT_GREP_WINDOW_BYTES, err));
	CB_TRY(is_sparse(g, r, &f->binary, err));
	while (!f->done && (offset < r->size || from < filled)) {
		size_t room = LIMIT_GREP_WINDOW_BYTES - filled;
		if (f->binary && offset < r->size && offset > 0) CB_TRY(skip_hole(g, r, &offset, err));
		size_t n = r->size - offset < room ? (size_t)(r->size - offset) : room;
		CB_TRY(look_read(g->view.now, r, offset, g->window.bytes + filled, n, err));
		if (offset == 0 && has_nul(g->window.bytes, n)) f->binary = true;
		if (f->binary) break_at_nuls(g->window.bytes + filled, n);
		offset += n;
		filled += n;
		const uint8_t *last = offset < r->size ? memrchr(g->window.bytes + from, '\n', filled - from) : NULL;
		size_t searched = last ? (size_t)(last - g->window.bytes) + 1 : filled;
		CB_TRY(search_text(g, f, span_make(g->window.bytes, searched), from, err));
		size_t moved = window_slide(g, f, filled, searched);
		filled -= moved;
		from = searched - moved;
	}
	return CB_OK;
}

static cb_code search_file(grep *g, const char *path, const box_node *r, cb_error *err)
{
	file_state f = {.path = path, .line = 1};
	cb_code code = CB_OK;
	g->count.files++;
	if (r->size) code = r->size <= LIMIT_GREP_WINDOW_BYTES ? search_small(g, &f, r, err) : search_large(g, &f, r, err);
	if (f.selected) g->count.matched_files++;
	return code;
}

/* ---- files ---- */

static cb_code search_all(grep *g, cb_error *err)
{
	reading *v = &g->view;
	if (v->first.type == CB_FILE) return search_file(g, v->path, &v->first, err);
	if (v->first.type != CB_DIR) return CB_OK;
	size_t size = strlen(v->path);
	g->scope.base_size = size > 1 ? size + 1 : 1;
	g->scope.leave_hidden = v->first.ino == BOX_INO_ROOT && !g->o->hidden_too;
	while (!g->stop) {
		box_node r;
		bool found = false;
		CB_TRY(look_walk_next(v->w, &r, &found, err));
		if (!found) return CB_OK;
		const char *path = v->w->path;
		if (r.type == CB_DIR && scope_folder(&g->scope, path)) CB_TRY(look_walk_enter(v->w, &r, err));
		if (r.type == CB_FILE && scope_file(&g->scope, path)) CB_TRY(search_file(g, path, &r, err));
	}
	return CB_OK;
}

cb_code cb_grep(cb_box *box, const char *path, const cb_grep_options *options, cb_grep_visit visit, void *context,
                cb_grep_count *out, cb_error *err)
{
	NEED(err, "box path options visit", box, path, options, visit);
	cb_grep_options o;
	CB_TRY(SIZED_TAKE(cb_grep_options, names_only, &o, options, err));
	CB_TRY(SIZED_CHECK(cb_grep_count, matched_lines, out, err));
	if (o.before > LIMIT_GREP_CONTEXT_LINES || o.after > LIMIT_GREP_CONTEXT_LINES)
		return cb_err_set(err, CB_LIMIT, "at most %d lines of context", LIMIT_GREP_CONTEXT_LINES);
	grep g = {.o = &o, .count = CB_INIT(cb_grep_count), .visit = visit, .context = context};
	g.window = BUF_INIT(LIMIT_GREP_WINDOW_BYTES);
	g.matches = BUF_INIT(LIMIT_GREP_MATCHES * sizeof(cb_grep_match));
	CB_TRY(regex_compile(&o, &g.re, err));
	cb_code code = scope_init(&g.scope, &o, err);
	if (code == CB_OK) code = reading_begin(&g.view, box, path, true, err);
	if (code == CB_OK) code = search_all(&g, err);
	reading_end(&g.view);
	scope_done(&g.scope);
	regex_destroy(g.re);
	buf_done(&g.window);
	buf_done(&g.matches);
	if (code == CB_INTERRUPTED) code = CB_OK;
	if (code == CB_OK) SIZED_GIVE(out, &g.count);
	return code;
}
