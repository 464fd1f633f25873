/*
 * test_names_taken_away.c: both sides take one and the same name away from a file, each in one of the ways in which a name can go, every
 * pair of them. The file has that name only, or a second one.
 *
 * - Of two transactions the second never commits: the name can be taken away once only. (To save a file that has no other name is to write
 *   it: where the other side moves it, both are done.)
 * - With a side preferred, and between forks, it does not matter which side is merged into the other.
 */
#include "harness/model_state.h"
#include "harness/sides.h"

typedef struct way {
	const char *name;
	deed *take; /* of "/work/d/g" */
	bool saves, moves;
} way;

static const char *const G = "/work/d/g";

static void unlinked(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, G, &err));
}

static void renamed(cb_box *b)
{
	mv(b, G, "/work/n");
}

static void renamed_into_another_folder(cb_box *b)
{
	mv(b, G, "/work/e/g");
}

static void covered(cb_box *b)
{
	mv(b, "/work/f", G);
}

static void covered_by_a_name_of_two(cb_box *b)
{
	mv(b, "/work/k", G);
}

static void covered_by_a_link(cb_box *b)
{
	mv(b, "/work/soft", G);
}

static void exchanged(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/f", G, CB_EXCHANGE, &err));
}

static void exchanged_with_a_folder(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/e", G, CB_EXCHANGE, &err));
}

static void linked_over(cb_box *b)
{
	cb_error err = {0};
	unlinked(b);
	CHECK_OK(cb_link(b, "/work/f", G, &err));
}

static void saved(cb_box *b)
{
	must_write(b, "/work/.new", "saved\n");
	mv(b, "/work/.new", G);
}

static void saved_as_it_was(cb_box *b)
{
	must_write(b, "/work/.new", "g\n");
	mv(b, "/work/.new", G);
}

static void made_a_link(cb_box *b)
{
	cb_error err = {0};
	unlinked(b);
	CHECK_OK(cb_symlink(b, "f", G, &err));
}

static void made_a_folder(cb_box *b)
{
	cb_error err = {0};
	unlinked(b);
	CHECK_OK(cb_mkdir(b, G, 0755, 0, &err));
}

static void gone_for_a_folder(cb_box *b)
{
	unlinked(b);
	mv(b, "/work/e", G);
}

static void gone_with_its_folder(cb_box *b)
{
	rm(b, "/work/d");
}

static const way ways[] = {
	{"unlinked", unlinked},
	{"renamed", renamed, .moves = true},
	{"renamed into another folder", renamed_into_another_folder, .moves = true},
	{"covered", covered},
	{"covered by a name of two", covered_by_a_name_of_two},
	{"covered by a link", covered_by_a_link},
	{"exchanged", exchanged, .moves = true},
	{"exchanged with a folder", exchanged_with_a_folder, .moves = true},
	{"linked over", linked_over},
	{"saved", saved, .saves = true},
	{"saved as it was", saved_as_it_was, .saves = true},
	{"made a link", made_a_link},
	{"made a folder", made_a_folder},
	{"gone for a folder", gone_for_a_folder},
	{"gone with its folder", gone_with_its_folder},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void one_name(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, "/work/e", 0755, 0, &err));
	must_write(b, "/work/e/x", "x\n");
	must_write(b, "/work/f", "f\n");
	must_write(b, "/work/k", "k\n");
	CHECK_OK(cb_link(b, "/work/k", "/work/l", &err));
	CHECK_OK(cb_symlink(b, "f", "/work/soft", &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	must_write(b, G, "g\n");
}

static void two_names(cb_box *b)
{
	cb_error err = {0};
	one_name(b);
	CHECK_OK(cb_link(b, G, "/work/h", &err));
}

static deed *const bases[] = {one_name, two_names};

/* The store "demo" of the pair, with what the box did; *t: a transaction from before, with what it did. */
static cb_store *begin(deed *base, const way *in_box, const way *in_txn, cb_box **b, cb_box **t)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", b, &err));
	base(*b);
	*t = must_begin(*b);
	in_txn->take(*t);
	in_box->take(*b);
	return s;
}

