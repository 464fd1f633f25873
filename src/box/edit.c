/*
 * edit.c: exact text replaced by exact text, as one step.
 *
 * The caller is often a model that quotes a file from memory. So a text that is not there, or is there more often than meant, changes
 * nothing, and the message says what the caller needs for the next try: the lines where it stands, or the line where it almost does.
 *
 * A text may be large, so it is read and replaced outside the writer lock, and committed as a transaction that relies on the file's
 * version: what others did to other files is merged; when they changed this one it is edited again, at last under the lock.
 */
#include <stdio.h>

#include "base/args.h"
#include "base/sized.h"
#include "box/edit_text.h"
#include "box/internal.h"

enum {
	NAMED_LINES = 5,         /* lines named in a message */
	LOOK_BYTES = 1 << 20,    /* of simple passes between two looks at the limit: a millisecond */
	KEPT_PREFIX = 256 << 10, /* an unchanged start of this size is worth keeping in a file of extents */
};

/* ---- lines ---- */

static cb_code line_at(span text, size_t offset, uint64_t *out, cb_error *err)
{
	*out = 1;
	for (size_t i = 0; i < offset; i++) {
		if (i % LOOK_BYTES == 0) CB_TRY(cancel_check(err));
		*out += text.bytes[i] == '\n';
	}
	return CB_OK;
}

/* "4, 9, 17, ...": where the text stands. */
static cb_code name_lines(span text, span what, char *out, size_t out_size, cb_error *err)
{
	size_t used = 0, from = 0, at;
	uint64_t line = 1, more;
	for (unsigned n = 0; used < out_size; n++) {
		size_t counted = from ? from - what.size : 0;
		CB_TRY(edit_find(text, what, from, &at, err));
		if (at == SIZE_MAX) break;
		if (n == NAMED_LINES) {
			(void)snprintf(out + used, out_size - used, ", ...");
			break;
		}
		CB_TRY(line_at(span_make(text.bytes + counted, at - counted), at - counted, &more, err));
		line += more - 1;
		int wrote = snprintf(out + used, out_size - used, "%s%llu", n ? ", " : "", (unsigned long long)line);
		used += wrote > 0 ? (size_t)wrote : 0;
		from = at + what.size;
	}
	return CB_OK;
}

/* ---- what almost matches ---- */

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static cb_code make_blackened(span s, buf *out, cb_error *err)
{
	CB_TRY(buf_reserve(out, s.size, err));
	for (size_t i = 0; i < s.size; i++) {
		if (i % LOOK_BYTES == 0) CB_TRY(cancel_check(err));
		if (!is_space(s.bytes[i])) out->bytes[out->size++] = s.bytes[i];
	}
	return CB_OK;
}

static cb_code make_lower(span s, buf *out, cb_error *err)
{
	CB_TRY(buf_reserve(out, s.size, err));
	for (size_t i = 0; i < s.size; i++) {
		if (i % LOOK_BYTES == 0) CB_TRY(cancel_check(err));
		out->bytes[out->size++] = (uint8_t)(s.bytes[i] >= 'A' && s.bytes[i] <= 'Z' ? s.bytes[i] | 0x20 : s.bytes[i]);
	}
	return CB_OK;
}

/* The offset of the n-th byte that is no whitespace. */
static cb_code black_offset(span s, size_t n, size_t *out, cb_error *err)
{
	size_t i = 0;
	for (; i < s.size; i++) {
		if (i % LOOK_BYTES == 0) CB_TRY(cancel_check(err));
		if (!is_space(s.bytes[i]) && n-- == 0) break;
	}
	*out = i;
	return CB_OK;
}

/* The first line of the text on which it and the wanted one part, when their first black bytes are laid over each other. */
static cb_code first_other_line(span text, size_t at, span what, uint64_t *out, cb_error *err)
{
	size_t lead = 0, i = 0;
	CB_TRY(black_offset(what, 0, &lead, err));
	bool same_lead = lead <= at && memcmp(text.bytes + at - lead, what.bytes, lead) == 0;
	while (same_lead && lead + i < what.size && at + i < text.size && what.bytes[lead + i] == text.bytes[at + i]) i++;
	/* A newline too many or too few belongs to the line it ends. */
	return line_at(text, at + i, out, err);
}

