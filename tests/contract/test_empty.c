/*
 * test_empty.c: what an empty string means, at every call that takes one: an empty path names nothing (CB_NOTFOUND), an empty name, key,
 * kind or pattern is CB_INVALID, a text may be empty.
 *
 * One row for each string of each public call and struct; the headers are read to see that none is missing.
 */
#include "contract/test_docs_kit.h"

#include <fcntl.h>

#include "base/attr.h"
#include "base/buf.h"

static cb_store *s;
static cb_box *b, *t, *old;
static cb_error err;

/* What a call would give away; nothing does. */
static cb_store *store_out;
static cb_box *box_out;
static cb_file *file_out;
static cb_cursor *cursor_out;
static cb_sandbox *sandbox_out, *sandbox;
static cb_exec *exec_out;
static char *text, room[4];
static size_t size;
static cb_stat_info info = {.struct_size = sizeof(info)};
static cb_tier_report report = {.struct_size = sizeof(report)};
static const cb_replacement edit = {"one", 3, "two", 3};
static const char *const empty[] = {""}, *const argv[] = {"true"}, *const argv_empty[] = {"true", ""};

static buf seen = {.max_size = 1 << 20};

static void must_be(const char *where, const char *argument, cb_code wish, cb_code code)
{
	CHECK_MSG(code == wish, "%s with an empty %s: %s (%s), not %s", where, argument, cb_code_name(code), err.message,
	          cb_code_name(wish));
	CHECK_MSG(code == CB_OK || (err.code == code && err.message[0]), "%s with an empty %s: no message", where, argument);
	err = (cb_error){0};
	CHECK_OK(buf_printf(&seen, &err, " %s.%s ", where, argument));
}

static cb_code see_name(void *context, const char *name, const char *value, size_t bytes, cb_error *e)
{
	(void)context, (void)name, (void)value, (void)bytes, (void)e;
	return CB_OK;
}
static cb_code see_entry(void *context, const char *path, const cb_stat_info *i, cb_error *e)
{
	(void)context, (void)path, (void)i, (void)e;
	return CB_OK;
}
static cb_code see_change(void *context, const cb_change *change, cb_error *e)
{
	(void)context, (void)change, (void)e;
	return CB_OK;
}
static cb_code see_stat(void *context, const cb_change_stat *stat, cb_error *e)
{
	(void)context, (void)stat, (void)e;
	return CB_OK;
}
static cb_code see_step(void *context, const cb_step *step, cb_error *e)
{
	(void)context, (void)step, (void)e;
	return CB_OK;
}
static cb_code see_blame(void *context, const cb_blame_line *line, cb_error *e)
{
	(void)context, (void)line, (void)e;
	return CB_OK;
}
static cb_code see_grep(void *context, const cb_grep_line *line, cb_error *e)
{
	(void)context, (void)line, (void)e;
	return CB_OK;
}

#define ROW(where, argument, code, expression) must_be(#where, #argument, CB_##code, (expression));
#define WITH(type, ...) (&CB_WITH(type, __VA_ARGS__))
#define A "/work/a"

