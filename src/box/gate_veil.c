/*
 * gate_veil.c: what a view shows: every key is traced to a node, every node to its names, every name to an answer of the hook.
 *
 * Adversary: whoever reads through the handle, and knows all other ways to a node: another name of the same file, its number, an old
 * state, a difference, a count, the times of the folder above it. So nothing is decided by how a node was reached: a key is shown when all
 * names of its node are, and a name when every folder on its way is.
 *
 * Cost: folders are remembered, with whether a rule lies below. Where none does, a name costs one look into memory and no question; files
 * with several names are looked at by all of them.
 */
#include "box/veil.h"

#include <assert.h>

enum { KNOWN_BYTES_MAX = 8 << 20, VEIL_PATH_MAX = 1 << 20 };

static cb_code shows(void *context, span key_bytes, span *value, tree_value *room, bool *out, cb_error *err);

cb_code veil_create(cb_store *cs, uint64_t box, const char *who, veil **out, cb_error *err)
{
	veil *v = mem_alloc(sizeof(*v));
	if (!v) return cb_err_nomem(err);
	*v = (veil){.cs = cs, .box = box};
	v->of = (tree_veil){shows, v};
	veil_who_set(v, who);
	*out = v;
	return CB_OK;
}

static void forget(veil *v)
{
	pmap_done(&v->folders);
	v->known_bytes = 0;
	v->last_ino = v->quiet = 0;
}

void veil_destroy(veil *v)
{
	if (!v) return;
	forget(v);
	pmap_done(&v->seen);
	free(v);
}

void veil_who_set(veil *v, const char *who)
{
	if (strcmp(v->who, who) == 0) return;
	size_t size = strnlen(who, LIMIT_NAME_BYTES);
	memcpy(v->who, who, size);
	v->who[size] = 0;
	forget(v);
}

tree_view veil_over(veil *v, const tree_view *raw, uint64_t id)
{
	if (id == 0 || id != v->id) forget(v);
	v->id = id;
	v->raw = view_raw(raw);
	tree_view out = v->raw;
	out.veil = &v->of;
	return out;
}

tree_view veil_over_same(veil *v, const tree_view *raw, veil *known, uint64_t id)
{
	tree_view out = veil_over(v, raw, id);
	if (known) veil_freshen(known);
	const pmap_node *now = raw->delta ? raw->delta->root : NULL;
	if (!known || known->id != id || known->seen.root != now || known->box != v->box || strcmp(known->who, v->who) != 0)
		return out;
	v->folders = pmap_ref(&known->folders);
	v->known_bytes = known->known_bytes;
	v->version = known->version;
	pmap_done(&v->seen);
	v->seen = pmap_ref(&known->seen);
	return out;
}

void veil_freshen(veil *v)
{
	uint64_t version = v->cs->gate ? atomic_load(&v->cs->gate->version) : 0;
	const pmap_node *now = v->raw.delta ? v->raw.delta->root : NULL;
	if (version == v->version && now == v->seen.root) return;
	forget(v);
	v->version = version;
	pmap_done(&v->seen);
	if (v->raw.delta) v->seen = pmap_ref(v->raw.delta);
}

/* ---- asking ---- */

static gate_answer ask(const veil *v, gate_request *r)
{
	const gate *g = v->cs->gate;
	r->who = v->who;
	r->box = v->box;
	return g ? g->ask(g->context, r) : GATE_PASS;
}

static gate_below below(const veil *v, const char *path)
{
	const gate *g = v->cs->gate;
	return g ? g->below(g->context, v->who, v->box, path) : GATE_BELOW_NONE;
}

gate_answer veil_ask_key(veil *v, gate_access access, span name)
{
	gate_request r = {.access = access, .name = name};
	gate_answer read = GATE_PASS;
	if (access != GATE_READ) {
		gate_request reading = {.access = GATE_READ, .name = name};
		read = ask(v, &reading);
	}
	return answer_worse(read, ask(v, &r));
}

/* "/a" and "b" make "/a/b"; the NUL is there and not counted. */
static cb_code path_add(buf *path, span name, cb_error *err)
{
	if (path->size == 0 || path->bytes[path->size - 1] != '/') CB_TRY(buf_append_byte(path, '/', err));
	CB_TRY(buf_append(path, name.bytes, name.size, err));
	CB_TRY(buf_append_byte(path, 0, err));
	path->size--;
	return CB_OK;
}

