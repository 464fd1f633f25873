/*
 * fsck.c: every invariant of a box, checked without trusting any of them. The store checks its own things first (src/store/check.c).
 *
 * For each box: every step's change list decodes and its kept root is a sound tree; the newest state and every checkpoint hold the file
 * invariants listed in inode.c, and every content they name is there and has its sum. A complaint names the box, the state, and the
 * path where there is one; what is sound stays readable.
 */
#include "base/args.h"
#include "base/cancel.h"
#include "base/id_set.h"
#include "box/gate.h"
#include "box/history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct checking {
	cb_store *cs;
	cb_complain complain;
	void *context;
	uint64_t count;
	id_set sound, damaged; /* contents looked at so far */
	const char *box;
	uint64_t seq;
	buf lines;       /* complaints not yet told, each followed by a NUL */
	uint64_t untold; /* of which there was no room for a line */
} checking;

static void say(checking *c, const char *format, ...) ATTR_PRINTF(2, 3);
static void say(checking *c, const char *format, ...)
{
	char line[1024], text[768];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (c->box) (void)snprintf(line, sizeof(line), "box '%s' step %" PRIu64 ": %s", c->box, c->seq, text);
	else (void)snprintf(line, sizeof(line), "%s", text);
	c->count++;
	/* Most complaints are made inside a call on the database, where the caller may not be called: they wait for tell(). */
	if (buf_append(&c->lines, line, strlen(line) + 1, NULL) != CB_OK) c->untold++;
}

/* No call on the store is under way. */
static void tell(checking *c)
{
	for (size_t at = 0; at < c->lines.size; at += strlen((const char *)c->lines.bytes + at) + 1)
		if (c->complain) c->complain(c->context, (const char *)c->lines.bytes + at);
	buf_clear(&c->lines);
	if (c->untold && c->complain) {
		char line[64];
		(void)snprintf(line, sizeof(line), "and %" PRIu64 " complaints more", c->untold);
		c->complain(c->context, line);
	}
	c->untold = 0;
}

static void relay(void *context, const char *line)
{
	checking *c = context;
	say(c, "%s", line);
}

/* One inode as its keys tell it. */
typedef struct found {
	uint64_t ino;
	uint64_t parent; /* of a folder, or of the last entry seen */
	uint64_t size;
	uint64_t entries; /* D entries that name it */
	uint32_t links;   /* as its record says */
	uint8_t type;
	uint8_t form;
	bool has_record;
	bool by_link; /* entries refer to an I record */
	uint8_t mark; /* for the cycle search: 1 on the way, 2 reaches the root */
} found;

typedef struct pass {
	checking *c;
	tree_view v;
	buf all; /* found, first one per key, then merged and sorted by ino */
	uint64_t names;
	counters stored;
	bool has_counters;
	uint64_t extent_ino, extent_end;
} pass;

static found *find(const pass *p, uint64_t ino)
{
	found *all = (found *)(void *)p->all.bytes;
	size_t low = 0, high = p->all.size / sizeof(found);
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (all[mid].ino < ino) low = mid + 1;
		else high = mid;
	}
	return low < p->all.size / sizeof(found) && all[low].ino == ino ? &all[low] : NULL;
}

/* The path of an inode for a message; "inode N" when it has none. */
static void describe(const pass *p, uint64_t ino, char *out, size_t size)
{
	AUTO_BUF buf path = BUF_INIT(1 << 20);
	if (ino && inode_path(&p->v, ino, &path, NULL) == CB_OK) (void)snprintf(out, size, "%s", (const char *)path.bytes);
	else (void)snprintf(out, size, "inode %" PRIu64, ino);
}

static void complain_ino(pass *p, uint64_t ino, const char *what)
{
	char path[512];
	describe(p, ino, path, sizeof(path));
	say(p->c, "%s: %s", path, what);
}

/* ---- contents ---- */

/* Damage is complained of; what the machine fails to do (memory, a device) ends the check. */
static bool is_damage(cb_code code)
{
	return code == CB_CORRUPT || code == CB_STALE || code == CB_NOTFOUND;
}

typedef struct content_check {
	pass *p;
	uint64_t ino;
} content_check;

