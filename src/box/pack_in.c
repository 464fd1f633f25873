/*
 * pack_in.c: a box from records that anybody may have written.
 *
 * Records are read into a batch without any lock, so that a slow sender keeps nobody waiting; a batch is then written, with a breath for
 * others wherever it may be parted. Every key and value is decoded and its numbers are replaced here; whether they fit together is checked
 * after each step by graft_check.c. The box is hidden until the end record was read and agrees; whatever goes wrong before, nothing is left
 * to see, and what was written belongs to nobody: the next gc takes it.
 *
 * In memory: one batch (the values of one key may lie in 64 contents that must be written together: then up to 64 MiB more), the keys of a
 * step (at most 4,096, then they are spilled), and tables of contents (16 bytes each) and steps (24).
 */
#include "box/gate.h"
#include "box/pack_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	INO_BLOCK = 4096,         /* inode numbers taken at once */
	SETTING_NAMES_MAX = 4096, /* other boxes named by steps */
};

typedef struct content_note {
	uint64_t number;
	uint64_t size;
} content_note;

typedef struct step_state {
	uint64_t seq, state, before;
} step_state;

/* The order of the records: a header, steps with their keys and contents, what lies beside them, the end. */
typedef enum stage { AT_START, AT_STEPS, AT_EXTRAS, AT_END } stage;

typedef struct unpacking {
	cb_store *cs;
	const pack_source *source;
	cb_progress *progress; /* the source's */
	cb_pack_info *info;    /* likewise */
	uint32_t format;
	graft g;
	const char *name; /* NULL: the pack's */
	stage at;
	store_box row; /* quotas and retention */
	uint64_t last_seq;
	uint64_t records; /* written, the end record not counted */
	bool in_gap;      /* the step's keys so far happened in the gap */
	bool unknown;     /* the step's own keys are among them */
	bool joined;      /* the last content goes on in the next */

	buf step;          /* the step record under way */
	buf contents;      /* content_note */
	buf states;        /* step_state */
	buf inos;          /* uint64_t: the first of each block of inode numbers */
	uint64_t ino_next; /* the next number that the pack has not used yet */
	buf others;        /* names of other boxes, CB_NAME_MAX + 1 bytes each */
} unpacking;

static cb_code bad(cb_error *err, const char *what)
{
	return cb_err_set(err, CB_CORRUPT, "the pack is not sound: %s", what);
}

/* ---- numbers ---- */

static cb_code unpack_ino(void *context, uint64_t *ino, cb_error *err)
{
	const unpacking *u = context;
	if (*ino == 0 || *ino >= u->ino_next) return bad(err, "an inode with a strange number");
	if (*ino < PACK_INO_FIRST) return CB_OK;
	uint64_t index = *ino - PACK_INO_FIRST, first;
	memcpy(&first, u->inos.bytes + index / INO_BLOCK * sizeof(first), sizeof(first));
	*ino = first + index % INO_BLOCK;
	return CB_OK;
}

/* Each record of keys says how far the numbers go; its keys cannot bring more of them than they have bytes. */
static cb_code inos_reach(unpacking *u, uint64_t next, uint64_t most, cb_error *err)
{
	if (next < u->ino_next || next - u->ino_next > most) return bad(err, "an inode with a strange number");
	u->ino_next = next;
	while (PACK_INO_FIRST + u->inos.size / sizeof(uint64_t) * INO_BLOCK < next) {
		uint64_t first;
		CB_TRY(store_take(u->cs->s, STORE_NEXT_INO, INO_BLOCK, &first, err));
		CB_TRY(buf_append(&u->inos, &first, sizeof(first), err));
	}
	return CB_OK;
}

