/*
 * test_text_model.c: differences and merges of random texts against git, and against what they must mean.
 *
 * git compares two folders of many files in one process; merges cost one process each.
 */
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "box/text.h"
#include "harness/harness.h"

extern char **environ;

enum { TEXT_MAX = 64 << 20, DIFF_BATCH = 600, MERGES = 400 };

/* ---- random texts ---- */

typedef struct flavour {
	unsigned alphabet; /* distinct lines */
	unsigned lines_max;
	unsigned crlf_percent; /* of lines */
	bool code;             /* lines as in a program: many trivial ones */
} flavour;

static flavour random_flavour(test_rng *r)
{
	static const unsigned alphabets[] = {1, 2, 3, 5, 12, 100, 100000};
	static const unsigned sizes[] = {1, 4, 8, 20, 40, 100, 400};
	flavour f = {.alphabet = alphabets[test_rand_below(r, ARRAY_LEN(alphabets))],
	             .lines_max = sizes[test_rand_below(r, ARRAY_LEN(sizes))]};
	if (test_rand_below(r, 5) == 0) f.crlf_percent = test_rand_below(r, 2) ? 100 : 50;
	f.code = test_rand_below(r, 3) == 0;
	return f;
}

static void add_line(test_rng *r, const flavour *f, buf *out)
{
	static const char *const trivial[] = {"", "}", "{", "\t}", "  ", "--", "/**/", ");"};
	uint64_t which = test_rand_below(r, f->alphabet);
	if (f->code && test_rand_below(r, 2) == 0) buf_append_str(out, trivial[which % ARRAY_LEN(trivial)], NULL);
	else buf_printf(out, NULL, which % 3 ? "line %u" : "%u", (unsigned)which);
	buf_append_str(out, test_rand_below(r, 100) < f->crlf_percent ? "\r\n" : "\n", NULL);
}

static void drop_final_newline(test_rng *r, buf *b)
{
	if (b->size > 1 && test_rand_below(r, 6) == 0) b->size--;
}

static void random_text(test_rng *r, const flavour *f, buf *out)
{
	uint64_t lines = test_rand_below(r, f->lines_max + 1);
	buf_clear(out);
	while (lines-- > 0) add_line(r, f, out);
	drop_final_newline(r, out);
}

/* Deletes, inserts, replaces, repeats and moves blocks. */
static void mutate_text(test_rng *r, const flavour *f, const buf *from, buf *out)
{
	size_t *starts = NULL, count = 0, moved = 0, moved_count = 0;
	cb_error err;
	CHECK_OK(text_lines(buf_span(from), &starts, &count, &err));
	unsigned rate = 2 + (unsigned)test_rand_below(r, 40);
	buf_clear(out);
	for (size_t i = 0; i < count; i++) {
		span line = span_make(from->bytes + starts[i], (i + 1 < count ? starts[i + 1] : from->size) - starts[i]);
		unsigned what = (unsigned)test_rand_below(r, rate);
		if (what == 0) continue;
		if (what == 1) add_line(r, f, out);
		if (what == 2 && moved_count == 0) {
			moved = i;
			moved_count = 1 + test_rand_below(r, 6);
			if (moved_count > count - i) moved_count = count - i;
		}
		if (what == 3 && moved_count > 0) {
			size_t end = moved + moved_count < count ? starts[moved + moved_count] : from->size;
			buf_append(out, from->bytes + starts[moved], end - starts[moved], NULL);
			moved_count = 0;
		}
		if (what != 4) buf_append(out, line.bytes, line.size, NULL);
		else add_line(r, f, out);
	}
	if (test_rand_below(r, 4) == 0) add_line(r, f, out);
	free(starts);
	if (out->size == 0 || out->bytes[out->size - 1] == '\n') drop_final_newline(r, out);
	else if (test_rand_below(r, 2)) buf_append_byte(out, '\n', NULL);
}

/* ---- git ---- */

static bool have_git(void)
{
	return system("git --version >/dev/null 2>&1") == 0;
}

static void git_environment(void)
{
	setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	setenv("GIT_CEILING_DIRECTORIES", test_tmpdir(), 1);
	setenv("LC_ALL", "C", 1);
	CHECK(chdir(test_tmpdir()) == 0);
}

