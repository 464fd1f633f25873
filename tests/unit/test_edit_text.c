/* test_edit_text.c: many replacements in one text give what one after the other would, whichever way they are searched for. */
#include "box/edit_text.h"

#include <string.h>

#include "base/cancel.h"
#include "harness/harness.h"

enum { REPLACEMENTS = 1000, TEXTS = 8192 };

static cb_error err;

/* ---- the model: as simple as it can be ---- */

typedef struct model {
	char text[1 << 18];
	size_t size;
} model;

static void model_copy(model *to, const model *from)
{
	memcpy(to->text, from->text, from->size);
	to->size = from->size;
}

static uint64_t model_replace(model *m, span what, span with)
{
	static model next;
	uint64_t found = 0;
	next.size = 0;
	for (size_t i = 0; i < m->size;) {
		if (what.size <= m->size - i && memcmp(m->text + i, what.bytes, what.size) == 0) {
			CHECK(next.size + with.size <= sizeof(next.text));
			memcpy(next.text + next.size, with.bytes, with.size);
			next.size += with.size;
			i += what.size;
			found++;
		} else {
			CHECK(next.size < sizeof(next.text));
			next.text[next.size++] = m->text[i++];
		}
	}
	model_copy(m, &next);
	return found;
}

typedef struct texts {
	char bytes[REPLACEMENTS][2][TEXTS / 256];
	cb_replacement all[REPLACEMENTS];
} texts;

/* Old texts are such that are there, and new ones of the same few letters, so that they meet. Returns how many were replaced. */
static uint64_t invent(test_rng *rng, texts *t, model *m, unsigned letters)
{
	uint64_t replaced = 0;
	for (unsigned i = 0; i < REPLACEMENTS; i++) {
		size_t was = 1 + test_rand_below(rng, 12), is = test_rand_below(rng, 12);
		if (m->size < 64) is = 24;
		if (m->size > 12000) is = 0;
		if (was > m->size) was = m->size;
		memcpy(t->bytes[i][0], m->text + test_rand_below(rng, m->size - was + 1), was);
		for (size_t k = 0; k < is; k++) t->bytes[i][1][k] = (char)('a' + test_rand_below(rng, letters));
		static model before;
		model_copy(&before, m);
		uint64_t found = model_replace(m, span_make(t->bytes[i][0], was), span_make(t->bytes[i][1], is));
		if (m->size == 0 || m->size > 20000) { /* no more to take from, or too much for the model */
			model_copy(m, &before);
			t->bytes[i][1][0] = 'a';
			is = 1;
			found = model_replace(m, span_make(t->bytes[i][0], was), span_make("a", is));
		}
		t->all[i] = (cb_replacement){t->bytes[i][0], was, t->bytes[i][1], is};
		replaced += found;
	}
	return replaced;
}

TEST_LIMIT(random_texts, 120)
{
	static texts t;
	static model m, first;
	test_rng rng = {test_seed()};
	cb_edit_options all = CB_WITH(cb_edit_options, .all = true);
	for (unsigned round = 0; round < test_dose(10); round++) {
		unsigned letters = 1 + (unsigned)test_rand_below(&rng, 26);
		m.size = 1000 + test_rand_below(&rng, 6000);
		for (size_t i = 0; i < m.size; i++) m.text[i] = (char)('a' + test_rand_below(&rng, letters));
		model_copy(&first, &m);
		uint64_t replaced = invent(&rng, &t, &m, letters);
		edit_text e = {t.all, REPLACEMENTS, &all};
		CHECK_OK(edit_text_run(&e, span_make(first.text, first.size), &err));
		CHECK_U64(e.now.size, m.size);
		CHECK(memcmp(e.now.bytes, m.text, m.size) == 0);
		CHECK_U64(e.replaced, replaced);
		edit_text_done(&e);
	}
}

