/*
 * test_gate_calls.c: every public call, through the gate, over a box with hidden and read-only parts: what it tells is what it tells over a
 * box in which the hidden parts never were, and what may not be changed is as it was.
 *
 * The table at the end names every function that is marked CB_API; the build compares it with the headers (tools/lint-gate). A new call
 * gets a round here, or a reason why no byte, name or count of a box passes through it.
 */
#include "harness/twins.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the story of both worlds ---- */

static const char *const hidden_paths[] = {
	"/private",   "/private/x", "/private/no", "/work/pub/.secret", "/work/pub/.secret/key", "/work/pub/.secret/no/deep",
	"/work/pub/c"};
static const char *const kept_paths[] = {"/work/ro", "/work/ro/r", "/work/ro/new"};
/* Paths on which calls are tried: hidden with and without a node, below them, by a link to them, kept, and plain. */
static const char *const paths[] = {"/",
                                    "/work",
                                    "/work/pub",
                                    "/work/pub/a",
                                    "/work/pub/none",
                                    "/private",
                                    "/private/x",
                                    "/private/x/y",
                                    "/private/no",
                                    "/work/pub/.secret",
                                    "/work/pub/.secret/key",
                                    "/work/pub/../pub/.secret/./key",
                                    "/work/pub/.secret/no/deep",
                                    "/work/pub/tosecret",
                                    "/work/pub/toprivate/x",
                                    "/work/pub/c",
                                    "/work/ro",
                                    "/work/ro/r",
                                    "/work/ro/new",
                                    "/work/mixed/in",
                                    "/work/mixed"};

#define OWNER(call) CHECK_OK(call)

static void put(cb_box *b, const char *path, const char *text)
{
	cb_error err = {0};
	CHECK_OK(cb_write_file(b, path, text, strlen(text), &CB_WITH(cb_write_options, .parents = true), &err));
}

static void tick(void)
{
	twins_now += 1000000;
}

static void story(world *w)
{
	cb_error err = {0};
	cb_box *o = w->owner;
	tick();
	put(o, "/work/pub/a", "one\ntwo\nthree\n");
	if (hidden_step(w, "write")) put(o, "/work/pub/.secret/key", "TOP SECRET\n");
	twins_now += 1000000000;
	tick();
	put(o, "/work/pub/b", "bee\n");
	if (hidden_step(w, "write")) put(o, "/private/x", "needle in private\n");
	tick();
	OWNER(cb_kv_set(o, "pub.k", "1", 1, &err));
	if (hidden_step(w, "kv")) OWNER(cb_kv_set(o, "hid.k", "2", 1, &err));
	tick();
	OWNER(cb_tag_add(o, "/work/pub/a", "shown", &err));
	if (hidden_step(w, "tag")) OWNER(cb_tag_add(o, "/private/x", "shown", &err));
	tick();
	OWNER(cb_meta_set(o, "/work/pub/a", "m", "v", CB_STRING, &err));
	tick();
	OWNER(cb_xattr_set(o, "/work/pub/a", "user.x", "X", 1, 0, &err));
	tick();
	OWNER(cb_checkpoint_save(o, "cp", 0, true, &err));
	if (hidden_step(w, "rename")) OWNER(cb_rename(o, "/private/x", "/private/y", 0, &err));
	if (hidden_step(w, "rename")) OWNER(cb_rename(o, "/private/y", "/private/x", 0, &err));
	tick();
	put(o, "/work/ro/r", "read only\n");
	tick();
	put(o, "/work/pub/sub/deep/f", "needle\n");
	tick();
	OWNER(cb_symlink(o, ".secret/key", "/work/pub/tosecret", &err));
	tick();
	OWNER(cb_symlink(o, "/private", "/work/pub/toprivate", &err));
	tick();
	put(o, "/work/pub/h1", "linked\n");
	tick();
	OWNER(cb_link(o, "/work/pub/h1", "/work/pub/h2", &err));
	/* One name of a file is hidden: all of it is. */
	if (hidden_step(w, "write")) put(o, "/private/c", "needle with a hidden name\n");
	if (hidden_step(w, "link")) OWNER(cb_link(o, "/private/c", "/work/pub/c", &err));
	tick();
	put(o, "/work/mixed/in", "m\n");
	tick();
	put(w->agent, "/work/pub/mine", "mine\n");
	if (hidden_step(w, "unlink")) OWNER(cb_unlink(o, "/work/pub/c", &err));
	if (hidden_step(w, "link")) OWNER(cb_link(o, "/private/c", "/work/pub/c", &err));
	tick();
	put(o, "/work/pub/a", "one\n2\nthree\nfour\n");
	if (hidden_step(w, "write")) put(o, "/work/pub/.secret/key", "TOP SECRET 2\n");
}

static twins both;

