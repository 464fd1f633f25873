/*
 * test_structs.c: every public struct begins with its size, and every call that takes one believes it only as far as it may.
 *
 * The list of structs comes from the headers: one that is missing below fails the test.
 */
#include "contract/test_docs_kit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/attr.h"

static cb_store *s;
static cb_box *b;
static cb_error err;

static void begin(void)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a.txt", "one\ntwo\n");
}

static void finish(void)
{
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- structs that a caller makes ---- */

#define CALL(name) static cb_code with_##name(const void *p, cb_error *e)
static cb_code any_step(void *context, const cb_step *step, cb_error *e)
{
	(void)context;
	(void)step;
	(void)e;
	return CB_OK;
}

static cb_code any_path(void *context, const char *path, const cb_stat_info *info, cb_error *e)
{
	(void)context;
	(void)path;
	(void)info;
	(void)e;
	return CB_OK;
}

static cb_code any_line(void *context, const cb_grep_line *line, cb_error *e)
{
	(void)context;
	(void)line;
	(void)e;
	return CB_OK;
}

static cb_code any_entry(void *context, const cb_audit *entry, cb_error *e)
{
	(void)context;
	(void)entry;
	(void)e;
	return CB_OK;
}

static int to_null(void)
{
	static int fd = -1;
	if (fd < 0) fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return fd;
}

static const char *folder(const char *name)
{
	return text_of("%s/%s", test_tmpdir(), name);
}

/* A transaction with a change, to be ended. */
static cb_box *changed(void)
{
	cb_box *t = must_begin(b);
	must_write(t, "/work/txn", "x");
	return t;
}

CALL(cb_store_options)
{
	cb_store *other = NULL;
	cb_code code = cb_store_open(":memory:", p, &other, e);
	cb_store_close(other);
	return code;
}
CALL(cb_audit_options)
{
	return cb_audit_list(s, p, any_entry, NULL, e);
}
CALL(cb_step_info)
{
	cb_box *t = NULL;
	cb_code code = cb_step_record(b, p, NULL, e);
	CHECK_CODE(cb_txn_begin(b, &CB_WITH(cb_txn_options, .step = p), &t, NULL), code);
	cb_box_close(t);
	t = changed();
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .step = p), NULL, NULL), code);
	cb_box_close(t);
	return code;
}
CALL(cb_txn_options)
{
	cb_box *t = NULL;
	cb_code code = cb_txn_begin(b, p, &t, e);
	cb_box_close(t);
	return code;
}
CALL(cb_commit_options)
{
	cb_box *t = changed();
	cb_code code = cb_txn_commit(t, p, NULL, e);
	cb_box_close(t);
	return code;
}
CALL(cb_write_options)
{
	return cb_write_file(b, "/work/w", "x", 1, p, e);
}
CALL(cb_edit_options)
{
	must_write(b, "/work/e", "old");
	return cb_edit(b, "/work/e", &(cb_replacement){"old", 3, "new", 3}, 1, p, NULL, e);
}
CALL(cb_log_options)
{
	return cb_log(b, p, any_step, NULL, NULL, e);
}
CALL(cb_diff_text_options)
{
	char *text = NULL;
	cb_code code = cb_diff_text(b, b, p, &text, NULL, e);
	cb_free(text);
	return code;
}
CALL(cb_merge_options)
{
	static int count;
	const char *name = text_of("fork%d", count++);
	cb_box *fork = must_fork(s, "demo", name);
	must_write(fork, text_of("/work/%s", name), "x");
	cb_code code = cb_merge(b, fork, p, NULL, NULL, e);
	cb_box_close(fork);
	return code;
}
CALL(cb_prune_options)
{
	return cb_prune(b, p, NULL, e);
}
CALL(cb_limit)
{
	cb_code code = cb_limit_push(p, e);
	if (code == CB_OK) cb_limit_pop();
	return code;
}
CALL(cb_grep_options)
{
	cb_code code = cb_grep(b, "/", p, any_line, NULL, NULL, e);
	return code;
}
CALL(cb_find_options)
{
	return cb_find(b, "/", p, any_path, NULL, e);
}
static const char *host_folder(void)
{
	const char *path = folder("host");
	if (mkdir(path, 0700) == 0) CHECK(mkdir(text_of("%s/sub", path), 0700) == 0);
	return path;
}
CALL(cb_import_options)
{
	return cb_import(b, host_folder(), p, NULL, e);
}
CALL(cb_export_options)
{
	static int count;
	return cb_export(b, "/work", folder(text_of("out%d", count++)), p, NULL, e);
}
CALL(cb_apply_options)
{
	cb_code code = cb_apply(b, p, NULL, NULL, NULL, e);
	return code == CB_NOTFOUND ? CB_OK : code; /* the box has no folder */
}
CALL(cb_tar_options)
{
	cb_code code = cb_tar_export(b, "/work", to_null(), p, NULL, e);
	cb_code other = cb_tar_import(b, to_null(), p, NULL, NULL);
	CHECK((code == CB_INVALID) == (other == CB_INVALID));
	return code;
}
CALL(cb_pack_options)
{
	return cb_pack(b, to_null(), p, NULL, e);
}
CALL(cb_transfer_watch)
{
	cb_code code = cb_pack(b, to_null(), &CB_WITH(cb_pack_options, .watch = p), NULL, e);
	CHECK_CODE(cb_tar_export(b, "/work", to_null(), &CB_WITH(cb_tar_options, .watch = p), NULL, NULL), code);
	CHECK_CODE(cb_import(b, host_folder(), &CB_WITH(cb_import_options, .watch = p), NULL, NULL), code);
	CHECK((cb_unpack(s, to_null(), "other", p, NULL, NULL) == CB_INVALID) == (code == CB_INVALID));
	CHECK((cb_tar_import(b, to_null(), &CB_WITH(cb_tar_options, .watch = p), NULL, NULL) == CB_INVALID) ==
	      (code == CB_INVALID));
	CHECK((cb_apply(b, &CB_WITH(cb_apply_options, .watch = p), NULL, NULL, NULL, NULL) == CB_INVALID) == (code == CB_INVALID));
	static int count;
	const char *out = folder(text_of("watched%d", count++));
	CHECK_CODE(cb_export(b, "/work", out, &CB_WITH(cb_export_options, .watch = p), NULL, NULL), code);
	return code;
}
CALL(cb_sandbox_options)
{
	char *text = NULL;
	cb_code code = cb_sandbox_plan(b, p, false, &text, e);
	cb_free(text);
	return code == CB_UNSUPPORTED ? CB_OK : code;
}
CALL(cb_exec_options)
{
	cb_sandbox *sandbox = NULL;
	cb_exec *exec = NULL;
	if (cb_sandbox_open(b, NULL, &sandbox, e) == CB_UNSUPPORTED) test_lacks("sandbox", e->message);
	cb_code code = cb_exec_start(sandbox, p, &exec, e);
	cb_exec_close(exec);
	cb_sandbox_close(sandbox);
	/* An empty struct names no program: that is the next complaint. */
	return code == CB_INVALID && strstr(e->message, "no program") ? CB_OK : code;
}

