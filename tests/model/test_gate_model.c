/*
 * test_gate_model.c: random trees, rules and calls in two worlds under the same rules, in one of which what is hidden never was: an agent
 * is told the same in both, and never changes what he may not.
 *
 * The owner's steps are all on hidden or all on shown paths (those that are both have tests of their own in tests/contract/test_gate.c).
 */
#include "harness/twins.h"

enum { NAMES = 4, DEPTH = 3, STEPS = 120, KEYS = 6 };

static twins both;
static test_rng rng;
static char *rule_paths[8];

typedef enum what {
	DO_WRITE,
	DO_APPEND,
	DO_MKDIR,
	DO_UNLINK,
	DO_RMDIR,
	DO_REMOVE,
	DO_RENAME,
	DO_EXCHANGE,
	DO_COPY,
	DO_LINK,
	DO_SYMLINK,
	DO_CHMOD,
	DO_TAG,
	DO_XATTR,
	DO_KEY,
	DO_KEY_DELETE,
	OWNER_KINDS,
	DO_UNDO = OWNER_KINDS,
	DO_REDO,
	DO_RESTORE,
	DO_RESTORE_PATH,
	DO_TXN,
	DO_MERGE,
	DO_LOOK,
	DO_PAST,
	AGENT_KINDS,
} what;

/* What both worlds do next. */
static struct move {
	what kind;
	bool owner, hidden;
	char p[64], q[64], key[16];
	unsigned number;
} move;

static void random_path(char out[64])
{
	unsigned depth = 1 + (unsigned)test_rand_below(&rng, DEPTH);
	size_t size = 0;
	(void)snprintf(out, 64, "/work");
	size = strlen(out);
	while (depth--) size += (size_t)snprintf(out + size, 64 - size, "/%c", 'a' + (int)test_rand_below(&rng, NAMES));
}

static bool rule_below(const char *path)
{
	size_t n = strlen(path);
	for (size_t i = 0; i < both.rules.count; i++)
		if (strncmp(both.rules.all[i].path, path, n) == 0) return true; /* at it too */
	return false;
}

static cb_code run(cb_box *b, cb_error *e)
{
	char text[80];
	(void)snprintf(text, sizeof(text), "%u\nline\n", move.number);
	switch (move.kind) {
	case DO_WRITE:
		return cb_write_file(b, move.p, text, strlen(text), NULL, e);
	case DO_APPEND:
		return cb_write_file(b, move.p, text, strlen(text),
		                     &CB_WITH(cb_write_options, .append = true, .parents = !move.owner), e);
	case DO_MKDIR:
		return cb_mkdir(b, move.p, 0755, 0, e);
	case DO_UNLINK:
		return cb_unlink(b, move.p, e);
	case DO_RMDIR:
		return cb_rmdir(b, move.p, e);
	case DO_REMOVE:
		return cb_remove(b, move.p, e);
	case DO_RENAME:
		return cb_rename(b, move.p, move.q, 0, e);
	case DO_EXCHANGE:
		return cb_rename(b, move.p, move.q, CB_EXCHANGE, e);
	case DO_COPY:
		return cb_copy(b, move.p, move.q, CB_NOFOLLOW, e);
	case DO_LINK:
		return cb_link(b, move.p, move.q, e);
	case DO_SYMLINK: /* under names that the owner's paths do not have: he stays where his rules say he is */
		(void)snprintf(text, sizeof(text), "%s-l", move.p);
		return cb_symlink(b, move.q, text, e);
	case DO_CHMOD:
		return cb_chmod(b, move.p, 0600 + move.number % 64, 0, e);
	case DO_TAG:
		return cb_tag_add(b, move.p, "t", e);
	case DO_XATTR:
		return cb_xattr_set(b, move.p, "user.n", text, strlen(text), CB_NOFOLLOW, e);
	case DO_KEY:
		return cb_kv_set(b, move.key, text, strlen(text), e);
	default:
		return cb_kv_delete(b, move.key, e);
	}
}

