/*
 * Who wrote what, at random. A few files have one of two texts each, so that most writes leave the bytes as they were; what else is done to
 * them is no write, and what was taken back was none. The model numbers the writes and keeps the last of each file, nothing more: a
 * transaction conflicts when one of those that it wrote was written since it began, and else it commits.
 */
#include "harness/boxes.h"
#include "harness/model_state.h"

enum { FILES = 3, TXNS = 3, ROUNDS = 480, DEEDS = 60 };

typedef struct open_txn {
	cb_box *t;             /* NULL: none */
	uint64_t began[FILES]; /* written[] then */
	bool wrote[FILES];
	unsigned made;
} open_txn;

typedef struct world {
	test_rng rng;
	model_trace trace;
	cb_box *b;
	uint64_t clock, written[FILES];
	size_t sizes[FILES];
	open_txn txns[TXNS];
	unsigned commits, conflicts;
} world;

static cb_error err;

static const char *path_of(size_t i)
{
	static const char *const paths[FILES] = {"/work/a", "/work/b", "/work/c"};
	return paths[i];
}

/* One of two texts, which differ in their only line. */
static void write_one(world *w, cb_box *b, size_t i)
{
	static char bytes[2048];
	memset(bytes, test_rand_below(&w->rng, 4) ? 'x' : 'y', sizeof(bytes));
	CHECK_OK(cb_write_file(b, path_of(i), bytes, w->sizes[i], NULL, &err));
}

static void write_by_file(world *w, cb_box *b, size_t i)
{
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, path_of(i), CB_READ | CB_WRITE, 0, &f, &err));
	if (test_rand_below(&w->rng, 2)) CHECK_OK(cb_pwrite(f, "x", 1, 0, &err));
	else CHECK_OK(cb_ftruncate(f, w->sizes[i], &err));
	CHECK_OK(cb_close(f, &err));
}

/* What is no write. once: by one step. */
static void touch_one(world *w, cb_box *b, size_t i, bool once)
{
	static unsigned turn;
	char value[16];
	(void)snprintf(value, sizeof(value), "%u", ++turn);
	switch (test_rand_below(&w->rng, once ? 2 : 4)) {
	case 0:
		CHECK_OK(cb_utimens(b, path_of(i), CB_TIME_OMIT, turn, 0, &err));
		return;
	case 1:
		CHECK_OK(cb_xattr_set(b, path_of(i), "user.x", value, strlen(value), 0, &err));
		return;
	case 2:
		CHECK_OK(cb_rename(b, path_of(i), "/work/aside", 0, &err));
		CHECK_OK(cb_rename(b, "/work/aside", path_of(i), 0, &err));
		return;
	default:
		CHECK_OK(cb_chmod(b, path_of(i), 0600 + turn % 0100, 0, &err));
	}
}

/* By the box, and perhaps taken back at once. */
static void deed_of_the_box(world *w)
{
	size_t i = test_rand_below(&w->rng, FILES);
	uint64_t what = test_rand_below(&w->rng, 4);
	bool back = what == 3 || test_rand_below(&w->rng, 3) == 0;
	model_note(&w->trace, "box: %s %s%s",
	           what == 0   ? "touch"
	           : what == 3 ? "unlink"
	                       : "write",
	           path_of(i), back ? ", undo" : "");
	if (what == 0) touch_one(w, w->b, i, back);
	if (what == 1) write_one(w, w->b, i);
	if (what == 2) write_by_file(w, w->b, i);
	if (what == 3) CHECK_OK(cb_unlink(w->b, path_of(i), &err));
	if (back) CHECK_OK(cb_undo(w->b, 0, NULL, &err));
	if (what && !back) w->written[i] = ++w->clock;
}

static void deed_of_a_txn(world *w, open_txn *x)
{
	size_t i = test_rand_below(&w->rng, FILES), n = (size_t)(x - w->txns);
	if (!x->t) {
		model_note(&w->trace, "%zu begins", n);
		*x = (open_txn){.made = x->made};
		memcpy(x->began, w->written, sizeof(x->began));
		CHECK_OK(cb_txn_begin(w->b, NULL, &x->t, &err));
		return;
	}
	if (test_rand_below(&w->rng, 3)) {
		bool by_file = test_rand_below(&w->rng, 2);
		char own[64];
		model_note(&w->trace, "%zu writes %s", n, path_of(i));
		if (by_file) write_by_file(w, x->t, i);
		else write_one(w, x->t, i);
		(void)snprintf(own, sizeof(own), "/work/%zu-%u", n,
		               x->made++); /* whatever becomes of the rest, there is something to commit */
		must_write(x->t, own, "own");
		x->wrote[i] = true;
		return;
	}
	bool conflict = false;
	for (size_t k = 0; k < FILES; k++) conflict = conflict || (x->wrote[k] && x->began[k] != w->written[k]);
	cb_code code = cb_txn_commit(x->t, NULL, NULL, &err);
	model_note(&w->trace, "%zu commits: %s", n, cb_code_name(code));
	if (code != (conflict ? CB_CONFLICT : CB_OK)) model_tell(&w->trace);
	CHECK_MSG(code == (conflict ? CB_CONFLICT : CB_OK), "%s: %s", cb_code_name(code), err.message);
	for (size_t k = 0; code == CB_OK && k < FILES; k++)
		if (x->wrote[k]) w->written[k] = ++w->clock;
	w->commits += code == CB_OK;
	w->conflicts += code == CB_CONFLICT;
	cb_box_close(x->t);
	x->t = NULL;
}

TEST_LIMIT(writes_at_random, 120)
{
	static const size_t sizes[] = {1, 5, 112, 113, 2000};
	unsigned commits = 0, conflicts = 0, rounds = test_dose(ROUNDS);
	for (uint64_t round = 0; round < rounds; round++) {
		world w = {.rng = {test_seed() + round * UINT64_C(0x9e3779b97f4a7c15)}};
		cb_store *s = test_store_open(true);
		CHECK_OK(cb_box_create(s, "demo", &w.b, &err));
		for (size_t i = 0; i < FILES; i++) {
			w.sizes[i] = sizes[test_rand_below(&w.rng, sizeof(sizes) / sizeof(*sizes))];
			write_one(&w, w.b, i);
		}
		for (unsigned i = 0; i < DEEDS; i++) {
			if (test_rand_below(&w.rng, 3) == 0) deed_of_the_box(&w);
			else deed_of_a_txn(&w, &w.txns[test_rand_below(&w.rng, TXNS)]);
		}
		for (size_t i = 0; i < TXNS; i++) cb_box_close(w.txns[i].t);
		cb_box_close(w.b);
		test_store_sound(s);
		cb_store_close(s);
		commits += w.commits;
		conflicts += w.conflicts;
	}
	printf("# %u commits, %u conflicts\n", commits, conflicts);
	CHECK(commits > rounds && conflicts > rounds);
}