/* ---- structs that a call fills ---- */

#define FILL(name) static cb_code with_##name(void *p, cb_error *e)
FILL(cb_store_stats)
{
	return cb_store_stats_get(s, p, e);
}
FILL(cb_gc_result)
{
	return cb_store_gc(s, p, e);
}
FILL(cb_box_info)
{
	return cb_box_info_get(b, p, e);
}
FILL(cb_commit_result)
{
	cb_box *t = changed();
	cb_code code = cb_txn_commit(t, NULL, p, e);
	cb_box_close(t);
	t = changed();
	if (code == CB_INVALID) CHECK_CODE(cb_txn_keep(t, NULL, p, NULL), CB_INVALID);
	cb_box_close(t);
	return code;
}
FILL(cb_stat_info)
{
	cb_file *f = NULL;
	cb_code code = cb_stat(b, "/work/a.txt", 0, p, e);
	CHECK_OK(cb_open(b, "/work/a.txt", CB_READ, 0, &f, &err));
	CHECK_CODE(cb_fstat(f, p, NULL), code);
	CHECK_OK(cb_close(f, &err));
	return code;
}
FILL(cb_grep_count)
{
	return cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = "o"), any_line, NULL, p, e);
}
FILL(cb_transfer_count)
{
	cb_code code = cb_tar_export(b, "/work", to_null(), NULL, p, e);
	CHECK_CODE(cb_import(b, host_folder(), NULL, p, NULL), code);
	CHECK((cb_tar_import(b, to_null(), NULL, p, NULL) == CB_INVALID) == (code == CB_INVALID));
	static int count;
	CHECK_CODE(cb_export(b, "/work", folder(text_of("filled%d", count++)), NULL, p, NULL), code);
	return code;
}
FILL(cb_apply_result)
{
	cb_code code = cb_apply(b, &CB_WITH(cb_apply_options, .folder = host_folder()), NULL, NULL, p, e);
	return code == CB_INVALID ? code : CB_OK;
}
FILL(cb_pack_info)
{
	cb_code code = cb_pack(b, to_null(), NULL, p, e);
	CHECK((cb_unpack(s, to_null(), "other", NULL, p, NULL) == CB_INVALID) == (code == CB_INVALID));
	return code;
}
FILL(cb_tier_report)
{
	return cb_sandbox_try(test_tmpdir(), CB_TIER_FOLDER, p, e);
}

