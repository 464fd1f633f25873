/* test_grep_model.c: random texts and patterns, the same lines as GNU grep -P chooses; the fast ways agree with the slow one. */
#include <stdio.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "base/buf.h"
#include "base/io.h"
#include "harness/boxes.h"

static cb_store *s;
static cb_box *b;
static cb_error err;

/* Pieces that make many matches and many near misses of each other. */
static const char *const text_pieces[] = {"foo", "bar", "a",   "b", " ", "\t", "_",  "-",        "\n", "\n\n",
                                          "x1",  "42",  "FOO", ".", "(", "]",  "\\", "\xc3\xa9", "fo", "o"};
static const char *const atoms[] = {"foo",    "bar",     "a",       "b",        ".",      "\\w",    "\\d",  "\\s",
                                    "\\S",    "\\W",     "\\D",     "[a-f]",    "[^a]",   "[^\\n]", "\\b",  "^",
                                    "$",      "(?:a|b)", "(foo|b)", "x\\d",     "\\.",    "\\(",    "\\]",  "[[:alpha:]]",
                                    "[\\s.]", "(?=b)",   "(?!a)",   "(?<=o)",   "(?<!f)", "(a)\\1", "(?i)", "\\x41",
                                    "[]a]",   "[^]a]",   "\\t",     "\xc3\xa9", "{",      "\\Q.\\E"};
static const char *const quantifiers[] = {"", "", "", "", "*", "+", "?", "{2}", "{0,2}", "*?", "+?", "++"};

static void random_text(test_rng *r, buf *out)
{
	size_t n = test_rand_below(r, 60);
	for (size_t i = 0; i < n; i++) CHECK_OK(buf_append_str(out, text_pieces[test_rand_below(r, ARRAY_LEN(text_pieces))], &err));
	for (size_t i = test_rand_below(r, 4) ? 0 : 3000; i; i--)
		CHECK_OK(buf_append_byte(out, i % 7 ? '-' : 'b', &err)); /* a long line */
	if (test_rand_below(r, 4)) CHECK_OK(buf_append_byte(out, '\n', &err));
}

static void random_pattern(test_rng *r, buf *out)
{
	size_t n = 1 + test_rand_below(r, 4);
	for (size_t i = 0; i < n; i++) {
		const char *atom = atoms[test_rand_below(r, ARRAY_LEN(atoms))];
		bool counted = strcmp(atom, "(?i)") != 0 && strcmp(atom, "{") != 0;
		CHECK_OK(buf_append_str(out, atom, &err));
		if (counted) CHECK_OK(buf_append_str(out, quantifiers[test_rand_below(r, ARRAY_LEN(quantifiers))], &err));
		if (test_rand_below(r, 8) == 0) CHECK_OK(buf_append_byte(out, '|', &err));
	}
	CHECK_OK(buf_append_byte(out, 0, &err));
}

typedef struct seen {
	buf out;
} seen;

static cb_code see(void *context, const cb_grep_line *l, cb_error *e)
{
	seen *k = context;
	CB_TRY(buf_printf(&k->out, e, "%llu%c", (unsigned long long)l->line, l->context ? '-' : ':'));
	CB_TRY(buf_append(&k->out, l->text, l->size, e));
	return buf_append_byte(&k->out, '\n', e);
}

/* Runs GNU grep; false when it refuses the pattern or fails. "--" lines between groups are dropped. */
static bool gnu_grep(const char *options, const char *folder, buf *out)
{
	char command[4096], line[8192];
	(void)snprintf(command, sizeof(command), "cd '%s' && LC_ALL=C.UTF-8 timeout 2 grep -a -n %s -P -f pattern text 2>/dev/null",
	               folder, options);
	FILE *p = popen(command, "r"); /* NOLINT: a test's own command */
	CHECK(p);
	size_t n;
	while ((n = fread(line, 1, sizeof(line), p)) > 0) CHECK_OK(buf_append(out, line, n, &err));
	int status = pclose(p);
	return WIFEXITED(status) && WEXITSTATUS(status) <= 1;
}

/* Of a pattern that tries everything a line may take most of a minute before it is too much: not here. */
static cb_code our_grep(const cb_grep_options *o, seen *out)
{
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 1000), &err));
	cb_code code = cb_grep(b, "/work/f", o, see, out, NULL, &err);
	cb_limit_pop();
	return code;
}

static void drop_separators(buf *text)
{
	AUTO_BUF buf out = BUF_INIT(SIZE_MAX);
	for (size_t at = 0; at < text->size;) {
		const uint8_t *nl = memchr(text->bytes + at, '\n', text->size - at);
		size_t end = nl ? (size_t)(nl - text->bytes) + 1 : text->size;
		if (!(end - at == 3 && memcmp(text->bytes + at, "--\n", 3) == 0))
			CHECK_OK(buf_append(&out, text->bytes + at, end - at, &err));
		at = end;
	}
	buf_clear(text);
	CHECK_OK(buf_append(text, out.bytes, out.size, &err));
}

static void spill(const char *folder, const char *name, span bytes)
{
	char path[4096];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	CHECK(f);
	CHECK(bytes.size == 0 || fwrite(bytes.bytes, 1, bytes.size, f) == bytes.size);
	CHECK(fclose(f) == 0);
}

