/*
 * merge_conflicts.c: the conflicts of a merge, each path once, and what the caller decided about them.
 *
 * One path is one conflict, whatever about it is in conflict (data, mode, an attribute): people decide about files, and git says it so.
 * The list outlives one run of a merge: a merge that lost a race is run again, and the caller is not asked again.
 */
#include "base/entry.h"
#include "base/hash.h"
#include "box/gate.h"
#include "box/merge.h"

#include <stdio.h>
#include <stdlib.h>

static size_t index_slot(const merge_conflicts *c, const char *path)
{
	size_t at = (size_t)hash64(path, strlen(path)) & (c->index_size - 1);
	while (c->index[at] && strcmp(c->all[c->index[at] - 1].path, path) != 0) at = (at + 1) & (c->index_size - 1);
	return at;
}

/* At most half full, so that a search always ends. */
static cb_code index_grow(merge_conflicts *c, cb_error *err)
{
	if (2 * (c->count + 1) <= c->index_size) return CB_OK;
	size_t size = c->index_size ? 2 * c->index_size : 64;
	uint32_t *index = mem_alloc(size * sizeof(*index));
	if (!index) return cb_err_nomem(err);
	memset(index, 0, size * sizeof(*index));
	free(c->index);
	c->index = index;
	c->index_size = size;
	for (size_t i = 0; i < c->count; i++) c->index[index_slot(c, c->all[i].path)] = (uint32_t)(i + 1);
	return CB_OK;
}

/* The entry of a path, made when there is none; NULL when the list is full. */
static cb_code entry_take(merge_conflicts *c, const char *path, const char *reason, merge_conflict **out, cb_error *err)
{
	*out = NULL;
	CB_TRY(index_grow(c, err));
	size_t found = index_slot(c, path);
	if (c->index[found]) {
		*out = &c->all[c->index[found] - 1];
		return CB_OK;
	}
	if (c->count >= LIMIT_CONFLICTS) return CB_OK;
	if (c->count == c->capacity) {
		size_t capacity = c->capacity ? 2 * c->capacity : 16;
		merge_conflict *more = mem_realloc(c->all, capacity * sizeof(*more));
		if (!more) return cb_err_nomem(err);
		c->all = more;
		c->capacity = capacity;
	}
	char *copy = mem_strdup(path);
	if (!copy) return cb_err_nomem(err);
	c->all[c->count] = (merge_conflict){.path = copy, .reason = reason};
	*out = &c->all[c->count];
	c->index[found] = (uint32_t)++c->count;
	return CB_OK;
}

static void count_open(merge_conflicts *c, const char *path, const char *reason)
{
	if (c->open++ == 0) (void)snprintf(c->first, sizeof(c->first), "%s", path);
	/* Of one that has no room, and of all behind it, only the count is told. */
	if (c->named + 1 < c->open) return;
	c->named += buf_printf(&c->list, NULL, "%s%s (%s)", c->named ? ", " : "", path, reason) == CB_OK;
}

cb_code merge_conflicts_error(const merge_conflicts *c, const char *what, cb_error *err)
{
	unsigned long long more = c->open - c->named;
	if (c->named == 0) return cb_err_set(err, CB_CONFLICT, "%s: %llu path%s", what, more, more == 1 ? "" : "s");
	if (more == 0) return cb_err_set(err, CB_CONFLICT, "%s: %.*s", what, (int)c->list.size, (const char *)c->list.bytes);
	return cb_err_set(err, CB_CONFLICT, "%s: %.*s and %llu more", what, (int)c->list.size, (const char *)c->list.bytes, more);
}

static cb_code ask(const merge_conflicts *c, const cb_conflict *conflict, cb_prefer *out, cb_error *err)
{
	unsigned era = entry_era();
	*out = c->options->resolve(c->options->context, conflict);
	CB_TRY(entry_stays(era, err));
	if ((int)*out >= CB_PREFER_NONE && *out <= CB_PREFER_THEIRS) return CB_OK;
	return cb_err_set(err, CB_INVALID, "resolve said %d about '%s': there is no such value", (int)*out, conflict->path);
}

