/*
 * test_past_model.c: the best common pasts of two states against their definition.
 *
 * Boxes that merge, undo any step (an undo too), redo, restore and fork at random make the edges; the model walks every step of the two
 * pasts and keeps those in both that lie in no better one's past. past_common must find exactly these. An undo or redo that changed no file
 * changed which merges and restores of its box count.
 */
#include "base/buf.h"
#include "box/past.h"
#include "box/past_meet.h"
#include "harness/boxes.h"

enum { PAST_BOXES = 4, PAST_TURNS = 40, PAST_STEPS = 4096 };

typedef struct points {
	past_point at[PAST_STEPS];
	size_t count;
} points;

typedef struct past_world {
	test_rng rng;
	cb_store *s;
	cb_box *boxes[PAST_BOXES];
	buf edges;  /* store_edge */
	bool plain; /* nothing is undone */
	uint64_t several, asked, moved, met, more;
} past_world;

static uint64_t below(past_world *w, uint64_t n)
{
	return test_rand_below(&w->rng, n);
}

static cb_code take_edge(void *context, const store_edge *e, cb_error *err)
{
	return buf_append(context, e, sizeof(*e), err);
}

static const store_edge *edge_at(const past_world *w, uint64_t box, uint64_t seq)
{
	const store_edge *all = (const store_edge *)(const void *)w->edges.bytes;
	for (size_t i = 0; i < w->edges.size / sizeof(store_edge); i++)
		if (all[i].box == box && all[i].seq == seq) return &all[i];
	return NULL;
}

static bool has(const points *p, past_point at)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->at[i].box == at.box && p->at[i].seq == at.seq) return true;
	return false;
}

static bool is_in(const uint64_t *all, size_t count, uint64_t n)
{
	for (size_t i = 0; i < count; i++)
		if (all[i] == n) return true;
	return false;
}

/* Every step in the past of one, seen by a way on which `undone` was taken back. followed, if not NULL: the
 * merges and restores on the box's own line. */
static void walk_along(const past_world *w, past_point at, const uint64_t *undone, size_t count, points *out, points *followed)
{
	uint64_t away[PAST_STEPS / 8];
	if (count) memcpy(away, undone, count * sizeof(*away));
	for (uint64_t seq = at.seq;; seq--) {
		past_point here = {at.box, seq};
		if (!has(out, here)) out->at[out->count++] = here;
		CHECK(out->count < PAST_STEPS && count < PAST_STEPS / 8);
		const store_edge *e = edge_at(w, at.box, seq);
		past_point other = {e ? e->other_box : 0, e ? e->other_seq : 0};
		if (e && e->kind == STORE_EDGE_FORK) {
			walk_along(w, other, NULL, 0, out, NULL);
			return;
		}
		if (e && !is_in(away, count, seq)) {
			bool is_undo = e->kind == STORE_EDGE_UNDO, goes_on = e->kind == STORE_EDGE_RESTORE && other.box == at.box;
			if (followed && !is_undo && !has(followed, here)) followed->at[followed->count++] = here;
			if (is_undo) away[count++] = e->other_seq;
			else walk_along(w, other, away, goes_on ? count : 0, out, goes_on ? followed : NULL);
			if (e->kind == STORE_EDGE_RESTORE) return;
		}
		if (seq == 0) return;
	}
}

static void walk(const past_world *w, past_point at, const uint64_t *undone, size_t count, points *out)
{
	walk_along(w, at, undone, count, out, NULL);
}

/*
 * Of those in both pasts one that lies in no other's past, then the same among those that do not lie in its past, and so on. (Not: all that
 * lie in no other's past. With undos, what lies in the past of a step in one's past need not lie in one's own.)
 */
static void best_common(const past_world *w, past_point a, past_point b, points *out)
{
	static points pa, pb, covered, of;
	pa.count = pb.count = covered.count = out->count = 0;
	walk(w, a, NULL, 0, &pa);
	walk(w, b, NULL, 0, &pb);
	for (;;) {
		bool left[PAST_STEPS], within[PAST_STEPS] = {false};
		size_t best = pa.count;
		for (size_t i = 0; i < pa.count; i++) left[i] = has(&pb, pa.at[i]) && !has(&covered, pa.at[i]);
		for (size_t i = 0; i < pa.count; i++) {
			if (!left[i]) continue;
			of.count = 0;
			walk(w, pa.at[i], NULL, 0, &of);
			for (size_t k = 0; k < pa.count; k++) within[k] = within[k] || (k != i && has(&of, pa.at[k]));
		}
		for (size_t i = 0; i < pa.count && best == pa.count; i++)
			if (left[i] && !within[i]) best = i;
		if (best == pa.count) return;
		out->at[out->count++] = pa.at[best];
		walk(w, pa.at[best], NULL, 0, &covered);
	}
}

