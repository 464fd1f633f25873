/*
 * regex.c: PCRE2 behind regex.h.
 *
 * Three ways to find the next line, the fastest that is right for the pattern: look for a text that every match holds and match only the
 * lines around it; search the whole text at once with the pattern rewritten not to cross newlines (shape.h); match line by line.
 *
 * The pattern is compiled up to twice: without UTF, for texts of ASCII alone, which most are and where the answer is the same in less time;
 * and with UTF and Unicode properties for the others, when the first of them comes.
 *
 * PCRE2 bounds the steps of a match from one place, not what it takes from all places of a line nor how far one step goes: `(\w+)\s+\1`
 * takes the square of a long line. And it cannot be ended from outside. So lines that are short are matched as they are, with few steps,
 * which is over soon; and what is long or takes more steps is matched *with care*: by the same pattern with a callout before each of its
 * items. There the work is counted and the caller's limit looked at. That is several times slower.
 */
#include "search/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/cancel.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "search/literal.h"
#include "search/shape.h"

enum {
	SHORT_BYTES = 2 << 10,     /* a line that is matched without care */
	SHORT_STEPS = 500,         /* of a match from one place without care: more than most need, little for that many bytes */
	CARE_STEPS = 10000000,     /* and with care */
	CARE_LOOK_BYTES = 1 << 20, /* that may be passed between two looks at the limit; one item may pass all of the line */
	DEPTH_LIMIT = 1000000,
	HEAP_LIMIT_KIB = 64 << 10,
	JIT_STACK_START = 32 << 10,
	JIT_STACK_MAX = 4 << 20,
	PIECE_BYTES = 16 << 10, /* of a text that is searched whole, at a time: its lines may all take the square of their length */
};

/* Callouts, and bytes passed between them, for one line: seconds. */
static const uint64_t care_work = UINT64_C(4) << 30;

typedef enum strategy { BY_LINE, BY_TEXT, BY_LITERAL } strategy;

typedef struct compiled {
	pcre2_code *code, *careful; /* careful: NULL when it cannot be compiled with callouts, only without */
	bool tried, careful_tried;
} compiled;

/* What was done for one line with care. */
typedef struct care {
	uint64_t work;
	size_t at;                /* where the last callout was */
	unsigned calls, interval; /* since the last look; that lie between two */
} care;

struct regex {
	char *source; /* what is compiled */
	uint32_t flags;
	bool pattern_ascii, pattern_utf8;
	shape shape;
	bool crlf; /* a pattern that was not rewritten has a `$`: a line that ends in CR is tried without it too */
	strategy best;
	bool literal_only;
	compiled ascii, unicode;
	pcre2_compile_context *compile_context;
	pcre2_match_context *short_context, *careful_context;
	pcre2_match_data *data;
	pcre2_jit_stack *jit_stack;
	/* of the text under way */
	span text;
	compiled *code;
	strategy now;
	care care;
};

/* ---- compiling ---- */

static cb_code bad_pattern(int number, size_t offset, cb_error *err)
{
	PCRE2_UCHAR text[160] = "";
	(void)pcre2_get_error_message(number, text, sizeof(text));
	/* It is sound, but more than can be compiled. */
	bool too_large = number == PCRE2_ERROR_PATTERN_TOO_LARGE || number == PCRE2_ERROR_PATTERN_TOO_COMPLICATED;
	return cb_err_set(err, too_large ? CB_LIMIT : CB_INVALID, "pattern, character %zu: %s", offset + 1, (const char *)text);
}

static uint32_t unicode_flags(const regex *re)
{
	return re->pattern_utf8 ? PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF : 0;
}

static cb_code compile(const regex *re, const char *source, uint32_t flags, pcre2_code **out, cb_error *err)
{
	int number = 0;
	PCRE2_SIZE offset = 0;
	*out = pcre2_compile((PCRE2_SPTR)source, PCRE2_ZERO_TERMINATED, flags, &number, &offset, re->compile_context);
	if (*out) return CB_OK;
	if (number == PCRE2_ERROR_HEAP_FAILED) return cb_err_nomem(err);
	return bad_pattern(number, offset, err);
}

/* The pattern as it was given, for its errors. */
static cb_code check_pattern(const regex *re, const char *pattern, cb_error *err)
{
	pcre2_code *code = NULL;
	CB_TRY(compile(re, pattern, re->flags | unicode_flags(re), &code, err));
	pcre2_code_free(code);
	return CB_OK;
}