typedef struct row {
	const char *name;
	size_t size;
	cb_code (*take)(const void *p, cb_error *e); /* of a struct that is read */
	cb_code (*fill)(void *p, cb_error *e);       /* of one that is filled */
} row;
#define TAKES(T)                              \
	{                                     \
#T, sizeof(T), with_##T, NULL \
	}
#define FILLS(T)                              \
	{                                     \
#T, sizeof(T), NULL, with_##T \
	}
static const row rows[] = {
	TAKES(cb_store_options),     TAKES(cb_audit_options),  TAKES(cb_step_info),      TAKES(cb_txn_options),
	TAKES(cb_commit_options),    TAKES(cb_write_options),  TAKES(cb_edit_options),   TAKES(cb_log_options),
	TAKES(cb_diff_text_options), TAKES(cb_merge_options),  TAKES(cb_prune_options),  TAKES(cb_grep_options),
	TAKES(cb_find_options),      TAKES(cb_import_options), TAKES(cb_export_options), TAKES(cb_apply_options),
	TAKES(cb_tar_options),       TAKES(cb_pack_options),   TAKES(cb_transfer_watch), TAKES(cb_sandbox_options),
	TAKES(cb_exec_options),      TAKES(cb_limit),          FILLS(cb_store_stats),    FILLS(cb_gc_result),
	FILLS(cb_box_info),          FILLS(cb_commit_result),  FILLS(cb_stat_info),      FILLS(cb_grep_count),
	FILLS(cb_transfer_count),    FILLS(cb_apply_result),   FILLS(cb_pack_info),      FILLS(cb_tier_report),
};
/* Lent by the library: lent_structs_say_their_size looks at each. */
static const char *const lent[] = {"cb_use",         "cb_audit",       "cb_conflict",   "cb_step",      "cb_change",
                                   "cb_change_stat", "cb_checkpoint",  "cb_blame_line", "cb_grep_line", "cb_progress",
                                   "cb_apply_item",  "cb_exec_result", "cb_entry",      "cb_name"};
/* As they are for good (cowbox/types.h). */
static const char *const frozen[] = {"cb_error", "cb_replacement", "cb_resolution", "cb_bind", "cb_grep_match"};

static bool is_in(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0) return true;
	return false;
}

TEST(every_struct_of_the_headers_is_known_here)
{
	char *umbrella = must_text("include/cowbox/cowbox.h");
	int count = 0;
	for (char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++) {
		const char *header = text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11);
		for (char *at = must_text(header); (at = strstr(at, "\ntypedef struct ")); count++) {
			at += 16;
			size_t size = strcspn(at, " ;");
			char *name = text_of("%.*s", (int)size, at);
			if (at[size] != ' ' || at[size + 1] != '{') continue; /* opaque */
			if (is_in(frozen, ARRAY_LEN(frozen), name)) continue;
			static const char first[] = " {\n\tsize_t struct_size;";
			CHECK_MSG(strncmp(at + size, first, sizeof(first) - 1) == 0, "%s does not begin with struct_size", name);
			bool known = is_in(lent, ARRAY_LEN(lent), name);
			for (size_t i = 0; i < ARRAY_LEN(rows); i++) known = known || strcmp(rows[i].name, name) == 0;
			CHECK_MSG(known, "%s is not tested here", name);
		}
	}
	CHECK(count > 40);
}

enum { ROOM = 1024, BEYOND = 64 };

static cb_code call(const row *r, void *p, cb_error *e)
{
	return r->take ? r->take(p, e) : r->fill(p, e);
}

