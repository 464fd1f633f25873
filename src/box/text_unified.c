/*
 * text_unified.c: hunks as diff -u and git print them, without file headers.
 *
 * Changes at most 2 * context unchanged lines apart share a hunk, so that no line is printed twice.
 */
#include "base/cancel.h"
#include "box/text_lines.h"

typedef struct printer {
	const text_side *old_side, *new_side;
	buf *out;
	cb_error *err;
} printer;

static cb_code print_lines(const printer *p, char sign, const text_side *side, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		span line = text_side_line(side, i);
		CB_TRY(cancel_check(p->err));
		CB_TRY(buf_append_byte(p->out, (uint8_t)sign, p->err));
		CB_TRY(buf_append(p->out, line.bytes, line.size, p->err));
		if (!text_line_ends(line)) CB_TRY(buf_append_str(p->out, "\n\\ No newline at end of file\n", p->err));
	}
	return CB_OK;
}

/* "12,3"; "12" for one line; "11,0" for none: the line before which there is nothing of this side. */
static cb_code print_range(const printer *p, char sign, size_t start, size_t count)
{
	if (count == 1) return buf_printf(p->out, p->err, "%c%zu", sign, start + 1);
	return buf_printf(p->out, p->err, "%c%zu,%zu", sign, count ? start + 1 : start, count);
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static cb_code print_hunk(const printer *p, const text_hunk *h, size_t count, size_t context)
{
	const text_hunk *last = &h[count - 1];
	size_t before = min_size(context, min_size(h->old_start, h->new_start));
	size_t old_end = last->old_start + last->old_count, new_end = last->new_start + last->new_count;
	size_t after = min_size(context, p->old_side->count - old_end);
	CB_TRY(buf_append_str(p->out, "@@ ", p->err));
	CB_TRY(print_range(p, '-', h->old_start - before, old_end + after - (h->old_start - before)));
	CB_TRY(buf_append_byte(p->out, ' ', p->err));
	CB_TRY(print_range(p, '+', h->new_start - before, new_end + after - (h->new_start - before)));
	CB_TRY(buf_append_str(p->out, " @@\n", p->err));
	size_t at = h->old_start - before;
	for (size_t i = 0; i < count; i++) {
		CB_TRY(print_lines(p, ' ', p->old_side, at, h[i].old_start));
		CB_TRY(print_lines(p, '-', p->old_side, h[i].old_start, h[i].old_start + h[i].old_count));
		CB_TRY(print_lines(p, '+', p->new_side, h[i].new_start, h[i].new_start + h[i].new_count));
		at = h[i].old_start + h[i].old_count;
	}
	return print_lines(p, ' ', p->old_side, at, old_end + after);
}

static cb_code print_hunks(const printer *p, const text_hunk *hunks, size_t count, size_t context)
{
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count; next++)
			if ((hunks[next].old_start - (hunks[next - 1].old_start + hunks[next - 1].old_count) + 1) / 2 > context)
				break;
		CB_TRY(print_hunk(p, &hunks[i], next - i, context));
	}
	return CB_OK;
}

cb_code text_unified(span old_text, span new_text, unsigned context, buf *out, cb_error *err)
{
	AUTO_TEXT_PAIR text_pair pair = {0};
	AUTO_FREE text_hunk *hunks = NULL;
	size_t count = 0, size_before = out->size;
	text_work work = TEXT_WORK_INIT;
	CB_TRY(text_pair_diff(&pair, old_text, new_text, &work, &hunks, &count, err));
	printer p = {&pair.old_side, &pair.new_side, out, err};
	cb_code code = print_hunks(&p, hunks, count, context);
	if (code != CB_OK) out->size = size_before;
	return code;
}
