/* test_text.c: line differences, unified hunks, merges and blame on texts written out by hand, hostile sizes, and failing memory.
 * */
#include <time.h>

#include "base/hash.h"
#include "base/limits.h"
#include "box/text.h"
#include "harness/harness.h"

enum { TEXT_MAX = 64 << 20 };

static void check_unified(const char *old_text, const char *new_text, unsigned context, const char *expected)
{
	AUTO_BUF buf out = BUF_INIT(TEXT_MAX);
	cb_error err;
	CHECK_OK(text_unified(span_str(old_text), span_str(new_text), context, &out, &err));
	CHECK_OK(buf_append_byte(&out, 0, &err));
	CHECK_STR((const char *)out.bytes, expected);
}

TEST(binary_is_a_nul_near_the_start)
{
	char bytes[9000];
	memset(bytes, 'a', sizeof(bytes));
	CHECK(!text_is_binary(span_make(NULL, 0)));
	CHECK(!text_is_binary(span_make(bytes, sizeof(bytes))));
	bytes[8000] = 0;
	CHECK(!text_is_binary(span_make(bytes, sizeof(bytes))));
	bytes[7999] = 0;
	CHECK(text_is_binary(span_make(bytes, sizeof(bytes))));
	CHECK(!text_is_binary(span_make(bytes, 7999)));
}

TEST(lines_are_counted_with_the_unfinished_one)
{
	static const struct {
		const char *text;
		size_t count, last;
	} cases[] = {{"", 0, 0}, {"\n", 1, 0}, {"a", 1, 0}, {"a\n", 1, 0}, {"a\nb", 2, 2}, {"a\n\n", 2, 2}, {"a\r\nb\r\n", 2, 3}};
	cb_error err;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t *starts = NULL, count = 99;
		CHECK_OK(text_lines(span_str(cases[i].text), &starts, &count, &err));
		CHECK_U64(count, cases[i].count);
		if (count > 0) CHECK_U64(starts[count - 1], cases[i].last);
		free(starts);
	}
}

TEST(equal_texts_have_no_hunks)
{
	cb_error err;
	text_hunk *hunks = NULL;
	size_t count = 99;
	CHECK_OK(text_diff(span_make(NULL, 0), span_make(NULL, 0), &hunks, &count, &err));
	CHECK_U64(count, 0);
	free(hunks);
	CHECK_OK(text_diff(span_str("a\nb\n"), span_str("a\nb\n"), &hunks, &count, &err));
	CHECK_U64(count, 0);
	free(hunks);
	check_unified("a\nb", "a\nb", 3, "");
}

TEST(one_hunk_is_found)
{
	cb_error err;
	text_hunk *hunks = NULL;
	size_t count = 0;
	CHECK_OK(text_diff(span_str("a\nb\nc\nd\n"), span_str("a\nx\ny\nd\n"), &hunks, &count, &err));
	CHECK_U64(count, 1);
	CHECK(hunks[0].old_start == 1 && hunks[0].old_count == 2 && hunks[0].new_start == 1 && hunks[0].new_count == 2);
	free(hunks);
}

TEST(hunk_headers_are_those_of_diff)
{
	check_unified("", "a\nb\n", 3, "@@ -0,0 +1,2 @@\n+a\n+b\n");
	check_unified("a\n", "", 3, "@@ -1 +0,0 @@\n-a\n");
	check_unified("a\n", "b\n", 3, "@@ -1 +1 @@\n-a\n+b\n");
	check_unified("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nx\n6\n", 0, "@@ -5 +5 @@\n-5\n+x\n");
	check_unified("1\n2\n3\n", "1\n3\n", 0, "@@ -2 +1,0 @@\n-2\n");
	check_unified("1\n2\n3\n4\n5\n", "1\n2\n3\n4\nx\n5\n", 1, "@@ -4,2 +4,3 @@\n 4\n+x\n 5\n");
}

