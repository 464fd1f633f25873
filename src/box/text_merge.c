/*
 * text_merge.c: three-way merge by lines, with the rules of git merge-file.
 *
 * The changes base -> ours and base -> theirs are walked together. Changes apart by at least one base line are taken from their
 * side; equal changes are taken once; the rest are conflicts. A conflict is then narrowed to the lines in which ours and theirs
 * really differ, and conflicts with at most a few (or only trivial) lines between them are shown as one.
 */
#include "box/text_lines.h"

enum {
	MARKER_BYTES = 7,
	JOIN_LINES = 3, /* conflicts this near to each other read better as one */
};

typedef enum chosen { CONFLICT, OURS, THEIRS, SAME } chosen;

/* Lines of ours and of theirs that stand for the same place. Between two regions ours is copied. */
typedef struct region {
	chosen what;
	size_t ours_start, ours_count, theirs_start, theirs_count;
} region;

typedef struct region_list {
	region *items;
	size_t count, capacity;
} region_list;

static void region_list_done(region_list *l)
{
	free(l->items);
}

#define AUTO_REGIONS ATTR_CLEANUP(region_list_done)

typedef struct merge {
	text_pair ours, theirs; /* base -> ours, base -> theirs */
	text_hunk *our_hunks, *their_hunks;
	size_t our_count, their_count;
	text_work work;
	const char *our_label, *their_label;
	buf *out;
	cb_error *err;
} merge;

static void merge_done(merge *m)
{
	text_pair_done(&m->ours);
	text_pair_done(&m->theirs);
	free(m->our_hunks);
	free(m->their_hunks);
}

#define AUTO_MERGE ATTR_CLEANUP(merge_done)

static cb_code region_add(region_list *l, region r, cb_error *err)
{
	if (l->count == l->capacity) {
		size_t capacity = l->capacity ? l->capacity * 2 : 16;
		region *items = mem_realloc(l->items, capacity * sizeof(*items));
		if (!items) return cb_err_nomem(err);
		l->items = items;
		l->capacity = capacity;
	}
	l->items[l->count++] = r;
	return CB_OK;
}

/* A region that touches the one before it becomes part of it, a conflict unless both come from the same side. */
static cb_code region_join(region_list *l, region r, cb_error *err)
{
	region *last = l->count ? &l->items[l->count - 1] : NULL;
	if (!last ||
	    (r.ours_start > last->ours_start + last->ours_count && r.theirs_start > last->theirs_start + last->theirs_count))
		return region_add(l, r, err);
	if (r.what != last->what) last->what = CONFLICT;
	last->ours_count = r.ours_start + r.ours_count - last->ours_start;
	last->theirs_count = r.theirs_start + r.theirs_count - last->theirs_start;
	return CB_OK;
}

static size_t hunk_old_end(const text_hunk *h)
{
	return h->old_start + h->old_count;
}

static bool hunks_same(const merge *m, const text_hunk *a, const text_hunk *b)
{
	if (a->old_start != b->old_start || a->old_count != b->old_count || a->new_count != b->new_count) return false;
	return span_equal(text_side_lines(&m->ours.new_side, a->new_start, a->new_count),
	                  text_side_lines(&m->theirs.new_side, b->new_start, b->new_count));
}

/* Two overlapping hunks as one region: each is widened with unchanged lines to the base lines of both. */
static region hunks_conflict(const text_hunk *a, const text_hunk *b)
{
	region r = {CONFLICT, a->new_start, a->new_count, b->new_start, b->new_count};
	if (a->old_start > b->old_start) {
		size_t lead = a->old_start - b->old_start;
		r.ours_start -= lead;
		r.ours_count += lead;
	} else {
		size_t lead = b->old_start - a->old_start;
		r.theirs_start -= lead;
		r.theirs_count += lead;
	}
	if (hunk_old_end(a) < hunk_old_end(b)) r.ours_count += hunk_old_end(b) - hunk_old_end(a);
	else r.theirs_count += hunk_old_end(a) - hunk_old_end(b);
	return r;
}

/* The place on the other side of a hunk's base lines, given the other side's next hunk, or NULL when it has no more. For a hunk
 * that is already part of a conflict this may point before the conflict, even before the text: region_join then only uses start +
 * count. */
static size_t other_start(const text_hunk *h, const text_hunk *other, const text_pair *other_pair)
{
	if (other) return other->new_start - (other->old_start - h->old_start);
	return h->old_start + other_pair->new_side.count - other_pair->old_side.count;
}