static void begin(void)
{
	twins_open(&both);
	both.clears = true;
	rules_add(&both.rules, RULE_HIDE, "/private");
	rules_add(&both.rules, RULE_HIDE, "/work/pub/.secret");
	rules_add(&both.rules, RULE_HIDE, "/work/room/.secret");
	rules_add(&both.rules, RULE_HIDE, "hid.");
	rules_add(&both.rules, RULE_READ_ONLY, "/work/ro");
	rules_add(&both.rules, RULE_READ_ONLY, "roo.");
	twins_do(&both, "the story", story);
}

/* ---- reading ---- */

static cb_code say_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	say_stat(context, name, info);
	return CB_OK;
}

static void each_path(world *w, void (*run)(world *, const char *))
{
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		say(w, "%s: ", paths[i]);
		run(w, paths[i]);
	}
}

/* But for the name of a file that another name hides: that it cannot be made there tells that something is there, and nothing else does. */
static void each_free_path(world *w, void (*run)(world *, const char *))
{
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (strcmp(paths[i], "/work/pub/c") == 0) continue;
		say(w, "%s: ", paths[i]);
		run(w, paths[i]);
	}
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

static void round_stat(world *w)
{
	each_path(w, stat_one);
}

static void round_read(world *w)
{
	each_path(w, read_one);
}

static void round_list(world *w)
{
	each_path(w, list_one);
	static const char *const patterns[] = {"/**", "/work/pub/*", "/work/pub/.*", "/work/pub/.secret/*",
	                                       "/p*", "/private/**", "**/key"};
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		say(w, "glob %s\n", patterns[i]);
		SAY(w, cb_glob(w->agent, patterns[i], say_walk, w, &e));
	}
}

static void round_attributes(world *w)
{
	each_path(w, attributes_one);
}

static void round_keys(world *w)
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

static void round_grep(world *w)
{
	each_path(w, grep_one);
}

static cb_code say_box_info(void *context, const cb_box_info *i, cb_error *err)
{
	(void)err;
	say(context, "box %s from %s files %" PRIu64 " bytes %" PRIu64 " seq %" PRIu64 " q%" PRIu64 "\n", i->name, i->origin,
	    i->files, i->bytes, i->seq, i->quota_files);
	return CB_OK;
}

static void round_info(world *w)
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

static void round_diff(world *w)
{
	cb_error err = {0};
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(w->agent, &info, &err));
	cb_box *first = must_open(w->s, "demo@0"), *cp = must_open(w->s, "demo@cp");
	cb_box *t = must_begin(w->agent);
	put(t, "/work/pub/t", "in a transaction\n");
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

static void round_log(world *w)
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

static void round_states(world *w)
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

static void round_checkpoints(world *w)
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

/* ---- changing ---- */

static void write_one(world *w, const char *path)
{
	cb_box *b = w->agent;
	cb_replacement r = {"one", 3, "ONE", 3};
	SAY(w, cb_write_file(b, path, "agent\n", 6, NULL, &e));
	SAY(w, cb_write_file(b, path, "agent\n", 6, &CB_WITH(cb_write_options, .parents = true, .append = true), &e));
	SAY(w, cb_write_file(b, path, "agent\n", 6, &CB_WITH(cb_write_options, .expected_version = CB_VERSION_ABSENT), &e));
	SAY(w, cb_edit(b, path, &r, 1, NULL, NULL, &e));
	SAY(w, cb_truncate(b, path, 3, &e));
	SAY(w, cb_chmod(b, path, 0700, 0, &e));
	SAY(w, cb_utimens(b, path, 5, 6, 0, &e));
	SAY(w, cb_xattr_set(b, path, "user.y", "Y", 1, 0, &e));
	SAY(w, cb_xattr_remove(b, path, "user.y", 0, &e));
	SAY(w, cb_tag_add(b, path, "t", &e));
	SAY(w, cb_tag_remove(b, path, "t", &e));
	SAY(w, cb_meta_set(b, path, "n", "v", CB_STRING, &e));
	SAY(w, cb_meta_set(b, path, "n", NULL, CB_STRING, &e));
}

static void round_write(world *w)
{
	each_free_path(w, write_one);
}

static void make_one(world *w, const char *path)
{
	char inside[256];
	cb_box *b = w->agent;
	(void)snprintf(inside, sizeof(inside), "%s/made", path);
	SAY(w, cb_mkdir(b, path, 0755, 0, &e));
	SAY(w, cb_mkdir(b, path, 0755, CB_PARENTS, &e));
	SAY(w, cb_mkdir(b, inside, 0755, CB_PARENTS, &e));
	SAY(w, cb_symlink(b, "target", path, &e));
	SAY(w, cb_symlink(b, "target", inside, &e));
	SAY(w, cb_link(b, "/work/pub/a", path, &e));
	SAY(w, cb_link(b, path, "/work/pub/linked", &e));
	SAY(w, cb_unlink(b, "/work/pub/linked", &e));
	SAY(w, cb_rmdir(b, path, &e));
	SAY(w, cb_unlink(b, path, &e));
}