static void ask(past_world *w, past_point a, past_point b)
{
	cb_error err = {0};
	static points want;
	buf found = BUF_INIT(SIZE_MAX);
	best_common(w, a, b, &want);
	cb_box *asks = NULL; /* its handle remembers */
	for (unsigned i = 0; i < PAST_BOXES; i++)
		if (w->boxes[i]->row.id == a.box) asks = w->boxes[i];
	if (asks && below(w, 4)) CHECK_OK(past_common_of(asks, a, b, &found, &err));
	else CHECK_OK(past_common(w->s, &a, 1, &b, 1, &found, &err));
	const past_point *all = (const past_point *)(const void *)found.bytes;
	size_t count = found.size / sizeof(past_point);
	for (size_t i = 0; i < count; i++)
		CHECK_MSG(has(&want, all[i]),
		          "%" PRIu64 "@%" PRIu64 " is no best common past of %" PRIu64 "@%" PRIu64 " and %" PRIu64 "@%" PRIu64,
		          all[i].box, all[i].seq, a.box, a.seq, b.box, b.seq);
	for (size_t i = 0; i < want.count; i++) {
		bool got = false;
		for (size_t k = 0; k < count; k++) got = got || (all[k].box == want.at[i].box && all[k].seq == want.at[i].seq);
		CHECK_MSG(got, "%" PRIu64 "@%" PRIu64 " is a best common past of %" PRIu64 "@%" PRIu64 " and %" PRIu64 "@%" PRIu64,
		          want.at[i].box, want.at[i].seq, a.box, a.seq, b.box, b.seq);
	}
	w->asked++;
	w->several += count > 1;
	buf_done(&found);
}

static void edges_read(past_world *w)
{
	cb_error err = {0};
	w->edges.size = 0;
	CHECK_OK(store_edge_list(w->s->s, 0, take_edge, &w->edges, &err));
}

static void what_counts(past_world *w, cb_box *box, points *out)
{
	static points all;
	all.count = out->count = 0;
	edges_read(w);
	walk_along(w, (past_point){box->row.id, must_seq(box)}, NULL, 0, &all, out);
}

static cb_code take_back(past_world *w, cb_box *box, uint64_t seq, bool redo, cb_error *err)
{
	static points before, after;
	what_counts(w, box, &before);
	uint64_t was = box->head->id;
	cb_code code = redo ? cb_redo(box, NULL, err) : cb_undo(box, seq, NULL, err);
	if (code != CB_OK || box->head->id != was) return code;
	what_counts(w, box, &after);
	bool same = before.count == after.count;
	for (size_t i = 0; i < before.count; i++) same = same && has(&after, before.at[i]);
	CHECK_MSG(!same, "%s of step %" PRIu64 " made step %" PRIu64 ", and nothing changed", redo ? "redo" : "undo", seq,
	          must_seq(box));
	w->moved++;
	return code;
}

/* Merged and undone at once, over and over. */
static void try_often(past_world *w, cb_box *box, cb_box *from, unsigned times)
{
	cb_error err = {0};
	for (unsigned i = 0; i < times; i++) {
		char text[32];
		(void)snprintf(text, sizeof(text), "%" PRIu64, below(w, 1000));
		must_write(from, "/work/tried", text);
		cb_code code = cb_merge(box, from, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err);
		if (code == CB_OK) code = take_back(w, box, must_seq(box), false, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_LIMIT, "%s: %s", cb_code_name(code), err.message);
	}
}

static void turn(past_world *w, unsigned i)
{
	cb_error err = {0};
	unsigned a = (unsigned)below(w, PAST_BOXES), b = (a + 1 + (unsigned)below(w, PAST_BOXES - 1)) % PAST_BOXES;
	char text[32], name[96];
	cb_box *box = w->boxes[a];
	cb_code code = CB_OK;
	uint64_t what = below(w, 10);
	if (w->plain && (what == 9 || (what >= 5 && what <= 7))) what = 2;
	switch (what) {
	case 9:
		try_often(w, box, w->boxes[b], 1 + (unsigned)below(w, 4));
		return;
	case 0: /* paths of one box only, so that nothing conflicts but what undos and restores left */
	case 1:
		(void)snprintf(text, sizeof(text), "%u", i);
		(void)snprintf(name, sizeof(name), "/work/%u", i % 5);
		must_write(box, name, text);
		return;
	case 2:
	case 3:
	case 4:
		code = cb_merge(box, w->boxes[b], &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err);
		break;
	case 5:
		code = take_back(w, box, 0, false, &err);
		break;
	case 6: {
		/* of an edge near the head: what undos of undos are made of */
		uint64_t head = must_seq(box), back = below(w, 6);
		if (head > back) code = take_back(w, box, head - back, false, &err);
		break;
	}
	case 7:
		code = take_back(w, box, 0, true, &err);
		break;
	default:
		if (below(w, 2)) return;
		cb_box_info info = CB_INIT(cb_box_info);
		CHECK_OK(cb_box_info_get(w->boxes[below(w, 2) ? a : b], &info, &err));
		(void)snprintf(name, sizeof(name), "%s@%" PRIu64, info.name, below(w, info.seq + 1));
		cb_box *old = must_open(w->s, name);
		code = cb_restore(box, old, NULL, NULL, &err);
		cb_box_close(old);
	}
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT || code == CB_LIMIT, "%s: %s", cb_code_name(code),
	          err.message);
}

