/* test_glob.c: patterns by hand, against a naive matcher, against fnmatch(3) and bash; hostile patterns; failing memory. */
#include <fnmatch.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"
#include "box/glob.h"
#include "harness/harness.h"

static bool matches(const char *pattern, const char *path)
{
	glob *g = NULL;
	cb_error err;
	CHECK_OK(glob_compile(pattern, &g, &err));
	bool yes = glob_match(g, span_str(path));
	glob_destroy(g);
	return yes;
}

static bool may_match_below(const char *pattern, const char *folder)
{
	glob *g = NULL;
	cb_error err;
	CHECK_OK(glob_compile(pattern, &g, &err));
	bool yes = glob_may_match_below(g, span_str(folder));
	glob_destroy(g);
	return yes;
}

typedef struct match_case {
	const char *pattern, *path;
	bool expected;
} match_case;

static void check_cases(const match_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		CHECK_MSG(matches(cases[i].pattern, cases[i].path) == cases[i].expected, "'%s' on '%s'", cases[i].pattern,
		          cases[i].path);
}

TEST(wildcards_stay_in_their_component)
{
	static const match_case cases[] = {
		{"", "", true},
		{"", "a", false},
		{"a", "", false},
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a/b", false},
		{"*", "a", true},
		{"*", "", false},
		{"*", ".git", true},
		{"*", "a/b", false},
		{"*.c", "a.c", true},
		{"*.c", ".c", true},
		{"*.c", "a.cc", false},
		{"a*b*c", "axxbyybzc", true},
		{"a*b*c", "axxbyybz", false},
		{"?", "a", true},
		{"?", "", false},
		{"?", "ab", false},
		{"a?c", "a/c", false},
		{"src/*.c", "src/a.c", true},
		{"src/*.c", "src/x/a.c", false},
		{"a**b", "axxb", true},
		{"a**b", "a/b", false},
		{"***", "abc", true},
		{"***", "a/b", false},
		{"*?", "a", true},
		{"?*?", "a", false},
		{"/a//b/", "a/b", true},
		{"a\\/b", "a/b", true},
		{"\xff?", "\xff\xfe", true},
	};
	check_cases(cases, ARRAY_LEN(cases));
}

TEST(double_star_spans_components)
{
	static const match_case cases[] = {
		{"**", "", true},
		{"**", "a", true},
		{"**", "a/b/c", true},
		{"**/a", "a", true},
		{"**/a", "x/y/a", true},
		{"**/a", "x/ya", false},
		{"a/**", "a", true},
		{"a/**", "a/b/c", true},
		{"a/**", "ab", false},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/x/y/b", true},
		{"a/**/b", "a/x/y/c", false},
		{"**/a/**/b/**", "x/a/y/b", true},
		{"**/*.c", ".a/b/c.c", true},
		{"**/**", "a", true},
		{"**/a/b", "a/a/b", true},
		{"**/a/b", "a/b/a/b", true},
		{"**/a/*/c", "a/a/b/c", true},
		{"**/**/x/**", "x", true},
		{"a\\*\\*/b", "a**/b", true},
		{"\\**/a", "x/a", false},
	};
	check_cases(cases, ARRAY_LEN(cases));
}

TEST(classes_and_quotes)
{
	static const match_case cases[] = {
		{"[abc]", "b", true},
		{"[abc]", "d", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]", "b", false},
		{"[!a-c]", "d", true},
		{"[^a]", "b", true},
		{"[]]", "]", true},
		{"[!]]", "]", false},
		{"[a-]", "-", true},
		{"[z-a]", "m", false},
		{"[\\]]", "]", true},
		{"[a\\-c]", "b", false},
		{"[a\\-c]", "-", true},
		{"[/]", "/", false},
		{"a[/]b", "a/b", false},
		{"[!a]", "/", false},
		{"[[:digit:]]", "7", true},
		{"[[:alpha:]_]", "_", true},
		{"[![:space:]]", " ", false},
		{"[[:x]", ":", true},
		{"[[]", "[", true},
		{"\\*", "*", true},
		{"\\*", "a", false},
		{"\\[a]", "[a]", true},
		{"]", "]", true},
		{"[,{]", "{", true},
		{"[\xe0-\xff]", "\xf0", true},
		{"[[:]{:,x}]", "::]", true},
	};
	check_cases(cases, ARRAY_LEN(cases));
}

