/*
 * grep.c: cb_grep: the files of a scope, their texts, the lines that are wanted and those around them.
 *
 * It goes from one wanted line to the next: that and the lines around it are put into `found`, and given one by one before it goes on. The
 * text they are in stays where it is meanwhile.
 *
 * A file up to LIMIT_GREP_WINDOW_BYTES is one text, and where its bytes lie in the store's cache they are searched there. A larger one
 * comes through a window: whole lines are searched, the rest of the last line and the context before it move to its front.
 */
#include <assert.h>

#include "base/args.h"
#include "base/sized.h"
#include "box/cursor.h"
#include "search/regex.h"
#include "search/scope.h"

enum {
	PROBE_BYTES = 32 << 10,       /* a NUL among the first so many bytes makes a file binary, as in GNU grep */
	READ_WHOLE_BYTES = 256 << 10, /* a file up to this is read whole, holes and all */
	HOLE_BYTES = 2,               /* of a hole that are searched */
};

/* A line that is to be given: where it is in the text. */
typedef struct found_line {
	size_t start, end;
	uint64_t line;
	bool context;
} found_line;

typedef struct file_state {
	const char *path; /* NULL: no file is being searched */
	const box_node *r;
	bool binary;
	bool done;
	bool last;           /* the last wanted line was found: only its context is left */
	bool counted_match;  /* among the files that match */
	uint64_t selected;   /* lines found as matches */
	uint64_t line;       /* number of the line that holds the byte at `counted` */
	size_t counted;      /* offsets in the text, as all below */
	size_t printed;      /* end of what was found */
	size_t from;         /* what comes next */
	uint64_t after_left; /* lines of context still to come */
	bool has_next;       /* the next matching line is known: for inverted searches */
	size_t next_start, next_end;
	/* Of one that comes through the window: */
	bool in_pieces;
	uint64_t offset;   /* read so far */
	uint64_t data_end; /* from there on up to this there is no hole */
	size_t filled;     /* of the window */
	size_t text_size;  /* of it, whole lines that were searched */
} file_state;

typedef struct grep {
	cb_cursor c;
	reading view;
	cb_grep_options o; /* its texts are not used after the beginning */
	cb_grep_count count;
	uint64_t selected; /* matching lines found, of all files */
	regex *re;
	scope scope;
	buf window;
	blob *content; /* NULL, or what the text lies in */
	span text;     /* that is being searched; none: {0} */
	bool searching;
	file_state file;
	box_node node; /* what the walk is at */
	buf found;     /* found_line */
	size_t given;
	buf matches;
	bool stop;    /* no more files */
	bool started; /* the path itself was looked at */
	cb_grep_line line;
} grep;

/* ---- lines ---- */

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

static bool is_bare(const grep *g)
{
	return g->o.names_only || g->file.binary;
}

static cb_code line_add(grep *g, size_t start, size_t end, bool context, cb_error *err)
{
	file_state *f = &g->file;
	found_line l = {.start = start, .end = end, .context = context};
	if (!is_bare(g)) {
		l.line = line_number(f, g->text, start);
		f->printed = end < g->text.size ? end + 1 : end;
	}
	return buf_append(&g->found, &l, sizeof(l), err);
}

/* What was found and not given yet; *out NULL: nothing. */
static cb_code line_give(grep *g, const void **out, cb_error *err)
{
	*out = NULL;
	if (g->given == g->found.size) return CB_OK;
	found_line l;
	memcpy(&l, g->found.bytes + g->given, sizeof(l));
	g->given += sizeof(l);
	g->line = CB_WITH(cb_grep_line, .path = g->file.path, .line = l.line, .context = l.context, .binary = g->file.binary);
	if (!l.context) {
		g->count.matched_lines++;
		if (!g->file.counted_match) g->count.matched_files++;
		g->file.counted_match = true;
	}
	*out = &g->line;
	if (is_bare(g)) return CB_OK;
	g->line.text = (const char *)g->text.bytes + l.start;
	g->line.size = l.end - l.start;
	if (l.context || g->o.invert) return CB_OK;
	buf_clear(&g->matches);
	CB_TRY(regex_matches(g->re, l.start, l.end, &g->matches, err));
	g->line.matches = (const cb_grep_match *)(const void *)g->matches.bytes;
	g->line.match_count = g->matches.size / sizeof(cb_grep_match);
	return CB_OK;
}