/* clang-format off: a row a line */
static void paths(void)
{
	ROW(cb_read_file, path, NOTFOUND, cb_read_file(b, "", &text, &size, &err))
	ROW(cb_read_at, path, NOTFOUND, cb_read_at(b, "", 0, room, 1, &size, &err))
	ROW(cb_write_file, path, NOTFOUND, cb_write_file(b, "", "x", 1, NULL, &err))
	ROW(cb_write_file, path, NOTFOUND, cb_write_file(b, "", "x", 1, WITH(cb_write_options, .parents = true), &err))
	ROW(cb_edit, path, NOTFOUND, cb_edit(b, "", &edit, 1, NULL, NULL, &err))
	ROW(cb_truncate, path, NOTFOUND, cb_truncate(b, "", 0, &err))
	ROW(cb_stat, path, NOTFOUND, cb_stat(b, "", 0, &info, &err))
	ROW(cb_mkdir, path, NOTFOUND, cb_mkdir(b, "", 0755, 0, &err))
	ROW(cb_mkdir, path, NOTFOUND, cb_mkdir(b, "", 0755, CB_PARENTS, &err))
	ROW(cb_rmdir, path, NOTFOUND, cb_rmdir(b, "", &err))
	ROW(cb_unlink, path, NOTFOUND, cb_unlink(b, "", &err))
	ROW(cb_rename, from, NOTFOUND, cb_rename(b, "", "/work/z", 0, &err))
	ROW(cb_rename, to, NOTFOUND, cb_rename(b, A, "", CB_PARENTS, &err))
	ROW(cb_link, from, NOTFOUND, cb_link(b, "", "/work/z", &err))
	ROW(cb_link, to, NOTFOUND, cb_link(b, A, "", &err))
	ROW(cb_symlink, target, NOTFOUND, cb_symlink(b, "", "/work/z", &err))
	ROW(cb_symlink, path, NOTFOUND, cb_symlink(b, "a", "", &err))
	ROW(cb_readlink, path, NOTFOUND, cb_readlink(b, "", &text, &size, &err))
	ROW(cb_chmod, path, NOTFOUND, cb_chmod(b, "", 0755, 0, &err))
	ROW(cb_utimens, path, NOTFOUND, cb_utimens(b, "", 1, 1, 0, &err))
	ROW(cb_readdir, path, NOTFOUND, cb_readdir(b, "", see_entry, NULL, &err))
	ROW(cb_readdir_open, path, NOTFOUND, cb_readdir_open(b, "", &cursor_out, &err))
	ROW(cb_walk, path, NOTFOUND, cb_walk(b, "", see_entry, NULL, &err))
	ROW(cb_walk_open, path, NOTFOUND, cb_walk_open(b, "", &cursor_out, &err))
	ROW(cb_copy, from, NOTFOUND, cb_copy(b, "", "/work/z", 0, &err))
	ROW(cb_copy, to, NOTFOUND, cb_copy(b, A, "", CB_PARENTS, &err))
	ROW(cb_remove, path, NOTFOUND, cb_remove(b, "", &err))
	ROW(cb_open, path, NOTFOUND, cb_open(b, "", CB_READ, 0, &file_out, &err))
	ROW(cb_open, path, NOTFOUND, cb_open(b, "", CB_WRITE | CB_CREATE, 0644, &file_out, &err))
	ROW(cb_xattr_set, path, NOTFOUND, cb_xattr_set(b, "", "n", "v", 1, 0, &err))
	ROW(cb_xattr_get, path, NOTFOUND, cb_xattr_get(b, "", "n", 0, &text, &size, &err))
	ROW(cb_xattr_remove, path, NOTFOUND, cb_xattr_remove(b, "", "n", 0, &err))
	ROW(cb_xattr_list, path, NOTFOUND, cb_xattr_list(b, "", 0, see_name, NULL, &err))
	ROW(cb_xattr_open, path, NOTFOUND, cb_xattr_open(b, "", 0, &cursor_out, &err))
	ROW(cb_tag_add, path, NOTFOUND, cb_tag_add(b, "", "t", &err))
	ROW(cb_tag_remove, path, NOTFOUND, cb_tag_remove(b, "", "t", &err))
	ROW(cb_tag_list, path, NOTFOUND, cb_tag_list(b, "", see_name, NULL, &err))
	ROW(cb_tag_open, path, NOTFOUND, cb_tag_open(b, "", &cursor_out, &err))
	ROW(cb_meta_set, path, NOTFOUND, cb_meta_set(b, "", "n", "v", 1, &err))
	ROW(cb_meta_get, path, NOTFOUND, cb_meta_get(b, "", "n", &text, &size, &err))
	ROW(cb_meta_list, path, NOTFOUND, cb_meta_list(b, "", see_name, NULL, &err))
	ROW(cb_meta_open, path, NOTFOUND, cb_meta_open(b, "", &cursor_out, &err))
	ROW(cb_log_options, path, NOTFOUND, cb_log(b, WITH(cb_log_options, .path = ""), see_step, NULL, NULL, &err))
	ROW(cb_log_options, path, NOTFOUND, cb_log_open(b, WITH(cb_log_options, .path = ""), &cursor_out, &err))
	ROW(cb_diff, path, NOTFOUND, cb_diff(old, b, "", see_change, NULL, &err))
	ROW(cb_diff_open, path, NOTFOUND, cb_diff_open(old, b, "", &cursor_out, &err))
	ROW(cb_diff_step, path, NOTFOUND, cb_diff_step(b, 1, "", see_change, NULL, &err))
	ROW(cb_diff_step_open, path, NOTFOUND, cb_diff_step_open(b, 1, "", &cursor_out, &err))
	ROW(cb_diff_stat, path, NOTFOUND, cb_diff_stat(old, b, "", see_stat, NULL, &err))
	ROW(cb_diff_stat_open, path, NOTFOUND, cb_diff_stat_open(old, b, "", &cursor_out, &err))
	ROW(cb_diff_text_options, path, NOTFOUND, cb_diff_text(old, b, WITH(cb_diff_text_options, .path = ""), &text, NULL, &err))
	ROW(cb_restore, path, NOTFOUND, cb_restore(b, old, "", NULL, &err))
	ROW(cb_blame, path, NOTFOUND, cb_blame(b, "", see_blame, NULL, &err))
	ROW(cb_blame_open, path, NOTFOUND, cb_blame_open(b, "", &cursor_out, &err))
	ROW(cb_grep, path, NOTFOUND, cb_grep(b, "", WITH(cb_grep_options, .pattern = "x"), see_grep, NULL, NULL, &err))
	ROW(cb_grep_open, path, NOTFOUND, cb_grep_open(b, "", WITH(cb_grep_options, .pattern = "x"), &cursor_out, &err))
	ROW(cb_find, path, NOTFOUND, cb_find(b, "", NULL, see_entry, NULL, &err))
	ROW(cb_find_open, path, NOTFOUND, cb_find_open(b, "", NULL, &cursor_out, &err))
}

