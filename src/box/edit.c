/*
 * edit.c: exact text replaced by exact text, as one step.
 *
 * The caller is often a model that quotes a file from memory. So a text that is not there, or is there more often than meant, changes
 * nothing, and the message says what the caller needs for the next try: the lines where it stands, or the line where it almost does.
 */
#include <stdio.h>

#include "base/args.h"
#include "base/sized.h"
#include "box/internal.h"

enum {
	NAMED_LINES = 5,         /* lines named in a message */
	KEPT_PREFIX = 256 << 10, /* an unchanged start of this size is worth keeping in a file of extents */
};

/* ---- lines ---- */

static uint64_t line_at(span text, size_t offset)
{
	uint64_t line = 1;
	for (size_t i = 0; i < offset; i++) line += text.bytes[i] == '\n';
	return line;
}

/* SIZE_MAX: not there. */
static size_t find_from(span text, span what, size_t from)
{
	if (what.size == 0 || from > text.size || what.size > text.size - from) return SIZE_MAX;
	const uint8_t *p = memmem(text.bytes + from, text.size - from, what.bytes, what.size);
	return p ? (size_t)(p - text.bytes) : SIZE_MAX;
}

/* "4, 9, 17, ...": where the text stands. */
static void name_lines(span text, span what, char *out, size_t out_size)
{
	size_t used = 0, from = 0, counted = 0, at;
	uint64_t line = 1;
	for (unsigned n = 0; (at = find_from(text, what, from)) != SIZE_MAX && used < out_size; n++) {
		if (n == NAMED_LINES) {
			(void)snprintf(out + used, out_size - used, ", ...");
			return;
		}
		line += line_at(span_make(text.bytes + counted, at - counted), at - counted) - 1;
		counted = at;
		int wrote = snprintf(out + used, out_size - used, "%s%llu", n ? ", " : "", (unsigned long long)line);
		used += wrote > 0 ? (size_t)wrote : 0;
		from = at + what.size;
	}
}

/* ---- what almost matches ---- */

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static cb_code make_blackened(span s, buf *out, cb_error *err)
{
	CB_TRY(buf_reserve(out, s.size, err));
	for (size_t i = 0; i < s.size; i++)
		if (!is_space(s.bytes[i])) out->bytes[out->size++] = s.bytes[i];
	return CB_OK;
}

static cb_code make_lower(span s, buf *out, cb_error *err)
{
	CB_TRY(buf_reserve(out, s.size, err));
	for (size_t i = 0; i < s.size; i++)
		out->bytes[out->size++] = (uint8_t)(s.bytes[i] >= 'A' && s.bytes[i] <= 'Z' ? s.bytes[i] | 0x20 : s.bytes[i]);
	return CB_OK;
}

/* The offset of the n-th byte that is no whitespace. */
static size_t black_offset(span s, size_t n)
{
	size_t i = 0;
	for (; i < s.size; i++)
		if (!is_space(s.bytes[i]) && n-- == 0) break;
	return i;
}

/* The first line of the text on which it and the wanted one part, when their first black bytes are laid over each other. */
static uint64_t first_other_line(span text, size_t at, span what)
{
	size_t lead = black_offset(what, 0), i = 0;
	bool same_lead = lead <= at && memcmp(text.bytes + at - lead, what.bytes, lead) == 0;
	if (!same_lead) return line_at(text, at);
	while (lead + i < what.size && at + i < text.size && what.bytes[lead + i] == text.bytes[at + i]) i++;
	/* A newline too many or too few belongs to the line it ends. */
	return line_at(text, at + i);
}

/* Line that differs in whitespace only, 0: none. */
static cb_code spaced_line(span text, span what, uint64_t *out, cb_error *err)
{
	AUTO_BUF buf text_black = BUF_INIT(LIMIT_EDIT_BYTES), what_black = BUF_INIT(LIMIT_EDIT_BYTES);
	CB_TRY(make_blackened(text, &text_black, err));
	CB_TRY(make_blackened(what, &what_black, err));
	size_t at = find_from(buf_span(&text_black), buf_span(&what_black), 0);
	*out = at == SIZE_MAX ? 0 : first_other_line(text, black_offset(text, at), what);
	return CB_OK;
}

