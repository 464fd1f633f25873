/*
 * commit.c: how a transaction ends: as a step of its box, merged with what others did meanwhile, kept as a fork, or not at all.
 *
 * If the head is still the base, the delta becomes a step, under the writer lock; if it moved, what the calls relied on is looked at
 * again (expect.c) and the delta is merged onto the head (merge.c): under the lock where that takes next to nothing, else before it is
 * taken. Whatever fails leaves the transaction as it was, so that it can be
 * committed again with resolutions, kept, or dropped: the delta is never touched here, and contents that got numbers in a write
 * transaction that did not commit lose them again.
 */
#include "box/audit.h"
#include "box/gate.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	LIGHT_KEYS = 256,       /* a merge of more than that, */
	LIGHT_BYTES = 64 << 10, /* or of files that are larger together, is not done under the writer lock */
};

/* ---- conflicts ---- */

void lost_paths_forget(buf *lost)
{
	lost_path *all = (lost_path *)(void *)lost->bytes;
	for (size_t i = 0; i < lost->size / sizeof(*all); i++) free(all[i].path);
	lost->size = 0;
}

void box_lost_listed(cb_box *b)
{
	b->has_lost = true;
	b->lost_after = atomic_load(&b->last_seq);
}

bool box_lists_lost(const cb_box *b)
{
	return b->has_lost && (b->is_txn || b->lost_after == atomic_load(&b->last_seq));
}

void box_lost_forget(cb_box *b)
{
	lost_paths_forget(&b->lost);
	b->has_lost = false;
}

cb_code lost_paths_add(buf *lost, const char *path, const char *reason, bool contradicts, cb_error *err)
{
	lost_path one = {mem_strdup(path), reason, contradicts};
	if (!one.path) return cb_err_nomem(err);
	cb_code code = buf_append(lost, &one, sizeof(one), err);
	if (code != CB_OK) free(one.path);
	return code;
}

typedef struct answering {
	txn *t;
	const cb_commit_options *how;
	pmap answers;   /* path -> a byte of cb_prefer: how->resolutions */
	pmap listed;    /* the paths of t->lost */
	bool no_memory; /* a conflict could not be noted */
} answering;

static void answering_done(answering *a)
{
	pmap_done(&a->answers);
	pmap_done(&a->listed);
}

/* Of several answers for one path the first counts. */
static cb_code answers_read(answering *a, cb_error *err)
{
	for (size_t i = a->how->resolution_count; i > 0; i--) {
		const cb_resolution *r = &a->how->resolutions[i - 1];
		uint8_t prefer = (uint8_t)r->prefer;
		if (prefer != CB_PREFER_NONE) CB_TRY(pmap_put(&a->answers, span_str(r->path), span_make(&prefer, 1), err));
	}
	return CB_OK;
}

static cb_code list_lost(answering *a, const cb_conflict *conflict)
{
	span path = span_str(conflict->path), ignored;
	if (pmap_get(&a->listed, path, &ignored) != PMAP_ABSENT) return CB_OK;
	CB_TRY(pmap_put_tombstone(&a->listed, path, NULL));
	return lost_paths_add(&a->t->lost, conflict->path, conflict->reason, conflict->contradicts, NULL);
}

/* What the caller said about the path; what is left open is noted. */
static cb_prefer answer(void *context, const cb_conflict *conflict)
{
	answering *a = context;
	span said;
	if (!conflict->contradicts && pmap_get(&a->answers, span_str(conflict->path), &said) == PMAP_VALUE)
		return (cb_prefer)said.bytes[0];
	if (!conflict->contradicts && a->how->prefer != CB_PREFER_NONE) return a->how->prefer;
	if (list_lost(a, conflict) != CB_OK) a->no_memory = true;
	return CB_PREFER_NONE;
}

/* One line that names as many as it can hold beside what is said of the fork, and how many more there are. */
static cb_code conflict_error(const txn *t, cb_commit_result *out, cb_error *err)
{
	enum { REST_BYTES = 2 * CB_NAME_MAX + 64 };
	const lost_path *all = (const lost_path *)(const void *)t->lost.bytes;
	size_t count = t->lost.size / sizeof(*all), named = 0;
	AUTO_BUF buf names = BUF_INIT(CB_ERROR_MESSAGE_MAX - REST_BYTES);
	while (named < count &&
	       buf_printf(&names, NULL, "%s%s (%s)", named ? ", " : "", all[named].path, all[named].reason) == CB_OK)
		named++;
	if (out) out->conflicts = count;
	if (named == 0) return cb_err_set(err, CB_CONFLICT, "conflict in %zu path%s", count, count == 1 ? "" : "s");
	if (named == count) return cb_err_set(err, CB_CONFLICT, "conflict in %.*s", (int)names.size, (const char *)names.bytes);
	return cb_err_set(err, CB_CONFLICT, "conflict in %.*s and %zu more", (int)names.size, (const char *)names.bytes,
	                  count - named);
}

