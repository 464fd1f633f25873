/*
 * boxes.c: stores and the boxes in them: create, open by address, fork, rename, delete, list, settings.
 */
#include "base/io.h"
#include "box/box.h"

#include <stdio.h>
#include <stdlib.h>

const char *cb_version(void)
{
	return CB_VERSION_STRING;
}

void cb_free(void *p)
{
	free(p);
}

/* ---- store ---- */

static cb_code nodes_get(void *context, uint64_t id, blob **out, cb_error *err)
{
	return store_node_get(context, id, out, err);
}

static cb_code nodes_put(void *context, span bytes, uint64_t *out_id, cb_error *err)
{
	return store_node_put(context, bytes, out_id, err);
}

/* free() it. */
static char *default_path(bool create)
{
	const char *store_path_env = getenv("COWBOX_STORE");
	const char *data = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	char *out = NULL;
	int n = -1;
	if (store_path_env && *store_path_env) return mem_strdup(store_path_env);
	if (data && *data) n = asprintf(&out, "%s/cowbox", data);
	else if (home && *home) n = asprintf(&out, "%s/.local/share/cowbox", home);
	if (n < 0) return NULL;
	char *name = strrchr(out, '/');
	*name = 0;
	if (create && *out) (void)io_mkdirs(out, 0700, NULL); /* what cannot be made shows when the store is */
	*name = '/';
	return out;
}

cb_code cb_store_open(const char *path, const cb_store_options *options, cb_store **out, cb_error *err)
{
	static const cb_store_options defaults = {0};
	if (!options) options = &defaults;
	AUTO_FREE char *chosen = path ? mem_strdup(path) : default_path(!options->no_create);
	if (!chosen) return cb_err_set(err, CB_INVALID, "no store named: set COWBOX_STORE or HOME");
	cb_store *cs = mem_alloc(sizeof(*cs));
	if (!cs) return cb_err_nomem(err);
	bool memory = strcmp(chosen, ":memory:") == 0;
	store_options so = {.path = memory ? NULL : chosen,
	                    .create = !options->no_create,
	                    .read_only = options->read_only,
	                    .durability = options->full ? STORE_FULL : STORE_FAST,
	                    .cache_bytes = options->cache_bytes};
	*cs = (cb_store){0};
	cb_code code = box_store_open(cs, &so, err);
	if (code != CB_OK) free(cs);
	else *out = cs;
	return code;
}

cb_code box_store_open(cb_store *cs, const store_options *options, cb_error *err)
{
	CB_TRY(store_open(options, &cs->s, err));
	cs->nodes = (tree_nodes){nodes_get, nodes_put, cs->s};
	(void)pthread_mutex_init(&cs->known_lock, NULL);
	return CB_OK;
}

void cb_store_close(cb_store *cs)
{
	if (!cs) return;
	state_forget_all(cs);
	(void)pthread_mutex_destroy(&cs->known_lock);
	store_close(cs->s);
	free(cs);
}

cb_code cb_store_sync(cb_store *cs, cb_error *err)
{
	return store_sync(cs->s, err);
}

cb_code cb_store_vacuum(cb_store *cs, cb_error *err)
{
	return store_vacuum(cs->s, err);
}

cb_code cb_store_backup(cb_store *cs, const char *to_path, cb_error *err)
{
	return store_backup(cs->s, to_path, err);
}

cb_code cb_store_stats_get(cb_store *cs, cb_store_stats *out, cb_error *err)
{
	store_stats s;
	CB_TRY(store_stats_get(cs->s, &s, err));
	*out = (cb_store_stats){
		.boxes = s.boxes,
		.steps = s.steps,
		.nodes = s.nodes,
		.node_bytes = s.node_bytes,
		.contents = s.contents,
		.content_bytes = s.content_bytes,
		.segments = s.segments,
		.segment_bytes = s.segment_bytes,
		.database_bytes = s.database_bytes,
		.wal_bytes = s.wal_bytes,
		.cache_bytes = s.cache_bytes,
		.cache_hits = s.cache_hits,
		.cache_misses = s.cache_misses,
	};
	return CB_OK;
}

/* ---- names and addresses ---- */

