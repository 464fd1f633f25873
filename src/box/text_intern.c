/*
 * text_intern.c: a number for every distinct line of two texts, so that the search compares integers.
 *
 * Lines are found by hash and compared by bytes: a collision costs time, never truth. The hash has no key, so whoever writes the
 * texts can make lines collide at will; when the table is probed far more often than honest lines ever need, it is dropped and the
 * lines are sorted instead, which is slower on honest input and cannot be driven past n log n.
 */
#include "base/cancel.h"
#include "base/hash.h"
#include "box/text_lines.h"

enum { TABLE_SLOTS_MIN = 1024, PROBES_PER_LINE = 16, LOOK_LINES = 1024 };

typedef struct line_class {
	uint64_t hash;
	uint32_t first; /* the line it was first seen as; lines of the new text count on after those of the old one */
	uint32_t old_uses, new_uses;
} line_class;

typedef struct table {
	uint32_t *slots; /* class + 1; 0 is free */
	size_t slot_count;
	line_class *classes;
	size_t count, capacity;
	uint64_t probes_left;
} table;

#define AUTO_TABLE ATTR_CLEANUP(table_done)

static void table_done(table *t)
{
	free(t->slots);
	free(t->classes);
}

static span pair_line(const text_pair *p, uint32_t line)
{
	if (line < p->old_side.count) return text_side_line(&p->old_side, line);
	return text_side_line(&p->new_side, line - p->old_side.count);
}

/* CB_NOTHING from these three: the probes are spent. */
static cb_code table_rehash(table *t, size_t slot_count, cb_error *err)
{
	AUTO_FREE uint32_t *slots = mem_alloc(slot_count * sizeof(*slots));
	if (!slots) return cb_err_nomem(err);
	memset(slots, 0, slot_count * sizeof(*slots));
	for (size_t i = 0; i < t->count; i++) {
		size_t at = t->classes[i].hash & (slot_count - 1);
		for (; slots[at] != 0; at = (at + 1) & (slot_count - 1))
			if (t->probes_left-- == 0) return CB_NOTHING;
		slots[at] = (uint32_t)i + 1;
	}
	free(t->slots);
	t->slots = TAKE_PTR(slots);
	t->slot_count = slot_count;
	return CB_OK;
}

static cb_code table_grow(table *t, cb_error *err)
{
	size_t capacity = t->capacity ? t->capacity * 2 : TABLE_SLOTS_MIN / 2;
	line_class *classes = mem_realloc(t->classes, capacity * sizeof(*classes));
	if (!classes) return cb_err_nomem(err);
	t->classes = classes;
	t->capacity = capacity;
	return table_rehash(t, capacity * 2, err); /* at most half full */
}

/* The line's class, made if it is new. */
static cb_code table_class(table *t, const text_pair *p, uint32_t line, uint32_t *out, cb_error *err)
{
	if (line % LOOK_LINES == 0) CB_TRY(cancel_check(err));
	if (t->count == t->capacity) CB_TRY(table_grow(t, err));
	span bytes = pair_line(p, line);
	uint64_t hash = hash64(bytes.bytes, bytes.size);
	size_t at = hash & (t->slot_count - 1);
	for (; t->slots[at] != 0; at = (at + 1) & (t->slot_count - 1)) {
		const line_class *c = &t->classes[t->slots[at] - 1];
		if (c->hash == hash && span_equal(pair_line(p, c->first), bytes)) {
			*out = t->slots[at] - 1;
			return CB_OK;
		}
		if (t->probes_left-- == 0) return CB_NOTHING;
	}
	*out = (uint32_t)t->count;
	t->classes[t->count++] = (line_class){.hash = hash, .first = line};
	t->slots[at] = *out + 1;
	return CB_OK;
}

static cb_code intern_old(table *t, text_pair *p, cb_error *err)
{
	for (size_t i = 0; i < p->old_side.count; i++) {
		uint32_t id = 0;
		CB_TRY(table_class(t, p, (uint32_t)i, &id, err));
		p->old_side.ids[i] = id;
		t->classes[id].old_uses++;
	}
	return CB_OK;
}

/* Most lines of the new text follow in it the line they follow in the old one: that one is tried before hashing. */
static cb_code intern_new(table *t, text_pair *p, cb_error *err)
{
	const text_side *old_side = &p->old_side;
	text_side *side = &p->new_side;
	size_t expected = 0;
	for (size_t i = 0; i < side->count; i++) {
		uint32_t id = 0;
		if (expected < old_side->count && span_equal(text_side_line(old_side, expected), text_side_line(side, i))) {
			id = old_side->ids[expected++];
		} else {
			CB_TRY(table_class(t, p, (uint32_t)(old_side->count + i), &id, err));
			if (t->classes[id].first < old_side->count) expected = t->classes[id].first + 1;
		}
		side->ids[i] = id;
		t->classes[id].new_uses++;
	}
	return CB_OK;
}

static cb_code uses_alloc(text_pair *p, size_t id_count, cb_error *err)
{
	p->id_count = id_count;
	p->old_uses = mem_alloc(id_count * sizeof(*p->old_uses));
	p->new_uses = mem_alloc(id_count * sizeof(*p->new_uses));
	return p->old_uses && p->new_uses ? CB_OK : cb_err_nomem(err);
}

static cb_code intern_by_hash(text_pair *p, cb_error *err)
{
	AUTO_TABLE table t = {.probes_left = (uint64_t)(p->old_side.count + p->new_side.count) * PROBES_PER_LINE + TABLE_SLOTS_MIN};
	CB_TRY(intern_old(&t, p, err));
	CB_TRY(intern_new(&t, p, err));
	CB_TRY(uses_alloc(p, t.count, err));
	for (size_t i = 0; i < t.count; i++) {
		p->old_uses[i] = t.classes[i].old_uses;
		p->new_uses[i] = t.classes[i].new_uses;
	}
	return CB_OK;
}

static int line_compare(const void *a, const void *b, void *pair)
{
	return span_compare(pair_line(pair, *(const uint32_t *)a), pair_line(pair, *(const uint32_t *)b));
}

static cb_code intern_by_sorting(text_pair *p, cb_error *err)
{
	size_t old_count = p->old_side.count, total = old_count + p->new_side.count;
	AUTO_FREE uint32_t *order = mem_alloc(total * sizeof(*order));
	if (!order) return cb_err_nomem(err);
	for (size_t i = 0; i < total; i++) order[i] = (uint32_t)i;
	qsort_r(order, total, sizeof(*order), line_compare, p);
	size_t id_count = 0;
	for (size_t i = 0; i < total; i++) {
		if (i == 0 || line_compare(&order[i - 1], &order[i], p) != 0) id_count++;
		uint32_t line = order[i], id = (uint32_t)id_count - 1;
		if (line < old_count) p->old_side.ids[line] = id;
		else p->new_side.ids[line - old_count] = id;
	}
	CB_TRY(uses_alloc(p, id_count, err));
	memset(p->old_uses, 0, id_count * sizeof(*p->old_uses));
	memset(p->new_uses, 0, id_count * sizeof(*p->new_uses));
	for (size_t i = 0; i < old_count; i++) p->old_uses[p->old_side.ids[i]]++;
	for (size_t i = 0; i < p->new_side.count; i++) p->new_uses[p->new_side.ids[i]]++;
	return CB_OK;
}

cb_code text_pair_intern(text_pair *p, cb_error *err)
{
	cb_code code = intern_by_hash(p, err);
	return code == CB_NOTHING ? intern_by_sorting(p, err) : code;
}
