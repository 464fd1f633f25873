/* fuzz_text.c: three texts with NULs between them: base, ours, theirs. Applied hunks must give the new text, a merge must know its
 * sides. */
#include "box/text.h"

enum { OUT_MAX = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(cond)                    \
	do {                          \
		if (!(cond)) abort(); \
	} while (0)

static span take_text(span *rest)
{
	const uint8_t *nul = rest->size ? memchr(rest->bytes, 0, rest->size) : NULL;
	span text = nul ? span_make(rest->bytes, (size_t)(nul - rest->bytes)) : *rest;
	*rest = nul ? span_make(nul + 1, rest->size - text.size - 1) : span_make(NULL, 0);
	return text;
}

/* Bytes of lines [from, to). */
static span cut_lines(span text, const size_t *starts, size_t count, size_t from, size_t to)
{
	size_t a = from < count ? starts[from] : text.size, b = to < count ? starts[to] : text.size;
	return a == b ? span_make(NULL, 0) : span_make(text.bytes + a, b - a);
}

static void check_diff(span old_text, span new_text)
{
	AUTO_FREE text_hunk *hunks = NULL;
	AUTO_FREE size_t *olds = NULL;
	AUTO_FREE size_t *news = NULL;
	AUTO_BUF buf made = BUF_INIT(OUT_MAX);
	size_t count = 0, old_count = 0, new_count = 0, at = 0;
	MUST(text_diff(old_text, new_text, &hunks, &count, NULL) == CB_OK);
	MUST(text_lines(old_text, &olds, &old_count, NULL) == CB_OK);
	MUST(text_lines(new_text, &news, &new_count, NULL) == CB_OK);
	for (size_t i = 0; i <= count; i++) {
		text_hunk h = i < count ? hunks[i] : (text_hunk){old_count, 0, new_count, 0};
		MUST(h.old_start >= at && h.old_start + h.old_count <= old_count && h.new_start + h.new_count <= new_count);
		span kept = cut_lines(old_text, olds, old_count, at, h.old_start);
		span put = cut_lines(new_text, news, new_count, h.new_start, h.new_start + h.new_count);
		MUST(buf_append(&made, kept.bytes, kept.size, NULL) == CB_OK);
		MUST(buf_append(&made, put.bytes, put.size, NULL) == CB_OK);
		at = h.old_start + h.old_count;
	}
	MUST(span_equal(buf_span(&made), new_text));
	AUTO_BUF buf unified = BUF_INIT(OUT_MAX);
	MUST(text_unified(old_text, new_text, 3, &unified, NULL) == CB_OK);
	MUST((unified.size == 0) == span_equal(old_text, new_text));
}

static size_t merge(span base, span ours, span theirs, buf *out)
{
	size_t conflicts = 0;
	MUST(text_merge3(base, ours, theirs, "ours", "theirs", out, &conflicts, NULL) == CB_OK);
	return conflicts;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	span rest = span_make(bytes, size);
	span base = take_text(&rest), ours = take_text(&rest), theirs = take_text(&rest);
	check_diff(base, ours);
	check_diff(ours, theirs);
	AUTO_BUF buf merged = BUF_INIT(OUT_MAX);
	merge(base, ours, theirs, &merged);
	buf_clear(&merged);
	MUST(merge(base, ours, ours, &merged) == 0);
	MUST(span_equal(buf_span(&merged), ours));
	buf_clear(&merged);
	MUST(merge(base, base, theirs, &merged) == 0);
	MUST(span_equal(buf_span(&merged), theirs));
	return 0;
}