/* Runs a program with its output in `out`; its exit status. */
static int run(char *const argv[], buf *out)
{
	int fds[2], status = 0;
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	pid_t pid;
	CHECK(posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) == 0);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	buf_clear(out);
	for (;;) {
		uint8_t *room;
		CHECK(buf_extend(out, 1 << 16, &room, NULL) == CB_OK);
		ssize_t n = read(fds[0], room, 1 << 16);
		CHECK(n >= 0);
		out->size -= (size_t)((1 << 16) - n);
		if (n == 0) break;
	}
	close(fds[0]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void save(const char *path, span s)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK(write(fd, s.bytes, s.size) == (ssize_t)s.size);
	close(fd);
}

static span next_line(span *rest)
{
	const uint8_t *newline = memchr(rest->bytes, '\n', rest->size);
	size_t size = newline ? (size_t)(newline - rest->bytes) + 1 : rest->size;
	span line = span_make(rest->bytes, size);
	*rest = span_make(rest->bytes + size, rest->size - size);
	return line;
}

/* The hunks of one file out of git's output, without the function that git appends to hunk headers. Empty when that file is not
 * next. */
static void take_git_hunks(span *rest, unsigned number, buf *out)
{
	char head[64];
	int head_size = snprintf(head, sizeof(head), "diff --git a/old/%05u ", number);
	buf_clear(out);
	if (!span_starts(*rest, span_make(head, (size_t)head_size))) return;
	bool in_hunks = false;
	next_line(rest);
	while (rest->size > 0 && !span_starts(*rest, span_str("diff --git "))) {
		span line = next_line(rest);
		if (span_starts(line, span_str("@@ "))) {
			in_hunks = true;
			const uint8_t *end = memmem(line.bytes + 3, line.size - 3, " @@", 3);
			CHECK(end != NULL);
			buf_append(out, line.bytes, (size_t)(end - line.bytes) + 3, NULL);
			buf_append_byte(out, '\n', NULL);
		} else if (in_hunks) {
			buf_append(out, line.bytes, line.size, NULL);
		}
	}
}

/* ---- what a diff must mean ---- */

static void check_hunks(span old_text, span new_text)
{
	cb_error err;
	text_hunk *hunks = NULL;
	size_t count = 0, *olds = NULL, *news = NULL, old_count = 0, new_count = 0;
	CHECK_OK(text_diff(old_text, new_text, &hunks, &count, &err));
	CHECK_OK(text_lines(old_text, &olds, &old_count, &err));
	CHECK_OK(text_lines(new_text, &news, &new_count, &err));
	AUTO_BUF buf made = BUF_INIT(TEXT_MAX);
	size_t at = 0, new_at = 0;
	for (size_t i = 0; i <= count; i++) {
		text_hunk h = i < count ? hunks[i] : (text_hunk){old_count, 0, new_count, 0};
		CHECK(h.old_start >= at && h.old_start - at == h.new_start - new_at);
		CHECK(i == count || i == 0 || h.old_start > at);
		CHECK(i == count || h.old_count + h.new_count > 0);
		size_t from = at < old_count ? olds[at] : old_text.size,
		       to = h.old_start < old_count ? olds[h.old_start] : old_text.size;
		CHECK_OK(buf_append(&made, old_text.bytes + from, to - from, &err));
		size_t end = h.new_start + h.new_count;
		from = h.new_start < new_count ? news[h.new_start] : new_text.size;
		to = end < new_count ? news[end] : new_text.size;
		CHECK_OK(buf_append(&made, new_text.bytes + from, to - from, &err));
		at = h.old_start + h.old_count;
		new_at = end;
	}
	CHECK(span_equal(buf_span(&made), new_text));
	free(hunks);
	free(olds);
	free(news);
}

static char *const git_diff[] = {
	(char[]){"git"},
	(char[]){"-c"},
	(char[]){"diff.indentHeuristic=false"},
	(char[]){"-c"},
	(char[]){"diff.algorithm=myers"},
	(char[]){"-c"},
	(char[]){"core.autocrlf=false"},
	(char[]){"diff"},
	(char[]){"--no-index"},
	(char[]){"--no-color"},
	(char[]){"--no-ext-diff"},
	(char[]){"--text"},
	(char[]){"--no-renames"},
	(char[]){"-U3"},
	(char[]){"old"},
	(char[]){"new"},
	NULL,
};