TEST(near_changes_share_a_hunk)
{
	const char *old_text = "a\n1\n2\n3\n4\n5\n6\nb\n";
	check_unified(old_text, "A\n1\n2\n3\n4\n5\n6\nB\n", 3, "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
	check_unified(old_text, "A\n1\n2\n3\n4\n5\n6\nB\n", 2,
	              "@@ -1,3 +1,3 @@\n-a\n+A\n 1\n 2\n@@ -6,3 +6,3 @@\n 5\n 6\n-b\n+B\n");
	check_unified("a\n1\nb\n", "A\n1\nB\n", 4000000000u, "@@ -1,3 +1,3 @@\n-a\n+A\n 1\n-b\n+B\n");
}

TEST(a_missing_final_newline_is_shown)
{
	check_unified("a", "a\n", 3, "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	check_unified("a\nb", "x\nb", 3, "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n");
	check_unified("a\r\n", "a\n", 3, "@@ -1 +1 @@\n-a\r\n+a\n");
}

TEST(a_run_slides_to_the_end_of_its_block)
{
	check_unified("f() {\n}\n", "f() {\n}\nf() {\n}\n", 0, "@@ -2,0 +3,2 @@\n+f() {\n+}\n");
	check_unified("a\na\nb\n", "a\na\na\nb\n", 0, "@@ -2,0 +3 @@\n+a\n");
}

static void check_merge(const char *base, const char *ours, const char *theirs, size_t conflicts, const char *expected)
{
	AUTO_BUF buf out = BUF_INIT(TEXT_MAX);
	cb_error err;
	size_t found = 99;
	CHECK_OK(text_merge3(span_str(base), span_str(ours), span_str(theirs), "ours", "theirs", &out, &found, &err));
	CHECK_OK(buf_append_byte(&out, 0, &err));
	CHECK_STR((const char *)out.bytes, expected);
	CHECK_U64(found, conflicts);
}

TEST(merge_takes_what_one_side_changed)
{
	check_merge("", "", "", 0, "");
	check_merge("a\n", "a\n", "b\n", 0, "b\n");
	check_merge("a\n", "b\n", "a\n", 0, "b\n");
	check_merge("a\n", "b\n", "b\n", 0, "b\n");
	check_merge("1\n2\n3\n", "x\n2\n3\n", "1\n2\ny\n", 0, "x\n2\ny\n");
	check_merge("1\n2\n3\n4\n", "2\n3\n4\n", "1\n2\n3\n4\n5\n", 0, "2\n3\n4\n5\n");
	check_merge("1\n2\n3", "0\n1\n2\n3", "1\n2\n3\n", 0, "0\n1\n2\n3\n");
}

TEST(merge_marks_what_both_changed)
{
	check_merge("1\n", "a\n", "b\n", 1, "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n");
	check_merge("1\n2\n", "a\n2\n", "1\nb\n", 1, "<<<<<<< ours\na\n2\n=======\n1\nb\n>>>>>>> theirs\n");
	check_merge("", "a\nx\n", "a\ny\n", 1, "a\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n");
	check_merge("1\n", "a", "b", 1, "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n");
	check_merge("0\r\n1\r\n", "0\r\na\r\n", "0\r\nb", 1, "0\r\n<<<<<<< ours\r\na\r\n=======\r\nb\r\n>>>>>>> theirs\r\n");
}

TEST(a_long_change_meets_several_short_ones)
{
	/* Ours rewrites what theirs shortened before changing more behind it: places computed from theirs' next change lie before
	 * the text. */
	check_merge("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "X\n8\n9\n", "1\n7\n8\nY\n", 1,
	            "<<<<<<< ours\nX\n=======\n1\n7\n>>>>>>> theirs\n8\nY\n");
}

TEST(merge_labels_may_be_absent)
{
	AUTO_BUF buf out = BUF_INIT(TEXT_MAX);
	cb_error err;
	size_t conflicts = 0;
	CHECK_OK(text_merge3(span_str("1\n"), span_str("a\n"), span_str("b\n"), NULL, NULL, &out, &conflicts, &err));
	CHECK(span_equal(buf_span(&out), span_str("<<<<<<<\na\n=======\nb\n>>>>>>>\n")));
}

TEST(blame_carries_origins)
{
	static const uint64_t origins[] = {7, 8, 9};
	uint64_t *out = NULL;
	size_t count = 0;
	cb_error err;
	CHECK_OK(text_blame_step(origins, 3, span_str("a\nb\nc\n"), span_str("x\na\nc\ny"), 10, &out, &count, &err));
	CHECK_U64(count, 4);
	CHECK(out[0] == 10 && out[1] == 7 && out[2] == 9 && out[3] == 10);
	free(out);
	CHECK_OK(text_blame_step(NULL, 0, span_str(""), span_str("a\n"), 1, &out, &count, &err));
	CHECK(count == 1 && out[0] == 1);
	free(out);
	CHECK_OK(text_blame_step(origins, 3, span_str("a\nb\nc\n"), span_str(""), 1, &out, &count, &err));
	CHECK_U64(count, 0);
	free(out);
	CHECK_CODE(text_blame_step(origins, 2, span_str("a\nb\nc\n"), span_str(""), 1, &out, &count, &err), CB_INVALID);
}

TEST(a_buffer_that_is_full_is_left_as_it_was)
{
	AUTO_BUF buf out = BUF_INIT(20);
	cb_error err;
	size_t conflicts = 99;
	CHECK_OK(buf_append_str(&out, "kept", &err));
	CHECK_CODE(text_unified(span_str("a\nb\nc\n"), span_str("a\nx\nc\n"), 3, &out, &err), CB_LIMIT);
	CHECK_U64(out.size, 4);
	CHECK_CODE(text_merge3(span_str("1\n"), span_str("a\n"), span_str("b\n"), "l", "r", &out, &conflicts, &err), CB_LIMIT);
	CHECK_U64(out.size, 4);
	CHECK_U64(conflicts, 99);
}

TEST(a_text_above_the_limit_is_refused)
{
	char *big = calloc(1, LIMIT_DIFF_TEXT_BYTES + 1);
	text_hunk *hunks = NULL;
	size_t count = 0;
	cb_error err;
	CHECK(big != NULL);
	CHECK_CODE(text_diff(span_make(big, LIMIT_DIFF_TEXT_BYTES + 1), span_str(""), &hunks, &count, &err), CB_TOOBIG);
	CHECK_OK(text_diff(span_make(big, LIMIT_DIFF_TEXT_BYTES), span_str("a"), &hunks, &count, &err));
	CHECK_U64(count, 1);
	free(hunks);
	free(big);
}

/* ---- hostile ---- */

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Makes hunks of the pair and notes the time; the harness' limit is the assertion. */
static void time_diff(const char *what, span a, span b)
{
	text_hunk *hunks = NULL;
	size_t count = 0;
	cb_error err;
	uint64_t before = now_ms();
	CHECK_OK(text_diff(a, b, &hunks, &count, &err));
	test_note("%s: %zu hunks, %u ms", what, count, (unsigned)(now_ms() - before));
	free(hunks);
}

static buf lines_of_random_letters(test_rng *r, size_t bytes, unsigned letters)
{
	buf b = BUF_INIT(TEXT_MAX);
	for (size_t i = 0; i < bytes / 2; i++) {
		char line[2] = {(char)('a' + test_rand_below(r, letters)), '\n'};
		CHECK(buf_append(&b, line, 2, NULL) == CB_OK);
	}
	return b;
}

/* What costs is the steps, not the size: a quarter of the limit reaches every bound; the whole of it is for long runs, and less is enough
 * where only the seed changes. */
static size_t hostile_bytes(void)
{
	return test_soak() > 1 ? LIMIT_DIFF_TEXT_BYTES : LIMIT_DIFF_TEXT_BYTES / (test_only_random() ? 256 : 4);
}

TEST(unrelated_texts_of_few_lines_end_in_time)
{
	test_rng r = {test_seed()};
	AUTO_BUF buf a = lines_of_random_letters(&r, hostile_bytes(), 2);
	AUTO_BUF buf b = lines_of_random_letters(&r, hostile_bytes(), 2);
	time_diff("two lines", buf_span(&a), buf_span(&b));
	AUTO_BUF buf c = lines_of_random_letters(&r, hostile_bytes(), 20);
	AUTO_BUF buf d = lines_of_random_letters(&r, hostile_bytes(), 20);
	time_diff("twenty lines", buf_span(&c), buf_span(&d));
	AUTO_BUF buf e = lines_of_random_letters(&r, hostile_bytes(), 1);
	time_diff("sliding runs", buf_span(&e), buf_span(&a));
	time_diff("sliding runs back", buf_span(&a), buf_span(&e));
}

TEST(newlines_only_end_in_time)
{
	AUTO_BUF buf a = BUF_INIT(TEXT_MAX);
	uint8_t *bytes = NULL;
	CHECK(buf_extend(&a, hostile_bytes(), &bytes, NULL) == CB_OK);
	memset(bytes, '\n', hostile_bytes());
	time_diff("newlines", buf_span(&a), span_make(bytes, hostile_bytes() - 1000));
	time_diff("newlines against one", buf_span(&a), span_make(bytes, 1));
}

enum { COLLIDING_BYTES = 32 };

/* The first eight bytes are chosen so that XXH3 multiplies the second eight by zero: they do not reach the hash. */
static void colliding_line(uint64_t number, char line[COLLIDING_BYTES])
{
	static const uint8_t blind[8] = {0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe};
	memset(line, 'x', COLLIDING_BYTES);
	memcpy(line, blind, sizeof(blind));
	for (size_t i = 0; i < 4; i++) line[8 + i] = (char)('A' + ((number >> (5 * i)) & 31));
	line[COLLIDING_BYTES - 1] = '\n';
}

TEST(colliding_lines_do_collide)
{
	char a[COLLIDING_BYTES], b[COLLIDING_BYTES];
	colliding_line(1, a);
	colliding_line(2, b);
	CHECK(memcmp(a, b, sizeof(a)) != 0);
	CHECK_U64(hash64(a, sizeof(a)), hash64(b, sizeof(b)));
}

TEST(colliding_lines_end_in_time)
{
	AUTO_BUF buf a = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf b = BUF_INIT(TEXT_MAX);
	for (uint64_t i = 0; i < 400000; i++) {
		char line[COLLIDING_BYTES];
		colliding_line(i, line);
		CHECK(buf_append(&a, line, sizeof(line), NULL) == CB_OK);
		if (i % 1000 != 0) CHECK(buf_append(&b, line, sizeof(line), NULL) == CB_OK);
	}
	text_hunk *hunks = NULL;
	size_t count = 0;
	cb_error err;
	CHECK_OK(text_diff(buf_span(&a), buf_span(&b), &hunks, &count, &err));
	CHECK_U64(count, 400);
	for (size_t i = 0; i < count; i++)
		CHECK(hunks[i].old_start == i * 1000 && hunks[i].old_count == 1 && hunks[i].new_count == 0);
	free(hunks);
}

/* ---- memory that fails ---- */

static const char *const base_text = "a\nb\nc\nd\ne\nf\ng\nh\n";
static const char *const our_text = "a\nB\nc\nd\ne\nf\ng\nH\n";
static const char *const their_text = "a\nb\nX\nd\ne\nf\ng\nK\nH\n";

static cb_code try_all(cb_error *err)
{
	AUTO_BUF buf out = BUF_INIT(TEXT_MAX);
	AUTO_FREE text_hunk *hunks = NULL;
	AUTO_FREE size_t *starts = NULL;
	AUTO_FREE uint64_t *origins = NULL;
	static const uint64_t old_origins[8] = {0};
	size_t count = 0;
	CB_TRY(text_lines(span_str(base_text), &starts, &count, err));
	CB_TRY(text_diff(span_str(base_text), span_str(our_text), &hunks, &count, err));
	CB_TRY(text_unified(span_str(base_text), span_str(our_text), 3, &out, err));
	CB_TRY(text_blame_step(old_origins, 8, span_str(base_text), span_str(our_text), 1, &origins, &count, err));
	return text_merge3(span_str(base_text), span_str(our_text), span_str(their_text), "l", "r", &out, &count, err);
}

TEST(every_failing_allocation_is_reported)
{
	cb_error err;
	long n = 1;
	for (;; n++) {
		mem_fail_after(n);
		cb_code code = try_all(&err);
		mem_fail_after(0);
		if (code == CB_OK) break;
		CHECK_CODE(code, CB_NOMEM);
		CHECK(n < 10000);
	}
	CHECK(n > 50);
	test_note("%ld allocations", n - 1);
}

/* The sort that colliding lines fall back to allocates too. */
TEST(failing_allocations_of_the_fallback_are_reported)
{
	AUTO_BUF buf a = BUF_INIT(TEXT_MAX);
	for (uint64_t i = 0; i < 600; i++) {
		char line[COLLIDING_BYTES];
		colliding_line(i, line);
		CHECK(buf_append(&a, line, sizeof(line), NULL) == CB_OK);
	}
	cb_error err;
	for (long n = 1;; n++) {
		text_hunk *hunks = NULL;
		size_t count = 0;
		mem_fail_after(n);
		cb_code code = text_diff(buf_span(&a), span_str("a\n"), &hunks, &count, &err);
		mem_fail_after(0);
		free(hunks);
		if (code == CB_OK) break;
		CHECK_CODE(code, CB_NOMEM);
		CHECK(n < 10000);
	}
}
