/* gate_rounds_change.c: rounds that change the box; see gate_rounds.h. */
#include "harness/gate_rounds.h"

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
	SAY(w, cb_meta_set(b, path, "n", NULL, 0, &e));
}

void round_write(world *w)
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

void round_make(world *w)
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
	story_put(b, "/work/pub/b", "bee\n");
}

void round_move(world *w)
{
	cb_error err = {0};
	each_free_path(w, move_one);
	/* A folder that is moved to where rules lie on names it has. */
	CHECK_OK(cb_mkdir(w->agent, "/work/pub2", 0755, 0, &err));
	story_put(w->agent, "/work/slip/.secret/key", "mine\n");
	SAY(w, cb_rename(w->agent, "/work/slip", "/work/pub", CB_EXCHANGE, &e));
	SAY(w, cb_copy(w->agent, "/work/slip", "/work/pub/again", 0, &e));
	SAY(w, cb_remove(w->agent, "/work/pub/again", &e));
}

static void remove_one(world *w, const char *path)
{
	SAY(w, cb_remove(w->agent, path, &e));
	SAY(w, cb_rmdir(w->agent, path, &e));
}

void round_remove(world *w)
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

void round_files(world *w)
{
	each_free_path(w, files_one);
}

void round_transactions(world *w)
{
	cb_error err = {0};
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_box *t = NULL;
	SAY(w, cb_txn_begin(w->agent, NULL, &t, &e));
	say_box(w, t);
	SAY(w, cb_write_file(t, "/work/pub/.secret/key", "x", 1, NULL, &e));
	SAY(w, cb_write_file(t, "/work/ro/r", "x", 1, NULL, &e));
	story_put(t, "/work/pub/a", "from a transaction\n");
	story_put(w->owner, "/work/pub/a", "from the owner\n");
	SAY(w, cb_txn_commit(t, NULL, &result, &e));
	say(w, "%" PRIu64 "\n", result.conflicts);
	SAY(w, cb_txn_conflicts(t, say_conflict, w, &e));
	SAY(w, cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), &result, &e));
	cb_box_close(t);
	t = must_begin(w->agent);
	story_put(t, "/work/pub/kept", "kept\n");
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
		story_put(t, "/work/pub/sub/deep/new", i ? "2\n" : "1\n");
		story_put(t, "/work/mixed/new", i ? "2\n" : "1\n");
		CHECK_OK(cb_mkdir(t, i ? "/work/mixed/e" : "/work/mixed/d", 0755, 0, &err));
		story_put(t, i ? "/work/mixed/e/f" : "/work/mixed/d/f", "f\n");
		story_tick();
		if (hidden_step(w, "write")) story_put(w->owner, "/private/between", i ? "2\n" : "1\n");
		SAY(w, cb_txn_commit(t, &CB_WITH(cb_commit_options, .no_merge = i == 1), &result, &e));
		say(w, "merged %d\n", result.merged);
		cb_box_close(t);
	}
	if (hidden_step(w, "unlink")) CHECK_OK(cb_unlink(w->owner, "/private/between", &err));
	say_box(w, w->agent);
	CHECK_OK(cb_box_quota_set(w->owner, 0, 0, 0, &err));
}