static int compare_seq(const void *a, const void *b)
{
	const step_state *x = a, *y = b;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static cb_code unpack_version(void *context, uint64_t *version, cb_error *err)
{
	const unpacking *u = context;
	const graft *g = &u->g;
	uint64_t newest = pack_version(g->step_seq, u->in_gap && !u->unknown);
	if (*version > newest) return bad(err, "a file has a version from the future");
	step_state want = {.seq = (*version + 1) / 2}, now = {g->step_seq, g->step_state, g->before_state};
	const step_state *found = want.seq == g->step_seq ? &now : NULL;
	if (!found && u->states.size)
		found = bsearch(&want, u->states.bytes, u->states.size / sizeof(step_state), sizeof(step_state), compare_seq);
	uint64_t mapped = !found ? 0 : *version % 2 ? found->before : found->state;
	if (!mapped) return bad(err, "a file has a version of a step that is not there");
	*version = mapped;
	return CB_OK;
}

static cb_code unpack_content(void *context, uint64_t *content, uint64_t bytes, bool value, cb_error *err)
{
	const unpacking *u = context;
	const content_note *all = (const content_note *)(const void *)u->contents.bytes;
	uint64_t have = u->contents.size / sizeof(content_note), first = *content, count = value ? value_content_count(bytes) : 1;
	if (first == 0 || first > have || count > have - first + 1) return bad(err, "a content that is not there");
	for (uint64_t i = 0; i < count; i++) {
		const content_note *c = &all[first - 1 + i];
		uint64_t left = bytes - i * LIMIT_CONTENT_BYTES;
		if (c->size < (value && left > LIMIT_CONTENT_BYTES ? LIMIT_CONTENT_BYTES : left))
			return bad(err, "a content is too short");
		if (c->number != all[first - 1].number + i) return bad(err, "the contents of a value do not follow each other");
	}
	*content = all[first - 1].number;
	return CB_OK;
}

/* ---- keys ---- */

static bool has_nul(span s)
{
	return s.size && memchr(s.bytes, 0, s.size) != NULL;
}

static cb_code check_names(const key_parts *k, bool deleted, cb_error *err)
{
	bool named = k->kind != KIND_INODE && k->kind != KIND_EXTENT && k->kind != KIND_COUNTERS;
	bool root = k->kind == KIND_ENTRY && k->ino == 0;
	if (!named || root) return CB_OK;
	if (k->name.size == 0 || has_nul(k->name)) return bad(err, "a name that cannot be");
	if (k->kind != KIND_ENTRY) return CB_OK;
	span n = k->name;
	bool dots = (n.size == 1 && n.bytes[0] == '.') || (n.size == 2 && n.bytes[0] == '.' && n.bytes[1] == '.');
	if (dots || memchr(n.bytes, '/', n.size)) return bad(err, "a file name that cannot be");
	if (!deleted && k->ino == INO_ROOT && gate_reserved(n)) return bad(err, "a name at the root that belongs to the system");
	return CB_OK;
}

static cb_code check_target(const unpacking *u, const record *r, cb_error *err)
{
	uint8_t target[LIMIT_SYMLINK_TARGET_BYTES];
	if (r->type != CB_SYMLINK) return CB_OK;
	if (r->size < 1 || r->size > sizeof(target)) return bad(err, "a symbolic link without a target");
	if (r->form == DATA_CONTENT) CB_TRY(store_content_read(u->cs->s, r->content, r->start, target, (size_t)r->size, err));
	else memcpy(target, r->bytes, r->form == DATA_INLINE ? (size_t)r->size : 0);
	bool sound = (r->form == DATA_CONTENT || r->form == DATA_INLINE) && !has_nul(span_make(target, (size_t)r->size));
	return sound ? CB_OK : bad(err, "a symbolic link without a target");
}

/* What the decoders leave open: limits of single values. The value has the store's numbers already. */
static cb_code check_value(const unpacking *u, const key_parts *k, span value, cb_error *err)
{
	entry e;
	value_ref v;
	if (k->kind == KIND_ENTRY || k->kind == KIND_INODE) {
		CB_TRY(k->kind == KIND_ENTRY ? entry_decode(value, &e, err) : record_decode(value, &e.rec, err));
		return k->kind == KIND_ENTRY && e.is_link ? CB_OK : check_target(u, &e.rec, err);
	}
	if (k->kind == KIND_ATTR || (k->kind == KIND_TAG && k->sort == 'm')) {
		CB_TRY(value_decode(value, &v, err));
		return v.size <= LIMIT_XATTR_VALUE_BYTES ? CB_OK : bad(err, "an attribute is too large");
	}
	return CB_OK;
}

static cb_code unpack_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	unpacking *u = context;
	const renumber r = {unpack_ino, unpack_version, unpack_content, u};
	key k;
	tree_value v;
	key_parts parts;
	if (old_value.bytes && (new_value.bytes || old_value.size)) return bad(err, "a key has an old value");
	CB_TRY(renumber_key(&r, key_bytes, &k, err));
	CB_TRY(key_parse(key_span(&k), &parts, err));
	CB_TRY(check_names(&parts, !new_value.bytes, err));
	if (!new_value.bytes) return graft_put(&u->g, key_span(&k), (span){0}, err);
	CB_TRY(renumber_value(&r, key_bytes, new_value, &v, err));
	CB_TRY(check_value(u, &parts, span_make(v.bytes, v.size), err));
	if (parts.kind == KIND_ENTRY) u->progress->files++;
	CB_TRY(graft_put(&u->g, key_span(&k), span_make(v.bytes, v.size), err));
	return graft_breathe(&u->g, err);
}