static void host_paths(const char *folder, int fd)
{
	ROW(cb_store_open, path, NOTFOUND, cb_store_open("", NULL, &store_out, &err))
	ROW(cb_store_backup, to_path, NOTFOUND, cb_store_backup(s, "", &err))
	ROW(cb_import, host_path, NOTFOUND, cb_import(b, "", NULL, NULL, &err))
	ROW(cb_import_options, to, NOTFOUND, cb_import(b, folder, WITH(cb_import_options, .to = ""), NULL, &err))
	ROW(cb_import_options, exclude, INVALID,
	    cb_import(b, folder, WITH(cb_import_options, .exclude = empty, .exclude_count = 1), NULL, &err))
	ROW(cb_export, path, NOTFOUND, cb_export(b, "", text_of("%s/out", folder), NULL, NULL, &err))
	ROW(cb_export, host_path, NOTFOUND, cb_export(b, "/work", "", NULL, NULL, &err))
	ROW(cb_export_options, exclude, INVALID,
	    cb_export(b, "/work", text_of("%s/out", folder), WITH(cb_export_options, .exclude = empty, .exclude_count = 1), NULL,
	              &err))
	ROW(cb_folder_box, host_path, NOTFOUND, cb_folder_box(s, "", &text, &err))
	ROW(cb_apply_options, folder, NOTFOUND, cb_apply(b, WITH(cb_apply_options, .folder = ""), NULL, NULL, NULL, &err))
	ROW(cb_apply_options, paths, INVALID,
	    cb_apply(b, WITH(cb_apply_options, .paths = empty, .path_count = 1), NULL, NULL, NULL, &err))
	ROW(cb_apply_options, allow, INVALID,
	    cb_apply(b, WITH(cb_apply_options, .allow = empty, .allow_count = 1), NULL, NULL, NULL, &err))
	ROW(cb_tar_export, path, NOTFOUND, cb_tar_export(b, "", fd, NULL, NULL, &err))
	ROW(cb_tar_options, to, NOTFOUND, cb_tar_import(b, fd, WITH(cb_tar_options, .to = ""), NULL, &err))
	ROW(cb_tar_options, exclude, INVALID,
	    cb_tar_import(b, fd, WITH(cb_tar_options, .exclude = empty, .exclude_count = 1), NULL, &err))
	ROW(cb_tar_options, exclude, INVALID,
	    cb_tar_export(b, "/", fd, WITH(cb_tar_options, .exclude = empty, .exclude_count = 1), NULL, &err))
	ROW(cb_sandbox_try, folder, NOTFOUND, cb_sandbox_try("", CB_TIER_FOLDER, &report, &err))
	ROW(cb_sandbox_options, root, NOTFOUND, cb_sandbox_open(b, WITH(cb_sandbox_options, .root = ""), &sandbox_out, &err))
	ROW(cb_sandbox_options, path, INVALID, cb_sandbox_open(b, WITH(cb_sandbox_options, .path = ""), &sandbox_out, &err))
	ROW(cb_bind, host_path, INVALID,
	    cb_sandbox_open(b, WITH(cb_sandbox_options, .binds = &(cb_bind){"", "/x", false}, .bind_count = 1), &sandbox_out, &err))
	ROW(cb_bind, box_path, INVALID,
	    cb_sandbox_open(b, WITH(cb_sandbox_options, .binds = &(cb_bind){"/usr", "", false}, .bind_count = 1), &sandbox_out,
	                    &err))
}

