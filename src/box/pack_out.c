/*
 * pack_out.c: a box, or one state of it, as records.
 *
 * With history: the state after step 0 as keys of an empty map, then each step's changes: new values and deletions only, for the old
 * values follow from the state before. A step whose predecessor was pruned is led up to by the difference between the last kept state and
 * the one before it. Contents come before the first keys that name them, each once.
 *
 * In memory: one record, and tables of the inodes and contents already named (about 32 bytes each) and of the steps (24).
 */
#include "box/gate.h"
#include "box/pack_parts.h"

#include <stdio.h>

typedef struct step_note {
	uint64_t seq, state;
	bool changed;  /* something */
	bool has_list; /* its changes can be told without its predecessor */
} step_note;

typedef struct packing {
	const cb_box *b;
	cb_store *cs;
	const pack_sink *sink;
	cb_progress *progress; /* the sink's */
	cb_pack_info *info;    /* likewise */
	uint64_t records;      /* put so far */
	store_box row;
	char name[CB_NAME_MAX + 1]; /* of the box (box_called) */
	state *head;
	bool history;
	buf steps;       /* step_note, upwards */
	buf checkpoints; /* store_checkpoint: those of these steps */
	number_map inos, contents;
	uint64_t content_count;
	pmap keys; /* of the record under way */
	pack_type keys_type;
	bool interrupted; /* a walk over changes takes that code for its own end */
} packing;

static cb_code put(packing *p, pack_type type, span head, span body, cb_error *err)
{
	CB_TRY(p->sink->put(p->sink->context, type, head, body, err));
	p->records++;
	return CB_OK;
}

static cb_code tell(packing *p, cb_error *err)
{
	return p->sink->tell(p->sink->context, err);
}

/* ---- numbers ---- */

static cb_code pack_ino(void *context, uint64_t *ino, cb_error *err)
{
	packing *p = context;
	bool fresh;
	if (*ino < PACK_INO_FIRST) return CB_OK;
	return number_map_add(&p->inos, *ino, PACK_INO_FIRST + p->inos.count, ino, &fresh, err);
}

/* The step whose state it is; for one that was pruned, the gap it lies in; for what is older than the pack, step 0. */
static cb_code pack_file_version(void *context, uint64_t *version, cb_error *err)
{
	const packing *p = context;
	const step_note *all = (const step_note *)(const void *)p->steps.bytes;
	size_t low = 0, high = p->steps.size / sizeof(step_note);
	while (low < high) { /* the first step whose state is not before it */
		size_t mid = (low + high) / 2;
		if (all[mid].state < *version) low = mid + 1;
		else high = mid;
	}
	if (low == p->steps.size / sizeof(step_note))
		return cb_err_set(err, CB_CORRUPT, "a file has a version from the future: run fsck");
	/* A record after a gap has the state of a pruned step. */
	bool exact = all[low].state == *version && all[low].changed, gap = low > 0 && all[low - 1].seq + 1 != all[low].seq;
	if (low == 0) *version = 0;
	else if (exact || gap) *version = pack_version(all[low].seq, !exact);
	/* No state has it: the step was moved onto later ones (rebase.c), of which none changed this file. */
	else if (all[low].state != *version) *version = pack_version(all[low].seq, false);
	else *version = pack_version(all[low - 1].seq, false);
	return CB_OK;
}

static cb_code write_content(packing *p, uint64_t content, bool joined, cb_error *err)
{
	blob *bytes = NULL;
	CB_TRY(store_content_get(p->cs->s, content, &bytes, err));
	uint8_t flags = joined ? PACK_CONTENT_JOINED : 0;
	cb_code code = put(p, PACK_CONTENT, span_make(&flags, 1), span_make(bytes->bytes, bytes->size), err);
	p->progress->bytes += bytes->size;
	blob_unref(bytes);
	p->content_count++;
	return code == CB_OK ? tell(p, err) : code;
}

static cb_code pack_content(void *context, uint64_t *content, uint64_t bytes, bool value, cb_error *err)
{
	packing *p = context;
	uint64_t count = value ? value_content_count(bytes) : 1, first = *content;
	/* Several contents of one value have numbers that follow each other, also in the pack: they are known by the first of them. */
	uint64_t known = count > 1 ? first | CONTENT_LOCAL : first;
	bool fresh;
	CB_TRY(number_map_add(&p->contents, known, p->content_count + 1, content, &fresh, err));
	for (uint64_t i = 0; fresh && i < count; i++) CB_TRY(write_content(p, first + i, i + 1 < count, err));
	return CB_OK;
}