/* ---- onto the head ---- */

/* A folder that t removed and that only looks empty: refused as rmdir would be, before a conflict says that it holds something. */
static cb_code looks_empty(const cb_box *b, const txn *t, const tree_view *head, cb_error *err)
{
	AUTO_VEIL veil *veiled = NULL;
	tree_view base = state_view(b->cs, t->base), shown;
	pmap_cursor c;
	span k, value;
	bool tombstone;
	if (!gate_has_rules(b->cs, b)) return CB_OK;
	CB_TRY(gate_view(b, head, &veiled, &shown, err));
	for (pmap_seek(&c, &t->delta, (span){0}); pmap_cursor_get(&c, &k, &value, &tombstone); pmap_cursor_next(&c)) {
		key_parts at;
		inode was;
		bool bare = true, seen_bare = true;
		if (!tombstone || k.bytes[0] != KIND_ENTRY) continue;
		CB_TRY(key_parse(k, &at, err));
		cb_code code = inode_at(&base, at.ino, at.name, &was, NULL, err);
		if (code == CB_NOTFOUND || (code == CB_OK && was.rec.type != CB_DIR)) continue;
		if (code == CB_OK) code = inode_is_dir_empty(head, was.rec.ino, &bare, err);
		if (code == CB_OK && !bare) code = inode_is_dir_empty(&shown, was.rec.ino, &seen_bare, err);
		if (code != CB_OK) return code;
		if (!bare && seen_bare) return cb_err_set(err, CB_DENIED, "it would change what a rule keeps from this handle");
	}
	return CB_OK;
}

static cb_code merge_onto_head(cb_box *b, txn *t, txn *merged, merge_conflicts *conflicts, cb_error *err)
{
	tree_view base = state_view(b->cs, t->base);
	tree_view ours = state_view(b->cs, merged->base);
	CB_TRY(looks_empty(b, t, &ours, err));
	pmap delta = PMAP_EMPTY;
	merge_disputed relied = {.inos = BUF_INIT(SIZE_MAX)};
	cb_code code = expectations_check(t, &ours, conflicts, &relied, err);
	if (code == CB_OK) code = txn_sealed_delta(t, &delta, err);
	if (code == CB_OK) {
		tree_view theirs = {&b->cs->nodes, t->base->root, &t->base->overlay, &delta};
		merge_sides sides = {.base = &base, .ours = &ours, .theirs = &theirs, .disputed = &relied, .written = &t->written};
		code = merge_sides_into(merged, &sides, conflicts, err);
	}
	merge_disputed_done(&relied);
	pmap_done(&delta);
	return code;
}

static cb_code is_seen(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	(void)new_value;
	(void)err;
	if (key_bytes.bytes[0] == KIND_COUNTERS) return CB_OK;
	*(bool *)context = false;
	return CB_INTERRUPTED;
}

/* Did others change only what is hidden from who commits, since t's base? Then to him nobody did: there is nothing to merge with. */
static cb_code moved_unseen(const cb_box *b, const txn *t, bool *out, cb_error *err)
{
	AUTO_VEIL veil *old = NULL, *new = NULL;
	tree_view before = state_view(b->cs, t->base), after = state_view(b->cs, b->head);
	*out = false;
	if (!gate_has_rules(b->cs, b)) return CB_OK;
	CB_TRY(gate_view(b, &before, &old, &before, err));
	CB_TRY(gate_view(b, &after, &new, &after, err));
	*out = true;
	return tree_diff(&before, &after, is_seen, out, err);
}

