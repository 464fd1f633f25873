/*
 * test_values.c: a value that a call does not know decides nothing: members of enums, bits of flags, bits above a mode's, times below
 * zero are CB_INVALID, and the message names the argument and the value.
 *
 * One row for each such argument and member; the headers are read to see that none is missing.
 */
#include "contract/test_docs_kit.h"

#include "base/attr.h"
#include "base/buf.h"

static cb_store *s;
static cb_box *b, *t, *other;
static cb_file *f, *file_out;
static cb_sandbox *sandbox_out;
static cb_cursor *cursor_out;
static cb_error err;
static char *text;
static size_t size;
static uint64_t number;
static cb_stat_info info = {.struct_size = sizeof(info)};
static cb_tier_report report = {.struct_size = sizeof(report)};

static cb_code see_name(void *context, const char *name, const char *value, size_t bytes, cb_error *e)
{
	(void)context;
	(void)name;
	(void)value;
	(void)bytes;
	(void)e;
	return CB_OK;
}

static cb_code see_entry(void *context, const char *path, const cb_stat_info *i, cb_error *e)
{
	(void)context;
	(void)path;
	(void)i;
	(void)e;
	return CB_OK;
}

static buf seen = {.max_size = 1 << 20};

static void must_refuse(const char *where, const char *argument, const char *value, cb_code code)
{
	CHECK_MSG(code == CB_INVALID, "%s with %s %s: %s", where, argument, value, cb_code_name(code));
	const char *wish = text_of("the argument '%s' is %s: ", argument, value);
	CHECK_MSG(strncmp(err.message, wish, strlen(wish)) == 0, "%s: '%s', not '%s...'", where, err.message, wish);
	err = (cb_error){0};
	CHECK_OK(buf_printf(&seen, &err, " %s.%s ", where, argument));
}

#define ROW(where, argument, value, expression) must_refuse(#where, argument, value, (expression));
#define MERGE(...) cb_merge(b, other, &CB_WITH(cb_merge_options, __VA_ARGS__), NULL, NULL, &err)
#define COMMIT(...) cb_txn_commit(t, &CB_WITH(cb_commit_options, __VA_ARGS__), NULL, &err)
#define SANDBOX(...) cb_sandbox_open(b, &CB_WITH(cb_sandbox_options, __VA_ARGS__), &sandbox_out, &err)

/* clang-format off: a row a line */
static void refuse_flags(void)
{
	ROW(cb_stat, "flags", "0x40", cb_stat(b, "/work/a", 64, &info, &err))
	ROW(cb_stat, "flags", "0x9", cb_stat(b, "/work/a", CB_PARENTS | CB_NOFOLLOW, &info, &err))
	ROW(cb_mkdir, "flags", "0x1", cb_mkdir(b, "/work/d", 0755, CB_NOFOLLOW, &err))
	ROW(cb_rename, "flags", "0x40", cb_rename(b, "/work/a", "/work/c", 64, &err))
	ROW(cb_rename, "flags", "0x1", cb_rename(b, "/work/a", "/work/c", CB_NOFOLLOW, &err))
	ROW(cb_chmod, "flags", "0x8", cb_chmod(b, "/work/a", 0600, CB_PARENTS, &err))
	ROW(cb_utimens, "flags", "0x8", cb_utimens(b, "/work/a", 1, 1, CB_PARENTS, &err))
	ROW(cb_copy, "flags", "0x4", cb_copy(b, "/work/a", "/work/b", CB_EXCHANGE, &err))
	ROW(cb_xattr_set, "flags", "0x8", cb_xattr_set(b, "/work/a", "user.n", "v", 1, CB_PARENTS, &err))
	ROW(cb_xattr_get, "flags", "0x8", cb_xattr_get(b, "/work/a", "user.n", CB_PARENTS, &text, &size, &err))
	ROW(cb_xattr_remove, "flags", "0x8", cb_xattr_remove(b, "/work/a", "user.n", CB_PARENTS, &err))
	ROW(cb_xattr_list, "flags", "0x8", cb_xattr_list(b, "/work/a", CB_PARENTS, see_name, NULL, &err))
	ROW(cb_xattr_open, "flags", "0x8", cb_xattr_open(b, "/work/a", CB_PARENTS, &cursor_out, &err))
	ROW(cb_open, "flags", "0x81", cb_open(b, "/work/a", CB_READ | 128, 0, &file_out, &err))
	ROW(cb_mkdir, "mode", "010755", cb_mkdir(b, "/work/d", 010755, 0, &err))
	ROW(cb_chmod, "mode", "0100644", cb_chmod(b, "/work/a", 0100644, 0, &err))
	ROW(cb_open, "mode", "0100644", cb_open(b, "/work/n", CB_WRITE | CB_CREATE, 0100644, &file_out, &err))
	ROW(cb_write_options, "mode", "0100644",
	    cb_write_file(b, "/work/n", "x", 1, &CB_WITH(cb_write_options, .mode = 0100644), &err))
}