TEST(alternatives)
{
	static const match_case cases[] = {
		{"*.{c,h}", "a.h", true},    {"*.{c,h}", "a.cc", false}, {"{a,b}/{c,d}", "b/c", true},
		{"{a,b/c}", "b/c", true},    {"{a,{b,c}d}", "cd", true}, {"{a,{b,c}d}", "a", true},
		{"{a,{b,c}d}", "b", false},  {"a{,b}", "a", true},       {"a{,b}", "ab", true},
		{"{a}", "a", true},          {"{}", "", true},           {"\\{a,b}", "{a,b}", true},
		{"{a\\,b,c}", "a,b", true},  {"a,b", "a,b", true},       {"}", "}", true},
		{"{a,b}}", "a}", true},      {"{[a,b],c}", ",", true},   {"{**,x}/a", "p/q/a", true},
		{"{x,}**/a", "p/q/a", true}, {"{x,}**/a", "xy/a", true}, {"{x,}**/a", "xy/z/a", true},
		{"x**/a", "xy/z/a", false},  {"a{/**,}", "a/b", true},   {"{{{{a}}}}", "a", true},
	};
	check_cases(cases, ARRAY_LEN(cases));
}

TEST(bad_patterns_are_refused)
{
	static const char *const bad[] = {"[",  "[a",  "a[!", "[]",    "[!]",           "{",  "{a", "a{b,{c}",
	                                  "\\", "a\\", "[\\", "[a\\]", "[[:nothing:]]", "{[}"};
	glob *g = NULL;
	cb_error err;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) CHECK_MSG(glob_compile(bad[i], &g, &err) == CB_INVALID, "'%s'", bad[i]);
	char longest[GLOB_PATTERN_MAX + 2];
	memset(longest, 'a', sizeof(longest));
	longest[GLOB_PATTERN_MAX] = 0;
	CHECK_OK(glob_compile(longest, &g, &err));
	CHECK(glob_match(g, span_str(longest)));
	glob_destroy(g);
	longest[GLOB_PATTERN_MAX] = 'a';
	longest[GLOB_PATTERN_MAX + 1] = 0;
	CHECK_CODE(glob_compile(longest, &g, &err), CB_INVALID);
	glob_destroy(NULL);
}

TEST(pruning)
{
	CHECK(may_match_below("src/*.c", ""));
	CHECK(may_match_below("src/*.c", "src"));
	CHECK(!may_match_below("src/*.c", "doc"));
	CHECK(!may_match_below("src/*.c", "src/x"));
	CHECK(may_match_below("src/*.c", "src/x.c")); /* itself */
	CHECK(!may_match_below("src/*.c", "src/x.c/y"));
	CHECK(may_match_below("**/a", "any/thing"));
	CHECK(may_match_below("a/**/b", "a/x/y"));
	CHECK(!may_match_below("a/**/b", "b"));
	CHECK(may_match_below("{a,b}/c", "b"));
	CHECK(!may_match_below("", "a"));
}

/* ---- a naive matcher: what the words mean, in exponential time ---- */

static bool naive_class(const char **p, char c)
{
	const char *q = *p + 1;
	bool negated = *q == '!', in = false;
	if (negated) q++;
	for (bool first = true; *q != ']' || first; first = false) {
		char from = *q++, to = from;
		if (*q == '-' && q[1] != ']') {
			to = q[1];
			q += 2;
		}
		if ((uint8_t)from <= (uint8_t)c && (uint8_t)c <= (uint8_t)to) in = true;
	}
	*p = q + 1;
	return in != negated && c != '/';
}

/* Patterns without braces and quotes. */
static bool naive(const char *p, const char *s, bool at_start)
{
	if (at_start && p[0] == '*' && p[1] == '*' && (p[2] == '/' || p[2] == 0)) {
		if (p[2] == 0) return true;
		if (naive(p + 3, s, true)) return true;
		const char *slash = strchr(s, '/');
		return slash && naive(p, slash + 1, true);
	}
	if (*p == 0) return *s == 0;
	/* "a/" + "**" also matches "a". */
	if (*p == '/' && *s == 0) {
		while (strncmp(p, "/**", 3) == 0 && (p[3] == 0 || p[3] == '/')) p += 3;
		return *p == 0;
	}
	if (*p == '*') return naive(p + 1, s, false) || (*s && *s != '/' && naive(p, s + 1, false));
	if (*s == 0) return false;
	if (*p == '?') return *s != '/' && naive(p + 1, s + 1, false);
	if (*p == '[') return naive_class(&p, *s) && naive(p, s + 1, false);
	return *p == *s && naive(p + 1, s + 1, *p == '/');
}

