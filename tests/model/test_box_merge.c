/*
 * test_box_merge.c: three-way merges: the known traps one by one, then random ones against a merger by path.
 *
 * The reference knows paths and bytes only. It decides what it can: when no path that one side changed is, holds or lies in a path that
 * the other changed, the result is the union of both. A path counts as changed when another inode sits there, so that a file renamed
 * away and rewritten is not mistaken for the old one; files with several names are left to the invariants.
 *
 * Invariants of every merge: fsck finds nothing; the result is always the same; a conflict leaves the box as it was, is counted and
 * named; with a preference there is none; merging again gives CB_NOTHING; merging back gives exactly the merged state.
 */
#include "harness/model_state.h"

/* ---- the traps of merging by key ---- */

typedef struct trap {
	cb_store *s;
	cb_box *ours, *theirs;
	cb_error err;
} trap;

/* A box "ours" with what `prepare` puts in, and a fork "theirs" of it. */
static void trap_open(trap *t, bool memory, void (*prepare)(cb_box *b))
{
	cb_error err = {0};
	*t = (trap){.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(t->s, "ours", &t->ours, &err));
	prepare(t->ours);
	t->theirs = must_fork(t->s, "ours", "theirs");
}

static void trap_close(trap *t)
{
	test_store_sound(t->s);
	cb_box_close(t->ours);
	cb_box_close(t->theirs);
	cb_store_close(t->s);
}

static void expect(cb_box *b, const char *path, const char *text)
{
	cb_error err = {0};
	char *bytes = NULL;
	CHECK_OK(cb_read_file(b, path, &bytes, NULL, &err));
	CHECK_STR(bytes, text);
	cb_free(bytes);
}

static uint64_t merge_with(cb_box *into, cb_box *from, cb_prefer prefer)
{
	cb_error err = {0};
	cb_merge_options o = CB_WITH(cb_merge_options, .prefer = prefer);
	uint64_t conflicts = 99;
	CHECK_OK(cb_merge(into, from, &o, NULL, &conflicts, &err));
	CHECK_U64(conflicts, 0);
	return conflicts;
}

/* The merge must stop at exactly one conflict, with that path and these words in the message, and leave the box alone. */
static void expect_conflict(trap *t, const char *path, const char *reason)
{
	model_state *before = model_read(t->ours);
	uint64_t seq = must_seq(t->ours), conflicts = 0;
	CHECK_CODE(cb_merge(t->ours, t->theirs, NULL, NULL, &conflicts, &t->err), CB_CONFLICT);
	CHECK_U64(conflicts, 1);
	CHECK_MSG(strstr(t->err.message, path) && strstr(t->err.message, reason), "\"%s\" lacks '%s' or '%s'", t->err.message, path,
	          reason);
	model_state *after = model_read(t->ours);
	CHECK_MODEL(before, after, "a merge with a conflict");
	CHECK_U64(must_seq(t->ours), seq);
	model_free(before);
	model_free(after);
}

/* Both answers to a conflict, each in a fork of ours. */
static void answers(trap *t, cb_box **with_ours, cb_box **with_theirs)
{
	*with_ours = must_fork(t->s, "ours", "with-ours");
	*with_theirs = must_fork(t->s, "ours", "with-theirs");
	(void)merge_with(*with_ours, t->theirs, CB_PREFER_OURS);
	(void)merge_with(*with_theirs, t->theirs, CB_PREFER_THEIRS);
	test_store_sound(t->s);
}

static void prepare_nothing(cb_box *b)
{
	(void)b;
}

static void prepare_file(cb_box *b)
{
	must_write(b, "/work/a", "one\ntwo\nthree\n");
}

static void prepare_folder(cb_box *b)
{
	must_write(b, "/work/d/old", "old");
}

static void prepare_two_folders(cb_box *b)
{
	must_write(b, "/work/a/in-a", "a");
	must_write(b, "/work/b/in-b", "b");
}