static cb_code cased_line(span text, span what, uint64_t *out, cb_error *err)
{
	AUTO_BUF buf text_lower = BUF_INIT(LIMIT_EDIT_BYTES), what_lower = BUF_INIT(LIMIT_EDIT_BYTES);
	CB_TRY(make_lower(text, &text_lower, err));
	CB_TRY(make_lower(what, &what_lower, err));
	size_t at = find_from(buf_span(&text_lower), buf_span(&what_lower), 0), i = 0;
	*out = 0;
	if (at == SIZE_MAX) return CB_OK;
	while (i < what.size && text.bytes[at + i] == what.bytes[i]) i++;
	*out = line_at(text, at + i);
	return CB_OK;
}

/* The text's first lines are there, what follows is another: gives the line where they part. 0: its first line is not there. */
static uint64_t parting_line(span text, span what)
{
	const uint8_t *newline = memchr(what.bytes, '\n', what.size);
	if (!newline) return 0;
	size_t first = (size_t)(newline - what.bytes) + 1, best = 0, best_at = 0, at = 0;
	unsigned tries = 0;
	for (size_t from = 0; (at = find_from(text, span_make(what.bytes, first), from)) != SIZE_MAX && tries < 1000; tries++) {
		size_t same = first;
		while (same < what.size && at + same < text.size && text.bytes[at + same] == what.bytes[same]) same++;
		if (same > best) {
			best = same;
			best_at = at;
		}
		from = at + first;
	}
	return best ? line_at(text, best_at + best) : 0;
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
		line = parting_line(text, what);
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
	CB_TRY(hint_make(text, e->old_text, hint, sizeof(hint), err));
	edit_name(e, name, sizeof(name));
	return cb_err_set(err, CB_NOTFOUND, "%s: the old text is not there%s", name, *hint ? hint : ": read the file again");
}

static cb_code wrong_count(const edit *e, span text, uint64_t found, uint64_t wanted, cb_error *err)
{
	char name[300], lines[128] = "";
	edit_name(e, name, sizeof(name));
	name_lines(text, e->old_text, lines, sizeof(lines));
	return cb_err_set(err, CB_CONFLICT, "%s: the old text is there %llu time%s (line%s %s), not %llu: %s", name,
	                  (unsigned long long)found, found == 1 ? "" : "s", found == 1 ? "" : "s", lines,
	                  (unsigned long long)wanted,
	                  wanted == 1 ? "quote more of what is around it, or replace all" : "look again how many are meant");
}

static cb_code replace_check(const edit *e, span text, uint64_t *out_found, cb_error *err)
{
	uint64_t found = 0, wanted = e->options->expect ? e->options->expect : 1;
	for (size_t at, from = 0; (at = find_from(text, e->old_text, from)) != SIZE_MAX; found++) from = at + e->old_text.size;
	if (found == 0) return not_there(e, text, err);
	if (!e->options->all && found != wanted) return wrong_count(e, text, found, wanted, err);
	if (e->options->all && e->options->expect && found != wanted) return wrong_count(e, text, found, wanted, err);
	*out_found = found;
	return CB_OK;
}

static cb_code replace_one(const edit *e, span text, buf *out, uint64_t *out_found, cb_error *err)
{
	if (e->old_text.size > LIMIT_EDIT_BYTES) /* nor is anything looked for that is nearly it */
		return cb_err_set(err, CB_NOTFOUND, "'%s': the old text has %zu bytes, and files up to %d are edited", e->path,
		                  e->old_text.size, LIMIT_EDIT_BYTES);
	CB_TRY(replace_check(e, text, out_found, err));
	size_t from = 0;
	cb_code code = buf_reserve(out, text.size, err);
	for (size_t at; code == CB_OK && (at = find_from(text, e->old_text, from)) != SIZE_MAX; from = at + e->old_text.size) {
		code = buf_append(out, text.bytes + from, at - from, err);
		if (code == CB_OK) code = buf_append(out, e->new_text.bytes, e->new_text.size, err);
	}
	if (code == CB_OK) code = buf_append(out, text.bytes + from, text.size - from, err);
	if (code != CB_LIMIT) return code;
	return cb_err_set(err, CB_TOOBIG, "'%s' would have more than %d bytes: files up to that are edited", e->path,
	                  LIMIT_EDIT_BYTES);
}

/* ---- the call ---- */