/* text_unified against git for `count` pairs that `make` invents. */
static void compare_diffs(test_rng *r, unsigned count, void (*make)(test_rng *, buf *, buf *))
{
	git_environment();
	CHECK(mkdir("old", 0700) == 0 && mkdir("new", 0700) == 0);
	buf *olds = calloc(count, sizeof(*olds)), *news = calloc(count, sizeof(*news));
	for (unsigned i = 0; i < count; i++) {
		char path[32];
		olds[i] = news[i] = BUF_INIT(TEXT_MAX);
		make(r, &olds[i], &news[i]);
		snprintf(path, sizeof(path), "old/%05u", i);
		save(path, buf_span(&olds[i]));
		snprintf(path, sizeof(path), "new/%05u", i);
		save(path, buf_span(&news[i]));
	}
	AUTO_BUF buf all = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf theirs = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf ours = BUF_INIT(TEXT_MAX);
	CHECK(run(git_diff, &all) <= 1);
	span rest = buf_span(&all);
	cb_error err;
	for (unsigned i = 0; i < count; i++) {
		take_git_hunks(&rest, i, &theirs);
		buf_clear(&ours);
		CHECK_OK(text_unified(buf_span(&olds[i]), buf_span(&news[i]), 3, &ours, &err));
		CHECK_MSG(span_equal(buf_span(&ours), buf_span(&theirs)), "pair %u: ours\n%.*s\ngit's\n%.*s", i, (int)ours.size,
		          (const char *)ours.bytes, (int)theirs.size, (const char *)theirs.bytes);
		check_hunks(buf_span(&olds[i]), buf_span(&news[i]));
		buf_done(&olds[i]);
		buf_done(&news[i]);
	}
	CHECK_U64(rest.size, 0);
	free(olds);
	free(news);
}

static void make_small(test_rng *r, buf *old_text, buf *new_text)
{
	flavour f = random_flavour(r);
	random_text(r, &f, old_text);
	if (test_rand_below(r, 5) == 0) random_text(r, &f, new_text);
	else mutate_text(r, &f, old_text, new_text);
}

/* Large enough for the cuts and for lines being set aside. */
static void make_large(test_rng *r, buf *old_text, buf *new_text)
{
	static const unsigned alphabets[] = {2, 10, 60, 300, 3000, 1000000};
	flavour f = {.alphabet = alphabets[test_rand_below(r, ARRAY_LEN(alphabets))],
	             .lines_max = 6000,
	             .code = test_rand_below(r, 2) == 0};
	random_text(r, &f, old_text);
	if (test_rand_below(r, 4) == 0) random_text(r, &f, new_text);
	else mutate_text(r, &f, old_text, new_text);
}

TEST(diff_equals_git)
{
	if (!have_git()) test_skip("git is not installed");
	test_rng r = {test_seed()};
	compare_diffs(&r, test_dose(DIFF_BATCH), make_small);
}

TEST(large_diff_equals_git)
{
	if (!have_git()) test_skip("git is not installed");
	test_rng r = {hash_u64(test_seed() + 1)};
	compare_diffs(&r, test_dose(25), make_large);
}

TEST(diff_applies)
{
	test_rng r = {hash_u64(test_seed() + 2)};
	AUTO_BUF buf a = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf b = BUF_INIT(TEXT_MAX);
	for (unsigned i = 0; i < test_dose(2000); i++) {
		make_small(&r, &a, &b);
		check_hunks(buf_span(&a), buf_span(&b));
	}
}