/* ---- steps ---- */

static span take_text(reader *in)
{
	uint64_t size = reader_varint(in);
	return size <= LIMIT_PACK_RECORD_BYTES ? reader_span(in, (size_t)size) : reader_span(in, SIZE_MAX);
}

typedef struct step_fields {
	uint8_t flags, other;
	uint64_t seq;
	graft_header h;
	span other_name, kind, who;
} step_fields;

static cb_code parse_step(span body, step_fields *out, cb_error *err)
{
	reader in = reader_make(body);
	*out = (step_fields){.flags = reader_byte(&in), .other = reader_byte(&in)};
	out->seq = reader_le64(&in);
	out->h.started_ns = (int64_t)reader_le64(&in);
	out->h.ended_ns = (int64_t)reader_le64(&in);
	out->h.target = reader_le64(&in);
	out->h.other_seq = reader_le64(&in);
	if (out->other == PACK_OTHER_NAMED) out->other_name = take_text(&in);
	out->kind = take_text(&in);
	out->who = take_text(&in);
	out->h.params = take_text(&in);
	out->h.result = take_text(&in);
	out->h.unknown = out->flags & PACK_STEP_UNKNOWN;
	bool sound = !in.bad && reader_at_end(&in) && out->flags <= PACK_STEP_UNKNOWN && out->other <= PACK_OTHER_NAMED &&
	             out->seq < UINT32_MAX && out->h.other_seq <= INT64_MAX && out->kind.size && !has_nul(out->kind) &&
	             !has_nul(out->who) && out->kind.size <= LIMIT_STEP_FIELD_BYTES && out->who.size <= LIMIT_NAME_BYTES &&
	             out->h.params.size <= LIMIT_STEP_FIELD_BYTES && out->h.result.size <= LIMIT_STEP_FIELD_BYTES;
	if (!sound) return bad(err, "a step is malformed");
	return out->h.target == 0 || out->h.target < out->seq ? CB_OK : bad(err, "a step takes back a later one");
}

/* The number that stands for another box: its name is kept as a setting of the new one. */
static cb_code other_number(unpacking *u, span name, uint64_t *out, cb_error *err)
{
	char text[CB_NAME_MAX + 1] = {0}, setting[64];
	size_t count = u->others.size / sizeof(text);
	if (name.size > CB_NAME_MAX) return bad(err, "a step names a strange box");
	memcpy(text, name.bytes, name.size);
	if (has_nul(name) || box_name_check(text, false, NULL) != CB_OK) return bad(err, "a step names a strange box");
	for (size_t i = 0; i < count; i++) {
		if (memcmp(u->others.bytes + i * sizeof(text), text, sizeof(text)) != 0) continue;
		*out = FOREIGN_BOX | (i + 1);
		return CB_OK;
	}
	if (count >= SETTING_NAMES_MAX) return bad(err, "its steps name too many other boxes");
	CB_TRY(buf_append(&u->others, text, sizeof(text), err));
	(void)snprintf(setting, sizeof(setting), FOREIGN_PREFIX "%zu", count + 1);
	*out = FOREIGN_BOX | (count + 1);
	return store_setting_set(u->cs->s, u->g.row.id, setting, text, err);
}

static cb_code text_copy(span text, char **out, cb_error *err)
{
	*out = mem_alloc(text.size + 1);
	if (!*out) return cb_err_nomem(err);
	memcpy(*out, text.bytes, text.size);
	(*out)[text.size] = 0;
	return CB_OK;
}

static cb_code cut_gap(unpacking *u, cb_error *err)
{
	if (!u->in_gap) return CB_OK;
	u->in_gap = false;
	return graft_cut(&u->g, err);
}

