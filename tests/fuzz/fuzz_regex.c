/* fuzz_regex.c: a byte of options, a pattern up to a NUL, a text. The lines found in whole texts must be those found line by line. */
#include <stdlib.h>

#include "base/limits.h"
#include "search/regex.h"

enum { PATTERN_MAX = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(cond)                    \
	do {                          \
		if (!(cond)) abort(); \
	} while (0)

static size_t line_end(span text, size_t at)
{
	const uint8_t *p = at < text.size ? memchr(text.bytes + at, '\n', text.size - at) : NULL;
	return p ? (size_t)(p - text.bytes) : text.size;
}

/* Does the line, as a text of its own, match? CB_LIMIT when that cannot be told. */
static cb_code matches_alone(regex *re, span line, bool *out)
{
	size_t start = 0, end = 0;
	cb_error err;
	CB_TRY(regex_begin(re, line, &err));
	return regex_next(re, 0, &start, &end, out, &err);
}

static void check_matches(regex *re, size_t start, size_t end)
{
	AUTO_BUF buf found = BUF_INIT(LIMIT_GREP_MATCHES * sizeof(cb_grep_match));
	cb_error err;
	if (regex_matches(re, start, end, &found, &err) != CB_OK) return;
	const cb_grep_match *m = (const cb_grep_match *)(const void *)found.bytes;
	for (size_t i = 0; i < found.size / sizeof(*m); i++)
		MUST(m[i].start < m[i].end && m[i].end <= end - start && (i == 0 || m[i].start >= m[i - 1].end));
}

static void check_text(regex *re, span text)
{
	size_t from = 0;
	cb_error err;
	while (from < text.size) {
		size_t start = 0, end = 0;
		bool found = false, alone = false;
		if (regex_begin(re, text, &err) != CB_OK) return;
		cb_code code = regex_next(re, from, &start, &end, &found, &err);
		MUST(code == CB_OK || code == CB_LIMIT || code == CB_NOMEM);
		if (code != CB_OK) return;
		if (found) {
			MUST(start >= from && start <= end && end <= text.size && end == line_end(text, start));
			MUST(start == 0 || text.bytes[start - 1] == '\n');
			check_matches(re, start, end);
		}
		/* What was passed over does not match, what was found does. */
		for (size_t at = from; at < (found ? end + 1 : text.size); at = line_end(text, at) + 1) {
			span line = span_make(text.bytes + at, line_end(text, at) - at);
			if (line.size == 0 || matches_alone(re, line, &alone) != CB_OK) continue;
			MUST(alone == (found && at == start));
		}
		if (!found) return;
		from = end + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (size < 2) return 0;
	const uint8_t *nul = memchr(bytes + 1, 0, size - 1);
	if (!nul || nul - bytes - 1 > PATTERN_MAX) return 0;
	cb_grep_options o = CB_WITH(cb_grep_options, .pattern = (const char *)bytes + 1, .fixed = bytes[0] & 1,
	                            .ignore_case = bytes[0] & 2, .word = bytes[0] & 4);
	regex *re = NULL;
	cb_error err = {0};
	cb_code code = regex_compile(&o, &re, &err);
	MUST(code == CB_OK || code == CB_INVALID || code == CB_LIMIT || code == CB_NOMEM);
	if (code != CB_OK) return 0;
	span text = span_make(nul + 1, size - (size_t)(nul + 1 - bytes));
	if (text.size <= 4096) check_text(re, text);
	regex_destroy(re);
	return 0;
}
