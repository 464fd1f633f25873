/* test_edit.c: cb_edit: exact text, counts, messages that help, versions, all or nothing; against a model at random. */
#include "base/buf.h"
#include "base/limits.h"
#include "harness/demo_box.h"

static cb_code edit(const char *path, const char *old_text, const char *new_text, const cb_edit_options *o, uint64_t *out)
{
	cb_replacement r = {old_text, strlen(old_text), new_text, strlen(new_text)};
	return cb_edit(b, path, &r, 1, o, out, &err);
}

TEST_BOTH(once_all_expect)
{
	begin(memory);
	must_write(b, "/work/a", "one two two three\n");
	uint64_t n = 0;
	CHECK_OK(edit("/work/a", "one", "1", NULL, &n));
	CHECK_U64(n, 1);
	CHECK_STR(must_read(b, "/work/a"), "1 two two three\n");
	CHECK_CODE(edit("/work/a", "two", "2", NULL, NULL), CB_CONFLICT);
	CHECK_OK(edit("/work/a", "two", "2", &CB_WITH(cb_edit_options, .expect = 2), &n));
	CHECK_U64(n, 2);
	CHECK_OK(edit("/work/a", "2", "two", &CB_WITH(cb_edit_options, .all = true), &n));
	CHECK_U64(n, 2);
	/* All of exactly so many: what is said of the number holds, and nobody is told to do what he did. */
	CHECK_CODE(edit("/work/a", "two", "2", &CB_WITH(cb_edit_options, .all = true, .expect = 3), NULL), CB_CONFLICT);
	CHECK(strstr(err.message, "2 times (lines 1, 1), not 3: look again") != NULL);
	CHECK_CODE(edit("/work/a", "two", "2", &CB_WITH(cb_edit_options, .all = true, .expect = 1), NULL), CB_CONFLICT);
	CHECK(strstr(err.message, "2 times (lines 1, 1), not 1: look again") != NULL);
	CHECK_STR(must_read(b, "/work/a"), "1 two two three\n");
	CHECK_OK(edit("/work/a", "two", "2", &CB_WITH(cb_edit_options, .all = true, .expect = 2), &n));
	CHECK_U64(n, 2);
	CHECK_OK(edit("/work/a", "2", "two", &CB_WITH(cb_edit_options, .all = true), NULL));
	CHECK_CODE(edit("/work/a", "nothing", "", &CB_WITH(cb_edit_options, .all = true), NULL), CB_NOTFOUND);
	CHECK_OK(edit("/work/a", "1 two two three\n", "", NULL, &n));
	CHECK_STR(must_read(b, "/work/a"), "");
	end();
}

TEST_BOTH(one_step_of_its_kind)
{
	begin(memory);
	must_write(b, "/work/a", "abc");
	CHECK_OK(cb_chmod(b, "/work/a", 0751, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", "y", 1, 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/a", "t", &err));
	uint64_t seq = must_seq(b), version = must_version(b, "/work/a");
	cb_replacement r[] = {{"a", 1, "bb", 2}, {"bbb", 3, "x\0y", 3}};
	uint64_t n = 0;
	CHECK_OK(cb_edit(b, "/work/a", r, 2, NULL, &n, &err));
	CHECK_U64(n, 2);
	CHECK_U64(must_seq(b), seq + 1);
	CHECK(must_version(b, "/work/a") > version);
	char *text = NULL;
	size_t size = 0;
	CHECK_OK(cb_read_file(b, "/work/a", &text, &size, &err));
	CHECK(size == 4 && memcmp(text, "x\0yc", 4) == 0);
	cb_free(text);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/a", 0, &info, &err));
	CHECK_U64(info.mode, 0751);
	CHECK_OK(cb_xattr_get(b, "/work/a", "user.x", 0, &text, &size, &err));
	cb_free(text);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "abc");
	end();
}

static cb_code check_kind(void *context, const cb_step *step, cb_error *e)
{
	(void)context;
	(void)e;
	CHECK_STR(step->kind, "edit");
	CHECK_STR(step->params, "/work/a");
	return CB_OK;
}

