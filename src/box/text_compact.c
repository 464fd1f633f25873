/*
 * text_compact.c: runs of changed lines moved to where people expect them.
 *
 * A run whose first line equals the line after it can slide down by one without changing what the diff says, and likewise up. Each
 * run is slid as far down as it goes, unless on the way it stands beside a run of the other side: then there, so that a removal and
 * an addition form one hunk. Runs that touch become one. This is git's rule without its indent heuristic.
 *
 * Invariant: the k-th run (empty runs between two unchanged lines count) of one side lies beside the k-th of the other, because as
 * many unchanged lines stand before it; a slide therefore moves the other side's cursor by one run.
 */
#include "box/text_lines.h"

typedef struct run {
	size_t start, end; /* changed lines [start, end); line `end` is unchanged or the text's end */
} run;

static run run_first(const text_side *s)
{
	run r = {0, 0};
	while (s->changed[r.end]) r.end++;
	return r;
}

static bool run_next(const text_side *s, run *r)
{
	if (r->end == s->count) return false;
	r->start = r->end = r->end + 1;
	while (s->changed[r->end]) r->end++;
	return true;
}

static bool run_previous(const text_side *s, run *r)
{
	if (r->start == 0) return false;
	r->start = r->end = r->start - 1;
	while (s->changed[(ptrdiff_t)r->start - 1]) r->start--;
	return true;
}

static bool run_slide_down(const text_side *s, run *r)
{
	if (r->end >= s->count || s->ids[r->start] != s->ids[r->end]) return false;
	s->changed[r->start++] = 0;
	s->changed[r->end++] = 1;
	while (s->changed[r->end]) r->end++;
	return true;
}

static bool run_slide_up(const text_side *s, run *r)
{
	if (r->start == 0 || s->ids[r->start - 1] != s->ids[r->end - 1]) return false;
	s->changed[--r->start] = 1;
	s->changed[--r->end] = 0;
	while (s->changed[(ptrdiff_t)r->start - 1]) r->start--;
	return true;
}

/* False when there is no work left for passing a run of the other side. */
static bool work_spend(text_work *work, const run *passed)
{
	uint64_t steps = passed->end - passed->start + 1;
	if (work->slides_left < steps) return false;
	work->slides_left -= steps;
	return true;
}

static bool run_empty(const run *r)
{
	return r->start == r->end;
}

/* Slides *r up and then down as far as it goes, again while it swallows other runs. *out_beside: somewhere it stood beside a run of
 * the other side. False when the work is spent: every slide so far left a valid diff. */
static bool run_settle(const text_side *s, run *r, const text_side *other, run *o, bool *out_beside, bool *out_moved,
                       text_work *work)
{
	size_t size;
	do {
		size = r->end - r->start;
		while (run_slide_up(s, r)) {
			if (!run_previous(other, o) || !work_spend(work, o)) return false;
		}
		size_t highest_end = r->end;
		*out_beside = !run_empty(o);
		while (run_slide_down(s, r)) {
			if (!run_next(other, o) || !work_spend(work, o)) return false;
			if (!run_empty(o)) *out_beside = true;
		}
		*out_moved = r->end != highest_end;
	} while (size != r->end - r->start);
	return true;
}

static void side_compact(const text_side *s, const text_side *other, text_work *work)
{
	run r = run_first(s), o = run_first(other);
	do {
		if (run_empty(&r)) continue;
		bool beside = false, moved = false;
		if (!run_settle(s, &r, other, &o, &beside, &moved, work)) return;
		if (!moved || !beside) continue;
		while (run_empty(&o))
			if (!run_slide_up(s, &r) || !run_previous(other, &o)) return;
	} while (run_next(s, &r) && run_next(other, &o));
}

void text_pair_compact(text_pair *p, text_work *work)
{
	side_compact(&p->old_side, &p->new_side, work);
	side_compact(&p->new_side, &p->old_side, work);
}