/* Each content is read once, however many files share it. */
static cb_code check_content(void *context, uint64_t content, uint64_t min_size, cb_error *err)
{
	const content_check *k = context;
	checking *c = k->p->c;
	uint64_t size = 0;
	bool was;
	cb_error why = {0};
	bool damaged = id_set_has(&c->damaged, content);
	if (!damaged && !id_set_has(&c->sound, content)) {
		blob *bytes = NULL;
		cb_code code = store_content_get(c->cs->s, content, &bytes, &why);
		blob_unref(bytes);
		if (code != CB_OK && !is_damage(code)) return cb_err_set(err, code, "%s", why.message);
		damaged = code != CB_OK;
		CB_TRY(id_set_add(damaged ? &c->damaged : &c->sound, content, &was, err));
	}
	if (!damaged) CB_TRY(store_content_size(c->cs->s, content, &size, err));
	if (!damaged && size < min_size) {
		damaged = true;
		CB_TRY(id_set_add(&c->damaged, content, &was, err));
	}
	if (!damaged) return CB_OK;
	char what[600];
	(void)snprintf(what, sizeof(what), "its content %" PRIu64 " is damaged or missing%s%.400s", content,
	               why.message[0] ? ": " : "", why.message);
	complain_ino(k->p, k->ino, what);
	return CB_OK;
}

/* ---- collecting ---- */

static cb_code add_record(pass *p, const record *r, uint64_t parent, bool entry_too, cb_error *err)
{
	found f = {.ino = r->ino, .parent = parent, .size = r->size, .entries = entry_too, .links = r->links};
	f.type = (uint8_t)r->type;
	f.form = (uint8_t)r->form;
	f.has_record = true;
	f.by_link = !entry_too;
	return buf_append(&p->all, &f, sizeof(f), err);
}

static cb_code see_entry(pass *p, const key_parts *k, span value, cb_error *err)
{
	entry e;
	if (entry_decode(value, &e, NULL) != CB_OK) {
		complain_ino(p, k->ino, "holds an entry that is malformed");
		return CB_OK;
	}
	bool root = k->ino == 0 && k->name.size == 0;
	key named = key_name(e.rec.ino, k->ino, k->name);
	tree_value ignored;
	cb_code there = root ? CB_OK : tree_get(&p->v, key_span(&named), &ignored, NULL);
	if (cancel_is_code(there)) return cb_err_set(err, there, NULL);
	if (there != CB_OK) complain_ino(p, k->ino, "holds an entry without its name key");
	if (root != (e.rec.ino == INO_ROOT)) complain_ino(p, e.rec.ino, "is a root where none may be");
	if (!e.is_link) return add_record(p, &e.rec, k->ino, true, err);
	found f = {.ino = e.rec.ino, .parent = k->ino, .entries = 1, .by_link = true};
	return buf_append(&p->all, &f, sizeof(f), err);
}

static cb_code see_inode(pass *p, const key_parts *k, span value, cb_error *err)
{
	record r;
	if (record_decode(value, &r, NULL) != CB_OK || r.ino != k->ino) {
		complain_ino(p, k->ino, "has a malformed record");
		return CB_OK;
	}
	return add_record(p, &r, 0, false, err);
}

static cb_code see_first(pass *p, span key_bytes, span value, cb_error *err)
{
	key_parts k;
	if (key_parse(key_bytes, &k, NULL) != CB_OK) {
		say(p->c, "a key of the map is malformed");
		return CB_OK;
	}
	switch (k.kind) {
	case KIND_ENTRY:
		return see_entry(p, &k, value, err);
	case KIND_INODE:
		return see_inode(p, &k, value, err);
	case KIND_NAME:
		p->names++;
		return CB_OK;
	case KIND_COUNTERS:
		p->has_counters = counters_decode(value, &p->stored, NULL) == CB_OK;
		return CB_OK;
	default:
		return CB_OK;
	}
}

/* ---- judging ---- */

