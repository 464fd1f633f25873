/*
 * step.c: steps as rows: finding them, their key changes, the index of what they touched.
 *
 * The index says for each D or I key that a step changed: (hash of the key, step). So the history of one file is found without reading the
 * steps of others. It is written at key frames, one sorted row for all steps since the last; the few steps since are scanned.
 */
#include "base/hash.h"
#include "box/history.h"

#include <stdlib.h>

static cb_code take_state(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	*(uint64_t *)context = step->state;
	return CB_OK;
}

typedef struct next_step {
	uint64_t seq;
	bool found, gap;
} next_step;

static cb_code take_next(void *context, const store_step *step, cb_error *err)
{
	(void)err;
	*(next_step *)context = (next_step){step->seq, true, step->gap};
	return CB_INTERRUPTED;
}

/*
 * The step above those that were pruned says so; where none does, a row is lost. In this order no lock is needed: what the head says is
 * there stays there, unless the box is deleted, which is looked at last.
 */
cb_code step_gone(cb_store *cs, uint64_t box, uint64_t seq, cb_error *err)
{
	store_head head;
	store_box row;
	next_step next = {0};
	CB_TRY(store_head_get(cs->s, box, &head, err));
	if (seq <= head.seq) CB_TRY(store_step_walk(cs->s, box, seq, INT64_MAX, false, take_next, &next, err));
	if (seq > head.seq || (next.found && next.seq == seq)) /* made just now */
		return cb_err_set(err, CB_NOTFOUND, "there is no step %llu (the newest is %llu)", (unsigned long long)seq,
		                  (unsigned long long)head.seq);
	if (!next.found || !next.gap) {
		CB_TRY(store_box_get(cs->s, box, &row, err));
		if (!row.deleted)
			return cb_err_set(err, CB_CORRUPT,
			                  "step %llu of box '%s' is missing, and was not pruned: see `cowbox fsck`",
			                  (unsigned long long)seq, row.name);
	}
	return cb_err_set(err, CB_STALE, "step %llu was pruned", (unsigned long long)seq);
}

cb_code step_exists(cb_store *cs, uint64_t box, uint64_t seq, uint64_t *out_state, cb_error *err)
{
	*out_state = 0;
	cb_code code = store_step_walk(cs->s, box, seq, seq, false, take_state, out_state, err);
	if (code == CB_OK && !*out_state) code = CB_NOTFOUND;
	return code == CB_NOTFOUND ? step_gone(cs, box, seq, err) : code;
}

/* ---- owned copies ---- */

static cb_code text_copy(span text, char **out, size_t *out_size, cb_error *err)
{
	char *copy = mem_alloc(text.size + 1);
	if (!copy) return cb_err_nomem(err);
	if (text.size) memcpy(copy, text.bytes, text.size);
	copy[text.size] = 0;
	*out = copy;
	*out_size = text.size;
	return CB_OK;
}

static cb_code field_load(cb_store *cs, uint64_t content, char **out, size_t *out_size, cb_error *err)
{
	blob *bytes = NULL;
	CB_TRY(store_content_get(cs->s, content, &bytes, err));
	cb_code code = text_copy(span_make(bytes->bytes, bytes->size), out, out_size, err);
	blob_unref(bytes);
	return code;
}

void step_row_done(step_row *r)
{
	free(r->kind);
	free(r->who);
	free(r->params);
	free(r->result);
	buf_done(&r->changes);
	*r = (step_row){0};
}

typedef struct row_copy {
	step_row *out;
	bool with_changes;
} row_copy;

/* Copies a lent row; fields in contents are fetched later, outside the walk. */
static cb_code row_copy_visit(void *context, const store_step *step, cb_error *err)
{
	const row_copy *c = context;
	step_row *r = c->out;
	*r = (step_row){.row = *step, .changes = BUF_INIT(SIZE_MAX)};
	r->row.kind = r->row.who = NULL;
	r->row.params = r->row.result = r->row.changes = (span){0};
	r->kind = mem_strdup(step->kind);
	r->who = mem_strdup(step->who);
	cb_code code = r->kind && r->who ? CB_OK : cb_err_nomem(err);
	if (code == CB_OK && !step->params_content) code = text_copy(step->params, &r->params, &r->params_size, err);
	if (code == CB_OK && !step->result_content) code = text_copy(step->result, &r->result, &r->result_size, err);
	if (code == CB_OK && c->with_changes) code = buf_append(&r->changes, step->changes.bytes, step->changes.size, err);
	if (code != CB_OK) step_row_done(r);
	return code;
}

static cb_code row_fields(cb_store *cs, step_row *r, cb_error *err)
{
	if (r->row.params_content) CB_TRY(field_load(cs, r->row.params_content, &r->params, &r->params_size, err));
	if (r->row.result_content) CB_TRY(field_load(cs, r->row.result_content, &r->result, &r->result_size, err));
	return CB_OK;
}