static void names(int fd)
{
	ROW(cb_box_create, name, INVALID, cb_box_create(s, "", &box_out, &err))
	ROW(cb_box_draft, name, INVALID, cb_box_draft(s, "", &box_out, &err))
	ROW(cb_box_open, address, INVALID, cb_box_open(s, "", &box_out, &err))
	ROW(cb_box_open, address, INVALID, cb_box_open(s, "demo@", &box_out, &err))
	ROW(cb_box_fork, address, INVALID, cb_box_fork(s, "", "x", &box_out, &err))
	ROW(cb_box_fork, name, INVALID, cb_box_fork(s, "demo", "", &box_out, &err))
	ROW(cb_box_rename, name, INVALID, cb_box_rename(s, "", "x", &err))
	ROW(cb_box_rename, new_name, INVALID, cb_box_rename(s, "demo", "", &err))
	ROW(cb_box_delete, name, INVALID, cb_box_delete(s, "", &err))
	ROW(cb_unpack, name, INVALID, cb_unpack(s, fd, "", NULL, NULL, &err))
	ROW(cb_exec_recover, box, INVALID, cb_exec_recover(s, "", NULL, &err))
	ROW(cb_exec_drop, box, INVALID, cb_exec_drop(s, "", NULL, &err))
	ROW(cb_txn_keep, name, INVALID, cb_txn_keep(t, "", NULL, &err))
	ROW(cb_checkpoint_save, name, INVALID, cb_checkpoint_save(b, "", 0, true, &err))
	ROW(cb_checkpoint_delete, name, INVALID, cb_checkpoint_delete(b, "", &err))
	ROW(cb_setting_set, key, INVALID, cb_setting_set(b, "", "v", 1, &err))
	ROW(cb_setting_get, key, INVALID, cb_setting_get(b, "", &text, &size, &err))
	ROW(cb_store_setting_set, key, INVALID, cb_store_setting_set(s, "", "v", 1, &err))
	ROW(cb_store_setting_get, key, INVALID, cb_store_setting_get(s, "", &text, &size, &err))
	ROW(cb_pin_set, owner, INVALID, cb_pin_set(b, "", "why", 0, &err))
	ROW(cb_pin_drop, owner, INVALID, cb_pin_drop(s, "", &err))
	ROW(cb_xattr_set, name, INVALID, cb_xattr_set(b, A, "", "v", 1, 0, &err))
	ROW(cb_xattr_get, name, INVALID, cb_xattr_get(b, A, "", 0, &text, &size, &err))
	ROW(cb_xattr_remove, name, INVALID, cb_xattr_remove(b, A, "", 0, &err))
	ROW(cb_tag_add, tag, INVALID, cb_tag_add(b, A, "", &err))
	ROW(cb_tag_remove, tag, INVALID, cb_tag_remove(b, A, "", &err))
	ROW(cb_meta_set, name, INVALID, cb_meta_set(b, A, "", "v", 1, &err))
	ROW(cb_meta_set, name, INVALID, cb_meta_set(b, A, "", NULL, 0, &err))
	ROW(cb_meta_get, name, INVALID, cb_meta_get(b, A, "", &text, &size, &err))
	ROW(cb_kv_set, key, INVALID, cb_kv_set(b, "", "v", 1, &err))
	ROW(cb_kv_get, key, INVALID, cb_kv_get(b, "", &text, &size, &err))
	ROW(cb_kv_delete, key, INVALID, cb_kv_delete(b, "", &err))
	ROW(cb_step_info, kind, INVALID, cb_step_record(b, WITH(cb_step_info, .kind = ""), NULL, &err))
	ROW(cb_step_info, kind, INVALID,
	    cb_txn_begin(b, WITH(cb_txn_options, .step = WITH(cb_step_info, .kind = "")), &box_out, &err))
	ROW(cb_step_info, kind, INVALID,
	    cb_txn_commit(t, WITH(cb_commit_options, .step = WITH(cb_step_info, .kind = "")), NULL, &err))
	ROW(cb_glob, pattern, INVALID, cb_glob(b, "", see_entry, NULL, &err))
	ROW(cb_glob_open, pattern, INVALID, cb_glob_open(b, "", &cursor_out, &err))
	ROW(cb_grep_options, include, INVALID,
	    cb_grep_open(b, "/", WITH(cb_grep_options, .pattern = "x", .include = empty, .include_count = 1), &cursor_out, &err))
	ROW(cb_grep_options, exclude, INVALID,
	    cb_grep_open(b, "/", WITH(cb_grep_options, .pattern = "x", .exclude = empty, .exclude_count = 1), &cursor_out, &err))
	ROW(cb_find_options, name, INVALID, cb_find(b, "/", WITH(cb_find_options, .name = ""), see_entry, NULL, &err))
	ROW(cb_find_options, path_glob, INVALID, cb_find(b, "/", WITH(cb_find_options, .path_glob = ""), see_entry, NULL, &err))
	ROW(cb_find_options, tag, INVALID, cb_find_open(b, "/", WITH(cb_find_options, .tag = ""), &cursor_out, &err))
	ROW(cb_find_options, meta, INVALID, cb_find_open(b, "/", WITH(cb_find_options, .meta = ""), &cursor_out, &err))
}