static cb_code compile_variant(regex *re, compiled *c, uint32_t flags, cb_error *err)
{
	if (c->tried) return CB_OK;
	CB_TRY(compile(re, re->source, re->flags | flags, &c->code, err));
	c->tried = true;
	/* Without JIT (no memory that may be executed, or a pattern it cannot do) it is slower, not wrong. */
	(void)pcre2_jit_compile(c->code, PCRE2_JIT_COMPLETE);
	return CB_OK;
}

/* With callouts before all items a large pattern may be more than can be compiled: then with one, where a match begins. */
static cb_code compile_careful(regex *re, compiled *c, cb_error *err)
{
	if (c->careful_tried) return CB_OK;
	AUTO_BUF buf source = BUF_INIT(SIZE_MAX);
	uint32_t flags = re->flags | (c == &re->unicode ? unicode_flags(re) : 0);
	cb_code code = compile(re, re->source, flags | PCRE2_AUTO_CALLOUT, &c->careful, NULL);
	if (code == CB_LIMIT) {
		CB_TRY(buf_printf(&source, err, "(?C)(?:%s)", re->source));
		CB_TRY(buf_append_byte(&source, 0, err));
		code = compile(re, (const char *)source.bytes, flags, &c->careful, NULL);
	}
	if (code == CB_NOMEM) return cb_err_nomem(err);
	c->careful_tried = true;
	if (c->careful) (void)pcre2_jit_compile(c->careful, PCRE2_JIT_COMPLETE);
	return CB_OK;
}

static bool is_ascii(span s)
{
	size_t i = 0;
	for (; i + 64 <= s.size; i += 64) {
		uint64_t word[8], all = 0;
		memcpy(word, s.bytes + i, sizeof(word));
		for (int k = 0; k < 8; k++) all |= word[k];
		if (all & 0x8080808080808080u) return false;
	}
	for (; i < s.size; i++)
		if (s.bytes[i] & 0x80) return false;
	return true;
}

static cb_code quote(const char *text, buf *out, cb_error *err)
{
	for (const char *p = text; *p; p++) {
		bool plain = (unsigned char)*p >= 0x80 || (*p >= '0' && *p <= '9') || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z');
		if (!plain) CB_TRY(buf_append_byte(out, '\\', err));
		CB_TRY(buf_append_byte(out, (uint8_t)*p, err));
	}
	return buf_append_byte(out, 0, err);
}

/* As grep: what matches neither begins after nor ends before a word character. */
static cb_code make_source(regex *re, const char *pattern, bool word, cb_error *err)
{
	AUTO_BUF buf source = BUF_INIT(SIZE_MAX);
	const char *body = re->shape.simple ? (const char *)re->shape.across.bytes : pattern;
	CB_TRY(buf_printf(&source, err, word ? "(?<!\\w)(?:%s)(?!\\w)" : "%s", body));
	return buf_take(&source, &re->source, NULL, err);
}

static int care_callout(pcre2_callout_block *block, void *context)
{
	care *c = context;
	size_t at = block->current_position;
	c->work += 1 + (at > c->at ? at - c->at : c->at - at);
	c->at = at;
	if (c->work > care_work) return PCRE2_ERROR_MATCHLIMIT;
	if (++c->calls < c->interval) return 0;
	c->calls = 0;
	return cancel_is_due() ? PCRE2_ERROR_CALLOUT : 0;
}

static cb_code context_create(const regex *re, uint32_t steps, pcre2_match_context **out, cb_error *err)
{
	*out = pcre2_match_context_create(NULL);
	if (!*out) return cb_err_nomem(err);
	(void)pcre2_set_match_limit(*out, steps);
	(void)pcre2_set_depth_limit(*out, DEPTH_LIMIT);
	(void)pcre2_set_heap_limit(*out, HEAP_LIMIT_KIB);
	if (re->jit_stack) pcre2_jit_stack_assign(*out, NULL, re->jit_stack);
	return CB_OK;
}

static cb_code contexts_create(regex *re, cb_error *err)
{
	re->compile_context = pcre2_compile_context_create(NULL);
	re->data = pcre2_match_data_create(1, NULL);
	if (!re->compile_context || !re->data) return cb_err_nomem(err);
	(void)pcre2_set_newline(re->compile_context, PCRE2_NEWLINE_LF);
	re->jit_stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
	CB_TRY(context_create(re, SHORT_STEPS, &re->short_context, err));
	CB_TRY(context_create(re, CARE_STEPS, &re->careful_context, err));
	(void)pcre2_set_callout(re->careful_context, care_callout, &re->care);
	return CB_OK;
}