static void end(cb_store *s, cb_box *b, cb_box *t)
{
	cb_box_close(t);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* Each pair is told, not only the first that fails. */
static bool is_told(bool good, int names, const way *x, const way *y, const char *what)
{
	if (!good) printf("# %d names: %s, and %s: %s\n", names, x->name, y->name, what);
	return good;
}

TEST_LIMIT(of_two_transactions_one_loses, 120)
{
	unsigned good = 0;
	for (size_t i = 0; i < 2 * WAYS * WAYS; i++) {
		const way *x = &ways[i / 2 / WAYS], *y = &ways[i / 2 % WAYS];
		cb_error err = {0};
		cb_box *b = NULL, *t = NULL;
		cb_store *s = begin(bases[i % 2], x, y, &b, &t);
		char *before = must_dump(b);
		cb_code code = cb_txn_commit(t, NULL, NULL, &err);
		bool merges = i % 2 == 0 && ((x->saves && y->moves) || (x->moves && y->saves));
		bool lost = code == CB_CONFLICT && strcmp(must_dump(b), before) == 0;
		good += is_told(merges ? code == CB_OK : lost, (int)(i % 2) + 1, x, y, merges ? "not merged" : "both passed");
		end(s, b, t);
	}
	CHECK_U64(good, 2 * WAYS * WAYS);
}

/* The same, also in which names are one file. */
static bool is_alike(const model_state *a, const model_state *b)
{
	if (!a || !b) return !a && !b;
	if (!model_same(a, b)) return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->entries[i].links != b->entries[i].links) return false;
	return true;
}

/* What a commit leaves with a side preferred. */
static model_state *committed(deed *base, const way *in_box, const way *in_txn, cb_prefer prefer)
{
	cb_error err = {0};
	cb_box *b = NULL, *t = NULL;
	cb_store *s = begin(base, in_box, in_txn, &b, &t);
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = prefer), NULL, &err));
	model_state *now = model_read(b);
	end(s, b, t);
	return now;
}

/* What a merge of forks leaves; NULL: a conflict. */
static model_state *merged(deed *base, const way *into, const way *from, cb_prefer prefer)
{
	cb_error err = {0};
	sides p = sides_open(true, base);
	into->take(p.ours);
	from->take(p.theirs);
	cb_code code = cb_merge(p.ours, p.theirs, &CB_WITH(cb_merge_options, .prefer = prefer), NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || (code == CB_CONFLICT && !prefer), "%s", err.message);
	model_state *now = code == CB_OK ? model_read(p.ours) : NULL;
	sides_close(&p);
	return now;
}

typedef model_state *joining(deed *base, const way *into, const way *from, cb_prefer prefer);

/* x is preferred, or nobody. */
static void both_directions(joining *join, bool preferred)
{
	unsigned good = 0;
	for (size_t i = 0; i < 2 * WAYS * WAYS; i++) {
		const way *x = &ways[i / 2 / WAYS], *y = &ways[i / 2 % WAYS];
		model_state *one = join(bases[i % 2], x, y, preferred ? CB_PREFER_OURS : CB_PREFER_NONE),
			    *other = join(bases[i % 2], y, x, preferred ? CB_PREFER_THEIRS : CB_PREFER_NONE);
		bool told = is_told(is_alike(one, other), (int)(i % 2) + 1, x, y, "not the same in both directions");
		if (!told && one && other) printf("# %s", model_explain(one, other));
		good += told;
		model_free(one);
		model_free(other);
	}
	CHECK_U64(good, 2 * WAYS * WAYS);
}

TEST_LIMIT(commits_for_a_preferred_side, 120)
{
	both_directions(committed, true);
}

TEST_LIMIT(forks_with_nobody_preferred, 120)
{
	both_directions(merged, false);
}

TEST_LIMIT(forks_with_a_side_preferred, 120)
{
	both_directions(merged, true);
}