cb_code veil_path(const tree_view *raw, uint64_t parent, span name, buf *out, cb_error *err)
{
	if (name.size == 0 && parent == 0) return path_add(out, name, err);
	CB_TRY(inode_path(raw, parent, out, err));
	return path_add(out, name, err);
}

/* ---- folders ---- */

typedef struct folder_row {
	uint8_t answer, below;
} folder_row;

static bool folder_known(const veil *v, uint64_t ino, veil_folder *out, cb_code *code, cb_error *err)
{
	uint8_t number[8];
	span found;
	put_be64(number, ino);
	if (pmap_get(&v->folders, span_make(number, sizeof(number)), &found) != PMAP_VALUE) return false;
	folder_row row;
	memcpy(&row, found.bytes, sizeof(row));
	out->answer = (gate_answer)row.answer;
	out->below = (gate_below)row.below;
	buf_clear(&out->path);
	span path = span_make(found.bytes + sizeof(row), found.size - sizeof(row));
	*code = path.size ? buf_append(&out->path, path.bytes, path.size, err) : CB_OK;
	return true;
}

static cb_code folder_learn(veil *v, uint64_t ino, const veil_folder *f, cb_error *err)
{
	uint8_t number[8];
	folder_row row = {(uint8_t)f->answer, (uint8_t)f->below};
	AUTO_BUF buf value = BUF_INIT(SIZE_MAX);
	put_be64(number, ino);
	CB_TRY(buf_append(&value, &row, sizeof(row), err));
	if (f->path.size) CB_TRY(buf_append(&value, f->path.bytes, f->path.size, err));
	if (v->known_bytes > KNOWN_BYTES_MAX) forget(v); /* a box may have any number of folders, as deep as it likes */
	v->known_bytes += value.size + 64;
	return pmap_put(&v->folders, span_make(number, sizeof(number)), buf_span(&value), err);
}

/* From a folder to one inside it. */
static cb_code folder_enter(veil *v, veil_folder *f, uint64_t parent, span name, uint64_t ino, cb_error *err)
{
	if (f->answer != GATE_PASS || f->below == GATE_BELOW_NONE) return CB_OK; /* as the one it is in */
	CB_TRY(path_add(&f->path, name, err));
	gate_request r = {.access = GATE_READ,
	                  .path = (const char *)f->path.bytes,
	                  .name = name,
	                  .parent = parent,
	                  .ino = ino,
	                  .type = CB_DIR};
	f->answer = ask(v, &r);
	f->below = below(v, r.path);
	if (f->answer != GATE_PASS || f->below == GATE_BELOW_NONE) buf_clear(&f->path);
	return CB_OK;
}

static cb_code root_folder(veil *v, veil_folder *out, cb_error *err)
{
	cb_code code = CB_OK;
	if (folder_known(v, INO_ROOT, out, &code, err)) return code;
	buf_clear(&out->path);
	CB_TRY(path_add(&out->path, (span){0}, err));
	gate_request r = {.access = GATE_READ, .path = "/", .ino = INO_ROOT, .type = CB_DIR};
	out->answer = ask(v, &r);
	out->below = below(v, "/");
	return folder_learn(v, INO_ROOT, out, err);
}

typedef struct way_part {
	uint64_t ino, parent;
	uint8_t size;
	uint8_t name[LIMIT_NAME_BYTES];
} way_part;

cb_code veil_folder_get(veil *v, uint64_t ino, veil_folder *out, cb_error *err)
{
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX); /* way_part, from the folder upwards */
	cb_code code = CB_OK;
	out->path.max_size = VEIL_PATH_MAX;
	climb up = climb_from(ino);
	while (up.at != INO_ROOT && !folder_known(v, up.at, out, &code, err)) {
		way_part p = {.ino = up.at};
		size_t size = 0;
		code = climb_up(&up, &v->raw, p.name, &size, err);
		if (code == CB_NOTFOUND) { /* detached: no path leads there */
			out->answer = GATE_HIDDEN;
			out->below = GATE_BELOW_NONE;
			return CB_OK;
		}
		if (code != CB_OK) return code;
		p.parent = up.at;
		p.size = (uint8_t)size;
		CB_TRY(buf_append(&way, &p, sizeof(p), err));
	}
	if (code != CB_OK) return code;
	if (up.at == INO_ROOT) CB_TRY(root_folder(v, out, err));
	for (size_t i = way.size / sizeof(way_part); i > 0; i--) {
		const way_part *p = (const way_part *)(const void *)way.bytes + (i - 1);
		CB_TRY(folder_enter(v, out, p->parent, span_make(p->name, p->size), p->ino, err));
		CB_TRY(folder_learn(v, p->ino, out, err));
	}
	return CB_OK;
}

