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
	*v = (veil){.cs = cs, .box = box, .path = BUF_INIT(VEIL_PATH_MAX)};
	v->of = (tree_veil){.shows = shows, .context = v};
	veil_who_set(v, who);
	*out = v;
	return CB_OK;
}

static void forget(veil *v)
{
	pmap_done(&v->folders);
	v->known_bytes = 0;
	v->last_ino = v->quiet = 0;
	v->of.version = NULL;
}

/* Entries of this folder are shown as they are, but for files with several names. */
static void quiet_set(veil *v, uint64_t ino)
{
	v->quiet = ino;
	v->of.version = v->cs->gate ? &v->cs->gate->version : NULL;
	v->of.as_of = v->version;
	v->of.plain[0] = KIND_ENTRY;
	put_be64(v->of.plain + 1, ino);
	v->of.unless = ENTRY_LINK;
}

void veil_destroy(veil *v)
{
	if (!v) return;
	forget(v);
	pmap_done(&v->overlay);
	pmap_done(&v->delta);
	buf_done(&v->path);
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

tree_view veil_over(veil *v, const tree_view *raw)
{
	v->raw = view_raw(raw);
	tree_view out = v->raw;
	out.veil = &v->of;
	return out;
}

static pmap map_of(const pmap *m)
{
	return m ? *m : PMAP_EMPTY;
}

static void learned_of(veil *v, uint64_t root, pmap overlay, pmap delta, uint64_t version)
{
	pmap old_overlay = v->overlay, old_delta = v->delta;
	v->root = root;
	v->overlay = pmap_ref(&overlay);
	v->delta = pmap_ref(&delta);
	v->version = version;
	v->last_ino = 0;
	pmap_done(&old_overlay);
	pmap_done(&old_delta);
}

/* A transaction that changed more than this is not held for what its veil knew. */
enum { CARRIED_CHANGES_MAX = 1000 };

void veil_know(veil *v, const veil *known)
{
	if (!v || !known || v->box != known->box || strcmp(v->who, known->who) != 0) return;
	if (pmap_count(&known->delta) > CARRIED_CHANGES_MAX) return;
	forget(v);
	v->folders = pmap_ref(&known->folders);
	v->known_bytes = known->known_bytes;
	learned_of(v, known->root, known->overlay, known->delta, known->version);
}

static bool is_known(const veil *v, uint64_t ino)
{
	uint8_t number[8];
	span ignored;
	put_be64(number, ino);
	return pmap_get(&v->folders, span_make(number, sizeof(number)), &ignored) == PMAP_VALUE;
}

/* Does one version of a map have another place for a known folder than the other has? */
static bool places_differ(const veil *v, const pmap *a, const pmap *b)
{
	static const uint8_t kind = KIND_NAME;
	pmap_diff d;
	span k;
	if (a->root == b->root) return false;
	pmap_diff_start(&d, a, b, span_make(&kind, 1));
	while (pmap_diff_next(&d, &k))
		if (k.size < 9 || is_known(v, get_be64(k.bytes + 1))) return true;
	return false;
}

void veil_freshen(veil *v)
{
	uint64_t version = v->cs->gate ? atomic_load(&v->cs->gate->version) : 0;
	pmap overlay = map_of(v->raw.overlay), delta = map_of(v->raw.delta);
	if (version == v->version && v->raw.root == v->root && overlay.root == v->overlay.root && delta.root == v->delta.root)
		return;
	if (v->folders.root && (version != v->version || v->raw.root != v->root || places_differ(v, &v->overlay, &overlay) ||
	                        places_differ(v, &v->delta, &delta)))
		forget(v);
	learned_of(v, v->raw.root, overlay, delta, version);
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
	uint8_t answers[GATE_REMOVE + 1], below;
} folder_row;

static bool folder_known(const veil *v, uint64_t ino, veil_folder *out)
{
	uint8_t number[8];
	span found;
	folder_row row;
	put_be64(number, ino);
	if (pmap_get(&v->folders, span_make(number, sizeof(number)), &found) != PMAP_VALUE) return false;
	memcpy(&row, found.bytes, sizeof(row));
	for (size_t i = 0; i < ARRAY_LEN(row.answers); i++) out->answers[i] = (gate_answer)row.answers[i];
	out->below = (gate_below)row.below;
	out->path = found.size > sizeof(row) ? (const char *)found.bytes + sizeof(row) : NULL;
	return true;
}

static cb_code folder_learn(veil *v, uint64_t ino, veil_folder *f, cb_error *err)
{
	uint8_t number[8];
	folder_row row = {.below = (uint8_t)f->below};
	AUTO_BUF buf value = BUF_INIT(SIZE_MAX);
	put_be64(number, ino);
	for (size_t i = 0; i < ARRAY_LEN(row.answers); i++) row.answers[i] = (uint8_t)f->answers[i];
	CB_TRY(buf_append(&value, &row, sizeof(row), err));
	if (f->path) CB_TRY(buf_append(&value, f->path, strlen(f->path) + 1, err));
	v->known_bytes += value.size + 64;
	CB_TRY(pmap_put(&v->folders, span_make(number, sizeof(number)), buf_span(&value), err));
	(void)folder_known(v, ino, f); /* the path is lent by the map */
	return CB_OK;
}

/* The path of an entry in a folder, in the veil's room; f->path may be there already. */
static cb_code entry_path(veil *v, const veil_folder *f, span name, cb_error *err)
{
	buf_clear(&v->path);
	CB_TRY(buf_append(&v->path, f->path, strlen(f->path), err));
	return path_add(&v->path, name, err);
}

/* What the hook says of a folder whose path is in the veil's room. */
static void folder_ask(veil *v, veil_folder *f, uint64_t parent, span name, uint64_t ino)
{
	gate_request r = {.path = (const char *)v->path.bytes, .name = name, .parent = parent, .ino = ino, .type = CB_DIR};
	f->answers[GATE_READ] = ask(v, &r);
	for (gate_access a = GATE_WRITE; a <= GATE_REMOVE; a++) {
		r.access = a;
		f->answers[a] = f->answers[GATE_READ] == GATE_PASS ? ask(v, &r) : f->answers[GATE_READ];
	}
	f->below = below(v, r.path);
	f->path = f->answers[GATE_READ] == GATE_PASS && f->below != GATE_BELOW_NONE ? r.path : NULL;
}

static cb_code root_folder(veil *v, veil_folder *out, cb_error *err)
{
	if (folder_known(v, INO_ROOT, out)) return CB_OK;
	buf_clear(&v->path);
	CB_TRY(path_add(&v->path, (span){0}, err));
	folder_ask(v, out, 0, (span){0}, INO_ROOT);
	return folder_learn(v, INO_ROOT, out, err);
}

typedef struct way_part {
	uint64_t ino;
	place at;
} way_part;

/* From a known folder down to the one the way began at. */
static cb_code folders_enter(veil *v, const buf *way, veil_folder *f, cb_error *err)
{
	for (size_t i = way->size / sizeof(way_part); i > 0; i--) {
		const way_part *p = (const way_part *)(const void *)way->bytes + (i - 1);
		span name = place_name(&p->at);
		if (f->path) { /* else it is as the one it is in */
			CB_TRY(entry_path(v, f, name, err));
			folder_ask(v, f, p->at.parent, name, p->ino);
		}
		CB_TRY(folder_learn(v, p->ino, f, err));
	}
	return CB_OK;
}

cb_code veil_folder_get(veil *v, uint64_t ino, veil_folder *out, cb_error *err)
{
	if (folder_known(v, ino, out)) return CB_OK;
	AUTO_BUF buf way = BUF_INIT(SIZE_MAX);           /* way_part, from the folder upwards */
	if (v->known_bytes > KNOWN_BYTES_MAX) forget(v); /* a box may have any number of folders, as deep as it likes */
	climb up = climb_from(ino);
	while (up.at != INO_ROOT && !folder_known(v, up.at, out)) {
		way_part p = {.ino = up.at};
		cb_code code = climb_up(&up, &v->raw, &p.at, err);
		if (code == CB_NOTFOUND) { /* detached: no path leads there */
			*out = (veil_folder){{GATE_HIDDEN, GATE_HIDDEN, GATE_HIDDEN, GATE_HIDDEN}, GATE_BELOW_NONE, NULL};
			return CB_OK;
		}
		if (code != CB_OK) return code;
		CB_TRY(buf_append(&way, &p, sizeof(p), err));
	}
	if (up.at == INO_ROOT) CB_TRY(root_folder(v, out, err));
	return folders_enter(v, &way, out, err);
}

/* ---- names and nodes ---- */

cb_code veil_ask_name(veil *v, gate_access access, uint64_t parent, span name, uint64_t ino, cb_type type, gate_answer *out,
                      cb_error *err)
{
	veil_folder f;
	CB_TRY(veil_folder_get(v, parent, &f, err));
	*out = f.answers[access];
	if (veil_folder_speaks(&f)) return CB_OK;
	CB_TRY(entry_path(v, &f, name, err));
	gate_request r = {.path = (const char *)v->path.bytes, .name = name, .parent = parent, .ino = ino, .type = type};
	*out = ask(v, &r); /* to reading */
	if (*out != GATE_PASS || access == GATE_READ) return CB_OK;
	r.access = access;
	*out = ask(v, &r);
	return CB_OK;
}

cb_code veil_ask_at(veil *v, gate_access access, uint64_t parent, span name, const record *r, bool is_link, gate_answer *out,
                    cb_error *err)
{
	if (is_link || r->ino == INO_ROOT) return veil_ask_node(v, access, r->ino, out, err);
	CB_TRY(veil_ask_name(v, access, parent, name, r->ino, r->type, out, err));
	v->last_ino = r->ino;
	v->last_access = access;
	v->last = *out;
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
	if (access == v->last_access && ino == v->last_ino) {
		*out = v->last;
		return CB_OK;
	}
	names_asking n = {.v = v, .access = access, .ino = ino};
	CB_TRY(inode_keys(&v->raw, ino, KIND_NAME, ask_place, &n, err));
	*out = n.any ? n.answer : GATE_HIDDEN;
	v->last_ino = ino;
	v->last_access = access;
	v->last = *out;
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
	veil_folder f;
	entry e;
	CB_TRY(root_folder(v, &f, err));
	*out = true; /* a box without a root is none: its entries are hidden instead */
	if (f.below != GATE_BELOW_INSIDE) return CB_OK;
	CB_TRY(entry_decode(*value, &e, err));
	times_masked(&e, value, room);
	return CB_OK;
}

/* Where rules lie below a folder that is an entry of f. */
static cb_code below_entry(veil *v, const veil_folder *f, span name, uint64_t ino, gate_below *out, cb_error *err)
{
	veil_folder in;
	if (folder_known(v, ino, &in)) {
		*out = in.below;
		return CB_OK;
	}
	CB_TRY(entry_path(v, f, name, err));
	*out = below(v, (const char *)v->path.bytes);
	return CB_OK;
}

static cb_code entry_shown(veil *v, const key_parts *k, span *value, tree_value *room, bool *out, cb_error *err)
{
	if (k->ino == 0) return root_shown(v, value, room, out, err);
	veil_folder f;
	entry e;
	gate_answer answer = GATE_PASS;
	gate_below inside = GATE_BELOW_NONE;
	bool link = entry_is_link(*value);
	CB_TRY(veil_folder_get(v, k->ino, &f, err));
	*out = f.answers[GATE_READ] == GATE_PASS;
	if (veil_folder_quiet(&f)) quiet_set(v, k->ino);
	if (!*out || (!link && f.below == GATE_BELOW_NONE)) return CB_OK;
	CB_TRY(entry_decode(*value, &e, err));
	if (link) CB_TRY(veil_ask_node(v, GATE_READ, e.rec.ino, &answer, err));
	else if (!veil_folder_speaks(&f)) CB_TRY(veil_ask_name(v, GATE_READ, k->ino, k->name, e.rec.ino, e.rec.type, &answer, err));
	*out = answer == GATE_PASS;
	if (!*out || link || e.rec.type != CB_DIR) return CB_OK;
	CB_TRY(below_entry(v, &f, k->name, e.rec.ino, &inside, err));
	if (inside == GATE_BELOW_INSIDE) times_masked(&e, value, room);
	return CB_OK;
}

/* The only name of a node in a folder that speaks for it: without asking for others, of which there are none. *out is only ever set. */
static cb_code name_quiet(veil *v, const key_parts *k, bool *out, cb_error *err)
{
	if (k->parent != v->quiet || !v->quiet) {
		veil_folder f;
		CB_TRY(veil_folder_get(v, k->parent, &f, err));
		if (f.answers[GATE_READ] != GATE_PASS || !veil_folder_speaks(&f)) return CB_OK;
		if (veil_folder_quiet(&f)) quiet_set(v, k->parent);
	}
	key at = key_entry(k->parent, k->name);
	tree_value entry_value;
	cb_code code = tree_get(&v->raw, key_span(&at), &entry_value, err);
	if (code == CB_OK) *out = !entry_is_link(span_make(entry_value.bytes, entry_value.size));
	if (*out) {
		v->last_ino = k->ino;
		v->last_access = GATE_READ;
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
		if (parts.kind == KIND_NAME && !(parts.ino == v->last_ino && v->last_access == GATE_READ))
			CB_TRY(name_quiet(v, &parts, out, err));
		if (*out) return CB_OK;
		CB_TRY(veil_ask_node(v, GATE_READ, parts.ino, &answer, err));
		*out = answer == GATE_PASS;
		return CB_OK;
	}
}