static void owner_round(world *w)
{
	cb_error err = {0};
	uint64_t before = must_seq(w->owner);
	if (!move.hidden) {
		SAY(w, run(w->owner, &e));
		return;
	}
	cb_error e = {0};
	if (w->whole) (void)run(w->owner, &e);
	/* One step in both, whatever became of it. */
	static const char *const kinds[] = {"write", "append", "mkdir",   "unlink", "rmdir", "remove", "rename", "rename",
	                                    "copy",  "link",   "symlink", "chmod",  "tag",   "xattr",  "kv",     "kv"};
	if (must_seq(w->owner) == before)
		CHECK_OK(cb_step_record(w->owner, &CB_WITH(cb_step_info, .kind = kinds[move.kind]), NULL, &err));
}

static cb_code say_grep(void *context, const cb_grep_line *l, cb_error *e)
{
	(void)e;
	say(context, "%s:%" PRIu64 ":%.*s\n", l->path, l->line, (int)l->size, l->text ? l->text : "");
	return CB_OK;
}

static cb_code say_blame(void *context, const cb_blame_line *l, cb_error *e)
{
	(void)e;
	say(context, "%" PRIu64 " %" PRIu64 " %.*s\n", l->line, l->seq, (int)l->size, l->text);
	return CB_OK;
}

static cb_prefer say_resolve(void *context, const cb_conflict *c)
{
	say(context, "%s (%s)\n", c->path, c->reason);
	return CB_PREFER_THEIRS;
}

static void look_around(world *w)
{
	cb_grep_count count = CB_INIT(cb_grep_count);
	say_box(w, w->agent);
	SAY(w, cb_glob(w->agent, "/work/**", say_walk, w, &e));
	SAY(w, cb_find(w->agent, move.p, &CB_WITH(cb_find_options, .empty = move.number % 2), say_walk, w, &e));
	SAY(w, cb_grep(w->agent, move.p, &CB_WITH(cb_grep_options, .pattern = "1"), say_grep, w, &count, &e));
	say(w, "%" PRIu64 " %" PRIu64 "\n", count.files, count.matched_files);
}

static cb_box *some_state(world *w, unsigned number)
{
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%" PRIu64, number % (must_seq(w->agent) + 1));
	return must_open(w->s, address);
}

static void past(world *w)
{
	char *text = NULL;
	size_t size = 0;
	cb_box *a = some_state(w, move.number), *b = some_state(w, move.number / 7);
	say_box(w, a);
	SAY(w, cb_diff(a, b, NULL, say_change, w, &e));
	SAY(w, cb_diff_text(a, w->agent, NULL, &text, &size, &e));
	say(w, "%.*s", (int)size, text ? text : "");
	cb_free(text);
	SAY(w, cb_log(w->agent, &CB_WITH(cb_log_options, .path = move.p), say_step, w, NULL, &e));
	SAY(w, cb_log(w->agent, NULL, say_step, w, NULL, &e));
	SAY(w, cb_blame(w->agent, move.p, say_blame, w, &e));
	SAY(w, cb_diff_step(w->agent, move.number % (must_seq(w->agent) + 1), NULL, say_change, w, &e));
	cb_box_close(a);
	cb_box_close(b);
}

static void restore(world *w, const char *path)
{
	cb_box *a = some_state(w, move.number);
	SAY(w, cb_restore(w->agent, a, path, NULL, &e));
	cb_box_close(a);
}

static void merge_back(world *w)
{
	cb_error err = {0};
	cb_box *side = NULL;
	SAY(w, cb_box_fork(w->s, "demo", "side", &side, &e));
	what kind = move.kind;
	move.kind = (what)(move.number % DO_KEY);
	SAY(w, run(side, &e));
	move.kind = DO_APPEND;
	SAY(w, run(w->agent, &e));
	move.kind = kind;
	SAY(w, cb_merge(w->agent, side, &CB_WITH(cb_merge_options, .resolve = say_resolve, .context = w), NULL, NULL, &e));
	cb_box_close(side);
	CHECK_OK(cb_box_delete(w->s, "side", &err));
}

static void transact(world *w)
{
	cb_box *t = must_begin(w->agent);
	what kind = move.kind;
	for (unsigned i = 0; i < 3; i++) {
		move.kind = (what)((move.number >> (4 * i)) % OWNER_KINDS);
		SAY(w, run(t, &e));
	}
	move.kind = kind;
	SAY(w, cb_diff(w->agent, t, NULL, say_change, w, &e));
	SAY(w, cb_txn_commit(t, NULL, NULL, &e));
	cb_box_close(t);
}

