/*
 * test_blame_model.c: who wrote each line of a file in random histories of writes, undos of the newest and of any step, redos and restores
 * of the file. Every line is unique, so it was written by the first step that had it, however often it was taken away and brought back.
 */
#include "harness/boxes.h"

static const char path[] = "/work/f";
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
static void edit(world *w)
{
	char out[16384];
	size_t n = 0, first = w->lines;
	for (const char *at = must_read(w->b, path); *at && n < sizeof(out) - 100; at += strcspn(at, "\n") + 1) {
		uint64_t kind = test_rand_below(&w->rng, 40);
		if (kind < 2) n += (size_t)snprintf(out + n, sizeof(out) - n, "%zu\n", w->lines++);
		if (kind != 1 && kind != 2) n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s\n", (int)strcspn(at, "\n"), at);
	}
	if (n == 0 || w->lines == first) n += (size_t)snprintf(out + n, sizeof(out) - n, "%zu\n", w->lines++);
	CHECK(w->lines <= LINES_MAX);
	must_write(w->b, path, out);
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
		code = cb_restore(w->b, old, path, &made, &err);
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
		must_write(w.b, path, text);
		w.seq = must_seq(w.b);
		for (size_t i = 0; i < w.lines; i++) w.writers[i] = w.seq;
		for (int i = 0; i < OPS; i++) {
			if (exists(w.b, path) && test_rand_below(&w.rng, 2)) edit(&w);
			else go_back(&w);
			if (!exists(w.b, path)) continue;
			w.left = must_read(w.b, path);
			CHECK_OK(cb_blame(w.b, path, check_line, &w, &err));
			CHECK(!*w.left);
		}
		middle = middle || w.middle;
		cb_box_close(w.b);
		cb_store_close(w.s);
	}
	CHECK(test_soak() == 1 || middle); /* a small dose may miss it */
}