/* Those that need a sandbox. */
#define PROGRAMS(X)                                                                                    \
	X(cb_exec_options, cwd, INVALID, START(.argv = argv, .argc = 1, .cwd = ""))                    \
	X(cb_exec_options, checkpoint, INVALID, START(.argv = argv, .argc = 1, .checkpoint = ""))      \
	X(cb_exec_options, kind, INVALID, START(.argv = argv, .argc = 1, .kind = ""))                  \
	X(cb_exec_options, env, INVALID, START(.argv = argv, .argc = 1, .env = empty, .env_count = 1)) \
	X(cb_exec_options, argv, INVALID, START(.argv = empty, .argc = 1))
#define START(...) cb_exec_start(sandbox, WITH(cb_exec_options, __VA_ARGS__), &exec_out, &err)
/* clang-format on */

static uint64_t audited(const char *box, const char *who)
{
	cb_cursor *c = NULL;
	const cb_audit *entry = NULL;
	uint64_t count = 0;
	CHECK_OK(cb_audit_open(s, WITH(cb_audit_options, .box = box, .who = who), &c, &err));
	for (; cb_audit_next(c, &entry, &err) == CB_OK && entry; count++) {
		CHECK(!box || strcmp(entry->box, box) == 0);
		CHECK(!who || strcmp(entry->who, who) == 0);
	}
	cb_cursor_close(c);
	return count;
}

static cb_code count_name(void *context, const char *name, const char *value, size_t bytes, cb_error *e)
{
	(void)name, (void)value, (void)bytes, (void)e;
	++*(int *)context;
	return CB_OK;
}

/* What may be empty, and what it means then. */
static void texts(void)
{
	int count = 0;
	cb_grep_count found = CB_INIT(cb_grep_count);
	cb_resolution none = {"", CB_PREFER_BOX};
	CHECK_OK(cb_kv_set(b, "k", "", 0, &err));
	ROW(cb_kv_list, prefix, OK, cb_kv_list(b, "", count_name, &count, &err))
	ROW(cb_kv_open, prefix, OK, cb_kv_open(b, "", &cursor_out, &err))
	cb_cursor_close(cursor_out);
	CHECK_U64(count, 1);
	ROW(cb_grep_options, pattern, OK, cb_grep(b, A, WITH(cb_grep_options, .pattern = ""), see_grep, NULL, &found, &err))
	ROW(cb_grep_options, pattern, OK,
	    cb_grep(b, A, WITH(cb_grep_options, .pattern = "", .fixed = true), see_grep, NULL, &found, &err))
	CHECK_U64(found.matched_lines, 1);
	ROW(cb_pin_set, why, OK, cb_pin_set(b, "job", "", 0, &err))
	CHECK_OK(cb_pin_drop(s, "job", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK(audited("", NULL) > 0); /* what concerns the store */
	CHECK_OK(buf_printf(&seen, &err, " cb_audit_options.box "));
	CHECK_OK(cb_box_who_set(b, "somebody", &err));
	CHECK_OK(cb_kv_set(b, "k", "1", 1, &err));
	uint64_t nobody = audited(NULL, "");
	ROW(cb_box_who_set, who, OK, cb_box_who_set(b, "", &err))
	ROW(cb_store_who_set, who, OK, cb_store_who_set(s, "", &err))
	CHECK_OK(cb_kv_set(b, "k", "2", 1, &err));
	CHECK_U64(audited(NULL, ""), nobody + 1);
	CHECK_OK(buf_printf(&seen, &err, " cb_audit_options.who "));
	/* A path that is in no conflict decides nothing. */
	ROW(cb_resolution, path, OK,
	    cb_txn_commit(t, WITH(cb_commit_options, .resolutions = &none, .resolution_count = 1), NULL, &err))
	/* The text to be replaced has at least a byte; the new one need not. */
	ROW(cb_replacement, old_text, INVALID, cb_edit(b, A, &(cb_replacement){"", CB_STRING, "x", 1}, 1, NULL, NULL, &err))
	ROW(cb_replacement, new_text, OK, cb_edit(b, A, &(cb_replacement){"e", 1, "", CB_STRING}, 1, NULL, NULL, &err))
}

static void begin(void)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, A, "one");
	old = must_open(s, "demo@0");
	t = must_begin(b);
	must_write(t, "/work/t", "txn");
}