static void refuse_members(void)
{
	static const cb_resolution bad = {"/work/a", (cb_prefer)77};
	ROW(cb_seek, "whence", "17", cb_seek(f, 0, (cb_whence)17, &number, &err))
	ROW(cb_find_options, "type", "9", cb_find(b, "/", &CB_WITH(cb_find_options, .type = (cb_type)9), see_entry, NULL, &err))
	ROW(cb_find_options, "type", "9", cb_find_open(b, "/", &CB_WITH(cb_find_options, .type = (cb_type)9), &cursor_out, &err))
	ROW(cb_merge_options, "prefer", "44", MERGE(.prefer = (cb_prefer)44))
	ROW(cb_commit_options, "prefer", "44", COMMIT(.prefer = (cb_prefer)44))
	ROW(cb_commit_options, "prefer", "-1", COMMIT(.prefer = (cb_prefer)-1))
	ROW(cb_commit_options, "lost", "44", COMMIT(.lost = (cb_lost)44))
	ROW(cb_resolution, "resolutions[0].prefer", "77", COMMIT(.resolutions = &bad, .resolution_count = 1))
	ROW(cb_sandbox_options, "tier", "9", SANDBOX(.tier = (cb_tier)9))
	ROW(cb_sandbox_options, "net", "2", SANDBOX(.net = (cb_net)2))
	ROW(cb_sandbox_options, "net", "2", cb_sandbox_plan(b, &CB_WITH(cb_sandbox_options, .net = (cb_net)2), false, &text, &err))
	ROW(cb_sandbox_try, "tier", "9", cb_sandbox_try(NULL, (cb_tier)9, &report, &err))
}

static void refuse_times(void)
{
	ROW(cb_box_retention_set, "keep_ns", "-1", cb_box_retention_set(b, 0, -1, &err))
	ROW(cb_prune_options, "keep_ns", "-5", cb_prune(b, &CB_WITH(cb_prune_options, .keep_ns = -5), NULL, &err))
	ROW(cb_pin_set, "keep_ns", "-1", cb_pin_set(b, "job", "why", -1, &err))
}

/* Those that need a sandbox. */
#define PROGRAMS(X)                                                                               \
	X(cb_exec_options, "timeout_ns", "-1",                                                    \
	  cb_exec_start(sandbox, &CB_WITH(cb_exec_options, COMMAND, .timeout_ns = -1), &e, &err)) \
	X(cb_exec_options, "grace_ns", "-1", cb_exec_start(sandbox, &CB_WITH(cb_exec_options, COMMAND, .grace_ns = -1), &e, &err))
/* clang-format on */

static void begin(void)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	must_write(b, "/work/b", "two");
	other = must_fork(s, "demo", "other");
	t = must_begin(b);
	must_write(t, "/work/a", "txn");
	must_write(b, "/work/a", "box");
	must_write(other, "/work/a", "fork");
	CHECK_OK(cb_open(b, "/work/a", CB_READ | CB_WRITE, 0, &f, &err));
}

/* Nothing was done, and nothing was decided. */
static void finish(void)
{
	CHECK_OK(cb_close(f, &err));
	CHECK_U64(must_seq(b), 3);
	CHECK_STR(must_read(b, "/work/a"), "box");
	CHECK_STR(must_read(b, "/work/b"), "two");
	CHECK_STR(must_read(t, "/work/a"), "txn");
	cb_box_close(t);
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
	buf_done(&seen);
}

TEST(what_no_call_knows_is_invalid)
{
	begin();
	refuse_flags();
	refuse_members();
	refuse_times();
	finish();
}