TEST_BOTH(failures_change_nothing)
{
	begin(memory);
	must_write(b, "/work/a", "abc");
	uint64_t seq = must_seq(b), version = must_version(b, "/work/a");
	cb_replacement r[] = {{"a", 1, "b", 1}, {"zzz", 3, "x", 1}};
	CHECK_CODE(cb_edit(b, "/work/a", r, 2, NULL, NULL, &err), CB_NOTFOUND);
	CHECK_STR(err.message, "'/work/a', replacement 2 of 2: the old text is not there: read the file again");
	CHECK_CODE(cb_edit(b, "/work/a", r, 0, NULL, NULL, &err), CB_INVALID);
	CHECK_CODE(edit("/work/a", "", "x", NULL, NULL), CB_INVALID);
	CHECK_CODE(edit("/work/a", "a", "a", NULL, NULL), CB_INVALID);
	CHECK_CODE(edit("/work/none", "a", "b", NULL, NULL), CB_NOTFOUND);
	CHECK_CODE(edit("/work", "a", "b", NULL, NULL), CB_ISDIR);
	CHECK_CODE(edit("/work/a", "a", "b", &CB_WITH(cb_edit_options, .expected_version = version + 1), NULL), CB_VERSION);
	CHECK_U64(must_seq(b), seq);
	CHECK_STR(must_read(b, "/work/a"), "abc");
	CHECK_OK(edit("/work/a", "a", "b", &CB_WITH(cb_edit_options, .expected_version = version), NULL));
	CHECK_OK(cb_step_get(b, must_seq(b), check_kind, NULL, &err));
	cb_box *old = must_open(s, "demo@1");
	CHECK_CODE(cb_edit(old, "/work/a", r, 1, NULL, NULL, &err), CB_READONLY);
	cb_box_close(old);
	end();
}

typedef struct hint_case {
	const char *text, *old_text, *message;
} hint_case;

TEST(messages_help)
{
	static const hint_case cases[] = {
		{"a\n\tif (x)\n\t\treturn;\n", "    if (x)\n        return;\n",
	         "'/work/a': the old text is not there: line 2 differs only in whitespace"},
		{"int a;\nint b;\n", "int a;\nint  b;\n",
	         "'/work/a': the old text is not there: line 2 differs only in whitespace"},
		{"foo(a,b)\n", "foo(a, b)", "'/work/a': the old text is not there: line 1 differs only in whitespace"},
		{"one\r\ntwo\r\n", "one\ntwo\n", "'/work/a': the old text is not there: line 1 differs only in whitespace"},
		{"x\nHello\n", "hello", "'/work/a': the old text is not there: line 2 differs only in upper and lower case"},
		{"a\nb\nc\n", "a\nb\nd\n", "'/work/a': the old text is not there: its first lines are, but line 3 differs"},
		{"a\n", "q", "'/work/a': the old text is not there: read the file again"},
		{"", "q", "'/work/a': the old text is not there: read the file again"},
		{"a\n", "   ", "'/work/a': the old text is not there: read the file again"},
	};
	begin(true);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		must_write(b, "/work/a", cases[i].text);
		CHECK_CODE(edit("/work/a", cases[i].old_text, "new", NULL, NULL), CB_NOTFOUND);
		CHECK_STR(err.message, cases[i].message);
	}
	must_write(b, "/work/a", "x\ny x\n\nx\nx x x\n");
	CHECK_CODE(edit("/work/a", "x", "z", NULL, NULL), CB_CONFLICT);
	CHECK_STR(err.message,
	          "'/work/a': the old text is there 6 times (lines 1, 2, 4, 5, 5, ...), not 1: quote more of what is around it, "
	          "or replace all");
	CHECK_CODE(edit("/work/a", "y", "z", &CB_WITH(cb_edit_options, .expect = 2), NULL), CB_CONFLICT);
	CHECK_STR(err.message, "'/work/a': the old text is there 1 time (line 2), not 2: look again how many are meant");
	end();
}

TEST_BOTH(inside_transactions_and_beside_others)
{
	begin(memory);
	must_write(b, "/work/a", "one");
	must_write(b, "/work/b", "two");
	cb_box *other = must_open(s, "demo");
	cb_box *box = b;
	b = must_begin(box);
	CHECK_OK(edit("/work/a", "one", "1", NULL, NULL));
	CHECK_CODE(edit("/work/a", "one", "2", NULL, NULL), CB_NOTFOUND);
	cb_replacement r = {"two", 3, "2", 1};
	CHECK_OK(cb_edit(other, "/work/b", &r, 1, NULL, NULL, &err));
	(void)must_commit(b);
	b = box;
	CHECK_STR(must_read(b, "/work/a"), "1");
	CHECK_STR(must_read(b, "/work/b"), "2");
	cb_box_close(other);
	end();
}