static void finish(void)
{
	cb_box_close(t);
	cb_box_close(old);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	buf_done(&seen);
}

static void look_at(const char *owner, size_t n, const char *name, int *count)
{
	const char *row = text_of(" %.*s.%.*s ", (int)n, owner, (int)strcspn(name, ",;)"), name);
	++*count;
	CHECK_MSG(strstr((const char *)seen.bytes, row) != NULL, "the string%sis not tested here", row);
}

/* "const char *path" of calls, and of structs that a caller makes: options, and what they point to. */
static void look_for_strings(const char *header, int *count)
{
	static const char *const given[] = {"cb_step_info", "cb_bind", "cb_resolution", "cb_replacement"};
	static const char *const words[] = {"const char *", "const char *const *"};
	for (const char *at = header; (at = strstr(at, "\nCB_API cb_code ")); at++) {
		const char *call = at + strlen("\nCB_API cb_code "), *end = strstr(call, ");");
		for (const char *p = call; (p = strstr(p, words[0])) && p < end;) {
			p += strlen(words[0]);
			look_at(call, strcspn(call, "("), p, count);
		}
	}
	for (const char *at = header; (at = strstr(at, "\ntypedef struct cb_")); at++) {
		const char *name = at + strlen("\ntypedef struct "), *end = strstr(name, "\n}");
		size_t n = strcspn(name, " ;");
		bool ours = name[n] == ';' || n < 8 || strncmp(name + n - 8, "_options", 8) != 0;
		for (size_t i = 0; i < ARRAY_LEN(given); i++)
			if (n == strlen(given[i]) && strncmp(name, given[i], n) == 0) ours = false;
		for (const char *line = name; !ours && (line = strstr(line, "\n\t")) && line < end; line++) {
			const char *word = line + 2, *member = NULL;
			for (size_t i = 0; i < ARRAY_LEN(words); i++)
				if (strncmp(word, words[i], strlen(words[i])) == 0) member = word + strlen(words[i]);
			if (member) look_at(name, n, member + strspn(member, " \n\t"), count);
		}
	}
}

TEST(empty_strings)
{
	begin();
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	paths();
	host_paths(test_tmpdir(), fd);
	names(fd);
	CHECK(close(fd) == 0);
	CHECK_U64(must_seq(b), 1); /* what was refused did nothing */
	CHECK_STR(must_read(t, "/work/t"), "txn");
	texts();
#define NAMED(where, argument, code, expression) CHECK_OK(buf_printf(&seen, &err, " %s.%s ", #where, #argument));
	PROGRAMS(NAMED) /* the test below runs them where it can */
	CHECK_OK(buf_append_byte(&seen, 0, &err));
	int count = 0;
	const char *umbrella = must_text("include/cowbox/cowbox.h");
	for (const char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++)
		look_for_strings(must_text(text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11)), &count);
	CHECK_MSG(count > 110, "%d were looked at", count);
	finish();
}

TEST(empty_strings_of_programs)
{
	begin();
	const cb_exec_result *result = NULL;
	cb_code code = cb_sandbox_open(b, NULL, &sandbox, &err);
	if (code == CB_OK) code = START(.argv = argv_empty, .argc = 2);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "%s", err.message);
	CHECK_OK(cb_exec_wait(exec_out, &result, &err));
	CHECK(result->end == CB_END_EXIT && result->exit_code == 0);
	cb_exec_close(exec_out);
	PROGRAMS(ROW)
	cb_sandbox_close(sandbox);
	finish();
}