static cb_code prepare(regex *re, const cb_grep_options *options, const char *pattern, cb_error *err)
{
	span bytes = span_str(pattern);
	re->pattern_ascii = is_ascii(bytes);
	re->pattern_utf8 = utf8_valid(bytes);
	re->flags = PCRE2_NEVER_BACKSLASH_C | (options->ignore_case ? PCRE2_CASELESS : 0);
	/* PCRE2 10.42 takes what a look-ahead saw for consumed when it looks for a place to start: "(?=b)x?b" misses "b". */
	if (strstr(pattern, "(?=") || strstr(pattern, "pla:") || strstr(pattern, "lookahead:"))
		re->flags |= PCRE2_NO_START_OPTIMIZE;
	CB_TRY(contexts_create(re, err));
	CB_TRY(check_pattern(re, pattern, err));
	CB_TRY(shape_read(pattern, &re->shape, err));
	bool ignore_case = options->ignore_case || re->shape.ignore_case;
	if (re->shape.simple) re->flags |= PCRE2_MULTILINE | (ignore_case ? PCRE2_CASELESS : 0);
	re->crlf = !re->shape.simple && (strchr(pattern, '$') || strstr(pattern, "\\z") || strstr(pattern, "\\Z"));
	re->best = re->shape.simple ? BY_TEXT : BY_LINE;
	if (re->shape.simple && re->shape.literal_size && !ignore_case) re->best = BY_LITERAL;
	re->literal_only = re->best == BY_LITERAL && re->shape.literal_only && !options->word;
	return make_source(re, pattern, options->word, err);
}

cb_code regex_compile(const cb_grep_options *options, regex **out, cb_error *err)
{
	if (!options->pattern) return cb_err_set(err, CB_INVALID, "a pattern is needed");
	if (strlen(options->pattern) > LIMIT_GREP_PATTERN_BYTES)
		return cb_err_set(err, CB_LIMIT, "a pattern may have %d bytes", LIMIT_GREP_PATTERN_BYTES);
	if (strchr(options->pattern, '\n'))
		return cb_err_set(err, CB_INVALID, "the pattern holds a newline: lines are matched one by one");
	regex *re = mem_alloc(sizeof(*re));
	if (!re) return cb_err_nomem(err);
	*re = (regex){0};
	AUTO_BUF buf quoted = BUF_INIT(SIZE_MAX);
	cb_code code = options->fixed ? quote(options->pattern, &quoted, err) : CB_OK;
	if (code == CB_OK) code = prepare(re, options, options->fixed ? (const char *)quoted.bytes : options->pattern, err);
	/* Compiled now, so that a pattern that cannot be is told also where there is nothing to search. */
	if (code == CB_OK && re->shape.simple && re->pattern_ascii) code = compile_variant(re, &re->ascii, 0, err);
	else if (code == CB_OK) code = compile_variant(re, &re->unicode, unicode_flags(re), err);
	if (code == CB_OK) *out = re;
	else regex_destroy(re);
	return code;
}

void regex_destroy(regex *re)
{
	if (!re) return;
	pcre2_code_free(re->ascii.code);
	pcre2_code_free(re->ascii.careful);
	pcre2_code_free(re->unicode.code);
	pcre2_code_free(re->unicode.careful);
	pcre2_compile_context_free(re->compile_context);
	pcre2_match_context_free(re->short_context);
	pcre2_match_context_free(re->careful_context);
	pcre2_match_data_free(re->data);
	pcre2_jit_stack_free(re->jit_stack);
	shape_done(&re->shape);
	free(re->source);
	free(re);
}

/* ---- matching ---- */

/* Before bytes that are not UTF-8 PCRE2 finds an empty match when something comes before them in the text, and none when they are its
 * beginning: of a line inside a text they are not, of a line by itself they are. */