static int compare_found(const void *a, const void *b)
{
	const found *x = a, *y = b;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Makes one of the several rows of an inode. */
static void join_rows(pass *p)
{
	found *all = (found *)(void *)p->all.bytes;
	size_t n = p->all.size / sizeof(found), kept = 0;
	if (n) qsort(all, n, sizeof(found), compare_found);
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || all[kept - 1].ino != all[i].ino) {
			all[kept++] = all[i];
			continue;
		}
		found *f = &all[kept - 1];
		if (f->has_record && all[i].has_record) complain_ino(p, f->ino, "has two records");
		if (f->by_link != all[i].by_link) complain_ino(p, f->ino, "is both embedded in an entry and linked");
		f->entries += all[i].entries;
		if (all[i].entries) f->parent = all[i].parent;
		if (!all[i].has_record) continue;
		f->has_record = true;
		f->size = all[i].size;
		f->links = all[i].links;
		f->type = all[i].type;
		f->form = all[i].form;
	}
	p->all.size = kept * sizeof(found);
}

static void judge_inode(pass *p, const found *f)
{
	const found *parent = find(p, f->parent);
	if (!f->has_record) complain_ino(p, f->ino, "is named by an entry but has no record");
	if (f->entries == 0) complain_ino(p, f->ino, "has a record but no entry");
	if (f->has_record && f->entries && f->entries != f->links)
		complain_ino(p, f->ino, "has another number of links than its record says");
	if (f->ino != INO_ROOT && f->entries && (!parent || parent->type != CB_DIR))
		complain_ino(p, f->ino, "lies in something that is no folder");
	if (f->type == CB_DIR && f->entries > 1) complain_ino(p, f->ino, "is a folder with several names");
	if (f->type == CB_DIR && (f->size || f->form != DATA_NONE)) complain_ino(p, f->ino, "is a folder with data");
}

/* Does every folder lie below the root? Iterative: follow parents until something known is met, then mark the way. */
static void judge_cycles(pass *p)
{
	found *all = (found *)(void *)p->all.bytes;
	size_t n = p->all.size / sizeof(found);
	for (size_t i = 0; i < n; i++) {
		found *at = &all[i];
		while (at && at->ino != INO_ROOT && at->mark == 0) {
			at->mark = 1;
			at = find(p, at->parent);
		}
		if (at && at->mark == 1 && at->ino != INO_ROOT) complain_ino(p, at->ino, "lies in a cycle of folders");
		for (at = &all[i]; at && at->mark == 1; at = find(p, at->parent)) at->mark = 2;
	}
}

static void judge_counters(pass *p)
{
	const found *all = (const found *)(const void *)p->all.bytes;
	size_t n = p->all.size / sizeof(found);
	counters real = {0};
	uint64_t entries = 0;
	for (size_t i = 0; i < n; i++) {
		entries += all[i].entries;
		if (all[i].ino == INO_ROOT) continue;
		real.files++;
		real.bytes += all[i].size;
	}
	if (!find(p, INO_ROOT)) say(p->c, "there is no root folder");
	else if (entries - 1 != p->names) say(p->c, "%" PRIu64 " entries have %" PRIu64 " name keys", entries - 1, p->names);
	if (!p->has_counters || real.files != p->stored.files || real.bytes != p->stored.bytes)
		say(p->c, "the counters say %" PRIu64 " files and %" PRIu64 " bytes, there are %" PRIu64 " and %" PRIu64,
		    p->stored.files, p->stored.bytes, real.files, real.bytes);
}

static void judge_extent(pass *p, const key_parts *k, span value)
{
	const found *f = find(p, k->ino);
	extent x;
	if (extent_decode(value, k->offset, &x, NULL) != CB_OK) {
		complain_ino(p, k->ino, "has a malformed extent");
		return;
	}
	if (!f || f->form != DATA_EXTENTS) {
		complain_ino(p, k->ino, "has extents but its record does not say so");
		return;
	}
	if (k->offset + x.length > f->size) complain_ino(p, k->ino, "has an extent past its end");
	if (p->extent_ino == k->ino && k->offset < p->extent_end) complain_ino(p, k->ino, "has extents that overlap");
	p->extent_ino = k->ino;
	p->extent_end = k->offset + x.length;
}

static uint64_t value_owner(const key_parts *k, span value)
{
	entry e;
	if (k->kind == KIND_KV || k->kind == KIND_COUNTERS) return 0;
	if (k->kind == KIND_ENTRY) return entry_decode(value, &e, NULL) == CB_OK ? e.rec.ino : 0;
	return k->ino;
}