TEST(sizes_are_believed_as_far_as_they_may)
{
	begin();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const row *r = &rows[i];
		if (r->take == with_cb_exec_options) continue; /* below: a machine may lack it */
		CHECK(r->size + BEYOND <= ROOM);
		static const size_t never[] = {0, sizeof(size_t) - 1, ROOM * 1024, SIZE_MAX};
		union {
			size_t size;
			unsigned char bytes[ROOM];
		} p;
		for (size_t k = 0; k < ARRAY_LEN(never); k++) {
			memset(&p, 0, sizeof(p));
			p.size = never[k];
			CHECK_CODE(call(r, &p, &err), CB_INVALID);
			CHECK_MSG(strstr(err.message, r->name) != NULL, "%s: '%s'", r->name, err.message);
		}
		/* A caller compiled later, which says nothing new, and then something. */
		memset(&p, 0, sizeof(p));
		p.size = r->size + BEYOND;
		if (strcmp(r->name, "cb_grep_options") == 0) ((cb_grep_options *)(void *)&p)->pattern = "o";
		cb_code code = call(r, &p, &err);
		CHECK_MSG(code == CB_OK, "%s: %s (%s)", r->name, cb_code_name(code), err.message);
		CHECK_MSG(p.size == r->size + BEYOND, "%s: its size was changed", r->name);
		for (size_t k = r->size; k < ROOM; k++) CHECK_MSG(p.bytes[k] == 0, "%s: byte %zu was written", r->name, k);
		p.bytes[r->size + BEYOND - 1] = 1;
		CHECK_CODE(call(r, &p, &err), CB_INVALID);
		CHECK_MSG(strstr(err.message, r->name) && strstr(err.message, "newer cowbox"), "%s: '%s'", r->name, err.message);
		/* Exactly ours: nothing beyond it is read or written. */
		memset(&p, 0, sizeof(p));
		memset(p.bytes + r->size, 0xee, ROOM - r->size);
		p.size = r->size;
		if (strcmp(r->name, "cb_grep_options") == 0) ((cb_grep_options *)(void *)&p)->pattern = "o";
		code = call(r, &p, &err);
		CHECK_MSG(code == CB_OK, "%s: %s (%s)", r->name, cb_code_name(code), err.message);
		for (size_t k = r->size; k < ROOM; k++) CHECK_MSG(p.bytes[k] == 0xee, "%s: byte %zu was written", r->name, k);
	}
	finish();
}

TEST(a_program_to_run_says_its_size)
{
	begin();
	cb_exec_options o = {.struct_size = 0};
	CHECK_CODE(with_cb_exec_options(&o, &err), CB_INVALID);
	CHECK(strstr(err.message, "cb_exec_options.struct_size") != NULL);
	o = CB_INIT(cb_exec_options);
	CHECK_CODE(with_cb_exec_options(&o, &err), CB_OK);
	finish();
}

/* ---- structs that the library lends ---- */

