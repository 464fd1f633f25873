/*
 * text_lines.c: texts cut into lines, and the pair of texts that a difference works on.
 *
 * A line is the bytes up to and including '\n'; the last one may lack it and is then a different line from the same bytes with it.
 * CR is an ordinary byte.
 */
#include "box/text_lines.h"
#include "base/cancel.h"
#include "base/limits.h"

enum { BINARY_PROBE_BYTES = 8000 };

bool text_is_binary(span s)
{
	size_t probe = s.size < BINARY_PROBE_BYTES ? s.size : BINARY_PROBE_BYTES;
	return probe > 0 && memchr(s.bytes, 0, probe) != NULL;
}

/* The offset after the line that begins at `at`. */
static size_t line_end(span text, size_t at)
{
	const uint8_t *newline = memchr(text.bytes + at, '\n', text.size - at);
	return newline ? (size_t)(newline - text.bytes) + 1 : text.size;
}

static size_t count_lines(span text)
{
	size_t count = 0;
	for (size_t at = 0; at < text.size; at = line_end(text, at)) count++;
	return count;
}

cb_code text_lines(span text, size_t **out, size_t *out_count, cb_error *err)
{
	CB_TRY(cancel_check(err));
	size_t count = count_lines(text), at = 0;
	if (count > SIZE_MAX / sizeof(size_t)) return cb_err_nomem(err);
	size_t *starts = mem_alloc(count * sizeof(*starts));
	if (!starts) return cb_err_nomem(err);
	for (size_t i = 0; i < count; i++) {
		starts[i] = at;
		at = line_end(text, at);
	}
	*out = starts;
	*out_count = count;
	return CB_OK;
}

static cb_code side_open(text_side *s, span text, cb_error *err)
{
	if (text.size > LIMIT_DIFF_TEXT_BYTES)
		return cb_err_set(err, CB_TOOBIG, "a text of %zu bytes is too large to compare by lines", text.size);
	CB_TRY(cancel_check(err));
	s->text = text;
	s->count = count_lines(text);
	s->starts = mem_alloc((s->count + 1) * sizeof(*s->starts));
	s->ids = mem_alloc(s->count * sizeof(*s->ids));
	s->marks = mem_alloc(s->count + 2);
	if (!s->starts || !s->ids || !s->marks) return cb_err_nomem(err);
	memset(s->marks, 0, s->count + 2);
	s->changed = s->marks + 1;
	size_t at = 0;
	for (size_t i = 0; i < s->count; i++) {
		s->starts[i] = (uint32_t)at;
		at = line_end(text, at);
	}
	s->starts[s->count] = (uint32_t)text.size;
	return CB_OK;
}

static void side_done(text_side *s)
{
	free(s->starts);
	free(s->ids);
	free(s->marks);
}

cb_code text_pair_open(text_pair *p, span old_text, span new_text, cb_error *err)
{
	*p = (text_pair){0};
	CB_TRY(side_open(&p->old_side, old_text, err));
	CB_TRY(side_open(&p->new_side, new_text, err));
	return text_pair_intern(p, err);
}

void text_pair_done(text_pair *p)
{
	side_done(&p->old_side);
	side_done(&p->new_side);
	free(p->old_uses);
	free(p->new_uses);
	*p = (text_pair){0};
}