/* Words and classes are Unicode's here, ASCII's in GNU grep; and it hands on what PCRE2 gets wrong with look-aheads. */
static bool words_differ(span text, const cb_grep_options *o)
{
	static const char *const parts[] = {"\\w", "\\W", "\\b", "\\d", "\\D", "\\s", "\\S", "[:"};
	if (strstr(o->pattern, "(?=")) return true;
	if (!memchr(text.bytes ? text.bytes : (const uint8_t *)"", 0xc3, text.size)) return false;
	bool differ = o->word;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) differ = differ || strstr(o->pattern, parts[i]);
	return differ;
}

static void one_round(test_rng *rng, const char *folder, unsigned *compared)
{
	AUTO_BUF buf text = BUF_INIT(SIZE_MAX), pattern = BUF_INIT(SIZE_MAX), expected = BUF_INIT(SIZE_MAX);
	seen got = {BUF_INIT(SIZE_MAX)};
	random_text(rng, &text);
	random_pattern(rng, &pattern);
	cb_grep_options o = CB_WITH(cb_grep_options, .pattern = (const char *)pattern.bytes);
	o.ignore_case = test_rand_below(rng, 4) == 0;
	o.word = test_rand_below(rng, 5) == 0;
	o.invert = test_rand_below(rng, 5) == 0;
	o.before = test_rand_below(rng, 3) == 0 ? (unsigned)test_rand_below(rng, 3) : 0;
	o.after = test_rand_below(rng, 3) == 0 ? (unsigned)test_rand_below(rng, 3) : 0;
	o.max_per_file = test_rand_below(rng, 4) == 0 ? 1 + test_rand_below(rng, 3) : 0;
	char options[128], max[32] = "";
	if (o.max_per_file) (void)snprintf(max, sizeof(max), "-m %u", (unsigned)o.max_per_file);
	(void)snprintf(options, sizeof(options), "%s %s %s -A %u -B %u %s", o.ignore_case ? "-i" : "", o.word ? "-w" : "",
	               o.invert ? "-v" : "", o.after, o.before, max);
	CHECK_OK(cb_write_file(b, "/work/f", text.bytes ? (const char *)text.bytes : "", text.size, NULL, &err));
	spill(folder, "text", buf_span(&text));
	spill(folder, "pattern", span_make(pattern.bytes, pattern.size - 1));
	cb_code code = our_grep(&o, &got);
	bool theirs = gnu_grep(options, folder, &expected);
	drop_separators(&expected);
	drop_separators(&got.out);
	if (theirs && code == CB_OK && !words_differ(buf_span(&text), &o)) {
		++*compared;
		CHECK_MSG(span_equal(buf_span(&got.out), buf_span(&expected)),
		          "pattern '%s' options '%s' text '%.*s': got\n%.*s expected\n%.*s", o.pattern, options, (int)text.size,
		          text.bytes, (int)got.out.size, got.out.bytes, (int)expected.size, expected.bytes);
	}
	buf_done(&got.out);
}

TEST_LIMIT(same_lines_as_gnu_grep, 240)
{
	test_rng rng = {test_seed() | 1};
	const char *folder = test_tmpdir();
	unsigned compared = 0, rounds = test_dose(400);
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < rounds; i++) one_round(&rng, folder, &compared);
	test_note("%u of %u compared", compared, rounds);
	CHECK(test_soak() == 1 || compared > rounds / 4); /* a small dose may draw others */
	cb_box_close(b);
	cb_store_close(s);
}

/* "(?s:)" makes any pattern one that is matched line by line. */
TEST_LIMIT(fast_and_slow_agree, 120)
{
	test_rng rng = {test_seed() | 1};
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < test_dose(20000); i++) {
		AUTO_BUF buf text = BUF_INIT(SIZE_MAX), pattern = BUF_INIT(SIZE_MAX), slow = BUF_INIT(SIZE_MAX);
		seen fast = {BUF_INIT(SIZE_MAX)}, line_by_line = {BUF_INIT(SIZE_MAX)};
		if (i % 50 == 0) {
			random_text(&rng, &text);
			CHECK_OK(cb_write_file(b, "/work/f", text.bytes ? (const char *)text.bytes : "", text.size, NULL, &err));
		}
		random_pattern(&rng, &pattern);
		CHECK_OK(buf_printf(&slow, &err, "(?s:)(?:%s)", (const char *)pattern.bytes));
		CHECK_OK(buf_append_byte(&slow, 0, &err));
		bool ignore_case = test_rand_below(&rng, 4) == 0, word = test_rand_below(&rng, 4) == 0;
		cb_grep_options a =
			CB_WITH(cb_grep_options, .pattern = (const char *)pattern.bytes, .ignore_case = ignore_case, .word = word);
		cb_grep_options c =
			CB_WITH(cb_grep_options, .pattern = (const char *)slow.bytes, .ignore_case = ignore_case, .word = word);
		if (our_grep(&a, &fast) == CB_OK && our_grep(&c, &line_by_line) == CB_OK)
			CHECK_MSG(span_equal(buf_span(&fast.out), buf_span(&line_by_line.out)),
			          "pattern '%s' -i %d -w %d: fast\n%.*s slow\n%.*s on\n%s", a.pattern, ignore_case, word,
			          (int)fast.out.size, fast.out.bytes, (int)line_by_line.out.size, line_by_line.out.bytes,
			          must_read(b, "/work/f"));
		buf_done(&fast.out);
		buf_done(&line_by_line.out);
	}
	cb_box_close(b);
	cb_store_close(s);
}