static cb_code see_second(pass *p, span key_bytes, span value, cb_error *err)
{
	key_parts k;
	if (key_parse(key_bytes, &k, NULL) != CB_OK) return CB_OK;
	if (k.kind == KIND_EXTENT) judge_extent(p, &k, value);
	bool owned = k.kind == KIND_EXTENT || k.kind == KIND_ATTR || k.kind == KIND_TAG || k.kind == KIND_NAME;
	if (owned && !find(p, k.ino)) complain_ino(p, k.ino, "does not exist but has keys");
	content_check check = {p, value_owner(&k, value)};
	cb_error why = {0};
	cb_code code = record_contents(key_bytes, value, check_content, &check, &why);
	if (code != CB_OK && !is_damage(code)) return cb_err_set(err, code, "%s", why.message);
	if (code != CB_OK) complain_ino(p, check.ino, why.message);
	return CB_OK;
}

typedef cb_code (*see)(pass *p, span key_bytes, span value, cb_error *err);

static cb_code each_key(pass *p, see visit, cb_error *err)
{
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open(&p->v, (span){0}, &c, err));
	span k, value;
	while (tree_cursor_get(c, &k, &value)) {
		CB_TRY(visit(p, k, value, err));
		CB_TRY(tree_cursor_next(c, err));
	}
	return CB_OK;
}

static cb_code fsck_state(checking *c, const state *s, cb_error *err)
{
	pass p = {.c = c, .v = state_view(c->cs, s), .all = BUF_INIT(SIZE_MAX)};
	cb_code code = each_key(&p, see_first, err);
	if (code == CB_OK) {
		join_rows(&p);
		const found *all = (const found *)(const void *)p.all.bytes;
		for (size_t i = 0; i < p.all.size / sizeof(found); i++) judge_inode(&p, &all[i]);
		judge_cycles(&p);
		judge_counters(&p);
		code = each_key(&p, see_second, err);
	}
	buf_done(&p.all);
	return code;
}

/* ---- boxes ---- */

static cb_code complain_if(checking *c, cb_code code, const cb_error *why, const char *what, cb_error *err)
{
	if (code == CB_OK) return CB_OK;
	if (!is_damage(code)) return cb_err_set(err, code, "%s", why->message);
	say(c, "%s cannot be read: %s", what, why->message);
	return CB_OK;
}

static cb_code check_state_at(checking *c, uint64_t box, uint64_t seq, cb_error *err)
{
	AUTO_KEPT kept_state s = {0};
	cb_error why = {0};
	c->seq = seq;
	cb_code code = kept_load(&s, c->cs, box, seq, KEPT_VISIT, &why);
	if (code == CB_OK) code = fsck_state(c, s.s, &why);
	return complain_if(c, code, &why, "the state", err);
}

static cb_code decode_only(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)context;
	(void)old_value;
	(void)new_value;
	key_parts k;
	return key_parse(key_bytes, &k, err);
}

typedef struct step_list {
	checking *c;
	uint64_t next; /* the step that comes next if none was pruned */
	buf roots;     /* root, seq pairs */
} step_list;

static cb_code check_step(void *context, const store_step *step, cb_error *err)
{
	step_list *l = context;
	cb_error why = {0};
	l->c->seq = step->seq;
	if (step->seq != l->next && !step->gap) say(l->c, "the step before it is missing, and was not pruned");
	l->next = step->seq + 1;
	if (step->has_changes && tree_changes_decode(step->changes, decode_only, NULL, &why) != CB_OK)
		say(l->c, "its changes are damaged: %s", why.message);
	uint64_t pair[2] = {step->root, step->seq};
	return step->has_root && step->root ? buf_append(&l->roots, pair, sizeof(pair), err) : CB_OK;
}