/* Line that differs in whitespace only, 0: none. */
static cb_code spaced_line(span text, span what, uint64_t *out, cb_error *err)
{
	AUTO_BUF buf text_black = BUF_INIT(LIMIT_EDIT_BYTES), what_black = BUF_INIT(LIMIT_EDIT_BYTES);
	size_t at;
	*out = 0;
	CB_TRY(make_blackened(text, &text_black, err));
	CB_TRY(make_blackened(what, &what_black, err));
	CB_TRY(edit_find(buf_span(&text_black), buf_span(&what_black), 0, &at, err));
	if (at == SIZE_MAX) return CB_OK;
	CB_TRY(black_offset(text, at, &at, err));
	return first_other_line(text, at, what, out, err);
}

static cb_code cased_line(span text, span what, uint64_t *out, cb_error *err)
{
	AUTO_BUF buf text_lower = BUF_INIT(LIMIT_EDIT_BYTES), what_lower = BUF_INIT(LIMIT_EDIT_BYTES);
	size_t at, i = 0;
	*out = 0;
	CB_TRY(make_lower(text, &text_lower, err));
	CB_TRY(make_lower(what, &what_lower, err));
	CB_TRY(edit_find(buf_span(&text_lower), buf_span(&what_lower), 0, &at, err));
	if (at == SIZE_MAX) return CB_OK;
	while (i < what.size && text.bytes[at + i] == what.bytes[i]) i++;
	return line_at(text, at + i, out, err);
}

/* The text's first lines are there, what follows is another: gives the line where they part. 0: its first line is not there. */
static cb_code parting_line(span text, span what, uint64_t *out, cb_error *err)
{
	const uint8_t *newline = memchr(what.bytes, '\n', what.size);
	*out = 0;
	if (!newline) return CB_OK;
	size_t first = (size_t)(newline - what.bytes) + 1, best = 0, best_at = 0, from = 0;
	for (unsigned tries = 0; tries < 1000; tries++) {
		size_t same = first, at;
		CB_TRY(edit_find(text, span_make(what.bytes, first), from, &at, err));
		if (at == SIZE_MAX) break;
		while (same < what.size && at + same < text.size && text.bytes[at + same] == what.bytes[same]) same++;
		if (same > best) {
			best = same;
			best_at = at;
		}
		from = at + first;
	}
	return best ? line_at(text, best_at + best, out, err) : CB_OK;
}

static cb_code hint_make(span text, span what, char *out, size_t out_size, cb_error *err)
{
	uint64_t line = 0;
	const char *before = "", *after = " only in whitespace";
	CB_TRY(spaced_line(text, what, &line, err));
	if (!line) {
		after = " only in upper and lower case";
		CB_TRY(cased_line(text, what, &line, err));
	}
	if (!line) {
		before = "its first lines are, but ";
		after = "";
		CB_TRY(parting_line(text, what, &line, err));
	}
	out[0] = 0;
	if (line) (void)snprintf(out, out_size, ": %sline %llu differs%s", before, (unsigned long long)line, after);
	return CB_OK;
}

/* ---- one replacement ---- */

typedef struct edit {
	const char *path;
	const cb_edit_options *options;
	size_t index, count; /* of the replacement, for messages */
	span old_text, new_text;
} edit;

/* "'/work/a': " or "'/work/a', replacement 2 of 3: " */
static void edit_name(const edit *e, char *out, size_t out_size)
{
	/* A long path would push what matters out of the message. */
	size_t size = strlen(e->path);
	const char *tail = size > 200 ? e->path + size - 200 : e->path;
	if (e->count > 1) (void)snprintf(out, out_size, "'%s', replacement %zu of %zu", tail, e->index + 1, e->count);
	else (void)snprintf(out, out_size, "'%s'", tail);
}