static cb_code take_ours(merge *m, region_list *l, const text_hunk *a, const text_hunk *b)
{
	region r = {OURS, a->new_start, a->new_count, other_start(a, b, &m->theirs), a->old_count};
	return region_join(l, r, m->err);
}

static cb_code take_theirs(merge *m, region_list *l, const text_hunk *a, const text_hunk *b)
{
	region r = {THEIRS, other_start(b, a, &m->ours), b->old_count, b->new_start, b->new_count};
	return region_join(l, r, m->err);
}

static cb_code find_regions(merge *m, region_list *l)
{
	const text_hunk *a = m->our_hunks, *a_end = a + m->our_count, *b = m->their_hunks, *b_end = b + m->their_count;
	while (a < a_end && b < b_end) {
		if (hunk_old_end(a) < b->old_start) {
			CB_TRY(take_ours(m, l, a++, b));
			continue;
		}
		if (hunk_old_end(b) < a->old_start) {
			CB_TRY(take_theirs(m, l, a, b++));
			continue;
		}
		if (!hunks_same(m, a, b)) CB_TRY(region_join(l, hunks_conflict(a, b), m->err));
		size_t our_end = hunk_old_end(a), their_end = hunk_old_end(b);
		if (our_end >= their_end) b++;
		if (their_end >= our_end) a++;
	}
	for (; a < a_end; a++) CB_TRY(take_ours(m, l, a, NULL));
	for (; b < b_end; b++) CB_TRY(take_theirs(m, l, NULL, b));
	return CB_OK;
}

/* Splits a conflict into the places where the two sides differ; what they share is taken from ours. */
static cb_code refine_conflict(merge *m, const region *r, region_list *out)
{
	if (r->ours_count == 0 || r->theirs_count == 0) return region_add(out, *r, m->err);
	AUTO_TEXT_PAIR text_pair p = {0};
	AUTO_FREE text_hunk *hunks = NULL;
	size_t count = 0;
	CB_TRY(text_pair_diff(&p, text_side_lines(&m->ours.new_side, r->ours_start, r->ours_count),
	                      text_side_lines(&m->theirs.new_side, r->theirs_start, r->theirs_count), &m->work, &hunks, &count,
	                      m->err));
	if (count == 0) {
		region same = *r;
		same.what = SAME;
		return region_add(out, same, m->err);
	}
	for (size_t i = 0; i < count; i++) {
		const text_hunk *h = &hunks[i];
		region part = {CONFLICT, r->ours_start + h->old_start, h->old_count, r->theirs_start + h->new_start, h->new_count};
		CB_TRY(region_add(out, part, m->err));
	}
	return CB_OK;
}