cb_code step_row_load(cb_store *cs, uint64_t box, uint64_t seq, bool with_changes, step_row *out, cb_error *err)
{
	*out = (step_row){0};
	row_copy c = {out, with_changes};
	uint64_t state_id = 0;
	cb_code code = store_step_get(cs->s, box, seq, row_copy_visit, &c, err);
	if (code == CB_NOTFOUND) return step_exists(cs, box, seq, &state_id, err);
	if (code == CB_OK) code = row_fields(cs, out, err);
	if (code != CB_OK) step_row_done(out);
	return code;
}

typedef struct page {
	step_row *rows;
	size_t count, max;
} page;

static cb_code page_visit(void *context, const store_step *step, cb_error *err)
{
	page *p = context;
	row_copy c = {&p->rows[p->count], false};
	CB_TRY(row_copy_visit(&c, step, err));
	return ++p->count == p->max ? CB_INTERRUPTED : CB_OK;
}

cb_code step_page_load(cb_store *cs, uint64_t box, uint64_t from, step_row *rows, size_t max, size_t *out_count, cb_error *err)
{
	page p = {rows, 0, max};
	cb_code code = store_step_walk(cs->s, box, from, 0, false, page_visit, &p, err);
	for (size_t i = 0; code == CB_OK && i < p.count; i++) code = row_fields(cs, &rows[i], err);
	if (code != CB_OK)
		for (size_t i = 0; i < p.count; i++) step_row_done(&rows[i]);
	else *out_count = p.count;
	return code;
}

/* ---- changes ---- */

cb_code step_changes(cb_store *cs, uint64_t box, uint64_t seq, tree_diff_visit visit, void *context, cb_error *err)
{
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(cs, box, seq, true, &r, err));
	if (r.row.has_changes) {
		cb_code code = tree_changes_decode(buf_span(&r.changes), visit, context, err);
		return code == CB_INTERRUPTED ? CB_OK : code;
	}
	if (r.row.weight == 0) return CB_OK;
	AUTO_KEPT kept_state before = {0};
	AUTO_KEPT kept_state after = {0};
	cb_code code = kept_load(&before, cs, box, seq - 1, KEPT_VISIT, err);
	if (code == CB_STALE)
		return cb_err_set(err, CB_STALE, "what step %llu changed cannot be told: the step before it was pruned",
		                  (unsigned long long)seq);
	if (code != CB_OK) return code;
	CB_TRY(kept_load(&after, cs, box, seq, KEPT_VISIT, err));
	tree_view a = state_view(cs, before.s), b = state_view(cs, after.s);
	return tree_diff(&a, &b, visit, context, err);
}

/* ---- the index ---- */

uint64_t step_subject(span key_bytes)
{
	if (key_bytes.size == 0 || (key_bytes.bytes[0] != KIND_ENTRY && key_bytes.bytes[0] != KIND_INODE)) return 0;
	uint64_t h = hash64(key_bytes.bytes, key_bytes.size) >> 1; /* SQLite's integers are signed */
	return h ? h : 1;
}

cb_code step_is_dir_touch(span key_bytes, span old_value, span new_value, bool *out, cb_error *err)
{
	*out = false;
	if (key_bytes.bytes[0] != KIND_ENTRY || !old_value.bytes || !new_value.bytes) return CB_OK;
	entry a, b;
	CB_TRY(entry_decode(old_value, &a, err));
	CB_TRY(entry_decode(new_value, &b, err));
	*out = !a.is_link && !b.is_link && a.rec.type == CB_DIR && b.rec.type == CB_DIR && a.rec.ino == b.rec.ino &&
	       a.rec.mode == b.rec.mode;
	return CB_OK;
}

/* One touch: 8 bytes of subject, 4 bytes of seq counted from the row's first; both little-endian, sorted by (subject, seq). */
enum { TOUCH_BYTES = 12 };

typedef struct indexing {
	uint64_t first;
	uint64_t seq;
	buf touches;
	buf large; /* uint64_t: steps without a change list */
} indexing;

static cb_code index_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	indexing *x = context;
	uint64_t subject = step_subject(key_bytes);
	bool touch = false;
	if (!subject) return CB_OK;
	CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
	if (touch) return CB_OK;
	uint8_t *p;
	CB_TRY(buf_extend(&x->touches, TOUCH_BYTES, &p, err));
	put_le64(p, subject);
	put_le32(p + 8, (uint32_t)(x->seq - x->first));
	return CB_OK;
}

cb_code step_touch_add(buf *touches, span key_bytes, span old_value, span new_value, cb_error *err)
{
	indexing x = {.touches = *touches};
	cb_code code = index_key(&x, key_bytes, old_value, new_value, err);
	*touches = x.touches;
	return code;
}

static cb_code index_step(void *context, const store_step *step, cb_error *err)
{
	indexing *x = context;
	x->seq = step->seq;
	if (step->has_changes) return tree_changes_decode(step->changes, index_key, x, err);
	return step->weight ? buf_append(&x->large, &step->seq, sizeof(uint64_t), err) : CB_OK;
}