#define SEEN(T, p)                                                                                           \
	do {                                                                                                 \
		CHECK_MSG((p)->struct_size == sizeof(T), #T " is lent with the size %zu", (p)->struct_size); \
		seen |= 1u << BIT_##T;                                                                       \
	} while (0)
enum {
	BIT_cb_use,
	BIT_cb_audit,
	BIT_cb_conflict,
	BIT_cb_step,
	BIT_cb_change,
	BIT_cb_change_stat,
	BIT_cb_checkpoint,
	BIT_cb_blame_line,
	BIT_cb_grep_line,
	BIT_cb_progress,
	BIT_cb_apply_item,
	BIT_cb_entry,
	BIT_cb_name,
	BIT_COUNT, /* cb_exec_result is test_exec.c's */
};
static unsigned seen;
#define LOOK(T)                                                        \
	static cb_code see_##T(void *context, const T *p, cb_error *e) \
	{                                                              \
		(void)context;                                         \
		(void)e;                                               \
		SEEN(T, p);                                            \
		return CB_OK;                                          \
	}
LOOK(cb_use)
LOOK(cb_audit)
LOOK(cb_conflict)
LOOK(cb_step)
LOOK(cb_change_stat)
LOOK(cb_checkpoint)
LOOK(cb_blame_line)
LOOK(cb_grep_line)
LOOK(cb_apply_item)

static cb_code see_cb_change(void *context, const cb_change *c, cb_error *e)
{
	(void)context;
	(void)e;
	SEEN(cb_change, c);
	CHECK(c->old_info && c->new_info);
	CHECK(c->has_new == (c->new_info->struct_size == sizeof(cb_stat_info)));
	CHECK(c->has_old == (c->old_info->struct_size == sizeof(cb_stat_info)));
	return CB_OK;
}

static bool see_cb_progress(void *context, const cb_progress *p)
{
	(void)context;
	SEEN(cb_progress, p);
	return true;
}

/* These have no visitor. */
static void see_cursors(void)
{
	cb_cursor *c = NULL;
	const cb_entry *entry = NULL;
	const cb_name *name = NULL;
	CHECK_OK(cb_walk_open(b, "/", &c, &err));
	CHECK_OK(cb_entry_next(c, &entry, &err));
	SEEN(cb_entry, entry);
	CHECK_U64(entry->info->struct_size, sizeof(cb_stat_info));
	cb_cursor_close(c);
	CHECK_OK(cb_tag_add(b, "/work/a.txt", "red", &err));
	CHECK_OK(cb_tag_open(b, "/work/a.txt", &c, &err));
	CHECK_OK(cb_name_next(c, &name, &err));
	SEEN(cb_name, name);
	cb_cursor_close(c);
}

TEST(lent_structs_say_their_size)
{
	begin();
	see_cursors();
	cb_box *old = must_open(s, "demo@0"), *t = must_begin(b);
	CHECK_OK(cb_store_uses(s, see_cb_use, NULL, &err));
	CHECK_OK(cb_audit_list(s, NULL, see_cb_audit, NULL, &err));
	CHECK_OK(cb_log(b, NULL, see_cb_step, NULL, NULL, &err));
	CHECK_OK(cb_diff(old, b, NULL, see_cb_change, NULL, &err));
	CHECK_OK(cb_diff_stat(old, b, NULL, see_cb_change_stat, NULL, &err));
	CHECK_OK(cb_checkpoint_save(b, "named", 0, true, &err));
	CHECK_OK(cb_checkpoint_list(b, see_cb_checkpoint, NULL, &err));
	CHECK_OK(cb_blame(b, "/work/a.txt", see_cb_blame_line, NULL, &err));
	CHECK_OK(cb_grep(b, "/", &CB_WITH(cb_grep_options, .pattern = "two"), see_cb_grep_line, NULL, NULL, &err));
	must_write(t, "/work/a.txt", "theirs");
	must_write(b, "/work/a.txt", "ours");
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
	CHECK_OK(cb_txn_conflicts(t, see_cb_conflict, NULL, &err));
	char *large = test_keep(calloc(1, 4 << 20));
	CHECK_OK(cb_write_file(b, "/work/large", large, 4 << 20, NULL, &err));
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .progress = see_cb_progress);
	CHECK_OK(cb_export(b, "/work", folder("lent"), &CB_WITH(cb_export_options, .watch = &watch), NULL, &err));
	CHECK_OK(cb_import(b, host_folder(), &CB_WITH(cb_import_options, .link = true), NULL, &err));
	must_write(b, "/work/new", "x");
	CHECK_OK(cb_apply(b, NULL, see_cb_apply_item, NULL, NULL, &err));
	CHECK_U64(seen, (1u << BIT_COUNT) - 1);
	cb_box_close(old);
	cb_box_close(t);
	finish();
}

/* What CB_INIT makes in C++ is what it makes in C. */
TEST(cpp_makes_the_same)
{
	const char *program = folder("use.cpp");
	FILE *f = fopen(program, "w");
	CHECK(f != NULL);
	(void)fputs("#include <cowbox/cowbox.h>\n"
	            "int main() {\n"
	            "	cb_write_options o = CB_INIT(cb_write_options);\n"
	            "	cb_box_info info = CB_INIT(cb_box_info);\n"
	            "	o.append = true;\n"
	            "	return o.struct_size == sizeof(o) && o.mode == 0 && info.struct_size == sizeof(info) ? 0 : 1;\n"
	            "}\n",
	            f);
	CHECK(fclose(f) == 0);
	const char *line = text_of("c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I'%s/include' -o '%s' '%s' && '%s'",
	                           project_root(), folder("use"), program, folder("use"));
	CHECK_MSG(system(line) == 0, "%s", line);
}