cb_code box_name_check(const char *name, bool checkpoint, cb_error *err)
{
	const char *what = checkpoint ? "checkpoint" : "box";
	size_t size = name ? strlen(name) : 0;
	if (size < 1 || size > CB_NAME_MAX)
		return cb_err_set(err, CB_INVALID, "a %s name has 1 to %d characters", what, CB_NAME_MAX);
	bool digits = true;
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)name[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool digit = c >= '0' && c <= '9';
		if (!letter && !digit && c != '.' && c != '_' && c != '-')
			return cb_err_set(err, CB_INVALID, "a %s name has letters, digits, '.', '_' and '-' only", what);
		digits = digits && digit;
	}
	if (name[0] == '.' || name[0] == '-') return cb_err_set(err, CB_INVALID, "a %s name does not start with '.' or '-'", what);
	if (checkpoint && digits) return cb_err_set(err, CB_INVALID, "a checkpoint name is not a number: numbers are steps");
	return CB_OK;
}

/* "7", "-1" or a checkpoint's name after the '@'. */
static cb_code address_step(cb_store *cs, const store_box *box, const char *text, uint64_t *out, cb_error *err)
{
	bool back = text[0] == '-';
	const char *digits = back ? text + 1 : text;
	if (*digits && strspn(digits, "0123456789") == strlen(digits)) {
		errno = 0;
		unsigned long long n = strtoull(digits, NULL, 10);
		if (errno || n > INT64_MAX || (back && n > box->head.seq) || (!back && n > box->head.seq))
			return cb_err_set(err, CB_NOTFOUND, "box '%s' has no step %s (the newest is %llu)", box->name, text,
			                  (unsigned long long)box->head.seq);
		*out = back ? box->head.seq - n : n;
		return CB_OK;
	}
	CB_TRY(box_name_check(text, true, err));
	store_checkpoint c;
	cb_code code = store_checkpoint_get(cs->s, box->id, text, &c, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NOTFOUND, "box '%s' has no checkpoint '%s'", box->name, text);
	if (code == CB_OK) *out = c.seq;
	return code;
}

cb_code box_address(cb_store *cs, const char *address, store_box *out_box, uint64_t *out_seq, bool *out_pinned, cb_error *err)
{
	const char *at = address ? strchr(address, '@') : NULL;
	size_t size = at ? (size_t)(at - address) : address ? strlen(address) : 0;
	char name[CB_NAME_MAX + 1];
	if (size == 0 || size > CB_NAME_MAX) return cb_err_set(err, CB_INVALID, "a box name has 1 to %d characters", CB_NAME_MAX);
	memcpy(name, address, size);
	name[size] = 0;
	CB_TRY(box_name_check(name, false, err));
	cb_code code = store_box_find(cs->s, name, out_box, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NOTFOUND, "no box '%s'", name);
	if (code != CB_OK) return code;
	*out_pinned = at != NULL;
	*out_seq = out_box->head.seq;
	return at ? address_step(cs, out_box, at + 1, out_seq, err) : CB_OK;
}

/* ---- boxes ---- */

typedef struct furnishing {
	pmap map;
	uint64_t state;
	int64_t now_ns;
	counters count;
} furnishing;

static cb_code furnish_dir(furnishing *f, uint64_t ino, uint64_t parent, const char *name, uint32_t mode, cb_error *err)
{
	span n = span_str(name);
	key at = key_entry(parent, n), place = key_name(ino, parent, n);
	entry e = {.rec = {.ino = ino, .version = f->state, .type = CB_DIR, .mode = mode, .links = 1}};
	e.rec.mtime_ns = e.rec.ctime_ns = e.rec.atime_ns = f->now_ns;
	tree_value value;
	entry_encode(&e, &value);
	CB_TRY(pmap_put(&f->map, key_span(&at), span_make(value.bytes, value.size), err));
	if (ino == INO_ROOT) return CB_OK;
	f->count.files++;
	return pmap_put(&f->map, key_span(&place), span_str(""), err);
}

/* What every new box holds. Its inodes are the same in all boxes, so boxes that were made apart can still be compared. */
static cb_code furnish(furnishing *f, cb_error *err)
{
	CB_TRY(furnish_dir(f, INO_ROOT, 0, "", 0755, err));
	CB_TRY(furnish_dir(f, INO_WORK, INO_ROOT, "work", 0755, err));
	CB_TRY(furnish_dir(f, INO_HOME, INO_ROOT, "home", 0755, err));
	CB_TRY(furnish_dir(f, INO_AGENT, INO_HOME, "agent", 0755, err));
	CB_TRY(furnish_dir(f, INO_TMP, INO_ROOT, "tmp", 01777, err));
	key k = key_counters();
	tree_value value;
	counters_encode(&f->count, &value);
	return pmap_put(&f->map, key_span(&k), span_make(value.bytes, value.size), err);
}