TEST_BOTH(inodes_of_two_forks_do_not_meet)
{
	trap t;
	trap_open(&t, memory, prepare_nothing);
	for (int i = 0; i < 50; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/ours-%d", i);
		must_write(t.ours, path, path);
		(void)snprintf(path, sizeof(path), "/work/theirs-%d", i);
		must_write(t.theirs, path, path);
	}
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	for (int i = 0; i < 50; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/ours-%d", i);
		expect(t.ours, path, path);
		(void)snprintf(path, sizeof(path), "/work/theirs-%d", i);
		expect(t.ours, path, path);
	}
	trap_close(&t);
}

TEST_BOTH(deleted_here_added_in_there)
{
	cb_error err = {0};
	trap t;
	cb_box *with_ours, *with_theirs;
	trap_open(&t, memory, prepare_folder);
	CHECK_OK(cb_remove(t.ours, "/work/d", &err));
	must_write(t.theirs, "/work/d/new", "new");
	expect_conflict(&t, "/work/d/new", "gone here");
	answers(&t, &with_ours, &with_theirs);
	CHECK(!exists(with_ours, "/work/d"));
	expect(with_theirs, "/work/d/new", "new");
	CHECK(!exists(with_theirs, "/work/d/old"));
	cb_box_close(with_ours);
	cb_box_close(with_theirs);
	trap_close(&t);
}

TEST_BOTH(added_in_here_deleted_there)
{
	cb_error err = {0};
	trap t;
	cb_box *with_ours, *with_theirs;
	trap_open(&t, memory, prepare_folder);
	must_write(t.ours, "/work/d/new", "new");
	CHECK_OK(cb_remove(t.theirs, "/work/d", &err));
	expect_conflict(&t, "/work/d", "deleted there");
	answers(&t, &with_ours, &with_theirs);
	expect(with_ours, "/work/d/new", "new");
	CHECK(!exists(with_ours, "/work/d/old"));
	CHECK(!exists(with_theirs, "/work/d"));
	cb_box_close(with_ours);
	cb_box_close(with_theirs);
	trap_close(&t);
}

TEST_BOTH(one_file_two_new_names)
{
	cb_error err = {0};
	trap t;
	cb_box *with_ours, *with_theirs;
	trap_open(&t, memory, prepare_file);
	CHECK_OK(cb_rename(t.ours, "/work/a", "/work/b", 0, &err));
	CHECK_OK(cb_rename(t.theirs, "/work/a", "/work/c", 0, &err));
	expect_conflict(&t, "/work/b", "renamed differently");
	answers(&t, &with_ours, &with_theirs);
	CHECK(exists(with_ours, "/work/b") && !exists(with_ours, "/work/c") && !exists(with_ours, "/work/a"));
	CHECK(exists(with_theirs, "/work/c") && !exists(with_theirs, "/work/b") && !exists(with_theirs, "/work/a"));
	cb_box_close(with_ours);
	cb_box_close(with_theirs);
	trap_close(&t);
}

TEST_BOTH(two_folders_into_each_other)
{
	cb_error err = {0};
	trap t;
	cb_box *with_ours, *with_theirs;
	trap_open(&t, memory, prepare_two_folders);
	CHECK_OK(cb_rename(t.ours, "/work/a", "/work/b/a", 0, &err));
	CHECK_OK(cb_rename(t.theirs, "/work/b", "/work/a/b", 0, &err));
	expect_conflict(&t, "/work/b", "into each other");
	answers(&t, &with_ours, &with_theirs);
	expect(with_ours, "/work/b/a/in-a", "a");
	expect(with_ours, "/work/b/in-b", "b");
	expect(with_theirs, "/work/a/b/in-b", "b");
	expect(with_theirs, "/work/a/in-a", "a");
	cb_box_close(with_ours);
	cb_box_close(with_theirs);
	trap_close(&t);
}

TEST_BOTH(renamed_here_appended_there)
{
	cb_error err = {0};
	trap t;
	trap_open(&t, memory, prepare_file);
	CHECK_OK(cb_rename(t.ours, "/work/a", "/work/b", 0, &err));
	cb_write_options o = CB_WITH(cb_write_options, .append = true);
	CHECK_OK(cb_write_file(t.theirs, "/work/a", "four\n", 5, &o, &err));
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	expect(t.ours, "/work/b", "one\ntwo\nthree\nfour\n");
	CHECK(!exists(t.ours, "/work/a"));
	trap_close(&t);
}

