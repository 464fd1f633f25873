/* test_search.c: cb_grep and cb_find: every option, odd texts, hostile patterns, old states, open transactions. */
#include <cowbox/cowbox.h>

#include "base/buf.h"
#include "base/limits.h"
#include "harness/demo_box.h"

static cb_grep_count count;

/* "path:12:text" per match, "path-12-text" per context, "path" for a bare visit; matches as [start,end). */
static cb_code print_line(void *context, const cb_grep_line *l, cb_error *e)
{
	buf *out = context;
	if (l->line == 0) return buf_printf(out, e, "%s%s\n", l->path, l->binary ? " (binary)" : "");
	char mark = l->context ? '-' : ':';
	CB_TRY(buf_printf(out, e, "%s%c%llu%c", l->path, mark, (unsigned long long)l->line, mark));
	CB_TRY(buf_append(out, l->text, l->size, e));
	for (size_t i = 0; i < l->match_count; i++) CB_TRY(buf_printf(out, e, "[%zu,%zu)", l->matches[i].start, l->matches[i].end));
	return buf_append_byte(out, '\n', e);
}

static char *greps(cb_box *box, const char *path, const cb_grep_options *o)
{
	buf out = BUF_INIT(SIZE_MAX);
	char *text = NULL;
	count = CB_INIT(cb_grep_count);
	CHECK_OK(cb_grep(box, path, o, print_line, &out, &count, &err));
	CHECK_OK(buf_take(&out, &text, NULL, &err));
	return test_keep(text);
}

#define GREP(path, ...) greps(b, path, &CB_WITH(cb_grep_options, __VA_ARGS__))

TEST_BOTH(grep_options)
{
	begin(memory);
	must_write(b, "/work/a.txt", "one\nTwo two\nthree\nfour\nfive\n");
	must_write(b, "/work/b.c", "two_x two\n");
	CHECK_OK(cb_mkdir(b, "/work/sub", 0755, 0, &err));
	must_write(b, "/work/sub/c.txt", "a.c two");
	CHECK_STR(GREP("/work", .pattern = "two"),
	          "/work/a.txt:2:Two two[4,7)\n/work/b.c:1:two_x two[0,3)[6,9)\n/work/sub/c.txt:1:a.c two[4,7)\n");
	CHECK(count.files == 3 && count.matched_files == 3 && count.matched_lines == 3);
	CHECK_STR(GREP("/work/a.txt", .pattern = "two", .ignore_case = true), "/work/a.txt:2:Two two[0,3)[4,7)\n");
	CHECK_STR(GREP("/work/b.c", .pattern = "two", .word = true), "/work/b.c:1:two_x two[6,9)\n");
	CHECK_STR(GREP("/work", .pattern = "a.c", .fixed = true), "/work/sub/c.txt:1:a.c two[0,3)\n");
	CHECK_STR(GREP("/work/a.txt", .pattern = "o", .invert = true), "/work/a.txt:3:three\n/work/a.txt:5:five\n");
	CHECK_STR(GREP("/work", .pattern = "two", .names_only = true), "/work/a.txt\n/work/b.c\n/work/sub/c.txt\n");
	CHECK_STR(GREP("/work/a.txt", .pattern = "three", .before = 1, .after = 1),
	          "/work/a.txt-2-Two two\n/work/a.txt:3:three[0,5)\n/work/a.txt-4-four\n");
	CHECK_STR(GREP("/work/a.txt", .pattern = "^t|^f", .max_per_file = 2, .after = 5),
	          "/work/a.txt:3:three[0,1)\n/work/a.txt:4:four[0,1)\n/work/a.txt-5-five\n");
	CHECK_STR(GREP("/work/a.txt", .pattern = "one", .max_per_file = 1, .after = 2),
	          "/work/a.txt:1:one[0,3)\n/work/a.txt-2-Two two\n/work/a.txt-3-three\n");
	CHECK_STR(GREP("/work", .pattern = "two", .max_lines = 2), "/work/a.txt:2:Two two[4,7)\n/work/b.c:1:two_x two[0,3)[6,9)\n");
	CHECK_STR(GREP("/work/a.txt", .pattern = "^(one|three|four)$", .invert = true, .before = 1, .after = 1),
	          "/work/a.txt-1-one\n/work/a.txt:2:Two two\n/work/a.txt-3-three\n/work/a.txt-4-four\n/work/a.txt:5:five\n");
	CHECK_STR(GREP("/work", .pattern = "nothing"), "");
	CHECK(count.files == 3 && count.matched_files == 0);
	end();
}