static void random_pattern(test_rng *r, const char *const *pieces, size_t count, char *out, size_t size)
{
	size_t used = 0;
	for (uint64_t n = 1 + test_rand_below(r, 8); n > 0; n--) {
		const char *piece = pieces[test_rand_below(r, count)];
		if (used + strlen(piece) + 1 >= size) break;
		memcpy(out + used, piece, strlen(piece));
		used += strlen(piece);
	}
	out[used] = 0;
}

static void random_path(test_rng *r, char *out)
{
	static const char letters[] = "aaabbbc/.";
	size_t used = 0;
	for (uint64_t n = 1 + test_rand_below(r, 12); n > 0; n--) {
		char c = letters[test_rand_below(r, sizeof(letters) - 1)];
		if (c == '/' && (used == 0 || out[used - 1] == '/')) continue;
		out[used++] = c;
	}
	while (used > 0 && out[used - 1] == '/') used--;
	out[used] = 0;
}

/* Slashes only between components, as the naive matcher and fnmatch(3) want them. */
static bool pattern_is_plain(const char *p)
{
	size_t size = strlen(p);
	return size > 0 && p[0] != '/' && p[size - 1] != '/' && !strstr(p, "//");
}

TEST(matches_as_the_naive_matcher)
{
	static const char *const pieces[] = {"a", "b", "*", "*", "?", "/", "/", "**", "/**/", "[ab]", "[!a]", "**/", "a*b", "."};
	test_rng r = {test_seed()};
	unsigned yes = 0;
	for (unsigned i = 0; i < 60000 * test_soak(); i++) {
		char pattern[64], path[32];
		random_pattern(&r, pieces, ARRAY_LEN(pieces), pattern, sizeof(pattern));
		random_path(&r, path);
		if (!pattern_is_plain(pattern) || path[0] == 0) continue;
		bool expected = naive(pattern, path, true);
		CHECK_MSG(matches(pattern, path) == expected, "'%s' on '%s'", pattern, path);
		yes += expected;
		/* Never no wrongly: every folder above a match may have matches below. */
		for (char *slash = path; expected && (slash = strchr(slash, '/')); *slash++ = '/') {
			*slash = 0;
			CHECK_MSG(may_match_below(pattern, path), "'%s' below '%s'", pattern, path);
		}
	}
	CHECK(yes > 100);
}

TEST(matches_as_fnmatch)
{
	static const char *const pieces[] = {"a",     "b",    "*",   "?",   "/", "[ab]", "[!a]",
	                                     "[a-c]", "[]a]", "\\*", "\\a", "c", ".",    "[.b]"};
	test_rng r = {hash_u64(test_seed() + 1)};
	for (unsigned i = 0; i < 60000 * test_soak(); i++) {
		char pattern[64], path[32];
		random_pattern(&r, pieces, ARRAY_LEN(pieces), pattern, sizeof(pattern));
		random_path(&r, path);
		if (!pattern_is_plain(pattern) || strstr(pattern, "**") || path[0] == 0) continue;
		CHECK_MSG(matches(pattern, path) == (fnmatch(pattern, path, FNM_PATHNAME) == 0), "'%s' on '%s'", pattern, path);
	}
}

static size_t count_of(const char *s, char c)
{
	size_t n = 0;
	for (; *s; s++) n += *s == c;
	return n;
}

/* Names without '/', for which [[ name == pattern ]] is a component match; alternatives through bash's own expansion. */
TEST(matches_as_bash)
{
	static const char *const pieces[] = {"a", "b", "*", "?", "[ab]", "[!a]", "{a,b}", "{a,{b,*}}", "{,a}", "[[:alpha:]]", "."};
	enum { CASES = 1500 };
	if (system("bash -c 'exit 0' >/dev/null 2>&1") != 0) test_skip("bash is not installed");
	test_rng r = {hash_u64(test_seed() + 2)};
	AUTO_BUF buf script = BUF_INIT(1 << 20);
	static bool mine[CASES];
	static char shown[CASES][128];
	buf_append_str(&script, "set -f; t() { local s=$1 p r=0; shift; for p; do [[ $s == $p ]] && r=1; done; printf %s $r; }\n",
	               NULL);
	for (size_t i = 0; i < CASES; i++) {
		char pattern[64], path[32];
		do random_pattern(&r, pieces, ARRAY_LEN(pieces), pattern, sizeof(pattern));
		while (count_of(pattern, '{') > 7); /* more may be refused: too many alternatives */
		do random_path(&r, path);
		while (path[0] == 0); /* no path to us, a name to bash */
		for (char *p = path; *p; p++)
			if (*p == '/') *p = 'b';
		mine[i] = matches(pattern, path);
		snprintf(shown[i], sizeof(shown[i]), "'%s' on '%s'", pattern, path);
		/* The empty quotes keep an alternative that expands to nothing. */
		buf_printf(&script, NULL, "t '%s' ''%s\n", path, pattern);
	}
	char file[4096], command[4200], answers[CASES + 1] = {0};
	snprintf(file, sizeof(file), "%s/t.sh", test_tmpdir());
	FILE *f = fopen(file, "we");
	CHECK(f && fwrite(script.bytes, 1, script.size, f) == script.size && fclose(f) == 0);
	snprintf(command, sizeof(command), "LC_ALL=C bash '%s'", file);
	f = popen(command, "re");
	CHECK(f && fread(answers, 1, CASES, f) == CASES);
	CHECK(pclose(f) == 0);
	for (size_t i = 0; i < CASES; i++) CHECK_MSG((answers[i] == '1') == mine[i], "%s: bash says %c", shown[i], answers[i]);
}

