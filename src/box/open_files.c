/* open_files.c: which files a handle has open, by inode, and the pictures they keep (open_file.h). */
#include "box/open_file.h"

#include "base/hash.h"

#include <stdlib.h>

enum { SLOTS_LEAST = 16 }; /* of the index by inode; a power of two */

/* ---- lists ---- */

static void list_put(cb_file **head, cb_file *f, file_list list)
{
	f->in[list].next = *head;
	f->in[list].at = head;
	if (*head) (*head)->in[list].at = &f->in[list].next;
	*head = f;
}

static void list_take(cb_file *f, file_list list)
{
	if (!f->in[list].at) return;
	*f->in[list].at = f->in[list].next;
	if (f->in[list].next) f->in[list].next->in[list].at = f->in[list].at;
	f->in[list].next = NULL;
	f->in[list].at = NULL;
}

static cb_file **slot_of(const open_files *o, uint64_t ino)
{
	return &o->by_ino[(size_t)hash_u64(ino) & (o->slots - 1)];
}

/* Without memory for a larger index the lists just become longer. */
static cb_code index_grow(open_files *o, cb_error *err)
{
	if (o->count < o->slots) return CB_OK;
	size_t slots = o->slots ? 2 * o->slots : SLOTS_LEAST;
	cb_file **by_ino = mem_alloc(slots * sizeof(cb_file *));
	if (!by_ino) return o->slots ? CB_OK : cb_err_nomem(err);
	for (size_t i = 0; i < slots; i++) by_ino[i] = NULL;
	free(o->by_ino);
	o->by_ino = by_ino;
	o->slots = slots;
	for (cb_file *f = o->all; f; f = f->in[LIST_ALL].next) list_put(slot_of(o, f->ino), f, LIST_INO);
	return CB_OK;
}

static cb_file *same_ino(cb_file *f, uint64_t ino)
{
	while (f && f->ino != ino) f = f->in[LIST_INO].next;
	return f;
}

cb_file *file_first_of(const cb_box *b, uint64_t ino)
{
	return b->files.slots ? same_ino(*slot_of(&b->files, ino), ino) : NULL;
}

cb_file *file_next_of(const cb_file *f)
{
	return same_ino(f->in[LIST_INO].next, f->ino);
}

static void picture_set(cb_file *f, file_picture picture)
{
	open_files *o = &f->b->files;
	bool followed = f->picture == PICTURE_HEAD;
	f->picture = picture;
	o->followers += picture == PICTURE_HEAD;
	o->followers -= followed;
	/* A state that no file is in any more is not kept from prune. It is still compared with the next, as far as gc leaves it. */
	if (o->followers == 0) store_use_hide(o->kept.use);
	if (picture != PICTURE_LOOSE) list_take(f, LIST_LOOSE);
	else if (!f->in[LIST_LOOSE].at) list_put(&o->loose, f, LIST_LOOSE);
}

static void head_note(cb_box *b)
{
	state *old = b->files.kept.s;
	b->files.kept.s = state_ref(b->head);
	b->files.seq = b->head->seq;
	state_unref(old);
}

/* Places in the table are taken when a file is opened: when it is gone is too late to find that there is none. */
static cb_code places_claim(cb_file *f, cb_error *err)
{
	cb_box *b = f->b;
	CB_TRY(store_use_claim(b->cs->s, &f->kept.base.use, err));
	f->kept.base.cs = b->cs;
	CB_TRY(store_use_claim(b->cs->s, &b->files.kept.use, err));
	b->files.kept.cs = b->cs;
	/* Beside a running step nothing keeps the head. */
	if (!b->files.all && !b->pinned && !b->txn) head_note(b);
	return CB_OK;
}

static void end_if_none(open_files *o)
{
	if (o->all) return;
	kept_done(&o->kept);
	free(o->by_ino);
	*o = (open_files){0};
}

cb_code file_enlist(cb_file *f, cb_error *err)
{
	open_files *o = &f->b->files;
	cb_code code = index_grow(o, err);
	if (code == CB_OK) code = places_claim(f, err);
	if (code == CB_OK) code = file_keep(f, err);
	if (code == CB_OK) {
		list_put(&o->all, f, LIST_ALL);
		list_put(slot_of(o, f->ino), f, LIST_INO);
		o->count++;
	} else {
		picture_set(f, PICTURE_OWN);
	}
	end_if_none(o);
	return code;
}