TEST_BOTH(large_files_and_the_limit)
{
	begin(memory);
	size_t size = 3 << 20;
	char *text = malloc(size), *back = NULL;
	size_t n = 0;
	CHECK(text);
	memset(text, 'x', size);
	memcpy(text + (2 << 20), "needle", 6);
	CHECK_OK(cb_write_file(b, "/work/big", text, size, NULL, &err));
	CHECK_OK(edit("/work/big", "needle", "NEEDLE", NULL, NULL));
	memcpy(text + (2 << 20), "NEEDLE", 6);
	CHECK_OK(cb_read_file(b, "/work/big", &back, &n, &err));
	CHECK(n == size && memcmp(back, text, n) == 0);
	cb_free(back);
	CHECK_OK(edit("/work/big", "NEEDLE", "a longer text", NULL, NULL));
	CHECK_OK(cb_read_file(b, "/work/big", &back, &n, &err));
	CHECK(n == size + 7 && memcmp(back + (2 << 20), "a longer textxxx", 16) == 0 && back[n - 1] == 'x');
	cb_free(back);
	free(text);
	CHECK_OK(cb_truncate(b, "/work/big", LIMIT_EDIT_BYTES + 1, &err));
	CHECK_CODE(edit("/work/big", "longer", "x", NULL, NULL), CB_TOOBIG);
	end();
}

/* The same edits on strings in memory. */
static bool model_edit(buf *text, span old_text, span new_text, bool all)
{
	AUTO_BUF buf out = BUF_INIT(SIZE_MAX);
	size_t found = 0;
	for (size_t i = 0; i < text->size;) {
		bool here = text->size - i >= old_text.size && memcmp(text->bytes + i, old_text.bytes, old_text.size) == 0;
		CHECK_OK(here ? buf_append(&out, new_text.bytes, new_text.size, &err)
		              : buf_append_byte(&out, text->bytes[i], &err));
		i += here ? old_text.size : 1;
		found += here;
	}
	if (found == 0 || (!all && found != 1)) return false;
	buf_clear(text);
	CHECK_OK(buf_append(text, out.bytes, out.size, &err));
	return true;
}

TEST(random_edits_follow_a_model)
{
	test_rng rng = {test_seed() | 1};
	begin(true);
	for (unsigned round = 0; round < 300 * test_soak(); round++) {
		AUTO_BUF buf text = BUF_INIT(SIZE_MAX);
		size_t size = test_rand_below(&rng, 60);
		for (size_t i = 0; i < size; i++) CHECK_OK(buf_append_byte(&text, "ab \n\0"[test_rand_below(&rng, 5)], &err));
		CHECK_OK(cb_write_file(b, "/work/f", text.bytes ? (const char *)text.bytes : "", text.size, NULL, &err));
		for (unsigned k = 0; k < 4; k++) {
			char from[4], to[4];
			size_t from_size = 1 + test_rand_below(&rng, 4), to_size = test_rand_below(&rng, 5);
			for (size_t i = 0; i < 4; i++) {
				from[i] = "ab \n\0"[test_rand_below(&rng, 5)];
				to[i] = "abc \n"[test_rand_below(&rng, 5)];
			}
			bool all = test_rand_below(&rng, 2), same = from_size == to_size && memcmp(from, to, to_size) == 0;
			cb_replacement r = {from, from_size, to, to_size};
			cb_code code = cb_edit(b, "/work/f", &r, 1, &CB_WITH(cb_edit_options, .all = all), NULL, &err);
			bool expected = !same && model_edit(&text, span_make(from, from_size), span_make(to, to_size), all);
			CHECK_MSG((code == CB_OK) == expected, "%s", cb_code_name(code));
			char *back = NULL;
			size_t n = 0;
			CHECK_OK(cb_read_file(b, "/work/f", &back, &n, &err));
			CHECK(span_equal(span_make(back, n), buf_span(&text)));
			cb_free(back);
		}
	}
	end();
}