/* ---- many states ---- */

static bool found_has(const buf *found, past_point at)
{
	const past_point *all = (const past_point *)(const void *)found->bytes;
	for (size_t i = 0; i < found->size / sizeof(*all); i++)
		if (all[i].box == at.box && all[i].seq == at.seq) return true;
	return false;
}

/* Of any two of some states all best common pasts are found, and where nothing was undone nothing else, but the states themselves. */
static void ask_many(past_world *w)
{
	enum { MOST = 6 };
	cb_error err = {0};
	past_start starts[MOST];
	buf found = BUF_INIT(SIZE_MAX), pairs = BUF_INIT(SIZE_MAX);
	past_edges p = {0};
	size_t count = 2 + below(w, MOST - 1);
	for (size_t i = 0; i < count; i++) {
		cb_box *box = w->boxes[below(w, PAST_BOXES)];
		starts[i] = (past_start){{box->row.id, must_seq(box) - (below(w, 2) ? 0 : below(w, must_seq(box) + 1))}, false};
	}
	CHECK_OK(past_edges_read(&p, w->s, &err));
	CHECK_OK(past_meet(&p, starts, count, &found, &err));
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < i; k++) CHECK_OK(past_common(w->s, &starts[i].at, 1, &starts[k].at, 1, &pairs, &err));
	const past_point *all = (const past_point *)(const void *)pairs.bytes;
	for (size_t i = 0; i < pairs.size / sizeof(*all); i++)
		CHECK_MSG(found_has(&found, all[i]), "%" PRIu64 "@%" PRIu64 " is a best common past of two", all[i].box,
		          all[i].seq);
	all = (const past_point *)(const void *)found.bytes;
	for (size_t i = 0; i < found.size / sizeof(*all); i++) {
		bool more = !found_has(&pairs, all[i]);
		for (size_t k = 0; k < count; k++)
			more = more && (starts[k].at.box != all[i].box || starts[k].at.seq != all[i].seq);
		CHECK_MSG(!more || !w->plain, "%" PRIu64 "@%" PRIu64 " is no best common past of any two", all[i].box, all[i].seq);
		w->more += more;
		w->met++;
	}
	past_edges_done(&p);
	buf_done(&found);
	buf_done(&pairs);
}

static void history(past_world *w)
{
	cb_error err = {0};
	w->s = test_store_open(true);
	w->edges = BUF_INIT(SIZE_MAX);
	CHECK_OK(cb_box_create(w->s, "b0", &w->boxes[0], &err));
	must_write(w->boxes[0], "/work/0", "0");
	w->boxes[1] = must_fork(w->s, "b0", "b1");
	w->boxes[2] = must_fork(w->s, "b0", "b2");
	w->boxes[3] = must_fork(w->s, "b1", "b3");
	for (unsigned i = 0; i < PAST_TURNS; i++) turn(w, i);
	edges_read(w);
	for (unsigned i = 0; i < 12; i++) {
		unsigned a = (unsigned)below(w, PAST_BOXES), b = (a + 1 + (unsigned)below(w, PAST_BOXES - 1)) % PAST_BOXES;
		uint64_t back_a = i < 6 ? 0 : below(w, must_seq(w->boxes[a]) + 1), back_b = i < 6 ? 0 : below(w, 3);
		if (back_b > must_seq(w->boxes[b])) back_b = 0;
		ask(w, (past_point){w->boxes[a]->row.id, must_seq(w->boxes[a]) - back_a},
		    (past_point){w->boxes[b]->row.id, must_seq(w->boxes[b]) - back_b});
	}
	for (unsigned i = 0; i < 6; i++) ask_many(w);
	buf_done(&w->edges);
	for (unsigned i = 0; i < PAST_BOXES; i++) cb_box_close(w->boxes[i]);
	cb_store_close(w->s);
}

/* make soak: 10,000 histories. */
TEST_LIMIT(common_pasts_are_as_defined, 120)
{
	past_world w = {.rng = {test_seed()}};
	for (unsigned i = 0; i < test_dose(200); i++) {
		w.plain = i % 4 == 0;
		history(&w);
	}
	test_note("%" PRIu64 " pairs of states, %" PRIu64 " with several best common pasts, %" PRIu64
	          " undos and redos that changed no file",
	          w.asked, w.several, w.moved);
	test_note("of several states %" PRIu64 " common pasts, %" PRIu64 " more in case of undos", w.met, w.more);
}