void file_delist(cb_file *f)
{
	picture_set(f, PICTURE_OWN);
	for (size_t i = 0; i < LISTS; i++) list_take(f, (file_list)i);
	f->b->files.count--;
	end_if_none(&f->b->files);
}

/* ---- pictures ---- */

/* A picture of the box that is kept by the call, by the handle, or by the file already, becomes the file's. In an idle handle it stays
 * kept: the file may be unlinked, pruned and swept by others meanwhile, and is still open here. delta NULL: none. */
static cb_code file_keep_state(cb_file *f, state *base, const pmap *delta, cb_error *err)
{
	const cb_box *b = f->b;
	const pmap_node *root = delta ? delta->root : NULL;
	if (f->kept.base.s == base && f->kept.delta.root == root && store_use_is_shown(f->kept.base.use)) return CB_OK;
	/* Its place in the table is taken when it is opened: later this fails in a child of fork() only. */
	if (f->kept.base.s != base || !store_use_is_shown(f->kept.base.use))
		CB_TRY(kept_set(&f->kept.base, b->cs, base, KEPT_FILE, err));
	pmap_done(&f->kept.delta);
	f->kept.delta = delta ? pmap_ref(delta) : PMAP_EMPTY;
	f->kept.v = (tree_view){&b->cs->nodes, base->root, &base->overlay, &f->kept.delta};
	f->stale = false;
	return CB_OK;
}

/* From its own picture to the box's, which is, or will be before the call ends, the head: until then the call keeps that. */
static void file_follow(cb_file *f)
{
	picture_set(f, PICTURE_HEAD);
	store_use_hide(f->kept.base.use);
	state_unref(TAKE_PTR(f->kept.base.s));
	pmap_done(&f->kept.delta);
	f->stale = false;
}

cb_code file_keep(cb_file *f, cb_error *err)
{
	cb_box *b = f->b;
	if (!b->txn && b->files.kept.s == b->head) {
		if (f->picture == PICTURE_HEAD) return CB_OK;
		file_follow(f);
		return kept_set(&b->files.kept, b->cs, b->head, KEPT_FILE, err);
	}
	CB_TRY(file_keep_state(f, b->txn ? b->txn->base : b->head, b->txn ? &b->txn->delta : NULL, err));
	picture_set(f, PICTURE_LOOSE);
	return CB_OK;
}

/* What it follows becomes its own: the file is gone. */
static void file_keep_own(cb_file *f)
{
	if (f->picture != PICTURE_HEAD) return;
	if (!f->b->files.kept.s || file_keep_state(f, f->b->files.kept.s, NULL, NULL) != CB_OK) f->stale = true;
	picture_set(f, PICTURE_OWN);
}

void file_detach(cb_file *f)
{
	if (f->detached) return;
	bool known = f->picture == PICTURE_OWN; /* a head without it was looked at */
	file_keep_own(f);
	f->detached = true;
	if (known) return;
	f->taken = 0;
	f->by = TAKEN_BY_CALL;
	f->sought = f->kept.base.s ? f->kept.base.s->seq : 0;
}

void file_loosen(cb_file *f)
{
	if (f->picture == PICTURE_OWN) picture_set(f, PICTURE_LOOSE);
}

void files_before_unlink(cb_box *b, uint64_t ino)
{
	CANCEL_SHIELD;
	for (cb_file *f = file_first_of(b, ino); f; f = file_next_of(f))
		if (!f->detached) (void)file_keep(f, NULL);
}

/* ---- files that went ---- */

/* Looks through the steps of the box, from `top` down, for those that took files. An inode is there as long as it has a name: of a file
 * that the top does not have, the newest step that touched its names took it. */
typedef struct hunt {
	cb_box *b;
	uint64_t top, low;       /* the step of a state without them; and one above which all of them were taken */
	uint64_t seq;            /* the step that is looked at, */
	taken_by by;             /* and what it is */
	bool large, gap;         /* it has no list of changes; those before it were pruned */
	cb_file *sought, *taken; /* lists; the latter by step */
} hunt;

static void hunt_add(hunt *h, cb_file *f)
{
	if (f->sought >= h->top || f->in[LIST_SOUGHT].at) return;
	if (!h->sought || f->sought < h->low) h->low = f->sought;
	list_put(&h->sought, f, LIST_SOUGHT);
}