/* ---- keys ---- */

static cb_code write_keys(packing *p, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(LIMIT_PACK_RECORD_BYTES - 8);
	static const span deleted = {(const uint8_t *)"", 0};
	pmap_cursor c;
	span k, value, previous = {0};
	bool tombstone;
	for (pmap_seek(&c, &p->keys, (span){0}); pmap_cursor_get(&c, &k, &value, &tombstone); pmap_cursor_next(&c)) {
		CB_TRY(tree_changes_append(&list, previous, k, tombstone ? deleted : (span){0}, tombstone ? (span){0} : value,
		                           err));
		previous = k;
	}
	uint8_t head[8];
	put_le64(head, PACK_INO_FIRST + p->inos.count);
	if (list.size) CB_TRY(put(p, p->keys_type, span_make(head, sizeof(head)), buf_span(&list), err));
	pmap_done(&p->keys);
	return CB_OK;
}

static cb_code add_key(packing *p, span key_bytes, span value, cb_error *err)
{
	const renumber r = {pack_ino, pack_file_version, pack_content, p};
	key k;
	tree_value v;
	CB_TRY(renumber_key(&r, key_bytes, &k, err));
	if (!value.bytes) {
		CB_TRY(pmap_put_tombstone(&p->keys, key_span(&k), err));
	} else {
		CB_TRY(renumber_value(&r, key_bytes, value, &v, err));
		CB_TRY(pmap_put(&p->keys, key_span(&k), span_make(v.bytes, v.size), err));
		if (key_bytes.bytes[0] == KIND_ENTRY) p->progress->files++;
	}
	return pmap_count(&p->keys) >= PACK_LIST_KEYS ? write_keys(p, err) : CB_OK;
}

static cb_code add_change(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)old_value;
	packing *p = context;
	cb_code code = add_key(p, key_bytes, new_value, err);
	p->interrupted = code == CB_INTERRUPTED;
	return code;
}

static cb_code changes_end(packing *p, cb_error *err)
{
	return p->interrupted ? CB_INTERRUPTED : write_keys(p, err); /* *err is filled */
}

static cb_code add_state(packing *p, const state *s, cb_error *err)
{
	tree_view v = state_view(p->cs, s);
	AUTO_CURSOR tree_cursor *c = NULL;
	CB_TRY(tree_cursor_open(&v, (span){0}, &c, err));
	span k, value;
	while (tree_cursor_get(c, &k, &value)) {
		CB_TRY(add_key(p, k, value, err));
		CB_TRY(tree_cursor_next(c, err));
	}
	return write_keys(p, err);
}

/* ---- records ---- */

static void put_u64(uint8_t **at, uint64_t value)
{
	put_le64(*at, value);
	*at += 8;
}

static cb_code write_header(packing *p, cb_error *err)
{
	AUTO_BUF buf head = BUF_INIT(256);
	uint8_t *at;
	uint64_t every = 0;
	size_t size = strlen(p->name);
	CB_TRY(box_checkpoint_every(p->cs, p->row.id, &every, err));
	CB_TRY(buf_append_byte(&head, p->history ? PACK_HAS_HISTORY : 0, err));
	CB_TRY(buf_extend(&head, (size_t)11 * 8, &at, err));
	put_u64(&at, (uint64_t)p->row.created_ns);
	put_u64(&at, p->row.quota_bytes);
	put_u64(&at, p->row.quota_files);
	put_u64(&at, p->row.quota_file_bytes);
	put_u64(&at, p->row.keep_steps);
	put_u64(&at, (uint64_t)p->row.keep_ns);
	put_u64(&at, every);
	put_u64(&at, p->head->seq);
	put_u64(&at, p->info->steps);
	put_u64(&at, p->info->files);
	put_u64(&at, p->info->bytes);
	return put(p, PACK_HEADER, buf_span(&head), span_make(p->name, size), err);
}