cb_code merge_decide(merge_conflicts *c, const char *path, const char *reason, merge_about about, cb_prefer *out, cb_error *err)
{
	merge_conflict over = {.reason = reason}, *e = NULL; /* `over`: one too many for the list */
	CB_TRY(entry_take(c, path, reason, &e, err));
	if (!e) e = &over;
	if (about != ABOUT_FIELDS) e->about = about;
	bool again = e->seen;
	e->seen = true;
	*out = e->answer;
	if (again) return CB_OK;
	const cb_merge_options *o = c->options;
	bool resolver = o && o->resolve;
	if (resolver && !e->asked && !c->ask_nobody) {
		CB_TRY(ask(c, &CB_WITH(cb_conflict, .path = path, .reason = reason), &e->answer, err));
		e->asked = true;
	}
	bool unasked = resolver && !e->asked;
	if (e->answer == CB_PREFER_NONE && o && !unasked) e->answer = o->prefer;
	*out = e->answer;
	if (*out != CB_PREFER_NONE) return CB_OK;
	e->reason = reason;
	c->unasked += unasked;
	count_open(c, path, reason);
	return CB_OK;
}

cb_code merge_contradicted(merge_conflicts *c, const char *path, cb_error *err)
{
	static const char *const reason = "the answers contradict each other about this path";
	merge_conflict over = {0}, *e = NULL;
	cb_prefer ignored;
	CB_TRY(entry_take(c, path, reason, &e, err));
	if (!e) e = &over;
	if (e->contradicts) return CB_OK;
	e->contradicts = true;
	count_open(c, path, reason);
	bool resolver = c->options && c->options->resolve;
	c->unasked += resolver && c->ask_nobody;
	if (!resolver || c->ask_nobody) return CB_OK;
	return ask(c, &CB_WITH(cb_conflict, .path = path, .reason = reason, .contradicts = true), &ignored, err);
}

void merge_conflicts_again(merge_conflicts *c)
{
	for (size_t i = 0; i < c->count; i++) {
		c->all[i].seen = c->all[i].contradicts = false;
		c->all[i].about = ABOUT_FIELDS;
	}
	c->open = c->unasked = c->named = 0;
	c->first[0] = 0;
	buf_clear(&c->list);
}

void merge_conflicts_done(merge_conflicts *c)
{
	for (size_t i = 0; i < c->count; i++) free(c->all[i].path);
	free(c->all);
	free(c->index);
	buf_done(&c->list);
	c->all = NULL;
	c->index = NULL;
	c->count = c->capacity = c->index_size = 0;
}

/* ---- what has no base ---- */

void merge_disputed_done(merge_disputed *d)
{
	buf_done(&d->inos);
	pmap_done(&d->keys);
	pmap_done(&d->names);
	pmap_done(&d->other_numbers);
}

bool merge_disputes_ino(const merge_disputed *d, uint64_t ino)
{
	return d && d->inos.size && bsearch(&ino, d->inos.bytes, d->inos.size / sizeof(ino), sizeof(ino), u64_compare) != NULL;
}

bool merge_disputes_name(const merge_disputed *d, const place *at)
{
	span ignored;
	key k = key_entry(at->parent, place_name(at));
	return d && pmap_get(&d->names, key_span(&k), &ignored) != PMAP_ABSENT;
}

static cb_code leave_in_conflict(merge *m, const item *it, uint64_t other, cb_error *err)
{
	const uint64_t inos[] = {it->ino, merge_ino_here(it), merge_ino_there(it), other};
	for (size_t i = 0; m->left && i < ARRAY_LEN(inos); i++)
		if (inos[i] > INO_ROOT) CB_TRY(buf_append(&m->left->inos, &inos[i], sizeof(uint64_t), err));
	const remade *r = m->left ? merge_remade_of(m, it->ino) : NULL; /* under all its numbers: the sides have their own */
	if (r) CB_TRY(buf_append(&m->left->inos, &r->old, sizeof(uint64_t), err));
	if (r && r->there) CB_TRY(buf_append(&m->left->inos, &r->there, sizeof(uint64_t), err));
	return CB_OK;
}

/* Who has that name in the result, unless it is the file itself. parent 0: there is no such folder. */
static cb_code dispute_name(merge *m, uint64_t ino, uint64_t parent, span name, cb_error *err)
{
	tree_view now = txn_raw(m->t);
	inode there;
	cb_code code = parent ? inode_at(&now, parent, name, &there, NULL, err) : CB_NOTFOUND;
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	return there.rec.ino == ino ? CB_OK : buf_append(&m->left->inos, &there.rec.ino, sizeof(uint64_t), err);
}