TEST_BOTH(grep_scope)
{
	begin(memory);
	static const char *const files[] = {"/work/a.c",         "/work/a.h",       "/work/src/b.c",
	                                    "/work/src/gen/c.c", "/home/agent/x.c", "/tmp/y.c"};
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		CHECK_OK(cb_write_file(b, files[i], "x\n", 2, &CB_WITH(cb_write_options, .parents = true), &err));
	CHECK_OK(cb_symlink(b, "/work/src", "/work/link", &err));
	static const char *const c[] = {"*.c"}, *const below[] = {"src/**"}, *const root[] = {"/work/src/*.c"},
				 *const gen[] = {"gen"}, *const slash[] = {"src/"}, *const two[] = {"a.*", "gen/"};
	CHECK_STR(GREP("/", .pattern = "x", .names_only = true), "/work/a.c\n/work/a.h\n/work/src/b.c\n/work/src/gen/c.c\n");
	CHECK_STR(GREP("/", .pattern = "x", .names_only = true, .hidden_too = true, .include = c, .include_count = 1),
	          "/home/agent/x.c\n/tmp/y.c\n/work/a.c\n/work/src/b.c\n/work/src/gen/c.c\n");
	CHECK_STR(GREP("/tmp", .pattern = "x", .names_only = true), "/tmp/y.c\n");
	CHECK_STR(GREP("/work", .pattern = "x", .names_only = true, .include = below, .include_count = 1),
	          "/work/src/b.c\n/work/src/gen/c.c\n");
	CHECK_STR(GREP("/work", .pattern = "x", .names_only = true, .include = root, .include_count = 1), "/work/src/b.c\n");
	CHECK_STR(GREP("/work", .pattern = "x", .names_only = true, .exclude = gen, .exclude_count = 1),
	          "/work/a.c\n/work/a.h\n/work/src/b.c\n");
	CHECK_STR(GREP("/work", .pattern = "x", .names_only = true, .exclude = slash, .exclude_count = 1),
	          "/work/a.c\n/work/a.h\n");
	CHECK_STR(GREP("/work", .pattern = "x", .names_only = true, .exclude = two, .exclude_count = 2), "/work/src/b.c\n");
	/* A link is followed where it is the path that was given, and nowhere else. */
	CHECK_STR(GREP("/work/link", .pattern = "x", .names_only = true, .exclude = gen, .exclude_count = 1), "/work/link/b.c\n");
	CHECK_CODE(cb_grep(b, "/none", &CB_WITH(cb_grep_options, .pattern = "x"), print_line, NULL, NULL, &err), CB_NOTFOUND);
	static const char *const bad[] = {"["};
	CHECK_CODE(cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = "x", .include = bad, .include_count = 1), print_line, NULL,
	                   NULL, &err),
	           CB_INVALID);
	end();
}

TEST_BOTH(grep_odd_texts)
{
	begin(memory);
	must_write(b, "/work/empty", "");
	must_write(b, "/work/newline", "\n");
	must_write(b, "/work/crlf", "one\r\ntwo\r\n\r\n");
	must_write(b, "/work/utf", "na\xc3\xafve \xff caf\xc3\xa9\n");
	CHECK_OK(cb_write_file(b, "/work/bin", "ab\0needle\nzz", 12, NULL, &err));
	CHECK_STR(GREP("/work", .pattern = "^$"), "/work/crlf:3:\r\n/work/newline:1:\n");
	CHECK_STR(GREP("/work", .pattern = "two$"), "/work/crlf:2:two\r[0,3)\n");
	CHECK_STR(GREP("/work", .pattern = "(?s)two$"), "/work/crlf:2:two\r[0,3)\n");
	CHECK_STR(GREP("/work", .pattern = "two\\r$"), "/work/crlf:2:two\r[0,4)\n");
	CHECK_STR(GREP("/work", .pattern = "na.ve"), "/work/utf:1:na\xc3\xafve \xff caf\xc3\xa9[0,6)\n");
	CHECK_STR(GREP("/work", .pattern = "CAF\xc3\x89", .ignore_case = true),
	          "/work/utf:1:na\xc3\xafve \xff caf\xc3\xa9[9,14)\n");
	CHECK_STR(GREP("/work", .pattern = "caf", .word = true), "");
	CHECK_STR(GREP("/work", .pattern = "\xff", .fixed = true), "/work/utf:1:na\xc3\xafve \xff caf\xc3\xa9[7,8)\n");
	CHECK_STR(GREP("/work", .pattern = "needle"), "/work/bin (binary)\n");
	CHECK_STR(GREP("/work", .pattern = "needle", .names_only = true), "/work/bin (binary)\n");
	CHECK_STR(GREP("/work/crlf", .pattern = "x*"), "/work/crlf:1:one\r\n/work/crlf:2:two\r\n/work/crlf:3:\r\n");
	CHECK_STR(GREP("/work/crlf", .pattern = ""), "/work/crlf:1:one\r\n/work/crlf:2:two\r\n/work/crlf:3:\r\n");
	end();
}