static void round_make(world *w)
{
	each_free_path(w, make_one);
}

static void move_one(world *w, const char *path)
{
	cb_box *b = w->agent;
	SAY(w, cb_rename(b, path, "/work/moved", 0, &e));
	SAY(w, cb_rename(b, "/work/moved", path, 0, &e));
	SAY(w, cb_rename(b, "/work/pub/b", path, CB_EXCHANGE, &e));
	SAY(w, cb_rename(b, "/work/pub/b", path, CB_EXCHANGE, &e));
	SAY(w, cb_rename(b, "/work/pub/b", path, CB_NOREPLACE, &e));
	SAY(w, cb_copy(b, path, "/work/copied", 0, &e));
	SAY(w, cb_remove(b, "/work/copied", &e));
	SAY(w, cb_copy(b, "/work/pub/sub", path, 0, &e));
	SAY(w, cb_copy(b, "/work/mixed", path, CB_PARENTS, &e));
	put(b, "/work/pub/b", "bee\n");
}

static void round_move(world *w)
{
	cb_error err = {0};
	each_free_path(w, move_one);
	/* A folder that is moved to where rules lie on names it has. */
	CHECK_OK(cb_mkdir(w->agent, "/work/pub2", 0755, 0, &err));
	put(w->agent, "/work/slip/.secret/key", "mine\n");
	SAY(w, cb_rename(w->agent, "/work/slip", "/work/pub", CB_EXCHANGE, &e));
	SAY(w, cb_copy(w->agent, "/work/slip", "/work/pub/again", 0, &e));
	SAY(w, cb_remove(w->agent, "/work/pub/again", &e));
}

static void remove_one(world *w, const char *path)
{
	SAY(w, cb_remove(w->agent, path, &e));
	SAY(w, cb_rmdir(w->agent, path, &e));
}

static void round_remove(world *w)
{
	cb_error err = {0};
	cb_box *t = must_begin(w->agent);
	cb_box *agent = w->agent;
	w->agent = t;
	each_free_path(w, remove_one);
	w->agent = agent;
	cb_box_close(t);
	/* A folder that looks empty. */
	CHECK_OK(cb_mkdir(w->owner, "/work/bare", 0755, 0, &err));
	SAY(w, cb_rmdir(w->agent, "/work/bare", &e));
}

static void files_one(world *w, const char *path)
{
	static const unsigned flags[] = {CB_READ, CB_READ | CB_WRITE, CB_WRITE | CB_CREATE, CB_WRITE | CB_CREATE | CB_EXCLUSIVE,
	                                 CB_READ | CB_NOFOLLOW_OPEN};
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		cb_file *f = NULL;
		char bytes[64] = "";
		size_t size = 0;
		uint64_t at = 0;
		cb_stat_info info = CB_INIT(cb_stat_info);
		SAY(w, cb_open(w->agent, path, flags[i], 0644, &f, &e));
		if (!f) continue;
		SAY(w, cb_read(f, bytes, 4, &size, &e));
		SAY(w, cb_pread(f, bytes, sizeof(bytes), 0, &size, &e));
		say(w, "[%.*s]\n", (int)size, bytes);
		SAY(w, cb_seek(f, 0, CB_SEEK_END, &at, &e));
		SAY(w, cb_fstat(f, &info, &e));
		say_stat(w, path, &info);
		if (flags[i] & CB_WRITE) {
			SAY(w, cb_write(f, "end\n", 4, &e));
			SAY(w, cb_pwrite(f, "E", 1, 0, &e));
			SAY(w, cb_ftruncate(f, 5, &e));
			SAY(w, cb_fsync(f, &e));
		}
		SAY(w, cb_close(f, &e));
	}
}

static void round_files(world *w)
{
	each_free_path(w, files_one);
}

static cb_code say_conflict(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	say(context, "%s (%s)\n", c->path, c->reason);
	return CB_OK;
}