TEST_BOTH(appended_here_renamed_there)
{
	cb_error err = {0};
	trap t;
	trap_open(&t, memory, prepare_file);
	cb_write_options o = CB_WITH(cb_write_options, .append = true);
	CHECK_OK(cb_write_file(t.ours, "/work/a", "four\n", 5, &o, &err));
	CHECK_OK(cb_rename(t.theirs, "/work/a", "/work/b", 0, &err));
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	expect(t.ours, "/work/b", "one\ntwo\nthree\nfour\n");
	CHECK(!exists(t.ours, "/work/a"));
	trap_close(&t);
}

/* Large enough for extents: the data of a file is one unit, not keys of its own. */
TEST_BOTH(large_file_renamed_here_appended_there)
{
	cb_error err = {0};
	trap t;
	enum { SIZE = 3 << 20 };
	char *big = model_alloc(SIZE + 4), *bytes = NULL;
	size_t size = 0;
	memset(big, 'x', SIZE);
	trap_open(&t, memory, prepare_nothing);
	CHECK_OK(cb_write_file(t.ours, "/work/big", big, SIZE, NULL, &err));
	cb_box_close(t.theirs);
	t.theirs = must_fork(t.s, "ours", "theirs2");
	CHECK_OK(cb_rename(t.ours, "/work/big", "/work/moved", 0, &err));
	cb_write_options o = CB_WITH(cb_write_options, .append = true);
	CHECK_OK(cb_write_file(t.theirs, "/work/big", "tail", 4, &o, &err));
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	CHECK_OK(cb_read_file(t.ours, "/work/moved", &bytes, &size, &err));
	memcpy(big + SIZE, "tail", 4);
	CHECK(size == SIZE + 4 && memcmp(bytes, big, size) == 0);
	cb_free(bytes);
	free(big);
	trap_close(&t);
}

TEST_BOTH(both_make_the_same_folder)
{
	trap t;
	trap_open(&t, memory, prepare_nothing);
	must_write(t.ours, "/work/build/deep/ours", "o");
	must_write(t.theirs, "/work/build/deep/theirs", "t");
	must_write(t.ours, "/work/build/same", "s");
	must_write(t.theirs, "/work/build/same", "s");
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	expect(t.ours, "/work/build/deep/ours", "o");
	expect(t.ours, "/work/build/deep/theirs", "t");
	expect(t.ours, "/work/build/same", "s");
	trap_close(&t);
}

/* Theirs replaced a folder by a file while ours put something into the folder. */
TEST_BOTH(folder_replaced_there_filled_here)
{
	cb_error err = {0};
	trap t;
	cb_box *with_ours, *with_theirs;
	trap_open(&t, memory, prepare_folder);
	must_write(t.ours, "/work/d/new", "new");
	CHECK_OK(cb_remove(t.theirs, "/work/d", &err));
	must_write(t.theirs, "/work/d", "now a file");
	uint64_t conflicts = 0;
	CHECK_CODE(cb_merge(t.ours, t.theirs, NULL, NULL, &conflicts, &err), CB_CONFLICT);
	answers(&t, &with_ours, &with_theirs);
	expect(with_ours, "/work/d/new", "new");
	expect(with_theirs, "/work/d", "now a file");
	cb_box_close(with_ours);
	cb_box_close(with_theirs);
	trap_close(&t);
}

TEST_BOTH(names_swapped_there)
{
	cb_error err = {0};
	trap t;
	trap_open(&t, memory, prepare_two_folders);
	CHECK_OK(cb_rename(t.theirs, "/work/a", "/work/b", CB_EXCHANGE, &err));
	must_write(t.ours, "/work/a/more", "m");
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	expect(t.ours, "/work/b/in-a", "a");
	expect(t.ours, "/work/b/more", "m");
	expect(t.ours, "/work/a/in-b", "b");
	trap_close(&t);
}

/* ---- the base of the second merge, and what prune leaves ---- */