TEST(a_program_takes_no_time_below_zero)
{
	static const char *const argv[] = {"true"};
	cb_sandbox *sandbox = NULL;
	cb_exec *e = NULL;
	begin();
	cb_code code = cb_sandbox_open(b, NULL, &sandbox, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "%s", err.message);
#define COMMAND .argv = argv, .argc = 1, .stdin_fd = CB_STDIN_NONE
	PROGRAMS(ROW)
	cb_sandbox_close(sandbox);
	finish();
}

static cb_prefer say_99(void *context, const cb_conflict *conflict)
{
	(void)conflict;
	++*(int *)context;
	return (cb_prefer)99;
}

TEST(what_resolve_says_must_be_known)
{
	int asked = 0;
	begin();
	CHECK_CODE(MERGE(.resolve = say_99, .context = &asked), CB_INVALID);
	CHECK_STR(err.message, "resolve said 99 about '/work/a': there is no such value");
	CHECK(asked == 1);
	finish();
}

TEST(exclusive_opening_creates)
{
	begin();
	CHECK_CODE(cb_open(b, "/work/a", CB_READ | CB_EXCLUSIVE, 0, &file_out, &err), CB_INVALID);
	CHECK_STR(err.message, "CB_EXCLUSIVE needs CB_CREATE");
	finish();
}

/* ---- is anything missing here? ---- */

/* What is not looked at: results, which the library fills, and times, which may be before 1970. */
static bool is_left_out(const char *where)
{
	static const char *const filled[] = {"cb_stat_info",  "cb_audit",      "cb_box_info", "cb_exec_result", "cb_change",
	                                     "cb_apply_item", "cb_checkpoint", "cb_use",      "cb_step"};
	for (size_t i = 0; i < ARRAY_LEN(filled); i++)
		if (strcmp(where, filled[i]) == 0) return true;
	return false;
}

/* The name at the end of "const char *path" or "cb_prefer prefer". */
static const char *name_at_end(const char *declaration)
{
	const char *end = declaration + strlen(declaration), *name = end;
	while (name > declaration && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
	return name;
}

static bool is_duration(const char *where, const char *name)
{
	if (strcmp(where, "cb_find_options") == 0 || strcmp(where, "cb_utimens") == 0 || strcmp(where, "cb_audit_options") == 0)
		return false;
	return (strlen(name) > 3 && strcmp(name + strlen(name) - 3, "_ns") == 0) && strcmp(name, "started_ns") != 0;
}

static const char *all_headers(void)
{
	static char *all;
	char *umbrella = must_text("include/cowbox/cowbox.h");
	all = text_of("%s", "");
	for (char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++)
		all = text_of("%s%s", all, must_text(text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11)));
	return all;
}

static bool is_enum(const char *headers, const char *declaration)
{
	while (*declaration == ' ' || *declaration == '\t' || *declaration == '\n') declaration++;
	size_t n = strcspn(declaration, " ");
	if (strncmp(declaration, "cb_", 3) != 0 || strchr(declaration, '*') || strchr(declaration, '(')) return false;
	return strstr(headers, text_of("typedef enum %.*s ", (int)n, declaration)) && strncmp(declaration, "cb_code ", 8) != 0;
}

static void look_at(const char *headers, const char *where, const char *declaration, int *count)
{
	const char *name = name_at_end(declaration);
	bool flags = strcmp(name, "flags") == 0, mode = strcmp(name, "mode") == 0;
	if (!flags && !mode && !is_enum(headers, declaration) && !is_duration(where, name)) return;
	if (is_left_out(where) || strchr(declaration, '*')) return;
	++*count;
	const char *row = text_of(" %s.%s ", where, name), *element = text_of(" %s.resolutions[0].%s ", where, name);
	CHECK_MSG(strstr((const char *)seen.bytes, row) || strstr((const char *)seen.bytes, element), "%s: '%s' is not tested here",
	          where, name);
}

static void look_at_calls(const char *headers, int *count)
{
	for (const char *at = headers; (at = strstr(at, "\nCB_API ")); at++) {
		const char *open = strchr(at, '('), *name = open;
		while (isalnum((unsigned char)name[-1]) || name[-1] == '_') name--;
		const char *call = text_of("%.*s", (int)(open - name), name);
		if (strncmp(call, "cb_code_", 8) == 0) continue;
		for (const char *p = open + 1; *p && *p != ';';) {
			size_t n = strcspn(p, ",)");
			look_at(headers, call, text_of("%.*s", (int)n, p), count);
			p += n + (p[n] == ',');
			if (*p == ')') break;
		}
	}
}