/* What t changed gets the times that t gave it, as if it had been committed where it began: a merge makes entries anew. */
static cb_code times_as_begun(const txn *t, txn *merged, cb_error *err)
{
	pmap_cursor c;
	span k, value;
	bool tombstone;
	tree_view from = txn_raw(t);
	for (pmap_seek(&c, &t->delta, (span){0}); pmap_cursor_get(&c, &k, &value, &tombstone); pmap_cursor_next(&c)) {
		key_parts at;
		entry e;
		inode ours, node;
		CB_TRY(key_parse(k, &at, err));
		if (tombstone || at.kind == KIND_KV || at.kind == KIND_COUNTERS) continue;
		if (at.kind == KIND_ENTRY) CB_TRY(entry_decode(value, &e, err));
		uint64_t ino = at.kind == KIND_ENTRY ? e.rec.ino : at.ino;
		tree_view to = txn_raw(merged);
		cb_code code = inode_find(&from, ino, &ours, err);
		if (code == CB_OK) code = inode_find(&to, ino, &node, err);
		if (code == CB_OK && node.rec.version == 0) { /* the merge changed it */
			node.rec.mtime_ns = ours.rec.mtime_ns;
			node.rec.ctime_ns = ours.rec.ctime_ns;
			node.rec.atime_ns = ours.rec.atime_ns;
			code = inode_save(merged, &node, err);
		}
		if (code != CB_OK && code != CB_NOTFOUND) return code;
	}
	return CB_OK;
}

/* A transaction over the head that will hold what t changed. */
static cb_code merged_create(cb_box *b, const txn *t, bool in_write, txn **out, cb_error *err)
{
	AUTO_TXN txn *m = NULL;
	CB_TRY(in_write ? txn_create(b, t->kind, t->params, &m, err) : txn_create_unlocked(b, t->kind, t->params, &m, err));
	CB_TRY(txn_field_set(&m->params, &m->params_size, span_make(t->params, t->params_size), err));
	CB_TRY(txn_field_set(&m->result, &m->result_size, span_make(t->result, t->result_size), err));
	m->started_ns = t->started_ns;
	m->inside_write = in_write;
	m->record = t->record;
	m->epoch = t->epoch;
	*out = TAKE_PTR(m);
	return CB_OK;
}

static bool has_answers(const cb_commit_options *how)
{
	return how->prefer != CB_PREFER_NONE || how->resolution_count > 0;
}

/* Is it refused again as it was before? A running step is tried at every close of an open file: while neither side has changed its merge
 * would end as the last one did. t->lost has what that one left open. With rules it depends on these too. */
static cb_code refused_again(cb_box *b, const txn *t, const cb_commit_options *how, bool *out, cb_error *err)
{
	*out = false;
	if (!t->refused || has_answers(how) || how->no_merge || gate_has_rules(b->cs, b)) return CB_OK;
	CB_TRY(box_refresh(b, err));
	*out = b->head->id == t->refused;
	return CB_OK;
}

/* *out: t merged onto the head, over which it can be appended. in_write: inside a write transaction; otherwise t has no contents in
 * memory. */
static cb_code merge_txn(cb_box *b, txn *t, const cb_commit_options *how, bool in_write, txn **out, cb_commit_result *result,
                         cb_error *err)
{
	AUTO_TXN txn *merged = NULL;
	CB_TRY(merged_create(b, t, in_write, &merged, err));
	answering a = {.t = t, .how = how};
	cb_merge_options options = CB_WITH(cb_merge_options, .resolve = answer, .context = &a);
	merge_conflicts conflicts = {.strict = true, .options = &options, .list = BUF_INIT(CB_ERROR_MESSAGE_MAX)};
	cb_code code = answers_read(&a, err);
	if (code == CB_OK) code = merge_onto_head(b, t, merged, &conflicts, err);
	if (code == CB_OK && a.no_memory) code = cb_err_nomem(err);
	if (code == CB_OK && conflicts.open) {
		t->refused = has_answers(how) ? 0 : b->head->id;
		code = conflict_error(t, result, err);
	}
	merge_conflicts_done(&conflicts);
	answering_done(&a);
	if (code == CB_OK) *out = TAKE_PTR(merged);
	return code;
}

static const char *step_who(const cb_box *b)
{
	return b->recorded_for ? b->recorded_for : b->who;
}