static cb_code note_taken(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	hunt *h = context;
	key_parts at;
	if (key_bytes.size == 0 || key_bytes.bytes[0] != KIND_NAME) return CB_OK;
	CB_TRY(key_parse(key_bytes, &at, err));
	for (cb_file *f = file_first_of(h->b, at.ino); f; f = file_next_of(f)) {
		bool just_now = f->in[LIST_TAKEN].at && f->taken == h->seq;
		if (!just_now && (!f->in[LIST_SOUGHT].at || h->seq <= f->sought)) continue;
		list_take(f, LIST_SOUGHT);
		list_take(f, LIST_TAKEN);
		/* One that got a name is there, and hidden from the handle. */
		f->taken = new_value.bytes ? 0 : h->seq;
		f->by = h->by;
		if (new_value.bytes) f->sought = h->top;
		else list_put(&h->taken, f, LIST_TAKEN);
	}
	return CB_OK;
}

static cb_code note_step(void *context, const store_step *step, cb_error *err)
{
	static const char *const kinds[] = {"undo", "redo", "restore", "merge"};
	hunt *h = context;
	(void)err;
	h->seq = step->seq;
	h->by = TAKEN_BY_CALL;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(step->kind, kinds[i]) == 0) h->by = TAKEN_BY_HISTORY;
	return CB_OK;
}

static cb_code hunt_step(void *context, const store_step *step, cb_error *err)
{
	hunt *h = context;
	CB_TRY(note_step(h, step, err));
	h->gap = step->gap;
	h->large = !step->has_changes && step->weight > 0;
	if (step->has_changes) CB_TRY(tree_changes_decode(step->changes, note_taken, h, err));
	return h->large || h->gap || !h->sought ? CB_INTERRUPTED : CB_OK;
}

/* What one handle on a file found out, all that share its changes know. */
static void orphan_learn(cb_file *f)
{
	orphan *o = f->private_;
	if (!o || f->taken < o->taken) return;
	o->taken = f->taken;
	o->by = f->by;
}

/* What went in a step that was pruned stays unknown, or taken by the step known before. What could not be looked at for another reason
 * is, the next time. */
static cb_code hunt_steps(hunt *h, cb_error *err)
{
	const cb_box *b = h->b;
	cb_error why = {0};
	cb_code code = CB_OK;
	for (uint64_t from = h->top; code == CB_OK && h->sought && !h->gap && from > h->low; from = h->seq - 1) {
		/* Should there be no step: all of them were pruned. */
		h->seq = from + 1;
		h->gap = true;
		h->large = false;
		code = store_step_walk(b->cs->s, b->id, from, h->low + 1, true, hunt_step, h, &why);
		if (code == CB_OK && h->large) code = step_changes(b->cs, b->id, h->seq, note_taken, h, &why);
	}
	bool pruned = code == CB_STALE;
	if (pruned) code = CB_OK;
	for (cb_file *f; (f = h->sought);) {
		list_take(f, LIST_SOUGHT);
		if (code != CB_OK) continue;
		if (!f->taken && (pruned || (h->gap && f->sought + 1 < h->seq))) f->by = TAKEN_UNKNOWN;
		f->sought = h->top;
		orphan_learn(f);
	}
	return code == CB_OK ? CB_OK : cb_err_pass(err, code, &why);
}

/* The state before a step, kept. Where that was pruned the step's list leads back to it, and that step is kept. Neither: CB_STALE. */
static cb_code before_load(cb_box *b, uint64_t seq, kept_state *out, cb_error *err)
{
	AUTO_KEPT kept_state after = {0};
	AUTO_STATE state *before = NULL;
	cb_error why;
	cb_code code = kept_load(out, b->cs, b->id, seq - 1, KEPT_FILE, cb_err_aside(&why));
	if (code != CB_STALE) return code == CB_OK ? CB_OK : cb_err_pass(err, code, &why);
	CB_TRY(kept_load(&after, b->cs, b->id, seq, KEPT_FILE, err));
	CB_TRY(state_before_gap(b->cs, after.s, &before, err));
	return kept_set(out, b->cs, before, KEPT_FILE, err);
}