/* ---- names and nodes ---- */

cb_code veil_ask_name(veil *v, gate_access access, uint64_t parent, span name, uint64_t ino, cb_type type, gate_answer *out,
                      cb_error *err)
{
	AUTO_FOLDER veil_folder f = {.path = BUF_INIT(VEIL_PATH_MAX)};
	CB_TRY(veil_folder_get(v, parent, &f, err));
	*out = f.answer;
	if (f.answer != GATE_PASS) return CB_OK;
	bool quiet = f.below == GATE_BELOW_NONE;
	if (quiet && access == GATE_READ) return CB_OK;
	if (quiet) CB_TRY(inode_path(&v->raw, parent, &f.path, err));
	CB_TRY(path_add(&f.path, name, err));
	gate_request r = {.path = (const char *)f.path.bytes, .name = name, .parent = parent, .ino = ino, .type = type};
	if (access != GATE_READ && !quiet) {
		r.access = GATE_READ;
		*out = ask(v, &r);
		if (*out != GATE_PASS) return CB_OK;
	}
	r.access = access;
	*out = ask(v, &r);
	return CB_OK;
}

typedef struct names_asking {
	veil *v;
	gate_access access;
	uint64_t ino;
	bool any;
	gate_answer answer;
} names_asking;

static cb_code ask_place(void *context, span key_bytes, span value, cb_error *err)
{
	(void)value;
	names_asking *n = context;
	key_parts parts;
	gate_answer answer = GATE_PASS;
	inode node;
	CB_TRY(key_parse(key_bytes, &parts, err));
	cb_code code = inode_at(&n->v->raw, parts.parent, parts.name, &node, NULL, err);
	if (code == CB_NOTFOUND)
		return cb_err_set(err, CB_CORRUPT, "inode %llu is not where its name says: run fsck", (unsigned long long)n->ino);
	if (code != CB_OK) return code;
	CB_TRY(veil_ask_name(n->v, n->access, parts.parent, parts.name, n->ino, node.rec.type, &answer, err));
	n->answer = answer_worse(n->answer, answer);
	n->any = true;
	return n->answer == GATE_HIDDEN ? CB_INTERRUPTED : CB_OK;
}

cb_code veil_ask_node(veil *v, gate_access access, uint64_t ino, gate_answer *out, cb_error *err)
{
	if (ino == INO_ROOT) {
		gate_request r = {.access = access, .path = "/", .ino = ino, .type = CB_DIR};
		*out = ask(v, &r);
		return CB_OK;
	}
	if (access == GATE_READ && ino == v->last_ino) {
		*out = v->last;
		return CB_OK;
	}
	names_asking n = {.v = v, .access = access, .ino = ino};
	CB_TRY(inode_keys(&v->raw, ino, KIND_NAME, ask_place, &n, err));
	*out = n.any ? n.answer : GATE_HIDDEN;
	if (access == GATE_READ) {
		v->last_ino = ino;
		v->last = *out;
	}
	return CB_OK;
}

/* ---- keys ---- */

/* What is made and removed in a folder shows in its times and version. Where a rule lies on an entry of it they tell nothing: the times are
 * that of its last access, which is when it was made unless somebody set it, and the version is always the same. */
static void times_masked(entry *e, span *value, tree_value *room)
{
	e->rec.mtime_ns = e->rec.ctime_ns = e->rec.atime_ns;
	e->rec.version = GATE_MASKED_VERSION;
	entry_encode(e, room);
	*value = span_make(room->bytes, room->size);
}