TEST(unified_diff_is_applied_by_patch)
{
	if (system("patch --version >/dev/null 2>&1") != 0) test_skip("patch is not installed");
	git_environment();
	test_rng r = {hash_u64(test_seed() + 3)};
	AUTO_BUF buf a = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf b = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf diff = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf made = BUF_INIT(TEXT_MAX);
	cb_error err;
	for (unsigned i = 0; i < test_dose(150); i++) {
		make_small(&r, &a, &b);
		buf_clear(&diff);
		CHECK_OK(buf_append_str(&diff, "--- x\n+++ x\n", &err));
		size_t header = diff.size;
		CHECK_OK(text_unified(buf_span(&a), buf_span(&b), (unsigned)test_rand_below(&r, 5), &diff, &err));
		if (diff.size == header) continue;
		save("x", buf_span(&a));
		save("d", buf_span(&diff));
		char *argv[] = {(char[]){"patch"}, (char[]){"--binary"}, (char[]){"-s"}, (char[]){"-o"},
		                (char[]){"-"},     (char[]){"x"},        (char[]){"d"},  NULL};
		CHECK(run(argv, &made) == 0);
		CHECK_MSG(span_equal(buf_span(&made), buf_span(&b)), "%.*s", (int)diff.size, (const char *)diff.bytes);
	}
}

/* ---- merges ---- */

static void make_merge(test_rng *r, buf *base, buf *ours, buf *theirs)
{
	flavour f = random_flavour(r);
	random_text(r, &f, base);
	mutate_text(r, &f, base, ours);
	if (test_rand_below(r, 4) == 0) mutate_text(r, &f, ours, theirs); /* shares changes */
	else mutate_text(r, &f, base, theirs);
}

TEST(merge_equals_git)
{
	if (!have_git()) test_skip("git is not installed");
	git_environment();
	test_rng r = {hash_u64(test_seed() + 4)};
	buf texts[3] = {BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX)};
	AUTO_BUF buf made = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf wanted = BUF_INIT(TEXT_MAX);
	char *argv[] = {(char[]){"git"},    (char[]){"merge-file"},
	                (char[]){"-p"},     (char[]){"-q"},
	                (char[]){"-L"},     (char[]){"left"},
	                (char[]){"-L"},     (char[]){"base"},
	                (char[]){"-L"},     (char[]){"right"},
	                (char[]){"ours"},   (char[]){"base"},
	                (char[]){"theirs"}, NULL};
	unsigned clean = 0, cases = test_dose(MERGES);
	cb_error err;
	for (unsigned i = 0; i < cases; i++) {
		make_merge(&r, &texts[0], &texts[1], &texts[2]);
		save("base", buf_span(&texts[0]));
		save("ours", buf_span(&texts[1]));
		save("theirs", buf_span(&texts[2]));
		int status = run(argv, &wanted);
		size_t conflicts = 0;
		buf_clear(&made);
		CHECK_OK(text_merge3(buf_span(&texts[0]), buf_span(&texts[1]), buf_span(&texts[2]), "left", "right", &made,
		                     &conflicts, &err));
		CHECK_U64(conflicts < 127 ? conflicts : 127, status);
		CHECK_MSG(span_equal(buf_span(&made), buf_span(&wanted)), "merge %u (%zu conflicts): ours\n%.*s\ngit's\n%.*s", i,
		          conflicts, (int)made.size, (const char *)made.bytes, (int)wanted.size, (const char *)wanted.bytes);
		clean += conflicts == 0;
	}
	test_note("%u of %u merges without conflict", clean, cases);
	for (size_t i = 0; i < 3; i++) buf_done(&texts[i]);
}

/* Merging is fair: with the sides exchanged the same merges are clean, and give the same text. */
TEST(merge_is_symmetric)
{
	test_rng r = {hash_u64(test_seed() + 5)};
	AUTO_BUF buf base = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf ours = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf theirs = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf one = BUF_INIT(TEXT_MAX);
	AUTO_BUF buf two = BUF_INIT(TEXT_MAX);
	cb_error err;
	for (unsigned i = 0; i < test_dose(1500); i++) {
		make_merge(&r, &base, &ours, &theirs);
		size_t a = 0, b = 0;
		buf_clear(&one);
		buf_clear(&two);
		CHECK_OK(text_merge3(buf_span(&base), buf_span(&ours), buf_span(&theirs), "l", "r", &one, &a, &err));
		CHECK_OK(text_merge3(buf_span(&base), buf_span(&theirs), buf_span(&ours), "l", "r", &two, &b, &err));
		CHECK((a == 0) == (b == 0));
		if (a == 0) CHECK(span_equal(buf_span(&one), buf_span(&two)));
	}
}