/* f went with `before`. What was written to it since it went for the first time stands on the picture of then. */
static cb_code taken_picture(cb_file *f, kept_state *before, uint64_t *before_seq, cb_error *err)
{
	inode node;
	if (f->private_ || (f->kept.base.s && f->kept.base.s->seq + 1 == f->taken && !f->kept.delta.root)) return CB_OK;
	if (*before_seq != f->taken) {
		kept_done(before);
		*before_seq = 0;
		CB_TRY(before_load(f->b, f->taken, before, err));
		*before_seq = f->taken;
	}
	tree_view v = state_view(f->b->cs, before->s);
	CB_TRY(inode_find(&v, f->ino, &node, err));
	return file_keep_state(f, before->s, NULL, err);
}

/* Those that were added get the pictures that they went with. Where there is none any more the last one known stays. */
static cb_code hunt_end(hunt *h, cb_error *err)
{
	AUTO_KEPT kept_state before = {0};
	uint64_t before_seq = 0;
	cb_code code = hunt_steps(h, err);
	while (h->taken) {
		cb_file *f = h->taken;
		cb_error why;
		list_take(f, LIST_TAKEN);
		cb_code got = taken_picture(f, &before, &before_seq, cb_err_aside(&why));
		orphan_learn(f);
		if (got == CB_OK || got == CB_STALE || got == CB_NOTFOUND) f->sought = h->top;
		else if (code == CB_OK) code = cb_err_pass(err, got, &why);
	}
	return code;
}

cb_code file_seek_taken(cb_file *f, cb_error *err)
{
	enum { MANY_STEPS = 64 }; /* to go through them takes longer than to look who else is gone */
	const cb_box *b = f->b;
	hunt h = {.b = f->b, .top = b->txn ? b->txn->base->seq : b->head->seq};
	if (f->stale || !f->kept.base.s || f->sought >= h.top) return CB_OK;
	hunt_add(&h, f);
	for (cb_file *g = h.top - f->sought > MANY_STEPS ? b->files.all : NULL; g; g = g->in[LIST_ALL].next)
		if (g != f && (g->detached || g->picture == PICTURE_OWN) && !g->stale && g->kept.base.s) hunt_add(&h, g);
	return hunt_end(&h, err);
}

/* ---- another head ---- */

/* Before the hunt: what the newest step is. false: it could not be found, and is to be hunted for. */
static bool hunt_top(hunt *h)
{
	return h->seq == h->top || store_step_get(h->b->cs->s, h->b->id, h->top, note_step, h, NULL) == CB_OK;
}

/* A detached file is there at this step, though nobody uses it: who took it before does not matter any more. */
static void file_was_back(cb_file *f, uint64_t seq)
{
	f->taken = 0;
	f->by = TAKEN_UNKNOWN;
	f->sought = seq;
	if (f->private_) f->private_->taken = 0;
	orphan_learn(f);
}

/* Files that the head has follow it, alone; what is in the running step besides is committed with it, or stays with it. Of files that it
 * has no more the running step's part is forgotten likewise: its contents may be in that transaction's memory only. */
static void file_look(cb_file *f, const tree_view *head, hunt *gone)
{
	inode node;
	bool there = inode_find(head, f->ino, &node, NULL) == CB_OK;
	if (!f->detached && there) {
		if (f->picture != PICTURE_HEAD) file_follow(f);
		return;
	}
	bool went = f->picture != PICTURE_OWN;
	file_keep_own(f);
	picture_set(f, PICTURE_OWN);
	if (f->detached && there) file_was_back(f, gone->top);
	else if (f->detached && !f->taken && !f->stale && f->kept.base.s) hunt_add(gone, f);
	if (f->detached || !f->kept.base.s) return;
	tree_view alone = state_view(f->b->cs, f->kept.base.s);
	bool had = inode_find(&alone, f->ino, &node, NULL) == CB_OK;
	(void)file_keep_state(f, f->kept.base.s, NULL, NULL);
	if (!went) return;
	bool by_last = had && f->kept.base.s->seq + 1 == gone->top && hunt_top(gone);
	f->taken = by_last ? gone->top : 0;
	f->by = by_last ? gone->by : TAKEN_BY_CALL;
	f->sought = by_last ? gone->top : f->kept.base.s->seq;
	hunt_add(gone, f);
}