void round_undo(world *w)
{
	cb_error err = {0};
	uint64_t seq = 0;
	story_put(w->agent, "/work/pub/undone", "1\n");
	if (hidden_step(w, "write")) story_put(w->owner, "/private/between", "b\n");
	SAY(w, cb_undo(w->agent, 0, &seq, &e)); /* passes over what it cannot see */
	say(w, "%" PRIu64 "\n", seq);
	SAY(w, cb_redo(w->agent, &seq, &e));
	say(w, "%" PRIu64 "\n", seq);
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(w->agent, &info, &err));
	SAY(w, cb_undo(w->agent, info.seq - 2, &seq, &e)); /* the hidden one by its number: it changed nothing */
	/* Times of a hidden folder, and a step that made and removed something hidden: nothing, to who looks. */
	story_put(w->agent, "/work/pub/undone", "2\n");
	if (hidden_step(w, "utimens")) CHECK_OK(cb_utimens(w->owner, "/private", 1000, 2000, 0, &err));
	CHECK_OK(cb_box_info_get(w->owner, &info, &err));
	SAY(w, cb_undo(w->agent, info.seq, &seq, &e));
	if (hidden_step(w, "txn")) {
		cb_box *t = must_begin(w->owner);
		story_put(t, "/work/pub/.secret/come", "and go\n");
		CHECK_OK(cb_unlink(t, "/work/pub/.secret/come", &err));
		story_put(t, "/private/come", "and go\n");
		CHECK_OK(cb_unlink(t, "/private/come", &err));
		(void)must_commit(t);
	}
	SAY(w, cb_undo(w->agent, 0, &seq, &e));
	say(w, "%" PRIu64 "\n", seq);
	/* A folder of the agent's own that a rule lies in: it cannot go, whether or not something is there. */
	CHECK_OK(cb_mkdir(w->owner, "/work/room", 0755, 0, &err));
	CHECK_OK(cb_box_info_get(w->owner, &info, &err));
	if (hidden_step(w, "write")) story_put(w->owner, "/work/room/.secret", "s\n");
	SAY(w, cb_undo(w->agent, info.seq, &seq, &e));
	story_put(w->owner, "/work/ro/r", "changed by the owner\n");
	SAY(w, cb_undo(w->agent, 0, &seq, &e)); /* seen, but not to be changed */
	SAY(w, cb_undo(w->owner, 0, &seq, &e));
	/* A conflict is listed by what is seen. */
	story_put(w->agent, "/work/pub/undone", "3\n");
	CHECK_OK(cb_box_info_get(w->agent, &info, &err));
	if (hidden_step(w, "write")) story_put(w->owner, "/private/between", "c\n");
	story_put(w->agent, "/work/pub/undone", "4\n");
	SAY(w, cb_undo(w->agent, info.seq, &seq, &e));
	SAY(w, cb_txn_conflicts(w->agent, say_conflict, w, &e));
	say_box(w, w->agent);
}

void round_restore(world *w)
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
	story_put(w->agent, "/work/pub/later", "later\n");
	story_put(w->agent, "/work/pub/a", "later\n");
	if (hidden_step(w, "write")) story_put(w->owner, "/work/pub/.secret/later", "stays\n");
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

void round_merge(world *w)
{
	cb_error err = {0};
	uint64_t seq = 0, conflicts = 0;
	cb_box *side = NULL;
	SAY(w, cb_box_fork(w->s, "demo", "side", &side, &e));
	say_box(w, side);
	story_put(side, "/work/pub/side", "side\n");
	story_put(side, "/work/pub/a", "side\n");
	story_put(w->agent, "/work/pub/a", "ours\n");
	cb_merge_options ask = CB_WITH(cb_merge_options, .resolve = say_resolve, .context = w);
	SAY(w, cb_merge(w->agent, side, &ask, &seq, &conflicts, &e));
	say(w, "%" PRIu64 "\n", conflicts);
	SAY(w, cb_merge(w->agent, side, &CB_WITH(cb_merge_options, .dry_run = true), &seq, &conflicts, &e));
	SAY(w, cb_merge(w->agent, side, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), &seq, &conflicts, &e));
	cb_box *of_owner = must_open(w->s, "side");
	CHECK_OK(cb_box_who_set(of_owner, "owner", &err));
	story_put(of_owner, "/work/ro/r", "changed in the fork\n");
	SAY(w, cb_merge(w->agent, side, NULL, &seq, &conflicts, &e));
	say_box(w, w->agent);
	cb_box_close(of_owner);
	cb_box_close(side);
	SAY(w, cb_box_rename(w->s, "side", "other", &e));
	SAY(w, cb_box_delete(w->s, "other", &e));
}