static cb_code not_there(const edit *e, span text, cb_error *err)
{
	char name[300], hint[128];
	if (e->old_text.size > LIMIT_EDIT_BYTES) /* nor is anything looked for that is nearly it */
		return cb_err_set(err, CB_NOTFOUND, "'%s': the old text has %zu bytes, and files up to %d are edited", e->path,
		                  e->old_text.size, LIMIT_EDIT_BYTES);
	CB_TRY(hint_make(text, e->old_text, hint, sizeof(hint), err));
	edit_name(e, name, sizeof(name));
	return cb_err_set(err, CB_NOTFOUND, "%s: the old text is not there%s", name, *hint ? hint : ": read the file again");
}

static cb_code wrong_count(const edit *e, span text, uint64_t found, uint64_t wanted, cb_error *err)
{
	char name[300], lines[128] = "";
	edit_name(e, name, sizeof(name));
	CB_TRY(name_lines(text, e->old_text, lines, sizeof(lines), err));
	return cb_err_set(err, CB_CONFLICT, "%s: the old text is there %llu time%s (line%s %s), not %llu: %s", name,
	                  (unsigned long long)found, found == 1 ? "" : "s", found == 1 ? "" : "s", lines,
	                  (unsigned long long)wanted,
	                  e->options->expect ? "look again how many are meant" : "quote more of what is around it, or replace all");
}

/* ---- the call ---- */

static cb_code check_arguments(const cb_replacement *replacements, size_t count, cb_error *err)
{
	if (count == 0) return cb_err_set(err, CB_INVALID, "an edit needs a text to replace");
	if (count > LIMIT_EDIT_REPLACEMENTS)
		return cb_err_set(err, CB_LIMIT, "%zu replacements: at most %d in one edit", count, LIMIT_EDIT_REPLACEMENTS);
	for (size_t i = 0; i < count; i++) {
		const cb_replacement *r = &replacements[i];
		char name[64];
		(void)snprintf(name, sizeof(name), "replacements[%zu].old_text", i);
		CB_TRY(args_bytes(name, r->old_text, r->old_size, err));
		(void)snprintf(name, sizeof(name), "replacements[%zu].new_text", i);
		CB_TRY(args_bytes(name, r->new_text, r->new_size, err));
		span before = sized_bytes(r->old_text, r->old_size), after = sized_bytes(r->new_text, r->new_size);
		if (before.size == 0) return cb_err_set(err, CB_INVALID, "replacement %zu: the old text is empty", i + 1);
		if (span_equal(before, after))
			return cb_err_set(err, CB_INVALID, "replacement %zu: the new text is the old one", i + 1);
	}
	return CB_OK;
}

/* How many bytes two texts have in common at their beginning, or at their end. */
static cb_code same_bytes(span a, span b, bool at_end, size_t *out, cb_error *err)
{
	size_t least = a.size < b.size ? a.size : b.size, same = 0;
	for (;;) {
		size_t n = least - same < LOOK_BYTES ? least - same : LOOK_BYTES;
		const uint8_t *x = at_end ? a.bytes + a.size - same - n : a.bytes + same;
		const uint8_t *y = at_end ? b.bytes + b.size - same - n : b.bytes + same;
		CB_TRY(cancel_check(err));
		if (n == 0 || memcmp(x, y, n) != 0) break;
		same += n;
	}
	if (at_end)
		while (same < least && a.bytes[a.size - same - 1] == b.bytes[b.size - same - 1]) same++;
	else
		while (same < least && a.bytes[same] == b.bytes[same]) same++;
	*out = same;
	return CB_OK;
}

/* Writes what changed. A file of extents keeps those before the first change, so that a log of many MiB is not stored anew. */
static cb_code put_back(txn *t, inode *node, span before, span after, cb_error *err)
{
	size_t same = 0, end = 0;
	if (node->rec.form == DATA_EXTENTS) CB_TRY(same_bytes(before, after, false, &same, err));
	if (same < KEPT_PREFIX) return data_replace(t, node, after.bytes, after.size, err);
	if (before.size != after.size) CB_TRY(data_resize(t, node, same, err));
	else CB_TRY(same_bytes(before, after, true, &end, err));
	return data_write(t, node, same, after.bytes + same, after.size > same + end ? after.size - same - end : 0, err);
}