static cb_code put_text(buf *out, span text, cb_error *err)
{
	CB_TRY(buf_append_varint(out, text.size, err));
	return buf_append(out, text.bytes, text.size, err);
}

typedef struct step_fields {
	uint64_t seq;
	const char *kind, *who;
	span params, result;
	int64_t started_ns, ended_ns;
	uint64_t target, other_box, other_seq;
	bool unknown;
} step_fields;

static cb_code write_step(packing *p, const step_fields *f, cb_error *err)
{
	AUTO_BUF buf head = BUF_INIT(LIMIT_PACK_RECORD_BYTES);
	uint8_t *at;
	char other[CB_NAME_MAX + 1];
	step_other_name(p->cs, p->row.id, f->other_box, other);
	bool self = f->other_box == p->row.id || f->other_box == FOREIGN_BOX;
	uint8_t sort = self ? PACK_OTHER_SELF : other[0] ? PACK_OTHER_NAMED : PACK_OTHER_NONE;
	CB_TRY(buf_append_byte(&head, f->unknown ? PACK_STEP_UNKNOWN : 0, err));
	CB_TRY(buf_append_byte(&head, sort, err));
	CB_TRY(buf_extend(&head, (size_t)5 * 8, &at, err));
	put_u64(&at, f->seq);
	put_u64(&at, (uint64_t)f->started_ns);
	put_u64(&at, (uint64_t)f->ended_ns);
	put_u64(&at, f->target);
	put_u64(&at, f->other_seq);
	if (sort == PACK_OTHER_NAMED) CB_TRY(put_text(&head, span_str(other), err));
	CB_TRY(put_text(&head, span_str(f->kind), err));
	CB_TRY(put_text(&head, span_str(f->who), err));
	CB_TRY(put_text(&head, f->params, err));
	CB_TRY(put_text(&head, f->result, err));
	return put(p, PACK_STEP, buf_span(&head), (span){0}, err);
}

/* ---- steps ---- */

static cb_code note_step(void *context, const store_step *step, cb_error *err)
{
	step_note n = {step->seq, step->state, step->weight > 0, step->weight == 0 || step->has_changes};
	return buf_append(context, &n, sizeof(n), err);
}

/* From the last kept state to the one before the step, whose own changes follow. */
static cb_code add_gap(packing *p, const step_note *before, const step_note *n, cb_error *err)
{
	AUTO_KEPT kept_state last = {0};
	AUTO_KEPT kept_state after = {0};
	AUTO_STATE state *earlier = NULL;
	CB_TRY(kept_load(&last, p->cs, p->row.id, before->seq, KEPT_PACK, err));
	CB_TRY(kept_load(&after, p->cs, p->row.id, n->seq, KEPT_PACK, err));
	if (n->has_list) CB_TRY(state_before_gap(p->cs, after.s, &earlier, err));
	tree_view a = state_view(p->cs, last.s), b = state_view(p->cs, n->has_list ? earlier : after.s);
	p->keys_type = PACK_GAP_KEYS;
	CB_TRY(tree_diff(&a, &b, add_change, p, err));
	return changes_end(p, err);
}

static cb_code add_step(packing *p, size_t index, cb_error *err)
{
	const step_note *all = (const step_note *)(const void *)p->steps.bytes, *n = &all[index];
	bool gap = index > 0 && all[index - 1].seq + 1 != n->seq;
	AUTO_STEP_ROW step_row r = {0};
	CB_TRY(step_row_load(p->cs, p->row.id, n->seq, false, &r, err));
	step_fields f = {.seq = n->seq,
	                 .kind = r.kind,
	                 .who = r.who,
	                 .params = span_make(r.params, r.params_size),
	                 .result = span_make(r.result, r.result_size),
	                 .started_ns = r.row.started_ns,
	                 .ended_ns = r.row.ended_ns,
	                 .target = r.row.target,
	                 .other_box = r.row.other_box,
	                 .other_seq = r.row.other_seq,
	                 .unknown = gap && !n->has_list};
	CB_TRY(write_step(p, &f, err));
	if (gap) CB_TRY(add_gap(p, &all[index - 1], n, err));
	p->keys_type = PACK_KEYS;
	if (index == 0) {
		AUTO_KEPT kept_state first = {0};
		CB_TRY(kept_load(&first, p->cs, p->row.id, n->seq, KEPT_PACK, err));
		return add_state(p, first.s, err);
	}
	if (f.unknown || !n->changed) return CB_OK;
	CB_TRY(step_changes(p->cs, p->row.id, n->seq, add_change, p, err));
	return changes_end(p, err);
}