static void round_transactions(world *w)
{
	cb_error err = {0};
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_box *t = NULL;
	SAY(w, cb_txn_begin(w->agent, NULL, &t, &e));
	say_box(w, t);
	SAY(w, cb_write_file(t, "/work/pub/.secret/key", "x", 1, NULL, &e));
	SAY(w, cb_write_file(t, "/work/ro/r", "x", 1, NULL, &e));
	put(t, "/work/pub/a", "from a transaction\n");
	put(w->owner, "/work/pub/a", "from the owner\n");
	SAY(w, cb_txn_commit(t, NULL, &result, &e));
	say(w, "%" PRIu64 "\n", result.conflicts);
	SAY(w, cb_txn_conflicts(t, say_conflict, w, &e));
	SAY(w, cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), &result, &e));
	cb_box_close(t);
	t = must_begin(w->agent);
	put(t, "/work/pub/kept", "kept\n");
	SAY(w, cb_txn_keep(t, "kept", &result, &e));
	cb_box_close(t);
	t = must_open(w->s, "kept");
	say_box(w, t);
	cb_box_close(t);
	SAY(w, cb_box_delete(w->s, "kept", &e));
	t = must_begin(w->agent);
	SAY(w, cb_txn_drop(t, &e));
	cb_box_close(t);
	/* Others change hidden things only: to the agent nobody did, and there is nothing to merge with. */
	for (int i = 0; i < 2; i++) {
		t = must_begin(w->agent);
		put(t, "/work/pub/sub/deep/new", i ? "2\n" : "1\n");
		put(t, "/work/mixed/new", i ? "2\n" : "1\n");
		CHECK_OK(cb_mkdir(t, i ? "/work/mixed/e" : "/work/mixed/d", 0755, 0, &err));
		put(t, i ? "/work/mixed/e/f" : "/work/mixed/d/f", "f\n");
		tick();
		if (hidden_step(w, "write")) put(w->owner, "/private/between", i ? "2\n" : "1\n");
		SAY(w, cb_txn_commit(t, &CB_WITH(cb_commit_options, .no_merge = i == 1), &result, &e));
		say(w, "merged %d\n", result.merged);
		cb_box_close(t);
	}
	if (hidden_step(w, "unlink")) CHECK_OK(cb_unlink(w->owner, "/private/between", &err));
	say_box(w, w->agent);
	CHECK_OK(cb_box_quota_set(w->owner, 0, 0, 0, &err));
}

static void round_undo(world *w)
{
	cb_error err = {0};
	uint64_t seq = 0;
	put(w->agent, "/work/pub/undone", "1\n");
	if (hidden_step(w, "write")) put(w->owner, "/private/between", "b\n");
	SAY(w, cb_undo(w->agent, 0, &seq, &e)); /* passes over what it cannot see */
	say(w, "%" PRIu64 "\n", seq);
	SAY(w, cb_redo(w->agent, &seq, &e));
	say(w, "%" PRIu64 "\n", seq);
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(w->agent, &info, &err));
	SAY(w, cb_undo(w->agent, info.seq - 2, &seq, &e)); /* the hidden one by its number: it changed nothing */
	/* Times of a hidden folder, and a step that made and removed something hidden: nothing, to who looks. */
	put(w->agent, "/work/pub/undone", "2\n");
	if (hidden_step(w, "utimens")) OWNER(cb_utimens(w->owner, "/private", 1000, 2000, 0, &err));
	CHECK_OK(cb_box_info_get(w->owner, &info, &err));
	SAY(w, cb_undo(w->agent, info.seq, &seq, &e));
	if (hidden_step(w, "txn")) {
		cb_box *t = must_begin(w->owner);
		put(t, "/work/pub/.secret/come", "and go\n");
		OWNER(cb_unlink(t, "/work/pub/.secret/come", &err));
		put(t, "/private/come", "and go\n");
		OWNER(cb_unlink(t, "/private/come", &err));
		(void)must_commit(t);
	}
	SAY(w, cb_undo(w->agent, 0, &seq, &e));
	say(w, "%" PRIu64 "\n", seq);
	/* A folder of the agent's own that a rule lies in: it cannot go, whether or not something is there. */
	OWNER(cb_mkdir(w->owner, "/work/room", 0755, 0, &err));
	CHECK_OK(cb_box_info_get(w->owner, &info, &err));
	if (hidden_step(w, "write")) put(w->owner, "/work/room/.secret", "s\n");
	SAY(w, cb_undo(w->agent, info.seq, &seq, &e));
	put(w->owner, "/work/ro/r", "changed by the owner\n");
	SAY(w, cb_undo(w->agent, 0, &seq, &e)); /* seen, but not to be changed */
	SAY(w, cb_undo(w->owner, 0, &seq, &e));
	say_box(w, w->agent);
}