TEST_BOTH(second_merge_starts_from_the_first)
{
	trap t;
	trap_open(&t, memory, prepare_file);
	must_write(t.theirs, "/work/a", "ONE\ntwo\nthree\n");
	must_write(t.theirs, "/work/new", "x");
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	/* ours takes back what it got; with the fork point as base, the next merge would bring it again */
	must_write(t.ours, "/work/a", "one\ntwo\nthree\n");
	CHECK(cb_unlink(t.ours, "/work/new", NULL) == CB_OK);
	must_write(t.theirs, "/work/a", "ONE\ntwo\nTHREE\n");
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	expect(t.ours, "/work/a", "one\ntwo\nTHREE\n");
	CHECK(!exists(t.ours, "/work/new"));
	CHECK_CODE(cb_merge(t.ours, t.theirs, NULL, NULL, NULL, NULL), CB_NOTHING);
	/* and the other way: theirs takes over all that ours decided */
	(void)merge_with(t.theirs, t.ours, CB_PREFER_NONE);
	expect(t.theirs, "/work/a", "one\ntwo\nTHREE\n");
	CHECK(!exists(t.theirs, "/work/new"));
	trap_close(&t);
}

static void prune_all(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
}

TEST_BOTH(fork_and_merge_points_survive_prune)
{
	trap t;
	trap_open(&t, memory, prepare_file);
	must_write(t.ours, "/work/o", "1");
	must_write(t.ours, "/work/o", "2");
	must_write(t.theirs, "/work/t", "1");
	must_write(t.theirs, "/work/t", "2");
	prune_all(t.s, t.ours);
	prune_all(t.s, t.theirs);
	test_store_sound(t.s);
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	expect(t.ours, "/work/t", "2");
	must_write(t.ours, "/work/t", "ours again");
	must_write(t.theirs, "/work/t2", "1");
	must_write(t.theirs, "/work/t2", "2");
	must_write(t.ours, "/work/o", "3");
	prune_all(t.s, t.theirs);
	prune_all(t.s, t.ours);
	(void)merge_with(t.ours, t.theirs, CB_PREFER_NONE);
	expect(t.ours, "/work/t", "ours again");
	expect(t.ours, "/work/t2", "2");
	trap_close(&t);
}

TEST_BOTH(middle_step_undone_is_a_reverse_merge)
{
	cb_error err = {0};
	trap t;
	trap_open(&t, memory, prepare_file);
	must_write(t.ours, "/work/a", "ONE\ntwo\nthree\n");
	uint64_t middle = must_seq(t.ours);
	must_write(t.ours, "/work/a", "ONE\ntwo\nTHREE\n");
	CHECK_OK(cb_rename(t.ours, "/work/a", "/work/b", 0, &err));
	CHECK_OK(cb_undo(t.ours, middle, NULL, &err));
	expect(t.ours, "/work/b", "one\ntwo\nTHREE\n");
	CHECK_OK(cb_redo(t.ours, NULL, &err));
	expect(t.ours, "/work/b", "ONE\ntwo\nTHREE\n");
	must_write(t.ours, "/work/b", "uno\ntwo\nTHREE\n");
	CHECK_CODE(cb_undo(t.ours, middle, NULL, &err), CB_CONFLICT);
	CHECK(strstr(err.message, "/work/b") != NULL);
	expect(t.ours, "/work/b", "uno\ntwo\nTHREE\n");
	trap_close(&t);
}

/* A file that came back by undo, was renamed, and is asked to come back once more: it must not be there twice. */
TEST_BOTH(undone_twice)
{
	cb_error err = {0};
	trap t;
	trap_open(&t, memory, prepare_file);
	CHECK_OK(cb_unlink(t.ours, "/work/a", &err));
	uint64_t deletion = must_seq(t.ours);
	CHECK_OK(cb_undo(t.ours, deletion, NULL, &err));
	CHECK_OK(cb_rename(t.ours, "/work/a", "/work/b", 0, &err));
	cb_code code = cb_undo(t.ours, deletion, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_CONFLICT || code == CB_NOTHING, "%s (%s)", cb_code_name(code), err.message);
	expect(t.ours, "/work/b", "one\ntwo\nthree\n");
	trap_close(&t);
}