static cb_code add_history(packing *p, cb_error *err)
{
	size_t count = p->steps.size / sizeof(step_note);
	const step_note *all = (const step_note *)(const void *)p->steps.bytes;
	if (count == 0 || all[0].seq != 0) return cb_err_set(err, CB_CORRUPT, "box '%s' has no step 0: run fsck", p->name);
	for (size_t i = 0; i < count; i++) {
		cb_code code = add_step(p, i, err);
		if (code == CB_STALE)
			return cb_err_set(err, CB_STALE, "box '%s' was pruned while it was packed: pack it again", p->name);
		if (code != CB_OK) return cb_err_wrap(err, code, "packing step %llu", (unsigned long long)all[i].seq);
		CB_TRY(tell(p, err));
	}
	return CB_OK;
}

/* One state: everything in it dates from the one step of the pack. */
static cb_code add_only_state(packing *p, cb_error *err)
{
	step_note n = {0, p->head->id, true, true};
	char params[CB_NAME_MAX + 32];
	(void)snprintf(params, sizeof(params), "%s@%llu", p->name, (unsigned long long)p->head->seq);
	int64_t now = clock_now(store_clock(p->cs->s));
	step_fields f = {.kind = "unpack", .who = "", .params = span_str(params), .started_ns = now, .ended_ns = now};
	CB_TRY(buf_append(&p->steps, &n, sizeof(n), err));
	CB_TRY(write_step(p, &f, err));
	p->keys_type = PACK_KEYS;
	return add_state(p, p->head, err);
}

/* ---- what lies beside the states ---- */

static cb_code note_checkpoint(void *context, const store_checkpoint *c, cb_error *err)
{
	packing *p = context;
	return c->seq <= p->head->seq ? buf_append(&p->checkpoints, c, sizeof(*c), err) : CB_OK;
}

/* The name of an automatic one follows from its step. One that had to take another name goes with it, as if somebody had named it. */
static bool is_automatic(const store_checkpoint *c)
{
	char name[CB_NAME_MAX + 1];
	box_checkpoint_auto_name(c->seq, name);
	return c->automatic && strcmp(c->name, name) == 0;
}

static cb_code add_checkpoints(packing *p, cb_error *err)
{
	const store_checkpoint *all = (const store_checkpoint *)(const void *)p->checkpoints.bytes;
	for (size_t i = 0; i < p->checkpoints.size / sizeof(store_checkpoint); i++) {
		uint8_t head[16];
		put_le64(head, all[i].seq);
		put_le64(head + 8, (uint64_t)all[i].created_ns);
		bool automatic = is_automatic(&all[i]);
		CB_TRY(put(p, automatic ? PACK_AUTOMATIC : PACK_CHECKPOINT, span_make(head, sizeof(head)),
		           automatic ? (span){0} : span_str(all[i].name), err));
		p->info->checkpoints++;
	}
	return CB_OK;
}

/* The library's own settings speak of this store and its other boxes: they stay here. */
static cb_code note_setting(void *context, const char *name, const char *value, cb_error *err)
{
	if (strncmp(name, "cowbox.", 7) == 0) return CB_OK;
	CB_TRY(put_text(context, span_str(name), err));
	return put_text(context, span_str(value), err);
}

static cb_code add_settings(packing *p, cb_error *err)
{
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	CB_TRY(store_setting_list(p->cs->s, p->row.id, note_setting, &list, err));
	reader in = reader_make(buf_span(&list));
	while (!reader_at_end(&in)) {
		AUTO_BUF buf head = BUF_INIT(LIMIT_PACK_RECORD_BYTES);
		span name = reader_span(&in, (size_t)reader_varint(&in)), value = reader_span(&in, (size_t)reader_varint(&in));
		CB_TRY(put_text(&head, name, err));
		cb_code code = put(p, PACK_SETTING, buf_span(&head), value, err);
		if (code != CB_OK)
			return cb_err_wrap(err, code, "packing setting '%.*s'", (int)name.size, (const char *)name.bytes);
	}
	return CB_OK;
}