static cb_code root_shown(veil *v, span *value, tree_value *room, bool *out, cb_error *err)
{
	AUTO_FOLDER veil_folder f = {.path = BUF_INIT(VEIL_PATH_MAX)};
	entry e;
	CB_TRY(root_folder(v, &f, err));
	*out = true; /* a box without a root is none: its entries are hidden instead */
	if (f.below != GATE_BELOW_INSIDE) return CB_OK;
	CB_TRY(entry_decode(*value, &e, err));
	times_masked(&e, value, room);
	return CB_OK;
}

static cb_code entry_shown(veil *v, const key_parts *k, span *value, tree_value *room, bool *out, cb_error *err)
{
	bool link = entry_is_link(*value);
	if (k->ino == 0) return root_shown(v, value, room, out, err);
	AUTO_FOLDER veil_folder f = {.path = BUF_INIT(VEIL_PATH_MAX)};
	CB_TRY(veil_folder_get(v, k->ino, &f, err));
	*out = f.answer == GATE_PASS;
	if (*out && f.below == GATE_BELOW_NONE) v->quiet = k->ino;
	if (!*out || (!link && f.below == GATE_BELOW_NONE)) return CB_OK;
	entry e;
	gate_answer answer = GATE_PASS;
	CB_TRY(entry_decode(*value, &e, err));
	if (link) {
		CB_TRY(veil_ask_node(v, GATE_READ, e.rec.ino, &answer, err));
		*out = answer == GATE_PASS;
		return CB_OK;
	}
	CB_TRY(path_add(&f.path, k->name, err));
	gate_request r = {.access = GATE_READ,
	                  .path = (const char *)f.path.bytes,
	                  .name = k->name,
	                  .parent = k->ino,
	                  .ino = e.rec.ino,
	                  .type = e.rec.type};
	*out = ask(v, &r) == GATE_PASS;
	if (*out && e.rec.type == CB_DIR && below(v, r.path) == GATE_BELOW_INSIDE) times_masked(&e, value, room);
	return CB_OK;
}

/* The only name of a file in a folder where no rule lies: without asking for others, of which there are none. *out is only ever set. */
static cb_code name_quiet(veil *v, const key_parts *k, bool *out, cb_error *err)
{
	if (k->parent != v->quiet || !v->quiet) {
		AUTO_FOLDER veil_folder f = {.path = BUF_INIT(VEIL_PATH_MAX)};
		CB_TRY(veil_folder_get(v, k->parent, &f, err));
		if (f.answer != GATE_PASS || f.below != GATE_BELOW_NONE) return CB_OK;
		v->quiet = k->parent;
	}
	key at = key_entry(k->parent, k->name);
	tree_value entry_value;
	cb_code code = tree_get(&v->raw, key_span(&at), &entry_value, err);
	if (code == CB_OK) *out = !entry_is_link(span_make(entry_value.bytes, entry_value.size));
	if (*out) {
		v->last_ino = k->ino;
		v->last = GATE_PASS;
	}
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code shows(void *context, span key_bytes, span *value, tree_value *room, bool *out, cb_error *err)
{
	veil *v = context;
	key_parts parts;
	gate_answer answer = GATE_PASS;
	veil_freshen(v);
	/* What most keys are, first: an entry of the folder that was asked about last, where no rule lies. Checked by who decodes it. */
	if (v->quiet && key_bytes.size > 9 && key_bytes.bytes[0] == KIND_ENTRY && get_be64(key_bytes.bytes + 1) == v->quiet &&
	    !entry_is_link(*value)) {
		*out = true;
		return CB_OK;
	}
	CB_TRY(key_parse(key_bytes, &parts, err));
	switch (parts.kind) {
	case KIND_ENTRY:
		return entry_shown(v, &parts, value, room, out, err);
	case KIND_KV:
		*out = veil_ask_key(v, GATE_READ, parts.name) == GATE_PASS;
		return CB_OK;
	case KIND_COUNTERS:
		*out = true; /* gate_count tells what may be told */
		return CB_OK;
	default:
		*out = false;
		if (parts.kind == KIND_NAME && parts.ino != v->last_ino) CB_TRY(name_quiet(v, &parts, out, err));
		if (*out) return CB_OK;
		CB_TRY(veil_ask_node(v, GATE_READ, parts.ino, &answer, err));
		*out = answer == GATE_PASS;
		return CB_OK;
	}
}