typedef struct moved {
	const cb_box *b;
	buf inos; /* uint64_t: open ones that got or lost a name */
	size_t most, seen;
} moved;

static cb_code note_moved(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	(void)new_value;
	moved *m = context;
	key_parts at;
	if (m->seen++ == m->most) return CB_INTERRUPTED;
	CB_TRY(key_parse(key_bytes, &at, err));
	return file_first_of(m->b, at.ino) ? buf_append(&m->inos, &at.ino, sizeof(at.ino), err) : CB_OK;
}

/* Looks at those whose names are not the same in the state that was the head before; an inode is there as long as it has one. false: that
 * would take as much as looking at each, or could not be found out. */
static bool files_look_moved(cb_box *b, const tree_view *head, hunt *gone)
{
	const open_files *o = &b->files;
	static const uint8_t names[] = {KIND_NAME};
	if (!o->kept.s) return false;
	moved m = {.b = b, .inos = BUF_INIT(SIZE_MAX), .most = o->count};
	tree_view before = state_view(b->cs, o->kept.s);
	cb_code code = tree_diff_prefix(&before, head, span_make(names, sizeof(names)), note_moved, &m, NULL);
	bool all = code == CB_OK && m.seen <= m.most;
	const uint64_t *inos = (const uint64_t *)(const void *)m.inos.bytes;
	for (size_t i = 0; all && i < m.inos.size / sizeof(*inos); i++)
		for (cb_file *f = file_first_of(b, inos[i]); f; f = file_next_of(f)) file_look(f, head, gone);
	buf_done(&m.inos);
	return all;
}

void files_after_refresh(cb_box *b)
{
	open_files *o = &b->files;
	if (o->seq == b->head->seq && o->kept.s == b->head) return;
	CANCEL_SHIELD; /* what could not be looked at would be taken for gone */
	tree_view head = state_view(b->cs, b->head);
	hunt gone = {.b = b, .top = b->head->seq};
	for (cb_file *f = o->loose, *next; f; f = next) {
		next = f->in[LIST_LOOSE].next;
		file_look(f, &head, &gone);
	}
	if (o->kept.s != b->head && !files_look_moved(b, &head, &gone))
		for (cb_file *f = o->all; f; f = f->in[LIST_ALL].next) file_look(f, &head, &gone);
	(void)hunt_end(&gone, NULL); /* whoever uses one that was not found looks again */
	if (o->followers) (void)kept_set(&o->kept, b->cs, b->head, KEPT_FILE, NULL);
	head_note(b);
}

/* ---- in a child of fork() ---- */

void orphan_release(cb_file *f)
{
	orphan *o = TAKE_PTR(f->private_);
	if (o && --o->refs == 0) orphan_destroy(o);
}

/* The picture, on its own and for this process. CB_STALE: the parent let it go, or it stands on what the parent alone has. */
static cb_code picture_adopt(cb_file *f, cb_error *err)
{
	kept_state again = {0};
	state *had = f->picture == PICTURE_HEAD ? f->b->files.kept.s : f->kept.base.s;
	if (f->private_ || !had) return CB_STALE;
	CB_TRY(kept_known(&again, f->b->cs, had, KEPT_FILE, err));
	kept_done(&f->kept.base);
	f->kept.base = again;
	pmap_done(&f->kept.delta);
	f->kept.delta = PMAP_EMPTY;
	f->kept.v = state_view(f->b->cs, again.s);
	return CB_OK;
}

cb_code files_adopt(cb_box *b, cb_error *err)
{
	open_files *o = &b->files;
	for (cb_file *f = o->all; f; f = f->in[LIST_ALL].next) {
		cb_error why;
		cb_code code = f->stale ? CB_STALE : picture_adopt(f, cb_err_aside(&why));
		if (code != CB_OK && code != CB_STALE && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
		f->stale = code != CB_OK;
		if (f->stale) kept_done(&f->kept.base);
		orphan_release(f);
		f->wrote = false;
		f->lost = NULL;
		picture_set(f, PICTURE_LOOSE);
	}
	if (!o->all) return CB_OK;
	kept_done(&o->kept);
	CB_TRY(store_use_claim(b->cs->s, &o->kept.use, err));
	o->kept.cs = b->cs;
	o->seq = UINT64_MAX;
	return CB_OK;
}