/* Each construct that must not see past the end of its line. */
TEST(grep_nothing_crosses_lines)
{
	static const char *const patterns[] = {"a\\s+b",  "a[^x]b",      "a\\Wb",         "a\\Db",      "a[\\s]b",
	                                       "a\\nb",   "a(?=\\s)",    "a(?!$)",        "(?<=\\s)b",  "a\\Hb",
	                                       "a[\\n]b", "a[\\t-\\r]b", "a[[:space:]]b", "a(?s).b",    "a\\Rb",
	                                       "a\\x0ab", "a[^]]b",      "a[^-x]b",       "a(?:\\s|x)b"};
	begin(true);
	must_write(b, "/work/f", "a\nb\na\nb\n");
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) CHECK_MSG(*GREP("/work", .pattern = patterns[i]) == 0, "%s", patterns[i]);
	CHECK_STR(GREP("/work", .pattern = "^b$", .max_lines = 1), "/work/f:2:b[0,1)\n");
	CHECK_STR(GREP("/work", .pattern = "\\Ab\\z", .max_lines = 1), "/work/f:2:b[0,1)\n");
	CHECK_STR(GREP("/work", .pattern = "(?<!x)b(?!\\w)", .max_lines = 1), "/work/f:2:b[0,1)\n");
	CHECK_STR(GREP("/work", .pattern = "(?=b)x?b", .max_lines = 1), "/work/f:2:b[0,1)\n");
	end();
}

TEST(grep_refuses_bad_patterns)
{
	static const char *const bad[] = {"(",  "[a", "a)", "*", "(?<", "\\", "a{2,1}", "(*FOO)x", "x\ny", "(?P<n>a)(?P<n>b)",
	                                  "\\C"};
	begin(true);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cb_code code = cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = bad[i]), print_line, NULL, NULL, &err);
		CHECK_MSG(code == CB_INVALID, "%s: %s", bad[i], cb_code_name(code));
	}
	CHECK_CODE(cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = "ab("), print_line, NULL, NULL, &err), CB_INVALID);
	CHECK_STR(err.message, "pattern, character 4: missing closing parenthesis");
	CHECK_CODE(cb_grep(b, "/", &CB_INIT(cb_grep_options), print_line, NULL, NULL, &err), CB_INVALID);
	end();
}

TEST(grep_exploding_patterns_end)
{
	static const char *const patterns[] = {"(a+)+b", "(a|aa)+b", "(?s)(a*)*b", "((a*)*)*b|x"};
	static char line[60000];
	begin(true);
	memset(line, 'a', sizeof(line) - 1);
	memcpy(line, "ok\n", 3);
	must_write(b, "/work/f", line);
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		buf out = BUF_INIT(1 << 20);
		cb_code code = cb_grep(b, "/work", &CB_WITH(cb_grep_options, .pattern = patterns[i]), print_line, &out, NULL, &err);
		buf_done(&out);
		/* PCRE2 may see at once that there is no "b"; where it does not, the line is named. */
		CHECK_MSG(code == CB_LIMIT || code == CB_OK, "%s: %s", patterns[i], cb_code_name(code));
		if (code == CB_LIMIT)
			CHECK_STR(err.message,
			          "'/work/f', line 2: the pattern takes too much time or memory on this line: make it simpler");
	}
	line[sizeof(line) - 2] = 'b';
	line[sizeof(line) - 3] = 'x';
	must_write(b, "/work/f", line);
	CHECK_CODE(cb_grep(b, "/work", &CB_WITH(cb_grep_options, .pattern = "(a+)+b"), print_line, NULL, NULL, &err), CB_LIMIT);
	CHECK_STR(err.message, "'/work/f', line 2: the pattern takes too much time or memory on this line: make it simpler");
	end();
}

