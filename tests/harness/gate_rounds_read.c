/* gate_rounds_read.c: rounds that read; see gate_rounds.h. */
#include "harness/gate_rounds.h"

/* ---- reading ---- */

static cb_code say_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	say_stat(context, name, info);
	return CB_OK;
}

static void stat_one(world *w, const char *path)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_error e = {0};
	cb_code code = cb_stat(w->agent, path, 0, &info, &e);
	say_code(w, "stat", code, &e);
	if (code == CB_OK) say_stat(w, path, &info);
	code = cb_stat(w->agent, path, CB_NOFOLLOW, &info, &e);
	say_code(w, "lstat", code, &e);
	if (code == CB_OK) say_stat(w, path, &info);
}

static void say_taken(world *w, char **text)
{
	say(w, "[%s]\n", *text ? *text : "");
	cb_free(*text);
	*text = NULL;
}

static void read_one(world *w, const char *path)
{
	char *text = NULL, bytes[16] = "";
	size_t size = 0;
	cb_error e = {0};
	cb_code code = cb_read_file(w->agent, path, &text, &size, &e);
	say_code(w, "read", code, &e);
	say(w, "[%.*s]\n", (int)size, text ? text : "");
	cb_free(text);
	size = 0;
	code = cb_read_at(w->agent, path, 1, bytes, sizeof(bytes), &size, &e);
	say_code(w, "read_at", code, &e);
	say(w, "[%.*s]\n", (int)size, bytes);
	text = NULL;
	code = cb_readlink(w->agent, path, &text, NULL, &e);
	say_code(w, "readlink", code, &e);
	say_taken(w, &text);
}

static void list_one(world *w, const char *path)
{
	SAY(w, cb_readdir(w->agent, path, say_entry, w, &e));
	SAY(w, cb_walk(w->agent, path, say_walk, w, &e));
	SAY(w, cb_find(w->agent, path, NULL, say_walk, w, &e));
	SAY(w, cb_find(w->agent, path, &CB_WITH(cb_find_options, .empty = true), say_walk, w, &e));
	SAY(w, cb_find(w->agent, path, &CB_WITH(cb_find_options, .tag = "shown"), say_walk, w, &e));
	SAY(w, cb_find(w->agent, path, &CB_WITH(cb_find_options, .newer_ns = (int64_t)1700000001 * 1000000000), say_walk, w, &e));
}

static void attributes_one(world *w, const char *path)
{
	char *text = NULL;
	size_t size = 0;
	SAY(w, cb_xattr_list(w->agent, path, 0, say_name, w, &e));
	SAY(w, cb_tag_list(w->agent, path, say_name, w, &e));
	SAY(w, cb_meta_list(w->agent, path, say_name, w, &e));
	SAY(w, cb_xattr_get(w->agent, path, "user.x", 0, &text, &size, &e));
	say_taken(w, &text);
	SAY(w, cb_meta_get(w->agent, path, "m", &text, NULL, &e));
	say_taken(w, &text);
}

void round_stat(world *w)
{
	each_path(w, stat_one);
}

void round_read(world *w)
{
	each_path(w, read_one);
}

void round_list(world *w)
{
	each_path(w, list_one);
	static const char *const patterns[] = {"/**", "/work/pub/*", "/work/pub/.*", "/work/pub/.secret/*",
	                                       "/p*", "/private/**", "**/key"};
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		say(w, "glob %s\n", patterns[i]);
		SAY(w, cb_glob(w->agent, patterns[i], say_walk, w, &e));
	}
}

void round_attributes(world *w)
{
	each_path(w, attributes_one);
}

void round_keys(world *w)
{
	static const char *const keys[] = {"pub.k", "hid.k", "hid.none", "none", "roo.k"};
	char *text = NULL;
	size_t size = 0;
	SAY(w, cb_kv_list(w->agent, "", say_name, w, &e));
	SAY(w, cb_kv_list(w->agent, "hid", say_name, w, &e));
	SAY(w, cb_kv_list(w->agent, NULL, say_name, w, &e));
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		say(w, "key %s\n", keys[i]);
		SAY(w, cb_kv_get(w->agent, keys[i], &text, &size, &e));
		say_taken(w, &text);
		SAY(w, cb_kv_set(w->agent, keys[i], "new", 3, &e));
		SAY(w, cb_kv_delete(w->agent, keys[i], &e));
	}
}

static cb_code say_grep(void *context, const cb_grep_line *l, cb_error *err)
{
	(void)err;
	say(context, "%s:%" PRIu64 ":%.*s\n", l->path, l->line, (int)l->size, l->text ? l->text : "");
	return CB_OK;
}