/* Too many places for a list, between replacements that have few. */
TEST(many_places)
{
	enum { SIZE = 400000 };
	cb_edit_options all = CB_WITH(cb_edit_options, .all = true);
	char *text = malloc(SIZE);
	CHECK(text);
	memset(text, 'x', SIZE);
	memcpy(text + 1000, "mark", 4);
	cb_replacement r[] = {
		{"mark", 4, "MARK", 4}, {"x", 1, "y", 1}, {"yM", 2, "<M", 2}, {"y", 1, "", 0}, {"<MARK", 5, "end", 3}};
	edit_text e = {r, 5, &all};
	CHECK_OK(edit_text_run(&e, span_make(text, SIZE), &err));
	CHECK_U64(e.now.size, 3);
	CHECK(memcmp(e.now.bytes, "end", 3) == 0);
	CHECK_U64(e.replaced, 1 + (SIZE - 4) + 1 + (SIZE - 5) + 1);
	edit_text_done(&e);
	free(text);
}

/* Old texts as long as `OLD`, none of which is there. */
enum { SIMILAR = 200, OLD = 3000, ALIKE = 300000 };

static cb_code similar_run(char first, char last)
{
	static char text[ALIKE], old[SIMILAR][OLD];
	static cb_replacement r[SIMILAR];
	cb_edit_options once = CB_INIT(cb_edit_options);
	memset(text, 'a', sizeof(text));
	for (unsigned i = 0; i < SIMILAR; i++) {
		memset(old[i], first, OLD);
		old[i][OLD - 1 - i] = last;
		r[i] = (cb_replacement){old[i], OLD, "x", 1};
	}
	edit_text e = {r, SIMILAR, &once};
	cb_code code = edit_text_run(&e, span_make(text, sizeof(text)), &err);
	edit_text_done(&e);
	return code;
}

static double similar_cpu_ms(char first, char last)
{
	double start = test_cpu_ms();
	CHECK_CODE(similar_run(first, last), CB_NOTFOUND);
	return test_cpu_ms() - start;
}

/* Each nearly stands at every place: seconds, and no look at the limit. */
TEST(similar_texts)
{
	cb_cancel *token;
	double others = similar_cpu_ms('b', 'c'), similar = similar_cpu_ms('a', 'b');
	CHECK_MSG(similar < 50 * others + 50, "%.3f ms, %.3f ms for others", similar, others);
	CHECK_OK(cb_cancel_create(&token, &err));
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .cancel = token), &err));
	cancel_fire_at_look(token, 50);
	CHECK_CODE(similar_run('a', 'b'), CB_CANCELLED);
	cb_limit_pop();
	cb_cancel_free(token);
}

/* What failed is told by the text as it was then. */
TEST(failures_show_the_text)
{
	enum { SIZE = 300000 };
	cb_edit_options once = CB_INIT(cb_edit_options);
	char *text = malloc(SIZE);
	CHECK(text);
	memset(text, '.', SIZE);
	memcpy(text + 5000, "one", 3);
	memcpy(text + 250000, "two", 3);
	cb_replacement twice[] = {{"one", 3, "two", 3}, {"two", 3, "three", 5}};
	edit_text e = {twice, 2, &once};
	CHECK_CODE(edit_text_run(&e, span_make(text, SIZE), &err), CB_CONFLICT);
	CHECK_U64(e.at, 1);
	CHECK_U64(e.found, 2);
	CHECK(memcmp(e.now.bytes + 5000, "two", 3) == 0);
	edit_text_done(&e);
	cb_replacement gone[] = {{"one", 3, "", 0}, {"one", 3, "x", 1}};
	e = (edit_text){gone, 2, &once};
	CHECK_CODE(edit_text_run(&e, span_make(text, SIZE), &err), CB_NOTFOUND);
	CHECK_U64(e.at, 1);
	CHECK_U64(e.now.size, SIZE - 3);
	edit_text_done(&e);
	free(text);
}