static cb_code furnished_root(cb_store *cs, uint64_t state_id, int64_t now_ns, uint64_t *out, cb_error *err)
{
	furnishing f = {.state = state_id, .now_ns = now_ns};
	cb_code code = furnish(&f, err);
	if (code == CB_OK) code = tree_apply(&cs->nodes, 0, &f.map, out, err);
	pmap_done(&f.map);
	return code;
}

/* A row, its head and step 0. With an origin it starts there, without a copy; otherwise with a few folders. Inside a write transaction. */
cb_code box_insert(cb_store *cs, const char *name, const state *origin, store_box *out, cb_error *err)
{
	*out = (store_box){.created_ns = clock_now(store_clock(cs->s))};
	memcpy(out->name, name, strlen(name) + 1);
	CB_TRY(store_take(cs->s, STORE_NEXT_BOX, 1, &out->id, err));
	store_step step = {.box = out->id, .kind = "new", .who = "", .started_ns = out->created_ns, .ended_ns = out->created_ns};
	if (origin) {
		out->origin_box = origin->box;
		out->origin_seq = origin->seq;
		out->head =
			(store_head){0, origin->id, origin->root, origin->root_box, origin->root_seq, origin->weight + FORK_WEIGHT};
		step.kind = "fork";
		step.state = origin->id;
		step.other_box = origin->box;
		step.other_seq = origin->seq;
	} else {
		CB_TRY(store_take(cs->s, STORE_NEXT_STATE, 1, &step.state, err));
		CB_TRY(furnished_root(cs, step.state, out->created_ns, &step.root, err));
		step.has_root = true;
		out->head = (store_head){.state = step.state, .root = step.root, .root_box = out->id};
	}
	cb_code code = store_box_insert(cs->s, out, err);
	if (code == CB_EXISTS) return cb_err_set(err, CB_EXISTS, "there is a box '%s' already", name);
	if (code != CB_OK) return code;
	CB_TRY(store_step_put(cs->s, &step, err));
	return store_head_set(cs->s, out->id, &out->head, err);
}

static cb_code end_write(cb_store *cs, cb_code code, cb_error *err)
{
	if (code == CB_OK) return store_write_commit(cs->s, false, err);
	store_write_abort(cs->s);
	return code;
}

cb_code cb_box_create(cb_store *cs, const char *name, cb_box **out, cb_error *err)
{
	CB_TRY(box_name_check(name, false, err));
	store_box row;
	CB_TRY(store_write_begin(cs->s, err));
	CB_TRY(end_write(cs, box_insert(cs, name, NULL, &row, err), err));
	return out ? cb_box_open(cs, name, out, err) : CB_OK;
}

cb_code cb_box_open(cb_store *cs, const char *address, cb_box **out, cb_error *err)
{
	store_box row;
	uint64_t seq = 0;
	bool pinned = false;
	CB_TRY(box_address(cs, address, &row, &seq, &pinned, err));
	cb_box *b = NULL;
	CB_TRY(box_handle_create(cs, &row, &b, err));
	b->pinned = pinned;
	cb_code code = pinned ? state_load(cs, row.id, seq, &b->head, err) : box_refresh(b, err);
	if (code != CB_OK) {
		cb_box_close(b);
		return cb_err_wrap(err, code, "opening '%s'", address);
	}
	*out = b;
	return CB_OK;
}

static cb_code fork_in_write(cb_store *cs, const char *address, const char *name, store_box *row, state **origin, cb_error *err)
{
	store_box from;
	uint64_t seq = 0;
	bool pinned = false;
	CB_TRY(box_address(cs, address, &from, &seq, &pinned, err));
	CB_TRY(pinned ? state_load(cs, from.id, seq, origin, err) : state_load_head(cs, from.id, &from.head, NULL, origin, err));
	return box_insert(cs, name, *origin, row, err);
}

/* The new box's handle, from what its making knew already. */
static cb_code fork_handle(cb_store *cs, const store_box *row, const state *origin, cb_box **out, cb_error *err)
{
	cb_box *b = NULL;
	CB_TRY(box_handle_create(cs, row, &b, err));
	b->head = state_fork(origin, row->id);
	if (!b->head) {
		cb_box_close(b);
		return cb_err_nomem(err);
	}
	*out = b;
	return CB_OK;
}

cb_code cb_box_fork(cb_store *cs, const char *address, const char *name, cb_box **out, cb_error *err)
{
	CB_TRY(box_name_check(name, false, err));
	store_box row;
	AUTO_STATE state *origin = NULL;
	CB_TRY(store_write_begin(cs->s, err));
	CB_TRY(end_write(cs, fork_in_write(cs, address, name, &row, &origin, err), err));
	return out ? fork_handle(cs, &row, origin, out, err) : CB_OK;
}