static void look_at_structs(const char *headers, int *count)
{
	for (const char *at = headers; (at = strstr(at, "\ntypedef struct cb_")); at++) {
		const char *name = at + strlen("\ntypedef struct ");
		size_t n = strcspn(name, " ;");
		if (name[n] == ';' || name[n + 1] != '{') continue;
		const char *where = text_of("%.*s", (int)n, name);
		for (const char *line = strchr(name, '\n'); line && line[1] != '}'; line = strchr(line + 1, '\n')) {
			size_t length = strcspn(line + 1, ";\n");
			if (line[1 + length] != ';') continue;
			look_at(headers, where, text_of("%.*s", (int)length, line + 1), count);
		}
	}
}

/* Programs in other languages have them as numbers. */
TEST(numbers_of_values_are_for_good)
{
	const int whence[] = {CB_SEEK_SET, CB_SEEK_CUR, CB_SEEK_END, CB_SEEK_DATA, CB_SEEK_HOLE};
	for (int i = 0; i < (int)ARRAY_LEN(whence); i++) CHECK(whence[i] == i);
	CHECK(CB_FILE == 1 && CB_DIR == 2 && CB_SYMLINK == 3);
	CHECK(CB_NOFOLLOW == 1 && CB_NOREPLACE == 2 && CB_EXCHANGE == 4 && CB_PARENTS == 8);
	CHECK(CB_READ == 1 && CB_WRITE == 2 && CB_CREATE == 4 && CB_EXCLUSIVE == 8 && CB_TRUNCATE == 16 && CB_APPEND == 32);
	CHECK(CB_NOFOLLOW_OPEN == 64);
	CHECK(CB_PREFER_NONE == 0 && CB_PREFER_OURS == 1 && CB_PREFER_BOX == 1 && CB_PREFER_THEIRS == 2 && CB_PREFER_TXN == 2);
	CHECK(CB_LOST_STAYS == 0 && CB_LOST_FORK == 1 && CB_LOST_DROP == 2);
	CHECK(CB_ADDED == 'A' && CB_DELETED == 'D' && CB_MODIFIED == 'M' && CB_ATTRS == 'T' && CB_RENAMED == 'R' &&
	      CB_KEYVALUE == 'K');
	CHECK(CB_APPLY_WRITE == 1 && CB_APPLY_SAME == 2 && CB_APPLY_HELD == 3 && CB_APPLY_CHANGED == 4);
	CHECK(CB_NET_NONE == 0 && CB_NET_HOST == 1);
	CHECK(CB_TIER_AUTO == 0 && CB_TIER_OVERLAY == 1 && CB_TIER_FOLDER == 2 && CB_TIER_WEAK == 3);
	CHECK(CB_STDOUT == 1 && CB_STDERR == 2);
	CHECK(CB_END_EXIT == 1 && CB_END_SIGNAL == 2 && CB_END_TIMEOUT == 3 && CB_END_MEMORY == 4 && CB_END_DISK == 5);
	CHECK(CB_END_OUTPUT == 6 && CB_END_KILLED == 7 && CB_END_NOT_FOUND == 8 && CB_END_NOT_RUN == 9);
	CHECK(CB_INVALID == -5 && CB_TIMEOUT == -36);
	CHECK(sizeof(cb_code) == sizeof(int) && sizeof(cb_type) == sizeof(int) && sizeof(cb_exec_end) == sizeof(int));
}

TEST(every_value_of_the_headers_is_tested)
{
	const char *headers = all_headers();
	int count = 0;
	begin();
	refuse_flags();
	refuse_members();
	refuse_times();
#define NAMED(where, argument, value, expression) CHECK_OK(buf_printf(&seen, &err, " %s.%s ", #where, argument));
	PROGRAMS(NAMED)
	CHECK_OK(buf_append_byte(&seen, 0, &err));
	look_at_calls(headers, &count);
	look_at_structs(headers, &count);
	CHECK_MSG(count >= 25, "%d were looked at", count);
	finish();
}