static void agent_round(world *w)
{
	switch (move.kind) {
	case DO_UNDO:
		SAY(w, cb_undo(w->agent, 0, NULL, &e));
		return;
	case DO_REDO:
		SAY(w, cb_redo(w->agent, NULL, &e));
		return;
	case DO_RESTORE:
		restore(w, NULL);
		return;
	case DO_RESTORE_PATH:
		restore(w, move.p);
		return;
	case DO_TXN:
		transact(w);
		return;
	case DO_MERGE:
		merge_back(w);
		return;
	case DO_LOOK:
		look_around(w);
		return;
	case DO_PAST:
		past(w);
		return;
	default:
		SAY(w, run(w->agent, &e));
	}
}

static bool owner_may(void)
{
	bool keyed = move.kind == DO_KEY || move.kind == DO_KEY_DELETE;
	bool two = move.kind == DO_RENAME || move.kind == DO_EXCHANGE || move.kind == DO_COPY || move.kind == DO_LINK;
	if (keyed) {
		move.hidden = rules_hide(&both.rules, move.key);
		return true;
	}
	char link[80];
	(void)snprintf(link, sizeof(link), "%s-l", move.p);
	move.hidden = rules_hide(&both.rules, move.kind == DO_SYMLINK ? link : move.p);
	if (two && rules_hide(&both.rules, move.q) != move.hidden) return false;
	if (move.kind == DO_SYMLINK || move.hidden) return true;
	/* What is hidden below would go, or come out. */
	bool moves = two || move.kind == DO_REMOVE || move.kind == DO_RMDIR;
	return !moves || (!rule_below(move.p) && (!two || !rule_below(move.q)));
}

static void choose(void)
{
	do {
		move.owner = test_rand_below(&rng, 2) == 0;
		move.kind = (what)test_rand_below(&rng, move.owner ? OWNER_KINDS : AGENT_KINDS);
		move.number = (unsigned)test_rand(&rng);
		random_path(move.p);
		random_path(move.q);
		if (!move.owner && test_rand_below(&rng, 5) == 0)
			(void)snprintf(move.p, sizeof(move.p), "/work/%c-l/%c", 'a' + (int)test_rand_below(&rng, NAMES),
			               'a' + (int)test_rand_below(&rng, NAMES));
		(void)snprintf(move.key, sizeof(move.key), "%c.%c", 'a' + (int)test_rand_below(&rng, 2),
		               'a' + (int)test_rand_below(&rng, KEYS));
	} while (move.owner && !owner_may());
}

static void random_rules(void)
{
	size_t count = 1 + test_rand_below(&rng, 4);
	for (size_t i = 0; i < count; i++) {
		char path[64];
		random_path(path);
		rule_paths[i] = test_keep(strdup(path));
		rules_add(&both.rules, test_rand_below(&rng, 3) ? RULE_HIDE : RULE_READ_ONLY, rule_paths[i]);
	}
	rules_add(&both.rules, RULE_HIDE, "a.a");
	rules_add(&both.rules, RULE_READ_ONLY, "a.b");
}

TEST_LIMIT(an_agent_is_told_the_same_in_both_worlds, 300)
{
	rng = (test_rng){test_seed() | 1};
	for (unsigned round = 0; round < test_dose(3); round++) {
		twins_open(&both);
		random_rules();
		for (int i = 0; i < STEPS; i++) {
			choose();
			char name[256];
			(void)snprintf(name, sizeof(name), "round %u step %d: %s %d %s %s %s", round, i,
			               move.owner ? "owner" : "agent", (int)move.kind, move.p, move.q, move.key);
			const char *hidden = move.owner ? NULL : twins_hidden(&both), *kept = move.owner ? NULL : twins_kept(&both);
			twins_do(&both, name, move.owner ? owner_round : agent_round);
			if (!move.owner) CHECK_MSG(strcmp(hidden, twins_hidden(&both)) == 0, "%s changed what is hidden", name);
			if (!move.owner) CHECK_MSG(strcmp(kept, twins_kept(&both)) == 0, "%s changed what is kept", name);
			twins_do(&both, name, look_around);
		}
		twins_do(&both, "at the end", past);
		twins_close(&both);
	}
}