static cb_code add_after(grep *g, size_t limit, cb_error *err)
{
	file_state *f = &g->file;
	while (f->after_left && f->printed < limit) {
		f->after_left--;
		CB_TRY(line_add(g, f->printed, end_of_line(g->text, f->printed), true, err));
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

static cb_code add_before(grep *g, size_t start, cb_error *err)
{
	size_t at = lines_before(g->text, start, g->o.before, g->file.printed);
	while (at < start) {
		size_t end = end_of_line(g->text, at);
		CB_TRY(line_add(g, at, end, true, err));
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
	if (!g->o.invert) return next_matching(g, f, text, from, start, end, found, err);
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

static void note_selected(grep *g)
{
	file_state *f = &g->file;
	f->selected++;
	g->selected++;
	f->after_left = g->o.after;
	if (g->o.max_lines && g->selected >= g->o.max_lines) g->stop = true;
	f->last = g->stop || (g->o.max_per_file && f->selected >= g->o.max_per_file);
	if (f->binary || g->o.names_only || (f->last && !f->after_left)) f->done = true;
}

/* Whole lines, from an offset that begins one. */
static cb_code text_begin(grep *g, span text, size_t from, cb_error *err)
{
	CB_TRY(regex_begin(g->re, text, err));
	g->text = text;
	g->searching = true;
	g->file.from = from;
	g->file.has_next = false;
	return CB_OK;
}

/* On to the next wanted line, or to the end of the text. */
static cb_code text_step(grep *g, cb_error *err)
{
	file_state *f = &g->file;
	if (!f->done && !f->last) {
		size_t start = 0, end = 0;
		bool found = false;
		CB_TRY(next_wanted(g, f, g->text, f->from, &start, &end, &found, err));
		CB_TRY(add_after(g, found ? start : g->text.size, err));
		g->searching = found;
		if (!found) return CB_OK;
		if (g->o.before && !is_bare(g)) CB_TRY(add_before(g, start, err));
		CB_TRY(line_add(g, start, end, false, err));
		note_selected(g);
		f->from = end + 1;
		return CB_OK;
	}
	/* Lines after the last that is wanted are context whether they match or not, as in GNU grep. */
	CB_TRY(add_after(g, g->text.size, err));
	if (f->last && !f->after_left) f->done = true;
	g->searching = false;
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

static cb_code text_small(grep *g, cb_error *err)
{
	file_state *f = &g->file;
	size_t size = (size_t)f->r->size;
	span text;
	CB_TRY(look_lend(g->view.now, f->r, &text, &g->content, err));
	if (!text.bytes) {
		CB_TRY(window_need(g, size, err));
		CB_TRY(look_read(g->view.now, f->r, 0, g->window.bytes, size, err));
		text = span_make(g->window.bytes, size);
	}
	f->binary = has_nul(text.bytes, size);
	if (f->binary) {
		if (text.bytes != g->window.bytes) {
			CB_TRY(window_need(g, size, err));
			memcpy(g->window.bytes, text.bytes, size);
		}
		break_at_nuls(g->window.bytes, size);
		text = span_make(g->window.bytes, size);
	}
	return text_begin(g, text, 0, err);
}

/* The first offset from there on that is a hole, or data; the file's size when there is none. */
static cb_code next_change(const grep *g, const box_node *r, uint64_t offset, bool hole, uint64_t *out, cb_error *err)
{
	cb_error why;
	*out = r->size;
	cb_code code = look_seek(g->view.now, r, offset, hole, out, cb_err_aside(&why));
	if (code == CB_NOTFOUND) *out = r->size;
	return code == CB_OK || code == CB_NOTFOUND ? CB_OK : cb_err_pass(err, code, &why);
}

/* What comes next of the file, as much as there is room for. A file with holes is binary, where these are nothing but ends of lines: of
 * each hole two bytes are put down, which end the line before it and stand for all the empty ones. So the cost is that of the data. */
static cb_code window_fill(grep *g, cb_error *err)
{
	file_state *f = &g->file;
	uint64_t size = f->r->size;
	while (f->offset < size && f->filled < LIMIT_GREP_WINDOW_BYTES) {
		CB_TRY(cancel_check(err));
		size_t room = LIMIT_GREP_WINDOW_BYTES - f->filled;
		if (f->offset == f->data_end) {
			uint64_t data = 0;
			CB_TRY(next_change(g, f->r, f->offset, false, &data, err));
			uint64_t left = data - f->offset;
			if (left > HOLE_BYTES) left = HOLE_BYTES;
			size_t n = left < room ? (size_t)left : room;
			memset(g->window.bytes + f->filled, 0, n);
			f->filled += n;
			f->offset = f->data_end = data - (left - n);
			if (f->offset == data) CB_TRY(next_change(g, f->r, data, true, &f->data_end, err));
			continue;
		}
		size_t n = f->data_end - f->offset < room ? (size_t)(f->data_end - f->offset) : room;
		CB_TRY(look_read(g->view.now, f->r, f->offset, g->window.bytes + f->filled, n, err));
		f->offset += n;
		f->filled += n;
	}
	return CB_OK;
}

/* What was searched leaves the window but for the context that the next line may want. Gives the size that stays. */
static size_t window_slide(grep *g, file_state *f, size_t filled, size_t searched)
{
	span text = span_make(g->window.bytes, filled);
	size_t floor = searched > LIMIT_GREP_WINDOW_BYTES / 4 ? searched - LIMIT_GREP_WINDOW_BYTES / 4 : 0;
	if (f->printed > floor) floor = f->printed;
	size_t keep = floor > searched ? searched : lines_before(text, searched, f->binary ? 0 : g->o.before, floor);
	if (!f->binary && !g->o.names_only && keep > f->counted) (void)line_number(f, text, keep);
	memmove(g->window.bytes, g->window.bytes + keep, filled - keep);
	f->counted = f->counted > keep ? f->counted - keep : 0;
	f->printed = f->printed > keep ? f->printed - keep : 0;
	return keep;
}

/* The next lines of one that comes through the window. */
static cb_code text_piece(grep *g, cb_error *err)
{
	file_state *f = &g->file;
	uint64_t size = f->r->size;
	if (f->text_size) { /* there was one before */
		size_t moved = window_slide(g, f, f->filled, f->text_size);
		f->filled -= moved;
		f->from = f->text_size - moved;
	}
	if (f->done || (f->offset == size && f->from >= f->filled)) return CB_OK;
	size_t had = f->filled;
	CB_TRY(window_fill(g, err));
	if (f->text_size == 0 && has_nul(g->window.bytes, f->filled)) f->binary = true;
	if (f->binary) break_at_nuls(g->window.bytes + had, f->filled - had);
	const uint8_t *last = f->offset < size ? memrchr(g->window.bytes + f->from, '\n', f->filled - f->from) : NULL;
	f->text_size = last ? (size_t)(last - g->window.bytes) + 1 : f->filled;
	return text_begin(g, span_make(g->window.bytes, f->text_size), f->from, err);
}

/* ---- files ---- */

static cb_code file_begin(grep *g, const char *path, const box_node *r, cb_error *err)
{
	g->file = (file_state){.path = path, .r = r, .line = 1};
	g->count.files++;
	if (!r->size) return CB_OK;
	uint64_t hole = r->size;
	if (r->size > READ_WHOLE_BYTES) CB_TRY(next_change(g, r, 0, true, &hole, err));
	g->file.in_pieces = r->size > LIMIT_GREP_WINDOW_BYTES || hole < PROBE_BYTES;
	if (!g->file.in_pieces) return text_small(g, err);
	g->file.binary = hole < r->size;
	g->file.data_end = hole;
	CB_TRY(window_need(g, LIMIT_GREP_WINDOW_BYTES, err));
	return text_piece(g, err);
}

static void file_end(grep *g)
{
	blob_unref(g->content);
	g->content = NULL;
	g->file.path = NULL;
}

/* The next file of the scope; without one, g->file.path stays NULL. */
static cb_code next_file(grep *g, cb_error *err)
{
	reading *v = &g->view;
	if (!g->started) {
		g->started = true;
		if (v->first.type == CB_FILE) return file_begin(g, v->path, &v->first, err);
	}
	while (v->w) {
		box_node *r = &g->node;
		bool found = false;
		CB_TRY(look_walk_next(v->w, r, &found, err));
		if (!found) return CB_OK;
		const char *path = v->w->path;
		if (r->type == CB_DIR && scope_folder(&g->scope, path)) CB_TRY(look_walk_enter(v->w, r, err));
		if (r->type == CB_FILE && scope_file(&g->scope, path)) return file_begin(g, path, r, err);
	}
	return CB_OK;
}

static cb_code grep_next(cb_cursor *c, const void **out, cb_error *err)
{
	grep *g = (grep *)c;
	for (;;) {
		CB_TRY(line_give(g, out, err));
		if (*out) return CB_OK;
		buf_clear(&g->found);
		g->given = 0;
		if (g->searching) {
			CB_TRY(text_step(g, err));
		} else if (g->file.path && g->file.in_pieces) {
			CB_TRY(text_piece(g, err));
			if (!g->searching) file_end(g);
		} else if (g->file.path) {
			file_end(g);
		} else {
			if (!g->stop) CB_TRY(next_file(g, err));
			if (!g->file.path) return CB_OK;
		}
	}
}

static void grep_done(cb_cursor *c)
{
	grep *g = (grep *)c;
	file_end(g);
	reading_end(&g->view);
	scope_done(&g->scope);
	regex_destroy(g->re);
	buf_done(&g->window);
	buf_done(&g->found);
	buf_done(&g->matches);
}

static const cursor_ops grep_ops = {CURSOR_GREP_LINES, grep_next, grep_done, false};

static cb_code grep_start(grep *g, cb_box *box, const char *path, const cb_grep_options *options, cb_error *err)
{
	g->o = *options;
	g->count = CB_INIT(cb_grep_count);
	g->window = BUF_INIT(LIMIT_GREP_WINDOW_BYTES);
	g->found = BUF_INIT(SIZE_MAX);
	g->matches = BUF_INIT(LIMIT_GREP_MATCHES * sizeof(cb_grep_match));
	CB_TRY(regex_compile(options, &g->re, err));
	CB_TRY(scope_init(&g->scope, options, err));
	CB_TRY(reading_begin(&g->view, box, path, true, err));
	size_t size = strlen(g->view.path);
	g->scope.base_size = size > 1 ? size + 1 : 1;
	g->scope.leave_hidden = g->view.first.ino == BOX_INO_ROOT && !options->hidden_too;
	return CB_OK;
}

cb_code cb_grep_open(cb_box *box, const char *path, const cb_grep_options *options, cb_cursor **out, cb_error *err)
{
	NEED(err, "box path options out", box, path, options, out);
	cb_grep_options o;
	CB_TRY(SIZED_TAKE(cb_grep_options, names_only, &o, options, err));
	if (o.before > LIMIT_GREP_CONTEXT_LINES || o.after > LIMIT_GREP_CONTEXT_LINES)
		return cb_err_set(err, CB_LIMIT, "at most %d lines of context", LIMIT_GREP_CONTEXT_LINES);
	grep *g = NULL;
	CB_TRY(cursor_create(sizeof(*g), &grep_ops, box_about(box).store, box, &g, err));
	cb_code code = grep_start(g, box, path, &o, err);
	if (code == CB_OK) *out = &g->c;
	else cb_cursor_close(&g->c);
	return code;
}

cb_code cb_grep_next(cb_cursor *cursor, const cb_grep_line **out, cb_error *err)
{
	const void *line = NULL;
	NEED(err, "cursor out", cursor, out);
	CB_TRY(cursor_next_public(cursor, CURSOR_GREP_LINES, &line, err));
	*out = line;
	return CB_OK;
}

cb_code cb_grep_counted(cb_cursor *c, cb_grep_count *out, cb_error *err)
{
	NEED(err, "cursor out", c, out);
	CB_TRY(SIZED_CHECK(cb_grep_count, matched_lines, out, err));
	if (c->ops != &grep_ops) return cb_err_set(err, CB_INVALID, "this needs a cursor of cb_grep_open");
	SIZED_GIVE(out, &((grep *)c)->count);
	return CB_OK;
}

cb_code cb_grep(cb_box *box, const char *path, const cb_grep_options *options, cb_grep_visit visit, void *context,
                cb_grep_count *out, cb_error *err)
{
	NEED(err, "box path options visit", box, path, options, visit);
	CB_TRY(SIZED_CHECK(cb_grep_count, matched_lines, out, err));
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_grep_open(box, path, options, &c, err));
	cb_code code = CURSOR_VISIT(c, visit, context, err);
	if (code == CB_OK) SIZED_GIVE(out, &((grep *)c)->count);
	return code;
}