static int touch_compare(const void *a, const void *b)
{
	uint64_t x = get_le64(a), y = get_le64(b);
	if (x != y) return x < y ? -1 : 1;
	uint32_t m = get_le32((const uint8_t *)a + 8), n = get_le32((const uint8_t *)b + 8);
	return m < n ? -1 : m > n;
}

void step_touches_sort(buf *touches)
{
	if (touches->size) qsort(touches->bytes, touches->size / TOUCH_BYTES, TOUCH_BYTES, touch_compare);
}

static cb_code index_collect(cb_store *cs, uint64_t box, uint64_t to, indexing *x, cb_error *err)
{
	CB_TRY(store_step_walk(cs->s, box, x->first, to, true, index_step, x, err));
	const uint64_t *large = (const uint64_t *)(const void *)x->large.bytes;
	for (size_t i = 0; i < x->large.size / sizeof(uint64_t); i++) {
		x->seq = large[i];
		cb_error why;
		cb_code code = step_changes(cs, box, large[i], index_key, x, cb_err_aside(&why));
		/* Stale: a pruned neighbour, whose history cannot be told anyway. */
		if (code != CB_OK && code != CB_STALE) return cb_err_pass(err, code, &why);
	}
	return CB_OK;
}

cb_code step_index(cb_store *cs, uint64_t box, uint64_t from, uint64_t to, cb_error *err)
{
	indexing x = {.first = from, .touches = BUF_INIT(SIZE_MAX), .large = BUF_INIT(SIZE_MAX)};
	cb_code code = index_collect(cs, box, to, &x, err);
	if (code == CB_OK) step_touches_sort(&x.touches);
	if (code == CB_OK) code = store_touch_put(cs->s, box, from, to, buf_span(&x.touches), err);
	buf_done(&x.touches);
	buf_done(&x.large);
	return code;
}

typedef struct subject_search {
	const uint64_t *subjects;
	size_t count;
	bool found;
} subject_search;

static cb_code match_subject(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	subject_search *s = context;
	uint64_t subject = step_subject(key_bytes);
	bool touch = false;
	for (size_t i = 0; subject && i < s->count; i++) {
		if (s->subjects[i] != subject) continue;
		CB_TRY(step_is_dir_touch(key_bytes, old_value, new_value, &touch, err));
		if (touch) continue;
		s->found = true;
		return CB_INTERRUPTED;
	}
	return CB_OK;
}

typedef struct touch_search {
	const uint64_t *subjects;
	size_t count;
	uint64_t max_seq;
	uint64_t found;
} touch_search;

/* The newest touch of a subject in one row, at or before max_seq. */
static uint64_t touch_find(span row, uint64_t first, uint64_t subject, uint64_t max_seq)
{
	size_t low = 0, high = row.size / TOUCH_BYTES;
	while (low < high) { /* the first touch that lies after (subject, max_seq) */
		size_t mid = (low + high) / 2;
		const uint8_t *p = row.bytes + mid * TOUCH_BYTES;
		uint64_t at = get_le64(p);
		if (at < subject || (at == subject && first + get_le32(p + 8) <= max_seq)) low = mid + 1;
		else high = mid;
	}
	if (low == 0) return 0;
	const uint8_t *p = row.bytes + (low - 1) * TOUCH_BYTES;
	return get_le64(p) == subject ? first + get_le32(p + 8) : 0;
}

static cb_code search_row(void *context, uint64_t first, uint64_t last, span row, cb_error *err)
{
	touch_search *s = context;
	if (row.size % TOUCH_BYTES || last < first) return cb_err_set(err, CB_CORRUPT, "the index of steps is malformed");
	for (size_t i = 0; i < s->count; i++) {
		uint64_t seq = touch_find(row, first, s->subjects[i], s->max_seq);
		if (seq > s->found) s->found = seq;
	}
	return s->found ? CB_INTERRUPTED : CB_OK;
}

cb_code step_last_touch(cb_store *cs, uint64_t box, const uint64_t *subjects, size_t count, uint64_t max_seq, uint64_t *out,
                        bool *gap, cb_error *err)
{
	uint64_t indexed = 0;
	*out = 0;
	CB_TRY(store_touch_last(cs->s, box, &indexed, err));
	for (; max_seq > indexed; max_seq--) {
		subject_search s = {subjects, count, false};
		cb_error why;
		cb_code code = step_changes(cs, box, max_seq, match_subject, &s, cb_err_aside(&why));
		if (code == CB_STALE) {
			*gap = true;
			continue;
		}
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		if (s.found) {
			*out = max_seq;
			return CB_OK;
		}
	}
	touch_search s = {subjects, count, max_seq, 0};
	CB_TRY(store_touch_walk(cs->s, box, max_seq, search_row, &s, err));
	*out = s.found;
	return CB_OK;
}