/* What a merge would compare of one file: the largest that it is on any side. */
static cb_code merge_bytes(const tree_view *base, const tree_view *head, span key_bytes, span value, uint64_t *out, cb_error *err)
{
	tree_value old_value;
	inode node;
	entry e = {0};
	if (!value.bytes) { /* it goes: what was it? */
		cb_code code = tree_get(base, key_bytes, &old_value, err);
		if (code == CB_NOTFOUND) return CB_OK;
		if (code != CB_OK) return code;
		value = span_make(old_value.bytes, old_value.size);
	}
	if (key_bytes.bytes[0] == KIND_ENTRY) CB_TRY(entry_decode(value, &e, err));
	else CB_TRY(record_decode(value, &e.rec, err));
	uint64_t most = e.is_link || e.rec.type == CB_DIR ? 0 : e.rec.size;
	const tree_view *const sides[] = {base, head};
	for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
		cb_code code = inode_find(sides[i], e.rec.ino, &node, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		if (code == CB_OK && node.rec.type != CB_DIR && node.rec.size > most) most = node.rec.size;
	}
	*out += most;
	return CB_OK;
}

/* Would merging t onto the head take so little that others may wait for it? */
static cb_code merge_is_light(cb_box *b, const txn *t, bool *out, cb_error *err)
{
	tree_view base = state_view(b->cs, t->base), head = state_view(b->cs, b->head);
	uint64_t bytes = 0;
	pmap_cursor c;
	span k, value;
	bool tombstone;
	*out = pmap_count(&t->delta) <= LIGHT_KEYS;
	for (pmap_seek(&c, &t->delta, (span){0}); *out && pmap_cursor_get(&c, &k, &value, &tombstone); pmap_cursor_next(&c)) {
		if (k.bytes[0] != KIND_ENTRY && k.bytes[0] != KIND_INODE) continue;
		CB_TRY(merge_bytes(&base, &head, k, tombstone ? (span){0} : value, &bytes, err));
		*out = bytes <= LIGHT_BYTES;
	}
	return CB_OK;
}

/* Under the writer lock, with b->head and b->row current. */
static cb_code commit_current(cb_box *b, txn *t, const cb_commit_options *how, state **out_head, cb_commit_result *out,
                              cb_error *err)
{
	lost_paths_forget(&t->lost);
	if (t->base->id == b->head->id) {
		if (t->base != b->head) CB_TRY(txn_base_set(t, b->head, err)); /* records were added; nothing changed */
		txn_quotas_set(t, &b->row);
		return txn_append(t, b->id, step_who(b), out_head, err);
	}
	bool unseen = false;
	CB_TRY(moved_unseen(b, t, &unseen, err));
	if (how->no_merge && !unseen)
		return cb_err_set(err, CB_CONFLICT, "box '%s' was changed by step %llu meanwhile", box_called(b, &b->row),
		                  (unsigned long long)b->head->seq);
	AUTO_TXN txn *merged = NULL;
	CB_TRY(merge_txn(b, t, how, true, &merged, out, err));
	if (unseen) CB_TRY(times_as_begun(t, merged, err));
	txn_quotas_set(merged, &b->row);
	CB_TRY(txn_append(merged, b->id, step_who(b), out_head, err));
	if (out) out->merged = !unseen;
	return CB_OK;
}

/* ---- as a fork ---- */

static cb_code fork_of_base(cb_box *b, txn *t, const char *name, state **out_head, cb_error *err)
{
	AUTO_STATE state *origin = NULL;
	store_box row = {0};
	/* Its root may have been dropped while the transaction was open. */
	CB_TRY(state_settle(b->cs, t->base, &origin, err));
	CB_TRY(box_insert(b->cs, name, origin, &row, err));
	CB_TRY(gate_forked(b->cs, b->who, b->id, row.id, err));
	char from[CB_NAME_MAX + 32];
	(void)snprintf(from, sizeof(from), "%s@%llu", box_called(b, &b->row), (unsigned long long)origin->seq);
	CB_TRY(audit_did(b->cs, &row, &(audit_note){b->who, "fork", from}, err));
	CB_TRY(txn_base_set(t, origin, err));
	bool recorded = t->record;
	txn_quotas_set(t, &row);
	t->record = true; /* a fork whose first step is the transaction, also when it has nothing to say */
	cb_code code = txn_append(t, row.id, step_who(b), out_head, err);
	t->record = recorded;
	return code == CB_OK ? box_lost_mark(b->cs, row.id, (*out_head)->seq, err) : code;
}