static cb_code dispute_names_of(merge *m, uint64_t ino, bool here, cb_error *err)
{
	unit u = {0};
	cb_code code = merge_unit_load(here ? m->ours : m->theirs, ino, &u, err);
	for (size_t i = 0; code == CB_OK && i < u.count; i++) {
		uint64_t parent = u.places[i].parent;
		if (!here) code = merge_result_dir(m, parent, &parent, err);
		if (code == CB_OK) code = dispute_name(m, ino, parent, place_name(&u.places[i]), err);
	}
	free(u.places);
	return code;
}

cb_code merge_dispute_names(merge *m, cb_error *err)
{
	size_t count = m->left ? m->left->inos.size / sizeof(uint64_t) : 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t ino;
		memcpy(&ino, m->left->inos.bytes + i * sizeof(ino), sizeof(ino));
		CB_TRY(dispute_names_of(m, ino, true, err));
		CB_TRY(dispute_names_of(m, ino, false, err));
	}
	return CB_OK;
}

static cb_code decide_item(merge *m, const item *it, uint64_t other, const char *path, const char *reason, merge_about about,
                           bool *theirs_wins, cb_error *err)
{
	cb_prefer chosen = CB_PREFER_NONE;
	CB_TRY(merge_decide(m->conflicts, path, reason, about, &chosen, err));
	*theirs_wins = chosen == CB_PREFER_THEIRS;
	return chosen == CB_PREFER_NONE ? leave_in_conflict(m, it, other, err) : CB_OK;
}

static cb_code path_append_name(const tree_view *v, const place *at, buf *path, cb_error *err)
{
	CB_TRY(inode_path(v, at->parent, path, err));
	if (at->parent != INO_ROOT) CB_TRY(buf_append_byte(path, '/', err));
	return buf_append(path, at->name, at->size, err);
}

/* Of several names the one that the others know, so that it is the same path whichever side is merged into the other. NULL: the first. */
static const place *known_place(const unit *side, const unit *other, const unit *old)
{
	const place *best = NULL;
	int most = 0;
	for (size_t i = 0; i < side->count && most < 3; i++) {
		int known = 2 * merge_place_in(other, &side->places[i]) + merge_place_in(old, &side->places[i]);
		if (known > most) best = &side->places[i];
		if (known > most) most = known;
	}
	return best;
}

/* The path on one side, if whoever the merge is for may be told. CB_NOTFOUND: not there. */
static cb_code path_told(const merge *m, const tree_view *side, uint64_t ino, const place *known, buf *path, cb_error *err)
{
	AUTO_VEIL veil *veiled = NULL;
	tree_view v;
	inode node;
	CB_TRY(gate_view(m->t->b, side, &veiled, &v, err));
	if (v.veil) CB_TRY(inode_find(&v, ino, &node, err));
	return known ? path_append_name(side, known, path, err) : inode_path(side, ino, path, err);
}

/* Appends it, with its NUL. *of: whose path it is, and the base's is neither's. */
static cb_code path_of_item(const merge *m, const item *it, buf *path, merge_about *of, cb_error *err)
{
	const unit *old = merge_old_names(it);
	cb_code code = CB_NOTFOUND;
	*of = ABOUT_NAME_HERE;
	if (it->ours.present) code = path_told(m, m->ours, merge_ino_here(it), known_place(&it->ours, &it->theirs, old), path, err);
	if (code == CB_NOTFOUND) *of = it->theirs.present ? ABOUT_NAME_THERE : ABOUT_FIELDS;
	if (code == CB_NOTFOUND && it->theirs.present)
		code = path_told(m, m->theirs, merge_ino_there(it), known_place(&it->theirs, &it->ours, old), path, err);
	if (code == CB_NOTFOUND) code = path_told(m, m->base, it->ino, NULL, path, err);
	if (code == CB_NOTFOUND) code = buf_append_byte(path, '?', err);
	return code == CB_OK ? buf_append_byte(path, 0, err) : code;
}

/* In a folder that theirs has, or ours. */
static cb_code path_of_place(const merge *m, const place *at, buf *path, merge_about *of, cb_error *err)
{
	size_t size = path->size;
	*of = ABOUT_NAME_THERE;
	cb_code code = path_append_name(m->theirs, at, path, err);
	if (code == CB_NOTFOUND) *of = ABOUT_NAME_HERE;
	if (code == CB_NOTFOUND) path->size = size;
	if (code == CB_NOTFOUND) code = path_append_name(m->ours, at, path, err);
	return code == CB_OK ? buf_append_byte(path, 0, err) : code;
}