static cb_code check_arguments(const cb_replacement *replacements, size_t count, cb_error *err)
{
	if (count == 0) return cb_err_set(err, CB_INVALID, "an edit needs a text to replace");
	if (count > LIMIT_EDIT_REPLACEMENTS)
		return cb_err_set(err, CB_LIMIT, "%zu replacements: at most %d in one edit", count, LIMIT_EDIT_REPLACEMENTS);
	for (size_t i = 0; i < count; i++) {
		const cb_replacement *r = &replacements[i];
		if ((!r->old_text && r->old_size) || (!r->new_text && r->new_size))
			return cb_err_set(err, CB_INVALID, "replacement %zu: a text is NULL", i + 1);
		span before = sized_bytes(r->old_text, r->old_size), after = sized_bytes(r->new_text, r->new_size);
		if (before.size == 0) return cb_err_set(err, CB_INVALID, "replacement %zu: the old text is empty", i + 1);
		if (span_equal(before, after))
			return cb_err_set(err, CB_INVALID, "replacement %zu: the new text is the old one", i + 1);
	}
	return CB_OK;
}

/* Writes what changed. A file of extents keeps those before the first change, so that a log of many MiB is not stored anew. */
static cb_code put_back(txn *t, inode *node, span before, span after, cb_error *err)
{
	size_t least = before.size < after.size ? before.size : after.size, same = 0;
	if (node->rec.form == DATA_EXTENTS)
		while (same < least && before.bytes[same] == after.bytes[same]) same++;
	if (same < KEPT_PREFIX) return data_replace(t, node, after.bytes, after.size, err);
	size_t end = after.size;
	if (before.size == after.size)
		while (end > same && before.bytes[end - 1] == after.bytes[end - 1]) end--;
	else CB_TRY(data_resize(t, node, same, err));
	return data_write(t, node, same, after.bytes + same, end - same, err);
}

static cb_code edit_text(const char *path, span before, const cb_replacement *replacements, size_t count,
                         const cb_edit_options *options, buf *out, uint64_t *out_replaced, cb_error *err)
{
	AUTO_BUF buf made = BUF_INIT(LIMIT_EDIT_BYTES);
	for (size_t i = 0; i < count; i++) {
		const cb_replacement *r = &replacements[i];
		edit e = {path, options, i, count, sized_bytes(r->old_text, r->old_size), sized_bytes(r->new_text, r->new_size)};
		uint64_t found = 0;
		buf_clear(&made);
		CB_TRY(replace_one(&e, i ? buf_span(out) : before, &made, &found, err));
		buf swap = *out;
		*out = made;
		made = swap;
		*out_replaced += found;
	}
	return CB_OK;
}

static cb_code edit_file(op *o, const char *path, const cb_replacement *replacements, size_t count, const cb_edit_options *options,
                         uint64_t *out_replaced, cb_error *err)
{
	tree_view v = txn_view(o->t);
	resolved r;
	CB_TRY(path_find(o->b, &v, path, PATH_FOLLOW, GATE_WRITE, &r, err));
	if (r.node.rec.type == CB_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is a folder", path);
	CB_TRY(resolved_expect_version(&r, options->expected_version, path, err));
	CB_TRY(expect_version(o->t, &r, options->expected_version, err));
	if (r.node.rec.size > LIMIT_EDIT_BYTES)
		return cb_err_set(err, CB_TOOBIG, "'%s' has %llu bytes: files up to %d are edited", path,
		                  (unsigned long long)r.node.rec.size, LIMIT_EDIT_BYTES);
	AUTO_FREE char *bytes = NULL;
	AUTO_BUF buf after = BUF_INIT(LIMIT_EDIT_BYTES);
	size_t size = 0;
	CB_TRY(path_damaged(data_load(o->t->cs, o->t, &v, &r.node.rec, LIMIT_EDIT_BYTES, &bytes, &size, err), path, err));
	CB_TRY(edit_text(path, span_make(bytes, size), replacements, count, options, &after, out_replaced, err));
	inode_changed(o->t, &r.node, true);
	CB_TRY(put_back(o->t, &r.node, span_make(bytes, size), buf_span(&after), err));
	return inode_save(o->t, &r.node, err);
}

cb_code cb_edit(cb_box *b, const char *path, const cb_replacement *replacements, size_t count, const cb_edit_options *options,
                uint64_t *out_replaced, cb_error *err)
{
	NEED(err, "box path replacements", b, path, replacements || !count);
	cb_edit_options how;
	uint64_t replaced = 0;
	op o;
	CB_TRY(SIZED_TAKE(cb_edit_options, expected_version, &how, options, err));
	CB_TRY(check_arguments(replacements, count, err));
	CB_TRY(op_begin(&o, b, "edit", path, err));
	CB_TRY(op_end(&o, edit_file(&o, path, replacements, count, &how, &replaced, err), NULL, err));
	if (out_replaced) *out_replaced = replaced;
	return CB_OK;
}