cb_code txn_fork(cb_box *b, txn *t, const char *name, cb_commit_result *out, cb_error *err)
{
	store *s = b->cs->s;
	char made[CB_NAME_MAX + 1];
	if (t->era != entry_era()) return cb_err_set(err, CB_FORKED, "the transaction belongs to the parent process");
	CB_TRY(store_write_begin_as(s, STORE_SHRINKS, err)); /* a full disk must not be what loses the work */
	uint64_t number = 0;
	AUTO_STATE state *head = NULL;
	cb_code code = name ? CB_OK : store_take(s, STORE_NEXT_STATE, 1, &number, err);
	if (!name) (void)snprintf(made, sizeof(made), "%.40s-conflict-%llu", box_called(b, &b->row), (unsigned long long)number);
	if (!name) name = made;
	if (code == CB_OK) code = fork_of_base(b, t, name, &head, err);
	code = store_write_end(s, code, false, err);
	txn_locals_settle(t, code == CB_OK);
	if (code != CB_OK) return code;
	if (out) {
		memset(out->fork, 0, sizeof(out->fork));
		memcpy(out->fork, name, strlen(name));
		out->seq = head->seq;
		out->state = head->id;
	}
	return CB_OK;
}

/* ---- the end ---- */

/* Ends the write transaction that is open: with a new head, or without one. told: something else was written. */
static cb_code write_ended(cb_box *b, cb_code code, state *head, bool told, bool sync, cb_commit_result *out, cb_error *err)
{
	store *s = b->cs->s;
	if (code != CB_OK || (!head && !told)) { /* there is nothing to commit, and nobody's picture grows old */
		store_write_abort(s);
		return code;
	}
	if (!head) return store_write_commit(s, sync, err);
	uint64_t stamp = store_stamp_after(s, b->id);
	CB_TRY(store_write_commit(s, sync, err));
	state_unref(b->head);
	b->head = state_ref(head);
	state_remember(b->cs, head);
	b->stamp = stamp;
	b->last_seq = head->seq;
	if (out) {
		out->seq = head->seq;
		out->state = head->id;
	}
	return CB_OK;
}

enum { REBASES = 3 }; /* of which the last is done under the lock */

/* One try. *pp: what was prepared of last, or NULL. relied: the transaction that it stands for; NULL: it is for this very step of the box
 * (txn_commit_exact). *out_moved: its base is not the head; nothing happened. */
static cb_code publish_once(cb_box *b, txn *last, const txn *relied, prepared **pp, folder_news *folder, bool sync, bool rebase,
                            bool *out_moved, cb_commit_result *out, cb_error *err)
{
	AUTO_STATE state *head = NULL;
	*out_moved = false;
	CB_TRY(store_write_begin_as(b->cs->s, last->need, err));
	cb_code code = box_refresh(b, err);
	rebase = rebase && (b->head->id != last->base->id || b->head->seq != last->base->seq);
	if (code == CB_OK && rebase) code = txn_rebase(b, last, pp, relied, &rebase, err);
	prepared *p = *pp;
	*out_moved = code == CB_OK && b->head->id != last->base->id;
	/* Steps that change no file may have been added: the base is the head, under a later number. What was prepared has the wrong one
	 * then; and what was computed from the past (undo, merge) would know nothing of a merge or an undo among them. */
	bool renumbered = code == CB_OK && !*out_moved && b->head->seq != last->base->seq;
	if (renumbered && (p || !relied)) *out_moved = true;
	else if (renumbered) code = txn_base_set(last, b->head, err);
	if (code == CB_OK && !*out_moved) {
		txn_quotas_set(last, &b->row);
		code = p ? txn_append_prepared(last, p, b->id, step_who(b), &head, err)
		         : txn_append(last, b->id, step_who(b), &head, err);
	}
	bool told = code == CB_OK && !*out_moved && folder;
	if (told) code = folder_news_put(folder, head, err);
	code = write_ended(b, code, head, told, sync, out, err);
	txn_locals_settle(last, code == CB_OK && head);
	return code;
}

/* last (t, or what it was merged to) if its base is still the head, or if what others did meanwhile does not meet it, with everything slow
 * done before the writer lock is taken. relied: t, where last is not. */
