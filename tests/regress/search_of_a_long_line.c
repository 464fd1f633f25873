/*
 * One match of PCRE2 was not ended by a limit, and its steps are counted anew from each place of a line: an ordinary pattern took the
 * square of a long line, minutes of it for 200 KB, without an error.
 */
#include "base/cancel.h"
#include "harness/boxes.h"

static cb_store *s;
static cb_box *b;
static cb_error err;

static void begin(size_t size, const char *end_of_line)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	char *line = malloc(size + 1);
	CHECK(line);
	memset(line, 'a', size);
	strcpy(line + size - strlen(end_of_line), end_of_line);
	must_write(b, "/work/f", line);
	free(line);
}

static void end(void)
{
	cb_box_close(b);
	cb_store_close(s);
}

static cb_code count(void *context, const cb_grep_line *l, cb_error *e)
{
	(void)e;
	*(size_t *)context += l->match_count;
	return CB_OK;
}

static cb_code search(const char *pattern, size_t *matches)
{
	*matches = 0;
	return cb_grep(b, "/work/f", &CB_WITH(cb_grep_options, .pattern = pattern), count, matches, NULL, &err);
}

/* More than can be compiled with callouts everywhere. */
static const char *large_pattern(void)
{
	static char words[20001];
	for (size_t i = 0; i < sizeof(words) - 1; i += 4) memcpy(words + i, i % 8 ? "q[x]" : "|(y)", 4);
	memcpy(words, "ext|", 4);
	return words;
}

/* The square of the line, a look for each million bytes of it. */
TEST(limits_are_looked_at_within_a_match)
{
	const char *const patterns[] = {"(\\w+)\\s+\\1", "(?=a*b)", "^.*(\\w+)\\s+\\1", "\\w+\\d", large_pattern()};
	size_t matches;
	cb_cancel *token;
	begin(20000, "");
	CHECK_OK(cb_cancel_create(&token, &err));
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .cancel = token), &err));
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		cancel_fire_at_look(token, 60);
		cb_code code = search(patterns[i], &matches);
		CHECK_MSG(code == CB_CANCELLED, "%.20s: %s after %ld looks", patterns[i], cb_code_name(code), cancel_looks(token));
	}
	cb_limit_pop();
	cb_cancel_free(token);
	end();
}

TEST(too_much_work_on_a_line_is_told)
{
	size_t matches;
	begin(120000, "");
	CHECK_CODE(search("(?=a*b)", &matches), CB_LIMIT);
	CHECK_STR(err.message, "'/work/f', line 1: the pattern takes too much time or memory on this line: make it simpler");
	end();
}

/* Little work is done in lines of any length, by patterns of any size. */
TEST(long_lines_match)
{
	size_t matches;
	begin(3 << 20, " bb bb 42 \xc3\xa9t\xc3\xa9\nnext\n");
	CHECK_OK(search("(b+)\\s+\\1", &matches));
	CHECK_U64(matches, 1);
	CHECK_OK(search("\\d\\d", &matches));
	CHECK_U64(matches, 1);
	CHECK_OK(search("b{2}|(?<=\xc3\xa9)t|ex.$", &matches));
	CHECK_U64(matches, 4);
	CHECK_OK(search("\\G(a{1000})+(?C1)", &matches));
	CHECK_U64(matches, 1);
	end();
	begin(10000, "ext");
	CHECK_OK(search(large_pattern(), &matches));
	CHECK_U64(matches, 1);
	end();
}