static cb_code end_step(unpacking *u, cb_error *err)
{
	if (!u->g.in_step) return CB_OK;
	AUTO_FREE char *kind = NULL;
	AUTO_FREE char *who = NULL;
	step_fields f;
	CB_TRY(cut_gap(u, err));
	CB_TRY(parse_step(buf_span(&u->step), &f, err));
	CB_TRY(text_copy(f.kind, &kind, err));
	CB_TRY(text_copy(f.who.bytes ? f.who : span_str(""), &who, err));
	f.h.kind = kind;
	f.h.who = who;
	if (f.other == PACK_OTHER_SELF) f.h.other_box = FOREIGN_BOX;
	if (f.other == PACK_OTHER_NAMED) CB_TRY(other_number(u, f.other_name, &f.h.other_box, err));
	uint64_t before = u->g.before_state;
	CB_TRY(graft_step_end(&u->g, &f.h, err));
	step_state s = {u->g.seq, u->g.state, before};
	u->info->steps++;
	return buf_append(&u->states, &s, sizeof(s), err);
}

static cb_code take_step(unpacking *u, span body, cb_error *err)
{
	step_fields f;
	CB_TRY(end_step(u, err));
	CB_TRY(parse_step(body, &f, err));
	CB_TRY(graft_step_begin(&u->g, f.seq, err));
	u->in_gap = u->g.gap;
	u->unknown = f.h.unknown;
	u->step.size = 0;
	return buf_append(&u->step, body.bytes, body.size, err);
}

/* ---- the other records ---- */

static cb_code take_header(unpacking *u, span body, cb_error *err)
{
	reader in = reader_make(body);
	uint8_t flags = reader_byte(&in);
	store_box *row = &u->row;
	row->created_ns = (int64_t)reader_le64(&in);
	row->quota_bytes = reader_le64(&in);
	row->quota_files = reader_le64(&in);
	row->quota_file_bytes = reader_le64(&in);
	row->keep_steps = reader_le64(&in);
	row->keep_ns = (int64_t)reader_le64(&in);
	if (row->keep_ns < 0) row->keep_ns = 0; /* older libraries took such, and would prune by it */
	uint64_t every = reader_le64(&in);
	u->last_seq = reader_le64(&in);
	(void)reader_le64(&in); /* steps: for whoever looks at a pack; the end record counts them */
	(void)reader_le64(&in); /* files and bytes: likewise */
	(void)reader_le64(&in);
	span name = reader_span(&in, (size_t)(in.end - in.at));
	char text[CB_NAME_MAX + 1] = {0};
	bool sound = !in.bad && flags <= PACK_HAS_HISTORY && name.size <= CB_NAME_MAX && !has_nul(name) && every <= UINT32_MAX;
	if (sound) memcpy(text, name.bytes, name.size);
	if (!sound || box_name_check(text, false, NULL) != CB_OK) return bad(err, "its header is malformed");
	u->info->history = flags & PACK_HAS_HISTORY;
	CB_TRY(graft_begin(&u->g, u->name ? u->name : text, row->created_ns, err));
	/* Its steps are not made by calls that ask. */
	if (gate_rules_for(u->cs, u->g.row.id, box_store_who(u->cs)))
		return cb_err_set(err, CB_DENIED, "unpacking takes everything, and rules lie in the box to be: ask who set them");
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)every);
	if (every) CB_TRY(store_setting_set(u->cs->s, u->g.row.id, BOX_EVERY_SETTING, text, err));
	memcpy(u->info->name, u->g.row.name, sizeof(u->info->name));
	u->progress->path = u->info->name;
	return CB_OK;
}

static cb_code take_content(unpacking *u, span body, cb_error *err)
{
	if (body.size < 2 || body.size - 1 > LIMIT_CONTENT_BYTES || body.bytes[0] > PACK_CONTENT_JOINED)
		return bad(err, "a content is malformed");
	content_note c = {.size = body.size - 1};
	CB_TRY(store_content_put(u->cs->s, span_make(body.bytes + 1, body.size - 1), &c.number, err));
	u->progress->bytes += c.size;
	return buf_append(&u->contents, &c, sizeof(c), err);
}

static cb_code take_keys(unpacking *u, span body, bool in_gap, cb_error *err)
{
	if (!u->g.in_step || (in_gap && !u->in_gap)) return bad(err, "keys where none may be");
	if (!in_gap) CB_TRY(cut_gap(u, err));
	if (body.size < 8) return bad(err, "a list of keys is malformed");
	CB_TRY(inos_reach(u, get_le64(body.bytes), body.size, err));
	return tree_changes_decode(span_make(body.bytes + 8, body.size - 8), unpack_key, u, err);
}