/* ---- random changes ---- */

typedef struct fuzz {
	test_rng rng;
	cb_store *s;
	model_trace trace;
	unsigned stamp; /* makes written texts differ */
} fuzz;

static uint64_t below(fuzz *z, uint64_t n)
{
	return test_rand_below(&z->rng, n);
}

static void random_path(fuzz *z, char out[64])
{
	static const char *const names[] = {"a", "b", "c"};
	uint64_t depth = 1 + below(z, 3);
	(void)strcpy(out, "/w");
	for (uint64_t i = 0; i < depth; i++) {
		(void)strcat(out, "/");
		(void)strcat(out, names[below(z, 3)]);
	}
}

/* Ten lines, of which one is changed: edits of two sides often merge. */
static void edit_line(fuzz *z, cb_box *b, const char *path)
{
	char *bytes = NULL, out[2048] = "";
	size_t size = 0;
	if (cb_read_file(b, path, &bytes, &size, NULL) != CB_OK) return;
	uint64_t which = below(z, 10);
	const char *at = bytes;
	for (uint64_t i = 0; i < 10; i++) {
		size_t n = strcspn(at, "\n");
		size_t used = strlen(out);
		if (i == which) (void)snprintf(out + used, sizeof(out) - used, "line %" PRIu64 " changed %u\n", i, ++z->stamp);
		else if (*at) (void)snprintf(out + used, sizeof(out) - used, "%.*s\n", (int)n, at);
		at += n + (at[n] == '\n');
	}
	cb_free(bytes);
	(void)cb_write_file(b, path, out, strlen(out), NULL, NULL);
}

static void write_new(fuzz *z, cb_box *b, const char *path, bool lines)
{
	char text[1024] = "";
	if (lines)
		for (int i = 0; i < 10; i++) (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "line %d\n", i);
	else (void)snprintf(text, sizeof(text), "text %u", ++z->stamp % 7); /* sometimes the same on both sides */
	cb_write_options o = CB_WITH(cb_write_options, .parents = below(z, 3) == 0);
	(void)cb_write_file(b, path, text, strlen(text), &o, NULL);
}

static void random_attr(fuzz *z, cb_box *b, const char *path)
{
	char name[16], value[32];
	(void)snprintf(name, sizeof(name), "user.%c", (char)('a' + below(z, 2)));
	(void)snprintf(value, sizeof(value), "%u", ++z->stamp % 5);
	switch (below(z, 4)) {
	case 0:
		(void)cb_xattr_remove(b, path, name, CB_NOFOLLOW, NULL);
		break;
	case 1:
		(void)cb_tag_add(b, path, name, NULL);
		break;
	default:
		(void)cb_xattr_set(b, path, name, value, strlen(value), CB_NOFOLLOW, NULL);
	}
}

static void random_kv(fuzz *z, cb_box *b)
{
	char name[8], value[16];
	(void)snprintf(name, sizeof(name), "k%c", (char)('a' + below(z, 6)));
	(void)snprintf(value, sizeof(value), "%u", ++z->stamp % 9);
	if (below(z, 4) == 0) (void)cb_kv_delete(b, name, NULL);
	else (void)cb_kv_set(b, name, value, strlen(value), NULL);
}

/* Failing calls are fine: the states are read afterwards, not predicted. */
static void change(fuzz *z, cb_box *b, const char *who)
{
	char path[64], other[64];
	random_path(z, path);
	random_path(z, other);
	uint64_t kind = below(z, 30);
	model_note(&z->trace, "%s: %" PRIu64 " %s %s", who, kind, path, other);
	if (kind < 5) write_new(z, b, path, kind < 2);
	else if (kind < 9) edit_line(z, b, path);
	else if (kind < 16) (void)cb_rename(b, path, other, kind == 15 ? CB_EXCHANGE : 0, NULL);
	else if (kind < 18) (void)cb_mkdir(b, path, 0755, 0, NULL);
	else if (kind < 20) (void)cb_unlink(b, path, NULL);
	else if (kind < 21) (void)cb_remove(b, path, NULL);
	else if (kind < 23) (void)cb_link(b, path, other, NULL);
	else if (kind < 24) (void)cb_symlink(b, other, path, NULL);
	else if (kind < 25) (void)cb_chmod(b, path, below(z, 2) ? 0600 : 0700, CB_NOFOLLOW, NULL);
	else if (kind < 27) random_attr(z, b, path);
	else if (kind < 28) (void)cb_write_file(b, path, "tail\n", 5, &CB_WITH(cb_write_options, .append = true), NULL);
	else random_kv(z, b);
}