/* Files larger than a window: matches on both sides of its edge, context across it, numbers of lines, a line longer than it. */
TEST_BOTH(grep_large_files)
{
	begin(memory);
	size_t lines = (2 * LIMIT_GREP_WINDOW_BYTES) / 32 + 1000, size = lines * 32;
	char *text = malloc(size);
	CHECK(text);
	for (size_t i = 0; i < lines; i++) {
		(void)snprintf(text + i * 32, 32, "line %09zu %-16s", i + 1, i % 100000 == 99999 ? "needle" : "x");
		text[i * 32 + 31] = '\n';
	}
	size_t edge = LIMIT_GREP_WINDOW_BYTES / 32; /* line edge + 1 begins the second window */
	memcpy(text + edge * 32 + 15, "edge", 4);
	CHECK_OK(cb_write_file(b, "/work/big", text, size, NULL, &err));
	char *got = GREP("/work", .pattern = "edge", .before = 2, .after = 1), expected[256];
	(void)snprintf(expected, sizeof(expected), "/work/big-%zu-", edge - 1);
	CHECK_MSG(strncmp(got, expected, strlen(expected)) == 0, "%s", got);
	(void)snprintf(expected, sizeof(expected), "/work/big:%zu:line %09zu edge", edge + 1, edge + 1);
	CHECK_MSG(strstr(got, expected) != NULL, "%s", got);
	(void)GREP("/work", .pattern = "needle");
	CHECK_U64(count.matched_lines, lines / 100000);
	(void)GREP("/work", .pattern = "e [0-9]+ +n");
	CHECK_U64(count.matched_lines, lines / 100000);
	(void)GREP("/work", .pattern = "needle", .invert = true, .names_only = false, .max_per_file = lines);
	CHECK_U64(count.matched_lines, lines - lines / 100000);
	memset(text, 'y', size);
	memcpy(text + size - 7, "needle\n", 7);
	CHECK_OK(cb_write_file(b, "/work/big", text, size, NULL, &err));
	(void)GREP("/work", .pattern = "needle", .max_per_file = 1);
	CHECK_U64(count.matched_lines, 1);
	free(text);
	end();
}