static cb_code take_checkpoint(unpacking *u, span body, bool automatic, cb_error *err)
{
	reader in = reader_make(body);
	store_checkpoint c = {.box = u->g.row.id, .automatic = automatic};
	c.seq = reader_le64(&in);
	c.created_ns = (int64_t)reader_le64(&in);
	span name = reader_span(&in, (size_t)(in.end - in.at));
	if (in.bad || name.size > (automatic ? 0 : CB_NAME_MAX) || has_nul(name)) return bad(err, "a checkpoint is malformed");
	if (automatic) box_checkpoint_auto_name(c.seq, c.name);
	else memcpy(c.name, name.bytes, name.size);
	step_state want = {.seq = c.seq};
	size_t count = u->states.size / sizeof(want);
	bool there = count && bsearch(&want, u->states.bytes, count, sizeof(want), compare_seq) != NULL;
	if (!there || box_name_check(c.name, true, NULL) != CB_OK) return bad(err, "a checkpoint is malformed");
	cb_code code = store_checkpoint_put(u->cs->s, &c, err);
	if (code == CB_EXISTS) return bad(err, "two checkpoints have one name");
	u->info->checkpoints++;
	return code;
}

static cb_code take_setting(unpacking *u, span body, cb_error *err)
{
	AUTO_FREE char *name = NULL;
	AUTO_FREE char *value = NULL;
	reader in = reader_make(body);
	span n = take_text(&in), v = reader_span(&in, (size_t)(in.end - in.at));
	if (in.bad || n.size == 0 || n.size > LIMIT_NAME_BYTES || has_nul(n) || has_nul(v))
		return bad(err, "a setting is malformed");
	CB_TRY(text_copy(n, &name, err));
	CB_TRY(text_copy(v.bytes ? v : span_str(""), &value, err));
	if (strncmp(name, "cowbox.", 7) == 0) return bad(err, "a setting that is the library's own");
	return store_setting_set(u->cs->s, u->g.row.id, name, value, err);
}

static cb_code take_end(unpacking *u, span body, cb_error *err)
{
	reader in = reader_make(body);
	uint64_t records = reader_le64(&in), steps = reader_le64(&in), contents = reader_le64(&in), checkpoints = reader_le64(&in);
	bool sound = !in.bad && reader_at_end(&in) && records == u->records && steps == u->info->steps &&
	             contents == u->contents.size / sizeof(content_note) && checkpoints == u->info->checkpoints && u->g.has_step &&
	             (u->info->history ? u->g.seq == u->last_seq : steps == 1);
	if (!sound) return bad(err, "its end does not agree with the rest");
	counters c;
	CB_TRY(graft_counters(&u->g, &c, err));
	u->info->files = c.files;
	u->info->bytes = c.bytes;
	return CB_OK;
}

/* Which records may follow, and what comes next. */
static cb_code advance(unpacking *u, uint8_t type, cb_error *err)
{
	stage next = AT_STEPS;
	if (type == PACK_CHECKPOINT || type == PACK_AUTOMATIC || type == PACK_SETTING) next = AT_EXTRAS;
	if (type == PACK_END) next = AT_END;
	bool fits = type == PACK_HEADER ? u->at == AT_START : u->at != AT_START && u->at != AT_END && next >= u->at;
	if (!fits || (u->joined && type != PACK_CONTENT)) return bad(err, "its records are out of order");
	if (next != AT_STEPS) CB_TRY(end_step(u, err));
	u->at = next;
	return CB_OK;
}

static cb_code take_record(unpacking *u, uint8_t type, span body, cb_error *err)
{
	CB_TRY(advance(u, type, err));
	u->records += type != PACK_END;
	u->joined = type == PACK_CONTENT && body.size && body.bytes[0] & PACK_CONTENT_JOINED;
	switch (type) {
	case PACK_HEADER:
		return take_header(u, body, err);
	case PACK_STEP:
		return take_step(u, body, err);
	case PACK_CONTENT:
		return take_content(u, body, err);
	case PACK_GAP_KEYS:
		return take_keys(u, body, true, err);
	case PACK_KEYS:
		return take_keys(u, body, false, err);
	case PACK_CHECKPOINT:
		return take_checkpoint(u, body, false, err);
	case PACK_AUTOMATIC:
		if (u->format < PACK_FORMAT_AUTOMATIC) return bad(err, "a record of an unknown kind");
		return take_checkpoint(u, body, true, err);
	case PACK_SETTING:
		return take_setting(u, body, err);
	case PACK_END:
		return take_end(u, body, err);
	default:
		return bad(err, "a record of an unknown kind");
	}
}

