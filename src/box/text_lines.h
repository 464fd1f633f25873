/*
 * text_lines.h: what the text_*.c files share: two texts cut into lines, lines as small integers, marks on the lines that changed.
 *
 * The passes over a text_pair, in order: text_pair_open cuts and numbers the lines (text_intern.c), text_pair_search marks the
 * changed ones (text_diff.c), text_pair_compact slides the runs of marks to where people expect them (text_compact.c),
 * text_pair_hunks reads them off.
 */
#ifndef BOX_TEXT_LINES_H
#define BOX_TEXT_LINES_H

#include "box/text.h"

/* Steps (a diagonal visited, a line compared or passed) that a whole diff or merge may take in each of its two passes. Ordinary
 * texts of 16 MB take a hundredth of it; a hostile one ends after a second or two with a diff that is correct but not small. */
#define TEXT_WORK_MAX ((uint64_t)1 << 28)

typedef struct text_work {
	uint64_t search_left, slides_left;
} text_work;

#define TEXT_WORK_INIT ((text_work){TEXT_WORK_MAX, TEXT_WORK_MAX})

typedef struct text_side {
	span text;
	size_t count;     /* lines */
	uint32_t *starts; /* count + 1 offsets; the last one is the text's size */
	uint32_t *ids;    /* equal bytes <=> equal id, over both sides of the pair */
	uint8_t *changed; /* 0 or 1; [-1] and [count] are readable and always 0 */
	uint8_t *marks;   /* the allocation behind `changed` */
} text_side;

typedef struct text_pair {
	text_side old_side, new_side;
	uint32_t *old_uses, *new_uses; /* by id: how many lines of that side carry it */
	size_t id_count;
} text_pair;

#define AUTO_TEXT_PAIR ATTR_CLEANUP(text_pair_done)

/* The pair borrows the texts. CB_TOOBIG above LIMIT_DIFF_TEXT_BYTES. After a failure text_pair_done is still to be called. */
cb_code text_pair_open(text_pair *p, span old_text, span new_text, cb_error *err);
void text_pair_done(text_pair *p);
/* Numbers the lines: the second half of text_pair_open. */
cb_code text_pair_intern(text_pair *p, cb_error *err);

cb_code text_pair_search(text_pair *p, text_work *work, cb_error *err);
void text_pair_compact(text_pair *p, text_work *work);
cb_code text_pair_hunks(const text_pair *p, text_hunk **out, size_t *out_count, cb_error *err);

/* All of the above on an empty pair. Several calls may share the work. */
cb_code text_pair_diff(text_pair *p, span old_text, span new_text, text_work *work, text_hunk **out, size_t *out_count,
                       cb_error *err);

static inline span text_side_line(const text_side *s, size_t line)
{
	return span_make(s->text.bytes + s->starts[line], s->starts[line + 1] - s->starts[line]);
}

/* Lines [first, first + count) are neighbours in memory. */
static inline span text_side_lines(const text_side *s, size_t first, size_t count)
{
	if (count == 0) return span_make(NULL, 0);
	return span_make(s->text.bytes + s->starts[first], s->starts[first + count] - s->starts[first]);
}

static inline bool text_line_ends(span line)
{
	return line.size > 0 && line.bytes[line.size - 1] == '\n';
}

/* Twice the power of two at or below the square root: grows like a square root, costs a few shifts. */
static inline size_t text_rough_sqrt(size_t n)
{
	size_t root = 1;
	for (; n > 0; n >>= 2) root <<= 1;
	return root;
}

#endif