static cb_code add_end(packing *p, cb_error *err)
{
	uint8_t end[32];
	put_le64(end, p->records);
	put_le64(end + 8, p->info->steps);
	put_le64(end + 16, p->content_count);
	put_le64(end + 24, p->info->checkpoints);
	return put(p, PACK_END, span_make(end, sizeof(end)), (span){0}, err);
}

/* ---- the whole ---- */

static cb_code learn(packing *p, cb_error *err)
{
	tree_view v = state_view(p->cs, p->head);
	key k = key_counters();
	tree_value value;
	counters c = {0};
	CB_TRY(store_box_get(p->cs->s, p->row.id, &p->row, err));
	(void)snprintf(p->name, sizeof(p->name), "%s", box_called(p->b, &p->row));
	if (p->history) CB_TRY(store_step_walk(p->cs->s, p->row.id, 0, p->head->seq, false, note_step, &p->steps, err));
	const step_note *first = (const step_note *)(const void *)p->steps.bytes;
	/* A state that is in use is all that gc leaves of a box. */
	if (p->history && p->row.deleted && (!p->steps.size || first->seq != 0))
		return cb_err_set(err, CB_STALE, "box '%s' was deleted and its history is gone: pack the state alone (no_history)",
		                  p->name);
	if (p->history) CB_TRY(store_checkpoint_list(p->cs->s, p->row.id, note_checkpoint, p, err));
	cb_code code = tree_get(&v, key_span(&k), &value, err);
	if (code == CB_OK) code = counters_decode(span_make(value.bytes, value.size), &c, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	p->info->files = c.files;
	p->info->bytes = c.bytes;
	p->info->history = p->history;
	p->info->steps = p->history ? p->steps.size / sizeof(step_note) : 1;
	memcpy(p->info->name, p->name, sizeof(p->info->name));
	p->progress->path = p->info->name;
	if (!p->history) p->progress->total_files = c.files + 1;
	if (!p->history) p->progress->total_bytes = c.bytes;
	return CB_OK;
}

/* The checkpoints were read before the first record is written: one that is saved meanwhile cannot change what was said of them. */
static uint32_t format_needed(const packing *p)
{
	const store_checkpoint *all = (const store_checkpoint *)(const void *)p->checkpoints.bytes;
	for (size_t i = 0; i < p->checkpoints.size / sizeof(store_checkpoint); i++)
		if (is_automatic(&all[i])) return PACK_FORMAT_AUTOMATIC;
	return PACK_FORMAT_FIRST;
}

static cb_code pack_all(packing *p, cb_error *err)
{
	CB_TRY(learn(p, err));
	CB_TRY(p->sink->begin(p->sink->context, format_needed(p), err));
	CB_TRY(write_header(p, err));
	CB_TRY(p->history ? add_history(p, err) : add_only_state(p, err));
	if (p->history) CB_TRY(add_checkpoints(p, err));
	CB_TRY(add_settings(p, err));
	return add_end(p, err);
}

cb_code pack_out(cb_box *b, bool history, const pack_sink *sink, cb_error *err)
{
	packing p = {.b = b, .cs = b->cs, .sink = sink, .progress = sink->progress, .info = sink->info, .history = history};
	AUTO_KEPT kept_state all = {0}; /* no step goes while the history is written */
	p.steps = p.checkpoints = BUF_INIT(SIZE_MAX);
	CB_TRY(box_enter(b, err));
	cb_code code = box_refuse_txn(b, "a pack", err);
	if (code == CB_OK) code = gate_whole(b->cs, b, "a pack", err);
	if (code == CB_OK) code = box_flush(b, false, err);
	if (code == CB_OK) {
		p.row = b->row;
		p.head = state_ref(b->head);
		code = kept_history(&all, b->cs, b->head, KEPT_PACK, err);
		if (code == CB_OK) code = pack_all(&p, err);
	}
	state_unref(p.head);
	pmap_done(&p.keys);
	buf_done(&p.steps);
	buf_done(&p.checkpoints);
	number_map_done(&p.inos);
	number_map_done(&p.contents);
	return box_leave(b, code);
}