static void grep_one(world *w, const char *path)
{
	cb_grep_count count = CB_INIT(cb_grep_count);
	SAY(w, cb_grep(w->agent, path, &CB_WITH(cb_grep_options, .pattern = "e", .hidden_too = true), say_grep, w, &count, &e));
	say(w, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", count.files, count.matched_files, count.matched_lines);
}

void round_grep(world *w)
{
	each_path(w, grep_one);
}

cb_code say_box_info(void *context, const cb_box_info *i, cb_error *err)
{
	(void)err;
	say(context, "box %s from %s files %" PRIu64 " bytes %" PRIu64 " seq %" PRIu64 " q%" PRIu64 "\n", i->name, i->origin,
	    i->files, i->bytes, i->seq, i->quota_files);
	return CB_OK;
}

void round_info(world *w)
{
	cb_box_info info = CB_INIT(cb_box_info);
	SAY(w, cb_box_info_get(w->agent, &info, &e));
	(void)say_box_info(w, &info, NULL);
	SAY(w, cb_box_list(w->s, say_box_info, w, &e));
}

/* ---- history ---- */

static cb_code say_stat_line(void *context, const cb_change_stat *s, cb_error *err)
{
	say(context, "%d +%" PRIu64 " -%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", s->binary, s->added, s->removed, s->old_bytes,
	    s->new_bytes);
	return say_change(context, s->change, err);
}

static void diff_pair(world *w, cb_box *from, cb_box *to, const char *path)
{
	char *text = NULL;
	size_t size = 0;
	SAY(w, cb_diff(from, to, path, say_change, w, &e));
	SAY(w, cb_diff_stat(from, to, path, say_stat_line, w, &e));
	SAY(w, cb_diff_text(from, to, &CB_WITH(cb_diff_text_options, .path = path), &text, &size, &e));
	say(w, "%.*s\n", (int)size, text ? text : "");
	cb_free(text);
}

void round_diff(world *w)
{
	cb_error err = {0};
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(w->agent, &info, &err));
	cb_box *first = must_open(w->s, "demo@0"), *cp = must_open(w->s, "demo@cp");
	cb_box *t = must_begin(w->agent);
	story_put(t, "/work/pub/t", "in a transaction\n");
	diff_pair(w, first, w->agent, NULL);
	diff_pair(w, w->agent, cp, NULL);
	diff_pair(w, first, w->agent, "/work/pub");
	diff_pair(w, first, w->agent, "/private");
	diff_pair(w, cp, t, NULL);
	for (uint64_t seq = 0; seq <= info.seq; seq++) {
		say(w, "step %" PRIu64 "\n", seq);
		SAY(w, cb_diff_step(w->agent, seq, NULL, say_change, w, &e));
	}
	cb_box_close(t);
	cb_box_close(cp);
	cb_box_close(first);
}

static cb_code say_audit(void *context, const cb_audit *a, cb_error *err)
{
	(void)err;
	say(context, "%" PRId64 " %s %s %s %s %s %s #%" PRIu64 " x%" PRIu64 "\n", a->time_ns, a->box, a->who, a->action, a->subject,
	    cb_code_name(a->code), a->message, a->seq, a->count);
	return CB_OK;
}

static cb_code say_blame(void *context, const cb_blame_line *l, cb_error *err)
{
	(void)err;
	say(context, "%" PRIu64 " %s@%" PRIu64 " %.*s\n", l->line, l->box, l->seq, (int)l->size, l->text);
	return CB_OK;
}

static void log_one(world *w, const char *path)
{
	bool pruned = false;
	SAY(w, cb_log(w->agent, &CB_WITH(cb_log_options, .path = path), say_step, w, &pruned, &e));
	SAY(w, cb_blame(w->agent, path, say_blame, w, &e));
}

void round_log(world *w)
{
	cb_error err = {0};
	cb_box_info info = CB_INIT(cb_box_info);
	bool pruned = false;
	each_path(w, log_one);
	SAY(w, cb_log(w->agent, NULL, say_step, w, &pruned, &e));
	CHECK_OK(cb_box_info_get(w->agent, &info, &err));
	for (uint64_t seq = 0; seq <= info.seq + 1; seq++) SAY(w, cb_step_get(w->agent, seq, say_step, w, &e));
	SAY(w, cb_audit_list(w->s, NULL, say_audit, w, &e));
	SAY(w, cb_audit_list(w->s, &CB_WITH(cb_audit_options, .refused = true), say_audit, w, &e));
}

void round_states(world *w)
{
	cb_box_info info = CB_INIT(cb_box_info);
	cb_error err = {0};
	CHECK_OK(cb_box_info_get(w->agent, &info, &err));
	for (uint64_t seq = 0; seq <= info.seq; seq += 3) {
		char address[32];
		(void)snprintf(address, sizeof(address), "demo@%" PRIu64, seq);
		cb_box *old = must_open(w->s, address);
		say(w, "%s\n", address);
		say_box(w, old);
		cb_box_close(old);
	}
}

static cb_code say_checkpoint(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)err;
	say(context, "%s@%" PRIu64 " %" PRId64 "\n", c->name, c->seq, c->created_ns);
	return CB_OK;
}