typedef cb_code (*row_change)(store_box *row, const void *argument, cb_error *err);

/* Reads a box's row, changes it, writes it, in one transaction. */
static cb_code change_row(cb_store *cs, uint64_t id, const char *name, row_change change, const void *argument, cb_error *err)
{
	CB_TRY(store_write_begin(cs->s, err));
	store_box row;
	cb_code code = name ? store_box_find(cs->s, name, &row, err) : store_box_get(cs->s, id, &row, err);
	if (code == CB_NOTFOUND && name) code = cb_err_set(err, CB_NOTFOUND, "no box '%s'", name);
	if (code == CB_OK) code = change(&row, argument, err);
	if (code == CB_OK) code = store_box_update(cs->s, &row, err);
	return end_write(cs, code, err);
}

static cb_code change_name(store_box *row, const void *argument, cb_error *err)
{
	(void)err;
	const char *name = argument;
	memset(row->name, 0, sizeof(row->name));
	memcpy(row->name, name, strlen(name));
	return CB_OK;
}

cb_code cb_box_rename(cb_store *cs, const char *name, const char *new_name, cb_error *err)
{
	CB_TRY(box_name_check(new_name, false, err));
	return change_row(cs, 0, name, change_name, new_name, err);
}

static cb_code change_deleted(store_box *row, const void *argument, cb_error *err)
{
	(void)argument;
	(void)err;
	row->deleted = true;
	return CB_OK;
}

cb_code cb_box_delete(cb_store *cs, const char *name, cb_error *err)
{
	return change_row(cs, 0, name, change_deleted, NULL, err);
}

typedef struct quota {
	uint64_t bytes, files, file_bytes;
} quota;

static cb_code change_quota(store_box *row, const void *argument, cb_error *err)
{
	(void)err;
	const quota *q = argument;
	row->quota_bytes = q->bytes;
	row->quota_files = q->files;
	row->quota_file_bytes = q->file_bytes;
	return CB_OK;
}

cb_code cb_box_quota_set(cb_box *b, uint64_t bytes, uint64_t files, uint64_t file_bytes, cb_error *err)
{
	quota q = {bytes, files, file_bytes};
	return change_row(b->cs, b->row.id, NULL, change_quota, &q, err);
}

typedef struct retention {
	uint64_t steps;
	int64_t ns;
} retention;

static cb_code change_retention(store_box *row, const void *argument, cb_error *err)
{
	(void)err;
	const retention *r = argument;
	row->keep_steps = r->steps;
	row->keep_ns = r->ns;
	return CB_OK;
}

cb_code cb_box_retention_set(cb_box *b, uint64_t keep_steps, int64_t keep_ns, cb_error *err)
{
	retention r = {keep_steps, keep_ns};
	return change_row(b->cs, b->row.id, NULL, change_retention, &r, err);
}

/* ---- information ---- */