/* ---- batches ---- */

static span batch_record(span batch, size_t at, uint8_t *type)
{
	*type = batch.bytes[at];
	return span_make(batch.bytes + at + PACK_RECORD_HEADER_BYTES, get_le32(batch.bytes + at + 1));
}

/* Contents of one value are never parted: their numbers must follow each other. */
static cb_code read_batch(unpacking *u, buf *batch, bool *end, cb_error *err)
{
	unsigned run = 0;
	bool joined = false;
	for (batch->size = 0; !*end && (joined || batch->size < LIMIT_PACK_BATCH_BYTES);) {
		size_t at = batch->size;
		uint8_t type;
		CB_TRY(u->source->next(u->source->context, batch, err));
		assert(batch->size - at >= PACK_RECORD_HEADER_BYTES);
		span body = batch_record(buf_span(batch), at, &type);
		assert(batch->size - at == PACK_RECORD_HEADER_BYTES + body.size);
		joined = type == PACK_CONTENT && body.size && body.bytes[0] & PACK_CONTENT_JOINED;
		run = joined ? run + 1 : 0;
		if (run >= PACK_JOINED_MAX || body.size > LIMIT_PACK_RECORD_BYTES) return bad(err, "a value is too large");
		if (joined && body.size > 1 + LIMIT_CONTENT_BYTES) return bad(err, "a content is malformed");
		*end = type == PACK_END;
	}
	return *end ? u->source->end(u->source->context, err) : CB_OK;
}

static cb_code write_batch(unpacking *u, span batch, cb_error *err)
{
	for (size_t at = 0; at < batch.size;) {
		uint8_t type;
		span body = batch_record(batch, at, &type);
		CB_TRY(take_record(u, type, body, err));
		if (!u->joined) CB_TRY(graft_breathe(&u->g, err));
		at += PACK_RECORD_HEADER_BYTES + body.size;
	}
	return CB_OK;
}

static cb_code commit_batch(unpacking *u, span batch, bool end, cb_error *err)
{
	CB_TRY(graft_hold(&u->g, err));
	cb_code code = write_batch(u, batch, err);
	if (code == CB_OK && end) code = graft_publish(&u->g, &u->row, err);
	if (code == CB_OK) code = graft_let_go(&u->g, err);
	if (code != CB_OK) graft_abort(&u->g);
	u->g.published = code == CB_OK && end;
	return code;
}

static cb_code unpack_all(unpacking *u, cb_error *err)
{
	const pack_source *source = u->source;
	AUTO_BUF buf batch = BUF_INIT(LIMIT_PACK_BATCH_BYTES + LIMIT_KV_VALUE_BYTES + 2 * (LIMIT_PACK_RECORD_BYTES + 4096));
	bool end = false;
	CB_TRY(source->begin(source->context, &u->format, err));
	CB_TRY(graft_open(&u->g, u->cs, err));
	while (!end) {
		CB_TRY(read_batch(u, &batch, &end, err));
		CB_TRY(commit_batch(u, buf_span(&batch), end, err));
		if (!end) CB_TRY(source->tell(source->context, err));
	}
	(void)source->tell(source->context, NULL); /* the box is there: too late to say no */
	return CB_OK;
}

static cb_code refuse_taken(cb_store *cs, const char *name, cb_error *err)
{
	store_box row;
	CB_TRY(box_name_check(name, false, err));
	cb_code code = store_box_find(cs->s, name, &row, NULL);
	if (code == CB_OK) return cb_err_set(err, CB_EXISTS, "there is a box '%s' already", name);
	return CB_OK;
}

cb_code pack_in(cb_store *cs, const char *name, const pack_source *source, cb_error *err)
{
	if (store_is_read_only(cs->s)) return store_refuse_write(cs->s, err);
	if (name) CB_TRY(refuse_taken(cs, name, err));
	unpacking u = {.cs = cs, .source = source, .progress = source->progress, .info = source->info, .name = name};
	u.ino_next = PACK_INO_FIRST;
	u.step = BUF_INIT(LIMIT_PACK_RECORD_BYTES);
	u.contents = u.states = u.inos = u.others = BUF_INIT(SIZE_MAX);
	cb_code code = unpack_all(&u, err);
	graft_close(&u.g);
	buf_done(&u.step);
	buf_done(&u.contents);
	buf_done(&u.states);
	buf_done(&u.inos);
	buf_done(&u.others);
	return code;
}