static void changes(fuzz *z, cb_box *b, const char *who, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) change(z, b, who);
}

/* ---- the reference ---- */

static bool changed_at(const model_state *base, const model_state *side, const char *path)
{
	const model_entry *a = model_find(base, path), *b = model_find(side, path);
	if (!a || !b) return a != b;
	return a->ino != b->ino || !model_entry_same(a, b);
}

typedef struct paths {
	const char *all[2000]; /* lent by the states */
	size_t count;
} paths;

static void collect_changed(const model_state *base, const model_state *side, paths *out)
{
	out->count = 0;
	for (size_t i = 0; i < base->count; i++)
		if (changed_at(base, side, base->entries[i].path)) out->all[out->count++] = base->entries[i].path;
	for (size_t i = 0; i < side->count; i++)
		if (!model_find(base, side->entries[i].path)) out->all[out->count++] = side->entries[i].path;
	CHECK(out->count < 2000);
}

static bool several_names(const model_state *s, const char *path)
{
	const model_entry *e = model_find(s, path);
	return e && e->type != CB_DIR && e->links > 1;
}

static bool decidable(const model_state *base, const model_state *ours, const model_state *theirs, const paths *po, const paths *pt)
{
	const model_state *all[] = {base, ours, theirs};
	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < po->count; k++)
			if (several_names(all[i], po->all[k])) return false;
		for (size_t k = 0; k < pt->count; k++)
			if (several_names(all[i], pt->all[k])) return false;
	}
	for (size_t i = 0; i < po->count; i++)
		for (size_t k = 0; k < pt->count; k++)
			if (model_within(po->all[i], pt->all[k]) || model_within(pt->all[k], po->all[i])) return false;
	return true;
}

static void copy_entry(model_state *to, const model_entry *e)
{
	model_entry *made = model_put(to, e->path, e->type, e->mode, e->ino, e->bytes, e->size);
	free(made->attrs);
	made->attrs = model_strdup(e->attrs);
}

static model_state *union_of(const model_state *ours, const model_state *theirs, const paths *pt)
{
	model_state *out = model_copy(ours);
	for (size_t i = 0; i < pt->count; i++) {
		const model_entry *e = model_find(theirs, pt->all[i]);
		if (e) copy_entry(out, e);
		else if (model_find(out, pt->all[i])) model_remove(out, pt->all[i]);
	}
	return out;
}

/* ---- one random merge ---- */

typedef struct heard {
	uint64_t count;
	char first[256];
} heard;

static cb_prefer hear(void *context, const cb_conflict *c)
{
	heard *h = context;
	CHECK(c->path && c->path[0] && strcmp(c->path, "?") != 0 && c->reason && c->reason[0]);
	if (h->count++ == 0) (void)snprintf(h->first, sizeof(h->first), "%s", c->path);
	return CB_PREFER_NONE;
}