static cb_code info_from_row(cb_store *cs, const store_box *row, const state *head, cb_box_info *out, cb_error *err)
{
	*out = (cb_box_info){.id = row->id, .created_ns = row->created_ns, .origin_seq = row->origin_seq};
	memcpy(out->name, row->name, sizeof(out->name));
	out->quota_bytes = row->quota_bytes;
	out->quota_files = row->quota_files;
	out->quota_file_bytes = row->quota_file_bytes;
	out->keep_steps = row->keep_steps;
	out->keep_ns = row->keep_ns;
	out->seq = head->seq;
	out->state = head->id;
	store_box origin;
	if (row->origin_box && store_box_get(cs->s, row->origin_box, &origin, NULL) == CB_OK && !origin.deleted)
		memcpy(out->origin, origin.name, sizeof(out->origin));
	tree_view v = state_view(cs, head);
	key k = key_counters();
	tree_value value;
	counters c = {0};
	cb_code code = tree_get(&v, key_span(&k), &value, err);
	if (code == CB_OK) code = counters_decode(span_make(value.bytes, value.size), &c, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	out->files = c.files;
	out->bytes = c.bytes;
	return CB_OK;
}

cb_code cb_box_info_get(cb_box *b, cb_box_info *out, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	store_box row;
	cb_code code = store_box_get(b->cs->s, b->row.id, &row, err);
	if (code == CB_OK) code = info_from_row(b->cs, &row, b->head, out, err);
	return box_leave(b, code);
}

static cb_code collect_row(void *context, const store_box *row, cb_error *err)
{
	return buf_append(context, row, sizeof(*row), err);
}

cb_code cb_box_list(cb_store *cs, cb_box_visit visit, void *context, cb_error *err)
{
	AUTO_BUF buf rows = BUF_INIT(SIZE_MAX);
	CB_TRY(store_box_list(cs->s, false, collect_row, &rows, err));
	const store_box *all = (const store_box *)(const void *)rows.bytes;
	for (size_t i = 0; i < rows.size / sizeof(store_box); i++) {
		state *head = NULL;
		cb_box_info info;
		cb_code code = state_load(cs, all[i].id, all[i].head.seq, &head, err);
		if (code == CB_STALE || code == CB_NOTFOUND) continue; /* pruned or deleted meanwhile */
		if (code == CB_OK) code = info_from_row(cs, &all[i], head, &info, err);
		state_unref(head);
		if (code == CB_OK) code = visit(context, &info, err);
		if (code != CB_OK) return code == CB_INTERRUPTED ? CB_OK : code;
	}
	return CB_OK;
}

/* ---- settings ---- */

cb_code cb_setting_set(cb_box *b, const char *name, const char *value, cb_error *err)
{
	if (!*name || strlen(name) > LIMIT_NAME_BYTES)
		return cb_err_set(err, CB_INVALID, "a setting's name has 1 to %d bytes", LIMIT_NAME_BYTES);
	if (strncmp(name, "cowbox.", 7) == 0)
		return cb_err_set(err, CB_RESERVED, "settings that begin with 'cowbox.' are the library's own");
	CB_TRY(store_write_begin(b->cs->s, err));
	return end_write(b->cs, store_setting_set(b->cs->s, b->row.id, name, value, err), err);
}

cb_code cb_setting_get(cb_box *b, const char *name, char **out, cb_error *err)
{
	cb_code code = store_setting_get(b->cs->s, b->row.id, name, out, err);
	return code == CB_NOTFOUND ? cb_err_set(err, CB_NOTFOUND, "box '%s' has no setting '%s'", b->row.name, name) : code;
}

/* ---- checkpoints ---- */

static cb_code checkpoint_in_write(cb_box *b, const char *name, uint64_t seq, cb_error *err)
{
	store_head head;
	CB_TRY(store_head_get(b->cs->s, b->row.id, &head, err));
	store_checkpoint c = {.box = b->row.id, .seq = seq ? seq : b->pinned ? b->head->seq : head.seq};
	c.created_ns = clock_now(store_clock(b->cs->s));
	memcpy(c.name, name, strlen(name));
	uint64_t found = 0;
	CB_TRY(step_exists(b->cs, b->row.id, c.seq, &found, err));
	cb_code code = store_checkpoint_put(b->cs->s, &c, err);
	return code == CB_EXISTS ? cb_err_set(err, CB_EXISTS, "box '%s' has a checkpoint '%s' already", b->row.name, name) : code;
}

cb_code cb_checkpoint_save(cb_box *b, const char *name, uint64_t seq, bool no_sync, cb_error *err)
{
	CB_TRY(box_name_check(name, true, err));
	CB_TRY(box_enter(b, err));
	cb_code code = box_flush(b, false, err);
	if (code == CB_OK) code = store_write_begin(b->cs->s, err);
	if (code != CB_OK) return box_leave(b, code);
	code = checkpoint_in_write(b, name, seq, err);
	if (code == CB_OK) code = store_write_commit(b->cs->s, !no_sync, err);
	else store_write_abort(b->cs->s);
	return box_leave(b, code);
}

cb_code cb_checkpoint_delete(cb_box *b, const char *name, cb_error *err)
{
	CB_TRY(store_write_begin(b->cs->s, err));
	cb_code code = store_checkpoint_delete(b->cs->s, b->row.id, name, err);
	if (code == CB_NOTFOUND) code = cb_err_set(err, CB_NOTFOUND, "box '%s' has no checkpoint '%s'", b->row.name, name);
	return end_write(b->cs, code, err);
}

typedef struct checkpoint_walk {
	cb_checkpoint_visit visit;
	void *context;
} checkpoint_walk;

static cb_code visit_checkpoint(void *context, const store_checkpoint *c, cb_error *err)
{
	const checkpoint_walk *w = context;
	cb_checkpoint out = {.seq = c->seq, .created_ns = c->created_ns};
	memcpy(out.name, c->name, sizeof(out.name));
	return w->visit(w->context, &out, err);
}

cb_code cb_checkpoint_list(cb_box *b, cb_checkpoint_visit visit, void *context, cb_error *err)
{
	checkpoint_walk w = {visit, context};
	return store_checkpoint_list(b->cs->s, b->row.id, visit_checkpoint, &w, err);
}