/* One edit, over as many states as it takes. */
typedef struct editing {
	const char *path;
	const cb_replacement *replacements;
	size_t count;
	const cb_edit_options *options;
	uint64_t replaced;
	bool done; /* what follows is the commit's */
} editing;

static cb_code edit_failed(const editing *g, const edit_text *e, cb_code code, cb_error *err)
{
	if (code == CB_LIMIT)
		return cb_err_set(err, CB_TOOBIG, "'%s' would have more than %d bytes: files up to that are edited", g->path,
		                  LIMIT_EDIT_BYTES);
	if (code != CB_NOTFOUND && code != CB_CONFLICT) return code;
	const cb_replacement *r = &g->replacements[e->at];
	edit named = {
		g->path, g->options, e->at, g->count, sized_bytes(r->old_text, r->old_size), sized_bytes(r->new_text, r->new_size)};
	return code == CB_NOTFOUND ? not_there(&named, e->now, err)
	                           : wrong_count(&named, e->now, e->found, g->options->expect ? g->options->expect : 1, err);
}

static cb_code edit_bytes(editing *g, txn *t, inode *node, span before, cb_error *err)
{
	ATTR_CLEANUP(edit_text_done) edit_text e = {g->replacements, g->count, g->options};
	cb_code code = edit_text_run(&e, before, err);
	if (code != CB_OK) return edit_failed(g, &e, code, err);
	CB_TRY(inode_written(t, node, err));
	CB_TRY(put_back(t, node, before, e.now, err));
	g->replaced = e.replaced;
	return inode_save(t, node, err);
}

static cb_code edit_file(editing *g, op *o, cb_error *err)
{
	const char *path = g->path;
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, PATH_FOLLOW, GATE_WRITE, &r, err));
	if (r.node.rec.type == CB_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is a folder", path);
	CB_TRY(resolved_expect_version(&r, g->options->expected_version, path, err));
	/* Of a call of its own the text is what it relies on: whoever changes it meanwhile makes the call run again. */
	CB_TRY(expect_version(o->t, &r, o->own ? r.node.rec.version : g->options->expected_version, err));
	if (r.node.rec.size > LIMIT_EDIT_BYTES)
		return cb_err_set(err, CB_TOOBIG, "'%s' has %llu bytes: files up to %d are edited", path,
		                  (unsigned long long)r.node.rec.size, LIMIT_EDIT_BYTES);
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	CB_TRY(path_damaged(data_load(o->t->cs, o->t, &v, &r.node.rec, LIMIT_EDIT_BYTES, &bytes, &size, err), path, err));
	CB_TRY(edit_bytes(g, o->t, &r.node, span_make(bytes, size), err));
	g->done = true;
	return CB_OK;
}

cb_code cb_edit(cb_box *b, const char *path, const cb_replacement *replacements, size_t count, const cb_edit_options *options,
                uint64_t *out_replaced, cb_error *err)
{
	enum { TRIES = 3 };
	NEED(err, "box path replacements", b, path, replacements || !count);
	cb_edit_options how;
	CB_TRY(SIZED_TAKE(cb_edit_options, expected_version, &how, options, err));
	CB_TRY(check_arguments(replacements, count, err));
	for (int tries = 0;; tries++) {
		op o;
		cb_error why = {0};
		editing g = {path, replacements, count, &how};
		CB_TRY(tries < TRIES ? op_begin_unlocked(&o, b, "edit", path, err) : op_begin(&o, b, "edit", path, err));
		cb_code code = op_end(&o, edit_file(&g, &o, &why), NULL, &why);
		/* Others changed the file, or where it is. */
		if (code == CB_CONFLICT && g.done && o.own && tries < TRIES) continue;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (out_replaced) *out_replaced = g.replaced;
		return CB_OK;
	}
}