static void round_restore(world *w)
{
	uint64_t seq = 0;
	cb_box *cp = must_open(w->s, "demo@cp"), *first = must_open(w->s, "demo@1");
	SAY(w, cb_restore(w->agent, cp, "/work/pub/a", &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	SAY(w, cb_restore(w->agent, cp, "/work/pub/sub", &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	SAY(w, cb_restore(w->agent, cp, "/private", &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	SAY(w, cb_restore(w->agent, cp, "/private/x", &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	SAY(w, cb_restore(w->agent, cp, "/work/pub/.secret/key", &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	SAY(w, cb_restore(w->agent, cp, "/work/ro", &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	SAY(w, cb_restore(w->agent, cp, NULL, &seq, &e)); /* /work/ro was not there: refused whole */
	say(w, "step %" PRIu64 "\n", seq);
	say_box(w, w->agent);
	cb_box_close(cp);
	cp = must_open(w->s, "demo@-1");
	put(w->agent, "/work/pub/later", "later\n");
	put(w->agent, "/work/pub/a", "later\n");
	if (hidden_step(w, "write")) put(w->owner, "/work/pub/.secret/later", "stays\n");
	SAY(w, cb_restore(w->agent, cp, NULL, &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	say_box(w, w->agent);
	SAY(w, cb_restore(w->agent, first, "/work/pub", &seq, &e));
	say(w, "step %" PRIu64 "\n", seq);
	say_box(w, w->agent);
	cb_box_close(cp);
	cb_box_close(first);
}

static cb_prefer say_resolve(void *context, const cb_conflict *c)
{
	(void)say_conflict(context, c, NULL);
	return CB_PREFER_NONE;
}

static void round_merge(world *w)
{
	cb_error err = {0};
	uint64_t seq = 0, conflicts = 0;
	cb_box *side = NULL;
	SAY(w, cb_box_fork(w->s, "demo", "side", &side, &e));
	say_box(w, side);
	put(side, "/work/pub/side", "side\n");
	put(side, "/work/pub/a", "side\n");
	put(w->agent, "/work/pub/a", "ours\n");
	cb_merge_options ask = CB_WITH(cb_merge_options, .resolve = say_resolve, .context = w);
	SAY(w, cb_merge(w->agent, side, &ask, &seq, &conflicts, &e));
	say(w, "%" PRIu64 "\n", conflicts);
	SAY(w, cb_merge(w->agent, side, &CB_WITH(cb_merge_options, .dry_run = true), &seq, &conflicts, &e));
	SAY(w, cb_merge(w->agent, side, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), &seq, &conflicts, &e));
	cb_box *of_owner = must_open(w->s, "side");
	CHECK_OK(cb_box_who_set(of_owner, "owner", &err));
	put(of_owner, "/work/ro/r", "changed in the fork\n");
	SAY(w, cb_merge(w->agent, side, NULL, &seq, &conflicts, &e));
	say_box(w, w->agent);
	cb_box_close(of_owner);
	cb_box_close(side);
	SAY(w, cb_box_rename(w->s, "side", "other", &e));
	SAY(w, cb_box_delete(w->s, "other", &e));
}

/* ---- the host ---- */

static void say_count(world *w, const cb_transfer_count *c)
{
	say(w,
	    "%" PRIu64 " files %" PRIu64 " folders %" PRIu64 " links %" PRIu64 " bytes %" PRIu64 " same %" PRIu64
	    " removed %" PRIu64 " out\n",
	    c->files, c->folders, c->symlinks, c->bytes, c->unchanged, c->removed, c->left_out);
}

static void say_shell(world *w, const char *command)
{
	char line[4096], full[1200];
	(void)snprintf(full, sizeof(full), "cd '%s' && { %s; } 2>&1", w->folder, command);
	FILE *f = popen(full, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f)) say(w, "%s", line);
	(void)pclose(f);
}

static void host_put(world *w, const char *name, const char *text)
{
	char path[800];
	(void)snprintf(path, sizeof(path), "%s/%s", w->folder, name);
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	struct timespec times[2] = {{1700000000, 0}, {1700000000, 0}};
	CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void note_one(void *context, const char *path, const char *what)
{
	say(context, "note %s %s\n", path, what);
}

static void export_one(world *w, const char *path)
{
	char to[700];
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	cb_export_options options =
		CB_WITH(cb_export_options, .all = true, .watch = &CB_WITH(cb_transfer_watch, .note = note_one, .context = w));
	(void)snprintf(to, sizeof(to), "%s/out", w->folder);
	SAY(w, cb_export(w->agent, path, to, &options, &count, &e));
	say_count(w, &count);
	say_shell(
		w,
		"find out -printf '%p %y %m %s %T@\\n' | LC_ALL=C sort; find out -type f | LC_ALL=C sort | xargs cat; rm -rf out");
}

static void tar_one(world *w, const char *path)
{
	char to[700];
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	(void)snprintf(to, sizeof(to), "%s/out.tar", w->folder);
	int fd = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
	SAY(w, cb_tar_export(w->agent, path, fd, &CB_WITH(cb_tar_options, .all = true), &count, &e));
	say_count(w, &count);
	(void)close(fd);
	say_shell(w, "cksum out.tar; rm out.tar");
}

static void round_export(world *w)
{
	each_path(w, export_one);
	each_path(w, tar_one);
}

static void import_one(world *w, const char *from, const cb_import_options *options)
{
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	say_shell(w, "find in -exec touch -d @1700000000 {} +"); /* reading changes times of the host */
	say(w, "import to %s\n", options->to);
	SAY(w, cb_import(w->agent, from, options, &count, &e));
	say_count(w, &count);
}

static void round_import(world *w)
{
	say_shell(w, "mkdir in in/sub");
	host_put(w, "in/a", "from the host\n");
	host_put(w, "in/sub/f", "f\n");
	char from[700];
	(void)snprintf(from, sizeof(from), "%s/in", w->folder);
	cb_import_options gone = CB_WITH(cb_import_options, .to = "/work/pub", .remove_missing = true,
	                                 .watch = &CB_WITH(cb_transfer_watch, .note = note_one, .context = w));
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/imported"));
	import_one(w, from, &gone); /* what is hidden stays */
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/private"));
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/pub/.secret/no"));
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/ro"));
	say_shell(w, "mkdir in/.secret in/ro");
	host_put(w, "in/.secret/key", "mine\n");
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/pub")); /* over a hidden name */
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work", .remove_missing = true));
	say_box(w, w->agent);
}

static void round_tar_import(world *w)
{
	static const char *const to[] = {"/work/pub", "/work/fromtar", "/private", "/work/ro"};
	say_shell(w, "mkdir t t/.secret; echo k >t/.secret/key; echo a >t/a; tar -cf bad.tar --mtime=@1700000000 -C t . ; rm -r "
	             "t/.secret; tar -cf good.tar "
	             "--mtime=@1700000000 -C t .");
	for (size_t i = 0; i < ARRAY_LEN(to); i++) {
		static const char *const names[] = {"bad.tar", "good.tar"};
		for (size_t k = 0; k < ARRAY_LEN(names); k++) {
			char path[700];
			cb_transfer_count count = CB_INIT(cb_transfer_count);
			(void)snprintf(path, sizeof(path), "%s/%s", w->folder, names[k]);
			int fd = open(path, O_RDONLY);
			say(w, "%s into %s\n", names[k], to[i]);
			SAY(w, cb_tar_import(w->agent, fd, &CB_WITH(cb_tar_options, .to = to[i]), &count, &e));
			say_count(w, &count);
			(void)close(fd);
		}
	}
	say_box(w, w->agent);
}

static cb_code say_item(void *context, const cb_apply_item *i, cb_error *err)
{
	(void)err;
	say(context, "%c%d %s %s %s %o %" PRIu64 "\n", (int)i->kind, (int)i->status, i->path, i->box_path, i->reason, i->mode,
	    i->size);
	return CB_OK;
}

static void round_apply(world *w)
{
	cb_error err = {0};
	cb_apply_result result = CB_INIT(cb_apply_result);
	cb_box *b = NULL;
	char from[700], *host = NULL, *in_box = NULL, *name = NULL;
	(void)snprintf(from, sizeof(from), "%s/p", w->folder);
	CHECK_OK(cb_box_create(w->s, "project", &b, &err));
	say_shell(w, "mkdir p p/pub");
	host_put(w, "p/pub/a", "a\n");
	host_put(w, "p/pub/b", "b\n");
	say_shell(w, "find p -exec touch -d @1700000000 {} +");
	SAY(w, cb_import(b, from, &CB_WITH(cb_import_options, .to = "/work", .link = true), NULL, &e));
	SAY(w, cb_folder_get(b, &host, &in_box, &e));
	SAY(w, cb_folder_box(w->s, from, &name, &e));
	cb_free(host);
	cb_free(in_box);
	cb_free(name);
	cb_box *o = must_open(w->s, "project");
	CHECK_OK(cb_box_who_set(o, "owner", &err));
	if (w->whole) put(o, "/work/pub/.secret/key", "not for the host\n");
	else CHECK_OK(cb_step_record(o, &CB_WITH(cb_step_info, .kind = "write"), NULL, &err));
	put(b, "/work/pub/a", "changed\n");
	SAY(w, cb_apply(b, &CB_WITH(cb_apply_options, .dry_run = true), say_item, w, &result, &e));
	SAY(w, cb_apply(b, NULL, say_item, w, &result, &e));
	say(w, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", result.written, result.removed, result.same);
	say_shell(w, "find p | LC_ALL=C sort; cat p/pub/a");
	SAY(w, cb_apply(b, NULL, say_item, w, &result, &e));
	cb_box_close(o);
	cb_box_close(b);
	SAY(w, cb_box_delete(w->s, "project", &e));
}

static void ignore_line(void *context, const char *line)
{
	(void)context;
	(void)line;
}

/* What takes a whole box or store is refused where rules lie. */
static void round_whole(world *w)
{
	cb_error err = {0};
	cb_pack_info info = CB_INIT(cb_pack_info);
	cb_sandbox *sandbox = NULL;
	cb_exec *exec = NULL;
	char to[700];
	uint64_t complaints = 0;
	(void)snprintf(to, sizeof(to), "%s/pack", w->folder);
	int fd = open(to, O_RDWR | O_CREAT, 0600);
	CHECK_CODE(cb_pack(w->agent, fd, NULL, &info, &err), CB_DENIED);
	CHECK_CODE(cb_pack(w->agent, fd, &CB_WITH(cb_pack_options, .no_history = true), &info, &err), CB_DENIED);
	(void)close(fd);
	say_shell(w, "wc -c <pack; rm pack");
	(void)snprintf(to, sizeof(to), "%s/backup", w->folder);
	CHECK_CODE(cb_store_backup(w->s, to, &err), CB_DENIED);
	say_shell(w, "ls -A");
	CHECK_CODE(cb_store_check(w->s, ignore_line, NULL, &complaints, &err), CB_DENIED);
	CHECK_CODE(cb_sandbox_open(w->agent, NULL, &sandbox, &err), CB_DENIED);
	/* One that was opened before there were rules. */
	size_t count = w->rules->count;
	w->rules->count = 0;
	cb_code code = cb_sandbox_open(w->agent, NULL, &sandbox, &err);
	w->rules->count = count;
	const char *argv[] = {"true"};
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_OK(code);
	CHECK_CODE(cb_exec_start(sandbox, &CB_WITH(cb_exec_options, .argv = argv, .argc = 1, .stdin_fd = -1), &exec, &err),
	           CB_DENIED);
	cb_sandbox_close(sandbox);
	/* A pack of what the agent may neither see nor make. */
	(void)snprintf(to, sizeof(to), "%s/owners", w->folder);
	fd = open(to, O_RDWR | O_CREAT, 0600);
	CHECK_OK(cb_pack(w->owner, fd, NULL, &info, &err));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK_CODE(cb_unpack(w->s, fd, "unpacked", NULL, &info, &err), CB_DENIED);
	(void)close(fd);
	SAY(w, cb_box_list(w->s, say_box_info, w, &e));
}

static void round_boxes(world *w)
{
	cb_box *b = NULL;
	char *text = NULL;
	SAY(w, cb_box_fork(w->s, "demo@cp", "old", &b, &e));
	if (b) say_box(w, b);
	cb_box_close(b);
	SAY(w, cb_box_delete(w->s, "old", &e));
	SAY(w, cb_box_retention_set(w->agent, 1000, 0, &e));
	SAY(w, cb_box_quota_set(w->agent, 1 << 20, 0, 0, &e));
	SAY(w, cb_box_quota_set(w->agent, 0, 0, 0, &e));
	SAY(w, cb_setting_set(w->agent, "s", "1", CB_STRING, &e));
	SAY(w, cb_setting_get(w->agent, "s", &text, NULL, &e));
	cb_free(text);
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

static void round_cursors(world *w)
{
	cb_box *b = w->agent, *first = must_open(w->s, "demo@0"), *t = must_begin(b);
	bool pruned = false;
	cb_grep_count counted = CB_INIT(cb_grep_count);
	cb_cursor *log = NULL, *grep = NULL;
	const cb_step *step = NULL;
	const cb_grep_line *line = NULL;
	put(t, "/work/pub/t", "in a transaction\n");
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

/* ---- the table ---- */

typedef struct call_row {
	twin_round round;
	const char *calls;
} call_row;

static const call_row rows[] = {
	{round_stat, "cb_stat"},
	{round_read, "cb_read_file cb_read_at cb_readlink"},
	{round_list, "cb_readdir cb_walk cb_glob cb_find"},
	{round_attributes, "cb_xattr_get cb_xattr_list cb_tag_list cb_meta_get cb_meta_list"},
	{round_keys, "cb_kv_get cb_kv_list cb_kv_set cb_kv_delete"},
	{round_grep, "cb_grep"},
	{round_info, "cb_box_info_get cb_box_list"},
	{round_diff, "cb_diff cb_diff_step cb_diff_stat cb_diff_text"},
	{round_log, "cb_log cb_step_get cb_blame cb_audit_list"},
	{round_states, "cb_box_open"},
	{round_checkpoints,
         "cb_checkpoint_save cb_checkpoint_delete cb_checkpoint_list cb_box_checkpoint_every_set cb_step_record cb_box_step"},
	{round_write,
         "cb_write_file cb_edit cb_truncate cb_chmod cb_utimens cb_xattr_set cb_xattr_remove cb_tag_add cb_tag_remove cb_meta_set"},
	{round_make, "cb_mkdir cb_rmdir cb_unlink cb_link cb_symlink"},
	{round_files, "cb_open cb_close cb_read cb_write cb_pread cb_pwrite cb_seek cb_ftruncate cb_fstat cb_fsync"},
	{round_move, "cb_rename cb_copy"},
	{round_remove, "cb_remove"},
	{round_transactions, "cb_txn_begin cb_txn_commit cb_txn_conflicts cb_txn_keep cb_txn_drop"},
	{round_undo, "cb_undo cb_redo"},
	{round_merge, "cb_merge cb_box_fork cb_box_rename cb_box_delete"},
	{round_export, "cb_export cb_tar_export"},
	{round_import, "cb_import"},
	{round_tar_import, "cb_tar_import"},
	{round_apply, "cb_apply cb_folder_get cb_folder_box"},
	{round_whole, "cb_pack cb_unpack cb_store_backup cb_store_check cb_sandbox_open cb_exec_start"},
	{round_boxes, "cb_box_retention_set cb_box_quota_set cb_setting_set cb_setting_get"},
	{round_cursors, "cb_readdir_open cb_walk_open cb_glob_open cb_find_open cb_entry_next cb_xattr_open cb_tag_open "
                        "cb_meta_open cb_kv_open cb_name_next"},
	{round_cursors,
         "cb_grep_open cb_grep_next cb_grep_counted cb_log_open cb_step_next cb_log_pruned cb_blame_open cb_blame_next"},
	{round_cursors, "cb_diff_open cb_diff_step_open cb_diff_stat_open cb_change_next cb_change_stat_next cb_checkpoint_open"},
	{round_cursors,
         "cb_checkpoint_next cb_conflict_open cb_conflict_next cb_box_list_open cb_box_next cb_audit_open cb_audit_next"},
	{round_restore, "cb_restore"},
};

/* No byte, name or count of a box passes through these. */
static const char *const others[] = {
	"cb_version cb_sqlite_version cb_zstd_version cb_pcre2_version cb_free", /* of the library */
	"cb_code_name cb_code_text cb_code_errno cb_code_exit_status",
	"cb_store_open cb_store_close cb_store_sync cb_store_who_set cb_store_setting_set cb_store_setting_get",
	"cb_store_stats_get cb_store_uses cb_store_gc cb_store_vacuum",     /* space and steps in use, which rules do not hide */
	"cb_pin_set cb_pin_drop cb_prune cb_box_who_set cb_box_close",      /* steps by number */
	"cb_box_create cb_box_draft cb_box_publish",                        /* boxes that are new */
	"cb_sandbox_plan cb_sandbox_try cb_sandbox_close cb_work_clean",    /* of the machine */
	"cb_exec_fd cb_exec_pump cb_exec_kill cb_exec_tick cb_exec_resize", /* after cb_exec_start, which is refused */
	"cb_exec_input cb_exec_wait cb_exec_changes cb_exec_close",
	"cb_exec_changes_open",
	"cb_cursor_close cb_use_open cb_use_next",                                           /* as cb_store_uses */
	"cb_cancel_create cb_cancel_fire cb_cancel_reset cb_cancel_is_fired cb_cancel_free", /* of the caller */
	"cb_limit_push cb_limit_pop",
	"cb_exec_recover", /* into a box like any other change; what is hidden waits for who sees it */
};

TEST_LIMIT(every_call_tells_only_what_is_shown, 300)
{
	begin();
	const char *hidden = twins_hidden(&both), *kept = twins_kept(&both);
	CHECK(strstr(hidden, "TOP SECRET 2") && strstr(hidden, "hid.k=2") && strstr(kept, "read only"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		twins_do(&both, rows[i].calls, rows[i].round);
		bool owner_wrote =
			rows[i].round == round_undo || rows[i].round == round_restore || rows[i].round == round_transactions;
		if (!owner_wrote) CHECK_STR(twins_hidden(&both), hidden);
		if (!owner_wrote) CHECK_STR(twins_kept(&both), kept);
		hidden = twins_hidden(&both);
		kept = twins_kept(&both);
	}
	CHECK(strstr(hidden, "TOP SECRET 2") && strstr(hidden, "stays"));
	for (size_t i = 0; i < ARRAY_LEN(others); i++) CHECK(strncmp(others[i], "cb_", 3) == 0);
	for (size_t i = 0; i < ARRAY_LEN(hidden_paths); i++) CHECK(!exists(both.with.agent, hidden_paths[i]));
	for (size_t i = 0; i < ARRAY_LEN(kept_paths); i++) CHECK(kept_paths[i][0] == '/');
	twins_close(&both);
}

/* Each call on a world of its own, so that what one hides another does not depend on. */
TEST_LIMIT(each_call_alone_tells_only_what_is_shown, 300)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		begin();
		twins_do(&both, rows[i].calls, rows[i].round);
		twins_do(&both, rows[i].calls, round_states);
		twins_do(&both, rows[i].calls, round_log);
		twins_close(&both);
	}
}