/* Merges into a fork of `into` of its own. *out: the result, or what the box still was after a conflict. */
static cb_code merge_fork(fuzz *z, const char *into, const char *name, cb_box *from, cb_prefer prefer, model_state **out)
{
	cb_error err = {0};
	heard h = {0};
	uint64_t conflicts = 0;
	cb_box *b = must_fork(z->s, into, name);
	model_state *before = model_read(b);
	cb_merge_options o = CB_WITH(cb_merge_options, .prefer = prefer, .resolve = hear, .context = &h);
	cb_code code = cb_merge(b, from, &o, NULL, &conflicts, &err);
	*out = model_read(b);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT, "merge: %s (%s)", cb_code_name(code), err.message);
	CHECK(prefer == CB_PREFER_NONE || code != CB_CONFLICT);
	if (code == CB_CONFLICT) {
		CHECK_MODEL(before, *out, "a merge with a conflict");
		CHECK(h.count > 0);
		CHECK_U64(conflicts, h.count);
		CHECK_MSG(strstr(err.message, h.first), "\"%s\" does not name '%s'", err.message, h.first);
		CHECK_U64(must_seq(b), 0);
	} else {
		CHECK_U64(conflicts, 0);
	}
	if (code == CB_OK) CHECK_CODE(cb_merge(b, from, &o, NULL, NULL, &err), CB_NOTHING);
	test_store_sound(z->s);
	model_free(before);
	cb_box_close(b);
	return code;
}

/* After theirs was merged into `merged`, theirs takes the result over as it is. */
static void merge_back(fuzz *z, const char *merged, const model_state *expected)
{
	cb_error err = {0};
	cb_box *b = must_fork(z->s, "theirs", "back"), *m = must_open(z->s, merged);
	cb_code code = cb_merge(b, m, NULL, NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "merging back: %s (%s)", cb_code_name(code), err.message);
	model_state *now = model_read(b);
	CHECK_MODEL(expected, now, "merging back");
	model_free(now);
	cb_box_close(b);
	cb_box_close(m);
}

static void check_reference(cb_box *base, cb_box *ours, cb_box *theirs, cb_code code, const model_state *merged)
{
	model_state *mb = model_read(base), *mo = model_read(ours), *mt = model_read(theirs);
	paths *po = model_alloc(sizeof(*po)), *pt = model_alloc(sizeof(*pt));
	collect_changed(mb, mo, po);
	collect_changed(mb, mt, pt);
	if (decidable(mb, mo, mt, po, pt)) {
		model_state *expected = union_of(mo, mt, pt);
		CHECK_MSG(code != CB_CONFLICT, "a conflict although nothing overlaps");
		CHECK_MODEL(expected, merged, "changes that do not overlap");
		model_free(expected);
	}
	free(po);
	free(pt);
	model_free(mb);
	model_free(mo);
	model_free(mt);
}

static void one_merge(fuzz *z)
{
	cb_error err = {0};
	cb_box *base = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &z->s, &err));
	CHECK_OK(cb_box_create(z->s, "base", &base, &err));
	CHECK_OK(cb_mkdir(base, "/w", 0755, 0, &err));
	changes(z, base, "base", 5 + below(z, 25));
	cb_box *ours = must_fork(z->s, "base", "ours"), *theirs = must_fork(z->s, "base", "theirs");
	uint64_t most = below(z, 2) ? 3 : 14;
	changes(z, ours, "ours", 1 + below(z, most));
	changes(z, theirs, "theirs", 1 + below(z, most));
	model_state *first, *second, *with_ours, *with_theirs, *reverse;
	cb_code code = merge_fork(z, "ours", "m1", theirs, CB_PREFER_NONE, &first);
	CHECK(merge_fork(z, "ours", "m2", theirs, CB_PREFER_NONE, &second) == code);
	CHECK_MODEL(first, second, "the same merge twice");
	check_reference(base, ours, theirs, code, first);
	(void)merge_fork(z, "ours", "m3", theirs, CB_PREFER_OURS, &with_ours);
	(void)merge_fork(z, "ours", "m4", theirs, CB_PREFER_THEIRS, &with_theirs);
	cb_code reverse_code = merge_fork(z, "theirs", "m5", ours, CB_PREFER_NONE, &reverse);
	if (code == CB_OK) {
		CHECK_MODEL(first, with_ours, "a preference where there was no conflict");
		CHECK_MODEL(first, with_theirs, "a preference where there was no conflict");
	}
	if (code == CB_OK && reverse_code == CB_OK) CHECK_MODEL(first, reverse, "merging the other way round");
	merge_back(z, "m4", with_theirs);
	test_store_sound(z->s);
	model_free(first);
	model_free(second);
	model_free(with_ours);
	model_free(with_theirs);
	model_free(reverse);
	cb_box_close(base);
	cb_box_close(ours);
	cb_box_close(theirs);
	cb_store_close(z->s);
}