/* ---- hostile ---- */

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void repeat(buf *out, const char *s, size_t size)
{
	buf_clear(out);
	while (out->size + strlen(s) <= size) CHECK(buf_append_str(out, s, NULL) == CB_OK);
}

/* A pattern made of one piece again and again, on a path likewise; the harness' limit is the assertion. */
static void time_match(const char *piece, const char *path_piece)
{
	AUTO_BUF buf pattern = BUF_INIT(1 << 16);
	AUTO_BUF buf path = BUF_INIT(1 << 16);
	glob *g = NULL;
	cb_error err;
	repeat(&pattern, piece, GLOB_PATTERN_MAX);
	repeat(&path, path_piece, 4095);
	CHECK_OK(buf_append_byte(&pattern, 0, &err));
	uint64_t before = now_ms();
	cb_code code = glob_compile((const char *)pattern.bytes, &g, &err);
	CHECK(code == CB_OK || code == CB_INVALID);
	bool yes = code == CB_OK && glob_match(g, buf_span(&path));
	if (code == CB_OK) glob_destroy(g);
	test_note("%s: %s, %s, %u ms", piece, cb_code_name(code), yes ? "matches" : "does not match",
	          (unsigned)(now_ms() - before));
}

TEST(hostile_patterns_end_in_time)
{
	time_match("*a", "a");
	time_match("*?", "a");
	time_match("**/a/", "a/");
	time_match("**/*a*/", "aaaaaaaa/");
	time_match("**/", "a/");
	time_match("{a,b}", "a");
	time_match("{a,", "a");
	time_match("[a-z]*", "a");
	AUTO_BUF buf pattern = BUF_INIT(1 << 16);
	glob *g = NULL;
	cb_error err;
	for (size_t i = 0; i < 2000; i++) CHECK_OK(buf_append_byte(&pattern, '{', &err));
	for (size_t i = 0; i < 2000; i++) CHECK_OK(buf_append_byte(&pattern, '}', &err));
	CHECK_OK(buf_append_byte(&pattern, 0, &err));
	if (glob_compile((const char *)pattern.bytes, &g, &err) == CB_OK) glob_destroy(g);
	buf_clear(&pattern);
	for (size_t i = 0; i < 1000; i++) CHECK_OK(buf_append_str(&pattern, "{a,", &err));
	for (size_t i = 0; i < 1000; i++) CHECK_OK(buf_append_byte(&pattern, '}', &err));
	CHECK_OK(buf_append_byte(&pattern, 0, &err));
	if (glob_compile((const char *)pattern.bytes, &g, &err) == CB_OK) glob_destroy(g);
}

TEST(alternatives_are_bounded)
{
	glob *g = NULL;
	cb_error err;
	CHECK_OK(glob_compile("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &g, &err)); /* 1,024 */
	CHECK(glob_match(g, span_str("abababbaab")));
	CHECK(!glob_match(g, span_str("abababbaac")));
	glob_destroy(g);
	CHECK_CODE(glob_compile("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &g, &err), CB_INVALID);
}

TEST(every_failing_allocation_is_reported)
{
	cb_error err;
	long n = 1;
	for (;; n++) {
		glob *g = NULL;
		mem_fail_after(n);
		cb_code code = glob_compile("src/**/[a-z]*.{c,h,{x,y}z}", &g, &err);
		mem_fail_after(0);
		glob_destroy(g);
		if (code == CB_OK) break;
		CHECK_CODE(code, CB_NOMEM);
		CHECK(n < 1000);
	}
	CHECK(n > 5);
}
