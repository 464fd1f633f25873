/*
 * test_blame_model.c: who wrote each line of a file in random histories of writes, undos of the newest and of any step, redos and restores
 * of the file. Every line is unique, so it was written by the first step that had it, however often it was taken away and brought back.
 * Then of several files, which are moved to free places, and removed, with their folders too, and come back by restores of all, of a
 * folder, of a path.
 */
#include "harness/boxes.h"

static const char the_file[] = "/work/f";
enum { LINES_MAX = 2000, OPS = 40 };

typedef struct world {
	cb_store *s;
	cb_box *b;
	test_rng rng;
	uint64_t writers[LINES_MAX]; /* by the line's number */
	size_t lines;                /* so many were written */
	uint64_t seq;                /* the newest step */
	char *left;                  /* of the text, when blame is looked at */
	bool middle;                 /* an undo of a step in the middle was among the steps */
} world;

/* A few lines are put in, taken out and replaced, far apart mostly, and never reordered. */
static void edit(world *w, const char *path)
{
	cb_error err = {0};
	char out[16384];
	size_t n = 0, first = w->lines;
	for (const char *at = exists(w->b, path) ? must_read(w->b, path) : ""; *at && n < sizeof(out) - 100;
	     at += strcspn(at, "\n") + 1) {
		uint64_t kind = test_rand_below(&w->rng, 40);
		if (kind < 2) n += (size_t)snprintf(out + n, sizeof(out) - n, "%zu\n", w->lines++);
		if (kind != 1 && kind != 2) n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s\n", (int)strcspn(at, "\n"), at);
	}
	if (n == 0 || w->lines == first) n += (size_t)snprintf(out + n, sizeof(out) - n, "%zu\n", w->lines++);
	CHECK(w->lines <= LINES_MAX);
	CHECK_OK(cb_write_file(w->b, path, out, n, &CB_WITH(cb_write_options, .parents = true), &err));
	w->seq = must_seq(w->b);
	for (size_t i = first; i < w->lines; i++) w->writers[i] = w->seq;
}

/* What cannot be taken back, or is taken back already, is left. */
static void go_back(world *w)
{
	uint64_t kind = test_rand_below(&w->rng, 6), step = 1 + test_rand_below(&w->rng, w->seq), made = 0;
	cb_error err = {0};
	cb_code code;
	if (kind == 0) code = cb_redo(w->b, &made, &err);
	else if (kind == 1) code = cb_undo(w->b, 0, &made, &err);
	else if (kind == 2) {
		char address[32];
		(void)snprintf(address, sizeof(address), "demo@%" PRIu64, step);
		cb_box *old = must_open(w->s, address);
		code = cb_restore(w->b, old, the_file, &made, &err);
		cb_box_close(old);
	} else {
		code = cb_undo(w->b, step, &made, &err);
		if (code == CB_OK && step < w->seq) w->middle = true;
	}
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT || code == CB_NOTFOUND, "%s", err.message);
	w->seq = must_seq(w->b);
}

static cb_code check_line(void *context, const cb_blame_line *line, cb_error *err)
{
	world *w = context;
	(void)err;
	uint64_t number = strtoull(w->left, &w->left, 10);
	CHECK(*w->left++ == '\n');
	CHECK_MSG(line->seq == w->writers[number],
	          "line %" PRIu64 " (%" PRIu64 ") after step %" PRIu64 ": by %" PRIu64 ", not %" PRIu64, line->line, number, w->seq,
	          line->seq, w->writers[number]);
	return CB_OK;
}

static void check_file(world *w, const char *path)
{
	cb_error err = {0};
	if (!exists(w->b, path)) return;
	w->left = must_read(w->b, path);
	CHECK_OK(cb_blame(w->b, path, check_line, w, &err));
	CHECK(!*w->left);
}