cb_code merge_conflict_at(merge *m, const item *it, const char *reason, bool *theirs_wins, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	merge_about of;
	CB_TRY(path_of_item(m, it, &path, &of, err));
	return decide_item(m, it, 0, (const char *)path.bytes, reason, ABOUT_FIELDS, theirs_wins, err);
}

cb_code merge_conflict_where(merge *m, const item *it, const char *reason, bool *theirs_wins, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	merge_about of;
	CB_TRY(path_of_item(m, it, &path, &of, err));
	return decide_item(m, it, 0, (const char *)path.bytes, reason, of, theirs_wins, err);
}

cb_code merge_conflict_name(merge *m, const item *it, uint64_t other, const place *at, const char *reason, bool *theirs_wins,
                            cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	merge_about of;
	cb_code code = path_of_place(m, at, &path, &of, err);
	if (code == CB_NOTFOUND) return merge_conflict_where(m, it, reason, theirs_wins, err);
	if (code != CB_OK) return code;
	return decide_item(m, it, other, (const char *)path.bytes, reason, of, theirs_wins, err);
}

cb_code merge_conflict_under(merge *m, const item *it, uint64_t other, const place *at, const char *reason, bool *theirs_wins,
                             cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	merge_about of;
	cb_code code = path_of_place(m, at, &path, &of, err);
	if (code == CB_NOTFOUND) return merge_conflict_at(m, it, reason, theirs_wins, err);
	if (code != CB_OK) return code;
	return decide_item(m, it, other, (const char *)path.bytes, reason, ABOUT_FIELDS, theirs_wins, err);
}

cb_code merge_contradicts_at(merge *m, const item *it, cb_error *err)
{
	merge_about ignored;
	return path_of_item(m, it, &m->contradictions, &ignored, err);
}

cb_code merge_contradicts_name(merge *m, const place *at, cb_error *err)
{
	merge_about ignored;
	return path_of_place(m, at, &m->contradictions, &ignored, err);
}

cb_code merge_contradicts_ino(merge *m, uint64_t ino, cb_error *err)
{
	CB_TRY(inode_path(m->ours, ino, &m->contradictions, err));
	return buf_append_byte(&m->contradictions, 0, err);
}

cb_code merge_check_placed(merge *m, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	for (size_t i = 0; m->gave_way && i < m->count; i++) {
		const item *it = &m->items[i];
		inode node;
		if (!it->ours.present || !it->theirs.present) continue;
		cb_code code = inode_find(&v, it->into, &node, err);
		if (code == CB_NOTFOUND) code = merge_contradicts_at(m, it, err);
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

cb_code merge_tell_contradictions(merge *m, cb_error *err)
{
	const char *path = (const char *)m->contradictions.bytes, *end = path + m->contradictions.size;
	if (m->conflicts->open || m->left) return CB_OK;
	for (; path < end; path += strlen(path) + 1) CB_TRY(merge_contradicted(m->conflicts, path, err));
	return CB_OK;
}

/* Is it gone, or below the root, under a name that a path can hold? */
static cb_code is_reached(const tree_view *v, uint64_t ino, bool *out, cb_error *err)
{
	inode node;
	place ignored;
	char name[32];
	size_t size = merge_parked_name(ino, name);
	cb_code code = inode_at(v, INO_ROOT, span_make(name, size), &node, NULL, err);
	*out = code == CB_NOTFOUND;
	if (code == CB_NOTFOUND) code = inode_place(v, ino, &ignored, err);
	if (code != CB_OK || !*out) return code == CB_NOTFOUND ? CB_OK : code;
	for (climb up = climb_from(ino); code == CB_OK && up.at != INO_ROOT;) code = climb_up(&up, v, NULL, err);
	*out = code == CB_OK;
	return code == CB_NOTFOUND || code == CB_CORRUPT ? CB_OK : code;
}

cb_code merge_check_moved(merge *m, cb_error *err)
{
	tree_view v = txn_raw(m->t);
	if (m->conflicts->open && !m->left) return CB_OK; /* nothing is committed */
	for (size_t i = 0; i < m->count; i++) {
		uint64_t ino = merge_ino_here(&m->items[i]);
		bool reached = true;
		if (m->items[i].parked) CB_TRY(is_reached(&v, ino, &reached, err));
		if (reached) continue;
		return cb_err_set(err, CB_INTERNAL,
		                  "what both sides moved has no place after the merge (inode %llu): nothing was merged",
		                  (unsigned long long)ino);
	}
	return CB_OK;
}