static bool byte_is_alnum(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool lines_trivial(const text_side *s, size_t first, size_t count)
{
	span bytes = text_side_lines(s, first, count);
	for (size_t i = 0; i < bytes.size; i++)
		if (byte_is_alnum(bytes.bytes[i])) return false;
	return true;
}

static void join_near_conflicts(const merge *m, region_list *l)
{
	size_t kept = 0;
	for (size_t i = 1; i < l->count; i++) {
		region *last = &l->items[kept];
		const region *next = &l->items[i];
		size_t last_end = last->ours_start + last->ours_count, apart = next->ours_start - last_end;
		bool both = last->what == CONFLICT && next->what == CONFLICT;
		if (!both || (apart > JOIN_LINES && !lines_trivial(&m->ours.new_side, last_end, apart))) {
			l->items[++kept] = *next;
			continue;
		}
		last->ours_count = next->ours_start + next->ours_count - last->ours_start;
		last->theirs_count = next->theirs_start + next->theirs_count - last->theirs_start;
	}
	if (l->count > 0) l->count = kept + 1;
}

typedef enum line_style { STYLE_LF, STYLE_CRLF, STYLE_UNKNOWN } line_style;

static line_style line_style_of(const text_side *s, size_t line)
{
	if (s->count == 0) return STYLE_UNKNOWN;
	span bytes = text_side_line(s, line);
	if (!text_line_ends(bytes)) {
		if (line == 0) return STYLE_UNKNOWN;
		bytes = text_side_line(s, line - 1);
	}
	return bytes.size > 1 && bytes.bytes[bytes.size - 2] == '\r' ? STYLE_CRLF : STYLE_LF;
}

/* Markers end in CRLF when the lines around them do. */
static bool markers_need_cr(const merge *m, const region *r)
{
	if (line_style_of(&m->ours.new_side, r->ours_start ? r->ours_start - 1 : 0) == STYLE_LF) return false;
	if (line_style_of(&m->theirs.new_side, r->theirs_start ? r->theirs_start - 1 : 0) == STYLE_LF) return false;
	return line_style_of(&m->ours.old_side, 0) == STYLE_CRLF;
}

static cb_code put_lines(const merge *m, const text_side *s, size_t first, size_t count)
{
	span bytes = text_side_lines(s, first, count);
	return buf_append(m->out, bytes.bytes, bytes.size, m->err);
}

static cb_code put_line_end(const merge *m, bool cr)
{
	return buf_append_str(m->out, cr ? "\r\n" : "\n", m->err);
}

static cb_code put_marker(const merge *m, char sign, const char *label, bool cr)
{
	char marker[MARKER_BYTES];
	memset(marker, sign, sizeof(marker));
	CB_TRY(buf_append(m->out, marker, sizeof(marker), m->err));
	if (label) {
		CB_TRY(buf_append_byte(m->out, ' ', m->err));
		CB_TRY(buf_append_str(m->out, label, m->err));
	}
	return put_line_end(m, cr);
}

static cb_code put_conflict_side(const merge *m, const text_side *s, size_t first, size_t count, bool cr)
{
	CB_TRY(put_lines(m, s, first, count));
	if (count == 0 || text_line_ends(text_side_line(s, first + count - 1))) return CB_OK;
	return put_line_end(m, cr);
}

static cb_code put_conflict(const merge *m, const region *r)
{
	bool cr = markers_need_cr(m, r);
	CB_TRY(put_marker(m, '<', m->our_label, cr));
	CB_TRY(put_conflict_side(m, &m->ours.new_side, r->ours_start, r->ours_count, cr));
	CB_TRY(put_marker(m, '=', NULL, cr));
	CB_TRY(put_conflict_side(m, &m->theirs.new_side, r->theirs_start, r->theirs_count, cr));
	return put_marker(m, '>', m->their_label, cr);
}

static cb_code put_merged(const merge *m, const region_list *l)
{
	const text_side *ours = &m->ours.new_side;
	size_t at = 0;
	for (size_t i = 0; i < l->count; i++) {
		const region *r = &l->items[i];
		if (r->what == SAME || r->what == OURS) continue; /* copied with what follows */
		CB_TRY(put_lines(m, ours, at, r->ours_start - at));
		if (r->what == THEIRS) CB_TRY(put_lines(m, &m->theirs.new_side, r->theirs_start, r->theirs_count));
		else CB_TRY(put_conflict(m, r));
		at = r->ours_start + r->ours_count;
	}
	return put_lines(m, ours, at, ours->count - at);
}

static cb_code merge_changes(merge *m, size_t *out_conflicts)
{
	AUTO_REGIONS region_list rough = {0};
	AUTO_REGIONS region_list regions = {0};
	CB_TRY(find_regions(m, &rough));
	for (size_t i = 0; i < rough.count; i++) {
		const region *r = &rough.items[i];
		CB_TRY(r->what == CONFLICT ? refine_conflict(m, r, &regions) : region_add(&regions, *r, m->err));
	}
	join_near_conflicts(m, &regions);
	CB_TRY(put_merged(m, &regions));
	size_t conflicts = 0;
	for (size_t i = 0; i < regions.count; i++) conflicts += regions.items[i].what == CONFLICT;
	*out_conflicts = conflicts;
	return CB_OK;
}

cb_code text_merge3(span base, span ours, span theirs, const char *ours_label, const char *theirs_label, buf *out,
                    size_t *out_conflicts, cb_error *err)
{
	AUTO_MERGE merge m = {.work = TEXT_WORK_INIT, .our_label = ours_label, .their_label = theirs_label, .out = out, .err = err};
	CB_TRY(text_pair_diff(&m.ours, base, ours, &m.work, &m.our_hunks, &m.our_count, err));
	CB_TRY(text_pair_diff(&m.theirs, base, theirs, &m.work, &m.their_hunks, &m.their_count, err));
	if (m.our_count == 0 || m.their_count == 0) {
		span whole = m.our_count == 0 ? theirs : ours;
		CB_TRY(buf_append(out, whole.bytes, whole.size, err));
		*out_conflicts = 0;
		return CB_OK;
	}
	size_t size_before = out->size;
	cb_code code = merge_changes(&m, out_conflicts);
	if (code != CB_OK) out->size = size_before;
	return code;
}