static cb_code check_steps(checking *c, const store_box *row, cb_error *err)
{
	step_list l = {c, 0, BUF_INIT(SIZE_MAX)};
	cb_code code = store_step_walk(c->cs->s, row->id, 0, INT64_MAX, true, check_step, &l, err);
	const uint64_t *pairs = (const uint64_t *)(const void *)l.roots.bytes;
	for (size_t i = 0; code == CB_OK && i < l.roots.size / (2 * sizeof(uint64_t)); i++) {
		cb_error why = {0};
		c->seq = pairs[2 * i + 1];
		code = tree_check(&c->cs->nodes, pairs[2 * i], &why);
		code = complain_if(c, code, &why, "the tree", err);
	}
	buf_done(&l.roots);
	return code;
}

static cb_code collect_checkpoint(void *context, const store_checkpoint *p, cb_error *err)
{
	return buf_append(context, &p->seq, sizeof(uint64_t), err);
}

static cb_code check_box(checking *c, const store_box *row, cb_error *err)
{
	AUTO_BUF buf seqs = BUF_INIT(SIZE_MAX);
	cb_error why = {0};
	store *s = c->cs->s;
	c->box = row->name;
	c->seq = row->head.seq;
	CB_TRY(complain_if(c, check_steps(c, row, &why), &why, "the history", err));
	CB_TRY(complain_if(c, store_checkpoint_list(s, row->id, collect_checkpoint, &seqs, &why), &why, "a checkpoint", err));
	if (row->deleted) return CB_OK;
	CB_TRY(check_state_at(c, row->id, row->head.seq, err));
	const uint64_t *all = (const uint64_t *)(const void *)seqs.bytes;
	for (size_t i = 0; i < seqs.size / sizeof(uint64_t); i++)
		if (all[i] != row->head.seq && (i == 0 || all[i] != all[i - 1])) CB_TRY(check_state_at(c, row->id, all[i], err));
	return CB_OK;
}

static cb_code check_all(cb_store *cs, cb_complain complain, void *context, uint64_t *out_count, cb_error *err)
{
	checking c = {.cs = cs, .complain = complain, .context = context, .lines = BUF_INIT(16 << 20)};
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	cb_error why = {0};
	cb_code code = store_check(cs->s, relay, &c, err);
	tell(&c);
	if (code == CB_OK)
		code = complain_if(&c, store_box_list(cs->s, true, store_box_collect, &rows, &why), &why, "the list of boxes", err);
	const store_box *all = (const store_box *)(const void *)rows.bytes;
	for (size_t i = 0; code == CB_OK && i < rows.size / sizeof(store_box); i++) {
		code = check_box(&c, &all[i], err);
		tell(&c);
	}
	tell(&c);
	id_set_done(&c.sound);
	id_set_done(&c.damaged);
	buf_done(&c.lines);
	*out_count = c.count;
	return code;
}

/* What a prune or gc removes while it is looked at is missing, and no damage. */
static cb_code wait_for_rest(cb_store *cs, int *out_fd, cb_error *err)
{
	enum { PAUSE_MS = 20, TRIES = LIMIT_UPKEEP_WAIT_MS / PAUSE_MS };
	cb_error why;
	cb_code code = CB_BUSY;
	for (unsigned i = 0; i < TRIES && (code = store_still_begin(cs->s, out_fd, cb_err_aside(&why))) == CB_BUSY; i++)
		CB_TRY(cancel_sleep(PAUSE_MS, "for a gc, prune, vacuum, backup or check to end", err));
	if (code != CB_BUSY) return cb_err_pass(err, code, &why);
	return cb_err_set(
		err, code,
		"something is missing, and whether that is damage cannot be told while a gc, prune, vacuum, backup or another "
		"check of this store runs: check again when it has ended");
}

cb_code cb_store_check(cb_store *cs, cb_complain complain, void *context, uint64_t *out_complaints, cb_error *err)
{
	NEED(err, "store", cs);
	STORE_STAYS(cs);
	CB_TRY(gate_whole(cs, NULL, "a check", err)); /* complaints name paths */
	uint64_t count = 0;
	cb_code code = check_all(cs, NULL, NULL, &count, err);
	if (code == CB_OK && count > 0) { /* only what is also found while nothing is removed */
		int still = -1;
		CB_TRY(wait_for_rest(cs, &still, err));
		code = check_all(cs, complain, context, &count, err);
		store_still_end(cs->s, still);
	}
	if (code == CB_OK && out_complaints) *out_complaints = count;
	return code;
}