TEST(blame_of_random_returns)
{
	test_rng r = {test_seed() | 1};
	bool middle = false;
	for (unsigned round = 0; round < test_dose(80); round++) {
		cb_error err = {0};
		world w = {.rng = {test_rand(&r) | 1}};
		w.s = test_store_open(true);
		CHECK_OK(cb_box_create(w.s, "demo", &w.b, &err));
		char text[200];
		size_t n = 0;
		for (; w.lines < 40; w.lines++) n += (size_t)snprintf(text + n, sizeof(text) - n, "%zu\n", w.lines);
		must_write(w.b, the_file, text);
		w.seq = must_seq(w.b);
		for (size_t i = 0; i < w.lines; i++) w.writers[i] = w.seq;
		for (int i = 0; i < OPS; i++) {
			if (exists(w.b, the_file) && test_rand_below(&w.rng, 2)) edit(&w, the_file);
			else go_back(&w);
			check_file(&w, the_file);
		}
		middle = middle || w.middle;
		cb_box_close(w.b);
		cb_store_close(w.s);
	}
	CHECK(test_soak() == 1 || middle); /* a small dose may miss it */
}

/* ---- files that come and go ---- */

static const char *const places[] = {"/work/a", "/work/b", "/work/d/a", "/work/d/b", "/work/d/e/a"};
static const char *const wholes[] = {"/work/d", "/work/d/e"};
enum { PLACES = sizeof(places) / sizeof(places[0]), MOVES = 60 };

static const char *any_place(world *w)
{
	return places[test_rand_below(&w->rng, PLACES)];
}

static void come_and_go(world *w)
{
	cb_error err = {0};
	char address[32];
	const char *from = any_place(w), *to = any_place(w), *folder = wholes[test_rand_below(&w->rng, 2)];
	cb_code code = CB_OK;
	cb_box *old = NULL;
	switch (test_rand_below(&w->rng, 9)) {
	case 8:
		code = cb_undo(w->b, 1 + test_rand_below(&w->rng, w->seq), NULL, &err);
		break;
	case 0:
	case 1:
		if (!exists(w->b, to))
			code = cb_rename(w->b, from, to, 0, &err); /* over another it would be a version of that one */
		break;
	case 2:
		code = cb_remove(w->b, test_rand_below(&w->rng, 2) ? folder : from, &err);
		break;
	case 3:
		code = cb_undo(w->b, 0, NULL, &err);
		break;
	case 4:
		code = cb_redo(w->b, NULL, &err);
		break;
	case 5:
		if (!exists(w->b, "/work/x")) code = cb_rename(w->b, "/work/d", "/work/x", 0, &err);
		break;
	default:
		(void)snprintf(address, sizeof(address), "demo@%" PRIu64, 1 + test_rand_below(&w->rng, w->seq));
		old = must_open(w->s, address);
		uint64_t what = test_rand_below(&w->rng, 3);
		code = cb_restore(w->b, old, what == 0 ? NULL : what == 1 ? folder : from, NULL, &err);
		cb_box_close(old);
	}
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT || code == CB_NOTFOUND, "%s", err.message);
	w->seq = must_seq(w->b);
}

static cb_code tell(void *context, const cb_step *step, cb_error *err)
{
	(void)context;
	(void)err;
	test_note("%" PRIu64 " %s %s of %s@%" PRIu64 ", target %" PRIu64, step->seq, step->kind, step->params, step->other,
	          step->other_seq, step->target);
	return CB_OK;
}

TEST(blame_where_files_come_and_go)
{
	test_rng r = {test_seed() | 1};
	for (unsigned round = 0; round < test_dose(100); round++) {
		cb_error err = {0};
		world w = {.rng = {test_rand(&r) | 1}};
		w.s = test_store_open(true);
		CHECK_OK(cb_box_create(w.s, "demo", &w.b, &err));
		for (size_t i = 0; i < PLACES; i++) edit(&w, places[i]);
		for (int i = 0; i < MOVES; i++) {
			if (test_rand_below(&w.rng, 3) == 0) edit(&w, any_place(&w));
			else come_and_go(&w);
			if (getenv("COWBOX_TRACE")) (void)cb_step_get(w.b, w.seq, tell, NULL, &err);
			for (size_t k = 0; k < PLACES; k++) check_file(&w, places[k]);
		}
		cb_box_close(w.b);
		cb_store_close(w.s);
	}
}