static cb_code publish(cb_box *b, txn *last, const txn *relied, folder_news *folder, bool sync, bool *out_moved,
                       cb_commit_result *out, cb_error *err)
{
	prepared *p = NULL;
	cb_code code = CB_OK;
	*out_moved = true;
	for (int tries = 0; code == CB_OK && *out_moved; tries++) {
		bool large = txn_is_large(last), on = (large || last->owner) && last->rebases;
		if (large && !p) code = txn_prepare(last, b->id, &p, err);
		if (code == CB_OK)
			code = publish_once(b, last, relied, &p, folder, sync, on && tries == REBASES, out_moved, out, err);
		if (code != CB_OK || !*out_moved || !on || tries == REBASES) break;
		bool done = false;
		if (tries + 1 < REBASES) code = txn_rebase(b, last, &p, relied, &done, err);
		else done = true;
		if (!done) break;
		if (last->closes) last->other_seq = 0;
	}
	prepared_destroy(p);
	return code;
}

cb_code txn_commit_exact(cb_box *b, txn *t, bool *out_moved, cb_commit_result *out, cb_error *err)
{
	CB_TRY(txn_lighten(t, err));
	return publish(b, t, NULL, NULL, false, out_moved, out, err);
}

/* Merged and written outside the writer lock. *out_done: it is settled; otherwise others were faster each time. */
static cb_code commit_ahead(cb_box *b, txn *t, const cb_commit_options *how, bool *out_done, cb_commit_result *out, cb_error *err)
{
	*out_done = true;
	for (int tries = 0; tries < 3; tries++) {
		AUTO_TXN txn *merged = NULL;
		bool moved = false, unseen = false;
		lost_paths_forget(&t->lost);
		CB_TRY(box_refresh(b, err));
		if (t->base->id != b->head->id) {
			CB_TRY(moved_unseen(b, t, &unseen, err));
			if (how->no_merge && !unseen) break;
			CB_TRY(txn_contents_store(t, err));
			CB_TRY(merge_txn(b, t, how, false, &merged, out, err));
			if (unseen) CB_TRY(times_as_begun(t, merged, err));
			merged->need = t->need;
			merged->rebases = true;
		}
		if (merged && t->folder) CB_TRY(folder_news_apart(t->folder, err));
		CB_TRY(publish(b, merged ? merged : t, t, t->folder, how->sync, &moved, out, err));
		if (!moved && merged && out) out->merged = !unseen;
		if (!moved) return CB_OK;
	}
	*out_done = false;
	return CB_OK;
}

/* Under the writer lock from the start. light: only if that takes next to nothing; else nothing happens, and *out_done is false. */
static cb_code commit_held(cb_box *b, txn *t, const cb_commit_options *how, bool light, bool *out_done, cb_commit_result *out,
                           cb_error *err)
{
	AUTO_STATE state *head = NULL;
	bool held = t->in_write, go = true;
	if (!held) CB_TRY(store_write_begin_as(b->cs->s, t->need, err));
	cb_code code = held ? CB_OK : box_refresh(b, err);
	bool merges = !how->no_merge || gate_has_rules(b->cs, b); /* with what is hidden in any case */
	if (code == CB_OK && light && t->base->id != b->head->id && merges) code = merge_is_light(b, t, &go, err);
	*out_done = go;
	if (code == CB_OK && go) code = commit_current(b, t, how, &head, out, err);
	bool told = code == CB_OK && t->folder;
	if (told) code = folder_news_put(t->folder, head, err);
	code = write_ended(b, code, head, told, how->sync, out, err);
	t->in_write = false;
	txn_locals_settle(t, code == CB_OK && head);
	return code;
}

cb_code txn_commit(cb_box *b, txn *t, const cb_commit_options *how, cb_commit_result *out, cb_error *err)
{
	static const cb_commit_options defaults = {0};
	if (!how) how = &defaults;
	bool was_in_write = t->in_write, done = false, again = false;
	if (!was_in_write && t->era != entry_era())
		return cb_err_set(err, CB_FORKED, "the transaction belongs to the parent process");
	CB_TRY(refused_again(b, t, how, &again, err));
	if (again) return conflict_error(t, out, err);
	t->refused = 0;
	if (!was_in_write) CB_TRY(txn_lighten(t, err));
	if (t->folder) CB_TRY(folder_news_prepare(t->folder, t, err));
	bool light = was_in_write || (!txn_is_large(t) && !t->folder);
	if (light) CB_TRY(commit_held(b, t, how, !was_in_write, &done, out, err));
	if (!done) CB_TRY(commit_ahead(b, t, how, &done, out, err));
	if (!done && t->folder) CB_TRY(folder_news_apart(t->folder, err));
	return done ? CB_OK : commit_held(b, t, how, false, &done, out, err);
}