void round_checkpoints(world *w)
{
	SAY(w, cb_checkpoint_save(w->agent, "mine", 0, true, &e));
	SAY(w, cb_checkpoint_list(w->agent, say_checkpoint, w, &e));
	SAY(w, cb_checkpoint_delete(w->agent, "mine", &e));
	SAY(w, cb_box_checkpoint_every_set(w->agent, 1000, &e));
	SAY(w, cb_step_record(w->agent,
	                      &CB_WITH(cb_step_info, .kind = "note", .params = "mine", .params_size = CB_STRING, .result = "done",
	                               .result_size = CB_STRING),
	                      NULL, &e));
	say(w, "%d\n", cb_box_step(w->agent) > 0);
}

/* ---- cursors ---- */

/* Opens one, goes through it, and says what each visitor says. */
#define GO(w, opened, T, next, tell)                                     \
	do {                                                             \
		cb_cursor *c = NULL;                                     \
		cb_error e = {0};                                        \
		cb_code code = opened;                                   \
		say_code(w, #opened, code, &e);                          \
		while (code == CB_OK) {                                  \
			const T *x = NULL;                               \
			code = next(c, &x, &e);                          \
			if (code != CB_OK) say_code(w, #next, code, &e); \
			if (code != CB_OK || !x) break;                  \
			CHECK(tell == CB_OK);                            \
		}                                                        \
		cb_cursor_close(c);                                      \
	} while (0)

static void cursors_one(world *w, const char *path)
{
	cb_box *b = w->agent;
	GO(w, cb_readdir_open(b, path, &c, &e), cb_entry, cb_entry_next, say_entry(w, x->path, x->info, NULL));
	GO(w, cb_walk_open(b, path, &c, &e), cb_entry, cb_entry_next, say_walk(w, x->path, x->info, NULL));
	GO(w, cb_find_open(b, path, NULL, &c, &e), cb_entry, cb_entry_next, say_walk(w, x->path, x->info, NULL));
	GO(w, cb_xattr_open(b, path, 0, &c, &e), cb_name, cb_name_next, say_name(w, x->name, x->value, x->value_size, NULL));
	GO(w, cb_tag_open(b, path, &c, &e), cb_name, cb_name_next, say_name(w, x->name, x->value, x->value_size, NULL));
	GO(w, cb_meta_open(b, path, &c, &e), cb_name, cb_name_next, say_name(w, x->name, x->value, x->value_size, NULL));
	GO(w, cb_grep_open(b, path, &CB_WITH(cb_grep_options, .pattern = "e"), &c, &e), cb_grep_line, cb_grep_next,
	   say_grep(w, x, NULL));
	GO(w, cb_log_open(b, &CB_WITH(cb_log_options, .path = path), &c, &e), cb_step, cb_step_next, say_step(w, x, NULL));
	GO(w, cb_blame_open(b, path, &c, &e), cb_blame_line, cb_blame_next, say_blame(w, x, NULL));
}

void round_cursors(world *w)
{
	cb_box *b = w->agent, *first = must_open(w->s, "demo@0"), *t = must_begin(b);
	bool pruned = false;
	cb_grep_count counted = CB_INIT(cb_grep_count);
	cb_cursor *log = NULL, *grep = NULL;
	const cb_step *step = NULL;
	const cb_grep_line *line = NULL;
	story_put(t, "/work/pub/t", "in a transaction\n");
	each_path(w, cursors_one);
	GO(w, cb_glob_open(b, "/**", &c, &e), cb_entry, cb_entry_next, say_walk(w, x->path, x->info, NULL));
	GO(w, cb_kv_open(b, "", &c, &e), cb_name, cb_name_next, say_name(w, x->name, x->value, x->value_size, NULL));
	GO(w, cb_diff_open(first, t, NULL, &c, &e), cb_change, cb_change_next, say_change(w, x, NULL));
	GO(w, cb_diff_step_open(b, 1, NULL, &c, &e), cb_change, cb_change_next, say_change(w, x, NULL));
	GO(w, cb_diff_stat_open(first, b, NULL, &c, &e), cb_change_stat, cb_change_stat_next, say_stat_line(w, x, NULL));
	GO(w, cb_checkpoint_open(b, &c, &e), cb_checkpoint, cb_checkpoint_next, say_checkpoint(w, x, NULL));
	GO(w, cb_conflict_open(t, &c, &e), cb_conflict, cb_conflict_next, say_conflict(w, x, NULL));
	GO(w, cb_box_list_open(w->s, &c, &e), cb_box_info, cb_box_next, say_box_info(w, x, NULL));
	GO(w, cb_audit_open(w->s, NULL, &c, &e), cb_audit, cb_audit_next, say_audit(w, x, NULL));
	SAY(w, cb_log_open(b, NULL, &log, &e));
	SAY(w, cb_step_next(log, &step, &e));
	SAY(w, cb_log_pruned(log, &pruned, &e));
	SAY(w, cb_grep_open(b, "/", &CB_WITH(cb_grep_options, .pattern = "e"), &grep, &e));
	do SAY(w, cb_grep_next(grep, &line, &e));
	while (line);
	SAY(w, cb_grep_counted(grep, &counted, &e));
	say(w, "%d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", pruned, counted.files, counted.matched_files, counted.matched_lines);
	cb_cursor_close(grep);
	cb_cursor_close(log);
	cb_box_close(t);
	cb_box_close(first);
}
