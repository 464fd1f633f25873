/* test_ignore.c: patterns of what to leave out, compared with git itself. */
#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/hosttrees.h"
#include "transfer/ignore.h"

static bool matches(const char *const *caller, size_t count, const char *text, const char *path, bool is_dir)
{
	cb_error err;
	ignore *g = NULL;
	CHECK_OK(ignore_create(caller, count, &g, &err));
	CHECK_OK(ignore_push(g, "", span_str(text), &err));
	bool out = ignore_match(g, path, is_dir, false);
	ignore_destroy(g);
	return out;
}

static bool one(const char *text, const char *path, bool is_dir)
{
	return matches(NULL, 0, text, path, is_dir);
}

TEST(patterns)
{
	CHECK(one("*.o", "a/b.o", false) && !one("*.o", "a/b.c", false));
	CHECK(one("/b.o", "b.o", false) && !one("/b.o", "a/b.o", false));
	CHECK(one("build/", "x/build", true) && !one("build/", "build", false));
	CHECK(one("a/**/b", "a/b", false) && one("a/**/b", "a/x/y/b", false) && !one("a/**/b", "a/xb", false));
	CHECK(one("**/foo", "foo", false) && one("foo/**", "foo/x", false) && !one("foo/**", "foo", true));
	CHECK(one("*.log\n!keep.log", "x.log", false) && !one("*.log\n!keep.log", "keep.log", false));
	CHECK(one("\\#x", "#x", false) && !one("#x", "#x", false) && one("\\!x", "!x", false));
	CHECK(one("x  ", "x", false) && one("x\\ ", "x ", false) && one("x\r\n", "x", false));
	CHECK(one("[a-c]x", "bx", false) && !one("[!a-c]x", "bx", false) && one("[[:digit:]]", "7", false));
	CHECK(!one("[a", "a", false) && !one("a\\", "a", false));
	const char *const caller[] = {"!x.log"};
	CHECK(!matches(caller, 1, "*.log", "x.log", false) && matches(caller, 1, "*.log", "y.log", false));
}

TEST(time_is_bounded)
{
	char text[4000], path[4000];
	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < sizeof(text) - 1; i += 2) text[i] = '*';
	text[sizeof(text) - 2] = 'c';
	text[sizeof(text) - 1] = 0;
	memset(path, 'a', sizeof(path));
	path[sizeof(path) - 2] = 'b';
	path[sizeof(path) - 1] = 0;
	for (int i = 0; i < 10; i++) CHECK(!one(text, path, false));
}

/* ---- against git ---- */

static void random_pattern(test_rng *r, buf *out)
{
	static const char *const parts[] = {"a",   "b", "ab", "*", "**",  "?", "/",      "/",   "[ab]", "[!a]", "\\a",
	                                    "\\*", "!", "#",  " ", "*.c", ".", "[a-b]*", "**/", "/**",  "[",    "\\"};
	size_t n = 1 + test_rand_below(r, 5);
	for (size_t i = 0; i < n; i++)
		CHECK(buf_append_str(out, parts[test_rand_below(r, sizeof(parts) / sizeof(parts[0]))], NULL) == CB_OK);
	CHECK(buf_append_byte(out, '\n', NULL) == CB_OK);
}

static const char *const folders[] = {"", "a/", "b/", "ab/", "a/b/", "a/a/", "b/ab/"};
static const char *const names[] = {"a", "b", "ab", "a.c", "#", "!", "*", "b a", "ba"};

/* What git ignores of the paths in `list`, one a line. */
static char *ask_git(const char *folder)
{
	host_shell("cd '%s' && git check-ignore --no-index --stdin <../list >../answer; test $? -le 1", folder);
	FILE *f = fopen(host_text("%s/../answer", folder), "r");
	char *text = test_keep(calloc(1, 1 << 20));
	CHECK(f && fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
	(void)fclose(f);
	return text;
}

static bool is_listed(const char *answer, const char *path)
{
	size_t size = strlen(path);
	for (const char *at = answer; (at = strstr(at, path)) != NULL; at++)
		if ((at == answer || at[-1] == '\n') && at[size] == '\n') return true;
	return false;
}

/* As a walk asks: folders on the way first; texts[i] is the .gitignore of folders[i]. */
static bool walk_ignores(char *const *texts, const char *path)
{
	cb_error err;
	ignore *g = NULL;
	bool out = false;
	CHECK_OK(ignore_create(NULL, 0, &g, &err));
	char part[64];
	size_t pushed = 0;
	for (size_t i = 0; !out; i++) {
		if (i == 0 || path[i - 1] == '/') {
			(void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
			for (size_t k = 0; k < 7; k++)
				if (strcmp(folders[k], part) == 0) {
					if (i) part[i - 1] = 0;
					CHECK_OK(ignore_push(g, part, span_str(texts[k]), &err));
					pushed++;
				}
		}
		if (path[i] == '/') {
			(void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
			out = ignore_match(g, part, true, false);
		}
		if (path[i] == 0) {
			out = out || ignore_match(g, path, false, false);
			break;
		}
	}
	CHECK(pushed > 0);
	ignore_destroy(g);
	return out;
}

TEST_LIMIT(as_git_does, 240)
{
	if (system("git --version >/dev/null 2>&1") != 0) test_skip("git is not there");
	test_rng r = {test_seed()};
	const char *f = host_text("%s/repo", test_tmpdir());
	host_shell("mkdir -p '%s' && cd '%s' && git init -q . && mkdir -p a/b a/a b/ab ab", f, f);
	FILE *list = fopen(host_text("%s/list", test_tmpdir()), "w");
	for (size_t i = 0; i < 7; i++)
		for (size_t k = 0; k < 9; k++) {
			const char *path = host_text("%s%s", folders[i], names[k]);
			struct stat s;
			if (stat(host_text("%s/%s", f, path), &s) == 0) continue; /* a folder */
			host_write(host_text("%s/%s", f, path), "", 0);
			(void)fprintf(list, "%s\n", path);
		}
	CHECK(fclose(list) == 0);
	for (unsigned round = 0; round < 60 * test_soak(); round++) {
		char *texts[7];
		for (size_t i = 0; i < 7; i++) {
			AUTO_BUF buf text = BUF_INIT(4096);
			for (size_t n = test_rand_below(&r, i == 0 ? 4 : 2); n > 0; n--) random_pattern(&r, &text);
			CHECK(buf_append_byte(&text, 0, NULL) == CB_OK);
			texts[i] = test_keep(strdup((const char *)text.bytes));
			host_write(host_text("%s/%s.gitignore", f, folders[i]), texts[i], strlen(texts[i]));
		}
		const char *answer = ask_git(f);
		for (size_t i = 0; i < 7; i++)
			for (size_t k = 0; k < 9; k++) {
				const char *path = host_text("%s%s", folders[i], names[k]);
				struct stat s;
				if (stat(host_text("%s/%s", f, path), &s) == 0 && S_ISDIR(s.st_mode)) continue;
				bool expected = is_listed(answer, path);
				CHECK_MSG(walk_ignores(texts, path) == expected,
				          "'%s' is %signored by git; root '%s' a/ '%s' b/ '%s' ab/ '%s' a/b/ '%s' a/a/ '%s' b/ab/ "
				          "'%s'",
				          path, expected ? "" : "not ", texts[0], texts[1], texts[2], texts[3], texts[4], texts[5],
				          texts[6]);
			}
	}
}