static void rounds(void (*one)(fuzz *z), unsigned count)
{
	static fuzz z;
	uint64_t seed = test_seed();
	for (unsigned i = 0; i < test_dose(count); i++) {
		z = (fuzz){.rng = {seed + i * 7919}};
		if (getenv("COWBOX_TRACE")) test_note("round %u", i);
		(void)test_rand(&z.rng);
		one(&z);
	}
}

TEST_LIMIT(random_merges, 60)
{
	rounds(one_merge, 150);
}

/* ---- two boxes that merge to and fro ---- */

static void to_and_fro(fuzz *z)
{
	cb_error err = {0};
	cb_box *boxes[3] = {NULL};
	CHECK_OK(cb_store_open(":memory:", NULL, &z->s, &err));
	CHECK_OK(cb_box_create(z->s, "b0", &boxes[0], &err));
	CHECK_OK(cb_mkdir(boxes[0], "/w", 0755, 0, &err));
	changes(z, boxes[0], "b0", 15);
	boxes[1] = must_fork(z->s, "b0", "b1");
	boxes[2] = must_fork(z->s, "b1", "b2");
	for (int i = 0; i < 12; i++) {
		uint64_t into = below(z, 3), from = (into + 1 + below(z, 2)) % 3;
		changes(z, boxes[into], "into", below(z, 4));
		changes(z, boxes[from], "from", below(z, 4));
		model_note(&z->trace, "merge %" PRIu64 " into %" PRIu64, from, into);
		cb_merge_options o = CB_WITH(cb_merge_options, .prefer = below(z, 2) ? CB_PREFER_OURS : CB_PREFER_THEIRS);
		err = (cb_error){0};
		cb_code code = cb_merge(boxes[into], boxes[from], &o, NULL, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "merge: %s (%s)", cb_code_name(code), err.message);
		if (below(z, 4) == 0) prune_all(z->s, boxes[below(z, 3)]);
		if (i % 3 == 2) test_store_sound(z->s);
	}
	test_store_sound(z->s);
	for (int i = 0; i < 3; i++) cb_box_close(boxes[i]);
	cb_store_close(z->s);
}

TEST_LIMIT(random_to_and_fro, 60)
{
	rounds(to_and_fro, 100);
}

/* ---- undo of middle steps ---- */

static void undo_one(fuzz *z, cb_box *b)
{
	cb_error err = {0};
	uint64_t seq = 1 + below(z, must_seq(b)), head = must_seq(b), made = 0;
	model_state *before = model_read(b);
	model_note(&z->trace, "undo %" PRIu64, seq);
	cb_code code = cb_undo(b, seq, &made, &err);
	CHECK_MSG(code == CB_OK || code == CB_CONFLICT || code == CB_NOTHING, "undo %" PRIu64 ": %s (%s)", seq, cb_code_name(code),
	          err.message);
	test_store_sound(z->s);
	model_state *after = model_read(b);
	if (code != CB_OK) {
		CHECK_MODEL(before, after, "an undo that failed");
		CHECK_U64(must_seq(b), head);
	} else if (made != 0 && !model_same(before, after) && below(z, 2)) {
		model_note(&z->trace, "redo");
		CHECK_OK(cb_redo(b, NULL, &err));
		model_state *again = model_read(b);
		CHECK_MODEL(before, again, "undo and redo of a middle step");
		model_free(again);
		test_store_sound(z->s);
	}
	model_free(before);
	model_free(after);
}

static void undo_middle(fuzz *z)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &z->s, &err));
	CHECK_OK(cb_box_create(z->s, "b", &b, &err));
	CHECK_OK(cb_mkdir(b, "/w", 0755, 0, &err));
	changes(z, b, "b", 30);
	for (int i = 0; i < 12; i++) {
		undo_one(z, b);
		changes(z, b, "b", below(z, 3));
	}
	cb_box_close(b);
	cb_store_close(z->s);
}

TEST_LIMIT(random_undo, 60)
{
	rounds(undo_middle, 150);
}