TEST_BOTH(grep_sparse_files)
{
	begin(memory);
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/sparse", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_pwrite(f, "needle", 6, (uint64_t)1 << 40, &err));
	CHECK_OK(cb_ftruncate(f, (uint64_t)1 << 42, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(GREP("/work", .pattern = "needle"), "/work/sparse (binary)\n");
	CHECK_STR(GREP("/work", .pattern = "nothing"), "");
	end();
}

TEST_BOTH(grep_old_states_and_transactions)
{
	begin(memory);
	must_write(b, "/work/a", "before\n");
	must_write(b, "/work/a", "after\n");
	cb_box *old = must_open(s, "demo@1");
	CHECK_STR(greps(old, "/work", &CB_WITH(cb_grep_options, .pattern = "e")), "/work/a:1:before[1,2)[5,6)\n");
	cb_box_close(old);
	static char big[5000];
	memset(big, 'z', sizeof(big) - 1);
	cb_box *box = b;
	b = must_begin(box);
	must_write(b, "/work/b", big);
	must_write(b, "/work/c", "inside\n");
	CHECK_STR(GREP("/work", .pattern = "zz$", .names_only = true), "/work/b\n");
	CHECK_STR(GREP("/work", .pattern = "inside"), "/work/c:1:inside[0,6)\n");
	cb_box_close(b);
	b = box;
	CHECK_STR(GREP("/work", .pattern = "inside"), "");
	end();
}

static cb_code stop_at_once(void *context, const cb_grep_line *l, cb_error *e)
{
	(void)l;
	(void)e;
	++*(int *)context;
	return CB_INTERRUPTED;
}

static cb_code fail_at_once(void *context, const cb_grep_line *l, cb_error *e)
{
	(void)context;
	(void)l;
	return cb_err_set(e, CB_NOSPACE, "full");
}

static cb_code change_and_read(void *context, const cb_grep_line *l, cb_error *e)
{
	++*(int *)context;
	char *text = NULL;
	CB_TRY(cb_read_file(b, l->path, &text, NULL, e));
	cb_free(text);
	return cb_unlink(b, l->path, e);
}

TEST_BOTH(grep_visitors)
{
	begin(memory);
	must_write(b, "/work/a", "x\nx\n");
	must_write(b, "/work/b", "x\n");
	int calls = 0;
	CHECK_OK(cb_grep(b, "/work", &CB_WITH(cb_grep_options, .pattern = "x"), stop_at_once, &calls, NULL, &err));
	CHECK_U64(calls, 1);
	CHECK_CODE(cb_grep(b, "/work", &CB_WITH(cb_grep_options, .pattern = "x"), fail_at_once, NULL, NULL, &err), CB_NOSPACE);
	calls = 0;
	CHECK_OK(cb_grep(b, "/work", &CB_WITH(cb_grep_options, .pattern = "x", .names_only = true), change_and_read, &calls, NULL,
	                 &err));
	CHECK_U64(calls, 2);
	CHECK(!exists(b, "/work/a") && !exists(b, "/work/b"));
	end();
}

/* ---- find ---- */

static cb_code print_path(void *context, const char *path, const cb_stat_info *info, cb_error *e)
{
	(void)info;
	return buf_printf(context, e, "%s\n", path);
}

static char *finds(const char *path, const cb_find_options *o)
{
	buf out = BUF_INIT(SIZE_MAX);
	char *text = NULL;
	CHECK_OK(cb_find(b, path, o, print_path, &out, &err));
	CHECK_OK(buf_take(&out, &text, NULL, &err));
	return test_keep(text);
}
#define FIND(path, ...) finds(path, &CB_WITH(cb_find_options, __VA_ARGS__))

TEST_BOTH(find_options)
{
	begin(memory);
	CHECK_OK(cb_mkdir(b, "/work/dir/empty", 0755, CB_PARENTS, &err));
	must_write(b, "/work/A.txt", "12345");
	must_write(b, "/work/dir/b.txt", "1234567890");
	must_write(b, "/work/dir/nil", "");
	CHECK_OK(cb_symlink(b, "dir", "/work/link", &err));
	CHECK_OK(cb_tag_add(b, "/work/A.txt", "todo", &err));
	CHECK_OK(cb_meta_set(b, "/work/dir", "owner", "me", CB_STRING, &err));
	CHECK_OK(cb_utimens(b, "/work/A.txt", CB_TIME_OMIT, 1000, 0, &err));
	CHECK_STR(finds("/work", NULL),
	          "/work\n/work/A.txt\n/work/dir\n/work/dir/b.txt\n/work/dir/empty\n/work/dir/nil\n/work/link\n");
	CHECK_STR(FIND("/work", .name = "*.txt"), "/work/A.txt\n/work/dir/b.txt\n");
	CHECK_STR(FIND("/work", .name = "a.TXT"), "");
	CHECK_STR(FIND("/work", .name = "a.TXT", .ignore_case = true), "/work/A.txt\n");
	CHECK_STR(FIND("/", .path_glob = "/work/*/*.txt"), "/work/dir/b.txt\n");
	CHECK_STR(FIND("/work", .type = CB_DIR), "/work\n/work/dir\n/work/dir/empty\n");
	CHECK_STR(FIND("/work", .type = CB_SYMLINK), "/work/link\n");
	CHECK_STR(FIND("/work", .has_min_size = true, .min_size = 6), "/work/dir/b.txt\n");
	CHECK_STR(FIND("/work", .has_max_size = true, .max_size = 5, .type = CB_FILE), "/work/A.txt\n/work/dir/nil\n");
	CHECK_STR(FIND("/work", .has_min_size = true, .has_max_size = true, .min_size = 5, .max_size = 5), "/work/A.txt\n");
	CHECK_STR(FIND("/work", .older_ns = 1001), "/work/A.txt\n");
	CHECK_STR(FIND("/work", .newer_ns = 1000, .name = "*.txt"), "/work/dir/b.txt\n");
	CHECK_STR(FIND("/work", .tag = "todo"), "/work/A.txt\n");
	CHECK_STR(FIND("/", .meta = "owner"), "/work/dir\n");
	CHECK_STR(FIND("/", .meta = "owner", .meta_value = "me", .meta_value_size = CB_STRING), "/work/dir\n");
	CHECK_STR(FIND("/", .meta = "owner", .meta_value = "you", .meta_value_size = CB_STRING), "");
	CHECK_STR(FIND("/work", .max_depth = 1), "/work\n/work/A.txt\n/work/dir\n/work/link\n");
	CHECK_STR(FIND("/work", .empty = true), "/work/dir/empty\n/work/dir/nil\n");
	CHECK_STR(FIND("/work", .max_results = 2), "/work\n/work/A.txt\n");
	CHECK_STR(FIND("/work/A.txt", .type = CB_FILE), "/work/A.txt\n");
	CHECK_CODE(cb_find(b, "/work", &CB_WITH(cb_find_options, .name = "a/b"), print_path, NULL, &err), CB_INVALID);
	CHECK_CODE(cb_find(b, "/none", NULL, print_path, NULL, &err), CB_NOTFOUND);
	end();
}
