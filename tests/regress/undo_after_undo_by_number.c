/*
 * Plain undo takes the last change that is not undone, also where steps were undone by number before: not one of those again, and none that
 * was brought back left out. The model is the definition: from the newest step down, an undo that stands takes its target back.
 */
#include "harness/boxes.h"

static cb_box *start(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	return b;
}

TEST_BOTH(both_steps_are_taken_back)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = start(s);
	must_write(b, "/work/a", "1");
	must_write(b, "/work/b", "1");
	CHECK_OK(cb_undo(b, 1, NULL, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK(exists(b, "/work/a") && exists(b, "/work/b"));
	CHECK_CODE(cb_redo(b, NULL, &err), CB_NOTHING);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(an_older_change_is_found)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = start(s);
	must_write(b, "/work/b", "first");
	must_write(b, "/work/a", "1");
	must_write(b, "/work/a", "2");
	must_write(b, "/work/c", "x");
	CHECK_OK(cb_undo(b, 3, NULL, &err));
	CHECK_OK(cb_undo(b, 2, NULL, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));  /* 4 */
	cb_box *again = must_open(s, "demo"); /* a handle that remembers nothing */
	CHECK_OK(cb_undo(again, 0, NULL, &err));
	CHECK(!exists(b, "/work/b"));
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	cb_box_close(again);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(what_was_brought_back_by_number_stands)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = start(s);
	uint64_t undo = 0;
	must_write(b, "/work/a", "1");
	must_write(b, "/work/b", "1");
	CHECK_OK(cb_undo(b, 0, &undo, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_undo(b, undo, NULL, &err)); /* b is there again */
	CHECK(exists(b, "/work/b") && !exists(b, "/work/a"));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK(!exists(b, "/work/b"));
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- at random ---- */

enum { UNDO_STEPS = 24, UNDO_MOST = 200 };

typedef struct model {
	uint64_t target[UNDO_MOST]; /* of an undo or redo; 0: a change */
	uint64_t count;             /* steps 1 to count */
} model;

/* The last change that stands, at or below a step. *stands: that step itself does. */
static uint64_t standing(const model *m, uint64_t most, bool *stands)
{
	bool away[UNDO_MOST] = {false};
	for (uint64_t seq = m->count; seq > 0; seq--) {
		if (seq == most && stands) *stands = !away[seq];
		if (away[seq]) continue;
		if (!m->target[seq] && seq <= most) return seq;
		if (m->target[seq]) away[m->target[seq]] = true;
	}
	return 0;
}

static uint64_t last_standing(const model *m)
{
	return standing(m, m->count, NULL);
}

/*
 * Does the step stand, and does undoing it change which changes stand? A step may be undone by two others, when the first of them was
 * undone itself and redone: to undo the second of them brings nothing back.
 */
static bool may_undo(const model *m, uint64_t seq)
{
	bool stands = false, differs = false;
	(void)standing(m, seq, &stands);
	if (!stands) return false;
	model then = *m;
	then.target[++then.count] = seq;
	for (uint64_t i = 1; i <= m->count && !differs; i++) {
		bool was = false, is = false;
		if (m->target[i]) continue;
		(void)standing(m, i, &was);
		(void)standing(&then, i, &is);
		differs = was != is;
	}
	return differs;
}

static cb_code take_target(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = step->target;
	return CB_INTERRUPTED;
}

static uint64_t target_of(cb_box *b, uint64_t *out)
{
	cb_error err = {0};
	cb_code code = cb_log(b, &CB_WITH(cb_log_options, .max_steps = 1), take_target, out, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_INTERRUPTED, "%s", err.message);
	return *out;
}

static void one_history(test_rng *rng, cb_store *s, unsigned n)
{
	cb_error err = {0};
	char name[16];
	model m = {.count = 0};
	cb_box *b = NULL;
	(void)snprintf(name, sizeof(name), "b%u", n);
	CHECK_OK(cb_box_create(s, name, &b, &err));
	char *empty = must_dump(b);
	for (unsigned i = 0; i < UNDO_STEPS; i++) {
		uint64_t kind = test_rand_below(rng, 10), target = 0;
		char key[8], value[16];
		(void)snprintf(key, sizeof(key), "k%u", i); /* one of its own for each step: undos never conflict */
		(void)snprintf(value, sizeof(value), "%u", i);
		cb_code code = CB_OK;
		uint64_t named = m.count ? 1 + test_rand_below(rng, m.count) : 0;
		if (kind < 5 || m.count == 0) code = cb_kv_set(b, key, value, strlen(value), &err);
		else if (kind < 7) {
			code = cb_undo(b, named, NULL, &err);
			CHECK_CODE(code, may_undo(&m, named) ? CB_OK : CB_NOTHING);
		} else if (kind < 8) code = cb_redo(b, NULL, &err);
		else {
			uint64_t want = last_standing(&m);
			code = cb_undo(b, 0, NULL, &err);
			CHECK_CODE(code, want ? CB_OK : CB_NOTHING);
			if (want) CHECK_U64(target_of(b, &target), want);
		}
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s", err.message);
		if (code != CB_OK) continue;
		CHECK_U64(must_seq(b), ++m.count);
		m.target[m.count] = target_of(b, &target);
	}
	for (uint64_t want; (want = last_standing(&m)) != 0;) {
		uint64_t target = 0;
		CHECK_OK(cb_undo(b, 0, NULL, &err));
		CHECK_U64(target_of(b, &target), want);
		m.target[++m.count] = want;
		CHECK(m.count + 1 < UNDO_MOST);
		if (test_rand_below(rng, 2) == 0) { /* one handle remembers, another does not */
			cb_box_close(b);
			b = must_open(s, name);
		}
	}
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	CHECK_STR(must_dump(b), empty);
	cb_box_close(b);
}

TEST(random_undos_by_number_and_plain)
{
	test_rng rng = {test_seed()};
	cb_store *s = test_store_open(true);
	for (unsigned i = 0; i < 60 * test_soak(); i++) one_history(&rng, s, i);
	cb_store_close(s);
}