static bool differs_by_line(const regex *re, const compiled *c, span text)
{
	uint32_t may_be_empty = 0;
	if (c != &re->unicode || !re->pattern_utf8) return false;
	(void)pcre2_pattern_info(c->code, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
	return may_be_empty && !utf8_valid(text);
}

cb_code regex_begin(regex *re, span text, cb_error *err)
{
	re->text = text;
	re->now = re->best;
	re->code = NULL;
	/* A text that is passed over by its literal alone needs no code: chosen when the first line is matched. */
	if (re->best == BY_LITERAL) return CB_OK;
	bool plain = re->shape.simple && re->pattern_ascii && is_ascii(text);
	compiled *c = plain ? &re->ascii : &re->unicode;
	CB_TRY(compile_variant(re, c, plain ? 0 : unicode_flags(re), err));
	re->code = c;
	if (re->now == BY_TEXT && differs_by_line(re, c, text)) re->now = BY_LINE;
	return CB_OK;
}

/* A match in [bytes, bytes + size) from an offset on: at least 0, or a code of PCRE2's. */
static int match(const regex *re, const pcre2_code *code, pcre2_match_context *context, span in, size_t from, uint32_t flags)
{
	int rc = pcre2_match(code, in.bytes, in.size, from, flags, re->data, context);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = pcre2_match(code, in.bytes, in.size, from, flags | PCRE2_NO_JIT, re->data, context);
	return rc;
}

static int match_short(const regex *re, span in, size_t from, uint32_t flags)
{
	return match(re, re->code->code, re->short_context, in, from, flags);
}

static cb_code too_much(int rc, cb_error *err)
{
	if (rc == PCRE2_ERROR_NOMEMORY) return cb_err_nomem(err);
	if (rc == PCRE2_ERROR_CALLOUT) CB_TRY(cancel_check(err));
	bool limit = rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT ||
	             rc == PCRE2_ERROR_JIT_STACKLIMIT || rc == PCRE2_ERROR_RECURSELOOP;
	if (limit) return cb_err_set(err, CB_LIMIT, "the pattern takes too much time or memory on this line: make it simpler");
	PCRE2_UCHAR text[160] = "";
	(void)pcre2_get_error_message(rc, text, sizeof(text));
	return cb_err_set(err, CB_INTERNAL, "matching failed: %s", (const char *)text);
}

/* In a line, with care when it needs that. */
static cb_code match_line(regex *re, span line, size_t from, uint32_t flags, bool *out, cb_error *err)
{
	int rc = line.size <= SHORT_BYTES ? match_short(re, line, from, flags) : PCRE2_ERROR_MATCHLIMIT;
	if (rc == PCRE2_ERROR_MATCHLIMIT) {
		CB_TRY(compile_careful(re, re->code, err));
		re->care.interval = (unsigned)(CARE_LOOK_BYTES / (line.size + 1));
		rc = match(re, re->code->careful ? re->code->careful : re->code->code, re->careful_context, line, from, flags);
	}
	*out = rc >= 0;
	return rc >= 0 || rc == PCRE2_ERROR_NOMATCH ? CB_OK : too_much(rc, err);
}

static cb_code line_code(regex *re, span line, cb_error *err)
{
	bool plain = re->pattern_ascii && is_ascii(line);
	compiled *c = plain ? &re->ascii : &re->unicode;
	CB_TRY(compile_variant(re, c, plain ? 0 : unicode_flags(re), err));
	re->code = c;
	return CB_OK;
}

static cb_code line_matches(regex *re, size_t start, size_t end, bool *out, cb_error *err)
{
	span line = span_make(re->text.bytes + start, end - start);
	if (re->best == BY_LITERAL) CB_TRY(line_code(re, line, err));
	re->care = (care){0};
	CB_TRY(match_line(re, line, 0, 0, out, err));
	if (!*out && re->crlf && line.size && line.bytes[line.size - 1] == '\r')
		CB_TRY(match_line(re, span_make(line.bytes, line.size - 1), 0, 0, out, err));
	return CB_OK;
}

/* Of the line around `at`, not looking further back than `from`, which begins a line. */
static size_t line_start(span text, size_t from, size_t at)
{
	const uint8_t *p = at > from ? memrchr(text.bytes + from, '\n', at - from) : NULL;
	return p ? (size_t)(p - text.bytes) + 1 : from;
}

static size_t line_end(span text, size_t at)
{
	const uint8_t *p = at < text.size ? memchr(text.bytes + at, '\n', text.size - at) : NULL;
	return p ? (size_t)(p - text.bytes) : text.size;
}

static cb_code next_by_line(regex *re, size_t from, size_t *out_start, size_t *out_end, bool *out_found, cb_error *err)
{
	for (*out_found = false; from < re->text.size; from = *out_end + 1) {
		CB_TRY(cancel_check(err));
		*out_start = from;
		*out_end = line_end(re->text, from);
		CB_TRY(line_matches(re, *out_start, *out_end, out_found, err));
		if (*out_found) return CB_OK;
	}
	return CB_OK;
}

static cb_code next_by_literal(regex *re, size_t from, size_t *out_start, size_t *out_end, bool *out_found, cb_error *err)
{
	span needle = span_make(re->shape.literal, re->shape.literal_size);
	*out_found = false;
	while (from < re->text.size) {
		CB_TRY(cancel_check(err));
		size_t at = literal_find(re->text, from, needle);
		if (at == SIZE_MAX) return CB_OK;
		*out_start = line_start(re->text, from, at);
		*out_end = line_end(re->text, at);
		*out_found = re->literal_only;
		if (!re->literal_only) CB_TRY(line_matches(re, *out_start, *out_end, out_found, err));
		if (*out_found) return CB_OK;
		from = *out_end + 1;
	}
	return CB_OK;
}

/* Whole lines from there on that are short, not many. `from` itself: the first line is long. */
static size_t piece_end(span text, size_t from)
{
	size_t end = from;
	while (end < text.size && end - from < PIECE_BYTES) {
		if (text.size - end <= SHORT_BYTES) return text.size;
		const uint8_t *p = memrchr(text.bytes + end, '\n', SHORT_BYTES);
		if (!p) break;
		end = (size_t)(p - text.bytes) + 1;
	}
	return end;
}

static cb_code next_by_text(regex *re, size_t from, size_t *out_start, size_t *out_end, bool *out_found, cb_error *err)
{
	*out_found = false;
	for (size_t end; from < re->text.size; from = end) {
		end = piece_end(re->text, from);
		CB_TRY(cancel_check(err));
		if (end == from) {
			*out_start = from;
			*out_end = line_end(re->text, from);
			CB_TRY(line_matches(re, *out_start, *out_end, out_found, err));
			if (*out_found) return CB_OK;
			end = *out_end + 1;
			continue;
		}
		int rc = match_short(re, span_make(re->text.bytes, end), from, 0);
		if (rc == PCRE2_ERROR_NOMATCH) continue;
		if (rc < 0) { /* too much for many lines may be little enough for each; if not, the line is named */
			re->now = BY_LINE;
			return next_by_line(re, from, out_start, out_end, out_found, err);
		}
		size_t at = pcre2_get_ovector_pointer(re->data)[0];
		/* After the last newline there is no line of this piece, though an empty match fits there. */
		if (at >= end && re->text.bytes[end - 1] == '\n') continue;
		*out_start = line_start(re->text, from, at);
		*out_end = line_end(re->text, at);
		*out_found = true;
		return CB_OK;
	}
	return CB_OK;
}

cb_code regex_next(regex *re, size_t from, size_t *out_start, size_t *out_end, bool *out_found, cb_error *err)
{
	switch (re->now) {
	case BY_LITERAL:
		return next_by_literal(re, from, out_start, out_end, out_found, err);
	case BY_TEXT:
		return next_by_text(re, from, out_start, out_end, out_found, err);
	case BY_LINE:
		break;
	}
	return next_by_line(re, from, out_start, out_end, out_found, err);
}

/* ---- the matches of one line ---- */

static cb_code matches_add(buf *out, size_t start, size_t end, cb_error *err)
{
	cb_grep_match m = {start, end};
	return buf_append(out, &m, sizeof(m), err);
}

static cb_code literal_matches(const regex *re, span line, buf *out, cb_error *err)
{
	span needle = span_make(re->shape.literal, re->shape.literal_size);
	size_t at, from = 0;
	for (unsigned n = 0; n < LIMIT_GREP_MATCHES && (at = literal_find(line, from, needle)) != SIZE_MAX; n++) {
		CB_TRY(matches_add(out, at, at + needle.size, err));
		from = at + needle.size;
	}
	return CB_OK;
}

static cb_code pattern_matches(regex *re, span line, buf *out, cb_error *err)
{
	size_t from = 0;
	for (unsigned n = 0; n < LIMIT_GREP_MATCHES && from <= line.size;) {
		CB_TRY(cancel_check(err));
		bool some = false;
		CB_TRY(match_line(re, line, from, PCRE2_NOTEMPTY, &some, err));
		if (!some) return CB_OK;
		const PCRE2_SIZE *found = pcre2_get_ovector_pointer(re->data);
		/* \K and look-behind can give what begins before the place the search began at, or ends before it begins. */
		bool usable = found[0] >= from && found[1] > found[0] && found[1] <= line.size;
		if (usable) CB_TRY(matches_add(out, found[0], found[1], err));
		n += usable;
		from = found[1] > from ? found[1] : from + 1;
	}
	return CB_OK;
}

cb_code regex_matches(regex *re, size_t start, size_t end, buf *out, cb_error *err)
{
	span line = span_make(re->text.bytes + start, end - start);
	if (re->literal_only) return literal_matches(re, line, out, err);
	if (re->best == BY_LITERAL) CB_TRY(line_code(re, line, err));
	size_t before = out->size;
	re->care = (care){0};
	CB_TRY(pattern_matches(re, line, out, err));
	if (out->size == before && re->crlf && line.size && line.bytes[line.size - 1] == '\r')
		return pattern_matches(re, span_make(line.bytes, line.size - 1), out, err);
	return CB_OK;
}
